//! Reading deploy records: one snapshot of the pointer to the newest deploy and of all records.
//!
//! A record that cannot be read, because it is damaged or because a later version has written it, affects that record alone: it
//! is listed with the reason, and the others are used.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Deploy, Newest};
use crate::keys::{self, NEWEST, SWEEP};
use crate::store::{Entry, Snapshot, Span, StoreError, Watch};
use crate::{SharedState, json};

/// A deploy record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableDeploy {
    /// Its number; none if the pointer to the newest deploy itself cannot be read.
    pub id: Option<u64>,
    /// Why it cannot be read.
    pub reason: String,
}

/// All deploys that are kept, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeployList {
    /// Those that can be read.
    pub deploys: Vec<Deploy>,
    /// Those that cannot.
    pub unreadable: Vec<UnreadableDeploy>,
}

/// What the store says about the newest deploy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewestDeploy {
    /// Nothing has been deployed.
    None,
    /// It can be read.
    Readable(Box<Deploy>),
    /// It is missing, damaged, or written by a later version.
    Unreadable(UnreadableDeploy),
}

/// One snapshot of everything that is stored about deploys, apart from their files.
pub(super) struct Records {
    pub(super) snapshot: Snapshot,
    pub(super) by_id: BTreeMap<u64, Result<Deploy, String>>,
}

impl Records {
    /// What the pointer to the newest deploy leads to.
    pub(super) fn newest(&self) -> NewestDeploy {
        let unreadable = |id, reason| NewestDeploy::Unreadable(UnreadableDeploy { id, reason });
        let Some(entry) = self.snapshot.get(NEWEST) else { return NewestDeploy::None };
        let id = match json::value(entry) {
            Ok(Newest { id }) => id,
            Err(error) => return unreadable(None, reason(error)),
        };
        match self.by_id.get(&id) {
            Some(Ok(deploy)) => NewestDeploy::Readable(Box::new(deploy.clone())),
            Some(Err(reason)) => unreadable(Some(id), reason.clone()),
            None => unreadable(Some(id), format!("`{NEWEST}` names it, and there is no such record")),
        }
    }

    /// The number that the next deploy gets: above everything that has a record or was said to be the newest. A pointer to the last
    /// number that there is leads nowhere, and does not count.
    pub(super) fn next_id(&self) -> u64 {
        let named = match self.newest() {
            NewestDeploy::None => 0,
            NewestDeploy::Readable(deploy) => deploy.id,
            NewestDeploy::Unreadable(unreadable) => unreadable.id.unwrap_or(0),
        };
        let stored = self.by_id.keys().last().copied().unwrap_or(0);
        named.max(stored).checked_add(1).unwrap_or_else(|| stored.saturating_add(1))
    }

    /// The last deploy that can be read.
    pub(super) fn last_readable(&self) -> Option<&Deploy> {
        self.by_id.values().rev().find_map(|record| record.as_ref().ok())
    }

    /// Those before the last one that can be read that cannot.
    pub(super) fn unreadable_before_last(&self) -> impl Iterator<Item = (u64, &String)> {
        let last = self.last_readable().map_or(0, |last| last.id);
        self.by_id.range(..last).filter_map(|(id, record)| Some((*id, record.as_ref().err()?)))
    }

    /// All deploys that can be read.
    pub(super) fn readable(&self) -> impl Iterator<Item = &Deploy> {
        self.by_id.values().filter_map(|record| record.as_ref().ok())
    }
}

impl SharedState {
    /// Waits for a deploy that is newer than one that is known. The watch is one of [`SharedState::watch_deploys`]. A store that is lost
    /// meanwhile is waited for; an error is the end.
    pub async fn deploy_after(&self, known: u64, watch: &mut dyn Watch) -> Result<Deploy, StoreError> {
        loop {
            match self.newest_when_reachable().await? {
                NewestDeploy::Readable(deploy) if deploy.id > known => return Ok(*deploy),
                NewestDeploy::Unreadable(UnreadableDeploy { reason, .. }) => {
                    tracing::error!("the newest deploy cannot be read: {reason}");
                }
                NewestDeploy::None | NewestDeploy::Readable(_) => {}
            }
            watch.next().await?;
        }
    }

