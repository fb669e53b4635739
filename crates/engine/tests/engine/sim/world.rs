//! The driver and the host, played with a seed.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fmt::Write as _;

use mgmt_engine::core::{Action, Core, Delta, Level, Outcome, Settings, Vertex};

use super::graph::{Declared, MILLISECOND, MOST_VERTICES, SECOND, Taste};
use super::health::Health;
use super::oracle::{Oracle, Place, vertex};
use mgmt_test_support::random::Random;

pub(crate) struct World {
    random: Random,
    core: Core,
    oracle: Oracle,
    declared: Declared,
    now: u64,
    /// Answers on their way, by time.
    answers: BinaryHeap<Reverse<(u64, u64, Answer)>>,
    sequence: u64,
    /// The number of the present run of each vertex, so that an answer that was overtaken is known.
    runs: Vec<Option<u64>>,
    /// Nothing goes wrong any more, and nothing new happens.
    calm: bool,
    /// How often things go wrong and graphs change in this story, of a hundred.
    bad_luck: u64,
    restlessness: u64,
    /// As the driver does: who has notified a vertex since its last run began, and those that its present run is for.
    reasons: Vec<BTreeSet<usize>>,
    running_for: Vec<BTreeSet<usize>>,
    /// As the agent does.
    health: Health,
    trace: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    Watching(usize, u32),
    WatchFailed(usize, u32),
    Changed(usize),
    Finished(usize, u64),
    Closed(usize),
}

enum Input<'a> {
    Tick,
    Watching(usize, u32),
    WatchFailed(usize, u32),
    Changed(usize),
    Finished(usize, Outcome, &'a [Vertex]),
    Closed(usize),
    Pause,
    Resume,
    Stop(Level),
    Apply(&'a Delta),
    Retry(Option<usize>),
}

/// Plays one story. Panics where the core and the oracle differ; what happened until then is in `trace`.
pub(crate) fn play(seed: u64, steps: usize, traced: bool, trace: &mut Option<String>) {
    let mut world = World::new(seed, traced);
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.play(steps)));
    *trace = world.trace.take();
    if let Err(cause) = told {
        std::panic::resume_unwind(cause);
    }
}

impl World {
    fn new(seed: u64, traced: bool) -> World {
        let mut random = Random::new(seed);
        let settings = Settings {
            capacity: [*random.pick(&[1, 1, 2, 4]), *random.pick(&[1, 2, 3, 6])],
            converge_after: match random.below(6) {
                0 => None,
                1 => Some(0),
                _ => Some(random.between(1, 5000) * MILLISECOND),
            },
            seed,
        };
        let now = random.below(1000 * SECOND);
        World {
            core: Core::new(settings.clone(), now),
            oracle: Oracle::new(settings, now),
            declared: Declared::default(),
            now,
            answers: BinaryHeap::new(),
            sequence: 0,
            runs: vec![None; MOST_VERTICES],
            calm: false,
            bad_luck: *random.pick(&[0, 5, 20, 50]),
            restlessness: *random.pick(&[1, 5, 15, 30]),
            reasons: vec![BTreeSet::new(); MOST_VERTICES],
            running_for: vec![BTreeSet::new(); MOST_VERTICES],
            health: Health::default(),
            trace: traced.then(String::new),
            random,
        }
    }

    fn play(&mut self, steps: usize) {
        let taste = Taste::random(&mut self.random);
        let first = Declared::random(taste, &mut self.random);
        self.declare(first, &[]);
        for _ in 0..steps {
            self.step();
            if self.oracle.stopping.is_some() && self.random.percent(10) {
                break;
            }
        }
        if self.oracle.stopping.is_none() && self.random.percent(20) {
            self.feed(Input::Stop(Level::Graceful));
        }
        match self.oracle.stopping {
            None => self.quiet_down(),
            Some(_) => self.shut_down(),
        }
    }

    fn step(&mut self) {
        let swap = if self.oracle.stopping.is_some() { 0 } else { self.restlessness };
        let choice = self.random.below(100 + swap);
        match choice {
            0..55 => self.go_on(),
            55..72 => {
                let one = self.some_vertex();
                for _ in 0..*self.random.pick(&[1, 1, 1, 2, 6]) {
                    let id = match self.random.below(20) {
                        0 => self.random.below(MOST_VERTICES as u64) as usize,
                        1..10 => one,
                        _ => self.some_vertex(),
                    };
                    self.feed(Input::Changed(id));
                }
            }
            72..76 => {
                let pause = self.random.percent(40);
                self.feed(if pause { Input::Pause } else { Input::Resume });
            }
            76..79 if self.oracle.paused => self.feed(Input::Resume),
            79..84 => {
                let jump = *self.random.pick(&[MILLISECOND, 100 * MILLISECOND, SECOND, 20 * SECOND]);
                self.now += self.random.below(jump);
                self.note("the clock jumps");
            }
            84..92 => self.misfortune(),
            92..96 => self.stray_answer(),
            96 if self.random.percent(8) || self.oracle.stopping.is_some() => {
                let level = *self.random.pick(&[Level::Graceful, Level::Cancel, Level::Interrupt]);
                self.feed(Input::Stop(level));
            }
            97 | 98 => {
                let one = self.random.percent(50).then(|| self.some_vertex());
                self.feed(Input::Retry(one));
            }
            100.. => self.swap(),
            _ => self.feed(Input::Tick),
        }
    }

