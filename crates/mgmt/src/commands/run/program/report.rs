//! Program state reporting: what of a running program is frozen, missing or invalid, said once when it changes.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgmt_diagnostics::{Diagnostic, SourceMap, Span};
use mgmt_health::{FailedValue, OpenValues, PendingValue, ProgramState, bounded_error};
use mgmt_lang::{FrozenPart, Running};
use tokio::time::Instant;

use super::super::Means;
use crate::failure::Failure;
use crate::program::values::{expression, listed, names, position, until};
use crate::terminal::Terminal;

/// How long the first graph of a program waits for values that are not there yet. Then the rest of the program runs without them. A
/// program with a value that is not there for longer is reported as waiting.
const PENDING_GRACE: Duration = Duration::from_secs(10);

/// After this time without a value, and again after each of the following, the log names the values that are waited for.
const PENDING_NOTICES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60), Duration::from_secs(600)];

/// After the last of those, the log names them this often.
const PENDING_NOTICE_INTERVAL: Duration = Duration::from_secs(3600);

/// A value that is waited for.
#[derive(Clone, Copy)]
struct Pending {
    since: Instant,
    /// The same, in seconds since 1970.
    since_1970: u64,
    /// The number of notices that are behind it.
    notices: usize,
}

impl Pending {
    fn new() -> Pending {
        Pending { since: Instant::now(), since_1970: now(), notices: 0 }
    }

    /// When the log names it next.
    fn next_notice(&self) -> Instant {
        let after = PENDING_NOTICES.get(self.notices).copied().unwrap_or_else(|| {
            let more = u32::try_from(self.notices + 1 - PENDING_NOTICES.len()).unwrap_or(u32::MAX);
            PENDING_NOTICES[PENDING_NOTICES.len() - 1] + PENDING_NOTICE_INTERVAL.saturating_mul(more)
        });
        self.since + after
    }

    /// Whether the log is to name it now. If it is late, what it missed is not made up for.
    fn take_notice(&mut self, now: Instant) -> bool {
        let is_due = self.next_notice() <= now;
        while self.next_notice() <= now {
            self.notices += 1;
        }
        is_due
    }
}

/// The state of a running program, and what was said about it.
pub(super) struct Report {
    means: Means,
    /// Where errors are shown: until the program has run once, as when it was read.
    terminal: Terminal,
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
    /// The values that are waited for, by their places.
    pending: BTreeMap<Span, Pending>,
    /// The first graph does not wait for them any more.
    is_grace_over: bool,
    /// Something that the program declares has never been evaluated; and whether that is so for the graph that the engine has.
    is_incomplete: bool,
    graph_is_incomplete: bool,
    /// Since when values have failed, by their places.
    failed: BTreeMap<Span, u64>,
    last: (ProgramState, OpenValues),
}

impl Report {
    pub(super) fn new(means: Means, terminal: Terminal) -> Report {
        Report {
            means,
            terminal,
            has_graph: false,
            parts: Vec::new(),
            conflicts: Vec::new(),
            no_graph: None,
            invalid: None,
            stale_since: None,
            pending: BTreeMap::new(),
            is_grace_over: false,
            is_incomplete: false,
            graph_is_incomplete: false,
            failed: BTreeMap::new(),
            last: Default::default(),
        }
    }

    /// Another version of the program takes the place of the present one.
    pub(super) fn begin(&mut self) {
        self.invalid = None;
        self.parts.clear();
        self.conflicts.clear();
        self.no_graph = None;
        self.pending.clear();
        self.failed.clear();
        self.is_grace_over = false;
    }

    /// Whether the first graph should wait for values that are not there yet.
    pub(super) fn waits(&mut self, started: Instant) -> bool {
        self.is_grace_over = started.elapsed() >= PENDING_GRACE;
        !self.pending.is_empty() && !self.is_grace_over
    }

    /// The engine is about to be given a graph of this program.
    pub(super) fn hands_over(&self) {
        self.means.host.incomplete.store(self.is_incomplete, Ordering::Release);
    }

    /// The engine has a graph of this program, or of an earlier version.
    pub(super) fn has_graph(&self) -> bool {
        self.has_graph
    }

    /// Whether the engine needs the whole graph, because it says something else about what is not declared than the last one.
    pub(super) fn needs_graph(&self) -> bool {
        self.has_graph && self.is_incomplete != self.graph_is_incomplete
    }

    /// When something is to be done about values that are not there yet, if nothing happens before.
    pub(super) fn next_notice(&self, started: Option<Instant>) -> Option<Instant> {
        let notice = self.pending.values().map(Pending::next_notice).min()?;
        let started = started.filter(|_| !self.is_grace_over);
        Some(started.map_or(notice, |started| notice.min(started + PENDING_GRACE)))
    }

    /// Names the values that are waited for, each when that is due.
    pub(super) fn say_pending(&mut self, sources: &SourceMap) {
        let now = Instant::now();
        for part in self.parts.iter().filter(|part| part.error.is_none()) {
            let Some(pending) = self.pending.get_mut(&part.span) else { continue };
            if !pending.take_notice(now) {
                continue;
            }
            let waited = pending.since.elapsed().as_secs();
            let (position, expression) = (position(sources, part.span), expression(sources, part.span));
            let until = until(part).map(|until| format!("; {until}")).unwrap_or_default();
            tracing::warn!("{position}: `{expression}` has no value after {waited}s{until}");
        }
    }

