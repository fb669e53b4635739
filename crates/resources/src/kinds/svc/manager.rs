//! The service manager, as far as it is needed here.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgmt_resource::{Context, Error, Result};
use mgmt_watch::{Bus, BusError, BusPath, BusService, BusSignals, BusValue, Service, Signal, Topic};

use super::decide::{Facts, Job, Startup};

const NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const UNITS: &str = "/org/freedesktop/systemd1/unit/";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// There if and only if the host was booted with systemd.
const BOOTED: &str = "/run/systemd/system";
/// Reading all unit files again takes long on a busy host with many of them.
const RELOAD_LIMIT: Duration = Duration::from_secs(120);
/// How long a bus that was there is waited for when it is away.
const AWAY_LIMIT: Duration = Duration::from_secs(60);
const BREATH: Duration = Duration::from_millis(50);
/// How many jobs of others to wait for before giving up.
pub(crate) const PATIENCE: usize = 10;
/// How often to say that a job is still under way.
const REMINDER: Duration = Duration::from_secs(10);

/// The service manager.
pub(crate) struct Manager(pub(crate) Arc<BusService>);

/// What is known about a unit, and the job that somebody has for it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) facts: Facts,
    pub(crate) job: Option<BusPath>,
}

/// What came of a job that has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// Somebody else has had another one done for the same unit, which has taken its place.
    Overtaken,
}

impl Manager {
    /// The system's, or that of our own session. It may not be connected yet. To be called in a runtime.
    pub(crate) fn of(session: bool) -> Result<Manager> {
        if !Path::new(BOOTED).is_dir() {
            return Err(Error::new("this host does not run systemd, which services need")
                .with_hint("manage services only on hosts that were booted with systemd"));
        }
        let bus = if session { Bus::Session } else { Bus::System };
        let service = Service { name: NAME, subscribe: Some((PATH, MANAGER, "Subscribe")), topic };
        Ok(Manager(BusService::of(bus, service)))
    }

    pub(crate) async fn ready(&self) -> Result<()> {
        self.0.back_within(AWAY_LIMIT).await.map_err(unreachable)
    }

    /// Looks at a unit. A bus that goes away meanwhile is waited for: looking twice does no harm, and a service is not to be left
    /// alone because the bus was restarted.
    pub(crate) async fn look(&self, unit: &str) -> Result<Seen> {
        let began = Instant::now();
        loop {
            match self.look_now(unit).await {
                Err(error) if error.is_away() && began.elapsed() < AWAY_LIMIT => {
                    // That it is away may be news to the connection, too.
                    tokio::time::sleep(BREATH).await;
                    self.ready().await?;
                }
                seen => return seen.map_err(|error| failure("look at", unit, error)),
            }
        }
    }

    /// Looks at a unit without making the manager load it: that would be an event, and a check.
    async fn look_now(&self, unit: &str) -> Result<Seen, BusError> {
        let file = match self.call::<_, String>("GetUnitFileState", &unit).await {
            Ok(state) => Some(state),
            // That the manager could not be started says nothing about the unit.
            Err(BusError::Refused { name, message })
                if name.starts_with("org.freedesktop.DBus.Error.Spawn.") =>
            {
                return Err(BusError::Refused { name, message });
            }
            Err(error @ BusError::Refused { .. }) if !error.is_away() => None,
            Err(error) => return Err(error),
        };
        let path = match self.call::<_, BusPath>("GetUnit", &unit).await {
            Ok(path) => path,
            Err(BusError::Refused { name, .. }) if name.ends_with(".NoSuchUnit") => {
                return Ok(Seen { facts: unloaded(file), job: None });
            }
            Err(error) => return Err(error),
        };
        let call = self.0.call::<_, HashMap<String, BusValue>>(path.as_str(), PROPERTIES, "GetAll", &UNIT);
        let properties = call.await?;
        let text = |name: &str| {
            let value = properties.get(name).and_then(|value| <&str>::try_from(value).ok());
            value.map(str::to_owned).ok_or_else(|| BusError::Unexpected {
                call: format!("{PROPERTIES}.GetAll"),
                why: format!("it does not tell the {name}"),
            })
        };
        let facts = Facts {
            load: text("LoadState")?,
            active: text("ActiveState")?,
            file: file.unwrap_or_default(),
            is_stale: properties
                .get("NeedDaemonReload")
                .and_then(|value| bool::try_from(value).ok())
                .unwrap_or(false),
        };
        let job = properties
            .get("Job")
            .and_then(|value| <(u32, BusPath)>::try_from(value.clone()).ok())
            .and_then(|(number, path)| (number != 0).then_some(path));
        Ok(Seen { facts, job })
    }

