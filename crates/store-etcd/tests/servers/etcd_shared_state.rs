//! The world on a real etcd, and what becomes of it when that is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::sync::Arc;
use std::time::Duration;

use crate::etcd_common::{Connect as _, EtcdCluster};
use mgmt_store::{Offer, SharedState};
use mgmt_store_suite::shared_state::{self, until};
use mgmt_value::Str;

fn text(text: &str) -> Str {
    text.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_does_what_it_should_on_one_server() {
    let cluster = EtcdCluster::start(1);
    shared_state::all(&|| Arc::new(cluster.connect())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_can_read_what_is_stored() {
    let cluster = EtcdCluster::start(1);
    let world = SharedState::new(Arc::new(cluster.connect()), "h1");
    world.set_shared(&text("dir/key"), Some(&text("some text"))).await.unwrap();
    let shown = cluster.etcdctl(&["get", "--prefix", "/mgmt/string/"]);
    assert!(shown.contains("/mgmt/string/dir%2Fkey"), "{shown}");
    assert!(shown.contains(r#"{"format":1,"value":{"text":"some text"}}"#), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_lost_is_waited_for_and_caught_up_with() {
    let mut cluster = EtcdCluster::start(1);
    let world = Arc::new(SharedState::new(Arc::new(cluster.connect()), "h1"));
    let other = SharedState::new(Arc::new(cluster.connect()), "h2");
    let key = text("key");
    world.set_shared(&key, Some(&text("1"))).await.unwrap();
    world.export(&text("noop"), &text("before"), &text("*"), &text("{}"), None).unwrap();
    world.volunteer(&text("job"), &Offer { ttl: Some(3), ..Offer::default() }, true).await.unwrap();
    other.ready().await;
    until("it is chosen", || other.scheduled(&text("job")).unwrap() == [text("h1")]).await;
    cluster.kill(0);
    // What was known stays known, what is wanted is remembered, and what is written waits.
    assert_eq!(world.shared(&key).await.unwrap(), Some(text("1")));
    world.export(&text("noop"), &text("meanwhile"), &text("*"), &text("{}"), None).unwrap();
    let writing = tokio::spawn({
        let (world, key) = (Arc::clone(&world), key.clone());
        async move { world.set_shared(&key, Some(&text("2"))).await }
    });
    until("it does not rely on being chosen any more", || world.scheduled(&text("job")).unwrap().is_empty())
        .await;
    assert!(!writing.is_finished());
    cluster.restart_and_wait(0);
    let written = tokio::time::timeout(Duration::from_secs(60), writing).await.expect("it is written");
    // Whether the first attempt got through before the end cannot be told from here.
    written.unwrap().unwrap();
    until("others see it", || other.known_shared(&key).unwrap() == Some(text("2"))).await;
    until("others see what was exported meanwhile", || other.exported(&text("noop")).len() == 2).await;
    until("it is chosen again", || world.scheduled(&text("job")).unwrap() == [text("h1")]).await;
}
