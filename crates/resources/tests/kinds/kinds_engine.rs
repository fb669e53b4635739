//! `exec`, `line`, `kv`, `pkg`, `timer` and `value` in a running engine: what is broken from outside is repaired by an event, and the order comes
//! by itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::engine_common;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgmt_engine::{Engine, EngineEvent, Level, Preparation, prepare};
use mgmt_resource::{Edge, Host, ResourceGraph, Spec};
use mgmt_resources::exec::Exec;
use mgmt_resources::file::File;
use mgmt_resources::kv::Kv;
use mgmt_resources::line::Line;
use mgmt_resources::pkg::Pkg;
use mgmt_resources::schedule::Schedule;
use mgmt_resources::timer::Timer;
use mgmt_resources::value::Value as Kept;
use mgmt_store::Offer;
use mgmt_store::{Effect, Transaction};
use mgmt_test_support::package_source::{
    Package, PackageSource, in_sandbox, package_state, run, transactions,
};
use mgmt_value::{Str, Value};
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;

struct Running {
    directory: TempDir,
    host: Arc<Host>,
    engine: Engine,
    events: UnboundedReceiver<EngineEvent>,
}

impl Running {
    fn start() -> Running {
        let directory = tempfile::tempdir().unwrap();
        let (host, engine, events) = engine_common::start(directory.path(), Preparation::default());
        Running { directory, host, engine, events }
    }

    /// A path in a directory of the test's own.
    fn path(&self, name: &str) -> PathBuf {
        let directory = self.directory.path().join("test");
        fs::create_dir_all(&directory).unwrap();
        directory.join(name)
    }

    async fn swap(&mut self, specs: Vec<Spec>) {
        self.engine.swap(graph(specs)).await.unwrap();
        self.converged().await;
    }

    async fn converged(&mut self) {
        let converged = async { while self.events.recv().await.unwrap() != EngineEvent::Converged {} };
        tokio::time::timeout(Duration::from_secs(60), converged).await.expect("it does not converge");
    }

    fn stop(self) {
        self.engine.stop(Level::Graceful);
        tokio::task::block_in_place(|| self.engine.wait());
    }
}

fn graph(specs: Vec<Spec>) -> ResourceGraph {
    let mut graph = ResourceGraph::default();
    for spec in specs {
        graph.add_node(spec);
    }
    graph
}

/// The automatic edges and the number of resources that were grouped into others.
fn prepared(specs: Vec<Spec>) -> (Vec<String>, usize) {
    let prepared = prepare(graph(specs), Vec::new(), &Preparation::default()).unwrap();
    let graph = &prepared.graph;
    let name = |node| graph.node(node).unwrap().id.to_string();
    let mut edges: Vec<String> = graph
        .nodes()
        .flat_map(|(from, _)| graph.successors(from).map(move |(to, _)| (from, to)))
        .map(|(from, to)| format!("{} -> {}", name(from), name(to)))
        .collect();
    edges.sort();
    (edges, prepared.grouped)
}

