//! Which of some chosen nodes reach which, while they are merged.

use crate::adjacency::Links;
use crate::bits::{has, ones};
use crate::{Cycle, Dag, NodeId};

/// The closure of a graph over a list of chosen nodes, which are named by their position in that list.
///
/// Paths run through the whole graph; only their ends are chosen nodes. [`Reachability::merge`] makes two chosen
/// nodes one, as if in the graph all edges of one had been moved to the other, without looking at the graph again.
///
/// A chosen node that neither reaches nor is reached by another costs a few bytes. Others cost up to a quarter byte per
/// chosen node each, so ten thousand in a chain take 25 MB.
#[derive(Clone, Debug)]
pub struct Reachability {
    /// The class each position belongs to: the positions merged with it share one class. A class is named by
    /// the position that founded it.
    class: Vec<u32>,
    /// The positions of one class form a ring.
    next_in_class: Vec<u32>,
    /// Size of each class, valid at its founder.
    class_size: Vec<u32>,
    /// For each class the classes it reaches, itself excluded. Only classes that still exist occur.
    below: Rows,
    /// The mirror image of `below`.
    above: Rows,
}

impl Reachability {
    /// The closure over `chosen`. Takes about `(nodes + edges) * chosen / 64` steps.
    ///
    /// A node listed twice counts as merged with itself. An id that is not in the graph reaches only itself.
    pub fn among<V, E>(dag: &Dag<V, E>, chosen: &[NodeId]) -> Result<Self, Cycle> {
        let order = dag.topological_order()?;
        let positions = 0..chosen.len() as u32;
        let mut result = Self {
            class: positions.clone().collect(),
            next_in_class: positions.collect(),
            class_size: vec![1; chosen.len()],
            below: Rows::new(chosen.len()),
            above: Rows::new(chosen.len()),
        };
        let mut class_of = vec![None; dag.id_bound()];
        for (position, &id) in chosen.iter().enumerate().filter(|&(_, &id)| dag.contains(id)) {
            match class_of[id.index()] {
                None => class_of[id.index()] = Some(position as u32),
                Some(first) => result.join(first, position as u32),
            }
        }
        result.below.fill(order.iter().rev().copied(), |id| dag.successor_links(id), &class_of);
        result.above.fill(order.iter().copied(), |id| dag.predecessor_links(id), &class_of);
        Ok(result)
    }

    /// How many nodes were chosen.
    pub fn len(&self) -> usize {
        self.class.len()
    }

    /// Whether no node was chosen.
    pub fn is_empty(&self) -> bool {
        self.class.is_empty()
    }

    /// Whether there is a path from the chosen node at position `from` to the one at `to`. A node reaches itself and
    /// those it has been merged with.
    ///
    /// # Panics
    ///
    /// When a position is not below [`Reachability::len`].
    pub fn reaches(&self, from: usize, to: usize) -> bool {
        let (from, to) = (self.class[from], self.class[to]);
        from == to || self.below.has(from, to)
    }

    /// Makes two chosen nodes one: what reached either now reaches both and all that either reached.
    ///
    /// Returns false, and changes nothing, when they are one already or when one reaches the other, because
    /// merging them would then close a cycle or make an edge point at its own node.
    ///
    /// # Panics
    ///
    /// When a position is not below [`Reachability::len`].
    pub fn merge(&mut self, first: usize, second: usize) -> bool {
        if self.reaches(first, second) || self.reaches(second, first) {
            return false;
        }
        let (mut keep, mut drop) = (self.class[first], self.class[second]);
        // Relabelling the smaller class keeps the total cost of all merges near linear.
        if self.class_size[keep as usize] < self.class_size[drop as usize] {
            std::mem::swap(&mut keep, &mut drop);
        }
        let below = union(self.below.take(keep), self.below.take(drop));
        let above = union(self.above.take(keep), self.above.take(drop));
        self.below.spread(above.as_deref(), below.as_deref(), keep, drop);
        self.above.spread(below.as_deref(), above.as_deref(), keep, drop);
        self.below.put(keep, below);
        self.above.put(keep, above);
        self.join(keep, drop);
        true
    }

