//! Deploys: programs that were given to all hosts.
//!
//! A deploy is a record with a number, one more than that of the one before, and files. Only the newest one is run; the
//! last few are kept, so that one can go back. Files are cut into chunks, and a chunk is stored under the digest of what is
//! in it, so what did not change is not stored again.
//!
//! Chunks that no deploy needs any more are swept out. Somebody who is about to deploy may count on a chunk that is being
//! swept out at that moment; so each sweep is announced by a number that only grows, odd while one goes on. A deploy is
//! only stored if no sweep has begun or ended since its chunks were looked for, and a sweep only removes something as long
//! as its number stands.

mod records;

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::keys::{self, NEWEST, SWEEP};
use crate::signature::{DeploySigner, Signature, SignedContent};
use crate::store::{Condition, Effect, Snapshot, Span, StoreError, Transaction, Watch};
use crate::tree::{self, Blob, Manifest, Tree};
use crate::{SharedState, json};
use records::Records;

pub use records::{DeployList, NewestDeploy, UnreadableDeploy};

/// A program that was given to all hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deploy {
    /// Its number. The first one is 1.
    pub id: u64,
    /// What it is.
    #[serde(flatten)]
    pub program: Program,
    /// The commit that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The commit of this deploy, or of the last one before it that had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// The deploy that this one repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u64>,
    /// The host that it was made on.
    pub by: String,
    /// When it was made, in seconds since 1970, by the clock of that host.
    pub at: u64,
    /// Where its files are.
    pub files: Blob,
    /// The signature of whoever has made it.
    #[serde(rename = "seal", default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
}

/// How a program is to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Which front-end understands it: `lang`, `yaml`, or `empty`.
    pub frontend: String,
    /// The file that it begins with, or the directory, by its path among its files. Empty for all of them.
    pub entry: String,
    /// Change nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub noop: bool,
    /// How many resources may run at once; no limit if it is not positive.
    #[serde(default)]
    pub sema: i64,
    /// Find no edges.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_autoedges: bool,
    /// Group nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_autogroup: bool,
}

/// The place of a deploy in the history of what it was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commits {
    /// The commit that is deployed.
    pub hash: Option<String>,
    /// The deployed commit that it was compared with and follows. Nothing, if none was found to be deployed.
    pub follows: Option<String>,
    /// Whatever was deployed before.
    pub forced: bool,
}

/// Why a deploy was not made.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The store could not do its work.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The newest deploy is of this commit already.
    #[error("the commit {hash} is deployed already, as number {id}")]
    Same {
        /// Which commit.
        hash: String,
        /// As which deploy.
        id: u64,
    },
    /// Another commit is deployed than the one that this was compared with: compare it with that one, and try again.
    #[error("the commit {found} has been deployed meanwhile, as number {id}")]
    OtherCommit {
        /// The one that is deployed.
        found: String,
        /// By this deploy or one before it.
        id: u64,
    },
    /// There is no such deploy.
    #[error("there is no deploy {id}")]
    Missing {
        /// Which.
        id: u64,
    },
    /// The deploy that is to be repeated and signed is not one that the same key has signed.
    #[error("deploy {id} is not signed with this key, so it cannot be signed again unseen")]
    NotSigned {
        /// Which.
        id: u64,
    },
    /// Somebody else was faster, again and again.
    #[error("others deploy at the same time; try again")]
    Raced,
    /// The files cannot be stored.
    #[error("{0}")]
    Files(String),
}

/// What is about to be deployed.
struct Draft<'a> {
    program: &'a Program,
    files: &'a Blob,
    commits: &'a Commits,
    repeats: Option<u64>,
    signer: Option<&'a dyn DeploySigner>,
}

/// How many deploys are kept.
const KEPT: usize = 16;

/// How often a deploy is tried when others deploy at the same time.
const ATTEMPTS: u32 = 32;

#[derive(Serialize, Deserialize)]
struct Newest {
    id: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Sweep {
    number: u64,
}

impl SharedState {
    /// Follows which deploy is the newest, and the records of all: one that cannot be read may be repaired.
    pub fn watch_deploys(&self) -> Box<dyn Watch> {
        self.store().watch(Span::Prefix(keys::DEPLOY.to_owned()))
    }

    /// The files of a deploy.
    pub async fn deployed_files(&self, deploy: &Deploy) -> Result<Tree, StoreError> {
        tree::fetch(&**self.store(), &deploy.files).await
    }

    /// Gives a program to all hosts, signed or not.
    pub async fn add_deploy(
        &self,
        program: &Program,
        files: &Tree,
        commits: &Commits,
        signer: Option<&dyn DeploySigner>,
    ) -> Result<Deploy, DeployError> {
        let cut = files.cut(self.store().limits()).map_err(DeployError::Files)?;
        let draft = Draft { program, files: &cut.blob, commits, repeats: None, signer };
        self.publish(&draft, Some(&cut.chunks)).await
    }

