//! Planning: what the decider does. One membership change after the other, each written down before it is begun.

use std::collections::BTreeMap;

use super::keys::{DECIDER, Failure, Keys, PLAN, SIZE, failure_key, write_size};
use super::placement::{
    Candidate, Situation, Standing, has_majority, may_promote, may_remove, obstacles, offer_of, voters,
};
use super::{
    Change, Member, MemberId, Membership, Output, Plan, Reason, Request, Settings, Trouble, View, Who,
};
use mgmt_store::{Condition, Effect, Transaction};

/// What a decider remembers, by its own clock and for as long as it is one.
#[derive(Debug)]
pub(super) struct Rule {
    /// The revision in which the office became ours.
    term: u64,
    since: u64,
    /// Members that are not healthy, and since when.
    ailing: BTreeMap<MemberId, u64>,
    /// How often a host has failed, and since when we know.
    failed: BTreeMap<String, (u32, u64)>,
    /// The change under way.
    change: Option<Progress>,
    /// Since when the number of voters is even.
    even_since: Option<u64>,
    /// Since when this host does not find healthy what must be: a majority, as the store works, or members that find
    /// themselves healthy.
    blind_since: Option<u64>,
}

#[derive(Debug)]
struct Progress {
    attempt: u64,
    since: u64,
    /// The host that joins has been seen with its server up.
    started: bool,
}

/// What to do next.
#[derive(Debug)]
enum Move {
    Rest,
    Ask(Request),
    /// Another change, or none, and what goes with it.
    Write(Option<Change>, Vec<Effect>),
    /// Something else than the plan.
    Keep(Vec<Effect>),
    /// Let somebody else decide.
    Resign,
}

impl Membership {
    /// Decides, if this host is the one that does.
    pub(super) fn decide(&mut self, view: &View, look: u64, now: u64, out: &mut Vec<Output>) {
        let Some(term) = self.term(view) else {
            self.rule = None;
            return;
        };
        let rule = match self.rule.take() {
            Some(rule) if rule.term == term => rule,
            _ => Rule::new(term, now),
        };
        let rule = self.rule.insert(rule);
        rule.observe(view, now);
        if now < rule.since.saturating_add(self.config.settings.aftermath()) || !self.ruling.is_free(look) {
            return;
        }
        let (chosen, mut troubles) = self.next_move(view, now);
        self.troubles.append(&mut troubles);
        if matches!(chosen, Move::Resign) {
            self.stands_from = now.saturating_add(self.config.settings.back_off);
        }
        let Some(request) = self.request(view, term, chosen) else { return };
        self.call(Who::Ruling, request, now, out);
    }

    /// The revision in which this host became the decider, if it is.
    fn term(&self, view: &View) -> Option<u64> {
        let held = self.lease.held?;
        let decider = view.keys.decider.as_ref()?;
        let ours = decider.value.instance == self.config.instance && decider.lease == Some(held.id);
        let identity = view.keys.identity.as_deref()?;
        let stranger = self.disk.member().is_some_and(|(ours, _)| ours != identity);
        (ours && self.config.serve && self.leave.is_none() && !stranger).then_some(decider.created)
    }

    fn request(&self, view: &View, term: u64, chosen: Move) -> Option<Request> {
        let mut conditions = vec![Condition::Created(DECIDER.to_owned(), term)];
        let plan = view.keys.plan.as_ref();
        conditions.push(match plan {
            Some(plan) => Condition::Modified(PLAN.to_owned(), plan.modified),
            None => Condition::Missing(PLAN.to_owned()),
        });
        let effects = match chosen {
            Move::Rest => return None,
            Move::Ask(request) => return Some(request),
            Move::Keep(effects) => effects,
            Move::Resign => vec![Effect::Delete(DECIDER.to_owned())],
            Move::Write(change, mut effects) => {
                let before = plan.map_or(0, |plan| plan.value.attempt);
                // A host that is brought up after it has been added is still the same attempt.
                let old = plan.and_then(|plan| plan.value.change.as_ref());
                let goes_on =
                    matches!((old, &change), (Some(Change::Join { .. }), Some(Change::Join { .. })));
                let begins = change.is_some() && !goes_on;
                let plan = Plan { attempt: before.saturating_add(u64::from(begins)), change };
                effects.push(Effect::Put { key: PLAN.to_owned(), value: plan.write(), lease: None });
                effects
            }
        };
        Some(Request::Commit(Transaction { conditions, effects, ..Transaction::default() }))
    }

