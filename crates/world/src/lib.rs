//! State that is shared: today the local store, later the cluster's.
//!
//! The central type is [`Local`]: values, numbers and directories of one host that outlive a run. It is one of the few
//! things that the resources and the functions of a program share. [`Strings`] is what hosts share; with one host alone,
//! the local store keeps them too.
//!
//! ```text
//!   ROOT/value/HASH.json         one value, by key         {"format": 1, "key": …, "type": …, "value": …}
//!   ROOT/string/HASH.json        one shared string, by key, like a value
//!   ROOT/hoststring/HASH.json    the strings of all hosts under one key, as a map from host to string
//!   ROOT/pool/HASH/HASH.json     one number, by name       {"format": 1, "namespace": …, "uid": …, "number": …}
//!   ROOT/vardir/…                directories for others
//! ```
//!
//! Invariants
//! - A key is any bytes. A file is named by a digest of its key, and holds the key itself for whoever reads it.
//! - Files are readable by their owner alone and are replaced in one step: a reader finds the old content or the new,
//!   whenever the process is killed.
//! - A file that cannot be understood is an error that names it. It is neither used nor overwritten.
//! - Memory never runs ahead of the disk: what a call has returned, a later process will find.
//! - Setting a value never waits for those who watch it.
//!
//! Deliberately absent: more than one process per root, expiry, and any notion of who may read what. All calls are
//! plain system calls that block for a short time; only the first look at a key, and changes, reach the disk.

mod bytes;
pub mod cluster;
mod embedded;
mod error;
pub mod etcd;
mod local;
mod pool;
mod record;
pub mod socket;
pub mod store;
mod strings;
mod value;

pub use embedded::Embedded;
pub use error::LocalError;
pub use local::Local;
pub use strings::{Changes, Pending, Scope, Strings, StringsError};
