//! What the engine reports about its resources: their states, and why they ran.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{Graph, Probe, TestEnv, wait};
use mgmt_engine::{Cause, Ended, Health, Ran, Rest, Witness};
use mgmt_resource::{Id, Spec};

fn text(text: &str) -> Probe {
    Probe { text: text.into(), ..Probe::default() }
}

/// Keeps what it is told.
#[derive(Default)]
struct Notes {
    runs: Mutex<Vec<(Id, Ended, Vec<Cause>)>>,
    health: Mutex<Vec<String>>,
    rest: Mutex<Vec<Rest>>,
    /// The number of runs that have begun, and that have ended.
    began: AtomicUsize,
    ended: AtomicUsize,
}

impl Witness for Notes {
    fn graph(&self, _: &mut dyn Iterator<Item = &Id>) {}

    fn ran(&self, run: Ran<'_>) {
        if run.ended != Ended::Right {
            self.runs.lock().unwrap().push((run.id.clone(), run.ended, run.causes.to_vec()));
        }
    }

    fn health(&self, id: &Id, health: Health<'_>) {
        let words = match health {
            Health::Ok => "ok".to_owned(),
            Health::Changed => "changed".to_owned(),
            Health::WouldChange => "would change".to_owned(),
            Health::Retrying { attempt, error, .. } => format!("retrying after {attempt}: {error}"),
            Health::Failed { attempt, error } => format!("failed after {attempt}: {error}"),
            Health::Flapping(undone) => format!("flapping {}", undone.times),
        };
        self.health.lock().unwrap().push(format!("{id} {words}"));
    }

    fn began(&self, _: &Spec, _: bool) {
        self.began.fetch_add(1, Ordering::SeqCst);
    }

    fn over(&self, _: &Spec, _: bool, _: bool) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    fn rest(&self, rest: Rest) {
        self.rest.lock().unwrap().push(rest);
    }
}

impl Notes {
    fn world() -> (Arc<Notes>, TestEnv) {
        let notes = Arc::new(Notes::default());
        let witness: Arc<dyn Witness> = notes.clone();
        (notes, TestEnv { witness: Some(witness), ..TestEnv::new() })
    }

