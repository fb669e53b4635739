//! Log levels: which log lines an operator wants a host to show.

use std::collections::BTreeMap;

use mgmt_value::Str;

use crate::SharedState;
use crate::keys::{self, Topic};
use crate::store::StoreError;
use crate::strings::Changes;

/// Which log lines a host shows, instead of those that it was started with.
impl SharedState {
    /// The requested log level of each host that has one.
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

    /// The requested log level of this host.
    pub fn known_log_level(&self) -> Result<Option<Str>, StoreError> {
        self.known_text(&keys::log(self.host()))
    }

    /// Requests a log level of a host, or none, and tells whether that was a change.
    pub async fn set_log_level(&self, host: &Str, level: Option<&Str>) -> Result<bool, StoreError> {
        self.set(keys::log(host), level).await
    }

    /// Follows the requested log levels.
    pub fn watch_log_levels(&self) -> Changes {
        Changes(self.cache().follow(Topic::LogLevels))
    }
}
