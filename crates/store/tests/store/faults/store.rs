//! A store for many hosts in one process, on a clock that is advanced, with connections that fail in all the ways in which real
//! ones do. It is simple enough to be believed: one map, one number that counts changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use mgmt_store::{
    Batch, Commit, Condition, Effect, Entry, Lease, LeaseId, Limits, Pending, Snapshot, Span, Store,
    StoreError, Transaction, Watch,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use mgmt_test_support::random::Random;

/// What all hosts share.
pub(crate) struct Center {
    core: Mutex<Core>,
    revision: watch::Sender<u64>,
}

#[derive(Default)]
struct Core {
    revision: u64,
    entries: BTreeMap<String, Entry>,
    leases: BTreeMap<LeaseId, (Duration, Instant)>,
    leases_given: i64,
    /// Everything that ever happened.
    log: Vec<Change>,
}

/// A change of a key.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) at: Instant,
    pub(crate) revision: u64,
    pub(crate) key: String,
    pub(crate) entry: Option<Entry>,
}

impl Center {
    pub(crate) fn new() -> Arc<Center> {
        let center = Arc::new(Center { core: Mutex::default(), revision: watch::Sender::new(0) });
        let weak = Arc::downgrade(&center);
        tokio::spawn(async move {
            while let Some(center) = weak.upgrade() {
                center.expire();
                drop(center);
                sleep(Duration::from_millis(20)).await;
            }
        });
        center
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap()
    }

    /// All that ever happened.
    pub(crate) fn log(&self) -> Vec<Change> {
        self.core().log.clone()
    }

    fn expire(&self) {
        let now = Instant::now();
        let mut core = self.core();
        let over: Vec<LeaseId> =
            core.leases.iter().filter(|(_, (_, until))| *until <= now).map(|(lease, _)| *lease).collect();
        for lease in over {
            core.end(lease);
        }
        self.tell(core);
    }

    fn tell(&self, core: MutexGuard<'_, Core>) {
        let revision = core.revision;
        drop(core);
        self.revision.send_if_modified(|known| std::mem::replace(known, revision) != revision);
    }

    fn read(&self, spans: &[Span]) -> Snapshot {
        let core = self.core();
        let wanted = core.entries.values().filter(|entry| spans.iter().any(|span| span.contains(&entry.key)));
        Snapshot { revision: core.revision, entries: wanted.cloned().collect() }
    }

    fn commit(&self, transaction: &Transaction) -> Result<Commit, StoreError> {
        let mut core = self.core();
        let done = transaction.conditions.iter().all(|condition| core.holds(condition));
        let effects = if done { &transaction.effects } else { &transaction.otherwise };
        let lost = |effect: &Effect| matches!(effect, Effect::Put { lease: Some(lease), .. } if !core.leases.contains_key(lease));
        if effects.iter().any(lost) {
            return Err(StoreError::LeaseEnded);
        }
        core.apply(effects);
        let revision = core.revision;
        self.tell(core);
        Ok(Commit { done, revision })
    }

    /// What of a span has changed since a revision; all of it if nothing was known.
    fn news(&self, span: &Span, since: Option<u64>) -> Batch {
        let core = self.core();
        let revision = core.revision;
        match since {
            None => {
                let all = core.entries.values().filter(|entry| span.contains(&entry.key));
                let changes = all.map(|entry| (entry.key.clone(), Some(entry.clone()))).collect();
                Batch { revision, whole: true, changes }
            }
            Some(since) => {
                let from = core.log.partition_point(|change| change.revision <= since);
                let mut changes = BTreeMap::new();
                for change in core.log[from..].iter().filter(|change| span.contains(&change.key)) {
                    changes.insert(change.key.clone(), change.entry.clone());
                }
                Batch { revision, whole: false, changes: changes.into_iter().collect() }
            }
        }
    }
}

impl Core {
    fn holds(&self, condition: &Condition) -> bool {
        let entry = self.entries.get(condition.key());
        match condition {
            Condition::Missing(_) => entry.is_none(),
            Condition::Exists(_) => entry.is_some(),
            Condition::Value(_, value) => entry.is_some_and(|entry| entry.value == *value),
            Condition::Modified(_, revision) => entry.is_some_and(|entry| entry.modified == *revision),
            Condition::Created(_, revision) => entry.is_some_and(|entry| entry.created == *revision),
        }
    }

    fn apply(&mut self, effects: &[Effect]) {
        let revision = self.revision + 1;
        let before = self.log.len();
        for effect in effects {
            let key = effect.key().to_owned();
            let entry = match effect {
                Effect::Put { value, lease, .. } => {
                    let created = self.entries.get(&key).map_or(revision, |entry| entry.created);
                    let entry = Entry {
                        key: key.clone(),
                        value: value.clone(),
                        created,
                        modified: revision,
                        lease: *lease,
                    };
                    self.entries.insert(key.clone(), entry.clone());
                    Some(entry)
                }
                Effect::Delete(_) => match self.entries.remove(&key) {
                    Some(_) => None,
                    None => continue,
                },
            };
            self.log.push(Change { at: Instant::now(), revision, key, entry });
        }
        if self.log.len() > before {
            self.revision = revision;
        }
    }

