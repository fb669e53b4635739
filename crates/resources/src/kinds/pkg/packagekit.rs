//! PackageKit: a service on the system bus that knows the package system of the host, whichever that is.
//!
//! [`Daemon`] is the service when it runs. [`Alone`] is the package system of a host of which nothing else is known; where
//! the host's own tools are known, `choose` decides which of both does something.

mod transaction;
mod words;

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mgmt_resource::{Cancel, Error, Host, Result, Watch, WatchStream};
use mgmt_value::Str;
use mgmt_watch::{Bus, BusError, BusService, BusValue, Followed, Service, Signal, Topic};

use self::transaction::{Failure, Found, run};
use self::words::Code;
use super::Names;
use super::apt::compare_versions;
use super::backend::{Answer, Available, Backend, Changes, Installed, Job};

const NAME: &str = "org.freedesktop.PackageKit";
const PATH: &str = "/org/freedesktop/PackageKit";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const SOCKET: &str = "/run/dbus/system_bus_socket";
/// Where the package databases of hosts are. Not all who change packages tell PackageKit.
const DATABASES: [&str; 4] =
    ["/var/lib/dpkg/status", "/usr/lib/sysimage/rpm", "/var/lib/rpm", "/var/lib/pacman/local"];

/// Lists that were fetched by us so long ago are outdated. When others have fetched them is not told.
const OLD: Duration = Duration::from_secs(3600);

/// Which packages are looked for: of the host's own architecture.
const OWN_ARCHITECTURE: u64 = 1 << 18;
const ONLY_INSTALLED: u64 = 1 << 2;
/// What a transaction may do.
const ONLY_TRUSTED: u64 = 1 << 1;
const ALLOW_DOWNGRADE: u64 = 1 << 6;

/// The daemon, which runs.
pub(super) struct Daemon {
    service: Arc<BusService>,
    /// The package system that it speaks to.
    pub(super) backend: String,
    version: String,
}

/// Why PackageKit is of no use on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unusable(pub(super) String);

/// What came of something that the daemon was asked for.
pub(super) enum Outcome {
    Done,
    /// It was not done, and nothing was changed: somebody else has to do it, because of this.
    Declined(String),
    /// Somebody else is at work.
    Locked(Error),
    /// Packages could not be fetched.
    Unfetched(Error),
}

impl fmt::Display for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackageKit {} with its backend `{}`", self.version, self.backend)
    }
}

/// Whether this host can have it.
pub(super) fn is_likely() -> bool {
    Path::new(SOCKET).exists() || std::env::var_os("DBUS_SYSTEM_BUS_ADDRESS").is_some()
}

fn service() -> Arc<BusService> {
    // What it says of transactions is for whoever has asked for them. A question is a transaction, too, so that whoever
    // looked again whenever there was one would never come to rest.
    let topic = |signal: &Signal| match signal.header().member().map(|member| member.to_string()).as_deref() {
        Some("UpdatesChanged" | "RepoListChanged") => Topic::All,
        _ => Topic::None,
    };
    BusService::of(Bus::System, Service { name: NAME, subscribe: None, topic })
}

impl Daemon {
    /// Finds the daemon, which starts if it does not run.
    pub(super) async fn start(job: &Job<'_>) -> Result<Result<Daemon, Unusable>> {
        tokio::select! {
            daemon = Daemon::find() => Ok(daemon),
            () = job.cancel.cancelled() => Err(Error::Cancelled),
        }
    }

    async fn find() -> Result<Daemon, Unusable> {
        if !is_likely() {
            return Err(Unusable("there is no system bus".to_owned()));
        }
        let unusable = |error: BusError| Unusable(format!("PackageKit cannot be had: {error}"));
        let service = service();
        service.ready().await.map_err(unusable)?;
        let asked = service.call::<_, HashMap<String, BusValue>>(PATH, PROPERTIES, "GetAll", &NAME);
        let properties = asked.await.map_err(unusable)?;
        let number = |name: &str| properties.get(name).and_then(|value| u32::try_from(value).ok());
        let version = ["VersionMajor", "VersionMinor", "VersionMicro"].map(|part| number(part).unwrap_or(0));
        let backend = properties.get("BackendName").and_then(|value| <&str>::try_from(value).ok());
        Ok(Daemon {
            service,
            backend: backend.unwrap_or_default().to_owned(),
            version: version.map(|part| part.to_string()).join("."),
        })
    }

    /// Fetches the package lists.
    pub(super) async fn refresh(&self, job: &Job<'_>) -> Result<Outcome> {
        outcome("fetch the package lists", run(&self.service, "RefreshCache", &true, job).await)
    }

