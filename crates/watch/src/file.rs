//! The hub for files and directories.

mod directories;
mod farewell;
mod mounts;
mod scan;
mod slab;
mod state;

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fs::inotify;
use rustix::io::Errno;

use crate::limits;
use crate::path::WatchPath;
use mounts::Mounts;
use state::State;

/// What a subscriber calls itself. Several subscriptions may share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// One subscription, as the hub knows it. Never reused while the hub lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(u64);

/// Where events go.
///
/// Called by the hub's [`Lookout`] only, never while the hub holds a lock; so a sink may call the hub. It
/// must be quick (put the token into a queue) and must not panic.
pub trait Sink: Send + Sync {
    /// Something that `token` subscribed to may have changed.
    fn changed(&self, token: Token);
    /// The same for several tokens at once, with more about what happened. Each of them is there once.
    fn changes(&self, changes: &[(Token, Change)]) {
        for (token, _) in changes {
            self.changed(*token);
        }
    }
    /// Something about the hub itself that somebody should know.
    fn notice(&self, notice: Notice);
}

/// What is known about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The target was not there, and something that is no directory was given its name. Nothing else has happened to
    /// it between the last report of this token and this one, and nothing to the way there. Two creations are two
    /// reports with something between them, because a name has to be taken away before it can be given again.
    Created,
    /// Anything.
    Any,
}

/// What the hub has to say about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The kernel gives out no more watches. Said once.
    WatchLimit {
        /// The limit, where it could be read.
        limit: Option<u64>,
    },
    /// Some subscriptions are served by looking at them from time to time. Said when it begins and each time
    /// their number has doubled.
    Scanning {
        /// How many.
        subscriptions: usize,
        /// One of their paths.
        example: PathBuf,
        /// How often they are looked at.
        interval: Duration,
    },
    /// All subscriptions have real watches again.
    Recovered,
    /// The kernel's queue overflowed: every subscriber was told and every watch was verified.
    Overflow,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::WatchLimit { limit } => {
                write!(f, "out of file watches")?;
                if let Some(limit) = limit {
                    write!(f, " ({} is {limit})", limits::WATCHES)?;
                }
                write!(
                    f,
                    "; raise it, for example: sysctl {}={}",
                    limits::WATCHES,
                    limit.unwrap_or(0).saturating_mul(2).max(limits::WANTED_WATCHES)
                )
            }
            Notice::Scanning { subscriptions, example, interval } => write!(
                f,
                "{subscriptions} watched path(s) are scanned every {interval:?} instead, {example:?} among them"
            ),
            Notice::Recovered => f.write_str("all watched paths have real watches again"),
            Notice::Overflow => f.write_str("the queue of file events overflowed; everything was verified"),
        }
    }
}

/// Counters, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileHubStats {
    /// Subscriptions at present.
    pub subscriptions: usize,
    /// Kernel watches at present.
    pub watches: usize,
    /// Subscriptions served by scanning at present.
    pub degraded: usize,
    /// Kernel events read so far.
    pub events: u64,
    /// Reports to the [`Sink`] so far, each about one token.
    pub deliveries: u64,
    /// Queue overflows so far.
    pub overflows: u64,
    /// How often the hub's thread woke up so far.
    pub wakeups: u64,
}

/// Tuning of a [`FileHub`].
#[derive(Debug, Clone)]
pub struct FileHubOptions {
    /// How often a path is looked at that could not get a watch.
    pub scan_interval: Duration,
}

impl Default for FileHubOptions {
    fn default() -> FileHubOptions {
        FileHubOptions { scan_interval: Duration::from_secs(5) }
    }
}

/// One inotify instance, and one [`Lookout`], for any number of watched paths.
///
/// A handle; clones share the hub. The lookout ends when the last one is dropped.
#[derive(Clone)]
pub struct FileHub {
    owner: Arc<Owner>,
}

impl FileHub {
    /// Starts a hub that reports to `sink`.
    pub fn new(sink: Arc<dyn Sink>) -> io::Result<FileHub> {
        FileHub::with_options(sink, FileHubOptions::default())
    }

    /// The same with other than default options.
    pub fn with_options(sink: Arc<dyn Sink>, options: FileHubOptions) -> io::Result<FileHub> {
        let (hub, mut lookout) = FileHub::unattended(sink, options)?;
        let thread = std::thread::Builder::new()
            .name("file-watch".to_owned())
            .spawn(move || while lookout.turn() {})?;
        *hub.owner.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(hub)
    }

