//! The driver: carries out what the core decides.

mod adjust;
mod background;
mod echo;
mod failures;
mod finish;
mod handle;
mod helm;
mod inbox;
mod messages;
#[cfg(test)]
mod model;
mod node;
mod overlap;
mod plan;
mod pool;
mod reasons;
mod run;
mod strife;
mod swap;
mod sync;
#[cfg(test)]
mod tests;
mod watching;
mod window;
mod witness;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use mgmt_graph::Dag;
use mgmt_resource::{Cancel, Edge, Error, Host, Id, Resource, Spec, Stage};
use mgmt_watch::{FileHub, Lookout, Timers};
use rustc_hash::FxHashMap;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::core::{Action, Core, Level, Outcome, Run, Settings, Vertex};
use crate::journal::Journal;
use crate::prepare::Prepared;
pub use handle::{
    Backlog, Blocked, Engine, EngineEvent, EngineSettings, Export, PathWatch, Summary, SwapReport,
    prepare_for,
};
use inbox::{Inbox, Mail, Share};
use node::{Node, specs};
pub use plan::{Certainty, Plan, Step, StepError, plan};
use pool::Crew;
use run::{Done, Job, Order};
use strife::Strife;
pub use witness::{Cause, Ended, FieldChange, Handed, Health, MemberEffects, Ran, Rest, Undone, Witness};

/// What reaches the driver.
enum Message {
    Swap(Box<Prepared>, oneshot::Sender<SwapReport>),
    Adjust(Vec<Spec>, oneshot::Sender<Option<SwapReport>>),
    Inspect(oneshot::Sender<FxHashMap<Id, Arc<dyn Resource>>>),
    /// The engine's own thread is to answer, and nothing else.
    Ping(oneshot::Sender<()>),
    /// Attempt a resource, or all that are failing, once more.
    Retry(Option<Id>, oneshot::Sender<usize>),
    /// Report what is blocked, and list so many.
    Blocked(HashSet<String>, oneshot::Sender<Blocked>),
    Finished(Vec<Done>),
    StreamStarted(Vertex, u32),
    StreamFailed(Vertex, u32, Error),
    WorkerFailed(&'static str, Error),
    /// The time has come at which a window opens, or the clock was set.
    Clock,
    Stop(Level),
}

impl Message {
    /// It is for the engine's own thread, because it takes as much memory as there are resources, or asks about that thread.
    fn brings_graph(&self) -> bool {
        matches!(self, Message::Swap(..) | Message::Adjust(..) | Message::Ping(_))
    }
}

/// Timers that the core does not know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Alarm {
    Interval(Vertex),
    Timeout(Vertex),
    /// The time after which a resource that nothing reverted again is no longer flapping.
    Calm(Vertex),
}

struct Driver {
    core: Core,
    nodes: Vec<Option<Box<Node>>>,
    /// The latest declared graph, which resources may look at while they run, and the vertex of each of its nodes.
    graph: Arc<RwLock<Dag<Arc<Spec>, Edge>>>,
    /// Every declaration of the program has been evaluated.
    is_complete: Arc<AtomicBool>,
    /// How often the running graph has changed.
    graph_version: Arc<AtomicU64>,
    vertex_of: Vec<Option<Vertex>>,
    /// Its nodes by name, if somebody has asked for one since the last swap.
    names: Option<adjust::Names>,
    free: Vec<Vertex>,
    /// Vertices out of the graph that are not gone yet.
    leaving: FxHashMap<Id, Vertex>,
    /// Who sends, and who receives from whom.
    senders: FxHashMap<Id, Vertex>,
    receivers: FxHashMap<Id, Vec<Vertex>>,
    workers: FxHashMap<&'static str, background::Worker>,
    alarms: Timers<Alarm>,
    hub: FileHub,
    crew: Arc<Crew>,
    runtime: Handle,
    inbox: Arc<Inbox>,
    mail: Mail,
    host: Arc<Host>,
    export: Option<Arc<dyn Export>>,
    witness: Option<Arc<dyn Witness>>,
    journal: Option<Journal>,
    /// Runs to close in the journal once what they cause has been written.
    ended: Vec<Id>,
    jobs: Vec<Job>,
    /// Watches to begin, in the order in which the core asked for them.
    to_watch: VecDeque<(Vertex, u32)>,
    events: mpsc::UnboundedSender<EngineEvent>,
    /// The last error of each vertex that has not succeeded since.
    failures: FxHashMap<Vertex, failures::Failure>,
    /// Actions that are carried out next. The core has given them before those that it still has.
    postponed: Vec<Action>,
    /// Vertices with an error that no log line has reported yet.
    unreported: Vec<Vertex>,
    /// The resources that the observer was last told are neither ok nor changed.
    reported: FxHashMap<Id, node::Reported>,
    /// Who was put right again and again lately.
    strife: Strife,
    /// Who waits for its window.
    openings: window::Openings,
    origin: Instant,
    want_dot: bool,
    summary: Summary,
    stopped: bool,
}

