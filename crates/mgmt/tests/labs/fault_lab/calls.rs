//! System calls that fail, are slow, or are the last one that the program makes.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::fault_lab::habits::Habits;
use crate::fault_lab::{TestEnv, behind, runs};
use mgmt_test_support::numbers::{Numbers, seed};

/// What a disk, a table of descriptors or a kernel without memory can answer to which calls, and the words for it. `read` and
/// `write` are in the next table: most of them are between threads, which cannot fail. Of `socketpair` there is none:
/// whether there are descriptors enough is asked before.
const ERRORS: [(&str, &str, &[&str]); 8] = [
    (
        "ENOSPC",
        "No space left on device",
        &[
            "openat",
            "linkat",
            "renameat",
            "renameat2",
            "symlinkat",
            "fsync",
            "fdatasync",
            "mkdir",
            "mkdirat",
            "ftruncate",
            "fallocate",
            "fsetxattr",
            "copy_file_range",
            "inotify_add_watch",
        ],
    ),
    (
        "EIO",
        "Input/output error",
        &[
            "openat",
            "openat2",
            "fsync",
            "fdatasync",
            "renameat",
            "renameat2",
            "unlinkat",
            "fchmod",
            "fchown",
            "statx",
            "newfstatat",
            "fstat",
            "pread64",
            "lseek",
            "readlink",
            "readlinkat",
            "getdents64",
            "fgetxattr",
            "flistxattr",
            "flock",
            "copy_file_range",
        ],
    ),
    (
        "EMFILE",
        "oo many open files",
        &["openat", "openat2", "pidfd_open", "pipe2", "eventfd2", "epoll_create1", "inotify_init1", "fcntl"],
    ),
    ("ENFILE", "Too many open files in system", &["openat", "openat2", "pidfd_open", "pipe2"]),
    (
        "ENOMEM",
        "Cannot allocate memory",
        &["openat", "openat2", "statx", "newfstatat", "getdents64", "inotify_add_watch", "execve", "clone3"],
    ),
    ("EAGAIN", "Resource temporarily unavailable", &["clone3"]),
    (
        "EROFS",
        "Read-only file system",
        &["openat", "renameat", "linkat", "symlinkat", "unlinkat", "mkdirat", "fchmod", "fchown"],
    ),
    ("EACCES", "Permission denied", &["openat", "openat2", "renameat", "unlinkat", "symlinkat", "fchmod"]),
];
const KILLED_AT: [&str; 22] = [
    "openat",
    "openat2",
    "read",
    "pread64",
    "write",
    "fsync",
    "fdatasync",
    "fchmod",
    "fchown",
    "linkat",
    "symlinkat",
    "renameat",
    "renameat2",
    "unlinkat",
    "mkdirat",
    "statx",
    "newfstatat",
    "fstat",
    "getdents64",
    "futex",
    "epoll_wait",
    "clone3",
];

/// Runs with a fault; says how it ended, and whether the fault was felt.
fn run(lab: &TestEnv, call: &str, injection: &str, paths: &[String]) -> (std::process::Output, bool) {
    let trace = lab.home.path().join("trace");
    let (call, injection) = (format!("trace={call}"), format!("inject={injection}"));
    let mut before = vec!["timeout", "120", "strace", "-f", "-qqq", "-o", trace.to_str().unwrap()];
    before.extend(["-e", &call, "-e", &injection]);
    for path in paths {
        before.extend(["-P", path.as_str()]);
    }
    let output = behind(&before, lab).output().unwrap();
    let is_felt = std::fs::read_to_string(trace).unwrap().contains("(INJECTED)");
    (output, is_felt)
}

#[test]
fn a_call_that_fails_is_told_and_made_up_for() {
    let mut numbers = Numbers::new(seed());
    let mut lab = TestEnv::new();
    lab.recovers("at first");
    let habits = Habits::of(&mut lab);
    let all: Vec<(&str, &str, &str)> = ERRORS
        .iter()
        .flat_map(|(error, words, calls)| calls.iter().map(move |call| (*error, *words, *call)))
        .filter(|(.., call)| habits.makes(call))
        .collect();
    assert!(all.len() > 40, "{all:?}");
    let (mut felt, mut failed, runs) = (0, 0, runs(40));
    for run_number in 0..runs {
        lab.next_version();
        let (error, words, call) = all[numbers.below(all.len())];
        // Once, or from some moment on.
        let first = habits.when(call, &mut numbers);
        let when = if numbers.below(4) == 0 { format!("{first}+") } else { first.to_string() };
        let told = format!("run {run_number} of seed {}: {call} gives {error} when {when}", seed());
        let (output, is_felt) = run(&lab, call, &format!("{call}:error={error}:when={when}"), &[]);
        felt += usize::from(is_felt);
        failed += usize::from(lab.has_ended_in_order(&told, output, &[words]).code != 0);
        lab.recovers(&told);
    }
    assert!(felt * 2 > runs, "only {felt} of {runs} faults were felt");
    assert!(failed * 10 > runs, "only {failed} of {runs} faults had an effect");
}

