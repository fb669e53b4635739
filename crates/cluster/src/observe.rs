//! Cluster observation: its keys, its members, and the health of each member.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::keys::PREFIX;
use super::{Keys, Member, MemberId, View};
use mgmt_store::{Snapshot, Span, StoreError};
use mgmt_store_etcd::Etcd;
use mgmt_store_etcd::cluster::{ClusterError, Member as Listed, ServerStatus};

/// When a server has not answered for this long, another one is asked as well.
const NEXT_AFTER: Duration = Duration::from_millis(400);

/// A cluster as it was observed.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// What decisions are made of.
    pub view: View,
    /// Where the clients of each member reach it.
    pub addresses: BTreeMap<MemberId, Vec<String>>,
    /// How each member is that answers.
    pub statuses: BTreeMap<MemberId, ServerStatus>,
}

impl ClusterView {
    /// Where members with a vote are.
    pub fn endpoints(&self) -> Vec<String> {
        let voters = self.view.members.iter().filter(|member| !member.learner && !member.name.is_empty());
        voters.flat_map(|member| self.addresses.get(&member.id)).flatten().cloned().collect()
    }

    /// Where a member answers.
    pub fn address(&self, member: MemberId) -> Option<&str> {
        self.addresses.get(&member)?.first().map(String::as_str)
    }

    /// The member that leads.
    pub fn leader(&self) -> Option<MemberId> {
        self.view.members.iter().find(|member| member.leader).map(|member| member.id)
    }
}

/// Observes the cluster, for at most so long. None if no server answers.
pub async fn observe(etcd: &Etcd, time: Duration) -> Option<ClusterView> {
    let end = Instant::now() + time;
    let (snapshot, listed) = timeout_at(end, first_answer(etcd)).await.ok()??;
    let keys = Keys::parse(&snapshot);
    let addresses: BTreeMap<MemberId, Vec<String>> =
        listed.iter().map(|member| (MemberId(member.id.0), addresses(member, &keys))).collect();
    let statuses = statuses(etcd, &addresses, end).await;
    let view = View { members: members(listed, &statuses), keys: Arc::new(keys) };
    Some(ClusterView { view, addresses, statuses })
}

/// The reason why servers that do answer give nothing, if there is one: an account that is missing or may not read.
pub async fn refusal(etcd: &Etcd, time: Duration) -> Option<StoreError> {
    let span = Span::Prefix(PREFIX.to_owned());
    for address in etcd.endpoints() {
        let asked = etcd.look_at(&address, &span);
        let answer = tokio::time::timeout(time, asked).await;
        if let Ok(Err(ClusterError::Store(error @ StoreError::Refused { .. }))) = answer {
            return Some(error);
        }
    }
    None
}

/// Asks one server after the other, without waiting long for any.
async fn first_answer(etcd: &Etcd) -> Option<(Snapshot, Vec<Listed>)> {
    let mut attempts = JoinSet::new();
    let mut pause = Duration::ZERO;
    for address in etcd.endpoints() {
        let etcd = etcd.clone();
        attempts.spawn(async move {
            sleep(pause).await;
            etcd.look_at(&address, &Span::Prefix(PREFIX.to_owned())).await
        });
        pause += NEXT_AFTER;
    }
    while let Some(attempt) = attempts.join_next().await {
        match attempt {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => tracing::trace!("looking at the cluster: {error}"),
            Err(_) => {}
        }
    }
    None
}

/// Where a member is, by what it says itself or, before it has said anything, by what its host has offered.
fn addresses(member: &Listed, keys: &Keys) -> Vec<String> {
    if !member.client_urls.is_empty() {
        return member.client_urls.clone();
    }
    let offers = keys.volunteers.values().map(|offer| &offer.value);
    let mut theirs = offers.filter(|offer| offer.member == Some(MemberId(member.id.0)));
    theirs.next().map(|offer| offer.clients.clone()).unwrap_or_default()
}

/// Asks each member how it is, all at the same time. One that is not the member that it should be does not count.
async fn statuses(
    etcd: &Etcd,
    addresses: &BTreeMap<MemberId, Vec<String>>,
    end: Instant,
) -> BTreeMap<MemberId, ServerStatus> {
    let mut asked = JoinSet::new();
    for (id, urls) in addresses {
        for url in urls {
            let (etcd, url, id) = (etcd.clone(), url.clone(), *id);
            asked.spawn(async move { (id, etcd.status(&url).await) });
        }
    }
    let mut found = BTreeMap::new();
    // What comes later than that is not waited for; those that have answered count.
    let end = end - end.saturating_duration_since(Instant::now()) / 4;
    while let Ok(Some(answer)) = timeout_at(end, asked.join_next()).await {
        let Ok((id, Ok(status))) = answer else { continue };
        if status.member.0 == id.0 {
            found.insert(id, status);
        }
    }
    found
}

fn members(listed: Vec<Listed>, statuses: &BTreeMap<MemberId, ServerStatus>) -> Vec<Member> {
    let newest = statuses.values().filter(|status| status.leader.is_some()).max_by_key(|status| status.term);
    let leader = newest.and_then(|status| status.leader);
    let steps = statuses.values().map(|status| status.index).max().unwrap_or_default();
    listed
        .into_iter()
        .map(|member| {
            let id = MemberId(member.id.0);
            let status = statuses.get(&id);
            Member {
                id,
                name: member.name,
                peers: member.peer_urls,
                learner: member.learner,
                leader: leader == Some(member.id),
                healthy: status.is_some_and(|status| status.leader.is_some()),
                caught_up: status.is_some_and(|status| status.applied >= steps - steps / 10),
            }
        })
        .collect()
}
