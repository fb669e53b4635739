//! Any bytes can be checked, and what checks can be evaluated.
//!
//! Under `cargo test` each of these runs its corpus and a bounded number of random inputs; `cargo bolero test` runs it
//! for as long as one likes. The corpus is in `__fuzz__`, one directory per test. What once went wrong belongs there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{checked, evaluated};
use crate::generate;
use mgmt_diagnostics::{Diagnostic, SourceMap};
use mgmt_lang::Checked;
use mgmt_lang::module::Memory;

/// How many random inputs a plain test run tries.
const ITERATIONS: usize = 500;

/// What an imported file has in the tests.
const LIBRARY: &str = include_str!("generate/lib.mcl");

#[test]
fn bytes() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes| {
        check(bytes);
    });
}

/// Bytes that each stand for a word of the language reach deeper than random ones.
#[test]
fn words() {
    const WORDS: &[&str] = &[
        "$x",
        "$y",
        "$z",
        "f",
        "g",
        "c",
        "=",
        "==",
        "=>",
        "?:",
        "<|>",
        "->",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ".",
        "\n",
        " ",
        "\"s\"",
        "\"${x}\"",
        "1",
        "1.5",
        " + ",
        " - ",
        " / ",
        " < ",
        " not ",
        " and ",
        " in ",
        "if ",
        " else ",
        "for $x, $y in ",
        "forkv $x, $y in ",
        "func ",
        "func($x) ",
        "class ",
        "include ",
        "import \"fmt\"",
        "import \"lib.mcl\" as *",
        " as ",
        "panic",
        "collect ",
        "test ",
        "Test",
        "Meta:noop",
        "Before",
        "struct",
        "map{str: ",
        "int ",
        "str ",
        "[]",
        "true ",
        "$x = ",
        "func f($x) { ",
        "\nclass c($x) {\n",
        "\n}\n",
        "\ninclude c(",
        "fmt.printf(\"%d\", ",
        "len(",
        "iter.map(",
        "import \"iter\"\n",
        "test [\"a\"] { ",
        "interface => ",
        ",\n}\n",
        "$f(",
        "$f = ",
        "lib.",
    ];
    let choices = bolero::produce::<Vec<u8>>().with().len(0..200usize);
    bolero::check!().with_iterations(ITERATIONS).with_generator(choices).for_each(|choices| {
        let text: String = choices.iter().map(|&choice| WORDS[usize::from(choice) % WORDS.len()]).collect();
        check(text.as_bytes());
    });
}

/// A program with everything in it, after some edits: the mistakes that people make.
#[test]
fn damaged() {
    const PROGRAM: &str = include_str!("generate/everything.mcl");
    let found = check(PROGRAM.as_bytes());
    assert_eq!(found.diagnostics, []);
    let pieces: Vec<&str> =
        PROGRAM.split_inclusive([' ', '\n', ',', '(', ')', '[', '{', '"', '.', '$']).collect();
    bolero::check!().with_iterations(ITERATIONS).with_type::<Vec<(u16, u8, u16)>>().for_each(|edits| {
        let mut pieces = pieces.clone();
        for &(place, action, other) in edits.iter().take(4) {
            let place = usize::from(place) % pieces.len();
            let other = usize::from(other) % pieces.len();
            match action % 8 {
                0 if pieces.len() > 1 => drop(pieces.remove(place)),
                1 => pieces.insert(place, pieces[other]),
                2 => pieces.swap(place, other),
                3 => pieces.truncate(place.max(1)),
                // What is most often wrong is what is not broken: one word in the place of another.
                _ => pieces[place] = pieces[other],
            }
        }
        check(pieces.concat().as_bytes());
    });
}

/// Small programs that are right by construction. They know the types of their values, and panic if they are others.
#[test]
fn generated() {
    let choices = bolero::produce::<Vec<u8>>().with().len(0..1000usize);
    bolero::check!().with_iterations(ITERATIONS).with_generator(choices).for_each(|choices| {
        try_generated(choices);
    });
}

/// Without this the test above could pass by generating nothing that is right.
#[test]
fn most_generated_programs_are_right() {
    let (mut right, mut number) = (0, 0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..200 {
        let choices: Vec<u8> = (0..600)
            .map(|_| {
                number =
                    number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (number >> 56) as u8
            })
            .collect();
        right += usize::from(try_generated(&choices));
    }
    assert!(right > 150, "{right} of 200");
}

fn try_generated(choices: &[u8]) -> bool {
    let (main, library) = generate::program(choices);
    let mut files = Memory::from([("/main.mcl", main.as_str())]);
    files.insert("/lib.mcl", library.as_str());
    let found = checked(&files);
    invariants(&found);
    if !found.is_right() {
        // Types that nothing decides are the only thing that the generator cannot avoid.
        let others = found.diagnostics.iter().filter(|found| found.is_error());
        let others: Vec<&Diagnostic> = others.filter(|found| found.code != Some("M0503")).collect();
        assert!(others.is_empty(), "{others:#?}\n{main}\n---- lib.mcl\n{library}");
        return false;
    }
    if let Err(wrong) = evaluated(&found, &files) {
        for diagnostic in &wrong {
            sound(&found.sources, diagnostic);
            assert_ne!(diagnostic.code, Some("M0702"), "{diagnostic:#?}\n{main}\n---- lib.mcl\n{library}");
        }
    }
    true
}

/// All that holds for any bytes.
fn check(bytes: &[u8]) -> Checked {
    let mut files = Memory::from([("/lib.mcl", LIBRARY)]);
    files.insert("/main.mcl", bytes);
    let checked = checked(&files);
    invariants(&checked);
    if checked.is_right()
        && let Err(wrong) = evaluated(&checked, &files)
    {
        assert!(!wrong.is_empty());
        wrong.iter().for_each(|diagnostic| sound(&checked.sources, diagnostic));
    }
    checked
}

fn invariants(checked: &Checked) {
    checked.diagnostics.iter().for_each(|diagnostic| lies_within(&checked.sources, diagnostic));
    assert!(checked.diagnostics.is_sorted_by_key(Diagnostic::span));
}

/// What is wrong when a program runs is never that the checker was.
fn sound(sources: &SourceMap, diagnostic: &Diagnostic) {
    lies_within(sources, diagnostic);
    assert!(!diagnostic.message.contains("mistake of mgmt"), "{diagnostic:#?} {sources:#?}");
}

fn lies_within(sources: &SourceMap, diagnostic: &Diagnostic) {
    assert!(!diagnostic.message.is_empty() && !diagnostic.labels.is_empty(), "{diagnostic:?}");
    assert!(diagnostic.labels[0].primary, "{diagnostic:?}");
    for label in &diagnostic.labels {
        let text = &sources.get(label.span.file).unwrap().text;
        assert!(text.get(label.span.range()).is_some(), "{diagnostic:?}");
    }
    let known = mgmt_syntax::CODES.iter().chain(mgmt_lang::CODES).any(|row| Some(row.0) == diagnostic.code);
    assert!(known, "{diagnostic:?}");
}