    /// Moves all positions of class `drop` into class `keep`.
    fn join(&mut self, keep: u32, drop: u32) {
        let mut at = drop;
        loop {
            self.class[at as usize] = keep;
            at = self.next_in_class[at as usize];
            if at == drop {
                break;
            }
        }
        self.next_in_class.swap(keep as usize, drop as usize);
        self.class_size[keep as usize] += self.class_size[drop as usize];
    }
}

/// A square of bits whose empty rows take no memory.
#[derive(Clone, Debug)]
struct Rows {
    words: usize,
    rows: Vec<Option<Box<[u64]>>>,
}

/// Words of a row computed at one go. Bounds the scratch memory to 64 bytes per node of the graph.
const BLOCK: usize = 8;

impl Rows {
    fn new(size: usize) -> Self {
        Self { words: size.div_ceil(64), rows: vec![None; size] }
    }

    /// Computes the row of each class from the rows of its node's neighbours. `order` must yield each node after
    /// its neighbours.
    fn fill<'a>(
        &mut self,
        order: impl Iterator<Item = NodeId> + Clone,
        neighbours: impl Fn(NodeId) -> Links<'a>,
        class_of: &[Option<u32>],
    ) {
        // For each node what it reaches within the block, itself included.
        let mut reached = vec![[0u64; BLOCK]; class_of.len()];
        for start in (0..self.words).step_by(BLOCK) {
            let end = self.words.min(start + BLOCK);
            for id in order.clone() {
                let mut row = [0; BLOCK];
                for link in neighbours(id) {
                    for (word, more) in row.iter_mut().zip(&reached[link.node.index()]) {
                        *word |= more;
                    }
                }
                if let Some(class) = class_of[id.index()] {
                    if row != [0; BLOCK] {
                        self.row_mut(class)[start..end].copy_from_slice(&row[..end - start]);
                    }
                    let word = class as usize / 64;
                    if (start..end).contains(&word) {
                        row[word - start] |= 1 << (class % 64);
                    }
                }
                reached[id.index()] = row;
            }
        }
    }

    fn has(&self, row: u32, bit: u32) -> bool {
        self.rows[row as usize].as_deref().is_some_and(|words| has(words, bit as usize))
    }

    fn row_mut(&mut self, row: u32) -> &mut [u64] {
        let words = self.words;
        self.rows[row as usize].get_or_insert_with(|| vec![0; words].into_boxed_slice())
    }

    fn take(&mut self, row: u32) -> Option<Box<[u64]>> {
        self.rows[row as usize].take()
    }

    fn put(&mut self, row: u32, words: Option<Box<[u64]>>) {
        self.rows[row as usize] = words;
    }

    /// Adds `more` and `keep` to, and removes `drop` from, each of the rows in `targets`.
    fn spread(&mut self, targets: Option<&[u64]>, more: Option<&[u64]>, keep: u32, drop: u32) {
        for target in targets.into_iter().flat_map(ones) {
            let row = self.row_mut(target as u32);
            if let Some(more) = more {
                for (word, more) in row.iter_mut().zip(more) {
                    *word |= more;
                }
            }
            row[drop as usize / 64] &= !(1 << (drop % 64));
            row[keep as usize / 64] |= 1 << (keep % 64);
        }
    }
}

