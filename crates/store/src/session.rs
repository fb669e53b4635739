//! Lease sessions: leases that are kept alive as long as somebody needs them.
//!
//! A lease counts as held until a moment that is computed from before the store was asked, so it is over here before it is over
//! there, however long the answer took, and whether the process was stopped (SIGSTOP) or the host suspended meanwhile: both the
//! monotonic clock and the one that goes on during suspension have to be before that moment. [`Session::held`] looks at
//! both clocks each time; and as soon as the process goes on after that moment, whoever follows the session is told.
//!
//! A lease with a grace stays in the store for that much longer than it counts as held here: time to stop what was begun because
//! of it, before anybody else can see that it has ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::boottime;
use crate::store::{LeaseId, Store};

/// Keeps a lease, and begins another when it is lost.
pub(crate) struct Session {
    held: watch::Receiver<Option<Held>>,
    task: JoinHandle<()>,
}

/// How long a lease is to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    /// How long it counts as held here after the store has last confirmed it.
    pub(crate) time: Duration,
    /// How much longer it stays in the store.
    pub(crate) grace: Duration,
}

impl From<Duration> for Term {
    fn from(time: Duration) -> Term {
        Term { time, grace: Duration::ZERO }
    }
}

/// A lease that is surely held until some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) lease: LeaseId,
    /// Counted from before the store was asked, so it is over here before it is over there.
    pub(crate) until: Instant,
    /// The same moment by the clock that goes on while the host is suspended.
    until_boottime: Duration,
}

impl Held {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until || boottime::now() >= self.until_boottime
    }
}

/// The moment before a question to the store.
#[derive(Clone, Copy)]
struct Asked(Instant, Duration);

impl Asked {
    fn now() -> Asked {
        Asked(Instant::now(), boottime::now())
    }

    fn held(self, lease: LeaseId, time: Duration) -> Held {
        Held { lease, until: self.0 + time, until_boottime: self.1.saturating_add(time) }
    }
}

impl Session {
    /// Begins. Whenever a lease is won or lost, `changed` is called.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        term: Term,
        changed: impl Fn() + Send + Sync + 'static,
    ) -> Session {
        const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);
        let Term { time, grace } = if store.ends_with_us() { Term::from(FOR_EVER) } else { term };
        let (sender, held) = watch::channel(None);
        let task = tokio::spawn(async move {
            loop {
                let asked = Asked::now();
                match store.grant(time.saturating_add(grace)).await {
                    Ok(lease) => {
                        let time = lease.time.saturating_sub(grace);
                        let held = asked.held(lease.id, time);
                        sender.send_replace(Some(held));
                        changed();
                        keep(&*store, held, time, &sender).await;
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
        self.held.borrow().filter(|held| !held.is_over())
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
    let mut held = first;
    let mut pause = time / 3;
    loop {
        // A host that was suspended does not sleep on for the rest of a pause that began before.
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = boottime::reached(held.until_boottime) => {}
        }
        if held.is_over() {
            return;
        }
        let asked = Asked::now();
        match tokio::time::timeout_at(held.until, store.keep(held.lease)).await {
            Ok(Ok(true)) => {
                held = asked.held(held.lease, time);
                // The answer may have waited for a process that was stopped; then it is too old to count.
                if held.is_over() {
                    return;
                }
                sender.send_replace(Some(held));
                pause = time / 3;
            }
            Ok(Ok(false)) | Err(_) => return,
            Ok(Err(_)) => pause = AGAIN.min(held.until.saturating_duration_since(Instant::now())),
        }
    }
}
