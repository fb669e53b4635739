//! Deploys: which program a run begins with, and every newer one that is deployed while it goes on.
//!
//! A deploy that cannot run here and now changes nothing: what ran before goes on, the deploy is in the status with the reason, and it
//! is tried again while it is the newest, on events and with backoff ([`retry`]). The last deploy that ran is kept on this host's
//! disk ([`load`]); the next start begins with it, while the newest one is tried. So a run without a program of its own never ends
//! because of a deploy.

mod given;
mod load;
mod retry;
mod trying;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mgmt_health::Instead;
use mgmt_remote::Handed;
use mgmt_store::Watch;
use mgmt_store::{Deploy, DeployError, LastDeploy, NewestDeploy, StoreError, UnreadableDeploy};
use tokio::sync::{mpsc, oneshot, watch};

use super::control::ApplyOrder;
use super::follow::Triggers;
use super::settings::{Settings, Source};
use super::{First, Following, Means};
use crate::configuration::Loaded;
use crate::failure::Failure;
use crate::terminal::Mistakes;
use given::Edits;
use load::{Directory, Installed, Loader, Offer, Refusal, Runnable};
use retry::{Publishing, Rehearsal, Rehearsed, Retry};
use trying::CrashedDeploy;

pub(super) use load::packed;

/// How long a start waits for the newest deploy before it runs the last one that ran here.
const START_TIMEOUT: Duration = Duration::from_secs(2);

/// How many directories of deploys that were replaced are kept: something that was started from one may still be reading it.
const MAX_RETIRED: usize = 2;

/// What runs now, and what comes after it.
pub(super) struct Deploys {
    present: Runnable,
    loader: Arc<Loader>,
    later: Later,
    /// Deploys up to this one are of no interest.
    last: u64,
    watch: Box<dyn Watch>,
    /// What the store says first was there before this run, and is of no interest.
    skips_existing: bool,
    /// The watch has told something, and the newest deploy was not read since.
    stale: bool,
    /// What the one who has started this run hands over, which is run instead of deploys.
    handed: Option<mpsc::Receiver<Handed>>,
    /// Plans that commands have this run apply.
    applies: Option<mpsc::Receiver<ApplyOrder>>,
    /// The last deploy that ran here before this run, until a newer one runs.
    kept: Option<LastDeploy>,
    /// It cannot run either.
    kept_retry: Option<Retry>,
    /// A deploy that runs and could not be kept for the next start.
    keeping: Option<Keeping>,
    /// The deploy in whose attempts earlier runs ended.
    crashed: Option<CrashedDeploy>,
    /// To be tried first.
    arrived: Option<Arrival>,
    /// The program of this run, while the store does not take it.
    publishing: Pending<Deploy>,
    /// It is being offered to the store right now.
    is_publishing: Arc<watch::Sender<bool>>,
    /// The newest deploy that can be read, if it cannot run.
    retry: Option<Retry>,
    /// A newer one, if its record cannot be read.
    unreadable: Option<Retry>,
    retired: VecDeque<Arc<Directory>>,
}

/// Something to be run from now on.
#[derive(Clone)]
enum Arrival {
    Deploy(Deploy),
    /// It came from the one who has started this run, as the one of this number.
    Handed(u64, Handed),
}

impl Arrival {
    fn number(&self) -> u64 {
        match self {
            Arrival::Deploy(deploy) => deploy.id,
            Arrival::Handed(number, _) => *number,
        }
    }
}

/// What the store, or the one who has started this run, has to say.
enum News {
    Arrived(Box<Arrival>),
    Unreadable(UnreadableDeploy),
    /// The newest deploy is the one that is known, and something about deploys was written.
    Same,
}

/// Which of the deploys to come are run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Later {
    All,
    /// The first one that comes.
    One,
    Nothing,
}

/// What runs and has not shown yet that it can.
struct Trial {
    /// None for the last deploy of an earlier run.
    arrival: Option<Arrival>,
    /// What to go back to, the best last.
    ways_back: Vec<Runnable>,
    start: oneshot::Receiver<Result<(), Failure>>,
    /// The command that wants to know, if it is the graph of a plan.
    applied: Option<oneshot::Sender<Result<u64, Failure>>>,
}

impl Trial {
    /// It is the newest deploy of its time, so a newer one takes its place. Anything else becomes a way back first.
    fn is_of_deploy(&self) -> bool {
        self.arrival.is_some()
    }
}

/// A deploy that is to be kept for the next start, and could not be.
struct Keeping {
    runnable: Runnable,
    attempts: u32,
    due: Instant,
}

/// Work that goes on beside the loop.
type Pending<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

