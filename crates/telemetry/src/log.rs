//! Events of `tracing` as lines.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::{Registry, reload};

use crate::clock::{rfc3339, wall_clock};
use crate::journal::Journal;
use crate::{Escaped, Filter, Format, Output, json_line};

/// How events are shown.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where they go: its notices.
    pub output: Output,
    /// For whom.
    pub format: Format,
    /// With colour.
    pub color: bool,
    /// Which of them.
    pub filter: Filter,
}

/// Shows events from now on: in the journal with their fields if that is where standard error goes and people read it, and
/// else as lines. Only the first call in a process has an effect; the others return false.
pub fn start(settings: Settings) -> bool {
    let given = settings.filter.0.clone();
    let (filter, handle) = reload::Layer::new(given.clone());
    let journal = if settings.format == Format::Human { Journal::of_standard_error() } else { None };
    let shown = match journal {
        Some(journal) => {
            let layer = tracing_subscriber::registry().with(journal.with_filter(filter));
            tracing::subscriber::set_global_default(layer)
        }
        None => {
            let (lines, _) = Lines::new(settings);
            tracing::subscriber::set_global_default(
                tracing_subscriber::registry().with(lines.with_filter(filter)),
            )
        }
    };
    shown.is_ok() && SHOWN.set((given, handle)).is_ok()
}

/// Which events are shown, at first and now.
static SHOWN: OnceLock<(Targets, reload::Handle<Targets, Registry>)> = OnceLock::new();

/// Shows other events from now on; without a filter, those that were shown at first.
pub fn set_filter(filter: Option<Filter>) {
    if let Some((first, handle)) = SHOWN.get() {
        // It fails when nobody shows events any more, at the end of the program.
        let _ = handle.reload(filter.map_or_else(|| first.clone(), |filter| filter.0));
    }
}

struct Lines {
    output: Output,
    format: Format,
    color: bool,
    zone: TimeZone,
}

impl Lines {
    fn new(settings: Settings) -> (Lines, tracing_subscriber::filter::Targets) {
        let Settings { output, format, color, filter } = settings;
        (Lines { output, format, color, zone: TimeZone::system() }, filter.0)
    }

    fn human(&self, moment: Timestamp, event: &Event<'_>, said: &Said) -> String {
        let level = *event.metadata().level();
        let (paint, plain) = if self.color { (color_of(level), "\x1b[0m") } else { ("", "") };
        let mut line = wall_clock(moment, &self.zone);
        // Writing to a string cannot fail, here and below.
        let _ = write!(line, " {paint}{:<5}{plain} ", word(level));
        match &said.resource {
            Some(resource) => {
                let _ = write!(line, "{}: ", Escaped(resource));
            }
            None => {
                let _ = write!(line, "{}: ", Escaped(part_of(event.metadata().target())));
            }
        }
        let _ = write!(line, "{}", Escaped(&said.text()));
        // What is for programs alone would make lines long that people read; the hint is in the text.
        let shown =
            said.fields.iter().filter(|(name, _)| ![MESSAGE_ID, CAUSE, HINT].contains(&name.as_str()));
        for (name, value) in shown {
            let _ = match value {
                Value::String(text) => write!(line, " {name}={}", Escaped(text)),
                value => write!(line, " {name}={value}"),
            };
        }
        line.push('\n');
        line
    }

    fn json(moment: Timestamp, event: &Event<'_>, said: Said) -> String {
        let mut object = Map::new();
        object.insert("type".to_owned(), "log".into());
        object.insert("timestamp".to_owned(), rfc3339(moment).into());
        object.insert("level".to_owned(), word(*event.metadata().level()).into());
        object.insert("target".to_owned(), event.metadata().target().into());
        object.insert("resource".to_owned(), said.resource.into());
        object.insert("message".to_owned(), said.message.into());
        object.insert("fields".to_owned(), said.fields.into());
        json_line(&object.into())
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        let moment = Timestamp::now();
        let line = match self.format {
            Format::Human => self.human(moment, event, &said),
            Format::Json => Lines::json(moment, event, said),
        };
        self.output.notice(&line);
    }
}

/// A field with the number by which the catalogue of the journal knows the message.
pub(crate) const MESSAGE_ID: &str = "message_id";
/// A field with what led to it.
pub(crate) const CAUSE: &str = "cause";
/// A field with what to do about it. People read it behind the message.
const HINT: &str = "hint";

/// The deploy that runs; zero if none does.
static DEPLOY: AtomicU64 = AtomicU64::new(0);

/// Says which deploy runs from now on: entries of the journal have it as a field.
pub fn set_deploy(number: Option<u64>) {
    DEPLOY.store(number.unwrap_or(0), Ordering::Relaxed);
}

pub(crate) fn deploy() -> Option<u64> {
    Some(DEPLOY.load(Ordering::Relaxed)).filter(|number| *number > 0)
}

/// What an event says.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) message: String,
    pub(crate) resource: Option<String>,
    pub(crate) fields: Map<String, Value>,
}

