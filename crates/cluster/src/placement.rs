//! Placement: which membership change comes next, and which are safe. Pure functions of the current members and volunteers.

use std::collections::BTreeMap;

use super::keys::{Change, Keys, MemberId, Reason, Volunteer};

/// A member of the cluster as one host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub id: MemberId,
    /// The host's name. Empty until its server has run for the first time.
    pub name: String,
    /// Where other servers reach it.
    pub peers: Vec<String>,
    /// It gets the data and has no vote.
    pub learner: bool,
    /// It leads the other servers.
    pub leader: bool,
    /// It answers and is in touch with the leader.
    pub healthy: bool,
    /// It has all the data, or nearly.
    pub caught_up: bool,
}

/// What is known of a voter beyond its health at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is healthy and its host offers to serve.
    Serving,
    /// It is healthy, and its host says nothing.
    Silent,
    /// It is not healthy, and may be again soon.
    Ailing,
    /// Its host wants to serve no longer.
    Leaving,
    /// It has been away for too long, or its data is lost.
    Gone,
}

impl Standing {
    fn is_kept(self) -> bool {
        matches!(self, Standing::Serving | Standing::Silent | Standing::Ailing)
    }
}

/// Everything that a decision depends on.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) members: &'a [Member],
    pub(crate) standings: BTreeMap<MemberId, Standing>,
    /// Hosts that could join.
    pub(crate) candidates: Vec<Candidate<'a>>,
    /// How many voters there shall be.
    pub(crate) ideal: usize,
    /// The host that decides, which stays if it can.
    pub(crate) decider: &'a str,
    /// There has been an even number of voters for long enough.
    pub(crate) uneven_is_better: bool,
}

/// A host that could join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) host: &'a str,
    pub(crate) offer: &'a Volunteer,
    pub(crate) failures: u32,
    /// The voter that is gone and has to be removed first, as it has the host's name or an address.
    pub(crate) after: Option<MemberId>,
}

impl<'a> Situation<'a> {
    /// The next change, if anything should change.
    pub(crate) fn choose(&self) -> Option<Change> {
        if !has_majority(self.members) {
            return None;
        }
        if let Some(orphan) = self.members.iter().find(|member| member.learner) {
            return Some(removal(orphan, Reason::Orphan));
        }
        self.remove_gone().or_else(|| self.remove_leaving()).or_else(|| self.shrink()).or_else(|| self.grow())
    }

    /// How many voters there should be in the end: an odd number, as an even one survives no more failures than the
    /// odd one below it. A voter that is gone counts if nobody could take its place and its place makes the number odd:
    /// taking it away would not help, and it may come back.
    pub(crate) fn want(&self) -> usize {
        let kept = self.count(Standing::is_kept);
        let gone = self.count(|standing| standing == Standing::Gone);
        let eligible = kept + self.candidates.len();
        let most = odd(self.ideal);
        if self.candidates.is_empty() && gone > 0 && eligible.is_multiple_of(2) && eligible < most {
            return eligible + 1;
        }
        odd(most.min(eligible))
    }

    fn count(&self, which: impl Fn(Standing) -> bool) -> usize {
        self.standings.values().filter(|standing| which(**standing)).count()
    }

