//! `host` on real files, in the engine and where nobody is harmed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{Run, TestEnv, refused};
use crate::host_common::{
    RunningEngine, disturb, edges, on_own_host, output, run, shell, snapshot, soon, text,
};
use mgmt_resource::{Checked, Error, Kind, Meta, SharedMeta, Spec};
use mgmt_resources::file::File;
use mgmt_resources::host::Host;
use mgmt_value::Str;

fn host(state: &str, ip: &str) -> Host {
    Host { state: state.into(), ip: ip.into(), ..Host::default() }
}

fn list(names: &[&str]) -> Option<Vec<Str>> {
    Some(names.iter().map(|name| Str::from(*name)).collect())
}

#[track_caller]
fn outcome(bench: &TestEnv, name: &str, host: &Host, run: Run<'_>) -> Result<Checked, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(bench.vertex(name, host.clone()).run(run)).result
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, name: &str, host: &Host, file: &Path) {
    let seen = || snapshot(&[file.parent().unwrap().to_str().unwrap()]);
    let before = seen();
    assert_eq!(outcome(bench, name, host, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(seen(), before, "looking has changed something");
    assert_eq!(outcome(bench, name, host, Run::APPLY).unwrap(), Checked::Changed);
    let before = seen();
    assert_eq!(outcome(bench, name, host, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, name, host, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(seen(), before, "something was touched although all was right");
}

#[test]
fn entries_are_made_changed_and_removed() {
    let bench = TestEnv::new();
    let file = bench.path("hosts");
    let at = |host: Host| Host { file: text(&file), ..host };
    settles(&bench, "a", &at(host("exists", "192.0.2.7")), &file);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o644);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let full = Host {
        aliases: list(&["b", "c.example.com"]),
        comment: Some("hello".into()),
        ..host("exists", "192.0.2.8")
    };
    settles(&bench, "a", &at(full), &file);
    settles(&bench, "six", &at(Host { hostname: "a".into(), ..host("exists", "2001:db8::8") }), &file);
    assert_eq!(fs::read_to_string(&file).unwrap(), "192.0.2.8\ta b c.example.com # hello\n2001:db8::8\ta\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600, "the mode is not ours");
    settles(&bench, "a", &at(host("absent", "2001:db8::8")), &file);
    settles(&bench, "a", &at(host("absent", "")), &file);
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
    fs::remove_file(&file).unwrap();
    assert_eq!(outcome(&bench, "a", &at(host("absent", "")), Run::APPLY).unwrap(), Checked::Right);

    let target = bench.path("target");
    fs::write(&target, "untouched\n").unwrap();
    std::os::unix::fs::symlink(&target, &file).unwrap();
    let error = outcome(&bench, "a", &at(host("exists", "::1")), Run::APPLY).unwrap_err();
    assert!(error.hint().unwrap().contains("link points to"), "{error}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "untouched\n");
}

#[test]
fn a_file_that_is_mounted_into_a_container_is_written_to() {
    if !on_own_host("a_file_that_is_mounted_into_a_container_is_written_to") {
        return;
    }
    shell("echo '127.0.0.1 localhost' >/root/hosts; mount --bind /root/hosts /etc/hosts");
    let bench = TestEnv::new();
    assert_eq!(
        outcome(&bench, "printer", &host("exists", "192.0.2.7"), Run::APPLY).unwrap(),
        Checked::Changed
    );
    assert_eq!(outcome(&bench, "printer", &host("exists", "192.0.2.7"), Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(fs::read_to_string("/root/hosts").unwrap(), "127.0.0.1 localhost\n192.0.2.7\tprinter\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_finds_the_address_and_whatever_somebody_does_to_it_is_repaired() {
    if !on_own_host("the_host_finds_the_address_and_whatever_somebody_does_to_it_is_repaired") {
        return;
    }
    let mut running = RunningEngine::start();
    fs::write("/etc/hosts", "127.0.0.1 localhost\n").unwrap();
    let printer = Host { aliases: list(&["lp"]), ..host("exists", "192.0.2.7") };
    let six = Host { hostname: "printer".into(), ..host("exists", "2001:db8::7") };
    let specs = vec![
        Spec::new("printer", printer),
        Spec::new("printer, too", six),
        Spec::new("unwanted", host("absent", "")),
    ];
    running.swap(specs).await;
    let right = || {
        let mut lines: Vec<String> =
            fs::read_to_string("/etc/hosts").unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines.iter().any(|line| line == "192.0.2.7\tprinter lp")
            && lines.iter().any(|line| line == "2001:db8::7\tprinter")
            && !lines.iter().any(|line| line.contains("unwanted"))
    };
    assert!(right(), "{}", fs::read_to_string("/etc/hosts").unwrap());
    assert!(run("getent", &["hosts", "lp"]).starts_with("192.0.2.7 "));
    assert!(run("getent", &["hosts", "printer"]).starts_with("2001:db8::7 "));
    for drift in [
        "sed -i /printer/d /etc/hosts",
        "echo '127.0.0.1 localhost' >/etc/hosts",
        "sed -i s/2.7/2.9/ /etc/hosts",
        "echo 192.0.2.9 unwanted >>/etc/hosts",
        "echo 192.0.2.7 printer lp >>/etc/hosts",
        "rm /etc/hosts",
        "mv /etc/hosts /etc/hosts.old",
        "cp /etc/hosts /etc/x; sed -i 's/ lp//' /etc/x; mv /etc/x /etc/hosts",
    ] {
        disturb(drift);
        soon(drift, || fs::exists("/etc/hosts").unwrap() && right()).await;
    }
    assert!(output("getent", &["hosts", "unwanted"]).stdout.is_empty());
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_no_longer_declared_becomes_what_it_was() {
    let mut running = RunningEngine::start();
    let file = running.path("hosts");
    let before = "192.0.2.1 a old # comment\n192.0.2.3 c\n";
    fs::write(&file, before).unwrap();
    let spec = |name: &str, host: Host| {
        let mut spec = Spec::new(name, Host { file: text(&file), ..host });
        spec.meta = SharedMeta::from(Meta { reverse: true, ..Meta::default() });
        spec
    };
    let changed = Host { aliases: list(&["new"]), comment: Some(Str::EMPTY), ..host("exists", "192.0.2.9") };
    running
        .swap(vec![spec("a", changed), spec("b", host("exists", "192.0.2.2")), spec("c", host("absent", ""))])
        .await;
    assert_eq!(fs::read_to_string(&file).unwrap(), "192.0.2.9\ta new\n192.0.2.2\tb\n");
    running.swap(vec![]).await;
    let mut lines: Vec<String> = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["192.0.2.1\ta old # comment", "192.0.2.3\tc"]);
    running.stop();
    let absent = Host { file: "/no/such/file".into(), ..host("absent", "") };
    assert_eq!(Kind::reversed(&absent, &"a".into()).unwrap(), None, "nothing to undo");
}

#[test]
fn an_entry_comes_after_the_file_it_is_in() {
    let file = File { state: "exists".into(), ..File::default() };
    let specs = vec![Spec::new("printer", host("exists", "::1")), Spec::new("/etc/hosts", file)];
    assert_eq!(edges(specs), ["file[/etc/hosts] -> host[printer]"]);
}

#[test]
fn what_cannot_be_an_entry_is_refused() {
    for (wrong, told) in [
        (host("", "::1"), "`state`: is missing"),
        (host("exists", ""), "`ip`: is missing"),
        (host("exists", "192.0.2.256"), "`ip`: expected an address"),
        (
            Host { hostname: "a b".into(), ..host("exists", "::1") },
            "`hostname`: \"a b\" is not the name of a host",
        ),
        (Host { aliases: list(&["a", "a"]), ..host("exists", "::1") }, "`aliases`: \"a\" is there already"),
        (
            Host { comment: Some("a\n192.0.2.1 b".into()), ..host("exists", "::1") },
            "`comment`: has a control character",
        ),
        (Host { file: "hosts".into(), ..host("exists", "::1") }, "`file`"),
    ] {
        let refused = refused(&wrong);
        assert!(refused.contains(told), "{refused}");
    }
}
