//! A few threads for runs that only make system calls.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::runtime::Handle;

use super::Message;
use super::inbox::Inbox;
use super::run::{Done, Job};

/// The most jobs that a thread takes at once. Enough to make the hand-over cheap, few enough to share out.
const BATCH: usize = 16;

pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    // Held for a push or a pop only.
    queue: Mutex<Queue>,
    work: Condvar,
    inbox: Arc<Inbox>,
    /// For the odd run that waits after all.
    runtime: Handle,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    closed: bool,
}

impl Pool {
    pub(super) fn start(threads: usize, inbox: &Arc<Inbox>, runtime: Handle) -> std::io::Result<Pool> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            inbox: Arc::clone(inbox),
            runtime,
        });
        let thread = |number: usize| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name(format!("mgmt-run-{number}")).spawn(move || work(&shared))
        };
        let threads = (0..threads.max(1)).map(thread).collect::<std::io::Result<_>>()?;
        Ok(Pool { shared, threads })
    }

    /// Hands jobs over.
    pub(super) fn submit(&self, jobs: &mut Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.jobs.extend(jobs.drain(..));
        self.shared.inbox.queued.store(queue.jobs.len(), Ordering::Relaxed);
        // Each that wakes wakes another one, as long as there is something left to do.
        let wake = queue.jobs.len().div_ceil(BATCH).min(queue.idle);
        drop(queue);
        for _ in 0..wake {
            self.shared.work.notify_one();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A panic in a run is caught there; one elsewhere has been reported by the runtime already.
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        while queue.jobs.is_empty() {
            if queue.closed {
                return;
            }
            queue.idle += 1;
            queue = shared.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
        // A run may take long, and whatever waits behind it waits as long: while others have nothing to do, it is theirs.
        let take = (queue.jobs.len() / (queue.idle + 1)).clamp(1, BATCH);
        batch.extend(queue.jobs.drain(..take));
        shared.inbox.queued.store(queue.jobs.len(), Ordering::Relaxed);
        let more = !queue.jobs.is_empty() && queue.idle > 0;
        drop(queue);
        if more {
            shared.work.notify_one();
        }
        let done: Vec<Done> = batch.drain(..).map(|job| job.run_here(&shared.runtime)).collect();
        shared.inbox.send(Message::Finished(done));
    }
}
