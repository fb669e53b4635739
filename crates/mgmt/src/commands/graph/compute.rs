//! The graph of a program: its values are waited for, and nothing of it runs.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use mgmt_lang::{Checked, Outcome, Running};
use mgmt_resource::ResourceGraph;
use mgmt_world::{Local, World};

use super::Arguments;
use crate::commands::exit_codes;
use crate::commands::run::prefix::{Choice, Prefix};
use crate::failure::Failure;
use crate::program;
use crate::program::events::Sources;
use crate::program::surroundings::Surroundings;
use crate::terminal::Terminal;

/// Computes the graph of a program.
pub(super) fn compute(
    input: &OsString,
    arguments: &Arguments,
    terminal: &Terminal,
) -> Result<(String, ResourceGraph), Failure> {
    let options = program::Options {
        module_path: program::module_path(arguments.module_path.as_deref()),
        lints: false,
    };
    let checked = program::check(&program::entry(input)?, &options).map_err(|error| {
        program::show_missing(&error, terminal);
        Failure::shown(exit_codes::USAGE)
    })?;
    program::show(&checked.diagnostics, &checked.sources, terminal);
    if !checked.is_right() {
        return Err(Failure::shown(exit_codes::FAILED));
    }
    let name = checked.sources.iter().next().map(|(_, source)| source.name.to_string());
    let checked = Arc::new(checked);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let wait = Duration::from_secs(arguments.wait);
    let graph = runtime.block_on(first_graph(&checked, &arguments.hostname, wait))?;
    graph.map(|graph| (name.unwrap_or_default(), graph)).map_err(|wrong| {
        program::show(&wrong, &checked.sources, terminal);
        Failure::shown(exit_codes::FAILED)
    })
}

/// The first graph of a program for which all values are there.
async fn first_graph(
    checked: &Arc<Checked>,
    hostname: &str,
    wait: Duration,
) -> Result<Result<ResourceGraph, Vec<mgmt_lang::Diagnostic>>, Failure> {
    // Functions may keep files; they are gone when the graph has been printed.
    let prefix = Prefix::open(&Choice::Temporary, hostname)?;
    let local = Local::open(prefix.directory("local")?)
        .map_err(|error| Failure::failed(format!("cannot open the local store: {error}")))?;
    let world = World::in_memory(hostname).map_err(|error| Failure::failed(error.to_string()))?;
    world.ready().await;
    let (local, world) = (Arc::new(local), Arc::new(world));
    let surroundings = Arc::new(Surroundings::new(hostname, checked.deploy.clone(), local, world));
    let mut sources = Sources::new(None, Arc::clone(&surroundings));
    let mut running = tokio::task::block_in_place(|| {
        Running::new(Arc::clone(checked), mgmt_resources::KINDS, surroundings)
    });
    let deadline = tokio::time::Instant::now() + wait;
    loop {
        match tokio::task::block_in_place(|| running.settle()) {
            Outcome::Graph(graph) => return Ok(Ok(graph)),
            // There is nothing to change before there is a graph.
            Outcome::Changed(_) => {}
            Outcome::Unchanged => return Ok(Ok(ResourceGraph::new())),
            Outcome::Wrong(wrong) => return Ok(Err(wrong)),
            Outcome::Waiting => {}
        }
        sources.apply(running.watch_changes());
        match tokio::time::timeout_at(deadline, sources.happenings.next()).await {
            Ok(happened) => happened.iter().for_each(|watch| running.happened(watch)),
            Err(_) => {
                return Err(Failure::failed(format!(
                    "some values were not there after {} s",
                    wait.as_secs()
                ))
                .hint("`--wait SECONDS` gives them more time"));
            }
        }
    }
}
