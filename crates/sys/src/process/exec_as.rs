//! Running a command as somebody else, without `fork`.
//!
//! Setting ids between `fork` and `exec` costs a copy of the page tables of the whole daemon. So the daemon
//! starts a small program instead (itself, under a hidden first argument) on the cheap path, and that program
//! changes its own ids and then becomes the command.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;

use rustix::process::{Gid, Uid};

/// The hidden first argument that turns the program into the credential-changing step.
pub const EXEC_AS: &str = "__exec-as";

/// Put before the name of every variable meant for the command, so that nothing in it (`LD_PRELOAD`, say) can
/// act on the step that still runs with the daemon's privileges.
const VARIABLE_PREFIX: &str = "MGMT_EXEC_AS_";

/// Exit code when the ids could not be changed or the program could not be run.
const NOT_RUNNABLE: i32 = 126;
/// Exit code when the program does not exist.
const NOT_FOUND: i32 = 127;

/// Who a command runs as. All three are set; nothing of the daemon's own identity is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups; an empty list clears them.
    pub groups: Vec<u32>,
}

impl Credentials {
    /// Whether this process already runs so.
    pub(super) fn are_current(&self) -> bool {
        let mut wanted = self.groups.clone();
        wanted.sort_unstable();
        let mut have: Vec<u32> =
            rustix::process::getgroups().unwrap_or_default().into_iter().map(Gid::as_raw).collect();
        have.sort_unstable();
        self.ids_are_current() && wanted == have
    }

    /// Whether at least user and group are those of this process.
    pub(super) fn ids_are_current(&self) -> bool {
        rustix::process::geteuid().as_raw() == self.uid && rustix::process::getegid().as_raw() == self.gid
    }
}

/// The arguments after the helper's own name: ids, then the file to run, then its `argv`.
pub(super) fn arguments(who: &Credentials, program: &OsStr, argv: &[OsString]) -> Vec<OsString> {
    let groups: Vec<String> = who.groups.iter().map(u32::to_string).collect();
    let mut arguments = vec![
        OsString::from(EXEC_AS),
        OsString::from(who.uid.to_string()),
        OsString::from(who.gid.to_string()),
        OsString::from(groups.join(",")),
        OsString::from("--"),
        program.to_owned(),
    ];
    arguments.extend(argv.iter().cloned());
    arguments
}

/// The name under which a variable of the command travels through the helper.
pub(super) fn variable(name: &OsStr) -> OsString {
    let mut prefixed = OsString::from(VARIABLE_PREFIX);
    prefixed.push(name);
    prefixed
}

/// Becomes the requested command if this process was started as the credential-changing step.
///
/// Call it first in `main`, while the process has one thread. It returns only when the first argument is not
/// [`EXEC_AS`] or its like for commands that end with us; otherwise the process turns into the command, or ends with status 126 or 127 and one line on
/// standard error.
pub fn exec_as_entry() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let rest = arguments.get(2..).unwrap_or_default();
    let (message, code) = match arguments.get(1) {
        Some(first) if first == EXEC_AS => become_command(rest),
        Some(first) if first == super::exec_with::EXEC_WITH => super::exec_with::become_command(rest),
        _ => return,
    };
    let mut line = message.replace(['\n', '\r'], " ");
    line.push('\n');
    // Standard error may be closed; then there is nobody to tell.
    let _ = std::io::stderr().write_all(line.as_bytes());
    std::process::exit(code);
}

/// Changes ids and executes; comes back only with what went wrong.
fn become_command(arguments: &[OsString]) -> (String, i32) {
    let [uid, gid, groups, separator, program, name, rest @ ..] = arguments else {
        return (format!("{EXEC_AS}: expected UID GID GROUPS -- PROGRAM ARGV..."), NOT_RUNNABLE);
    };
    if separator != "--" {
        return (format!("{EXEC_AS}: expected -- after the ids"), NOT_RUNNABLE);
    }
    let Some((uid, gid, groups)) = read_ids(uid, gid, groups) else {
        return (format!("{EXEC_AS}: the ids are not numbers"), NOT_RUNNABLE);
    };
    // Groups first, user last: each step needs the privilege that the last one gives up. These calls change
    // the calling thread only, which is the only one at this point, and the one that executes.
    let changed = rustix::thread::set_thread_groups(&groups)
        .map_err(|error| format!("cannot set supplementary groups: {error}"))
        .and_then(|()| {
            rustix::thread::set_thread_res_gid(gid, gid, gid)
                .map_err(|error| format!("cannot become group {}: {error}", gid.as_raw()))
        })
        .and_then(|()| {
            rustix::thread::set_thread_res_uid(uid, uid, uid)
                .map_err(|error| format!("cannot become user {}: {error}", uid.as_raw()))
        });
    if let Err(message) = changed {
        return (message, NOT_RUNNABLE);
    }
    let environment = std::env::vars_os().filter_map(|(name, value)| {
        Some((OsStr::from_bytes(name.as_bytes().strip_prefix(VARIABLE_PREFIX.as_bytes())?).to_owned(), value))
    });
    let error =
        std::process::Command::new(program).arg0(name).args(rest).env_clear().envs(environment).exec();
    let code = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE };
    (format!("cannot run {}: {error}", program.as_bytes().escape_ascii()), code)
}

fn read_ids(uid: &OsStr, gid: &OsStr, groups: &OsStr) -> Option<(Uid, Gid, Vec<Gid>)> {
    // The all-ones id means "leave unchanged" to the kernel, which here would mean "stay root".
    let number = |text: &str| text.parse::<u32>().ok().filter(|&id| id != u32::MAX);
    let groups = groups.to_str()?;
    let groups =
        groups.split(',').filter(|text| !text.is_empty()).map(|text| number(text).map(Gid::from_raw));
    let uid = Uid::from_raw(number(uid.to_str()?)?);
    Some((uid, Gid::from_raw(number(gid.to_str()?)?), groups.collect::<Option<Vec<Gid>>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_would_keep_root_are_refused() {
        let read = |uid: &str, gid: &str, groups: &str| {
            read_ids(OsStr::new(uid), OsStr::new(gid), OsStr::new(groups)).is_some()
        };
        assert!(read("1", "2", ""));
        assert!(read("1", "2", "3,4"));
        assert!(!read("4294967295", "2", ""));
        assert!(!read("1", "4294967295", ""));
        assert!(!read("1", "2", "3,4294967295"));
        assert!(!read("", "2", ""));
        assert!(!read("-1", "2", ""));
        assert!(!read("1", "x", ""));
    }
}
