//! Reads YAML events into a [`Tree`], within bounds.

use std::borrow::Cow;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use crate::codes;
use crate::diagnostic::Report;
use crate::input::Ascii;
use crate::position::{BYTE_ORDER_MARK, Cursor, Positions};
use crate::tree::{Content, Node, NodeId, Span, Style, Tag, Text, Tree};

/// What the expansion of all aliases together may weigh: 16 for each node, and the length of its text.
pub(crate) const HEAVIEST_EXPANSION: u64 = 32 << 20;

const NODE_WEIGHT: u64 = 16;

/// Reads the first document of a source. Nothing if there is none to speak of; then the report says why.
pub(crate) fn read<'s>(
    source: &'s str,
    positions: &Positions<'s>,
    depth: usize,
    report: &mut Report<'_>,
) -> Option<Tree<'s>> {
    let marked = source.as_bytes().starts_with(BYTE_ORDER_MARK);
    let text = if marked { &source[BYTE_ORDER_MARK.len()..] } else { source };
    let mut reader = Reader {
        positions,
        cursor: Cursor::default(),
        characters_skipped: usize::from(marked),
        depth,
        tree: Tree { source, unfolded: String::new(), nodes: Vec::new() },
        open: Vec::new(),
        anchors: Vec::new(),
        expansion: 0,
        documents: 0,
    };
    let end = match Ascii::new(text) {
        Some(input) => reader.run(Parser::new(input), report),
        None => reader.run(Parser::new_from_str(text), report),
    };
    match end {
        Ok(()) => (!reader.tree.nodes.is_empty()).then_some(reader.tree),
        Err(Stopped) => None,
    }
}

/// The document cannot be used, and the report says why.
struct Stopped;

struct Reader<'p, 's> {
    positions: &'p Positions<'s>,
    cursor: Cursor,
    /// The parser does not see the byte order mark.
    characters_skipped: usize,
    depth: usize,
    tree: Tree<'s>,
    /// The lists and maps that are not complete, outermost first.
    open: Vec<Open>,
    /// By the parser's number, which starts at 1.
    anchors: Vec<Option<Anchor>>,
    /// The weight that aliases add to the tree.
    expansion: u64,
    documents: usize,
}

/// A list or map that is being read, with all aliases below it counted in full.
struct Open {
    node: NodeId,
    anchor: usize,
    weight: u64,
    height: usize,
}

#[derive(Clone, Copy)]
struct Anchor {
    node: NodeId,
    weight: u64,
    height: usize,
    complete: bool,
}

