//! Preflight checks: whether the kernel would refuse a change, found out without making it.
//!
//! A check that passes promises nothing: a security policy, a quota or another process may still refuse the change.

use std::ops::{Add, Sub};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{
    Access, AtFlags, FsWord, Mode, PROC_SUPER_MAGIC, StatVfsMountFlags, StatxAttributes, StatxFlags,
    accessat, fstat, fstatfs, fstatvfs, statat, statx,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgroups};
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
        check_writable(self.as_fd(), self.path_bytes())
    }

    /// Fails if the entry cannot be replaced or removed: a flag, something mounted on it, or a sticky directory of another user.
    pub fn check_removable(&self, name: &[u8]) -> Result<()> {
        check_removable(self.as_fd(), name, || self.path_of(name))
    }

    /// The same, for an entry that another is renamed over.
    pub fn check_replaceable(&self, name: &[u8]) -> Result<()> {
        match self.check_removable(name) {
            Err(error) if matches!(error.cause(), Cause::MountPoint(_)) => {
                Err(self.error("replace", name, Cause::CannotRenameOver))
            }
            checked => checked,
        }
    }

    /// Fails if the entry can neither be replaced by a file that is renamed over it nor be written to.
    pub fn check_rewritable(&self, name: &[u8]) -> Result<()> {
        if attributes(self.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).intersects(IMMUTABLE) {
            return Err(self.error("write to", name, Errno::PERM));
        }
        if self.check_writable().is_ok() && !is_append_only(self.as_fd()) {
            return Ok(());
        }
        match accessat(self, name, Access::WRITE_OK, AtFlags::EACCESS) {
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => {
                Err(self.error("write to", name, errno))
            }
            _ => Ok(()),
        }
    }

    /// The file system that this directory is on.
    pub fn file_system(&self) -> Option<u64> {
        Some(fstat(self).ok()?.st_dev)
    }

    /// The owner and group of what this process makes here.
    pub fn owner_of_new(&self) -> Result<(u32, u32)> {
        let stat = self.stat()?;
        let inherits = Mode::from_raw_mode(stat.mode).contains(Mode::SGID);
        Ok((geteuid().as_raw(), if inherits { stat.gid } else { getegid().as_raw() }))
    }

    /// Fails if the file system cannot hold one more file of so many bytes, here or below, besides what is planned before it.
    pub fn check_room(&self, path: &[u8], length: u64, planned: Claim) -> Result<()> {
        let Ok(room) = fstatvfs(self) else { return Ok(()) };
        let left = |free: u64, planned: i64| free.saturating_add_signed(planned.saturating_neg());
        if room.f_files > 0 && left(room.f_favail, planned.files) == 0 {
            return Err(Error::new("create", path, Cause::NoInodes));
        }
        // Some blocks are reserved for root.
        let blocks = if geteuid().is_root() { room.f_bfree } else { room.f_bavail };
        let free = left(blocks.saturating_mul(room.f_frsize), planned.bytes);
        match room.f_blocks > 0 && length > free {
            true => Err(Error::new("write", path, Cause::NoRoom { needed: length, free })),
            false => Ok(()),
        }
    }

    /// How many bytes a copy of this file takes here. The copy has the holes of its source, and may share its blocks.
    pub fn length_of_copy(&self, source: &OpenedFile) -> u64 {
        match (fstat(source), fstat(self)) {
            (Ok(from), Ok(to)) => sparse::length_of_copy(&from, &to, self.as_fd()),
            _ => 0,
        }
    }
}

/// How many bytes and files of a file system are planned to be used. Less than nothing: they become free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Bytes of content.
    pub bytes: i64,
    /// Files and directories.
    pub files: i64,
}

impl Add for Claim {
    type Output = Claim;

    fn add(self, other: Claim) -> Claim {
        Claim { bytes: self.bytes.saturating_add(other.bytes), files: self.files.saturating_add(other.files) }
    }
}

impl Sub for Claim {
    type Output = Claim;

    fn sub(self, other: Claim) -> Claim {
        Claim { bytes: self.bytes.saturating_sub(other.bytes), files: self.files.saturating_sub(other.files) }
    }
}

