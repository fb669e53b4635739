//! The tree as a flat list, and as the shared lossless tree.
//!
//! The flat form is what the formatter reads: it costs a fraction of the lossless one and its tokens are numbered,
//! so the trivia around any of them is at hand.

use crate::{
    kind::{
        Mcl,
        SyntaxKind::{self, *},
    },
    lexer::Lexed,
    parser::Event,
};
use rowan::{GreenNode, GreenNodeBuilder, Language};

/// The parsed text: its nodes and significant tokens in the order in which they start.
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
                Event::Open { kind: EndOfFile, .. } => {}
                Event::Open { kind, parent: 0 } => {
                    open.push(items.len() as u32);
                    items.push(Item::Node { kind, end: 0 });
                }
                Event::Open { kind, mut parent } => {
                    enclosing.push(kind);
                    let mut next = at;
                    while parent != 0 {
                        next += parent as usize;
                        let taken = Event::Open { kind: EndOfFile, parent: 0 };
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

    /// Builds the lossless tree. Trivia goes into the innermost node that is open on both of its sides, so no node
    /// but the file starts or ends with any.
    pub(crate) fn green(&self, lexed: &Lexed<'_>) -> GreenNode {
        let mut builder = GreenNodeBuilder::new();
        let mut ends: Vec<u32> = Vec::new();
        let mut raw = 0;
        let token = |builder: &mut GreenNodeBuilder<'_>, raw: u32, kind| {
            builder.token(Mcl::kind_to_raw(kind), lexed.text_of(raw));
        };
        for (at, item) in self.items.iter().enumerate() {
            while ends.last().is_some_and(|&end| end as usize <= at) {
                ends.pop();
                builder.finish_node();
            }
            // Before a node starts, or a token is added, comes what stands before its first token.
            let next = self.first_token(at).map(|index| lexed.significant[index as usize].raw);
            if let Some(next) = next.filter(|_| at > 0) {
                (raw..next).for_each(|raw| token(&mut builder, raw, lexed.kind(raw)));
                raw = raw.max(next);
            }
            match *item {
                Item::Node { kind, end } => {
                    builder.start_node(Mcl::kind_to_raw(kind));
                    ends.push(end);
                }
                Item::Token { kind, .. } => {
                    token(&mut builder, raw, kind);
                    raw += 1;
                }
            }
        }
        while ends.len() > 1 {
            ends.pop();
            builder.finish_node();
        }
        (raw..lexed.len()).for_each(|raw| token(&mut builder, raw, lexed.kind(raw)));
        builder.finish_node();
        builder.finish()
    }

    /// The first significant token of an item. None for an empty node, which then stands where it happens to.
    fn first_token(&self, at: usize) -> Option<u32> {
        let end = match self.items[at] {
            Item::Token { index, .. } => return Some(index),
            Item::Node { end, .. } => end as usize,
        };
        self.items[at + 1..end].iter().find_map(|item| match item {
            Item::Token { index, .. } => Some(*index),
            Item::Node { .. } => None,
        })
    }
}
