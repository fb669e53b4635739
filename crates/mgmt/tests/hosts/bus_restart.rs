//! The message bus of a booted host is restarted under a run that keeps a service: the run finds back, and the service is kept.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mgmt_test_support::booted_host;
use std::path::Path;
use std::process::{Command, Stdio};

use mgmt_test_support::booted_host::run;
use mgmt_test_support::program::{RunningProgram, eventually};

const UNIT: &str = "[Service]\nExecStart=/bin/sleep infinity\n";

#[test]
fn a_bus_that_restarts_is_waited_for() {
    if booted_host::is_booted() {
        return on_a_booted_host();
    }
    let name = "a_bus_that_restarts_is_waited_for";
    booted_host::on_booted_host_with(name, &[("mgmt", Path::new(env!("CARGO_BIN_EXE_mgmt")))]);
}

fn is_active() -> bool {
    Command::new("systemctl").args(["is-active", "--quiet", "kept.service"]).status().unwrap().success()
}

/// The process that is the bus.
fn bus() -> String {
    run("systemctl", &["show", "--property=MainPID", "--value", "dbus.service"]).trim().to_owned()
}

fn on_a_booted_host() {
    std::fs::write("/etc/systemd/system/kept.service", UNIT).unwrap();
    run("systemctl", &["daemon-reload"]);
    std::fs::create_dir_all("/t").unwrap();
    std::fs::write("/t/graph.yaml", "graph: bus\nresources:\n  svc:\n  - name: kept\n    state: running\n")
        .unwrap();
    let mut command = Command::new("/mgmt-test-result/mgmt");
    command.args(["run", "--prefix", "/t/prefix", "yaml", "/t/graph.yaml"]).stdin(Stdio::null());
    let mut running = RunningProgram::start_command(command);
    running.wait_for("svc[kept]: changed in");
    assert!(is_active());
    // As often as systemd starts a service within ten seconds, but for once.
    for round in 0..4 {
        let before = bus();
        run("systemctl", &["kill", "--signal=KILL", "dbus.service"]);
        eventually("the bus is gone", || bus() != before);
        // Whoever wants to talk to it has it started as well, and one start may get in the way of the other.
        eventually("the bus is started", || {
            let started = Command::new("systemctl").args(["start", "dbus.service"]).output().unwrap();
            started.status.success()
        });
        // In some rounds at once, and else when the connection may be there again.
        if round % 2 > 0 {
            eventually("the bus answers", || {
                Command::new("busctl")
                    .args(["list", "--no-pager"])
                    .stdout(Stdio::null())
                    .status()
                    .unwrap()
                    .success()
            });
        }
        run("systemctl", &["stop", "kept.service"]);
        // It has seen to the end that the service runs, so that the next round does not stop it while it looks.
        running.wait_for("svc[kept]: changed in");
        assert!(is_active(), "round {round}: the service is not started again");
    }
    running.signal(rustix::process::Signal::TERM);
    let (code, told) = running.end();
    assert_eq!(code, Some(0), "{told}");
    assert!(!told.contains("panicked"), "{told}");
}