    /// Why the changes of a resource happened.
    fn causes(&self, name: &str) -> Vec<Vec<Cause>> {
        let id = Id::new("probe", name);
        let runs = self.runs.lock().unwrap();
        runs.iter().filter(|(of, _, _)| *of == id).map(|(_, _, causes)| causes.clone()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_during_the_run_that_acts_on_another_one_keeps_its_reason() {
    let (notes, world) = Notes::world();
    let mut graph = Graph::default();
    let a = graph.add("a", Probe { path: world.path("a"), ..text("right") });
    let b = graph.add("b", Probe { path: world.path("b"), sleep: 500, ..text("right") });
    // Nothing but notifications leads to a run of it.
    graph.notify(a, b).meta(b, |meta| meta.poll = -1);
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    let drift = |name: &str| std::fs::write(world.directory.path().join(name), "drift").unwrap();
    let first = world.count("b:refresh");
    drift("b");
    drift("a");
    world.wait_for("b:refresh", first + 1).await;
    // While it runs.
    let repaired = world.count("a:wrote");
    drift("a");
    world.wait_for("a:wrote", repaired + 1).await;
    world.wait_for("b:refresh", first + 2).await;
    drift("b");
    let changes = notes.causes("b").len();
    wait(|| notes.causes("b").len() > changes, "a change by the second run").await;
    let expected = Cause::Notified(vec![Id::new("probe", "a")]);
    for causes in notes.causes("b").iter().skip(1) {
        assert!(causes.contains(&expected), "{:?}", notes.causes("b"));
    }
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_a_poll_finds_has_a_cause() {
    let (notes, world) = Notes::world();
    let mut graph = Graph::default();
    let a = graph.add("a", Probe { path: world.path("a"), ..text("right") });
    graph.meta(a, |meta| meta.poll = 1);
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    std::fs::write(world.directory.path().join("a"), "drift").unwrap();
    wait(|| notes.causes("a").len() == 2, "the repair").await;
    assert_eq!(notes.causes("a")[1], [Cause::Event(vec!["poll every 1 s".into()])]);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn states_are_reported_as_they_change_and_failures_with_their_error() {
    let (notes, world) = Notes::world();
    let build = |noop: bool| {
        let mut graph = Graph::default();
        graph.add("retried", Probe { failures: 2, ..text("x") });
        let failed = graph.add("failed", Probe { failures: 1, ..text("x") });
        graph.meta(failed, |meta| meta.retry = Some(0));
        let looks = graph.add("looks", Probe { path: world.path("looks"), ..text("x") });
        graph.meta(looks, |meta| meta.noop = noop);
        graph.0
    };
    let mut running = world.start();
    running.swap(build(true)).await;
    let of = |name: &str| {
        let health = notes.health.lock().unwrap();
        let prefix = format!("probe[{name}] ");
        health.iter().filter_map(|line| line.strip_prefix(&prefix)).map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    wait(|| of("retried").last().is_some_and(|state| state == "ok"), "the recovery").await;
    assert_eq!(of("retried"), ["retrying after 1: told so", "retrying after 2: told so", "ok"]);
    assert_eq!(of("failed"), ["failed after 1: told so"]);
    assert_eq!(of("looks"), ["would change"]);
    while running.quiet().await != 1 {}
    running.swap(build(false)).await;
    running.converged().await;
    assert_eq!(of("failed"), ["failed after 1: told so", "ok"]);
    // The event of its own write may lead to another look.
    assert_eq!(of("looks")[..2], ["would change", "changed"]);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_question_whether_the_engine_is_alive_attempts_nothing() {
    let (notes, world) = Notes::world();
    let mut graph = Graph::default();
    let failed = graph.add("failed", Probe { failures: 100, ..text("x") });
    graph.meta(failed, |meta| meta.retry = Some(0));
    let mut running = world.start();
    running.swap(graph.0).await;
    while running.quiet().await != 1 {}
    let began = || notes.began.load(Ordering::SeqCst);
    assert_eq!(began(), 1);
    for _ in 0..20 {
        assert!(running.engine.is_alive().await);
        // What follows from a message has begun when the next one is answered.
        running.engine.inspect().await.unwrap();
    }
    assert_eq!(began(), 1);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_not_at_rest_because_the_one_before_was() {
    let (notes, world) = Notes::world();
    let ended = || notes.rest.lock().unwrap().iter().filter(|rest| **rest == Rest::Active).count();
    let mut running = world.start();
    running.swap(Graph::default().0).await;
    running.converged().await;
    for number in 0..50 {
        let before = ended();
        let mut graph = Graph::default();
        graph.add(&format!("a{number}"), Probe { sleep: 5, ..text("x") });
        running.swap(graph.0).await;
        // Nothing has to happen for that but the answer.
        assert!(ended() > before, "{number}: {:?}", notes.rest.lock().unwrap());
        running.converged().await;
    }
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_run_of_a_group_that_is_gone_hides_no_failure_of_what_was_in_it() {
    let (notes, world) = Notes::world();
    let mut graph = Graph::default();
    for name in ["a", "b"] {
        graph.add(name, Probe { together: true, sleep: 3000, ..text("x") });
    }
    let running = world.start();
    running.swap(graph.0).await;
    world.wait_for("b:run", 1).await;
    // While the group runs, one resource of it goes on alone, and fails.
    let mut graph = Graph::default();
    let alone = graph.add("a", Probe { failures: 100, ..text("x") });
    graph.meta(alone, |meta| meta.retry = Some(0));
    running.swap(graph.0).await;
    let last = || {
        let health = notes.health.lock().unwrap();
        health.iter().rev().find(|line| line.starts_with("probe[a]")).cloned()
    };
    wait(|| last().is_some(), "the failure").await;
    wait(|| notes.ended.load(Ordering::SeqCst) == 2, "the end of both runs").await;
    running.engine.inspect().await.unwrap();
    assert_eq!(last().as_deref(), Some("probe[a] failed after 1: told so"));
    running.stop();
}
