//! Status reporter: the one place that knows how this run is, and publishes it.
//!
//! The engine, the front-ends and the deploys report single events. A [`Tracker`] keeps the [`HostReport`] that follows from
//! them; the store, the service manager, the log, the metrics and the exit code all read that report.
//!
//! Taking an event costs a lock and constant time. A task publishes: at once when something changes, and then no more often
//! than once per [`PUBLISH_INTERVAL`], so that a burst of events costs a few reports and the last one is always published.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgmt_engine::{Engine, Health, SwapReport};
use mgmt_health::{
    DuplicateHost, HostReport, HostState, Instead, MAX_LISTED, ProgramState, RefusedDeploy, ResourceState,
    Tracker,
};
use mgmt_history::Recorder;
use mgmt_resource::Id;
use mgmt_store::{SharedState, Status};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::manager::Manager;
use crate::metrics::Metrics;

/// The shortest time between two reports.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(300);

/// The same while something fails: what is blocked is looked for in the whole graph then.
const PUBLISH_INTERVAL_FAILING: Duration = Duration::from_secs(1);

/// How often the resources that are still to be checked are counted while there is something to do.
const PENDING_INTERVAL: Duration = Duration::from_secs(1);

/// How long the engine has to say what is blocked.
const BLOCKED_TIMEOUT: Duration = Duration::from_secs(2);

/// A resource that was not reverted for so long after its backoff flaps no longer.
const FLAP_EXPIRY: Duration = Duration::from_secs(300);

/// Reports how this run is.
pub(super) struct Told {
    shared: Arc<Shared>,
    publisher: JoinHandle<()>,
}

struct Shared {
    world: Arc<SharedState>,
    metrics: Option<Arc<Metrics>>,
    manager: Arc<Manager>,
    recorder: Option<Arc<Recorder>>,
    engine: OnceLock<Weak<Engine>>,
    since: u64,
    // Held while an event is taken or a report is made; neither waits for anything.
    tracker: Mutex<Tracker<Id>>,
    changed: Notify,
    /// Counts the changes of the program's and the deploy's state.
    program: watch::Sender<u64>,
}

impl Told {
    pub(super) fn new(
        world: Arc<SharedState>,
        metrics: Option<Arc<Metrics>>,
        manager: Arc<Manager>,
        recorder: Option<Arc<Recorder>>,
        noop: bool,
    ) -> Told {
        let mut tracker = Tracker::default();
        tracker.noop(noop);
        let duplicate = world.watch_duplicate();
        let shared = Arc::new(Shared {
            world,
            metrics,
            manager,
            recorder,
            engine: OnceLock::new(),
            since: now(),
            tracker: Mutex::new(tracker),
            changed: Notify::new(),
            program: watch::Sender::new(0),
        });
        shared.changed.notify_one();
        let publisher = tokio::spawn(Arc::clone(&shared).publish(duplicate));
        Told { shared, publisher }
    }

    /// Has the engine asked for what is blocked.
    pub(super) fn engine(&self, engine: &Arc<Engine>) {
        let _ = self.shared.engine.set(Arc::downgrade(engine));
    }

    /// Takes the resources of another graph.
    pub(super) fn graph(&self, resources: &mut dyn Iterator<Item = &Id>) {
        self.shared.change(|tracker| tracker.graph(resources));
    }

