//! The shape of a graph, packed for reading.

use crate::adjacency::Links;
use crate::{Dag, NodeId};

/// The neighbours of every row in two arrays. Whoever visits all edges, out of order, first packs them: reading the
/// graph once in order is cheap, missing the cache on every node and list is not.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Row `i` is `neighbours[starts[i]..starts[i + 1]]`.
    starts: Vec<u32>,
    neighbours: Vec<u32>,
}

impl Snapshot {
    /// The successors of each node; rows and neighbours are indexes of ids. A free id has an empty row.
    pub(crate) fn successors<V, E>(dag: &Dag<V, E>) -> Self {
        let rows = (0..dag.id_bound() as u32).map(NodeId::from_index);
        Self::pack(dag, rows, |id| dag.successor_links(id), NodeId::as_u32)
    }

    /// The neighbours of each node; rows and neighbours are places in `order`.
    pub(crate) fn ordered<'a, V, E>(
        dag: &'a Dag<V, E>,
        order: &[NodeId],
        neighbours: impl Fn(NodeId) -> Links<'a>,
    ) -> Self {
        let mut place = vec![0; dag.id_bound()];
        for (index, id) in order.iter().enumerate() {
            place[id.index()] = index as u32;
        }
        Self::pack(dag, order.iter().copied(), neighbours, |id| place[id.index()])
    }

    fn pack<'a, V, E>(
        dag: &'a Dag<V, E>,
        rows: impl ExactSizeIterator<Item = NodeId>,
        links: impl Fn(NodeId) -> Links<'a>,
        name: impl Fn(NodeId) -> u32,
    ) -> Self {
        let mut starts = Vec::with_capacity(rows.len() + 1);
        let mut neighbours = Vec::with_capacity(dag.edge_count());
        starts.push(0);
        for id in rows {
            neighbours.extend(links(id).map(|link| name(link.node)));
            starts.push(neighbours.len() as u32);
        }
        Self { starts, neighbours }
    }

    pub(crate) fn row(&self, index: usize) -> &[u32] {
        &self.neighbours[self.starts[index] as usize..self.starts[index + 1] as usize]
    }

    /// How often each row is named as a neighbour.
    pub(crate) fn counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.starts.len() - 1];
        for &neighbour in &self.neighbours {
            counts[neighbour as usize] += 1;
        }
        counts
    }
}
