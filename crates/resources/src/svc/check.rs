//! Looks at a unit and makes it as wanted.

use mgmt_resource::{Checked, Context, Effect, Error, Invalid, Result};
use mgmt_watch::BusSignals;

use super::decide::{Facts, Impossible, Job, Plan, Startup, State, plan};
use super::manager::{Ended, Manager, PATIENCE, Seen, jobs_done, restless};
use super::{Svc, unit_name};

pub(super) async fn check(svc: &Svc, cx: &mut Context<'_>) -> Result<Checked> {
    let wanted = Wanted::read(svc, cx)?;
    let cancel = cx.cancel;
    let manager = Manager::of(svc.session)?;
    if wanted.unmask && wanted.needs_unit() && is_masked(&manager, &wanted, cx).await? {
        if !cx.apply {
            return Ok(Checked::Changed);
        }
        manager.unmask(&wanted.unit).await?;
        cx.info("unmasked");
    }
    let (facts, plan) = tokio::select! {
        found = look(&manager, &wanted, cx) => found?,
        () = cancel.cancelled() => return Err(Error::Cancelled),
    };
    if !facts.is_stale && plan.is_empty() {
        return Ok(Checked::Right);
    }
    if facts.is_stale {
        cx.describe(Effect::change(&wanted.unit).aspect("unit file").after("read again"));
    }
    describe(&wanted.unit, &facts, plan, cx);
    if !cx.apply {
        return Ok(Checked::Changed);
    }
    cx.checkpoint()?;
    // Whatever has begun comes to its end, unless we have to stop at any cost; jobs go on without us.
    tokio::select! {
        done = carry_out(&manager, &wanted, &facts, plan, cx) => done?,
        () = cancel.interrupted() => return Err(Error::Cancelled),
    }
    Ok(Checked::Changed)
}

/// What becomes of a unit, in words.
pub(crate) fn describe(unit: &str, facts: &Facts, plan: Plan, cx: &Context<'_>) {
    if let Some(startup) = plan.startup {
        let effect = Effect::change(unit).aspect("startup").after(startup.word());
        cx.describe(if facts.file.is_empty() { effect } else { effect.before(&facts.file) });
    }
    if let Some(job) = plan.job {
        let after = match job {
            Job::Start => "running",
            Job::Stop => "stopped",
            Job::Refresh => "reloaded",
            Job::Restart => "restarted",
        };
        cx.describe(Effect::change(unit).aspect("state").before(&facts.active).after(after));
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

/// What is, and what has to happen. When somebody else has a job for the unit, and we would have one too, theirs ends
/// first: two at once are refused, or one cancels the other.
async fn look(manager: &Manager, wanted: &Wanted, cx: &Context<'_>) -> Result<(Facts, Plan)> {
    manager.ready().await?;
    for _ in 0..PATIENCE {
        let mut signals = cx.apply.then(|| manager.0.signals());
        let seen = manager.look(&wanted.unit).await?;
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
            Ended::Done if has_ended(manager, unit, job, &mut signals, cx).await? => return Ok(()),
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

/// After a job: whether the unit is what it was to be made. It is an error if it is not by its own doing.
async fn has_ended(
    manager: &Manager,
    unit: &str,
    job: Job,
    signals: &mut BusSignals,
    cx: &Context<'_>,
) -> Result<bool> {
    match job {
        Job::Start => {
            let Seen { facts: after, job } = manager.look(unit).await?;
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
            if matches!(after.active.as_str(), "inactive" | "failed") {
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
