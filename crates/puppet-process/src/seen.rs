//! What a compile has read, as it was when it was read: whether it is still the same can be found out without compiling again.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// What was read, and when that began.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Seen {
    /// Nanoseconds since 1970. Nothing was read before.
    began: i64,
    /// Each file as it was right before it was read for the first time.
    stamps: BTreeMap<PathBuf, Option<Stamp>>,
}

/// What tells one version of a file from another: device, number, size, and when its content and its state were changed, in
/// nanoseconds.
pub(crate) type Stamp = (u64, u64, u64, i64, i64);

/// Clocks of file systems tick, and what is written twice within a tick looks the same. A file that was changed so shortly before it was read
/// counts as another one.
const TICK: i64 = 100_000_000;

/// The same for file systems that only know seconds.
const COARSE_TICK: i64 = 2_000_000_000;

impl Seen {
    /// Whether something is other than it was: a file that was read, one that was not there, or anything in a directory.
    pub fn is_outdated<'a>(
        &self,
        files: impl IntoIterator<Item = &'a Path>,
        directories: impl IntoIterator<Item = &'a Path>,
    ) -> bool {
        let is_other = |(path, then): (&PathBuf, &Option<Stamp>)| match (then, stamp(path)) {
            (Some(then), Some(now)) => *then != now || self.is_late(now.4),
            (None, None) => false,
            _ => true,
        };
        // Whatever was not read was looked for in vain, or nobody cared what is in it.
        let has_come = |path: &Path| !self.stamps.contains_key(path) && path.exists();
        self.stamps.iter().any(is_other)
            || files.into_iter().any(has_come)
            || directories.into_iter().any(|path| self.has_news(path))
    }

    /// Whether a moment is not safely before the compile.
    fn is_late(&self, changed: i64) -> bool {
        let tick = if changed % 1_000_000_000 == 0 { COARSE_TICK } else { TICK };
        changed > self.began - tick
    }

    /// Whether something in a directory was changed, made or removed.
    fn has_news(&self, directory: &Path) -> bool {
        let mut left = vec![directory.to_owned()];
        while let Some(path) = left.pop() {
            let Ok(found) = path.symlink_metadata() else { return true };
            if self.is_late(changed(&found)) {
                return true;
            }
            if found.is_dir() {
                left.extend(
                    std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()),
                );
            }
        }
        false
    }
}

pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    let found = path.metadata().ok()?;
    let written = nanoseconds(found.mtime(), found.mtime_nsec());
    Some((found.dev(), found.ino(), found.size(), written, changed(&found)))
}

fn changed(found: &std::fs::Metadata) -> i64 {
    nanoseconds(found.ctime(), found.ctime_nsec())
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a compile has seen that begins long after everything was written.
    fn seen(files: &[&Path]) -> Seen {
        let stamps: BTreeMap<PathBuf, Option<Stamp>> =
            files.iter().map(|path| ((*path).to_owned(), stamp(path))).collect();
        let latest = stamps.values().flatten().map(|stamp| stamp.4).max().unwrap_or_default();
        Seen { began: latest + 10 * COARSE_TICK, stamps }
    }

    #[test]
    fn what_is_as_it_was_is_not_outdated_and_anything_else_is() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let (file, absent, tree) = (at("site.pp"), at("hiera.yaml"), at("modules"));
        std::fs::create_dir_all(tree.join("m/manifests")).unwrap();
        std::fs::write(tree.join("m/manifests/init.pp"), "class m {}").unwrap();
        std::fs::write(&file, "one").unwrap();
        let known = seen(&[&file]);
        let look = |known: &Seen| known.is_outdated([file.as_path(), &absent], [tree.as_path()]);
        assert!(!look(&known));
        // Another file of the same size and time in its place.
        let time = file.metadata().unwrap().modified().unwrap();
        std::fs::write(at("new"), "two").unwrap();
        std::fs::File::options().write(true).open(at("new")).unwrap().set_modified(time).unwrap();
        std::fs::rename(at("new"), &file).unwrap();
        assert!(look(&known));
        let known = seen(&[&file]);
        assert!(!look(&known));
        std::fs::write(&absent, "").unwrap();
        assert!(look(&known));
        std::fs::remove_file(&absent).unwrap();
        assert!(!look(&known));
        std::fs::remove_file(&file).unwrap();
        assert!(look(&known));
    }

    #[test]
    fn what_was_written_in_the_same_tick_as_it_was_read_is_looked_at_again() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("site.pp");
        std::fs::write(&file, "one").unwrap();
        let known = seen(&[&file]);
        let began = stamp(&file).unwrap().4 + TICK / 2;
        assert!(Seen { began, ..known.clone() }.is_outdated([file.as_path()], []));
        // So is what is in a directory.
        assert!(Seen { began, stamps: BTreeMap::new() }.is_outdated([], [place.path()]));
        assert!(!known.is_outdated([], [place.path()]));
    }
}
