//! `mgmt run`: the engine on this host.

mod arguments;
mod beside;
mod compile_retry;
mod control;
mod deploys;
mod drawing;
mod fleet;
mod follow;
mod historic;
mod joint;
mod ladder;
mod manager;
mod own_thread;
pub(crate) mod prefix;
mod program;
mod progress;
mod puppet;
mod repack;
mod serving;
mod session;
mod settings;
mod status_file;
mod told;
mod witnesses;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mgmt_engine::{Engine, EngineEvent, EngineSettings, Preparation, Summary, SwapError, SwapReport};
use mgmt_health::ProgramState;
use mgmt_lang::module::Entry;
use mgmt_remote::{Far, Handed, Streams};
use mgmt_resource::{Host, ResourceGraph, Spec};
use mgmt_state::LocalState;
use mgmt_store::{SharedState, Store};
use mgmt_store_etcd::Etcd;
use mgmt_sys::replace::Durability;
use mgmt_telemetry::{Format, json_line};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

pub(crate) use arguments::Arguments;
pub(crate) use historic::rewrite as rewrite_historic;
pub(crate) use settings::hostname;

use crate::commands::exit_codes::{self, Ending};
use crate::configuration::{self, Input, Loaded};
use crate::failure::{Exit, Failure};
use crate::managed::ManagedList;
use crate::metrics::{self, Metrics};
use crate::program::exports::Exports;
use crate::terminal::Terminal;
use beside::Beside;
use control::{Control, Feed};
use deploys::Deploys;
use fleet::{Common, Fleet};
use follow::{Drawings, Follower, Triggers};
use joint::{Joint, Side};
use manager::Manager;
use own_thread::OwnThread;
use prefix::Prefix;
use progress::Progress;
use repack::{Recipient, Repack, Text};
use session::{Outcome, Session};
use settings::{Settings, Source};
use status_file::StatusFile;
use told::Told;
use witnesses::Witnesses;

/// Commands of an agent that was killed have this long between the signal that asks them to stop and SIGKILL.
const COMMAND_GRACE: Duration = Duration::from_secs(10);

/// How long nothing has had to be done when a host is called converged that was not told when to be.
const AT_REST: Duration = Duration::from_secs(1);

pub(crate) const PROGRAM: &str = "mgmt";
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs until it is told to stop, the graph has converged, or time is over.
pub(crate) fn run(arguments: Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    keep_memory_private();
    end_without_threads(terminal);
    // First of all: nothing may be printed where another mgmt listens.
    let streams = arguments.launched.map(|_| Streams::take()).transpose();
    let streams = streams.map_err(|error| Failure::failed(format!("cannot use the streams: {error}")))?;
    let settings = Settings::new(arguments, terminal)?;
    if streams.is_none() {
        hello(terminal);
    }
    for warning in &settings.warnings {
        terminal.warning(warning);
    }
    let runtime = crate::runtime::start(None)?;
    let thread = following_thread()?;
    let load = |entry: &Entry, options: &crate::program::Options| {
        let (entry, options, terminal) = (entry.clone(), options.clone(), terminal.clone());
        thread.ask(move || program::Loaded::new(entry, options, &terminal))
    };
    // The graph comes first: signals still end the program at once, and nothing has been touched yet.
    let loaded = match &settings.input {
        Source::Yaml(input) => First::Graph(Some(input.clone()), configuration::load(input, terminal)?),
        Source::Lang(entry, options) => {
            if settings.download {
                super::get::before(entry, options.module_path.clone(), settings.update, terminal)?;
            }
            if settings.only_download {
                return Ok(Exit::OK);
            }
            let program = load(entry, options)?;
            if settings.only_check {
                return Ok(Exit::OK);
            }
            First::Program(program)
        }
        Source::Puppet(manifest) => {
            // A run that ends when it has converged has nothing to wait for.
            let load = async {
                match settings.converged_exit {
                    true => puppet::Loaded::new(manifest.clone(), terminal).await,
                    false => puppet::Loaded::new_or_later(manifest.clone(), terminal).await,
                }
            };
            First::Manifest(runtime.block_on(load)?)
        }
        Source::LangPuppet { entry, options, manifest, allow_unmatched } => {
            if settings.download {
                super::get::before(entry, options.module_path.clone(), settings.update, terminal)?;
            }
            First::Both(joint::Loaded {
                program: load(entry, options)?,
                manifest: runtime.block_on(puppet::Loaded::new(manifest.clone(), terminal))?,
                allow_unmatched: *allow_unmatched,
            })
        }
        Source::Empty => First::empty(),
    };
    let given = Given { loaded, streams, thread };
    end_with(runtime, |runtime| runtime.block_on(live(settings, given, terminal)))
}

