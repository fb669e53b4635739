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
//! # Failure and retry
//!
//! A vertex whose last attempt failed is *failing* until an attempt succeeds. Failing is a state, not an end: the vertex stays
//! dirty, keeps its watch, and its next attempt starts at the earliest of two times:
//!
//! - **By time** ([`Retry`]): with exponential backoff and jitter for ever if nothing is declared; `delay` apart for as many times
//!   as are declared. A vertex whose declared attempts are used up has no time, and is *exhausted*.
//! - **By a prompt**: an event of its watch, a poll, a notification, a received value, an ancestor that changed
//!   something or recovered, another graph ([`Core::apply`]) or [`Core::retry`]. A prompted attempt starts at once, uses up no declared attempt and
//!   does not lengthen the backoff. More than `FREE_PROMPTS` prompted attempts that fail in a row are spaced by a growing
//!   minimum, so that a flood of events does not become a busy loop.
//!
//! A watch that failed is set up again under the same rule, with counters of its own, except that it is never exhausted: once the
//! declared attempts are used up it backs off. What the driver still hears of the vertex meanwhile is a prompt, and so is an event
//! that the watch reported and that no run has begun for. When a failing vertex recovers, the attempts of
//! all others that wait for their time are brought forward: what failed together often heals together.
//!
//! # Rest
//!
//! The graph is *quiet* when nothing is under way except attempts by time of vertices whose retry has no declared end. A quiet graph
//! in which every vertex has succeeded and none is dirty, failing or blocked is *converged* ([`Action::Converged`]); any other
//! one is [`Action::Quiet`]. A check that an event leads to does not end the rest, so that a chatty watch does not make it flicker;
//! but a second in which something is under way all the time does ([`Action::Diverged`]), as that may be a repair.
//!
//! # Invariants
//!
//! - At most one run of a vertex at a time; none before its watch has begun; none while paused or stopping.
//! - An event during a run leads to another run, because `done` takes the generation of the run's beginning.
//! - A failing vertex that is not exhausted has an attempt under way, scheduled, or waiting for an ancestor.
//! - Every notification is reported ([`Action::Notified`]) before the run that acts on it.
//! - A pending notification is a stamp on the edge. A run acknowledges the stamp that it saw, so a newer one stays.
//! - Semaphores are taken all at once and in the order of asking, so there is no deadlock and no starvation.
//! - A vertex keeps its id from declaration to removal, over all replacements. An incarnation number tells a late
//!   answer from a current one.
//!
//! [`Core::check_invariants`] states them as code.

mod check;
mod converge;
mod retry;
mod rules;
mod schedule;
mod semaphore;
mod state;
mod swap;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use smallvec::SmallVec;

pub use retry::Standing;
pub use rules::{Poll, Pool, Retry, Rules, Semaphore};
pub use swap::{Delta, Link};

