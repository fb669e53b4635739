//! `http:server` and clients that mean no good.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::http_common;
use std::time::Duration;

use crate::http_common::{RunningEngine, get, graph, raw, server, spec, text};
use mgmt_resources::http::{HttpServer, HttpServerFlag};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How much comes before the server closes the connection, which it does.
async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = async {
        // A connection that is reset is closed, too.
        let _ = stream.read_to_end(&mut bytes).await;
    };
    tokio::time::timeout(Duration::from_secs(60), read).await.expect("the server waits for ever");
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_none_are_refused_and_others_are_served() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    running.swap(graph(vec![spec("s", server), spec("/a", text("fine"))])).await;
    let huge = format!("GET /a HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    let answer = raw(port, huge.as_bytes()).await;
    assert_eq!(answer.status, 431);
    let many = format!("GET /a HTTP/1.1\r\nHost: x\r\n{}\r\n", "X: x\r\n".repeat(500));
    assert_eq!(raw(port, many.as_bytes()).await.status, 431);
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(200_000));
    assert!([414, 431].contains(&raw(port, long.as_bytes()).await.status));
    for nonsense in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET /a HTTP/9.9\r\n\r\n",
        b"GET /a\x00b HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /a HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nConnection: close\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let _ = stream.write_all(nonsense).await;
        let _ = stream.shutdown().await;
        let answer = until_closed(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{:?}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(get(port, "/a").await.text(), "fine");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_slow_is_cut_off_and_disturbs_nobody() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let hasty = HttpServer { timeout: Some(1), ..server };
    let flag = HttpServerFlag { key: "key".into(), ..HttpServerFlag::default() };
    running.swap(graph(vec![spec("s", hasty), spec("/a", text("fine")), spec("/flag", flag)])).await;

    let mut silent = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut half = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    half.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\nX-").await.unwrap();
    let mut idle = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    idle.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut body = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head =
        format!("POST /flag HTTP/1.1\r\nHost: x\r\n{}Content-Length: 100\r\n\r\nkey=", http_common::FORM);
    body.write_all(head.as_bytes()).await.unwrap();

    assert_eq!(get(port, "/a").await.text(), "fine");
    until_closed(&mut silent).await;
    until_closed(&mut half).await;
    assert!(until_closed(&mut idle).await.ends_with(b"fine"));
    assert!(until_closed(&mut body).await.starts_with(b"HTTP/1.1 408"));
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_is_cut_off() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let hasty = HttpServer { write_timeout: Some(1), ..server };
    let large = text(&"x".repeat(30_000_000));
    running.swap(graph(vec![spec("s", hasty), spec("/large", large)])).await;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut some = [0; 100];
    stream.read_exact(&mut some).await.unwrap();
    // Only when the time is over does anybody free the room for another; meanwhile others are served.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let got = until_closed(&mut stream).await.len();
    assert!(got < 29_000_000, "all of it was sent");
    running.stop();
}

/// A client at another address of the loopback network.
async fn connect_from(client: [u8; 4], port: u16) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((client, 0).into()).unwrap();
    socket.connect(([127, 0, 0, 1], port).into()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_opens_all_it_can_does_not_starve_another() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    running.swap(graph(vec![spec("s", server), spec("/a", text("fine"))])).await;
    let mut crowd = Vec::new();
    for _ in 0..1300 {
        let mut stream = connect_from([127, 0, 0, 2], port).await;
        // Half of a request. Those who are turned away may be gone before that.
        let _ = stream.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\nX-").await;
        crowd.push(stream);
    }
    for _ in 0..100 {
        assert_eq!(get(port, "/a").await.text(), "fine");
    }
    let mut turned_away = crowd.pop().unwrap();
    let mut answer = Vec::new();
    // What it has sent meanwhile may cost it the answer.
    let _ = turned_away.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 429"), "{}", String::from_utf8_lossy(&answer));
    drop(crowd);
    for _ in 0..100 {
        let mut stream = connect_from([127, 0, 0, 2], port).await;
        let _ = stream.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        if until_closed(&mut stream).await.ends_with(b"fine") {
            running.stop();
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("a client that has let go is not let in again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_says_which_host_it_is_for() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    running.swap(graph(vec![spec("s", server), spec("/a", text("fine"))])).await;
    for (head, status) in [
        ("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200"),
        ("GET /a HTTP/1.1\r\nConnection: close\r\n\r\n", "HTTP/1.1 400"),
        ("GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: close\r\n\r\n", "HTTP/1.1 400"),
        ("GET /a HTTP/1.0\r\n\r\n", "HTTP/1.0 200"),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = until_closed(&mut stream).await;
        assert!(answer.starts_with(status.as_bytes()), "{head}: {}", String::from_utf8_lossy(&answer));
    }
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_there_is_room_for_wait_their_turn() {
    let mut running = RunningEngine::start();
    let (server, port) = server();
    let server = HttpServer { connections_per_client: Some(0), ..server };
    running.swap(graph(vec![spec("s", server), spec("/a", text("fine"))])).await;
    let mut crowd = Vec::new();
    for _ in 0..256 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        // An answer means that it has been let in, and it stays.
        stream.read_exact(&mut [0; 4]).await.unwrap();
        crowd.push(stream);
    }
    let late = tokio::spawn(async move { get(port, "/a").await.status });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!late.is_finished(), "it was let in");
    crowd.pop();
    assert_eq!(late.await.unwrap(), 200);
    running.stop();
}
