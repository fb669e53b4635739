//! Persistent state: a host's local state, and the state that hosts share through a key-value store.
//!
//! There are two central types. [`Local`] is the local state: values, numbers and directories that outlive a run. [`World`] is the
//! shared state: strings, exported resources, schedules, deploys, host statuses and member records.
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
//! in `keys.rs`; values are JSON with a version. Two more parts stand beside it: [`cluster`] decides which hosts run a server of
//! etcd, and supervises it; [`Signer`], [`Trust`] and [`Seal`] sign deploys and verify their signatures.
//!
//! ```text
//!   ROOT/value/HASH.json         one local value, by key   {"format": 1, "key": …, "type": …, "value": …}
//!   ROOT/pool/HASH/HASH.json     one number, by name       {"format": 1, "namespace": …, "uid": …, "number": …}
//!   ROOT/vardir/…                directories for others
//! ```
//!
//! Invariants of the world
//! - What is read is what was last heard of the store, and goes on being readable while the store is lost. What is
//!   written waits for the store. Whoever has written something reads it from then on.
//! - A watch is a hint: after every doubt everything is read again and compared.
//! - What this host wants to keep in the store is compared with what is there and made up for, not written once.
//! - Nobody acts on having been the leader: every decision carries the proof that it still is one into the store.
//!
//! Invariants of the local store
//! - A key is any bytes. A file is named by a digest of its key, and holds the key itself for whoever reads it.
//! - Files are readable by their owner alone and are replaced in one step: a reader finds the old content or the new,
//!   whenever the process is killed.
//! - A file that cannot be understood, or whose checksum does not match, is neither used nor overwritten: it is set aside under
//!   another name, and what is lost with it is said. The memory of accepted deploys is the exception: it is an error, because
//!   without it an old deploy could not be told from a new one.
//! - Memory never runs ahead of the disk: what a call has returned, a later process will find.
//! - Setting a value never waits for those who watch it.
//!
//! Deliberately absent there: more than one process per root, expiry, and any notion of who may read what. All calls are
//! plain system calls that block for a short time; only the first look at a key, and changes, reach the disk.

mod agent;
mod boottime;
mod bytes;
pub mod cluster;
mod deploy;
mod embedded;
mod error;
pub mod etcd;
mod exports;
#[doc(hidden)]
pub mod hostile;
mod json;
mod keys;
mod last_deploy;
mod limit;
mod live;
mod local;
mod members;
mod own;
mod pool;
mod record;
mod schedule;
mod seal;
mod session;
pub mod socket;
mod status;
pub mod store;
mod strings;
mod tree;
mod value;
mod wishes;
mod world;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use agent::Agent;
pub use deploy::{Commits, Deploy, DeployError, DeployList, NewestDeploy, Program, UnreadableDeploy};
pub use embedded::Embedded;
pub use error::LocalError;
pub use exports::{EVERYBODY, Exported};
pub use last_deploy::{InstalledFiles, LastDeploy};
pub use local::Local;
pub use members::{ForgetError, MEMBER_EXPIRY, Member};
pub use schedule::{Offer, STOP_GRACE, Strategy};
pub use seal::{KeyError, MAX_CLOCK_AHEAD, PublicKey, Refused, Seal, Signer, SigningKey, Trust};
pub use status::Status;
pub use store::StoreError;
pub use strings::{Changes, Scope};
pub use tree::{Blob, File, Tree};
pub use world::World;

/// A poisoned lock is one whose holder has panicked. No holder leaves anything half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
