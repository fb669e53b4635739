//! Chaos test: a booted host with about 200 resources of 16 kinds, and troubles that break them and hinder their repair.
//!
//! Parents are moved away, the disk is full or read-only, daemons restart, names do not resolve, packages are locked. When the
//! trouble ends, everything is right again without a restart. All the while an independent oracle looks at the host, and what
//! `mgmt status` and the metrics say must agree with it.
//!
//! Half a minute here; `cargo xtask chaos` takes ten. `MGMT_CHAOS_SECONDS` says how long, `MGMT_SEED` what happens.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails")]

use mgmt_test_support::booted_host;
use mgmt_test_support::package_source;
mod monitor;
mod site;
mod trouble;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mgmt_test_support::numbers::{Numbers, seed};
use mgmt_test_support::program::{EVENT_TIMEOUT, RunningProgram};
use monitor::Monitor;
use site::Site;
use trouble::{ALL, Agent};

/// Where the booted host finds how long to go on, and with which seed.
const SETTINGS: &str = "/mgmt-test-result/settings";
/// The time within which everything is right after the start and after the last trouble, on a machine that may be busy with other
/// things: packages are installed meanwhile.
const RECOVERY_LIMIT: Duration = EVENT_TIMEOUT;
/// The same in a long run on a quiet one.
const LONG_RUN_RECOVERY_LIMIT: Duration = Duration::from_secs(10);
/// The longest hindrance. Retries back off exponentially, so the next attempt comes within about as long again.
const MAX_HINDRANCE_MS: usize = 4_000;

#[test]
fn a_host_in_trouble_heals_and_never_claims_to_be_well_while_it_is_not() {
    if booted_host::is_booted() {
        return on_a_booted_host();
    }
    let seconds =
        std::env::var("MGMT_CHAOS_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(30_u64);
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("settings");
    std::fs::write(&settings, format!("{seconds} {}", seed())).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_mgmt"));
    booted_host::on_booted_host_for(
        "a_host_in_trouble_heals_and_never_claims_to_be_well_while_it_is_not",
        &[("mgmt", program), ("settings", &settings)],
        Duration::from_secs(seconds + 600),
    );
}

/// The last lines of a log; the rest is about troubles that are long over.
fn last_lines(log: &str) -> String {
    const MAX_LINES: usize = 50;
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(MAX_LINES)..].join("\n")
}

fn on_a_booted_host() {
    let settings = std::fs::read_to_string(SETTINGS).unwrap();
    let (seconds, seed) = settings.trim().split_once(' ').unwrap();
    let duration = Duration::from_secs(seconds.parse().unwrap());
    let mut numbers = Numbers::new(seed.parse().unwrap());
    site::prepare();
    let mut source = package_source::PackageSource::new();
    source.publish(&package_source::Package {
        files: &[],
        postinst: "printf '#!/bin/sh\\nexec touch \"$1\"\\n' >/usr/bin/chaos-tool",
        ..package_source::Package::new(site::PACKAGE, "1.0")
    });

    let site = Site::new();
    std::fs::write("/chaos.mcl", &site.program).unwrap();
    println!("{} resources, seed {seed}", site.expectations.len());
    let checked = Command::new("/mgmt-test-result/mgmt").args(["check", "/chaos.mcl"]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let mut command = Command::new("/mgmt-test-result/mgmt");
    command.args(["run", "--prefix", monitor::PREFIX, "--converger-timeout=1"]);
    command.args(["--prometheus-listen", &format!("127.0.0.1:{}", monitor::METRICS_PORT)]);
    command.args(["lang", "/chaos.mcl"]).stdin(Stdio::null());
    let running = RunningProgram::start_command(command);
    let agent = Agent::new(rustix::process::Pid::from_raw(running.id().cast_signed()).unwrap());
    let monitor = Monitor::start(site.expectations, agent.paused(), agent.pauses());
    let healthy = |what: &str, limit| {
        monitor
            .wait_until_healthy(limit)
            .unwrap_or_else(|error| panic!("{what}: {error}\n{}", last_lines(&running.said())))
    };
    healthy("the first run", RECOVERY_LIMIT);

    let end = Instant::now() + duration;
    let mut strikes = 0;
    // Every trouble once, however long that takes, then at random.
    while strikes < ALL.len() || Instant::now() < end {
        let trouble = if strikes < ALL.len() { ALL[strikes] } else { ALL[numbers.below(ALL.len())] };
        let hindrance = Duration::from_millis(numbers.below(MAX_HINDRANCE_MS) as u64);
        println!("{trouble:?} for {hindrance:?}");
        trouble.strike(&agent, &mut numbers, hindrance);
        strikes += 1;
        if numbers.below(4) == 0 {
            std::thread::sleep(Duration::from_millis(numbers.below(3_000) as u64));
        }
    }
    let limit = if duration > Duration::from_secs(300) { LONG_RUN_RECOVERY_LIMIT } else { RECOVERY_LIMIT };
    let took = healthy("after the last trouble", limit);
    println!("{strikes} troubles; everything right {took:?} after the last; {}", monitor.finish());

    running.signal(rustix::process::Signal::TERM);
    let (code, log) = running.end();
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(code, Some(0), "{log}");
}
