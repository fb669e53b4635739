//! The scheduler core: what runs when. No clock, no I/O, no thread; time is a number that the caller passes in.
//!
//! Inputs are the methods of [`Core`]; outputs are [`Action`]s to carry out, in order. The driver does the rest.
//! The same core runs under a simulator with a seed, millions of steps, and every failure replays.
//!
//! # How order is kept
//!
//! Every vertex counts generations: `wanted` grows with each event that may concern it, `done` is the generation
//! that the last successful run began with. It is *dirty* while `wanted > done`. A vertex may run when
//!
//! 1. every direct predecessor has succeeded at least once since it was declared (`undone` is zero), and
//! 2. no ancestor is *unsettled*: one that had succeeded but is dirty, running, failed or waiting again.
//!
//! The two together mean that all ancestors are settled. For if some ancestor is not, then either it had succeeded
//! before, and is unsettled by definition; or it had not, and the first vertex below it that had succeeded has
//! `undone > 0`, and is unsettled. The second test walks up the graph only while something is unsettled
//! at all; in a quiet graph an event costs nothing beyond the vertex itself. A walk that finds nothing is remembered
//! by all that it passed until someone else becomes unsettled, so a wave of changes through a deep graph
//! looks at each vertex once and not once for every vertex below it. Clean ancestors never run again.
//!
//! # Invariants
//!
//! - At most one run of a vertex at a time; none before its watch has begun; none while paused or stopping.
//! - An event during a run leads to another run, because `done` takes the generation of the run's beginning.
//! - A pending notification is a stamp on the edge. A run acknowledges the stamp that it saw, so a newer one stays.
//! - Semaphores are taken all at once and in the order of asking, so there is no deadlock and no starvation.
//! - A vertex keeps its id from declaration to removal, over all replacements. An incarnation number tells a late
//!   answer from a current one.
//!
//! [`Core::check_invariants`] states them as code.

mod check;
mod converge;
mod rules;
mod schedule;
mod semaphore;
mod swap;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use smallvec::SmallVec;

pub use rules::{Poll, Pool, Rules, Semaphore};
pub use swap::{Delta, Link};

use converge::Convergence;
use rules::Bucket;
use schedule::Timers;
use semaphore::Semaphores;

/// The id of a vertex. Chosen by the driver; free again after [`Action::Freed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vertex(pub u32);

impl Vertex {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Something for the driver to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Begin watching for this incarnation, dropping the watch of an earlier one, and answer with
    /// [`Core::watching`] or [`Core::watch_failed`].
    Watch(Vertex, u32),
    /// Stop watching.
    Unwatch(Vertex),
    /// Check, and apply unless told to look only; answer with [`Core::finished`].
    Run(Run),
    /// Ask a run to stop.
    Cancel(Vertex, Level),
    /// The vertex runs new rules from now on: drop the state of the earlier incarnation. Its watch goes on until
    /// the next [`Action::Watch`] or [`Action::Unwatch`], so that nothing is missed in between.
    Reincarnate(Vertex, u32),
    /// Clean up and answer with [`Core::closed`].
    Close(Vertex),
    /// The id may be used again.
    Freed(Vertex),
    /// An error will be tried again after this many nanoseconds.
    Retry(Vertex, u64),
    /// The vertex has failed for good.
    Failed(Vertex),
    /// The next run was put off by this many nanoseconds to keep the rate; `u64::MAX`: for ever, the rate is zero.
    Limited(Vertex, u64),
    /// A notification from the first to the second is now pending, or no longer.
    Pending(Vertex, Vertex, bool),
    /// The whole graph has been quiet for long enough.
    Converged,
    /// It no longer is.
    Diverged,
    /// Nothing runs; nothing will until resumed.
    Paused,
    /// Nothing runs, and nothing will.
    Stopped,
}

/// One run of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Who.
    pub vertex: Vertex,
    /// Of which incarnation.
    pub incarnation: u32,
    /// Change things.
    pub apply: bool,
    /// A notification is pending.
    pub refresh: bool,
    /// In which pool.
    pub pool: Pool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The state was right.
    Right,
    /// The state was wrong and has been made right (or, when only looking, would have been).
    Changed,
    /// It did not work.
    Failed,
    /// It was asked to stop and did.
    Cancelled,
}

/// How hard to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Let what runs finish; start nothing new.
    Graceful,
    /// Ask what runs to stop.
    Cancel,
    /// Make it stop.
    Interrupt,
}

/// What holds for the whole core.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Runs at the same time, for each pool.
    pub capacity: [usize; 2],
    /// Quiet time in nanoseconds that counts as converged; `None`: nobody asks.
    pub converge_after: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { capacity: [8, 1024], converge_after: None }
    }
}

