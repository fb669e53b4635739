//! Directories by handle, and everything that is done to their entries.
//!
//! A path is resolved once, to the handle of its parent. From then on every look and every change names one entry of
//! that handle, so nobody can exchange a directory between two of our calls. No function here follows a symbolic link
//! in the entry itself.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags, fstat, fsync, mkdirat, openat, readlinkat,
    renameat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::geteuid;

use crate::error::{Cause, Error, Escaped, Result};
use crate::file::OpenedFile;
use crate::handle::{Attributes, Handle, Node, Via, apply, change_mode, proc_path};
use crate::mode::default_directory_mode;
use crate::path::{Location, ManagedPath, check_name};
use crate::replace::Expect;
use crate::stat::{Kind, Stat, Timestamp};
use crate::temporary;
use crate::tree::{Limits, list};
use crate::walk::{Missing, REGULAR, open_directory};

/// A directory, held open as the parent of the entries that are looked at and changed through it.
pub struct Parent {
    fd: OwnedFd,
    location: Location,
}

impl Parent {
    /// Opens the directory that contains `path`.
    ///
    /// A symbolic link on the way is followed only when root or we own it and its directory cannot be written by
    /// others (or is sticky). A missing directory is an error for which [`Error::is_parent_missing`] holds.
    pub fn open(path: &ManagedPath) -> Result<Self> {
        Self::open_parent(path, Missing::Report)
    }

    /// Opens the directory that contains `path`, making every missing directory on the way with the default mode.
    pub fn open_or_create(path: &ManagedPath) -> Result<Self> {
        Self::open_parent(path, Missing::Create)
    }

    /// Opens the directory `path` itself, under the same rules; it may be a trusted symbolic link too. Where the last
    /// component must not be a link, open its parent and go [down](Self::open_dir).
    pub fn open_itself(path: &ManagedPath) -> Result<Self> {
        let location = Location::whole(path);
        let fd = open_directory(location.bytes(), Missing::Report)?;
        Ok(Self { fd, location })
    }

