//! Keeps a [`HostReport`] up to date from single events.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::time::Duration;

use crate::{
    Counts, DeployState, DuplicateHost, HostReport, MAX_LISTED, ProgramState, ResourceReport, ResourceState,
    bounded_error,
};

/// Everything that an agent reports, as events come in. `K` names a resource.
///
/// An event costs constant time; [`Tracker::report`] costs time in proportion to the resources that are not ok.
#[derive(Debug)]
pub struct Tracker<K> {
    /// Every resource whose state is not ok, pending or blocked.
    states: HashMap<K, Known>,
    /// The blocked resources that are listed, and the number of all.
    blocked: (Vec<ResourceReport>, u64),
    total: u64,
    /// Some of the resources, at most [`MAX_LISTED`], for when all are stale.
    some: Vec<K>,
    pending: u64,
    changed: u64,
    quiet: bool,
    converged: bool,
    noop: bool,
    program: ProgramState,
    deploy: DeployState,
    duplicate: Option<DuplicateHost>,
}

/// The state of a resource.
#[derive(Debug)]
struct Known {
    /// Since when it has a state of this name.
    since: u64,
    /// When it was reported last.
    reported: u64,
    state: ResourceState,
}

impl<K> Default for Tracker<K> {
    fn default() -> Self {
        Tracker {
            states: HashMap::new(),
            blocked: (Vec::new(), 0),
            total: 0,
            some: Vec::new(),
            pending: 0,
            changed: 0,
            quiet: false,
            converged: false,
            noop: false,
            program: ProgramState::default(),
            deploy: DeployState::default(),
            duplicate: None,
        }
    }
}

