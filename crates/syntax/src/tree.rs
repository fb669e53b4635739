//! The tree as a flat list. Its tokens are numbered, so the trivia around any of them is at hand.

use crate::{kind::SyntaxKind, parser::Event};

/// The parsed text: its nodes and significant tokens in the order in which they start.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The first one is the whole file.
    pub(crate) items: Vec<Item>,
}

/// A node or a significant token.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    /// All items before `end` that follow this one are inside of it.
    Node { kind: SyntaxKind, end: u32 },
    /// `index` counts significant tokens.
    Token { kind: SyntaxKind, index: u32 },
}

impl Tree {
    /// Puts the events in order: a node that was opened late, around one that was complete, moves before it.
    pub(crate) fn new(mut events: Vec<Event>) -> Tree {
        let mut items = Vec::with_capacity(events.len());
        let mut open: Vec<u32> = Vec::new();
        let mut enclosing: Vec<SyntaxKind> = Vec::new();
        let mut tokens = 0;
        for at in 0..events.len() {
            match events[at] {
                // Its place was taken when the node that it encloses was met.
                Event::Open { kind: SyntaxKind::EndOfFile, .. } => {}
                Event::Open { kind, parent: 0 } => {
                    open.push(items.len() as u32);
                    items.push(Item::Node { kind, end: 0 });
                }
                Event::Open { kind, mut parent } => {
                    enclosing.push(kind);
                    let mut next = at;
                    while parent != 0 {
                        next += parent as usize;
                        let taken = Event::Open { kind: SyntaxKind::EndOfFile, parent: 0 };
                        let Event::Open { kind, parent: further } =
                            std::mem::replace(&mut events[next], taken)
                        else {
                            break;
                        };
                        enclosing.push(kind);
                        parent = further;
                    }
                    while let Some(kind) = enclosing.pop() {
                        open.push(items.len() as u32);
                        items.push(Item::Node { kind, end: 0 });
                    }
                }
                Event::Token { kind } => {
                    items.push(Item::Token { kind, index: tokens });
                    tokens += 1;
                }
                Event::Close => {
                    let last = items.len() as u32;
                    if let Some(Item::Node { end, .. }) = open.pop().map(|node| &mut items[node as usize]) {
                        *end = last;
                    }
                }
            }
        }
        Tree { items }
    }
}
