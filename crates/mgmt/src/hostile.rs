//! Hostile input for what only the program itself reads: command lines, plans, and exports of a store. The corpora and the
//! fuzzer are those of the crate `fuzz`; `cargo xtask fuzz` runs it longer.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails")]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use mgmt_fuzz::{Settings, Target, run};

const TARGETS: &[Target] = &[
    Target { name: "command-lines", run: command_lines },
    Target { name: "plans", run: plans },
    Target { name: "world-imports", run: world_imports },
];

/// A word in each line.
fn command_lines(bytes: &[u8]) {
    let words = bytes.split(|byte| *byte == b'\n').take(40).map(|word| OsString::from_vec(word.to_vec()));
    let line: Vec<OsString> = [OsString::from("mgmt")].into_iter().chain(words).collect();
    let _ = crate::cli::read(line);
}

fn plans(bytes: &[u8]) {
    let _ = crate::commands::plan::document::Stored::parse(Path::new("plan"), bytes);
}

fn world_imports(bytes: &[u8]) {
    let _ = crate::commands::world::exported(bytes);
}

#[test]
fn nothing_that_the_program_reads_makes_it_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    match run(TARGETS, &Settings::from_environment(corpus)) {
        Ok(lines) => println!("{}", lines.join("\n")),
        Err(why) => panic!("{why}"),
    }
}
