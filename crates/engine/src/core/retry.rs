//! Retry with exponential backoff and jitter: when a failing vertex is attempted again, by time or by a prompt.

use std::collections::{BTreeSet, VecDeque};

use super::rules::{Retry, Rules, backoff, prompt_pause};
use super::{Action, Cause, Core, Running, State, Vertex, WatchState};

/// A watch that worked for this long is steady: an earlier failure of it does not lengthen the backoff of the next.
const STEADY_WATCH: u64 = 60_000_000_000;
/// The attempts of failing vertices are brought forward at most once in this time, and start within half of it.
const BRING_FORWARD_INTERVAL: u64 = 1_000_000_000;
/// An attempt is brought forward only after this part of its pause has passed, so that the backoff still bounds the rate.
const BRING_FORWARD_AFTER: u64 = 8;

/// The attempts of a check or of a watch since its last success.
#[derive(Clone, Debug)]
pub(super) struct Attempts {
    /// Declared attempts that are left.
    budget: u32,
    /// Attempts that failed in a row.
    pub(super) failures: u32,
    /// Those of them that time led to: the exponent of the backoff.
    by_time: u32,
    /// The last of them that a prompt led to, or that a prompt would have led to later.
    prompted_failures: u32,
    /// When the last one failed.
    failed_at: u64,
    /// When the next attempt may start; `u64::MAX`: not by time.
    next: u64,
    /// When the next prompted attempt may start.
    prompt_gate: u64,
    /// The next attempt, and the present one, was prompted.
    prompted: bool,
    present_prompted: bool,
    /// A prompt has come since the last failure, whether it leads to the next attempt or not.
    asked: bool,
    /// The declared attempt that comes next by time has been taken from the budget.
    paid: bool,
    /// The last attempt was not allowed.
    held: bool,
}

/// What follows the last declared attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// No attempt by time: only a prompt leads to the next one.
    Nothing,
    /// A vertex that is not watched would be deaf to prompts, too, so its watch is set up for ever.
    Backoff,
}

impl Attempts {
    pub(super) fn new(rules: &Rules) -> Attempts {
        let budget = if let Retry::Times(times) = rules.retry { times } else { 0 };
        Attempts {
            budget,
            failures: 0,
            by_time: 0,
            prompted_failures: 0,
            failed_at: 0,
            next: 0,
            prompt_gate: 0,
            prompted: false,
            present_prompted: false,
            asked: false,
            paid: false,
            held: false,
        }
    }

    /// For a replacement of the vertex: what is left of the declared attempts, and nothing else.
    pub(super) fn inherited(&self, rules: &Rules) -> Attempts {
        Attempts { budget: self.budget, ..Attempts::new(rules) }
    }

