//! Which claimed paths lie in a directory that is purged or tidied, also those that lead there through a symbolic link.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use mgmt_sys::ManagedPath;

/// The paths that stand for all that begin like them, without the `*` at their ends.
pub(crate) fn beginnings<'a>(paths: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<Vec<u8>> {
    paths.into_iter().filter_map(|path| path.strip_suffix(b"*").map(<[u8]>::to_vec)).collect()
}

/// Whether a path is one of those beginnings with any ending.
pub(crate) fn begins_like(path: &[u8], beginnings: &[Vec<u8>]) -> bool {
    let ending =
        |beginning: &Vec<u8>| path.strip_prefix(beginning.as_slice()).map(|rest| !rest.contains(&b'/'));
    beginnings.iter().any(|beginning| ending(beginning) == Some(true))
}

/// A directory that is purged or tidied.
pub(crate) struct ClaimedBelow<'a> {
    root: &'a ManagedPath,
    /// The same without links. Nothing if it is not there.
    real_root: Option<PathBuf>,
    /// Directories without links.
    resolved: HashMap<ManagedPath, PathBuf>,
}

impl<'a> ClaimedBelow<'a> {
    pub(crate) fn new(root: &'a ManagedPath) -> ClaimedBelow<'a> {
        let real_root = std::fs::canonicalize(root.as_os_str()).ok();
        ClaimedBelow { root, real_root, resolved: HashMap::new() }
    }

    /// Shows where a path is within the root, the root itself included, as it is called there: as it is written, and with the links on the
    /// way to it followed.
    pub(crate) fn places(&mut self, path: &ManagedPath, mut show: impl FnMut(Vec<u8>)) {
        let written = path.without_slash();
        if written == self.root.without_slash() || self.root.contains(path) {
            show(written.to_vec());
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
        let real = self.resolve(&parent).join(OsStr::from_bytes(name));
        let Some(below) = self.real_root.as_ref().and_then(|root| real.strip_prefix(root).ok()) else {
            return;
        };
        let mut place = Path::new(OsStr::from_bytes(self.root.without_slash())).to_owned();
        // Joining nothing would add a slash.
        if !below.as_os_str().is_empty() {
            place.push(below);
        }
        let place = place.into_os_string().into_vec();
        if place != written {
            show(place);
        }
    }

    /// A directory with links followed as far as it is there.
    fn resolve(&mut self, directory: &ManagedPath) -> PathBuf {
        if let Some(known) = self.resolved.get(directory) {
            return known.clone();
        }
        let resolved = match (std::fs::canonicalize(directory.as_os_str()), directory.parent()) {
            (Ok(real), _) => real,
            (Err(_), Some(above)) => {
                self.resolve(&above).join(OsStr::from_bytes(directory.file_name().unwrap_or_default()))
            }
            (Err(_), None) => PathBuf::from("/"),
        };
        self.resolved.insert(directory.clone(), resolved.clone());
        resolved
    }
}
