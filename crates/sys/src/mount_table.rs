//! The text of mount tables: `/proc/self/mountinfo` and `/etc/fstab`.

/// Decodes a field: a backslash and three octal digits are one byte. Anything else is left as it is.
pub fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match (byte, tail) {
            (b'\\', &[a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                plain.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = &tail[3..];
            }
            _ => plain.push(byte),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_octal_digits_are_a_byte_and_all_else_stays() {
        assert_eq!(unescape(br"/mnt/a\040b\x"), br"/mnt/a b\x");
        for same in [&br"a\04"[..], br"a\777", br"a\+12", b""] {
            assert_eq!(unescape(same), same);
        }
    }
}
