//! `golang/strconv`

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::Failure;
use crate::declare::module;
use crate::numbers::{self, BadNumber};
use crate::quote::{self as quoting, Keep};

module! {
    path: "golang/strconv",
    doc: "Numbers, truth values and quoted text from and to text. Text that cannot be read is a fatal error; see `convert` for functions whose errors can be caught.",
    functions: [
        append_bool, append_int, append_quote, append_quote_to_ascii, append_quote_to_graphic, atoi, can_backquote,
        format_bool, format_int, itoa, parse_bool, parse_float, parse_int, quote, quote_to_ascii, quote_to_graphic,
        quoted_prefix, unquote,
    ],
}

fn append(dst: &[u8], text: &str) -> Str {
    Str::new([dst, text.as_bytes()].concat())
}

fn unreadable(text: &[u8], reason: &str) -> Failure {
    Failure::fatal(format!("parsing {:?}: {reason}", Str::new(text)))
}

fn digits(i: i64, base: i64) -> Result<String, Failure> {
    numbers::format_int(i, base)
        .ok_or_else(|| Failure::fatal(format!("can't write in base {base}, expected 2 to 36")))
}

/// A text followed by `true` or `false`.
///
/// ```mcl
/// strconv.append_bool("x=", true) == "x=true"
/// ```
#[function]
fn append_bool(dst: &[u8], b: bool) -> Str {
    append(dst, &b.to_string())
}

/// A text followed by an int in a base from 2 to 36. Other bases are a fatal error.
///
/// ```mcl
/// strconv.append_int("0x", 255, 16) == "0xff"
/// ```
#[function]
fn append_int(dst: &[u8], i: i64, base: i64) -> Result<Str, Failure> {
    Ok(append(dst, &digits(i, base)?))
}

/// A text followed by another in quotes.
///
/// ```mcl
/// strconv.append_quote("a=", "b") == "a=\"b\""
/// ```
#[function]
fn append_quote(dst: &[u8], s: &[u8]) -> Str {
    append(dst, &quoting::quote(s, Keep::Printable))
}

/// A text followed by another in quotes, with escapes for all that is not ASCII.
///
/// ```mcl
/// strconv.append_quote_to_ascii("a=", "é") == "a=\"\\u00e9\""
/// ```
#[function]
fn append_quote_to_ascii(dst: &[u8], s: &[u8]) -> Str {
    append(dst, &quoting::quote(s, Keep::Ascii))
}

/// A text followed by another in quotes, with blanks of all widths as they are.
///
/// ```mcl
/// strconv.append_quote_to_graphic("a=", "é") == "a=\"é\""
/// ```
#[function]
fn append_quote_to_graphic(dst: &[u8], s: &[u8]) -> Str {
    append(dst, &quoting::quote(s, Keep::Graphic))
}

/// Reads a decimal int. Text that is none is a fatal error; compare `convert.str_to_int`.
///
/// ```mcl
/// strconv.atoi("42") == 42
/// ```
#[function]
fn atoi(s: &[u8]) -> Result<i64, Failure> {
    parse_int(s, 10, 0)
}

/// Whether a text can stand between back-quotes as it is: one line of UTF-8 without a back-quote.
///
/// ```mcl
/// strconv.can_backquote("a b") == true
/// ```
#[function]
fn can_backquote(s: &[u8]) -> bool {
    quoting::can_backquote(s)
}

/// `true` or `false`.
///
/// ```mcl
/// strconv.format_bool(false) == "false"
/// ```
#[function]
fn format_bool(b: bool) -> String {
    b.to_string()
}

/// An int in a base from 2 to 36. Other bases are a fatal error.
///
/// ```mcl
/// strconv.format_int(-255, 16) == "-ff"
/// ```
#[function]
fn format_int(i: i64, base: i64) -> Result<String, Failure> {
    digits(i, base)
}

/// The decimal text of an int.
///
/// ```mcl
/// strconv.itoa(42) == "42"
/// ```
#[function]
fn itoa(i: i64) -> String {
    i.to_string()
}

