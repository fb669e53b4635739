//! Paths as text: nothing here looks at a file.

/// The shortest path that means the same: without `.`, doubled slashes, and `..` where it can be undone.
pub(crate) fn clean(path: &[u8]) -> Vec<u8> {
    let rooted = is_abs(path);
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if names.last().is_some_and(|last| *last != b"..") => drop(names.pop()),
            b".." if rooted => {}
            name => names.push(name),
        }
    }
    let joined = names.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", joined.as_slice()].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

pub(crate) fn is_abs(path: &[u8]) -> bool {
    path.starts_with(b"/")
}

/// Joins names, leaving out empty ones, and cleans the result.
pub(crate) fn join<T: AsRef<[u8]>>(names: &[T]) -> Vec<u8> {
    let names: Vec<&[u8]> = names.iter().map(AsRef::as_ref).filter(|name| !name.is_empty()).collect();
    if names.is_empty() { Vec::new() } else { clean(&names.join(&b'/')) }
}

/// The last name.
pub(crate) fn base(path: &[u8]) -> &[u8] {
    if path.is_empty() {
        return b".";
    }
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let trimmed = &path[..end];
    if trimmed.is_empty() { b"/" } else { trimmed.rsplit(|byte| *byte == b'/').next().unwrap_or(trimmed) }
}

/// All but the last name, cleaned.
pub(crate) fn dir(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    clean(&path[..end])
}

/// From the last dot of the last name on.
pub(crate) fn ext(path: &[u8]) -> &[u8] {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let name = &path[start..];
    name.iter().rposition(|byte| *byte == b'.').map_or(&[], |dot| &name[dot..])
}

/// The way from one path to another, or none where `..` would have to be undone.
pub(crate) fn rel(base: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let (base, target) = (clean(base), clean(target));
    if base == target {
        return Some(b".".to_vec());
    }
    if is_abs(&base) != is_abs(&target) {
        return None;
    }
    let names = |path: &[u8]| -> Vec<Vec<u8>> {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
        names.map(<[u8]>::to_vec).collect()
    };
    let (base, target) = (names(&base), names(&target));
    let common = base.iter().zip(&target).take_while(|(a, b)| a == b).count();
    if base[common..].iter().any(|name| name == b"..") {
        return None;
    }
    let up = base[common..].iter().map(|_| b"..".to_vec());
    Some(up.chain(target[common..].iter().cloned()).collect::<Vec<_>>().join(&b'/'))
}

/// Whether a path leads to somewhere below the directory in which it is used.
pub(crate) fn is_local(path: &[u8]) -> bool {
    if path.is_empty() || is_abs(path) {
        return false;
    }
    let clean = clean(path);
    clean != b".." && !clean.starts_with(b"../")
}

/// Whether a path consists of plain names between single slashes.
pub(crate) fn is_plain(path: &[u8]) -> bool {
    let plain = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
    path == b"." || !path.contains(&0) && path.split(|byte| *byte == b'/').all(plain)
}

/// A pattern that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadPattern;

/// Whether a name as a whole fits a shell pattern. `*` and `?` do not cross a slash.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> Result<bool, BadPattern> {
    let pattern = read_pattern(pattern)?;
    let name: Vec<char> = crate::text::runes(name).map(|(_, character, _)| character).collect();
    // The positions in the pattern that can be reached with the characters so far.
    let mut reached = vec![false; pattern.len() + 1];
    reached[0] = true;
    skip_stars(&pattern, &mut reached);
    for character in name {
        let mut next = vec![false; pattern.len() + 1];
        for (at, part) in pattern.iter().enumerate().filter(|(at, _)| reached[*at]) {
            match part {
                Part::Star => next[at] |= character != '/',
                part => next[at + 1] |= part.takes(character),
            }
        }
        reached = next;
        skip_stars(&pattern, &mut reached);
    }
    Ok(reached[pattern.len()])
}

fn skip_stars(pattern: &[Part], reached: &mut [bool]) {
    for (at, part) in pattern.iter().enumerate() {
        if *part == Part::Star {
            reached[at + 1] |= reached[at];
        }
    }
}

#[derive(Debug, PartialEq)]
enum Part {
    Star,
    Any,
    One(char),
    Class { not: bool, ranges: Vec<(char, char)> },
}

impl Part {
    fn takes(&self, character: char) -> bool {
        match self {
            Part::Star => false,
            Part::Any => character != '/',
            Part::One(one) => *one == character,
            Part::Class { not, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *not
            }
        }
    }
}

fn read_pattern(pattern: &[u8]) -> Result<Vec<Part>, BadPattern> {
    let mut characters = crate::text::runes(pattern).map(|(_, character, _)| character).peekable();
    let mut parts = Vec::new();
    while let Some(character) = characters.next() {
        parts.push(match character {
            '*' => Part::Star,
            '?' => Part::Any,
            '\\' => Part::One(characters.next().ok_or(BadPattern)?),
            '[' => {
                let not = characters.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                // A bracket closes the class only after the first range.
                while ranges.is_empty() || characters.next_if_eq(&']').is_none() {
                    let low = bound(&mut characters)?;
                    let ranged = characters.next_if_eq(&'-').is_some();
                    ranges.push((low, if ranged { bound(&mut characters)? } else { low }));
                }
                Part::Class { not, ranges }
            }
            character => Part::One(character),
        });
    }
    Ok(parts)
}

