//! Copying a file that is much larger than the memory it may take.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::os::unix::fs::FileExt as _;

use crate::file_common::TestEnv;
use mgmt_resource::Checked;
use mgmt_resources::file::File;

const SIZE: u64 = 200 << 20;

#[test]
fn a_huge_file_is_copied_and_compared_in_little_memory() {
    let world = TestEnv::new();
    let source = std::fs::File::create(world.at("source")).unwrap();
    source.set_len(SIZE).unwrap();
    source.write_all_at(b"the end", SIZE - 7).unwrap();
    let copy = File { source: world.path("source"), ..world.exists("copy") };
    let before = peak();
    world.apply(&copy).unwrap();
    assert_eq!(world.apply(&copy).unwrap(), Checked::Right);
    source.write_all_at(b"THE END", SIZE - 7).unwrap();
    assert_eq!(world.look(&copy).unwrap(), Checked::Changed);
    let joined = File { fragments: vec![world.path("copy"), world.path("source")], ..world.exists("joined") };
    world.apply(&joined).unwrap();
    assert_eq!(world.apply(&joined).unwrap(), Checked::Right);
    assert_eq!(world.at("joined").metadata().unwrap().len(), 2 * SIZE);
    let grown = peak() - before;
    assert!(grown < 16 << 10, "{grown} KiB more at the peak");
    let joined = std::fs::File::open(world.at("joined")).unwrap();
    for (place, expected) in [(SIZE - 7, b"the end"), (2 * SIZE - 7, b"THE END")] {
        let mut end = [0; 7];
        joined.read_exact_at(&mut end, place).unwrap();
        assert_eq!(&end, expected);
    }
}

/// The most memory that this process ever had, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
