//! What this host exports, as far as a host alone can: whatever it exports to itself or to everyone, it can collect.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mgmt_resource::{Error, ResourceGraph, Spec, to_stored};
use mgmt_value::Str;
use tokio::sync::watch;

/// A host name that stands for all hosts.
const EVERYBODY: &str = "*";

/// The exported resources of the graph that runs. They are exported anew by every run of the program, so nothing of them
/// has to outlive it.
pub(crate) struct Exports {
    hostname: Str,
    records: Mutex<Records>,
    /// Who wants to know, by kind. Locked only to follow and to tell.
    followers: Mutex<HashMap<Str, watch::Sender<()>>>,
}

#[derive(Default)]
struct Records {
    /// What the graph that runs may export.
    declared: HashSet<Record>,
    /// What the graph that is about to run may export.
    coming: HashSet<Record>,
    stored: BTreeMap<Record, Str>,
}

/// One resource for one host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    pub(crate) fn new(hostname: &str) -> Exports {
        Exports { hostname: hostname.into(), records: Mutex::default(), followers: Mutex::default() }
    }

    /// The resources of a kind that are exported to this host or to everyone.
    pub(crate) fn of_kind(&self, kind: &Str) -> Vec<mgmt_funcs::Export> {
        let records = lock(&self.records);
        let mut found = BTreeMap::new();
        for (record, data) in records.stored.iter().filter(|(record, _)| record.kind == *kind) {
            if record.to == self.hostname {
                found.insert(record.name.clone(), data.clone());
            } else if record.to == EVERYBODY {
                // What is meant for this host in particular counts.
                found.entry(record.name.clone()).or_insert_with(|| data.clone());
            }
        }
        let host = &self.hostname;
        found.into_iter().map(|(name, data)| mgmt_funcs::Export { name, host: host.clone(), data }).collect()
    }

    /// Follows the exports of a kind from now on.
    pub(crate) fn follow(&self, kind: &Str) -> watch::Receiver<()> {
        let mut followers = lock(&self.followers);
        followers.retain(|_, follower| follower.receiver_count() > 0);
        followers.entry(kind.clone()).or_default().subscribe()
    }

    /// A graph is about to run.
    pub(crate) fn announce(&self, graph: &ResourceGraph) {
        lock(&self.records).coming = graph.nodes().flat_map(|(_, spec)| records(spec)).collect();
    }

    /// The graph that was announced runs now, or it was refused. What the graph that runs does not declare is forgotten.
    pub(crate) fn decided(&self, runs: bool) {
        let mut records = lock(&self.records);
        let coming = std::mem::take(&mut records.coming);
        if runs {
            records.declared = coming;
        }
        let Records { declared, stored, .. } = &mut *records;
        let gone: Vec<Record> = stored.keys().filter(|record| !declared.contains(record)).cloned().collect();
        stored.retain(|record, _| declared.contains(record));
        drop(records);
        for record in gone {
            self.tell(&record.kind);
        }
    }

    fn tell(&self, kind: &Str) {
        if let Some(follower) = lock(&self.followers).get(kind) {
            follower.send_replace(());
        }
    }
}

impl mgmt_engine::Export for Exports {
    fn export(&self, spec: &Spec) -> mgmt_resource::Result<()> {
        let data = serde_json::to_vec(&to_stored(spec)).map_err(|error| Error::new(error.to_string()))?;
        let data = Str::from(data);
        let mut is_news = false;
        let mut stored = lock(&self.records);
        for record in records(spec) {
            // One that is not declared any more finishes its last run.
            if stored.declared.contains(&record) || stored.coming.contains(&record) {
                is_news |= stored.stored.insert(record, data.clone()).as_ref() != Some(&data);
            }
        }
        drop(stored);
        if is_news {
            self.tell(&Str::from(spec.id.kind));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mgmt_engine::Export as _;
    use mgmt_resource::Spec;

    use super::*;

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

    fn names(exports: &Exports) -> Vec<String> {
        exports.of_kind(&"noop".into()).iter().map(|export| export.name.display().to_string()).collect()
    }

    #[test]
    fn only_what_is_for_this_host_or_for_all_is_seen() {
        let exports = Exports::new("me");
        let specs = [exported("a", &["*"]), exported("b", &["you"]), exported("c", &["me", "you", "*"])];
        run(&exports, &specs.each_ref());
        for spec in &specs {
            exports.export(spec).unwrap();
        }
        assert_eq!(names(&exports), ["a", "c"]);
        assert!(exports.of_kind(&"file".into()).is_empty());
    }

    #[test]
    fn what_is_no_longer_declared_is_gone_and_stays_so() {
        let exports = Exports::new("me");
        let (a, b) = (exported("a", &["*"]), exported("b", &["*"]));
        let mut changes = exports.follow(&"noop".into());
        run(&exports, &[&a]);
        exports.export(&a).unwrap();
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        exports.export(&a).unwrap();
        assert!(!changes.has_changed().unwrap(), "the same again is no news");
        run(&exports, &[&b]);
        assert!(changes.has_changed().unwrap());
        exports.export(&a).unwrap();
        exports.export(&b).unwrap();
        assert_eq!(names(&exports), ["b"]);
    }

    #[test]
    fn a_graph_that_is_refused_changes_nothing() {
        let exports = Exports::new("me");
        let a = exported("a", &["*"]);
        run(&exports, &[&a]);
        exports.export(&a).unwrap();
        exports.announce(&ResourceGraph::default());
        exports.decided(false);
        assert_eq!(names(&exports), ["a"]);
    }
}
