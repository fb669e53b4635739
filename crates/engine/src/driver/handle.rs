//! The engine as its owner sees it.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mgmt_resource::{Host, Id, Registry, Resource, ResourceGraph, Result, Spec};
use mgmt_watch::{
    Change, FileHub, FileHubOptions, FileHubStats, Notice, Sink, SubscriptionId, Token, WatchPath,
};
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, oneshot};

use super::helm::Helm;
use super::inbox::Inbox;
use super::node::specs;
use super::pool::Pool;
use super::{Driver, Message, Witness, default_threads};
use crate::core::{Level, Vertex};
use crate::prepare::{Preparation, Prepared, SwapError, check_spec, prepare};
use crate::reversal;

/// Writes exported resources where other hosts find them.
pub trait Export: Send + Sync {
    /// Makes sure that the resource is there, as it is declared now.
    fn export(&self, spec: &Spec) -> Result<()>;
}

/// What an engine needs.
pub struct EngineSettings {
    /// The program around it.
    pub host: Arc<Host>,
    /// The kinds, to read stored resources back.
    pub registry: Registry,
    /// What holds for every graph.
    pub preparation: Preparation,
    /// Quiet time that counts as converged; `None`: nobody asks.
    pub converge_after: Option<Duration>,
    /// Threads for runs that make system calls; `None`: as many as suit the machine.
    pub threads: Option<usize>,
    /// Where exports go.
    pub export: Option<Arc<dyn Export>>,
    /// Who is told what is done.
    pub witness: Option<Arc<dyn Witness>>,
    /// The file that remembers pending notifications; `None`: they end with the program.
    pub journal: Option<PathBuf>,
    /// Put the graph as text for Graphviz into each [`SwapReport`].
    pub dot: bool,
    /// Leave a resource alone for a while that something else undoes again and again.
    pub slow_down: bool,
}

/// What the engine tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// Everything has been in the declared state for long enough.
    Converged,
    /// The graph has been quiet for long enough, apart from scheduled retries, but not everything is in the declared state.
    Quiet {
        /// The number of resources, or groups of them, whose last attempt failed. What is behind them is blocked.
        failed: usize,
        /// The number of those that are not in the declared state, as far as is known: failed, blocked, or held back by a rate of zero.
        unwell: usize,
    },
    /// The graph is no longer converged or quiet.
    Diverged,
    /// A resource is failing: its first attempt failed, or, if attempts are declared, the last of them. It is sent once until the resource
    /// recovers or another graph runs.
    Failed {
        /// Which.
        id: Id,
        /// Why.
        message: String,
    },
    /// A resource that had failed has succeeded.
    Recovered {
        /// Which.
        id: Id,
    },
    /// The engine has ended.
    Stopped,
}

/// What a swap did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwapReport {
    /// Vertices of the new graph.
    pub vertices: usize,
    /// Edges of the new graph.
    pub edges: usize,
    /// Vertices that were added, changed, removed.
    pub added: usize,
    /// Vertices whose declaration changed.
    pub changed: usize,
    /// Vertices that went.
    pub removed: usize,
    /// Automatic edges among the edges.
    pub automatic_edges: usize,
    /// Resources that are members of a group.
    pub grouped: usize,
    /// Things that a person should know.
    pub warnings: Vec<String>,
    /// How long preparation and swap took together.
    pub took: Duration,
    /// The graph as text for Graphviz.
    pub dot: String,
}

/// What the engine did in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Resources in the last graph.
    pub resources: usize,
    /// Checks that were run.
    pub checks: u64,
    /// Changes that were made.
    pub changes: u64,
    /// Changes that would have been made, by resources that only look.
    pub would_change: u64,
    /// Resources, or groups of them, whose last attempt failed.
    pub failed: usize,
}

/// What is blocked, and what else has something to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// They: the resource, and the failing one.
    pub listed: Vec<(Id, Id)>,
    /// The number of resources that are not blocked and not failing, and have not been checked since something happened.
    pub pending: usize,
    /// The number of resources that their last run changed, and that have nothing to do since.
    pub changed: usize,
    /// The number of resources whose last attempt failed.
    pub failing: usize,
}

/// What waits to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Events that the engine has not looked at.
    pub events: usize,
    /// Short runs that wait for a thread.
    pub runs: usize,
}

/// A running engine. Dropping it stops it hard.
pub struct Engine {
    inbox: Arc<Inbox>,
    thread: Mutex<Option<JoinHandle<Summary>>>,
    host: Arc<Host>,
    registry: Registry,
    /// Held for moments only.
    preparation: Mutex<Preparation>,
    hub: FileHub,
    sink: Arc<HubSink>,
}

