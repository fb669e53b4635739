//! Convergence: has the graph come to rest, for how long, and with every vertex in its declared state?

use super::Action;

/// Checks of a graph at rest may take this long in a row. What takes longer may be a repair.
const MAX_BUSY_AT_REST: u64 = 1_000_000_000;

/// Counts busy vertices and remembers when something last happened.
///
/// Something happens when a run changes something, when a vertex begins to fail or recovers, and when the graph changes. A check
/// that finds everything right is nothing, so neither a chatty watch nor a poll keeps a graph from coming to rest; nor does an
/// attempt that fails again, nor a vertex that waits behind it, nor one that only looks. But a graph that is busy for
/// [`MAX_BUSY_AT_REST`] is not at rest while that lasts.
#[derive(Debug)]
pub(super) struct Convergence {
    after: Option<u64>,
    busy: usize,
    /// Since when at least one vertex has been busy.
    busy_since: Option<u64>,
    /// Vertices that are not in their declared state.
    unwell: usize,
    last_activity: u64,
    /// Something has happened since the state was last evaluated.
    stirred: bool,
    /// A graph has been given. Before that there is nothing to converge.
    started: bool,
    rest: Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Something is under way, or has happened too recently.
    Active,
    /// Nothing is under way but retries, and not everything is well: so many are not, and of them so many are failing.
    Quiet { failing: usize, unwell: usize },
    /// Nothing is under way, and everything is well.
    Converged,
}

impl Convergence {
    pub(super) fn new(after: Option<u64>, now: u64) -> Convergence {
        Convergence {
            after,
            busy: 0,
            busy_since: None,
            unwell: 0,
            last_activity: now,
            stirred: false,
            started: false,
            rest: Rest::Active,
        }
    }

    pub(super) fn count(&mut self, was_busy: bool, is_busy: bool) {
        self.busy = self.busy + usize::from(is_busy) - usize::from(was_busy);
    }

    pub(super) fn count_unwell(&mut self, was_unwell: bool, is_unwell: bool) {
        self.unwell = self.unwell + usize::from(is_unwell) - usize::from(was_unwell);
    }

    pub(super) fn active(&mut self, now: u64) {
        self.last_activity = now;
        self.stirred = true;
    }

    /// The first graph is here.
    pub(super) fn start(&mut self, now: u64) {
        if !std::mem::replace(&mut self.started, true) {
            self.last_activity = now;
        }
    }

    pub(super) fn busy(&self) -> usize {
        self.busy
    }

    pub(super) fn unwell(&self) -> usize {
        self.unwell
    }

    pub(super) fn is_converged(&self) -> bool {
        self.rest == Rest::Converged
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.rest != Rest::Active
    }

    fn due(&self) -> Option<u64> {
        self.after.filter(|_| self.started).map(|after| self.last_activity.saturating_add(after))
    }

    /// When to look again: while nothing is busy and not yet for long enough, and while something is busy at rest and not yet for
    /// too long.
    pub(super) fn deadline(&self) -> Option<u64> {
        match (self.rest, self.busy) {
            (Rest::Active, 0) => self.due(),
            (Rest::Active, _) => None,
            (_, _) => self.busy_since.map(|since| since.saturating_add(MAX_BUSY_AT_REST)),
        }
    }

    /// Notes since when something is busy, at the end of every input.
    pub(super) fn note_busy(&mut self, now: u64) {
        self.busy_since = (self.busy > 0).then(|| self.busy_since.unwrap_or(now));
    }

    /// The change of state, if there is one. `failing`: so many vertices are.
    pub(super) fn evaluate(&mut self, now: u64, failing: usize) -> Option<Action> {
        let due = self.due()?;
        let overdue = self.busy_since.is_some_and(|since| now.saturating_sub(since) >= MAX_BUSY_AT_REST);
        // What happened during a pause may be long ago, and with no waiting time at all nothing is recent.
        let stirred = std::mem::take(&mut self.stirred);
        let works = self.busy > 0 && (stirred || overdue);
        if self.is_at_rest() && (due > now || works) {
            self.rest = Rest::Active;
            return Some(Action::Diverged);
        }
        if self.busy > 0 || due > now {
            return None;
        }
        let (rest, action) = match self.unwell {
            0 => (Rest::Converged, Action::Converged),
            unwell => (Rest::Quiet { failing, unwell }, Action::Quiet { failing, unwell }),
        };
        (std::mem::replace(&mut self.rest, rest) != rest).then_some(action)
    }
}
