//! Unified line diff of two texts, as `diff -u` writes it.
//!
//! The crate `similar` finds the edits. Its Myers search gives up on the shortest diff when that becomes expensive, as Git's does, so
//! the same texts always have the same diff. A deadline would make it depend on how busy the host is. Its stack grows with the number
//! of lines, so [`MAX_COMPARED_LINES`] bounds both.
//!
//! The hunks are written here, because `similar` ends lines at a carriage return, too, where `patch` does not, and because it leaves
//! out the length of a range of one line, which records and plans have always had.

use std::fmt::Write as _;

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices, group_diff_ops};

/// Number of unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;
/// Number of lines, of both texts together, between their first and their last difference. Texts with more have nothing in common
/// there. At this size random texts take a tenth of a second and less than a megabyte of stack.
const MAX_COMPARED_LINES: usize = 1 << 16;

/// The difference, ready for `patch -p0`; nothing if there is none.
pub fn unified(name: &str, old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut text = String::new();
    for hunk in group_diff_ops(edits(&old, &new), CONTEXT_LINES) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        if text.is_empty() {
            text = format!("--- {name}\n+++ {name}\n");
        }
        // Of no lines, the one before them is named. Writing to a string cannot fail.
        let position = |start: usize, end: usize| (if start == end { start } else { start + 1 }, end - start);
        let (old_line, old_count) = position(first.old_range().start, last.old_range().end);
        let (new_line, new_count) = position(first.new_range().start, last.new_range().end);
        let _ = writeln!(text, "@@ -{old_line},{old_count} +{new_line},{new_count} @@");
        for edit in &hunk {
            write_edit(&mut text, edit, &old, &new);
        }
    }
    text
}

fn edits(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let same = |(left, right): &(&&str, &&str)| left == right;
    let head = old.iter().zip(new).take_while(same).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(same).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let (old_len, new_len) = (old_end - head, new_end - head);
    if old_len + new_len <= MAX_COMPARED_LINES {
        return capture_diff_slices(Algorithm::Myers, old, new);
    }
    vec![
        DiffOp::Equal { old_index: 0, new_index: 0, len: head },
        DiffOp::Replace { old_index: head, old_len, new_index: head, new_len },
        DiffOp::Equal { old_index: old_end, new_index: new_end, len: tail },
    ]
}

fn write_edit(text: &mut String, edit: &DiffOp, old: &[&str], new: &[&str]) {
    let mut write_lines = |mark: char, lines: &[&str]| {
        for line in lines {
            let end = if line.ends_with('\n') { "" } else { "\n\\ No newline at end of file\n" };
            let _ = write!(text, "{mark}{line}{end}");
        }
    };
    let (tag, old_range, new_range) = edit.as_tag_tuple();
    if tag == DiffTag::Equal {
        write_lines(' ', &old[old_range]);
    } else {
        write_lines('-', &old[old_range]);
        write_lines('+', &new[new_range]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_what_is_around_them() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n";
        let new = "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl";
        assert_eq!(
            unified("x", old, new),
            "--- x\n+++ x\n@@ -1,5 +1,5 @@\n a\n-b\n+B\n c\n d\n e\n\
             @@ -9,3 +9,4 @@\n i\n j\n k\n+l\n\\ No newline at end of file\n"
        );
        assert_eq!(unified("x", old, old), "");
        assert_eq!(unified("x", "", ""), "");
        assert_eq!(unified("x", "", "a\n"), "--- x\n+++ x\n@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(unified("x", "a\n", ""), "--- x\n+++ x\n@@ -1,1 +0,0 @@\n-a\n");
        assert_eq!(unified("x", "a\r\rb\n", "a\r\rc\n"), "--- x\n+++ x\n@@ -1,1 +1,1 @@\n-a\r\rb\n+a\r\rc\n");
    }

    /// Applies a unified diff, strictly: every line of context has to be there.
    fn patched(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut new, mut at) = (String::new(), 0);
        let mut lines = diff.split_inclusive('\n').skip(2).peekable();
        while let Some(line) = lines.next() {
            if let Some(header) = line.strip_prefix("@@ -") {
                let (range, _) = header.split_once(" +").unwrap();
                let (first, count) = range.split_once(',').unwrap();
                let first = first.parse::<usize>().unwrap() - usize::from(count != "0");
                new.extend(old[at..first].iter().copied());
                at = first;
                continue;
            }
            let (mark, rest) = line.split_at(1);
            let ends = lines.next_if(|next| next.starts_with('\\')).is_none();
            let rest = if ends { rest } else { rest.trim_end_matches('\n') };
            if mark != "+" {
                assert_eq!(old[at], rest, "{diff}");
                at += 1;
            }
            if mark != "-" {
                new.push_str(rest);
            }
        }
        new.extend(old[at..].iter().copied());
        new
    }

    #[test]
    fn the_diff_leads_from_the_old_text_to_the_new_one() {
        // All pairs of texts of up to five lines out of two, with and without a last line break.
        let texts: Vec<String> = (0..=5_u32)
            .flat_map(|length| (0..1_u32 << length).map(move |bits| (length, bits)))
            .map(|(length, bits)| (0..length).map(|at| ["a\n", "b\n"][(bits >> at & 1) as usize]).collect())
            .flat_map(|text: String| [text.trim_end().to_owned(), text])
            .collect();
        for (old, new) in texts.iter().flat_map(|old| texts.iter().map(move |new| (old, new))) {
            assert_eq!(patched(old, &unified("x", old, new)), *new, "{old:?} {new:?}");
        }
    }

    /// Lines that each are one of so many numbers.
    fn random_lines(mut seed: u64, lines: usize, numbers: u64) -> String {
        let mut line = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{}\n", (seed >> 33) % numbers)
        };
        (0..lines).map(|_| line()).collect()
    }

    #[test]
    fn texts_that_are_far_apart_are_compared_on_a_small_stack() {
        let compare = || {
            for numbers in [2, 10, 1000, 1_000_000_000] {
                let lines = MAX_COMPARED_LINES / 2;
                let (old, new) = (random_lines(1, lines, numbers), random_lines(2, lines, numbers));
                let diff = unified("x", &old, &new);
                assert!(patched(&old, &diff) == new, "{numbers}");
                assert!(diff == unified("x", &old, &new), "{numbers}");
            }
        };
        std::thread::Builder::new().stack_size(1 << 20).spawn(compare).unwrap().join().unwrap();
    }

    #[test]
    fn longer_texts_are_not_compared_between_their_first_and_last_difference() {
        let middle = random_lines(1, MAX_COMPARED_LINES, 1000);
        let (old, new) = (format!("same\na\n{middle}a\nsame\n"), format!("same\nb\n{middle}b\nsame\n"));
        let diff = unified("x", &old, &new);
        assert!(diff.starts_with("--- x\n+++ x\n@@ -1,65540 +1,65540 @@\n same\n-a\n"));
        assert!(diff.ends_with("\n+b\n same\n"));
        assert!(patched(&old, &diff) == new);
        let (old, new) = (format!("a\n{middle}"), format!("b\n{middle}"));
        assert_eq!(unified("x", &old, &new).lines().count(), 3 + 2 + CONTEXT_LINES);
    }
}
