//! `cargo xtask test`: all tests of the workspace.

use std::io::Write as _;
use std::process::Command;

use crate::programs::{self, Counts, Report};
use crate::step::{Failed, cargo, say, show, workspace};

/// Builds everything first, so that nothing compiles while tests wait for events, and then runs the tests. Further
/// arguments are those of `cargo test`. The last line says how many tests have passed and how many have failed.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failed> {
    let (selection, rest) = at_dashes(arguments);
    let everything: &[&str] = if names_packages(selection) { &[] } else { &["--workspace"] };
    let mut report = programs::run(&[(&[everything, selection].concat(), rest)])?;
    if selection.is_empty() {
        let (counts, has_passed) = doc_tests()?;
        report.counts.add(counts);
        if !has_passed {
            report.failed.push("the tests in doc comments".to_owned());
        }
    }
    close(&report)
}

/// The tests of resources, and the examples that change a host: each on a host of its own, with the real thing.
pub(crate) fn hosts(arguments: &[&str]) -> Result<(), Failed> {
    let (selection, rest) = at_dashes(arguments);
    let kinds = [&["--package", "mgmt-resources"], selection].concat();
    let examples: (&[&str], &[&str]) = (&["--package", "mgmt", "--test", "hosts"], &["host_examples::"]);
    let selections = [(&kinds[..], rest), examples];
    close(&programs::run(if selection.is_empty() { &selections } else { &selections[..1] })?)
}

/// Runs the tests in doc comments.
fn doc_tests() -> Result<(Counts, bool), Failed> {
    let mut command = Command::new(cargo());
    command.args(["test", "--workspace", "--doc", "--quiet"]).current_dir(workspace());
    show(&command);
    let output = command.output().map_err(|error| Failed::new(format!("cannot run cargo: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    say(&format!("{}{text}", String::from_utf8_lossy(&output.stderr)));
    let mut counts = Counts::of(&text);
    // A doc comment that does not compile may end it before anything is counted.
    counts.failed = counts.failed.max(usize::from(!output.status.success()));
    Ok((counts, output.status.success()))
}

/// Writes the closing line, alone on standard output, and fails if something has failed.
fn close(report: &Report) -> Result<(), Failed> {
    let Counts { passed, failed, ignored } = report.counts;
    say(&format!("\n{ignored} ignored\n"));
    let line = format!("{passed} passed, {failed} failed\n");
    std::io::stdout()
        .write_all(line.as_bytes())
        .map_err(|error| Failed::new(format!("cannot write the result: {error}")))?;
    if report.failed.is_empty() { Ok(()) } else { Err(Failed::reported()) }
}

/// Whether arguments of cargo name packages.
fn names_packages(arguments: &[&str]) -> bool {
    arguments.iter().any(|argument| {
        ["-p", "--package", "--workspace"].contains(argument)
            || argument.starts_with("--package=")
            || (argument.starts_with("-p") && !argument.starts_with("--"))
    })
}

/// The arguments for cargo itself, and after `--` those for the tests.
fn at_dashes<'a>(arguments: &'a [&'a str]) -> (&'a [&'a str], &'a [&'a str]) {
    match arguments.iter().position(|argument| *argument == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_part_what_is_for_cargo_from_what_is_for_the_tests() {
        assert_eq!(at_dashes(&["-p", "x", "--", "--nocapture"]), (&["-p", "x"][..], &["--nocapture"][..]));
        assert_eq!(at_dashes(&["-p"]), (&["-p"][..], &[][..]));
    }

    #[test]
    fn a_package_that_is_named_is_all_that_is_tested() {
        for arguments in [&["-p", "mgmt"][..], &["-pmgmt"], &["--package=mgmt"], &["--lib", "--package", "x"]]
        {
            assert!(names_packages(arguments), "{arguments:?}");
        }
        assert!(!names_packages(&["--test", "cli", "--profile=x"]));
    }
}
