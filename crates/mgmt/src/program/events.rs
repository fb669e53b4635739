//! Where the events of functions come from: one source for all that watch the same.

mod firmware;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use mgmt_engine::{Engine, PathWatch};
use mgmt_funcs::{Wake, Watch};
use mgmt_lang::WatchChange;
use mgmt_store::{Changes, Scope};
use mgmt_sys::process::{Command, LineEvent, Recorded, Signal};
use mgmt_value::Str;
use mgmt_watch::{KernelEvents, KernelTopic, WallClock, WatchPath};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::surroundings::Surroundings;

/// What has happened and has not been dealt with. The same thing twice counts once, so it cannot grow without end.
#[derive(Default)]
pub(crate) struct Happenings {
    open: Mutex<HashSet<Watch>>,
    news: Notify,
}

impl Happenings {
    fn add(&self, watch: &Watch) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.insert(watch.clone()) {
            self.news.notify_one();
        }
    }

    /// Something that functions look at may be another: they ask again.
    fn changed(&self, watch: &Watch) {
        mgmt_funcs::touch(watch);
        self.add(watch);
    }

    /// Waits until something has happened, and takes all of it.
    pub(crate) async fn next(&self) -> HashSet<Watch> {
        loop {
            let news = self.news.notified();
            let found = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
            if !found.is_empty() {
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
        Sources { engine, surroundings, happenings, open: HashMap::new() }
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
            Watch::Midnight => Source::Task(tokio::spawn(async move {
                if let Err(error) = midnights(|| happenings.add(&event)).await {
                    tracing::warn!("new days are not noticed: {error}");
                }
            })),
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
                let mut changes = self.surroundings.store().value_watch(key);
                Source::Task(tokio::spawn(async move {
                    while changes.changed().await.is_ok() {
                        happenings.add(&event);
                    }
                }))
            }
            Watch::WorldString(key) => self.world(self.surroundings.world().watch(key, Scope::Shared), event),
            Watch::WorldStrings(key) => {
                self.world(self.surroundings.world().watch(key, Scope::ByHost), event)
            }
            Watch::Command(command) => {
                let (command, surroundings) = (command.clone(), Arc::clone(&self.surroundings));
                Source::Task(tokio::spawn(async move {
                    let told = |line: Str| {
                        surroundings.printed(&command, line);
                        happenings.add(&event);
                    };
                    let how = match follow_command(&command, told).await {
                        Ok(how) => how,
                        Err(error) => format!("the command cannot be run: {error}"),
                    };
                    surroundings.ended(&command, how);
                    happenings.add(&event);
                }))
            }
            Watch::Endless => Source::Task(tokio::spawn(async move {
                loop {
                    tokio::task::yield_now().await;
                    happenings.add(&event);
                }
            })),
            Watch::Links => self.kernel(&KernelTopic::Links, event),
            Watch::Hostname => self.kernel(&KernelTopic::Hostname, event),
            Watch::Kernel(subsystem) => self.kernel(&KernelTopic::Devices((*subsystem).to_owned()), event),
            Watch::Firmware => {
                let surroundings = Arc::clone(&self.surroundings);
                Source::Task(tokio::spawn(firmware::follow(move |wanted| {
                    surroundings.firmware(wanted);
                    happenings.add(&event);
                })))
            }
            Watch::Exports(kind) => self.world(self.surroundings.world().watch_exports(kind), event),
            Watch::Schedule(name) => self.world(self.surroundings.world().watch_schedule(name), event),
            // No kind of resource sends requests, so none is ever answered.
            Watch::Http(_) => Source::Silent,
        }
    }

    fn kernel(&self, topic: &KernelTopic, event: Watch) -> Source {
        match KernelEvents::follow(topic) {
            Ok(mut events) => {
                let happenings = Arc::clone(&self.happenings);
                Source::Task(tokio::spawn(async move {
                    // What happened between the first look and now is looked at again.
                    happenings.add(&event);
                    while events.next().await.is_ok() {
                        happenings.add(&event);
                    }
                    tracing::warn!("{event:?} is no longer followed: the kernel tells no more about it");
                }))
            }
            Err(error) => {
                tracing::warn!("{event:?} cannot be followed: {error}");
                Source::Silent
            }
        }
    }

    fn world(&self, mut changes: Changes, event: Watch) -> Source {
        let (happenings, surroundings) = (Arc::clone(&self.happenings), Arc::clone(&self.surroundings));
        Source::Task(tokio::spawn(async move {
            // What happened between the first look and now is looked at again.
            happenings.add(&event);
            if !surroundings.world().is_ready() {
                surroundings.world().ready().await;
                happenings.add(&event);
            }
            while changes.next().await.is_ok() {
                happenings.add(&event);
            }
        }))
    }
}

/// Tells of every new day in the time zone of the process, and whenever somebody sets the clock.
async fn midnights(told: impl Fn()) -> std::io::Result<()> {
    const AGAIN: Duration = Duration::from_secs(60);
    let mut clock = WallClock::new()?;
    loop {
        let left = mgmt_funcs::until_midnight().unwrap_or(AGAIN);
        clock.reaches(SystemTime::now() + left).await?;
        told();
    }
}

/// Runs a shell command and tells of each line that it prints. Its end is the end of the lines; why it ended without one is the
/// answer. Whatever it has started ends with it, and when nobody asks for its lines any more.
async fn follow_command(command: &Str, told: impl Fn(Str)) -> std::io::Result<String> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut shell = Command::shell("/bin/sh", std::ffi::OsStr::from_bytes(command));
    shell.env = std::env::vars_os().collect();
    let name = format!("`os.system` {}", command.display());
    shell.recorded = Some(Recorded { name, signal: Signal::TERM });
    let mut lines = shell.spawn().map_err(std::io::Error::other)?.lines();
    let mut complaint = String::new();
    loop {
        match lines.next().await? {
            LineEvent::Line(line) if line.stderr => {
                complaint = format!(": {}", String::from_utf8_lossy(&line.bytes));
            }
            LineEvent::Line(line) => told(Str::new(line.bytes.strip_suffix(b"\r").unwrap_or(&line.bytes))),
            LineEvent::Ended(status) => {
                return Ok(format!("the command ended without printing a line ({status}){complaint}"));
            }
            LineEvent::Closed => {
                return Ok(format!("the command closed its output without printing a line{complaint}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use mgmt_funcs::Host as _;
    use mgmt_lang::{Outcome, Running};
    use mgmt_state::LocalState;
    use mgmt_store::SharedState;

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
            assert_eq!(sources.happenings.next().await, HashSet::from([second.clone()]));
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
