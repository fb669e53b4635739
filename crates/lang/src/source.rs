//! The texts of a program and places in them.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use mgmt_syntax::TextRange;

/// One of the texts of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

/// A place in one of the texts of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Which text.
    pub file: FileId,
    /// Its first byte.
    pub start: u32,
    /// The byte behind its last.
    pub end: u32,
}

/// All texts of a program.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<Source>,
}

/// A text and what it is called.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name in messages: the path as the user would write it.
    pub name: Arc<str>,
    /// What is in it. Bytes that are not UTF-8 have been replaced by question marks, each byte by one.
    pub text: Arc<str>,
    line_starts: OnceLock<Vec<u32>>,
}

impl Source {
    /// Where its lines start.
    fn line_starts(&self) -> &[u32] {
        self.line_starts.get_or_init(|| {
            let after = self.text.match_indices('\n').map(|(at, _)| at as u32 + 1);
            std::iter::once(0).chain(after).collect()
        })
    }
}

impl Span {
    /// The bytes of the text.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// From the start of this one to the end of the other.
    pub fn to(self, end: Span) -> Span {
        Span { end: end.end.max(self.start), ..self }
    }

    /// The empty place before it.
    pub fn before(self) -> Span {
        Span { end: self.start, ..self }
    }
}

impl FileId {
    /// A place in this text.
    pub fn span(self, range: TextRange) -> Span {
        Span { file: self, start: range.start().into(), end: range.end().into() }
    }
}

impl Sources {
    /// Adds a text.
    pub fn add(&mut self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> FileId {
        // A program of four thousand million files does not fit in memory.
        let id = FileId(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        self.files.push(Source { name: name.into(), text: text.into(), line_starts: OnceLock::new() });
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

    /// What stands at a place.
    pub fn text(&self, span: Span) -> &str {
        self.get(span.file).and_then(|source| source.text.get(span.range())).unwrap_or_default()
    }

    /// The file, line and column at which a place starts.
    pub fn position(&self, span: Span) -> (Arc<str>, u32, u32) {
        let Some(source) = self.get(span.file) else { return ("".into(), 1, 1) };
        let starts = source.line_starts();
        let line = starts.partition_point(|&start| start <= span.start);
        let line_start = line.checked_sub(1).map_or(0, |line| starts[line]);
        let before = source.text.get(line_start as usize..span.start as usize);
        let column = before.unwrap_or_default().chars().count() + 1;
        (
            source.name.clone(),
            u32::try_from(line).unwrap_or(u32::MAX),
            u32::try_from(column).unwrap_or(u32::MAX),
        )
    }

    /// The line, from one, at which a place starts.
    pub fn line(&self, span: Span) -> u32 {
        self.position(span).1
    }
}
