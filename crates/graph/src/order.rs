//! Orders that respect the edges, and the cycle that forbids one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use crate::bits::BitSet;
use crate::snapshot::Snapshot;
use crate::{Dag, NodeId};

/// Says that a graph has no order, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// One cycle: each node has an edge to the next, and the last is the first again. It begins at its smallest id,
    /// and no cycle through that node is shorter.
    pub nodes: Vec<NodeId>,
}

impl Cycle {
    /// The cycle in words, as in `a -> b -> a`, with the names the caller knows.
    pub fn describe<S: AsRef<str>>(&self, mut name: impl FnMut(NodeId) -> S) -> String {
        let mut text = String::new();
        for (position, &id) in self.nodes.iter().enumerate() {
            if position > 0 {
                text.push_str(" -> ");
            }
            text.push_str(name(id).as_ref());
        }
        text
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the graph has a cycle: {}", self.describe(|id| id.to_string()))
    }
}

impl std::error::Error for Cycle {}

impl<V, E> Dag<V, E> {
    /// All nodes such that each comes after its predecessors. Linear in the graph.
    ///
    /// Nodes without predecessors come first, by id; then each node as soon as its last predecessor has been passed.
    pub fn topological_order(&self) -> Result<Vec<NodeId>, Cycle> {
        self.check_in_debug();
        let mut waiting = Waiting::new(self);
        // The order doubles as the queue: what lies beyond `next` is ready and has not been passed.
        let mut order = Vec::with_capacity(self.node_count());
        order.extend(self.node_ids().filter(|&id| waiting.is_ready(id)));
        let mut next = 0;
        while let Some(&id) = order.get(next) {
            next += 1;
            waiting.pass(id, |ready| order.push(ready));
        }
        waiting.complete(self, order)
    }

    /// All nodes such that each comes after its predecessors and, among those that may come next, the one with the
    /// smallest key does; equal keys go by id. The key is asked once per node.
    pub fn topological_order_by<'a, K: Ord>(
        &'a self,
        mut key: impl FnMut(NodeId, &'a V) -> K,
    ) -> Result<Vec<NodeId>, Cycle> {
        self.check_in_debug();
        let mut waiting = Waiting::new(self);
        let mut order = Vec::with_capacity(self.node_count());
        let mut entry = |id: NodeId| self.node(id).map(|value| Reverse((key(id, value), id)));
        let mut ready: BinaryHeap<_> =
            self.node_ids().filter(|&id| waiting.is_ready(id)).filter_map(&mut entry).collect();
        while let Some(Reverse((_, id))) = ready.pop() {
            order.push(id);
            waiting.pass(id, |successor| ready.extend(entry(successor)));
        }
        waiting.complete(self, order)
    }

    /// Whether the graph has an order. Linear in the graph.
    pub fn check_acyclic(&self) -> Result<(), Cycle> {
        self.topological_order().map(drop)
    }
}

/// How many predecessors of each node have not been passed yet.
struct Waiting {
    predecessors: Vec<u32>,
    successors: Snapshot,
}

impl Waiting {
    fn new<V, E>(dag: &Dag<V, E>) -> Self {
        let successors = Snapshot::successors(dag);
        Self { predecessors: successors.counts(), successors }
    }

    fn is_ready(&self, id: NodeId) -> bool {
        self.predecessors[id.index()] == 0
    }

    /// Passes a node and reports each successor that waited for it alone.
    fn pass(&mut self, id: NodeId, mut ready: impl FnMut(NodeId)) {
        for &successor in self.successors.row(id.index()) {
            let count = &mut self.predecessors[successor as usize];
            *count -= 1;
            if *count == 0 {
                ready(NodeId::from_index(successor));
            }
        }
    }

    fn complete<V, E>(&self, dag: &Dag<V, E>, order: Vec<NodeId>) -> Result<Vec<NodeId>, Cycle> {
        if order.len() == dag.node_count() { Ok(order) } else { Err(self.cycle(dag)) }
    }

