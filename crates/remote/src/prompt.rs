//! Passwords: who is asked for them, and how they get to ssh.
//!
//! An ssh of ours has no terminal to ask at. It starts this program instead ([`ask_entry`]), which asks the process that
//! has started ssh. So questions for several hosts come one after the other, and a password passes neither a file nor the
//! words of a command.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;
use tokio::task::JoinHandle;

use crate::login::SshError;
use crate::{Target, clean};

/// Where the one who asks listens, for the program that ssh starts.
const VARIABLE: &str = "MGMT_SSH_ASK";

/// What is done when a password is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts {
    /// People may be asked at the terminal.
    pub interactive: bool,
    /// How long one may think about it.
    pub timeout: Option<Duration>,
    /// How often one may try; as often as the host allows if there is none.
    pub tries: Option<u32>,
    /// The program whose `main` calls [`ask_entry`]; this one if there is none.
    pub program: Option<PathBuf>,
}

/// One question at a time, whoever has it.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The longest question, and the longest answer.
const LONGEST: usize = 4 << 10;

impl Prompts {
    /// Whether there can be a question at all.
    pub(crate) fn may_be_asked(&self, target: &Target) -> bool {
        self.interactive || target.password.is_some()
    }

    pub(crate) fn tries(&self) -> u32 {
        const MANY: u32 = 100;
        match (self.interactive, self.tries) {
            (true, Some(tries)) => tries.max(1),
            (true, None) => MANY,
            (false, _) => 1,
        }
    }
}

/// Answers questions until it is dropped.
pub(crate) struct Asking(JoinHandle<()>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Has an ssh ask us.
pub(crate) fn serve(prompts: &Prompts, target: &Target, command: &mut Command) -> Result<Asking, SshError> {
    let failed =
        |error: io::Error| SshError::new(format!("cannot prepare to be asked for a password: {error}"));
    let name =
        format!("mgmt-ask-{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1));
    let listener = SocketAddr::from_abstract_name(&name)
        .and_then(|address| StdListener::bind_addr(&address))
        .map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = UnixListener::from_std(listener).map_err(failed)?;
    let program = match &prompts.program {
        Some(program) => OsString::from(program),
        // Names the running program even after it was replaced on disk.
        None => format!("/proc/{}/exe", std::process::id()).into(),
    };
    command.env("SSH_ASKPASS", program).env("SSH_ASKPASS_REQUIRE", "force").env(VARIABLE, name);
    let (prompts, target) = (prompts.clone(), target.clone());
    Ok(Asking(tokio::spawn(async move {
        let mut password = target.password.clone();
        while let Ok((stream, _)) = listener.accept().await {
            let own = rustix::process::geteuid().as_raw();
            if stream.peer_cred().is_ok_and(|peer| peer.uid() == own)
                && let Err(error) = answer(stream, &prompts, &target, &mut password).await
            {
                tracing::debug!("a question of ssh: {error}");
            }
        }
    })))
}

async fn answer(
    mut stream: UnixStream,
    prompts: &Prompts,
    target: &Target,
    password: &mut Option<String>,
) -> io::Result<()> {
    let mut question = Vec::new();
    (&mut stream).take(LONGEST as u64).read_to_end(&mut question).await?;
    let question = clean(&question);
    // The password that was given answers the first question for one.
    let is_for_password = question.to_ascii_lowercase().contains("password");
    let text = match password.take_if(|_| is_for_password) {
        Some(password) => Some(password),
        None if prompts.interactive => {
            let _turn = TURN.lock().await;
            from_person(format!("{target}: {question}"), prompts.timeout).await?
        }
        None => None,
    };
    if let Some(text) = text {
        stream.write_all(text.as_bytes()).await?;
        stream.write_all(b"\n").await?;
    }
    Ok(())
}

/// Asks at the terminal. What is typed is not shown.
async fn from_person(question: String, timeout: Option<Duration>) -> io::Result<Option<String>> {
    /// Ends the waiting when nobody wants the answer any more.
    struct Unwanted(Arc<AtomicBool>);
    impl Drop for Unwanted {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let flag = Arc::new(AtomicBool::new(false));
    let _unwanted = Unwanted(Arc::clone(&flag));
    tokio::task::spawn_blocking(move || ask_at_terminal(&question, timeout, &flag))
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn ask_at_terminal(
    question: &str,
    timeout: Option<Duration>,
    unwanted: &AtomicBool,
) -> io::Result<Option<String>> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let before = tcgetattr(&terminal)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
    let answer = read_answer(&mut terminal, question, timeout, unwanted);
    let restored = tcsetattr(&terminal, OptionalActions::Flush, &before);
    let _ = terminal.write_all(b"\n");
    restored?;
    answer
}

fn read_answer(
    terminal: &mut File,
    question: &str,
    timeout: Option<Duration>,
    unwanted: &AtomicBool,
) -> io::Result<Option<String>> {
    const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let separator = if question.ends_with(' ') { "" } else { " " };
    terminal.write_all(format!("{question}{separator}").as_bytes())?;
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        if unwanted.load(Ordering::Relaxed) || until.is_some_and(|until| Instant::now() >= until) {
            return Ok(None);
        }
        let mut ready = [PollFd::new(terminal, PollFlags::IN)];
        match poll(&mut ready, Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => break,
            Err(error) => return Err(error.into()),
        }
    }
    // A terminal gives a whole line, or the end.
    let mut line = vec![0; LONGEST];
    let length = terminal.read(&mut line)?;
    let line = line.get(..length).unwrap_or_default();
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    Ok(Some(String::from_utf8_lossy(line).into_owned()).filter(|_| length > 0))
}

/// Becomes the one who passes on a question of ssh, if this process was started for it.
///
/// Call it early in `main`. It returns only if the process was started for something else.
pub fn ask_entry() {
    let Some(name) = std::env::var_os(VARIABLE) else { return };
    let mut words = std::env::args_os().skip(1);
    let question = words.next().unwrap_or_default();
    let code = match pass_on(&name, question.as_encoded_bytes()) {
        Ok(()) => 0,
        Err(_) => 1,
    };
    std::process::exit(code);
}

fn pass_on(name: &std::ffi::OsStr, question: &[u8]) -> io::Result<()> {
    let address = SocketAddr::from_abstract_name(name.as_encoded_bytes())?;
    let mut stream = StdStream::connect_addr(&address)?;
    stream.write_all(question)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.take(LONGEST as u64 * 2).read_to_end(&mut answer)?;
    if answer.is_empty() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    io::stdout().write_all(&answer)
}
