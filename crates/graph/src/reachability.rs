//! Which of some chosen nodes reach which, while they are merged.

use crate::bits::{has, ones};
use crate::snapshot::Snapshot;
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
    /// The classes that have not been merged into another, as bits.
    live: Vec<u64>,
    /// For each live class the classes it reaches, itself excluded. Bits of classes that are not live mean nothing.
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
        let count = chosen.len();
        let mut result = Self {
            class: (0..count as u32).collect(),
            next_in_class: (0..count as u32).collect(),
            class_size: vec![1; count],
            live: vec![u64::MAX; count.div_ceil(64)],
            below: Rows::new(count),
            above: Rows::new(count),
        };
        let mut class_of = vec![None; dag.id_bound()];
        for (position, &id) in chosen.iter().enumerate().filter(|&(_, &id)| dag.contains(id)) {
            match class_of[id.index()] {
                None => class_of[id.index()] = Some(position as u32),
                Some(first) => result.join(first, position as u32),
            }
        }
        let class_of: Vec<_> = order.iter().map(|id| class_of[id.index()]).collect();
        let successors = Snapshot::ordered(dag, &order, |id| dag.successor_links(id));
        result.below.fill((0..order.len()).rev(), &successors, &class_of);
        let predecessors = Snapshot::ordered(dag, &order, |id| dag.predecessor_links(id));
        result.above.fill(0..order.len(), &predecessors, &class_of);
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

    /// The position that stands for a chosen node and all that it has been merged with.
    ///
    /// # Panics
    ///
    /// When the position is not below [`Reachability::len`].
    pub fn representative(&self, position: usize) -> usize {
        self.class[position] as usize
    }

    /// The first representative from `start` on that stands apart from a chosen node: there is no path between the two,
    /// and they are not one. Looks at 64 nodes at a time.
    ///
    /// # Panics
    ///
    /// When the position is not below [`Reachability::len`].
    pub fn next_apart(&self, position: usize, start: usize) -> Option<usize> {
        let own = self.class[position] as usize;
        let (below, above) = (self.below.rows[own].as_deref(), self.above.rows[own].as_deref());
        (start / 64..self.live.len()).find_map(|index| {
            let related = below.map_or(0, |words| words[index]) | above.map_or(0, |words| words[index]);
            let mut apart = self.live[index] & !related;
            if index == start / 64 {
                apart &= u64::MAX << (start % 64);
            }
            if index == own / 64 {
                apart &= !(1 << (own % 64));
            }
            let found = index * 64 + apart.trailing_zeros() as usize;
            (apart != 0 && found < self.class.len()).then_some(found)
        })
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
        self.join(keep, drop);
        let below = [self.below.take(keep), self.below.take(drop)];
        let above = [self.above.take(keep), self.above.take(drop)];
        self.below.spread(&above, &below, keep, &self.live);
        self.above.spread(&below, &above, keep, &self.live);
        self.below.put_union(keep, below);
        self.above.put_union(keep, above);
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
        self.live[drop as usize / 64] &= !(1 << (drop % 64));
    }
}

/// One row of bits; none when all are zero.
type Row = Option<Box<[u64]>>;

/// A square of bits whose empty rows take no memory.
#[derive(Clone, Debug)]
struct Rows {
    words: usize,
    rows: Vec<Row>,
}

/// Words of a row computed at one go. Bounds the scratch memory to 128 bytes per node of the graph.
const BLOCK: usize = 16;

impl Rows {
    fn new(size: usize) -> Self {
        Self { words: size.div_ceil(64), rows: vec![None; size] }
    }

