//! Changing the graph while it runs. Only what the delta names is touched.

use std::collections::BTreeSet;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{
    Action, Attempts, Bucket, Cause, Core, In, Phase, Retry, Rules, State, Token, Vertex, WatchState,
};

/// A change of the graph. Applied as a whole; the caller has made sure that the result has no cycle.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// Vertices to take out, with all their edges.
    pub remove: Vec<Vertex>,
    /// Vertices that run other rules from now on.
    pub replace: Vec<(Vertex, Rules)>,
    /// Vertices to add. The id is new, or that of a vertex still on its way out.
    pub add: Vec<(Vertex, Rules)>,
    /// Edges to take out, between vertices that stay.
    pub unlink: Vec<(Vertex, Vertex)>,
    /// Edges to add or change.
    pub link: Vec<Link>,
}

/// An edge to add or change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// First.
    pub from: Vertex,
    /// Then.
    pub to: Vertex,
    /// A change of the first is told to the second.
    pub notify: bool,
    /// A notification is pending from an earlier life of the program.
    pub pending: bool,
}

impl Delta {
    /// Whether the graph stays as it is.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty()
            && self.replace.is_empty()
            && self.add.is_empty()
            && self.unlink.is_empty()
            && self.link.is_empty()
    }
}

impl Core {
    /// Changes the graph, and attempts what is failing once more, whether the graph differs or not.
    pub fn apply(&mut self, delta: Delta, now: u64) {
        self.advance(now);
        self.convergence.start(self.now);
        if delta.is_empty() {
            self.prompt_failing();
            return self.settle_up();
        }
        self.convergence.active(self.now);
        self.linger(&delta.remove);
        for vertex in &delta.remove {
            if !self.lingering.contains(vertex) {
                self.remove(*vertex);
            }
        }
        for (from, to) in &delta.unlink {
            self.unlink(*from, *to);
        }
        let mut fresh = Vec::with_capacity(delta.add.len());
        for (vertex, rules) in delta.add {
            if self.add(vertex, rules.normalized()) {
                fresh.push(vertex);
            }
        }
        for link in delta.link {
            self.link(link);
        }
        for (vertex, rules) in delta.replace {
            if let Some(state) = self.get_mut(vertex) {
                state.next = Some(Box::new(rules.normalized()));
                if state.is_open() {
                    self.deferred.insert(vertex);
                }
                self.touch(vertex);
            }
        }
        self.release_excused();
        // Only now are all edges in place, so that nothing starts before what comes first is known.
        for vertex in fresh {
            self.start_watch(vertex);
        }
        self.prompt_failing();
        self.settle_up();
    }

    /// Looks at all that wait for an ancestor, since it may be one no longer.
    pub(super) fn reconsider_waiting(&mut self) {
        for vertex in std::mem::take(&mut self.waiting) {
            let Some(blocker) = self.get_mut(vertex).and_then(|state| state.waits_for.take()) else {
                continue;
            };
            // All waiters are looked at again, so whole lists are dropped and none is searched.
            if let Some(state) = self.get_mut(blocker) {
                state.waiters.clear();
            }
            self.touch(blocker);
            self.consider(vertex);
        }
    }

    /// Adds a vertex, or lets one that was on its way out come back in a new form. True: it is to be started.
    fn add(&mut self, vertex: Vertex, rules: Rules) -> bool {
        let index = vertex.index();
        if index >= self.vertices.len() {
            self.vertices.resize_with(index + 1, || None);
        }
        if let Some(state) = self.get_mut(vertex) {
            let lingers = state.is_open();
            state.next = Some(Box::new(rules));
            if lingers {
                // Its edges were those of an earlier graph.
                self.unlink_all(vertex);
                self.lingering.remove(&vertex);
                self.deferred.insert(vertex);
            }
            self.touch(vertex);
            return false;
        }
        let now = self.now;
        let rules = self.share(rules);
        self.vertices[index] = Some(Box::new(State {
            incarnation: 0,
            phase: Phase::Open,
            next: None,
            before: SmallVec::new(),
            after: SmallVec::new(),
            wanted: 0,
            done: 0,
            succeeded: false,
            undone: 0,
            running: None,
            watch: WatchState::Off,
            watch_since: 0,
            unserved_event: false,
            check: Attempts::new(&rules),
            watch_attempts: Attempts::new(&rules),
            bucket: Bucket::new(&rules, now),
            not_before: 0,
            token: Token::None,
            routine: false,
            polled: false,
            queued: false,
            ticket: None,
            counted_unsettled: false,
            counted_busy: false,
            counted_unwell: false,
            waits_for: None,
            waiters: Vec::new(),
            mark: 0,
            clear_at: 0,
            wake_at: None,
            poll_at: None,
            rules,
        }));
        true
    }

