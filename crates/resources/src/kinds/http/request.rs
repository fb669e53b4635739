//! What clients send, as far as we look at it. Nothing here trusts any of it.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use hyper::Request;
use hyper::body::{Body, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;

/// The longest body that is read.
pub(super) const LARGEST_BODY: usize = 4 * 1024 * 1024;
/// Fields of a form that are looked at.
const MOST_FIELDS: usize = 10_000;

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLarge,
    TooSlow,
    Broken,
}

/// Reads the body, within bounds of size and time.
pub(super) async fn body(request: Request<Incoming>, limit: Duration) -> (Parts, Result<Vec<u8>, BodyError>) {
    let (parts, body) = request.into_parts();
    let read = tokio::time::timeout(limit, collect(body)).await;
    (parts, read.unwrap_or(Err(BodyError::TooSlow)))
}

async fn collect(mut body: Incoming) -> Result<Vec<u8>, BodyError> {
    let large = |bytes: u64| usize::try_from(bytes).map_or(true, |bytes| bytes > LARGEST_BODY);
    if large(body.size_hint().lower()) {
        return Err(BodyError::TooLarge);
    }
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| BodyError::Broken)?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > LARGEST_BODY {
            return Err(BodyError::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// Whether the body is a form.
pub(super) fn is_form(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes()).unwrap_or_default();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
}

/// The first value of a field of a form.
pub(super) fn field(form: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    form.split(|byte| *byte == b'&').take(MOST_FIELDS).find_map(|pair| {
        let (key, value) = match pair.iter().position(|byte| *byte == b'=') {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &[][..]),
        };
        (unescaped(key, true) == name).then(|| unescaped(value, true))
    })
}

/// The path of a request, in plain bytes. `None`: it is none.
pub(super) fn path(raw: &str) -> Option<Vec<u8>> {
    let path = unescaped(raw.as_bytes(), false);
    (path.starts_with(b"/") && !path.contains(&0)).then_some(path)
}

/// Bytes without `%`. What is no such sequence stays as it is.
fn unescaped(text: &[u8], plus_is_blank: bool) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let escaped = if *byte == b'%' { digit(at + 1).zip(digit(at + 2)) } else { None };
        match escaped {
            Some((high, low)) => {
                // Two hexadecimal digits are one byte.
                bytes.push((high * 16 + low) as u8);
                at += 2;
            }
            None => bytes.push(if plus_is_blank && *byte == b'+' { b' ' } else { *byte }),
        }
        at += 1;
    }
    bytes
}

/// A path as it stands in a request.
pub(super) fn escaped(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// A path without empty components, `.` and `..`, as a browser would ask for it. A slash at the end stays.
pub(super) fn cleaned(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut components = path.split(|byte| *byte == b'/').peekable();
    let mut directory = true;
    while let Some(component) = components.next() {
        let last = components.peek().is_none();
        match component {
            b"" | b"." => {}
            b".." => {
                kept.pop();
            }
            name => {
                kept.push(name);
                directory = !last;
            }
        }
        directory |= last && matches!(component, b"" | b"." | b"..");
    }
    let mut clean = vec![b'/'];
    clean.extend(kept.join(&b'/'));
    if directory && !kept.is_empty() {
        clean.push(b'/');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_loses_what_leads_nowhere() {
        let clean = |path: &str| String::from_utf8(cleaned(path.as_bytes())).unwrap();
        for same in ["/", "/a", "/a/", "/a/b", "/a/b/", "/...", "/.a"] {
            assert_eq!(clean(same), same);
        }
        for (path, expected) in [
            ("//", "/"),
            ("//a", "/a"),
            ("/a//b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/../../etc/passwd", "/etc/passwd"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/.", "/a/"),
            ("", "/"),
        ] {
            assert_eq!(clean(path), expected, "{path}");
            assert_eq!(clean(expected), expected);
        }
    }

    #[test]
    fn escapes_are_read_and_written() {
        assert_eq!(path("/a%20b%2Fc").as_deref(), Some(&b"/a b/c"[..]));
        assert_eq!(path("/%zz%4"), Some(b"/%zz%4".to_vec()));
        assert_eq!(path("/%00"), None);
        assert_eq!(path("*"), None);
        assert_eq!(path(""), None);
        assert_eq!(escaped(b"/a b?\xff%\r\n"), "/a%20b%3F%FF%25%0D%0A");
        assert_eq!(path(&escaped(b"/a b?\xff%\r\n")).unwrap(), b"/a b?\xff%\r\n");
    }

    #[test]
    fn a_field_of_a_form_is_found() {
        let form = b"a=1&key=two+words%21&key=second&empty=&bare";
        assert_eq!(field(form, b"key").unwrap(), b"two words!");
        assert_eq!(field(form, b"empty").unwrap(), b"");
        assert_eq!(field(form, b"bare").unwrap(), b"");
        assert_eq!(field(form, b"none"), None);
        assert_eq!(field(b"", b"a"), None);
        assert_eq!(field(b"&&=&%", b"a"), None);
    }
}
