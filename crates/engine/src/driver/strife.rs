//! Who undoes whom.
//!
//! A resource that is put right because of an event again and again has an adversary: another resource that wants
//! something else of the same thing, or a program outside. Neither can win; both can keep a processor busy. So after
//! [`OFTEN`] times within [`WINDOW`] the resource is left alone for a second after each time, then for two, and so on up
//! to [`LONGEST`]. Once nothing has undone it for [`PEACE`], all is forgotten.
//!
//! A change that follows from a declaration, a notification or a received value does not count: that is work.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::witness::MemberEffects;
use crate::core::Vertex;

const SECOND: u64 = 1_000_000_000;
/// So many times are no accident.
const OFTEN: usize = 12;
const WINDOW: u64 = 60 * SECOND;
const LONGEST: u64 = 60 * SECOND;
pub(super) const PEACE: u64 = 300 * SECOND;
/// More than this many are not kept in mind.
const MOST: usize = 4096;

/// Who was put right lately, and how often.
pub(super) struct Strife {
    enabled: bool,
    lately: FxHashMap<Vertex, Lately>,
}

#[derive(Default)]
struct Lately {
    /// When, the last [`OFTEN`] times.
    times: VecDeque<u64>,
    count: u32,
    /// What was changed the last time.
    what: Vec<Box<str>>,
    waits: u32,
}

/// A resource that is undone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) by: Option<Vertex>,
    pub(super) times: u32,
    /// It is left alone until then.
    pub(super) until: u64,
}

impl Strife {
    pub(super) fn new(enabled: bool) -> Strife {
        Strife { enabled, lately: FxHashMap::default() }
    }

    /// An event led to a change. Says whether that happens too often.
    pub(super) fn put_right(&mut self, vertex: Vertex, effects: &[MemberEffects], now: u64) -> Option<Found> {
        if !self.enabled {
            return None;
        }
        if self.lately.len() >= MOST {
            self.lately.retain(|_, lately| !lately.is_over(now));
            if self.lately.len() >= MOST {
                return None;
            }
        }
        let lately = self.lately.entry(vertex).or_default();
        if lately.is_over(now) {
            *lately = Lately::default();
        }
        lately.times.push_back(now);
        lately.count += 1;
        lately.what = effects.iter().flat_map(|member| &member.effects).map(|e| e.what.clone()).collect();
        if lately.times.len() > OFTEN {
            lately.times.pop_front();
        }
        let since = now.saturating_sub(lately.times.front().copied().unwrap_or(now));
        // Once it is slowed down, it takes longer for as long as it goes on.
        if lately.times.len() < OFTEN || (lately.waits == 0 && since > WINDOW) {
            return None;
        }
        let wait = (SECOND << lately.waits.min(16)).min(LONGEST);
        lately.waits += 1;
        let times = lately.count;
        Some(Found { by: self.adversary(vertex, now), times, until: now.saturating_add(wait) })
    }

    /// Another resource that was put right often, too, and changed the same.
    fn adversary(&self, vertex: Vertex, now: u64) -> Option<Vertex> {
        let ours = &self.lately.get(&vertex)?.what;
        let mut others = self.lately.iter().filter(|(other, lately)| {
            **other != vertex
                && !lately.is_over(now)
                && lately.times.len() >= OFTEN / 2
                && lately.what.iter().any(|theirs| ours.iter().any(|ours| touches(ours, theirs)))
        });
        others.next().map(|(vertex, _)| *vertex)
    }

    /// A vertex is gone.
    pub(super) fn forget(&mut self, vertex: Vertex) {
        self.lately.remove(&vertex);
    }
}

impl Lately {
    fn is_over(&self, now: u64) -> bool {
        self.times.back().is_some_and(|last| now.saturating_sub(*last) > PEACE)
    }
}

/// Whether two changes are about the same, or about something and what is in it.
fn touches(a: &str, b: &str) -> bool {
    let (a, b) = (a.trim_end_matches('/'), b.trim_end_matches('/'));
    let inside =
        |outer: &str, inner: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    a == b || inside(a, b) || inside(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgmt_resource::{Effect, Id};

    const A: Vertex = Vertex(1);
    const B: Vertex = Vertex(2);

    fn effects(path: &str) -> Vec<MemberEffects> {
        vec![MemberEffects { id: Id::new("file", path), effects: vec![Effect::change(path)] }]
    }

    #[test]
    fn a_dozen_times_within_a_minute_is_strife_and_waits_grow() {
        let mut strife = Strife::new(true);
        let mut now = 0;
        for _ in 1..OFTEN {
            now += SECOND;
            assert_eq!(strife.put_right(A, &effects("/x"), now), None);
        }
        let mut waits = Vec::new();
        for _ in 0..9 {
            now += SECOND;
            let found = strife.put_right(A, &effects("/x"), now).unwrap();
            assert_eq!(found.by, None);
            waits.push((found.until - now) / SECOND);
            now = found.until;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        now += PEACE + 1;
        assert_eq!(strife.put_right(A, &effects("/x"), now), None, "it was quiet for long enough");
    }

    #[test]
    fn now_and_then_is_no_strife() {
        let mut strife = Strife::new(true);
        for minute in 0..100 {
            assert_eq!(strife.put_right(A, &effects("/x"), minute * 60 * SECOND), None);
        }
    }

    #[test]
    fn the_other_resource_is_named_if_it_changes_the_same() {
        let mut strife = Strife::new(true);
        let mut found = None;
        for step in 0..2 * OFTEN as u64 {
            let (who, path) = if step % 2 == 0 { (A, "/d/") } else { (B, "/d/x") };
            found = strife.put_right(who, &effects(path), step).or(found);
        }
        assert!([Some(A), Some(B)].contains(&found.unwrap().by));
        let mut strife = Strife::new(true);
        let mut found = None;
        for step in 0..2 * OFTEN as u64 {
            let (who, path) = if step % 2 == 0 { (A, "/d") } else { (B, "/dx") };
            found = strife.put_right(who, &effects(path), step).or(found);
        }
        assert_eq!(found.unwrap().by, None);
    }
}
