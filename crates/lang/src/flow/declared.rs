//! What all statements of a running program declare, and what of it has changed.
//!
//! Most changes concern the parameters of a few resources, and nothing else: the resources have the names that they had,
//! and the same edges. Such a change is told as the new declarations alone, and costs what it changes. Any other one,
//! be it a resource that comes or goes, an edge, or something that is declared twice, is told as the whole graph.

use std::sync::Arc;

use mgmt_dataflow::NodeId;
use mgmt_resource::{Id, Receive, Registry, Spec};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Outcome;
use crate::diagnostic::Diagnostic;
use crate::output::{self, Assembled, Declaration, DeclaredEdge};
use crate::source::Span;

/// What a statement declares.
#[derive(Default)]
pub(crate) struct Declared {
    pub(crate) resources: Vec<Declaration>,
    pub(crate) edges: Vec<DeclaredEdge>,
    /// What it says but cannot be.
    pub(crate) wrong: Vec<Diagnostic>,
}

/// What all statements declare.
#[derive(Default)]
pub(super) struct Declarations {
    by_node: FxHashMap<NodeId, Arc<Declared>>,
    /// What is known of the graph that was told last. Nothing, if something else than parameters has changed since.
    known: Option<Known>,
    /// Declarations that are not as they were told.
    changed: FxHashMap<Id, Spec>,
}

/// What the whole graph says about a resource.
struct Known {
    /// Those that are declared more than once.
    repeated: FxHashSet<Id>,
    receives: FxHashMap<Id, Vec<Receive>>,
}

impl Declarations {
    /// A statement declares nothing any more.
    pub(super) fn remove(&mut self, node: NodeId) {
        if self.by_node.remove(&node).is_some_and(|declared| !declared.is_nothing()) {
            self.known = None;
        }
    }

    /// A statement declares something else than before.
    pub(super) fn set(&mut self, node: NodeId, new: &Arc<Declared>) {
        match self.by_node.insert(node, Arc::clone(new)) {
            Some(old) => match self.known.as_ref().and_then(|known| known.changes(&old, new)) {
                Some(specs) => self.changed.extend(specs.into_iter().map(|spec| (spec.id.clone(), spec))),
                None => self.known = None,
            },
            None if new.is_nothing() => {}
            None => self.known = None,
        }
    }

    /// Tells what has changed since this was last asked for.
    pub(super) fn tell(&mut self, kinds: &Registry) -> Outcome {
        if self.known.is_none() {
            return self.whole(kinds);
        }
        if self.changed.is_empty() {
            return Outcome::Unchanged;
        }
        let mut specs: Vec<Spec> = std::mem::take(&mut self.changed).into_values().collect();
        specs.sort_by(|a, b| a.id.cmp(&b.id));
        Outcome::Changed(specs)
    }

    /// Nothing is known of the graph that was told last.
    pub(super) fn forget(&mut self) {
        self.known = None;
    }

    /// Tells everything.
    pub(super) fn whole(&mut self, kinds: &Registry) -> Outcome {
        self.changed.clear();
        self.known = None;
        let mut all: Vec<&Arc<Declared>> = self.by_node.values().collect();
        all.sort_by_key(|declared| declared.place());
        let wrong: Vec<Diagnostic> = all.iter().flat_map(|declared| declared.wrong.iter().cloned()).collect();
        if !wrong.is_empty() {
            return Outcome::Wrong(wrong);
        }
        let resources = all
            .iter()
            .flat_map(|declared| &declared.resources)
            .map(|found| Declaration { spec: found.spec.clone(), span: found.span })
            .collect();
        let edges: Vec<DeclaredEdge> =
            all.iter().flat_map(|declared| declared.edges.iter().cloned()).collect();
        match output::assemble(resources, &edges, kinds) {
            Ok(Assembled { graph, repeated }) => {
                let receivers = graph.nodes().filter(|(_, spec)| !spec.receives.is_empty());
                let receives = receivers.map(|(_, spec)| (spec.id.clone(), spec.receives.clone())).collect();
                self.known = Some(Known { repeated, receives });
                Outcome::Graph(graph)
            }
            Err(wrong) => Outcome::Wrong(wrong),
        }
    }
}

impl Known {
    /// The declarations that differ, if nothing else does.
    fn changes(&self, old: &Declared, new: &Declared) -> Option<Vec<Spec>> {
        let alike = old.wrong.is_empty()
            && new.wrong.is_empty()
            && old.resources.len() == new.resources.len()
            && old.edges == new.edges;
        if !alike {
            return None;
        }
        let mut specs = Vec::new();
        for (old, new) in old.resources.iter().zip(&new.resources) {
            let (old, new) = (&old.spec, &new.spec);
            if old.id != new.id {
                return None;
            }
            if old.same_as(new) {
                continue;
            }
            let plain = |spec: &Spec| !spec.meta.hidden && spec.meta.export.is_empty();
            if !plain(old) || !plain(new) || self.repeated.contains(&new.id) {
                return None;
            }
            let receives = self.receives.get(&new.id).cloned().unwrap_or_default();
            specs.push(Spec { receives, ..new.clone() });
        }
        Some(specs)
    }
}

impl Declared {
    fn is_nothing(&self) -> bool {
        self.resources.is_empty() && self.edges.is_empty() && self.wrong.is_empty()
    }

    /// For a stable order: where it is, and what it is called.
    fn place(&self) -> (Option<Span>, Option<&Id>) {
        let resource = self.resources.first();
        let span = resource.map(|found| found.span).or(self.edges.first().map(|edge| edge.span));
        (span, resource.map(|found| &found.spec.id))
    }
}
