//! Base64, as OpenSSH writes it.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes that a text stands for. Nothing if it is not what [`encode`] gives.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.chunks(4) {
        let padding = four.iter().rev().take_while(|letter| **letter == b'=').count();
        let mut bits = 0;
        for letter in four.iter().take(four.len() - padding) {
            let value = LETTERS.iter().position(|candidate| candidate == letter)?;
            bits = bits << 6 | u32::try_from(value).ok()?;
        }
        bits <<= 6 * padding;
        let [_, decoded @ ..] = bits.to_be_bytes();
        bytes.extend_from_slice(decoded.get(..3_usize.checked_sub(padding)?)?);
    }
    // Whatever else decodes to the same is another spelling, or has leftovers.
    (encode(&bytes).as_bytes() == text).then_some(bytes)
}

/// The text that stands for some bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for index in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * index) & 63) as usize];
            text.push(if index > three.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_are_read_and_written() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xfe\xfd", "//79"),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes));
        }
    }

    #[test]
    fn what_is_not_quite_right_is_refused() {
        for wrong in
            ["Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9v=", "=Zg=", "====", "Zm9v Zm9v", "Zm9v\n", "Zm-_", "é"]
        {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn everything_comes_back() {
        for length in 0..300_usize {
            let bytes: Vec<u8> = (0..length).map(|index| (index * 7 + length) as u8).collect();
            assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
        }
    }
}
