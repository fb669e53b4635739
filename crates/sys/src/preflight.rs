//! Preflight checks: whether the kernel would refuse a change, found out without making it.
//!
//! A check that passes promises nothing: a security policy, a quota or another process may still refuse the change.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{
    Access, AtFlags, StatVfsMountFlags, StatxAttributes, StatxFlags, accessat, fstat, fstatvfs, statx,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};

use crate::dir::Parent;
use crate::error::{Cause, Error, Result};
use crate::file::OpenedFile;
use crate::handle::{Node, Via};
use crate::sparse;

impl Parent {
    /// Fails if this process may not create, replace or remove entries here: no permission, an immutable flag, or a file system
    /// that is mounted read-only.
    pub fn check_writable(&self) -> Result<()> {
        match accessat(self, c".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => {
                Err(Error::new("write to", self.path_bytes(), errno))
            }
            // Where the kernel cannot tell, the change itself will.
            _ => Ok(()),
        }
    }

    /// Fails if the entry has a flag that keeps it from being replaced or removed.
    pub fn check_not_immutable(&self, name: &[u8]) -> Result<()> {
        match is_immutable(self.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
            true => Err(self.error("replace or remove", name, Errno::PERM)),
            false => Ok(()),
        }
    }

    /// Fails if the file system cannot hold one more file of so many bytes under this name.
    pub fn check_room(&self, name: &[u8], length: u64) -> Result<()> {
        let Ok(room) = fstatvfs(self) else { return Ok(()) };
        if room.f_files > 0 && room.f_favail == 0 {
            return Err(self.error("create", name, Cause::NoInodes));
        }
        // Some blocks are reserved for root.
        let blocks = if geteuid().is_root() { room.f_bfree } else { room.f_bavail };
        let free = blocks.saturating_mul(room.f_frsize);
        match room.f_blocks > 0 && length > free {
            true => Err(self.error("write", name, Cause::NoRoom { needed: length, free })),
            false => Ok(()),
        }
    }

    /// Fails if the file system cannot hold a copy of this file under this name. The copy has the holes of its source.
    pub fn check_room_for(&self, name: &[u8], source: &OpenedFile) -> Result<()> {
        self.check_room(name, 0)?;
        match (fstat(source), fstat(self)) {
            (Ok(from), Ok(to)) => match sparse::missing_room(&from, &to, self.as_fd()) {
                Some(cause) => Err(self.error("write", name, cause)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// Fails if this process may not change the owner or mode of something: a flag, another's file, or a file system that is mounted
/// read-only.
pub fn check_attributes_changeable(node: &impl Node) -> Result<()> {
    let (Via::Open(fd) | Via::Pinned(fd)) = node.via();
    let refused = |errno: Errno| Err(Error::new("change the attributes of", node.at(), errno));
    if fstatvfs(fd).is_ok_and(|room| room.f_flag.contains(StatVfsMountFlags::RDONLY)) {
        return refused(Errno::ROFS);
    }
    let is_foreign = !may_change_any() && fstat(fd).is_ok_and(|stat| stat.st_uid != geteuid().as_raw());
    match is_foreign || is_immutable(fd, b"", AtFlags::EMPTY_PATH) {
        true => refused(Errno::PERM),
        false => Ok(()),
    }
}

/// Whether this process may change the attributes of files that belong to others.
fn may_change_any() -> bool {
    // Where the kernel does not tell, the change itself will.
    capabilities(None).map_or(true, |sets| sets.effective.contains(CapabilitySet::FOWNER))
}

/// Whether an entry can be neither changed nor removed, or only be appended to.
fn is_immutable(fd: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> bool {
    let flagged = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
    statx(fd, name, flags, StatxFlags::empty()).is_ok_and(|found| found.stx_attributes.intersects(flagged))
}
