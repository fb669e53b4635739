//! System calls that fail, are slow, or are the last one that the program makes.

use std::process::Stdio;

use crate::common::numbers::{Numbers, seed};
use crate::{Lab, behind, has_ended_in_order};

/// What a disk, a table of descriptors or a kernel without memory can answer to which calls. Reading and writing are not
/// among them: most of that is between threads, and never fails on a machine.
const ERRORS: [(&str, &[&str]); 5] = [
    ("ENOSPC", &["openat", "linkat", "renameat", "fsync", "fdatasync", "mkdirat", "ftruncate"]),
    ("EIO", &["openat", "openat2", "fsync", "fdatasync", "renameat", "fchmod", "statx", "getdents64"]),
    ("EMFILE", &["openat", "openat2", "pidfd_open", "pipe2", "inotify_add_watch"]),
    ("ENOMEM", &["openat", "openat2", "statx", "inotify_add_watch"]),
    ("EROFS", &["openat", "renameat", "linkat", "unlinkat", "mkdirat", "fchmod"]),
];
const KILLED_AT: [&str; 13] = [
    "openat",
    "openat2",
    "write",
    "fsync",
    "fdatasync",
    "fchmod",
    "linkat",
    "renameat",
    "unlinkat",
    "mkdirat",
    "statx",
    "futex",
    "epoll_wait",
];

fn runs(otherwise: usize) -> usize {
    std::env::var("MGMT_FAULT_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn a_call_that_fails_is_told_and_made_up_for() {
    let mut numbers = Numbers::new(seed());
    let mut lab = Lab::new();
    lab.recovers("at first");
    let (mut failed, runs) = (0, runs(40));
    for run in 0..runs {
        lab.next_version();
        let (error, calls) = ERRORS[numbers.below(ERRORS.len())];
        let call = numbers.one_of(calls);
        // Once, or from some moment on. How often a call was made is counted for each thread. Nothing works before the
        // program is loaded, so that the first calls are spared.
        let first = 1 + numbers.below(60) + if call == "openat" { 8 } else { 0 };
        let when = if numbers.below(4) == 0 { format!("{first}+") } else { first.to_string() };
        let told = format!("run {run} of seed {}: {call} gives {error} when {when}", seed());
        let injection = format!("inject={call}:error={error}:when={when}");
        let trace = format!("trace={call}");
        let before =
            ["timeout", "120", "strace", "-f", "-qqq", "-o", "/dev/null", "-e", &trace, "-e", &injection];
        let output = behind(&before, &lab).output().unwrap();
        failed += usize::from(has_ended_in_order(&told, output).code != 0);
        lab.is_whole(&told);
        lab.recovers(&told);
    }
    assert!(failed * 20 >= runs, "only {failed} of {runs} faults were felt");
}

#[test]
fn a_program_that_is_killed_at_a_call_is_made_up_for() {
    let mut numbers = Numbers::new(seed() + 1000);
    let mut lab = Lab::new();
    lab.recovers("at first");
    let (mut killed, runs) = (0, runs(25));
    for run in 0..runs {
        lab.next_version();
        let call = numbers.one_of(&KILLED_AT);
        let when = 1 + numbers.below(if matches!(call, "openat" | "write" | "futex") { 40 } else { 12 });
        let told = format!("run {run} of seed {}: killed at {call} {when}", seed());
        let injection = format!("inject={call}:signal=KILL:when={when}");
        let trace = format!("trace={call}");
        let before = ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", &trace, "-e", &injection];
        let status = behind(&before, &lab).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        killed += usize::from(!status.success());
        lab.is_whole(&told);
        lab.recovers(&told);
    }
    assert!(killed * 4 >= runs, "only {killed} of {runs} were killed");
}

#[test]
fn a_slow_disk_only_takes_longer() {
    let mut lab = Lab::new();
    lab.recovers("at first");
    lab.next_version();
    let before = [
        "timeout",
        "120",
        "strace",
        "-f",
        "-qqq",
        "-o",
        "/dev/null",
        "-e",
        "trace=fsync,fdatasync,renameat,linkat",
        "-e",
        "inject=fsync,fdatasync,renameat,linkat:delay_enter=100000",
    ];
    let run = has_ended_in_order("slow", behind(&before, &lab).output().unwrap());
    assert_eq!(run.code, 0, "{}", run.stderr);
    lab.is_right("slow");
}
