//! Compares what the core does with what the oracle allows and demands.

use std::collections::BTreeMap;

use mgmt_engine::core::{Action, Core, Retry, Run, Semaphore, Vertex};

use super::oracle::{Node, Oracle, Place, Rest, Watch, vertex};

impl Oracle {
    /// Takes the core's actions after one input. Everything that was expected must be there, nothing else may be;
    /// runs are not expected one by one (the core chooses among those that may), but each must be allowed.
    pub(crate) fn observe(&mut self, actions: &[Action]) {
        let mut freed = Vec::new();
        self.prompt_by_events(actions);
        for (position, action) in actions.iter().enumerate() {
            for named in named(action) {
                assert!(!freed.contains(&named), "{action:?} names a vertex that is free");
            }
            match action {
                Action::Run(run) => self.observe_run(*run),
                Action::Limited(limited, wait) => self.observe_limit(*limited, *wait),
                Action::Retry(vertex, delay, attempt) => {
                    self.observe_failure(*vertex, Some(*delay), *attempt);
                }
                Action::Failed(vertex, attempt) => self.observe_failure(*vertex, None, *attempt),
                Action::Rescheduled(vertex, delay) => {
                    // It may have become something else with the same input.
                    let gone = |action: &Action| matches!(action, Action::Reincarnate(other, _) | Action::Close(other) if other == vertex);
                    if !actions.iter().any(gone) {
                        self.observe_sooner(*vertex, *delay);
                    }
                }
                Action::Converged => {
                    assert!(self.rest != Some(Rest::Converged), "converged twice");
                    (self.rest, self.rest_since) = (Some(Rest::Converged), self.now);
                }
                Action::Quiet { failing, unwell } => {
                    let rest = Some(Rest::Quiet { failing: *failing, unwell: *unwell });
                    assert!(
                        self.rest != rest && unwell >= failing && *unwell > 0,
                        "{rest:?} after {:?}",
                        self.rest
                    );
                    (self.rest, self.rest_since) = (rest, self.now);
                    let open = self.nodes.iter().flatten().filter(|node| node.is_open());
                    assert_eq!(*failing, open.filter(|node| node.is_failing()).count(), "failing vertices");
                }
                Action::Diverged if self.rest.is_some() && self.may_diverge() => {
                    self.rest = None;
                }
                other => {
                    let found = self.expected.iter().position(|expected| expected == other);
                    let found = found.unwrap_or_else(|| {
                        panic!("{other:?} was not to come; still expected: {:?}", self.expected)
                    });
                    self.expected.swap_remove(found);
                    check_order(*other == Action::Stopped, position, actions);
                    if let Action::Freed(vertex) = other {
                        freed.push(*vertex);
                    }
                }
            }
        }
        assert!(self.expected.is_empty(), "did not come: {:?}", self.expected);
        let busy = self.ids().any(|id| self.is_busy(id));
        self.busy_since = busy.then(|| self.busy_since.unwrap_or(self.now));
        self.at_work_since = self.is_at_work().then(|| self.at_work_since.unwrap_or(self.now));
        assert!(self.failures.is_empty(), "not reported: {:?}", self.failures);
        self.recovered = false;
        for id in self.ids() {
            let may_run = self.may_run(id);
            if let Some(node) = &mut self.nodes[id] {
                node.in_line |= may_run;
            }
        }
        if let Some(rest) = self.rest
            && actions.iter().any(|action| matches!(action, Action::Converged | Action::Quiet { .. }))
        {
            self.check_at_rest(rest);
        }
    }

    /// Events of failing vertices ask for an attempt: at once, or when the rate allows.
    fn prompt_by_events(&mut self, actions: &[Action]) {
        for (id, node) in self.nodes.iter_mut().enumerate() {
            let Some(at) = node.as_mut().and_then(|node| node.prompt_at.take()) else { continue };
            let wait = actions.iter().find_map(|action| match action {
                Action::Limited(limited, wait) if *limited == vertex(id) => Some(*wait),
                _ => None,
            });
            if let Some(node) = node {
                node.check.prompt(at.saturating_add(wait.unwrap_or(0)));
            }
        }
    }

