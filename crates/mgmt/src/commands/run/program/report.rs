//! Program state reporting: what of a running program is frozen, missing or invalid, said once when it changes.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgmt_health::{FailedValue, MAX_LISTED, ProgramState, bounded_error};
use mgmt_lang::{Diagnostic, FrozenPart, Running, Sources, Span};
use tokio::time::Instant;

use super::super::Means;
use crate::failure::Failure;
use crate::program;

/// How long the first graph of a program waits for values that are not there yet. Then the rest of the program runs without them.
const FIRST_GRAPH_GRACE: Duration = Duration::from_secs(10);

/// After this time without a value, and again after each of the following, the log names the values that are waited for.
const PENDING_NOTICES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(600)];

/// After the last of those, the log names them this often.
const PENDING_NOTICE_INTERVAL: Duration = Duration::from_secs(3600);

/// The length to which the text of an expression is cut in messages.
const MAX_EXPRESSION_LEN: usize = 60;

/// The number of resources that a message names.
const MAX_NAMED: usize = 5;

/// The state of a running program, and what was said about it.
pub(super) struct Report {
    means: Means,
    /// The engine has a graph of this program, or of an earlier version.
    has_graph: bool,
    /// The parts of the program without a current value.
    parts: Vec<FrozenPart>,
    conflicts: Vec<Diagnostic>,
    /// Why there is no graph at all, or why the engine refuses it.
    no_graph: Option<String>,
    /// Since when, and why, the newest text is not what runs.
    invalid: Option<(u64, String)>,
    stale_since: Option<u64>,
    /// When the values that are missing now began to be missing, and how often that was said.
    pending: Option<(Instant, usize)>,
    last: ProgramState,
}

impl Report {
    pub(super) fn new(means: Means) -> Report {
        Report {
            means,
            has_graph: false,
            parts: Vec::new(),
            conflicts: Vec::new(),
            no_graph: None,
            invalid: None,
            stale_since: None,
            pending: None,
            last: ProgramState::Starting,
        }
    }

    /// Another version of the program takes the place of the present one.
    pub(super) fn begin(&mut self) {
        self.invalid = None;
        self.parts.clear();
        self.conflicts.clear();
        self.no_graph = None;
        self.pending = None;
    }

    /// Whether the first graph should wait for values that are not there yet.
    pub(super) fn waits(&self, started: Instant) -> bool {
        self.pending.is_some() && started.elapsed() < FIRST_GRAPH_GRACE
    }

    /// When something is to be done about values that are not there yet, if nothing happens before.
    pub(super) fn next_notice(&self, started: Option<Instant>) -> Option<Instant> {
        let (since, said) = self.pending?;
        let after = PENDING_NOTICES.get(said).copied().unwrap_or_else(|| {
            let more = u32::try_from(said + 1 - PENDING_NOTICES.len()).unwrap_or(u32::MAX);
            PENDING_NOTICES[PENDING_NOTICES.len() - 1] + PENDING_NOTICE_INTERVAL * more
        });
        let notice = since + after;
        Some(started.map_or(notice, |started| notice.min(started + FIRST_GRAPH_GRACE)))
    }

    /// Names the values that are waited for, if that is due.
    pub(super) fn say_pending(&mut self, sources: &Sources) {
        let is_due = self.next_notice(None).is_some_and(|due| due <= Instant::now());
        let Some((since, said)) = self.pending.as_mut().filter(|_| is_due) else { return };
        *said += 1;
        let waited = since.elapsed().as_secs();
        for part in self.parts.iter().filter(|part| part.error.is_none()) {
            let (position, expression) = (position(sources, part.span), expression(sources, part.span));
            let until = match (part.frozen.as_slice(), part.missing.as_slice()) {
                ([], []) => String::new(),
                ([], missing) => format!("; not there yet: {}", listed(missing)),
                (frozen, _) => format!("; frozen: {}", listed(&names(frozen))),
            };
            tracing::warn!("{position}: `{expression}` has no value after {waited}s{until}");
        }
    }

    /// Takes over what has changed since the last stabilization, and says what is new.
    pub(super) fn stabilized(&mut self, running: &mut Running, sources: &Sources) {
        if let Some(parts) = running.frozen_parts() {
            let old = std::mem::replace(&mut self.parts, parts);
            let incomplete = self.parts.iter().any(|part| !part.missing.is_empty());
            self.means.host.incomplete.store(incomplete, Ordering::Release);
            let is_in = |parts: &[FrozenPart], error: &Diagnostic| {
                parts.iter().any(|part| part.error.as_ref() == Some(error))
            };
            for part in &self.parts {
                if let Some(error) = part.error.as_ref().filter(|error| !is_in(&old, error)) {
                    self.show_failed(part, error, sources);
                }
            }
            for part in &old {
                let is_open = self.parts.iter().any(|new| new.span == part.span);
                if part.error.is_some() && !is_open {
                    let (position, expression) =
                        (position(sources, part.span), expression(sources, part.span));
                    tracing::info!("{position}: `{expression}` has a value again");
                }
            }
            self.pending = match self.parts.iter().any(|part| part.error.is_none()) {
                true => self.pending.or_else(|| Some((Instant::now(), 0))),
                false => None,
            };
        }
        if running.conflicts() != self.conflicts {
            self.conflicts = running.conflicts().to_vec();
            for conflict in &self.conflicts {
                let (message, place) =
                    (&conflict.message, conflict.span().map(|span| position(sources, span)));
                tracing::warn!(
                    "{}: {message}, next to frozen resources; keeping what was declared before",
                    place.unwrap_or_default()
                );
            }
        }
    }

