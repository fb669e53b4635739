//! `mgmt history`: what was changed on this host, when and why.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp, Zoned};
use mgmt_history::{CauseRecord, EffectRecord, Outcome, Record, ValueRecord};
use mgmt_telemetry::{Format, escape, json_line};
use serde_json::{Value as Json, json};

use crate::connection;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Where the history is, in the working directory of a run.
pub(crate) const DIRECTORY: &str = "history";

/// Show what was changed on this host, when and why
///
/// Every change that a run has made is kept in its working directory: the newest 32 MiB. Failures are there too, each once
/// for as long as it stays the same, with the recovery, and so are resources that something else undoes again and again, and the
/// states of the host: when it became degraded or stale, and when it converged after that.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only what concerns this resource, as `kind[name]` or by its name, or what was changed in this path
    #[arg(value_name = "RESOURCE")]
    about: Option<String>,

    /// Only what is not older: `10m`, `2h`, `3d`, or a moment such as `2026-11-16T08:00`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// No more than so many of the newest
    #[arg(long, short = 'n', value_name = "COUNT")]
    limit: Option<usize>,

    /// Show how texts were changed, too
    #[arg(long)]
    diff: bool,

    /// The working directory of the run [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    /// The same as `--message-format`, for this command
    #[arg(long, value_name = "FORMAT")]
    format: Option<Written>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Written {
    /// Lines for people
    Human,
    /// One JSON object
    Json,
}