    fn next_move(&self, view: &View, now: u64) -> (Move, Vec<Trouble>) {
        let keys = &*view.keys;
        let Some(rule) = &self.rule else { return (Move::Rest, Vec::new()) };
        if let Some((key, reason)) = keys.unreadable_basis() {
            let trouble = Trouble::Unreadable { key: key.to_owned(), reason: reason.to_owned() };
            return (Move::Rest, vec![trouble]);
        }
        let resign_after = self.config.settings.dead_after;
        if rule.blind_since.is_some_and(|since| now.saturating_sub(since) >= resign_after) {
            return (Move::Resign, vec![Trouble::BadlyConnected]);
        }
        if !has_majority(&view.members) {
            return (Move::Rest, Vec::new());
        }
        let Some(ideal) = keys.ideal else {
            let value = write_size(self.config.ideal);
            let put = Effect::Put { key: SIZE.to_owned(), value, lease: None };
            return (Move::Keep(vec![put]), Vec::new());
        };
        let ideal = usize::try_from(ideal).unwrap_or(usize::MAX);
        let (situation, troubles) =
            rule.situation(view, ideal, &self.config.host, &self.config.settings, now);
        let pursuit = Pursuit { rule, view, situation: &situation, settings: &self.config.settings, now };
        let chosen = match keys.plan.as_ref().and_then(|plan| plan.value.change.as_ref()) {
            Some(change) => pursuit.pursue(change),
            None => pursuit.begin(),
        };
        (chosen, troubles)
    }
}

impl Rule {
    fn new(term: u64, now: u64) -> Rule {
        Rule {
            term,
            since: now,
            ailing: BTreeMap::new(),
            failed: BTreeMap::new(),
            change: None,
            even_since: None,
            blind_since: None,
        }
    }

    /// Notes since when things are as they are.
    fn observe(&mut self, view: &View, now: u64) {
        let ailing = std::mem::take(&mut self.ailing);
        let ill = view.members.iter().filter(|member| !member.healthy);
        self.ailing = ill.map(|member| (member.id, *ailing.get(&member.id).unwrap_or(&now))).collect();

        let failed = std::mem::take(&mut self.failed);
        let since = |host: &String, count: u32| {
            failed.get(host).filter(|(known, _)| *known == count).map_or(now, |(_, since)| *since)
        };
        let failures = view.keys.failures.iter();
        self.failed = failures
            .map(|(host, failure)| (host.clone(), (failure.value.count, since(host, failure.value.count))))
            .collect();

        let plan = view.keys.plan.as_ref().filter(|plan| plan.value.change.is_some());
        self.change = plan.map(|plan| {
            let attempt = plan.value.attempt;
            let known = self.change.take().filter(|progress| progress.attempt == attempt);
            let mut progress = known.unwrap_or(Progress { attempt, since: now, started: false });
            if let Some(Change::Join { member: Some(id), .. }) = &plan.value.change {
                progress.started |= view.members.iter().any(|member| member.id == *id && member.healthy);
            }
            progress
        });

        let even = voters(&view.members).count().is_multiple_of(2);
        self.even_since = even.then(|| self.even_since.unwrap_or(now));
        let says_otherwise =
            |member: &Member| offer_of(&view.keys, member).is_some_and(|(_, offer)| offer.well);
        let blind = !has_majority(&view.members)
            || view.members.iter().any(|member| !member.healthy && says_otherwise(member));
        self.blind_since = blind.then(|| self.blind_since.unwrap_or(now));
    }

