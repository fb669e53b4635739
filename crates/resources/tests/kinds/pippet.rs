//! Resources that Puppet brings about.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::engine_common;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{Run, TestEnv, refused};
use mgmt_engine::{EngineEvent, Level, Preparation};
use mgmt_resource::{Checked, Edge, Kind, Meta, ResourceGraph, Spec};
use mgmt_resources::pippet::Pippet;
use mgmt_value::Str;

fn pippet(kind: &str, title: &str, params: &str) -> Pippet {
    Pippet { r#type: kind.into(), title: title.into(), params: params.into(), ..Pippet::default() }
}

fn file(path: &Path, content: &str) -> Pippet {
    pippet("file", path.to_str().unwrap(), &format!(r#"{{"content":"{content}"}}"#))
}

#[tokio::test(flavor = "multi_thread")]
async fn puppet_brings_a_resource_about_and_finds_it_right_afterwards() {
    let (bench, place) = (TestEnv::new(), tempfile::tempdir().unwrap());
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
    let (bench, place) = (TestEnv::new(), tempfile::tempdir().unwrap());
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
async fn nothing_undeclared_is_removed_while_a_part_of_the_program_has_no_value() {
    let (bench, place) = (TestEnv::new(), tempfile::tempdir().unwrap());
    let at = |name: &str| place.path().join(name);
    let title = |name: &str| at(name).display().to_string();
    for name in ["d/stray", "t/old", "gone"] {
        std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        std::fs::write(at(name), "").unwrap();
    }
    let purge = r#"{"ensure":"directory","recurse":true,"purge":true,"ignore":"nothing"}"#;
    let purging = pippet("file", &title("d"), purge);
    let tidying = pippet("tidy", &title("t"), r#"{"recurse":true,"age":"0s","backup":"puppet"}"#);
    bench.host.incomplete.store(true, Ordering::Release);
    for resource in [&purging, &tidying] {
        let error = bench.vertex("a", resource.clone()).apply().await.error();
        assert!(error.contains("part of the program has no value yet"), "{error}");
    }
    assert!(at("d/stray").exists() && at("t/old").exists());
    // What is declared is brought about, and what is there for another reason than that nobody declares it.
    for (resource, path) in [(file(&at("new"), "x"), "new"), (pippet("file", &title("made"), purge), "made")]
    {
        assert_eq!(bench.vertex("a", resource).apply().await.checked(), Checked::Changed);
        assert!(at(path).exists());
    }
    let gone = pippet("file", &title("gone"), r#"{"ensure":"absent"}"#);
    assert_eq!(bench.vertex("a", gone).apply().await.checked(), Checked::Changed);
    assert!(!at("gone").exists());
    bench.host.incomplete.store(false, Ordering::Release);
    for (resource, path) in [(purging, "d/stray"), (tidying, "t/old")] {
        assert_eq!(bench.vertex("a", resource).apply().await.checked(), Checked::Changed);
        assert!(!at(path).exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn why_it_failed_is_told() {
    let bench = TestEnv::new();
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

#[tokio::test(flavor = "multi_thread")]
async fn what_puppet_has_to_know_of_besides_is_known_and_not_applied() {
    let (bench, place) = (TestEnv::new(), tempfile::tempdir().unwrap());
    let at = |name: &str| place.path().join(name).display().to_string();
    let with = |kind: &str, title: &str, params: &str, context: serde_json::Value| Pippet {
        context: Str::from(context.to_string()).into(),
        ..pippet(kind, title, params)
    };
    // What others manage below a directory is left to them.
    std::fs::create_dir(at("d")).unwrap();
    std::fs::write(at("d/mine"), "").unwrap();
    std::fs::write(at("d/other"), "").unwrap();
    let other = serde_json::json!([{ "type": "file", "title": at("d/other"), "parameters": {} }]);
    let params = r#"{"ensure":"directory","recurse":true,"purge":true,"ignore":"nothing"}"#;
    let mut vertex = bench.vertex("d", with("file", &at("d"), params, other));
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert!(Path::new(&at("d/mine")).exists());
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert!(!Path::new(&at("d/mine")).exists() && Path::new(&at("d/other")).exists());
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    // A schedule that is in the catalogue, and one that always is.
    let never = serde_json::json!([
        { "type": "schedule", "title": "no day", "parameters": { "weekday": [], "period": "never" }, "passive": true },
    ]);
    let late = format!(r#"{{"content":"x","schedule":"{}"}}"#, "no day");
    for vertex in [
        with("file", &at("a"), &late, never),
        pippet("file", &at("a"), r#"{"content":"x","schedule":"never"}"#),
    ] {
        assert_eq!(bench.vertex("a", vertex).apply().await.checked(), Checked::Right);
        assert!(!Path::new(&at("a")).exists());
    }
    // Fragments of a file.
    let fragments = serde_json::json!([
        { "type": "concat_fragment", "title": "one", "parameters": { "target": at("c"), "content": "a: {b: 1}", "order": "1" }, "passive": true },
        { "type": "concat_fragment", "title": "two", "parameters": { "target": at("c"), "content": "a: {c: 2}", "order": "2" }, "passive": true },
    ]);
    let mut vertex = bench.vertex("c", with("concat_file", &at("c"), r#"{"format":"yaml"}"#, fragments));
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(std::fs::read_to_string(at("c")).unwrap(), "---\na:\n  b: 1\n  c: 2\n");
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    // What is audited is not managed.
    let mut vertex = bench.vertex("e", pippet("file", &at("c"), r#"{"audit":["content","mode"]}"#));
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    // Purging spares what is managed. Only looked at: it is this machine's own file.
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap());
    let names: Vec<&str> = lines.filter_map(|line| line.split_whitespace().nth(1)).collect();
    let managed: Vec<_> = names
        .iter()
        .map(|name| serde_json::json!({ "type": "host", "title": name, "parameters": {} }))
        .collect();
    if !names.is_empty() {
        let purge =
            |context: Vec<serde_json::Value>| with("resources", "host", r#"{"purge":true}"#, context.into());
        assert_eq!(bench.vertex("p", purge(managed)).look().await.checked(), Checked::Right);
        assert_eq!(bench.vertex("p", purge(Vec::new())).look().await.checked(), Checked::Changed);
    }
}

/// How many living processes have this among their arguments.
fn processes_with(argument: &Str) -> usize {
    found_with(argument).len()
}

/// The living processes that have this among their arguments.
fn found_with(argument: &Str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |number: &u32| {
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
    };
    numbers.filter(is_one).collect()
}

/// Processes that have ended, and that nobody has asked about: our own, by the name of their program.
fn zombies() -> usize {
    let ours = format!("PPid:\t{}\n", std::process::id());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let states = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok());
    states
        .filter(|status| status.contains(&ours) && status.contains("State:\tZ") && status.contains("ruby"))
        .count()
}

/// Numbers that look random, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), wait)
        .await
        .unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

/// Kills a process that lives, a moment after there is one.
async fn kill_one(conf: &Str, victims: &mut Vec<u32>, random: &mut Random) {
    let living = |victims: &[u32]| found_with(conf).into_iter().find(|id| !victims.contains(id));
    until("a process is started", || living(victims).is_some()).await;
    tokio::time::sleep(Duration::from_millis(random.below(200))).await;
    until("a process lives", || living(victims).is_some()).await;
    let victim = living(victims).expect("it lived a moment ago");
    let id = rustix::process::Pid::from_raw(victim.cast_signed()).unwrap();
    let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
    victims.push(victim);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_a_hundred_times_at_random_it_still_brings_everything_about() {
    let seed = std::env::var("MGMT_SEED").map_or(7, |seed| seed.parse().unwrap());
    let mut random = Random(seed);
    let place = tempfile::tempdir().unwrap();
    let (_host, engine, mut events) = engine_common::start(place.path(), Preparation::default());
    let conf = place.path().join("puppet.conf");
    std::fs::write(&conf, "").unwrap();
    let conf = Str::from(conf.to_str().unwrap());
    let paths: Vec<_> = (0..6).map(|number| place.path().join(format!("f{number}"))).collect();
    let mut graph = ResourceGraph::new();
    for path in &paths {
        // Each by itself, and again and again.
        let mut spec =
            Spec::new(path.display().to_string(), Pippet { conf: conf.clone(), ..file(path, "x") });
        spec.meta = Meta { poll: 1, autogroup: false, ..Meta::default() }.into();
        graph.add_node(spec);
    }
    engine.swap(graph).await.unwrap();
    let failed = tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            if let EngineEvent::Failed { id, .. } = event {
                return Some(id.to_string());
            }
        }
        None
    });
    let mut victims = Vec::new();
    for kill in 0..80 {
        // Most are killed while they start; now and then one lives long enough to do something.
        if kill % 16 == 0 {
            let path = &paths[random.below(paths.len() as u64) as usize];
            let _ = std::fs::remove_file(path);
            until("a file is made again", || path.exists()).await;
        }
        kill_one(&conf, &mut victims, &mut random).await;
    }
    for path in &paths {
        let _ = std::fs::remove_file(path);
    }
    until("all files are made again", || paths.iter().all(|path| path.exists())).await;
    assert!(!failed.is_finished(), "{:?}, with the seed {seed}", failed.await);
    engine.swap(ResourceGraph::new()).await.unwrap();
    until("all processes end", || found_with(&conf).is_empty()).await;
    // What compiles is another process of the same sort.
    let settings = mgmt_puppet_process::Settings {
        configuration: Some(conf.as_path().to_owned()),
        ..mgmt_puppet_process::Settings::default()
    };
    let compiling = mgmt_puppet_process::Puppet::new(settings);
    let compile = || {
        let compiling = compiling.clone();
        tokio::spawn(async move {
            let input = mgmt_puppet_process::Input::Code("notify { 'x': }".to_owned());
            compiling.compile_warm(&input).await
        })
    };
    let mut compiled = compile();
    while victims.len() < 100 {
        tokio::select! {
            () = kill_one(&conf, &mut victims, &mut random) => {}
            // One was faster: only another one starts a process again.
            done = &mut compiled => {
                done.unwrap().unwrap();
                compiled = compile();
            }
        }
    }
    tokio::time::timeout(Duration::from_secs(120), compiled).await.expect("it hangs").unwrap().unwrap();
    assert_eq!(victims.len(), 100);
    drop(compiling);
    until("the last process ends", || found_with(&conf).is_empty()).await;
    until("nobody is left to be asked about", || zombies() == 0).await;
    engine.stop(Level::Graceful);
}
