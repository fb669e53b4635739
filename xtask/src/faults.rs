//! `cargo xtask faults`: system calls that fail, hosts and servers that die at random, simulated and real, for as long as one
//! likes; and `cargo xtask races`.

use std::process::Command;

use crate::step::{Failed, cargo, step};

/// Simulated runs for each minute of real ones.
const RUNS: u64 = 10;

/// System calls that fail for each minute.
const FAULTS: u64 = 60;

/// Takes minutes and a seed, both of which may be left out.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failed> {
    let number = |at: usize, otherwise: u64| match arguments.get(at) {
        None => Ok(otherwise),
        Some(text) => text.parse().map_err(|_| Failed::new(format!("`{text}`: expected a number"))),
    };
    let (minutes, seed) = (number(0, 10)?, number(1, 1)?);
    let mut simulated = Command::new(cargo());
    simulated.args(["test", "--package", "mgmt-store", "--test", "faults", "--", "--nocapture"]);
    step(simulated.env("MGMT_FAULTS_RUNS", (minutes * RUNS).to_string()))?;
    let mut lab = Command::new(cargo());
    lab.args(["test", "--package", "mgmt", "--test", "fault_lab"]).env("MGMT_SEED", seed.to_string());
    step(lab.env("MGMT_FAULT_RUNS", (minutes * FAULTS).to_string()))?;
    for test in ["faults", "cluster_faults"] {
        let mut real = Command::new(cargo());
        real.args(["test", "--package", "mgmt", "--test", test, "--", "--nocapture"]);
        real.env("MGMT_FAULTS_SECONDS", (minutes * 60).to_string());
        step(real.env("MGMT_SEED", seed.to_string()))?;
    }
    Ok(())
}

/// `cargo xtask races`: links, renames and hard links that are exchanged under the running program.
pub(crate) fn races(arguments: &[&str]) -> Result<(), Failed> {
    let flips = match arguments {
        [] => 1_000_000,
        [text, ..] => text.parse().map_err(|_| Failed::new(format!("`{text}`: expected a number")))?,
    };
    let mut command = Command::new(cargo());
    // One attacker at a time: with others beside it, it would wait for a processor more than it strikes.
    command.args(["test", "--package", "mgmt", "--test", "security", "--", "--nocapture", "races::"]);
    command.arg("--test-threads=1");
    step(command.env("MGMT_RACE_FLIPS", u64::to_string(&flips)))
}
