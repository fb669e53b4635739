//! A crash at every boundary of a system call: the file is the old one or the new one, and nothing is left behind.

use std::path::Path;
use std::process::Command;

use mgmt_test_support::program::mgmt_output;

const OLD: &str = "old content\n";
const NEW: &str = "new content\n";

/// The system calls that can be on the way of a file from old to new.
const CALLS: [&str; 14] = [
    "openat",
    "openat2",
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "fchmod",
    "fchown",
    "fchownat",
    "linkat",
    "renameat",
    "renameat2",
    "unlinkat",
    "mkdirat",
];

fn graph(target: &Path) -> String {
    mgmt_test_support::program::one_file(target, NEW)
}

#[test]
fn threat_05_crash_leaves_half_a_file() {
    let home = tempfile::tempdir().unwrap();
    let (directory, prefix) = (home.path().join("managed"), home.path().join("prefix"));
    std::fs::create_dir(&directory).unwrap();
    let target = directory.join("file");
    let text = home.path().join("graph.yaml");
    std::fs::write(&text, graph(&target)).unwrap();
    let arguments =
        ["run", "--prefix", prefix.to_str().unwrap(), "--converger-timeout=0", "--converged-exit"];
    let arguments = [&arguments[..], &["yaml", text.to_str().unwrap()]].concat();
    let (mut kills, mut kept, mut replaced) = (0, 0, 0);
    for call in CALLS {
        // How often a call was made before is counted for each thread, and none makes as many as this.
        for nth in 1..200 {
            std::fs::write(&target, OLD).unwrap();
            let status = Command::new("strace")
                .args(["-f", "-qqq", "-o", "/dev/null", "-e"])
                .arg(format!("trace={call}"))
                .args(["-e", &format!("inject={call}:signal=KILL:when={nth}")])
                .arg(env!("CARGO_BIN_EXE_mgmt"))
                .args(&arguments)
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .status()
                .unwrap();
            match std::fs::read_to_string(&target).unwrap().as_str() {
                OLD => kept += 1,
                NEW => replaced += 1,
                torn => panic!("killed at {call} {nth}: {torn:?}"),
            }
            if status.success() {
                break;
            }
            kills += 1;
        }
        std::fs::write(&target, OLD).unwrap();
        let after = mgmt_output(&arguments);
        assert_eq!(after.code, 0, "after kills at {call}: {}", after.stderr);
        assert_eq!(std::fs::read_to_string(&target).unwrap(), NEW);
        let left: Vec<_> =
            std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["file"], "after kills at {call}");
    }
    assert!(kills > 20 && kept > 10 && replaced > 0, "{kills} kills, {kept} kept, {replaced} replaced");
}
