//! `exec`: runs a command.
//!
//! [`Exec`] is the declaration. `decision` says whether the command has to run, `run` runs it, `kept` is
//! what a run leaves in the state directory, `watch` is the long-running command that reports events.
//!
//! Invariants
//! - A run that was asked to stop gives the cancellation, whatever the command made of its signal, and leaves no
//!   process of the command's group behind.
//! - The environment of a command is exactly what is declared, and its values are never shown.
//! - What is sent belongs to one run: a stream that the last run did not write is not sent.
//! - When only looking, guards run and nothing else does.

mod decision;
mod environment;
mod kept;
mod run;
mod validate;
mod watch;

use std::time::Duration;

use mgmt_resource::{
    Checked, Context, Effect, Fields, Identity, Invalid, Kind, Needed, OnLeave, Order, Resource, Result,
    Want, Watch,
};
use mgmt_sys::process::SpawnError;
use mgmt_value::{Secret, Str};

use self::kept::{Kept, Seen};
use self::run::{CommandLine, Runner};
use crate::support::account;
use crate::support::applied_often::AppliedOften;

pub use self::environment::Environment;

/// Runs a command when it is needed.
///
/// Without any condition the command runs once when the resource starts, again for each event of `watchcmd` and
/// of the watched files, and again when another resource notifies this one. Conditions say when it is not needed:
/// `ifcmd`, `ifequals` and `ifequals_stdout`, `nifcmd`, `creates`, `mtimes` and `refreshonly`. A command has to exit
/// with status 0, or with one that `returns` names, or the resource fails.
///
/// A command is given as words, split at whitespace without any quoting, or as a text for a `shell`. It gets the
/// environment in `env` and no other variable, not even `PATH`, and nothing to read. It runs in a process group of
/// its own; to stop it early, the whole group gets the signal `sig`, and ten seconds later SIGKILL. That happens at a
/// `timeout`, when mgmt is told to end, and when the resource leaves the graph while the command runs, unless
/// `Meta:onleave` says otherwise. What is left of a command after mgmt was killed is stopped in the same way when mgmt next starts with the same
/// working directory.
///
/// What the command writes is sent as `output`, `stdout` and `stderr`, also later, when a condition says that it
/// need not run again. A stream of more than 16 MiB is not sent.
///
/// ```mcl
/// exec "initialise" {
///     cmd => "/usr/bin/app --initialise",
///     creates => "/var/lib/app/data",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "exec", edges, send, refresh)]
pub struct Exec {
    /// The command. Unset, it is the name of the resource. Without `shell` it is split at whitespace, and quotes
    /// mean nothing. A program without a slash is looked up in the `PATH` of mgmt itself.
    pub cmd: Str,
    /// The arguments, exactly as they are. Then `cmd` is the program alone, and `shell` can't be used.
    pub args: Vec<Str>,
    /// The directory to run `cmd` in. Unset, it is the one that mgmt runs in.
    pub cwd: Str,
    /// The shell that runs `cmd`, `/bin/sh` for example. Unset, there is no shell: no quotes, no pipes, no variables.
    pub shell: Str,
    /// The complete environment of every command of this resource. Nothing is added, not even `PATH`. The values are taken out of what
    /// is logged of the commands' output, except for those that are shorter than four letters or no secret by their name, such as `HOME`.
    #[field(secret)]
    pub env: Secret<Environment>,
    /// The signal that asks a command to stop, by its full name, `SIGINT` for example. Unset, it is `SIGTERM`.
    pub sig: Str,
    /// A command that runs all the time. Each line that it writes, empty ones apart, is an event. Its end is an
    /// error; it is started again after a while, as the metaparameter `retry` says.
    pub watchcmd: Str,
    /// The directory to run `watchcmd` in.
    pub watchcwd: Str,
    /// The shell that runs `watchcmd`.
    pub watchshell: Str,
    /// Files and directories whose change is an event. With a slash at the end, everything below counts too.
    pub watchfiles: Vec<Str>,
    /// Look again after so many seconds whether `cmd` has to run, besides after events. 0 is never. A command that every look runs is then
    /// looked at in this interval alone. Only this implementation has it.
    pub interval: u32,
    /// Run `cmd` only if this command exits with status 0.
    pub ifcmd: Str,
    /// The directory to run `ifcmd` in.
    pub ifcwd: Str,
    /// The shell that runs `ifcmd`.
    pub ifshell: Str,
    /// Don't run `cmd` if `ifcmd` writes exactly this, a newline at the end included, to both of its streams together.
    pub ifequals: Option<Str>,
    /// Don't run `cmd` if `ifcmd` writes exactly this to its standard output.
    pub ifequals_stdout: Option<Str>,
    /// Don't run `cmd` if this command exits with status 0. Directories that are purged or tidied leave the paths in it alone, as those that
    /// `cmd` writes its output to.
    pub nifcmd: Str,
    /// The directory to run `nifcmd` in.
    pub nifcwd: Str,
    /// The shell that runs `nifcmd`.
    pub nifshell: Str,
    /// Don't run `cmd` if this path exists. It is watched.
    pub creates: Str,
    /// Run `cmd`, whatever the other conditions say, if one of these is newer than when it last ran. Without other
    /// conditions it does not run otherwise. They are watched, and have to exist.
    pub mtimes: Vec<Str>,
    /// A command that runs after `cmd` has succeeded. If it fails, the whole fails.
    pub donecmd: Str,
    /// The directory to run `donecmd` in.
    pub donecwd: Str,
    /// The shell that runs `donecmd`.
    pub doneshell: Str,
    /// The user, by name or number, that every command runs as, with all the groups that it is a member of.
    pub user: Str,
    /// The group, by name or number, that every command runs as. Unset, it is the primary group of `user`.
    pub group: Str,
    /// What to send as `output` when `cmd` need not run and has left nothing before.
    pub send_output: Option<Str>,
    /// What to send as `stdout` when `cmd` need not run and has left nothing before.
    pub send_stdout: Option<Str>,
    /// What to send as `stderr` when `cmd` need not run and has left nothing before.
    pub send_stderr: Option<Str>,
    /// Run `cmd` only when another resource notifies this one. The other conditions still hold. Only this
    /// implementation has it.
    pub refreshonly: bool,
    /// A command that runs when another resource notifies this one, after `cmd`, or instead of it with `refreshonly`. The
    /// other conditions hold for it, too. Without it, `cmd` is what runs then. Only this implementation has it.
    pub refreshcmd: Str,
    /// The directory to run `refreshcmd` in.
    pub refreshcwd: Str,
    /// The shell that runs `refreshcmd`.
    pub refreshshell: Str,
    /// The exit codes with which `cmd` has succeeded. Empty, that is 0 alone. Only this implementation has it.
    pub returns: Vec<u8>,
    /// Absolute paths that `cmd` makes, besides `creates`. Directories that are purged or tidied leave them alone. A `*` at the end stands for any
    /// ending. Only this implementation has it.
    pub paths: Vec<Str>,
}

