//! `mgmt setup svc`

use std::path::PathBuf;

use mgmt_remote::{HostKey, Target};
use mgmt_store_etcd::EtcdSettings;

use super::systemd::{self, Steps};
use super::unit;
use crate::failure::{Exit, Failure};

/// Make a service of systemd out of this program
///
/// The unit runs `mgmt run empty`, which runs what is deployed. It is written to /etc/systemd/system/mgmt.service, where it counts over
/// one that a package has brought. More options are given in a drop-in, as `Environment="OPTS=..."` (`systemctl edit mgmt.service`).
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("step").args(["install", "start", "enable"]).multiple(true).required(true))]
pub(super) struct Arguments {
    /// The program that the service runs [default: this one]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    binary_path: Option<PathBuf>,

    /// Reach the store through this host: `[ssh://][USER@]HOST[:PORT]`
    #[arg(long, value_name = "URL")]
    ssh_url: Option<String>,

    /// The public key that the host of `--ssh-url` has to prove itself with
    #[arg(long, value_name = "KEY", requires = "ssh_url")]
    ssh_hostkey: Option<String>,

    /// The private key to log in with
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    ssh_id: Option<PathBuf>,

    /// A server of the etcd cluster that hosts share; may be given several times
    #[arg(long, short = 's', value_name = "URL")]
    seeds: Vec<String>,

    #[command(flatten)]
    steps: Steps,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let text = unit::render(unit::SERVICE, &command(arguments)?, systemd::version());
    arguments.steps.run("mgmt.service", &text)?;
    Ok(Exit::OK)
}

/// The command of the unit. What is wrong with it is said here, and not by a service that does not start.
fn command(arguments: &Arguments) -> Result<String, Failure> {
    let binary = systemd::absolute(&systemd::binary(arguments.binary_path.as_deref())?)?;
    let mut command = format!("{} run", unit::program(&binary)?);
    let mut add = |flag: &str, value: &str| -> Result<(), Failure> {
        command.push_str(&format!(" {flag} {}", unit::word(value)?));
        Ok(())
    };
    if let Some(url) = &arguments.ssh_url {
        let target = Target::parse(url).map_err(|error| Failure::usage(format!("--ssh-url: {error}")))?;
        if target.password.is_some() {
            return Err(Failure::usage("--ssh-url: the password would be in a file that everybody can read")
                .hint("log in with a key: `--ssh-id FILE`"));
        }
        add("--ssh-url", url)?;
    }
    if let Some(key) = &arguments.ssh_hostkey {
        HostKey::parse(key).map_err(|error| Failure::usage(format!("--ssh-hostkey: {error}")))?;
        add("--ssh-hostkey", key)?;
    }
    if let Some(file) = &arguments.ssh_id {
        add("--ssh-id", &systemd::absolute(file)?)?;
    }
    let seeds = arguments.seeds.iter().flat_map(|seeds| seeds.split([',', ';', ' ']));
    let seeds: Vec<String> = seeds.filter(|seed| !seed.is_empty()).map(str::to_owned).collect();
    if !seeds.is_empty() {
        let settings = EtcdSettings::new(seeds.clone());
        settings.places().map_err(|error| Failure::usage(format!("--seeds: {error}")))?;
    }
    for seed in &seeds {
        add("--seeds", seed)?;
    }
    command.push_str(" empty $OPTS");
    Ok(command)
}
