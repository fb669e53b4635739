//! How `exec` stops a command.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use crate::exec_common::{APPLY, LONG, TestEnv, raise_when, runs, sh, until};
use mgmt_resource::{Error, Stage};
use mgmt_resources::exec::Exec;

/// Runs until stopped, stops as soon as the file `started` is there, and gives the error.
async fn stopped(world: &mut TestEnv, exec: &Exec, stage: Stage) -> Error {
    let raise = tokio::spawn(raise_when(world.cancel.clone(), stage, world.file("started")));
    let ran = tokio::time::timeout(LONG, world.run(exec, APPLY)).await.expect("it stops");
    raise.await.unwrap();
    ran.expect_err("a run that was stopped is no success")
}

#[tokio::test]
async fn a_command_that_is_stopped_leaves_no_process_behind() {
    for stage in [Stage::Cancel, Stage::Interrupt] {
        let mut world = TestEnv::new();
        let exec = sh(format!(
            "sleep 1000 & echo $! > {0}; sleep 1000 >/dev/null 2>&1 & echo $! > {1}; echo $$ > {2}; touch {3}; wait",
            world.path("child"),
            world.path("silent"),
            world.path("leader"),
            world.path("started"),
        ));
        assert!(stopped(&mut world, &exec, stage).await.is_cancelled());
        for name in ["leader", "child", "silent"] {
            let pid = world.read(name).unwrap();
            until("the process is gone", || !runs(&pid)).await;
        }
    }
}

#[tokio::test]
async fn a_trap_that_exits_with_success_is_no_success() {
    let mut world = TestEnv::new();
    let exec = Exec {
        donecmd: format!("/usr/bin/touch {}", world.path("done")).into(),
        ..sh(format!(
            "trap 'touch {}; exit 0' TERM; touch {}; while :; do sleep 0.05; done",
            world.path("cleaned"),
            world.path("started")
        ))
    };
    assert!(stopped(&mut world, &exec, Stage::Cancel).await.is_cancelled());
    assert!(world.file("cleaned").exists(), "the command could clean up");
    assert!(!world.file("done").exists());
    assert_eq!(world.state_directory(), None);
}

#[tokio::test]
async fn the_declared_signal_is_sent() {
    let mut world = TestEnv::new();
    let exec = Exec {
        sig: "SIGUSR1".into(),
        ..sh(format!(
            "trap 'touch {}; exit 0' USR1; touch {}; while :; do sleep 0.05; done",
            world.path("usr1"),
            world.path("started")
        ))
    };
    assert!(stopped(&mut world, &exec, Stage::Cancel).await.is_cancelled());
    assert!(world.file("usr1").exists());
}

#[tokio::test]
async fn a_command_that_ignores_the_signal_is_killed_after_the_grace() {
    let mut world = TestEnv::new();
    let exec = sh(format!(
        "trap '' TERM; echo $$ > {}; touch {}; while :; do sleep 0.05; done",
        world.path("leader"),
        world.path("started")
    ));
    assert!(stopped(&mut world, &exec, Stage::Cancel).await.is_cancelled());
    let pid = world.read("leader").unwrap();
    until("the process is gone", || !runs(&pid)).await;
}

#[tokio::test]
async fn an_interrupt_does_not_wait_for_the_grace() {
    let mut world = TestEnv::new();
    let exec = sh(format!(
        "trap 'touch {}' TERM; touch {}; while :; do sleep 0.05; done",
        world.path("ignored"),
        world.path("started")
    ));
    let interrupt = tokio::spawn(raise_when(world.cancel.clone(), Stage::Interrupt, world.file("ignored")));
    assert!(stopped(&mut world, &exec, Stage::Cancel).await.is_cancelled());
    interrupt.await.unwrap();
}

#[tokio::test]
async fn no_decision_is_read_from_a_guard_that_was_stopped() {
    let mut world = TestEnv::new();
    let exec = Exec {
        nifcmd: format!("trap 'exit 1' TERM; touch {}; while :; do sleep 0.05; done", world.path("started"))
            .into(),
        nifshell: "/bin/sh".into(),
        ..sh(format!("touch {}", world.path("ran")))
    };
    assert!(stopped(&mut world, &exec, Stage::Cancel).await.is_cancelled());
    assert!(!world.file("ran").exists());
}

#[tokio::test]
async fn nothing_is_started_once_stopped() {
    let mut world = TestEnv::new();
    world.cancel.raise(Stage::Cancel);
    let error = world.run(&sh(format!("touch {}", world.path("ran"))), APPLY).await.unwrap_err();
    assert!(error.is_cancelled());
    assert!(!world.file("ran").exists());
}

#[tokio::test]
async fn a_run_that_is_dropped_kills_the_group() {
    let mut world = TestEnv::new();
    let exec = sh(format!(
        "sleep 1000 & echo $! > {}; echo $$ > {}; touch {}; wait",
        world.path("child"),
        world.path("leader"),
        world.path("started")
    ));
    let started = world.file("started");
    tokio::select! {
        ran = world.run(&exec, APPLY) => panic!("it ended: {ran:?}"),
        () = until("the command has started", || started.exists()) => {}
    }
    for name in ["leader", "child"] {
        let pid = world.read(name).unwrap();
        until("the process is gone", || !runs(&pid)).await;
    }
}
