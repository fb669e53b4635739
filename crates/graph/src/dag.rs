//! The graph itself: storage, and what changes it.

use std::fmt;
use std::ops::{Index, IndexMut};

use crate::adjacency::{Adjacency, Links};

/// A directed graph with a value of type `V` on each node and one of type `E` on each edge.
///
/// See the crate's page for the invariants. Functions that add an edge panic when an end is not in the graph, as
/// indexing does: an id comes from [`Dag::add_node`], never from a user. Functions that only look answer `None`, an
/// empty iterator or `false` for an unknown id.
///
/// Adding or removing a node or an edge takes time proportional to the node's degree at most, and a lookup takes
/// the logarithm of it.
#[derive(Clone)]
pub struct Dag<V, E> {
    slots: Vec<Option<Node<V>>>,
    free_slots: Vec<u32>,
    edges: Vec<Option<E>>,
    free_edges: Vec<u32>,
}

/// Names a node for as long as it is in its graph.
///
/// Ids are small: below [`Dag::id_bound`] and as dense as removals allow. The id of a removed node may be given to a
/// node added later. An id means nothing in another graph, except in one made by `clone`, [`Dag::map`] or
/// [`Dag::into_map`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

#[derive(Clone)]
struct Node<V> {
    value: V,
    successors: Adjacency,
    predecessors: Adjacency,
}

impl NodeId {
    /// The id with this index, for callers that stored the index alone.
    pub const fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// The position of this node in a side table.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number behind the id.
    #[inline]
    pub const fn as_u32(self) -> u32 {
        self.0
    }
}

impl<V, E> Dag<V, E> {
    /// An empty graph.
    pub const fn new() -> Self {
        Self { slots: Vec::new(), free_slots: Vec::new(), edges: Vec::new(), free_edges: Vec::new() }
    }

    /// An empty graph with room for that many nodes and edges.
    pub fn with_capacity(nodes: usize, edges: usize) -> Self {
        Self { slots: Vec::with_capacity(nodes), edges: Vec::with_capacity(edges), ..Self::new() }
    }

    /// Adds a node without edges.
    ///
    /// # Panics
    ///
    /// When the graph would exceed 2³² - 1 nodes.
    pub fn add_node(&mut self, value: V) -> NodeId {
        let node = Some(Node { value, successors: Adjacency::new(), predecessors: Adjacency::new() });
        NodeId(store(&mut self.slots, &mut self.free_slots, node))
    }

    /// Removes a node and all its edges.
    pub fn remove_node(&mut self, id: NodeId) -> Option<V> {
        let node = self.slots.get_mut(id.index())?.take()?;
        self.free_slots.push(id.0);
        for link in node.successors.iter() {
            self.discard_edge(link.slot);
            // An edge to itself went with the slot.
            if let Some(successor) = self.slot_mut(link.node) {
                successor.predecessors.remove(id);
            }
        }
        for link in node.predecessors.iter().filter(|link| link.node != id) {
            self.discard_edge(link.slot);
            if let Some(predecessor) = self.slot_mut(link.node) {
                predecessor.successors.remove(id);
            }
        }
        Some(node.value)
    }

    /// Makes `value` the edge from one node to another and returns the value it replaces.
    ///
    /// # Panics
    ///
    /// When an end is not in the graph.
    pub fn set_edge(&mut self, from: NodeId, to: NodeId, value: E) -> Option<E> {
        match self.edge_mut(from, to) {
            Some(existing) => Some(std::mem::replace(existing, value)),
            None => {
                self.insert_edge(from, to, value);
                None
            }
        }
    }

    /// Adds an edge, or folds `value` into the one that is there. Returns whether the edge is new.
    ///
    /// # Panics
    ///
    /// When an end is not in the graph.
    pub fn merge_edge(&mut self, from: NodeId, to: NodeId, value: E, merge: impl FnOnce(&mut E, E)) -> bool {
        match self.edge_mut(from, to) {
            Some(existing) => {
                merge(existing, value);
                false
            }
            None => {
                self.insert_edge(from, to, value);
                true
            }
        }
    }

    /// Removes an edge.
    pub fn remove_edge(&mut self, from: NodeId, to: NodeId) -> Option<E> {
        let slot = self.slot_mut(from)?.successors.remove(to)?;
        self.slot_mut(to)?.predecessors.remove(from);
        self.discard_edge(slot)
    }

