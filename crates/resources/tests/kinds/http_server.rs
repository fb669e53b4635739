//! `http:server` and `http:server:file` in a running engine, on the loopback interface.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::http_common;
use std::fs;
use std::os::unix::fs::symlink;

use crate::http_common::{
    RunningEngine, before, get, graph, listens, receives, request, server, soon, spec, string, text,
};
use mgmt_engine::{EngineEvent, Preparation};
use mgmt_resource::Spec;
use mgmt_resources::file::File;
use mgmt_resources::http::{HttpServer, HttpServerFile, HttpServerProxy, HttpServerUi};
use mgmt_resources::value::Value as Kept;
use rustix::process::{PidfdFlags, PidfdGetfdFlags};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn from_disk(path: &std::path::Path) -> HttpServerFile {
    HttpServerFile { path: path.to_str().unwrap().into(), ..HttpServerFile::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_served_and_changes_while_the_server_listens() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    running.swap(graph(vec![spec("s", server.clone()), spec("/a.html", text("<p>one"))])).await;
    let answer = get(port, "/a.html").await;
    assert_eq!((answer.status, answer.text()), (200, "<p>one"));
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(answer.header("content-length"), Some("6"));
    assert!(answer.header("last-modified").is_some());

    // A connection that lives through the change, to see that nothing was closed for it.
    let mut kept = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    kept.write_all(b"GET /a.html HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut first = vec![0; 1024];
    let read = kept.read(&mut first).await.unwrap();
    assert!(first[..read].starts_with(b"HTTP/1.1 200"));

    running.swap(graph(vec![spec("s", server.clone()), spec("/a.html", text("<p>two"))])).await;
    assert_eq!(get(port, "/a.html").await.text(), "<p>two");
    kept.write_all(b"GET /a.html HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    kept.read_to_end(&mut rest).await.unwrap();
    assert_eq!(http_common::parse(&rest).text(), "<p>two", "the same connection");

    running.swap(graph(vec![spec("s", server)])).await;
    soon("what has gone is served no more", async || get(port, "/a.html").await.status == 404).await;
    running.stop();
}

/// Does to the socket that listens on a port what any program with enough rights can do.
fn shut(port: u16) {
    let sockets = fs::read_to_string("/proc/self/net/tcp").unwrap();
    let socket = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listening = |words: &Vec<&str>| words[1].ends_with(&format!(":{port:04X}")) && words[3] == "0A";
    let inode = socket.skip(1).find(listening).unwrap()[9].to_owned();
    let descriptor = fs::read_dir("/proc/self/fd").unwrap().find_map(|entry| {
        let entry = entry.unwrap();
        let is_it =
            fs::read_link(entry.path()).is_ok_and(|to| to.to_str() == Some(&format!("socket:[{inode}]")));
        is_it.then(|| entry.file_name().to_str().unwrap().parse().unwrap())
    });
    let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).unwrap();
    let socket = rustix::process::pidfd_getfd(own, descriptor.unwrap(), PidfdGetfdFlags::empty()).unwrap();
    rustix::net::shutdown(socket, rustix::net::Shutdown::Both).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_somebody_shuts_is_opened_again_and_all_is_served_as_before() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let cache = running.path("cache");
    fs::create_dir_all(&cache).unwrap();
    fs::write(cache.join("kept"), "kept").unwrap();
    let cache = format!("{}/", cache.display());
    let proxy = HttpServerProxy { cache: cache.into(), ..HttpServerProxy::default() };
    running
        .swap(graph(vec![
            spec("s", server),
            spec("/a", text("a")),
            spec("/page/", HttpServerUi::default()),
            spec("/mirror/", proxy),
        ]))
        .await;
    for _ in 0..3 {
        assert!(listens(port).await);
        shut(port);
        soon("it listens again", async || listens(port).await).await;
        assert_eq!(get(port, "/a").await.text(), "a");
        assert_eq!(get(port, "/page/ping").await.status, 200);
        assert_eq!(get(port, "/mirror/kept").await.text(), "kept");
    }
    running.stop();
    assert!(!listens(port).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_is_free_once_the_server_has_gone() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    running.swap(graph(vec![spec("s", server.clone()), spec("/a", text("a"))])).await;
    assert!(listens(port).await);
    running.swap(graph(vec![spec("/a", text("a"))])).await;
    soon("freed by a swap", async || !listens(port).await).await;

    // Another server takes the address of one that goes in the same moment.
    running.swap(graph(vec![spec("s", server.clone())])).await;
    running.swap(graph(vec![spec("other", server.clone()), spec("/a", text("b"))])).await;
    assert_eq!(get(port, "/a").await.text(), "b");

    // And one that moves leaves the old address.
    let next = mgmt_test_support::address::reserved_port();
    let moved = HttpServer { address: format!("127.0.0.1:{next}").into(), ..server.clone() };
    running.swap(graph(vec![spec("other", moved), spec("/a", text("b"))])).await;
    assert_eq!(get(next, "/a").await.text(), "b");
    assert!(!listens(port).await);

    running.stop();
    soon("freed with the engine", async || !listens(next).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_can_exchange_their_addresses() {
    let mut running = RunningEngine::start();
    let ((one, first), (two, second)) = (server(), server());
    let named = |server: &str, data: &str| HttpServerFile { server: server.into(), ..text(data) };
    let offers = || {
        vec![
            spec("one file", HttpServerFile { filename: "/x".into(), ..named("one", "of one") }),
            spec("two file", HttpServerFile { filename: "/x".into(), ..named("two", "of two") }),
        ]
    };
    let mut specs = offers();
    specs.extend([spec("one", one.clone()), spec("two", two.clone())]);
    running.swap(graph(specs)).await;
    assert_eq!(get(first, "/x").await.text(), "of one");
    assert_eq!(get(second, "/x").await.text(), "of two");
    let mut specs = offers();
    specs.extend([spec("one", two), spec("two", one)]);
    running.swap(graph(specs)).await;
    assert_eq!(get(first, "/x").await.text(), "of two");
    assert_eq!(get(second, "/x").await.text(), "of one");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_only_starts_nothing() {
    let mut running = RunningEngine::start_with(Preparation { noop: true, ..Preparation::default() });
    let (server, port) = server();
    running.swap(graph(vec![spec("s", server), spec("/a", text("a"))])).await;
    assert!(!listens(port).await);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_a_clear_error_and_is_tried_again() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    running.engine.swap(graph(vec![spec("s", server.clone())])).await.unwrap();
    let failed = loop {
        if let EngineEvent::Failed { id, message } = running.events.recv().await.unwrap() {
            break format!("{id}: {message}");
        }
    };
    assert!(failed.contains(&format!("http:server[s]: cannot listen on 127.0.0.1:{port}")), "{failed}");

    let mut patient = spec("s", server);
    let mut meta = (*patient.meta).clone();
    (meta.retry, meta.delay) = (Some(-1), 10);
    patient.meta = meta.into();
    running.engine.swap(graph(vec![patient])).await.unwrap();
    drop(taken);
    soon("it listens in the end", async || listens(port).await).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_directories_are_served_and_nothing_beside_them() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let (public, secret) = (running.path("public"), running.path("secret"));
    fs::create_dir_all(public.join("deep/er")).unwrap();
    fs::write(&secret, "secret").unwrap();
    fs::write(public.join("a b.txt"), "a b").unwrap();
    fs::write(public.join("deep/er/c"), "c").unwrap();
    symlink(&secret, public.join("link")).unwrap();
    symlink(running.path(""), public.join("up")).unwrap();
    let directory =
        HttpServerFile { path: format!("{}/", public.display()).into(), ..HttpServerFile::default() };
    let root = HttpServer { root: format!("{}/", public.display()).into(), ..server };
    running
        .swap(graph(vec![
            spec("s", root),
            spec("/dir/", directory),
            spec("/one", from_disk(&public.join("a b.txt"))),
            spec("/missing", from_disk(&public.join("none"))),
        ]))
        .await;

    for (path, expected) in [
        ("/one", "a b"),
        ("/a%20b.txt", "a b"),
        ("/deep/er/c", "c"),
        ("/dir/a%20b.txt", "a b"),
        ("/dir/deep/er/c", "c"),
    ] {
        let answer = get(port, path).await;
        assert_eq!((answer.status, answer.text()), (200, expected), "{path}");
    }
    for path in [
        "/none",
        "/missing",
        "/",
        "/deep",
        "/deep/",
        "/dir/",
        "/dir/deep",
        "/link",
        "/dir/link",
        "/up/secret",
        "/dir/up/secret",
        "/one/x",
    ] {
        assert_eq!(get(port, path).await.status, 404, "{path}");
    }
    // Whatever is asked for, nothing outside comes back, and nothing breaks.
    for path in [
        "/../secret",
        "/..%2fsecret",
        "/%2e%2e/secret",
        "/dir/../../secret",
        "/dir/..%2f..%2fsecret",
        "/dir/%2e%2e%2f%2e%2e%2fsecret",
        "/dir//../../secret",
        "/dir/deep/%2e./..%2fsecret",
        "/dir/..%5csecret",
        "//secret",
        "/%00",
        "/dir/%00",
        "/dir/%ff%fe",
        "/dir/%",
        "/dir/%zz",
        "*",
        "http://elsewhere/../secret",
    ] {
        let answer = get(port, path).await;
        assert!([301, 400, 404].contains(&answer.status), "{path}: {answer:?}");
        assert!(!answer.text().contains("secret"), "{path}");
        if let Some(location) = answer.header("location") {
            assert!(
                location.starts_with('/') && !location.starts_with("//") && !location.contains(".."),
                "{location}"
            );
            assert_eq!(get(port, location).await.status, 404, "{path} leads to {location}");
        }
    }
    let long = format!("/dir/{}", "x".repeat(5000));
    assert_eq!(get(port, &long).await.status, 404);
    assert_eq!(get(port, &format!("/dir{}", "/x".repeat(3000))).await.status, 404);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_come_whole_or_in_parts() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let file = running.path("large");
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    fs::write(&file, &content).unwrap();
    running.swap(graph(vec![spec("s", server), spec("/large", from_disk(&file))])).await;

    let whole = get(port, "/large").await;
    assert!(whole.body == content);
    assert_eq!(whole.header("content-type"), Some("application/octet-stream"));
    let head = request(port, "HEAD", "/large", "", "").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some("3000000"));
    let part = request(port, "GET", "/large", "Range: bytes=1000000-1999999\r\n", "").await;
    assert_eq!(part.status, 206);
    assert!(part.body == content[1_000_000..2_000_000]);
    assert_eq!(part.header("content-range"), Some("bytes 1000000-1999999/3000000"));
    let parts = request(port, "GET", "/large", "Range: bytes=0-1,-2\r\n", "").await;
    let length: usize = parts.header("content-length").unwrap().parse().unwrap();
    assert_eq!((parts.status, parts.body.len()), (206, length));
    assert_eq!(request(port, "GET", "/large", "Range: bytes=3000000-\r\n", "").await.status, 416);
    let has = format!("If-Modified-Since: {}\r\n", whole.header("last-modified").unwrap());
    let unchanged = request(port, "GET", "/large", &has, "").await;
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    let posted = request(port, "POST", "/large", "", "x").await;
    assert_eq!((posted.status, posted.header("allow")), (405, Some("GET, HEAD")));
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_that_is_not_there_is_an_error() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let root = HttpServer { root: format!("{}/", running.path("none").display()).into(), ..server };
    running.engine.swap(graph(vec![spec("s", root)])).await.unwrap();
    let failed = loop {
        if let EngineEvent::Failed { message, .. } = running.events.recv().await.unwrap() {
            break message;
        }
    };
    assert!(failed.contains("cannot use the root"), "{failed}");
    assert!(!listens(port).await);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_comes_after_what_it_serves() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let path = running.path("content");
    let written = File { content: Some("written".into()), state: "exists".into(), ..File::default() };
    let named = HttpServerFile { server: "s".into(), ..from_disk(&path) };
    running
        .swap(graph(vec![
            spec("s", server),
            spec("/named", named),
            spec("/any", from_disk(&path)),
            spec(path.to_str().unwrap(), written),
        ]))
        .await;
    assert_eq!(get(port, "/named").await.text(), "written");
    assert_eq!(get(port, "/any").await.text(), "written");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_change_gets_it() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let path = running.path("watched");
    fs::write(&path, "one").unwrap();
    let from_file = HttpServerFile { longpoll: true, ..from_disk(&path) };
    let sender = spec("v", Kept { any: Some(string("first")) });
    let received = HttpServerFile { longpoll: true, ..HttpServerFile::default() };
    let specs = |kept: &str| {
        let sender =
            Spec { resource: std::sync::Arc::new(Kept { any: Some(string(kept)) }), ..sender.clone() };
        let received = receives(spec("/received", received.clone()), "data", &sender, "any");
        graph(vec![spec("s", server.clone()), spec("/watched", from_file.clone()), sender, received])
    };
    running.swap(specs("first")).await;

    let has = |answer: &http_common::Answer| {
        format!("If-Modified-Since: {}\r\n", answer.header("last-modified").unwrap())
    };
    let now = get(port, "/watched").await;
    assert_eq!(now.text(), "one");
    let header = has(&now);
    let waiting = tokio::spawn(async move { request(port, "GET", "/watched", &header, "").await });
    fs::write(path.with_extension("new"), "two").unwrap();
    fs::rename(path.with_extension("new"), &path).unwrap();
    let next = waiting.await.unwrap();
    assert_eq!((next.status, next.text()), (200, "two"));
    assert!(next.header("last-modified") != now.header("last-modified"));

    let now = get(port, "/received").await;
    assert_eq!(now.text(), "first");
    let header = has(&now);
    let waiting = tokio::spawn(async move { request(port, "GET", "/received", &header, "").await });
    running.swap(specs("second")).await;
    assert_eq!(waiting.await.unwrap().text(), "second");

    // Who waits when the server goes is told to come again.
    let header = has(&get(port, "/watched").await);
    let mut waiting = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let asked = format!("GET /watched HTTP/1.1\r\nHost: x\r\n{header}\r\n");
    waiting.write_all(asked.as_bytes()).await.unwrap();
    // The next request on another connection is answered, so the first has been read by then, most likely.
    get(port, "/received").await;
    running.swap(graph(vec![])).await;
    let mut rest = Vec::new();
    waiting.read_to_end(&mut rest).await.unwrap();
    let answer = String::from_utf8(rest).unwrap();
    assert!(answer.is_empty() || answer.contains("503") && answer.contains("retry-after: 1"), "{answer}");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_under_way_outlives_its_server() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let file = running.path("large");
    fs::write(&file, vec![b'x'; 20_000_000]).unwrap();
    running.swap(graph(vec![spec("s", server), spec("/large", from_disk(&file))])).await;
    let mut client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    client.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut some = vec![0; 1000];
    client.read_exact(&mut some).await.unwrap();
    running.swap(graph(vec![])).await;
    soon("the address is free", async || !listens(port).await).await;
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(some.len() + rest.len() > 20_000_000, "{}", rest.len());

    // Unless it has to hurry.
    let (hurried, port) = http_common::server();
    let hurried = HttpServer { shutdown_timeout: Some(1), ..hurried };
    running.swap(graph(vec![spec("s", hurried), spec("/large", from_disk(&file))])).await;
    let mut client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    client.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    client.read_exact(&mut some).await.unwrap();
    running.swap(graph(vec![])).await;
    // Without a hurry it would wait for us.
    soon("it is cut off", async || {
        let mut byte = [0];
        client.peek(&mut byte).await.is_err() || unsent(&client)
    })
    .await;
    running.stop();
}

/// The other side has closed, whatever is still to be read.
fn unsent(client: &TcpStream) -> bool {
    let port = client.local_addr().unwrap().port();
    let connections = fs::read_to_string("/proc/net/tcp").unwrap();
    let own = format!(":{port:04X}");
    // Neither side is in the state of an open connection.
    !connections.lines().any(|line| {
        let mut columns = line.split_whitespace().skip(2);
        columns.next().is_some_and(|remote| remote.ends_with(&own)) && columns.next() == Some("01")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_that_stands_after_its_server_is_served_all_the_same() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let mut graph = graph(vec![spec("s", server), spec("/late", text("late"))]);
    before(&mut graph, "http:server[s]", "http:server:file[/late]");
    running.swap(graph).await;
    assert_eq!(get(port, "/late").await.text(), "late");
    running.stop();
}
