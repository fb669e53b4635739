//! Running one of the commands.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use mgmt_resource::{Cancel, Context, Error, Host, Id, Result};
use mgmt_sys::process::{
    Capture, Command, Credentials, Finished, Recorded, Running, Signal, SpawnError, Status,
};
use mgmt_value::Str;

use super::{Exec, Outputs};
use crate::support::account;

/// How much of a stream is kept. What is longer is not sent: half a value is worse than none.
const CAPTURE: usize = 16 << 20;
/// Between the signal that asks a command to stop and the one that makes it.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// How many lines of each stream are logged, the last ones.
const LOGGED_LINES: usize = 50;
/// How much of a line is logged.
const LOGGED_BYTES: usize = 1000;
/// How often, and after which pause, a program that is just being written is tried again.
const BUSY: (u32, Duration) = (20, Duration::from_millis(25));

/// Shells that find a program as everybody does.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// Words that these shells understand themselves.
const SHELL_WORDS: [&str; 71] = [
    ".", ":", "[", "alias", "autoload", "bg", "bind", "break", "builtin", "caller", "case", "cd", "command",
    "compgen", "complete", "continue", "declare", "dirs", "disown", "do", "done", "echo", "elif", "else",
    "enable", "esac", "eval", "exec", "exit", "export", "false", "fc", "fg", "fi", "for", "function",
    "getopts", "hash", "help", "history", "if", "in", "jobs", "kill", "let", "local", "logout", "popd",
    "print", "printf", "pushd", "pwd", "read", "readonly", "return", "select", "set", "shift", "shopt",
    "source", "suspend", "test", "then", "time", "times", "trap", "true", "type", "typeset", "ulimit",
    "until",
];

/// One of the commands of a resource, as it is declared.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandLine<'a> {
    pub(super) field: &'static str,
    pub(super) text: &'a Str,
    pub(super) args: &'a [Str],
    pub(super) shell_field: &'static str,
    pub(super) shell: &'a Str,
    pub(super) cwd: &'a Str,
}

impl<'a> CommandLine<'a> {
    /// A command that may be left out.
    pub(super) fn declared(
        field: &'static str,
        text: &'a Str,
        shell_field: &'static str,
        shell: &'a Str,
        cwd: &'a Str,
    ) -> Option<CommandLine<'a>> {
        (!text.is_empty()).then_some(CommandLine { field, text, args: &[], shell_field, shell, cwd })
    }

    /// The words of the text.
    pub(super) fn words(&self) -> Vec<Str> {
        match self.text.as_str() {
            Some(text) => text.split_whitespace().map(Str::from).collect(),
            None => {
                let words = self.text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
                words.map(Str::from).collect()
            }
        }
    }

    /// The program that is started.
    pub(super) fn program(&self) -> Option<Str> {
        if self.shell.is_empty() { self.words().into_iter().next() } else { Some(self.shell.clone()) }
    }

    /// The same without the shell, if that only starts one program with plain words.
    pub(super) fn without_shell(&self) -> Option<CommandLine<'a>> {
        static NO_SHELL: Str = Str::EMPTY;
        let shell = self.shell.as_str()?.rsplit('/').next()?;
        let text = self.text.as_str()?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || " ._-/:,+@=%".contains(letter);
        let first = text.split_whitespace().next()?;
        let starts_program = SHELLS.contains(&shell)
            && text.chars().all(is_plain)
            && !first.contains('=')
            && !SHELL_WORDS.contains(&first);
        starts_program.then_some(CommandLine { shell: &NO_SHELL, args: &[], ..*self })
    }

    fn argv(&self) -> Vec<OsString> {
        let text = |text: &Str| OsString::from_vec(text.to_vec());
        if !self.shell.is_empty() {
            return vec![text(self.shell), "-c".into(), text(self.text)];
        }
        self.words().iter().chain(self.args).map(text).collect()
    }

    /// What is to be run, with everything that is declared for all commands of the resource.
    pub(super) fn command(&self, exec: &Exec, id: &Id, who: Option<Credentials>, host: &Host) -> Command {
        let text = |text: &Str| OsStr::from_bytes(text).to_owned();
        let mut command = Command::new(self.argv());
        command.cwd = (!self.cwd.is_empty()).then(|| self.cwd.as_path().to_owned());
        command.env = exec.env.reveal().0.iter().map(|(name, value)| (text(name), text(value))).collect();
        command.credentials = who;
        command.capture_limit = CAPTURE;
        command.helper = host.helper.clone();
        // What is no signal is told by the validation.
        let signal = exec.signal().unwrap_or(Signal::TERM);
        command.recorded = Some(Recorded { name: format!("{id} `{}`", self.field), signal, choice: None });
        command
    }

    /// The error for a command that did not start.
    pub(super) fn not_started(&self, error: &SpawnError) -> Error {
        let failed = Error::new(error).context(format_args!("`{}`", self.field));
        match self.shell_hint() {
            Some(hint) => failed.with_hint(hint),
            None => failed,
        }
    }

    /// What may help a person whose command ended with this status.
    pub(super) fn hint(&self, exec: &Exec, status: Status) -> Option<String> {
        if status != Status::Exited(127) {
            return self.shell_hint();
        }
        Some(if exec.env.reveal().0.contains_key(&b"PATH"[..]) {
            "status 127 means that a program was not found; check its spelling, and `PATH` in `env`".into()
        } else {
            "status 127 means that a program was not found: a command has no PATH unless `env` sets one; write full \
             paths, or set `PATH` in `env`, to \"/usr/sbin:/usr/bin:/sbin:/bin\" for example"
                .into()
        })
    }

    /// For a text that looks as if it were meant for a shell, and has none.
    fn shell_hint(&self) -> Option<String> {
        let meant = self.shell.is_empty() && self.text.iter().any(|byte| b"\"'|<>$;&*`~".contains(byte));
        meant.then(|| {
            format!(
                "without a shell `{}` is split at whitespace, and quotes, pipes, variables and the like mean nothing; \
                 set `{}` to \"/bin/sh\" to have them",
                self.field, self.shell_field
            )
        })
    }
}

