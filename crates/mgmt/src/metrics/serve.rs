//! The page over a port, for who asks with HTTP. It answers one request per connection and knows one path.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::Metrics;
use super::page::CONTENT_TYPE;
use crate::failure::Failure;

/// A server that ends with this.
pub(crate) struct Server(JoinHandle<()>);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How long a request may take, and its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest request.
const LONGEST: usize = 16 << 10;

/// How many may ask at once. Others wait.
const AT_ONCE: usize = 8;

/// Begins to listen.
pub(crate) async fn serve(metrics: Arc<Metrics>, address: SocketAddr) -> Result<Server, Failure> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::failed(format!("cannot serve metrics at {address}: {error}"))
            .hint("choose another address with `--prometheus-listen ADDRESS:PORT`")
    })?;
    let address = listener.local_addr().map_err(|error| Failure::failed(format!("metrics: {error}")))?;
    tracing::info!("serving metrics at http://{address}/metrics");
    let places = Arc::new(Semaphore::new(AT_ONCE));
    Ok(Server(tokio::spawn(async move {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let metrics = Arc::clone(&metrics);
                    tokio::spawn(async move {
                        // Whoever is too slow, or goes away, gets nothing.
                        let _ = tokio::time::timeout(PATIENCE, answer(stream, &metrics)).await;
                        drop(place);
                    });
                }
                // Too many descriptors, mostly; that may pass.
                Err(error) => {
                    tracing::debug!("metrics: {error}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    })))
}

async fn answer(mut stream: TcpStream, metrics: &Metrics) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut piece = [0; 2048];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let length = stream.read(&mut piece).await?;
        request.extend_from_slice(piece.get(..length).unwrap_or_default());
        if length == 0 || request.len() > LONGEST {
            return Ok(());
        }
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let plain = "text/plain; charset=utf-8";
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", CONTENT_TYPE, metrics.page().await),
        ("GET" | "HEAD", "/") => ("200 OK", plain, "the numbers are at /metrics\n".to_owned()),
        ("GET" | "HEAD", _) => ("404 Not Found", plain, "only /metrics is here\n".to_owned()),
        _ => ("405 Method Not Allowed", plain, "only GET is understood\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}
