//! Questions to a Puppet server over HTTPS, with the certificate of this host.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName,
};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// The largest answer: a catalogue, or a file.
const LARGEST: usize = 256 << 20;

/// How long a server may take to be reached, and to answer.
const REACH: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(300);

/// Who this host is, and whom it trusts: files in PEM.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) authorities: PathBuf,
    pub(crate) revoked: Option<PathBuf>,
}

/// Asks one server.
pub(crate) struct Client {
    tls: TlsConnector,
    server: String,
    port: u16,
}

/// What a server answered.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// It wants to be left alone for so long.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Bytes,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The server is not there. Another one may be.
    OutOfReach(String),
    /// The server is there and cannot help. Another one may, or the same one later, if it has said when.
    Unable(String, Option<Duration>),
    /// Something here is not right.
    Wrong(String),
}

impl Client {
    pub(crate) fn new(identity: &Identity, server: &str, port: u16) -> Result<Client, Unanswered> {
        let config = configuration(identity).map_err(Unanswered::Wrong)?;
        Ok(Client { tls: TlsConnector::from(Arc::new(config)), server: server.to_owned(), port })
    }

    /// Asks for something.
    pub(crate) async fn get(&self, path: &str, accept: &str) -> Result<Answer, Unanswered> {
        self.ask(Method::GET, path, accept, String::new()).await
    }

    /// Sends a form.
    pub(crate) async fn post(&self, path: &str, accept: &str, form: String) -> Result<Answer, Unanswered> {
        self.ask(Method::POST, path, accept, form).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        form: String,
    ) -> Result<Answer, Unanswered> {
        let (server, port) = (&self.server, self.port);
        let there = format!("the Puppet server {server}:{port}");
        let failed = |why: &dyn std::fmt::Display| Unanswered::OutOfReach(format!("{there}: {why}"));
        let reach = async {
            let stream = TcpStream::connect((server.as_str(), port)).await?;
            let name = ServerName::try_from(server.clone()).map_err(std::io::Error::other)?;
            self.tls.connect(name, stream).await
        };
        let stream = tokio::time::timeout(REACH, reach)
            .await
            .map_err(|_| failed(&"it cannot be reached"))?
            .map_err(|error| failed(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failed(&error))?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, format!("{server}:{port}"))
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::new(Bytes::from(form)))
            .map_err(|error| Unanswered::Wrong(format!("{there}: {error}")))?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(|error| failed(&error))?;
            let status = response.status().as_u16();
            let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let retry_after = after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
            let body = Limited::new(response.into_body(), LARGEST).collect().await;
            let body = body.map_err(|error| failed(&error))?.to_bytes();
            Ok(Answer { status, retry_after, body })
        };
        // The connection is driven for as long as the answer takes, and ends with it.
        let driven = async {
            tokio::select! {
                answer = answer => answer,
                ended = connection => Err(match ended {
                    Ok(()) => failed(&"it has closed the connection"),
                    Err(error) => failed(&error),
                }),
            }
        };
        tokio::time::timeout(ANSWER, driven).await.map_err(|_| failed(&"it does not answer"))?
    }
}

fn configuration(identity: &Identity) -> Result<ClientConfig, String> {
    let at = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, String> {
        let found: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(path).map_err(|error| at(path, &error))?.collect();
        found.map_err(|error| at(path, &error))
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates(&identity.authorities)? {
        roots.add(authority).map_err(|error| at(&identity.authorities, &error))?;
    }
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let mut verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    if let Some(path) = identity.revoked.as_deref().filter(|path| path.is_file()) {
        let lists: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_file_iter(path).map_err(|error| at(path, &error))?.collect();
        verifier =
            verifier.with_crls(lists.map_err(|error| at(path, &error))?).allow_unknown_revocation_status();
    }
    let verifier = verifier.build().map_err(|error| at(&identity.authorities, &error))?;
    let key = PrivateKeyDer::from_pem_file(&identity.key).map_err(|error| at(&identity.key, &error))?;
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_webpki_verifier(verifier)
        .with_client_auth_cert(certificates(&identity.certificate)?, key)
        .map_err(|error| at(&identity.certificate, &error))
}

/// A text as a part of an address or a form.
pub(crate) fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

/// The same, for a path: its slashes stay.
pub(crate) fn encoded_path(path: &str) -> String {
    path.split('/').map(encoded).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_means_anything_in_an_address() {
        assert_eq!(encoded("a b&c=d/ü"), "a%20b%26c%3Dd%2F%C3%BC");
        assert_eq!(encoded_path("modules/a b/../x"), "modules/a%20b/../x");
    }
}
