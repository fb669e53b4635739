//! Convergence: has the graph come to rest, and for how long?

use super::Action;

/// Counts busy vertices and remembers when something last happened.
///
/// Something happens when a run changes or fails, and when the graph changes. A check that finds everything right is
/// nothing, so neither a chatty watch nor a poll keeps a graph from converging; nor does a failed vertex, nor one
/// that waits behind it, nor one that only looks.
#[derive(Debug)]
pub(super) struct Convergence {
    after: Option<u64>,
    busy: usize,
    last_activity: u64,
    /// A graph has been given. Before that there is nothing to converge.
    started: bool,
    converged: bool,
}

impl Convergence {
    pub(super) fn new(after: Option<u64>, now: u64) -> Convergence {
        Convergence { after, busy: 0, last_activity: now, started: false, converged: false }
    }

    pub(super) fn count(&mut self, was_busy: bool, is_busy: bool) {
        self.busy = self.busy + usize::from(is_busy) - usize::from(was_busy);
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

    pub(super) fn is_converged(&self) -> bool {
        self.converged
    }

    fn due(&self) -> Option<u64> {
        self.after.filter(|_| self.started).map(|after| self.last_activity.saturating_add(after))
    }

    /// When to look again: only while at rest and not yet for long enough.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.due().filter(|_| self.busy == 0 && !self.converged)
    }

    /// The change of state, if there is one.
    pub(super) fn evaluate(&mut self, now: u64) -> Option<Action> {
        let due = self.due()?;
        if self.converged && due > now {
            self.converged = false;
            return Some(Action::Diverged);
        }
        // With no waiting time at all a change would not be seen as one by the test above.
        if self.converged && self.after == Some(0) && self.last_activity == now && self.busy > 0 {
            self.converged = false;
            return Some(Action::Diverged);
        }
        if !self.converged && self.busy == 0 && due <= now {
            self.converged = true;
            return Some(Action::Converged);
        }
        None
    }
}
