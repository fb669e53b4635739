//! `http:server`: what listens.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{
    Background, Checked, Context, Declared, Effect, Error, Identity, Invalid, Kind, Needed, Nothing, Order,
    Resource, Result, ResultExt, Want, Watch,
};
use mgmt_sys::dir::Parent;
use mgmt_sys::path::ManagedPath;
use mgmt_value::Str;

use super::board::{Board, Lease, bell};
use super::clients::MAX_CONNECTIONS_PER_CLIENT;
use super::file::HttpServerFile;
use super::flag::HttpServerFlag;
use super::input::HttpServerUiInput;
use super::listen::{Listener, Settings};
use super::proxy::HttpServerProxy;
use super::ui::HttpServerUi;
use super::{identity, or_name};

/// A web server.
///
/// It serves what `http:server:file`, `http:server:flag`, `http:server:proxy` and `http:server:ui` resources offer, and the files
/// of a directory, if there is one. A request is answered by the offer with exactly its path, else by the one with the longest path above
/// it; among equal ones by that whose kind, then name, comes first; else from `root`.
///
/// The server listens from its first run on, and for as long as it is in the graph; if somebody shuts its socket, it opens
/// another. A change of what it serves, or of any
/// parameter but `address`, is made while it listens. Resources that depend on the server can use what it
/// serves.
///
/// Requests whose path has `//`, `.` or `..` in it are redirected to the plain path. There are limits for what clients can
/// ask for: 256 connections at a time, 64 of them by one client, of which 16 without a request; 64 KiB for the head of a
/// request, 4 MiB for its body, 30 seconds for the head, 60 seconds for the body, and 60 seconds in which a client takes
/// nothing of its answer. A client is an address, or a network of 64 bits. Requests of HTTP/1.1 need one header `Host`.
///
/// There is no encryption and no password: everybody who can reach the address can see what is served, raise flags
/// and change inputs. Use `127.0.0.1`, or put a server that does both in front of it.
///
/// ```mcl
/// http:server ":8080" {}
/// http:server:file "/hello" {
///     data => "hello\n",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "http:server", edges, group, background)]
pub struct HttpServer {
    /// Where to listen, as `HOST:PORT`; the name if it is not given. The host is a number, like `127.0.0.1` or `[::1]`, not a
    /// name. Without it, as in `:8080`, the server listens on all addresses of this host.
    pub address: Str,
    /// Seconds for each of the three timeouts below that is not given.
    pub timeout: Option<u64>,
    /// Seconds that a client may take to send its request: so many for the head and so many for the body. If it is 0 or
    /// not given, the limits above hold.
    pub read_timeout: Option<u64>,
    /// Seconds in which an answer has to be sent. If it is 0 or not given, it may take as long as it takes, unless the
    /// client takes nothing of it. Requests that are held until something changes are cut off by this, too.
    pub write_timeout: Option<u64>,
    /// Seconds for which answers that are being sent may go on when the server stops. If it is 0 or not given, they may
    /// go on until they have been sent. Nothing else waits for them.
    pub shutdown_timeout: Option<u64>,
    /// Connections that one client may have at a time. If it is not given, 64; 0 is as many as there is room for, as for a
    /// server behind another one that has all clients. Only this implementation has it.
    pub connections_per_client: Option<u64>,
    /// A directory whose files are served when nothing else has their path. It begins and ends with a slash. Symbolic
    /// links in it are not followed. Directories are not listed.
    pub root: Str,
}

/// What a server remembers.
#[derive(Default)]
pub struct HttpServerState {
    lease: Option<Lease>,
}

