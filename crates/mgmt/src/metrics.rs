//! Numbers about a run, for Prometheus.
//!
//! [`Metrics`] is told by the engine what happens and counts it; whoever asks gets a page (`page`), over a port (`serve`) that is only
//! opened if somebody wants it. The names and labels of the first five are those that upstream documents.
//!
//! Everything that can be counted is on the page from the start, with 0, so that nothing has to appear before it can be
//! asked for.

mod page;
mod serve;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mgmt_engine::{Backlog, Ended, Engine, Health, Ran, SwapReport, Witness};
use mgmt_health::{ClusterState, HostReport};
use mgmt_resource::{Id, Registry};
use mgmt_store::SharedState;
use mgmt_store::Span;
use mgmt_store_etcd::Etcd;
use mgmt_watch::FileHubStats;

pub(crate) use serve::serve;

use crate::commands::members;

/// What is counted.
pub(crate) struct Metrics {
    kinds: Vec<(&'static str, OfKind)>,
    /// Where each kind is.
    places: HashMap<&'static str, usize>,
    /// Resources that are not well.
    ill: Mutex<HashMap<Id, usize>>,
    /// When the present graph has begun, in milliseconds since 1970.
    graph_start: AtomicU64,
    swap: Histogram,
    deploy: AtomicU64,
    started: SystemTime,
    /// Who is looked at when somebody asks.
    looked_at: OnceLock<LookedAt>,
}

/// A report that is being made.
pub(crate) type PendingReport = Pin<Box<dyn Future<Output = HostReport> + Send>>;

struct LookedAt {
    engine: Weak<Engine>,
    world: Arc<SharedState>,
    servers: Option<Etcd>,
    report: Box<dyn Fn() -> PendingReport + Send + Sync>,
}

/// What is found when somebody asks.
#[derive(Default)]
struct Found {
    backlog: Backlog,
    watched: FileHubStats,
    /// How long the store has taken to answer, if it has.
    store: Option<Duration>,
    report: HostReport,
    /// Members of the store: those that run, and those that are gone.
    hosts: [usize; 2],
    /// The state of the store, if it is known.
    cluster: Option<ClusterState>,
    /// Transactions that this host has written.
    writes: u64,
}

/// How long the store has for an answer.
const STORE: Duration = Duration::from_secs(2);

/// What is counted of each kind.
#[derive(Default)]
struct OfKind {
    /// By whether it may change something, whether there was something to change, and whether it has failed.
    checks: [[[AtomicU64; 2]; 2]; 2],
    resources: AtomicU64,
    /// Failed attempts: with a next attempt that is scheduled, and without.
    failures: [AtomicU64; 2],
    /// Attempts that followed a failed one.
    retries: AtomicU64,
    /// From an event to the end of its repair.
    repair: Histogram,
    /// How long runs take.
    run: Histogram,
}

/// How often something took how long.
#[derive(Default)]
struct Histogram {
    /// By the bounds, and beyond the last of them.
    counts: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

/// In seconds.
const BOUNDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

impl Histogram {
    fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let at = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(crate) fn new(registry: Registry) -> Metrics {
        let kinds: Vec<(&'static str, OfKind)> =
            registry.schemas().map(|schema| (schema.kind, OfKind::default())).collect();
        let places = kinds.iter().enumerate().map(|(at, (kind, _))| (*kind, at)).collect();
        Metrics {
            kinds,
            places,
            ill: Mutex::default(),
            graph_start: AtomicU64::new(0),
            swap: Histogram::default(),
            deploy: AtomicU64::new(0),
            started: SystemTime::now(),
            looked_at: OnceLock::new(),
        }
    }

    /// Has these looked at when somebody asks. `servers`: those of the store, if it has any.
    pub(crate) fn look_at(
        &self,
        engine: &Arc<Engine>,
        world: &Arc<SharedState>,
        servers: Option<Etcd>,
        report: impl Fn() -> PendingReport + Send + Sync + 'static,
    ) {
        let (engine, world) = (Arc::downgrade(engine), Arc::clone(world));
        let _ = self.looked_at.set(LookedAt { engine, world, servers, report: Box::new(report) });
    }

    async fn look(&self) -> Found {
        let Some(LookedAt { engine, world, servers, report }) = self.looked_at.get() else {
            return Found::default();
        };
        let began = Instant::now();
        let read = world.store().read(vec![Span::Key("/deploy/newest".to_owned())]);
        let answer = async {
            let answered = matches!(tokio::time::timeout(STORE, read).await, Ok(Ok(_)));
            answered.then(|| began.elapsed())
        };
        let (store, seen) = tokio::join!(answer, look_at_servers(servers.as_ref()));
        let cluster = match (servers, &store) {
            (Some(_), Some(_)) => seen,
            (None, Some(_)) => Some(ClusterState::Healthy),
            (_, None) => Some(ClusterState::Unavailable),
        };
        let engine = engine.upgrade();
        let lost = world.lost().len();
        Found {
            backlog: engine.as_ref().map(|engine| engine.backlog()).unwrap_or_default(),
            watched: engine.as_ref().map(|engine| engine.watched()).unwrap_or_default(),
            store,
            report: report().await,
            hosts: [world.statuses().len(), lost],
            cluster,
            writes: world.writes(),
        }
    }

    /// Another graph runs.
    pub(crate) fn swapped(&self, report: &SwapReport) {
        self.swap.observe(report.took);
    }

    /// The number of the deploy that runs; 0 for none.
    pub(crate) fn deploy(&self, number: u64) {
        self.deploy.store(number, Ordering::Relaxed);
    }

    fn kind(&self, id: &Id) -> Option<&OfKind> {
        self.places.get(id.kind).and_then(|at| self.kinds.get(*at)).map(|(_, kind)| kind)
    }

    fn ill(&self) -> MutexGuard<'_, HashMap<Id, usize>> {
        self.ill.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of the store that its servers have, unless they refuse to say.
async fn look_at_servers(servers: Option<&Etcd>) -> Option<ClusterState> {
    let seen = mgmt_cluster::observe(servers?, STORE).await?;
    Some(ClusterState::of(&members::health(&seen)))
}

impl Witness for Metrics {
    fn graph(&self, resources: &mut dyn Iterator<Item = &Id>) {
        let mut ill = self.ill();
        let mut still = HashMap::new();
        let mut counts = vec![0; self.kinds.len()];
        for id in resources {
            if let Some(count) = self.places.get(id.kind).and_then(|at| counts.get_mut(*at)) {
                *count += 1;
            }
            if let Some((id, health)) = ill.remove_entry(id) {
                still.insert(id, health);
            }
        }
        *ill = still;
        for ((_, kind), count) in self.kinds.iter().zip(counts) {
            kind.resources.store(count, Ordering::Relaxed);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.graph_start.store(u64::try_from(now.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn ran(&self, run: Ran<'_>) {
        let Some(kind) = self.kind(run.id) else { return };
        let (eventful, errorful) = (run.ended == Ended::Changed, run.ended == Ended::Failed);
        let [apply, eventful, errorful] = [run.apply, eventful, errorful].map(usize::from);
        kind.checks[apply][eventful][errorful].fetch_add(1, Ordering::Relaxed);
        kind.run.observe(run.took);
        if self.ill().contains_key(run.id) {
            kind.retries.fetch_add(1, Ordering::Relaxed);
        }
        if let (Ended::Changed, true, Some(since)) = (run.ended, run.apply, run.since) {
            kind.repair.observe(since);
        }
    }

    fn health(&self, id: &Id, health: Health<'_>) {
        let which = match health {
            Health::Ok | Health::Changed | Health::WouldChange | Health::Flapping(_) => {
                self.ill().remove(id);
                return;
            }
            Health::Retrying { .. } => 0,
            Health::Failed { .. } => 1,
        };
        if let Some(kind) = self.kind(id) {
            kind.failures[which].fetch_add(1, Ordering::Relaxed);
        }
        self.ill().insert(id.clone(), which);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

    use super::*;

    fn ran(id: &Id, apply: bool, ended: Ended, since: Option<u64>) -> Ran<'_> {
        static SPEC: std::sync::LazyLock<mgmt_resource::Spec> =
            std::sync::LazyLock::new(|| mgmt_resource::Spec::new("x", mgmt_resources::noop::Noop::default()));
        static NONE: std::sync::LazyLock<Arc<Vec<mgmt_engine::MemberEffects>>> =
            std::sync::LazyLock::new(Arc::default);
        let (took, since) = (Duration::from_millis(3), since.map(Duration::from_millis));
        Ran { id, spec: &SPEC, apply, ended, error: None, took, since, causes: &[], effects: &NONE }
    }

    #[tokio::test]
    async fn what_happens_is_counted() {
        let metrics = Metrics::new(mgmt_resources::KINDS);
        let (file, exec) = (Id::new("file", "/x"), Id::new("exec", "true"));
        metrics.graph(&mut [&file, &exec].into_iter());
        metrics.ran(ran(&file, true, Ended::Changed, Some(4)));
        metrics.ran(ran(&file, true, Ended::Right, None));
        metrics.ran(ran(&exec, false, Ended::Changed, Some(4)));
        metrics.ran(ran(&exec, true, Ended::Failed, None));
        let retrying = Health::Retrying { attempt: 1, wait: Duration::ZERO, error: "no" };
        metrics.health(&exec, retrying);
        metrics.health(&exec, retrying);
        let page = metrics.page().await;
        for line in [
            "mgmt_checkapply_total{kind=\"file\",apply=\"true\",eventful=\"true\",errorful=\"false\"} 1",
            "mgmt_checkapply_total{kind=\"file\",apply=\"true\",eventful=\"false\",errorful=\"false\"} 1",
            "mgmt_checkapply_total{kind=\"exec\",apply=\"false\",eventful=\"true\",errorful=\"false\"} 1",
            "mgmt_checkapply_total{kind=\"exec\",apply=\"true\",eventful=\"false\",errorful=\"true\"} 1",
            "mgmt_checkapply_total{kind=\"pkg\",apply=\"true\",eventful=\"false\",errorful=\"false\"} 0",
            "mgmt_resources{kind=\"file\"} 1",
            "mgmt_resources{kind=\"svc\"} 0",
            "mgmt_failures_total{kind=\"exec\",failure=\"soft\"} 2",
            "mgmt_failures{kind=\"exec\",failure=\"soft\"} 1",
            "mgmt_failures{kind=\"exec\",failure=\"hard\"} 0",
            "mgmt_repair_seconds_count{kind=\"file\"} 1",
            "mgmt_repair_seconds_bucket{kind=\"file\",le=\"0.0025\"} 0",
            "mgmt_repair_seconds_bucket{kind=\"file\",le=\"0.005\"} 1",
            "mgmt_repair_seconds_bucket{kind=\"file\",le=\"+Inf\"} 1",
            "mgmt_repair_seconds_count{kind=\"exec\"} 0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        metrics.health(&exec, Health::Failed { attempt: 3, error: "no" });
        assert!(metrics.page().await.contains("mgmt_failures{kind=\"exec\",failure=\"hard\"} 1"));
        assert!(metrics.page().await.contains("mgmt_failures{kind=\"exec\",failure=\"soft\"} 0"));
        // With the resource goes its failure.
        metrics.graph(&mut std::iter::once(&file));
        assert!(metrics.page().await.contains("mgmt_failures{kind=\"exec\",failure=\"hard\"} 0"));
        assert!(metrics.page().await.contains("mgmt_resources{kind=\"exec\"} 0"));
    }
}
