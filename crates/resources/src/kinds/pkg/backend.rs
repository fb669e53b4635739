//! What a package system has to offer.

use std::cmp::Ordering;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mgmt_resource::{Cancel, Error, Id, Result, Watch};
use mgmt_value::Str;

use super::apt::Apt;
use super::choose::Choice;
use super::packagekit::{self, Alone};

/// A package system of the host. There is one of each, for as long as the program runs.
///
/// Names are as they are declared. Answers about several names come in the order of the names.
pub(super) trait Backend: Send + Sync {
    /// What it is called in the log.
    fn name(&self) -> &'static str;

    /// What changes when packages change; with `newest`, also when there are newer ones to be had.
    fn watches(&self, newest: bool) -> Vec<Watch>;

    /// The paths that an installed package has brought, directories without a slash. Empty if that is not known.
    ///
    /// Called while a graph is built, so it has to be fast, and reads nothing but local files.
    fn files(&self, name: &Str) -> Arc<[Str]>;

    /// What is installed. `None`: the package is not.
    fn installed<'a>(
        &'static self,
        names: &'a [&'a Str],
        job: &'a Job<'a>,
    ) -> Answer<'a, Vec<Option<Installed>>>;

    /// Which of them are gone and have left their configuration.
    fn leftovers<'a>(&'static self, names: &'a [&'a Str]) -> Answer<'a, Vec<bool>> {
        Box::pin(async move { Ok(vec![false; names.len()]) })
    }

    /// What the package lists of the host offer. `None`: they do not know the name.
    fn available<'a>(
        &'static self,
        names: &'a [&'a Str],
        job: &'a Job<'a>,
    ) -> Answer<'a, Vec<Option<Available>>>;

    /// Whether the package lists are so old that newer versions are likely.
    fn is_outdated(&self) -> bool;

    /// Fetches the package lists.
    fn refresh<'a>(&'static self, allow_untrusted: bool, job: &'a Job<'a>) -> Answer<'a, ()>;

    /// What the package lists would offer once they have been fetched, found out without changing those of the host. `None`: that
    /// cannot be told beforehand.
    fn would_offer<'a>(
        &'static self,
        names: &'a [&'a Str],
        allow_untrusted: bool,
        job: &'a Job<'a>,
    ) -> Answer<'a, Option<Vec<Option<Available>>>> {
        let _ = (names, allow_untrusted, job);
        Box::pin(async { Ok(None) })
    }

    /// Installs and removes packages, all together. Every name is known to be that of a package.
    fn change<'a>(&'static self, changes: &'a Changes, job: &'a Job<'a>) -> Answer<'a, ()>;

    /// Which of two versions is newer.
    fn compare(&self, a: &Str, b: &Str) -> Ordering;
}

/// An answer that may take its time.
pub(super) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// On whose behalf something is done.
pub(super) struct Job<'a> {
    pub(super) id: &'a Id,
    pub(super) cancel: &'a Cancel,
    /// When false, nothing may be changed, no cache either.
    pub(super) apply: bool,
}

/// A package that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Installed {
    pub(super) version: Str,
    /// When false, something went wrong half-way: it is neither usable nor gone.
    pub(super) complete: bool,
    /// Somebody has said that it must not be changed.
    pub(super) held: bool,
    /// The part of the distribution that it belongs to.
    pub(super) section: Str,
}

/// A package that can be had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Available {
    /// The version that is installed if none is asked for.
    pub(super) candidate: Option<Str>,
    /// All versions, the one that is installed included.
    pub(super) versions: Vec<Str>,
}

/// What has to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Names, with a version if it has to be that one.
    pub(super) install: Vec<(Str, Option<Str>)>,
    pub(super) remove: Vec<Str>,
    /// To be removed with their configuration.
    pub(super) purge: Vec<Str>,
    /// To be put on hold, after everything else.
    pub(super) hold: Vec<Str>,
    /// To be released, before everything else.
    pub(super) release: Vec<Str>,
    pub(super) allow_downgrade: bool,
    pub(super) allow_untrusted: bool,
}

impl Changes {
    /// Whether there is something that only `apt` can do.
    pub(super) fn needs_apt(&self) -> bool {
        !(self.purge.is_empty() && self.hold.is_empty() && self.release.is_empty())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.install.is_empty() && self.remove.is_empty() && !self.needs_apt()
    }
}

/// The package system of this host.
pub(super) fn find() -> Result<&'static dyn Backend> {
    static WITH_APT: Choice = Choice::new();
    static WITH_PACKAGEKIT: Alone = Alone::new();
    if Apt::is_there() {
        return Ok(&WITH_APT);
    }
    if packagekit::is_likely() {
        return Ok(&WITH_PACKAGEKIT);
    }
    Err(Error::new(
        "this host has no package system that is known here: there is no apt, and no system bus for PackageKit",
    )
    .with_hint("`pkg` is for Debian and its relatives, and for hosts with PackageKit; elsewhere use `exec`"))
}