impl<'s> Reader<'_, 's> {
    fn run<'e, I>(&mut self, events: I, report: &mut Report<'_>) -> Result<(), Stopped>
    where
        I: Iterator<Item = Result<(Event<'e>, saphyr_parser::Span), ScanError>>,
    {
        for event in events {
            let (event, span) = match event {
                Ok((event, span)) => (event, self.span(span)),
                Err(error) => return Err(self.syntax_error(&error, report)),
            };
            match event {
                Event::Nothing | Event::StreamStart | Event::DocumentEnd => {}
                Event::StreamEnd => return Ok(()),
                Event::DocumentStart(_) => {
                    self.documents += 1;
                    if self.documents > 1 {
                        report
                            .error(codes::DOCUMENTS, span, "a second document starts here")
                            .hint("a graph file holds one document; move this one into a file of its own");
                        return Ok(());
                    }
                }
                Event::Scalar(text, style, anchor, tag) => {
                    let tag = read_tag(tag.as_deref(), span, report);
                    self.scalar(text, style, anchor, tag, span);
                }
                Event::Alias(anchor) => self.alias(anchor, span, report)?,
                Event::SequenceStart(anchor, tag) => {
                    read_tag(tag.as_deref(), span, report);
                    self.start(Content::List, anchor, span, report)?;
                }
                Event::MappingStart(anchor, tag) => {
                    read_tag(tag.as_deref(), span, report);
                    self.start(Content::Map, anchor, span, report)?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.end(span),
            }
        }
        Ok(())
    }

    fn scalar(&mut self, text: Cow<'_, str>, style: ScalarStyle, anchor: usize, tag: Tag, span: Span) {
        let (style, span, literal) = match style {
            ScalarStyle::Plain => (Style::Plain, span, self.literal(span.end, &text)),
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                let span = self.quoted(span);
                (Style::Quoted, span, self.literal(span.end.saturating_sub(1), &text))
            }
            ScalarStyle::Literal | ScalarStyle::Folded => (Style::Block, span, None),
        };
        let weight = NODE_WEIGHT + text.len() as u64;
        let text = match literal {
            Some(span) => Text::Source(span),
            None => {
                let start = self.tree.unfolded.len();
                self.tree.unfolded.push_str(&text);
                Text::Unfolded(Span { start: narrow(start), end: narrow(start + text.len()) })
            }
        };
        let node = self.push(span, tag, Content::Scalar(style, text));
        self.anchor(anchor, Anchor { node, weight, height: 0, complete: true });
        self.add(weight, 0);
    }

    fn alias(&mut self, anchor: usize, span: Span, report: &mut Report<'_>) -> Result<(), Stopped> {
        let Some(target) = self.anchors.get(anchor).copied().flatten() else {
            report.error(codes::SYNTAX, span, "the alias has no anchor");
            return Err(Stopped);
        };
        if !target.complete {
            report
                .error(codes::TOO_MANY_ALIASES, span, "the alias stands inside its own anchor")
                .also(self.tree.span(target.node), "the anchor");
            return Err(Stopped);
        }
        if self.open.len() + target.height > self.depth {
            return Err(self.too_deep(span, report));
        }
        self.expansion = self.expansion.saturating_add(target.weight);
        if self.expansion > HEAVIEST_EXPANSION {
            report
                .error(codes::TOO_MANY_ALIASES, span, "the aliases of this file expand to too much")
                .also(self.tree.span(target.node), "this is repeated");
            return Err(Stopped);
        }
        self.push(span, Tag::None, Content::Alias(target.node));
        self.add(target.weight, target.height);
        Ok(())
    }

    fn start(
        &mut self,
        content: Content,
        anchor: usize,
        span: Span,
        report: &mut Report<'_>,
    ) -> Result<(), Stopped> {
        if self.open.len() >= self.depth {
            return Err(self.too_deep(span, report));
        }
        let node = self.push(span, Tag::None, content);
        self.anchor(anchor, Anchor { node, weight: 0, height: 0, complete: false });
        self.open.push(Open { node, anchor, weight: NODE_WEIGHT, height: 0 });
        Ok(())
    }

    fn end(&mut self, span: Span) {
        let Some(Open { node, anchor, weight, height }) = self.open.pop() else { return };
        let after = narrow(self.tree.nodes.len());
        // The end of a block is only noticed at what follows it; it really ends with its last child.
        let closed = matches!(self.tree.source.as_bytes().get(span.start as usize), Some(b']' | b'}'))
            && span.end == span.start + 1;
        let last = self.tree.nodes.last().map_or(span.start, |last| last.span.end);
        if let Some(collection) = self.tree.nodes.get_mut(node.0 as usize) {
            collection.after = after;
            collection.span.end = if closed { span.end } else { last.max(collection.span.start) };
        }
        let height = height + 1;
        self.anchor(anchor, Anchor { node, weight, height, complete: true });
        self.add(weight, height);
    }

    /// Counts a complete node to the collection it stands in.
    fn add(&mut self, weight: u64, height: usize) {
        if let Some(parent) = self.open.last_mut() {
            parent.weight = parent.weight.saturating_add(weight);
            parent.height = parent.height.max(height);
        }
    }

    fn push(&mut self, span: Span, tag: Tag, content: Content) -> NodeId {
        let id = narrow(self.tree.nodes.len());
        self.tree.nodes.push(Node { span, after: id + 1, tag, content });
        NodeId(id)
    }

    fn anchor(&mut self, number: usize, anchor: Anchor) {
        if number == 0 {
            return;
        }
        if self.anchors.len() <= number {
            self.anchors.resize(number + 1, None);
        }
        self.anchors[number] = Some(anchor);
    }

    /// The text as a piece of the source, if it stands there literally right before `end`.
    fn literal(&self, end: u32, text: &str) -> Option<Span> {
        let start = end.checked_sub(narrow(text.len()))?;
        let written = self.tree.source.as_bytes().get(start as usize..end as usize)?;
        (written == text.as_bytes()).then_some(Span { start, end })
    }

    /// A quoted scalar without the blanks and the comment that the parser counts to it.
    fn quoted(&self, span: Span) -> Span {
        let bytes =
            self.tree.source.as_bytes().get(span.start as usize..span.end as usize).unwrap_or_default();
        let Some(&quote) = bytes.first().filter(|byte| matches!(byte, b'"' | b'\'')) else { return span };
        let mut at = 1;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'\\' if quote == b'"' => at += 2,
                b'\'' if quote == b'\'' && bytes.get(at + 1) == Some(&b'\'') => at += 2,
                _ if byte == quote => return Span { end: span.start + narrow(at + 1), ..span },
                _ => at += 1,
            }
        }
        span
    }

    fn span(&mut self, span: saphyr_parser::Span) -> Span {
        let start = self.byte(&span.start);
        Span { start, end: self.byte(&span.end).max(start) }
    }

    fn byte(&mut self, marker: &Marker) -> u32 {
        narrow(self.positions.follow(&mut self.cursor, marker.index() + self.characters_skipped))
    }

    fn too_deep(&self, span: Span, report: &mut Report<'_>) -> Stopped {
        let message = format!("lists and maps are nested more than {} deep", self.depth);
        report.error(codes::TOO_DEEP, span, message).label("this one is too deep");
        Stopped
    }

    fn syntax_error(&mut self, error: &ScanError, report: &mut Report<'_>) -> Stopped {
        let start = self.byte(error.marker());
        let source = self.tree.source;
        let rest = source.get(start as usize..).unwrap_or_default();
        let next = rest.chars().next();
        let span = Span { start, end: start + next.map_or(0, |next| narrow(next.len_utf8())) };
        let info = error.info();
        if info.contains("recursion limit") {
            return self.too_deep(span, report);
        }
        let before = source.get(..start as usize).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        let whole_line = line.chars().chain(rest.chars().take_while(|c| *c != '\n'));
        let indentation_has_tab = whole_line.take_while(|c| c.is_whitespace()).any(|c| c == '\t');
        let hint = match next {
            _ if info.contains("tab") || indentation_has_tab => {
                Some("indent with spaces; YAML does not take tabs there")
            }
            Some('@' | '`') => Some("put text that starts with this character in quotes"),
            Some('%') => Some("put text that starts with `%` in quotes"),
            _ if info.contains("mapping values are not allowed") => {
                Some("put text that contains `: ` in quotes, or look at the indentation of this line")
            }
            _ if info.contains("unknown anchor") => {
                Some("an alias `*name` needs an anchor `&name` before it")
            }
            _ if info.contains("end of stream") => Some("a quote is opened and never closed"),
            _ if info.contains("did not find expected key") || info.contains("simple key expect") => {
                Some("look at the indentation: keys of one map start in one column, and end in `:`")
            }
            _ => None,
        };
        report.error(codes::SYNTAX, span, format!("this is not YAML: {info}")).maybe_hint(hint);
        Stopped
    }
}

