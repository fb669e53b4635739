//! From dirty to running to done.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{
    Action, Bucket, Cause, Core, In, Level, Outcome, Poll, Run, Running, State, Token, Vertex, WatchState,
};

/// Times at which a vertex wants to be looked at. An entry that the vertex no longer stands for is dropped when it
/// comes up, so cancelling costs nothing.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(u64, Vertex)>>);

impl Timers {
    pub(super) fn next(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    pub(super) fn pop(&mut self, now: u64) -> Option<(Vertex, u64)> {
        let due = self.next().is_some_and(|at| at <= now);
        due.then(|| self.0.pop().map(|Reverse((at, vertex))| (vertex, at))).flatten()
    }

    fn push(&mut self, at: u64, vertex: Vertex) {
        self.0.push(Reverse((at, vertex)));
    }
}

impl State {
    /// Remembers which notifications are pending as a run begins. True: some are.
    fn see_notifications(&mut self) -> bool {
        let mut any = false;
        for edge in &mut self.before {
            edge.seen = edge.pending;
            any |= edge.pending != 0;
        }
        any
    }
}

impl Core {
    /// Marks a vertex dirty and looks whether it can run.
    pub(super) fn dirty(&mut self, vertex: Vertex, cause: Cause) {
        let generation = self.next_generation();
        let now = self.now;
        let Some(state) = self.get_mut(vertex) else { return };
        state.routine = cause == Cause::Poll && (state.routine || !state.is_dirty());
        state.polled |= cause == Cause::Poll;
        state.wanted = generation;
        let mut not_before = Some(now);
        if cause != Cause::Graph && state.token == Token::None {
            let wait = state.bucket.take(&state.rules, now);
            state.token = wait.map_or(Token::Never, |wait| Token::Taken(now.saturating_add(wait)));
            let wait = wait.unwrap_or(u64::MAX);
            not_before = Some(now.saturating_add(wait));
            if wait > 0 {
                self.actions.push(Action::Limited(vertex, wait));
            }
        } else if cause != Cause::Graph {
            // It rides along with the event that took the token.
            not_before = None;
        }
        let Some(state) = self.get_mut(vertex) else { return };
        match not_before {
            // A rate holds up what events lead to, but not the attempt that is due by time.
            Some(at) if state.check.is_failing() && state.running.is_none() => state.check.prompt(at),
            Some(at) => state.not_before = state.not_before.max(at),
            None => {}
        }
        self.prompt_watch(vertex);
        self.touch(vertex);
        self.consider(vertex);
    }

    /// Looks at a vertex again before the present input is over. A queue and not a call, so that a chain of any
    /// length needs no stack.
    pub(super) fn consider(&mut self, vertex: Vertex) {
        self.to_consider.push_back(vertex);
    }

    /// Lets a vertex run if it wants to and may.
    fn consider_now(&mut self, vertex: Vertex) {
        let Some(state) = self.get(vertex) else { return };
        if state.queued || !state.wants_to_run() {
            return;
        }
        let (has_work, not_before) = (state.has_work(), state.due());
        if not_before > self.now {
            if not_before != u64::MAX {
                self.arm(vertex, not_before);
            }
            return;
        }
        if self.blocked_by_ancestor(vertex) {
            return;
        }
        match has_work {
            true => self.enqueue(vertex),
            false => self.pass(vertex),
        }
    }

    /// A vertex without work is done at once, but it keeps its place in the order.
    fn pass(&mut self, vertex: Vertex) {
        let Some(state) = self.get_mut(vertex) else { return };
        let generation = state.wanted;
        state.see_notifications();
        if !state.rules.noop {
            self.acknowledge(vertex);
        }
        self.succeed(vertex, generation);
        self.after_run(vertex);
    }

    fn enqueue(&mut self, vertex: Vertex) {
        let Some(state) = self.get_mut(vertex) else { return };
        state.queued = true;
        let pool = state.rules.pool;
        self.ready[pool as usize].push_back(vertex);
        self.touch(vertex);
    }

