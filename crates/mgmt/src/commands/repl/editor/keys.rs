//! From the bytes that a terminal sends to keys.

use std::io;
use std::time::Duration;

/// What was pressed, by what it means here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    /// Text that was not typed.
    Paste(String),
    Enter,
    /// A line break that does not end the text.
    Newline,
    Tab,
    Backspace,
    Delete,
    /// Ends an empty text, deletes in another.
    EndOrDelete,
    Left,
    Right,
    Up,
    Down,
    Earlier,
    Later,
    Home,
    End,
    WordLeft,
    WordRight,
    CutToEnd,
    CutToStart,
    CutWord,
    CutWordForward,
    Insert,
    Search,
    Clear,
    Cancel,
    Interrupt,
    /// The terminal has another size.
    Resized,
    /// The terminal is gone, or we are told to go.
    Hangup,
    Other,
}

/// What a source of bytes has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Byte {
    One(u8),
    /// Nothing within the time.
    Nothing,
    Resized,
    End,
}

/// A sequence comes at once; a key that is only the start of one is alone for this long.
const TOGETHER: Duration = Duration::from_millis(50);
/// A sequence that is longer is none.
const MAX_SEQUENCE: usize = 32;
/// As much as a text may have.
const MAX_PASTE: usize = 1 << 20;
const PASTE_END: &[u8] = b"\x1b[201~";

/// Reads the next key.
pub(super) fn next(source: &mut dyn FnMut(Option<Duration>) -> io::Result<Byte>) -> io::Result<Key> {
    let first = match source(None)? {
        Byte::One(first) => first,
        Byte::Nothing => return Ok(Key::Other),
        Byte::Resized => return Ok(Key::Resized),
        Byte::End => return Ok(Key::Hangup),
    };
    Ok(match first {
        b'\r' => Key::Enter,
        b'\n' => Key::Enter,
        b'\t' => Key::Tab,
        0x1b => return escape(source),
        0x7f | 0x08 => Key::Backspace,
        0x00..0x20 => control(first | 0x40),
        0x20..0x80 => Key::Char(char::from(first)),
        _ => return character(first, source),
    })
}

/// What a letter means together with the key Control.
fn control(letter: u8) -> Key {
    match letter {
        b'A' => Key::Home,
        b'B' => Key::Left,
        b'C' => Key::Interrupt,
        b'D' => Key::EndOrDelete,
        b'E' => Key::End,
        b'F' => Key::Right,
        b'G' => Key::Cancel,
        b'K' => Key::CutToEnd,
        b'L' => Key::Clear,
        b'N' => Key::Later,
        b'P' => Key::Earlier,
        b'R' => Key::Search,
        b'U' => Key::CutToStart,
        b'W' => Key::CutWord,
        b'Y' => Key::Insert,
        _ => Key::Other,
    }
}

/// A character of several bytes. Bytes that are no character are passed over.
fn character(first: u8, source: &mut dyn FnMut(Option<Duration>) -> io::Result<Byte>) -> io::Result<Key> {
    let length = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Ok(Key::Other),
    };
    let mut bytes = vec![first];
    while bytes.len() < length {
        match source(Some(TOGETHER))? {
            Byte::One(byte) => bytes.push(byte),
            Byte::Resized => {}
            Byte::Nothing | Byte::End => return Ok(Key::Other),
        }
    }
    let character = std::str::from_utf8(&bytes).ok().and_then(|text| text.chars().next());
    Ok(character.map_or(Key::Other, Key::Char))
}

fn escape(source: &mut dyn FnMut(Option<Duration>) -> io::Result<Byte>) -> io::Result<Key> {
    let mut next = || -> io::Result<Option<u8>> {
        loop {
            match source(Some(TOGETHER))? {
                Byte::One(byte) => return Ok(Some(byte)),
                Byte::Resized => {}
                Byte::Nothing | Byte::End => return Ok(None),
            }
        }
    };
    let Some(second) = next()? else { return Ok(Key::Cancel) };
    Ok(match second {
        b'[' => {
            let mut sequence = Vec::new();
            loop {
                match next()? {
                    Some(byte) if sequence.len() < MAX_SEQUENCE => sequence.push(byte),
                    _ => return Ok(Key::Other),
                }
                if sequence.last().is_some_and(|byte| (0x40..0x7f).contains(byte)) {
                    break;
                }
            }
            if sequence == b"200~" {
                return paste(source);
            }
            sequence_key(&sequence)
        }
        b'O' => match next()? {
            Some(letter) => sequence_key(&[letter]),
            None => Key::Other,
        },
        b'b' | b'B' => Key::WordLeft,
        b'f' | b'F' => Key::WordRight,
        b'd' | b'D' => Key::CutWordForward,
        b'\r' | b'\n' => Key::Newline,
        0x7f | 0x08 => Key::CutWord,
        _ => Key::Other,
    })
}

