//! Reconciler: makes the store hold what this host wants there, its exports, offers and status.
//!
//! Whoever wants something there says so and goes on. One task compares what is wanted with what is there, whenever either
//! may have changed, and makes up the difference. So it does not matter whether the store was lost in between, whether a
//! lease has ended, or whether somebody else has changed a key.
//!
//! Writes are coalesced and rate-limited: a key may name the shortest time between two writes of it, and everything
//! together has a token bucket. The last state always arrives. An agent that stands back for another one with the same host
//! name (`host_claim.rs`) writes nothing but its own announcement.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::SharedState;
use crate::host_claim::{Claim, Standing};
use crate::keys::{self, Topic};
use crate::lock;
use crate::rate_limit::RateLimit;
use crate::session::Term;
use crate::shared_state::Inner;
use crate::store::{Effect, LeaseId, StoreError, Transaction};

/// Desired keys of this host, and the state of bringing the store there.
pub(crate) struct Reconciler {
    wanted: Mutex<Wanted>,
    /// The claim on the host's name, if this is an agent.
    pub(crate) claim: Mutex<Option<Claim>>,
    /// Differences that are made up, each of which is one transaction or few.
    limit: RateLimit,
    /// Something is wanted that was not, or a lease has changed.
    pub(crate) news: Notify,
    /// How far what was wanted is there.
    settled: watch::Sender<Settled>,
}

/// How far what is wanted is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Something is missing.
    #[default]
    No,
    /// Everything is there, apart from keys that may not be written again yet.
    Yes,
    /// Another agent holds the host's name, so nothing is written.
    StandsBack,
}

#[derive(Default)]
struct Wanted {
    /// None for keys that are to go.
    keys: BTreeMap<String, Option<Want>>,
    /// The keys of all exports that there may be, once that is known. Others that are stored are to go.
    exports: Option<HashSet<String>>,
    /// When keys that may not be written often were written last.
    written: BTreeMap<String, Instant>,
    /// Keys that are to go, and not before a moment.
    kept_until: BTreeMap<String, Instant>,
}

/// What a key shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) value: Vec<u8>,
    /// How long it stays when this host is gone; for ever without a time.
    pub(crate) time: Option<Term>,
    /// It goes when this host ends in order.
    pub(crate) leaves: bool,
    /// The shortest time between two writes.
    pub(crate) every: Option<Duration>,
}

/// What has to be written, and what keeps the rest from it.
#[derive(Default)]
struct Difference {
    effects: Vec<Effect>,
    /// Something waits for a lease.
    waits: bool,
    /// When the next key may be written that was written lately.
    due: Option<Instant>,
}

impl Reconciler {
    /// Nothing is wanted yet. A store that others share is not written to more often than the limit allows.
    pub(crate) fn new(is_shared: bool) -> Reconciler {
        const BURST: u32 = 20;
        const PER_SECOND: u32 = 10;
        Reconciler {
            wanted: Mutex::default(),
            claim: Mutex::default(),
            limit: if is_shared { RateLimit::new(BURST, PER_SECOND) } else { RateLimit::none() },
            news: Notify::new(),
            settled: watch::Sender::default(),
        }
    }

    /// Takes what the announcement of an agent that stands back shall be.
    pub(crate) fn announce(&self, key: String, want: Option<Want>) {
        let mut wanted = lock(&self.wanted);
        if want.is_some() || wanted.keys.contains_key(&key) {
            wanted.keys.insert(key, want);
        }
    }

    /// Says what a key shall be, or that it shall not be.
    pub(crate) fn want(&self, key: String, want: Option<Want>) {
        let mut wanted = lock(&self.wanted);
        if wanted.keys.get(&key) != Some(&want) {
            wanted.kept_until.remove(&key);
            wanted.keys.insert(key, want);
            self.unsettle();
        }
    }

    /// Says that a key shall go at some moment. It counts as unwanted from now on.
    pub(crate) fn remove_at(&self, key: String, at: Instant) {
        let mut wanted = lock(&self.wanted);
        if wanted.keys.get(&key) != Some(&None) {
            wanted.kept_until.insert(key.clone(), at);
            wanted.keys.insert(key, None);
            self.unsettle();
        }
    }

    /// Whether a key is to go.
    pub(crate) fn is_going(&self, key: &str) -> bool {
        lock(&self.wanted).keys.get(key).is_some_and(Option::is_none)
    }

    /// What a key shall be, if anybody has said so.
    pub(crate) fn wanted(&self, key: &str) -> Option<Want> {
        lock(&self.wanted).keys.get(key).cloned().flatten()
    }

