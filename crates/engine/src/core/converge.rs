//! Convergence: has the graph come to rest, for how long, and with every vertex in its declared state?

use super::Action;

/// Counts busy vertices and remembers when something last happened.
///
/// Something happens when a run changes something, when a vertex begins to fail or recovers, and when the graph changes. A check
/// that finds everything right is nothing, so neither a chatty watch nor a poll keeps a graph from coming to rest; nor does an
/// attempt that fails again, nor a vertex that waits behind it, nor one that only looks.
#[derive(Debug)]
pub(super) struct Convergence {
    after: Option<u64>,
    busy: usize,
    /// Vertices that are not in their declared state.
    unwell: usize,
    last_activity: u64,
    /// A graph has been given. Before that there is nothing to converge.
    started: bool,
    rest: Rest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Something is under way, or has happened too recently.
    Active,
    /// Nothing is under way but retries, and not everything is well: so many are failing.
    Quiet(usize),
    /// Nothing is under way, and everything is well.
    Converged,
}

impl Convergence {
    pub(super) fn new(after: Option<u64>, now: u64) -> Convergence {
        Convergence { after, busy: 0, unwell: 0, last_activity: now, started: false, rest: Rest::Active }
    }

    pub(super) fn count(&mut self, was_busy: bool, is_busy: bool) {
        self.busy = self.busy + usize::from(is_busy) - usize::from(was_busy);
    }

    pub(super) fn count_unwell(&mut self, was_unwell: bool, is_unwell: bool) {
        self.unwell = self.unwell + usize::from(is_unwell) - usize::from(was_unwell);
    }

    pub(super) fn active(&mut self, now: u64) {
        self.last_activity = now;
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

    /// When to look again: only while at rest and not yet for long enough.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.due().filter(|_| self.busy == 0 && self.rest == Rest::Active)
    }

    /// The change of state, if there is one. `failing`: so many vertices are.
    pub(super) fn evaluate(&mut self, now: u64, failing: usize) -> Option<Action> {
        let due = self.due()?;
        // With no waiting time at all a change would not be seen as one by the first test.
        let changed_now = self.after == Some(0) && self.last_activity == now && self.busy > 0;
        if self.is_at_rest() && (due > now || changed_now) {
            self.rest = Rest::Active;
            return Some(Action::Diverged);
        }
        if self.busy > 0 || due > now {
            return None;
        }
        let (rest, action) = match self.unwell {
            0 => (Rest::Converged, Action::Converged),
            _ => (Rest::Quiet(failing), Action::Quiet(failing)),
        };
        (std::mem::replace(&mut self.rest, rest) != rest).then_some(action)
    }
}