/// What the loop of [`Deploys::follow`] waits for.
struct Loop {
    triggers: Triggers,
    /// What runs is continued here and nowhere else, and ends with this.
    running: Pending<()>,
    /// Something runs, or has run and left its graph behind.
    has_begun: bool,
    trial: Option<Trial>,
    /// None for the last deploy of an earlier run.
    loading: Pending<(Option<Arrival>, Result<Runnable, Refusal>)>,
    rehearsal: Pending<Rehearsed>,
    /// The program that is rehearsed has no graph now that can run, as far as is known.
    is_hopeless: Arc<AtomicBool>,
    /// The same for the last deploy of an earlier run.
    kept_rehearsal: Pending<Rehearsed>,
    kept_is_hopeless: Arc<AtomicBool>,
    /// Edits of what the graph of a plan runs instead of.
    edits: Option<Edits>,
    /// Why the graph of a plan is about to end, if nothing newer comes.
    ends_plan: Option<String>,
    /// To be told that something runs.
    started: Option<oneshot::Sender<Result<(), Failure>>>,
    applies: Option<mpsc::Receiver<ApplyOrder>>,
    publishing: Pending<Deploy>,
}

impl Deploys {
    /// Decides what runs first.
    ///
    /// A program that was given to this run is run here. If other hosts share the store, it is given to them, too. Without
    /// one, what is deployed already is run, unless only what comes later is wanted.
    pub(super) async fn begin(
        first: First,
        settings: &Settings,
        means: Means,
        place: PathBuf,
        (handed, applies): (Option<mpsc::Receiver<Handed>>, mpsc::Receiver<ApplyOrder>),
    ) -> Result<Deploys, Failure> {
        let world = Arc::clone(&means.shared);
        let is_given = is_given(settings);
        let watch = world.watch_deploys();
        let present =
            Runnable { watch: settings.watch, proven: true, ..Runnable::new(first, settings.preparation()) };
        let later = match (settings.deploy_watch, is_given) {
            _ if settings.idle => Later::Nothing,
            (true, _) => Later::All,
            (false, false) => Later::One,
            (false, true) => Later::Nothing,
        };
        let loader = Loader::new(means, place, settings)?;
        let is_shared = settings.is_shared();
        if is_given && is_shared && loader.trusts_keys() && settings.signer.is_none() {
            tracing::warn!(
                "the program is not given to other hosts: there is no `--sign-key` to sign it with"
            );
        }
        let is_published = is_shared && (!loader.trusts_keys() || settings.signer.is_some());
        let kept = loader.last_deploy();
        let mut deploys = Deploys {
            present,
            loader: Arc::new(loader),
            later,
            last: 0,
            watch,
            skips_existing: false,
            stale: false,
            handed,
            applies: Some(applies),
            kept: None,
            kept_retry: None,
            keeping: None,
            crashed: None,
            arrived: None,
            publishing: None,
            is_publishing: Arc::new(watch::Sender::new(false)),
            retry: None,
            unreadable: None,
            retired: VecDeque::new(),
        };
        if deploys.handed.is_some() {
            let News::Arrived(first) = deploys.next().await else { return Ok(deploys) };
            deploys.present =
                deploys.loader.load(&first, false, 0).await.map_err(|refusal| refusal.failure)?;
            return Ok(deploys);
        }
        if is_given && is_published {
            let offer = Offer::new(&deploys.present.what, settings, &world)?;
            let published = match world.is_ready() {
                true => offer.publish().await,
                false => Err(StoreError::Unreachable { reason: "it has not answered yet".to_owned() }.into()),
            };
            match published {
                Ok(deploy) => deploys.published(deploy),
                Err(error @ (DeployError::Store(_) | DeployError::Raced)) => {
                    deploys.publish_later(offer, error).await;
                }
                Err(error) => return Err(Failure::failed(error)),
            }
        } else if is_given || settings.wait || settings.idle {
            deploys.skip_existing().await;
            if is_given {
                deploys.present.instead = Some(Instead::Program { newest: deploys.last });
            }
        } else {
            deploys.kept = kept;
            deploys.crashed = deploys.loader.crashed();
            deploys.begin_with_deploy().await;
        }
        Ok(deploys)
    }

    /// What runs is a deploy now.
    fn published(&mut self, deploy: Deploy) {
        tracing::info!("deployed as number {}", deploy.id);
        self.last = self.last.max(deploy.id);
        self.present.deploy = Some(Arc::new(Installed::own(deploy)));
        self.present.instead = None;
    }

    /// Takes no interest in what is deployed already. If the store has not answered yet, that is known later.
    async fn skip_existing(&mut self) {
        self.skips_existing = !self.loader.means.shared.is_ready();
        if !self.skips_existing
            && let News::Arrived(arrival) = self.next().await
        {
            self.last = arrival.number();
        }
    }

    /// Runs the program of this run, although the store does not take it yet.
    async fn publish_later(&mut self, offer: Offer, error: DeployError) {
        self.skip_existing().await;
        self.present.instead = Some(Instead::Program { newest: self.last });
        let (told, is_busy) = (Arc::clone(&self.loader.means.told), Arc::clone(&self.is_publishing));
        let publishing = Publishing { offer, told, number: self.last.saturating_add(1), is_busy };
        self.publishing = Some(Box::pin(publishing.publish(error)));
    }

