//! Replacing the content of a file in one step.
//!
//! At every moment, through every crash, the path holds the whole old file or the whole new one. New content is
//! written to a temporary in the same directory, closed to everyone else; owner, group, label and mode are set through
//! its handle; only then is it renamed over the target. If anything fails before, the temporary goes away and the
//! target was never touched.
//!
//! Where nothing is there yet, the new file has no name at all until it is complete, if the file system can do that:
//! nobody can reach it, a killed process leaves nothing behind, and whoever watches the directory hears of one thing.
//!
//! The rename makes a new file out of an old name. Other hard links keep the old content. What is carried over from the
//! old file, unless the caller declares otherwise:
//!
//! - owner, group and the permission bits; but setuid and setgid only while owner and group stay the same, the old file
//!   had no other name, and not together with writable by others;
//! - the SELinux label, the access control list (its mask, user and other entries as the mode says), and all `user.*`
//!   attributes.
//!
//! Not carried over: file capabilities and integrity signatures (`security.capability`, `security.ima`), which vouched
//! for the old content; `trusted.*` attributes; timestamps; inode flags such as append-only.

use std::fmt;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FallocateFlags, FlockOperation, MemfdFlags, Mode, OFlags, fallocate, flock, fstat, fsync,
    ftruncate, memfd_create, openat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr, write};

use crate::carry::{Existing, carry, plan};
use crate::dir::Parent;
use crate::error::{Cause, Error, Escaped, Result};
use crate::file::{CHUNK, OpenedFile};
use crate::handle::{Attributes, Node, Via, apply, change_mode, change_owner};
use crate::made;
use crate::sparse;
use crate::stat::{Kind, Stat};
use crate::temporary::{self, TemporaryName};
use crate::xattr;

pub use crate::temporary::{
    is_fresh_temporary_of_another_program, is_temporary, is_temporary_of_another_program, sweep_temporaries,
};

/// New content for a path, not yet in place. Dropping it leaves everything as it was.
pub struct Replacement<'a> {
    parent: &'a Parent,
    name: &'a [u8],
    staging: OwnedFd,
    state: State,
    in_place: InPlace,
}

/// What the caller believes to be at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Whatever is there is replaced, except a directory.
    Anything,
    /// Nothing is there. If something appears, it stays and the replacement is [raced](Error::is_raced).
    Absent,
    /// This is there. If it was written, replaced or re-labelled since, it stays and the replacement is raced.
    Same(Stat),
}

/// What survives a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// When the call returns, the new file is on disk under its name.
    #[default]
    Full,
    /// The path holds the old or the new content, never a part of it.
    Data,
    /// Left to the file system. Against a killed process all three are the same.
    None,
}

/// What to do about a file that cannot be renamed over, such as one that is bound into a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum InPlace {
    /// Fail.
    #[default]
    Refuse,
    /// Write into the file itself if it has no other name. Readers may see a mixture meanwhile.
    Allow,
}

enum State {
    /// The content is in a file of this name next to the target.
    Temporary(TemporaryName),
    /// The content is in a file without a name on the same file system.
    Unnamed,
    /// The content is in memory, because the directory cannot be written; only writing in place can follow.
    Memory,
    /// In place.
    Done,
}

impl<'a> Replacement<'a> {
    /// Prepares new content for the entry `name`.
    pub fn begin(parent: &'a Parent, name: &'a [u8], in_place: InPlace) -> Result<Self> {
        parent.check("replace", name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let created = temporary::create(|temporary| {
            let staging = openat(parent, temporary, flags, Mode::RUSR | Mode::WUSR)?;
            // A sweep may have caught the file before we could lock it; then it is lost, and another is made. A file
            // system without locks cannot be swept, so there nothing needs the lock either.
            match flock(&staging, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => Err(Errno::EXIST),
                // The sweep may also be over already, and the file without a name.
                Ok(()) if fstat(&staging).is_ok_and(|stat| stat.st_nlink == 0) => Err(Errno::EXIST),
                _ => Ok(staging),
            }
        });
        let (staging, state) = match created {
            Ok((temporary, staging)) => (staging, State::Temporary(temporary)),
            Err(Errno::ROFS | Errno::ACCESS | Errno::PERM) if in_place == InPlace::Allow => {
                let staging = memfd_create(c"mgmt-replacement", MemfdFlags::CLOEXEC)
                    .map_err(|errno| parent.error("replace", name, errno))?;
                (staging, State::Memory)
            }
            Err(errno) => return Err(parent.error("replace", name, errno)),
        };
        Ok(Self { parent, name, staging, state, in_place })
    }

    /// Prepares the content of an entry that is not there, to be committed with [`Expect::Absent`]. Any other
    /// expectation works, and costs a copy.
    ///
    /// `mode` is what the file will probably have in the end. Nobody can reach it before, so it may have it from the
    /// beginning; that spares a call, and whoever watches the directory an event.
    pub fn begin_new(parent: &'a Parent, name: &'a [u8], in_place: InPlace, mode: u32) -> Result<Self> {
        parent.check("replace", name)?;
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match openat(parent, c".", flags, Mode::from_raw_mode(mode & 0o777)) {
            Ok(staging) => Ok(Self { parent, name, staging, state: State::Unnamed, in_place }),
            // Not every file system can do it. Whatever else is wrong, the usual way finds out and says.
            Err(_) => Self::begin(parent, name, in_place),
        }
    }

    /// Where the new content can be read by its name before it is in place. Nothing if it has none; what
    /// [`begin`](Self::begin) has prepared has one, unless the directory cannot be written.
    pub fn staged_path(&self) -> Option<Box<[u8]>> {
        match &self.state {
            State::Temporary(temporary) => Some(self.parent.path_of(temporary)),
            _ => None,
        }
    }

    /// Appends bytes to the new content.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        write_fully(self.staging.as_fd(), bytes).map_err(|errno| self.error(errno))
    }

