//! Which claimed paths lie in a directory that is purged or tidied, also those that lead there through a symbolic link, through `..` or
//! through a bind mount.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use mgmt_sys::ManagedPath;
use mgmt_sys::mount_table::unescape;
use mgmt_value::Str;

/// Which mounts there are.
const MOUNT_TABLE: &str = "/proc/self/mountinfo";

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
    mounts: Mounts,
    /// Where the root is in its file system, if that is mounted more than once.
    location: Option<Location>,
    /// Directories without links.
    resolved: HashMap<ManagedPath, PathBuf>,
}

impl<'a> ClaimedBelow<'a> {
    pub(crate) fn new(root: &'a ManagedPath) -> ClaimedBelow<'a> {
        let mounts = Mounts::read();
        let real_root = std::fs::canonicalize(root.as_os_str()).ok();
        let location = real_root.as_ref().map(|real| mounts.location(real));
        let location = location.filter(|location| mounts.count(location) > 1);
        ClaimedBelow { root, real_root, mounts, location, resolved: HashMap::new() }
    }

    /// Shows where a claimed path is within the root, the root itself included, as it is called there: as it is written, and with the links
    /// and bind mounts on the way to it followed.
    pub(crate) fn places(&mut self, claimed: &Str, mut show: impl FnMut(Vec<u8>)) {
        let Ok(path) = ManagedPath::new(claimed) else { return };
        let written = path.without_slash();
        if written == self.root.without_slash() || self.root.contains(&path) {
            show(written.to_vec());
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
        let real = self.resolve(&parent).join(OsStr::from_bytes(name));
        // Behind a link, `..` leads elsewhere than its letters say.
        let goes_back = claimed.split(|byte| *byte == b'/').any(|part| part == b"..");
        let other = goes_back.then(|| std::fs::canonicalize(claimed.as_path()).ok()).flatten();
        for real in [Some(real), other].into_iter().flatten() {
            self.place(&real).filter(|place| place != written).into_iter().for_each(&mut show);
        }
    }

    /// What a path without links is called within the root.
    fn place(&self, real: &Path) -> Option<Vec<u8>> {
        let mounted = self.location.as_ref().map(|root| (root, self.mounts.location(real)));
        let below = match &mounted {
            Some((root, location)) => {
                location.path.strip_prefix(&root.path).ok().filter(|_| location.device == root.device)?
            }
            None => real.strip_prefix(self.real_root.as_ref()?).ok()?,
        };
        let mut place = Path::new(OsStr::from_bytes(self.root.without_slash())).to_owned();
        // Joining nothing would add a slash.
        if !below.as_os_str().is_empty() {
            place.push(below);
        }
        Some(place.into_os_string().into_vec())
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

/// A place in a file system, whatever it is called: the same for all bind mounts of it.
#[derive(Debug, PartialEq)]
struct Location {
    device: Vec<u8>,
    path: PathBuf,
}

/// What is mounted where: mount point, device, and the directory of the file system that is seen there.
struct Mounts(Vec<(PathBuf, Vec<u8>, PathBuf)>);

impl Mounts {
    /// Without a table, each path is a place of its own.
    fn read() -> Mounts {
        Mounts::parse(&std::fs::read(MOUNT_TABLE).unwrap_or_default())
    }

    fn parse(table: &[u8]) -> Mounts {
        let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescape(field)));
        let mount = |line: &[u8]| {
            let mut fields = line.split(|byte| *byte == b' ').skip(2);
            let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
            Some((path(point), device.to_vec(), path(root)))
        };
        Mounts(table.split(|byte| *byte == b'\n').filter_map(mount).collect())
    }

    /// How often the file system of a place is mounted.
    fn count(&self, location: &Location) -> usize {
        self.0.iter().filter(|(_, device, _)| *device == location.device).count()
    }

    fn location(&self, real: &Path) -> Location {
        // Of mounts at one point, the last hides the others.
        let above = self.0.iter().filter(|(point, ..)| real.starts_with(point));
        let mount = above.max_by_key(|(point, ..)| point.as_os_str().len());
        let inside =
            mount.and_then(|(point, device, root)| Some((device, root, real.strip_prefix(point).ok()?)));
        match inside {
            Some((device, root, below)) => Location { device: device.clone(), path: root.join(below) },
            None => Location { device: Vec::new(), path: real.to_owned() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_same_below_each_of_its_bind_mounts() {
        let table = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
            2 1 8:2 / /data rw - ext4 /dev/sda2 rw\n\
            3 1 8:2 /home\\040dirs /home rw shared:1 - ext4 /dev/sda2 rw\n\
            4 1 0:5 / /hidden rw - tmpfs a rw\n\
            5 1 0:6 / /hidden rw - tmpfs b rw\n";
        let mounts = Mounts::parse(table);
        let at = |path: &str| mounts.location(Path::new(path));
        assert_eq!(at("/home/u/x"), at("/data/home dirs/u/x"));
        assert_eq!(at("/home"), at("/data/home dirs"));
        assert_ne!(at("/home/u"), at("/homes/u"));
        assert_eq!(at("/homes/u"), Location { device: b"8:1".to_vec(), path: "/homes/u".into() });
        assert_eq!([mounts.count(&at("/data")), mounts.count(&at("/"))], [2, 1]);
        assert_eq!(at("/hidden/x").device, b"0:6");
        assert_eq!(Mounts::parse(b"").location(Path::new("/a")).path, Path::new("/a"));
    }
}
