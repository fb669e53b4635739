//! Scripts for the first boot, run by the real program.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mgmt_test_support::program::{CommandOutput, mgmt_output};

struct Host {
    directory: tempfile::TempDir,
}

impl Host {
    fn new() -> Host {
        let host = Host { directory: tempfile::tempdir().unwrap() };
        for name in ["scripts", "done", "logs"] {
            fs::create_dir(host.path(name)).unwrap();
            fs::set_permissions(host.path(name), Permissions::from_mode(0o700)).unwrap();
        }
        host
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path("scripts").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        path
    }

    fn start(&self, more: &[&str]) -> CommandOutput {
        let directory = |name: &str| format!("{}/", self.path(name).display());
        let (lock, scripts, logs) = (self.path("lock"), directory("scripts"), directory("logs"));
        let mut arguments = vec!["firstboot", "start", "--lock-file-path", lock.to_str().unwrap()];
        arguments.extend(["--scripts-dir", &scripts, "--logging-dir", &logs]);
        arguments.extend(more);
        mgmt_output(&arguments)
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What the scripts of all runs have said.
    fn log(&self) -> String {
        self.names("logs")
            .iter()
            .map(|name| fs::read_to_string(self.path("logs").join(name)).unwrap())
            .collect()
    }
}

#[test]
fn scripts_run_once_in_the_order_of_their_names_and_what_they_say_is_kept() {
    let host = Host::new();
    host.script("20-second", "echo two; exit 3");
    host.script("10-first", "echo one; echo to errors >&2");
    let plain = host.script("30-not-executable", "echo never");
    fs::set_permissions(&plain, Permissions::from_mode(0o600)).unwrap();
    let said = host.start(&[]);
    assert_eq!(said.code, 0, "{said:?}");
    let log = host.log();
    let told: Vec<&str> = log.lines().filter(|line| !line.starts_with("mgmt: ")).collect();
    assert_eq!(told, ["one", "to errors", "two"]);
    assert!(log.contains("20-second: failed (exit status: 3)"), "{log}");
    assert_eq!(host.names("scripts"), ["30-not-executable"]);
    let names = host.names("logs");
    assert!(names.len() == 1 && names[0].starts_with("mgmt-firstboot-") && names[0].ends_with(".log"));
    assert_eq!(host.start(&[]).code, 0);
    assert_eq!(host.log(), log, "something was run a second time");
}

#[test]
fn the_file_beside_a_script_says_what_becomes_of_it() {
    let host = Host::new();
    let beside = |name: &str, text: &str| {
        fs::write(host.path("scripts").join(format!("{name}.yaml")), text).unwrap();
    };
    host.script("kept", "exit 1");
    beside("kept", "keep-on-fail: true\n");
    host.script("moved", "echo aloud");
    beside("moved", &format!("done-dir: {}/\nno-log: true\n", host.path("done").display()));
    host.script("wrong", "echo never");
    beside("wrong", "keep-on-fail: perhaps\n");
    let said = host.start(&[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains("aloud"), "{said:?}");
    assert!(said.stderr.contains("expected `true` or `false`, found `perhaps`"), "{said:?}");
    assert!(!host.log().contains("aloud") && !host.log().contains("never"));
    assert_eq!(host.names("scripts"), ["kept", "kept.yaml", "wrong", "wrong.yaml"]);
    assert_eq!(host.names("done"), ["moved", "moved.yaml"]);
    let flag = format!("{}/", host.path("done").display());
    fs::remove_file(host.path("scripts/kept.yaml")).unwrap();
    assert_eq!(host.start(&["--done-dir", &flag]).code, 0);
    assert_eq!(host.names("done"), ["kept", "moved", "moved.yaml"]);
}

#[test]
fn nothing_runs_that_somebody_else_could_have_written_or_runs_already() {
    let host = Host::new();
    let marker = host.path("marker");
    let script = host.script("open", &format!("touch {}", marker.display()));
    fs::set_permissions(&script, Permissions::from_mode(0o722)).unwrap();
    let said = host.start(&[]);
    assert_eq!(said.code, 0);
    assert!(said.stderr.contains("not trusted"), "{said:?}");
    fs::set_permissions(&script, Permissions::from_mode(0o700)).unwrap();
    let scripts = host.path("scripts");
    fs::set_permissions(&scripts, Permissions::from_mode(0o777)).unwrap();
    assert_eq!(host.start(&[]).code, 1);
    fs::set_permissions(&scripts, Permissions::from_mode(0o700)).unwrap();
    let lock = fs::File::open(host.path("lock")).unwrap();
    lock.lock().unwrap();
    let said = host.start(&[]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("somebody else runs the scripts"), "{said:?}");
    assert!(!Path::new(&marker).exists());
    drop(lock);
    assert_eq!(host.start(&[]).code, 0);
    assert!(marker.exists());
}