    /// Makes all changes, in one transaction unless some are removed and others installed.
    pub(super) async fn change(&self, changes: &Changes, job: &Job<'_>) -> Result<Outcome> {
        let names: Vec<&Str> =
            changes.remove.iter().chain(changes.install.iter().map(|(name, _)| name)).collect();
        let found = match self.resolve(OWN_ARCHITECTURE, &names, job).await {
            Ok(found) => found,
            Err(failure) => return outcome("look up packages", Err(failure)),
        };
        let trusted = if changes.allow_untrusted { 0 } else { ONLY_TRUSTED };
        let downgrade = if changes.allow_downgrade { ALLOW_DOWNGRADE } else { 0 };
        if !changes.remove.is_empty() {
            let ids = match removals(changes, &found) {
                Ok(ids) => ids,
                Err(unknown) => return Ok(Outcome::Declined(unknown)),
            };
            let (with_dependents, unused_too) = (true, false);
            let arguments = (0_u64, &ids, with_dependents, unused_too);
            match outcome("remove packages", run(&self.service, "RemovePackages", &arguments, job).await)? {
                Outcome::Done => {}
                other => return Ok(other),
            }
        }
        if changes.install.is_empty() {
            return Ok(Outcome::Done);
        }
        let ids = match installations(changes, &found) {
            Ok(ids) => ids,
            Err(unknown) => return Ok(Outcome::Declined(unknown)),
        };
        // What is there in another version is updated. To install does that as well, so that one transaction does for all.
        let installed: HashSet<&Str> =
            found.iter().filter(|found| found.installed).map(|found| &found.name).collect();
        let is_update =
            changes.install.iter().all(|(name, version)| version.is_none() && installed.contains(name));
        let (method, verb) = if is_update {
            ("UpdatePackages", "update packages")
        } else {
            ("InstallPackages", "install packages")
        };
        outcome(verb, run(&self.service, method, &(trusted | downgrade, &ids), job).await)
    }

    async fn resolve(&self, filter: u64, names: &[&Str], job: &Job<'_>) -> Result<Vec<Found>, Failure> {
        let texts: Vec<String> = names.iter().map(|name| name.to_text().into_owned()).collect();
        let mut found = run(&self.service, "Resolve", &(filter, &texts), job).await?;
        // It may know better what was meant.
        found.retain(|found| names.contains(&&found.name));
        Ok(found)
    }
}

/// The identities of what has to go.
fn removals(changes: &Changes, found: &[Found]) -> Result<Vec<String>, String> {
    let mut ids = Vec::new();
    for name in &changes.remove {
        let before = ids.len();
        ids.extend(
            found.iter().filter(|found| found.installed && found.name == *name).map(|found| found.id.clone()),
        );
        if ids.len() == before {
            return Err(format!("PackageKit does not know that {} is installed", name.display()));
        }
    }
    // The same package may be known twice.
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(id.clone()));
    Ok(ids)
}

/// The identities of what has to come.
fn installations(changes: &Changes, found: &[Found]) -> Result<Vec<String>, String> {
    let identity = |(name, version): &(Str, Option<Str>)| {
        let of_name = || found.iter().filter(|found| found.name == *name);
        let newest = of_name()
            .filter(|found| !found.installed)
            .max_by(|a, b| compare_versions(&a.version, &b.version));
        let chosen = match version {
            None => newest.or_else(|| of_name().next()).map(|found| found.id.clone()),
            Some(version) => {
                let exact = of_name().find(|found| found.version == *version && !found.installed);
                exact
                    .map(|found| found.id.clone())
                    .or_else(|| of_name().next().map(|found| found.id_of(version)))
            }
        };
        chosen.ok_or_else(|| format!("PackageKit does not know {}", name.display()))
    };
    changes.install.iter().map(identity).collect()
}

/// What a transaction has come to.
fn outcome(verb: &str, result: Result<Vec<Found>, Failure>) -> Result<Outcome> {
    let (code, text) = match result {
        Ok(_) => return Ok(Outcome::Done),
        Err(Failure::Broken(error)) => return Err(error),
        Err(Failure::NotBegun(error)) => {
            return Ok(Outcome::Declined(format!("PackageKit does not take it on: {error}")));
        }
        Err(Failure::Refused(code, text)) => (code, text),
    };
    match code {
        Code::NO_NETWORK => {
            Ok(Outcome::Declined(format!("PackageKit believes that there is no network: {text}")))
        }
        Code::LOCKED => Ok(Outcome::Locked(refused(verb, code, &text))),
        Code::DOWNLOAD_FAILED => Ok(Outcome::Unfetched(refused(verb, code, &text))),
        _ => Err(refused(verb, code, &text)),
    }
}

