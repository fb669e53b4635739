//! Deploys: which program a run begins with, and every newer one that is deployed while it goes on.
//!
//! A deploy that cannot run here and now changes nothing: what ran before goes on, the deploy is in the status with the reason, and it
//! is tried again while it is the newest, on events and with backoff ([`retry`]). The last deploy that ran is kept on this host's
//! disk ([`load`]); the next start begins with it, while the newest one is tried. So a run without a program of its own never ends
//! because of a deploy.

mod given;
mod load;
mod retry;

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
use retry::{Publishing, Rehearsal, Retry};

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
    /// The watch has told something, and the newest deploy was not read since.
    stale: bool,
    /// What the one who has started this run hands over, which is run instead of deploys.
    handed: Option<mpsc::Receiver<Handed>>,
    /// Plans that commands have this run apply.
    applies: Option<mpsc::Receiver<ApplyOrder>>,
    /// The last deploy that ran here before this run.
    kept: Option<LastDeploy>,
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
    applied: Option<oneshot::Sender<Result<(), Failure>>>,
}

impl Trial {
    /// It is the newest deploy of its time, so a newer one takes its place. Anything else becomes a way back first.
    fn is_of_deploy(&self) -> bool {
        self.arrival.is_some()
    }
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
    loading: Pending<(Arrival, Result<Runnable, Refusal>)>,
    rehearsal: Pending<()>,
    /// The program that is rehearsed has no graph now that can run, as far as is known.
    is_hopeless: Arc<AtomicBool>,
    /// Edits of what the graph of a plan runs instead of.
    edits: Option<Edits>,
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
            stale: false,
            handed,
            applies: Some(applies),
            kept: None,
            arrived: None,
            publishing: None,
            is_publishing: Arc::new(watch::Sender::new(false)),
            retry: None,
            unreadable: None,
            retired: VecDeque::new(),
        };
        if deploys.handed.is_some() {
            let News::Arrived(first) = deploys.next().await else { return Ok(deploys) };
            deploys.present = deploys.loader.load(&first, false).await.map_err(|refusal| refusal.failure)?;
            return Ok(deploys);
        }
        if is_given && is_published {
            let offer = Offer::new(&deploys.present.what, settings, &world)?;
            match offer.publish().await {
                Ok(deploy) => deploys.published(deploy),
                Err(error @ (DeployError::Store(_) | DeployError::Raced)) => {
                    deploys.publish_later(offer, error).await;
                }
                Err(error) => return Err(Failure::failed(error)),
            }
        } else if is_given || settings.wait || settings.idle {
            // What there is already is of no interest.
            if let News::Arrived(arrival) = deploys.next().await {
                deploys.last = arrival.number();
            }
            if is_given {
                deploys.present.instead = Some(Instead::Program { newest: deploys.last });
            }
        } else {
            deploys.kept = kept;
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

    /// Runs the program of this run, although the store does not take it yet.
    async fn publish_later(&mut self, offer: Offer, error: DeployError) {
        // What there is already is of no interest.
        if let News::Arrived(arrival) = self.next().await {
            self.last = arrival.number();
        }
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
            edits: None,
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
            let reading_due = self.unreadable.as_ref().and_then(Retry::due).filter(|_| !self.stale);
            tokio::select! {
                biased;
                answer = answer(&mut state.trial) => self.tried(&mut state, answer),
                (arrival, loaded) = work(&mut state.loading), if can_replace => match loaded {
                    Ok(runnable) => self.try_to_run(&mut state, Some(arrival), runnable),
                    Err(refusal) => {
                        self.refuse(&mut state, arrival, &refusal, None);
                        self.run_something(&mut state);
                    }
                },
                deploy = work(&mut state.publishing) => {
                    self.loader.means.told.published(deploy.id);
                    self.published(deploy);
                }
                news = self.next_when_published(), if self.later != Later::Nothing => self.hear(&mut state, news),
                // What is on trial would be forgotten if something else took its place.
                Some(order) = next_order(&mut state.applies), if state.trial.is_none() => {
                    self.apply(&mut state, order);
                }
                () = until(due) => self.try_again(&mut state),
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
                () = work(&mut state.rehearsal) => self.hurry("its program can be evaluated now"),
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
                self.run_something(state);
            }
            (Some(Arrival::Deploy(deploy)), Some(last)) if self.loader.is_last(&deploy, last) => {
                match self.loader.load_last(last) {
                    Ok(runnable) => self.try_to_run(state, Some(Arrival::Deploy(deploy)), runnable),
                    Err(_) => self.load(state, Arrival::Deploy(deploy)),
                }
            }
            (Some(arrival), Some(last)) => match self.loader.load_last(last) {
                // It is what this host is like, so it runs at once; the newest one takes its place as soon as that can run.
                Ok(runnable) => {
                    let (id, newest) = (last.deploy.id, arrival.number());
                    tracing::info!("running deploy {id}, the last that ran here, until deploy {newest} runs");
                    self.load(state, arrival);
                    self.go_back(state, vec![self.present.clone(), runnable]);
                }
                Err(refusal) => {
                    say_last_refused(last, &refusal);
                    self.kept = None;
                    self.start_with(state, arrival).await;
                }
            },
            (Some(arrival), None) => self.start_with(state, arrival).await,
        }
    }

    /// Begins with a deploy where there is nothing to run before it is loaded.
    async fn start_with(&mut self, state: &mut Loop, arrival: Arrival) {
        self.load(state, arrival);
        match work(&mut state.loading).await {
            (arrival, Ok(runnable)) => self.try_to_run(state, Some(arrival), runnable),
            (arrival, Err(refusal)) => {
                self.refuse(state, arrival, &refusal, None);
                self.run_something(state);
            }
        }
    }

    /// Runs something. It is reported as what runs when that is known.
    fn run(&mut self, state: &mut Loop, runnable: Runnable, started: oneshot::Sender<Result<(), Failure>>) {
        state.running = None;
        state.has_begun = true;
        self.replace(runnable);
        let following = self.loader.begin(&self.present);
        let over = self.present.over.as_ref().filter(|over| over.watch);
        state.edits = over.map(|over| Edits::watch(&self.loader.means.engine, &over.what));
        state.triggers.set_possible(self.present.can_be_read_again());
        state.running = follow(following, &state.triggers, started);
    }

    /// Runs something, and goes back to what ran before if that does not work.
    fn try_to_run(&mut self, state: &mut Loop, arrival: Option<Arrival>, runnable: Runnable) {
        let arrival = match (arrival, self.loader.check(&runnable)) {
            // What runs goes on undisturbed.
            (Some(arrival), Err(refusal)) => {
                self.refuse(state, arrival, &refusal, None);
                return self.run_something(state);
            }
            (arrival, _) => arrival,
        };
        // One that never got so far is no way back.
        let ways_back = match state.trial.take() {
            Some(trial) => trial.ways_back,
            None => self.ways_back(),
        };
        let (started, start) = oneshot::channel();
        self.run(state, runnable, started);
        state.trial = Some(Trial { arrival, ways_back, start, applied: None });
    }

    /// Runs the graph of a plan in the place of what runs, until something newer comes.
    fn apply(&mut self, state: &mut Loop, order: ApplyOrder) {
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
        self.try_to_run(state, None, runnable);
        if let Some(trial) = &mut state.trial {
            trial.applied = Some(started);
        }
    }

    /// Goes back to what the graph of a plan was run instead of.
    fn end_plan(&mut self, state: &mut Loop, why: &str) {
        let Some(over) = self.present.over.clone() else { return };
        tracing::info!("{why}: the plan ends, and what ran before it runs again");
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
    fn ways_back(&self) -> Vec<Runnable> {
        let mut ways = vec![self.present.clone()];
        if let Some(last) = self.kept.as_ref().filter(|_| self.present.deploy.is_none()) {
            match self.loader.load_last(last) {
                Ok(runnable) => ways.push(runnable),
                Err(refusal) => say_last_refused(last, &refusal),
            }
        }
        ways
    }

    /// Has the best thing run that there is, if nothing does yet.
    fn run_something(&mut self, state: &mut Loop) {
        if !state.has_begun {
            let ways_back = self.ways_back();
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
                self.loader.keep(&self.present);
                if let Some(arrival) = arrival {
                    self.kept = None;
                    if self.later == Later::One {
                        self.later = Later::Nothing;
                    }
                    self.accepted(state, &arrival);
                }
                // The command may have ended meanwhile.
                let _ = applied.map(|applied| applied.send(Ok(())));
                runs(state);
            }
            Some(Err(failure)) if let Some(applied) = applied => {
                plan_refused(applied, failure);
                self.go_back(state, ways_back);
            }
            Some(Err(failure)) => {
                let refusal = Refusal::from(failure);
                match arrival {
                    Some(arrival) => {
                        // Its files stay for as long as it is rehearsed, and then make room for the next attempt.
                        let failed =
                            Runnable { directory: self.present.directory.take(), ..self.present.clone() };
                        self.refuse(state, arrival, &refusal, Some(failed));
                    }
                    None => {
                        self.loader.means.terminal.failure(&refusal.failure);
                        tracing::error!("the last deploy that ran here cannot run now");
                    }
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
        let refused = self.unreadable.as_ref().or(self.retry.as_ref());
        state.triggers.set_refused(refused.is_some());
        self.loader.means.told.deploy_refused(refused.map(Retry::report));
    }

    /// The newest deploy cannot run here and now.
    fn refuse(&mut self, state: &mut Loop, arrival: Arrival, refusal: &Refusal, failed: Option<Runnable>) {
        if self.retry.as_ref().is_some_and(|retry| retry.is_newer_than(&arrival)) {
            // Only the newest one is tried again.
            return;
        }
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
        state.is_hopeless = Arc::new(true.into());
        state.rehearsal = match failed.and_then(|failed| Rehearsal::of(failed, refusal)) {
            Some(rehearsal) => {
                let is_hopeless = Arc::clone(&state.is_hopeless);
                Some(Box::pin(rehearsal.changed(Arc::clone(&self.loader), is_hopeless)))
            }
            None => None,
        };
        self.retry = Some(retry);
        self.report_refused(state);
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

    fn hear(&mut self, state: &mut Loop, news: News) {
        match news {
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
        let loader = Arc::clone(&self.loader);
        state.rehearsal = None;
        state.loading = Some(Box::pin(async move {
            let loaded = loader.load(&arrival, again).await;
            (arrival, loaded)
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
        }
    }

    fn hurry(&mut self, event: &str) {
        if let Some(retry) = &mut self.retry {
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

fn plan_refused(applied: oneshot::Sender<Result<(), Failure>>, failure: Failure) {
    tracing::error!("the plan cannot be run; what ran before goes on: {}", failure.reason());
    // The command may have ended meanwhile.
    let _ = applied.send(Err(failure));
}

fn say_last_refused(last: &LastDeploy, refusal: &Refusal) {
    let reason = refusal.failure.reason();
    tracing::error!("deploy {}, the last that ran here, cannot run: {reason}", last.deploy.id);
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

/// Whether a run may begin before its store has answered: it has no program of its own, and the last deploy that ran was kept.
pub(super) fn begins_without_store(settings: &Settings, place: &Path) -> bool {
    let runs_deploys = !is_given(settings) && !settings.wait && !settings.idle && settings.launched.is_none();
    runs_deploys && LastDeploy::is_kept(place)
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
