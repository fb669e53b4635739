//! Files that came from a Puppet server: written, made runnable, and removed when no catalogue needs them any more.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// What is not used by a catalogue for so long is removed.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Which permissions files get that come from a server. Nobody but the owner has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permissions {
    /// To be read.
    Plain,
    /// To be read, and to be run where the server says so: facts may be programs.
    Executable,
}

impl Permissions {
    /// What a server is asked for.
    pub(super) fn parameter(self) -> &'static str {
        match self {
            Permissions::Plain => "ignore",
            Permissions::Executable => "use",
        }
    }
}

/// Lets a file be run if it can be run on the server. Says whether that is different from before.
pub(super) fn set_executable(file: &Path, metadata: &Value) -> io::Result<bool> {
    let is_program = metadata["mode"].as_u64().is_some_and(|mode| mode & 0o111 != 0);
    let mode = if is_program { 0o700 } else { 0o600 };
    if file.metadata()?.permissions().mode() & 0o7777 == mode {
        return Ok(false);
    }
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode))?;
    Ok(true)
}

pub(super) fn digest(content: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in Sha256::digest(content) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A directory that is nobody else's business.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// A file that is nobody else's business, whole or not at all.
pub(super) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        make(parent)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = path.with_file_name(name);
    let _ = std::fs::remove_file(&new);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(&new)?.write_all(content)?;
    std::fs::rename(&new, path)
}

/// Removes what a catalogue has not named for a while.
pub(super) fn prune<'a>(place: &Path, used: impl Iterator<Item = &'a PathBuf>) {
    let used: Vec<&PathBuf> = used.collect();
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        let age =
            entry.metadata().and_then(|found| found.modified()).ok().and_then(|time| time.elapsed().ok());
        if !used.contains(&&path) && age.is_some_and(|age| age > KEPT) {
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
    }
}

/// Removes what is not in a list. Says whether there was something.
pub(super) fn remove_others(directory: &Path, wanted: &[PathBuf]) -> bool {
    let mut has_removed = false;
    let wanted: std::collections::HashSet<&PathBuf> = wanted.iter().collect();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match (wanted.contains(&path), is_directory) {
                (true, true) => left.push(path),
                (true, false) => {}
                (false, true) => has_removed |= std::fs::remove_dir_all(&path).is_ok(),
                (false, false) => has_removed |= std::fs::remove_file(&path).is_ok(),
            }
        }
    }
    has_removed
}
