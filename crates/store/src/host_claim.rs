//! Host name claim: one agent at a time writes in the name of a host.
//!
//! An agent claims its host name with a leased key, `/host/HOST/agent`, that it creates only if there is none. Of two agents
//! with one name, the elder holds the key. The younger one stands back: it keeps managing its host, stores nothing in the
//! host's name, and announces itself below `/host/HOST/rival/`, so that the elder and `mgmt status` know of it. When the
//! elder is gone, its lease ends, and the younger one claims the name.
//!
//! An agent that was killed leaves its claim behind for as long as its lease lasts. The next one from the same working
//! directory and boot takes that claim over at once; any other waits for [`CLAIM_GRACE`], and only a claim that is still
//! kept after that belongs to an agent that is alive.

use std::collections::BTreeMap;
use std::time::Duration;

use mgmt_health::DuplicateHost;
use mgmt_value::Str;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::keys::{self, Key};
use crate::lock;
use crate::reconciler::Want;
use crate::shared_state::Inner;
use crate::status::STATUS_TTL;
use crate::store::{Condition, Effect, Entry, LeaseId, StoreError, Transaction};
use crate::{SharedState, json};

/// How long a claim of another agent is waited for before it counts as that of a living one: a lease, and some time for a
/// store that is slow to end it.
pub(crate) const CLAIM_GRACE: Duration = Duration::from_secs(20);

/// One run of an agent, as others see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// A random word of this process.
    pub instance: String,
    /// A random word of its working directory.
    #[serde(default)]
    pub directory: String,
    /// The kernel's boot id.
    #[serde(default)]
    pub boot: String,
    /// The machine's own name, which may differ from the host name that was given.
    #[serde(default)]
    pub machine: String,
    /// The process id.
    #[serde(default)]
    pub pid: u32,
    /// When it began, in seconds since 1970.
    #[serde(default)]
    pub since: u64,
}

impl Agent {
    /// The agent in a few words.
    pub fn describe(&self) -> String {
        let instance: String = self.instance.chars().take(8).collect();
        format!("process {} on machine {} (instance {instance})", self.pid, self.machine)
    }

    /// An earlier run from the same working directory, which therefore is over: a directory has one agent at a time.
    fn is_earlier_run_of(&self, other: &Agent) -> bool {
        !self.directory.is_empty() && self.directory == other.directory && self.boot == other.boot
    }
}

/// The claim of this agent.
#[derive(Debug)]
pub(crate) struct Claim {
    agent: Agent,
    /// It has held the name already.
    held: bool,
    /// It has given the name back for good.
    released: bool,
    /// The other instance that was seen with the name, and since when.
    rival: Option<(String, Instant)>,
    duplicate: watch::Sender<Option<DuplicateHost>>,
}

/// What an agent may do in the name of its host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Standing {
    /// Write: the name is its own, or nobody asked for one.
    Holds,
    /// Claim the name, if this still holds.
    Claims(Condition),
    /// Write nothing until then, or until something changes.
    Waits(Instant),
    /// Write nothing but the announcement of itself: this other agent lives.
    StandsBack(Agent),
}

impl Claim {
    pub(crate) fn new(agent: Agent) -> Claim {
        Claim { agent, held: false, released: false, rival: None, duplicate: watch::Sender::new(None) }
    }

    /// Decides by the key that is stored and the lease that is held.
    fn standing(&mut self, key: &str, stored: Option<&Entry>, lease: LeaseId, now: Instant) -> Standing {
        let Some(entry) = stored else {
            self.rival = None;
            return Standing::Claims(Condition::Missing(key.to_owned()));
        };
        let holder: Agent = match json::value(entry) {
            Ok(holder) => holder,
            // Nobody can tell who that is; it stays until its lease ends.
            Err(_) => Agent { instance: format!("revision {}", entry.created), ..Agent::default() },
        };
        let take_over = || Standing::Claims(Condition::Modified(key.to_owned(), entry.modified));
        if holder.instance == self.agent.instance {
            self.rival = None;
            self.held = true;
            return if entry.lease == Some(lease) { Standing::Holds } else { take_over() };
        }
        // A claim without a lease would never end, and is none of an agent.
        if entry.lease.is_none() || !self.held && holder.is_earlier_run_of(&self.agent) {
            return take_over();
        }
        let since = match &self.rival {
            Some((instance, since)) if *instance == holder.instance => *since,
            _ => {
                self.rival = Some((holder.instance.clone(), now));
                now
            }
        };
        let until = since + CLAIM_GRACE;
        if now < until { Standing::Waits(until) } else { Standing::StandsBack(holder) }
    }
}

