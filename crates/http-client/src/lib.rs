//! HTTP client connections: TCP, TLS and one exchange over HTTP/1.1.
//!
//! The central type is [`Tls`]: whom a client trusts and which certificate it presents. It becomes a [`Connector`], with which
//! [`connect`] opens an encrypted [`Stream`]; without one, the stream is plain. [`exchange`] sends one request over it. Everything that asks a server builds on these: files with a `source` at an
//! address, `http:server:proxy`, and the questions to a Puppet server.
//!
//! # Invariants
//!
//! - A server reached over TLS has a certificate of a trusted authority for the name that was asked for. There is no way to switch
//!   that off.
//! - An [`Error`] holds the whole chain of causes in one line.
//!
//! # Deliberately absent
//!
//! - Deadlines, limits of size, redirects, caching: each caller has its own rules.
//! - Connection pools, proxies, compression.

mod tls;

use std::io;

use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

pub use tls::{Identity, Tls, check_authorities};

/// A connection to a server.
pub type Stream = Box<dyn Transport>;

/// A byte stream that HTTP can run over.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Why a server could not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        // The whole chain: the first of them alone often says no more than that something went wrong.
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Error(text)
    }
}

/// Opens a connection to a port of a host, encrypted with a connector.
pub async fn connect(host: &str, port: u16, tls: Option<&Connector>) -> Result<Stream, Error> {
    let stream = TcpStream::connect((host, port)).await?;
    match tls {
        Some(connector) => connector.encrypt(host, stream).await,
        None => Ok(Box::new(stream)),
    }
}

/// Encrypts connections, as [`Tls`] says.
#[derive(Clone)]
pub struct Connector(TlsConnector);

impl Connector {
    /// Encrypts a connection to a host.
    pub async fn encrypt(&self, host: &str, stream: TcpStream) -> Result<Stream, Error> {
        let name = ServerName::try_from(host.to_owned())?;
        Ok(Box::new(self.0.connect(name, stream).await?))
    }
}

/// Sends a request, and returns the response as soon as its head is there.
///
/// The connection is driven by a task that ends with the body of the response, or when the response is dropped.
pub async fn exchange<B>(stream: Stream, request: Request<B>) -> Result<Response<Incoming>, Error>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::other(error.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use http_body_util::{BodyExt as _, Empty};
    use hyper::body::Bytes;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers one connection with these words, whatever it is asked.
    async fn server(words: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).await;
            stream.write_all(words.as_bytes()).await.unwrap();
        });
        port
    }

    fn request() -> Request<Empty<Bytes>> {
        Request::get("/").header("host", "test").body(Empty::new()).unwrap()
    }

    #[tokio::test]
    async fn a_request_has_a_response() {
        let port = server("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
        let stream = connect("127.0.0.1", port, None).await.unwrap();
        let response = exchange(stream, request()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hi");
    }

    #[tokio::test]
    async fn a_server_that_does_not_speak_http_or_tls_is_an_error() {
        let stream = connect("127.0.0.1", server("SSH-2.0-x\r\n").await, None).await.unwrap();
        let error = exchange(stream, request()).await.unwrap_err();
        assert!(error.to_string().contains("invalid HTTP"), "{error}");
        let connector = Tls::of_host(&[]).connector().unwrap();
        let error = connect("127.0.0.1", server("SSH-2.0-x\r\n").await, Some(&connector)).await;
        assert!(error.is_err_and(|error| !error.to_string().is_empty()));
    }

    #[test]
    fn an_error_has_all_its_causes_once() {
        #[derive(Debug)]
        struct Outer(io::Error);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("cannot send")
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        assert_eq!(Error::from(Outer(io::Error::other("pipe is closed"))).0, "cannot send: pipe is closed");
        assert_eq!(Error::from(Outer(io::Error::other("send"))).0, "cannot send");
    }
}
