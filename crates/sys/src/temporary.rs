//! Names of temporary files, and sweeping up those that a killed process left behind.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, statat, unlinkat};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};

use crate::dir::Parent;
use crate::error::Result;
use crate::stat::{Kind, Stat};
use crate::tree::{Limits, list};

/// How often a random name may be taken before we believe something else is wrong.
const ATTEMPTS: usize = 16;

const PREFIX: &[u8] = b".mgmt-";
const SUFFIX: &[u8] = b".tmp";
const DIGITS: usize = 16;
/// `.mgmt-0123456789abcdef.tmp`
const LENGTH: usize = PREFIX.len() + DIGITS + SUFFIX.len();

pub(crate) type TemporaryName = [u8; LENGTH];

/// Removes the temporaries in `directory` that nobody uses any more, and tells how many.
///
/// A temporary in use is locked by the process that writes it, and is left alone, as is anything that is not a regular
/// file or a symbolic link of ours with a name of ours. Call it when a directory comes under management, not at every check.
pub fn sweep_temporaries(directory: &Parent) -> Result<usize> {
    let us = geteuid().as_raw();
    let mut swept = 0;
    let mut entries = list(directory, &Limits::default())?;
    entries.retain(|entry| is_temporary(&entry.name));
    for entry in entries.iter().filter(|entry| entry.kind == Kind::File) {
        swept += usize::from(sweep(directory, &entry.name, us)?);
    }
    let links = entries.iter().filter(|entry| entry.kind == Kind::Symlink);
    let links: Vec<&[u8]> = links.map(|entry| &entry.name[..]).collect();
    Ok(swept + sweep_links(directory, &links, us)?)
}

/// Links cannot be locked, so whoever makes one holds the directory. The names were read before the lock is tried: what is
/// made afterwards is not among them.
fn sweep_links(directory: &Parent, names: &[&[u8]], us: u32) -> Result<usize> {
    if names.is_empty() {
        return Ok(0);
    }
    let Some(_nobody_makes_one) = hold_soon(directory) else { return Ok(0) };
    let mut swept = 0;
    for name in names {
        let stat = statat(directory, *name, AtFlags::SYMLINK_NOFOLLOW).map(Stat::from);
        if stat.is_ok_and(|stat| stat.kind == Kind::Symlink && stat.uid == us) {
            swept += usize::from(remove(directory, name)?);
        }
    }
    Ok(swept)
}

/// Locks a directory against makers of links, which hold it for an instant each. Whoever holds it longer is no maker.
fn hold_soon(directory: &Parent) -> Option<OwnedFd> {
    const PATIENCE: u32 = 400;
    for _ in 1..PATIENCE {
        if let held @ Some(_) = hold(directory, FlockOperation::NonBlockingLockExclusive) {
            return held;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    hold(directory, FlockOperation::NonBlockingLockExclusive)
}

/// Locks a directory for as long as the answer is kept. Nothing, if somebody else has it or it cannot be read: then whoever
/// makes a link goes on without, and whoever sweeps leaves it.
pub(crate) fn hold(directory: &Parent, how: FlockOperation) -> Option<OwnedFd> {
    let fd = directory.reopen().ok()?;
    flock(&fd, how).is_ok().then_some(fd)
}

fn sweep(directory: &Parent, name: &[u8], us: u32) -> Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(fd) = openat(directory, name, flags, Mode::empty()) else { return Ok(false) };
    let Ok(stat) = fstat(&fd).map(Stat::from) else { return Ok(false) };
    if stat.kind != Kind::File
        || stat.uid != us
        || flock(&fd, FlockOperation::NonBlockingLockExclusive).is_err()
    {
        return Ok(false);
    }
    // With the lock held, the name must still be this file: it was not renamed into place meanwhile.
    let same =
        statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|now| Stat::from(now).same_file(&stat));
    if !same {
        return Ok(false);
    }
    remove(directory, name)
}

fn remove(directory: &Parent, name: &[u8]) -> Result<bool> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(directory.error("remove", name, errno)),
    }
}

/// Whether a name is that of a temporary of ours. Watchers and purges skip such entries.
pub fn is_temporary(name: &[u8]) -> bool {
    name.len() == LENGTH
        && name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.strip_suffix(SUFFIX))
            .is_some_and(|digits| digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')))
}