    /// What goes when this host ends is to go now.
    pub(crate) fn leave(&self) {
        let mut wanted = lock(&self.wanted);
        for want in wanted.keys.values_mut() {
            want.take_if(|want| want.leaves);
        }
        wanted.kept_until.clear();
        self.unsettle();
    }

    /// From now on, what is stored of this host's exports and is not one of these goes.
    pub(crate) fn exports_are(&self, prefix: &str, exports: HashSet<String>) {
        let mut wanted = lock(&self.wanted);
        let own = wanted.keys.range_mut(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        for (_, want) in own.filter(|(key, _)| !exports.contains(*key)) {
            *want = None;
        }
        wanted.exports = Some(exports);
        self.unsettle();
    }

    fn unsettle(&self) {
        self.settled.send_replace(Settled::No);
        self.news.notify_one();
    }
}

/// What keeps going wrong.
#[derive(Default)]
struct Trouble {
    told: Option<String>,
    pause: Duration,
}

impl Trouble {
    const FIRST: Duration = Duration::from_millis(300);
    const LONGEST: Duration = Duration::from_secs(10);

    /// Tells of it, once, and how long to wait, the longer the more often.
    fn with(&mut self, error: &StoreError) -> Duration {
        // The store tells of its own outages, and a lease that has ended is followed by another.
        let is_news = !error.is_passing() && *error != StoreError::LeaseEnded;
        let text = error.to_string();
        if is_news && self.told.as_ref() != Some(&text) {
            tracing::error!("what this host keeps in the store cannot be stored: {error}");
            self.told = Some(text);
        }
        self.pause = (self.pause * 2).clamp(Trouble::FIRST, Trouble::LONGEST);
        self.pause
    }
}

impl SharedState {
    /// Waits until the store has what this host wants there. An agent that stands back writes nothing.
    pub(crate) async fn written(&self) -> Result<(), StoreError> {
        if self.inner().settled().await == Settled::StandsBack {
            let reason = format!(
                "another agent uses the host name {:?}, and this one stands back",
                self.host().to_text()
            );
            return Err(StoreError::Refused { reason });
        }
        Ok(())
    }

    /// Waits until this agent may write in its host's name. One that stands back may not.
    pub(crate) async fn may_write(&self) -> Result<(), StoreError> {
        match self.inner().standing() {
            Some(Standing::Holds) => Ok(()),
            _ => self.written().await,
        }
    }
}

impl Inner {
    /// Waits until the store has all that this host wants there, or until nothing is written for now.
    pub(crate) async fn settled(&self) -> Settled {
        let mut settled = self.reconciler.settled.subscribe();
        // The sender is ours.
        settled.wait_for(|settled| *settled != Settled::No).await.map_or(Settled::No, |settled| *settled)
    }

    /// Makes up the difference for ever.
    pub(crate) async fn keep_reconciled(&self) {
        let live = self.cache();
        live.ready().await;
        let mut changes = live.follow(Topic::Host(self.host.clone()));
        let mut trouble = Trouble::default();
        loop {
            changes.mark_unchanged();
            let done = match self.standing() {
                Some(Standing::Holds) => {
                    let Difference { effects, waits, due } = self.difference(None);
                    if effects.is_empty() {
                        if !waits {
                            self.settle();
                        }
                        self.pause(&mut changes, due).await;
                        continue;
                    }
                    self.reconcile(None).await
                }
                Some(Standing::Claims(condition)) => {
                    self.reconciler.limit.acquire().await;
                    self.claim(condition).await
                }
                Some(Standing::StandsBack(_)) => {
                    let only = keys::rivals(&self.host);
                    if self.difference(Some(&only)).effects.is_empty() {
                        self.reconciler.settled.send_replace(Settled::StandsBack);
                        self.pause(&mut changes, None).await;
                        continue;
                    }
                    self.reconcile(Some(&only)).await
                }
                Some(Standing::Waits(until)) => {
                    self.pause(&mut changes, Some(until)).await;
                    continue;
                }
                None => {
                    self.pause(&mut changes, None).await;
                    continue;
                }
            };
            match done {
                Ok(()) => trouble = Trouble::default(),
                Err(error) => tokio::time::sleep(trouble.with(&error)).await,
            }
        }
    }

    /// Waits for something to do, or for a moment.
    async fn pause(&self, changes: &mut watch::Receiver<u64>, until: Option<Instant>) {
        let moment = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.reconciler.news.notified() => {}
            _ = changes.changed() => {}
            () = moment => {}
        }
    }

