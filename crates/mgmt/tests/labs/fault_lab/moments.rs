//! Time that stands still or jumps, and an end at any moment.

use std::time::Duration;

use rustix::process::Signal;

use crate::fault_lab::{TestEnv, runs};
use mgmt_test_support::clock::Clock;
use mgmt_test_support::numbers::{Numbers, seed};
use mgmt_test_support::program::{RunningProgram, eventually, holds, mgmt};

#[test]
fn a_program_that_is_stopped_catches_up() {
    let home = tempfile::tempdir().unwrap();
    let (file, graph) = (home.path().join("file"), home.path().join("graph.yaml"));
    std::fs::write(&graph, mgmt_test_support::program::one_file(&file, "right")).unwrap();
    let running = RunningProgram::start(&["run", "--tmp-prefix", "yaml", graph.to_str().unwrap()]);
    holds(&file, "right");
    let mut numbers = Numbers::new(seed());
    for round in 0..10 {
        running.signal(Signal::STOP);
        match numbers.below(3) {
            0 => std::fs::write(&file, "wrong").unwrap(),
            1 => std::fs::remove_file(&file).unwrap(),
            _ => std::fs::rename(&file, home.path().join(format!("moved{round}"))).unwrap(),
        }
        running.signal(Signal::CONT);
        // Stopped again in the midst of its work, now and then.
        std::thread::sleep(Duration::from_micros(u64::try_from(numbers.below(2_000)).unwrap()));
        running.signal(Signal::STOP);
        running.signal(Signal::CONT);
        holds(&file, "right");
    }
    running.signal(Signal::TERM);
    let (code, told) = running.end();
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn a_program_that_is_killed_at_random_is_made_up_for() {
    let mut numbers = Numbers::new(seed() + 2000);
    let mut lab = TestEnv::new();
    lab.recovers("at first");
    let (mut ended, runs) = (0, runs(15));
    for run in 0..runs {
        lab.next_version();
        let arguments = lab.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut child = mgmt(&arguments)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let after = numbers.below(250_000);
        std::thread::sleep(Duration::from_micros(u64::try_from(after).unwrap()));
        child.kill().unwrap();
        ended += usize::from(child.wait().unwrap().success());
        let told = format!("run {run} of seed {}: killed after {after} µs", seed());
        lab.is_whole(&told);
        lab.recovers(&told);
    }
    assert!(ended < runs, "none of {runs} was killed before its end");
}

#[test]
fn a_clock_that_jumps_holds_nothing_up() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let (file, graph, ticks, prefix) = (at("file"), at("graph.yaml"), at("ticks"), at("prefix"));
    let text = mgmt_test_support::program::one_file(&file, "right")
        + "  timer:\n  - name: tick\n    interval: 1\n  exec:\n  - name: tock\n    shell: /bin/sh\n"
        + &format!("    cmd: echo tick >> {}\n", ticks.display())
        + "edges:\n- name: e\n  from: {kind: timer, name: tick}\n  to: {kind: exec, name: tock}\n  notify: true\n";
    std::fs::write(&graph, text).unwrap();
    let clock = Clock::new(home.path());
    let mut command = mgmt(&["run", "--prefix", prefix.to_str().unwrap(), "yaml", graph.to_str().unwrap()]);
    clock.given_to(&mut command);
    let running = RunningProgram::start_command(command);
    holds(&file, "right");
    let count = || std::fs::read_to_string(&ticks).unwrap_or_default().lines().count();
    for step in ["+3600", "-86400", "+0", "+3650d", "-400d", "+1"] {
        clock.set(step);
        let before = count();
        std::fs::write(&file, "wrong").unwrap();
        holds(&file, "right");
        eventually(&format!("after {step} the timer goes on"), || count() >= before + 2);
    }
    running.signal(Signal::TERM);
    let (code, told) = running.end();
    assert_eq!(code, Some(0), "{told}");
    // The clock has jumped for the program, too: what it did is recorded in years that are not this one.
    let years = recorded_years(&prefix);
    let (first, last) = (years.first().unwrap(), years.last().unwrap());
    assert!(last - first >= 10, "the clock did not jump: {years:?}");
}

/// The years of what a run has recorded, in order.
fn recorded_years(prefix: &std::path::Path) -> Vec<i32> {
    let records = std::fs::read_dir(prefix.join("history")).unwrap();
    let text: String = records.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    let years = text.lines().filter_map(|line| line.split_once("\"time\":\"")?.1.get(..4)?.parse().ok());
    let mut years: Vec<i32> = years.collect();
    years.sort_unstable();
    years
}
