//! Reading the host under the rule for links: what functions of a program may open.
//!
//! One rule for everything that is read by a name from outside: a symbolic link is followed only if root or this user
//! put it where nobody else could exchange it; the open never blocks; only regular files have content; content has a limit.
//! Paths are absolute and may have `..`, which goes back to the real parent. [`bounded`](crate::bounded) adds a deadline.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, fstat, openat, readlinkat};
use rustix::io::Errno;

use crate::error::{Cause, Error, Result};
use crate::file::OpenedFile;
use crate::handle::{proc_cause, proc_path};
use crate::path::{Location, MAX_COMPONENTS, ManagedPath, PATH_MAX, PathError};
use crate::stat::{Kind, Stat};
use crate::walk;

/// The content of a regular file, unless it is longer than `limit` bytes. The null device is an empty file.
pub fn read(path: &[u8], limit: u64) -> Result<Vec<u8>> {
    check(path)?;
    read_pinned(&walk::pin(path)?, path, limit)
}

/// The same, whoever owns the links on the way: for files whose author is trusted with everything.
pub fn read_following(path: &[u8], limit: u64) -> Result<Vec<u8>> {
    check(path)?;
    let pinned = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    read_pinned(&pinned.map_err(|errno| Error::new("open", path, errno))?, path, limit)
}

/// Looks at the file before it is opened: to open a device or a pipe may have an effect of its own.
fn read_pinned(pinned: &OwnedFd, path: &[u8], limit: u64) -> Result<Vec<u8>> {
    let place = ManagedPath::new(path).map_err(|error| Error::new("read", path, error))?;
    if is_null_device(pinned) {
        return Ok(Vec::new());
    }
    let stat = fstat(pinned).map(Stat::from).map_err(|errno| Error::new("look at", path, errno))?;
    if stat.kind != Kind::File {
        return Err(Error::new("open", path, Cause::NotARegularFile(stat.kind)));
    }
    let flags = walk::REGULAR.difference(OFlags::NOFOLLOW);
    let fd = openat(CWD, proc_path(pinned.as_fd()).as_str(), flags, Mode::empty())
        .map_err(|errno| Error::new("open", path, proc_cause(errno)))?;
    OpenedFile::new(fd, Location::whole(&place), |_| true)?.read(limit)
}

/// What a path leads to; nothing if there is nothing, also at the end of a link.
pub fn stat(path: &[u8]) -> Result<Option<Stat>> {
    check(path)?;
    let pinned = match walk::pin(path) {
        Ok(pinned) => pinned,
        Err(error) if is_nothing(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    fstat(&pinned).map(|raw| Some(raw.into())).map_err(|errno| Error::new("look at", path, errno))
}

/// The text of a symbolic link, which is itself not followed.
pub fn read_link(path: &[u8]) -> Result<Vec<u8>> {
    check(path)?;
    let plain = path.strip_suffix(b"/").filter(|plain| !plain.is_empty()).unwrap_or(path);
    let (parent, name) = match plain.iter().rposition(|&byte| byte == b'/') {
        Some(0) => (&b"/"[..], &plain[1..]),
        Some(slash) => (&plain[..slash], &plain[slash + 1..]),
        None => return Err(Error::new("read the link", path, Errno::INVAL)),
    };
    let parent = walk::pin(parent)?;
    let failed = |errno| match errno {
        Errno::INVAL => Error::new("read the link", path, Cause::NotALink(kind_of(&parent, name))),
        errno => Error::new("read the link", path, errno),
    };
    readlinkat(&parent, name, Vec::new()).map(|target| target.into_bytes()).map_err(failed)
}

/// The path without any links and dots that leads to the same thing.
pub fn resolve(path: &[u8]) -> Result<Vec<u8>> {
    check(path)?;
    let pinned = walk::pin(path)?;
    let place = proc_path(pinned.as_fd());
    let resolved = readlinkat(CWD, place.as_str(), Vec::new());
    resolved.map(|path| path.into_bytes()).map_err(|errno| Error::new("resolve", path, errno))
}

/// Whether a path leads to a regular file that this process may execute.
pub fn is_executable(path: &[u8]) -> Result<bool> {
    check(path)?;
    let pinned = match walk::pin(path) {
        Ok(pinned) => pinned,
        Err(error) if is_nothing(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    let stat = fstat(&pinned).map(Stat::from).map_err(|errno| Error::new("look at", path, errno))?;
    let place = proc_path(pinned.as_fd());
    Ok(stat.kind == Kind::File && accessat(CWD, place.as_str(), Access::EXEC_OK, AtFlags::EACCESS).is_ok())
}

/// Nothing is there, or a file is where a directory would have to be.
pub fn is_nothing(error: &Error) -> bool {
    error.is_not_found()
        || matches!(error.cause(), Cause::NotADirectory(..) | Cause::System(Errno::NOTDIR | Errno::NOENT))
}

/// Accepts what the kernel and the walk can take.
fn check(path: &[u8]) -> Result<()> {
    let refused = |error| Err(Error::new("open", path, Cause::Name(error)));
    let components = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).count();
    match path.first() {
        None => refused(PathError::Empty),
        Some(b'/') if path.contains(&0) => refused(PathError::Nul(path.into())),
        Some(b'/') if path.len() >= PATH_MAX => refused(PathError::TooLong(path.len())),
        Some(b'/') if components > MAX_COMPONENTS => refused(PathError::TooDeep(components)),
        Some(b'/') => Ok(()),
        Some(_) => refused(PathError::NotAbsolute(path.into())),
    }
}

fn is_null_device(fd: &impl AsFd) -> bool {
    fstat(fd).is_ok_and(|raw| {
        let device = (rustix::fs::major(raw.st_rdev), rustix::fs::minor(raw.st_rdev));
        device == (1, 3) && Stat::from(raw).kind == Kind::CharacterDevice
    })
}

fn kind_of(parent: &impl AsFd, name: &[u8]) -> Kind {
    let found = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    found.map_or(Kind::Unknown, |raw| Stat::from(raw).kind)
}
