//! The tree as nodes and tokens that can be held, walked and asked for their text.
//!
//! A node is a number in the flat tree, and a share of it. So a tree costs what its lists cost: nothing is made for a node
//! before somebody looks at it, nothing is freed piece by piece, and however deep a text nests, no walk but the own
//! one of whoever looks needs a stack.
//!
//! Trivia is not part of any node: it stands between tokens, and [`SyntaxNode::tokens`] passes it.

use std::{fmt, hash, ops::Range, rc::Rc, sync::Arc};

use text_size::{TextRange, TextSize};

use crate::{
    kind::SyntaxKind,
    lexer::Lexed,
    tree::{Item, Tree},
};

/// A text, its tokens, and the tree over them.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) lexed: Lexed<'static>,
    pub(crate) tree: Tree,
}

impl Whole {
    /// The number among all tokens of what an item is, if it is a token.
    fn raw(&self, item: &Item) -> Option<u32> {
        match *item {
            Item::Token { index, .. } => Some(self.lexed.significant[index as usize].raw),
            Item::Node { .. } => None,
        }
    }

    /// The first and the last token of an item, among all tokens. None for an empty node.
    fn outermost(&self, at: u32) -> Option<(u32, u32)> {
        let items = &self.tree.items[at as usize..self.end(at) as usize];
        let first = items.iter().find_map(|item| self.raw(item))?;
        let last = items.iter().rev().find_map(|item| self.raw(item))?;
        Some((first, last))
    }

    /// The item that comes after this one and all that is inside of it.
    fn end(&self, at: u32) -> u32 {
        match self.tree.items[at as usize] {
            Item::Node { end, .. } => end,
            Item::Token { .. } => at + 1,
        }
    }

    fn range(&self, at: u32) -> TextRange {
        if at == 0 {
            return TextRange::up_to(TextSize::of(&*self.lexed.text));
        }
        match self.outermost(at) {
            Some((first, last)) => {
                TextRange::new(self.lexed.range(first).start(), self.lexed.range(last).end())
            }
            None => self.place(at as usize),
        }
    }

    /// Where an empty node is: behind the token before it, or, if it is the first thing in a node that is not empty, where
    /// that one starts.
    fn place(&self, at: usize) -> TextRange {
        let (before, after) = self.tree.items.split_at(at);
        let token_before = before.iter().rposition(|item| self.raw(item).is_some());
        let token_after = after.iter().position(|item| self.raw(item).is_some()).map(|after| at + after);
        let around = token_before.map_or(0, |token| token + 1).max(1)..at;
        let starts_here = token_after.filter(|&token| {
            before[around].iter().any(|item| matches!(item, Item::Node { end, .. } if *end as usize > token))
        });
        let raw_of = |item: usize| self.raw(&self.tree.items[item]).unwrap_or_default();
        let place = match (starts_here, token_before) {
            (Some(token), _) => self.lexed.range(raw_of(token)).start(),
            (None, Some(token)) => self.lexed.range(raw_of(token)).end(),
            (None, None) => 0.into(),
        };
        TextRange::empty(place)
    }
}

/// A share of a tree, from which the nodes of one thread take theirs: to count within a thread costs next to nothing.
struct Share(Arc<Whole>);

impl std::ops::Deref for Share {
    type Target = Whole;

    fn deref(&self) -> &Whole {
        &self.0
    }
}

/// A node of the tree. Cheap to clone; it keeps the tree alive.
#[derive(Clone)]
pub struct SyntaxNode {
    whole: Rc<Share>,
    at: u32,
}

/// A token of the tree.
#[derive(Clone)]
pub struct SyntaxToken {
    whole: Rc<Share>,
    /// Its number among all tokens.
    raw: u32,
    kind: SyntaxKind,
}

/// A direct part of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SyntaxElement {
    /// A node.
    Node(SyntaxNode),
    /// A token that is not trivia.
    Token(SyntaxToken),
}

