//! Servers that die, freeze and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mgmt_store::{Store, StoreError, Transaction};
use mgmt_store_etcd::Etcd;
use mgmt_store_etcd::cluster::MemberId;

use crate::etcd_common::*;

fn write(name: &str, value: &str) -> Transaction {
    Transaction { effects: vec![put(name, value)], ..Transaction::default() }
}

#[tokio::test]
async fn a_watch_outlives_a_server_that_is_killed_and_comes_back() {
    let mut cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    change(&store, vec![put("/k", "1"), put("/gone", "soon")]).await;
    let mut mirror = Mirror::new(&store, below("/"));
    mirror.until_value("/k", "1").await;
    for turn in 2..5 {
        cluster.kill(0);
        cluster.restart_and_wait(0);
        insist(&cluster.connect(), vec![put("/k", &turn.to_string()), delete("/gone")]).await;
        mirror.until(|mirror| mirror.value("/k") == Some(turn.to_string())).await;
        assert_eq!(mirror.entries.len(), 1);
        assert!(mirror.wholes >= turn, "everything is told after each outage");
    }
    change(&store, vec![put("/k", "end")]).await;
    mirror.until_value("/k", "end").await;
}

#[tokio::test]
async fn a_watch_that_begins_in_an_outage_waits_for_its_end() {
    let mut cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    change(&store, vec![put("/k", "1")]).await;
    cluster.kill(0);
    let mut mirror = Mirror::new(&store, below("/"));
    let early = tokio::time::timeout(Duration::from_millis(500), mirror.step()).await;
    assert!(early.is_err());
    cluster.restart(0);
    mirror.until_value("/k", "1").await;
}

#[tokio::test]
async fn a_call_to_a_dead_server_fails_in_time_and_says_that_nothing_was_done() {
    let mut cluster = EtcdCluster::start(1);
    let mut settings = cluster.settings();
    settings.deadline = Duration::from_secs(1);
    let store = Etcd::connect(settings).unwrap();
    change(&store, vec![put("/k", "1")]).await;
    cluster.kill(0);
    let begin = Instant::now();
    for error in [
        store.read(vec![key("/k")]).await.map(|_| ()).unwrap_err(),
        store.commit(write("/k", "2")).await.map(|_| ()).unwrap_err(),
        store.grant(Duration::from_secs(5)).await.map(|_| ()).unwrap_err(),
    ] {
        let StoreError::Unreachable { reason } = error else { panic!("{error}") };
        assert!(reason.contains("127.0.0.1") && !reason.contains("not known"), "{reason}");
    }
    assert!(begin.elapsed() < Duration::from_secs(30));
    cluster.restart(0);
    insist(&store, vec![put("/k", "3")]).await;
}

#[tokio::test]
async fn the_fate_of_a_change_that_a_frozen_server_got_is_unknown() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let mut mirror = Mirror::new(&store, below("/"));
    change(&store, vec![put("/k", "1")]).await;
    mirror.until_value("/k", "1").await;
    cluster.pause(0);
    // The server may well find it when it goes on, so what is written after that is another key.
    let error = store.commit(write("/late", "")).await.unwrap_err();
    assert!(error.is_passing() && error.to_string().contains("not known whether"), "{error}");
    let error = store.read(vec![key("/k")]).await.unwrap_err();
    assert!(error.is_passing() && !error.to_string().contains("not known whether"), "{error}");
    cluster.resume(0);
    insist(&store, vec![put("/k", "3")]).await;
    mirror.until_value("/k", "3").await;
}

#[tokio::test]
async fn a_watch_notices_a_frozen_server_and_moves_on() {
    let cluster = EtcdCluster::start(3);
    let store = cluster.connect();
    change(&store, vec![put("/k", "1")]).await;
    let mut mirror = Mirror::new(&store, below("/"));
    mirror.until_value("/k", "1").await;
    // The one that is asked first is the one that holds the stream.
    let first = store.endpoints()[0].clone();
    let at = cluster.members.iter().position(|member| member.client_url == first).unwrap();
    cluster.pause(at);
    let others: Vec<String> = cluster.endpoints().into_iter().filter(|url| *url != first).collect();
    let mut settings = cluster.settings();
    settings.endpoints = others;
    settings.follow_members = false;
    insist(&Etcd::connect(settings).unwrap(), vec![put("/k", "2")]).await;
    mirror.until_value("/k", "2").await;
    assert!(mirror.wholes >= 2);
    cluster.resume(at);
    insist(&store, vec![put("/k", "3")]).await;
    mirror.until_value("/k", "3").await;
}

#[tokio::test]
async fn history_that_is_forgotten_during_an_outage_is_no_loss() {
    let mut cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    change(&store, vec![put("/k", "0"), put("/gone", "")]).await;
    let mut mirror = Mirror::new(&store, below("/"));
    mirror.until_value("/k", "0").await;
    cluster.pause(0);
    cluster.kill(0);
    cluster.restart_and_wait(0);
    let other = cluster.connect();
    insist(&other, vec![delete("/gone")]).await;
    let mut last = 0;
    for turn in 1..=50 {
        last = insist(&other, vec![put("/k", &turn.to_string())]).await.revision;
    }
    other.compact(last).await.unwrap();
    mirror.until_value("/k", "50").await;
    assert_eq!(mirror.entries.len(), 1);
    assert!(mirror.wholes >= 2);
}

