//! A text and a cursor in it.

use unicode_width::UnicodeWidthChar as _;

/// No text that is typed is longer.
const MAX_TEXT: usize = 1 << 20;
/// What a tab becomes, so that every character is as wide as it says.
const TAB: &str = "    ";

/// A text that is being edited. The cursor stands between two characters that are seen; what has no width of its own
/// belongs to the character before it.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) cursor: usize,
}

/// A text that can be shown: line breaks are one kind of line break, and nothing in it acts on a terminal.
pub(super) fn showable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' => {
                characters.next_if_eq(&'\n');
                shown.push('\n');
            }
            '\n' => shown.push('\n'),
            '\t' => shown.push_str(TAB),
            _ if mgmt_telemetry::escape(character.encode_utf8(&mut [0; 4])).chars().count() > 1 => {}
            _ => shown.push(character),
        }
    }
    shown
}

impl Line {
    /// Puts another text in its place, with the cursor at its end.
    pub(super) fn set(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
    }

    pub(super) fn insert(&mut self, text: &str) {
        let text = showable(text);
        if self.text.len() + text.len() <= MAX_TEXT {
            self.text.insert_str(self.cursor, &text);
            self.cursor += text.len();
        }
    }

    /// Puts something in the place of what stands between a byte and the cursor.
    pub(super) fn replace(&mut self, start: usize, text: &str) {
        self.text.replace_range(start..self.cursor, "");
        self.cursor = start;
        self.insert(text);
    }

    fn before(&self, at: usize) -> usize {
        let seen = |(_, character): &(usize, char)| *character == '\n' || character.width() != Some(0);
        self.text[..at].char_indices().rev().find(seen).map_or(0, |(start, _)| start)
    }

    fn after(&self, at: usize) -> usize {
        let seen = |(_, character): &(usize, char)| *character == '\n' || character.width() != Some(0);
        let next = self.text[at..].char_indices().skip(1).find(seen);
        next.map_or(self.text.len(), |(start, _)| at + start)
    }

    pub(super) fn left(&mut self) {
        self.cursor = self.before(self.cursor);
    }

    pub(super) fn right(&mut self) {
        self.cursor = self.after(self.cursor);
    }

    pub(super) fn backspace(&mut self) {
        let start = self.before(self.cursor);
        self.text.replace_range(start..self.cursor, "");
        self.cursor = start;
    }

    pub(super) fn delete(&mut self) {
        let end = self.after(self.cursor);
        self.text.replace_range(self.cursor..end, "");
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |newline| newline + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |newline| self.cursor + newline)
    }

    pub(super) fn home(&mut self) {
        self.cursor = self.line_start();
    }

    pub(super) fn end(&mut self) {
        self.cursor = self.line_end();
    }

    /// To the line above. False: there is none.
    pub(super) fn up(&mut self) -> bool {
        let start = self.line_start();
        let column = self.text[start..self.cursor].chars().count();
        let Some(above) = start.checked_sub(1) else { return false };
        let above_start = self.text[..above].rfind('\n').map_or(0, |newline| newline + 1);
        self.cursor = column_of(&self.text, above_start, above, column);
        true
    }

    /// To the line below. False: there is none.
    pub(super) fn down(&mut self) -> bool {
        let column = self.text[self.line_start()..self.cursor].chars().count();
        let end = self.line_end();
        if end == self.text.len() {
            return false;
        }
        let below = end + 1;
        let below_end = self.text[below..].find('\n').map_or(self.text.len(), |newline| below + newline);
        self.cursor = column_of(&self.text, below, below_end, column);
        true
    }

    pub(super) fn word_left(&mut self) {
        self.cursor = self.word_start();
    }

    fn word_start(&self) -> usize {
        let before = self.text[..self.cursor].trim_end_matches(|character| !is_word(character));
        before.trim_end_matches(is_word).len()
    }

    pub(super) fn word_right(&mut self) {
        self.cursor = self.word_end();
    }

    fn word_end(&self) -> usize {
        let behind = self.text[self.cursor..].trim_start_matches(|character| !is_word(character));
        self.text.len() - behind.trim_start_matches(is_word).len()
    }

    fn cut(&mut self, start: usize, end: usize) -> String {
        self.cursor = start;
        self.text.drain(start..end).collect()
    }

    pub(super) fn cut_to_end(&mut self) -> String {
        self.cut(self.cursor, self.line_end())
    }

    pub(super) fn cut_to_start(&mut self) -> String {
        self.cut(self.line_start(), self.cursor)
    }

    /// Back to the last space, as a shell does.
    pub(super) fn cut_word(&mut self) -> String {
        let before = self.text[..self.cursor].trim_end();
        let start = before.trim_end_matches(|character: char| !character.is_whitespace()).len();
        self.cut(start, self.cursor)
    }

    pub(super) fn cut_word_forward(&mut self) -> String {
        self.cut(self.cursor, self.word_end())
    }
}