    /// Finds the newest deploy. Whether it can run is seen later. Where the last one that ran is known, the store is not waited for
    /// for long.
    async fn begin_with_deploy(&mut self) {
        let news = match &self.kept {
            // To go on without it would be to run nothing, and to take back what this host has exported.
            None => Ok(self.next().await),
            // That was waited for already.
            Some(_) if !self.loader.means.shared.is_ready() => return,
            Some(_) => tokio::time::timeout(START_TIMEOUT, self.next()).await,
        };
        match news {
            Ok(News::Arrived(arrival)) => self.arrived = Some(*arrival),
            Ok(News::Unreadable(unreadable)) => self.refuse_unreadable(&unreadable),
            Ok(News::Same) | Err(_) => {}
        }
    }

    pub(super) fn triggers(&self) -> Triggers {
        Triggers::new(self.present.can_be_read_again())
    }

    /// Runs what there is first, and then every newer deploy, until it is aborted. Where a deploy cannot run, what ran
    /// before it goes on.
    pub(super) async fn follow(mut self, triggers: Triggers, started: oneshot::Sender<Result<(), Failure>>) {
        let mut state = Loop {
            triggers,
            running: None,
            has_begun: false,
            trial: None,
            loading: None,
            rehearsal: None,
            is_hopeless: Arc::default(),
            kept_rehearsal: None,
            kept_is_hopeless: Arc::default(),
            edits: None,
            ends_plan: None,
            started: Some(started),
            applies: self.applies.take(),
            publishing: self.publishing.take(),
        };
        state.triggers.set_refused(self.unreadable.is_some());
        self.start(&mut state).await;
        loop {
            let is_free = state.loading.is_none() && state.trial.is_none();
            let can_replace = state.trial.as_ref().is_none_or(Trial::is_of_deploy);
            let has_plan = self.present.over.is_some() && state.trial.is_none();
            let due = self.retry.as_ref().and_then(Retry::due).filter(|_| is_free);
            let kept_due = self.kept_due().filter(|_| is_free);
            let reading_due = self.unreadable.as_ref().and_then(Retry::due).filter(|_| !self.stale);
            let keeping_due = self.keeping.as_ref().map(|keeping| keeping.due);
            tokio::select! {
                biased;
                answer = answer(&mut state.trial) => self.tried(&mut state, answer),
                (arrival, loaded) = work(&mut state.loading), if can_replace => {
                    self.loaded(&mut state, arrival, loaded).await;
                }
                deploy = work(&mut state.publishing) => {
                    self.loader.means.told.published(deploy.id);
                    self.published(deploy);
                }
                news = self.next_when_published(), if self.later != Later::Nothing => self.hear(&mut state, news).await,
                // What is on trial would be forgotten if something else took its place.
                Some(order) = next_order(&mut state.applies), if state.trial.is_none() => {
                    self.apply(&mut state, order).await;
                }
                () = until(due) => self.try_again(&mut state),
                () = until(kept_due) => self.try_last_again(&mut state),
                () = until(keeping_due) => self.keep_again(),
                () = until(reading_due) => self.read_again(),
                () = state.triggers.retry_asked() => {
                    self.read_again();
                    self.hurry("SIGHUP");
                }
                () = state.triggers.asked(), if has_plan => self.end_plan(&mut state, "SIGHUP"),
                () = edited(&state.edits), if has_plan => {
                    if self.present.over.as_ref().is_some_and(|over| given::is_edited(&over.what) != Some(false)) {
                        self.end_plan(&mut state, "the program was edited");
                    }
                }
                rehearsed = work(&mut state.rehearsal), if is_free => self.rehearsed(&mut state, rehearsed).await,
                rehearsed = work(&mut state.kept_rehearsal), if is_free => {
                    if let Some(retry) = &mut self.kept_retry {
                        tracing::debug!("{} is tried again: {}", retry.name(), rehearsed.event());
                        retry.hurry();
                    }
                }
                () = work(&mut state.running) => {}
            }
        }
    }

    /// Begins with the first thing to run.
    async fn start(&mut self, state: &mut Loop) {
        match (self.arrived.take(), &self.kept) {
            (None, None) => {
                let started = state.started.take().unwrap_or_else(|| oneshot::channel().0);
                self.run(state, self.present.clone(), started);
                self.loader.report(&self.present);
            }
            (None, Some(last)) => {
                let why = match (&self.unreadable, self.loader.means.shared.is_ready()) {
                    (Some(_), _) => "the newest deploy cannot be read",
                    (None, true) => "the store has no deploy",
                    (None, false) => "the store does not answer",
                };
                tracing::warn!("{why}: running deploy {}, the last that ran here", last.deploy.id);
                self.run_something(state).await;
            }
            (Some(Arrival::Deploy(deploy)), Some(last)) if self.loader.is_last(&deploy, last) => {
                match self.loader.load_last(last).await {
                    Ok(runnable) => self.try_to_run(state, Some(Arrival::Deploy(deploy)), runnable).await,
                    Err(_) => self.load(state, Arrival::Deploy(deploy)),
                }
            }
            (Some(arrival), _) if self.has_crashed(&arrival) => {
                self.back_off(state, arrival);
                self.run_something(state).await;
            }
            (Some(arrival), Some(last)) => match self.loader.load_last(last).await {
                // It is what this host is like, so it runs at once; the newest one takes its place as soon as that can run.
                Ok(runnable) => {
                    let (id, newest) = (last.deploy.id, arrival.number());
                    tracing::info!("running deploy {id}, the last that ran here, until deploy {newest} runs");
                    self.load(state, arrival);
                    self.go_back(state, vec![self.present.clone(), runnable]);
                }
                Err(refusal) => {
                    self.refuse_last(state, &refusal, None);
                    self.start_with(state, arrival).await;
                }
            },
            (Some(arrival), None) => self.start_with(state, arrival).await,
        }
    }

