//! What this host keeps in the store: its exports, what it volunteers for, how it is.
//!
//! Whoever wants something there says so and goes on. One task compares what is wanted with what is there, whenever either
//! may have changed, and makes up the difference. So it does not matter whether the store was lost in between, whether a
//! lease has ended, or whether somebody else has changed a key.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::keys::{self, Topic};
use crate::lock;
use crate::store::{Effect, LeaseId, StoreError, Transaction};
use crate::world::Inner;

/// What is wanted.
#[derive(Default)]
pub(crate) struct Own {
    wanted: Mutex<Wanted>,
    /// Something is wanted that was not, or a lease has changed.
    pub(crate) news: Notify,
    /// Everything that was wanted is there.
    settled: watch::Sender<bool>,
}

#[derive(Default)]
struct Wanted {
    /// None for keys that are to go.
    keys: BTreeMap<String, Option<Want>>,
    /// The keys of all exports that there may be, once that is known. Others that are stored are to go.
    exports: Option<HashSet<String>>,
}

/// What a key shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) value: Vec<u8>,
    /// How long it stays when this host is gone; for ever without a time.
    pub(crate) time: Option<Duration>,
    /// It goes when this host ends in order.
    pub(crate) leaves: bool,
}

impl Own {
    /// Says what a key shall be, or that it shall not be.
    pub(crate) fn want(&self, key: String, want: Option<Want>) {
        let mut wanted = lock(&self.wanted);
        if wanted.keys.get(&key) != Some(&want) {
            wanted.keys.insert(key, want);
            self.unsettle();
        }
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
        self.settled.send_replace(false);
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

impl Inner {
    /// Waits until the store has all that this host wants there.
    pub(crate) async fn settled(&self) {
        // The sender is ours.
        let _ = self.own.settled.subscribe().wait_for(|settled| *settled).await;
    }

    /// Makes up the difference for ever.
    pub(crate) async fn keep_own(&self) {
        let live = self.live();
        live.ready().await;
        let mut changes = live.follow(Topic::Host(self.host.clone()));
        let mut trouble = Trouble::default();
        loop {
            changes.mark_unchanged();
            let (effects, waits) = self.difference();
            if effects.is_empty() {
                if !waits {
                    self.settle();
                }
                tokio::select! {
                    () = self.own.news.notified() => {}
                    _ = changes.changed() => {}
                }
                continue;
            }
            match self.make_up(effects).await {
                Ok(()) => trouble = Trouble::default(),
                Err(error) => tokio::time::sleep(trouble.with(&error)).await,
            }
        }
    }

    /// Everything is there, unless something was wanted meanwhile.
    fn settle(&self) {
        self.own.settled.send_if_modified(|settled| !std::mem::replace(settled, true));
        // Somebody may have come between the look and this.
        if !self.difference().0.is_empty() {
            self.own.unsettle();
        }
    }

    /// What has to be changed, and whether something has to wait for a lease.
    fn difference(&self) -> (Vec<Effect>, bool) {
        let live = self.live();
        let mut waits = false;
        let mut wanted = lock(&self.own.wanted);
        // What is to go and is gone needs no more thought.
        wanted.keys.retain(|key, want| want.is_some() || live.get(key).is_some());
        let mut effects = Vec::new();
        for (key, want) in &wanted.keys {
            let Some(want) = want else {
                effects.push(Effect::Delete(key.clone()));
                continue;
            };
            let lease = match want.time.map(|time| self.session(time).held()) {
                Some(Some(held)) => Some(held.lease),
                Some(None) => {
                    waits = true;
                    continue;
                }
                None => None,
            };
            let is_there = |value: &[u8], bound: Option<LeaseId>| value == want.value && bound == lease;
            if !live.get(key).is_some_and(|entry| is_there(&entry.value, entry.lease)) {
                effects.push(Effect::Put { key: key.clone(), value: want.value.clone(), lease });
            }
        }
        if let Some(exports) = &wanted.exports {
            let stored = live.below(&keys::exports(&self.host));
            let is_stale = |key: &String| !exports.contains(key) && !wanted.keys.contains_key(key);
            let stale = stored.iter().filter(|entry| is_stale(&entry.key));
            effects.extend(stale.map(|entry| Effect::Delete(entry.key.clone())));
        }
        (effects, waits)
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
                lock(&self.own.wanted).keys.insert(key.clone(), None);
                continue;
            }
            let last = some.last().map(|effect| effect.key().to_owned());
            let done = self.store.commit(Transaction { effects: some, ..Transaction::default() }).await?;
            if let Some(last) = last {
                self.live().seen(&last, done.revision).await;
            }
        }
        Ok(())
    }
}
