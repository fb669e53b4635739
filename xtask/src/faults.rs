//! `cargo xtask faults`: hosts and servers that die at random, simulated and real, for as long as one likes.

use std::process::Command;

use crate::step::{Failed, cargo, step};

/// Simulated runs for each minute of real ones.
const RUNS: u64 = 10;

/// Takes minutes and a seed, both of which may be left out.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failed> {
    let number = |at: usize, otherwise: u64| match arguments.get(at) {
        None => Ok(otherwise),
        Some(text) => text.parse().map_err(|_| Failed::new(format!("`{text}`: expected a number"))),
    };
    let (minutes, seed) = (number(0, 10)?, number(1, 1)?);
    let mut simulated = Command::new(cargo());
    simulated.args(["test", "--package", "mgmt-world", "--test", "faults", "--", "--nocapture"]);
    step(simulated.env("MGMT_FAULTS_RUNS", (minutes * RUNS).to_string()))?;
    for test in ["faults", "cluster_faults"] {
        let mut real = Command::new(cargo());
        real.args(["test", "--package", "mgmt", "--test", test, "--", "--nocapture"]);
        real.env("MGMT_FAULTS_SECONDS", (minutes * 60).to_string());
        step(real.env("MGMT_FAULTS_SEED", seed.to_string()))?;
    }
    Ok(())
}
