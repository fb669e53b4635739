//! Resources that may run at some times only: whether one may now, and the one clock that wakes those that may not.
//!
//! A run outside of its window is over before it begins: nothing is looked at, what comes after it goes on, and
//! notifications that it would have listened to are gone. When the window opens, it is as if an event had come. A resource whose last
//! run failed stays failing until then, and so does what comes after it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::{Timestamp, Zoned};
use mgmt_resource::{Id, Window, held};
use mgmt_watch::WallClock;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::watch;

use super::inbox::Inbox;
use super::{Driver, Message};
use crate::core::Vertex;

/// So many are remembered however small the graph is.
const FEW: usize = 64;

/// Who waits for a window to open, and when everybody with a window ran last.
#[derive(Default)]
pub(super) struct Openings {
    at: BTreeSet<(Timestamp, Vertex)>,
    of: FxHashMap<Vertex, Timestamp>,
    /// In this life, those that change nothing included. Who is not in the graph is forgotten once they are many.
    last: FxHashMap<Id, i64>,
    /// Tells the clock which time is next. There is a clock once somebody has to wait.
    clock: Option<watch::Sender<Option<Timestamp>>>,
}

impl Openings {
    /// Notes when somebody ran. `declared` are all that there are now.
    fn ran<'a>(&mut self, id: &Id, began: i64, declared: impl ExactSizeIterator<Item = Option<&'a Id>>) {
        self.last.insert(id.clone(), began);
        // Twice as many, so that each of these looks is paid for by as many runs.
        if self.last.len() > 2 * declared.len().max(FEW) {
            let declared: FxHashSet<&Id> = declared.flatten().collect();
            self.last.retain(|id, _| declared.contains(id));
        }
    }

    fn wait(&mut self, vertex: Vertex, opens: Timestamp) {
        self.forget(vertex);
        self.at.insert((opens, vertex));
        self.of.insert(vertex, opens);
    }

    /// It is gone, or runs.
    pub(super) fn forget(&mut self, vertex: Vertex) {
        if let Some(opens) = self.of.remove(&vertex) {
            self.at.remove(&(opens, vertex));
        }
    }

    /// Whose window is open. If nobody's is, the clock was set, and all have to look again.
    fn due(&mut self, now: Timestamp) -> Vec<Vertex> {
        let due: Vec<Vertex> =
            self.at.iter().take_while(|(at, _)| *at <= now).map(|(_, vertex)| *vertex).collect();
        let due = if due.is_empty() { self.of.keys().copied().collect() } else { due };
        due.iter().for_each(|vertex| self.forget(*vertex));
        due
    }
}

impl Driver {
    /// Whether a vertex has to wait for its window: in words, for what. If so, it is woken when that opens.
    pub(super) fn held(&mut self, vertex: Vertex) -> Option<String> {
        let node = self.nodes.get(vertex.index()).and_then(Option::as_ref)?;
        let meta = &node.spec.meta;
        if meta.window.is_empty() || meta.hidden {
            return None;
        }
        // It was checked when it was declared.
        let Ok(Some(window)) = Window::parse(&meta.window) else { return None };
        let id = &node.spec.id;
        let noted = self.openings.last.get(id).copied();
        let last = noted.or_else(|| self.journal.as_ref().and_then(|journal| journal.last_run(id)));
        // Another attempt belongs to the run that failed.
        let last = last.filter(|_| node.reasons.as_ref().is_none_or(|reasons| reasons.attempts == 0));
        let now = Zoned::now();
        let opens = window.opens(last, &now);
        if opens.is_some_and(|opens| opens <= now.timestamp()) {
            self.openings.forget(vertex);
            return None;
        }
        let told = self.openings.of.get(&vertex).copied();
        let words = held(&meta.window, opens, &now);
        if told.is_some() && told == opens {
            tracing::debug!(target: "mgmt::engine", resource = %id, "{words}");
        } else {
            tracing::info!(target: "mgmt::engine", resource = %id, "{words}");
        }
        match opens {
            Some(opens) => self.openings.wait(vertex, opens),
            None => self.openings.forget(vertex),
        }
        self.set_clock();
        if let Some(node) = self.node(vertex) {
            node.stirred = None;
            if let Some(reasons) = &mut node.reasons {
                reasons.notified.clear();
            }
        }
        Some(words)
    }

