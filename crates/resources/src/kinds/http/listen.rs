//! Listening, and what a client may cost.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use mgmt_resource::{Declared, Id};
use mgmt_sys::path::ManagedPath;
use mgmt_value::Str;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

use super::board::Board;
use super::clients::{Clients, Visit};
use super::server::HttpServer;
use super::{lock, serve};

/// Connections of one server at a time. More wait until others have ended. Each may hold a file open, too, and a process has
/// a thousand descriptors, which other resources need.
const MOST_CONNECTIONS: usize = 256;
/// The head of a request.
const LARGEST_HEAD: usize = 64 * 1024;
const MOST_HEADERS: usize = 100;
/// For the head of a request, and for an idle connection, unless the server says otherwise.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// For the body of a request, unless the server says otherwise.
const BODY_LIMIT: Duration = Duration::from_secs(60);
/// For which a client may take nothing of its answer.
const STALL_LIMIT: Duration = Duration::from_secs(60);
/// Before the next try when the system has no descriptors left.
const BREATH: Duration = Duration::from_millis(100);
const BACKLOG: u32 = 1024;

/// What a server that listens has to know.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settings {
    /// The name of the server.
    pub(super) server: Str,
    pub(super) read_timeout: Option<Duration>,
    pub(super) write_timeout: Option<Duration>,
    pub(super) shutdown_timeout: Option<Duration>,
    /// Connections of one client at a time; 0 is as many as there is room for.
    pub(super) connections_per_client: usize,
    /// Serves what no offer does.
    pub(super) root: Option<ManagedPath>,
    pub(super) program: String,
    pub(super) version: String,
    pub(super) hostname: String,
}

impl Settings {
    /// How long the body of a request may take.
    pub(super) fn body_limit(&self) -> Duration {
        self.read_timeout.unwrap_or(BODY_LIMIT)
    }
}

/// A socket that is listened on, until it is stopped, or somebody shuts it. What it was asked for then ends by itself.
pub(super) struct Listener {
    /// The address that was asked for.
    pub(super) wanted: SocketAddr,
    /// The address as it is, with its port.
    pub(super) bound: SocketAddr,
    settings: watch::Sender<Arc<Settings>>,
    stop: watch::Sender<bool>,
    released: watch::Receiver<bool>,
    turn: AtomicU64,
}

/// What a connection has of its server.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) board: Arc<Board>,
    settings: watch::Receiver<Arc<Settings>>,
    stop: watch::Receiver<bool>,
    deadline: Deadline,
}

/// When the present answer has to be sent.
#[derive(Clone, Default)]
struct Deadline(Arc<Mutex<Option<Instant>>>);

impl Listener {
    /// Begins to listen. Clients are answered from then on.
    pub(super) fn start(board: &Arc<Board>, wanted: SocketAddr, settings: Settings) -> io::Result<Listener> {
        let listener = bind(wanted)?;
        let bound = listener.local_addr()?;
        let (settings, _) = watch::channel(Arc::new(settings));
        let (stop, stopped) = watch::channel(false);
        let (tell_released, released) = watch::channel(false);
        let connection = Connection {
            board: Arc::clone(board),
            settings: settings.subscribe(),
            stop: stopped,
            deadline: Deadline::default(),
        };
        tokio::spawn(accept(listener, connection, tell_released));
        Ok(Listener { wanted, bound, settings, stop, released, turn: AtomicU64::new(0) })
    }

    /// Gives it other settings; new requests are served by them. `true`: they are others than before.
    pub(super) fn adjust(&self, settings: Settings) -> bool {
        self.settings.send_if_modified(|present| {
            let differs = **present != settings;
            if differs {
                *present = Arc::new(settings);
            }
            differs
        })
    }

    /// The present settings.
    pub(super) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.borrow())
    }

    /// Lets the address go, and lets what is under way end.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until the address is free.
    pub(super) async fn released(&self) {
        // Fails only when the task is gone, and the socket with it.
        let _ = self.released.clone().wait_for(|released| *released).await;
    }

    /// The address is free: nobody listens any longer.
    pub(super) fn is_released(&self) -> bool {
        *self.released.borrow()
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    pub(super) fn keep(&self, turn: u64) {
        self.turn.store(turn, Ordering::Relaxed);
    }
}