    /// Gives all declared attempts back.
    pub(super) fn refill(&mut self, rules: &Rules) {
        self.budget = Attempts::new(rules).budget;
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Failing, and no declared attempt is left, if any was declared.
    fn is_spent(&self, rules: &Rules) -> bool {
        let spent = match rules.retry {
            Retry::Backoff => true,
            Retry::Times(_) => !self.paid,
            Retry::Forever => false,
        };
        self.is_failing() && spent
    }

    /// Lets the next attempt start as early as this, if failures in a row have not used up the prompts.
    pub(super) fn prompt(&mut self, not_before: u64) {
        let at = not_before.max(self.prompt_gate);
        self.asked = true;
        if at <= self.next && at != u64::MAX {
            self.next = at;
            self.prompted = true;
        }
    }

    /// An attempt starts.
    pub(super) fn begin(&mut self) {
        self.present_prompted = std::mem::take(&mut self.prompted);
    }

    /// An attempt succeeded. True: earlier ones had failed.
    pub(super) fn succeed(&mut self) -> bool {
        let failing = self.is_failing();
        *self = Attempts { budget: self.budget, ..Attempts::new(&Rules::default()) };
        failing
    }

    /// An attempt failed. `then`: what follows once the declared attempts are used up.
    fn fail(&mut self, rules: &Rules, then: Then, now: u64, noise: u64) {
        let prompted = std::mem::take(&mut self.present_prompted) && self.is_failing();
        self.failures = self.failures.saturating_add(1);
        self.failed_at = now;
        self.held = false;
        let asked = std::mem::take(&mut self.asked) && self.failures > 1;
        self.prompted_failures = if asked { self.prompted_failures.saturating_add(1) } else { 0 };
        if !prompted {
            self.by_time = self.by_time.saturating_add(1);
            self.paid = false;
        }
        let pause = match rules.retry {
            Retry::Backoff => Some(backoff(self.by_time, noise)),
            Retry::Forever => Some(rules.pause(self.failures)),
            Retry::Times(times) => {
                if !self.paid && self.budget > 0 {
                    self.budget -= 1;
                    self.paid = true;
                }
                match then {
                    _ if self.paid => Some(rules.pause(self.failures)),
                    Then::Backoff => Some(backoff(self.by_time.saturating_sub(times), noise)),
                    Then::Nothing => None,
                }
            }
        };
        self.next = pause.map_or(u64::MAX, |pause| now.saturating_add(pause));
        self.prompt_gate = now.saturating_add(prompt_pause(self.prompted_failures));
        self.prompted = false;
    }

    /// An attempt was not allowed, so an earlier failure stays. Only a prompt leads to the next attempt.
    fn hold(&mut self, now: u64) {
        self.failures = self.failures.max(1);
        self.held = true;
        self.next = u64::MAX;
        self.prompt_gate = self.prompt_gate.max(now);
        (self.paid, self.prompted, self.present_prompted, self.asked) = (false, false, false, false);
    }

    /// The action that reports the failure.
    fn report(&self, vertex: Vertex, now: u64) -> Action {
        match self.next {
            u64::MAX => Action::Failed(vertex, self.failures),
            next => Action::Retry(vertex, next.saturating_sub(now), self.failures),
        }
    }

    /// Brings the next attempt forward to `at`. True: it was later, and has waited for long enough.
    fn bring_forward(&mut self, now: u64, at: u64) -> bool {
        let pause = self.next.saturating_sub(self.failed_at);
        let waited = now.saturating_sub(self.failed_at);
        let sooner = self.next != u64::MAX && at < self.next && waited >= pause / BRING_FORWARD_AFTER;
        if sooner {
            self.next = at;
        }
        sooner
    }
}

impl State {
    /// The last attempt to check or to watch failed.
    pub(super) fn is_failing(&self) -> bool {
        self.check.is_failing() || self.is_watch_failing()
    }

    /// The last attempt to check failed.
    pub(super) fn is_check_failing(&self) -> bool {
        self.check.is_failing()
    }

    /// The check is failing, and is attempted by time without an end.
    fn is_check_endless(&self) -> bool {
        self.check.is_failing() && !matches!(self.rules.retry, Retry::Times(_))
    }

    /// The watch is failing, and no declared attempt to set it up is left.
    pub(super) fn is_watch_endless(&self) -> bool {
        let declared = matches!(self.rules.retry, Retry::Times(_)) && self.watch_attempts.paid;
        self.watch_attempts.is_failing() && !declared
    }

    fn is_watch_failing(&self) -> bool {
        match self.watch {
            WatchState::Waiting(_) => true,
            WatchState::Starting => self.watch_attempts.is_failing(),
            WatchState::Ready | WatchState::Off => false,
        }
    }

    /// Failing, and no declared attempt is left: a promise that depends on it need not be kept.
    pub(super) fn is_excused(&self) -> bool {
        self.check.is_spent(&self.rules)
            || (self.is_watch_failing() && self.watch_attempts.is_spent(&self.rules))
    }

    /// The last attempt of the check was not allowed.
    pub(super) fn is_held(&self) -> bool {
        self.check.held
    }

    /// When a run may start.
    pub(super) fn due(&self) -> u64 {
        let retry = if self.check.is_failing() { self.check.next } else { 0 };
        self.not_before.max(retry)
    }
}

/// What stands in the way of the vertices that are not in their declared state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Vertices whose last attempt failed.
    pub failing: Vec<Vertex>,
    /// Vertices that may not run because one before them is failing: the vertex, and the failing one.
    pub blocked: Vec<(Vertex, Vertex)>,
    /// All others that have something to do.
    pub pending: Vec<Vertex>,
}

impl Core {
    /// Attempts a vertex, or all that are failing, once more, whatever holds it up. Returns how many will be attempted.
    pub fn retry(&mut self, vertex: Option<Vertex>, now: u64) -> usize {
        self.advance(now);
        let now = self.now;
        let vertices: Vec<Vertex> = match vertex {
            Some(vertex) => vec![vertex],
            None => self.failing.iter().copied().collect(),
        };
        let mut count = 0;
        for vertex in vertices {
            let Some(state) = self.get_mut(vertex).filter(|state| state.is_open()) else { continue };
            let held = state.is_dirty() && state.not_before > now;
            if !state.is_failing() && !held {
                continue;
            }
            count += 1;
            state.not_before = 0;
            state.check.prompt_gate = 0;
            state.watch_attempts.prompt_gate = 0;
            self.dirty(vertex, Cause::Graph);
        }
        self.settle_up();
        count
    }

