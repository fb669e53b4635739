//! Status reporter: the one place that knows how this run is, and publishes it.
//!
//! The engine, the front-ends and the deploys report single events. A [`Tracker`] keeps the [`HostReport`] that follows from
//! them; the store, the service manager, the log, the metrics and the exit code all read that report.
//!
//! Taking an event costs a lock and constant time. A task publishes: at once when something changes, and then no more often
//! than once per [`PUBLISH_INTERVAL`], so that a burst of events costs a few reports and the last one is always published.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mgmt_engine::{Engine, Health, Rest, SwapReport};
use mgmt_health::{
    DuplicateHost, HostReport, HostState, Instead, OpenValues, ProgramState, RefusedDeploy, ResourceState,
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

/// A new deploy has this time to be taken before the log says that the host is not on it.
const NEWEST_GRACE: Duration = Duration::from_secs(10);

/// A resource that was not reverted for so long after its backoff flaps no longer.
const FLAP_EXPIRY: Duration = Duration::from_secs(300);

/// Reports how this run is.
pub(super) struct Told {
    shared: Arc<Shared>,
    publisher: JoinHandle<()>,
    follower: Option<JoinHandle<()>>,
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
    /// Takes every deploy that is newer than what it runs.
    takes_deploys: bool,
    /// When the newest deploy became another.
    newest_since: Mutex<Option<Instant>>,
}

/// Which deploys a run has to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Following {
    /// None: another run hands over what this one runs.
    Nothing,
    /// Those that are newer than what runs are reported, and not taken.
    Reported,
    /// It takes each of them.
    Taken,
}