/// The thread on which programs are read, and on which what follows from them is followed.
fn following_thread() -> Result<OwnThread, Failure> {
    OwnThread::start("mgmt-follow")
        .map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))
}

/// Whoever was started has been waited for by whoever started it. What is left are threads without anything to do, and the
/// end of the program does not wait for them.
fn end_with<T>(runtime: Runtime, work: impl FnOnce(&Runtime) -> T) -> T {
    let result = work(&runtime);
    runtime.shutdown_background();
    result
}

/// No core dump, and no look by others of the same account: a run knows the secrets of its graph. What it starts is not
/// affected.
fn keep_memory_private() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    // A kernel that refuses leaves things as they were, which is no reason not to run.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Ends the program when the system has no thread left for it.
///
/// The runtime panics then, on a thread for which others wait: unwinding would wait for ever. Every file is whole at any
/// moment, so that an end at once does no harm.
fn end_without_threads(terminal: &Terminal) {
    let (terminal, usual) = (terminal.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if let Some(why) = said.strip_prefix("OS can't spawn worker thread: ") {
            let failure = Failure::failed(format!("cannot start a thread: {why}"))
                .hint("the limits of memory or processes are too low");
            terminal.failure(&failure);
            std::process::exit(1);
        }
        usual(panic);
    }));
}

/// A graph that is to be run once, until it has converged.
pub(crate) struct Applied {
    /// Where it was read from.
    pub(crate) file: PathBuf,
    pub(crate) prefix: Option<PathBuf>,
    pub(crate) hostname: String,
    pub(crate) detailed_exitcode: bool,
    pub(crate) no_progress: bool,
    pub(crate) how: Preparation,
    pub(crate) name: String,
    pub(crate) graph: ResourceGraph,
}

/// Runs a graph until it has converged.
pub(crate) fn apply(given: Applied, terminal: &Terminal) -> Result<Exit, Failure> {
    keep_memory_private();
    end_without_threads(terminal);
    let arguments = Arguments {
        front_end: Some(configuration::FrontEnd::Yaml),
        input: Some(given.file),
        prefix: given.prefix,
        hostname: Some(given.hostname.into()),
        detailed_exitcode: given.detailed_exitcode,
        no_progress: given.no_progress,
        no_autoedges: !given.how.autoedges,
        no_autogroup: !given.how.autogroup,
        no_watch: true,
        no_deploy_watch: true,
        converged_exit: true,
        converger_timeout: Some(AT_REST.as_secs().to_string()),
        ..Arguments::default()
    };
    let settings = Settings::new(arguments, terminal)?;
    let runtime = crate::runtime::start(None)?;
    let loaded = Loaded { graph: given.graph, name: given.name, content: Vec::new(), remote: None };
    let loaded = First::Graph(None, loaded);
    let given = Given { loaded, streams: None, thread: following_thread()? };
    end_with(runtime, |runtime| runtime.block_on(live(settings, given, terminal)))
}

/// What a run begins with.
struct Given {
    loaded: First,
    streams: Option<Streams>,
    thread: OwnThread,
}