#[tokio::test]
async fn a_store_that_lost_its_data_is_told_as_it_is() {
    let mut cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    for turn in 0..100 {
        change(&store, vec![put("/k", &turn.to_string())]).await;
    }
    let mut mirror = Mirror::new(&store, below("/"));
    mirror.until_value("/k", "99").await;
    cluster.kill(0);
    cluster.replace(0);
    mirror.until(|mirror| mirror.entries.is_empty()).await;
    assert!(mirror.revision < 100);
    insist(&store, vec![put("/new", "life")]).await;
    mirror.until_value("/new", "life").await;
}

#[tokio::test]
async fn calls_and_watches_go_on_when_the_leader_is_killed() {
    let mut cluster = EtcdCluster::start(3);
    let store = cluster.connect();
    change(&store, vec![put("/k", "0")]).await;
    let mut mirror = Mirror::new(&store, below("/"));
    mirror.until_value("/k", "0").await;
    for turn in 1..=2 {
        let leader = leader(&cluster, &store).await;
        cluster.kill(leader);
        insist(&store, vec![put("/k", &turn.to_string())]).await;
        assert_eq!(store.read(vec![key("/k")]).await.unwrap().entries[0].value, turn.to_string().as_bytes());
        mirror.until_value("/k", &turn.to_string()).await;
        cluster.restart_and_wait(leader);
    }
}

async fn leader(cluster: &EtcdCluster, store: &Etcd) -> usize {
    let mut found = Vec::new();
    for member in &cluster.members {
        found.push(store.status(&member.client_url).await.unwrap());
    }
    let leader: MemberId = found[0].leader.unwrap();
    found.iter().position(|status| status.member == leader).unwrap()
}

#[tokio::test]
async fn a_server_that_has_lost_the_others_is_no_help() {
    let cluster = EtcdCluster::start(3);
    let store = cluster.connect();
    change(&store, vec![put("/k", "1")]).await;
    let mut mirror = Mirror::new(&store, below(""));
    mirror.until_value("/k", "1").await;
    let first = store.endpoints()[0].clone();
    let others: Vec<usize> = (0..3).filter(|at| cluster.members[*at].client_url != first).collect();
    for at in &others {
        cluster.pause(*at);
    }
    // What one server alone says is not what the cluster says, as soon as the others have really stopped.
    let end = Instant::now() + EVENT_TIMEOUT;
    let error = loop {
        match store.read(vec![key("/k")]).await {
            Err(error) => break error,
            Ok(_) => assert!(Instant::now() < end, "one alone goes on answering"),
        }
    };
    assert!(error.is_passing(), "{error}");
    let error = store.commit(write("/late", "")).await.unwrap_err();
    assert!(error.is_passing(), "{error}");
    for at in &others {
        cluster.resume(*at);
    }
    insist(&store, vec![put("/k", "3")]).await;
    mirror.until_value("/k", "3").await;
}

/// Counts what is said about etcd, by level.
#[derive(Default)]
struct Ear {
    warnings: AtomicUsize,
    notes: AtomicUsize,
}

impl tracing::Subscriber for Ear {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("mgmt_store_etcd")
    }

    fn event(&self, event: &tracing::Event<'_>) {
        match *event.metadata().level() {
            tracing::Level::WARN => self.warnings.fetch_add(1, Ordering::Relaxed),
            tracing::Level::INFO => self.notes.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn an_outage_is_told_once_however_many_watches_there_are() {
    let mut cluster = EtcdCluster::start(1);
    let ear = Arc::new(Ear::default());
    // Without somebody who listens everywhere, a place that first speaks in a test that does not listen is taken for one
    // that nobody ever listens to.
    let _first = tracing::subscriber::set_global_default(Ear::default());
    let _listening = tracing::subscriber::set_default(Arc::clone(&ear));
    let store = cluster.connect();
    let mut mirrors: Vec<Mirror> = (0..50).map(|at| Mirror::new(&store, key(&format!("/{at}")))).collect();
    for mirror in &mut mirrors {
        mirror.step().await;
    }
    assert_eq!((ear.warnings.load(Ordering::Relaxed), ear.notes.load(Ordering::Relaxed)), (0, 0));
    cluster.kill(0);
    let waiting =
        mirrors.iter_mut().map(|mirror| tokio::time::timeout(Duration::from_millis(100), mirror.step()));
    for wait in waiting {
        assert!(wait.await.is_err());
    }
    assert_eq!(ear.warnings.load(Ordering::Relaxed), 1);
    cluster.restart_and_wait(0);
    for mirror in &mut mirrors {
        mirror.step().await;
    }
    insist(&store, vec![put("/0", "x")]).await;
    mirrors[0].until_value("/0", "x").await;
    // Lists come before the stream that ends the outage.
    let end = Instant::now() + EVENT_TIMEOUT;
    while ear.notes.load(Ordering::Relaxed) == 0 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((ear.warnings.load(Ordering::Relaxed), ear.notes.load(Ordering::Relaxed)), (1, 1));
}
