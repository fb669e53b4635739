//! `mgmt firstboot`: scripts that wait for the first boot of a host, each run once.

mod script;

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::builder::{OsStringValueParser, TypedValueParser};
use rustix::fs::OFlags;
use script::Script;

use crate::failure::{Exit, Failure};

/// Run the scripts that wait for the first boot
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Start(Places),
}

/// Run every script once, in the order of their names
///
/// A script is a file that its owner may execute. Beside `NAME` there may be `NAME.yaml` with `done-dir: DIRECTORY` (where the script goes
/// afterwards), `keep-on-fail: true` (it stays if it fails) and `no-log: true` (what it says goes where this command writes). A script that
/// has been run is moved or removed. One that fails does not fail the command.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Places {
    /// Held while scripts run, so that nobody else runs them, too
    #[arg(long, value_name = "FILE", default_value = LOCK, value_hint = clap::ValueHint::FilePath)]
    pub(crate) lock_file_path: PathBuf,

    /// Where the scripts are; ends with a slash
    #[arg(long, value_name = "DIRECTORY", default_value = SCRIPTS, value_hint = clap::ValueHint::DirPath)]
    pub(crate) scripts_dir: PathBuf,

    /// Where scripts go afterwards; ends with a slash; without it, they are removed
    #[arg(long, value_name = "DIRECTORY", default_value = "", hide_default_value = true, value_parser = any_path(), value_hint = clap::ValueHint::DirPath)]
    pub(crate) done_dir: PathBuf,

    /// Where a file is written with what the scripts say; ends with a slash; empty is nowhere
    #[arg(long, value_name = "DIRECTORY", default_value = LOGS, value_parser = any_path(), value_hint = clap::ValueHint::DirPath)]
    pub(crate) logging_dir: PathBuf,
}

const LOCK: &str = "/var/lib/mgmt/firstboot.lock";
const SCRIPTS: &str = "/var/lib/mgmt/firstboot/";
const LOGS: &str = "/root/";

impl Default for Places {
    fn default() -> Places {
        Places {
            lock_file_path: LOCK.into(),
            scripts_dir: SCRIPTS.into(),
            done_dir: PathBuf::new(),
            logging_dir: LOGS.into(),
        }
    }
}

impl Places {
    /// Whether each directory is written as one.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let directories = [
            ("--scripts-dir", Some(&self.scripts_dir)),
            ("--done-dir", Some(&self.done_dir).filter(|path| !path.as_os_str().is_empty())),
            ("--logging-dir", Some(&self.logging_dir).filter(|path| !path.as_os_str().is_empty())),
        ];
        for (flag, path) in directories {
            if let Some(path) = path.filter(|path| !is_directory_path(path)) {
                return Err(Failure::usage(format!(
                    "{flag}: expected a directory, which ends with a slash, found `{}`",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    pub(crate) fn done_dir(&self) -> Option<PathBuf> {
        Some(self.done_dir.clone()).filter(|path| !path.as_os_str().is_empty())
    }

    pub(crate) fn logging_dir(&self) -> Option<PathBuf> {
        Some(self.logging_dir.clone()).filter(|path| !path.as_os_str().is_empty())
    }
}

/// A path that may be empty.
fn any_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

fn is_directory_path(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let What::Start(places) = &arguments.what;
    places.check()?;
    let _lock = lock(&places.lock_file_path)?;
    let names = match scripts(&places.scripts_dir)? {
        Some(names) if !names.is_empty() => names,
        _ => {
            tracing::info!("no scripts in {}", places.scripts_dir.display());
            return Ok(Exit::OK);
        }
    };
    let mut log = Log::new(places.logging_dir());
    for path in names {
        // What is wrong with one is no reason to keep the others from running.
        if let Err(why) = Script::read(&path, places.done_dir()).and_then(|script| script.run(&mut log)) {
            tracing::error!("{}: {why}", path.display());
        }
    }
    Ok(Exit::OK)
}

/// Takes the lock. The kernel lets go of it however we end.
fn lock(path: &Path) -> Result<File, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::failed(format!("cannot take the lock {}: {error}", path.display()))
    };
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(|error| wrong(&error))?;
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)
        .map_err(|error| wrong(&error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(Failure::failed(format!("somebody else runs the scripts, and holds {}", path.display())))
        }
        Err(TryLockError::Error(error)) => Err(wrong(&error)),
    }
}

/// The scripts, in the order in which they run; nothing if there is no such directory.
fn scripts(directory: &Path) -> Result<Option<Vec<PathBuf>>, Failure> {
    let wrong =
        |error: std::io::Error| Failure::failed(format!("cannot read {}: {error}", directory.display()));
    let found = match directory.metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error)),
    };
    script::trusted(&found).map_err(|why| {
        Failure::failed(format!("{}: {why}", directory.display()))
            .hint("whoever can write there can have this command run anything")
    })?;
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        // Of a link, this is the link itself.
        let found = entry.metadata().map_err(wrong)?;
        if found.is_file() && found.mode() & 0o100 != 0 {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(Some(paths))
}

/// The file with what scripts say, which is there once the first has something to say.
struct Log {
    path: Option<PathBuf>,
}

impl Log {
    fn new(directory: Option<PathBuf>) -> Log {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Log { path: directory.map(|path| path.join(format!("mgmt-firstboot-{}.log", now.as_nanos()))) }
    }

    /// Opens it to write at its end. Without it, scripts still run.
    fn open(&mut self) -> Option<File> {
        let path = self.path.as_ref()?;
        let opened = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(path);
        match opened {
            Ok(file) => Some(file),
            Err(error) => {
                tracing::warn!("cannot write {}: {error}; what scripts say goes here", path.display());
                self.path = None;
                None
            }
        }
    }
}
