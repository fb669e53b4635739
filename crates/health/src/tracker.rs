//! Keeps a [`HostReport`] up to date from single events.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::hash::Hash;
use std::time::Duration;

use crate::{
    Counts, DeployState, DuplicateHost, FailedValue, HostReport, MAX_LISTED, OpenValues, PendingValue,
    ProgramState, ResourceReport, ResourceState, bounded_error,
};

/// Everything that an agent reports, as events come in. `K` names a resource.
///
/// An event costs constant time; [`Tracker::report`] costs time in proportion to the resources that are not ok.
#[derive(Debug)]
pub struct Tracker<K> {
    /// Every resource whose state is not ok, pending or blocked.
    states: HashMap<K, Known>,
    blocked: Vec<ResourceReport>,
    total: u64,
    /// Some of the resources, at most [`MAX_LISTED`], for when all are stale.
    some: Vec<K>,
    pending: u64,
    changed: u64,
    quiet: bool,
    converged: bool,
    noop: bool,
    program: ProgramState,
    values: OpenValues,
    /// The resources that are kept as last declared because of those values. They follow from them.
    stale: Vec<ResourceReport>,
    deploy: DeployState,
    duplicate: Option<DuplicateHost>,
}

/// The state of a resource.
#[derive(Debug)]
struct Known {
    /// Since when it has a state of this name; since when it is failing, be it retried or not.
    since: u64,
    /// When it was reported last.
    reported: u64,
    state: ResourceState,
}

impl<K> Default for Tracker<K> {
    fn default() -> Self {
        Tracker {
            states: HashMap::new(),
            blocked: Vec::new(),
            total: 0,
            some: Vec::new(),
            pending: 0,
            changed: 0,
            quiet: false,
            converged: false,
            noop: false,
            program: ProgramState::default(),
            values: OpenValues::default(),
            stale: Vec::new(),
            deploy: DeployState::default(),
            duplicate: None,
        }
    }
}

impl<K: Clone + Eq + Hash + Display> Tracker<K> {
    /// Takes the state of a resource. The time of entry is kept while the state has the same name, and from one attempt to the next, whether
    /// time leads to that or not.
    pub fn resource(&mut self, resource: &K, mut state: ResourceState, now: u64) {
        if !(state.is_unhealthy() || state == ResourceState::WouldChange) {
            self.states.remove(resource);
            return;
        }
        if let ResourceState::Retrying { error, .. }
        | ResourceState::Failed { error, .. }
        | ResourceState::Stale { error } = &mut state
        {
            error.truncate(bounded_error(error).len());
        }
        match self.states.get_mut(resource) {
            Some(known)
                if known.state.name() == state.name() || (known.state.is_failing() && state.is_failing()) =>
            {
                (known.reported, known.state) = (now, state);
            }
            _ => drop(self.states.insert(resource.clone(), Known { since: now, reported: now, state })),
        }
    }

    /// The state of a resource, if it is not ok.
    pub fn state_of(&self, resource: &K) -> Option<&ResourceState> {
        self.states.get(resource).map(|known| &known.state)
    }

    /// Forgets flapping resources that were not reverted for so long after their last backoff.
    pub fn expire_flapping(&mut self, now: u64, after: Duration) {
        self.states.retain(|_, known| match known.state {
            ResourceState::Flapping { backoff_ms, .. } => {
                now <= known.reported.saturating_add(backoff_ms / 1000).saturating_add(after.as_secs())
            }
            _ => true,
        });
    }

