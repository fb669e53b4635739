//! The shared state on the stores that need nothing else.

use std::sync::Arc;
use std::time::Duration;

use mgmt_store::Embedded;
use mgmt_store::socket::{Socket, serve};
use mgmt_store::{Commit, Lease, LeaseId, Limits, Pending, Snapshot, Span, Store, Transaction, Watch};
use mgmt_store_suite::{shared_state, store};

/// A store in this process that plays one that outlasts it: hosts come and go here, and the store stays.
#[derive(Debug)]
struct Outlasting(Arc<Embedded>);

impl Store for Outlasting {
    fn read(&self, spans: Vec<Span>) -> Pending<'_, Snapshot> {
        self.0.read(spans)
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Commit> {
        self.0.commit(transaction)
    }

    fn watch(&self, span: Span) -> Box<dyn Watch> {
        self.0.watch(span)
    }

    fn grant(&self, time: Duration) -> Pending<'_, Lease> {
        self.0.grant(time)
    }

    fn keep(&self, lease: LeaseId) -> Pending<'_, bool> {
        self.0.keep(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        self.0.revoke(lease)
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_what_it_should_in_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::open(&directory.path().join("store")).unwrap());
    shared_state::all(&|| Arc::new(Outlasting(Arc::clone(&store)))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_what_it_should_in_memory() {
    let store = Arc::new(Embedded::in_memory().unwrap());
    store::all(Arc::clone(&store) as _, Arc::clone(&store) as _).await;
    shared_state::all(&|| Arc::new(Outlasting(Arc::clone(&store)))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_what_it_should_through_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Embedded::open(&directory.path().join("store")).unwrap());
    let path = directory.path().join("socket");
    let _server = serve(store, &path).unwrap();
    shared_state::all(&|| {
        let connect = Socket::connect(&path);
        let connected = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(connect));
        Arc::new(connected.unwrap())
    })
    .await;
}