    fn show_failed(&self, part: &FrozenPart, error: &Diagnostic, sources: &Sources) {
        let mut shown = error.clone();
        if !part.frozen.is_empty() {
            let frozen = listed(&names(&part.frozen));
            shown.hints.push(format!("frozen until it has a value again: {frozen}"));
        }
        // What nothing can change will never be there.
        if !part.missing.is_empty() && !part.is_final {
            shown.hints.push(format!("not there until it has a value: {}", listed(&part.missing)));
        }
        program::show([&shown], sources, &self.means.terminal);
    }

    /// There is no graph, for these reasons.
    pub(super) fn wrong(&mut self, wrong: &[Diagnostic], sources: &Sources) -> Failure {
        let text = match wrong.first() {
            Some(first) => described(first, sources),
            None => "the program is nested too deep for the memory that there is".to_owned(),
        };
        if self.no_graph.as_ref() != Some(&text) {
            // The error of a failed value was shown with the value.
            let is_shown =
                |error: &&Diagnostic| self.parts.iter().any(|part| part.error.as_ref() == Some(*error));
            program::show(wrong.iter().filter(|error| !is_shown(error)), sources, &self.means.terminal);
            self.keeps();
        }
        self.no_graph = Some(text.clone());
        Failure::shown_as(crate::commands::exit_codes::FAILED, text)
    }

    /// The engine refuses a graph.
    pub(super) fn refused(&mut self, failure: &Failure) {
        let error = match failure.message.as_str() {
            "" => "the graph cannot run".to_owned(),
            message => message.to_owned(),
        };
        if self.no_graph.as_ref() != Some(&error) {
            if self.has_graph {
                self.means.terminal.failure(failure);
            }
            self.keeps();
        }
        self.no_graph = Some(error);
    }

    fn keeps(&self) {
        if self.has_graph {
            tracing::error!("evaluation failed; keeping the last good graph");
        }
    }

    /// The engine has what the program declares.
    pub(super) fn taken(&mut self) {
        self.has_graph = true;
        self.no_graph = None;
    }

    /// The newest text cannot run.
    pub(super) fn invalid(&mut self, error: String) {
        match self.has_graph {
            true => tracing::error!("program has errors; still running the previous version"),
            false => tracing::error!("program has errors; nothing runs yet"),
        }
        let since = self.invalid.as_ref().map_or_else(now, |(since, _)| *since);
        self.invalid = Some((since, error));
    }

    /// The newest text is again the one that runs.
    pub(super) fn valid(&mut self) {
        self.invalid = None;
    }

    /// Tells others of the state, if it is another one.
    pub(super) fn tell(&mut self, sources: &Sources) {
        let state = self.state(sources);
        if state != self.last {
            self.last = state.clone();
            self.means.report_program(state);
        }
    }

    fn state(&mut self, sources: &Sources) -> ProgramState {
        if let Some((since, error)) = &self.invalid {
            return ProgramState::Invalid { since: *since, error: bounded_error(error).to_owned() };
        }
        let values = self.failed_values(sources);
        let conflict = self.conflicts.first().map(|found| described(found, sources));
        let first = values.first().map(|value| format!("{}: {}", value.position, value.error));
        let Some(error) = self.no_graph.clone().or(first).or(conflict) else {
            self.stale_since = None;
            return match self.has_graph && self.pending.is_none() {
                true => ProgramState::Live,
                false => ProgramState::Starting,
            };
        };
        let since = *self.stale_since.get_or_insert_with(now);
        ProgramState::Stale { since, error: bounded_error(&error).to_owned(), values }
    }

    fn failed_values(&self, sources: &Sources) -> Vec<FailedValue> {
        let value = |part: &FrozenPart| {
            let error = part.error.as_ref()?;
            Some(FailedValue {
                expression: expression(sources, part.span),
                position: position(sources, part.span),
                error: bounded_error(&error.message).to_owned(),
                frozen: part.frozen.iter().take(MAX_LISTED).map(ToString::to_string).collect(),
            })
        };
        self.parts.iter().filter_map(value).take(MAX_LISTED).collect()
    }
}

/// An error with its place.
pub(super) fn described(found: &Diagnostic, sources: &Sources) -> String {
    match found.span() {
        Some(span) => format!("{}: {}", position(sources, span), found.message),
        None => found.message.clone(),
    }
}

fn position(sources: &Sources, span: Span) -> String {
    let (file, line, column) = sources.position(span);
    format!("{file}:{line}:{column}")
}

/// The text of an expression on one line, cut if it is long.
fn expression(sources: &Sources, span: Span) -> String {
    let text: Vec<&str> = sources.text(span).split_whitespace().collect();
    let text = text.join(" ");
    match text.char_indices().nth(MAX_EXPRESSION_LEN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn names(ids: &[mgmt_resource::Id]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

/// Some names, and how many more there are.
fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let named = names.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match more {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
