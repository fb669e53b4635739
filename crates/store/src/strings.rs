//! Shared strings: one per key for all hosts, and one per key and host.

use std::collections::BTreeMap;

use mgmt_resource::Scope;
use mgmt_value::Str;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::keys::{self, Topic};
use crate::store::{Condition, Effect, Entry, StoreError, Transaction};
use crate::{SharedState, json};

/// Strings by key, for all hosts to read and follow.
///
/// Under one key there can be two things that know nothing of each other: one string that every host may set, and one
/// string per host, which is that host's own. What is asked for is what was last heard of the store. To change something,
/// the store is needed: a call waits until it can be reached. Dropping a call leaves the store as it was or as it was to
/// become.
impl SharedState {
    /// The string that all hosts share under a key, or none.
    pub async fn shared(&self, key: &Str) -> Result<Option<Str>, StoreError> {
        self.ready().await;
        self.known_shared(key)
    }

    /// The strings that hosts have put under a key, by host.
    pub async fn by_host(&self, key: &Str) -> Result<BTreeMap<Str, Str>, StoreError> {
        self.ready().await;
        self.known_by_host(key)
    }

    /// [`SharedState::shared`], as far as it is known already.
    pub fn known_shared(&self, key: &Str) -> Result<Option<Str>, StoreError> {
        self.known_text(&keys::string(key))
    }

    /// The text under a key of the store.
    pub(crate) fn known_text(&self, key: &str) -> Result<Option<Str>, StoreError> {
        self.cache().get(key).map(|entry| text(&entry)).transpose()
    }

    /// [`SharedState::by_host`], as far as it is known already.
    pub fn known_by_host(&self, name: &Str) -> Result<BTreeMap<Str, Str>, StoreError> {
        let mut found = BTreeMap::new();
        for host in self.known_hosts() {
            if let Some(entry) = self.cache().get(&keys::host_string(&host, name)) {
                // One that cannot be read concerns that host's string alone.
                match text(&entry) {
                    Ok(text) => drop(found.insert(host, text)),
                    Err(error) => tracing::warn!("{error}"),
                }
            }
        }
        Ok(found)
    }

    /// All hosts that have anything in the store.
    pub(crate) fn known_hosts(&self) -> Vec<Str> {
        self.cache().parts(keys::HOSTS).iter().filter_map(|part| keys::name(part)).collect()
    }

    /// Stores the shared string, or removes it, and tells whether that was a change.
    pub async fn set_shared(&self, key: &Str, value: Option<&Str>) -> Result<bool, StoreError> {
        self.set(keys::string(key), value).await
    }

    /// Stores the string of one host, or removes it, and tells whether that was a change. Of two agents with this host's name, the
    /// younger one is refused.
    pub async fn set_of_host(&self, key: &Str, host: &Str, value: Option<&Str>) -> Result<bool, StoreError> {
        if host == self.host() {
            self.may_write().await?;
        }
        self.set(keys::host_string(host, key), value).await
    }

    /// Replaces the shared string, provided that it is still what it was when somebody looked, and tells whether it was.
    pub async fn replace_shared(
        &self,
        key: &Str,
        expected: Option<&Str>,
        value: &Str,
    ) -> Result<bool, StoreError> {
        let key = keys::string(key);
        let condition = match expected {
            Some(expected) => Condition::Value(key.clone(), json::stored(&Text::new(expected))?),
            None => Condition::Missing(key.clone()),
        };
        let value = json::stored(&Text::new(value))?;
        let before = self.cache().get(&key).map(|entry| entry.modified);
        let transaction = Transaction {
            conditions: vec![condition],
            effects: vec![Effect::Put { key: key.clone(), value, lease: None }],
            otherwise: Vec::new(),
        };
        let commit = self.patiently(transaction).await?;
        // Whoever was faster, or we: something else is there now than what was known.
        self.cache().until(&key, |entry| entry.map(|entry| entry.modified) != before).await;
        Ok(commit.done)
    }

    /// Follows a key. Whatever changes after this call is told.
    pub fn watch(&self, key: &Str, scope: Scope) -> Changes {
        let topic = match scope {
            Scope::Shared => Topic::String(key.clone()),
            Scope::ByHost => Topic::HostStrings(key.clone()),
        };
        Changes(self.cache().follow(topic))
    }

    /// Sets a key unless it is so already, in one step.
    pub(crate) async fn set(&self, key: String, value: Option<&Str>) -> Result<bool, StoreError> {
        let transaction = match value {
            Some(value) => {
                let value = json::stored(&Text::new(value))?;
                Transaction {
                    conditions: vec![Condition::Value(key.clone(), value.clone())],
                    effects: Vec::new(),
                    otherwise: vec![Effect::Put { key: key.clone(), value, lease: None }],
                }
            }
            None => Transaction {
                conditions: vec![Condition::Missing(key.clone())],
                effects: Vec::new(),
                otherwise: vec![Effect::Delete(key.clone())],
            },
        };
        let wanted = transaction.otherwise.first().cloned();
        let commit = self.patiently(transaction).await?;
        // Whether we have changed it or somebody else just before us: from now on we read what we wanted.
        self.cache()
            .until(&key, |entry| match &wanted {
                Some(Effect::Put { value, .. }) => entry.is_some_and(|entry| entry.value == *value),
                _ => entry.is_none(),
            })
            .await;
        Ok(!commit.done)
    }
}

/// The changes of a key, several of them told as one if nobody has asked meanwhile.
#[derive(Debug)]
pub struct Changes(pub(crate) watch::Receiver<u64>);

impl Changes {
    /// Waits for the next change. A call that is dropped loses nothing. An error is the end.
    pub async fn next(&mut self) -> Result<(), StoreError> {
        self.0.changed().await.map_err(|_| StoreError::Ended)
    }
}

/// How a string is stored: as text if it is one.
#[derive(Serialize, Deserialize)]
struct Text {
    #[serde(with = "crate::bytes")]
    value: Vec<u8>,
}

impl Text {
    fn new(text: &Str) -> Text {
        Text { value: text.to_vec() }
    }
}

fn text(entry: &Entry) -> Result<Str, StoreError> {
    json::value(entry).map(|text: Text| Str::from(text.value))
}