    /// Whether the watch of a vertex has failed, and has not begun again.
    pub fn is_unwatched(&self, vertex: Vertex) -> bool {
        self.get(vertex).is_some_and(|state| state.is_open() && state.is_watch_failing())
    }

    /// Which vertices are failing, blocked or pending. Walks the whole graph: for reports.
    pub fn standing(&self) -> Standing {
        let mut standing =
            Standing { failing: self.failing.iter().copied().collect(), ..Standing::default() };
        let mut blocker: Vec<Option<Vertex>> = vec![None; self.vertices.len()];
        let mut reached: VecDeque<(Vertex, Vertex)> = standing.failing.iter().map(|at| (*at, *at)).collect();
        while let Some((vertex, by)) = reached.pop_front() {
            let Some(state) = self.get(vertex) else { continue };
            for successor in &state.after {
                let entry = &mut blocker[successor.index()];
                if entry.is_none() {
                    *entry = Some(by);
                    reached.push_back((*successor, by));
                }
            }
        }
        for vertex in self.indices() {
            let Some(state) = self.get(vertex).filter(|state| state.is_open()) else { continue };
            if state.is_failing() || state.is_well() {
                continue;
            }
            match blocker[vertex.index()] {
                Some(by) => standing.blocked.push((vertex, by)),
                None => standing.pending.push(vertex),
            }
        }
        standing
    }

    /// A run failed, or was not allowed (`held`) although the last attempt before it failed.
    pub(super) fn run_failed(&mut self, vertex: Vertex, running: Running, held: bool) {
        let (now, noise) = (self.now, self.noise(vertex));
        let Some(state) = self.get_mut(vertex) else { return };
        let first = !state.is_failing();
        let again = state.wanted > running.generation;
        // What the rate holds up is the attempt that an event led to, and no other.
        let rated = state.token.rated(now);
        state.not_before = 0;
        match held {
            true => state.check.hold(now),
            false => state.check.fail(&state.rules, Then::Nothing, now, noise),
        }
        if again {
            state.check.prompt(rated);
        }
        state.routine = (state.routine || !again) && state.is_check_endless();
        let report = (!held).then(|| state.check.report(vertex, now));
        self.attempt_failed(vertex, first, report);
    }

    /// A run was cancelled, so its result says nothing. If the attempt before it failed, that one stays due: what the rate holds up
    /// is the attempt that an event led to meanwhile, and not this one.
    pub(super) fn run_cancelled(&mut self, vertex: Vertex, running: Running) {
        let now = self.now;
        let Some(state) = self.get_mut(vertex).filter(|state| state.check.is_failing()) else { return };
        state.not_before = 0;
        if state.wanted > running.generation {
            let rated = state.token.rated(now);
            state.check.prompt(rated);
        }
    }

    /// An attempt to watch failed, or a watch that had begun ended.
    pub(super) fn watch_attempt_failed(&mut self, vertex: Vertex, now: u64) {
        let noise = self.noise(vertex);
        let Some(state) = self.get_mut(vertex) else { return };
        let first = !state.is_failing();
        if state.watch == WatchState::Ready && now.saturating_sub(state.watch_since) >= STEADY_WATCH {
            state.watch_attempts.succeed();
            state.watch_attempts.refill(&state.rules);
        }
        state.watch_attempts.fail(&state.rules, Then::Backoff, now, noise);
        // Nothing runs until the watch is back, so an event would have to wait for the backoff.
        if std::mem::take(&mut state.unserved_event) {
            state.watch_attempts.prompt(now);
        }
        let next = state.watch_attempts.next;
        state.watch = WatchState::Waiting(next);
        state.wake_at = None;
        let report = state.watch_attempts.report(vertex, now);
        self.arm(vertex, next);
        self.attempt_failed(vertex, first, Some(report));
    }

    fn attempt_failed(&mut self, vertex: Vertex, first: bool, report: Option<Action>) {
        self.actions.extend(report);
        if first {
            self.convergence.active(self.now);
        }
        self.touch(vertex);
        if self.get(vertex).is_some_and(State::is_excused) {
            self.release_excused();
        }
    }

