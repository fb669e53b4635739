//! Running out of watches, in a user name space whose own limit is tiny.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

use crate::test_env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::test_env::TestEnv;
use mgmt_watch::{FileHub, FileHubOptions, Notice};

/// Runs an ignored test under a limit. The limit belongs to a new user name space and dies with it; the
/// machine's own is never touched.
fn run_limited(sysctl: &str, limit: u32, test: &str) {
    let possible = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "true"])
        .status()
        .is_ok_and(|status| status.success());
    assert!(possible, "this test needs user name spaces and the program unshare (Debian package util-linux)");
    let line = format!(
        "exec unshare --user --map-root-user sh -c \"echo {limit} > /proc/sys/user/{sysctl} && exec $TEST\""
    );
    test_env::run_inside(&line, test);
}

fn quick() -> TestEnv {
    TestEnv::in_memory(FileHubOptions { scan_interval: Duration::from_millis(200) })
}

fn await_degraded(env: &TestEnv, wanted: usize) {
    let start = Instant::now();
    while env.hub.stats().degraded != wanted {
        assert!(start.elapsed() < test_env::EVENT_TIMEOUT, "{:?}", env.hub.stats());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn twenty_thousand_directories_under_a_small_limit_are_scanned() {
    run_limited("max_inotify_watches", 500, "inside_many_directories");
}

#[test]
#[ignore = "started by twenty_thousand_directories_under_a_small_limit_are_scanned"]
fn inside_many_directories() {
    if !test_env::inside() {
        return;
    }
    let env = quick();
    for number in 0..20_000 {
        fs::create_dir(env.path(&format!("d{number}"))).unwrap();
    }
    let ids: Vec<_> = (0..20_000).map(|number| env.watch(number, &format!("d{number}/f"))).collect();
    let stats = env.hub.stats();
    assert!(stats.watches <= 500, "{stats:?}");
    assert!(stats.degraded >= 19_500, "{stats:?}");
    env.hub.check_invariants();
    env.await_notice(|notice| matches!(notice, Notice::WatchLimit { .. }));
    env.await_notice(
        |notice| matches!(notice, Notice::Scanning { subscriptions, .. } if *subscriptions > 10_000),
    );
    let told: Vec<Notice> =
        env.notices().into_iter().filter(|notice| matches!(notice, Notice::WatchLimit { .. })).collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].to_string().contains("fs.inotify.max_user_watches"), "{}", told[0]);

    env.expect(&[0], "one that has a watch", |b| b.write("d0/f", "x"));
    env.expect(&[19_999], "created, seen by scanning", |b| b.write("d19999/f", "x"));
    for id in &ids[..19_000] {
        env.hub.unsubscribe(*id);
    }
    env.expect(&[19_998], "created, seen by scanning or by a watch", |b| b.write("d19998/f", "x"));
    env.expect(&[19_998], "written", |b| b.write("d19998/f", "yy"));
    env.expect(&[19_998], "removed", |b| fs::remove_file(b.path("d19998/f")).unwrap());
    env.expect(&[19_998], "parent removed", |b| fs::remove_dir(b.path("d19998")).unwrap());

    for id in &ids[19_000..19_900] {
        env.hub.unsubscribe(*id);
    }
    await_degraded(&env, 0);
    env.await_notice(|notice| *notice == Notice::Recovered);
    env.expect(&[19_999], "a real watch again", |b| b.write("d19999/f", "y"));
    let before = env.hub.stats();
    std::thread::sleep(Duration::from_millis(500));
    let after = env.hub.stats();
    assert!(after.wakeups - before.wakeups <= after.events - before.events, "no scanning once recovered");
}

#[test]
fn a_tree_larger_than_the_limit_is_scanned() {
    run_limited("max_inotify_watches", 100, "inside_large_tree");
}

#[test]
#[ignore = "started by a_tree_larger_than_the_limit_is_scanned"]
fn inside_large_tree() {
    if !test_env::inside() {
        return;
    }
    let env = quick();
    for number in 0..300 {
        env.mkdir(&format!("t/{}/{}/{number}", number % 3, number % 7));
    }
    env.watch_tree(1, "t");
    env.watch(2, "t/0/0/0/f");
    assert!(env.hub.stats().degraded >= 1, "{:?}", env.hub.stats());
    for number in 0..300 {
        env.expect(&[1], "write anywhere", |b| {
            b.write(&format!("t/{}/{}/{number}/f", number % 3, number % 7), "x");
        });
        if number == 20 {
            break;
        }
    }
    env.expect(&[1, 2], "removed", |b| fs::remove_dir_all(b.path("t")).unwrap());
    await_degraded(&env, 0);
    env.expect(&[1], "made small", |b| b.mkdir("t/a"));
    env.expect(&[1], "and watched", |b| b.write("t/a/f", "x"));
    env.expect(&[1], "grown over the limit", |b| {
        for number in 0..300 {
            b.mkdir(&format!("t/more/{number}"));
        }
    });
    await_degraded(&env, 1);
    env.expect(&[1], "and scanned", |b| b.write("t/more/299/f", "x"));
}