    fn situation<'a>(
        &self,
        view: &'a View,
        ideal: usize,
        decider: &'a str,
        settings: &Settings,
        now: u64,
    ) -> (Situation<'a>, Vec<Trouble>) {
        let standings: BTreeMap<MemberId, Standing> = voters(&view.members)
            .map(|voter| (voter.id, self.standing(&view.keys, voter, settings, now)))
            .collect();
        let mut candidates = Vec::new();
        let mut troubles = Vec::new();
        for (host, offer) in &view.keys.volunteers {
            let offer = &offer.value;
            let dismissed = view.keys.dismissed.contains(host);
            if offer.leaving || dismissed || offer.member.is_some() || offer.peers.is_empty() {
                continue;
            }
            let obstacles = obstacles(&view.members, host, offer);
            let stays = obstacles.iter().find(|it| standings.get(&it.id) != Some(&Standing::Gone));
            if let Some(member) = stays {
                if !member.learner && member.healthy {
                    troubles.push(Trouble::Occupied { host: host.clone(), member: member.name.clone() });
                }
                continue;
            }
            let after = obstacles.first().map(|member| member.id);
            let (failures, since) = *self.failed.get(host).unwrap_or(&(0, 0));
            if failures == 0 || now >= since.saturating_add(back_off(settings, failures)) {
                candidates.push(Candidate { host, offer, failures, after });
            }
        }
        let even_for = self.even_since.map_or(0, |since| now.saturating_sub(since));
        let situation = Situation {
            members: &view.members,
            standings,
            candidates,
            ideal,
            decider,
            uneven_is_better: even_for >= settings.uneven_after,
        };
        (situation, troubles)
    }

    fn standing(&self, keys: &Keys, voter: &Member, settings: &Settings, now: u64) -> Standing {
        let ill_for = self.ailing.get(&voter.id).map(|since| now.saturating_sub(*since));
        let offer = offer_of(keys, voter);
        if offer.is_some_and(|(_, offer)| offer.leaving) || is_dismissed(keys, voter) {
            return Standing::Leaving;
        }
        let host_is_there = offer.is_some() || keys.unclear.contains(&voter.name);
        match ill_for {
            Some(_) if offer.is_some_and(|(_, offer)| offer.well) => Standing::Ailing,
            None if host_is_there => Standing::Serving,
            None => Standing::Silent,
            Some(time) if host_is_there && time >= settings.sick_after => Standing::Gone,
            Some(time) if !host_is_there && time >= settings.dead_after => Standing::Gone,
            Some(_) => Standing::Ailing,
        }
    }
}

/// A change on its way.
struct Pursuit<'a> {
    rule: &'a Rule,
    view: &'a View,
    situation: &'a Situation<'a>,
    settings: &'a Settings,
    now: u64,
}