/// Whether a name is one under which another program writes a file before it renames it into place: Ruby's and so Puppet's temporary files
/// (`motd20260131-4711-1a2b3c`), those of dpkg and Augeas, and the directories with which Puppet locks a name for such a file (with `.lock` behind it).
pub fn is_temporary_of_another_program(name: &[u8]) -> bool {
    let name = name.strip_suffix(LOCK).unwrap_or(name);
    if [&b".dpkg-new"[..], b".dpkg-tmp", b".augnew"]
        .iter()
        .any(|end| name.len() > end.len() && name.ends_with(end))
    {
        return true;
    }
    let mut parts = name.rsplit(|&byte| byte == b'-');
    let (Some(random), Some(process), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let date = rest.len().checked_sub(8).map(|start| &rest[start..]);
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let is_random =
        !random.is_empty() && random.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    is_random && digits(process) && date.is_some_and(digits)
}

/// What the name of a directory ends in with which Puppet locks the name of a temporary file.
const LOCK: &[u8] = b".lock";

/// How long a file that another program writes in order to rename it is left alone, in seconds.
const TEMPORARY_GRACE_SECONDS: i64 = 60;

/// Whether another program is just writing an entry, to rename it over another one, or locks the name of such a file. One that is old was left behind.
pub fn is_fresh_temporary_of_another_program(name: &[u8], stat: Option<&Stat>) -> bool {
    if !is_temporary_of_another_program(name) {
        return false;
    }
    let now = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
    stat.is_none_or(|stat| {
        let is_of_its_kind =
            stat.kind == Kind::File || (stat.kind == Kind::Directory && name.ends_with(LOCK));
        is_of_its_kind && now.saturating_sub(stat.modified.seconds) < TEMPORARY_GRACE_SECONDS
    })
}

/// Makes something under a name that nobody can guess, so that nobody can be there first. `create` says
/// [`Errno::EXIST`] to be given another name.
pub(crate) fn create<T>(
    mut create: impl FnMut(&[u8]) -> rustix::io::Result<T>,
) -> rustix::io::Result<(TemporaryName, T)> {
    for _ in 0..ATTEMPTS {
        let name = random_name()?;
        match create(&name) {
            Err(Errno::EXIST) => {}
            created => return created.map(|created| (name, created)),
        }
    }
    Err(Errno::EXIST)
}

fn random_name() -> rustix::io::Result<TemporaryName> {
    let mut random = [0; DIGITS / 2];
    // Requests this small are answered whole.
    retry_on_intr(|| getrandom(&mut random, GetRandomFlags::empty()))?;
    let mut name = [0; LENGTH];
    name[..PREFIX.len()].copy_from_slice(PREFIX);
    name[PREFIX.len() + DIGITS..].copy_from_slice(SUFFIX);
    for (byte, pair) in random.iter().zip(name[PREFIX.len()..].chunks_exact_mut(2)) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
    Ok(name)
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_recognised_and_never_twice_the_same() {
        let names: std::collections::BTreeSet<_> = (0..1000).map(|_| random_name().unwrap()).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| is_temporary(name)));
        for other in ["", ".mgmt-.tmp", ".mgmt-0123456789abcdeg.tmp", ".mgmt-0123456789ABCDEF.tmp", "motd"] {
            assert!(!is_temporary(other.as_bytes()), "{other}");
        }
        assert!(is_temporary(b".mgmt-0123456789abcdef.tmp"));
    }

    #[test]
    fn temporaries_of_other_programs_are_told_by_their_names() {
        for name in
            ["motd20260131-4711-1a2b3c", "m20260131-1-z.lock", "20260131-1-z", "x.dpkg-new", "hosts.augnew"]
        {
            assert!(is_temporary_of_another_program(name.as_bytes()), "{name}");
        }
        for name in [
            "motd",
            "",
            "-",
            "--",
            "a-1-b",
            "report-2026-01",
            "20260131-4711",
            "x20260131-4711-",
            ".dpkg-new",
            "app.lock",
        ] {
            assert!(!is_temporary_of_another_program(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_taken_name_is_tried_again_but_not_for_ever() {
        let mut tries = 0;
        let got = create(|_| {
            tries += 1;
            if tries < 3 { Err(Errno::EXIST) } else { Ok(tries) }
        });
        assert_eq!(got.unwrap().1, 3);
        assert_eq!(create(|_| Err::<(), _>(Errno::EXIST)).unwrap_err(), Errno::EXIST);
        assert_eq!(create(|_| Err::<(), _>(Errno::ROFS)).unwrap_err(), Errno::ROFS);
    }
}
