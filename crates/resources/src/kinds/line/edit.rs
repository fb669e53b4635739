//! Finding, adding and removing a block of lines.

/// The lines that are declared: at least one, each without its end.
#[derive(Debug)]
pub(super) struct Block<'a> {
    lines: Vec<&'a [u8]>,
    /// For each number of matched lines, how many still match when the next one does not.
    fallback: Vec<usize>,
}

impl<'a> Block<'a> {
    /// Reads what is declared. Nothing if there is no line in it.
    pub(super) fn new(content: &'a [u8], trim: bool) -> Option<Block<'a>> {
        let content = if trim { trimmed(content) } else { content };
        if content.is_empty() {
            return None;
        }
        let content = content.strip_suffix(b"\n").unwrap_or(content);
        let lines: Vec<&[u8]> = content.split(|byte| *byte == b'\n').map(without_return).collect();
        let fallback = fallback(&lines);
        Some(Block { lines, fallback })
    }

    /// Whether the lines stand somewhere in the text, one after the other.
    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        let mut matched = 0;
        lines(text).any(|line| {
            matched = self.advance(matched, without_end(line));
            matched == self.lines.len()
        })
    }

    /// The text with the lines at its end, ended as its first line is.
    pub(super) fn added_to(&self, text: &[u8]) -> Vec<u8> {
        let end = end_of_lines(text);
        let added: usize = self.lines.iter().map(|line| line.len() + end.len()).sum();
        let mut new = Vec::with_capacity(text.len() + end.len() + added);
        new.extend_from_slice(text);
        if !text.is_empty() && !text.ends_with(b"\n") {
            new.extend_from_slice(end);
        }
        for line in &self.lines {
            new.extend_from_slice(line);
            new.extend_from_slice(end);
        }
        new
    }

    /// The text without the lines, however often they are in it; also where they only come together by the removal of
    /// others. Nothing if they are nowhere in it.
    pub(super) fn removed_from(&self, text: &[u8]) -> Option<Vec<u8>> {
        // What is kept so far, each line with the number of lines of the block that end in it.
        let mut kept: Vec<(&[u8], usize)> = Vec::new();
        let mut removed = false;
        for line in lines(text) {
            let matched = kept.last().map_or(0, |(_, matched)| *matched);
            let matched = self.advance(matched, without_end(line));
            kept.push((line, matched));
            if matched == self.lines.len() {
                kept.truncate(kept.len() - matched);
                removed = true;
            }
        }
        removed.then(|| kept.into_iter().flat_map(|(line, _)| line).copied().collect())
    }

    /// How many lines of the block match up to here, if `matched` did before this line.
    fn advance(&self, matched: usize, line: &[u8]) -> usize {
        advance(&self.lines, &self.fallback, matched, line)
    }
}

/// How the first line of a text ends, and so do new ones.
pub(super) fn end_of_lines(text: &[u8]) -> &'static [u8] {
    if lines(text).next().is_some_and(|line| line.ends_with(b"\r\n")) { b"\r\n" } else { b"\n" }
}

fn advance(lines: &[&[u8]], fallback: &[usize], mut matched: usize, line: &[u8]) -> usize {
    loop {
        if lines.get(matched) == Some(&line) {
            return matched + 1;
        }
        match matched.checked_sub(1) {
            Some(last) => matched = fallback[last],
            None => return 0,
        }
    }
}

/// The failure function of Knuth, Morris and Pratt, so that a block that nearly matches everywhere costs no more.
fn fallback(lines: &[&[u8]]) -> Vec<usize> {
    let mut fallback = vec![0];
    for line in lines.iter().skip(1) {
        let matched = fallback.last().copied().unwrap_or(0);
        let next = advance(lines, &fallback, matched, line);
        fallback.push(next);
    }
    fallback
}

/// The lines of a text, each with its end; only the last may have none.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