    /// A hub without a thread of its own: somebody has to keep the lookout.
    pub fn unattended(sink: Arc<dyn Sink>, options: FileHubOptions) -> io::Result<(FileHub, Lookout)> {
        let inotify = Arc::new(instance().map_err(instance_error)?);
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(Arc::clone(&inotify), options)),
            gate: Mutex::new(()),
            inotify,
            wake,
            stop: AtomicBool::new(false),
            wakeups: AtomicU64::new(0),
            farewell: OnceLock::new(),
        });
        let lookout = Lookout {
            shared: Arc::clone(&shared),
            sink,
            mounts: Mounts::open(),
            buffer: vec![MaybeUninit::uninit(); 64 << 10].into_boxed_slice(),
            stirred: false,
        };
        Ok((FileHub { owner: Arc::new(Owner { shared, thread: Mutex::new(None) }) }, lookout))
    }

    /// Ends the lookout, as the end of the last handle does. Nothing is reported from then on.
    pub fn close(&self) {
        self.owner.shared.close();
    }

    /// Has the kernel clear up by itself when the process ends, so that its end need not wait for that: for the one hub of
    /// a program. What is left to the kernel counts against the limit of instances for some milliseconds more.
    pub fn leave_to_kernel(&self) {
        // Where it cannot be, the end takes longer and is as good.
        if let Ok(socket) = farewell::hold(&self.owner.shared.inotify) {
            let _ = self.owner.shared.farewell.set(socket);
        }
    }

    /// Begins to watch. When it returns, nothing that happens from now on is missed.
    ///
    /// Subscribing reports nothing by itself: look at the path *after* subscribing. It cannot fail: a path
    /// that does not exist is waited for, and one that gets no kernel watch is scanned.
    pub fn subscribe(&self, token: Token, path: &WatchPath) -> SubscriptionId {
        let shared = &self.owner.shared;
        let mut state = shared.state();
        let id = state.subscribe(token, path);
        let wake = state.has_news();
        drop(state);
        if wake {
            shared.wake();
        }
        SubscriptionId(id)
    }

    /// Stops watching. An event that was already on its way may still be reported once.
    pub fn unsubscribe(&self, id: SubscriptionId) {
        self.owner.shared.state().unsubscribe(id.0);
    }

    /// The counters.
    pub fn stats(&self) -> FileHubStats {
        let stats = self.owner.shared.state().stats();
        FileHubStats { wakeups: self.owner.shared.wakeups.load(Ordering::Relaxed), ..stats }
    }

    /// Runs `action` while the hub reads no events. For tests that fill the kernel's queue.
    #[doc(hidden)]
    pub fn while_paused<R>(&self, action: impl FnOnce() -> R) -> R {
        let _gate = self.owner.shared.gate.lock().unwrap_or_else(PoisonError::into_inner);
        action()
    }

    /// Panics if the hub's tables contradict each other. For tests.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.owner.shared.state().check_invariants();
    }
}

impl fmt::Debug for FileHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileHub").field("stats", &self.stats()).finish()
    }
}

/// What the handles share; the lookout does not hold it, so that the last handle can end it.
struct Owner {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.close();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // The sink may have held the last handle; the thread cannot wait for itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            // It fails only if the sink panicked, which was reported when it did.
            let _ = thread.join();
        }
    }
}

struct Shared {
    /// The tables. A plain lock: `subscribe` has to have a watch in place before it returns, and holding the
    /// lock from reading an event to having acted on it keeps events and tables in step.
    state: Mutex<State>,
    /// Taken by the thread before it reads; tests take it to hold the thread back without blocking `state`.
    gate: Mutex<()>,
    inotify: Arc<OwnedFd>,
    wake: OwnedFd,
    stop: AtomicBool,
    wakeups: AtomicU64,
    /// Closed last, as fields are dropped in their order.
    farewell: OnceLock<OwnedFd>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        // Fails only when the counter is full, and then the thread is awake anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// Reads what the kernel tells a hub, and reports it. Any thread may keep it, one at a time.
pub struct Lookout {
    shared: Arc<Shared>,
    sink: Arc<dyn Sink>,
    mounts: Option<Mounts>,
    buffer: Box<[MaybeUninit<u8>]>,
    /// The last turn had something to report, and more of the same is likely.
    stirred: bool,
}

/// How long a lookout rests after a report. Whoever was told makes changes of its own, each of which would wake it.
const REST: Duration = Duration::from_micros(250);

impl fmt::Debug for Lookout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookout").finish_non_exhaustive()
    }
}

