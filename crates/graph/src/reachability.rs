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
