//! Writer thread: the one thread that changes the embedded store.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::{broadcast, oneshot};

use super::disk::{Disk, Step};
use super::{LIMITS, Published};
use crate::store::{Commit, Condition, Effect, Entry, Lease, LeaseId, StoreError, Transaction};

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the thread is asked to do.
pub(super) enum Request {
    Commit(Transaction, Answer<Commit>),
    Grant(Duration, Answer<Lease>),
    Keep(LeaseId, Answer<bool>),
    Revoke(LeaseId, Answer<()>),
}

pub(super) struct Writer {
    disk: Arc<Disk>,
    published: broadcast::Sender<Arc<Published>>,
    leases: HashMap<LeaseId, Held>,
    /// The last lease that was given. They begin anew with every start; keys of earlier ones are gone with them.
    last: i64,
}

/// A lease that somebody holds.
struct Held {
    time: Duration,
    until: Instant,
    keys: BTreeSet<String>,
}

/// An answer that can be given once the disk has taken the step.
enum Ready {
    Commit(Answer<Commit>, Result<Commit, StoreError>),
    Revoked(Answer<()>),
}

/// The most requests that go into one step.
const AT_ONCE: usize = 256;

/// Nobody can hold a lease for longer without keeping it.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

impl Writer {
    pub(super) fn new(disk: Arc<Disk>, published: broadcast::Sender<Arc<Published>>) -> Writer {
        Writer { disk, published, leases: HashMap::new(), last: 0 }
    }

    /// Works until nobody can ask any more.
    pub(super) fn run(mut self, requests: &Receiver<Request>) {
        loop {
            let first = match self.leases.values().map(|held| held.until).min() {
                Some(until) => match requests.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(request) => Some(request),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                },
                None => match requests.recv() {
                    Ok(request) => Some(request),
                    Err(_) => return,
                },
            };
            let mut commits = Vec::new();
            let mut gone = self.expired();
            let mut revoked = Vec::new();
            let mut size = 0;
            for request in first.into_iter().chain(requests.try_iter()) {
                match request {
                    Request::Commit(transaction, answer) => {
                        size += bytes(&transaction);
                        commits.push((transaction, answer));
                    }
                    Request::Grant(time, answer) => {
                        // Whoever does not wait for the answer does not hold the lease.
                        let _ = answer.send(Ok(self.grant(time)));
                    }
                    Request::Keep(lease, answer) => {
                        let _ = answer.send(Ok(self.keep(lease)));
                    }
                    Request::Revoke(lease, answer) => {
                        gone.extend(self.leases.remove(&lease).into_iter().flat_map(|held| held.keys));
                        revoked.push(answer);
                    }
                }
                if commits.len() >= AT_ONCE || size >= LIMITS.value {
                    break;
                }
            }
            if !(commits.is_empty() && gone.is_empty() && revoked.is_empty()) {
                self.step(commits, gone, revoked);
            }
        }
    }

    fn grant(&mut self, time: Duration) -> Lease {
        let time = time.clamp(Duration::from_millis(10), LONGEST);
        self.last += 1;
        let id = LeaseId(self.last);
        self.leases.insert(id, Held { time, until: Instant::now() + time, keys: BTreeSet::new() });
        Lease { id, time }
    }

    fn keep(&mut self, lease: LeaseId) -> bool {
        let Some(held) = self.leases.get_mut(&lease) else { return false };
        held.until = Instant::now() + held.time;
        true
    }

    /// Ends the leases whose time is over, and tells which keys go with them.
    fn expired(&mut self) -> Vec<String> {
        let now = Instant::now();
        self.leases.extract_if(|_, held| held.until <= now).flat_map(|(_, held)| held.keys).collect()
    }

    /// Does one step: first what goes with leases, then all transactions, each as if it were alone.
    fn step(
        &mut self,
        commits: Vec<(Transaction, Answer<Commit>)>,
        gone: Vec<String>,
        revoked: Vec<Answer<()>>,
    ) {
        let mut published = Vec::new();
        let mut bindings = Vec::new();
        let mut ready: Vec<Ready> = revoked.into_iter().map(Ready::Revoked).collect();
        let leases = &self.leases;
        let done = self.disk.change(|step| {
            let mut revision = step.revision();
            if !gone.is_empty() {
                revision += 1;
                let mut changes = Vec::new();
                for key in &gone {
                    step.delete(key)?;
                    changes.push((key.clone(), None));
                }
                published.push(Published { revision, changes });
            }
            for (transaction, answer) in commits {
                let outcome = apply(step, transaction, &mut revision, leases, &mut bindings, &mut published);
                // Trouble with the disk concerns everyone; trouble with one transaction does not.
                if let Err(error @ (StoreError::Unreachable { .. } | StoreError::Corrupt { .. })) = outcome {
                    ready.push(Ready::Commit(answer, Err(error.clone())));
                    return Err(error);
                }
                ready.push(Ready::Commit(answer, outcome));
            }
            step.set_revision(revision);
            Ok(())
        });
        match done {
            Ok(()) => {
                for (key, lease) in bindings {
                    self.bind(key, lease);
                }
                for published in published {
                    // Nobody may be following.
                    let _ = self.published.send(Arc::new(published));
                }
                for ready in ready {
                    match ready {
                        Ready::Commit(answer, outcome) => drop(answer.send(outcome)),
                        Ready::Revoked(answer) => drop(answer.send(Ok(()))),
                    }
                }
            }
            Err(error) => {
                tracing::error!("{error}");
                if !gone.is_empty() {
                    // They are removed as soon as the disk works again.
                    let held = Held {
                        time: Duration::ZERO,
                        until: Instant::now() + RETRY,
                        keys: gone.into_iter().collect(),
                    };
                    self.last += 1;
                    self.leases.insert(LeaseId(self.last), held);
                }
                for ready in ready {
                    match ready {
                        Ready::Commit(answer, _) => drop(answer.send(Err(error.clone()))),
                        Ready::Revoked(answer) => drop(answer.send(Err(error.clone()))),
                    }
                }
            }
        }
    }

    /// Remembers which lease a key goes with from now on.
    fn bind(&mut self, key: String, lease: Option<LeaseId>) {
        for held in self.leases.values_mut() {
            held.keys.remove(&key);
        }
        if let Some(held) = lease.and_then(|lease| self.leases.get_mut(&lease)) {
            held.keys.insert(key);
        }
    }
}

