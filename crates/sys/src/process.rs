//! Child processes: started in a group of their own, read without blocking, stopped as a whole.
//!
//! [`Command`] says what to run; [`Command::spawn`] gives a [`Running`], which is either awaited for its
//! output ([`Running::wait_with`]) or read line by line ([`Running::lines`]).
//!
//! Invariants:
//! - Every command leads its own process group, and signals go to the whole group.
//! - A command has the three standard descriptors and no other: all of ours close when a program is executed, and those that
//!   this process was started with are [kept](keep_inherited_descriptors), too.
//! - A group is signalled only while its leader is not reaped. The leader's pid is the group's number, so the
//!   number cannot have passed to a stranger.
//! - Dropping a [`Running`] kills the group. Nothing we started outlives its owner by accident; what a command
//!   left in the background when it *ended by itself* is the command's business and stays.
//! - A command that says so is recorded while it runs; the next start ends what a killed process could not end, and a
//!   watchdog does at once for the commands of a singleton.
//! - Captured output is bounded; what does not fit is counted, and the pipe is still drained, so that a chatty
//!   command never blocks on us.
//! - Once the leader has ended, only what is already in the pipes is read. A background descendant that keeps
//!   them open cannot hold us.
//!
//! Deliberately absent: `pre_exec`, `uid()` and `gid()`, which make the standard library copy the whole
//! process. Other credentials go through [`exec_as_entry`].

mod descriptors;
mod exec_as;
mod exec_with;
mod lines;
mod records;
mod signal;
mod watchdog;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::Instant;

use crate::unresponsive::{has_served_mounts, unresponsive_mount};

pub use crate::helper::Helper;
pub use descriptors::keep_inherited_descriptors;
pub use exec_as::{Credentials, EXEC_AS, exec_as_entry};
pub use lines::{LINE_LIMIT, Line, LineEvent, Lines};
pub use records::{LeftBehind, Recorded, end_left_behind, keep_records_in};
pub use signal::{Signal, UnknownSignal};
pub use watchdog::{WATCHDOG_GRACE, set_choice_deadline};

/// How many bytes of each stream are kept unless the command says otherwise.
pub const DEFAULT_CAPTURE_LIMIT: usize = 1 << 20;

/// Bytes asked of a pipe in one read: what a pipe holds by default.
const CHUNK: usize = 64 << 10;

/// What to run.
///
/// Standard input is empty, except for [`Command::spawn_listening`]. The environment is exactly `env`.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program and its arguments. A first word without a slash is looked up in this process's own `PATH`.
    pub argv: Vec<OsString>,
    /// Where it runs; unset means where this process runs.
    pub cwd: Option<PathBuf>,
    /// The complete environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Who it runs as; unset means as this process does.
    pub credentials: Option<Credentials>,
    /// How many bytes each captured stream may hold.
    pub capture_limit: usize,
    /// The program that changes credentials.
    pub helper: Helper,
    /// It is killed when the thread ends that has spawned it, and so when this process does, whatever becomes of this
    /// process. Without other credentials only.
    pub with_us: bool,
    /// It is recorded while it runs, so that it does not outlive this process for longer than until the next start. See
    /// [`end_left_behind`].
    pub recorded: Option<Recorded>,
}

impl Command {
    /// A command with no environment, run here, as this process.
    pub fn new<A: Into<OsString>>(argv: impl IntoIterator<Item = A>) -> Command {
        Command {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: None,
            env: BTreeMap::new(),
            credentials: None,
            capture_limit: DEFAULT_CAPTURE_LIMIT,
            helper: Helper::default(),
            with_us: false,
            recorded: None,
        }
    }

    /// A text for a shell: `SHELL -c TEXT`.
    pub fn shell(shell: impl Into<OsString>, text: impl Into<OsString>) -> Command {
        Command::new([shell.into(), OsString::from("-c"), text.into()])
    }

    /// Starts it. Must be called inside a tokio runtime.
    pub fn spawn(&self) -> Result<Running, SpawnError> {
        self.spawn_reading(Stdio::null())
    }

