//! Three rungs: finish, cancel, interrupt.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use mgmt_test_support::program::{RunningProgram, eventually};
use rustix::process::Signal;

/// A command that marks its beginning, and then does `then` for as long as it is let.
fn busy(scratch: &Path, then: &str) -> (RunningProgram, std::path::PathBuf) {
    let mark = scratch.join("mark");
    let script = format!("{then}; echo started > {}; while :; do sleep 0.1; done", mark.display());
    let text = format!(
        "graph: busy\nresources:\n  exec:\n  - name: busy\n    cmd: {script:?}\n    shell: /bin/sh\n"
    );
    let graph = scratch.join("graph.yaml");
    std::fs::write(&graph, text).unwrap();
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "yaml", graph.to_str().unwrap()]);
    run.wait_for("graph busy");
    eventually("the command has started", || mark.exists());
    (run, mark)
}

#[test]
fn one_signal_ends_an_idle_program_with_zero() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut run = RunningProgram::start(&["run", "--tmp-prefix", "empty"]);
        run.wait_for("graph empty");
        run.signal(signal);
        let (code, lines) = run.end();
        assert_eq!(code, Some(0), "{lines}");
        assert!(lines.contains("ended: 0 resources"), "{lines}");
    }
}

#[test]
fn the_first_lets_a_command_finish() {
    let scratch = tempfile::tempdir().unwrap();
    let (mark, go) = (scratch.path().join("mark"), scratch.path().join("go"));
    let script = format!(
        "echo started > {}; while [ ! -e {} ]; do sleep 0.1; done; echo finished > {}",
        mark.display(),
        go.display(),
        mark.display()
    );
    let text = format!(
        "graph: busy\nresources:\n  exec:\n  - name: busy\n    cmd: {script:?}\n    shell: /bin/sh\n"
    );
    let graph = scratch.path().join("graph.yaml");
    std::fs::write(&graph, text).unwrap();
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "yaml", graph.to_str().unwrap()]);
    eventually("the command has started", || mark.exists());
    run.signal(Signal::INT);
    run.wait_for("what is running may finish");
    std::fs::write(go, "").unwrap();
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    assert_eq!(std::fs::read_to_string(mark).unwrap(), "finished\n");
}

#[test]
fn the_second_cancels_a_command() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut run, _) = busy(scratch.path(), "true");
    run.signal(Signal::INT);
    run.wait_for("what is running may finish");
    run.signal(Signal::INT);
    run.wait_for("cancelling");
    let (code, lines) = run.end();
    assert_eq!(code, Some(130), "{lines}");
}

#[test]
fn the_third_ends_a_command_that_will_not_be_cancelled() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut run, _) = busy(scratch.path(), "trap '' TERM INT");
    run.signal(Signal::TERM);
    run.wait_for("what is running may finish");
    run.signal(Signal::TERM);
    run.wait_for("cancelling");
    run.signal(Signal::TERM);
    run.wait_for("interrupting");
    let (code, lines) = run.end();
    assert_eq!(code, Some(143), "{lines}");
}

#[test]
fn after_one_sigterm_the_clock_climbs_the_rest() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut run, _) = busy(scratch.path(), "true");
    run.signal(Signal::TERM);
    run.wait_for("still not stopped: cancelling");
    let (code, lines) = run.end();
    assert_eq!(code, Some(143), "{lines}");
}

#[test]
fn a_signal_before_the_graph_runs_is_not_lost() {
    // Everything before the working directory is announced happens with the signals' own meaning, which is to end.
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "empty"]);
    run.wait_for("working in");
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
}