/// Fails if this process may not give something another owner or group. `present`: its owner and group, which it may keep.
pub fn check_owner_changeable(
    path: &[u8],
    present: (u32, u32),
    owner: Option<u32>,
    group: Option<u32>,
) -> Result<()> {
    let is_ours = |group: u32| {
        let groups = getgroups().unwrap_or_default();
        group == getegid().as_raw() || groups.iter().any(|ours| ours.as_raw() == group)
    };
    let is_refused = owner.is_some_and(|owner| owner != present.0)
        || group.is_some_and(|group| group != present.1 && !is_ours(group));
    match is_refused && !has_capability(CapabilitySet::CHOWN) {
        true => Err(Error::new("change the owner or group of", path, Errno::PERM)),
        false => Ok(()),
    }
}

/// Fails if this process may not mount or unmount anything.
pub fn check_may_mount(point: &[u8]) -> Result<()> {
    match has_capability(CapabilitySet::SYS_ADMIN) {
        true => Ok(()),
        false => Err(Error::new("change what is mounted on", point, Errno::PERM)),
    }
}

pub(crate) fn check_writable(directory: BorrowedFd<'_>, path: &[u8]) -> Result<()> {
    // The kernel makes what is there, and nobody else can.
    if fstatfs(directory).is_ok_and(|found| matches!(found.f_type, PROC_SUPER_MAGIC | SYSFS_MAGIC)) {
        return Err(Error::new("write to", path, Errno::PERM));
    }
    match accessat(directory, c".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
        Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(Error::new("write to", path, errno)),
        // Where the kernel cannot tell, the change itself will.
        _ => Ok(()),
    }
}

pub(crate) fn check_removable(
    directory: BorrowedFd<'_>,
    name: &[u8],
    path: impl FnOnce() -> Box<[u8]>,
) -> Result<()> {
    let attributes = attributes(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    let is_kept = || is_append_only(directory) && statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if attributes.intersects(IMMUTABLE) || is_kept_by_sticky_bit(directory, name) || is_kept() {
        return Err(Error::new("replace or remove", path(), Errno::PERM));
    }
    if attributes.contains(StatxAttributes::MOUNT_ROOT) {
        let path = path();
        return Err(Error::new("replace or remove", path.clone(), Cause::MountPoint(path)));
    }
    Ok(())
}

/// Fails if this process may not change the owner or mode of something: a flag, another's file, or a file system that is mounted
/// read-only.
pub fn check_attributes_changeable(node: &impl Node) -> Result<()> {
    let (Via::Open(fd) | Via::Pinned(fd)) = node.via();
    let refused = |errno: Errno| Err(Error::new("change the attributes of", node.at(), errno));
    if fstatvfs(fd).is_ok_and(|room| room.f_flag.contains(StatVfsMountFlags::RDONLY)) {
        return refused(Errno::ROFS);
    }
    let is_foreign = fstat(fd).is_ok_and(|stat| stat.st_uid != geteuid().as_raw())
        && !has_capability(CapabilitySet::FOWNER);
    match is_foreign || attributes(fd, b"", AtFlags::EMPTY_PATH).intersects(IMMUTABLE) {
        true => refused(Errno::PERM),
        false => Ok(()),
    }
}

/// Whether this process has a right that root has.
fn has_capability(capability: CapabilitySet) -> bool {
    // Where the kernel does not tell, the change itself will.
    capabilities(None).map_or(true, |sets| sets.effective.contains(capability))
}

/// Whether entries of a directory can be neither removed nor replaced.
fn is_append_only(directory: BorrowedFd<'_>) -> bool {
    attributes(directory, b"", AtFlags::EMPTY_PATH).contains(StatxAttributes::APPEND)
}

/// Whether the sticky bit of a directory keeps this process from replacing or removing an entry.
fn is_kept_by_sticky_bit(directory: BorrowedFd<'_>, name: &[u8]) -> bool {
    let us = geteuid().as_raw();
    let is_foreign_and_sticky = fstat(directory)
        .is_ok_and(|stat| Mode::from_raw_mode(stat.st_mode).contains(Mode::SVTX) && stat.st_uid != us);
    is_foreign_and_sticky
        && statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| stat.st_uid != us)
        && !has_capability(CapabilitySet::FOWNER)
}

/// The file system below `/sys`.
const SYSFS_MAGIC: FsWord = 0x6265_6572;

/// What can be neither changed nor removed, or only be appended to.
const IMMUTABLE: StatxAttributes = StatxAttributes::IMMUTABLE.union(StatxAttributes::APPEND);

/// The attributes of an entry; none where the kernel does not tell.
fn attributes(fd: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> StatxAttributes {
    let found = statx(fd, name, flags | AtFlags::NO_AUTOMOUNT, StatxFlags::empty());
    found.map_or(StatxAttributes::empty(), |found| found.stx_attributes)
}