/// Reads a truth value: `1 t T TRUE true True` or `0 f F FALSE false False`. Other text is a fatal error.
///
/// ```mcl
/// strconv.parse_bool("true") == true
/// ```
#[function]
fn parse_bool(str: &[u8]) -> Result<bool, Failure> {
    numbers::parse_bool(str).ok_or_else(|| unreadable(str, BadNumber::Syntax.reason()))
}

/// Reads a float, with 32 or 64 bits of precision. Text that is none, or a number that is too large, is a fatal error.
///
/// ```mcl
/// strconv.parse_float("1.5e3", 64) == 1500.0
/// ```
#[function]
fn parse_float(s: &[u8], bit_size: i64) -> Result<f64, Failure> {
    numbers::parse_float(s, bit_size).map_err(|error| unreadable(s, error.reason()))
}

/// Reads an int in a base from 2 to 36; base 0 goes by the prefix `0x`, `0o`, `0` or `0b` and allows `_` between digits.
/// The number must fit into so many bits; 0 means 64.
///
/// ```mcl
/// strconv.parse_int("ff", 16, 64) == 255
/// strconv.parse_int("0b1_01", 0, 8) == 5
/// ```
#[function]
fn parse_int(s: &[u8], base: i64, bit_size: i64) -> Result<i64, Failure> {
    numbers::parse_int(s, base, bit_size).map_err(|error| unreadable(s, error.reason()))
}

/// The text in double quotes, with escapes for what does not print.
///
/// ```mcl
/// strconv.quote("a\tb") == "\"a\\tb\""
/// ```
#[function]
fn quote(s: &[u8]) -> String {
    quoting::quote(s, Keep::Printable)
}

/// The text in double quotes, with escapes for all that is not ASCII.
///
/// ```mcl
/// strconv.quote_to_ascii("é") == "\"\\u00e9\""
/// ```
#[function]
fn quote_to_ascii(s: &[u8]) -> String {
    quoting::quote(s, Keep::Ascii)
}

/// The text in double quotes, with blanks of all widths as they are.
///
/// ```mcl
/// strconv.quote_to_graphic("é") == "\"é\""
/// ```
#[function]
fn quote_to_graphic(s: &[u8]) -> String {
    quoting::quote(s, Keep::Graphic)
}

/// The quoted text at the beginning of a text, still in quotes. A text that begins with none is a fatal error.
///
/// ```mcl
/// strconv.quoted_prefix("\"a\" b") == "\"a\""
/// ```
#[function]
fn quoted_prefix(s: &[u8]) -> Result<Str, Failure> {
    let length =
        quoting::prefix_length(s).ok_or_else(|| unreadable(s, "it does not begin with quoted text"))?;
    Ok(Str::new(&s[..length]))
}

/// What a text in double quotes, back-quotes or single quotes (one character) stands for. Other text is a fatal error.
///
/// ```mcl
/// strconv.unquote("\"a\\tb\"") == "a\tb"
/// ```
#[function]
fn unquote(s: &[u8]) -> Result<Str, Failure> {
    quoting::unquote(s).map(Str::new).ok_or_else(|| unreadable(s, "it is not quoted text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_text_is_fatal_and_named() {
        let message = |failure: Failure| matches!(failure, Failure::Fatal(_)).then(|| failure.to_string());
        assert_eq!(message(atoi(b"x").unwrap_err()).as_deref(), Some(r#"parsing "x": invalid syntax"#));
        assert_eq!(
            message(parse_int(b"300", 10, 8).unwrap_err()).as_deref(),
            Some(r#"parsing "300": value out of range"#)
        );
        assert!(message(parse_bool(b"yes").unwrap_err()).is_some());
        assert!(message(parse_float(b"1e400", 64).unwrap_err()).is_some());
        assert!(message(unquote(b"a").unwrap_err()).is_some());
        assert!(message(quoted_prefix(b"a").unwrap_err()).is_some());
        assert!(message(format_int(1, 1).unwrap_err()).is_some());
        assert!(message(append_int(b"", 1, 99).unwrap_err()).is_some());
    }

    #[test]
    fn text_is_appended() {
        assert_eq!(append_int(b"\xff", -10, 2).unwrap(), Str::new(b"\xff-1010"));
        assert_eq!(quoted_prefix(b"`a`b").unwrap(), "`a`");
        assert_eq!(append_quote(b"a", b"\xff"), r#"a"\xff""#);
    }
}