/// Watches that are begun before runs are handed over: enough to keep every thread busy.
const WATCHES_AT_ONCE: usize = 256;

/// Threads for system calls: more than cores, since a run spends most of its time waiting for the disk.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).saturating_mul(4).clamp(8, 32)
}

impl Driver {
    fn new(
        settings: EngineSettings,
        threads: usize,
        inbox: Arc<Inbox>,
        crew: Arc<Crew>,
        hub: FileHub,
        events: mpsc::UnboundedSender<EngineEvent>,
    ) -> io::Result<Driver> {
        let runtime = Handle::current();
        let core = Settings {
            capacity: [threads * 64, 1024],
            converge_after: settings.converge_after.map(nanoseconds),
            seed: failures::seed(&settings.host.hostname),
        };
        Ok(Driver {
            core: Core::new(core, 0),
            nodes: Vec::new(),
            graph: Arc::new(RwLock::new(Dag::new())),
            is_complete: Arc::new(AtomicBool::new(true)),
            graph_version: Arc::default(),
            vertex_of: Vec::new(),
            names: None,
            free: Vec::new(),
            leaving: FxHashMap::default(),
            senders: FxHashMap::default(),
            receivers: FxHashMap::default(),
            workers: FxHashMap::default(),
            alarms: Timers::new(),
            hub,
            crew,
            runtime,
            inbox,
            mail: Mail::default(),
            host: settings.host,
            export: settings.export,
            witness: settings.witness,
            journal: settings.journal.map(Journal::open).transpose()?,
            ended: Vec::new(),
            jobs: Vec::new(),
            to_watch: VecDeque::new(),
            events,
            failures: FxHashMap::default(),
            postponed: Vec::new(),
            unreported: Vec::new(),
            reported: FxHashMap::default(),
            strife: Strife::new(settings.slow_down),
            openings: window::Openings::default(),
            origin: Instant::now(),
            want_dot: settings.dot,
            summary: Summary::default(),
            stopped: false,
        })
    }

    /// Sees to what has come, or a share of it, and to what is due. With `keep`, a run that follows alone is given back, to
    /// be done by the caller.
    fn step(&mut self, share: Share, keep: bool) -> Option<Job> {
        self.take_in(share);
        self.ring();
        self.core.tick(self.now());
        self.perform();
        let core = self.core.next_deadline().map(Duration::from_nanos);
        let next = [core, self.alarms.next_deadline()].into_iter().flatten().min();
        self.inbox.look_at(next.and_then(|at| self.origin.checked_add(at)));
        if self.stopped {
            self.inbox.call();
        }
        if !keep {
            self.crew.submit(&mut self.jobs);
        }
        self.jobs.pop()
    }

    /// Sees to a share of what has come.
    fn take_in(&mut self, share: Share) {
        let mut mail = std::mem::take(&mut self.mail);
        self.inbox.take(share, &mut mail);
        let now = self.now();
        for vertex in mail.changed.drain(..) {
            if let Some(node) = self.node(vertex) {
                node.echo.changed();
                node.stirred.get_or_insert(now);
                node.note().event = true;
            }
            self.core.changed(vertex, now);
        }
        for vertex in mail.created.drain(..) {
            let Some(node) = self.node(vertex) else { continue };
            if node.echo.created(node.cancel.is_some()) {
                node.note().event = true;
                self.core.changed(vertex, now);
            }
        }
        for message in mail.messages.drain(..) {
            self.handle(message);
        }
        self.mail = mail;
    }

