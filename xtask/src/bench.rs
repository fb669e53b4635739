//! `cargo xtask bench`: our figures beside those of a raw loop, in one run.

use std::process::Command;

use crate::step::{Failed, cargo, step, workspace};

/// Builds the program and the benchmarks as they are released, and runs the named groups or all.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failed> {
    step(Command::new(cargo()).args(["build", "--release", "--package", "mgmt", "--package", "mgmt-bench"]))?;
    let mut bench = Command::new(cargo());
    bench.args(["run", "--release", "--quiet", "--package", "mgmt-bench", "--"]).args(arguments);
    // What is compared goes where it is read, unless somebody wants it elsewhere.
    if arguments.first() == Some(&"compare") && !arguments.contains(&"--output") {
        bench.arg("--output").arg(workspace().join("docs/benchmarks.md"));
    }
    step(&mut bench)
}