    fn end(&mut self, lease: LeaseId) {
        self.leases.remove(&lease);
        let bound = self.entries.values().filter(|entry| entry.lease == Some(lease));
        let gone: Vec<Effect> = bound.map(|entry| Effect::Delete(entry.key.clone())).collect();
        self.apply(&gone);
    }
}

/// How the connection of a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Good,
    /// Nothing gets through, and after a while that is noticed.
    Cut,
    /// Calls are carried out, and the answers do not come back.
    Deaf,
}

/// The store, as one host reaches it.
pub(crate) struct Reach {
    center: Arc<Center>,
    line: watch::Receiver<Line>,
    random: Arc<Mutex<Random>>,
    calls: AtomicU64,
}

impl Reach {
    pub(crate) fn new(center: &Arc<Center>, line: watch::Receiver<Line>, random: Random) -> Arc<Reach> {
        let random = Arc::new(Mutex::new(random));
        Arc::new(Reach { center: Arc::clone(center), line, random, calls: AtomicU64::new(0) })
    }

    fn between(&self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.random.lock().unwrap().between(low, high))
    }

    fn percent(&self, chance: u64) -> bool {
        self.random.lock().unwrap().percent(chance)
    }

    async fn call<T: Send + 'static>(
        &self,
        carry_out: impl FnOnce(&Center) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let lost = || StoreError::Unreachable { reason: "nobody answers".to_owned() };
        sleep(self.between(0, 30)).await;
        let line = *self.line.borrow();
        if line == Line::Cut || self.percent(1) {
            // Part of what is lost was only slow, and is carried out when nobody waits for it any more.
            if line != Line::Cut && self.percent(50) {
                let (center, late) = (Arc::clone(&self.center), self.between(100, 3000));
                tokio::spawn(async move {
                    sleep(late).await;
                    let _ = carry_out(&center);
                });
            }
            sleep(self.between(100, 2000)).await;
            return Err(lost());
        }
        let result = carry_out(&self.center);
        sleep(self.between(0, 30)).await;
        if *self.line.borrow() != Line::Good || self.percent(1) {
            sleep(self.between(100, 2000)).await;
            return Err(lost());
        }
        result
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reach").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl Store for Reach {
    fn read(&self, spans: Vec<Span>) -> Pending<'_, Snapshot> {
        Box::pin(self.call(move |center| Ok(center.read(&spans))))
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Commit> {
        Box::pin(async move {
            transaction.check(self.limits())?;
            self.call(move |center| center.commit(&transaction)).await
        })
    }

    fn watch(&self, span: Span) -> Box<dyn Watch> {
        Box::new(Follow {
            center: Arc::clone(&self.center),
            line: self.line.clone(),
            random: Arc::clone(&self.random),
            span,
            known: None,
            not_before: Instant::now(),
        })
    }

    fn grant(&self, time: Duration) -> Pending<'_, Lease> {
        Box::pin(self.call(move |center| {
            let mut core = center.core();
            core.leases_given += 1;
            let id = LeaseId(core.leases_given);
            core.leases.insert(id, (time, Instant::now() + time));
            Ok(Lease { id, time })
        }))
    }

    fn keep(&self, lease: LeaseId) -> Pending<'_, bool> {
        Box::pin(self.call(move |center| {
            let mut core = center.core();
            let now = Instant::now();
            Ok(core.leases.get_mut(&lease).map(|(time, until)| *until = now + *time).is_some())
        }))
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        Box::pin(self.call(move |center| {
            let mut core = center.core();
            core.end(lease);
            center.tell(core);
            Ok(())
        }))
    }

    fn limits(&self) -> Limits {
        Limits { value: 1 << 20, operations: 16 }
    }
}

struct Follow {
    center: Arc<Center>,
    line: watch::Receiver<Line>,
    random: Arc<Mutex<Random>>,
    span: Span,
    known: Option<u64>,
    not_before: Instant,
}

impl Watch for Follow {
    fn next(&mut self) -> Pending<'_, Batch> {
        Box::pin(async move {
            let mut revisions = self.center.revision.subscribe();
            loop {
                sleep_until(self.not_before).await;
                let good = self.line.wait_for(|line| *line == Line::Good).await.is_ok();
                if !good {
                    return Err(StoreError::Ended);
                }
                let batch = self.center.news(&self.span, self.known);
                if batch.whole || !batch.changes.is_empty() {
                    let mut random = self.random.lock().unwrap();
                    self.not_before = Instant::now() + Duration::from_millis(random.between(0, 60));
                    // Sometimes what was known is in doubt, and all is told again.
                    self.known = (!random.percent(1)).then_some(batch.revision);
                    return Ok(batch);
                }
                let mut line = self.line.clone();
                tokio::select! {
                    changed = revisions.changed() => if changed.is_err() { return Err(StoreError::Ended) },
                    _ = line.changed() => self.known = None,
                }
                let slow = Duration::from_millis(self.random.lock().unwrap().between(0, 60));
                self.not_before = Instant::now() + slow;
            }
        })
    }
}
