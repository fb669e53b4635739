//! Failed attempts: kept per vertex until a run succeeds, logged at most once per attempt, reported to the observer.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{Checked, Id, Spec};
use rustc_hash::FxHashSet;

use super::adjust::names;
use super::node::{Reported, specs};
use super::witness::{Cause, Causes, Health, MemberEffects};
use super::{Blocked, Driver, EngineEvent, messages};
use crate::core::{Outcome, Vertex};

/// The last error of a vertex.
pub(super) struct Failure {
    message: String,
    hint: Option<String>,
    causes: String,
    /// The attempt before it failed with the same error.
    repeats: bool,
    /// A log line or a report has been made of it.
    is_reported: bool,
    /// [`EngineEvent::Failed`] was sent.
    pub(super) is_announced: bool,
    attempt: u32,
    of: Of,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// A run.
    Run,
    /// The watch, and no run.
    Watch,
}

/// The seed of the jitter: the same for a host at every start, and different from host to host.
pub(super) fn seed(hostname: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hostname.hash(&mut hasher);
    hasher.finish()
}

/// A duration in a few characters: `0.8s`, `4s`, `280s`.
fn short(wait: Duration) -> String {
    let seconds = wait.as_secs_f64();
    match wait {
        wait if wait.is_zero() => "0s".to_owned(),
        wait if wait < Duration::from_millis(100) => format!("{}ms", wait.as_millis().max(1)),
        wait if wait < Duration::from_secs(10) => {
            format!("{:.1}s", (seconds * 10.0).round() / 10.0).replace(".0s", "s")
        }
        _ => format!("{seconds:.0}s"),
    }
}

impl Driver {
    /// Keeps the error of an attempt. What follows from it is decided by the core, and logged with it.
    pub(super) fn keep_error(
        &mut self,
        vertex: Vertex,
        of: Of,
        message: &str,
        hint: Option<&str>,
        causes: &[Cause],
    ) {
        let earlier = self.failures.remove(&vertex);
        let is_run = earlier.as_ref().is_some_and(|earlier| earlier.of == Of::Run);
        let failure = Failure {
            message: message.to_owned(),
            hint: hint.map(ToOwned::to_owned),
            causes: Causes(causes).to_string(),
            repeats: earlier.as_ref().is_some_and(|earlier| earlier.message == message),
            is_reported: false,
            is_announced: earlier.is_some_and(|earlier| earlier.is_announced),
            attempt: 0,
            of: if is_run { Of::Run } else { of },
        };
        self.failures.insert(vertex, failure);
        self.unreported.push(vertex);
    }

    /// An attempt failed; the next one by time starts after `wait`, or there is none.
    pub(super) fn attempt_failed(&mut self, vertex: Vertex, attempt: u32, wait: Option<Duration>) {
        let Some(node) = self.node(vertex) else { return };
        node.changed = 0;
        let (id, undeclared) = (node.spec.id.clone(), node.spec.meta.retry.is_none());
        let stopping = self.core.stopping().is_some();
        let Some(failure) = self.failures.get_mut(&vertex) else { return };
        failure.is_reported = true;
        failure.attempt = attempt;
        let announce = (wait.is_none() || undeclared) && !std::mem::replace(&mut failure.is_announced, true);
        let Some(failure) = self.failures.get(&vertex) else { return };
        // A long row of equal failures is logged at growing intervals.
        let loud = attempt.is_power_of_two() || !failure.repeats;
        match wait {
            _ if stopping => log(&id, failure, messages::FAILED, String::new(), loud),
            Some(wait) => {
                let next = format!("retrying in {} (attempt {attempt}): ", short(wait));
                log(&id, failure, messages::FAILED, next, loud);
            }
            None => log(&id, failure, messages::FAILED_FOR_GOOD, "failed, not retrying: ".to_owned(), loud),
        }
        let message = failure.message.clone();
        let error = &*message;
        // A group fails as a whole: none of its resources is known to be in its declared state.
        let members: Vec<Id> = self.members(vertex).cloned().collect();
        for member in members {
            self.witnessed(|witness| match wait {
                Some(wait) => witness.health(&member, Health::Retrying { attempt, wait, error }),
                None => witness.health(&member, Health::Failed { attempt, error }),
            });
            self.reported.insert(member, Reported::Failing);
        }
        if announce {
            self.tell(EngineEvent::Failed { id, message });
        }
    }

