//! Members that come and go.

use std::time::Instant;

use mgmt_store::{Store, Transaction};
use mgmt_store_etcd::Etcd;
use mgmt_store_etcd::cluster::{Alarm, AlarmKind, ClusterError, MemberId};

use crate::etcd_common::*;

/// Repeats what the cluster is not ready for.
async fn patiently<T>(mut attempt: impl AsyncFnMut() -> Result<T, ClusterError>) -> T {
    let end = Instant::now() + EVENT_TIMEOUT;
    loop {
        match attempt().await {
            Ok(done) => return done,
            Err(ClusterError::NotYet { .. }) if Instant::now() < end => {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_cluster_grows_by_a_learner_and_shrinks_again() {
    let mut cluster = EtcdCluster::start(1);
    let mut settings = cluster.settings();
    settings.follow_members = false;
    let store = Etcd::connect(settings).unwrap();
    change(&store, vec![put("/k", "v")]).await;
    let members = store.members().await.unwrap();
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].client_urls, cluster.endpoints());
    let first = members[0].id;

    let peer_url = format!("http://127.0.0.1:{}", free_port());
    let learner = patiently(async || store.add_learner(vec![peer_url.clone()]).await).await;
    assert!(learner.learner && learner.name.is_empty());
    assert_eq!(learner.peer_urls, std::slice::from_ref(&peer_url));
    let again = store.add_learner(vec![peer_url.clone()]).await;
    assert!(matches!(again, Err(ClusterError::MemberExists | ClusterError::NotYet { .. })), "{again:?}");

    let at = cluster.join(&peer_url);
    patiently(async || store.promote(learner.id).await).await;
    let again = store.promote(learner.id).await;
    // Version 3.5 looks at how far it has come before it looks at what it is.
    assert!(matches!(again, Err(ClusterError::NoLearner | ClusterError::NotYet { .. })), "{again:?}");
    assert!(store.members().await.unwrap().iter().all(|member| !member.learner));

    let address = cluster.members[at].client_url.clone();
    // It learns of its own vote a little later than those who gave it.
    let end = Instant::now() + EVENT_TIMEOUT;
    let status = loop {
        let status = store.status(&address).await.unwrap();
        if !status.learner || Instant::now() > end {
            break status;
        }
    };
    assert_eq!(status.member, learner.id);
    assert_eq!(status.leader, Some(first));
    assert!(!status.learner && status.version.starts_with("3."), "{status:?}");
    assert!(status.size > 0 && status.term > 0 && status.revision > 0, "{status:?}");

    // The new one takes over, and the old one leaves.
    store.move_leader(&cluster.members[0].client_url, learner.id).await.unwrap();
    assert_eq!(store.status(&address).await.unwrap().leader, Some(learner.id));
    let other = Etcd::connect(mgmt_store_etcd::EtcdSettings::new([address])).unwrap();
    patiently(async || other.remove_member(first).await).await;
    let again = patiently(async || match other.remove_member(first).await {
        Err(ClusterError::NoMember) => Ok(true),
        outcome => outcome.map(|()| false),
    });
    assert!(again.await);
    assert_eq!(other.members().await.unwrap().len(), 1);
    assert_eq!(other.read(vec![key("/k")]).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn other_members_are_found_through_one() {
    let mut cluster = EtcdCluster::start(3);
    let mut settings = cluster.settings();
    settings.endpoints.truncate(1);
    let store = Etcd::connect(settings.clone()).unwrap();
    change(&store, vec![put("/k", "1")]).await;
    let mut found = store.endpoints();
    found.sort();
    let mut expected = cluster.endpoints();
    expected.sort();
    assert_eq!(found, expected);
    cluster.kill(0);
    insist(&store, vec![put("/k", "2")]).await;
    assert!(store.endpoints().contains(&settings.endpoints[0]), "what the user named stays");

    settings.follow_members = false;
    settings.endpoints = vec![cluster.members[1].client_url.clone()];
    let store = Etcd::connect(settings).unwrap();
    insist(&store, vec![put("/k", "3")]).await;
    assert_eq!(store.endpoints().len(), 1);
}

#[tokio::test]
async fn history_is_forgotten_and_room_is_given_back() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let mut last = 0;
    for turn in 0..20 {
        last = change(&store, vec![put("/k", &format!("{turn}{}", "x".repeat(100_000)))]).await.revision;
    }
    store.compact(last).await.unwrap();
    store.compact(last).await.unwrap();
    let address = cluster.members[0].client_url.clone();
    store.defragment(&address).await.unwrap();
    let status = store.status(&address).await.unwrap();
    assert!(status.size < 2_000_000 && status.errors.is_empty(), "{status:?}");
    assert_eq!(store.alarms().await.unwrap(), []);
    let missing = store.remove_member(MemberId(1)).await;
    assert!(matches!(missing, Err(ClusterError::NoMember)), "{missing:?}");
}

#[tokio::test]
async fn a_full_database_says_so_and_can_be_emptied() {
    let cluster = EtcdCluster::start_one_with(&["--quota-backend-bytes", "8000000"]);
    let store = cluster.connect();
    let large = "x".repeat(1_000_000);
    let mut last = 0;
    let error = loop {
        let effects = vec![put("/k", &large)];
        match store.commit(Transaction { effects, ..Transaction::default() }).await {
            Ok(commit) => last = commit.revision,
            Err(error) => break error,
        }
    };
    assert!(error.is_passing() && error.to_string().contains("is full"), "{error}");
    let alarms = store.alarms().await.unwrap();
    let member = store.members().await.unwrap()[0].id;
    assert_eq!(alarms, [Alarm { member, kind: AlarmKind::NoSpace }]);
    assert!(!store.status(&cluster.members[0].client_url).await.unwrap().errors.is_empty());

    store.compact(last).await.unwrap();
    store.defragment(&cluster.members[0].client_url).await.unwrap();
    store.disarm(alarms[0]).await.unwrap();
    assert_eq!(store.alarms().await.unwrap(), []);
    insist(&store, vec![put("/k", "small")]).await;
}
