//! What `exec` runs, with what, and what it makes of the result.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::os::unix::fs::PermissionsExt;

use crate::exec_common::{APPLY, LONG, TestEnv, path_env, runs, sh, until};
use mgmt_resource::Checked;
use mgmt_resources::exec::Exec;
use mgmt_value::Str;

#[tokio::test]
async fn a_command_that_succeeds_is_a_change() {
    let mut world = TestEnv::new();
    let ran = world.run(&Exec { cmd: "/bin/true".into(), ..Exec::default() }, APPLY).await.unwrap();
    assert_eq!(ran.checked, Checked::Changed);
    assert_eq!((ran.output, ran.stdout, ran.stderr), (None, None, None));
}

#[tokio::test]
async fn the_name_is_the_command_if_none_is_declared() {
    let mut world = TestEnv::new();
    world.id = mgmt_resource::Id::new("exec", "/bin/echo from the name");
    let ran = world.run(&Exec::default(), APPLY).await.unwrap();
    assert_eq!(ran.stdout.as_deref(), Some("from the name\n"));
}

#[tokio::test]
async fn any_other_exit_code_is_an_error_with_the_last_line_of_stderr() {
    let mut world = TestEnv::new();
    for code in [1, 2, 126, 255] {
        let error =
            world.run(&sh(format!("echo first >&2; echo why >&2; exit {code}")), APPLY).await.unwrap_err();
        assert_eq!(error.to_string(), format!("`cmd`: exit status {code}: why"));
    }
    let error = world.run(&sh("kill -SEGV $$"), APPLY).await.unwrap_err();
    assert_eq!(error.to_string(), "`cmd`: killed by SIGSEGV");
    assert_eq!(world.state_directory(), None);
}

#[tokio::test]
async fn a_program_that_is_not_found_gives_a_hint_about_the_environment() {
    let mut world = TestEnv::new();
    let shell = Exec { shell: "/bin/sh".into(), cmd: "no-such-program-anywhere".into(), ..Exec::default() };
    let error = world.run(&shell, APPLY).await.unwrap_err();
    assert!(error.to_string().contains("exit status 127"), "{error}");
    assert!(error.hint().unwrap().contains("no PATH unless `env` sets one"), "{error:?}");
    for missing in ["no-such-program-anywhere", "/no/such/program"] {
        let error = world.run(&Exec { cmd: missing.into(), ..Exec::default() }, APPLY).await.unwrap_err();
        assert!(error.to_string().starts_with("`cmd`: ") && error.to_string().contains(missing), "{error}");
    }
}

#[tokio::test]
async fn a_program_without_a_slash_is_looked_up_in_our_own_path() {
    let mut world = TestEnv::new();
    let ran = world.run(&Exec { cmd: "echo found".into(), ..Exec::default() }, APPLY).await.unwrap();
    assert_eq!(ran.stdout.as_deref(), Some("found\n"));
}

#[tokio::test]
async fn arguments_reach_the_program_as_they_are() {
    let mut world = TestEnv::new();
    let args = ["%s|", "a b", "", "$HOME", "'q'", "two\nlines"].map(Str::from).to_vec();
    let exec = Exec { cmd: "/usr/bin/printf".into(), args, ..Exec::default() };
    let ran = world.run(&exec, APPLY).await.unwrap();
    assert_eq!(ran.stdout.as_deref(), Some("a b||$HOME|'q'|two\nlines|"));
    let split = Exec { cmd: "/bin/echo 'a  b'".into(), ..Exec::default() };
    assert_eq!(world.run(&split, APPLY).await.unwrap().stdout.as_deref(), Some("'a b'\n"));
}

#[tokio::test]
async fn the_environment_is_exactly_what_is_declared() {
    let mut world = TestEnv::new();
    let bare = Exec { cmd: "/usr/bin/env".into(), ..Exec::default() };
    let ran = world.run(&bare, APPLY).await.unwrap();
    assert_eq!(ran.stdout, None);
    let env = [("ZED", "last"), ("A", "first=1"), ("EMPTY", "")].into_iter().collect();
    let ran = world.run(&Exec { env, ..bare }, APPLY).await.unwrap();
    assert_eq!(ran.stdout.as_deref(), Some("A=first=1\nEMPTY=\nZED=last\n"));
}