impl Engine {
    /// Starts an engine with an empty graph. To be called inside a Tokio runtime, which then serves its tasks.
    pub fn start(settings: EngineSettings) -> io::Result<(Engine, mpsc::UnboundedReceiver<EngineEvent>)> {
        let (engine, receiver, life) = Engine::make(settings)?;
        let thread = std::thread::Builder::new().name("mgmt-engine".into()).spawn(life)?;
        *engine.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok((engine, receiver))
    }

    /// An engine, and what its thread has to do. Without a thread for it, everything ends.
    #[allow(clippy::type_complexity, reason = "it is taken apart at once")]
    pub(super) fn make(
        settings: EngineSettings,
    ) -> io::Result<(Engine, mpsc::UnboundedReceiver<EngineEvent>, impl FnOnce() -> Summary + Send + 'static)>
    {
        let inbox = Arc::new(Inbox::default());
        let (events, receiver) = mpsc::unbounded_channel();
        let sink = Arc::new(HubSink { inbox: Arc::clone(&inbox), outside: Mutex::default() });
        let (hub, lookout) =
            FileHub::unattended(Arc::clone(&sink) as Arc<dyn Sink>, FileHubOptions::default())?;
        let engine = Engine {
            hub: hub.clone(),
            sink,
            inbox: Arc::clone(&inbox),
            thread: Mutex::new(None),
            host: Arc::clone(&settings.host),
            registry: settings.registry,
            preparation: Mutex::new(settings.preparation.clone()),
        };
        let helm = Arc::new(Helm::new(Arc::clone(&inbox)));
        let threads = settings.threads.unwrap_or_else(default_threads).max(1);
        let pool = Pool::start(threads, &helm, hub.clone(), lookout)?;
        let driver = Driver::new(settings, threads, inbox, pool.crew(), hub, events)?;
        let life = move || {
            // Not before: the driver knows the threads, which know the helm.
            helm.man(driver);
            let summary = helm.keep().map(Driver::end);
            // Whoever still runs something comes to its end first.
            drop(pool);
            summary.unwrap_or_default()
        };
        Ok((engine, receiver, life))
    }

    /// What holds for every resource of the graphs from now on.
    pub fn set_preparation(&self, preparation: Preparation) {
        *self.preparation.lock().unwrap_or_else(PoisonError::into_inner) = preparation;
    }

    fn preparation(&self) -> Preparation {
        self.preparation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes ready what runs next, without touching what runs now.
    pub fn prepare(&self, graph: ResourceGraph) -> Result<Prepared, SwapError> {
        prepare_for(graph, &self.host, &self.registry, &self.preparation())
    }

    /// Lets another graph run. A graph that is not right is refused and the present one goes on.
    pub async fn swap(&self, graph: ResourceGraph) -> Result<SwapReport, SwapError> {
        let began = Instant::now();
        let prepared = tokio::task::block_in_place(|| self.prepare(graph))?;
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Swap(Box::new(prepared), reply));
        let mut report = answer.await.map_err(|_| SwapError::Stopped)?;
        report.took = began.elapsed();
        Ok(report)
    }

    /// Gives resources of the running graph other parameters, and leaves all else as it is: costs what it changes.
    ///
    /// `None`: more than these resources is concerned, for example an automatic edge or a group. Then nothing was done,
    /// and the whole graph has to be [swapped](Engine::swap).
    ///
    /// # Errors
    ///
    /// A resource is not right, or the engine has ended.
    pub async fn adjust(&self, mut specs: Vec<Spec>) -> Result<Option<SwapReport>, SwapError> {
        let began = Instant::now();
        let preparation = self.preparation();
        for spec in &mut specs {
            check_spec(spec)?;
            preparation.lay_over(spec);
        }
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Adjust(specs, reply));
        let report = answer.await.map_err(|_| SwapError::Stopped)?;
        Ok(report.map(|report| SwapReport { took: began.elapsed(), ..report }))
    }