    /// A watch that had begun ends.
    fn misfortune(&mut self) {
        if self.random.percent(self.bad_luck) {
            let running = self.runs.iter().position(Option::is_some).filter(|_| self.random.percent(50));
            let id = running.unwrap_or_else(|| self.some_vertex());
            let watched = |id: usize| {
                let node = self.oracle.node(id)?;
                let real = node.rules.poll == mgmt_engine::core::Poll::Watch && !node.rules.hidden;
                real.then_some(node.incarnation)
            };
            if let Some(incarnation) = watched(id) {
                self.feed(Input::WatchFailed(id, incarnation));
            }
        }
    }

    /// Something that nobody asked for, or that is late.
    fn stray_answer(&mut self) {
        let id = self.random.below(MOST_VERTICES as u64) as usize;
        let node = self.oracle.node(id);
        let old = node.map_or(0, |node| node.incarnation).wrapping_sub(1);
        let closing = node.is_some_and(|node| node.place == Place::Closing);
        match self.random.below(4) {
            0 => self.feed(Input::Watching(id, old)),
            1 => self.feed(Input::WatchFailed(id, old)),
            2 if self.runs[id].is_none() => self.feed(Input::Finished(id, Outcome::Changed, &[])),
            3 if !closing => self.feed(Input::Closed(id)),
            _ => {}
        }
    }

    fn some_vertex(&mut self) -> usize {
        let ids: Vec<usize> = self.oracle.ids().filter(|id| self.oracle.node(*id).is_some()).collect();
        if ids.is_empty() { 0 } else { *self.random.pick(&ids) }
    }

    /// To the next thing that is due: an answer, or a timer of the core.
    fn go_on(&mut self) {
        let answer = self.answers.peek().map(|Reverse((at, _, _))| *at);
        let deadline = self.core.next_deadline();
        let Some(at) = answer.into_iter().chain(deadline).min() else { return };
        self.now = self.now.max(at);
        if answer.is_none_or(|answer| deadline.is_some_and(|deadline| deadline <= answer)) {
            return self.feed(Input::Tick);
        }
        let Some(Reverse((_, _, answer))) = self.answers.pop() else { return };
        match answer {
            Answer::Watching(id, incarnation) => self.feed(Input::Watching(id, incarnation)),
            Answer::WatchFailed(id, incarnation) => self.feed(Input::WatchFailed(id, incarnation)),
            Answer::Changed(id) => self.feed(Input::Changed(id)),
            Answer::Closed(id) => self.feed(Input::Closed(id)),
            Answer::Finished(id, run) if self.runs[id] == Some(run) => self.finish(id),
            Answer::Finished(..) => {}
        }
    }

    fn finish(&mut self, id: usize) {
        self.runs[id] = None;
        let cancelled = |running: &super::oracle::Running| running.cancelled;
        let node = self.oracle.node(id);
        let cancelled = node.and_then(|node| node.running.as_ref()).is_some_and(cancelled);
        let outcome = if self.calm {
            Outcome::Right
        } else if cancelled && self.random.percent(60) {
            Outcome::Cancelled
        } else if self.random.percent(self.bad_luck) {
            if self.random.percent(10) { Outcome::Held } else { Outcome::Failed }
        } else if self.random.percent(50) {
            if self.random.percent(20) { Outcome::Forwarded } else { Outcome::Changed }
        } else {
            Outcome::Right
        };
        let mut dirtied = Vec::new();
        if !self.calm && self.random.percent(30) {
            let after = self.oracle.edges.iter().filter(|edge| edge.from == id).map(|edge| vertex(edge.to));
            dirtied.extend(after);
            dirtied.retain(|_| self.random.percent(50));
            if self.random.percent(10) {
                dirtied.push(vertex(self.random.below(2 + MOST_VERTICES as u64) as usize));
            }
        }
        self.feed(Input::Finished(id, outcome, &dirtied));
    }

