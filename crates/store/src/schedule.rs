//! Schedules: leader-elected choice of hosts among volunteers.
//!
//! Hosts volunteer for a name. One host, the leader, chooses among the volunteers of each name and stores who was chosen.
//! Everyone reads that. A leader writes only as long as the key that makes it the leader is the very one that it won, which
//! the store checks with every write; so one that has been asleep cannot undo what its successor has decided.
//!
//! A host that is chosen and loses the store does not know any more whether it still is. When the lease of its offer may
//! have ended, it no longer takes itself for chosen; the leader cannot choose another before that. The same goes for an offer that
//! has ended and was made anew: only a choice that is newer than an offer counts for it. What a host does because of a stale
//! answer is thereby limited to the time that it needs to stop.
//!
//! The strategy `rr` promises exclusion: another host takes the place of a chosen one only when the offer of that one is gone, and
//! an offer stays in the store for its [grace](Offer::grace) after its host has ceased to take itself for chosen, be it that its
//! lease may have ended or that it withdraws. In that time the host stops what the choice has started. Where the alphabet decides,
//! a newcomer can be chosen before the last one has heard of it; that is limited by the time of the offer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{Offer, STOP_GRACE, Strategy};
use mgmt_value::Str;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::keys::{self, Key, SCHEDULER, Topic};
use crate::reconciler::Want;
use crate::session::Term;
use crate::shared_state::Inner;
use crate::store::{Condition, Effect, Entry, StoreError, Transaction};
use crate::strings::Changes;
use crate::{SharedState, json};

/// Who was chosen under a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choice {
    /// The chosen, sorted.
    hosts: Vec<String>,
    /// All volunteers in the order in which they would be chosen.
    order: Vec<String>,
}

/// An offer, and when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Volunteer {
    host: String,
    offer: Offer,
    written: u64,
    created: u64,
}

/// Chooses among volunteers, given the last choice. What the last written offer says is how it is done.
fn choose(volunteers: &[Volunteer], last: &Choice) -> Choice {
    let Some(newest) = volunteers.iter().max_by_key(|volunteer| (volunteer.written, &volunteer.host)) else {
        return Choice::default();
    };
    let mut names: Vec<&String> = volunteers.iter().map(|volunteer| &volunteer.host).collect();
    names.sort_unstable();
    names.dedup();
    let order: Vec<String> = match newest.offer.strategy {
        Strategy::Alphabetical => names.into_iter().cloned().collect(),
        Strategy::RoundRobin => {
            let stay = last.order.iter().filter(|host| names.contains(host));
            let new = names.iter().filter(|host| !last.order.contains(host)).copied();
            stay.chain(new).cloned().collect()
        }
    };
    let max = usize::try_from(newest.offer.max).unwrap_or(usize::MAX);
    let mut hosts: Vec<String> = order.iter().take(max).cloned().collect();
    hosts.sort_unstable();
    Choice { hosts, order }
}

/// Whether one of the chosen has made its offer after the choice.
fn is_older(present: Option<&Entry>, choice: &Choice, volunteers: &[Volunteer]) -> bool {
    let made = present.map_or(0, |present| present.modified);
    volunteers.iter().any(|volunteer| volunteer.created > made && choice.hosts.contains(&volunteer.host))
}

/// How long an offer stays that says nothing about that.
const OFFER: Duration = Duration::from_secs(10);

/// How long a leader leads that is gone without a word.
const LEADING: Duration = Duration::from_secs(3);

#[derive(Serialize, Deserialize)]
pub(crate) struct Leader {
    pub(crate) host: String,
}

