//! What the checker says, mistake by mistake.
//!
//! The cases are in `diagnostics/*.mcl`, one file per subject. A case starts with a line `#### its name`; inside of
//! it a line `#### -- path` starts another file of the same program. What is said about the cases of `x.mcl` stands in
//! `x.out`. To add a case, append it, and run the tests with `MGMT_UPDATE=1`.
//!
//! A program without errors is evaluated, so that what is only seen then is here too.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{checked, evaluated};
use mgmt_diagnostics::{Diagnostic, SourceMap, Span};
use mgmt_lang::module::Memory;

/// A program with a name.
struct Case {
    name: String,
    files: Vec<(String, Vec<u8>)>,
}

#[test]
fn every_mistake_is_told_as_expected() {
    let update = std::env::var_os("MGMT_UPDATE").is_some();
    let mut wrong = String::new();
    let mut expected_files = BTreeSet::new();
    for (group, cases) in groups() {
        let path = directory().join(format!("{group}.out"));
        let said: String = cases.iter().map(told).collect();
        if update {
            fs::write(&path, &said).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        wrong.push_str(&difference(&group, &expected, &said));
        expected_files.insert(path);
    }
    for path in files_ending_in("out") {
        if !expected_files.contains(&path) {
            writeln!(wrong, "{} belongs to no cases", path.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}\nif all of this is meant, run the tests with MGMT_UPDATE=1");
}

#[test]
fn every_code_is_told_at_least_once() {
    let mut told = BTreeSet::new();
    for (_, cases) in groups() {
        for case in cases {
            told.extend(case.diagnostics().1.iter().map(|diagnostic| diagnostic.code.unwrap()));
        }
    }
    // A text of 4 GiB, and what only the formatter says.
    let impossible = ["M0002", "M0099"];
    let codes = mgmt_syntax::CODES.iter().chain(mgmt_lang::CODES).map(|row| row.0);
    let missing: Vec<&str> =
        codes.filter(|code| !told.contains(code) && !impossible.contains(code)).collect();
    assert!(missing.is_empty(), "no case shows {missing:?}");
}

#[test]
fn there_are_many_cases_and_their_names_differ() {
    let mut names = BTreeSet::new();
    for (group, cases) in groups() {
        for case in cases {
            assert!(names.insert(case.name.clone()), "{group}: `{}` is there twice", case.name);
        }
    }
    assert!(names.len() >= 130, "{}", names.len());
}

impl Case {
    fn diagnostics(&self) -> (SourceMap, Vec<Diagnostic>) {
        let mut files = Memory::default();
        for (path, content) in &self.files {
            files.insert(path, content.clone());
        }
        let checked = checked(&files);
        let mut found = checked.diagnostics.clone();
        if checked.is_right() {
            found.extend(evaluated(&checked, &files).err().into_iter().flatten());
        }
        (checked.sources, found)
    }
}

/// What is said about a program: one paragraph per diagnostic.
fn told(case: &Case) -> String {
    let (sources, diagnostics) = case.diagnostics();
    let mut text = format!("#### {}\n", case.name);
    if diagnostics.is_empty() {
        text.push_str("nothing\n");
    }
    for diagnostic in &diagnostics {
        let level = diagnostic.severity.as_str();
        writeln!(text, "{level} {}: {}", diagnostic.code.unwrap(), diagnostic.message).unwrap();
        for label in &diagnostic.labels {
            let mark = if label.primary { "-->" } else { "   " };
            let place = place(&sources, label.span);
            writeln!(text, "{}", format!("{mark} {place} {}", label.message).trim_end()).unwrap();
        }
        for hint in &diagnostic.hints {
            writeln!(text, "    hint: {hint}").unwrap();
        }
    }
    text.push('\n');
    text
}

/// `file:line:column..line:column [what stands there]`
fn place(sources: &SourceMap, span: Span) -> String {
    let (name, line, column) = sources.position(span);
    let (_, last_line, last_column) = sources.position(Span { start: span.end, ..span });
    let there = sources.text(span).replace('\n', "⏎").replace('\t', "⇥").replace('\r', "␍");
    let there = match there.char_indices().nth(40) {
        Some((at, _)) => format!("{}…", &there[..at]),
        None => there,
    };
    format!("{name}:{line}:{column}..{last_line}:{last_column} [{there}]")
}

/// The first lines that differ, with what is around them.
fn difference(group: &str, expected: &str, said: &str) -> String {
    if expected == said {
        return String::new();
    }
    let split = |text: &str| -> Vec<(String, String)> {
        text.split("#### ")
            .filter(|case| !case.trim().is_empty())
            .map(|case| {
                let (name, rest) = case.split_once('\n').unwrap_or((case, ""));
                (name.to_owned(), rest.trim_end().to_owned())
            })
            .collect()
    };
    let (expected, said) = (split(expected), split(said));
    let find = |list: &[(String, String)], name: &str| -> Option<String> {
        list.iter().find(|(other, _)| other == name).map(|(_, text)| text.clone())
    };
    let mut text = String::new();
    for (name, now) in &said {
        match find(&expected, name) {
            Some(before) if before == *now => {}
            Some(before) => {
                writeln!(text, "{group}: {name}").unwrap();
                for line in before.lines().filter(|line| !now.lines().any(|other| other == *line)) {
                    writeln!(text, "  - {line}").unwrap();
                }
                for line in now.lines().filter(|line| !before.lines().any(|other| other == *line)) {
                    writeln!(text, "  + {line}").unwrap();
                }
            }
            None => writeln!(text, "{group}: {name} is new:\n{now}").unwrap(),
        }
    }
    for (name, _) in expected.iter().filter(|(name, _)| find(&said, name).is_none()) {
        writeln!(text, "{group}: {name} is expected and not there").unwrap();
    }
    if text.is_empty() {
        writeln!(text, "{group}: the cases are in another order").unwrap();
    }
    text
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics")
}

fn files_ending_in(extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory()).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    paths
}

/// All cases, by the files that they are in.
fn groups() -> Vec<(String, Vec<Case>)> {
    let mut groups: Vec<(String, Vec<Case>)> = files_ending_in("mcl")
        .into_iter()
        .map(|path| {
            let group = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let cases = cases(&fs::read_to_string(&path).unwrap());
            assert!(!cases.is_empty(), "{group}");
            (group, cases)
        })
        .collect();
    groups.push(("made".to_owned(), made()));
    groups
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("#### ") {
            Some(heading) => match (heading.strip_prefix("-- "), cases.last_mut()) {
                (Some(path), Some(case)) => case.files.push((format!("/{path}"), Vec::new())),
                _ => cases.push(Case {
                    name: heading.to_owned(),
                    files: vec![("/main.mcl".to_owned(), Vec::new())],
                }),
            },
            None => {
                let Some((_, content)) = cases.last_mut().and_then(|case| case.files.last_mut()) else {
                    continue;
                };
                content.extend_from_slice(line.as_bytes());
                content.push(b'\n');
            }
        }
    }
    for (_, content) in cases.iter_mut().flat_map(|case| &mut case.files) {
        // The empty lines before the next case.
        while content.ends_with(b"\n\n") {
            content.pop();
        }
    }
    cases
}

/// Programs that cannot be written down well.
fn made() -> Vec<Case> {
    let case = |name: &str, content: Vec<u8>| Case {
        name: name.to_owned(),
        files: vec![("/main.mcl".to_owned(), content)],
    };
    let mut unreadable =
        case("an imported file that is larger than any program", b"import \"big.mcl\" as *\n".to_vec());
    unreadable.files.push(("/big.mcl".to_owned(), vec![b'#'; mgmt_lang::module::MAX_SOURCE as usize + 1]));
    let fields: String = (0..40).map(|index| format!("f{index} => {index}, ")).collect();
    let mut doubling = String::from("func f0($x) { [$x] }\n");
    for number in 1..40 {
        writeln!(doubling, "func f{number}($x) {{ f{}(f{0}($x)) }}", number - 1).unwrap();
    }
    doubling.push_str("test \"a\" { interface => f39(1), }\n");
    vec![
        case("functions that double the depth of a type", doubling.into_bytes()),
        case("not UTF-8", b"$x = \"caf\xe9\"\nprint \"a\" { msg => $x, }\n".to_vec()),
        case("carriage returns alone", b"$x = 1\r$y = 2\r".to_vec()),
        case("a float of 400 digits", format!("$x = {}.0\n", "9".repeat(400)).into_bytes()),
        case("brackets without end", format!("$x = {}\n", "(".repeat(100_000)).into_bytes()),
        unreadable,
        case(
            "the last of many fields repeats the first",
            format!("$s = struct{{{fields}f0 => 1}}\nprint \"a\" {{ msg => $s->f1, }}\n").into_bytes(),
        ),
    ]
}
