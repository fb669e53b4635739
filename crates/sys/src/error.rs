//! The one error of the file half of this crate.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::statvfs;
use rustix::io::Errno;

use crate::path::PathError;
use crate::stat::Kind;

/// What this crate's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What was tried, on which path, and what stood in the way. Reads as
/// `cannot replace /etc/motd: No space left on device`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    operation: &'static str,
    path: Box<[u8]>,
    cause: Cause,
}

/// What stood in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The kernel said no.
    System(Errno),
    /// This component of the path does not exist.
    Missing(Box<[u8]>),
    /// This component of the path is not a directory.
    NotADirectory(Box<[u8]>, Kind),
    /// Something else is there where a regular file was expected.
    NotARegularFile(Kind),
    /// Something else is there where a symbolic link was expected.
    NotALink(Kind),
    /// A symbolic link in the path which others could have planted.
    UntrustedLink {
        /// Where the link is.
        link: Box<[u8]>,
        /// Who owns it.
        owner: u32,
        /// Why it is not followed.
        distrust: Distrust,
    },
    /// More symbolic links than anyone needs, most likely a loop. Names the last one.
    TooManyLinks(Box<[u8]>),
    /// The target is no longer what the caller saw; check again.
    Raced,
    /// A mount point inside a tree that was to be removed.
    MountPoint(Box<[u8]>),
    /// The path is itself a mount point, so that nothing can be renamed over it, and writing in place was not allowed.
    CannotRenameOver,
    /// Writing in place was allowed but would show through that many names.
    HardLinked(u64),
    /// The file has other names and lies where others can write, so it may be another's under this name.
    MayBePlanted,
    /// Writing in place began and failed, so the file may hold a mixture.
    HalfWritten(Errno),
    /// More entries than the caller allowed.
    TooManyEntries(u64),
    /// A tree deeper than the caller allowed.
    TooDeep(usize),
    /// A file larger than the caller allowed.
    TooLarge(u64),
    /// Not a usable name or path.
    Name(PathError),
    /// The root directory, where an entry of a directory was expected.
    IsRoot,
    /// An access list in a form we do not know, which would be lost by a replacement.
    UnknownAccessList,
    /// The change has to go through `/proc/self/fd`, which is not there.
    NoProc,
    /// The file system has room for more bytes, but not for more files.
    NoInodes,
    /// The new content needs more room than the file system has.
    NoRoom {
        /// So many bytes are to be written.
        needed: u64,
        /// So many bytes are left.
        free: u64,
    },
    /// The stream that new content was read from failed.
    Source(String),
}

/// Why a symbolic link in a parent is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// It belongs to someone who is neither root nor us.
    Owner,
    /// Its directory can be written by others and is not sticky.
    WritableDirectory,
}

impl Error {
    /// Describes a failed operation. `operation` is a verb such as `replace`.
    pub(crate) fn new(operation: &'static str, path: impl Into<Box<[u8]>>, cause: impl Into<Cause>) -> Self {
        let (path, mut cause) = (path.into(), cause.into());
        if cause == Cause::System(Errno::NOSPC) && has_no_inodes(&path) {
            cause = Cause::NoInodes;
        }
        Self(Box::new(Inner { operation, path, cause }))
    }

    /// Describes a path that cannot be used for an operation. `operation` is a verb such as `replace`.
    pub fn of_path(operation: &'static str, path: &[u8], error: PathError) -> Self {
        Self::new(operation, path, Cause::Name(error))
    }

    /// What stood in the way.
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// The path the operation was for.
    pub fn path(&self) -> &[u8] {
        &self.0.path
    }

    /// The verb: what could not be done.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The nearest kind in the standard library's vocabulary.
    pub fn kind(&self) -> io::ErrorKind {
        match &self.0.cause {
            Cause::System(errno) | Cause::HalfWritten(errno) => errno.kind(),
            Cause::Missing(_) => io::ErrorKind::NotFound,
            Cause::NotADirectory(..) => io::ErrorKind::NotADirectory,
            Cause::UntrustedLink { .. } | Cause::MayBePlanted => io::ErrorKind::PermissionDenied,
            Cause::CannotRenameOver | Cause::MountPoint(_) => io::ErrorKind::ResourceBusy,
            Cause::TooLarge(_) => io::ErrorKind::FileTooLarge,
            Cause::NoInodes | Cause::NoRoom { .. } => io::ErrorKind::StorageFull,
            Cause::Name(_) | Cause::IsRoot => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        }
    }

