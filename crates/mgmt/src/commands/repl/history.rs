//! What was typed before, in this session and in former ones.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::environment;

/// So many entries are remembered.
const MAX_ENTRIES: usize = 1000;
/// A file that has grown beyond this is written anew when it is read.
const MAX_FILE: u64 = 1 << 20;

/// Entries, the oldest first, and the file that keeps them.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: Vec<String>,
    file: Option<PathBuf>,
}

/// Where the file is, if this user has a place for it.
pub(super) fn place() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let state = environment::XDG_STATE_HOME.get().map(PathBuf::from).and_then(absolute);
    let home = || environment::HOME.get().map(PathBuf::from).and_then(absolute);
    let state = state.or_else(|| Some(home()?.join(".local/state")))?;
    Some(state.join("mgmt/repl-history"))
}

impl History {
    /// Reads the file, or starts one. Without a file, entries last as long as the session.
    pub(super) fn open(file: Option<PathBuf>) -> History {
        let mut history = History { entries: Vec::new(), file: None };
        let Some(file) = file else { return history };
        match read(&file) {
            Ok(text) => {
                history.entries = text.lines().map(decoded).filter(|entry| !entry.is_empty()).collect();
                let excess = history.entries.len().saturating_sub(MAX_ENTRIES);
                history.entries.drain(..excess);
                if (excess > 0 || text.len() as u64 >= MAX_FILE)
                    && let Err(error) = rewrite(&file, &history.entries)
                {
                    tracing::debug!("{} cannot be shortened: {error}", file.display());
                }
                history.file = Some(file);
            }
            Err(error) => tracing::debug!("{} cannot be used: {error}", file.display()),
        }
        history
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, at: usize) -> &str {
        self.entries.get(at).map_or("", String::as_str)
    }

    /// The last entry before one that has the words in it.
    pub(super) fn find_before(&self, at: usize, words: &str) -> Option<usize> {
        self.entries.iter().take(at).rposition(|entry| entry.contains(words))
    }

    /// Remembers an entry, unless it is the same as the last.
    pub(super) fn add(&mut self, entry: &str) {
        let entry = entry.trim_end();
        if entry.is_empty() || self.entries.last().is_some_and(|last| last == entry) {
            return;
        }
        self.entries.push(entry.to_owned());
        if self.entries.len() > MAX_ENTRIES {
            self.entries.remove(0);
        }
        if let Some(file) = &self.file {
            let line = format!("{}\n", encoded(entry));
            // Two sessions at once each add whole lines.
            let written =
                options().append(true).open(file).and_then(|mut file| file.write_all(line.as_bytes()));
            if let Err(error) = written {
                tracing::debug!("{} cannot be written: {error}", file.display());
                self.file = None;
            }
        }
    }
}

/// For this user alone, and never through a link.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    options.mode(0o600).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    options
}

fn read(path: &Path) -> io::Result<String> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let file = options().read(true).append(true).create(true).open(path)?;
    regular(&file)?;
    // A file that others could read is closed to them.
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    let length = file.metadata()?.len();
    if length > 16 * MAX_FILE {
        return Err(io::Error::other("it is too large to be a history"));
    }
    let mut bytes = Vec::new();
    file.take(16 * MAX_FILE).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn regular(file: &File) -> io::Result<()> {
    match file.metadata()?.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Writes another file and puts it in the place of the first.
fn rewrite(path: &Path, entries: &[String]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let other = PathBuf::from(name);
    let text: String = entries.iter().map(|entry| encoded(entry) + "\n").collect();
    let written = options()
        .write(true)
        .create_new(true)
        .open(&other)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.and_then(|()| std::fs::rename(&other, path)).inspect_err(|_| {
        // It may not be there.
        let _ = std::fs::remove_file(&other);
    })
}

/// An entry as one line.
fn encoded(entry: &str) -> String {
    entry.replace('\\', "\\\\").replace('\n', "\\n")
}

fn decoded(line: &str) -> String {
    let mut entry = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => entry.push('\n'),
                Some(other) => entry.push(other),
                None => entry.push('\\'),
            },
            // Whoever edits the file may put anything in it.
            _ if character.is_control() => {}
            _ => entry.push(character),
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_outlive_the_session_whatever_is_in_them() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state/mgmt/history");
        let entries = ["$x = 1", "[1,\n2]", "\"a\\nb\\\\\""];
        let mut history = History::open(Some(file.clone()));
        entries.iter().for_each(|entry| history.add(entry));
        history.add(entries[2]);
        history.add("  ");
        let again = History::open(Some(file.clone()));
        assert_eq!(again.entries, entries);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_file_that_others_can_read_is_closed_to_them() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("history");
        std::fs::write(&file, "1\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(History::open(Some(file.clone())).entries, ["1"]);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (target, file) = (directory.path().join("target"), directory.path().join("history"));
        std::fs::write(&target, "precious\n").unwrap();
        std::os::unix::fs::symlink(&target, &file).unwrap();
        let mut history = History::open(Some(file));
        history.add("1 + 1");
        assert_eq!(std::fs::read_to_string(target).unwrap(), "precious\n");
        assert_eq!(history.entries, ["1 + 1"]);
    }

    #[test]
    fn only_so_much_is_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("history");
        let text: String = (0..2 * MAX_ENTRIES).map(|at| format!("{at}\n")).collect();
        std::fs::write(&file, text).unwrap();
        let history = History::open(Some(file.clone()));
        assert_eq!((history.len(), history.get(0)), (MAX_ENTRIES, "1000"));
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), MAX_ENTRIES);
        assert_eq!(history.find_before(MAX_ENTRIES, "1999"), Some(MAX_ENTRIES - 1));
        assert_eq!(history.find_before(MAX_ENTRIES - 1, "1999"), None);
    }

    #[test]
    fn a_file_full_of_rubbish_does_no_harm() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("history");
        std::fs::write(&file, b"\xff\x1b[31m\\\n\\x\n").unwrap();
        assert_eq!(History::open(Some(file)).entries, ["\u{fffd}[31m\\", "x"]);
    }
}
