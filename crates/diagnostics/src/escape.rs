//! Escaping of control characters in text from outside.

use std::borrow::Cow;
use std::fmt;

/// The text with every character escaped that a terminal or a reader of lines would act on.
///
/// Backslashes stay as they are: the result is for reading, not for reading back, and a path must stay a path.
///
/// ```
/// assert_eq!(mgmt_diagnostics::escape("two\nlines \u{1b}[31m"), "two\\nlines \\u{1b}[31m");
/// ```
pub fn escape(text: &str) -> Cow<'_, str> {
    if text.chars().any(acts) { Cow::Owned(Escaped(text).to_string()) } else { Cow::Borrowed(text) }
}

/// Displays a text as [`escape`] gives it.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((at, character)) = rest.char_indices().find(|(_, character)| acts(*character)) {
            f.write_str(&rest[..at])?;
            match character {
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                _ => write!(f, "\\u{{{:x}}}", u32::from(character))?,
            }
            rest = &rest[at + character.len_utf8()..];
        }
        f.write_str(rest)
    }
}

/// Whether a character does something instead of being something: controls, separators of lines and paragraphs,
/// marks that turn the direction of writing, and invisible tags.
pub(crate) fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}'
                | '\u{061c}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_passed_on_without_a_copy() {
        assert!(matches!(escape("file[/etc/mötd] \\n 日本"), Cow::Borrowed("file[/etc/mötd] \\n 日本")));
    }

    #[test]
    fn whatever_acts_is_escaped() {
        assert_eq!(escape("a\r\n\tb"), "a\\r\\n\\tb");
        assert_eq!(escape("\u{1b}]0;x\u{7}\u{9b}31m"), "\\u{1b}]0;x\\u{7}\\u{9b}31m");
        assert_eq!(escape("\u{202e}evil\u{2028}"), "\\u{202e}evil\\u{2028}");
        assert_eq!(escape("\u{7f}"), "\\u{7f}");
    }
}
