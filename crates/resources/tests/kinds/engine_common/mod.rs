//! An engine with all kinds, on a host whose state is in a directory.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use mgmt_engine::{Engine, EngineEvent, EngineSettings, Preparation};
use mgmt_resource::Host;
use mgmt_resources::KINDS;
use mgmt_state::LocalState;
use mgmt_sys::process::Helper;
use mgmt_sys::replace::Durability;
use tokio::sync::mpsc::UnboundedReceiver;

pub(crate) fn start(
    directory: &Path,
    preparation: Preparation,
) -> (Arc<Host>, Engine, UnboundedReceiver<EngineEvent>) {
    let local = LocalState::open_with(directory.join("local"), Durability::None).unwrap();
    let host = Arc::new(Host {
        hostname: "host.example.com".into(),
        program: "mgmt".into(),
        version: "0".into(),
        state: directory.join("state"),
        local: Arc::new(local),
        helper: helper(),
        shared: Arc::new(mgmt_store::SharedState::in_memory("host.example.com").unwrap()),
        durability: Durability::None,
        view: RwLock::default(),
        exit: tokio::sync::watch::Sender::new(None),
        program_files: tokio::sync::watch::Sender::new(None),
        ends_after: None,
        incomplete: Default::default(),
    });
    let settings = EngineSettings {
        host: Arc::clone(&host),
        registry: KINDS,
        preparation,
        converge_after: Some(Duration::ZERO),
        threads: None,
        export: None,
        witness: None,
        journal: None,
        dot: false,
        slow_down: false,
    };
    let (engine, events) = Engine::start(settings).unwrap();
    (host, engine, events)
}

/// What changes credentials: where a booted host has it, or beside the program that tests.
fn helper() -> Helper {
    let tests = std::env::current_exe().unwrap();
    let built = tests.ancestors().nth(2).map(|place| place.join("examples/resources_exec_as"));
    let places = [Some("/mgmt-test-helper".into()), built];
    let found = places.into_iter().flatten().find(|path| path.exists());
    found.map_or_else(Helper::this_program, Helper::program)
}
