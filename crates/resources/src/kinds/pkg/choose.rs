//! Which of two ways is taken on a host that has both: PackageKit, or the tools of the host itself.
//!
//! Questions are answered by the databases of `dpkg` and `apt`, which are exact and cost no daemon; so a check that finds
//! everything right, and one that only looks, never starts one. What has to be *done* is done by PackageKit where
//! it runs or can be started, and speaks to `apt`. The tools of the host do it instead when
//!
//! - PackageKit cannot be had, or has a backend for another package system;
//! - it refuses because it believes to be offline, which is also what it says of package sources that are files;
//! - something is half installed, or `dpkg` was interrupted: PackageKit cannot repair that;
//! - something is purged, put on hold or released, which it does not do;
//! - a package is for another architecture, as PackageKit takes the one of the host then;
//! - lists may come from sources that nobody has signed (`allowuntrusted`), which it cannot be told;
//! - our environment names a proxy, which the daemon does not know of;
//! - it does not know a package that the lists have;
//! - it says that all is done, and the database says otherwise.
//!
//! Which way is taken and why is said once, and again when it changes.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use mgmt_resource::{Error, Result, Watch};
use mgmt_value::Str;

use super::Names;
use super::apt::Apt;
use super::backend::{Answer, Available, Backend, Changes, Installed, Job};
use super::packagekit::{self, Daemon, Outcome, Unusable};

/// How often something is tried that somebody else has come in the way of.
const ATTEMPTS: usize = 5;
/// What a proxy is named with, for programs that fetch packages.
const PROXIES: [&str; 8] = [
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
];

/// A host with `apt`, and perhaps with PackageKit.
pub(super) struct Choice {
    apt: Apt,
    /// What was said last about which way is taken.
    told: Mutex<Option<String>>,
}

impl Choice {
    pub(super) const fn new() -> Choice {
        Choice { apt: Apt::new(), told: Mutex::new(None) }
    }

    /// PackageKit, if it is of use here.
    async fn daemon(&self, job: &Job<'_>) -> Result<Option<Daemon>> {
        let found = match proxy() {
            Some(name) => Err(Unusable(format!("PackageKit does not know of the proxy that `{name}` names"))),
            None => Daemon::start(job).await?,
        };
        let daemon = found.and_then(|daemon| match daemon.backend.as_str() {
            "apt" | "aptcc" => Ok(daemon),
            other => Err(Unusable(format!("PackageKit speaks to `{other}` here"))),
        });
        match daemon {
            Ok(daemon) => {
                self.tell(format!("packages are changed with {daemon}, which is on the system bus"));
                Ok(Some(daemon))
            }
            Err(Unusable(why)) => {
                self.tell(format!("packages are changed with apt itself: {why}"));
                Ok(None)
            }
        }
    }

