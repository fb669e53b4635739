//! Resources that Puppet brings about.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod common;
mod engine_common;

use std::path::Path;
use std::time::Duration;

use common::{Bench, Run, refused};
use mgmt_engine::{EngineEvent, Level, Preparation};
use mgmt_resource::{Checked, Edge, Kind, ResourceGraph, Spec};
use mgmt_resources::pippet::Pippet;
use mgmt_value::Str;

fn pippet(kind: &str, title: &str, params: &str) -> Pippet {
    Pippet { r#type: kind.into(), title: title.into(), params: Str::from(params), ..Pippet::default() }
}

fn file(path: &Path, content: &str) -> Pippet {
    pippet("file", path.to_str().unwrap(), &format!(r#"{{"content":"{content}"}}"#))
}

#[tokio::test(flavor = "multi_thread")]
async fn puppet_brings_a_resource_about_and_finds_it_right_afterwards() {
    let (bench, place) = (Bench::new(), tempfile::tempdir().unwrap());
    let path = place.path().join("a");
    let mut vertex = bench.vertex("a", file(&path, "one"));
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert!(!path.exists(), "looking has changed something");
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(vertex.look().await.checked(), Checked::Right);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_refreshes() {
    let (bench, place) = (Bench::new(), tempfile::tempdir().unwrap());
    let path = place.path().join("a");
    let params =
        format!(r#"{{"command":"echo x >> {}","provider":"shell","refreshonly":true}}"#, path.display());
    let mut vertex = bench.vertex("a", pippet("exec", "a", &params));
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert!(!path.exists());
    let look = Run { apply: false, ..Run::REFRESH };
    assert_eq!(vertex.run(look).await.checked(), Checked::Changed);
    assert!(!path.exists());
    assert_eq!(vertex.run(Run::REFRESH).await.checked(), Checked::Changed);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_it_failed_is_told() {
    let bench = Bench::new();
    for (resource, expected) in [
        (pippet("nonsense", "a", "{}"), "there is no type nonsense"),
        (pippet("file", "relative", "{}"), "File paths must be fully qualified"),
        (pippet("exec", "/bin/false", "{}"), "/bin/false"),
        (pippet("file", "/tmp/a", r#"{"conent":"x"}"#), "conent"),
    ] {
        let error = bench.vertex("a", resource).apply().await.error();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let params = |params: &str| pippet("file", "/a", params);
    assert!(refused(&params("[]")).contains("map in JSON"));
    assert!(refused(&params("{")).contains("map in JSON"));
    assert!(refused(&pippet("", "a", "")).contains("`type`"));
    assert!(refused(&pippet("a", "", "")).contains("`title`"));
    assert!(refused(&Pippet { settings: vec!["x".into()], ..params("") }).contains("NAME=VALUE"));
    assert!(Kind::validate(&params(""), &"a".into()).is_ok());
    let (one, other) = (params(r#"{"a":1,"b":2}"#), params("{ \"b\": 2, \"a\": 1 }"));
    assert!(Kind::equivalent(&one, &"a".into(), &other) && !Kind::equivalent(&one, &"a".into(), &params("")));
    assert!(!format!("{:?}", params(r#"{"a":"hush"}"#)).contains("hush"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_share_one_process_that_may_die() {
    let place = tempfile::tempdir().unwrap();
    let (_host, engine, mut events) = engine_common::start(place.path(), Preparation::default());
    let conf = place.path().join("puppet.conf");
    std::fs::write(&conf, "").unwrap();
    let conf = Str::from(conf.to_str().unwrap());
    let mut graph = ResourceGraph::new();
    for number in 0..100 {
        let path = place.path().join(format!("f{number}"));
        graph.add_node(Spec::new(format!("{number}"), Pippet { conf: conf.clone(), ..file(&path, "x") }));
    }
    // One that comes last, and ends the process in the middle of its own work the first time.
    let mark = place.path().join("mark");
    let command = format!("test -e {0} || {{ touch {0}; kill -KILL $PPID; sleep 5; }}", mark.display());
    let params = format!(r#"{{"command":"{command}","provider":"shell"}}"#);
    let last =
        graph.add_node(Spec::new("last", Pippet { conf: conf.clone(), ..pippet("exec", "last", &params) }));
    let first = graph.nodes().map(|(id, _)| id).find(|id| *id != last).unwrap();
    graph.set_edge(first, last, Edge::ORDER);
    engine.swap(graph).await.unwrap();
    let converged = async {
        while let Some(event) = events.recv().await {
            match event {
                EngineEvent::Converged => return,
                EngineEvent::Failed { id, .. } => panic!("{id} has failed"),
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(120), converged).await.expect("never converged");
    assert!((0..100).all(|number| place.path().join(format!("f{number}")).exists()));
    assert!(mark.exists());
    let processes = || processes_with(&conf);
    assert_eq!(processes(), 1, "they share one process");
    // It ends with the last of them.
    engine.swap(ResourceGraph::new()).await.unwrap();
    let ended = async {
        while processes() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the process stays");
    engine.stop(Level::Graceful);
}

/// How many living processes have this among their arguments.
fn processes_with(argument: &Str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())).count()
}