    /// The end: whoever still waits for something learns that there will be nothing.
    fn end(mut self) -> Summary {
        self.dismiss_all_workers();
        self.forget_used_reversals();
        let graph = self.graph.read().unwrap_or_else(PoisonError::into_inner);
        self.summary.resources = graph.nodes().map(|(_, spec)| 1 + spec.children.len()).sum();
        drop(graph);
        self.summary.failed = self.failures.keys().map(|vertex| self.members(*vertex).count()).sum();
        self.inbox.close();
        // The receiver may have gone; then nobody wants to know.
        let _ = self.events.send(EngineEvent::Stopped);
        self.summary
    }

    /// An end that nobody asked for. Nobody will take note of what still runs, so that is asked to stop.
    fn abandon(mut self) {
        self.dismiss_all_workers();
        for mut node in std::mem::take(&mut self.nodes).into_iter().flatten() {
            if let Some(cancel) = &node.cancel {
                cancel.raise(Stage::Cancel);
            }
            self.drop_watching(std::mem::take(&mut node.watch));
        }
    }

    fn now(&self) -> u64 {
        nanoseconds(self.origin.elapsed())
    }

    fn node(&mut self, vertex: Vertex) -> Option<&mut Node> {
        self.nodes.get_mut(vertex.index())?.as_deref_mut()
    }