/// The scheduler.
#[derive(Debug)]
pub struct Core {
    settings: Settings,
    vertices: Vec<Option<Box<State>>>,
    /// The rules of the latest vertex, likely to be those of the next.
    last_rules: Arc<Rules>,
    /// The latest time that anyone told us. It never goes back.
    now: u64,
    /// The last generation and notification stamp given out.
    generation: u64,
    timers: Timers,
    ready: [VecDeque<Vertex>; 2],
    running: [usize; 2],
    semaphores: Semaphores,
    /// Vertices that are unsettled, see above.
    unsettled: usize,
    /// Vertices that wait for an unsettled ancestor.
    waiting: BTreeSet<Vertex>,
    /// Vertices that stay only until they have succeeded once.
    lingering: BTreeSet<Vertex>,
    /// Vertices that become something else once the present run is over, or once they have succeeded once.
    deferred: BTreeSet<Vertex>,
    /// Vertices to look at before the present input is over.
    to_consider: VecDeque<Vertex>,
    /// Marks of the walk up the graph, to visit each vertex once. As wide as this it never comes round again.
    walk: u64,
    /// An edge has gone, so someone may wait for a vertex that is no ancestor any more.
    untied: bool,
    /// Grows whenever a vertex may have got an unsettled ancestor that it had not before.
    unrest: u64,
    convergence: Convergence,
    paused: bool,
    pause_told: bool,
    stopping: Option<Level>,
    stop_told: bool,
    actions: Vec<Action>,
}

/// What the core knows of one vertex.
#[derive(Debug)]
struct State {
    rules: Arc<Rules>,
    incarnation: u32,
    phase: Phase,
    /// Rules to become, once the present run is over and `realize` is satisfied.
    next: Option<Box<Rules>>,
    /// Both in the order of ids, to be found quickly in a vertex with many.
    before: SmallVec<[In; 2]>,
    after: SmallVec<[Vertex; 2]>,
    wanted: u64,
    done: u64,
    /// It has succeeded at least once in this incarnation.
    succeeded: bool,
    /// Direct predecessors that have not.
    undone: u32,
    failed: bool,
    running: Option<Running>,
    watch: WatchState,
    /// Errors left before giving up: of the check, and of the watch.
    budget: Option<u32>,
    watch_budget: Option<u32>,
    /// Errors in a row: of the check since it has succeeded, and of the watch in this incarnation.
    failures: u8,
    watch_failures: u8,
    bucket: Bucket,
    /// No run before this time: a retry's delay or the rate.
    not_before: u64,
    /// A token has been taken for the coming run; more events ride along.
    token_taken: bool,
    /// It is dirty only because of a poll.
    routine: bool,
    /// In a ready queue, or waiting for semaphores.
    queued: bool,
    ticket: Option<u64>,
    counted_unsettled: bool,
    counted_busy: bool,
    /// The ancestor that it waits for, and those that wait for it.
    waits_for: Option<Vertex>,
    waiters: Vec<Vertex>,
    mark: u64,
    /// The `unrest` at which no ancestor was unsettled.
    clear_at: u64,
    wake_at: Option<u64>,
    poll_at: Option<u64>,
}

/// An arrow into a vertex.
#[derive(Clone, Debug)]
struct In {
    from: Vertex,
    notify: bool,
    /// The stamp of the latest notification not yet acknowledged; zero for none.
    pending: u64,
    /// The stamp that the present run saw.
    seen: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// In the graph.
    Open,
    /// Out of the graph, and still running.
    Leaving,
    /// The driver is cleaning up.
    Closing,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    incarnation: u32,
    /// `wanted` when it began.
    generation: u64,
    /// We asked it to stop: the result does not count.
    cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchState {
    /// Asked for, not begun.
    Starting,
    /// Begun: runs are allowed.
    Ready,
    /// Failed; to be asked for again at this time, once nothing runs.
    Waiting(u64),
    /// Failed for good, or not needed.
    Off,
}

impl State {
    fn is_dirty(&self) -> bool {
        self.wanted > self.done
    }

    fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    fn is_unsettled(&self) -> bool {
        self.is_open()
            && self.succeeded
            && (self.is_dirty() || self.running.is_some() || self.failed || self.undone > 0)
    }

    /// Whether there is anything to run: a hidden vertex has nothing to do, unless it is exported.
    fn has_work(&self) -> bool {
        !self.rules.hidden || (self.rules.export && !self.rules.noop)
    }

