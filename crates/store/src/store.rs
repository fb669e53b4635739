//! The store interface: keys, transactions, watches and leases, on which everything else is built.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Keys and their values, for all who share the store.
///
/// A key is text, its parts separated by slashes; a value is bytes. Each change of the store has a number, its revision,
/// which only grows. A call may wait for a network. Dropping a call leaves the store as it was or as it was to become.
pub trait Store: fmt::Debug + Send + Sync {
    /// Reads keys, as they all are at one moment.
    fn read(&self, spans: Vec<Span>) -> Pending<'_, Snapshot>;

    /// Makes all changes of a transaction in one step, those of one branch or those of the other.
    fn commit(&self, transaction: Transaction) -> Pending<'_, Commit>;

    /// Follows keys: first all that there is, then what changes. See [`Watch`].
    fn watch(&self, span: Span) -> Box<dyn Watch>;

    /// Begins a lease: keys that are bound to it vanish when nobody has kept it for this time. A store may give more
    /// time than it was asked for, never less.
    fn grant(&self, time: Duration) -> Pending<'_, Lease>;

    /// Keeps a lease for another such time, and tells whether it is still there.
    fn keep(&self, lease: LeaseId) -> Pending<'_, bool>;

    /// Ends a lease, and all keys that are bound to it. One that has ended already is no error.
    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()>;

    /// The store ends with this process and with nothing else, so leases of this process never have to be kept.
    fn ends_with_us(&self) -> bool {
        false
    }

    /// Where other hosts find the store; empty if they cannot.
    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    /// How much fits.
    fn limits(&self) -> Limits;
}

/// A call under way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Some of the keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Span {
    /// One key.
    Key(String),
    /// All keys that begin with this.
    Prefix(String),
}

impl Span {
    /// Whether a key is one of these.
    pub fn contains(&self, key: &str) -> bool {
        match self {
            Span::Key(one) => one == key,
            Span::Prefix(prefix) => key.starts_with(prefix.as_str()),
        }
    }
}

/// A key, its value, and their history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    #[serde(with = "crate::bytes")]
    pub value: Vec<u8>,
    /// The revision in which the key came to be.
    pub created: u64,
    /// The revision in which the value was written.
    pub modified: u64,
    /// The lease that the key is bound to.
    pub lease: Option<LeaseId>,
}

/// Entries as they were at one moment, sorted by key, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The revision of that moment.
    pub revision: u64,
    /// What there was.
    pub entries: Vec<Entry>,
}

impl Snapshot {
    /// The entry of a key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        let found = self.entries.binary_search_by(|entry| entry.key.as_str().cmp(key));
        found.ok().and_then(|at| self.entries.get(at))
    }

    /// The entries whose keys begin with this.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.key.starts_with(prefix))
    }
}

/// Changes that are made together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// What has to hold for the changes to be made.
    pub conditions: Vec<Condition>,
    /// The changes. No key may be changed twice.
    pub effects: Vec<Effect>,
    /// What is changed instead, in the same step, if a condition does not hold.
    pub otherwise: Vec<Effect>,
}

impl Transaction {
    /// Refuses what no store takes, or not this one.
    pub fn check(&self, limits: Limits) -> Result<(), StoreError> {
        let refused = |reason: String| Err(StoreError::Refused { reason });
        let Transaction { conditions, effects, otherwise } = self;
        if conditions.len().max(effects.len()).max(otherwise.len()) > limits.operations {
            return refused(format!("more than {} operations in one transaction", limits.operations));
        }
        let size = |effect: &Effect| if let Effect::Put { value, .. } = effect { value.len() } else { 0 };
        if effects.iter().chain(otherwise).map(size).sum::<usize>() > limits.value {
            return refused(format!("more than {} bytes in one transaction", limits.value));
        }
        for branch in [effects, otherwise] {
            let mut keys: Vec<&str> = branch.iter().map(Effect::key).collect();
            keys.sort_unstable();
            if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
                return refused(format!("the key `{}` is changed twice in one transaction", pair[0]));
            }
        }
        let changed = effects.iter().chain(otherwise).map(Effect::key);
        match conditions
            .iter()
            .map(Condition::key)
            .chain(changed)
            .find(|key| key.is_empty() || key.len() > 4096)
        {
            Some(_) => refused("a key is empty or longer than 4096 bytes".to_owned()),
            None => Ok(()),
        }
    }
}