    /// Makes the manager read all unit files again.
    pub(crate) async fn reload(&self) -> Result<()> {
        let reload = self.0.call_within::<_, ()>(RELOAD_LIMIT, PATH, MANAGER, "Reload", &());
        reload.await.map_err(|error| {
            Error::new(format_args!("cannot make systemd read its unit files again: {error}"))
        })
    }

    /// Enables or disables a unit, as the manager does not notice by itself.
    pub(crate) async fn set_startup(&self, unit: &str, startup: Startup, facts: &Facts) -> Result<()> {
        type Changes = Vec<(String, String, String)>;
        let units = [unit];
        match startup {
            Startup::Enabled => {
                let arguments = (&units[..], false, true);
                let enable = self.call::<_, (bool, Changes)>("EnableUnitFiles", &arguments);
                enable.await.map_err(|error| failure("enable", unit, error))?;
            }
            Startup::Disabled => {
                let arguments = (&units[..], facts.file.ends_with("-runtime"));
                let disable = self.call::<_, Changes>("DisableUnitFiles", &arguments);
                disable.await.map_err(|error| failure("disable", unit, error))?;
            }
            Startup::Masked => {
                let arguments = (&units[..], false, true);
                let mask = self.call::<_, Changes>("MaskUnitFiles", &arguments);
                mask.await.map_err(|error| failure("mask", unit, error))?;
            }
        }
        self.reload().await
    }

    /// Lets a unit be started again.
    pub(crate) async fn unmask(&self, unit: &str) -> Result<()> {
        type Changes = Vec<(String, String, String)>;
        let units = [unit];
        for at_runtime in [false, true] {
            let arguments = (&units[..], at_runtime);
            let unmask = self.call::<_, Changes>("UnmaskUnitFiles", &arguments);
            unmask.await.map_err(|error| failure("unmask", unit, error))?;
        }
        self.reload().await
    }

    /// Has a job done, and waits for its end. If somebody else has another one done instead, that comes to its end, and then
    /// the unit is made what it is to be, again: what is to be restarted is to run.
    pub(crate) async fn run(&self, unit: &str, job: Job, cx: &Context<'_>) -> Result<()> {
        let mut next = job;
        for _ in 0..PATIENCE {
            if self.try_to(unit, next, cx).await? == Ended::Done {
                return Ok(());
            }
            let runs = self.give_way(unit, cx).await?.runs();
            next = match (job, runs) {
                (Job::Start, true) | (Job::Stop, false) => return Ok(()),
                (Job::Restart | Job::Refresh, false) => Job::Start,
                (job, _) => job,
            };
        }
        Err(restless(unit))
    }

    /// Waits until nobody has a job for a unit, after one of ours was overtaken, and tells what is known of the unit then.
    pub(crate) async fn give_way(&self, unit: &str, cx: &Context<'_>) -> Result<Facts> {
        cx.info(format_args!("somebody else has started or stopped {unit} at the same time"));
        for _ in 0..PATIENCE {
            let mut signals = self.0.signals();
            let seen = self.look(unit).await?;
            match &seen.job {
                Some(job) => self.settle(unit, job, &mut signals, cx).await?,
                None => return Ok(seen.facts),
            }
        }
        Err(restless(unit))
    }

    /// Has a job done, unless somebody else has another one done instead, and waits for its end.
    pub(crate) async fn try_to(&self, unit: &str, job: Job, cx: &Context<'_>) -> Result<Ended> {
        let (method, verb) = method(job);
        // Before the call, as the job may end before we know its path.
        let mut signals = self.0.signals();
        let path = match self.call::<_, BusPath>(method, &(unit, "fail")).await {
            Ok(path) => path,
            // A job that came after we looked, and that ours would take the place of.
            Err(BusError::Refused { name, .. }) if name.ends_with(".TransactionIsDestructive") => {
                return Ok(Ended::Overtaken);
            }
            Err(error) => return Err(failure(verb, unit, error)),
        };
        let result = removed(&mut signals, &path, cx).await?;
        let why = match result.as_str() {
            "done" => return Ok(Ended::Done),
            "canceled" => return Ok(Ended::Overtaken),
            "timeout" => "it has not finished in time",
            "failed" => "it has failed",
            "dependency" => "a unit that it needs has failed",
            "skipped" => "it was skipped, as there was nothing to do",
            "assert" => "a condition that its unit file asserts does not hold",
            other => other,
        };
        Err(Error::new(format_args!("cannot {verb} {unit}: {why}")).with_hint(more_about(unit)))
    }

