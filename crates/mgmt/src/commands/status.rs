//! `mgmt status`: what the hosts are doing.

use std::path::PathBuf;

use mgmt_telemetry::{Format, escape, json_line};
use mgmt_world::World;
use mgmt_world::cluster::Sight;
use serde_json::json;

use crate::commands::{exit_codes, members};
use crate::connection::{self, Connection};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Show what the hosts that share a store are doing
///
/// One line for each host that runs: whether it has converged, how many resources it looks after and how many of them have
/// failed, and which deploy it runs. Then the servers of the store, if there are any. A host that runs an earlier version of a manifest, because there is a mistake in what there is now, says which. Exit code 0: all have converged, none has failed or has a mistake. 1: at least one has not.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The working directory of the run on this host, if there are no `--seeds` [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    /// The same as `--message-format`, for this command
    #[arg(long, value_name = "FORMAT")]
    format: Option<Written>,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Written {
    /// Lines for people
    Human,
    /// One JSON object
    Json,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    connection::within(async {
        let world = arguments.connection.world(arguments.prefix.as_deref()).await?;
        let sight = match members::servers(&arguments.connection, arguments.prefix.as_deref())? {
            Some(etcd) => Some(members::look(&etcd).await?),
            None => None,
        };
        let format = match arguments.format {
            Some(Written::Human) => Format::Human,
            Some(Written::Json) => Format::Json,
            None => terminal.format(),
        };
        show(&world, sight.as_ref(), format, terminal).await
    })
}

async fn show(
    world: &World,
    sight: Option<&Sight>,
    format: Format,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let newest = world.newest_deploy().await.map_err(Failure::failed)?.map(|deploy| deploy.id);
    let (leader, statuses) = (world.leader(), world.statuses());
    let all_is_well =
        statuses.values().all(|status| status.converged && status.failed == 0 && status.mistake.is_none());
    match format {
        Format::Human => {
            if statuses.is_empty() {
                terminal.data("no host runs\n");
            }
            for (host, status) in &statuses {
                let state = match (status.converged, status.failed) {
                    (true, 0) => "converged".to_owned(),
                    (_, 0) => "working".to_owned(),
                    (_, failed) => format!("{failed} failed"),
                };
                let deploy = match status.deploy {
                    Some(number) if Some(number) == newest => format!("deploy {number}"),
                    Some(number) => format!("deploy {number}, not the newest"),
                    None => "a program of its own".to_owned(),
                };
                let leads = if leader.as_ref() == Some(host) { ", schedules" } else { "" };
                terminal.data(&format!(
                    "{}  {state}, {} resources, {deploy}{leads}, version {}\n",
                    escape(&host.to_text()),
                    status.resources,
                    escape(&status.version)
                ));
                if let Some(mistake) = &status.mistake {
                    let mistake = escape(mistake);
                    terminal
                        .data(&format!("  runs an earlier version, since there is a mistake: {mistake}\n"));
                }
                for (resource, by) in &status.undone {
                    terminal.data(&format!("  {} is undone by {}\n", escape(resource), escape(by)));
                }
            }
            if let Some(sight) = sight {
                terminal.data(&format!("{}\n", members::summary(sight)));
            }
        }
        Format::Json => {
            let hosts: serde_json::Map<_, _> =
                statuses.iter().map(|(host, status)| (host.to_text().into_owned(), json!(status))).collect();
            terminal.data(&json_line(&json!({
                "type": "status",
                "format_version": 1,
                "hosts": hosts,
                "scheduler": leader.map(|leader| leader.to_text().into_owned()),
                "newest_deploy": newest,
                "servers": sight.map(members::describe),
            })));
        }
    }
    Ok(if all_is_well { Exit::OK } else { Exit(exit_codes::FAILED) })
}