/// Runs the commands of one resource during one check.
pub(super) struct Runner<'a> {
    exec: &'a Exec,
    id: &'a Id,
    cancel: &'a Cancel,
    host: &'a Host,
    /// Who the commands run as, once it has been looked up.
    who: Option<Option<Credentials>>,
}

/// What a guard said.
pub(super) struct Answer {
    pub(super) code: i32,
    pub(super) finished: Finished,
}

impl<'a> Runner<'a> {
    pub(super) fn new(exec: &'a Exec, cx: &Context<'a>) -> Runner<'a> {
        Runner { exec, id: cx.id, cancel: cx.cancel, host: cx.host, who: None }
    }

    /// Runs the command itself, which may have other ways to succeed.
    pub(super) async fn run_main(&mut self, line: &CommandLine<'_>) -> Result<Finished> {
        if self.exec.returns.is_empty() {
            return self.run_through(line).await;
        }
        let finished = self.run(line).await?;
        let expected = |code: &u8| finished.status == Status::Exited(i32::from(*code));
        if self.exec.returns.iter().any(expected) {
            return Ok(finished);
        }
        self.log(line, &finished);
        Err(self.failure(line, &finished))
    }

    /// Runs a command that has to succeed.
    pub(super) async fn run_through(&mut self, line: &CommandLine<'_>) -> Result<Finished> {
        let finished = self.run(line).await?;
        self.log(line, &finished);
        if finished.status.success() { Ok(finished) } else { Err(self.failure(line, &finished)) }
    }

    /// What is sent of a command.
    pub(super) fn outputs(&self, finished: Finished) -> Outputs {
        Outputs {
            output: self.output("output", finished.combined),
            stdout: self.output("stdout", finished.stdout),
            stderr: self.output("stderr", finished.stderr),
        }
    }

    /// Runs a guard, which answers with its exit code.
    pub(super) async fn ask(&mut self, line: &CommandLine<'_>) -> Result<Answer> {
        let finished = self.run(line).await?;
        match finished.status {
            // Under another user a program that cannot be started is told from one that ran by nothing but this.
            Status::Exited(126 | 127) if line.shell.is_empty() && matches!(self.who, Some(Some(_))) => {
                self.log(line, &finished);
                Err(self.failure(line, &finished))
            }
            Status::Exited(code) => {
                if code == 127 {
                    let hint = line.hint(self.exec, finished.status).unwrap_or_default();
                    tracing::warn!(target: "mgmt::resource", resource = %self.id, "`{}`: {hint}", line.field);
                }
                Ok(Answer { code, finished })
            }
            _ => {
                self.log(line, &finished);
                Err(self.failure(line, &finished))
            }
        }
    }

    /// Runs a command to its end. One that we stopped is a cancellation, however it ended.
    async fn run(&mut self, line: &CommandLine<'_>) -> Result<Finished> {
        let running = self.start(line).await?;
        let signal = self.exec.signal()?;
        let (cancelled, interrupted) = (self.cancel.cancelled(), self.cancel.interrupted());
        let finished = running.wait_with(cancelled, interrupted, signal, Some(GRACE)).await;
        let finished = finished.map_err(|error| Error::new(format_args!("`{}`: {error}", line.field)))?;
        match finished.status {
            Status::Cancelled | Status::Interrupted => Err(Error::Cancelled),
            Status::Exited(_) | Status::Signaled(_) => Ok(finished),
        }
    }

    async fn start(&mut self, line: &CommandLine<'_>) -> Result<Running> {
        let mut command = line.command(self.exec, self.id, self.who().await?, self.host);
        if let Some(recorded) = &mut command.recorded {
            recorded.choice = self.cancel.choice();
        }
        let (mut attempts, pause) = BUSY;
        loop {
            checkpoint(self.cancel)?;
            match command.spawn() {
                // Somebody has it open for writing. If it is us, it is the copy of a descriptor in a process that
                // another task has just forked, and it is gone when that process has become its program.
                Err(SpawnError::Failed { source, .. })
                    if source.kind() == ErrorKind::ExecutableFileBusy && attempts > 0 =>
                {
                    attempts -= 1;
                    tokio::time::sleep(pause).await;
                }
                started => return started.map_err(|error| line.not_started(&error)),
            }
        }
    }

    /// Who the commands run as. Only looked up when a command runs: the account may be made by a resource before us.
    async fn who(&mut self) -> Result<Option<Credentials>> {
        if let Some(who) = &self.who {
            return Ok(who.clone());
        }
        let who = if self.exec.user.is_empty() && self.exec.group.is_empty() {
            None
        } else {
            let (user, group) = (self.exec.user.clone(), self.exec.group.clone());
            blocking(self.cancel, move || account::credentials(&user, &group)).await?
        };
        self.who = Some(who.clone());
        Ok(who)
    }

    fn failure(&self, line: &CommandLine<'_>, finished: &Finished) -> Error {
        let mut message = format!("`{}`: {}", line.field, finished.status);
        let last =
            finished.stderr.bytes.split(|&byte| byte == b'\n').rfind(|line| !line.trim_ascii().is_empty());
        if let Some(last) = last {
            message.push_str(": ");
            message.push_str(&self.exec.shown(last.trim_ascii()));
        }
        match line.hint(self.exec, finished.status) {
            Some(hint) => Error::new(message).with_hint(hint),
            None => Error::new(message),
        }
    }

    fn output(&self, name: &str, capture: Capture) -> Option<Str> {
        if capture.dropped == 0 {
            return capture.written().then(|| Str::from(capture.bytes));
        }
        tracing::warn!(
            target: "mgmt::resource", resource = %self.id,
            "`{name}` is longer than {CAPTURE} bytes and will not be sent"
        );
        None
    }

    /// Logs the end of what a command wrote: for everybody if it failed.
    fn log(&self, line: &CommandLine<'_>, finished: &Finished) {
        let failed = !finished.status.success();
        if !failed && !tracing::enabled!(target: "mgmt::resource", tracing::Level::DEBUG) {
            return;
        }
        for (name, capture) in [("stdout", &finished.stdout), ("stderr", &finished.stderr)] {
            for text in last_lines(&capture.bytes, |line| self.exec.shown(line)) {
                if failed {
                    tracing::info!(target: "mgmt::resource", resource = %self.id, "{} {name}: {text}", line.field);
                } else {
                    tracing::debug!(target: "mgmt::resource", resource = %self.id, "{} {name}: {text}", line.field);
                }
            }
        }
    }
}

