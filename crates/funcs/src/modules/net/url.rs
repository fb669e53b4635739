//! URLs, by the rules of RFC 3986 and with its tolerance.

type Result<T> = std::result::Result<T, &'static str>;

/// The parts that the language can see.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Url {
    pub(super) scheme: String,
    pub(super) host: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) query: Vec<u8>,
}

pub(super) fn parse(text: &[u8]) -> Result<Url> {
    let (text, fragment) = cut(text, b'#');
    if text.iter().any(u8::is_ascii_control) {
        return Err("it contains a control character");
    }
    // A fragment is not wanted, but has to be well-formed.
    unescape(fragment)?;
    if text == b"*" {
        return Ok(Url { path: b"*".to_vec(), ..Url::default() });
    }
    let (scheme, rest) = scheme(text)?;
    let (rest, query) = cut(rest, b'?');
    let mut url = Url { scheme, query: query.to_vec(), ..Url::default() };
    let mut path = rest;
    if !rest.starts_with(b"/") {
        if !url.scheme.is_empty() {
            // What follows the scheme has no structure, as in `mailto:`.
            return Ok(url);
        }
        let (first, _) = cut(rest, b'/');
        if first.contains(&b':') {
            return Err("the first part of the path contains a colon");
        }
    } else if let Some(after) = rest.strip_prefix(b"//")
        && (!url.scheme.is_empty() || !after.starts_with(b"/"))
    {
        let end = after.iter().position(|byte| *byte == b'/').unwrap_or(after.len());
        url.host = authority(&after[..end])?;
        path = &after[end..];
    }
    url.path = unescape(path)?;
    Ok(url)
}

fn cut(text: &[u8], separator: u8) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == separator) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

fn scheme(text: &[u8]) -> Result<(String, &[u8])> {
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("the scheme is missing"),
            b':' => {
                let scheme = text[..at].iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect();
                return Ok((scheme, &text[at + 1..]));
            }
            _ => break,
        }
    }
    Ok((String::new(), text))
}

/// The host with its port.
fn authority(text: &[u8]) -> Result<Vec<u8>> {
    let at = text.iter().rposition(|byte| *byte == b'@');
    if let Some(at) = at {
        let user = &text[..at];
        let valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte);
        if !user.iter().all(valid) {
            return Err("the user is invalid");
        }
        unescape(user)?;
    }
    let host = &text[at.map_or(0, |at| at + 1)..];
    let port = match host {
        [b'[', ..] => {
            let close =
                host.iter().rposition(|byte| *byte == b']').ok_or("a bracket of the host is not closed")?;
            &host[close + 1..]
        }
        host => host.iter().rposition(|byte| *byte == b':').map_or(&[][..], |colon| &host[colon..]),
    };
    let numeric = matches!(port, [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit));
    if !port.is_empty() && !numeric {
        return Err("the port is no number");
    }
    unescape_host(host)
}

/// In a host only bytes beyond ASCII may be escaped, and `%` in the zone of an address.
fn unescape_host(host: &[u8]) -> Result<Vec<u8>> {
    let zone = match host.first() {
        Some(b'[') => memchr::memmem::find(host, b"%25"),
        _ => None,
    };
    let plain =
        |byte: &u8| *byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(byte);
    let mut out = Vec::with_capacity(host.len());
    let mut at = 0;
    while at < host.len() {
        let in_zone = zone.is_some_and(|zone| at >= zone);
        match host[at] {
            b'%' => {
                let byte = escaped(&host[at..])?;
                if byte < 0x80 && !in_zone {
                    return Err("the host contains an escape that it can't have");
                }
                out.push(byte);
                at += 3;
            }
            byte if plain(&byte) => {
                out.push(byte);
                at += 1;
            }
            _ => return Err("the host contains a character that it can't have"),
        }
    }
    Ok(out)
}

fn unescape(text: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if text[at] == b'%' {
            out.push(escaped(&text[at..])?);
            at += 3;
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    Ok(out)
}

fn escaped(text: &[u8]) -> Result<u8> {
    let digits = text.get(1..3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or("an escape is not `%` and two digits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_parts() {
        for (text, scheme, host, path, query) in [
            ("http://www.example.com", "http", "www.example.com", "", ""),
            ("HTTP://u:p@h:80/a%20b/?q=%20#f", "http", "h:80", "/a b/", "q=%20"),
            ("https://[fe80::1%25en0]:8080/", "https", "[fe80::1%en0]:8080", "/", ""),
            ("mailto:a@b.c", "mailto", "", "", ""),
            ("mailto:a?b=c", "mailto", "", "", "b=c"),
            ("file:///etc/hosts", "file", "", "/etc/hosts", ""),
            ("http:///path", "http", "", "/path", ""),
            ("//h/p", "", "h", "/p", ""),
            ("///p", "", "", "///p", ""),
            ("/a:b", "", "", "/a:b", ""),
            ("a/b:c", "", "", "a/b:c", ""),
            ("1a://x", "", "", "", "error"),
            ("http://h?x#y", "http", "h", "", "x"),
            ("http://h/?", "http", "h", "/", ""),
            ("http://h/a?b?c", "http", "h", "/a", "b?c"),
            ("http://h:/x", "http", "h:", "/x", ""),
            ("http://héllo/%C3%A9", "http", "héllo", "/é", ""),
            ("http://a%c3%a9/", "http", "aé", "/", ""),
            ("*", "", "", "*", ""),
            ("", "", "", "", ""),
        ] {
            let expected =
                Url { scheme: scheme.into(), host: host.into(), path: path.into(), query: query.into() };
            match parse(text.as_bytes()) {
                Ok(url) => assert_eq!(url, expected, "{text}"),
                Err(_) => assert_eq!(query, "error", "{text}"),
            }
        }
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in [
            ":x",
            "http://h/%zz",
            "http://h/%2",
            "http://h:x/",
            "http://[::1/",
            "http://[::1]x/",
            "http://a b/",
            "http://a%20b/",
            "a:b\n",
            "http://h/\u{7f}",
            "1a:b",
            "http://u%zz@h/",
            "http://u ser@h/",
            "http://h/#%zz",
            "http://h\\x/",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
