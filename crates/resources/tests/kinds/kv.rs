//! `kv` against the store of one host.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::time::Duration;

use crate::common::{Run, TestEnv, Vertex};
use mgmt_resource::{Cancel, Checked, Kind, Stage, Watch, WatchStream};
use mgmt_resources::kv::Kv;
use mgmt_value::{Str, Value};

fn kv(value: &str) -> Kv {
    Kv { value: Some(value.into()), ..Kv::default() }
}

fn largest(value: &str) -> Kv {
    Kv { skiplessthan: true, ..kv(value) }
}

async fn shared(bench: &TestEnv, key: &str) -> Option<String> {
    let found = bench.host.strings().shared(&key.into()).await.unwrap();
    found.map(|text| text.to_text().into_owned())
}

async fn store(bench: &TestEnv, key: &str, value: Option<&str>) {
    let value = value.map(Str::from);
    bench.host.strings().set_shared(&key.into(), value.as_ref()).await.unwrap();
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
async fn changes_once(vertex: &mut Vertex<'_, Kv>) {
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(vertex.look().await.checked(), Checked::Right);
}

#[tokio::test]
async fn a_value_is_stored_changed_and_removed() {
    let mut bench = TestEnv::new();
    changes_once(&mut bench.vertex("a", kv("1"))).await;
    assert_eq!(shared(&bench, "a").await.as_deref(), Some("1"));
    changes_once(&mut bench.vertex("a", kv("2"))).await;
    changes_once(&mut bench.vertex("other", Kv { key: "a".into(), ..kv("") })).await;
    assert_eq!(shared(&bench, "a").await.as_deref(), Some(""));
    bench.restart();
    assert_eq!(bench.vertex("a", kv("")).apply().await.checked(), Checked::Right);
    changes_once(&mut bench.vertex("a", Kv::default())).await;
    assert_eq!(shared(&bench, "a").await, None);
}

#[tokio::test]
async fn looking_stores_and_removes_nothing() {
    let bench = TestEnv::new();
    store(&bench, "a", Some("theirs")).await;
    for wanted in [kv("ours"), Kv::default(), Kv { mapped: true, ..kv("ours") }] {
        assert_eq!(bench.vertex("a", wanted).look().await.checked(), Checked::Changed);
        assert_eq!(shared(&bench, "a").await.as_deref(), Some("theirs"));
        assert!(bench.host.strings().by_host(&"a".into()).await.unwrap().is_empty());
    }
    assert_eq!(bench.vertex("a", kv("theirs")).look().await.checked(), Checked::Right);
    assert_eq!(bench.vertex("b", Kv::default()).look().await.checked(), Checked::Right);
}

#[test]
fn what_cannot_be_kept_or_compared_is_refused() {
    for (name, wrong, why) in [
        ("", kv("1"), "`key`: is empty"),
        ("a", largest("many"), "`value`: expected a whole number"),
        ("a", largest("99999999999999999999"), "`value`: expected a whole number"),
        ("a", Kv { skipcmpstyle: 2, ..largest("1") }, "`skipcmpstyle`: expected 0"),
    ] {
        let told = Kind::validate(&wrong, &name.into()).unwrap_err().to_string();
        assert!(told.starts_with(why), "{told}");
    }
    let invalid = Kind::validate(&largest("many"), &"a".into()).unwrap_err();
    assert!(invalid.hint.unwrap().contains("compare as text"));
}

#[tokio::test]
async fn a_key_and_a_value_of_the_local_store_have_nothing_to_do_with_each_other() {
    let bench = TestEnv::new();
    bench.host.local.value_set(&"a".into(), Some(&Value::Int(7))).unwrap();
    changes_once(&mut bench.vertex("a", kv("1"))).await;
    assert_eq!(bench.host.local.value_get(&"a".into()).unwrap(), Some(Value::Int(7)));
}

#[tokio::test]
async fn each_host_has_a_value_of_its_own_when_mapped() {
    let mut bench = TestEnv::new();
    let (key, other) = (Str::from("a"), Str::from("other.example.com"));
    bench.host.strings().set_of_host(&key, &other, Some(&"theirs".into())).await.unwrap();
    store(&bench, "a", Some("shared")).await;
    changes_once(&mut bench.vertex("a", Kv { mapped: true, ..kv("ours") })).await;
    bench.restart();
    let all = bench.host.strings().by_host(&key).await.unwrap();
    let all: Vec<_> = all.iter().map(|(host, value)| format!("{host:?} {value:?}")).collect();
    assert_eq!(all, ["\"host.example.com\" \"ours\"", "\"other.example.com\" \"theirs\""]);
    changes_once(&mut bench.vertex("a", Kv { mapped: true, ..Kv::default() })).await;
    assert_eq!(bench.host.strings().by_host(&key).await.unwrap().len(), 1);
    assert_eq!(shared(&bench, "a").await.as_deref(), Some("shared"));
}

#[tokio::test]
async fn a_larger_value_stays_unless_another_resource_notifies_us() {
    let bench = TestEnv::new();
    store(&bench, "a", Some("10")).await;
    let mut vertex = bench.vertex("a", largest("9"));
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(shared(&bench, "a").await.as_deref(), Some("10"));
    assert_eq!(vertex.run(Run { refresh: true, ..Run::LOOK }).await.checked(), Checked::Changed);
    assert_eq!(vertex.run(Run::REFRESH).await.checked(), Checked::Changed);
    assert_eq!(shared(&bench, "a").await.as_deref(), Some("9"));
    changes_once(&mut bench.vertex("a", largest("11"))).await;
    store(&bench, "a", Some("no number")).await;
    changes_once(&mut bench.vertex("a", largest("1"))).await;
    let as_text = Kv { skipcmpstyle: 1, ..largest("10") };
    store(&bench, "a", Some("9")).await;
    assert_eq!(bench.vertex("a", as_text).apply().await.checked(), Checked::Right);
    changes_once(&mut bench.vertex("a", Kv { value: None, ..largest("") })).await;
}

async fn next(stream: &mut Box<dyn WatchStream>) -> mgmt_resource::Result<()> {
    let cancel = Cancel::default();
    tokio::time::timeout(Duration::from_secs(10), stream.next(&cancel)).await.expect("no event came")
}

#[tokio::test]
async fn changes_from_outside_are_events_and_others_are_not() {
    let bench = TestEnv::new();
    let kv = kv("1");
    let [Watch::Stream { start, .. }] = &kv.watches(&"a".into())[..] else { panic!("expected a stream") };
    let mut stream = start(&bench.host).unwrap();
    store(&bench, "other", Some("x")).await;
    bench.host.strings().set_of_host(&"a".into(), &"host".into(), Some(&"x".into())).await.unwrap();
    // The store tells of a change before it says that it is done, so one look is enough.
    let nothing = tokio::time::timeout(Duration::ZERO, stream.next(&Cancel::default())).await;
    assert!(nothing.is_err(), "an event of something else");
    store(&bench, "a", Some("x")).await;
    next(&mut stream).await.unwrap();
    assert_eq!(bench.vertex("a", kv).apply().await.checked(), Checked::Changed);
    next(&mut stream).await.unwrap();
    store(&bench, "a", None).await;
    next(&mut stream).await.unwrap();

    let mapped = Kv { mapped: true, ..Kv::default() };
    let [Watch::Stream { start, .. }] = &mapped.watches(&"a".into())[..] else { panic!("expected a stream") };
    let mut stream = start(&bench.host).unwrap();
    bench.host.strings().set_of_host(&"a".into(), &"host".into(), None).await.unwrap();
    next(&mut stream).await.unwrap();
    let cancel = Cancel::default();
    cancel.raise(Stage::Cancel);
    assert!(stream.next(&cancel).await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_cancelled_run_changes_nothing() {
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("a", kv("1"));
    vertex.cancel.raise(Stage::Cancel);
    assert!(vertex.apply().await.result.unwrap_err().is_cancelled());
    assert_eq!(shared(&bench, "a").await, None);
}

#[tokio::test]
async fn a_received_value_is_stored() {
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("a", Kv::default());
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    vertex.resource.value = Some("received".into());
    let received = Run { received: &[("value", true)], ..Run::APPLY };
    assert_eq!(vertex.run(received).await.checked(), Checked::Changed);
    assert_eq!(shared(&bench, "a").await.as_deref(), Some("received"));
}