    /// Takes over what has changed since the last stabilization, and says what is new.
    pub(super) fn stabilized(&mut self, running: &mut Running, sources: &SourceMap) {
        if let Some(parts) = running.frozen_parts() {
            let old = std::mem::replace(&mut self.parts, parts);
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
                    let again = if part.is_unwatched { "is watched again" } else { "has a value again" };
                    tracing::info!("{position}: `{expression}` {again}");
                }
            }
            let waited_for = self.parts.iter().filter(|part| part.error.is_none()).map(|part| part.span);
            let known = |span: Span| self.pending.get(&span).copied().unwrap_or_else(Pending::new);
            self.pending = waited_for.map(|span| (span, known(span))).collect();
            let failed = self.parts.iter().filter(|part| part.error.is_some()).map(|part| part.span);
            let since = |span: Span| self.failed.get(&span).copied().unwrap_or_else(now);
            self.failed = failed.map(|span| (span, since(span))).collect();
        }
        self.is_incomplete = self.parts.iter().any(|part| !part.missing.is_empty());
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

    fn show_failed(&self, part: &FrozenPart, error: &Diagnostic, sources: &SourceMap) {
        let mut shown = error.clone();
        if !part.frozen.is_empty() {
            let frozen = listed(&names(&part.frozen));
            shown.hints.push(match part {
                FrozenPart { is_unwatched: true, .. } => {
                    format!("may be outdated until it is watched again: {frozen}")
                }
                FrozenPart { is_final: true, .. } => {
                    format!("kept as last declared until the program is edited: {frozen}")
                }
                _ => format!("frozen until it has a value again: {frozen}"),
            });
        }
        // What nothing can change will never be there.
        if !part.missing.is_empty() && !part.is_final {
            shown.hints.push(format!("not there until it has a value: {}", listed(&part.missing)));
        }
        self.terminal.diagnostics([&shown], sources);
    }

    /// There is no graph, for these reasons.
    pub(super) fn wrong(&mut self, wrong: &[Diagnostic], sources: &SourceMap) -> Failure {
        let text = match wrong.first() {
            Some(first) => described(first, sources),
            None => "the program is nested too deep for the memory that there is".to_owned(),
        };
        if self.no_graph.as_ref() != Some(&text) {
            // The error of a failed value was shown with the value.
            let is_shown =
                |error: &&Diagnostic| self.parts.iter().any(|part| part.error.as_ref() == Some(*error));
            self.terminal.diagnostics(wrong.iter().filter(|error| !is_shown(error)), sources);
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
    pub(super) fn taken(&mut self, sources: &SourceMap) {
        self.has_graph = true;
        self.no_graph = None;
        self.graph_is_incomplete = self.is_incomplete;
        if self.terminal.is_silent() {
            // What was shown at an earlier attempt is from now on about what runs.
            self.terminal = self.means.terminal.clone();
            for part in &self.parts {
                if let Some(error) = &part.error {
                    self.show_failed(part, error, sources);
                }
            }
        }
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

    /// Reports the state and the values that have failed or are waited for, if they are others.
    pub(super) fn tell(&mut self, sources: &SourceMap) {
        let values = OpenValues {
            failed: self.failed_values(sources),
            pending: self.waited_for(sources),
            truncated: 0,
        };
        let state = (self.state(&values, sources), values);
        if state != self.last {
            self.last = state.clone();
            self.means.report_program(state.0, state.1);
        }
    }

    fn state(&mut self, values: &OpenValues, sources: &SourceMap) -> ProgramState {
        let conflict = self.conflicts.first().map(|found| described(found, sources));
        let first = values.failed.first().map(|value| format!("{}: {}", value.position, value.error));
        let stale = self.no_graph.clone().or(first).or(conflict);
        let since = match &stale {
            Some(_) => *self.stale_since.get_or_insert_with(now),
            None => {
                self.stale_since = None;
                0
            }
        };
        // What keeps the newest text from running comes first; the values are reported beside it.
        if let Some((since, error)) = &self.invalid {
            return ProgramState::Invalid { since: *since, error: bounded_error(error).to_owned() };
        }
        if let Some(error) = stale {
            // Without a graph, all that runs is as it was last declared. The other half of a graph may go on.
            let whole = self.no_graph.is_some() && self.has_graph && self.means.half.is_none();
            return ProgramState::Stale { since, error: bounded_error(&error).to_owned(), whole };
        }
        match values.pending.iter().map(|value| value.since).min() {
            Some(since) => ProgramState::Waiting { since },
            None if self.has_graph && self.pending.is_empty() => ProgramState::Live,
            None => ProgramState::Starting,
        }
    }

    fn failed_values(&self, sources: &SourceMap) -> Vec<FailedValue> {
        let value = |part: &FrozenPart| {
            let error = part.error.as_ref()?;
            Some(FailedValue {
                expression: expression(sources, part.span),
                position: position(sources, part.span),
                since: self.failed.get(&part.span).copied().unwrap_or_else(now),
                error: bounded_error(&error.message).to_owned(),
                frozen: part.frozen.iter().map(ToString::to_string).collect(),
                missing: part.missing.clone(),
            })
        };
        self.parts.iter().filter_map(value).collect()
    }

    /// The values that are waited for, longer than they may take.
    fn waited_for(&self, sources: &SourceMap) -> Vec<PendingValue> {
        let value = |part: &FrozenPart| {
            let pending = self.pending.get(&part.span)?;
            let is_late = part.error.is_none() && pending.since.elapsed() >= PENDING_GRACE;
            is_late.then(|| PendingValue {
                expression: expression(sources, part.span),
                position: position(sources, part.span),
                since: pending.since_1970,
                frozen: part.frozen.iter().map(ToString::to_string).collect(),
                missing: part.missing.clone(),
            })
        };
        self.parts.iter().filter_map(value).collect()
    }
}

/// An error with its place.
pub(super) fn described(found: &Diagnostic, sources: &SourceMap) -> String {
    match found.span() {
        Some(span) => format!("{}: {}", position(sources, span), found.message),
        None => found.message.clone(),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