pub(super) fn without_end(line: &[u8]) -> &[u8] {
    match line.strip_suffix(b"\n") {
        Some(line) => without_return(line),
        None => without_return(line),
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn trimmed(content: &[u8]) -> &[u8] {
    match std::str::from_utf8(content) {
        Ok(text) => text.trim().as_bytes(),
        Err(_) => content.trim_ascii(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(content: &str) -> Block<'_> {
        Block::new(content.as_bytes(), false).unwrap()
    }

    #[track_caller]
    fn added(content: &str, text: &str, expected: &str) {
        let block = block(content);
        assert!(!block.is_in(text.as_bytes()));
        let new = block.added_to(text.as_bytes());
        assert_eq!(String::from_utf8_lossy(&new), expected);
        assert!(block.is_in(&new));
    }

    #[track_caller]
    fn removed(content: &str, text: &str, expected: &str) {
        let block = block(content);
        assert!(block.is_in(text.as_bytes()));
        let new = block.removed_from(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&new), expected);
        assert!(!block.is_in(&new) && block.removed_from(&new).is_none());
    }

    #[test]
    fn lines_are_compared_whole() {
        assert!(block("b").is_in(b"a\nb\nc"));
        assert!(block("c").is_in(b"a\nb\nc"));
        assert!(block("a\nb").is_in(b"a\na\nb"));
        assert!(!block("a\nb").is_in(b"a\nx\nb\n"));
        assert!(!block("b").is_in(b"a\nbb\n b\nb \n"));
        assert!(!block("b").is_in(b""));
        assert!(block("\n").is_in(b"a\n\nb\n"));
        assert!(!block("\n").is_in(b"a\nb\n"));
    }

    #[test]
    fn a_line_is_added_after_a_newline() {
        added("b", "", "b\n");
        added("b", "a\n", "a\nb\n");
        added("b", "a", "a\nb\n");
        added("b\nc\n", "a\nb", "a\nb\nb\nc\n");
        added("b", "a\r\n", "a\r\nb\r\n");
        added("b\nc", "a\r\nx", "a\r\nx\r\nb\r\nc\r\n");
    }

    #[test]
    fn a_line_is_removed_with_its_end_and_nothing_else() {
        removed("b", "a\nb\nc\n", "a\nc\n");
        removed("b", "a\nb\nc", "a\nc");
        removed("b", "a\nc\nb", "a\nc\n");
        removed("b", "b", "");
        removed("b", "b\nb\na\nb\n", "a\n");
        removed("b", "a\r\nb\r\nc\n", "a\r\nc\n");
        removed("b\nc", "a\nb\nc\nb\n", "a\nb\n");
    }

    #[test]
    fn blocks_that_overlap_or_come_together_are_gone_in_the_end() {
        removed("a\na", "a\na\na\n", "a\n");
        removed("a\na", "a\na\na\na\n", "");
        removed("a\nb", "a\na\nb\nb\n", "");
        removed("a\nb\na", "a\nb\na\nb\na\n", "b\na\n");
        removed("a\na\nb", "a\na\na\nb\nb\n", "a\nb\n");
    }

    #[test]
    fn carriage_returns_at_the_end_of_a_line_make_no_difference() {
        assert!(block("a\nb").is_in(b"a\r\nb\r\n"));
        assert!(block("a\r\nb\r\n").is_in(b"a\nb"));
        assert!(!block("a").is_in(b"\ra\n"));
    }

    #[test]
    fn white_space_around_the_content_is_trimmed_when_asked() {
        let lines = |content, trim| Block::new(content, trim).map(|block| block.lines.concat());
        assert_eq!(lines(b" \t a b\n\n", true), Some(b"a b".to_vec()));
        assert_eq!(lines(b" a", false), Some(b" a".to_vec()));
        assert_eq!(lines("\u{2003}a\u{2003}".as_bytes(), true), Some(b"a".to_vec()));
        assert_eq!(lines(b" \xff ", true), Some(b"\xff".to_vec()));
        assert_eq!(lines(b" \n ", true), None);
        assert_eq!(lines(b"", false), None);
    }

    #[test]
    fn long_lines_and_blocks_cost_no_more_than_their_length() {
        let long = vec![b'x'; 1 << 20];
        let block = Block::new(&long, false).unwrap();
        let text = block.added_to(b"a\n");
        assert_eq!(block.removed_from(&text).unwrap(), b"a\n");
        // A block that nearly matches at every line.
        let nearly = [b"a\n".repeat(20_000), b"b\n".to_vec()].concat();
        let block = Block::new(&nearly, false).unwrap();
        let text = b"a\n".repeat(1 << 20);
        assert!(!block.is_in(&text));
        assert!(block.removed_from(&text).is_none());
    }

    /// All small texts over two lines and all small blocks: the answers agree with each other and with a plain search.
    #[test]
    fn every_small_case_is_right() {
        fn words(length: usize) -> impl Iterator<Item = Vec<&'static [u8]>> {
            (0..1_usize << length).map(move |bits| {
                (0..length).map(|bit| if bits >> bit & 1 == 0 { &b"a"[..] } else { &b"b"[..] }).collect()
            })
        }
        for content in (1..4).flat_map(words) {
            let joined = content.join(&b'\n');
            let block = Block::new(&joined, false).unwrap();
            for text in (0..8).flat_map(words) {
                let plain = text.windows(content.len()).any(|window| window == content);
                for end in ["\n", ""] {
                    let bytes =
                        [text.join(&b'\n'), if text.is_empty() { vec![] } else { end.into() }].concat();
                    assert_eq!(block.is_in(&bytes), plain);
                    let removed = block.removed_from(&bytes);
                    assert_eq!(removed.is_some(), plain);
                    assert!(!block.is_in(&removed.unwrap_or_default()));
                    assert!(block.is_in(&block.added_to(&bytes)));
                }
            }
        }
    }
}