    /// Makes up the difference as it is when the rate limit allows it.
    async fn reconcile(&self, only: Option<&str>) -> Result<(), StoreError> {
        self.reconciler.limit.acquire().await;
        self.make_up(self.difference(only).effects).await
    }

    /// Everything is there, unless something was wanted meanwhile.
    fn settle(&self) {
        self.reconciler
            .settled
            .send_if_modified(|settled| std::mem::replace(settled, Settled::Yes) != Settled::Yes);
        // Somebody may have come between the look and this.
        if !self.difference(None).effects.is_empty() {
            self.reconciler.unsettle();
        }
    }

    /// What has to be changed, of the keys that begin like this if that is given.
    fn difference(&self, only: Option<&str>) -> Difference {
        let (live, now) = (self.cache(), Instant::now());
        let mut found = Difference::default();
        let mut wanted = lock(&self.reconciler.wanted);
        // What is to go and is gone needs no more thought.
        wanted.keys.retain(|key, want| want.is_some() || live.get(key).is_some());
        let Wanted { keys, kept_until, .. } = &mut *wanted;
        kept_until.retain(|key, until| *until > now && keys.contains_key(key));
        let is_meant = |key: &str| only.is_none_or(|only| key.starts_with(only));
        for (key, want) in wanted.keys.iter().filter(|(key, _)| is_meant(key)) {
            let Some(want) = want else {
                if let Some(until) = wanted.kept_until.get(key) {
                    found.due = Some(found.due.map_or(*until, |other| other.min(*until)));
                    continue;
                }
                found.effects.push(Effect::Delete(key.clone()));
                continue;
            };
            let lease = match want.time.map(|time| self.session(time).held()) {
                Some(Some(held)) => Some(held.lease),
                Some(None) => {
                    found.waits = true;
                    continue;
                }
                None => None,
            };
            let is_there = |value: &[u8], bound: Option<LeaseId>| value == want.value && bound == lease;
            if live.get(key).is_some_and(|entry| is_there(&entry.value, entry.lease)) {
                continue;
            }
            let due = want.every.and_then(|every| wanted.written.get(key).map(|at| *at + every));
            match due.filter(|due| *due > now) {
                Some(due) => found.due = Some(found.due.map_or(due, |other| other.min(due))),
                None => {
                    found.effects.push(Effect::Put { key: key.clone(), value: want.value.clone(), lease });
                }
            }
        }
        if let (Some(exports), None) = (&wanted.exports, only) {
            let stored = live.below(&keys::exports(&self.host));
            let is_stale = |key: &String| !exports.contains(key) && !wanted.keys.contains_key(key);
            let stale = stored.iter().filter(|entry| is_stale(&entry.key));
            found.effects.extend(stale.map(|entry| Effect::Delete(entry.key.clone())));
        }
        found
    }

    /// Takes note of when keys were written that may not be written often.
    fn note_written(&self, effects: &[Effect]) {
        let (mut wanted, now) = (lock(&self.reconciler.wanted), Instant::now());
        let Wanted { keys, written, .. } = &mut *wanted;
        for effect in effects {
            if keys.get(effect.key()).and_then(Option::as_ref).is_some_and(|want| want.every.is_some()) {
                written.insert(effect.key().to_owned(), now);
            }
        }
    }

    /// Makes changes, as many at once as the store takes.
    async fn make_up(&self, effects: Vec<Effect>) -> Result<(), StoreError> {
        let limits = self.store.limits();
        let size = |effect: &Effect| if let Effect::Put { value, .. } = effect { value.len() } else { 0 };
        let mut effects = effects.into_iter().peekable();
        while effects.peek().is_some() {
            let (mut some, mut bytes) = (Vec::new(), 0);
            while let Some(effect) = effects.next_if(|effect| {
                some.is_empty() || (some.len() < limits.operations && bytes + size(effect) <= limits.value)
            }) {
                bytes += size(&effect);
                some.push(effect);
            }
            if let [Effect::Put { key, value, .. }] = some.as_slice()
                && value.len() > limits.value
            {
                tracing::error!("`{key}` has {bytes} bytes, more than the store takes");
                lock(&self.reconciler.wanted).keys.insert(key.clone(), None);
                continue;
            }
            let last = some.last().map(|effect| effect.key().to_owned());
            self.note_written(&some);
            let done = self.commit(Transaction { effects: some, ..Transaction::default() }).await?;
            if let Some(last) = last {
                self.cache().seen(&last, done.revision).await;
            }
        }
        Ok(())
    }
}
