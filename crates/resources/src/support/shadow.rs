//! Changing the accounts of this host, with the tools that every distribution has for it.
//!
//! The tools know about locks, numbers that are free, subordinate numbers, mail boxes and backups; nothing of that is
//! done here. Only what a tool would have to be told in its arguments, where everybody could read it, is changed directly:
//! see [`hash`].
//!
//! Invariants
//! - One tool, or one change of our own, at a time in this process, which is a [`Turn`]. Others are kept away by the lock
//!   that all take, and those who do not take it are given time to finish.
//! - A tool gets words, never a text for a shell, and an environment that is always the same.
//! - A tool that has begun comes to its end, unless everything has to stop at once.

pub(crate) mod hash;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant, SystemTime};

use mgmt_resource::{Checked, Context, Effect, Error, Invalid, Result};
use mgmt_sys::process::{Command, Signal, Status, find_program};
use mgmt_value::Str;
use tokio::sync::{Mutex, MutexGuard};

use super::foresee;

/// Where the accounts are.
pub(crate) const PASSWD: &str = "/etc/passwd";
/// Where the groups are.
pub(crate) const GROUP: &str = "/etc/group";

/// What to do about a group that cannot be removed.
pub(crate) const PRIMARY_GROUP_HINT: &str = "give the users of the group another one first; declare them with `state => \"absent\"` if they are to go";

/// Where the tools are, whatever our own `PATH` says.
const DIRECTORIES: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The longest name that the tools take.
const LONGEST_NAME: usize = 32;
/// How much of a complaint is shown.
const LONGEST_COMPLAINT: usize = 1000;

/// How long the files must not have been written before they are changed.
const QUIET: Duration = Duration::from_millis(100);
/// How long that is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is tried to put something right, and how long the pause is.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// An account or a group that is to be as declared.
pub(crate) trait Managed: Sync {
    /// What has to be done. Its text says so as done, for the log.
    type Plan: fmt::Display + Send + Sync;

    /// Looks, and says what has to be done. Nothing if all is right.
    fn plan(&self) -> impl Future<Output = Result<Option<Self::Plan>>> + Send;

    /// What that changes, in words.
    fn effects(&self, plan: &Self::Plan) -> Vec<Effect>;

