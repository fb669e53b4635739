//! `mgmt forget`: removes a host that is gone.

use std::path::PathBuf;

use mgmt_store::ForgetError;
use mgmt_telemetry::escape;
use mgmt_value::Str;

use crate::connection::{self, Connection};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Remove hosts that are gone from the store
///
/// A host that was a member and is gone is listed by `mgmt status` as `lost` for 7 days. `mgmt forget HOST` removes its record at once, and
/// with it everything that the host has left in the store: what it exported, what it volunteered for, and its own strings. A host that runs
/// is not removed. `mgmt members remove HOST` is for a host that serves the store.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The hosts to remove
    #[arg(value_name = "HOST", required = true)]
    hosts: Vec<String>,

    /// The working directory of the run on this host, if there are no `--seeds` [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    connection::within(async {
        let world = arguments.connection.world(arguments.prefix.as_deref()).await?;
        for host in &arguments.hosts {
            let name = Str::from(host.as_str());
            let forget = async { Ok(world.forget(&name).await) };
            let forgotten = arguments.connection.in_time(arguments.prefix.as_deref(), forget).await?;
            forgotten.map_err(refused)?;
            terminal.output().notice(&format!("{} is forgotten\n", escape(host)));
        }
        Ok(Exit::OK)
    })
}

fn refused(error: ForgetError) -> Failure {
    match &error {
        ForgetError::Unknown { .. } => Failure::failed(error).hint("`mgmt status` lists the hosts"),
        ForgetError::Running { .. } => Failure::failed(error)
            .hint("stop mgmt there first; a host that was killed counts as running for 15 s"),
        ForgetError::Store(_) => Failure::failed(error),
    }
}