    /// What the store says about the newest deploy, as soon as the store answers. An error is the end of the store.
    pub async fn newest_when_reachable(&self) -> Result<NewestDeploy, StoreError> {
        const MAX_DELAY: Duration = Duration::from_secs(10);
        let mut delay = Duration::from_millis(500);
        let mut reported = false;
        loop {
            match self.deploy_records().await {
                Ok(records) => return Ok(records.newest()),
                Err(StoreError::Ended) => return Err(StoreError::Ended),
                Err(error) => {
                    if !error.is_passing() && !std::mem::replace(&mut reported, true) {
                        tracing::error!("cannot read the newest deploy, retrying: {error}");
                    }
                    tokio::time::sleep(delay).await;
                    delay = (delay * 2).min(MAX_DELAY);
                }
            }
        }
    }

    /// The newest deploy. One that is missing or cannot be read is an error.
    pub async fn newest_deploy(&self) -> Result<Option<Deploy>, StoreError> {
        match self.deploy_records().await?.newest() {
            NewestDeploy::None => Ok(None),
            NewestDeploy::Readable(deploy) => Ok(Some(*deploy)),
            NewestDeploy::Unreadable(UnreadableDeploy { id, reason }) => Err(StoreError::Corrupt {
                what: match id {
                    Some(id) => format!("deploy {id}, the newest one,"),
                    None => "the number of the newest deploy".to_owned(),
                },
                reason,
            }),
        }
    }

    /// One deploy.
    pub async fn deploy(&self, id: u64) -> Result<Option<Deploy>, StoreError> {
        let key = keys::deploy(id);
        let found = self.store().read(vec![Span::Key(key.clone())]).await?;
        found.get(&key).map(json::value).transpose()
    }

    /// All deploys that are kept.
    pub async fn deploys(&self) -> Result<DeployList, StoreError> {
        let records = self.deploy_records().await?;
        let mut list = DeployList::default();
        for (id, record) in &records.by_id {
            match record {
                Ok(deploy) => list.deploys.push(deploy.clone()),
                Err(reason) => {
                    list.unreadable.push(UnreadableDeploy { id: Some(*id), reason: reason.clone() });
                }
            }
        }
        if let NewestDeploy::Unreadable(newest) = records.newest()
            && !list.unreadable.iter().any(|unreadable| unreadable.id == newest.id)
        {
            list.unreadable.push(newest);
        }
        Ok(list)
    }

    /// Reads everything that is stored about deploys, as it is at one moment.
    pub(super) async fn deploy_records(&self) -> Result<Records, StoreError> {
        let key = |key: &str| Span::Key(key.to_owned());
        let spans = vec![key(NEWEST), key(SWEEP), Span::Prefix(keys::DEPLOYS.to_owned())];
        let snapshot = self.store().read(spans).await?;
        let number = |entry: &Entry| entry.key.strip_prefix(keys::DEPLOYS)?.parse::<u64>().ok();
        let records = snapshot.below(keys::DEPLOYS).filter_map(|entry| Some((number(entry)?, entry)));
        let by_id = records.map(|(id, entry)| (id, record(id, entry))).collect();
        Ok(Records { snapshot, by_id })
    }
}

fn record(id: u64, entry: &Entry) -> Result<Deploy, String> {
    let deploy: Deploy = json::value(entry).map_err(reason)?;
    match deploy.id == id {
        true => Ok(deploy),
        false => Err(format!("it holds the record of deploy {}", deploy.id)),
    }
}

fn reason(error: StoreError) -> String {
    match error {
        StoreError::Corrupt { reason, .. } => reason,
        other => other.to_string(),
    }
}
