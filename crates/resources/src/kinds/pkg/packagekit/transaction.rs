//! One transaction of the daemon: asked for, followed to its end, and bounded whatever the daemon does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{Error, Result, Stage};
use mgmt_value::Str;
use mgmt_watch::{BusAnswer, BusArguments, BusError, BusPath, BusService, BusSignals, BusValue, Signal};
use tokio::time::Instant;

use super::words::{Code, Exit, Status};
use super::{NAME, PATH, PROPERTIES};
use crate::kinds::pkg::backend::Job;

const TRANSACTION: &str = "org.freedesktop.PackageKit.Transaction";
/// How it is to behave: nobody is there to be asked, and somebody waits for it. What it says is for our log.
const HINTS: [&str; 3] = ["locale=C.UTF-8", "interactive=false", "background=false"];

/// How long the daemon may be silent before it is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(5);
/// How long it may take to answer that, and how often it may fail to.
const ANSWER: (Duration, u32) = (Duration::from_secs(10), 3);
/// How long a transaction may stand still. A script of a package, or somebody else's lock, may take that long.
const STALL: Duration = Duration::from_secs(1800);
/// How often to say that it has not ended yet.
const REMINDER: Duration = Duration::from_secs(60);
/// How long packages that are being unpacked and configured may take to get done when we are to stop.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many percent of progress are worth a line in the log.
const STEP: u32 = 10;
/// More packages than any host has.
const MOST: usize = 100_000;

/// A package that the daemon knows, in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: String,
    pub(super) name: Str,
    pub(super) version: Str,
    pub(super) architecture: Str,
    pub(super) installed: bool,
}

impl Found {
    /// Reads an identity, which is name, version, architecture and origin between semicolons.
    fn read(info: u32, id: &str) -> Option<Found> {
        const INSTALLED: [u32; 2] = [1, 16];
        let mut parts = id.splitn(4, ';');
        let (name, version, architecture) = (parts.next()?, parts.next()?, parts.next()?);
        (!name.is_empty()).then(|| Found {
            id: id.to_owned(),
            name: name.into(),
            version: version.into(),
            architecture: architecture.into(),
            installed: INSTALLED.contains(&info),
        })
    }

    /// The identity of the same package in another version.
    pub(super) fn id_of(&self, version: &Str) -> String {
        let origin = self.id.splitn(4, ';').nth(3).unwrap_or_default();
        format!("{};{};{};{origin}", self.name.to_text(), version.to_text(), self.architecture.to_text())
    }
}

/// Why a transaction did not do what it was asked for.
#[derive(Debug)]
pub(super) enum Failure {
    /// It did not begin, so nothing has happened.
    NotBegun(BusError),
    /// The daemon says no, with this code and in these words.
    Refused(Code, String),
    /// It came to an end of its own, or to none.
    Broken(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Broken(error)
    }
}

/// Has something done, and gives the packages that were told of on the way, each once.
pub(super) async fn run<B>(
    service: &Arc<BusService>,
    method: &'static str,
    arguments: &B,
    job: &Job<'_>,
) -> Result<Vec<Found>, Failure>
where
    B: serde::Serialize + BusArguments + Sync,
{
    let path = service.call::<_, BusPath>(PATH, NAME, "CreateTransaction", &()).await;
    let path = path.map_err(Failure::NotBegun)?;
    let mut following = Following {
        service,
        signals: service.signals(),
        path,
        method,
        progress: Progress::default(),
        found: Vec::new(),
        complaint: None,
        job,
    };
    following.call::<_, ()>("SetHints", &&HINTS[..]).await.map_err(Failure::NotBegun)?;
    following.call::<_, ()>(method, arguments).await.map_err(Failure::NotBegun)?;
    following.run().await
}

struct Following<'a> {
    service: &'a Arc<BusService>,
    signals: BusSignals,
    path: BusPath,
    method: &'static str,
    progress: Progress,
    found: Vec<Found>,
    /// What went wrong, in the words of the daemon.
    complaint: Option<(Code, String)>,
    job: &'a Job<'a>,
}