impl Lookout {
    /// Sleeps until something happens, takes it in and reports it. False: the hub has ended.
    pub fn turn(&mut self) -> bool {
        if std::mem::take(&mut self.stirred) {
            std::thread::sleep(REST);
        }
        let next_scan = self.shared.state().next_scan();
        let mounts_changed = self.wait(next_scan);
        if self.shared.stop.load(Ordering::Acquire) {
            return false;
        }
        drop(self.shared.gate.lock());
        self.read_events(mounts_changed);
        if next_scan.is_some_and(|at| at <= Instant::now()) {
            self.scan();
        }
        self.report();
        true
    }

    /// Sleeps until there is something to do; says whether the mount table changed.
    fn wait(&self, next_scan: Option<Instant>) -> bool {
        let timeout = next_scan.map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            rustix::event::Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        });
        let mut descriptors = vec![
            PollFd::new(&*self.shared.inotify, PollFlags::IN),
            PollFd::new(&self.shared.wake, PollFlags::IN),
        ];
        if let Some(mounts) = &self.mounts {
            descriptors.push(PollFd::from_borrowed_fd(mounts.descriptor(), PollFlags::PRI));
        }
        // The only failure that can happen is a signal, and then looking around does no harm.
        let _ = rustix::event::poll(&mut descriptors, timeout.as_ref());
        self.shared.wakeups.fetch_add(1, Ordering::Relaxed);
        if descriptors.get(1).is_some_and(|wake| !wake.revents().is_empty()) {
            let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
        }
        descriptors.get(2).is_some_and(|mounts| !mounts.revents().is_empty())
    }

    fn read_events(&mut self, mounts_changed: bool) {
        let changed = match &mut self.mounts {
            Some(mounts) if mounts_changed => mounts.changed(),
            _ => rustc_hash::FxHashSet::default(),
        };
        let mut state = self.shared.state();
        let mut reader = inotify::Reader::new(&*self.shared.inotify, &mut self.buffer);
        // One buffer full at a time: bounded work under the lock, and one report per token and buffer.
        while let Ok(event) = reader.next() {
            state.event(event.wd(), event.events(), event.file_name().map(std::ffi::CStr::to_bytes));
            if reader.is_buffer_empty() {
                break;
            }
        }
        for mount_point in changed {
            state.mount_changed(&mount_point);
        }
        state.settle();
    }

    /// Looks at the paths without watches. The looking is done without the lock.
    fn scan(&self) {
        let start = Instant::now();
        let targets = self.shared.state().begin_scan();
        let seen: Vec<_> = targets
            .into_iter()
            .map(|target| (target.id, scan::signature(&target.path, target.recursive)))
            .collect();
        self.shared.state().end_scan(seen, start.elapsed());
    }

    fn report(&mut self) {
        let (changes, notices) = self.shared.state().take_news();
        for notice in notices {
            self.sink.notice(notice);
        }
        if !changes.is_empty() {
            self.stirred = true;
            self.sink.changes(&changes);
        }
    }
}

/// An instance of our own. Those that have just ended may be counted for a moment more.
fn instance() -> rustix::io::Result<OwnedFd> {
    const TRIES: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(25);
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    for _ in 1..TRIES {
        match inotify::init(flags) {
            Err(Errno::MFILE) => std::thread::sleep(PAUSE),
            made => return made,
        }
    }
    inotify::init(flags)
}

fn instance_error(errno: Errno) -> io::Error {
    if errno != Errno::MFILE {
        return errno.into();
    }
    let current = limits::current(limits::INSTANCES).map_or(String::new(), |limit| format!(", now {limit}"));
    io::Error::other(format!(
        "cannot watch files: too many inotify instances ({}{current}) or too many open files; raise the limit, \
         for example: sysctl {}={}",
        limits::INSTANCES,
        limits::INSTANCES,
        limits::WANTED_INSTANCES
    ))
}
