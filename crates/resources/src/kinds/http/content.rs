//! How content is served: types, parts of it, and whether the client has it already.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::body::Bytes;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderName, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};
use mgmt_sys::dir::Parent;
use mgmt_sys::file::OpenedFile;
use mgmt_sys::path::ManagedPath;

use super::reply::{self, Content, Part, Reply, set};

/// How much of a content tells its type.
const TELLING: usize = 512;
/// A request for more parts than this gets the whole.
const MOST_RANGES: usize = 16;

/// Something to serve.
pub(super) struct Source {
    pub(super) bytes: Held,
    /// The first bytes.
    head: Bytes,
    /// When it changed, if that is known.
    pub(super) modified: Option<SystemTime>,
}

/// Where its bytes are.
pub(super) enum Held {
    Data(Bytes),
    File(Arc<OpenedFile>),
}

impl Source {
    pub(super) fn data(data: Bytes, modified: Option<SystemTime>) -> Source {
        let head = data.slice(..data.len().min(TELLING));
        Source { bytes: Held::Data(data), head, modified }
    }

    /// An opened file. Reads, and so may block.
    fn file(file: OpenedFile) -> Result<Source, StatusCode> {
        let mut head = vec![0; TELLING];
        let read = file.read_at(&mut head, 0).map_err(|error| refusal(&error))?.len();
        head.truncate(read);
        let modified = u64::try_from(file.stat().modified.seconds).ok();
        let modified = modified.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
        Ok(Source { bytes: Held::File(Arc::new(file)), head: head.into(), modified })
    }

    fn length(&self) -> u64 {
        match &self.bytes {
            Held::Data(data) => data.len() as u64,
            Held::File(file) => file.stat().size,
        }
    }

    /// A piece. The range is within the length.
    fn part(&self, range: &Range<u64>) -> Part {
        match &self.bytes {
            Held::Data(data) => {
                let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(data.len());
                Part::Bytes(data.slice(at(range.start)..at(range.end)))
            }
            Held::File(file) => Part::File {
                file: Arc::clone(file),
                offset: range.start,
                length: range.end.saturating_sub(range.start),
            },
        }
    }
}

/// Opens a file that the program names, to be served.
pub(super) async fn open(path: ManagedPath) -> Result<Source, StatusCode> {
    let open = move || {
        answers(&path)?;
        let file = OpenedFile::open_trusted(&path).map_err(|error| refusal(&error))?;
        Source::file(file)
    };
    blocking(open).await
}

/// Opens a file that a client names, below a directory that the program names. Links on the way are not followed.
pub(super) async fn open_below(directory: ManagedPath, relative: Vec<u8>) -> Result<Source, StatusCode> {
    blocking(move || {
        let (above, name) = match relative.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&relative[..at], &relative[at + 1..]),
            None => (&relative[..0], &relative[..]),
        };
        // A directory, which has nothing to show.
        if name.is_empty() {
            return Err(StatusCode::NOT_FOUND);
        }
        answers(&directory)?;
        let mut parent = Parent::open_itself(&directory).map_err(|error| refusal(&error))?;
        for component in above.split(|byte| *byte == b'/').filter(|component| !component.is_empty()) {
            parent = parent.open_dir(component).map_err(|error| refusal(&error))?;
        }
        Source::file(parent.open_regular(name).map_err(|error| refusal(&error))?)
    })
    .await
}

/// Refuses what is on a mount whose server does not answer: each request would take a thread that never comes back.
fn answers(path: &ManagedPath) -> Result<(), StatusCode> {
    match mgmt_sys::unresponsive::unresponsive_mount(path.as_bytes()) {
        Some(_) => Err(StatusCode::SERVICE_UNAVAILABLE),
        None => Ok(()),
    }
}

async fn blocking(
    open: impl FnOnce() -> Result<Source, StatusCode> + Send + 'static,
) -> Result<Source, StatusCode> {
    tokio::task::spawn_blocking(open).await.unwrap_or(Err(StatusCode::INTERNAL_SERVER_ERROR))
}

