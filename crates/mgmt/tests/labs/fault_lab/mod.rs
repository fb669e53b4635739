//! The fault lab: the whole program under faults that a machine can have, against a graph whose end is known.
//!
//! After each fault, and whatever was said of it: every file is the old one or the new one, whole, with its mode; the
//! program has not panicked and has ended as its table of exit codes says: with 0 only if everything is right, else with
//! words for what went wrong; and the next run, without a fault, ends right and leaves nothing behind, neither among the
//! managed files, nor in its own directory, nor a process. What is failed, and where, follows from `MGMT_SEED`;
//! `MGMT_FAULT_RUNS` says how often. A failure names both, and `cargo xtask faults` runs it longer.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

use mgmt_test_support::program;
mod calls;
mod disk;
mod events;
mod habits;
mod limits;
mod memory;
mod moments;

use std::cell::OnceCell;
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mgmt_test_support::program::{CommandOutput, eventually, mgmt_output};

/// Files in the graph.
const FILES: usize = 8;

/// How often something random happens: what `MGMT_FAULT_RUNS` says, or what suits a test.
pub(crate) fn runs(otherwise: usize) -> usize {
    std::env::var("MGMT_FAULT_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(otherwise)
}

/// A directory with a graph of which the end is known: files, a directory of their own, a link, a file that shall not be,
/// and a command that runs after all of them.
pub(crate) struct TestEnv {
    home: tempfile::TempDir,
    managed: PathBuf,
    version: usize,
    /// What a run in which nothing failed leaves in its own directory.
    prefix: OnceCell<Vec<String>>,
}

impl TestEnv {
    fn new() -> TestEnv {
        let home = tempfile::tempdir().unwrap();
        let managed = home.path().join("managed");
        std::fs::create_dir_all(&managed).unwrap();
        let lab = TestEnv { home, managed, version: 0, prefix: OnceCell::new() };
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
        let _ = writeln!(
            text,
            "  - name: {}\n    state: exists\n    symlink: true\n    source: {}",
            at("link"),
            target(self.version)
        );
        let _ = writeln!(text, "  - name: {}\n    state: absent", at("unwanted"));
        let _ = writeln!(text, "  exec:\n  - name: last\n    cmd: /bin/ln {} {}", at(&name(0)), at("done"));
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
        let prefix = self.own_directory();
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

    fn own_directory(&self) -> PathBuf {
        self.home.path().join("prefix")
    }

    /// Fails if a file is neither as before nor as it shall be. Everything was there once, and is never gone.
    #[track_caller]
    fn is_whole(&self, told: &str) {
        for file in 0..FILES {
            let path = self.managed.join(name(file));
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
                panic!("{told}: {} is gone: {error}", name(file));
            });
            let version = (0..=self.version).find(|version| text == content(*version, file));
            assert!(version.is_some(), "{told}: {} is torn: {text:.80?}", name(file));
            assert_eq!(mode(&path), 0o640, "{told}: the mode of {}", name(file));
        }
        let link = std::fs::read_link(self.managed.join("link"));
        let link = link.unwrap_or_else(|error| panic!("{told}: the link is gone: {error}"));
        assert!([target(0), target(1)].contains(&link.to_str().unwrap()), "{told}: a link to {link:?}");
        assert_eq!(mode(&self.managed.join("sub")), 0o750, "{told}: the mode of the directory");
    }

    /// Runs without a fault, and looks at everything.
    #[track_caller]
    fn recovers(&mut self, told: &str) {
        self.runs_right(told);
        // What could not be removed when its file had been replaced goes when its directory is written to again.
        if found(&self.managed).iter().any(|entry| entry.contains(".mgmt-")) {
            self.next_version();
            self.runs_right(told);
        }
        let all = found(&self.managed);
        assert_eq!(all, expected(), "{told}: something is left over or missing");
        let own = found(&self.own_directory());
        assert_eq!(&own, self.prefix.get_or_init(|| own.clone()), "{told}: in its own directory");
        self.has_left_no_process(told);
    }

    #[track_caller]
    fn runs_right(&self, told: &str) {
        let arguments = self.arguments();
        let run = mgmt_output(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(run.code, 0, "{told}: the run after it: {}", run.stderr);
        self.is_right(told);
    }

    #[track_caller]
    fn is_right(&self, told: &str) {
        for file in 0..FILES {
            let text = std::fs::read_to_string(self.managed.join(name(file)));
            assert_eq!(text.unwrap(), content(self.version, file), "{told}: {}", name(file));
        }
        let link = std::fs::read_link(self.managed.join("link")).unwrap();
        assert_eq!(link.to_str(), Some(target(self.version)), "{told}: the link");
        assert!(!self.managed.join("unwanted").exists(), "{told}: what is unwanted is there");
        let done = std::fs::read_to_string(self.managed.join("done")).unwrap();
        assert_eq!(done, content(self.version, 0), "{told}: what the command has made");
        self.is_whole(told);
    }

    /// Whatever was started has the paths of the lab in its arguments.
    #[track_caller]
    fn has_left_no_process(&self, told: &str) {
        let home = self.home.path().to_str().unwrap();
        eventually(&format!("{told}: no process is left"), || {
            let ids = std::fs::read_dir("/proc")
                .unwrap()
                .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
            let arguments = |id| std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            !ids.into_iter().any(|id| String::from_utf8_lossy(&arguments(id)).contains(home))
        });
    }

    /// The end of a program under a fault: an exit code of its own, which is 0 if all is right and only then, and words
    /// for people, with one of `words` or a path in them.
    #[track_caller]
    fn has_ended_in_order(&self, told: &str, output: Output, words: &[&str]) -> CommandOutput {
        let run = in_order(told, output);
        if run.code == 0 {
            self.is_right(&format!("{told}, and it ended with 0: {}", run.stderr));
        } else {
            let home = self.home.path().to_str().unwrap();
            let is_named = |line: &str| words.iter().chain([&home]).any(|word| line.contains(word));
            let complaints = || run.stderr.lines().filter(|line| line.contains("error"));
            assert!(complaints().any(is_named), "{told}: a failure without {words:?}: {}", run.stderr);
        }
        self.is_whole(told);
        run
    }
}

/// Half of the files are in a directory that is managed, too.
fn name(file: usize) -> String {
    if file.is_multiple_of(2) { format!("file{file}") } else { format!("sub/file{file}") }
}

/// What the link leads to.
fn target(version: usize) -> &'static str {
    if version.is_multiple_of(2) { "file0" } else { "sub/file1" }
}

