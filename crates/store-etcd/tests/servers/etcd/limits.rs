//! What is too much, and what is much.

use mgmt_store::{Condition, Effect, Store, StoreError, Transaction};

use crate::etcd_common::*;

#[tokio::test]
async fn what_is_too_large_is_refused_with_the_limit() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let limits = store.limits();
    let refused = async |effects: Vec<Effect>| {
        let outcome = store.commit(Transaction { effects, ..Transaction::default() }).await;
        match outcome {
            Err(StoreError::Refused { reason }) => reason,
            other => panic!("{other:?}"),
        }
    };
    let fits = "x".repeat(limits.value);
    change(&store, vec![put("/k", &fits)]).await;
    assert_eq!(store.read(vec![key("/k")]).await.unwrap().entries[0].value.len(), limits.value);

    let said = refused(vec![put("/k", &fits), put("/l", "x")]).await;
    assert!(said.contains("1048576"), "{said}");
    // Keys count as well, but it takes etcd to say so.
    let long = |at: usize| format!("/{at:03}{}", "k".repeat(4000));
    let mut effects: Vec<Effect> = (1..limits.operations).map(|at| put(&long(at), "")).collect();
    effects.push(put(&long(0), &fits));
    let conditions: Vec<Condition> = (0..10).map(|at| Condition::Missing(long(at))).collect();
    let outcome = store.commit(Transaction { conditions, effects, ..Transaction::default() }).await;
    let Err(StoreError::Refused { reason }) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("1.5 MiB"), "{reason}");

    change(&store, (0..limits.operations).map(|at| put(&format!("/{at}"), "")).collect()).await;
    let said = refused((0..=limits.operations).map(|at| put(&format!("/{at}"), "")).collect()).await;
    assert!(said.contains("128"), "{said}");
    let said = refused(vec![put("/same", "1"), delete("/same")]).await;
    assert!(said.contains("twice"), "{said}");
}

#[tokio::test]
async fn a_large_prefix_is_read_in_parts_as_it_was_at_one_moment() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    for part in 0..10 {
        let effects = (0..100).map(|at| put(&format!("/n/{:04}", part * 100 + at), "0")).collect();
        change(&store, effects).await;
    }
    change(&store, vec![put("/n/0000", "0"), put("/n/0999", "0")]).await;
    // The first and the last key always change together.
    let writer = cluster.connect();
    let writing = async {
        for turn in 1..=200 {
            let both = vec![put("/n/0000", &turn.to_string()), put("/n/0999", &turn.to_string())];
            let revision = change(&writer, both).await.revision;
            if turn % 20 == 0 {
                // What is just being read becomes history.
                writer.compact(revision).await.unwrap();
            }
        }
    };
    let reading = async {
        loop {
            let snapshot = store.read(vec![below("/n/")]).await.unwrap();
            assert_eq!(snapshot.entries.len(), 1000);
            assert!(snapshot.entries.is_sorted_by(|one, other| one.key < other.key));
            let (first, last) = (&snapshot.entries[0], &snapshot.entries[999]);
            assert_eq!((&first.value, first.modified), (&last.value, last.modified));
            if first.value == b"200" {
                break;
            }
        }
    };
    tokio::join!(writing, reading);
}

#[tokio::test]
async fn what_does_not_fit_into_one_answer_is_asked_for_in_smaller_parts() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let value = "x".repeat(store.limits().value);
    for at in 0..70 {
        change(&store, vec![put(&format!("/large/{at:02}"), &value)]).await;
    }
    let snapshot = store.read(vec![below("/large/")]).await.unwrap();
    assert_eq!(snapshot.entries.len(), 70);
    assert!(snapshot.entries.iter().all(|entry| entry.value.len() == value.len()));
}