    /// A run did not take place because the window of the resource is closed, which `words` say. A failed run stays the last one. A
    /// watch that failed has begun again by now.
    pub(super) fn left_alone(&mut self, vertex: Vertex, words: &str) -> Outcome {
        let Some(failure) = self.failures.get(&vertex) else { return Outcome::Right };
        if failure.of == Of::Watch {
            if let Some(spec) = self.node(vertex).map(|node| Arc::clone(&node.spec)) {
                self.succeeded(vertex, &spec, Checked::Right, &[]);
            }
            return Outcome::Right;
        }
        let (attempt, error) = (failure.attempt, format!("{}; {words}", failure.message));
        for id in self.members(vertex) {
            self.witnessed(|witness| witness.health(id, Health::Failed { attempt, error: &error }));
        }
        Outcome::Held
    }

    /// The next attempt starts earlier than was reported.
    pub(super) fn rescheduled(&mut self, vertex: Vertex, wait: Duration) {
        let Some(failure) = self.failures.get(&vertex) else { return };
        let (attempt, error) = (failure.attempt, &*failure.message);
        for id in self.members(vertex) {
            self.witnessed(|witness| witness.health(id, Health::Retrying { attempt, wait, error }));
        }
    }

    /// Logs errors that no attempt follows: of a run that was cancelled, or whose resource is gone.
    pub(super) fn report_unreported(&mut self) {
        for vertex in std::mem::take(&mut self.unreported) {
            let Some(id) = self.id(vertex).cloned() else { continue };
            let Some(failure) = self.failures.get_mut(&vertex) else { continue };
            if !std::mem::replace(&mut failure.is_reported, true) {
                log(&id, failure, messages::FAILED, String::new(), true);
            }
        }
    }

    /// A run succeeded, and changed these members of the vertex, or would have.
    pub(super) fn succeeded(
        &mut self,
        vertex: Vertex,
        spec: &Spec,
        checked: Checked,
        effects: &[MemberEffects],
    ) {
        // Without its watch it is failing, whatever a run finds that had begun before that failed.
        if self.core.is_unwatched(vertex)
            && let Some(failure) = self.failures.get_mut(&vertex)
        {
            failure.of = Of::Watch;
            return;
        }
        let recovered = self.failures.remove(&vertex);
        let Some(node) = self.node(vertex) else { return };
        let is_changed = checked == Checked::Changed;
        let changed = if is_changed && !spec.meta.noop { effects.len().max(1) } else { 0 };
        let was_changed = std::mem::replace(&mut node.changed, changed) > 0;
        if is_changed || was_changed || !self.reported.is_empty() {
            for member in specs(spec).map(|spec| &spec.id) {
                let of_member =
                    is_changed && (effects.is_empty() || effects.iter().any(|effect| effect.id == *member));
                self.report_well(member, of_member, spec.meta.noop, was_changed);
            }
        }
        if let Some(failure) = recovered.filter(|failure| failure.attempt > 0) {
            let attempts = if failure.attempt == 1 { "attempt" } else { "attempts" };
            tracing::info!(target: "mgmt::engine", resource = %spec.id, "recovered after {} failed {attempts}", failure.attempt);
            if failure.is_announced {
                self.tell(EngineEvent::Recovered { id: spec.id.clone() });
            }
        }
    }

    /// Reports a resource after a successful run, if its state is another one.
    fn report_well(&mut self, id: &Id, is_changed: bool, noop: bool, was_changed: bool) {
        let before = self.reported.get(id).copied();
        if is_changed && noop {
            if before != Some(Reported::WouldChange) {
                self.reported.insert(id.clone(), Reported::WouldChange);
                self.witnessed(|witness| witness.health(id, Health::WouldChange));
            }
            return;
        }
        match before {
            // Flapping ends with time, and not with the next repair.
            Some(Reported::Flapping) => return,
            None if is_changed == was_changed => return,
            _ => {}
        }
        self.reported.remove(id);
        self.witnessed(|witness| witness.health(id, if is_changed { Health::Changed } else { Health::Ok }));
    }

    /// Reports the resources of a vertex that is gone, unless they are still declared.
    pub(super) fn report_gone(&mut self, vertex: Vertex) {
        if self.reported.is_empty() {
            return;
        }
        let reported: Vec<Id> =
            self.members(vertex).filter(|id| self.reported.contains_key(*id)).cloned().collect();
        for id in reported.into_iter().filter(|id| !self.is_declared(id)).collect::<Vec<_>>() {
            self.reported.remove(&id);
            self.witnessed(|witness| witness.health(&id, Health::Ok));
        }
    }

