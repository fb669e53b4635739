//! One step of a chore: a command that is shown, run, and has to succeed.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why a chore failed.
#[derive(Debug)]
pub(crate) struct Failed(pub(crate) String);

impl Failed {
    pub(crate) fn new(why: impl Into<String>) -> Failed {
        Failed(why.into())
    }

    /// Everything about it has been said already.
    pub(crate) fn reported() -> Failed {
        Failed(String::new())
    }
}

/// Writes to standard error. There is nobody to tell if that fails.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The cargo that runs us.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The root of the workspace, which is above this crate.
pub(crate) fn workspace() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Shows a command, runs it in the workspace, and fails if it fails.
pub(crate) fn step(command: &mut Command) -> Result<(), Failed> {
    step_in(&workspace(), command)
}

/// The same in another directory.
pub(crate) fn step_in(directory: &Path, command: &mut Command) -> Result<(), Failed> {
    command.current_dir(directory);
    let line = show(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failed::new(format!("failed ({status}): {line}"))),
        Err(error) => Err(Failed::new(format!("cannot run {line}: {error}"))),
    }
}

/// Shows a command; the line, as somebody would type it.
pub(crate) fn show(command: &Command) -> String {
    let mut line = String::from("+");
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in variables {
        line.push_str(&format!(" {}='{}'", name.to_string_lossy(), value.to_string_lossy()));
    }
    let program = Path::new(command.get_program());
    line.push_str(&format!(" {}", program.file_name().unwrap_or(program.as_os_str()).to_string_lossy()));
    for argument in command.get_args() {
        line.push_str(&format!(" {}", argument.to_string_lossy()));
    }
    say(&format!("{line}\n"));
    line.split_off(2)
}