/// What is remembered of a command.
#[derive(Debug, Default)]
pub struct ExecState {
    /// What the last run left, once it has been read.
    kept: Option<Kept>,
    often: AppliedOften,
}

/// What a command has written. A stream that was not written to is not set.
#[derive(Clone, Debug, Default, PartialEq, Fields)]
pub struct Outputs {
    /// Both streams, in the order in which they arrived.
    pub output: Option<Str>,
    /// The standard output.
    pub stdout: Option<Str>,
    /// The standard error.
    pub stderr: Option<Str>,
}

impl Kind for Exec {
    type State = ExecState;
    type Sends = Outputs;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        validate::validate(self, name)
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        let mut watches = Vec::new();
        watches.extend(watch::watch(self, name));
        let creates = Some(&self.creates).filter(|path| !path.is_empty());
        for path in self.watchfiles.iter().chain(&self.mtimes).chain(creates) {
            let watch = Watch::Path { path: path.clone(), recursive: path.ends_with(b"/") };
            if !watches.contains(&watch) {
                watches.push(watch);
            }
        }
        watches.extend((self.interval > 0).then(|| Watch::Interval(self.interval())));
        watches
    }

    // What conditions look at is not what the command makes, but for the one that keeps it from running.
    fn claimed_paths(&self, name: &Str) -> Vec<Str> {
        let creates = Some(&self.creates).filter(|path| !path.is_empty());
        let mut paths: Vec<Str> = self.mtimes.iter().chain(creates).chain(&self.paths).cloned().collect();
        let asked = words(&self.nifcmd).filter(|word| is_path(word));
        let commands = [self.command(name), &self.refreshcmd];
        let written = commands.into_iter().flat_map(|command| written_to(command));
        paths.extend(asked.chain(written).map(Str::new));
        paths
    }

    async fn check_apply(&self, state: &mut ExecState, cx: &mut Context<'_>) -> Result<Checked> {
        if !cx.refresh && state.often.is_over(self.interval()) {
            return Ok(Checked::Right);
        }
        let checked = self.check_and_run(&mut state.kept, cx).await?;
        if state.often.note(checked == Checked::Changed && cx.apply) && self.interval > 0 {
            cx.warn("it runs after every look; it is looked at once for each `interval` from now on");
        }
        Ok(checked)
    }

    fn on_leave(&self) -> OnLeave {
        OnLeave::Cancel
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let mut wanted = Vec::new();
        for line in self.lines(name) {
            if let Some(program) = line.program().filter(|program| program.starts_with(b"/")) {
                let path = Str::from(mgmt_sys::path::clean(&program));
                wanted.extend([Identity::PackageFile(path.clone()), Identity::Path(path)]);
            }
        }
        if !self.user.is_empty() {
            wanted.push(account::user_identity(&self.user));
        }
        if !self.group.is_empty() {
            wanted.push(account::group_identity(&self.group));
        }
        vec![Want::Each(Order::Before, wanted)]
    }

    fn equivalent(&self, name: &Str, other: &Exec) -> bool {
        let spelled_out = |exec: &Exec| Exec { cmd: exec.command(name).clone(), ..exec.clone() };
        self == other || spelled_out(self) == spelled_out(other)
    }
}