async fn live(settings: Settings, given: Given, terminal: &Terminal) -> Result<Exit, Failure> {
    let Given { loaded, streams, thread } = given;
    let mut signals = session::Signals::new()?;
    let (prefix, beside) = beside::open(&settings)?;
    let until = if prefix.is_temporary() { ", until the end" } else { "" };
    tracing::info!("working in {}{until}", prefix.path().display());
    let (far, handed) = world::far(&settings, streams).await?;
    let (store, cluster) = match &far {
        // Unless servers were named for it that it can reach itself.
        Some(far) if settings.servers.is_none() => (Arc::clone(&far.store), None),
        // Another host or run may take its time, and people may be asked.
        _ => {
            let open = async {
                match &beside {
                    Some(beside) => beside.store(&settings).await.map(|store| (store, None)),
                    None => world::open(&settings, &prefix).await,
                }
            };
            tokio::select! {
                opened = open => opened?,
                stop = signals.end() => return Ok(ended_without_store(stop)),
            }
        }
    };
    let servers = settings.metrics.and_then(|_| world::servers(&settings, cluster.as_ref()));
    let given = Reached { loaded, thread, store, servers, far, handed, beside };
    let ended = engage(&settings, &prefix, given, signals, terminal).await;
    world::leave(cluster).await;
    ended
}

/// A signal came before the store was reached.
fn ended_without_store(stop: ladder::Stop) -> Exit {
    tracing::info!("{}: ending, the store was not reached", stop.name());
    Exit(exit_codes::of(Ending::Graceful, false, 0, 0))
}

/// The same, once others can be reached.
struct Reached {
    loaded: First,
    thread: OwnThread,
    store: Arc<dyn Store>,
    /// The servers of the store, for the metrics, if there are any.
    servers: Option<Etcd>,
    far: Option<Far>,
    handed: Option<mpsc::Receiver<Handed>>,
    /// The run that has the working directory.
    beside: Option<Beside>,
}