    /// The kernel's error number, when the kernel gave one.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.errno().map(Errno::raw_os_error)
    }

    /// Nothing is there, or a directory on the way is missing.
    pub fn is_not_found(&self) -> bool {
        self.kind() == io::ErrorKind::NotFound
    }

    /// A directory on the way is missing, not just the entry itself.
    pub fn is_parent_missing(&self) -> bool {
        matches!(self.0.cause, Cause::Missing(_))
    }

    /// The target changed between the caller's look and our change; look again.
    pub fn is_raced(&self) -> bool {
        self.0.cause == Cause::Raced
    }

    /// Something is there already.
    pub fn is_exists(&self) -> bool {
        self.errno() == Some(Errno::EXIST)
    }

    /// A directory still has entries.
    pub fn is_not_empty(&self) -> bool {
        self.errno() == Some(Errno::NOTEMPTY)
    }

    /// We may not.
    pub fn is_permission_denied(&self) -> bool {
        self.kind() == io::ErrorKind::PermissionDenied
    }

    /// The file system does not know this operation.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.errno(), Some(Errno::OPNOTSUPP | Errno::NOSYS))
    }

    /// What was found where a regular file or a directory was expected.
    pub fn found_kind(&self) -> Option<Kind> {
        match self.0.cause {
            Cause::NotARegularFile(kind) | Cause::NotADirectory(_, kind) | Cause::NotALink(kind) => {
                Some(kind)
            }
            _ => None,
        }
    }

    pub(crate) fn errno(&self) -> Option<Errno> {
        match self.0.cause {
            Cause::System(errno) | Cause::HalfWritten(errno) => Some(errno),
            Cause::NoInodes | Cause::NoRoom { .. } => Some(Errno::NOSPC),
            _ => None,
        }
    }
}

/// Whether what is missing on the file system of a path is inodes, not space.
fn has_no_inodes(path: &[u8]) -> bool {
    let mut place = Path::new(OsStr::from_bytes(path));
    loop {
        match statvfs(place) {
            Ok(room) => return room.f_files > 0 && room.f_favail == 0,
            Err(_) => match place.parent() {
                Some(parent) => place = parent,
                None => return false,
            },
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.kind(), error)
    }
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Self {
        Cause::System(errno)
    }
}

