//! Programs that were given to all hosts.
//!
//! A deploy is a record with a number, one more than that of the one before, and files. Only the newest one is run; the
//! last few are kept, so that one can go back. Files are cut into chunks, and a chunk is stored under the digest of what is
//! in it, so what did not change is not stored again.
//!
//! Chunks that no deploy needs any more are swept out. Somebody who is about to deploy may count on a chunk that is being
//! swept out at that moment; so each sweep is announced by a number that only grows, odd while one goes on. A deploy is
//! only stored if no sweep has begun or ended since its chunks were looked for, and a sweep only removes something as long
//! as its number stands.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::keys::{self, NEWEST, SWEEP};
use crate::seal::{Seal, Signer};
use crate::store::{Condition, Effect, Entry, Snapshot, Span, StoreError, Transaction, Watch};
use crate::tree::{self, Blob, Manifest, Tree};
use crate::{World, json};

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Seal>,
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
    /// The commit before it, which has to be the one that was deployed before. The first commit has none.
    pub previous: Option<String>,
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
    /// Some other commit was deployed before.
    #[error("expected the commit {expected} to be deployed, found {found}")]
    NotPrevious {
        /// The commit that comes before the one to be deployed.
        expected: String,
        /// The one that is deployed.
        found: String,
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
    signer: Option<&'a Signer>,
}

/// How many deploys are kept.
const KEPT: u64 = 16;

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

impl World {
    /// Follows the newest deploy.
    pub fn watch_deploys(&self) -> Box<dyn Watch> {
        self.store().watch(Span::Key(NEWEST.to_owned()))
    }

    /// Waits for a deploy that is newer than one that is known. The watch is one of [`World::watch_deploys`]. A store that is lost
    /// meanwhile is waited for; an error is the end.
    pub async fn deploy_after(&self, known: u64, watch: &mut dyn Watch) -> Result<Deploy, StoreError> {
        const AGAIN: Duration = Duration::from_millis(500);
        loop {
            match self.newest_deploy().await {
                Ok(Some(deploy)) if deploy.id > known => return Ok(deploy),
                Ok(_) => drop(watch.next().await?),
                // What the watch has told is not told again.
                Err(error) if error.is_passing() => tokio::time::sleep(AGAIN).await,
                Err(StoreError::Ended) => return Err(StoreError::Ended),
                Err(error) => {
                    tracing::error!("the newest deploy cannot be read: {error}");
                    watch.next().await?;
                }
            }
        }
    }

    /// The newest deploy.
    pub async fn newest_deploy(&self) -> Result<Option<Deploy>, StoreError> {
        loop {
            let found = self.store().read(vec![Span::Key(NEWEST.to_owned())]).await?;
            let Some(entry) = found.get(NEWEST) else { return Ok(None) };
            let Newest { id } = json::value(entry)?;
            if let Some(deploy) = self.deploy(id).await? {
                return Ok(Some(deploy));
            }
            // So many others have come in between that it is gone already.
            tokio::task::yield_now().await;
        }
    }

    /// One deploy.
    pub async fn deploy(&self, id: u64) -> Result<Option<Deploy>, StoreError> {
        let key = keys::deploy(id);
        let found = self.store().read(vec![Span::Key(key.clone())]).await?;
        found.get(&key).map(json::value).transpose()
    }

    /// All deploys that are kept, the oldest first.
    pub async fn deploys(&self) -> Result<Vec<Deploy>, StoreError> {
        let found = self.store().read(vec![Span::Prefix(keys::DEPLOYS.to_owned())]).await?;
        found.entries.iter().map(json::value).collect()
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
        signer: Option<&Signer>,
    ) -> Result<Deploy, DeployError> {
        let cut = files.cut(self.store().limits()).map_err(DeployError::Files)?;
        let draft = Draft { program, files: &cut.blob, commits, repeats: None, signer };
        self.publish(&draft, Some(&cut.chunks)).await
    }

