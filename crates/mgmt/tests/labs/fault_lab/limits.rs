//! Too little room on the disk, too few descriptors, and a disk that may not be written.

use std::process::{Command, Output, Stdio};

use crate::fault_lab::{TestEnv, behind, in_order};
use mgmt_test_support::program::{RunningProgram, holds};

/// Runs a script in a mount namespace of its own, with `mgmt` for the program with its arguments and `$DIR` for the directory
/// of the managed files.
pub(crate) fn with_mounts(script: &str, lab: &TestEnv) -> Output {
    let words: Vec<String> = lab.arguments().iter().map(|word| format!("'{word}'")).collect();
    let program = format!("{} {}", env!("CARGO_BIN_EXE_mgmt"), words.join(" "));
    let script = format!("set -u; DIR='{}'; mgmt() {{ {program}; }}\n{script}", lab.managed.display());
    Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap()
}

/// Puts what was on a disk that is gone where the managed files are.
pub(crate) fn take_copy(lab: &TestEnv) {
    std::fs::remove_dir_all(&lab.managed).unwrap();
    std::fs::rename(lab.managed.with_extension("copy"), &lab.managed).unwrap();
}

#[test]
fn a_full_disk_is_told_and_made_up_for_when_there_is_room() {
    let mut lab = TestEnv::new();
    // What is on the small disk is copied out at its end, to be looked at.
    let script = "mount -t tmpfs -o size=40k,mode=755 tmpfs \"$DIR\"; mgmt; first=$?
        find \"$DIR\" -name '.mgmt-*' -exec echo LEFT {} \\;
        mount -o remount,size=8m \"$DIR\"; mgmt; second=$?
        cp -a \"$DIR\" \"$DIR.copy\"; echo \"codes $first $second\"";
    let run = in_order("full disk", with_mounts(script, &lab));
    assert!(run.stdout.contains("codes 1 0"), "{run:?}");
    assert!(!run.stdout.contains("LEFT"), "{run:?}");
    assert!(run.stderr.contains("No space left on device"), "{run:?}");
    take_copy(&lab);
    lab.is_right("full disk");
    lab.recovers("full disk");
}

#[test]
fn a_disk_that_is_read_only_is_told_and_made_up_for() {
    let mut lab = TestEnv::new();
    lab.recovers("at first");
    lab.next_version();
    let script = "mount --bind \"$DIR\" \"$DIR\"; mount -o remount,ro,bind \"$DIR\"; mgmt; echo \"code $?\"";
    let run = in_order("read-only", with_mounts(script, &lab));
    assert!(run.stdout.contains("code 1"), "{run:?}");
    assert!(run.stderr.contains("Read-only file system"), "{run:?}");
    lab.is_whole("read-only");
    lab.recovers("read-only");
}

/// Changes a mount of the namespace that a process has.
fn remount(process: u32, mount: &std::path::Path, how: &str) {
    let mut command = Command::new("nsenter");
    command.args(["--mount", "--target", &process.to_string()]);
    command.args(["mount", "-o", &format!("remount,{how},bind")]).arg(mount);
    assert!(command.status().unwrap().success(), "{how}");
}

#[test]
fn a_disk_that_becomes_read_only_while_it_runs_is_told_and_made_up_for() {
    let home = tempfile::tempdir().unwrap();
    let managed = home.path().join("managed");
    std::fs::create_dir(&managed).unwrap();
    let (file, graph) = (managed.join("file"), home.path().join("graph.yaml"));
    let text = mgmt_test_support::program::one_file(&file, "right");
    std::fs::write(&graph, text).unwrap();
    // Only the program has the mount; the test writes to the disk behind it.
    let script = format!(
        "mount --bind {managed} {managed} && exec {} run --tmp-prefix yaml {}",
        env!("CARGO_BIN_EXE_mgmt"),
        graph.display(),
        managed = managed.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).stdin(Stdio::null());
    let mut running = RunningProgram::start_command(command);
    holds(&file, "right");
    remount(running.id(), &managed, "ro");
    std::fs::write(&file, "wrong").unwrap();
    running.wait_for("Read-only file system");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "wrong");
    remount(running.id(), &managed, "rw");
    holds(&file, "right");
    let names: Vec<_> =
        std::fs::read_dir(&managed).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["file"]);
    running.signal(rustix::process::Signal::TERM);
    let (code, told) = running.end();
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn few_descriptors_are_told_or_enough() {
    let mut lab = TestEnv::new();
    lab.recovers("at first");
    let mut codes = Vec::new();
    for descriptors in (4..24).chain([32, 64]) {
        lab.next_version();
        let told = format!("{descriptors} descriptors");
        let limit = format!("--nofile={descriptors}");
        let output = behind(&["timeout", "120", "prlimit", &limit], &lab).output().unwrap();
        codes.push(lab.has_ended_in_order(&told, output, &["oo many open files"]).code);
        lab.recovers(&told);
    }
    assert_eq!((codes[0], codes[codes.len() - 1]), (1, 0), "4 are too few and 64 are enough: {codes:?}");
}