    /// Nothing has reverted a flapping resource for a while.
    pub(super) fn calmed(&mut self, vertex: Vertex) {
        for id in self.members(vertex).cloned().collect::<Vec<_>>() {
            if self.reported.get(&id) == Some(&Reported::Flapping) {
                self.reported.remove(&id);
                self.witnessed(|witness| witness.health(&id, Health::Ok));
            }
        }
    }

    /// The resource of a vertex, then those of its group.
    pub(super) fn members(&self, vertex: Vertex) -> impl Iterator<Item = &Id> {
        let node = self.nodes.get(vertex.index()).and_then(Option::as_ref);
        node.into_iter().flat_map(|node| specs(&node.spec)).map(|spec| &spec.id)
    }

    /// The vertex that a resource of the graph is, or is in the group of.
    fn vertex_of_resource(&mut self, id: &Id) -> Option<Vertex> {
        let graph = self.graph.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let names = self.names.get_or_insert_with(|| names(&graph));
        names.get(id).and_then(|node| self.vertex_of.get(node.index()).copied().flatten())
    }

    fn is_declared(&mut self, id: &Id) -> bool {
        self.vertex_of_resource(id).is_some()
    }

    /// Attempts a resource, or all that are failing, once more.
    pub(super) fn retry(&mut self, id: Option<&Id>) -> usize {
        let now = self.now();
        let Some(id) = id else { return self.core.retry(None, now) };
        self.vertex_of_resource(id).map_or(0, |vertex| self.core.retry(Some(vertex), now))
    }

    /// Lists what is blocked, and counts what else has something to do. A group counts as the resources in it.
    pub(super) fn blocked(&self, stale: &HashSet<String>) -> Blocked {
        let standing = self.core.standing();
        let count = |vertices: &[Vertex]| vertices.iter().map(|vertex| self.members(*vertex).count()).sum();
        // A resource has one state, the worst: only one that would change may be blocked instead.
        let is_stale = |id: &Id| !stale.is_empty() && stale.contains(&id.to_string());
        let is_unreported = |id: &&Id| !self.reported.contains_key(*id) && !is_stale(id);
        let may_be_blocked =
            |id: &Id| matches!(self.reported.get(id), None | Some(Reported::WouldChange)) && !is_stale(id);
        let pending = standing.pending.iter().flat_map(|vertex| self.members(*vertex)).filter(is_unreported);
        let unwell: FxHashSet<Vertex> = standing.failing.iter().chain(&standing.pending).copied().collect();
        let blocked_ones: FxHashSet<Vertex> = standing.blocked.iter().map(|(vertex, _)| *vertex).collect();
        let is_well = |vertex: &Vertex| !unwell.contains(vertex) && !blocked_ones.contains(vertex);
        let changed = self.nodes.iter().zip(0..).filter_map(|(node, at)| {
            let vertex = Vertex(at);
            let node = node.as_ref().filter(|node| node.changed > 0 && is_well(&vertex))?;
            Some(node.changed.min(self.members(vertex).filter(is_unreported).count()))
        });
        let blocked = standing.blocked.iter().flat_map(|(vertex, by)| {
            let members = self.members(*vertex).filter(|id| may_be_blocked(id));
            members.filter_map(|id| Some((id.clone(), self.id(*by)?.clone())))
        });
        Blocked {
            listed: blocked.collect(),
            pending: pending.count(),
            changed: changed.sum(),
            failing: count(&standing.failing),
        }
    }
}

fn log(id: &Id, failure: &Failure, message_id: &'static str, what: String, loud: bool) {
    let Failure { message, hint, causes: cause, .. } = failure;
    match (hint, loud) {
        (Some(hint), true) => {
            tracing::error!(target: "mgmt::engine", resource = %id, message_id, %cause, hint, "{what}{message}");
        }
        (None, true) => {
            tracing::error!(target: "mgmt::engine", resource = %id, message_id, %cause, "{what}{message}");
        }
        (_, false) => {
            tracing::debug!(target: "mgmt::engine", resource = %id, message_id, %cause, "{what}{message}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_short() {
        let cases = [
            (0, "0s"),
            (1, "1ms"),
            (64, "64ms"),
            (812, "0.8s"),
            (4000, "4s"),
            (3960, "4s"),
            (279_512, "280s"),
        ];
        for (milliseconds, text) in cases {
            assert_eq!(short(Duration::from_millis(milliseconds)), text);
        }
    }
}
