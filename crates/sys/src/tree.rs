//! Directory trees by handle: listing one directory and removing a whole tree.
//!
//! Nothing here follows a symbolic link, crosses into another mount, calls itself, or goes on without bound. A tree is
//! first surveyed and then removed, so that one which is too large, too deep or has something mounted in it is refused
//! before the first of its entries is gone. (A single *file* that is a mount point is only found when its turn comes.)

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, StatxFlags, fstat, openat, statat, statx, unlinkat};
use rustix::io::Errno;

use crate::dir::Parent;
use crate::error::{Cause, Error, Result};
use crate::path::MAX_COMPONENTS;
use crate::preflight::{check_removable, check_writable};
use crate::stat::{Kind, Stat};

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, one component.
    pub name: Box<[u8]>,
    /// What it is; a symbolic link is a symbolic link.
    pub kind: Kind,
}

/// How much a listing or a removal may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of entries, directories included.
    pub entries: u64,
    /// The number of nested directories. Each costs a descriptor while the walk is in it.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 1_000_000, depth: MAX_COMPONENTS }
    }
}

/// All entries of a directory, sorted by the bytes of their names, without `.` and `..`.
pub fn list(directory: &Parent, limits: &Limits) -> Result<Vec<Entry>> {
    let fd = directory.reopen()?;
    let mut entries = read_entries(fd.as_fd(), limits.entries)
        .map_err(|cause| Error::new("list", directory.path_bytes(), cause))?;
    entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    Ok(entries)
}

/// Whether both directories belong to the same mount. Removing must not go from one to another.
pub fn same_mount(one: &Parent, other: &Parent) -> Result<bool> {
    let mount = |directory: &Parent| {
        Mount::of(directory.as_fd()).map_err(|errno| Error::new("look at", directory.path_bytes(), errno))
    };
    Ok(mount(one)? == mount(other)?)
}

/// Removes `name` and, if it is a directory, everything in it. Tells how many entries were removed; none when there was
/// nothing.
///
/// Entries that others remove meanwhile are no error; entries that others keep adding are one, after some attempts.
pub fn remove_tree(parent: &Parent, name: &[u8], limits: &Limits) -> Result<u64> {
    const ATTEMPTS: usize = 3;
    let mut removed = 0;
    for _ in 1..ATTEMPTS {
        match remove_once(parent, name, limits, &mut removed) {
            Err(error) if error.is_not_empty() || error.is_raced() => {}
            done => return done.map(|()| removed),
        }
    }
    remove_once(parent, name, limits, &mut removed).map(|()| removed)
}

/// Fails if the kernel would refuse to remove `name` with everything in it. Changes nothing.
pub fn check_tree_removable(parent: &Parent, name: &[u8], limits: &Limits) -> Result<()> {
    parent.check_writable()?;
    if parent.lstat_entry(name)?.is_none_or(|stat| stat.kind != Kind::Directory) {
        return parent.check_removable(name);
    }
    let mut survey = Descent::start(parent, name, limits)?;
    loop {
        let Some(found) = survey.next()? else { return Ok(()) };
        let (Found::Leaf(name) | Found::Emptied(name)) = &found;
        let here = survey.here();
        let path = survey.path_of(b".");
        check_writable(here, path.strip_suffix(b"/.").unwrap_or(&path))?;
        check_removable(here, name, || survey.path_of(name))?;
    }
}

fn remove_once(parent: &Parent, name: &[u8], limits: &Limits, removed: &mut u64) -> Result<()> {
    let Some(stat) = parent.lstat_entry(name)? else { return Ok(()) };
    if stat.kind != Kind::Directory {
        parent.unlink(name)?;
        *removed += 1;
        return Ok(());
    }
    let mut survey = Descent::start(parent, name, limits)?;
    while survey.next()?.is_some() {}
    let mut descent = Descent::start(parent, name, limits)?;
    while let Some(found) = descent.next()? {
        let (name, flags) = match &found {
            Found::Leaf(name) => (name, AtFlags::empty()),
            Found::Emptied(name) => (name, AtFlags::REMOVEDIR),
        };
        match unlinkat(descent.here(), &**name, flags) {
            Ok(()) => *removed += 1,
            Err(Errno::NOENT) => {}
            Err(Errno::BUSY) => return Err(descent.error(Cause::MountPoint(descent.path_of(name)))),
            // What was a file is a directory now, or the other way round.
            Err(Errno::ISDIR | Errno::NOTDIR) => return Err(descent.error(Cause::Raced)),
            Err(errno) => return Err(Error::new("remove", descent.path_of(name), errno)),
        }
    }
    Ok(())
}

/// A walk through a tree, depth first, that keeps one handle per level.
struct Descent<'a> {
    parent: &'a Parent,
    name: &'a [u8],
    limits: &'a Limits,
    mount: Mount,
    seen: u64,
    levels: Vec<Level>,
}

