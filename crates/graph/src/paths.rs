//! Paths, and what lies on one side of a node.

use std::collections::VecDeque;

use crate::adjacency::Links;
use crate::bits::BitSet;
use crate::{Dag, NodeId};

/// Marks "no node" in a table of node indexes.
const NONE: u32 = u32::MAX;

impl<V, E> Dag<V, E> {
    /// Whether `to` can be reached from `from` along edges. A node in the graph reaches itself.
    pub fn has_path(&self, from: NodeId, to: NodeId) -> bool {
        if !self.contains(from) || !self.contains(to) {
            return false;
        }
        if from == to || self.contains_edge(from, to) {
            return true;
        }
        if self.in_degree(to) == 0 {
            return false;
        }
        let mut found = false;
        walk(self.id_bound(), from, |id| {
            // Once found, nothing is pushed any more and the walk drains.
            found |= id == to;
            if found { Links::empty() } else { self.successor_links(id) }
        });
        found
    }

    /// A path with the fewest edges, both ends included; `[a]` from `a` to itself. Of several, the same one each time.
    pub fn shortest_path(&self, from: NodeId, to: NodeId) -> Option<Vec<NodeId>> {
        if !self.contains(from) || !self.contains(to) {
            return None;
        }
        if from == to { Some(vec![from]) } else { self.first_path(from, to) }
    }

    /// All nodes from which `id` can be reached, ascending, without `id` itself.
    pub fn ancestors(&self, id: NodeId) -> Vec<NodeId> {
        self.beyond(id, |at| self.predecessor_links(at))
    }

    /// All nodes that can be reached from `id`, ascending, without `id` itself.
    pub fn descendants(&self, id: NodeId) -> Vec<NodeId> {
        self.beyond(id, |at| self.successor_links(at))
    }

    /// The groups of nodes connected by edges of either direction. Each group is ascending; groups are ordered by
    /// their smallest id.
    pub fn components(&self) -> Vec<Vec<NodeId>> {
        let mut component = vec![NONE; self.id_bound()];
        let mut components: Vec<Vec<NodeId>> = Vec::new();
        let mut stack = Vec::new();
        for root in self.node_ids() {
            let mut label = component[root.index()];
            if label == NONE {
                label = components.len() as u32;
                components.push(Vec::new());
                component[root.index()] = label;
                stack.push(root);
                while let Some(id) = stack.pop() {
                    for link in self.successor_links(id).chain(self.predecessor_links(id)) {
                        if std::mem::replace(&mut component[link.node.index()], label) == NONE {
                            stack.push(link.node);
                        }
                    }
                }
            }
            components[label as usize].push(root);
        }
        components
    }

    /// The shortest cycle through a node, which comes first and last.
    pub(crate) fn shortest_cycle(&self, id: NodeId) -> Option<Vec<NodeId>> {
        self.first_path(id, id)
    }

    /// The first path of at least one edge found breadth first.
    fn first_path(&self, from: NodeId, to: NodeId) -> Option<Vec<NodeId>> {
        // One more than the index of the node each was reached from; zero, which costs no memory until it is
        // written, for those not reached.
        let mut reached_from = vec![0u32; self.id_bound()];
        let mut queue = VecDeque::from([from]);
        while let Some(id) = queue.pop_front() {
            for link in self.successor_links(id) {
                if link.node == to {
                    let mut path = vec![to, id];
                    let mut at = id;
                    while at != from {
                        at = NodeId::from_index(reached_from[at.index()] - 1);
                        path.push(at);
                    }
                    path.reverse();
                    return Some(path);
                }
                let mark = &mut reached_from[link.node.index()];
                if *mark == 0 {
                    *mark = id.as_u32() + 1;
                    queue.push_back(link.node);
                }
            }
        }
        None
    }

    fn beyond<'a>(&'a self, id: NodeId, neighbours: impl FnMut(NodeId) -> Links<'a>) -> Vec<NodeId> {
        if !self.contains(id) {
            return Vec::new();
        }
        let seen = walk(self.id_bound(), id, neighbours);
        seen.iter()
            .filter(|&index| index != id.index())
            .map(|index| NodeId::from_index(index as u32))
            .collect()
    }
}

