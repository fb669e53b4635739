//! Leases in the words of etcd.

use std::time::Duration;

use super::Core;
use super::failure::{Failure, plain};
use super::servers::Call;
use super::wire;
use mgmt_store::{Lease, LeaseId, StoreError};

/// One that was granted without anybody learning of it ends by itself, so asking again is no harm.
const GRANT: Call = Call::read("/etcdserverpb.Lease/LeaseGrant");
const KEEP: Call = Call::read("/etcdserverpb.Lease/LeaseKeepAlive");
const REVOKE: Call = Call::read("/etcdserverpb.Lease/LeaseRevoke");

/// Begins a lease. Etcd counts in whole seconds, and raises what is too short for its elections.
pub(super) async fn grant(core: &Core, time: Duration) -> Result<Lease, StoreError> {
    let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    let seconds = i64::try_from(whole.max(1)).unwrap_or(i64::MAX);
    let answer: wire::LeaseDone =
        core.servers.call(GRANT, wire::LeaseGrant { seconds }).await.map_err(Failure::of_read)?;
    if !answer.error.is_empty() {
        return Err(StoreError::Refused { reason: plain(&answer.error) });
    }
    if answer.id == 0 || answer.seconds < seconds {
        let reason = "etcd granted a lease that is shorter than it was asked for".to_owned();
        return Err(StoreError::Unreachable { reason });
    }
    Ok(Lease { id: LeaseId(answer.id), time: Duration::from_secs(answer.seconds.unsigned_abs()) })
}

/// Keeps a lease, and tells whether it is still there.
pub(super) async fn keep(core: &Core, lease: LeaseId) -> Result<bool, StoreError> {
    let kept: Result<wire::LeaseDone, Failure> =
        core.servers.exchange(KEEP, wire::LeaseAsk { id: lease.0 }).await;
    match kept {
        Ok(answer) => Ok(answer.seconds > 0),
        Err(Failure::Answer(answer)) if answer.is_lease_gone() => Ok(false),
        Err(failure) => Err(failure.of_read()),
    }
}

/// Ends a lease.
pub(super) async fn revoke(core: &Core, lease: LeaseId) -> Result<(), StoreError> {
    let revoked: Result<wire::Done, Failure> =
        core.servers.call(REVOKE, wire::LeaseAsk { id: lease.0 }).await;
    match revoked {
        Ok(_) => Ok(()),
        Err(Failure::Answer(answer)) if answer.is_lease_gone() => Ok(()),
        Err(failure) => Err(failure.of_read()),
    }
}
