//! `cargo xtask labs`: all labs, twice in a row, without a second chance for any of them.
//!
//! What is run, on which commit and with which seed is said at the beginning and at the end, so that a result can be had again.

use std::process::Command;

use crate::step::{Failed, cargo, say, step, workspace};

/// How often all of them have to pass.
const ROUNDS: usize = 2;

/// A lab: what it is called, the arguments of `cargo test`, and what it is told.
struct Lab {
    name: &'static str,
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    /// It does something random of which the seed can be chosen. A simulator plays thousands of seeds by itself, and only one
    /// if one is given.
    has_seed: bool,
}

const fn lab(name: &'static str, arguments: &'static [&'static str], has_seed: bool) -> Lab {
    Lab { name, arguments, variables: &[], has_seed }
}

const LABS: [Lab; 13] = [
    lab("fault lab", &["--package", "mgmt", "--test", "fault_lab"], true),
    lab("kills", &["--package", "mgmt", "--test", "kill"], true),
    Lab {
        name: "race lab",
        arguments: &["--package", "mgmt", "--test", "security", "races::"],
        variables: &[("MGMT_RACE_FLIPS", "100000")],
        has_seed: true,
    },
    lab("threats", &["--package", "mgmt", "--test", "security"], true),
    Lab {
        name: "fuzzer",
        arguments: &["--package", "mgmt-fuzz", "--test", "fuzz"],
        variables: &[("FUZZ_SECONDS", "5")],
        has_seed: true,
    },
    Lab {
        name: "fuzzer of the program",
        arguments: &["--package", "mgmt", "--bin", "mgmt", "hostile::"],
        variables: &[("FUZZ_SECONDS", "5")],
        has_seed: true,
    },
    lab("soak", &["--package", "mgmt", "--test", "soak"], true),
    lab("simulator of the scheduler", &["--package", "mgmt-engine", "--test", "sim_core"], false),
    lab("simulator of the cluster", &["--package", "mgmt-world", "--test", "cluster_sim"], false),
    lab("simulator of hosts and servers", &["--package", "mgmt-world", "--test", "faults"], false),
    lab("bus", &["--package", "mgmt-watch", "--test", "bus"], false),
    lab("bus of a booted host", &["--package", "mgmt", "--test", "bus_restart"], false),
    lab("instructions", &["--package", "mgmt-bench", "--test", "instructions"], false),
];

/// Takes a seed, which may be left out.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failed> {
    let seed: u64 = match arguments {
        [] => std::env::var("MGMT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1),
        [text, ..] => text.parse().map_err(|_| Failed::new(format!("`{text}`: expected a number")))?,
    };
    let what = format!("commit {}, seed {seed}", commit()?);
    say(&format!("{what}\n"));
    for round in 1..=ROUNDS {
        for lab in &LABS {
            say(&format!("\nround {round} of {ROUNDS}: {}\n", lab.name));
            let failed = |Failed(why)| Failed::new(format!("{}, round {round}, {what}: {why}", lab.name));
            step(&mut lab.command(seed)).map_err(failed)?;
        }
    }
    say(&format!("\n{} labs passed {ROUNDS} times in a row: {what}\n", LABS.len()));
    Ok(())
}

impl Lab {
    fn command(&self, seed: u64) -> Command {
        let mut command = Command::new(cargo());
        command.arg("test").args(self.arguments).env_remove("MGMT_SEED");
        command.envs(self.variables.iter().copied());
        if self.has_seed {
            command.env("MGMT_SEED", seed.to_string());
        }
        command
    }
}

/// What is tested, with a mark if it is not what was committed.
fn commit() -> Result<String, Failed> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(workspace()).output();
        let output = output.map_err(|error| Failed::new(format!("cannot run git: {error}")))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let mark = if git(&["status", "--porcelain"])?.is_empty() { "" } else { ", changed since" };
    Ok(format!("{}{mark}", git(&["rev-parse", "HEAD"])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lab_is_there_and_only_those_with_a_seed_are_given_one() {
        for lab in &LABS {
            let word = |flag: &str| lab.arguments.iter().skip_while(|word| **word != flag).nth(1);
            let package = word("--package").copied().unwrap_or_default();
            let folder = workspace().join("crates").join(package.strip_prefix("mgmt-").unwrap_or(package));
            let test = word("--test").map(|name| folder.join("tests").join(name));
            let is_there =
                test.is_none_or(|test| test.with_extension("rs").is_file() || test.join("main.rs").is_file());
            assert!(folder.is_dir() && is_there, "{}", lab.name);
            let mut given = lab
                .command(7)
                .get_envs()
                .map(|(name, value)| (name.to_owned(), value.is_some()))
                .collect::<Vec<_>>();
            given.retain(|(name, has_value)| name == "MGMT_SEED" && *has_value);
            assert_eq!(given.len(), usize::from(lab.has_seed), "{}", lab.name);
        }
    }
}
