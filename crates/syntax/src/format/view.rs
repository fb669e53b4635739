//! A look at the flat tree, node by node.

use crate::{
    kind::SyntaxKind,
    tree::{Item, Tree},
};

/// A node of the flat tree.
#[derive(Clone, Copy)]
pub(super) struct Node<'t> {
    items: &'t [Item],
    at: usize,
    pub(super) kind: SyntaxKind,
    end: usize,
}

/// A direct part of a node.
#[derive(Clone, Copy)]
pub(super) enum Part<'t> {
    Node(Node<'t>),
    Token(Token),
}

/// A significant token: its kind in the grammar, and its number.
#[derive(Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: SyntaxKind,
    pub(super) index: u32,
}

impl<'t> Node<'t> {
    pub(super) fn root(tree: &'t Tree) -> Option<Self> {
        match part(&tree.items, 0) {
            Some(Part::Node(node)) => Some(node),
            _ => None,
        }
    }

    pub(super) fn parts(self) -> Parts<'t> {
        Parts { items: self.items, at: self.at + 1, end: self.end }
    }

    pub(super) fn nodes(self) -> impl Iterator<Item = Node<'t>> {
        self.parts().filter_map(|part| match part {
            Part::Node(node) => Some(node),
            Part::Token(_) => None,
        })
    }

    pub(super) fn token(self, kind: SyntaxKind) -> Option<u32> {
        self.parts().find_map(|part| match part {
            Part::Token(token) if token.kind == kind => Some(token.index),
            _ => None,
        })
    }

    /// The number of the first token. Nodes of a tree without errors are never empty.
    pub(super) fn first(self) -> u32 {
        let first = self.items[self.at..self.end].iter().find_map(token_index);
        first.unwrap_or_default()
    }

    /// The number of the last token.
    pub(super) fn last(self) -> u32 {
        self.items[self.at..self.end].iter().rev().find_map(token_index).unwrap_or_default()
    }
}

fn token_index(item: &Item) -> Option<u32> {
    match item {
        Item::Token { index, .. } => Some(*index),
        Item::Node { .. } => None,
    }
}

impl Part<'_> {
    pub(super) fn kind(self) -> SyntaxKind {
        match self {
            Part::Node(node) => node.kind,
            Part::Token(token) => token.kind,
        }
    }

    pub(super) fn first(self) -> u32 {
        match self {
            Part::Node(node) => node.first(),
            Part::Token(token) => token.index,
        }
    }

    pub(super) fn last(self) -> u32 {
        match self {
            Part::Node(node) => node.last(),
            Part::Token(token) => token.index,
        }
    }
}

/// The direct parts of a node, in order.
#[derive(Clone, Copy)]
pub(super) struct Parts<'t> {
    items: &'t [Item],
    at: usize,
    end: usize,
}

impl<'t> Iterator for Parts<'t> {
    type Item = Part<'t>;

    fn next(&mut self) -> Option<Part<'t>> {
        if self.at >= self.end {
            return None;
        }
        let part = part(self.items, self.at)?;
        self.at = match part {
            Part::Node(node) => node.end,
            Part::Token(_) => self.at + 1,
        };
        Some(part)
    }
}

fn part(items: &[Item], at: usize) -> Option<Part<'_>> {
    Some(match *items.get(at)? {
        Item::Node { kind, end } => Part::Node(Node { items, at, kind, end: end as usize }),
        Item::Token { kind, index } => Part::Token(Token { kind, index }),
    })
}
