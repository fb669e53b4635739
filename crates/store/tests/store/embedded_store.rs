//! The store in one file: what every store does, and what only this one has to.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mgmt_store::Embedded;
use mgmt_store::{Span, Store as _, StoreError, Transaction};
use mgmt_store_suite::store::{self, Shared, commit, entry, leased, put, value};

fn open(path: &Path) -> Shared {
    Arc::new(Embedded::open(path).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_what_every_store_does() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("store"));
    store::all(Arc::clone(&store), store).await;
}

#[tokio::test]
async fn everything_but_leases_outlives_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = open(&path);
    let lease = store.grant(Duration::from_secs(3600)).await.unwrap();
    commit(&store, vec![put("/a", "1")]).await;
    let last = commit(&store, vec![put("/b", "2"), leased("/c", "3", lease.id)]).await;
    let before = entry(&store, "/b").await;
    drop(store);
    let store = open(&path);
    assert_eq!(entry(&store, "/b").await, before);
    assert_eq!(value(&store, "/c").await, None, "nobody can be holding the lease");
    assert!(!store.keep(lease.id).await.unwrap());
    let next = commit(&store, vec![put("/d", "4")]).await;
    assert!(next.revision > last.revision, "revisions go on");
}

#[tokio::test]
async fn what_ends_with_a_lease_is_never_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let length = || path.metadata().unwrap().len();
    let store = open(&path);
    let lease = store.grant(Duration::from_secs(3600)).await.unwrap();
    let first = commit(&store, vec![leased("/status", "up", lease.id)]).await;
    let last = commit(&store, vec![leased("/status", "converged", lease.id)]).await;
    assert!(last.revision > first.revision);
    assert_eq!(value(&store, "/status").await.as_deref(), Some("converged"));
    assert_eq!(length(), 0);
    // Somebody else cannot have the file for that.
    assert!(Embedded::open(&path).is_err());
    drop(store);
    // Nothing tells that there were revisions, and still none is given twice.
    let store = open(&path);
    let lease = store.grant(Duration::from_secs(3600)).await.unwrap();
    assert!(commit(&store, vec![leased("/status", "up", lease.id)]).await.revision > last.revision);
    assert_eq!(length(), 0);
    commit(&store, vec![put("/kept", "1")]).await;
    assert_ne!(length(), 0);
}

#[tokio::test]
async fn a_key_can_be_given_a_lease_and_lose_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = open(&path);
    let lease = store.grant(Duration::from_secs(3600)).await.unwrap();
    let first = commit(&store, vec![put("/a", "lasting"), leased("/b", "leased", lease.id)]).await;
    commit(&store, vec![leased("/a", "leased", lease.id), put("/b", "lasting")]).await;
    for (key, now) in [("/a", "leased"), ("/b", "lasting")] {
        let entry = entry(&store, key).await.unwrap();
        assert_eq!((entry.value.as_slice(), entry.created), (now.as_bytes(), first.revision));
    }
    let all = store.read(vec![Span::Prefix("/".to_owned()), Span::Key("/a".to_owned())]).await.unwrap();
    assert_eq!(all.entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["/a", "/b"]);
    drop(store);
    let store = open(&path);
    assert_eq!(value(&store, "/a").await, None);
    assert_eq!(value(&store, "/b").await.as_deref(), Some("lasting"));
}

#[tokio::test]
async fn the_file_is_for_its_owner_and_for_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let _store = open(&path);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    let refused = Embedded::open(&path).unwrap_err().to_string();
    assert!(refused.contains("in use"), "{refused}");
}

#[tokio::test]
async fn a_link_in_its_place_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (path, victim) = (directory.path().join("store"), directory.path().join("victim"));
    std::fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    assert!(matches!(Embedded::open(&path), Err(StoreError::Refused { .. })));
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
}

#[tokio::test]
async fn whatever_is_done_to_the_file_ends_in_an_error_or_in_old_values() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = open(&path);
    for number in 0..200 {
        commit(&store, vec![put(&format!("/k/{number}"), "some value that takes some room")]).await;
    }
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let damaged = directory.path().join("damaged");
    // A fixed sequence, so that what fails can be looked at again.
    let mut state = 1_u64;
    for round in 0..150 {
        let mut bytes = whole.clone();
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        match round % 3 {
            0 => bytes.truncate(random(whole.len())),
            1 => (0..1 + random(8)).for_each(|_| bytes[random(whole.len())] ^= 1 << random(8)),
            _ => {
                let at = random(whole.len());
                let end = (at + random(4096)).min(whole.len());
                bytes[at..end].fill(0);
            }
        }
        std::fs::write(&damaged, bytes).unwrap();
        // What is verified is right or refused as damaged, so that it can be set aside.
        match Embedded::open_verified(&damaged) {
            Ok(store) => {
                for entry in store.read(vec![Span::Prefix("/k/".to_owned())]).await.unwrap().entries {
                    assert_eq!(
                        entry.value, b"some value that takes some room",
                        "round {round}: {}",
                        entry.key
                    );
                }
            }
            Err(error) => assert!(matches!(error, StoreError::Corrupt { .. }), "round {round}: {error}"),
        }
        if let Ok(store) = Embedded::open(&damaged) {
            // Whether this succeeds is luck; that it comes back is not.
            let _ = store.read(vec![Span::Prefix(String::new())]).await;
            let _ =
                store.commit(Transaction { effects: vec![put("/new", "x")], ..Transaction::default() }).await;
        }
    }
}
