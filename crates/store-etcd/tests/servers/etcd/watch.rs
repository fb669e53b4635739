//! Following keys while everything is well.

use std::time::Duration;

use mgmt_store::{Store, Watch};
use mgmt_store_etcd::Etcd;

use crate::etcd_common::*;

#[tokio::test]
async fn a_watch_tells_everything_first_and_then_what_changes() {
    let cluster = EtcdCluster::start(1);
    let (store, other) = (cluster.connect(), cluster.connect());
    let first = change(&other, vec![put("/a/1", "one"), put("/b", "no")]).await;
    let mut watch = store.watch(below("/a/"));
    let batch = next(watch.as_mut()).await;
    assert!(batch.whole);
    assert_eq!(batch.revision, first.revision);
    assert_eq!(batch.changes.len(), 1);

    change(&other, vec![put("/b", "still not")]).await;
    let second = change(&other, vec![put("/a/2", "two"), delete("/a/1"), put("/a/3", "three")]).await;
    let batch = next(watch.as_mut()).await;
    assert!(!batch.whole);
    assert_eq!(batch.revision, second.revision);
    let told: Vec<_> = batch.changes.iter().map(|(name, entry)| (name.as_str(), entry.is_some())).collect();
    assert_eq!(told, [("/a/1", false), ("/a/2", true), ("/a/3", true)]);
    let entry = batch.changes[1].1.as_ref().unwrap();
    assert_eq!(
        (entry.value.as_slice(), entry.created, entry.modified),
        (&b"two"[..], second.revision, second.revision)
    );
}

#[tokio::test]
async fn a_watch_of_nothing_tells_that_there_is_nothing() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let mut watch = store.watch(key("/none"));
    let batch = next(watch.as_mut()).await;
    assert!(batch.whole && batch.changes.is_empty() && batch.revision > 0);
    change(&store, vec![put("/none/more", "is another key"), put("/none", "now")]).await;
    assert_eq!(next(watch.as_mut()).await.changes.len(), 1);
}

#[tokio::test]
async fn a_call_that_is_dropped_loses_nothing() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let mut mirror = store.watch(below("/"));
    assert!(next(mirror.as_mut()).await.whole);
    for turn in 0..50 {
        let nothing = tokio::time::timeout(Duration::from_micros(turn * 40), mirror.next()).await;
        assert!(nothing.is_err());
        let change = change(&store, vec![put("/k", &turn.to_string())]).await;
        let batch = next(mirror.as_mut()).await;
        assert!(!batch.whole);
        assert_eq!(batch.revision, change.revision);
    }
}

#[tokio::test]
async fn a_slow_reader_is_told_many_changes_as_one() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let mut watch = store.watch(below("/n/"));
    let mut marker = Mirror::new(&store, key("/marker"));
    assert!(next(watch.as_mut()).await.whole);
    for turn in 0..100 {
        change(&store, vec![put("/n/same", &turn.to_string()), put(&format!("/n/{turn}"), "")]).await;
    }
    change(&store, vec![delete("/n/0"), put("/marker", "done")]).await;
    marker.until_value("/marker", "done").await;
    // What came before the marker has come on the same stream.
    let batch = next(watch.as_mut()).await;
    assert!(!batch.whole);
    assert_eq!(batch.changes.len(), 101);
    assert_eq!(batch.changes[0], ("/n/0".to_owned(), None));
    let last = batch.changes.last().unwrap().1.as_ref().unwrap();
    assert_eq!((last.key.as_str(), last.value.as_slice()), ("/n/same", &b"99"[..]));
}

#[tokio::test]
async fn a_reader_that_leaves_too_much_lying_is_told_everything() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let mut watch = store.watch(below("/n/"));
    let mut marker = Mirror::new(&store, key("/marker"));
    assert!(next(watch.as_mut()).await.whole);
    const TURNS: usize = 160;
    for turn in 0..TURNS {
        change(&store, (0..128).map(|at| put(&format!("/n/{turn}/{at}"), "")).collect()).await;
    }
    change(&store, vec![put("/marker", "done")]).await;
    marker.until_value("/marker", "done").await;
    let batch = next(watch.as_mut()).await;
    assert!(batch.whole);
    assert_eq!(batch.changes.len(), TURNS * 128);
    change(&store, vec![put("/n/more", "")]).await;
    let batch = next(watch.as_mut()).await;
    assert!(!batch.whole);
    assert_eq!(batch.changes.len(), 1);
}

#[tokio::test]
async fn a_thousand_watches_share_one_stream() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let mut watches: Vec<Box<dyn Watch>> =
        (0..1000).map(|at| store.watch(key(&format!("/n/{at}")))).collect();
    for watch in &mut watches {
        assert!(next(watch.as_mut()).await.whole);
    }
    for part in 0..10 {
        let effects = (0..100).map(|at| put(&format!("/n/{}", part * 100 + at), "x")).collect();
        change(&store, effects).await;
    }
    for watch in &mut watches {
        let batch = next(watch.as_mut()).await;
        assert!(!batch.whole);
        assert_eq!(batch.changes.len(), 1);
    }
    // Those that go leave the others alone.
    watches.truncate(1);
    change(&store, vec![put("/n/0", "y"), put("/n/999", "y")]).await;
    assert_eq!(next(watches[0].as_mut()).await.changes.len(), 1);
}

#[tokio::test]
async fn comparing_tells_nothing_when_nothing_is_wrong() {
    let cluster = EtcdCluster::start(1);
    let mut settings = cluster.settings();
    settings.compare_every = Duration::from_millis(50);
    let store = Etcd::connect(settings).unwrap();
    change(&store, (0..100).map(|at| put(&format!("/n/{at}"), "")).collect()).await;
    let mut mirror = Mirror::new(&store, below("/n/"));
    mirror.step().await;
    for turn in 0..10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        change(&store, vec![put("/n/0", &turn.to_string()), delete(&format!("/n/{}", turn + 1))]).await;
        mirror.until_value("/n/0", &turn.to_string()).await;
    }
    assert_eq!(mirror.entries.len(), 90);
    assert!(mirror.wholes <= 2, "{}", mirror.wholes);
}

#[tokio::test]
async fn a_client_that_is_gone_leaves_its_watches_working() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let mut mirror = Mirror::new(&store, key("/k"));
    drop(store);
    mirror.step().await;
    change(&cluster.connect(), vec![put("/k", "v")]).await;
    mirror.until_value("/k", "v").await;
}
