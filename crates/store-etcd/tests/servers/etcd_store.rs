//! A real etcd: what every store does.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::sync::Arc;

use crate::etcd_common::{Connect as _, EtcdCluster};
use mgmt_store_suite::store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_what_every_store_does() {
    let cluster = EtcdCluster::start(1);
    store::all(Arc::new(cluster.connect()), Arc::new(cluster.connect())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_do_what_every_store_does() {
    let cluster = EtcdCluster::start(3);
    let mut settings = cluster.settings();
    settings.endpoints.rotate_left(1);
    let other = mgmt_store_etcd::Etcd::connect(settings).unwrap();
    store::all(Arc::new(cluster.connect()), Arc::new(other)).await;
}
