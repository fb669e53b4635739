//! Looks at a unit and makes it as wanted.

use std::time::Duration;

use mgmt_resource::{Checked, Context, Effect, Error, Invalid, Needed, Result};
use mgmt_watch::BusSignals;

use super::decide::{Facts, Impossible, Job, Plan, Startup, State, plan};
use super::manager::{Ended, Manager, PATIENCE, Seen, jobs_done, restless};
use super::{LastStart, Svc, unit_name};

pub(super) async fn check(svc: &Svc, last: &mut LastStart, cx: &mut Context<'_>) -> Result<Checked> {
    let wanted = Wanted::read(svc, cx)?;
    let cancel = cx.cancel;
    let manager = Manager::of(svc.session)?;
    if wanted.unmask && wanted.needs_unit() && is_masked(&manager, &wanted, cx).await? {
        cx.describe(Effect::change(&wanted.unit).aspect("unit file").after("unmasked").presumed());
        if !cx.apply {
            return Ok(Checked::Changed);
        }
        manager.unmask(&wanted.unit).await?;
        cx.info("unmasked");
    }
    let (facts, mut plan) = tokio::select! {
        found = look(&manager, &wanted, cx) => found?,
        () = cancel.cancelled() => return Err(Error::Cancelled),
    };
    // A changed unit file is a reason to try again.
    if plan.job == Some(Job::Start)
        && !facts.is_stale
        && let Some(is_new) = last.does_not_stay(wanted.restart_interval)
    {
        plan.job = None;
        if is_new {
            warn_does_not_stay(&wanted, &facts.active, cx);
        }
    }
    if !facts.is_stale && plan.is_empty() {
        return Ok(Checked::Right);
    }
    if facts.is_stale {
        cx.describe(Effect::change(&wanted.unit).aspect("unit file").after("read again").presumed());
    }
    describe(&wanted.unit, &facts, plan, cx);
    if !cx.apply {
        return Ok(Checked::Changed);
    }
    cx.checkpoint()?;
    // Whatever has begun comes to its end, unless we have to stop at any cost; jobs go on without us.
    tokio::select! {
        done = carry_out(&manager, &wanted, &facts, plan, last, cx) => done?,
        () = cancel.interrupted() => return Err(Error::Cancelled),
    }
    Ok(Checked::Changed)
}

/// What becomes of a unit, in words.
pub(crate) fn describe(unit: &str, facts: &Facts, plan: Plan, cx: &Context<'_>) {
    if let Some(startup) = plan.startup {
        let effect = Effect::change(unit).aspect("startup").after(startup.word()).presumed();
        cx.describe(if facts.file.is_empty() { effect } else { effect.before(&facts.file) });
    }
    if let Some(job) = plan.job {
        let after = match job {
            Job::Start => "running",
            Job::Stop => "stopped",
            Job::Refresh => "reloaded",
            Job::Restart => "restarted",
        };
        cx.describe(Effect::change(unit).aspect("state").before(&facts.active).after(after).presumed());
    }
}

async fn is_masked(manager: &Manager, wanted: &Wanted, cx: &Context<'_>) -> Result<bool> {
    let look = async {
        manager.ready().await?;
        manager.look(&wanted.unit).await
    };
    tokio::select! {
        seen = look => seen.map(|seen| seen.facts.file.starts_with("masked")),
        () = cx.cancel.cancelled() => Err(Error::Cancelled),
    }
}

/// What the declaration asks for.
struct Wanted {
    unit: String,
    state: Option<State>,
    startup: Option<Startup>,
    refresh: bool,
    restart: bool,
    unmask: bool,
    session: bool,
    /// How long a unit that does not stay is left alone. Zero: that it does not is an error.
    restart_interval: Duration,
}

/// Tells of a unit that was started with success and does not run.
fn warn_does_not_stay(wanted: &Wanted, active: &str, cx: &Context<'_>) {
    let Wanted { unit, restart_interval, .. } = wanted;
    cx.warn(format_args!(
        "{unit} was started, but does not stay: it is {active}; starting it again in {}s; systemctl status {unit} tells more",
        restart_interval.as_secs()
    ));
}

