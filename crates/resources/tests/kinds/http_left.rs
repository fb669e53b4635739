//! Hundreds of servers, one after the other: nothing is left of those that have gone. Alone in its program, because it counts
//! what the whole process holds.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::http_common::{RunningEngine, get, graph, listens, server, soon, spec, text};
use mgmt_resources::http::{HttpServerFlag, HttpServerUi, HttpServerUiInput};

const GRAPHS: usize = 300;

fn held() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    (descriptors, tokio::runtime::Handle::current().metrics().num_alive_tasks())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_servers_that_have_gone() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let mut before = None;
    for round in 0..GRAPHS {
        running
            .swap(graph(vec![
                spec(format!("server {round}"), server.clone()),
                spec("/a", text(&round.to_string())),
                spec("/flag", HttpServerFlag::default()),
                spec("/ui/", HttpServerUi::default()),
                spec("input", HttpServerUiInput { store: "world://".into(), ..HttpServerUiInput::default() }),
            ]))
            .await;
        assert_eq!(get(port, "/a").await.text(), round.to_string());
        if round % 7 == 0 {
            running.swap(graph(vec![])).await;
            soon("the address is free", async || !listens(port).await).await;
        }
        if round == 20 {
            before = Some(held());
        }
    }
    running.swap(graph(vec![])).await;
    let (descriptors, tasks) = before.unwrap();
    soon("all is let go", async || held().0 <= descriptors && held().1 <= tasks).await;
    running.stop();
}
