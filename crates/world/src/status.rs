//! What hosts are doing.

use std::collections::BTreeMap;
use std::time::Duration;

use mgmt_value::Str;
use serde::{Deserialize, Serialize};

use crate::keys::{self, Topic};
use crate::own::Want;
use crate::store::StoreError;
use crate::strings::Changes;
use crate::{World, json};

/// What a host is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The version of the program.
    pub version: String,
    /// Since when it runs, in seconds since 1970, by the clock of that host.
    pub since: u64,
    /// The deploy that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy: Option<u64>,
    /// Nothing has had to be done for a while.
    pub converged: bool,
    /// How many resources it looks after.
    pub resources: u64,
    /// How many of them have failed.
    pub failed: u64,
    /// Those that something else undoes again and again, and what that is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub undone: BTreeMap<String, String>,
    /// Why something older runs than what there is now: the first mistake in that, and its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mistake: Option<String>,
}

/// How long a host is shown that is gone without a word.
const SHOWN: Duration = Duration::from_secs(15);

impl World {
    /// Tells all hosts what this one is doing.
    pub fn tell_status(&self, status: &Status) -> Result<(), StoreError> {
        self.live();
        let value = json::stored(status)?;
        let want = Want { value, time: Some(SHOWN), leaves: true };
        self.inner().own.want(keys::status(self.host()), Some(want));
        Ok(())
    }

    /// What all hosts that run are doing.
    pub fn statuses(&self) -> BTreeMap<Str, Status> {
        let mut statuses = BTreeMap::new();
        for host in self.known_hosts() {
            let entry = self.live().get(&keys::status(&host));
            if let Some(status) = entry.and_then(|entry| json::value(&entry).ok()) {
                statuses.insert(host, status);
            }
        }
        statuses
    }

    /// Follows what hosts are doing.
    pub fn watch_statuses(&self) -> Changes {
        Changes(self.live().follow(Topic::Status))
    }

    /// The host that schedules, if there is one.
    pub fn leader(&self) -> Option<Str> {
        #[derive(Deserialize)]
        struct Leader {
            host: String,
        }
        let entry = self.live().get(keys::SCHEDULER)?;
        json::value(&entry).ok().map(|leader: Leader| Str::from(leader.host.as_str()))
    }
}
