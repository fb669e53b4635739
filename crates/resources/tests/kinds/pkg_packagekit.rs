//! `pkg` with a real PackageKit, on a host that was booted for it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Log, Run, TestEnv};
use crate::host_common::{RunningEngine, shell, soon};
use mgmt_resource::{Checked, Error, Id, Resource, Spec, Stage};
use mgmt_resources::pkg::Pkg;
use mgmt_test_support::booted_host::on_booted_host;
use mgmt_test_support::package_source::{Package, PackageSource, package_state, run, snapshot, transactions};

fn pkg(state: &str) -> Pkg {
    Pkg { state: state.into(), ..Pkg::default() }
}

/// A package source of the test's own and no other, and what PackageKit needs beyond a bus: terminals.
fn source() -> PackageSource {
    shell(
        "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/preferences.d/* /var/lib/apt/lists/* \
         /var/lib/dpkg/updates/* /var/log/apt/*
         mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts
         ln -sf pts/ptmx /dev/ptmx
         systemctl try-restart packagekit",
    );
    PackageSource::new()
}

fn update() {
    run("apt-get", &["--quiet", "update"]);
}

/// What PackageKit has written into the log of changes.
fn by_packagekit() -> usize {
    let log = fs::read_to_string("/var/log/apt/history.log").unwrap_or_default();
    log.lines().filter(|line| line.starts_with("Commandline: packagekit")).count()
}

/// On this thread alone, so that what is logged is seen.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[track_caller]
fn outcome(bench: &TestEnv, name: &str, pkg: &Pkg, run: Run<'_>) -> Result<Checked, Error> {
    runtime().block_on(bench.vertex(name, pkg.clone()).run(run)).result
}

#[track_caller]
fn apply(bench: &TestEnv, name: &str, pkg: &Pkg) -> Result<Checked, Error> {
    outcome(bench, name, pkg, Run::APPLY)
}

