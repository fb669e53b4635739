//! Reading, writing and leases.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use mgmt_store::{Condition, LeaseId, Store, StoreError, Transaction};
use mgmt_store_etcd::{Etcd, EtcdSettings};

use crate::etcd_common::*;

#[tokio::test]
async fn what_is_written_is_read_with_its_history() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let first = change(&store, vec![put("/a/one", "1"), put("/a/two", "2")]).await;
    let second = change(&store, vec![put("/a/one", "11"), delete("/a/two"), delete("/a/never")]).await;
    assert!(second.revision > first.revision);

    let snapshot = store.read(vec![below("/a/")]).await.unwrap();
    assert_eq!(snapshot.revision, second.revision);
    assert_eq!(snapshot.entries.len(), 1);
    let entry = snapshot.get("/a/one").unwrap();
    assert_eq!(entry.value, b"11");
    assert_eq!((entry.created, entry.modified), (first.revision, second.revision));
    assert_eq!(entry.lease, None);
}

#[tokio::test]
async fn the_namespace_is_in_front_of_every_key_and_nothing_else_is_seen() {
    let cluster = EtcdCluster::start(1);
    let mut settings = cluster.settings();
    settings.namespace = "/here".to_owned();
    let store = Etcd::connect(settings).unwrap();
    for name in ["/here2/x", "/her", "/here", "/herf", "/here0"] {
        cluster.etcdctl(&["put", name, "no"]);
    }
    change(&store, vec![put("/x", "yes")]).await;
    assert_eq!(cluster.etcdctl(&["get", "--print-value-only", "/here/x"]).trim(), "yes");

    let snapshot = store.read(vec![below("")]).await.unwrap();
    let names: Vec<&str> = snapshot.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(names, ["/x"]);
    for refused in [
        store.read(vec![key("x")]).await.map(|_| ()),
        store.read(vec![below("x")]).await.map(|_| ()),
        store.commit(Transaction { effects: vec![put("x", "")], ..Transaction::default() }).await.map(|_| ()),
        store.watch(below("x")).next().await.map(|_| ()),
    ] {
        let Err(StoreError::Refused { reason }) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("begin with a slash"), "{reason}");
    }
}

#[tokio::test]
async fn keys_of_others_that_are_no_text_are_left_alone() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let mut mirror = Mirror::new(&store, below(""));
    mirror.step().await;
    let odd = std::ffi::OsStr::from_bytes(b"/mgmt/\xff\xfe");
    let put_it = || {
        let mut command = std::process::Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &cluster.members[0].client_url, "put"]);
        assert!(command.arg(odd).arg("x").output().unwrap().status.success());
    };
    put_it();
    change(&store, vec![put("/k", "1")]).await;
    mirror.until_value("/k", "1").await;
    assert_eq!(mirror.entries.len(), 1);
    assert_eq!(store.read(vec![below("")]).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn several_spans_are_read_at_one_moment() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let empty = store.read(Vec::new()).await.unwrap();
    assert!(empty.revision > 0 && empty.entries.is_empty());

    change(&store, vec![put("/a/1", ""), put("/a/2", ""), put("/b", ""), put("/c", "")]).await;
    let snapshot = store.read(vec![key("/b"), below("/a/"), key("/a/1"), key("/missing")]).await.unwrap();
    let names: Vec<&str> = snapshot.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(names, ["/a/1", "/a/2", "/b"]);

    // More than fit into one transaction.
    for part in 0..3 {
        let effects = (0..100).map(|at| put(&format!("/n/{:03}", part * 100 + at), "x")).collect();
        change(&store, effects).await;
    }
    let spans = (0..300).map(|at| key(&format!("/n/{at:03}"))).collect();
    assert_eq!(store.read(spans).await.unwrap().entries.len(), 300);
}