    /// A vertex with a window has run. What only looks is not remembered for the next life.
    pub(super) fn has_run(&mut self, id: &Id, took: Duration, apply: bool) {
        let now = Timestamp::now();
        let began = now.checked_sub(took).unwrap_or(now).as_second();
        let declared = self.nodes.iter().map(|node| node.as_ref().map(|node| &node.spec.id));
        self.openings.ran(id, began, declared);
        if let Some(journal) = self.journal.as_mut().filter(|_| apply) {
            journal.ran_at(id, began);
        }
    }

    /// The clock shows a time that somebody waits for, or was set.
    pub(super) fn clock_struck(&mut self) {
        for vertex in self.openings.due(Timestamp::now()) {
            if let Some(node) = self.node(vertex) {
                node.note().opened = true;
            }
            self.core.changed(vertex, self.now());
        }
        self.set_clock();
    }

    fn set_clock(&mut self) {
        let next = self.openings.at.first().map(|(at, _)| *at);
        let (runtime, inbox) = (&self.runtime, &self.inbox);
        let clock = self.openings.clock.get_or_insert_with(|| {
            let (clock, wanted) = watch::channel(None);
            runtime.spawn(keep_time(wanted, Arc::clone(inbox)));
            clock
        });
        clock.send_replace(next);
    }
}

/// Strikes when the time comes that is wanted, and once for each. Ends with whoever wants it.
async fn keep_time(mut wanted: watch::Receiver<Option<Timestamp>>, inbox: Arc<Inbox>) {
    let mut clock = WallClock::new();
    if let Err(error) = &clock {
        tracing::warn!(target: "mgmt::engine", "no clock that is told when it is set: {error}");
    }
    loop {
        let next = *wanted.borrow_and_update();
        let strikes = async {
            let Some(next) = next else { return std::future::pending().await };
            if let Ok(clock) = &mut clock
                && clock.reaches(SystemTime::from(next)).await.is_ok()
            {
                return;
            }
            let wait = Duration::try_from(next.duration_since(Timestamp::now())).unwrap_or_default();
            tokio::time::sleep(wait).await;
        };
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = strikes => {
                inbox.send(Message::Clock);
                // It answers with the next time.
                if wanted.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn who_is_not_in_the_graph_is_forgotten_in_the_end() {
        let mut openings = Openings::default();
        let stays = [Id::new("test", "stays"), Id::new("test", "too")];
        let declared = || stays.iter().map(Some);
        openings.ran(&stays[0], 1, declared());
        for number in 0..10 * FEW {
            openings.ran(&Id::new("test", number.to_string()), 2, declared());
            assert!(openings.last.len() <= 2 * FEW + 1);
        }
        assert_eq!(openings.last.get(&stays[0]), Some(&1));
        assert!(openings.last.len() <= 2 * FEW);
    }

    #[test]
    fn those_whose_time_has_come_are_due_and_all_if_the_clock_was_set() {
        let mut openings = Openings::default();
        openings.wait(Vertex(1), at(10));
        openings.wait(Vertex(2), at(20));
        openings.wait(Vertex(3), at(30));
        openings.wait(Vertex(1), at(15));
        openings.forget(Vertex(3));
        assert_eq!(openings.at.first(), Some(&(at(15), Vertex(1))));
        assert_eq!(openings.due(at(15)), [Vertex(1)]);
        assert_eq!(openings.due(at(5)), [Vertex(2)]);
        assert!(openings.at.is_empty() && openings.of.is_empty());
    }
}
