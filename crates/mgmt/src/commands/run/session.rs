//! One life of the engine: everything that may end it, in one loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mgmt_engine::{Engine, EngineEvent, Level, Rest as GraphRest, Summary};
use mgmt_health::ProgramState;
use mgmt_remote::{Far, Handed, Rest as FarRest, Stop as FarStop, Told as FarTold};
use mgmt_resource::Host;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc, oneshot};

use super::control::{Feed, Rest as Resting};
use super::deploys::Deploys;
use super::fleet::Fleet;
use super::ladder::{Ladder, Stop};
use super::manager::Manager;
use super::own_thread::OwnThread;
use super::repack::Recipient;
use super::settings::Settings;
use super::status_file::StatusFile;
use super::told::Told;
use crate::commands::exit_codes::Ending;
use crate::failure::Failure;

/// How long the end waits for what is only said and drawn.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(10);

/// What the loop listens to and acts on.
pub(super) struct Session<'a> {
    pub(super) settings: &'a Settings,
    pub(super) host: &'a Host,
    pub(super) engine: &'a Arc<Engine>,
    pub(super) status_file: Option<StatusFile>,
    pub(super) status: Arc<Told>,
    pub(super) signals: Signals,
    pub(super) events: mpsc::UnboundedReceiver<EngineEvent>,
    /// Hosts that run because this one does.
    pub(super) fleet: Option<Fleet>,
    /// The one because of whom this one runs.
    pub(super) far: Option<Far>,
    /// What hosts are to run from now on.
    pub(super) changes: mpsc::Receiver<(Recipient, Handed)>,
    /// Has it looked for.
    pub(super) repack: Arc<Notify>,
    pub(super) manager: Arc<Manager>,
    /// Is told whether the graph is at rest.
    pub(super) feed: Arc<Feed>,
    /// Wants to know when all that the engine has said has been heard.
    pub(super) hearing: mpsc::Receiver<oneshot::Sender<()>>,
}

/// How it went.
pub(super) struct Outcome {
    pub(super) ending: Ending,
    pub(super) summary: Summary,
    pub(super) fleet: Option<Fleet>,
}

/// The signals that we answer. From the moment that this is made, none of them ends the program by itself.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Signals, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("cannot listen to signals: {error}")))
        };
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }
}

impl Signals {
    /// Waits until somebody wants the program to end, for the time before there is anything to stop.
    pub(super) async fn end(&mut self) -> Stop {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Stop::Interrupt,
            Some(()) = self.terminate.recv() => Stop::Terminate,
            else => std::future::pending().await,
        }
    }
}

/// How the end is coming along.
#[derive(Default)]
struct End {
    ladder: Ladder,
    /// Why, if it was not a signal.
    cause: Option<Ending>,
    /// The engine of this host has said that it is at rest, and with every resource in its declared state.
    is_quiet: bool,
    is_converged: bool,
    /// So are all those that belong to this run, and the program is evaluated.
    rest: Option<Rest>,
    /// The engine has ended.
    has_stopped: bool,
}

/// How the graph has come to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rest {
    Converged,
    /// Nothing is under way but scheduled retries, and something is failed or outdated: the summary.
    Quiet(String),
}

