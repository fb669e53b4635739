//! What is remembered from one run to the next, so that an event behind which nothing changed costs no reading.
//!
//! The kernel stamps every change of a file with the time (ctime), but the clock for it ticks: two changes within one
//! tick carry the same stamp. A file that is read between two such changes would look unchanged for ever. So what was
//! read is only remembered if, when it was read, the last change was long past: any later change then has a later
//! stamp. A file that we have just written is therefore read once more at the next check.
//!
//! What this cannot see is a process that had mapped the file for writing before we read it and writes again through
//! a page that is still waiting to be stored. Nothing tells of such a write, no event either, until the page is stored.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroU64;

use mgmt_sys::stat::{Stat, Timestamp};
use mgmt_value::Str;
use rustix::time::{ClockId, clock_gettime};
use sha2::{Digest as _, Sha256};

use super::File;
use super::download::Asked;

/// How long the last change must be past. The coarsest time that file systems store is two seconds.
const SETTLED: i64 = 3;

/// The memory of one `file` resource. There may be a hundred thousand of them, so it is kept small.
#[derive(Default)]
pub struct Memory {
    /// The parameters that it is about: a digest of all but the content, and the content, which is shared.
    parameters: u64,
    content: Option<Str>,
    pub(super) verified: Verified,
    /// Of a source that is at an address.
    pub(super) asked: Option<Box<Asked>>,
}

impl Memory {
    /// Forgets everything if it was about other parameters: a received value may have changed them.
    pub(super) fn be_about(&mut self, file: &File, name: &Str) {
        let parameters = fingerprint(file, name);
        if self.parameters != parameters || self.content != file.content {
            *self = Memory { parameters, content: file.content.clone(), ..Memory::default() };
        }
    }
}

/// A digest of the name and of every parameter but the content.
fn fingerprint(file: &File, name: &Str) -> u64 {
    // Taken apart by name, so that a new parameter cannot be forgotten here.
    let File {
        path,
        dirname,
        basename,
        state,
        content: _,
        source,
        fragments,
        owner,
        group,
        mode,
        recurse,
        force,
        purge,
        symlink,
        selinux,
        atomic,
        modechange,
        createonly,
        validatecmd,
        backup,
        sourcemode,
        spread,
        keepdirectories,
        instead,
        anytype,
        // What is told makes no difference to what is there.
        showdiff: _,
        bucket,
        checksum,
        mirrors,
        authorities,
        refetch,
        keep,
    } = file;
    let mut hasher = DefaultHasher::new();
    (name, path, dirname, basename, state, source, fragments).hash(&mut hasher);
    (owner, group, mode, recurse, force, purge, symlink, selinux, atomic).hash(&mut hasher);
    (modechange, createonly, validatecmd, backup, sourcemode, spread, keepdirectories, instead, bucket)
        .hash(&mut hasher);
    (anytype, checksum, mirrors, authorities, refetch, keep).hash(&mut hasher);
    hasher.finish()
}

/// Which content has been found right.
#[derive(Default)]
pub(super) struct Verified {
    /// A digest of the file itself and of what its content was compared with.
    single: Option<NonZeroU64>,
    /// The same for the files of a tree, one for each pair.
    #[expect(clippy::box_collection, reason = "most resources are no trees")]
    files: Option<Box<HashSet<u128>>>,
}

/// The present, to judge later whether a change was long past. Taken before the file is looked at.
#[derive(Clone, Copy)]
pub(super) struct Moment(i64);

impl Moment {
    pub(super) fn now() -> Moment {
        Moment(clock_gettime(ClockId::RealtimeCoarse).tv_sec)
    }

    fn is_long_after(self, change: Timestamp) -> bool {
        change.seconds < self.0.saturating_sub(SETTLED)
    }
}

impl Verified {
    /// Whether anything at all is remembered, so that looking first is worth a call.
    pub(super) fn is_empty(&self) -> bool {
        self.single.is_none()
    }

    /// Whether `target` was found to have the content of `inputs` when all of them were as they are now.
    pub(super) fn holds(&self, target: &Stat, inputs: &[Stat]) -> bool {
        self.single.is_some_and(|seen| seen == digest_all(target, inputs))
    }

    pub(super) fn keep(&mut self, target: &Stat, inputs: &[Stat], looked: Moment) {
        let settled = std::iter::once(target).chain(inputs).all(|stat| looked.is_long_after(stat.changed));
        self.single = settled.then(|| digest_all(target, inputs));
    }

