//! Everybody who is told what the engine does.

use std::sync::Arc;

use mgmt_engine::{Ended, Health, Ran, Rest, Witness};
use mgmt_history::{Journal, Limits, Recorder};
use mgmt_resource::{Id, Spec};
use mgmt_sys::replace::Durability;

use super::control::Feed;
use super::prefix::Prefix;
use super::progress::Progress;
use super::told::Told;
use crate::commands::{history, plan};
use crate::metrics::Metrics;

/// Those who count, those who keep, and those who tell others.
pub(super) struct Witnesses {
    pub(super) metrics: Option<Arc<Metrics>>,
    pub(super) recorder: Option<Arc<Recorder>>,
    pub(super) told: Arc<Told>,
    pub(super) progress: Arc<Progress>,
    pub(super) feed: Arc<Feed>,
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

/// How texts would be changed by a resource that only looks, as a plan shows it. What Puppet calls sensitive may be in the texts of
/// a manifest's resources, so these are left out.
fn show_differences(run: &Ran<'_>) {
    let specs = std::iter::once(run.spec).chain(&run.spec.children);
    let is_from_puppet =
        |spec: &Spec| spec.origin.as_ref().is_some_and(|origin| origin.file.ends_with(".pp"));
    if specs.into_iter().any(is_from_puppet) {
        return;
    }
    for effect in run.effects.iter().flat_map(|member| &member.effects) {
        let difference = plan::difference(effect).unwrap_or_default();
        for line in difference.lines() {
            tracing::info!(target: "mgmt::engine", resource = %run.id, "{line}");
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
        self.told.graph(&mut all.iter().copied());
    }

    fn began(&self, spec: &Spec, waits: bool) {
        self.progress.began(spec, waits);
    }

    fn over(&self, spec: &Spec, waits: bool, well: bool) {
        self.progress.over(spec, waits, well);
    }

    fn ran(&self, run: Ran<'_>) {
        if !run.apply && run.ended == Ended::Changed {
            show_differences(&run);
        }
        self.feed.ran(&run);
        if let Some(metrics) = &self.metrics {
            metrics.ran(run);
        }
        if let Some(recorder) = &self.recorder {
            recorder.ran(run);
        }
    }

    fn health(&self, id: &Id, health: Health<'_>) {
        if let Some(metrics) = &self.metrics {
            metrics.health(id, health);
        }
        if let Some(recorder) = &self.recorder {
            recorder.health(id, health);
        }
        self.progress.health(id, health);
        self.told.health(id, health);
    }

    fn rest(&self, rest: Rest) {
        self.told.rest(rest);
    }
}
