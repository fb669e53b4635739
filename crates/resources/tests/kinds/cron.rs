//! `cron` with a real systemd, on a host that was booted for it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::host_common;
use std::fs;

use crate::common::{Run, TestEnv};
use crate::host_common::{RunningEngine, disturb, edges, shell, soon};
use mgmt_resource::{Checked, Error, Spec};
use mgmt_resources::cron::Cron;
use mgmt_resources::file::File;
use mgmt_resources::svc::Svc;
use mgmt_test_support::booted_host::{eventually, on_booted_host, run, start_session, unit_state};

const FILE: &str = "/etc/systemd/system/demo.timer";
const WANTED: &str = "/etc/systemd/system/timers.target.wants/demo.timer";
const SERVICE: &str = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo tick >>/run/ticks'\n";

fn cron(trigger: &str, time: &str) -> Cron {
    Cron { trigger: trigger.into(), time: time.into(), accuracysec: "1us".into(), ..Cron::default() }
}

fn absent() -> Cron {
    Cron { state: "absent".into(), ..Cron::default() }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

#[track_caller]
fn outcome(bench: &TestEnv, cron: &Cron, run: Run<'_>) -> Result<Checked, Error> {
    runtime().block_on(bench.vertex("demo", cron.clone()).run(run)).result
}

fn seen() -> (Option<String>, [String; 4]) {
    let show = run(
        "systemctl",
        &["show", "demo.timer", "--property=ActiveEnterTimestampMonotonic,TimersCalendar,TimersMonotonic"],
    );
    let (active, enabled) = (unit_state("is-active", "demo.timer"), unit_state("is-enabled", "demo.timer"));
    // When it elapses next goes on by itself.
    let show = show.split("next_elapse").next().unwrap().to_owned();
    (fs::read_to_string(FILE).ok(), [active, enabled, show, fs::exists(WANTED).unwrap().to_string()])
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, cron: &Cron) {
    let before = seen();
    assert_eq!(outcome(bench, cron, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(seen(), before, "looking has changed something");
    assert_eq!(outcome(bench, cron, Run::APPLY).unwrap(), Checked::Changed);
    let before = seen();
    assert_eq!(outcome(bench, cron, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, cron, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(seen(), before, "something was touched although all was right");
}

fn ticks() -> usize {
    fs::read_to_string("/run/ticks").unwrap_or_default().lines().count()
}

#[test]
fn a_timer_is_made_changed_and_removed() {
    if !on_booted_host("a_timer_is_made_changed_and_removed") {
        return;
    }
    fs::write("/etc/systemd/system/demo.service", SERVICE).unwrap();
    let bench = TestEnv::new();
    settles(&bench, &cron("OnCalendar", "*-*-* *:*:*"));
    assert_eq!(
        (unit_state("is-active", "demo.timer"), unit_state("is-enabled", "demo.timer")),
        ("active".into(), "enabled".into())
    );
    runtime().block_on(soon("the service starts every second", || ticks() >= 2));
    // Another time takes effect, at once.
    settles(&bench, &cron("OnCalendar", "2099-01-01"));
    let next = || run("systemctl", &["list-timers", "--all", "demo.timer"]);
    assert!(next().contains("2099-01-01"), "{}", next());
    fs::write("/etc/systemd/system/other.service", SERVICE).unwrap();
    settles(&bench, &Cron { unit: "other".into(), persistent: true, ..cron("OnCalendar", "2099-01-01") });
    settles(&bench, &Cron { startup: "disabled".into(), ..cron("OnCalendar", "2099-01-01") });
    assert!(!fs::exists(WANTED).unwrap());
    settles(&bench, &Cron { startup: "".into(), ..cron("OnCalendar", "2098-01-01") });
    assert_eq!(unit_state("is-enabled", "demo.timer"), "disabled");
    settles(&bench, &cron("OnBootSec", "1000d"));
    let refreshed = outcome(&bench, &cron("OnBootSec", "1000d"), Run::REFRESH).unwrap();
    assert_eq!(refreshed, Checked::Changed, "a notification starts it anew");

    settles(&bench, &absent());
    assert!(!fs::exists(FILE).unwrap() && !fs::exists(WANTED).unwrap());
    assert_eq!(run("systemctl", &["show", "demo.timer", "--property=LoadState", "--value"]), "not-found");
    assert_ne!(unit_state("is-active", "demo.timer"), "active");
    // One that is masked is not unmasked.
    run("systemctl", &["mask", "demo.timer"]);
    assert_eq!(outcome(&bench, &absent(), Run::APPLY).unwrap(), Checked::Right);
}

/// Its start waits for another unit, and somebody stops the timer meanwhile, which cancels that, again and again. It was declared to
/// run, so it runs.
#[test]
fn who_stops_a_timer_while_it_is_started_does_not_win() {
    if !on_booted_host("who_stops_a_timer_while_it_is_started_does_not_win") {
        return;
    }
    fs::write("/etc/systemd/system/demo.service", SERVICE).unwrap();
    let slow = "[Service]\nType=oneshot\nRemainAfterExit=yes\n\
                ExecStart=/bin/sh -c 'until test -e /run/demo-go; do sleep 0.02; done'\n";
    fs::write("/etc/systemd/system/slow.service", slow).unwrap();
    fs::create_dir("/etc/systemd/system/demo.timer.d").unwrap();
    let after = "[Unit]\nRequires=slow.service\nAfter=slow.service\n";
    fs::write("/etc/systemd/system/demo.timer.d/slow.conf", after).unwrap();
    let bench = TestEnv::new();
    let somebody = std::thread::spawn(|| {
        let job = || run("systemctl", &["list-jobs", "--no-legend", "demo.timer"]);
        for _ in 0..5 {
            eventually("the job is a start", || job().contains(" start "));
            run("systemctl", &["stop", "demo.timer"]);
        }
        fs::write("/run/demo-go", "").unwrap();
    });
    let wanted = cron("OnBootSec", "1000d");
    assert_eq!(outcome(&bench, &wanted, Run::APPLY).unwrap(), Checked::Changed);
    somebody.join().unwrap();
    assert_eq!(unit_state("is-active", "demo.timer"), "active");
    assert_eq!(outcome(&bench, &wanted, Run::APPLY).unwrap(), Checked::Right);
}

#[test]
fn a_timer_that_comes_to_rest_is_not_started_again() {
    if !on_booted_host("a_timer_that_comes_to_rest_is_not_started_again") {
        return;
    }
    fs::write("/etc/systemd/system/demo.service", SERVICE).unwrap();
    runtime().block_on(async {
        let mut running = RunningEngine::start();
        let once = Cron { remainafterelapse: false, ..cron("OnActiveSec", "100ms") };
        running.swap(vec![Spec::new("demo", once.clone())]).await;
        soon("the service starts", || ticks() == 1).await;
        soon("the timer rests", || unit_state("is-active", "demo.timer") == "inactive").await;
        // Whatever else happens to it, it has had its turn.
        shell("systemctl disable demo.timer");
        soon("it is enabled again", || unit_state("is-enabled", "demo.timer") == "enabled").await;
        assert_eq!(ticks(), 1);
        running.swap(vec![Spec::new("demo", Cron { time: "200ms".into(), ..once })]).await;
        soon("another time is another turn", || ticks() == 2).await;
        running.stop();
    });
}

#[test]
fn what_cannot_be_is_told() {
    if !on_booted_host("what_cannot_be_is_told") {
        return;
    }
    fs::write("/etc/systemd/system/demo.service", SERVICE).unwrap();
    let bench = TestEnv::new();
    let error = outcome(&bench, &cron("OnCalendar", "every full moon"), Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("every full moon"), "{error}");
    assert!(error.hint().unwrap().contains("systemd-analyze verify"), "{error:?}");
    assert_eq!(outcome(&bench, &cron("OnCalendar", "daily"), Run::APPLY).unwrap(), Checked::Changed);
    let nothing = Cron { unit: "no-such-thing".into(), ..cron("OnCalendar", "daily") };
    let error = outcome(&bench, &nothing, Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("demo.timer"), "{error}");
    assert_eq!(outcome(&bench, &absent(), Run::APPLY).unwrap(), Checked::Changed);
    run("systemctl", &["mask", "demo.timer"]);
    for run in [Run::LOOK, Run::APPLY] {
        let error = outcome(&bench, &cron("OnCalendar", "daily"), run).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }
}

#[test]
fn whatever_somebody_does_to_a_timer_is_an_event_and_repaired() {
    if !on_booted_host("whatever_somebody_does_to_a_timer_is_an_event_and_repaired") {
        return;
    }
    fs::write("/etc/systemd/system/demo.service", SERVICE).unwrap();
    runtime().block_on(async {
        let mut running = RunningEngine::start();
        running.swap(vec![Spec::new("demo", cron("OnCalendar", "2099-01-01"))]).await;
        let right = || {
            let reload = run("systemctl", &["show", "demo.timer", "--property=NeedDaemonReload", "--value"]);
            unit_state("is-active", "demo.timer") == "active"
                && unit_state("is-enabled", "demo.timer") == "enabled"
                && fs::read_to_string(FILE).is_ok_and(|text| text.contains("OnCalendar=2099-01-01\n"))
                && reload == "no"
                && run("systemctl", &["show", "demo.timer", "--property=TimersCalendar"]).contains("2099-01-01")
        };
        assert!(right());
        for drift in [
            "systemctl stop demo.timer",
            "systemctl disable demo.timer",
            "systemctl disable --now demo.timer",
            "sed -i s/2099/2042/ /etc/systemd/system/demo.timer",
            "sed -i s/2099/2042/ /etc/systemd/system/demo.timer; systemctl daemon-reload",
            "rm /etc/systemd/system/demo.timer",
            "rm /etc/systemd/system/demo.timer; systemctl daemon-reload",
            "rm /etc/systemd/system/timers.target.wants/demo.timer; systemctl daemon-reload",
            "systemctl stop --no-block demo.timer",
        ] {
            disturb(drift);
            soon(drift, right).await;
        }
        running.swap(vec![Spec::new("demo", absent())]).await;
        shell("printf '[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n' >/etc/systemd/system/demo.timer; systemctl enable --now demo.timer 2>/dev/null || true");
        soon("it is gone again", || !fs::exists(FILE).unwrap() && !fs::exists(WANTED).unwrap() && unit_state("is-active", "demo.timer") != "active").await;
        running.stop();
    });
}

#[test]
fn a_timer_of_the_session_is_kept_by_the_manager_of_the_session() {
    if !on_booted_host("a_timer_of_the_session_is_kept_by_the_manager_of_the_session") {
        return;
    }
    let bench = TestEnv::new();
    let wanted = Cron { session: true, ..cron("OnCalendar", "2099-01-01") };
    for run in [Run::LOOK, Run::APPLY] {
        let error = outcome(&bench, &wanted, run).unwrap_err();
        assert!(error.hint().unwrap().contains("enable-linger"), "{error}");
    }
    let directory = "/root/.config/systemd/user";
    assert!(!fs::exists(directory).unwrap(), "nothing was left behind");
    start_session();
    let unit = format!("{directory}/demo.timer");
    let link = format!("{directory}/timers.target.wants/demo.timer");
    let user = |question: &str| {
        let told = host_common::output("systemctl", &["--user", question, "demo.timer"]).stdout;
        String::from_utf8(told).unwrap().trim().to_owned()
    };
    // The directory is made when there is none; but not by looking.
    let service =
        |ticks: &str| format!("[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo tick >>{ticks}'\n");
    fs::create_dir_all("/etc/systemd/user").unwrap();
    fs::write("/etc/systemd/user/demo.service", service("/run/user/0/ticks")).unwrap();
    shell("systemctl --user daemon-reload");
    assert_eq!(outcome(&bench, &wanted, Run::LOOK).unwrap(), Checked::Changed);
    assert!(!fs::exists(directory).unwrap(), "looking has changed something");
    assert_eq!(outcome(&bench, &wanted, Run::APPLY).unwrap(), Checked::Changed);
    assert_eq!(outcome(&bench, &wanted, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(outcome(&bench, &wanted, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!((user("is-active"), user("is-enabled")), ("active".into(), "enabled".into()));
    assert!(fs::exists(&unit).unwrap() && fs::exists(&link).unwrap());
    assert!(!fs::exists(FILE).unwrap(), "the system's manager has nothing to do with it");
    assert_ne!(unit_state("is-active", "demo.timer"), "active");

    runtime().block_on(async {
        let mut running = RunningEngine::start();
        running.swap(vec![Spec::new("demo", wanted.clone())]).await;
        let right = || {
            let show = ["--user", "show", "demo.timer", "--property=TimersCalendar"];
            user("is-active") == "active"
                && user("is-enabled") == "enabled"
                && fs::read_to_string(&unit).is_ok_and(|text| text.contains("OnCalendar=2099-01-01\n"))
                && run("systemctl", &show).contains("2099-01-01")
        };
        assert!(right());
        for drift in [
            "systemctl --user stop demo.timer",
            "systemctl --user disable --now demo.timer",
            "sed -i s/2099/2042/ /root/.config/systemd/user/demo.timer",
            "rm /root/.config/systemd/user/demo.timer; systemctl --user daemon-reload",
            "rm -r /root/.config/systemd",
        ] {
            disturb(drift);
            soon(drift, right).await;
        }
        let often = Cron { session: true, ..cron("OnCalendar", "*-*-* *:*:*") };
        running.swap(vec![Spec::new("demo", often)]).await;
        soon("the service starts", || fs::exists("/run/user/0/ticks").unwrap()).await;
        running.swap(vec![Spec::new("demo", Cron { session: true, ..absent() })]).await;
        let is_gone =
            || !fs::exists(&unit).unwrap() && !fs::exists(&link).unwrap() && user("is-active") != "active";
        soon("it is gone", is_gone).await;
        running.stop();
    });
}

#[test]
fn a_timer_comes_after_its_service_and_the_files_of_both() {
    let file = |name: &str| Spec::new(name, File { state: "exists".into(), ..File::default() });
    let specs = vec![
        Spec::new("demo", cron("OnCalendar", "daily")),
        file("/etc/systemd/system/"),
        file("/etc/systemd/system/demo.service"),
        Spec::new("demo", Svc::default()),
        Spec::new("demo.timer", Svc::default()),
    ];
    let edges = edges(specs);
    for expected in [
        "file[/etc/systemd/system/] -> cron[demo]",
        "file[/etc/systemd/system/demo.service] -> cron[demo]",
        "svc[demo] -> cron[demo]",
        "cron[demo] -> svc[demo.timer]",
    ] {
        assert!(edges.contains(&expected.to_owned()), "{expected}: {edges:?}");
    }
}
