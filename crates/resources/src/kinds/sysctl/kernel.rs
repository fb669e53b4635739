//! Parameters as files of the kernel.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, PoisonError};

use mgmt_resource::{Error, Result, Watch};
use mgmt_value::Str;

use super::key::Key;
use crate::support::follow;

/// Longer values are not compared.
const LONGEST: u64 = 1 << 20;

/// The value, with all white space around it.
pub(super) fn read(key: &Key) -> Result<Vec<u8>> {
    let mut value = Vec::new();
    let read = File::open(key.path()).and_then(|file| file.take(LONGEST).read_to_end(&mut value));
    read.map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Error::new(format_args!("the kernel has no parameter {}", key.dotted())).with_hint(
                "it may belong to a module that is not loaded, or to an interface that is not there",
            )
        }
        ErrorKind::IsADirectory => Error::new(format_args!("{} is a group of parameters", key.dotted()))
            .with_hint(format_args!("choose one of them: `sysctl {}` lists them", key.dotted())),
        ErrorKind::PermissionDenied => Error::new(format_args!("cannot read {}: {error}", key.path()))
            .with_hint(
                "what cannot be read cannot be kept as it is; a parameter that starts something is no state",
            ),
        _ => Error::new(format_args!("cannot read {}: {error}", key.path())),
    })?;
    Ok(value)
}

pub(super) fn write(key: &Key, value: &Str) -> Result<()> {
    let line = [value.as_bytes(), b"\n"].concat();
    // The kernel takes what comes in one call.
    let written = OpenOptions::new().write(true).open(key.path()).and_then(|mut file| file.write(&line));
    written.map(drop).map_err(|error| refused(key, &error))
}

/// Fails if this process may not set the parameter, whatever the value.
pub(super) fn check_writable(key: &Key) -> Result<()> {
    OpenOptions::new().write(true).open(key.path()).map(drop).map_err(|error| refused(key, &error))
}

fn refused(key: &Key, error: &std::io::Error) -> Error {
    let failed = Error::new(format_args!("cannot set {}: {error}", key.dotted()));
    match error.kind() {
        ErrorKind::InvalidInput => failed.with_hint("the kernel does not take this value"),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => failed
            .with_hint("run this program as root, and not in a container that may not change the kernel"),
        _ => failed,
    }
}

/// The value without what does not matter: how much white space there is, and of which kind.
pub(super) fn normal(value: &[u8]) -> Vec<u8> {
    let parts = value.split(u8::is_ascii_whitespace).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(&b" "[..])
}

/// Writing to a parameter is an event, as for any file.
///
/// But the kernel keeps the tree of parameters only as long as somebody uses it, and makes it anew when it is needed: a watch
/// would be on a directory that nobody can reach any more. So the directory is held open, from before it is watched on.
pub(super) fn watch(key: &Key) -> Watch {
    let (path, directory) = (Str::from(key.path()), key.directory());
    let held: Mutex<Option<File>> = Mutex::new(None);
    let locate = move || {
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            let flags = rustix::fs::OFlags::PATH.bits().cast_signed();
            // If it is not there, the check says so.
            *held = OpenOptions::new().read(true).custom_flags(flags).open(&directory).ok();
        }
        vec![path.clone()]
    };
    follow::paths(Str::from(format!("sysctl {}", key.path())), locate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_between_parts_does_not_matter() {
        assert_eq!(normal(b"4096\t131072\t6291456\n"), b"4096 131072 6291456");
        assert_eq!(normal(b" a  b "), b"a b");
        assert_eq!(normal(b"\n"), b"");
    }

    #[test]
    fn what_is_no_parameter_is_told_apart() {
        let error = |name: &str| read(&Key::read(&name.into()).unwrap()).unwrap_err();
        assert!(error("kernel.no_such_thing").to_string().contains("no parameter kernel.no_such_thing"));
        assert!(error("kernel.ostype.x").to_string().contains("no parameter"));
        assert!(error("net.core").to_string().contains("is a group of parameters"));
        assert_eq!(normal(&read(&Key::read(&"kernel.ostype".into()).unwrap()).unwrap()), b"Linux");
    }
}
