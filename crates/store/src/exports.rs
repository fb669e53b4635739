//! Exported resources: resources that hosts offer to others.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use mgmt_value::Str;
use serde::{Deserialize, Serialize};

use crate::keys::{self, Key, Topic};
use crate::reconciler::Want;
use crate::store::{Entry, StoreError};
use crate::strings::Changes;
use crate::{SharedState, json};

/// Stands for all hosts.
pub const EVERYBODY: &str = "*";

/// A resource that a host offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exported {
    /// Its kind.
    pub kind: Str,
    /// Its name.
    pub name: Str,
    /// The host that offers it.
    pub host: Str,
    /// The host that it is for, or [`EVERYBODY`].
    pub to: Str,
    /// Its stored form, in JSON.
    pub data: Str,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Stored {
    resource: serde_json::Value,
}

impl SharedState {
    /// Offers a resource of this host. The data is JSON. With a time, the offer ends when this host is gone for so long.
    pub fn export(
        &self,
        kind: &Str,
        name: &Str,
        to: &Str,
        data: &Str,
        time: Option<Duration>,
    ) -> Result<(), StoreError> {
        let resource = serde_json::from_slice(data).map_err(|error| StoreError::Refused {
            reason: format!("an export has no stored form: {error}"),
        })?;
        let value = json::stored(&Stored { resource })?;
        self.cache();
        self.inner().reconciler.want(
            keys::export(self.host(), to, kind, name),
            Some(Want { value, time: time.map(Into::into), leaves: false, every: None }),
        );
        Ok(())
    }

    /// Says which resources, by kind, name and whom they are for, this host may offer from now on. What else it has
    /// offered, in this run or an earlier one, is taken back.
    pub fn exports_are<'a>(&self, exports: impl IntoIterator<Item = (&'a Str, &'a Str, &'a Str)>) {
        self.cache();
        let key = |(kind, name, to)| keys::export(self.host(), to, kind, name);
        let exports = exports.into_iter().map(key).collect();
        self.inner().reconciler.exports_are(&keys::exports(self.host()), exports);
    }

    /// The resources of a kind that are offered to this host or to all, by all hosts. What a host offers to this host in
    /// particular counts before what it offers to all under the same name.
    pub fn exported(&self, kind: &Str) -> Vec<Exported> {
        self.cache().offered(kind, self.host())
    }

    /// Follows what is offered of a kind.
    pub fn watch_exports(&self, kind: &Str) -> Changes {
        Changes(self.cache().follow(Topic::Exports(kind.clone())))
    }
}

/// All that is offered, by kind, as it was last heard of. Each is understood once, when it comes.
#[derive(Default)]
pub(crate) struct Offered(HashMap<Str, BTreeMap<Place, Exported>>);

/// The name, who offers it, whether it is for all, and whom it is for: in the order in which they are told.
type Place = (Str, Str, bool, Str);

impl Offered {
    /// Takes note of what is stored under the key of an export now.
    pub(crate) fn take(&mut self, key: &Key, entry: Option<&Entry>) {
        let Key::Export { host, to, kind, name } = key else { return };
        let place = (name.clone(), host.clone(), *to == EVERYBODY, to.clone());
        let stored: Option<Stored> =
            entry.and_then(|entry| json::value(entry).inspect_err(|error| tracing::warn!("{error}")).ok());
        match stored {
            Some(Stored { resource }) => {
                let data = Str::from(resource.to_string().into_bytes());
                let (host, to, kind, name) = (host.clone(), to.clone(), kind.clone(), name.clone());
                let exported = Exported { kind: kind.clone(), name, host, to, data };
                self.0.entry(kind).or_default().insert(place, exported);
            }
            None => {
                if let Some(all) = self.0.get_mut(kind) {
                    all.remove(&place);
                    if all.is_empty() {
                        self.0.remove(kind);
                    }
                }
            }
        }
    }

    /// What is offered of a kind to a host. What is offered to it in particular comes before what is offered to all.
    pub(crate) fn of(&self, kind: &Str, to: &Str) -> Vec<Exported> {
        let all = self.0.get(kind).into_iter().flat_map(BTreeMap::values);
        let mut found: Vec<Exported> =
            all.filter(|export| export.to == *to || export.to == EVERYBODY).cloned().collect();
        found.dedup_by(|later, first| later.name == first.name && later.host == first.host);
        found
    }
}
