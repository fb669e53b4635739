//! Text forms of values.

use std::fmt::{self, Write};

use crate::{Type, Value};

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{value}"),
            Value::Str(value) => quoted(value, f),
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => float(*value, f),
            Value::List(list) => {
                f.write_char('[')?;
                for (i, item) in list.items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                f.write_char(']')
            }
            Value::Map(map) => {
                let mut entries: Vec<_> = map.entries().iter().collect();
                // Storage order is the language's order for all keys but structs, which it compares by text.
                if let Type::Struct(_) = map.types.0 {
                    entries.sort_by_cached_key(|(key, _)| key.to_string());
                }
                f.write_char('{')?;
                for (i, (key, value)) in entries.into_iter().enumerate() {
                    write!(f, "{}{key}: {value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_char('}')
            }
            Value::Struct(value) => {
                f.write_str("struct{")?;
                for (i, (name, value)) in value.fields.iter().enumerate() {
                    write!(f, "{}{name}: {value}", if i == 0 { "" } else { "; " })?;
                }
                f.write_char('}')
            }
            Value::Func(function) => write!(f, "func({})", function.ty()),
            Value::Nil => f.write_str("nil"),
        }
    }
}

/// The shortest decimal that reads back as the same number, never with an exponent.
fn float(value: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if value.is_nan() {
        f.write_str("NaN")
    } else if value.is_infinite() {
        f.write_str(if value > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        write!(f, "{value}")
    }
}

/// A double-quoted literal: the usual short escapes, `\xNN` for stray bytes, `\uNNNN` for what does not print.
pub(crate) fn quoted(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    escape(bytes, f, true)?;
    f.write_char('"')
}

/// Text for people: nothing that moves a cursor or forges a line.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.0, f, false)
    }
}