    /// Starts a command that reads from us. Its input ends when the writing end is dropped.
    pub fn spawn_listening(&self) -> Result<(Running, Sender), SpawnError> {
        let failed = |source: io::Error| {
            let program = self.argv.first().map_or_else(String::new, |name| display(name));
            SpawnError::Failed { program, source }
        };
        let (reader, writer) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let running = self.spawn_reading(Stdio::from(reader))?;
        Ok((running, Sender::from_owned_fd(writer).map_err(failed)?))
    }

    /// Where the program is.
    fn program(&self) -> Result<(&OsString, PathBuf), SpawnError> {
        let name = self.argv.first().filter(|name| !name.is_empty()).ok_or(SpawnError::Empty)?;
        if name.as_bytes().contains(&b'/') {
            return Ok((name, PathBuf::from(name)));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = find_program(name, &path)
            .ok_or_else(|| SpawnError::NotFound { program: display(name), path: display(&path) })?;
        Ok((name, found))
    }

    /// Fails if the program or its directory is on a mount whose server does not answer. The thread that starts a command waits for
    /// the new process to find both, and nothing can interrupt that; it is one of few that everything else runs on.
    fn answers(&self, program: &Path) -> Result<(), SpawnError> {
        if !has_served_mounts() {
            return Ok(());
        }
        let here = std::env::current_dir().unwrap_or_default();
        let cwd = self.cwd.as_ref().map(|cwd| here.join(cwd));
        let program = cwd.as_ref().unwrap_or(&here).join(program);
        let places = cwd.iter().chain(std::iter::once(&program));
        match places.map(|place| place.as_os_str().as_bytes()).find_map(unresponsive_mount) {
            Some(mount) => Err(SpawnError::Unresponsive {
                program: display(program.as_os_str()),
                mount: display(OsStr::from_bytes(&mount)),
            }),
            None => Ok(()),
        }
    }

    /// Fails as [`Command::spawn`] would, without starting anything, if the program or its directory is missing, if it cannot be
    /// executed, or if this process may not start it as another user.
    pub fn check(&self) -> Result<(), SpawnError> {
        let (name, program) = self.program()?;
        self.prepared(&program)?;
        self.answers(&program)?;
        if let Some(cwd) = self.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
            return Err(SpawnError::WorkingDirectory {
                program: display(name),
                cwd: display(cwd.as_os_str()),
            });
        }
        let failed = |errno: rustix::io::Errno| {
            Err(SpawnError::Failed { program: display(name), source: errno.into() })
        };
        match std::fs::metadata(&program) {
            // Relative to what is for the kernel to say.
            _ if !program.is_absolute() => Ok(()),
            Err(source) => Err(SpawnError::Failed { program: display(name), source }),
            Ok(found) if found.is_dir() || found.permissions().mode() & 0o111 == 0 => {
                failed(rustix::io::Errno::ACCESS)
            }
            Ok(_) => Ok(()),
        }
    }

    fn spawn_reading(&self, input: Stdio) -> Result<Running, SpawnError> {
        let (name, program) = self.program()?;
        self.answers(&program)?;
        let failed = |source: io::Error| SpawnError::Failed { program: display(name), source };

        if let Some(records) =
            records::directory().filter(|_| self.recorded.iter().any(|it| it.choice.is_some()))
        {
            // Without it, the command is still ended by this process, or at the next start.
            let _ = watchdog::start(self.helper.path(), &records);
        }
        let (stdout, stdout_writer) = pipe().map_err(failed)?;
        let (stderr, stderr_writer) = pipe().map_err(failed)?;
        let mut command = self.prepared(&program)?;
        command.stdin(input).stdout(stdout_writer).stderr(stderr_writer).process_group(0);
        let child = command.spawn().map_err(|source| match &self.cwd {
            Some(cwd) if !cwd.is_dir() => {
                SpawnError::WorkingDirectory { program: display(name), cwd: display(cwd.as_os_str()) }
            }
            _ => failed(source),
        })?;
        // The command holds the writing ends; keeping it would keep the pipes from ever ending.
        drop(command);

        let mut group = Group { child, leader: None };
        group.leader = group.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let Some(leader) = group.leader else { return Err(failed(io::Error::other("no process id"))) };
        let record = match self.recorded.as_ref().map(|recorded| records::Record::write(leader, recorded)) {
            Some(Ok(record)) => record,
            // It runs all the same; what becomes of it is as without a record.
            Some(Err(_)) | None => None,
        };
        let exit = rustix::process::pidfd_open(leader, PidfdFlags::empty()).map_err(|e| failed(e.into()))?;
        Ok(Running {
            group,
            _record: record,
            exit: Receiver::from_owned_fd_unchecked(exit).map_err(failed)?,
            streams: [Stream::new(stdout).map_err(failed)?, Stream::new(stderr).map_err(failed)?],
            buffer: vec![0; CHUNK],
            capture_limit: self.capture_limit,
        })
    }