impl Session<'_> {
    /// Runs the graph, and those that follow, until the end.
    pub(super) async fn run(mut self, following: Deploys, thread: OwnThread) -> Result<Outcome, Failure> {
        let mut end = End::default();
        let mut exit = self.host.exit.subscribe();
        let mut program = self.status.program_changes();
        let over = self.settings.max_runtime.and_then(|time| Instant::now().checked_add(time));
        let (started, mut start) = oneshot::channel();
        let triggers = following.triggers();
        let following = thread.begin(following.follow(triggers.clone(), started));
        let mut starting = true;
        let mut refused = None;
        let (questions, mut asked) = mpsc::channel(1);
        let watched = Arc::clone(&self.manager).watch(Arc::clone(self.engine), questions);
        let mut reloading = false;
        while !end.has_stopped || self.fleet.as_ref().is_some_and(|fleet| !fleet.is_done()) {
            let open = end.cause.is_none();
            tokio::select! {
                biased;
                told = told(&mut self.far) => self.told(&mut end, told),
                Some(()) = self.signals.interrupt.recv() => self.signal(&mut end, Stop::Interrupt),
                Some(()) = self.signals.terminate.recv() => self.signal(&mut end, Stop::Terminate),
                Some(()) = self.signals.hangup.recv() => {
                    self.manager.reloading();
                    self.repack.notify_waiters();
                    self.retry_failed();
                    reloading = !self.settings.idle && triggers.reload();
                    if !reloading {
                        self.manager.ready();
                    }
                }
                () = triggers.finished(), if reloading => {
                    reloading = false;
                    self.manager.ready();
                }
                Some(question) = asked.recv() => {
                    // Whoever asks may be gone.
                    let _ = question.send(());
                }
                () = until(end.ladder.deadline()) => {
                    if let Some(level) = end.ladder.expire(Instant::now()) {
                        tracing::warn!("still not stopped: {}", super::ladder::describe(level));
                        self.stop(level);
                    }
                }
                () = until(over), if open => {
                    tracing::error!("the maximum time to run is over");
                    self.end(&mut end, Ending::MaxRuntime);
                }
                Ok(()) = program.changed() => self.compare(&mut end),
                Ok(()) = exit.changed(), if open => {
                    let code = *exit.borrow_and_update();
                    if let Some(code) = code {
                        self.end(&mut end, Ending::Requested(code));
                    }
                }
                answer = &mut start, if starting => {
                    starting = false;
                    match answer {
                        Ok(Err(failure)) => {
                            refused = Some(failure);
                            self.end(&mut end, Ending::Broken);
                        }
                        Ok(Ok(())) => self.manager.ready(),
                        Err(_) => {}
                    }
                }
                event = self.events.recv(), if !end.has_stopped => match event {
                    Some(event) if event != EngineEvent::Stopped => self.event(&mut end, &event),
                    _ => {
                        end.has_stopped = true;
                        if let Some(fleet) = self.fleet.as_ref().filter(|_| end.ladder.ending().is_none() && open) {
                            fleet.stop(FarStop::Graceful);
                        }
                    }
                },
                // After the events, so that those are heard of before.
                Some(question) = self.hearing.recv() => {
                    let _ = question.send(());
                }
                () = next(&mut self.fleet) => self.fleet_event(&mut end),
                Some((recipient, program)) = self.changes.recv() => {
                    if let Some(fleet) = &self.fleet {
                        fleet.hand(recipient, program);
                    }
                }
            }
        }
        // A graph that has converged has been reported; it only remains to hear it.
        if starting && matches!(end.cause, Some(Ending::Converged | Ending::Quiet | Ending::Requested(_))) {
            let _ = tokio::time::timeout(LAST_WORDS, start).await;
        }
        mgmt_sys::memory::last_moment();
        let following = following.stop();
        if let Some(watched) = watched {
            watched.abort();
        }
        // The engine's thread is at its end; this only takes its last words.
        let summary = tokio::task::block_in_place(|| self.engine.wait());
        following.wait(LAST_WORDS).await;
        match refused {
            Some(failure) => Err(failure),
            None => {
                let ending = end.ending();
                if ending == Ending::Broken {
                    tracing::error!(
                        "the engine ended although nobody asked it to; this is a mistake in mgmt"
                    );
                }
                Ok(Outcome { ending, summary, fleet: self.fleet })
            }
        }
    }

    /// Has everything attempted again that has failed, whether a file has changed or not.
    fn retry_failed(&self) {
        let engine = Arc::clone(self.engine);
        tokio::spawn(async move {
            if let Ok(count @ 1..) = engine.retry(None).await {
                tracing::info!(
                    "SIGHUP: retrying {count} failed {}",
                    if count == 1 { "resource" } else { "resources" }
                );
            }
        });
    }

    fn signal(&self, end: &mut End, stop: Stop) {
        if let Some(level) = end.ladder.signal(stop, Instant::now()) {
            tracing::info!("{}: {}", stop.name(), super::ladder::describe(level));
            self.stop(level);
        }
    }

    /// Has everything end that belongs to this run.
    fn stop(&self, level: Level) {
        if level == Level::Graceful {
            self.manager.stopping();
        }
        self.engine.stop(level);
        if let Some(fleet) = &self.fleet {
            fleet.stop(match level {
                Level::Graceful => FarStop::Graceful,
                Level::Cancel => FarStop::Cancel,
                Level::Interrupt => FarStop::Interrupt,
            });
        }
    }

    /// The one because of whom this run goes on has something to say.
    fn told(&self, end: &mut End, told: FarTold) {
        match told {
            // All hosts are at rest: this one ends as it is itself.
            FarTold::Stop(FarStop::Converged) if end.cause.is_none() => {
                let is_quiet = matches!(self.rest(end), Some(Rest::Quiet(_)));
                self.end(end, if is_quiet { Ending::Quiet } else { Ending::Converged });
            }
            // It has a ladder of its own.
            FarTold::Stop(_) => self.signal(end, Stop::Interrupt),
            FarTold::Gone => {
                tracing::warn!("the connection to the one who has started this is lost");
                self.signal(end, Stop::Terminate);
            }
        }
    }

    /// Something is different with the hosts.
    fn fleet_event(&self, end: &mut End) {
        let is_done = self.fleet.as_ref().is_some_and(Fleet::is_done);
        if is_done && self.settings.idle && end.cause.is_none() && end.ladder.ending().is_none() {
            tracing::info!("no host runs any more");
            self.end(end, Ending::Graceful);
        }
        self.compare(end);
    }

    /// Ends for a reason of our own. It takes the first rung, so a signal from now on takes the second.
    fn end(&self, end: &mut End, cause: Ending) {
        end.cause = Some(cause);
        if let Some(level) = end.ladder.begin(Instant::now()) {
            if let Some(fleet) =
                self.fleet.as_ref().filter(|_| matches!(cause, Ending::Converged | Ending::Quiet))
            {
                self.manager.stopping();
                fleet.stop(FarStop::Converged);
                self.engine.stop(level);
            } else {
                self.stop(level);
            }
        }
    }

    fn event(&self, end: &mut End, event: &EngineEvent) {
        match event {
            EngineEvent::Converged | EngineEvent::Quiet { .. } | EngineEvent::Diverged => {
                end.is_quiet = *event != EngineEvent::Diverged;
                end.is_converged = *event == EngineEvent::Converged;
                self.feed.rests(match event {
                    EngineEvent::Converged => Resting::Quiet { failed: 0, unwell: 0 },
                    EngineEvent::Quiet { failed, unwell } => {
                        Resting::Quiet { failed: *failed, unwell: *unwell }
                    }
                    _ => Resting::Working,
                });
                self.compare(end);
            }
            // The engine has written a line about it, and reported the state of the resource.
            EngineEvent::Failed { .. } | EngineEvent::Recovered { .. } | EngineEvent::Stopped => {}
        }
    }
}