fn refused(verb: &str, code: Code, text: &str) -> Error {
    let error = Error::new(format_args!("PackageKit cannot {verb}: {text}"));
    match code.hint() {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// The error of a question.
fn unanswered(failure: Failure) -> Error {
    match outcome("look up packages", Err(failure)) {
        Err(error) | Ok(Outcome::Locked(error) | Outcome::Unfetched(error)) => error,
        Ok(Outcome::Declined(why)) => Error::new(why),
        Ok(Outcome::Done) => Error::new("PackageKit does not answer"),
    }
}

/// What PackageKit says of changes.
pub(super) fn watch() -> Watch {
    let start = |_: &Host| Ok(Box::new(Told(Some(service().follow("")))) as Box<dyn WatchStream>);
    Watch::Stream { key: "packagekit".into(), start: Arc::new(start) }
}

struct Told(Option<Followed>);

impl WatchStream for Told {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            if let Some(followed) = &mut self.0 {
                let event = async {
                    loop {
                        match followed.next().await {
                            Ok(()) => return true,
                            // A bus that was there is waited for.
                            Err(_) if followed.was_ready() => {}
                            Err(_) => return false,
                        }
                    }
                };
                let heard = tokio::select! {
                    heard = event => heard,
                    () = cancel.cancelled() => return Err(Error::Cancelled),
                };
                if heard {
                    return Ok(());
                }
            }
            // There is no bus; the database itself tells.
            self.0 = None;
            cancel.cancelled().await;
            Err(Error::Cancelled)
        })
    }
}

/// PackageKit on a host whose own tools are not known.
pub(super) struct Alone {
    transaction: tokio::sync::Mutex<()>,
    refreshed: Mutex<Option<Instant>>,
    told: Mutex<bool>,
}

impl Alone {
    pub(super) const fn new() -> Alone {
        Alone {
            transaction: tokio::sync::Mutex::const_new(()),
            refreshed: Mutex::new(None),
            told: Mutex::new(false),
        }
    }

    async fn daemon(&self, job: &Job<'_>) -> Result<Daemon> {
        match Daemon::start(job).await? {
            Ok(daemon) => {
                if !std::mem::replace(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner), true) {
                    tracing::info!(
                        target: "mgmt::resource",
                        "packages are managed with {daemon}: no other package system of this host is known here"
                    );
                }
                Ok(daemon)
            }
            Err(Unusable(why)) => Err(Error::new(format_args!("this host has no apt, and {why}")).with_hint(
                "install PackageKit: the package is mostly called packagekit; elsewhere use `exec`",
            )),
        }
    }

    async fn alone(&self, job: &Job<'_>) -> Result<tokio::sync::MutexGuard<'_, ()>> {
        tokio::select! {
            alone = self.transaction.lock() => Ok(alone),
            () = job.cancel.cancelled() => Err(Error::Cancelled),
        }
    }
}

/// Nobody else can do it here.
fn final_outcome(outcome: Outcome) -> Result<()> {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::Declined(why) => Err(Error::new(why)),
        Outcome::Locked(error) | Outcome::Unfetched(error) => Err(error),
    }
}

