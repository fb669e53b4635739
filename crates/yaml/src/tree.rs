//! The document as a tree: one flat array, in the order of the source.
//!
//! A node's children follow it directly; `after` is where the next node that is not below it stands. So a tree
//! costs 28 bytes a node and two allocations in all, is dropped at once, and needs no recursion to walk. Text is a
//! piece of the source wherever the source spells it literally.
//!
//! Invariants, which [`crate::events::read`] establishes
//! - An alias points backwards, at a node that is complete; no node contains itself.
//! - With aliases followed, the tree is at most as deep as the reader was told, and its size is bounded.
//! - Below a map, keys and values alternate.

use crate::codes;
use crate::diagnostic::Report;

/// A piece of the source, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    /// The empty piece at the start of another.
    pub(crate) fn before(self) -> Span {
        Span { start: self.start, end: self.start }
    }
}

/// A parsed document.
#[derive(Debug)]
pub(crate) struct Tree<'s> {
    pub(crate) source: &'s str,
    /// Text that the source spells with escapes, folds or indentation, one after the other.
    pub(crate) unfolded: String,
    pub(crate) nodes: Vec<Node>,
}

/// Names a node of its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(pub(crate) u32);

/// A node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    /// The index of the first node that is not below this one.
    pub(crate) after: u32,
    pub(crate) tag: Tag,
    pub(crate) content: Content,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Scalar(Style, Text),
    List,
    Map,
    Alias(NodeId),
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Without quotes: its type is for the reader to find.
    Plain,
    /// In quotes: text.
    Quoted,
    /// After `|` or `>`: text.
    Block,
}

/// Where the text of a scalar is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    Source(Span),
    Unfolded(Span),
}

/// What a tag says about the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// Nothing, or something that is ignored.
    None,
    Str,
    Int,
    Float,
    Bool,
    Null,
    Binary,
}

/// An entry of a map, after merging.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'t> {
    pub(crate) key: &'t str,
    pub(crate) key_span: Span,
    pub(crate) value: NodeId,
}

impl<'s> Tree<'s> {
    pub(crate) const ROOT: NodeId = NodeId(0);

    /// The node itself, which may be an alias.
    pub(crate) fn written(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The node that is meant, with aliases followed.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        self.written(self.target(id))
    }

    /// Where the node is written.
    pub(crate) fn span(&self, id: NodeId) -> Span {
        self.written(id).span
    }

