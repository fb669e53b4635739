//! Which threads do the runs that make system calls: they do not wait for each other, and nobody is woken needlessly.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use crate::common::{TestEnv, wait};
use mgmt_engine::{Engine, EngineEvent, EngineSettings, Level};
use mgmt_resource::{
    Checked, Context, Edge, Error, Invalid, Kind, Nothing, Registry, Resource, ResourceGraph, Result, Spec,
    Watch, schema_of,
};
use mgmt_value::Str;
use tokio::sync::mpsc::UnboundedReceiver;

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
    let world = TestEnv::new();
    let (engine, events) = start(&world, usize::try_from(THREADS).unwrap());
    let mut graph = ResourceGraph::new();
    for number in 0..THREADS {
        graph.add_node(Spec::new(number.to_string().as_str(), Meets { count: THREADS }));
    }
    converge(&engine, events, graph).await;
    stop(&engine);
}

type Events = UnboundedReceiver<EngineEvent>;

fn start(world: &TestEnv, threads: usize) -> (Engine, Events) {
    Engine::start(EngineSettings {
        host: world.host.clone(),
        registry: Registry::new(&[
            schema_of::<Meets>,
            schema_of::<Held>,
            schema_of::<Noted>,
            schema_of::<Turn>,
        ]),
        preparation: world.preparation.clone(),
        converge_after: Some(Duration::ZERO),
        threads: Some(threads),
        export: None,
        witness: None,
        journal: None,
        dot: false,
        slow_down: false,
    })
    .unwrap()
}

async fn converge(engine: &Engine, mut events: Events, graph: ResourceGraph) {
    engine.swap(graph).await.unwrap();
    let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await.unwrap();
    assert_eq!(event, Some(EngineEvent::Converged));
}

fn stop(engine: &Engine) {
    engine.stop(Level::Graceful);
    tokio::task::block_in_place(|| engine.wait());
}

/// Blocks its thread as long as its file says so.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "held", blocking)]
pub struct Held {
    /// The file: `hold` blocks, anything else is counted.
    pub path: Str,
}

/// How many runs are held, and how many saw something else than `hold`.
static HELD: AtomicUsize = AtomicUsize::new(0);
static FREE: AtomicUsize = AtomicUsize::new(0);

impl Kind for Held {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        Ok(())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        vec![Watch::Path { path: self.path.clone(), recursive: false }]
    }

    async fn check_apply(&self, (): &mut (), _: &mut Context<'_>) -> Result<Checked> {
        let holds = || std::fs::read(self.path.as_path()).is_ok_and(|text| text == b"hold");
        if !holds() {
            FREE.fetch_add(1, Ordering::SeqCst);
            return Ok(Checked::Right);
        }
        HELD.fetch_add(1, Ordering::SeqCst);
        while holds() {
            std::thread::sleep(Duration::from_millis(1));
        }
        HELD.fetch_sub(1, Ordering::SeqCst);
        Ok(Checked::Right)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_seen_while_whoever_saw_the_last_one_is_held_up_by_it() {
    const THREADS: usize = 3;
    let world = TestEnv::new();
    let (engine, events) = start(&world, THREADS);
    let mut graph = ResourceGraph::new();
    let files: Vec<Str> = (0..=THREADS).map(|number| world.path(&format!("f{number}"))).collect();
    for path in &files {
        graph.add_node(Spec::new(path.clone(), Held { path: path.clone() }));
    }
    converge(&engine, events, graph).await;
    // All but one of the threads, one after the other.
    for (held, path) in files.iter().take(THREADS - 1).enumerate() {
        std::fs::write(path.as_path(), "hold").unwrap();
        wait(|| HELD.load(Ordering::SeqCst) == held + 1, "one more is held").await;
    }
    let last = files[THREADS].as_path();
    for round in 0..5 {
        let before = FREE.load(Ordering::SeqCst);
        std::fs::write(last, format!("round {round}")).unwrap();
        wait(|| FREE.load(Ordering::SeqCst) > before, "the event of another resource").await;
    }
    // Now all of them, and one more: it waits until there is a thread for it.
    std::fs::write(files[THREADS - 1].as_path(), "hold").unwrap();
    wait(|| HELD.load(Ordering::SeqCst) == THREADS, "all are held").await;
    let before = FREE.load(Ordering::SeqCst);
    std::fs::write(last, "at last").unwrap();
    files.iter().take(THREADS).for_each(|path| std::fs::write(path.as_path(), "go").unwrap());
    wait(|| FREE.load(Ordering::SeqCst) > before, "the event that came while all were held").await;
    stop(&engine);
}

/// Notes the thread that it runs on.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "noted", blocking)]
pub struct Noted {}

static THREADS_OF_CHAIN: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());

