//! One script: what is said about it, how it runs, and what becomes of it.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use saphyr_parser::{Event, Parser};

use super::{Log, is_directory_path};
use crate::place::place;

/// How long a file beside a script may be.
const LIMIT: u64 = 64 << 10;

/// A script, with what was said about it.
#[derive(Debug)]
pub(super) struct Script {
    path: PathBuf,
    /// The file beside it, if there is one.
    beside: Option<PathBuf>,
    said: Said,
}

/// What may be said about a script in the file beside it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    done_dir: Option<PathBuf>,
    keep_on_fail: bool,
    no_log: bool,
}

impl Script {
    /// Reads what is said about a script. One that somebody else could have written is refused, and stays.
    pub(super) fn read(path: &Path, done_dir: Option<PathBuf>) -> Result<Script, String> {
        let found = path.symlink_metadata().map_err(|error| error.to_string())?;
        trusted(&found)?;
        let mut beside = OsString::from(path);
        beside.push(".yaml");
        let beside = PathBuf::from(beside);
        let mut said = Said::default();
        let beside = match File::open(&beside) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(format!("cannot read {}: {error}", beside.display())),
            Ok(file) => {
                said = read(file).map_err(|why| format!("{}: {why}", beside.display()))?;
                Some(beside)
            }
        };
        said.done_dir = said.done_dir.or(done_dir);
        Ok(Script { path: path.to_owned(), beside, said })
    }

    /// Runs it, and puts it out of the way.
    pub(super) fn run(&self, log: &mut Log) -> Result<(), String> {
        let name = self.path.display();
        let mut log = if self.said.no_log { None } else { log.open() };
        tracing::info!("running {name}");
        let mut command = Command::new(&self.path);
        command.current_dir("/").stdin(Stdio::null());
        if let Some(log) = &mut log {
            // Nobody is left to tell if this fails, and the script matters more.
            let _ = writeln!(log, "mgmt: running {name}");
            let copy = |file: &File| file.try_clone().map_err(|error| error.to_string());
            command.stdout(copy(log)?).stderr(copy(log)?);
        }
        let result = command.status();
        let (failed, told) = match &result {
            Ok(status) if status.success() => (false, "done".to_owned()),
            Ok(status) => (true, format!("failed ({status})")),
            Err(error) => (true, format!("cannot be run: {error}")),
        };
        if let Some(log) = &mut log {
            let _ = writeln!(log, "mgmt: {name}: {told}");
        }
        match failed {
            true => tracing::warn!("{name}: {told}"),
            false => tracing::info!("{name}: {told}"),
        }
        if failed && self.said.keep_on_fail {
            return Ok(());
        }
        self.put_away()
    }

    /// The script goes first: if we are killed in between, what is left says nothing about anything.
    fn put_away(&self) -> Result<(), String> {
        for path in [Some(&self.path), self.beside.as_ref()].into_iter().flatten() {
            let result = match &self.said.done_dir {
                Some(directory) => move_into(path, directory),
                None => std::fs::remove_file(path).map_err(|error| error.to_string()),
            };
            result.map_err(|why| format!("cannot put {} away: {why}", path.display()))?;
        }
        Ok(())
    }
}

/// Whether only root and we could have written something.
pub(super) fn trusted(found: &Metadata) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != 0 && found.uid() != own {
        return Err(format!("it belongs to another user ({}), and is not trusted", found.uid()));
    }
    if found.mode() & 0o022 != 0 {
        return Err(format!(
            "others may write to it (mode {:04o}), so it is not trusted",
            found.mode() & 0o7777
        ));
    }
    Ok(())
}