    fn observe_failure(&mut self, failed: Vertex, delay: Option<u64>, attempt: u32) {
        let id = failed.0 as usize;
        let found = self.failures.iter().position(|failure| (failure.id, failure.attempt) == (id, attempt));
        let Some(found) = found else { panic!("{failed:?} has not failed {attempt} times") };
        let failure = self.failures.swap_remove(found);
        match (failure.pause, delay) {
            (None, None) => {}
            (Some((shortest, longest)), Some(delay)) => {
                assert!(
                    (shortest..=longest).contains(&delay),
                    "{failed:?} after {delay}, not {shortest} to {longest}"
                );
                let now = self.now;
                // It may be gone by now, or be something else.
                if let Some(node) = &mut self.nodes[id]
                    && shortest < longest
                {
                    let next = now + delay;
                    match (failure.watch, node.watch) {
                        // A later prompt that came with the same input stands.
                        (false, _) if node.check.failures == attempt && node.check.next >= next => {
                            node.check.next = next;
                            node.check.prompted = failure.prompt == Some(next);
                        }
                        (true, Watch::Again(at)) if node.watch_tries.failures == attempt && at >= next => {
                            node.watch_tries.next = next;
                            node.watch_tries.prompted = failure.prompt == Some(next);
                            node.watch = Watch::Again(next);
                        }
                        _ => {}
                    }
                }
            }
            (expected, delay) => {
                panic!("{failed:?} is attempted again after {delay:?}, expected {expected:?}")
            }
        }
    }

    /// An attempt by time may start earlier than was told when something recovers.
    fn observe_sooner(&mut self, sooner: Vertex, delay: u64) {
        let now = self.now;
        assert!(self.recovered, "{sooner:?} is attempted sooner although nothing has recovered");
        assert!(delay <= 500_000_000, "{sooner:?} is attempted soon, after {delay}");
        let Some(node) = &mut self.nodes[sooner.0 as usize] else { panic!("{sooner:?} is free") };
        assert!(node.is_failing() && node.rules.retry == Retry::Backoff && node.running.is_none());
        // A watch that was set up again with the same input stands.
        if node.watch == Watch::Asked && node.check.failures == 0 {
            return;
        }
        let watch = matches!(node.watch, Watch::Again(_));
        let tries = if watch { &mut node.watch_tries } else { &mut node.check };
        // So does a prompt that came with it.
        if tries.prompted && tries.next <= now {
            return;
        }
        assert!(now + delay < tries.next, "{sooner:?} is not attempted sooner");
        assert!(
            (now - tries.failed_at) * 8 >= tries.next - tries.failed_at - 8,
            "{sooner:?} has just failed"
        );
        tries.next = now + delay;
        if watch {
            node.watch = Watch::Again(now + delay);
        }
    }

    fn observe_run(&mut self, run: Run) {
        let id = run.vertex.0 as usize;
        assert!(!self.paused && self.stopping.is_none(), "{run:?} while paused or stopping");
        let node = self.nodes[id].as_ref().unwrap_or_else(|| panic!("{run:?} of a vertex that is free"));
        assert!(node.running.is_none(), "{run:?} while it runs");
        assert!(node.is_open(), "{run:?} of a vertex on its way out");
        assert!(node.has_work(), "{run:?} of a hidden vertex");
        assert!(node.rules.hidden || node.watch == Watch::On, "{run:?} before its watch has begun");
        assert!(node.dirty, "{run:?} without a reason");
        assert!(node.due() <= self.now, "{run:?} before its time");
        for (other, ancestor) in self.nodes.iter().enumerate() {
            let before = self.ancestors[id] & (1 << other) != 0;
            let settled = ancestor.as_ref().is_some_and(Node::is_settled);
            assert!(!before || settled, "{run:?} before its ancestor {other} has settled");
        }
        assert_eq!(run.incarnation, node.incarnation, "{run:?} of another incarnation");
        assert_eq!(run.apply, !node.rules.noop, "{run:?} applies wrongly");
        assert_eq!(run.pool, node.rules.pool, "{run:?} in the wrong pool");
        let pending = self.edges.iter().any(|edge| edge.to == id && edge.pending);
        assert_eq!(run.refresh, pending && node.rules.refreshable, "{run:?} refreshes wrongly");

        let mut news = Vec::new();
        for edge in self.edges.iter_mut().filter(|edge| edge.to == id) {
            edge.seen = edge.pending;
            if std::mem::take(&mut edge.news) {
                news.push(edge.from);
            }
        }
        let now = self.now;
        if let Some(node) = &mut self.nodes[id] {
            node.begin_run(news);
            let by_event = std::mem::replace(&mut node.event_waits, false) && node.rated <= now;
            if by_event && node.rules.limit.is_finite() {
                node.event_runs.push(now);
                check_rate(node);
            }
        }
        self.check_capacities();
    }

