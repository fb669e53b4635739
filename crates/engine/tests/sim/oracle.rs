//! What ought to happen, said a second time and naively.
//!
//! The oracle hears every input before the core's answer is looked at. It keeps, for each vertex, plain facts
//! (succeeded, failed, dirty, running) and works out from the definitions what must follow: which actions, and
//! which vertices may run. It never asks the core. Where the core counts, stamps and queues, the oracle walks the
//! whole graph. [`super::judge`] compares the two.

use mgmt_engine::core::{Action, Level, Outcome, Poll, Rules, Settings, Vertex};

use super::graph::MOST_VERTICES;

pub(crate) struct Oracle {
    pub(crate) settings: Settings,
    pub(crate) now: u64,
    pub(crate) nodes: Vec<Option<Node>>,
    /// Edges that order counts: those declared, and those that lingering vertices keep.
    pub(crate) edges: Vec<Edge>,
    /// Who comes before whom, as sets of ids. Follows from the edges.
    pub(crate) ancestors: Vec<u64>,
    pub(crate) paused: bool,
    pause_told: bool,
    pub(crate) stopping: Option<Level>,
    stop_told: bool,
    pub(crate) converged: bool,
    pub(crate) last_activity: u64,
    /// Actions that must come, in any order.
    pub(crate) expected: Vec<Action>,
}

pub(crate) struct Node {
    pub(crate) rules: Rules,
    /// Declared since, not yet in force.
    pub(crate) next: Option<Rules>,
    pub(crate) incarnation: u32,
    pub(crate) place: Place,
    pub(crate) watch: Watch,
    pub(crate) dirty: bool,
    /// It is dirty only because of a poll.
    pub(crate) routine: bool,
    pub(crate) succeeded: bool,
    pub(crate) failed: bool,
    pub(crate) running: Option<Running>,
    pub(crate) not_before: u64,
    pub(crate) poll_at: Option<u64>,
    budget: Option<u32>,
    watch_budget: Option<u32>,
    /// Failures in a row.
    failures: u32,
    watch_failures: u32,
    /// An event has come since the last run began.
    pub(crate) event_waits: bool,
    /// The last run failed and is to be tried again.
    pub(crate) retrying: bool,
    /// It could have run before, so it may stand in line for its semaphores even if it cannot run now.
    pub(crate) in_line: bool,
    /// When runs began because of events, in this incarnation.
    pub(crate) event_runs: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the declared graph.
    Declared,
    /// No longer declared, but kept until it has succeeded once.
    Lingering,
    /// Out, and still running.
    Leaving,
    /// Out, and being cleaned up.
    Closing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Off,
    Asked,
    On,
    /// Failed; to be asked for again at this time.
    Again(u64),
}

pub(crate) struct Running {
    /// Something has happened since it began.
    again: bool,
    /// Asked to stop.
    pub(crate) cancelled: bool,
}

pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) notify: bool,
    pub(crate) pending: bool,
    /// It was pending when the present run of `to` began, and nothing newer has come.
    pub(crate) seen: bool,
}

impl Node {
    pub(crate) fn new(rules: Rules) -> Node {
        Node {
            budget: rules.retry,
            watch_budget: rules.retry,
            failures: 0,
            watch_failures: 0,
            rules,
            next: None,
            incarnation: 0,
            place: Place::Declared,
            watch: Watch::Off,
            dirty: false,
            routine: false,
            succeeded: false,
            failed: false,
            running: None,
            not_before: 0,
            poll_at: None,
            event_waits: false,
            retrying: false,
            in_line: false,
            event_runs: Vec::new(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.place, Place::Declared | Place::Lingering)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_open() && self.succeeded && !self.dirty && self.running.is_none() && !self.failed
    }

    /// Whether there is anything to run at all.
    pub(crate) fn has_work(&self) -> bool {
        !self.rules.hidden || (self.rules.export && !self.rules.noop)
    }

    pub(crate) fn make_dirty(&mut self) {
        self.dirty = true;
        self.routine = false;
        if let Some(running) = &mut self.running {
            running.again = true;
        }
    }

    fn hear_event(&mut self) {
        self.make_dirty();
        self.event_waits = true;
    }

    pub(crate) fn begin_run(&mut self) {
        self.running = Some(Running { again: false, cancelled: false });
        self.in_line = false;
    }
}

impl Oracle {
    pub(crate) fn new(settings: Settings, now: u64) -> Oracle {
        Oracle {
            settings,
            now,
            nodes: Vec::new(),
            edges: Vec::new(),
            ancestors: vec![0; MOST_VERTICES],
            paused: false,
            pause_told: false,
            stopping: None,
            stop_told: false,
            converged: false,
            last_activity: now,
            expected: Vec::new(),
        }
    }

