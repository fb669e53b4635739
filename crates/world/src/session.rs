//! Leases that are kept as long as somebody needs them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::store::{LeaseId, Store};

/// Keeps a lease, and begins another when it is lost.
pub(crate) struct Session {
    held: watch::Receiver<Option<Held>>,
    task: JoinHandle<()>,
}

/// A lease that is surely held until some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) lease: LeaseId,
    /// Counted from before the store was asked, so it is over here before it is over there.
    pub(crate) until: Instant,
}

impl Session {
    /// Begins. Whenever a lease is won or lost, `changed` is called.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        time: Duration,
        changed: impl Fn() + Send + Sync + 'static,
    ) -> Session {
        const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);
        let time = if store.ends_with_us() { FOR_EVER } else { time };
        let (sender, held) = watch::channel(None);
        let task = tokio::spawn(async move {
            loop {
                let asked = Instant::now();
                match store.grant(time).await {
                    Ok(lease) => {
                        let held = Held { lease: lease.id, until: asked + lease.time };
                        sender.send_replace(Some(held));
                        changed();
                        keep(&*store, held, lease.time, &sender).await;
                        sender.send_replace(None);
                        changed();
                    }
                    Err(error) if error.is_passing() => tokio::time::sleep(AGAIN).await,
                    Err(error) => {
                        tracing::debug!("no lease: {error}");
                        return;
                    }
                }
            }
        });
        Session { held, task }
    }

    /// The lease, if it is surely held now.
    pub(crate) fn held(&self) -> Option<Held> {
        self.held.borrow().filter(|held| Instant::now() < held.until)
    }

    /// Waits for another lease, or for none.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<Held>> {
        self.held.clone()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const AGAIN: Duration = Duration::from_millis(300);

/// Keeps a lease until it is lost.
async fn keep(store: &dyn Store, first: Held, time: Duration, sender: &watch::Sender<Option<Held>>) {
    let Held { lease, mut until } = first;
    let mut pause = time / 3;
    loop {
        tokio::time::sleep(pause).await;
        let asked = Instant::now();
        if asked >= until {
            return;
        }
        match tokio::time::timeout_at(until, store.keep(lease)).await {
            Ok(Ok(true)) => {
                until = asked + time;
                sender.send_replace(Some(Held { lease, until }));
                pause = time / 3;
            }
            Ok(Ok(false)) | Err(_) => return,
            Ok(Err(_)) => pause = AGAIN.min(until.saturating_duration_since(Instant::now())),
        }
    }
}
