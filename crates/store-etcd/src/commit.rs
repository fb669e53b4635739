//! Transactions in the words of etcd.

use super::Core;
use super::read::revision_of;
use super::servers::Call;
use super::wire;
use mgmt_store::{Commit, Condition, Effect, Limits, StoreError, Transaction};

const TXN: Call = Call::change("/etcdserverpb.KV/Txn");

/// What every etcd takes that is not told otherwise. It would take half a MiB more, which is left for keys.
pub(super) const LIMITS: Limits = Limits { value: 1 << 20, operations: 128 };

/// Makes all changes of a transaction, provided that its conditions hold.
pub(super) async fn commit(core: &Core, transaction: Transaction) -> Result<Commit, StoreError> {
    transaction.check(LIMITS)?;
    let Transaction { conditions, effects, otherwise } = transaction;
    let operations = |effects: Vec<Effect>| -> Result<Vec<wire::Operation>, StoreError> {
        effects.into_iter().map(|effect| operation(core, effect)).collect()
    };
    let compares: Result<Vec<wire::Compare>, StoreError> =
        conditions.into_iter().map(|condition| compare(core, condition)).collect();
    let question =
        wire::Txn { compares: compares?, success: operations(effects)?, failure: operations(otherwise)? };
    let answer: wire::TxnDone =
        core.servers.call(TXN, question).await.map_err(|failure| failure.of_change())?;
    let revision = revision_of(answer.header.as_ref()).map_err(|failure| failure.of_change())?;
    Ok(Commit { done: answer.succeeded, revision: revision.unsigned_abs() })
}

fn compare(core: &Core, condition: Condition) -> Result<wire::Compare, StoreError> {
    use wire::{Aspect, Compared, Relation};
    let (key, relation, aspect, with) = match condition {
        Condition::Missing(key) => (key, Relation::Equal, Aspect::Version, Compared::Version(0)),
        Condition::Exists(key) => (key, Relation::Greater, Aspect::Version, Compared::Version(0)),
        // A key that is not there has no value, not even an empty one, and etcd compares accordingly.
        Condition::Value(key, value) => (key, Relation::Equal, Aspect::Value, Compared::Value(value)),
        Condition::Modified(key, revision) => match possible(revision) {
            Some(revision) => (key, Relation::Equal, Aspect::Modified, Compared::Modified(revision)),
            None => never(key),
        },
        Condition::Created(key, revision) => match possible(revision) {
            Some(revision) => (key, Relation::Equal, Aspect::Created, Compared::Created(revision)),
            None => never(key),
        },
    };
    Ok(wire::Compare {
        relation: relation as i32,
        aspect: aspect as i32,
        key: core.namespace.key(&key)?,
        with: Some(with),
    })
}

/// To etcd, a key that is not there was written in revision 0. To everybody else, it was not written.
fn possible(revision: u64) -> Option<i64> {
    i64::try_from(revision).ok().filter(|revision| *revision > 0)
}

/// A condition that never holds.
fn never(key: String) -> (String, wire::Relation, wire::Aspect, wire::Compared) {
    (key, wire::Relation::Less, wire::Aspect::Version, wire::Compared::Version(0))
}

fn operation(core: &Core, effect: Effect) -> Result<wire::Operation, StoreError> {
    let kind = match effect {
        Effect::Put { key, value, lease } => wire::OperationKind::Put(wire::Put {
            key: core.namespace.key(&key)?,
            value,
            lease: lease.map_or(0, |lease| lease.0),
        }),
        Effect::Delete(key) => wire::OperationKind::Delete(wire::Delete { key: core.namespace.key(&key)? }),
    };
    Ok(wire::Operation { kind: Some(kind) })
}