/// Stands where a secret was when a graph was written.
pub(crate) const SECRET_TAG: &str = "!secret";

fn read_tag(tag: Option<&saphyr_parser::Tag>, span: Span, report: &mut Report<'_>) -> Tag {
    let Some(tag) = tag else { return Tag::None };
    // `!` alone says that the text is meant as it is.
    if tag.handle.is_empty() && tag.suffix == "!" {
        return Tag::Str;
    }
    let full = format!("{}{}", tag.handle, tag.suffix);
    match full.strip_prefix("tag:yaml.org,2002:") {
        Some("str") => Tag::Str,
        Some("int") => Tag::Int,
        Some("float") => Tag::Float,
        Some("bool") => Tag::Bool,
        Some("null") => Tag::Null,
        Some("binary") => Tag::Binary,
        Some("map" | "seq" | "merge") => Tag::None,
        // As Ruby writes it, and with it Puppet.
        _ if full == "!binary" => Tag::Binary,
        _ if full == SECRET_TAG => {
            let message = "a secret was left out here, so this cannot be run".to_owned();
            report
                .error(codes::SECRET, span, message)
                .hint("write the value in its place, or run what the graph was made from");
            Tag::None
        }
        _ => {
            let message = format!("the tag `{}` is not known and is ignored", crate::tree::shorten(&full));
            report.warning(codes::UNKNOWN_TAG, span, message);
            Tag::None
        }
    }
}

/// The source is far shorter than 4 GiB, and so is everything that is made of it.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
