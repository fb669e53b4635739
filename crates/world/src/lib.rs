//! Shared state: what the hosts of a cluster share through a key-value store.
//!
//! The central type is [`World`]: strings, exported resources, schedules, deploys, host statuses and member records.
//!
//! ```text
//!      World   strings · exports · schedules · deploys · statuses · members         written once, on top of
//!        │
//!      Store   keys, transactions, watches, leases             which is one of
//!        ├── Embedded   one file, for a host that needs no other
//!        ├── Socket     the store that another process of this host has open
//!        └── etcd       a cluster
//! ```
//!
//! All that a store has to do is in [`store`], and there is one suite of tests for all of them. Which keys there are is
//! in `keys.rs`; values are JSON with a version. Beside it, [`cluster`] decides which hosts run an etcd server, and supervises it.
//!
//! Invariants of the world
//! - What is read is what was last heard of the store, and goes on being readable while the store is lost. What is
//!   written waits for the store. Whoever has written something reads it from then on.
//! - A watch is a hint: after every doubt everything is read again and compared.
//! - What this host wants to keep in the store is compared with what is there and made up for, not written once.
//! - Nobody acts on having been the leader: every decision carries the proof that it still is one into the store.

mod agent;
mod boottime;
mod bytes;
pub mod cluster;
mod deploy;
mod embedded;
pub mod etcd;
mod exports;
#[doc(hidden)]
pub mod hostile;
mod json;
mod keys;
mod last_deploy;
mod limit;
mod live;
mod members;
mod own;
mod schedule;
mod session;
mod signature;
pub mod socket;
mod status;
pub mod store;
mod strings;
mod tree;
mod wishes;
mod world;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use agent::Agent;
pub use deploy::{Commits, Deploy, DeployError, DeployList, NewestDeploy, Program, UnreadableDeploy};
pub use embedded::Embedded;
pub use exports::{EVERYBODY, Exported};
pub use last_deploy::{InstalledFiles, LastDeploy};
pub use members::{ForgetError, MEMBER_EXPIRY, Member};
pub use schedule::{Offer, STOP_GRACE, Strategy};
pub use signature::{DeploySigner, Signature, SignedContent};
pub use status::Status;
pub use store::StoreError;
pub use strings::{Changes, Scope};
pub use tree::{Blob, File, Tree};
pub use world::World;

/// A poisoned lock is one whose holder has panicked. No holder leaves anything half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
