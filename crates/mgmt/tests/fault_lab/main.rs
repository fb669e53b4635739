//! The fault lab: the whole program under faults that a machine can have, against a graph whose end is known.
//!
//! After each fault, and whatever was said of it: every file is the old one or the new one, whole; the program has not
//! panicked and has ended as its table of exit codes says; and the next run, without a fault, ends right and leaves
//! nothing behind. What is failed, and where, follows from `MGMT_SEED`; `MGMT_FAULT_RUNS` says how often. A failure names
//! both, and `cargo xtask faults` runs it longer.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod calls;
#[path = "../common/mod.rs"]
mod common;
mod limits;
mod moments;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Said, said};

/// Files in the graph.
const FILES: usize = 8;

/// A directory with a graph of which the end is known: files, a directory of their own, a link, a file that shall not be,
/// and a command that runs after all of them.
pub(crate) struct Lab {
    home: tempfile::TempDir,
    managed: PathBuf,
    version: usize,
}

impl Lab {
    fn new() -> Lab {
        let home = tempfile::tempdir().unwrap();
        let managed = home.path().join("managed");
        Lab::within(home, managed)
    }

    /// The same, with the managed files somewhere else.
    fn within(home: tempfile::TempDir, managed: PathBuf) -> Lab {
        std::fs::create_dir_all(&managed).unwrap();
        let lab = Lab { home, managed, version: 0 };
        lab.write_graph();
        lab
    }

    /// What differs from now on, so that the next run has work.
    fn next_version(&mut self) {
        self.version += 1;
        self.write_graph();
        std::fs::write(self.managed.join("unwanted"), "x").unwrap();
        let _ = std::fs::remove_file(self.managed.join("done"));
    }

    fn graph(&self) -> PathBuf {
        self.home.path().join("graph.yaml")
    }

    fn write_graph(&self) {
        let at = |name: &str| self.managed.join(name).display().to_string();
        let mut text = "graph: lab\nresources:\n  file:\n".to_owned();
        let _ = writeln!(text, "  - name: {}/\n    state: exists\n    mode: \"0750\"", at("sub"));
        for file in 0..FILES {
            let path = at(&name(file));
            let content = content(self.version, file);
            let _ = writeln!(
                text,
                "  - name: {path}\n    state: exists\n    mode: \"0640\"\n    content: {content:?}"
            );
        }
        let _ = writeln!(text, "  - name: {}\n    state: absent", at("unwanted"));
        let _ = writeln!(text, "  exec:\n  - name: last\n    cmd: /bin/cp {} {}", at(&name(0)), at("done"));
        let _ = writeln!(text, "    creates: {}", at("done"));
        text += "edges:\n";
        for file in 0..FILES {
            let _ = writeln!(
                text,
                "- name: e{file}\n  from: {{kind: file, name: {}}}\n  to: {{kind: exec, name: last}}",
                at(&name(file))
            );
        }
        std::fs::write(self.graph(), text).unwrap();
    }

    /// The arguments of a run that ends when all is done.
    fn arguments(&self) -> Vec<String> {
        let prefix = self.home.path().join("prefix");
        let words = [
            "run",
            "--prefix",
            prefix.to_str().unwrap(),
            "--converger-timeout=0",
            "--converged-exit",
            "yaml",
        ];
        let graph = self.graph();
        words.iter().copied().chain([graph.to_str().unwrap()]).map(str::to_owned).collect()
    }

    /// Fails if a file is neither as before nor as it shall be.
    #[track_caller]
    fn is_whole(&self, told: &str) {
        for file in 0..FILES {
            let Ok(text) = std::fs::read_to_string(self.managed.join(name(file))) else { continue };
            let version = (0..=self.version).find(|version| text == content(*version, file));
            assert!(version.is_some(), "{told}: {} is torn: {text:.80?}", name(file));
        }
    }

    /// Runs without a fault, and looks at everything.
    #[track_caller]
    fn recovers(&self, told: &str) {
        let arguments = self.arguments();
        let run = said(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(run.code, 0, "{told}: the run after it: {}", run.stderr);
        self.is_right(told);
    }

    #[track_caller]
    fn is_right(&self, told: &str) {
        for file in 0..FILES {
            let text = std::fs::read_to_string(self.managed.join(name(file)));
            assert_eq!(text.unwrap(), content(self.version, file), "{told}: {}", name(file));
        }
        let done = std::fs::read_to_string(self.managed.join("done")).unwrap();
        assert_eq!(done, content(self.version, 0), "{told}");
        assert_eq!(names(&self.managed), Self::expected(), "{told}: something is left over or missing");
    }

    fn expected() -> Vec<String> {
        let files = (0..FILES).map(name).filter(|name| !name.contains('/'));
        let mut all: Vec<String> = files.chain(["done", "sub"].map(str::to_owned)).collect();
        all.sort();
        all
    }
}

/// Half of the files are in a directory that is managed, too.
fn name(file: usize) -> String {
    if file.is_multiple_of(2) { format!("file{file}") } else { format!("sub/file{file}") }
}

/// Different in each line, so that a mixture is seen; more than one page.
fn content(version: usize, file: usize) -> String {
    (0..150).fold(String::new(), |mut text, line| {
        let _ = write!(text, "version {version} file {file} line {line} of many;");
        text
    })
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut all: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

/// The end of a program under a fault: an exit code of its own, and words for people.
#[track_caller]
fn has_ended_in_order(told: &str, output: Output) -> Said {
    let killed = std::os::unix::process::ExitStatusExt::signal(&output.status);
    let run = Said::from(output);
    assert_eq!(killed, None, "{told}: {}", run.stderr);
    assert!(matches!(run.code, 0..=2), "{told}: ended with {}: {}", run.code, run.stderr);
    assert!(!run.stderr.contains("panicked"), "{told}: {}", run.stderr);
    if run.code != 0 {
        assert!(run.stderr.contains("error"), "{told}: a failure without a word: {}", run.stderr);
    }
    run
}

/// A program with others before it that set the stage: `prlimit`, `strace`, `unshare`.
fn behind(before: &[&str], lab: &Lab) -> Command {
    let mut command = Command::new(before[0]);
    command.args(&before[1..]).arg(env!("CARGO_BIN_EXE_mgmt")).args(lab.arguments());
    common::plain(&mut command);
    command
}
