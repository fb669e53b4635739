//! `http:server:flag`, `http:server:ui` and its inputs in a running engine: what clients send reaches other resources.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::http_common;
use crate::http_common::{
    FORM, RunningEngine, get, graph, post, receives, request, server, soon, spec, string, text,
};
use mgmt_resource::{Meta, Spec};
use mgmt_resources::http::{HttpServerFlag, HttpServerUi, HttpServerUiData, HttpServerUiInput};
use mgmt_resources::kv::Kv;
use mgmt_resources::print::Print;
use mgmt_resources::value::Value as Kept;
use mgmt_value::Str;

fn flag(key: &str) -> HttpServerFlag {
    HttpServerFlag { key: key.into(), ..HttpServerFlag::default() }
}

fn alone(spec: Spec) -> Spec {
    Spec { meta: Meta { autogroup: false, ..Meta::default() }.into(), ..spec }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_posted_to_a_flag_reaches_who_receives_it() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let build = |data: &str| {
        let second = spec("second", HttpServerFlag { path: "/flag".into(), ..flag("other") });
        let flag = spec("/flag", flag("key"));
        let print = receives(alone(spec("p", Print::default())), "msg", &flag, "value");
        let print_second = receives(alone(spec("q", Print::default())), "msg", &second, "value");
        graph(vec![spec("s", server.clone()), flag, second, print, print_second, spec("/a", text(data))])
    };
    running.swap(build("one")).await;
    let printed = async |name: &str| running.parameter("print", name, "msg").await.unwrap();
    assert_eq!(printed("p").await, string(""));

    assert_eq!(post(port, "/flag", "key=foo&other=b%C3%A4r+x").await.status, 200);
    soon("the first", async || printed("p").await == string("foo")).await;
    soon("the second", async || printed("q").await == string("bär x")).await;
    // What the query says is not posted.
    assert_eq!(post(port, "/flag?key=query", "key=bar").await.status, 200);
    soon("the next", async || printed("p").await == string("bar")).await;
    soon("not there any more", async || printed("q").await == string("")).await;
    assert_eq!(get(port, "/flag").await.status, 404, "a flag is only posted to");

    // A sibling that changes does not cost the value.
    running.swap(build("two")).await;
    assert_eq!(get(port, "/a").await.text(), "two");
    assert_eq!(running.parameter("print", "p", "msg").await.unwrap(), string("bar"));
    assert_eq!(post(port, "/flag", "key=again").await.status, 200);
    let printed = async || running.parameter("print", "p", "msg").await.unwrap();
    soon("after the change", async || printed().await == string("again")).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_takes_no_more_than_it_should() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let flag = spec("/flag", flag("key"));
    let print = receives(alone(spec("p", Print::default())), "msg", &flag, "value");
    running.swap(graph(vec![spec("s", server), flag, print])).await;
    let printed = async || running.parameter("print", "p", "msg").await.unwrap();
    assert_eq!(post(port, "/flag", "key=a").await.status, 200);
    soon("a", async || printed().await == string("a")).await;
    let large = format!("key={}", "x".repeat(4 * 1024 * 1024));
    assert_eq!(post(port, "/flag", &large).await.status, 413);
    let claimed = format!(
        "POST /flag HTTP/1.1\r\nHost: x\r\n{FORM}Connection: close\r\nContent-Length: 99999999999\r\n\r\n"
    );
    assert_eq!(http_common::raw(port, claimed.as_bytes()).await.status, 413);
    // Other than a form it is no value.
    assert_eq!(request(port, "POST", "/flag", "Content-Type: text/plain\r\n", "key=b").await.status, 200);
    soon("none", async || printed().await == string("")).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_feeds_a_file_of_the_same_server() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let flag = spec("/push", flag("key"));
    let file = receives(spec("/event", text("")), "data", &flag, "value");
    running.swap(graph(vec![spec("s", server), flag, file])).await;
    assert_eq!(post(port, "/push", "key=news").await.status, 200);
    soon("the file", async || get(port, "/event").await.text() == "news").await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_shows_inputs_and_takes_values() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let data = HttpServerUiData { title: "<Title> & \"more\"".into(), head: "<meta name=\"x\">".into() };
    let page = spec("/ui/", HttpServerUi { data: Some(data), ..HttpServerUi::default() });
    let name = spec(
        "name",
        HttpServerUiInput { value: "start".into(), sort: "b".into(), ..HttpServerUiInput::default() },
    );
    let range = HttpServerUiInput {
        r#type: "range://?min=0&max=5&step=1".into(),
        value: "2".into(),
        sort: "a".into(),
        ..HttpServerUiInput::default()
    };
    let elsewhere =
        spec("elsewhere", HttpServerUiInput { path: "/other/".into(), ..HttpServerUiInput::default() });
    let kept = receives(spec("kept", Kept::default()), "any", &name, "value");
    running.swap(graph(vec![spec("s", server), page, name, spec("range", range), elsewhere, kept])).await;

    let moved = get(port, "/ui/").await;
    assert_eq!((moved.status, moved.header("location")), (301, Some("/ui/index.html")));
    let html = get(port, "/ui/index.html").await;
    assert!(html.text().contains("<title>&lt;Title&gt; &amp; &quot;more&quot;</title>"), "{}", html.text());
    assert!(html.text().contains("<meta name=\"x\">"));
    assert!(get(port, "/ui/page.js").await.header("content-type").unwrap().starts_with("text/javascript"));
    assert_eq!(get(port, "/ui/ping").await.text(), r#"{"message":"pong"}"#);
    assert_eq!(
        get(port, "/ui/list/").await.text(),
        concat!(
            r#"{"elements":[{"kind":"http:server:ui:input","id":"range","type":{"type":"range","min":"0","max":"5","step":"1"},"sort":"a"},"#,
            r#"{"kind":"http:server:ui:input","id":"name","type":{"type":"text"},"sort":"b"}]}"#
        )
    );
    assert_eq!(get(port, "/ui/list/name").await.text(), r#"{"value":"start"}"#);
    assert_eq!(get(port, "/ui/list/elsewhere").await.status, 400);

    let waiting = tokio::spawn(async move {
        // A change before it waits would be missed, so it is made again until it is heard.
        get(port, "/ui/watch/name").await
    });
    let mut posts = 0;
    while !waiting.is_finished() {
        posts += 1;
        let saved = post(port, "/ui/save/", &format!("id=name&value=new{posts}")).await;
        assert_eq!((saved.status, saved.text()), (200, "null"));
    }
    assert!(waiting.await.unwrap().text().contains("new"));
    let last = format!("new{posts}");
    assert_eq!(get(port, "/ui/list/name").await.text(), format!(r#"{{"value":"{last}"}}"#));
    let kept = async || running.parameter("value", "kept", "any").await.unwrap();
    soon("it reaches the receiver", async || kept().await == string(last.as_str())).await;

    for (form, why) in [
        ("id=range&value=9", "0 to 5"),
        ("id=range&value=x", "whole number"),
        ("id=none&value=1", "no input"),
        ("id=range", "`value` is missing"),
        ("value=1", "`id` is missing"),
    ] {
        let refused = post(port, "/ui/save/", form).await;
        assert_eq!(refused.status, 400, "{form}");
        assert!(refused.text().contains(why), "{form}: {}", refused.text());
    }
    let foreign = format!("{FORM}Origin: http://elsewhere.example.com\r\n");
    assert_eq!(request(port, "POST", "/ui/save/", &foreign, "id=range&value=1").await.status, 403);
    let own = format!("{FORM}Origin: http://127.0.0.1:{port}\r\n");
    assert_eq!(request(port, "POST", "/ui/save/", &own, "id=range&value=1").await.status, 200);
    assert_eq!(get(port, "/ui/save/").await.status, 405);
    assert_eq!(post(port, "/ui/list/", "").await.status, 405);
    assert_eq!(get(port, "/ui/nothing").await.status, 404);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_with_a_store_follows_it_and_changes_it() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let stored = |store: &str| HttpServerUiInput { store: store.into(), ..HttpServerUiInput::default() };
    let (world, local) = (spec("w", stored("world://?key=k")), spec("l", stored("local://")));
    let print = receives(alone(spec("p", Print::default())), "msg", &world, "value");
    let print_local = receives(alone(spec("q", Print::default())), "msg", &local, "value");
    running.host.strings().set_shared(&"k".into(), Some(&"before".into())).await.unwrap();
    let specs = vec![spec("s", server), spec("/", HttpServerUi::default()), world, local, print, print_local];
    running.swap(graph(specs)).await;
    let printed = async |name: &str| running.parameter("print", name, "msg").await.unwrap();
    assert_eq!(printed("p").await, string("before"), "what is stored is not overwritten");

    running.host.strings().set_shared(&"k".into(), Some(&"by others".into())).await.unwrap();
    soon("others change it", async || printed("p").await == string("by others")).await;
    assert_eq!(get(port, "/list/w").await.text(), r#"{"value":"by others"}"#);
    assert_eq!(post(port, "/save/", "id=w&value=posted").await.status, 200);
    soon("it is stored", async || {
        running.host.strings().shared(&"k".into()).await.unwrap() == Some(Str::from("posted"))
    })
    .await;
    soon("it is sent", async || printed("p").await == string("posted")).await;

    assert_eq!(post(port, "/save/", "id=l&value=here").await.status, 200);
    soon("it is kept", async || running.host.local.value_get(&"l".into()).unwrap() == Some(string("here")))
        .await;
    running.host.local.value_set(&"l".into(), Some(&string("changed"))).unwrap();
    soon("it is followed", async || printed("q").await == string("changed")).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_without_a_page_sends_what_it_has() {
    let mut running = RunningEngine::start();
    let input = spec("i", HttpServerUiInput { value: "x".into(), ..HttpServerUiInput::default() });
    let kv = receives(spec("k", Kv::default()), "value", &input, "value");
    running.swap(graph(vec![input, kv])).await;
    assert_eq!(running.host.strings().shared(&"k".into()).await.unwrap(), Some(Str::from("x")));
    running.stop();
}
