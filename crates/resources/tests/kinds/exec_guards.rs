//! When `exec` runs its command, and when it does not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::time::{Duration, SystemTime};

use crate::exec_common::{APPLY, How, LOOK, NOTIFIED, TestEnv, sh};
use mgmt_resource::Checked::{Changed, Right};
use mgmt_resource::Result;
use mgmt_resources::exec::Exec;

/// Counts its runs in the file `ran`.
fn counting(world: &TestEnv) -> Exec {
    Exec {
        ifshell: "/bin/sh".into(),
        nifshell: "/bin/sh".into(),
        ..sh(format!("printf x >> {}", world.path("ran")))
    }
}

async fn checked(world: &mut TestEnv, exec: &Exec, how: How) -> Result<mgmt_resource::Checked> {
    world.run(exec, how).await.map(|ran| ran.checked)
}

#[tokio::test]
async fn without_a_condition_every_check_runs_the_command() {
    let mut world = TestEnv::new();
    let exec = counting(&world);
    for times in 1..=3 {
        assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Changed);
        assert_eq!(world.count("ran"), times);
    }
}

#[tokio::test]
async fn another_command_runs_when_it_is_notified() {
    let mut world = TestEnv::new();
    let exec = Exec {
        refreshcmd: format!("printf y >> {}", world.path("refreshed")).into(),
        refreshshell: "/bin/sh".into(),
        ..counting(&world)
    };
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Changed);
    assert_eq!((world.count("ran"), world.count("refreshed")), (1, 0));
    assert_eq!(checked(&mut world, &exec, NOTIFIED).await.unwrap(), Changed);
    assert_eq!((world.count("ran"), world.count("refreshed")), (2, 1));
    // With nothing else, only that.
    let only = Exec { refreshonly: true, ..exec.clone() };
    assert_eq!(checked(&mut world, &only, APPLY).await.unwrap(), Right);
    assert_eq!(checked(&mut world, &only, NOTIFIED).await.unwrap(), Changed);
    assert_eq!((world.count("ran"), world.count("refreshed")), (2, 2));
    // What the command has brought about keeps the other from running.
    let creates = Exec { creates: world.path("ran").into(), ..exec };
    std::fs::remove_file(world.path("ran")).unwrap();
    assert_eq!(checked(&mut world, &creates, NOTIFIED).await.unwrap(), Changed);
    assert_eq!((world.count("ran"), world.count("refreshed")), (1, 2));
    assert_eq!(checked(&mut world, &creates, NOTIFIED).await.unwrap(), Right);
}

#[tokio::test]
async fn ifcmd_has_to_succeed() {
    let mut world = TestEnv::new();
    for (guard, runs) in [("true", true), ("exit 1", false), ("exit 255", false)] {
        let before = world.count("ran");
        let exec = Exec { ifcmd: guard.into(), ..counting(&world) };
        assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), if runs { Changed } else { Right });
        assert_eq!(world.count("ran") - before, usize::from(runs), "{guard}");
    }
}

#[tokio::test]
async fn nifcmd_has_to_fail() {
    let mut world = TestEnv::new();
    for (guard, runs) in [("true", false), ("exit 1", true)] {
        let before = world.count("ran");
        let exec = Exec { nifcmd: guard.into(), ..counting(&world) };
        assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), if runs { Changed } else { Right });
        assert_eq!(world.count("ran") - before, usize::from(runs), "{guard}");
    }
}

#[tokio::test]
async fn ifequals_compares_every_byte_of_both_streams() {
    let mut world = TestEnv::new();
    let guard = |world: &TestEnv, ifcmd: &str, ifequals: &str| Exec {
        ifcmd: ifcmd.into(),
        ifequals: Some(ifequals.into()),
        ..counting(world)
    };
    for (ifcmd, ifequals, expected) in [
        ("echo hello", "hello\n", Right),
        ("echo hello", "hello", Changed),
        ("printf hello", "hello", Right),
        ("printf hello", "hello\n", Changed),
        ("printf a; printf a >&2", "aa", Right),
        ("printf a; printf a >&2", "a", Changed),
        ("true", "", Right),
        ("echo", "", Changed),
        // A guard that fails has said no already.
        ("echo other; exit 1", "hello", Right),
    ] {
        let exec = guard(&world, ifcmd, ifequals);
        assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), expected, "{ifcmd:?} {ifequals:?}");
    }
}

#[tokio::test]
async fn ifequals_stdout_leaves_stderr_out() {
    let mut world = TestEnv::new();
    for (ifcmd, expected) in [("printf a; printf b >&2", Right), ("printf ab; printf b >&2", Changed)] {
        let exec = Exec { ifcmd: ifcmd.into(), ifequals_stdout: Some("a".into()), ..counting(&world) };
        assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), expected, "{ifcmd}");
    }
}

