//! What ought to happen, said a second time and naively.
//!
//! The oracle hears every input before the core's answer is looked at. It keeps, for each vertex, plain facts
//! (succeeded, failed, dirty, running) and works out from the definitions what must follow: which actions, and
//! which vertices may run. It never asks the core. Where the core counts, stamps and queues, the oracle walks the
//! whole graph. [`super::judge`] compares the two.

use mgmt_engine::core::{Action, Level, Outcome, Poll, Retry, Rules, Settings, Vertex};

use super::graph::MOST_VERTICES;
use super::tries::Tries;

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
    /// At rest: converged, or only quiet.
    pub(crate) rest: Option<Rest>,
    pub(crate) rest_since: u64,
    pub(crate) last_activity: u64,
    /// Since when something has been busy at the end of each input; and the same if a poll counts that another one waits for.
    pub(crate) busy_since: Option<u64>,
    pub(crate) at_work_since: Option<u64>,
    /// Actions that must come, in any order.
    pub(crate) expected: Vec<Action>,
    /// Reports of failed attempts that must come.
    pub(crate) failures: Vec<Failure>,
    /// A vertex has recovered with the present input.
    pub(crate) recovered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    Converged,
    Quiet { failing: usize, unwell: usize },
}

/// A failed attempt: whose, which one in a row, and between which pauses the next one starts. `None`: not by time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) id: usize,
    pub(crate) watch: bool,
    pub(crate) attempt: u32,
    pub(crate) pause: Option<(u64, u64)>,
    /// What had happened meanwhile led to an attempt at this time, if none is due by then.
    pub(crate) prompt: Option<u64>,
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
    /// It has failed, and has not succeeded since, whatever it has become.
    pub(crate) owes_success: bool,
    pub(crate) running: Option<Running>,
    pub(crate) not_before: u64,
    pub(crate) poll_at: Option<u64>,
    pub(crate) check: Tries,
    pub(crate) watch_tries: Tries,
    watch_since: u64,
    /// The watch has told of an event, and no run has begun since.
    unserved_event: bool,
    /// An event has come since the last run began.
    pub(crate) event_waits: bool,
    /// An event asks for an attempt at once, unless a limit is told.
    pub(crate) prompt_at: Option<u64>,
    /// When the rate allows the run that the event leads to.
    pub(crate) rated: u64,
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
    /// Who had notified it.
    pub(crate) news: Vec<usize>,
}

pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) notify: bool,
    pub(crate) pending: bool,
    /// No run has begun since it was told, or only ones that did not succeed.
    pub(crate) news: bool,
    /// It was pending when the present run of `to` began, and nothing newer has come.
    pub(crate) seen: bool,
}

impl Node {
    pub(crate) fn new(rules: Rules) -> Node {
        Node {
            check: Tries::new(&rules),
            watch_tries: Tries::new(&rules),
            watch_since: 0,
            unserved_event: false,
            rules,
            next: None,
            incarnation: 0,
            place: Place::Declared,
            watch: Watch::Off,
            dirty: false,
            routine: false,
            succeeded: false,
            owes_success: false,
            running: None,
            not_before: 0,
            poll_at: None,
            event_waits: false,
            prompt_at: None,
            rated: 0,
            in_line: false,
            event_runs: Vec::new(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.place, Place::Declared | Place::Lingering)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.is_open() && self.succeeded && !self.dirty && self.running.is_none() && !self.is_failing()
    }

    /// The last attempt to check or to watch failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.check.failures > 0 || self.is_watch_failing()
    }

    pub(crate) fn is_watch_failing(&self) -> bool {
        match self.watch {
            Watch::Again(_) => true,
            Watch::Asked => self.watch_tries.failures > 0,
            Watch::On | Watch::Off => false,
        }
    }

    /// Its declared attempts to watch are used up, or none are declared: the next one follows all the same.
    pub(crate) fn watch_is_endless(&self) -> bool {
        self.watch_tries.failures > 0 && (self.is_endless() || !self.watch_tries.taken)
    }

    /// It is attempted by time for ever.
    pub(crate) fn is_endless(&self) -> bool {
        !matches!(self.rules.retry, Retry::Times(_))
    }

