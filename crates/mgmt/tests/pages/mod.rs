//! What pages for people tell them to do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "each test file uses its own part of this")]

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
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(comment) = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->")) else {
            continue;
        };
        assert!(lines.next().is_some_and(|line| line.starts_with("```")), "no block behind `{comment}`");
        let mut block = String::new();
        for line in lines.by_ref().take_while(|line| *line != "```") {
            block.push_str(line);
            block.push('\n');
        }
        match comment.split_once(": ") {
            Some(("file", name)) => steps.push(Step::File(name.to_owned(), block)),
            Some(("run", code)) => steps.push(Step::Run(code.parse().unwrap(), block)),
            Some(("shows", text)) => steps.push(Step::Shows(text.to_owned(), block)),
            _ => panic!("what is `{comment}`?"),
        }
    }
    steps
}

/// All blocks of a page in this language.
pub(crate) fn blocks(page: &str, language: &str) -> Vec<String> {
    let begin = format!("\n```{language}\n");
    page.split(&begin)
        .skip(1)
        .map(|rest| rest.split_inclusive("\n").take_while(|line| *line != "```\n").collect())
        .collect()
}
