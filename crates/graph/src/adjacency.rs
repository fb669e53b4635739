//! The neighbours of one node in one direction, sorted by id.

use std::collections::{BTreeMap, btree_map};
use std::slice;

use smallvec::SmallVec;

use crate::NodeId;

/// Longest list kept as a sorted array. Beyond it a middle insertion would move too much memory, and adding the
/// edges of a node with very many neighbours one by one would cost the square of their number.
const FEW_MAX: usize = 256;

/// A tree that has shrunk to this many links becomes an array again. Well below [`FEW_MAX`], so that a list which
/// hovers around one size does not change its form each time.
const MANY_MIN: usize = 64;

/// Neighbours in ascending order of id, each with the slot of the edge's value.
#[derive(Clone, Debug)]
pub(crate) enum Adjacency {
    /// The usual case; up to two links need no allocation.
    Few(SmallVec<[Link; 2]>),
    /// A node with very many neighbours.
    Many(BTreeMap<NodeId, u32>),
}

/// One neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) node: NodeId,
    pub(crate) slot: u32,
}

impl Adjacency {
    pub(crate) fn new() -> Self {
        Self::Few(SmallVec::new())
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(links) => links.len(),
            Self::Many(links) => links.len(),
        }
    }

    /// The edge slot of the link to `node`.
    pub(crate) fn get(&self, node: NodeId) -> Option<u32> {
        match self {
            Self::Few(links) => position(links, node).ok().map(|at| links[at].slot),
            Self::Many(links) => links.get(&node).copied(),
        }
    }

    /// Adds a link, or points an existing one at another slot.
    pub(crate) fn insert(&mut self, node: NodeId, slot: u32) {
        match self {
            Self::Few(links) => match position(links, node) {
                Ok(at) => links[at].slot = slot,
                Err(at) if links.len() < FEW_MAX => links.insert(at, Link { node, slot }),
                Err(_) => {
                    let mut many: BTreeMap<_, _> = links.iter().map(|link| (link.node, link.slot)).collect();
                    many.insert(node, slot);
                    *self = Self::Many(many);
                }
            },
            Self::Many(links) => {
                links.insert(node, slot);
            }
        }
    }

    /// Removes the link to `node` and returns its edge slot.
    pub(crate) fn remove(&mut self, node: NodeId) -> Option<u32> {
        match self {
            Self::Few(links) => position(links, node).ok().map(|at| links.remove(at).slot),
            Self::Many(links) => {
                let slot = links.remove(&node);
                if links.len() <= MANY_MIN {
                    *self = Self::Few(links.iter().map(|(&node, &slot)| Link { node, slot }).collect());
                }
                slot
            }
        }
    }

    pub(crate) fn iter(&self) -> Links<'_> {
        match self {
            Self::Few(links) => Links::Few(links.iter()),
            Self::Many(links) => Links::Many(links.iter()),
        }
    }

    pub(crate) fn check_invariants(&self) {
        if let Self::Few(links) = self {
            assert!(links.len() <= FEW_MAX, "a long list is stored as an array");
            assert!(links.is_sorted_by(|a, b| a.node < b.node), "a list is unsorted or has a link twice");
        }
    }
}

/// Where `node` is, or where it belongs. Edges mostly arrive in ascending order, so the end is looked at first.
fn position(links: &[Link], node: NodeId) -> Result<usize, usize> {
    match links.last() {
        Some(last) if last.node >= node => links.binary_search_by_key(&node, |link| link.node),
        _ => Err(links.len()),
    }
}

/// The links of an [`Adjacency`] in ascending order of id.
#[derive(Clone, Debug)]
pub(crate) enum Links<'a> {
    Few(slice::Iter<'a, Link>),
    Many(btree_map::Iter<'a, NodeId, u32>),
}

impl Links<'_> {
    pub(crate) fn empty() -> Self {
        Self::Few([].iter())
    }
}

impl Iterator for Links<'_> {
    type Item = Link;

    #[inline]
    fn next(&mut self) -> Option<Link> {
        match self {
            Self::Few(links) => links.next().copied(),
            Self::Many(links) => links.next().map(|(&node, &slot)| Link { node, slot }),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Few(links) => links.size_hint(),
            Self::Many(links) => links.size_hint(),
        }
    }
}

impl ExactSizeIterator for Links<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(index: u32) -> NodeId {
        NodeId::from_index(index)
    }

    #[test]
    fn links_stay_sorted_through_both_forms() {
        let mut adjacency = Adjacency::new();
        let count = 3 * FEW_MAX as u32;
        // 7 has no factor in common with the count, so this visits each number once, out of order.
        for step in 0..count {
            let index = step * 7 % count;
            adjacency.insert(node(index), index + 1);
            adjacency.check_invariants();
        }
        assert!(matches!(adjacency, Adjacency::Many(_)));
        assert_eq!(adjacency.len(), count as usize);
        assert!(adjacency.iter().map(|link| link.node.index()).eq(0..count as usize));
        for index in 0..count {
            assert_eq!(adjacency.get(node(index)), Some(index + 1));
        }
        for index in (1..count).rev() {
            assert_eq!(adjacency.remove(node(index)), Some(index + 1));
            assert_eq!(adjacency.remove(node(index)), None);
            adjacency.check_invariants();
        }
        assert!(matches!(adjacency, Adjacency::Few(_)));
        assert_eq!(adjacency.iter().collect::<Vec<_>>(), [Link { node: node(0), slot: 1 }]);
    }

    #[test]
    fn inserting_a_known_neighbour_replaces_its_slot() {
        let mut adjacency = Adjacency::new();
        adjacency.insert(node(4), 1);
        adjacency.insert(node(4), 2);
        assert_eq!(adjacency.len(), 1);
        assert_eq!(adjacency.get(node(4)), Some(2));
    }

    #[test]
    fn two_links_need_no_allocation_and_a_list_is_four_words() {
        let mut adjacency = Adjacency::new();
        adjacency.insert(node(1), 0);
        adjacency.insert(node(0), 1);
        assert!(matches!(&adjacency, Adjacency::Few(links) if !links.spilled()));
        assert!(size_of::<Adjacency>() <= 4 * size_of::<usize>());
    }
}