    /// Waits for the end of a job of somebody else, whatever comes of it.
    pub(crate) async fn settle(
        &self,
        unit: &str,
        path: &BusPath,
        signals: &mut BusSignals,
        cx: &Context<'_>,
    ) -> Result<()> {
        cx.info(format_args!("waits for a job for {unit} that is under way"));
        removed(signals, path, cx).await.map(|_| ())
    }

    async fn call<B, R>(&self, method: &str, arguments: &B) -> Result<R, BusError>
    where
        B: serde::Serialize + mgmt_watch::BusArguments + Sync,
        R: for<'d> serde::Deserialize<'d> + mgmt_watch::BusAnswer,
    {
        self.0.call(PATH, MANAGER, method, arguments).await
    }
}

/// Others never leave it alone.
pub(crate) fn restless(unit: &str) -> Error {
    Error::new(format_args!("others keep starting and stopping {unit}")).with_hint(more_about(unit))
}

/// What a job is called by the manager, and by people.
fn method(job: Job) -> (&'static str, &'static str) {
    match job {
        Job::Start => ("StartUnit", "start"),
        Job::Stop => ("StopUnit", "stop"),
        Job::Refresh => ("ReloadOrTryRestartUnit", "reload or restart"),
        // What has stopped since it was looked at stays so.
        Job::Restart => ("TryRestartUnit", "restart"),
    }
}

fn more_about(unit: &str) -> String {
    format!("systemctl status {unit} and journalctl --unit {unit} tell more")
}

/// Waits until a job is gone, and says what came of it.
async fn removed(signals: &mut BusSignals, path: &BusPath, cx: &Context<'_>) -> Result<String> {
    let mut reminder = tokio::time::interval_at(tokio::time::Instant::now() + REMINDER, REMINDER);
    loop {
        let signal = tokio::select! {
            signal = signals.next() => signal.map_err(|error| Error::new(format_args!("cannot wait for the job: {error}")))?,
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
            _ = reminder.tick() => {
                cx.warn("the service manager is still busy with the job");
                continue;
            }
        };
        if member(&signal).as_deref() != Some("JobRemoved") {
            continue;
        }
        if let Ok((_, job, _, result)) = signal.body().deserialize::<(u32, BusPath, String, String)>()
            && job == *path
        {
            return Ok(result);
        }
    }
}

/// How many jobs for a unit have come to their end, according to the signals that are there. What the manager has answered, it
/// has told before.
pub(crate) async fn jobs_done(signals: &mut BusSignals, unit: &str) -> usize {
    let mut count = 0;
    // Signals that were missed may have been about this unit.
    while let Ok(signal) = tokio::time::timeout(Duration::ZERO, signals.next()).await {
        let Ok(signal) = signal else { return usize::MAX };
        if member(&signal).as_deref() == Some("JobRemoved")
            && let Ok((_, _, of, _)) = signal.body().deserialize::<(u32, BusPath, String, String)>()
            && of == unit
        {
            count += 1;
        }
    }
    count
}

/// A unit that the manager has not loaded is neither active nor has it failed.
fn unloaded(file: Option<String>) -> Facts {
    let load = match file.as_deref() {
        None | Some("") => "not-found",
        Some("masked" | "masked-runtime") => "masked",
        Some(_) => "loaded",
    };
    Facts {
        load: load.to_owned(),
        active: "inactive".to_owned(),
        file: file.unwrap_or_default(),
        is_stale: false,
    }
}

