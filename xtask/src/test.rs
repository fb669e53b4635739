//! `cargo xtask test`: all tests of the workspace.

use std::process::Command;

use crate::programs;
use crate::step::{Failed, cargo, step};

/// Builds everything first, so that nothing compiles while tests wait for events, and then runs the tests. Further
/// arguments are those of `cargo test`.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failed> {
    let (selection, rest) = at_dashes(arguments);
    programs::run(&[&[&["--workspace"], selection].concat()], rest)?;
    if selection.is_empty() {
        step(Command::new(cargo()).args(["test", "--workspace", "--doc", "--quiet"]))?;
    }
    Ok(())
}

/// The tests of resources, and the examples that change a host: each on a host of its own, with the real thing.
pub(crate) fn hosts(arguments: &[&str]) -> Result<(), Failed> {
    let (selection, rest) = at_dashes(arguments);
    let kinds = [&["--package", "mgmt-resources"], selection].concat();
    let examples = ["--package", "mgmt", "--test", "host_examples"];
    let selections = [&kinds[..], &examples];
    programs::run(if selection.is_empty() { &selections } else { &selections[..1] }, rest)
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
}