/// Runs with a store, for as long as there is something to do.
async fn engage(
    settings: &Settings,
    prefix: &Prefix,
    given: Reached,
    mut signals: session::Signals,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let Reached { loaded, thread, store, servers, mut far, handed, beside } = given;
    let status_file = settings.status_file.clone().map(StatusFile::new).transpose().map_err(|error| {
        Failure::failed(format!("cannot write the file of `--converger-status-file`: {error}"))
    })?;
    if settings.raise_limits
        && let Err(error) = mgmt_watch::raise_limits()
    {
        tracing::debug!("{error}");
    }
    let mut hosts_store = Arc::clone(&store);
    let shared = Arc::new(SharedState::new(store, &settings.hostname));
    let mut host = host(settings.durability, settings.ends_after(), prefix, Arc::clone(&shared))?;
    if let Some(beside) = beside {
        if let Some(host) = Arc::get_mut(&mut host).filter(|_| beside.state().is_dir()) {
            host.state = beside.state();
        }
        if settings.idle {
            hosts_store = tokio::select! {
                opened = beside.store_for_hosts(settings, prefix) => opened?,
                stop = signals.end() => return Ok(ended_without_store(stop)),
            };
        }
    }
    let exports = Arc::new(Exports::new(Arc::clone(&shared), settings.export_time));
    let _server = world::serve(&shared, prefix)?;
    let manager = Arc::new(Manager::from_environment());
    let place = prefix.directory("deploys")?;
    let can_begin = deploys::begins_without_store(settings, &place);
    // Without its store, this can take for ever; and nothing has begun that would have to be finished.
    tokio::select! {
        () = world::ready(&shared, &manager, can_begin) => {}
        stop = signals.end() => return Ok(ended_without_store(stop)),
        () = world::gone(&mut far) => return Err(Failure::failed("the one who has started this is gone")),
    }
    let _levels = world::follow_log_levels(Arc::clone(&shared));
    world::claim(&shared, prefix)?;
    if far.is_none() {
        shared.be_member(VERSION);
    }
    let counted = settings.metrics.map(|_| Arc::new(Metrics::new(mgmt_resources::KINDS)));
    let _metrics = match (&counted, settings.metrics) {
        (Some(counted), Some(address)) => {
            let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let names = settings.metrics_names.iter().cloned().chain([host.hostname.clone(), node]);
            Some(metrics::serve(Arc::clone(counted), address, names.collect()).await?)
        }
        _ => None,
    };
    let recorder = if settings.history { witnesses::recorder(prefix, settings.durability) } else { None };
    let (world, noop) = (Arc::clone(&shared), settings.noop);
    let told = Told::new(world, counted.clone(), Arc::clone(&manager), recorder.clone(), noop);
    let (told, kept) = (Arc::new(told), recorder.clone());
    let metrics = counted.clone();
    // Others are watched, and may be asked about, on the same terminal.
    let progress = Arc::new(Progress::start(terminal, settings.progress && settings.fleet.is_none()));
    let feed = Arc::new(Feed::default());
    let witnesses = Witnesses {
        metrics: counted,
        recorder,
        told: Arc::clone(&told),
        progress: Arc::clone(&progress),
        feed: Arc::clone(&feed),
    };
    let (engine, events) = engine(settings, prefix, &host, Arc::clone(&exports), witnesses)?;
    engine.ends_the_process();
    let engine = Arc::new(engine);
    told.engine(&engine);
    let (drawings, drawer) = match settings.drawing.clone() {
        Some(drawing) => {
            let (sender, receiver) = tokio::sync::watch::channel(String::new());
            (Some(sender), Some(tokio::spawn(drawing.follow(receiver, host.helper.clone()))))
        }
        None => (None, None),
    };
    if let Some(counted) = &metrics {
        counted.look_at(&engine, &shared, servers, told.reporter());
    }
    let engine_directory = prefix.directory("engine")?;
    let durable = settings.durability != Durability::None;
    let managed = (!settings.noop && !settings.idle && !prefix.is_temporary())
        .then(|| Arc::new(ManagedList::start(&engine_directory, durable)));
    let means = Means {
        engine: Arc::clone(&engine),
        exports,
        host: Arc::clone(&host),
        shared: Arc::clone(&shared),
        told: Arc::clone(&told),
        watch: settings.watch,
        drawings,
        terminal: terminal.clone(),
        managed: managed.clone(),
        half: None,
        heritage: program::Heritage::default(),
    };
    let Others { fleet, changes, repack, _repacking } =
        Others::start(settings, &loaded, &means, hosts_store)?;
    let here = if settings.idle { First::empty() } else { loaded };
    // One plan after the other, and one question.
    let (orders, applies) = mpsc::channel(1);
    let (questions, hearing) = mpsc::channel(1);
    let control = Control {
        engine: Arc::clone(&engine),
        feed: Arc::clone(&feed),
        hostname: settings.hostname.clone(),
        preparation: settings.preparation(),
        orders,
        questions,
    };
    let following = tokio::select! {
        following = Deploys::begin(here, settings, means, place, (handed, applies)) => following?,
        stop = signals.end() => return Ok(ended_without_store(stop)),
        () = world::gone(&mut far) => return Err(Failure::failed("the one who has started this is gone")),
    };
    let _control = control::serve(prefix.path(), control)?;
    let ended = Session {
        settings,
        host: &host,
        engine: &engine,
        status_file,
        status: Arc::clone(&told),
        signals,
        events,
        fleet,
        far,
        changes,
        repack,
        manager,
        feed,
        hearing,
    }
    .run(following, thread)
    .await;
    progress.end();
    if let Some(managed) = managed {
        tokio::task::block_in_place(|| managed.finish());
    }
    if let Some(recorder) = kept {
        tokio::task::block_in_place(|| recorder.finish());
    }
    let Outcome { ending, summary, fleet } = ended?;
    // A run that was to end by itself was never meant to stay; one that somebody stopped is a member that is gone.
    let stays =
        !matches!(ending, Ending::Converged | Ending::Quiet | Ending::MaxRuntime | Ending::Requested(_));
    shared.leave_as(stays).await;
    if let Some(drawer) = drawer {
        // The last picture is finished, unless that takes for ever.
        let _ = tokio::time::timeout(session::LAST_WORDS, drawer).await;
    }
    // Who only wants to look wants to know whether there is something to do.
    let changes = if settings.noop { summary.would_change } else { summary.changes };
    let changes = usize::try_from(changes).unwrap_or(usize::MAX);
    let failed = summary.failed + usize::from(told.report().is_outdated());
    let code = exit_codes::of(ending, settings.detailed_exitcode, changes, failed);
    // A run on other hosts has done nothing here.
    let Some(fleet) = fleet else {
        goodbye(terminal, &summary, code);
        return Ok(Exit(code));
    };
    let code = fleet.code(code, settings.detailed_exitcode);
    fleet.summarize(code);
    Ok(Exit(code))
}

