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
use rowan::{GreenNode, GreenToken, Language, NodeOrToken};

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
        let mut builder = Builder::default();
        let mut raw = 0;
        let token =
            |builder: &mut Builder, raw: u32, kind| builder.token(Mcl::kind_to_raw(kind), lexed.text_of(raw));
        // The first item is the whole file.
        for (at, item) in self.items.iter().enumerate().skip(1) {
            builder.finish_nodes(at as u32);
            // Before a node starts, or a token is added, comes what stands before its first token.
            let waiting = raw < lexed.len() && lexed.kind(raw).is_trivia();
            let next = if waiting { self.first_token(at) } else { None };
            if let Some(next) = next.map(|index| lexed.significant[index as usize].raw) {
                (raw..next).for_each(|raw| token(&mut builder, raw, lexed.kind(raw)));
                raw = raw.max(next);
            }
            match *item {
                Item::Node { kind, end } => builder.start_node(Mcl::kind_to_raw(kind), end),
                Item::Token { kind, .. } => {
                    token(&mut builder, raw, kind);
                    raw += 1;
                }
            }
        }
        builder.finish_nodes(u32::MAX);
        (raw..lexed.len()).for_each(|raw| token(&mut builder, raw, lexed.kind(raw)));
        GreenNode::new(Mcl::kind_to_raw(SourceFile), builder.children)
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

/// Builds the lossless tree from the bottom up.
///
/// Equal tokens are shared as far as a small table remembers them. Nodes are not: looking for equal ones takes
/// longer than making them, and a table of all of them would not fit into the caches of the processor.
struct Builder {
    open: Vec<Open>,
    /// Of all nodes that are open.
    children: Vec<NodeOrToken<GreenNode, GreenToken>>,
    recent: Vec<Option<GreenToken>>,
}

/// A node that is not finished.
struct Open {
    kind: rowan::SyntaxKind,
    /// The number of its first child.
    first: usize,
    /// The item that comes after it.
    end: u32,
}

/// How many tokens are remembered; a power of two.
const RECENT: usize = 1024;

impl Default for Builder {
    fn default() -> Self {
        Builder { open: Vec::new(), children: Vec::new(), recent: vec![None; RECENT] }
    }
}

impl Builder {
    fn start_node(&mut self, kind: rowan::SyntaxKind, end: u32) {
        self.open.push(Open { kind, first: self.children.len(), end });
    }

    /// Finishes the nodes that end before an item.
    fn finish_nodes(&mut self, at: u32) {
        while let Some(Open { kind, first, .. }) = self.open.pop_if(|node| node.end <= at) {
            let node = GreenNode::new(kind, self.children.drain(first..));
            self.children.push(NodeOrToken::Node(node));
        }
    }

    fn token(&mut self, kind: rowan::SyntaxKind, text: &str) {
        let slot = &mut self.recent[slot_of(kind, text)];
        let token = match slot {
            Some(token) if token.kind() == kind && token.text() == text => token.clone(),
            _ => slot.insert(GreenToken::new(kind, text)).clone(),
        };
        self.children.push(NodeOrToken::Token(token));
    }
}

/// Where a token is remembered: by its kind, its length, and its first and last bytes.
fn slot_of(kind: rowan::SyntaxKind, text: &str) -> usize {
    let bytes = text.as_bytes();
    let word = |part: Option<&[u8; 8]>| part.map_or(0, |part| u64::from_le_bytes(*part));
    let (first, last) = match bytes.len() {
        8.. => (word(bytes.first_chunk()), word(bytes.last_chunk())),
        _ => (bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)), 0),
    };
    let mixed = (first ^ last.rotate_left(29) ^ u64::from(kind.0) << 48 ^ (bytes.len() as u64) << 40)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % RECENT
}
