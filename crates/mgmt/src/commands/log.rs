//! `mgmt log`: which log lines hosts that run show from now on.

use std::ffi::OsString;
use std::path::PathBuf;

use mgmt_telemetry::{Filter, Format, escape, json_line};
use mgmt_value::Str;
use serde_json::{Map, json};

use crate::commands::run;
use crate::connection::{self, Connection};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Show or change which log lines a host shows, while it runs
///
/// `mgmt log debug` or `mgmt log info,engine=debug` counts at once, for this host or for the one of `--host`, and stays until `mgmt log
/// --reset`: also if the host is started again. Without a level, all hosts are listed of which one is wanted; they show what they were
/// started with otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// off, error, warn, info, debug, trace, or a list such as `info,engine=debug`
    #[arg(value_name = "LEVEL", conflicts_with = "reset")]
    level: Option<String>,

    /// Back to what the host was started with
    #[arg(long)]
    reset: bool,

    /// The host that is meant, instead of this one
    #[arg(long, value_name = "HOST")]
    host: Option<OsString>,

    /// The working directory of the run on this host, if there are no `--seeds` [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    if let Some(level) = &arguments.level {
        level.parse::<Filter>().map_err(Failure::usage)?;
    }
    let host = run::hostname(arguments.host.clone())?;
    connection::within(async {
        let world = arguments.connection.world(arguments.prefix.as_deref()).await?;
        if arguments.level.is_none() && !arguments.reset {
            return show(&world, terminal);
        }
        let level = arguments.level.as_deref().map(Str::from);
        let changed = world.set_log_level(&Str::from(host.as_str()), level.as_ref()).await;
        let changed = changed.map_err(Failure::failed)?;
        let now = match &arguments.level {
            Some(level) => format!("{} shows {}", escape(&host), escape(level)),
            None => format!("{} shows what it was started with", escape(&host)),
        };
        let already = if changed { "" } else { " already" };
        terminal.output().notice(&format!("{now}{already}\n"));
        Ok(Exit::OK)
    })
}

fn show(world: &mgmt_store::SharedState, terminal: &Terminal) -> Result<Exit, Failure> {
    let levels = world.known_log_levels().map_err(Failure::failed)?;
    match terminal.format() {
        Format::Human => {
            for (host, level) in &levels {
                terminal.data(&format!("{}  {}\n", escape(&host.to_text()), escape(&level.to_text())));
            }
        }
        Format::Json => {
            let hosts: Map<String, serde_json::Value> = levels
                .iter()
                .map(|(host, level)| (host.to_text().into_owned(), level.to_text().into()))
                .collect();
            terminal.data(&json_line(&json!({ "type": "log-levels", "format_version": 1, "hosts": hosts })));
        }
    }
    Ok(Exit::OK)
}
