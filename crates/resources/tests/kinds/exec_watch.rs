//! What `exec` watches.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use crate::exec_common::{LONG, TestEnv, path_env, runs, until};
use mgmt_resource::{Cancel, Error, Resource, Result, Stage, Watch, WatchStream};
use mgmt_resources::exec::Exec;
use mgmt_value::Str;

fn watching(text: impl Into<Str>) -> Exec {
    Exec {
        cmd: "/bin/true".into(),
        watchcmd: text.into(),
        watchshell: "/bin/sh".into(),
        env: path_env(),
        ..Exec::default()
    }
}

fn start(world: &TestEnv, exec: &Exec) -> Result<Box<dyn WatchStream>> {
    match &Resource::watches(exec, &world.id.name)[0] {
        Watch::Stream { start, .. } => start(&world.host),
        other => panic!("expected a stream, found {other:?}"),
    }
}

async fn next(stream: &mut Box<dyn WatchStream>) -> Result<()> {
    let cancel = Cancel::default();
    tokio::time::timeout(LONG, stream.next(&cancel)).await.expect("something happens")
}

async fn end(stream: &mut Box<dyn WatchStream>) -> (usize, Error) {
    let mut events = 0;
    loop {
        match next(stream).await {
            Ok(()) => events += 1,
            Err(error) => return (events, error),
        }
    }
}

#[test]
fn files_are_watched_with_what_is_below_if_they_end_in_a_slash() {
    let exec = Exec {
        watchfiles: vec!["/a".into(), "/b/".into()],
        mtimes: vec!["/c".into(), "/a".into()],
        creates: "/d".into(),
        ..Exec::default()
    };
    let path = |path: &str, recursive| Watch::Path { path: path.into(), recursive };
    let expected = [path("/a", false), path("/b/", true), path("/c", false), path("/d", false)];
    assert_eq!(Resource::watches(&exec, &"name".into()), expected);
    assert_eq!(Resource::watches(&Exec::default(), &"name".into()), []);
}

#[tokio::test]
async fn each_line_but_an_empty_one_is_an_event_and_the_end_is_an_error() {
    let world = TestEnv::new();
    let mut stream = start(&world, &watching("echo one; echo; echo two >&2; printf three; exit 3")).unwrap();
    let (events, error) = end(&mut stream).await;
    assert_eq!(events, 3);
    assert_eq!(error.to_string(), "`watchcmd` has ended: exit status 3: two");
    assert!(!error.is_cancelled());
    assert!(next(&mut stream).await.is_err(), "it stays ended");
}

#[tokio::test]
async fn the_end_is_an_error_even_with_success() {
    let world = TestEnv::new();
    let (events, error) = end(&mut start(&world, &watching("true")).unwrap()).await;
    assert_eq!((events, error.to_string().as_str()), (0, "`watchcmd` has ended: exit status 0"));
    assert!(error.hint().unwrap().contains("`retry`"));
    let (_, error) = end(&mut start(&world, &watching("kill -KILL $$")).unwrap()).await;
    assert!(error.to_string().contains("SIGKILL"), "{error}");
}

#[tokio::test]
async fn a_chatty_stderr_blocks_nothing() {
    let world = TestEnv::new();
    let text = "head -c 1000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo out; sleep 1000";
    let mut stream = start(&world, &watching(text)).unwrap();
    next(&mut stream).await.unwrap();
    next(&mut stream).await.unwrap();
}

#[tokio::test]
async fn events_arrive_while_the_command_runs() {
    let world = TestEnv::new();
    let fifo = world.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &*fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let mut stream = start(&world, &watching(format!("exec cat {fifo}"))).unwrap();
    let mut writer = std::fs::File::options().read(true).write(true).open(&fifo).unwrap();
    for _ in 0..3 {
        std::io::Write::write_all(&mut writer, b"line\n").unwrap();
        next(&mut stream).await.unwrap();
    }
}

#[tokio::test]
async fn a_stopped_watch_is_a_cancellation_and_leaves_nothing_behind() {
    for stage in [Stage::Cancel, Stage::Interrupt] {
        let world = TestEnv::new();
        let text = format!(
            "trap 'exit 0' TERM; sleep 1000 & echo $! > {}; echo $$ > {}; echo up; while :; do sleep 0.05; done",
            world.path("child"),
            world.path("leader")
        );
        let mut stream = start(&world, &watching(text)).unwrap();
        next(&mut stream).await.unwrap();
        let cancel = Cancel::default();
        cancel.raise(stage);
        let stopped = tokio::time::timeout(LONG, stream.next(&cancel)).await.unwrap();
        assert!(stopped.unwrap_err().is_cancelled());
        for name in ["leader", "child"] {
            let pid = world.read(name).unwrap();
            until("the process is gone", || !runs(&pid)).await;
        }
    }
}

#[tokio::test]
async fn a_watch_that_is_dropped_may_clean_up_and_leaves_nothing_behind() {
    let world = TestEnv::new();
    let text = format!(
        "trap 'touch {}; exit 0' TERM; sleep 1000 & echo $! > {}; echo up; while :; do sleep 0.05; done",
        world.path("cleaned"),
        world.path("child")
    );
    let mut stream = start(&world, &watching(text)).unwrap();
    next(&mut stream).await.unwrap();
    drop(stream);
    let pid = world.read("child").unwrap();
    until("the process is gone", || !runs(&pid)).await;
    until("the command has cleaned up", || world.file("cleaned").exists()).await;
}

#[test]
fn a_watch_does_not_outlive_the_program() {
    let world = TestEnv::new();
    let text =
        format!("trap '' TERM; echo $$ > {}; echo up; while :; do sleep 0.05; done", world.path("leader"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut stream = start(&world, &watching(text)).unwrap();
        next(&mut stream).await.unwrap();
    });
    drop(runtime);
    let pid = world.read("leader").unwrap();
    let deadline = std::time::Instant::now() + LONG;
    while runs(&pid) {
        assert!(std::time::Instant::now() < deadline, "it is still there");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[tokio::test]
async fn it_runs_in_its_directory_with_the_declared_environment() {
    let world = TestEnv::new();
    let exec = Exec {
        watchcmd: "/usr/bin/env".into(),
        watchcwd: world.path("").into(),
        env: [("ONLY", "this")].into_iter().collect(),
        ..Exec::default()
    };
    let (events, _) = end(&mut start(&world, &exec).unwrap()).await;
    assert_eq!(events, 1);
    let exec = Exec { watchcwd: world.path("nowhere").into(), ..exec };
    assert!(start(&world, &exec).err().unwrap().to_string().contains("not a directory"));
    let exec = Exec { watchcmd: "/no/such/program".into(), ..exec };
    assert!(start(&world, &exec).err().unwrap().to_string().starts_with("`watchcmd`: "));
}