    /// It is failing, and nothing but a prompt leads to another attempt.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.check.failures > 0 && self.check.next == u64::MAX
    }

    /// It is failing, and what was promised of it need not be kept: it has had all declared retries, or none were declared.
    pub(crate) fn is_excused(&self) -> bool {
        let over = |tries: &Tries| match self.rules.retry {
            Retry::Backoff => true,
            Retry::Times(_) => !tries.taken,
            Retry::Forever => false,
        };
        (self.check.failures > 0 && over(&self.check)) || (self.is_watch_failing() && over(&self.watch_tries))
    }

    pub(crate) fn due(&self) -> u64 {
        if self.check.failures > 0 { self.not_before.max(self.check.next) } else { self.not_before }
    }

    /// Attempts it once more if it is failing: the graph says so.
    fn prompt(&mut self, now: u64) {
        self.make_dirty();
        if self.check.failures > 0 && self.running.is_none() {
            self.check.prompt(now);
        }
        if matches!(self.watch, Watch::Again(_)) {
            self.watch_tries.prompt(now);
            self.watch = Watch::Again(self.watch_tries.next);
        }
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

    fn hear_event(&mut self, now: u64) {
        self.make_dirty();
        if !std::mem::replace(&mut self.event_waits, true) {
            self.rated = now;
            self.prompt_at = (self.check.failures > 0 && self.running.is_none()).then_some(now);
        }
    }

    pub(crate) fn begin_run(&mut self, news: Vec<usize>) {
        self.running = Some(Running { again: false, cancelled: false, news });
        self.check.begin();
        self.in_line = false;
        self.unserved_event = false;
    }
}