impl SharedState {
    /// Volunteers under a name, and tells whether that was a change. With `apply` false, only tells.
    pub async fn volunteer(&self, name: &Str, offer: &Offer, apply: bool) -> Result<bool, StoreError> {
        self.ready().await;
        let key = keys::volunteer(self.host(), name);
        let value = json::stored(offer)?;
        let is_there = self.cache().get(&key).is_some_and(|entry| entry.value == value);
        if !apply {
            return Ok(!is_there);
        }
        let time = offer.ttl.map_or(OFFER, |ttl| Duration::from_secs(u64::from(ttl.max(1))));
        let time = (!offer.persist).then_some(Term { time, grace: offer.grace });
        let leaves = offer.ttl.is_none() && !offer.persist;
        self.inner().reconciler.want(key, Some(Want { value, time, leaves, every: None }));
        self.schedule_too();
        self.written().await?;
        Ok(!is_there)
    }

    /// Volunteers no more under a name, and tells whether that was a change. With `apply` false, only tells. From then on this
    /// host does not take itself for chosen; if it was, others can be chosen once the grace has passed.
    pub async fn withdraw(&self, name: &Str, apply: bool) -> Result<bool, StoreError> {
        self.ready().await;
        let key = keys::volunteer(self.host(), name);
        let own = &self.inner().reconciler;
        let is_there = self.cache().get(&key).is_some() && !own.is_going(&key);
        if apply && (is_there || own.wanted(&key).is_some()) {
            let is_chosen = self.scheduled(name).is_ok_and(|hosts| hosts.contains(self.host()));
            if is_chosen && !self.inner().store.ends_with_us() {
                let term = own.wanted(&key).and_then(|want| want.time);
                own.remove_at(key, Instant::now() + term.map_or(STOP_GRACE, |term| term.grace));
                self.cache().stir(&Topic::Schedule(name.clone()));
            } else {
                own.want(key, None);
            }
            self.written().await?;
        }
        Ok(is_there)
    }

    /// The hosts that have been chosen under a name, as far as that is known.
    pub fn scheduled(&self, name: &Str) -> Result<Vec<Str>, StoreError> {
        let Some(entry) = self.cache().get(&keys::schedule(name)) else { return Ok(Vec::new()) };
        // A host that cannot read who was chosen cannot know that it was; the leader makes such a choice anew.
        let choice: Choice = match json::value(&entry) {
            Ok(choice) => choice,
            Err(error) => {
                tracing::warn!("{error}; this host counts as not chosen");
                return Ok(Vec::new());
            }
        };
        let sure = self.inner().is_sure(name, &entry);
        let hosts = choice.hosts.iter().map(|host| Str::from(host.as_str()));
        Ok(hosts.filter(|host| sure || host != self.host()).collect())
    }

    /// Whether this host is chosen under a name, and until when at least, by the clock that goes on while the host is suspended; without
    /// a time if that does not end by itself.
    pub fn is_chosen(&self, name: &Str) -> Option<Option<Duration>> {
        if !self.scheduled(name).is_ok_and(|hosts| hosts.contains(self.host())) {
            return None;
        }
        let want = self.inner().reconciler.wanted(&keys::volunteer(self.host(), name));
        let Some(term) = want.and_then(|want| want.time) else { return Some(None) };
        // Lost between the two questions.
        let held = self.inner().session(term).held()?;
        Some(Some(held.until_boottime))
    }

    /// Follows who is chosen under a name.
    pub fn watch_schedule(&self, name: &Str) -> Changes {
        Changes(self.cache().follow(Topic::Schedule(name.clone())))
    }

    /// Follows what this host keeps in the store.
    pub fn watch_own(&self) -> Changes {
        Changes(self.cache().follow(Topic::Host(self.host().clone())))
    }

    /// Takes part in finding a leader, from the first offer on.
    fn schedule_too(&self) {
        if self.inner().begin_to_lead() {
            let inner = Arc::clone(self.inner());
            self.in_the_background(async move { inner.lead().await });
        }
    }
}

