//! `schedule` against the store of one host.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::sync::Arc;

use crate::common::TestEnv;
use mgmt_resource::{Checked, Kind};
use mgmt_resources::schedule::Schedule;
use mgmt_store::{Offer, SharedState};
use mgmt_value::Str;

/// Waits until a host, and no other, is chosen.
async fn chosen(world: &SharedState, name: &Str, host: &Str) {
    let mut changes = world.watch_schedule(name);
    let chosen = async {
        while world.scheduled(name).unwrap() != [host.clone()] {
            changes.next().await.unwrap();
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), chosen).await.expect("it is chosen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_volunteers_is_chosen_and_withdraws() {
    let bench = TestEnv::new();
    let world = &SharedState::of(&bench.host).unwrap();
    let (name, me) = (Str::from("job"), Str::from("host.example.com"));
    let mut vertex = bench.vertex("job", Schedule::default());
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert_eq!(vertex.look().await.checked(), Checked::Changed, "looking is no offer");
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    chosen(world, &name, &me).await;
    // Another host of the same store stands in line.
    let other = SharedState::new(Arc::clone(world.store()), "another.example.com");
    other.volunteer(&name, &Offer::default(), true).await.unwrap();
    let withdraw = Schedule { withdraw: true, namespace: "job".into(), ..Schedule::default() };
    let mut vertex = bench.vertex("no more", withdraw);
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    chosen(world, &name, &"another.example.com".into()).await;
}

#[test]
fn what_contradicts_itself_is_refused() {
    let schedule = Schedule::default;
    let cases = [
        (Schedule { strategy: Some("random".into()), ..schedule() }, "`rr` or `alpha`"),
        (Schedule { max: Some(-1), ..schedule() }, "max"),
        (Schedule { ttl: Some(-1), ..schedule() }, "ttl"),
        (Schedule { persist: true, ttl: Some(5), ..schedule() }, "time to live"),
        (Schedule { grace: Some(-1), ..schedule() }, "grace"),
        (Schedule { persist: true, grace: Some(5), ..schedule() }, "no grace"),
        (Schedule { withdraw: true, grace: Some(5), ..schedule() }, "no other properties"),
        (Schedule { withdraw: true, persist: true, ..schedule() }, "no other properties"),
        (Schedule { withdraw: true, max: Some(2), ..schedule() }, "no other properties"),
        (Schedule { withdraw: true, strategy: Some("rr".into()), ..schedule() }, "no other properties"),
    ];
    for (wrong, expected) in cases {
        let error = wrong.validate(&"job".into()).unwrap_err();
        assert!(format!("{error:?}").contains(expected), "{error:?}");
    }
    assert!(schedule().validate(&Str::EMPTY).is_err(), "there is no name");
    assert!(
        Schedule { max: Some(0), ttl: Some(0), persist: true, ..schedule() }.validate(&"job".into()).is_ok()
    );
}
