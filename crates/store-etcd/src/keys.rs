//! Namespaces: keys as the store knows them, and keys as etcd does.

use std::sync::atomic::{AtomicBool, Ordering};

use super::wire;
use mgmt_store::{Entry, LeaseId, Span, StoreError};

/// What stands in front of every key in etcd, so that others may use the same one.
#[derive(Debug)]
pub(super) struct Namespace {
    front: String,
    /// Somebody has been told of keys that are no text.
    told: AtomicBool,
}

impl Namespace {
    /// Without a slash at its end, since every key begins with one: nobody can reach from `/mgmt` into `/mgmt2`.
    pub(super) fn new(name: &str) -> Self {
        Self { front: name.trim_end_matches('/').to_owned(), told: AtomicBool::new(false) }
    }

    /// The key of etcd.
    pub(super) fn key(&self, key: &str) -> Result<Vec<u8>, StoreError> {
        if !key.starts_with('/') {
            return Err(StoreError::Refused {
                reason: format!("the key {key:?} does not begin with a slash"),
            });
        }
        Ok(format!("{}{key}", self.front).into_bytes())
    }

    /// The first key of etcd, and the first one that does not belong to it any more; for a single key, nothing.
    pub(super) fn range(&self, span: &Span) -> Result<(Vec<u8>, Vec<u8>), StoreError> {
        match span {
            Span::Key(key) => Ok((self.key(key)?, Vec::new())),
            Span::Prefix(prefix) => {
                let first = self.key(if prefix.is_empty() { "/" } else { prefix })?;
                let mut end = first.clone();
                // The last byte of text is never 255, and there is at least a slash.
                if let Some(last) = end.last_mut() {
                    *last = last.saturating_add(1);
                }
                Ok((first, end))
            }
        }
    }

    /// The key that a key of etcd stands for. Keys are text; one that is not was put there by somebody else, and is left
    /// alone.
    pub(super) fn name(&self, key: &[u8]) -> Option<String> {
        let own = key.strip_prefix(self.front.as_bytes()).filter(|own| own.starts_with(b"/"))?;
        let name = str::from_utf8(own).ok();
        if name.is_none() && !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(namespace = self.front, "etcd holds a key that is no text; such keys are ignored");
        }
        name.map(str::to_owned)
    }

    /// The entry that an entry of etcd stands for.
    pub(super) fn entry(&self, entry: wire::KeyValue) -> Option<Entry> {
        Some(Entry {
            key: self.name(&entry.key)?,
            value: entry.value,
            created: entry.created.unsigned_abs(),
            modified: entry.modified.unsigned_abs(),
            lease: (entry.lease != 0).then_some(LeaseId(entry.lease)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_followed_by_one_slash_however_it_is_given() {
        for (given, expected) in [("/mgmt", "/mgmt/a"), ("/mgmt/", "/mgmt/a"), ("", "/a"), ("x", "x/a")] {
            assert_eq!(Namespace::new(given).key("/a"), Ok(expected.into()));
        }
        assert!(Namespace::new("/m").key("a").is_err());
    }

    #[test]
    fn a_prefix_ends_before_the_next_text() {
        let namespace = Namespace::new("/m");
        let range = |span| namespace.range(&span).unwrap();
        assert_eq!(range(Span::Prefix("/a".to_owned())), (b"/m/a".to_vec(), b"/m/b".to_vec()));
        assert_eq!(range(Span::Prefix(String::new())), (b"/m/".to_vec(), b"/m0".to_vec()));
        assert_eq!(range(Span::Key("/a".to_owned())), (b"/m/a".to_vec(), Vec::new()));
        assert!(namespace.range(&Span::Prefix("a".to_owned())).is_err());
    }

    #[test]
    fn keys_of_others_are_none_of_ours() {
        let namespace = Namespace::new("/m");
        assert_eq!(namespace.name(b"/m/a/b"), Some("/a/b".to_owned()));
        assert_eq!(namespace.name(b"/m2/a"), None);
        assert_eq!(namespace.name(b"/m"), None);
        assert_eq!(namespace.name(b"/m/\xff"), None);
    }
}
