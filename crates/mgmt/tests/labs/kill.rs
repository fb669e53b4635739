//! A program that is killed at any moment leaves every file whole, and the next one finishes its work.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use mgmt_test_support::numbers::{Numbers, seed};
use mgmt_test_support::program::{mgmt, mgmt_output};

const FILES: usize = 100;
const KILLS: usize = 40;

/// Content that differs in every line, so that a mixture of two versions is seen. More than one page.
fn content(version: usize, file: usize) -> String {
    (0..200).fold(String::new(), |mut text, line| {
        let _ = write!(text, "version {version} file {file} line {line} of two hundred;");
        text
    })
}

fn graph(directory: &Path, version: usize) -> String {
    let mut text = "graph: kill\nresources:\n  file:\n".to_owned();
    for file in 0..FILES {
        let path = directory.join(format!("file{file}"));
        let _ = writeln!(text, "  - name: {}", path.display());
        let _ = writeln!(
            text,
            "    state: exists\n    mode: \"0600\"\n    content: \"{}\"",
            content(version, file)
        );
    }
    text
}

#[test]
fn every_file_is_old_or_new_after_a_kill_at_any_moment() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("managed");
    std::fs::create_dir(&directory).unwrap();
    let prefix = home.path().join("prefix");
    let prefix = prefix.to_str().unwrap();
    let mut numbers = Numbers::new(seed());
    let mut applied = 0;

    for round in 1..=KILLS {
        let file = home.path().join("graph.yaml");
        std::fs::write(&file, graph(&directory, round)).unwrap();
        let before = versions(&directory);
        let mut child = mgmt(&["run", "--prefix", prefix, "yaml", file.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // From the first instant to well into the work, whatever this machine's speed: the wait begins anew each
        // time something has been applied.
        let wanted = numbers.below(FILES + 1);
        let began = std::time::Instant::now();
        while versions(&directory).iter().filter(|version| **version == Some(round)).count() < wanted {
            assert!(began.elapsed() < Duration::from_secs(60), "round {round} does not get on");
        }
        std::thread::sleep(Duration::from_micros(u64::try_from(numbers.below(3_000)).unwrap()));
        child.kill().unwrap();
        child.wait().unwrap();

        let after = versions(&directory);
        for (number, (before, after)) in before.iter().zip(&after).enumerate() {
            assert!(
                after == before || *after == Some(round),
                "file{number}: {before:?} became {after:?} in {round}"
            );
        }
        applied += after.iter().filter(|version| **version == Some(round)).count();
    }
    assert!(applied >= 1_000, "only {applied} files were written in all rounds");

    let file = home.path().join("graph.yaml");
    let arguments = ["run", "--prefix", prefix, "--converger-timeout=0", "--converged-exit", "yaml"];
    let said = mgmt_output(&[&arguments[..], &[file.to_str().unwrap()]].concat());
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(versions(&directory).iter().all(|version| *version == Some(KILLS)));
    let left: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with("file"))
        .collect();
    assert!(left.len() <= FILES, "temporaries pile up: {left:?}");
}

/// The version of each file, `None` if it is not there. A file that is not whole fails the test.
fn versions(directory: &Path) -> Vec<Option<usize>> {
    let version = |file: usize| {
        let text = std::fs::read_to_string(directory.join(format!("file{file}"))).ok()?;
        let number = text.split(' ').nth(1).and_then(|number| number.parse().ok());
        let number = number.unwrap_or_else(|| panic!("file{file} is empty or torn: {text:.60}"));
        assert!(text == content(number, file), "file{file} is not whole");
        Some(number)
    };
    (0..FILES).map(version).collect()
}