    /// Program, arguments, environment and directory, through the helper where ids have to change.
    fn prepared(&self, program: &Path) -> Result<tokio::process::Command, SpawnError> {
        let who = self.credentials.as_ref().filter(|who| !who.are_current());
        let mut command = match who {
            None if self.with_us => {
                let mut command = tokio::process::Command::new(self.helper.path());
                command.args(exec_with::arguments(program.as_os_str(), &self.argv));
                command.env_clear().envs(&self.env);
                command
            }
            None => {
                let mut command = tokio::process::Command::new(program);
                command.args(&self.argv[1..]).env_clear().envs(&self.env);
                command.arg0(&self.argv[0]);
                command
            }
            Some(who) if rustix::process::geteuid().is_root() => {
                let mut command = tokio::process::Command::new(self.helper.path());
                command.args(exec_as::arguments(who, program.as_os_str(), &self.argv)).env_clear();
                command.envs(self.env.iter().map(|(name, value)| (exec_as::variable(name), value)));
                command
            }
            // Supplementary groups are root's to set; the ids being right is all others can ask for.
            Some(who) if who.ids_are_current() => {
                return Command { credentials: None, ..self.clone() }.prepared(program);
            }
            Some(who) => {
                return Err(SpawnError::NotRoot {
                    program: display(&self.argv[0]),
                    uid: who.uid,
                    gid: who.gid,
                });
            }
        };
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        Ok(command)
    }
}