/// Looking changes nothing and says what applying does; applying again changes nothing. PackageKit does it.
#[track_caller]
fn settles(bench: &TestEnv, name: &str, pkg: &Pkg) {
    let (before, done) = (snapshot(), by_packagekit());
    assert_eq!(outcome(bench, name, pkg, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(snapshot(), before, "looking has changed something");
    assert_eq!(apply(bench, name, pkg).unwrap(), Checked::Changed);
    assert_eq!(by_packagekit() - done, 1, "it was not PackageKit, or not in one transaction");
    let before = snapshot();
    assert_eq!(apply(bench, name, pkg).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, name, pkg, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(snapshot(), before, "something was touched although all was right");
}

#[track_caller]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn says(lines: &[String], what: &str) -> usize {
    lines.iter().filter(|line| line.contains(what)).count()
}

#[test]
fn packagekit_installs_and_removes_and_says_once_that_it_does() {
    if !on_booted_host("packagekit_installs_and_removes_and_says_once_that_it_does") {
        return;
    }
    let mut source = source();
    source.publish(&Package::new("demo", "1.0"));
    source.publish(&Package { control: "Depends: demo\n", ..Package::new("demo-user", "1.0") });
    source.publish(&Package { control: "Essential: yes\n", ..Package::new("needed", "1.0") });
    update();
    let bench = TestEnv::new();
    let log = Log::capture();
    settles(&bench, "demo-user", &pkg("installed"));
    assert_eq!(
        (package_state("demo"), package_state("demo-user")),
        ("installed 1.0".into(), "installed 1.0".into())
    );
    settles(&bench, "demo", &pkg("uninstalled"));
    assert!(!package_state("demo-user").starts_with("installed"), "what needs it goes along");
    settles(&bench, "demo", &pkg("installed"));
    let lines = log.take();
    assert_eq!(says(&lines, "packages are changed with PackageKit 1."), 1, "{lines:?}");
    assert_eq!(says(&lines, "apt does it"), 0, "{lines:?}");
    assert!(says(&lines, "%: installing demo") > 0 && says(&lines, "%: removing") > 0, "{lines:?}");

    settles(&bench, "needed", &pkg("installed"));
    let error = apply(&bench, "needed", &pkg("uninstalled")).unwrap_err();
    assert!(error.to_string().contains("essential packages: needed"), "{error}");
    assert!(error.hint().unwrap().contains("does not work without it"), "{error}");
    assert_eq!(package_state("needed"), "installed 1.0");

    for run in [Run::APPLY, Run::LOOK] {
        let error = outcome(&bench, "no-such-package", &pkg("installed"), run).unwrap_err();
        assert!(error.to_string().contains("not found in the package lists: no-such-package"), "{error}");
    }
}

#[test]
fn packagekit_installs_the_newest_and_exact_versions() {
    if !on_booted_host("packagekit_installs_the_newest_and_exact_versions") {
        return;
    }
    let mut source = source();
    source.publish(&Package::new("demo", "1.0"));
    source.publish(&Package::new("demo", "1.9"));
    update();
    let bench = TestEnv::new();
    settles(&bench, "demo", &pkg("1.0"));
    assert_eq!(package_state("demo"), "installed 1.0");
    settles(&bench, "demo", &pkg("newest"));
    assert_eq!(package_state("demo"), "installed 1.9");
    source.publish(&Package::new("demo", "1.10"));
    update();
    settles(&bench, "demo", &pkg("newest"));
    assert_eq!(package_state("demo"), "installed 1.10");
    let error = apply(&bench, "demo", &pkg("1.0")).unwrap_err();
    assert!(error.hint().unwrap().contains("allowdowngrade"), "{error}");
    settles(&bench, "demo", &Pkg { allowdowngrade: true, ..pkg("1.0") });
    assert_eq!(package_state("demo"), "installed 1.0");
    // After an update it is known twice to PackageKit, and still goes in one piece.
    settles(&bench, "demo", &pkg("newest"));
    settles(&bench, "demo", &pkg("uninstalled"));
    assert!(!Path::new("/usr/bin/demo").exists());
}

#[test]
fn packagekit_makes_a_group_in_one_transaction() {
    if !on_booted_host("packagekit_makes_a_group_in_one_transaction") {
        return;
    }
    let mut source = source();
    let names = ["demo-a", "demo-b", "demo-c", "demo-d"];
    for name in names {
        source.publish(&Package::new(name, "1.0"));
    }
    update();
    let bench = TestEnv::new();
    for (state, expected) in
        [("installed", "installed 1.0"), ("newest", "installed 2.0"), ("uninstalled", "")]
    {
        if state == "newest" {
            // Some are to be installed, some to be updated.
            run("dpkg", &["--remove", "demo-b", "demo-d"]);
            names.iter().for_each(|name| source.publish(&Package::new(name, "2.0")));
            update();
        }
        let members = [pkg(state), pkg(state), pkg(state)];
        let children: Vec<(Id, &dyn Resource)> = names[1..]
            .iter()
            .zip(&members)
            .map(|(name, pkg)| (Id::new("pkg", *name), pkg as &dyn Resource))
            .collect();
        let (before, all) = (by_packagekit(), transactions());
        let run = Run { children: &children, ..Run::APPLY };
        assert_eq!(
            outcome(&bench, "demo-a", &pkg(state), Run { apply: false, ..run }).unwrap(),
            Checked::Changed
        );
        assert_eq!(outcome(&bench, "demo-a", &pkg(state), run).unwrap(), Checked::Changed);
        assert_eq!((by_packagekit() - before, transactions() - all), (1, 1), "{state}");
        assert_eq!(outcome(&bench, "demo-a", &pkg(state), run).unwrap(), Checked::Right);
        assert_eq!((by_packagekit() - before, transactions() - all), (1, 1), "{state}");
        for name in names {
            assert!(package_state(name).contains(expected), "{state}: {name} {}", package_state(name));
        }
    }
}

#[test]
fn with_packagekit_whatever_others_do_to_packages_is_an_event_and_repaired() {
    if !on_booted_host("with_packagekit_whatever_others_do_to_packages_is_an_event_and_repaired") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut source = source();
        source.publish(&Package::new("demo-a", "1.0"));
        source.publish(&Package::new("demo-b", "1.0"));
        update();
        let mut running = RunningEngine::start();
        running
            .swap(vec![
                Spec::new("demo-a", pkg("installed")),
                Spec::new("demo-b", pkg("newest")),
                Spec::new("demo-c", pkg("uninstalled")),
            ])
            .await;
        assert_eq!(
            (package_state("demo-a"), package_state("demo-b")),
            ("installed 1.0".into(), "installed 1.0".into())
        );
        let tools = [
            "apt-get --yes -o DPkg::Lock::Timeout=30 remove demo-a",
            "until dpkg --remove demo-a; do sleep 0.1; done",
            "pkcon -y -p remove demo-a",
        ];
        for tool in tools {
            let before = by_packagekit() + usize::from(tool.starts_with("pkcon"));
            shell(tool);
            soon("reinstalled", || package_state("demo-a") == "installed 1.0" && by_packagekit() > before)
                .await;
        }
        source.publish(&Package::new("demo-b", "2.0"));
        update();
        soon("upgraded", || package_state("demo-b") == "installed 2.0").await;
        source.publish(&Package::new("demo-c", "1.0"));
        shell("until apt-get --quiet update; do sleep 0.1; done");
        shell("apt-get --yes -o DPkg::Lock::Timeout=30 install demo-c");
        soon("removed", || !package_state("demo-c").starts_with("installed")).await;
        running.stop();
    });
}

