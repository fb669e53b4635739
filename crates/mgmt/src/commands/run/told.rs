//! What other hosts, and the service manager, are told about this run.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mgmt_engine::{SwapReport, Undone};
use mgmt_history::Recorder;
use mgmt_resource::Id;
use mgmt_world::{Status, World};

use super::manager::Manager;
use crate::metrics::Metrics;

/// What other hosts are told about this run. They are told when something changes.
pub(super) struct Told {
    world: Arc<World>,
    metrics: Option<Arc<Metrics>>,
    manager: Arc<Manager>,
    recorder: Option<Arc<Recorder>>,
    told: Mutex<(Status, Ill)>,
}

/// Resources that are not well.
#[derive(Default)]
struct Ill {
    failed: HashSet<Id>,
    /// Something else undoes them: who, and when that was last seen.
    undone: HashMap<Id, (String, Instant)>,
}

/// What was undone last so long ago is undone no longer.
const FORGOTTEN: Duration = Duration::from_secs(300);

/// The longest text of a mistake. All hosts keep it.
const LONGEST: usize = 1000;

impl Told {
    pub(super) fn new(
        world: Arc<World>,
        metrics: Option<Arc<Metrics>>,
        manager: Arc<Manager>,
        recorder: Option<Arc<Recorder>>,
    ) -> Told {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let status = Status { version: super::VERSION.to_owned(), since, ..Status::default() };
        let told = Told { world, metrics, manager, recorder, told: Mutex::new((status, Ill::default())) };
        told.tell(|_, _| ());
        told
    }

    pub(super) fn converged(&self, converged: bool) {
        self.counted(|metrics| metrics.converged(converged));
        self.tell(|status, _| status.converged = converged);
    }

    /// Another graph runs. Those that had failed get another chance with it.
    pub(super) fn swapped(&self, report: &SwapReport) {
        self.counted(|metrics| metrics.swapped(report));
        let resources = report.vertices + report.grouped;
        self.tell(|status, ill| {
            status.resources = resources as u64;
            ill.failed.clear();
        });
    }

    pub(super) fn failed(&self, id: &Id) {
        self.tell(|_, ill| {
            ill.failed.insert(id.clone());
        });
    }

    /// Something else undoes a resource again and again.
    pub(super) fn undone(&self, undone: &Undone<'_>) {
        let by = undone.by.map_or_else(|| "something outside of mgmt".to_owned(), ToString::to_string);
        self.tell(|_, ill| {
            ill.undone.insert(undone.id.clone(), (by, Instant::now()));
        });
    }

    /// What there is to run now is not right, so that something older runs; or it is again.
    pub(super) fn mistake(&self, mistake: Option<String>) {
        self.tell(|status, _| status.mistake = mistake.map(|text| text.chars().take(LONGEST).collect()));
    }

    pub(super) fn deploy(&self, number: Option<u64>) {
        self.counted(|metrics| metrics.deploy(number.unwrap_or(0)));
        mgmt_telemetry::set_deploy(number);
        if let Some(recorder) = &self.recorder {
            recorder.deploy(number.unwrap_or(0));
        }
        self.tell(|status, _| {
            status.deploy = number;
            status.mistake = None;
        });
    }

    fn counted(&self, count: impl FnOnce(&Metrics)) {
        if let Some(metrics) = &self.metrics {
            count(metrics);
        }
    }

    fn tell(&self, change: impl FnOnce(&mut Status, &mut Ill)) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let (status, ill) = &mut *told;
        change(status, ill);
        ill.undone.retain(|_, (_, seen)| seen.elapsed() < FORGOTTEN);
        status.failed = ill.failed.len() as u64;
        status.undone = ill.undone.iter().map(|(id, (by, _))| (id.to_string(), by.clone())).collect();
        self.manager.status(status);
        if let Err(error) = self.world.tell_status(status) {
            tracing::debug!("{error}");
        }
    }
}
