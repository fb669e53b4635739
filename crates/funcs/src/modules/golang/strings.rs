//! `golang/strings`

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::declare::module;
use crate::{Failure, text};

module! {
    path: "golang/strings",
    doc: "Text. Positions count bytes; -1 stands for \"nowhere\".",
    functions: [
        clone, compare, contains, contains_any, count, equal_fold, has_prefix, has_suffix, index, index_any, join,
        last_index, last_index_any, repeat, replace, replace_all, title, to_lower, to_title, to_upper, to_valid_utf_8, trim,
        trim_left, trim_prefix, trim_right, trim_space, trim_suffix,
    ],
}

/// The longest text that repetition makes.
const LONGEST: usize = 1 << 30;

fn position(found: Option<usize>) -> i64 {
    found.map_or(-1, |found| found as i64)
}

/// Whether a character is one of a set. A stray byte counts as U+FFFD.
fn any_of(chars: &[u8]) -> impl Fn(char) -> bool {
    let set: Vec<char> = text::runes(chars).map(|(_, character, _)| character).collect();
    move |character| set.contains(&character)
}

/// The same text.
///
/// ```mcl
/// strings.clone("a") == "a"
/// ```
#[function]
fn clone(s: Str) -> Str {
    s
}

/// -1, 0 or 1 when the first text sorts before, with or after the second. Bytes are compared.
///
/// ```mcl
/// strings.compare("a", "b") == -1
/// ```
#[function]
fn compare(a: &[u8], b: &[u8]) -> i64 {
    a.cmp(b) as i64
}

/// Whether a text occurs within another.
///
/// ```mcl
/// strings.contains("seafood", "foo") == true
/// ```
#[function]
fn contains(s: &[u8], substr: &[u8]) -> bool {
    memchr::memmem::find(s, substr).is_some()
}

/// Whether any of some characters occurs.
///
/// ```mcl
/// strings.contains_any("failure", "ui") == true
/// strings.contains_any("foo", "") == false
/// ```
#[function]
fn contains_any(s: &[u8], chars: &[u8]) -> bool {
    index_any(s, chars) >= 0
}

/// How often a text occurs within another, without overlaps. The empty text occurs once more than there are characters.
///
/// ```mcl
/// strings.count("cheese", "e") == 3
/// strings.count("five", "") == 5
/// ```
#[function]
fn count(s: &[u8], substr: &[u8]) -> i64 {
    let count = match substr {
        [] => text::count(s) + 1,
        substr => memchr::memmem::find_iter(s, substr).count(),
    };
    count as i64
}