    /// Takes the resources of another graph. What was known of resources that stay is kept.
    pub fn graph<'a>(&mut self, resources: &mut dyn Iterator<Item = &'a K>)
    where
        K: 'a,
    {
        let mut stay = HashMap::new();
        let mut total = 0;
        self.some.clear();
        for resource in resources {
            total += 1;
            if self.some.len() < MAX_LISTED {
                self.some.push(resource.clone());
            }
            if let Some((resource, state)) = self.states.remove_entry(resource) {
                stay.insert(resource, state);
            }
        }
        (self.states, self.total) = (stay, total);
    }

    /// Takes the blocked resources, each with the resource that blocks it.
    pub fn blocked(&mut self, blocked: impl IntoIterator<Item = (String, String)>, now: u64) {
        let before: HashMap<String, u64> =
            self.blocked.drain(..).map(|report| (report.resource, report.since)).collect();
        let report = |(resource, by): (String, String)| ResourceReport {
            since: before.get(&resource).copied().unwrap_or(now),
            resource,
            state: ResourceState::Blocked { by },
        };
        self.blocked = blocked.into_iter().map(report).collect();
    }

    /// The names of the resources that are kept as last declared: in no other state unless that is a worse one.
    pub fn stale(&self) -> HashSet<String> {
        self.stale.iter().map(|report| report.resource.clone()).collect()
    }

    /// Takes the number of resources that have not been checked since they were declared or notified.
    pub fn pending(&mut self, pending: u64) {
        self.pending = pending;
    }

    /// Takes the number of resources that their last check restored.
    pub fn changed(&mut self, changed: u64) {
        self.changed = changed;
    }

    /// Takes whether the graph is quiet apart from scheduled retries, and whether every resource in it is in its declared state.
    pub fn quiet(&mut self, quiet: bool, converged: bool) {
        self.quiet = quiet;
        self.converged = quiet && converged;
    }

    /// Whether the graph is quiet apart from scheduled retries.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether the graph is quiet, and every resource in it was in its declared state when it became so.
    pub fn is_converged(&self) -> bool {
        self.converged
    }

    /// Takes whether the whole graph runs under `noop`.
    pub fn noop(&mut self, noop: bool) {
        self.noop = noop;
    }

    /// Takes the state of the program, and the values of what runs that have failed or are waited for, in full.
    pub fn program(&mut self, mut state: ProgramState, values: OpenValues) {
        if let ProgramState::Stale { error, .. } | ProgramState::Invalid { error, .. } = &mut state {
            error.truncate(bounded_error(error).len());
        }
        // The program has been in this state since it first was, whatever is added to it.
        match (&self.program, &mut state) {
            (ProgramState::Stale { since: known, .. }, ProgramState::Stale { since, .. })
            | (ProgramState::Invalid { since: known, .. }, ProgramState::Invalid { since, .. })
            | (ProgramState::Waiting { since: known }, ProgramState::Waiting { since }) => {
                *since = (*known).min(*since);
            }
            _ => {}
        }
        self.program = state;
        self.stale = stale(&values);
        self.values = values;
    }

    /// The state of the program.
    pub fn program_state(&self) -> &ProgramState {
        &self.program
    }

    /// Changes the state of the deploy.
    pub fn deploy(&mut self) -> &mut DeployState {
        &mut self.deploy
    }

    /// Takes whether another agent uses the same host name.
    pub fn duplicate(&mut self, duplicate: Option<DuplicateHost>) {
        self.duplicate = duplicate;
    }

    /// The report, as it is published: its lists are bounded.
    pub fn report(&self) -> HostReport {
        self.report_of(MAX_LISTED, self.values.bounded())
    }

    /// The report with every unhealthy resource and every value in it.
    pub fn full_report(&self) -> HostReport {
        self.report_of(usize::MAX, self.values.clone())
    }

    fn report_of(&self, limit: usize, values: OpenValues) -> HostReport {
        let mut counts = Counts { total: self.total, ..Counts::default() };
        let mut listed: Vec<ResourceReport> = Vec::new();
        // A resource has one state. The worst comes first, and takes the resource.
        let mut taken: HashSet<String> = HashSet::new();
        let (mild, severe): (Vec<_>, Vec<_>) =
            self.states.iter().partition(|(_, known)| known.state == ResourceState::WouldChange);
        for (resource, Known { since, state, .. }) in severe {
            *count_of(&mut counts, state) += 1;
            let resource = resource.to_string();
            taken.insert(resource.clone());
            listed.push(ResourceReport { resource, since: *since, state: state.clone() });
        }
        for report in &self.stale {
            if taken.insert(report.resource.clone()) {
                counts.stale += 1;
                listed.push(report.clone());
            }
        }
        // Without a failing resource nothing is blocked, whatever was last heard.
        let blocked = self.blocked.iter().filter(|_| counts.failing() > 0);
        let blocked: Vec<&ResourceReport> =
            blocked.filter(|report| taken.insert(report.resource.clone())).collect();
        counts.blocked += blocked.len() as u64;
        listed.extend(blocked.into_iter().cloned());
        let mut unnamed = 0;
        if let ProgramState::Stale { since, error, whole: true } = &self.program {
            // All others are as they were last declared, too. Some of them are known by name.
            let rest = counts.total.saturating_sub(counts.unhealthy());
            let all = self.some.iter().map(ToString::to_string).filter(|resource| !taken.contains(resource));
            let named: Vec<String> = all.take(usize::try_from(rest).unwrap_or(usize::MAX)).collect();
            (counts.stale, unnamed) = (counts.stale + rest, rest - named.len() as u64);
            for resource in named {
                taken.insert(resource.clone());
                let state = ResourceState::Stale { error: error.clone() };
                listed.push(ResourceReport { resource, since: *since, state });
            }
        }
        let would_change = mild.into_iter().filter(|(resource, _)| !taken.contains(&resource.to_string()));
        // In a program that is stale as a whole nothing else counts.
        let rest = counts.total.saturating_sub(counts.unhealthy());
        counts.would_change = (would_change.count() as u64).min(rest);
        // The numbers of the others are of the last moment at which they were counted.
        let mut rest = self.total.saturating_sub(counts.unhealthy() + counts.would_change);
        // A check that an event leads to is nothing to wait for while everything is in its declared state.
        if !self.converged || counts.failing() > 0 {
            counts.pending = self.pending.min(rest);
        }
        rest -= counts.pending;
        counts.changed = self.changed.min(rest);
        // The graph is not in its declared state, and what keeps it from that is not known yet: a host that converges says why it has not.
        let is_explained = counts.unhealthy() + counts.pending + counts.would_change > 0;
        let quiet = self.quiet && (self.converged || is_explained);
        // The worst first; of the others, no more than are listed.
        let order = |one: &ResourceReport| (one.state.rank(), one.since);
        let truncated = listed.len().saturating_sub(limit);
        if truncated > 0 {
            listed.select_nth_unstable_by_key(limit, order);
            listed.truncate(limit);
        }
        listed.sort_by(|a, b| (order(a), &a.resource).cmp(&(order(b), &b.resource)));
        HostReport {
            quiet,
            noop: self.noop,
            program: self.program.clone(),
            values,
            deploy: self.deploy.clone(),
            counts,
            unhealthy: listed,
            truncated: truncated as u64 + unnamed,
            duplicate: self.duplicate.clone(),
        }
    }
}

