//! The hash of a password in `/etc/shadow`.
//!
//! The tools take it as an argument, which every user of the host can read while they run, so it is changed directly: under
//! the lock that all tools take, and in one step.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant, SystemTime};

use mgmt_resource::{Cancel, Error, Result, Stage};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};
use mgmt_sys::stat::Stat;
use mgmt_value::Str;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

/// Where the hashes are.
pub(crate) const SHADOW: &str = "/etc/shadow";
/// The lock that all tools take.
const LOCK: &str = "/etc/.pwd.lock";
/// How long others may hold it; they wait as long for each other.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often a look is taken. Locks do not tell when they are released.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The longest file of accounts.
const LONGEST: u64 = 64 << 20;
const DAY: u64 = 24 * 60 * 60;

/// What is stored for a user. Nothing if there is no entry. Blocks.
pub(crate) fn read(user: &str) -> Result<Option<Str>> {
    let Some((content, _)) = open(&shadow()?)? else { return Ok(None) };
    Ok(entry(&content, user).map(|entry| Str::new(entry.hash)))
}

/// Stores another hash for a user, and that it was changed today. Blocks; the caller sees to it that nobody else in this
/// process changes accounts.
pub(crate) fn write(user: &str, hash: &Str, cancel: &Cancel, durability: Durability) -> Result<()> {
    let _locked = lock(cancel)?;
    let parent = shadow()?;
    let missing = || {
        Error::new(format_args!("{user} has no entry in {SHADOW}"))
            .with_hint("`pwconv` makes missing entries")
    };
    let (content, stat) = open(&parent)?.ok_or_else(missing)?;
    let entry = entry(&content, user).ok_or_else(missing)?;
    let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / DAY;
    let new = [
        &content[..entry.at],
        user.as_bytes(),
        b":",
        hash.as_bytes(),
        b":",
        today.to_string().as_bytes(),
        entry.rest,
        &content[entry.at + entry.line.len()..],
    ]
    .concat();
    let replace = || {
        let mut replacement = Replacement::begin(&parent, b"shadow", InPlace::Refuse)?;
        replacement.write_all(&new)?;
        replacement.commit(&Attributes::default(), Expect::Same(stat), durability)
    };
    replace().map_err(Error::new).map(|_| ())
}

fn shadow() -> Result<Parent> {
    let path = ManagedPath::new(SHADOW).map_err(Error::new)?;
    Parent::open(&path).map_err(Error::new)
}

fn open(parent: &Parent) -> Result<Option<(Vec<u8>, Stat)>> {
    match parent.open_regular(b"shadow") {
        Ok(file) => Ok(Some((file.read(LONGEST).map_err(Error::new)?, *file.stat()))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => {
            let told = Error::new(&error);
            Err(if error.is_permission_denied() { told.with_hint("run this program as root") } else { told })
        }
    }
}

/// A line of the file.
struct Entry<'a> {
    /// Where it begins.
    at: usize,
    line: &'a [u8],
    hash: &'a [u8],
    /// From the colon after the day of the last change on.
    rest: &'a [u8],
}

fn entry<'a>(content: &'a [u8], user: &str) -> Option<Entry<'a>> {
    let mut at = 0;
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        if let Some(after) = line.strip_prefix(user.as_bytes()).and_then(|rest| rest.strip_prefix(b":")) {
            let end = |text: &[u8]| text.iter().position(|byte| b":\n".contains(byte)).unwrap_or(text.len());
            let (hash, rest) = after.split_at(end(after));
            let rest = match rest.strip_prefix(b":") {
                Some(rest) => &rest[end(rest)..],
                None => rest,
            };
            return Some(Entry { at, line, hash, rest });
        }
        at += line.len();
    }
    None
}

/// Takes the lock. It is gone when the file is closed.
fn lock(cancel: &Cancel) -> Result<File> {
    let failed = |error: &dyn std::fmt::Display| Error::new(format_args!("cannot lock {LOCK}: {error}"));
    let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(LOCK);
    let file = open.map_err(|error| failed(&error))?;
    let until = Instant::now() + PATIENCE;
    loop {
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::AGAIN | Errno::ACCESS) if Instant::now() < until => {}
            Err(Errno::AGAIN | Errno::ACCESS) => {
                return Err(failed(&format_args!(
                    "somebody else has held it for {} seconds",
                    PATIENCE.as_secs()
                ))
                .with_hint("find out who is changing accounts, `lslocks` tells, and wait or end it"));
            }
            Err(errno) => return Err(failed(&errno)),
        }
        if cancel.stage() != Stage::Run {
            return Err(Error::Cancelled);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_by_its_whole_name() {
        let content = b"joe2:x:1:0:::::\njoe:$6$a$b:19000:0:99999:7:::\nann:*\nlast:!:";
        let found = |user| entry(content, user).map(|entry| (entry.hash, entry.rest));
        assert_eq!(found("joe"), Some((&b"$6$a$b"[..], &b":0:99999:7:::\n"[..])));
        assert_eq!(found("joe2"), Some((&b"x"[..], &b":0:::::\n"[..])));
        assert_eq!(found("ann"), Some((&b"*"[..], &b"\n"[..])));
        assert_eq!(found("last"), Some((&b"!"[..], &b""[..])));
        assert_eq!(found("jo"), None);
        assert_eq!(found(""), None);
    }
}
