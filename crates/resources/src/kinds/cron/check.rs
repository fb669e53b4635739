//! Looks at a timer and makes it as declared.

use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use mgmt_resource::{Checked, Context, Effect, Error, Needed, Result};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::replace::InPlace;
use mgmt_sys::stat::Kind;

use super::{Cron, timer_name, unit};
use crate::kinds::svc::decide::{Facts, Impossible, Job, Plan, Startup, State, plan};
use crate::kinds::svc::manager::Manager;
use crate::support::account::lookup_now;
use crate::support::presence::Presence;
use crate::support::text_file::{self, TextFile, explain};

const MODE: u32 = 0o644;
/// How often it is tried against somebody who is at work at the same time, and how long the pause is.
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn check(cron: &Cron, started: &mut bool, cx: &mut Context<'_>) -> Result<Checked> {
    let wanted = Wanted::read(cron, cx)?;
    let cancel = cx.cancel;
    let manager = Manager::of(cron.session)?;
    tokio::select! {
        ready = manager.ready() => ready?,
        () = cancel.cancelled() => return Err(Error::Cancelled),
    }
    // Whatever has begun comes to its end, unless we have to stop at any cost; jobs go on without us.
    tokio::select! {
        checked = wanted.settle(&manager, started, cx) => checked,
        () = cancel.interrupted() => Err(Error::Cancelled),
    }
}

struct Wanted<'a> {
    cron: &'a Cron,
    timer: String,
    unit: String,
    file: ManagedPath,
    presence: Presence,
    startup: Option<Startup>,
}