/// Visits everything reachable from `start`, itself included, once each, and returns what was visited.
fn walk<'a>(bound: usize, start: NodeId, mut neighbours: impl FnMut(NodeId) -> Links<'a>) -> BitSet {
    let mut seen = BitSet::new(bound);
    seen.insert(start.index());
    let mut stack = vec![start];
    while let Some(id) = stack.pop() {
        for link in neighbours(id) {
            if seen.insert(link.node.index()) {
                stack.push(link.node);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: u32) -> NodeId {
        NodeId::from_index(index)
    }

    fn dag(nodes: u32, edges: &[(u32, u32)]) -> Dag<(), ()> {
        let mut dag = Dag::new();
        for _ in 0..nodes {
            dag.add_node(());
        }
        for &(from, to) in edges {
            dag.set_edge(id(from), id(to), ());
        }
        dag
    }

    fn indexes(nodes: Vec<NodeId>) -> Vec<u32> {
        nodes.into_iter().map(NodeId::as_u32).collect()
    }

    #[test]
    fn a_path_follows_the_direction_of_edges() {
        let dag = dag(4, &[(0, 1), (1, 2), (3, 2)]);
        assert!(dag.has_path(id(0), id(2)));
        assert!(!dag.has_path(id(2), id(0)));
        assert!(!dag.has_path(id(0), id(3)));
    }

    #[test]
    fn a_node_reaches_itself_only_while_it_is_in_the_graph() {
        let mut dag = dag(2, &[]);
        assert!(dag.has_path(id(1), id(1)));
        assert_eq!(dag.shortest_path(id(1), id(1)), Some(vec![id(1)]));
        dag.remove_node(id(1));
        assert!(!dag.has_path(id(1), id(1)));
        assert_eq!(dag.shortest_path(id(1), id(1)), None);
        assert!(!dag.has_path(id(0), id(9)) && !dag.has_path(id(9), id(0)));
    }

    #[test]
    fn the_shortest_path_has_the_fewest_edges_and_both_ends() {
        let dag = dag(6, &[(0, 1), (1, 2), (2, 5), (0, 4), (4, 5), (0, 3), (3, 5)]);
        assert_eq!(dag.shortest_path(id(0), id(5)).map(indexes), Some(vec![0, 3, 5]));
        assert_eq!(dag.shortest_path(id(0), id(2)).map(indexes), Some(vec![0, 1, 2]));
        assert_eq!(dag.shortest_path(id(5), id(0)), None);
    }

    #[test]
    fn paths_end_in_a_graph_with_a_cycle() {
        let dag = dag(4, &[(0, 1), (1, 0), (1, 1), (2, 3)]);
        assert!(!dag.has_path(id(0), id(3)));
        assert_eq!(dag.shortest_path(id(0), id(3)), None);
        assert_eq!(indexes(dag.descendants(id(0))), [1]);
        assert_eq!(indexes(dag.ancestors(id(0))), [1]);
    }

    #[test]
    fn ancestors_and_descendants_exclude_the_node_itself() {
        let dag = dag(6, &[(4, 0), (0, 2), (2, 1), (0, 1), (5, 3)]);
        assert_eq!(indexes(dag.descendants(id(4))), [0, 1, 2]);
        assert_eq!(indexes(dag.descendants(id(1))), []);
        assert_eq!(indexes(dag.ancestors(id(1))), [0, 2, 4]);
        assert_eq!(indexes(dag.ancestors(id(9))), []);
    }

    #[test]
    fn components_ignore_direction_and_are_ordered_by_their_smallest_node() {
        let mut dag = dag(7, &[(5, 0), (5, 2), (4, 1), (6, 3), (6, 1)]);
        let components = |dag: &Dag<(), ()>| dag.components().into_iter().map(indexes).collect::<Vec<_>>();
        assert_eq!(components(&dag), [vec![0, 2, 5], vec![1, 3, 4, 6]]);
        dag.remove_node(id(6));
        assert_eq!(components(&dag), [vec![0, 2, 5], vec![1, 4], vec![3]]);
        assert!(components(&Dag::new()).is_empty());
    }
}
