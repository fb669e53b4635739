//! Shared state: what the hosts of a cluster share, as one host sees it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use mgmt_value::Str;
use tokio::task::JoinHandle;

use crate::cache::Cache;
use crate::lock;
use crate::rate_limit::RateLimit;
use crate::reconciler::Reconciler;
use crate::session::{Session, Term};
use crate::store::{Commit, Store, StoreError, Transaction};

/// Strings, exports, deploys and schedules of a cluster, through the store that its hosts share.
///
/// The store can be that of this host alone; nothing here knows the difference. What changes while programs run is kept in
/// memory and followed from the first use on, which has to be within a runtime.
pub struct SharedState {
    inner: Arc<Inner>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) host: Str,
    cache: OnceLock<Cache>,
    pub(crate) reconciler: Reconciler,
    /// Everything that is written, by whomever.
    limit: RateLimit,
    writes: std::sync::atomic::AtomicU64,
    sessions: Mutex<HashMap<Term, Arc<Session>>>,
    /// This host takes part in finding a leader.
    leads: std::sync::atomic::AtomicBool,
    /// Programs run though the store has not been read yet.
    begins_without_store: std::sync::atomic::AtomicBool,
    this: std::sync::Weak<Inner>,
}

impl SharedState {
    /// The shared state as this host sees it.
    pub fn new(store: Arc<dyn Store>, host: &str) -> SharedState {
        const BURST: u32 = 500;
        const PER_SECOND: u32 = 50;
        let is_shared = !store.ends_with_us();
        let inner = Arc::new_cyclic(|this| Inner {
            store,
            host: host.into(),
            cache: OnceLock::new(),
            reconciler: Reconciler::new(is_shared),
            limit: if is_shared { RateLimit::new(BURST, PER_SECOND) } else { RateLimit::none() },
            writes: 0.into(),
            sessions: Mutex::default(),
            leads: false.into(),
            begins_without_store: false.into(),
            this: this.clone(),
        });
        SharedState { inner, tasks: Mutex::default() }
    }

    /// The shared state of a host that is alone, and forgets it in the end.
    pub fn in_memory(host: &str) -> Result<SharedState, StoreError> {
        Ok(SharedState::new(Arc::new(crate::Embedded::in_memory()?), host))
    }

    /// This host's name.
    pub fn host(&self) -> &Str {
        &self.inner.host
    }

    /// What everything is kept in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Waits until the store has been read for the first time.
    pub async fn ready(&self) {
        self.cache().ready().await;
    }

    /// The store has been read at least once.
    pub fn is_ready(&self) -> bool {
        self.cache().is_ready()
    }

    /// Programs begin to run now, though the store may not have been read yet.
    pub fn begin_without_store(&self) {
        self.inner.begins_without_store.store(true, std::sync::atomic::Ordering::Release);
    }

    /// Programs run, and the store has never been read: nothing is known of it.
    pub fn is_unheard(&self) -> bool {
        self.inner.begins_without_store.load(std::sync::atomic::Ordering::Acquire) && !self.is_ready()
    }

    /// Waits until the store has all that this host wants to keep there.
    pub async fn settled(&self) {
        self.cache();
        self.inner.settled().await;
    }

    /// The number of transactions that this host has written.
    pub fn writes(&self) -> u64 {
        self.inner.writes.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Takes back what ends with this host, and lets others lead. Without the store, that ends by itself.
    pub async fn leave(&self) {
        self.leave_as(false).await;
    }

    /// The same, and keeps the host's member record if it `stays` a member, which runs no more for now.
    pub async fn leave_as(&self, stays: bool) {
        const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
        if self.inner.cache.get().is_none() {
            return;
        }
        self.end_membership(stays);
        self.inner.reconciler.leave();
        let _ = tokio::time::timeout(LEAVE_TIMEOUT, async {
            self.inner.settled().await;
            self.inner.resign().await;
            self.inner.release_claim().await;
        })
        .await;
    }

    /// What is known of the store. The first call begins to follow it.
    pub(crate) fn cache(&self) -> &Cache {
        if self.inner.cache.get().is_none() {
            let mut tasks = lock(&self.tasks);
            if self.inner.cache.get().is_none() {
                self.inner.cache.get_or_init(|| Cache::new(&self.inner.store));
                let inner = Arc::clone(&self.inner);
                tasks.push(tokio::spawn(async move { inner.keep_reconciled().await }));
            }
        }
        self.inner.cache()
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Has something done as long as this exists.
    pub(crate) fn in_the_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        lock(&self.tasks).push(tokio::spawn(work));
    }

    /// Commits a transaction, as soon as the store can be reached. It must be one that can be repeated.
    pub(crate) async fn patiently(&self, transaction: Transaction) -> Result<Commit, StoreError> {
        const LONGEST: Duration = Duration::from_secs(5);
        let mut pause = Duration::from_millis(100);
        let mut told = false;
        loop {
            match self.inner.commit(transaction.clone()).await {
                Err(error) if error.is_passing() => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!("waiting: {error}");
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST);
                }
                done => return done,
            }
        }
    }
}

impl Inner {
    #[expect(
        clippy::expect_used,
        reason = "every inner state comes from a shared state that follows the store"
    )]
    pub(crate) fn cache(&self) -> &Cache {
        self.cache.get().expect("the store is followed")
    }

    /// Commits a transaction as soon as the rate limit allows it.
    pub(crate) async fn commit(&self, transaction: Transaction) -> Result<Commit, StoreError> {
        self.limit.acquire().await;
        self.writes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.store.commit(transaction).await
    }

    /// True for the first one who asks.
    pub(crate) fn begin_to_lead(&self) -> bool {
        !self.leads.swap(true, std::sync::atomic::Ordering::Relaxed)
    }

    /// The lease for keys that last this long.
    pub(crate) fn session(&self, term: impl Into<Term>) -> Arc<Session> {
        let term = term.into();
        let mut sessions = lock(&self.sessions);
        let session = sessions.entry(term).or_insert_with(|| {
            let this = self.this.clone();
            Arc::new(Session::new(Arc::clone(&self.store), term, move || {
                if let Some(this) = this.upgrade() {
                    this.reconciler.news.notify_one();
                    this.leases_have_changed();
                }
            }))
        });
        Arc::clone(session)
    }
}

impl Drop for SharedState {
    fn drop(&mut self) {
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
    }
}

impl fmt::Debug for SharedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedState")
            .field("host", &self.inner.host)
            .field("store", &self.inner.store)
            .finish_non_exhaustive()
    }
}
