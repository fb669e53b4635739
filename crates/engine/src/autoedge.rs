//! Automatic edges: order that follows from what resources are, found by identity.
//!
//! A resource provides identities and wants to stand before or after others. All that is provided goes into one hash
//! index, so the cost is one look-up per wish. Where two resources provide the same identity, the one whose name
//! sorts first is meant. An edge that is there already stays as it is, with its notification.

use mgmt_graph::NodeId;
use mgmt_resource::{Edge, Identity, Order, ResourceGraph, Want};
use rustc_hash::FxHashMap;

/// Adds the automatic edges and returns them. The graph may now have a cycle; see `drop_from_cycles`.
pub fn add(graph: &mut ResourceGraph) -> Vec<(NodeId, NodeId)> {
    let found = find(graph);
    put(graph, found)
}

/// Adds automatic edges that were found before, and returns those that are new.
pub(crate) fn put(graph: &mut ResourceGraph, mut edges: Vec<(NodeId, NodeId)>) -> Vec<(NodeId, NodeId)> {
    edges.retain(|(from, to)| !graph.contains_edge(*from, *to));
    for (from, to) in &edges {
        graph.set_edge(*from, *to, Edge::ORDER);
    }
    edges
}

/// The automatic edges of a graph, in order, whether they are there already or not.
pub(crate) fn find(graph: &ResourceGraph) -> Vec<(NodeId, NodeId)> {
    let provided: Vec<(NodeId, Vec<Identity>)> =
        participants(graph).map(|(node, spec)| (node, spec.resource.provides(&spec.id.name))).collect();
    let index = Index::new(graph, &provided);

    let mut edges = Vec::new();
    for (node, spec) in participants(graph) {
        for want in spec.resource.wants(&spec.id.name) {
            index.serve(node, &want, &mut edges);
        }
    }
    edges.retain(|(from, to)| from != to);
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Takes automatic edges back until the graph has no cycle, and returns those it took: a person's own order wins.
/// Fails with the cycle when one is made of edges that a person declared.
pub(crate) fn drop_from_cycles(
    graph: &mut ResourceGraph,
    automatic: &[(NodeId, NodeId)],
) -> Result<Vec<(NodeId, NodeId)>, mgmt_graph::Cycle> {
    let mut dropped = Vec::new();
    while let Err(cycle) = graph.check_acyclic() {
        let steps = cycle.nodes.windows(2).filter_map(|step| match step {
            [from, to] => Some((*from, *to)),
            _ => None,
        });
        let Some(edge) = steps.into_iter().find(|edge| automatic.binary_search(edge).is_ok()) else {
            return Err(cycle);
        };
        graph.remove_edge(edge.0, edge.1);
        dropped.push(edge);
    }
    Ok(dropped)
}

fn participants(graph: &ResourceGraph) -> impl Iterator<Item = (NodeId, &mgmt_resource::Spec)> {
    graph.nodes().filter(|(_, spec)| spec.meta.autoedge && spec.resource.schema().traits.edges)
}

struct Index<'a> {
    /// Paths apart from the rest, so that the parents of a path are looked up by slices of it.
    paths: FxHashMap<&'a [u8], NodeId>,
    others: FxHashMap<&'a Identity, NodeId>,
}

impl<'a> Index<'a> {
    fn new(graph: &ResourceGraph, provided: &'a [(NodeId, Vec<Identity>)]) -> Index<'a> {
        let mut index = Index { paths: FxHashMap::default(), others: FxHashMap::default() };
        index.paths.reserve(provided.len());
        let name = |node: NodeId| graph.node(node).map(|spec| &spec.id);
        let keep_first = |present: &mut NodeId, node: NodeId| {
            if name(node) < name(*present) {
                *present = node;
            }
        };
        for (node, identities) in provided {
            for identity in identities {
                match identity {
                    Identity::Path(path) => {
                        index.paths.entry(path).and_modify(|p| keep_first(p, *node)).or_insert(*node);
                    }
                    other => {
                        index.others.entry(other).and_modify(|p| keep_first(p, *node)).or_insert(*node);
                    }
                }
            }
        }
        index
    }

    fn find(&self, identity: &Identity) -> Option<NodeId> {
        match identity {
            Identity::Path(path) => self.paths.get(path.as_bytes()).copied(),
            other => self.others.get(other).copied(),
        }
    }

    fn serve(&self, me: NodeId, want: &Want, edges: &mut Vec<(NodeId, NodeId)>) {
        let mut add = |order: Order, provider: NodeId| match order {
            Order::Before => edges.push((provider, me)),
            Order::After => edges.push((me, provider)),
        };
        match want {
            Want::Each(order, identities) => {
                identities.iter().filter_map(|i| self.find(i)).for_each(|provider| add(*order, provider));
            }
            Want::First(order, identities) => {
                if let Some(provider) =
                    identities.iter().filter_map(|i| self.find(i)).find(|provider| *provider != me)
                {
                    add(*order, provider);
                }
            }
            Want::ParentOf(path) => {
                let parent = parents(path).find_map(|parent| self.paths.get(parent).filter(|p| **p != me));
                parent.into_iter().for_each(|provider| add(Order::Before, *provider));
            }
            Want::Below(directory) => {
                let below = self.paths.iter().filter(|(path, _)| path.starts_with(directory));
                below.for_each(|(_, provider)| add(Order::Before, *provider));
            }
        }
    }
}

/// The directories above a path, nearest first, each with its trailing slash.
fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let trimmed = path.strip_suffix(b"/").unwrap_or(path);
    let mut end = trimmed.len();
    std::iter::from_fn(move || {
        let slash = trimmed[..end].iter().rposition(|byte| *byte == b'/')?;
        end = slash;
        trimmed.get(..=slash)
    })
}

#[cfg(test)]
mod tests {
    use super::parents;

    #[test]
    fn parents_end_in_a_slash_and_come_nearest_first() {
        let list = |path: &'static str| {
            parents(path.as_bytes()).map(|p| String::from_utf8_lossy(p).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(list("/a/b/c"), ["/a/b/", "/a/", "/"]);
        assert_eq!(list("/a/b/"), ["/a/", "/"]);
        assert_eq!(list("/a"), ["/"]);
        assert!(list("/").is_empty());
    }
}
