//! An etcd server of the benchmark's own, and a bare client of it: the calls of the protocol and nothing around them.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// A server, which ends with this.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    directory: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> Server {
        let directory = crate::world::disk();
        let address =
            || format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
        let (url, peer) = (address(), address());
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "etcd", "--name", "one", "--data-dir"])
            .arg(directory.path())
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("one={peer}"), "--logger", "zap"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd is missing: run `cargo xtask setup`");
        Server { child, url, directory }
    }

    /// Waits until the server answers.
    pub(crate) async fn raw(&self) -> Raw {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let channel = Endpoint::from_shared(self.url.clone()).unwrap().connect_lazy();
            let mut raw = Raw(Grpc::new(channel));
            match raw.try_put(b"/ready", b"").await {
                Ok(()) => return raw,
                Err(error) => assert!(Instant::now() < end, "etcd is not ready: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.directory.path();
    }
}

/// The bare client: one connection.
#[derive(Clone)]
pub(crate) struct Raw(Grpc<Channel>);

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Nothing {}

#[derive(Clone, PartialEq, Message)]
struct Watch {
    #[prost(message, optional, tag = "1")]
    create: Option<Create>,
}

#[derive(Clone, PartialEq, Message)]
struct Create {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Watched {
    #[prost(bool, tag = "3")]
    created: bool,
    #[prost(bytes = "vec", repeated, tag = "11")]
    events: Vec<Vec<u8>>,
}

impl Raw {
    async fn try_put(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.0.ready().await.map_err(|error| error.to_string())?;
        let put = tonic::Request::new(Put { key: key.to_vec(), value: value.to_vec() });
        let path = PathAndQuery::from_static("/etcdserverpb.KV/Put");
        let codec = ProstCodec::<Put, Nothing>::default();
        self.0.unary(put, path, codec).await.map(|_| ()).map_err(|error| error.to_string())
    }

    pub(crate) async fn put(&mut self, key: &str, value: &str) {
        self.try_put(key.as_bytes(), value.as_bytes()).await.unwrap();
    }

    /// Watches all keys that begin with this.
    pub(crate) async fn watch(&mut self, prefix: &str) -> Events {
        self.0.ready().await.unwrap();
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().unwrap() += 1;
        let create = Some(Create { key: prefix.as_bytes().to_vec(), end });
        // The stream of questions stays open as long as its sender is kept.
        let (questions, more) = tokio::sync::mpsc::channel(1);
        questions.send(Watch { create }).await.unwrap();
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let codec = ProstCodec::<Watch, Watched>::default();
        let asked = tonic::Request::new(Questions(more));
        let mut answers = self.0.streaming(asked, path, codec).await.unwrap().into_inner();
        let first = answers.message().await.unwrap().unwrap();
        assert!(first.created, "etcd does not watch");
        Events { answers, _questions: questions }
    }
}

struct Questions(tokio::sync::mpsc::Receiver<Watch>);

impl futures_core::Stream for Questions {
    type Item = Watch;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Watch>> {
        self.0.poll_recv(cx)
    }
}

/// What a watch tells.
pub(crate) struct Events {
    answers: tonic::Streaming<Watched>,
    _questions: tokio::sync::mpsc::Sender<Watch>,
}

impl Events {
    /// How many events have come at once.
    pub(crate) async fn next(&mut self) -> usize {
        self.answers.message().await.unwrap().unwrap().events.len()
    }
}
