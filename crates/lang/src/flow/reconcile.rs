//! Conflict resolution between frozen and current declarations.
//!
//! Frozen declarations are of an earlier moment than the rest, so that together they may contradict each other although the program
//! is right: an edge leads to a resource that is gone or not there yet, two declarations of one name differ, edges make a cycle. Then
//! the statements that a conflict is about declare what they declared in the last graph without conflicts, until the frozen values are
//! back. At worst that is the whole last graph, which has no conflicts by definition.

use std::collections::BTreeMap;
use std::sync::Arc;

use mgmt_dataflow::NodeId;
use mgmt_diagnostics::Diagnostic;
use mgmt_resource::{Id, Registry, ResourceGraph};
use rustc_hash::FxHashSet;

use super::declared::{Before, Declarations, Declared, id_of};
use crate::output::{self, About, Declaration, DeclaredEdge, Problem};

/// The number of attempts to solve conflicts one by one.
const MAX_ATTEMPTS: usize = 32;

/// The number of conflicts that are reported.
const MAX_CONFLICTS: usize = 20;

/// A graph without conflicts.
pub(super) struct Reconciled {
    pub(super) graph: ResourceGraph,
    /// The statements that are held back, with what they declare instead of what they declared before.
    pub(super) held_back: Before,
    pub(super) conflicts: Vec<Diagnostic>,
}

/// One attempt at a graph.
struct Attempt<'a> {
    declarations: &'a Declarations,
    declared: BTreeMap<NodeId, Arc<Declared>>,
    held_back: Before,
    /// The edges that are left out because one of their ends is not there.
    left_out: FxHashSet<(Id, Id)>,
}

impl Declarations {
    /// A graph in which what conflicts with frozen declarations is held back.
    pub(super) fn reconcile(&self, kinds: &Registry) -> Option<Reconciled> {
        let mut attempt = Attempt {
            declarations: self,
            declared: self.by_node.clone(),
            held_back: Before::default(),
            left_out: FxHashSet::default(),
        };
        let mut conflicts: Vec<Diagnostic> = Vec::new();
        for _ in 0..MAX_ATTEMPTS {
            let (edges, assembled) = attempt.assemble(kinds);
            let problems = match assembled {
                Ok(graph) => {
                    return Some(Reconciled { graph, held_back: attempt.held_back, conflicts });
                }
                Err(problems) => problems,
            };
            let mut has_changed = false;
            for problem in problems {
                has_changed |= attempt.solve(&problem.about, &edges, kinds);
                if conflicts.len() < MAX_CONFLICTS && !conflicts.contains(&problem.diagnostic) {
                    conflicts.push(problem.diagnostic);
                }
            }
            if !has_changed {
                break;
            }
        }
        let all: Vec<NodeId> = self.before.as_ref()?.keys().copied().collect();
        for node in all {
            attempt.hold_back(node);
        }
        attempt.left_out.clear();
        let (_, assembled) = attempt.assemble(kinds);
        assembled.ok().map(|graph| Reconciled { graph, held_back: attempt.held_back, conflicts })
    }
}

impl Attempt<'_> {
    fn assemble(&self, kinds: &Registry) -> (Vec<DeclaredEdge>, Result<ResourceGraph, Vec<Problem>>) {
        let mut all: Vec<&Arc<Declared>> = self.declared.values().collect();
        all.sort_by_key(|declared| declared.place());
        let resources = all
            .iter()
            .flat_map(|declared| &declared.resources)
            .map(|found| Declaration { spec: found.spec.clone(), span: found.span })
            .collect();
        let is_in =
            |edge: &&DeclaredEdge| ends(edge, kinds).is_none_or(|ends| !self.left_out.contains(&ends));
        let edges: Vec<DeclaredEdge> =
            all.iter().flat_map(|declared| &declared.edges).filter(is_in).cloned().collect();
        let assembled = output::assemble(resources, &edges, kinds);
        (edges, assembled.map(|assembled| assembled.graph))
    }

    /// Holds back what a conflict is about. False if there is nothing to hold back.
    fn solve(&mut self, about: &About, edges: &[DeclaredEdge], kinds: &Registry) -> bool {
        match about {
            About::Resources(ids) => {
                let ids: FxHashSet<&Id> = ids.iter().collect();
                self.hold_back_all(|declared| {
                    let declares = declared.resources.iter().any(|found| ids.contains(&found.spec.id));
                    let connects = |edge: &DeclaredEdge| {
                        ends(edge, kinds).is_some_and(|ends| ids.contains(&ends.0) && ids.contains(&ends.1))
                    };
                    declares || declared.edges.iter().any(connects)
                })
            }
            About::MissingEnd { edge, is_from } => {
                let Some((from, to)) = edges.get(*edge).and_then(|edge| ends(edge, kinds)) else {
                    return false;
                };
                let (missing, other) = if *is_from { (&from, &to) } else { (&to, &from) };
                // A resource that has just gone stays for the ones that still name it.
                if self.bring_back(missing) {
                    return true;
                }
                // A resource that depends on one that is not there yet is not there yet, either.
                if *is_from && self.hold_back_all(|declared| declares(declared, other)) {
                    return true;
                }
                self.left_out.insert((from, to))
            }
        }
    }

    /// Lets a statement declare what it declared before. False if that is what it declares.
    fn hold_back(&mut self, node: NodeId) -> bool {
        if self.held_back.contains_key(&node) {
            return false;
        }
        let before = match &self.declarations.before {
            None => None,
            Some(before) => match before.get(&node) {
                Some(before) => before.clone(),
                None => return false,
            },
        };
        match &before {
            Some(before) => drop(self.declared.insert(node, Arc::clone(before))),
            None => drop(self.declared.remove(&node)),
        }
        self.held_back.insert(node, before);
        true
    }

    fn hold_back_all(&mut self, test: impl Fn(&Declared) -> bool) -> bool {
        let found = self.declared.iter().filter(|(_, declared)| test(declared)).map(|(&node, _)| node);
        let found: Vec<NodeId> = found.collect();
        // Each of them, not only the first.
        found.into_iter().filter(|node| self.hold_back(*node)).count() > 0
    }

    /// Has a resource declared by whoever declared it before.
    fn bring_back(&mut self, id: &Id) -> bool {
        let before = self.declarations.before.iter().flatten();
        let declared =
            before.filter(|(_, before)| before.as_ref().is_some_and(|before| declares(before, id)));
        let found: Vec<NodeId> = declared.map(|(&node, _)| node).collect();
        // Each of them, not only the first.
        found.into_iter().filter(|node| self.hold_back(*node)).count() > 0
    }
}

fn declares(declared: &Declared, id: &Id) -> bool {
    declared.resources.iter().any(|found| found.spec.id == *id)
}

fn ends(edge: &DeclaredEdge, kinds: &Registry) -> Option<(Id, Id)> {
    Some((id_of(&edge.from, kinds)?, id_of(&edge.to, kinds)?))
}
