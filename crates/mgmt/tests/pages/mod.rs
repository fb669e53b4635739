//! What pages for people tell them to do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::path::{Path, PathBuf};

/// A block of a page between two fences.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fence {
    /// What is written behind the first fence: `sh`, `mcl part`, or nothing.
    pub(crate) language: String,
    pub(crate) text: String,
    /// The comment right before it.
    pub(crate) comment: Option<String>,
}

/// All blocks of a page. One that stands in a list is as far from the margin as its fence, and so is every line of it.
pub(crate) fn fences(page: &str) -> Vec<Fence> {
    let mut fences = Vec::new();
    let (mut lines, mut before) = (page.lines(), "");
    while let Some(line) = lines.next() {
        let margin = line.len() - line.trim_start().len();
        if let Some(language) = line.trim_start().strip_prefix("```") {
            let mut text = String::new();
            loop {
                let line = lines.next().unwrap_or_else(|| panic!("a block that does not end: {page}"));
                let (gap, rest) = line.split_at_checked(margin).unwrap_or((line, ""));
                assert!(gap.trim().is_empty(), "`{line}` is further out than its fence");
                if rest == "```" {
                    break;
                }
                text.push_str(rest);
                text.push('\n');
            }
            let comment =
                before.trim().strip_prefix("<!-- ").and_then(|comment| comment.strip_suffix(" -->"));
            let comment = comment.map(str::to_owned);
            fences.push(Fence { language: language.to_owned(), text, comment });
        }
        before = line;
    }
    fences
}

/// All blocks of a page in this language.
pub(crate) fn blocks(page: &str, language: &str) -> Vec<String> {
    let of_language = fences(page).into_iter().filter(|fence| fence.language == language);
    of_language.map(|fence| fence.text).collect()
}

/// A step of a page.
#[derive(Debug)]
pub(crate) enum Step {
    /// A block that is the content of a file.
    File(String, String),
    /// A block of commands, and the exit code of the last of them; what they say is in the block behind it.
    Run(i32, String),
    /// A block of commands that says this, sooner or later.
    Shows(String, String),
}

/// The blocks of a page that have a comment right before them: `<!-- file: NAME -->`, `<!-- run: CODE -->` or
/// `<!-- shows: TEXT -->`.
pub(crate) fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for Fence { text, comment, .. } in fences(page) {
        let Some(comment) = comment else { continue };
        match comment.split_once(": ") {
            Some(("file", name)) => steps.push(Step::File(name.to_owned(), text)),
            Some(("run", code)) => steps.push(Step::Run(code.parse().unwrap(), text)),
            Some(("shows", shown)) => steps.push(Step::Shows(shown.to_owned(), text)),
            _ => panic!("what is `{comment}`?"),
        }
    }
    // A comment of that form with no block behind it is a mistake, too.
    assert_eq!(
        steps.len(),
        page.lines().filter(|line| line.trim().starts_with("<!-- ")).count(),
        "no block behind a comment"
    );
    steps
}

/// The top of the project.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All pages that somebody has written, by their paths from the top of the project, and their texts. The reference is made by
/// the program, from what other tests look at.
pub(crate) fn written() -> Vec<(String, String)> {
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    let mut directories = vec!["docs".to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(root().join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{directory}/{}", entry.file_name().to_str().unwrap());
            match entry.path().is_dir() {
                true if path == "docs/reference" => {}
                true => directories.push(path),
                false if path.ends_with(".md") => pages.push(path),
                false => {}
            }
        }
    }
    pages.sort();
    let read = |page: String| {
        let text = std::fs::read_to_string(root().join(&page)).unwrap();
        (page, text)
    };
    pages.into_iter().map(read).collect()
}

/// What a page shows is what was said: every line of it, in that order. Numbers with their units may differ, and so may what
/// stands behind `…`.
#[track_caller]
pub(crate) fn assert_shown(shown: &str, said: &str) {
    let plain: Vec<String> = said.lines().map(without_numbers).collect();
    let mut from = plain.iter();
    for line in shown.lines().filter(|line| !line.trim().is_empty()) {
        let wanted = without_numbers(line);
        let is_it = |found: &&String| match wanted.split_once('…') {
            Some((begin, end)) => found.starts_with(begin) && found.ends_with(end),
            None => **found == wanted,
        };
        assert!(from.any(|found| is_it(&found)), "the page shows `{line}`, and not\n{said}");
    }
}

/// A line with a zero in place of each number, with all that belongs to it.
fn without_numbers(line: &str) -> String {
    const UNITS: [&str; 9] = ["ns", "µs", "ms", "s", "min", "KiB", "MiB", "MB", "kB"];
    let mut plain = String::new();
    let mut rest = line.trim_end();
    while let Some(character) = rest.chars().next() {
        // A digit within a word belongs to the word, as in `web1`.
        let is_number =
            character.is_ascii_digit() && !plain.chars().next_back().is_some_and(char::is_alphabetic);
        if !is_number {
            plain.push(character);
            rest = &rest[character.len_utf8()..];
            continue;
        }
        rest =
            rest.trim_start_matches(|character: char| character.is_ascii_digit() || ".:".contains(character));
        plain.push('0');
        let bare = rest.trim_start_matches(' ');
        let is_end = |rest: &str| !rest.chars().next().is_some_and(char::is_alphanumeric);
        if let Some(unit) = UNITS.iter().find(|unit| bare.strip_prefix(**unit).is_some_and(is_end)) {
            rest = &bare[unit.len()..];
        }
    }
    plain
}
