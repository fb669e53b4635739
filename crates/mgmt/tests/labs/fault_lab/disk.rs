//! A disk that fails: a file system on a loop device whose file is cut off, so that reading gives an error, or lies on a disk
//! that is full, so that what was written cannot be kept.
//!
//! The mounts are in a namespace of their own, and the loop device goes with the last of them.

use crate::fault_lab::limits::{take_copy, with_mounts};
use crate::fault_lab::{TestEnv, in_order, runs};
use mgmt_test_support::numbers::{Numbers, seed};

/// A small ext4 in a file on a tmpfs, mounted where the managed files are: `$IMAGE` is its file. `plug` mounts it anew, so
/// that nothing of it is remembered.
const DISK: &str = "
    set -e
    BASE=\"$DIR.disk\"; mkdir \"$BASE\"; mount -t tmpfs -o size=24m,mode=700 tmpfs \"$BASE\"; IMAGE=\"$BASE/image\"
    truncate -s 16M \"$IMAGE\"; mkfs.ext4 -q -b 1024 -J size=1 -E nodiscard \"$IMAGE\"
    plug() { mount -o loop,nodiscard \"$IMAGE\" \"$DIR\"; }
    plug; rmdir \"$DIR/lost+found\"; chmod 755 \"$DIR\"
    set +e
";

#[test]
fn what_a_disk_cannot_read_is_told_and_made_up_for() {
    let mut lab = TestEnv::new();
    // The content differs and is as long, so that it has to be read.
    let old = lab.home.path().join("old.yaml");
    std::fs::copy(lab.graph(), &old).unwrap();
    lab.next_version();
    let script = format!(
        "{DISK}
        new=$(cat {graph}); cat {old} > {graph}; mgmt; first=$?
        printf '%s\\n' \"$new\" > {graph}; echo x > \"$DIR/unwanted\"; rm \"$DIR/done\"; sync
        umount \"$DIR\"; plug; ls -lR \"$DIR\" > /dev/null
        cat \"$IMAGE\" > \"$BASE/kept\"; truncate -s 100K \"$IMAGE\"
        cat \"$DIR/file0\" > /dev/null 2> /dev/null; echo \"reads $?\"
        mgmt; second=$?
        umount \"$DIR\"; cat \"$BASE/kept\" > \"$IMAGE\"; plug
        mgmt; third=$?
        cp -a \"$DIR\" \"$DIR.copy\"; echo \"codes $first $second $third\"",
        graph = lab.graph().display(),
        old = old.display()
    );
    let run = in_order("a disk that cannot be read", with_mounts(&script, &lab));
    assert!(run.stdout.contains("reads 1"), "the disk fails: {run:?}");
    assert!(run.stdout.contains("codes 0 1 0"), "{run:?}");
    let complaint =
        run.stderr.lines().find(|line| line.contains("error") && line.contains("Input/output error"));
    let complaint = complaint.unwrap_or_else(|| panic!("{}", run.stderr));
    assert!(complaint.contains(lab.managed.to_str().unwrap()), "{complaint}");
    take_copy(&lab);
    lab.is_right("a disk that cannot be read");
}

#[test]
fn what_a_disk_cannot_keep_is_told_and_made_up_for() {
    let mut numbers = Numbers::new(seed() + 4000);
    for run in 0..runs(4).min(100) {
        // Kilobytes that the disk can still take: a part of what is to be written.
        let room = numbers.below(120);
        let told = format!("run {run} of seed {}: a disk that keeps {room} kB", seed());
        let mut lab = TestEnv::new();
        let old = lab.home.path().join("old.yaml");
        std::fs::copy(lab.graph(), &old).unwrap();
        lab.next_version();
        // What is on the disk is looked at after it was taken out, when nothing but the disk remembers it.
        let script = format!(
            "{DISK}
            new=$(cat {graph}); cat {old} > {graph}; mgmt; first=$?
            printf '%s\\n' \"$new\" > {graph}; echo x > \"$DIR/unwanted\"; rm \"$DIR/done\"; sync
            free=$(df -k --output=avail \"$BASE\" | tail -1)
            head -c $(( (free - {room}) * 1024 )) /dev/zero > \"$BASE/full\"
            mgmt; second=$?
            umount \"$DIR\"; rm \"$BASE/full\"; plug
            cp -a \"$DIR\" \"$DIR.between\"
            mgmt; third=$?
            cp -a \"$DIR\" \"$DIR.copy\"; echo \"codes $first $second $third\"",
            graph = lab.graph().display(),
            old = old.display()
        );
        let run = in_order(&told, with_mounts(&script, &lab));
        assert!(run.stdout.contains("codes 0 1 0"), "{told}: {run:?}");
        let words = ["Input/output error", "No space left on device", "Read-only file system"];
        assert!(words.iter().any(|words| run.stderr.contains(words)), "{told}: {run:?}");
        let between = lab.managed.with_extension("between");
        std::fs::remove_dir_all(&lab.managed).unwrap();
        std::fs::rename(&between, &lab.managed).unwrap();
        lab.is_whole(&format!("{told}, taken out"));
        take_copy(&lab);
        lab.is_right(&told);
    }
}
