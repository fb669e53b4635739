//! Looks at a setting and makes it as declared.

use std::time::Duration;

use mgmt_resource::{Checked, Context, Effect, Error, Needed, Result};
use mgmt_sys::process::{Command, Finished, Signal, Status};
use tokio::sync::Mutex;

use super::session::Session;
use super::variant::Variant;
use super::{Gsettings, Wanted};
use crate::support::account;

const PROGRAM: &str = "gsettings";
/// Runs a program with a message bus of its own.
const OWN_BUS: &str = "dbus-run-session";
/// How long the program may take, starting services included.
const LIMIT: Duration = Duration::from_secs(60);
/// Between the signal that asks it to stop and the one that makes it.
const GRACE: Duration = Duration::from_secs(5);

/// Without a bus of the user, each that sets something has a service of its own, which would undo what another stores at the same
/// time.
static ONE: Mutex<()> = Mutex::const_new(());

pub(super) async fn check(gsettings: &Gsettings, cx: &mut Context<'_>) -> Result<Checked> {
    let wanted = gsettings.wanted().map_err(Error::new)?;
    let (schema, key) = gsettings.names(&cx.id.name).map_err(Error::new)?;
    let (user, group) = (gsettings.user.clone(), gsettings.group.clone());
    let session = tokio::select! {
        session = account::lookup(move || Session::find(&user, &group)) => session,
        () = cx.cancel.cancelled() => return Err(Error::Cancelled),
    };
    let found = match session {
        Ok(session) => {
            let setting = Setting { schema, key, session };
            setting.get(cx).await.map(|found| (setting, found))
        }
        Err(error) => Err(error),
    };
    let (setting, found) = match found {
        Ok(found) => found,
        // Another resource may be about to bring the user, the program or the schema, and only a run that changes things can tell.
        Err(error) if !error.is_cancelled() && cx.may_come(Needed::Other) => {
            tracing::debug!(target: "mgmt::resource", resource = %cx.id, "cannot be looked at yet: {error}");
            cx.describe(Effect::change(cx.id.name.display()).after(&wanted.text).presumed());
            return Ok(Checked::Changed);
        }
        Err(error) => return Err(error),
    };
    if is(&wanted, &found) {
        return Ok(Checked::Right);
    }
    cx.describe(Effect::change(cx.id.name.display()).before(&found).after(&wanted.text).presumed());
    if !cx.apply {
        return Ok(Checked::Changed);
    }
    cx.checkpoint()?;
    setting.set(&wanted, cx).await?;
    cx.info(format_args!("set to {}", wanted.text));
    Ok(Checked::Changed)
}

/// Whether what the program shows is what is wanted. What we cannot read is compared as it is.
fn is(wanted: &Wanted, found: &str) -> bool {
    match Variant::read(found) {
        Some(found) => wanted.is(&found),
        None => wanted.text.trim() == found,
    }
}

struct Setting {
    schema: String,
    key: String,
    session: Session,
}

impl Setting {
    /// What it is now.
    async fn get(&self, cx: &Context<'_>) -> Result<String> {
        let got = self.run(&[PROGRAM, "get", &self.schema, &self.key], cx).await?;
        Ok(String::from_utf8_lossy(&got.stdout.bytes).trim().to_owned())
    }

    async fn set(&self, wanted: &Wanted, cx: &Context<'_>) -> Result<()> {
        let set = [OWN_BUS, "--", PROGRAM, "set", &self.schema, &self.key, &wanted.text];
        let (_one, set) = match self.session.has_bus {
            true => (None, &set[2..]),
            false => (Some(ONE.lock().await), &set[..]),
        };
        let mut told = self.run(set, cx).await?;
        let mut found = self.get(cx).await?;
        if !is(wanted, &found) && self.session.has_bus {
            // Whoever stores settings remembers what they are. If somebody has taken the file away, what is set is nothing new to
            // him, and is not stored, unless it was something else in between.
            self.run(&[PROGRAM, "reset", &self.schema, &self.key], cx).await?;
            told = self.run(set, cx).await?;
            found = self.get(cx).await?;
        }
        if is(wanted, &found) {
            return Ok(());
        }
        let told = String::from_utf8_lossy(&told.stderr.bytes);
        let why = told.lines().map(str::trim).rfind(|line| !line.is_empty()).map(|line| format!(": {line}"));
        Err(Error::new(format_args!(
            "{} {} was set to {}, but is {found}{}",
            self.schema, self.key, wanted.text, why.unwrap_or_default()
        ))
        .with_hint("nobody may have stored it: the service that does so is mostly in the package dconf-service; or somebody else wants another value"))
    }

    /// Runs a program, which has to succeed.
    async fn run(&self, arguments: &[&str], cx: &Context<'_>) -> Result<Finished> {
        let mut command = Command::new(arguments);
        command.env = self.session.environment.clone();
        if arguments.get(1) == Some(&"get") {
            // Without a directory for what runs, even who looks writes a file into the home of the user; here it cannot.
            command.env.entry("XDG_RUNTIME_DIR".into()).or_insert_with(|| "/dev/null".into());
        }
        command.credentials = self.session.who.clone();
        command.cwd = Some("/".into());
        command.helper = cx.host.helper.clone();
        let running = command.spawn().map_err(|error| not_started(arguments[0], &error))?;
        let cancelled = cx.cancel.cancelled();
        let late = tokio::time::sleep(LIMIT);
        // Whichever comes first; which one it was is seen by the cancellation.
        let stop = async {
            tokio::select! { () = cancelled => {}, () = late => {} }
        };
        let finished = running.wait_with(stop, cx.cancel.interrupted(), Signal::TERM, Some(GRACE)).await;
        let finished =
            finished.map_err(|error| Error::new(format_args!("cannot run {}: {error}", arguments[0])))?;
        match finished.status {
            status if status.success() => Ok(finished),
            Status::Cancelled | Status::Interrupted => {
                cx.checkpoint()?;
                Err(Error::new(format_args!(
                    "{} took longer than {} seconds",
                    arguments.join(" "),
                    LIMIT.as_secs()
                ))
                .with_hint("the message bus of the user may not answer"))
            }
            status => Err(self.failure(arguments[0], status, &finished)),
        }
    }

    fn failure(&self, program: &str, status: Status, finished: &Finished) -> Error {
        let told = String::from_utf8_lossy(&finished.stderr.bytes);
        let last = told.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        if status == Status::Exited(127) {
            return missing(program);
        }
        let failed = Error::new(format_args!("{} {}: {program}: {status}: {last}", self.schema, self.key));
        if last.contains("No such schema") {
            return failed.with_hint(
                "gsettings list-schemas lists those that are installed; a `pkg` resource may bring it",
            );
        }
        if last.contains("No such key") {
            return failed.with_hint(format_args!("gsettings list-keys {} lists the keys", self.schema));
        }
        if last.contains("not writable") {
            return failed.with_hint("the administrator of the host has locked it, in /etc/dconf/db");
        }
        failed.with_hint(format_args!("gsettings range {} {} tells what it may be", self.schema, self.key))
    }
}

fn not_started(program: &str, error: &mgmt_sys::process::SpawnError) -> Error {
    match error {
        mgmt_sys::process::SpawnError::NotFound { .. } => missing(program),
        error => Error::new(error),
    }
}

fn missing(program: &str) -> Error {
    let hint = match program {
        PROGRAM => "install it: the package is mostly called libglib2.0-bin or glib2",
        _ => "the user has no session, so this program is needed: the package is mostly called dbus",
    };
    Error::new(format_args!("the program {program} is not installed")).with_hint(hint)
}