impl Kind for HttpServer {
    type State = HttpServerState;
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        self.listen_address(name)?;
        self.root_path()?;
        Ok(())
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        vec![bell(HttpServer::KIND, name)]
    }

    async fn check_apply(&self, state: &mut HttpServerState, cx: &mut Context<'_>) -> Result<Checked> {
        let invalid = |invalid: Invalid| Error::new(invalid.to_string());
        let wanted = self.listen_address(&cx.id.name).map_err(invalid)?;
        let root = self.root_path().map_err(invalid)?;
        if let Some(root) = root.clone() {
            let open = move || Parent::open_itself(&root).map(drop);
            let opened = tokio::task::spawn_blocking(open).await.context("cannot look at the root")?;
            opened.context("cannot use the root").map_err(|error| {
                error.with_hint("`root` has to be a directory that exists before the server starts")
            })?;
        }
        let settings = self.settings(cx, root);
        let board = Board::of(cx.host);
        let present = board.listener(&cx.id.name).filter(|listener| !listener.is_released());
        if !cx.apply {
            if present.is_none() && cx.foreseen.is_some() {
                foresee(wanted, cx)?;
            }
            let right =
                present.is_some_and(|listener| listener.wanted == wanted && *listener.settings() == settings);
            return Ok(if right { Checked::Right } else { Checked::Changed });
        }
        state.lease.get_or_insert_with(|| board.lease(cx));
        if let Some(listener) = present {
            if listener.wanted == wanted {
                let changed = listener.adjust(settings);
                return Ok(if changed { Checked::Changed } else { Checked::Right });
            }
            // The new address may overlap with the old one.
            listener.stop();
            listener.released().await;
        }
        board.make_room(cx.host).await;
        let listener = match start(&board, wanted, settings.clone()) {
            Ok(listener) => listener,
            Err(_) => {
                // One of those may have begun to listen in its last run, just now.
                board.make_room(cx.host).await;
                start(&board, wanted, settings)?
            }
        };
        cx.info(format_args!("listening on {}", listener.bound));
        board.put_listener(&cx.id.name, Arc::new(listener));
        Ok(Checked::Changed)
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        vec![identity(name)]
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        match self.root.is_empty() {
            true => Vec::new(),
            false => vec![Want::First(Order::Before, vec![Identity::Path(self.root.clone())])],
        }
    }

    /// Offers that take any server run with it. Those that name theirs run by themselves, before it.
    fn groups_with(&self, other: &dyn Resource) -> bool {
        let other = other.as_any();
        let file = other.downcast_ref::<HttpServerFile>().map(|file| &file.server);
        let flag = other.downcast_ref::<HttpServerFlag>().map(|flag| &flag.server);
        let page = other.downcast_ref::<HttpServerUi>().map(|page| &page.server);
        let proxy = other.downcast_ref::<HttpServerProxy>().map(|proxy| &proxy.server);
        let takes_any = |server: Option<&Str>| server.is_some_and(|server| server.is_empty());
        [file, flag, page, proxy].into_iter().any(takes_any) || other.is::<HttpServerUiInput>()
    }

    fn groups_alike(&self, _: &HttpServer) -> bool {
        true
    }

    /// Nothing listens any longer than the engine runs.
    async fn background(mut work: Background) -> Result<()> {
        let board = Board::of(&work.host);
        let turn = board.begin();
        work.ready();
        work.cancel.cancelled().await;
        board.end(turn);
        Ok(())
    }

    fn equivalent(&self, name: &Str, other: &HttpServer) -> bool {
        let spelled_out =
            |server: &HttpServer| HttpServer { address: server.address(name).clone(), ..server.clone() };
        self == other || spelled_out(self) == spelled_out(other)
    }
}

impl HttpServer {
    fn address<'a>(&'a self, name: &'a Str) -> &'a Str {
        or_name(&self.address, name)
    }

    pub(super) fn listen_address(&self, name: &Str) -> Result<SocketAddr, Invalid> {
        let address = self.address(name).to_text();
        let wrong = |why: &str| {
            Err(Invalid::field("address", format!("{address:?} is no address to listen on: {why}"))
                .with_hint("write `127.0.0.1:8080`, `[::1]:8080`, or `:8080` for all addresses of this host"))
        };
        let Some((host, port)) = address.rsplit_once(':') else { return wrong("it has no port") };
        if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return wrong("the port is not a number");
        }
        let Ok(port) = port.parse() else { return wrong("the port is larger than 65535") };
        if host.is_empty() {
            return Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port));
        }
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bracketed {
            Some(host) => host.parse().map(IpAddr::V6).ok(),
            None => host.parse().map(IpAddr::V4).ok(),
        };
        match host {
            Some(host) => Ok(SocketAddr::new(host, port)),
            None if address.matches(':').count() > 1 && bracketed.is_none() => {
                wrong("an address with colons belongs into brackets")
            }
            None => wrong("the host is not a number"),
        }
    }

    fn root_path(&self) -> Result<Option<ManagedPath>, Invalid> {
        if self.root.is_empty() {
            return Ok(None);
        }
        if !self.root.starts_with(b"/") || !self.root.ends_with(b"/") {
            let message = format!("expected a directory, as `/path/`, found {:?}", self.root);
            return Err(Invalid::field("root", message).with_hint("it begins and ends with a slash"));
        }
        ManagedPath::new(&self.root).map(Some).map_err(|error| Invalid::field("root", error.to_string()))
    }

    fn settings(&self, cx: &Context<'_>, root: Option<ManagedPath>) -> Settings {
        let limit = |own: Option<u64>| {
            let seconds = own.or(self.timeout).filter(|seconds| *seconds > 0);
            // A year is as good as for ever, and can be added to any moment.
            seconds.map(|seconds| Duration::from_secs(seconds.min(365 * 24 * 60 * 60)))
        };
        Settings {
            server: cx.id.name.clone(),
            read_timeout: limit(self.read_timeout),
            write_timeout: limit(self.write_timeout),
            shutdown_timeout: limit(self.shutdown_timeout),
            connections_per_client: self
                .connections_per_client
                .map_or(MAX_CONNECTIONS_PER_CLIENT, |limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            root,
            program: cx.host.program.clone(),
            version: cx.host.version.clone(),
            hostname: cx.host.hostname.clone(),
        }
    }
}

