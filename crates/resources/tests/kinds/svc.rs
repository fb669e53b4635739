//! `svc` with a real systemd, on a host that was booted for it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::host_common;
use std::fs;
use std::time::{Duration, Instant};

use crate::common::{Run, TestEnv};
use crate::host_common::{RunningEngine, disturb, edges, soon};
use mgmt_resource::{Cancel, Checked, Error, Kind, Spec, Watch, WatchStream};
use mgmt_resources::file::File;
use mgmt_resources::svc::Svc;
use mgmt_test_support::booted_host::{eventually, on_booted_host, run, start_session, unit_state};

const UNIT: &str = "/etc/systemd/system/demo.service";
const DEMO: &str = "[Service]\nExecStart=/bin/sleep infinity\nExecReload=/bin/touch /run/demo-reloaded\n\
                    [Install]\nWantedBy=multi-user.target\n";

fn svc(state: &str, startup: &str) -> Svc {
    Svc { state: state.into(), startup: startup.into(), ..Svc::default() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

#[track_caller]
fn outcome(bench: &TestEnv, name: &str, svc: &Svc, run: Run<'_>) -> Result<Checked, Error> {
    runtime().block_on(bench.vertex(name, svc.clone()).run(run)).result
}

fn seen() -> [String; 3] {
    let process =
        ["show", "demo", "--property=MainPID,InvocationID,ActiveEnterTimestampMonotonic,NeedDaemonReload"];
    [unit_state("is-active", "demo"), unit_state("is-enabled", "demo"), run("systemctl", &process)]
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, svc: &Svc) {
    let before = seen();
    assert_eq!(outcome(bench, "demo", svc, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(seen()[..2], before[..2], "looking has changed something");
    assert_eq!(outcome(bench, "demo", svc, Run::APPLY).unwrap(), Checked::Changed);
    let before = seen();
    assert_eq!(outcome(bench, "demo", svc, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, "demo", svc, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(seen(), before, "something was touched although all was right");
}

#[test]
fn a_service_is_started_stopped_enabled_and_disabled() {
    if !on_booted_host("a_service_is_started_stopped_enabled_and_disabled") {
        return;
    }
    fs::write(UNIT, DEMO).unwrap();
    let bench = TestEnv::new();
    settles(&bench, &svc("running", "enabled"));
    assert_eq!(
        (unit_state("is-active", "demo"), unit_state("is-enabled", "demo")),
        ("active".into(), "enabled".into())
    );
    settles(&bench, &svc("stopped", ""));
    assert_eq!(
        (unit_state("is-active", "demo"), unit_state("is-enabled", "demo")),
        ("inactive".into(), "enabled".into())
    );
    settles(&bench, &svc("", "disabled"));
    settles(&bench, &svc("running", "disabled"));
    assert_eq!(
        (unit_state("is-active", "demo"), unit_state("is-enabled", "demo")),
        ("active".into(), "disabled".into())
    );

    // What cannot be switched counts as what it is, and comes to rest.
    for (unit, wanted) in [("dbus", svc("running", "enabled")), ("dbus.socket", svc("running", ""))] {
        assert_eq!(outcome(&bench, unit, &wanted, Run::APPLY).unwrap(), Checked::Right, "{unit}");
    }
}

#[test]
fn a_missing_or_broken_service_is_told_apart() {
    if !on_booted_host("a_missing_or_broken_service_is_told_apart") {
        return;
    }
    let bench = TestEnv::new();
    let nothing = |svc: &Svc| outcome(&bench, "no-such-thing", svc, Run::APPLY);
    assert_eq!(nothing(&svc("stopped", "disabled")).unwrap(), Checked::Right);
    assert!(nothing(&svc("running", "")).unwrap_err().to_string().contains("no unit no-such-thing.service"));
    assert!(nothing(&svc("", "enabled")).unwrap_err().to_string().contains("no unit"));
    assert!(outcome(&bench, "../x", &svc("", ""), Run::APPLY).is_err());

    fs::write(UNIT, "[Service]\nType=oneshot\nExecStart=/bin/false\n").unwrap();
    let error = outcome(&bench, "demo", &svc("running", ""), Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("cannot start demo.service"), "{error}");
    assert!(error.hint().unwrap().contains("journalctl"), "{error}");

    fs::write(UNIT, format!("[Unit]\nConditionPathExists=/nowhere\n{DEMO}")).unwrap();
    let error = outcome(&bench, "demo", &svc("running", ""), Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("does not run"), "{error}");

    fs::remove_file(UNIT).unwrap();
    run("systemctl", &["mask", "demo"]);
    let error = outcome(&bench, "demo", &svc("running", "enabled"), Run::APPLY).unwrap_err();
    assert!(error.hint().unwrap().contains("unmask"), "{error}");
    assert_eq!(outcome(&bench, "demo", &svc("stopped", "disabled"), Run::APPLY).unwrap(), Checked::Right);

    // Whoever asks for it has it masked, and unmasked.
    run("systemctl", &["unmask", "demo"]);
    let directory = "/usr/lib/systemd/system";
    fs::create_dir_all(directory).unwrap();
    fs::write(format!("{directory}/demo.service"), DEMO).unwrap();
    run("systemctl", &["daemon-reload"]);
    settles(&bench, &svc("running", "enabled"));
    settles(&bench, &svc("stopped", "masked"));
    assert_eq!(unit_state("is-enabled", "demo"), "masked");
    settles(&bench, &Svc { unmask: true, ..svc("running", "enabled") });
    assert_eq!(
        (unit_state("is-active", "demo"), unit_state("is-enabled", "demo")),
        ("active".into(), "enabled".into())
    );
}

#[test]
fn a_refresh_reloads_or_restarts_what_runs_and_changed_unit_files_are_read() {
    if !on_booted_host("a_refresh_reloads_or_restarts_what_runs_and_changed_unit_files_are_read") {
        return;
    }
    fs::write(UNIT, DEMO).unwrap();
    let bench = TestEnv::new();
    let process = || run("systemctl", &["show", "demo", "--property=MainPID", "--value"]);
    let refresh = |svc: &Svc| outcome(&bench, "demo", svc, Run::REFRESH).unwrap();
    assert_eq!(refresh(&svc("", "")), Checked::Right, "what does not run is left alone");
    assert_eq!(refresh(&svc("running", "")), Checked::Changed);
    assert!(!fs::exists("/run/demo-reloaded").unwrap(), "a start is enough");
    let first = process();
    assert_eq!(refresh(&svc("running", "")), Checked::Changed);
    assert!(fs::exists("/run/demo-reloaded").unwrap());
    assert_eq!(process(), first, "it can be reloaded");

    fs::write(UNIT, DEMO.replace("ExecReload=/bin/touch /run/demo-reloaded\n", "")).unwrap();
    settles(&bench, &svc("running", ""));
    assert_eq!(run("systemctl", &["show", "demo", "--property=NeedDaemonReload", "--value"]), "no");
    assert_eq!(process(), first, "to be read is not to be restarted");
    assert_eq!(refresh(&svc("", "")), Checked::Changed);
    assert_ne!(process(), first, "it cannot be reloaded any more");
}

#[test]
fn a_refresh_restarts_what_could_be_reloaded_if_that_is_wanted() {
    if !on_booted_host("a_refresh_restarts_what_could_be_reloaded_if_that_is_wanted") {
        return;
    }
    fs::write(UNIT, DEMO).unwrap();
    let bench = TestEnv::new();
    let process = || run("systemctl", &["show", "demo", "--property=MainPID", "--value"]);
    let restarted = |state: &str| Svc { restart: true, ..svc(state, "") };
    let refresh = |svc: &Svc| outcome(&bench, "demo", svc, Run::REFRESH).unwrap();
    for state in ["", "stopped"] {
        assert_eq!(refresh(&restarted(state)), Checked::Right, "what does not run is left alone");
    }
    assert_eq!(refresh(&restarted("running")), Checked::Changed);
    let mut last = process();
    for state in ["running", ""] {
        assert_eq!(refresh(&restarted(state)), Checked::Changed);
        let now = process();
        assert!(now != last && now != "0", "{state}: {last}, {now}");
        last = now;
    }
    assert!(!fs::exists("/run/demo-reloaded").unwrap(), "it was reloaded");
    assert_eq!(outcome(&bench, "demo", &restarted("running"), Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(process(), last, "nobody has notified it");
}

/// Somebody stops a service in the moment in which it is restarted, which cancels that. It was declared to run, so it runs.
#[test]
fn who_stops_a_service_while_it_is_restarted_does_not_win() {
    if !on_booted_host("who_stops_a_service_while_it_is_restarted_does_not_win") {
        return;
    }
    // Its end takes as long as it takes us to be there.
    let stop =
        "ExecStop=/bin/sh -c 'touch /run/demo-stops; until test -e /run/demo-go; do sleep 0.02; done'\n";
    fs::write(UNIT, DEMO.replace("ExecReload=/bin/touch /run/demo-reloaded\n", stop)).unwrap();
    let bench = TestEnv::new();
    let wanted = Svc { restart: true, ..svc("running", "") };
    assert_eq!(outcome(&bench, "demo", &wanted, Run::APPLY).unwrap(), Checked::Changed);
    let process = || run("systemctl", &["show", "demo", "--property=MainPID", "--value"]);
    let first = process();
    let somebody = std::thread::spawn(|| {
        eventually("it stops", || fs::exists("/run/demo-stops").unwrap());
        run("systemctl", &["stop", "--no-block", "demo"]);
        let job = || run("systemctl", &["list-jobs", "--no-legend", "demo.service"]);
        eventually("the job is a stop", || job().contains(" stop "));
        fs::write("/run/demo-go", "").unwrap();
    });
    assert_eq!(outcome(&bench, "demo", &wanted, Run::REFRESH).unwrap(), Checked::Changed);
    somebody.join().unwrap();
    assert_eq!(unit_state("is-active", "demo"), "active");
    assert_ne!(process(), first);
    assert_eq!(outcome(&bench, "demo", &wanted, Run::APPLY).unwrap(), Checked::Right);
}

/// To Puppet, a start that has succeeded is enough.
#[test]
fn a_service_that_does_not_stay_is_an_error_unless_its_start_is_enough() {
    if !on_booted_host("a_service_that_does_not_stay_is_an_error_unless_its_start_is_enough") {
        return;
    }
    let short = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo x >>/run/demo-starts'\n";
    fs::write(UNIT, short).unwrap();
    run("systemctl", &["daemon-reload"]);
    let starts = || fs::read_to_string("/run/demo-starts").unwrap_or_default().len() / 2;
    let bench = TestEnv::new();
    let error = outcome(&bench, "demo", &svc("running", ""), Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("was started, but does not run"), "{error}");
    assert_eq!(starts(), 1);
    runtime().block_on(async {
        let wanted = Svc { restart_interval: 1800, ..svc("running", "") };
        let mut vertex = bench.vertex("demo", wanted);
        assert_eq!(vertex.apply().await.checked(), Checked::Changed);
        assert_eq!(starts(), 2);
        // What its end tells us of is no reason to start it again.
        for _ in 0..3 {
            assert_eq!(vertex.apply().await.checked(), Checked::Right);
        }
        assert_eq!(starts(), 2);
        // Another unit file is.
        fs::write(UNIT, DEMO).unwrap();
        run("systemctl", &["daemon-reload"]);
        let mut vertex = bench.vertex("demo", Svc { restart_interval: 1800, ..svc("running", "") });
        assert_eq!(vertex.apply().await.checked(), Checked::Changed);
        assert_eq!(unit_state("is-active", "demo"), "active");
        assert_eq!(vertex.apply().await.checked(), Checked::Right);
    });
}

/// The same right after it was started, before anybody has looked at it.
#[test]
fn who_stops_a_service_that_was_just_started_does_not_win() {
    if !on_booted_host("who_stops_a_service_that_was_just_started_does_not_win") {
        return;
    }
    fs::write(UNIT, DEMO).unwrap();
    // As nobody needs it, systemd itself stops it, as soon as it is there. Once.
    fs::create_dir_all("/run/systemd/system/demo.service.d").unwrap();
    fs::write(
        "/run/systemd/system/demo.service.d/once.conf",
        "[Unit]\nStopWhenUnneeded=yes\n[Service]\nExecStopPost=/bin/sh -c 'touch /run/demo-stopped; rm /run/systemd/system/demo.service.d/once.conf; systemctl daemon-reload'\n",
    )
    .unwrap();
    run("systemctl", &["daemon-reload"]);
    let bench = TestEnv::new();
    let wanted = svc("running", "");
    assert_eq!(outcome(&bench, "demo", &wanted, Run::APPLY).unwrap(), Checked::Changed);
    // systemd may also stop it only after it was seen to run.
    let begin = Instant::now();
    while !fs::exists("/run/demo-stopped").unwrap() {
        assert!(begin.elapsed() < Duration::from_secs(60), "systemd did not stop the service");
        std::thread::sleep(Duration::from_millis(10));
    }
    outcome(&bench, "demo", &wanted, Run::APPLY).unwrap();
    assert_eq!(unit_state("is-active", "demo"), "active");
    assert_eq!(outcome(&bench, "demo", &wanted, Run::APPLY).unwrap(), Checked::Right);
}

#[test]
fn whatever_others_do_to_a_service_is_an_event_and_repaired() {
    if !on_booted_host("whatever_others_do_to_a_service_is_an_event_and_repaired") {
        return;
    }
    fs::write(UNIT, DEMO).unwrap();
    let bench = TestEnv::new();
    let wanted = svc("running", "enabled");
    runtime().block_on(async {
        let mut vertex = bench.vertex("demo", wanted.clone());
        let mut events = stream(&bench, &wanted);
        // The first one says that all is set up.
        next(&mut *events).await;
        assert_eq!(vertex.apply().await.checked(), Checked::Changed);
        let drifts: [&[&str]; 5] = [
            &["systemctl", "stop", "demo"],
            &["systemctl", "kill", "--signal=KILL", "demo"],
            &["systemctl", "disable", "demo"],
            &["systemctl", "disable", "--now", "demo"],
            // Returns at once, while the service is on its way down.
            &["systemctl", "stop", "--no-block", "demo"],
        ];
        for drift in drifts {
            let begin = Instant::now();
            run(drift[0], &drift[1..]);
            loop {
                // Nothing but an event leads to a check.
                next(&mut *events).await;
                vertex.apply().await.checked();
                if unit_state("is-active", "demo") == "active"
                    && unit_state("is-enabled", "demo") == "enabled"
                {
                    break;
                }
            }
            eprintln!("{drift:?} repaired after {:?}", begin.elapsed());
        }
        // Our own looking is no event, or there would be no end of it: after a while nothing is left to hear.
        while tokio::time::timeout(Duration::from_secs(1), events.next(&Cancel::default())).await.is_ok() {}
        for _ in 0..3 {
            assert_eq!(vertex.apply().await.checked(), Checked::Right);
        }
        let mut absent = bench.vertex("rescue", svc("stopped", ""));
        let mut others = stream_of(&bench, "rescue", &absent.resource);
        assert_eq!(absent.apply().await.checked(), Checked::Right);
        run("systemctl", &["stop", "demo"]);
        next(&mut *events).await;
        let silence = tokio::time::timeout(Duration::ZERO, others.next(&Cancel::default())).await;
        assert!(silence.is_err(), "looking at a unit that is not loaded is no event");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_repairs_whatever_others_do_to_a_service() {
    if !on_booted_host("the_engine_repairs_whatever_others_do_to_a_service") {
        return;
    }
    let mut running = RunningEngine::start();
    let unit = File { state: "exists".into(), content: Some(DEMO.into()), ..File::default() };
    let specs = vec![Spec::new("demo", svc("running", "enabled")), Spec::new(UNIT, unit)];
    running.swap(specs).await;
    let right =
        || unit_state("is-active", "demo") == "active" && unit_state("is-enabled", "demo") == "enabled";
    assert!(right());
    for drift in [
        "systemctl stop demo",
        "systemctl kill --signal=KILL demo",
        "systemctl disable demo",
        "systemctl disable --now demo",
        "systemctl stop --no-block demo",
        "rm /etc/systemd/system/demo.service; systemctl daemon-reload; systemctl stop demo",
    ] {
        disturb(drift);
        soon(drift, right).await;
    }
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_the_session_is_kept_by_the_manager_of_the_session() {
    if !on_booted_host("a_service_of_the_session_is_kept_by_the_manager_of_the_session") {
        return;
    }
    let bench = TestEnv::new();
    let wanted = Svc { session: true, ..svc("running", "enabled") };
    let error = bench.vertex("demo", wanted.clone()).apply().await.result.unwrap_err();
    assert!(error.hint().unwrap().contains("enable-linger"), "{error}");
    start_session();
    let unit = "/root/.config/systemd/user/demo.service";
    fs::create_dir_all("/root/.config/systemd/user").unwrap();
    fs::write(unit, DEMO.replace("multi-user.target", "default.target")).unwrap();

    let mut running = RunningEngine::start();
    running.swap(vec![Spec::new("demo", wanted)]).await;
    let told_by = |question: &str| host_common::output("systemctl", &["--user", question, "demo"]).stdout;
    let right = || told_by("is-active") == b"active\n" && told_by("is-enabled") == b"enabled\n";
    assert!(right());
    assert_eq!(unit_state("is-active", "demo"), "inactive", "the system's manager has nothing to do with it");
    for drift in [
        "systemctl --user stop demo",
        "systemctl --user kill --signal=KILL demo",
        "systemctl --user disable --now demo",
    ] {
        disturb(drift);
        soon(drift, right).await;
    }
    running.stop();
}

#[test]
fn a_service_comes_after_its_unit_file_and_what_changes_it() {
    let file = |path: &str| {
        Spec::new(path, File { state: "exists".into(), content: Some("".into()), ..File::default() })
    };
    let specs = vec![
        Spec::new("demo", svc("running", "")),
        Spec::new("getty@tty7", svc("running", "")),
        Spec::new("other", svc("running", "")),
        file(UNIT),
        file("/etc/systemd/system/demo.service.d/more.conf"),
        file("/usr/lib/systemd/system/demo.service"),
        file("/usr/lib/systemd/system/getty@.service"),
        file("/etc/systemd/system/demo.timer"),
    ];
    assert_eq!(
        edges(specs),
        [
            "file[/etc/systemd/system/demo.service.d/more.conf] -> svc[demo]",
            "file[/etc/systemd/system/demo.service] -> svc[demo]",
            "file[/usr/lib/systemd/system/getty@.service] -> svc[getty@tty7]",
        ]
    );
}

#[test]
fn when_the_bus_restarts_events_go_on() {
    if !on_booted_host("when_the_bus_restarts_events_go_on") {
        return;
    }
    fs::write(UNIT, DEMO).unwrap();
    let bench = TestEnv::new();
    let wanted = svc("running", "");
    runtime().block_on(async {
        let mut vertex = bench.vertex("demo", wanted.clone());
        let mut events = stream(&bench, &wanted);
        next(&mut *events).await;
        assert_eq!(vertex.apply().await.checked(), Checked::Changed);
        while tokio::time::timeout(Duration::from_secs(1), events.next(&Cancel::default())).await.is_ok() {}
        run("systemctl", &["kill", "--signal=KILL", "dbus.service"]);
        run("systemctl", &["stop", "demo"]);
        run("systemctl", &["start", "dbus.service"]);
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            next(&mut *events).await;
            // While the bus is away this fails, as it should.
            if vertex.apply().await.result.is_ok() && unit_state("is-active", "demo") == "active" {
                break;
            }
            assert!(Instant::now() < end, "not repaired");
        }
    });
}

#[test]
fn a_host_without_systemd_is_told_so_at_once() {
    // On a host that runs systemd, the test hides it from itself.
    if std::path::Path::new("/run/systemd/system").is_dir() {
        let hidden = "mount -t tmpfs none /run/systemd && exec \"$0\" --exact \"$1\"";
        let output = std::process::Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", hidden])
            .arg(std::env::current_exe().unwrap())
            .arg(mgmt_test_support::current_test::path())
            .output()
            .unwrap_or_else(|error| panic!("this test needs unshare: {error}"));
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && out.contains("1 passed"), "{out}");
        return;
    }
    let bench = TestEnv::new();
    for run in [Run::LOOK, Run::APPLY] {
        let error = outcome(&bench, "cron", &svc("running", ""), run).unwrap_err();
        assert!(error.to_string().contains("does not run systemd"), "{error}");
        assert!(error.hint().is_some());
    }
    let _runtime = runtime();
    let _entered = _runtime.enter();
    let Watch::Stream { start, .. } = &Kind::watches(&svc("", ""), &"cron".into())[0] else { panic!() };
    assert!(start(&bench.host).err().unwrap().to_string().contains("does not run systemd"));
}

fn stream(bench: &TestEnv, svc: &Svc) -> Box<dyn WatchStream> {
    stream_of(bench, "demo", svc)
}

fn stream_of(bench: &TestEnv, name: &str, svc: &Svc) -> Box<dyn WatchStream> {
    let Watch::Stream { start, .. } = &Kind::watches(svc, &name.into())[0] else { panic!("no stream") };
    start(&bench.host).unwrap()
}

async fn next(events: &mut dyn WatchStream) {
    let cancel = Cancel::default();
    let event = tokio::time::timeout(Duration::from_secs(20), events.next(&cancel)).await;
    event.expect("no event").unwrap();
}

#[test]
fn hundreds_of_services_are_looked_at_at_once() {
    if !on_booted_host("hundreds_of_services_are_looked_at_at_once") {
        return;
    }
    // A bus refuses calls when too many of one connection wait for their answers.
    runtime().block_on(async {
        let mut looks = tokio::task::JoinSet::new();
        for number in 0..500 {
            looks.spawn(async move {
                let bench = TestEnv::new();
                let name = format!("no-such-service-{number}");
                bench.vertex(name.as_str(), svc("stopped", "")).run(Run::LOOK).await.result
            });
        }
        while let Some(looked) = looks.join_next().await {
            assert_eq!(looked.unwrap().unwrap(), Checked::Right);
        }
    });
}