/// How long to wait for a disk that has failed.
const RETRY: Duration = Duration::from_secs(1);

fn bytes(transaction: &Transaction) -> usize {
    let size = |effect: &Effect| if let Effect::Put { value, .. } = effect { value.len() } else { 0 };
    transaction.effects.iter().chain(&transaction.otherwise).map(size).sum()
}

fn apply(
    step: &mut Step<'_>,
    transaction: Transaction,
    revision: &mut u64,
    leases: &HashMap<LeaseId, Held>,
    bindings: &mut Vec<(String, Option<LeaseId>)>,
    published: &mut Vec<Published>,
) -> Result<Commit, StoreError> {
    let mut done = true;
    for condition in &transaction.conditions {
        done = done && holds(step, condition)?;
    }
    let effects = if done { transaction.effects } else { transaction.otherwise };
    let ended = |effect: &Effect| match effect {
        Effect::Put { lease: Some(lease), .. } => !leases.contains_key(lease),
        _ => false,
    };
    if effects.iter().any(ended) {
        return Err(StoreError::LeaseEnded);
    }
    let next = *revision + 1;
    let mut changes = Vec::new();
    for effect in effects {
        match effect {
            Effect::Put { key, value, lease } => {
                let created = step.get(&key)?.map_or(next, |entry| entry.created);
                let entry = Entry { key: key.clone(), value, created, modified: next, lease };
                step.put(entry.clone())?;
                bindings.push((key.clone(), lease));
                changes.push((key, Some(entry)));
            }
            Effect::Delete(key) => {
                if step.get(&key)?.is_some() {
                    step.delete(&key)?;
                    bindings.push((key.clone(), None));
                    changes.push((key, None));
                }
            }
        }
    }
    if !changes.is_empty() {
        *revision = next;
        published.push(Published { revision: next, changes });
    }
    Ok(Commit { done, revision: *revision })
}

fn holds(step: &Step<'_>, condition: &Condition) -> Result<bool, StoreError> {
    let entry = step.get(condition.key())?;
    Ok(match condition {
        Condition::Missing(_) => entry.is_none(),
        Condition::Exists(_) => entry.is_some(),
        Condition::Value(_, value) => entry.is_some_and(|entry| entry.value == *value),
        Condition::Modified(_, revision) => entry.is_some_and(|entry| entry.modified == *revision),
        Condition::Created(_, revision) => entry.is_some_and(|entry| entry.created == *revision),
    })
}