/// The resources that are kept as last declared because a value has failed or is waited for.
fn stale(values: &OpenValues) -> Vec<ResourceReport> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut add = |frozen: &[String], since: u64, error: String| {
        for resource in frozen.iter().filter(|resource| !seen.contains(*resource)).collect::<Vec<_>>() {
            seen.insert(resource.clone());
            let state = ResourceState::Stale { error: bounded_error(&error).to_owned() };
            found.push(ResourceReport { resource: resource.clone(), since, state });
        }
    };
    for FailedValue { expression, position, since, error, frozen, .. } in &values.failed {
        add(frozen, *since, format!("{position}: {expression}: {error}"));
    }
    for PendingValue { expression, position, since, frozen, .. } in &values.pending {
        add(frozen, *since, format!("{position}: {expression}: no value yet"));
    }
    found
}

/// The count that a state belongs to.
fn count_of<'a>(counts: &'a mut Counts, state: &ResourceState) -> &'a mut u64 {
    match state {
        ResourceState::WouldChange => &mut counts.would_change,
        ResourceState::Retrying { .. } => &mut counts.retrying,
        ResourceState::Unknown => &mut counts.unknown,
        ResourceState::Failed { .. } => &mut counts.failed,
        ResourceState::Blocked { .. } => &mut counts.blocked,
        ResourceState::Flapping { .. } => &mut counts.flapping,
        ResourceState::Stale { .. } => &mut counts.stale,
        // None of them is kept.
        ResourceState::Ok | ResourceState::Changed | ResourceState::Pending => &mut counts.pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostState;

    fn retrying(attempt: u32) -> ResourceState {
        ResourceState::Retrying { next: 9, attempt, error: "no parent".to_owned() }
    }

    #[test]
    fn attempts_in_a_row_do_not_renew_the_time() {
        let mut tracker = Tracker::<&str>::default();
        tracker.graph(&mut ["a", "b"].iter());
        tracker.resource(&"a", retrying(1), 5);
        tracker.resource(&"a", retrying(2), 8);
        let report = tracker.report();
        assert_eq!((report.counts.total, report.counts.retrying), (2, 1));
        assert_eq!(report.unhealthy[0].since, 5);
        assert_eq!(report.unhealthy[0].state, retrying(2));
        tracker.resource(&"a", ResourceState::Failed { attempt: 3, error: "no parent".to_owned() }, 9);
        assert_eq!(tracker.report().unhealthy[0].since, 5, "it has been failing since then");
        tracker.resource(&"a", ResourceState::Ok, 10);
        assert_eq!(tracker.report().counts.unhealthy(), 0);
    }

    #[test]
    fn another_graph_keeps_the_failures_of_what_stays() {
        let mut tracker = Tracker::<&str>::default();
        tracker.graph(&mut ["a", "b"].iter());
        tracker.resource(&"a", retrying(1), 5);
        tracker.resource(&"b", retrying(1), 5);
        tracker.graph(&mut ["b", "c"].iter());
        let report = tracker.report();
        assert_eq!(report.counts.retrying, 1);
        assert_eq!(report.unhealthy[0].resource, "b");
    }

    #[test]
    fn lists_are_bounded_and_counts_are_exact() {
        let mut tracker = Tracker::<String>::default();
        let names: Vec<String> = (0..500).map(|number| format!("file[/{number}]")).collect();
        tracker.graph(&mut names.iter());
        for name in &names {
            tracker.resource(name, retrying(1), 5);
        }
        tracker.resource(&names[499], ResourceState::Failed { attempt: 1, error: "x".repeat(9000) }, 6);
        tracker.blocked((0..400).map(|number| (number.to_string(), "file[/0]".to_owned())), 7);
        let report = tracker.report();
        assert_eq!((report.counts.retrying, report.counts.failed, report.counts.blocked), (499, 1, 400));
        assert_eq!((report.unhealthy.len(), report.truncated), (MAX_LISTED, 800));
        let full = tracker.full_report();
        assert_eq!((full.unhealthy.len(), full.truncated, full.counts), (900, 0, report.counts));
        assert_eq!(report.unhealthy[0].resource, names[499], "the worst comes first");
        assert!(report.unhealthy[0].state.error().unwrap().len() <= crate::MAX_ERROR_LEN);
    }

    fn failed_value(since: u64, frozen: Vec<String>) -> FailedValue {
        FailedValue {
            expression: "os.readfile(\"/x\")".to_owned(),
            position: "main.mcl:3:7".to_owned(),
            since,
            error: "no such file".to_owned(),
            frozen,
            missing: Vec::new(),
        }
    }

    fn pending_value(since: u64, frozen: Vec<String>) -> PendingValue {
        PendingValue {
            expression: "world.getval(\"x\")".to_owned(),
            position: "main.mcl:9:1".to_owned(),
            since,
            frozen,
            missing: Vec::new(),
        }
    }

    fn sum(counts: &Counts) -> u64 {
        counts.by_state().iter().map(|(_, count)| count).sum()
    }

    #[test]
    fn a_failed_value_marks_what_it_freezes() {
        let mut tracker = Tracker::<&str>::default();
        tracker.graph(&mut ["a", "b", "c"].iter());
        let value = failed_value(5, vec!["a".to_owned()]);
        let pending = vec![pending_value(7, vec!["b".to_owned()])];
        let values = OpenValues { failed: vec![value.clone(), value], pending, truncated: 0 };
        let error = || "no such file".to_owned();
        tracker.program(ProgramState::Stale { since: 3, error: error(), whole: false }, values.clone());
        tracker.quiet(true, true);
        let report = tracker.report();
        assert_eq!((report.counts.stale, report.state()), (2, HostState::Stale));
        let stale: Vec<_> =
            report.unhealthy.iter().map(|one| (one.since, one.state.error().unwrap())).collect();
        let readfile = "main.mcl:3:7: os.readfile(\"/x\"): no such file";
        assert_eq!(stale, [(5, readfile), (7, "main.mcl:9:1: world.getval(\"x\"): no value yet")]);
        tracker.program(ProgramState::Stale { since: 9, error: error(), whole: false }, values.clone());
        assert_eq!(tracker.program_state(), &ProgramState::Stale { since: 3, error: error(), whole: false });
        // A text with errors hides neither, and has a time of its own.
        tracker.program(ProgramState::Invalid { since: 9, error: error() }, values);
        assert_eq!(tracker.program_state(), &ProgramState::Invalid { since: 9, error: error() });
        assert_eq!(tracker.report().counts.stale, 2);
    }

    #[test]
    fn more_frozen_resources_than_are_listed_are_counted() {
        let mut tracker = Tracker::<String>::default();
        let names: Vec<String> = (0..250).map(|number| format!("file[/{number}]")).collect();
        tracker.graph(&mut names.iter());
        let values = OpenValues { failed: vec![failed_value(5, names)], ..OpenValues::default() };
        tracker.program(ProgramState::Stale { since: 3, error: String::new(), whole: false }, values);
        let report = tracker.report();
        assert_eq!((report.counts.stale, sum(&report.counts)), (250, 250));
        assert_eq!((report.unhealthy.len(), report.truncated), (MAX_LISTED, 150));
        assert_eq!((report.values.failed[0].frozen.len(), report.values.truncated), (MAX_LISTED, 150));
        assert_eq!(tracker.full_report().values.failed[0].frozen.len(), 250);
    }

    #[test]
    fn a_resource_has_one_state_the_worst() {
        let mut tracker = Tracker::<&str>::default();
        tracker.graph(&mut ["a", "b", "c", "d", "e", "f"].iter());
        let frozen = ["a", "b"].map(str::to_owned).to_vec();
        let values = OpenValues { failed: vec![failed_value(5, frozen)], ..OpenValues::default() };
        tracker.program(ProgramState::Stale { since: 3, error: String::new(), whole: false }, values);
        tracker.resource(&"a", retrying(1), 5);
        tracker.resource(&"c", ResourceState::WouldChange, 5);
        tracker.blocked(["a", "b", "c"].map(|name| (name.to_owned(), "a".to_owned())), 6);
        tracker.pending(9);
        tracker.changed(9);
        let report = tracker.report();
        let Counts { retrying, stale, blocked, would_change, pending, .. } = report.counts;
        assert_eq!((retrying, stale, blocked, would_change, pending), (1, 1, 1, 0, 3));
        assert_eq!(sum(&report.counts), 6);
        let listed: Vec<&str> = report.unhealthy.iter().map(|one| one.resource.as_str()).collect();
        assert_eq!(listed, ["a", "b", "c"]);
    }

    #[test]
    fn a_program_without_a_graph_leaves_no_resource_that_is_current() {
        let mut tracker = Tracker::<&str>::default();
        tracker.graph(&mut ["a", "b", "c"].iter());
        tracker.resource(&"a", retrying(1), 5);
        let error = "main.mcl:1:1: the program panics".to_owned();
        tracker.program(ProgramState::Stale { since: 3, error, whole: true }, OpenValues::default());
        let report = tracker.report();
        assert_eq!((report.counts.retrying, report.counts.stale), (1, 2));
        let named: Vec<&str> = report.unhealthy.iter().map(|found| found.resource.as_str()).collect();
        assert_eq!(named, ["a", "b", "c"]);
        assert_eq!(report.unhealthy[1].state.error(), Some("main.mcl:1:1: the program panics"));
    }

    #[test]
    fn what_is_pending_counts_unless_everything_is_in_its_declared_state() {
        let mut tracker = Tracker::<&str>::default();
        tracker.graph(&mut ["a", "b"].iter());
        tracker.program(ProgramState::Live, OpenValues::default());
        tracker.pending(1);
        tracker.quiet(true, true);
        assert_eq!(tracker.report().state(), HostState::Converged, "a check is nothing to wait for");
        tracker.quiet(false, false);
        assert_eq!((tracker.report().counts.pending, tracker.report().state()), (1, HostState::Working));
        tracker.quiet(true, false);
        let report = tracker.report();
        assert_eq!((report.counts.pending, report.state()), (1, HostState::Degraded));
        assert_eq!(report.summary(), "degraded: 2 resources, 1 pending");
        assert!(!report.is_settled());
    }

    #[test]
    fn a_graph_that_is_quiet_and_not_in_its_declared_state_has_not_converged_whatever_is_known_of_it() {
        let mut tracker = Tracker::<&str>::default();
        tracker.graph(&mut ["a", "b"].iter());
        tracker.program(ProgramState::Live, OpenValues::default());
        tracker.resource(&"a", retrying(1), 5);
        tracker.quiet(true, false);
        assert_eq!(tracker.report().state(), HostState::Degraded);
        // It has recovered, and what was blocked behind it is about to run.
        tracker.resource(&"a", ResourceState::Ok, 6);
        assert_eq!(tracker.report().state(), HostState::Working);
        assert!(tracker.is_quiet() && !tracker.is_converged());
        tracker.quiet(true, true);
        assert_eq!(tracker.report().state(), HostState::Converged);
    }

    #[test]
    fn a_resource_that_is_left_alone_flaps_no_longer() {
        let mut tracker = Tracker::<&str>::default();
        let flapping = ResourceState::Flapping { by: None, repairs: 12, backoff_ms: 8000 };
        tracker.resource(&"a", flapping.clone(), 5);
        tracker.resource(&"a", flapping, 100);
        tracker.expire_flapping(408, Duration::from_secs(300));
        assert_eq!(tracker.report().counts.flapping, 1);
        tracker.expire_flapping(409, Duration::from_secs(300));
        assert_eq!(tracker.report().counts.flapping, 0);
    }

    #[test]
    fn blocked_resources_keep_the_time_since_which_they_are() {
        let mut tracker = Tracker::<&str>::default();
        let listed = |names: &[&str]| -> Vec<(String, String)> {
            names.iter().map(|name| ((*name).to_owned(), "f".to_owned())).collect()
        };
        tracker.graph(&mut ["a", "b", "f"].iter());
        tracker.resource(&"f", retrying(1), 5);
        tracker.blocked(listed(&["a"]), 5);
        tracker.blocked(listed(&["a", "b"]), 8);
        let report = tracker.report();
        let since: Vec<u64> = report.unhealthy[1..].iter().map(|report| report.since).collect();
        assert_eq!(since, [5, 8]);
        assert_eq!(report.state(), HostState::Degraded);
        tracker.resource(&"f", ResourceState::Ok, 9);
        assert_eq!(tracker.report().counts.blocked, 0, "nothing fails that could block it");
    }
}
