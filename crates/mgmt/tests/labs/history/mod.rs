//! What was seen while things went wrong, and whether it may be so.
//!
//! The model is small on purpose. It does not know what should have happened when; it knows what must never be seen:
//!
//! - A host that ran a deploy runs an older one later.
//! - An export that a host has seen is gone, although nobody has taken it back.
//! - Two hosts that can act both take themselves for the one that was chosen, for longer than it takes to notice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long two hosts may both believe to be chosen: as long as it takes to look at a file, to hear of a lease that has ended, and to
/// change a graph, on a machine that has many other things to do. It does not depend on how long anything is broken.
pub(crate) const BOUND: Duration = Duration::from_secs(3);

/// What happens to a host, or is seen of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It takes itself for chosen, or not.
    Holds(bool),
    /// It runs this deploy.
    Runs(u64),
    /// It sees the exports of these hosts.
    Sees(BTreeSet<String>),
    /// It cannot act from now on.
    Stops,
    /// It can act again.
    GoesOn,
}

/// All that was seen, in order.
#[derive(Debug, Default)]
pub(crate) struct History {
    events: Vec<(Duration, String, Event)>,
    last: BTreeMap<(String, u8), Event>,
}

impl History {
    /// Notes something. What is still as it was is not noted again.
    pub(crate) fn note(&mut self, at: Duration, host: &str, event: Event) {
        let kind = match event {
            Event::Holds(_) => 0,
            Event::Runs(_) => 1,
            Event::Sees(_) => 2,
            Event::Stops | Event::GoesOn => 3,
        };
        let last = self.last.insert((host.to_owned(), kind), event.clone());
        if last.as_ref() != Some(&event) {
            self.events.push((at, host.to_owned(), event));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// Whatever must not be.
    pub(crate) fn faults(&self, end: Duration) -> Vec<String> {
        let mut faults = self.steps_back();
        faults.extend(self.lost_exports());
        faults.extend(self.double_holders(end));
        faults
    }

    fn steps_back(&self) -> Vec<String> {
        let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
        let mut faults = Vec::new();
        for (at, host, event) in &self.events {
            let Event::Runs(deploy) = event else { continue };
            let last = newest.entry(host).or_insert(*deploy);
            if deploy < last {
                faults.push(format!("{at:?}: {host} runs {deploy} after {last}"));
            }
            *last = (*last).max(*deploy);
        }
        faults
    }

    fn lost_exports(&self) -> Vec<String> {
        let mut known: BTreeMap<&str, &BTreeSet<String>> = BTreeMap::new();
        let mut faults = Vec::new();
        for (at, host, event) in &self.events {
            let Event::Sees(hosts) = event else { continue };
            if let Some(before) = known.insert(host, hosts) {
                let lost: Vec<&String> = before.difference(hosts).collect();
                if !lost.is_empty() {
                    faults.push(format!("{at:?}: {host} does not see the exports of {lost:?} any more"));
                }
            }
        }
        faults
    }

    fn double_holders(&self, end: Duration) -> Vec<String> {
        let mut holding: BTreeSet<&str> = BTreeSet::new();
        let mut stopped: BTreeSet<&str> = BTreeSet::new();
        let mut since: Option<(Duration, String)> = None;
        let mut faults = Vec::new();
        let mut judge = |at: Duration, since: &Option<(Duration, String)>| {
            if let Some((from, who)) = since
                && at.saturating_sub(*from) > BOUND
            {
                faults.push(format!("{from:?} to {at:?}: {who} all hold what only one may"));
            }
        };
        for (at, host, event) in &self.events {
            match event {
                Event::Holds(true) => drop(holding.insert(host)),
                Event::Holds(false) => drop(holding.remove(host.as_str())),
                Event::Stops => drop(stopped.insert(host)),
                Event::GoesOn => drop(stopped.remove(host.as_str())),
                Event::Runs(_) | Event::Sees(_) => continue,
            }
            let acting: Vec<&&str> = holding.difference(&stopped).collect();
            if acting.len() < 2 {
                judge(*at, &since);
                since = None;
            } else if since.is_none() {
                since = Some((*at, format!("{acting:?}")));
            }
        }
        judge(end, &since);
        faults
    }
}

/// The model itself: it finds what it is for, and nothing else.
pub(crate) fn check_the_model() {
    let at = Duration::from_secs;
    let hosts = |names: &[&str]| Event::Sees(names.iter().map(|&name| name.to_owned()).collect());
    let faults = |events: &[(u64, &str, Event)]| {
        let mut history = History::default();
        for (second, host, event) in events {
            history.note(at(*second), host, event.clone());
        }
        history.faults(at(100)).len()
    };
    use Event::{GoesOn, Holds, Runs, Stops};
    assert_eq!(faults(&[(1, "a", Runs(1)), (2, "a", Runs(3)), (3, "b", Runs(2))]), 0);
    assert_eq!(faults(&[(1, "a", Runs(3)), (2, "a", Runs(1))]), 1);
    assert_eq!(faults(&[(1, "a", hosts(&["a"])), (2, "a", hosts(&["a", "b"]))]), 0);
    assert_eq!(faults(&[(1, "a", hosts(&["a", "b"])), (2, "a", hosts(&["b"]))]), 1);
    assert_eq!(faults(&[(1, "a", Holds(true)), (2, "b", Holds(true)), (3, "a", Holds(false))]), 0);
    assert_eq!(faults(&[(1, "a", Holds(true)), (2, "b", Holds(true)), (9, "a", Holds(false))]), 1);
    assert_eq!(faults(&[(1, "a", Holds(true)), (2, "b", Holds(true))]), 1, "to the end");
    let paused = [(1, "a", Holds(true)), (2, "a", Stops), (3, "b", Holds(true))];
    assert_eq!(faults(&paused), 0);
    let woken = [&paused[..], &[(9, "a", GoesOn), (10, "a", Holds(false))]].concat();
    assert_eq!(faults(&woken), 0);
    let stuck = [&paused[..], &[(9, "a", GoesOn)]].concat();
    assert_eq!(faults(&stuck), 1);
}
