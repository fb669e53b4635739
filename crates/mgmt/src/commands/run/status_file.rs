//! The file that says whether the graph has converged.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Appends a line for each transition. The file is opened anew each time, so it may be moved away meanwhile.
#[derive(Debug)]
pub(super) struct StatusFile(PathBuf);

impl StatusFile {
    /// Makes the file if need be, to find out early that it cannot be written.
    pub(super) fn new(path: PathBuf) -> io::Result<StatusFile> {
        let file = StatusFile(path);
        file.append("")?;
        Ok(file)
    }

    pub(super) fn converged(&self, yes: bool) {
        if let Err(error) = self.append(if yes { "true\n" } else { "false\n" }) {
            tracing::warn!("cannot write to the status file {}: {error}", self.0.display());
        }
    }

    fn append(&self, line: &str) -> io::Result<()> {
        // A link in its place is not followed, because others may be able to write to the directory; a pipe in its
        // place does not hold us.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(flags.bits().cast_signed());
        options.open(&self.0)?.write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn each_transition_is_a_line_in_a_file_for_us_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("status");
        let file = StatusFile::new(path.clone()).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);
        for yes in [true, false, true] {
            file.converged(yes);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "true\nfalse\ntrue\n");
    }

    #[test]
    fn a_link_is_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("status");
        std::os::unix::fs::symlink(scratch.path().join("other"), &path).unwrap();
        assert!(StatusFile::new(path).is_err());
        assert!(!scratch.path().join("other").exists());
    }
}
