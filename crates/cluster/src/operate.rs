//! Operator requests: another cluster size, and that a host serves or does not.

use super::keys::{IDENTITY, SIZE, dismissed_key, write_dismissed, write_size};
use super::{Keys, keys::PREFIX};
use mgmt_store::{Condition, Effect, Span, Store, StoreError, Transaction};

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    /// The store is somebody else's.
    #[error("the servers of this store are not run by this program")]
    Unmanaged,
    /// Nobody would be left.
    #[error("the ideal size of a cluster is at least 1")]
    NoSize,
    /// Nobody knows such a host.
    #[error("there is no host {host:?} in the cluster")]
    NoHost {
        /// What it was called.
        host: String,
    },
    /// Nobody else could serve.
    #[error("{host:?} is the only host that can serve")]
    Last {
        /// The host.
        host: String,
    },
    /// The store cannot do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Changes how many servers there shall be.
pub async fn resize(store: &dyn Store, ideal: u32) -> Result<(), OperateError> {
    if ideal == 0 {
        return Err(OperateError::NoSize);
    }
    let put = Effect::Put { key: SIZE.to_owned(), value: write_size(ideal), lease: None };
    change(store, put).await
}

/// Lets a host serve no longer. Its server is removed as soon as that is safe, and its offers are left alone from then on.
pub async fn dismiss(store: &dyn Store, host: &str, members: &[String]) -> Result<(), OperateError> {
    let keys = keys(store).await?;
    let member = members.iter().any(|member| member == host);
    if !keys.volunteers.contains_key(host) && !member {
        return Err(OperateError::NoHost { host: host.to_owned() });
    }
    let others = keys
        .volunteers
        .iter()
        .filter(|(other, offer)| *other != host && !offer.value.leaving && !keys.dismissed.contains(*other));
    if others.count() == 0 && member && members.len() == 1 {
        return Err(OperateError::Last { host: host.to_owned() });
    }
    change(store, Effect::Put { key: dismissed_key(host), value: write_dismissed(), lease: None }).await
}

/// Lets a host serve again that was dismissed. Whether it was is told.
pub async fn readmit(store: &dyn Store, host: &str) -> Result<bool, OperateError> {
    let keys = keys(store).await?;
    if !keys.dismissed.contains(host) {
        if keys.volunteers.contains_key(host) {
            return Ok(false);
        }
        return Err(OperateError::NoHost { host: host.to_owned() });
    }
    change(store, Effect::Delete(dismissed_key(host))).await?;
    Ok(true)
}

async fn keys(store: &dyn Store) -> Result<Keys, OperateError> {
    let keys = Keys::parse(&store.read(vec![Span::Prefix(PREFIX.to_owned())]).await?);
    if keys.identity.is_none() {
        return Err(OperateError::Unmanaged);
    }
    Ok(keys)
}

async fn change(store: &dyn Store, effect: Effect) -> Result<(), OperateError> {
    let transaction = Transaction {
        conditions: vec![Condition::Exists(IDENTITY.to_owned())],
        effects: vec![effect],
        ..Transaction::default()
    };
    match store.commit(transaction).await?.done {
        true => Ok(()),
        false => Err(OperateError::Unmanaged),
    }
}
