//! The world on the stores that need nothing else.

mod store_suite;
mod world_suite;

use std::sync::Arc;

use mgmt_world::Embedded;
use mgmt_world::socket::{Socket, serve};
use mgmt_world::store::Store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_what_it_should_in_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Embedded::open(&directory.path().join("store")).unwrap());
    world_suite::all(&|| Arc::clone(&store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_what_it_should_in_memory() {
    let store: Arc<dyn Store> = Arc::new(Embedded::in_memory().unwrap());
    store_suite::all(Arc::clone(&store), Arc::clone(&store)).await;
    world_suite::all(&|| Arc::clone(&store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_what_it_should_through_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Embedded::open(&directory.path().join("store")).unwrap());
    let path = directory.path().join("socket");
    let _server = serve(store, &path).unwrap();
    world_suite::all(&|| {
        let connect = Socket::connect(&path);
        let connected = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(connect));
        Arc::new(connected.unwrap())
    })
    .await;
}