/// Moves a file, to another file system as well. Nothing that is there is replaced.
fn move_into(path: &Path, directory: &Path) -> Result<(), String> {
    let name = path.file_name().ok_or("it has no name")?;
    for attempt in 0..1000_u32 {
        let mut other = name.to_owned();
        if attempt > 0 {
            other.push(format!(".{attempt}"));
        }
        let target = directory.join(other);
        match renameat_with(CWD, path, CWD, &target, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST) => {}
            Err(Errno::XDEV) if target.symlink_metadata().is_ok() => {}
            Err(Errno::XDEV) => {
                let mode = path.metadata().map_err(|error| error.to_string())?.mode() & 0o777;
                let content = std::fs::read(path).map_err(|error| error.to_string())?;
                place(&target, &content, mode).map_err(|failure| failure.message)?;
                return std::fs::remove_file(path).map_err(|error| error.to_string());
            }
            Err(error) => return Err(format!("{}: {error}", target.display())),
        }
    }
    Err(format!("{} has too many of that name", directory.display()))
}

/// Reads the file beside a script.
fn read(file: File) -> Result<Said, String> {
    trusted(&file.metadata().map_err(|error| error.to_string())?)?;
    let mut text = String::new();
    file.take(LIMIT + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > LIMIT {
        return Err(format!("it is longer than {LIMIT} bytes"));
    }
    said(&text)
}

fn said(text: &str) -> Result<Said, String> {
    let mut words = Vec::new();
    let (mut depth, mut maps) = (0, 0);
    for event in Parser::new_from_str(text) {
        match event.map_err(|error| error.to_string())?.0 {
            Event::Scalar(word, ..) if depth == 1 => words.push(word.into_owned()),
            // An empty document is an empty scalar to some.
            Event::Scalar(word, ..) if word.is_empty() || word == "~" => {}
            Event::MappingStart(..) if depth == 0 && maps == 0 => (depth, maps) = (1, 1),
            Event::MappingEnd => depth = 0,
            Event::Scalar(..) | Event::MappingStart(..) | Event::SequenceStart(..) | Event::Alias(..) => {
                return Err("expected lines such as `keep-on-fail: true`".to_owned());
            }
            _ => {}
        }
    }
    let mut said = Said::default();
    for pair in words.chunks_exact(2) {
        let (key, value) = (pair[0].as_str(), pair[1].as_str());
        match key {
            "done-dir" if value.is_empty() => {}
            "done-dir" if is_directory_path(Path::new(value)) => said.done_dir = Some(value.into()),
            "done-dir" => {
                return Err(format!(
                    "done-dir: expected a directory, which ends with a slash, found `{value}`"
                ));
            }
            "keep-on-fail" => said.keep_on_fail = truth(key, value)?,
            "no-log" => said.no_log = truth(key, value)?,
            _ => {
                return Err(format!("there is no `{key}`; expected `done-dir`, `keep-on-fail` or `no-log`"));
            }
        }
    }
    Ok(said)
}

fn truth(key: &str, value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("{key}: expected `true` or `false`, found `{value}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_about_a_script_is_understood_or_refused() {
        assert_eq!(said("").unwrap(), Said::default());
        assert_eq!(said("# nothing\n").unwrap(), Said::default());
        let all = Said { done_dir: Some("/done/".into()), keep_on_fail: true, no_log: true };
        assert_eq!(said("done-dir: /done/\nkeep-on-fail: true\n\"no-log\": true\n").unwrap(), all);
        for wrong in [
            "done-dir: /done",
            "keep-on-fail: maybe",
            "other: 1",
            "- a",
            "word",
            "done-dir: {a: b}",
            "a: [",
            "a: *b",
        ] {
            assert!(said(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moving_replaces_nothing() {
        let place = tempfile::tempdir().unwrap();
        let done = place.path().join("done");
        std::fs::create_dir(&done).unwrap();
        for content in ["first", "second"] {
            let path = place.path().join("script");
            std::fs::write(&path, content).unwrap();
            move_into(&path, &done).unwrap();
            assert!(!path.exists());
        }
        assert_eq!(std::fs::read_to_string(done.join("script")).unwrap(), "first");
        assert_eq!(std::fs::read_to_string(done.join("script.1")).unwrap(), "second");
    }
}
