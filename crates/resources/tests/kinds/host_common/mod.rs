//! A host whose accounts, names and kernel settings may be changed: a view of this machine on which every change is thrown
//! away, with a name and a network of its own; and an engine that runs there.
#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

pub(crate) use crate::engine_common;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mgmt_engine::{Engine, EngineEvent, Level, Preparation, prepare};
use mgmt_resource::{Host, ResourceGraph, Spec};
use mgmt_test_support::sandbox::Sandbox;
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;

/// True on such a host. Outside, runs the test `name` again on one and is false.
#[track_caller]
pub(crate) fn on_own_host(name: &str) -> bool {
    let prepare = "hostname test-host";
    Sandbox { apart: true, prepare, ..Sandbox::default() }.is_around(name)
}

/// Runs a program that must succeed, and gives what it says.
#[track_caller]
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Runs a text in a shell; it must succeed.
#[track_caller]
pub(crate) fn shell(text: &str) -> String {
    run("sh", &["-ec", text])
}

/// Does something to the host that mgmt will put right, and perhaps while it is being done: what was in the way of it (`rm -r`
/// finds a file that is back already) is tried again.
#[track_caller]
pub(crate) fn disturb(text: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let told = output("sh", &["-ec", text]);
        if told.status.success() {
            return;
        }
        assert!(Instant::now() < end, "{text}: {}", String::from_utf8_lossy(&told.stderr));
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn output(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output();
    output.unwrap_or_else(|error| panic!("this test needs {program}: {error}"))
}

/// Everything below some paths, with size and time of the last change. Inode numbers do not count: on an overlay file system a file
/// or directory has another one once the kernel has forgotten it.
pub(crate) fn snapshot(paths: &[&str]) -> BTreeMap<PathBuf, (u64, i64, i64)> {
    let mut seen = BTreeMap::new();
    let mut pending: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    while let Some(path) = pending.pop() {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if found.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        seen.insert(path, (found.size(), found.ctime(), found.ctime_nsec()));
    }
    seen
}

/// What has failed for good, for whoever waits in vain.
static FAILURES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A running engine.
pub(crate) struct RunningEngine {
    directory: TempDir,
    host: Arc<Host>,
    engine: Engine,
    events: UnboundedReceiver<EngineEvent>,
}

impl RunningEngine {
    pub(crate) fn start() -> RunningEngine {
        let directory = tempfile::tempdir().unwrap();
        let (host, engine, mut told) = engine_common::start(directory.path(), Preparation::default());
        let (sender, events) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(event) = told.recv().await {
                if let EngineEvent::Failed { id, message } = &event {
                    FAILURES.lock().unwrap().push(format!("{id}: {message}"));
                }
                let _ = sender.send(event);
            }
        });
        RunningEngine { directory, host, engine, events }
    }

    /// What resources see of the program.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Where resources keep their state.
    pub(crate) fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// A path in a directory of the test's own.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let directory = self.directory.path().join("test");
        fs::create_dir_all(&directory).unwrap();
        directory.join(name)
    }

    /// Takes another graph, and waits until all is done.
    pub(crate) async fn swap(&mut self, specs: Vec<Spec>) {
        self.swap_graph(graph(specs)).await;
    }

    pub(crate) async fn swap_graph(&mut self, graph: ResourceGraph) {
        self.engine.swap(graph).await.unwrap();
        let converged = async { while self.events.recv().await.unwrap() != EngineEvent::Converged {} };
        tokio::time::timeout(Duration::from_secs(60), converged).await.expect("it does not converge");
    }

    pub(crate) fn stop(self) {
        self.engine.stop(Level::Graceful);
        tokio::task::block_in_place(|| self.engine.wait());
    }
}

pub(crate) fn graph(specs: Vec<Spec>) -> ResourceGraph {
    let mut graph = ResourceGraph::default();
    for mut spec in specs {
        // Tests break things while they are being repaired, over and over; what fails because of that is tried again.
        if spec.meta.retry.is_none() {
            (spec.meta.retry, spec.meta.delay) = (Some(-1), 100);
        }
        graph.add_node(spec);
    }
    graph
}

/// The automatic edges.
pub(crate) fn edges(specs: Vec<Spec>) -> Vec<String> {
    let prepared = prepare(graph(specs), Vec::new(), &Preparation::default()).unwrap();
    let graph = &prepared.graph;
    let name = |node| graph.node(node).unwrap().id.to_string();
    let mut edges: Vec<String> = graph
        .nodes()
        .flat_map(|(from, _)| graph.successors(from).map(move |(to, _)| (from, to)))
        .map(|(from, to)| format!("{} -> {}", name(from), name(to)))
        .collect();
    edges.sort();
    edges
}

/// Waits until something is so. Nothing but events leads to a check, so this waits for an event and what follows.
pub(crate) async fn soon(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain: {what}; failed: {:?}", FAILURES.lock().unwrap());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn text(path: &Path) -> mgmt_value::Str {
    path.to_str().unwrap().into()
}