    /// Appends the whole of another file, sharing its blocks where the file system can.
    pub fn copy_from(&mut self, source: &OpenedFile) -> Result<()> {
        self.copy_from_while(source, || true).map(|_| ())
    }

    /// The same, asking every now and then whether to go on. False if it was not to, and the content is incomplete. Holes stay
    /// holes. What does not fit into the file system is refused before anything is written.
    pub fn copy_from_while(&mut self, source: &OpenedFile, mut go_on: impl FnMut() -> bool) -> Result<bool> {
        self.copy_from_telling(source, |_| go_on())
    }

    /// The same, telling how many bytes of the source are done whenever it asks whether to go on.
    pub fn copy_from_telling(
        &mut self,
        source: &OpenedFile,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> Result<bool> {
        self.check_room(source)?;
        sparse::copy(source.as_fd(), self.staging.as_fd(), &mut go_on).map_err(|errno| self.error(errno))
    }

    /// Refuses a source that has more data than the file system has room for.
    fn check_room(&self, source: &OpenedFile) -> Result<()> {
        let from = fstat(source).map_err(|errno| self.error(errno))?;
        let to = fstat(&self.staging).map_err(|errno| self.error(errno))?;
        match sparse::missing_room(&from, &to, self.staging.as_fd()) {
            Some(cause) => Err(self.error(cause)),
            None => Ok(()),
        }
    }

    /// Appends everything a stream gives, and tells how many bytes that was.
    pub fn copy_from_reader(&mut self, source: &mut dyn Read) -> Result<u64> {
        let mut buffer = vec![0; CHUNK];
        let mut total = 0;
        loop {
            match source.read(&mut buffer) {
                Ok(0) => return Ok(total),
                Ok(length) => {
                    self.write_all(&buffer[..length])?;
                    total += length as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(Cause::Source(error.to_string()))),
            }
        }
    }

    /// Puts the new content in place and tells what is there now.
    ///
    /// Raced ([`Error::is_raced`]) means: nothing was changed, look at the path again.
    pub fn commit(
        mut self,
        declared: &Attributes<'_>,
        expect: Expect,
        durability: Durability,
    ) -> Result<Stat> {
        if let State::Unnamed = self.state {
            if expect == Expect::Absent
                && let Some(placed) = self.link_into_place(declared, durability)?
            {
                return Ok(placed);
            }
            self.take_name()?;
        }
        let existing = Existing::find(self.parent, self.name, expect)?;
        let State::Temporary(temporary) = self.state else {
            return self.write_in_place(declared, expect, durability);
        };
        let staged = self.staged()?;
        if existing.as_ref().is_some_and(|existing| existing.is_mounted_over(&staged)) {
            return self.write_in_place(declared, expect, durability);
        }
        self.dress(existing.as_ref(), &staged, declared)?;
        drop(existing);
        self.store(durability)?;
        match self.parent.rename_into_place("replace", &temporary, self.name, expect) {
            Ok(()) => self.state = State::Done,
            Err(error) if error.errno() == Some(Errno::BUSY) => {
                return self.write_in_place(declared, expect, durability);
            }
            Err(error) => return Err(error),
        }
        let placed = self.staged()?;
        if durability == Durability::Full {
            self.parent.sync()?;
        }
        Ok(placed)
    }

    /// Gives the file without a name its name, once it is complete. Nothing if that cannot be done here.
    fn link_into_place(&mut self, declared: &Attributes<'_>, durability: Durability) -> Result<Option<Stat>> {
        self.dress(None, &self.staged()?, declared)?;
        self.store(durability)?;
        match self.parent.link_unnamed(self.staging.as_fd(), self.name) {
            Ok(()) => self.state = State::Done,
            Err(Errno::EXIST) => return Err(self.error(Cause::Raced)),
            Err(_) => return Ok(None),
        }
        made::note(|| self.parent.path_of(self.name));
        let placed = self.staged()?;
        if durability == Durability::Full {
            self.parent.sync()?;
        }
        Ok(Some(placed))
    }

    /// Goes on with a temporary that has a name, and the same content.
    fn take_name(&mut self) -> Result<()> {
        let named = Self::begin(self.parent, self.name, self.in_place)?;
        let nameless = std::mem::replace(self, named);
        sparse::copy(nameless.staging.as_fd(), self.staging.as_fd(), &mut |_| true)
            .map_err(|errno| self.error(errno))
            .map(|_| ())
    }

    /// Pushes the content to the disk, as hard as is wanted.
    fn store(&self, durability: Durability) -> Result<()> {
        if durability == Durability::None {
            return Ok(());
        }
        retry_on_intr(|| fsync(&self.staging)).map_err(|errno| self.error(errno))
    }

    /// Gives the temporary everything but its name. The mode comes last, so that it is closed until it is complete.
    fn dress(&self, existing: Option<&Existing>, staged: &Stat, declared: &Attributes<'_>) -> Result<()> {
        let planned = plan(existing.map(Existing::stat), declared);
        let owner = planned.owner.filter(|&owner| owner != staged.uid);
        let group = planned.group.filter(|&group| group != staged.gid);
        if owner.is_some() || group.is_some() {
            change_owner(self, owner, group)?;
        }
        if let Some(existing) = existing {
            carry(existing, self, planned.mode, declared.label.is_none())?;
        }
        if let Some(label) = declared.label {
            xattr::ensure_label(self, label)?;
        }
        // Whatever was set before may have changed the mode along with it.
        let untouched = owner.is_none() && group.is_none() && existing.is_none() && declared.label.is_none();
        if untouched && planned.mode == staged.mode {
            return Ok(());
        }
        change_mode(self, planned.mode)
    }

    /// Writes through the name that cannot be renamed over, as safely as that can be done: only what was expected,
    /// only under one name, only if there is room, and closed to others before the first byte.
    fn write_in_place(
        &self,
        declared: &Attributes<'_>,
        expect: Expect,
        durability: Durability,
    ) -> Result<Stat> {
        if self.in_place == InPlace::Refuse {
            return Err(self.error(Cause::CannotRenameOver));
        }
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(self.parent, self.name, flags, Mode::empty());
        let target = Target { fd: opened.map_err(|errno| self.error(errno))?, of: self };
        let stat = target.stat()?;
        if stat.kind != Kind::File {
            return Err(self.error(Cause::NotARegularFile(stat.kind)));
        }
        if stat.links != 1 {
            return Err(self.error(Cause::HardLinked(stat.links)));
        }
        match expect {
            Expect::Same(seen) if !seen.same_version(&stat) => return Err(self.error(Cause::Raced)),
            Expect::Absent => return Err(self.error(Cause::Raced)),
            _ => {}
        }
        let length = self.staged()?.size;
        if length > stat.size
            && let Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) =
                fallocate(&target.fd, FallocateFlags::KEEP_SIZE, 0, length)
        {
            return Err(self.error(errno));
        }
        apply(&target, &stat, &Attributes { mode: declared.mode.map(|mode| mode & 0o1777), ..*declared })?;
        sparse::copy_all(self.staging.as_fd(), target.fd.as_fd(), &mut |_| true)
            .and_then(|_| ftruncate(&target.fd, length))
            .map_err(|errno| self.error(Cause::HalfWritten(errno)))?;
        if let Some(mode) = declared.mode.filter(|mode| mode & 0o6000 != 0) {
            change_mode(&target, mode)?;
        }
        if durability != Durability::None {
            retry_on_intr(|| fsync(&target.fd)).map_err(|errno| self.error(errno))?;
        }
        target.stat()
    }

