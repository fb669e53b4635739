//! `strings`

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::declare::module;
use crate::{Failure, text};

module! {
    path: "strings",
    doc: "Text. Lengths and positions count bytes. See `golang/strings` for more.",
    functions: [
        contains, has_prefix, has_suffix, join_nonempty, left_pad, right_pad, replace_all, split, substr, to_lower, to_upper,
        trim_space,
    ],
}

/// Whether a text occurs within another. The empty text occurs everywhere.
///
/// ```mcl
/// strings.contains("seafood", "foo") == true
/// ```
#[function]
fn contains(s: &[u8], substr: &[u8]) -> bool {
    memchr::memmem::find(s, substr).is_some()
}

/// Whether a text begins with another.
///
/// ```mcl
/// strings.has_prefix("golang", "go") == true
/// ```
#[function]
fn has_prefix(s: &[u8], prefix: &[u8]) -> bool {
    s.starts_with(prefix)
}

/// Whether a text ends with another.
///
/// ```mcl
/// strings.has_suffix("golang", "lang") == true
/// ```
#[function]
fn has_suffix(s: &[u8], suffix: &[u8]) -> bool {
    s.ends_with(suffix)
}

/// Joins those texts that are not empty, with a separator between them.
///
/// ```mcl
/// strings.join_nonempty(["a", "", "b",], ",") == "a,b"
/// ```
#[function]
fn join_nonempty(s: Vec<Str>, sep: &[u8]) -> Str {
    let pieces: Vec<_> = s.iter().filter(|piece| !piece.is_empty()).map(Str::as_bytes).collect();
    Str::new(pieces.join(sep))
}

/// The longest text that padding makes: more is a mistake in the length.
const LONGEST: i64 = 1 << 30;

/// Puts copies of a text in front until the length is reached or passed: only whole copies are put.
///
/// An empty text cannot fill anything: where something is missing it is a fatal error.
///
/// ```mcl
/// strings.left_pad("7", "0", 3) == "007"
/// strings.left_pad("7", "ab", 4) == "abab7"
/// ```
#[function]
fn left_pad(s: &[u8], pad: &[u8], len: i64) -> Result<Str, Failure> {
    let mut out = padding(s, pad, len)?;
    out.extend_from_slice(s);
    Ok(Str::new(out))
}

/// Puts copies of a text behind until the length is reached or passed: only whole copies are put.
///
/// An empty text cannot fill anything: where something is missing it is a fatal error.
///
/// ```mcl
/// strings.right_pad("7", ".", 3) == "7.."
/// ```
#[function]
fn right_pad(s: &[u8], pad: &[u8], len: i64) -> Result<Str, Failure> {
    Ok(Str::new([s, &padding(s, pad, len)?].concat()))
}

fn padding(s: &[u8], pad: &[u8], len: i64) -> Result<Vec<u8>, Failure> {
    let missing = len.saturating_sub(s.len() as i64);
    if missing <= 0 {
        return Ok(Vec::new());
    }
    if pad.is_empty() {
        return Err(Failure::fatal(format!("can't reach a length of {len} with empty padding")));
    }
    if len > LONGEST {
        return Err(Failure::fatal(format!("a length of {len} is too much, expected at most {LONGEST}")));
    }
    Ok(pad.repeat((missing as usize).div_ceil(pad.len())))
}

/// Replaces every occurrence of a text by another. An empty text occurs before each character and at the end.
///
/// ```mcl
/// strings.replace_all("oink oink", "k", "ky") == "oinky oinky"
/// strings.replace_all("ab", "", "-") == "-a-b-"
/// ```
#[function]
fn replace_all(s: &[u8], old: &[u8], new: &[u8]) -> Str {
    Str::new(text::replace(s, old, new, usize::MAX))
}

/// The pieces between separators. An empty separator splits into characters.
///
/// ```mcl
/// strings.split("a,b,,c", ",") == ["a", "b", "", "c",]
/// strings.split("né", "") == ["n", "é",]
/// strings.split("", ",") == ["",]
/// ```
#[function]
fn split(a: &[u8], b: &[u8]) -> Vec<Str> {
    text::split(a, b).into_iter().map(Str::from).collect()
}

/// The bytes from one position up to another, counted from zero. Positions outside of the text are a catchable error.
///
/// ```mcl
/// strings.substr("hello", 1, 3) == "el"
/// (strings.substr("hello", 3, 9) <|> "?") == "?"
/// ```
#[function]
fn substr(s: &[u8], low: i64, high: i64) -> Result<Str, Failure> {
    let range = usize::try_from(low).ok().zip(usize::try_from(high).ok());
    range.and_then(|(low, high)| s.get(low..high)).map(Str::from).ok_or_else(|| {
        let length = s.len();
        Failure::catchable(format!("can't take bytes {low} to {high} of a text that has {length}"))
    })
}

