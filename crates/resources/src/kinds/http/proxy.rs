//! `http:server:proxy`: files of another server, and a place to keep them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, LAST_MODIFIED, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode, Uri};
use mgmt_http_client::{Tls, exchange};
use mgmt_resource::{Checked, Context, Error, Invalid, Kind, Needed, Nothing, Resource, Result, Want, Watch};
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::path::ManagedPath;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};
use mgmt_value::Str;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::board::{Board, Lease, Offer, What};
use super::content;
use super::reply::{self, Content, Reply, set};
use super::{before_server, check_public, or_name, request};

/// For a connection to the other server.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// For it to begin its answer, and for each piece of it.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Pieces that wait to be sent, or to be written.
const PIECES: usize = 8;

/// Files of another web server, which are kept once they have been asked for.
///
/// A request below `path` is answered from the directory `cache`, if the file is there. If not, it is asked for at the other
/// server: of the path of the request `sub` is taken away, and `head` put in its place. The answer is passed on and,
/// when all of it has come, put into the directory below what the request has beyond `path`. What is kept is never
/// asked for again.
///
/// What the other server does not have, it does not have here: any answer but 200 is 404. Redirections are not followed.
/// Servers are asked over HTTP or HTTPS, and none whose address is good on one link alone. A server that is asked over HTTPS has to
/// be one that the host trusts, or one of `authorities`.
///
/// ```mcl
/// http:server ":8080" {}
/// http:server:proxy "/debian/" {
///     sub => "/debian/",
///     head => "http://deb.debian.org/debian/",
///     cache => "/var/cache/mirror/",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "http:server:proxy", edges, group)]
pub struct HttpServerProxy {
    /// The name of the `http:server` that has the path; any if it is not given.
    pub server: Str,
    /// The path of a file, or, if it ends with a slash, what the paths of all files begin with; the name if it is not
    /// given.
    pub path: Str,
    /// What the paths of requests begin with that the other server does not have. It begins and ends with a slash.
    pub sub: Str,
    /// Where the other server has its files, as `http://HOST/PATH/` or `https://HOST/PATH/`. If it is not given, only what is kept is
    /// served.
    pub head: Str,
    /// A directory to keep files in. It begins and ends with a slash, and is made if it is not there. If it is not given,
    /// nothing is kept.
    pub cache: Str,
    /// Files with certificates, in PEM, of authorities that may vouch for the other server, besides those that the host trusts.
    pub authorities: Vec<Str>,
}

/// What a proxy remembers.
#[derive(Default)]
pub struct HttpServerProxyState {
    lease: Option<Lease>,
    /// Why a file in `authorities` cannot be used, as it was said.
    unusable: Option<String>,
}

/// A proxy as it serves.
#[derive(Debug, PartialEq)]
pub(super) struct Proxied {
    path: Str,
    sub: Str,
    head: Str,
    cache: Option<ManagedPath>,
    authorities: Vec<PathBuf>,
}

