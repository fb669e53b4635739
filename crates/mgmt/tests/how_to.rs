//! What pages for people tell them to do is done.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

/// A step of a page.
enum Step {
    /// A block that is the content of a file.
    File(String, String),
    /// A block of commands, and the exit code of the last of them; what they say is in the block behind it.
    Run(i32, String),
}

/// The blocks of a page that have a comment right before them: `<!-- file: NAME -->` or `<!-- run: CODE -->`.
fn steps(page: &str) -> Vec<Step> {
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
            _ => panic!("what is `{comment}`?"),
        }
    }
    steps
}

/// Does all that a page says, in an empty directory, and gives what was said.
fn follow(page: &Path) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_mgmt")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut said = Vec::new();
    for step in steps(&std::fs::read_to_string(page).unwrap()) {
        match step {
            Step::File(name, content) => std::fs::write(place.path().join(name), content).unwrap(),
            Step::Run(code, commands) => {
                let mut shell = Command::new("sh");
                shell.arg("-ec").arg(&commands).env("PATH", &path).current_dir(place.path());
                let output = shell.output().unwrap();
                let errors = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(code), "{commands}{errors}");
                said.push(String::from_utf8(output.stdout).unwrap());
            }
        }
    }
    said
}

#[test]
fn a_module_is_moved_from_puppet_as_the_page_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/coming-from-puppet.md");
    let said = follow(&page);
    let text = std::fs::read_to_string(page).unwrap();
    assert_eq!(said.len(), 3);
    assert!(text.contains(&format!("```\n{}```\n", said[0])), "the page does not show\n{}", said[0]);
    assert_eq!(said[1], "no difference: 2 resources\n");
    assert_eq!(said[2], "no difference: 3 resources\n");
}

#[test]
fn every_program_in_the_pages_is_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for directory in ["docs/tutorial", "docs/how-to", "docs/explanation"] {
        pages.extend(std::fs::read_dir(root.join(directory)).unwrap().map(|entry| entry.unwrap().path()));
    }
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("main.mcl");
    let mut checked = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        // A part of a program says so: "```mcl part".
        for block in text.split("\n```mcl\n").skip(1) {
            std::fs::write(&program, block.split("\n```").next().unwrap()).unwrap();
            let said = common::said(&["check", "lang", program.to_str().unwrap()]);
            assert_eq!(said.code, 0, "{}: {}", page.display(), said.stderr);
            checked += 1;
        }
    }
    assert!(checked >= 8, "only {checked} programs were found");
}
