//! The kinds of the family `http:server`, each by itself: what a run says that it found.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::common::TestEnv;
use crate::http_common;
use crate::http_common::{get, listens, post, server, soon, string, text};
use mgmt_engine::{Preparation, prepare};
use mgmt_resource::Checked::{Changed, Right};
use mgmt_resources::http::{HttpServer, HttpServerFlag, HttpServerProxy, HttpServerUi, HttpServerUiInput};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_right_once_it_listens() {
    let bench = TestEnv::new();
    let (server, port) = server();
    let mut vertex = bench.vertex("s", server);
    assert_eq!(vertex.look().await.checked(), Changed);
    assert!(!listens(port).await, "looking does not listen");
    assert_eq!(vertex.apply().await.checked(), Changed);
    assert!(listens(port).await);
    assert_eq!(vertex.apply().await.checked(), Right);
    assert_eq!(vertex.look().await.checked(), Right);
    vertex.resource.timeout = Some(5);
    assert_eq!(vertex.look().await.checked(), Changed);
    assert_eq!(vertex.apply().await.checked(), Changed);
    assert_eq!(vertex.apply().await.checked(), Right);
    drop(vertex);
    soon("it ends with its resource", async || !listens(port).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_has_changed_when_its_text_is_another() {
    let bench = TestEnv::new();
    let (server, port) = server();
    let (mut server, mut file) = (bench.vertex("s", server), bench.vertex("/a", text("one")));
    assert_eq!(file.look().await.checked(), Right);
    server.apply().await.checked();
    assert_eq!(get(port, "/a").await.status, 404, "looking offers nothing");
    assert_eq!(file.apply().await.checked(), Right);
    assert_eq!(file.apply().await.checked(), Right);
    assert_eq!(get(port, "/a").await.text(), "one");
    file.resource.data = "two".into();
    assert_eq!(file.look().await.checked(), Changed);
    assert_eq!(get(port, "/a").await.text(), "one", "looking changes nothing");
    assert_eq!(file.apply().await.checked(), Changed);
    assert_eq!(get(port, "/a").await.text(), "two");
    drop(file);
    assert_eq!(get(port, "/a").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_has_changed_when_something_was_posted() {
    let bench = TestEnv::new();
    let (server, port) = server();
    let flag = HttpServerFlag { key: "key".into(), ..HttpServerFlag::default() };
    let (mut server, mut flag) = (bench.vertex("s", server), bench.vertex("/flag", flag));
    server.apply().await.checked();
    let looked = flag.look().await;
    assert_eq!((looked.sent("value"), looked.checked()), (string(""), Right));
    assert_eq!(post(port, "/flag", "key=x").await.status, 404, "looking offers nothing");
    assert_eq!(flag.apply().await.checked(), Right);
    assert_eq!(post(port, "/flag", "key=x").await.status, 200);
    let applied = flag.apply().await;
    assert_eq!((applied.sent("value"), applied.checked()), (string("x"), Changed));
    let applied = flag.apply().await;
    assert_eq!((applied.sent("value"), applied.checked()), (string("x"), Right));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_and_its_inputs_are_right_until_somebody_changes_a_value() {
    let bench = TestEnv::new();
    let (server, port) = server();
    let input = HttpServerUiInput { value: "a".into(), ..HttpServerUiInput::default() };
    let (mut server, mut input) = (bench.vertex("s", server), bench.vertex("i", input));
    let mut page = bench.vertex("/ui/", HttpServerUi::default());
    server.apply().await.checked();
    assert_eq!((page.look().await.checked(), input.look().await.checked()), (Right, Right));
    assert_eq!(get(port, "/ui/ping").await.status, 404, "looking offers nothing");
    assert_eq!((page.apply().await.checked(), input.apply().await.checked()), (Right, Right));
    assert_eq!((page.apply().await.checked(), input.apply().await.checked()), (Right, Right));
    assert_eq!(post(port, "/ui/save/", "id=i&value=b").await.status, 200);
    let applied = input.apply().await;
    assert_eq!((applied.sent("value"), applied.checked()), (string("b"), Changed));
    assert_eq!(input.apply().await.checked(), Right);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_right_as_soon_as_it_is_there() {
    let bench = TestEnv::new();
    let (server, port) = server();
    let cache = bench.path("cache");
    std::fs::create_dir_all(&cache).unwrap();
    std::fs::write(cache.join("x"), "kept").unwrap();
    let proxy =
        HttpServerProxy { cache: format!("{}/", cache.display()).into(), ..HttpServerProxy::default() };
    let (mut server, mut proxy) = (bench.vertex("s", server), bench.vertex("/p/", proxy));
    server.apply().await.checked();
    assert_eq!(proxy.look().await.checked(), Right);
    assert_eq!(get(port, "/p/x").await.status, 404, "looking offers nothing");
    assert_eq!((proxy.apply().await.checked(), proxy.apply().await.checked()), (Right, Right));
    assert_eq!(get(port, "/p/x").await.text(), "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused() {
    let bench = TestEnv::new();
    let refused = |invalid: mgmt_resource::Invalid| invalid.to_string();
    let message = refused(bench.vertex("localhost:80", HttpServer::default()).validate().unwrap_err());
    assert!(message.contains("the host is not a number"), "{message}");
    let both = mgmt_resources::http::HttpServerFile { path: "/a".into(), ..text("b") };
    assert!(refused(bench.vertex("/a", both).validate().unwrap_err()).contains("both given"));
    let message = refused(bench.vertex("flag", HttpServerFlag::default()).validate().unwrap_err());
    assert!(message.contains("begins with a slash"), "{message}");
    let message = refused(bench.vertex("/ui", HttpServerUi::default()).validate().unwrap_err());
    assert!(message.contains("ends with a slash"), "{message}");
    let input = HttpServerUiInput { r#type: "color://".into(), ..HttpServerUiInput::default() };
    assert!(refused(bench.vertex("i", input).validate().unwrap_err()).contains("`range://`"));
    let proxy = HttpServerProxy { head: "ftp://example.com/".into(), ..HttpServerProxy::default() };
    assert!(
        refused(bench.vertex("/p/", proxy).validate().unwrap_err())
            .contains("not the address of a directory")
    );
    let proxy = HttpServerProxy { authorities: vec!["ca.pem".into()], ..HttpServerProxy::default() };
    assert!(refused(bench.vertex("/p/", proxy).validate().unwrap_err()).contains("`authorities`"));
}

#[test]
fn offers_that_name_their_server_come_before_it_and_others_run_with_it() {
    let named = |server: &str| HttpServerFlag { server: server.into(), ..HttpServerFlag::default() };
    let page = |server: &str| HttpServerUi { server: server.into(), ..HttpServerUi::default() };
    let proxy = |server: &str| HttpServerProxy { server: server.into(), ..HttpServerProxy::default() };
    let graph = http_common::graph(vec![
        http_common::spec("s", server().0),
        http_common::spec("/named", named("s")),
        http_common::spec("/other", named("other")),
        http_common::spec("/any", named("")),
        http_common::spec("/page/", page("s")),
        http_common::spec("/any page/", page("")),
        http_common::spec("/proxy/", proxy("s")),
        http_common::spec("/any proxy/", proxy("")),
        http_common::spec("input", HttpServerUiInput::default()),
    ]);
    let prepared = prepare(graph, Vec::new(), &Preparation::default()).unwrap();
    let graph = &prepared.graph;
    let (node, server) = graph.nodes().find(|(_, spec)| spec.id.to_string() == "http:server[s]").unwrap();
    let mut first: Vec<_> =
        graph.predecessors(node).map(|(node, _)| graph.node(node).unwrap().id.to_string()).collect();
    first.sort();
    assert_eq!(first, ["http:server:flag[/named]", "http:server:proxy[/proxy/]", "http:server:ui[/page/]"]);
    let mut with: Vec<_> = server.children.iter().map(|spec| spec.id.to_string()).collect();
    with.sort();
    assert_eq!(
        with,
        [
            "http:server:flag[/any]",
            "http:server:proxy[/any proxy/]",
            "http:server:ui:input[input]",
            "http:server:ui[/any page/]",
        ]
    );
}