impl Kind for HttpServerProxy {
    type State = HttpServerProxyState;
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        check_public("path", self.path(name), false)?;
        if !self.sub.is_empty() {
            check_public("sub", &self.sub, true)?;
            if !self.path(name).starts_with(&self.sub) {
                let message = format!("{:?} does not begin with {:?}", self.path(name), self.sub);
                return Err(Invalid::field("sub", message)
                    .with_hint("no request for the path begins with what is to be taken away"));
            }
        }
        if !self.head.is_empty() {
            check_head(&self.head)?;
        }
        if let Some(file) = self.authorities.iter().find(|file| !file.starts_with(b"/")) {
            let message = format!("{file:?} is not the path of a file");
            return Err(Invalid::field("authorities", message).with_hint("it begins with a slash"));
        }
        self.cache_path()?;
        Ok(())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        self.authorities.iter().map(|file| Watch::Path { path: file.clone(), recursive: false }).collect()
    }

    async fn check_apply(&self, state: &mut HttpServerProxyState, cx: &mut Context<'_>) -> Result<Checked> {
        let unusable = self.unusable_authority(cx).await;
        if let Some(error) = unusable.as_ref().filter(|_| unusable != state.unusable) {
            tracing::warn!(target: "mgmt::resource", resource = %cx.id, "cannot use a file in `authorities`: {error}");
        }
        state.unusable = unusable;
        if !cx.apply {
            return Ok(Checked::Right);
        }
        let cache = self.cache_path().map_err(|invalid| Error::new(invalid.to_string()))?;
        let path = self.path(&cx.id.name).clone();
        let below = path.ends_with(b"/");
        let authorities = self.authorities.iter().map(|file| file.as_path().to_owned()).collect();
        let (sub, head) = (self.sub.clone(), self.head.clone());
        let proxied = Proxied { path: path.clone(), sub, head, cache, authorities };
        let board = Board::of(cx.host);
        let what = What::Proxy(Arc::new(proxied));
        board.put_offer(cx.id, Offer { server: self.server.clone(), path, below, what });
        state.lease.get_or_insert_with(|| board.lease(cx));
        Ok(Checked::Right)
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        before_server(&self.server)
    }

    fn groups_alike(&self, other: &HttpServerProxy) -> bool {
        self.server.is_empty() == other.server.is_empty()
    }

    fn equivalent(&self, name: &Str, other: &HttpServerProxy) -> bool {
        let spelled_out =
            |proxy: &HttpServerProxy| HttpServerProxy { path: proxy.path(name).clone(), ..proxy.clone() };
        self == other || spelled_out(self) == spelled_out(other)
    }
}

impl HttpServerProxy {
    fn path<'a>(&'a self, name: &'a Str) -> &'a Str {
        or_name(&self.path, name)
    }

    /// Why files in `authorities` cannot be used. Requests for what is not kept fail then; those that the same server has
    /// other answers for do not.
    async fn unusable_authority(&self, cx: &Context<'_>) -> Option<String> {
        for file in &self.authorities {
            let path = file.as_path().to_owned();
            let check = move || mgmt_http_client::check_authorities(&path);
            let error = match tokio::task::spawn_blocking(check).await {
                Ok(Ok(())) => continue,
                Ok(Err(_)) if cx.may_come(Needed::Path(file.as_bytes())) => continue,
                Ok(Err(error)) => error.0,
                Err(error) => error.to_string(),
            };
            return Some(error);
        }
        None
    }

    fn cache_path(&self) -> Result<Option<ManagedPath>, Invalid> {
        if self.cache.is_empty() {
            return Ok(None);
        }
        if !self.cache.starts_with(b"/") || !self.cache.ends_with(b"/") {
            let message = format!("expected a directory, as `/path/`, found {:?}", self.cache);
            return Err(Invalid::field("cache", message).with_hint("it begins and ends with a slash"));
        }
        ManagedPath::new(&self.cache).map(Some).map_err(|error| Invalid::field("cache", error.to_string()))
    }
}

fn check_head(head: &Str) -> Result<(), Invalid> {
    let host = head.as_str().and_then(|head| head.split_once("://")?.1.split('/').next());
    // The address is not repeated: it may have a password in it.
    if host.is_some_and(|host| host.contains('@')) {
        return Err(Invalid::field("head", "has a user or a password in its address, which is never sent")
            .with_hint("write the address as `https://HOST/PATH/`"));
    }
    let wrong = |why: &str| {
        Err(Invalid::field("head", format!("{head:?} {why}"))
            .with_hint("write the address of a directory, for example `http://mirror.example.com/debian/`"))
    };
    if !head.ends_with(b"/") {
        return wrong("does not end with a slash");
    }
    let Some(uri) = head.as_str().and_then(|head| head.parse::<Uri>().ok()) else {
        return wrong("is not the address of a directory");
    };
    match (uri.scheme_str(), uri.host(), uri.query()) {
        (Some("http" | "https"), Some(host), None) if !host.is_empty() => Ok(()),
        _ => wrong("is not the address of a directory"),
    }
}

