//! A clock that a test sets for one program, and that nobody else sees.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The clock on the wall, as a program sees it. The one that only counts goes on as ever.
pub struct Clock {
    file: PathBuf,
}

impl Clock {
    /// A clock that goes right as yet, with its file in this directory.
    pub fn new(directory: &Path) -> Clock {
        let clock = Clock { file: directory.join("clock") };
        clock.set("+0");
        clock
    }

    /// Sets it so far from the real time, in seconds, or in days as `+7d`.
    pub fn set(&self, step: &str) {
        // In one step, so that it is never read half-written.
        let next = self.file.with_extension("next");
        std::fs::write(&next, step).unwrap();
        std::fs::rename(&next, &self.file).unwrap();
    }

    /// Has a program look at this clock.
    pub fn given_to(&self, command: &mut Command) {
        let library = std::fs::read_dir("/usr/lib")
            .unwrap()
            .filter_map(|entry| Some(entry.ok()?.path().join("faketime/libfaketimeMT.so.1")))
            .find(|path| path.exists())
            .unwrap_or_else(|| panic!("the Debian package `faketime` is missing: run `cargo xtask setup`"));
        command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &self.file);
        command.env("FAKETIME_NO_CACHE", "1");
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    }
}
