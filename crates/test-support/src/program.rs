//! Runs the real program.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The variable with the path of the program, by which tests that run again in a sandbox or on a booted host find it.
pub const BINARY: &str = "CARGO_BIN_EXE_mgmt";

/// Long enough for anything that happens at all, on a machine that is busy with other things.
pub const EVENT_TIMEOUT: Duration = Duration::from_secs(120);

/// The program, with an environment in which nothing changes what it does.
pub fn mgmt(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    plain(command.args(arguments));
    command
}

/// The program `mgmt` of this build: where cargo says that it is, or beside the test programs.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os(BINARY) {
        return path.into();
    }
    let tests = std::env::current_exe().unwrap();
    tests.ancestors().nth(2).map(|build| build.join("mgmt")).unwrap()
}

/// An environment in which nothing changes what a program does.
pub fn plain(command: &mut Command) {
    command.env_clear().stdin(Stdio::null());
    for name in ["PATH", "HOME", "TMPDIR", "LLVM_PROFILE_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
}

/// What a command that ended has said.
#[derive(Debug)]
pub struct CommandOutput {
    /// The exit code; -1 after a signal.
    pub code: i32,
    /// Standard output, as text.
    pub stdout: String,
    /// Standard error, as text.
    pub stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> CommandOutput {
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs to the end.
pub fn mgmt_output(arguments: &[&str]) -> CommandOutput {
    mgmt(arguments).output().unwrap().into()
}

/// Runs to the end, with a file on standard input.
pub fn mgmt_output_with_input(arguments: &[&str], input: &str) -> CommandOutput {
    let mut child =
        mgmt(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end without having read anything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap().into()
}

/// A program under way. It is killed when the test ends, however it ends.
pub struct RunningProgram {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    /// Where it makes its temporary files, so that one that is killed leaves nothing behind.
    _temporary: tempfile::TempDir,
}

impl RunningProgram {
    /// Starts the program with these arguments.
    pub fn start(arguments: &[&str]) -> RunningProgram {
        RunningProgram::start_command(mgmt(arguments))
    }

    /// Starts a command, which has a directory for temporary files of its own.
    pub fn start_command(mut command: Command) -> RunningProgram {
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
        RunningProgram { child, lines, seen: Vec::new(), _temporary: temporary }
    }

    /// The process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that contains `part`, among those that come from now on.
    pub fn wait_for(&mut self, part: &str) -> String {
        let until = Instant::now() + EVENT_TIMEOUT;
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
    pub fn said(&self) -> String {
        self.lines.try_iter().collect::<Vec<_>>().join("\n")
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
        if signal == rustix::process::Signal::STOP {
            wait_until_stopped(id);
        }
    }

    /// Waits for the end of the process alone: commands that it has left behind may hold its streams.
    pub fn end_killed(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        self.seen.extend(self.lines.try_iter());
        (status.code(), self.seen.join("\n"))
    }

    /// Waits for the end. Gives the exit code and all lines of both streams.
    pub fn end(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + EVENT_TIMEOUT;
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

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until every thread of a process is stopped: one that runs a system call stops only at its end.
pub fn wait_until_stopped(process: rustix::process::Pid) {
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
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + EVENT_TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not within {EVENT_TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a file holds exactly this.
pub fn holds(path: &Path, content: &str) {
    eventually(&format!("{} holds {content:?}", path.display()), || {
        std::fs::read_to_string(path).is_ok_and(|found| found == content)
    });
}

/// A graph of one file.
pub fn one_file(path: &Path, content: &str) -> String {
    format!(
        "graph: one\nresources:\n  file:\n  - name: {}\n    content: {content:?}\n    state: exists\n",
        path.display()
    )
}