    /// Finds a cycle among the nodes that still wait, of which there is at least one.
    ///
    /// Each of them waits for another of them. So going from the smallest to its smallest waiting predecessor, and so
    /// on, must return to a node seen before.
    fn cycle<V, E>(&self, dag: &Dag<V, E>) -> Cycle {
        let waits = |&id: &NodeId| !self.is_ready(id);
        let back = |id| dag.predecessor_links(id).map(|link| link.node).find(waits);

        let mut seen = BitSet::new(dag.id_bound());
        let mut at = dag.node_ids().find(waits);
        while let Some(id) = at.filter(|id| seen.insert(id.index())) {
            at = back(id);
        }
        let on_cycle = std::iter::successors(at, |&id| back(id).filter(|&before| Some(before) != at));
        let nodes = on_cycle.min().and_then(|smallest| dag.shortest_cycle(smallest)).unwrap_or_default();
        Cycle { nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dag(nodes: u32, edges: &[(u32, u32)]) -> Dag<u32, ()> {
        let mut dag = Dag::new();
        for value in 0..nodes {
            dag.add_node(value);
        }
        for &(from, to) in edges {
            dag.set_edge(NodeId::from_index(from), NodeId::from_index(to), ());
        }
        dag
    }

    fn order(dag: &Dag<u32, ()>) -> Vec<u32> {
        dag.topological_order().unwrap().into_iter().map(NodeId::as_u32).collect()
    }

    fn cycle(dag: &Dag<u32, ()>) -> Vec<u32> {
        let cycle = dag.check_acyclic().unwrap_err();
        assert_eq!(dag.topological_order(), Err(cycle.clone()));
        assert_eq!(dag.topological_order_by(|id, _| id), Err(cycle.clone()));
        cycle.nodes.into_iter().map(NodeId::as_u32).collect()
    }

    #[test]
    fn unrelated_nodes_are_ordered_by_id() {
        assert_eq!(order(&dag(4, &[])), [0, 1, 2, 3]);
    }

    #[test]
    fn a_node_comes_after_all_its_predecessors() {
        assert_eq!(order(&dag(4, &[(3, 1), (3, 2), (1, 0), (2, 0)])), [3, 1, 2, 0]);
        assert_eq!(order(&dag(4, &[(0, 3), (2, 1), (1, 3)])), [0, 2, 1, 3]);
    }

    #[test]
    fn the_order_does_not_depend_on_the_order_of_insertion() {
        let mut edges = [(0, 5), (0, 4), (3, 4), (3, 5), (1, 3), (2, 0)];
        let expected = order(&dag(6, &edges));
        edges.reverse();
        assert_eq!(order(&dag(6, &edges)), expected);
    }

    #[test]
    fn removed_nodes_are_not_in_the_order() {
        let mut dag = dag(4, &[(3, 1), (1, 0)]);
        dag.remove_node(NodeId::from_index(1));
        assert_eq!(order(&dag), [0, 2, 3]);
    }

    #[test]
    fn a_key_decides_between_nodes_that_may_come_next() {
        let dag = dag(5, &[(0, 1), (2, 4)]);
        let by_key = |key: fn(u32) -> u32| -> Vec<u32> {
            let order = dag.topological_order_by(|_, &value| key(value)).unwrap();
            order.into_iter().map(NodeId::as_u32).collect()
        };
        assert_eq!(by_key(|value| 10 - value), [3, 2, 4, 0, 1]);
        assert_eq!(by_key(|value| value), [0, 1, 2, 3, 4]);
        assert_eq!(by_key(|_| 0), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_key_may_borrow_from_the_node() {
        let mut dag: Dag<String, ()> = Dag::new();
        let b = dag.add_node("b".into());
        let a = dag.add_node("a".into());
        assert_eq!(dag.topological_order_by(|_, name| name.as_str()), Ok(vec![a, b]));
    }

    #[test]
    fn the_cycle_begins_at_its_smallest_node_and_ends_there() {
        assert_eq!(cycle(&dag(5, &[(4, 2), (2, 3), (3, 4), (0, 4), (3, 1)])), [2, 3, 4, 2]);
    }

    #[test]
    fn an_edge_to_itself_is_a_cycle() {
        assert_eq!(cycle(&dag(3, &[(0, 1), (1, 1), (1, 2)])), [1, 1]);
    }

    #[test]
    fn a_shortcut_makes_the_named_cycle_short() {
        assert_eq!(cycle(&dag(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 4)])), [0, 4, 0]);
    }

    #[test]
    fn nodes_after_a_cycle_are_not_taken_for_a_part_of_it() {
        assert_eq!(cycle(&dag(6, &[(5, 4), (4, 5), (5, 0), (0, 1), (1, 2)])), [4, 5, 4]);
    }

    #[test]
    fn a_cycle_is_described_with_the_names_of_the_caller() {
        let cycle = dag(2, &[(0, 1), (1, 0)]).check_acyclic().unwrap_err();
        assert_eq!(cycle.to_string(), "the graph has a cycle: 0 -> 1 -> 0");
        assert_eq!(cycle.describe(|id| ["a", "b"][id.index()]), "a -> b -> a");
    }

    #[test]
    fn an_empty_graph_has_an_empty_order() {
        assert_eq!(order(&dag(0, &[])), []);
    }
}
