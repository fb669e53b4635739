//! `msg`: writes to the system's logs.
//!
//! [`Msg`] is the declaration; `journal` and `syslog` know how a message is written down for each of the two.
//!
//! Invariant: a message that was written to one place is not written there again because another place failed.

mod journal;
mod syslog;

use std::collections::BTreeMap;
use std::path::PathBuf;

use mgmt_resource::{
    Checked, Context, Effect, Error, Invalid, Kind, Nothing, Resource, Result, did_you_mean,
};
use mgmt_value::Str;

/// Writes a message to the logs of the system.
///
/// The message is always written to the log of mgmt, and also to the journal and to syslog where that is asked for. Each
/// place gets it once when the resource starts, once more when it has changed, and once more when another resource
/// notifies this one. Writing it counts as a change.
///
/// ```mcl
/// msg "ready" {
///     body => "this host is ready",
///     priority => "Notice",
///     journal => true,
///     fields => {"ROLE" => "web"},
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "msg", refresh)]
pub struct Msg {
    /// The text.
    pub body: Str,
    /// How urgent it is: `Emerg`, `Alert`, `Crit`, `Err`, `Warning`, `Notice`, `Info` or `Debug`. There is no default.
    pub priority: Str,
    /// More fields for the journal. A name is made of capital letters, digits and underscores, begins with a letter, and
    /// has at most 64 characters.
    pub fields: BTreeMap<Str, Str>,
    /// Write to the journal of systemd.
    pub journal: bool,
    /// Write to syslog, with facility `user`.
    pub syslog: bool,
}

/// From the most urgent, which is 0, to the least.
const PRIORITIES: [&str; 8] = ["Emerg", "Alert", "Crit", "Err", "Warning", "Notice", "Info", "Debug"];

/// What has been written where.
#[derive(Debug, Default)]
pub struct Written {
    /// Where the logs listen.
    #[doc(hidden)]
    pub sockets: Sockets,
    /// The message that the rest is about.
    message: Option<Msg>,
    log: bool,
    journal: bool,
    syslog: bool,
    /// The last run has not come to its end, so that a notification is still the same one.
    interrupted: bool,
}

/// Where the logs listen.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Sockets {
    pub journal: PathBuf,
    pub syslog: PathBuf,
}

impl Default for Sockets {
    fn default() -> Sockets {
        Sockets { journal: "/run/systemd/journal/socket".into(), syslog: "/dev/log".into() }
    }
}

impl Kind for Msg {
    type State = Written;
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        if self.severity().is_none() {
            return Err(self.unknown_priority());
        }
        self.fields.keys().try_for_each(check_field_name)
    }

    async fn check_apply(&self, written: &mut Written, cx: &mut Context<'_>) -> Result<Checked> {
        let is_new = written.message.as_ref() != Some(self);
        let again = cx.refresh && !written.interrupted;
        if !is_new && !again && written.is_everywhere(self) {
            return Ok(Checked::Right);
        }
        cx.describe(Effect::run("log").aspect("message"));
        if !cx.apply {
            return Ok(Checked::Changed);
        }
        if is_new || again {
            let sockets = std::mem::take(&mut written.sockets);
            *written = Written { sockets, message: Some(self.clone()), ..Written::default() };
        }
        written.interrupted = true;
        self.write(written, cx).await?;
        written.interrupted = false;
        Ok(Checked::Changed)
    }
}

impl Msg {
    fn severity(&self) -> Option<usize> {
        PRIORITIES.iter().position(|name| self.priority == *name)
    }

    fn unknown_priority(&self) -> Invalid {
        let message = match self.priority.is_empty() {
            true => "expected a priority, found none".to_owned(),
            false => format!("there is no priority {:?}", self.priority),
        };
        let hint = match did_you_mean(&self.priority.to_text(), PRIORITIES.into_iter()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("it is one of {}", PRIORITIES.join(", ")),
        };
        Invalid::field("priority", message).with_hint(hint)
    }

    /// Writes the message wherever it is wanted and has not been written yet.
    async fn write(&self, written: &mut Written, cx: &Context<'_>) -> Result<()> {
        let severity = self.severity().ok_or_else(|| Error::new(self.unknown_priority()))?;
        if !written.log {
            match severity {
                0..=4 => cx.warn(self.body.display()),
                _ => cx.info(self.body.display()),
            }
            written.log = true;
        }
        if self.journal && !written.journal {
            let entry = journal::entry(self, severity, &cx.host.program);
            unless_cancelled(cx, journal::write(&written.sockets.journal, &entry)).await?;
            written.journal = true;
        }
        if self.syslog && !written.syslog {
            let line = syslog::line(self, severity, &cx.host.program);
            unless_cancelled(cx, syslog::write(&written.sockets.syslog, &line)).await?;
            written.syslog = true;
        }
        Ok(())
    }
}

impl Written {
    fn is_everywhere(&self, msg: &Msg) -> bool {
        self.log && (self.journal || !msg.journal) && (self.syslog || !msg.syslog)
    }
}

/// A log that does not read what it is sent makes us wait. We can be told not to.
async fn unless_cancelled(cx: &Context<'_>, write: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::select! {
        biased;
        written = write => written,
        () = cx.cancel.cancelled() => Err(Error::Cancelled),
    }
}

/// The rules of the journal, which drops a field with any other name without a word.
fn check_field_name(name: &Str) -> Result<(), Invalid> {
    let bad = |message: String| Err(Invalid::field("fields", message));
    let shown = format!("{name:?}");
    if name.is_empty() {
        return bad("a field needs a name".to_owned());
    }
    if !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        return bad(format!("{shown} is not a field name: expected letters, digits and underscores"));
    }
    if name.starts_with(b"_") {
        return bad(format!(
            "{shown} is not a field name: those with a leading underscore belong to the journal"
        ));
    }
    if name[0].is_ascii_digit() {
        return bad(format!("{shown} is not a field name: it can't begin with a digit"));
    }
    if name.iter().any(u8::is_ascii_lowercase) {
        let invalid =
            Invalid::field("fields", format!("{shown} is not a field name: expected capital letters"));
        return Err(invalid.with_hint(format!("write `{}`", name.to_text().to_ascii_uppercase())));
    }
    if name.len() > 64 {
        return bad(format!(
            "{shown} is not a field name: the longest has 64 characters, this one {}",
            name.len()
        ));
    }
    if *name == "MESSAGE" || *name == "PRIORITY" {
        return bad(format!("{shown} is taken: it is what `body` and `priority` say"));
    }
    Ok(())
}
