//! One run: ask, decide, have it done, and look whether it was.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use mgmt_resource::{Checked, Context, Effect, Error, Result};
use mgmt_value::Str;

use super::backend::{self, Available, Backend, Changes, Job};
use super::decide::{self, Member, Wanted};
use super::{Names, Pkg};

/// How long it takes until lists that do not have a package are fetched again.
const REFRESH_AGAIN: Duration = Duration::from_secs(60);
/// How long it takes until another attempt is made at lists that could not be fetched.
const REFRESH_OLD: Duration = Duration::from_secs(3600);

/// Looks at a package, and at all others of its group, and puts right what is wrong with them.
pub(super) async fn check(pkg: &Pkg, cx: &Context<'_>) -> Result<Checked> {
    let backend = backend::find()?;
    let job = Job { id: cx.id, cancel: cx.cancel, apply: cx.apply };
    let members = members(pkg, cx, backend, &job).await?;
    if members.iter().all(|member| member.is_right() == Some(true)) {
        return Ok(Checked::Right);
    }
    let available = ask_lists(&members, backend, &job, cx.foreseen.is_some()).await?;
    let changes = decide::changes(&members, &available, |a, b| backend.compare(a, b))?;
    if changes.is_empty() {
        return Ok(Checked::Right);
    }
    describe(&changes, &members, &available, cx);
    // Whether they can be installed, only the package manager can tell.
    cx.effects.take().into_iter().for_each(|effect| cx.describe(effect.presumed()));
    if !cx.apply {
        return Ok(Checked::Changed);
    }
    cx.checkpoint()?;
    backend.change(&changes, &job).await?;
    let wrong = still_wrong(&changes, pkg, cx, backend, &job).await?;
    if wrong.is_empty() {
        return Ok(Checked::Changed);
    }
    Err(Error::new(format_args!(
        "{} says that all is done, but it is not: {}",
        backend.name(),
        Names(&wrong)
    ))
    .with_hint("the log has what it said; two resources may want opposite things"))
}

/// What is installed and removed, with versions as far as they are known before.
fn describe(changes: &Changes, members: &[Member<'_>], available: &[Option<Available>], cx: &Context<'_>) {
    let member = |name: &Str| members.iter().find(|member| member.name == name);
    let present = |name: &Str| Some(member(name)?.installed.as_ref()?.version.clone());
    // Those that the lists were asked about, in the same order.
    let open: Vec<&Str> = members.iter().filter(|m| m.needs_lists()).map(|m| m.name).collect();
    let candidate = |name: &Str| {
        let at = open.iter().position(|asked| *asked == name)?;
        available.get(at)?.as_ref()?.candidate.clone()
    };
    for (name, version) in &changes.install {
        let effect = match present(name) {
            Some(present) => Effect::change(name.display()).before(present.display()),
            None => Effect::create(name.display()),
        };
        let effect = effect.aspect("package");
        cx.describe(match version.clone().or_else(|| candidate(name)) {
            Some(version) => effect.after(version.display()),
            None => effect,
        });
    }
    let gone = changes.remove.iter().map(|name| (name, "package"));
    // A package that is purged may have been removed before, and only its configuration is left.
    let purged = changes.purge.iter().map(|name| (name, "package and configuration"));
    for (name, aspect) in gone.chain(purged) {
        let effect = Effect::remove(name.display()).aspect(aspect);
        cx.describe(match present(name) {
            Some(present) => effect.before(present.display()),
            None => effect,
        });
    }
    for member in members {
        describe_hold(member, changes, cx);
    }
}

/// Whether it is on hold afterwards, if that is different. One that is released only for the change of its version stays on hold.
fn describe_hold(member: &Member<'_>, changes: &Changes, cx: &Context<'_>) {
    let before = member.installed.as_ref().map(|installed| installed.held);
    let after = match (changes.hold.contains(member.name), changes.release.contains(member.name)) {
        (true, _) => true,
        (false, true) => false,
        (false, false) => return,
    };
    let is_gone = [&changes.remove, &changes.purge].iter().any(|names| names.contains(member.name));
    if is_gone || before == Some(after) {
        return;
    }
    let word = |held: bool| if held { "yes" } else { "no" };
    let effect = Effect::change(member.name.display()).aspect("hold").after(word(after));
    cx.describe(match before {
        Some(before) => effect.before(word(before)),
        None => effect,
    });
}

/// The package of this resource and those of its group, with what is installed of them.
async fn members<'a>(
    pkg: &'a Pkg,
    cx: &Context<'a>,
    backend: &'static dyn Backend,
    job: &Job<'_>,
) -> Result<Vec<Member<'a>>> {
    let mut declared = vec![(&cx.id.name, pkg)];
    declared.extend(
        cx.children
            .iter()
            .filter_map(|child| Some((&child.id.name, child.resource.as_any().downcast_ref::<Pkg>()?))),
    );
    let names: Vec<&Str> = declared.iter().map(|(name, _)| *name).collect();
    let found = backend.installed(&names, job).await?;
    let leftovers = match declared.iter().any(|(_, pkg)| pkg.state.as_bytes() == Wanted::PURGED.as_bytes()) {
        true => backend.leftovers(&names).await?,
        false => vec![false; names.len()],
    };
    let members =
        declared.into_iter().zip(found).zip(leftovers).map(|(((name, pkg), installed), leftovers)| {
            let wanted = Wanted::read(&pkg.state).map_err(Error::new)?;
            Ok(Member { name, pkg, wanted, installed, leftovers })
        });
    members.collect()
}

