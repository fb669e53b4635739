//! System calls: safe paths, atomic replacement, child processes, netlink.
//!
//! The lowest layer: the one crate that may hold unsafe code (little, in [`memory`] and for the descriptors of [`process`]) and the
//! only way to change the file system. Its parts share nothing:
//!
//! - **Files.** A path from anywhere becomes a [`ManagedPath`] once; it is resolved once to the
//!   handle of its [`Parent`](dir::Parent), the central type; every look and every change then names one entry of that
//!   handle. [`Replacement`](replace::Replacement) puts new content in place, [`tree`] lists and removes, [`mode`] reads
//!   permission bits, [`mount_table`] mount tables, [`xattr`] labels. All of it blocks; callers put it on a thread where that is fine.
//!   [`preflight`] tells for a plan whether the kernel would refuse a change, [`aside`] renames damaged state files, and [`made`]
//!   tracks what a thread creates. [`trusted`] reads what functions of a program ask for, and [`bounded`] does that on threads that
//!   may block.
//! - **Processes.** [`process`] runs and stops children. It needs an async runtime, so it is a feature, which who only reads and
//!   writes files does without.
//! - **Memory.** [`memory`] tells the kernel when much of it is about to be used.
//! - **The kernel's network.** [`netlink`] asks about interfaces, addresses and routes, and changes them.
//!
//! ```
//! use mgmt_sys::{dir::Parent, handle::Attributes, path::ManagedPath};
//! use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let motd = scratch.path().join("motd");
//! # let motd = motd.as_os_str().as_encoded_bytes();
//! let path = ManagedPath::new(motd)?;
//! let name = path.file_name().ok_or("not the root")?;
//! let parent = Parent::open(&path)?;
//! let mut new = Replacement::begin(&parent, name, InPlace::Refuse)?;
//! new.write_all(b"hello\n")?;
//! let attributes = Attributes { mode: Some(0o644), ..Attributes::default() };
//! let stat = new.commit(&attributes, Expect::Absent, Durability::Full)?;
//! assert_eq!(stat.mode, 0o644);
//! assert!(parent.open_regular(name)?.equals(b"hello\n")?);
//! # Ok(())
//! # }
//! ```
//!
//! Invariants of the part for files:
//!
//! - Paths and names are bytes. Nothing assumes UTF-8, and nothing prints them unescaped.
//! - The last component is never followed if it is a symbolic link, except to
//!   [read content from it](file::OpenedFile::open_trusted). A link before it is followed only if root or we made it
//!   where nobody else could exchange it.
//! - Nothing planted at a path can make a call hang: files are opened without blocking and refused unless regular.
//! - A file is replaced, never written through a name that may have others (see [`replace`] for the one exception).
//! - No temporary is ever more open than the file it becomes.
//! - Setuid is safe by order: the bit is cleared, then the owner changes, then the mode is set.
//! - Every walk is bounded and none recurses.
//!
//! Deliberately absent: any function that takes a plain path and changes what is there; following links on request;
//! async; caching of handles or of facts about files; resolution of user and group names.

pub mod aside;
pub mod bounded;
pub mod dir;
pub mod error;
pub mod file;
pub mod handle;
mod helper;
pub mod made;
pub mod memory;
pub mod mode;
pub mod mount_table;
pub mod netlink;
pub mod path;
pub mod preflight;
#[cfg(feature = "process")]
pub mod process;
pub mod replace;
pub mod stat;
pub mod tree;
pub mod trusted;
pub mod xattr;

mod carry;
mod sparse;
mod temporary;
mod walk;

pub use error::{Error, Result};
pub use helper::Helper;
pub use path::ManagedPath;
pub use stat::{Kind, Stat};
