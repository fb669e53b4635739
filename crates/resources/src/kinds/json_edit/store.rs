//! Where a document is.

use mgmt_resource::Invalid;
use mgmt_sys::ManagedPath;
use mgmt_value::Str;

use crate::support::declared_path::file_path;

/// Where a document is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Store {
    File(ManagedPath),
    /// A key of the strings that hosts share.
    Cluster(Str),
}

impl Store {
    pub(super) fn read(store: &Str) -> Result<Store, Invalid> {
        let wrong = |why: String| {
            Invalid::field("store", why)
                .with_hint("a store is an absolute path, `file:///path` or `etcd:///key`")
        };
        if store.is_empty() {
            return Err(wrong("is missing".into()));
        }
        if store.starts_with(b"/") {
            return file_path("store", store).map(Store::File);
        }
        let text = store.as_str().ok_or_else(|| wrong(format!("{store:?} is neither a path nor a URL")))?;
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(wrong(format!("{text:?} is neither an absolute path nor a URL")));
        };
        if !matches!(scheme, "file" | "etcd") {
            return Err(wrong(format!("`{scheme}` is no kind of store")));
        }
        for (sign, what) in [('?', "a query"), ('#', "a fragment")] {
            if rest.contains(sign) {
                return Err(wrong(format!("{text:?} has {what}, which means nothing here")));
            }
        }
        let Some(path) = rest.strip_prefix('/') else {
            return Err(wrong(format!("{text:?} names a host; expected three slashes")));
        };
        let path =
            decoded(path).ok_or_else(|| wrong(format!("{text:?} has a `%` without two digits after it")))?;
        match scheme {
            "file" => file_path("store", &Str::from([b"/", &path[..]].concat())).map(Store::File),
            _ if path.is_empty() => Err(wrong(format!("{text:?} has no key"))),
            _ => Ok(Store::Cluster(path.into())),
        }
    }
}

/// Text in which bytes may be written as a percent sign and two digits.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_file_or_a_key() {
        let file = |path: &str| Store::File(ManagedPath::new(path).unwrap());
        for (text, store) in [
            ("/a/b.json", file("/a/b.json")),
            ("/a%20?b", file("/a%20?b")),
            ("file:///a/b", file("/a/b")),
            ("file:///a%20b%2f", file("/a b/")),
            ("etcd:///a/b", Store::Cluster("a/b".into())),
        ] {
            let read = Store::read(&text.into());
            if text.ends_with("%2f") {
                assert!(read.unwrap_err().message.contains("slash"));
            } else {
                assert_eq!(read.unwrap(), store, "{text}");
            }
        }
        for (text, why) in [
            ("", "missing"),
            ("a/b", "neither"),
            ("/a/", "slash"),
            ("http:///a", "no kind of store"),
            ("file://host/a", "names a host"),
            ("etcd://", "names a host"),
            ("etcd:///", "no key"),
            ("file:///a?b", "a query"),
            ("etcd:///a#b", "a fragment"),
            ("file:///%2", "two digits"),
            ("file:///%zz", "two digits"),
            ("file:///a%00", "NUL"),
        ] {
            let refused = Store::read(&text.into()).unwrap_err();
            assert!(refused.message.contains(why), "{text}: {refused}");
        }
        assert!(Store::read(&Str::new(b"\xff")).is_err());
    }
}
