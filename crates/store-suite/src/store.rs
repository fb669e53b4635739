//! Conformance of the trait [`Store`]: [`all`] takes two connections to one store.
//!
//! Both connections see the same keys. Each part works below a prefix of its own, so that
//! all of them can run on one store.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use mgmt_store::{
    Batch, Commit, Condition, Effect, Entry, LeaseId, Span, Store, StoreError, Transaction, Watch,
};

pub type Shared = Arc<dyn Store>;

/// Everything, one part after the other. `other` sees the same keys through another connection.
pub async fn all(store: Shared, other: Shared) {
    reading_and_writing(&store, &other).await;
    conditions(&store).await;
    both_branches(&store).await;
    nothing_is_done_by_halves(&store).await;
    many_spans_are_read_at_one_moment(&store).await;
    keys_and_values_of_all_sorts(&store).await;
    following(&store, &other).await;
    following_one_key(&store, &other).await;
    a_slow_reader_gets_the_end(&store, &other).await;
    a_call_that_is_dropped_loses_nothing(&store, &other).await;
    leases(&store, &other).await;
    a_lease_that_is_kept_stays(&store).await;
    counting_together(&store, &other).await;
    large_values(&store).await;
}

pub fn put(key: &str, value: &str) -> Effect {
    Effect::Put { key: key.to_owned(), value: value.as_bytes().to_vec(), lease: None }
}

pub fn leased(key: &str, value: &str, lease: LeaseId) -> Effect {
    Effect::Put { key: key.to_owned(), value: value.as_bytes().to_vec(), lease: Some(lease) }
}

pub fn delete(key: &str) -> Effect {
    Effect::Delete(key.to_owned())
}

pub async fn commit(store: &Shared, effects: Vec<Effect>) -> Commit {
    let done = store.commit(Transaction { effects, ..Transaction::default() }).await.unwrap();
    assert!(done.done);
    done
}

pub async fn value(store: &Shared, key: &str) -> Option<String> {
    entry(store, key).await.map(|entry| String::from_utf8(entry.value).unwrap())
}

pub async fn entry(store: &Shared, key: &str) -> Option<Entry> {
    store.read(vec![Span::Key(key.to_owned())]).await.unwrap().get(key).cloned()
}

pub async fn next(watch: &mut Box<dyn Watch>) -> Batch {
    tokio::time::timeout(Duration::from_secs(30), watch.next()).await.expect("news").unwrap()
}

fn plain(batch: &Batch) -> Vec<(&str, Option<&str>)> {
    batch
        .changes
        .iter()
        .map(|(key, entry)| {
            let value = entry.as_ref().map(|entry| std::str::from_utf8(&entry.value).unwrap());
            (key.as_str(), value)
        })
        .collect()
}

async fn reading_and_writing(store: &Shared, other: &Shared) {
    assert_eq!(value(store, "/rw/a").await, None);
    let first = commit(store, vec![put("/rw/a", "1"), put("/rw/b", "2")]).await;
    assert_eq!(value(other, "/rw/a").await.as_deref(), Some("1"));
    let second = commit(other, vec![put("/rw/a", "3")]).await;
    assert!(second.revision > first.revision);
    let a = entry(store, "/rw/a").await.unwrap();
    assert_eq!((a.created, a.modified), (first.revision, second.revision));
    assert_eq!(a.lease, None);
    commit(store, vec![delete("/rw/a"), delete("/rw/nothing")]).await;
    assert_eq!(value(other, "/rw/a").await, None);
    let again = commit(store, vec![put("/rw/a", "4")]).await;
    assert_eq!(entry(store, "/rw/a").await.unwrap().created, again.revision);
    // Writing the same value again is a change of its own.
    let same = commit(store, vec![put("/rw/a", "4")]).await;
    assert_eq!(entry(store, "/rw/a").await.unwrap().modified, same.revision);
}