#[tokio::test]
async fn each_command_runs_in_its_own_directory() {
    let mut world = TestEnv::new();
    for name in ["one", "two", "three", "four"] {
        std::fs::create_dir(world.file(name)).unwrap();
    }
    let exec = Exec {
        cwd: world.path("one").into(),
        ifcmd: "pwd > here".into(),
        ifshell: "/bin/sh".into(),
        ifcwd: world.path("two").into(),
        nifcmd: "pwd > here; false".into(),
        nifshell: "/bin/sh".into(),
        nifcwd: world.path("three").into(),
        donecmd: "pwd > here".into(),
        doneshell: "/bin/sh".into(),
        donecwd: world.path("four").into(),
        ..sh("pwd > here")
    };
    world.run(&exec, APPLY).await.unwrap();
    for name in ["one", "two", "three", "four"] {
        assert_eq!(world.read(&format!("{name}/here")), Some(format!("{}\n", world.path(name))));
    }
    let nowhere = Exec { cwd: world.path("nowhere").into(), ..sh("true") };
    let error = world.run(&nowhere, APPLY).await.unwrap_err();
    assert!(error.to_string().contains("not a directory"), "{error}");
}

#[tokio::test]
async fn there_is_nothing_to_read() {
    let mut world = TestEnv::new();
    let ran = world.run(&Exec { cmd: "/bin/cat".into(), ..Exec::default() }, APPLY).await.unwrap();
    assert_eq!(ran.stdout, None);
}

#[tokio::test]
async fn both_streams_are_sent_apart_and_together() {
    let mut world = TestEnv::new();
    let ran = world.run(&sh("echo out; echo err >&2; printf end"), APPLY).await.unwrap();
    assert_eq!(ran.stdout.as_deref(), Some("out\nend"));
    assert_eq!(ran.stderr.as_deref(), Some("err\n"));
    // How the two mix depends on when each is read.
    let output = ran.output.unwrap();
    assert!(["out\nerr\nend", "out\nenderr\n", "err\nout\nend"].contains(&&*output), "{output:?}");
}

#[tokio::test]
async fn output_is_kept_for_us_alone_and_survives_a_restart() {
    let mut world = TestEnv::new();
    let exec =
        Exec { creates: world.path("made").into(), ..sh(format!("echo one; touch {}", world.path("made"))) };
    assert_eq!(world.run(&exec, APPLY).await.unwrap().checked, Checked::Changed);
    let directory = world.state_directory().unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&directory), 0o700);
    assert_eq!(mode(&directory.join("stdout")), 0o600);
    assert_eq!(mode(&directory.join("output")), 0o600);
    assert!(!directory.join("stderr").exists());

    for _ in 0..2 {
        let ran = world.run(&exec, APPLY).await.unwrap();
        assert_eq!(ran.checked, Checked::Right);
        assert_eq!((ran.stdout.as_deref(), ran.stderr.as_deref()), (Some("one\n"), None));
        world.restart();
    }
}

#[tokio::test]
async fn a_stream_that_the_last_run_did_not_write_is_forgotten() {
    let mut world = TestEnv::new();
    let ran = world.run(&sh("echo out; echo err >&2"), APPLY).await.unwrap();
    assert!(ran.stdout.is_some() && ran.stderr.is_some());
    let ran = world.run(&sh("echo again"), APPLY).await.unwrap();
    assert_eq!((ran.stdout.as_deref(), ran.stderr), (Some("again\n"), None));
    assert_eq!(world.kept("stdout").unwrap(), b"again\n");
    assert_eq!(world.kept("stderr"), None);
    let ran = world.run(&sh("true"), APPLY).await.unwrap();
    assert_eq!((ran.output, ran.stdout), (None, None));
    assert_eq!((world.kept("output"), world.kept("stdout")), (None, None));
}

#[tokio::test]
async fn a_run_that_fails_leaves_what_was_kept() {
    let mut world = TestEnv::new();
    world.run(&sh("echo good"), APPLY).await.unwrap();
    world.run(&sh("echo bad; exit 1"), APPLY).await.unwrap_err();
    assert_eq!(world.kept("stdout").unwrap(), b"good\n");
}

