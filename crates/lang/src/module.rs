//! Modules: what an import names, and where that is.
//!
//! [`ImportName`] is what stands between the quotes, [`Entry`] the program argument of the command line. A
//! [`Resolver`] turns both into a [`Location`] and the content of the file; each location carries what the imports of
//! that file need. An [`Embedded`] module comes with the program itself. The crate `modules` fetches all modules of a program that come from elsewhere, and
//! writes the [`Lock`].
//!
//! # Invariants
//!
//! - Resolving reads and nothing else: it runs no program and writes no file.
//! - If a lock names a module, its content is what the lock says, or it is not used.
//! - Files are read through [`Files`], so that a program may as well be in memory.

mod embedded;
mod entry;
mod error;
mod files;
mod import_name;
mod lock;
mod metadata;
mod resolve;
mod tree;

use std::path::{Component, Path, PathBuf};

pub use embedded::{EMBEDDED, Embedded, WithEmbedded, is_embedded};
pub use entry::Entry;
pub use error::{ResolveError, without_password};
pub use files::{Disk, FileEntry, FileKind, Files, MAX_SOURCE, Memory, Mistrusted};
pub use import_name::{BadImport, ImportClass, ImportName};
pub use lock::{BadLock, LOCK_FILE, Lock, LockedModule, lock_key};
pub use metadata::{Metadata, MetadataNote};
pub use resolve::{Location, Resolver};
pub use tree::{MODULE_RECORD, tree_hash, walk_module};

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
