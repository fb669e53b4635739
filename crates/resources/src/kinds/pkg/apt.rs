//! Debian and its relatives: the database of `dpkg` is read directly, everything else is done by `apt`.

mod dpkg;
mod lock;
mod private_lists;
mod run;
mod version;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use mgmt_resource::{Error, Result, Watch};
use mgmt_value::Str;

use self::dpkg::{Dpkg, Stamp};
use self::lock::wait_until_free;
use self::private_lists::PrivateLists;
use self::run::{Ended, ask, command, follow};
use super::backend::{Answer, Available, Backend, Changes, Installed, Job};
use crate::support::account::lookup;

const DATABASE: &str = "/var/lib/dpkg";
const STATUS: &str = "/var/lib/dpkg/status";
const LISTS: &str = "/var/lib/apt/lists";
const APT_GET: &str = "/usr/bin/apt-get";
const APT_CACHE: &str = "/usr/bin/apt-cache";
const APT_MARK: &str = "/usr/bin/apt-mark";
const DPKG: &str = "/usr/bin/dpkg";

/// What is locked while packages change, and while package lists are fetched.
const LOCKS: [&str; 3] =
    ["/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/cache/apt/archives/lock"];
const LIST_LOCKS: [&str; 1] = ["/var/lib/apt/lists/lock"];

/// What decides, apart from the lists themselves, which version is the one to install.
const SETTINGS: [&str; 7] = [
    LISTS,
    "/etc/apt/apt.conf",
    "/etc/apt/apt.conf.d",
    "/etc/apt/preferences",
    "/etc/apt/preferences.d",
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d",
];

/// Lists older than this are outdated.
const OLD: Duration = Duration::from_secs(3600);
/// How often something is tried that somebody else has come in the way of.
const ATTEMPTS: usize = 5;
/// How long it takes until a question that failed is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// `apt` and `dpkg`.
pub(super) struct Apt {
    dpkg: Dpkg,
    /// What the lists offer, for as long as nothing changes.
    offers: Mutex<Option<(OffersStamp, Offers)>>,
    /// Held through a transaction: package tools refuse to run twice at the same time.
    transaction: tokio::sync::Mutex<()>,
}

/// What the lists offer; `None` for a name that they do not know.
type Offers = HashMap<Str, Option<Available>>;

/// Everything that what the lists offer depends on.
type OffersStamp = (Stamp, Vec<(u64, u64, i64, i64)>);

impl Apt {
    pub(super) const fn new() -> Apt {
        Apt {
            dpkg: Dpkg::new(DATABASE),
            offers: Mutex::new(None),
            transaction: tokio::sync::Mutex::const_new(()),
        }
    }

    pub(super) fn is_there() -> bool {
        Path::new(STATUS).is_file() && Path::new(APT_GET).is_file()
    }

    /// What changes as soon as anything does that an offer depends on, and the architecture of the host.
    async fn offers_stamp(&'static self) -> Result<(OffersStamp, Option<Str>)> {
        lookup(|| {
            let (stamp, index) = self.dpkg.index()?;
            let settings = SETTINGS.iter().flat_map(|path| versions(Path::new(path))).collect();
            Ok(((stamp, settings), index.native().cloned()))
        })
        .await
    }

    /// Waits until no other resource of this process is at work.
    pub(super) async fn alone(&self, job: &Job<'_>) -> Result<tokio::sync::MutexGuard<'_, ()>> {
        tokio::select! {
            alone = self.transaction.lock() => Ok(alone),
            () = job.cancel.cancelled() => Err(Error::Cancelled),
        }
    }

    /// Waits until nobody else changes packages.
    pub(super) async fn wait_until_free(&self, job: &Job<'_>) -> Result<()> {
        wait_until_free(&LOCKS, job).await
    }

    /// Waits until nobody else fetches package lists.
    pub(super) async fn wait_until_lists_are_free(&self, job: &Job<'_>) -> Result<()> {
        wait_until_free(&LIST_LOCKS, job).await
    }

    /// Whether `dpkg` was stopped in the middle of its work, provided that it is not at work now.
    pub(super) fn is_interrupted(&self) -> Result<bool> {
        self.dpkg.is_interrupted()
    }

    fn known_offers(&self, stamp: &OffersStamp) -> Offers {
        match &*self.offers.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((seen, known)) if seen == stamp => known.clone(),
            _ => Offers::new(),
        }
    }