impl SyntaxNode {
    pub(crate) fn root(whole: &Arc<Whole>) -> SyntaxNode {
        SyntaxNode { whole: Rc::new(Share(Arc::clone(whole))), at: 0 }
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> SyntaxKind {
        kind_of(&self.whole.tree.items[self.at as usize])
    }

    /// Where it is.
    #[must_use]
    pub fn text_range(&self) -> TextRange {
        self.whole.range(self.at)
    }

    /// All that is written there, trivia included.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.whole.lexed.text[self.text_range()]
    }

    /// Its nodes and tokens, in order.
    #[must_use]
    pub fn elements(&self) -> Elements {
        Elements { whole: Rc::clone(&self.whole), items: self.inside() }
    }

    /// Its nodes, in order.
    #[must_use]
    pub fn children(&self) -> Children {
        Children { whole: Rc::clone(&self.whole), items: self.inside() }
    }

    /// The first one of its nodes that is of certain kinds.
    #[inline]
    pub(crate) fn child_that(&self, wanted: impl Fn(SyntaxKind) -> bool) -> Option<SyntaxNode> {
        let at = next_child(&self.whole, &mut self.inside(), wanted)?;
        Some(SyntaxNode { whole: Rc::clone(&self.whole), at })
    }

    /// The first one of its own tokens, without those of its nodes, that is of a kind.
    pub(crate) fn token(&self, kind: SyntaxKind) -> Option<SyntaxToken> {
        let mut items = self.inside();
        while items.start < items.end {
            let item = &self.whole.tree.items[items.start as usize];
            if let (Some(raw), true) = (self.whole.raw(item), kind_of(item) == kind) {
                return Some(SyntaxToken { whole: Rc::clone(&self.whole), raw, kind });
            }
            items.start = self.whole.end(items.start);
        }
        None
    }

    /// It, and all nodes inside of it, in the order in which they start.
    pub fn descendants(&self) -> impl Iterator<Item = SyntaxNode> + use<> {
        let whole = Rc::clone(&self.whole);
        let nodes = (self.at..self.whole.end(self.at)).map(move |at| (Rc::clone(&whole), at));
        nodes.filter_map(|(whole, at)| {
            let is_node = matches!(whole.tree.items[at as usize], Item::Node { .. });
            is_node.then_some(SyntaxNode { whole, at })
        })
    }

    /// Its first token.
    #[must_use]
    pub fn first_token(&self) -> Option<SyntaxToken> {
        self.inside().find_map(|at| self.token_at(at))
    }

    /// Its last token.
    #[must_use]
    pub fn last_token(&self) -> Option<SyntaxToken> {
        self.inside().rev().find_map(|at| self.token_at(at))
    }

    /// All tokens from its start to its end, trivia included. Laid end to end they are its text.
    pub fn tokens(&self) -> impl Iterator<Item = SyntaxToken> + use<> {
        let raws = match self.at {
            0 => 0..self.whole.lexed.len(),
            at => self.whole.outermost(at).map_or(0..0, |(first, last)| first..last + 1),
        };
        let whole = Rc::clone(&self.whole);
        raws.map(move |raw| SyntaxToken { kind: whole.lexed.kind(raw), whole: Rc::clone(&whole), raw })
    }

    fn token_at(&self, at: u32) -> Option<SyntaxToken> {
        let item = &self.whole.tree.items[at as usize];
        let raw = self.whole.raw(item)?;
        Some(SyntaxToken { whole: Rc::clone(&self.whole), raw, kind: kind_of(item) })
    }

    fn inside(&self) -> Range<u32> {
        self.at + 1..self.whole.end(self.at)
    }
}

impl SyntaxToken {
    /// What it is in the grammar.
    #[must_use]
    pub fn kind(&self) -> SyntaxKind {
        self.kind
    }

    /// Where it is.
    #[must_use]
    pub fn text_range(&self) -> TextRange {
        self.whole.lexed.range(self.raw)
    }

    /// How it is written.
    #[must_use]
    pub fn text(&self) -> &str {
        self.whole.lexed.text_of(self.raw)
    }
}

