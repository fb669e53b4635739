//! Finding the place of a line by regular expressions: the line that it replaces, or the one that it follows.

use regex::bytes::{Regex, RegexBuilder};

use super::edit::{end_of_lines, lines, without_end};

/// The largest compiled pattern, in bytes.
const MAX_PATTERN_SIZE: usize = 1 << 20;

/// How a line is found that is not there as it is to be.
#[derive(Debug)]
pub(super) struct Patterns {
    pub(super) matching: Option<Regex>,
    pub(super) after: Option<Regex>,
    /// Several lines may match.
    pub(super) multiple: bool,
    /// A line that matches gives way.
    pub(super) replace: bool,
    /// Every line that matches gives way, also where the wanted line is there already.
    pub(super) replace_all: bool,
    /// Where nothing matches, the line is added.
    pub(super) append: bool,
    /// What matches is removed.
    pub(super) remove_matches: bool,
}

/// More lines match than may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ambiguous {
    pub(super) field: &'static str,
    pub(super) count: usize,
}

/// Reads a pattern. `^` and `$` are the beginning and the end of the line.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(pattern);
    let compiled = builder.unicode(false).multi_line(true).size_limit(MAX_PATTERN_SIZE).build();
    compiled.map_err(|error| error.to_string())
}

impl Patterns {
    /// The text with the line in it. Nothing if it is right as it is.
    pub(super) fn present(&self, wanted: &[u8], text: &[u8]) -> Result<Option<Vec<u8>>, Ambiguous> {
        let is_there = lines(text).any(|line| without_end(line) == wanted);
        let Some(matching) = &self.matching else {
            return if is_there { Ok(None) } else { self.inserted(wanted, text).map(Some) };
        };
        let counts =
            |line: &&[u8]| matching.is_match(line) && !(self.replace_all && without_end(line) == wanted);
        let count = lines(text).filter(counts).count();
        let is_right = match count {
            0 => is_there || !self.append,
            _ if self.replace_all => false,
            _ => is_there || !self.replace,
        };
        if is_right || (count > 0 && !self.replace) {
            return Ok(None);
        }
        if count == 0 {
            return Ok(Some(self.put(wanted, text, true)));
        }
        self.refuse_several("match", count)?;
        let end = end_of_lines(text);
        let mut new = Vec::with_capacity(text.len() + wanted.len());
        for line in lines(text) {
            match matching.is_match(line) {
                true => new.extend([wanted, end].concat()),
                false => new.extend(ended(line, end)),
            }
        }
        Ok((new != text).then_some(new))
    }

    /// The text with the line behind the ones that it is to follow, or at the end.
    fn inserted(&self, wanted: &[u8], text: &[u8]) -> Result<Vec<u8>, Ambiguous> {
        if let Some(after) = &self.after {
            self.refuse_several("after", lines(text).filter(|line| after.is_match(line)).count())?;
        }
        Ok(self.put(wanted, text, false))
    }

    /// Puts the line behind those that match `after`, or behind the first of them, or else at the end.
    fn put(&self, wanted: &[u8], text: &[u8], once: bool) -> Vec<u8> {
        let end = end_of_lines(text);
        let mut new = Vec::with_capacity(text.len() + wanted.len() + end.len());
        let mut placed = false;
        for line in lines(text) {
            new.extend(ended(line, end));
            let follows = self.after.as_ref().is_some_and(|after| after.is_match(line));
            if follows && !(once && placed) {
                new.extend([wanted, end].concat());
                placed = true;
            }
        }
        if !placed {
            new.extend([wanted, end].concat());
        }
        new
    }

    /// The text without the line, or without those that match. Nothing if it is right as it is.
    pub(super) fn absent(&self, unwanted: &[u8], text: &[u8]) -> Result<Option<Vec<u8>>, Ambiguous> {
        let matching = self.matching.as_ref().filter(|_| self.remove_matches);
        let goes = |line: &&[u8]| match matching {
            Some(matching) => matching.is_match(line),
            None => without_end(line) == unwanted,
        };
        let count = lines(text).filter(goes).count();
        if matching.is_some() {
            self.refuse_several("match", count)?;
        }
        let kept = lines(text).filter(|line| !goes(line));
        Ok((count > 0).then(|| kept.flatten().copied().collect()))
    }

    fn refuse_several(&self, field: &'static str, count: usize) -> Result<(), Ambiguous> {
        if count > 1 && !self.multiple { Err(Ambiguous { field, count }) } else { Ok(()) }
    }
}