impl Kind for Noted {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        Ok(())
    }

    async fn check_apply(&self, (): &mut (), _: &mut Context<'_>) -> Result<Checked> {
        THREADS_OF_CHAIN.lock().unwrap().push(std::thread::current().id());
        Ok(Checked::Right)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_stays_on_the_thread_that_it_began_on() {
    const LENGTH: usize = 500;
    let world = TestEnv::new();
    let (engine, events) = start(&world, 4);
    let mut graph = ResourceGraph::new();
    let nodes: Vec<_> =
        (0..LENGTH).map(|n| graph.add_node(Spec::new(n.to_string().as_str(), Noted {}))).collect();
    for pair in nodes.windows(2) {
        graph.set_edge(pair[0], pair[1], Edge::ORDER);
    }
    converge(&engine, events, graph).await;
    stop(&engine);
    let threads = THREADS_OF_CHAIN.lock().unwrap();
    assert_eq!(threads.len(), LENGTH);
    // It may change when somebody else decides something at the same moment, as at the beginning.
    let changes = threads.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes < LENGTH / 2, "{changes} of {LENGTH}");
}

/// Notes whose turn it is.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "turn", blocking)]
pub struct Turn {
    /// The chain that it belongs to.
    pub chain: u64,
    /// It waits until the chains may begin.
    pub waits: bool,
}

static TURNS: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// Somebody waits, and: they may begin.
static WAITS: AtomicUsize = AtomicUsize::new(0);
static BEGUN: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

impl Kind for Turn {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        Ok(())
    }

    async fn check_apply(&self, (): &mut (), _: &mut Context<'_>) -> Result<Checked> {
        if self.waits {
            WAITS.fetch_add(1, Ordering::SeqCst);
            let (begun, told) = &BEGUN;
            let patience = Duration::from_secs(60);
            let wait = told.wait_timeout_while(begun.lock().unwrap(), patience, |begun| !*begun);
            assert!(!wait.unwrap().1.timed_out(), "nobody lets it begin");
        }
        TURNS.lock().unwrap().push(self.chain);
        Ok(Checked::Right)
    }
}

fn add_chain(graph: &mut ResourceGraph, chain: u64, length: usize, waits: bool) {
    let turn = |n: usize| Turn { chain, waits: waits && n == 0 };
    let nodes: Vec<_> =
        (0..length).map(|n| graph.add_node(Spec::new(format!("{chain} {n}").as_str(), turn(n)))).collect();
    for pair in nodes.windows(2) {
        graph.set_edge(pair[0], pair[1], Edge::ORDER);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_does_not_keep_out_what_waits_for_its_thread() {
    const LENGTH: usize = 300;
    let world = TestEnv::new();
    let (engine, events) = start(&world, 1);
    let mut graph = ResourceGraph::new();
    add_chain(&mut graph, 0, LENGTH, true);
    engine.swap(graph.clone()).await.unwrap();
    wait(|| WAITS.load(Ordering::SeqCst) == 1, "the first chain").await;
    add_chain(&mut graph, 1, LENGTH, false);
    let both = converge(&engine, events, graph);
    let begin = async {
        wait(|| engine.backlog().runs > 0, "the second chain").await;
        *BEGUN.0.lock().unwrap() = true;
        BEGUN.1.notify_all();
    };
    tokio::join!(both, begin);
    stop(&engine);
    let turns = TURNS.lock().unwrap();
    assert_eq!(turns.len(), 2 * LENGTH);
    let mut ahead = 0_i64;
    for (turn, chain) in turns.iter().enumerate() {
        ahead += if *chain == 0 { 1 } else { -1 };
        assert!(ahead.abs() <= 32, "one chain is {ahead} ahead after {turn} turns");
    }
}