impl<K: Clone + Eq + Hash + Display> Tracker<K> {
    /// Takes the state of a resource. The time of entry is kept while the state has the same name.
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
            Some(known) if known.state.name() == state.name() => {
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

    /// Takes the blocked resources: some of them with the resource that blocks each, and the number of all.
    pub fn blocked(&mut self, listed: impl IntoIterator<Item = (String, String)>, total: u64, now: u64) {
        let before: HashMap<String, u64> =
            self.blocked.0.drain(..).map(|report| (report.resource, report.since)).collect();
        let report = |(resource, by): (String, String)| ResourceReport {
            since: before.get(&resource).copied().unwrap_or(now),
            resource,
            state: ResourceState::Blocked { by },
        };
        let listed: Vec<ResourceReport> = listed.into_iter().take(MAX_LISTED).map(report).collect();
        let total = total.max(listed.len() as u64);
        self.blocked = (listed, total);
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

    /// Takes whether the whole graph runs under `noop`.
    pub fn noop(&mut self, noop: bool) {
        self.noop = noop;
    }

    /// Takes the state of the program.
    pub fn program(&mut self, mut state: ProgramState) {
        match &mut state {
            ProgramState::Stale { error, values, .. } => {
                error.truncate(bounded_error(error).len());
                values.truncate(MAX_LISTED);
                for value in values {
                    value.error.truncate(bounded_error(&value.error).len());
                    value.expression.truncate(bounded_error(&value.expression).len());
                    value.frozen.truncate(MAX_LISTED);
                }
            }
            ProgramState::Invalid { error, .. } => error.truncate(bounded_error(error).len()),
            ProgramState::Waiting { values, .. } => {
                values.truncate(MAX_LISTED);
                for value in values {
                    value.expression.truncate(bounded_error(&value.expression).len());
                    value.frozen.truncate(MAX_LISTED);
                    value.missing.truncate(MAX_LISTED);
                }
            }
            ProgramState::Starting | ProgramState::Live => {}
        }
        // The program has been in this state since it first was, whatever is added to it.
        if let (
            ProgramState::Stale { since: known, .. } | ProgramState::Invalid { since: known, .. },
            ProgramState::Stale { since, .. } | ProgramState::Invalid { since, .. },
        ) = (&self.program, &mut state)
        {
            *since = (*known).min(*since);
        }
        self.program = state;
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

    /// The report.
    pub fn report(&self) -> HostReport {
        let mut counts = Counts { total: self.total, ..Counts::default() };
        let mut unhealthy: Vec<(&K, u64, &ResourceState)> = Vec::new();
        for (resource, Known { since, state, .. }) in &self.states {
            *count_of(&mut counts, state) += 1;
            if state.is_unhealthy() {
                unhealthy.push((resource, *since, state));
            }
        }
        // The worst first; of the others, no more than are listed.
        let order = |one: &(&K, u64, &ResourceState)| (one.2.rank(), one.1);
        if unhealthy.len() > MAX_LISTED {
            unhealthy.select_nth_unstable_by_key(MAX_LISTED, order);
            unhealthy.truncate(MAX_LISTED);
        }
        let named = unhealthy.into_iter().map(|(resource, since, state)| ResourceReport {
            resource: resource.to_string(),
            since,
            state: state.clone(),
        });
        let mut listed: Vec<ResourceReport> = named.collect();
        // Without a failing resource nothing is blocked, whatever was last heard.
        if counts.failing() > 0 {
            counts.blocked += self.blocked.1;
            listed.extend(self.blocked.0.iter().cloned());
        }
        match &self.program {
            ProgramState::Stale { since, error, whole: true, .. } => {
                // A resource has one state, and the worst one counts.
                counts.stale = counts.total.saturating_sub(counts.unhealthy());
                let is_well = |resource: &&K| !self.states.contains_key(*resource);
                let all = self.some.iter().filter(is_well).take(usize::try_from(counts.stale).unwrap_or(0));
                listed.extend(all.map(|resource| ResourceReport {
                    resource: resource.to_string(),
                    since: *since,
                    state: ResourceState::Stale { error: error.clone() },
                }));
            }
            _ => listed.extend(self.frozen(&mut counts)),
        }
        // A check that an event leads to is nothing to wait for while everything is in its declared state.
        if !self.converged || counts.failing() > 0 {
            counts.pending = self.pending;
        }
        // A resource has one state: what was restored may be frozen, or flap.
        let other = counts.unhealthy() + counts.pending + counts.would_change;
        counts.changed = self.changed.min(self.total.saturating_sub(other));
        listed.sort_by(|a, b| {
            (a.state.rank(), a.since, &a.resource).cmp(&(b.state.rank(), b.since, &b.resource))
        });
        listed.truncate(MAX_LISTED);
        HostReport {
            quiet: self.quiet,
            noop: self.noop,
            program: self.program.clone(),
            deploy: self.deploy.clone(),
            counts,
            unhealthy: listed,
            duplicate: self.duplicate.clone(),
        }
    }

    /// The resources that are frozen because a value has failed or is waited for.
    fn frozen(&self, counts: &mut Counts) -> Vec<ResourceReport> {
        type Value<'a> = (u64, &'a str, &'a str, &'a str, &'a [String]);
        let values: Vec<Value<'_>> = match &self.program {
            ProgramState::Stale { since, values, .. } => values
                .iter()
                .map(|value| (*since, &*value.position, &*value.expression, &*value.error, &*value.frozen))
                .collect(),
            ProgramState::Waiting { values, .. } => values
                .iter()
                .map(|value| {
                    (value.since, &*value.position, &*value.expression, "no value yet", &*value.frozen)
                })
                .collect(),
            ProgramState::Starting | ProgramState::Live | ProgramState::Invalid { .. } => return Vec::new(),
        };
        let mut found: Vec<ResourceReport> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for (since, position, expression, error, frozen) in values {
            for resource in frozen.iter().filter(|resource| seen.insert(resource.as_str())) {
                counts.stale += 1;
                let error = format!("{position}: {expression}: {error}");
                let state = ResourceState::Stale { error: bounded_error(&error).to_owned() };
                found.push(ResourceReport { resource: resource.clone(), since, state });
            }
        }
        found
    }
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
    use crate::{FailedValue, HostState};

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
        assert_eq!(tracker.report().unhealthy[0].since, 9);
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
        tracker.blocked((0..300).map(|number| (number.to_string(), "file[/0]".to_owned())), 400, 7);
        let report = tracker.report();
        assert_eq!((report.counts.retrying, report.counts.failed, report.counts.blocked), (499, 1, 400));
        assert_eq!(report.unhealthy.len(), MAX_LISTED);
        assert_eq!(report.unhealthy[0].resource, names[499], "the worst comes first");
        assert!(report.unhealthy[0].state.error().unwrap().len() <= crate::MAX_ERROR_LEN);
    }

    #[test]
    fn a_failed_value_marks_what_it_freezes() {
        let mut tracker = Tracker::<&str>::default();
        tracker.graph(&mut ["a", "b"].iter());
        let value = FailedValue {
            expression: "os.readfile(\"/x\")".to_owned(),
            position: "main.mcl:3:7".to_owned(),
            error: "no such file".to_owned(),
            frozen: vec!["a".to_owned()],
        };
        let stale = |since, values| ProgramState::Stale {
            since,
            error: "no such file".to_owned(),
            values,
            whole: false,
        };
        tracker.program(stale(3, vec![value.clone(), value]));
        tracker.quiet(true, true);
        let report = tracker.report();
        assert_eq!((report.counts.stale, report.state()), (1, HostState::Stale));
        let error = "main.mcl:3:7: os.readfile(\"/x\"): no such file";
        assert_eq!(report.unhealthy[0].state.error(), Some(error));
        tracker.program(stale(9, Vec::new()));
        assert!(matches!(tracker.program_state(), ProgramState::Stale { since: 3, .. }));
    }

    #[test]
    fn a_program_without_a_graph_leaves_no_resource_that_is_current() {
        let mut tracker = Tracker::<&str>::default();
        tracker.graph(&mut ["a", "b", "c"].iter());
        tracker.resource(&"a", retrying(1), 5);
        let error = "main.mcl:1:1: the program panics".to_owned();
        tracker.program(ProgramState::Stale { since: 3, error, values: Vec::new(), whole: true });
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
        tracker.program(ProgramState::Live);
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
        tracker.resource(&"f", retrying(1), 5);
        tracker.blocked(listed(&["a"]), 1, 5);
        tracker.blocked(listed(&["a", "b"]), 2, 8);
        let report = tracker.report();
        let since: Vec<u64> = report.unhealthy[1..].iter().map(|report| report.since).collect();
        assert_eq!(since, [5, 8]);
        assert_eq!(report.state(), HostState::Degraded);
        tracker.resource(&"f", ResourceState::Ok, 9);
        assert_eq!(tracker.report().counts.blocked, 0, "nothing fails that could block it");
    }
}