    /// Rules that many vertices have in common are kept once: most resources of a program say nothing special.
    fn share(&mut self, rules: Rules) -> Arc<Rules> {
        if *self.last_rules != rules {
            self.last_rules = Arc::new(rules);
        }
        Arc::clone(&self.last_rules)
    }

    fn link(&mut self, link: Link) {
        let stamp = self.next_generation();
        let Some(from_done) = self.get(link.from).map(|state| state.succeeded) else { return };
        let Some(state) = self.get_mut(link.to) else { return };
        let found = state.before.binary_search_by_key(&link.from, |edge| edge.from);
        let (Ok(position) | Err(position)) = found;
        if found.is_err() {
            let edge = In { from: link.from, notify: link.notify, pending: 0, seen: 0 };
            state.before.insert(position, edge);
            state.undone += u32::from(!from_done);
        }
        let edge = &mut state.before[position];
        edge.notify = link.notify;
        let notified = link.pending && edge.notify;
        if link.pending {
            edge.pending = stamp;
        }
        // A silent edge drops what was pending on it, and says so to whoever keeps a record.
        let dropped = !edge.notify && std::mem::take(&mut edge.pending) != 0;
        if found.is_err() {
            self.unrest += 1;
            self.before_failing = None;
            if let Some(state) = self.get_mut(link.from)
                && let Err(position) = state.after.binary_search(&link.to)
            {
                state.after.insert(position, link.to);
            }
        }
        self.touch(link.to);
        if dropped {
            self.actions.push(Action::Pending(link.from, link.to, false));
        } else if notified {
            self.actions.push(Action::Notified(link.from, link.to));
            self.dirty(link.to, Cause::Graph);
        }
    }

    fn unlink(&mut self, from: Vertex, to: Vertex) {
        if let Some(state) = self.get_mut(from)
            && let Ok(position) = state.after.binary_search(&to)
        {
            state.after.remove(position);
            self.unlink_end(from, to);
        }
    }

    /// Takes out the far end of an edge.
    fn unlink_end(&mut self, from: Vertex, to: Vertex) {
        let from_done = self.has_succeeded(from);
        let Some(state) = self.get_mut(to) else { return };
        let Ok(position) = state.before.binary_search_by_key(&from, |edge| edge.from) else { return };
        let edge = state.before.remove(position);
        state.undone -= u32::from(!from_done);
        self.untied = true;
        self.before_failing = None;
        if edge.pending != 0 {
            self.actions.push(Action::Pending(from, to, false));
        }
        self.touch(to);
        self.consider(to);
    }

