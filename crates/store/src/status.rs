//! Host statuses: the report that every agent keeps in the store while it runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mgmt_health::{Counts, HostReport, ProgramState};
use mgmt_resource::Offer;
use mgmt_value::Str;
use serde::{Deserialize, Deserializer, Serialize};

use crate::keys::{self, Key, Topic};
use crate::reconciler::Want;
use crate::schedule::{Choice, Leader};
use crate::store::{Entry, StoreError};
use crate::strings::{Changes, Text};
use crate::{Agent, Member, SharedState, exports, json};

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
    /// The health report. Versions before 0.2 have none; the fields above are what they write and read.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "readable")]
    pub report: Option<HostReport>,
}

impl Status {
    /// The health report, or what the record of an earlier version says.
    pub fn report(&self) -> HostReport {
        if let Some(report) = &self.report {
            return report.clone();
        }
        let program = match &self.mistake {
            Some(error) => ProgramState::Invalid { since: self.since, error: error.clone() },
            None => ProgramState::Live,
        };
        let counts = Counts {
            total: self.resources,
            failed: self.failed,
            flapping: self.undone.len() as u64,
            ..Counts::default()
        };
        let mut report = HostReport { quiet: self.converged, program, counts, ..HostReport::default() };
        report.deploy.running = self.deploy;
        report
    }
}

/// A report that cannot be understood is none: the fields beside it still can.
fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<HostReport>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}

/// How long the status of a host stays that is gone without a word.
pub(crate) const STATUS_TTL: Duration = Duration::from_secs(15);

/// How often a host stores its status at most. The last one always arrives.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

impl SharedState {
    /// Tells all hosts what this one is doing.
    pub fn tell_status(&self, status: &Status) -> Result<(), StoreError> {
        self.cache();
        let value = json::stored(status)?;
        let want = Want { value, time: Some(STATUS_TTL.into()), leaves: true, every: Some(STATUS_INTERVAL) };
        self.inner().reconciler.want(keys::status(self.host()), Some(want));
        Ok(())
    }

    /// What all hosts that run are doing.
    pub fn statuses(&self) -> BTreeMap<Str, Status> {
        let mut statuses = BTreeMap::new();
        for host in self.known_hosts() {
            let entry = self.cache().get(&keys::status(&host));
            if let Some(status) = entry.and_then(|entry| json::value(&entry).ok()) {
                statuses.insert(host, status);
            }
        }
        statuses
    }

    /// Why records cannot be read, apart from those of deploys and shared strings: they are damaged, or a later version has written them.
    /// Each affects itself alone.
    pub fn unreadable_records(&self) -> Vec<StoreError> {
        let unreadable = |entry: Arc<Entry>| match Key::parse(&entry.key)? {
            Key::Status { .. } => json::value::<Status>(&entry).err(),
            Key::Member { .. } => json::value::<Member>(&entry).err(),
            Key::Agent { .. } | Key::Rival { .. } => json::value::<Agent>(&entry).err(),
            Key::Export { .. } => json::value::<exports::Stored>(&entry).err(),
            Key::Volunteer { .. } => json::value::<Offer>(&entry).err(),
            Key::Log { .. } | Key::HostString { .. } => json::value::<Text>(&entry).err(),
            Key::Schedule(_) => json::value::<Choice>(&entry).err(),
            Key::Leader => json::value::<Leader>(&entry).err(),
            // Whoever reads it fails, and says why.
            Key::String(_) => None,
        };
        let all = [keys::HOSTS, keys::SCHEDULES, keys::LEADERS].map(|prefix| self.cache().below(prefix));
        all.into_iter().flatten().filter_map(unreadable).collect()
    }

    /// Follows what hosts are doing.
    pub fn watch_statuses(&self) -> Changes {
        Changes(self.cache().follow(Topic::Status))
    }

    /// The host that schedules, if there is one.
    pub fn leader(&self) -> Option<Str> {
        let entry = self.cache().get(keys::SCHEDULER)?;
        json::value(&entry).ok().map(|leader: Leader| Str::from(leader.host.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Entry;

    fn read(text: &str) -> Status {
        let value = text.as_bytes().to_vec();
        json::value(&Entry { key: "/host/h/status".to_owned(), value, created: 1, modified: 1, lease: None })
            .unwrap()
    }

    #[test]
    fn the_record_of_an_earlier_version_is_read() {
        let status = read(
            r#"{"format":1,"version":"0.1.0","since":5,"deploy":3,"converged":true,"resources":7,"failed":2}"#,
        );
        let report = status.report();
        assert_eq!((report.counts.total, report.counts.failed), (7, 2));
        assert_eq!(report.deploy.running, Some(3));
        assert_eq!(report.state(), mgmt_health::HostState::Degraded);
    }

    #[test]
    fn an_earlier_version_reads_what_this_one_writes() {
        #[derive(Deserialize)]
        struct Earlier {
            converged: bool,
            resources: u64,
            failed: u64,
        }
        let report = Some(HostReport { quiet: true, ..HostReport::default() });
        let status = Status { converged: true, resources: 7, report, ..Status::default() };
        let text = String::from_utf8(json::stored(&status).unwrap()).unwrap();
        let earlier: Earlier = serde_json::from_str(&text).unwrap();
        assert_eq!((earlier.converged, earlier.resources, earlier.failed), (true, 7, 0));
        assert_eq!(read(&text), status);
    }

    #[test]
    fn a_report_of_a_later_version_leaves_the_rest_readable() {
        let status = read(
            r#"{"format":1,"version":"9","since":5,"converged":false,"resources":7,"failed":1,"report":{"program":{"state":"later"}}}"#,
        );
        assert_eq!((status.report.clone(), status.report().counts.failed), (None, 1));
    }
}
