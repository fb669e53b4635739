//! What must never be, and what must be in the end.

use std::collections::{BTreeMap, BTreeSet};

use mgmt_cluster::{Change, Keys, Member, MemberId, Reason, Request, Settings, Trouble};

use super::servers::{Seat, Servers};
use super::story::{Order, Story};

#[derive(Default)]
pub(crate) struct Judge {
    /// The revision in which the decider of the latest change came to office, by cluster.
    terms: BTreeMap<String, u64>,
    /// Changes of the membership since nothing goes wrong any more.
    changes: u64,
    /// When a host was last blamed, and how often in a row.
    blamed: BTreeMap<(String, String), (u64, u32)>,
    /// Since when a host finds a member ill, by its own clock.
    ill: BTreeMap<(usize, MemberId), u64>,
    pub(crate) marks: Marks,
}

/// How often something has happened: a story that nothing happens in proves nothing.
#[derive(Default)]
pub(crate) struct Marks(pub(crate) BTreeMap<String, u64>);

impl Marks {
    pub(crate) fn merge(&mut self, other: &Marks) {
        for (name, times) in &other.0 {
            *self.0.entry(name.clone()).or_default() += times;
        }
    }
}

impl Judge {
    pub(crate) fn check(&self, right: bool, wrong: impl FnOnce() -> String) {
        assert!(right, "{}", wrong());
    }

    pub(crate) fn mark(&mut self, name: &str) {
        *self.marks.0.entry(name.to_owned()).or_default() += 1;
    }

    /// A host has seen the members.
    pub(crate) fn seen(&mut self, at: usize, now: u64, members: &[Member]) {
        for member in members {
            if member.healthy {
                self.ill.remove(&(at, member.id));
            } else {
                self.ill.entry((at, member.id)).or_insert(now);
            }
        }
    }

    /// A host has been started anew.
    pub(crate) fn forget(&mut self, at: usize) {
        self.ill.retain(|(host, _), _| *host != at);
    }

    pub(crate) fn calm(&mut self) {
        self.changes = 0;
    }

    /// Keys have been changed.
    pub(crate) fn committed(
        &mut self,
        (now, local): (u64, u64),
        settings: &Settings,
        before: &Keys,
        after: &Keys,
        order: &Order,
    ) {
        if let Some(identity) = &before.identity {
            self.check(after.identity.as_ref() == Some(identity), || "the identity has changed".to_owned());
        }
        if let Some(decider) = &after.decider
            && before.decider.is_none()
        {
            self.mark("decider");
            self.check(after.volunteers.contains_key(&decider.value.host), || {
                "a stranger decides".to_owned()
            });
        }
        let identity = after.identity.clone().unwrap_or_default();
        for (host, failure) in &after.failures {
            if before.failures.get(host).is_none_or(|old| old.value != failure.value) {
                self.mark("blamed");
                self.blamed.insert((identity.clone(), host.clone()), (now, failure.value.count));
            }
        }
        let (Some(old), Some(new)) = (&before.plan, &after.plan) else { return };
        if new.modified != old.modified {
            let office = after.decider.as_ref().map(|decider| decider.created);
            let term = order.truth.as_ref().map(|truth| truth.term);
            self.check(office == term, || format!("{} writes the plan, not being in office", order.host));
        }
        let (old, new) = (&old.value, &new.value);
        self.check(new.attempt >= old.attempt, || format!("attempt {} follows {}", new.attempt, old.attempt));
        if new != old {
            self.mark(&match &new.change {
                None => "plan done".to_owned(),
                Some(Change::Join { member, .. }) => format!("plan join, added: {}", member.is_some()),
                Some(Change::Remove { reason, .. }) => format!("plan remove {reason:?}"),
            });
        }
        if let Some(Change::Remove { member, reason: Reason::Gone, .. }) = &new.change
            && old.change.is_none()
        {
            let time = self.ill.get(&(order.host, *member)).map_or(0, |since| local - since);
            self.check(time >= settings.dead_after, || format!("{member} is given up after {time} ms"));
        }
        let begins = old.change.is_none() && new.change.is_some();
        self.check(!begins || new.attempt == old.attempt + 1, || "a change without an attempt".to_owned());
        let (Some(was), Some(is)) = (&old.change, &new.change) else { return };
        let goes_on = match (was, is) {
            _ if was == is => true,
            (Change::Join { host: a, member: None, .. }, Change::Join { host: b, member: Some(_), .. }) => {
                a == b
            }
            (Change::Join { member: Some(a), .. }, Change::Remove { member: b, .. }) => a == b,
            _ => false,
        };
        self.check(goes_on, || format!("{is} was begun before {was} was done"));
    }