    /// Begins with a deploy where there is nothing to run before it is loaded.
    async fn start_with(&mut self, state: &mut Loop, arrival: Arrival) {
        self.load(state, arrival);
        let (arrival, loaded) = work(&mut state.loading).await;
        self.loaded(state, arrival, loaded).await;
    }

    /// Something is ready to run, or cannot be made ready.
    async fn loaded(
        &mut self,
        state: &mut Loop,
        arrival: Option<Arrival>,
        loaded: Result<Runnable, Refusal>,
    ) {
        match (arrival, loaded) {
            // A trial stops what runs, so an attempt shows first that it can succeed.
            (Some(arrival), Ok(runnable))
                if matches!(runnable.what, First::Both(_))
                    && self.retry.as_ref().is_some_and(|retry| retry.is_of(&arrival)) =>
            {
                self.loader.tried();
                self.rehearse(state, Rehearsal::before_trial(runnable));
                if let Some(retry) = &mut self.retry {
                    retry.postpone();
                }
                self.report_refused(state);
            }
            (arrival, Ok(runnable)) => self.try_to_run(state, arrival, runnable).await,
            (Some(arrival), Err(refusal)) => {
                self.refuse(state, arrival, &refusal, None);
                self.run_something(state).await;
            }
            (None, Err(refusal)) => self.refuse_last(state, &refusal, None),
        }
    }

    /// Runs something. It is reported as what runs when that is known.
    fn run(&mut self, state: &mut Loop, runnable: Runnable, started: oneshot::Sender<Result<(), Failure>>) {
        state.running = None;
        state.has_begun = true;
        self.replace(runnable);
        let by = state.ends_plan.take().unwrap_or_else(|| format!("was replaced by {}", self.present.name()));
        self.loader.means.feed.replaced(by);
        let following = self.loader.begin(&self.present);
        let over = self.present.over.as_ref().filter(|over| over.watch);
        state.edits = over.map(|over| Edits::watch(&self.loader.means.engine, &over.what));
        state.triggers.set_possible(self.present.can_be_read_again());
        state.running = follow(following, &state.triggers, started);
    }

    /// Runs something, and goes back to what ran before if that does not work.
    async fn try_to_run(&mut self, state: &mut Loop, arrival: Option<Arrival>, runnable: Runnable) {
        let arrival = match (arrival, self.loader.check(&runnable)) {
            // What runs goes on undisturbed.
            (Some(arrival), Err(refusal)) => {
                self.refuse(state, arrival, &refusal, Some(runnable));
                return self.run_something(state).await;
            }
            (arrival, _) => arrival,
        };
        // One that never got so far is no way back.
        let ways_back = match state.trial.take() {
            Some(trial) => trial.ways_back,
            None => self.ways_back(state).await,
        };
        let (started, start) = oneshot::channel();
        self.run(state, runnable, started);
        state.trial = Some(Trial { arrival, ways_back, start, applied: None });
    }

    /// Runs the graph of a plan in the place of what runs, until something newer comes.
    async fn apply(&mut self, state: &mut Loop, order: ApplyOrder) {
        let ApplyOrder { name, graph, how, started } = order;
        if started.is_closed() {
            // Whoever wanted it is gone.
            return;
        }
        tracing::info!("running the graph of a plan: {name}");
        let newest = (self.handed.is_none() && self.last > 0).then_some(self.last);
        let instead = Some(Instead::Plan { name: name.clone(), newest });
        let what = First::Graph(None, Loaded { graph, name, content: Vec::new(), remote: None });
        // A plan after a plan stands for the same.
        let over = match &self.present.over {
            Some(over) => Arc::clone(over),
            None => {
                let renewed = self.present.watch.then(|| self.renewed(&self.present)).flatten();
                Arc::new(renewed.unwrap_or_else(|| self.present.clone()))
            }
        };
        let runnable = Runnable { instead, over: Some(over), ..Runnable::new(what, how) };
        if let Err(refusal) = self.loader.check(&runnable) {
            return plan_refused(started, refusal.failure);
        }
        self.try_to_run(state, None, runnable).await;
        if let Some(trial) = &mut state.trial {
            trial.applied = Some(started);
        }
    }