    pub(crate) fn tick(&mut self) {
        if self.stopping.is_none() {
            let now = self.now;
            for node in self.nodes.iter_mut().flatten() {
                if let (Some(at), Poll::Every(period)) = (node.poll_at, node.rules.poll)
                    && at <= now
                {
                    node.poll_at = Some(now + period);
                    let routine = node.routine || !node.dirty;
                    node.hear_event();
                    node.routine = routine;
                }
            }
        }
        self.settle();
        self.ids().for_each(|id| self.watch_again(id));
    }

    pub(crate) fn watching(&mut self, id: usize, incarnation: u32) {
        if let Some(node) = self.watched(id, incarnation)
            && node.watch == Watch::Asked
        {
            node.watch = Watch::On;
            node.hear_event();
        }
        self.settle();
    }

    pub(crate) fn changed(&mut self, id: usize) {
        if let Some(node) = self.open(id)
            && node.watch == Watch::On
        {
            node.hear_event();
        }
        self.settle();
    }

    pub(crate) fn watch_failed(&mut self, id: usize, incarnation: u32) {
        let now = self.now;
        let mut actions = Vec::new();
        if let Some(node) = self.watched(id, incarnation)
            && !node.failed
            && matches!(node.watch, Watch::Asked | Watch::On)
        {
            if let Some(running) = &mut node.running
                && !std::mem::replace(&mut running.cancelled, true)
            {
                actions.push(Action::Cancel(vertex(id), Level::Cancel));
            }
            if spend(&mut node.watch_budget) {
                node.watch_failures += 1;
                let delay = pause(&node.rules, node.watch_failures);
                node.watch = Watch::Again(now + delay);
                actions.push(Action::Retry(vertex(id), delay));
            } else {
                self.fail(id);
            }
        }
        self.expected.append(&mut actions);
        self.settle();
    }

    pub(crate) fn finished(&mut self, id: usize, outcome: Outcome, dirtied: &[Vertex]) {
        let Some(running) = self.node_mut(id).and_then(|node| node.running.take()) else { return };
        if self.open(id).is_some() {
            match outcome {
                Outcome::Right | Outcome::Changed => self.run_succeeded(id, running.again, outcome),
                Outcome::Failed if !running.cancelled => self.run_failed(id),
                Outcome::Failed | Outcome::Cancelled => {}
            }
        }
        for receiver in dirtied {
            if let Some(node) = self.open(receiver.0 as usize) {
                node.make_dirty();
            }
        }
        if self.nodes[id].as_ref().is_some_and(|node| node.place == Place::Leaving) {
            self.close(id);
        }
        self.settle();
        self.watch_again(id);
    }

    pub(crate) fn closed(&mut self, id: usize) {
        if self.node(id).is_some_and(|node| node.place == Place::Closing)
            && let Some(node) = self.nodes[id].take()
        {
            match node.next {
                None => self.expected.push(Action::Freed(vertex(id))),
                Some(rules) => {
                    let incarnation = node.incarnation + 1;
                    self.nodes[id] = Some(Node { incarnation, ..Node::new(rules) });
                    self.expected.push(Action::Reincarnate(vertex(id), incarnation));
                    self.start(id);
                }
            }
        }
        self.settle();
    }

    pub(crate) fn pause(&mut self) {
        self.paused = true;
        self.settle();
    }

    pub(crate) fn resume(&mut self) {
        self.paused = false;
        self.pause_told = false;
        if !self.converged {
            self.last_activity = self.now;
        }
        self.settle();
    }

    pub(crate) fn stop(&mut self, level: Level) {
        if self.stopping.is_none_or(|present| level > present) {
            self.stopping = Some(level);
            if level > Level::Graceful {
                for (id, node) in self.nodes.iter_mut().enumerate() {
                    if let Some(running) = node.as_mut().and_then(|node| node.running.as_mut()) {
                        running.cancelled = true;
                        self.expected.push(Action::Cancel(vertex(id), level));
                    }
                }
            }
        }
        self.settle();
    }