#[test]
fn with_packagekit_a_script_that_fails_is_an_error_that_says_so() {
    if !on_booted_host("with_packagekit_a_script_that_fails_is_an_error_that_says_so") {
        return;
    }
    let mut source = source();
    let script = "if [ ! -e /fixed ]; then echo 'this is why' >&2; exit 3; fi";
    source.publish(&Package { postinst: script, ..Package::new("demo", "1.0") });
    update();
    let bench = TestEnv::new();
    let error = apply(&bench, "demo", &pkg("installed")).unwrap_err();
    assert!(error.to_string().contains("demo package post-installation script"), "{error}");
    assert!(error.hint().unwrap().contains("script of the package"), "{error}");
    assert_eq!(by_packagekit(), 1);
    fs::write("/fixed", "").unwrap();
    let log = Log::capture();
    assert_eq!(apply(&bench, "demo", &pkg("installed")).unwrap(), Checked::Changed);
    let lines = log.take();
    assert_eq!(says(&lines, "demo is half installed, which PackageKit cannot repair"), 1, "{lines:?}");
    assert_eq!(package_state("demo"), "installed 1.0");
}

const WAITING: &str = "touch /started; if [ ! -e /quick ]; then sleep 5; fi";

#[test]
fn packagekit_that_dies_in_the_middle_is_an_error_and_the_next_run_finishes() {
    if !on_booted_host("packagekit_that_dies_in_the_middle_is_an_error_and_the_next_run_finishes") {
        return;
    }
    let mut source = source();
    source.publish(&Package { postinst: WAITING, ..Package::new("demo", "1.0") });
    update();
    let bench = TestEnv::new();
    let killer = std::thread::spawn(|| {
        wait_for("the installation", || Path::new("/started").exists());
        run("systemctl", &["kill", "--signal=KILL", "--kill-whom=main", "packagekit"]);
    });
    let error = apply(&bench, "demo", &pkg("installed")).unwrap_err();
    killer.join().unwrap();
    assert!(error.to_string().contains("has ended in the middle of the work"), "{error}");
    assert!(error.hint().unwrap().contains("journalctl"), "{error}");
    fs::write("/quick", "").unwrap();
    assert_eq!(apply(&bench, "demo", &pkg("installed")).unwrap(), Checked::Changed);
    assert_eq!(package_state("demo"), "installed 1.0");
}

#[test]
fn packagekit_that_falls_silent_is_an_error_and_not_waited_for_without_end() {
    if !on_booted_host("packagekit_that_falls_silent_is_an_error_and_not_waited_for_without_end") {
        return;
    }
    let mut source = source();
    source.publish(&Package { postinst: WAITING, ..Package::new("demo", "1.0") });
    update();
    let bench = TestEnv::new();
    let stopper = std::thread::spawn(|| {
        wait_for("the installation", || Path::new("/started").exists());
        run("systemctl", &["kill", "--signal=STOP", "--kill-whom=main", "packagekit"]);
    });
    let error = apply(&bench, "demo", &pkg("installed")).unwrap_err();
    stopper.join().unwrap();
    assert!(error.to_string().contains("PackageKit does not answer any more"), "{error}");
    assert!(error.hint().unwrap().contains("systemctl restart packagekit"), "{error}");
}