#[tokio::test]
async fn creates_is_enough_if_it_exists() {
    let mut world = TestEnv::new();
    let exec = Exec {
        creates: world.path("made").into(),
        ..sh(format!("printf x >> {}; touch {}", world.path("ran"), world.path("made")))
    };
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Changed);
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Right);
    std::fs::remove_file(world.file("made")).unwrap();
    // The link is there, but what it points to is not.
    std::os::unix::fs::symlink("nowhere", world.file("made")).unwrap();
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Changed);
    let below = Exec { creates: format!("{}/below", world.path("ran")).into(), ..exec };
    assert_eq!(checked(&mut world, &below, APPLY).await.unwrap(), Changed);
    assert_eq!(world.count("ran"), 3);
}

#[tokio::test]
async fn guards_are_asked_in_order_until_one_says_no() {
    let mut world = TestEnv::new();
    let say = |world: &TestEnv, word: &str, status: i32| {
        format!("echo {word} >> {}; exit {status}", world.path("asked"))
    };
    let exec =
        Exec { ifcmd: say(&world, "if", 1).into(), nifcmd: say(&world, "nif", 1).into(), ..counting(&world) };
    checked(&mut world, &exec, APPLY).await.unwrap();
    assert_eq!(world.read("asked").as_deref(), Some("if\n"));
    let exec = Exec { ifcmd: say(&world, "if", 0).into(), ..exec };
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Changed);
    assert_eq!(world.read("asked").as_deref(), Some("if\nif\nnif\n"));
}

#[tokio::test]
async fn a_guard_that_gave_no_answer_is_an_error() {
    let mut world = TestEnv::new();
    for guard in ["kill -SEGV $$", "kill -TERM $$"] {
        let exec = Exec { ifcmd: guard.into(), ..counting(&world) };
        let error = checked(&mut world, &exec, APPLY).await.unwrap_err();
        assert!(error.to_string().starts_with("`ifcmd`: killed by SIG"), "{error}");
        let exec = Exec { nifcmd: guard.into(), ..counting(&world) };
        let error = checked(&mut world, &exec, APPLY).await.unwrap_err();
        assert!(error.to_string().starts_with("`nifcmd`: killed by SIG"), "{error}");
    }
    let missing = Exec { ifcmd: "/no/such/program".into(), ifshell: "".into(), ..counting(&world) };
    let error = checked(&mut world, &missing, APPLY).await.unwrap_err();
    assert!(error.to_string().starts_with("`ifcmd`: "), "{error}");
    assert_eq!(world.count("ran"), 0);
}

/// Sets the modification time of a file, in seconds from a base in the past.
fn age(world: &TestEnv, name: &str, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000 + seconds);
    std::fs::File::options().write(true).open(world.file(name)).unwrap().set_modified(time).unwrap();
}

#[tokio::test]
async fn a_newer_file_in_mtimes_runs_the_command_once() {
    let mut world = TestEnv::new();
    let mtimes = vec![world.write("a", "").into(), world.write("b", "").into()];
    let exec = Exec { mtimes, ..counting(&world) };
    age(&world, "a", 10);
    age(&world, "b", 1000);
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Changed);
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Right);
    world.restart();
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Right);
    // Older than the newest, but newer than it was.
    age(&world, "a", 11);
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Changed);
    age(&world, "b", 999);
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Right);
    age(&world, "b", 1001);
    world.restart();
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Changed);
    assert_eq!(world.count("ran"), 3);
}

#[tokio::test]
async fn a_file_that_changes_during_the_run_is_seen_the_next_time() {
    let mut world = TestEnv::new();
    let file = world.write("a", "");
    age(&world, "a", 10);
    let exec = Exec { mtimes: vec![file.as_str().into()], ..sh(format!("touch -d @1600000500 {file}")) };
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Changed);
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Changed);
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Right);
}

#[tokio::test]
async fn mtimes_override_guards_and_guards_decide_otherwise() {
    let mut world = TestEnv::new();
    let mtimes = vec![world.write("a", "").into()];
    age(&world, "a", 10);
    let no = Exec {
        mtimes,
        ifcmd: "false".into(),
        nifcmd: "true".into(),
        creates: "/".into(),
        ..counting(&world)
    };
    assert_eq!(checked(&mut world, &no, APPLY).await.unwrap(), Changed);
    assert_eq!(checked(&mut world, &no, APPLY).await.unwrap(), Right);
    let yes = Exec { ifcmd: "true".into(), nifcmd: "".into(), creates: "".into(), ..no };
    assert_eq!(checked(&mut world, &yes, APPLY).await.unwrap(), Changed);
}