fn bound(characters: &mut std::iter::Peekable<impl Iterator<Item = char>>) -> Result<char, BadPattern> {
    match characters.next() {
        None | Some('-' | ']') => Err(BadPattern),
        Some('\\') => characters.next().ok_or(BadPattern),
        Some(character) => Ok(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: impl AsRef<[u8]>) -> String {
        String::from_utf8(bytes.as_ref().to_vec()).unwrap()
    }

    #[test]
    fn cleaning() {
        for (path, expected) in [
            ("", "."),
            (".", "."),
            ("/", "/"),
            ("//", "/"),
            ("a//b/./c/..", "a/b"),
            ("../a/../..", "../.."),
            ("/../a", "/a"),
            ("a/..", "."),
            ("a/", "a"),
            ("/a/b/../../..", "/"),
        ] {
            assert_eq!(text(clean(path.as_bytes())), expected, "{path}");
        }
    }

    #[test]
    fn parts() {
        for (path, first, last, end) in [
            ("", ".", ".", ""),
            ("/", "/", "/", ""),
            ("///", "/", "/", ""),
            ("a", ".", "a", ""),
            ("/a/b.c", "/a", "b.c", ".c"),
            ("/a/b/", "/a/b", "b", ""),
            ("a.d/b", "a.d", "b", ""),
            ("x/.bashrc", "x", ".bashrc", ".bashrc"),
            ("a.tar.gz", ".", "a.tar.gz", ".gz"),
        ] {
            let path = path.as_bytes();
            assert_eq!(
                (text(dir(path)).as_str(), text(base(path)).as_str(), text(ext(path)).as_str()),
                (first, last, end)
            );
        }
        assert_eq!(text(join(&["a", "", "../b", "/c"])), "b/c");
        assert_eq!(text(join(&["", ""])), "");
        assert_eq!(text(join::<&str>(&[])), "");
    }

    #[test]
    fn ways() {
        for (from, to, expected) in [
            ("a/b", "a/b/c", Some("c")),
            ("a/b", "a/c", Some("../c")),
            ("a/b", "a/b", Some(".")),
            (".", "a", Some("a")),
            ("a", ".", Some("..")),
            ("/a", "/", Some("..")),
            ("/", "/a/b", Some("a/b")),
            ("..", "a", None),
            ("../..", "..", None),
            ("..", "../a", Some("a")),
            ("/a", "a", None),
        ] {
            assert_eq!(rel(from.as_bytes(), to.as_bytes()).map(text).as_deref(), expected, "{from} {to}");
        }
        for (path, local) in [
            ("a", true),
            ("a/../b", true),
            (".", true),
            ("", false),
            ("/a", false),
            ("..", false),
            ("a/../../b", false),
            ("..a", true),
        ] {
            assert_eq!(is_local(path.as_bytes()), local, "{path}");
        }
        for (path, plain) in [
            (".", true),
            ("a/b", true),
            ("", false),
            ("/a", false),
            ("a//b", false),
            ("a/", false),
            ("./a", false),
            ("a/..", false),
            ("a\0", false),
        ] {
            assert_eq!(is_plain(path.as_bytes()), plain, "{path}");
        }
    }

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("abc", "abc", Ok(true)),
            ("*", "abc", Ok(true)),
            ("*", "", Ok(true)),
            ("*c", "abc", Ok(true)),
            ("a*", "ab/c", Ok(false)),
            ("a*/b", "a/c/b", Ok(false)),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", Ok(true)),
            ("a*b?c*x", "abxbbxdbxebxczzx", Ok(true)),
            ("a*b?c*x", "abxbbxdbxebxczzy", Ok(false)),
            ("ab[c]", "abc", Ok(true)),
            ("ab[b-d]", "abc", Ok(true)),
            ("ab[^b-d]", "abc", Ok(false)),
            ("a[^a]b", "a☺b", Ok(true)),
            ("a???b", "a☺b", Ok(false)),
            ("a?b", "a/b", Ok(false)),
            ("a\\*b", "a*b", Ok(true)),
            ("a\\*b", "ab", Ok(false)),
            ("[\\]a]", "]", Ok(true)),
            ("[\\-x]", "-", Ok(true)),
            ("[x\\-]", "z", Ok(false)),
            ("[]a]", "]", Err(BadPattern)),
            ("[-]", "-", Err(BadPattern)),
            ("[x-]", "x", Err(BadPattern)),
            ("[", "a", Err(BadPattern)),
            ("[^bc", "a", Err(BadPattern)),
            ("a[", "ab", Err(BadPattern)),
            ("\\", "a", Err(BadPattern)),
            ("*x", "xxx", Ok(true)),
            ("", "", Ok(true)),
            ("", "a", Ok(false)),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_no_longer() {
        let pattern = "a*".repeat(500) + "b";
        assert_eq!(matches(pattern.as_bytes(), "a".repeat(1000).as_bytes()), Ok(false));
    }
}