/// A line with its end, whether it has one or not.
fn ended(line: &[u8], end: &[u8]) -> Vec<u8> {
    if line.ends_with(b"\n") { line.to_vec() } else { [line, end].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(matching: &str, after: &str) -> Patterns {
        let read = |pattern: &str| (!pattern.is_empty()).then(|| compile(pattern).unwrap());
        Patterns {
            matching: read(matching),
            after: read(after),
            multiple: false,
            replace: true,
            replace_all: false,
            append: true,
            remove_matches: false,
        }
    }

    fn present(patterns: &Patterns, text: &str) -> Result<Option<String>, Ambiguous> {
        let new = patterns.present(b"a=1", text.as_bytes())?;
        Ok(new.map(|new| String::from_utf8(new).unwrap()))
    }

    #[test]
    fn a_line_that_matches_gives_way_and_where_none_does_it_is_added() {
        let plain = patterns("^#?a=", "");
        let becomes = |text: &str, expected: &str| {
            assert_eq!(present(&plain, text), Ok(Some(expected.to_owned())));
            assert_eq!(present(&plain, expected), Ok(None));
        };
        becomes("x\n#a=0\ny", "x\na=1\ny\n");
        becomes("x", "x\na=1\n");
        becomes("", "a=1\n");
        becomes("x\r\na=2\r\n", "x\r\na=1\r\n");
        assert_eq!(present(&plain, "a=1\na=2\n"), Ok(None), "it is there already");
        assert_eq!(present(&plain, "a=2\na=3\n"), Err(Ambiguous { field: "match", count: 2 }));
        let several = Patterns { multiple: true, ..patterns("^a=", "") };
        assert_eq!(present(&several, "a=2\na=3\n"), Ok(Some("a=1\na=1\n".into())));
        let all = Patterns { replace_all: true, multiple: true, ..patterns("^a=", "") };
        assert_eq!(present(&all, "a=1\na=3\n"), Ok(Some("a=1\na=1\n".into())));
        assert_eq!(present(&all, "a=1\na=1\n"), Ok(None));
        let kept = Patterns { replace: false, ..patterns("^a=", "") };
        assert_eq!((present(&kept, "a=2\n"), present(&kept, "x\n")), (Ok(None), Ok(Some("x\na=1\n".into()))));
        let only = Patterns { append: false, ..patterns("^a=", "") };
        assert_eq!((present(&only, "x\n"), present(&only, "a=2\n")), (Ok(None), Ok(Some("a=1\n".into()))));
    }

    #[test]
    fn a_line_follows_another() {
        let after = patterns("", "^\\[s\\]$");
        assert_eq!(present(&after, "[s]\nx\n"), Ok(Some("[s]\na=1\nx\n".into())));
        assert_eq!(present(&after, "x\n"), Ok(Some("x\na=1\n".into())));
        assert_eq!(present(&after, "[s]\n[s]\n"), Err(Ambiguous { field: "after", count: 2 }));
        assert_eq!(present(&after, "x\na=1\n"), Ok(None));
        let both = patterns("^a=", "^\\[s\\]$");
        assert_eq!(present(&both, "[s]\n[s]\n"), Ok(Some("[s]\na=1\n[s]\n".into())));
    }

    #[test]
    fn what_matches_is_removed_if_that_is_asked_for() {
        let absent = |patterns: &Patterns, text: &str| {
            Ok::<_, Ambiguous>(
                patterns.absent(b"a=1", text.as_bytes())?.map(|new| String::from_utf8(new).unwrap()),
            )
        };
        let line = patterns("^a=", "");
        assert_eq!(absent(&line, "a=2\n"), Ok(None));
        assert_eq!(absent(&line, "a=1\na=2\na=1"), Ok(Some("a=2\n".into())));
        let matches = Patterns { remove_matches: true, ..patterns("^a=", "") };
        assert_eq!(absent(&matches, "x\na=2\n"), Ok(Some("x\n".into())));
        assert_eq!(absent(&matches, "a=1\na=2\n"), Err(Ambiguous { field: "match", count: 2 }));
        assert_eq!(absent(&matches, "x\n"), Ok(None));
    }

    #[test]
    fn a_pattern_that_cannot_be_read_or_is_too_large_is_told() {
        for wrong in ["(", "a(?=b)", "\\1", "(a{1000}){1000}"] {
            assert!(compile(wrong).is_err(), "{wrong}");
        }
    }
}