async fn conditions(store: &Shared) {
    commit(store, vec![put("/if/there", "x")]).await;
    let there = entry(store, "/if/there").await.unwrap();
    let key = || "/if/there".to_owned();
    let none = || "/if/missing".to_owned();
    let cases = [
        (Condition::Missing(none()), true),
        (Condition::Missing(key()), false),
        (Condition::Exists(key()), true),
        (Condition::Exists(none()), false),
        (Condition::Value(key(), b"x".to_vec()), true),
        (Condition::Value(key(), b"y".to_vec()), false),
        (Condition::Value(none(), b"".to_vec()), false),
        (Condition::Value(none(), b"x".to_vec()), false),
        (Condition::Modified(key(), there.modified), true),
        (Condition::Modified(key(), there.modified + 1), false),
        (Condition::Modified(none(), there.modified), false),
        (Condition::Created(key(), there.created), true),
        (Condition::Created(key(), there.created - 1), false),
        (Condition::Created(none(), there.created), false),
    ];
    for (condition, expected) in cases {
        let transaction = Transaction { conditions: vec![condition.clone()], ..Transaction::default() };
        assert_eq!(store.commit(transaction).await.unwrap().done, expected, "{condition:?}");
    }
    let both = vec![Condition::Exists(key()), Condition::Exists(none())];
    let transaction = Transaction { conditions: both, ..Transaction::default() };
    assert!(!store.commit(transaction).await.unwrap().done, "one is not enough");
}

async fn both_branches(store: &Shared) {
    let set = |to: &str| Transaction {
        conditions: vec![Condition::Value("/or/k".to_owned(), to.as_bytes().to_vec())],
        effects: Vec::new(),
        otherwise: vec![put("/or/k", to)],
    };
    let first = store.commit(set("a")).await.unwrap();
    assert!(!first.done);
    let again = store.commit(set("a")).await.unwrap();
    assert!(again.done, "it has the value already");
    assert_eq!(entry(store, "/or/k").await.unwrap().modified, first.revision);
    assert!(!store.commit(set("b")).await.unwrap().done);
    assert_eq!(value(store, "/or/k").await.as_deref(), Some("b"));
}

async fn nothing_is_done_by_halves(store: &Shared) {
    let transaction = Transaction {
        conditions: vec![Condition::Exists("/half/none".to_owned())],
        effects: vec![put("/half/a", "1"), put("/half/b", "2")],
        otherwise: Vec::new(),
    };
    assert!(!store.commit(transaction).await.unwrap().done);
    let found = store.read(vec![Span::Prefix("/half/".to_owned())]).await.unwrap();
    assert_eq!(found.entries, []);
    let ended = vec![put("/half/a", "1"), leased("/half/b", "2", LeaseId(987_654_321))];
    let refused = store.commit(Transaction { effects: ended, ..Transaction::default() }).await;
    assert_eq!(refused, Err(StoreError::LeaseEnded));
    let twice = vec![put("/half/a", "1"), put("/half/a", "2")];
    let refused = store.commit(Transaction { effects: twice, ..Transaction::default() }).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    let found = store.read(vec![Span::Prefix("/half/".to_owned())]).await.unwrap();
    assert_eq!(found.entries, []);
}

async fn many_spans_are_read_at_one_moment(store: &Shared) {
    commit(store, ["/m/a/1", "/m/a/2", "/m/ab", "/m/b/1", "/m/c"].iter().map(|key| put(key, key)).collect())
        .await;
    let spans = vec![
        Span::Prefix("/m/b/".to_owned()),
        Span::Key("/m/c".to_owned()),
        Span::Prefix("/m/a/".to_owned()),
        Span::Key("/m/a/1".to_owned()),
        Span::Key("/m/none".to_owned()),
    ];
    let found = store.read(spans).await.unwrap();
    let keys: Vec<&str> = found.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["/m/a/1", "/m/a/2", "/m/b/1", "/m/c"]);
    assert_eq!(found.below("/m/a/").count(), 2);
}

