//! Patterns of names, as a shell has them: `*`, `?`, `[a-z]`, `[!a-z]`, and a backslash before what stands for itself.

/// Whether a name is like a pattern. A dot at the beginning is nothing special.
pub(super) fn is_like(name: &[u8], pattern: &[u8]) -> bool {
    // Where to go on if what follows the last star does not fit: the star may stand for one more.
    let (mut at, mut of, mut again) = (0, 0, None);
    loop {
        if pattern.get(of) == Some(&b'*') {
            again = Some((at, of + 1));
            of += 1;
            continue;
        }
        if at == name.len() && of == pattern.len() {
            return true;
        }
        let one = name.get(at).and_then(|byte| one(*byte, &pattern[of..]));
        if let Some(length) = one {
            at += 1;
            of += length;
            continue;
        }
        match again {
            Some((from, after)) if from < name.len() => {
                (at, of, again) = (from + 1, after, Some((from + 1, after)));
            }
            _ => return false,
        }
    }
}

/// Whether a byte is like the beginning of a pattern, and how long that is.
fn one(byte: u8, pattern: &[u8]) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', set @ ..] => match among(byte, set) {
            Some((found, length)) => found.then_some(1 + length),
            // Without an end, it is a bracket.
            None => (byte == b'[').then_some(1),
        },
        [plain, ..] => (*plain == byte).then_some(1),
    }
}

/// Whether a byte is in a set, and how long the set is, with its end.
fn among(byte: u8, set: &[u8]) -> Option<(bool, usize)> {
    let negated = matches!(set.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let (first, mut found) = (at, false);
    loop {
        match *set.get(at)? {
            b']' if at > first => return Some((found != negated, at + 1)),
            low => match (set.get(at + 1), set.get(at + 2)) {
                (Some(b'-'), Some(&high)) if high != b']' => {
                    found |= (low..=high).contains(&byte);
                    at += 3;
                }
                _ => {
                    found |= low == byte;
                    at += 1;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_like;

    #[test]
    fn names_are_like_patterns_as_in_a_shell() {
        for (pattern, like, unlike) in [
            ("*", &["", "a", ".a"][..], &[][..]),
            ("*.tmp", &["a.tmp", ".tmp", "a.b.tmp"], &["tmp", "a.tmpx"]),
            ("[0-9]pub*.tmp", &["1pub.tmp", "9pubx.tmp"], &["pub.tmp", "apub.tmp"]),
            ("tmpfile?", &["tmpfile1"], &["tmpfile", "tmpfile12"]),
            ("[!a]*", &["b", "ba"], &["a", "ab", ""]),
            ("[]x]", &["]", "x"], &["a"]),
            ("a\\*", &["a*"], &["ab"]),
            ("[a", &["[a"], &["a"]),
            ("*a*b*a", &["aba", "xaxbxa"], &["ab", "abax"]),
            ("", &[""], &["a"]),
        ] {
            for name in like {
                assert!(is_like(name.as_bytes(), pattern.as_bytes()), "{name} {pattern}");
            }
            for name in unlike {
                assert!(!is_like(name.as_bytes(), pattern.as_bytes()), "{name} {pattern}");
            }
        }
    }
}