impl Connection {
    /// The server's present settings.
    pub(super) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.borrow())
    }

    /// A request has come, and its answer has to be sent within the limit.
    pub(super) fn begin(&self) -> Option<Instant> {
        let deadline = self.settings.borrow().write_timeout.map(|limit| Instant::now() + limit);
        *lock(&self.deadline.0) = deadline;
        deadline
    }

    /// Waits until the server is to stop, or the answer is late.
    pub(super) async fn over(&self, deadline: Option<Instant>) {
        let mut stop = self.stop.clone();
        let late = async {
            match deadline {
                // So that there is time to say so.
                Some(deadline) => tokio::time::sleep_until(deadline - BREATH).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stopped(&mut stop) => {}
            () = late => {}
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Fails only when the listener has been dropped, which is the end, too.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Whether an address can be listened on, without doing so.
pub(super) fn probe(address: SocketAddr) -> io::Result<()> {
    bound(address).map(drop)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    bound(address)?.listen(BACKLOG)
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Connections that have ended a moment ago are nothing that stands in the way.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn accept(listener: TcpListener, connection: Connection, released: watch::Sender<bool>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut stop = connection.stop.clone();
    let mut connections = JoinSet::new();
    let clients = Clients::default();
    let shut = loop {
        let permit = tokio::select! {
            () = stopped(&mut stop) => break false,
            permit = Arc::clone(&room).acquire_owned() => permit,
        };
        tokio::select! {
            () = stopped(&mut stop) => break false,
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => {
                    let limit = connection.settings().connections_per_client;
                    let Some(visit) = clients.admit(client.ip(), limit) else {
                        turn_away(&stream, client);
                        continue;
                    };
                    let connection = Connection { deadline: Deadline::default(), ..connection.clone() };
                    connections.spawn(async move {
                        converse(stream, connection, visit).await;
                        drop(permit);
                    });
                }
                // Somebody has taken the socket away from us, and no client will ever come this way again.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    tracing::debug!(target: "mgmt::resource", "cannot listen any longer: {error}");
                    break true;
                }
                Err(error) => {
                    tracing::debug!(target: "mgmt::resource", "cannot accept a connection: {error}");
                    tokio::time::sleep(BREATH).await;
                }
            },
            _ = connections.join_next(), if !connections.is_empty() => {}
        }
    };
    drop(listener);
    released.send_replace(true);
    if shut {
        connection.board.ring(&Id::new(HttpServer::KIND, connection.settings().server.clone()));
    }
    let grace = connection.settings().shutdown_timeout;
    let all = async { while connections.join_next().await.is_some() {} };
    match grace {
        // Dropping the set ends what is left.
        Some(grace) => drop(tokio::time::timeout(grace, all).await),
        None => all.await,
    }
}

/// Tells a client that it has too many connections. Whether it listens is its business.
fn turn_away(stream: &TcpStream, client: SocketAddr) {
    const REFUSAL: &[u8] =
        b"HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let _ = stream.try_write(REFUSAL);
    tracing::debug!(target: "mgmt::resource", "too many connections of {}: turned away", client.ip());
}

/// Serves one connection until it ends.
async fn converse(stream: TcpStream, connection: Connection, visit: Visit) {
    // Answers are written as a whole; waiting for more to send gains nothing. Not every socket knows the option.
    let _ = stream.set_nodelay(true);
    let settings = connection.settings();
    let stream =
        Guarded { stream: TokioIo::new(stream), deadline: connection.deadline.clone(), stalled: None };
    let mut stop = connection.stop.clone();
    let service = service_fn(move |request| {
        visit.asked();
        let connection = connection.clone();
        async move { Ok::<_, Infallible>(serve::answer(&connection, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(settings.read_timeout.unwrap_or(HEAD_LIMIT));
    builder.max_buf_size(LARGEST_HEAD).max_headers(MOST_HEADERS);
    let mut served = pin!(builder.serve_connection(stream, service));
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stopped(&mut stop) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(target: "mgmt::resource", "a connection has ended: {error}");
    }
}

/// A connection whose client has to take what it is sent.
struct Guarded {
    stream: TokioIo<TcpStream>,
    deadline: Deadline,
    /// Set while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Guarded {
    fn guard<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let deadline = *lock(&self.deadline.0);
        let late = || Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        if polled.is_ready() {
            self.stalled = None;
            return if deadline.is_some_and(|deadline| deadline <= Instant::now()) { late() } else { polled };
        }
        let stalled = self.stalled.get_or_insert_with(|| {
            let limit = Instant::now() + STALL_LIMIT;
            Box::pin(tokio::time::sleep_until(deadline.map_or(limit, |deadline| deadline.min(limit))))
        });
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => late(),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Read for Guarded {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl Write for Guarded {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.guard(cx, polled)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.guard(cx, polled)
    }
}
