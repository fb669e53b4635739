//! The table of threats is complete, and what it names is there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const TABLE: &str = include_str!("README.md");
/// As many as there are in the list that the table follows.
const THREATS: usize = 32;

/// The files of this program that have tests.
const FILES: [(&str, &str); 8] = [
    ("races.rs", include_str!("races.rs")),
    ("reading.rs", include_str!("reading.rs")),
    ("crash.rs", include_str!("crash.rs")),
    ("hostile.rs", include_str!("hostile.rs")),
    ("host.rs", include_str!("host.rs")),
    ("outside.rs", include_str!("outside.rs")),
    ("store.rs", include_str!("store.rs")),
    ("trust.rs", include_str!("trust.rs")),
];

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

/// A function of this name that is a test: a suite that every store runs has its tests from a macro, which has them as rows.
fn has_test(file: &Path, test: &str) -> bool {
    let Ok(text) = std::fs::read_to_string(file) else { return false };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_it =
        |line: &str| line.split_once("fn ").is_some_and(|(_, rest)| rest.starts_with(&format!("{test}(")));
    let is_marked = |at: usize| {
        let above =
            lines[..at].iter().rev().take_while(|line| line.starts_with('#') || line.starts_with("//"));
        above.into_iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    };
    let is_of_a_suite = file.ends_with("store-suite/src/shared_state.rs");
    lines.iter().enumerate().any(|(at, line)| is_it(line) && (is_marked(at) || is_of_a_suite))
}

#[test]
fn only_what_is_marked_is_taken_for_a_test() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("tests.rs");
    std::fs::write(
        &file,
        "#[test]\n// why\nfn one() {}\n\nfn two() {}\n#[tokio::test]\nasync fn three() {}\n",
    )
    .unwrap();
    assert!(has_test(&file, "one") && has_test(&file, "three"));
    assert!(!has_test(&file, "two") && !has_test(&file, "on"));
}

/// The tests of this program that answer a threat.
fn ours() -> BTreeSet<String> {
    let lines = FILES.iter().flat_map(|(_, source)| source.lines());
    let names = lines.filter_map(|line| line.strip_prefix("fn ")?.strip_suffix("() {"));
    names.filter(|name| name.starts_with("threat_")).map(str::to_owned).collect()
}

#[test]
fn every_threat_is_answered_or_said_to_be_open() {
    let rows = rows();
    let numbers: Vec<usize> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=THREATS).collect::<Vec<_>>(), "the table has each threat once, in order");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/labs/security");
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
                    let file =
                        FILES.iter().map(|(file, _)| here.join(file)).find(|file| has_test(file, test));
                    (file.unwrap_or_else(|| panic!("threat {number}: no test {test}")), test)
                }
            };
            assert!(has_test(&file, name), "threat {number}: there is no test {test}");
        }
    }
    assert_eq!(named, ours(), "every test of this program is in the table");
}
