//! Quoted text, in the notation that many languages share: `"…"` with backslash escapes.

use std::fmt::Write;

/// Which characters stand for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Those that print.
    Printable,
    /// ASCII only.
    Ascii,
    /// Those that print, and blanks of all widths.
    Graphic,
}

/// Puts text in double quotes.
pub(crate) fn quote(bytes: &[u8], keep: Keep) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|character| escape(character, keep, &mut out));
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

fn escape(character: char, keep: Keep, out: &mut String) {
    let code = character as u32;
    let short = match character {
        '"' | '\\' => Some(character),
        '\u{7}' => Some('a'),
        '\u{8}' => Some('b'),
        '\u{c}' => Some('f'),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        '\u{b}' => Some('v'),
        _ => None,
    };
    // Writing to a String does not fail.
    let _ = match short {
        Some(letter) => write!(out, "\\{letter}"),
        None if stands(character, keep) => write!(out, "{character}"),
        None if code < 0x80 => write!(out, "\\x{code:02x}"),
        None if code < 0x1_0000 => write!(out, "\\u{code:04x}"),
        None => write!(out, "\\U{code:08x}"),
    };
}

fn stands(character: char, keep: Keep) -> bool {
    match keep {
        _ if character.is_ascii() => character == ' ' || character.is_ascii_graphic(),
        Keep::Ascii => false,
        Keep::Printable => prints(character),
        Keep::Graphic => prints(character) || is_blank(character),
    }
}

/// Letters, marks, numbers, punctuation, symbols and the plain space.
pub(crate) fn prints(character: char) -> bool {
    if character.is_ascii() {
        return character == ' ' || character.is_ascii_graphic();
    }
    // The standard library knows, but tells only through its own escapes. Those also hide a mark at the beginning of
    // a text, hence the letter in front.
    let mut pair = [b'a', 0, 0, 0, 0];
    let length = 1 + character.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(&pair[..length]).is_ok_and(|pair| pair.escape_debug().nth(1) == Some(character))
}

