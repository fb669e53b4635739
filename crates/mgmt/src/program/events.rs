//! Where the events of functions come from: one source for all that watch the same.

mod command;
mod firmware;
mod supervisor;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use mgmt_engine::{Engine, PathWatch};
use mgmt_funcs::{Wake, Watch};
use mgmt_lang::{Running, WatchChange};
use mgmt_store::{Changes, Scope, SharedState};
use mgmt_watch::{KernelEvents, KernelTopic, WallClock, WatchPath};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::surroundings::Surroundings;
use supervisor::{Backoff, SourceEvents, supervise};

/// What has happened and has not been dealt with. The same thing twice counts once, so it cannot grow without end.
#[derive(Default)]
pub(crate) struct Happenings {
    open: Mutex<Happened>,
    news: Notify,
}

/// What has happened since a program was told the last time.
#[derive(Default)]
pub(crate) struct Happened {
    events: HashSet<Watch>,
    /// The sources that are broken now, with the reason, or work again.
    sources: HashMap<Watch, Option<String>>,
}

impl Happened {
    /// Tells a program.
    pub(crate) fn tell(&self, running: &mut Running) {
        for (watch, error) in &self.sources {
            running.set_source_error(watch, error.as_deref());
        }
        self.events.iter().for_each(|watch| running.happened(watch));
    }
}

impl Happenings {
    fn add(&self, watch: &Watch) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.events.insert(watch.clone()) {
            self.news.notify_one();
        }
    }

    /// A source is broken, or works again: the value is read anew.
    fn source(&self, watch: &Watch, error: Option<String>) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).sources.insert(watch.clone(), error);
        self.changed(watch);
    }

    /// Something that functions look at may be another: they ask again.
    fn changed(&self, watch: &Watch) {
        mgmt_funcs::touch(watch);
        self.add(watch);
    }

    /// Waits until something has happened, and takes all of it.
    pub(crate) async fn next(&self) -> Happened {
        loop {
            let news = self.news.notified();
            let found = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
            if !found.events.is_empty() {
                return found;
            }
            news.await;
        }
    }
}

/// An answer has come that the evaluation did not wait for, or its deadline has passed.
impl Wake for Happenings {
    fn wake(&self, watch: &Watch) {
        self.add(watch);
    }
}

/// The sources that are open.
pub(crate) struct Sources {
    /// Whose watches on paths are shared. Without one, nothing tells of paths.
    engine: Option<Arc<Engine>>,
    surroundings: Arc<Surroundings>,
    pub(crate) happenings: Arc<Happenings>,
    open: HashMap<Watch, Source>,
    /// Has broken sources set up again, and failed calls made again, at once.
    hurry: watch::Sender<()>,
}

/// Ends when it is dropped.
enum Source {
    Task(JoinHandle<()>),
    Path {
        _watch: PathWatch,
    },
    /// A path whose file system does not answer: whoever asks the kernel to watch it waits for that, too.
    Unanswered,
    /// Nothing tells of it.
    Silent,
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Source::Task(task) = self {
            task.abort();
        }
    }
}

impl Sources {
    pub(crate) fn new(engine: Option<Arc<Engine>>, surroundings: Arc<Surroundings>) -> Sources {
        let happenings = Arc::<Happenings>::default();
        let wakes: Arc<dyn Wake> = happenings.clone();
        mgmt_funcs::wake_on_answers(Arc::downgrade(&wakes));
        Sources { engine, surroundings, happenings, open: HashMap::new(), hurry: watch::Sender::new(()) }
    }

    /// Sets broken sources up again, and has failed calls made again, without waiting for the time of the next attempt.
    pub(crate) fn retry(&self) {
        self.hurry.send_replace(());
    }

    pub(crate) fn apply(&mut self, changes: Vec<WatchChange>) {
        // An answer has come, or something else has happened: they are tried again.
        let unanswered = self.open.iter().filter(|(_, source)| matches!(source, Source::Unanswered));
        let unanswered: Vec<Watch> = unanswered.map(|(watch, _)| watch.clone()).collect();
        for watch in unanswered {
            let source = self.begin(&watch);
            self.open.insert(watch, source);
        }
        for change in changes {
            match change {
                WatchChange::Begin(watch) => {
                    let source = self.begin(&watch);
                    self.open.insert(watch, source);
                }
                WatchChange::End(watch) => {
                    self.open.remove(&watch);
                    mgmt_funcs::forget(&watch);
                    if let Watch::Command(command) = &watch {
                        self.surroundings.forget(command);
                    }
                }
            }
        }
    }

