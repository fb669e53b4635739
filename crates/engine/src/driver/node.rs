//! What the driver keeps of a vertex.

use std::any::Any;
use std::sync::Arc;

use mgmt_resource::{Cancel, Id, Received, Resource, Sent, Spec, Watch};
use mgmt_value::Value;
use mgmt_watch::{SubscriptionId, WatchPath};
use smallvec::SmallVec;
use tokio::task::AbortHandle;

use super::echo::Echo;
use super::reasons::Reasons;
use super::run::Member;

/// A vertex as it runs.
pub(super) struct Node {
    /// The declaration that runs.
    pub(super) spec: Arc<Spec>,
    /// The declaration to become, once the core says so.
    pub(super) next: Option<Arc<Spec>>,
    /// The vertex itself, then the members of its group. Empty while a run has them.
    pub(super) members: SmallVec<[Live; 1]>,
    pub(super) watch: Watching,
    /// Set while it runs.
    pub(super) cancel: Option<Cancel>,
    /// The run's time was up.
    pub(super) timed_out: bool,
    /// A snapshot that can undo it has been taken, or is not wanted.
    pub(super) snapshot_done: bool,
    /// A run that could change something has succeeded.
    pub(super) applied: bool,
    pub(super) echo: Echo,
    /// When the event came that the next run is for, if one did.
    pub(super) stirred: Option<u64>,
    /// Why it runs next. Few vertices have anything to say here.
    pub(super) reasons: Option<Box<Reasons>>,
    /// Why it runs now.
    pub(super) running_for: Option<Box<Reasons>>,
    /// A run has succeeded as it is declared now.
    pub(super) settled: bool,
    /// The number of its resources that the last run changed.
    pub(super) changed: usize,
}

/// The state of a resource that the observer was told last, if it is neither ok nor changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reported {
    WouldChange,
    Failing,
    Flapping,
}

/// A resource as it runs: what it has received, sent and remembers.
pub(super) struct Live {
    /// With received values laid over the declared ones; `None` while nothing was received.
    pub(super) effective: Option<Arc<dyn Resource>>,
    pub(super) received: Vec<Received>,
    pub(super) sent: Option<Sent>,
    pub(super) state: Option<Box<dyn Any + Send>>,
}

/// How a vertex is being watched.
#[derive(Default)]
pub(super) struct Watching {
    pub(super) paths: SmallVec<[SubscriptionId; 1]>,
    pub(super) interval: Option<std::time::Duration>,
    /// Few resources have a source of their own.
    pub(super) streams: Option<Box<[AbortHandle]>>,
}

impl Node {
    pub(super) fn new(spec: Arc<Spec>) -> Node {
        let mut node = Node {
            members: SmallVec::new(),
            spec,
            next: None,
            watch: Watching::default(),
            cancel: None,
            timed_out: false,
            snapshot_done: false,
            applied: false,
            echo: Echo::default(),
            stirred: None,
            reasons: None,
            running_for: None,
            settled: false,
            changed: 0,
        };
        node.reset();
        node
    }

    /// Forgets everything that belonged to an earlier declaration.
    pub(super) fn reset(&mut self) {
        self.members = specs(&self.spec).map(Live::new).collect();
        self.echo = Echo::default();
        self.settled = false;
        let reversible = self.spec.meta.reverse && self.spec.resource.schema().traits.reverse;
        self.snapshot_done = !reversible || self.spec.is_reversal;
    }

    /// Why it runs next, to add to.
    pub(super) fn note(&mut self) -> &mut Reasons {
        self.reasons.get_or_insert_default()
    }

    /// Everything that the vertex depends on, as it is now.
    pub(super) fn watches(&self) -> Vec<Watch> {
        let mut watches = Vec::new();
        for (spec, live) in specs(&self.spec).zip(&self.members) {
            watches.extend(live.resource(spec).watches(&spec.id.name));
        }
        watches
    }

    /// The vertex and the members of its group, with received values laid over the declared ones.
    pub(super) fn resources(&self) -> impl Iterator<Item = (Id, Arc<dyn Resource>)> {
        specs(&self.spec).zip(&self.members).map(|(spec, live)| (spec.id.clone(), live.shared(spec)))
    }

    /// The members for a run. They come back with its result.
    pub(super) fn lend(&mut self) -> Vec<Member> {
        let lend = |(spec, live): (&Spec, &mut Live)| Member {
            effective: live.shared(spec),
            received: live.received.clone(),
            state: live.state.take(),
        };
        specs(&self.spec).zip(&mut self.members).map(lend).collect()
    }

    /// Takes the members back.
    pub(super) fn take_back(&mut self, members: Vec<Member>) {
        for (live, member) in self.members.iter_mut().zip(members) {
            live.state = member.state;
        }
    }

    /// Whether `path` is the one thing that the vertex depends on.
    pub(super) fn watches_only(&self, path: &[u8]) -> bool {
        if self.watch.paths.len() != 1 || self.watch.interval.is_some() || self.watch.streams.is_some() {
            return false;
        }
        matches!(&self.watches()[..], [Watch::Path { path: watched, recursive }]
            if WatchPath::from_bytes(watched, *recursive).is_ok_and(|watched| watched.as_bytes() == path))
    }

    /// The member with this name.
    pub(super) fn position(&self, id: &Id) -> Option<usize> {
        specs(&self.spec).position(|spec| spec.id == *id)
    }
}

/// The resource of a vertex, then those of its group.
pub(super) fn specs(spec: &Spec) -> impl Iterator<Item = &Spec> {
    std::iter::once(spec).chain(&spec.children)
}

impl Live {
    pub(super) fn new(spec: &Spec) -> Live {
        let received = spec.receives.iter().map(|r| Received { field: r.field, changed: false }).collect();
        Live { effective: None, received, sent: None, state: None }
    }

    /// What it brings to its only run.
    pub(super) fn into_member(self, spec: &Spec) -> Member {
        Member { effective: self.shared(spec), received: self.received, state: None }
    }

    fn resource<'a>(&'a self, spec: &'a Spec) -> &'a dyn Resource {
        self.effective.as_deref().unwrap_or(&*spec.resource)
    }

    fn shared(&self, spec: &Spec) -> Arc<dyn Resource> {
        self.effective.clone().unwrap_or_else(|| Arc::clone(&spec.resource))
    }

    /// Lays a received value over the declared one. `Ok(true)`: it is another than before.
    pub(super) fn receive(&mut self, spec: &Spec, index: usize, value: &Value) -> Result<bool, String> {
        let Some(receive) = spec.receives.get(index) else { return Ok(false) };
        let Some(field) = spec.resource.schema().field(receive.field) else { return Ok(false) };
        // "Nothing" unsets what may be unset, and leaves everything else as it was declared.
        let declared;
        let value = match value {
            Value::Nil if !field.optional && (field.ty)() != mgmt_value::Type::Variant => {
                declared = spec.resource.get(field.name).unwrap_or(Value::Nil);
                &declared
            }
            value => value,
        };
        let present = self.resource(spec).get(field.name);
        if present.as_ref() == Some(value) {
            return Ok(false);
        }
        let mut copy = self.resource(spec).boxed_clone();
        if let Some(Err(mismatch)) = copy.set(field.name, value) {
            return Err(format!("cannot receive `{}` from {}: {mismatch}", receive.field, receive.from));
        }
        self.effective = Some(Arc::from(copy));
        if let Some(received) = self.received.get_mut(index) {
            received.changed = true;
        }
        Ok(true)
    }
}