#[test]
fn packagekit_at_work_is_finished_first_when_we_are_to_stop() {
    if !on_booted_host("packagekit_at_work_is_finished_first_when_we_are_to_stop") {
        return;
    }
    let mut source = source();
    source.publish(&Package { postinst: WAITING, ..Package::new("demo", "1.0") });
    update();
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("demo", pkg("installed"));
    let cancel = vertex.cancel.clone();
    std::thread::spawn(move || {
        wait_for("the installation", || Path::new("/started").exists());
        cancel.raise(Stage::Cancel);
    });
    assert_eq!(runtime().block_on(vertex.apply()).checked(), Checked::Changed);
    assert_eq!(package_state("demo"), "installed 1.0");

    fs::remove_file("/started").unwrap();
    run("dpkg", &["--purge", "demo"]);
    let mut vertex = bench.vertex("demo", pkg("installed"));
    let cancel = vertex.cancel.clone();
    std::thread::spawn(move || {
        wait_for("the installation", || Path::new("/started").exists());
        cancel.raise(Stage::Interrupt);
    });
    assert!(runtime().block_on(vertex.apply()).result.unwrap_err().is_cancelled());
    assert_ne!(package_state("demo"), "installed 1.0", "we did not wait");
    wait_for("PackageKit to finish without us", || package_state("demo") == "installed 1.0");
}

#[test]
fn without_a_usable_packagekit_apt_does_it_and_says_why() {
    if !on_booted_host("without_a_usable_packagekit_apt_does_it_and_says_why") {
        return;
    }
    let mut source = source();
    source.publish(&Package::new("demo", "1.0"));
    source.publish(&Package::new("other", "1.0"));
    run("systemctl", &["mask", "--now", "packagekit"]);
    update();
    let bench = TestEnv::new();
    let log = Log::capture();
    assert_eq!(apply(&bench, "demo", &pkg("installed")).unwrap(), Checked::Changed);
    assert_eq!(apply(&bench, "demo", &pkg("uninstalled")).unwrap(), Checked::Changed);
    assert_eq!(apply(&bench, "demo", &pkg("installed")).unwrap(), Checked::Changed);
    assert_eq!((package_state("demo"), by_packagekit()), ("installed 1.0".into(), 0));
    let lines = log.take();
    let why =
        "packages are changed with apt itself: PackageKit cannot be had: Unit packagekit.service is masked";
    assert_eq!(says(&lines, why), 1, "{lines:?}");

    // As soon as it can be had, it is used.
    run("systemctl", &["unmask", "packagekit"]);
    assert_eq!(apply(&bench, "other", &pkg("installed")).unwrap(), Checked::Changed);
    let lines = log.take();
    assert_eq!(says(&lines, "packages are changed with PackageKit"), 1, "{lines:?}");
    assert_eq!(by_packagekit(), 1);
}

#[test]
fn packagekit_that_believes_to_be_offline_leaves_the_lists_to_apt() {
    if !on_booted_host("packagekit_that_believes_to_be_offline_leaves_the_lists_to_apt") {
        return;
    }
    let mut source = source();
    source.publish(&Package::new("demo", "1.0"));
    let bench = TestEnv::new();
    let log = Log::capture();
    assert!(outcome(&bench, "demo", &pkg("installed"), Run::LOOK).is_err(), "looking fetches nothing");
    assert_eq!(apply(&bench, "demo", &pkg("installed")).unwrap(), Checked::Changed);
    assert_eq!((package_state("demo"), by_packagekit()), ("installed 1.0".into(), 1));
    let lines = log.take();
    assert_eq!(
        says(&lines, "apt fetches the package lists: PackageKit believes that there is no network"),
        1,
        "{lines:?}"
    );
}

#[test]
fn packagekit_waits_for_another_tool_at_work_and_names_it() {
    if !on_booted_host("packagekit_waits_for_another_tool_at_work_and_names_it") {
        return;
    }
    let mut source = source();
    source.publish(&Package::new("demo", "1.0"));
    let slow = "touch /started; while [ ! -e /finish ]; do sleep 0.1; done";
    source.publish(&Package { postinst: slow, ..Package::new("slow", "1.0") });
    update();
    let bench = TestEnv::new();
    let mut other = Command::new("apt-get").args(["--yes", "install", "slow"]).spawn().unwrap();
    wait_for("the other tool", || Path::new("/started").exists());
    let log = Log::capture();
    let mut vertex = bench.vertex("demo", pkg("installed"));
    let outcome = runtime().block_on(async {
        let finish = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            fs::write("/finish", "").unwrap();
        };
        tokio::join!(vertex.apply(), finish).0
    });
    assert_eq!(outcome.checked(), Checked::Changed);
    assert!(other.wait().unwrap().success(), "the other tool was disturbed");
    let lines = log.take();
    assert!(says(&lines, "locked by apt-get (process") > 0, "{lines:?}");
    assert_eq!((package_state("demo"), by_packagekit()), ("installed 1.0".into(), 1));
}