    /// Starts a walk through a tree. What is not found again is forgotten with the old one.
    pub(super) fn turn_page(&mut self) -> HashSet<u128> {
        self.files.take().map(|files| *files).unwrap_or_default()
    }

    /// Remembers a file of a tree and its source. Tells whether `before` knew them.
    pub(super) fn keep_known(&mut self, before: &HashSet<u128>, target: &Stat, source: &Stat) -> bool {
        let digest = digest(target, source);
        let known = before.contains(&digest);
        if known {
            self.files.get_or_insert_default().insert(digest);
        }
        known
    }

    /// Remembers that a file of a tree was found to be as its source.
    pub(super) fn keep_file(&mut self, target: &Stat, source: &Stat, looked: Moment) {
        if looked.is_long_after(target.changed) && looked.is_long_after(source.changed) {
            self.files.get_or_insert_default().insert(digest(target, source));
        }
    }
}

/// Tells versions of a file apart, not attackers: whoever can choose all of these numbers can change the file.
fn digest_all(target: &Stat, inputs: &[Stat]) -> NonZeroU64 {
    let mut hasher = DefaultHasher::new();
    for stat in std::iter::once(target).chain(inputs) {
        stat.hash(&mut hasher);
    }
    NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN)
}

fn digest(target: &Stat, source: &Stat) -> u128 {
    let mut hash = Sha256::new();
    for stat in [target, source] {
        for number in [stat.device, stat.inode, stat.size, stat.links] {
            hash.update(number.to_le_bytes());
        }
        for number in [stat.mode, stat.uid, stat.gid] {
            hash.update(number.to_le_bytes());
        }
        for time in [stat.modified, stat.changed] {
            hash.update(time.seconds.to_le_bytes());
            hash.update(time.nanoseconds.to_le_bytes());
        }
    }
    let bytes = hash.finalize();
    let mut half = [0; 16];
    half.copy_from_slice(&bytes[..16]);
    u128::from_le_bytes(half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgmt_sys::stat::Kind;

    fn stat(changed: i64) -> Stat {
        let time = Timestamp { seconds: changed, nanoseconds: 7 };
        Stat {
            device: 1,
            inode: 2,
            kind: Kind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
            size: 3,
            links: 1,
            modified: time,
            changed: time,
        }
    }

    #[test]
    fn a_file_that_changed_a_moment_ago_is_not_remembered() {
        let mut verified = Verified::default();
        for (age, remembered) in [(-5, false), (0, false), (1, false), (SETTLED, false), (SETTLED + 1, true)]
        {
            verified.keep(&stat(1000 - age), &[], Moment(1000));
            assert_eq!(verified.holds(&stat(1000 - age), &[]), remembered, "{age}");
        }
    }

    #[test]
    fn every_property_of_every_side_is_compared() {
        let mut verified = Verified::default();
        let (target, source) = (stat(1), stat(2));
        verified.keep(&target, &[source], Moment(1000));
        assert!(verified.holds(&target, &[source]));
        assert!(!verified.holds(&target, &[]));
        assert!(!verified.holds(&source, &[source]));
        for other in [
            Stat { inode: 9, ..target },
            Stat { size: 9, ..target },
            Stat { mode: 0, ..target },
            Stat { uid: 9, ..target },
            Stat { changed: Timestamp { seconds: 1, nanoseconds: 8 }, ..target },
        ] {
            assert!(!verified.holds(&other, &[source]));
            assert!(!verified.holds(&target, &[other]));
            assert_ne!(digest(&other, &source), digest(&target, &source));
            assert_ne!(digest(&target, &other), digest(&target, &source));
        }
        verified.keep(&target, &[stat(999)], Moment(1000));
        assert!(verified.is_empty(), "a young source");
    }

    #[test]
    fn the_files_of_a_tree_are_forgotten_unless_they_are_met_again() {
        let mut verified = Verified::default();
        verified.keep_file(&stat(1), &stat(2), Moment(1000));
        verified.keep_file(&stat(3), &stat(4), Moment(1000));
        verified.keep_file(&stat(999), &stat(4), Moment(1000));
        let before = verified.turn_page();
        assert_eq!(before.len(), 2);
        assert!(verified.keep_known(&before, &stat(1), &stat(2)));
        assert!(!verified.keep_known(&before, &stat(2), &stat(1)));
        let before = verified.turn_page();
        assert_eq!(before.len(), 1);
        assert!(!verified.keep_known(&before, &stat(3), &stat(4)));
    }
}
