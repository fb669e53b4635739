//! `cargo xtask test`: all tests of the workspace.

use std::process::Command;

use crate::step::{Failed, cargo, step};

/// Builds everything first, so that nothing compiles while tests wait for events, and then runs the tests. Further
/// arguments go to `cargo test`.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failed> {
    step(Command::new(cargo()).args(["test", "--workspace", "--no-run"]).args(before_dashes(arguments)))?;
    step(Command::new(cargo()).args(["test", "--workspace", "--no-fail-fast"]).args(arguments))?;
    features(arguments)
}

/// The tests of resources, and the examples that change a host: each on a host of its own, with the real thing.
pub(crate) fn hosts(arguments: &[&str]) -> Result<(), Failed> {
    let package = ["--package", "mgmt-resources", "--tests"];
    step(Command::new(cargo()).arg("test").args(package).arg("--no-run").args(before_dashes(arguments)))?;
    step(Command::new(cargo()).arg("test").args(package).arg("--no-fail-fast").args(arguments))?;
    if arguments.is_empty() {
        step(Command::new(cargo()).args(["test", "--package", "mgmt", "--test", "host_examples"]))?;
    }
    features(arguments)
}

/// What is not in the default build, because it needs a library of the system: only the tests of it. Who names tests gets
/// those alone.
fn features(arguments: &[&str]) -> Result<(), Failed> {
    if !arguments.is_empty() {
        return Ok(());
    }
    let augeas = ["--package", "mgmt-resources", "--features", "augeas", "--test", "augeas"];
    step(Command::new(cargo()).arg("test").args(augeas))
}

/// The arguments for cargo itself; those after `--` are for the tests.
fn before_dashes<'a>(arguments: &'a [&'a str]) -> &'a [&'a str] {
    let end = arguments.iter().position(|argument| *argument == "--").unwrap_or(arguments.len());
    &arguments[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn building_takes_only_what_is_for_cargo() {
        assert_eq!(before_dashes(&["-p", "x", "--", "--nocapture"]), ["-p", "x"]);
        assert_eq!(before_dashes(&["-p"]), ["-p"]);
    }
}