#[test]
fn with_packagekit_what_nobody_has_signed_needs_permission() {
    if !on_booted_host("with_packagekit_what_nobody_has_signed_needs_permission") {
        return;
    }
    let mut source = source();
    source.trusted(false);
    source.publish(&Package::new("demo", "1.0"));
    run("apt-get", &["--quiet", "--allow-insecure-repositories", "update"]);
    let bench = TestEnv::new();
    let error = apply(&bench, "demo", &pkg("installed")).unwrap_err();
    assert!(error.hint().unwrap().contains("allowuntrusted"), "{error} {:?}", error.hint());
    assert_eq!(package_state("demo"), "");
    let permitted = Pkg { allowuntrusted: true, ..pkg("installed") };
    assert_eq!(apply(&bench, "demo", &permitted).unwrap(), Checked::Changed);
    assert_eq!((package_state("demo"), by_packagekit()), ("installed 1.0".into(), 1));
}

#[test]
fn packagekit_keeps_configuration_files_that_somebody_has_changed() {
    if !on_booted_host("packagekit_keeps_configuration_files_that_somebody_has_changed") {
        return;
    }
    let mut source = source();
    let (old, new) = ([("/etc/demo.conf", "old\n")], [("/etc/demo.conf", "new\n")]);
    let conffiles = "/etc/demo.conf\n";
    source.publish(&Package { files: &old, conffiles, ..Package::new("demo", "1.0") });
    update();
    let bench = TestEnv::new();
    settles(&bench, "demo", &pkg("installed"));
    fs::write("/etc/demo.conf", "changed\n").unwrap();
    source.publish(&Package { files: &new, conffiles, ..Package::new("demo", "2.0") });
    update();
    settles(&bench, "demo", &pkg("newest"));
    assert_eq!(package_state("demo"), "installed 2.0");
    assert_eq!(fs::read_to_string("/etc/demo.conf").unwrap(), "changed\n");
}

#[test]
fn packagekit_alone_will_do_where_no_other_package_system_is_known() {
    if !on_booted_host("packagekit_alone_will_do_where_no_other_package_system_is_known") {
        return;
    }
    let mut source = source();
    source.publish(&Package::new("demo", "1.0"));
    source.publish(&Package { control: "Essential: yes\n", ..Package::new("needed", "1.0") });
    update();
    fs::rename("/usr/bin/apt-get", "/usr/bin/apt-got").unwrap();
    let bench = TestEnv::new();
    let log = Log::capture();
    settles_alone(&bench, "demo", &pkg("installed"));
    assert_eq!(package_state("demo"), "installed 1.0");
    source.publish(&Package::new("demo", "2.0"));
    run("apt-got", &["--quiet", "update"]);
    settles_alone(&bench, "demo", &pkg("newest"));
    assert_eq!(package_state("demo"), "installed 2.0");
    let error = apply(&bench, "demo", &Pkg { allowdowngrade: true, ..pkg("1.0") }).unwrap_err();
    assert_eq!(error.hint(), Some("the package lists have 2.0"), "PackageKit tells of no more: {error}");
    settles_alone(&bench, "demo", &pkg("uninstalled"));
    assert!(!Path::new("/usr/bin/demo").exists());
    settles_alone(&bench, "needed", &pkg("installed"));
    let error = apply(&bench, "needed", &pkg("uninstalled")).unwrap_err();
    assert!(error.hint().unwrap().contains("does not work without it"), "{error}");
    let error = apply(&bench, "no-such-package", &pkg("installed")).unwrap_err();
    assert!(error.to_string().contains("not found in the package lists: no-such-package"), "{error}");
    let lines = log.take();
    assert_eq!(says(&lines, "packages are managed with PackageKit"), 1, "{lines:?}");

    // A question is a transaction, too, and must not be taken for a change.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut running = RunningEngine::start();
        running.swap(vec![Spec::new("demo", pkg("newest"))]).await;
        run("dpkg", &["--remove", "demo"]);
        soon("reinstalled", || package_state("demo") == "installed 2.0").await;
        running.stop();
    });
}

/// The same as [`settles`], where the answers come from PackageKit, too, which keeps a cache of them.
#[track_caller]
fn settles_alone(bench: &TestEnv, name: &str, pkg: &Pkg) {
    let before = by_packagekit();
    assert_eq!(outcome(bench, name, pkg, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(by_packagekit(), before, "looking has changed something");
    assert_eq!(apply(bench, name, pkg).unwrap(), Checked::Changed);
    assert_eq!(by_packagekit() - before, 1);
    assert_eq!(apply(bench, name, pkg).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, name, pkg, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(by_packagekit() - before, 1);
}
