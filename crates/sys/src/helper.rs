//! The helper program of `process`: it changes credentials and then becomes the command.

use std::path::{Path, PathBuf};

/// The program that changes credentials and then becomes the command.
///
/// Its `main` must call `process::exec_as_entry` before anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Helper(PathBuf);

impl Helper {
    /// This very program.
    ///
    /// The link keeps naming the running binary even after it was replaced on disk.
    pub fn this_program() -> Helper {
        Helper(PathBuf::from("/proc/self/exe"))
    }

    /// Another program that calls `process::exec_as_entry`.
    pub fn program(path: impl Into<PathBuf>) -> Helper {
        Helper(path.into())
    }

    /// Where the program is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for Helper {
    fn default() -> Helper {
        Helper::this_program()
    }
}
