//! Other parameters for resources that stay where they are.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use crate::common::{Graph, Probe, TestEnv, wait};
use mgmt_engine::SwapError;
use mgmt_resource::{Meta, Spec};

fn text(text: &str) -> Probe {
    Probe { text: text.into(), ..Probe::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_adjusted_runs_in_its_new_form_and_nothing_else_runs() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    // Without a file, so that nothing but the engine has it run.
    let a = graph.add("a", text("one"));
    let b = graph.add("b", Probe { path: world.path("b"), ..text("one") });
    let c = graph.add("c", text(""));
    graph.edge(a, b).notify(b, c);
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    world.log();

    let new = Spec::new("b", Probe { path: world.path("b"), ..text("two") });
    let report = running.engine.adjust(vec![new.clone()]).await.unwrap().unwrap();
    assert_eq!((report.vertices, report.edges, report.changed), (3, 2, 1));
    wait(|| world.read("b") == "two", "the new text").await;
    world.wait_for("c:refresh", 1).await;
    assert_eq!(world.count("a:run"), 0, "{:?}", world.log());

    // The same again is no change.
    assert_eq!(running.engine.adjust(vec![new]).await.unwrap().unwrap().changed, 0);
    // Drift is repaired to the new text.
    std::fs::write(world.directory.path().join("b"), "drift").unwrap();
    wait(|| world.read("b") == "two", "the repair").await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_failing_is_attempted_with_every_change() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    let a = graph.add("a", Probe { failures: 3, ..text("") });
    graph.meta(a, |meta| meta.retry = Some(0));
    graph.add("b", text("one"));
    let mut running = world.start();
    running.swap(graph.0).await;
    assert_eq!(running.quiet().await, 1);
    for (attempt, content) in [(2, "two"), (3, "three"), (4, "three")] {
        running.engine.adjust(vec![Spec::new("b", text(content))]).await.unwrap().unwrap();
        world.wait_for("a:run", attempt).await;
    }
    running.converged().await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_a_group_is_adjusted_where_it_is() {
    let world = TestEnv::new();
    let probe = |name: &str, content: &str| Probe { path: world.path(name), together: true, ..text(content) };
    let mut graph = Graph::default();
    for name in ["a", "b", "c"] {
        graph.add(name, probe(name, "one"));
    }
    let mut running = world.start();
    let report = running.engine.swap(graph.0).await.unwrap();
    assert_eq!((report.vertices, report.grouped), (1, 2));
    running.converged().await;
    let specs = vec![Spec::new("a", probe("a", "two")), Spec::new("c", probe("c", "two"))];
    assert_eq!(running.engine.adjust(specs).await.unwrap().unwrap().changed, 1);
    wait(|| world.read("a") == "two" && world.read("c") == "two", "the new texts").await;
    assert_eq!(world.read("b"), "one");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_concerns_others_is_declined_and_changes_nothing() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    graph.add("a", Probe { path: world.path("a"), ..text("one") });
    graph.add("b", Probe { is: "b".into(), ..text("one") });
    let hidden = graph.add("h", text("one"));
    graph.meta(hidden, |meta| meta.hidden = true);
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    let fine = Spec::new("a", Probe { path: world.path("a"), ..text("two") });
    let with_meta = |change: fn(&mut Meta)| {
        let mut spec = Spec::new("b", Probe { is: "b".into(), ..text("one") });
        change(&mut spec.meta);
        spec
    };
    let others = [
        Spec::new("unknown", text("two")),
        Spec::new("h", text("two")),
        // Someone else may need it, or be needed by it, or group with it.
        Spec::new("b", Probe { is: "other".into(), ..text("one") }),
        Spec::new("b", Probe { is: "b".into(), needs: "x".into(), ..text("one") }),
        Spec::new("b", Probe { is: "b".into(), together: true, ..text("one") }),
        with_meta(|meta| meta.hidden = true),
        with_meta(|meta| meta.autoedge = false),
    ];
    for other in others {
        let shown = format!("{other:?}");
        assert_eq!(running.engine.adjust(vec![fine.clone(), other]).await, Ok(None), "{shown}");
    }
    let wrong = Spec::new("a", Probe { invalid: true, ..text("two") });
    assert!(matches!(running.engine.adjust(vec![wrong]).await, Err(SwapError::Invalid { .. })));
    assert_eq!(world.read("a"), "one");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_holds_for_every_resource_holds_for_adjusted_ones() {
    let mut world = TestEnv::new();
    world.preparation.noop = true;
    let mut graph = Graph::default();
    graph.add("a", Probe { path: world.path("a"), ..text("one") });
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    world.log();
    let new = Spec::new("a", Probe { path: world.path("a"), ..text("two") });
    assert_eq!(running.engine.adjust(vec![new]).await.unwrap().unwrap().changed, 1);
    world.wait_for("a:end", 1).await;
    assert_eq!(world.count("a:wrote"), 0);
    running.stop();
}
