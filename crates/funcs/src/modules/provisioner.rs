//! `embedded/provisioner`

use mgmt_funcs_derive::function;
use mgmt_value::{Str, Value};

use crate::declare::module;
use crate::{Failure, Host};

module! {
    path: "embedded/provisioner",
    doc: "The options of the provisioner's command line. They do not change while the program runs.",
    functions: [cli_interface, cli_network, cli_router, cli_dns, cli_prefix, cli_firewalld, cli_distro, cli_version, cli_arch, cli_flavour, cli_mirror, cli_rsync, cli_mac, cli_ip, cli_bios, cli_part, cli_luks, cli_packages, cli_handoff_exec, cli_handoff_code, cli_handoff_module_path, cli_handoff_hostname, cli_bmc_uri, check, cli_password],
}

fn option<T: mgmt_value::Native>(host: &dyn Host, name: &str) -> Result<T, Failure> {
    let value = host.provisioner_option(name);
    let value: Value = value.ok_or_else(|| {
        Failure::fatal(format!(
            "the provisioner's option `--{name}` is not set: this works in `mgmt provisioner` only"
        ))
    })?;
    T::from_value(&value).map_err(|mismatch| Failure::fatal(format!("the option `--{name}`: {mismatch}")))
}

/// `--interface`: the network interface to provision on.
///
/// ```mcl,host
/// provisioner.cli_interface() == "eth0"
/// ```
#[function(reads)]
fn cli_interface(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "interface")
}

/// `--network`: the network to provision on.
///
/// ```mcl,host
/// provisioner.cli_network() == "192.168.42.0/24"
/// ```
#[function(reads)]
fn cli_network(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "network")
}

/// `--router`: the address of the router.
///
/// ```mcl,host
/// provisioner.cli_router() == "192.168.42.1/24"
/// ```
#[function(reads)]
fn cli_router(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "router")
}

/// `--dns`: the name servers.
///
/// ```mcl,host
/// provisioner.cli_dns() == ["192.0.2.53",]
/// ```
#[function(reads)]
fn cli_dns(host: &dyn Host) -> Result<Vec<Str>, Failure> {
    option(host, "dns")
}

/// `--prefix`: the directory for files.
///
/// ```mcl,host
/// provisioner.cli_prefix() == "/var/cache/provisioner/"
/// ```
#[function(reads)]
fn cli_prefix(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "prefix")
}

/// `--firewalld`: whether the firewall is opened.
///
/// ```mcl,host
/// provisioner.cli_firewalld() == true
/// ```
#[function(reads)]
fn cli_firewalld(host: &dyn Host) -> Result<bool, Failure> {
    option(host, "firewalld")
}

/// `--distro`: the distribution to install.
///
/// ```mcl,host
/// provisioner.cli_distro() == "fedora"
/// ```
#[function(reads)]
fn cli_distro(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "distro")
}

/// `--dversion`: the version of the distribution.
///
/// ```mcl,host
/// provisioner.cli_version() == "39"
/// ```
#[function(reads)]
fn cli_version(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "dversion")
}

/// `--arch`: the processor to install for.
///
/// ```mcl,host
/// provisioner.cli_arch() == "x86_64"
/// ```
#[function(reads)]
fn cli_arch(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "arch")
}

/// `--flavour`: the flavour of the distribution.
///
/// ```mcl,host
/// provisioner.cli_flavour() == "Workstation"
/// ```
#[function(reads)]
fn cli_flavour(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "flavour")
}

/// `--mirror`: where packages are fetched from.
///
/// ```mcl,host
/// provisioner.cli_mirror() == ""
/// ```
#[function(reads)]
fn cli_mirror(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "mirror")
}

/// `--rsync`: where packages are synchronised from.
///
/// ```mcl,host
/// provisioner.cli_rsync() == ""
/// ```
#[function(reads)]
fn cli_rsync(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "rsync")
}

