//! Runs that make system calls do not wait for each other.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod common;

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use common::World;
use mgmt_engine::{Engine, EngineEvent, EngineSettings, Level};
use mgmt_resource::{
    Checked, Context, Error, Invalid, Kind, Nothing, Registry, Resource, ResourceGraph, Result, Spec,
    schema_of,
};
use mgmt_value::Str;

/// Blocks its thread until as many others do so at the same time.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "meets", blocking)]
pub struct Meets {
    /// How many have to be there.
    pub count: u64,
}

static THERE: (Mutex<u64>, Condvar) = (Mutex::new(0), Condvar::new());

impl Kind for Meets {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        Ok(())
    }

    async fn check_apply(&self, (): &mut (), _: &mut Context<'_>) -> Result<Checked> {
        let (there, come) = &THERE;
        let mut arrived = there.lock().unwrap();
        *arrived += 1;
        come.notify_all();
        let patience = Duration::from_secs(20);
        let (_arrived, late) =
            come.wait_timeout_while(arrived, patience, |there| *there < self.count).unwrap();
        if late.timed_out() { Err(Error::new("the others do not come")) } else { Ok(Checked::Right) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_run_at_once_as_there_are_threads() {
    const THREADS: u64 = 8;
    let world = World::new();
    let (engine, mut events) = Engine::start(EngineSettings {
        host: world.host.clone(),
        registry: Registry::new(&[schema_of::<Meets>]),
        preparation: world.preparation.clone(),
        converge_after: Some(Duration::ZERO),
        threads: Some(usize::try_from(THREADS).unwrap()),
        export: None,
        witness: None,
        journal: None,
        dot: false,
        slow_down: false,
    })
    .unwrap();
    let mut graph = ResourceGraph::new();
    for number in 0..THREADS {
        graph.add_node(Spec::new(number.to_string().as_str(), Meets { count: THREADS }));
    }
    engine.swap(graph).await.unwrap();
    let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await.unwrap();
    assert_eq!(event, Some(EngineEvent::Converged));
    engine.stop(Level::Graceful);
    tokio::task::block_in_place(|| engine.wait());
}