    fn id(&self, vertex: Vertex) -> Option<&Id> {
        self.nodes.get(vertex.index())?.as_ref().map(|node| &node.spec.id)
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Swap(prepared, reply) => {
                let report = self.swap(*prepared);
                // Whoever asked may have stopped waiting.
                let _ = reply.send(report);
            }
            Message::Adjust(specs, reply) => {
                let report = self.adjust(specs);
                let _ = reply.send(report);
            }
            Message::Inspect(reply) => {
                let resources = self.nodes.iter().flatten().flat_map(|node| node.resources()).collect();
                let _ = reply.send(resources);
            }
            Message::Ping(reply) => {
                let _ = reply.send(());
            }
            Message::Retry(id, reply) => {
                let count = self.retry(id.as_ref());
                let _ = reply.send(count);
            }
            Message::Blocked(stale, reply) => {
                let blocked = self.blocked(&stale);
                let _ = reply.send(blocked);
            }
            Message::Finished(done) => done.into_iter().for_each(|done| self.finished(done)),
            Message::StreamStarted(vertex, incarnation) => self.watch_began(vertex, incarnation),
            Message::StreamFailed(vertex, incarnation, error) => {
                self.watch_failed(vertex, incarnation, &error);
            }
            Message::WorkerFailed(kind, error) => {
                tracing::error!(target: "mgmt::engine", "the worker of kind {kind} has failed: {error}");
                self.host.request_exit(1);
            }
            Message::Clock => self.clock_struck(),
            Message::Stop(level) => {
                self.cancel_what_need_not_end();
                self.core.stop(level, self.now());
            }
        }
    }

    /// Intervals that have passed and runs whose time is up.
    fn ring(&mut self) {
        let now = self.origin.elapsed();
        while let Some(alarm) = self.alarms.pop_expired(now) {
            match alarm {
                Alarm::Interval(vertex) => {
                    let interval = self.node(vertex).and_then(|node| {
                        let interval = node.watch.interval?;
                        node.note().event = true;
                        Some(interval)
                    });
                    if let Some(interval) = interval {
                        self.alarms.insert(now + interval, alarm);
                        self.core.changed(vertex, nanoseconds(now));
                    }
                }
                Alarm::Timeout(vertex) => {
                    if let Some(node) = self.node(vertex)
                        && let Some(cancel) = &node.cancel
                    {
                        node.timed_out = true;
                        cancel.raise(Stage::Cancel);
                    }
                }
                Alarm::Calm(vertex) => self.calmed(vertex),
            }
        }
    }

    /// Carries out actions until there are none. At most one run is left in `jobs`.
    ///
    /// Beginning ten thousand watches takes a while. So they are begun a few at a time, and what can run then runs
    /// meanwhile; what has been done by then makes room for more. Runs, and what is to be remembered about them, are all that
    /// goes ahead of a watch.
    fn perform(&mut self) {
        loop {
            let mut actions = std::mem::take(&mut self.postponed);
            actions.append(&mut self.core.take_actions());
            if actions.is_empty() && self.to_watch.is_empty() {
                break;
            }
            for action in actions {
                if !matches!(action, Action::Watch(..) | Action::Run(_) | Action::Pending(..)) {
                    self.begin_watches(usize::MAX);
                }
                self.act(action);
            }
            if self.jobs.len() > 1 || !self.to_watch.is_empty() {
                self.crew.submit(&mut self.jobs);
            }
            self.begin_watches(WATCHES_AT_ONCE);
            if !self.to_watch.is_empty() {
                self.take_in(Share::Done);
            }
        }
        self.report_unreported();
        if let Some(journal) = &mut self.journal {
            self.ended.drain(..).for_each(|id| journal.end(&id));
        }
    }

    fn begin_watches(&mut self, most: usize) {
        for _ in 0..most {
            let Some((vertex, incarnation)) = self.to_watch.pop_front() else { break };
            self.watch(vertex, incarnation);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Run(run) => self.start(run),
            Action::Watch(vertex, incarnation) => self.to_watch.push_back((vertex, incarnation)),
            Action::Unwatch(vertex) => self.unwatch(vertex),
            Action::Cancel(vertex, level) => {
                if let Some(cancel) = self.node(vertex).and_then(|node| node.cancel.as_ref()) {
                    cancel.raise(if level == Level::Interrupt { Stage::Interrupt } else { Stage::Cancel });
                }
            }
            Action::Reincarnate(vertex, _) => self.reincarnate(vertex),
            Action::Close(vertex) => {
                self.unwatch(vertex);
                self.forget_reversal(vertex);
                self.core.closed(vertex, self.now());
            }
            Action::Freed(vertex) => self.freed(vertex),
            Action::Pending(from, to, pending) => {
                let ids = self.id(from).cloned().zip(self.id(to).cloned());
                let Some((from, id)) = ids else { return };
                if let Some(journal) = &mut self.journal {
                    journal.set_pending(&from, &id, pending);
                }
            }
            Action::Notified(from, to) => {
                let Some(from) = self.id(from).cloned() else { return };
                if let Some(node) = self.node(to) {
                    node.note().notified_by(from);
                }
            }
            Action::Retry(vertex, delay, attempt) => {
                self.attempt_failed(vertex, attempt, Some(Duration::from_nanos(delay)));
            }
            Action::Failed(vertex, attempt) => self.attempt_failed(vertex, attempt, None),
            Action::Rescheduled(vertex, delay) => self.rescheduled(vertex, Duration::from_nanos(delay)),
            Action::Limited(vertex, delay) => {
                if let Some(id) = self.id(vertex) {
                    let time = match delay {
                        u64::MAX => "for ever, its rate is 0: an event leads to no run any more".to_owned(),
                        delay => format!("for {:?}", Duration::from_nanos(delay)),
                    };
                    tracing::info!(target: "mgmt::engine", resource = %id, "rate limited {time}");
                }
            }
            Action::Converged => self.tell_rest(Rest::Converged, EngineEvent::Converged),
            Action::Quiet { failing, unwell } => {
                self.tell_rest(Rest::Quiet, EngineEvent::Quiet { failed: failing, unwell });
            }
            Action::Diverged => self.tell_rest(Rest::Active, EngineEvent::Diverged),
            Action::Paused => {}
            Action::Stopped => self.stopped = true,
        }
    }

    fn witnessed(&self, tell: impl FnOnce(&dyn Witness)) {
        if let Some(witness) = &self.witness {
            tell(&**witness);
        }
    }

    fn tell_rest(&self, rest: Rest, event: EngineEvent) {
        self.witnessed(|witness| witness.rest(rest));
        self.tell(event);
    }

    /// Reports whether the graph is at rest ahead of all other actions: after a swap, so that an observer of the new graph does not take
    /// it for being at rest because the one before was.
    fn tell_rest_first(&mut self) {
        for action in self.core.take_actions() {
            match action {
                Action::Converged | Action::Quiet { .. } | Action::Diverged => self.act(action),
                other => self.postponed.push(other),
            }
        }
    }

    fn tell(&self, event: EngineEvent) {
        // Nobody has to listen.
        let _ = self.events.send(event);
    }

    fn start(&mut self, run: Run) {
        let vertex = run.vertex;
        if let Some(words) = self.held(vertex) {
            let outcome = self.left_alone(vertex, &words);
            return self.core.finished(vertex, outcome, &[], self.now());
        }
        if let Err(message) = self.receive(vertex) {
            let now = self.now();
            self.keep_error(vertex, failures::Of::Run, &message, None, &[]);
            if let Some(node) = self.node(vertex) {
                node.note().attempts += 1;
            }
            self.core.finished(vertex, Outcome::Failed, &[], now);
            return;
        }
        let notifies = self.journal.is_some() && run.apply && self.core.notifies(vertex);
        let (host, export) = (Arc::clone(&self.host), self.export.clone());
        let Some(node) = self.node(vertex) else { return };
        let cancel = Cancel::default();
        node.cancel = Some(cancel.clone());
        node.echo.begin();
        if run.polled {
            node.note().polled = true;
        }
        node.running_for = node.reasons.take();
        node.timed_out = false;
        let timeout = node.spec.meta.timeout;
        let id = notifies.then(|| node.spec.id.clone());
        let spec = Arc::clone(&node.spec);
        let waits = run.pool == crate::core::Pool::Waiting;
        self.witnessed(|witness| witness.began(&spec, waits));
        let Some(node) = self.node(vertex) else { return };
        let order = Order { run, spec, cancel, host, export, snapshot: !node.snapshot_done, foreseen: None };
        let job = Job { order, members: node.lend() };
        if timeout > 0 {
            self.alarms
                .insert(self.origin.elapsed() + Duration::from_millis(timeout), Alarm::Timeout(vertex));
        }
        if let (Some(journal), Some(id)) = (&mut self.journal, id) {
            journal.begin(&id);
        }
        match run.pool {
            crate::core::Pool::Blocking => self.jobs.push(job),
            crate::core::Pool::Waiting => {
                let inbox = Arc::clone(&self.inbox);
                self.runtime
                    .spawn(async move { inbox.send(Message::Finished(vec![job.run_while_chosen().await])) });
            }
        }
    }

    /// Takes the values that others have sent into the parameters of a vertex and its group.
    fn receive(&mut self, vertex: Vertex) -> std::result::Result<(), String> {
        let Some(node) = self.nodes.get(vertex.index()).and_then(Option::as_ref) else { return Ok(()) };
        if specs(&node.spec).all(|spec| spec.receives.is_empty()) {
            return Ok(());
        }
        let spec = Arc::clone(&node.spec);
        let before = node.watches();
        let mut changed = false;
        for (member, spec) in specs(&spec).enumerate() {
            for (index, receive) in spec.receives.iter().enumerate() {
                let value = self.sent_value(&receive.from, receive.key).ok_or_else(|| {
                    format!("`{}` has not come: {} has sent nothing yet", receive.field, receive.from)
                })?;
                let Some(node) = self.node(vertex) else { return Ok(()) };
                let Some(live) = node.members.get_mut(member) else { continue };
                if live.receive(spec, index, &value)? {
                    changed = true;
                    node.note().received.push(Handed { field: receive.field, from: receive.from.clone() });
                    tracing::debug!(target: "mgmt::engine", resource = %spec.id, "received `{}`", receive.field);
                }
            }
        }
        // A received value may be a path that is watched.
        if changed && self.node(vertex).is_some_and(|node| node.watches() != before) {
            self.resubscribe(vertex);
        }
        Ok(())
    }

    fn sent_value(&self, from: &Id, key: &str) -> Option<mgmt_value::Value> {
        let node = self.nodes.get(self.senders.get(from)?.index())?.as_ref()?;
        let sent = node.members.get(node.position(from)?)?.sent.as_ref()?;
        sent.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone())
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    // Five centuries fit.
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