impl Following<'_> {
    async fn call<B, R>(&self, method: &str, arguments: &B) -> Result<R, BusError>
    where
        B: serde::Serialize + BusArguments + Sync,
        R: for<'d> serde::Deserialize<'d> + BusAnswer,
    {
        self.service.call(self.path.as_str(), TRANSACTION, method, arguments).await
    }

    /// Follows it to its end.
    async fn run(&mut self) -> Result<Vec<Found>, Failure> {
        let began = Instant::now();
        let (mut heard, mut moved, mut reminded) = (began, began, began);
        let mut unanswered = 0;
        let mut patience: Option<Instant> = None;
        loop {
            let cancelled = self.job.cancel.stage() != Stage::Run;
            let signal = tokio::select! {
                signal = self.signals.next() => signal.map_err(|error| self.died(&error))?,
                () = self.job.cancel.interrupted() => return Err(self.leave().into()),
                () = self.job.cancel.cancelled(), if !cancelled => {
                    patience = Some(self.cancel().await);
                    continue;
                }
                () = tokio::time::sleep_until(patience.unwrap_or(began)), if patience.is_some() => {
                    return Err(self.leave().into());
                }
                () = tokio::time::sleep_until(heard + SILENCE) => {
                    unanswered = if self.is_there().await? { 0 } else { unanswered + 1 };
                    if unanswered >= ANSWER.1 {
                        return Err(Failure::Broken(self.stuck("does not answer any more")));
                    }
                    let now = Instant::now();
                    if now - moved >= STALL {
                        // It may be beyond that, too.
                        let _ = self.call::<_, ()>("Cancel", &()).await;
                        let minutes = STALL.as_secs() / 60;
                        return Err(Failure::Broken(self.stuck(&format!("has stood still for {minutes} minutes"))));
                    }
                    if now - reminded >= REMINDER {
                        reminded = now;
                        let seconds = (now - began).as_secs();
                        let doing = self.progress.status.words();
                        self.say(&format!("PackageKit is still at work after {seconds} seconds: {doing}"));
                    }
                    heard = now;
                    continue;
                }
            };
            if signal.header().path().map(|path| path.as_str()) != Some(self.path.as_str()) {
                continue;
            }
            (heard, unanswered) = (Instant::now(), 0);
            let (news, end) = self.hear(&signal);
            if news {
                moved = heard;
            }
            if let Some(exit) = end {
                return self.end(exit);
            }
        }
    }

    /// Takes a signal in: whether it is a sign of progress, and whether it is the end.
    fn hear(&mut self, signal: &Signal) -> (bool, Option<Exit>) {
        let header = signal.header();
        let member = header.member().map(|member| member.to_string()).unwrap_or_default();
        let body = signal.body();
        match member.as_str() {
            "Package" => {
                if let Ok((info, id, _)) = body.deserialize::<(u32, &str, &str)>() {
                    self.add(info, id);
                }
                (true, None)
            }
            "Packages" => {
                if let Ok(packages) = body.deserialize::<Vec<(u32, &str, &str)>>() {
                    packages.into_iter().for_each(|(info, id, _)| self.add(info, id));
                }
                (true, None)
            }
            "ErrorCode" => {
                if let Ok((code, text)) = body.deserialize::<(u32, &str)>()
                    && self.complaint.is_none()
                {
                    self.complaint = Some((Code(code), shown(text)));
                }
                (true, None)
            }
            "ItemProgress" => (true, None),
            "PropertiesChanged" => {
                type Changed<'a> = (&'a str, HashMap<&'a str, BusValue>, Vec<&'a str>);
                let Ok((_, changed, _)) = body.deserialize::<Changed<'_>>() else { return (false, None) };
                let number = |name: &str| changed.get(name).and_then(|value| u32::try_from(value).ok());
                if let Some(allowed) = changed.get("AllowCancel").and_then(|value| bool::try_from(value).ok())
                {
                    self.progress.is_working |= !allowed;
                }
                let told = self.progress.take(number("Status").map(Status), number("Percentage"));
                if let Some(news) = &told {
                    self.say(news);
                }
                (!changed.is_empty(), None)
            }
            "Finished" => {
                let exit = body.deserialize::<(u32, u32)>().map_or(0, |(exit, _)| exit);
                (true, Some(Exit(exit)))
            }
            "Destroy" => (true, Some(Exit(0))),
            _ => (false, None),
        }
    }

    fn add(&mut self, info: u32, id: &str) {
        let Some(found) = Found::read(info, id) else { return };
        self.progress.about = found.name.display().to_string();
        // Told twice of the same, it is still one. Progress speaks of the same package over and over.
        let is_answer = self.method == "Resolve";
        if is_answer && self.found.len() < MOST && !self.found.contains(&found) {
            self.found.push(found);
        }
    }

    /// What came of it.
    fn end(&mut self, exit: Exit) -> Result<Vec<Found>, Failure> {
        if exit == Exit::SUCCESS {
            return Ok(std::mem::take(&mut self.found));
        }
        if self.job.cancel.stage() != Stage::Run && exit.is_cancelled() {
            return Err(Failure::Broken(Error::Cancelled));
        }
        match self.complaint.take() {
            Some((code, text)) => Err(Failure::Refused(code, text)),
            None => Err(Failure::Refused(exit.code(), exit.words().to_owned())),
        }
    }

    /// We are to stop. Says until when to wait for the end.
    async fn cancel(&self) -> Instant {
        if self.progress.is_working {
            self.say("asked to stop, but packages are being installed or removed; that is finished first");
        } else if let Err(error) = self.call::<_, ()>("Cancel", &()).await {
            self.say(&format!("PackageKit does not stop: {error}"));
        }
        Instant::now() + PATIENCE
    }

    /// We cannot wait any longer; the daemon goes on without us.
    fn leave(&self) -> Error {
        tracing::warn!(
            target: "mgmt::resource", resource = %self.job.id,
            "stopping, while PackageKit is still at work: {}", self.progress.status.words()
        );
        Error::Cancelled
    }

    /// Whether the daemon answers. That it does not know the transaction any more is an error: the end was missed.
    async fn is_there(&self) -> Result<bool, Failure> {
        let status = self.service.call_within::<_, BusValue>(
            ANSWER.0,
            self.path.as_str(),
            PROPERTIES,
            "Get",
            &(TRANSACTION, "Status"),
        );
        match status.await {
            Ok(_) => Ok(true),
            Err(BusError::Late { .. }) => Ok(false),
            Err(error) => Err(Failure::Broken(self.died(&error))),
        }
    }

    fn died(&self, why: &BusError) -> Error {
        Error::new(format_args!(
            "PackageKit has ended in the middle of the work ({}): {why}",
            self.progress.status.words()
        ))
        .with_hint(
            "journalctl --unit packagekit tells why; what is half done is finished by the next attempt",
        )
    }

    fn stuck(&self, how: &str) -> Error {
        Error::new(format_args!("PackageKit {how} ({})", self.progress.status.words())).with_hint(
            "systemctl status packagekit shows what it waits for; systemctl restart packagekit ends it",
        )
    }

    fn say(&self, news: &str) {
        tracing::info!(target: "mgmt::resource", resource = %self.job.id, "{news}");
    }
}

