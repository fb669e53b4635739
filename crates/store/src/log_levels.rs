//! What somebody wants a host to say of itself.

use std::collections::BTreeMap;

use mgmt_value::Str;

use crate::SharedState;
use crate::keys::{self, Topic};
use crate::store::StoreError;
use crate::strings::Changes;

/// Which log lines a host shows, instead of those that it was started with.
impl SharedState {
    /// What is wanted of each host of which something is.
    pub fn known_log_levels(&self) -> Result<BTreeMap<Str, Str>, StoreError> {
        let mut found = BTreeMap::new();
        for host in self.known_hosts() {
            // One that cannot be read concerns that host alone.
            match self.known_text(&keys::log(&host)) {
                Ok(Some(level)) => drop(found.insert(host, level)),
                Ok(None) => {}
                Err(error) => tracing::warn!("{error}"),
            }
        }
        Ok(found)
    }

    /// What is wanted of this host.
    pub fn known_log_level(&self) -> Result<Option<Str>, StoreError> {
        self.known_text(&keys::log(self.host()))
    }

    /// Says what is wanted of a host, or that nothing is, and tells whether that was a change.
    pub async fn set_log_level(&self, host: &Str, level: Option<&Str>) -> Result<bool, StoreError> {
        self.set(keys::log(host), level).await
    }

    /// Follows what is wanted of hosts.
    pub fn watch_log_levels(&self) -> Changes {
        Changes(self.live().follow(Topic::LogLevels))
    }
}