struct Level {
    directory: OwnedFd,
    name: Box<[u8]>,
    pending: Vec<Entry>,
}

/// What the walk came to, as an entry of [`Descent::here`].
enum Found {
    /// Anything that is not entered.
    Leaf(Box<[u8]>),
    /// A directory, after everything in it.
    Emptied(Box<[u8]>),
}

impl<'a> Descent<'a> {
    fn start(parent: &'a Parent, name: &'a [u8], limits: &'a Limits) -> Result<Self> {
        let mount =
            Mount::of(parent.as_fd()).map_err(|errno| Error::new("look at", parent.path_bytes(), errno))?;
        let mut descent = Self { parent, name, limits, mount, seen: 1, levels: Vec::new() };
        descent.enter(name)?;
        Ok(descent)
    }

    /// The directory in which the last found entry is.
    fn here(&self) -> BorrowedFd<'_> {
        self.levels.last().map_or(self.parent.as_fd(), |level| level.directory.as_fd())
    }

    fn next(&mut self) -> Result<Option<Found>> {
        loop {
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            match level.pending.pop() {
                Some(entry) if entry.kind == Kind::Directory => {
                    if !self.enter(&entry.name)? {
                        return Ok(Some(Found::Leaf(entry.name)));
                    }
                }
                Some(entry) => return Ok(Some(Found::Leaf(entry.name))),
                None => return Ok(self.levels.pop().map(|level| Found::Emptied(level.name))),
            }
        }
    }

    /// Goes down into the directory `name`. False if it is no directory any more.
    fn enter(&mut self, name: &[u8]) -> Result<bool> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match openat(self.here(), name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(Error::new("open", self.path_of(name), errno)),
        };
        let mount =
            Mount::of(directory.as_fd()).map_err(|errno| Error::new("look at", self.path_of(name), errno))?;
        if mount != self.mount {
            return Err(self.error(Cause::MountPoint(self.path_of(name))));
        }
        if self.levels.len() >= self.limits.depth {
            return Err(self.error(Cause::TooDeep(self.limits.depth)));
        }
        let allowed = self.limits.entries.saturating_sub(self.seen);
        let pending = read_entries(directory.as_fd(), allowed).map_err(|cause| match cause {
            Cause::TooManyEntries(_) => self.error(Cause::TooManyEntries(self.limits.entries)),
            cause => Error::new("list", self.path_of(name), cause),
        })?;
        self.seen += pending.len() as u64;
        self.levels.push(Level { directory, name: name.into(), pending });
        Ok(true)
    }

    fn error(&self, cause: Cause) -> Error {
        self.parent.error("remove", self.name, cause)
    }

    /// The path of the entry `name` where the walk is.
    fn path_of(&self, name: &[u8]) -> Box<[u8]> {
        let mut names = self.levels.iter().map(|level| &*level.name).chain([name]);
        let mut path = self.parent.path_of(names.next().unwrap_or(name)).into_vec();
        for below in names {
            path.push(b'/');
            path.extend_from_slice(below);
        }
        path.into()
    }
}

/// Which mount a directory belongs to. Before Linux 5.8 only the device is known, which does not tell apart two places
/// where the same file system is mounted.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mount {
    id: Option<u64>,
    device: (u32, u32),
}

impl Mount {
    fn of(fd: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        match statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE | StatxFlags::MNT_ID) {
            Ok(got) => {
                let known = StatxFlags::from_bits_retain(got.stx_mask).contains(StatxFlags::MNT_ID);
                Ok(Self {
                    id: known.then_some(got.stx_mnt_id),
                    device: (got.stx_dev_major, got.stx_dev_minor),
                })
            }
            Err(Errno::NOSYS | Errno::PERM) => {
                let device = Stat::from(fstat(fd)?).device;
                Ok(Self { id: None, device: (rustix::fs::major(device), rustix::fs::minor(device)) })
            }
            Err(errno) => Err(errno),
        }
    }
}

/// Reads at most `limit` entries, in the order of the file system.
fn read_entries(directory: BorrowedFd<'_>, limit: u64) -> Result<Vec<Entry>, Cause> {
    let mut buffer = vec![MaybeUninit::uninit(); 32 * 1024];
    let mut entries = Vec::new();
    let mut reader = RawDir::new(directory, &mut buffer);
    while let Some(entry) = reader.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if entries.len() as u64 >= limit {
            return Err(Cause::TooManyEntries(limit));
        }
        let mut kind = Kind::from(entry.file_type());
        if kind == Kind::Unknown {
            // Some file systems do not tell in the listing.
            kind = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(raw) => Stat::from(raw).kind,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
        }
        entries.push(Entry { name: name.into(), kind });
    }
    Ok(entries)
}