    /// Gives a program that was deployed before to all hosts again. What is to be signed has to be signed already, by the same
    /// key: nobody has looked at what it is.
    pub async fn repeat_deploy(&self, id: u64, signer: Option<&Signer>) -> Result<Deploy, DeployError> {
        let old = self.deploy(id).await?.ok_or(DeployError::Missing { id })?;
        if signer.is_some_and(|signer| !signer.has_signed(&old)) {
            return Err(DeployError::NotSigned { id });
        }
        let commits = &Commits { hash: old.hash.clone(), previous: None, forced: true };
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
            let before = store.read(vec![Span::Key(NEWEST.to_owned()), Span::Key(SWEEP.to_owned())]).await?;
            let newest = self.newest_deploy().await?;
            let id = newest.as_ref().map_or(1, |newest| newest.id + 1);
            fits(commits, newest.as_ref())?;
            match chunks {
                Some(chunks) => self.store_chunks(chunks, newest.as_ref()).await?,
                // What is repeated has to be there still.
                None => drop(tree::fetch(store, files).await?),
            }
            let seal =
                signer.map(|signer| signer.seal(program, commits.hash.as_ref(), files, newest.as_ref()));
            let deploy = Deploy {
                id,
                program: program.clone(),
                hash: commits.hash.clone(),
                chain: commits.hash.clone().or_else(|| newest.and_then(|newest| newest.chain)),
                repeats,
                by: self.host().to_text().into_owned(),
                at: std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .map_or(0, |since| since.as_secs()),
                files: files.clone(),
                seal,
            };
            let key = keys::deploy(id);
            let mut conditions = vec![Condition::Missing(key.clone()), as_it_was(&before, NEWEST)];
            conditions.push(as_it_was(&before, SWEEP));
            let mut effects =
                vec![put(&key, json::stored(&deploy)?), put(NEWEST, json::stored(&Newest { id })?)];
            let number = sweep(&before)?;
            if number % 2 == 1 {
                // Whoever sweeps is told to stop.
                effects.push(put(SWEEP, json::stored(&Sweep { number: number + 1 })?));
            }
            if store.commit(Transaction { conditions, effects, otherwise: Vec::new() }).await?.done {
                if let Err(error) = self.prune(id).await {
                    tracing::warn!("old deploys could not be removed: {error}");
                }
                return Ok(deploy);
            }
        }
        Err(DeployError::Raced)
    }

    /// Stores chunks that are not there already.
    async fn store_chunks(
        &self,
        chunks: &HashMap<String, Vec<u8>>,
        newest: Option<&Deploy>,
    ) -> Result<(), StoreError> {
        let there = match newest {
            Some(newest) => tree::manifest(&**self.store(), &newest.files).await?.chunks(&newest.files),
            None => BTreeSet::new(),
        };
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

    /// Removes deploys that are too old, and the chunks that only they need.
    async fn prune(&self, newest: u64) -> Result<(), StoreError> {
        let store = &**self.store();
        let mut old = self.deploys().await?;
        old.retain(|deploy| deploy.id + KEPT <= newest);
        if old.is_empty() {
            return Ok(());
        }
        let before = store.read(vec![Span::Key(SWEEP.to_owned())]).await?;
        let begun = sweep(&before)? / 2 * 2 + 1;
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
        let mut needed = BTreeSet::new();
        for deploy in self.deploys().await?.iter().filter(|deploy| deploy.id + KEPT > newest) {
            needed.extend(tree::manifest(store, &deploy.files).await?.chunks(&deploy.files));
        }
        let mut gone: Vec<Effect> = Vec::new();
        for deploy in &old {
            // One whose files cannot be understood any more is removed alone.
            if let Ok(manifest) = tree::manifest(store, &deploy.files).await {
                let chunks = manifest.chunks(&deploy.files);
                gone.extend(chunks.difference(&needed).map(|chunk| Effect::Delete(keys::chunk(chunk))));
            }
        }
        gone.sort_unstable_by(|one, other| one.key().cmp(other.key()));
        gone.dedup_by(|one, other| one.key() == other.key());
        // The records go first: a record without files would be worse than files without a record.
        let records = old.iter().map(|deploy| Effect::Delete(keys::deploy(deploy.id)));
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
}

/// Whether a deploy may follow the newest one.
fn fits(commits: &Commits, newest: Option<&Deploy>) -> Result<(), DeployError> {
    let (Some(hash), Some(newest), false) = (&commits.hash, newest, commits.forced) else { return Ok(()) };
    if newest.hash.as_ref() == Some(hash) {
        return Err(DeployError::Same { hash: hash.clone(), id: newest.id });
    }
    match (&commits.previous, &newest.chain) {
        (Some(expected), Some(found)) if expected != found => {
            Err(DeployError::NotPrevious { expected: expected.clone(), found: found.clone() })
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

fn sweep(snapshot: &Snapshot) -> Result<u64, StoreError> {
    let number = |entry: &Entry| json::value(entry).map(|sweep: Sweep| sweep.number);
    snapshot.get(SWEEP).map_or(Ok(0), number)
}

impl Manifest {
    /// The digests of all chunks, those of the list of files included.
    fn chunks(&self, files: &Blob) -> BTreeSet<String> {
        let of_files = self.files.values().flat_map(|file| &file.blob.chunks);
        of_files.chain(&files.chunks).cloned().collect()
    }
}