#[tokio::test]
async fn a_condition_holds_for_what_it_says_and_for_nothing_else() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let created = change(&store, vec![put("/k", "old"), put("/empty", "")]).await.revision;
    let modified = change(&store, vec![put("/k", "v")]).await.revision;
    let name = |name: &str| name.to_owned();
    let table = [
        (Condition::Missing(name("/none")), true),
        (Condition::Missing(name("/k")), false),
        (Condition::Exists(name("/k")), true),
        (Condition::Exists(name("/empty")), true),
        (Condition::Exists(name("/none")), false),
        (Condition::Value(name("/k"), b"v".to_vec()), true),
        (Condition::Value(name("/k"), b"old".to_vec()), false),
        (Condition::Value(name("/empty"), Vec::new()), true),
        (Condition::Value(name("/none"), Vec::new()), false),
        (Condition::Modified(name("/k"), modified), true),
        (Condition::Modified(name("/k"), created), false),
        (Condition::Modified(name("/k"), 0), false),
        (Condition::Modified(name("/none"), 0), false),
        (Condition::Modified(name("/k"), u64::MAX), false),
        (Condition::Created(name("/k"), created), true),
        (Condition::Created(name("/k"), modified), false),
        (Condition::Created(name("/none"), 0), false),
        (Condition::Created(name("/k"), u64::MAX), false),
    ];
    for (condition, expected) in table {
        assert_eq!(holds(&store, condition.clone()).await, expected, "{condition:?}");
    }
    // All of them have to hold, or nothing is done.
    let transaction = Transaction {
        conditions: vec![Condition::Exists(name("/k")), Condition::Exists(name("/none"))],
        effects: vec![put("/k", "changed"), put("/none", "made")],
        otherwise: vec![put("/instead", "made")],
    };
    assert!(!store.commit(transaction).await.unwrap().done);
    let snapshot = store.read(vec![below("/")]).await.unwrap();
    assert_eq!(snapshot.get("/k").unwrap().value, b"v");
    assert_eq!(snapshot.get("/none"), None);
    assert_eq!(snapshot.get("/instead").unwrap().value, b"made");
}

#[tokio::test]
async fn a_key_vanishes_with_its_lease() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let mut mirror = Mirror::new(&store, below("/"));
    let short = store.grant(Duration::from_millis(1100)).await.unwrap();
    assert!(short.time >= Duration::from_secs(2), "{short:?}");
    let long = store.grant(Duration::from_secs(600)).await.unwrap();
    change(&store, vec![put_with("/short", "", short.id), put_with("/long", "", long.id)]).await;
    mirror.until(|mirror| mirror.entries.len() == 2).await;
    assert_eq!(mirror.entries["/short"].lease, Some(short.id));

    // Nobody keeps it, so it ends.
    mirror.until(|mirror| mirror.entries.len() == 1).await;
    assert!(!store.keep(short.id).await.unwrap());
    assert!(store.keep(long.id).await.unwrap());
    let late =
        store.commit(Transaction { effects: vec![put_with("/x", "", short.id)], ..Transaction::default() });
    assert!(matches!(late.await, Err(StoreError::LeaseEnded)));

    // Somebody ends it.
    store.revoke(long.id).await.unwrap();
    mirror.until(|mirror| mirror.entries.is_empty()).await;
    store.revoke(long.id).await.unwrap();
    assert!(!store.keep(LeaseId(12345)).await.unwrap());
}

#[tokio::test]
async fn a_lease_that_is_kept_stays() {
    let cluster = EtcdCluster::start(1);
    let store = cluster.connect();
    let lease = store.grant(Duration::from_secs(2)).await.unwrap();
    change(&store, vec![put_with("/mine", "", lease.id)]).await;
    let end = tokio::time::Instant::now() + lease.time * 2;
    while tokio::time::Instant::now() < end {
        assert!(store.keep(lease.id).await.unwrap());
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(store.read(vec![key("/mine")]).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn only_one_of_two_clients_wins_a_race() {
    let cluster = EtcdCluster::start(1);
    let (one, two) = (cluster.connect(), cluster.connect());
    let try_it = async |store: &Etcd, value: &str| {
        let conditions = vec![Condition::Missing("/lead".to_owned())];
        store
            .commit(Transaction { conditions, effects: vec![put("/lead", value)], otherwise: Vec::new() })
            .await
            .unwrap()
            .done
    };
    let (first, second) = tokio::join!(try_it(&one, "one"), try_it(&two, "two"));
    assert!(first != second);
    let expected = if first { "one" } else { "two" };
    assert_eq!(two.read(vec![key("/lead")]).await.unwrap().entries[0].value, expected.as_bytes());
}

#[tokio::test]
async fn a_socket_in_the_file_system_is_as_good_as_a_port() {
    let mut cluster = EtcdCluster::start(1);
    let store = Etcd::connect(EtcdSettings::new([cluster.socket(0)])).unwrap();
    change(&store, vec![put("/k", "1")]).await;
    let mut mirror = Mirror::new(&store, below(""));
    mirror.until_value("/k", "1").await;
    cluster.kill(0);
    cluster.restart_and_wait(0);
    insist(&store, vec![put("/k", "2")]).await;
    mirror.until_value("/k", "2").await;
    assert_eq!(store.endpoints().len(), 1, "what members say of themselves is not asked for");
}