    /// Takes the state of a resource.
    pub(super) fn health(&self, id: &Id, health: Health<'_>) {
        let now = now();
        let state = match health {
            Health::Ok => ResourceState::Ok,
            Health::Changed => ResourceState::Changed,
            Health::WouldChange => ResourceState::WouldChange,
            Health::Retrying { attempt, wait, error } => {
                let next = now.saturating_add(wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
                ResourceState::Retrying { next, attempt, error: error.to_owned() }
            }
            Health::Failed { attempt, error } => ResourceState::Failed { attempt, error: error.to_owned() },
            Health::Flapping(undone) => ResourceState::Flapping {
                by: undone.by.map(ToString::to_string),
                repairs: undone.times,
                backoff_ms: u64::try_from(undone.wait.as_millis()).unwrap_or(u64::MAX),
            },
        };
        self.shared.change(|tracker| tracker.resource(id, state, now));
    }

    /// Takes whether the graph is quiet apart from scheduled retries, and whether every resource in it is in its declared state.
    pub(super) fn quiet(&self, quiet: bool, converged: bool) {
        self.shared.change(|tracker| tracker.quiet(quiet, converged));
    }

    /// Another graph runs.
    pub(super) fn swapped(&self, report: &SwapReport) {
        if let Some(metrics) = &self.shared.metrics {
            metrics.swapped(report);
        }
    }

    /// Reports that what there is to run now has errors, so that something older runs; or that it has none any more.
    pub(super) fn mistake(&self, mistake: Option<String>) {
        self.program(match mistake {
            Some(error) => ProgramState::Invalid { since: now(), error },
            None => ProgramState::Live,
        });
    }

    /// Reports the program's state: live, or what keeps the newest text or some values from running.
    pub(super) fn program(&self, state: ProgramState) {
        self.shared.change(|tracker| tracker.program(state));
        self.shared.program.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Reports that the newest deploy cannot run here, or that it runs again.
    pub(super) fn deploy_refused(&self, refused: Option<RefusedDeploy>) {
        self.shared.change(|tracker| {
            let since = tracker.deploy().refused.as_ref().map(|known| (known.deploy, known.since));
            tracker.deploy().refused = refused.map(|mut refused| {
                refused.error.truncate(mgmt_health::bounded_error(&refused.error).len());
                // Attempts in a row do not renew the time.
                if let Some((_, since)) = since.filter(|(deploy, _)| *deploy == refused.deploy) {
                    refused.since = refused.since.min(since);
                }
                refused
            });
        });
        self.shared.program.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Reports that what runs is the deploy of this number from now on.
    pub(super) fn published(&self, number: u64) {
        self.number(Some(number));
        self.deploy_refused(None);
        self.deploy(Some(number), None);
    }

    /// Has log lines and the history name the deploy.
    fn number(&self, number: Option<u64>) {
        mgmt_telemetry::set_deploy(number);
        if let Some(recorder) = &self.shared.recorder {
            recorder.deploy(number.unwrap_or(0));
        }
    }

    /// The program of a deploy is about to be evaluated: what is done from now on is done because of it. It reports when it has been
    /// evaluated.
    pub(super) fn begin(&self, number: Option<u64>) {
        self.number(number);
        self.program(ProgramState::Starting);
    }

    /// Reports the deploy that runs, or what runs instead.
    pub(super) fn deploy(&self, number: Option<u64>, instead: Option<Instead>) {
        if let Some(metrics) = &self.shared.metrics {
            metrics.deploy(number.unwrap_or(0));
        }
        self.shared.change(|tracker| {
            let deploy = tracker.deploy();
            (deploy.running, deploy.instead) = (number, instead);
        });
        self.shared.program.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The report as it is now, with what was last known to be blocked.
    pub(super) fn report(&self) -> HostReport {
        self.shared.tracker().report()
    }

    /// The report as it is now, for the metrics page.
    pub(super) fn reporter(&self) -> impl Fn() -> crate::metrics::PendingReport + Send + Sync + use<> {
        let shared = Arc::clone(&self.shared);
        move || {
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                shared.refresh().await;
                shared.tracker().report()
            })
        }
    }

    /// Follows the program's and the deploy's state.
    pub(super) fn program_changes(&self) -> watch::Receiver<u64> {
        self.shared.program.subscribe()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.publisher.abort();
    }
}

impl Shared {
    fn tracker(&self) -> MutexGuard<'_, Tracker<Id>> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Tracker<Id>)) {
        change(&mut self.tracker());
        self.changed.notify_one();
    }

    /// Publishes every change.
    async fn publish(self: Arc<Shared>, mut duplicate: Option<watch::Receiver<Option<DuplicateHost>>>) {
        let mut last: Option<HostReport> = None;
        let mut said = HostState::Working;
        loop {
            let flaps = last.as_ref().is_some_and(|last| last.counts.flapping > 0);
            let works = last
                .as_ref()
                .is_some_and(|last| last.counts.pending > 0 || (!last.quiet && last.counts.total > 0));
            tokio::select! {
                () = self.changed.notified() => {}
                found = another(&mut duplicate) => {
                    say_duplicate(self.world.host().to_text().as_ref(), found.as_ref());
                    self.tracker().duplicate(found);
                }
                () = tokio::time::sleep(FLAP_EXPIRY / 5), if flaps => {}
                // Which resources are still to be checked is not an event.
                () = tokio::time::sleep(PENDING_INTERVAL), if works => {}
            }
            self.tracker().expire_flapping(now(), FLAP_EXPIRY);
            self.refresh().await;
            let report = self.tracker().report();
            if last.as_ref() == Some(&report) {
                continue;
            }
            say_state(&mut said, &report);
            self.manager.status(&report);
            if let Err(error) = self.world.tell_status(&self.status(&report)) {
                tracing::debug!("{error}");
            }
            let is_failing = report.counts.failing() > 0;
            last = Some(report);
            tokio::time::sleep(if is_failing { PUBLISH_INTERVAL_FAILING } else { PUBLISH_INTERVAL }).await;
        }
    }

    /// Asks the engine for what is blocked, pending and changed.
    async fn refresh(&self) {
        let engine = self.engine.get().and_then(Weak::upgrade);
        let blocked = match engine {
            Some(engine) => {
                let asked = tokio::time::timeout(BLOCKED_TIMEOUT, engine.blocked(MAX_LISTED)).await;
                asked.ok().and_then(Result::ok)
            }
            None => Some(mgmt_engine::Blocked::default()),
        };
        // An engine that is busy, or has ended, leaves what was known.
        let Some(blocked) = blocked else { return };
        let listed = blocked.listed.iter().map(|(id, by)| (id.to_string(), by.to_string()));
        let mut tracker = self.tracker();
        tracker.blocked(listed, blocked.count as u64, now());
        tracker.pending(blocked.pending as u64);
        tracker.changed(blocked.changed as u64);
    }

    /// The record for the store: the report, and the fields that earlier versions read.
    fn status(&self, report: &HostReport) -> Status {
        let reverted = report.unhealthy.iter().filter_map(|resource| match &resource.state {
            ResourceState::Flapping { by, .. } => {
                let by = by.clone().unwrap_or_else(|| "an external process".to_owned());
                Some((resource.resource.clone(), by))
            }
            _ => None,
        });
        let mistake = match &report.program {
            ProgramState::Stale { error, .. } | ProgramState::Invalid { error, .. } => Some(error.clone()),
            ProgramState::Waiting { values, .. } => values
                .first()
                .map(|value| format!("{}: `{}` has no value yet", value.position, value.expression)),
            ProgramState::Starting | ProgramState::Live => {
                report.deploy.refused.as_ref().map(|refused| refused.error.clone())
            }
        };
        Status {
            version: super::VERSION.to_owned(),
            since: self.since,
            deploy: report.deploy.running,
            converged: report.state() == HostState::Converged,
            resources: report.counts.total,
            failed: report.counts.failing(),
            undone: reverted.collect(),
            mistake,
            report: Some(report.clone()),
        }
    }
}

/// Says when the host becomes degraded or stale, and when it has converged after that.
fn say_state(said: &mut HostState, report: &HostReport) {
    let state = report.state();
    match (*said, state) {
        (before, HostState::Degraded | HostState::Stale) if before != state => {
            tracing::warn!("host is {}", report.summary());
        }
        (HostState::Degraded | HostState::Stale, HostState::Converged) => {
            tracing::info!("host is {}", report.summary());
        }
        _ => return,
    }
    *said = state;
}

/// Waits until another agent with this host name is there, or no longer is.
async fn another(duplicate: &mut Option<watch::Receiver<Option<DuplicateHost>>>) -> Option<DuplicateHost> {
    if let Some(found) = duplicate
        && found.changed().await.is_ok()
    {
        return found.borrow_and_update().clone();
    }
    std::future::pending().await
}

fn say_duplicate(host: &str, duplicate: Option<&DuplicateHost>) {
    match duplicate {
        Some(DuplicateHost { other, stands_back: true, .. }) => tracing::error!(
            "another agent uses the host name {host:?}: {other}; this one manages its host and stores nothing until the other one is gone \
             (hint: give one of them another name with `--hostname`)"
        ),
        Some(DuplicateHost { other, stands_back: false, .. }) => tracing::error!(
            "another agent uses the host name {host:?}: {other}; it stands back \
             (hint: give one of them another name with `--hostname`)"
        ),
        None => tracing::info!("no other agent uses the host name {host:?} any more"),
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
