//! What other hosts, and the service manager, are told about this run.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use mgmt_engine::SwapReport;
use mgmt_resource::Id;
use mgmt_world::{Status, World};

use super::manager::Manager;
use crate::metrics::Metrics;

/// What other hosts are told about this run. They are told when something changes.
pub(super) struct Told {
    world: Arc<World>,
    metrics: Option<Arc<Metrics>>,
    manager: Arc<Manager>,
    told: Mutex<(Status, HashSet<Id>)>,
}

impl Told {
    pub(super) fn new(world: Arc<World>, metrics: Option<Arc<Metrics>>, manager: Arc<Manager>) -> Told {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let status = Status { version: super::VERSION.to_owned(), since, ..Status::default() };
        let told = Told { world, metrics, manager, told: Mutex::new((status, HashSet::new())) };
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
        self.tell(|status, failed| {
            status.resources = resources as u64;
            failed.clear();
        });
    }

    pub(super) fn failed(&self, id: &Id) {
        self.tell(|_, failed| {
            failed.insert(id.clone());
        });
    }

    pub(super) fn deploy(&self, number: Option<u64>) {
        self.counted(|metrics| metrics.deploy(number.unwrap_or(0)));
        self.tell(|status, _| status.deploy = number);
    }

    fn counted(&self, count: impl FnOnce(&Metrics)) {
        if let Some(metrics) = &self.metrics {
            count(metrics);
        }
    }

    fn tell(&self, change: impl FnOnce(&mut Status, &mut HashSet<Id>)) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let (status, failed) = &mut *told;
        change(status, failed);
        status.failed = failed.len() as u64;
        self.manager.status(status);
        if let Err(error) = self.world.tell_status(status) {
            tracing::debug!("{error}");
        }
    }
}
