//! This program on another host, where it goes on without us.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::binary::{self, Binary};
use crate::launch::{ARRIVAL, INSTALLATION, Place};
use crate::login::{Login, Process, SshError};
use crate::script::{BEGIN, SERVE};
use crate::tunnel::mark;

/// This program on another host, where it goes on without us.
///
/// It has a directory there, with itself, its process id, its log, and its working directory.
#[derive(Clone, Copy)]
pub struct Service<'a> {
    /// Where.
    pub login: &'a Login,
    /// The program: this one, or its path.
    pub program: &'a Path,
    /// Where its directory is. A temporary one is removed when it is stopped.
    pub place: Place,
    /// Install what the program needs there, where it does not run without.
    pub install: bool,
    /// The name of its directory: letters and digits.
    pub name: &'a str,
    /// The words for it. It is also told where its working directory is.
    pub arguments: &'a [String],
}

/// Whether it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Not at all.
    No,
    /// As it is to be.
    Right,
    /// It is another version of the program.
    Other,
}

/// A look at it, and a connection for doing something about it.
pub struct Visit {
    process: Process,
    mark: String,
    binary: Arc<Binary>,
    has_program: bool,
    install: bool,
    /// Whether it runs.
    pub runs: Runs,
}

/// How long it may take to be stopped: it has half of it to end by itself.
const STOPPING: Duration = Duration::from_secs(60);

impl Service<'_> {
    /// Looks at it. That changes nothing there.
    pub async fn visit(&self) -> Result<Visit, SshError> {
        let Service { login, program, place, install, name, arguments } = *self;
        let binary = Binary::find(program).await?;
        let mark = mark();
        let mut words = binary.words(&mark, place, install);
        words.push(name.to_owned());
        words.extend(arguments.iter().cloned());
        let options = ["-o".into(), "ClearAllForwardings=yes".into()];
        let mut process = login.start(&options, &format!("{BEGIN}{SERVE}"), &words).await?;
        let probe = process.answer(&mark).await?;
        let (has_program, state) = binary::fits(login, &probe)?;
        let runs = match state {
            "right" => Runs::Right,
            "other" => Runs::Other,
            _ => Runs::No,
        };
        Ok(Visit { process, mark, binary, has_program, install, runs })
    }
}

impl Visit {
    /// Starts it, after it was copied there if need be.
    pub async fn start(&mut self) -> Result<(), SshError> {
        if !self.has_program {
            self.binary.copy(&mut self.process, &self.mark).await?;
            self.done(ARRIVAL).await?;
        }
        self.process.say("start").await?;
        self.done(if self.install { INSTALLATION } else { ARRIVAL }).await
    }

    /// Stops it.
    pub async fn stop(&mut self) -> Result<(), SshError> {
        self.process.say("stop").await?;
        self.done(STOPPING).await
    }

    /// Waits until it has ended, or until it cannot be known any more.
    pub async fn ended(&mut self) -> Result<(), SshError> {
        self.process.say("await").await?;
        self.process.patience = None;
        self.answer().await
    }

    async fn done(&mut self, patience: Duration) -> Result<(), SshError> {
        self.process.patience = Some(patience);
        self.answer().await
    }

    async fn answer(&mut self) -> Result<(), SshError> {
        let mut log = Vec::new();
        loop {
            let answer = self.process.answer(&self.mark).await.map_err(|error| match log.is_empty() {
                true => error,
                false => SshError {
                    message: format!("{}; its last words: {}", error.message, log.join("; ")),
                    ..error
                },
            })?;
            match answer.strip_prefix("log ") {
                Some(line) => log.push(crate::clean(line.as_bytes())),
                None => return Ok(()),
            }
        }
    }
}

/// The hidden first word that has this program wait for the end of another.
const AWAIT: &str = "__await-exit";

/// Waits for the end of a process, or of standard input, if this process was started for it.
///
/// Call it early in `main`. It returns only if the process was started for something else.
pub fn await_entry() {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_none_or(|word| word != AWAIT) {
        return;
    }
    let process = words.next().and_then(|word| word.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let code = match process.map(await_exit) {
        Some(Ok(())) => 0,
        _ => 1,
    };
    std::process::exit(code);
}

fn await_exit(process: Pid) -> io::Result<()> {
    let process = match pidfd_open(process, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let input = io::stdin();
    loop {
        let mut ends = [PollFd::new(&process, PollFlags::IN), PollFd::new(&input, PollFlags::IN)];
        match poll(&mut ends, None) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
