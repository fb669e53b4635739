//! `pkg` with real packages, installed where it harms nobody.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Log, Run, TestEnv};
use mgmt_resource::{Checked, Error, Id, Identity, Kind, Order, Resource, Stage, Want, Watch};
use mgmt_resources::pkg::Pkg;
use mgmt_test_support::package_source::{
    Package, PackageSource, in_sandbox, output, package_state, run, snapshot, tools, transactions,
};
use mgmt_value::Str;

fn pkg(state: &str) -> Pkg {
    Pkg { state: state.into(), ..Pkg::default() }
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, name: &str, pkg: &Pkg) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut vertex = bench.vertex(name, pkg.clone());
    let before = snapshot();
    assert_eq!(runtime.block_on(vertex.look()).checked(), Checked::Changed);
    assert_eq!(snapshot(), before, "looking has changed something");
    assert_eq!(runtime.block_on(vertex.apply()).checked(), Checked::Changed);
    let before = snapshot();
    assert_eq!(runtime.block_on(vertex.apply()).checked(), Checked::Right);
    assert_eq!(runtime.block_on(vertex.look()).checked(), Checked::Right);
    assert_eq!(snapshot(), before, "something was touched although all was right");
}

#[track_caller]
fn apply(bench: &TestEnv, name: &str, pkg: &Pkg) -> Result<Checked, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(bench.vertex(name, pkg.clone()).apply()).result
}

#[track_caller]
fn look(bench: &TestEnv, name: &str, pkg: &Pkg) -> Result<Checked, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(bench.vertex(name, pkg.clone()).look()).result
}

fn update() {
    run("apt-get", &["--quiet", "update"]);
}

#[track_caller]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_package_is_installed_and_removed_and_drift_is_repaired() {
    if !in_sandbox("a_package_is_installed_and_removed_and_drift_is_repaired") {
        return;
    }
    let mut source = PackageSource::new();
    source.publish(&Package::new("demo", "1.0"));
    source.publish(&Package { control: "Depends: demo\n", ..Package::new("demo-user", "1.0") });
    update();
    let bench = TestEnv::new();
    settles(&bench, "demo", &pkg("installed"));
    assert_eq!(package_state("demo"), "installed 1.0");
    assert_eq!(run("/usr/bin/demo", &[]), "demo 1.0\n");
    settles(&bench, "demo-user", &pkg("installed"));

    run("dpkg", &["--remove", "demo", "demo-user"]);
    settles(&bench, "demo-user", &pkg("installed"));
    assert_eq!(package_state("demo"), "installed 1.0", "what it depends on comes along");

    settles(&bench, "demo", &pkg("uninstalled"));
    assert!(package_state("demo-user").starts_with("not-installed") || package_state("demo-user").is_empty());
    assert!(!Path::new("/usr/bin/demo").exists());
    assert_eq!(apply(&bench, "no-such-package", &pkg("uninstalled")).unwrap(), Checked::Right);
    assert!(tools().is_empty(), "{:?}", tools());
}

#[test]
fn a_package_is_put_on_hold_and_purged_with_its_configuration() {
    if !in_sandbox("a_package_is_put_on_hold_and_purged_with_its_configuration") {
        return;
    }
    let mut source = PackageSource::new();
    let configured = |version| Package {
        files: &[("/etc/demo.conf", "configured\n")],
        conffiles: "/etc/demo.conf\n",
        ..Package::new("demo", version)
    };
    source.publish(&configured("1.0"));
    source.publish(&configured("2.0"));
    update();
    let bench = TestEnv::new();
    let held = |hold, state: &str| Pkg { hold: Some(hold), ..pkg(state) };
    settles(&bench, "demo", &held(true, "1.0"));
    assert_eq!(run("apt-mark", &["showhold"]), "demo\n");
    assert!(apply(&bench, "demo", &pkg("2.0")).is_err(), "others leave it alone");
    settles(&bench, "demo", &held(true, "2.0"));
    assert_eq!(
        (package_state("demo"), run("apt-mark", &["showhold"])),
        ("installed 2.0".into(), "demo\n".into())
    );
    settles(&bench, "demo", &held(false, "installed"));
    assert_eq!(run("apt-mark", &["showhold"]), "");
    settles(&bench, "demo", &pkg("uninstalled"));
    assert!(Path::new("/etc/demo.conf").exists());
    settles(&bench, "demo", &pkg("purged"));
    assert!(!Path::new("/etc/demo.conf").exists());
    assert_eq!(apply(&bench, "no-such-package", &pkg("purged")).unwrap(), Checked::Right);
}