    fn staged(&self) -> Result<Stat> {
        fstat(&self.staging).map(Stat::from).map_err(|errno| self.error(errno))
    }

    fn error(&self, cause: impl Into<Cause>) -> Error {
        self.parent.error("replace", self.name, cause)
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if let State::Temporary(temporary) = self.state {
            // Nothing more can be done about it here; a later sweep will.
            let _ = unlinkat(self.parent, &temporary[..], AtFlags::empty());
        }
    }
}

impl fmt::Debug for Replacement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replacement({})", Escaped(&self.at()))
    }
}

impl Node for Replacement<'_> {
    fn via(&self) -> Via<'_> {
        Via::Open(self.staging.as_fd())
    }

    fn at(&self) -> Box<[u8]> {
        self.parent.path_of(self.name)
    }
}

/// The file that is written in place.
struct Target<'a> {
    fd: OwnedFd,
    of: &'a Replacement<'a>,
}

impl Target<'_> {
    fn stat(&self) -> Result<Stat> {
        fstat(&self.fd).map(Stat::from).map_err(|errno| self.of.error(errno))
    }
}

impl Node for Target<'_> {
    fn via(&self) -> Via<'_> {
        Via::Open(self.fd.as_fd())
    }

    fn at(&self) -> Box<[u8]> {
        self.of.at()
    }
}

pub(crate) fn write_fully(to: BorrowedFd<'_>, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match retry_on_intr(|| write(to, bytes))? {
            0 => return Err(Errno::IO),
            length => bytes = &bytes[length..],
        }
    }
    Ok(())
}