impl Proxied {
    /// Where the other server has what is asked for, and where it is kept. `None`: nowhere.
    fn places(&self, path: &[u8]) -> Option<(String, Vec<u8>)> {
        // Nothing but files can be kept.
        if path.ends_with(b"/") {
            return None;
        }
        let file = match self.path.ends_with(b"/") {
            true => path.strip_prefix(self.path.as_bytes())?,
            false if path == self.path.as_bytes() => path.rsplit(|byte| *byte == b'/').next()?,
            false => return None,
        };
        let sub = if self.sub.is_empty() { b"/" } else { self.sub.as_bytes() };
        let remote = path.strip_prefix(sub)?;
        Some((format!("{}{}", self.head.to_text(), request::escaped(remote)), file.to_vec()))
    }

    /// Answers from what is kept, or from the other server.
    pub(super) async fn answer(&self, asked: &Request<Incoming>, path: &[u8]) -> Reply {
        let Some((remote, file)) = self.places(path) else { return reply::status(StatusCode::NOT_FOUND) };
        if let Some(cache) = &self.cache {
            match content::open_below(cache.clone(), file.clone()).await {
                Ok(source) => return content::answer(asked.method(), asked.headers(), path, &source),
                Err(StatusCode::NOT_FOUND) => {}
                Err(_) => return reply::status(StatusCode::INTERNAL_SERVER_ERROR),
            }
        }
        if self.head.is_empty() {
            let text = "the file is not kept here, and there is no server to ask\n";
            return reply::plain(StatusCode::INTERNAL_SERVER_ERROR, text);
        }
        let answer = match fetch(asked.method(), &remote, &self.authorities).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(target: "mgmt::resource", "cannot get {remote}: {error}");
                return reply::plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the server that has it cannot be asked\n",
                );
            }
        };
        if answer.status() != StatusCode::OK {
            return reply::status(StatusCode::NOT_FOUND);
        }
        self.pass_on(asked.method(), answer, path, file)
    }

    fn pass_on(&self, method: &Method, answer: Response<Incoming>, path: &[u8], file: Vec<u8>) -> Reply {
        let modified = content::date(answer.headers(), LAST_MODIFIED)
            .unwrap_or_else(|| httpdate::HttpDate::from(SystemTime::now()));
        let length =
            answer.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let mut reply = Reply::new(Content::default());
        set(&mut reply, LAST_MODIFIED, modified.to_string());
        if let Some(content_type) = content::type_of_name(path) {
            set(&mut reply, CONTENT_TYPE, content_type);
        }
        if *method == Method::HEAD {
            if let Some(length) = length {
                set(&mut reply, CONTENT_LENGTH, u64::to_string(&length));
            }
            return reply;
        }
        let (client, pieces) = mpsc::channel(PIECES);
        let kept = self.cache.clone().map(|cache| {
            let (keeper, pieces) = mpsc::channel(PIECES);
            tokio::task::spawn_blocking(move || {
                if let Err(error) = keep(&cache, &file, modified.into(), pieces) {
                    tracing::warn!(target: "mgmt::resource", "cannot keep what another server has sent: {error}");
                }
            });
            keeper
        });
        tokio::spawn(pump(answer.into_body(), client, kept));
        *reply.body_mut() = Content::stream(pieces, length);
        reply
    }
}