/// What has to hold for a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// There is no such key.
    Missing(String),
    /// There is such a key.
    Exists(String),
    /// The key has this value.
    Value(String, #[serde(with = "crate::bytes")] Vec<u8>),
    /// The key was last written in this revision.
    Modified(String, u64),
    /// The key came to be in this revision and has been there ever since.
    Created(String, u64),
}

impl Condition {
    /// The key that is looked at.
    pub fn key(&self) -> &str {
        match self {
            Condition::Missing(key)
            | Condition::Exists(key)
            | Condition::Value(key, _)
            | Condition::Modified(key, _)
            | Condition::Created(key, _) => key,
        }
    }
}

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Writes a value.
    Put {
        /// Where.
        key: String,
        /// What.
        #[serde(with = "crate::bytes")]
        value: Vec<u8>,
        /// The lease that the key shall be bound to. A lease that has ended makes the transaction fail.
        lease: Option<LeaseId>,
    },
    /// Removes a key. One that is not there is no error.
    Delete(String),
}

impl Effect {
    /// The key that is changed.
    pub fn key(&self) -> &str {
        match self {
            Effect::Put { key, .. } | Effect::Delete(key) => key,
        }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// All conditions held and all changes have been made, those of [`Transaction::effects`]. If not, those of
    /// [`Transaction::otherwise`] have.
    pub done: bool,
    /// The revision in which that was so.
    pub revision: u64,
}

/// A lease, as it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its number.
    pub id: LeaseId,
    /// How long it lasts when nobody keeps it.
    pub time: Duration,
}

/// The number of a lease. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaseId(pub i64);

/// How much fits into a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The largest value, in bytes. All values of one transaction together must not be larger either.
    pub value: usize,
    /// The most conditions, and the most effects, of a transaction.
    pub operations: usize,
}

/// Follows keys.
///
/// What it tells is what the keys are, not what happened to them: changes that came while nobody asked may be told as
/// one, and after every doubt (a lost connection, history that is gone, a reader that is too slow) everything is read
/// again and told as a whole. Losing the store is no error; it ends by itself.
pub trait Watch: Send {
    /// Waits for the next news. A call that is dropped loses nothing. An error is the end.
    fn next(&mut self) -> Pending<'_, Batch>;
}

/// News of the keys that somebody follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The revision in which all this is so.
    pub revision: u64,
    /// This is everything there is: whatever is not told of does not exist.
    pub whole: bool,
    /// Keys with their entries, or without one if they are gone. Sorted by key, each once.
    pub changes: Vec<(String, Option<Entry>)>,
}

/// Why a store could not do its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum StoreError {
    /// Nobody answers.
    #[error("the store cannot be reached: {reason}")]
    Unreachable {
        /// What was seen of that.
        reason: String,
    },
    /// The store does not want to do this, and never will.
    #[error("the store refuses: {reason}")]
    Refused {
        /// What the store says.
        reason: String,
    },
    /// A lease has ended that a key was to be bound to.
    #[error("the lease has ended")]
    LeaseEnded,
    /// What is stored cannot be understood.
    #[error("the store holds {what} that cannot be understood: {reason}")]
    Corrupt {
        /// What it was.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store has been closed.
    #[error("the store has ended")]
    Ended,
    /// Whoever asked does not wait any longer.
    #[error("{place} has not answered within {seconds}s")]
    TimedOut {
        /// The store, for people.
        place: String,
        /// How long it was waited for.
        seconds: u64,
    },
}

impl StoreError {
    /// The same call may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(self, StoreError::Unreachable { .. })
    }
}
