//! Resources that hosts offer to others.

use std::time::Duration;

use mgmt_value::Str;
use serde::{Deserialize, Serialize};

use crate::keys::{self, Key, Topic};
use crate::own::Want;
use crate::store::StoreError;
use crate::strings::Changes;
use crate::{World, json};

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
struct Stored {
    resource: serde_json::Value,
}

impl World {
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
        self.live();
        self.inner()
            .own
            .want(keys::export(self.host(), to, kind, name), Some(Want { value, time, leaves: false }));
        Ok(())
    }

    /// Says which resources, by kind, name and whom they are for, this host may offer from now on. What else it has
    /// offered, in this run or an earlier one, is taken back.
    pub fn exports_are<'a>(&self, exports: impl IntoIterator<Item = (&'a Str, &'a Str, &'a Str)>) {
        self.live();
        let key = |(kind, name, to)| keys::export(self.host(), to, kind, name);
        let exports = exports.into_iter().map(key).collect();
        self.inner().own.exports_are(&keys::exports(self.host()), exports);
    }

    /// The resources of a kind that are offered to this host or to all, by all hosts. What a host offers to this host in
    /// particular counts before what it offers to all under the same name.
    pub fn exported(&self, kind: &Str) -> Vec<Exported> {
        let mut found: Vec<Exported> = Vec::new();
        for entry in self.live().below(keys::HOSTS) {
            let Some(Key::Export { host, to, kind: its, name }) = Key::parse(&entry.key) else { continue };
            if its != *kind || !(to == *self.host() || to == EVERYBODY) {
                continue;
            }
            match json::value(&entry) {
                Ok(Stored { resource }) => {
                    let data = Str::from(resource.to_string().into_bytes());
                    found.push(Exported { kind: its, name, host, to, data });
                }
                Err(error) => tracing::warn!("{error}"),
            }
        }
        let is_general = |export: &Exported| export.to == EVERYBODY;
        found.sort_by(|one, other| {
            (&one.name, &one.host, is_general(one)).cmp(&(&other.name, &other.host, is_general(other)))
        });
        found.dedup_by(|later, first| later.name == first.name && later.host == first.host);
        found
    }

    /// Follows what is offered of a kind.
    pub fn watch_exports(&self, kind: &Str) -> Changes {
        Changes(self.live().follow(Topic::Exports(kind.clone())))
    }
}
