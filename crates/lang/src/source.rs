//! The texts of a program and places in them.

use std::ops::Range;
use std::sync::Arc;

use mgmt_syntax::{LineIndex, TextRange};

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
        self.files.push(Source { name: name.into(), text: text.into() });
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

    /// The line, from one, at which a place starts.
    pub fn line(&self, span: Span) -> u32 {
        self.get(span.file).map_or(1, |source| {
            let index = LineIndex::new(&source.text);
            index.line_column(span.start.into()).line
        })
    }
}