/// The words of a command, and of what is quoted or joined in it.
fn words(command: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_between = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`;|&()<>=,".contains(byte);
    command.split(is_between).filter(|word| !word.is_empty())
}

/// The files that a command of a shell writes its output to.
fn written_to(command: &[u8]) -> impl Iterator<Item = &[u8]> {
    let behind = command.split(|byte| *byte == b'>').skip(1);
    let quoted = behind.map(|rest| rest.trim_ascii_start());
    let quoted =
        quoted.map(|rest| rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b"'")).unwrap_or(rest));
    quoted
        .filter(|rest| rest.starts_with(b"/"))
        .filter_map(|rest| words(rest).next())
        .filter(|path| is_path(path))
}

fn is_path(word: &[u8]) -> bool {
    word.starts_with(b"/") && word.len() > 1 && !word.starts_with(b"/dev/")
}

impl Exec {
    fn interval(&self) -> Duration {
        Duration::from_secs(self.interval.into())
    }

    /// Looks whether the command has to run, and runs it.
    async fn check_and_run(&self, state: &mut Option<Kept>, cx: &mut Context<'_>) -> Result<Checked> {
        let guards = [self.watch_line(), self.if_line(), self.nif_line()];
        let is_dormant = self.refreshonly && !cx.refresh;
        self.foresee(
            guards.into_iter().flatten().filter(|line| line.field == "watchcmd" || !is_dormant),
            cx,
        )?;
        let directory = cx.state_directory();
        let kept = match state {
            Some(kept) => kept,
            None => {
                let directory = directory.clone();
                state.insert(run::blocking(cx.cancel, move || Kept::load(&directory)).await?)
            }
        };
        if self.refreshonly && !cx.refresh {
            cx.send(&self.or_declared(&kept.outputs));
            return Ok(Checked::Right);
        }
        let seen = self.look_at_mtimes(cx).await?;
        let mut runner = Runner::new(self, cx);
        if let Some(reason) = decision::needless(self, &mut runner, kept, seen.as_ref(), cx).await? {
            tracing::debug!(target: "mgmt::resource", resource = %cx.id, "not needed: {reason}");
            cx.send(&self.or_declared(&kept.outputs));
            return Ok(Checked::Right);
        }
        let main = match self.refresh_line().filter(|_| cx.refresh) {
            Some(line) if self.refreshonly => line,
            _ => self.main_line(&cx.id.name),
        };
        self.foresee([Some(main), self.done_line()].into_iter().flatten(), cx)?;
        cx.describe(self.effect(&self.main_line(&cx.id.name)));
        if let Some(line) = self.done_line() {
            cx.describe(self.effect(&line));
        }
        if !cx.apply {
            cx.send(&self.or_declared(&kept.outputs));
            return Ok(Checked::Changed);
        }

        let main = self.main_line(&cx.id.name);
        let finished = match self.refresh_line().filter(|_| cx.refresh) {
            None => runner.run_main(&main).await?,
            Some(line) if self.refreshonly => runner.run_main(&line).await?,
            Some(line) => {
                let finished = runner.run_main(&main).await?;
                match decision::needless(self, &mut runner, kept, seen.as_ref(), cx).await? {
                    Some(_) => finished,
                    None => runner.run_main(&line).await?,
                }
            }
        };
        if let Some(line) = self.done_line() {
            runner.run_through(&line).await?;
        }
        let outputs = runner.outputs(finished);
        let new = Kept { outputs, seen: seen.or_else(|| kept.seen.clone()) };
        if new != *kept {
            let (old, new, durability) = (kept.clone(), new.clone(), cx.host.durability);
            run::blocking_to_the_end(cx.cancel, move || new.store(&old, &directory, durability)).await?;
        }
        cx.send(&new.outputs);
        *kept = new;
        self.warn_if_not_created(cx).await;
        Ok(Checked::Changed)
    }

    /// The text of the command.
    fn command<'a>(&'a self, name: &'a Str) -> &'a Str {
        if self.cmd.is_empty() { name } else { &self.cmd }
    }

    fn effect(&self, line: &CommandLine<'_>) -> Effect {
        let words: Vec<String> =
            std::iter::once(line.text).chain(line.args).map(|word| word.to_text().into_owned()).collect();
        let effect = Effect::run(words.join(" "));
        if self.user.is_empty() { effect } else { effect.aspect("as user").after(self.user.display()) }
    }

    fn main_line<'a>(&'a self, name: &'a Str) -> CommandLine<'a> {
        CommandLine {
            field: "cmd",
            text: self.command(name),
            args: &self.args,
            shell_field: "shell",
            shell: &self.shell,
            cwd: &self.cwd,
        }
    }

    fn watch_line(&self) -> Option<CommandLine<'_>> {
        CommandLine::declared("watchcmd", &self.watchcmd, "watchshell", &self.watchshell, &self.watchcwd)
    }

    fn if_line(&self) -> Option<CommandLine<'_>> {
        CommandLine::declared("ifcmd", &self.ifcmd, "ifshell", &self.ifshell, &self.ifcwd)
    }

    fn nif_line(&self) -> Option<CommandLine<'_>> {
        CommandLine::declared("nifcmd", &self.nifcmd, "nifshell", &self.nifshell, &self.nifcwd)
    }

    fn done_line(&self) -> Option<CommandLine<'_>> {
        CommandLine::declared("donecmd", &self.donecmd, "doneshell", &self.doneshell, &self.donecwd)
    }

    fn refresh_line(&self) -> Option<CommandLine<'_>> {
        CommandLine::declared(
            "refreshcmd",
            &self.refreshcmd,
            "refreshshell",
            &self.refreshshell,
            &self.refreshcwd,
        )
    }

    /// All commands that are declared.
    fn lines<'a>(&'a self, name: &'a Str) -> impl Iterator<Item = CommandLine<'a>> {
        let others =
            [self.watch_line(), self.if_line(), self.nif_line(), self.done_line(), self.refresh_line()];
        std::iter::once(self.main_line(name)).chain(others.into_iter().flatten())
    }

    /// While a plan is made: fails as the run would, if one of these commands cannot be started and nothing before would change
    /// that.
    fn foresee<'a>(&self, lines: impl Iterator<Item = CommandLine<'a>>, cx: &Context<'_>) -> Result<()> {
        if cx.apply || cx.foreseen.is_none() {
            return Ok(());
        }
        for line in lines {
            let who = match account::lookup_now(|| account::credentials(&self.user, &self.group)) {
                Ok(who) => who,
                Err(error) => {
                    let is_user = !self.user.is_empty() && account::user_id(&self.user).is_err();
                    let needed = if is_user { Needed::User(&self.user) } else { Needed::Group(&self.group) };
                    return if cx.may_come(needed) { Ok(()) } else { Err(error) };
                }
            };
            let check = |line: &CommandLine<'a>| line.command(self, cx.id, who.clone(), cx.host).check();
            // Of a condition, a program that is not there is an answer.
            let plain = line.without_shell().filter(|_| line.field == "cmd");
            let (line, error) = match (check(&line), plain) {
                (Err(error), _) => (line, error),
                (Ok(()), Some(plain)) => match check(&plain) {
                    Err(error) => (plain, error),
                    Ok(()) => continue,
                },
                (Ok(()), None) => continue,
            };
            let program = line.program().unwrap_or_default();
            let comes = match &error {
                SpawnError::WorkingDirectory { .. } => cx.may_come(Needed::Path(line.cwd)),
                SpawnError::NotFound { .. } => cx.may_come(Needed::FileName(&program)),
                SpawnError::Failed { .. } => cx.may_come(Needed::Path(&program)),
                _ => false,
            };
            if !comes {
                return Err(line.not_started(&error));
            }
        }
        Ok(())
    }

    /// What to send without a run: what the last one left, else what is declared.
    fn or_declared(&self, kept: &Outputs) -> Outputs {
        let or = |kept: &Option<Str>, declared: &Option<Str>| kept.clone().or_else(|| declared.clone());
        Outputs {
            output: or(&kept.output, &self.send_output),
            stdout: or(&kept.stdout, &self.send_stdout),
            stderr: or(&kept.stderr, &self.send_stderr),
        }
    }

    async fn look_at_mtimes(&self, cx: &Context<'_>) -> Result<Option<Seen>> {
        if self.mtimes.is_empty() {
            return Ok(None);
        }
        let paths = self.mtimes.clone();
        run::blocking(cx.cancel, move || Seen::now(&paths)).await.map(Some)
    }

    /// A command that does not make what it is said to make runs for ever.
    async fn warn_if_not_created(&self, cx: &Context<'_>) {
        // The run has succeeded; what keeps us from looking now is told by the next check.
        if !self.creates.is_empty() && matches!(decision::exists(cx.cancel, &self.creates).await, Ok(false)) {
            cx.warn(format_args!(
                "`cmd` has succeeded, but {:?} in `creates` does not exist, so it will run again",
                self.creates
            ));
        }
    }
}
