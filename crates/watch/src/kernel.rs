//! What the kernel tells by itself: network interfaces and routes, devices, mounts, the name of the host.
//!
//! [`KernelEvents`] is one topic, as events. All who follow the same source share it: one socket for interfaces,
//! addresses and routes, one for devices, one file for the name, one for mounts, each there as long as somebody follows it.
//!
//! What a follower may rely on
//! - It hears of everything that happens after [`KernelEvents::follow`] returned, several changes perhaps as one event.
//! - When the kernel had to drop messages, everybody hears an event: whatever was missed has to be looked at.
//! - Only the kernel is believed, whoever else sends the same.
//! - It is about the name spaces for networks and mounts that the process is in. The name of the host may be told of too often: the
//!   kernel tells all name spaces together.

mod links;
mod netlink;
mod polled;
mod uevent;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::links::{Concerned, Links};
use self::netlink::{Heard, Socket};
use self::polled::PolledFile;

/// What the kernel can be asked to tell about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelTopic {
    /// Network interfaces and their addresses: there, gone, up, down, renamed.
    Links,
    /// One network interface by its name, its addresses, and the routes through it.
    Interface(String),
    /// Devices of one subsystem, `cpu` or `module` for example.
    Devices(String),
    /// The name of the host.
    Hostname,
    /// What is mounted where, and with which options.
    Mounts,
}

/// A topic, as events.
#[derive(Debug)]
pub struct KernelEvents {
    changes: watch::Receiver<()>,
    /// Keeps the source open.
    _source: Arc<Source>,
}

impl KernelEvents {
    /// Follows a topic from now on. To be called in a runtime.
    ///
    /// # Errors
    ///
    /// The kernel does not let us listen.
    pub fn follow(topic: &KernelTopic) -> io::Result<KernelEvents> {
        let runtime = Handle::current();
        let origin = topic.origin();
        let mut sources = lock(&SOURCES);
        sources.retain(|_, source| source.strong_count() > 0);
        let present = sources.get(&(runtime.id(), origin)).and_then(Weak::upgrade);
        // One that has failed is opened anew.
        let source = match present.filter(|source| !source.task.is_finished()) {
            Some(present) => present,
            None => {
                let fresh = Arc::new(Source::open(origin, &runtime)?);
                sources.insert((runtime.id(), origin), Arc::downgrade(&fresh));
                fresh
            }
        };
        let changes = source.audience.join(topic);
        Ok(KernelEvents { changes, _source: source })
    }

    /// Waits for the next event. A call that is dropped loses nothing.
    ///
    /// # Errors
    ///
    /// The kernel tells no more. It can be followed anew.
    pub async fn next(&mut self) -> io::Result<()> {
        let ended = || io::Error::new(io::ErrorKind::BrokenPipe, "the kernel tells no more about it");
        self.changes.changed().await.map_err(|_| ended())
    }
}

/// Where events come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    Links,
    Devices,
    Hostname,
    Mounts,
}

impl KernelTopic {
    fn origin(&self) -> Origin {
        match self {
            KernelTopic::Links | KernelTopic::Interface(_) => Origin::Links,
            KernelTopic::Devices(_) => Origin::Devices,
            KernelTopic::Hostname => Origin::Hostname,
            KernelTopic::Mounts => Origin::Mounts,
        }
    }
}

/// A source belongs to a runtime, as its task does.
type Key = (Id, Origin);

/// Sources in use. Locked only while somebody begins to follow.
static SOURCES: LazyLock<Mutex<HashMap<Key, Weak<Source>>>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
struct Source {
    audience: Arc<Audience>,
    task: AbortHandle,
}

impl Source {
    fn open(origin: Origin, runtime: &Handle) -> io::Result<Source> {
        let audience = Arc::new(Audience::default());
        let told = Arc::clone(&audience);
        let task = match origin {
            Origin::Links => {
                let socket = Socket::links()?;
                socket.ask_for_all(links::GET_LINK, &[0; links::LINK])?;
                runtime.spawn(told.follow_links(socket))
            }
            Origin::Devices => {
                let socket = Socket::devices()?;
                let topic = |message: &[u8]| uevent::subsystem(message).map(KernelTopic::Devices);
                runtime.spawn(told.follow(socket, topic))
            }
            Origin::Hostname => {
                runtime.spawn(told.follow_file(PolledFile::open(polled::HOSTNAME)?, KernelTopic::Hostname))
            }
            Origin::Mounts => {
                runtime.spawn(told.follow_file(PolledFile::open(polled::MOUNTS)?, KernelTopic::Mounts))
            }
        };
        Ok(Source { audience, task: task.abort_handle() })
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Who wants to hear of what. Locked only to join and to tell.
#[derive(Debug, Default)]
struct Audience {
    topics: Mutex<HashMap<KernelTopic, watch::Sender<()>>>,
}

impl Audience {
    fn join(&self, topic: &KernelTopic) -> watch::Receiver<()> {
        let mut topics = lock(&self.topics);
        topics.retain(|_, sender| sender.receiver_count() > 0);
        topics.entry(topic.clone()).or_default().subscribe()
    }

    fn tell(&self, topic: &KernelTopic) {
        if let Some(sender) = lock(&self.topics).get(topic) {
            sender.send_replace(());
        }
    }

    fn tell_all(&self) {
        for sender in lock(&self.topics).values() {
            sender.send_replace(());
        }
    }

    /// Nobody will hear anything any more.
    fn end(&self) {
        lock(&self.topics).clear();
    }

    /// Tells when a file shows something else, until it fails.
    async fn follow_file(self: Arc<Audience>, file: PolledFile, topic: KernelTopic) {
        while file.changed().await.is_ok() {
            self.tell(&topic);
        }
        self.end();
    }

    /// Tells what a socket hears of interfaces, until it fails.
    async fn follow_links(self: Arc<Audience>, mut socket: Socket) {
        let mut links = Links::default();
        while let Ok(heard) = socket.next().await {
            let concerned = match heard {
                Heard::Message(message) => links.concerned(message),
                Heard::Lost => {
                    links.forget();
                    // Until the list is there, everybody is told of everything.
                    if socket.ask_for_all(links::GET_LINK, &[0; links::LINK]).is_err() {
                        break;
                    }
                    Concerned::All
                }
            };
            match concerned {
                Concerned::Some(topics) => topics.iter().for_each(|topic| self.tell(topic)),
                Concerned::All => self.tell_all(),
            }
        }
        self.end();
    }

    /// Tells what a socket hears, until it fails.
    async fn follow(
        self: Arc<Audience>,
        mut socket: Socket,
        topic: impl Fn(&[u8]) -> Option<KernelTopic> + Send,
    ) {
        while let Ok(heard) = socket.next().await {
            match heard {
                Heard::Message(message) => {
                    if let Some(topic) = topic(message) {
                        self.tell(&topic);
                    }
                }
                Heard::Lost => self.tell_all(),
            }
        }
        self.end();
    }
}

/// A descriptor that can be waited for.
#[expect(
    deprecated,
    reason = "the new way is unsafe for types that lie about their descriptor; this one owns it"
)]
pub(crate) fn waiting(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
}

/// A poisoned lock means that somebody panicked while telling; what is in it stays whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
