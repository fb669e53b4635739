//! Benchmarks of the engine and of the language. Run by `cargo xtask bench`.
//!
//! Every line shows our figure, the figure of a raw loop that does the same work with bare system calls in the same run,
//! and the ratio of the two. Ratios travel from machine to machine; microseconds do not.
#![allow(clippy::print_stdout, reason = "a benchmark's results are its output")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot run should say so and stop"
)]

mod booted;
mod compare;
mod databases;
mod deploys;
mod etcd;
mod files;
mod flow;
mod graphs;
mod lang;
mod latency;
mod programs;
mod puppet;
mod report;
mod shared;
mod start;
mod units;
mod world;

use std::time::Duration;

use report::Report;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const GROUPS: [&str; 14] = [
    "graphs", "lang", "flow", "memory", "latency", "start", "units", "packages", "users", "shared",
    "deploys", "history", "puppet", "files",
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut wanted: Vec<String> = Vec::new();
    // The program lies beside its benchmarks.
    let mut program = std::env::current_exe().unwrap().with_file_name("mgmt");
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--mgmt" => program = arguments.next().unwrap_or_default().into(),
            "--child" => return child(&arguments.collect::<Vec<_>>()),
            "compare" => {
                let settings = compare::settings(program, &arguments.collect::<Vec<_>>());
                match settings {
                    Ok(settings) => std::process::exit(i32::from(!compare::run(&settings))),
                    Err(why) => {
                        println!("{why}");
                        std::process::exit(2);
                    }
                }
            }
            "--help" | "-h" => return help(),
            name if GROUPS.contains(&name) => wanted.push(name.to_owned()),
            other => {
                println!("unknown group `{other}`");
                help();
                std::process::exit(2);
            }
        }
    }
    let all = wanted.is_empty();
    let want = |name: &str| all || wanted.iter().any(|wanted| wanted == name);
    let mut report = Report::default();
    report.machine();
    if want("graphs") {
        graphs::run(&mut report);
    }
    if want("lang") {
        lang::run(&mut report);
    }
    if want("flow") {
        flow::run(&mut report);
    }
    if want("memory") {
        files::memory(&mut report);
    }
    // Before the many files, which keep the disk busy for a while after they were written.
    if want("latency") {
        latency::run(&mut report);
    }
    if want("start") {
        start::run(&mut report, &program);
    }
    if want("units") {
        units::run(&mut report);
    }
    if want("packages") {
        databases::packages(&mut report);
    }
    if want("users") {
        databases::users(&mut report);
    }
    if want("shared") {
        shared::run(&mut report);
    }
    if want("deploys") {
        deploys::run(&mut report, &program);
    }
    if want("history") {
        files::history(&mut report, &program);
    }
    if want("puppet") {
        puppet::run(&mut report, &program);
    }
    if want("files") {
        files::run(&mut report);
    }
    report.summary();
}

/// What runs in a process of its own.
fn child(arguments: &[String]) {
    match arguments {
        [what, lines] if what == "check" => lang::child(lines.parse().unwrap()),
        [what, of] if what == "weight" => flow::child(of),
        [what] if what == "units" => units::child(),
        [what, ..] if what == "packages" || what == "users" => databases::child(arguments),
        _ => files::child(arguments),
    }
}

/// What all threads of this process have had of the processors.
fn processor_time() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().unwrap()
}

fn help() {
    let groups = GROUPS.map(|group| format!("[{group}]")).join(" ");
    println!("usage: mgmt-bench {groups} [--mgmt PROGRAM]");
    println!("       mgmt-bench [--mgmt PROGRAM] compare {}", compare::OPTIONS);
    println!("Runs the named groups, or all. PROGRAM is the built mgmt, by default the one beside this.");
}