    /// The value of a node.
    pub fn node(&self, id: NodeId) -> Option<&V> {
        self.slot(id).map(|node| &node.value)
    }

    /// The value of a node, to change.
    pub fn node_mut(&mut self, id: NodeId) -> Option<&mut V> {
        self.slot_mut(id).map(|node| &mut node.value)
    }

    /// The value of an edge.
    pub fn edge(&self, from: NodeId, to: NodeId) -> Option<&E> {
        let slot = self.slot(from)?.successors.get(to)?;
        self.edges[slot as usize].as_ref()
    }

    /// The value of an edge, to change.
    pub fn edge_mut(&mut self, from: NodeId, to: NodeId) -> Option<&mut E> {
        let slot = self.slot(from)?.successors.get(to)?;
        self.edges[slot as usize].as_mut()
    }

    /// Whether the node is in the graph.
    pub fn contains(&self, id: NodeId) -> bool {
        self.slot(id).is_some()
    }

    /// Whether the edge is in the graph.
    pub fn contains_edge(&self, from: NodeId, to: NodeId) -> bool {
        self.edge(from, to).is_some()
    }

    /// The ids of all nodes, ascending.
    pub fn node_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + Clone {
        self.live().map(|(id, _)| id)
    }

    /// All nodes in ascending order of id.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = (NodeId, &V)> + Clone {
        self.live().map(|(id, node)| (id, &node.value))
    }

    /// All nodes in ascending order of id, to change.
    pub fn nodes_mut(&mut self) -> impl DoubleEndedIterator<Item = (NodeId, &mut V)> {
        self.slots
            .iter_mut()
            .enumerate()
            .filter_map(|(index, slot)| Some((NodeId(index as u32), &mut slot.as_mut()?.value)))
    }

    /// All edges as (from, to, value), ascending by from and then by to.
    pub fn edges(&self) -> impl Iterator<Item = (NodeId, NodeId, &E)> {
        self.live().flat_map(|(from, _)| self.successors(from).map(move |(to, value)| (from, to, value)))
    }

    /// The nodes that have an edge from `id`, with that edge, in ascending order of id.
    pub fn successors(&self, id: NodeId) -> Neighbours<'_, E> {
        Neighbours { links: self.successor_links(id), edges: &self.edges }
    }

    /// The nodes that have an edge to `id`, with that edge, in ascending order of id.
    pub fn predecessors(&self, id: NodeId) -> Neighbours<'_, E> {
        Neighbours { links: self.predecessor_links(id), edges: &self.edges }
    }

    /// How many edges leave the node; 0 for an unknown one.
    pub fn out_degree(&self, id: NodeId) -> usize {
        self.slot(id).map_or(0, |node| node.successors.len())
    }

    /// How many edges enter the node; 0 for an unknown one.
    pub fn in_degree(&self, id: NodeId) -> usize {
        self.slot(id).map_or(0, |node| node.predecessors.len())
    }

    /// The nodes without predecessors, ascending.
    pub fn sources(&self) -> impl Iterator<Item = NodeId> {
        self.live().filter(|(_, node)| node.predecessors.len() == 0).map(|(id, _)| id)
    }

    /// The nodes without successors, ascending.
    pub fn sinks(&self) -> impl Iterator<Item = NodeId> {
        self.live().filter(|(_, node)| node.successors.len() == 0).map(|(id, _)| id)
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.slots.len() - self.free_slots.len()
    }

    /// How many edges there are.
    pub fn edge_count(&self) -> usize {
        self.edges.len() - self.free_edges.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.node_count() == 0
    }

    /// Every id's index is below this: the size a side table needs.
    pub fn id_bound(&self) -> usize {
        self.slots.len()
    }

    /// A graph of the same shape, with the same ids and other values.
    pub fn map<W, F>(
        &self,
        mut node: impl FnMut(NodeId, &V) -> W,
        mut edge: impl FnMut(NodeId, NodeId, &E) -> F,
    ) -> Dag<W, F> {
        let mut edges: Vec<Option<F>> = std::iter::repeat_with(|| None).take(self.edges.len()).collect();
        let mut slots = Vec::with_capacity(self.slots.len());
        for (index, slot) in self.slots.iter().enumerate() {
            let from = NodeId(index as u32);
            slots.push(slot.as_ref().map(|old| {
                for link in old.successors.iter() {
                    let slot = link.slot as usize;
                    edges[slot] = self.edges[slot].as_ref().map(|value| edge(from, link.node, value));
                }
                Node {
                    value: node(from, &old.value),
                    successors: old.successors.clone(),
                    predecessors: old.predecessors.clone(),
                }
            }));
        }
        Dag { slots, free_slots: self.free_slots.clone(), edges, free_edges: self.free_edges.clone() }
            .checked_in_debug()
    }

    /// As [`Dag::map`], giving the old values away.
    pub fn into_map<W, F>(
        mut self,
        mut node: impl FnMut(NodeId, V) -> W,
        mut edge: impl FnMut(NodeId, NodeId, E) -> F,
    ) -> Dag<W, F> {
        let mut edges: Vec<Option<F>> = std::iter::repeat_with(|| None).take(self.edges.len()).collect();
        let mut slots = Vec::with_capacity(self.slots.len());
        for (index, slot) in self.slots.into_iter().enumerate() {
            let from = NodeId(index as u32);
            slots.push(slot.map(|old| {
                for link in old.successors.iter() {
                    let slot = link.slot as usize;
                    edges[slot] = self.edges[slot].take().map(|value| edge(from, link.node, value));
                }
                Node {
                    value: node(from, old.value),
                    successors: old.successors,
                    predecessors: old.predecessors,
                }
            }));
        }
        Dag { slots, free_slots: self.free_slots, edges, free_edges: self.free_edges }.checked_in_debug()
    }

    /// Removes the nodes, with their edges, for which `keep` says no. Asked in ascending order of id.
    pub fn retain(&mut self, mut keep: impl FnMut(NodeId, &mut V) -> bool) {
        let refused: Vec<NodeId> =
            self.nodes_mut().filter_map(|(id, value)| (!keep(id, value)).then_some(id)).collect();
        for id in refused {
            self.remove_node(id);
        }
        self.check_in_debug();
    }

    /// Removes the edges for which `keep` says no. Asked in ascending order of from and then of to.
    pub fn retain_edges(&mut self, mut keep: impl FnMut(NodeId, NodeId, &mut E) -> bool) {
        let mut refused = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            let from = NodeId(index as u32);
            for link in slot.iter().flat_map(|node| node.successors.iter()) {
                let value = self.edges[link.slot as usize].as_mut();
                if !value.is_some_and(|value| keep(from, link.node, value)) {
                    refused.push((from, link.node));
                }
            }
        }
        for (from, to) in refused {
            self.remove_edge(from, to);
        }
        self.check_in_debug();
    }

    /// Asserts the structural invariants in time linear in the graph. Meant for tests and debug builds.
    ///
    /// # Panics
    ///
    /// When the graph is damaged, which is an error of this crate.
    pub fn check_invariants(&self) {
        let free = |slots: &[u32]| slots.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(free(&self.free_slots), self.free_slots.len(), "a node slot is free twice");
        assert_eq!(free(&self.free_edges), self.free_edges.len(), "an edge slot is free twice");
        assert!(self.free_slots.iter().all(|&slot| self.slots[slot as usize].is_none()));
        assert!(self.free_edges.iter().all(|&slot| self.edges[slot as usize].is_none()));
        assert_eq!(self.live().count(), self.node_count(), "an empty node slot is not on the free list");

        let (mut forward, mut backward) = (0, 0);
        let mut used = vec![false; self.edges.len()];
        for (id, node) in self.live() {
            node.successors.check_invariants();
            node.predecessors.check_invariants();
            for link in node.successors.iter() {
                forward += 1;
                let slot = link.slot as usize;
                assert!(!std::mem::replace(&mut used[slot], true), "two edges share a value");
                assert!(self.edges[slot].is_some(), "{id} -> {} has no value", link.node);
                let mirror = self.slot(link.node).and_then(|to| to.predecessors.get(id));
                assert_eq!(mirror, Some(link.slot), "{id} -> {} is not mirrored", link.node);
            }
            backward += node.predecessors.len();
        }
        assert_eq!(forward, self.edge_count(), "an edge value belongs to no edge");
        assert_eq!(forward, backward, "the two directions disagree");
    }

    pub(crate) fn successor_links(&self, id: NodeId) -> Links<'_> {
        self.slot(id).map_or_else(Links::empty, |node| node.successors.iter())
    }

    pub(crate) fn predecessor_links(&self, id: NodeId) -> Links<'_> {
        self.slot(id).map_or_else(Links::empty, |node| node.predecessors.iter())
    }

    /// [`Dag::check_invariants`] where it does not change the order of the cost.
    pub(crate) fn check_in_debug(&self) {
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    fn checked_in_debug(self) -> Self {
        self.check_in_debug();
        self
    }

    fn live(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node<V>)> + Clone {
        self.slots.iter().enumerate().filter_map(|(index, slot)| Some((NodeId(index as u32), slot.as_ref()?)))
    }

    fn slot(&self, id: NodeId) -> Option<&Node<V>> {
        self.slots.get(id.index())?.as_ref()
    }

    fn slot_mut(&mut self, id: NodeId) -> Option<&mut Node<V>> {
        self.slots.get_mut(id.index())?.as_mut()
    }

    /// The edge must not exist.
    fn insert_edge(&mut self, from: NodeId, to: NodeId, value: E) {
        assert!(self.contains(from), "edge from node {from}, which is not in the graph");
        assert!(self.contains(to), "edge to node {to}, which is not in the graph");
        let slot = store(&mut self.edges, &mut self.free_edges, Some(value));
        if let Some(node) = self.slot_mut(from) {
            node.successors.insert(to, slot);
        }
        if let Some(node) = self.slot_mut(to) {
            node.predecessors.insert(from, slot);
        }
    }

    fn discard_edge(&mut self, slot: u32) -> Option<E> {
        self.free_edges.push(slot);
        self.edges[slot as usize].take()
    }
}