    /// Goes back to what the graph of a plan was run instead of.
    fn end_plan(&mut self, state: &mut Loop, why: &str) {
        let Some(over) = self.present.over.clone() else { return };
        tracing::info!("{why}: the plan ends, and what ran before it runs again");
        state.ends_plan = Some(format!("ended ({why})"));
        if !over.watch {
            // Its files are read again only for those who ask.
            state.triggers.ask();
        }
        self.go_back(state, vec![Arc::unwrap_or_clone(over)]);
    }

    /// Something whose files may have changed, made of them as they are now. Nothing if they have errors: whoever follows them says so.
    fn renewed(&self, runnable: &Runnable) -> Option<Runnable> {
        let terminal = self.loader.means.terminal.clone().mistakes(Mistakes::Silent);
        let what = tokio::task::block_in_place(|| given::renewed(&runnable.what, &terminal));
        Some(Runnable { what: what?, ..runnable.clone() })
    }

    /// What to go back to: what runs now, and if that is nothing, the last deploy of an earlier run.
    async fn ways_back(&mut self, state: &mut Loop) -> Vec<Runnable> {
        let mut ways = vec![self.present.clone()];
        // Nothing runs yet that would have to wait for it.
        if let Some(last) = self.kept.clone().filter(|_| !state.has_begun && self.kept_retry.is_none()) {
            match self.loader.load_last(&last).await {
                Ok(runnable) => ways.push(runnable),
                Err(refusal) => self.refuse_last(state, &refusal, None),
            }
        }
        ways
    }

    /// Has the best thing run that there is, if nothing does yet.
    async fn run_something(&mut self, state: &mut Loop) {
        if !state.has_begun {
            let ways_back = self.ways_back(state).await;
            self.go_back(state, ways_back);
        }
    }

    /// Runs the best of these.
    fn go_back(&mut self, state: &mut Loop, mut ways_back: Vec<Runnable>) {
        let Some(best) = ways_back.pop() else { return };
        match best.proven || ways_back.is_empty() {
            true => {
                let (nobody, _) = oneshot::channel();
                // Its files may have been edited while nobody watched them.
                let follows_files = best.watch && best.can_be_read_again();
                let renewed = follows_files.then(|| self.renewed(&best)).flatten();
                if follows_files && renewed.is_none() {
                    state.triggers.ask();
                }
                self.run(state, renewed.unwrap_or(best), nobody);
                self.loader.report(&self.present);
                runs(state);
            }
            false => {
                let (started, start) = oneshot::channel();
                self.run(state, best, started);
                state.trial = Some(Trial { arrival: None, ways_back, start, applied: None });
            }
        }
    }

    /// It is known whether what was tried runs.
    fn tried(&mut self, state: &mut Loop, answer: Option<Result<(), Failure>>) {
        let Some(Trial { arrival, ways_back, applied, .. }) = state.trial.take() else { return };
        match answer {
            // The run is about to end.
            None => {}
            Some(Ok(())) => {
                self.present.proven = true;
                self.loader.report(&self.present);
                if self.present.deploy.is_some() {
                    self.keep(self.present.clone(), 0);
                }
                if applied.is_none() {
                    // Either it is the last deploy that ran, or newer.
                    (self.kept_retry, state.kept_rehearsal) = (None, None);
                    self.report_refused(state);
                }
                if let Some(arrival) = arrival {
                    (self.kept, self.crashed) = (None, None);
                    self.loader.tried();
                    if self.later == Later::One {
                        self.later = Later::Nothing;
                    }
                    self.accepted(state, &arrival);
                }
                // The command may have ended meanwhile.
                let _ = applied.map(|applied| applied.send(Ok(self.loader.means.feed.generation())));
                runs(state);
            }
            Some(Err(failure)) if let Some(applied) = applied => {
                plan_refused(applied, failure);
                self.go_back(state, ways_back);
            }
            Some(Err(failure)) => {
                let refusal = Refusal::from(failure);
                // Its files stay for as long as it is rehearsed, and then make room for the next attempt.
                let failed = Runnable { directory: self.present.directory.take(), ..self.present.clone() };
                match arrival {
                    Some(arrival) => self.refuse(state, arrival, &refusal, Some(failed)),
                    None => self.refuse_last(state, &refusal, Some(failed)),
                }
                self.go_back(state, ways_back);
            }
        }
    }

    /// A deploy runs.
    fn accepted(&mut self, state: &mut Loop, arrival: &Arrival) {
        if self.retry.take_if(|retry| !retry.is_newer_than(arrival)).is_some() {
            state.rehearsal = None;
        }
        self.report_refused(state);
    }

    /// Reports why the newest deploy does not run, if it does not.
    fn report_refused(&self, state: &Loop) {
        let newest = self.unreadable.as_ref().or(self.retry.as_ref());
        let refused = match (newest, &self.kept_retry) {
            (Some(newest), Some(kept)) if !newest.is_same_as(kept) => {
                let mut report = newest.report();
                let last = kept.report();
                report.error = format!(
                    "{}; {}, the last that ran here, cannot run either: {}",
                    report.error,
                    last.name(),
                    last.error
                );
                report.next = [report.next, last.next].into_iter().flatten().min();
                Some(report)
            }
            (newest, kept) => newest.or(kept.as_ref()).map(Retry::report),
        };
        state.triggers.set_refused(refused.is_some());
        self.loader.means.told.deploy_refused(refused);
    }

