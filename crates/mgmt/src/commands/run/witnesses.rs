//! Everybody who is told what the engine does.

use std::sync::Arc;

use mgmt_engine::{Health, Ran, Undone, Witness};
use mgmt_history::{Journal, Limits, Recorder};
use mgmt_resource::Id;

use super::prefix::Prefix;
use super::told::Told;
use crate::commands::history;
use crate::metrics::Metrics;

/// Those who count, those who keep, and those who tell others.
pub(super) struct Witnesses {
    pub(super) metrics: Option<Arc<Metrics>>,
    pub(super) recorder: Option<Arc<Recorder>>,
    pub(super) told: Arc<Told>,
}

/// Who keeps what is changed. A history that cannot be written is no reason not to work.
pub(super) fn recorder(prefix: &Prefix) -> Option<Arc<Recorder>> {
    let directory = prefix.path().join(history::DIRECTORY);
    let started = Journal::open(directory, Limits::default()).and_then(Recorder::start);
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
        let Some(recorder) = &self.recorder else {
            if let Some(metrics) = &self.metrics {
                metrics.graph(resources);
            }
            return;
        };
        match &self.metrics {
            None => recorder.graph(resources),
            Some(metrics) => {
                let all: Vec<&Id> = resources.collect();
                metrics.graph(&mut all.iter().copied());
                recorder.graph(&mut all.iter().copied());
            }
        }
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
    }

    fn undone(&self, undone: &Undone<'_>) {
        if let Some(recorder) = &self.recorder {
            recorder.undone(undone);
        }
        self.told.undone(undone);
    }
}