/// The hosts of a run, and what belongs to them.
struct Others {
    fleet: Option<Fleet>,
    /// What they are to run from now on.
    changes: mpsc::Receiver<(Recipient, Handed)>,
    /// Has it looked for.
    repack: Arc<Notify>,
    /// Those who look.
    _repacking: JoinSet<()>,
}

impl Others {
    fn start(
        settings: &Settings,
        loaded: &First,
        means: &Means,
        store: Arc<dyn Store>,
    ) -> Result<Others, Failure> {
        let (changed, changes) = mpsc::channel(1);
        let (repack, mut repacking) = (Arc::new(Notify::new()), JoinSet::new());
        let Some(plan) = settings.fleet.clone() else {
            return Ok(Others { fleet: None, changes, repack, _repacking: repacking });
        };
        let how = settings.program();
        let mut follow = |recipient, text, last: &Handed| {
            let (engine, terminal) = (Arc::clone(&means.engine), means.terminal.clone());
            let follower = Repack { recipient, text, how: how.clone(), last: last.clone(), engine, terminal };
            if settings.watch {
                repacking.spawn(follower.follow(Arc::clone(&repack), changed.clone()));
            }
        };
        for (number, path, content) in plan.graphs() {
            let last = repack::graph(content.to_vec(), &how)?;
            follow(Recipient::Host(number), Text::Graph(Input::new(path, false)), &last);
        }
        let mut handed = None;
        if plan.takes_program() && !matches!(settings.input, Source::Empty) {
            let program = deploys::packed(loaded, &how)?;
            if let Some(text) = Text::of(loaded) {
                follow(Recipient::All, text, &program);
            }
            handed = Some(program);
        }
        let common = Common { arguments: settings.for_others(means.terminal.format()), how, handed, store };
        let fleet = Some(Fleet::start(plan, common, &means.terminal)?);
        Ok(Others { fleet, changes, repack, _repacking: repacking })
    }
}

/// What there is to run at first.
#[derive(Clone)]
enum First {
    /// A graph, and where it was read from, if that can be read again.
    Graph(Option<Input>, Loaded),
    Program(program::Loaded),
    Manifest(puppet::Loaded),
    /// A program and a manifest, as one graph.
    Both(joint::Loaded),
}

impl First {
    /// Whether it can be read or compiled again. A program is, where its files may change.
    fn can_be_read_again(&self, files_change: bool) -> bool {
        match self {
            First::Graph(input, _) => input.as_ref().is_some_and(Input::can_be_read_again),
            First::Program(loaded) => files_change && loaded.is_in_files(),
            First::Manifest(_) | First::Both(_) => true,
        }
    }

