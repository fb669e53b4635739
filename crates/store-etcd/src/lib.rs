//! The etcd store: an etcd cluster that others run, or one that is run beside us.
//!
//! The central type is [`Etcd`], an implementation of [`Store`]. It speaks the protocol of etcd 3.4 and later by itself, over
//! connections that come and go; [`cluster`] is what can be asked of the servers beyond the store.
//!
//! ```text
//!   Etcd ─┬─ read, commit, lease ──┐
//!         └─ hub: one task, all    ├─▶ servers: which one to ask, for how long, as whom ─▶ etcd
//!            watches, one stream ──┘
//! ```
//!
//! Invariants
//! - Every key lies below the namespace, and nothing outside of it is read or written.
//! - Every call ends: within the deadline, or, for what is read in parts, each part within the deadline. A server that has
//!   stopped without closing its connections is noticed within four seconds.
//! - What may be done twice is tried again at other servers. A transaction is not: once it has been sent, an answer that
//!   does not come is [`StoreError::Unreachable`](mgmt_store::StoreError::Unreachable) and says that its fate is not known.
//! - A watch is a hint. What a reader is told first is a list; after a lost stream, a cancelled watch, compacted history, or news
//!   that do not fit the revision it has seen, it is told a list again. Lists are compared with what is really there now
//!   and then, whatever the stream says.
//! - What a slow reader leaves lying is bounded; beyond that, it is told a list when it asks.
//! - No password, token or key is in a log or an error.
//!
//! Deliberately absent: locks (a lease and a condition on the revision in which a key came to be are what holds), reads
//! that may be stale, and a task or stream per watch.

mod access;
pub mod cluster;
mod commit;
mod failure;
mod hub;
mod keys;
mod lease;
mod read;
mod servers;
mod settings;
mod watch_table;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use hub::Hub;
use keys::Namespace;
use mgmt_store::{Commit, Lease, LeaseId, Limits, Pending, Snapshot, Span, Store, Transaction, Watch};
use servers::Servers;
pub use settings::{EtcdLogin, EtcdPlace, EtcdSettings, EtcdSettingsError, EtcdTls};

/// A store that is an etcd. Clones share their connections and their stream.
#[derive(Clone, Debug)]
pub struct Etcd {
    core: Arc<Core>,
    hub: Arc<Hub>,
}

/// What every call needs.
#[derive(Debug)]
struct Core {
    servers: Servers,
    namespace: Namespace,
    compare_every: Duration,
    endpoints: Vec<String>,
}

impl Etcd {
    /// Checks the settings. Connections are made when they are needed, so this neither waits nor fails for a server that
    /// does not answer.
    pub fn connect(settings: EtcdSettings) -> Result<Self, EtcdSettingsError> {
        let core = Arc::new(Core {
            servers: Servers::new(&settings)?,
            namespace: Namespace::new(&settings.namespace),
            compare_every: settings.compare_every,
            endpoints: settings.endpoints,
        });
        Ok(Self { hub: Arc::new(Hub::new(Arc::clone(&core))), core })
    }
}

impl Store for Etcd {
    fn read(&self, spans: Vec<Span>) -> Pending<'_, Snapshot> {
        Box::pin(async move { read::read(&self.core, &spans, read::Detail::All).await })
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Commit> {
        Box::pin(commit::commit(&self.core, transaction))
    }

    fn watch(&self, span: Span) -> Box<dyn Watch> {
        Box::new(Arc::clone(&self.hub).watch(span))
    }

    fn grant(&self, time: Duration) -> Pending<'_, Lease> {
        Box::pin(lease::grant(&self.core, time))
    }

    fn keep(&self, lease: LeaseId) -> Pending<'_, bool> {
        Box::pin(lease::keep(&self.core, lease))
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        Box::pin(lease::revoke(&self.core, lease))
    }

    fn addresses(&self) -> Vec<String> {
        self.core.endpoints.clone()
    }

    fn limits(&self) -> Limits {
        commit::LIMITS
    }
}