    fn voters_that_are(&self, which: impl Fn(Standing) -> bool) -> impl Iterator<Item = &'a Member> {
        let members = voters(self.members);
        members.filter(move |voter| self.standings.get(&voter.id).is_some_and(|standing| which(*standing)))
    }

    fn remove_gone(&self) -> Option<Change> {
        let want = self.want();
        let surplus = voters(self.members).count() > want;
        let replaceable = self.count(Standing::is_kept) < want && !self.candidates.is_empty();
        if !surplus && !replaceable {
            return None;
        }
        let mut gone: Vec<&Member> = self.voters_that_are(|standing| standing == Standing::Gone).collect();
        let in_nobodys_way = |member: &Member| !self.candidates.iter().any(|it| it.after == Some(member.id));
        gone.sort_by(|a, b| {
            let rank = (in_nobodys_way(a), &a.name, a.id);
            rank.cmp(&(in_nobodys_way(b), &b.name, b.id))
        });
        let found = gone.into_iter().find(|member| may_remove(self.members, member.id));
        found.map(|member| removal(member, Reason::Gone))
    }

    fn remove_leaving(&self) -> Option<Change> {
        let mut leaving: Vec<&Member> =
            self.voters_that_are(|standing| standing == Standing::Leaving).collect();
        leaving.sort_by(|a, b| (a.leader, &a.name, a.id).cmp(&(b.leader, &b.name, b.id)));
        let found = leaving.into_iter().find(|member| may_remove(self.members, member.id));
        found.map(|member| removal(member, Reason::Leaving))
    }

    /// Takes away a voter of too many. The ones that are missed least come first; the leader and the decider come
    /// last, because taking them away makes everybody wait.
    fn shrink(&self) -> Option<Change> {
        let number = voters(self.members).count();
        let for_parity = number <= self.ideal;
        if number <= self.want() || self.count(|standing| !standing.is_kept()) > 0 {
            return None;
        }
        if for_parity && !self.uneven_is_better {
            return None;
        }
        let worth = |member: &Member| match self.standings.get(&member.id) {
            Some(Standing::Ailing) => 0,
            Some(Standing::Silent) => 1,
            _ => 2,
        };
        let mut kept: Vec<&Member> = self.voters_that_are(Standing::is_kept).collect();
        kept.sort_by(|a, b| {
            let rank = |member: &Member| (worth(member), member.leader, member.name == self.decider);
            rank(a).cmp(&rank(b)).then_with(|| (&b.name, b.id).cmp(&(&a.name, a.id)))
        });
        let found = kept.into_iter().find(|member| may_remove(self.members, member.id));
        found.map(|member| removal(member, Reason::Surplus))
    }

    /// Adds a voter. Usually the host comes first that has failed least. But if no host can be spared, the most doubtful
    /// comes first: should it fail, nothing has been changed that would have to be taken back.
    fn grow(&self) -> Option<Change> {
        let kept = self.count(Standing::is_kept);
        let want = self.want();
        if kept >= want || !has_room(self.members) {
            return None;
        }
        let nobody_spare = kept + self.candidates.len() == want;
        let ready = self.candidates.iter().filter(|candidate| candidate.after.is_none());
        let best = ready.min_by(|a, b| {
            let by_failures =
                if nobody_spare { b.failures.cmp(&a.failures) } else { a.failures.cmp(&b.failures) };
            by_failures.then_with(|| a.host.cmp(b.host))
        })?;
        Some(Change::Join {
            host: best.host.to_owned(),
            instance: best.offer.instance.clone(),
            peers: best.offer.peers.clone(),
            member: None,
        })
    }
}

fn removal(member: &Member, reason: Reason) -> Change {
    Change::Remove { host: member.name.clone(), member: member.id, reason }
}

/// The members that have a vote.
pub(crate) fn voters(members: &[Member]) -> impl Iterator<Item = &Member> {
    members.iter().filter(|member| !member.learner)
}

/// How many of so many voters have to agree.
pub(crate) fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

/// The largest odd number that is no larger, and at least one.
fn odd(number: usize) -> usize {
    number.saturating_sub(1) | 1
}

/// Enough voters are healthy for the store to work.
pub(crate) fn has_majority(members: &[Member]) -> bool {
    let all = voters(members).count();
    voters(members).filter(|voter| voter.healthy).count() >= quorum(all) && all > 0
}

/// Without this member, the voters that are healthy are still enough. For a learner that is no question.
pub(crate) fn may_remove(members: &[Member], id: MemberId) -> bool {
    let Some(member) = members.iter().find(|member| member.id == id) else { return false };
    if member.learner {
        return has_majority(members);
    }
    let others = voters(members).filter(|voter| voter.id != id);
    let (all, healthy) =
        others.fold((0, 0), |(all, healthy), voter| (all + 1, healthy + usize::from(voter.healthy)));
    has_majority(members) && all > 0 && healthy >= quorum(all)
}

/// One more voter can be had without depending on it: those that are healthy now are enough for one more. This cannot
/// be so with a single voter, because two have to agree in a cluster of two.
pub(crate) fn has_room(members: &[Member]) -> bool {
    let all = voters(members).count();
    let healthy = voters(members).filter(|voter| voter.healthy).count();
    healthy >= quorum(all + 1) || (all == 1 && healthy == 1)
}

/// A learner can be given a vote.
pub(crate) fn may_promote(members: &[Member], id: MemberId) -> bool {
    let ready = members.iter().any(|it| it.id == id && it.learner && it.healthy && it.caught_up);
    ready && has_room(members)
}

/// The member of a host, by what the host says itself.
pub(crate) fn offer_of<'a>(keys: &'a Keys, member: &Member) -> Option<(&'a str, &'a Volunteer)> {
    let mut offers = keys.volunteers.iter();
    let found = offers.find(|(_, offer)| offer.value.member == Some(member.id))?;
    Some((found.0, &found.1.value))
}

/// The members that have the name or an address of a host.
pub(crate) fn obstacles<'a>(members: &'a [Member], host: &str, offer: &Volunteer) -> Vec<&'a Member> {
    let in_the_way =
        |member: &&Member| member.name == host || offer.peers.iter().any(|url| member.peers.contains(url));
    members.iter().filter(in_the_way).collect()
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