impl From<PathError> for Cause {
    fn from(error: PathError) -> Self {
        Cause::Name(error)
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, Escaped(&self.path), self.cause)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::System(errno) => f.write_str(&describe(*errno)),
            Cause::Missing(component) => write!(f, "{} does not exist", Escaped(component)),
            Cause::NotADirectory(component, kind) => {
                write!(f, "{} is {kind}, not a directory", Escaped(component))
            }
            Cause::NotARegularFile(kind) => write!(f, "it is {kind}, not a regular file"),
            Cause::NotALink(kind) => write!(f, "it is {kind}, not a symbolic link"),
            Cause::UntrustedLink { link, owner, distrust } => describe_link(f, link, *owner, *distrust),
            Cause::TooManyLinks(link) => {
                write!(f, "too many symbolic links, the last one at {}; is there a loop?", Escaped(link))
            }
            Cause::Raced => f.write_str("it changed at the same moment; check it again"),
            Cause::MountPoint(path) => write!(
                f,
                "{} is a mount point, and removing a tree never crosses into another mount; unmount it first",
                Escaped(path)
            ),
            Cause::CannotRenameOver => f.write_str(
                "it is a mount point of its own (such as a file bound into a container), so it cannot be \
                 replaced in one step, and writing in place was not allowed",
            ),
            Cause::HardLinked(links) => {
                write!(
                    f,
                    "it can only be written in place, which would show through all its {links} hard links"
                )
            }
            Cause::MayBePlanted => f.write_str(
                "it has other names (hard links) and lies in a directory that others can write, so it may be somebody \
                 else's file; remove it, or take away the others' write permission from the directory",
            ),
            Cause::HalfWritten(errno) => write!(
                f,
                "{} while writing in place; the file may now hold a mixture of old and new",
                describe(*errno)
            ),
            Cause::TooManyEntries(limit) => {
                write!(f, "there are more than {limit} entries, the limit set for it")
            }
            Cause::TooDeep(limit) => write!(f, "it is more than {limit} directories deep"),
            Cause::TooLarge(limit) => write!(f, "it is larger than {limit} bytes, the limit set for it"),
            Cause::Name(error) => error.fmt(f),
            Cause::IsRoot => f.write_str("the root directory is not an entry of any directory"),
            Cause::UnknownAccessList => f.write_str(
                "its access control list has an unknown form and would be lost; remove or rewrite it",
            ),
            Cause::NoInodes => f.write_str(
                "No space left on device: all inodes are in use, so that it can hold no more files, although bytes may \
                 be free",
            ),
            Cause::NoRoom { needed, free } => {
                write!(f, "No space left on device: {needed} bytes are needed, and {free} are free")
            }
            Cause::NoProc => f.write_str("/proc is not mounted, and this change has to go through it"),
            Cause::Source(message) => write!(f, "reading the new content failed: {message}"),
        }
    }
}

fn describe_link(f: &mut fmt::Formatter<'_>, link: &[u8], owner: u32, distrust: Distrust) -> fmt::Result {
    let link = Escaped(link);
    match distrust {
        Distrust::Owner => write!(
            f,
            "the symbolic link {link} on the way belongs to user {owner}, who is neither root nor us, and is not \
             followed; make it a directory, or give the link to root (chown -h root {link}) if it is meant",
        ),
        Distrust::WritableDirectory => write!(
            f,
            "the symbolic link {link} on the way (owner {owner}) lies in a directory that others can write, and is \
             not followed; take away group and other write permission from that directory or set its sticky bit",
        ),
    }
}

/// The kernel's message without the number that the standard library appends.
fn describe(errno: Errno) -> String {
    let mut text = io::Error::from(errno).to_string();
    if let Some(end) = text.find(" (os error ") {
        text.truncate(end);
    }
    text
}

/// Bytes for people: UTF-8 as it is, everything that could forge a line, move a cursor or hide as `\n`, `\x1b`, `\u{202e}`.
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\\' => f.write_str("\\\\")?,
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    '\r' => f.write_str("\\r")?,
                    _ if character.is_ascii_control() => write!(f, "\\x{:02x}", u32::from(character))?,
                    _ if hides(character) => write!(f, "\\u{{{:x}}}", u32::from(character))?,
                    _ => f.write_char(character)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Characters that reorder, join or end text without being seen.
fn hides(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_could_not_be_done_to_what_and_why() {
        let error = Error::new("replace", *b"/etc/foo", Errno::NOSPC);
        assert_eq!(error.to_string(), "cannot replace /etc/foo: No space left on device");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        let error = Error::new("open", *b"/a/b/", Cause::Missing((*b"/a").into()));
        assert_eq!(error.to_string(), "cannot open /a/b/: /a does not exist");
        assert!(error.is_not_found() && error.is_parent_missing());
        let io = io::Error::from(error);
        assert_eq!(io.kind(), io::ErrorKind::NotFound);
        assert_eq!(io.to_string(), "cannot open /a/b/: /a does not exist");
    }

    #[test]
    fn a_hostile_name_cannot_forge_a_second_line() {
        let error = Error::new("open", *b"/tmp/x\n[error] all is lost\x1b[2J", Errno::NOENT);
        assert_eq!(
            error.to_string(),
            "cannot open /tmp/x\\n[error] all is lost\\x1b[2J: No such file or directory"
        );
    }

    #[test]
    fn an_error_is_one_pointer() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
