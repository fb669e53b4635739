//! What went wrong, and what a person can do about it.

use std::io::ErrorKind;

use mgmt_resource::Error;
use mgmt_sys::ManagedPath;
use mgmt_sys::error::{Cause, Escaped};
use mgmt_sys::stat::Kind;

/// Why a run stopped, before it is told to anybody.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The path changed while we were at it. Look again.
    Raced,
    System(mgmt_sys::Error),
    Failed(Error),
}

pub(super) type Result<T> = std::result::Result<T, Trouble>;

impl Trouble {
    pub(super) fn new(message: impl std::fmt::Display) -> Trouble {
        Trouble::Failed(Error::new(message))
    }

    pub(super) fn with_hint(self, hint: impl std::fmt::Display) -> Trouble {
        match self {
            Trouble::Failed(error) => Trouble::Failed(error.with_hint(hint)),
            other => other,
        }
    }

    /// Whether another look may find something else. When there is nothing where something was made or replaced a moment ago,
    /// the whole directory has been taken away from under our hands.
    pub(super) fn is_of_a_moment(&self, apply: bool) -> bool {
        match self {
            Trouble::Raced => true,
            Trouble::System(error) => apply && error.is_not_found() && !error.is_parent_missing(),
            Trouble::Failed(_) => false,
        }
    }

    /// The error for whoever declared the resource.
    pub(super) fn explain(self) -> Error {
        match self {
            Trouble::Raced => Error::new("it changed whenever it was looked at")
                .with_hint("find out who else writes there; two resources or programs may be at odds"),
            Trouble::Failed(error) => error,
            Trouble::System(error) => {
                let hint = hint(&error);
                let told = Error::new(&error);
                match hint {
                    Some(hint) => told.with_hint(hint),
                    None => told,
                }
            }
        }
    }
}

impl From<mgmt_sys::Error> for Trouble {
    fn from(error: mgmt_sys::Error) -> Trouble {
        if error.is_raced() || error.is_exists() { Trouble::Raced } else { Trouble::System(error) }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Failed(error)
    }
}

/// For calls about something that was there, and of this kind, a moment ago: if it is not, look again.
pub(super) fn unless_gone<T>(done: mgmt_sys::Result<T>) -> Result<T> {
    match done {
        Err(error) if error.is_not_found() || error.found_kind().is_some() => Err(Trouble::Raced),
        done => Ok(done?),
    }
}

/// Something of another type is where `wanted` should be, and `force` was not given or does not help.
pub(super) fn in_the_way(path: &[u8], found: Kind, wanted: Kind) -> Trouble {
    let trouble = Trouble::new(format_args!("{} is {found}, not {wanted}", Escaped(path)));
    match (found, wanted) {
        (Kind::Fifo | Kind::Socket | Kind::CharacterDevice | Kind::BlockDevice | Kind::Unknown, Kind::File) => {
            trouble.with_hint("remove it first; a special file is never replaced by a regular one")
        }
        (Kind::Directory, Kind::File) => trouble.with_hint(
            "end the path in a slash if a directory is meant, or set `force => true` to remove it with all below it",
        ),
        (Kind::Symlink, Kind::File) => trouble.with_hint(
            "manage the file that the link points to, or set `force => true` to put a file in the place of the link",
        ),
        _ => trouble.with_hint("set `force => true` to replace it"),
    }
}

/// A file that is to be changed but not made is not there.
pub(super) fn not_there(path: &ManagedPath) -> Trouble {
    Trouble::new(format_args!("{path} does not exist, and is only changed, never made"))
        .with_hint("set `state => \"exists\"` to make it")
}

/// A directory on the way will not be there in a run: in the words that the run will have for it.
pub(super) fn directory_missing(path: &ManagedPath, directory: &[u8]) -> Trouble {
    let parent = Escaped(path.parent_bytes().unwrap_or_default());
    Trouble::new(format_args!("cannot open {parent}: {} does not exist", Escaped(directory)))
        .with_hint(declare_directory(directory))
}

fn declare_directory(directory: &[u8]) -> String {
    format!(
        "declare file[{path}/], or set `recurse => true` on the directory that should be made with its parents",
        path = Escaped(directory)
    )
}

/// The file system took a change and did not keep it, so that the next check would find it undone.
pub(super) fn not_kept(path: &[u8], what: &str) -> Trouble {
    Trouble::new(format_args!("{} did not keep its new {what}", Escaped(path))).with_hint(
        "the file system cannot store it, or we may not set it; a setgid bit for example needs membership in the group",
    )
}

fn hint(error: &mgmt_sys::Error) -> Option<String> {
    match error.cause() {
        Cause::Missing(component) => Some(declare_directory(component)),
        Cause::NotARegularFile(Kind::Symlink) => Some("name the file that the link points to".into()),
        Cause::CannotRenameOver => Some("set `atomic => false` to write into it".into()),
        Cause::TooManyEntries(_) | Cause::TooDeep(_) => Some("split it into smaller directories".into()),
        _ => match error.kind() {
            ErrorKind::PermissionDenied if !matches!(error.cause(), Cause::System(_)) => None,
            ErrorKind::PermissionDenied if rustix::process::geteuid().is_root() => {
                Some("look for an immutable flag (lsattr), a read-only mount or a security policy".into())
            }
            ErrorKind::PermissionDenied => {
                Some("run as root, or manage only what belongs to the present user".into())
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Some("make room on that file system; what was there before is untouched".into())
            }
            ErrorKind::ReadOnlyFilesystem => Some("mount that file system writable".into()),
            ErrorKind::DirectoryNotEmpty => {
                Some("set `recurse => true` to remove it with all below it".into())
            }
            _ => None,
        },
    }
}