#[test]
fn a_version_is_installed_exactly_and_an_older_one_only_with_permission() {
    if !in_sandbox("a_version_is_installed_exactly_and_an_older_one_only_with_permission") {
        return;
    }
    let mut source = PackageSource::new();
    for version in ["1.0", "1:0.5-1", "2.0~rc1"] {
        source.publish(&Package::new("demo", version));
    }
    update();
    let bench = TestEnv::new();
    settles(&bench, "demo", &pkg("1.0"));
    settles(&bench, "demo", &pkg("2.0~rc1"));
    settles(&bench, "demo", &pkg("1:0.5-1"));
    assert_eq!(package_state("demo"), "installed 1:0.5-1");
    for run in [apply, look] {
        let error = run(&bench, "demo", &pkg("1.0")).unwrap_err();
        assert!(error.hint().unwrap().contains("allowdowngrade"), "{error}");
        let error = run(&bench, "demo", &pkg("7")).unwrap_err();
        assert!(error.to_string().contains("not to be had in version 7"), "{error}");
        assert!(error.hint().unwrap().contains("2.0~rc1"), "{error}");
    }
    settles(&bench, "demo", &Pkg { allowdowngrade: true, ..pkg("1.0") });
    assert_eq!(package_state("demo"), "installed 1.0");
}

#[test]
fn the_newest_is_what_the_lists_say_whenever_they_say_something_new() {
    if !in_sandbox("the_newest_is_what_the_lists_say_whenever_they_say_something_new") {
        return;
    }
    let mut source = PackageSource::new();
    source.publish(&Package::new("demo", "1.0"));
    update();
    let bench = TestEnv::new();
    settles(&bench, "demo", &pkg("newest"));
    assert_eq!(package_state("demo"), "installed 1.0");
    source.publish(&Package::new("demo", "1.10"));
    source.publish(&Package::new("demo", "1.9"));
    assert_eq!(
        apply(&bench, "demo", &pkg("newest")).unwrap(),
        Checked::Right,
        "nobody has fetched the lists"
    );
    update();
    assert_eq!(apply(&bench, "demo", &pkg("installed")).unwrap(), Checked::Right);
    settles(&bench, "demo", &pkg("newest"));
    assert_eq!(package_state("demo"), "installed 1.10");

    run("apt-mark", &["hold", "demo"]);
    source.publish(&Package::new("demo", "2.0"));
    update();
    let error = apply(&bench, "demo", &pkg("newest")).unwrap_err();
    assert!(error.hint().unwrap().contains("apt-mark unhold demo"), "{error}");
    run("apt-mark", &["unhold", "demo"]);
    let pin = "Package: demo\nPin: version 1.*\nPin-Priority: 900\n";
    fs::create_dir_all("/etc/apt/preferences.d").unwrap();
    fs::write("/etc/apt/preferences.d/demo", pin).unwrap();
    assert_eq!(apply(&bench, "demo", &pkg("newest")).unwrap(), Checked::Right, "a pin is respected");
    fs::remove_file("/etc/apt/preferences.d/demo").unwrap();
    settles(&bench, "demo", &pkg("newest"));
    assert_eq!(package_state("demo"), "installed 2.0");

    source.publish(&Package::new("demo", "3.0"));
    assert_eq!(look(&bench, "demo", &pkg("newest")).unwrap(), Checked::Right);
    run("touch", &["--date=2 hours ago", "/var/lib/apt/lists", "/var/lib/apt/lists/partial"]);
    assert_eq!(look(&bench, "demo", &pkg("newest")).unwrap(), Checked::Right, "looking fetches nothing");
    assert_eq!(apply(&bench, "demo", &pkg("newest")).unwrap(), Checked::Changed, "old lists are fetched");
    assert_eq!(package_state("demo"), "installed 3.0");
}

