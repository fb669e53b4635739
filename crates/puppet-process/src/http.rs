//! The HTTPS client for a Puppet server, with the certificate of this host.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::{Method, Request};
use mgmt_http_client::{Connector, Tls, connect, exchange};

/// The largest answer: a catalogue, or a file.
const LARGEST: usize = 256 << 20;

/// How long a server may take to be reached, and to answer.
const REACH: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(300);

/// Asks one server.
pub(crate) struct Client {
    connector: Connector,
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
    pub(crate) fn new(tls: &Tls, server: &str, port: u16) -> Result<Client, Unanswered> {
        let connector = tls.connector().map_err(|error| Unanswered::Wrong(error.0))?;
        Ok(Client { connector, server: server.to_owned(), port })
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
        let reach = connect(server, port, Some(&self.connector));
        let stream = tokio::time::timeout(REACH, reach)
            .await
            .map_err(|_| failed(&"it cannot be reached"))?
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
            let response = exchange(stream, request).await.map_err(|error| failed(&error))?;
            let status = response.status().as_u16();
            let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let retry_after = after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
            let body = Limited::new(response.into_body(), LARGEST).collect().await;
            let body = body.map_err(|error| failed(&error))?.to_bytes();
            Ok(Answer { status, retry_after, body })
        };
        tokio::time::timeout(ANSWER, answer).await.map_err(|_| failed(&"it does not answer"))?
    }
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