/// Whether two texts differ at most in upper and lower case.
///
/// ```mcl
/// strings.equal_fold("Go", "GO") == true
/// ```
#[function]
fn equal_fold(s: &[u8], t: &[u8]) -> bool {
    let folded = |bytes| text::runes(bytes).map(|(_, character, _)| text::fold(character));
    folded(s).eq(folded(t))
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

/// Where a text first occurs within another, or -1.
///
/// ```mcl
/// strings.index("chicken", "ken") == 4
/// strings.index("chicken", "dmr") == -1
/// ```
#[function]
fn index(s: &[u8], substr: &[u8]) -> i64 {
    position(memchr::memmem::find(s, substr))
}

/// Where any of some characters first occurs, or -1.
///
/// ```mcl
/// strings.index_any("chicken", "aeiou") == 2
/// ```
#[function]
fn index_any(s: &[u8], chars: &[u8]) -> i64 {
    let wanted = any_of(chars);
    position(text::runes(s).find(|(_, character, _)| wanted(*character)).map(|(offset, ..)| offset))
}

/// Joins texts with a separator between them.
///
/// ```mcl
/// strings.join(["a", "b",], ", ") == "a, b"
/// ```
#[function]
fn join(elems: Vec<Str>, sep: &[u8]) -> Str {
    let pieces: Vec<_> = elems.iter().map(Str::as_bytes).collect();
    Str::new(pieces.join(sep))
}

/// Where a text last occurs within another, or -1.
///
/// ```mcl
/// strings.last_index("go gopher", "go") == 3
/// ```
#[function]
fn last_index(s: &[u8], substr: &[u8]) -> i64 {
    position(memchr::memmem::rfind(s, substr))
}

/// Where any of some characters last occurs, or -1.
///
/// ```mcl
/// strings.last_index_any("go gopher", "go") == 4
/// ```
#[function]
fn last_index_any(s: &[u8], chars: &[u8]) -> i64 {
    let wanted = any_of(chars);
    position(text::runes(s).rfind(|(_, character, _)| wanted(*character)).map(|(offset, ..)| offset))
}

/// Several copies of a text. A negative count, or a result of more than a gigabyte, is a fatal error.
///
/// ```mcl
/// strings.repeat("na", 2) == "nana"
/// ```
#[function]
fn repeat(s: &[u8], count: i64) -> Result<Str, Failure> {
    let Ok(count) = usize::try_from(count) else {
        return Err(Failure::fatal(format!("can't repeat {count} times, expected at least 0")));
    };
    match s.len().checked_mul(count) {
        Some(length) if length <= LONGEST => Ok(Str::new(s.repeat(count))),
        _ => Err(Failure::fatal(format!("{} bytes {count} times are too many", s.len()))),
    }
}

/// Replaces the first few occurrences of a text by another; a negative number means all of them.
///
/// ```mcl
/// strings.replace("oink oink oink", "k", "ky", 2) == "oinky oinky oink"
/// ```
#[function]
fn replace(s: &[u8], old: &[u8], new: &[u8], n: i64) -> Str {
    Str::new(text::replace(s, old, new, usize::try_from(n).unwrap_or(usize::MAX)))
}

/// Replaces every occurrence of a text by another.
///
/// ```mcl
/// strings.replace_all("oink oink", "oink", "moo") == "moo moo"
/// ```
#[function]
fn replace_all(s: &[u8], old: &[u8], new: &[u8]) -> Str {
    Str::new(text::replace(s, old, new, usize::MAX))
}

/// The first letter of each word in title case. Letters, digits and `_` make a word.
///
/// ```mcl
/// strings.title("her royal highness") == "Her Royal Highness"
/// ```
#[function]
fn title(s: &[u8]) -> Str {
    let mut out = String::with_capacity(s.len());
    let mut before = ' ';
    for (_, character, _) in text::runes(s) {
        out.push(if separates(before) { text::title(character) } else { character });
        before = character;
    }
    Str::new(out)
}

fn separates(character: char) -> bool {
    match character {
        '_' => false,
        character if character.is_ascii() => !character.is_ascii_alphanumeric(),
        character => character.is_whitespace(),
    }
}

/// All letters in lower case, each by itself.
///
/// ```mcl
/// strings.to_lower("Gopher") == "gopher"
/// ```
#[function]
fn to_lower(s: &[u8]) -> Str {
    Str::new(text::map(s, text::lower))
}

/// All letters in title case, each by itself.
///
/// ```mcl
/// strings.to_title("her royal highness") == "HER ROYAL HIGHNESS"
/// ```
#[function]
fn to_title(s: &[u8]) -> Str {
    Str::new(text::map(s, text::title))
}

/// All letters in upper case, each by itself.
///
/// ```mcl
/// strings.to_upper("Gopher") == "GOPHER"
/// ```
#[function]
fn to_upper(s: &[u8]) -> Str {
    Str::new(text::map(s, text::upper))
}

/// Puts a replacement in the place of each run of bytes that are not UTF-8.
///
/// ```mcl
/// strings.to_valid_utf_8("abc", "?") == "abc"
/// ```
#[function]
fn to_valid_utf_8(s: &[u8], replacement: &[u8]) -> Str {
    let mut out = Vec::with_capacity(s.len());
    let mut within = false;
    for chunk in s.utf8_chunks() {
        within &= chunk.valid().is_empty();
        out.extend_from_slice(chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() && !within {
            out.extend_from_slice(replacement);
            within = true;
        }
    }
    Str::new(out)
}

/// Removes characters of a set from both ends.
///
/// ```mcl
/// strings.trim("¡¡¡Hello!!!", "!¡") == "Hello"
/// ```
#[function]
fn trim(s: &[u8], cutset: &[u8]) -> Str {
    Str::new(text::trim_matches(s, any_of(cutset)))
}

/// Removes characters of a set from the beginning.
///
/// ```mcl
/// strings.trim_left("xxhixx", "x") == "hixx"
/// ```
#[function]
fn trim_left(s: &[u8], cutset: &[u8]) -> Str {
    Str::new(text::trim_start_matches(s, any_of(cutset)))
}

/// Removes a text from the beginning, once.
///
/// ```mcl
/// strings.trim_prefix("xxhixx", "x") == "xhixx"
/// ```
#[function]
fn trim_prefix(s: &[u8], prefix: &[u8]) -> Str {
    Str::new(s.strip_prefix(prefix).unwrap_or(s))
}

/// Removes characters of a set from the end.
///
/// ```mcl
/// strings.trim_right("xxhixx", "x") == "xxhi"
/// ```
#[function]
fn trim_right(s: &[u8], cutset: &[u8]) -> Str {
    Str::new(text::trim_end_matches(s, any_of(cutset)))
}

/// The text without white space at its ends.
///
/// ```mcl
/// strings.trim_space(" \t hi \n") == "hi"
/// ```
#[function]
fn trim_space(s: &[u8]) -> Str {
    Str::new(text::trim_space(s))
}

/// Removes a text from the end, once.
///
/// ```mcl
/// strings.trim_suffix("foo.conf", ".conf") == "foo"
/// ```
#[function]
fn trim_suffix(s: &[u8], suffix: &[u8]) -> Str {
    Str::new(s.strip_suffix(suffix).unwrap_or(s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_bytes() {
        assert_eq!((index(b"abc", b""), last_index(b"abc", b""), index(b"", b"a")), (0, 3, -1));
        assert_eq!(index_any("né!".as_bytes(), "!é".as_bytes()), 1);
        assert_eq!(last_index_any("né!né".as_bytes(), "é".as_bytes()), 5);
        assert_eq!((index_any(b"abc", b""), last_index_any(b"", b"a")), (-1, -1));
        assert_eq!(index_any(b"a\xff", b"\xfe"), 1);
        assert!(!contains_any(b"abc", b""));
        assert_eq!((count(b"aaa", b"aa"), count("né".as_bytes(), b"")), (1, 3));
    }

    #[test]
    fn case_does_not_matter_when_folding() {
        assert!(equal_fold("Straße".as_bytes(), "STRAẞE".as_bytes()));
        assert!(equal_fold("kΣ".as_bytes(), "\u{212a}ς".as_bytes()));
        assert!(!equal_fold(b"a", b"ab") && !equal_fold("i".as_bytes(), "İ".as_bytes()));
    }

    #[test]
    fn repeating_has_limits() {
        assert_eq!(repeat(b"ab", 0).unwrap(), "");
        assert!(repeat(b"ab", -1).is_err() && repeat(b"ab", i64::MAX).is_err());
        assert_eq!(repeat(b"", i64::MAX).unwrap(), "");
    }

    #[test]
    fn replacing_stops_when_told() {
        assert_eq!(replace(b"aaa", b"a", b"b", 2), "bba");
        assert_eq!(replace(b"aaa", b"a", b"b", 0), "aaa");
        assert_eq!(replace(b"ab", b"", b"-", 2), "-a-b");
        assert_eq!(replace(b"ab", b"", b"-", -1), "-a-b-");
    }

    #[test]
    fn words_begin_after_what_is_no_letter() {
        assert_eq!(title("hello wOrld ǆ é_x a-b 1c".as_bytes()), "Hello WOrld ǅ É_x A-B 1c");
        assert_eq!(to_title("ǆ".as_bytes()), "ǅ");
    }

    #[test]
    fn runs_of_stray_bytes_become_one_replacement() {
        assert_eq!(to_valid_utf_8(b"a\xff\xfe\xe2\x82b\xff", b"?"), "a?b?");
        assert_eq!(to_valid_utf_8(b"a\xff", b""), "a");
    }

    #[test]
    fn trimming_takes_sets_or_texts() {
        assert_eq!(trim("éaé".as_bytes(), "é".as_bytes()), "a");
        assert_eq!((trim(b"aaa", b"a"), trim(b" a", b"")), (Str::EMPTY, Str::from(" a")));
        assert_eq!((trim_left(b"aab", b"a"), trim_right(b"baa", b"a")), (Str::from("b"), Str::from("b")));
        assert_eq!(
            (trim_prefix(b"aab", b"x"), trim_suffix(b"aab", b"ab")),
            (Str::from("aab"), Str::from("a"))
        );
        assert_eq!((compare(b"a", b"b"), compare(b"b", b"a"), compare(b"", b"")), (-1, 1, 0));
    }
}