    /// Gives a program that was deployed before to all hosts again. What is to be signed has to be signed already, by the same
    /// key: nobody has looked at what it is.
    pub async fn repeat_deploy(
        &self,
        id: u64,
        signer: Option<&dyn DeploySigner>,
    ) -> Result<Deploy, DeployError> {
        let old = self.deploy(id).await?.ok_or(DeployError::Missing { id })?;
        if signer.is_some_and(|signer| !signer.has_signed(&old)) {
            return Err(DeployError::NotSigned { id });
        }
        let commits = &Commits { hash: old.hash.clone(), follows: None, forced: true };
        let draft = Draft { program: &old.program, files: &old.files, commits, repeats: Some(id), signer };
        self.publish(&draft, None).await
    }

    /// Stores chunks and the record, and sweeps out what is not needed any more.
    async fn publish(
        &self,
        draft: &Draft<'_>,
        chunks: Option<&HashMap<String, Vec<u8>>>,
    ) -> Result<Deploy, DeployError> {
        let Draft { program, files, commits, repeats, signer } = *draft;
        let store = &**self.store();
        for _ in 0..ATTEMPTS {
            let records = self.deploy_records().await?;
            let (before, id) = (&records.snapshot, records.next_id());
            let last = records.last_readable();
            if let NewestDeploy::Unreadable(UnreadableDeploy { reason, .. }) = records.newest() {
                tracing::warn!("the newest deploy cannot be read, and is replaced by deploy {id}: {reason}");
            }
            for (id, reason) in records.unreadable_before_last() {
                tracing::warn!(
                    "deploy {id} cannot be read, and old deploys are not removed before it is old itself: {reason}"
                );
            }
            fits(commits, last)?;
            match chunks {
                Some(chunks) => self.store_chunks(chunks).await?,
                // What is repeated has to be there still.
                None => drop(tree::fetch(store, files).await?),
            }
            let content = SignedContent { program, hash: commits.hash.as_ref(), files };
            let signature = signer.map(|signer| signer.sign(content, id, &mut records.readable()));
            let deploy = Deploy {
                id,
                program: program.clone(),
                hash: commits.hash.clone(),
                chain: commits.hash.clone().or_else(|| last.and_then(|last| last.chain.clone())),
                repeats,
                by: self.host().to_text().into_owned(),
                at: std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .map_or(0, |since| since.as_secs()),
                files: files.clone(),
                signature,
            };
            let key = keys::deploy(id);
            let mut conditions = vec![Condition::Missing(key.clone()), as_it_was(before, NEWEST)];
            conditions.push(as_it_was(before, SWEEP));
            let mut effects =
                vec![put(&key, json::stored(&deploy)?), put(NEWEST, json::stored(&Newest { id })?)];
            let number = sweep(before);
            if number % 2 == 1 {
                // Whoever sweeps is told to stop.
                effects.push(put(SWEEP, json::stored(&Sweep { number: number + 1 })?));
            }
            if store.commit(Transaction { conditions, effects, otherwise: Vec::new() }).await?.done {
                if let Err(error) = self.prune().await {
                    tracing::warn!("old deploys could not be removed: {error}");
                }
                return Ok(deploy);
            }
        }
        Err(DeployError::Raced)
    }

    /// Stores chunks that are not there already. What other deploys say of them is not trusted: a chunk that they share may be
    /// missing or damaged.
    async fn store_chunks(&self, chunks: &HashMap<String, Vec<u8>>) -> Result<(), StoreError> {
        let there = tree::intact(&**self.store(), chunks.keys()).await?;
        let limits = self.store().limits();
        let mut batch = Vec::new();
        let mut size = 0;
        for (digest, bytes) in chunks.iter().filter(|(digest, _)| !there.contains(digest.as_str())) {
            if !batch.is_empty() && (batch.len() >= limits.operations || size + bytes.len() > limits.value) {
                self.put_all(std::mem::take(&mut batch)).await?;
                size = 0;
            }
            size += bytes.len();
            batch.push(put(&keys::chunk(digest), bytes.clone()));
        }
        self.put_all(batch).await
    }

    async fn put_all(&self, effects: Vec<Effect>) -> Result<(), StoreError> {
        if !effects.is_empty() {
            self.store().commit(Transaction { effects, ..Transaction::default() }).await?;
        }
        Ok(())
    }