#[tokio::test]
async fn a_run_that_fails_does_not_count_for_mtimes() {
    let mut world = TestEnv::new();
    let mtimes = vec![world.write("a", "").into()];
    let exec = Exec { mtimes, donecmd: "/bin/false".into(), ..counting(&world) };
    for _ in 0..2 {
        checked(&mut world, &exec, APPLY).await.unwrap_err();
    }
    assert_eq!(world.count("ran"), 2);
    let missing = Exec { mtimes: vec![world.path("missing").into()], ..exec };
    let error = checked(&mut world, &missing, APPLY).await.unwrap_err();
    assert!(error.to_string().contains("in `mtimes` does not exist"), "{error}");
}

#[tokio::test]
async fn when_only_looking_guards_run_and_nothing_else() {
    let mut world = TestEnv::new();
    let mtimes = vec![world.write("a", "").into()];
    let guard = |world: &TestEnv, status: i32| format!("printf x >> {}; exit {status}", world.path("asked"));
    let exec = Exec {
        ifcmd: guard(&world, 0).into(),
        nifcmd: guard(&world, 1).into(),
        donecmd: format!("/usr/bin/touch {}", world.path("done")).into(),
        send_output: Some("declared".into()),
        ..counting(&world)
    };
    let ran = world.run(&exec, LOOK).await.unwrap();
    assert_eq!((ran.checked, ran.output.as_deref(), ran.stdout), (Changed, Some("declared"), None));
    assert_eq!(world.count("asked"), 2);
    let exec = Exec { mtimes, ..exec };
    assert_eq!(checked(&mut world, &exec, LOOK).await.unwrap(), Changed);
    let no = Exec { ifcmd: "false".into(), mtimes: Vec::new(), ..exec };
    assert_eq!(checked(&mut world, &no, LOOK).await.unwrap(), Right);
    assert_eq!(world.count("ran"), 0);
    assert!(!world.file("done").exists());
    assert_eq!(world.state_directory(), None);
}

#[tokio::test]
async fn what_is_declared_is_sent_only_where_nothing_was_kept() {
    let mut world = TestEnv::new();
    let exec = Exec {
        send_output: Some("o".into()),
        send_stdout: Some("s".into()),
        send_stderr: Some("e".into()),
        ifcmd: "false".into(),
        ifshell: "/bin/sh".into(),
        ..sh("echo real")
    };
    let ran = world.run(&exec, APPLY).await.unwrap();
    assert_eq!(
        (ran.output.as_deref(), ran.stdout.as_deref(), ran.stderr.as_deref()),
        (Some("o"), Some("s"), Some("e"))
    );
    let go = Exec { ifcmd: "true".into(), ..exec.clone() };
    let ran = world.run(&go, APPLY).await.unwrap();
    assert_eq!((ran.stdout.as_deref(), ran.stderr), (Some("real\n"), None));
    let ran = world.run(&exec, APPLY).await.unwrap();
    assert_eq!((ran.stdout.as_deref(), ran.stderr.as_deref()), (Some("real\n"), Some("e")));
}

#[tokio::test]
async fn refreshonly_waits_for_a_notification_and_guards_still_hold() {
    let mut world = TestEnv::new();
    let exec = Exec { refreshonly: true, send_stdout: Some("s".into()), ..counting(&world) };
    let ran = world.run(&exec, APPLY).await.unwrap();
    assert_eq!((ran.checked, ran.stdout.as_deref()), (Right, Some("s")));
    assert_eq!(world.count("ran"), 0);
    assert_eq!(checked(&mut world, &exec, NOTIFIED).await.unwrap(), Changed);
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Right);
    assert_eq!(world.count("ran"), 1);
    let guarded = Exec { ifcmd: "false".into(), ..exec };
    assert_eq!(checked(&mut world, &guarded, NOTIFIED).await.unwrap(), Right);
    assert_eq!(world.count("ran"), 1);
}

#[tokio::test]
async fn a_notification_runs_a_command_that_only_mtimes_would_hold_back() {
    let mut world = TestEnv::new();
    let exec = Exec { mtimes: vec![world.write("a", "").into()], ..counting(&world) };
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Changed);
    assert_eq!(checked(&mut world, &exec, APPLY).await.unwrap(), Right);
    assert_eq!(checked(&mut world, &exec, NOTIFIED).await.unwrap(), Changed);
    assert_eq!(world.count("ran"), 2);
}