    /// Its graph, if that is known before it runs.
    fn graph(&self) -> Option<&ResourceGraph> {
        match self {
            First::Graph(_, loaded) => Some(&loaded.graph),
            First::Manifest(loaded) => loaded.graph(),
            First::Program(_) | First::Both(_) => None,
        }
    }

    /// Nothing.
    fn empty() -> First {
        First::Graph(
            None,
            Loaded {
                graph: ResourceGraph::new(),
                name: "empty".to_owned(),
                content: Vec::new(),
                remote: None,
            },
        )
    }
}

/// What it takes to bring graphs to the engine.
#[derive(Clone)]
struct Means {
    engine: Arc<Engine>,
    exports: Arc<Exports>,
    host: Arc<Host>,
    shared: Arc<SharedState>,
    told: Arc<Told>,
    /// Read files again when they change.
    watch: bool,
    drawings: Drawings,
    terminal: Terminal,
    /// The list of what is managed, unless this run only looks.
    managed: Option<Arc<ManagedList>>,
    /// What is brought is one half of a graph.
    half: Option<(Side, Arc<Joint>)>,
    heritage: program::Heritage,
}

/// Why the engine does not run a graph.
#[derive(Clone, Debug)]
enum Unswapped {
    /// The engine has ended.
    Stopped,
    /// Something is wrong with the graph.
    Refused(Failure),
}

impl Means {
    /// Brings a graph of this name to the engine, or what comes of it together with its other half.
    async fn swap(&self, name: &str, graph: ResourceGraph) -> Result<SwapReport, Unswapped> {
        match &self.half {
            Some((side, joint)) => joint.give(*side, name, graph, self).await,
            None => self.hand(graph).await,
        }
    }

    /// Reports the state of a program or a manifest, or of both where this is one half.
    fn report_program(&self, state: ProgramState) {
        self.told.program(match &self.half {
            Some((side, joint)) => joint.state(*side, state),
            None => state,
        });
    }

    /// Gives the engine a graph, and tells others how many resources there are now.
    async fn hand(&self, graph: ResourceGraph) -> Result<SwapReport, Unswapped> {
        let names = self.managed.as_ref().and_then(|managed| managed.look(&graph));
        match self.exports.swap(&self.engine, graph).await {
            Ok(report) => {
                if let Some((managed, names)) = self.managed.as_ref().zip(names) {
                    managed.record(names);
                }
                self.told.swapped(&report);
                Ok(report)
            }
            Err(SwapError::Stopped) => Err(Unswapped::Stopped),
            Err(error) => Err(Unswapped::Refused(follow::refused(&error))),
        }
    }

    /// Replaces declarations of what runs; nothing, if that takes the whole graph.
    async fn adjust(&self, changed: Vec<Spec>) -> Result<Option<SwapReport>, Unswapped> {
        if self.half.is_some() {
            return Ok(None);
        }
        match self.engine.adjust(changed).await {
            Ok(report) => Ok(report),
            Err(SwapError::Stopped) => Err(Unswapped::Stopped),
            Err(error) => Err(Unswapped::Refused(follow::refused(&error))),
        }
    }
}

/// Whoever brings graphs to the engine.
enum Following {
    Graph(Follower, Loaded),
    Program(program::Follower),
    Manifest(puppet::Follower),
    Both(joint::Follower),
}

impl Following {
    fn new(first: First, means: &Means) -> Following {
        let means = means.clone();
        match first {
            First::Graph(input, loaded) => Following::Graph(Follower { means, input }, loaded),
            First::Program(loaded) => Following::Program(program::Follower { means, loaded }),
            First::Manifest(loaded) => Following::Manifest(puppet::Follower { means, loaded }),
            First::Both(loaded) => Following::Both(joint::Follower { means, loaded }),
        }
    }

    async fn follow(self, triggers: Triggers, started: oneshot::Sender<Result<(), Failure>>) {
        match self {
            Following::Graph(follower, first) => follower.follow(first, triggers, started).await,
            Following::Program(follower) => follower.follow(triggers, started).await,
            Following::Manifest(follower) => follower.follow(triggers, started).await,
            Following::Both(follower) => follower.follow(triggers, started).await,
        }
    }
}

