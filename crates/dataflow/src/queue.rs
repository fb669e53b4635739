//! Nodes that wait to be computed, lowest first.

use crate::graph::NodeId;

/// A queue by height. Heights are small and dense, so each has a list of its own.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    levels: Vec<Vec<NodeId>>,
    lowest: usize,
    length: usize,
}

impl Queue {
    pub(crate) fn push(&mut self, node: NodeId, height: u32) {
        let height = height as usize;
        if self.levels.len() <= height {
            self.levels.resize_with(height + 1, Vec::new);
        }
        self.levels[height].push(node);
        self.lowest = if self.length == 0 { height } else { self.lowest.min(height) };
        self.length += 1;
    }

    /// The next node and the height under which it was put here.
    pub(crate) fn pop(&mut self) -> Option<(NodeId, u32)> {
        while self.length > 0 {
            match self.levels.get_mut(self.lowest).and_then(Vec::pop) {
                Some(node) => {
                    self.length -= 1;
                    return Some((node, self.lowest as u32));
                }
                None => self.lowest += 1,
            }
        }
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }
}
