//! Where the lines of texts start.

use std::collections::HashMap;

use crate::diagnostic::Source;

/// Knows where the lines of texts start. Each text is read once, however many diagnostics are about it.
#[derive(Debug, Default)]
pub struct Lines<'a> {
    /// By the place of the text in memory, which stays its own for as long as the text is borrowed.
    texts: HashMap<(usize, usize), Indexed<'a>>,
}

/// A text with the places where its lines start.
#[derive(Debug)]
pub(crate) struct Indexed<'a> {
    pub(crate) text: &'a str,
    /// Never empty.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(&mut self, source: &Source<'a>) -> &Indexed<'a> {
        let text = source.text;
        self.texts.entry((text.as_ptr().addr(), text.len())).or_insert_with(|| Indexed::new(text))
    }
}

impl<'a> Indexed<'a> {
    pub(crate) fn new(text: &'a str) -> Indexed<'a> {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Indexed { text, starts: std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect() }
    }

    /// The line of a place, from 0.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// Where a line starts. What is behind the last one is the end.
    pub(crate) fn start(&self, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(self.text.len())
    }

    /// Line and column of a place, both from 1, the column in characters.
    pub(crate) fn position(&self, at: usize) -> (usize, usize) {
        let line = self.line(at);
        (line + 1, self.text[self.start(line)..at].chars().count() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_lines_and_columns() {
        let text = "ä\nbc\n\nd\n";
        let index = Indexed::new(text);
        let places: Vec<_> = text.char_indices().map(|(at, _)| index.position(at)).collect();
        assert_eq!(places, [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (4, 1), (4, 2)]);
        assert_eq!(index.position(text.len()), (5, 1));
        assert_eq!((index.start(1), index.start(4), index.start(10)), (3, 9, 9));
        assert_eq!(Indexed::new("").position(0), (1, 1));
    }

    #[test]
    fn a_text_is_known_by_its_place_and_not_by_its_content() {
        let both = "same\nsame\n";
        let mut lines = Lines::default();
        for text in [&both[..5], &both[5..], both, &both[..0]] {
            let found = lines.of(&Source { name: "x", text });
            assert!(std::ptr::eq(found.text, text));
        }
        assert_eq!(lines.texts.len(), 4);
    }
}
