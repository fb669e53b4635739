//! `mgmt etcd`: the client that comes with etcd, with the servers that we know.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use mgmt_sys::process::find_program;

use crate::connection::Connection;
use crate::failure::{Exit, Failure};

/// Run `etcdctl` with the servers of the store
///
/// It is told where the servers are and how to prove who we are, so `mgmt etcd member list` or `mgmt etcd get --prefix /mgmt/` work as
/// they are. What belongs to this program comes first, the rest is for `etcdctl`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The working directory of the run on this host, if there are no `--seeds` [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    #[command(flatten)]
    connection: Connection,

    /// What `etcdctl` shall do
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let servers = arguments.connection.known_servers(arguments.prefix.as_deref())?.ok_or_else(|| {
        Failure::failed("the store of this host is not an etcd").hint(
            "give the servers with `--seeds`; `mgmt world export` shows what is in the store of this host",
        )
    })?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = find_program(OsStr::new("etcdctl"), &path).ok_or_else(|| {
        Failure::failed("the program `etcdctl` is not installed").hint(
            "install it: `apt install etcd-client` on Debian and Ubuntu, `dnf install etcd` on Fedora, `pacman -S etcd` on Arch",
        )
    })?;
    let mut command = Command::new(program);
    command.args(&arguments.words).env("ETCDCTL_API", "3");
    // What the user says to it directly counts, and it refuses to be told twice.
    let mut tell = |flag: &str, variable: &str, value: OsString| {
        let said = arguments
            .words
            .iter()
            .any(|word| word.to_str().is_some_and(|word| word.split('=').next() == Some(flag)));
        if !said {
            command.env(variable, value);
        }
    };
    tell("--endpoints", "ETCDCTL_ENDPOINTS", servers.endpoints.join(",").into());
    let files = arguments.connection.known_files(arguments.prefix.as_deref())?;
    for ((flag, variable), file) in
        [("--cacert", "ETCDCTL_CACERT"), ("--cert", "ETCDCTL_CERT"), ("--key", "ETCDCTL_KEY")]
            .into_iter()
            .zip(files)
    {
        if let Some(file) = file {
            tell(flag, variable, file.into());
        }
    }
    if let Some(login) = &servers.login {
        // Not as an argument, which everybody on this host could read.
        tell("--user", "ETCDCTL_USER", format!("{}:{}", login.user, login.password).into());
    }
    Err(Failure::failed(format!("cannot run etcdctl: {}", command.exec())))
}
