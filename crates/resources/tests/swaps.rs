//! Ten thousand graphs, one after the other: nothing is left of those that have gone.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod engine_common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgmt_engine::{EngineEvent, Level, Preparation};
use mgmt_resource::{Registry, ResourceGraph, Spec};
use mgmt_resources::KINDS;
use mgmt_value::{Str, Value};

const SWAPS: usize = 10_000;

/// What a process can run out of.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    descriptors: usize,
    inotify_watches: usize,
    threads: usize,
    tasks: usize,
    children: usize,
}

fn held() -> Held {
    let count = |directory: &str| fs::read_dir(directory).unwrap().count();
    let watches = |name: fs::DirEntry| {
        let info =
            fs::read_to_string(Path::new("/proc/self/fdinfo").join(name.file_name())).unwrap_or_default();
        info.lines().filter(|line| line.starts_with("inotify ")).count()
    };
    let children = fs::read_dir("/proc/self/task").unwrap().map(|task| {
        let list = fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
        list.split_whitespace().count()
    });
    Held {
        descriptors: count("/proc/self/fd"),
        inotify_watches: fs::read_dir("/proc/self/fd").unwrap().map(|entry| watches(entry.unwrap())).sum(),
        threads: count("/proc/self/task"),
        tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        children: children.sum(),
    }
}

fn spec(kinds: &Registry, kind: &str, name: &str, fields: &[(&str, Value)]) -> Spec {
    let mut resource = (kinds.get(kind).unwrap().make)();
    for (field, value) in fields {
        resource.set(field, value).unwrap_or_else(|| panic!("{kind} has no {field}")).unwrap();
    }
    Spec::of(name, Arc::from(resource))
}

/// One of every kind that can run anywhere, so that each of their sources of events is opened.
fn one_of_each(directory: &Path) -> ResourceGraph {
    let text = |name: &str| Str::from(directory.join(name).to_str().unwrap());
    let str = |text: &str| Value::Str(Str::from(text));
    let mut graph = ResourceGraph::new();
    let name = |name: &str| text(name).to_text().into_owned();
    for spec in [
        spec(&KINDS, "noop", "noop", &[]),
        spec(&KINDS, "print", "print", &[("msg", str("text"))]),
        spec(&KINDS, "test", "test", &[]),
        spec(&KINDS, "value", "value", &[("any", Value::Int(1))]),
        spec(&KINDS, "timer", "timer", &[("interval", Value::Int(3600))]),
        spec(&KINDS, "kv", "kv", &[("value", str("text"))]),
        spec(&KINDS, "file", &name("file"), &[("state", str("exists")), ("content", str("text"))]),
        spec(&KINDS, "file", &name("tree/"), &[("state", str("exists")), ("recurse", Value::Bool(true))]),
        spec(
            &KINDS,
            "line",
            "line",
            &[("file", Value::Str(text("lines"))), ("state", str("exists")), ("content", str("a line"))],
        ),
        spec(
            &KINDS,
            "exec",
            "exec",
            &[("cmd", str("/bin/true")), ("ifcmd", str("/bin/false")), ("watchcmd", str("/bin/sleep 3600"))],
        ),
    ] {
        graph.add_node(spec);
    }
    graph
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_ten_thousand_graphs() {
    let directory = tempfile::tempdir().unwrap();
    let (_, engine, mut events) = engine_common::start(directory.path(), Preparation::default());
    let work = directory.path().join("work");
    fs::create_dir_all(work.join("tree")).unwrap();
    let mut before = None;
    for swap in 0..SWAPS / 2 {
        engine.swap(one_of_each(&work)).await.unwrap();
        // Some run to their end, others are taken away at once.
        if swap % 50 == 0 {
            while events.recv().await.unwrap() != EngineEvent::Converged {}
        }
        engine.swap(ResourceGraph::new()).await.unwrap();
        if swap == 100 {
            before = Some(at_rest().await);
        }
        while events.try_recv().is_ok() {}
    }
    let (before, after) = (before.unwrap(), at_rest().await);
    assert_eq!(after, before);
    engine.stop(Level::Graceful);
    tokio::task::block_in_place(|| engine.wait());
}

/// What is held when nothing changes any more: what was taken away may need a moment to go.
async fn at_rest() -> Held {
    let end = Instant::now() + Duration::from_secs(30);
    let mut last = held();
    let mut same = 0;
    while same < 20 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let now = held();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}