    /// Whether an ancestor is unsettled. If so, the vertex is put on its list.
    fn blocked_by_ancestor(&mut self, vertex: Vertex) -> bool {
        let Some(state) = self.get(vertex) else { return false };
        // It is told when the one it waits for has settled, or is no ancestor any more.
        if state.waits_for.is_some() {
            return true;
        }
        if self.unsettled == usize::from(state.counted_unsettled) {
            return false;
        }
        let Some(blocker) = self.unsettled_ancestor(vertex) else { return false };
        if let Some(state) = self.get_mut(blocker) {
            state.waiters.push(vertex);
        }
        if let Some(state) = self.get_mut(vertex) {
            state.waits_for = Some(blocker);
        }
        self.waiting.insert(vertex);
        self.touch(blocker);
        true
    }

    pub(super) fn stop_waiting(&mut self, vertex: Vertex) {
        let Some(blocker) = self.get_mut(vertex).and_then(|state| state.waits_for.take()) else { return };
        self.waiting.remove(&vertex);
        if let Some(state) = self.get_mut(blocker) {
            state.waiters.retain(|waiter| *waiter != vertex);
        }
        self.touch(blocker);
    }

    /// The nearest first: while a change travels down the graph, what is in the way is next door most of the time.
    fn unsettled_ancestor(&mut self, vertex: Vertex) -> Option<Vertex> {
        let state = self.get(vertex)?;
        if state.clear_at == self.unrest {
            return None;
        }
        // Of many next door, any one: while it is waited for, half of the others finish too, whatever their order.
        let anywhere =
            usize::try_from(self.generation.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).unwrap_or(0);
        let (first, last) = state.before.split_at(anywhere % state.before.len().max(1));
        let unsettled = |edge: &&In| self.get(edge.from).is_some_and(|state| state.counted_unsettled);
        if let Some(edge) = last.iter().chain(first).find(unsettled) {
            return Some(edge.from);
        }
        self.walk += 1;
        let (walk, unrest) = (self.walk, self.unrest);
        let mut passed = vec![vertex];
        let mut looked_at = 0;
        while let Some(next) = passed.get(looked_at).copied() {
            looked_at += 1;
            let count = self.get(next).map_or(0, |state| state.before.len());
            for index in 0..count {
                let Some(ancestor) = self.get(next).map(|state| state.before[index].from) else { break };
                let Some(state) = self.get_mut(ancestor) else { continue };
                if state.counted_unsettled {
                    return Some(ancestor);
                }
                let seen = std::mem::replace(&mut state.mark, walk) == walk;
                if !seen && state.clear_at != unrest {
                    passed.push(ancestor);
                }
            }
        }
        for vertex in passed {
            if let Some(state) = self.get_mut(vertex) {
                state.clear_at = unrest;
            }
        }
        None
    }

    /// Starts what is ready, as far as there is room.
    pub(super) fn dispatch(&mut self) {
        if self.paused || self.stopping.is_some() {
            return;
        }
        for pool in 0..self.ready.len() {
            while self.running[pool] < self.settings.capacity[pool] {
                let Some(vertex) = self.ready[pool].pop_front() else { break };
                // An entry may be left over from an earlier incarnation, which ran in the other pool.
                if self.get(vertex).is_some_and(|state| state.queued && state.rules.pool as usize == pool) {
                    self.start_or_wait(vertex);
                }
            }
        }
    }

