//! What a deploy would do to this host, and whether to go on.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

use mgmt_engine::Preparation;
use mgmt_store::Deploy;
use mgmt_telemetry::Format;

use super::{Arguments, WAIT};
use crate::commands::graph::compute::Computing;
use crate::commands::plan::{self, Document, Wanted};
use crate::commands::run;
use crate::configuration::FrontEnd;
use crate::connection;
use crate::control::{Agent, Reply, Request};
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Whether somebody can be shown what is about to be done: on a terminal, and not for programs, which have to be sure of it.
pub(super) fn is_asked(arguments: &Arguments, terminal: &Terminal) -> Result<bool, Failure> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    match (is_terminal, terminal.format(), arguments.yes) {
        (true, Format::Json, false) => {
            Err(Failure::usage("with JSON there is no question, and nothing was deployed")
                .hint("add `--yes` to deploy without a question"))
        }
        (is_terminal, format, _) => Ok(is_terminal && format == Format::Human),
    }
}

/// Names the deploy that is to be repeated, and asks.
pub(super) fn rollback(deploy: &Deploy, arguments: &Arguments, terminal: &Terminal) -> Result<bool, Failure> {
    terminal
        .output()
        .notice(&format!("to be deployed again, on all hosts:\n{}", super::line(deploy, terminal)));
    ask(arguments, terminal)
}

/// Sums up the plan for this host, and asks.
pub(super) fn deploy(arguments: &Arguments, terminal: &Terminal) -> Result<bool, Failure> {
    let say = |text: &str| terminal.output().notice(text);
    match summary(arguments, terminal) {
        Some(Ok((hostname, summary))) => say(&format!("on {hostname}: {summary}")),
        Some(Err(failure)) => {
            terminal.failure(&failure);
            say("no plan could be made for this host\n");
        }
        None => say("no plan for this host: mgmt has not run here\n"),
    }
    ask(arguments, terminal)
}

fn ask(arguments: &Arguments, terminal: &Terminal) -> Result<bool, Failure> {
    if arguments.yes {
        return Ok(true);
    }
    terminal.output().notice("deploy? [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// The name of this host and the plan for it. Nothing if mgmt has not run here: then it is not one of the hosts.
fn summary(arguments: &Arguments, terminal: &Terminal) -> Option<Result<(String, String), Failure>> {
    let prefix = arguments.prefix.as_deref();
    let directory = connection::working_directory(prefix).ok()?;
    directory.join("engine").is_dir().then(|| plan_summary(arguments, &directory, terminal))
}

/// The name by which the running agent is known, or else that of the system.
fn hostname(directory: &Path) -> Result<String, Failure> {
    let identity = connection::within(async {
        let Some(mut agent) = Agent::connect(directory).await? else { return Ok(None) };
        agent.ask(Request::Identify).await?;
        agent.reply().await.map(Some)
    });
    match identity {
        Ok(Some(Reply::Identity { hostname })) => return Ok(hostname),
        Err(failure) => tracing::warn!(
            "the running mgmt does not name its host, and the plan is for the host name of the system: {}",
            failure.reason()
        ),
        Ok(_) => {}
    }
    run::hostname(None)
}

fn plan_summary(
    arguments: &Arguments,
    directory: &Path,
    terminal: &Terminal,
) -> Result<(String, String), Failure> {
    let front_end = match arguments.what.as_str() {
        "lang" => FrontEnd::Lang,
        "yaml" => FrontEnd::Yaml,
        "puppet" => FrontEnd::Puppet,
        "langpuppet" => FrontEnd::LangPuppet,
        _ => FrontEnd::Empty,
    };
    let hostname = hostname(directory)?;
    let computing = Computing {
        command: "deploy",
        terminal,
        module_path: arguments.module_path.as_deref(),
        hostname: &hostname,
        wait: WAIT,
        strict: false,
        manifest: &arguments.manifest,
        secrets: std::cell::RefCell::default(),
        files: std::cell::OnceCell::new(),
    };
    let input = arguments.input.as_deref().map(Path::as_os_str);
    let (name, graph) = computing.graph(front_end, input)?;
    let how = Preparation {
        autoedges: !arguments.no_autoedges,
        autogroup: !arguments.no_autogroup,
        ..Preparation::default()
    };
    let files = computing.files.get().cloned();
    let wanted = Wanted { graph, how: &how, hostname: &hostname, files };
    let planned = plan::make(wanted, arguments.prefix.as_deref(), terminal)?;
    let document = Document::new(&name, &hostname, &planned);
    Ok((hostname.clone(), document.summary()))
}