    /// Still owes the one success that it promised.
    pub(crate) fn owes(&self, id: usize) -> bool {
        let promised = self.nodes[id].as_ref().is_some_and(|node| {
            node.is_open() && node.rules.realize && !node.rules.hidden && !node.succeeded && !node.failed
        });
        promised && self.stopping.is_none() && !self.is_behind_failed(id)
    }

    pub(crate) fn is_behind_failed(&self, id: usize) -> bool {
        self.has_ancestor(id, |ancestor| ancestor.failed && ancestor.is_open())
    }

    pub(crate) fn ancestors_settled(&self, id: usize) -> bool {
        !self.has_ancestor(id, |ancestor| !ancestor.is_settled())
    }

    pub(crate) fn has_ancestor(&self, id: usize, such: impl Fn(&Node) -> bool) -> bool {
        let mut left = self.ancestors[id];
        while left != 0 {
            let ancestor = left.trailing_zeros() as usize;
            left &= left - 1;
            if self.nodes[ancestor].as_ref().is_some_and(&such) {
                return true;
            }
        }
        false
    }

    fn run_succeeded(&mut self, id: usize, again: bool, outcome: Outcome) {
        let Some(node) = &mut self.nodes[id] else { return };
        node.failures = 0;
        if node.rules.retry_reset {
            node.budget = node.rules.retry;
        }
        node.retrying = false;
        node.dirty = again;
        node.succeeded = true;
        let noop = node.rules.noop;
        if !noop {
            self.acknowledge(id);
        }
        if outcome == Outcome::Changed && !noop {
            self.last_activity = self.now;
            self.notify(id);
        }
    }

    fn acknowledge(&mut self, id: usize) {
        for edge in self.edges.iter_mut().filter(|edge| edge.to == id && edge.pending && edge.seen) {
            edge.pending = false;
            self.expected.push(Action::Pending(vertex(edge.from), vertex(id), false));
        }
    }

    fn notify(&mut self, id: usize) {
        for edge in self.edges.iter_mut().filter(|edge| edge.from == id && edge.notify) {
            let Some(node) = &mut self.nodes[edge.to] else { continue };
            let rules = if node.is_open() { Some(&node.rules) } else { node.next.as_ref() };
            if rules.is_some_and(|rules| rules.refreshable) {
                node.make_dirty();
                edge.seen = false;
                if !std::mem::replace(&mut edge.pending, true) {
                    self.expected.push(Action::Pending(vertex(id), vertex(edge.to), true));
                }
            }
        }
    }

    fn run_failed(&mut self, id: usize) {
        self.last_activity = self.now;
        let now = self.now;
        let Some(node) = &mut self.nodes[id] else { return };
        if !spend(&mut node.budget) {
            return self.fail(id);
        }
        node.retrying = true;
        node.routine = false;
        node.failures += 1;
        let delay = pause(&node.rules, node.failures);
        node.not_before = now + delay;
        self.expected.push(Action::Retry(vertex(id), delay));
    }

    fn fail(&mut self, id: usize) {
        self.last_activity = self.now;
        if let Some(node) = &mut self.nodes[id] {
            node.failed = true;
            node.watch = Watch::Off;
            node.poll_at = None;
        }
        self.expected.push(Action::Unwatch(vertex(id)));
        self.expected.push(Action::Failed(vertex(id)));
    }

    pub(crate) fn start(&mut self, id: usize) {
        let now = self.now;
        let Some(node) = &mut self.nodes[id] else { return };
        if node.rules.hidden {
            node.watch = Watch::Off;
            return node.make_dirty();
        }
        match node.rules.poll {
            Poll::Watch => {
                node.watch = Watch::Asked;
                self.expected.push(Action::Watch(vertex(id), node.incarnation));
            }
            poll => {
                node.watch = Watch::On;
                node.poll_at = if let Poll::Every(period) = poll { Some(now + period) } else { None };
                node.hear_event();
            }
        }
    }

    fn watch_again(&mut self, id: usize) {
        let (now, stopping) = (self.now, self.stopping.is_some());
        let due = self.open(id).is_some_and(|node| {
            node.running.is_none() && matches!(node.watch, Watch::Again(at) if at <= now) && !stopping
        });
        if due {
            self.start(id);
        }
    }

    /// Draws all the conclusions that need no run.
    pub(crate) fn settle(&mut self) {
        while self.let_go() || self.become_next() || self.pass_hidden() {}
        self.come_to_rest();
    }

