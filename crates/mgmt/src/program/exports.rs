//! What the graph that runs offers to other hosts.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgmt_engine::{Engine, SwapError, SwapReport};
use mgmt_resource::{Error, ResourceGraph, Spec, to_stored};
use mgmt_store::SharedState;
use mgmt_value::Str;

/// The exported resources of the graph that runs. Each is offered when it has run, so that exports come in the order of the
/// graph; what the graph does not declare any more is taken back.
pub(crate) struct Exports {
    world: Arc<SharedState>,
    /// How long they stay when this host is gone.
    time: Option<Duration>,
    records: Mutex<Records>,
}

#[derive(Default)]
struct Records {
    /// What the graph that runs may export.
    declared: HashSet<Record>,
    /// What the graph that is about to run may export.
    coming: HashSet<Record>,
    /// Some graph has run, so what an earlier run of the program has left is gone.
    told: bool,
}

/// One resource for one host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Record {
    kind: Str,
    name: Str,
    to: Str,
}

fn records(spec: &Spec) -> impl Iterator<Item = Record> + '_ {
    let (kind, name) = (Str::from(spec.id.kind), spec.id.name.clone());
    spec.meta.export.iter().map(move |to| Record { kind: kind.clone(), name: name.clone(), to: to.clone() })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exports {
    pub(crate) fn new(world: Arc<SharedState>, time: Option<Duration>) -> Exports {
        Exports { world, time, records: Mutex::default() }
    }

    /// A graph is about to run.
    fn announce(&self, graph: &ResourceGraph) {
        lock(&self.records).coming = graph.nodes().flat_map(|(_, spec)| records(spec)).collect();
    }

    /// The graph that was announced runs now, or it was refused.
    fn decided(&self, runs: bool) {
        let mut records = lock(&self.records);
        let coming = std::mem::take(&mut records.coming);
        if !runs {
            return;
        }
        if coming != records.declared || !std::mem::replace(&mut records.told, true) {
            self.world.exports_are(coming.iter().map(|record| (&record.kind, &record.name, &record.to)));
        }
        records.declared = coming;
    }

    /// Gives the engine a graph. What it exports can be collected as soon as it runs.
    pub(crate) async fn swap(&self, engine: &Engine, graph: ResourceGraph) -> Result<SwapReport, SwapError> {
        self.announce(&graph);
        let swapped = engine.swap(graph).await;
        self.decided(swapped.is_ok());
        swapped
    }
}

impl mgmt_engine::Export for Exports {
    fn export(&self, spec: &Spec) -> mgmt_resource::Result<()> {
        let data = serde_json::to_vec(&to_stored(spec)).map_err(|error| Error::new(error.to_string()))?;
        let data = Str::from(data);
        let told = lock(&self.records);
        for record in records(spec) {
            // One that is not declared any more finishes its last run.
            if told.declared.contains(&record) || told.coming.contains(&record) {
                self.world
                    .export(&record.kind, &record.name, &record.to, &data, self.time)
                    .map_err(|error| Error::new(error.to_string()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mgmt_engine::Export as _;
    use mgmt_resource::Spec;

    use super::*;

    fn exports() -> Exports {
        Exports::new(Arc::new(SharedState::in_memory("me").unwrap()), None)
    }

    fn exported(name: &str, to: &[&str]) -> Spec {
        let schema = mgmt_resources::KINDS.get("noop").unwrap();
        let mut spec = Spec::of(name, (schema.make)().into());
        spec.meta.export = to.iter().map(|to| Str::from(*to)).collect();
        spec
    }

    fn run(exports: &Exports, specs: &[&Spec]) {
        let mut graph = ResourceGraph::default();
        for spec in specs {
            graph.add_node((*spec).clone());
        }
        exports.announce(&graph);
        exports.decided(true);
    }

    async fn names(exports: &Exports) -> Vec<String> {
        let settled = tokio::time::timeout(Duration::from_secs(30), exports.world.settled());
        settled.await.unwrap();
        let exported = exports.world.exported(&"noop".into());
        exported.iter().map(|export| export.name.display().to_string()).collect()
    }

    #[tokio::test]
    async fn only_what_is_for_this_host_or_for_all_is_seen() {
        let exports = exports();
        let specs = [exported("a", &["*"]), exported("b", &["you"]), exported("c", &["me", "you", "*"])];
        run(&exports, &specs.each_ref());
        for spec in &specs {
            exports.export(spec).unwrap();
        }
        assert_eq!(names(&exports).await, ["a", "c"]);
        assert!(exports.world.exported(&"file".into()).is_empty());
    }

    #[tokio::test]
    async fn what_is_no_longer_declared_is_gone_and_stays_so() {
        let exports = exports();
        let (a, b) = (exported("a", &["*"]), exported("b", &["*"]));
        run(&exports, &[&a]);
        exports.export(&a).unwrap();
        assert_eq!(names(&exports).await, ["a"]);
        run(&exports, &[&b]);
        exports.export(&a).unwrap();
        exports.export(&b).unwrap();
        assert_eq!(names(&exports).await, ["b"]);
    }

    #[tokio::test]
    async fn a_graph_that_is_refused_changes_nothing() {
        let exports = exports();
        let a = exported("a", &["*"]);
        run(&exports, &[&a]);
        exports.export(&a).unwrap();
        exports.announce(&ResourceGraph::default());
        exports.decided(false);
        assert_eq!(names(&exports).await, ["a"]);
    }
}
