//! Running a command that ends when this process does, however this process ends.
//!
//! The kernel can be asked for that only by the command itself. So, as for other credentials, a small program is started (this
//! one, under a hidden first argument), which asks and then becomes the command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// The hidden first argument that turns the program into the step that asks.
pub(super) const EXEC_WITH: &str = "__exec-with";

const NOT_RUNNABLE: i32 = 126;

/// The arguments after the helper's own name: who has to live, then the file to run, then its `argv`.
pub(super) fn arguments(program: &OsStr, argv: &[OsString]) -> Vec<OsString> {
    let parent = rustix::process::getpid().as_raw_nonzero().get();
    let mut arguments = vec![
        OsString::from(EXEC_WITH),
        OsString::from(parent.to_string()),
        OsString::from("--"),
        program.to_owned(),
    ];
    arguments.extend(argv.iter().cloned());
    arguments
}

/// Asks, and executes; comes back only with what went wrong.
pub(super) fn become_command(arguments: &[OsString]) -> (String, i32) {
    let [parent, separator, program, name, rest @ ..] = arguments else {
        return (format!("{EXEC_WITH}: expected PARENT -- PROGRAM ARGV..."), NOT_RUNNABLE);
    };
    let parent = parent.to_str().and_then(|text| text.parse().ok()).and_then(Pid::from_raw);
    if separator != "--" || parent.is_none() {
        return (format!("{EXEC_WITH}: expected a process and --"), NOT_RUNNABLE);
    }
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return (format!("cannot ask to end with the parent: {error}"), NOT_RUNNABLE);
    }
    // It may have ended before we asked, and then nobody tells us.
    if getppid() != parent {
        return ("the parent has ended".to_owned(), NOT_RUNNABLE);
    }
    let error = std::process::Command::new(program).arg0(name).args(rest).exec();
    (format!("cannot run {}: {error}", program.as_bytes().escape_ascii()), NOT_RUNNABLE)
}
