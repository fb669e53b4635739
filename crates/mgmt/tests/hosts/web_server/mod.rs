//! A web server for tests, with and without certificates: it has what it is given, and remembers what it was asked.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

/// A server. It ends with this.
pub(crate) struct Web {
    /// Where it is: `http://localhost:…`.
    pub(crate) plain: String,
    /// The same with a certificate.
    pub(crate) secure: String,
    shared: Arc<Mutex<Shared>>,
    _runtime: Runtime,
}

#[derive(Default)]
struct Shared {
    pages: BTreeMap<String, Page>,
    asked: Vec<String>,
    is_down: bool,
}

/// What is at one address.
#[derive(Clone, Default)]
pub(crate) struct Page {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Page {
    /// A text, and nothing else.
    pub(crate) fn new(body: &str) -> Page {
        Page { status: 200, body: body.to_owned(), ..Page::default() }
    }

    /// Somewhere else.
    pub(crate) fn moved(to: &str) -> Page {
        Page { status: 302, ..Page::default() }.with("location", to)
    }

    /// With a header.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Page {
        self.headers.push((name, value.to_owned()));
        self
    }
}

impl Web {
    /// Serves on this host, with the certificate `server.pem` of a directory.
    pub(crate) fn start(certificates: &Path) -> Web {
        let runtime = Runtime::new().unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_file(certificates.join("server.pem")).unwrap()],
                PrivateKeyDer::from_pem_file(certificates.join("server.key")).unwrap(),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let shared = Arc::<Mutex<Shared>>::default();
        let listen = |acceptor: Option<TlsAcceptor>| {
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let port = listener.local_addr().unwrap().port();
            runtime.spawn(accept(listener, acceptor, Arc::clone(&shared)));
            port
        };
        let plain = format!("http://localhost:{}", listen(None));
        let secure = format!("https://localhost:{}", listen(Some(acceptor)));
        Web { plain, secure, shared, _runtime: runtime }
    }

    /// Has something at a path from now on.
    pub(crate) fn put(&self, path: &str, page: Page) {
        self.shared.lock().unwrap().pages.insert(path.to_owned(), page);
    }

    /// Hangs up on everybody, or answers again.
    pub(crate) fn down(&self, is_down: bool) {
        self.shared.lock().unwrap().is_down = is_down;
    }

    /// What was asked since the last call: method, path, status.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.lock().unwrap().asked)
    }
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, shared: Arc<Mutex<Shared>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        if shared.lock().unwrap().is_down {
            continue;
        }
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let answer = hyper::service::service_fn(move |request| {
                let answer = shared.lock().unwrap().answer(&request);
                async move { Ok::<_, std::convert::Infallible>(answer) }
            });
            let mut connection = hyper::server::conn::http1::Builder::new();
            connection.keep_alive(false);
            // Whoever hangs up in the middle has its reasons.
            let _ = match acceptor {
                None => connection.serve_connection(TokioIo::new(stream), answer).await,
                Some(acceptor) => match acceptor.accept(stream).await {
                    Ok(stream) => connection.serve_connection(TokioIo::new(stream), answer).await,
                    Err(_) => Ok(()),
                },
            };
        });
    }
}

impl Shared {
    fn answer(&mut self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let page = self.pages.get(&path).cloned().unwrap_or(Page { status: 404, ..Page::default() });
        let same = |(name, value): &(&str, String)| {
            let asked = match *name {
                "etag" => "if-none-match",
                "last-modified" => "if-modified-since",
                _ => return false,
            };
            request.headers().get(asked).is_some_and(|known| known == value)
        };
        let status = if page.headers.iter().any(same) { 304 } else { page.status };
        self.asked.push(format!("{} {path} {status}", request.method()));
        let answer = Response::builder().status(status);
        let answer = page.headers.iter().fold(answer, |answer, (name, value)| answer.header(*name, value));
        let has_body = *request.method() != Method::HEAD && status != 304;
        answer.body(Full::new(Bytes::from(if has_body { page.body } else { String::new() }))).unwrap()
    }
}
