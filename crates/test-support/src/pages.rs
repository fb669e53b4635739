//! What pages for people tell them to do.

use std::path::{Path, PathBuf};

/// A block of a page between two fences.
#[derive(Clone, Debug, PartialEq)]
pub struct Fence {
    /// What is written behind the first fence: `sh`, `mcl part`, or nothing.
    pub language: String,
    /// The lines between the fences.
    pub text: String,
    /// The comment right before it.
    pub comment: Option<String>,
}

/// All blocks of a page. One that stands in a list is as far from the margin as its fence, and so is every line of it.
pub fn fences(page: &str) -> Vec<Fence> {
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
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let of_language = fences(page).into_iter().filter(|fence| fence.language == language);
    of_language.map(|fence| fence.text).collect()
}

/// A step of a page.
#[derive(Debug)]
pub enum Step {
    /// A block that is the content of a file.
    File(String, String),
    /// A block of commands, and the exit code of the last of them; what they say is in the block behind it.
    Run(i32, String),
    /// A block of commands that says this, sooner or later.
    Shows(String, String),
}

/// The blocks of a page that have a comment right before them: `<!-- file: NAME -->`, `<!-- run: CODE -->` or
/// `<!-- shows: TEXT -->`.
pub fn steps(page: &str) -> Vec<Step> {
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
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All pages that somebody has written, by their paths from the top of the project, and their texts. The reference is made by
/// the program, from what other tests look at.
pub fn written() -> Vec<(String, String)> {
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

/// What may differ between a page and what is said each time, by a rule that has a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mask {
    /// `2026-11-16`.
    Date,
    /// `14:03:07`, `08:02:11.482`.
    Time,
    /// `312.4µs`, `8 s`, `1 min 12 s`; and the blanks before one that stands at the end of a column.
    Duration,
    /// `20 KiB`.
    Size,
    /// `3.4.23`.
    Version,
    /// `12 times`.
    Times,
}

/// What differs wherever it stands.
const USUAL: &[Mask] = &[Mask::Date, Mask::Time, Mask::Duration, Mask::Size, Mask::Version];

/// What a page shows is what was said: every line of it, in that order, but for what differs each time.
#[track_caller]
pub fn assert_shown(shown: &str, said: &str) {
    assert_shown_but(&[], shown, said);
}

/// The same, where something else differs, too.
#[track_caller]
pub fn assert_shown_but(masks: &[Mask], shown: &str, said: &str) {
    let masks = [USUAL, masks].concat();
    let said_lines: Vec<String> = said.lines().map(|line| masked(&masks, line)).collect();
    let mut from = said_lines.iter();
    for line in shown.lines().filter(|line| !line.trim().is_empty()) {
        let wanted = masked(&masks, line);
        assert!(
            from.any(|found| *found == wanted),
            "the page shows `{line}`, and not, in this order,\n{said}"
        );
    }
}

/// A line with the name of a mask in place of everything that it covers.
fn masked(masks: &[Mask], line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line.trim_end();
    while let Some(character) = rest.chars().next() {
        // A digit within a word belongs to the word, as in `web1`, and one behind a dot to what is before it.
        let is_inside =
            plain.chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == '.');
        let covered =
            if is_inside { None } else { masks.iter().find_map(|mask| Some((mask, covers(*mask, rest)?))) };
        match covered {
            None => {
                plain.push(character);
                rest = &rest[character.len_utf8()..];
            }
            Some((mask, length)) => {
                if plain.trim().is_empty() && *mask == Mask::Duration {
                    plain.clear();
                }
                plain.push_str(&format!("<{mask:?}>"));
                rest = &rest[length..];
            }
        }
    }
    plain
}

/// How much of the beginning of a text a mask covers, if it does.
fn covers(mask: Mask, text: &str) -> Option<usize> {
    let (covered, after) = match mask {
        Mask::Date => like(text, "####-##-##")?,
        Mask::Time => {
            let (time, after) = like(text, "##:##:##")?;
            after
                .strip_prefix('.')
                .and_then(|after| like(after, "###"))
                .map_or((time, after), |(_, after)| (time + 4, after))
        }
        Mask::Duration => {
            let (length, after) = number_of(text, &["ns", "µs", "ms", "s", "min", "h"])?;
            // "1 min 12 s" is one.
            let more = after.strip_prefix(' ').and_then(|after| covers(Mask::Duration, after));
            let length = length + more.map_or(0, |more| more + 1);
            (length, &text[length..])
        }
        Mask::Size => number_of(text, &["KiB", "MiB", "kB", "MB"])?,
        Mask::Times => number_of(text, &["times"])?,
        Mask::Version => {
            let end = text
                .find(|character: char| !character.is_ascii_digit() && character != '.')
                .unwrap_or(text.len());
            let parts = text[..end].split('.').filter(|part| !part.is_empty()).count();
            (parts == 3 && text[..end].matches('.').count() == 2).then(|| (end, &text[end..]))?
        }
    };
    (!after.starts_with(char::is_alphanumeric)).then_some(covered)
}

/// The beginning of a text that has digits where the form has `#`: how long it is, and what comes after.
fn like<'a>(text: &'a str, form: &str) -> Option<(usize, &'a str)> {
    let head = text.get(..form.len())?;
    let is_like = head.chars().zip(form.chars()).all(|(found, wanted)| match wanted {
        '#' => found.is_ascii_digit(),
        other => found == other,
    });
    is_like.then(|| (form.len(), &text[form.len()..]))
}

/// A number with one of these units, perhaps with a blank between them: how long that is, and what comes after.
fn number_of<'a>(text: &'a str, units: &[&str]) -> Option<(usize, &'a str)> {
    let after = text.trim_start_matches(|character: char| character.is_ascii_digit());
    if after.len() == text.len() {
        return None;
    }
    let after = match after.strip_prefix('.') {
        Some(after) => after.trim_start_matches(|character: char| character.is_ascii_digit()),
        None => after,
    };
    let after = after.strip_prefix(' ').unwrap_or(after);
    let ends = |after: &&str| !after.starts_with(char::is_alphanumeric);
    let after = units.iter().find_map(|unit| after.strip_prefix(unit).filter(ends))?;
    Some((text.len() - after.len(), after))
}
