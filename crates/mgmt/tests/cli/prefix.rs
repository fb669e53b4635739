//! The working directory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use mgmt_test_support::program::{CommandOutput, RunningProgram, mgmt, mgmt_output};
use rustix::process::Signal;

const NOW: [&str; 3] = ["--converger-timeout", "0", "--converged-exit"];

fn run(prefix: &Path) -> CommandOutput {
    mgmt(&["run", "--prefix", prefix.to_str().unwrap(), "empty"]).args(NOW).output().unwrap().into()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

#[test]
fn it_is_made_for_us_alone_and_stays() {
    let scratch = tempfile::tempdir().unwrap();
    let prefix = scratch.path().join("deep/prefix");
    let first = run(&prefix);
    assert_eq!(first.code, 0, "{}", first.stderr);
    for directory in ["", "engine", "engine/state", "local"] {
        assert_eq!(mode(&prefix.join(directory)), 0o700, "{directory}");
    }
    assert_eq!(mode(&prefix.join("lock")), 0o600);
    assert_eq!(run(&prefix).code, 0, "a second run finds what the first left");
}

#[test]
fn the_variables_choose_it() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let run = |variable: &str, value: &str| -> CommandOutput {
        mgmt(&["run", "empty"]).args(NOW).env(variable, value).output().unwrap().into()
    };
    let said = run("MGMT_PREFIX", at("a").to_str().unwrap());
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(at("a/lock").exists());
    let list = format!("{}:{}", at("b").display(), at("c").display());
    assert_eq!(run("STATE_DIRECTORY", &list).code, 0);
    assert!(at("b/lock").exists() && !at("c").exists());
}

#[test]
fn a_second_instance_is_told_who_has_it() {
    let scratch = tempfile::tempdir().unwrap();
    let prefix = scratch.path().join("prefix");
    let mut first = RunningProgram::start(&["run", "--prefix", prefix.to_str().unwrap(), "empty"]);
    first.wait_for("graph empty");
    let second = run(&prefix);
    assert_eq!(second.code, 1);
    assert!(second.stderr.contains(&format!("process {}", first.id())), "{}", second.stderr);
    assert!(second.stderr.contains("hint: "), "{}", second.stderr);
    first.signal(Signal::KILL);
    first.end();
    assert_eq!(run(&prefix).code, 0, "a killed instance leaves no lock behind");
}

#[test]
fn one_that_others_can_write_to_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let refused = run(scratch.path());
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("0777") && refused.stderr.contains("hint: "), "{}", refused.stderr);
    let below = run(&scratch.path().join("below"));
    assert_eq!(below.code, 1);
}

#[test]
fn one_that_belongs_to_somebody_else_is_refused() {
    mgmt_test_support::require_root!();
    let scratch = tempfile::tempdir().unwrap();
    let prefix = scratch.path().join("theirs");
    std::fs::create_dir(&prefix).unwrap();
    chown(&prefix, Some(12345), Some(12345)).unwrap();
    let refused = run(&prefix);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("belongs to user 12345"), "{}", refused.stderr);
}

#[test]
fn a_temporary_one_is_removed_at_the_end() {
    let scratch = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| -> CommandOutput {
        mgmt(&["run", "--hostname", "here"])
            .args(arguments)
            .args(NOW)
            .env("TMPDIR", scratch.path())
            .output()
            .unwrap()
            .into()
    };
    let ended = run(&["--tmp-prefix", "empty"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stderr.contains(&format!("{}/mgmt-here-", scratch.path().canonicalize().unwrap().display()))
    );
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);

    let fallback = run(&["--prefix", "/dev/null/no", "--allow-tmp-prefix", "empty"]);
    assert_eq!(fallback.code, 0, "{}", fallback.stderr);
    assert!(fallback.stderr.contains("using a temporary prefix instead"), "{}", fallback.stderr);
    assert_eq!(run(&["--prefix", "/dev/null/no", "empty"]).code, 1);
}

#[test]
fn a_planted_link_in_place_of_the_lock_is_not_followed() {
    let scratch = tempfile::tempdir().unwrap();
    let prefix = scratch.path().join("prefix");
    std::fs::create_dir(&prefix).unwrap();
    std::fs::set_permissions(&prefix, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink(scratch.path().join("victim"), prefix.join("lock")).unwrap();
    assert_eq!(run(&prefix).code, 1);
    assert!(!scratch.path().join("victim").exists());
    assert_eq!(mgmt_output(&["kinds"]).code, 0);
}
