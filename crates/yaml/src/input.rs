//! Characters for the YAML parser, when each of them is one byte.
//!
//! Most graphs are ASCII, and then there is nothing to decode: reading gets faster by about a sixth.

use saphyr_parser::Input;

/// An ASCII source that has not been read yet.
#[derive(Debug)]
pub(crate) struct Ascii<'s> {
    rest: &'s [u8],
    /// How many characters the parser has asked to have at hand. We always have all of them.
    at_hand: usize,
}

impl<'s> Ascii<'s> {
    /// Nothing if a character is longer than a byte.
    pub(crate) fn new(source: &'s str) -> Option<Ascii<'s>> {
        source.is_ascii().then_some(Ascii { rest: source.as_bytes(), at_hand: 0 })
    }
}

/// What the parser takes for the end.
const END: char = '\0';

impl Input for Ascii<'_> {
    #[inline]
    fn lookahead(&mut self, count: usize) {
        self.at_hand = self.at_hand.max(count);
    }

    #[inline]
    fn buflen(&self) -> usize {
        self.at_hand
    }

    #[inline]
    fn bufmaxlen(&self) -> usize {
        // How many characters the parser handles between two calls of `lookahead`.
        128
    }

    #[inline]
    fn raw_read_ch(&mut self) -> char {
        let next = self.peek();
        self.skip();
        next
    }

    #[inline]
    fn raw_read_non_breakz_ch(&mut self) -> Option<char> {
        let next = self.peek_opt().filter(|next| !matches!(*next, '\n' | '\r' | END))?;
        self.skip();
        Some(next)
    }

    #[inline]
    fn skip(&mut self) {
        self.skip_n(1);
    }

    #[inline]
    fn skip_n(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    #[inline]
    fn peek(&self) -> char {
        self.peek_nth(0)
    }

    #[inline]
    fn peek_nth(&self, n: usize) -> char {
        self.rest.get(n).map_or(END, |byte| char::from(*byte))
    }

    #[inline]
    fn peek_opt(&self) -> Option<char> {
        self.rest.first().map(|byte| char::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saphyr_parser::Parser;

    #[test]
    fn the_events_are_those_of_the_parser_s_own_input() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
        let mut count = 0;
        for entry in std::fs::read_dir(corpus).unwrap() {
            let Ok(source) = String::from_utf8(std::fs::read(entry.unwrap().path()).unwrap()) else {
                continue;
            };
            // Cut anywhere, so that the end comes at every place.
            for end in (0..=source.len().min(700)).step_by(5).chain([source.len()]) {
                let Some(source) = source.get(..end) else { continue };
                let Some(input) = Ascii::new(source) else { continue };
                let ours: Vec<_> = Parser::new(input).take(5000).collect();
                let theirs: Vec<_> = Parser::new_from_str(source).take(5000).collect();
                assert!(ours == theirs, "{source}");
                count += 1;
            }
        }
        assert!(count > 1000);
    }
}