fn column_of(text: &str, start: usize, end: usize, column: usize) -> usize {
    text[start..end].char_indices().nth(column).map_or(end, |(at, _)| start + at)
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        let mut line = Line::default();
        line.insert(text);
        line
    }

    #[test]
    fn characters_are_whole_however_many_bytes_they_have() {
        let mut line = line("aé大");
        line.left();
        line.backspace();
        assert_eq!((line.text.as_str(), line.cursor), ("a大", 1));
        line.delete();
        line.delete();
        assert_eq!(line.text, "a");
    }

    #[test]
    fn an_accent_goes_with_its_letter() {
        let mut line = line("e\u{301}x");
        line.left();
        line.left();
        assert_eq!(line.cursor, 0);
        line.right();
        assert_eq!(line.cursor, 3);
        line.backspace();
        assert_eq!(line.text, "x");
    }

    #[test]
    fn words_are_cut_and_passed() {
        let mut line = line("fmt.printf(\"a\", $count)");
        line.word_left();
        assert_eq!(&line.text[line.cursor..], "count)");
        line.cut_to_end();
        assert_eq!(line.cut_word(), "$");
        line.home();
        line.word_right();
        assert_eq!(line.cut_word_forward(), ".printf");
        line.end();
        assert_eq!(line.cut_to_start(), "fmt(\"a\", ");
    }

    #[test]
    fn lines_are_left_upwards_and_downwards() {
        let mut line = line("one\nsomething\nlast");
        assert!(line.up());
        assert_eq!(&line.text[line.cursor..], "thing\nlast");
        assert!(line.up());
        assert_eq!(line.cursor, 3);
        assert!(!line.up());
        assert!(line.down() && line.down() && !line.down());
        line.home();
        assert_eq!(&line.text[line.cursor..], "last");
    }

    #[test]
    fn what_would_act_on_the_terminal_is_not_taken() {
        assert_eq!(line("a\u{1b}[31mb\r\nc\td\u{7}").text, "a[31mb\nc    d");
    }

    #[test]
    fn any_keys_on_any_text_leave_the_cursor_between_characters() {
        let mut seed = 1u64;
        let mut random = |count: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap() % count
        };
        let texts = ["a", "é", "大", "\u{301}", "\n", " ", "👩‍👩‍👧", "$x "];
        let mut line = Line::default();
        for _ in 0..20_000 {
            match random(14) {
                0..4 => line.insert(texts[random(texts.len())]),
                4 => line.left(),
                5 => line.right(),
                6 => line.backspace(),
                7 => line.delete(),
                8 => drop(line.up()),
                9 => drop(line.down()),
                10 => line.word_left(),
                11 => line.word_right(),
                12 => drop(line.cut_word()),
                _ => line.home(),
            }
            assert!(line.text.is_char_boundary(line.cursor));
            if line.text.len() > 200 {
                line.set(String::new());
            }
        }
    }
}
