//! The store on real etcd servers, which are those of `mgmt-test-support`.
#![allow(dead_code, reason = "each module uses its own part")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mgmt_store::{Batch, Commit, Condition, Effect, Entry, LeaseId, Span, Store, Transaction, Watch};
use mgmt_store_etcd::{Etcd, EtcdSettings, EtcdTls};
pub(crate) use mgmt_test_support::etcd::{EtcdCluster, free_port};

/// The longest that anything here is waited for.
pub(crate) const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// A store on the servers of a test.
pub(crate) trait Connect {
    /// Settings for this cluster, without patience.
    fn settings(&self) -> EtcdSettings;

    fn connect(&self) -> Etcd {
        Etcd::connect(self.settings()).unwrap()
    }
}

impl Connect for EtcdCluster {
    fn settings(&self) -> EtcdSettings {
        let mut settings = EtcdSettings::new(self.endpoints());
        if self.has_tls() {
            let read = |name: &str| std::fs::read(self.directory().join(name)).unwrap();
            settings.tls = Some(EtcdTls {
                authorities: Some(read("ca.pem")),
                identity: Some((read("client.pem"), read("client.key"))),
                server_name: None,
            });
        }
        settings
    }
}

pub(crate) fn key(name: &str) -> Span {
    Span::Key(name.to_owned())
}

pub(crate) fn below(prefix: &str) -> Span {
    Span::Prefix(prefix.to_owned())
}

pub(crate) fn put(key: &str, value: &str) -> Effect {
    Effect::Put { key: key.to_owned(), value: value.as_bytes().to_vec(), lease: None }
}

pub(crate) fn put_with(key: &str, value: &str, lease: LeaseId) -> Effect {
    Effect::Put { key: key.to_owned(), value: value.as_bytes().to_vec(), lease: Some(lease) }
}

pub(crate) fn delete(key: &str) -> Effect {
    Effect::Delete(key.to_owned())
}

/// Makes changes, come what may.
pub(crate) async fn change(store: &dyn Store, effects: Vec<Effect>) -> Commit {
    let transaction = Transaction { effects, ..Transaction::default() };
    let commit = store.commit(transaction).await.unwrap();
    assert!(commit.done);
    commit
}

/// Makes changes that may be made twice, however long it takes.
pub(crate) async fn insist(store: &dyn Store, effects: Vec<Effect>) -> Commit {
    let end = Instant::now() + EVENT_TIMEOUT;
    loop {
        let transaction = Transaction { effects: effects.clone(), ..Transaction::default() };
        match store.commit(transaction).await {
            Ok(commit) => return commit,
            Err(error) if error.is_passing() && Instant::now() < end => {}
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) async fn holds(store: &dyn Store, condition: Condition) -> bool {
    let transaction = Transaction { conditions: vec![condition], ..Transaction::default() };
    store.commit(transaction).await.unwrap().done
}

pub(crate) async fn next(watch: &mut dyn Watch) -> Batch {
    tokio::time::timeout(EVENT_TIMEOUT, watch.next()).await.expect("no news in time").unwrap()
}

/// What a reader knows who believes all that it is told.
pub(crate) struct Mirror {
    watch: Box<dyn Watch>,
    pub(crate) entries: BTreeMap<String, Entry>,
    pub(crate) revision: u64,
    /// How often everything was told.
    pub(crate) wholes: usize,
}

impl Mirror {
    pub(crate) fn new(store: &dyn Store, span: Span) -> Mirror {
        Mirror { watch: store.watch(span), entries: BTreeMap::new(), revision: 0, wholes: 0 }
    }

    pub(crate) async fn step(&mut self) {
        let batch = next(self.watch.as_mut()).await;
        let names: Vec<&String> = batch.changes.iter().map(|(name, _)| name).collect();
        assert!(names.is_sorted_by(|one, other| one < other), "sorted, each once");
        if batch.whole {
            self.wholes += 1;
            self.entries.clear();
            assert!(batch.changes.iter().all(|(_, entry)| entry.is_some()));
        } else {
            assert!(batch.revision > self.revision, "changes come in order");
            assert!(!batch.changes.is_empty(), "no news are no news");
        }
        self.revision = batch.revision;
        for (name, entry) in batch.changes {
            match entry {
                Some(entry) => self.entries.insert(name, entry),
                None => self.entries.remove(&name),
            };
        }
    }

    pub(crate) async fn until(&mut self, reached: impl Fn(&Mirror) -> bool) {
        while !reached(self) {
            self.step().await;
        }
    }

    pub(crate) async fn until_value(&mut self, name: &str, value: &str) {
        self.until(|mirror| mirror.value(name) == Some(value.to_owned())).await;
    }

    pub(crate) fn value(&self, name: &str) -> Option<String> {
        self.entries.get(name).map(|entry| String::from_utf8_lossy(&entry.value).into_owned())
    }
}
