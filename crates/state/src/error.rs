//! Errors of the local state.

use std::path::PathBuf;

/// A failure of the local state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file system said no.
    #[error(transparent)]
    System(#[from] mgmt_sys::Error),
    /// The store's own path cannot be used.
    #[error("the local store cannot be at {}: {reason}", .path.display())]
    Root {
        /// Where it was to be.
        path: PathBuf,
        /// What is wrong with that.
        reason: String,
    },
    /// A file holds something that we did not write, or did not write like this.
    #[error("cannot use the stored file {path}: {reason}; repair it, or remove it to start over")]
    Corrupt {
        /// Which file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file was written by a later version of this program.
    #[error(
        "cannot use the stored file {path}: it has format {format}, and this version reads up to {known}"
    )]
    Newer {
        /// Which file.
        path: String,
        /// Its format.
        format: u64,
        /// The newest format that we know.
        known: u64,
    },
    /// A value that has no stored form.
    #[error("cannot store a value of type {ty} under {key}: {reason}")]
    Unstorable {
        /// The key, for people.
        key: String,
        /// The value's type.
        ty: String,
        /// Why not.
        reason: String,
    },
    /// A directory was asked for by a path that is not a plain relative one.
    #[error("{path:?} is not a directory of the local store: expected a relative path without `..`")]
    Directory {
        /// What was asked for.
        path: PathBuf,
    },
    /// There are no more numbers.
    #[error("the pool {namespace} has given out all its numbers")]
    Exhausted {
        /// The pool, for people.
        namespace: String,
    },
}

/// A result of this crate.
pub type Result<T, E = StateError> = std::result::Result<T, E>;