/// The last lines of a text in a form for the log, with a word about those before.
fn last_lines(bytes: &[u8], shown: impl Fn(&[u8]) -> String) -> Vec<String> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    let mut lines: Vec<String> = bytes.rsplit(|&byte| byte == b'\n').take(LOGGED_LINES).map(&shown).collect();
    let left_out = bytes.split(|&byte| byte == b'\n').count() - lines.len();
    if left_out > 0 {
        lines.push(format!("({left_out} lines before are not shown)"));
    }
    lines.reverse();
    lines
}

/// One line of output for people: bounded, and without anything that a terminal would obey.
fn shown(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.get(..LOGGED_BYTES) {
        Some(head) if line.len() > LOGGED_BYTES => format!("{}…", Str::new(head).display()),
        _ => Str::new(line).display().to_string(),
    }
}

impl Exec {
    /// One line of output of a command for people, without the values of its variables.
    pub(super) fn shown(&self, line: &[u8]) -> String {
        shown(&self.env.reveal().hidden(line))
    }

    /// The signal that asks a command to stop.
    pub(super) fn signal(&self) -> Result<Signal> {
        if self.sig.is_empty() {
            return Ok(Signal::TERM);
        }
        Signal::parse(&self.sig.to_text()).map_err(|error| Error::new(error).context("`sig`"))
    }
}