    /// The membership is about to be changed.
    pub(crate) fn changed(
        &mut self,
        now: u64,
        settings: &Settings,
        keys: &Keys,
        before: &[Seat],
        after: &[Seat],
        order: &Order,
    ) {
        self.changes += 1;
        let request = &order.request;
        let Some(truth) = &order.truth else {
            return self.check(false, || format!("{request:?} is based on nothing"));
        };
        let plan = keys.plan.as_ref().map(|plan| &plan.value);
        let planned =
            plan.and_then(|plan| plan.change.as_ref()).is_some_and(|change| match (change, request) {
                (Change::Join { member: None, peers, .. }, Request::AddLearner { peers: added }) => {
                    peers == added
                }
                (Change::Join { member: Some(id), .. }, Request::Promote(promoted)) => id == promoted,
                (Change::Remove { member, .. }, Request::Remove(removed)) => member == removed,
                _ => false,
            });
        self.judge_reason(now, settings, keys, before, after, order);
        self.check(planned, || format!("{request:?} while the plan is {plan:?}"));
        let attempt = plan.map_or(0, |plan| plan.attempt);
        self.check(attempt == truth.attempt, || {
            format!("{request:?} belongs to attempt {} and comes in {attempt}", truth.attempt)
        });
        let identity = keys.identity.clone().unwrap_or_default();
        let last = self.terms.insert(identity, truth.term).unwrap_or(0);
        self.check(truth.term >= last, || {
            format!("{request:?} of the decider since {} comes after one since {last}", truth.term)
        });

        let well = Servers::agree(before, |id| truth.up.contains(&id));
        let stays = Servers::agree(after, |id| truth.up.contains(&id));
        self.check(!well || stays, || {
            format!("{request:?} costs the majority: up {:?}, {after:?}", truth.up)
        });
        self.check(after.iter().filter(|seat| seat.learner).count() <= 1, || "two learners".to_owned());
        self.check(after.iter().any(|seat| !seat.learner), || "no voters".to_owned());
        let mut names: Vec<&str> =
            after.iter().map(|seat| &*seat.name).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        self.check(names.windows(2).all(|pair| pair[0] != pair[1]), || format!("a name twice: {names:?}"));
        // A decision is carried out while what it is based on is fresh, even by a clock that is slow.
        let most = (settings.look_time + settings.send_within + settings.request_time) * 11 / 10;
        let age = now - truth.time;
        self.check(order.late || age <= most, || {
            format!("{request:?} of {} comes {age} ms after what it is based on", order.host)
        });
        if order.late {
            self.mark("late change");
        }
        self.mark(match request {
            Request::AddLearner { .. } => "added",
            Request::Promote(_) => "promoted",
            _ => "removed",
        });
    }
}

impl Judge {
    /// The change may be safe, but was there reason for it?
    fn judge_reason(
        &self,
        now: u64,
        settings: &Settings,
        keys: &Keys,
        before: &[Seat],
        after: &[Seat],
        order: &Order,
    ) {
        let (Some(truth), Some(plan)) = (&order.truth, &keys.plan) else { return };
        let request = &order.request;
        match (request, &plan.value.change) {
            (Request::Remove(id), Some(Change::Remove { reason, .. })) => {
                let voter = before.iter().any(|seat| seat.id == *id && !seat.learner);
                self.check(!voter || truth.leader != Some(*id), || format!("{request:?} removes the leader"));
                let seen_well = *reason == Reason::Gone && truth.healthy.contains(id);
                self.check(!seen_well, || format!("{request:?} removes a member that is well"));
            }
            (Request::Promote(id), _) => {
                let alone = before.iter().filter(|seat| !seat.learner).count() == 1;
                let without = Servers::agree(after, |other| other != *id && truth.up.contains(&other));
                self.check(alone || without, || format!("all depend on {id}: up {:?}, {after:?}", truth.up));
            }
            (Request::AddLearner { .. }, Some(Change::Join { host, .. })) => {
                let key = (keys.identity.clone().unwrap_or_default(), host.clone());
                if let Some((since, count)) = self.blamed.get(&key)
                    && keys.failures.contains_key(host)
                {
                    let wait = (settings.back_off << (count - 1).min(9)).min(settings.back_off_most) * 9 / 10;
                    self.check(now - since >= wait, || {
                        format!("{host} is tried again after {} ms", now - since)
                    });
                }
            }
            _ => {}
        }
    }
}

impl Story {
    /// Waits for everything to be as it should, and for it to stay so.
    pub(crate) fn judge_the_end(&mut self, most: Option<u64>) {
        let limit = self.now + 900_000;
        let mut good_since = None;
        while good_since.is_none_or(|since| self.now < since + 20_000) {
            self.run_until(self.now + 2_000);
            match self.wrong() {
                None => good_since = good_since.or(Some(self.now)),
                Some(wrong) => {
                    good_since = None;
                    assert!(self.now < limit, "not settled: {wrong}");
                }
            }
        }
        self.say("settled");
        self.judge.mark("settled");
        let most = most.unwrap_or(10 + 4 * self.hosts.len() as u64);
        let changes = self.judge.changes;
        assert!(changes <= most, "{changes} changes were made in all calm");
    }

