//! `--settle`: the graph is run until it has converged, and its parameters are read then.

use std::sync::Arc;
use std::time::Duration;

use mgmt_engine::{Engine, EngineEvent, EngineSettings, Level, Preparation};
use mgmt_resource::{Resource, ResourceGraph};
use mgmt_store::SharedState;
use mgmt_sys::replace::Durability;

use super::Arguments;
use crate::commands::run::host;
use crate::commands::run::prefix::{Choice, Prefix};
use crate::failure::Failure;

/// A resource may wait for something from outside, and nothing else shows that it does.
const QUIET: Duration = Duration::from_secs(1);

/// Runs a graph, and takes over the parameters that it ends with into the one that is shown. Returns what keeps the graph from
/// converging, if something does.
pub(super) fn settle(
    graph: ResourceGraph,
    how: &Preparation,
    arguments: &Arguments,
    shown: &mut ResourceGraph,
) -> Result<Option<String>, Failure> {
    let runtime = crate::runtime::start(None)?;
    let prefix = Prefix::open(&Choice::Temporary, &arguments.hostname)?;
    let shared = SharedState::in_memory(&arguments.hostname).map_err(Failure::failed)?;
    let settings = EngineSettings {
        host: host(Durability::None, None, &prefix, Arc::new(shared))?,
        registry: mgmt_resources::KINDS,
        preparation: how.clone(),
        converge_after: Some(QUIET),
        threads: None,
        export: None,
        witness: None,
        journal: None,
        dot: false,
        slow_down: false,
    };
    let patience = Duration::from_secs(arguments.how.wait).max(QUIET) + QUIET;
    runtime.block_on(async {
        let (engine, mut events) = Engine::start(settings)
            .map_err(|error| Failure::failed(format!("cannot start the engine: {error}")))?;
        let ended = || Failure::failed("the engine ended although nobody asked it to");
        engine.swap(graph).await.map_err(|error| Failure::usage(format!("the graph cannot run: {error}")))?;
        let at_rest = async {
            while let Some(event) = events.recv().await {
                match event {
                    EngineEvent::Converged => return Some(None),
                    EngineEvent::Quiet { failed, unwell } => return Some(Some(unsettled(failed, unwell))),
                    _ => {}
                }
            }
            None
        };
        let unsettled = match tokio::time::timeout(patience, at_rest).await {
            Ok(Some(unsettled)) => unsettled,
            Ok(None) => return Err(ended()),
            Err(_) => {
                let message = format!("the graph has not converged after {} s", patience.as_secs());
                return Err(Failure::failed(message).hint("`--wait SECONDS` gives it more time"));
            }
        };
        let resources = engine.inspect().await.map_err(|_| ended())?;
        for (_, spec) in shown.nodes_mut() {
            let members = std::iter::once((&spec.id, &mut spec.resource));
            let children = spec.children.iter_mut().map(|child| (&child.id, &mut child.resource));
            for (id, resource) in members.chain(children) {
                if let Some(found) = resources.get(id) {
                    resource.clone_from(found);
                }
            }
        }
        engine.stop(Level::Graceful);
        tokio::task::block_in_place(|| engine.wait());
        Ok(unsettled)
    })
}

fn unsettled(failed: usize, unwell: usize) -> String {
    match failed {
        0 => mgmt_health::plural(
            unwell as u64,
            "resource is not checked any more",
            "resources are not checked any more",
        ),
        failed => mgmt_health::plural(failed as u64, "resource has failed", "resources have failed"),
    }
}

/// The parameters that are not as they would be if nobody had set them, as text. Secrets are only named.
pub(super) fn fields(resource: &dyn Resource) -> impl Iterator<Item = (&'static str, String)> {
    let untouched = (resource.schema().make)();
    resource.schema().fields.iter().filter_map(move |field| {
        let value = resource.get(field.name)?;
        let text = if field.secret { "(secret)".to_owned() } else { value.to_string() };
        (untouched.get(field.name) != Some(value)).then_some((field.name, text))
    })
}