    /// Computes the row of each class from the rows of its node's neighbours. `order` must yield each node after
    /// its neighbours.
    fn fill(
        &mut self,
        order: impl Iterator<Item = usize> + Clone,
        neighbours: &Snapshot,
        class_of: &[Option<u32>],
    ) {
        // For each node what it reaches within the block, itself included.
        let mut reached = vec![[0u64; BLOCK]; class_of.len()];
        for start in (0..self.words).step_by(BLOCK) {
            let end = self.words.min(start + BLOCK);
            for node in order.clone() {
                let mut row = [0; BLOCK];
                for &neighbour in neighbours.row(node) {
                    add(&mut row, &reached[neighbour as usize]);
                }
                if let Some(class) = class_of[node] {
                    if row != [0; BLOCK] {
                        self.row_mut(class)[start..end].copy_from_slice(&row[..end - start]);
                    }
                    let word = class as usize / 64;
                    if (start..end).contains(&word) {
                        row[word - start] |= 1 << (class % 64);
                    }
                }
                reached[node] = row;
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

    fn take(&mut self, row: u32) -> Row {
        self.rows[row as usize].take()
    }

    /// Tells the classes on the near side of two merged ones what they see now: `keep`, and what either of the two
    /// has on the far side. By transitivity a class near one of them sees already what that one has, so it is told
    /// only what the other has besides, and a class near both is told nothing.
    fn spread(&mut self, near: &[Row; 2], far: &[Row; 2], keep: u32, live: &[u64]) {
        for (one, other) in [(0, 1), (1, 0)] {
            let listeners = difference(&near[one], &near[other], live);
            if listeners.is_empty() {
                continue;
            }
            let news = difference(&far[other], &far[one], live);
            for (index, word) in listeners {
                for bit in ones(&[word]) {
                    let row = self.row_mut((index * 64 + bit) as u32);
                    for &(index, word) in &news {
                        row[index] |= word;
                    }
                    row[keep as usize / 64] |= 1 << (keep % 64);
                }
            }
        }
    }

    fn put_union(&mut self, row: u32, [first, second]: [Row; 2]) {
        self.rows[row as usize] = match (first, second) {
            (Some(mut first), Some(second)) => {
                add(&mut first, &second);
                Some(first)
            }
            (first, second) => first.or(second),
        };
    }
}

/// The words, each with its index, that hold live bits of `row` which are not in `without`.
fn difference(row: &Row, without: &Row, live: &[u64]) -> Vec<(usize, u64)> {
    let without = |index: usize| without.as_ref().map_or(0, |words| words[index]);
    let words = row.iter().flat_map(|words| words.iter().enumerate());
    words
        .map(|(index, word)| (index, word & live[index] & !without(index)))
        .filter(|&(_, word)| word != 0)
        .collect()
}

fn add(row: &mut [u64], more: &[u64]) {
    for (word, more) in row.iter_mut().zip(more) {
        *word |= more;
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
    fn a_class_that_was_merged_away_takes_no_rows() {
        // 0 -> {1, 2, 3} -> 4, and 5 -> 2.
        let edges = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4), (5, 2)];
        let chosen: Vec<_> = (0..6).map(id).collect();
        let mut closure = Reachability::among(&dag(6, &edges), &chosen).unwrap();
        assert!(closure.merge(1, 2) && closure.merge(1, 3) && closure.merge(0, 5));
        for position in (0..6).filter(|&position| closure.class[position] as usize != position) {
            assert!(closure.below.rows[position].is_none() && closure.above.rows[position].is_none());
        }
        assert!(closure.reaches(5, 3) && closure.reaches(3, 4));
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

    #[test]
    fn those_apart_are_found_in_order_while_others_are_merged() {
        // A chain over more than one word, and nodes beside it.
        let edges: Vec<_> = (1..100).map(|to| (to - 1, to)).collect();
        let chosen: Vec<_> = (0..140).map(id).collect();
        let mut closure = Reachability::among(&dag(140, &edges), &chosen).unwrap();
        assert!(closure.merge(5, 120) && closure.merge(130, 131));
        for position in 0..closure.len() {
            let mut found = Vec::new();
            let mut start = 0;
            while let Some(next) = closure.next_apart(position, start) {
                found.push(next);
                start = next + 1;
            }
            let apart = |other: &usize| {
                let representative = closure.representative(*other) == *other;
                representative && !closure.reaches(position, *other) && !closure.reaches(*other, position)
            };
            assert_eq!(found, (0..closure.len()).filter(apart).collect::<Vec<_>>(), "{position}");
        }
    }
}