async fn keys_and_values_of_all_sorts(store: &Shared) {
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let odd = ["/odd/a b", "/odd/%2F", "/odd/é\u{1F600}", "/odd/\u{7f}~", "/odd/*", "/odd/\n"];
    for key in odd {
        let effect = Effect::Put { key: key.to_owned(), value: bytes.clone(), lease: None };
        commit(store, vec![effect]).await;
        assert_eq!(entry(store, key).await.unwrap().value, bytes);
    }
    let effect = Effect::Put { key: "/odd/empty".to_owned(), value: Vec::new(), lease: None };
    commit(store, vec![effect]).await;
    assert_eq!(value(store, "/odd/empty").await.as_deref(), Some(""));
    let all = store.read(vec![Span::Prefix("/odd/".to_owned())]).await.unwrap();
    assert_eq!(all.entries.len(), odd.len() + 1);
    assert!(all.entries.is_sorted_by(|one, other| one.key < other.key));
}

async fn following(store: &Shared, other: &Shared) {
    commit(store, vec![put("/f/old", "1"), put("/g/old", "1")]).await;
    let mut watch = store.watch(Span::Prefix("/f/".to_owned()));
    let first = next(&mut watch).await;
    assert!(first.whole);
    assert_eq!(plain(&first), [("/f/old", Some("1"))]);
    commit(other, vec![put("/g/new", "unseen")]).await;
    let done = commit(other, vec![put("/f/new", "2"), delete("/f/old")]).await;
    let news = next(&mut watch).await;
    assert_eq!(plain(&news), [("/f/new", Some("2")), ("/f/old", None)]);
    assert_eq!(news.revision, done.revision);
    let seen = news.changes[0].1.as_ref().unwrap();
    assert_eq!((seen.created, seen.modified), (done.revision, done.revision));
    // Somebody who begins later sees what there is by then.
    let late = next(&mut other.watch(Span::Prefix("/f/".to_owned()))).await;
    assert_eq!(plain(&late), [("/f/new", Some("2"))]);
    assert!(late.whole && late.revision >= done.revision);
}

async fn following_one_key(store: &Shared, other: &Shared) {
    let mut watch = store.watch(Span::Key("/one/a".to_owned()));
    assert_eq!(plain(&next(&mut watch).await), []);
    commit(other, vec![put("/one/ab", "not this")]).await;
    commit(other, vec![put("/one/a", "this")]).await;
    assert_eq!(plain(&next(&mut watch).await), [("/one/a", Some("this"))]);
    commit(other, vec![delete("/one/a")]).await;
    assert_eq!(plain(&next(&mut watch).await), [("/one/a", None)]);
}

async fn a_slow_reader_gets_the_end(store: &Shared, other: &Shared) {
    let mut watch = store.watch(Span::Prefix("/slow/".to_owned()));
    next(&mut watch).await;
    let mut last = 0;
    for round in 0..1500 {
        let key = format!("/slow/{}", round % 7);
        last = commit(other, vec![put(&key, &round.to_string())]).await.revision;
    }
    let mut seen = std::collections::BTreeMap::new();
    let mut told = 0;
    while told < last {
        let batch = next(&mut watch).await;
        assert!(batch.revision > told, "revisions only grow");
        assert!(batch.changes.len() <= 7);
        told = batch.revision;
        if batch.whole {
            seen.clear();
        }
        for (key, entry) in batch.changes {
            seen.insert(key, entry.map(|entry| entry.value));
        }
    }
    let found = store.read(vec![Span::Prefix("/slow/".to_owned())]).await.unwrap();
    let found = found.entries.into_iter().map(|entry| (entry.key, Some(entry.value))).collect();
    assert_eq!(seen, found);
}

async fn a_call_that_is_dropped_loses_nothing(store: &Shared, other: &Shared) {
    let mut watch = store.watch(Span::Prefix("/drop/".to_owned()));
    next(&mut watch).await;
    for round in 0..20 {
        let impatient = tokio::time::timeout(Duration::from_millis(1), watch.next()).await;
        assert!(impatient.is_err(), "nothing has happened");
        commit(other, vec![put("/drop/k", &round.to_string())]).await;
        assert_eq!(plain(&next(&mut watch).await), [("/drop/k", Some(round.to_string().as_str()))]);
    }
}

