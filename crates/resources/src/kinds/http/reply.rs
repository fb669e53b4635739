//! Answers: a status, a head, and a body that is read from memory or from a file while it is sent.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};
use mgmt_sys::file::OpenedFile;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// An answer.
pub(super) type Reply = Response<Content>;

/// The most that is read from a file at once.
const CHUNK: usize = 128 * 1024;

/// An answer that says what its status is.
pub(super) fn status(status: StatusCode) -> Reply {
    plain(status, format!("{}\n", status.canonical_reason().unwrap_or("unknown")))
}

/// An answer with a text.
pub(super) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Reply {
    with_type(status, "text/plain; charset=utf-8", text)
}

/// An answer with a document.
pub(super) fn json(status: StatusCode, document: &serde_json::Value) -> Reply {
    with_type(status, "application/json; charset=utf-8", document.to_string())
}

/// An answer of some type.
pub(super) fn with_type(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Content::of(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// Only these methods make sense here.
pub(super) fn not_allowed(methods: &'static str) -> Reply {
    let mut reply = status(StatusCode::METHOD_NOT_ALLOWED);
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    reply
}

/// What was asked for is elsewhere, for good.
pub(super) fn moved(to: &str) -> Reply {
    let mut reply = status(StatusCode::MOVED_PERMANENTLY);
    match HeaderValue::from_str(to) {
        Ok(to) => {
            reply.headers_mut().insert(LOCATION, to);
            reply
        }
        Err(_) => status(StatusCode::BAD_REQUEST),
    }
}

/// Sets a header whose value is made of numbers and plain words.
pub(super) fn set(reply: &mut Reply, name: HeaderName, value: impl AsRef<str>) {
    if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
        reply.headers_mut().insert(name, value);
    }
}

/// A body.
#[derive(Default)]
pub(super) struct Content {
    parts: VecDeque<Part>,
    /// The piece of a file that is being read.
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    left: u64,
    /// Comes from elsewhere, instead of all that.
    stream: Option<Stream>,
}

/// A body that comes from elsewhere.
struct Stream {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    length: Option<u64>,
}

/// A piece of a body.
pub(super) enum Part {
    Bytes(Bytes),
    File { file: Arc<OpenedFile>, offset: u64, length: u64 },
}

impl Part {
    fn length(&self) -> u64 {
        match self {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::File { length, .. } => *length,
        }
    }
}

impl Content {
    /// A body in memory.
    pub(super) fn of(bytes: Bytes) -> Content {
        Content::parts([Part::Bytes(bytes)])
    }

    /// A body of several pieces.
    pub(super) fn parts(parts: impl IntoIterator<Item = Part>) -> Content {
        let parts: VecDeque<Part> = parts.into_iter().filter(|part| part.length() > 0).collect();
        let left = parts.iter().map(Part::length).sum();
        Content { parts, left, ..Content::default() }
    }

    /// A body that comes piece by piece, of some length if that is known.
    pub(super) fn stream(pieces: mpsc::Receiver<io::Result<Bytes>>, length: Option<u64>) -> Content {
        Content { stream: Some(Stream { pieces, length }), ..Content::default() }
    }

    /// How long it is.
    pub(super) fn length(&self) -> u64 {
        self.left
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(stream) = &mut self.stream {
            return stream.pieces.poll_recv(cx).map_ok(Frame::data);
        }
        loop {
            if let Some(reading) = &mut self.reading {
                let read = ready!(Pin::new(reading).poll(cx));
                self.reading = None;
                let bytes = match read.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into())) {
                    Ok(bytes) => bytes,
                    Err(error) => return Poll::Ready(Some(Err(error))),
                };
                self.left -= bytes.len() as u64;
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match self.parts.pop_front() {
                None => return Poll::Ready(None),
                Some(Part::Bytes(bytes)) => {
                    self.left -= bytes.len() as u64;
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Part::File { file, offset, length }) => {
                    let now = length.min(CHUNK as u64);
                    if now < length {
                        let (file, offset, length) = (Arc::clone(&file), offset + now, length - now);
                        self.parts.push_front(Part::File { file, offset, length });
                    }
                    self.reading =
                        Some(tokio::task::spawn_blocking(move || read_exactly(&file, offset, now)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.stream.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.stream {
            None => SizeHint::with_exact(self.left),
            Some(Stream { length: Some(length), .. }) => SizeHint::with_exact(*length),
            Some(_) => SizeHint::default(),
        }
    }
}

/// A file that has become shorter is an error: what was promised cannot be sent.
fn read_exactly(file: &OpenedFile, offset: u64, length: u64) -> io::Result<Bytes> {
    let mut buffer = vec![0; usize::try_from(length).unwrap_or(CHUNK)];
    let mut filled = 0;
    while filled < buffer.len() {
        let read = file
            .read_at(&mut buffer[filled..], offset + filled as u64)
            .map_err(|error| io::Error::other(error.to_string()))?;
        match read.len() {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => filled += read,
        }
    }
    Ok(buffer.into())
}