/// Blanks that are no line or paragraph separators.
fn is_blank(character: char) -> bool {
    matches!(
        character,
        ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// Whether the text can stand between back-quotes as it is.
pub(crate) fn can_backquote(bytes: &[u8]) -> bool {
    let fits = |character: char| match character {
        '\u{feff}' | '`' | '\u{7f}' => false,
        '\t' => true,
        _ => character >= ' ',
    };
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(fits))
}

/// How long the quoted text at the beginning is.
pub(crate) fn prefix_length(bytes: &[u8]) -> Option<usize> {
    let quote = *bytes.first()?;
    match quote {
        b'`' => Some(memchr::memchr(b'`', &bytes[1..])? + 2),
        b'"' | b'\'' => {
            let mut at = 1;
            let mut characters = 0;
            while *bytes.get(at)? != quote {
                if bytes[at] == b'\n' {
                    return None;
                }
                at += unit(&bytes[at..], quote)?.1;
                characters += 1;
            }
            (quote == b'"' || characters == 1).then_some(at + 1)
        }
        _ => None,
    }
}

/// What quoted text stands for; `None` when the text as a whole is not one quoted text.
pub(crate) fn unquote(bytes: &[u8]) -> Option<Vec<u8>> {
    if prefix_length(bytes)? != bytes.len() {
        return None;
    }
    let inner = &bytes[1..bytes.len() - 1];
    if bytes[0] == b'`' {
        return Some(inner.iter().copied().filter(|byte| *byte != b'\r').collect());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut at = 0;
    while at < inner.len() {
        let (unit, length) = unit(&inner[at..], bytes[0])?;
        match unit {
            Unit::Byte(byte) => out.push(byte),
            Unit::Character(character) => out.extend(character.encode_utf8(&mut [0; 4]).bytes()),
        }
        at += length;
    }
    Some(out)
}

enum Unit {
    Byte(u8),
    Character(char),
}

/// One character or escape, and its length.
fn unit(bytes: &[u8], quote: u8) -> Option<(Unit, usize)> {
    let first = *bytes.first()?;
    if first != b'\\' {
        let (_, character, width) = crate::text::runes(&bytes[..bytes.len().min(4)]).next()?;
        let unit = if character == '\u{fffd}' && width == 1 {
            Unit::Byte(first)
        } else {
            Unit::Character(character)
        };
        // A stray byte within single quotes is the replacement character, as is every other.
        return match (quote, unit) {
            (b'\'', Unit::Byte(_)) => Some((Unit::Character('\u{fffd}'), 1)),
            (_, unit) => Some((unit, width)),
        };
    }
    let letter = *bytes.get(1)?;
    let short = |character: char| Some((Unit::Character(character), 2));
    match letter {
        b'a' => short('\u{7}'),
        b'b' => short('\u{8}'),
        b'f' => short('\u{c}'),
        b'n' => short('\n'),
        b'r' => short('\r'),
        b't' => short('\t'),
        b'v' => short('\u{b}'),
        b'\\' => short('\\'),
        b'\'' | b'"' if letter == quote => short(char::from(letter)),
        b'x' => Some((byte(number(bytes.get(2..4)?, 16)?, quote)?, 4)),
        b'u' => Some((Unit::Character(char::from_u32(number(bytes.get(2..6)?, 16)?)?), 6)),
        b'U' => Some((Unit::Character(char::from_u32(number(bytes.get(2..10)?, 16)?)?), 10)),
        b'0'..=b'7' => Some((byte(number(bytes.get(1..4)?, 8)?, quote)?, 4)),
        _ => None,
    }
}

/// A number below 256 is a byte in double quotes and a character in single ones.
fn byte(number: u32, quote: u8) -> Option<Unit> {
    let byte = u8::try_from(number).ok()?;
    Some(if quote == b'\'' { Unit::Character(char::from(byte)) } else { Unit::Byte(byte) })
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    digits.iter().try_fold(0_u32, |number, digit| {
        number.checked_mul(radix)?.checked_add(char::from(*digit).to_digit(radix)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_escapes_what_is_not_kept() {
        let text = "a\t\"\\\u{7f}é\u{a0}\u{200b}日\u{10ffff}";
        assert_eq!(quote(text.as_bytes(), Keep::Printable), r#""a\t\"\\\x7fé\u00a0\u200b日\U0010ffff""#);
        assert_eq!(quote(text.as_bytes(), Keep::Ascii), r#""a\t\"\\\x7f\u00e9\u00a0\u200b\u65e5\U0010ffff""#);
        assert_eq!(quote(text.as_bytes(), Keep::Graphic), "\"a\\t\\\"\\\\\\x7fé\u{a0}\\u200b日\\U0010ffff\"");
        assert_eq!(quote(b"\xff\xe2\x82", Keep::Printable), r#""\xff\xe2\x82""#);
    }

    #[test]
    fn unquoting_is_the_inverse() {
        for text in ["", "a", "\t\"\\\u{7f}é\u{a0}\u{200b}日\u{10ffff}", "'`"] {
            for keep in [Keep::Printable, Keep::Ascii, Keep::Graphic] {
                assert_eq!(
                    unquote(quote(text.as_bytes(), keep).as_bytes()).as_deref(),
                    Some(text.as_bytes())
                );
            }
        }
        assert_eq!(unquote(br#""\xff\377""#), Some(vec![0xff, 0xff]));
        assert_eq!(unquote(b"`a\\n\r`"), Some(b"a\\n".to_vec()));
        assert_eq!(unquote("'é'".as_bytes()), Some("é".as_bytes().to_vec()));
        assert_eq!(unquote(br"'\''"), Some(b"'".to_vec()));
        assert_eq!(unquote(br"'\xe9'"), Some("é".as_bytes().to_vec()));
    }

    #[test]
    fn what_is_not_quoted_is_refused() {
        for text in [
            "",
            "a",
            "\"",
            "\"a",
            "\"a\"b",
            "'ab'",
            "''",
            "`",
            "\"\\z\"",
            "\"\\'\"",
            "'\\\"'",
            "\"a\nb\"",
            "\"\\400\"",
            "\"\\ud800\"",
            "\"\\x1\"",
        ] {
            assert_eq!(unquote(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_quoted_beginning_is_found() {
        assert_eq!(prefix_length(br#""a\"b" rest"#), Some(6));
        assert_eq!(prefix_length(b"`a` rest"), Some(3));
        assert_eq!(prefix_length(b"'a'b"), Some(3));
        assert_eq!(prefix_length(b"x\"a\""), None);
    }

    #[test]
    fn back_quotes_hold_one_line_without_back_quotes() {
        assert!(can_backquote("a\té".as_bytes()));
        for text in ["`", "a\nb", "\u{feff}", "\u{7f}"] {
            assert!(!can_backquote(text.as_bytes()));
        }
        assert!(!can_backquote(b"\xff"));
    }
}
