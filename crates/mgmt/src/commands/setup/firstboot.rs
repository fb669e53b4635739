//! `mgmt setup firstboot`

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::systemd::{self, Steps};
use super::unit;
use crate::commands::firstboot::Places;
use crate::failure::{Exit, Failure};

/// Make a service that runs scripts with the first boot
///
/// The unit runs `mgmt firstboot start`. It is written to /etc/systemd/system/mgmt-firstboot.service.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("step").args(["mkdir", "install", "start", "enable"]).multiple(true).required(true))]
pub(super) struct Arguments {
    /// The program that the service runs [default: this one]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    binary_path: Option<PathBuf>,

    /// Make the directories that are not there
    #[arg(long)]
    mkdir: bool,

    #[command(flatten)]
    steps: Steps,

    #[command(flatten)]
    places: Places,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let places = &arguments.places;
    places.check()?;
    if arguments.mkdir {
        let lock = places.lock_file_path.parent().map(Path::to_owned);
        let scripts = [Some(places.scripts_dir.clone()), places.done_dir(), places.logging_dir()];
        for directory in lock.into_iter().chain(scripts.into_iter().flatten()) {
            make(&directory)?;
        }
    }
    if arguments.steps.any() {
        let scripts = unit::path(&systemd::absolute(&places.scripts_dir)?)?;
        let condition = format!("ConditionDirectoryNotEmpty={scripts}\n");
        let text = unit::render(unit::FIRSTBOOT, &command(arguments)?, None);
        let text = text.replace("ConditionDirectoryNotEmpty=/var/lib/mgmt/firstboot\n", &condition);
        arguments.steps.run("mgmt-firstboot.service", &text)?;
    }
    Ok(Exit::OK)
}

/// The command of the unit, with what differs from what is usual.
fn command(arguments: &Arguments) -> Result<String, Failure> {
    let binary = systemd::absolute(&systemd::binary(arguments.binary_path.as_deref())?)?;
    let mut command = format!("{} firstboot start", unit::program(&binary)?);
    let (places, usual) = (&arguments.places, Places::default());
    let directories = [
        ("--scripts-dir", &places.scripts_dir, &usual.scripts_dir),
        ("--done-dir", &places.done_dir, &usual.done_dir),
        ("--logging-dir", &places.logging_dir, &usual.logging_dir),
    ];
    if places.lock_file_path != usual.lock_file_path {
        let path = systemd::absolute(&places.lock_file_path)?;
        command.push_str(&format!(" --lock-file-path {}", unit::word(&path)?));
    }
    for (flag, given, usual) in directories {
        if given == usual {
            continue;
        }
        let path = if given.as_os_str().is_empty() { String::new() } else { systemd::absolute(given)? };
        command.push_str(&format!(" {flag} {}", unit::word(&path)?));
    }
    Ok(command)
}

/// Directories below which scripts of root are, and what they say, are for root alone.
fn make(directory: &Path) -> Result<(), Failure> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| Failure::failed(format!("cannot make {}: {error}", directory.display())))
}