    /// Dirty, and nothing about the vertex itself or its direct predecessors is in the way.
    fn wants_to_run(&self) -> bool {
        self.is_open()
            && !self.failed
            && self.running.is_none()
            && self.undone == 0
            && self.is_dirty()
            && (self.rules.hidden || self.watch == WatchState::Ready)
    }

    fn edge_from(&mut self, from: Vertex) -> Option<&mut In> {
        let position = self.before.binary_search_by_key(&from, |edge| edge.from).ok()?;
        self.before.get_mut(position)
    }

    /// Whether notifications are listened to: by the vertex as it is, or as it will be once it comes back.
    fn is_listening(&self) -> bool {
        let rules = if self.is_open() { Some(&*self.rules) } else { self.next.as_deref() };
        rules.is_some_and(|rules| rules.refreshable)
    }

    /// Has work under way that will end by itself. A vertex that is merely blocked is not busy: what blocks it
    /// either is, or has failed. A poll is no work, or many of them would keep each other from convergence;
    /// unless someone waits for it.
    fn is_busy(&self) -> bool {
        let routine = self.routine && self.waiters.is_empty();
        !self.is_open()
            || (!self.failed && matches!(self.watch, WatchState::Starting | WatchState::Waiting(_)))
            || (!routine
                && (self.running.is_some() || self.queued || (!self.failed && self.wake_at.is_some())))
    }
}

impl Core {
    /// A core without vertices.
    pub fn new(settings: Settings, now: u64) -> Core {
        Core {
            convergence: Convergence::new(settings.converge_after, now),
            settings,
            vertices: Vec::new(),
            last_rules: Arc::default(),
            now,
            generation: 0,
            timers: Timers::default(),
            ready: [VecDeque::new(), VecDeque::new()],
            running: [0, 0],
            semaphores: Semaphores::default(),
            unsettled: 0,
            waiting: BTreeSet::new(),
            lingering: BTreeSet::new(),
            deferred: BTreeSet::new(),
            to_consider: VecDeque::new(),
            walk: 0,
            untied: false,
            unrest: 1,
            paused: false,
            pause_told: false,
            stopping: None,
            stop_told: false,
            actions: Vec::new(),
        }
    }