/// All letters in lower case, each by itself. Bytes that are not UTF-8 become U+FFFD.
///
/// ```mcl
/// strings.to_lower("ÀB") == "àb"
/// ```
#[function]
fn to_lower(a: &[u8]) -> Str {
    Str::new(text::map(a, text::lower))
}

/// All letters in upper case, each by itself: `ß` stays. Bytes that are not UTF-8 become U+FFFD.
///
/// ```mcl
/// strings.to_upper("àbß") == "ÀBß"
/// ```
#[function]
fn to_upper(a: &[u8]) -> Str {
    Str::new(text::map(a, text::upper))
}

/// The text without white space at its ends.
///
/// ```mcl
/// strings.trim_space("  a b \n") == "a b"
/// ```
#[function]
fn trim_space(a: &[u8]) -> Str {
    Str::new(text::trim_space(a))
}

#[cfg(test)]
mod tests {
    use crate::modules::tests::shown;
    use mgmt_value::{Type, Value};

    fn check(name: &str, arguments: &[&str], expected: &str) {
        let arguments: Vec<_> = arguments.iter().map(Value::str).collect();
        assert_eq!(shown(&format!("strings.{name}"), &arguments), expected);
    }

    #[test]
    fn searching() {
        check("contains", &["abc", ""], "true");
        check("contains", &["", "a"], "false");
        check("has_prefix", &["abc", ""], "true");
        check("has_prefix", &["abc", "bc"], "false");
        check("has_suffix", &["abc", "bc"], "true");
        check("has_suffix", &["abc", ""], "true");
    }

    #[test]
    fn splitting_and_joining() {
        check("split", &["", ","], r#"[""]"#);
        check("split", &["", ""], "[]");
        check("split", &["abc", ""], r#"["a", "b", "c"]"#);
        check("split", &[",a,", ","], r#"["", "a", ""]"#);
        check("split", &["aXXXb", "XX"], r#"["a", "Xb"]"#);
        let list = |items: &[&str]| Value::list(Type::Str, items.iter().map(Value::str).collect());
        assert_eq!(
            shown("strings.join_nonempty", &[list(&["", "a", " ", ""]), Value::str(", ")]),
            r#""a,  ""#
        );
        assert_eq!(shown("strings.join_nonempty", &[list(&[]), Value::str(",")]), r#""""#);
    }

    #[test]
    fn replacing() {
        check("replace_all", &["aaa", "aa", "b"], r#""ba""#);
        check("replace_all", &["é", "", "-"], r#""-é-""#);
        check("replace_all", &["", "", "-"], r#""-""#);
        check("replace_all", &["abc", "b", ""], r#""ac""#);
    }

    #[test]
    fn padding_uses_whole_copies_and_always_ends() {
        let pad = |name: &str, pad: &str, length| {
            shown(&format!("strings.{name}"), &[Value::str("x"), Value::str(pad), Value::Int(length)])
        };
        assert_eq!(pad("left_pad", "ab", 4), r#""ababx""#);
        assert_eq!(pad("right_pad", "ab", 3), r#""xab""#);
        assert_eq!(pad("left_pad", "ab", -4), r#""x""#);
        assert_eq!(pad("left_pad", "", 1), r#""x""#);
        assert!(pad("left_pad", "", 2).starts_with("F: can't reach"));
        assert!(pad("right_pad", "a", i64::MAX).starts_with("F: a length"));
        assert_eq!(pad("right_pad", "a", i64::MIN), r#""x""#);
    }

    #[test]
    fn parts_may_cut_characters() {
        let part =
            |low, high| shown("strings.substr", &[Value::str("aé"), Value::Int(low), Value::Int(high)]);
        assert_eq!(part(0, 2), r#""a\xc3""#);
        assert_eq!(part(3, 3), r#""""#);
        for (low, high) in [(-1, 2), (0, 4), (2, 1), (4, 4)] {
            assert!(part(low, high).starts_with("C: can't take bytes"), "{low} {high}");
        }
    }

    #[test]
    fn white_space_is_that_of_unicode() {
        check("trim_space", &["\u{85}\u{a0}\u{3000}a\t"], r#""a""#);
        check("trim_space", &[" \n "], r#""""#);
        check("to_lower", &["ΑΣ"], r#""ασ""#);
        check("to_upper", &["ß"], r#""ß""#);
    }
}