impl Session<'_> {
    /// How this run is at rest, if it is: converged, or quiet with something failed or outdated. A program that has not been
    /// evaluated yet is under way.
    ///
    /// What the engine has said may be about the graph before, if the program's state is newer. So the report has to agree.
    fn rest(&self, end: &End) -> Option<Rest> {
        let (report, graph) = self.status.report_with_rest();
        // A deploy that is about to be taken is under way as well.
        let starts = report.program == ProgramState::Starting || self.status.takes_newer_deploy(&report);
        if !end.is_quiet || graph == GraphRest::Active || starts {
            return None;
        }
        let is_converged = end.is_converged && graph == GraphRest::Converged;
        let is_well = is_converged && !report.has_failures() && !report.is_outdated();
        Some(if is_well { Rest::Converged } else { Rest::Quiet(report.summary()) })
    }

    /// How all are at rest, if they are: this host, which is at rest like this, and those that belong to this run.
    fn rest_with_hosts(&self, own: Rest) -> Option<Rest> {
        let detailed = self.settings.detailed_exitcode;
        let Some(fleet) = &self.fleet else { return Some(own) };
        match (fleet.rest(detailed), own) {
            (FarRest::Active, _) => None,
            (FarRest::Quiet, Rest::Converged) => Some(Rest::Quiet(fleet.not_converged(detailed))),
            (_, own) => Some(own),
        }
    }

    /// Reports when all are at rest, this host and those that belong to this run, and when they no longer are.
    fn compare(&self, end: &mut End) {
        let rest = self.rest(end);
        if let Some(far) = &self.far {
            far.report_rest(match rest {
                None => FarRest::Active,
                Some(Rest::Quiet(_)) => FarRest::Quiet,
                Some(Rest::Converged) => FarRest::Converged,
            });
        }
        let rest = rest.and_then(|rest| self.rest_with_hosts(rest));
        // Hosts that end because of a signal have not converged by that.
        let is_signalled = end.cause.is_none() && end.ladder.ending().is_some();
        let is_end = self.fleet.is_some() && is_signalled && rest == Some(Rest::Converged);
        if rest == end.rest || is_end {
            return;
        }
        let has_converged = rest == Some(Rest::Converged);
        let before = std::mem::replace(&mut end.rest, rest.clone());
        let Some(after) = self.settings.converge_after else { return };
        match (&before, &rest) {
            (_, Some(Rest::Converged)) => tracing::info!("converged for {} s", after.as_secs()),
            (Some(Rest::Quiet(_)), Some(Rest::Quiet(_))) => {}
            (_, Some(Rest::Quiet(summary))) => {
                tracing::warn!("quiet for {} s, not converged: {summary}", after.as_secs());
            }
            (Some(Rest::Converged), None) => tracing::info!("no longer converged"),
            (_, None) => {}
        }
        if has_converged != (before == Some(Rest::Converged))
            && let Some(file) = &self.status_file
        {
            file.converged(has_converged);
        }
        if rest.is_some() && self.settings.converged_exit && end.cause.is_none() {
            self.end(end, if has_converged { Ending::Converged } else { Ending::Quiet });
        }
    }
}

async fn told(far: &mut Option<Far>) -> FarTold {
    match far {
        // Nobody who could say something is gone without a word.
        Some(far) => match far.told.recv().await {
            Some(told) => told,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn next(fleet: &mut Option<Fleet>) {
    match fleet {
        Some(fleet) => fleet.next().await,
        None => std::future::pending().await,
    }
}

impl End {
    fn ending(&self) -> Ending {
        match (self.cause, self.ladder.ending()) {
            (_, Some(hard @ (Ending::Interrupted | Ending::Terminated))) => hard,
            (Some(cause), _) => cause,
            (None, Some(ending)) => ending,
            (None, None) => Ending::Broken,
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