    fn begin(&self, watch: &Watch) -> Source {
        let (happenings, event) = (Arc::clone(&self.happenings), watch.clone());
        match watch {
            Watch::Interval(period) => {
                let period = (*period).max(Duration::from_millis(1));
                Source::Task(tokio::spawn(async move {
                    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
                    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
                    loop {
                        ticks.tick().await;
                        happenings.add(&event);
                    }
                }))
            }
            Watch::Midnight => self.supervised(event, |events| async move {
                midnights(&events).await.map_err(|error| format!("new days are not noticed: {error}"))
            }),
            Watch::Path(path) => match (&self.engine, WatchPath::new(path, false)) {
                (None, _) => Source::Silent,
                (Some(_), Ok(_)) if !mgmt_funcs::answers(path) => Source::Unanswered,
                (Some(engine), Ok(path)) => {
                    let guard = engine.watch_path(&path, move || happenings.changed(&event));
                    // What happened between the first look and now is looked at again.
                    self.happenings.changed(watch);
                    Source::Path { _watch: guard }
                }
                (_, Err(error)) => {
                    tracing::warn!("{} cannot be watched: {error}", path.display());
                    Source::Silent
                }
            },
            Watch::Value(key) => {
                let (key, surroundings) = (key.clone(), Arc::clone(&self.surroundings));
                self.supervised(event, move |events| {
                    let mut changes = surroundings.store().value_watch(&key);
                    async move {
                        events.works();
                        while changes.changed().await.is_ok() {
                            events.event();
                        }
                        Err("the local store tells of no more changes".to_owned())
                    }
                })
            }
            Watch::WorldString(key) => {
                let key = key.clone();
                self.world(event, move |world| world.watch(&key, Scope::Shared))
            }
            Watch::WorldStrings(key) => {
                let key = key.clone();
                self.world(event, move |world| world.watch(&key, Scope::ByHost))
            }
            Watch::Command(command) => {
                let (command, surroundings) = (command.clone(), Arc::clone(&self.surroundings));
                self.supervised(event, move |events| {
                    command::follow(command.clone(), Arc::clone(&surroundings), events)
                })
            }
            Watch::Retry(_) => {
                let mut hurried = self.hurry.subscribe();
                Source::Task(tokio::spawn(async move {
                    let mut backoff = Backoff::default();
                    loop {
                        backoff.pause(&mut hurried).await;
                        happenings.add(&event);
                    }
                }))
            }
            Watch::Endless => Source::Task(tokio::spawn(async move {
                loop {
                    tokio::task::yield_now().await;
                    happenings.add(&event);
                }
            })),
            Watch::Links => self.kernel("network interfaces", KernelTopic::Links, event),
            Watch::Hostname => self.kernel("changes of the host name", KernelTopic::Hostname, event),
            Watch::Kernel(subsystem) => {
                self.kernel("events of the kernel", KernelTopic::Devices((*subsystem).to_owned()), event)
            }
            Watch::Firmware => {
                let surroundings = Arc::clone(&self.surroundings);
                Source::Task(tokio::spawn(firmware::follow(move |wanted| {
                    surroundings.firmware(wanted);
                    happenings.add(&event);
                })))
            }
            Watch::Exports(kind) => {
                let kind = kind.clone();
                self.world(event, move |world| world.watch_exports(&kind))
            }
            Watch::Schedule(name) => {
                let name = name.clone();
                self.world(event, move |world| world.watch_schedule(&name))
            }
            // No kind of resource sends requests, so none is ever answered.
            Watch::Http(_) => Source::Silent,
        }
    }

