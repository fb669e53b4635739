//! A running engine, and a client that sends exactly what it is told to.
#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::engine_common;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgmt_engine::{Engine, EngineEvent, Level, Preparation};
use mgmt_resource::{Edge, Host, Id, Receive, Resource, ResourceGraph, Spec};
use mgmt_resources::http::{HttpServer, HttpServerFile};
use mgmt_test_support::address::reserved_port;
use mgmt_value::{Str, Value};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;

pub(crate) struct RunningEngine {
    directory: TempDir,
    pub(crate) host: Arc<Host>,
    pub(crate) engine: Engine,
    pub(crate) events: UnboundedReceiver<EngineEvent>,
}

impl RunningEngine {
    pub(crate) fn start() -> RunningEngine {
        RunningEngine::start_with(Preparation::default())
    }

    pub(crate) fn start_with(preparation: Preparation) -> RunningEngine {
        let directory = tempfile::tempdir().unwrap();
        let (host, engine, events) = engine_common::start(directory.path(), preparation);
        RunningEngine { directory, host, engine, events }
    }

    /// A path in a directory of the test's own.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let directory = self.directory.path().join("test");
        std::fs::create_dir_all(&directory).unwrap();
        directory.join(name)
    }

    pub(crate) async fn swap(&mut self, graph: ResourceGraph) {
        while self.events.try_recv().is_ok() {}
        self.engine.swap(graph).await.unwrap();
        let converged = async {
            loop {
                match self.events.recv().await.unwrap() {
                    EngineEvent::Converged => break,
                    EngineEvent::Failed { id, message } => panic!("{id}: {message}"),
                    _ => {}
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), converged).await.expect("it does not converge");
    }

    /// A parameter of a resource as it is now, what was received included.
    pub(crate) async fn parameter(&self, kind: &'static str, name: &str, field: &str) -> Option<Value> {
        self.engine.inspect().await.unwrap().get(&Id::new(kind, name))?.get(field)
    }

    pub(crate) fn stop(self) {
        self.engine.stop(Level::Graceful);
        tokio::task::block_in_place(|| self.engine.wait());
    }
}

/// A graph of these resources, in no order.
pub(crate) fn graph(specs: Vec<Spec>) -> ResourceGraph {
    let mut graph = ResourceGraph::default();
    for spec in specs {
        graph.add_node(spec);
    }
    graph
}

/// Lets a parameter of a resource come from another.
pub(crate) fn receives(spec: Spec, field: &'static str, from: &Spec, key: &'static str) -> Spec {
    let receives = vec![Receive { field, from: from.id.clone(), key }];
    Spec { receives, ..spec }
}

/// Lets one come before another.
pub(crate) fn before(graph: &mut ResourceGraph, from: &str, to: &str) {
    let find = |name: &str| {
        graph.nodes().find(|(_, spec)| spec.id.to_string() == name).map(|(node, _)| node).unwrap()
    };
    let (from, to) = (find(from), find(to));
    graph.merge_edge(from, to, Edge::ORDER, Edge::merge);
}

/// A server on an address that is free.
pub(crate) fn server() -> (HttpServer, u16) {
    let port = reserved_port();
    (HttpServer { address: format!("127.0.0.1:{port}").into(), ..HttpServer::default() }, port)
}

pub(crate) fn text(data: &str) -> HttpServerFile {
    HttpServerFile { data: data.into(), ..HttpServerFile::default() }
}

pub(crate) fn spec(name: impl Into<Str>, resource: impl Resource) -> Spec {
    Spec::new(name, resource)
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// Sends some bytes and reads until the server closes.
pub(crate) async fn raw(port: u16, request: &[u8]) -> Answer {
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        // A server that refuses early may have closed before everything is written.
        let _ = stream.write_all(request).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        bytes
    };
    let bytes = tokio::time::timeout(Duration::from_secs(30), exchange).await.expect("no answer");
    parse(&bytes)
}

pub(crate) fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(bytes)));
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: bytes[end + 4..].to_vec() }
}

pub(crate) async fn request(port: u16, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{length}{headers}\r\n{body}"
    );
    raw(port, request.as_bytes()).await
}

pub(crate) async fn get(port: u16, path: &str) -> Answer {
    request(port, "GET", path, "", "").await
}

pub(crate) const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

pub(crate) async fn post(port: u16, path: &str, form: &str) -> Answer {
    request(port, "POST", path, FORM, form).await
}

/// Whether anybody listens.
pub(crate) async fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).await.is_ok()
}

pub(crate) async fn soon(what: &str, is_so: impl AsyncFn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so().await {
        assert!(Instant::now() < end, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn string(text: &str) -> Value {
    Value::Str(text.into())
}
