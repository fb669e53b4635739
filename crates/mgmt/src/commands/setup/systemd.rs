//! Units on this host: written, and handed to systemd.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::place::place;

/// Where an administrator's units are.
const UNITS: &str = "/etc/systemd/system";

/// What is done about a unit; at least one of it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Steps {
    /// Write the unit
    #[arg(long)]
    install: bool,

    /// Start it now
    #[arg(long)]
    start: bool,

    /// Start it with every boot
    #[arg(long)]
    enable: bool,
}

impl Steps {
    pub(super) fn any(self) -> bool {
        self.install || self.start || self.enable
    }

    /// Does what is to be done about the unit `name` with this text.
    pub(super) fn run(self, name: &str, text: &str) -> Result<(), Failure> {
        let mut is_new = false;
        if self.install {
            is_new = install(name, text)?;
        }
        if self.enable {
            systemctl(&["enable", "--quiet", name])?;
            tracing::info!("{name} starts with every boot");
        }
        if self.start {
            if !is_running() {
                return Err(Failure::failed(format!(
                    "cannot start {name}: this host was not booted with systemd"
                )));
            }
            // What runs already runs by the unit that was there before.
            systemctl(&[if is_new { "restart" } else { "start" }, name])?;
            tracing::info!("{name} is running");
        }
        Ok(())
    }
}

fn install(name: &str, text: &str) -> Result<bool, Failure> {
    let path = Path::new(UNITS).join(name);
    if std::fs::read_link(&path).is_ok_and(|target| target == Path::new("/dev/null")) {
        return Err(Failure::failed(format!("{name} is masked, so somebody does not want it to run"))
            .hint(format!("`systemctl unmask {name}` allows it")));
    }
    let is_new = place(&path, text.as_bytes(), 0o644)?;
    match is_new {
        true => tracing::info!("wrote {}", path.display()),
        false => tracing::info!("{} is there already", path.display()),
    }
    if is_running() {
        systemctl(&["daemon-reload"])?;
    }
    Ok(is_new)
}

/// Whether systemd is what runs this host.
fn is_running() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

fn systemctl(arguments: &[&str]) -> Result<(), Failure> {
    let status = Command::new("systemctl").args(arguments).stdin(Stdio::null()).status();
    let line = format!("systemctl {}", arguments.join(" "));
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::failed(format!("`{line}` failed ({status})"))),
        Err(error) => Err(Failure::failed(format!("cannot run `{line}`: {error}"))),
    }
}

/// The version of systemd, if it is installed.
pub(super) fn version() -> Option<u32> {
    let output = Command::new("systemctl").arg("--version").stdin(Stdio::null()).output().ok()?;
    version_of(&String::from_utf8_lossy(&output.stdout))
}

fn version_of(text: &str) -> Option<u32> {
    let word = text.strip_prefix("systemd ")?.split_whitespace().next()?;
    let digits = word.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// The program that the unit runs: the one that was named, or this one.
pub(super) fn binary(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot tell where this program is: {error}")))?,
    };
    if !path.is_absolute() {
        return Err(Failure::usage(format!(
            "--binary-path: expected a path that begins with a slash, found {}",
            path.display()
        )));
    }
    match path.metadata() {
        Ok(found) if found.is_file() => Ok(path),
        _ => Err(Failure::usage(format!("--binary-path: there is no program {}", path.display()))),
    }
}

/// A path for a unit, where it cannot be relative to anything.
pub(super) fn absolute(path: &Path) -> Result<String, Failure> {
    let absolute =
        std::path::absolute(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let text = absolute.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("{}: not valid UTF-8, which a unit has to be", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_systemd_are_read_as_distributions_write_them() {
        assert_eq!(version_of("systemd 252 (252.39-1~deb12u2)\n+PAM +AUDIT"), Some(252));
        assert_eq!(version_of("systemd 257.3-1-arch\n"), Some(257));
        assert_eq!(version_of("something else"), None);
    }
}
