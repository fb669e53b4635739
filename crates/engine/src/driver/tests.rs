//! The driver without threads that run it.

use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{Host, Registry};
use tokio::sync::mpsc::error::TryRecvError;

use super::{Engine, EngineSettings};
use crate::prepare::Preparation;

fn settings(directory: &tempfile::TempDir) -> EngineSettings {
    let host = Host {
        hostname: "host".into(),
        program: "mgmt".into(),
        version: "test".into(),
        state: directory.path().join("state"),
        local: Arc::new(mgmt_world::Local::open(directory.path().join("local")).unwrap()),
        world: Arc::new(mgmt_world::World::in_memory("host").unwrap()),
        helper: Default::default(),
        durability: mgmt_sys::replace::Durability::None,
        view: Default::default(),
        exit: tokio::sync::watch::Sender::new(None),
        program_files: tokio::sync::watch::Sender::new(None),
        ends_after: None,
    };
    EngineSettings {
        host: Arc::new(host),
        registry: Registry::new(&[]),
        preparation: Preparation::default(),
        converge_after: Some(Duration::ZERO),
        threads: Some(1),
        export: None,
        witness: None,
        journal: None,
        dot: false,
        slow_down: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_thread_nothing_of_an_engine_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory);
    let host = Arc::downgrade(&settings.host);
    let (engine, mut events, life) = Engine::make(settings).unwrap();
    drop(life);
    assert_eq!(events.try_recv(), Err(TryRecvError::Disconnected));
    drop(engine);
    assert!(host.upgrade().is_none(), "something holds on to the host");
}