fn start(board: &Arc<Board>, wanted: SocketAddr, settings: Settings) -> Result<Listener> {
    use std::io::ErrorKind;
    let mut started = Listener::start(board, wanted, settings.clone());
    if let (Err(error), IpAddr::V6(Ipv6Addr::UNSPECIFIED)) = (&started, wanted.ip())
        && !matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied)
    {
        // A host without the newer protocol. What was wanted stays what it was.
        let older = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), wanted.port());
        started = Listener::start(board, older, settings).map(|mut listener| {
            listener.wanted = wanted;
            listener
        });
    }
    started.map_err(|error| refused(wanted, &error))
}

/// While a plan is made: fails if the address is not one of this host, or not for this process. One that is in use may be in use by
/// the run that this is a plan for, or by another program: that is not certain.
fn foresee(wanted: SocketAddr, cx: &Context<'_>) -> Result<()> {
    use std::io::ErrorKind;
    match super::listen::probe(wanted) {
        Err(error)
            if matches!(error.kind(), ErrorKind::AddrNotAvailable | ErrorKind::PermissionDenied)
                && !cx.may_come(Needed::Other) =>
        {
            Err(refused(wanted, &error))
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            cx.describe(Effect::change(cx.id).presumed());
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Why there is no listener.
fn refused(wanted: SocketAddr, error: &std::io::Error) -> Error {
    use std::io::ErrorKind;
    let refused = Error::new(format_args!("cannot listen on {wanted}: {error}"));
    match error.kind() {
        ErrorKind::AddrInUse => refused.with_hint("another program listens there; `ss -ltnp` tells which"),
        ErrorKind::AddrNotAvailable => refused.with_hint("this host has no such address"),
        ErrorKind::PermissionDenied => refused.with_hint("ports below 1024 are for root"),
        _ => refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(address: &str) -> HttpServer {
        HttpServer { address: address.into(), ..HttpServer::default() }
    }

    #[test]
    fn addresses_are_numbers_with_a_port() {
        let address = |text: &str| server("").listen_address(&text.into()).unwrap().to_string();
        assert_eq!(address("127.0.0.1:8080"), "127.0.0.1:8080");
        assert_eq!(address("[::1]:80"), "[::1]:80");
        assert_eq!(address(":80"), "[::]:80");
        assert_eq!(server("127.0.0.1:1").listen_address(&"x".into()).unwrap().port(), 1);
        for wrong in [
            "",
            "x",
            "127.0.0.1",
            "localhost:80",
            "::1:80",
            "127.0.0.1:",
            "127.0.0.1:http",
            "127.0.0.1:65536",
            "1:+80",
        ] {
            let refused = Kind::validate(&server(wrong), &"x".into()).unwrap_err();
            assert_eq!(refused.field, Some("address"), "{wrong}");
            assert!(refused.hint.is_some());
        }
    }

    #[test]
    fn the_root_is_a_directory() {
        let root = |root: &str| HttpServer { root: root.into(), ..server(":80") };
        assert!(Kind::validate(&root("/srv/"), &"x".into()).is_ok());
        for wrong in ["/srv", "srv/", "/srv\0/"] {
            assert_eq!(Kind::validate(&root(wrong), &"x".into()).unwrap_err().field, Some("root"));
        }
    }

    #[test]
    fn the_name_spelled_out_is_the_same_declaration() {
        assert!(server("").equivalent(&":80".into(), &server(":80")));
        assert!(!server("").equivalent(&":80".into(), &server(":81")));
    }

    #[test]
    fn a_server_serves_in_one_run_what_takes_any_server() {
        let groups = |other: &dyn Resource| Kind::groups_with(&server(":80"), other);
        assert!(groups(&HttpServerFile::default()));
        assert!(groups(&HttpServerFlag::default()));
        assert!(groups(&HttpServerProxy::default()));
        assert!(groups(&HttpServerUi::default()));
        assert!(groups(&HttpServerUiInput::default()));
        assert!(!groups(&HttpServerFile { server: "other".into(), ..HttpServerFile::default() }));
        assert!(!groups(&server(":81")));
    }
}