async fn leases(store: &Shared, other: &Shared) {
    let lease = store.grant(Duration::from_secs(60)).await.unwrap();
    assert!(lease.time >= Duration::from_secs(60));
    commit(store, vec![leased("/lease/a", "1", lease.id), leased("/lease/b", "2", lease.id)]).await;
    assert_eq!(entry(other, "/lease/a").await.unwrap().lease, Some(lease.id));
    // A key that is written without a lease is bound to none any more.
    commit(other, vec![put("/lease/b", "3")]).await;
    let mut watch = other.watch(Span::Prefix("/lease/".to_owned()));
    assert_eq!(next(&mut watch).await.changes.len(), 2);
    assert!(other.keep(lease.id).await.unwrap(), "whoever knows it can keep it");
    store.revoke(lease.id).await.unwrap();
    assert_eq!(plain(&next(&mut watch).await), [("/lease/a", None)]);
    assert_eq!(value(store, "/lease/b").await.as_deref(), Some("3"));
    assert!(!store.keep(lease.id).await.unwrap());
    store.revoke(lease.id).await.unwrap();
    let refused = store
        .commit(Transaction { effects: vec![leased("/lease/a", "1", lease.id)], ..Transaction::default() })
        .await;
    assert_eq!(refused, Err(StoreError::LeaseEnded));
    // One that nobody keeps ends by itself.
    let lease = store.grant(Duration::from_secs(1)).await.unwrap();
    commit(store, vec![leased("/lease/c", "1", lease.id)]).await;
    let mut gone = false;
    while !gone {
        gone = next(&mut watch).await.changes.iter().any(|(key, entry)| key == "/lease/c" && entry.is_none());
    }
    assert_eq!(value(store, "/lease/c").await, None);
}

async fn a_lease_that_is_kept_stays(store: &Shared) {
    let lease = store.grant(Duration::from_secs(2)).await.unwrap();
    commit(store, vec![leased("/kept", "1", lease.id)]).await;
    let begun = std::time::Instant::now();
    while begun.elapsed() < lease.time + Duration::from_secs(2) {
        assert!(store.keep(lease.id).await.unwrap());
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(value(store, "/kept").await.as_deref(), Some("1"));
    store.revoke(lease.id).await.unwrap();
}

async fn counting_together(store: &Shared, other: &Shared) {
    let mut counters = tokio::task::JoinSet::new();
    for which in 0..8 {
        let store = Arc::clone(if which % 2 == 0 { store } else { other });
        counters.spawn(async move {
            for _ in 0..25 {
                loop {
                    let found = entry(&store, "/count").await;
                    let number: u64 = found
                        .as_ref()
                        .map_or(0, |entry| std::str::from_utf8(&entry.value).unwrap().parse().unwrap());
                    let condition = match found {
                        Some(entry) => Condition::Modified(entry.key, entry.modified),
                        None => Condition::Missing("/count".to_owned()),
                    };
                    let transaction = Transaction {
                        conditions: vec![condition],
                        effects: vec![put("/count", &(number + 1).to_string())],
                        otherwise: Vec::new(),
                    };
                    if store.commit(transaction).await.unwrap().done {
                        break;
                    }
                }
            }
        });
    }
    counters.join_all().await;
    assert_eq!(value(store, "/count").await.as_deref(), Some("200"));
}

async fn large_values(store: &Shared) {
    let limits = store.limits();
    let value: Vec<u8> = (0_u32..).flat_map(u32::to_be_bytes).take(limits.value).collect();
    let effect = Effect::Put { key: "/large".to_owned(), value: value.clone(), lease: None };
    commit(store, vec![effect]).await;
    assert!(entry(store, "/large").await.unwrap().value == value);
    let effects = (0..limits.operations).map(|number| put(&format!("/many/{number:06}"), "x")).collect();
    commit(store, effects).await;
    let many = store.read(vec![Span::Prefix("/many/".to_owned())]).await.unwrap();
    assert_eq!(many.entries.len(), limits.operations);
    let too_large = Effect::Put { key: "/large".to_owned(), value: vec![0; 64 << 20], lease: None };
    let refused = store.commit(Transaction { effects: vec![too_large], ..Transaction::default() }).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
}
