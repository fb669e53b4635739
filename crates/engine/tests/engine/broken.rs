//! A mistake of ours ends the engine, and everybody who waits for it learns so.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use crate::common;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Probe, TestEnv};
use mgmt_engine::{Engine, EngineEvent, EngineSettings, Health, Level, Ran, SwapError, Witness};
use mgmt_resource::{
    Checked, Context, Id, Invalid, Kind, Nothing, Registry, Resource, ResourceGraph, Result, Spec, Watch,
    schema_of,
};
use mgmt_value::Str;
use mgmt_watch::WatchPath;
use tokio::sync::mpsc::UnboundedReceiver;

/// Finds its file right, on a thread for system calls.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "glance", blocking)]
pub struct Glance {
    /// The file.
    pub path: Str,
}

impl Kind for Glance {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        Ok(())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        vec![Watch::Path { path: self.path.clone(), recursive: false }]
    }

    async fn check_apply(&self, (): &mut (), _: &mut Context<'_>) -> Result<Checked> {
        Ok(Checked::Right)
    }
}

/// Panics when it is told of a run by a thread whose name begins so.
struct Clumsy(&'static str);

impl Witness for Clumsy {
    fn graph(&self, _: &mut dyn Iterator<Item = &Id>) {}

    fn ran(&self, _: Ran<'_>) {
        let thread = std::thread::current();
        assert!(!thread.name().is_some_and(|name| name.starts_with(self.0)), "told so");
    }

    fn health(&self, _: &Id, _: Health<'_>) {}
}

fn start(
    world: &TestEnv,
    witness: Option<Arc<dyn Witness>>,
) -> (Arc<Engine>, UnboundedReceiver<EngineEvent>) {
    let (engine, events) = Engine::start(EngineSettings {
        host: world.host.clone(),
        registry: Registry::new(&[schema_of::<Glance>, schema_of::<Probe>]),
        preparation: world.preparation.clone(),
        converge_after: None,
        threads: Some(2),
        export: None,
        witness,
        journal: None,
        dot: false,
        slow_down: false,
    })
    .unwrap();
    (Arc::new(engine), events)
}

/// Changes the file until the engine has ended, and asks it for everything that it can be asked for.
async fn ends_for_everybody(
    world: &TestEnv,
    engine: Arc<Engine>,
    mut events: UnboundedReceiver<EngineEvent>,
) {
    let end = async {
        let mut round = 0;
        let mut ended = false;
        while !ended {
            round += 1;
            std::fs::write(world.path("f").as_path(), format!("{round}")).unwrap();
            // Which thread attends to an event is a matter of chance, so there are as many as it takes.
            let event = tokio::time::timeout(Duration::from_millis(20), events.recv()).await;
            ended = event.is_ok_and(|event| event.is_none_or(|event| event == EngineEvent::Stopped));
        }
        assert_eq!(engine.swap(ResourceGraph::new()).await, Err(SwapError::Stopped));
        assert_eq!(engine.adjust(Vec::new()).await, Err(SwapError::Stopped));
        assert!(matches!(engine.inspect().await, Err(SwapError::Stopped)));
        assert!(!engine.is_alive().await);
        let waits = Arc::clone(&engine);
        tokio::task::spawn_blocking(move || waits.wait()).await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(60), end).await.expect("somebody waits in vain");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_a_thread_of_the_pool_decides_ends_the_engine() {
    let world = TestEnv::new();
    let (engine, events) = start(&world, Some(Arc::new(Clumsy("mgmt-run-"))));
    let mut graph = ResourceGraph::new();
    graph.add_node(Spec::new("a", Glance { path: world.path("f") }));
    let _ = engine.swap(graph).await;
    ends_for_everybody(&world, engine, events).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_the_thread_of_the_engine_decides_ends_the_engine() {
    let world = TestEnv::new();
    let (engine, events) = start(&world, Some(Arc::new(Clumsy("mgmt-engine"))));
    let mut graph = ResourceGraph::new();
    graph.add_node(Spec::new("a", Probe { path: world.path("f"), text: "a".into(), ..Probe::default() }));
    let _ = engine.swap(graph).await;
    ends_for_everybody(&world, engine, events).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_whoever_keeps_the_lookout_ends_the_engine() {
    let world = TestEnv::new();
    let (engine, events) = start(&world, None);
    let path = WatchPath::from_bytes(&world.path("f"), false).unwrap();
    let watch = engine.watch_path(&path, || panic!("told so"));
    ends_for_everybody(&world, Arc::clone(&engine), events).await;
    drop(watch);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_still_runs_is_asked_to_stop_when_the_engine_breaks() {
    let world = TestEnv::new();
    let (engine, events) = start(&world, Some(Arc::new(Clumsy("mgmt-"))));
    let mut graph = ResourceGraph::new();
    graph.add_node(Spec::new("long", Probe { sleep: 600_000, ..Probe::default() }));
    engine.swap(graph).await.unwrap();
    world.wait_for("long:run", 1).await;
    let mut graph = ResourceGraph::new();
    graph.add_node(Spec::new("long", Probe { sleep: 600_000, ..Probe::default() }));
    graph.add_node(Spec::new("a", Glance { path: world.path("f") }));
    let _ = engine.swap(graph).await;
    ends_for_everybody(&world, engine, events).await;
    world.wait_for("long:cancelled", 1).await;
    world.wait_for("worker:end", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_watched_for_others_until_the_engine_has_ended() {
    let world = TestEnv::new();
    let (engine, _events) = start(&world, None);
    let path = WatchPath::from_bytes(&world.path("f"), false).unwrap();
    let told = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let watch = engine.watch_path(&path, move || {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    });
    let told = || told.load(std::sync::atomic::Ordering::SeqCst);
    std::fs::write(world.path("f").as_path(), "one").unwrap();
    common::wait(|| told() > 0, "the change").await;
    engine.stop(Level::Graceful);
    tokio::task::block_in_place(|| engine.wait());
    // Nobody is there any more who could tell.
    let before = told();
    std::fs::write(world.path("f").as_path(), "two").unwrap();
    drop(watch);
    drop(engine);
    assert_eq!(told(), before);
}