    async fn ask_offers(
        &self,
        names: &[&Str],
        lists: Option<&PrivateLists>,
        job: &Job<'_>,
    ) -> Result<HashMap<Str, Available>> {
        let mut argv: Vec<OsString> = vec![APT_CACHE.into(), "--quiet".into()];
        argv.extend(lists.into_iter().flat_map(PrivateLists::options));
        if !job.apply {
            // What is computed on the way is not kept.
            argv.extend(
                ["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="].map(OsString::from),
            );
        }
        argv.extend(["policy", "--"].map(OsString::from));
        argv.extend(names.iter().map(|name| OsStr::from_bytes(name).to_owned()));
        let command = command(argv);
        let _alone = self.alone(job).await?;
        let mut attempt = 0;
        loop {
            let (ended, answer) = ask(command.clone(), job).await?;
            if ended.status.success() {
                return Ok(offers(&answer));
            }
            attempt += 1;
            if attempt >= ATTEMPTS {
                return Err(failure("apt-cache policy", &ended));
            }
            // It fails when what it reads is being replaced. Whoever does that holds a lock, or is done at once.
            wait_until_free(&LOCKS, job).await?;
            wait_until_free(&LIST_LOCKS, job).await?;
            tokio::select! {
                () = tokio::time::sleep(ASK_AGAIN) => {}
                () = job.cancel.cancelled() => return Err(Error::Cancelled),
            }
        }
    }

    /// Runs `apt-get`, when nobody else is at work.
    async fn apt_get(&self, arguments: &[OsString], locks: &[&'static str], job: &Job<'_>) -> Result<Ended> {
        let fixed = [
            APT_GET,
            "--yes",
            "--quiet",
            "--no-install-recommends",
            "-o",
            "APT::Status-Fd=1",
            // With a terminal of its own, dpkg would leave our process group.
            "-o",
            "Dpkg::Use-Pty=0",
            "-o",
            "Dpkg::Options::=--force-confdef",
            "-o",
            "Dpkg::Options::=--force-confold",
        ];
        let argv = fixed.iter().map(OsString::from).chain(arguments.iter().cloned());
        let command = command(argv);
        let mut attempt = 0;
        loop {
            wait_until_free(locks, job).await?;
            if job.cancel.stage() != mgmt_resource::Stage::Run {
                return Err(Error::Cancelled);
            }
            let ended = follow(&command, job).await?;
            attempt += 1;
            let is_locked =
                ended.said("Could not get lock") || ended.said("Unable to acquire the dpkg frontend lock");
            if ended.status.success() || !is_locked || attempt >= ATTEMPTS {
                return Ok(ended);
            }
        }
    }

    /// Finishes what an interrupted `dpkg` has begun. Nothing else can be done before.
    async fn repair(&self, job: &Job<'_>) -> Result<()> {
        wait_until_free(&LOCKS, job).await?;
        if !self.dpkg.is_interrupted()? {
            return Ok(());
        }
        tracing::warn!(
            target: "mgmt::resource", resource = %job.id,
            "an earlier installation was interrupted; finishing it with `dpkg --configure -a`"
        );
        let repair = command([DPKG, "--force-confdef", "--force-confold", "--configure", "--pending"]);
        let ended = follow(&repair, job).await?;
        if ended.status.success() { Ok(()) } else { Err(failure("dpkg --configure --pending", &ended)) }
    }

    /// Makes changes. Whoever calls is [alone](Apt::alone).
    pub(super) async fn transact(&self, changes: &Changes, job: &Job<'_>) -> Result<()> {
        self.repair(job).await?;
        self.mark("unhold", &changes.release, job).await?;
        for (verb, tool, names) in
            [("remove", "apt-get remove", &changes.remove), ("purge", "apt-get purge", &changes.purge)]
        {
            if names.is_empty() {
                continue;
            }
            let arguments = [OsString::from(verb), "--".into()].into_iter();
            let names = names.iter().map(|name| OsStr::from_bytes(name).to_owned());
            let ended = self.apt_get(&arguments.chain(names).collect::<Vec<_>>(), &LOCKS, job).await?;
            if !ended.status.success() {
                return Err(failure(tool, &ended));
            }
        }
        self.install(changes, job).await?;
        self.mark("hold", &changes.hold, job).await
    }

    /// Puts packages on hold, or releases them.
    async fn mark(&self, verb: &str, names: &[Str], job: &Job<'_>) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let fixed = [APT_MARK, verb, "--"].map(OsString::from).into_iter();
        let argv = fixed.chain(names.iter().map(|name| OsStr::from_bytes(name).to_owned()));
        wait_until_free(&LOCKS, job).await?;
        let ended = follow(&command(argv), job).await?;
        if ended.status.success() { Ok(()) } else { Err(failure(&format!("apt-mark {verb}"), &ended)) }
    }

    async fn install(&self, changes: &Changes, job: &Job<'_>) -> Result<()> {
        if changes.install.is_empty() {
            return Ok(());
        }
        let arguments = installation(changes);
        let mut ended = self.apt_get(&arguments, &LOCKS, job).await?;
        if ended.said("Unable to fetch some archives") {
            // The lists name files that the mirror has replaced since.
            tracing::info!(
                target: "mgmt::resource", resource = %job.id,
                "packages could not be fetched; trying again with new package lists"
            );
            self.update(changes.allow_untrusted, job).await?;
            ended = self.apt_get(&arguments, &LOCKS, job).await?;
        }
        if ended.status.success() { Ok(()) } else { Err(failure("apt-get install", &ended)) }
    }

    /// Fetches the package lists. Whoever calls is [alone](Apt::alone).
    pub(super) async fn update(&self, allow_untrusted: bool, job: &Job<'_>) -> Result<()> {
        let mut arguments: Vec<OsString> = Vec::new();
        if allow_untrusted {
            arguments.push("--allow-insecure-repositories".into());
        }
        arguments.push("update".into());
        let ended = self.apt_get(&arguments, &LIST_LOCKS, job).await?;
        if ended.status.success() { Ok(()) } else { Err(failure("apt-get update", &ended)) }
    }
}

impl Backend for Apt {
    fn name(&self) -> &'static str {
        "apt"
    }

