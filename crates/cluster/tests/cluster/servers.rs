//! The servers of a store: who has a vote, who is up, what is stored, and which leases there are. The agreement
//! between them is taken for granted: with a majority in touch they agree, without one they do nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use mgmt_cluster::{Keys, MemberId, keys};
use mgmt_store::{Condition, Effect, Entry, LeaseId, Snapshot, Transaction};

pub(crate) struct Servers {
    pub(crate) identity: String,
    pub(crate) seats: Vec<Seat>,
    pub(crate) leader: Option<MemberId>,
    /// The leader works from then on.
    pub(crate) ready_at: u64,
    pub(crate) entries: BTreeMap<String, Entry>,
    pub(crate) revision: u64,
    pub(crate) leases: BTreeMap<i64, Term>,
    parsed: Option<Arc<Keys>>,
    next_lease: i64,
}

/// A member.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) id: MemberId,
    pub(crate) name: String,
    pub(crate) peers: Vec<String>,
    pub(crate) learner: bool,
    /// Has the data.
    pub(crate) synced: bool,
    /// The disk on which it was started: host and how often that host's disk was replaced.
    pub(crate) disk: Option<(usize, u64)>,
}

pub(crate) struct Term {
    pub(crate) time: u64,
    pub(crate) ends: u64,
}

impl Servers {
    pub(crate) fn new(identity: &str, first: Seat, leases: i64) -> Servers {
        Servers {
            identity: identity.to_owned(),
            seats: vec![first],
            leader: None,
            ready_at: 0,
            entries: BTreeMap::new(),
            revision: 1,
            leases: BTreeMap::new(),
            parsed: None,
            next_lease: leases + 1,
        }
    }

    pub(crate) fn seat(&self, id: MemberId) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.id == id)
    }

    pub(crate) fn voters(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().filter(|seat| !seat.learner)
    }

    /// Those that are up are enough to agree.
    pub(crate) fn agree(seats: &[Seat], up: impl Fn(MemberId) -> bool) -> bool {
        let voters = seats.iter().filter(|seat| !seat.learner);
        let (all, well) = voters.fold((0, 0), |(all, well), seat| (all + 1, well + usize::from(up(seat.id))));
        all > 0 && well > all / 2
    }

    pub(crate) fn keys(&mut self) -> Arc<Keys> {
        let entries = &self.entries;
        let revision = self.revision;
        let parsed = self.parsed.get_or_insert_with(|| {
            Arc::new(Keys::parse(&Snapshot { revision, entries: entries.values().cloned().collect() }))
        });
        Arc::clone(parsed)
    }

    pub(crate) fn put(&mut self, key: &str, value: Vec<u8>) {
        self.change();
        self.write(key, value, None);
    }

    fn change(&mut self) {
        self.revision += 1;
        self.parsed = None;
    }

    fn write(&mut self, key: &str, value: Vec<u8>, lease: Option<LeaseId>) {
        let revision = self.revision;
        let created = self.entries.get(key).map_or(revision, |entry| entry.created);
        let entry = Entry { key: key.to_owned(), value, created, modified: revision, lease };
        self.entries.insert(key.to_owned(), entry);
    }

    pub(crate) fn commit(&mut self, transaction: &Transaction) -> bool {
        let holds = |condition: &Condition| match condition {
            Condition::Missing(key) => !self.entries.contains_key(key),
            Condition::Exists(key) => self.entries.contains_key(key),
            Condition::Value(key, value) => self.entries.get(key).is_some_and(|it| it.value == *value),
            Condition::Modified(key, at) => self.entries.get(key).is_some_and(|it| it.modified == *at),
            Condition::Created(key, at) => self.entries.get(key).is_some_and(|it| it.created == *at),
        };
        let leased = |effect: &Effect| match effect {
            Effect::Put { lease: Some(lease), .. } => self.leases.contains_key(&lease.0),
            _ => true,
        };
        assert!(transaction.otherwise.is_empty(), "the cluster has no use for another branch");
        if !transaction.conditions.iter().all(holds) || !transaction.effects.iter().all(leased) {
            return false;
        }
        self.change();
        for effect in &transaction.effects {
            match effect {
                Effect::Put { key, value, lease } => self.write(key, value.clone(), *lease),
                Effect::Delete(key) => {
                    self.entries.remove(key);
                }
            }
        }
        true
    }

    pub(crate) fn grant(&mut self, time: u64, now: u64) -> LeaseId {
        let id = self.next_lease;
        self.next_lease += 1;
        self.leases.insert(id, Term { time, ends: now + time });
        LeaseId(id)
    }

    pub(crate) fn keep(&mut self, lease: LeaseId, now: u64) -> bool {
        let term = self.leases.get_mut(&lease.0);
        term.map(|term| term.ends = now + term.time).is_some()
    }

    pub(crate) fn revoke(&mut self, lease: i64) {
        self.leases.remove(&lease);
        if self.entries.values().any(|entry| entry.lease == Some(LeaseId(lease))) {
            self.change();
            self.entries.retain(|_, entry| entry.lease != Some(LeaseId(lease)));
        }
    }

    pub(crate) fn end_leases(&mut self, now: u64) {
        let over: Vec<i64> =
            self.leases.iter().filter(|(_, term)| term.ends <= now).map(|(id, _)| *id).collect();
        for lease in over {
            self.revoke(lease);
        }
    }

    /// A new leader does not know when leases were last kept, and gives each its whole time.
    pub(crate) fn extend_leases(&mut self, now: u64) {
        for term in self.leases.values_mut() {
            term.ends = term.ends.max(now + term.time);
        }
    }

    pub(crate) fn ideal(&mut self) -> usize {
        self.keys().ideal.map_or(0, |ideal| ideal as usize)
    }

    pub(crate) fn set_ideal(&mut self, ideal: u32) {
        self.put(keys::SIZE, keys::write_size(ideal));
    }

    /// An operator says that a host shall not serve.
    pub(crate) fn dismiss(&mut self, host: &str) {
        self.put(&keys::dismissed_key(host), b"{\"format\":1}".to_vec());
    }

    pub(crate) fn readmit(&mut self, host: &str) {
        self.change();
        self.entries.remove(&keys::dismissed_key(host));
    }
}