    /// Attempts everything that is failing once more.
    pub(super) fn prompt_failing(&mut self) {
        for vertex in self.failing.iter().copied().collect::<Vec<_>>() {
            self.dirty(vertex, Cause::Graph);
        }
    }

    /// Attempts the vertices behind this one that are failing once more, however far behind it they are. It costs little where nothing
    /// behind it is failing, or the same vertices are as before.
    pub(super) fn prompt_descendants(&mut self, vertex: Vertex) {
        if self.failing.is_empty() {
            return;
        }
        let before_failing = self.before_failing.take().unwrap_or_else(|| self.find_before_failing());
        let mut prompted = Vec::new();
        if before_failing.contains(&vertex) {
            let mut seen = BTreeSet::from([vertex]);
            let mut reached = vec![vertex];
            while let Some(next) = reached.pop() {
                for successor in self.get(next).map(|state| state.after.as_slice()).unwrap_or_default() {
                    let leads = before_failing.contains(successor);
                    let fails = self.failing.contains(successor);
                    if (leads || fails) && seen.insert(*successor) {
                        reached.push(*successor);
                        prompted.extend(fails.then_some(*successor));
                    }
                }
            }
        }
        self.before_failing = Some(before_failing);
        prompted.sort_unstable();
        for vertex in prompted {
            self.dirty(vertex, Cause::Graph);
        }
    }

    fn find_before_failing(&self) -> BTreeSet<Vertex> {
        let mut found = BTreeSet::new();
        let mut reached: Vec<Vertex> = self.failing.iter().copied().collect();
        while let Some(next) = reached.pop() {
            for edge in self.get(next).map(|state| state.before.as_slice()).unwrap_or_default() {
                if found.insert(edge.from) {
                    reached.push(edge.from);
                }
            }
        }
        found
    }

    /// Sets a watch up again at once that waits for its time.
    pub(super) fn prompt_watch(&mut self, vertex: Vertex) {
        let (now, stopping) = (self.now, self.stopping.is_some());
        let Some(state) = self.get_mut(vertex) else { return };
        if !state.is_open() || !matches!(state.watch, WatchState::Waiting(_)) {
            return;
        }
        state.watch_attempts.prompt(now);
        let next = state.watch_attempts.next;
        state.watch = WatchState::Waiting(next);
        if state.running.is_none() && !stopping {
            if next <= now {
                // Unless it becomes something else first.
                self.after_run(vertex);
            } else {
                self.arm(vertex, next);
            }
        }
    }

    /// A failing vertex has recovered: others may have failed for the same reason, and are attempted soon.
    pub(super) fn bring_forward(&mut self) {
        let now = self.now;
        let recently =
            self.brought_forward_at.is_some_and(|at| now.saturating_sub(at) < BRING_FORWARD_INTERVAL);
        if self.failing.is_empty() || recently {
            return;
        }
        self.brought_forward_at = Some(now);
        for vertex in self.failing.iter().copied().collect::<Vec<_>>() {
            let at = now.saturating_add(self.noise(vertex) % (BRING_FORWARD_INTERVAL / 2));
            let Some(state) = self.get_mut(vertex) else { continue };
            if state.rules.retry != Retry::Backoff || state.running.is_some() {
                continue;
            }
            let watch = matches!(state.watch, WatchState::Waiting(_));
            let attempts = if watch { &mut state.watch_attempts } else { &mut state.check };
            if !attempts.is_failing() || !attempts.bring_forward(now, at) {
                continue;
            }
            if watch {
                state.watch = WatchState::Waiting(at);
            }
            self.actions.push(Action::Rescheduled(vertex, at.saturating_sub(now)));
            match watch {
                true => self.arm(vertex, at),
                false => self.consider(vertex),
            }
        }
    }

    /// A number that differs from host to host, from vertex to vertex and from failure to failure, and is the same every time.
    fn noise(&self, vertex: Vertex) -> u64 {
        let count = self.get(vertex).map_or(0, |state| {
            u64::from(state.check.failures) << 32 | u64::from(state.watch_attempts.failures)
        });
        let mut mixed = self.settings.seed ^ count ^ (u64::from(vertex.0) << 16);
        for _ in 0..2 {
            mixed = (mixed ^ (mixed >> 31))
                .wrapping_add(0x9e37_79b9_7f4a_7c15)
                .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
        mixed ^ (mixed >> 29)
    }
}