/// Asks the other server.
async fn fetch(method: &Method, remote: &str, authorities: &[PathBuf]) -> io::Result<Response<Incoming>> {
    let uri: Uri = remote.parse().map_err(io::Error::other)?;
    let (Some(host), Some(authority)) = (uri.host(), uri.authority()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let is_secure = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let host = host.trim_matches(['[', ']']);
    let stream = in_time(CONNECT_LIMIT, connect(host, port)).await??;
    let request = Request::builder()
        .method(method)
        .uri(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header(HOST, authority.as_str())
        .header(USER_AGENT, "mgmt")
        .body(Content::default())
        .map_err(io::Error::other)?;
    let stream = match is_secure {
        true => {
            let connector = Tls::of_host(authorities).connector()?;
            in_time(CONNECT_LIMIT, connector.encrypt(host, stream)).await??
        }
        false => Box::new(stream),
    };
    Ok(in_time(ANSWER_LIMIT, exchange(stream, request)).await??)
}

async fn in_time<T>(limit: Duration, what: impl Future<Output = T>) -> io::Result<T> {
    tokio::time::timeout(limit, what).await.map_err(|_| io::ErrorKind::TimedOut.into())
}

async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "there is no such host");
    for address in tokio::net::lookup_host((host, port)).await? {
        // What is there is for this machine alone, like the keys that a cloud gives it.
        if is_link_local(address.ip()) {
            last = io::Error::new(io::ErrorKind::PermissionDenied, "its address is good on one link alone");
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn is_link_local(address: std::net::IpAddr) -> bool {
    match address.to_canonical() {
        std::net::IpAddr::V4(address) => address.is_link_local(),
        std::net::IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// What goes to the one who keeps the file: pieces, and at last that these are all.
enum Piece {
    Bytes(Bytes),
    End,
}

/// Passes a body on to the client and to the one who keeps it. Whoever of them goes away costs the other nothing, but when the
/// client goes, nothing more is asked for.
async fn pump(
    mut body: Incoming,
    client: mpsc::Sender<io::Result<Bytes>>,
    mut keeper: Option<mpsc::Sender<Piece>>,
) {
    use std::future::poll_fn;
    use std::pin::Pin;
    loop {
        let frame = in_time(ANSWER_LIMIT, poll_fn(|cx| Pin::new(&mut body).poll_frame(cx))).await;
        let bytes = match frame {
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(bytes) => bytes,
                Err(_) => continue,
            },
            Ok(None) => break,
            Ok(Some(Err(error))) => return drop(client.send(Err(io::Error::other(error))).await),
            Err(error) => return drop(client.send(Err(error)).await),
        };
        if let Some(kept) = &keeper
            && kept.send(Piece::Bytes(bytes.clone())).await.is_err()
        {
            keeper = None;
        }
        if client.send(Ok(bytes)).await.is_err() {
            return;
        }
    }
    if let Some(keeper) = keeper {
        // It may have given up, which it has said.
        let _ = keeper.send(Piece::End).await;
    }
}

/// Writes a file into the directory, once all of it has come.
fn keep(
    cache: &ManagedPath,
    file: &[u8],
    modified: SystemTime,
    mut pieces: mpsc::Receiver<Piece>,
) -> mgmt_sys::Result<()> {
    let (above, name) = match file.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&file[..at], &file[at + 1..]),
        None => (&file[..0], file),
    };
    let mut parent = match Parent::open_itself(cache) {
        Err(error) if error.is_not_found() => {
            // The directory that contains any file of it.
            match cache.join(b"file") {
                Ok(inside) => Parent::open_or_create(&inside)?,
                Err(_) => return Err(error),
            }
        }
        opened => opened?,
    };
    let closed = Attributes { mode: Some(0o700), ..Attributes::default() };
    for component in above.split(|byte| *byte == b'/').filter(|component| !component.is_empty()) {
        parent = match parent.open_dir(component) {
            Err(error) if error.is_not_found() => match parent.make_directory(component, &closed) {
                // Another request may have been faster.
                Err(error) if error.is_exists() => parent.open_dir(component)?,
                made => made?,
            },
            opened => opened?,
        };
    }
    let mut replacement = Replacement::begin(&parent, name, InPlace::Refuse)?;
    loop {
        match pieces.blocking_recv() {
            Some(Piece::Bytes(bytes)) => replacement.write_all(&bytes)?,
            Some(Piece::End) => break,
            // Not all of it has come.
            None => return Ok(()),
        }
    }
    replacement.commit(&Attributes::default(), Expect::Anything, Durability::Data)?;
    let seconds = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let time = rustix::fs::Timespec { tv_sec: i64::try_from(seconds).unwrap_or(0), tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    let kept = parent.open_regular(name)?;
    if let Err(error) = rustix::fs::futimens(&kept, &times) {
        tracing::debug!(target: "mgmt::resource", "cannot set the time of a file that is kept: {error}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxied(path: &str, sub: &str, head: &str) -> Proxied {
        Proxied {
            path: path.into(),
            sub: sub.into(),
            head: head.into(),
            cache: None,
            authorities: Vec::new(),
        }
    }

    #[test]
    fn a_path_leads_to_a_place_there_and_a_place_here() {
        let proxy =
            proxied("/fedora/releases/39/Everything/x86_64/os/", "/fedora/", "https://m/fedora/linux/");
        let (remote, file) =
            proxy.places(b"/fedora/releases/39/Everything/x86_64/os/repodata/repomd.xml").unwrap();
        assert_eq!(remote, "https://m/fedora/linux/releases/39/Everything/x86_64/os/repodata/repomd.xml");
        assert_eq!(file, b"repodata/repomd.xml");
        assert_eq!(proxy.places(b"/fedora/releases/39/Everything/x86_64/os/repodata/"), None);
        assert_eq!(proxy.places(b"/fedora/other"), None);
        let one = proxied("/a/b", "", "http://m/x/");
        assert_eq!(one.places(b"/a/b").unwrap(), ("http://m/x/a/b".to_owned(), b"b".to_vec()));
        assert_eq!(one.places(b"/a/b/c"), None);
        let odd = proxied("/a/", "/a/", "http://m/");
        assert_eq!(odd.places(b"/a/b c?#\r\n").unwrap().0, "http://m/b%20c%3F%23%0D%0A");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let proxy = |sub: &str, head: &str, cache: &str| HttpServerProxy {
            sub: sub.into(),
            head: head.into(),
            cache: cache.into(),
            ..HttpServerProxy::default()
        };
        let check = |proxy: &HttpServerProxy| Kind::validate(proxy, &"/a/b/".into());
        for fine in [proxy("", "", ""), proxy("/a/", "http://m/", "/c/"), proxy("", "https://m/x/", "")] {
            assert!(check(&fine).is_ok(), "{fine:?}");
        }
        for (wrong, field) in [
            (proxy("/a", "", ""), "sub"),
            (proxy("/x/", "", ""), "sub"),
            (proxy("", "http://m", ""), "head"),
            (proxy("", "m/", ""), "head"),
            (proxy("", "http:///", ""), "head"),
            (proxy("", "ftp://m/", ""), "head"),
            (proxy("", "http://m/?a/", ""), "head"),
            (proxy("", "https://user:pw@m/", ""), "head"),
            (proxy("", "https://user:pw@m", ""), "head"),
            (proxy("", "", "/c"), "cache"),
            (proxy("", "", "c/"), "cache"),
        ] {
            let invalid = check(&wrong).unwrap_err();
            assert_eq!(invalid.field, Some(field), "{wrong:?}");
            assert!(!invalid.message.contains("pw"), "{invalid}");
        }
        assert_eq!(Kind::validate(&proxy("", "", ""), &"a".into()).unwrap_err().field, Some("path"));
    }

    #[test]
    fn addresses_of_one_link_are_none_to_ask() {
        for (address, expected) in [
            ("169.254.169.254", true),
            ("::ffff:169.254.169.254", true),
            ("fe80::1", true),
            ("127.0.0.1", false),
            ("::1", false),
            ("192.0.2.1", false),
        ] {
            assert_eq!(is_link_local(address.parse().unwrap()), expected, "{address}");
        }
    }
}
