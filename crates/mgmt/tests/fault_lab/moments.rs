//! Time that stands still or jumps, and an end at any moment.

use std::time::Duration;

use rustix::process::Signal;

use crate::Lab;
use crate::common::numbers::{Numbers, seed};
use crate::common::{Running, holds, mgmt};

#[test]
fn a_program_that_is_stopped_catches_up() {
    let home = tempfile::tempdir().unwrap();
    let (file, graph) = (home.path().join("file"), home.path().join("graph.yaml"));
    std::fs::write(&graph, crate::common::one_file(&file, "right")).unwrap();
    let running = Running::start(&["run", "--tmp-prefix", "yaml", graph.to_str().unwrap()]);
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
    let mut lab = Lab::new();
    lab.recovers("at first");
    for run in 0..15 {
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
        child.wait().unwrap();
        let told = format!("run {run} of seed {}: killed after {after} µs", seed());
        lab.is_whole(&told);
        lab.recovers(&told);
    }
}

#[test]
fn a_clock_that_jumps_holds_nothing_up() {
    let home = tempfile::tempdir().unwrap();
    let (file, graph) = (home.path().join("file"), home.path().join("graph.yaml"));
    let text = crate::common::one_file(&file, "right") + "  timer:\n  - name: tick\n    interval: 1\n";
    std::fs::write(&graph, text).unwrap();
    let clock = home.path().join("clock");
    let set = |step: &str| {
        // In one step, so that it is never read half-written.
        let next = home.path().join("next");
        std::fs::write(&next, step).unwrap();
        std::fs::rename(&next, &clock).unwrap();
    };
    set("+0");
    let library = std::fs::read_dir("/usr/lib")
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path().join("faketime/libfaketimeMT.so.1")))
        .find(|path| path.exists())
        .expect("the Debian package `faketime`; `cargo xtask setup` installs it");
    let mut command = mgmt(&["run", "--tmp-prefix", "yaml", graph.to_str().unwrap()]);
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &clock).env("FAKETIME_NO_CACHE", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    let running = Running::start_command(command);
    holds(&file, "right");
    for step in ["+3600", "-86400", "+0", "+3650d", "-1d", "+1"] {
        set(step);
        std::fs::write(&file, "wrong").unwrap();
        holds(&file, "right");
    }
    running.signal(Signal::TERM);
    let (code, told) = running.end();
    assert_eq!(code, Some(0), "{told}");
}
