//! Cache: the part of the store that changes while programs run, kept in memory.
//!
//! Reading is looking here, so it costs nothing and goes on when the store is lost. Whoever has changed something waits
//! until it is seen here before going on, so that everybody finds what they have written themselves.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgmt_value::Str;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::exports::{Exported, Offered};
use crate::keys::{HOSTS, Key, LEADERS, SCHEDULES, STRINGS, Topic};
use crate::store::{Batch, Entry, Span, Store};

/// What is kept in memory.
const SPANS: [&str; 4] = [STRINGS, HOSTS, SCHEDULES, LEADERS];

pub(crate) struct Cache {
    state: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Up to which revision each span is known; 0 before the first time.
    known: watch::Sender<[u64; SPANS.len()]>,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<String, Arc<Entry>>,
    exports: Offered,
    followers: HashMap<Topic, watch::Sender<u64>>,
    /// Followers that have gone are swept out when there are more than this.
    sweep_at: usize,
}

impl Cache {
    /// Begins to follow the store.
    pub(crate) fn new(store: &Arc<dyn Store>) -> Cache {
        let state = Arc::new(Shared { state: Mutex::default(), known: watch::Sender::new([0; SPANS.len()]) });
        let follow = |(which, prefix): (usize, &&str)| {
            let mut watch = store.watch(Span::Prefix((*prefix).to_owned()));
            let (state, prefix) = (Arc::clone(&state), (*prefix).to_owned());
            tokio::spawn(async move {
                loop {
                    match watch.next().await {
                        Ok(batch) => state.take(which, &prefix, batch),
                        Err(error) => {
                            tracing::debug!("`{prefix}` is no longer followed: {error}");
                            return;
                        }
                    }
                }
            })
        };
        let tasks = SPANS.iter().enumerate().map(follow).collect();
        Cache { state, tasks }
    }

    /// Waits until everything is known for the first time.
    pub(crate) async fn ready(&self) {
        let mut known = self.state.known.subscribe();
        // The sender is ours; it does not end before we do.
        let _ = known.wait_for(|known| known.iter().all(|revision| *revision > 0)).await;
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state.known.borrow().iter().all(|revision| *revision > 0)
    }

    /// Waits until a change of this key, made in this revision, is known here. A store that is lost meanwhile does not keep anyone waiting for long.
    pub(crate) async fn seen(&self, key: &str, revision: u64) {
        const PATIENCE: Duration = Duration::from_secs(5);
        let Some(which) = SPANS.iter().position(|prefix| key.starts_with(prefix)) else { return };
        let mut known = self.state.known.subscribe();
        let seen = known.wait_for(|known| known.get(which).is_some_and(|known| *known >= revision));
        let _ = tokio::time::timeout(PATIENCE, seen).await;
    }

    /// Waits until a key is known to be so. A store that is lost meanwhile does not keep anyone waiting for long.
    pub(crate) async fn until(&self, key: &str, is_so: impl Fn(Option<&Entry>) -> bool) {
        const PATIENCE: Duration = Duration::from_secs(5);
        let Some(topic) = Key::parse(key).map(Key::topic) else { return };
        let mut changes = self.follow(topic);
        let wait = async {
            while !is_so(self.get(key).as_deref()) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(PATIENCE, wait).await;
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.state.lock().entries.get(key).cloned()
    }

    /// All entries whose keys begin like this.
    pub(crate) fn below(&self, prefix: &str) -> Vec<Arc<Entry>> {
        let state = self.state.lock();
        let from = state.entries.range(prefix.to_owned()..);
        from.take_while(|(key, _)| key.starts_with(prefix)).map(|(_, entry)| Arc::clone(entry)).collect()
    }

    /// What is offered of a kind, to this host or to all.
    pub(crate) fn offered(&self, kind: &Str, to: &Str) -> Vec<Exported> {
        self.state.lock().exports.of(kind, to)
    }

    /// The parts that follow after a prefix in keys, each once.
    pub(crate) fn parts(&self, prefix: &str) -> Vec<String> {
        let state = self.state.lock();
        let mut parts = Vec::new();
        let mut from = prefix.to_owned();
        while let Some((key, _)) = state.entries.range(from..).next() {
            let Some(rest) = key.strip_prefix(prefix) else { break };
            let part = rest.split('/').next().unwrap_or(rest);
            // The sign after the slash: past everything that begins with this part and a slash.
            from = format!("{prefix}{part}0");
            parts.push(part.to_owned());
        }
        parts
    }

    /// Follows a topic from now on.
    pub(crate) fn follow(&self, topic: Topic) -> watch::Receiver<u64> {
        let mut state = self.state.lock();
        if state.followers.len() >= state.sweep_at {
            state.followers.retain(|_, follower| follower.receiver_count() > 0);
            // Twice as many as are alive, so that sweeping costs each of them a constant.
            state.sweep_at = 16 + 2 * state.followers.len();
        }
        state.followers.entry(topic).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Tells those who follow a topic that they should look again.
    pub(crate) fn stir(&self, topic: &Topic) {
        self.state.lock().tell(topic);
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, which: usize, prefix: &str, batch: Batch) {
        let mut state = self.lock();
        let mut gone = Vec::new();
        if batch.whole {
            let told = |key: &str| batch.changes.binary_search_by(|(told, _)| told.as_str().cmp(key)).is_ok();
            let present = state.entries.range(prefix.to_owned()..);
            let present = present.take_while(|(key, _)| key.starts_with(prefix));
            gone = present.map(|(key, _)| key).filter(|key| !told(key)).cloned().collect();
        }
        let mut topics = std::collections::HashSet::new();
        for (key, entry) in gone.into_iter().map(|key| (key, None)).chain(batch.changes) {
            // After a doubt, the same may be told again.
            let known = state.entries.get(&key).map(|known| &**known);
            if known == entry.as_ref() {
                continue;
            }
            let parsed = Key::parse(&key);
            if let Some(parsed @ Key::Export { .. }) = &parsed {
                state.exports.take(parsed, entry.as_ref());
            }
            match entry {
                Some(entry) => drop(state.entries.insert(key, Arc::new(entry))),
                None => drop(state.entries.remove(&key)),
            }
            if let Some(key) = parsed {
                topics.extend(key.host().cloned().map(Topic::Host));
                topics.insert(key.topic());
            }
        }
        for topic in &topics {
            state.tell(topic);
        }
        drop(state);
        self.known.send_modify(|known| {
            if let Some(known) = known.get_mut(which) {
                *known = batch.revision.max(*known).max(1);
            }
        });
    }
}

impl State {
    fn tell(&self, topic: &Topic) {
        if let Some(follower) = self.followers.get(topic) {
            follower.send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }
}
