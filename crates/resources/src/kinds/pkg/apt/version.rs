//! Which of two versions is newer, by the rules of Debian.

use std::cmp::Ordering;

/// Compares two versions: epoch, then what upstream calls it, then what the distribution made of it.
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (epoch_a, a) = epoch(a);
    let (epoch_b, b) = epoch(b);
    let (upstream_a, revision_a) = revision(a);
    let (upstream_b, revision_b) = revision(b);
    parts(epoch_a, epoch_b)
        .then_with(|| parts(upstream_a, upstream_b))
        .then_with(|| parts(revision_a, revision_b))
}

fn epoch(version: &[u8]) -> (&[u8], &[u8]) {
    match version.iter().position(|byte| *byte == b':') {
        Some(colon) => (&version[..colon], &version[colon + 1..]),
        None => (b"0", version),
    }
}

fn revision(version: &[u8]) -> (&[u8], &[u8]) {
    match version.iter().rposition(|byte| *byte == b'-') {
        Some(dash) => (&version[..dash], &version[dash + 1..]),
        None => (version, b""),
    }
}

/// Compares runs of other characters and runs of digits in turn.
fn parts(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        let order =
            words(take(&mut a, |byte| !byte.is_ascii_digit()), take(&mut b, |byte| !byte.is_ascii_digit()))
                .then_with(|| numbers(take(&mut a, u8::is_ascii_digit), take(&mut b, u8::is_ascii_digit)));
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// Cuts off what all comes before the first byte that does not belong.
fn take<'a>(text: &mut &'a [u8], belongs: impl Fn(&u8) -> bool) -> &'a [u8] {
    let end = text.iter().position(|byte| !belongs(byte)).unwrap_or(text.len());
    let (taken, rest) = text.split_at(end);
    *text = rest;
    taken
}

/// A tilde comes before the end, the end before letters, letters before everything else.
fn words(a: &[u8], b: &[u8]) -> Ordering {
    let rank = |byte: Option<&u8>| match byte {
        Some(b'~') => -1,
        None => 0,
        Some(letter) if letter.is_ascii_alphabetic() => i32::from(*letter),
        Some(other) => i32::from(*other) + 256,
    };
    let length = a.len().max(b.len());
    (0..length)
        .map(|at| rank(a.get(at)).cmp(&rank(b.get(at))))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Numbers of any length.
fn numbers(a: &[u8], b: &[u8]) -> Ordering {
    let significant =
        |digits: &'_ [u8]| digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    let (a, b) = (&a[significant(a)..], &b[significant(b)..]);
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_dpkg_orders_them() {
        let ordered = [
            "0~~",
            "0~~a",
            "0~",
            "0",
            "0-0.1",
            "0.1",
            "0.9",
            "0.10",
            "1~rc1",
            "1",
            "1-1",
            "1-1+b1",
            "1-1.1",
            "1-2",
            "1a",
            "1+dfsg",
            "1.0~rc1-1",
            "1.0",
            "1.0.1",
            "10",
            "99999999999999999999999",
            "1:0",
            "2:0~",
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(compare(a.as_bytes(), b.as_bytes()), i.cmp(&j), "{a} and {b}");
            }
        }
        for (a, b) in [("1", "0:1"), ("1.0", "1.00"), ("1", "1-0"), ("01", "1")] {
            assert_eq!(compare(a.as_bytes(), b.as_bytes()), Ordering::Equal, "{a} and {b}");
        }
    }
}
