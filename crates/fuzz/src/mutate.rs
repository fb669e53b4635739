//! From a corpus to inputs that nobody has written.

/// Gives one input after the other.
#[derive(Debug)]
pub struct Fuzzer {
    corpus: Vec<Vec<u8>>,
    numbers: u64,
}

/// Longer ones find nothing more, and take longer.
const LONGEST: usize = 16 << 10;

/// What tends to be forgotten.
const PIECES: [&[u8]; 40] = [
    b"\0",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b"\"",
    b"'",
    b"`",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b")",
    b"$",
    b"%",
    b"#",
    b":",
    b",",
    b"=",
    b"/",
    b"..",
    b"-",
    b"0",
    b"-1",
    b"9223372036854775808",
    b"1e999",
    b"0x",
    b"null",
    b"true",
    b"{{",
    b"}}",
    b"&a ",
    b"*a",
    b"\xff\xfe",
    b"\xc3",
    "é".as_bytes(),
    "\u{202e}".as_bytes(),
    b"\x1b[31m",
];

impl Fuzzer {
    /// The same inputs for the same seed and corpus.
    #[must_use]
    pub fn new(corpus: Vec<Vec<u8>>, seed: u64) -> Fuzzer {
        Fuzzer { corpus, numbers: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.numbers ^= self.numbers << 13;
        self.numbers ^= self.numbers >> 7;
        self.numbers ^= self.numbers << 17;
        usize::try_from(self.numbers >> 33).unwrap_or(0) % bound.max(1)
    }

    fn one(&mut self) -> Vec<u8> {
        let at = self.below(self.corpus.len());
        self.corpus.get(at).cloned().unwrap_or_default()
    }

    /// A part of an input.
    fn part(&mut self) -> Vec<u8> {
        let other = self.one();
        let from = self.below(other.len() + 1);
        let to = from + self.below((other.len() - from + 1).min(200));
        other[from..to].to_vec()
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let to = at + self.below((bytes.len() - at + 1).min(64));
        match self.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = u8::try_from(self.below(256)).unwrap_or(0),
            2 => drop(bytes.drain(at..to)),
            3 => drop(bytes.splice(at..at, PIECES[self.below(PIECES.len())].iter().copied())),
            4 => drop(bytes.splice(at..to, PIECES[self.below(PIECES.len())].iter().copied())),
            5 => {
                let again = bytes[at..to].repeat(1 + self.below(20));
                drop(bytes.splice(at..at, again));
            }
            6 => {
                let part = self.part();
                drop(bytes.splice(at..to, part));
            }
            7 => {
                let part = self.part();
                drop(bytes.splice(at..at, part));
            }
            _ => bytes.truncate(at),
        }
    }
}

impl Iterator for Fuzzer {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut bytes = if self.below(50) == 0 { Vec::new() } else { self.one() };
        for _ in 0..=self.below(8) {
            self.change(&mut bytes);
        }
        bytes.truncate(LONGEST);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_another_seed_others() {
        let inputs = |seed| Fuzzer::new(vec![b"hello".to_vec(), b"world".to_vec()], seed).take(1_000);
        assert!(inputs(1).eq(inputs(1)));
        assert!(!inputs(1).eq(inputs(2)));
        assert!(inputs(1).collect::<std::collections::HashSet<_>>().len() > 500);
    }

    #[test]
    fn nothing_in_the_corpus_is_no_mistake() {
        assert_eq!(Fuzzer::new(Vec::new(), 1).take(100).count(), 100);
    }
}
