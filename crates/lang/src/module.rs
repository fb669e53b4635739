//! Modules: what an import names, where that is, and how it gets there.
//!
//! [`ImportName`] is what stands between the quotes, [`Entry`] the program argument of the command line. A
//! [`Resolver`] turns both into a [`Location`] and the content of the file; each location carries what the imports of
//! that file need. An [`Embedded`] module comes with the program itself. [`download()`] fetches all modules of a program that come from elsewhere, and writes the [`Lock`].
//!
//! # Invariants
//!
//! - Resolving reads and nothing else. Only [`download()`] runs a program or writes a file.
//! - A downloaded module is plain files: no `.git`, no link that leads out of it. It appears in one step, complete.
//! - If a lock names a module, its content is what the lock says, or it is not used.
//! - Files are read through [`Files`], so that a program may as well be in memory.

mod download;
mod embedded;
mod entry;
mod error;
mod files;
mod git;
mod import_name;
mod install;
mod lock;
mod metadata;
mod resolve;
mod tree;

use std::path::{Component, Path, PathBuf};

pub use download::{
    DownloadError, DownloadOptions, DownloadOutcome, DownloadPlace, DownloadProblem, DownloadProgress,
    Downloaded, DownloadedModule, download,
};
pub use embedded::{EMBEDDED, Embedded, WithEmbedded, is_embedded};
pub use entry::Entry;
pub use error::ResolveError;
pub use files::{Disk, FileEntry, FileKind, Files, MAX_SOURCE, Memory, Mistrusted};
pub use import_name::{BadImport, ImportClass, ImportName};
pub use lock::{BadLock, LOCK_FILE, Lock, LockedModule};
pub use metadata::{Metadata, MetadataNote};
pub use resolve::{Location, Resolver};
pub use tree::tree_hash;

use error::without_password;

/// The shortest form of an absolute path, by its text alone.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    normal
}
