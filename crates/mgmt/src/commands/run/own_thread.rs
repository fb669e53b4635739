//! Work that goes on for as long as the run, on a thread of its own.
//!
//! A task of the runtime is continued by whichever thread is free. If it makes something large each time, in the end every
//! thread has once had room for that, and the allocator keeps the room of each. Here it is always the same thread.

use std::io;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Work on a thread. Without this, it ends when it waits for something the next time.
pub(super) struct OwnThread {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl OwnThread {
    /// Begins with it. It may use the runtime in which this is called.
    pub(super) fn spawn(
        name: &str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<OwnThread> {
        let ((stop, stopped), (last_words, ended)) = (oneshot::channel::<()>(), oneshot::channel());
        let runtime = Handle::current();
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(move || {
            let mut work = Box::pin(work);
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = stopped => {}
                    () = &mut work => {}
                }
            });
            // Nobody has to wait until all its memory is given back.
            let _ = last_words.send(());
        })?;
        Ok(OwnThread { stop, ended })
    }

    /// Ends it, and waits until it no longer does anything, but not for ever.
    pub(super) async fn end(self, patience: Duration) {
        drop(self.stop);
        // That it is gone says the same as its last words.
        let _ = tokio::time::timeout(patience, self.ended).await;
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
        let thread = OwnThread::spawn("test", work).unwrap();
        enough.await.unwrap();
        thread.end(PATIENCE).await;
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert!(seen.iter().all(|id| *id == seen[0] && *id != std::thread::current().id()));
        assert!(seen.len() > 100);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn it_ends_with_whoever_holds_it() {
        let (held, dropped) = oneshot::channel::<()>();
        let work = async move {
            let _held = held;
            std::future::pending::<()>().await;
        };
        drop(OwnThread::spawn("test", work).unwrap());
        assert!(tokio::time::timeout(PATIENCE, dropped).await.unwrap().is_err());
        // What is over need not be ended.
        OwnThread::spawn("test", async {}).unwrap().end(PATIENCE).await;
    }
}
