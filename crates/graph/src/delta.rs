//! What must happen to one graph to make it another.

use std::collections::HashMap;
use std::hash::Hash;

use crate::{Dag, NodeId};

/// The difference between an old and a new graph; made by [`diff()`].
///
/// Ids in `added` and `edges_added` are those of the new graph, ids in `removed` and `edges_removed` those of the
/// old one, and pairs are (old, new).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Nodes of the new graph without a counterpart, ascending.
    pub added: Vec<NodeId>,
    /// Nodes of the old graph without a counterpart, ascending.
    pub removed: Vec<NodeId>,
    /// Counterparts whose values differ, ascending by the new id.
    pub changed: Vec<(NodeId, NodeId)>,
    /// Counterparts whose values are the same, ascending by the new id.
    pub kept: Vec<(NodeId, NodeId)>,
    /// Edges of the new graph without a counterpart, ascending. Includes all edges of added nodes.
    pub edges_added: Vec<(NodeId, NodeId)>,
    /// Edges of the old graph without a counterpart, ascending. Includes all edges of removed nodes.
    pub edges_removed: Vec<(NodeId, NodeId)>,
    /// Counterparts whose values differ: the old edge and the new edge, ascending by the new.
    pub edges_changed: Vec<((NodeId, NodeId), (NodeId, NodeId))>,
}

impl Delta {
    /// Whether the two graphs say the same. Nodes that were kept do not count, nor do differing ids.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.removed.is_empty()
            && self.changed.is_empty()
            && self.edges_added.is_empty()
            && self.edges_removed.is_empty()
            && self.edges_changed.is_empty()
    }
}

