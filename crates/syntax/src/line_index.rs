//! Offsets to lines and columns, and back.

use text_size::{TextRange, TextSize};

/// Knows where the lines of a text start.
///
/// Lines and columns count from one; columns count characters. For editors there are positions that count from zero
/// in UTF-16 units as well. Any offset is answered: one beyond the end counts as the end, one inside a character
/// as the start of that character.
#[derive(Clone, Debug)]
pub struct LineIndex {
    text: Box<str>,
    /// Where each line starts. Never empty.
    starts: Vec<u32>,
}

/// A place in a text as people name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LineColumn {
    /// Counts from one.
    pub line: u32,
    /// In characters, counts from one.
    pub column: u32,
}

/// A place in a text as editors name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Utf16Position {
    /// Counts from zero.
    pub line: u32,
    /// In UTF-16 units, counts from zero.
    pub character: u32,
}

impl LineIndex {
    /// Reads the text once.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(newlines.map(|(at, _)| at as u32 + 1)).collect();
        LineIndex { text: text.into(), starts }
    }

    /// The place of an offset.
    #[must_use]
    pub fn line_column(&self, offset: TextSize) -> LineColumn {
        let (line, before) = self.split(offset);
        LineColumn { line: line + 1, column: before.chars().count() as u32 + 1 }
    }

    /// The first and the last place of a range; the last one is not part of it.
    #[must_use]
    pub fn line_columns(&self, range: TextRange) -> (LineColumn, LineColumn) {
        (self.line_column(range.start()), self.line_column(range.end()))
    }

    /// The place of an offset for an editor.
    #[must_use]
    pub fn utf16(&self, offset: TextSize) -> Utf16Position {
        let (line, before) = self.split(offset);
        Utf16Position { line, character: before.encode_utf16().count() as u32 }
    }

    /// The offset of a place. A column beyond the end of its line counts as that end.
    #[must_use]
    pub fn offset(&self, place: LineColumn) -> Option<TextSize> {
        let (start, line) = self.line(place.line.checked_sub(1)?)?;
        let columns = place.column.checked_sub(1)? as usize;
        let length: usize = line.chars().take(columns).map(char::len_utf8).sum();
        Some(start + TextSize::new(length as u32))
    }

    /// The offset of a place that an editor names.
    #[must_use]
    pub fn offset_utf16(&self, place: Utf16Position) -> Option<TextSize> {
        let (start, line) = self.line(place.line)?;
        let mut units = 0;
        let length: usize = line
            .chars()
            .take_while(|character| {
                units += character.len_utf16() as u32;
                units <= place.character
            })
            .map(char::len_utf8)
            .sum();
        Some(start + TextSize::new(length as u32))
    }

    /// How many lines there are. A text that ends with a newline has an empty last one.
    #[must_use]
    pub fn lines(&self) -> u32 {
        self.starts.len() as u32
    }

    /// A line by its number from zero: where it starts, and its text without the newline.
    #[must_use]
    pub fn line(&self, line: u32) -> Option<(TextSize, &str)> {
        let start = *self.starts.get(line as usize)? as usize;
        let end = self.starts.get(line as usize + 1).map_or(self.text.len(), |&next| next as usize);
        let text = self.text.get(start..end)?;
        Some((TextSize::new(start as u32), text.trim_end_matches('\n').trim_end_matches('\r')))
    }

    /// The number of the line, from zero, and its text before the offset.
    fn split(&self, offset: TextSize) -> (u32, &str) {
        let mut at = usize::from(offset).min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let line = self.starts.partition_point(|&start| start as usize <= at) - 1;
        (line as u32, &self.text[self.starts[line] as usize..at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, offset: u32, line: u32, column: u32, utf16: (u32, u32)) {
        let index = LineIndex::new(text);
        let offset = TextSize::new(offset);
        assert_eq!(index.line_column(offset), LineColumn { line, column });
        let position = Utf16Position { line: utf16.0, character: utf16.1 };
        assert_eq!(index.utf16(offset), position);
        assert_eq!(index.offset(LineColumn { line, column }), Some(offset));
        assert_eq!(index.offset_utf16(position), Some(offset));
    }

    #[test]
    fn offsets_and_places_go_both_ways() {
        check("", 0, 1, 1, (0, 0));
        check("a\nb", 0, 1, 1, (0, 0));
        check("a\nb", 1, 1, 2, (0, 1));
        check("a\nb", 2, 2, 1, (1, 0));
        check("a\nb\n", 4, 3, 1, (2, 0));
        check("é=1", 2, 1, 2, (0, 1));
        check("𝄞=1", 4, 1, 2, (0, 2));
        check("\n\t\"𝄞é\"", 9, 2, 5, (1, 5));
        check("a\r\nb", 3, 2, 1, (1, 0));
    }

    #[test]
    fn any_offset_has_a_place() {
        let index = LineIndex::new("é\n");
        assert_eq!(index.line_column(1.into()), LineColumn { line: 1, column: 1 });
        assert_eq!(index.line_column(1000.into()), LineColumn { line: 2, column: 1 });
        assert_eq!(index.offset(LineColumn { line: 1, column: 99 }), Some(2.into()));
        assert_eq!(index.offset(LineColumn { line: 9, column: 1 }), None);
        assert_eq!(index.offset(LineColumn { line: 0, column: 1 }), None);
        assert_eq!(index.lines(), 2);
    }
}
