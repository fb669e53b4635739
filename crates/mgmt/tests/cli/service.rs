//! What a service manager is told.
#![allow(missing_docs, clippy::unwrap_used)]

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Instant;

use mgmt_test_support::program::{EVENT_TIMEOUT, RunningProgram, holds, mgmt, mgmt_output, one_file};
use rustix::process::Signal;

/// A socket on which a run tells how it is.
struct Listener(UnixDatagram);

impl Listener {
    fn new(path: &Path) -> Listener {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
        Listener(socket)
    }

    /// Waits for a message that begins so, and gives it together with all that came before it.
    fn until(&self, beginning: &str) -> (Vec<String>, String) {
        let mut before = Vec::new();
        // Messages of the watchdog never end.
        let end = Instant::now() + EVENT_TIMEOUT;
        loop {
            assert!(Instant::now() < end, "no message {beginning:?} after {before:?}");
            let mut buffer = [0; 4096];
            let length = self.0.recv(&mut buffer).unwrap_or_else(|error| panic!("{error} after {before:?}"));
            let message = String::from_utf8(buffer[..length].to_vec()).unwrap();
            if message.starts_with(beginning) {
                return (before, message);
            }
            before.push(message);
        }
    }
}

#[test]
fn a_service_manager_knows_how_the_run_is_doing() {
    let directory = tempfile::tempdir().unwrap();
    let (graph, file) = (directory.path().join("graph.yaml"), directory.path().join("file"));
    std::fs::write(&graph, one_file(&file, "one")).unwrap();
    let socket = directory.path().join("notify");
    let listener = Listener::new(&socket);
    let mut command = mgmt(&["run", "--tmp-prefix", "--no-watch", "yaml", graph.to_str().unwrap()]);
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "400000");
    let run = RunningProgram::start_command(command);
    let (before, _) = listener.until("READY=1");
    assert!(!before.iter().any(|message| message.contains("converged")), "{before:?}");
    listener.until("STATUS=converged: 1 resource");
    holds(&file, "one");
    for _ in 0..3 {
        listener.until("WATCHDOG=1");
    }

    // Read again because somebody says so; ready when that has been done.
    std::fs::write(&graph, one_file(&file, "two")).unwrap();
    run.signal(Signal::HUP);
    let (_, reloading) = listener.until("RELOADING=1");
    let (_, time) = reloading.split_once("\nMONOTONIC_USEC=").unwrap();
    assert!(time.parse::<u64>().unwrap() > 0);
    listener.until("READY=1");
    holds(&file, "two");
    // A mistake is told, and what ran goes on: that is ready, too.
    std::fs::write(&graph, "graph: [").unwrap();
    run.signal(Signal::HUP);
    listener.until("RELOADING=1");
    listener.until("READY=1");
    std::fs::remove_file(&file).unwrap();
    holds(&file, "two");

    run.signal(Signal::TERM);
    listener.until("STOPPING=1");
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn a_reload_and_an_edit_end_a_plan_and_a_reload_of_a_deploy_is_answered_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let text = |name: &str| at(name).to_str().unwrap().to_owned();
    let program = |file: &str, content: &str| {
        format!("file {:?} {{ state => \"exists\", content => {content:?}, }}\n", text(file))
    };
    std::fs::write(at("main.mcl"), program("a", "one")).unwrap();
    std::fs::write(at("other.mcl"), program("b", "b")).unwrap();
    let prefix = text("prefix");
    let listener = Listener::new(&at("notify"));
    let mut command = mgmt(&["run", "--prefix", &prefix, "lang", &text("main.mcl")]);
    command.env("NOTIFY_SOCKET", at("notify"));
    let mut run = RunningProgram::start_command(command);
    listener.until("READY=1");
    listener.until("STATUS=converged: 1 resource");
    let apply = |status: &str| {
        let plan = text("plan");
        for words in
            [&["plan", "--out", &plan, "lang", &text("other.mcl")][..], &["apply", &plan, "--no-progress"]]
        {
            let said = mgmt_output(&[&words[..1], &["--prefix", &prefix], &words[1..]].concat());
            assert_eq!(said.code, 0, "{said:?}");
        }
        listener.until(status);
    };
    let applied = "STATUS=converged: 1 resource; plan ";
    let reload = |run: &RunningProgram| {
        run.signal(Signal::HUP);
        listener.until("RELOADING=1");
        listener.until("READY=1");
    };
    apply(applied);
    std::fs::write(at("a"), "mine").unwrap();
    reload(&run);
    holds(&at("a"), "one");
    listener.until("STATUS=converged: 1 resource");
    // What was edited meanwhile is what runs then.
    apply(applied);
    std::fs::write(at("main.mcl"), program("a", "two")).unwrap();
    holds(&at("a"), "two");
    // A program with errors is reported, and the one before runs.
    apply(applied);
    std::fs::write(at("main.mcl"), "file {").unwrap();
    listener.until("STATUS=stale: 1 resource; program invalid");
    std::fs::write(at("a"), "mine").unwrap();
    holds(&at("a"), "two");
    // Nothing of a deploy can be read again.
    let deployed = mgmt_output(&["deploy", "--prefix", &prefix, "--no-git", "empty"]);
    assert_eq!(deployed.code, 0, "{deployed:?}");
    run.wait_for("graph empty");
    reload(&run);
    apply("STATUS=stale: 1 resource; plan ");
    std::fs::write(at("b"), "mine").unwrap();
    holds(&at("b"), "b");
    reload(&run);
    run.wait_for("graph empty");
    run.signal(Signal::TERM);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn only_the_process_that_is_watched_says_that_it_is_alive() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("notify");
    let listener = Listener::new(&socket);
    let mut command = mgmt(&["run", "--tmp-prefix", "empty"]);
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "200000");
    let run = RunningProgram::start_command(command);
    listener.until("WATCHDOG=1");
    // Somebody else is watched.
    let mut other = mgmt(&["run", "--tmp-prefix", "empty"]);
    let place = directory.path().join("other");
    let quiet = Listener::new(&place);
    other.env("NOTIFY_SOCKET", &place).env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", "1");
    let other = RunningProgram::start_command(other);
    quiet.until("READY=1");
    run.signal(Signal::TERM);
    run.end();
    other.signal(Signal::TERM);
    let (before, _) = quiet.until("STOPPING=1");
    assert!(!before.iter().any(|message| message.starts_with("WATCHDOG")), "{before:?}");
    other.end();
}

