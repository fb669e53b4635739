//! `mgmt admit`: who may write what in the store that hosts share.

use std::io::Read as _;
use std::path::PathBuf;

use mgmt_store_etcd::Etcd;
use mgmt_telemetry::escape;
use mgmt_value::Str;

use crate::commands::members;
use crate::connection::{self, Connection};
use crate::failure::{Exit, Failure};
use crate::private;
use crate::terminal::Terminal;

/// Let a host into the store, with rights of its own
///
/// `mgmt admit --operator --login-file operator.login` closes the store: from then on it asks everybody who they are, and the operator
/// may do everything. `mgmt admit HOST --seeds-login operator.login --login-file HOST.login` lets a host in, which may read everything, and write
/// what belongs to it and what all hosts share, but neither what belongs to other hosts nor deploys. Give the file to that host
/// alone, for its `--seeds-login`. Admitting a host again gives it another password.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The host to let in, by the name that it has in the store
    #[arg(value_name = "HOST", required_unless_present = "operator", conflicts_with = "operator")]
    host: Option<String>,

    /// Close the store, and let the operator in
    #[arg(long)]
    operator: bool,

    /// The file to write the user and the password to, for `--seeds-login`: only you can read it
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    login_file: PathBuf,

    /// The working directory of the run on this host, if there are no `--seeds` [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let password = password()?;
    connection::within(async {
        let etcd = members::servers(&arguments.connection, arguments.prefix.as_deref())?;
        let etcd = etcd.ok_or_else(|| {
            Failure::failed("the store of this host is not an etcd, and nobody else can write to it")
                .hint("give the servers with `--seeds`")
        })?;
        let name = arguments
            .host
            .as_ref()
            .map_or(Etcd::OPERATOR.to_owned(), |host| Etcd::user_of(&Str::from(host.as_str())));
        // Nothing is as bad as a store that is closed and whose password nobody knows, so that is kept first.
        let file = &arguments.login_file;
        let mut next = file.clone().into_os_string();
        next.push(".new");
        let next = PathBuf::from(next);
        let failed =
            |error: std::io::Error| Failure::failed(format!("cannot write {}: {error}", file.display()));
        private::write(&next, &format!("{name}:{password}\n")).map_err(failed)?;
        let work = async {
            Ok(match &arguments.host {
                None => etcd.close(&password).await,
                Some(host) => etcd.admit(&Str::from(host.as_str()), &password).await,
            })
        };
        // Whether it was done is not known if there is no answer, so the password stays.
        let done = arguments.connection.in_time(arguments.prefix.as_deref(), work).await?;
        if let Err(error) = done {
            if !error.is_passing() {
                let _ = std::fs::remove_file(&next);
            }
            let hint = "only the operator may do this: give its file with `--seeds-login`";
            return Err(Failure::failed(error).hint(hint));
        }
        std::fs::rename(&next, file).map_err(failed)?;
        told(arguments, &etcd, &name, terminal);
        Ok(Exit::OK)
    })
}

fn told(arguments: &Arguments, etcd: &Etcd, name: &str, terminal: &Terminal) {
    let file = arguments.login_file.display().to_string();
    let who = match &arguments.host {
        None => "the store is closed; the operator".to_owned(),
        Some(host) => escape(host).into_owned(),
    };
    terminal.output().notice(&format!("{who} is let in as {name}, with {}\n", escape(&file)));
    if arguments.host.is_some() && etcd.is_let_in_unasked() {
        terminal.output().notice(
            "the store asks nobody who they are as yet: `mgmt admit --operator --login-file FILE` closes it\n",
        );
    }
}

/// One that nobody can guess.
fn password() -> Result<String, Failure> {
    use std::fmt::Write as _;
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| Failure::failed(format!("cannot make a password: {error}")))?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_passwords_are_the_same() {
        let (one, other) = (password().unwrap(), password().unwrap());
        assert!(one.len() == 64 && one != other);
    }
}
