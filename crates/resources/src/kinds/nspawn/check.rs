//! Looks at a machine and makes it as wanted.

use mgmt_resource::{Checked, Context, Effect, Error, Needed, Result};

use super::machined::{Machine, Machined};
use super::{Nspawn, unit};
use crate::kinds::svc::decide::{Impossible, Job, State, plan};
use crate::kinds::svc::manager::Manager;

/// How many jobs of others to wait for before giving up.
const PATIENCE: usize = 10;

pub(super) async fn check(nspawn: &Nspawn, cx: &mut Context<'_>) -> Result<Checked> {
    let state = nspawn.wanted().map_err(Error::new)?;
    let name = cx.id.name.to_text().into_owned();
    let wanted = Wanted {
        unit: unit(&cx.id.name),
        name,
        state,
        machined: Machined::find()?,
        manager: Manager::of(false)?,
    };
    let cancel = cx.cancel;
    let step = tokio::select! {
        step = wanted.look(cx) => step?,
        () = cancel.cancelled() => return Err(Error::Cancelled),
    };
    let Some(step) = step else { return Ok(Checked::Right) };
    let after = match &step {
        Step::Start => "running",
        Step::Restart => "restarted",
        Step::Stop(_) => "stopped",
    };
    cx.describe(Effect::change(&wanted.name).aspect("machine").after(after).presumed());
    if !cx.apply {
        if cx.foreseen.is_some()
            && step == Step::Start
            && let Err(error) = wanted.startable().await
            && !cx.may_come(Needed::Other)
        {
            return Err(error);
        }
        return Ok(Checked::Changed);
    }
    cx.checkpoint()?;
    // Whatever has begun comes to its end, unless we have to stop at any cost; jobs go on without us.
    tokio::select! {
        done = wanted.carry_out(step, cx) => done?,
        () = cancel.interrupted() => return Err(Error::Cancelled),
    }
    Ok(Checked::Changed)
}

struct Wanted {
    name: String,
    unit: String,
    state: State,
    machined: Machined,
    manager: Manager,
}

/// What has to happen to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Start,
    Restart,
    /// The unit that it runs in.
    Stop(String),
}

impl Wanted {
    /// What has to happen. When somebody else is just starting or stopping the machine, that comes to its end first.
    async fn look(&self, cx: &Context<'_>) -> Result<Option<Step>> {
        self.manager.ready().await?;
        for _ in 0..PATIENCE {
            let mut signals = cx.apply.then(|| self.manager.0.signals());
            let machine = self.machined.machine(&self.name).await?;
            let step = self.step(machine.as_ref(), cx.refresh);
            let Some(signals) = signals.as_mut().filter(|_| step.is_some()) else { return Ok(step) };
            let job = self.manager.look(&self.unit).await?.job;
            match job {
                Some(job) => self.manager.settle(&self.unit, &job, signals, cx).await?,
                None => return Ok(step),
            }
        }
        Err(Error::new(format_args!("others keep starting and stopping the machine {}", self.name)))
    }

    fn step(&self, machine: Option<&Machine>, refresh: bool) -> Option<Step> {
        match (self.state, machine) {
            (State::Running, Some(machine)) if machine.state != "closing" => {
                // It is ours to restart only if it is the service.
                (refresh && machine.unit == self.unit).then_some(Step::Restart)
            }
            (State::Running, _) => Some(Step::Start),
            (State::Stopped, Some(machine)) => Some(Step::Stop(machine.unit.clone())),
            (State::Stopped, None) => None,
        }
    }

    async fn carry_out(&self, step: Step, cx: &Context<'_>) -> Result<()> {
        let name = &self.name;
        match step {
            Step::Start => {
                self.startable().await?;
                let facts = self.manager.look(&self.unit).await?.facts;
                if facts.is_stale {
                    self.manager.reload().await?;
                }
                // A service that runs without a machine of its own has not told of it yet, or never will.
                let job = match facts.active.as_str() {
                    "active" | "reloading" => Job::Restart,
                    _ => Job::Start,
                };
                self.manager.run(&self.unit, job, cx).await?;
                if self.machined.machine(name).await?.is_none() {
                    return Err(Error::new(format_args!(
                        "the machine {name} was started, but has ended already"
                    ))
                    .with_hint(format_args!("journalctl --unit {} tells more", self.unit)));
                }
                cx.info("started");
            }
            Step::Restart => {
                self.manager.run(&self.unit, Job::Refresh, cx).await?;
                cx.info("restarted");
            }
            Step::Stop(unit) => {
                // What was started by hand has no service that would tell its first process how to end.
                let stop = async {
                    match unit == self.unit || !self.machined.end(name).await? {
                        true => self.manager.run(&unit, Job::Stop, cx).await,
                        false => Ok(()),
                    }
                };
                tokio::select! {
                    done = stop => done?,
                    never = self.machined.remind(name) => match never {},
                }
                cx.info("stopped");
            }
        }
        Ok(())
    }

    /// Whether the machine can be started at all.
    async fn startable(&self) -> Result<()> {
        if !self.machined.has_image(&self.name).await? {
            return Err(Error::new(format_args!(
                "there is no image {}, of which the machine could be started",
                self.name
            ))
            .with_hint(format_args!(
                "make one before: a directory {}{} with a system in it, or what machinectl import-tar makes",
                super::IMAGES,
                self.name
            )));
        }
        let facts = self.manager.look(&self.unit).await?.facts;
        plan(&self.unit, &facts, Some(State::Running), None, false)
            .map(|_| ())
            .map_err(|Impossible { message, hint }| Error::new(message).with_hint(hint))
    }
}
