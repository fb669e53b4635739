//! The source map: texts, spans in them, line starts.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The number of a text in a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

/// A byte range in one of the texts of a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The text.
    pub file: FileId,
    /// Its first byte.
    pub start: u32,
    /// The byte behind its last.
    pub end: u32,
}

/// The texts that diagnostics are about.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<Source>,
}

/// A text with its name.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name in messages: the path as the user would write it.
    pub name: Arc<str>,
    /// The text. Bytes that are not UTF-8 have been replaced by question marks, each byte by one.
    pub text: Arc<str>,
    /// Where its lines start; never empty.
    line_starts: OnceLock<Vec<u32>>,
}

impl Span {
    /// The byte range.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// From the start of this span to the end of another.
    pub fn to(self, end: Span) -> Span {
        Span { end: end.end.max(self.start), ..self }
    }

    /// The empty span before it.
    pub fn before(self) -> Span {
        Span { end: self.start, ..self }
    }

    /// Whether it means a text as a whole ([`FileId::whole`]).
    pub fn is_whole(self) -> bool {
        self.start == u32::MAX
    }
}

impl FileId {
    /// The first text of a map, such as the only one.
    pub const FIRST: FileId = FileId(0);

    /// The text as a whole: a label on it names the file, and shows and underlines nothing.
    pub fn whole(self) -> Span {
        Span { file: self, start: u32::MAX, end: u32::MAX }
    }

    /// A span in this text.
    pub fn span(self, range: impl Into<Range<u32>>) -> Span {
        let Range { start, end } = range.into();
        Span { file: self, start, end }
    }

    /// A span in this text. Offsets beyond 4 GiB are moved to there.
    pub fn span_of(self, range: Range<usize>) -> Span {
        let offset = |at| u32::try_from(at).unwrap_or(u32::MAX);
        self.span(offset(range.start)..offset(range.end))
    }
}

impl SourceMap {
    /// A map of one text, which is [`FileId::FIRST`].
    pub fn of(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> SourceMap {
        SourceMap { files: vec![Source::new(name.into(), text.into())] }
    }

    /// Adds a text.
    pub fn add(&mut self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> FileId {
        // Four thousand million texts do not fit in memory.
        let id = FileId(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        self.files.push(Source::new(name.into(), text.into()));
        id
    }

    /// A text.
    pub fn get(&self, file: FileId) -> Option<&Source> {
        self.files.get(file.0 as usize)
    }

    /// All texts, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &Source)> {
        (0..).map(FileId).zip(&self.files)
    }

    /// The text at a span.
    pub fn text(&self, span: Span) -> &str {
        self.get(span.file).and_then(|source| source.text.get(span.range())).unwrap_or_default()
    }

    /// The name, line and column, both from 1, at which a span starts.
    pub fn position(&self, span: Span) -> (Arc<str>, u32, u32) {
        let Some(source) = self.get(span.file) else { return ("".into(), 1, 1) };
        let (line, column) = source.position(span.start as usize);
        let number = |at| u32::try_from(at).unwrap_or(u32::MAX);
        (Arc::clone(&source.name), number(line), number(column))
    }

    /// The line, from 1, at which a span starts.
    pub fn line(&self, span: Span) -> u32 {
        self.position(span).1
    }
}

impl Source {
    fn new(name: Arc<str>, text: Arc<str>) -> Source {
        Source { name, text, line_starts: OnceLock::new() }
    }

    /// Bytes as a text in which every byte keeps its offset: what is not UTF-8 becomes question marks.
    pub fn lossy_text(bytes: &[u8]) -> Cow<'_, str> {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return text.into();
        }
        let mut text = String::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| '?'));
        }
        text.into()
    }

    fn line_starts(&self) -> &[u32] {
        self.line_starts.get_or_init(|| {
            let breaks = self.text.match_indices('\n');
            std::iter::once(0)
                .chain(breaks.map(|(at, _)| u32::try_from(at + 1).unwrap_or(u32::MAX)))
                .collect()
        })
    }

    /// The line of an offset, from 0.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.line_starts().partition_point(|&start| start as usize <= at).saturating_sub(1)
    }

    /// The offset at which a line starts. What is behind the last line is the end.
    pub(crate) fn line_start(&self, line: usize) -> usize {
        self.line_starts().get(line).map_or(self.text.len(), |&start| start as usize)
    }

    /// Line and column of an offset, both from 1, the column in characters.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let line = self.line(at);
        let before = self.text.get(self.line_start(line)..at).unwrap_or_default();
        (line + 1, before.chars().count() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_have_lines_and_columns() {
        let text = "ä\nbc\n\nd\n";
        let source = Source::new("x".into(), text.into());
        let places: Vec<_> = text.char_indices().map(|(at, _)| source.position(at)).collect();
        assert_eq!(places, [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (4, 1), (4, 2)]);
        assert_eq!(source.position(text.len()), (5, 1));
        assert_eq!((source.line_start(1), source.line_start(4), source.line_start(10)), (3, 9, 9));
        assert_eq!(Source::new("x".into(), "".into()).position(0), (1, 1));
    }

    #[test]
    fn a_map_knows_its_texts_and_the_positions_of_spans() {
        let mut map = SourceMap::of("a.mcl", "one\ntwo\n");
        let second = map.add("b.mcl", "ö $x");
        assert_eq!(map.position(second.span(3..5)), ("b.mcl".into(), 1, 3));
        assert_eq!(map.text(second.span(3..5)), "$x");
        assert_eq!(map.line(FileId::FIRST.span_of(4..5)), 2);
        assert_eq!(map.text(FileId(7).span(0..1)), "");
        assert_eq!(map.position(FileId(7).span(0..1)), ("".into(), 1, 1));
        assert_eq!(FileId::FIRST.span_of(1..usize::MAX).end, u32::MAX);
    }

    #[test]
    fn invalid_bytes_keep_their_offsets() {
        assert_eq!(Source::lossy_text(b"a\xff\xe2\x82b"), "a???b");
        assert_eq!(Source::lossy_text("ä".as_bytes()), "ä");
    }
}
