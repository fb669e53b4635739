//! The table of what is proven about each kind, and by which test.
//!
//! `crates/resources/tests/PROOFS` names the tests, a line each: `kind: column: file::test`; or why there is nothing to prove:
//! `kind: column: - reason`. A test that is not there is a mistake, and so is a cell that has neither.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::step::{Failed, workspace};

/// Where the list is, below the root of the workspace.
const LIST: &str = "crates/resources/tests/PROOFS";
/// What can be proven about a kind.
const COLUMNS: [(&str, &str); 7] = [
    ("apply", "a clean host gets what is declared"),
    ("idempotent", "applying again changes nothing"),
    ("repaired", "what somebody breaks is repaired, told by an event"),
    ("noop", "looking changes nothing and says what applying would do"),
    ("refused", "what cannot be is refused, with a clear message"),
    ("reversible", "it is undone when it is no longer declared"),
    ("edges", "its place among other resources is found"),
];

/// The page, for these kinds: each with the traits that it has.
pub(crate) fn page(kinds: &Kinds) -> Result<String, Failed> {
    let list = workspace().join(LIST);
    let text = std::fs::read_to_string(&list)
        .map_err(|error| Failed::new(format!("cannot read {LIST}: {error}")))?;
    let proofs = read(&text, kinds, &|file, test| has_test(&workspace().join(path(file)), test))?;
    complete(kinds, &proofs)?;
    Ok(table(kinds, &proofs))
}

/// Kinds with the traits that they have.
type Kinds = BTreeMap<String, BTreeSet<String>>;

type Proofs = BTreeMap<(String, &'static str), Cell>;

/// What the list says about one cell.
enum Cell {
    /// These tests prove it.
    Proven(Vec<String>),
    /// The kind has nothing of the sort, for this reason.
    Absent(String),
}

fn read(text: &str, kinds: &Kinds, is_there: &dyn Fn(&str, &str) -> bool) -> Result<Proofs, Failed> {
    let mut proofs: Proofs = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| Failed::new(format!("{LIST}:{number}: {why}: {line}"));
        // Kinds may have colons in their names, but no spaces behind them.
        let mut parts = line.splitn(3, ": ");
        let (Some(kind), Some(column), Some(proof)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(wrong("expected `kind: column: file::test` or `kind: column: - reason`"));
        };
        if !kinds.contains_key(kind) {
            return Err(wrong("there is no such kind"));
        }
        let column = COLUMNS.iter().find(|(known, _)| *known == column);
        let (column, _) = column.ok_or_else(|| wrong("there is no such column"))?;
        let cell = proofs.entry((kind.to_owned(), *column));
        if let Some(reason) = proof.strip_prefix("- ") {
            match cell {
                Entry::Vacant(cell) => cell.insert(Cell::Absent(reason.to_owned())),
                Entry::Occupied(_) => return Err(wrong("something else is said about this above")),
            };
            continue;
        }
        let (file, name) =
            proof.split_once("::").ok_or_else(|| wrong("expected `file::test` or `- reason` at the end"))?;
        if !is_there(file, name) {
            return Err(wrong("there is no such test"));
        }
        match cell.or_insert_with(|| Cell::Proven(Vec::new())) {
            Cell::Proven(tests) => tests.push(proof.to_owned()),
            Cell::Absent(_) => return Err(wrong("above it says that there is nothing to prove")),
        }
    }
    Ok(proofs)
}

/// Fails, and names them, if there are cells about which nothing is said.
fn complete(kinds: &Kinds, proofs: &Proofs) -> Result<(), Failed> {
    let cells = kinds.iter().flat_map(|(kind, traits)| {
        let columns = COLUMNS.iter().filter(|(column, _)| applies(column, traits));
        columns.map(move |(column, _)| (kind.clone(), *column))
    });
    let empty: Vec<String> = cells
        .filter(|cell| !proofs.contains_key(cell))
        .map(|(kind, column)| format!("  {kind}: {column}"))
        .collect();
    if empty.is_empty() {
        return Ok(());
    }
    Err(Failed::new(format!(
        "{LIST} does not say what proves these; name a test, or say why there is nothing to prove:\n{}",
        empty.join("\n")
    )))
}

/// The columns that are about kinds with these traits.
#[cfg(test)]
pub(crate) fn columns(traits: &BTreeSet<String>) -> Vec<&'static str> {
    COLUMNS.iter().map(|(column, _)| *column).filter(|column| applies(column, traits)).collect()
}

/// Whether a column is about kinds with these traits.
fn applies(column: &str, traits: &BTreeSet<String>) -> bool {
    match column {
        "reversible" => traits.contains("reverse"),
        "edges" => traits.contains("edges"),
        _ => true,
    }
}