    fn start_or_wait(&mut self, vertex: Vertex) {
        // The reasons to run may have gone since it was queued, or it may have to wait after all.
        let now = self.now;
        let ready = self.get(vertex).is_some_and(|state| state.wants_to_run() && state.due() <= now);
        if !ready || self.blocked_by_ancestor(vertex) {
            self.unqueue(vertex);
            return self.consider(vertex);
        }
        let Some(state) = self.vertices.get_mut(vertex.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        if !state.rules.semaphores.is_empty() {
            let ticket = state.ticket.unwrap_or_else(|| self.semaphores.ask(vertex, &state.rules.semaphores));
            state.ticket = Some(ticket);
            if !self.semaphores.take(ticket, &state.rules.semaphores) {
                return;
            }
            state.ticket = None;
        }
        self.start(vertex);
    }

    /// Takes a vertex out of the queues. It is looked at again when something changes.
    pub(super) fn unqueue(&mut self, vertex: Vertex) {
        let Some(state) = self.vertices.get_mut(vertex.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        state.queued = false;
        if let Some(ticket) = state.ticket.take() {
            let woken = self.semaphores.withdraw(ticket, &state.rules.semaphores);
            self.requeue(woken);
        }
        self.touch(vertex);
    }

    fn start(&mut self, vertex: Vertex) {
        let now = self.now;
        let Some(state) = self.get_mut(vertex) else { return };
        state.queued = false;
        state.wake_at = None;
        state.unserved_event = false;
        state.check.begin();
        // A retry by time or by the graph needs no token. One that an event took in advance goes back, or a flood of events over
        // many retries would run up a debt that takes for ever to pay.
        if let Token::Taken(at) = std::mem::replace(&mut state.token, Token::None)
            && at > now
        {
            state.bucket.give_back();
        }
        state.running =
            Some(Running { incarnation: state.incarnation, generation: state.wanted, cancelled: false });
        let notified = state.see_notifications();
        let run = Run {
            vertex,
            incarnation: state.incarnation,
            apply: !state.rules.noop,
            refresh: notified && state.rules.refreshable,
            pool: state.rules.pool,
            polled: std::mem::take(&mut state.polled),
        };
        self.running[run.pool as usize] += 1;
        self.actions.push(Action::Run(run));
        self.touch(vertex);
    }

    pub(super) fn finish(&mut self, vertex: Vertex, outcome: Outcome, dirtied: &[Vertex]) {
        let Some(state) = self.get_mut(vertex) else { return };
        let Some(running) = state.running.take() else { return };
        let pool = state.rules.pool;
        self.running[pool as usize] -= 1;
        let held = self.get(vertex).map(|state| state.rules.semaphores.clone()).unwrap_or_default();
        let woken = self.semaphores.release(&held);
        self.requeue(woken);

        let current =
            self.get(vertex).is_some_and(|state| state.is_open() && state.incarnation == running.incarnation);
        if current {
            match outcome {
                // Asked to stop or not: it was done, so it counts, and whoever listens must hear of it.
                Outcome::Right | Outcome::Changed | Outcome::Forwarded => {
                    self.run_succeeded(vertex, running.generation, outcome);
                }
                Outcome::Failed | Outcome::Held if !running.cancelled => {
                    self.run_failed(vertex, running, outcome == Outcome::Held);
                }
                _ => self.run_cancelled(vertex, running),
            }
        }
        for receiver in dirtied {
            // A hidden vertex receives too: what it exports has changed.
            if self.get(*receiver).is_some_and(State::is_open) {
                self.dirty(*receiver, Cause::Graph);
            }
        }
        self.touch(vertex);
        self.after_run(vertex);
    }

    fn run_succeeded(&mut self, vertex: Vertex, generation: u64, outcome: Outcome) {
        let Some(state) = self.get_mut(vertex) else { return };
        let recovered = state.check.succeed();
        if state.rules.retry_reset {
            state.check.refill(&state.rules);
        }
        let noop = state.rules.noop;
        if !noop {
            self.acknowledge(vertex);
        }
        let changed = outcome == Outcome::Changed && !noop;
        let tells = changed || (outcome == Outcome::Forwarded && !noop);
        if tells {
            self.notify(vertex);
        }
        self.succeed(vertex, generation);
        if changed || recovered {
            self.convergence.active(self.now);
        }
        if tells || recovered {
            self.prompt_descendants(vertex);
        }
        if recovered {
            self.bring_forward();
        }
    }

    /// Takes back the notifications that the run has seen. A newer one stays.
    fn acknowledge(&mut self, vertex: Vertex) {
        let Some(state) = self.vertices.get_mut(vertex.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        for edge in &mut state.before {
            if edge.pending != 0 && edge.pending == edge.seen {
                edge.pending = 0;
                self.actions.push(Action::Pending(edge.from, vertex, false));
            }
        }
    }

    /// Tells those that listen that the vertex has changed something.
    fn notify(&mut self, vertex: Vertex) {
        let after = self.get(vertex).map(|state| state.after.clone()).unwrap_or_default();
        for successor in after {
            let stamp = self.next_generation();
            let Some(state) = self.get_mut(successor) else { continue };
            if !state.is_listening() {
                continue;
            }
            let Some(edge) = state.edge_from(vertex).filter(|edge| edge.notify) else { continue };
            let fresh = edge.pending == 0;
            edge.pending = stamp;
            if fresh {
                self.actions.push(Action::Pending(vertex, successor, true));
            }
            self.actions.push(Action::Notified(vertex, successor));
            self.dirty(successor, Cause::Graph);
        }
    }

    /// A generation is done: lets those behind go on.
    fn succeed(&mut self, vertex: Vertex, generation: u64) {
        let Some(state) = self.get_mut(vertex) else { return };
        state.done = state.done.max(generation);
        let first = !std::mem::replace(&mut state.succeeded, true);
        self.touch(vertex);
        if first {
            let after = self.get(vertex).map(|state| state.after.clone()).unwrap_or_default();
            for successor in after {
                if let Some(state) = self.get_mut(successor) {
                    state.undone -= 1;
                    self.touch(successor);
                    self.consider(successor);
                }
            }
        }
    }

    /// What follows a run: leaving, becoming something else, or the next run.
    pub(super) fn after_run(&mut self, vertex: Vertex) {
        let Some(state) = self.get(vertex) else { return };
        if state.running.is_some() {
            return;
        }
        if state.phase == super::Phase::Leaving {
            return self.close(vertex);
        }
        if self.finish_lingering(vertex) || self.stopping.is_some() {
            return;
        }
        let Some(state) = self.get(vertex) else { return };
        if state.next.is_some() && !self.must_realize(vertex) {
            return self.reincarnate(vertex);
        }
        if let Some(state) = self.get(vertex)
            && let WatchState::Waiting(at) = state.watch
        {
            return if at <= self.now { self.start_watch(vertex) } else { self.arm(vertex, at) };
        }
        self.consider(vertex);
    }

    /// Begins the life of an incarnation: a watch, or what stands for one.
    pub(super) fn start_watch(&mut self, vertex: Vertex) {
        let now = self.now;
        let Some(state) = self.get_mut(vertex) else { return };
        if state.rules.hidden {
            state.watch = WatchState::Off;
            return self.dirty(vertex, Cause::Graph);
        }
        match state.rules.poll {
            Poll::Watch => {
                state.watch = WatchState::Starting;
                state.wake_at = None;
                state.watch_attempts.begin();
                let incarnation = state.incarnation;
                self.actions.push(Action::Watch(vertex, incarnation));
                self.touch(vertex);
            }
            poll => {
                state.watch = WatchState::Ready;
                if let Poll::Every(period) = poll {
                    let at = now.saturating_add(period.max(1));
                    state.poll_at = Some(at);
                    self.timers.push(at, vertex);
                }
                self.dirty(vertex, Cause::Event);
            }
        }
    }

    /// Looks at a vertex again at a given time. A later wish replaces an earlier one.
    pub(super) fn arm(&mut self, vertex: Vertex, at: u64) {
        let Some(state) = self.get_mut(vertex) else { return };
        if state.wake_at != Some(at) {
            state.wake_at = Some(at);
            self.timers.push(at, vertex);
        }
        self.touch(vertex);
    }

    pub(super) fn timer_fired(&mut self, vertex: Vertex, at: u64) {
        let Some(state) = self.get_mut(vertex) else { return };
        if state.wake_at == Some(at) {
            state.wake_at = None;
            self.touch(vertex);
            self.after_run(vertex);
        }
        let now = self.now;
        let Some(state) = self.get_mut(vertex) else { return };
        if state.poll_at == Some(at)
            && let Poll::Every(period) = state.rules.poll
        {
            // Counted from now and not from the last tick: after a long sleep there is one check, not many.
            let next = now.saturating_add(period.max(1));
            state.poll_at = Some(next);
            self.timers.push(next, vertex);
            self.dirty(vertex, Cause::Poll);
        }
    }

    /// Counts a vertex anew after a change of its state, and lets those go that waited for it to settle.
    pub(super) fn touch(&mut self, vertex: Vertex) {
        let Some(state) = self.get_mut(vertex) else { return };
        let unsettled = state.is_unsettled();
        let busy = state.is_busy();
        let unwell = !state.is_well();
        let failing = state.is_open() && state.is_failing();
        let has_successors = !state.after.is_empty();
        let was_unsettled = std::mem::replace(&mut state.counted_unsettled, unsettled);
        let was_busy = std::mem::replace(&mut state.counted_busy, busy);
        let was_unwell = std::mem::replace(&mut state.counted_unwell, unwell);
        self.convergence.count(was_busy, busy);
        self.convergence.count_unwell(was_unwell, unwell);
        let differs = match failing {
            true => self.failing.insert(vertex),
            false => !self.failing.is_empty() && self.failing.remove(&vertex),
        };
        if differs {
            self.before_failing = None;
        }
        match (was_unsettled, unsettled) {
            (false, true) => {
                self.unsettled += 1;
                self.unrest += u64::from(has_successors);
            }
            (true, false) => {
                self.unsettled -= 1;
                self.wake_waiters(vertex);
            }
            _ => {}
        }
    }

    pub(super) fn wake_waiters(&mut self, vertex: Vertex) {
        let waiters =
            self.get_mut(vertex).map(|state| std::mem::take(&mut state.waiters)).unwrap_or_default();
        if !waiters.is_empty() {
            self.touch(vertex);
        }
        for waiter in waiters {
            self.waiting.remove(&waiter);
            if let Some(state) = self.get_mut(waiter) {
                state.waits_for = None;
            }
            self.consider(waiter);
        }
    }

    /// Puts vertices whose semaphores came free at the front.
    fn requeue(&mut self, woken: Vec<Vertex>) {
        for vertex in woken.into_iter().rev() {
            if let Some(pool) = self.get(vertex).filter(|state| state.queued).map(|state| state.rules.pool) {
                self.ready[pool as usize].push_front(vertex);
            }
        }
    }

    /// Ends every input: starts what can start and tells what has come to rest.
    pub(super) fn settle_up(&mut self) {
        if std::mem::take(&mut self.untied) {
            self.reconsider_waiting();
        }
        loop {
            while let Some(vertex) = self.to_consider.pop_front() {
                self.consider_now(vertex);
            }
            self.dispatch();
            // Starting something can only block others, never free them, so nothing is left to consider but what
            // `start_or_wait` put back. Such a one may have left the line for a semaphore and let someone of a pool
            // go that was dispatched before, so all are looked at again. It does not come back itself.
            if self.to_consider.is_empty() {
                break;
            }
        }
        self.convergence.note_busy(self.now);
        let running: usize = self.running.iter().sum();
        if self.stopping.is_some() {
            if running == 0 && !std::mem::replace(&mut self.stop_told, true) {
                self.actions.push(Action::Stopped);
            }
            return;
        }
        if self.paused {
            if running == 0 && !std::mem::replace(&mut self.pause_told, true) {
                self.actions.push(Action::Paused);
            }
            return;
        }
        if let Some(action) = self.convergence.evaluate(self.now, self.failing.len()) {
            self.actions.push(action);
        }
        #[cfg(debug_assertions)]
        self.check_some_invariants();
    }

    pub(super) fn fresh_bucket(&mut self, vertex: Vertex) {
        let now = self.now;
        if let Some(state) = self.get_mut(vertex) {
            state.bucket = Bucket::new(&state.rules, now);
        }
    }

    /// Whether anything at all is asked to stop.
    pub fn stopping(&self) -> Option<Level> {
        self.stopping
    }
}
