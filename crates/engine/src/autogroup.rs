//! Automatic groups: similar resources are served as one.
//!
//! Resources of one family (the part of the kind before the first colon) are compared in pairs, larger names first, and
//! merged where the kind agrees, where their metaparameters ask for the same treatment, and where no path leads
//! from one to the other. Whether a path does is read from a closure over the family's members alone.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mgmt_graph::{Cycle, NodeId, Reachability};
use mgmt_resource::{Edge, ResourceGraph, Spec};

/// Groups what can be grouped. Returns how many resources were merged into others.
pub fn group(graph: &mut ResourceGraph) -> Result<usize, Cycle> {
    let mut families: BTreeMap<&'static str, Vec<NodeId>> = BTreeMap::new();
    for (node, spec) in graph.nodes().filter(|(_, spec)| may_group(spec)) {
        families.entry(family(spec.id.kind)).or_default().push(node);
    }
    let mut merged = 0;
    for mut members in families.into_values().filter(|members| members.len() > 1) {
        if nobody_groups(graph, &members) {
            continue;
        }
        members.sort_by_cached_key(|node| graph.node(*node).map(|spec| Reverse(hierarchy(spec))));
        merged += group_family(graph, &members)?;
    }
    Ok(merged)
}

/// Whether no two members of a family would ever be grouped, whatever their places are. Most are alike, so this looks at
/// one of each sort, where pairs of all would have to be looked at; with many sorts it gives no answer.
fn nobody_groups(graph: &ResourceGraph, members: &[NodeId]) -> bool {
    const SORTS: usize = 16;
    let mut sorts: Vec<&Spec> = Vec::new();
    for spec in members.iter().filter_map(|node| graph.node(*node)) {
        let alike = |known: &&Spec| {
            known.id.kind == spec.id.kind
                && known.meta.same_as(&spec.meta)
                && known.resource.groups_alike(&*spec.resource)
        };
        if !sorts.iter().any(alike) {
            if sorts.len() == SORTS {
                return false;
            }
            sorts.push(spec);
        }
    }
    let groups = |parent: &Spec, child: &Spec| {
        parent.meta.groups_with(&child.meta) && parent.resource.groups_with(&*child.resource)
    };
    !sorts.iter().any(|parent| sorts.iter().any(|child| groups(parent, child)))
}

fn may_group(spec: &Spec) -> bool {
    spec.meta.autogroup && spec.resource.schema().traits.group && !spec.meta.hidden && !spec.is_reversal
}

fn family(kind: &'static str) -> &'static str {
    kind.split(':').next().unwrap_or(kind)
}

/// Deeper kinds first, then larger kinds and larger names: `http:server:ui` before `http:server`, `c` before `a`.
fn hierarchy(spec: &Spec) -> (usize, &'static str, mgmt_value::Str) {
    (spec.id.kind.split(':').count(), spec.id.kind, spec.id.name.clone())
}

fn group_family(graph: &mut ResourceGraph, members: &[NodeId]) -> Result<usize, Cycle> {
    let mut paths = Reachability::among(graph, members)?;
    let mut present = vec![true; members.len()];
    // The member that is left of each class of merged ones.
    let mut left: Vec<usize> = (0..members.len()).collect();
    let mut merged = 0;
    for parent in 0..members.len() {
        let mut start = 0;
        while present[parent]
            && let Some(class) = paths.next_apart(parent, start)
        {
            start = class + 1;
            let child = left[class];
            if compatible(graph, members[parent], members[child]) && paths.merge(parent, child) {
                merge(graph, members[parent], members[child]);
                left[paths.representative(parent)] = parent;
                present[child] = false;
                merged += 1;
            }
        }
    }
    Ok(merged)
}

fn compatible(graph: &ResourceGraph, parent: NodeId, child: NodeId) -> bool {
    let (Some(parent), Some(child)) = (graph.node(parent), graph.node(child)) else { return false };
    // Two groups of one kind stay apart.
    let flat = parent.id.kind != child.id.kind || child.children.is_empty();
    flat && parent.meta.groups_with(&child.meta) && parent.resource.groups_with(&*child.resource)
}

/// Moves all edges of the child to the parent and the child into it. Each edge keeps its own notification: nothing in
/// between hears of what it did not ask for.
fn merge(graph: &mut ResourceGraph, parent: NodeId, child: NodeId) {
    let before: Vec<(NodeId, Edge)> = graph.predecessors(child).map(|(n, edge)| (n, edge.clone())).collect();
    let after: Vec<(NodeId, Edge)> = graph.successors(child).map(|(n, edge)| (n, edge.clone())).collect();
    for (node, edge) in before {
        graph.merge_edge(node, parent, edge, Edge::merge);
    }
    for (node, edge) in after {
        graph.merge_edge(parent, node, edge, Edge::merge);
    }
    let Some(mut child) = graph.remove_node(child) else { return };
    let Some(parent) = graph.node_mut(parent) else { return };
    for id in &child.meta.sema {
        if !parent.meta.sema.contains(id) {
            parent.meta.sema.push(id.clone());
        }
    }
    // A group has no groups in it: everyone in it is served by whoever holds it.
    let members = std::mem::take(&mut child.children);
    parent.children.push(child);
    parent.children.extend(members);
}
