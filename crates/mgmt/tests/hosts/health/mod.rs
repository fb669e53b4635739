//! Health: what `mgmt status`, the metrics, the service manager and the exit codes say is true.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod exit_codes;
mod hosts;
mod one_host;
mod servers;

use std::path::{Path, PathBuf};

use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, mgmt_output};
use serde_json::Value;
use tempfile::TempDir;

/// A directory with the files of a test, and the working directory of one agent.
struct TestEnv(TempDir);

impl TestEnv {
    fn new() -> TestEnv {
        TestEnv(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.at(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs a program as the host `h1`.
    fn run(&self, flags: &[&str], program: &str) -> RunningProgram {
        let (prefix, program) = (self.text("prefix"), self.write("main.mcl", program));
        let mut all = vec!["run", "--prefix", &prefix, "--hostname", "h1"];
        all.extend(flags);
        all.extend(["lang", &program]);
        RunningProgram::start(&all)
    }

    fn status(&self) -> CommandOutput {
        mgmt_output(&["status", "--prefix", &self.text("prefix")])
    }

    fn json(&self) -> Value {
        let said = mgmt_output(&["--json", "status", "--prefix", &self.text("prefix")]);
        serde_json::from_str(said.stdout.lines().next().unwrap_or("null")).unwrap()
    }

    /// Waits until the status has all these parts, and gives it.
    fn status_has(&self, parts: &[&str]) -> CommandOutput {
        let mut last = self.status();
        eventually(&format!("{parts:?}"), || {
            last = self.status();
            parts.iter().all(|part| last.stdout.contains(part))
        });
        last
    }
}

fn file(path: &Path, more: &str) -> String {
    format!("file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => \"x\",\n{more}\n}}\n", path.display())
}

/// Declares a file with a content, which is an expression.
fn content(path: &Path, content: &str) -> String {
    format!("file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => {content},\n}}\n", path.display())
}

fn finish(run: RunningProgram) -> String {
    run.signal(rustix::process::Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    lines
}