#[tokio::test]
async fn the_last_command_runs_after_success_and_can_fail_the_whole() {
    let mut world = TestEnv::new();
    let done = |text: &str| Exec { donecmd: text.into(), doneshell: "/bin/sh".into(), ..sh("echo cmd") };
    let order = world.path("order");
    let exec = Exec { donecmd: format!("echo done >> {order}").into(), ..done("") };
    let exec = Exec { cmd: format!("echo cmd >> {order}; echo out").into(), ..exec };
    assert_eq!(world.run(&exec, APPLY).await.unwrap().stdout.as_deref(), Some("out\n"));
    assert_eq!(world.read("order").as_deref(), Some("cmd\ndone\n"));

    let error = world.run(&done("exit 7"), APPLY).await.unwrap_err();
    assert_eq!(error.to_string(), "`donecmd`: exit status 7");
    let never = Exec { cmd: "exit 1".into(), ..done(&format!("touch {}", world.path("never"))) };
    world.run(&never, APPLY).await.unwrap_err();
    assert!(!world.file("never").exists());
}

#[tokio::test]
async fn a_background_child_does_not_keep_us() {
    let mut world = TestEnv::new();
    let exec = sh(format!("sleep 1000 & echo $! > {}; echo started", world.path("pid")));
    let ran = tokio::time::timeout(LONG, world.run(&exec, APPLY)).await.unwrap().unwrap();
    assert_eq!(ran.stdout.as_deref(), Some("started\n"));
    let pid = world.read("pid").unwrap();
    assert!(runs(&pid), "a command that ends by itself may leave a process behind");
    let number = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
    until("the child is gone", || !runs(&pid)).await;
}

#[tokio::test]
async fn ten_megabytes_are_sent_whole() {
    let mut world = TestEnv::new();
    let ran = world.run(&sh("head -c 10000000 /dev/zero | tr '\\0' x; echo end >&2"), APPLY).await.unwrap();
    let stdout = ran.stdout.unwrap();
    assert!(stdout.len() == 10_000_000 && stdout.bytes().all(|byte| byte == b'x'));
    assert_eq!(ran.output.unwrap().len(), 10_000_004);
    assert_eq!(world.kept("stdout").unwrap().len(), 10_000_000);
}

#[tokio::test]
async fn half_a_value_is_not_sent() {
    let mut world = TestEnv::new();
    let exec = sh("head -c 20000000 /dev/zero; echo end >&2");
    let ran = world.run(&exec, APPLY).await.unwrap();
    assert_eq!((ran.output, ran.stdout, ran.stderr.as_deref()), (None, None, Some("end\n")));
    assert_eq!(world.kept("stdout"), None);
}

#[tokio::test]
async fn bytes_that_are_no_text_survive() {
    let mut world = TestEnv::new();
    world.run(&sh("printf '\\377\\000\\001'"), APPLY).await.unwrap();
    assert_eq!(world.kept("stdout").unwrap(), [0xff, 0, 1]);
}

#[tokio::test]
async fn a_program_that_is_still_being_written_is_tried_again() {
    use std::io::Write;
    let mut world = TestEnv::new();
    let script = world.file("script");
    let mut file = std::fs::File::create(&script).unwrap();
    file.write_all(b"#!/bin/sh\necho ran\n").unwrap();
    file.set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
    let close = tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        drop(file);
    });
    let exec = Exec { cmd: world.path("script").into(), env: path_env(), ..Exec::default() };
    assert_eq!(world.run(&exec, APPLY).await.unwrap().stdout.as_deref(), Some("ran\n"));
    close.await.unwrap();
}

#[tokio::test]
async fn other_exit_codes_may_be_success() {
    let mut world = TestEnv::new();
    let exec = |returns: &[u8]| Exec {
        cmd: "exit 2".into(),
        shell: "/bin/sh".into(),
        returns: returns.to_vec(),
        ..Exec::default()
    };
    assert_eq!(world.run(&exec(&[0, 2]), APPLY).await.unwrap().checked, Checked::Changed);
    assert!(world.run(&exec(&[0, 3]), APPLY).await.is_err());
    assert!(world.run(&exec(&[]), APPLY).await.is_err());
}
