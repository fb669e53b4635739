//! The difference between two texts, line by line, as `diff -u` writes it.

use std::fmt::Write as _;
use std::ops::Range;

/// So many lines around a change are shown.
const CONTEXT: usize = 3;
/// Texts that are further apart than this have nothing in common between their first and last difference: time and
/// memory grow with the square of it.
const MAX_EDITS: usize = 2000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit<'t> {
    Keep(&'t str),
    Remove(&'t str),
    Add(&'t str),
}

/// The difference, ready for `patch -p0`; nothing if there is none.
pub fn unified(name: &str, old: &str, new: &str) -> String {
    let edits = edits(old, new, MAX_EDITS);
    let mut text = String::new();
    let (mut done, mut old_line, mut new_line) = (0, 0, 0);
    for hunk in hunks(&edits) {
        let (kept, shown) = (&edits[done..hunk.start], &edits[hunk.clone()]);
        (old_line, new_line) = (old_line + kept.len(), new_line + kept.len());
        let old_count = shown.iter().filter(|edit| !matches!(edit, Edit::Add(_))).count();
        let new_count = shown.iter().filter(|edit| !matches!(edit, Edit::Remove(_))).count();
        if text.is_empty() {
            text = format!("--- {name}\n+++ {name}\n");
        }
        // Of no lines, the one before them is named. Writing to a string cannot fail.
        let first = |line: usize, count: usize| if count == 0 { line } else { line + 1 };
        let (old_first, new_first) = (first(old_line, old_count), first(new_line, new_count));
        let _ = writeln!(text, "@@ -{old_first},{old_count} +{new_first},{new_count} @@");
        for edit in shown {
            let (mark, line) = match edit {
                Edit::Keep(line) => (' ', line),
                Edit::Remove(line) => ('-', line),
                Edit::Add(line) => ('+', line),
            };
            let end = if line.ends_with('\n') { "" } else { "\n\\ No newline at end of file\n" };
            let _ = write!(text, "{mark}{line}{end}");
        }
        (done, old_line, new_line) = (hunk.end, old_line + old_count, new_line + new_count);
    }
    text
}

/// Which edits are shown together.
fn hunks(edits: &[Edit<'_>]) -> Vec<Range<usize>> {
    let mut hunks: Vec<Range<usize>> = Vec::new();
    for (at, _) in edits.iter().enumerate().filter(|(_, edit)| !matches!(edit, Edit::Keep(_))) {
        let around = at.saturating_sub(CONTEXT)..(at + 1 + CONTEXT).min(edits.len());
        match hunks.last_mut() {
            Some(last) if around.start <= last.end => last.end = around.end,
            _ => hunks.push(around),
        }
    }
    hunks
}

/// What makes the new text out of the old one.
fn edits<'t>(old: &'t str, new: &'t str, limit: usize) -> Vec<Edit<'t>> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let same = |(left, right): &(&&str, &&str)| left == right;
    let head = old.iter().zip(&new).take_while(same).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(same).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let (old_middle, new_middle) = (&old[head..old_end], &new[head..new_end]);
    let middle = shortest(old_middle, new_middle, limit).unwrap_or_else(|| {
        let removed = old_middle.iter().map(|line| Edit::Remove(line));
        removed.chain(new_middle.iter().map(|line| Edit::Add(line))).collect()
    });
    let keep = |line: &&'t str| Edit::Keep(line);
    old[..head].iter().map(keep).chain(middle).chain(old[old_end..].iter().map(keep)).collect()
}

/// The fewest edits, by the algorithm of Myers; nothing if there are more than the limit.
///
/// A diagonal is where the number of lines taken from the old text, less that from the new one, is the same. For
/// each number of edits it notes how far every diagonal can be followed.
fn shortest<'t>(old: &[&'t str], new: &[&'t str], limit: usize) -> Option<Vec<Edit<'t>>> {
    let limit = limit.min(old.len() + new.len());
    let zero = limit + 1;
    let mut furthest = vec![0; 2 * limit + 3];
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    for count in 0..=limit {
        rounds.push(furthest[zero - count - 1..=zero + count + 1].to_vec());
        for at in (zero - count..=zero + count).step_by(2) {
            let (mut from_old, _) = step(&furthest, at, zero, count);
            let mut from_new = from_old + zero - at;
            while from_old < old.len() && from_new < new.len() && old[from_old] == new[from_new] {
                (from_old, from_new) = (from_old + 1, from_new + 1);
            }
            furthest[at] = from_old;
            if from_old >= old.len() && from_new >= new.len() {
                return Some(retrace(old, new, &rounds));
            }
        }
    }
    None
}

/// How far a diagonal is reached by one more edit, and whether that adds a line; else it removes one.
fn step(furthest: &[usize], at: usize, zero: usize, count: usize) -> (usize, bool) {
    let adds = at == zero - count || (at != zero + count && furthest[at - 1] < furthest[at + 1]);
    if adds { (furthest[at + 1], true) } else { (furthest[at - 1] + 1, false) }
}

/// Goes back from the end to the beginning.
fn retrace<'t>(old: &[&'t str], new: &[&'t str], rounds: &[Vec<usize>]) -> Vec<Edit<'t>> {
    let (mut from_old, mut from_new) = (old.len(), new.len());
    let mut edits = Vec::new();
    for (count, furthest) in rounds.iter().enumerate().rev() {
        let zero = count + 1;
        let (reached, adds) = step(furthest, zero + from_old - from_new, zero, count);
        while from_old > reached {
            (from_old, from_new) = (from_old - 1, from_new - 1);
            edits.push(Edit::Keep(old[from_old]));
        }
        if count > 0 && adds {
            from_new -= 1;
            edits.push(Edit::Add(new[from_new]));
        } else if count > 0 {
            from_old -= 1;
            edits.push(Edit::Remove(old[from_old]));
        }
    }
    edits.reverse();
    edits
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
        assert_eq!(unified("x", "", "a\n"), "--- x\n+++ x\n@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(unified("x", "a\n", ""), "--- x\n+++ x\n@@ -1,1 +0,0 @@\n-a\n");
    }

    #[test]
    fn the_edits_lead_from_the_old_text_to_the_new_one() {
        // All pairs of texts of up to five lines out of two.
        let texts: Vec<String> = (0..=5_u32)
            .flat_map(|length| (0..1_u32 << length).map(move |bits| (length, bits)))
            .map(|(length, bits)| (0..length).map(|at| ["a\n", "b\n"][(bits >> at & 1) as usize]).collect())
            .collect();
        for (old, new) in texts.iter().flat_map(|old| texts.iter().map(move |new| (old, new))) {
            for limit in [0, 1, 3, 100] {
                let edits = edits(old, new, limit);
                let side = |left_out: fn(&Edit<'_>) -> bool| -> String {
                    let line = |edit: &Edit<'_>| match *edit {
                        Edit::Keep(line) | Edit::Remove(line) | Edit::Add(line) => line.to_owned(),
                    };
                    edits.iter().filter(|edit| !left_out(edit)).map(line).collect()
                };
                assert_eq!(side(|edit| matches!(edit, Edit::Add(_))), *old, "{old:?} {new:?} {limit}");
                assert_eq!(side(|edit| matches!(edit, Edit::Remove(_))), *new, "{old:?} {new:?} {limit}");
            }
        }
    }
}
