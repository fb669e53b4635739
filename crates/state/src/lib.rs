//! Local state: what one host keeps for itself in plain files.
//!
//! The central type is [`LocalState`]: values, numbers and directories that outlive a run. Other crates keep records of their own in
//! the same form: a [`StateDirectory`] holds them, and [`record`] reads and writes each as versioned JSON with a checksum.
//!
//! ```text
//!   ROOT/value/HASH.json         one value, by key         {"format": 1, "key": …, "type": …, "value": …}
//!   ROOT/pool/HASH/HASH.json     one number, by name       {"format": 1, "namespace": …, "uid": …, "number": …}
//!   ROOT/vardir/…                directories for others
//! ```
//!
//! Invariants
//! - A key is any bytes. A file is named by a digest of its key, and holds the key itself for whoever reads it.
//! - Files are readable by their owner alone and are replaced in one step: a reader finds the old content or the new,
//!   whenever the process is killed.
//! - A file that cannot be understood, or whose checksum does not match, is neither used nor overwritten: it is set aside under
//!   another name, and what is lost with it is said. The memory of accepted deploys (crate `signing`) is the exception: it is an
//!   error, because without it an old deploy could not be told from a new one.
//! - Memory never runs ahead of the disk: what a call has returned, a later process will find.
//! - Setting a value never waits for those who watch it.
//!
//! Deliberately absent: more than one process per root, expiry, any notion of who may read what, and everything that hosts share
//! (crate `store`). All calls are plain system calls that block for a short time; only the first look at a key, and changes, reach
//! the disk.

mod error;
mod local_state;
mod number_pool;
pub mod record;
mod values;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use error::{Result, StateError};
pub use local_state::{LocalState, StateDirectory};

/// A poisoned lock is one whose holder has panicked. No holder leaves anything half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
