//! Strings that hosts share.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mgmt_value::{Str, Type, Value};
use tokio::sync::watch;

use crate::LocalError;
use crate::local::Folders;
use crate::value::Values;

/// Strings by key, for all hosts of a cluster to read and follow.
///
/// Under one key there can be two things that know nothing of each other: one string that every host may set, and one
/// string per host, which is that host's own. A call may wait for the network; dropping it leaves the store as it was
/// or as it was to become.
pub trait Strings: fmt::Debug + Send + Sync {
    /// The string that all hosts share under a key, or none.
    fn shared<'a>(&'a self, key: &'a Str) -> Pending<'a, Option<Str>>;

    /// The strings that hosts have put under a key, by host.
    fn by_host<'a>(&'a self, key: &'a Str) -> Pending<'a, BTreeMap<Str, Str>>;

    /// Stores the shared string, or removes it, and tells whether that was a change.
    fn set_shared<'a>(&'a self, key: &'a Str, value: Option<&'a Str>) -> Pending<'a, bool>;

    /// Stores the string of one host, or removes it, and tells whether that was a change.
    fn set_of_host<'a>(&'a self, key: &'a Str, host: &'a Str, value: Option<&'a Str>) -> Pending<'a, bool>;

    /// Follows a key. Whatever changes after this call is told.
    fn watch(&self, key: &Str, scope: Scope) -> Result<Box<dyn Changes>, StringsError>;
}

/// Which of the two things under a key is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The string that all hosts share.
    Shared,
    /// The strings of all hosts.
    ByHost,
}

/// The changes of a key, several of them told as one if nobody has asked meanwhile.
pub trait Changes: Send {
    /// Waits for the next change. A call that is dropped loses nothing. An error is the end.
    fn next(&mut self) -> Pending<'_, ()>;
}

/// A call under way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StringsError>> + Send + 'a>>;

/// Why strings could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StringsError {
    /// The local store could not do its work.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// The store has ended.
    #[error("the store has ended")]
    Ended,
}

pub(crate) const SHARED: &str = "string";
pub(crate) const BY_HOST: &str = "hoststring";

/// The strings of a host that shares them with nobody.
pub(crate) struct LocalStrings(Arc<Kept>);

struct Kept {
    folders: Folders,
    shared: Values,
    by_host: Values,
}

impl LocalStrings {
    pub(crate) fn new(folders: Folders) -> LocalStrings {
        LocalStrings(Arc::new(Kept { folders, shared: Values::new(SHARED), by_host: Values::new(BY_HOST) }))
    }

    /// Does what may reach the disk where that disturbs nobody.
    fn apart<'a, T: Send + 'static>(
        &'a self,
        work: impl FnOnce(&Kept) -> Result<T, LocalError> + Send + 'static,
    ) -> Pending<'a, T> {
        let kept = Arc::clone(&self.0);
        Box::pin(async move {
            match tokio::task::spawn_blocking(move || work(&kept)).await {
                Ok(done) => Ok(done?),
                // Work is only turned away while the program ends.
                Err(_) => Err(StringsError::Ended),
            }
        })
    }
}

impl Strings for LocalStrings {
    fn shared<'a>(&'a self, key: &'a Str) -> Pending<'a, Option<Str>> {
        let key = key.clone();
        self.apart(move |kept| {
            let value = kept.shared.get(&kept.folders, &key)?;
            Ok(value.and_then(|value| if let Value::Str(text) = value { Some(text) } else { None }))
        })
    }

    fn by_host<'a>(&'a self, key: &'a Str) -> Pending<'a, BTreeMap<Str, Str>> {
        let key = key.clone();
        self.apart(move |kept| Ok(hosts(kept.by_host.get(&kept.folders, &key)?.as_ref())))
    }

    fn set_shared<'a>(&'a self, key: &'a Str, value: Option<&'a Str>) -> Pending<'a, bool> {
        let (key, value) = (key.clone(), value.cloned().map(Value::Str));
        self.apart(move |kept| kept.shared.set(&kept.folders, &key, value.as_ref()))
    }

    fn set_of_host<'a>(&'a self, key: &'a Str, host: &'a Str, value: Option<&'a Str>) -> Pending<'a, bool> {
        let (key, host, value) = (key.clone(), host.clone(), value.cloned());
        self.apart(move |kept| {
            kept.by_host.update(&kept.folders, &key, |present| {
                let mut strings = hosts(present);
                match value {
                    Some(value) => strings.insert(host, value),
                    None => strings.remove(&host),
                };
                let is_empty = strings.is_empty();
                let entries = strings.into_iter().map(|(host, text)| (Value::Str(host), Value::Str(text)));
                (!is_empty).then(|| Value::map(Type::Str, Type::Str, entries))
            })
        })
    }

    fn watch(&self, key: &Str, scope: Scope) -> Result<Box<dyn Changes>, StringsError> {
        let values = match scope {
            Scope::Shared => &self.0.shared,
            Scope::ByHost => &self.0.by_host,
        };
        let mut changes = values.watch(key);
        // The store tells of its present state first; here only what comes later counts.
        changes.mark_unchanged();
        Ok(Box::new(LocalChanges(changes)))
    }
}

impl fmt::Debug for LocalStrings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalStrings")
    }
}

struct LocalChanges(watch::Receiver<u64>);

impl Changes for LocalChanges {
    fn next(&mut self) -> Pending<'_, ()> {
        Box::pin(async { self.0.changed().await.map_err(|_| StringsError::Ended) })
    }
}

/// The strings by host in a stored value.
fn hosts(value: Option<&Value>) -> BTreeMap<Str, Str> {
    let Some(Value::Map(map)) = value else { return BTreeMap::new() };
    let text = |value: &Value| if let Value::Str(text) = value { Some(text.clone()) } else { None };
    map.entries().iter().filter_map(|(host, string)| Some((text(host)?, text(string)?))).collect()
}