impl Pursuit<'_> {
    fn begin(&self) -> Move {
        let Some(change) = self.situation.choose() else { return self.tidy() };
        let mut effects = Vec::new();
        if let Change::Remove { member, reason: Reason::Gone, .. } = &change {
            // A host that is there while its server is ill shall not be the first to take its own place.
            let member = self.view.members.iter().find(|it| it.id == *member);
            let offer = member.and_then(|member| offer_of(&self.view.keys, member));
            effects.extend(offer.map(|(host, _)| self.blame(host)));
        }
        Move::Write(Some(change), effects)
    }

    /// Forgets the failures of hosts that are not there any more, after a while.
    fn tidy(&self) -> Move {
        let forgotten = self.rule.failed.iter().find(|(host, (_, since))| {
            let away = !self.view.keys.volunteers.contains_key(*host);
            away && self.now >= since.saturating_add(self.settings.back_off_most)
        });
        forgotten.map_or(Move::Rest, |(host, _)| Move::Keep(vec![Effect::Delete(failure_key(host))]))
    }

    fn pursue(&self, change: &Change) -> Move {
        match change {
            Change::Join { host, instance, peers, member: None } => self.add(host, instance, peers),
            Change::Join { host, instance, member: Some(id), .. } => self.bring_up(host, instance, *id),
            Change::Remove { member, reason, .. } => self.remove(*member, *reason),
        }
    }

    fn add(&self, host: &str, instance: &str, peers: &[String]) -> Move {
        let mut members = self.view.members.iter();
        if let Some(found) = members.find(|member| peers.iter().any(|url| member.peers.contains(url))) {
            if !found.learner {
                return Move::Write(None, Vec::new());
            }
            let join = Change::Join {
                host: host.to_owned(),
                instance: instance.to_owned(),
                peers: peers.to_vec(),
                member: Some(found.id),
            };
            return Move::Write(Some(join), Vec::new());
        }
        let offer = self.view.keys.volunteers.get(host).map(|offer| &offer.value);
        let dismissed = self.view.keys.dismissed.contains(host);
        let stands =
            offer.is_some_and(|offer| offer.instance == instance && !offer.leaving && offer.member.is_none());
        if !stands || dismissed {
            return Move::Write(None, Vec::new());
        }
        if self.is_over(self.settings.change_within) {
            return Move::Write(None, vec![self.blame(host)]);
        }
        Move::Ask(Request::AddLearner { peers: peers.to_vec() })
    }

    fn bring_up(&self, host: &str, instance: &str, id: MemberId) -> Move {
        let Some(member) = self.view.members.iter().find(|member| member.id == id) else {
            return Move::Write(None, vec![self.blame(host)]);
        };
        if !member.learner {
            return Move::Write(None, vec![Effect::Delete(failure_key(host))]);
        }
        let back = Change::Remove { host: host.to_owned(), member: id, reason: Reason::Late };
        let offer = self.view.keys.volunteers.get(host).map(|offer| &offer.value);
        if offer.is_some_and(|offer| offer.leaving) || self.view.keys.dismissed.contains(host) {
            return Move::Write(Some(back), Vec::new());
        }
        // Another run of the program, without the data: it must not start as this member.
        if offer.is_some_and(|offer| offer.instance != instance && offer.member != Some(id)) {
            return Move::Write(Some(back), vec![self.blame(host)]);
        }
        let offered = offer.is_some_and(|offer| offer.member == Some(id));
        if offered && may_promote(&self.view.members, id) {
            return Move::Ask(Request::Promote(id));
        }
        let started = self.rule.change.as_ref().is_some_and(|progress| progress.started);
        let more = if started { self.settings.catch_up_within } else { 0 };
        if self.is_over(self.settings.start_within.saturating_add(more)) {
            let innocent = offered && member.healthy && member.caught_up;
            let effects = if innocent { Vec::new() } else { vec![self.blame(host)] };
            return Move::Write(Some(back), effects);
        }
        Move::Rest
    }

    fn remove(&self, id: MemberId, reason: Reason) -> Move {
        let members = &self.view.members;
        let Some(member) = members.iter().find(|member| member.id == id) else {
            return Move::Write(None, Vec::new());
        };
        let offer = offer_of(&self.view.keys, member);
        let warranted = match reason {
            Reason::Orphan | Reason::Late => member.learner,
            Reason::Gone => !member.healthy,
            Reason::Leaving => {
                offer.is_none_or(|(_, offer)| offer.leaving) || is_dismissed(&self.view.keys, member)
            }
            Reason::Surplus => voters(members).count() > self.situation.want(),
        };
        if !warranted || self.is_over(self.settings.change_within) {
            return Move::Write(None, Vec::new());
        }
        if !may_remove(members, id) {
            return Move::Rest;
        }
        if member.leader {
            let others = voters(members).filter(|voter| voter.id != id && voter.healthy);
            let heir = others.min_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
            return heir.map_or(Move::Rest, |heir| Move::Ask(Request::MoveLeader(heir.id)));
        }
        Move::Ask(Request::Remove(id))
    }

    /// The change under way has taken longer than this.
    fn is_over(&self, time: u64) -> bool {
        self.rule.change.as_ref().is_some_and(|progress| self.now.saturating_sub(progress.since) >= time)
    }

    fn blame(&self, host: &str) -> Effect {
        let before = self.view.keys.failures.get(host).map_or(0, |failure| failure.value.count);
        let failure = Failure { count: before.saturating_add(1) };
        Effect::Put { key: failure_key(host), value: failure.write(), lease: None }
    }
}

/// The host of a member shall not serve.
fn is_dismissed(keys: &Keys, member: &Member) -> bool {
    let offered = offer_of(keys, member).is_some_and(|(host, _)| keys.dismissed.contains(host));
    offered || keys.dismissed.contains(&member.name)
}

/// How long a host has to wait after so many failures.
fn back_off(settings: &Settings, failures: u32) -> u64 {
    let doubled = settings.back_off.saturating_mul(1 << failures.saturating_sub(1).min(20));
    doubled.min(settings.back_off_most)
}