#[test]
fn a_watchdog_attempts_nothing_that_fails() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (program, noted) = (at("main.mcl"), at("noted"));
    let text = format!(
        "exec \"x\" {{ cmd => \"echo ran >> {noted}; exit 1\", shell => \"/bin/sh\", Meta:retry => 0, }}\n"
    );
    std::fs::write(&program, text).unwrap();
    let listener = Listener::new(Path::new(&at("notify")));
    let mut command = mgmt(&["run", "--tmp-prefix", "lang", &program]);
    command.env("NOTIFY_SOCKET", at("notify")).env("WATCHDOG_USEC", "200000");
    let run = RunningProgram::start_command(command);
    listener.until("STATUS=degraded: 1 of 1 resource failed");
    // The service manager hears that the run is alive whenever the engine has answered.
    for _ in 0..5 {
        listener.until("WATCHDOG=1");
    }
    run.signal(Signal::TERM);
    run.end();
    assert_eq!(std::fs::read_to_string(&noted).unwrap(), "ran\n");
}

#[test]
fn which_lines_are_shown_can_be_changed_while_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("prefix");
    let prefix = prefix.to_str().unwrap();
    let mut run = RunningProgram::start(&["run", "--hostname", "h1", "--prefix", prefix, "empty"]);
    run.wait_for("graph empty");
    let log = |words: &[&str]| {
        let mut all = vec!["log", "--prefix", prefix];
        all.extend(words);
        mgmt_output(&all)
    };
    let wrong = log(&["verbose"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("`verbose` is no log level"), "{}", wrong.stderr);
    assert_eq!(log(&[]).stdout, "");
    let set = log(&["--host", "h1", "warn,main=debug"]);
    assert_eq!((set.code, set.stderr.as_str()), (0, "h1 shows warn,main=debug\n"));
    assert_eq!(log(&[]).stdout, "h1  warn,main=debug\n");
    let json: serde_json::Value = serde_json::from_str(&log(&["--message-format", "json"]).stdout).unwrap();
    assert_eq!(json["hosts"], serde_json::json!({ "h1": "warn,main=debug" }));
    // What another part says with a low voice is not shown any more; this one is.
    run.wait_for("showing warn,main=debug from now on");
    let again = log(&["--host", "h1", "warn"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let reset = log(&["--host", "h1", "--reset"]);
    assert_eq!(reset.stderr, "h1 shows what it was started with\n");
    run.wait_for("showing again what was shown at first");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    assert!(!lines.contains("showing warn from now on"), "{lines}");
}

#[test]
fn who_waits_for_the_store_is_alive() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("notify");
    let listener = Listener::new(&socket);
    // Nobody listens there.
    let mut command = mgmt(&["run", "--tmp-prefix", "--seeds", "http://127.0.0.1:1", "empty"]);
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "400000");
    let run = RunningProgram::start_command(command);
    listener.until("READY=1\nSTATUS=waiting for the store");
    listener.until("WATCHDOG=1");
    listener.until("WATCHDOG=1");
    run.signal(Signal::TERM);
    assert_eq!(run.end().0, Some(0));
}