    /// Lingering vertices go when they have succeeded or cannot any more.
    fn let_go(&mut self) -> bool {
        let going: Vec<usize> = self
            .ids()
            .filter(|id| self.lingers(*id))
            .filter(|id| {
                let over = self.nodes[*id].as_ref().is_some_and(|node| node.succeeded || node.failed);
                over || self.stopping.is_some() || self.is_behind_failed(*id)
            })
            .collect();
        going.iter().for_each(|id| self.leave(*id));
        !going.is_empty()
    }

    fn become_next(&mut self) -> bool {
        let ready = |id: &usize| {
            let waits = |node: &Node| node.is_open() && node.next.is_some() && node.running.is_none();
            self.stopping.is_none() && self.nodes[*id].as_ref().is_some_and(waits) && !self.owes(*id)
        };
        // A failed one excuses those behind it only if it stays so.
        let failed = |id: &usize| self.nodes[*id].as_ref().is_some_and(|node| node.failed) && ready(id);
        let first = self.ids().find(failed).or_else(|| self.ids().find(ready));
        let Some(id) = first else { return false };
        if let Some(old) = self.nodes[id].take()
            && let Some(rules) = old.next
        {
            let budget = if rules.reset || old.failed { rules.retry } else { old.budget };
            let incarnation = old.incarnation + 1;
            let real = |rules: &Rules| rules.poll == Poll::Watch && !rules.hidden;
            if real(&old.rules) && old.watch != Watch::Off && !real(&rules) {
                self.expected.push(Action::Unwatch(vertex(id)));
            }
            self.nodes[id] = Some(Node { budget, incarnation, place: old.place, ..Node::new(rules) });
            self.expected.push(Action::Reincarnate(vertex(id), incarnation));
            self.start(id);
        }
        true
    }

    /// Hidden vertices without work are done as soon as those before them are.
    fn pass_hidden(&mut self) -> bool {
        let passes = |id: &usize| {
            let wants = |node: &Node| node.is_open() && node.dirty && !node.has_work();
            self.nodes[*id].as_ref().is_some_and(wants) && self.ancestors_settled(*id)
        };
        let Some(id) = self.ids().find(passes) else { return false };
        if let Some(node) = &mut self.nodes[id] {
            node.dirty = false;
            node.succeeded = true;
            if !node.rules.noop {
                self.edges.iter_mut().filter(|edge| edge.to == id).for_each(|edge| edge.seen = edge.pending);
                self.acknowledge(id);
            }
        }
        true
    }

    fn come_to_rest(&mut self) {
        let idle = self.nodes.iter().flatten().all(|node| node.running.is_none());
        if self.stopping.is_some() {
            if idle && !std::mem::replace(&mut self.stop_told, true) {
                self.expected.push(Action::Stopped);
            }
        } else if self.paused {
            if idle && !std::mem::replace(&mut self.pause_told, true) {
                self.expected.push(Action::Paused);
            }
        } else if let Some(after) = self.settings.converge_after
            && self.converged
            && self.last_activity + after > self.now
        {
            self.converged = false;
            self.expected.push(Action::Diverged);
        }
    }

    fn open(&mut self, id: usize) -> Option<&mut Node> {
        self.node_mut(id).filter(|node| node.is_open())
    }

    pub(crate) fn node(&self, id: usize) -> Option<&Node> {
        self.nodes.get(id)?.as_ref()
    }

    fn node_mut(&mut self, id: usize) -> Option<&mut Node> {
        self.nodes.get_mut(id)?.as_mut()
    }

    pub(crate) fn ids(&self) -> std::ops::Range<usize> {
        0..self.nodes.len()
    }

    fn watched(&mut self, id: usize, incarnation: u32) -> Option<&mut Node> {
        self.open(id).filter(|node| !node.rules.hidden && node.incarnation == incarnation)
    }
}

pub(crate) fn vertex(id: usize) -> Vertex {
    Vertex(id as u32)
}

/// Eight tries as the rules say; then twice as long each time, from a millisecond up to a second, unless the rules ask for more.
fn pause(rules: &Rules, failures: u32) -> u64 {
    let ours = (9..=failures).fold(500_000, |pause: u64, _| (pause * 2).min(1_000_000_000));
    if failures > 8 { ours.max(rules.delay) } else { rules.delay }
}

/// Takes one from a budget. False: it was empty.
fn spend(budget: &mut Option<u32>) -> bool {
    match budget {
        Some(0) => false,
        Some(left) => {
            *left -= 1;
            true
        }
        None => true,
    }
}