/// Why a command did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no program to run.
    #[error("the command is empty, expected the name of a program")]
    Empty,
    /// The program is in no directory of `PATH`.
    #[error("program {program} not found in PATH ({path}); write its full path or install it")]
    NotFound {
        /// What was looked for.
        program: String,
        /// Where.
        path: String,
    },
    /// The working directory is not there.
    #[error("cannot run {program} in {cwd}: it is not a directory")]
    WorkingDirectory {
        /// What was to run.
        program: String,
        /// Where.
        cwd: String,
    },
    /// Only root may run commands as somebody else.
    #[error("cannot run {program} as user {uid}, group {gid}: only root can change user or group")]
    NotRoot {
        /// What was to run.
        program: String,
        /// The wanted user.
        uid: u32,
        /// The wanted group.
        gid: u32,
    },
    /// The program or its directory is on a mount whose server does not answer.
    #[error("cannot run {program}: the file system at {mount} does not answer")]
    Unresponsive {
        /// What was to run.
        program: String,
        /// The mount.
        mount: String,
    },
    /// The system refused.
    #[error("cannot run {program}: {source}")]
    Failed {
        /// What was to run.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A command under way. Dropping it kills the whole group.
#[derive(Debug)]
pub struct Running {
    group: Group,
    /// Goes after the group.
    _record: Option<records::Record>,
    /// The leader's pidfd, readable from its end on and before it is reaped. It is no pipe, but this is the
    /// one safe way to have the runtime watch a descriptor, and only its readiness is used.
    exit: Receiver,
    streams: [Stream; 2],
    buffer: Vec<u8>,
    capture_limit: usize,
}

impl Running {
    /// The pid of the leader, which is also the number of the group.
    pub fn id(&self) -> Option<u32> {
        self.group.leader.map(|pid| pid.as_raw_nonzero().get().cast_unsigned())
    }

    /// Waits for the end and gives all output.
    pub async fn wait(self) -> io::Result<Finished> {
        self.wait_with(std::future::pending(), std::future::pending(), Signal::TERM, None).await
    }

    /// Waits for the end and gives all output, stopping early when asked.
    ///
    /// When `cancel` completes, the group gets `signal`, and SIGKILL once `grace` has passed (with no grace it
    /// may take all the time it wants). When `interrupt` completes, the group gets SIGKILL at once. A command
    /// that was stopped reports [`Status::Cancelled`] or [`Status::Interrupted`] whatever its exit code, and
    /// nothing of its group is left.
    pub async fn wait_with(
        mut self,
        cancel: impl Future<Output = ()>,
        interrupt: impl Future<Output = ()>,
        signal: Signal,
        grace: Option<Duration>,
    ) -> io::Result<Finished> {
        let mut cancel = pin!(cancel);
        let mut interrupt = pin!(interrupt);
        let mut captured = Captured::new(self.capture_limit);
        let mut stopped: Option<Status> = None;
        let mut kill_at: Option<Instant> = None;
        let mut ended = false;
        loop {
            let all_closed = self.streams.iter().all(|stream| stream.closed);
            // A stopped group gets its grace even when the leader went first, as long as somebody holds the
            // pipes; after that, whoever is left is killed while the unreaped leader still guards the number.
            if ended && (all_closed || kill_at.is_none()) {
                break;
            }
            tokio::select! {
                () = &mut interrupt, if stopped != Some(Status::Interrupted) => {
                    stopped = Some(Status::Interrupted);
                    kill_at = None;
                    self.group.signal(Signal::KILL);
                }
                () = &mut cancel, if stopped.is_none() => {
                    stopped = Some(Status::Cancelled);
                    // A grace beyond the end of time is none.
                    kill_at = grace.and_then(|grace| Instant::now().checked_add(grace));
                    self.group.signal(signal);
                }
                () = tokio::time::sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                    kill_at = None;
                    self.group.signal(Signal::KILL);
                }
                exit = leader_ended(&self.exit), if !ended => {
                    exit?;
                    ended = true;
                }
                () = self.streams[0].readable() => captured.take(0, self.streams[0].read(&mut self.buffer)),
                () = self.streams[1].readable() => captured.take(1, self.streams[1].read(&mut self.buffer)),
            }
        }
        if stopped.is_some() {
            self.group.signal(Signal::KILL);
        }
        for (which, stream) in self.streams.iter_mut().enumerate() {
            stream.drain(&mut self.buffer, |bytes| captured.take(which, bytes));
        }
        let own = self.group.reap().await?;
        Ok(captured.finish(stopped.unwrap_or(own)))
    }

    /// Reads the output line by line, for commands that run for long and report as they go.
    pub fn lines(self) -> Lines {
        Lines::new(self)
    }

    /// Sends a signal to the whole group.
    pub fn signal(&mut self, signal: Signal) {
        self.group.signal(signal);
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// By itself, with this exit code.
    Exited(i32),
    /// By a signal that was not ours. The number is kept because not every signal has a name.
    Signaled(i32),
    /// Because its cancellation was asked for.
    Cancelled,
    /// Because an immediate end was asked for.
    Interrupted,
}

impl Status {
    /// Whether it ended by itself with exit code 0.
    pub fn success(self) -> bool {
        self == Status::Exited(0)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Status::Exited(code) => write!(f, "exit status {code}"),
            Status::Signaled(number) => match Signal::from_raw(number) {
                Some(signal) => write!(f, "killed by {signal}"),
                None => write!(f, "killed by signal {number}"),
            },
            Status::Cancelled => f.write_str("cancelled"),
            Status::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// What a command left behind.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How it ended.
    pub status: Status,
    /// Its standard output.
    pub stdout: Capture,
    /// Its standard error.
    pub stderr: Capture,
    /// Both, in the order in which they arrived.
    pub combined: Capture,
}

impl Finished {
    /// Whether some output did not fit.
    pub fn truncated(&self) -> bool {
        self.combined.dropped > 0 || self.stdout.dropped > 0 || self.stderr.dropped > 0
    }
}

/// The head of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    /// What was kept.
    pub bytes: Vec<u8>,
    /// How many bytes did not fit.
    pub dropped: u64,
}

impl Capture {
    /// Whether anything was written at all.
    pub fn written(&self) -> bool {
        !self.bytes.is_empty() || self.dropped > 0
    }

    fn push(&mut self, bytes: &[u8], limit: usize) {
        let room = limit.saturating_sub(self.bytes.len()).min(bytes.len());
        let (kept, dropped) = bytes.split_at(room);
        self.bytes.extend_from_slice(kept);
        self.dropped += dropped.len() as u64;
    }
}

/// Both captured streams and their interleaving.
struct Captured {
    streams: [Capture; 2],
    combined: Capture,
    limit: usize,
}

impl Captured {
    fn new(limit: usize) -> Captured {
        Captured { streams: Default::default(), combined: Capture::default(), limit }
    }

    fn take(&mut self, which: usize, bytes: &[u8]) {
        self.streams[which].push(bytes, self.limit);
        self.combined.push(bytes, self.limit);
    }

    fn finish(self, status: Status) -> Finished {
        let [stdout, stderr] = self.streams;
        Finished { status, stdout, stderr, combined: self.combined }
    }
}

/// The leader, its group, and the right to signal it.
#[derive(Debug)]
struct Group {
    child: tokio::process::Child,
    /// Set exactly while the leader is not reaped.
    leader: Option<Pid>,
}

impl Group {
    fn signal(&mut self, signal: Signal) {
        if let Some(leader) = self.leader {
            // The group may consist of the zombie leader alone; that is no error.
            let _ = rustix::process::kill_process_group(leader, signal.rustix());
        }
    }

    /// Reaps a leader that is known to have ended.
    async fn reap(&mut self) -> io::Result<Status> {
        // Given up first: if this future is dropped half-way, the number is no longer safe to use.
        self.leader = None;
        let status = self.child.wait().await?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => Status::Exited(code),
            (None, signal) => Status::Signaled(signal.unwrap_or_default()),
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The runtime reaps the leader later, when the child itself is dropped.
        self.signal(Signal::KILL);
    }
}

/// Completes once the leader has ended, without reaping it.
async fn leader_ended(exit: &Receiver) -> io::Result<()> {
    use std::os::fd::AsFd;
    loop {
        exit.readable().await?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let seen = exit.try_io(|| match rustix::process::waitid(WaitId::PidFd(exit.as_fd()), options)? {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::WouldBlock.into()),
        });
        match seen {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

/// The reading end of one of the command's pipes.
#[derive(Debug)]
struct Stream {
    pipe: Receiver,
    closed: bool,
}

impl Stream {
    fn new(pipe: std::os::fd::OwnedFd) -> io::Result<Stream> {
        Ok(Stream { pipe: Receiver::from_owned_fd(pipe)?, closed: false })
    }

    /// Completes when [`Stream::read`] has something to say; never after the end.
    async fn readable(&self) {
        if self.closed || self.pipe.readable().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Reads once. Gives nothing at a false alarm and at the end, which it remembers.
    fn read<'a>(&mut self, buffer: &'a mut [u8]) -> &'a [u8] {
        match self.pipe.try_read(buffer) {
            Ok(0) => self.closed = true,
            Ok(length) => return &buffer[..length],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A pipe that cannot be read has nothing more to give.
            Err(_) => self.closed = true,
        }
        &[]
    }

    /// Takes exactly what is in the pipe now: all that the ended leader wrote is there, and a descendant that
    /// keeps writing cannot keep us.
    fn drain(&mut self, buffer: &mut [u8], mut take: impl FnMut(&[u8])) {
        let mut left = rustix::io::ioctl_fionread(&self.pipe).unwrap_or(0);
        while left > 0 && !self.closed {
            let want = usize::try_from(left).unwrap_or(buffer.len()).min(buffer.len());
            // Not through the runtime: its idea of readiness may lag behind.
            match rustix::io::read(&self.pipe, &mut buffer[..want]) {
                Ok(0) => self.closed = true,
                Ok(length) => {
                    take(&buffer[..length]);
                    left = left.saturating_sub(length as u64);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// Looks a program up in the directories of a `PATH`.
///
/// Entries that are empty or relative are skipped: they would mean whatever directory we happen to be in. A
/// name with a slash is not looked up and gives nothing. A directory on a mount whose server does not answer is skipped, too.
pub fn find_program(name: &OsStr, path_var: &OsStr) -> Option<PathBuf> {
    if name.is_empty() || name.as_bytes().contains(&b'/') {
        return None;
    }
    std::env::split_paths(path_var)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD};
    unresponsive_mount(path.as_os_str().as_bytes()).is_none()
        && path.is_file()
        && rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

fn pipe() -> io::Result<(std::os::fd::OwnedFd, Stdio)> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((reader, Stdio::from(writer)))
}

fn display(text: &OsStr) -> String {
    text.as_bytes().escape_ascii().to_string()
}
