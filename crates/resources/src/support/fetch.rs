//! What is at an address, over HTTP or HTTPS.
//!
//! [`ask`] sends one question, goes where it is sent, and gives what came of it; the content is then taken piece by piece from a
//! [`Body`]. All of it is bounded: how long a server may be silent, how long the whole may take, how much may come, and how
//! often one may be sent elsewhere.
//!
//! A server that is asked over HTTPS has to be one that the host trusts, or one of the authorities that are named. Who was asked over
//! HTTPS may not send us to one without, unless what comes is checked otherwise.
//!
//! Deliberately absent: proxies, passwords in addresses (they would be told with the address), compression.

use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, HOST, HeaderMap, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, LAST_MODIFIED, LOCATION, USER_AGENT,
};
use hyper::{Request, Response, Uri};
use mgmt_http_client::{Error, Tls, connect, exchange};
use tokio::time::Instant;

/// How much a server may ask of us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long it may take to be reached, to answer, and to go on with its answer.
    pub(crate) silence: Duration,
    /// How long all of it may take.
    pub(crate) whole: Duration,
    /// How many bytes may come.
    pub(crate) largest: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { silence: Duration::from_secs(60), whole: Duration::from_secs(3600), largest: 8 << 30 }
    }
}

/// How often a question may be sent elsewhere.
const MOVES: usize = 10;

/// Where something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(Uri);

/// Whether a text is meant to be an address, and not a path.
pub(crate) fn is_address(text: &[u8]) -> bool {
    text.starts_with(b"http://") || text.starts_with(b"https://")
}