    fn observe_limit(&mut self, limited: Vertex, wait: u64) {
        let now = self.now;
        let Some(node) = &mut self.nodes[limited.0 as usize] else {
            panic!("a limit on a vertex that is free")
        };
        assert!(node.rules.limit.is_finite() && node.event_waits, "{limited:?} is limited without a reason");
        let period = 1e9 / node.rules.limit;
        match wait {
            u64::MAX => assert!(node.rules.limit == 0.0, "{limited:?} will never run again"),
            _ => assert!(wait as f64 <= period + 2.0, "{limited:?} is put off by {wait}, over {period}"),
        }
        node.rated = now.saturating_add(wait);
        if node.check.failures == 0 || node.running.is_some() {
            node.not_before = node.not_before.max(now.saturating_add(wait));
        }
    }

    fn check_capacities(&self) {
        let mut running = [0; 2];
        for node in self.nodes.iter().flatten().filter(|node| node.running.is_some()) {
            running[node.rules.pool as usize] += 1;
        }
        for (pool, running) in running.iter().enumerate() {
            assert!(*running <= self.settings.capacity[pool], "pool {pool} is too full");
        }
        for users in self.held().values() {
            let held = users.holders.count_ones();
            assert!(held <= users.semaphore.size(), "{:?} is held {held} times", users.semaphore);
        }
    }

