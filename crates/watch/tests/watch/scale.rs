//! A hundred thousand subscriptions, and a flood. One test, because it measures the whole process.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::test_env::TestEnv;

/// Resident memory in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
}

#[test]
fn many_subscriptions_and_many_events_cost_little() {
    const DIRECTORIES: usize = 1000;
    const FILES: usize = 100;
    let env = TestEnv::in_memory(mgmt_watch::FileHubOptions::default());
    for directory in 0..DIRECTORIES {
        fs::create_dir(env.path(&format!("directory-{directory:04}"))).unwrap();
    }
    let root = env.root().to_owned();
    let path = |directory: usize, file: usize| {
        let path = root.join(format!("directory-{directory:04}/file-{file:04}.conf"));
        mgmt_watch::WatchPath::new(path, false).unwrap()
    };

    let before = resident();
    let start = std::time::Instant::now();
    let mut ids = Vec::with_capacity(DIRECTORIES * FILES);
    for number in 0..DIRECTORIES * FILES {
        let target = path(number / FILES, number % FILES);
        ids.push(env.hub.subscribe(mgmt_watch::Token(number as u64), &target));
    }
    let each = resident().saturating_sub(before) / ids.len();
    println!("{} subscriptions: {:?}, {each} bytes each", ids.len(), start.elapsed());
    assert!(each <= 250, "{each} bytes for each subscription");
    let stats = env.hub.stats();
    assert_eq!(stats.subscriptions, ids.len() + 1);
    assert!(stats.watches <= DIRECTORIES + 5, "{stats:?}");
    env.expect(&[54_321], "one of many", |b| b.write("directory-0543/file-0021.conf", "x"));
    env.expect_silence(&[54_320, 54_322], "its neighbours", |b| {
        b.write("directory-0543/file-0021.conf", "y");
    });

    for name in ["one", "two"] {
        env.write(&format!("directory-0000/{name}"), "");
    }
    let before = resident();
    for round in 0..300_000u32 {
        let name = if round % 2 == 0 { "directory-0000/one" } else { "directory-0000/two" };
        fs::set_permissions(env.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    env.expect(&[7], "after the flood", |b| b.write("directory-0000/file-0007.conf", "x"));
    let grown = resident().saturating_sub(before);
    println!("after the flood: {:?}, {grown} bytes more", env.hub.stats());
    assert!(grown < 16 << 20, "{grown} bytes more after a flood");

    let start = std::time::Instant::now();
    for id in ids {
        env.hub.unsubscribe(id);
    }
    println!("unsubscribed: {:?}", start.elapsed());
    env.hub.check_invariants();
    assert!(env.hub.stats().watches <= 5, "{:?}", env.hub.stats());
}