    fn swap(&mut self) {
        let mut there = self.declared.clone();
        let mut replaced = Vec::new();
        for _ in 0..self.random.between(1, 4) {
            let out = |id: &u32| self.oracle.node(*id as usize).is_some() && !there.rules.contains_key(id);
            let leaving: Vec<u32> = (0..MOST_VERTICES as u32).filter(out).collect();
            let free = |id: &u32| self.oracle.node(*id as usize).is_none() && !there.rules.contains_key(id);
            let free = (0..MOST_VERTICES as u32).find(free).unwrap_or(u32::MAX);
            replaced.extend(there.mutate(&leaving, free, &mut self.random));
        }
        self.declare(there, &replaced);
    }

    fn declare(&mut self, there: Declared, replaced: &[u32]) {
        let delta = self.declared.delta_to(&there, replaced, &mut self.random);
        self.declared = there;
        self.feed(Input::Apply(&delta));
    }

    /// Tells the core and the oracle, compares, and does what the core wants done.
    fn feed(&mut self, input: Input<'_>) {
        // Some callers have a clock that lags.
        let late = !self.calm && self.random.percent(10);
        let now = if late { self.now.saturating_sub(self.random.below(5 * SECOND)) } else { self.now };
        self.note_input(&input, now);
        self.oracle.now = self.oracle.now.max(now);
        let ended = match input {
            Input::Finished(id, outcome, _) => {
                let runs = self.oracle.node(id).is_some_and(|node| node.running.is_some());
                runs.then_some((id, outcome))
            }
            _ => None,
        };
        let (core, oracle) = (&mut self.core, &mut self.oracle);
        match input {
            Input::Tick => (core.tick(now), oracle.tick()),
            Input::Watching(id, incarnation) => {
                (core.watching(vertex(id), incarnation, now), oracle.watching(id, incarnation))
            }
            Input::WatchFailed(id, incarnation) => {
                (core.watch_failed(vertex(id), incarnation, now), oracle.watch_failed(id, incarnation))
            }
            Input::Changed(id) => (core.changed(vertex(id), now), oracle.changed(id)),
            Input::Finished(id, outcome, dirtied) => {
                (core.finished(vertex(id), outcome, dirtied, now), oracle.finished(id, outcome, dirtied))
            }
            Input::Closed(id) => (core.closed(vertex(id), now), oracle.closed(id)),
            Input::Pause => (core.pause(now), oracle.pause()),
            Input::Resume => (core.resume(now), oracle.resume()),
            Input::Stop(level) => (core.stop(level, now), oracle.stop(level)),
            Input::Apply(delta) => (core.apply(delta.clone(), now), oracle.apply(delta)),
            Input::Retry(id) => {
                assert_eq!(core.retry(id.map(vertex), now), oracle.retry(id), "vertices to attempt");
                ((), ())
            }
        };
        if let Input::Finished(id, outcome, _) = input {
            let earlier = std::mem::take(&mut self.running_for[id]);
            if matches!(outcome, Outcome::Failed | Outcome::Cancelled | Outcome::Held) {
                self.reasons[id].extend(earlier);
            }
        }
        let ticked = matches!(input, Input::Tick);
        let actions = self.core.take_actions();
        for action in &actions {
            self.note(&format!("    {action:?}"));
        }
        self.oracle.observe(&actions);
        self.note_reasons(&actions);
        self.health.observe(ended, &actions, &self.oracle);
        self.core.check_invariants();
        for action in actions {
            self.carry_out(action);
        }
        let due = self.core.next_deadline().is_some_and(|at| at <= self.oracle.now);
        assert!(!ticked || !due, "a timer is due after a tick");
        if !due {
            self.oracle.check_rest(&self.core);
            self.health.compare(&self.core, &self.oracle);
        } else if self.calm || self.random.percent(70) {
            self.feed(Input::Tick);
        }
    }