    /// Opens the directory `name` in this one. Anything else there, a symbolic link too, is an error.
    pub fn open_dir(&self, name: &[u8]) -> Result<Self> {
        self.check("open", name)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, location: self.location.entry(name) }),
            Err(errno @ (Errno::NOTDIR | Errno::LOOP)) => Err(match self.kind_of(name) {
                Some(kind) => self.error("open", name, Cause::NotADirectory(self.path_of(name), kind)),
                None => self.error("open", name, errno),
            }),
            Err(errno) => Err(self.error("open", name, errno)),
        }
    }

    /// What the directory itself is now.
    pub fn stat(&self) -> Result<Stat> {
        fstat(&self.fd).map(Stat::from).map_err(|errno| Error::new("look at", &self.location, errno))
    }

    /// The path it was opened at, for messages.
    pub fn path_bytes(&self) -> &[u8] {
        self.location.bytes()
    }

    /// What the entry is, or nothing when there is none.
    pub fn lstat_entry(&self, name: &[u8]) -> Result<Option<Stat>> {
        self.check("look at", name)?;
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(raw) => Ok(Some(raw.into())),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.error("look at", name, errno)),
        }
    }

    /// When the entry was last read, as far as the file system takes note of that; nothing when there is none.
    pub fn accessed(&self, name: &[u8]) -> Result<Option<Timestamp>> {
        self.check("look at", name)?;
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(raw) => Ok(Some(Timestamp::accessed(&raw))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.error("look at", name, errno)),
        }
    }

    /// Whether there is an entry of this name, a dangling symbolic link too.
    pub fn exists(&self, name: &[u8]) -> Result<bool> {
        self.lstat_entry(name).map(|stat| stat.is_some())
    }

    /// Opens a regular file for reading. Anything else is refused with its kind, and nothing there can make this hang.
    pub fn open_regular(&self, name: &[u8]) -> Result<OpenedFile> {
        self.check("open", name)?;
        match openat(&self.fd, name, REGULAR, Mode::empty()) {
            Ok(fd) => OpenedFile::new(fd, self.location.entry(name), |stat| self.may_be_planted(stat)),
            // A link gives the first, a socket or a device without driver the others.
            Err(errno @ (Errno::LOOP | Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP)) => {
                Err(match self.kind_of(name) {
                    Some(kind) if kind != Kind::File => {
                        self.error("open", name, Cause::NotARegularFile(kind))
                    }
                    _ => self.error("open", name, errno),
                })
            }
            Err(errno) => Err(self.error("open", name, errno)),
        }
    }

    /// Pins the entry, whatever it is, without opening it.
    pub fn open_entry(&self, name: &[u8]) -> Result<Handle> {
        self.check("look at", name)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Handle::new(fd, self.location.entry(name), |stat| self.may_be_planted(stat)),
            Err(errno) => Err(self.error("look at", name, errno)),
        }
    }

    /// The target of a symbolic link, as it is written in the link.
    pub fn read_link(&self, name: &[u8]) -> Result<Vec<u8>> {
        self.check("read the link", name)?;
        match readlinkat(&self.fd, name, Vec::new()) {
            Ok(target) => Ok(target.into_bytes()),
            Err(Errno::INVAL) => Err(match self.kind_of(name) {
                Some(kind) => self.error("read the link", name, Cause::NotALink(kind)),
                None => self.error("read the link", name, Errno::NOENT),
            }),
            Err(errno) => Err(self.error("read the link", name, errno)),
        }
    }

    /// Makes `name` a symbolic link to `target` in one step: at every moment there is the old entry or the new link.
    ///
    /// With [`Expect::Absent`] nothing is replaced. A directory is never replaced by a link.
    pub fn create_symlink(&self, name: &[u8], target: &[u8], expect: Expect) -> Result<()> {
        self.check("make the link", name)?;
        if let Expect::Absent = expect {
            return match symlinkat(target, &self.fd, name) {
                Ok(()) => Ok(()),
                Err(Errno::EXIST) => Err(self.error("make the link", name, Cause::Raced)),
                Err(errno) => Err(self.error("make the link", name, errno)),
            };
        }
        // Nobody sweeps it up meanwhile.
        let _held = temporary::hold(self, FlockOperation::NonBlockingLockShared);
        let (temporary, ()) = temporary::create(|temporary| symlinkat(target, &self.fd, temporary))
            .map_err(|errno| self.error("make the link", name, errno))?;
        let moved = self.rename_into_place("make the link", &temporary, name, expect);
        if moved.is_err() {
            // Nothing more can be done about it; the first error is the one to tell.
            let _ = unlinkat(&self.fd, &temporary[..], AtFlags::empty());
        }
        moved
    }

    /// Makes a directory with these attributes and opens it. An undeclared mode is the process's default.
    ///
    /// The directory is closed to everyone else until its owner, group and label are right.
    pub fn make_directory(&self, name: &[u8], attributes: &Attributes<'_>) -> Result<Self> {
        self.check("make the directory", name)?;
        mkdirat(&self.fd, name, Mode::RWXU).map_err(|errno| self.error("make the directory", name, errno))?;
        let directory = self.open_dir(name)?;
        let stat = directory.stat()?;
        // Whoever can write here could have put another directory in its place, to have that one given away. One of
        // ours without entries is as good as the one we made.
        if stat.uid != geteuid().as_raw() || list(&directory, &Limits { entries: 0, depth: 0 }).is_err() {
            return Err(self.error("make the directory", name, Cause::Raced));
        }
        let closed = Attributes { mode: None, ..*attributes };
        apply(&directory, &stat, &closed)?;
        // A directory in a setgid directory is born setgid; without a declared mode that is kept.
        let mode = attributes.mode.unwrap_or_else(|| default_directory_mode() | (stat.mode & 0o2000));
        if mode != stat.mode {
            change_mode(&directory, mode)?;
        }
        Ok(directory)
    }

    /// Removes one entry that is not a directory.
    pub fn unlink(&self, name: &[u8]) -> Result<()> {
        self.check("remove", name)?;
        unlinkat(&self.fd, name, AtFlags::empty()).map_err(|errno| self.error("remove", name, errno))
    }

    /// Removes one empty directory.
    pub fn rmdir(&self, name: &[u8]) -> Result<()> {
        self.check("remove", name)?;
        unlinkat(&self.fd, name, AtFlags::REMOVEDIR).map_err(|errno| self.error("remove", name, errno))
    }

    /// Writes the directory itself to disk, so that a renamed or removed entry stays so after a power failure.
    pub fn sync(&self) -> Result<()> {
        let fd = self.reopen()?;
        retry_on_intr(|| fsync(&fd)).map_err(|errno| Error::new("write to disk", &self.location, errno))
    }

    /// Changes the attributes of the directory itself and tells whether anything was changed.
    pub fn set_attributes(&self, wanted: &Attributes<'_>) -> Result<bool> {
        apply(self, &self.stat()?, wanted)
    }

    /// Opens the directory for listing or syncing, which the handle alone does not allow.
    pub(crate) fn reopen(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&self.fd, c".", flags, Mode::empty())
            .map_err(|errno| Error::new("read", &self.location, errno))
    }

    /// Moves the temporary over `name`, after a last look that `name` still is what the caller expects.
    pub(crate) fn rename_into_place(
        &self,
        operation: &'static str,
        temporary: &[u8],
        name: &[u8],
        expect: Expect,
    ) -> Result<()> {
        let moved = match expect {
            Expect::Anything => renameat(&self.fd, temporary, &self.fd, name),
            Expect::Absent => self.rename_to_absent(temporary, name),
            Expect::Same(seen) => {
                if !self.lstat_entry(name)?.is_some_and(|now| now.same_version(&seen)) {
                    return Err(self.error(operation, name, Cause::Raced));
                }
                renameat(&self.fd, temporary, &self.fd, name)
            }
        };
        moved.map_err(|errno| match errno {
            // The target appeared, or someone took our temporary away: nothing was changed, and a second try may work.
            Errno::EXIST if expect == Expect::Absent => self.error(operation, name, Cause::Raced),
            Errno::NOENT => self.error(operation, name, Cause::Raced),
            errno => self.error(operation, name, errno),
        })
    }

    /// Gives a file without a name this one. Fails if it is taken.
    pub(crate) fn link_unnamed(&self, file: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<()> {
        match rustix::fs::linkat(file, c"", &self.fd, name, AtFlags::EMPTY_PATH) {
            // Without the privilege for it the kernel pretends that nothing is there.
            Err(Errno::NOENT) => {
                let source = proc_path(file);
                rustix::fs::linkat(CWD, source.as_str(), &self.fd, name, AtFlags::SYMLINK_FOLLOW)
            }
            linked => linked,
        }
    }

    fn open_parent(path: &ManagedPath, missing: Missing) -> Result<Self> {
        let Some(location) = Location::parent_of(path) else {
            return Err(Error::new("open the parent of", path.as_bytes(), Cause::IsRoot));
        };
        let fd = open_directory(location.bytes(), missing)?;
        Ok(Self { fd, location })
    }

    fn rename_to_absent(&self, temporary: &[u8], name: &[u8]) -> rustix::io::Result<()> {
        match renameat_with(&self.fd, temporary, &self.fd, name, RenameFlags::NOREPLACE) {
            // Some file systems cannot do it; a hard link cannot replace either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rustix::fs::linkat(&self.fd, temporary, &self.fd, name, AtFlags::empty())?;
                unlinkat(&self.fd, temporary, AtFlags::empty())
            }
            done => done,
        }
    }

    /// Whether someone other than root and us could have put this file here as another name for a file that is not
    /// theirs. Asked for every file, answered without a call for nearly all of them.
    fn may_be_planted(&self, entry: &Stat) -> bool {
        entry.kind == Kind::File
            && entry.links > 1
            && !self.stat().is_ok_and(|directory| {
                (directory.uid == 0 || directory.uid == geteuid().as_raw()) && directory.mode & 0o022 == 0
            })
    }

    fn kind_of(&self, name: &[u8]) -> Option<Kind> {
        self.lstat_entry(name).ok().flatten().map(|stat| stat.kind)
    }

    pub(crate) fn check(&self, operation: &'static str, name: &[u8]) -> Result<()> {
        check_name(name).map_err(|error| self.error(operation, name, error))
    }

    /// The path of an entry.
    pub fn path_of(&self, name: &[u8]) -> Box<[u8]> {
        (&self.location.entry(name)).into()
    }

    pub(crate) fn error(&self, operation: &'static str, name: &[u8], cause: impl Into<Cause>) -> Error {
        Error::new(operation, self.path_of(name), cause)
    }
}

impl Node for Parent {
    fn via(&self) -> Via<'_> {
        Via::Pinned(self.fd.as_fd())
    }

    fn at(&self) -> Box<[u8]> {
        (&self.location).into()
    }
}

impl fmt::Debug for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parent({})", Escaped(self.location.bytes()))
    }
}

impl AsFd for Parent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