    /// The actions since the last call, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// When to call [`Core::tick`] next.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.stopping.is_some() {
            return None;
        }
        // Nothing converges during a pause, so there is nothing to wait for either.
        let convergence = self.convergence.deadline().filter(|_| !self.paused);
        [self.timers.next(), convergence].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: u64) {
        self.advance(now);
        while self.stopping.is_none()
            && let Some((vertex, at)) = self.timers.pop(self.now)
        {
            self.timer_fired(vertex, at);
        }
        self.settle_up();
    }

    /// The watch of this incarnation has begun. This is the first event.
    pub fn watching(&mut self, vertex: Vertex, incarnation: u32, now: u64) {
        self.advance(now);
        let Some(state) = self.open_mut(vertex) else { return };
        if state.incarnation == incarnation && state.watch == WatchState::Starting {
            state.watch = WatchState::Ready;
            self.dirty(vertex, Cause::Event);
        }
        self.settle_up();
    }

    /// The state of a vertex may have changed.
    pub fn changed(&mut self, vertex: Vertex, now: u64) {
        self.advance(now);
        if self.open_mut(vertex).is_some_and(|state| state.watch == WatchState::Ready) {
            self.dirty(vertex, Cause::Event);
        }
        self.settle_up();
    }

    /// Lets a vertex rest: whatever happens, it does not run before then.
    pub fn hold(&mut self, vertex: Vertex, until: u64) {
        if let Some(state) = self.open_mut(vertex) {
            state.not_before = state.not_before.max(until);
        }
    }

    /// A watch has ended with an error.
    pub fn watch_failed(&mut self, vertex: Vertex, incarnation: u32, now: u64) {
        self.advance(now);
        let now = self.now;
        let Some(state) = self.open_mut(vertex) else { return };
        if state.incarnation != incarnation
            || !matches!(state.watch, WatchState::Starting | WatchState::Ready)
        {
            return;
        }
        // What runs has been started on a watch that is gone: it ends before the next watch begins, and its
        // result says nothing.
        let cancel =
            state.running.as_mut().is_some_and(|running| !std::mem::replace(&mut running.cancelled, true));
        let spent = spend(&mut state.watch_budget);
        state.watch_failures = state.watch_failures.saturating_add(1);
        let delay = state.rules.pause(state.watch_failures);
        if spent {
            state.watch = WatchState::Waiting(now.saturating_add(delay));
            state.wake_at = None;
            self.actions.push(Action::Retry(vertex, delay));
        }
        if cancel {
            self.actions.push(Action::Cancel(vertex, Level::Cancel));
        }
        match spent {
            true => self.arm(vertex, now.saturating_add(delay)),
            false => self.fail(vertex),
        }
        self.touch(vertex);
        self.settle_up();
    }

    /// A run has ended. `dirtied` are the vertices whose received values it changed.
    pub fn finished(&mut self, vertex: Vertex, outcome: Outcome, dirtied: &[Vertex], now: u64) {
        self.advance(now);
        self.finish(vertex, outcome, dirtied);
        self.settle_up();
    }

    /// Clean-up has ended.
    pub fn closed(&mut self, vertex: Vertex, now: u64) {
        self.advance(now);
        self.finish_closing(vertex);
        self.settle_up();
    }

    /// Stops starting runs; says [`Action::Paused`] when the last one has ended.
    pub fn pause(&mut self, now: u64) {
        self.advance(now);
        self.paused = true;
        self.settle_up();
    }

    /// Goes on.
    pub fn resume(&mut self, now: u64) {
        self.advance(now);
        self.paused = false;
        self.pause_told = false;
        // What had converged still has; what had not was not watched, and waits anew.
        if !self.convergence.is_converged() {
            self.convergence.active(self.now);
        }
        self.settle_up();
    }

    /// Stops for good; says [`Action::Stopped`] when the last run has ended. Each call may only be harder.
    pub fn stop(&mut self, level: Level, now: u64) {
        self.advance(now);
        if self.stopping.is_none_or(|present| level > present) {
            self.stopping = Some(level);
            if level > Level::Graceful {
                for index in 0..self.vertices.len() {
                    self.cancel_run(index, level);
                }
            }
            self.release_excused();
        }
        self.settle_up();
    }

    /// Whether a vertex has failed for good.
    pub fn has_failed(&self, vertex: Vertex) -> bool {
        self.get(vertex).is_some_and(|state| state.failed)
    }

    /// Whether a vertex has succeeded since it was declared in its present form.
    pub fn has_succeeded(&self, vertex: Vertex) -> bool {
        self.get(vertex).is_some_and(|state| state.succeeded)
    }

    /// The present incarnation of a vertex.
    pub fn incarnation(&self, vertex: Vertex) -> u32 {
        self.get(vertex).map_or(0, |state| state.incarnation)
    }

    /// Whether a change of this vertex is told to anyone.
    pub fn notifies(&self, vertex: Vertex) -> bool {
        self.get(vertex).is_some_and(|state| {
            state.after.iter().any(|to| {
                let edges = self.get(*to).map(|to| to.before.as_slice()).unwrap_or_default();
                let found = edges.binary_search_by_key(&vertex, |edge| edge.from);
                found.is_ok_and(|position| edges[position].notify)
            })
        })
    }

    /// Whether the graph has been quiet for long enough.
    pub fn is_converged(&self) -> bool {
        self.convergence.is_converged()
    }

    /// How many vertices there are, those that are leaving included.
    pub fn vertex_count(&self) -> usize {
        self.vertices.iter().flatten().count()
    }

    fn get(&self, vertex: Vertex) -> Option<&State> {
        self.vertices.get(vertex.index())?.as_deref()
    }

    fn get_mut(&mut self, vertex: Vertex) -> Option<&mut State> {
        self.vertices.get_mut(vertex.index())?.as_deref_mut()
    }

    fn open_mut(&mut self, vertex: Vertex) -> Option<&mut State> {
        self.get_mut(vertex).filter(|state| state.is_open() && !state.rules.hidden)
    }

    /// Time never goes back, whatever the caller's clock does.
    fn advance(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    fn next_generation(&mut self) -> u64 {
        self.generation += 1;
        self.generation
    }

    fn cancel_run(&mut self, index: usize, level: Level) {
        let Some(state) = self.vertices.get_mut(index).and_then(Option::as_deref_mut) else { return };
        if let Some(running) = &mut state.running {
            running.cancelled = true;
            #[expect(clippy::cast_possible_truncation, reason = "ids are 32 bits")]
            self.actions.push(Action::Cancel(Vertex(index as u32), level));
        }
    }
}

/// Why a vertex becomes dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// An event from the host: counts against the rate.
    Event,
    /// The time of a poll has come: as an event, but nothing has happened.
    Poll,
    /// The graph itself: a notification, a received value, a new declaration.
    Graph,
}

/// Takes one from a budget. False: there was nothing left.
fn spend(budget: &mut Option<u32>) -> bool {
    match budget {
        None => true,
        Some(0) => false,
        Some(left) => {
            *left -= 1;
            true
        }
    }
}