fn union(first: Option<Box<[u64]>>, second: Option<Box<[u64]>>) -> Option<Box<[u64]>> {
    match (first, second) {
        (Some(mut first), Some(second)) => {
            for (word, more) in first.iter_mut().zip(&second) {
                *word |= more;
            }
            Some(first)
        }
        (first, second) => first.or(second),
    }
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

    #[test]
    fn paths_run_through_nodes_that_were_not_chosen() {
        let dag = dag(4, &[(3, 1), (1, 0), (2, 1)]);
        let closure = Reachability::among(&dag, &[id(0), id(3), id(2)]).unwrap();
        assert_eq!(closure.len(), 3);
        assert!(closure.reaches(1, 0) && closure.reaches(2, 0));
        assert!(!closure.reaches(0, 1) && !closure.reaches(1, 2) && !closure.reaches(2, 1));
        assert!(closure.reaches(0, 0));
    }

    #[test]
    fn a_long_chain_fills_more_than_one_block() {
        let count = 64 * BLOCK as u32 * 2 + 70;
        let edges: Vec<_> = (1..count).map(|to| (to - 1, to)).collect();
        let chosen: Vec<_> = (0..count).map(id).collect();
        let closure = Reachability::among(&dag(count, &edges), &chosen).unwrap();
        for from in (0..count as usize).step_by(37) {
            for to in 0..count as usize {
                assert_eq!(closure.reaches(from, to), from <= to, "{from} {to}");
            }
        }
    }

    #[test]
    fn what_reached_either_of_two_merged_nodes_reaches_what_either_reached() {
        // 0 -> 1 -> 2 and 3 -> 4 -> 5, then 1 and 4 become one.
        let dag = dag(6, &[(0, 1), (1, 2), (3, 4), (4, 5)]);
        let chosen: Vec<_> = (0..6).map(id).collect();
        let mut closure = Reachability::among(&dag, &chosen).unwrap();
        assert!(!closure.reaches(0, 5));
        assert!(closure.merge(4, 1));
        for from in [0, 3] {
            for to in [1, 2, 4, 5] {
                assert!(closure.reaches(from, to), "{from} {to}");
            }
        }
        assert!(closure.reaches(1, 4) && closure.reaches(4, 1));
        assert!(closure.reaches(1, 5) && closure.reaches(4, 2));
        assert!(!closure.reaches(0, 3) && !closure.reaches(2, 5) && !closure.reaches(5, 1));
    }

    #[test]
    fn merging_nodes_with_a_path_between_them_is_refused() {
        let dag = dag(4, &[(0, 1), (1, 2)]);
        let chosen = [id(0), id(2), id(3)];
        let mut closure = Reachability::among(&dag, &chosen).unwrap();
        assert!(!closure.merge(0, 1));
        assert!(!closure.merge(1, 0));
        assert!(!closure.merge(0, 0));
        assert!(closure.merge(0, 2));
        assert!(!closure.merge(0, 2));
        assert!(closure.reaches(2, 1));
        assert!(!closure.merge(2, 1));
    }

    #[test]
    fn a_merge_can_close_the_way_for_the_next() {
        // a1 -> b1, b2 -> a2: once b1 and b2 are one, a1 reaches a2.
        let dag = dag(4, &[(0, 1), (2, 3)]);
        let chosen: Vec<_> = (0..4).map(id).collect();
        let mut closure = Reachability::among(&dag, &chosen).unwrap();
        assert!(closure.merge(1, 2));
        assert!(!closure.merge(0, 3));
    }

    #[test]
    fn unrelated_nodes_take_no_rows_even_when_merged() {
        let chosen: Vec<_> = (0..100).map(id).collect();
        let mut closure = Reachability::among(&dag(100, &[]), &chosen).unwrap();
        for other in 1..100 {
            assert!(closure.merge(other, 0));
        }
        assert!((0..100).all(|other| closure.reaches(0, other) && closure.reaches(other, 0)));
        assert!(closure.below.rows.iter().chain(&closure.above.rows).all(Option::is_none));
    }

    #[test]
    fn a_node_chosen_twice_is_one_and_an_unknown_one_stands_alone() {
        let dag = dag(2, &[(0, 1)]);
        let mut closure = Reachability::among(&dag, &[id(0), id(1), id(0), id(9)]).unwrap();
        assert!(closure.reaches(0, 2) && closure.reaches(2, 0) && closure.reaches(2, 1));
        assert!(!closure.reaches(3, 1) && !closure.reaches(0, 3) && closure.reaches(3, 3));
        assert!(!closure.merge(0, 2));
        assert!(closure.merge(3, 1) && closure.reaches(2, 3));
    }

    #[test]
    fn a_graph_with_a_cycle_has_no_closure() {
        let result = Reachability::among(&dag(2, &[(0, 1), (1, 0)]), &[]);
        assert_eq!(result.unwrap_err().nodes, [id(0), id(1), id(0)]);
        assert!(Reachability::among(&dag(1, &[]), &[]).unwrap().is_empty());
    }
}