#[test]
fn a_host_without_package_lists_fetches_them_but_not_when_only_looking() {
    if !in_sandbox("a_host_without_package_lists_fetches_them_but_not_when_only_looking") {
        return;
    }
    let mut source = PackageSource::new();
    source.publish(&Package::new("demo", "1.0"));
    let bench = TestEnv::new();
    let before = snapshot();
    let error = look(&bench, "demo", &pkg("installed")).unwrap_err();
    assert!(error.to_string().contains("not found in the package lists: demo"), "{error}");
    assert_eq!(snapshot(), before);
    assert_eq!(apply(&bench, "demo", &pkg("installed")).unwrap(), Checked::Changed);
    assert_eq!(package_state("demo"), "installed 1.0");

    for run in [apply, look] {
        for state in ["installed", "newest", "1.0"] {
            let error = run(&bench, "no-such-package", &pkg(state)).unwrap_err();
            assert!(error.to_string().contains("not found in the package lists: no-such-package"), "{error}");
            assert!(error.hint().is_some());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_one_transaction_for_those_that_need_it() {
    if !in_sandbox("a_group_is_one_transaction_for_those_that_need_it") {
        return;
    }
    let mut source = PackageSource::new();
    for name in ["demo-a", "demo-b", "demo-c", "demo-d"] {
        source.publish(&Package::new(name, "1.0"));
    }
    update();
    let bench = TestEnv::new();
    let names = ["demo-b", "demo-c", "demo-d"];
    let group = |state: &str| [pkg(state), pkg(state), pkg(state)];
    for (state, expected) in
        [("installed", "installed 1.0"), ("newest", "installed 1.0"), ("uninstalled", "")]
    {
        let members = group(state);
        let children: Vec<(Id, &dyn Resource)> = names
            .iter()
            .zip(&members)
            .map(|(name, pkg)| (Id::new("pkg", *name), pkg as &dyn Resource))
            .collect();
        if state == "newest" {
            run("dpkg", &["--remove", "demo-b", "demo-d"]);
        }
        let before = transactions();
        let log = Log::capture();
        let mut vertex = bench.vertex("demo-a", pkg(state));
        let run = Run { children: &children, ..Run::APPLY };
        assert_eq!(vertex.run(Run { apply: false, ..run }).await.checked(), Checked::Changed);
        assert_eq!(vertex.run(run).await.checked(), Checked::Changed);
        assert_eq!(transactions() - before, 1, "{state}");
        assert!(log.take().iter().any(|line| line.contains('%')), "no progress is told");
        assert_eq!(vertex.run(run).await.checked(), Checked::Right);
        assert_eq!(transactions() - before, 1, "{state}");
        for name in names.into_iter().chain(["demo-a"]) {
            assert!(package_state(name).contains(expected), "{state}: {name} {}", package_state(name));
        }
    }
}

#[test]
fn another_tool_at_work_is_waited_for_and_named() {
    if !in_sandbox("another_tool_at_work_is_waited_for_and_named") {
        return;
    }
    let mut source = PackageSource::new();
    source.publish(&Package::new("demo", "1.0"));
    let slow = "touch /started; while [ ! -e /finish ]; do sleep 0.1; done";
    source.publish(&Package { postinst: slow, ..Package::new("slow", "1.0") });
    update();
    let bench = TestEnv::new();
    let mut other = Command::new("apt-get").args(["--yes", "install", "slow"]).spawn().unwrap();
    wait_for("the other tool", || Path::new("/started").exists());

    // On this thread alone, so that what is logged is seen.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let log = Log::capture();
    let mut vertex = bench.vertex("demo", pkg("installed"));
    let waiting = runtime.block_on(async {
        let cancel = vertex.cancel.clone();
        let stop = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cancel.raise(Stage::Cancel);
        };
        tokio::join!(vertex.apply(), stop).0
    });
    assert!(waiting.result.unwrap_err().is_cancelled());
    let lines = log.take();
    assert!(lines.iter().any(|line| line.contains("locked by apt-get (process")), "{lines:?}");
    assert_eq!(package_state("demo"), "");

    let mut vertex = bench.vertex("demo", pkg("installed"));
    let outcome = runtime.block_on(async {
        let finish = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            fs::write("/finish", "").unwrap();
        };
        tokio::join!(vertex.apply(), finish).0
    });
    assert_eq!(outcome.checked(), Checked::Changed);
    assert!(other.wait().unwrap().success(), "the other tool was disturbed");
    assert_eq!(
        (package_state("demo"), package_state("slow")),
        ("installed 1.0".into(), "installed 1.0".into())
    );
}

#[test]
fn a_script_that_fails_is_an_error_that_says_so_and_the_package_is_not_right() {
    if !in_sandbox("a_script_that_fails_is_an_error_that_says_so_and_the_package_is_not_right") {
        return;
    }
    let mut source = PackageSource::new();
    let script = "if [ ! -e /fixed ]; then echo 'this is why' >&2; exit 3; fi";
    source.publish(&Package { postinst: script, ..Package::new("demo", "1.0") });
    update();
    let bench = TestEnv::new();
    let error = apply(&bench, "demo", &pkg("installed")).unwrap_err();
    assert!(error.to_string().contains("demo"), "{error}");
    assert!(error.hint().unwrap().contains("script of the package"), "{error}");
    assert!(package_state("demo").starts_with("half-configured"), "{}", package_state("demo"));
    fs::write("/fixed", "").unwrap();
    settles(&bench, "demo", &pkg("installed"));
    assert_eq!(package_state("demo"), "installed 1.0");
}

const WAITING: &str = "touch /started; if [ ! -e /quick ]; then sleep 3; fi";

#[test]
fn a_cancelled_installation_is_finished_first() {
    if !in_sandbox("a_cancelled_installation_is_finished_first") {
        return;
    }
    let mut source = PackageSource::new();
    source.publish(&Package { postinst: WAITING, ..Package::new("demo", "1.0") });
    update();
    let bench = TestEnv::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut vertex = bench.vertex("demo", pkg("installed"));
    let cancel = vertex.cancel.clone();
    std::thread::spawn(move || {
        wait_for("the installation", || Path::new("/started").exists());
        cancel.raise(Stage::Cancel);
    });
    assert_eq!(runtime.block_on(vertex.apply()).checked(), Checked::Changed);
    assert_eq!(package_state("demo"), "installed 1.0");
    assert!(runtime.block_on(vertex.apply()).result.is_ok(), "all is right, so nothing has to be done");
    let mut vertex = bench.vertex("demo", pkg("uninstalled"));
    vertex.cancel.raise(Stage::Cancel);
    assert!(runtime.block_on(vertex.apply()).result.unwrap_err().is_cancelled());
    assert_eq!(package_state("demo"), "installed 1.0");
}

#[test]
fn an_interrupted_installation_leaves_no_process_and_is_repaired_by_the_next_run() {
    if !in_sandbox("an_interrupted_installation_leaves_no_process_and_is_repaired_by_the_next_run") {
        return;
    }
    let mut source = PackageSource::new();
    source.publish(&Package { postinst: WAITING, ..Package::new("demo", "1.0") });
    source.publish(&Package::new("other", "1.0"));
    update();
    let bench = TestEnv::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut vertex = bench.vertex("demo", pkg("installed"));
    let cancel = vertex.cancel.clone();
    std::thread::spawn(move || {
        wait_for("the installation", || Path::new("/started").exists());
        cancel.raise(Stage::Interrupt);
    });
    assert!(runtime.block_on(vertex.apply()).result.unwrap_err().is_cancelled());
    wait_for("the end of all tools", || tools().is_empty());
    assert_ne!(package_state("demo"), "installed 1.0");
    assert!(!output("apt-get", &["--yes", "install", "other"]).status.success(), "nothing is to be repaired");
    fs::write("/quick", "").unwrap();
    settles(&bench, "other", &pkg("installed"));
    assert_eq!(
        (package_state("demo"), package_state("other")),
        ("installed 1.0".into(), "installed 1.0".into())
    );
}

#[test]
fn what_nobody_has_signed_needs_permission() {
    if !in_sandbox("what_nobody_has_signed_needs_permission") {
        return;
    }
    let mut source = PackageSource::new();
    source.trusted(false);
    source.publish(&Package::new("demo", "1.0"));
    let bench = TestEnv::new();
    run("apt-get", &["--quiet", "--allow-insecure-repositories", "update"]);
    let error = apply(&bench, "demo", &pkg("installed")).unwrap_err();
    assert!(error.hint().unwrap().contains("allowuntrusted"), "{error}");
    assert_eq!(package_state("demo"), "");
    let lists = fs::read_dir("/var/lib/apt/lists").unwrap().flatten();
    lists.filter(|list| list.path().is_file()).for_each(|list| fs::remove_file(list.path()).unwrap());
    let permitted = Pkg { allowuntrusted: true, ..pkg("installed") };
    assert_eq!(apply(&bench, "demo", &permitted).unwrap(), Checked::Changed);
    assert_eq!(package_state("demo"), "installed 1.0");
}

#[tokio::test]
async fn what_is_not_free_or_not_supported_is_installed_with_a_warning() {
    if !in_sandbox("what_is_not_free_or_not_supported_is_installed_with_a_warning") {
        return;
    }
    let mut source = PackageSource::new();
    source.publish(&Package { section: "non-free/net", ..Package::new("unfree", "1.0") });
    source.publish(&Package { section: "universe/net", ..Package::new("unsupported", "1.0") });
    update();
    let bench = TestEnv::new();
    for (name, option) in [("unfree", "allownonfree"), ("unsupported", "allowunsupported")] {
        let log = Log::capture();
        assert_eq!(bench.vertex(name, pkg("installed")).apply().await.checked(), Checked::Changed);
        assert!(log.take().iter().any(|line| line.contains(option)), "{option}");
        run("dpkg", &["--remove", name]);
        let allowed = Pkg { allownonfree: true, allowunsupported: true, ..pkg("installed") };
        assert_eq!(bench.vertex(name, allowed).apply().await.checked(), Checked::Changed);
        assert!(!log.take().iter().any(|line| line.contains(option)), "{option}");
    }
}

#[test]
fn essential_packages_cannot_be_removed() {
    if !in_sandbox("essential_packages_cannot_be_removed") {
        return;
    }
    let mut source = PackageSource::new();
    source.publish(&Package { control: "Essential: yes\n", ..Package::new("demo", "1.0") });
    update();
    let bench = TestEnv::new();
    apply(&bench, "demo", &pkg("installed")).unwrap();
    let error = apply(&bench, "demo", &pkg("uninstalled")).unwrap_err();
    assert!(error.hint().unwrap().contains("does not work without it"), "{error}");
    assert_eq!(package_state("demo"), "installed 1.0");
}

#[test]
fn an_installed_package_comes_before_its_files_directories_and_units() {
    if !in_sandbox("an_installed_package_comes_before_its_files_directories_and_units") {
        return;
    }
    let mut source = PackageSource::new();
    let files = [("/etc/demo/demo.conf", "a\n"), ("/lib/systemd/system/demo.service", "[Service]\n")];
    source.publish(&Package { files: &files, ..Package::new("demo", "1.0") });
    update();
    let bench = TestEnv::new();
    let name = Str::from("demo");
    let resource = pkg("installed");
    assert_eq!(Kind::provides(&resource, &name), [Identity::Package("demo".into())]);
    assert!(Kind::wants(&resource, &name).is_empty(), "nothing is known of it yet, and that is no error");
    apply(&bench, "demo", &resource).unwrap();

    let provided = Kind::provides(&resource, &name);
    for path in ["/usr/bin/demo", "/bin/demo", "/etc/demo/demo.conf", "/etc/demo/"] {
        assert!(provided.contains(&Identity::PackageFile(path.into())), "{path}");
    }
    let wants = Kind::wants(&resource, &name);
    let after = |identity: Identity| {
        wants.iter().any(|want| match want {
            Want::Each(Order::After, wanted) | Want::First(Order::After, wanted) => {
                wanted.contains(&identity)
            }
            _ => panic!("unexpected {want:?}"),
        })
    };
    assert!(after(Identity::Path("/etc/demo/demo.conf".into())));
    assert!(after(Identity::Path("/etc/demo/".into())));
    assert!(after(Identity::Path("/etc/".into())));
    assert!(!after(Identity::Path("/".into())));
    assert!(after(Identity::Unit { name: "demo.service".into(), session: false }));
}

#[test]
fn the_database_is_watched_and_for_the_newest_the_lists_too() {
    if !in_sandbox("the_database_is_watched_and_for_the_newest_the_lists_too") {
        return;
    }
    let paths = |state: &str| -> Vec<String> {
        let watches = Kind::watches(&pkg(state), &"demo".into());
        let paths = watches.iter().map(|watch| match watch {
            Watch::Path { path, recursive: false } => path.to_text().into_owned(),
            other => panic!("unexpected {other:?}"),
        });
        paths.collect()
    };
    assert_eq!(paths("installed"), ["/var/lib/dpkg/status"]);
    assert!(paths("newest").contains(&"/var/lib/apt/lists".to_owned()));
}