async fn soon(what: &str, is_so: impl AsyncFn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so().await {
        assert!(Instant::now() < end, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn text(path: &std::path::Path) -> Str {
    path.to_str().unwrap().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_somebody_removes_comes_back_whichever_way_it_went() {
    let mut running = Running::start();
    let file = running.path("hosts");
    fs::write(&file, "one\n").unwrap();
    let line = Line { file: text(&file), state: "exists".into(), content: "two".into(), ..Line::default() };
    let unwanted = Line { state: "absent".into(), content: "three".into(), ..line.clone() };
    running.swap(vec![Spec::new("a", line), Spec::new("b", unwanted)]).await;
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n");
    let repaired = async |what: &str, expected: &str| {
        soon(what, async || fs::read_to_string(&file).is_ok_and(|text| text == expected)).await;
    };
    fs::write(&file, "one\nthree\n").unwrap();
    repaired("written in place", "one\ntwo\n").await;
    fs::write(file.with_extension("new"), "1\n").unwrap();
    fs::rename(file.with_extension("new"), &file).unwrap();
    repaired("replaced", "1\ntwo\n").await;
    fs::remove_file(&file).unwrap();
    repaired("removed", "two\n").await;
    fs::rename(&file, file.with_extension("old")).unwrap();
    repaired("moved away", "two\n").await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_that_go_with_what_is_in_them_come_back_with_it() {
    // A file hears of its own end before its directory hears of its own, or after; it must not give up for that.
    for _ in 0..4 {
        let mut running = Running::start();
        let outer = running.path("outer");
        let (inner, file) = (outer.join("inner"), outer.join("inner/file"));
        let exists = |content: Option<&str>| File {
            state: "exists".into(),
            content: content.map(Into::into),
            ..File::default()
        };
        let directory = |path: &std::path::Path| Spec::new(format!("{}/", path.display()), exists(None));
        let text = Spec::new(text(&file), exists(Some("text")));
        running.swap(vec![directory(&outer), directory(&inner), text]).await;
        // No oftener, or it is left alone for a while.
        for _ in 0..8 {
            // What comes back at once may be in the way of what removes it.
            let _ = fs::write(&file, "other").and_then(|()| fs::remove_dir_all(&outer));
            soon("all of it", async || fs::read_to_string(&file).is_ok_and(|text| text == "text")).await;
        }
        running.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_somebody_changes_is_set_again() {
    let mut running = Running::start();
    let kv = |value: &str| Kv { value: Some(value.into()), ..Kv::default() };
    running.swap(vec![Spec::new("a", kv("1")), Spec::new("b", Kv { mapped: true, ..kv("2") })]).await;
    let strings = running.host.strings();
    let (a, b, host) = (Str::from("a"), Str::from("b"), Str::from("host.example.com"));
    for wrong in [Some(Str::from("x")), None] {
        strings.set_shared(&a, wrong.as_ref()).await.unwrap();
        soon("a", async || strings.shared(&a).await.unwrap() == Some("1".into())).await;
        strings.set_of_host(&b, &host, wrong.as_ref()).await.unwrap();
        soon("b", async || strings.by_host(&b).await.unwrap().get(&host) == Some(&"2".into())).await;
    }
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_that_somebody_removes_is_made_again() {
    let mut running = Running::start();
    running.swap(vec![Spec::new("job", Schedule::default())]).await;
    let (world, name) = (mgmt_store::SharedState::of(&running.host).unwrap(), Str::from("job"));
    soon("it is chosen", async || world.scheduled(&name).unwrap().len() == 1).await;
    let key = "/host/host.example.com/volunteer/job";
    for effect in [
        Effect::Delete(key.to_owned()),
        Effect::Put { key: key.to_owned(), value: b"nonsense".to_vec(), lease: None },
    ] {
        let broken = Transaction { effects: vec![effect], ..Transaction::default() };
        world.store().commit(broken).await.unwrap();
        soon("it is as it was", async || !world.volunteer(&name, &Offer::default(), false).await.unwrap())
            .await;
        soon("it is chosen again", async || world.scheduled(&name).unwrap().len() == 1).await;
    }
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_somebody_changes_is_set_again() {
    let mut running = Running::start();
    let kept = |value| Kept { any: value };
    running.swap(vec![Spec::new("a", kept(Some(Value::Int(1)))), Spec::new("b", kept(None))]).await;
    let local = &running.host.local;
    let (a, b) = (Str::from("a"), Str::from("b"));
    for wrong in [Some(Value::Int(2)), Some(Value::str("other")), None] {
        local.value_set(&a, wrong.as_ref()).unwrap();
        soon("a", async || local.value_get(&a).unwrap() == Some(Value::Int(1))).await;
    }
    local.value_set(&b, Some(&Value::Bool(true))).unwrap();
    soon("b", async || local.value_get(&b).unwrap().is_none()).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_goes_on_by_itself_and_each_tick_notifies() {
    let mut running = Running::start();
    let ticks = running.path("ticks");
    let noted = Exec {
        cmd: format!("echo tick >>{}", ticks.display()).into(),
        shell: "/bin/sh".into(),
        refreshonly: true,
        ..Exec::default()
    };
    let mut graph = graph(vec![Spec::new("noted", noted), Spec::new("each second", Timer { interval: 1 })]);
    let find =
        |kind: &str| graph.nodes().find(|(_, spec)| spec.id.kind == kind).map(|(node, _)| node).unwrap();
    let (timer, exec) = (find("timer"), find("exec"));
    graph.merge_edge(timer, exec, Edge::NOTIFY, Edge::merge);
    running.engine.swap(graph).await.unwrap();
    let count = || fs::read_to_string(&ticks).unwrap_or_default().lines().count();
    running.converged().await;
    assert_eq!(count(), 0, "the first run only begins");
    for wanted in 1..=3 {
        soon("another tick", async || count() >= wanted).await;
    }
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_again_whenever_what_it_watches_calls_for_it() {
    let mut running = Running::start();
    let (made, watched, asked) = (running.path("made"), running.path("watched"), running.path("asked"));
    let sh = |text: String| Exec { cmd: text.into(), shell: "/bin/sh".into(), ..Exec::default() };
    let creates = Exec { creates: text(&made), ..sh(format!("echo made >{}", made.display())) };
    // Both repair the same way: one is told by a file, the other by a command that goes on.
    let right = running.path("right");
    let guarded = |own: &str| Exec {
        ifcmd: format!("! test -e {}.{own}", right.display()).into(),
        ifshell: "/bin/sh".into(),
        ..sh(format!("echo right >{}.{own}", right.display()))
    };
    let by_file = Exec { watchfiles: vec![text(&watched)], ..guarded("file") };
    let listen = format!("touch {0}; exec tail -n 0 -f {0}", asked.display());
    let by_command = Exec { watchcmd: listen.into(), watchshell: "/bin/sh".into(), ..guarded("command") };
    running.swap(vec![Spec::new("a", creates), Spec::new("b", by_file), Spec::new("c", by_command)]).await;
    for _ in 0..2 {
        fs::remove_file(&made).unwrap();
        soon("what was made is made again", async || made.exists()).await;
        for (own, event) in [("file", &watched), ("command", &asked)] {
            let right = running.path(&format!("right.{own}"));
            fs::remove_file(&right).unwrap();
            soon(own, async || {
                let mut event = fs::OpenOptions::new().append(true).create(true).open(event).unwrap();
                std::io::Write::write_all(&mut event, b"now\n").unwrap();
                right.exists()
            })
            .await;
        }
    }
    running.stop();
}

#[test]
fn a_line_comes_after_its_file_and_the_directory_of_it() {
    let line = |file: &str| Line {
        file: file.into(),
        state: "exists".into(),
        content: "a".into(),
        ..Line::default()
    };
    let file = || File { state: "exists".into(), ..File::default() };
    let (edges, grouped) = prepared(vec![
        Spec::new("/a/", file()),
        Spec::new("/a/b", file()),
        Spec::new("one", line("/a/b")),
        Spec::new("two", line("/a/c")),
    ]);
    let expected = [
        "file[/a/] -> file[/a/b]",
        "file[/a/] -> line[one]",
        "file[/a/] -> line[two]",
        "file[/a/b] -> line[one]",
    ];
    assert_eq!((edges, grouped), (expected.map(str::to_owned).into(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_are_installed_together_and_come_back_when_somebody_removes_them() {
    if !in_sandbox("packages_are_installed_together_and_come_back_when_somebody_removes_them") {
        return;
    }
    let mut source = PackageSource::new();
    for name in ["demo-a", "demo-b", "demo-c"] {
        source.publish(&Package::new(name, "1.0"));
    }
    run("apt-get", &["--quiet", "update"]);
    let mut running = Running::start();
    let before = transactions();
    let pkg = |state: &str| Pkg { state: state.into(), ..Pkg::default() };
    running
        .swap(vec![
            Spec::new("demo-a", pkg("installed")),
            Spec::new("demo-b", pkg("installed")),
            Spec::new("demo-c", pkg("newest")),
        ])
        .await;
    assert_eq!(transactions() - before, 2, "one for each state");
    for name in ["demo-a", "demo-b", "demo-c"] {
        assert_eq!(package_state(name), "installed 1.0");
    }
    run("dpkg", &["--remove", "demo-b"]);
    soon("reinstalled", async || package_state("demo-b") == "installed 1.0").await;
    source.publish(&Package::new("demo-c", "2.0"));
    source.publish(&Package::new("demo-a", "2.0"));
    run("apt-get", &["--quiet", "update"]);
    soon("upgraded", async || package_state("demo-c") == "installed 2.0").await;
    running.stop();
    assert_eq!(package_state("demo-a"), "installed 1.0", "this one may have any version");
}

#[test]
fn an_installed_package_comes_before_everything_that_it_brings() {
    if !in_sandbox("an_installed_package_comes_before_everything_that_it_brings") {
        return;
    }
    let mut source = PackageSource::new();
    let files = [("/etc/demo/demo.conf", "a\n"), ("/srv/demo/data", "")];
    source.publish(&Package { files: &files, ..Package::new("demo", "1.0") });
    run("apt-get", &["--quiet", "update"]);
    let specs = || {
        let line = Line {
            file: "/etc/demo/demo.conf".into(),
            state: "exists".into(),
            content: "b".into(),
            ..Line::default()
        };
        vec![
            Spec::new("demo", Pkg::default()),
            Spec::new("bash", Pkg::default()),
            Spec::new("/etc/demo/demo.conf", File { state: "exists".into(), ..File::default() }),
            Spec::new("/srv/", File { mode: "0755".into(), ..File::default() }),
            Spec::new("/etc/other", File { state: "exists".into(), ..File::default() }),
            Spec::new("run", Exec { cmd: "/bin/demo".into(), ..Exec::default() }),
            Spec::new("line", line),
        ]
    };
    let (edges, grouped) = prepared(specs());
    assert_eq!((edges, grouped), (vec!["file[/etc/demo/demo.conf] -> line[line]".to_owned()], 1));
    run("apt-get", &["--quiet", "--yes", "install", "demo"]);
    let (edges, grouped) = prepared(specs());
    let expected = [
        "file[/etc/demo/demo.conf] -> line[line]",
        "pkg[demo] -> exec[run]",
        "pkg[demo] -> file[/etc/demo/demo.conf]",
        "pkg[demo] -> file[/srv/]",
        "pkg[demo] -> line[line]",
    ];
    assert_eq!((edges, grouped), (expected.map(str::to_owned).into(), 1));
}

#[test]
fn two_declarations_of_a_package_become_one_if_they_agree_in_everything_else() {
    let spec = |state: &str| Spec::new("a", Pkg { state: state.into(), ..Pkg::default() });
    let state = |spec: &Spec| spec.resource.get("state").unwrap().to_string();
    let merged = spec("installed").merged(&spec("newest")).unwrap();
    assert_eq!(state(&merged), "\"newest\"");
    assert!(spec("installed").merged(&spec("installed")).is_some());
    assert!(spec("installed").merged(&spec("uninstalled")).is_none());
    let mut noop = spec("newest");
    noop.meta.noop = true;
    assert!(spec("installed").merged(&noop).is_none());
    assert!(spec("installed").merged(&Spec::new("a", File::default())).is_none());
}
