//! `cargo xtask faults`: system calls that fail, hosts and servers that die at random, simulated and real, for as long as one
//! likes; and `cargo xtask races`.

use crate::programs::run_tests;
use crate::step::Failed;

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
    run_tests(
        ("mgmt-store", "store"),
        "faults::",
        &["--nocapture"],
        &[("MGMT_FAULTS_RUNS", (minutes * RUNS).to_string())],
    )?;
    let seed = ("MGMT_SEED", seed.to_string());
    let faults = ("MGMT_FAULT_RUNS", (minutes * FAULTS).to_string());
    run_tests(("mgmt", "labs"), "fault_lab::", &[], &[seed.clone(), faults])?;
    for module in ["faults::", "cluster_faults::"] {
        let seconds = ("MGMT_FAULTS_SECONDS", (minutes * 60).to_string());
        run_tests(("mgmt", "labs"), module, &["--nocapture"], &[seed.clone(), seconds])?;
    }
    Ok(())
}

/// `cargo xtask races`: links, renames and hard links that are exchanged under the running program.
pub(crate) fn races(arguments: &[&str]) -> Result<(), Failed> {
    let flips = match arguments {
        [] => 1_000_000,
        [text, ..] => text.parse().map_err(|_| Failed::new(format!("`{text}`: expected a number")))?,
    };
    // One attacker at a time: with others beside it, it would wait for a processor more than it strikes.
    let options = ["--nocapture", "--test-threads=1"];
    run_tests(("mgmt", "labs"), "security::races::", &options, &[("MGMT_RACE_FLIPS", u64::to_string(&flips))])
}