    /// The last deploy that ran here cannot run here and now. It is tried again while there is nothing better to run.
    fn refuse_last(&mut self, state: &mut Loop, refusal: &Refusal, failed: Option<Runnable>) {
        let Some(last) = &self.kept else { return };
        let before = self.kept_retry.take();
        let known = before.as_ref().is_some_and(|before| before.error() == refusal.failure.reason());
        let retry = Retry::of_last(last.deploy.id, refusal, before);
        let (name, when) = (retry.name(), retry.when());
        if known {
            tracing::warn!("{name} still cannot be run, for the same reason; {when}");
        } else {
            self.loader.means.terminal.failure(&refusal.failure);
            let reason = retry.error();
            tracing::error!("{name}, the last that ran here, cannot be run: {reason}; {when}");
        }
        self.kept_retry = Some(retry);
        state.kept_is_hopeless = Arc::new(true.into());
        state.kept_rehearsal = failed.and_then(|failed| Rehearsal::of(failed, refusal)).map(|rehearsal| {
            let is_hopeless = Arc::clone(&state.kept_is_hopeless);
            let changed = rehearsal.changed(Arc::clone(&self.loader), is_hopeless);
            Box::pin(changed) as Pin<Box<dyn Future<Output = Rehearsed> + Send>>
        });
        self.report_refused(state);
    }

    /// When the last deploy that ran here is due to be tried again: only while nothing else of use runs, and unless it is the newest one,
    /// which is tried again anyway.
    fn kept_due(&self) -> Option<Instant> {
        let retry = self.kept_retry.as_ref()?;
        let is_newest = self.retry.as_ref().is_some_and(|newest| newest.is_same_as(retry));
        let is_idle = self.present.deploy.is_none() && self.present.over.is_none();
        retry.due().filter(|_| is_idle && !is_newest)
    }

    fn try_last_again(&mut self, state: &mut Loop) {
        let (Some(retry), Some(last)) = (&mut self.kept_retry, &self.kept) else { return };
        if state.kept_rehearsal.is_some() && state.kept_is_hopeless.load(Ordering::Acquire) {
            retry.postpone();
            return self.report_refused(state);
        }
        tracing::info!("trying {}, the last that ran here, again", retry.name());
        retry.is_under_way();
        let (loader, last) = (Arc::clone(&self.loader), last.clone());
        state.kept_rehearsal = None;
        state.loading = Some(Box::pin(async move { (None, loader.load_last_again(&last).await) }));
        self.report_refused(state);
    }

    /// Keeps a deploy that runs for the next start, as soon as that can be done.
    fn keep(&mut self, runnable: Runnable, attempts: u32) {
        self.keeping = match self.loader.keep(&runnable, attempts > 0) {
            Ok(()) => None,
            Err(()) => {
                let attempts = attempts.saturating_add(1);
                Some(Keeping { runnable, attempts, due: Instant::now() + retry::delay_for_space(attempts) })
            }
        };
    }

    fn keep_again(&mut self) {
        if let Some(Keeping { runnable, attempts, .. }) = self.keeping.take() {
            self.keep(runnable, attempts);
        }
    }

    /// Whether earlier runs ended in an attempt of this deploy.
    fn has_crashed(&self, arrival: &Arrival) -> bool {
        matches!(arrival, Arrival::Deploy(deploy) if self.crashed.is_some_and(|crashed| crashed.id == deploy.id))
    }

    /// Has a deploy tried later, in whose attempts earlier runs ended.
    fn back_off(&mut self, state: &mut Loop, arrival: Arrival) {
        let attempts = self.crashed.map_or(1, |crashed| crashed.attempts);
        let retry = Retry::crashed(arrival, attempts);
        let (name, error, when) = (retry.name(), retry.error(), retry.when());
        tracing::error!("{name} is not run now: {error}; {when}");
        (state.rehearsal, self.retry) = (None, Some(retry));
        self.report_refused(state);
    }

    /// The newest deploy cannot run here and now.
    fn refuse(&mut self, state: &mut Loop, arrival: Arrival, refusal: &Refusal, failed: Option<Runnable>) {
        if self.retry.as_ref().is_some_and(|retry| retry.is_newer_than(&arrival)) {
            // Only the newest one is tried again.
            return;
        }
        self.crashed = None;
        self.loader.tried();
        let is_handed = matches!(arrival, Arrival::Handed(..));
        let before = self.retry.take();
        let known = before
            .as_ref()
            .is_some_and(|before| before.is_of(&arrival) && before.error() == refusal.failure.reason());
        if !known {
            self.loader.means.terminal.failure(&refusal.failure);
        }
        let is_retried = before.as_ref().is_some_and(|before| before.is_of(&arrival));
        // A program that is attempted again shows no errors, so the log has the reason.
        let is_silent = is_retried && refusal.failure.message.is_empty();
        let retry = Retry::new(arrival, refusal, before);
        let (name, when) = (retry.name(), retry.when());
        match (is_handed, known) {
            (true, _) => tracing::error!("the program cannot be run; what ran before goes on; {when}"),
            (false, false) if is_silent => {
                let error = retry.error();
                tracing::error!("{name} cannot be run ({error}); what ran before goes on; {when}");
            }
            (false, false) => {
                tracing::error!("{name} cannot be run; what ran before goes on; {when}");
            }
            (false, true) => {
                tracing::warn!("{name} still cannot be run, for the same reason; {when}");
            }
        }
        self.rehearse(state, failed.and_then(|failed| Rehearsal::of(failed, refusal)));
        self.retry = Some(retry);
        self.report_refused(state);
    }