impl Written {
    pub(crate) fn or(written: Option<Written>, terminal: &Terminal) -> Format {
        match written {
            Some(Written::Human) => Format::Human,
            Some(Written::Json) => Format::Json,
            None => terminal.format(),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let since = arguments.since.as_deref().map(moment).transpose()?;
    let most = arguments.limit.unwrap_or(usize::MAX);
    let mut found: VecDeque<Record> = VecDeque::new();
    read(arguments.prefix.as_deref(), terminal, |record| {
        let wanted = since.is_none_or(|since| record.time >= since)
            && arguments.about.as_deref().is_none_or(|about| record.is_about(about));
        if wanted {
            found.push_back(record);
        }
        if found.len() > most {
            found.pop_front();
        }
    })?;
    match Written::or(arguments.format, terminal) {
        Format::Json => {
            let records: Vec<Json> = found.iter().map(described).collect();
            terminal.data(&json_line(&json!({ "type": "history", "format_version": 1, "changes": records })));
        }
        Format::Human if found.is_empty() => terminal.data("nothing was changed\n"),
        Format::Human => {
            for record in &found {
                terminal.data(&lines(record, arguments.diff));
            }
        }
    }
    Ok(Exit::OK)
}

/// Shows every record of this host, the oldest first, and warns of those that are damaged.
pub(crate) fn read(
    prefix: Option<&Path>,
    terminal: &Terminal,
    show: impl FnMut(Record),
) -> Result<(), Failure> {
    let directory = connection::working_directory(prefix)?.join(DIRECTORY);
    let damaged = mgmt_history::read(&directory, show)
        .map_err(|error| Failure::failed(format!("cannot read {}: {error}", directory.display())))?;
    if damaged > 0 {
        let records = if damaged == 1 { "1 record is" } else { &format!("{damaged} records are") };
        terminal.warning(&format!("{}: {records} damaged and left out", directory.display()));
    }
    Ok(())
}

/// A record as JSON. There is nothing in it that has no such form.
pub(crate) fn described(record: &Record) -> Json {
    serde_json::to_value(record).unwrap_or_default()
}

/// The moment that a text means.
fn moment(text: &str) -> Result<Timestamp, Failure> {
    let now = Zoned::now();
    if let Ok(span) = text.parse::<jiff::Span>() {
        let past = if span.is_negative() { now.checked_add(span) } else { now.checked_sub(span) };
        if let Ok(past) = past {
            return Ok(past.timestamp());
        }
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    let local =
        text.parse::<jiff::civil::DateTime>().and_then(|local| local.to_zoned(now.time_zone().clone()));
    local.map(|moment| moment.timestamp()).map_err(|_| {
        Failure::usage(format!("`--since {text}` is no time"))
            .hint("give how long ago, such as `10m`, `2h` or `3d`, or a moment, such as `2026-11-16T08:00`")
    })
}

/// A record for people.
fn lines(record: &Record, diff: bool) -> String {
    let mut text = format!("{}\n", headline(record));
    for cause in &record.causes {
        chain(cause).iter().for_each(|link| text += &format!("    because {link}\n"));
    }
    for effect in &record.effects {
        text += &format!("    {}\n", effect_line(effect));
        if diff {
            text += &indented_diff(effect, 6);
        }
    }
    text
}

/// When, who, what.
pub(crate) fn headline(record: &Record) -> String {
    let when =
        record.time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.3f").to_string();
    let resource = escape(&record.resource);
    let mut line = match record.outcome {
        Outcome::Changed => format!("{when}  {resource} changed in {}", duration(record.took)),
        // The watch, or what comes before a run.
        Outcome::Failed if record.took == 0 => format!("{when}  {resource} failed"),
        Outcome::Failed => format!("{when}  {resource} failed after {}", duration(record.took)),
        Outcome::Undone => format!("{when}  {resource} is undone"),
        Outcome::Recovered => format!("{when}  {resource} recovered"),
        Outcome::State => format!("{when}  {resource} is in another state"),
    };
    if let Some(deploy) = record.deploy {
        line += &format!(", deploy {deploy}");
    }
    if let Some(message) = &record.message {
        line += &format!(": {}", escape(message));
    }
    line
}

fn duration(microseconds: u64) -> String {
    let microseconds = i64::try_from(microseconds).unwrap_or(i64::MAX);
    format!("{:.1?}", SignedDuration::from_micros(microseconds).unsigned_abs())
}

pub(crate) fn effect_line(effect: &EffectRecord) -> String {
    match &effect.resource {
        Some(member) => format!("{}: {}", escape(member), effect.effect),
        None => effect.effect.to_string(),
    }
}

/// How a text changed, every line harmless.
pub(crate) fn indented_diff(effect: &EffectRecord, indent: usize) -> String {
    let lines = effect.diff.iter().flat_map(|diff| diff.lines());
    lines.map(|line| format!("{:indent$}{}\n", "", escape(line))).collect()
}

/// A cause in words, from what happened to what is declared differently.
pub(crate) fn chain(cause: &CauseRecord) -> Vec<String> {
    match cause {
        CauseRecord::Declared { values } => {
            let declared = "it is declared, and was not before".to_owned();
            values.iter().map(value_line).chain([declared]).collect()
        }
        CauseRecord::Redeclared { values, fields } => {
            let fields = fields.iter().map(|field| {
                let whose =
                    field.resource.as_ref().map_or_else(String::new, |id| format!("{}: ", escape(id)));
                format!(
                    "{whose}`{}` {}",
                    field.field,
                    became(field.before.as_deref(), field.after.as_deref())
                )
            });
            let mut chain: Vec<String> = values.iter().map(value_line).chain(fields).collect();
            if chain.is_empty() {
                chain.push("it is declared differently than before".to_owned());
            }
            chain
        }
        CauseRecord::Event { sources } => match &sources[..] {
            [] => vec!["something happened to it".to_owned()],
            [source] => vec![format!("something happened: {}", escape(source))],
            sources => {
                let sources: Vec<_> = sources.iter().map(|source| escape(source)).collect();
                vec![format!("something happened to one of: {}", sources.join(", "))]
            }
        },
        CauseRecord::Notified { by } => {
            by.iter().map(|by| format!("{} has changed something, and notifies it", escape(by))).collect()
        }
        CauseRecord::Received { fields } => fields
            .iter()
            .map(|handed| format!("{} has sent another `{}`", escape(&handed.from), handed.field))
            .collect(),
        CauseRecord::Retried { attempts } => vec![format!("{attempts} attempts before have failed")],
    }
}

fn value_line(value: &ValueRecord) -> String {
    let at = value.at.as_ref().map_or_else(String::new, |at| format!(" at {}", escape(at)));
    let event =
        value.event.as_ref().map_or_else(String::new, |event| format!(" (woken by {})", escape(event)));
    let became = became(value.before.as_deref(), value.after.as_deref());
    format!("{}{at} {became}{event}", escape(&value.function))
}

fn became(before: Option<&str>, after: Option<&str>) -> String {
    match (before, after) {
        (Some(before), Some(after)) => format!("became {}, was {}", escape(after), escape(before)),
        (None, Some(after)) => format!("became {}", escape(after)),
        (Some(before), None) => format!("went, was {}", escape(before)),
        (None, None) => "became another; what it is, is not shown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_while_ago_or_a_moment() {
        let now = Timestamp::now();
        for (text, seconds) in [("10m", 600), ("2h", 7200), ("90 seconds", 90), ("-1m", 60)] {
            let found = moment(text).unwrap_or_else(|_| panic!("{text}"));
            assert!((now.as_second() - found.as_second() - seconds).abs() <= 2, "{text}");
        }
        assert_eq!(moment("2026-11-16T08:00:00Z").ok().map(|t| t.as_second()), Some(1_794_816_000));
        assert!(moment("2026-11-16T08:00").is_ok() && moment("2026-11-16").is_ok());
        assert!(moment("yesterday-ish").is_err() && moment("").is_err());
    }
}