/// `--mac`: the hardware address of the machine.
///
/// ```mcl,host
/// provisioner.cli_mac() == ""
/// ```
#[function(reads)]
fn cli_mac(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "mac")
}

/// `--ip`: the address of the machine.
///
/// ```mcl,host
/// provisioner.cli_ip() == "192.168.42.13/24"
/// ```
#[function(reads)]
fn cli_ip(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "ip")
}

/// `--bios`: whether the machine starts without UEFI.
///
/// ```mcl,host
/// provisioner.cli_bios() == false
/// ```
#[function(reads)]
fn cli_bios(host: &dyn Host) -> Result<bool, Failure> {
    option(host, "bios")
}

/// `--part`: how disks are divided.
///
/// ```mcl,host
/// provisioner.cli_part() == ""
/// ```
#[function(reads)]
fn cli_part(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "part")
}

/// `--luks`: whether disks are encrypted.
///
/// ```mcl,host
/// provisioner.cli_luks() == true
/// ```
#[function(reads)]
fn cli_luks(host: &dyn Host) -> Result<bool, Failure> {
    option(host, "luks")
}

/// `--packages`: the packages to install.
///
/// ```mcl,host
/// provisioner.cli_packages() == ["vim",]
/// ```
#[function(reads)]
fn cli_packages(host: &dyn Host) -> Result<Vec<Str>, Failure> {
    option(host, "packages")
}

/// `--handoff-exec`: the command to run at the end.
///
/// ```mcl,host
/// provisioner.cli_handoff_exec() == ""
/// ```
#[function(reads)]
fn cli_handoff_exec(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "handoff-exec")
}

/// `--handoff-code`: the program to run at the end.
///
/// ```mcl,host
/// provisioner.cli_handoff_code() == ""
/// ```
#[function(reads)]
fn cli_handoff_code(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "handoff-code")
}

/// `--handoff-module-path`: the modules for the program to run at the end.
///
/// ```mcl,host
/// provisioner.cli_handoff_module_path() == ""
/// ```
#[function(reads)]
fn cli_handoff_module_path(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "handoff-module-path")
}

/// `--handoff-hostname`: the name of the machine.
///
/// ```mcl,host
/// provisioner.cli_handoff_hostname() == ""
/// ```
#[function(reads)]
fn cli_handoff_hostname(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "handoff-hostname")
}

/// `--bmc-uri`: where the management controller of the machine is.
///
/// ```mcl,host
/// provisioner.cli_bmc_uri() == ""
/// ```
#[function(reads)]
fn cli_bmc_uri(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "bmc-uri")
}

/// `--check`: whether the program is only checked.
///
/// ```mcl,host
/// provisioner.check() == false
/// ```
#[function(reads)]
fn check(host: &dyn Host) -> Result<bool, Failure> {
    option(host, "check")
}

/// `--password`: the salted hash of the password.
///
/// ```mcl,host
/// provisioner.cli_password() == ""
/// ```
#[function(reads)]
fn cli_password(host: &dyn Host) -> Result<Str, Failure> {
    option(host, "password")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tests::shown;

    struct Command;

    impl Host for Command {
        fn provisioner_option(&self, name: &str) -> Option<Value> {
            match name {
                "interface" => Some(Value::str("eth0")),
                "dns" => Some(Value::list(mgmt_value::Type::Str, vec![Value::str("192.0.2.53")])),
                "bios" => Some(Value::str("not a bool")),
                _ => None,
            }
        }
    }

    #[test]
    fn options_are_those_of_the_command_line() {
        assert_eq!(cli_interface(&Command).unwrap(), "eth0");
        assert_eq!(cli_dns(&Command).unwrap(), ["192.0.2.53"]);
        assert!(matches!(cli_bios(&Command), Err(Failure::Fatal(_))));
        assert!(matches!(cli_router(&Command), Err(Failure::Fatal(_))));
        assert!(shown("embedded/provisioner.check", &[]).contains("`--check` is not set"));
    }
}