/// Runs a look at the host where it may block, and stops waiting for it when asked to stop.
pub(super) async fn blocking<T: Send + 'static>(
    cancel: &Cancel,
    look: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::select! {
        found = account::lookup(look) => found,
        () = cancel.cancelled() => Err(Error::Cancelled),
    }
}

/// The same for a change, which is given up only when we have to stop at any cost.
pub(super) async fn blocking_to_the_end<T: Send + 'static>(
    cancel: &Cancel,
    change: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::select! {
        changed = account::lookup(change) => changed,
        () = cancel.interrupted() => Err(Error::Cancelled),
    }
}

/// Nothing is started once we were asked to stop.
pub(super) fn checkpoint(cancel: &Cancel) -> Result<()> {
    if cancel.stage() == mgmt_resource::Stage::Run { Ok(()) } else { Err(Error::Cancelled) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_whitespace_alone() {
        let (text, none) = (Str::from("  /bin/echo\t'a b'  c\n"), Str::EMPTY);
        let line = CommandLine::declared("cmd", &text, "shell", &none, &none).unwrap();
        assert_eq!(line.argv(), ["/bin/echo", "'a", "b'", "c"]);
        let text = Str::new(b" /bin/\xff  a ");
        let line = CommandLine::declared("cmd", &text, "shell", &none, &none).unwrap();
        assert_eq!(line.words(), [Str::new(b"/bin/\xff"), "a".into()]);
    }

    #[test]
    fn a_shell_gets_the_text_as_it_is() {
        let (text, shell, none) = (Str::from("echo  'a b'"), Str::from("/bin/sh"), Str::EMPTY);
        let line = CommandLine::declared("ifcmd", &text, "ifshell", &shell, &none).unwrap();
        assert_eq!(line.argv(), ["/bin/sh", "-c", "echo  'a b'"]);
        assert_eq!(line.program(), Some(shell.clone()));
    }

    #[test]
    fn the_log_gets_the_last_lines_and_nothing_that_a_terminal_obeys() {
        assert_eq!(last_lines(b"", shown), Vec::<String>::new());
        assert_eq!(last_lines(b"a\nb\n", shown), ["a", "b"]);
        let many: String = (0..60).map(|i| format!("{i}\n")).collect();
        let lines = last_lines(many.as_bytes(), shown);
        assert_eq!(lines.len(), LOGGED_LINES + 1);
        assert_eq!((&*lines[0], &*lines[1]), ("(10 lines before are not shown)", "10"));
        assert!(!shown(b"\x1b[2Jhello").contains('\x1b'));
        assert!(shown(&[b'x'; 5000]).len() < 1100);
    }

    #[test]
    fn a_hint_is_given_where_a_shell_was_meant() {
        let exec = Exec::default();
        let (text, shell, none) = (Str::from("echo a | grep b"), Str::from("/bin/sh"), Str::EMPTY);
        let line = CommandLine::declared("ifcmd", &text, "ifshell", &none, &none).unwrap();
        assert!(line.hint(&exec, Status::Exited(1)).unwrap().contains("`ifshell`"));
        let line = CommandLine { shell: &shell, ..line };
        assert_eq!(line.hint(&exec, Status::Exited(1)), None);
        assert!(line.hint(&exec, Status::Exited(127)).unwrap().contains("no PATH unless `env` sets one"));
        let exec = Exec { env: [("PATH", "/secret")].into_iter().collect(), ..exec };
        let hint = line.hint(&exec, Status::Exited(127)).unwrap();
        assert!(hint.contains("`PATH` in `env`") && !hint.contains("/secret"), "{hint}");
    }
}
