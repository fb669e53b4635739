//! `mgmt apply`: does what a plan says, if it still holds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mgmt_telemetry::{Format, escape, json_line};
use serde_json::{Value as Json, json};

use super::exit_codes::{self, Ending};
use super::plan::{self, Document, Stored, Wanted};
use super::run;
use crate::connection;
use crate::control::{Agent, Reply, Request};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Do what a plan says, if the host is still as it was when the plan was made
///
/// Everything is looked at again first. If anything else would be done than the plan says, nothing is: the host has moved, and
/// another plan is needed. A plan for a host of another name is refused, and so is a file that others may write to. Otherwise the
/// graph of the plan is run until it has converged, and the run ends.
///
/// Where mgmt is running with the same prefix, the plan is handed to it instead: it runs the graph from now on, in the place of its
/// program or deploy, until a newer deploy, a reload or a restart, and this command shows what it does until it has converged.
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

    /// What this host is called [default: as the running mgmt says, or the system]
    #[arg(long, value_name = "NAME")]
    hostname: Option<OsString>,
}

pub(crate) fn run(arguments: Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let (stored, text) = Stored::read(&arguments.file)?;
    let hostname = match arguments.hostname {
        Some(name) => run::hostname(Some(name))?,
        None => super::deploy::running_hostname(arguments.prefix.as_deref())?,
    };
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
        let mut failure =
            Failure::failed("the host has changed since the plan was made; nothing was applied");
        for moved in moved(&stored.steps, &now).iter().take(10) {
            failure = failure.hint(moved.clone());
        }
        return Err(failure.hint("make another with `mgmt plan --out FILE`"));
    }
    let prefix = connection::working_directory(arguments.prefix.as_deref())?;
    if let Some(exit) = hand_over(&prefix, &stored, &text, arguments.detailed_exitcode, terminal)? {
        return Ok(exit);
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

/// Hands the plan to the agent that works in this directory, and shows what it does. Nothing, if none does.
fn hand_over(
    prefix: &Path,
    stored: &Stored,
    text: &[u8],
    detailed: bool,
    terminal: &Terminal,
) -> Result<Option<Exit>, Failure> {
    connection::within(async {
        let Some(mut agent) = Agent::connect(prefix).await? else { return Ok(None) };
        let plan = String::from_utf8(text.to_vec()).map_err(|_| Failure::usage("the plan is not a text"))?;
        agent.ask(Request::Apply { plan }).await?;
        loop {
            match agent.reply().await? {
                Reply::Applied { changed, failed, pending } => {
                    let ending = if failed + pending > 0 { Ending::Quiet } else { Ending::Converged };
                    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
                    let code = exit_codes::of(ending, detailed, count(changed), count(failed));
                    terminal.data(&match terminal.format() {
                        Format::Human if pending == 0 => {
                            format!("applied: {changed} changed, {failed} failed\n")
                        }
                        Format::Human => {
                            format!("applied: {changed} changed, {failed} failed, {pending} not checked\n")
                        }
                        Format::Json => json_line(&json!({
                            "type": "applied", "format_version": 1, "changed": changed, "failed": failed,
                            "pending": pending, "exit_code": code,
                        })),
                    });
                    return Ok(Some(Exit(code)));
                }
                reply => terminal.data(&progress(&reply, stored, terminal.format())),
            }
        }
    })
}

/// What the agent does, as a line.
fn progress(reply: &Reply, stored: &Stored, format: Format) -> String {
    if format == Format::Json {
        let mut line = json!(reply);
        line["type"] = "apply_progress".into();
        return json_line(&line);
    }
    match reply {
        Reply::Running { resources } => {
            let many = if *resources == 1 { "" } else { "s" };
            format!("the running mgmt applies {}: {resources} resource{many}\n", escape(&stored.name))
        }
        Reply::Changed { resource, effects } => {
            let effects: String = effects.iter().map(|effect| format!("  {}\n", escape(effect))).collect();
            format!("{}: changed\n{effects}", escape(resource))
        }
        Reply::Failed { resource, message } => {
            format!("{}: failed: {}\n", escape(resource), escape(message))
        }
        Reply::Missed { count } => format!("{count} lines were left out\n"),
        _ => String::new(),
    }
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
            Some(other)
                if ["lines", "error", "open", "blocked_by", "held", "noop"]
                    .iter()
                    .any(|part| other[*part] != step[*part]) =>
            {
                told.push(format!("{} would be changed otherwise now", name(step)));
            }
            Some(_) => {}
        }
    }
    let new = now.iter().filter(|step| of(&planned, &step["resource"]).is_none());
    told.extend(new.map(|step| format!("{} is looked at, too", name(step))));
    told
}
