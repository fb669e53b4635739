//! What the system allows, raised for the comparison and put back after it.
//!
//! The program in Go needs an inotify instance and some descriptors for each file, of which a user has few. Nobody else
//! needs more than a system has.

use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limits of the kernel, as they were.
pub(crate) struct Limits {
    before: Vec<(PathBuf, String)>,
}

impl Limits {
    /// Raises what is too low for so many files, if that is allowed.
    pub(crate) fn raise(files: usize) -> Limits {
        let mut limits = Limits { before: Vec::new() };
        let instances = files + 1_000;
        limits.set("max_user_instances", instances);
        limits.set("max_user_watches", instances * 20);
        descriptors(instances * 8);
        limits
    }

    fn set(&mut self, name: &str, least: usize) {
        let path = PathBuf::from("/proc/sys/fs/inotify").join(name);
        let Ok(before) = std::fs::read_to_string(&path) else { return };
        if before.trim().parse::<usize>().is_ok_and(|before| before >= least) {
            return;
        }
        match std::fs::write(&path, least.to_string()) {
            Ok(()) => {
                println!("{}: {least} for this run, {} before and after it", path.display(), before.trim());
                self.before.push((path, before));
            }
            Err(error) => println!("{}: stays {}: {error}", path.display(), before.trim()),
        }
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for (path, before) in &self.before {
            if let Err(error) = std::fs::write(path, before) {
                println!("{}: cannot be set to {} again: {error}", path.display(), before.trim());
            }
        }
    }
}

/// Descriptors of this process and of all that it starts.
fn descriptors(least: usize) {
    let least = least as u64;
    let before = getrlimit(Resource::Nofile);
    // None is no limit.
    let higher = |limit: Option<u64>| limit.map(|limit| limit.max(least));
    let raised = Rlimit { current: higher(before.current), maximum: higher(before.maximum) };
    if setrlimit(Resource::Nofile, raised).is_err() {
        println!("descriptors: stay {:?}", before.maximum);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    }
}
