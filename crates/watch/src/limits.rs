//! The kernel's limits on inotify.

use std::io;
use std::path::Path;

/// How many inotify instances one user may have once [`raise_limits`] succeeded.
pub const WANTED_INSTANCES: u64 = 512;
/// How many watches one user may have once [`raise_limits`] succeeded.
pub const WANTED_WATCHES: u64 = 242_940;

pub(crate) const INSTANCES: &str = "fs.inotify.max_user_instances";
pub(crate) const WATCHES: &str = "fs.inotify.max_user_watches";

/// Raises the limits of inotify to values that carry a large graph, where they are lower.
///
/// Never lowers one. Failing is no disaster: the hub falls back to scanning when watches run out.
pub fn raise_limits() -> io::Result<()> {
    raise_under(Path::new("/proc/sys"))
}

fn raise_under(root: &Path) -> io::Result<()> {
    let mut result = Ok(());
    for (sysctl, wanted) in [(INSTANCES, WANTED_INSTANCES), (WATCHES, WANTED_WATCHES)] {
        let path = root.join(sysctl.replace('.', "/"));
        let raised = match read(&path) {
            Ok(current) if current >= wanted => Ok(()),
            Ok(_) => std::fs::write(&path, format!("{wanted}\n")),
            Err(error) => Err(error),
        };
        if let Err(error) = raised {
            result = Err(io::Error::new(error.kind(), format!("cannot raise {sysctl} to {wanted}: {error}")));
        }
    }
    result
}

/// The current value of a limit, if it can be read.
pub(crate) fn current(sysctl: &str) -> Option<u64> {
    read(&Path::new("/proc/sys").join(sysctl.replace('.', "/"))).ok()
}

fn read(path: &Path) -> io::Result<u64> {
    std::fs::read_to_string(path)?.trim().parse().map_err(|_| io::Error::other("not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_limits_are_raised_and_high_ones_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("fs/inotify");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("max_user_instances"), "128\n").unwrap();
        std::fs::write(directory.join("max_user_watches"), "9999999\n").unwrap();
        raise_under(root.path()).unwrap();
        assert_eq!(read(&directory.join("max_user_instances")).unwrap(), WANTED_INSTANCES);
        assert_eq!(read(&directory.join("max_user_watches")).unwrap(), 9_999_999);
    }

    #[test]
    fn a_limit_that_cannot_be_raised_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = raise_under(root.path()).unwrap_err();
        assert!(error.to_string().contains(WATCHES), "{error}");
    }
}
