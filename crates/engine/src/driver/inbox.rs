//! How everything outside reaches the engine's thread.
//!
//! Events of vertices are a set, not a queue: a flood of them takes one bit each and costs one wake-up. The rest is
//! a queue whose length is bounded by what is under way: one answer per run, one message per call.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Message;
use crate::core::Vertex;

/// Where messages wait.
#[derive(Default)]
pub(super) struct Inbox {
    // A plain lock: it is held for a push or a swap of two vectors, never during work.
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    messages: Vec<Message>,
    changed: Vec<Vertex>,
    /// One bit per vertex: it is in `changed` already.
    marked: Vec<u64>,
    closed: bool,
}

/// What had come.
#[derive(Default)]
pub(super) struct Mail {
    pub(super) messages: Vec<Message>,
    pub(super) changed: Vec<Vertex>,
}

impl Inbox {
    pub(super) fn send(&self, message: Message) {
        let mut waiting = self.lock();
        if !waiting.closed {
            waiting.messages.push(message);
            drop(waiting);
            self.arrived.notify_one();
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
        let mut waiting = self.lock();
        let (word, bit) = (vertex.index() / 64, 1 << (vertex.index() % 64));
        if waiting.marked.len() <= word {
            waiting.marked.resize(word + 1, 0);
        }
        if waiting.marked[word] & bit == 0 {
            waiting.marked[word] |= bit;
            waiting.changed.push(vertex);
            drop(waiting);
            self.arrived.notify_one();
        }
    }

    /// Waits until something is there or the time has come, and takes everything.
    pub(super) fn wait(&self, until: Option<Instant>, mail: &mut Mail) {
        let mut waiting = self.lock();
        while waiting.messages.is_empty() && waiting.changed.is_empty() {
            waiting = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    self.arrived.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
        std::mem::swap(&mut waiting.messages, &mut mail.messages);
        std::mem::swap(&mut waiting.changed, &mut mail.changed);
        for vertex in &mail.changed {
            waiting.marked[vertex.index() / 64] &= !(1 << (vertex.index() % 64));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing in here can be left half changed by a panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