    /// Becomes the next declaration. The place in the graph and the pending notifications stay.
    pub(super) fn reincarnate(&mut self, vertex: Vertex) {
        let Some(rules) = self.get_mut(vertex).and_then(|state| state.next.take()) else { return };
        let rules = self.share(*rules);
        self.unqueue(vertex);
        self.stop_waiting(vertex);
        self.deferred.remove(&vertex);
        let Some(state) = self.get_mut(vertex) else { return };
        let was_done = std::mem::replace(&mut state.succeeded, false);
        state.incarnation = state.incarnation.wrapping_add(1);
        let keep = !rules.reset && !state.is_excused() && matches!(state.rules.retry, Retry::Times(_));
        state.check = if keep { state.check.inherited(&rules) } else { Attempts::new(&rules) };
        state.watch_attempts = Attempts::new(&rules);
        state.not_before = 0;
        state.token = Token::None;
        state.routine = false;
        state.polled = false;
        state.unserved_event = false;
        state.wake_at = None;
        state.poll_at = None;
        state.done = 0;
        state.wanted = 0;
        // The watch of the earlier declaration ends when that of this one has begun; but there may be none.
        let unwatch = state.rules.is_watched() && state.watch != WatchState::Off && !rules.is_watched();
        state.rules = rules;
        let incarnation = state.incarnation;
        self.fresh_bucket(vertex);
        self.actions.push(Action::Reincarnate(vertex, incarnation));
        if unwatch {
            self.actions.push(Action::Unwatch(vertex));
        }
        if was_done {
            let after = self.get(vertex).map(|state| state.after.clone()).unwrap_or_default();
            for successor in after {
                if let Some(state) = self.get_mut(successor) {
                    state.undone += 1;
                    self.touch(successor);
                }
            }
        }
        self.touch(vertex);
        self.start_watch(vertex);
    }

    /// Takes a vertex out of the graph. The rest does not wait for it.
    fn remove(&mut self, vertex: Vertex) {
        self.unqueue(vertex);
        self.stop_waiting(vertex);
        self.lingering.remove(&vertex);
        self.deferred.remove(&vertex);
        self.unlink_all(vertex);
        let Some(state) = self.get_mut(vertex) else { return };
        state.next = None;
        if !state.is_open() {
            return;
        }
        state.phase = Phase::Leaving;
        state.watch = WatchState::Off;
        state.wake_at = None;
        state.poll_at = None;
        // Should it come back, it has not succeeded yet.
        state.succeeded = false;
        let running = state.running.is_some();
        self.actions.push(Action::Unwatch(vertex));
        self.touch(vertex);
        self.wake_waiters(vertex);
        if !running {
            self.close(vertex);
        }
    }

    fn unlink_all(&mut self, vertex: Vertex) {
        let Some(state) = self.get_mut(vertex) else { return };
        // Its own side goes at once, so that a vertex with many edges does not look for each among them.
        let after = std::mem::take(&mut state.after);
        let before: Vec<Vertex> = state.before.iter().map(|edge| edge.from).collect();
        for to in after {
            self.unlink_end(vertex, to);
        }
        for from in before.into_iter().rev() {
            self.unlink(from, vertex);
        }
    }

    pub(super) fn close(&mut self, vertex: Vertex) {
        let Some(state) = self.get_mut(vertex) else { return };
        state.phase = Phase::Closing;
        self.actions.push(Action::Close(vertex));
    }

    pub(super) fn finish_closing(&mut self, vertex: Vertex) {
        let Some(state) = self.get_mut(vertex) else { return };
        if state.phase != Phase::Closing {
            return;
        }
        // Not busy any more, whatever follows.
        let was_busy = std::mem::replace(&mut state.counted_busy, false);
        let was_unwell = std::mem::replace(&mut state.counted_unwell, false);
        self.convergence.count(was_busy, false);
        self.convergence.count_unwell(was_unwell, false);
        let Some(mut state) = self.vertices.get_mut(vertex.index()).and_then(Option::take) else { return };
        match state.next.take() {
            None => self.actions.push(Action::Freed(vertex)),
            Some(rules) => {
                // It was declared again in the meantime. Edges may have been added to it since.
                let incarnation = state.incarnation.wrapping_add(1);
                let (before, after, undone) = (state.before, state.after, state.undone);
                self.add(vertex, *rules);
                if let Some(state) = self.get_mut(vertex) {
                    state.incarnation = incarnation;
                    (state.before, state.after, state.undone) = (before, after, undone);
                }
                self.actions.push(Action::Reincarnate(vertex, incarnation));
                self.start_watch(vertex);
            }
        }
    }

