//! Commands whose lines are values.

use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use mgmt_sys::process::{Command, LineEvent, Recorded, Signal, Status};
use mgmt_value::Str;

use super::supervisor::SourceEvents;
use crate::program::surroundings::Surroundings;

/// Runs a shell command and tells of each line that it prints. Whatever it has started ends with it, and when nobody asks for its
/// lines any more.
///
/// A command that ends after a line has done its work, whatever its exit code, and its last line stays. It breaks if it cannot be
/// run, ends without a line, or is killed.
pub(super) async fn follow(
    command: Str,
    surroundings: Arc<Surroundings>,
    events: SourceEvents,
) -> Result<(), String> {
    let mut has_printed = false;
    let printed = |line: Str| {
        surroundings.printed(&command, line);
        match std::mem::replace(&mut has_printed, true) {
            false => events.works(),
            true => events.event(),
        }
    };
    let ended = run(&command, printed)
        .await
        .unwrap_or_else(|error| End { how: format!("the command cannot be run: {error}"), is_killed: true });
    if has_printed && !ended.is_killed {
        return Ok(());
    }
    let End { how, .. } = ended;
    if !has_printed {
        surroundings.ended(&command, how.clone());
    }
    Err(how)
}

/// The exit codes by which a shell says that a signal has ended its command.
const SHELL_KILLED: std::ops::RangeInclusive<i32> = 129..=192;

/// The end of a command.
struct End {
    how: String,
    is_killed: bool,
}

async fn run(command: &Str, mut printed: impl FnMut(Str)) -> std::io::Result<End> {
    let mut shell = Command::shell("/bin/sh", std::ffi::OsStr::from_bytes(command));
    shell.env = std::env::vars_os().collect();
    let name = format!("`os.system` {}", command.display());
    shell.recorded = Some(Recorded { name, signal: Signal::TERM, choice: None });
    let mut lines = shell.spawn().map_err(std::io::Error::other)?.lines();
    let (mut complaint, mut without) = (String::new(), " without printing a line");
    loop {
        match lines.next().await? {
            LineEvent::Line(line) if line.stderr => {
                complaint = format!(": {}", String::from_utf8_lossy(&line.bytes));
            }
            LineEvent::Line(line) => {
                without = "";
                printed(Str::new(line.bytes.strip_suffix(b"\r").unwrap_or(&line.bytes)));
            }
            LineEvent::Ended(status) => {
                let is_killed = match status {
                    Status::Exited(code) => SHELL_KILLED.contains(&code),
                    _ => true,
                };
                let how = format!("the command ended{without} ({status}){complaint}");
                return Ok(End { how, is_killed });
            }
            LineEvent::Closed => {
                let how = format!("the command closed its output{without}{complaint}");
                return Ok(End { how, is_killed: false });
            }
        }
    }
}
