//! Other parameters for resources that stay where they are: the way of a change that costs what it changes.
//!
//! A swap looks at the whole graph, because anything may have changed: names, edges, what follows from what. If only
//! parameters of a few resources have, and nothing follows from them, then nothing else has to be looked at.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use mgmt_graph::{Dag, NodeId};
use mgmt_resource::{Edge, Id, Spec};
use rustc_hash::FxHashMap;

use super::node::specs;
use super::swap::rules;
use super::{Driver, SwapReport};
use crate::core::Delta;

/// Where each resource is: a node of the graph, or a member of its group.
pub(super) type Names = FxHashMap<Id, NodeId>;

impl Driver {
    /// Gives resources other parameters. `None`: more than these resources is concerned, and nothing was done.
    pub(super) fn adjust(&mut self, specs: Vec<Spec>) -> Option<SwapReport> {
        let shared = Arc::clone(&self.graph);
        let graph = shared.read().unwrap_or_else(PoisonError::into_inner);
        let (vertices, edges) = (graph.node_count(), graph.edge_count());
        let names = self.names.get_or_insert_with(|| names(&graph));
        let mut adjusted: BTreeMap<NodeId, Spec> = BTreeMap::new();
        for spec in specs {
            let node = *names.get(&spec.id)?;
            let old = graph.node(node)?;
            let new = adjusted.entry(node).or_insert_with(|| (**old).clone());
            put(new, spec)?;
        }
        // A failing resource that says `rewatch` starts from the beginning although it is the same.
        adjusted.retain(|node, new| {
            let vertex = self.vertex_of.get(node.index()).copied().flatten();
            let revived = new.meta.rewatch && vertex.is_some_and(|vertex| self.core.has_failed(vertex));
            revived || graph.node(*node).is_some_and(|old| !old.same_as(new))
        });
        drop(graph);

        let mut graph = shared.write().unwrap_or_else(PoisonError::into_inner);
        let mut delta = Delta::default();
        for (node, new) in adjusted {
            let new = Arc::new(new);
            let vertex = self.vertex_of.get(node.index()).copied().flatten();
            let (Some(vertex), Some(place)) = (vertex, graph.node_mut(node)) else { continue };
            let old = std::mem::replace(place, Arc::clone(&new));
            self.unindex(vertex, &old);
            self.index(vertex, &new);
            delta.replace.push((vertex, rules(&new)));
            if let Some(node) = self.node(vertex) {
                node.next = Some(new);
            }
        }
        self.graph_version.fetch_add(1, Ordering::AcqRel);
        drop(graph);
        let changed = delta.replace.len();
        self.core.apply(delta, self.now());
        self.tell_rest_first();
        Some(SwapReport { vertices, edges, changed, ..SwapReport::default() })
    }
}

pub(super) fn names(graph: &Dag<Arc<Spec>, Edge>) -> Names {
    let members = graph.nodes().flat_map(|(node, spec)| specs(spec).map(move |spec| (spec, node)));
    members.filter(|(spec, _)| !spec.meta.hidden).map(|(spec, node)| (spec.id.clone(), node)).collect()
}

/// Puts a declaration in the place of the one that has its name: a vertex, or a member of its group.
fn put(vertex: &mut Spec, new: Spec) -> Option<()> {
    let grouped = !vertex.children.is_empty();
    if vertex.id == new.id {
        if !stands_alone(vertex, &new, grouped) {
            return None;
        }
        let children = std::mem::take(&mut vertex.children);
        *vertex = Spec { children, ..new };
    } else {
        let member = vertex.children.iter_mut().find(|member| member.id == new.id)?;
        if !stands_alone(member, &new, grouped) {
            return None;
        }
        let children = std::mem::take(&mut member.children);
        *member = Spec { children, ..new };
    }
    Some(())
}

/// Whether nothing but the resource itself depends on which of two declarations it has.
fn stands_alone(old: &Spec, new: &Spec, grouped: bool) -> bool {
    let (before, after) = (&old.meta, &new.meta);
    let traits = new.resource.schema().traits;
    // The semaphores of a group are those of all its members, so their metaparameters are not quite their own.
    let same_meta = before.same_as(after);
    let groups = (before.autogroup || after.autogroup) && traits.group;
    let same_group = !(groups || grouped) || (same_meta && old.resource.groups_alike(&*new.resource));
    let (old_name, new_name) = (&old.id.name, &new.id.name);
    let same_order = before.autoedge == after.autoedge
        && (!after.autoedge
            || !traits.edges
            || (old.resource.provides(old_name) == new.resource.provides(new_name)
                && old.resource.wants(old_name) == new.resource.wants(new_name)));
    let declared = !before.hidden && !after.hidden && !old.is_reversal && !new.is_reversal;
    declared && old.receives == new.receives && same_group && same_order
}