#[test]
fn what_cannot_be_read_or_written_is_told_and_made_up_for() {
    let mut numbers = Numbers::new(seed() + 3000);
    let mut lab = TestEnv::new();
    lab.recovers("at first");
    let own = lab.own_directory();
    let own = |name: &str| own.join(name).display().to_string();
    let read: Vec<String> =
        [own("engine/journal"), own("world/store"), lab.graph().display().to_string()].into();
    let written: Vec<String> =
        [own("lock"), own("engine/journal"), own("world/store"), own("history/0000000001.jsonl")].into();
    let (mut felt, runs) = (0, runs(16));
    for run_number in 0..runs {
        lab.next_version();
        let (call, paths) = if numbers.below(2) == 0 { ("read", &read) } else { ("write", &written) };
        let (error, words) =
            [("EIO", "Input/output error"), ("ENOSPC", "No space left on device")][numbers.below(2)];
        let (error, words) = if call == "read" { ("EIO", "Input/output error") } else { (error, words) };
        let path = &paths[numbers.below(paths.len())];
        let when = if numbers.below(2) == 0 { "1+" } else { "1" };
        let told = format!("run {run_number} of seed {}: {call} of {path} gives {error} when {when}", seed());
        let injection = format!("{call}:error={error}:when={when}");
        let (output, is_felt) = run(&lab, call, &injection, std::slice::from_ref(path));
        felt += usize::from(is_felt);
        lab.has_ended_in_order(&told, output, &[words]);
        lab.recovers(&told);
    }
    assert!(felt * 3 > runs, "only {felt} of {runs} faults were felt");
}

#[test]
fn a_directory_of_its_own_that_cannot_be_looked_at_is_told_as_such() {
    let mut lab = TestEnv::new();
    lab.recovers("at first");
    let own = lab.own_directory().display().to_string();
    let (output, is_felt) = run(&lab, "statx", "statx:error=EIO", &[own]);
    assert!(is_felt);
    let run = lab.has_ended_in_order("statx gives EIO", output, &["Input/output error"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(!run.stderr.contains("File exists"), "it is told that it is there: {}", run.stderr);
    lab.recovers("statx gives EIO");
}

#[test]
fn a_program_that_is_killed_at_a_call_is_made_up_for() {
    let mut numbers = Numbers::new(seed() + 1000);
    let mut lab = TestEnv::new();
    lab.recovers("at first");
    let habits = Habits::of(&mut lab);
    let calls: Vec<&str> = KILLED_AT.into_iter().filter(|call| habits.makes(call)).collect();
    assert!(calls.len() > 12, "{calls:?}");
    let (mut killed, runs) = (0, runs(25));
    for run in 0..runs {
        lab.next_version();
        let call = numbers.one_of(&calls);
        let when = habits.when(call, &mut numbers);
        let told = format!("run {run} of seed {}: killed at {call} {when}", seed());
        let injection = format!("inject={call}:signal=KILL:when={when}");
        let trace = format!("trace={call}");
        let before = ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", &trace, "-e", &injection];
        let status = behind(&before, &lab).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        killed += usize::from(!status.success());
        lab.is_whole(&told);
        lab.recovers(&told);
    }
    assert!(killed * 2 > runs, "only {killed} of {runs} were killed");
}

#[test]
fn a_slow_disk_only_takes_longer() {
    let mut lab = TestEnv::new();
    lab.recovers("at first");
    lab.next_version();
    let (written, looked) = (
        "fsync,fdatasync,renameat,linkat,symlinkat",
        "openat,openat2,read,pread64,statx,newfstatat,getdents64",
    );
    let trace = format!("trace={written},{looked}");
    let (slow, slower) =
        (format!("inject={looked}:delay_enter=10000"), format!("inject={written}:delay_enter=100000"));
    let before = ["timeout", "120", "strace", "-f", "-qqq", "-o", "/dev/null", "-e", &trace];
    let before = [&before[..], &["-e", &slow, "-e", &slower]].concat();
    let began = Instant::now();
    let output = behind(&before, &lab).output().unwrap();
    let took = began.elapsed();
    let run = lab.has_ended_in_order("slow", output, &[]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(took > Duration::from_millis(500), "it was not slow: {took:?}");
    lab.recovers("slow");
}
