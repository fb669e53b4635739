//! Workers that serve all resources of one kind.

use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{Background, Cancel, Spec, Stage};

use super::node::specs;
use super::run::CatchUnwind;
use super::{Driver, Message};

/// How long a new graph waits for a worker to be ready.
const PATIENCE: Duration = Duration::from_secs(10);

/// A worker, and how many resources it serves. It is stopped at the end of the swap that leaves none.
pub(super) struct Worker {
    cancel: Cancel,
    serves: usize,
}

fn has_worker(spec: &Spec) -> bool {
    spec.resource.schema().traits.background && !spec.meta.hidden
}

impl Driver {
    /// A resource comes: its kind's worker runs from now on.
    pub(super) fn engage(&mut self, spec: &Spec) {
        for spec in specs(spec).filter(|spec| has_worker(spec)) {
            if let Some(worker) = self.workers.get_mut(spec.id.kind) {
                worker.serves += 1;
                continue;
            }
            let kind = spec.id.kind;
            let cancel = Cancel::default();
            let (work, ready) = Background::new(Arc::clone(&self.host), cancel.clone());
            let work = spec.resource.background(work);
            let inbox = Arc::clone(&self.inbox);
            self.runtime.spawn(async move {
                // One that panics has failed, and whoever it serves waits for it in vain.
                if let Err(error) = CatchUnwind(work).await
                    && !error.is_cancelled()
                {
                    inbox.send(Message::WorkerFailed(kind, error));
                }
            });
            self.workers.insert(kind, Worker { cancel, serves: 1 });
            // Nothing of this kind is watched before its worker is ready, or has ended, or takes too long.
            let told = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, ready).await });
            if told.is_err() {
                tracing::warn!(target: "mgmt::engine", "the worker of kind {kind} is not ready after {PATIENCE:?}");
            }
        }
    }

    /// A resource goes.
    pub(super) fn disengage(&mut self, spec: &Spec) {
        for spec in specs(spec).filter(|spec| has_worker(spec)) {
            if let Some(worker) = self.workers.get_mut(spec.id.kind) {
                worker.serves = worker.serves.saturating_sub(1);
            }
        }
    }

    /// Stops the workers that serve nobody any more.
    pub(super) fn dismiss_workers(&mut self) {
        self.workers.retain(|_, worker| {
            if worker.serves == 0 {
                worker.cancel.raise(Stage::Cancel);
            }
            worker.serves > 0
        });
    }

    /// Stops all workers: the engine ends.
    pub(super) fn dismiss_all_workers(&mut self) {
        for (_, worker) in self.workers.drain() {
            worker.cancel.raise(Stage::Cancel);
        }
    }
}