impl<'a> Wanted<'a> {
    fn read(cron: &'a Cron, cx: &Context<'_>) -> Result<Wanted<'a>> {
        let name = &cx.id.name;
        Ok(Wanted {
            cron,
            timer: timer_name(name).map_err(Error::new)?,
            unit: cron.started_unit(name).map_err(Error::new)?,
            file: cron.file(name).map_err(Error::new)?,
            presence: Presence::read(&cron.state).map_err(Error::new)?,
            startup: Startup::read(&cron.startup).map_err(Error::new)?,
        })
    }

    /// Who takes the file away between our writing and the manager's reading, or starts what we stop, makes us fail
    /// without anything being wrong: then we begin again.
    async fn settle(&self, manager: &Manager, started: &mut bool, cx: &Context<'_>) -> Result<Checked> {
        let mut attempt = 1;
        loop {
            let checked = match self.presence {
                Presence::Exists => self.keep(manager, started, cx).await,
                Presence::Absent => self.remove(manager, started, cx).await,
            };
            match checked {
                Err(error) if cx.apply && !error.is_cancelled() && attempt < ATTEMPTS => attempt += 1,
                checked => return checked,
            }
            tokio::time::sleep(PAUSE).await;
            cx.checkpoint()?;
        }
    }

    async fn keep(&self, manager: &Manager, started: &mut bool, cx: &Context<'_>) -> Result<Checked> {
        let timer = self.timer.as_str();
        let written = self.write(cx)?;
        let mut facts = manager.look(timer).await?.facts;
        let outdated = written == Checked::Changed || facts.is_stale;
        if !cx.apply {
            if outdated && cx.foreseen.is_some() {
                self.foresee(manager, cx).await?;
            }
            self.describe_start(&facts, outdated, *started, cx)?;
            // What is not there yet will be all that is wanted.
            let plan = if outdated { Plan::default() } else { self.plan(&facts, *started)? };
            return Ok(if outdated || !plan.is_empty() || cx.refresh {
                Checked::Changed
            } else {
                Checked::Right
            });
        }
        let before = facts.clone();
        if outdated {
            manager.reload().await?;
            facts = manager.look(timer).await?.facts;
        }
        let mut change = self.plan(&facts, *started && !outdated)?;
        if change.job.is_none() && (outdated || cx.refresh) {
            // It may be at rest after it has elapsed.
            change.job = Some(Job::Restart);
        }
        if !outdated && change.is_empty() {
            *started = true;
            return Ok(Checked::Right);
        }
        self.describe_start(&before, outdated, *started, cx)?;
        if let Some(startup) = change.startup {
            manager.set_startup(timer, startup, &facts).await?;
            cx.info(if startup == Startup::Enabled { "enabled" } else { "disabled" });
        }
        if let Some(job) = change.job {
            if let Err(error) = manager.run(timer, job, cx).await {
                // Only an attempt to start it makes the manager read it.
                let facts = manager.look(timer).await?.facts;
                self.planned(&facts, Some(State::Running), None)?;
                return Err(error);
            }
            cx.info("started");
        }
        *started = true;
        Ok(Checked::Changed)
    }

    /// While a plan is made: fails if systemd could not use the timer.
    async fn foresee(&self, manager: &Manager, cx: &Context<'_>) -> Result<()> {
        let unit = manager.look(&self.unit).await?.facts;
        if unit.load == "not-found" && !cx.may_come(Needed::FileName(self.unit.as_bytes())) {
            return Err(Error::new(format_args!("there is no unit {} for the timer to start", self.unit))
                .with_hint(
                    "install the package that brings it, or write its unit file with a `file` resource",
                ));
        }
        let verb = if self.cron.trigger.as_bytes() == b"OnCalendar" { "calendar" } else { "timespan" };
        let time = std::ffi::OsString::from_vec(self.cron.time.to_vec());
        let argv = ["systemd-analyze".into(), verb.into(), "--".into(), time];
        // Without this program, only the run can tell.
        let Ok(running) = mgmt_sys::process::Command::new(argv.to_vec()).spawn() else { return Ok(()) };
        let (cancelled, interrupted) = (cx.cancel.cancelled(), cx.cancel.interrupted());
        let signal = mgmt_sys::process::Signal::TERM;
        let finished = running.wait_with(cancelled, interrupted, signal, Some(PAUSE)).await;
        match finished.map_err(Error::new)?.status {
            mgmt_sys::process::Status::Exited(1) => Err(Error::new(format_args!(
                "systemd cannot use the timer: {}={} is not a time",
                self.cron.trigger.display(),
                self.cron.time.display()
            ))
            .with_hint(format_args!("`systemd-analyze {verb}` tells what is wrong"))),
            _ => Ok(()),
        }
    }

    /// What becomes of the timer, besides its file, as far as it can be told before the file is there.
    fn describe_start(&self, facts: &Facts, outdated: bool, started: bool, cx: &Context<'_>) -> Result<()> {
        let plan = match outdated {
            // It is to run and to be enabled, whatever is there now.
            true => Plan { startup: self.startup, job: Some(Job::Restart) },
            false => self.plan(facts, started)?,
        };
        let is =
            |wanted: Startup| facts.file == if wanted == Startup::Enabled { "enabled" } else { "disabled" };
        let plan = Plan { startup: plan.startup.filter(|startup| !is(*startup)), ..plan };
        let plan = match plan.job {
            None if cx.refresh => Plan { job: Some(Job::Restart), ..plan },
            _ => plan,
        };
        // What a unit without a file was, is nothing that it was.
        let file = if outdated { String::new() } else { facts.file.clone() };
        crate::kinds::svc::describe(&self.timer, &Facts { file, ..facts.clone() }, plan, cx);
        Ok(())
    }

    /// What the timer needs. One that may come to rest by itself is started once.
    fn plan(&self, facts: &Facts, started: bool) -> Result<Plan> {
        let rests = !self.cron.remainafterelapse && started && facts.active == "inactive";
        let state = if rests { None } else { Some(State::Running) };
        self.planned(facts, state, self.startup)
    }

    fn planned(&self, facts: &Facts, state: Option<State>, startup: Option<Startup>) -> Result<Plan> {
        plan(&self.timer, facts, state, startup, false).map_err(|Impossible { message, hint }| {
            match facts.load.as_str() {
                "bad-setting" | "error" => Error::new(format_args!(
                    "systemd cannot use the timer: {}={} may not be a time, or the unit {} cannot be started",
                    self.cron.trigger.display(),
                    self.cron.time.display(),
                    self.unit
                ))
                .with_hint(format_args!("systemd-analyze verify {} tells what is wrong", self.file)),
                _ => Error::new(message).with_hint(hint),
            }
        })
    }

    async fn remove(&self, manager: &Manager, started: &mut bool, cx: &Context<'_>) -> Result<Checked> {
        let timer = self.timer.as_str();
        *started = false;
        let facts = manager.look(timer).await?.facts;
        let change = self.planned(&facts, Some(State::Stopped), Some(Startup::Disabled))?;
        let is_there = lookup_now(|| self.is_there())?;
        if change.is_empty() && !is_there {
            return Ok(Checked::Right);
        }
        crate::kinds::svc::describe(timer, &facts, change, cx);
        if is_there {
            cx.describe(Effect::remove(&self.file).aspect("file"));
        }
        if !cx.apply {
            return Ok(Checked::Changed);
        }
        cx.checkpoint()?;
        if let Some(job) = change.job {
            manager.run(timer, job, cx).await?;
            cx.info("stopped");
        }
        if let Some(startup) = change.startup {
            manager.set_startup(timer, startup, &facts).await?;
            cx.info("disabled");
        }
        if is_there {
            lookup_now(|| self.unlink())?;
            manager.reload().await?;
            cx.info("removed");
        }
        Ok(Checked::Changed)
    }

    /// Keeps the unit file as declared.
    fn write(&self, cx: &Context<'_>) -> Result<Checked> {
        let wanted = unit::content(self.cron, &cx.id.name, &self.unit);
        let file = TextFile { path: self.file.clone(), owner: None, mode: MODE, in_place: InPlace::Refuse };
        lookup_now(|| {
            // The directory for the units of a user is not there before the first one is.
            if cx.apply && self.cron.session {
                Parent::open_or_create(&self.file).map_err(|error| explain(&error))?;
            }
            let is_missing = |error: mgmt_sys::Error| error.is_parent_missing();
            if cx.foreseen.is_some() && self.cron.session && Parent::open(&self.file).is_err_and(is_missing) {
                cx.describe(text_file::edited(self.file.as_bytes(), None, Some(&wanted), MODE));
                return Ok(Checked::Changed);
            }
            file.edit(cx, |content| (content != Some(&wanted)).then(|| wanted.clone()))
        })
    }

    /// Whether there is a unit file. One that masks the timer is none.
    fn is_there(&self) -> Result<bool> {
        let look = || {
            let parent = Parent::open(&self.file)?;
            let name = self.file.file_name().unwrap_or_default();
            match parent.lstat_entry(name)? {
                None => Ok(false),
                Some(stat) if stat.kind == Kind::Symlink => Ok(parent.read_link(name)? != b"/dev/null"),
                Some(_) => Ok(true),
            }
        };
        match look() {
            Err(error) if mgmt_sys::Error::is_not_found(&error) || error.is_parent_missing() => Ok(false),
            looked => looked.map_err(|error| explain(&error)),
        }
    }

    fn unlink(&self) -> Result<()> {
        let remove = || Parent::open(&self.file)?.unlink(self.file.file_name().unwrap_or_default());
        match remove() {
            Err(error) if error.is_not_found() => Ok(()),
            removed => removed.map_err(|error| explain(&error)),
        }
    }
}