    /// Waits until the thread of the engine has answered. False if it has ended. Nothing follows from the question: no resource is
    /// attempted because of it.
    pub async fn is_alive(&self) -> bool {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Ping(reply));
        answer.await.is_ok()
    }

    /// How much waits to be done.
    pub fn backlog(&self) -> Backlog {
        Backlog { events: self.inbox.len(), runs: self.inbox.queued.load(Ordering::Relaxed) }
    }

    /// What the hub of files has done so far, and has at present.
    pub fn watched(&self) -> FileHubStats {
        self.hub.stats()
    }

    /// Every resource of the running graph with its parameters as they are, received ones included.
    ///
    /// # Errors
    ///
    /// The engine has ended.
    pub async fn inspect(&self) -> Result<FxHashMap<Id, Arc<dyn Resource>>, SwapError> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Inspect(reply));
        answer.await.map_err(|_| SwapError::Stopped)
    }

    /// Attempts a resource that is failing once more, or all of them, whatever holds them up. Returns the number of resources, or groups
    /// of them, that will be attempted.
    ///
    /// # Errors
    ///
    /// The engine has ended.
    pub async fn retry(&self, id: Option<Id>) -> Result<usize, SwapError> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Retry(id, reply));
        answer.await.map_err(|_| SwapError::Stopped)
    }

    /// Lists what is blocked, with the failing resource before each, and counts what is pending and changed. A resource is in one state:
    /// one that was reported as failing or flapping, or is among the `stale` ones, is none of these. Walks the graph.
    ///
    /// # Errors
    ///
    /// The engine has ended.
    pub async fn blocked(&self, stale: HashSet<String>) -> Result<Blocked, SwapError> {
        let (reply, answer) = oneshot::channel();
        self.inbox.send(Message::Blocked(stale, reply));
        answer.await.map_err(|_| SwapError::Stopped)
    }

    /// Watches a path with the hub that serves the graph: there is one in the program. Once this returns, no change is
    /// missed. What is called must be quick, and must not panic: that ends the engine. Nothing is reported once the engine has
    /// ended.
    pub fn watch_path(&self, path: &WatchPath, changed: impl Fn() + Send + Sync + 'static) -> PathWatch {
        let mut outside = self.sink.outside.lock().unwrap_or_else(PoisonError::into_inner);
        let token = outside.keys().max().map_or(FIRST_OUTSIDE, |last| last + 1);
        outside.insert(token, Arc::new(changed));
        // The hub may call the sink from its own thread, which needs the lock.
        drop(outside);
        let subscription = self.hub.subscribe(Token(token), path);
        PathWatch { hub: self.hub.clone(), sink: Arc::clone(&self.sink), token, subscription }
    }

    /// The process ends with this engine, and does not wait for the kernel to be done with its watches.
    pub fn ends_the_process(&self) {
        self.hub.leave_to_kernel();
    }

    /// Stops: gracefully, or harder.
    pub fn stop(&self, level: Level) {
        self.inbox.send(Message::Stop(level));
    }

    /// Waits for the end, which [`Engine::stop`] brings about.
    pub fn wait(&self) -> Summary {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop(Level::Interrupt);
        self.wait();
    }
}

/// Makes a graph ready to run on a host: with what has to be undone there, because an earlier graph did it.
///
/// # Errors
///
/// The graph is not right.
pub fn prepare_for(
    graph: ResourceGraph,
    host: &Host,
    registry: &Registry,
    how: &Preparation,
) -> Result<Prepared, SwapError> {
    let declared = graph.nodes().flat_map(|(_, spec)| specs(spec)).map(|spec| spec.id.clone()).collect();
    // A resource that is missing only because a value of the program is does not have to be undone.
    let incomplete = host.incomplete.load(Ordering::Acquire);
    let (reversals, problems) = match incomplete {
        true => (Vec::new(), Vec::new()),
        false => reversal::pending(&host.state, &declared, registry),
    };
    let mut prepared = prepare(graph, reversals, how)?;
    prepared.incomplete = incomplete;
    prepared.warnings.extend(problems);
    Ok(prepared)
}

/// A path that someone outside the graph watches, until this is dropped.
pub struct PathWatch {
    hub: FileHub,
    sink: Arc<HubSink>,
    token: u64,
    subscription: SubscriptionId,
}

impl Drop for PathWatch {
    fn drop(&mut self) {
        self.hub.unsubscribe(self.subscription);
        self.sink.outside.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.token);
    }
}

/// Where the hub's events go: to a vertex, or to someone outside the graph.
struct HubSink {
    inbox: Arc<Inbox>,
    // Taken for a look-up or an insertion, by the hub's thread and by whoever begins or ends to watch.
    outside: Mutex<FxHashMap<u64, Arc<dyn Fn() + Send + Sync>>>,
}

/// Tokens below this are vertices.
const FIRST_OUTSIDE: u64 = 1 << 32;

impl Sink for HubSink {
    fn changed(&self, token: Token) {
        self.changes(&[(token, Change::Any)]);
    }

    fn changes(&self, changes: &[(Token, Change)]) {
        let vertex = |token: Token| u32::try_from(token.0).ok().map(Vertex);
        self.inbox.put_changes(changes.iter().filter_map(|(token, change)| Some((vertex(*token)?, *change))));
        for (token, _) in changes.iter().filter(|(token, _)| vertex(*token).is_none()) {
            let outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner).get(&token.0).cloned();
            if let Some(tell) = outside {
                tell();
            }
        }
    }

    fn notice(&self, notice: Notice) {
        tracing::warn!(target: "mgmt::watch", "{notice}");
    }
}