impl Said {
    /// The message with its hint, for people.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self.fields.get(HINT) {
            Some(Value::String(hint)) => format!("{} (hint: {hint})", self.message).into(),
            _ => self.message.as_str().into(),
        }
    }

    fn set(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            "resource" => self.resource = Some(text),
            // Nobody knows.
            CAUSE if text.is_empty() => {}
            name => {
                self.fields.insert(name.to_owned(), Value::String(text));
            }
        }
    }

    fn value(&mut self, field: &Field, value: Value) {
        match field.name() {
            "message" | "resource" => self.set(field, value.to_string()),
            name => {
                self.fields.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.set(field, value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.value(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.value(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.value(field, value.into());
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.value(field, i64::try_from(value).map_or_else(|_| value.to_string().into(), Value::from));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.value(field, u64::try_from(value).map_or_else(|_| value.to_string().into(), Value::from));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.value(field, value.into());
    }
}

/// The part of the program that a target names: `mgmt_engine::driver` and `mgmt::engine` are `engine`, and modules of
/// the program itself are `main`.
pub(crate) fn part_of(target: &str) -> &str {
    let (root, rest) = target.split_once("::").unwrap_or((target, ""));
    match root.strip_prefix("mgmt") {
        Some("") if rest.is_empty() || rest.contains("::") => "main",
        Some("") => rest,
        Some(part) => part.strip_prefix('_').unwrap_or(root),
        None => target,
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

fn color_of(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[1;31m",
        Level::WARN => "\x1b[1;33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[2m",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::Kept;

    fn lines(format: Format, color: bool, filter: &str, say: impl FnOnce()) -> String {
        let kept = Kept::default();
        let output = Output::to(Box::new(std::io::sink()), Box::new(kept.clone()));
        let (lines, filter) = Lines::new(Settings { output, format, color, filter: filter.parse().unwrap() });
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(lines.with_filter(filter)),
            say,
        );
        kept.text()
    }

    #[test]
    fn a_line_for_people_has_time_level_resource_and_message() {
        let text = lines(Format::Human, false, "info", || {
            tracing::info!(target: "mgmt::resource", resource = %"file[/a]", count = 3, "content changed");
            tracing::warn!(target: "mgmt_engine::driver", "slow");
            tracing::warn!(target: "mgmt::engine", "slow");
            tracing::warn!(target: "mgmt::commands::run", "slow");
            tracing::debug!("not shown");
        });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        let (time, rest) = lines[0].split_at(8);
        assert!(time.bytes().enumerate().all(|(at, byte)| if at % 3 == 2 {
            byte == b':'
        } else {
            byte.is_ascii_digit()
        }));
        assert_eq!(rest, " info  file[/a]: content changed count=3");
        assert!(lines[1].ends_with(" warn  engine: slow"), "{text}");
        assert!(lines[2].ends_with(" warn  engine: slow"), "{text}");
        assert!(lines[3].ends_with(" warn  main: slow"), "{text}");
    }

    #[test]
    fn a_line_for_programs_is_one_object() {
        let text = lines(Format::Json, true, "info", || {
            tracing::error!(target: "mgmt_engine", resource = %"exec[x\n]", code = 7_u128, why = "so", "failed\u{1b}");
        });
        let value: Value = serde_json::from_str(text.strip_suffix('\n').unwrap()).unwrap();
        assert_eq!(value["type"], "log");
        assert_eq!(value["level"], "error");
        assert_eq!(value["target"], "mgmt_engine");
        assert_eq!(value["resource"], "exec[x\n]");
        assert_eq!(value["message"], "failed\u{1b}");
        assert_eq!(value["fields"], serde_json::json!({ "code": 7, "why": "so" }));
        assert!(value["timestamp"].as_str().unwrap().ends_with('Z'));
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn a_hint_is_shown_once() {
        let say = || tracing::error!(hint = "write x", count = 3, "no");
        let text = lines(Format::Human, false, "info", say);
        assert!(text.ends_with(": no (hint: write x) count=3\n"), "{text}");
        let text = lines(Format::Json, false, "info", say);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["message"], "no");
        assert_eq!(value["fields"], serde_json::json!({ "hint": "write x", "count": 3 }));
    }

    #[test]
    fn no_resource_can_forge_a_line_or_paint() {
        let name = "file[x\n00:00:00 error fake: \u{1b}[31m\u{9b}1m\r]";
        let text = lines(Format::Human, false, "info", || {
            tracing::info!(resource = %name, detail = name, "{name}");
        });
        assert_eq!(text.matches('\n').count(), 1, "{text:?}");
        assert!(text.trim_end().chars().all(|character| !character.is_control()), "{text:?}");
    }

    #[test]
    fn colour_surrounds_the_level_alone() {
        let text = lines(Format::Human, true, "info", || tracing::error!(target: "mgmt", "no"));
        assert!(text.ends_with(" \u{1b}[1;31merror\u{1b}[0m main: no\n"), "{text:?}");
    }
}
