//! Maintenance: compaction, defragmentation and alarms keep the servers from growing without end.
//!
//! - **History**: what has been changed since is kept for [`ServerSettings::history`](super::ServerSettings::history) (ten
//!   minutes unless told otherwise) and then forgotten. The leading server does that by itself. Whoever follows keys and is further behind is
//!   told a whole list, so nothing but time depends on how long it is.
//! - **Room**: what is forgotten leaves holes in the file of each server. The decider has the holes closed where they are more than half of a
//!   file that is worth it, one server after the other and only while all of them are healthy, since a server says nothing
//!   meanwhile.
//! - **Quota**: a server whose file has outgrown its quota raises an alarm, and all of them refuse to write. The decider then forgets all history,
//!   closes the holes of every server, and takes the alarm back. If the keys themselves take that much, it
//!   comes back, and the log says so: somebody has to remove something or raise the quota.
//!
//! All of that may be done twice, by two who both believe to be the decider, without harm.

use std::time::Duration;

use super::observe::ClusterView;
use mgmt_store_etcd::Etcd;
use mgmt_store_etcd::cluster::{AlarmKind, ClusterError};

/// A file that is smaller than this is left as it is.
const WORTH_IT: u64 = 64 << 20;

/// Does what has to be done, if anything.
pub(super) async fn keep_up(etcd: &Etcd, sight: &ClusterView) -> Result<(), ClusterError> {
    let alarms = etcd.alarms().await?;
    if alarms.iter().any(|alarm| alarm.kind == AlarmKind::NoSpace) {
        tracing::warn!("the data of the cluster has reached its quota: making room");
        etcd.compact(sight.view.keys.revision).await?;
        // Forgetting takes a moment, and what is not forgotten yet leaves no holes.
        tokio::time::sleep(Duration::from_millis(500)).await;
        for member in sight.statuses.keys() {
            if let Some(address) = sight.address(*member) {
                etcd.defragment(address).await?;
            }
        }
        for alarm in alarms.into_iter().filter(|alarm| alarm.kind == AlarmKind::NoSpace) {
            etcd.disarm(alarm).await?;
        }
        return Ok(());
    }
    for alarm in alarms {
        if alarm.kind == AlarmKind::Corrupt {
            tracing::error!(
                "the data of the member {:x} differs from that of others: remove its host with `mgmt members remove`",
                alarm.member.0
            );
        }
    }
    if !sight.view.members.iter().all(|member| member.healthy) {
        return Ok(());
    }
    let holey = sight
        .statuses
        .iter()
        .find(|(_, status)| status.size > WORTH_IT && status.size_in_use < status.size / 2);
    if let Some((member, status)) = holey
        && let Some(address) = sight.address(*member)
    {
        tracing::info!(
            "giving room back to the disk at {address}: {} bytes",
            status.size - status.size_in_use
        );
        etcd.defragment(address).await?;
    }
    Ok(())
}
