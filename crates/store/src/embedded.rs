//! Embedded store: one file, no port, ready at once.
//!
//! All changes go through one thread, which takes whatever waits for it and pushes it to the disk in one step; so a
//! hundred changes at once cost about as much as one. Leases live in that thread too, and in memory alone, and so do
//! the keys that are bound to one: when the store is opened, nobody can be holding a lease.
//!
//! Readers look at everything as it was after the last step and do not wait for the disk.

mod disk;
mod follow;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{broadcast, oneshot};

use crate::store::{
    Commit, Effect, Entry, Lease, LeaseId, Limits, Pending, Snapshot, Span, Store, StoreError, Transaction,
    Watch,
};
use disk::Disk;
use writer::{Request, Writer};

/// The store of one host, in one file. It ends when it is dropped, after all that it was asked to do.
pub struct Embedded {
    disk: Arc<Disk>,
    requests: Option<mpsc::Sender<Request>>,
    published: broadcast::Sender<Arc<Published>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    path: PathBuf,
}

/// What one step has changed.
#[derive(Debug)]
struct Published {
    revision: u64,
    changes: Vec<(String, Option<Entry>)>,
}

/// How many steps a reader may be late before it has to read everything again.
const LATE: usize = 1024;

const LIMITS: Limits = Limits { value: 16 << 20, operations: 4096 };

impl Embedded {
    /// Opens the store in this file, and makes it if it is missing. Nobody else can open it meanwhile.
    pub fn open(path: &Path) -> Result<Embedded, StoreError> {
        Embedded::with(Disk::open(path)?, path)
    }

    /// Opens the store like [`Embedded::open`], after everything in it has been verified. A file that cannot be used, because it is damaged or
    /// because a later version has written it, is [`StoreError::Corrupt`].
    pub fn open_verified(path: &Path) -> Result<Embedded, StoreError> {
        Embedded::with(Disk::open_verified(path)?, path)
    }

    /// A store that is gone when the program ends.
    pub fn in_memory() -> Result<Embedded, StoreError> {
        Embedded::with(Disk::in_memory()?, Path::new("(memory)"))
    }

    /// A copy of all that another store has now, gone when the program ends. Whatever is written to it, the other does not see.
    pub async fn copy_of(store: &dyn Store) -> Result<Embedded, StoreError> {
        let copy = Embedded::in_memory()?;
        let limits = copy.limits();
        let all = store.read(vec![Span::Prefix(String::new())]).await?;
        let mut effects = Vec::new();
        let mut size = 0;
        for entry in all.entries {
            if effects.len() >= limits.operations || size + entry.value.len() > limits.value {
                commit(&copy, std::mem::take(&mut effects)).await?;
                size = 0;
            }
            size += entry.value.len();
            effects.push(Effect::Put { key: entry.key, value: entry.value, lease: None });
        }
        commit(&copy, effects).await?;
        Ok(copy)
    }

    fn with(disk: Disk, path: &Path) -> Result<Embedded, StoreError> {
        let disk = Arc::new(disk);
        let (requests, incoming) = mpsc::channel();
        let published = broadcast::Sender::new(LATE);
        let writer = Writer::new(Arc::clone(&disk), published.clone());
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || writer.run(&incoming))
            .map_err(|error| StoreError::Refused { reason: format!("cannot start its thread: {error}") })?;
        Ok(Embedded {
            disk,
            requests: Some(requests),
            published,
            writer: Mutex::new(Some(thread)),
            path: path.to_owned(),
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Request,
    ) -> Pending<'_, T> {
        let (answer, answered) = oneshot::channel();
        let sent = self.requests.as_ref().is_some_and(|requests| requests.send(request(answer)).is_ok());
        Box::pin(async move {
            match sent {
                true => answered.await.unwrap_or(Err(StoreError::Ended)),
                false => Err(StoreError::Ended),
            }
        })
    }
}

/// Makes changes that depend on nothing.
async fn commit(store: &Embedded, effects: Vec<Effect>) -> Result<(), StoreError> {
    let transaction = Transaction { conditions: Vec::new(), effects, otherwise: Vec::new() };
    store.commit(transaction).await.map(drop)
}

impl Store for Embedded {
    fn read(&self, spans: Vec<Span>) -> Pending<'_, Snapshot> {
        Box::pin(async move { self.disk.read(&spans) })
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Commit> {
        if let Err(error) = transaction.check(LIMITS) {
            return Box::pin(async { Err(error) });
        }
        self.ask(|answer| Request::Commit(transaction, answer))
    }

    fn watch(&self, span: Span) -> Box<dyn Watch> {
        Box::new(follow::Follow::new(span, Arc::clone(&self.disk), self.published.subscribe()))
    }

    fn grant(&self, time: Duration) -> Pending<'_, Lease> {
        self.ask(|answer| Request::Grant(time, answer))
    }

    fn keep(&self, lease: LeaseId) -> Pending<'_, bool> {
        self.ask(|answer| Request::Keep(lease, answer))
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        self.ask(|answer| Request::Revoke(lease, answer))
    }

    fn ends_with_us(&self) -> bool {
        true
    }

    fn limits(&self) -> Limits {
        LIMITS
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.requests = None;
        let thread = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A writer that has panicked has told everyone by hanging up.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Embedded").field(&self.path).finish()
    }
}