    fn held(&self) -> BTreeMap<&[u8], Holders<'_>> {
        let mut held = BTreeMap::new();
        for (id, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            for semaphore in &node.rules.semaphores {
                let holders =
                    held.entry(&*semaphore.0).or_insert(Holders { semaphore, holders: 0, askers: 0 });
                match node.running.is_some() {
                    true => holders.holders |= 1 << id,
                    false if node.in_line => holders.askers |= 1 << id,
                    false => {}
                }
            }
        }
        held
    }

    /// The definition: it wants to, and everything before it has settled.
    pub(crate) fn may_run(&self, id: usize) -> bool {
        self.wants_to_run(id)
            && self.nodes[id].as_ref().is_some_and(|node| node.due() <= self.now)
            && self.ancestors_settled(id)
    }

    fn wants_to_run(&self, id: usize) -> bool {
        self.nodes[id].as_ref().is_some_and(|node| {
            let watched = node.rules.hidden || node.watch == Watch::On;
            node.is_open() && node.dirty && node.running.is_none() && watched && node.has_work()
        })
    }

    /// Whether a vertex has something to do that will get done without another event. A poll alone is nothing.
    pub(crate) fn is_busy(&self, id: usize) -> bool {
        let Some(node) = &self.nodes[id] else { return false };
        let blocked = self.has_ancestor(id, |ancestor| ancestor.is_failing() || is_stuck(ancestor));
        // What is attempted by time for ever is nothing that one could wait for.
        let watch = match node.watch {
            Watch::Asked | Watch::Again(_) => !node.watch_is_endless(),
            Watch::On | Watch::Off => false,
        };
        let replaced = node.running.is_some() && node.next.is_some();
        let unwatched = matches!(node.watch, Watch::Asked | Watch::Again(_));
        let waits = node.dirty && !blocked && !is_stuck(node) && !unwatched;
        !node.is_open() || watch || (!node.routine && (node.running.is_some() || waits)) || replaced
    }

    /// At rest, and something has been under way for too long for a check.
    fn is_overdue(&self) -> bool {
        let long = self.busy_since.is_some_and(|since| since + 1_000_000_000 <= self.now);
        long && self.rest.is_some() && self.ids().any(|id| self.is_busy(id))
    }

    fn is_at_work(&self) -> bool {
        self.ids().any(|id| {
            let waits = self.nodes[id].as_ref().is_some_and(|node| node.dirty) && !self.ancestors_settled(id);
            waits || self.is_busy(id)
        })
    }

    /// Something has been under way for long, or follows from what happened in no time or during a pause.
    fn may_diverge(&self) -> bool {
        let long = self.at_work_since.is_some_and(|since| since + 1_000_000_000 <= self.now);
        let happened = self.settings.converge_after == Some(0) || self.last_activity >= self.rest_since;
        happened || (long && self.is_at_work())
    }

    fn check_at_rest(&self, rest: Rest) {
        let Some(after) = self.settings.converge_after else { panic!("at rest, and nobody asked") };
        assert!(self.last_activity + after <= self.now, "at rest too early");
        for id in self.ids() {
            assert!(!self.is_busy(id), "{rest:?} while {id} has something to do");
        }
        let well = |node: &Node| {
            node.succeeded && node.next.is_none() && !node.is_failing() && (!node.dirty || node.routine)
        };
        let all_well = self.nodes.iter().flatten().all(well);
        // What waits behind a poll that the rate never allows is not well, though nothing else is wrong.
        let stuck = self.nodes.iter().flatten().any(is_stuck);
        assert!(all_well || rest != Rest::Converged, "{rest:?}");
        assert!(!all_well || stuck || rest == Rest::Converged, "{rest:?}");
    }

    /// When no timer is due: whoever may run does, unless there is no room.
    pub(crate) fn check_rest(&self, core: &Core) {
        let mut count = 0;
        for (id, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            count += 1;
            if node.is_open() {
                assert_eq!(core.has_failed(vertex(id)), node.is_failing(), "whether {id} has failed");
            }
            assert_eq!(core.has_succeeded(vertex(id)), node.succeeded, "whether {id} has succeeded");
        }
        assert_eq!(core.vertex_count(), count, "vertices");
        assert_eq!(core.is_converged(), self.rest == Some(Rest::Converged), "whether it has converged");
        if self.paused || self.stopping.is_some() {
            return;
        }
        let busy = self.ids().any(|id| self.is_busy(id));
        assert!(!self.is_overdue(), "at rest although something has been busy for long");
        for (id, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            if core.is_converged() {
                let well = node.succeeded && node.next.is_none() && !node.is_failing() && !node.owes_success;
                let checked = !node.dirty || node.routine || busy;
                assert!(well && checked, "converged, and {id} is not in its declared state");
            }
            if !self.may_run(id) {
                continue;
            }
            let pool = node.rules.pool;
            let others = self.nodes.iter().flatten();
            let running = others.filter(|other| other.running.is_some() && other.rules.pool == pool).count();
            let held = self.held();
            // Someone who asked earlier may have a right to a unit that is free.
            let contended = node.rules.semaphores.iter().any(|semaphore| {
                let users = &held[&*semaphore.0];
                (users.holders | users.askers).count_ones() > semaphore.size()
            });
            assert!(
                running == self.settings.capacity[pool as usize] || contended,
                "{id} may run and does not"
            );
        }
    }

    /// After a long time in which nothing went wrong: everything is done that can be.
    pub(crate) fn check_quiet(&self) {
        for (id, node) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            let hopeless = is_stuck(node) || self.has_ancestor(id, is_stuck);
            // Who promised to succeed first waits for ever behind a rate of zero.
            let waits = node.place == Place::Lingering && hopeless;
            assert!(node.place == Place::Declared || waits, "{id} is still {:?}", node.place);
            assert!(node.next.is_none() || hopeless, "{id} never became what it was to become");
            assert!(hopeless || node.routine || node.is_settled(), "{id} has not settled");
            let notified = self.edges.iter().any(|edge| edge.to == id && edge.pending);
            assert!(hopeless || node.rules.noop || !notified, "{id} has not acted on a notification");
        }
        if self.settings.converge_after.is_some() {
            let stuck = self.nodes.iter().flatten().any(is_stuck);
            let rest = if stuck { self.rest.is_some() } else { self.rest == Some(Rest::Converged) };
            assert!(rest, "it has come to rest as {:?}", self.rest);
        }
    }

    /// Whether it is worth waiting any longer for [`Oracle::check_quiet`].
    pub(crate) fn is_quiet(&self) -> bool {
        // A failing vertex recovers by time, unless it may not even run. A watch is set up again all the same.
        let retried = |(id, node): (usize, &Option<Node>)| {
            let Some(node) = node.as_ref().filter(|node| node.is_failing()) else { return false };
            !matches!(node.watch, Watch::On | Watch::Off)
                || (!is_stuck(node) && !self.has_ancestor(id, is_stuck))
        };
        (self.ids()).all(|id| !self.is_busy(id))
            && !self.nodes.iter().enumerate().any(retried)
            && (self.rest.is_some() || self.settings.converge_after.is_none())
    }
}

