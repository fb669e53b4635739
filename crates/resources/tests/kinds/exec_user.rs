//! Whom `exec` runs its commands as. Needs root.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use crate::exec_common::{APPLY, LONG, TestEnv, path_env};
use mgmt_resource::{Cancel, Resource, Watch};
use mgmt_resources::exec::Exec;
use mgmt_sys::process::Helper;
use nix::unistd::{Group, User};

/// A test environment with the helper that changes credentials, which only root can do.
fn test_env() -> TestEnv {
    mgmt_test_support::require_root!();
    let mut env = TestEnv::new();
    let tests = std::env::current_exe().unwrap();
    let helper = tests.ancestors().nth(2).unwrap().join("examples/resources_exec_as");
    assert!(helper.exists(), "build the helper: cargo build -p mgmt-resources --examples");
    env.host.helper = Helper::program(helper);
    env
}

/// Prints user, group and all groups.
fn who(user: &str, group: &str) -> Exec {
    Exec {
        cmd: "id -u; id -g; id -G | tr ' ' '\\n' | sort -n | tr '\\n' ' '".into(),
        shell: "/bin/sh".into(),
        user: user.into(),
        group: group.into(),
        env: path_env(),
        ..Exec::default()
    }
}

#[tokio::test]
async fn a_user_brings_its_own_groups_and_none_of_ours() {
    let mut world = test_env();
    let nobody = User::from_name("nobody").unwrap().unwrap();
    let expected = format!("{0}\n{1}\n{1} ", nobody.uid, nobody.gid);
    for user in ["nobody".to_owned(), nobody.uid.to_string()] {
        let ran = world.run(&who(&user, ""), APPLY).await.unwrap();
        assert_eq!(ran.stdout.as_deref(), Some(&*expected), "{user}");
    }
}

#[tokio::test]
async fn a_declared_group_takes_the_place_of_the_primary_one() {
    let mut world = test_env();
    let nobody = User::from_name("nobody").unwrap().unwrap();
    let daemon = Group::from_name("daemon").unwrap().unwrap();
    let ran = world.run(&who("nobody", "daemon"), APPLY).await.unwrap();
    assert_eq!(ran.stdout, Some(format!("{}\n{1}\n{1} ", nobody.uid, daemon.gid)));
    let ran = world.run(&who("", "daemon"), APPLY).await.unwrap();
    assert_eq!(ran.stdout, Some(format!("0\n{0}\n{0} ", daemon.gid)));
    let ran = world.run(&who("12345", "54321"), APPLY).await.unwrap();
    assert_eq!(ran.stdout.as_deref(), Some("12345\n54321\n54321 "));
}

#[tokio::test]
async fn every_command_runs_as_the_user_with_exactly_the_environment() {
    let mut world = test_env();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(world.directory.path(), open).unwrap();
    let note = |world: &TestEnv, name: &str| format!("id -un > {}", world.path(name));
    let exec = Exec {
        ifcmd: note(&world, "if").into(),
        ifshell: "/bin/sh".into(),
        nifcmd: format!("{}; false", note(&world, "nif")).into(),
        nifshell: "/bin/sh".into(),
        donecmd: note(&world, "done").into(),
        doneshell: "/bin/sh".into(),
        ..who("nobody", "")
    };
    world.run(&exec, APPLY).await.unwrap();
    for name in ["if", "nif", "done"] {
        assert_eq!(world.read(name).as_deref(), Some("nobody\n"), "{name}");
    }
    let env = Exec { cmd: "/usr/bin/env".into(), shell: "".into(), ..who("nobody", "") };
    let ran = world.run(&env, APPLY).await.unwrap();
    assert_eq!(ran.stdout.as_deref(), Some("PATH=/usr/sbin:/usr/bin:/sbin:/bin\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watch_runs_as_the_user() {
    let world = test_env();
    let exec = Exec {
        watchcmd: "test $(id -un) = nobody && echo event; sleep 1000".into(),
        watchshell: "/bin/sh".into(),
        ..who("nobody", "")
    };
    let watches = Resource::watches(&exec, &world.id.name);
    let Watch::Stream { start, .. } = &watches[0] else { panic!("expected a stream") };
    let mut stream = start(&world.host).unwrap();
    tokio::time::timeout(LONG, stream.next(&Cancel::default())).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_account_that_does_not_exist_is_an_error_only_when_a_command_runs() {
    let mut world = test_env();
    let error = world.run(&who("no-such-user", ""), APPLY).await.unwrap_err();
    assert!(error.to_string().contains("there is no user"), "{error}");
    let error = world.run(&who("", "no-such-group"), APPLY).await.unwrap_err();
    assert!(error.to_string().contains("there is no group"), "{error}");
    world.run(&Exec { creates: "/".into(), ..who("no-such-user", "") }, APPLY).await.unwrap();
}

#[tokio::test]
async fn a_guard_that_the_user_cannot_start_is_an_error() {
    let mut world = test_env();
    std::fs::write(world.file("closed"), "#!/bin/sh\n").unwrap();
    for guard in ["/no/such/program".to_owned(), world.path("closed")] {
        let exec = Exec { ifcmd: guard.into(), ..who("nobody", "") };
        let error = world.run(&exec, APPLY).await.unwrap_err();
        assert!(error.to_string().starts_with("`ifcmd`: "), "{error}");
    }
}
