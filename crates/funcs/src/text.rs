//! Bytes as characters.
//!
//! Characters are those of UTF-8; a byte that belongs to none counts as one character of its own, U+FFFD.

/// Each character with its offset and its length in bytes.
pub(crate) fn runes(bytes: &[u8]) -> impl DoubleEndedIterator<Item = (usize, char, usize)> {
    let mut offset = 0;
    let mut runes = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            runes.push((offset, character, character.len_utf8()));
            offset += character.len_utf8();
        }
        for _ in chunk.invalid() {
            runes.push((offset, '\u{fffd}', 1));
            offset += 1;
        }
    }
    runes.into_iter()
}

/// How many characters there are.
pub(crate) fn count(bytes: &[u8]) -> usize {
    bytes.utf8_chunks().map(|chunk| chunk.valid().chars().count() + chunk.invalid().len()).sum()
}

/// Maps each character. A stray byte becomes U+FFFD.
pub(crate) fn map(bytes: &[u8], change: impl Fn(char) -> char) -> Vec<u8> {
    let mut out = String::with_capacity(bytes.len());
    out.extend(runes(bytes).map(|(_, character, _)| change(character)));
    out.into_bytes()
}

pub(crate) fn trim_space(bytes: &[u8]) -> &[u8] {
    trim_matches(bytes, char::is_whitespace)
}

pub(crate) fn trim_matches(bytes: &[u8], matches: impl Fn(char) -> bool) -> &[u8] {
    trim_end_matches(trim_start_matches(bytes, &matches), &matches)
}

pub(crate) fn trim_start_matches(bytes: &[u8], matches: impl Fn(char) -> bool) -> &[u8] {
    match runes(bytes).find(|(_, character, _)| !matches(*character)) {
        Some((offset, ..)) => &bytes[offset..],
        None => &[],
    }
}

pub(crate) fn trim_end_matches(bytes: &[u8], matches: impl Fn(char) -> bool) -> &[u8] {
    match runes(bytes).rfind(|(_, character, _)| !matches(*character)) {
        Some((offset, _, width)) => &bytes[..offset + width],
        None => &[],
    }
}

/// Splits at every separator. An empty separator splits into characters.
pub(crate) fn split<'a>(bytes: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    if separator.is_empty() {
        return runes(bytes).map(|(offset, _, width)| &bytes[offset..offset + width]).collect();
    }
    let mut pieces = Vec::new();
    let mut start = 0;
    for found in memchr::memmem::find_iter(bytes, separator) {
        pieces.push(&bytes[start..found]);
        start = found + separator.len();
    }
    pieces.push(&bytes[start..]);
    pieces
}

/// Replaces up to `limit` occurrences. An empty text stands before each character and at the end.
pub(crate) fn replace(bytes: &[u8], old: &[u8], new: &[u8], limit: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut copied = 0;
    let mut put = |offset: usize, length: usize| {
        out.extend_from_slice(&bytes[copied..offset]);
        out.extend_from_slice(new);
        copied = offset + length;
    };
    if old.is_empty() {
        let places = runes(bytes).map(|(offset, ..)| offset).chain([bytes.len()]);
        places.take(limit).for_each(|offset| put(offset, 0));
    } else {
        let places = memchr::memmem::find_iter(bytes, old);
        places.take(limit).for_each(|offset| put(offset, old.len()));
    }
    out.extend_from_slice(&bytes[copied..]);
    out
}

/// The lower-case form that is one character long: the language maps characters one by one.
pub(crate) fn lower(character: char) -> char {
    let mut mapped = character.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        // The only one: a capital I with a dot.
        (Some(first), Some(_)) => first,
        _ => character,
    }
}

/// The upper-case form that is one character long.
pub(crate) fn upper(character: char) -> char {
    let mut mapped = character.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => iota_upper(character),
    }
}

/// The form for the beginning of a word.
pub(crate) fn title(character: char) -> char {
    match character {
        '\u{1c4}'..='\u{1c6}' => '\u{1c5}',
        '\u{1c7}'..='\u{1c9}' => '\u{1c8}',
        '\u{1ca}'..='\u{1cc}' => '\u{1cb}',
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}',
        // Georgian has capitals, but does not begin words with them.
        '\u{10d0}'..='\u{10fa}' | '\u{10fd}'..='\u{10ff}' => character,
        _ => upper(character),
    }
}

/// Greek letters with a small iota below them are the only ones whose capital is one character although the full
/// mapping has two.
fn iota_upper(character: char) -> char {
    let code = character as u32;
    let capital = match code {
        0x1f80..=0x1faf => code | 8,
        0x1fb3 | 0x1fc3 | 0x1ff3 => code + 9,
        _ => code,
    };
    char::from_u32(capital).unwrap_or(character)
}

/// What characters that differ only in case have in common.
pub(crate) fn fold(character: char) -> char {
    match character {
        // The Turkish letters have a case of their own.
        '\u{130}' | '\u{131}' => character,
        _ => lower(upper(character)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_mapped_one_by_one() {
        assert_eq!(map("ΑΣ İ Aß".as_bytes(), lower), "ασ i aß".as_bytes());
        assert_eq!(map("ß ŉ ǆ ᾀ ᾳ ი é".as_bytes(), upper), "ß ŉ Ǆ ᾈ ᾼ Ი É".as_bytes());
        assert_eq!(map("ǆ ǳ ი a".as_bytes(), title), "ǅ ǲ ი A".as_bytes());
        assert_eq!(map(b"A\xffB\xe2\x82", lower), "a\u{fffd}b\u{fffd}\u{fffd}".as_bytes());
    }

    #[test]
    fn folding_joins_what_differs_in_case_only() {
        for (a, b) in
            [('k', '\u{212a}'), ('s', 'ſ'), ('µ', 'Μ'), ('σ', 'ς'), ('ß', 'ẞ'), ('ǅ', 'Ǆ'), ('ᾀ', 'ᾈ')]
        {
            assert_eq!(fold(a), fold(b), "{a} {b}");
        }
        for (a, b) in [('i', 'İ'), ('i', 'ı'), ('I', 'ı'), ('a', 'b')] {
            assert_ne!(fold(a), fold(b), "{a} {b}");
        }
    }

    #[test]
    fn runes_count_every_stray_byte() {
        assert_eq!(count(b"a\xe2\x82\xff"), 4);
        assert_eq!(count("é日".as_bytes()), 2);
        assert_eq!(runes(b"\xc3\xa9\xff").collect::<Vec<_>>(), [(0, 'é', 2), (2, '\u{fffd}', 1)]);
    }
}