impl Inner {
    /// Whether this host can rely on a choice that names it. It cannot if others may have been chosen since: because it does not
    /// offer itself any more, because its offer may have ended, or because it had ended and was made anew after the choice.
    fn is_sure(&self, name: &Str, choice: &Entry) -> bool {
        let key = keys::volunteer(&self.host, name);
        let Some(offer) = self.cache().get(&key).filter(|offer| offer.created < choice.modified) else {
            return false;
        };
        if self.reconciler.is_going(&key) {
            return false;
        }
        match (offer.lease, self.reconciler.wanted(&key).and_then(|want| want.time)) {
            (Some(lease), Some(term)) => self.session(term).held().is_some_and(|held| held.lease == lease),
            // One of an earlier run, which ends by itself.
            (Some(_), None) => false,
            // One that stays, whoever runs.
            (None, _) => true,
        }
    }

    /// Answers about schedules may be others now.
    pub(crate) fn leases_have_changed(&self) {
        for entry in self.cache().below(keys::SCHEDULES) {
            if let Some(Key::Schedule(name)) = Key::parse(&entry.key) {
                self.cache().stir(&Topic::Schedule(name));
            }
        }
    }

    /// Leads whenever nobody else does.
    async fn lead(&self) {
        let session = self.session(LEADING);
        let mut lease = session.changes();
        let mut leader = self.cache().follow(Topic::Leader);
        let mut volunteers = self.cache().follow(Topic::Volunteers);
        // A choice that somebody else damages or removes is made anew.
        let mut schedules = self.cache().follow(Topic::Schedules);
        loop {
            lease.mark_unchanged();
            leader.mark_unchanged();
            volunteers.mark_unchanged();
            schedules.mark_unchanged();
            if let Some(held) = session.held() {
                let done = match self.cache().get(SCHEDULER) {
                    None => self.win(held.lease, Condition::Missing(SCHEDULER.to_owned())).await,
                    Some(entry) if entry.lease == Some(held.lease) => self.decide(&entry).await,
                    // No leader has written it, and it would never end.
                    Some(entry) if entry.lease.is_none() => {
                        tracing::warn!("`{SCHEDULER}` belongs to no leader, and is replaced");
                        self.win(held.lease, Condition::Modified(SCHEDULER.to_owned(), entry.modified)).await
                    }
                    Some(_) => Ok(()),
                };
                if let Err(error) = done {
                    tracing::debug!("scheduling: {error}");
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    continue;
                }
            }
            tokio::select! {
                changed = lease.changed() => if changed.is_err() { return },
                _ = leader.changed() => {}
                _ = volunteers.changed() => {}
                _ = schedules.changed() => {}
            }
        }
    }

    /// Leads no more, if it did.
    pub(crate) async fn resign(&self) {
        let held = self.session(LEADING).held();
        let Some(leader) = self.cache().get(SCHEDULER) else { return };
        if held.is_some_and(|held| leader.lease == Some(held.lease)) {
            // If this fails, the lease ends by itself.
            let _ = self
                .store
                .commit(Transaction {
                    conditions: vec![Condition::Created(SCHEDULER.to_owned(), leader.created)],
                    effects: vec![Effect::Delete(SCHEDULER.to_owned())],
                    otherwise: Vec::new(),
                })
                .await;
        }
    }

    /// Becomes the leader, unless somebody else was faster.
    async fn win(&self, lease: crate::store::LeaseId, unled: Condition) -> Result<(), StoreError> {
        let value = json::stored(&Leader { host: self.host.to_text().into_owned() })?;
        let won = self
            .commit(Transaction {
                conditions: vec![unled],
                effects: vec![Effect::Put { key: SCHEDULER.to_owned(), value, lease: Some(lease) }],
                otherwise: Vec::new(),
            })
            .await?;
        if won.done {
            self.cache().seen(SCHEDULER, won.revision).await;
        } else {
            self.cache().until(SCHEDULER, |leader| leader.is_some_and(|leader| leader.lease.is_some())).await;
        }
        Ok(())
    }

