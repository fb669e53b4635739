//! What a path looks like, for paths that cannot be watched.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgmt_sys::unresponsive::unresponsive_mount;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// The signature of a path on a mount whose server does not answer.
const UNRESPONSIVE: u64 = u64::MAX;
/// How many entries one look at a tree takes in. What lies beyond is not seen until real watches are back.
const ENTRIES: usize = 200_000;

/// Changes younger than this may be followed by another one with the same time stamp.
const SAME_TICK: Duration = Duration::from_millis(50);

/// A number that changes when the state of a path does: existence, identity, size, times, mode, owner; for a
/// directory also the state of its entries, at any depth if `recursive`.
///
/// A state so young that a later change could carry the same time stamps gives a number of its own, so that
/// the next look differs.
pub(super) fn signature(path: &[u8], recursive: bool) -> u64 {
    if unresponsive_mount(path).is_some() {
        return UNRESPONSIVE;
    }
    let mut look = Look { sum: 0, left: ENTRIES, now: now(), young: false };
    let mut pending = vec![path.to_vec()];
    match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            look.add(b"", b"", &stat);
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                pending.clear();
            }
        }
        Err(errno) => {
            look.sum = errno.raw_os_error() as u64;
            pending.clear();
        }
    }
    while let Some(directory) = pending.pop() {
        let below = look.entries(&directory).unwrap_or_default();
        if recursive {
            pending.extend(below);
        }
    }
    if look.young {
        static UNIQUE: AtomicU64 = AtomicU64::new(1);
        look.sum ^= UNIQUE.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    look.sum
}

struct Look {
    sum: u64,
    left: usize,
    now: Duration,
    young: bool,
}

impl Look {
    /// Takes the entries of a directory in; gives the directories among them.
    fn entries(&mut self, path: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
        if unresponsive_mount(path).is_some() {
            return Err(Errno::IO);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let mut below = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let stat = rustix::fs::statat(directory.as_fd(), entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            let Ok(stat) = stat else { continue };
            self.add(path, name, &stat);
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                below.push(join(path, name));
            }
        }
        Ok(below)
    }

    /// Sums are used because directories list their entries in no order.
    fn add(&mut self, directory: &[u8], name: &[u8], stat: &Stat) {
        let mut hasher = DefaultHasher::new();
        (directory, name).hash(&mut hasher);
        (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mode, stat.st_uid, stat.st_gid).hash(&mut hasher);
        (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec).hash(&mut hasher);
        self.sum = self.sum.wrapping_add(hasher.finish());
        let changed = Duration::new(
            u64::try_from(stat.st_ctime).unwrap_or(0),
            u32::try_from(stat.st_ctime_nsec).unwrap_or(0).min(999_999_999),
        );
        self.young |= self.now.abs_diff(changed) < SAME_TICK;
    }
}

/// Appends a name to a path.
pub(super) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    path.extend_from_slice(directory);
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The directories directly in a directory; links are not followed.
pub(super) fn subdirectories(path: &[u8]) -> Result<Vec<Box<[u8]>>, Errno> {
    if unresponsive_mount(path).is_some() {
        return Err(Errno::IO);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let is_directory = match entry.file_type() {
            FileType::Directory => name != b"." && name != b"..",
            FileType::Unknown => {
                rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
                    && name != b"."
                    && name != b".."
            }
            _ => false,
        };
        if is_directory {
            found.push(name.into());
        }
    }
    Ok(found)
}

/// File times come from the wall clock, so they are compared with it; a step of it costs a needless look.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    /// A file old enough that its signature is its own.
    fn settle() {
        std::thread::sleep(SAME_TICK * 2);
    }

    #[test]
    fn a_signature_changes_with_the_state_and_only_with_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("d");
        let look = |recursive| {
            settle();
            signature(path.as_os_str().as_bytes(), recursive)
        };
        let missing = look(true);
        assert_eq!(look(true), missing);
        std::fs::create_dir_all(path.join("below")).unwrap();
        let (flat, deep) = (look(false), look(true));
        assert_ne!(deep, missing);
        assert_eq!((look(false), look(true)), (flat, deep));
        std::fs::write(path.join("below/file"), "1").unwrap();
        assert_ne!(look(true), deep);
        let (flat, deep) = (look(false), look(true));
        std::fs::write(path.join("below/file"), "2").unwrap();
        assert_eq!(look(false), flat, "the content of a file two levels down is not part of a flat look");
        assert_ne!(look(true), deep);
    }

    #[test]
    fn a_young_state_never_looks_the_same_twice() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("f");
        // A step of the clock between the two lines would make this fail; write again, then.
        let differed = (0..5).any(|_| {
            std::fs::write(&path, "1").unwrap();
            signature(path.as_os_str().as_bytes(), false) != signature(path.as_os_str().as_bytes(), false)
        });
        assert!(differed);
    }
}