    fn watches(&self, newest: bool) -> Vec<Watch> {
        let watch = |path: &str| Watch::Path { path: path.into(), recursive: false };
        let mut watches = vec![watch(STATUS)];
        if newest {
            watches.extend([LISTS, "/etc/apt/preferences", "/etc/apt/preferences.d"].map(watch));
        }
        watches
    }

    fn files(&self, name: &Str) -> Arc<[Str]> {
        self.dpkg.files(name)
    }

    fn installed<'a>(
        &'static self,
        names: &'a [&'a Str],
        _: &'a Job<'a>,
    ) -> Answer<'a, Vec<Option<Installed>>> {
        Box::pin(async move {
            let (_, index) = lookup(|| self.dpkg.index()).await?;
            Ok(names.iter().map(|name| index.installed(name)).collect())
        })
    }

    fn leftovers<'a>(&'static self, names: &'a [&'a Str]) -> Answer<'a, Vec<bool>> {
        Box::pin(async move {
            let (_, index) = lookup(|| self.dpkg.index()).await?;
            Ok(names.iter().map(|name| index.has_leftovers(name)).collect())
        })
    }

    fn available<'a>(
        &'static self,
        names: &'a [&'a Str],
        job: &'a Job<'a>,
    ) -> Answer<'a, Vec<Option<Available>>> {
        Box::pin(async move {
            let (stamp, native) = self.offers_stamp().await?;
            let mut known = self.known_offers(&stamp);
            let unknown: Vec<&Str> =
                names.iter().filter(|name| !known.contains_key(**name)).copied().collect();
            if !unknown.is_empty() {
                let offers = self.ask_offers(&unknown, None, job).await?;
                for name in unknown {
                    let found =
                        offers.get(name).or_else(|| offers.get(&without_native(name, native.as_ref())));
                    known.insert(name.clone(), found.cloned());
                }
            }
            let answers = names.iter().map(|name| known.get(*name).cloned().flatten()).collect();
            // What has changed since then has another stamp, so this is asked for once more.
            *self.offers.lock().unwrap_or_else(PoisonError::into_inner) = Some((stamp, known));
            Ok(answers)
        })
    }

    fn would_offer<'a>(
        &'static self,
        names: &'a [&'a Str],
        allow_untrusted: bool,
        job: &'a Job<'a>,
    ) -> Answer<'a, Option<Vec<Option<Available>>>> {
        Box::pin(async move {
            let lists = lookup(PrivateLists::new).await?;
            let mut argv: Vec<OsString> = vec![APT_GET.into(), "--yes".into(), "--quiet".into()];
            argv.extend(lists.options());
            if allow_untrusted {
                argv.push("--allow-insecure-repositories".into());
            }
            argv.push("update".into());
            tracing::info!(target: "mgmt::resource", resource = %job.id, "fetching the package lists to a place of their own");
            let (ended, _) = ask(command(argv), job).await?;
            if !ended.status.success() {
                let complaint = ended.complaint().unwrap_or_default();
                tracing::warn!(target: "mgmt::resource", resource = %job.id, "cannot fetch the package lists: {complaint}");
                return Ok(None);
            }
            let (_, native) = self.offers_stamp().await?;
            let offers = self.ask_offers(names, Some(&lists), job).await?;
            let offer = |name: &&Str| {
                offers.get(*name).or_else(|| offers.get(&without_native(name, native.as_ref()))).cloned()
            };
            Ok(Some(names.iter().map(offer).collect()))
        })
    }

    fn is_outdated(&self) -> bool {
        // Where lists arrive, also if they turn out to be the same as before.
        let fetched = |path: String| std::fs::metadata(path).and_then(|found| found.modified()).ok();
        let newest = fetched(LISTS.to_owned()).max(fetched(format!("{LISTS}/partial")));
        newest.and_then(|newest| SystemTime::now().duration_since(newest).ok()).is_none_or(|age| age > OLD)
    }

    fn refresh<'a>(&'static self, allow_untrusted: bool, job: &'a Job<'a>) -> Answer<'a, ()> {
        Box::pin(async move {
            let _alone = self.alone(job).await?;
            self.update(allow_untrusted, job).await
        })
    }

    fn change<'a>(&'static self, changes: &'a Changes, job: &'a Job<'a>) -> Answer<'a, ()> {
        Box::pin(async move {
            let _alone = self.alone(job).await?;
            self.transact(changes, job).await
        })
    }

    fn compare(&self, a: &Str, b: &Str) -> Ordering {
        compare_versions(a, b)
    }
}