    /// Removes deploys that are too old, and the chunks that only they need. Where the chunks of a deploy that is kept are not
    /// known, because its record cannot be read, old deploys stay until it is old itself. Records are counted, because numbers can
    /// have gaps: a pointer that leads nowhere has the next deploy take a number above it.
    async fn prune(&self) -> Result<(), StoreError> {
        let store = &**self.store();
        let all = self.deploy_records().await?.by_id;
        let Some(oldest_kept) = all.keys().rev().nth(KEPT - 1).copied() else { return Ok(()) };
        let is_old = |id: u64| id < oldest_kept;
        let mut old: Vec<_> = all.into_iter().filter(|(id, _)| is_old(*id)).collect();
        if old.is_empty() {
            return Ok(());
        }
        let before = store.read(vec![Span::Key(SWEEP.to_owned())]).await?;
        let begun = sweep(&before) / 2 * 2 + 1;
        let own = json::stored(&Sweep { number: begun })?;
        let begin = Transaction {
            conditions: vec![as_it_was(&before, SWEEP)],
            effects: vec![put(SWEEP, own.clone())],
            otherwise: Vec::new(),
        };
        if !store.commit(begin).await?.done {
            return Ok(());
        }
        // Read again: what was stored before the sweep was announced is needed too.
        let mut gone: Vec<Effect> = Vec::new();
        let needed = self.needed_chunks(&self.deploy_records().await?, &is_old).await?;
        old.retain(|(_, record)| needed.is_some() || record.is_err());
        if let Some(needed) = needed {
            for deploy in old.iter().filter_map(|(_, record)| record.as_ref().ok()) {
                // One whose files cannot be understood any more is removed alone.
                if let Ok(manifest) = tree::manifest(store, &deploy.files).await {
                    let chunks = manifest.chunks(&deploy.files);
                    gone.extend(chunks.difference(&needed).map(|chunk| Effect::Delete(keys::chunk(chunk))));
                }
            }
        }
        gone.sort_unstable_by(|one, other| one.key().cmp(other.key()));
        gone.dedup_by(|one, other| one.key() == other.key());
        // The records go first: a record without files would be worse than files without a record.
        let records = old.iter().map(|(id, _)| Effect::Delete(keys::deploy(*id)));
        let all: Vec<Effect> = records.chain(gone).collect();
        let standing = || vec![Condition::Value(SWEEP.to_owned(), own.clone())];
        for some in all.chunks(store.limits().operations.min(100)) {
            let step = Transaction { conditions: standing(), effects: some.to_vec(), otherwise: Vec::new() };
            if !store.commit(step).await?.done {
                return Ok(());
            }
        }
        let end = put(SWEEP, json::stored(&Sweep { number: begun + 1 })?);
        store
            .commit(Transaction { conditions: standing(), effects: vec![end], otherwise: Vec::new() })
            .await?;
        Ok(())
    }

    /// The chunks of all deploys that are not old; nothing if that cannot be known.
    async fn needed_chunks(
        &self,
        records: &Records,
        is_old: &(impl Fn(u64) -> bool + Sync),
    ) -> Result<Option<BTreeSet<String>>, StoreError> {
        let mut needed = BTreeSet::new();
        for (id, record) in records.by_id.iter().filter(|(id, _)| !is_old(**id)) {
            let Ok(deploy) = record else {
                tracing::warn!("deploy {id} cannot be read, so old deploys are not removed yet");
                return Ok(None);
            };
            match tree::manifest(&**self.store(), &deploy.files).await {
                Ok(manifest) => needed.extend(manifest.chunks(&deploy.files)),
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => {
                    tracing::warn!(
                        "the files of deploy {id} cannot be read, so old deploys are not removed yet: {error}"
                    );
                    return Ok(None);
                }
            }
        }
        Ok(Some(needed))
    }
}

/// Whether a deploy may follow the last one.
fn fits(commits: &Commits, last: Option<&Deploy>) -> Result<(), DeployError> {
    let (Some(hash), Some(last), false) = (&commits.hash, last, commits.forced) else { return Ok(()) };
    if last.hash.as_ref() == Some(hash) {
        return Err(DeployError::Same { hash: hash.clone(), id: last.id });
    }
    match &last.chain {
        Some(found) if commits.follows.as_ref() != Some(found) => {
            Err(DeployError::OtherCommit { found: found.clone(), id: last.id })
        }
        _ => Ok(()),
    }
}

fn put(key: &str, value: Vec<u8>) -> Effect {
    Effect::Put { key: key.to_owned(), value, lease: None }
}

/// Nobody has changed a key since it was looked at.
fn as_it_was(snapshot: &Snapshot, key: &str) -> Condition {
    match snapshot.get(key) {
        Some(entry) => Condition::Modified(key.to_owned(), entry.modified),
        None => Condition::Missing(key.to_owned()),
    }
}

/// The number of the last sweep. One that cannot be read is taken for one that goes on and is told to stop, with a number
/// that no sweep has had: revisions of the store grow faster than sweeps.
fn sweep(snapshot: &Snapshot) -> u64 {
    let Some(entry) = snapshot.get(SWEEP) else { return 0 };
    json::value(entry).map_or(snapshot.revision.saturating_mul(2) | 1, |sweep: Sweep| sweep.number)
}

impl Manifest {
    /// The digests of all chunks, those of the list of files included.
    fn chunks(&self, files: &Blob) -> BTreeSet<String> {
        let of_files = self.files.values().flat_map(|file| &file.blob.chunks);
        of_files.chain(&files.chunks).cloned().collect()
    }
}