    /// Does it.
    fn carry_out(
        &self,
        plan: &Self::Plan,
        turn: &mut Turn,
        cx: &Context<'_>,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// Looks, and puts right what is wrong.
///
/// Others change accounts too, between our looking and our doing: then a tool fails, or what it has done is undone. So it is
/// tried a few times, with a pause, in which another resource may bring what was missing.
pub(crate) async fn settle<M: Managed>(managed: &M, cx: &Context<'_>) -> Result<Checked> {
    let Some(plan) = managed.plan().await? else { return Ok(Checked::Right) };
    managed.effects(&plan).into_iter().for_each(|effect| cx.describe(effect.presumed()));
    if !cx.apply {
        // The tools lock the files there, and rename new ones over them.
        foresee::writable_path(cx, "/etc/").map_err(Error::new)?;
        return Ok(Checked::Changed);
    }
    let mut checked = Checked::Right;
    let mut attempt = 1;
    loop {
        let mut turn = Turn::wait(cx).await?;
        let Some(plan) = managed.plan().await? else { return Ok(checked) };
        let failure = match managed.carry_out(&plan, &mut turn, cx).await {
            Ok(()) if managed.plan().await?.is_none() => {
                cx.info(&plan);
                return Ok(Checked::Changed);
            }
            Ok(()) => {
                checked = Checked::Changed;
                Error::new(format_args!("this is done, and has to be done again at once: {plan}")).with_hint(
                    "somebody else may want the opposite, or it comes from elsewhere than /etc: `getent` and `id` tell",
                )
            }
            Err(error) => error,
        };
        if failure.is_cancelled() || attempt == ATTEMPTS {
            return Err(failure);
        }
        attempt += 1;
        drop(turn);
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
        }
    }
}

/// The right to change accounts: no other resource of this process has it, and nobody is in the middle of writing to the
/// files. What was found before has to be looked at again.
pub(crate) struct Turn(MutexGuard<'static, Versions>);

/// The files of accounts as they were; nothing for one that was not there.
type Versions = [Option<(u64, i64, i64)>; FILES.len()];

const FILES: [&str; 4] = [PASSWD, GROUP, hash::SHADOW, "/etc/gshadow"];

/// Holds what the last change of our own has left.
static LEFT: Mutex<Versions> = Mutex::const_new([None; FILES.len()]);

impl Turn {
    /// Waits for it.
    ///
    /// Who truncates a file and writes it anew, as a shell does, has taken all accounts away for a moment. A tool that
    /// replaced the file just then would take them away for ever.
    pub(crate) async fn wait(cx: &Context<'_>) -> Result<Turn> {
        let turn = tokio::select! {
            guard = LEFT.lock() => Turn(guard),
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
        };
        let until = Instant::now() + PATIENCE;
        while !turn.is_quiet() && Instant::now() < until {
            tokio::time::sleep(QUIET / 4).await;
            cx.checkpoint()?;
        }
        cx.checkpoint()?;
        Ok(turn)
    }

    /// Runs a tool, and fails with what it says.
    pub(crate) async fn run(&mut self, tool: &str, arguments: &[OsString], cx: &Context<'_>) -> Result<()> {
        // No tool ends with a negative status.
        self.run_up_to(tool, arguments, -1, cx).await.map(drop)
    }

    /// Runs a tool that has done the main part if it ends with the status `partly`, and then gives what it says.
    pub(crate) async fn run_up_to(
        &mut self,
        tool: &str,
        arguments: &[OsString],
        partly: i32,
        cx: &Context<'_>,
    ) -> Result<Option<String>> {
        let own = std::env::var_os("PATH").unwrap_or_default();
        let program = find_program(OsStr::new(tool), OsStr::new(DIRECTORIES))
            .or_else(|| find_program(OsStr::new(tool), &own))
            .ok_or_else(|| {
                Error::new(format_args!("there is no program {tool} on this host"))
                    .with_hint("install it: the package is mostly called passwd, shadow or shadow-utils")
            })?;
        let argv = std::iter::once(program.into_os_string()).chain(arguments.iter().cloned());
        let mut command = Command::new(argv);
        let environment = [("PATH", DIRECTORIES), ("HOME", "/root"), ("LC_ALL", "C")];
        command.env = environment.map(|(name, value)| (name.into(), value.into())).into();
        let running = command.spawn().map_err(Error::new)?;
        let interrupted = cx.cancel.interrupted();
        let finished = running.wait_with(std::future::pending(), interrupted, Signal::TERM, None).await;
        self.changed();
        let finished = finished.map_err(Error::new)?;
        match finished.status {
            status if status.success() => Ok(None),
            Status::Exited(status) if status == partly => {
                Ok(Some(failure(tool, finished.status, &finished.stderr.bytes).to_string()))
            }
            Status::Cancelled | Status::Interrupted => Err(Error::Cancelled),
            status => Err(failure(tool, status, &finished.stderr.bytes)),
        }
    }

    /// Notes that what the files are now is our own doing.
    pub(crate) fn changed(&mut self) {
        *self.0 = FILES.map(|file| version(file).map(|(version, _)| version));
    }

    /// Whether nobody else has written to the files for a while.
    fn is_quiet(&self) -> bool {
        FILES.iter().zip(self.0.iter()).all(|(file, left)| match version(file) {
            Some((version, _)) if Some(version) == *left => true,
            // A time in the future says nothing; our patience has an end.
            Some((_, written)) => written.elapsed().is_ok_and(|age| age > QUIET),
            None => true,
        })
    }
}

/// What changes with every change of a file, and when it was last written.
fn version(file: &str) -> Option<((u64, i64, i64), SystemTime)> {
    let found = std::fs::metadata(file).ok()?;
    let written = found.modified().ok()?;
    Some(((found.ino(), found.ctime(), found.ctime_nsec()), written))
}

/// Checks what is to be the name of a user or of a group.
pub(crate) fn check_name(what: &str, name: &Str) -> Result<(), String> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    let first = name.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_');
    if first && name.len() <= LONGEST_NAME && name.iter().all(allowed) {
        return Ok(());
    }
    Err(format!(
        "{name:?} is not the name of a {what}: expected at most {LONGEST_NAME} letters, digits, `_` and `-`, with a letter \
         or `_` in front"
    ))
}

/// Checks the number of a user or of a group.
pub(crate) fn check_number(field: &'static str, number: Option<u32>) -> Result<(), Invalid> {
    match number {
        // It means "leave as it is" to the kernel.
        Some(u32::MAX) => Err(Invalid::field(field, format!("the largest number is {}", u32::MAX - 1))),
        _ => Ok(()),
    }
}

fn failure(tool: &str, status: Status, complaint: &[u8]) -> Error {
    let lines = complaint.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let said: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
    let said = said.join(&b"; "[..]);
    let said = Str::new(said.get(..LONGEST_COMPLAINT).unwrap_or(&said));
    let prefix = format!("{tool}: ");
    let text = said.to_text();
    let text = text.strip_prefix(&prefix).unwrap_or(&text);
    let error = match text {
        "" => Error::new(format_args!("{tool} has failed with {status} and says nothing")),
        text => Error::new(format_args!("{tool} has failed: {}", Str::from(text).display())),
    };
    let hint = if text.contains("currently used by process") || text.contains("currently logged in") {
        "end the processes of the user first; `loginctl terminate-user` does"
    } else if text.contains("cannot remove the primary group") {
        PRIMARY_GROUP_HINT
    } else if text.contains("cannot lock") {
        "somebody else is changing accounts; find out who holds /etc/.pwd.lock"
    } else if text.contains("Permission denied") || text.contains("Only root") {
        "run this program as root"
    } else if text.contains("group") && text.contains("does not exist") {
        "declare the group, too"
    } else {
        return error;
    };
    error.with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for fine in ["a", "_a", "www-data", "A1_-", &"a".repeat(32)] {
            assert_eq!(check_name("user", &fine.into()), Ok(()), "{fine}");
        }
        for wrong in ["", "1a", "-a", "a.b", "a$", "a b", "a:b", "a\n", "a\0", "é", "../a", &"a".repeat(33)]
        {
            let refused = check_name("group", &wrong.into()).unwrap_err();
            assert!(refused.contains("is not the name of a group"), "{wrong}: {refused}");
        }
        assert!(check_name("user", &Str::new(b"\xff")).is_err());
    }

    #[test]
    fn a_number_that_means_unchanged_is_refused() {
        assert!(check_number("uid", None).is_ok() && check_number("uid", Some(0)).is_ok());
        assert_eq!(check_number("uid", Some(u32::MAX)).unwrap_err().field, Some("uid"));
    }

    #[test]
    fn a_complaint_is_one_line_that_a_terminal_does_not_obey() {
        let error = failure("useradd", Status::Exited(1), b"useradd: a\x1b[2J\n\nb\n");
        assert_eq!(error.to_string(), "useradd has failed: a\\x1b[2J; b");
        let error =
            failure("userdel", Status::Exited(8), b"userdel: user a is currently used by process 7\n");
        assert!(error.hint().unwrap().contains("end the processes"));
        let error = failure("userdel", Status::Exited(8), b"");
        assert_eq!(error.to_string(), "userdel has failed with exit status 8 and says nothing");
    }
}