/// Where a file of tests is: in the folder of a test program. Those of another crate than that of the resources are named with
/// it: `engine/echo`.
fn path(file: &str) -> String {
    let (krate, file) = file.split_once('/').unwrap_or(("resources", file));
    let tests = format!("crates/{krate}/tests");
    let mut programs: Vec<_> = std::fs::read_dir(workspace().join(&tests))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    programs.sort_unstable();
    let paths = programs.iter().map(|program| format!("{tests}/{program}/{file}.rs"));
    let found = paths.into_iter().find(|path| workspace().join(path).is_file());
    found.unwrap_or_else(|| format!("{tests}/{file}.rs"))
}

fn has_test(path: &Path, test: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("fn {test}()")))
}

fn table(kinds: &Kinds, proofs: &Proofs) -> String {
    let mut page = String::from(
        "<!-- Generated by `cargo xtask docs`; do not edit. -->\n\n# What is proven\n\n\
         Each cell says how many tests prove it, on real files, a real systemd, real packages and accounts; the tests are listed below. \
         A dash: the kind has no such trait; where one could expect it, the list below says why.\n\n",
    );
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(page, "| kind | {} |", COLUMNS.map(|(name, _)| name).join(" | "));
    let _ = writeln!(page, "|---|{}", "---|".repeat(COLUMNS.len()));
    for kind in kinds.keys() {
        let cells = COLUMNS.map(|(column, _)| match proofs.get(&(kind.clone(), column)) {
            Some(Cell::Proven(tests)) => tests.len().to_string(),
            Some(Cell::Absent(_)) | None => "–".to_owned(),
        });
        let _ = writeln!(page, "| `{kind}` | {} |", cells.join(" | "));
    }
    page.push('\n');
    for (column, meaning) in COLUMNS {
        let _ = writeln!(page, "- **{column}**: {meaning}");
    }
    for kind in kinds.keys() {
        let _ = writeln!(page, "\n## `{kind}`\n");
        for (column, _) in COLUMNS {
            match proofs.get(&(kind.clone(), column)) {
                Some(Cell::Proven(tests)) => {
                    for test in tests {
                        let (file, name) = test.split_once("::").unwrap_or((test, ""));
                        let _ =
                            writeln!(page, "- {column}: [{}](../../{})", name.replace('_', " "), path(file));
                    }
                }
                Some(Cell::Absent(reason)) => {
                    let _ = writeln!(page, "- {column}: nothing to prove: {reason}");
                }
                None => {}
            }
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds() -> Kinds {
        [("a:b", "edges"), ("c", "send")]
            .map(|(kind, of)| (kind.to_owned(), BTreeSet::from([of.to_owned()])))
            .into()
    }

    #[test]
    fn cells_are_counted_or_explained() {
        let text = "# a comment\n\na:b: apply: file::works\na:b: apply: file::works_too\nc: noop: - it does: nothing\n";
        let proofs = read(text, &kinds(), &|file, _| file == "file").unwrap();
        let page = table(&kinds(), &proofs);
        assert!(page.contains("| `a:b` | 2 | – |"), "{page}");
        assert!(page.contains("- apply: [works too](../../crates/resources/tests/file.rs)"));
        assert!(page.contains("- noop: nothing to prove: it does: nothing\n"));
    }

    #[test]
    fn a_cell_about_which_nothing_is_said_is_a_mistake() {
        let text = |columns: &[&str], kind: &str| -> String {
            columns.iter().map(|column| format!("{kind}: {column}: file::test\n")).collect()
        };
        let all = ["apply", "idempotent", "repaired", "noop", "refused"];
        let whole = text(&all, "a:b") + &text(&["edges"], "a:b") + &text(&all, "c");
        let check = |text: &str| complete(&kinds(), &read(text, &kinds(), &|_, _| true).unwrap());
        assert!(check(&whole).is_ok());
        for missing in ["a:b: edges", "c: repaired"] {
            let Err(Failed(told)) = check(&whole.replace(&format!("{missing}: file::test\n"), "")) else {
                panic!("{missing}")
            };
            assert!(told.ends_with(&format!(":\n  {missing}")), "{told}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, why) in [
            ("x: apply: file::works", "there is no such kind"),
            ("c: apples: file::works", "there is no such column"),
            ("\nc: apply: file::fails", "there is no such test"),
            ("c apply", "expected `kind: column: file::test`"),
            ("c: apply: works", "expected `file::test` or `- reason`"),
            ("c: apply: file::works\nc: apply: - for no reason", "something else is said"),
            ("c: apply: - for no reason\nc: apply: file::works", "nothing to prove"),
        ] {
            let Err(Failed(told)) = read(text, &kinds(), &|_, test| test == "works") else {
                panic!("{text}")
            };
            assert!(told.contains(why) && told.contains(LIST), "{told}");
        }
    }
}
