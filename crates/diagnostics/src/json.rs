//! JSON lines with escaped control characters.

use std::fmt::Write as _;

use crate::escape::acts;

/// A JSON value as one line, ending in a line break, with the characters of [`escape()`](crate::escape()) as JSON escapes.
pub fn json_line(value: &serde_json::Value) -> String {
    let text = value.to_string();
    let mut line = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if acts(character) {
            // Such a character can only stand inside a string. All of them are in the basic plane but the tags,
            // which need a pair.
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(line, "\\u{unit:04x}");
            }
        } else {
            line.push(character);
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_json_line_is_one_line_of_harmless_characters_that_reads_back_the_same() {
        let nasty = "a\nb\u{1b}\u{9b}\u{202e}\u{e0041}\u{7f}\"\\";
        let line = json_line(&serde_json::json!({ "message": nasty }));
        let body = line.strip_suffix('\n').unwrap();
        assert!(body.chars().all(|character| !acts(character)), "{body:?}");
        let back: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(back["message"], nasty);
    }
}
