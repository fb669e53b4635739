//! Handles to whatever lies at a path, and the attributes that can be changed through them.

use std::fmt::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, chmodat, chownat, fchmod, fchown, fstat};
use rustix::io::Errno;

use crate::error::{Cause, Error, Escaped, Result};
use crate::path::Location;
use crate::stat::{Kind, Stat};
use crate::xattr;

/// Pins one entry of the file system, whatever it is and whoever renames it, without opening it: a FIFO, a device or a
/// symbolic link can be looked at and given to another owner safely.
pub struct Handle {
    fd: OwnedFd,
    stat: Stat,
    location: Location,
    planted: bool,
}

/// Owner, group, permission bits and SELinux label. What is `None` is left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// The owner's number.
    pub owner: Option<u32>,
    /// The group's number.
    pub group: Option<u32>,
    /// Twelve permission bits.
    pub mode: Option<u32>,
    /// The SELinux label without its NUL. Empty means: take the label away.
    pub label: Option<&'a [u8]>,
}

/// Something open that attributes can be read from and written to.
pub trait Node {
    /// The descriptor behind it.
    #[doc(hidden)]
    fn via(&self) -> Via<'_>;
    /// The path it was opened at, for messages.
    #[doc(hidden)]
    fn at(&self) -> Box<[u8]>;
    /// Whether it may be another's file under this name.
    #[doc(hidden)]
    fn may_be_planted(&self) -> bool {
        false
    }
}

/// How attribute calls reach a file.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub enum Via<'a> {
    /// A descriptor that was really opened.
    Open(BorrowedFd<'a>),
    /// An `O_PATH` descriptor; most calls refuse it and go through `/proc/self/fd` instead.
    Pinned(BorrowedFd<'a>),
}

impl Handle {
    pub(crate) fn new(fd: OwnedFd, location: Location, planted: impl Fn(&Stat) -> bool) -> Result<Self> {
        match fstat(&fd).map(Stat::from) {
            Ok(stat) => Ok(Self { fd, stat, location, planted: planted(&stat) }),
            Err(errno) => Err(Error::new("look at", &location, errno)),
        }
    }

    /// What it was when the handle was opened.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// What it is now.
    pub fn current_stat(&self) -> Result<Stat> {
        fstat(&self.fd).map(Stat::from).map_err(|errno| Error::new("look at", &self.location, errno))
    }

    /// Makes the attributes as wanted, changing only what differs, and tells whether anything was changed.
    ///
    /// The setuid and setgid bits of a file go away before its owner changes, and come back only with a declared mode.
    /// A file with several names in a directory that others can write is refused: it may be another's. The permissions
    /// of a symbolic link cannot be changed; asking for it is an error.
    pub fn set_attributes(&self, wanted: &Attributes<'_>) -> Result<bool> {
        apply(self, &self.current_stat()?, wanted)
    }
}

impl Node for Handle {
    fn via(&self) -> Via<'_> {
        Via::Pinned(self.fd.as_fd())
    }

    fn at(&self) -> Box<[u8]> {
        (&self.location).into()
    }

    fn may_be_planted(&self) -> bool {
        self.planted
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", Escaped(self.location.bytes()))
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Changes what differs between `now` and `wanted`, and nothing else, so that a second call changes nothing and raises
/// no event. Tells whether anything was changed.
///
/// The order keeps setuid safe: the setuid and setgid bits of a file go away first, then owner and group change, then
/// the wanted mode is set. A file whose owner changes without a declared mode therefore loses those two bits, as it
/// does when any program changes its owner.
pub(crate) fn apply(node: &impl Node, now: &Stat, wanted: &Attributes<'_>) -> Result<bool> {
    let owner = wanted.owner.filter(|&owner| owner != now.uid);
    let group = wanted.group.filter(|&group| group != now.gid);
    let mut mode = now.mode;
    let mut changed = false;
    if owner.is_some() || group.is_some() {
        if now.kind == Kind::File && mode & 0o6000 != 0 {
            mode &= 0o1777;
            change_mode(node, mode)?;
        }
        change_owner(node, owner, group)?;
        changed = true;
    }
    if let Some(wanted) = wanted.mode
        && wanted != mode
    {
        change_mode(node, wanted)?;
        changed = true;
    }
    if let Some(label) = wanted.label {
        changed |= xattr::ensure_label(node, label)?;
    }
    Ok(changed)
}

pub(crate) fn change_owner(node: &impl Node, owner: Option<u32>, group: Option<u32>) -> Result<()> {
    if node.may_be_planted() {
        return Err(Error::new("change the owner of", node.at(), Cause::MayBePlanted));
    }
    // The all-ones id means "leave alone" to the kernel, so nobody can have it.
    if owner == Some(u32::MAX) || group == Some(u32::MAX) {
        return Err(Error::new("change the owner of", node.at(), Errno::INVAL));
    }
    let (owner, group) = (owner.map(Uid::from_raw), group.map(Gid::from_raw));
    match node.via() {
        Via::Open(fd) => fchown(fd, owner, group),
        Via::Pinned(fd) => chownat(fd, c"", owner, group, AtFlags::EMPTY_PATH),
    }
    .map_err(|errno| Error::new("change the owner of", node.at(), errno))
}

pub(crate) fn change_mode(node: &impl Node, mode: u32) -> Result<()> {
    if node.may_be_planted() {
        return Err(Error::new("change the mode of", node.at(), Cause::MayBePlanted));
    }
    let bits = Mode::from_raw_mode(mode & 0o7777);
    match node.via() {
        Via::Open(fd) => fchmod(fd, bits).map_err(Cause::System),
        Via::Pinned(fd) => chmodat(CWD, proc_path(fd).as_str(), bits, AtFlags::empty()).map_err(proc_cause),
    }
    .map_err(|cause| Error::new("change the mode of", node.at(), cause))
}

/// The name under which an `O_PATH` descriptor can be handed to calls that want a path.
pub(crate) fn proc_path(fd: BorrowedFd<'_>) -> String {
    let mut path = String::with_capacity(32);
    // Writing to a string does not fail.
    let _ = write!(path, "/proc/self/fd/{}", fd.as_raw_fd());
    path
}

/// The descriptor is open, so its entry in `/proc` can only be missing when `/proc` is.
pub(crate) fn proc_cause(errno: Errno) -> Cause {
    if matches!(errno, Errno::NOENT | Errno::NOTDIR) { Cause::NoProc } else { Cause::System(errno) }
}