    /// Keeps who has notified whom, as the driver does, and compares it with what the oracle knows whenever a run begins: no
    /// notification is lost, and none without its reason.
    fn note_reasons(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Notified(from, to) => {
                    self.reasons[to.0 as usize].insert(from.0 as usize);
                }
                Action::Run(run) => {
                    let id = run.vertex.0 as usize;
                    self.running_for[id] = std::mem::take(&mut self.reasons[id]);
                    let running = self.oracle.node(id).and_then(|node| node.running.as_ref());
                    let news = running.map(|running| running.news.as_slice()).unwrap_or_default();
                    for from in news {
                        let told = self.running_for[id].contains(from);
                        assert!(told, "{run:?} does not know that {from} has notified it");
                    }
                }
                Action::Freed(vertex) => {
                    self.reasons[vertex.0 as usize].clear();
                    self.running_for[vertex.0 as usize].clear();
                }
                _ => {}
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Watch(vertex, incarnation) => {
                let id = vertex.0 as usize;
                let answer = match self.random.percent(self.bad_luck) && !self.calm {
                    true => Answer::WatchFailed(id, incarnation),
                    false => Answer::Watching(id, incarnation),
                };
                self.answer_in(20, answer);
                if !self.calm && self.random.percent(20) {
                    self.answer_in(3000, Answer::Changed(id));
                }
            }
            Action::Run(run) => {
                let id = run.vertex.0 as usize;
                self.runs[id] = Some(self.sequence);
                self.answer_in(50, Answer::Finished(id, self.sequence));
            }
            Action::Cancel(vertex, _) => {
                // It was asked to be quick.
                let id = vertex.0 as usize;
                if self.random.percent(80) {
                    self.runs[id] = Some(self.sequence);
                    self.answer_in(5, Answer::Finished(id, self.sequence));
                }
            }
            Action::Close(vertex) => self.answer_in(50, Answer::Closed(vertex.0 as usize)),
            _ => {}
        }
    }

    fn answer_in(&mut self, most: u64, answer: Answer) {
        let delay = match self.random.below(10) {
            _ if self.calm => MILLISECOND,
            0 => 0,
            1 => self.random.below(5000) * MILLISECOND,
            _ => self.random.below(most * MILLISECOND),
        };
        self.answers.push(Reverse((self.now + delay, self.sequence, answer)));
        self.sequence += 1;
    }

    /// Everything works from now on and nothing new happens: all that can be done must get done.
    fn quiet_down(&mut self) {
        self.calm = true;
        self.note("calm from here");
        self.feed(Input::Resume);
        let end = self.now + 3000 * SECOND;
        // Answers that were already on their way may still be bad.
        while !self.answers.is_empty() || !self.oracle.is_quiet() {
            assert!(self.now < end, "it did not come to rest");
            let before = (self.now, self.sequence, self.answers.len(), self.core.next_deadline());
            self.go_on();
            let after = (self.now, self.sequence, self.answers.len(), self.core.next_deadline());
            assert!(before != after, "nothing moves any more");
        }
        self.oracle.check_quiet();
        if self.oracle.nodes.iter().flatten().any(|node| node.poll_at.is_some()) {
            return;
        }
        // Timers that nobody stands for any more may be left, and must not do anything.
        while let Some(at) = self.core.next_deadline() {
            self.now = self.now.max(at);
            let before = self.sequence;
            self.feed(Input::Tick);
            assert_eq!(before, self.sequence, "a quiet graph does something");
        }
    }

    /// After a stop: what runs ends, and then everything can be removed.
    fn shut_down(&mut self) {
        self.calm = true;
        self.note("shutting down");
        if self.random.percent(50) {
            self.feed(Input::Stop(Level::Interrupt));
        }
        while !self.answers.is_empty() {
            self.go_on();
        }
        assert_eq!(self.core.next_deadline(), None, "a timer after the end");
        self.declare(Declared::default(), &[]);
        while !self.answers.is_empty() {
            self.go_on();
        }
        assert_eq!(self.core.vertex_count(), 0, "something is left");
    }

    fn note(&mut self, line: &str) {
        if let Some(trace) = &mut self.trace {
            let _ = writeln!(trace, "{line}");
        }
    }

    fn note_input(&mut self, input: &Input<'_>, now: u64) {
        if self.trace.is_none() {
            return;
        }
        let line = match input {
            Input::Tick => "tick".to_string(),
            Input::Watching(id, incarnation) => format!("watching {id} incarnation {incarnation}"),
            Input::WatchFailed(id, incarnation) => format!("watch failed {id} incarnation {incarnation}"),
            Input::Changed(id) => format!("changed {id}"),
            Input::Finished(id, outcome, dirtied) => {
                format!("finished {id} {outcome:?}, dirtied {dirtied:?}")
            }
            Input::Closed(id) => format!("closed {id}"),
            Input::Pause => "pause".to_string(),
            Input::Resume => "resume".to_string(),
            Input::Stop(level) => format!("stop {level:?}"),
            Input::Apply(delta) => describe(delta),
            Input::Retry(id) => format!("retry {id:?}"),
        };
        let milliseconds = now as f64 / MILLISECOND as f64;
        self.note(&format!("{milliseconds:.3} {line}"));
    }
}

fn describe(delta: &Delta) -> String {
    let mut text = format!("apply: remove {:?}", delta.remove);
    for (word, list) in [("add", &delta.add), ("replace", &delta.replace)] {
        for (vertex, rules) in list {
            let _ = write!(text, "\n        {word} {} {rules:?}", vertex.0);
        }
    }
    let _ = write!(text, "\n        unlink {:?}", delta.unlink);
    for link in &delta.link {
        let notify = if link.notify { " notify" } else { "" };
        let pending = if link.pending { " pending" } else { "" };
        let _ = write!(text, "\n        link {} -> {}{notify}{pending}", link.from.0, link.to.0);
    }
    text
}