fn engine(
    settings: &Settings,
    prefix: &Prefix,
    host: &Arc<Host>,
    exports: Arc<Exports>,
    witnesses: Witnesses,
) -> Result<(Engine, UnboundedReceiver<EngineEvent>), Failure> {
    end_commands_left_behind(prefix)?;
    let engine = Engine::start(EngineSettings {
        host: Arc::clone(host),
        registry: mgmt_resources::KINDS,
        preparation: settings.preparation(),
        converge_after: Some(settings.converge_after.unwrap_or(AT_REST)),
        threads: None,
        export: Some(exports),
        witness: Some(Arc::new(witnesses)),
        journal: Some(prefix.directory("engine")?.join("journal")),
        dot: settings.drawing.is_some(),
        slow_down: true,
    });
    engine.map_err(|error| Failure::failed(format!("cannot start the engine: {error}")))
}

/// Ends what is left of commands that an agent with this working directory could not end, because it was killed.
fn end_commands_left_behind(prefix: &Prefix) -> Result<(), Failure> {
    let records = prefix.directory("engine/commands")?;
    match mgmt_sys::process::end_left_behind(&records, COMMAND_GRACE) {
        Ok(left) => {
            for mgmt_sys::process::LeftBehind { name, group, killed } in left {
                let how =
                    if killed { "killed, because it did not stop when it was asked to" } else { "stopped" };
                tracing::warn!("{name}: still running since the last start (process group {group}); {how}");
            }
        }
        Err(error) => tracing::warn!("cannot look for commands of the last start: {error}"),
    }
    mgmt_sys::process::keep_records_in(records);
    Ok(())
}

/// What resources may use of this program.
pub(crate) fn host(
    durability: Durability,
    ends_after: Option<Duration>,
    prefix: &Prefix,
    shared: Arc<SharedState>,
) -> Result<Arc<Host>, Failure> {
    let local = LocalState::open_with(prefix.directory("local")?, durability)
        .map_err(|error| Failure::failed(format!("cannot open the local store: {error}")))?;
    Ok(Arc::new(Host {
        hostname: shared.host().to_text().into_owned(),
        program: PROGRAM.to_owned(),
        version: VERSION.to_owned(),
        state: prefix.directory("engine/state")?,
        local: Arc::new(local),
        shared,
        helper: mgmt_sys::process::Helper::this_program(),
        durability,
        view: std::sync::RwLock::default(),
        exit: tokio::sync::watch::Sender::new(None),
        program_files: tokio::sync::watch::Sender::new(None),
        ends_after,
        incomplete: AtomicBool::default(),
    }))
}

fn hello(terminal: &Terminal) {
    terminal.data(&match terminal.format() {
        Format::Human => format!("{PROGRAM} {VERSION}\n"),
        Format::Json => json_line(&serde_json::json!({
            "type": "hello",
            "format_version": 1,
            "program": PROGRAM,
            "version": VERSION,
        })),
    });
}

fn goodbye(terminal: &Terminal, summary: &Summary, code: u8) {
    let Summary { resources, checks, changes, would_change, failed } = *summary;
    match terminal.format() {
        Format::Human => {
            let changed = match (changes, would_change) {
                (changes, 0) => format!("{changes} changed"),
                (0, would) => format!("{would} would be changed"),
                (changes, would) => format!("{changes} changed, {would} more would be changed"),
            };
            tracing::info!("ended: {resources} resources, {changed}, {failed} failed");
        }
        Format::Json => terminal.data(&json_line(&serde_json::json!({
            "type": "summary",
            "resources": resources,
            "checks": checks,
            "changed": changes,
            "would_change": would_change,
            "failed": failed,
            "exit_code": code,
        }))),
    }
}