    /// The text of a scalar, whatever its type.
    pub(crate) fn text(&self, text: Text) -> &str {
        let (from, span) = match text {
            Text::Source(span) => (self.source, span),
            Text::Unfolded(span) => (self.unfolded.as_str(), span),
        };
        from.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// The text of a node, if it is a scalar.
    pub(crate) fn scalar(&self, id: NodeId) -> Option<(Style, Tag, &str)> {
        let node = self.node(id);
        match node.content {
            Content::Scalar(style, text) => Some((style, node.tag, self.text(text))),
            _ => None,
        }
    }

    /// The items of a list, or nothing if it is none.
    pub(crate) fn items(&self, id: NodeId) -> Option<Children<'_, 's>> {
        let id = self.target(id);
        let node = self.written(id);
        (node.content == Content::List).then(|| Children { tree: self, next: id.0 + 1, end: node.after })
    }

    /// The entries of a map with merge keys resolved and the last of equal keys kept; nothing if it is no map.
    ///
    /// A key beside `<<` counts more than a merged one, and an earlier map of a merged list more than a later one.
    pub(crate) fn entries(&self, id: NodeId, report: &mut Report<'_>) -> Option<Vec<Entry<'_>>> {
        let id = self.target(id);
        let node = self.written(id);
        if node.content != Content::Map {
            return None;
        }
        let mut children = Children { tree: self, next: id.0 + 1, end: node.after };
        let mut entries = Entries::default();
        let mut merges = Vec::new();
        while let (Some(key), Some(value)) = (children.next(), children.next()) {
            let key_span = self.span(key);
            match self.scalar(key) {
                Some((Style::Plain, _, "<<")) => merges.push((key_span, value)),
                Some((_, _, text)) => entries.insert(Entry { key: text, key_span, value }, report),
                None => {
                    report
                        .error(
                            codes::BAD_KEY,
                            key_span,
                            format!("expected a key, found {}", self.describe(key)),
                        )
                        .hint("every key of a graph file is text; quote it if it starts with `[` or `{`");
                }
            }
        }
        for (key_span, value) in merges {
            self.merge(key_span, value, &mut entries, report);
        }
        Some(entries.list)
    }

    fn merge<'t>(&'t self, key: Span, value: NodeId, entries: &mut Entries<'t>, report: &mut Report<'_>) {
        let maps: Vec<NodeId> = match self.items(value) {
            Some(items) => items.collect(),
            None => vec![value],
        };
        for map in maps {
            // Recursion goes no deeper than the tree does.
            match self.entries(map, report) {
                Some(merged) => merged.into_iter().for_each(|entry| entries.insert_missing(entry)),
                None => {
                    let message =
                        format!("`<<` expects a map or a list of maps, found {}", self.describe(map));
                    report.error(codes::BAD_MERGE, self.span(map), message).also(key, "merged here");
                }
            }
        }
    }

    /// A few words on what a node is, for messages.
    pub(crate) fn describe(&self, id: NodeId) -> String {
        match self.node(id).content {
            Content::List => "a list".into(),
            Content::Map => "a map".into(),
            Content::Alias(_) => "an alias".into(),
            Content::Scalar(style, text) => {
                let text = self.text(text);
                match style {
                    Style::Plain if text.is_empty() => "nothing".into(),
                    Style::Plain => format!("`{}`", shorten(text)),
                    Style::Quoted => format!("the quoted text `{}`", shorten(text)),
                    Style::Block => "a block of text".into(),
                }
            }
        }
    }

    fn target(&self, id: NodeId) -> NodeId {
        match self.written(id).content {
            // An alias of an alias does not exist: YAML gives an alias no anchor.
            Content::Alias(target) => target,
            _ => id,
        }
    }
}

/// The beginning of a text on one line, without anything that could disturb a terminal.
pub(crate) fn shorten(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut short: String = text.chars().take(LONGEST).flat_map(printable).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

fn printable(character: char) -> impl Iterator<Item = char> {
    let plain = !character.is_control()
        && !matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let escaped = (!plain).then(|| character.escape_default());
    escaped.into_iter().flatten().chain(plain.then_some(character))
}

/// The nodes directly below a node.
pub(crate) struct Children<'t, 's> {
    tree: &'t Tree<'s>,
    next: u32,
    end: u32,
}

impl Iterator for Children<'_, '_> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        if self.next >= self.end {
            return None;
        }
        let id = NodeId(self.next);
        self.next = self.tree.written(id).after;
        Some(id)
    }
}

/// Entries with unique keys. Small maps are searched, larger ones have an index.
#[derive(Default)]
struct Entries<'t> {
    list: Vec<Entry<'t>>,
    index: std::collections::HashMap<&'t str, usize>,
}

impl<'t> Entries<'t> {
    const SMALL: usize = 16;

    fn insert(&mut self, entry: Entry<'t>, report: &mut Report<'_>) {
        match self.find(entry.key) {
            Some(at) => {
                let earlier = std::mem::replace(&mut self.list[at], entry);
                let message = format!("the key `{}` is given twice", shorten(entry.key));
                report
                    .warning(codes::DUPLICATE_KEY, entry.key_span, message)
                    .label("this one counts")
                    .also(earlier.key_span, "this one is ignored");
            }
            None => self.push(entry),
        }
    }

    fn insert_missing(&mut self, entry: Entry<'t>) {
        if self.find(entry.key).is_none() {
            self.push(entry);
        }
    }

    fn push(&mut self, entry: Entry<'t>) {
        if self.list.len() == Self::SMALL {
            self.index = self.list.iter().enumerate().map(|(at, entry)| (entry.key, at)).collect();
        }
        if self.list.len() >= Self::SMALL {
            self.index.insert(entry.key, self.list.len());
        }
        self.list.push(entry);
    }

    fn find(&self, key: &str) -> Option<usize> {
        match self.list.len() > Self::SMALL {
            true => self.index.get(key).copied(),
            false => self.list.iter().position(|entry| entry.key == key),
        }
    }
}
