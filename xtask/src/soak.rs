//! `cargo xtask soak`, `cargo xtask chaos` and `cargo xtask fuzz`: what the tests do for a moment, for as long as one likes.

use std::process::Command;

use crate::programs::run_tests;
use crate::step::{Failed, cargo, step};

/// Resources of a run that is to be long.
const RESOURCES: u64 = 2_000;

/// One run with constant churn.
pub(crate) fn soak(arguments: &[&str]) -> Result<(), Failed> {
    let (minutes, rest) = minutes(arguments, 60)?;
    if let [unknown, ..] = rest[..] {
        return Err(Failed::new(format!("`{unknown}`: expected `--minutes N`")));
    }
    let variables =
        [("MGMT_SOAK_SECONDS", (minutes * 60).to_string()), ("MGMT_SOAK_RESOURCES", RESOURCES.to_string())];
    run_tests(("mgmt", "labs"), "soak::", &["--nocapture"], &variables)
}

/// A booted host in trouble, watched by an independent oracle.
pub(crate) fn chaos(arguments: &[&str]) -> Result<(), Failed> {
    let (minutes, rest) = minutes(arguments, 10)?;
    if let [unknown, ..] = rest[..] {
        return Err(Failed::new(format!("`{unknown}`: expected `--minutes N`")));
    }
    let variables = [("MGMT_CHAOS_SECONDS", (minutes * 60).to_string())];
    run_tests(("mgmt", "labs"), "chaos::", &["--nocapture"], &variables)
}

/// Hostile input, for all targets or for one.
pub(crate) fn fuzz(arguments: &[&str]) -> Result<(), Failed> {
    let (minutes, rest) = minutes(arguments, 1)?;
    let target = match rest[..] {
        [] => "",
        [target] => target,
        _ => return Err(Failed::new("expected `[--minutes N] [TARGET]`")),
    };
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_secs());
    let seed = std::env::var("MGMT_SEED").unwrap_or_else(|_| seed.to_string());
    // What only the program itself reads is tried in its own tests.
    let programs: [&[&str]; 2] =
        [&["--package", "mgmt-fuzz", "--test", "fuzz"], &["--package", "mgmt", "--bin", "mgmt", "hostile::"]];
    for program in programs {
        let mut command = Command::new(cargo());
        command.arg("test").args(program).args(["--", "--nocapture"]);
        command.env("FUZZ_SECONDS", (minutes * 60).to_string()).env("MGMT_SEED", &seed);
        step(command.env("FUZZ_TARGET", target))?;
    }
    if target.is_empty() || target == "yaml" {
        let mut yaml = Command::new(cargo());
        yaml.args(["test", "--package", "mgmt-yaml", "--test", "fuzz_yaml"]);
        step(yaml.env("FUZZ_SECONDS", (minutes * 60).to_string()))?;
    }
    Ok(())
}

/// What `--minutes` says, and the other arguments.
fn minutes<'a>(arguments: &[&'a str], otherwise: u64) -> Result<(u64, Vec<&'a str>), Failed> {
    let Some(at) = arguments.iter().position(|argument| *argument == "--minutes") else {
        return Ok((otherwise, arguments.to_vec()));
    };
    let number = arguments.get(at + 1).and_then(|text| text.parse().ok());
    let number = number.ok_or_else(|| Failed::new("`--minutes`: expected a number"))?;
    Ok((number, [&arguments[..at], &arguments[at + 2..]].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_may_stand_anywhere() {
        assert_eq!(minutes(&["yaml"], 3).ok(), Some((3, vec!["yaml"])));
        assert_eq!(minutes(&["--minutes", "7", "yaml"], 3).ok(), Some((7, vec!["yaml"])));
        assert_eq!(minutes(&["yaml", "--minutes", "7"], 3).ok(), Some((7, vec!["yaml"])));
        assert!(minutes(&["--minutes"], 3).is_err());
        assert!(minutes(&["--minutes", "x"], 3).is_err());
    }
}