/// How far a transaction is.
#[derive(Debug, Default)]
struct Progress {
    status: Status,
    /// The package that was spoken of last.
    about: String,
    /// From here on, stopping in the middle does harm.
    is_working: bool,
    /// What was told last: of which phase, and how many percent.
    told: Option<(Status, Option<u32>)>,
}

impl Progress {
    /// Takes in what has changed, and says what of it is worth telling.
    fn take(&mut self, status: Option<Status>, percent: Option<u32>) -> Option<String> {
        self.status = status.unwrap_or(self.status);
        // Beyond 100 means that it is not known.
        let percent = percent.filter(|percent| *percent <= 100);
        if !self.status.is_news() {
            return None;
        }
        let is_due = match self.told {
            Some((phase, before)) if phase == self.status => match (before, percent) {
                (Some(before), Some(percent)) => percent >= before.saturating_add(STEP),
                (None, Some(_)) => true,
                (_, None) => false,
            },
            _ => true,
        };
        if !is_due {
            return None;
        }
        self.told = Some((self.status, percent));
        let (doing, about) = (self.status.words(), &self.about);
        let doing = if about.is_empty() { doing.to_owned() } else { format!("{doing} {about}") };
        Some(match percent {
            Some(percent) => format!("{percent}%: {doing}"),
            None => doing,
        })
    }
}

/// What the daemon says, as one line without anything that a terminal would obey.
fn shown(text: &str) -> String {
    let line: String = text.trim().chars().take(1000).collect();
    Str::from(line.replace('\n', " ")).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_and_another_version_of_it_is_named() {
        let found = Found::read(1, "demo;1:2.0-1;all;manual:a;b").unwrap();
        assert_eq!((found.name.clone(), found.version.clone()), ("demo".into(), "1:2.0-1".into()));
        assert!(found.installed);
        assert_eq!(found.id_of(&"3".into()), "demo;3;all;manual:a;b");
        assert!(!Found::read(2, "demo;1;all;local").unwrap().installed);
        for wrong in ["", ";", "demo", "demo;1", ";1;all;"] {
            assert_eq!(Found::read(1, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn progress_is_told_in_steps_and_only_of_real_work() {
        let mut progress = Progress::default();
        assert_eq!(progress.take(Some(Status(27)), Some(100)), None, "loading a cache is nobody's concern");
        assert_eq!(progress.take(Some(Status(8)), None).as_deref(), Some("downloading"));
        assert_eq!(progress.take(None, Some(0)).as_deref(), Some("0%: downloading"));
        assert_eq!(progress.take(None, Some(7)), None);
        progress.about = "demo".into();
        assert_eq!(progress.take(None, Some(15)).as_deref(), Some("15%: downloading demo"));
        assert_eq!(progress.take(None, Some(101)), None, "not known");
        assert_eq!(progress.take(Some(Status(9)), Some(20)).as_deref(), Some("20%: installing demo"));
        assert_eq!(progress.take(Some(Status(9)), Some(20)), None);
    }

    #[test]
    fn what_is_said_is_one_line() {
        assert_eq!(shown("E: a\nb\u{1b}[2J \n"), "E: a b\\u{1b}[2J".replace("\\u{1b}", "\\x1b"));
        assert!(shown(&"x".repeat(5000)).len() <= 1000);
    }
}