    /// Evaluates what cannot run beside what does.
    fn rehearse(&self, state: &mut Loop, rehearsal: Option<Rehearsal>) {
        state.is_hopeless = Arc::new(true.into());
        state.rehearsal = match rehearsal {
            Some(rehearsal) => {
                let is_hopeless = Arc::clone(&state.is_hopeless);
                Some(Box::pin(rehearsal.changed(Arc::clone(&self.loader), is_hopeless)))
            }
            None => None,
        };
    }

    /// What could not run could, as far as can be told without running it.
    async fn rehearsed(&mut self, state: &mut Loop, rehearsed: Rehearsed) {
        match (rehearsed, self.retry.as_ref().and_then(|retry| retry.arrival.clone())) {
            (Rehearsed::CanRun(runnable), Some(arrival)) => {
                tracing::info!("trying deploy {} again", arrival.number());
                self.loader.trying(arrival.number(), 0);
                self.try_to_run(state, Some(arrival), *runnable).await;
            }
            (rehearsed, _) => self.hurry(rehearsed.event()),
        }
    }

    /// The record of the newest deploy cannot be read. It is read again when the store changes, with time, and on SIGHUP.
    fn refuse_unreadable(&mut self, unreadable: &UnreadableDeploy) {
        let before = self.unreadable.take();
        let known = before.as_ref().map(|before| before.error().to_owned());
        let retry = Retry::unreadable(unreadable, before);
        if known.as_deref() != Some(retry.error()) {
            let (name, when) = (retry.name(), retry.when());
            let reason = &unreadable.reason;
            tracing::error!("{name} cannot be read; what ran before goes on: {reason}; {when}");
        }
        self.loader.means.told.deploy_refused(Some(retry.report()));
        self.unreadable = Some(retry);
    }

    /// The record of the newest deploy can be read, perhaps again.
    fn readable(&mut self, state: &Loop) {
        if self.unreadable.take().is_some() {
            tracing::info!("the newest deploy can be read again");
            self.report_refused(state);
        }
    }

    /// Has the record of the newest deploy read again, if it could not be read.
    fn read_again(&mut self) {
        self.stale |= self.unreadable.is_some();
    }

    async fn hear(&mut self, state: &mut Loop, news: News) {
        let exists = std::mem::take(&mut self.skips_existing);
        match news {
            News::Arrived(_) if exists => {
                if let Some(Instead::Program { newest }) = &mut self.present.instead {
                    *newest = self.last;
                }
                self.loader.report(&self.present);
            }
            // It may be the program of this run, which is known soon.
            News::Arrived(arrival) if *self.is_publishing.borrow() => {
                (self.last, self.stale) = (arrival.number().saturating_sub(1), true);
            }
            News::Arrived(arrival) => {
                self.readable(state);
                // It is newer than the program of this run.
                state.publishing = None;
                match &*arrival {
                    Arrival::Deploy(deploy) => {
                        tracing::info!("taking deploy {}, made by {}", deploy.id, deploy.by);
                    }
                    Arrival::Handed(..) => tracing::info!("taking another program"),
                }
                if self.has_crashed(&arrival) {
                    self.back_off(state, *arrival);
                    return self.run_something(state).await;
                }
                self.load(state, *arrival);
            }
            News::Unreadable(unreadable) => {
                self.refuse_unreadable(&unreadable);
                self.report_refused(state);
            }
            News::Same => {
                self.readable(state);
                self.hurry("the store has changed");
            }
        }
    }

    fn load(&mut self, state: &mut Loop, arrival: Arrival) {
        let again = self.retry.as_ref().is_some_and(|retry| retry.is_of(&arrival));
        let crashes =
            self.crashed.filter(|_| self.has_crashed(&arrival)).map_or(0, |crashed| crashed.attempts);
        let loader = Arc::clone(&self.loader);
        loader.tried();
        state.rehearsal = None;
        state.loading = Some(Box::pin(async move {
            let loaded = loader.load(&arrival, again, crashes).await;
            (Some(arrival), loaded)
        }));
    }

