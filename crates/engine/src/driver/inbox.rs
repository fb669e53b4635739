//! How everything outside reaches the engine's thread.
//!
//! Events of vertices are a set, not a queue: a flood of them takes one bit each and costs one wake-up. The rest is
//! a queue whose length is bounded by what is under way: one answer per run, one message per call.

use std::sync::atomic::AtomicUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mgmt_watch::Change;

use super::Message;
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
    /// The engine's thread sleeps, and nobody has woken it yet.
    asleep: bool,
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

    pub(super) fn send(&self, message: Message) {
        let mut waiting = self.lock();
        if !waiting.closed {
            waiting.messages.push(message);
            self.wake(waiting);
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

    /// The state of a vertex may have changed.
    pub(super) fn changed(&self, vertex: Vertex) {
        self.changes([(vertex, Change::Any)]);
    }

    /// The state of some vertices may have changed.
    pub(super) fn changes(&self, changes: impl IntoIterator<Item = (Vertex, Change)>) {
        let mut waiting = self.lock();
        for (vertex, change) in changes {
            // Created twice: something happened in between.
            if change == Change::Any || !waiting.created.insert(vertex) {
                waiting.changed.insert(vertex);
            }
        }
        self.wake(waiting);
    }

    /// Waits until something is there or the time has come, and takes everything.
    pub(super) fn wait(&self, until: Option<Instant>, mail: &mut Mail) {
        let mut waiting = self.lock();
        while waiting.is_empty() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
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
        std::mem::swap(&mut waiting.messages, &mut mail.messages);
        waiting.changed.take(&mut mail.changed);
        waiting.created.take(&mut mail.created);
    }

    /// Wakes the engine's thread if it sleeps: a call to the kernel that is not needed while it works.
    fn wake(&self, mut waiting: MutexGuard<'_, Waiting>) {
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