    /// What is not yet as it should be.
    fn wrong(&mut self) -> Option<String> {
        if let Some(at) = self.hosts.iter().position(|host| host.leaving) {
            return Some(format!("{at} has not left"));
        }
        (0..self.clusters.len()).find_map(|cluster| self.wrong_with(cluster))
    }

    fn wrong_with(&mut self, cluster: usize) -> Option<String> {
        let owners = |story: &Story, id| {
            story.hosts.iter().any(|host| {
                host.data == Some((cluster, id)) && host.core.is_some() && !host.broken && host.serve
            })
        };
        let lost = !Servers::agree(&self.clusters[cluster].seats, |id| owners(self, id));
        // Too many disks are lost for it to work ever again.
        if lost {
            self.judge.mark("lost for ever");
            return None;
        }
        if self.majority(cluster).is_none() {
            return Some("there is no majority".to_owned());
        }
        let keys = self.clusters[cluster].keys();
        let ideal = self.clusters[cluster].ideal();
        let seats = &self.clusters[cluster].seats;
        let able = self.able(cluster, &keys.dismissed);
        if able.is_empty() {
            // Those that shall not serve do as long as nobody else can.
            self.judge.mark("nobody may serve");
            return None;
        }
        let broken_tries = self.hosts.iter().any(|host| host.broken && host.core.is_some());
        let odd = |number: usize| number.saturating_sub(1) | 1;
        let want = odd(able.len().min(odd(ideal)));
        let voters: Vec<_> = seats.iter().filter(|seat| !seat.learner).map(|seat| seat.id).collect();
        let well = voters.iter().filter(|id| {
            able.iter().any(|at| self.serves(*at, cluster) && self.hosts[*at].data == Some((cluster, **id)))
        });
        let well = well.count();
        let place_kept = able.len().is_multiple_of(2)
            && well == able.len()
            && voters.len() == well + 1
            && voters.len() <= odd(ideal);
        if !(well == want && voters.len() == well || place_kept) {
            return Some(format!(
                "{well} of {} voters are well, {want} should be: able {able:?}, ideal {ideal}, {seats:?}",
                voters.len()
            ));
        }
        let Some(decider) = &keys.decider else { return Some("nobody decides".to_owned()) };
        let host = &decider.value.host;
        let dismissed = keys.dismissed.contains(host);
        if !able.iter().any(|at| self.hosts[*at].name == *host) && !broken_tries && !dismissed {
            return Some(format!("{host} decides"));
        }
        if let Some(change) = keys.plan.as_ref().and_then(|plan| plan.value.change.as_ref()) {
            return (!broken_tries).then(|| format!("still trying to {change}"));
        }
        if seats.iter().any(|seat| seat.learner) {
            return (!broken_tries).then(|| "there is a learner".to_owned());
        }
        let names: BTreeSet<&str> = able.iter().map(|at| &*self.hosts[*at].name).collect();
        names
            .into_iter()
            .find(|name| !keys.volunteers.contains_key(*name))
            .map(|name| format!("{name} is silent"))
    }

    /// The hosts that can serve a cluster, and may.
    pub(crate) fn able(&self, cluster: usize, dismissed: &BTreeSet<String>) -> Vec<usize> {
        let seats = &self.clusters[cluster].seats;
        let able = |at: &usize| {
            let host = &self.hosts[*at];
            let duplicate = host.status.as_ref().is_some_and(|status| {
                status.troubles.iter().any(|trouble| matches!(trouble, Trouble::Duplicate { .. }))
            });
            let elsewhere = host.data.is_some_and(|(other, _)| other != cluster);
            let member = host.data.is_some_and(|(_, id)| seats.iter().any(|seat| seat.id == id));
            let connected = (0..self.hosts.len()).any(|it| self.serves(it, cluster) && self.reaches(*at, it));
            let there = host.core.is_some() && host.home == Some(cluster) && !elsewhere && connected;
            let may = host.serve && !dismissed.contains(&host.name);
            there && may && !host.broken && !host.leaving && (!duplicate || member)
        };
        (0..self.hosts.len()).filter(able).collect()
    }

    /// A host says that it has left.
    pub(crate) fn judge_leaving(&mut self, at: usize, member: bool) {
        let host = &self.hosts[at];
        let seat = host.data.is_some_and(|(cluster, id)| self.clusters[cluster].seat(id).is_some());
        self.judge.check(member || !seat, || format!("{at} left and is still a member"));
        self.judge.check(!member || !host.let_go, || format!("{at} did not wait to be let go"));
        let waited = self.local(at) - host.leaves_since;
        let alone = host.data.is_some_and(|(cluster, _)| self.clusters[cluster].voters().count() == 1);
        let patient = !member || alone || host.ending || waited >= self.settings.leave_within;
        self.judge
            .check(patient, || format!("{at} left after {waited} ms, though others could take its place"));
        self.judge
            .check(waited <= self.settings.leave_within + 50_000, || format!("{at} left after {waited} ms"));
        self.judge.mark(if member { "left with data" } else { "left" });
    }
}