/// Asks the package lists about those that need it, and fetches them if that may help. While a plan is made, they are fetched to
/// another place instead.
async fn ask_lists(
    members: &[Member<'_>],
    backend: &'static dyn Backend,
    job: &Job<'_>,
    planning: bool,
) -> Result<Vec<Option<Available>>> {
    let open: Vec<&Member<'_>> = members.iter().filter(|member| member.needs_lists()).collect();
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&Str> = open.iter().map(|member| member.name).collect();
    let untrusted = open.iter().any(|member| member.pkg.allowuntrusted);
    let is_outdated = open.iter().any(|member| member.wanted == Wanted::Newest) && backend.is_outdated();
    if job.apply && is_outdated {
        refresh(backend, untrusted, job, REFRESH_OLD).await?;
    }
    let available = backend.available(&names, job).await?;
    let is_complete =
        open.iter().zip(&available).all(|(member, available)| member.is_available(available.as_ref()));
    if planning && !job.apply && (is_outdated || !is_complete) {
        let offered = backend.would_offer(&names, untrusted, job).await?;
        return Ok(offered.unwrap_or(available));
    }
    if is_complete {
        return Ok(available);
    }
    if !job.apply || !refresh(backend, untrusted, job, REFRESH_AGAIN).await? {
        return Ok(available);
    }
    backend.available(&names, job).await
}

/// Fetches the lists, unless that was tried only just now, and tells whether it was done. That it fails is no reason to
/// stop: the lists that are there may do, and a mirror of something else may be to blame.
async fn refresh(
    backend: &'static dyn Backend,
    untrusted: bool,
    job: &Job<'_>,
    not_within: Duration,
) -> Result<bool> {
    static TRIED: Mutex<Option<Instant>> = Mutex::new(None);
    {
        // A panic elsewhere leaves a time that was right.
        let mut tried = TRIED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if tried.is_some_and(|tried| tried.elapsed() < not_within) {
            return Ok(false);
        }
        *tried = Some(Instant::now());
    }
    tracing::info!(target: "mgmt::resource", resource = %job.id, "fetching the package lists");
    match backend.refresh(untrusted, job).await {
        Ok(()) => Ok(true),
        Err(Error::Cancelled) => Err(Error::Cancelled),
        Err(error) => {
            tracing::warn!(target: "mgmt::resource", resource = %job.id, "going on with the old package lists: {error}");
            Ok(true)
        }
    }
}

/// Looks at what was changed. Those that are still not as they should be are told.
async fn still_wrong(
    changes: &Changes,
    pkg: &Pkg,
    cx: &Context<'_>,
    backend: &'static dyn Backend,
    job: &Job<'_>,
) -> Result<Vec<Str>> {
    let mut wrong = Vec::new();
    for member in members(pkg, cx, backend, job).await? {
        let installs = changes.install.iter().any(|(name, _)| name == member.name);
        let changed = [&changes.remove, &changes.purge, &changes.hold, &changes.release];
        let touched = installs || changed.iter().any(|names| names.contains(member.name));
        if touched && member.is_right() == Some(false) {
            wrong.push(member.name.clone());
        }
        if installs {
            warn_of_section(&member, cx);
        }
    }
    Ok(wrong)
}

/// Says what a person may not have meant to install.
fn warn_of_section(member: &Member<'_>, cx: &Context<'_>) {
    let Some(installed) = &member.installed else { return };
    let name = member.name.display();
    let section = installed.section.to_text();
    let area = section.split_once('/').map_or("main", |(area, _)| area);
    if ["non-free", "non-free-firmware", "contrib", "restricted", "multiverse"].contains(&area)
        && !member.pkg.allownonfree
    {
        cx.warn(format_args!(
            "{name} is from `{area}`, which is not or needs what is not free software; set `allownonfree => true` if \
             that is meant"
        ));
    }
    if ["universe", "multiverse"].contains(&area) && !member.pkg.allowunsupported {
        cx.warn(format_args!(
            "{name} is from `{area}`, which the distribution does not support; set `allowunsupported => true` if that \
             is meant"
        ));
    }
}
