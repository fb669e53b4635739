//! What one run of check and apply gets to see.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use mgmt_value::{Str, Value};
use tokio::sync::Notify;

use crate::schema::Fields;
use crate::{Effect, Effects, Error, Foreseen, Host, Id, Meta, Needed, Resource, Result};

/// One run of a resource.
pub struct Context<'a> {
    /// Who runs.
    pub id: &'a Id,
    /// Its metaparameters.
    pub meta: &'a Meta,
    /// Change things. When false, only look, and report what would change.
    pub apply: bool,
    /// Something before us with a notifying edge has changed.
    pub refresh: bool,
    /// The parameters that come from others.
    pub received: &'a [Received],
    /// Stops the run.
    pub cancel: &'a Cancel,
    /// The program around us.
    pub host: &'a Host,
    /// The members of the group, for kinds that serve a group with one call.
    pub children: &'a [Child<'a>],
    /// What was sent.
    pub sent: Option<Sent>,
    /// Start the interval watch from now.
    pub rearm: bool,
    /// What was described.
    pub effects: Effects,
    /// A plan is made: what the resources before this one will have done.
    pub foreseen: Option<&'a Foreseen>,
}

/// What a resource has published: names of the schema's `sends`, and values.
pub type Sent = Arc<[(&'static str, Value)]>;

/// A parameter that comes from another resource.
#[derive(Clone, Debug)]
pub struct Received {
    /// The parameter.
    pub field: &'static str,
    /// It has changed since the last run that succeeded.
    pub changed: bool,
}

/// A member of a group that is served by one call.
#[derive(Debug)]
pub struct Child<'a> {
    /// Its name.
    pub id: &'a Id,
    /// Its parameters as they are now.
    pub resource: &'a dyn Resource,
    /// Its received parameters.
    pub received: &'a [Received],
}

impl<'a> Context<'a> {
    /// Publishes values for others to receive. To be called on every run that does not fail.
    pub fn send<S: Fields>(&mut self, values: &S) {
        self.sent = Some(S::FIELDS.iter().map(|field| (field.name, (field.get)(values))).collect());
    }

    /// Says what this run changes, or would change. To be called where that is decided, whether it may be done or not.
    pub fn describe(&self, effect: Effect) {
        self.effects.push(effect);
    }

    /// The same for what is tried several times: what an attempt before has said of it is taken back.
    pub fn effects_of_attempt(&self, effect: Effect) {
        self.effects.replace(effect);
    }

    /// The content that a file will have once the resources before this one have run: only known while a plan is made.
    pub fn foreseen_file(&self, path: &[u8]) -> Option<Option<&[u8]>> {
        self.foreseen.and_then(|foreseen| foreseen.file(path))
    }

    /// Whether something that is missing now may be there when a run needs it. When only looking, whatever makes it in earnest
    /// has not made it: a plan knows what would, a run that only looks assumes it.
    pub fn may_come(&self, needed: Needed<'_>) -> bool {
        !self.apply
            && self.foreseen.is_none_or(|foreseen| self.effects.bring(needed) || foreseen.may_come(needed))
    }

    /// Whether a received parameter has changed since the last run that succeeded.
    pub fn received_change(&self, field: &str) -> bool {
        self.received.iter().any(|received| received.field == field && received.changed)
    }

    /// Shows the other resources of this kind in the running graph. The kind must have the trait `query`.
    pub fn others(&self, mut show: impl FnMut(&Id, &dyn Resource)) {
        // A poisoned lock means that another reader panicked; the view itself is replaced whole.
        let view = self.host.view.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let Some(view) = view else { return };
        view.each(&mut |id, resource| {
            if id.kind == self.id.kind && id != self.id && resource.schema().traits.query {
                show(id, resource);
            }
        });
    }

    /// Shows the paths that other resources of the running graph make, edit or read, of whatever kind they are. To be asked before
    /// anything is removed because nobody manages it. False if the graph is incomplete: what it does not claim may be declared.
    #[must_use]
    pub fn claimed_paths(&self, mut show: impl FnMut(&Str)) -> bool {
        let view = self.host.view.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let Some(view) = view else {
            return !self.host.incomplete.load(std::sync::atomic::Ordering::Acquire);
        };
        view.each(&mut |id, resource| {
            if id != self.id {
                resource.claimed_paths(&id.name).iter().for_each(&mut show);
            }
        })
    }

    /// Another number once the paths of [`Context::claimed_paths`] may be others: the graph may change during a run.
    pub fn claims_version(&self) -> u64 {
        let view = self.host.view.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        view.map_or(0, |view| view.version())
    }

    /// Fails when the run has been asked to stop. For loops of blocking work.
    pub fn checkpoint(&self) -> Result<()> {
        match self.cancel.stage() {
            Stage::Run => Ok(()),
            Stage::Cancel | Stage::Interrupt => Err(Error::Cancelled),
        }
    }

    /// This resource's own directory under the prefix. It survives restarts; it is not created yet.
    pub fn state_directory(&self) -> PathBuf {
        self.host.state.join(state_name(self.id))
    }

    /// Says something to whoever reads the log.
    pub fn info(&self, message: impl std::fmt::Display) {
        tracing::info!(target: "mgmt::resource", resource = %self.id, "{message}");
    }

    /// Warns whoever reads the log.
    pub fn warn(&self, message: impl std::fmt::Display) {
        tracing::warn!(target: "mgmt::resource", resource = %self.id, "{message}");
    }
}

/// The directory name for a resource's state: a digest that cannot collide or overflow, and a readable tail.
pub fn state_name(id: &Id) -> String {
    // FNV-1a, 128 bits: stable over versions, and no secret depends on it.
    let mut digest: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in id.kind.bytes().chain([0]).chain(id.name.iter().copied()) {
        digest = (digest ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let readable: String = id.name.to_text().chars().take(60).map(readable_character).collect();
    format!("{}-{digest:032x}+{readable}", id.kind.replace(':', "_"))
}

fn readable_character(character: char) -> char {
    if character.is_ascii_alphanumeric() || "._".contains(character) { character } else { '-' }
}

/// How far a run has been asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Go on.
    Run,
    /// Stop soon, leaving nothing half done.
    Cancel,
    /// Stop now, whatever it takes.
    Interrupt,
}

/// Tells a run to stop. Only ever climbs.
///
/// Every run of every resource has one, and hardly any is ever raised: it is as small as can be.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Climb>);

#[derive(Debug, Default)]
struct Climb {
    /// A [`Stage`].
    stage: AtomicU8,
    climbed: Notify,
    /// The number of the choice of the cluster that the run depends on; 0 for none.
    choice: AtomicU64,
}

impl Cancel {
    /// The run depends on a choice of the cluster, which has this number until it ends: its commands must not outlive that.
    pub fn depend_on_choice(&self, number: NonZeroU64) {
        self.0.choice.store(number.get(), Ordering::Release);
    }

    /// The choice that the run depends on.
    pub fn choice(&self) -> Option<u64> {
        Some(self.0.choice.load(Ordering::Acquire)).filter(|number| *number != 0)
    }

    /// Climbs to a stage. A lower one than the present is ignored.
    pub fn raise(&self, stage: Stage) {
        if self.0.stage.fetch_max(stage as u8, Ordering::AcqRel) < stage as u8 {
            self.0.climbed.notify_waiters();
        }
    }

    /// The present stage.
    pub fn stage(&self) -> Stage {
        match self.0.stage.load(Ordering::Acquire) {
            0 => Stage::Run,
            1 => Stage::Cancel,
            _ => Stage::Interrupt,
        }
    }

    /// Waits until the run is to stop.
    pub async fn cancelled(&self) {
        self.reached(Stage::Cancel).await;
    }

    /// Waits until the run is to stop at any cost.
    pub async fn interrupted(&self) {
        self.reached(Stage::Interrupt).await;
    }

    async fn reached(&self, stage: Stage) {
        loop {
            // Hears of every climb from now on, so that none is missed between the look and the wait.
            let climbed = self.0.climbed.notified();
            if self.stage() >= stage {
                return;
            }
            climbed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn whoever_waits_for_a_stage_hears_of_it_and_of_none_below() {
        for round in 0..500 {
            let cancel = Cancel::default();
            assert_eq!(cancel.stage(), Stage::Run);
            let wait = |stage: Stage| {
                let cancel = cancel.clone();
                tokio::spawn(async move { cancel.reached(stage).await })
            };
            let hear = async |waiters: Vec<tokio::task::JoinHandle<()>>| {
                for waiter in waiters {
                    tokio::time::timeout(Duration::from_secs(60), waiter).await.unwrap().unwrap();
                }
            };
            let (soon, later) = ([0; 3].map(|_| wait(Stage::Cancel)), [0; 3].map(|_| wait(Stage::Interrupt)));
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            cancel.raise(Stage::Cancel);
            cancel.raise(Stage::Run);
            assert_eq!(cancel.stage(), Stage::Cancel);
            hear(soon.into()).await;
            assert!(!later.iter().any(tokio::task::JoinHandle::is_finished), "too early in round {round}");
            cancel.raise(Stage::Interrupt);
            cancel.raise(Stage::Cancel);
            hear(later.into()).await;
            assert_eq!(cancel.stage(), Stage::Interrupt);
        }
    }
}