/// The pause that follows if what happened meanwhile leads to an attempt after `prompted`.
fn sooner(pause: Option<(u64, u64)>, prompted: u64) -> Option<(u64, u64)> {
    Some(
        pause.map_or((prompted, prompted), |(shortest, longest)| {
            (shortest.min(prompted), longest.min(prompted))
        }),
    )
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
            rest: None,
            rest_since: now,
            last_activity: now,
            busy_since: None,
            at_work_since: None,
            expected: Vec::new(),
            failures: Vec::new(),
            recovered: false,
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
                    node.hear_event(now);
                    node.routine = routine;
                }
            }
        }
        self.settle();
        self.ids().for_each(|id| self.watch_again(id));
    }

    pub(crate) fn watching(&mut self, id: usize, incarnation: u32) {
        let now = self.now;
        if let Some(node) = self.watched(id, incarnation)
            && node.watch == Watch::Asked
        {
            node.watch = Watch::On;
            node.watch_since = now;
            node.hear_event(now);
        }
        self.settle();
    }

    pub(crate) fn changed(&mut self, id: usize) {
        let now = self.now;
        if let Some(node) = self.open(id)
            && node.watch == Watch::Asked
        {
            node.unserved_event = true;
        } else if let Some(node) = self.open(id)
            && matches!(node.watch, Watch::On | Watch::Again(_))
        {
            node.unserved_event |= node.watch == Watch::On;
            node.hear_event(now);
            if matches!(node.watch, Watch::Again(_)) {
                node.watch_tries.prompt(now);
                node.watch = Watch::Again(node.watch_tries.next);
                self.watch_again(id);
            }
        }
        self.settle();
    }

    pub(crate) fn watch_failed(&mut self, id: usize, incarnation: u32) {
        let now = self.now;
        if let Some(node) = self.watched(id, incarnation)
            && node.rules.poll == Poll::Watch
            && matches!(node.watch, Watch::Asked | Watch::On)
        {
            let first = !node.is_failing();
            if node.watch == Watch::On && now >= node.watch_since + 60_000_000_000 {
                node.watch_tries = Tries::new(&node.rules);
            }
            let mut pause = node.watch_tries.fail_to_watch(&node.rules, now);
            node.owes_success = true;
            node.watch_tries.next = pause.map_or(u64::MAX, |(_, longest)| now + longest);
            let mut prompt = None;
            if std::mem::take(&mut node.unserved_event) && node.watch_tries.prompt(now) {
                prompt = Some(node.watch_tries.next);
                pause = sooner(pause, node.watch_tries.next - now);
            }
            node.watch = Watch::Again(node.watch_tries.next);
            let attempt = node.watch_tries.failures;
            self.failures.push(Failure { id, watch: true, attempt, pause, prompt });
            if first {
                self.last_activity = now;
            }
        }
        self.settle();
    }

    pub(crate) fn finished(&mut self, id: usize, outcome: Outcome, dirtied: &[Vertex]) {
        let Some(running) = self.node_mut(id).and_then(|node| node.running.take()) else { return };
        if self.open(id).is_some() {
            match outcome {
                Outcome::Right | Outcome::Changed | Outcome::Forwarded => {
                    self.run_succeeded(id, running.again, outcome);
                }
                Outcome::Failed | Outcome::Held if !running.cancelled => {
                    self.run_failed(id, running.again, outcome == Outcome::Held);
                }
                Outcome::Failed | Outcome::Held | Outcome::Cancelled => self.run_cancelled(id, running.again),
            }
        }
        if matches!(outcome, Outcome::Failed | Outcome::Held) {
            // Those that it excuses go at once.
            while self.let_go() || self.become_next() {}
        }
        if matches!(outcome, Outcome::Failed | Outcome::Cancelled | Outcome::Held) {
            let again = |edge: &&mut Edge| edge.to == id && edge.pending && running.news.contains(&edge.from);
            self.edges.iter_mut().filter(again).for_each(|edge| edge.news = true);
        }
        for receiver in dirtied {
            self.prompt(receiver.0 as usize);
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
                    let owes_success = node.owes_success;
                    self.nodes[id] = Some(Node { incarnation, owes_success, ..Node::new(rules) });
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
        if self.rest.is_none() {
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
            node.is_open()
                && node.rules.realize
                && !node.rules.hidden
                && !node.succeeded
                && !node.is_excused()
        });
        promised && self.stopping.is_none() && !self.is_behind_excused(id)
    }

    pub(crate) fn is_behind_excused(&self, id: usize) -> bool {
        self.has_ancestor(id, |ancestor| ancestor.is_open() && ancestor.is_excused())
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
        let recovered = node.check.succeed();
        if node.rules.retry_reset {
            node.check = Tries::new(&node.rules);
        }
        node.dirty = again;
        node.succeeded = true;
        node.owes_success = false;
        let noop = node.rules.noop;
        if !noop {
            self.acknowledge(id);
        }
        let changed = outcome == Outcome::Changed && !noop;
        let tells = changed || (outcome == Outcome::Forwarded && !noop);
        if tells {
            self.notify(id);
        }
        if changed || recovered {
            self.last_activity = self.now;
        }
        if tells || recovered {
            let behind: Vec<usize> = self.ids().filter(|to| self.ancestors[*to] & (1 << id) != 0).collect();
            for to in behind {
                if self.open(to).is_some_and(|node| node.is_failing()) {
                    self.prompt(to);
                }
            }
        }
        self.recovered |= recovered;
    }

    /// Attempts everything that is failing once more.
    pub(crate) fn prompt_failing(&mut self) {
        for id in self.ids() {
            if self.open(id).is_some_and(|node| node.is_failing()) {
                self.prompt(id);
            }
        }
    }

    /// Makes a vertex dirty, and attempts what has failed of it again.
    pub(crate) fn prompt(&mut self, id: usize) {
        let now = self.now;
        let Some(node) = self.open(id) else { return };
        let waits = matches!(node.watch, Watch::Again(_));
        node.prompt(now);
        if waits {
            self.watch_again(id);
        }
    }

    pub(crate) fn retry(&mut self, id: Option<usize>) -> usize {
        let now = self.now;
        let mut count = 0;
        for at in self.ids() {
            let Some(node) = self.open(at) else { continue };
            let held = id == Some(at) && node.dirty && node.not_before > now;
            if id.is_none_or(|id| id == at) && (node.is_failing() || held) {
                count += 1;
                node.not_before = 0;
                (node.check.gate, node.watch_tries.gate) = (0, 0);
                self.prompt(at);
            }
        }
        self.settle();
        count
    }

    fn acknowledge(&mut self, id: usize) {
        for edge in self.edges.iter_mut().filter(|edge| edge.to == id && edge.pending && edge.seen) {
            edge.pending = false;
            self.expected.push(Action::Pending(vertex(edge.from), vertex(id), false));
        }
    }

    fn notify(&mut self, id: usize) {
        let mut told = Vec::new();
        for edge in self.edges.iter_mut().filter(|edge| edge.from == id && edge.notify) {
            let Some(node) = &mut self.nodes[edge.to] else { continue };
            let rules = if node.is_open() { Some(&node.rules) } else { node.next.as_ref() };
            if rules.is_some_and(|rules| rules.refreshable) {
                node.make_dirty();
                told.push(edge.to);
                edge.seen = false;
                edge.news = true;
                self.expected.push(Action::Notified(vertex(id), vertex(edge.to)));
                if !std::mem::replace(&mut edge.pending, true) {
                    self.expected.push(Action::Pending(vertex(id), vertex(edge.to), true));
                }
            }
        }
        told.into_iter().for_each(|id| self.prompt(id));
    }

    fn run_failed(&mut self, id: usize, again: bool, held: bool) {
        let now = self.now;
        let Some(node) = &mut self.nodes[id] else { return };
        if !node.is_failing() {
            self.last_activity = now;
        }
        let rated = if node.event_waits { node.rated } else { now };
        node.not_before = 0;
        node.owes_success = true;
        let mut pause = if held { node.check.hold(now) } else { node.check.fail(&node.rules, now) };
        node.check.next = pause.map_or(u64::MAX, |(_, longest)| now + longest);
        let mut prompt = None;
        if again && node.check.prompt(rated) {
            prompt = Some(node.check.next);
            pause = sooner(pause, node.check.next - now);
        }
        node.routine = (node.routine || !again) && node.is_endless();
        if !held {
            self.failures.push(Failure { id, watch: false, attempt: node.check.failures, pause, prompt });
        }
    }

    /// An attempt that was cut off is still due if the one before it failed.
    fn run_cancelled(&mut self, id: usize, again: bool) {
        let now = self.now;
        let Some(node) = self.nodes[id].as_mut().filter(|node| node.check.failures > 0) else { return };
        node.not_before = 0;
        if again {
            let rated = if node.event_waits { node.rated } else { now };
            node.check.prompt(rated);
        }
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
                node.watch_tries.begin();
                self.expected.push(Action::Watch(vertex(id), node.incarnation));
            }
            poll => {
                node.watch = Watch::On;
                node.poll_at = if let Poll::Every(period) = poll { Some(now + period) } else { None };
                node.hear_event(now);
            }
        }
    }

    pub(crate) fn watch_again(&mut self, id: usize) {
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
                let over = self.nodes[*id].as_ref().is_some_and(|node| node.succeeded || node.is_excused());
                over || self.stopping.is_some() || self.is_behind_excused(*id)
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
        // A failing one excuses those behind it only if it stays so.
        let failing = |id: &usize| self.nodes[*id].as_ref().is_some_and(Node::is_excused) && ready(id);
        let first = self.ids().find(failing).or_else(|| self.ids().find(ready));
        let Some(id) = first else { return false };
        if let Some(old) = self.nodes[id].take()
            && let Some(rules) = old.next.clone()
        {
            let mut fresh = Node::new(rules.clone());
            if matches!(old.rules.retry, Retry::Times(_)) && !rules.reset && !old.is_excused() {
                fresh.check.left = old.check.left;
            }
            let incarnation = old.incarnation + 1;
            let real = |rules: &Rules| rules.poll == Poll::Watch && !rules.hidden;
            if real(&old.rules) && old.watch != Watch::Off && !real(&rules) {
                self.expected.push(Action::Unwatch(vertex(id)));
            }
            // What passes without a run is reported as nothing.
            let owes_success = old.owes_success && fresh.has_work();
            self.nodes[id] = Some(Node { incarnation, place: old.place, owes_success, ..fresh });
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
            node.owes_success = false;
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
            && self.rest.is_some()
            && self.last_activity + after > self.now
        {
            self.rest = None;
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
