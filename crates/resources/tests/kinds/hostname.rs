//! `hostname` on a host without systemd and on one that was booted with it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;

use crate::common::{Run, TestEnv, refused};
use crate::host_common::{RunningEngine, disturb, edges, on_own_host, shell, snapshot, soon};
use mgmt_resource::{Checked, Error, Spec};
use mgmt_resources::file::File;
use mgmt_resources::hostname::Hostname;
use mgmt_test_support::booted_host::{on_booted_host, run, unit_state};
use mgmt_value::Str;

#[track_caller]
fn outcome(bench: &TestEnv, name: &str, hostname: &Hostname, run: Run<'_>) -> Result<Checked, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(bench.vertex(name, hostname.clone()).run(run)).result
}

fn seen() -> [String; 3] {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    [read("/etc/machine-info"), read("/etc/hostname"), run("uname", &["-n"])]
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, name: &str, hostname: &Hostname) {
    let before = (seen(), snapshot(&["/etc"]));
    assert_eq!(outcome(bench, name, hostname, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!((seen(), snapshot(&["/etc"])), before, "looking has changed something");
    assert_eq!(outcome(bench, name, hostname, Run::APPLY).unwrap(), Checked::Changed);
    let before = (seen(), snapshot(&["/etc"]));
    assert_eq!(outcome(bench, name, hostname, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, name, hostname, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!((seen(), snapshot(&["/etc"])), before, "something was touched although all was right");
}

/// All names, then each alone.
fn all_names_are_set_and_each_alone(bench: &TestEnv) {
    settles(bench, "sea", &Hostname::default());
    assert_eq!(
        seen(),
        ["PRETTY_HOSTNAME=\"sea\"\n", "sea\n", "sea"].map(|text| seen_as(text, "PRETTY_HOSTNAME=sea\n"))
    );
    let only = |pretty: &str, fixed: &str, transient: &str| Hostname {
        hostname: Str::EMPTY,
        pretty_hostname: Some(pretty.into()),
        static_hostname: Some(fixed.into()),
        transient_hostname: Some(transient.into()),
    };
    settles(bench, "any", &only("Ada’s \"big\" $PC", "", ""));
    assert_eq!(seen()[1..], ["sea\n", "sea"]);
    settles(bench, "any", &only("", "", "boat"));
    assert_eq!(seen()[1..], ["sea\n", "boat"]);
    settles(bench, "any", &only("", "deck.example.com", ""));
    assert_eq!(seen()[1], "deck.example.com\n");
    settles(bench, "any", &Hostname { hostname: "land".into(), ..Hostname::default() });
    assert_eq!(seen()[1..], ["land\n", "land"]);
}

/// The service writes without quotes what needs none.
fn seen_as(text: &str, without_quotes: &str) -> String {
    if text.starts_with("PRETTY") && seen()[0] == without_quotes {
        without_quotes.into()
    } else {
        text.into()
    }
}

async fn whatever_somebody_does_is_repaired(drifts: &[&str]) {
    let mut running = RunningEngine::start();
    let wanted = Hostname { pretty_hostname: Some("The Sea".into()), ..Hostname::default() };
    running.swap(vec![Spec::new("sea", wanted)]).await;
    let right = || {
        let [pretty, fixed, transient] = seen();
        pretty.contains("PRETTY_HOSTNAME=\"The Sea\"") && fixed == "sea\n" && transient == "sea"
    };
    assert!(right(), "{:?}", seen());
    for drift in drifts {
        disturb(drift);
        soon(drift, right).await;
    }
    running.stop();
}

#[test]
fn without_a_service_the_names_are_set_directly() {
    if !on_own_host("without_a_service_the_names_are_set_directly") {
        return;
    }
    shell("rm -f /etc/hostname /etc/machine-info");
    all_names_are_set_and_each_alone(&TestEnv::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_service_whatever_somebody_does_is_repaired() {
    if !on_own_host("without_a_service_whatever_somebody_does_is_repaired") {
        return;
    }
    let drifts = [
        "hostname other",
        "echo other >/proc/sys/kernel/hostname",
        "sysctl -q -w kernel.hostname=other",
        "echo other >/etc/hostname",
        "rm /etc/hostname",
        "echo other >/etc/x; mv /etc/x /etc/hostname",
        "rm /etc/machine-info",
        "echo 'PRETTY_HOSTNAME=other' >/etc/machine-info",
        "echo other >/etc/hostname; hostname other; hostname another",
    ];
    whatever_somebody_does_is_repaired(&drifts).await;
}

/// Takes the walls around the service away, which cannot be built on such a host.
fn let_the_service_start() {
    let open = [
        "PrivateDevices",
        "PrivateNetwork",
        "PrivateTmp",
        "ProtectControlGroups",
        "ProtectHome",
        "ProtectKernelLogs",
    ];
    let open = open.into_iter().chain(["ProtectKernelModules", "ProtectKernelTunables", "ProtectSystem"]);
    let open: String = open.map(|wall| format!("{wall}=no\n")).collect();
    let directory = "/etc/systemd/system/systemd-hostnamed.service.d";
    fs::create_dir_all(directory).unwrap();
    let rest = "ProtectProc=default\nReadWritePaths=\nIPAddressDeny=\nRestrictNamespaces=no\n";
    fs::write(format!("{directory}/open.conf"), format!("[Service]\n{open}{rest}")).unwrap();
    run("systemctl", &["daemon-reload"]);
    shell("rm -f /etc/hostname /etc/machine-info");
}

#[test]
fn with_the_service_the_names_are_set_by_it() {
    if !on_booted_host("with_the_service_the_names_are_set_by_it") {
        return;
    }
    let_the_service_start();
    assert_ne!(unit_state("is-active", "systemd-hostnamed"), "active");
    let bench = TestEnv::new();
    outcome(&bench, "sea", &Hostname::default(), Run::LOOK).unwrap();
    assert_ne!(unit_state("is-active", "systemd-hostnamed"), "active", "looking starts no service");
    all_names_are_set_and_each_alone(&bench);
    assert_eq!(unit_state("is-active", "systemd-hostnamed"), "active");
    assert_eq!(run("hostnamectl", &["--static"]), "land");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_service_whatever_somebody_does_is_repaired() {
    if !on_booted_host("with_the_service_whatever_somebody_does_is_repaired") {
        return;
    }
    let_the_service_start();
    let drifts = [
        "hostnamectl set-hostname other",
        "hostnamectl --pretty set-hostname other",
        "hostnamectl --static set-hostname other",
        "hostnamectl --transient set-hostname other",
        "hostname other",
        "echo other >/etc/hostname",
        "rm /etc/hostname /etc/machine-info",
        "systemctl stop systemd-hostnamed; hostname other",
    ];
    whatever_somebody_does_is_repaired(&drifts).await;
}

#[test]
fn a_service_that_does_not_start_is_done_without() {
    if !on_booted_host("a_service_that_does_not_start_is_done_without") {
        return;
    }
    run("systemctl", &["mask", "--now", "systemd-hostnamed"]);
    shell("rm -f /etc/hostname /etc/machine-info");
    settles(&TestEnv::new(), "sea", &Hostname::default());
}

#[test]
fn a_name_comes_after_files_that_hold_it() {
    let file = || File { state: "exists".into(), ..File::default() };
    let specs = vec![Spec::new("sea", Hostname::default()), Spec::new("/etc/hostname", file())];
    assert_eq!(edges(specs), ["file[/etc/hostname] -> hostname[sea]"]);
}

#[test]
fn what_cannot_be_a_name_is_refused() {
    let named = |hostname: &str| Hostname { hostname: hostname.into(), ..Hostname::default() };
    let none = Some(Str::EMPTY);
    let nothing = Hostname {
        pretty_hostname: none.clone(),
        static_hostname: none.clone(),
        transient_hostname: none,
        ..named("")
    };
    for (wrong, told) in [
        (named("the sea"), "`hostname`: \"the sea\" is not the name of a host"),
        (named(&"a".repeat(65)), "at most 64"),
        (Hostname { transient_hostname: Some("-".into()), ..named("") }, "`transient_hostname`"),
        (Hostname { pretty_hostname: Some("a\nb".into()), ..named("") }, "`pretty_hostname`"),
        (nothing, "nothing to do"),
    ] {
        let refused = refused(&wrong);
        assert!(refused.contains(told), "{refused}");
    }
}