impl Address {
    /// Reads it, or says what is wrong with it.
    pub(crate) fn new(text: &str) -> Result<Address, String> {
        let uri: Uri = text.parse().map_err(|error| format!("{text:?} is no address: {error}"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(format!("{text:?} is no whole address; expected `https://HOST/PATH`"));
        };
        if !["http", "https"].contains(&scheme) {
            return Err(format!("`{scheme}` is no way to fetch something; expected `http` or `https`"));
        }
        if authority.as_str().contains('@') {
            // Not shown: there may be a password in it.
            return Err(
                "an address with a name and a password in it would be told with the resource".to_owned()
            );
        }
        if authority.host().is_empty() {
            return Err(format!("{text:?} names no host"));
        }
        Ok(Address(uri))
    }

    fn is_secure(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    fn host(&self) -> &str {
        self.0.host().unwrap_or_default().trim_matches(['[', ']'])
    }

    fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(if self.is_secure() { 443 } else { 80 })
    }

    fn path(&self) -> &str {
        self.0.path_and_query().map_or("/", |path| path.as_str())
    }

    /// The address that another one means, as seen from this one.
    fn resolve(&self, location: &str) -> Result<Address, String> {
        let (scheme, authority) =
            (self.0.scheme_str().unwrap_or_default(), self.0.authority().map_or("", |name| name.as_str()));
        let text = match location {
            _ if is_address(location.as_bytes()) || location.contains("://") => location.to_owned(),
            _ if location.starts_with("//") => format!("{scheme}:{location}"),
            _ if location.starts_with('/') => format!("{scheme}://{authority}{location}"),
            _ => {
                let directory = self.0.path().rsplit_once('/').map_or("", |(directory, _)| directory);
                format!("{scheme}://{authority}{directory}/{location}")
            }
        };
        Address::new(&text)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What is asked.
pub(crate) struct Question<'a> {
    /// Authorities to trust besides those of the host: files in PEM.
    pub(crate) authorities: &'a [PathBuf],
    /// What is here already, by the names that the server gave it.
    pub(crate) known: Option<&'a Version>,
    /// What comes is checked by other means, so that anybody may bring it.
    pub(crate) checked: bool,
    pub(crate) limits: Limits,
}

/// How a server tells one content from another.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Version {
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
}

/// What came of a question.
pub(crate) enum Answer {
    /// What is here is what is there.
    Same,
    /// The server has nothing of that name for us, and says so with this status.
    Missing(u16),
    Here(Body),
}

/// The content of an address, still on its way.
pub(crate) struct Body {
    incoming: Incoming,
    pub(crate) version: Version,
    /// Sums of the content that the server tells: by how many letters they have, one can tell what they are.
    pub(crate) sums: Vec<String>,
    limits: Limits,
    until: Instant,
    taken: u64,
}

/// Asks for what is at an address.
pub(crate) async fn ask(address: &Address, question: &Question<'_>) -> Result<Answer, Error> {
    let until = Instant::now() + question.limits.whole;
    let mut here = address.clone();
    for _ in 0..=MOVES {
        let response = in_time(question.limits, until, once(&here, question)).await??;
        let status = response.status().as_u16();
        match status {
            200 => return body(response, question.limits, until).map(Answer::Here),
            304 if question.known.is_some() => return Ok(Answer::Same),
            301 | 302 | 303 | 307 | 308 => {
                let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
                let location =
                    location.ok_or_else(|| Error(format!("{here} sends us away and does not say where")))?;
                let next =
                    here.resolve(location).map_err(|why| Error(format!("{here} sends us on: {why}")))?;
                if here.is_secure() && !next.is_secure() && !question.checked {
                    return Err(Error(format!("{here} sends us to {next}, which nobody vouches for")));
                }
                here = next;
            }
            // Not now is not the same as not at all.
            400..=499 if ![408, 425, 429].contains(&status) => return Ok(Answer::Missing(status)),
            _ => return Err(Error(format!("{here} answers with status {status}"))),
        }
    }
    Err(Error(format!("{address} goes on sending us elsewhere, last to {here}")))
}

/// Sends one question to one server.
async fn once(address: &Address, question: &Question<'_>) -> Result<Response<Incoming>, Error> {
    let tls = match address.is_secure() {
        true => Some(Tls::of_host(question.authorities).connector()?),
        false => None,
    };
    let stream = connect(address.host(), address.port(), tls.as_ref()).await?;
    let authority = address.0.authority().map_or("", |authority| authority.as_str());
    let mut request = Request::get(address.path())
        .header(HOST, authority)
        .header(USER_AGENT, "mgmt")
        .header(ACCEPT, "*/*")
        .header(ACCEPT_ENCODING, "identity");
    if let Some(Version { etag, modified }) = question.known {
        let names = [(IF_NONE_MATCH, etag), (IF_MODIFIED_SINCE, modified)];
        for (header, value) in names.into_iter().filter_map(|(header, value)| Some((header, value.as_ref()?)))
        {
            request = request.header(header, value.as_str());
        }
    }
    exchange(stream, request.body(Empty::<Bytes>::new())?).await
}

/// Does something within the time that is left.
async fn in_time<T>(limits: Limits, until: Instant, what: impl Future<Output = T>) -> Result<T, Error> {
    let silent = Instant::now() + limits.silence;
    tokio::time::timeout_at(silent.min(until), what).await.map_err(|_| {
        let (seconds, what) = match silent <= until {
            true => (limits.silence.as_secs(), "nothing came for"),
            false => (limits.whole.as_secs(), "it takes longer than"),
        };
        Error(format!("{what} {seconds} s"))
    })
}

fn body(response: Response<Incoming>, limits: Limits, until: Instant) -> Result<Body, Error> {
    let headers = response.headers();
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let length: Option<u64> = text(CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok());
    if length.is_some_and(|length| length > limits.largest) {
        return Err(too_large(limits));
    }
    if let Some(encoding) = text(CONTENT_ENCODING.as_str()).filter(|encoding| encoding != "identity") {
        return Err(Error(format!("it comes encoded as `{encoding}`, which was not asked for")));
    }
    let version = Version { etag: text(ETAG.as_str()), modified: text(LAST_MODIFIED.as_str()) };
    Ok(Body { version, sums: sums(headers), incoming: response.into_body(), limits, until, taken: 0 })
}

/// What stores of files tell of the content, in the headers that Puppet knows.
fn sums(headers: &HeaderMap) -> Vec<String> {
    ["x-checksum-sha256", "x-checksum-sha1", "x-checksum-md5"]
        .iter()
        .filter_map(|name| Some(headers.get(*name)?.to_str().ok()?.trim().to_ascii_lowercase()))
        .collect()
}

fn too_large(limits: Limits) -> Error {
    Error(format!("it is larger than {} bytes, which is the most that is fetched", limits.largest))
}

impl Body {
    /// The next piece; nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let frame = in_time(self.limits, self.until, self.incoming.frame()).await?;
            let Some(frame) = frame.transpose()? else { return Ok(None) };
            // What is no data is said behind the content, and nobody asked for it.
            let Ok(bytes) = frame.into_data() else { continue };
            self.taken += bytes.len() as u64;
            if self.taken > self.limits.largest {
                return Err(too_large(self.limits));
            }
            return Ok(Some(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    #[test]
    fn an_address_is_seen_from_another() {
        let here = Address::new("https://h:1/a/b?c").unwrap();
        for (location, expected) in [
            ("https://o/x", "https://o/x"),
            ("//o/x", "https://o/x"),
            ("/x?y", "https://h:1/x?y"),
            ("x", "https://h:1/a/x"),
        ] {
            assert_eq!(here.resolve(location).unwrap().to_string(), expected);
        }
        assert!(here.resolve("file:///etc/shadow").is_err());
        let [plain, six] = ["http://h/", "https://[::1]/"].map(|text| Address::new(text).unwrap());
        assert_eq!((plain.port(), six.port(), six.host()), (80, 443, "::1"));
    }

    /// A server that says one thing and then nothing, for as long as it is listened to.
    async fn silent(words: &'static str) -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(words.as_bytes()).await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        Address::new(&format!("http://127.0.0.1:{port}/")).unwrap()
    }

    async fn everything(address: &Address, limits: Limits) -> Result<(), Error> {
        let question = Question { authorities: &[], known: None, checked: false, limits };
        let Answer::Here(mut body) = ask(address, &question).await? else { return Ok(()) };
        while body.next().await?.is_some() {}
        Ok(())
    }

    #[tokio::test]
    async fn a_server_that_falls_silent_or_never_ends_is_given_up() {
        let limits =
            Limits { silence: Duration::from_millis(50), whole: Duration::from_secs(60), largest: 5 };
        let begun = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc";
        let endless = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n4\r\nefgh\r\n";
        for (words, whole, expected) in [
            ("", limits.whole, "nothing came for"),
            (begun, limits.whole, "nothing came for"),
            (begun, Duration::from_millis(10), "it takes longer than"),
            (endless, limits.whole, "it is larger than 5 bytes"),
        ] {
            let address = silent(words).await;
            let Err(Error(why)) = everything(&address, Limits { whole, ..limits }).await else {
                panic!("{words:?}")
            };
            assert!(why.contains(expected), "{words:?}: {why}");
        }
    }
}
