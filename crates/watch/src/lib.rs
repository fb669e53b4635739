//! Event sources of the host, each multiplexed for all subscribers: inotify, timers, D-Bus, netlink.
//!
//! Watches are data. A resource does not open a watch of its own; it says *what* it depends on, and one shared
//! hub delivers. A hundred thousand watched files cost one descriptor, one thread, and a few hundred bytes
//! each.
//!
//! The central type is [`FileHub`]: one inotify instance for the whole process. A subscriber hands it a
//! [`Token`] and a [`WatchPath`], and the [`Sink`] hears the token whenever that path may have changed.
//! [`Timers`] is the same idea for time, without a clock inside, [`BusService`] for what services say on a message
//! bus, and [`KernelEvents`] for what the kernel tells about interfaces, devices, mounts and the name of the host.
//! [`WallClock`] is for times of the calendar.
//!
//! ```
//! use std::sync::{Arc, mpsc};
//! use mgmt_watch::{FileHub, Notice, Sink, Token, WatchPath};
//!
//! struct Queue(mpsc::Sender<Token>);
//! impl Sink for Queue {
//!     fn changed(&self, token: Token) {
//!         let _ = self.0.send(token);
//!     }
//!     fn notice(&self, _: Notice) {}
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let (sender, events) = mpsc::channel();
//! let hub = FileHub::new(Arc::new(Queue(sender)))?;
//! hub.subscribe(Token(7), &WatchPath::new(directory.join("not/there/yet"), false)?);
//! std::fs::create_dir_all(directory.join("not/there"))?;
//! assert_eq!(events.recv()?, Token(7));
//! # Ok(())
//! # }
//! ```
//!
//! # What a subscriber may rely on
//!
//! - Watching has begun when [`FileHub::subscribe`] returns. Whoever looks at the path *after* that sees either
//!   the state before a change, and is told later, or the state after it.
//! - An event says "look again", never what happened, with [one exception](Change::Created). Several changes may be one
//!   event; a change is never none.
//! - An event follows when the target is created, written, removed, renamed, or changes its attributes; when it
//!   is a directory and an entry directly in it does; for a recursive subscription when anything below does, at
//!   any depth, including in directories that came later; and when the way to the target changes: a parent
//!   appears, vanishes, is moved or replaced, a link on the way is turned, something is mounted over it.
//! - Changes to siblings are not reported.
//! - Nothing is lost for lack of resources. When the kernel's queue overflows, everybody is told and all watches
//!   are verified. When watches run out, the paths without one are looked at every few seconds.
//! - An idle hub does not wake up.
//!
//! # How it works
//!
//! The hub watches directories, never files: a watch on a file dies with the inode when an editor renames over
//! it. The *physical* side is a tree of watched directories, each known by its watch number. The *logical* side
//! is a route per directory that subscriptions name: the steps (directory, name) that lead there, through links
//! as the kernel would follow them. An event is looked up by its directory and name: as a step it makes the
//! routes through it be found anew, as a last name it reaches its subscribers, and any other name costs one
//! look-up that finds nothing.
//!
//! # What is deliberately absent
//!
//! - What changed, and in which order. Subscribers compare state; they do not replay history.
//! - Delays before the first event of a burst. Whoever keeps the lookout rests for a moment *after* a report, so that a
//!   burst wakes it once and not a hundred times; what came meanwhile is one report.
//! - Following a target that is itself a link, and links below a recursive target.
//! - Changes that the kernel does not tell: writes by other machines on a network file system, a write through
//!   another hard link of the same file, and the kernel's own virtual files.

mod bus;
mod clock;
mod file;
mod kernel;
mod limits;
mod path;
mod timers;

pub use bus::{
    Bus, BusAnswer, BusArguments, BusError, BusPath, BusService, BusSignals, BusValue, Followed, Service,
    Signal, Topic,
};
pub use clock::WallClock;
pub use file::{Change, FileHub, FileHubOptions, FileHubStats, Lookout, Notice, Sink, SubscriptionId, Token};
pub use kernel::{KernelEvents, KernelTopic};
pub use limits::{WANTED_INSTANCES, WANTED_WATCHES, raise_limits};
pub use path::{BadWatchPath, WatchPath};
pub use timers::Timers;
