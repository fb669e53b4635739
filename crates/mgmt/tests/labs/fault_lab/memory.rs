//! Too little memory: of addresses, and of what a group of processes may use.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use crate::fault_lab::{TestEnv, behind};
use mgmt_test_support::program::{eventually, mgmt_output};

#[test]
fn little_memory_ends_the_program_and_nothing_else() {
    let mut lab = TestEnv::new();
    lab.recovers("at first");
    let mut codes = Vec::new();
    for megabytes in [16, 64, 128, 160, 192, 224, 256, 512, 1200] {
        lab.next_version();
        let told = format!("{megabytes} MB of addresses");
        let limit = format!("--as={}", megabytes << 20);
        // Who has no memory cannot even say so; how it ends is up to the system.
        let output = behind(&["timeout", "120", "prlimit", &limit], &lab).output().unwrap();
        assert_ne!(output.status.code(), Some(124), "{told}: it hangs");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{told}: {output:?}");
        codes.push(output.status.code());
        if output.status.success() {
            lab.is_right(&told);
        }
        lab.is_whole(&told);
        lab.recovers(&told);
    }
    assert_ne!(codes[0], Some(0), "some limit is felt: {codes:?}");
    assert_eq!(codes[codes.len() - 1], Some(0), "the largest is enough: {codes:?}");
}

/// A group of processes whose memory is limited; it is gone with the value.
struct Group {
    path: PathBuf,
    limit: &'static str,
}

impl Group {
    /// In the hierarchy of memory, where there is one for each resource, or in the one for all.
    fn new() -> Group {
        let all = PathBuf::from("/sys/fs/cgroup");
        let (parent, limit) = match all.join("memory").is_dir() {
            true => (all.join("memory"), "memory.limit_in_bytes"),
            false => {
                let has = std::fs::read_to_string(all.join("cgroup.subtree_control")).unwrap_or_default();
                if !has.split_whitespace().any(|name| name == "memory") {
                    std::fs::write(all.join("cgroup.subtree_control"), "+memory")
                        .expect("a host whose control groups can be written");
                }
                (all, "memory.max")
            }
        };
        let path = parent.join(format!("mgmt-fault-lab-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a host whose control groups can be written");
        Group { path, limit }
    }

    fn limit(&self, bytes: u64) {
        std::fs::write(self.path.join(self.limit), bytes.to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Busy until the last process is gone.
        eventually("the group of processes goes", || std::fs::remove_dir(&self.path).is_ok());
    }
}

#[test]
fn a_program_that_the_kernel_kills_for_want_of_memory_is_made_up_for() {
    let mut lab = TestEnv::new();
    lab.recovers("at first");
    let group = Group::new();
    let join = format!("echo $$ > {} && exec \"$@\"", group.path.join("cgroup.procs").display());
    let (mut killed, mut last) = (0, None);
    for kilobytes in [1_024_u64, 2_048, 3_072, 4_096, 5_120, 6_144, 8_192, 12_288, 1 << 20] {
        lab.next_version();
        let told = format!("{kilobytes} kB of memory");
        group.limit(kilobytes << 10);
        let output = behind(&["timeout", "120", "sh", "-c", &join, "sh"], &lab).output().unwrap();
        assert_ne!(output.status.code(), Some(124), "{told}: it hangs");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{told}: {output:?}");
        // `timeout` has joined nobody, and passes on how the program ended.
        killed += usize::from(output.status.code() == Some(137) || output.status.signal() == Some(9));
        last = output.status.code();
        if output.status.success() {
            lab.is_right(&told);
        }
        lab.is_whole(&told);
        lab.recovers(&told);
    }
    assert!(killed > 0, "no limit was felt");
    assert_eq!(last, Some(0), "the largest is enough");
    assert_eq!(mgmt_output(&["--version"]).code, 0);
}