    fn try_again(&mut self, state: &mut Loop) {
        if state.rehearsal.is_some()
            && state.is_hopeless.load(Ordering::Acquire)
            && let Some(retry) = &mut self.retry
        {
            // What runs goes on undisturbed.
            retry.postpone();
            let (name, when) = (retry.name(), retry.when());
            tracing::warn!("{name} still cannot be run, for the same reason; {when}");
            return self.report_refused(state);
        }
        if let Some(arrival) = self.retry.as_ref().and_then(|retry| retry.arrival.clone()) {
            tracing::info!("trying deploy {} again", arrival.number());
            self.load(state, arrival);
            if let Some(retry) = &mut self.retry {
                retry.is_under_way();
            }
            self.report_refused(state);
        }
    }

    fn hurry(&mut self, event: &str) {
        for retry in self.retry.iter_mut().chain(&mut self.kept_retry) {
            tracing::debug!("{} is tried again: {event}", retry.name());
            retry.hurry();
        }
    }

    /// Puts something in the place of what runs.
    fn replace(&mut self, runnable: Runnable) {
        let replaced = std::mem::replace(&mut self.present, runnable);
        self.retired.extend(replaced.directory);
        while self.retired.len() > MAX_RETIRED {
            self.retired.pop_front();
        }
    }

    /// Waits for something that is newer than the last, but not while the program of this run is being offered.
    async fn next_when_published(&mut self) -> News {
        let mut is_publishing = self.is_publishing.subscribe();
        // The sender is part of this.
        let _ = is_publishing.wait_for(|is_publishing| !*is_publishing).await;
        self.next().await
    }

    /// Waits for something that is newer than the last.
    async fn next(&mut self) -> News {
        if let Some(handed) = &mut self.handed {
            let Some(handed) = handed.recv().await else {
                // The one who has started this run is gone, and the run ends for that.
                return std::future::pending().await;
            };
            self.last += 1;
            return News::Arrived(Box::new(Arrival::Handed(self.last, handed)));
        }
        match self.newest().await {
            Ok(NewestDeploy::Readable(deploy)) if deploy.id > self.last => {
                self.last = deploy.id;
                News::Arrived(Box::new(Arrival::Deploy(*deploy)))
            }
            Ok(NewestDeploy::Unreadable(unreadable)) if unreadable.id.is_none_or(|id| id > self.last) => {
                News::Unreadable(unreadable)
            }
            Ok(_) => News::Same,
            // The store is being closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// What the newest deploy is, after something about it has changed. A call that is dropped loses nothing.
    async fn newest(&mut self) -> Result<NewestDeploy, StoreError> {
        if !self.stale {
            self.watch.next().await?;
            self.stale = true;
        }
        let newest = self.loader.means.shared.newest_when_reachable().await?;
        self.stale = false;
        Ok(newest)
    }
}

fn plan_refused(applied: oneshot::Sender<Result<u64, Failure>>, failure: Failure) {
    tracing::error!("the plan cannot be run; what ran before goes on: {}", failure.reason());
    // The command may have ended meanwhile.
    let _ = applied.send(Err(failure));
}

/// The next plan to apply. Nothing, for ever, when no command can ask any more.
async fn next_order(applies: &mut Option<mpsc::Receiver<ApplyOrder>>) -> Option<ApplyOrder> {
    match applies {
        Some(applies) => applies.recv().await,
        None => std::future::pending().await,
    }
}

/// Waits until what a plan runs instead of is edited.
async fn edited(edits: &Option<Edits>) {
    match edits {
        Some(edits) => edits.next().await,
        None => std::future::pending().await,
    }
}

/// Whether a run may begin before its store has answered: it has a program of its own and goes on, or the last deploy that ran was kept.
pub(super) fn begins_without_store(settings: &Settings, place: &Path) -> bool {
    if settings.wait || settings.idle || settings.launched.is_some() {
        return false;
    }
    // A run that ends when it has converged would end without what the store has.
    if is_given(settings) { !settings.converged_exit } else { LastDeploy::is_kept(place) }
}

/// Whether a run has a program of its own.
pub(super) fn is_given(settings: &Settings) -> bool {
    !settings.idle && !matches!(settings.input, Source::Empty)
}

/// Tells that something runs, if nobody has been told yet.
fn runs(state: &mut Loop) {
    if let Some(started) = state.started.take() {
        // The session may be gone already.
        let _ = started.send(Ok(()));
    }
}

fn follow(
    following: Following,
    triggers: &Triggers,
    started: oneshot::Sender<Result<(), Failure>>,
) -> Pending<()> {
    Some(Box::pin(following.follow(triggers.clone(), started)))
}

/// Goes on with something until it is done. One that is done, as a graph from a pipe is at once, leaves its graph behind.
async fn work<T>(pending: &mut Pending<T>) -> T {
    let Some(future) = pending else { return std::future::pending().await };
    let done = future.await;
    *pending = None;
    done
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits until it is known whether what is on trial runs. Nothing, if that will never be known.
async fn answer(trial: &mut Option<Trial>) -> Option<Result<(), Failure>> {
    match trial {
        Some(trial) => (&mut trial.start).await.ok(),
        None => std::future::pending().await,
    }
}
