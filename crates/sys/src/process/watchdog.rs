//! Watchdog: ends commands of a singleton when the agent that started them cannot.
//!
//! Another host may start the command of a singleton as soon as the lease of this one has ended. An agent that is killed or
//! stopped past its lease can end nothing itself, so a small process (this program, under a hidden first argument) does. It is
//! started with the first such command, and holds two things through a pipe from the agent: whether the agent is there, and until
//! when each choice counts. When the pipe closes it ends all of the agent's recorded commands that are guarded; when a deadline
//! passes, those that stand under it. Each gets its own signal, and SIGKILL after [`WATCHDOG_GRACE`].
//!
//! It cannot help if it is killed together with the agent, as the kernel does for a whole control group.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::time::{ClockId, clock_gettime};

use super::records;

/// The hidden first argument that turns the program into the watchdog.
pub(super) const WATCHDOG: &str = "__watchdog";
/// How long a command may take to end before it is killed.
pub const WATCHDOG_GRACE: Duration = Duration::from_secs(10);
/// The longest sleep: the time of a sleep stands still while the host is suspended.
const MAX_SLEEP: Duration = Duration::from_secs(1);
/// The watchdog could not do its work.
const FAILED: i32 = 1;

static AGENT: Mutex<Agent> = Mutex::new(Agent { pipe: None, deadlines: BTreeMap::new() });

/// What the agent knows of its watchdog.
struct Agent {
    pipe: Option<File>,
    /// By choice. A watchdog that starts is told all of them before the command does.
    deadlines: BTreeMap<u64, Duration>,
}

fn agent() -> MutexGuard<'static, Agent> {
    AGENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the watchdog for the records of a directory, unless it runs.
pub(super) fn start(program: &Path, records: &Path) -> std::io::Result<()> {
    let mut agent = agent();
    // Writing nothing to a pipe tells nothing, so whether it still runs is asked with a message for no choice.
    if let Some(writer) = &mut agent.pipe
        && write(writer, 0, None).map_or_else(|error| error.kind() == ErrorKind::WouldBlock, |()| true)
    {
        return Ok(());
    }
    // One that does not read must not block the agent.
    let (reader, writer): (OwnedFd, OwnedFd) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let mut command = std::process::Command::new(program);
    command.arg(WATCHDOG).arg(records).arg(std::process::id().to_string()).env_clear().current_dir("/");
    command.stdin(Stdio::from(reader)).stdout(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn()?;
    let mut writer = File::from(writer);
    for (choice, until) in &agent.deadlines {
        write(&mut writer, *choice, Some(*until))?;
    }
    agent.pipe = Some(writer);
    // It ends after this process, or is killed; then somebody has to take its status.
    std::thread::Builder::new().name("mgmt-watchdog".into()).spawn(move || child.wait())?;
    Ok(())
}

/// Until when, by the clock that goes on while the host is suspended, what stands under a choice may run. Without a time it may as
/// long as the agent is there. Nothing happens if no watchdog runs.
pub fn set_choice_deadline(choice: u64, until: Option<Duration>) {
    let mut agent = agent();
    match until {
        Some(until) => agent.deadlines.insert(choice, until),
        None => agent.deadlines.remove(&choice),
    };
    if let Some(writer) = &mut agent.pipe {
        // A watchdog that was killed is started again with the next command.
        let _ = write(writer, choice, until);
    }
}

fn write(writer: &mut File, choice: u64, until: Option<Duration>) -> std::io::Result<()> {
    let until = until.map_or(u64::MAX, |until| u64::try_from(until.as_nanos()).unwrap_or(u64::MAX));
    let mut message = [0; MESSAGE_LEN];
    message[..8].copy_from_slice(&choice.to_ne_bytes());
    message[8..].copy_from_slice(&until.to_ne_bytes());
    // Small enough to be written as a whole.
    writer.write_all(&message)
}

/// A choice and its deadline in nanoseconds.
const MESSAGE_LEN: usize = 16;

/// The watchdog itself; comes back only with what went wrong.
pub(super) fn serve(arguments: &[std::ffi::OsString]) -> (String, i32) {
    let [directory, agent] = arguments else {
        return (format!("{WATCHDOG}: expected DIRECTORY AGENT"), FAILED);
    };
    let (directory, agent) = (PathBuf::from(directory), agent.to_string_lossy().into_owned());
    let input = std::io::stdin();
    let mut deadlines: BTreeMap<u64, Duration> = BTreeMap::new();
    loop {
        let now = boottime();
        let late: Vec<u64> =
            deadlines.iter().filter(|(_, until)| **until <= now).map(|(choice, _)| *choice).collect();
        for choice in late {
            deadlines.remove(&choice);
            end(&directory, &format!("-{agent}-{choice}"), "the lease of its choice has ended");
        }
        let next = deadlines.values().min().map(|until| until.saturating_sub(now).min(MAX_SLEEP));
        let limit = next.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut ready = [PollFd::new(&input, PollFlags::IN)];
        // Interrupted or not, the clock is looked at again.
        let _ = poll(&mut ready, limit.as_ref());
        if ready[0].revents().is_empty() {
            continue;
        }
        let mut message = [0; MESSAGE_LEN];
        // Messages are written as a whole. Nothing is buffered: what is left wakes the next poll.
        match rustix::io::read(&input, &mut message) {
            Ok(MESSAGE_LEN) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => continue,
            Ok(_) | Err(_) => break,
        }
        let (choice, until) = message.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        match number(until) {
            u64::MAX => deadlines.remove(&number(choice)),
            until => deadlines.insert(number(choice), Duration::from_nanos(until)),
        };
    }
    end(&directory, &format!("-{agent}-"), "the agent was killed");
    std::process::exit(0);
}

fn end(directory: &Path, of: &str, why: &str) {
    let is_guarded = |name: &str| name.contains(of) && (of.ends_with('-') || name.ends_with(of));
    match records::end_recorded(directory, WATCHDOG_GRACE, is_guarded) {
        Ok(left) => {
            for records::LeftBehind { name, killed, .. } in left {
                let how = if killed { "killed" } else { "stopped" };
                // Standard error may be closed; then there is nobody to tell.
                let _ = writeln!(std::io::stderr(), "mgmt: {name}: {why}; {how}");
            }
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "mgmt: cannot end commands: {error}");
        }
    }
}

fn boottime() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
