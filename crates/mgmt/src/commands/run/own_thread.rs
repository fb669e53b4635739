//! Work that goes on for as long as the run, on a thread of its own.
//!
//! A task of the runtime is continued by whichever thread is free. If it makes something large each time, in the end every
//! thread has once had room for that, and the allocator keeps the room of each. Here it is always the same thread; also for
//! what comes before, so that the room that was needed to read a program is there for its graph.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A thread that waits for work.
pub(super) struct OwnThread {
    work: mpsc::Sender<Box<dyn FnOnce() + Send>>,
}

/// Work on a thread. Without this, it ends when it waits for something the next time.
pub(super) struct Lasting {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

/// Work that comes to its end.
pub(super) struct Ending(oneshot::Receiver<()>);

impl OwnThread {
    pub(super) fn start(name: &str) -> io::Result<OwnThread> {
        let (work, waiting) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(move || waiting.into_iter().for_each(|work| work()))?;
        Ok(OwnThread { work })
    }

    /// Does something there, and waits until it is done. A panic goes on here.
    pub(super) fn ask<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (answer, answered) = mpsc::channel();
        self.give(move || {
            // Whoever asked waits for it.
            let _ = answer.send(catch_unwind(AssertUnwindSafe(work)));
        });
        match answered.recv() {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => resume_unwind(panic),
            #[expect(clippy::unreachable, reason = "the thread does nothing but to take work, and answers")]
            Err(mpsc::RecvError) => {
                unreachable!("there is a thread for as long as there is a place to give work to")
            }
        }
    }

    /// Begins with the work that lasts. It may use the runtime in which this is called.
    pub(super) fn begin(self, work: impl Future<Output = ()> + Send + 'static) -> Lasting {
        let ((stop, stopped), (last_words, ended)) = (oneshot::channel::<()>(), oneshot::channel());
        let runtime = Handle::current();
        self.give(move || {
            let mut work = Box::pin(work);
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = stopped => {}
                    () = &mut work => {}
                }
            });
            // What it holds is let go of before anybody goes on: commands end, and what was told is kept.
            drop(work);
            let _ = last_words.send(());
        });
        Lasting { stop, ended }
    }

    fn give(&self, work: impl FnOnce() + Send + 'static) {
        // The thread takes work until this is gone.
        let _ = self.work.send(Box::new(work));
    }
}

impl Lasting {
    /// Has it end.
    pub(super) fn stop(self) -> Ending {
        drop(self.stop);
        Ending(self.ended)
    }
}

impl Ending {
    /// Waits until it no longer does anything, but not for ever.
    pub(super) async fn wait(self, patience: Duration) {
        // That it is gone says the same as its last words.
        let _ = tokio::time::timeout(patience, self.0).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::thread::ThreadId;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn everything_is_done_on_one_thread_until_the_end() {
        let seen: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
        let (many, enough) = oneshot::channel();
        let work = {
            let seen = Arc::clone(&seen);
            async move {
                let mut many = Some(many);
                loop {
                    tokio::time::sleep(Duration::from_micros(100)).await;
                    let now = tokio::task::block_in_place(|| std::thread::current().id());
                    let mut seen = seen.lock().unwrap();
                    seen.push(now);
                    if seen.len() > 100
                        && let Some(many) = many.take()
                    {
                        many.send(()).unwrap();
                    }
                }
            }
        };
        let thread = OwnThread::start("test").unwrap();
        let first = thread.ask(|| std::thread::current().id());
        let thread = thread.begin(work);
        enough.await.unwrap();
        thread.stop().wait(PATIENCE).await;
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert!(seen.iter().all(|id| *id == first && *id != std::thread::current().id()));
        assert!(seen.len() > 100);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn it_ends_with_whoever_holds_it() {
        let (held, dropped) = oneshot::channel::<()>();
        let work = async move {
            let _held = held;
            std::future::pending::<()>().await;
        };
        drop(OwnThread::start("test").unwrap().begin(work));
        assert!(tokio::time::timeout(PATIENCE, dropped).await.unwrap().is_err());
        // What is over need not be ended.
        OwnThread::start("test").unwrap().begin(async {}).stop().wait(PATIENCE).await;
    }

    #[test]
    fn a_panic_goes_on_where_the_answer_is_waited_for() {
        let thread = OwnThread::start("test").unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| thread.ask(|| panic!("no")))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"no"));
        assert_eq!(thread.ask(|| 1), 1, "it is still there");
    }
}
