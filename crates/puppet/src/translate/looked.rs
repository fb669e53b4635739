//! What a translation has looked at on this host, besides what was compiled.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A path of this host, as it was when a catalogue was translated. If it is another one later, the translation may be, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    path: PathBuf,
    whole: bool,
    seen: Option<Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Directory,
    /// Something else, of which only that it is there counts.
    There,
    /// A file whose content counts: device, number, size, and the times of its last changes.
    Content([u64; 3], [i64; 4]),
}

impl Looked {
    /// Whether there is something counts, and whether it is a directory.
    pub(super) fn for_presence(path: &Path) -> Looked {
        Looked { path: path.to_owned(), whole: false, seen: seen(path, false) }
    }

    /// What is in it counts. To be asked before it is read, so that no change gets lost in between.
    pub(super) fn for_content(path: &Path) -> Looked {
        Looked { path: path.to_owned(), whole: true, seen: seen(path, true) }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is still what it was.
    pub fn is_as_before(&self) -> bool {
        seen(&self.path, self.whole) == self.seen
    }
}

fn seen(path: &Path, whole: bool) -> Option<Seen> {
    let stat = path.metadata().ok()?;
    Some(match () {
        () if stat.is_dir() => Seen::Directory,
        () if !whole => Seen::There,
        () => Seen::Content(
            [stat.dev(), stat.ino(), stat.size()],
            [stat.mtime(), stat.mtime_nsec(), stat.ctime(), stat.ctime_nsec()],
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_noticed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a");
        let absent = Looked::for_presence(&file);
        assert!(absent.is_as_before());
        std::fs::write(&file, "one").unwrap();
        assert!(!absent.is_as_before());
        let (presence, content) = (Looked::for_presence(&file), Looked::for_content(&file));
        std::fs::write(&file, "other").unwrap();
        assert!(presence.is_as_before() && !content.is_as_before());
        let directory = Looked::for_content(place.path());
        std::fs::write(place.path().join("b"), "").unwrap();
        assert!(directory.is_as_before());
    }
}