impl SyntaxElement {
    /// What it is.
    #[must_use]
    pub fn kind(&self) -> SyntaxKind {
        match self {
            SyntaxElement::Node(node) => node.kind(),
            SyntaxElement::Token(token) => token.kind(),
        }
    }

    /// The node, if it is one.
    #[must_use]
    pub fn into_node(self) -> Option<SyntaxNode> {
        match self {
            SyntaxElement::Node(node) => Some(node),
            SyntaxElement::Token(_) => None,
        }
    }

    /// The token, if it is one.
    #[must_use]
    pub fn into_token(self) -> Option<SyntaxToken> {
        match self {
            SyntaxElement::Node(_) => None,
            SyntaxElement::Token(token) => Some(token),
        }
    }
}

/// The direct parts of a node.
#[derive(Clone)]
pub struct Elements {
    whole: Rc<Share>,
    items: Range<u32>,
}

impl Iterator for Elements {
    type Item = SyntaxElement;

    fn next(&mut self) -> Option<SyntaxElement> {
        let at = (!self.items.is_empty()).then_some(self.items.start)?;
        self.items.start = self.whole.end(at);
        let whole = Rc::clone(&self.whole);
        let item = &self.whole.tree.items[at as usize];
        Some(match self.whole.raw(item) {
            Some(raw) => SyntaxElement::Token(SyntaxToken { whole, raw, kind: kind_of(item) }),
            None => SyntaxElement::Node(SyntaxNode { whole, at }),
        })
    }
}

/// The nodes that are direct parts of a node.
#[derive(Clone)]
pub struct Children {
    whole: Rc<Share>,
    items: Range<u32>,
}

impl Children {
    /// The next one of certain kinds.
    #[inline]
    pub(crate) fn next_that(&mut self, wanted: impl Fn(SyntaxKind) -> bool) -> Option<SyntaxNode> {
        let at = next_child(&self.whole, &mut self.items, wanted)?;
        Some(SyntaxNode { whole: Rc::clone(&self.whole), at })
    }
}

impl Iterator for Children {
    type Item = SyntaxNode;

    fn next(&mut self) -> Option<SyntaxNode> {
        self.next_that(|_| true)
    }
}

/// The next one of some items that is a node of certain kinds. The items go on behind it.
#[inline]
fn next_child(whole: &Whole, items: &mut Range<u32>, wanted: impl Fn(SyntaxKind) -> bool) -> Option<u32> {
    while items.start < items.end {
        let at = items.start;
        match whole.tree.items[at as usize] {
            Item::Token { .. } => items.start += 1,
            Item::Node { kind, end } => {
                items.start = end;
                if wanted(kind) {
                    return Some(at);
                }
            }
        }
    }
    None
}

fn kind_of(item: &Item) -> SyntaxKind {
    match item {
        Item::Node { kind, .. } | Item::Token { kind, .. } => *kind,
    }
}

impl PartialEq for SyntaxNode {
    fn eq(&self, other: &SyntaxNode) -> bool {
        self.at == other.at && Arc::ptr_eq(&self.whole.0, &other.whole.0)
    }
}

impl Eq for SyntaxNode {}

impl hash::Hash for SyntaxNode {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        (self.at, Arc::as_ptr(&self.whole.0)).hash(state);
    }
}

impl PartialEq for SyntaxToken {
    fn eq(&self, other: &SyntaxToken) -> bool {
        self.raw == other.raw && Arc::ptr_eq(&self.whole.0, &other.whole.0)
    }
}

impl Eq for SyntaxToken {}

impl hash::Hash for SyntaxToken {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        (self.raw, Arc::as_ptr(&self.whole.0)).hash(state);
    }
}

impl fmt::Display for SyntaxNode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl fmt::Display for SyntaxToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl fmt::Debug for SyntaxNode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}@{:?}", self.kind(), self.text_range())
    }
}

impl fmt::Debug for SyntaxToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}@{:?} {:?}", self.kind, self.text_range(), self.text())
    }
}
