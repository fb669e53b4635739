//! `cargo xtask setup`: the programs that the tests need.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::step::{Failed, say, step};

/// A program that some test runs, and the Debian package that brings it.
struct Need {
    program: &'static str,
    package: &'static str,
    why: &'static str,
}

const NEEDS: &[Need] = &[
    Need { program: "augtool", package: "augeas-tools", why: "values in files of many formats" },
    Need {
        program: "/usr/libexec/dconf-service",
        package: "dconf-gsettings-backend",
        why: "settings that are stored",
    },
    Need { program: "chromium", package: "chromium", why: "the site of the documents as people see it" },
    Need { program: "curl", package: "curl", why: "metrics, as a page asks for them" },
    Need { program: "dbus-daemon", package: "dbus", why: "the bus of hosts that tests boot" },
    Need { program: "dconf", package: "dconf-cli", why: "settings that somebody else changes" },
    Need {
        program: "debootstrap",
        package: "debootstrap",
        why: "another Debian, clean or with a newer Puppet",
    },
    Need { program: "dnsmasq", package: "dnsmasq-base", why: "a name server that comes back" },
    Need { program: "dot", package: "graphviz", why: "pictures of graphs" },
    Need { program: "etcd", package: "etcd-server", why: "a store that hosts share" },
    Need { program: "etcdctl", package: "etcd-client", why: "a second opinion on what is in it" },
    Need { program: "faketime", package: "faketime", why: "a clock that jumps" },
    Need { program: "fish", package: "fish", why: "completions that are really asked for" },
    Need { program: "firewalld", package: "firewalld", why: "a firewall on hosts that tests boot" },
    Need { program: "git", package: "git", why: "modules that come from elsewhere" },
    Need { program: "glib-compile-schemas", package: "libglib2.0-bin", why: "settings of a test's own" },
    Need { program: "hostname", package: "hostname", why: "names of hosts that tests log in to" },
    Need { program: "ip", package: "iproute2", why: "networks that tests make and cut" },
    Need { program: "mount", package: "mount", why: "mounts below watched and managed paths" },
    Need { program: "nsenter", package: "util-linux", why: "programs on hosts of such a network" },
    Need { program: "openssl", package: "openssl", why: "certificates of servers that tests start" },
    Need { program: "passwd", package: "passwd", why: "accounts on hosts that tests make" },
    Need { program: "perl", package: "perl-base", why: "hashes and locks of the C library" },
    Need { program: "pkcon", package: "packagekit-tools", why: "packages through PackageKit" },
    Need { program: "pkg-config", package: "pkg-config", why: "libraries to build against" },
    Need {
        program: "puppet",
        package: "puppet-agent",
        why: "manifests, and a second opinion on what they mean",
    },
    Need {
        program: "puppetserver",
        package: "puppetserver",
        why: "a server that compiles manifests for others",
    },
    Need { program: "prometheus", package: "prometheus", why: "somebody who asks for metrics" },
    Need { program: "ps", package: "procps", why: "what is left running on a host" },
    Need { program: "rsync", package: "rsync", why: "something to compare deploys with" },
    Need { program: "script", package: "bsdutils", why: "a terminal to be asked at" },
    Need { program: "setpriv", package: "util-linux", why: "programs with fewer rights" },
    Need { program: "ssh", package: "openssh-client", why: "keys that let somebody in" },
    Need { program: "sshd", package: "openssh-server", why: "somewhere to be let in" },
    Need { program: "strace", package: "strace", why: "failing system calls on purpose" },
    Need { program: "sudo", package: "sudo", why: "packages that a page has installed" },
    Need {
        program: "strip",
        package: "binutils",
        why: "a program that is small enough to be installed often",
    },
    Need { program: "systemctl", package: "systemd", why: "hosts that tests boot" },
    Need {
        program: "systemd-nspawn",
        package: "systemd-container",
        why: "containers on hosts that tests boot",
    },
    Need { program: "unshare", package: "util-linux", why: "mounts that end with the test" },
    Need { program: "valgrind", package: "valgrind", why: "counting instructions" },
    Need { program: "zsh", package: "zsh", why: "completions that are really asked for" },
];

/// Packages that bring no program, and what is built or tested with them.
const LIBRARIES: &[(&str, &str)] = &[
    ("puppet-module-puppetlabs-augeas-core", "the type augeas of manifests"),
    ("puppet-module-puppetlabs-concat", "files that manifests put together"),
    ("puppet-module-puppetlabs-cron-core", "the type cron of manifests"),
    ("puppet-module-puppetlabs-host-core", "the type host of manifests"),
    ("puppet-module-puppetlabs-inifile", "the types ini_setting and ini_subsetting of manifests"),
    ("puppet-module-puppetlabs-mount-core", "the type mount of manifests"),
    ("puppet-module-puppetlabs-sshkeys-core", "the types of keys in manifests"),
    ("puppet-module-puppetlabs-stdlib", "what other modules of manifests are made of"),
];