fn sequence_key(sequence: &[u8]) -> Key {
    match sequence {
        b"A" => Key::Up,
        b"B" => Key::Down,
        b"C" => Key::Right,
        b"D" => Key::Left,
        b"H" | b"1~" | b"7~" => Key::Home,
        b"F" | b"4~" | b"8~" => Key::End,
        b"3~" => Key::Delete,
        b"5~" => Key::Earlier,
        b"6~" => Key::Later,
        b"1;5C" | b"1;3C" => Key::WordRight,
        b"1;5D" | b"1;3D" => Key::WordLeft,
        b"3;5~" | b"3;3~" => Key::CutWordForward,
        _ => Key::Other,
    }
}

/// Everything up to the mark that ends it, whatever it is.
fn paste(source: &mut dyn FnMut(Option<Duration>) -> io::Result<Byte>) -> io::Result<Key> {
    let mut bytes = Vec::new();
    loop {
        match source(None)? {
            Byte::One(byte) => bytes.push(byte),
            Byte::Resized | Byte::Nothing => {}
            Byte::End => return Ok(Key::Hangup),
        }
        if bytes.ends_with(PASTE_END) {
            bytes.truncate(bytes.len() - PASTE_END.len());
            return Ok(Key::Paste(String::from_utf8_lossy(&bytes).into_owned()));
        }
        if bytes.len() > MAX_PASTE + PASTE_END.len() {
            // Too long, and still read to its end. The mark may lie across the cut.
            bytes.drain(..MAX_PASTE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut rest = bytes.iter();
        let mut source = |wait: Option<Duration>| {
            Ok(match (rest.next(), wait) {
                (Some(byte), _) => Byte::One(*byte),
                (None, Some(_)) => Byte::Nothing,
                (None, None) => Byte::End,
            })
        };
        let mut keys = Vec::new();
        loop {
            match next(&mut source).unwrap() {
                Key::Hangup => return keys,
                key => keys.push(key),
            }
        }
    }

    #[test]
    fn letters_of_every_script_are_letters() {
        assert_eq!(keys("aé大".as_bytes()), [Key::Char('a'), Key::Char('é'), Key::Char('大')]);
        assert_eq!(keys(b"\xffa\xc3"), [Key::Other, Key::Char('a'), Key::Other]);
    }

    #[test]
    fn sequences_of_common_terminals_are_known() {
        assert_eq!(
            keys(b"\x1b[A\x1bOB\x1b[H\x1b[4~\x1b[3~"),
            [Key::Up, Key::Down, Key::Home, Key::End, Key::Delete]
        );
        assert_eq!(keys(b"\x1b[1;5C\x1bb\x1b[99;99X"), [Key::WordRight, Key::WordLeft, Key::Other]);
        assert_eq!(
            keys(b"\x01\x05\x0b\x15\x17\x12\x03\x04"),
            [
                Key::Home,
                Key::End,
                Key::CutToEnd,
                Key::CutToStart,
                Key::CutWord,
                Key::Search,
                Key::Interrupt,
                Key::EndOrDelete
            ]
        );
        assert_eq!(keys(b"\x1b"), [Key::Cancel]);
    }

    #[test]
    fn what_is_pasted_is_one_text() {
        assert_eq!(
            keys(b"\x1b[200~a\rb\x1b[A\x1b[201~c"),
            [Key::Paste("a\rb\u{1b}[A".into()), Key::Char('c')]
        );
    }

    #[test]
    fn a_paste_without_an_end_takes_no_more_memory_than_it_may() {
        let mut bytes = b"\x1b[200~".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', 3 * MAX_PASTE));
        bytes.extend(PASTE_END);
        bytes.push(b'!');
        let keys = keys(&bytes);
        assert_eq!(keys.len(), 2);
        assert!(matches!(&keys[0], Key::Paste(text) if text.len() <= MAX_PASTE + PASTE_END.len()));
    }

    #[test]
    fn any_bytes_are_some_keys() {
        let mut seed = 3u64;
        let bytes: Vec<u8> = (0..50_000)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 40) as u8
            })
            .collect();
        assert!(!keys(&bytes).is_empty());
    }
}