impl SharedState {
    /// Claims this host's name for an agent, from now on. Without it, [`SharedState`] writes without asking.
    pub fn claim_host(&self, agent: Agent) {
        *lock(&self.inner().reconciler.claim) = Some(Claim::new(agent));
        self.cache();
    }

    /// Follows whether another agent uses this host's name.
    pub fn watch_duplicate(&self) -> Option<watch::Receiver<Option<DuplicateHost>>> {
        lock(&self.inner().reconciler.claim).as_ref().map(|claim| claim.duplicate.subscribe())
    }

    /// The agents that stand back because another one holds their host's name, by host.
    pub fn rivals(&self) -> BTreeMap<Str, Vec<Agent>> {
        let mut found: BTreeMap<Str, Vec<Agent>> = BTreeMap::new();
        for entry in self.cache().below(keys::HOSTS) {
            if let Some(Key::Rival { host, .. }) = Key::parse(&entry.key)
                && let Ok(agent) = json::value(&entry)
            {
                found.entry(host).or_default().push(agent);
            }
        }
        found
    }
}

impl Inner {
    /// What this agent may write now; nothing while it has no lease.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let mut claim = lock(&self.reconciler.claim);
        let Some(claim) = claim.as_mut() else { return Some(Standing::Holds) };
        if claim.released {
            return None;
        }
        let lease = self.session(STATUS_TTL).held()?.lease;
        let key = keys::agent(&self.host);
        let standing = claim.standing(&key, self.cache().get(&key).as_deref(), lease, Instant::now());
        let rivals = self.cache().below(&keys::rivals(&self.host));
        let rivals = rivals.iter().filter_map(|entry| json::value::<Agent>(entry).ok());
        let mut rivals = rivals.filter(|agent| agent.instance != claim.agent.instance);
        let (other, stands_back) = match &standing {
            Standing::StandsBack(other) => (Some(other.clone()), true),
            _ => (rivals.next(), false),
        };
        let other = other.map(|agent| agent.describe());
        claim.duplicate.send_if_modified(|known| {
            let same = known.as_ref().map(|known| (&known.other, known.stands_back));
            let is_news = same != other.as_ref().map(|other| (other, stands_back));
            if is_news {
                let since = now();
                *known = other.map(|other| DuplicateHost { since, other, stands_back });
            }
            is_news
        });
        let announcement = keys::rival(&self.host, &claim.agent.instance);
        let value = json::stored(&claim.agent).ok().filter(|_| stands_back);
        let want =
            value.map(|value| Want { value, time: Some(STATUS_TTL.into()), leaves: true, every: None });
        self.reconciler.announce(announcement, want);
        Some(standing)
    }

    /// Claims the host's name, unless something else was stored meanwhile.
    pub(crate) async fn claim(&self, condition: Condition) -> Result<(), StoreError> {
        let Some(agent) = lock(&self.reconciler.claim).as_ref().map(|claim| claim.agent.clone()) else {
            return Ok(());
        };
        let Some(held) = self.session(STATUS_TTL).held() else { return Err(StoreError::LeaseEnded) };
        let key = keys::agent(&self.host);
        let before = self.cache().get(&key).map(|entry| entry.modified);
        let put = Effect::Put { key: key.clone(), value: json::stored(&agent)?, lease: Some(held.lease) };
        let transaction =
            Transaction { conditions: vec![condition], effects: vec![put], otherwise: Vec::new() };
        let claimed = self.commit(transaction).await?;
        match claimed.done {
            true => self.cache().seen(&key, claimed.revision).await,
            // Another one was faster, which the store is about to tell.
            false => self.cache().until(&key, |entry| entry.map(|entry| entry.modified) != before).await,
        }
        Ok(())
    }

    /// Gives the name back, so that the next agent need not wait for the lease.
    pub(crate) async fn release_claim(&self) {
        let agent = match lock(&self.reconciler.claim).as_mut() {
            Some(claim) => {
                claim.released = true;
                claim.agent.clone()
            }
            None => return,
        };
        let key = keys::agent(&self.host);
        let Some(entry) = self.cache().get(&key) else { return };
        if json::value::<Agent>(&entry).is_ok_and(|holder| holder.instance == agent.instance) {
            let conditions = vec![Condition::Modified(key.clone(), entry.modified)];
            let effects = vec![Effect::Delete(key)];
            // If this fails, the lease ends by itself.
            let _ = self.store.commit(Transaction { conditions, effects, otherwise: Vec::new() }).await;
        }
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: LeaseId = LeaseId(1);
    const THEIRS: LeaseId = LeaseId(2);
    const KEY: &str = "/host/h/agent";

    fn agent(instance: &str, directory: &str) -> Agent {
        Agent {
            instance: instance.to_owned(),
            directory: directory.to_owned(),
            boot: "boot".to_owned(),
            ..Agent::default()
        }
    }

    fn entry(agent: &Agent, lease: LeaseId) -> Entry {
        let value = json::stored(agent).unwrap();
        Entry { key: KEY.to_owned(), value, created: 5, modified: 7, lease: Some(lease) }
    }

    #[test]
    fn a_free_name_is_claimed_and_a_lost_lease_is_replaced() {
        let (mut claim, now) = (Claim::new(agent("a", "one")), Instant::now());
        let missing = Standing::Claims(Condition::Missing(KEY.to_owned()));
        assert_eq!(claim.standing(KEY, None, OURS, now), missing);
        let own = entry(&agent("a", "one"), OURS);
        assert_eq!(claim.standing(KEY, Some(&own), OURS, now), Standing::Holds);
        let again = Standing::Claims(Condition::Modified(KEY.to_owned(), 7));
        assert_eq!(claim.standing(KEY, Some(&own), LeaseId(9), now), again);
    }

    #[test]
    fn the_claim_of_a_killed_run_from_the_same_directory_is_taken_over() {
        let (mut claim, now) = (Claim::new(agent("b", "one")), Instant::now());
        let earlier = entry(&agent("a", "one"), THEIRS);
        let over = Standing::Claims(Condition::Modified(KEY.to_owned(), 7));
        assert_eq!(claim.standing(KEY, Some(&earlier), OURS, now), over);
        // A copy of the directory that runs beside it is another agent, once this one has held the name.
        let own = entry(&agent("b", "one"), OURS);
        assert_eq!(claim.standing(KEY, Some(&own), OURS, now), Standing::Holds);
        assert!(matches!(claim.standing(KEY, Some(&earlier), OURS, now), Standing::Waits(_)));
    }

    #[test]
    fn another_agent_is_waited_for_and_then_believed() {
        let (mut claim, now) = (Claim::new(agent("b", "two")), Instant::now());
        let other = entry(&agent("a", "one"), THEIRS);
        let until = now + CLAIM_GRACE;
        assert_eq!(claim.standing(KEY, Some(&other), OURS, now), Standing::Waits(until));
        let later = now + CLAIM_GRACE / 2;
        assert_eq!(claim.standing(KEY, Some(&other), OURS, later), Standing::Waits(until));
        let stands_back = Standing::StandsBack(agent("a", "one"));
        assert_eq!(claim.standing(KEY, Some(&other), OURS, until), stands_back);
        // When the elder is gone, the name is free.
        let missing = Standing::Claims(Condition::Missing(KEY.to_owned()));
        assert_eq!(claim.standing(KEY, None, OURS, until), missing);
        // A record that a later version wrote is another agent as well.
        let strange = Entry { value: b"{\"format\":9}".to_vec(), ..other };
        assert!(matches!(claim.standing(KEY, Some(&strange), OURS, until), Standing::Waits(_)));
        // One that no agent keeps alive is not waited for.
        let stray = Entry { lease: None, ..strange };
        let over = Standing::Claims(Condition::Modified(KEY.to_owned(), 7));
        assert_eq!(claim.standing(KEY, Some(&stray), OURS, until), over);
    }
}
