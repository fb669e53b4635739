//! Somebody who is told what the engine does.

use std::time::Duration;

use mgmt_resource::Id;

/// Is told what the engine does, by the thread of the engine itself: whatever it does with that has to be quick.
pub trait Witness: Send + Sync {
    /// Another graph runs, of these resources.
    fn graph(&self, resources: &mut dyn Iterator<Item = &Id>);

    /// A resource has been looked at, and put right if that was needed and allowed.
    fn ran(&self, run: Ran<'_>);

    /// A resource is well again, or is not.
    fn health(&self, id: &Id, health: Health);
}

/// A run of a resource, with its group if it has one.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'a> {
    /// Which.
    pub id: &'a Id,
    /// It was allowed to change something.
    pub apply: bool,
    /// How it ended.
    pub ended: Ended,
    /// How long it ran.
    pub took: Duration,
    /// How long ago the event came that led to it, if one did.
    pub since: Option<Duration>,
}

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything was right.
    Right,
    /// Something was changed, or would have been.
    Changed,
    /// With an error.
    Failed,
}

/// How a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// Nothing is wrong with it.
    Well,
    /// It has failed, and is tried again.
    Retrying,
    /// It has failed for good.
    Failed,
}
