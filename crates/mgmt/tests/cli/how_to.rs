//! What pages for people tell them to do is done.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::program;
use std::path::{Path, PathBuf};
use std::process::Command;

use mgmt_test_support::pages::{Step, blocks, steps, written};

/// Does all that a page says, in an empty directory, and gives what was said on both streams.
fn follow(page: &Path) -> Vec<(String, String)> {
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
                said.push((String::from_utf8(output.stdout).unwrap(), errors.into_owned()));
            }
            Step::Shows(..) => panic!("nothing comes later here"),
        }
    }
    said
}

#[test]
fn a_module_is_moved_from_puppet_as_the_page_says() {
    let page = page("how-to/coming-from-puppet.md");
    let said = follow(&page);
    let text = std::fs::read_to_string(page).unwrap();
    assert_eq!(said.len(), 3);
    assert!(text.contains(&format!("```text\n{}```\n", said[0].0)), "the page does not show\n{}", said[0].0);
    assert_eq!(said[1].0, "no difference: 2 resources\n");
    assert_eq!(said[2].0, "no difference: 3 resources\n");
}

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

#[test]
fn functions_are_written_as_the_page_says() {
    let page = page("how-to/write-a-function.md");
    let said = follow(&page);
    assert!(said[0].1.contains("Hi Ada!") && said[0].1.contains("12 characters"), "{said:?}");
    assert!(said[1].1.contains("3 files"), "{said:?}");
    // What it shows of the program itself is there, word for word.
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../funcs/src/modules");
    let source = std::fs::read_to_string(modules.join("os.rs")).unwrap();
    let shown = blocks(&std::fs::read_to_string(page).unwrap(), "rust");
    assert_eq!(shown.len(), 2);
    // The first is what `cargo xtask new-function` writes.
    assert!(source.contains(&shown[1]), "{}", shown[1]);
}

#[test]
fn every_program_in_the_pages_is_right() {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("main.mcl");
    let mut checked = 0;
    for (page, text) in written() {
        // A part of a program says so: "```mcl part".
        for block in blocks(&text, "mcl") {
            std::fs::write(&program, &block).unwrap();
            let said = program::mgmt_output(&["check", "lang", program.to_str().unwrap()]);
            assert_eq!(said.code, 0, "{page}: {}", said.stderr);
            checked += 1;
        }
    }
    assert!(checked >= 12, "only {checked} programs were found");
}
