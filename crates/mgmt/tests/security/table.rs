//! The table of threats is complete, and what it names is there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const TABLE: &str = include_str!("README.md");
/// As many as there are in the list that the table follows.
const THREATS: usize = 32;

/// A line of the table.
struct Row {
    number: usize,
    answer: String,
}

fn rows() -> Vec<Row> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let number = cells.first()?.parse().ok()?;
        assert_eq!(cells.len(), 3, "a line of the table has a number, a threat and an answer: {line}");
        assert!(!cells[1].is_empty(), "{line}");
        Some(Row { number, answer: cells[2].to_owned() })
    };
    TABLE.lines().filter_map(row).collect()
}

/// What stands between backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn has_test(file: &Path, test: &str) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("fn {test}(")))
}

/// The tests of this program that answer a threat.
fn ours() -> BTreeSet<String> {
    let sources = [include_str!("races.rs"), include_str!("crash.rs"), include_str!("hostile.rs")];
    let lines = sources.iter().flat_map(|source| source.lines());
    let names = lines.filter_map(|line| line.strip_prefix("fn ")?.strip_suffix("() {"));
    names.filter(|name| name.starts_with("threat_")).map(str::to_owned).collect()
}

#[test]
fn every_threat_is_answered_or_said_to_be_open() {
    let rows = rows();
    let numbers: Vec<usize> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=THREATS).collect::<Vec<_>>(), "the table has each threat once, in order");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/security");
    let mut named = BTreeSet::new();
    for row in &rows {
        let number = row.number;
        let tests = quoted(&row.answer);
        let is_open = row.answer.starts_with("Not yet: ") && row.answer.len() > 30;
        assert!(is_open || !tests.is_empty(), "threat {number}: neither a test nor a reason");
        for test in tests {
            let (file, name) = match test.split_once("::") {
                Some((file, name)) => (workspace().join("crates").join(file), name),
                None => {
                    assert!(test.starts_with(&format!("threat_{number:02}_")), "threat {number}: {test}");
                    named.insert(test.to_owned());
                    let files = ["races.rs", "crash.rs", "hostile.rs"].map(|file| here.join(file));
                    let file = files.into_iter().find(|file| has_test(file, test));
                    (file.unwrap_or_else(|| panic!("threat {number}: no test {test}")), test)
                }
            };
            assert!(has_test(&file, name), "threat {number}: there is no test {test}");
        }
    }
    assert_eq!(named, ours(), "every test of this program is in the table");
}
