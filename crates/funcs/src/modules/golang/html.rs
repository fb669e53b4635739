//! `golang/html`

use std::collections::HashMap;
use std::sync::OnceLock;

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::declare::module;

module! {
    path: "golang/html",
    doc: "Text in web pages.",
    functions: [escape_string, unescape_string],
}

/// The names of the standard, each with the characters that it stands for. A name includes its semicolon; old names
/// stand there without one as well.
static ENTITIES: &str = include_str!("html/entities.txt");

/// The longest old name.
const LONGEST_OLD: usize = 6;

/// What browsers show for the numbers 0x80 to 0x9f.
static WINDOWS: [u16; 32] = [
    0x20ac, 0x81, 0x201a, 0x192, 0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152, 0x8d,
    0x17d, 0x8f, 0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122, 0x161, 0x203a,
    0x153, 0x9d, 0x17e, 0x178,
];

/// Replaces `<`, `>`, `&`, `'` and `"` by what stands for them in a page.
///
/// ```mcl
/// html.escape_string("<a>") == "&lt;a&gt;"
/// ```
#[function]
fn escape_string(s: &[u8]) -> Str {
    Str::new(escape(s))
}

pub(crate) fn escape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'"' => out.extend_from_slice(b"&#34;"),
            byte => out.push(*byte),
        }
    }
    out
}

/// Puts characters in the places of their names and numbers: `&eacute;`, `&#233;`, `&#xe9;`.
///
/// Old names need no semicolon. What is no name stays as it is.
///
/// ```mcl
/// html.unescape_string("&lt;caf&eacute;&gt; &#x263a;") == "<café> ☺"
/// html.unescape_string("a && b") == "a && b"
/// ```
#[function]
fn unescape_string(s: &[u8]) -> Str {
    let mut out = Vec::with_capacity(s.len());
    let mut rest = s;
    while let Some(start) = memchr::memchr(b'&', rest) {
        out.extend_from_slice(&rest[..start]);
        rest = &rest[start..];
        let (text, length) = entity(rest).unwrap_or_else(|| ("&".to_owned(), 1));
        out.extend_from_slice(text.as_bytes());
        rest = &rest[length..];
    }
    out.extend_from_slice(rest);
    Str::new(out)
}

/// The characters for what begins with `&`, and its length.
fn entity(text: &[u8]) -> Option<(String, usize)> {
    if text.get(1) == Some(&b'#') {
        return numeric(text);
    }
    let name = &text[1..];
    let mut length = name.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(name.len());
    if name.get(length) == Some(&b';') {
        length += 1;
    }
    let name = std::str::from_utf8(&name[..length]).ok()?;
    let lengths = [length].into_iter().chain((2..=LONGEST_OLD.min(length.saturating_sub(1))).rev());
    lengths.filter_map(|length| Some((names().get(name.get(..length)?)?.clone(), length + 1))).next()
}

fn numeric(text: &[u8]) -> Option<(String, usize)> {
    let (radix, start) = match text.get(2) {
        Some(b'x' | b'X') => (16, 3),
        _ => (10, 2),
    };
    let digits = text[start..].iter().take_while(|byte| char::from(**byte).is_digit(radix)).count();
    if digits == 0 {
        return None;
    }
    let end = start + digits;
    let number = text[start..end].iter().fold(0_u32, |number, digit| {
        let digit = char::from(*digit).to_digit(radix).unwrap_or(0);
        number.saturating_mul(radix).saturating_add(digit)
    });
    let number = match number {
        0x80..=0x9f => u32::from(WINDOWS[number as usize - 0x80]),
        0 => 0xfffd,
        number => number,
    };
    let character = char::from_u32(number).unwrap_or('\u{fffd}');
    let semicolon = usize::from(text.get(end) == Some(&b';'));
    Some((character.to_string(), end + semicolon))
}

fn names() -> &'static HashMap<&'static str, String> {
    static NAMES: OnceLock<HashMap<&'static str, String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let entry = |line: &'static str| {
            let (name, codes) = line.split_once(' ')?;
            let code = |code| u32::from_str_radix(code, 16).ok().and_then(char::from_u32);
            Some((name, codes.split(' ').map(code).collect::<Option<String>>()?))
        };
        ENTITIES.lines().filter_map(entry).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_standard_is_known() {
        assert_eq!(ENTITIES.lines().count(), 2231);
        assert_eq!(names().len(), 2231);
        let old = names().keys().filter(|name| !name.ends_with(';'));
        assert_eq!(old.map(|name| name.len()).max(), Some(LONGEST_OLD));
    }

    #[test]
    fn names_and_numbers_become_characters() {
        for (text, expected) in [
            ("&amp;&lt;&gt;&quot;&#39;", "&<>\"'"),
            ("&eacute;&eacute &notit; &notin;", "éé ¬it; ∉"),
            ("&NotEqualTilde;", "≂\u{338}"),
            ("&#233;&#xE9;&#Xe9 x", "ééé x"),
            ("&#128;&#x9F;", "€Ÿ"),
            ("&#0;&#xD800;&#x110000;&#99999999999;", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            ("& && &; &# &#; &#x; &nosuch; &", "& && &; &# &#; &#x; &nosuch; &"),
            ("&ampx", "&x"),
            ("", ""),
        ] {
            assert_eq!(unescape_string(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn escaping_is_undone() {
        let text = b"<a href=\"x\">'&\xff</a>";
        let escaped = b"&lt;a href=&#34;x&#34;&gt;&#39;&amp;\xff&lt;/a&gt;";
        assert_eq!(escape_string(text), Str::new(escaped));
        assert_eq!(unescape_string(&escape_string(text)), Str::new(text));
    }
}
