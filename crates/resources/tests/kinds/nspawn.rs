//! `nspawn` with a real machined and real containers, on a host that was booted for it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::common::{Run, TestEnv};
use crate::host_common::{RunningEngine, disturb, edges, output, shell, soon};
use mgmt_resource::{Checked, Error, Spec};
use mgmt_resources::file::File;
use mgmt_resources::nspawn::Nspawn;
use mgmt_resources::pkg::Pkg;
use mgmt_test_support::booted_host::{eventually, on_booted_host, run, unit_state};

const UNIT: &str = "systemd-nspawn@demo-1.service";

fn nspawn(state: &str) -> Nspawn {
    Nspawn { state: state.into() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

#[track_caller]
fn outcome(bench: &TestEnv, state: &str, run: Run<'_>) -> Result<Checked, Error> {
    runtime().block_on(bench.vertex("demo-1", nspawn(state)).run(run)).result
}

/// A system that boots: the programs of this machine, and nothing of its own.
fn make_image() {
    shell(
        "root=/var/lib/machines/demo-1; mkdir -p $root/etc $root/usr $root/var $root/root $root/tmp $root/proc $root/sys $root/dev $root/run
         for link in bin sbin lib lib64; do ln -s usr/$link $root/$link; done
         echo ID=demo >$root/etc/os-release; echo uninitialized >$root/etc/machine-id
         mkdir -p $root/etc/systemd/system; ln -s /dev/null $root/etc/systemd/system/systemd-udevd.service
         printf '[Unit]\nDefaultDependencies=no\n' >$root/etc/systemd/system/default.target
         mkdir -p /etc/systemd/nspawn
         printf '[Exec]\nBoot=yes\nPrivateUsers=no\nLinkJournal=no\n[Network]\nPrivate=yes\nVirtualEthernet=no\n[Files]\nBindReadOnly=/usr\n' \
             >/etc/systemd/nspawn/demo-1.nspawn",
    );
}

fn state() -> String {
    let told = output("machinectl", &["show", "demo-1", "--property=State", "--value"]);
    String::from_utf8_lossy(&told.stdout).trim().to_owned()
}

/// Its state, and the process that it is.
fn seen() -> (String, String) {
    let leader = output("machinectl", &["show", "demo-1", "--property=Leader", "--value"]);
    (state(), String::from_utf8_lossy(&leader.stdout).trim().to_owned())
}

/// Whether the first process of a machine waits for the signal that asks it to power off, which is lost before that.
fn can_be_asked(leader: &str) -> bool {
    const POWER_OFF: u32 = 34 + 4;
    let status = std::fs::read_to_string(format!("/proc/{leader}/status")).unwrap_or_default();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let blocked = blocked.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    blocked.is_some_and(|mask| mask & (1 << (POWER_OFF - 1)) != 0)
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, state: &str) {
    let before = seen();
    assert_eq!(outcome(bench, state, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(seen(), before, "looking has changed something");
    assert_eq!(outcome(bench, state, Run::APPLY).unwrap(), Checked::Changed);
    let before = seen();
    assert_eq!(outcome(bench, state, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, state, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(seen(), before, "something was touched although all was right");
}

#[test]
fn a_machine_is_started_restarted_and_stopped() {
    if !on_booted_host("a_machine_is_started_restarted_and_stopped") {
        return;
    }
    make_image();
    let bench = TestEnv::new();
    assert_eq!(outcome(&bench, "stopped", Run::APPLY).unwrap(), Checked::Right);
    settles(&bench, "running");
    let (state, leader) = seen();
    assert_eq!(state, "running");
    assert_eq!(outcome(&bench, "running", Run { apply: false, ..Run::REFRESH }).unwrap(), Checked::Changed);
    assert_eq!(seen().1, leader);
    assert_eq!(
        outcome(&bench, "running", Run::REFRESH).unwrap(),
        Checked::Changed,
        "a notification restarts it"
    );
    assert_ne!(seen().1, leader);
    settles(&bench, "stopped");
    assert_eq!(unit_state("is-active", UNIT), "inactive");
    assert_eq!(outcome(&bench, "stopped", Run::REFRESH).unwrap(), Checked::Right);
    // One that somebody runs by hand is one, too.
    shell(
        "systemd-run --unit=by-hand systemd-nspawn --quiet --boot --register=yes --settings=override --machine=demo-1 --directory=/var/lib/machines/demo-1",
    );
    runtime().block_on(soon("it runs", || self::state() == "running"));
    assert_eq!(outcome(&bench, "running", Run::APPLY).unwrap(), Checked::Right);
    settles(&bench, "stopped");
    assert_eq!(seen().0, "");
}

/// Somebody stops a machine in the moment in which it is restarted, which cancels that. It was declared to run, so it runs.
#[test]
fn who_stops_a_machine_while_it_is_restarted_does_not_win() {
    if !on_booted_host("who_stops_a_machine_while_it_is_restarted_does_not_win") {
        return;
    }
    make_image();
    // Its end takes as long as it takes us to be there.
    shell(&format!(
        "mkdir /etc/systemd/system/{UNIT}.d
         echo '[Service]
         ExecStop=/bin/sh -c \"touch /run/demo-stops; until test -e /run/demo-go; do sleep 0.02; done\"' \
             >/etc/systemd/system/{UNIT}.d/slow.conf"
    ));
    let bench = TestEnv::new();
    assert_eq!(outcome(&bench, "running", Run::APPLY).unwrap(), Checked::Changed);
    let (_, leader) = seen();
    let somebody = std::thread::spawn(|| {
        eventually("it stops", || std::fs::exists("/run/demo-stops").unwrap());
        run("systemctl", &["stop", "--no-block", UNIT]);
        eventually("the job is a stop", || {
            run("systemctl", &["list-jobs", "--no-legend", UNIT]).contains(" stop ")
        });
        std::fs::write("/run/demo-go", "").unwrap();
    });
    assert_eq!(outcome(&bench, "running", Run::REFRESH).unwrap(), Checked::Changed);
    somebody.join().unwrap();
    let (state, now) = seen();
    assert_eq!((state.as_str(), now == leader), ("running", false));
    assert_eq!(outcome(&bench, "running", Run::APPLY).unwrap(), Checked::Right);
}

#[test]
fn what_cannot_be_is_told() {
    if !on_booted_host("what_cannot_be_is_told") {
        return;
    }
    let bench = TestEnv::new();
    // An image may be about to be made.
    assert_eq!(outcome(&bench, "running", Run::LOOK).unwrap(), Checked::Changed);
    let error = outcome(&bench, "running", Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("there is no image demo-1"), "{error}");
    assert!(error.hint().unwrap().contains("/var/lib/machines/demo-1"), "{error:?}");
    make_image();
    // A directory without a system in it.
    shell("rm -r /var/lib/machines/demo-1/*");
    let error = outcome(&bench, "running", Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("demo-1"), "{error}");
    assert!(error.hint().unwrap().contains(UNIT), "{error:?}");
    run("systemctl", &["mask", UNIT]);
    let error = outcome(&bench, "running", Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("masked"), "{error}");
    // Without the service that knows the machines.
    shell(
        "systemctl stop systemd-machined; rm /usr/share/dbus-1/system-services/org.freedesktop.machine1.service; systemctl reload dbus",
    );
    for run in [Run::LOOK, Run::APPLY] {
        let error = outcome(&bench, "running", run).unwrap_err();
        assert!(error.to_string().contains("systemd-machined is not there"), "{error}");
        assert!(error.hint().unwrap().contains("systemd-container"), "{error:?}");
    }
}

#[test]
fn whatever_somebody_does_to_a_machine_is_an_event_and_repaired() {
    if !on_booted_host("whatever_somebody_does_to_a_machine_is_an_event_and_repaired") {
        return;
    }
    make_image();
    runtime().block_on(async {
        let mut running = RunningEngine::start();
        running.swap(vec![Spec::new("demo-1", nspawn("running"))]).await;
        assert_eq!(state(), "running");
        for drift in [
            "machinectl poweroff demo-1",
            "machinectl terminate demo-1",
            "systemctl stop systemd-nspawn@demo-1",
            "systemctl kill --signal=KILL systemd-nspawn@demo-1",
            "machinectl kill --kill-whom=leader --signal=KILL demo-1",
        ] {
            let (_, leader) = seen();
            soon("it can be asked to power off", || can_be_asked(&leader)).await;
            disturb(drift);
            soon(drift, || {
                let (state, now) = seen();
                state == "running" && !now.is_empty() && now != leader && unit_state("is-active", UNIT) == "active"
            })
            .await;
        }
        running.swap(vec![Spec::new("demo-1", nspawn("stopped"))]).await;
        let is_stopped = || state().is_empty() && unit_state("is-active", UNIT) != "active";
        soon("it is stopped", is_stopped).await;
        for drift in [
            "machinectl start demo-1",
            "systemctl start --no-block systemd-nspawn@demo-1",
            "systemd-run --collect systemd-nspawn --quiet --boot --settings=override --machine=demo-1 --directory=/var/lib/machines/demo-1; for i in $(seq 300); do machinectl status demo-1 && break; sleep 0.1; done || true",
        ] {
            disturb(drift);
            soon(drift, is_stopped).await;
        }
        running.stop();
    });
}

#[test]
fn a_machine_comes_after_its_image_and_its_settings() {
    let file = |name: &str| Spec::new(name, File { state: "exists".into(), ..File::default() });
    let specs = vec![
        Spec::new("demo-1", nspawn("running")),
        Spec::new("systemd-container", Pkg { state: "installed".into(), ..Pkg::default() }),
        file("/var/lib/machines/"),
        file("/var/lib/machines/demo-1/etc/hostname"),
        file("/etc/systemd/nspawn/demo-1.nspawn"),
        file("/etc/systemd/system/systemd-nspawn@demo-1.service.d/more.conf"),
        file("/var/lib/machines/demo-2/etc/hostname"),
    ];
    let edges = edges(specs);
    for expected in [
        "pkg[systemd-container] -> nspawn[demo-1]",
        "file[/var/lib/machines/] -> nspawn[demo-1]",
        "file[/var/lib/machines/demo-1/etc/hostname] -> nspawn[demo-1]",
        "file[/etc/systemd/nspawn/demo-1.nspawn] -> nspawn[demo-1]",
        "file[/etc/systemd/system/systemd-nspawn@demo-1.service.d/more.conf] -> nspawn[demo-1]",
    ] {
        assert!(edges.contains(&expected.to_owned()), "{expected}: {edges:?}");
    }
    assert!(!edges.iter().any(|edge| edge.contains("demo-2/etc/hostname] -> nspawn")), "{edges:?}");
}