#[test]
fn no_watch_at_all_still_works() {
    run_limited("max_inotify_watches", 0, "inside_no_watch_at_all");
}

#[test]
#[ignore = "started by no_watch_at_all_still_works"]
fn inside_no_watch_at_all() {
    if !test_env::inside() {
        return;
    }
    let env = quick();
    env.mkdir("t/a");
    env.watch(1, "d/f");
    env.watch_tree(2, "t");
    // The marker of the env is scanned as well, so order proves nothing here; only arrival does.
    env.expect(&[1], "made", |b| {
        b.mkdir("d");
        b.write("d/f", "x");
    });
    env.expect(&[2], "below", |b| b.write("t/a/f", "x"));
    env.expect(&[2], "deeper", |b| b.mkdir("t/b/c/d"));
    assert_eq!(env.hub.stats().watches, 0);
}

#[test]
fn a_directory_that_must_not_be_read_is_scanned() {
    mgmt_test_support::require_root!();
    test_env::run_inside_as_anybody(
        "exec setpriv --reuid 65534 --regid 65534 --clear-groups $TEST",
        "inside_unreadable_directory",
    );
}

#[test]
#[ignore = "started by a_directory_that_must_not_be_read_is_scanned"]
fn inside_unreadable_directory() {
    if !test_env::inside() {
        return;
    }
    let env = TestEnv::with_options(FileHubOptions { scan_interval: Duration::from_millis(200) });
    let chmod = |below: &str, mode| {
        fs::set_permissions(env.path(below), fs::Permissions::from_mode(mode)).unwrap();
    };
    env.mkdir("closed");
    env.mkdir("t/a/closed/b");
    chmod("closed", 0o300);
    chmod("t/a/closed", 0o300);
    env.watch(1, "closed/f");
    env.watch_tree(2, "t");
    assert_eq!(env.hub.stats().degraded, 2);
    env.expect(&[1], "created, seen by scanning", |b| b.write("closed/f", "x"));
    env.expect(&[2], "beside what is closed, seen at once", |b| b.write("t/a/f", "x"));
    assert!(!env.notices().iter().any(|notice| matches!(notice, Notice::WatchLimit { .. })));
    chmod("closed", 0o700);
    chmod("t/a/closed", 0o700);
    await_degraded(&env, 0);
    env.await_notice(|notice| *notice == Notice::Recovered);
    env.expect(&[1], "watched", |b| b.write("closed/f", "y"));
    env.expect(&[2], "watched", |b| b.write("t/a/closed/b/f", "y"));
}

#[test]
fn too_many_instances_is_an_error_that_names_the_limit() {
    run_limited("max_inotify_instances", 0, "inside_no_instance");
}

#[test]
#[ignore = "started by too_many_instances_is_an_error_that_names_the_limit"]
fn inside_no_instance() {
    if !test_env::inside() {
        return;
    }
    let sink = Arc::new(test_env::Memory::default());
    let error = FileHub::new(sink).unwrap_err().to_string();
    assert!(error.contains("fs.inotify.max_user_instances"), "{error}");
}

#[test]
fn programs_that_leave_their_watches_to_the_kernel_leave_nothing_for_good() {
    run_limited("max_inotify_instances", 3, "inside_few_instances");
}

#[test]
#[ignore = "started by programs_that_leave_their_watches_to_the_kernel_leave_nothing_for_good"]
fn inside_few_instances() {
    if !test_env::inside() {
        return;
    }
    for _ in 0..30 {
        test_env::run_inside("exec $TEST", "inside_one_that_ends");
    }
}

#[test]
#[ignore = "started by inside_few_instances"]
fn inside_one_that_ends() {
    if !test_env::inside() {
        return;
    }
    let env = TestEnv::in_memory(FileHubOptions::default());
    env.hub.leave_to_kernel();
    // It is open until the process ends, as in a program that does not take itself apart.
    std::mem::forget(env.hub.clone());
    fs::create_dir(env.path("d")).unwrap();
    env.watch(1, "d/f");
    env.expect(&[1], "watched all the same", |b| b.write("d/f", "x"));
}
