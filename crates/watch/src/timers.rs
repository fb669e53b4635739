//! Deadlines without a clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::time::Duration;

use rustc_hash::FxHashMap;

/// At most one deadline per key, in a binary heap.
///
/// A deadline is a time since an origin of the caller's choosing; it should be monotonic, so that a step of
/// the wall clock moves nothing. There is no clock inside: the driver asks for [`Timers::next_deadline`],
/// sleeps until then however it likes, and hands the time to [`Timers::pop_expired`].
///
/// Cancelled and replaced entries stay in the heap until they surface, and are swept when they outnumber the
/// living, so memory stays proportional to the timers that are set.
#[derive(Debug, Clone)]
pub struct Timers<K> {
    heap: BinaryHeap<Reverse<(Duration, u64, K)>>,
    /// Which entry of the heap is the living one for each key.
    live: FxHashMap<K, u64>,
    next_sequence: u64,
}

impl<K: Copy + Ord + Hash> Timers<K> {
    /// No timers.
    pub fn new() -> Timers<K> {
        Timers { heap: BinaryHeap::new(), live: FxHashMap::default(), next_sequence: 0 }
    }

    /// Sets the deadline of `key`, in place of the one it had.
    pub fn insert(&mut self, deadline: Duration, key: K) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.live.insert(key, sequence);
        self.heap.push(Reverse((deadline, sequence, key)));
        self.sweep();
    }

    /// Forgets the deadline of `key`. Says whether there was one.
    pub fn cancel(&mut self, key: K) -> bool {
        let known = self.live.remove(&key).is_some();
        self.sweep();
        known
    }

    /// The earliest deadline.
    pub fn next_deadline(&mut self) -> Option<Duration> {
        while let Some(&Reverse((deadline, sequence, key))) = self.heap.peek() {
            if self.live.get(&key) == Some(&sequence) {
                return Some(deadline);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes one key whose deadline has come, the earliest first, and among equals the one set first.
    ///
    /// Call until it gives nothing.
    pub fn pop_expired(&mut self, now: Duration) -> Option<K> {
        if self.next_deadline()? > now {
            return None;
        }
        let Reverse((_, _, key)) = self.heap.pop()?;
        self.live.remove(&key);
        Some(key)
    }

    /// Whether `key` has a deadline.
    pub fn contains(&self, key: K) -> bool {
        self.live.contains_key(&key)
    }

    /// How many keys have a deadline.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether no key has a deadline.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Rebuilds the heap when most of it is dead. Each rebuild is paid for by the cancels before it.
    fn sweep(&mut self) {
        if self.heap.len() < 64 || self.heap.len() < 2 * self.live.len() {
            return;
        }
        let live = &mut self.live;
        self.heap.retain(|&Reverse((_, sequence, key))| match live.entry(key) {
            Entry::Occupied(entry) => *entry.get() == sequence,
            Entry::Vacant(_) => false,
        });
    }
}

impl<K: Copy + Ord + Hash> Default for Timers<K> {
    fn default() -> Timers<K> {
        Timers::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What [`Timers`] means, written the slow way.
    #[derive(Default)]
    struct Model(Vec<(Duration, u64, u8)>);

    impl Model {
        fn pop_expired(&mut self, now: Duration) -> Option<u8> {
            let first = *self.0.iter().min()?;
            if first.0 > now {
                return None;
            }
            self.0.retain(|entry| *entry != first);
            Some(first.2)
        }
    }

    /// A small generator, so that a failure names a seed that replays it.
    fn random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn any_sequence_of_operations_agrees_with_a_sorted_list() {
        for seed in 1..=200 {
            let mut state = seed;
            let mut timers = Timers::new();
            let mut model = Model::default();
            for step in 0..600 {
                let key = (random(&mut state) % 40) as u8;
                let time = Duration::from_nanos(random(&mut state) % 100);
                match random(&mut state) % 4 {
                    0 | 1 => {
                        timers.insert(time, key);
                        model.0.retain(|entry| entry.2 != key);
                        model.0.push((time, step, key));
                    }
                    2 => {
                        let had = model.0.iter().any(|entry| entry.2 == key);
                        model.0.retain(|entry| entry.2 != key);
                        assert_eq!(timers.cancel(key), had, "seed {seed} step {step}");
                    }
                    _ => loop {
                        let expected = model.pop_expired(time);
                        assert_eq!(timers.pop_expired(time), expected, "seed {seed} step {step}");
                        if expected.is_none() {
                            break;
                        }
                    },
                }
                let first = model.0.iter().min().map(|entry| entry.0);
                assert_eq!(timers.next_deadline(), first, "seed {seed} step {step}");
                assert_eq!(timers.len(), model.0.len(), "seed {seed} step {step}");
            }
        }
    }

    #[test]
    fn moving_one_deadline_a_million_times_keeps_the_heap_small() {
        let mut timers = Timers::new();
        for step in 0..1_000_000 {
            timers.insert(Duration::from_nanos(step), 7u32);
        }
        assert!(timers.heap.len() <= 64, "{}", timers.heap.len());
        assert_eq!(timers.pop_expired(Duration::from_secs(1)), Some(7));
        assert_eq!(timers.pop_expired(Duration::from_secs(1)), None);
    }
}
