//! What a deploy would do to this host, and whether to go on.

use std::io::{BufRead as _, IsTerminal as _};

use mgmt_engine::Preparation;
use mgmt_telemetry::Format;

use super::{Arguments, WAIT};
use crate::commands::graph::compute::Computing;
use crate::commands::plan::{self, Document, Wanted};
use crate::commands::run;
use crate::configuration::FrontEnd;
use crate::connection;
use crate::failure::Failure;
use crate::terminal::Terminal;

/// On a terminal: sums up the plan for this host, and asks. Otherwise, and for programs, there is no question.
pub(super) fn confirm(arguments: &Arguments, terminal: &Terminal) -> Result<bool, Failure> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !is_terminal || terminal.format() == Format::Json {
        return Ok(true);
    }
    let say = |text: &str| terminal.output().notice(text);
    match summary(arguments, terminal) {
        Some(Ok((hostname, summary))) => say(&format!("on {hostname}: {summary}")),
        Some(Err(failure)) => {
            terminal.failure(&failure);
            say("no plan could be made for this host\n");
        }
        None => say("no plan for this host: mgmt has not run here\n"),
    }
    if arguments.yes {
        return Ok(true);
    }
    say("deploy? [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// The name of this host and the plan for it. Nothing if mgmt has not run here: then it is not one of the hosts.
fn summary(arguments: &Arguments, terminal: &Terminal) -> Option<Result<(String, String), Failure>> {
    let prefix = arguments.prefix.as_deref();
    connection::working_directory(prefix).ok().filter(|directory| directory.join("engine").is_dir())?;
    Some(plan_summary(arguments, terminal))
}

fn plan_summary(arguments: &Arguments, terminal: &Terminal) -> Result<(String, String), Failure> {
    let front_end = match arguments.what.as_str() {
        "lang" => FrontEnd::Lang,
        "yaml" => FrontEnd::Yaml,
        "puppet" => FrontEnd::Puppet,
        "langpuppet" => FrontEnd::LangPuppet,
        _ => FrontEnd::Empty,
    };
    let hostname = run::hostname(None)?;
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
    let input = arguments.input.as_deref().map(std::path::Path::as_os_str);
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