impl Backend for Alone {
    fn name(&self) -> &'static str {
        "PackageKit"
    }

    fn watches(&self, _: bool) -> Vec<Watch> {
        let databases = DATABASES.iter().filter(|path| Path::new(path).exists());
        let databases = databases.map(|path| Watch::Path { path: (*path).into(), recursive: false });
        databases.chain([watch()]).collect()
    }

    fn files(&self, _: &Str) -> Arc<[Str]> {
        // To ask would take a while, and a graph cannot wait.
        Arc::default()
    }

    fn installed<'a>(
        &'static self,
        names: &'a [&'a Str],
        job: &'a Job<'a>,
    ) -> Answer<'a, Vec<Option<Installed>>> {
        Box::pin(async move {
            let _alone = self.alone(job).await?;
            let daemon = self.daemon(job).await?;
            let filter = OWN_ARCHITECTURE | ONLY_INSTALLED;
            let found = daemon.resolve(filter, names, job).await.map_err(unanswered)?;
            let installed = |name: &&Str| {
                let of_name = found.iter().filter(|found| found.installed && found.name == **name);
                let newest = of_name.max_by(|a, b| compare_versions(&a.version, &b.version))?;
                let version = newest.version.clone();
                Some(Installed { version, complete: true, held: false, section: Str::EMPTY })
            };
            Ok(names.iter().map(installed).collect())
        })
    }

    fn available<'a>(
        &'static self,
        names: &'a [&'a Str],
        job: &'a Job<'a>,
    ) -> Answer<'a, Vec<Option<Available>>> {
        Box::pin(async move {
            let _alone = self.alone(job).await?;
            let daemon = self.daemon(job).await?;
            let found = daemon.resolve(OWN_ARCHITECTURE, names, job).await.map_err(unanswered)?;
            let available = |name: &&Str| {
                let mut of_name: Vec<&Found> = found.iter().filter(|found| found.name == **name).collect();
                of_name.sort_by(|a, b| compare_versions(&b.version, &a.version));
                let mut versions: Vec<Str> = of_name.iter().map(|found| found.version.clone()).collect();
                versions.dedup();
                let candidate = of_name.iter().find(|found| !found.installed).or(of_name.first());
                let candidate = candidate.map(|found| found.version.clone());
                (!of_name.is_empty()).then_some(Available { candidate, versions })
            };
            Ok(names.iter().map(available).collect())
        })
    }

    fn is_outdated(&self) -> bool {
        let refreshed = *self.refreshed.lock().unwrap_or_else(PoisonError::into_inner);
        refreshed.is_none_or(|refreshed| refreshed.elapsed() > OLD)
    }

    fn refresh<'a>(&'static self, _: bool, job: &'a Job<'a>) -> Answer<'a, ()> {
        Box::pin(async move {
            let _alone = self.alone(job).await?;
            final_outcome(self.daemon(job).await?.refresh(job).await?)?;
            *self.refreshed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            Ok(())
        })
    }

    fn change<'a>(&'static self, changes: &'a Changes, job: &'a Job<'a>) -> Answer<'a, ()> {
        Box::pin(async move {
            let _alone = self.alone(job).await?;
            let foreign: Vec<&Str> = changes
                .remove
                .iter()
                .chain(changes.install.iter().map(|(name, _)| name))
                .filter(|name| name.contains(&b':'))
                .collect();
            if !foreign.is_empty() {
                return Err(Error::new(format_args!(
                    "PackageKit does not tell architectures apart: {}",
                    Names(&foreign)
                )));
            }
            if changes.needs_apt() {
                return Err(Error::new("PackageKit can neither purge packages nor put them on hold"));
            }
            final_outcome(self.daemon(job).await?.change(changes, job).await?)
        })
    }

    fn compare(&self, a: &Str, b: &Str) -> Ordering {
        compare_versions(a, b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, version: &str, installed: bool) -> Found {
        Found {
            id: format!("{name};{version};all;x"),
            name: name.into(),
            version: version.into(),
            architecture: "all".into(),
            installed,
        }
    }

    #[test]
    fn what_is_installed_is_the_newest_or_exactly_the_wanted_version() {
        let known = [
            found("demo", "1.0", true),
            found("demo", "1.9", false),
            found("demo", "1.10", false),
            found("only", "1.0", true),
        ];
        let ids = |wanted: &[(&str, Option<&str>)]| {
            let install =
                wanted.iter().map(|(name, version)| ((*name).into(), version.map(Str::from))).collect();
            installations(&Changes { install, ..Changes::default() }, &known)
        };
        assert_eq!(ids(&[("demo", None)]).unwrap(), ["demo;1.10;all;x"]);
        assert_eq!(ids(&[("demo", Some("1.9"))]).unwrap(), ["demo;1.9;all;x"]);
        assert_eq!(
            ids(&[("demo", Some("0.5"))]).unwrap(),
            ["demo;0.5;all;x"],
            "not told of, but perhaps there"
        );
        assert_eq!(ids(&[("only", None)]).unwrap(), ["only;1.0;all;x"]);
        assert!(ids(&[("demo", None), ("other", None)]).unwrap_err().contains("other"));
    }

    #[test]
    fn what_is_known_twice_is_removed_once() {
        let known = [found("demo", "1.0", true), found("demo", "1.0", true), found("demo", "2.0", false)];
        let changes = Changes { remove: vec!["demo".into()], ..Changes::default() };
        assert_eq!(removals(&changes, &known).unwrap(), ["demo;1.0;all;x"]);
        assert!(removals(&changes, &known[2..]).unwrap_err().contains("demo"));
    }

    #[test]
    fn what_only_a_network_is_missing_for_can_be_done_by_others() {
        let refused = |code: u32| outcome("do it", Err(Failure::Refused(Code(code), "why".into())));
        assert!(matches!(refused(2), Ok(Outcome::Declined(_))));
        assert!(matches!(refused(26), Ok(Outcome::Locked(_))));
        let error = refused(20).err().unwrap();
        assert!(error.hint().unwrap().contains("does not work without it"), "{error}");
        assert!(refused(31).err().unwrap().hint().unwrap().contains("allowuntrusted"));
    }
}
