//! `cargo xtask labs`: all labs, twice in a row, without a second chance for any of them.
//!
//! What is run, on which commit and with which seed is said at the beginning and at the end, so that a result can be had again; and
//! how long each has taken, so that one knows what to wait for. Everything is built before the first one, and none may take
//! for ever.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::programs::{self, Program};
use crate::step::{Failed, cargo, say, step_in, workspace};

/// How often all of them have to pass.
const ROUNDS: usize = 2;

/// Longer than any of them takes, on a machine that is busy with other things. What takes longer hangs, and is ended with all that
/// it has started.
const LIMIT: Duration = Duration::from_secs(3600);

/// A lab: some tests, with what they are told.
struct Lab {
    name: &'static str,
    /// The folder of the package, and a test program of it; the one with the package's own name has the tests beside the code.
    program: (&'static str, &'static str),
    /// The beginning of the paths of its tests: a module.
    tests: &'static str,
    variables: &'static [(&'static str, &'static str)],
    /// It does something random of which the seed can be chosen. A simulator plays thousands of seeds by itself, and only one
    /// if one is given.
    has_seed: bool,
}

const fn lab(
    name: &'static str,
    program: (&'static str, &'static str),
    tests: &'static str,
    has_seed: bool,
) -> Lab {
    Lab { name, program, tests, variables: &[], has_seed }
}

const LABS: [Lab; 14] = [
    lab("fault lab", ("mgmt", "labs"), "fault_lab::", true),
    lab("kills", ("mgmt", "labs"), "kill::", true),
    Lab {
        variables: &[("MGMT_RACE_FLIPS", "100000")],
        ..lab("race lab", ("mgmt", "labs"), "security::races::", true)
    },
    lab("threats", ("mgmt", "labs"), "security::", true),
    Lab { variables: &[("FUZZ_SECONDS", "5")], ..lab("fuzzer", ("fuzz", "fuzz"), "", true) },
    Lab {
        variables: &[("FUZZ_SECONDS", "5")],
        ..lab("fuzzer of the program", ("mgmt", "mgmt"), "hostile::", true)
    },
    lab("soak", ("mgmt", "labs"), "soak::", true),
    Lab {
        variables: &[("MGMT_MODEL_RUNS", "10000")],
        ..lab("threads of the engine", ("engine", "mgmt_engine"), "driver::model::", true)
    },
    lab("simulator of the scheduler", ("engine", "engine"), "sim_core::", false),
    lab("simulator of the cluster", ("cluster", "cluster_sim"), "", false),
    lab("simulator of hosts and servers", ("store", "store"), "faults::", false),
    lab("bus", ("watch", "watch"), "bus::", false),
    lab("bus of a booted host", ("mgmt", "hosts"), "bus_restart::", false),
    lab("instructions", ("bench", "instructions"), "", false),
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
    // All at once: what is built for one package alone is built anew for the next.
    let programs = programs::build(&["--workspace"])?;
    let of = |lab: &Lab| {
        let is_it =
            |program: &&Program| program.full_name() == format!("{}/{}", lab.program.0, lab.program.1);
        programs
            .iter()
            .find(is_it)
            .ok_or_else(|| Failed::new(format!("{}: there is no such program", lab.name)))
    };
    let tests = |lab: &Lab| {
        let program = of(lab)?;
        match programs::tests_below(program, lab.tests)? {
            tests if tests.is_empty() => Err(Failed::new(format!("{}: there is no such test", lab.name))),
            tests => Ok((program, tests)),
        }
    };
    let programs = LABS.iter().map(tests).collect::<Result<Vec<_>, _>>()?;
    let built = began.elapsed();
    let mut took = LABS.map(|_| Vec::new());
    for round in 1..=ROUNDS {
        for ((lab, (program, tests)), took) in LABS.iter().zip(&programs).zip(&mut took) {
            say(&format!("\nround {round} of {ROUNDS}: {}\n", lab.name));
            let failed = |Failed(why)| Failed::new(format!("{}, round {round}, {what}: {why}", lab.name));
            let began = Instant::now();
            step_in(&program.package, &mut lab.command(program, tests, seed)).map_err(failed)?;
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
    fn command(&self, program: &Program, tests: &[String], seed: u64) -> Command {
        // With a group of its own, all of which is ended when the time is over, or when we are gone.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "timeout", "--kill-after=30"]).arg(LIMIT.as_secs().to_string());
        command.arg(&program.executable).arg("--exact").args(tests);
        command.env("CARGO", cargo()).env("CARGO_MANIFEST_DIR", &program.package).env_remove("MGMT_SEED");
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
    fn every_lab_is_there_and_only_those_with_a_seed_are_given_one() {
        for lab in &LABS {
            let (package, name) = lab.program;
            let folder = workspace().join("crates").join(package);
            // Those beside the code have the name of the package.
            let is_of_package = name == package || name == format!("mgmt_{package}");
            let module = lab.tests.split("::").next().unwrap_or_default();
            let test = folder.join("tests").join(name);
            let is_there = match module {
                "" => test.with_extension("rs").is_file() || test.join("main.rs").is_file(),
                _ => {
                    test.join(module).with_extension("rs").is_file()
                        || test.join(module).is_dir()
                        || test.join("main.rs").is_file()
                }
            };
            assert!(folder.is_dir() && (is_of_package || is_there), "{}", lab.name);
            let (name, executable) = (name.to_owned(), "/program".into());
            let program = Program { name, executable, package: folder, is_integration: is_there };
            let command = lab.command(&program, &["a::test".to_owned()], 7);
            let seeds = command.get_envs().filter(|(name, value)| *name == "MGMT_SEED" && value.is_some());
            assert_eq!(seeds.count(), usize::from(lab.has_seed), "{}", lab.name);
        }
    }
}
