//! Certificates, users and passwords.

use mgmt_store::{Store, StoreError, Transaction};
use mgmt_store_etcd::{Etcd, EtcdLogin};

use crate::etcd_common::*;

#[tokio::test]
async fn who_has_a_certificate_is_let_in_and_others_are_not() {
    let cluster = EtcdCluster::start_with_tls();
    let store = cluster.connect();
    change(&store, vec![put("/k", "1")]).await;
    let mut mirror = Mirror::new(&store, below("/"));
    mirror.until_value("/k", "1").await;

    let mut settings = cluster.settings();
    settings.deadline = std::time::Duration::from_secs(1);
    settings.tls.as_mut().unwrap().identity = None;
    let error = Etcd::connect(settings.clone()).unwrap().read(vec![key("/k")]).await.unwrap_err();
    assert!(error.is_passing(), "{error}");

    // Whoever vouches for the server is unknown to us.
    settings.tls = cluster.settings().tls;
    let stranger = EtcdCluster::start_with_tls().settings();
    settings.tls.as_mut().unwrap().authorities = stranger.tls.unwrap().authorities;
    let error = Etcd::connect(settings).unwrap().read(vec![key("/k")]).await.unwrap_err();
    assert!(error.is_passing() && error.to_string().contains("certificate"), "{error}");

    change(&store, vec![put("/k", "2")]).await;
    mirror.until_value("/k", "2").await;
}

#[tokio::test]
async fn who_has_a_password_is_let_in_and_others_are_not() {
    let cluster = EtcdCluster::start(1);
    cluster.etcdctl(&["user", "add", "root:hunter2"]);
    cluster.etcdctl(&["user", "grant-role", "root", "root"]);
    cluster.etcdctl(&["user", "add", "mgmt:hunter3"]);
    cluster.etcdctl(&["role", "add", "mgmt"]);
    cluster.etcdctl(&["role", "grant-permission", "mgmt", "--prefix=true", "readwrite", "/mgmt/"]);
    cluster.etcdctl(&["user", "grant-role", "mgmt", "mgmt"]);
    let login = |user: &str, password: &str| {
        let mut settings = cluster.settings();
        settings.login = Some(EtcdLogin { user: user.to_owned(), password: password.to_owned() });
        settings
    };
    // Not needed yet, so it is no harm.
    let store = Etcd::connect(login("mgmt", "hunter3")).unwrap();
    change(&store, vec![put("/k", "0")]).await;
    cluster.etcdctl(&["auth", "enable"]);

    let mut mirror = Mirror::new(&store, below("/"));
    change(&store, vec![put("/k", "1")]).await;
    mirror.until_value("/k", "1").await;

    let refused = async |settings| {
        let error = Etcd::connect(settings).unwrap().read(vec![key("/k")]).await.unwrap_err();
        let StoreError::Refused { reason } = error else { panic!("{error}") };
        assert!(!reason.contains("hunter"), "{reason}");
        reason
    };
    assert!(refused(cluster.settings()).await.contains("asks for a user"));
    assert!(refused(login("mgmt", "hunter2")).await.contains("password is wrong"));
    let mut elsewhere = login("mgmt", "hunter3");
    elsewhere.namespace = "/elsewhere".to_owned();
    assert!(refused(elsewhere.clone()).await.contains("grant its role"));
    let mut watch = Etcd::connect(elsewhere).unwrap().watch(below("/"));
    assert!(matches!(watch.next().await, Err(StoreError::Refused { .. })));
    assert!(matches!(watch.next().await, Err(StoreError::Refused { .. })), "an error is the end");

    // What one watch may not see is no loss for those that are listed together with it.
    let mut everywhere = login("mgmt", "hunter3");
    everywhere.namespace = String::new();
    let everywhere = Etcd::connect(everywhere).unwrap();
    let mut allowed = Mirror::new(&everywhere, key("/mgmt/k"));
    let mut denied = everywhere.watch(key("/elsewhere/k"));
    let (denied, ()) = tokio::join!(denied.next(), allowed.step());
    assert!(matches!(denied, Err(StoreError::Refused { .. })));
    assert_eq!(allowed.value("/mgmt/k").as_deref(), Some("1"));

    // A change of users makes all proofs worthless that were given before.
    cluster.etcdctl(&["--user", "root:hunter2", "user", "add", "another:x"]);
    change(&store, vec![put("/k", "2")]).await;
    mirror.until_value("/k", "2").await;
    let mut late = Mirror::new(&store, below("/"));
    late.until_value("/k", "2").await;
    change(&store, vec![put("/k", "3")]).await;
    late.until_value("/k", "3").await;
    mirror.until_value("/k", "3").await;
}

#[tokio::test]
async fn a_proof_that_has_run_out_is_renewed() {
    let mut cluster = EtcdCluster::start(1);
    cluster.etcdctl(&["user", "add", "root:hunter2"]);
    cluster.etcdctl(&["user", "grant-role", "root", "root"]);
    cluster.etcdctl(&["auth", "enable"]);
    let mut settings = cluster.settings();
    settings.login = Some(EtcdLogin { user: "root".to_owned(), password: "hunter2".to_owned() });
    let store = Etcd::connect(settings).unwrap();
    change(&store, vec![put("/k", "1")]).await;
    let mut mirror = Mirror::new(&store, below("/"));
    mirror.until_value("/k", "1").await;
    // Proofs live in the memory of the server.
    cluster.kill(0);
    cluster.restart_and_wait(0);
    let lease = store.grant(std::time::Duration::from_secs(60)).await.unwrap();
    assert!(store.keep(lease.id).await.unwrap());
    let done = store.commit(Transaction { effects: vec![put("/k", "2")], ..Transaction::default() }).await;
    assert!(done.unwrap().done);
    mirror.until_value("/k", "2").await;
}

#[tokio::test]
async fn a_server_that_never_shows_its_certificate_leaves_time_for_another() {
    let cluster = EtcdCluster::start_with_tls();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = cluster.settings();
    settings.endpoints.insert(0, silent.local_addr().unwrap().to_string());
    let store = Etcd::connect(settings).unwrap();
    change(&store, vec![put("/k", "1")]).await;
    drop(silent);
}