impl Wanted {
    fn read(svc: &Svc, cx: &Context<'_>) -> Result<Wanted> {
        let invalid = |invalid: Invalid| Error::new(invalid);
        Ok(Wanted {
            unit: unit_name(&cx.id.name).map_err(invalid)?,
            state: State::read(&svc.state).map_err(invalid)?,
            startup: Startup::read(&svc.startup).map_err(invalid)?,
            refresh: cx.refresh,
            restart: svc.restart,
            unmask: svc.unmask,
            session: svc.session,
            restart_interval: Duration::from_secs(svc.restart_interval.into()),
        })
    }

    /// Whether there has to be a unit that can be started.
    fn needs_unit(&self) -> bool {
        self.state == Some(State::Running) || self.startup == Some(Startup::Enabled)
    }

    fn plan(&self, facts: &Facts) -> Result<Plan> {
        let plan = plan(&self.unit, facts, self.state, self.startup, self.refresh)
            .map_err(|Impossible { message, hint }| Error::new(message).with_hint(hint))?;
        let job = plan.job.map(|job| if self.restart && job == Job::Refresh { Job::Restart } else { job });
        Ok(Plan { job, ..plan })
    }
}

/// Where unit files are, as far as resources write them: first those of the system, then those of sessions.
const UNIT_DIRECTORIES: [&[&str]; 2] = [
    &[
        "/etc/systemd/system",
        "/run/systemd/system",
        "/usr/local/lib/systemd/system",
        "/usr/lib/systemd/system",
        "/lib/systemd/system",
    ],
    &["/etc/systemd/user", "/run/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user"],
];

/// While a plan is made: what is known of a unit whose file a resource before this one writes.
fn foresee(facts: &mut Facts, wanted: &Wanted, cx: &Context<'_>) {
    let Some(foreseen) = cx.foreseen else { return };
    let template = wanted
        .unit
        .split_once('@')
        .and_then(|(name, rest)| Some(format!("{name}@.{}", rest.rsplit_once('.')?.1)));
    let names = [Some(wanted.unit.clone()), template];
    let directories = UNIT_DIRECTORIES[usize::from(wanted.session)];
    let content = names.iter().flatten().find_map(|name| foreseen.file_in(directories, name));
    match content {
        Some(content) if facts.load == "not-found" => {
            facts.load = "loaded".to_owned();
            facts.file = if is_installable(content) { "disabled" } else { "static" }.to_owned();
        }
        // One that runs is in memory as it was read.
        Some(_) => facts.is_stale |= facts.runs(),
        None if facts.load == "not-found" => {
            let _ = names.iter().flatten().any(|name| cx.may_come(Needed::FileName(name.as_bytes())));
        }
        None => {}
    }
}

/// Whether a unit file says in which way it is to be enabled.
fn is_installable(content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    let lines = text.lines().map(str::trim).skip_while(|line| *line != "[Install]").skip(1);
    let keys = ["WantedBy", "RequiredBy", "UpheldBy", "Alias", "Also"];
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('='))
        .any(|(key, value)| keys.contains(&key.trim()) && !value.trim().is_empty())
}

/// What is, and what has to happen. When somebody else has a job for the unit, and we would have one too, theirs ends
/// first: two at once are refused, or one cancels the other.
async fn look(manager: &Manager, wanted: &Wanted, cx: &Context<'_>) -> Result<(Facts, Plan)> {
    manager.ready().await?;
    for _ in 0..PATIENCE {
        let mut signals = cx.apply.then(|| manager.0.signals());
        let mut seen = manager.look(&wanted.unit).await?;
        foresee(&mut seen.facts, wanted, cx);
        // A unit that cannot be as wanted may be able to once its files have been read again.
        let plan = match wanted.plan(&seen.facts) {
            Err(_) if seen.facts.is_stale => Plan::default(),
            plan => plan?,
        };
        match (&mut signals, plan.job, &seen.job) {
            (Some(signals), Some(_), Some(job)) => manager.settle(&wanted.unit, job, signals, cx).await?,
            _ => return Ok((seen.facts, plan)),
        }
    }
    Err(restless(&wanted.unit))
}