/// Another Debian, with a Puppet that is newer than the one here: where it is, and what is in it.
const NEWER_PUPPET: &str = "/var/cache/mgmt-tests/puppet-8";
const NEWER_SUITE: &str = "trixie";
const NEWER_PACKAGES: &str = "puppet-agent,puppet-module-puppetlabs-augeas-core,puppet-module-puppetlabs-concat,\
puppet-module-puppetlabs-cron-core,puppet-module-puppetlabs-host-core,puppet-module-puppetlabs-mailalias-core,\
puppet-module-puppetlabs-mount-core,puppet-module-puppetlabs-selinux-core,puppet-module-puppetlabs-sshkeys-core,\
puppet-module-puppetlabs-stdlib";

/// The package with `crontab`, unpacked and not installed: only hosts that tests boot have it.
const CRON: &str = "/var/cache/mgmt-tests/cron";
/// A Debian with nothing on it, and with a systemd that is newer than the one here.
const CLEAN: &str = "/var/cache/mgmt-tests/debian-13";

/// Installs what is missing. Does nothing, and says so, if nothing is.
pub(crate) fn run() -> Result<(), Failed> {
    install()?;
    let puppet = "Puppet 8, to compile the same manifests with";
    debian(NEWER_PUPPET, "usr/bin/puppet", NEWER_PACKAGES, puppet)?;
    let clean = "a clean host, to follow the tutorial on and to be reloaded by its systemd";
    debian(CLEAN, "usr/lib/systemd/systemd", "dbus,systemd-sysv", clean)?;
    cron()
}

/// Unpacks the package with `crontab`, whole or not at all.
fn cron() -> Result<(), Failed> {
    if Path::new(CRON).exists() || !is_there("apt-get") {
        return Ok(());
    }
    say(&format!("setup: {CRON} is missing (the type cron, as Puppet brings it about itself)\n"));
    let new = format!("{CRON}.new");
    step(root("rm").args(["-rf", &new]))?;
    step(root("mkdir").args(["-p", &new]))?;
    let unpack =
        "cd \"$0\" && apt-get download --quiet cron && dpkg-deb --extract cron_*.deb . && rm cron_*.deb";
    step(root("sh").args(["-ec", unpack, &new]))?;
    step(root("mv").args([&new, CRON]))
}

/// Makes a root with another Debian and some packages, whole or not at all, unless a file is there already.
fn debian(place: &str, has: &str, packages: &str, why: &str) -> Result<(), Failed> {
    if Path::new(place).join(has).exists() || !is_there("debootstrap") {
        return Ok(());
    }
    say(&format!("setup: {place} is missing ({why})\n"));
    let new = format!("{place}.new");
    step(root("rm").args(["-rf", &new, place]))?;
    step(root("mkdir").args(["-p", "/var/cache/mgmt-tests"]))?;
    let include = format!("--include={packages}");
    step(root("debootstrap").args(["--variant=minbase", &include, NEWER_SUITE, &new]))?;
    // Some providers are only there if what they manage is.
    step(root("cp").args(["/etc/hosts", &format!("{new}/etc/hosts")]))?;
    step(root("mv").args([&new, place]))
}

/// Installs packages that are missing.
fn install() -> Result<(), Failed> {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !is_there(need.program)).collect();
    // Elsewhere than on Debian and its kin, the build tells.
    let libraries = LIBRARIES.iter().filter(|(package, _)| is_there("dpkg-query") && !is_installed(package));
    let libraries: Vec<_> = libraries.collect();
    if missing.is_empty() && libraries.is_empty() {
        say("setup: all programs that the tests need are installed\n");
        return Ok(());
    }
    for need in &missing {
        say(&format!("setup: {} is missing ({}; package {})\n", need.program, need.why, need.package));
    }
    for (package, why) in &libraries {
        say(&format!("setup: {package} is missing ({why})\n"));
    }
    let mut packages: Vec<&str> =
        missing.iter().map(|need| need.package).filter(|package| !is_installed(package)).collect();
    packages.extend(libraries.iter().map(|(package, _)| *package));
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        return Err(Failed::new("the packages are installed, but not their programs; is PATH complete?"));
    }
    if !is_there("apt-get") {
        return Err(Failed::new(format!("install these with your package manager: {}", packages.join(" "))));
    }
    let install = |program: &str| {
        let mut command = root(program);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    step(install("apt-get").args(["update", "--quiet"]))?;
    step(install("apt-get").args(["install", "--quiet", "--yes", "--no-install-recommends"]).args(&packages))
}

/// A command that needs the rights of root.
fn root(program: &str) -> Command {
    if is_root() || !is_there("sudo") {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.args(["--preserve-env=DEBIAN_FRONTEND", program]);
    command
}

/// `/proc/self` belongs to whoever runs us.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self").metadata().is_ok_and(|found| found.uid() == 0)
}

/// Whether a program is in one of the usual directories. Those of the administrator count, too.
pub(crate) fn is_there(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .any(|directory| Path::new(directory).join(program).is_file())
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]).stderr(Stdio::null());
    query.output().is_ok_and(|output| output.stdout == b"installed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_its_name_alone() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-program-anywhere"));
    }
}
