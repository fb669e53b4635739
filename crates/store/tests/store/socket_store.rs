//! A store through a socket: what every store does, and what only this one has to.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mgmt_store::Embedded;
use mgmt_store::Span;
use mgmt_store::socket::{Server, Socket, serve};
use mgmt_store_suite::store::{self, Shared, commit, next, put, value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn begin(directory: &Path) -> (Shared, Server) {
    let store: Shared = Arc::new(Embedded::open(&directory.join("store")).unwrap());
    let server = serve(Arc::clone(&store), &directory.join("socket")).unwrap();
    (store, server)
}

async fn connect(directory: &Path) -> Shared {
    Arc::new(Socket::connect(&directory.join("socket")).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_what_every_store_does() {
    let directory = tempfile::tempdir().unwrap();
    let (_store, _server) = begin(directory.path());
    let (one, other) = (connect(directory.path()).await, connect(directory.path()).await);
    store::all(one, other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_follows_sees_what_the_owner_does_and_goes_on_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (store, server) = begin(directory.path());
    let other = connect(directory.path()).await;
    let mut watch = other.watch(Span::Prefix("/a/".to_owned()));
    assert!(next(&mut watch).await.whole);
    commit(&store, vec![put("/a/1", "x")]).await;
    assert!(!next(&mut watch).await.whole);
    drop(server);
    // Connections of a server that is dropped end; so does the store, once nobody uses it.
    while other.read(Vec::new()).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    commit(&store, vec![put("/a/2", "y")]).await;
    let _server = serve(Arc::clone(&store), &directory.path().join("socket")).unwrap();
    let news = next(&mut watch).await;
    assert!(news.whole);
    assert_eq!(news.changes.len(), 2);
    assert_eq!(value(&other, "/a/2").await.as_deref(), Some("y"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_ends_the_connection_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let (_store, _server) = begin(directory.path());
    let good = connect(directory.path()).await;
    let nonsense: [&[u8]; 6] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 100],
        &[0, 0, 0, 2, b'{', b'}'],
        &[0, 0, 0, 200, b'{'],
        b"\0\0\0\x20{\"id\":1,\"ask\":{\"unheard\":\"of\"}}",
    ];
    for bytes in nonsense {
        let mut stream = tokio::net::UnixStream::connect(directory.path().join("socket")).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await;
        // How it ends depends on how much of the nonsense was read by then.
        let _ = ended.expect("the end");
        assert_eq!(answer, b"");
    }
    assert_eq!(value(&good, "/a").await, None);
}

#[tokio::test]
async fn without_a_server_it_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let error = Socket::connect(&directory.path().join("socket")).await.unwrap_err();
    assert!(error.to_string().contains("socket"), "{error}");
}