async fn carry_out(
    manager: &Manager,
    wanted: &Wanted,
    facts: &Facts,
    plan: Plan,
    last: &mut LastStart,
    cx: &Context<'_>,
) -> Result<()> {
    let unit = wanted.unit.as_str();
    let (mut facts, mut plan) = (facts.clone(), plan);
    if facts.is_stale {
        manager.reload().await?;
        cx.info("has made systemd read changed unit files");
        (facts, plan) = look(manager, wanted, cx).await?;
    }
    if let Some(startup) = plan.startup {
        manager.set_startup(unit, startup, &facts).await?;
        let after = manager.look(unit).await?.facts;
        let word = startup.word();
        if wanted.plan(&after)?.startup.is_some() {
            return Err(Error::new(format_args!(
                "systemd was asked to have {unit} {word}, but calls it `{}`",
                after.file
            ))
            .with_hint(
                "a unit needs an [Install] section, and has to be named by its own name, not by an alias",
            ));
        }
        cx.info(word);
    }
    for _ in 0..PATIENCE {
        let Some(job) = plan.job else { return Ok(()) };
        let mut signals = manager.0.signals();
        match manager.try_to(unit, job, cx).await? {
            Ended::Done if has_ended(manager, wanted, job, &mut signals, last, cx).await? => return Ok(()),
            // Somebody has stopped it since.
            Ended::Done => (_, plan) = look(manager, wanted, cx).await?,
            // Somebody stopped it while we restarted it, for example. Who comes last decides what it is for a moment, and then
            // it is made as declared: a service that is to run is not given up because somebody was faster.
            Ended::Overtaken => {
                manager.give_way(unit, cx).await?;
                (_, plan) = look(manager, wanted, cx).await?;
            }
        }
    }
    Err(restless(unit))
}

/// A unit that did not stay after its last start has to run for this long after the next one.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// After a job: whether the unit is what it was to be made. It is an error if it is not by its own doing.
async fn has_ended(
    manager: &Manager,
    wanted: &Wanted,
    job: Job,
    signals: &mut BusSignals,
    last: &mut LastStart,
    cx: &Context<'_>,
) -> Result<bool> {
    let unit = wanted.unit.as_str();
    match job {
        Job::Start => {
            let is_doubtful = last.is_doubtful();
            let mut seen = manager.look(unit).await?;
            if is_doubtful && seen.facts.active == "active" {
                // A unit whose program ends at once runs for a moment.
                tokio::select! {
                    () = tokio::time::sleep(SETTLE_TIME) => {}
                    () = cx.cancel.cancelled() => {}
                }
                cx.checkpoint()?;
                seen = manager.look(unit).await?;
            }
            let Seen { facts: after, job } = seen;
            // Of the jobs that are done, one was ours.
            let is_stopped = match after.active.as_str() {
                "deactivating" => job.is_some(),
                "inactive" => jobs_done(signals, unit).await > 1,
                _ => false,
            };
            if is_stopped {
                cx.info(format_args!("somebody else has stopped {unit} at once"));
                return Ok(false);
            }
            // One that systemd starts again and again is about to be started.
            let has_ended = matches!(after.active.as_str(), "inactive" | "failed")
                || (is_doubtful && after.active == "activating");
            last.started(has_ended);
            if has_ended && !wanted.restart_interval.is_zero() {
                warn_does_not_stay(wanted, &after.active, cx);
                return Ok(true);
            }
            if has_ended {
                return Err(Error::new(format_args!(
                    "{unit} was started, but does not run: it is {}",
                    after.active
                ))
                .with_hint(format_args!(
                    "a condition in its unit file may not hold, or it may end at once, for which it needs \
                     RemainAfterExit=yes; systemctl status {unit} tells more"
                )));
            }
            cx.info("started");
        }
        Job::Stop => cx.info("stopped"),
        Job::Refresh | Job::Restart => cx.info("reloaded or restarted"),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_file_can_be_enabled_if_its_install_section_says_how() {
        for (text, expected) in [
            ("[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n", true),
            ("[Install]\n# none\nAlias = x.service\n[Service]\n", true),
            ("[Install]\nWantedBy=\n[Service]\nWantedBy=x\n", false),
            ("[Service]\nWantedBy=x\n", false),
            ("", false),
        ] {
            assert_eq!(is_installable(text.as_bytes()), expected, "{text}");
        }
    }
}
