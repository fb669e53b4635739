//! Asking a command about new content.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mgmt_resource::Needed;
use mgmt_sys::error::Escaped;
use mgmt_sys::replace::Replacement;

use super::check::Run;
use super::content::Place;
use super::trouble::{Result, Trouble};

/// How long the command may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long it takes, at most, to see that it has ended.
const PAUSE: Duration = Duration::from_millis(20);
/// How much of what it says is told.
const LONGEST: u64 = 2000;
const SHELL: &str = "/bin/sh";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Fails unless the command finds the new content right.
pub(super) fn ask(run: &Run<'_, '_>, place: &Place<'_>, new: &Replacement<'_>) -> Result<()> {
    let Some(path) = new.staged_path() else {
        return Err(Trouble::new("new content cannot be validated where it cannot be put beside the old"));
    };
    // The command gets the path in a variable, so that nothing in it can mean anything to the shell.
    let text = run.wish.file.validatecmd.to_vec();
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'%').collect();
    let line = parts.join(&b"\"$MGMT_FILE\""[..]);
    let mut said =
        tempfile().map_err(|error| Trouble::new(format_args!("cannot run `validatecmd`: {error}")))?;
    let output = || said.try_clone().map(Stdio::from).unwrap_or_else(|_| Stdio::null());
    let started = Command::new(SHELL)
        .arg("-c")
        .arg(OsStr::from_bytes(&line))
        .env_clear()
        .envs([("PATH", PATH), ("LANG", "C"), ("LC_ALL", "C")])
        .env("MGMT_FILE", OsStr::from_bytes(&path))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output())
        .process_group(0)
        .spawn();
    let mut child =
        started.map_err(|error| Trouble::new(format_args!("cannot run `validatecmd`: {error}")))?;
    let status = wait(run, &mut child)?;
    if status.success() {
        return Ok(());
    }
    let mut text = Vec::new();
    let _ = std::io::Seek::rewind(&mut said);
    let _ = (&said).take(LONGEST).read_to_end(&mut text);
    Err(Trouble::new(format_args!(
        "the new content of {} is not put in place: `validatecmd` ends with {status}: {}",
        Escaped(place.path),
        String::from_utf8_lossy(&text).trim()
    )))
}

/// While a plan is made: fails if the command names a program by its path that is not there.
pub(super) fn foresee(run: &Run<'_, '_>) -> Result<()> {
    let Some(program) = program(&run.wish.file.validatecmd) else { return Ok(()) };
    let is_there = std::fs::metadata(OsStr::from_bytes(program)).is_ok();
    if run.cx.apply || run.cx.foreseen.is_none() || is_there || run.cx.may_come(Needed::Path(program)) {
        return Ok(());
    }
    Err(Trouble::new(format_args!("`validatecmd`: there is no program {}", Escaped(program))))
}

/// The path of the program that the command begins with, where that is plain to see.
fn program(command: &[u8]) -> Option<&[u8]> {
    let word = command.trim_ascii_start().split(u8::is_ascii_whitespace).next()?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(byte);
    (word.starts_with(b"/") && word.iter().all(is_plain)).then_some(word)
}

/// What the command says goes into a file without a name, so that nobody has to read while it runs.
fn tempfile() -> std::io::Result<std::fs::File> {
    let fd = rustix::fs::memfd_create("mgmt-validation", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(fd.into())
}

fn wait(run: &Run<'_, '_>, child: &mut Child) -> Result<std::process::ExitStatus> {
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(error) => return Err(Trouble::new(format_args!("cannot wait for `validatecmd`: {error}"))),
        }
        let stopped = run.cx.checkpoint();
        if stopped.is_err() || Instant::now() > until {
            if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = child.wait();
            stopped?;
            return Err(Trouble::new(format_args!(
                "`validatecmd` has not ended after {} s, and was stopped",
                PATIENCE.as_secs()
            )));
        }
        std::thread::sleep(PAUSE);
    }
}
