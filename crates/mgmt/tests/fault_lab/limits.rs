//! Too little of something: room on the disk, descriptors, memory, watches; and a disk that may not be written.

use std::process::Command;

use crate::common::{Running, eventually, holds};
use crate::{Lab, behind, has_ended_in_order};

/// Runs a script in a mount namespace of its own, with `$MGMT` for the program with its arguments.
fn with_mounts(script: &str, lab: &Lab) -> std::process::Output {
    let words: Vec<String> = lab.arguments().iter().map(|word| format!("'{word}'")).collect();
    let program = format!("{} {}", env!("CARGO_BIN_EXE_mgmt"), words.join(" "));
    let script = format!("set -u; DIR='{}'; mgmt() {{ {program}; }}\n{script}", lab.managed.display());
    Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap()
}

#[test]
fn a_full_disk_is_told_and_made_up_for_when_there_is_room() {
    let lab = Lab::new();
    // What is on the small disk is copied out at its end, to be looked at.
    let script = "mount -t tmpfs -o size=40k,mode=755 tmpfs \"$DIR\"; mgmt; first=$?
        find \"$DIR\" -name '.mgmt-*' -exec echo LEFT {} \\;
        mount -o remount,size=8m \"$DIR\"; mgmt; second=$?
        cp -a \"$DIR\" \"$DIR.copy\"; echo \"codes $first $second\"";
    let run = has_ended_in_order("full disk", with_mounts(script, &lab));
    assert!(run.stdout.contains("codes 1 0"), "{run:?}");
    assert!(!run.stdout.contains("LEFT"), "{run:?}");
    assert!(run.stderr.contains("No space left on device"), "{run:?}");
    std::fs::remove_dir(&lab.managed).unwrap();
    std::fs::rename(lab.managed.with_extension("copy"), &lab.managed).unwrap();
    lab.is_right("full disk");
}

#[test]
fn a_disk_that_becomes_read_only_is_told_and_made_up_for() {
    let mut lab = Lab::new();
    lab.recovers("at first");
    lab.next_version();
    let script = "mount --bind \"$DIR\" \"$DIR\"; mount -o remount,ro,bind \"$DIR\"; mgmt; echo \"code $?\"";
    let run = has_ended_in_order("read-only", with_mounts(script, &lab));
    assert!(run.stdout.contains("code 1"), "{run:?}");
    assert!(run.stderr.contains("Read-only file system"), "{run:?}");
    lab.is_whole("read-only");
    lab.recovers("read-only");
}

#[test]
fn few_descriptors_are_told_or_enough() {
    let mut lab = Lab::new();
    lab.recovers("at first");
    let mut enough = false;
    for descriptors in [4, 8, 10, 12, 14, 16, 18, 20, 24, 32, 64] {
        lab.next_version();
        let told = format!("{descriptors} descriptors");
        let limit = format!("--nofile={descriptors}");
        let run =
            has_ended_in_order(&told, behind(&["timeout", "120", "prlimit", &limit], &lab).output().unwrap());
        enough = run.code == 0;
        lab.is_whole(&told);
        lab.recovers(&told);
    }
    assert!(enough, "64 descriptors are enough");
}

#[test]
fn little_memory_ends_the_program_and_nothing_else() {
    let mut lab = Lab::new();
    lab.recovers("at first");
    for megabytes in [16, 64, 128, 256, 512, 1200] {
        lab.next_version();
        let told = format!("{megabytes} MB of addresses");
        let limit = format!("--as={}", megabytes << 20);
        // Who has no memory cannot even say so; how it ends is up to the system.
        let output = behind(&["timeout", "120", "prlimit", &limit], &lab).output().unwrap();
        assert_ne!(output.status.code(), Some(124), "{told}: it hangs");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{told}: {output:?}");
        lab.is_whole(&told);
        lab.recovers(&told);
    }
}

#[test]
fn without_watches_files_are_repaired_all_the_same() {
    let home = tempfile::tempdir().unwrap();
    let (file, graph) = (home.path().join("file"), home.path().join("graph.yaml"));
    std::fs::write(&graph, crate::common::one_file(&file, "right")).unwrap();
    // The limit is that of a user namespace, and goes with it.
    let script = format!(
        "echo 0 > /proc/sys/user/max_inotify_watches && exec {} run --tmp-prefix yaml {}",
        env!("CARGO_BIN_EXE_mgmt"),
        graph.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &script]).stdin(std::process::Stdio::null());
    let mut running = Running::start_command(command);
    running.wait_for("max_user_watches");
    holds(&file, "right");
    std::fs::write(&file, "wrong").unwrap();
    holds(&file, "right");
    std::fs::remove_file(&file).unwrap();
    holds(&file, "right");
    running.signal(rustix::process::Signal::TERM);
    let (code, told) = running.end();
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn events_that_were_lost_are_made_up_for() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let (file, graph) = (home.path().join("file"), home.path().join("graph.yaml"));
    std::fs::write(&graph, crate::common::one_file(&file, "right")).unwrap();
    let running = Running::start(&["run", "--tmp-prefix", "yaml", graph.to_str().unwrap()]);
    holds(&file, "right");
    for _ in 0..3 {
        // Nobody reads the events, until the kernel throws them away.
        running.signal(rustix::process::Signal::STOP);
        let limit: usize = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let (one, two) = (home.path().join("one"), home.path().join("two"));
        std::fs::write(&one, "").unwrap();
        for _ in 0..limit / 4 + 100 {
            std::fs::rename(&one, &two).unwrap();
            std::fs::rename(&two, &one).unwrap();
        }
        std::fs::write(&file, "wrong").unwrap();
        running.signal(rustix::process::Signal::CONT);
        holds(&file, "right");
    }
    eventually("it runs on", || running.id() > 0);
}
