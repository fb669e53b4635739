//! The invariants, as code.

use super::{Core, Retry, Vertex, WatchState};

impl Core {
    /// Panics when an invariant does not hold. Walks the whole graph: for tests.
    pub fn check_invariants(&self) {
        let mut running = [0; 2];
        let mut unsettled = 0;
        let mut busy = 0;
        let mut unwell = 0;
        for vertex in self.indices() {
            let Some(state) = self.get(vertex) else { continue };
            let name = vertex.0;
            if state.running.is_some() {
                running[state.rules.pool as usize] += 1;
                assert!(!state.queued, "{name} runs and is queued");
            }
            assert_eq!(
                state.counted_unsettled,
                state.is_unsettled(),
                "{name} is counted wrongly as unsettled"
            );
            assert_eq!(state.counted_busy, state.is_busy(), "{name} is counted wrongly as busy");
            unsettled += usize::from(state.is_unsettled());
            busy += usize::from(state.is_busy());
            assert_eq!(state.counted_unwell, !state.is_well(), "{name} is counted wrongly as unwell");
            unwell += usize::from(!state.is_well());
            let failing = state.is_open() && state.is_failing();
            assert_eq!(self.failing.contains(&vertex), failing, "{name} is listed wrongly as failing");
            let undone = state.before.iter().filter(|edge| !self.has_succeeded(edge.from)).count();
            assert_eq!(state.undone as usize, undone, "{name} counts its undone predecessors wrongly");
            for edge in &state.before {
                let from = self.get(edge.from);
                assert!(
                    from.is_some_and(|from| from.after.contains(&vertex)),
                    "an edge into {name} has one end"
                );
                assert!(edge.notify || edge.pending == 0, "{name} has a notification on a silent edge");
            }
            for successor in &state.after {
                let to = self.get(*successor);
                let linked = to.is_some_and(|to| to.before.iter().any(|edge| edge.from == vertex));
                assert!(linked, "an edge out of {name} has one end");
            }
            if let Some(blocker) = state.waits_for {
                assert!(self.waiting.contains(&vertex), "{name} waits and is not listed");
                let listed = self.get(blocker).is_some_and(|blocker| blocker.waiters.contains(&vertex));
                assert!(listed, "{name} waits for someone who does not know");
            }
            if self.stopping.is_none() {
                self.check_progress(vertex);
            }
        }
        assert_eq!(running, self.running, "runs are miscounted");
        assert_eq!(unsettled, self.unsettled, "unsettled vertices are miscounted");
        assert_eq!(busy, self.convergence.busy(), "busy vertices are miscounted");
        assert_eq!(unwell, self.convergence.unwell(), "unwell vertices are miscounted");
        for (semaphore, held) in self.semaphores.held() {
            assert!(held <= semaphore.size(), "too many hold {semaphore:?}");
        }
    }

    /// A vertex that wants to run and may is on its way to running: nothing is forgotten.
    fn check_progress(&self, vertex: Vertex) {
        let Some(state) = self.get(vertex) else { return };
        let idle = state.is_open() && state.running.is_none() && !state.queued;
        let wants = idle && state.is_dirty() && state.undone == 0;
        let watched = state.watch == WatchState::Ready || state.rules.hidden;
        if wants && watched {
            assert!(
                state.waits_for.is_some() || state.wake_at.is_some() || state.due() == u64::MAX,
                "{} wants to run, may, and does not",
                vertex.0
            );
        }
        if idle && matches!(state.watch, WatchState::Waiting(_)) {
            assert!(state.wake_at.is_some(), "{} waits to watch again, for ever", vertex.0);
        }
        // A failing vertex has something to do: its check is due, or its watch is being set up.
        if state.is_open() && state.is_failing() && state.running.is_none() {
            let watching = matches!(state.watch, WatchState::Starting | WatchState::Waiting(_));
            assert!(state.is_dirty() || watching, "{} is failing and has nothing to do", vertex.0);
        }
        // A failing check has a next attempt, unless its declared attempts are used up, or it may not run. No rate holds it up.
        if state.is_open() && state.running.is_none() && state.is_check_failing() {
            let ended = matches!(state.rules.retry, Retry::Times(_)) || state.is_held();
            let attempted = state.not_before != u64::MAX && (ended || state.due() != u64::MAX);
            assert!(attempted, "{} is failing and will not be attempted again", vertex.0);
        }
    }

    /// What can be checked after every step without walking the graph.
    #[cfg(debug_assertions)]
    pub(super) fn check_some_invariants(&self) {
        for pool in 0..self.running.len() {
            debug_assert!(self.running[pool] <= self.settings.capacity[pool]);
        }
        debug_assert!(self.waiting.len() <= self.vertices.len());
        debug_assert!(self.unsettled <= self.vertices.len());
    }
}
