//! Everybody who is told what the engine does.

use std::sync::Arc;

use mgmt_engine::{Health, Ran, Undone, Witness};
use mgmt_history::{Journal, Limits, Recorder};
use mgmt_resource::{Id, Spec};
use mgmt_sys::replace::Durability;

use super::prefix::Prefix;
use super::progress::Progress;
use super::told::Told;
use crate::commands::history;
use crate::metrics::Metrics;

/// Those who count, those who keep, and those who tell others.
pub(super) struct Witnesses {
    pub(super) metrics: Option<Arc<Metrics>>,
    pub(super) recorder: Option<Arc<Recorder>>,
    pub(super) told: Arc<Told>,
    pub(super) progress: Arc<Progress>,
}

/// Who keeps what is changed. A history that cannot be written is no reason not to work, and one of changes that the disk is not
/// asked to keep is not kept any better than they are.
pub(super) fn recorder(prefix: &Prefix, durability: Durability) -> Option<Arc<Recorder>> {
    let directory = prefix.path().join(history::DIRECTORY);
    let limits = Limits { durable: durability != Durability::None, ..Limits::default() };
    let started = Journal::open(directory, limits).and_then(Recorder::start);
    match started {
        Ok(recorder) => Some(Arc::new(recorder)),
        Err(error) => {
            tracing::warn!("cannot keep a history of changes: {error}");
            None
        }
    }
}

impl Witness for Witnesses {
    fn graph(&self, resources: &mut dyn Iterator<Item = &Id>) {
        let all: Vec<&Id> = resources.collect();
        if let Some(metrics) = &self.metrics {
            metrics.graph(&mut all.iter().copied());
        }
        if let Some(recorder) = &self.recorder {
            recorder.graph(&mut all.iter().copied());
        }
        self.progress.graph(&mut all.iter().copied());
    }

    fn began(&self, spec: &Spec, waits: bool) {
        self.progress.began(spec, waits);
    }

    fn over(&self, spec: &Spec, waits: bool, well: bool) {
        self.progress.over(spec, waits, well);
    }

    fn ran(&self, run: Ran<'_>) {
        if let Some(metrics) = &self.metrics {
            metrics.ran(run);
        }
        if let Some(recorder) = &self.recorder {
            recorder.ran(run);
        }
    }

    fn health(&self, id: &Id, health: Health) {
        if let Some(metrics) = &self.metrics {
            metrics.health(id, health);
        }
        if let Some(recorder) = &self.recorder {
            recorder.health(id, health);
        }
        self.progress.health(id, health);
    }

    fn undone(&self, undone: &Undone<'_>) {
        if let Some(recorder) = &self.recorder {
            recorder.undone(undone);
        }
        self.told.undone(undone);
    }
}