    /// A source that is set up again whenever it breaks.
    fn supervised<F, Following>(&self, watch: Watch, follow: F) -> Source
    where
        F: FnMut(SourceEvents) -> Following + Send + 'static,
        Following: Future<Output = Result<(), String>> + Send + 'static,
    {
        let events = SourceEvents::new(Arc::clone(&self.happenings), watch);
        Source::Task(tokio::spawn(supervise(events, self.hurry.subscribe(), follow)))
    }

    fn kernel(&self, name: &'static str, topic: KernelTopic, watch: Watch) -> Source {
        self.supervised(watch, move |events| {
            let topic = topic.clone();
            async move {
                let mut kernel = KernelEvents::follow(&topic)
                    .map_err(|error| format!("{name} cannot be followed: {error}"))?;
                events.works();
                while kernel.next().await.is_ok() {
                    events.event();
                }
                Err(format!("{name} are no longer followed: the kernel tells no more about them"))
            }
        })
    }

    fn world(&self, watch: Watch, changes: impl Fn(&SharedState) -> Changes + Send + 'static) -> Source {
        let surroundings = Arc::clone(&self.surroundings);
        self.supervised(watch, move |events| {
            let (mut changes, surroundings) = (changes(surroundings.world()), Arc::clone(&surroundings));
            async move {
                events.works();
                if !surroundings.world().is_ready() {
                    surroundings.world().ready().await;
                    events.event();
                }
                while changes.next().await.is_ok() {
                    events.event();
                }
                Err("the store tells of no more changes".to_owned())
            }
        })
    }
}

/// Tells of every new day in the time zone of the process, and whenever somebody sets the clock.
async fn midnights(events: &SourceEvents) -> std::io::Result<()> {
    const AGAIN: Duration = Duration::from_secs(60);
    let mut clock = WallClock::new()?;
    events.works();
    loop {
        let left = mgmt_funcs::until_midnight().unwrap_or(AGAIN);
        clock.reaches(SystemTime::now() + left).await?;
        events.event();
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use mgmt_funcs::Host as _;
    use mgmt_lang::Outcome;
    use mgmt_state::LocalState;

    use super::*;
    use crate::program::{self, Options};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_thousand_readers_of_the_clock_have_one_source_and_wake_once_per_tick() {
        let mut text = "import \"datetime\"\n".to_owned();
        for reader in 0..1000 {
            text += &format!("if datetime.now() < 0 {{\n\tnoop \"n{reader}\" {{}}\n}}\n");
        }
        let entry = program::entry(OsStr::new(&text)).unwrap();
        let checked = Arc::new(program::check(&entry, &Options::default()).unwrap());
        let directory = tempfile::tempdir().unwrap();
        let local = Arc::new(LocalState::open(directory.path().join("state")).unwrap());
        let world = Arc::new(SharedState::in_memory("host").unwrap());
        let surroundings = Arc::new(Surroundings::new("host", directory.path(), local, world));
        let mut sources = Sources::new(None, Arc::clone(&surroundings));
        let mut running = tokio::task::block_in_place(|| {
            Running::new(checked, mgmt_resources::KINDS, surroundings.clone())
        });
        assert!(matches!(tokio::task::block_in_place(|| running.settle()), Outcome::Graph(_)));
        sources.apply(running.watch_changes());
        let second = Watch::Interval(Duration::from_secs(1));
        assert_eq!(sources.open.keys().collect::<Vec<_>>(), [&second]);
        for _ in 0..3 {
            assert_eq!(sources.happenings.next().await.events, HashSet::from([second.clone()]));
            surroundings.look_at_the_clock();
            running.happened(&second);
            assert!(matches!(tokio::task::block_in_place(|| running.settle()), Outcome::Unchanged));
            assert!(running.watch_changes().is_empty());
        }
    }

    #[test]
    fn whoever_asks_for_the_time_sees_the_same_until_the_next_look() {
        let directory = tempfile::tempdir().unwrap();
        let local = Arc::new(LocalState::open(directory.path().join("state")).unwrap());
        let world = Arc::new(SharedState::in_memory("host").unwrap());
        let surroundings = Surroundings::new("host", directory.path(), local, world);
        surroundings.look_at_the_clock();
        let first = surroundings.now();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(surroundings.now(), first);
        surroundings.look_at_the_clock();
        assert!(surroundings.now() > first);
    }
}
