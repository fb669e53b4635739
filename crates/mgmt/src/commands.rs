//! The subcommands, one file each.

pub(crate) mod admit;
pub(crate) mod apply;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod deploy;
pub(crate) mod diff;
pub(crate) mod docs;
pub(crate) mod etcd;
pub(crate) mod exit_codes;
pub(crate) mod explain;
pub(crate) mod firstboot;
pub(crate) mod fmt;
pub(crate) mod forget;
pub(crate) mod functions;
pub(crate) mod get;
pub(crate) mod graph;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod kinds;
pub(crate) mod license;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod members;
pub(crate) mod plan;
pub(crate) mod puppet;
pub(crate) mod repl;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod setup;
pub(crate) mod status;
pub(crate) mod why;
pub(crate) mod world;

use crate::cli::Command;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Does what the command line asks for.
pub(crate) fn dispatch(command: Command, terminal: &Terminal) -> Result<Exit, Failure> {
    set_read_limit()?;
    match command {
        Command::Run(arguments) => run::run(*arguments, terminal),
        Command::Plan(arguments) => plan::run(&arguments, terminal),
        Command::Apply(arguments) => apply::run(arguments, terminal),
        Command::Check(arguments) => check::run(&arguments, terminal),
        Command::Fmt(arguments) => fmt::run(&arguments, terminal),
        Command::Get(arguments) => get::run(&arguments, terminal),
        Command::Graph(arguments) => graph::run(&arguments, terminal),
        Command::Diff(arguments) => diff::run(&arguments, terminal),
        Command::Puppet(arguments) => puppet::run(&arguments, terminal),
        Command::Repl(arguments) => repl::run(&arguments, terminal),
        Command::Deploy(arguments) => deploy::run(&arguments, terminal),
        Command::Status(arguments) => status::run(&arguments, terminal),
        Command::Retry(arguments) => retry::run(arguments, terminal),
        Command::Forget(arguments) => forget::run(&arguments, terminal),
        Command::Log(arguments) => log::run(&arguments, terminal),
        Command::History(arguments) => history::run(&arguments, terminal),
        Command::Why(arguments) => why::run(&arguments, terminal),
        Command::Members(arguments) => members::run(&arguments, terminal),
        Command::Admit(arguments) => admit::run(&arguments, terminal),
        Command::Etcd(arguments) => etcd::run(&arguments),
        Command::World(arguments) => world::run(&arguments, terminal),
        Command::Setup(arguments) => setup::run(&arguments, terminal),
        Command::Firstboot(arguments) => firstboot::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments, terminal),
        Command::Kinds(arguments) => kinds::run(&arguments, terminal),
        Command::Functions(arguments) => functions::run(&arguments, terminal),
        Command::Docs(arguments) => docs::run(&arguments, terminal),
        Command::Completions(arguments) => completions::run(&arguments, terminal),
        Command::Man(arguments) => man::run(&arguments, terminal),
        Command::Help(arguments) => help::run(&arguments, terminal),
        Command::License => license::run(terminal),
    }
}

/// How much functions read from one file, as the environment says.
fn set_read_limit() -> Result<(), Failure> {
    let Some(text) = crate::environment::READ_LIMIT.text() else { return Ok(()) };
    let bytes = text.parse().map_err(|_| {
        Failure::usage(format!("MGMT_READ_LIMIT: expected a number of bytes, found `{text}`"))
    })?;
    mgmt_funcs::set_read_limit(bytes);
    Ok(())
}
