//! The engine end to end, on real files, with a kind that does as it is told.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use crate::common;
use std::time::Duration;

use crate::common::{Graph, Probe, TestEnv, wait};
use mgmt_engine::{EngineEvent, Level, SwapError};
use mgmt_resource::Id;
use mgmt_value::Str;

fn text(text: &str) -> Probe {
    Probe { text: text.into(), ..Probe::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_applied_in_order_and_drift_is_repaired() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    let a = graph.add("a", Probe { path: world.path("a"), ..text("one") });
    let b = graph.add("b", Probe { path: world.path("b"), ..text("two") });
    graph.edge(a, b);
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    assert_eq!((world.read("a"), world.read("b")), ("one".into(), "two".into()));
    let log = world.log();
    let position = |what: &str| log.iter().position(|line| line == what).unwrap();
    assert!(position("a:end") < position("b:run"), "{log:?}");

    std::fs::write(world.directory.path().join("a"), "drift").unwrap();
    world.wait_for("a:wrote", 1).await;
    wait(|| world.read("a") == "one", "the repair").await;
    assert_eq!(world.count("b:wrote"), 0, "b had nothing to do with it");
    let summary = running.stop();
    assert_eq!((summary.resources, summary.failed), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_notifies_once_and_a_restart_does_not_lose_it() {
    let world = TestEnv::new();
    let build = |content: &str, failures: i64| {
        let mut graph = Graph::default();
        let a = graph.add("a", Probe { path: world.path("a"), ..text(content) });
        let b = graph.add("b", Probe { failures, ..text("b") });
        graph.notify(a, b);
        graph.0
    };
    let mut running = world.start();
    running.swap(build("one", 1)).await;
    while !matches!(running.event().await, EngineEvent::Failed { .. }) {}
    assert_eq!(world.count("b:refresh"), 1);
    running.stop();
    world.log();

    // The notification was not acknowledged, so the next life still knows of it.
    let mut running = world.start();
    running.swap(build("one", 0)).await;
    running.converged().await;
    assert_eq!(world.count("b:refresh"), 1);
    assert_eq!(world.count("a:wrote"), 0);
    running.stop();
    world.log();

    let mut running = world.start();
    running.swap(build("one", 0)).await;
    running.converged().await;
    assert_eq!((world.count("b:run"), world.count("b:refresh")), (1, 0));
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn noop_looks_and_does_not_touch() {
    let mut world = TestEnv::new();
    world.preparation.noop = true;
    let mut graph = Graph::default();
    let a = graph.add("a", Probe { path: world.path("a"), ..text("one") });
    let b = graph.add("b", text("b"));
    graph.notify(a, b);
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    assert_eq!(world.read("a"), "");
    assert_eq!(world.count("b:refresh"), 0);
    let summary = running.stop();
    assert_eq!((summary.changes, summary.would_change), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_is_sent_and_received_and_moves_the_watch_with_it() {
    let world = TestEnv::new();
    let build = |says: &Str| {
        let mut graph = Graph::default();
        let a = graph.add("a", Probe { says: says.clone(), ..text("a") });
        let b = graph.add("b", text("payload"));
        let _ = a;
        graph.receive(b, "path", "a");
        graph.0
    };
    let mut running = world.start();
    running.swap(build(&world.path("first"))).await;
    running.converged().await;
    assert_eq!(world.read("first"), "payload");

    // Only the sender changes; the receiver is kept and receives anew.
    running.swap(build(&world.path("second"))).await;
    wait(|| world.read("second") == "payload", "the second path").await;
    std::fs::write(world.directory.path().join("second"), "drift").unwrap();
    wait(|| world.read("second") == "payload", "the repair of the received path").await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_received_value_of_another_type_is_refused() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    graph.add("a", text("a"));
    let b = graph.add("b", text("b"));
    graph.receive(b, "sleep", "a");
    let running = world.start();
    let error = running.engine.swap(graph.0).await.unwrap_err();
    assert_eq!(error.to_string(), "probe[b]: `sleep` is int, but probe[a] sends `text` as str");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_graph_changes_nothing() {
    let world = TestEnv::new();
    let mut good = Graph::default();
    good.add("a", Probe { path: world.path("a"), ..text("one") });
    let mut running = world.start();
    running.swap(good.0).await;
    running.converged().await;

    let mut bad = Graph::default();
    bad.add("a", Probe { path: world.path("a"), invalid: true, ..text("two") });
    assert!(matches!(running.engine.swap(bad.0).await, Err(SwapError::Invalid { .. })));
    let mut cycle = Graph::default();
    let (a, b) = (cycle.add("a", text("")), cycle.add("b", text("")));
    cycle.edge(a, b).edge(b, a);
    let error = running.engine.swap(cycle.0).await.unwrap_err().to_string();
    assert_eq!(error, "these resources wait for each other: probe[a] -> probe[b] -> probe[a]");

    std::fs::write(world.directory.path().join("a"), "drift").unwrap();
    wait(|| world.read("a") == "one", "the old graph to repair").await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_leaves_alone_what_is_the_same() {
    let world = TestEnv::new();
    let build = |b: &str| {
        let mut graph = Graph::default();
        let a = graph.add("a", Probe { path: world.path("a"), ..text("one") });
        let slow = graph.add("slow", Probe { sleep: 60_000, ..text("slow") });
        let b = graph.add("b", Probe { path: world.path("b"), ..text(b) });
        let _ = (a, slow, b);
        graph.0
    };
    // It is right already: what it would write itself leads to any number of events.
    std::fs::write(world.directory.path().join("a"), "one").unwrap();
    let running = world.start();
    running.swap(build("one")).await;
    wait(|| world.read("b") == "one", "the first graph").await;
    wait(|| world.count("a:end") >= 1, "a").await;
    // The slow one still runs; nobody waits for it.
    let report = running.engine.swap(build("two")).await.unwrap();
    assert_eq!((report.added, report.changed, report.removed), (0, 1, 0));
    wait(|| world.read("b") == "two", "the second graph").await;
    assert_eq!(world.count("slow:run"), 1);
    assert_eq!(world.count("a:run"), 1, "nothing has happened to a");
    running.engine.stop(Level::Cancel);
    running.stop();
    assert_eq!(world.count("slow:cancelled"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_stays_where_it_is() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    let bad = graph.add("bad", Probe { failures: 3, ..text("bad") });
    let after = graph.add("after", text("after"));
    let other = graph.add("other", text("other"));
    let _ = other;
    graph.edge(bad, after).meta(bad, |meta| meta.retry = Some(1));
    let mut running = world.start();
    running.swap(graph.0).await;
    let failed = running.event().await;
    assert_eq!(failed, EngineEvent::Failed { id: Id::new("probe", "bad"), message: "told so".into() });
    assert_eq!(running.quiet().await, 1);
    assert_eq!((world.count("bad:run"), world.count("after:run"), world.count("other:run")), (2, 0, 1));
    let blocked = running.engine.blocked(Default::default()).await.unwrap();
    let (after, bad) = (Id::new("probe", "after"), Id::new("probe", "bad"));
    assert_eq!(blocked.listed, [(after, bad.clone())]);
    assert_eq!((blocked.pending, blocked.failing), (0, 1));
    // One that is stale is not blocked as well.
    let stale = std::collections::HashSet::from(["probe[after]".to_owned()]);
    assert_eq!(running.engine.blocked(stale).await.unwrap().listed, []);
    // Asked for, it is attempted although its retries are used up; the fourth attempt succeeds.
    assert_eq!(running.engine.retry(Some(Id::new("probe", "other"))).await.unwrap(), 0);
    assert_eq!(running.engine.retry(Some(Id::new("probe", "nowhere"))).await.unwrap(), 0);
    assert_eq!(running.engine.retry(Some(bad.clone())).await.unwrap(), 1);
    world.wait_for("bad:run", 3).await;
    wait_failing(&running, 1).await;
    assert_eq!(running.engine.retry(None).await.unwrap(), 1);
    while running.event().await != (EngineEvent::Recovered { id: bad.clone() }) {}
    running.converged().await;
    assert_eq!((world.count("bad:run"), world.count("after:run")), (4, 1));
    assert_eq!(running.engine.blocked(Default::default()).await.unwrap(), mgmt_engine::Blocked::default());
    assert_eq!(running.stop().failed, 0);
}

/// Waits until a run has ended with so many failing.
async fn wait_failing(running: &common::Running, failing: usize) {
    let until = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let blocked = running.engine.blocked(Default::default()).await.unwrap();
        if blocked.failing == failing && blocked.pending == 0 {
            return;
        }
        assert!(std::time::Instant::now() < until, "{blocked:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_graph_attempts_a_failing_resource_again_and_none_forgets_the_failure() {
    let world = TestEnv::new();
    let build = |rewatch: bool, other: bool| {
        let mut graph = Graph::default();
        let a = graph.add("a", Probe { failures: 1_000, ..text("a") });
        graph.meta(a, |meta| (meta.rewatch, meta.retry) = (rewatch, Some(0)));
        if other {
            graph.add("b", text("b"));
        }
        graph.0
    };
    for rewatch in [false, true] {
        let mut running = world.start();
        for (attempts, other) in [(1, false), (2, false), (3, true), (4, false)] {
            running.swap(build(rewatch, other)).await;
            running.failed().await;
            wait_failing(&running, 1).await;
            assert_eq!(world.count("a:run"), attempts, "rewatch {rewatch}");
        }
        assert_eq!(running.stop().failed, 1);
        world.log();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undeclared_retry_is_attempted_by_time_and_at_once_by_an_event() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    graph.add("timed", Probe { failures: 2, ..text("timed") });
    graph.add("prompted", Probe { path: world.path("prompted"), failures: 3, ..text("prompted") });
    let mut running = world.start();
    running.swap(graph.0).await;
    running.failed().await;
    running.failed().await;
    for attempt in 2..=4 {
        std::fs::write(world.directory.path().join("prompted"), "an event").unwrap();
        world.wait_for("prompted:run", attempt).await;
    }
    running.converged().await;
    assert_eq!(world.count("timed:run"), 3);
    assert_eq!(world.read("prompted"), "prompted");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_cancels_the_run_and_says_so() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    let a = graph.add("a", Probe { sleep: 60_000, ..text("a") });
    graph.meta(a, |meta| meta.timeout = 50);
    let mut running = world.start();
    running.swap(graph.0).await;
    let failed = running.event().await;
    assert_eq!(
        failed,
        EngineEvent::Failed { id: Id::new("probe", "a"), message: "timed out after 0.05 s".into() }
    );
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_an_error_of_that_resource() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    graph.add("a", Probe { panics: true, ..text("a") });
    graph.add("b", text("b"));
    let mut running = world.start();
    running.swap(graph.0).await;
    let failed = running.event().await;
    assert_eq!(
        failed,
        EngineEvent::Failed { id: Id::new("probe", "a"), message: "panicked: told so".into() }
    );
    assert_eq!(running.quiet().await, 1);
    assert_eq!(world.count("b:end"), 1);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_disappears_is_reversed_also_after_a_restart() {
    let world = TestEnv::new();
    std::fs::write(world.directory.path().join("a"), "before").unwrap();
    let mut graph = Graph::default();
    let a = graph.add("a", Probe { path: world.path("a"), ..text("managed") });
    graph.meta(a, |meta| meta.reverse = true);
    let mut running = world.start();
    running.swap(graph.0.clone()).await;
    running.converged().await;
    assert_eq!(world.read("a"), "managed");
    running.stop();

    // Started again with the resource still there: the first snapshot is kept.
    let mut running = world.start();
    running.swap(graph.0.clone()).await;
    running.converged().await;
    running.stop();

    let mut running = world.start();
    running.swap(Graph::default().0).await;
    wait(|| world.read("a") == "before", "the reversal").await;
    running.converged().await;
    running.stop();

    // It has been used, so it is gone.
    std::fs::write(world.directory.path().join("a"), "mine now").unwrap();
    let mut running = world.start();
    running.swap(Graph::default().0).await;
    running.converged().await;
    assert_eq!(world.read("a"), "mine now");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_run_as_one_and_each_member_keeps_its_own() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    for name in ["a", "b", "c"] {
        graph.add(name, Probe { path: world.path(name), together: true, ..text(name) });
    }
    let noop = graph.add("d", Probe { path: world.path("d"), together: true, ..text("d") });
    graph.meta(noop, |meta| meta.noop = true);
    let mut running = world.start();
    let report = running.engine.swap(graph.0).await.unwrap();
    assert_eq!((report.vertices, report.grouped), (2, 2), "the one that only looks stays apart");
    running.converged().await;
    assert_eq!([world.read("a"), world.read("b"), world.read("c"), world.read("d")], ["a", "b", "c", ""]);
    std::fs::write(world.directory.path().join("a"), "drift").unwrap();
    wait(|| world.read("a") == "a", "the repair of a member").await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_of_one_makes_it_serial() {
    let mut world = TestEnv::new();
    world.preparation.sema = Some(1);
    let mut graph = Graph::default();
    for number in 0..8 {
        graph.add(&format!("p{number}"), Probe { sleep: 1, ..text("x") });
    }
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    let log: Vec<_> = world.log().into_iter().filter(|line| line.starts_with('p')).collect();
    assert!(log.chunks(2).all(|pair| pair[0].ends_with(":run") && pair[1].ends_with(":end")), "{log:?}");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn success_that_comes_after_the_time_was_up_is_success() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    let a = graph.add("a", Probe { sleep: 150, stubborn: true, ..text("a") });
    graph.meta(a, |meta| meta.timeout = 20);
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    assert_eq!((world.count("a:run"), world.count("a:end")), (1, 1));
    assert_eq!(running.stop().failed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_was_not_sent_fails_the_receiver() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    graph.add("a", Probe { silent: true, ..text("a") });
    let b = graph.add("b", text("b"));
    graph.receive(b, "path", "a");
    let mut running = world.start();
    running.swap(graph.0).await;
    let message = "`path` has not come: probe[a] has sent nothing yet".to_owned();
    assert_eq!(running.event().await, EngineEvent::Failed { id: Id::new("probe", "b"), message });
    assert_eq!(world.count("b:run"), 0);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_received_change_is_seen_until_a_run_has_succeeded() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    graph.add("a", Probe { says: "news".into(), ..text("a") });
    let b = graph.add("b", Probe { failures: 2, ..text("b") });
    let trigger = world.path("trigger");
    graph.0.node_mut(b).unwrap().meta.retry = Some(5);
    graph.receive(b, "says", "a");
    let c = graph.add("c", Probe { path: trigger.clone(), ..text("c") });
    graph.notify(c, b);
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    assert_eq!(world.count("b:received"), 3, "two runs that failed and the one that did not");
    world.log();
    // The next run finds nothing new.
    std::fs::write(trigger.as_path(), "drift").unwrap();
    world.wait_for("b:refresh", 1).await;
    assert_eq!(world.count("b:received"), 0);
    running.stop();
}

/// Writes down what is exported.
struct Exports(std::sync::Mutex<Vec<String>>);

impl mgmt_engine::Export for Exports {
    fn export(&self, spec: &mgmt_resource::Spec) -> mgmt_resource::Result<()> {
        self.0.lock().unwrap().push(spec.id.to_string());
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_are_made_in_order_also_of_hidden_resources_and_never_in_noop() {
    let mut world = TestEnv::new();
    let exports = std::sync::Arc::new(Exports(std::sync::Mutex::default()));
    world.export = Some(std::sync::Arc::clone(&exports) as _);
    let mut graph = Graph::default();
    let nodes = ["first", "hidden", "last", "noop"].map(|name| graph.add(name, text(name)));
    for node in nodes {
        graph.meta(node, |meta| meta.export = vec!["*".into()]);
    }
    graph.meta(nodes[1], |meta| meta.hidden = true).meta(nodes[3], |meta| meta.noop = true);
    graph.edge(nodes[0], nodes[1]).edge(nodes[1], nodes[2]);
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    assert_eq!(*exports.0.lock().unwrap(), ["probe[first]", "probe[hidden]", "probe[last]"]);
    assert_eq!(world.count("hidden:run"), 0);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_has_one_worker_while_it_is_in_the_graph() {
    let world = TestEnv::new();
    let build = |names: &[&str]| {
        let mut graph = Graph::default();
        for name in names {
            graph.add(name, text(name));
        }
        graph.0
    };
    let mut running = world.start();
    running.swap(build(&["a", "b"])).await;
    running.converged().await;
    assert_eq!(
        world.log().first().map(String::as_str),
        Some("worker:begin"),
        "it is ready before anything runs"
    );
    // None of the resources stays, but the kind does.
    running.swap(build(&["c"])).await;
    world.wait_for("c:end", 1).await;
    assert_eq!((world.count("worker:begin"), world.count("worker:end")), (0, 0));
    running.swap(build(&[])).await;
    world.wait_for("worker:end", 1).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_after_the_end_is_answered() {
    let world = TestEnv::new();
    let running = world.start();
    running.engine.stop(Level::Graceful);
    tokio::task::block_in_place(|| running.engine.wait());
    assert!(matches!(running.engine.swap(Graph::default().0).await, Err(SwapError::Stopped)));
}