/// Puts an item into a free slot, or into a new one.
fn store<T>(slots: &mut Vec<Option<T>>, free: &mut Vec<u32>, item: Option<T>) -> u32 {
    if let Some(slot) = free.pop() {
        slots[slot as usize] = item;
        return slot;
    }
    // The largest number stays unused: tables of ids use it for "none".
    assert!(slots.len() < u32::MAX as usize, "the graph is full");
    slots.push(item);
    (slots.len() - 1) as u32
}

impl<V, E> Default for Dag<V, E> {
    fn default() -> Self {
        Self::new()
    }
}

/// Panics for an id that is not in the graph.
impl<V, E> Index<NodeId> for Dag<V, E> {
    type Output = V;

    fn index(&self, id: NodeId) -> &V {
        match self.node(id) {
            Some(value) => value,
            None => panic!("node {id} is not in the graph"),
        }
    }
}

/// Panics for an id that is not in the graph.
impl<V, E> IndexMut<NodeId> for Dag<V, E> {
    fn index_mut(&mut self, id: NodeId) -> &mut V {
        match self.node_mut(id) {
            Some(value) => value,
            None => panic!("node {id} is not in the graph"),
        }
    }
}

/// Equal when the same ids have the same values and the same edges, whatever happened before.
impl<V: PartialEq, E: PartialEq> PartialEq for Dag<V, E> {
    fn eq(&self, other: &Self) -> bool {
        self.node_count() == other.node_count()
            && self.edge_count() == other.edge_count()
            && self.nodes().eq(other.nodes())
            && self.edges().eq(other.edges())
    }
}

