//! Watches of the embedded store.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::broadcast::{self, error::RecvError, error::TryRecvError};

use super::{Disk, Published};
use crate::store::{Batch, Entry, Pending, Span, StoreError, Watch};

pub(super) struct Follow {
    span: Span,
    disk: Arc<Disk>,
    published: broadcast::Receiver<Arc<Published>>,
    /// The revision of which everything has been told; none before the first look, and when some of it was missed.
    told: Option<u64>,
    /// What has been received and not been told.
    open: BTreeMap<String, Option<Entry>>,
}

impl Follow {
    pub(super) fn new(span: Span, disk: Arc<Disk>, published: broadcast::Receiver<Arc<Published>>) -> Follow {
        Follow { span, disk, published, told: None, open: BTreeMap::new() }
    }

    fn whole(&mut self) -> Result<Batch, StoreError> {
        self.open.clear();
        let snapshot = self.disk.read(std::slice::from_ref(&self.span))?;
        self.told = Some(snapshot.revision);
        let changes = snapshot.entries.into_iter().map(|entry| (entry.key.clone(), Some(entry))).collect();
        Ok(Batch { revision: snapshot.revision, whole: true, changes })
    }

    /// Takes what one step has changed.
    fn take(&mut self, published: &Published) {
        if self.told.is_none_or(|told| published.revision <= told) {
            return;
        }
        self.told = Some(published.revision);
        for (key, entry) in published.changes.iter().filter(|(key, _)| self.span.contains(key)) {
            self.open.insert(key.clone(), entry.clone());
        }
    }

    async fn news(&mut self) -> Result<Batch, StoreError> {
        loop {
            let Some(revision) = self.told else { return self.whole() };
            match self.published.try_recv() {
                Ok(published) => self.take(&published),
                Err(TryRecvError::Lagged(_)) => self.told = None,
                Err(TryRecvError::Empty | TryRecvError::Closed) if !self.open.is_empty() => {
                    let changes = std::mem::take(&mut self.open).into_iter().collect();
                    return Ok(Batch { revision, whole: false, changes });
                }
                Err(TryRecvError::Closed) => return Err(StoreError::Ended),
                Err(TryRecvError::Empty) => match self.published.recv().await {
                    Ok(published) => self.take(&published),
                    Err(RecvError::Lagged(_)) => self.told = None,
                    Err(RecvError::Closed) => return Err(StoreError::Ended),
                },
            }
        }
    }
}

impl Watch for Follow {
    fn next(&mut self) -> Pending<'_, Batch> {
        Box::pin(self.news())
    }
}