use converge::Convergence;
use retry::Attempts;
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
    /// An attempt failed, the given one in a row; the next attempt by time starts after this many nanoseconds.
    Retry(Vertex, u64, u32),
    /// An attempt failed, the given one in a row, and no attempt by time is left.
    Failed(Vertex, u32),
    /// The next attempt by time of a failing vertex was brought forward: it starts after this many nanoseconds.
    Rescheduled(Vertex, u64),
    /// The next run was put off by this many nanoseconds to keep the rate; `u64::MAX`: for ever, the rate is zero.
    Limited(Vertex, u64),
    /// A notification from the first to the second is now pending, or no longer.
    Pending(Vertex, Vertex, bool),
    /// The first has notified the second, which runs because of it.
    Notified(Vertex, Vertex),
    /// The whole graph has been quiet for long enough, and every vertex is in its declared state.
    Converged,
    /// The whole graph has been quiet for long enough, but not every vertex is in its declared state; or the numbers are other ones.
    Quiet {
        /// Vertices that are failing.
        failing: usize,
        /// Vertices that are not in their declared state, as far as is known: failing, behind one that is, or held back by a rate of
        /// zero.
        unwell: usize,
    },
    /// It is no longer converged or quiet.
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
    /// A poll is among the reasons.
    pub polled: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The state was right.
    Right,
    /// The state was wrong and has been made right (or, when only looking, would have been).
    Changed,
    /// The state was right, and a notification is sent all the same. It is no activity: nothing has changed.
    Forwarded,
    /// It did not work.
    Failed,
    /// It was asked to stop and did.
    Cancelled,
    /// It may not run now, and its last attempt failed, in this incarnation or an earlier one. It stays failing, and the next attempt
    /// follows from an event.
    Held,
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
    /// The seed of the jitter of retries. Hosts with different seeds do not retry at the same moment.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { capacity: [8, 1024], converge_after: None, seed: 0 }
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
    /// Vertices that are failing.
    failing: BTreeSet<Vertex>,
    /// All ancestors of those, if that has been asked since they or the edges last changed.
    before_failing: Option<BTreeSet<Vertex>>,
    /// When the attempts of failing vertices were last brought forward because one recovered.
    brought_forward_at: Option<u64>,
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
    running: Option<Running>,
    watch: WatchState,
    /// When the watch began.
    watch_since: u64,
    /// The watch has reported an event, and no run has begun since.
    unserved_event: bool,
    /// Attempts and failures: of the check, and of the watch.
    check: Attempts,
    watch_attempts: Attempts,
    bucket: Bucket,
    /// No run before this time: the rate, or a hold.
    not_before: u64,
    /// The token for the coming run; more events ride along.
    token: Token,
    /// It is dirty only because of a poll, or because an attempt failed that is made again by time without end.
    routine: bool,
    /// A poll has come since the last run began.
    polled: bool,
    /// In a ready queue, or waiting for semaphores.
    queued: bool,
    ticket: Option<u64>,
    counted_unsettled: bool,
    counted_busy: bool,
    counted_unwell: bool,
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

/// Whether an event has asked for a token of the rate since the last run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// None has been asked for.
    None,
    /// One has been taken, which is there from this time on.
    Taken(u64),
    /// The rate is zero: there will be none.
    Never,
}

impl Token {
    /// From when on the rate allows the run that the event leads to.
    fn rated(self, now: u64) -> u64 {
        match self {
            Token::None => now,
            Token::Taken(at) => at,
            Token::Never => u64::MAX,
        }
    }
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
    /// Not needed.
    Off,
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
            failing: BTreeSet::new(),
            before_failing: None,
            brought_forward_at: None,
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
        let now = self.now;
        let Some(state) = self.open_mut(vertex) else { return };
        if state.incarnation == incarnation && state.watch == WatchState::Starting {
            state.watch = WatchState::Ready;
            state.watch_since = now;
            self.dirty(vertex, Cause::Event);
        }
        self.settle_up();
    }

    /// The state of a vertex may have changed.
    pub fn changed(&mut self, vertex: Vertex, now: u64) {
        self.advance(now);
        if let Some(state) = self.open_mut(vertex) {
            match state.watch {
                WatchState::Off => {}
                // Its beginning is an event, too.
                WatchState::Starting => state.unserved_event = true,
                WatchState::Ready => {
                    state.unserved_event = true;
                    self.dirty(vertex, Cause::Event);
                }
                WatchState::Waiting(_) => self.dirty(vertex, Cause::Event),
            }
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
        // A late answer of a vertex that had the same id may look like one of this incarnation.
        if state.incarnation != incarnation
            || !state.rules.is_watched()
            || !matches!(state.watch, WatchState::Starting | WatchState::Ready)
        {
            return;
        }
        // A run that is under way continues, and ends before the next watch begins: a command that has begun to repair something is
        // not stopped because the next event would be missed. A queued run cannot start before that.
        self.unqueue(vertex);
        self.watch_attempt_failed(vertex, now);
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
        if !self.convergence.is_at_rest() {
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

    /// Whether the last attempt of a vertex failed.
    pub fn has_failed(&self, vertex: Vertex) -> bool {
        self.get(vertex).is_some_and(|state| state.is_open() && state.is_failing())
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

    /// Whether the graph has been quiet for long enough, with every vertex in its declared state.
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
