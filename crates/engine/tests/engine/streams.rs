//! A source of events that a resource has of its own, and that breaks.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{LOG, TestEnv, wait};
use mgmt_engine::{Engine, EngineEvent, EngineSettings, Level};
use mgmt_resource::{
    Background, Cancel, Checked, Context, Invalid, Kind, Nothing, Registry, Resource, ResourceGraph, Result,
    Spec, Watch, WatchStream, schema_of,
};
use mgmt_value::Str;
use tokio::sync::mpsc::UnboundedReceiver;

/// Has a source that panics, for so many times, and then tells something fifty times a second.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "startled")]
pub struct Startled {
    /// How often it panics when it starts.
    pub at_start: u64,
    /// How often it panics when it is asked for an event.
    pub later: u64,
    /// A file that it watches as well.
    pub path: Str,
}

/// One that panics, or not.
struct Source {
    panics: bool,
}

impl WatchStream for Source {
    fn next<'a>(&'a mut self, _: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            assert!(!self.panics, "told so");
            Ok(())
        })
    }
}

fn log(host: &mgmt_resource::Host, what: &str) -> usize {
    let mut log = LOG.lock().unwrap();
    let log = log.entry(host.hostname.clone()).or_default();
    log.push(what.to_owned());
    log.iter().filter(|line| *line == what).count()
}

impl Kind for Startled {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        Ok(())
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        let Startled { at_start, later, .. } = *self;
        let start = move |host: &mgmt_resource::Host| -> Result<Box<dyn WatchStream>> {
            let times = u64::try_from(log(host, "start")).unwrap();
            assert!(times > at_start, "told so at the start");
            Ok(Box::new(Source { panics: times <= at_start + later }))
        };
        let mut watches = vec![Watch::Stream { key: name.clone(), start: Arc::new(start) }];
        if !self.path.is_empty() {
            watches.push(Watch::Path { path: self.path.clone(), recursive: false });
        }
        watches
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        log(cx.host, "run");
        Ok(Checked::Right)
    }
}

/// Has a worker that panics.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "orphan", background)]
pub struct Orphan {
    /// It says that it is ready before.
    pub late: bool,
}

static LATE: AtomicUsize = AtomicUsize::new(0);

impl Kind for Orphan {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        Ok(())
    }

    async fn background(mut work: Background) -> Result<()> {
        if LATE.load(Ordering::SeqCst) > 0 {
            work.ready();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("told so")
    }

    async fn check_apply(&self, (): &mut (), _: &mut Context<'_>) -> Result<Checked> {
        Ok(Checked::Right)
    }
}

fn start(world: &TestEnv) -> (Engine, UnboundedReceiver<EngineEvent>) {
    Engine::start(EngineSettings {
        host: world.host.clone(),
        registry: Registry::new(&[schema_of::<Startled>, schema_of::<Orphan>]),
        preparation: world.preparation.clone(),
        converge_after: None,
        threads: Some(2),
        export: None,
        witness: None,
        journal: None,
        dot: false,
        slow_down: false,
    })
    .unwrap()
}

fn panicking(at_start: u64, later: u64) -> Startled {
    Startled { at_start, later, ..Startled::default() }
}

async fn swap(engine: &Engine, startled: Startled, retry: Option<i16>) {
    let mut graph = ResourceGraph::new();
    let node = graph.add_node(Spec::new("a", startled));
    let meta = &mut graph.node_mut(node).unwrap().meta;
    meta.retry = retry;
    meta.delay = 1;
    engine.swap(graph).await.unwrap();
}

fn stop(engine: &Engine) -> mgmt_engine::Summary {
    engine.stop(Level::Graceful);
    tokio::task::block_in_place(|| engine.wait())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_panics_is_started_again_and_then_heard() {
    for startled in [panicking(2, 0), panicking(0, 2)] {
        let world = TestEnv::new();
        let (engine, _events) = start(&world);
        swap(&engine, startled, Some(5)).await;
        wait(|| world.count("start") == 3, "the third start").await;
        // The first run is for the start, and more are for what it has told.
        let before = world.count("run");
        wait(|| world.count("run") > before + 2, "events are heard again").await;
        assert_eq!(stop(&engine).failed, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_panics_for_ever_is_failing_and_backs_off() {
    for startled in [panicking(1000, 0), panicking(0, 1000)] {
        let world = TestEnv::new();
        let (engine, _events) = start(&world);
        let began = std::time::Instant::now();
        swap(&engine, startled, Some(3)).await;
        // Four starts are declared, and each of the others waits for twice as long.
        wait(|| world.count("start") >= 6, "the starts after those that are declared").await;
        assert!(began.elapsed() > std::time::Duration::from_millis(2250), "{:?}", began.elapsed());
        assert!(engine.is_alive().await);
        // One that starts counts as well until it has panicked.
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        assert_eq!(stop(&engine).failed, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_else_is_watched_is_heard_while_a_source_is_broken() {
    let world = TestEnv::new();
    let (engine, _events) = start(&world);
    swap(&engine, Startled { path: world.path("file"), ..panicking(6, 0) }, Some(0)).await;
    // By then, the next attempt by time is three seconds or more away.
    wait(|| world.count("start") == 3, "the backoff").await;
    let began = std::time::Instant::now();
    for starts in 4..=7 {
        std::fs::write(world.directory.path().join("file"), "event").unwrap();
        wait(|| world.count("start") >= starts, "the attempt that an event leads to").await;
    }
    wait(|| world.count("run") > 0, "the run").await;
    assert!(began.elapsed() < std::time::Duration::from_secs(12), "{:?}", began.elapsed());
    assert_eq!(stop(&engine).failed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_panics_ends_the_program_with_a_failure() {
    for late in [false, true] {
        let world = TestEnv::new();
        LATE.store(usize::from(late), Ordering::SeqCst);
        let (engine, _events) = start(&world);
        let mut exit = world.host.exit.subscribe();
        let mut graph = ResourceGraph::new();
        graph.add_node(Spec::new("a", Orphan { late }));
        engine.swap(graph).await.unwrap();
        let asked = exit.wait_for(Option::is_some);
        let asked = tokio::time::timeout(std::time::Duration::from_secs(20), asked)
            .await
            .expect("nobody hears of it");
        assert_eq!(*asked.unwrap(), Some(1));
        stop(&engine);
    }
}
