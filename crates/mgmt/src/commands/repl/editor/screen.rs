//! How a text looks while it is being edited.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// What is on the terminal: a prompt, a text of one or several lines, and the cursor in it.
pub(super) struct Screen {
    prompt: String,
    /// How far the cursor is below the first row of the last picture.
    row: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    row: usize,
    column: usize,
}

impl Screen {
    pub(super) fn new(prompt: &str) -> Screen {
        Screen { prompt: prompt.to_owned(), row: 0 }
    }

    /// What to send so that the terminal shows the text.
    pub(super) fn draw(&mut self, text: &str, cursor: usize, columns: usize) -> String {
        let prompt = self.prompt.clone();
        self.draw_with(&prompt, text, cursor, columns)
    }

    /// The same with another prompt.
    pub(super) fn draw_with(&mut self, prompt: &str, text: &str, cursor: usize, columns: usize) -> String {
        let mut picture = String::new();
        if self.row > 0 {
            picture.push_str(&format!("\x1b[{}A", self.row));
        }
        picture.push_str("\r\x1b[J");
        let mut at = Cell::default();
        put(&mut picture, &mut at, prompt, columns);
        // Further lines stand below the first.
        let indent = format!("{:>width$}", "... ", width = prompt.width().min(columns / 2));
        let mut wanted = at;
        for (offset, character) in text.char_indices() {
            if offset == cursor {
                wanted = at;
            }
            match character {
                '\n' => {
                    picture.push('\n');
                    at = Cell { row: at.row + 1, column: 0 };
                    put(&mut picture, &mut at, &indent, columns);
                }
                _ => put(&mut picture, &mut at, character.encode_utf8(&mut [0; 4]), columns),
            }
        }
        if cursor >= text.len() {
            wanted = at;
        }
        if at.row > wanted.row {
            picture.push_str(&format!("\x1b[{}A", at.row - wanted.row));
        }
        picture.push('\r');
        if wanted.column > 0 {
            picture.push_str(&format!("\x1b[{}C", wanted.column));
        }
        self.row = wanted.row;
        picture
    }

    /// The terminal is emptied, and the next picture is its first.
    pub(super) fn clear(&mut self) -> &'static str {
        self.row = 0;
        "\x1b[H\x1b[2J"
    }

    /// The next picture starts where the cursor is.
    pub(super) fn forget(&mut self) {
        self.row = 0;
    }
}

/// Writes a text, and follows where that leaves the cursor. Rows are broken here and not by the terminal, which would do
/// it only with the character after.
fn put(picture: &mut String, at: &mut Cell, text: &str, columns: usize) {
    for character in text.chars() {
        let width = character.width().unwrap_or(0);
        if at.column + width > columns && at.column > 0 {
            picture.push('\n');
            *at = Cell { row: at.row + 1, column: 0 };
        }
        picture.push(character);
        at.column += width;
        if at.column >= columns {
            // Now the terminal waits in the last column; this makes it go on.
            picture.push_str("\r\n");
            *at = Cell { row: at.row + 1, column: 0 };
        }
    }
}

/// Words in columns, row by row from top to bottom.
pub(super) fn table(words: &[String], columns: usize) -> String {
    let width = words.iter().map(|word| word.width()).max().unwrap_or_default() + 2;
    let across = (columns / width).max(1);
    let rows = words.len().div_ceil(across);
    let mut table = String::new();
    for row in 0..rows {
        let mut line = String::new();
        for word in words.iter().skip(row).step_by(rows) {
            line.push_str(word);
            line.extend(std::iter::repeat_n(' ', width - word.width()));
        }
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal that knows just enough, and where its cursor is.
    fn shown(pictures: &[String], columns: usize) -> (Vec<String>, Cell) {
        let mut rows: Vec<Vec<char>> = vec![Vec::new()];
        let mut at = Cell::default();
        for picture in pictures {
            let mut characters = picture.chars();
            while let Some(character) = characters.next() {
                match character {
                    '\r' => at.column = 0,
                    // As with the usual settings of a terminal, a line feed goes to the start of the next row.
                    '\n' => at = Cell { row: at.row + 1, column: 0 },
                    '\u{1b}' => {
                        let sequence: String =
                            characters.by_ref().skip(1).take_while(|c| c.is_ascii_digit()).collect();
                        // The letter has been taken with the digits.
                        let count = sequence.parse().unwrap_or(1);
                        let letter = picture[..picture.len() - characters.as_str().len()].chars().last();
                        match letter {
                            Some('A') => at.row -= count,
                            Some('C') => at.column += count,
                            Some('J') => {
                                rows.truncate(at.row + 1);
                                rows[at.row].truncate(at.column);
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                    _ => {
                        let width = character.width().unwrap_or(0);
                        assert!(at.column + width <= columns, "{picture:?}");
                        let row = &mut rows[at.row];
                        row.resize(at.column, ' ');
                        row.push(character);
                        row.extend(std::iter::repeat_n('\0', width.saturating_sub(1)));
                        at.column += width;
                    }
                }
                while rows.len() <= at.row {
                    rows.push(Vec::new());
                }
            }
        }
        let rows = rows.iter().map(|row| row.iter().filter(|c| **c != '\0').collect()).collect();
        (rows, at)
    }

    #[test]
    fn a_short_text_is_one_row() {
        let mut screen = Screen::new("mgmt> ");
        let (rows, at) = shown(&[screen.draw("1 + 2", 1, 40)], 40);
        assert_eq!(rows, ["mgmt> 1 + 2"]);
        assert_eq!(at, Cell { row: 0, column: 7 });
    }

    #[test]
    fn a_long_text_is_broken_and_drawn_over() {
        let mut screen = Screen::new("> ");
        let pictures = [screen.draw("abcdefghij", 10, 8), screen.draw("abc", 3, 8)];
        assert_eq!(shown(&pictures[..1], 8).0, ["> abcdef", "ghij"]);
        let (rows, at) = shown(&pictures, 8);
        assert_eq!((rows, at), (vec!["> abc".to_owned()], Cell { row: 0, column: 5 }));
    }

    #[test]
    fn at_the_margin_the_cursor_is_on_the_next_row() {
        let mut screen = Screen::new("> ");
        let (_, at) = shown(&[screen.draw("abcdef", 6, 8)], 8);
        assert_eq!(at, Cell { row: 1, column: 0 });
    }

    #[test]
    fn wide_characters_take_two_columns_and_are_never_cut() {
        let mut screen = Screen::new("> ");
        let (rows, at) = shown(&[screen.draw("大大大大", "大大".len(), 7)], 7);
        assert_eq!(rows, ["> 大大", "大大"]);
        // Between the second and the third, the cursor stands behind the second.
        assert_eq!(at, Cell { row: 0, column: 6 });
    }

    #[test]
    fn further_lines_are_marked() {
        let mut screen = Screen::new("mgmt> ");
        let (rows, at) = shown(&[screen.draw("[1,\n2]", 4, 40)], 40);
        assert_eq!(rows, ["mgmt> [1,", "  ... 2]"]);
        assert_eq!(at, Cell { row: 1, column: 6 });
    }

    #[test]
    fn words_stand_in_columns() {
        let words: Vec<String> = ["a", "bb", "ccc", "d"].map(String::from).into();
        assert_eq!(table(&words, 12), "a    ccc\nbb   d\n");
        assert_eq!(table(&words, 3), "a\nbb\nccc\nd\n");
    }
}
