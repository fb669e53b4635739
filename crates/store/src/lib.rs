//! Shared state: what the hosts of a cluster share through a key-value store.
//!
//! The central type is [`SharedState`]: strings, exported resources, schedules, deploys, host statuses and member records.
//!
//! ```text
//!   SharedState   strings · exports · schedules · deploys · statuses · members         written once, on top of
//!     │
//!   Store   keys, transactions, watches, leases             which is one of
//!     ├── Embedded   one file, for a host that needs no other
//!     ├── Socket     the store that another process of this host has open
//!     └── etcd       a cluster
//! ```
//!
//! What every store has to do is the trait [`Store`], and the crate `store-suite` tests it, for each of them. The keys are listed in
//! [`keys`]; values are JSON with a version.
//!
//! Invariants
//! - What is read is what was last heard of the store, and goes on being readable while the store is lost. What is
//!   written waits for the store. Whoever has written something reads it from then on.
//! - A watch is a hint: after every doubt everything is read again and compared.
//! - What this host wants to keep in the store is compared with what is there and made up for, not written once.
//! - Nobody acts on having been the leader: every decision carries the proof that it still is one into the store.
//!
//! Deliberately absent: etcd (crate `store-etcd`), who serves it (crate `cluster`), and cryptography: a [`Signature`] is plain data
//! here, and the crate `signing` makes and verifies it.

mod boottime;
mod bytes;
mod cache;
mod deploy;
mod embedded;
mod exports;
#[doc(hidden)]
pub mod fuzz_targets;
mod host_claim;
mod json;
pub mod keys;
mod last_deploy;
mod log_levels;
mod members;
mod rate_limit;
mod reconciler;
mod resource_access;
mod schedule;
mod session;
mod shared_state;
mod signature;
pub mod socket;
mod status;
mod store;
mod strings;
mod tree;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use deploy::{Commits, Deploy, DeployError, DeployList, NewestDeploy, Program, UnreadableDeploy};
pub use embedded::Embedded;
pub use exports::{EVERYBODY, Exported};
pub use host_claim::Agent;
pub use last_deploy::{InstalledFiles, LastDeploy};
pub use members::{ForgetError, MEMBER_EXPIRY, Member};
pub use mgmt_resource::{Offer, STOP_GRACE, Scope, Strategy};
pub use shared_state::SharedState;
pub use signature::{DeploySigner, Signature, SignedContent};
pub use status::Status;
pub use store::{
    Batch, Commit, Condition, Effect, Entry, Lease, LeaseId, Limits, Pending, Snapshot, Span, Store,
    StoreError, Transaction, Watch,
};
pub use strings::Changes;
pub use tree::{Blob, File, Tree};

/// A poisoned lock is one whose holder has panicked. No holder leaves anything half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