/// Which of two versions is newer.
pub(super) fn compare_versions(a: &Str, b: &Str) -> Ordering {
    version::compare(a, b)
}

/// The arguments that install all at once.
fn installation(changes: &Changes) -> Vec<OsString> {
    let options = [
        changes.allow_downgrade.then_some("--allow-downgrades"),
        changes.allow_untrusted.then_some("--allow-unauthenticated"),
    ];
    let mut arguments: Vec<OsString> = options.into_iter().flatten().map(OsString::from).collect();
    arguments.extend(["install", "--"].map(OsString::from));
    arguments.extend(changes.install.iter().map(|(name, version)| {
        let mut wanted = OsStr::from_bytes(name).to_owned();
        if let Some(version) = version {
            wanted.push("=");
            wanted.push(OsStr::from_bytes(version));
        }
        wanted
    }));
    arguments
}

/// What a file is, or the files that are directly in a directory, as far as needed to see that they were changed.
fn versions(path: &Path) -> Vec<(u64, u64, i64, i64)> {
    let look = |path: &Path| {
        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        Some((found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
    };
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    // A lock is taken by whoever does anything, and decides nothing.
    let mut files: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| !path.ends_with("lock")).collect();
    files.sort();
    look(path).into_iter().chain(files.iter().filter_map(|path| look(path))).collect()
}

/// Packages of the host's own architecture are told without it.
fn without_native(name: &Str, native: Option<&Str>) -> Str {
    let own = native.and_then(|native| name.strip_suffix(native.as_bytes())?.strip_suffix(b":"));
    own.map_or_else(|| name.clone(), Str::from)
}

/// Reads what `apt-cache policy` says.
///
/// ```text
/// NAME:
///   Installed: VERSION or (none)
///   Candidate: VERSION or (none)
///   Version table:
///  *** VERSION PRIORITY            the installed one, or five blanks for the others
///         PRIORITY SOURCE          further in
/// ```
fn offers(answer: &[u8]) -> HashMap<Str, Available> {
    let mut offers: HashMap<Str, Available> = HashMap::new();
    let mut current: Option<&mut Available> = None;
    for line in answer.split(|byte| *byte == b'\n') {
        if let Some(name) = line.strip_suffix(b":").filter(|name| !name.starts_with(b" ")) {
            current = Some(offers.entry(name.into()).or_default());
            continue;
        }
        let Some(offer) = current.as_deref_mut() else { continue };
        if let Some(candidate) = line.strip_prefix(b"  Candidate: ") {
            offer.candidate = Some(candidate).filter(|candidate| *candidate != b"(none)").map(Str::from);
        } else if let Some((b" *** " | b"     ", version)) = line.split_at_checked(5)
            && version.first().is_some_and(|byte| *byte != b' ')
        {
            offer.versions.extend(version.split(|byte| *byte == b' ').next().map(Str::from));
        }
    }
    offers
}

/// The error for a tool that failed, with what can be done about it.
fn failure(tool: &str, ended: &Ended) -> Error {
    let mut message = format!("{tool}: {}", ended.status);
    if let Some(complaint) = ended.complaint() {
        message.push_str(": ");
        message.push_str(complaint);
    }
    let error = Error::new(message);
    let hints = [
        ("Could not get lock", "another program is installing packages; wait until it is done"),
        (
            "Unable to acquire the dpkg frontend lock",
            "another program is installing packages; wait until it is done",
        ),
        ("without --allow-downgrades", "set `allowdowngrade => true` to install an older version"),
        ("without --allow-unauthenticated", "set `allowuntrusted => true` to install what nobody has signed"),
        ("without --allow-change-held-packages", "release the package with `apt-mark unhold`"),
        (
            "without --allow-remove-essential",
            "the host does not work without it; remove it by hand if that is meant",
        ),
        ("is not signed", "set up the key of that package source, or set `allowuntrusted => true`"),
        ("You don't have enough free space", "make room on that file system"),
        ("Permission denied", "run as root"),
        ("unmet dependencies", "see which packages contradict each other with `apt-get check`"),
        ("returned error exit status", "a script of the package has failed; the log has what it said"),
    ];
    match hints.iter().find(|(said, _)| ended.said(said)) {
        Some((_, hint)) => error.with_hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_read_as_apt_tells_them() {
        let answer = b"demo:
  Installed: 1.0
  Candidate: 2:2.0~rc1-1
  Version table:
     2:2.0~rc1-1 500
        500 file:/repo ./ Packages
 *** 1.0 100
        100 /var/lib/dpkg/status
       1001 file:/repo ./ Packages
virtual:
  Installed: (none)
  Candidate: (none)
  Version table:
lib:i386:
  Installed: (none)
  Candidate: 3
  Version table:
     3 -10
";
        let offers = offers(answer);
        let offer = |name: &str| offers.get(&Str::from(name)).cloned();
        let demo = offer("demo").unwrap();
        assert_eq!(demo.candidate, Some("2:2.0~rc1-1".into()));
        assert_eq!(demo.versions, ["2:2.0~rc1-1", "1.0"].map(Str::from));
        assert_eq!(offer("virtual"), Some(Available::default()));
        assert_eq!(offer("lib:i386").unwrap().versions, ["3"].map(Str::from));
        assert_eq!(offer("other"), None);
        assert!(super::offers(b"  Candidate: 1\n\n:\n     \n").len() <= 1);
    }

    #[test]
    fn the_architecture_of_the_host_is_left_out() {
        let native = Str::from("amd64");
        assert_eq!(without_native(&"a:amd64".into(), Some(&native)), Str::from("a"));
        assert_eq!(without_native(&"a:i386".into(), Some(&native)), Str::from("a:i386"));
        assert_eq!(without_native(&"a".into(), None), Str::from("a"));
    }
}
