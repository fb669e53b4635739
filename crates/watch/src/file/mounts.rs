//! The mount table. Mounting over a directory changes what a path means, and a remount what can be written; inotify reports
//! neither.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};

use mgmt_sys::mount_table::unescape;
use rustc_hash::{FxHashMap, FxHashSet};

/// The mounts as they were when last asked.
pub(super) struct Mounts {
    file: File,
    /// Mount point by line: a mount with other options has another line.
    known: FxHashMap<Vec<u8>, Vec<u8>>,
}

impl Mounts {
    /// Nothing where there is no `/proc`; then mounts go unnoticed.
    pub(super) fn open() -> Option<Mounts> {
        let mut mounts =
            Mounts { file: File::open("/proc/self/mountinfo").ok()?, known: FxHashMap::default() };
        mounts.changed();
        Some(mounts)
    }

    /// Asks the kernel to wake us by an exceptional condition on this descriptor when a mount changes.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The mount points where something was mounted, remounted or unmounted since the last call.
    pub(super) fn changed(&mut self) -> FxHashSet<Vec<u8>> {
        let mut text = Vec::new();
        if self.file.rewind().is_err() || self.file.read_to_end(&mut text).is_err() {
            return FxHashSet::default();
        }
        let now: FxHashMap<Vec<u8>, Vec<u8>> =
            text.split(|&byte| byte == b'\n').filter_map(parse_line).collect();
        let mut changed: FxHashSet<Vec<u8>> = FxHashSet::default();
        for (one, other) in [(&now, &self.known), (&self.known, &now)] {
            changed.extend(one.iter().filter(|(key, _)| !other.contains_key(*key)).map(|(_, at)| at.clone()));
        }
        self.known = now;
        changed
    }
}

/// The line and its fifth field, the mount point, of `36 35 98:0 /root /mnt/point rw,noatime - ext3 /dev/root rw`.
fn parse_line(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut ends = line.iter().enumerate().filter(|(_, byte)| **byte == b' ').map(|(at, _)| at);
    let (fourth, fifth) = (ends.nth(3)?, ends.next()?);
    Some((line.to_vec(), unescape(&line[fourth + 1..fifth])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_line_gives_its_mount_point() {
        let line = br"36 35 98:0 /mnt1 /mnt/with\040blank rw,noatime - ext3 /dev/root rw";
        let (key, point) = parse_line(line).unwrap();
        assert_eq!(point, b"/mnt/with blank");
        assert_eq!(key, line, "other options are another line");
    }

    #[test]
    fn a_strange_mount_line_is_skipped() {
        assert_eq!(parse_line(b""), None);
        assert_eq!(parse_line(b"36 35 98:0"), None);
    }
}
