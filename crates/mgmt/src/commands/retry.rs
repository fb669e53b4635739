//! `mgmt retry`: has the running agent attempt failed resources now.

use std::path::PathBuf;

use mgmt_health::plural;
use mgmt_telemetry::{Format, escape, json_line};
use serde_json::json;

use crate::connection;
use crate::control::{self, Agent, Reply, Request};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Have the running mgmt attempt failed resources now
///
/// A failed resource is attempted again with growing pauses, or not at all once its declared `retry` is used up. This attempts it
/// at once, with everything that waits for it, and evaluates values of the program again that have failed. Exit code 0: it is being attempted, or nothing is failing. 1: mgmt does not know the resource. 3: mgmt is not running.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only this resource, as `kind[name]` [default: all that are failing]
    #[arg(value_name = "RESOURCE")]
    resource: Option<String>,

    /// The working directory of the run [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let prefix = connection::working_directory(arguments.prefix.as_deref())?;
    let reply = connection::within(async {
        let mut agent = Agent::connect(&prefix).await?.ok_or_else(|| control::not_running(&prefix))?;
        agent.ask(Request::Retry { resource: arguments.resource.clone() }).await?;
        agent.reply().await
    })?;
    let Reply::Retried { count, values } = reply else {
        return Err(Failure::failed("mgmt has answered something else than was asked"));
    };
    let human = || {
        let resources = plural(count, "resource", "resources");
        let failed = plural(values, "failed value", "failed values");
        match (count, values) {
            (0, 0) => match &arguments.resource {
                Some(resource) => format!("{} is not failing\n", escape(resource)),
                None => "nothing is failing\n".to_owned(),
            },
            (_, 0) => format!("attempting {resources}\n"),
            (0, _) => format!("evaluating {failed} again\n"),
            (_, _) => format!("attempting {resources}, evaluating {failed} again\n"),
        }
    };
    terminal.data(&match terminal.format() {
        Format::Json => {
            json_line(&json!({ "type": "retry", "format_version": 1, "count": count, "values": values }))
        }
        Format::Human => human(),
    });
    Ok(Exit::OK)
}