fn escape(bytes: &[u8], f: &mut fmt::Formatter<'_>, in_quotes: bool) -> fmt::Result {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !(in_quotes && matches!(byte, b'"' | b'\\'));
    // Most texts are plain as a whole, or at least at the beginning.
    let plain = bytes.iter().position(|byte| !is_plain(byte)).unwrap_or(bytes.len());
    f.write_str(std::str::from_utf8(&bytes[..plain]).unwrap_or_default())?;
    for chunk in bytes[plain..].utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' if in_quotes => write!(f, "\\{character}")?,
                '\u{7}' => f.write_str("\\a")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{c}' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\u{b}' => f.write_str("\\v")?,
                _ if prints(character) => f.write_char(character)?,
                _ if (character as u32) < 0x80 => write!(f, "\\x{:02x}", character as u32)?,
                _ if (character as u32) < 0x1_0000 => write!(f, "\\u{:04x}", character as u32)?,
                _ => write!(f, "\\U{:08x}", character as u32)?,
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Letters, marks, numbers, punctuation, symbols and the plain space print. Characters that are invisible, that
/// reorder what follows them or that mean nothing yet do not.
fn prints(character: char) -> bool {
    if character.is_ascii() {
        return character == ' ' || character.is_ascii_graphic();
    }
    // The standard library knows, but tells only through its own escapes. Those also hide a mark at the beginning of
    // a text, hence the letter in front.
    let mut pair = [b'a', 0, 0, 0, 0];
    let length = 1 + character.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(&pair[..length]).is_ok_and(|pair| pair.escape_debug().nth(1) == Some(character))
}

#[cfg(test)]
mod tests {
    use crate::{Str, Type, Value};

    fn check(value: Value, text: &str) {
        assert_eq!(value.to_string(), text);
        assert_eq!(format!("{value:?}"), text);
    }

    #[test]
    fn scalars() {
        check(Value::Bool(true), "true");
        check(Value::Bool(false), "false");
        check(Value::Int(i64::MIN), "-9223372036854775808");
        check(Value::Nil, "nil");
    }

    #[test]
    fn floats_are_short_and_have_no_exponent() {
        check(Value::Float(42.0), "42");
        check(Value::Float(0.1), "0.1");
        check(Value::Float(-0.0), "-0");
        check(Value::Float(1e21), "1000000000000000000000");
        check(Value::Float(1.5e-9), "0.0000000015");
        check(Value::Float(f64::INFINITY), "+Inf");
        check(Value::Float(f64::NEG_INFINITY), "-Inf");
        check(Value::Float(f64::NAN), "NaN");
        let tiny = Value::Float(5e-324).to_string();
        assert_eq!(tiny.len(), 326);
        assert_eq!(tiny.parse(), Ok(5e-324));
    }

    #[test]
    fn strings_are_quoted() {
        check(Value::str(""), r#""""#);
        check(Value::str("a b"), r#""a b""#);
        check(Value::str("\x07\x08\x0c\n\r\t\x0b\\\""), r#""\a\b\f\n\r\t\v\\\"""#);
        check(Value::str("'$`"), r#""'$`""#);
        check(Value::str("\0\x1b\x7f"), r#""\x00\x1b\x7f""#);
        check(Value::str("é日本👋"), "\"é日本👋\"");
        check(Value::str("e\u{301}\u{301}"), "\"e\u{301}\u{301}\"");
        check(Value::str("\u{301}"), "\"\u{301}\"");
        check(Value::str("\u{85}\u{a0}\u{ad}"), r#""\u0085\u00a0\u00ad""#);
        check(Value::str("\u{200b}\u{202e}\u{2028}\u{feff}\u{e000}"), r#""\u200b\u202e\u2028\ufeff\ue000""#);
        check(Value::str("\u{378}\u{e0001}\u{10ffff}"), r#""\u0378\U000e0001\U0010ffff""#);
        check(Value::str("\u{fffd}"), "\"\u{fffd}\"");
        check(Value::str(b"\xff\xe2\x82a\xed\xa0\x80"), r#""\xff\xe2\x82a\xed\xa0\x80""#);
    }

    #[test]
    fn text_for_people_is_escaped_but_not_quoted() {
        let display = |text: &str| Str::from(text).display().to_string();
        assert_eq!(display(r#"say "hi" \o/"#), r#"say "hi" \o/"#);
        assert_eq!(display("a\nb\x1b[2J\u{202e}"), r"a\nb\x1b[2J\u202e");
    }

    #[test]
    fn containers() {
        let ints =
            |items: &[i64]| Value::list(Type::Int, items.iter().map(|item| Value::Int(*item)).collect());
        check(ints(&[]), "[]");
        check(ints(&[1, 2]), "[1, 2]");
        check(Value::list(Type::Str, vec![Value::str("a\n")]), r#"["a\n"]"#);
        check(Value::list(Type::list(Type::Int), vec![ints(&[]), ints(&[3])]), "[[], [3]]");
        check(Value::map(Type::Str, Type::Int, []), "{}");
        let entries = [("b", 2), ("a", 1)].map(|(k, v)| (Value::str(k), Value::Int(v)));
        check(Value::map(Type::Str, Type::Int, entries), r#"{"a": 1, "b": 2}"#);
        check(Value::structure::<&str>([]), "struct{}");
        check(
            Value::structure([("a", Value::Int(1)), ("b", Value::str("x")), ("c", ints(&[]))]),
            r#"struct{a: 1; b: "x"; c: []}"#,
        );
    }

    #[test]
    fn numeric_keys_stand_in_the_order_of_numbers_and_struct_keys_in_the_order_of_their_text() {
        let key = |number| Value::structure([("n", Value::Int(number))]);
        let entries = |key: &dyn Fn(i64) -> Value| [9, 10, -1].map(|n| (key(n), Value::Bool(true)));
        check(Value::map(Type::Int, Type::Bool, entries(&Value::Int)), "{-1: true, 9: true, 10: true}");
        check(
            Value::map(key(0).ty(), Type::Bool, entries(&key)),
            "{struct{n: -1}: true, struct{n: 10}: true, struct{n: 9}: true}",
        );
    }
}
