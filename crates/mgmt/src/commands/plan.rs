//! `mgmt plan`: what a program or a graph would change on this host.

pub(crate) mod document;
mod show;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mgmt_engine::{LastRuns, Preparation};
use mgmt_resource::{ProgramFiles, ResourceGraph};
use mgmt_store::SharedState;
use mgmt_sys::replace::Durability;
use mgmt_telemetry::{Format, json_line};

use super::exit_codes;
use super::graph::compute::{HowArguments, InputArguments};
use super::history::Written;
use super::run::host;
use super::run::prefix::{Choice, Prefix};
use crate::connection;
use crate::failure::{Exit, Failure};
use crate::managed;
use crate::terminal::Terminal;

pub(crate) use document::{Document, Planned, Stored, difference};

/// Show what a program, a graph file or a manifest would change on this host
///
/// Every resource is looked at and nothing is changed, in an order in which everything comes after what it needs. Each line is
/// `exact`: that is what a run would do now; `predicted`: it depends on an earlier change, or on a tool or daemon that may refuse;
/// or `unknown`: only a command that would run can tell. A resource that `will fail` needs something that is missing and that
/// nothing before it brings, or that the kernel refuses; whatever comes after it is `blocked`. Resources that the last run with the same prefix managed and that are no longer declared are listed. A program is computed once, with the first value of each function. Commands that its
/// functions and the conditions of `exec` need do run.
///
/// Exit code 0: the plan was made. 1: a resource will fail. With `--detailed-exitcode`, 2: there is something to
/// change.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: InputArguments,

    #[command(flatten)]
    how: HowArguments,

    /// 0: nothing to change, 1: failed, 2: something to change
    #[arg(long, visible_alias = "detailed-exitcodes")]
    detailed_exitcode: bool,

    /// Write the plan to a file for `mgmt apply`. Only you can read it: it holds all parameters, secrets too
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// The same as `--message-format`, for this command
    #[arg(long, value_name = "FORMAT")]
    format: Option<Written>,

    /// Leave out how texts would be changed
    #[arg(long)]
    no_diff: bool,

    /// Group no resources automatically
    #[arg(long)]
    no_autogroup: bool,

    /// The working directory of the run that would do it [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    /// What this host is called [default: as the system says]
    #[arg(long, value_name = "NAME")]
    hostname: Option<OsString>,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let hostname = super::run::hostname(arguments.hostname.clone())?;
    let input = &arguments.input;
    let computing = input.computing(&arguments.how, "plan", &hostname, terminal);
    let (name, graph) = computing.graph(input.front_end, input.input.as_deref())?;
    let how = Preparation {
        autoedges: !arguments.how.no_autoedges,
        autogroup: !arguments.no_autogroup,
        ..Preparation::default()
    };
    // A plan that is kept in a file is applied without the program.
    let files = computing.files.get().filter(|_| arguments.out.is_none()).cloned();
    let wanted = Wanted { graph: graph.clone(), how: &how, hostname: &hostname, files };
    let planned = make(wanted, arguments.prefix.as_deref(), terminal)?;
    let document = Document::new(&name, &hostname, &planned);
    if let Some(path) = &arguments.out {
        document.store(path, &graph, &how)?;
    }
    let document = document.without(&computing.secrets.borrow());
    match Written::or(arguments.format, terminal) {
        Format::Json => terminal.data(&json_line(&document.json())),
        Format::Human => terminal.data(&show::text(&document, !arguments.no_diff)),
    }
    let code = match (document.totals.errors, document.totals.changes() > 0) {
        (1.., _) => exit_codes::FAILED,
        (0, true) if arguments.detailed_exitcode => exit_codes::CHANGED,
        _ => exit_codes::OK,
    };
    Ok(Exit(code))
}

/// A copy of the store of the run on this host, if there is one.
async fn store(prefix: Option<&Path>, terminal: &Terminal) -> Result<mgmt_store::Embedded, Failure> {
    const COPY_TIMEOUT: Duration = Duration::from_secs(10);
    let copy = async {
        let path = connection::working_directory(prefix).ok()?.join(connection::SOCKET);
        let running = mgmt_store::socket::Socket::connect(&path).await.ok()?;
        mgmt_store::Embedded::copy_of(&running).await.ok()
    };
    match tokio::time::timeout(COPY_TIMEOUT, copy).await {
        Ok(Some(copy)) => return Ok(copy),
        Ok(None) => {}
        Err(_) => terminal.warning(&format!(
            "the mgmt that is running on this host has not answered within {}s; planning without shared values",
            COPY_TIMEOUT.as_secs()
        )),
    }
    mgmt_store::Embedded::in_memory().map_err(Failure::failed)
}

/// What to look at.
pub(crate) struct Wanted<'a> {
    pub(crate) graph: ResourceGraph,
    pub(crate) how: &'a Preparation,
    pub(crate) hostname: &'a str,
    /// The files of the program that the graph is of.
    pub(crate) files: Option<Arc<dyn ProgramFiles>>,
}

/// Looks at everything that a graph declares.
pub(crate) fn make(
    wanted: Wanted<'_>,
    prefix: Option<&Path>,
    terminal: &Terminal,
) -> Result<Planned, Failure> {
    let runtime = crate::runtime::start(None)?;
    let Wanted { graph, how, hostname, files } = wanted;
    // A run may be using the working directory, so nothing of it is touched. What resources keep there is read.
    let own = Prefix::open(&Choice::Temporary, hostname)?;
    let engine = connection::working_directory(prefix).map(|prefix| prefix.join("engine"));
    let mut released = match engine.as_deref().map(|engine| managed::released(engine, &graph)) {
        Ok(Ok(released)) => released,
        Ok(Err(error)) => {
            terminal.warning(&error);
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    runtime.block_on(async {
        let shared = Arc::new(SharedState::new(Arc::new(store(prefix, terminal).await?), hostname));
        let mut host = host(Durability::None, None, &own, Arc::clone(&shared))?;
        shared.ready().await;
        let last = engine.as_ref().map(|engine| LastRuns::read(&engine.join("journal"))).unwrap_or_default();
        if let (Some(host), Ok(kept)) = (Arc::get_mut(&mut host), engine.map(|engine| engine.join("state")))
            && kept.is_dir()
        {
            host.state = kept;
        }
        host.program_files.send_replace(files);
        let prepared = mgmt_engine::prepare_for(graph, &host, &mgmt_resources::KINDS, how)
            .map_err(|error| Failure::usage(format!("the graph cannot run: {error}")))?;
        for warning in &prepared.warnings {
            terminal.warning(warning);
        }
        let plan = mgmt_engine::plan(prepared, &host, &last).await;
        let undone = plan.steps.iter().filter(|step| step.is_reversal).map(|step| step.id.to_string());
        let undone: HashSet<String> = undone.collect();
        released.retain(|resource| !undone.contains(resource));
        Ok(Planned { plan, released })
    })
}
