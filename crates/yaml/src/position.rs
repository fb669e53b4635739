//! From bytes to lines and columns, and from the parser's characters to bytes.

/// A place in a file, as a person counts: both from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// Finds the line and column of any byte of a file.
///
/// Made in one pass; a lookup takes logarithmic time whatever the length of the lines. Any bytes will do: what is
/// not UTF-8 counts as one character per byte that does not continue another. A byte order mark has no column.
#[derive(Clone, Debug)]
pub struct Positions<'s> {
    source: &'s [u8],
    line_starts: Vec<u32>,
    /// How many characters start before each block of [`BLOCK`] bytes. Empty when every byte is a character.
    characters: Vec<u32>,
}

/// A character that was found, to find its neighbours from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    character: usize,
    byte: usize,
}

/// Bytes between two remembered counts.
const BLOCK: usize = 256;

/// The byte order mark in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl<'s> Positions<'s> {
    /// Reads through the source once.
    pub fn new(source: &'s [u8]) -> Positions<'s> {
        let first = if source.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let mut line_starts = vec![narrow(first)];
        // Most blocks have no line break, and are passed over in a few instructions.
        for (block, bytes) in source.chunks(16).enumerate() {
            if bytes.contains(&b'\n') {
                let breaks = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
                line_starts.extend(breaks.map(|(at, _)| narrow(block * 16 + at + 1)));
            }
        }
        let mut characters = Vec::new();
        if !source.is_ascii() {
            let mut count = 0;
            for block in source.chunks(BLOCK) {
                characters.push(narrow(count));
                count += count_characters(block);
            }
        }
        Positions { source, line_starts, characters }
    }

    /// The line and column of a byte. Beyond the end it is the end.
    pub fn locate(&self, offset: usize) -> Position {
        let offset = offset.min(self.source.len());
        let line = self.line_starts.partition_point(|start| *start as usize <= offset).max(1);
        let start = self.line_starts.get(line - 1).map_or(0, |start| *start as usize);
        let column = self.characters_before(offset).saturating_sub(self.characters_before(start));
        Position { line: narrow(line), column: narrow(column + 1) }
    }

    /// The byte at which a character starts. Beyond the end it is the end.
    pub(crate) fn byte_of(&self, character: usize) -> usize {
        if self.characters.is_empty() {
            return character.min(self.source.len());
        }
        let block = self.characters.partition_point(|count| *count as usize <= character).saturating_sub(1);
        let start = block * BLOCK;
        let mut left = character - self.characters.get(block).map_or(0, |count| *count as usize);
        for (at, byte) in self.source.iter().enumerate().skip(start) {
            if is_start(*byte) {
                if left == 0 {
                    return at;
                }
                left -= 1;
            }
        }
        self.source.len()
    }

    /// The same for characters that are asked for more or less in their order.
    pub(crate) fn follow(&self, cursor: &mut Cursor, character: usize) -> usize {
        /// A search costs about as much as so many steps.
        const NEAR: usize = 64;
        if self.characters.is_empty() {
            return character.min(self.source.len());
        }
        let ahead = character.checked_sub(cursor.character).filter(|ahead| *ahead <= NEAR);
        let byte = match ahead {
            Some(ahead) => {
                let rest =
                    self.source.iter().enumerate().skip(cursor.byte).filter(|(_, byte)| is_start(**byte));
                rest.map(|(at, _)| at).nth(ahead).unwrap_or(self.source.len())
            }
            None => self.byte_of(character),
        };
        *cursor = Cursor { character, byte };
        byte
    }

    fn characters_before(&self, offset: usize) -> usize {
        match self.characters.get(offset / BLOCK) {
            Some(count) => {
                let block = self.source.get(offset / BLOCK * BLOCK..offset).unwrap_or_default();
                *count as usize + count_characters(block)
            }
            None if self.characters.is_empty() => offset,
            // The end of a file that is a whole number of blocks long.
            None => {
                let last = (self.characters.len() - 1) * BLOCK;
                let count = self.characters.last().map_or(0, |count| *count as usize);
                count + count_characters(self.source.get(last..offset).unwrap_or_default())
            }
        }
    }
}

fn count_characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| is_start(**byte)).count()
}

/// Whether a byte starts a character and does not continue one.
fn is_start(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}

/// Sources are bounded far below 4 GiB before anything is counted; the end of the range stands for all beyond.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(source: &str, offset: usize) -> (u32, u32) {
        let before = &source[..offset];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
        (u32::try_from(line).unwrap(), u32::try_from(column).unwrap())
    }

    #[test]
    fn every_character_is_found_where_counting_finds_it() {
        let long = "äöü€𝄞x".repeat(200);
        for source in ["", "a", "a\nb\n", "\n\n", "ä: ö\r\n€: 𝄞\n", &long, &format!("a\n{long}\nb{long}")]
        {
            let positions = Positions::new(source.as_bytes());
            let mut cursor = Cursor::default();
            for (index, (offset, _)) in source.char_indices().chain([(source.len(), ' ')]).enumerate() {
                let found = positions.locate(offset);
                assert_eq!((found.line, found.column), naive(source, offset), "{offset} in {source:?}");
                assert_eq!(positions.byte_of(index), offset, "{index} in {source:?}");
                assert_eq!(positions.follow(&mut cursor, index), offset, "{index} in {source:?}");
                let back = positions.byte_of(index / 2);
                assert_eq!(positions.follow(&mut cursor, index / 2), back, "{index} in {source:?}");
            }
        }
    }

    #[test]
    fn a_byte_order_mark_has_no_column() {
        let positions = Positions::new("\u{feff}graph: x\n".as_bytes());
        assert_eq!(positions.locate(3), Position { line: 1, column: 1 });
        assert_eq!(positions.locate(0), Position { line: 1, column: 1 });
        assert_eq!(positions.byte_of(1), 3);
    }

    #[test]
    fn what_lies_beyond_the_end_is_the_end() {
        let source = vec![b'\xff'; 3 * BLOCK];
        let positions = Positions::new(&source);
        assert_eq!(positions.byte_of(usize::MAX), source.len());
        assert_eq!(positions.locate(usize::MAX).line, 1);
        assert_eq!(positions.locate(source.len()).column, 3 * 256 + 1);
    }
}
