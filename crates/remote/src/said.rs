//! What the other side says, made fit to be shown.

/// The most of one line that is shown.
const LONGEST: usize = 4 << 10;

/// A line of the other side without anything that a terminal or a log would obey.
pub fn clean(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line.get(..LONGEST).unwrap_or(line));
    let mut text = String::with_capacity(line.len());
    for character in line.trim_end().chars() {
        match character {
            '\t' => text.push(' '),
            hidden if is_hidden(hidden) => text.extend(hidden.escape_default()),
            shown => text.push(shown),
        }
    }
    text
}

/// Control characters, and those that turn the direction of what follows.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(clean(b"plain \xc3\xa9\r\n"), "plain é");
        assert_eq!(clean(b"\x1b[2Jgone"), "\\u{1b}[2Jgone");
        assert_eq!(clean("a\u{202e}b".as_bytes()), "a\\u{202e}b");
        assert_eq!(clean(b"a\0b"), "a\\u{0}b");
        assert_eq!(clean(&[b'x'; 10_000]).len(), LONGEST);
        assert!(clean(b"\xff").contains('\u{fffd}'));
    }
}
