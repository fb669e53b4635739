//! A few threads for runs that only make system calls, one of which keeps the lookout of the hub meanwhile.
//!
//! What the lookout sees and what is to be done about it alone is done by the thread that has seen it; the lookout goes to
//! one that has nothing to do. So no thread has to be woken between an event and its repair. If all are busy, the lookout is
//! kept, and the run waits in the queue like any other.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::helm::Helm;
use super::run::{Done, Job};
use super::sync::thread::{Builder, JoinHandle};
use super::sync::{Condvar, Mutex, MutexGuard, Ordering};
use super::{FileHub, Handle, Lookout, Message};

/// The most jobs that a thread takes at once. Enough to make the hand-over cheap, few enough to share out.
const BATCH: usize = 16;

/// The threads. They end when this is dropped, after what they are doing.
pub(super) struct Pool {
    crew: Arc<Crew>,
    hub: FileHub,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads share.
pub(super) struct Crew {
    // Held for a push or a pop only.
    queue: Mutex<Queue>,
    work: Condvar,
    /// How many there are.
    threads: usize,
    helm: Arc<Helm>,
    /// For the odd run that waits after all.
    runtime: Handle,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// The lookout, while it passes from one to another.
    lookout: Option<Lookout>,
    /// Threads that watch or run something.
    busy: usize,
    /// Threads that sleep and have not been called.
    idle: usize,
    /// Calls that nobody has heard yet.
    calls: usize,
    closed: bool,
}

/// What a thread is to do next.
enum Duty {
    Watch(Lookout),
    Run,
    End,
}

impl Pool {
    /// As many threads as may run something at the same time, and one for the lookout.
    pub(super) fn start(
        threads: usize,
        helm: &Arc<Helm>,
        hub: FileHub,
        lookout: Lookout,
    ) -> std::io::Result<Pool> {
        let crew = Arc::new(Crew {
            queue: Mutex::new(Queue { lookout: Some(lookout), ..Queue::default() }),
            threads: threads + 1,
            work: Condvar::new(),
            helm: Arc::clone(helm),
            runtime: Handle::current(),
        });
        let mut pool = Pool { crew, hub, threads: Vec::with_capacity(threads + 1) };
        for number in 0..=threads {
            let crew = Arc::clone(&pool.crew);
            let thread = Builder::new().name(format!("mgmt-run-{number}"));
            pool.threads.push(thread.spawn(move || crew.serve())?);
        }
        Ok(pool)
    }

    pub(super) fn crew(&self) -> Arc<Crew> {
        Arc::clone(&self.crew)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = self.crew.queue();
        queue.closed = true;
        // There are none, unless the engine has broken off.
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);
        drop(jobs);
        self.crew.work.notify_all();
        self.hub.close();
        for thread in self.threads.drain(..) {
            // A panic in a run is caught there; one elsewhere has been reported by the runtime already.
            let _ = thread.join();
        }
    }
}

impl Crew {
    /// Hands jobs over.
    pub(super) fn submit(&self, jobs: &mut Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let mut queue = self.queue();
        queue.jobs.extend(jobs.drain(..));
        self.helm.inbox.queued.store(queue.jobs.len(), Ordering::Relaxed);
        // Each that wakes wakes another one, as long as there is something left to do.
        let wake = queue.jobs.len().div_ceil(BATCH).min(queue.idle);
        self.call(queue, wake);
    }

    /// Calls threads that sleep.
    fn call(&self, mut queue: MutexGuard<'_, Queue>, number: usize) {
        queue.idle -= number;
        queue.calls += number;
        drop(queue);
        for _ in 0..number {
            self.work.notify_one();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of the threads.
    fn serve(&self) {
        let _parting = Parting(&self.helm);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            match self.next(&mut batch) {
                Duty::Watch(lookout) => self.watch(lookout),
                Duty::Run => self.run(&mut batch),
                Duty::End => return,
            }
            self.queue().busy -= 1;
        }
    }

    /// Waits for something to do. Somebody has to watch, so that comes first.
    fn next(&self, batch: &mut Vec<Job>) -> Duty {
        let mut queue = self.queue();
        while queue.jobs.is_empty() && queue.lookout.is_none() {
            if queue.closed {
                return Duty::End;
            }
            queue.idle += 1;
            while queue.calls == 0 && !queue.closed {
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.calls = queue.calls.saturating_sub(1);
        }
        let lookout = queue.lookout.take();
        if lookout.is_none() {
            // A run may take long, and whatever waits behind it waits as long: while others have nothing to do, it is
            // theirs.
            let free = self.threads.saturating_sub(queue.busy).max(1);
            let take = (queue.jobs.len() / free).clamp(1, BATCH);
            batch.extend(queue.jobs.drain(..take));
            self.helm.inbox.queued.store(queue.jobs.len(), Ordering::Relaxed);
        }
        queue.busy += 1;
        if !queue.jobs.is_empty() && queue.idle > 0 {
            self.call(queue, 1);
        }
        lookout.map_or(Duty::Run, Duty::Watch)
    }

    /// Keeps the lookout until there is a run to do and somebody to take over, or the end.
    fn watch(&self, mut lookout: Lookout) {
        while lookout.turn() {
            let Some(job) = self.helm.attend_to_changes() else { continue };
            let mut queue = self.queue();
            if queue.idle > 0 {
                queue.lookout = Some(lookout);
                self.call(queue, 1);
                return self.run(&mut vec![job]);
            }
            drop(queue);
            self.submit(&mut vec![job]);
        }
    }

    /// Does some runs, and what follows from them as long as it is one after the other.
    fn run(&self, batch: &mut Vec<Job>) {
        while !batch.is_empty() {
            // Where there is much to do, it is better done than waited.
            let patience = if batch.len() == 1 { Helm::A_MOMENT } else { Duration::ZERO };
            let done: Vec<Done> = batch.drain(..).map(|job| job.run_here(&self.runtime)).collect();
            self.helm.inbox.put(Message::Finished(done));
            batch.extend(self.helm.attend(patience).and_then(|job| self.go_on(job)));
        }
    }

    /// A run that follows is done here as well, unless others wait and nobody is there to do them: then it queues up behind
    /// them. Otherwise chains without end, one for each thread, would keep out all the rest.
    fn go_on(&self, job: Job) -> Option<Job> {
        // Mostly there are none, and that can be told without the lock.
        if self.helm.inbox.queued.load(Ordering::Relaxed) == 0 {
            return Some(job);
        }
        let mut queue = self.queue();
        if queue.jobs.is_empty() || queue.idle + queue.calls > 0 {
            return Some(job);
        }
        queue.jobs.push_back(job);
        self.helm.inbox.queued.store(queue.jobs.len(), Ordering::Relaxed);
        None
    }
}

/// Has the engine break off if one of the threads ends by a panic. A lookout or a run in its hands is gone: without this,
/// no file would be watched any more, or the core would wait for ever.
struct Parting<'a>(&'a Helm);

impl Drop for Parting<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.break_off();
        }
    }
}