    /// Says which way is taken, unless that was said already.
    fn tell(&self, news: String) {
        // A panic elsewhere leaves a text that was said.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.as_ref() != Some(&news) {
            tracing::info!(target: "mgmt::resource", "{news}");
            *told = Some(news);
        }
    }

    /// Makes changes with PackageKit. The answer is why the tools of the host have to, if they do.
    async fn with_packagekit(&'static self, changes: &Changes, job: &Job<'_>) -> Result<Option<String>> {
        if let Some(why) = self.unfit(changes, job).await? {
            return Ok(Some(why));
        }
        let Some(daemon) = self.daemon(job).await? else { return Ok(Some(String::new())) };
        let mut fetched = false;
        for attempt in 1.. {
            self.apt.wait_until_free(job).await?;
            match daemon.change(changes, job).await? {
                Outcome::Done => break,
                Outcome::Declined(why) => return Ok(Some(why)),
                Outcome::Locked(error) if attempt >= ATTEMPTS => return Err(error),
                Outcome::Locked(_) => {}
                Outcome::Unfetched(error) if fetched => return Err(error),
                Outcome::Unfetched(_) => {
                    // The lists name files that the mirror has replaced since.
                    say(job, "packages could not be fetched; trying again with new package lists");
                    self.fetch(changes.allow_untrusted, job).await?;
                    fetched = true;
                }
            }
        }
        let undone = self.undone(changes, job).await?;
        Ok((!undone.is_empty())
            .then(|| format!("PackageKit says that all is done, but it is not: {}", Names(&undone))))
    }

    /// Why PackageKit cannot make these changes right, if it cannot.
    async fn unfit(&'static self, changes: &Changes, job: &Job<'_>) -> Result<Option<String>> {
        if changes.needs_apt() {
            return Ok(Some("PackageKit neither purges nor holds".to_owned()));
        }
        let names: Vec<&Str> =
            changes.remove.iter().chain(changes.install.iter().map(|(name, _)| name)).collect();
        if let Some(foreign) = names.iter().find(|name| name.contains(&b':')) {
            return Ok(Some(format!("PackageKit does not tell architectures apart ({})", foreign.display())));
        }
        self.apt.wait_until_free(job).await?;
        if self.apt.is_interrupted()? {
            return Ok(Some(
                "an earlier installation was interrupted, which PackageKit cannot repair".to_owned(),
            ));
        }
        let found = self.apt.installed(&names, job).await?;
        let half =
            names.iter().zip(&found).find(|(_, found)| found.as_ref().is_some_and(|found| !found.complete));
        Ok(half
            .map(|(name, _)| format!("{} is half installed, which PackageKit cannot repair", name.display())))
    }

    /// What is not as it should be after the changes.
    async fn undone(&'static self, changes: &Changes, job: &Job<'_>) -> Result<Vec<Str>> {
        let names: Vec<&Str> =
            changes.remove.iter().chain(changes.install.iter().map(|(name, _)| name)).collect();
        let wanted = changes
            .remove
            .iter()
            .map(|_| None)
            .chain(changes.install.iter().map(|(_, version)| Some(version.as_ref())));
        let found = self.apt.installed(&names, job).await?;
        let wrong =
            names.iter().zip(wanted).zip(found).filter(|((_, wanted), found)| match (wanted, found) {
                (None, found) => found.is_some(),
                (Some(_), None) => true,
                (Some(version), Some(found)) => {
                    !found.complete || version.is_some_and(|version| found.version != *version)
                }
            });
        Ok(wrong.map(|((name, _), _)| (*name).clone()).collect())
    }

    /// Fetches the package lists. Whoever calls is alone.
    async fn fetch(&'static self, allow_untrusted: bool, job: &Job<'_>) -> Result<()> {
        if allow_untrusted {
            say(job, "apt fetches the package lists: PackageKit takes none that nobody has signed");
            return self.apt.update(allow_untrusted, job).await;
        }
        let Some(daemon) = self.daemon(job).await? else {
            return self.apt.update(allow_untrusted, job).await;
        };
        for attempt in 1.. {
            self.apt.wait_until_lists_are_free(job).await?;
            match daemon.refresh(job).await? {
                Outcome::Done => break,
                Outcome::Declined(why) => {
                    say(job, &format!("apt fetches the package lists: {why}"));
                    return self.apt.update(allow_untrusted, job).await;
                }
                Outcome::Locked(error) if attempt >= ATTEMPTS => return Err(error),
                Outcome::Locked(_) => {}
                Outcome::Unfetched(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn proxy() -> Option<&'static str> {
    PROXIES.into_iter().find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

fn say(job: &Job<'_>, news: &str) {
    tracing::info!(target: "mgmt::resource", resource = %job.id, "{news}");
}

impl Backend for Choice {
    fn name(&self) -> &'static str {
        "the package system"
    }

    fn watches(&self, newest: bool) -> Vec<Watch> {
        let mut watches = self.apt.watches(newest);
        // The database tells of all changes. PackageKit tells of newer versions, too.
        if packagekit::is_likely() {
            watches.push(packagekit::watch());
        }
        watches
    }

    fn files(&self, name: &Str) -> Arc<[Str]> {
        self.apt.files(name)
    }

    fn installed<'a>(
        &'static self,
        names: &'a [&'a Str],
        job: &'a Job<'a>,
    ) -> Answer<'a, Vec<Option<Installed>>> {
        self.apt.installed(names, job)
    }

    fn leftovers<'a>(&'static self, names: &'a [&'a Str]) -> Answer<'a, Vec<bool>> {
        self.apt.leftovers(names)
    }

    fn available<'a>(
        &'static self,
        names: &'a [&'a Str],
        job: &'a Job<'a>,
    ) -> Answer<'a, Vec<Option<Available>>> {
        self.apt.available(names, job)
    }

    fn would_offer<'a>(
        &'static self,
        names: &'a [&'a Str],
        allow_untrusted: bool,
        job: &'a Job<'a>,
    ) -> Answer<'a, Option<Vec<Option<Available>>>> {
        self.apt.would_offer(names, allow_untrusted, job)
    }

    fn is_outdated(&self) -> bool {
        self.apt.is_outdated()
    }

    fn refresh<'a>(&'static self, allow_untrusted: bool, job: &'a Job<'a>) -> Answer<'a, ()> {
        Box::pin(async move {
            let _alone = self.apt.alone(job).await?;
            self.fetch(allow_untrusted, job).await
        })
    }

    fn change<'a>(&'static self, changes: &'a Changes, job: &'a Job<'a>) -> Answer<'a, ()> {
        Box::pin(async move {
            let _alone = self.apt.alone(job).await?;
            let Some(why) = self.with_packagekit(changes, job).await? else { return Ok(()) };
            if !why.is_empty() {
                say(job, &format!("apt does it: {why}"));
            }
            if job.cancel.stage() != mgmt_resource::Stage::Run {
                return Err(Error::Cancelled);
            }
            self.apt.transact(changes, job).await
        })
    }

    fn compare(&self, a: &Str, b: &Str) -> Ordering {
        self.apt.compare(a, b)
    }
}