impl<V: Eq, E: Eq> Eq for Dag<V, E> {}

impl<V: fmt::Debug, E: fmt::Debug> fmt::Debug for Dag<V, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Dag")
            .field("nodes", &self.nodes().collect::<Vec<_>>())
            .field("edges", &self.edges().collect::<Vec<_>>())
            .finish()
    }
}

/// The size in one line, as in `Vertices(3), Edges(2)`.
impl<V, E> fmt::Display for Dag<V, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Vertices({}), Edges({})", self.node_count(), self.edge_count())
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "#{}", self.0)
    }
}

/// The neighbours of a node in one direction, with the edges between; see [`Dag::successors`].
pub struct Neighbours<'a, E> {
    links: Links<'a>,
    edges: &'a [Option<E>],
}

impl<'a, E> Iterator for Neighbours<'a, E> {
    type Item = (NodeId, &'a E);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let link = self.links.next()?;
        Some((link.node, self.edges[link.slot as usize].as_ref()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.links.size_hint()
    }
}

impl<E> ExactSizeIterator for Neighbours<'_, E> {}

impl<E> Clone for Neighbours<'_, E> {
    fn clone(&self) -> Self {
        Self { links: self.links.clone(), edges: self.edges }
    }
}

impl<E> fmt::Debug for Neighbours<'_, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.links.clone().map(|link| link.node)).finish()
    }
}

#[cfg(test)]
mod tests;