/// Compares two graphs, which may hold different types.
///
/// A node's counterpart is the node with an equal key. Where several nodes of one graph have the same key, the
/// first by id is the counterpart of the first, and so on. `same` then tells kept from changed. An edge's counterpart
/// is the edge between the counterparts of its ends, whether those changed or not.
///
/// Keys are made once or twice per node and may borrow from it. Near linear in the two graphs; nodes that come in
/// the same order in both from the start are not even hashed.
///
/// ```
/// use mgmt_graph::{Dag, diff};
///
/// let mut old: Dag<(&str, u32), ()> = Dag::new();
/// let motd = old.add_node(("motd", 1));
/// let mut new = Dag::new();
/// let issue = new.add_node(("issue", 1));
/// let newer_motd = new.add_node(("motd", 2));
/// new.set_edge(issue, newer_motd, ());
///
/// let delta = diff(&old, &new, |old| old.0, |new| new.0, |old, new| old == new, |_, _| true);
/// assert_eq!(delta.added, [issue]);
/// assert_eq!(delta.changed, [(motd, newer_motd)]);
/// assert_eq!(delta.edges_added, [(issue, newer_motd)]);
/// ```
pub fn diff<'a, V, E, W, F, K: Hash + Eq>(
    old: &'a Dag<V, E>,
    new: &'a Dag<W, F>,
    key_old: impl FnMut(&'a V) -> K,
    key_new: impl FnMut(&'a W) -> K,
    mut same: impl FnMut(&'a V, &'a W) -> bool,
    same_edge: impl FnMut(&'a E, &'a F) -> bool,
) -> Delta {
    old.check_in_debug();
    new.check_in_debug();
    let counterparts = Counterparts::by_key(old, new, key_old, key_new);
    let mut delta = Delta { kept: Vec::with_capacity(new.node_count()), ..Delta::default() };
    for (new_id, new_value) in new.nodes() {
        match counterparts.in_old(new_id).and_then(|id| Some((id, old.node(id)?))) {
            None => delta.added.push(new_id),
            Some((old_id, old_value)) if same(old_value, new_value) => delta.kept.push((old_id, new_id)),
            Some((old_id, _)) => delta.changed.push((old_id, new_id)),
        }
    }
    delta.removed.extend(old.node_ids().filter(|&id| counterparts.in_new(id).is_none()));
    counterparts.compare_edges(old, new, same_edge, &mut delta);
    delta
}

/// Which node of the old graph is which of the new.
struct Counterparts {
    to_new: Vec<u32>,
    to_old: Vec<u32>,
}

/// Marks "no counterpart" in a table of ids, and the end of a list.
const NONE: u32 = u32::MAX;

impl Counterparts {
    fn by_key<'a, V, E, W, F, K: Hash + Eq>(
        old: &'a Dag<V, E>,
        new: &'a Dag<W, F>,
        mut key_old: impl FnMut(&'a V) -> K,
        mut key_new: impl FnMut(&'a W) -> K,
    ) -> Self {
        let mut result = Self { to_new: vec![NONE; old.id_bound()], to_old: vec![NONE; new.id_bound()] };

        // As long as both graphs list the same keys, equal keys also are equally many on both sides, so pairing
        // in step is pairing by order of id.
        let mut old_nodes = old.nodes().peekable();
        let mut new_nodes = new.nodes().peekable();
        while let (Some(&(old_id, old_value)), Some(&(new_id, new_value))) =
            (old_nodes.peek(), new_nodes.peek())
        {
            if key_old(old_value) != key_new(new_value) {
                break;
            }
            result.pair(old_id, new_id);
            old_nodes.next();
            new_nodes.next();
        }
        if old_nodes.peek().is_none() || new_nodes.peek().is_none() {
            return result;
        }

        // The rest by a map from key to a list of old nodes, first and last; lists are threaded through `after`. Keys may
        // come from afar, hence the standard hasher; its seed shows nowhere since the map is never iterated.
        let mut lists: HashMap<K, (u32, u32)> = HashMap::with_capacity(old.node_count());
        let mut after = vec![NONE; old.id_bound()];
        for (id, value) in old_nodes {
            let id = id.as_u32();
            lists
                .entry(key_old(value))
                .and_modify(|(_, last)| {
                    after[*last as usize] = id;
                    *last = id;
                })
                .or_insert((id, id));
        }
        for (new_id, value) in new_nodes {
            if let Some((first, _)) = lists.get_mut(&key_new(value)).filter(|(first, _)| *first != NONE) {
                let old_id = std::mem::replace(first, after[*first as usize]);
                result.pair(NodeId::from_index(old_id), new_id);
            }
        }
        result
    }

    fn pair(&mut self, old: NodeId, new: NodeId) {
        self.to_new[old.index()] = new.as_u32();
        self.to_old[new.index()] = old.as_u32();
    }

    fn in_new(&self, old: NodeId) -> Option<NodeId> {
        Some(self.to_new[old.index()]).filter(|&id| id != NONE).map(NodeId::from_index)
    }

    fn in_old(&self, new: NodeId) -> Option<NodeId> {
        Some(self.to_old[new.index()]).filter(|&id| id != NONE).map(NodeId::from_index)
    }

    fn compare_edges<'a, V, E, W, F>(
        &self,
        old: &'a Dag<V, E>,
        new: &'a Dag<W, F>,
        mut same_edge: impl FnMut(&'a E, &'a F) -> bool,
        delta: &mut Delta,
    ) {
        for new_from in new.node_ids() {
            let Some(old_from) = self.in_old(new_from) else {
                delta.edges_added.extend(new.successors(new_from).map(|(to, _)| (new_from, to)));
                continue;
            };
            // Mostly both sides list the same successors in the same order, and nothing has to be looked up.
            let mut in_step = old.successors(old_from);
            for (new_to, new_value) in new.successors(new_from) {
                let old_to = self.in_old(new_to);
                let found = match (in_step.next(), old_to) {
                    (Some((to, value)), Some(old_to)) if to == old_to => Some((to, value)),
                    (_, Some(old_to)) => old.edge(old_from, old_to).map(|value| (old_to, value)),
                    (_, None) => None,
                };
                match found {
                    None => delta.edges_added.push((new_from, new_to)),
                    Some((old_to, old_value)) => {
                        if !same_edge(old_value, new_value) {
                            delta.edges_changed.push(((old_from, old_to), (new_from, new_to)));
                        }
                    }
                }
            }
        }
        let surviving = new.edge_count() - delta.edges_added.len();
        if surviving == old.edge_count() {
            return;
        }
        for old_from in old.node_ids() {
            let new_from = self.in_new(old_from);
            for (old_to, _) in old.successors(old_from) {
                let survives = new_from
                    .is_some_and(|from| self.in_new(old_to).is_some_and(|to| new.contains_edge(from, to)));
                if !survives {
                    delta.edges_removed.push((old_from, old_to));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Graph = Dag<(&'static str, u32), u32>;

    fn id(index: u32) -> NodeId {
        NodeId::from_index(index)
    }

    fn graph(nodes: &[(&'static str, u32)], edges: &[(u32, u32, u32)]) -> Graph {
        let mut dag = Dag::new();
        for &node in nodes {
            dag.add_node(node);
        }
        for &(from, to, value) in edges {
            dag.set_edge(id(from), id(to), value);
        }
        dag
    }

    fn delta(old: &Graph, new: &Graph) -> Delta {
        diff(old, new, |node| node.0, |node| node.0, PartialEq::eq, PartialEq::eq)
    }

    #[test]
    fn equal_graphs_have_an_empty_difference() {
        let old = graph(&[("a", 1), ("b", 2)], &[(0, 1, 7)]);
        let delta = delta(&old, &old.clone());
        assert!(delta.is_empty());
        assert_eq!(delta.kept, [(id(0), id(0)), (id(1), id(1))]);
    }

    #[test]
    fn ids_do_not_matter() {
        let old = graph(&[("a", 1), ("b", 2), ("c", 3)], &[(0, 1, 7), (0, 2, 8)]);
        let new = graph(&[("c", 3), ("b", 2), ("a", 1)], &[(2, 1, 7), (2, 0, 8)]);
        let delta = delta(&old, &new);
        assert!(delta.is_empty());
        assert_eq!(delta.kept, [(id(2), id(0)), (id(1), id(1)), (id(0), id(2))]);
    }

    #[test]
    fn nodes_are_added_removed_changed_and_kept() {
        let old = graph(&[("a", 1), ("b", 2), ("c", 3)], &[]);
        let new = graph(&[("d", 4), ("c", 3), ("a", 9)], &[]);
        let delta = delta(&old, &new);
        assert!(!delta.is_empty());
        assert_eq!(delta.added, [id(0)]);
        assert_eq!(delta.removed, [id(1)]);
        assert_eq!(delta.changed, [(id(0), id(2))]);
        assert_eq!(delta.kept, [(id(2), id(1))]);
    }

    #[test]
    fn edges_are_added_removed_and_changed() {
        let old = graph(&[("a", 1), ("b", 2), ("c", 3)], &[(0, 1, 7), (0, 2, 8), (1, 2, 9)]);
        let new = graph(&[("a", 1), ("b", 2), ("c", 3)], &[(0, 2, 80), (1, 2, 9), (2, 0, 7)]);
        let delta = delta(&old, &new);
        assert_eq!(delta.kept.len(), 3);
        assert_eq!(delta.edges_added, [(id(2), id(0))]);
        assert_eq!(delta.edges_removed, [(id(0), id(1))]);
        assert_eq!(delta.edges_changed, [((id(0), id(2)), (id(0), id(2)))]);
    }

    #[test]
    fn an_edge_between_changed_nodes_is_kept() {
        let old = graph(&[("a", 1), ("b", 2)], &[(0, 1, 7)]);
        let new = graph(&[("a", 10), ("b", 20)], &[(0, 1, 7)]);
        let delta = delta(&old, &new);
        assert_eq!(delta.changed.len(), 2);
        assert!(
            delta.edges_added.is_empty() && delta.edges_removed.is_empty() && delta.edges_changed.is_empty()
        );
    }

    #[test]
    fn edges_of_added_and_removed_nodes_are_listed() {
        let old = graph(&[("a", 1), ("gone", 2)], &[(0, 1, 7)]);
        let new = graph(&[("a", 1), ("here", 2)], &[(0, 1, 7), (1, 0, 7)]);
        let delta = delta(&old, &new);
        assert_eq!(delta.edges_added, [(id(0), id(1)), (id(1), id(0))]);
        assert_eq!(delta.edges_removed, [(id(0), id(1))]);
    }

    #[test]
    fn equal_keys_are_paired_in_order_of_id() {
        let old = graph(&[("x", 0), ("x", 1), ("y", 2), ("x", 3)], &[]);
        let new = graph(&[("y", 2), ("x", 0), ("x", 1), ("x", 3), ("x", 4)], &[]);
        let delta = delta(&old, &new);
        assert_eq!(delta.kept, [(id(2), id(0)), (id(0), id(1)), (id(1), id(2)), (id(3), id(3))]);
        assert_eq!(delta.added, [id(4)]);
        assert!(delta.removed.is_empty() && delta.changed.is_empty());
    }

    #[test]
    fn an_empty_side_adds_or_removes_everything() {
        let full = graph(&[("a", 1), ("b", 2)], &[(0, 1, 7)]);
        let from_nothing = delta(&Graph::new(), &full);
        assert_eq!((from_nothing.added.len(), from_nothing.edges_added.len()), (2, 1));
        let to_nothing = delta(&full, &Graph::new());
        assert_eq!((to_nothing.removed.len(), to_nothing.edges_removed.len()), (2, 1));
        assert!(delta(&Graph::new(), &Graph::new()).is_empty());
    }

    #[test]
    fn graphs_of_different_types_with_removed_nodes_can_be_compared() {
        let mut old: Dag<String, u8> = Dag::new();
        let gone = old.add_node("gone".into());
        let a = old.add_node("a".into());
        let b = old.add_node("b".into());
        old.set_edge(a, b, 1);
        old.remove_node(gone);
        let new = graph(&[("a", 1), ("b", 2)], &[(0, 1, 1)]);
        let delta = diff(
            &old,
            &new,
            String::as_str,
            |node| node.0,
            |old, new| old == new.0,
            |&old, &new| u32::from(old) == new,
        );
        assert!(delta.is_empty());
        assert_eq!(delta.kept, [(a, id(0)), (b, id(1))]);
    }
}
