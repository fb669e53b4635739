//! Resources that may run at some times only, in a real engine.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use crate::common::{Graph, Probe, TestEnv, wait};
use jiff::{ToSpan as _, Zoned};
use mgmt_resource::ResourceGraph;
use mgmt_value::Str;

fn text(text: &str) -> Probe {
    Probe { text: text.into(), ..Probe::default() }
}

fn words(words: &[&str]) -> Vec<Str> {
    words.iter().map(|word| Str::from(*word)).collect()
}

/// A file with a window, and one that comes after it.
fn two(world: &TestEnv, window: &[&str], notify: bool) -> ResourceGraph {
    let mut graph = Graph::default();
    let a = graph.add("a", Probe { path: world.path("a"), ..text("one") });
    let b = graph.add("b", Probe { path: world.path("b"), ..text("two") });
    graph.meta(a, |meta| meta.window = words(window));
    if notify {
        graph.notify(a, b)
    } else {
        graph.edge(a, b)
    };
    graph.0
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_of_its_window_a_resource_is_left_alone_and_nobody_waits_for_it() {
    let world = TestEnv::new();
    let mut running = world.start();
    running.swap(two(&world, &["never"], false)).await;
    running.converged().await;
    assert_eq!((world.read("a"), world.read("b")), (String::new(), "two".to_owned()));
    assert_eq!(world.count("a:run"), 0);
    // Without the window, it is another declaration.
    running.swap(two(&world, &[], false)).await;
    wait(|| world.read("a") == "one", "a without a window").await;
    assert_eq!(running.stop().failed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_failed_stays_failing_while_its_window_is_closed() {
    let world = TestEnv::new();
    let mut running = world.start();
    let failing = |window: &[&str]| {
        let mut graph = Graph::default();
        let a = graph.add("a", Probe { failures: 1000, ..text("one") });
        let b = graph.add("b", text("two"));
        graph.meta(a, |meta| meta.window = words(window)).edge(a, b);
        graph.0
    };
    running.swap(failing(&[])).await;
    assert_eq!(running.quiet().await, 1);
    running.swap(failing(&["never"])).await;
    assert_eq!(running.quiet().await, 1);
    assert_eq!(running.engine.retry(None).await.unwrap(), 1);
    assert_eq!(running.engine.blocked(Default::default()).await.unwrap().failing, 1);
    assert_eq!(world.count("b:run"), 0, "what comes after it waits");
    let repaired = {
        let mut graph = Graph::default();
        let (a, b) = (graph.add("a", text("one")), graph.add("b", text("two")));
        graph.edge(a, b);
        graph.0
    };
    running.swap(repaired).await;
    running.converged().await;
    assert_eq!(running.stop().failed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_its_window_opens_a_resource_runs_without_an_event() {
    let world = TestEnv::new();
    let opens = Zoned::now().checked_add(2.seconds()).unwrap();
    let closes = opens.checked_add(1.hour()).unwrap();
    let window = format!("{}-{}", opens.strftime("%H:%M:%S"), closes.strftime("%H:%M:%S"));
    let mut running = world.start();
    running.swap(two(&world, &[&window], false)).await;
    running.converged().await;
    assert_eq!(world.count("a:run"), 0);
    wait(|| world.read("a") == "one", "the window to open").await;
    let second = |time: &Zoned| time.timestamp().as_second();
    assert!(second(&Zoned::now()) >= second(&opens));
    // While it is open, everything is as usual.
    std::fs::write(world.directory.path().join("a"), "drift").unwrap();
    wait(|| world.read("a") == "one", "the repair").await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn how_often_something_runs_is_counted_over_restarts() {
    let world = TestEnv::new();
    let mut running = world.start();
    running.swap(two(&world, &["daily"], false)).await;
    running.converged().await;
    assert_eq!((world.read("a"), world.count("a:run")), ("one".to_owned(), 1));
    // What comes after it is repaired once it has been considered.
    std::fs::write(world.directory.path().join("a"), "drift").unwrap();
    std::fs::write(world.directory.path().join("b"), "drift").unwrap();
    wait(|| world.read("b") == "two", "the repair of b").await;
    assert_eq!((world.read("a"), world.count("a:run")), ("drift".to_owned(), 1));
    running.stop();
    let mut running = world.start();
    running.swap(two(&world, &["daily"], false)).await;
    running.converged().await;
    assert_eq!((world.read("a"), world.count("a:run")), ("drift".to_owned(), 1));
    // Another limit is another matter: a second has passed.
    wait_a_second();
    running.swap(two(&world, &["hourly/3600"], false)).await;
    wait(|| world.read("a") == "one", "the repair of a").await;
    running.stop();
}

/// Until the clock shows another second, and one more.
fn wait_a_second() {
    let began = Zoned::now().timestamp().as_second();
    while Zoned::now().timestamp().as_second() < began + 2 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_looks_is_not_remembered() {
    let mut world = TestEnv::new();
    world.preparation.noop = true;
    let mut running = world.start();
    running.swap(two(&world, &["monthly"], false)).await;
    running.converged().await;
    assert_eq!((world.read("a"), world.count("a:run")), (String::new(), 1));
    running.stop();
    world.preparation.noop = false;
    let mut running = world.start();
    running.swap(two(&world, &["monthly"], false)).await;
    running.converged().await;
    assert_eq!(world.read("a"), "one");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_attempt_belongs_to_the_run_that_failed() {
    let world = TestEnv::new();
    let mut graph = Graph::default();
    let a = graph.add("a", Probe { path: world.path("a"), failures: 2, ..text("one") });
    graph.meta(a, |meta| {
        meta.window = words(&["monthly", "calendar"]);
        meta.retry = Some(2);
    });
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    assert_eq!((world.read("a"), world.count("a:run")), ("one".to_owned(), 3));
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_outside_of_the_window_is_gone() {
    let world = TestEnv::new();
    let graph = |window: &[&str]| {
        let mut graph = Graph::default();
        let a = graph.add("a", Probe { path: world.path("a"), ..text("one") });
        let b = graph.add("b", text("b"));
        graph.notify(a, b).meta(b, |meta| meta.window = words(window));
        graph.0
    };
    let mut running = world.start();
    running.swap(graph(&["never"])).await;
    running.converged().await;
    assert_eq!((world.read("a"), world.count("b:refresh")), ("one".to_owned(), 0));
    running.stop();
    let mut running = world.start();
    running.swap(graph(&[])).await;
    running.converged().await;
    assert_eq!((world.count("b:run"), world.count("b:refresh")), (1, 0));
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_means_nothing_is_refused() {
    let world = TestEnv::new();
    let running = world.start();
    let error = running.engine.swap(two(&world, &["sometimes"], true)).await.unwrap_err();
    assert!(error.to_string().contains("`sometimes` is neither hours"), "{error}");
    running.stop();
}
