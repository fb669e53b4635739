//! Runs the real program.
#![allow(dead_code, reason = "each test file uses its own part of this")]

pub(crate) mod bus;
pub(crate) mod clock;
pub(crate) mod numbers;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Long enough for anything that happens at all, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The program, with an environment in which nothing changes what it does.
pub(crate) fn mgmt(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgmt"));
    plain(command.args(arguments));
    command
}

/// An environment in which nothing changes what a program does.
pub(crate) fn plain(command: &mut Command) {
    command.env_clear().stdin(Stdio::null());
    for name in ["PATH", "HOME", "TMPDIR", "LLVM_PROFILE_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
}

/// What a command that ended has said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        Said {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs to the end.
pub(crate) fn said(arguments: &[&str]) -> Said {
    mgmt(arguments).output().unwrap().into()
}

/// Runs to the end, with a file on standard input.
pub(crate) fn said_with_input(arguments: &[&str], input: &str) -> Said {
    let mut child =
        mgmt(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end without having read anything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap().into()
}

/// A program under way. It is killed when the test ends, however it ends.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    /// Where it makes its temporary files, so that one that is killed leaves nothing behind.
    _temporary: tempfile::TempDir,
}

impl Running {
    pub(crate) fn start(arguments: &[&str]) -> Running {
        Running::start_command(mgmt(arguments))
    }

    pub(crate) fn start_command(mut command: Command) -> Running {
        let temporary = tempfile::tempdir().unwrap();
        command.env("TMPDIR", temporary.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let forward = move |reader: Box<dyn std::io::Read + Send>,
                            sender: std::sync::mpsc::Sender<String>| {
            std::thread::spawn(move || {
                for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
                    let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
                }
            })
        };
        forward(Box::new(stdout), sender.clone());
        forward(Box::new(stderr), sender);
        Running { child, lines, seen: Vec::new(), _temporary: temporary }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that contains `part`, among those that come from now on.
    pub(crate) fn wait_for(&mut self, part: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(error) => panic!("no line with {part:?} ({error}) after:\n{}", self.seen.join("\n")),
            }
        }
    }

    /// What it has said, as far as nobody has waited for it.
    pub(crate) fn said(&self) -> String {
        self.lines.try_iter().collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
        if signal == rustix::process::Signal::STOP {
            wait_until_stopped(id);
        }
    }

    /// Waits for the end of the process alone: commands that it has left behind may hold its streams.
    pub(crate) fn end_killed(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        self.seen.extend(self.lines.try_iter());
        (status.code(), self.seen.join("\n"))
    }

    /// Waits for the end. Gives the exit code and all lines of both streams.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.seen.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("no end after:\n{}", self.seen.join("\n")),
            }
        }
        let status = self.child.wait().unwrap();
        (status.code(), self.seen.join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until every thread of a process is stopped: one that runs a system call stops only at its end.
pub(crate) fn wait_until_stopped(process: rustix::process::Pid) {
    let is_stopped = |path: std::path::PathBuf| {
        let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        // A thread that has ended meanwhile has no state.
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['T', 't', 'Z', 'X']))
    };
    let tasks = format!("/proc/{}/task", process.as_raw_nonzero());
    eventually("the process is stopped", || {
        std::fs::read_dir(&tasks).into_iter().flatten().flatten().all(|task| is_stopped(task.path()))
    });
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a file holds exactly this.
pub(crate) fn holds(path: &Path, content: &str) {
    eventually(&format!("{} holds {content:?}", path.display()), || {
        std::fs::read_to_string(path).is_ok_and(|found| found == content)
    });
}

/// A graph of one file.
pub(crate) fn one_file(path: &Path, content: &str) -> String {
    format!(
        "graph: one\nresources:\n  file:\n  - name: {}\n    content: {content:?}\n    state: exists\n",
        path.display()
    )
}
