//! `firewalld` with a real firewalld, on a host that was booted for it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;

use crate::common::{Run, TestEnv};
use crate::host_common::{RunningEngine, disturb, edges, output, shell, soon};
use mgmt_resource::{Checked, Error, Meta, Spec};
use mgmt_resources::file::File;
use mgmt_resources::firewalld::Firewalld;
use mgmt_resources::pkg::Pkg;
use mgmt_resources::svc::Svc;
use mgmt_test_support::booted_host::{on_booted_host, run};
use mgmt_value::Str;

fn firewalld(services: &[&str], ports: &[&str]) -> Firewalld {
    let texts = |texts: &[&str]| texts.iter().map(|text| Str::from(*text)).collect();
    Firewalld { services: texts(services), ports: texts(ports), ..Firewalld::default() }
}

fn absent(firewalld: Firewalld) -> Firewalld {
    Firewalld { state: "absent".into(), ..firewalld }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

#[track_caller]
fn outcome(bench: &TestEnv, firewalld: &Firewalld, run: Run<'_>) -> Result<Checked, Error> {
    runtime().block_on(bench.vertex("demo", firewalld.clone()).run(run)).result
}

/// What holds now, and what holds from the next start.
fn seen(zone: &str) -> [String; 2] {
    let zone = format!("--zone={zone}");
    let now = run("firewall-cmd", &[&zone, "--list-all"]);
    [now, run("firewall-cmd", &["--permanent", &zone, "--list-all"])]
}

/// The words after `services:` or `ports:`.
fn listed(seen: &str, what: &str) -> Vec<String> {
    let start = format!("{what}: ");
    let line = seen.lines().find_map(|line| line.trim_start().strip_prefix(&start)).unwrap_or_default();
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    words.sort();
    words
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, firewalld: &Firewalld, zone: &str) {
    let before = seen(zone);
    assert_eq!(outcome(bench, firewalld, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(seen(zone), before, "looking has changed something");
    assert_eq!(outcome(bench, firewalld, Run::APPLY).unwrap(), Checked::Changed);
    let before = seen(zone);
    assert_eq!(outcome(bench, firewalld, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, firewalld, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(seen(zone), before, "something was touched although all was right");
}

#[test]
fn services_and_ports_are_let_in_and_kept_out() {
    if !on_booted_host("services_and_ports_are_let_in_and_kept_out") {
        return;
    }
    shell("systemctl start firewalld");
    let bench = TestEnv::new();
    settles(&bench, &firewalld(&["http", "https"], &["8080/tcp", "6000-6010/udp"]), "public");
    for all in seen("public") {
        let services = listed(&all, "services");
        assert!(["http", "https", "ssh"].iter().all(|name| services.contains(&(*name).to_owned())), "{all}");
        assert_eq!(listed(&all, "ports"), ["6000-6010/udp", "8080/tcp"]);
    }
    // What lies in a range is let in by it, and what reaches beyond extends it.
    assert_eq!(outcome(&bench, &firewalld(&[], &["6003/udp"]), Run::LOOK).unwrap(), Checked::Right);
    settles(&bench, &firewalld(&[], &["6005-6020/udp"]), "public");
    for all in seen("public") {
        assert_eq!(listed(&all, "ports"), ["6000-6020/udp", "8080/tcp"]);
    }
    // A range loses what is to be absent, and nothing else goes.
    settles(&bench, &absent(firewalld(&["https"], &["6003/udp", "8080/tcp", "9/tcp"])), "public");
    for all in seen("public") {
        assert!(!listed(&all, "services").contains(&"https".to_owned()), "{all}");
        assert!(listed(&all, "services").contains(&"http".to_owned()), "{all}");
        assert_eq!(listed(&all, "ports"), ["6000-6002/udp", "6004-6020/udp"]);
    }
    // Only what holds now, in a zone of its own.
    let now = Firewalld { permanent: false, zone: "dmz".into(), ..firewalld(&["http"], &["9/tcp"]) };
    settles(&bench, &now, "dmz");
    let [all, permanent] = seen("dmz");
    assert_eq!((listed(&all, "ports"), listed(&permanent, "ports")), (vec!["9/tcp".to_owned()], vec![]));
    assert!(!listed(&permanent, "services").contains(&"http".to_owned()));
    shell("firewall-cmd --reload");
    assert_eq!(outcome(&bench, &now, Run::LOOK).unwrap(), Checked::Changed, "it has forgotten");
    // What is permanent outlives that.
    assert_eq!(outcome(&bench, &firewalld(&["http"], &["6000/udp"]), Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(
        outcome(&bench, &Firewalld::default(), Run::APPLY).unwrap(),
        Checked::Right,
        "nothing is nothing"
    );
}

#[test]
fn what_cannot_be_is_told() {
    if !on_booted_host("what_cannot_be_is_told") {
        return;
    }
    let bench = TestEnv::new();
    let web = firewalld(&["http"], &[]);
    // It may be about to be started.
    assert_eq!(outcome(&bench, &web, Run::LOOK).unwrap(), Checked::Changed);
    let error = outcome(&bench, &web, Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("firewalld does not run"), "{error}");
    assert!(error.hint().unwrap().contains("package firewalld"), "{error:?}");
    shell("systemctl start firewalld");
    let before = seen("public");
    let error = outcome(&bench, &firewalld(&["no-such-service"], &[]), Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("no-such-service"), "{error}");
    assert!(error.hint().unwrap().contains("--get-services"), "{error:?}");
    let elsewhere = Firewalld { zone: "nowhere".into(), ..web };
    let error = outcome(&bench, &elsewhere, Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("no zone nowhere"), "{error}");
    assert!(error.hint().unwrap().contains("--get-zones"), "{error:?}");
    // It may be about to be made; and what does not exist lets nothing in.
    assert_eq!(outcome(&bench, &elsewhere, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(outcome(&bench, &absent(elsewhere), Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(seen("public"), before);
}

#[test]
fn whatever_somebody_does_to_a_zone_is_an_event_and_repaired() {
    if !on_booted_host("whatever_somebody_does_to_a_zone_is_an_event_and_repaired") {
        return;
    }
    shell("systemctl start firewalld");
    runtime().block_on(async {
        let mut running = RunningEngine::start();
        let closed = absent(firewalld(&["https"], &["23/tcp"]));
        let now = Firewalld { permanent: false, ..firewalld(&[], &["9/udp"]) };
        let specs = vec![
            Spec::new("open", firewalld(&["http"], &["8080/tcp"])),
            Spec::new("closed", closed),
            Spec::new("now", now),
        ];
        running.swap(specs).await;
        let path = "/org/fedoraproject/FirewallD1";
        let call = |interface: &str, method: &[&str]| {
            let target = ["call", "org.fedoraproject.FirewallD1", path, interface];
            let told = output("busctl", &[&target[..], method].concat());
            String::from_utf8_lossy(&told.stdout).trim().to_owned()
        };
        let right = || {
            let zone = call("org.fedoraproject.FirewallD1", &["getDefaultZone"]);
            let Some(zone) = zone.split('"').nth(1) else { return false };
            let now = |method: &str| call("org.fedoraproject.FirewallD1.zone", &[method, "s", zone]);
            let (services, ports) = (now("getServices"), now("getPorts"));
            let stored = fs::read_to_string(format!("/etc/firewalld/zones/{zone}.xml")).unwrap_or_default();
            services.contains(r#""http""#)
                && !services.contains(r#""https""#)
                && ports.contains(r#""8080" "tcp""#)
                && ports.contains(r#""9" "udp""#)
                && !ports.contains("20-24")
                && stored.contains(r#"name="http""#)
                && !stored.contains(r#"name="https""#)
                && stored.contains(r#"port="8080""#)
                && !stored.contains(r#"port="9""#)
                && !stored.contains("20-24")
        };
        assert!(right());
        for drift in [
            "firewall-cmd --remove-service=http",
            "firewall-cmd --remove-port=8080/tcp",
            "firewall-cmd --permanent --remove-service=http",
            "firewall-cmd --permanent --remove-port=8080/tcp",
            "firewall-cmd --add-service=https --timeout=60",
            "firewall-cmd --add-port=20-24/tcp; firewall-cmd --permanent --add-port=20-24/tcp",
            "firewall-cmd --remove-port=9/udp",
            "firewall-cmd --reload",
            "firewall-cmd --complete-reload",
            "sed -i /8080/d /etc/firewalld/zones/public.xml",
            "firewall-cmd --set-default-zone=work",
            "firewall-cmd --remove-service=http",
            "firewall-cmd --set-default-zone=public",
            "systemctl restart firewalld",
            "systemctl stop firewalld; sed -i '/service name=.http/d' /etc/firewalld/zones/public.xml; systemctl start firewalld",
            "systemctl kill --signal=KILL firewalld; sleep 1; systemctl start firewalld",
        ] {
            disturb(drift);
            soon(drift, right).await;
        }
        running.stop();
    });
}

#[test]
fn what_was_kept_out_before_is_kept_out_again_when_it_is_not_declared_any_more() {
    if !on_booted_host("what_was_kept_out_before_is_kept_out_again_when_it_is_not_declared_any_more") {
        return;
    }
    shell(
        "systemctl start firewalld; firewall-cmd --add-service=http; firewall-cmd --permanent --add-service=http",
    );
    shell("firewall-cmd --add-port=105/tcp; firewall-cmd --permanent --add-port=105/tcp");
    let before = seen("public");
    runtime().block_on(async {
        let mut running = RunningEngine::start();
        let mut open = Spec::new("open", firewalld(&["http", "https"], &["100-110/tcp"]));
        let mut closed = Spec::new("closed", absent(firewalld(&["ssh"], &["7/tcp"])));
        for spec in [&mut open, &mut closed] {
            spec.meta = Meta { reverse: true, ..(*spec.meta).clone() }.into();
        }
        running.swap(vec![open, closed]).await;
        for all in seen("public") {
            assert_eq!(listed(&all, "ports"), ["100-110/tcp"]);
            assert!(!listed(&all, "services").contains(&"ssh".to_owned()), "{all}");
        }
        running.swap(vec![]).await;
        running.stop();
    });
    let after = seen("public");
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(listed(before, "services"), listed(after, "services"));
        assert_eq!(listed(before, "ports"), listed(after, "ports"));
    }
}

#[test]
fn a_zone_comes_after_firewalld_and_the_files_of_it() {
    let file = |name: &str| Spec::new(name, File { state: "exists".into(), ..File::default() });
    let specs = vec![
        Spec::new("web", Firewalld { zone: "dmz".into(), ..firewalld(&["shop"], &[]) }),
        Spec::new("firewalld", Svc::default()),
        Spec::new("firewalld", Pkg { state: "installed".into(), ..Pkg::default() }),
        file("/etc/firewalld/zones/dmz.xml"),
        file("/etc/firewalld/services/shop.xml"),
        file("/etc/firewalld/zones/public.xml"),
    ];
    let edges = edges(specs);
    for expected in [
        "svc[firewalld] -> firewalld[web]",
        "pkg[firewalld] -> firewalld[web]",
        "file[/etc/firewalld/zones/dmz.xml] -> firewalld[web]",
        "file[/etc/firewalld/services/shop.xml] -> firewalld[web]",
    ] {
        assert!(edges.contains(&expected.to_owned()), "{expected}: {edges:?}");
    }
    assert!(!edges.contains(&"file[/etc/firewalld/zones/public.xml] -> firewalld[web]".to_owned()));
}
