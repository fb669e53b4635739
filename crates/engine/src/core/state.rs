//! The derived states of a vertex: dirty, settled, busy, well.

use super::{In, Phase, State, Vertex, WatchState};

impl State {
    pub(super) fn is_dirty(&self) -> bool {
        self.wanted > self.done
    }

    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    pub(super) fn is_unsettled(&self) -> bool {
        self.is_open()
            && self.succeeded
            && (self.is_dirty() || self.running.is_some() || self.is_failing() || self.undone > 0)
    }

    /// Whether there is anything to run: a hidden vertex has nothing to do, unless it is exported.
    pub(super) fn has_work(&self) -> bool {
        !self.rules.hidden || (self.rules.export && !self.rules.noop)
    }

    /// Dirty, and nothing about the vertex itself or its direct predecessors is in the way.
    pub(super) fn wants_to_run(&self) -> bool {
        self.is_open()
            && self.running.is_none()
            && self.undone == 0
            && self.is_dirty()
            && (self.rules.hidden || self.watch == WatchState::Ready)
    }

    pub(super) fn edge_from(&mut self, from: Vertex) -> Option<&mut In> {
        let position = self.before.binary_search_by_key(&from, |edge| edge.from).ok()?;
        self.before.get_mut(position)
    }

    /// Whether notifications are listened to: by the vertex as it is, or as it will be once it comes back.
    pub(super) fn is_listening(&self) -> bool {
        let rules = if self.is_open() { Some(&*self.rules) } else { self.next.as_deref() };
        rules.is_some_and(|rules| rules.refreshable)
    }

    /// Has work under way that will end by itself. A vertex that is merely blocked is not busy: what blocks it
    /// either is, or is failing. A poll is no work, or many of them would keep each other from convergence;
    /// unless someone waits for it. A retry without a declared end is no work either. But what runs and is to become something else
    /// has that before it.
    pub(super) fn is_busy(&self) -> bool {
        let routine = self.routine && (self.is_failing() || self.waiters.is_empty());
        let watch = match self.watch {
            WatchState::Starting | WatchState::Waiting(_) => !self.is_watch_endless(),
            WatchState::Ready | WatchState::Off => false,
        };
        let watched = !matches!(self.watch, WatchState::Waiting(_));
        !self.is_open()
            || watch
            || (self.running.is_some() && self.next.is_some())
            || (!routine && (self.running.is_some() || self.queued || (watched && self.wake_at.is_some())))
    }

    /// In the declared state, as far as is known. A poll that is due does not change that.
    pub(super) fn is_well(&self) -> bool {
        self.is_open()
            && self.succeeded
            && self.next.is_none()
            && !self.is_failing()
            && self.undone == 0
            && (!self.is_dirty() || (self.routine && self.waiters.is_empty()))
    }
}