    /// Chooses under every name, and stores what has changed.
    async fn decide(&self, leader: &Entry) -> Result<(), StoreError> {
        let mut names: BTreeMap<Str, Vec<Volunteer>> = BTreeMap::new();
        for entry in self.cache().below(keys::HOSTS) {
            let Some(Key::Volunteer { host, name }) = Key::parse(&entry.key) else { continue };
            match json::value(&entry) {
                Ok(offer) => {
                    let host = host.to_text().into_owned();
                    let (written, created) = (entry.modified, entry.created);
                    names.entry(name).or_default().push(Volunteer { host, offer, written, created });
                }
                Err(error) => tracing::warn!("{error}"),
            }
        }
        // Names under which nobody volunteers any more are emptied.
        for entry in self.cache().below(keys::SCHEDULES) {
            if let Some(Key::Schedule(name)) = Key::parse(&entry.key) {
                names.entry(name).or_default();
            }
        }
        for (name, volunteers) in names {
            let key = keys::schedule(&name);
            let present = self.cache().get(&key);
            // A choice that cannot be understood is made anew.
            let last = present.as_ref().and_then(|entry| json::value(entry).ok());
            let choice = choose(&volunteers, &last.clone().unwrap_or_default());
            let effect = match (present.is_some(), choice.order.is_empty()) {
                (true, true) => Effect::Delete(key.clone()),
                (false, true) => continue,
                // Who offers itself anew needs a choice that is newer than its offer.
                _ if last.as_ref() == Some(&choice)
                    && !is_older(present.as_deref(), &choice, &volunteers) =>
                {
                    continue;
                }
                _ => Effect::Put { key: key.clone(), value: json::stored(&choice)?, lease: None },
            };
            let done = self
                .commit(Transaction {
                    conditions: vec![Condition::Created(SCHEDULER.to_owned(), leader.created)],
                    effects: vec![effect],
                    otherwise: Vec::new(),
                })
                .await?;
            if !done.done {
                // Somebody else leads by now, which the store is about to tell.
                let is_another = |now: Option<&Entry>| now.is_none_or(|now| now.created != leader.created);
                self.cache().until(SCHEDULER, is_another).await;
                return Ok(());
            }
            self.cache().seen(&key, done.revision).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volunteers(hosts: &[&str], offer: &Offer) -> Vec<Volunteer> {
        let volunteer = |(written, host): (u64, &&str)| Volunteer {
            host: (*host).to_owned(),
            offer: offer.clone(),
            written,
            created: written,
        };
        (1..).zip(hosts).map(volunteer).collect()
    }

    #[test]
    fn whoever_was_chosen_stays_and_others_follow() {
        let offer = Offer { max: 2, ..Offer::default() };
        let first = choose(&volunteers(&["b", "c"], &offer), &Choice::default());
        assert_eq!(first.hosts, ["b", "c"]);
        let second = choose(&volunteers(&["a", "b", "c"], &offer), &first);
        assert_eq!(
            (second.hosts.as_slice(), second.order.last().unwrap().as_str()),
            (first.hosts.as_slice(), "a")
        );
        let third = choose(&volunteers(&["a", "c"], &offer), &second);
        assert_eq!(third.hosts, ["a", "c"]);
    }

    #[test]
    fn the_alphabet_decides_if_it_is_told_to() {
        let offer = Offer { strategy: Strategy::Alphabetical, ..Offer::default() };
        let first = choose(&volunteers(&["b", "c"], &offer), &Choice::default());
        assert_eq!(choose(&volunteers(&["a", "b", "c"], &offer), &first).hosts, ["a"]);
    }

    #[test]
    fn the_newest_offer_says_how_many() {
        let mut all = volunteers(&["a", "b", "c"], &Offer::default());
        assert_eq!(choose(&all, &Choice::default()).hosts, ["a"]);
        all[1] = Volunteer { offer: Offer { max: 3, ..Offer::default() }, written: 9, ..all[1].clone() };
        assert_eq!(choose(&all, &Choice::default()).hosts.len(), 3);
        all[0] = Volunteer { offer: Offer { max: 0, ..Offer::default() }, written: 10, ..all[0].clone() };
        assert!(choose(&all, &Choice::default()).hosts.is_empty());
        assert_eq!(choose(&[], &Choice::default()), Choice::default());
    }
}
