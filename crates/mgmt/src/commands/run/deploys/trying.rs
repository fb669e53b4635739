//! Crash loop detection for deploys: a record on disk of the deploy that is being tried.
//!
//! The record is written before a deploy is loaded and removed when the deploy runs or is refused. A start that finds it knows
//! that mgmt ended in the attempt, for example for lack of memory, and backs off from that deploy.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The name of the record.
const NAME: &str = "trying.json";

/// A deploy in whose attempts mgmt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CrashedDeploy {
    pub(super) id: u64,
    /// The attempts in a row that ended mgmt.
    pub(super) attempts: u32,
}

/// The record on disk, for as long as a deploy is being tried.
pub(super) struct TryingRecord(PathBuf);

impl CrashedDeploy {
    /// The deploy that an earlier run was trying when it ended. A record that cannot be read counts for nothing.
    pub(super) fn read(place: &Path) -> Option<CrashedDeploy> {
        serde_json::from_slice(&std::fs::read(place.join(NAME)).ok()?).ok()
    }
}

impl TryingRecord {
    /// Records that a deploy is being tried, after so many attempts that ended mgmt. Where nothing can be written, the deploy is
    /// tried all the same.
    pub(super) fn write(place: &Path, id: u64, crashes: u32) -> TryingRecord {
        let path = place.join(NAME);
        let record = CrashedDeploy { id, attempts: crashes.saturating_add(1) };
        let written =
            serde_json::to_vec(&record).map_err(Into::into).and_then(|text| std::fs::write(&path, text));
        if let Err(error) = written {
            tracing::debug!("cannot write {}: {error}", path.display());
        }
        TryingRecord(path)
    }
}

impl Drop for TryingRecord {
    fn drop(&mut self) {
        // A panic ends mgmt.
        if !std::thread::panicking() {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_there_while_a_deploy_is_tried_and_after_a_crash() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(CrashedDeploy::read(place.path()), None);
        let record = TryingRecord::write(place.path(), 7, 0);
        assert_eq!(CrashedDeploy::read(place.path()), Some(CrashedDeploy { id: 7, attempts: 1 }));
        drop(record);
        assert_eq!(CrashedDeploy::read(place.path()), None);
        std::mem::forget(TryingRecord::write(place.path(), 7, 1));
        assert_eq!(CrashedDeploy::read(place.path()), Some(CrashedDeploy { id: 7, attempts: 2 }));
        std::fs::write(place.path().join(NAME), "garbage").unwrap();
        assert_eq!(CrashedDeploy::read(place.path()), None);
    }
}