/// What is answered when a file cannot be opened. Whoever asks does not learn why.
fn refusal(error: &mgmt_sys::Error) -> StatusCode {
    use std::io::ErrorKind;
    match error.kind() {
        // Neither a directory nor a link is something to serve, and no such name can be.
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::InvalidInput
        | ErrorKind::InvalidFilename => StatusCode::NOT_FOUND,
        _ if error.found_kind().is_some() => StatusCode::NOT_FOUND,
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Answers with content, or with less if the client asks for less or has it already.
pub(super) fn answer(method: &Method, headers: &HeaderMap, path: &[u8], source: &Source) -> Reply {
    let length = source.length();
    let modified = source.modified.filter(|modified| *modified > UNIX_EPOCH);
    let modified = modified.map(httpdate::HttpDate::from);
    let mut reply = match precondition(headers, modified) {
        Some(StatusCode::NOT_MODIFIED) => {
            let mut reply = Reply::new(Content::default());
            *reply.status_mut() = StatusCode::NOT_MODIFIED;
            reply
        }
        Some(status) => return reply::status(status),
        None => {
            let content_type = content_type(path, &source.head);
            match wanted(headers, modified, length) {
                Wanted::Whole => {
                    let mut reply = Reply::new(Content::parts([source.part(&(0..length))]));
                    set(&mut reply, CONTENT_TYPE, content_type);
                    reply
                }
                Wanted::Nothing => {
                    let mut reply = reply::status(StatusCode::RANGE_NOT_SATISFIABLE);
                    set(&mut reply, CONTENT_RANGE, format!("bytes */{length}"));
                    return reply;
                }
                Wanted::Parts(ranges) => parts(source, content_type, &ranges, length),
            }
        }
    };
    if reply.status() != StatusCode::NOT_MODIFIED {
        let length = reply.body().length();
        set(&mut reply, CONTENT_LENGTH, length.to_string());
        set(&mut reply, ACCEPT_RANGES, "bytes");
        set(&mut reply, X_CONTENT_TYPE_OPTIONS, "nosniff");
    }
    if let Some(modified) = modified {
        set(&mut reply, LAST_MODIFIED, modified.to_string());
    }
    if *method == Method::HEAD {
        *reply.body_mut() = Content::default();
    }
    reply
}

fn parts(source: &Source, content_type: &str, ranges: &[Range<u64>], length: u64) -> Reply {
    let described = |range: &Range<u64>| format!("bytes {}-{}/{length}", range.start, range.end - 1);
    let mut reply = match ranges {
        [range] => {
            let mut reply = Reply::new(Content::parts([source.part(range)]));
            set(&mut reply, CONTENT_TYPE, content_type);
            set(&mut reply, CONTENT_RANGE, described(range));
            reply
        }
        ranges => {
            let boundary = format!("{:016x}{:016x}", random(), random());
            let mut pieces = Vec::with_capacity(ranges.len() * 2 + 1);
            for (index, range) in ranges.iter().enumerate() {
                let before = if index == 0 { "" } else { "\r\n" };
                let head = format!(
                    "{before}--{boundary}\r\nContent-Range: {}\r\nContent-Type: {content_type}\r\n\r\n",
                    described(range)
                );
                pieces.push(Part::Bytes(head.into()));
                pieces.push(source.part(range));
            }
            pieces.push(Part::Bytes(format!("\r\n--{boundary}--\r\n").into()));
            let mut reply = Reply::new(Content::parts(pieces));
            set(&mut reply, CONTENT_TYPE, format!("multipart/byteranges; boundary={boundary}"));
            reply
        }
    };
    *reply.status_mut() = StatusCode::PARTIAL_CONTENT;
    reply
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The time that a header holds.
pub(super) fn date(headers: &HeaderMap, name: HeaderName) -> Option<httpdate::HttpDate> {
    text(headers, name)?.trim().parse().ok()
}

/// What the client has says that it is not to get the content. We give content no tags, so none can match.
fn precondition(headers: &HeaderMap, modified: Option<httpdate::HttpDate>) -> Option<StatusCode> {
    if let Some(tags) = text(headers, IF_MATCH) {
        if tags.trim() != "*" {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
    } else if let (Some(date), Some(modified)) = (date(headers, IF_UNMODIFIED_SINCE), modified)
        && modified > date
    {
        return Some(StatusCode::PRECONDITION_FAILED);
    }
    if let Some(tags) = text(headers, IF_NONE_MATCH) {
        return (tags.trim() == "*").then_some(StatusCode::NOT_MODIFIED);
    }
    match (date(headers, IF_MODIFIED_SINCE), modified) {
        (Some(date), Some(modified)) if modified <= date => Some(StatusCode::NOT_MODIFIED),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    /// Nothing that there is.
    Nothing,
    Parts(Vec<Range<u64>>),
}

fn wanted(headers: &HeaderMap, modified: Option<httpdate::HttpDate>, length: u64) -> Wanted {
    let Some(range) = headers.get(RANGE) else { return Wanted::Whole };
    // The range is of something that the client saw earlier, and may be another thing now.
    if headers.contains_key(IF_RANGE) && (modified.is_none() || date(headers, IF_RANGE) != modified) {
        return Wanted::Whole;
    }
    match range.to_str() {
        Ok(range) => ranges(range, length),
        Err(_) => Wanted::Nothing,
    }
}

fn ranges(text: &str, length: u64) -> Wanted {
    // Other units than bytes are nothing that we know.
    let Some(list) = text.trim().strip_prefix("bytes=") else { return Wanted::Whole };
    let mut found = Vec::new();
    for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        if found.len() == MOST_RANGES {
            return Wanted::Whole;
        }
        let Some(range) = range(item, length) else { return Wanted::Nothing };
        found.extend((!range.is_empty()).then_some(range));
    }
    let total: u64 = found.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
    match found.is_empty() {
        true => Wanted::Nothing,
        // More than there is: somebody wants to make us work.
        false if total > length => Wanted::Whole,
        false => Wanted::Parts(found),
    }
}

/// One range, empty if it is beyond the end. `None`: it is no range.
fn range(item: &str, length: u64) -> Option<Range<u64>> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (first, last) = item.split_once('-')?;
    if first.is_empty() {
        let last = number(last)?;
        return Some(length.saturating_sub(last)..length);
    }
    let first = number(first)?;
    let end = if last.is_empty() { length } else { number(last)?.saturating_add(1).min(length) };
    if !last.is_empty() && number(last)? < first {
        return None;
    }
    Some(first.min(length)..end.max(first.min(length)))
}

/// The type of content, by the name that it is asked for, else by what it begins with.
fn content_type(path: &[u8], head: &[u8]) -> &'static str {
    type_of_name(path).unwrap_or_else(|| sniffed(head))
}

/// The type of content that has such a name.
pub(super) fn type_of_name(path: &[u8]) -> Option<&'static str> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let at = name.iter().rposition(|byte| *byte == b'.')?;
    let extension = name[at + 1..].to_ascii_lowercase();
    let known =
        |known: &str| !extension.is_empty() && known.split(' ').any(|known| known.as_bytes() == extension);
    TYPES.iter().find(|(extensions, _)| known(extensions)).map(|(_, kind)| *kind)
}

const TYPES: [(&str, &str); 32] = [
    ("html htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js mjs", "text/javascript; charset=utf-8"),
    ("txt text log conf cfg ini", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("xml", "text/xml; charset=utf-8"),
    ("json", "application/json"),
    ("yaml yml", "application/yaml"),
    ("wasm", "application/wasm"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("gz tgz", "application/gzip"),
    ("bz2", "application/x-bzip2"),
    ("xz txz", "application/x-xz"),
    ("zst", "application/zstd"),
    ("tar", "application/x-tar"),
    ("rpm", "application/x-rpm"),
    ("deb", "application/vnd.debian.binary-package"),
    ("iso img", "application/octet-stream"),
    ("sh", "text/x-shellscript; charset=utf-8"),
    ("png", "image/png"),
    ("jpg jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("svg", "image/svg+xml"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("ico", "image/vnd.microsoft.icon"),
    ("woff2", "font/woff2"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
];

fn sniffed(head: &[u8]) -> &'static str {
    const SIGNS: [(&[u8], &str); 9] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"\x1f\x8b\x08", "application/gzip"),
        (b"PK\x03\x04", "application/zip"),
        (b"<?xml", "text/xml; charset=utf-8"),
        (b"\0asm", "application/wasm"),
    ];
    if let Some((_, kind)) = SIGNS.iter().find(|(sign, _)| head.starts_with(sign)) {
        return kind;
    }
    let start = head.trim_ascii_start().to_ascii_lowercase();
    if [&b"<!doctype html"[..], b"<html", b"<head", b"<body"].iter().any(|tag| start.starts_with(tag)) {
        return "text/html; charset=utf-8";
    }
    // The last character may be cut.
    let text = match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    let control = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    match text && !head.iter().any(control) {
        true => "text/plain; charset=utf-8",
        false => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    fn reply(pairs: &[(HeaderName, &str)]) -> Reply {
        let modified = Some(UNIX_EPOCH + Duration::from_secs(784_111_777));
        let source = Source::data(Bytes::from_static(b"0123456789"), modified);
        answer(&Method::GET, &headers(pairs), b"/a.txt", &source)
    }

    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    #[test]
    fn ranges_are_read() {
        let parts =
            |ranges: &[(u64, u64)]| Wanted::Parts(ranges.iter().map(|(start, end)| *start..*end).collect());
        for (text, expected) in [
            ("bytes=0-", parts(&[(0, 10)])),
            ("bytes=0-0", parts(&[(0, 1)])),
            ("bytes=3-5", parts(&[(3, 6)])),
            ("bytes=3-500", parts(&[(3, 10)])),
            ("bytes=-3", parts(&[(7, 10)])),
            ("bytes=-30", parts(&[(0, 10)])),
            ("bytes=0-1, 8-", parts(&[(0, 2), (8, 10)])),
            ("bytes=0-1,50-60", parts(&[(0, 2)])),
            ("bytes=0-99999999999999999999999999", parts(&[(0, 10)])),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=5-3", Wanted::Nothing),
            ("bytes=a-b", Wanted::Nothing),
            ("bytes=-", Wanted::Nothing),
            ("bytes=", Wanted::Nothing),
            ("bytes=+1-2", Wanted::Nothing),
            ("bytes=0-,0-,0-", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
        ] {
            assert_eq!(ranges(text, 10), expected, "{text}");
        }
        assert_eq!(ranges(&format!("bytes={}", "0-0,".repeat(17)), 1000), Wanted::Whole);
        assert_eq!(ranges("bytes=0-", 0), Wanted::Nothing);
    }

    #[test]
    fn what_the_client_has_is_not_sent_again() {
        let status = |pairs: &[(HeaderName, &str)]| reply(pairs).status().as_u16();
        assert_eq!(status(&[]), 200);
        assert_eq!(status(&[(IF_MODIFIED_SINCE, THEN)]), 304);
        assert_eq!(status(&[(IF_MODIFIED_SINCE, BEFORE)]), 200);
        assert_eq!(status(&[(IF_MODIFIED_SINCE, "yesterday")]), 200);
        assert_eq!(status(&[(IF_MODIFIED_SINCE, THEN), (IF_NONE_MATCH, "\"x\"")]), 200);
        assert_eq!(status(&[(IF_NONE_MATCH, "*")]), 304);
        assert_eq!(status(&[(IF_UNMODIFIED_SINCE, BEFORE)]), 412);
        assert_eq!(status(&[(IF_UNMODIFIED_SINCE, THEN)]), 200);
        assert_eq!(status(&[(IF_MATCH, "\"x\"")]), 412);
        assert_eq!(status(&[(IF_MATCH, "*")]), 200);
    }

    #[test]
    fn a_part_is_sent_only_of_the_same_content() {
        let part = reply(&[(RANGE, "bytes=2-4")]);
        assert_eq!(part.status(), 206);
        assert_eq!(part.headers()[CONTENT_RANGE], "bytes 2-4/10");
        assert_eq!(part.headers()[CONTENT_LENGTH], "3");
        assert_eq!(reply(&[(RANGE, "bytes=2-4"), (IF_RANGE, THEN)]).status(), 206);
        assert_eq!(reply(&[(RANGE, "bytes=2-4"), (IF_RANGE, BEFORE)]).status(), 200);
        assert_eq!(reply(&[(RANGE, "bytes=2-4"), (IF_RANGE, "\"tag\"")]).status(), 200);
        let none = reply(&[(RANGE, "bytes=20-")]);
        assert_eq!(
            (none.status().as_u16(), &none.headers()[CONTENT_RANGE]),
            (416, &"bytes */10".parse().unwrap())
        );
        let several = reply(&[(RANGE, "bytes=0-0,9-9")]);
        assert!(several.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("multipart/byteranges"));
    }

    #[test]
    fn types_come_from_names_and_else_from_content() {
        assert_eq!(content_type(b"/a.HTML", b""), "text/html; charset=utf-8");
        assert_eq!(content_type(b"/a.b/c", b"hello"), "text/plain; charset=utf-8");
        assert_eq!(content_type(b"/a", b"\n <!DOCTYPE html>"), "text/html; charset=utf-8");
        assert_eq!(content_type(b"/a.", b"\0\x01"), "application/octet-stream");
        assert_eq!(content_type(b"/a", b"h\xc3"), "text/plain; charset=utf-8", "cut within a character");
        assert_eq!(content_type(b"/a.weird", b"\x89PNG\r\n\x1a\n..."), "image/png");
    }
}
