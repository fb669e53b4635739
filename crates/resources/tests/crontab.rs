//! `crontab` with tables of the test's own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod common;
mod host_common;

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use common::{Bench, refused};
use host_common::{Running, edges, on_own_host, soon};
use mgmt_resource::{Checked, Spec};
use mgmt_resources::crontab::Crontab;
use mgmt_resources::file::File;
use mgmt_resources::user::User;

const TABLE: &str = "/var/spool/cron/crontabs/root";

fn job(command: &str) -> Crontab {
    Crontab { state: "exists".into(), command: command.into(), minute: "5".into(), ..Crontab::default() }
}

fn absent() -> Crontab {
    Crontab { state: "absent".into(), ..Crontab::default() }
}

fn text() -> String {
    fs::read_to_string(TABLE).unwrap_or_default()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &Bench, crontab: &Crontab, expected: &str) {
    let mut vertex = bench.vertex("backup", crontab.clone());
    let before = text();
    assert_eq!(runtime().block_on(vertex.look()).checked(), Checked::Changed);
    assert_eq!(text(), before, "looking has changed something");
    assert_eq!(runtime().block_on(vertex.apply()).checked(), Checked::Changed);
    assert_eq!(text(), expected);
    assert_eq!(runtime().block_on(vertex.apply()).checked(), Checked::Right);
    assert_eq!(runtime().block_on(vertex.look()).checked(), Checked::Right);
}

#[test]
fn a_job_is_made_changed_and_removed() {
    if !on_own_host("a_job_is_made_changed_and_removed") {
        return;
    }
    fs::create_dir_all("/var/spool/cron/crontabs").unwrap();
    let _ = fs::remove_file(TABLE);
    let bench = Bench::new();
    settles(&bench, &job("backup"), "# mgmt: backup\n5 * * * * backup\n");
    let found = fs::metadata(TABLE).unwrap();
    assert_eq!((found.mode() & 0o7777, found.uid()), (0o600, 0));
    fs::write(TABLE, format!("# mine\nA=b\n{}1 1 * * * mine\n", text())).unwrap();
    let special = Crontab { special: "daily".into(), environment: vec!["B=c".into()], ..job("backup all") };
    settles(&bench, &special, "# mine\nA=b\n# mgmt: backup\nB=c\n@daily backup all\n1 1 * * * mine\n");
    settles(&bench, &absent(), "# mine\nA=b\n1 1 * * * mine\n");
    // What Puppet has made is found again.
    fs::write(TABLE, "# Puppet Name: backup\n5 * * * * backup\n").unwrap();
    let theirs = Crontab { mark: "Puppet Name".into(), ..job("backup") };
    assert_eq!(runtime().block_on(bench.vertex("backup", theirs).apply()).checked(), Checked::Right);
}

#[test]
fn whatever_somebody_does_to_a_table_is_repaired() {
    if !on_own_host("whatever_somebody_does_to_a_table_is_repaired") {
        return;
    }
    fs::create_dir_all("/var/spool/cron/crontabs").unwrap();
    let _ = fs::remove_file(TABLE);
    runtime().block_on(async {
        let mut running = Running::start();
        running.swap(vec![Spec::new("backup", job("backup"))]).await;
        let right = || text() == "# mgmt: backup\n5 * * * * backup\n";
        soon("the job is there", right).await;
        fs::write(TABLE, "# mgmt: backup\n6 * * * * backup\n").unwrap();
        soon("the job is as it was", right).await;
        fs::remove_file(TABLE).unwrap();
        soon("the table is there again", right).await;
        running.stop();
    });
}

#[test]
fn what_cannot_be_is_told() {
    assert!(refused(&job("")).contains("`command`"));
    assert!(refused(&Crontab { hour: "1 2".into(), ..job("x") }).contains("`hour`"));
    assert!(refused(&Crontab { environment: vec!["x y".into()], ..job("x") }).contains("NAME=VALUE"));
    if !on_own_host("what_cannot_be_is_told") {
        return;
    }
    let bench = Bench::new();
    let nobody = Crontab { user: "no-such-user".into(), ..job("x") };
    let mut vertex = bench.vertex("a", nobody);
    assert!(runtime().block_on(vertex.apply()).error().contains("no-such-user"));
}

#[test]
fn a_job_comes_after_its_user_and_its_table() {
    let joe = Crontab { user: "joe".into(), ..job("x") };
    let table =
        File { state: "exists".into(), path: "/var/spool/cron/crontabs/joe".into(), ..File::default() };
    let user = User { state: "exists".into(), ..User::default() };
    let found = edges(vec![Spec::new("job", joe), Spec::new("table", table), Spec::new("joe", user)]);
    for expected in ["file[table] -> crontab[job]", "user[joe] -> crontab[job]"] {
        assert!(found.iter().any(|edge| edge == expected), "{found:?}");
    }
}