/// Different in each line, so that a mixture is seen; more than one page.
fn content(version: usize, file: usize) -> String {
    (0..150).fold(String::new(), |mut text, line| {
        let _ = write!(text, "version {version} file {file} line {line} of many;");
        text
    })
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// Everything below a directory, with its mode: how much history there is depends on what was done.
fn found(directory: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.parent().is_some_and(|parent| parent.ends_with("history")) {
                continue;
            }
            all.push(format!("{:o} {}", mode(&path), path.strip_prefix(directory).unwrap().display()));
            if std::fs::symlink_metadata(&path).unwrap().is_dir() {
                waiting.push(path);
            }
        }
    }
    all.sort();
    all
}

/// What is among the managed files in the end.
fn expected() -> Vec<String> {
    let files = (0..FILES).map(|file| format!("640 {}", name(file)));
    let mut all: Vec<String> = files.chain(["640 done", "777 link", "750 sub"].map(str::to_owned)).collect();
    all.sort();
    all
}

/// An end that the program has chosen itself, with words for people if something was wrong.
#[track_caller]
fn in_order(told: &str, output: Output) -> CommandOutput {
    let killed = std::os::unix::process::ExitStatusExt::signal(&output.status);
    let run = CommandOutput::from(output);
    assert_eq!(killed, None, "{told}: {}", run.stderr);
    assert!(matches!(run.code, 0..=2), "{told}: ended with {}: {}", run.code, run.stderr);
    assert!(!run.stderr.contains("panicked"), "{told}: {}", run.stderr);
    assert!(
        run.code == 0 || run.stderr.contains("error"),
        "{told}: a failure without a word: {}",
        run.stderr
    );
    run
}

/// A program with others before it that set the stage: `prlimit`, `strace`, `unshare`.
fn behind(before: &[&str], lab: &TestEnv) -> Command {
    let mut command = Command::new(before[0]);
    command.args(&before[1..]).arg(env!("CARGO_BIN_EXE_mgmt")).args(lab.arguments());
    program::plain(&mut command);
    command
}
