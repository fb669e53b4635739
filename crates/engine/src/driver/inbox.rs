//! How everything outside reaches the driver.
//!
//! Events of vertices are a set, not a queue: a flood of them takes one bit each and costs one wake-up. The rest is
//! a queue whose length is bounded by what is under way: one answer per run, one message per call.
//!
//! Whoever puts something in [attends](super::helm::Helm::attend) to it, or calls the engine's thread to do so.

use std::sync::PoisonError;
use std::time::Duration;

use mgmt_watch::Change;

use super::Message;
use super::sync::{AtomicUsize, Condvar, Instant, Mutex, MutexGuard};
use crate::core::Vertex;

/// Where messages wait.
#[derive(Default)]
pub(super) struct Inbox {
    // A plain lock: it is held for a push or a swap of two vectors, never during work.
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    /// How many runs wait for a thread; kept by the pool.
    pub(super) queued: AtomicUsize,
}

#[derive(Default)]
struct Waiting {
    messages: Vec<Message>,
    changed: Marked,
    created: Marked,
    /// Somebody wants the engine's thread to look.
    called: bool,
    /// The engine's thread sleeps.
    asleep: bool,
    /// When it is to look by itself.
    until: Option<Instant>,
    closed: bool,
}

/// Vertices, each at most once.
#[derive(Default)]
struct Marked {
    vertices: Vec<Vertex>,
    /// One bit per vertex: it is there already.
    bits: Vec<u64>,
}

/// What had come.
#[derive(Default)]
pub(super) struct Mail {
    pub(super) messages: Vec<Message>,
    /// Anything may have happened to what they watch.
    pub(super) changed: Vec<Vertex>,
    /// What they watch was created, once, and nothing else happened to it.
    pub(super) created: Vec<Vertex>,
}

/// What somebody attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// Everything: for the engine's own thread.
    All,
    /// All that came before the next graph. A graph is for the engine's own thread, which was called for it: whichever thread
    /// takes one in keeps room for another one for as long as it lives.
    UpToGraph,
    /// Changes of vertices, and what was done before anything else came.
    Done,
    /// Changes of vertices. Messages stay where they are: a swap among them may take long.
    Changes,
}

/// What may be waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Nothing,
    /// Changes of vertices, and nothing else.
    Changes,
    /// Messages, at least.
    Messages,
}

impl Marked {
    /// False if it was there already.
    fn insert(&mut self, vertex: Vertex) -> bool {
        let (word, bit) = (vertex.index() / 64, 1 << (vertex.index() % 64));
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        let new = self.bits[word] & bit == 0;
        if new {
            self.bits[word] |= bit;
            self.vertices.push(vertex);
        }
        new
    }

    /// Moves all of them to `taken`, which is empty.
    fn take(&mut self, taken: &mut Vec<Vertex>) {
        std::mem::swap(&mut self.vertices, taken);
        for vertex in taken {
            self.bits[vertex.index() / 64] &= !(1 << (vertex.index() % 64));
        }
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.changed.vertices.is_empty() && self.created.vertices.is_empty()
    }
}

impl Inbox {
    /// How much waits for the engine's thread.
    pub(super) fn len(&self) -> usize {
        let waiting = self.lock();
        waiting.messages.len() + waiting.changed.vertices.len() + waiting.created.vertices.len()
    }

    /// Puts a message in and calls the engine's thread.
    pub(super) fn send(&self, message: Message) {
        let mut waiting = self.lock();
        if !waiting.closed {
            waiting.messages.push(message);
            self.wake(waiting);
        }
    }

    /// Puts a message in; the caller attends to it.
    pub(super) fn put(&self, message: Message) {
        let mut waiting = self.lock();
        if !waiting.closed {
            waiting.messages.push(message);
        }
    }

    /// Nobody will look any more: drops what is there, and whatever comes.
    pub(super) fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        let messages = std::mem::take(&mut waiting.messages);
        drop(waiting);
        drop(messages);
    }

    /// The state of a vertex may have changed. Calls the engine's thread.
    pub(super) fn changed(&self, vertex: Vertex) {
        let mut waiting = self.lock();
        waiting.changed.insert(vertex);
        self.wake(waiting);
    }

    /// The state of some vertices may have changed; the caller attends to it.
    pub(super) fn put_changes(&self, changes: impl IntoIterator<Item = (Vertex, Change)>) {
        let mut waiting = self.lock();
        for (vertex, change) in changes {
            // Created twice: something happened in between.
            if change == Change::Any || !waiting.created.insert(vertex) {
                waiting.changed.insert(vertex);
            }
        }
    }

    /// Calls the engine's thread.
    pub(super) fn call(&self) {
        self.wake(self.lock());
    }

    /// What is there.
    pub(super) fn holds(&self) -> Holds {
        let waiting = self.lock();
        match (waiting.is_empty(), waiting.messages.is_empty()) {
            (true, _) => Holds::Nothing,
            (false, true) => Holds::Changes,
            (false, false) => Holds::Messages,
        }
    }

    /// Takes a share of what is there.
    pub(super) fn take(&self, share: Share, mail: &mut Mail) {
        let mut waiting = self.lock();
        let end = match share {
            Share::All => None,
            Share::UpToGraph => waiting.messages.iter().position(Message::brings_graph),
            Share::Done => {
                waiting.messages.iter().position(|message| !matches!(message, Message::Finished(_)))
            }
            Share::Changes => Some(0),
        };
        match end {
            None => std::mem::swap(&mut waiting.messages, &mut mail.messages),
            Some(before) => mail.messages.extend(waiting.messages.drain(..before)),
        }
        waiting.changed.take(&mut mail.changed);
        waiting.created.take(&mut mail.created);
    }

    /// When the engine's thread is to look even if nobody calls it. Set by whoever holds the driver.
    pub(super) fn look_at(&self, next: Option<Instant>) {
        let mut waiting = self.lock();
        let sooner = next.is_some_and(|next| waiting.until.is_none_or(|until| next < until));
        waiting.until = next;
        // It stays asleep, for less long.
        let wake = sooner && waiting.asleep;
        drop(waiting);
        if wake {
            self.arrived.notify_one();
        }
    }

    /// The engine's thread sleeps until it is called or the time has come.
    pub(super) fn rest(&self) {
        let mut waiting = self.lock();
        while !waiting.called {
            let left = waiting.until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            waiting.asleep = true;
            waiting = match left {
                Some(left) => {
                    self.arrived.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
        waiting.asleep = false;
        waiting.called = false;
    }

    /// Wakes the engine's thread if it sleeps: a call to the kernel that is not needed while it works.
    fn wake(&self, mut waiting: MutexGuard<'_, Waiting>) {
        waiting.called = true;
        let wake = std::mem::take(&mut waiting.asleep);
        drop(waiting);
        if wake {
            self.arrived.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing in here can be left half changed by a panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
