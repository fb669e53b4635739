//! `mgmt apply`: does what a plan says, if it still holds.

use std::ffi::OsString;
use std::path::PathBuf;

use mgmt_telemetry::escape;
use serde_json::Value as Json;

use super::plan::{self, Document, Stored, Wanted};
use super::run;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Do what a plan says, if the host is still as it was when the plan was made
///
/// Everything is looked at again first. If anything else would be done than the plan says, nothing is: the host has moved, and
/// another plan is needed. A plan for a host of another name is refused, and so is a file that others may write to. Otherwise the graph of the plan is run until it has converged, and the run ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What `mgmt plan --out` has written
    #[arg(value_name = "PLANFILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,

    /// Tell changes and failures apart in the exit code, as `run` does; see `mgmt help exit-codes`
    #[arg(long, visible_alias = "detailed-exitcodes")]
    detailed_exitcode: bool,

    /// Show only lines of the log, not how far the work is [env: MGMT_NO_PROGRESS]
    #[arg(long)]
    no_progress: bool,

    /// The working directory [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    /// What this host is called [default: as the system says]
    #[arg(long, value_name = "NAME")]
    hostname: Option<OsString>,
}

pub(crate) fn run(arguments: Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let stored = Stored::read(&arguments.file)?;
    let hostname = run::hostname(arguments.hostname)?;
    if hostname != stored.hostname {
        return Err(Failure::failed(format!(
            "the plan is for the host {}, and this is {}: nothing was done",
            escape(&stored.hostname),
            escape(&hostname)
        ))
        .hint("`--hostname NAME` says what this host is called, for `plan` and `apply`"));
    }
    let wanted =
        Wanted { graph: stored.graph.clone(), how: &stored.how, hostname: &stored.hostname, files: None };
    let now = plan::make(wanted, arguments.prefix.as_deref(), terminal)?;
    let now = Document::new(&stored.name, &stored.hostname, &now).steps();
    if now != stored.steps {
        let mut failure = Failure::failed("the host has moved since the plan was made, and nothing was done");
        for moved in moved(&stored.steps, &now).iter().take(10) {
            failure = failure.hint(moved.clone());
        }
        return Err(failure.hint("make another with `mgmt plan --out FILE`"));
    }
    let given = run::Applied {
        file: arguments.file,
        prefix: arguments.prefix,
        hostname: stored.hostname,
        detailed_exitcode: arguments.detailed_exitcode,
        no_progress: arguments.no_progress,
        how: stored.how,
        name: stored.name,
        graph: stored.graph,
    };
    run::apply(given, terminal)
}

/// The resources of which something else is true now.
fn moved(planned: &Json, now: &Json) -> Vec<String> {
    let steps = |json: &Json| json.as_array().cloned().unwrap_or_default();
    let (planned, now) = (steps(planned), steps(now));
    let of = |steps: &[Json], name: &Json| steps.iter().find(|step| step["resource"] == *name).cloned();
    let name = |step: &Json| escape(step["resource"].as_str().unwrap_or_default()).into_owned();
    let mut told: Vec<String> = Vec::new();
    for step in &planned {
        match of(&now, &step["resource"]) {
            None => told.push(format!("{} is not looked at any more", name(step))),
            Some(other) if ["lines", "error", "held"].iter().any(|part| other[*part] != step[*part]) => {
                told.push(format!("{} would be changed otherwise now", name(step)));
            }
            Some(_) => {}
        }
    }
    let new = now.iter().filter(|step| of(&planned, &step["resource"]).is_none());
    told.extend(new.map(|step| format!("{} is looked at, too", name(step))));
    told
}
