//! `cargo xtask labs`: all labs, twice in a row, without a second chance for any of them.
//!
//! What is run, on which commit and with which seed is said at the beginning and at the end, so that a result can be had again; and
//! how long each has taken, so that one knows what to wait for. Everything is built before the first one, and none may take
//! for ever.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::step::{Failed, cargo, say, step, workspace};

/// How often all of them have to pass.
const ROUNDS: usize = 2;

/// Longer than any of them takes, on a machine that is busy with other things. What takes longer hangs, and is ended with all that
/// it has started.
const LIMIT: Duration = Duration::from_secs(3600);

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

const LABS: [Lab; 14] = [
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
    Lab {
        name: "threads of the engine",
        arguments: &["--package", "mgmt-engine", "--lib", "driver::model::"],
        variables: &[("MGMT_MODEL_RUNS", "10000")],
        has_seed: true,
    },
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
    let began = Instant::now();
    for lab in &LABS {
        step(&mut lab.building()).map_err(|Failed(why)| Failed::new(format!("{}: {why}", lab.name)))?;
    }
    let built = began.elapsed();
    let mut took = LABS.map(|_| Vec::new());
    for round in 1..=ROUNDS {
        for (lab, took) in LABS.iter().zip(&mut took) {
            say(&format!("\nround {round} of {ROUNDS}: {}\n", lab.name));
            let failed = |Failed(why)| Failed::new(format!("{}, round {round}, {what}: {why}", lab.name));
            let began = Instant::now();
            step(&mut lab.command(seed)).map_err(failed)?;
            took.push(began.elapsed());
            say(&format!("{}: {}\n", lab.name, minutes(began.elapsed())));
        }
    }
    say(&format!("\nbuilding: {}\n", minutes(built)));
    for (lab, took) in LABS.iter().zip(&took) {
        let each: Vec<String> = took.iter().map(|took| minutes(*took)).collect();
        say(&format!("{}: {}\n", lab.name, each.join(", ")));
    }
    let all = minutes(began.elapsed());
    say(&format!("{} labs passed {ROUNDS} times in a row, in {all}: {what}\n", LABS.len()));
    Ok(())
}

/// Time as one waits for it.
fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02} min", seconds / 60, seconds % 60)
}

impl Lab {
    /// Builds what it runs. Which of the tests are run makes no difference, and is left out.
    fn building(&self) -> Command {
        let mut command = Command::new(cargo());
        command.args(["test", "--no-run"]);
        command.args(self.arguments.iter().filter(|argument| !argument.contains("::")));
        command
    }

    fn command(&self, seed: u64) -> Command {
        // With a group of its own, all of which is ended when the time is over, or when we are gone.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "timeout", "--kill-after=30"]).arg(LIMIT.as_secs().to_string());
        command.arg(cargo()).arg("test").args(self.arguments).env_remove("MGMT_SEED");
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
    fn time_is_told_in_minutes() {
        assert_eq!(minutes(Duration::from_secs(59)), "0:59 min");
        assert_eq!(minutes(Duration::from_secs(3601)), "60:01 min");
    }

    #[test]
    fn what_is_built_is_what_is_run() {
        let words = |command: &Command| -> Vec<String> {
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        for lab in &LABS {
            let (built, run) = (words(&lab.building()), words(&lab.command(1)));
            let selected = |words: &[String]| -> Vec<String> {
                words
                    .iter()
                    .filter(|word| word.starts_with("--") || word.starts_with("mgmt"))
                    .cloned()
                    .collect()
            };
            let (mut built, mut run) = (selected(&built), selected(&run));
            built.retain(|word| word != "--no-run");
            run.retain(|word| !word.starts_with("--kill-after") && word != "--pdeathsig");
            assert_eq!(built, run, "{}", lab.name);
        }
    }

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
