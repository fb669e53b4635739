//! Member records: hosts that run an agent, and those that did and are gone.
//!
//! The status of a host ends with its agent. The member record stays for [`MEMBER_EXPIRY`], bound to a lease of that length
//! that the agent keeps, so that the store itself removes the record of a host that never comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mgmt_value::Str;
use serde::{Deserialize, Serialize};

use crate::host_claim::now;
use crate::keys::{self, Key};
use crate::reconciler::Want;
use crate::shared_state::Inner;
use crate::store::{Condition, Effect, LeaseId, StoreError, Transaction};
use crate::{SharedState, json};

/// How long a host that is gone is listed as lost.
pub const MEMBER_EXPIRY: Duration = Duration::from_secs(7 * 24 * 3600);

/// How often a running agent renews the time at which it was last seen.
const SEEN_EVERY: Duration = Duration::from_secs(300);

/// The record of a host that runs an agent, or did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// The version of the program.
    pub version: String,
    /// When it was last seen, in seconds since 1970 by the clock of that host. A host that was killed may have run five minutes
    /// longer than that.
    pub seen: u64,
    /// When it was stopped in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<u64>,
}

impl Member {
    /// When the host was lost, as far as is known.
    pub fn lost_since(&self) -> u64 {
        self.stopped.unwrap_or(self.seen)
    }
}

/// Why a host is not forgotten.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    /// There is no record of such a host.
    #[error("there is no host `{host}`")]
    Unknown {
        /// Its name.
        host: String,
    },
    /// Its agent is alive.
    #[error("`{host}` is running")]
    Running {
        /// Its name.
        host: String,
    },
    /// The store cannot do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SharedState {
    /// Records this host as a member from now on.
    pub fn be_member(&self, version: &str) {
        let earlier = self.cache().get(&keys::member(self.host())).and_then(|entry| entry.lease);
        let (inner, version) = (Arc::clone(self.inner()), version.to_owned());
        inner.want_member(&Member { version: version.clone(), seen: now(), stopped: None });
        self.in_the_background(async move {
            inner.revoke_earlier(earlier).await;
            loop {
                tokio::time::sleep(SEEN_EVERY).await;
                inner.want_member(&Member { version: version.clone(), seen: now(), stopped: None });
            }
        });
    }

    /// Keeps the record of a host that was stopped in order, or removes it.
    pub(crate) fn end_membership(&self, stays: bool) {
        let key = keys::member(self.host());
        let Some(known) = self.inner().reconciler.wanted(&key) else { return };
        match serde_json::from_slice::<Member>(&known.value) {
            Ok(member) if stays => {
                self.inner().want_member(&Member { seen: now(), stopped: Some(now()), ..member });
            }
            _ => self.inner().reconciler.want(key, None),
        }
    }

    /// All members, by host: those that run and those that are gone.
    pub fn members(&self) -> BTreeMap<Str, Member> {
        let mut found = BTreeMap::new();
        for host in self.known_hosts() {
            let entry = self.cache().get(&keys::member(&host));
            if let Some(member) = entry.and_then(|entry| json::value(&entry).ok()) {
                found.insert(host, member);
            }
        }
        found
    }

    /// The members that are gone.
    pub fn lost(&self) -> BTreeMap<Str, Member> {
        let is_gone = |host: &Str| {
            self.cache().get(&keys::status(host)).is_none() && self.cache().get(&keys::agent(host)).is_none()
        };
        self.members().into_iter().filter(|(host, _)| is_gone(host)).collect()
    }

    /// Removes everything that a host that is gone has left in the store.
    pub async fn forget(&self, host: &Str) -> Result<(), ForgetError> {
        let name = || host.to_text().into_owned();
        let (mut keys, mut stray) = (Vec::new(), BTreeMap::new());
        for entry in self.cache().below(&keys::host(host)) {
            match Key::parse(&entry.key) {
                // What an agent keeps alive has a lease. Without one, it is a stray that nobody else would ever remove.
                Some(Key::Status { .. } | Key::Agent { .. }) if entry.lease.is_some() => {
                    return Err(ForgetError::Running { host: name() });
                }
                Some(Key::Status { .. } | Key::Agent { .. }) => {
                    stray.insert(entry.key.clone(), entry.modified);
                }
                _ => keys.push(entry.key.clone()),
            }
        }
        // They go last, because the conditions are about them.
        keys.extend(stray.keys().cloned());
        if keys.is_empty() {
            return Err(ForgetError::Unknown { host: name() });
        }
        let conditions = [keys::status(host), keys::agent(host)].map(|key| match stray.get(&key) {
            Some(modified) => Condition::Modified(key, *modified),
            None => Condition::Missing(key),
        });
        let batch = self.store().limits().operations.saturating_sub(conditions.len()).max(1);
        for keys in keys.chunks(batch) {
            let effects = keys.iter().cloned().map(Effect::Delete).collect();
            let transaction = Transaction { conditions: conditions.to_vec(), effects, otherwise: Vec::new() };
            if !self.patiently(transaction).await?.done {
                return Err(ForgetError::Running { host: name() });
            }
        }
        Ok(())
    }
}

impl Inner {
    fn want_member(&self, member: &Member) {
        if let Ok(value) = json::stored(member) {
            let want = Want { value, time: Some(MEMBER_EXPIRY.into()), leaves: false, every: None };
            self.reconciler.want(keys::member(&self.host), Some(want));
        }
    }

    /// Ends the lease that the record of an earlier run was bound to, as soon as the record has another one. Nothing else was
    /// bound to it.
    async fn revoke_earlier(&self, earlier: Option<LeaseId>) {
        let Some(lease) = earlier else { return };
        let key = keys::member(&self.host);
        self.settled().await;
        if self.cache().get(&key).is_some_and(|entry| entry.lease.is_some_and(|now| now != lease)) {
            // One that stays ends by itself.
            let _ = self.store.revoke(lease).await;
        }
    }
}
