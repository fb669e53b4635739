//! `mgmt setup pkg`

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use clap::ValueEnum;

use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Print, or run, what installs the programs that some features use
///
/// The program itself needs no package: it brings its libraries along. Some features use programs of the system; without `--feature`,
/// they are listed.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The distribution of this host
    #[arg(long, value_name = "NAME")]
    distro: Distribution,

    /// What the host is to be able to do; may be given several times
    #[arg(long, value_name = "NAME")]
    feature: Vec<Feature>,

    /// Use sudo
    #[arg(long)]
    sudo: bool,

    /// Run it, instead of printing it
    #[arg(long)]
    exec: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Distribution {
    /// Debian, Ubuntu and their kin
    #[value(alias = "ubuntu")]
    Debian,
    /// Fedora, and those that are made of it
    #[value(aliases = ["centos", "rhel"])]
    Fedora,
    /// Arch Linux
    Arch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Feature {
    /// Serve the store for other hosts, and look into it with `mgmt etcd`
    Cluster,
    /// Run manifests of Puppet
    Puppet,
    /// Download modules with `mgmt get`
    Modules,
    /// Reach other hosts with `--remote` and `--ssh-url`
    Remote,
    /// Draw pictures with `run --graphviz`
    Pictures,
    /// Install packages through PackageKit where the kind `pkg` knows no other way
    Packagekit,
}

impl Distribution {
    /// What installs packages.
    fn installer(self) -> &'static [&'static str] {
        match self {
            Distribution::Debian => &["apt-get", "install", "--yes", "--no-install-recommends"],
            Distribution::Fedora => &["dnf", "install", "--assumeyes"],
            Distribution::Arch => &["pacman", "--sync", "--needed", "--noconfirm"],
        }
    }
}

impl Feature {
    /// The packages that it needs.
    fn packages(self, distribution: Distribution) -> &'static [&'static str] {
        use Distribution::{Arch, Debian, Fedora};
        match (self, distribution) {
            (Feature::Cluster, Debian) => &["etcd-server", "etcd-client"],
            (Feature::Cluster, Fedora | Arch) => &["etcd"],
            (Feature::Puppet, Debian) => &["puppet-agent"],
            (Feature::Puppet, Fedora | Arch) => &["puppet"],
            (Feature::Modules, _) => &["git"],
            (Feature::Remote, Debian) => &["openssh-client"],
            (Feature::Remote, Fedora) => &["openssh-clients"],
            (Feature::Remote, Arch) => &["openssh"],
            (Feature::Pictures, _) => &["graphviz"],
            (Feature::Packagekit, Debian) => &["packagekit", "polkitd"],
            (Feature::Packagekit, Fedora) => &["PackageKit"],
            (Feature::Packagekit, Arch) => &["packagekit"],
        }
    }
}

pub(super) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let says = "mgmt itself needs no other package: nothing to install";
    if arguments.feature.is_empty() {
        if arguments.exec {
            tracing::info!("{says}");
            return Ok(Exit::OK);
        }
        tracing::info!("{says}; these features use programs of the system:");
        terminal.data(&list(arguments));
        return Ok(Exit::OK);
    }
    let line = line(arguments, &arguments.feature);
    if !arguments.exec {
        terminal.data(&format!("{}\n", line.join(" ")));
        return Ok(Exit::OK);
    }
    let (program, rest) = (line[0], &line[1..]);
    let status = Command::new(program)
        .args(rest)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .map_err(|error| Failure::failed(format!("cannot run {program}: {error}")))?;
    match status.success() {
        true => Ok(Exit::OK),
        false => Err(Failure::failed(format!("`{}` failed ({status})", line.join(" ")))),
    }
}

/// One line for each feature: its name, and what installs it.
fn list(arguments: &Arguments) -> String {
    let mut text = String::new();
    for feature in Feature::value_variants() {
        let name = feature.to_possible_value().map(|value| value.get_name().to_owned());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:10} {}", name.unwrap_or_default(), line(arguments, &[*feature]).join(" "));
    }
    text
}

/// The command that installs what features need, each package once.
fn line(arguments: &Arguments, features: &[Feature]) -> Vec<&'static str> {
    let mut line = if arguments.sudo { vec!["sudo"] } else { Vec::new() };
    line.extend(arguments.distro.installer());
    for package in features.iter().flat_map(|feature| feature.packages(arguments.distro)) {
        if !line.contains(package) {
            line.push(package);
        }
    }
    line
}