/// The path under which a unit is known on the bus.
pub(crate) fn object_path(unit: &str) -> String {
    let mut path = UNITS.to_owned();
    for (position, byte) in unit.bytes().enumerate() {
        // A digit in the first place would be taken for part of an escape.
        if byte.is_ascii_alphabetic() || (byte.is_ascii_digit() && position > 0) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("_{byte:02x}"));
        }
    }
    path
}

/// Whom a signal of the manager concerns.
fn topic(signal: &Signal) -> Topic {
    let header = signal.header();
    match member(signal).as_deref() {
        Some("PropertiesChanged") => match header.path() {
            Some(path) => Topic::One(path.to_string()),
            None => Topic::None,
        },
        Some("UnitNew" | "UnitRemoved") => match signal.body().deserialize::<(String, BusPath)>() {
            Ok((_, path)) => Topic::One(path.to_string()),
            Err(_) => Topic::All,
        },
        // True: it begins, and nothing is to be seen yet.
        Some("Reloading") => match signal.body().deserialize::<bool>() {
            Ok(true) => Topic::None,
            _ => Topic::All,
        },
        Some("UnitFilesChanged") => Topic::All,
        _ => Topic::None,
    }
}

fn member(signal: &Signal) -> Option<String> {
    signal.header().member().map(|member| member.to_string())
}

fn failure(verb: &str, unit: &str, error: BusError) -> Error {
    let failed = Error::new(format_args!("cannot {verb} {unit}: {error}"));
    match &error {
        BusError::Refused { name, .. }
            if name.contains("AccessDenied") || name.contains("AuthorizationRequired") =>
        {
            failed.with_hint("run this program as root")
        }
        BusError::Unreachable { .. } => unreachable(error),
        _ => failed,
    }
}

pub(crate) fn unreachable(error: BusError) -> Error {
    let hint = match &error {
        BusError::Unreachable { bus: Bus::Session, .. } => {
            "the session of the user has to run; `loginctl enable-linger` starts it at boot"
        }
        BusError::Unreachable { .. } => {
            "install and start the message bus: the package is mostly called dbus"
        }
        _ => "systemctl is-system-running tells whether systemd is well",
    };
    Error::new(format_args!("cannot talk to systemd: {error}")).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_as_systemd_does() {
        let path = |unit: &str| object_path(unit).strip_prefix(UNITS).unwrap().to_owned();
        assert_eq!(path("cron.service"), "cron_2eservice");
        assert_eq!(path("getty@tty1.service"), "getty_40tty1_2eservice");
        assert_eq!(path("7zip.service"), "_37zip_2eservice");
        assert_eq!(path(r"a\x2db_c.mount"), "a_5cx2db_5fc_2emount");
    }

    #[test]
    fn a_unit_that_is_not_loaded_is_known_by_its_file() {
        assert_eq!(unloaded(None).load, "not-found");
        assert_eq!(unloaded(Some("masked".into())).load, "masked");
        assert_eq!(unloaded(Some("disabled".into())).load, "loaded");
        assert_eq!(unloaded(Some("disabled".into())).active, "inactive");
    }

    #[test]
    fn signals_concern_the_unit_they_name_or_all() {
        let signal = |path: &str, interface: &str, member: &str| {
            mgmt_watch::Signal::signal(path.to_owned(), interface.to_owned(), member.to_owned())
        };
        let path = object_path("a.service");
        let changed = signal(&path, PROPERTIES, "PropertiesChanged").build(&()).unwrap();
        assert_eq!(topic(&changed), Topic::One(path.clone()));
        let object = BusPath::try_from(path.clone()).unwrap();
        let new = signal(PATH, MANAGER, "UnitNew").build(&("a.service", object)).unwrap();
        assert_eq!(topic(&new), Topic::One(path));
        let odd = signal(PATH, MANAGER, "UnitRemoved").build(&7_u32).unwrap();
        assert_eq!(topic(&odd), Topic::All);
        for (reloading, concerned) in [(true, Topic::None), (false, Topic::All)] {
            let signal = signal(PATH, MANAGER, "Reloading").build(&reloading).unwrap();
            assert_eq!(topic(&signal), concerned);
        }
        let files = signal(PATH, MANAGER, "UnitFilesChanged").build(&()).unwrap();
        assert_eq!(topic(&files), Topic::All);
        let other = signal(PATH, MANAGER, "StartupFinished").build(&()).unwrap();
        assert_eq!(topic(&other), Topic::None);
    }
}