/// The holders of a semaphore, and those that may stand in line for it; as sets of ids.
struct Holders<'a> {
    semaphore: &'a Semaphore,
    holders: u64,
    askers: u64,
}

/// It will not succeed by itself as it is: its declared retries are used up, or its rate is zero and used up. A rate does not hold up
/// the retries of a failing check.
fn is_stuck(node: &Node) -> bool {
    node.is_exhausted() || (node.dirty && node.check.failures == 0 && node.not_before == u64::MAX)
}

/// In no stretch of time may more runs begin because of events than the rate allows: what has been saved up, what
/// came in meanwhile, and one that had its turn before and was held up by something else.
fn check_rate(node: &Node) {
    let Some((latest, earlier)) = node.event_runs.split_last() else { return };
    for (back, start) in earlier.iter().rev().enumerate() {
        let allowed = node.rules.burst + node.rules.limit * (latest - start) as f64 / 1e9 + 1.0;
        let count = back + 2;
        assert!(count as f64 <= allowed + 1e-6, "{count} runs by events, more than {allowed}");
    }
}

/// The order among the actions of one input that the driver relies on.
fn check_order(is_stop: bool, position: usize, actions: &[Action]) {
    let later = &actions[position + 1..];
    match &actions[position] {
        Action::Close(vertex) => {
            assert!(!later.contains(&Action::Unwatch(*vertex)), "{vertex:?} is closed before its watch ends");
        }
        Action::Watch(vertex, incarnation) => {
            let late = later.contains(&Action::Reincarnate(*vertex, *incarnation));
            assert!(!late, "{vertex:?} is watched before it is what it is to be");
        }
        _ if is_stop => {
            assert!(!later.iter().any(|action| matches!(action, Action::Run(_))), "a run after the stop");
        }
        _ => {}
    }
}

fn named(action: &Action) -> Vec<Vertex> {
    match action {
        Action::Watch(vertex, _)
        | Action::Unwatch(vertex)
        | Action::Cancel(vertex, _)
        | Action::Reincarnate(vertex, _)
        | Action::Close(vertex)
        | Action::Freed(vertex)
        | Action::Retry(vertex, _, _)
        | Action::Failed(vertex, _)
        | Action::Rescheduled(vertex, _)
        | Action::Limited(vertex, _) => vec![*vertex],
        Action::Run(run) => vec![run.vertex],
        Action::Pending(from, to, _) | Action::Notified(from, to) => vec![*from, *to],
        Action::Converged | Action::Quiet { .. } | Action::Diverged | Action::Paused | Action::Stopped => {
            Vec::new()
        }
    }
}