impl Told {
    pub(super) fn new(
        world: Arc<SharedState>,
        metrics: Option<Arc<Metrics>>,
        manager: Arc<Manager>,
        recorder: Option<Arc<Recorder>>,
        noop: bool,
        following: Following,
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
            takes_deploys: following == Following::Taken,
            newest_since: Mutex::default(),
        });
        shared.changed.notify_one();
        let publisher = tokio::spawn(Arc::clone(&shared).publish(duplicate));
        let follower = (following != Following::Nothing)
            .then(|| tokio::spawn(Arc::clone(&shared).follow_newest_deploy()));
        Told { shared, publisher, follower }
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

    /// Takes whether the graph is at rest. The engine reports it itself, before it answers that another graph runs, so that no report
    /// has the rest of one graph and the program of the next.
    pub(super) fn rest(&self, rest: Rest) {
        self.shared.change(|tracker| tracker.quiet(rest != Rest::Active, rest == Rest::Converged));
    }

    /// Another graph runs.
    pub(super) fn swapped(&self, report: &SwapReport) {
        if let Some(metrics) = &self.shared.metrics {
            metrics.swapped(report);
        }
    }

    /// Reports that what there is to run now has errors, so that something older runs; or that it has none any more.
    pub(super) fn mistake(&self, mistake: Option<String>) {
        let state = match mistake {
            Some(error) => ProgramState::Invalid { since: now(), error },
            None => ProgramState::Live,
        };
        self.program(state, OpenValues::default());
    }

    /// Reports the program's state, live or what keeps the newest text from running, and the values that have failed or are waited for.
    pub(super) fn program(&self, state: ProgramState, values: OpenValues) {
        self.shared.change(|tracker| tracker.program(state, values));
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
        self.program(ProgramState::Starting, OpenValues::default());
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

    /// The report as it is now, and whether the graph is at rest.
    pub(super) fn report_with_rest(&self) -> (HostReport, Rest) {
        let tracker = self.shared.tracker();
        let rest = match (tracker.is_quiet(), tracker.is_converged()) {
            (_, true) => Rest::Converged,
            (true, false) => Rest::Quiet,
            (false, false) => Rest::Active,
        };
        (tracker.report(), rest)
    }

    /// The report as it is now, with every unhealthy resource and every value in it.
    pub(super) async fn full_report(&self) -> HostReport {
        self.shared.refresh().await;
        self.shared.tracker().full_report()
    }

    /// Whether a newer deploy is about to take the place of what runs.
    pub(super) fn takes_newer_deploy(&self, report: &HostReport) -> bool {
        let is_plan = matches!(report.deploy.instead, Some(Instead::Plan { .. }));
        self.shared.takes_deploys
            && !is_plan
            && report.deploy.refused.is_none()
            && report.deploy.lag().is_some()
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
        if let Some(follower) = &self.follower {
            follower.abort();
        }
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

    /// Follows which deploy is the newest, whether this run takes it or not.
    async fn follow_newest_deploy(self: Arc<Shared>) {
        let mut watch = self.world.watch_deploys();
        loop {
            // The store is being closed.
            let Ok(newest) = self.world.newest_number_when_reachable().await else { return };
            let known = std::mem::replace(&mut self.tracker().deploy().newest, newest);
            if known != newest {
                *self.newest_since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                self.changed.notify_one();
                self.program.send_modify(|count| *count = count.wrapping_add(1));
            }
            if watch.next().await.is_err() {
                return;
            }
        }
    }

    /// The report without a deploy that has just come and is about to be taken: that is nothing to log.
    fn said_of(&self, report: &HostReport) -> HostReport {
        let since = *self.newest_since.lock().unwrap_or_else(PoisonError::into_inner);
        let mut said = report.clone();
        if self.takes_deploys && since.is_some_and(|since| since.elapsed() < NEWEST_GRACE) {
            said.deploy.newest = None;
        }
        said
    }

    /// Publishes every change.
    async fn publish(self: Arc<Shared>, mut duplicate: Option<watch::Receiver<Option<DuplicateHost>>>) {
        let mut last: Option<HostReport> = None;
        let mut said = Said::of(&HostReport::default());
        loop {
            let flaps = last.as_ref().is_some_and(|last| last.counts.flapping > 0);
            let works = last
                .as_ref()
                .is_some_and(|last| last.counts.pending > 0 || (!last.quiet && last.counts.total > 0));
            let lags = last.as_ref().is_some_and(|last| last.deploy.lag().is_some());
            tokio::select! {
                () = self.changed.notified() => {}
                found = another(&mut duplicate) => {
                    say_duplicate(self.world.host().to_text().as_ref(), found.as_ref());
                    self.tracker().duplicate(found);
                }
                () = tokio::time::sleep(FLAP_EXPIRY / 5), if flaps => {}
                // Which resources are still to be checked is not an event.
                () = tokio::time::sleep(PENDING_INTERVAL), if works => {}
                () = tokio::time::sleep(NEWEST_GRACE), if lags => {}
            }
            self.tracker().expire_flapping(now(), FLAP_EXPIRY);
            self.refresh().await;
            let report = self.tracker().report();
            self.say_state(&mut said, &self.said_of(&report));
            if last.as_ref() == Some(&report) {
                continue;
            }
            self.manager.status(&report);
            if let Err(error) = self.world.tell_status(&self.status(&report)) {
                tracing::debug!("{error}");
            }
            let is_failing = report.counts.failing() > 0;
            last = Some(report);
            tokio::time::sleep(if is_failing { PUBLISH_INTERVAL_FAILING } else { PUBLISH_INTERVAL }).await;
        }
    }

    /// Logs and records when the host becomes degraded or stale, when the reason becomes another, and when it has converged after that.
    fn say_state(&self, said: &mut Said, report: &HostReport) {
        let now = Said::of(report);
        let is_bad = matches!(now.state, HostState::Degraded | HostState::Stale);
        let was_bad = matches!(said.state, HostState::Degraded | HostState::Stale);
        if *said == now || !(is_bad || was_bad && now.state == HostState::Converged) {
            return;
        }
        let summary = report.summary();
        if said.state != now.state {
            match is_bad {
                true => tracing::warn!("host is {summary}"),
                false => tracing::info!("host is {summary}"),
            }
        }
        if let Some(recorder) = &self.recorder {
            recorder.host(&self.world.host().to_text(), &summary);
        }
        *said = now;
    }

    /// Asks the engine for what is blocked, pending and changed.
    async fn refresh(&self) {
        let engine = self.engine.get().and_then(Weak::upgrade);
        let blocked = match engine {
            Some(engine) => {
                let stale = self.tracker().stale();
                let asked = tokio::time::timeout(BLOCKED_TIMEOUT, engine.blocked(stale)).await;
                asked.ok().and_then(Result::ok)
            }
            None => Some(mgmt_engine::Blocked::default()),
        };
        // An engine that is busy, or has ended, leaves what was known.
        let Some(blocked) = blocked else { return };
        let listed = blocked.listed.iter().map(|(id, by)| (id.to_string(), by.to_string()));
        let mut tracker = self.tracker();
        tracker.blocked(listed, now());
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
            ProgramState::Waiting { .. } => report
                .values
                .pending
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

/// What was logged and recorded of the host last.
#[derive(PartialEq, Eq)]
struct Said {
    state: HostState,
    program: &'static str,
    refused: Option<Option<u64>>,
    is_duplicate: bool,
}

impl Said {
    fn of(report: &HostReport) -> Said {
        Said {
            state: report.state(),
            program: match report.program.is_outdated() {
                true => report.program.name(),
                false => "",
            },
            refused: report.deploy.refused.as_ref().map(|refused| refused.deploy),
            is_duplicate: report.duplicate.is_some(),
        }
    }
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