    /// Keeps vertices that were promised one success, and what they need for it, for a while longer.
    fn linger(&mut self, removed: &[Vertex]) {
        let mut kept: BTreeSet<Vertex> =
            removed.iter().copied().filter(|vertex| self.must_realize(*vertex)).collect();
        if kept.is_empty() && self.lingering.is_empty() {
            return;
        }
        let removed: BTreeSet<Vertex> = removed.iter().copied().collect();
        // Those that linger already still need what comes before them.
        let mut stack: Vec<Vertex> = kept.iter().chain(&self.lingering).copied().collect();
        while let Some(vertex) = stack.pop() {
            let Some(state) = self.get(vertex) else { continue };
            for from in state.before.iter().map(|edge| edge.from) {
                let undone = self.get(from).is_some_and(|from| from.is_open() && !from.succeeded);
                if undone && removed.contains(&from) && kept.insert(from) {
                    stack.push(from);
                }
            }
        }
        for vertex in &kept {
            self.lingering.insert(*vertex);
            // What it was to become is not declared any more either.
            self.deferred.remove(vertex);
            if let Some(state) = self.get_mut(*vertex) {
                state.next = None;
            }
            self.touch(*vertex);
        }
        // It keeps what comes before it and nothing that comes after: the new graph knows no such order, and
        // might even have the opposite one.
        for vertex in kept {
            let after = self.get(vertex).map(|state| state.after.clone()).unwrap_or_default();
            for successor in after {
                if !self.lingering.contains(&successor) {
                    self.unlink(vertex, successor);
                }
            }
        }
    }

    /// Whether a vertex still owes its one success. A failed ancestor excuses it.
    pub(super) fn must_realize(&mut self, vertex: Vertex) -> bool {
        let owes = self.get(vertex).is_some_and(|state| {
            state.rules.realize
                && !state.succeeded
                && !state.is_excused()
                && !state.rules.hidden
                && state.is_open()
        });
        owes && self.stopping.is_none() && !self.has_excused_ancestor(vertex)
    }

    /// Whether it, or a vertex before it, is failing with no declared attempt left.
    fn has_excused_ancestor(&mut self, vertex: Vertex) -> bool {
        self.walk += 1;
        let walk = self.walk;
        let mut stack = vec![vertex];
        while let Some(ancestor) = stack.pop() {
            let Some(state) = self.get_mut(ancestor) else { continue };
            if state.is_open() && state.is_excused() {
                return true;
            }
            if std::mem::replace(&mut state.mark, walk) != walk {
                stack.extend(state.before.iter().map(|edge| edge.from));
            }
        }
        false
    }

    /// Lets a lingering vertex go once it has succeeded. True: it is gone.
    pub(super) fn finish_lingering(&mut self, vertex: Vertex) -> bool {
        let done = self.lingering.contains(&vertex) && self.has_succeeded(vertex);
        if done {
            self.remove(vertex);
        }
        done
    }

    /// Lets those go that need not, or cannot any more, succeed first; be it to leave or to become something else.
    /// To be called when a vertex has no declared attempt left, when edges have changed, and when we stop.
    pub(super) fn release_excused(&mut self) {
        // All are found before the first one goes: with it go the edges by which the others would be found.
        let mut excused: Vec<Vertex> = self.lingering.iter().copied().collect();
        excused.retain(|vertex| self.stopping.is_some() || self.has_excused_ancestor(*vertex));
        for vertex in excused {
            self.remove(vertex);
        }
        if self.stopping.is_some() {
            return;
        }
        // Those that are failing come first: as something else, they excuse nobody.
        let (failed, others): (Vec<Vertex>, Vec<Vertex>) =
            self.deferred.iter().partition(|vertex| self.get(**vertex).is_some_and(State::is_excused));
        for vertex in failed.into_iter().chain(others) {
            let idle = self.get(vertex).is_some_and(|state| state.is_open() && state.running.is_none());
            if idle && !self.must_realize(vertex) {
                self.reincarnate(vertex);
            }
        }
    }

    pub(super) fn indices(&self) -> impl Iterator<Item = Vertex> + use<> {
        #[expect(clippy::cast_possible_truncation, reason = "ids are 32 bits")]
        (0..self.vertices.len() as u32).map(Vertex)
    }
}
