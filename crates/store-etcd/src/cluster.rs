//! Cluster API: the members of an etcd cluster, their health, and how they come and go.
//!
//! All of this is plain data and single calls. Who shall be a member is decided elsewhere.

use std::time::Duration;

use tonic::Code;

use super::Etcd;
use super::failure::{Answer, Failure, plain};
use super::servers::Call;
use super::wire;
use mgmt_store::{Snapshot, Span, StoreError};

const RANGE: Call = Call::read("/etcdserverpb.KV/Range");
const LIST: Call = Call::read("/etcdserverpb.Cluster/MemberList").alone();
const ADD: Call = Call::change("/etcdserverpb.Cluster/MemberAdd");
const PROMOTE: Call = Call::change("/etcdserverpb.Cluster/MemberPromote");
const REMOVE: Call = Call::change("/etcdserverpb.Cluster/MemberRemove");
const STATUS: Call = Call::read("/etcdserverpb.Maintenance/Status").alone();
const MOVE_LEADER: Call = Call::change("/etcdserverpb.Maintenance/MoveLeader").alone();
const ALARM: Call = Call::read("/etcdserverpb.Maintenance/Alarm").alone();
const DEFRAGMENT: Call =
    Call::change("/etcdserverpb.Maintenance/Defragment").alone().within(Duration::from_secs(600));
const COMPACT: Call = Call::change("/etcdserverpb.KV/Compact");

/// The number of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(pub u64);

/// A server that belongs to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub id: MemberId,
    /// Its name. Empty as long as it has never been started.
    pub name: String,
    /// Where other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it. None as long as it has never been started.
    pub client_urls: Vec<String>,
    /// It copies what the others decide, and has no vote.
    pub learner: bool,
}

/// How a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// Which member it is.
    pub member: MemberId,
    /// Which cluster it belongs to.
    pub cluster: u64,
    /// The version of its program.
    pub version: String,
    /// The member that it takes for the leader.
    pub leader: Option<MemberId>,
    /// How often a leader has been chosen.
    pub term: u64,
    /// The latest revision that it knows.
    pub revision: u64,
    /// The latest step that it has written down.
    pub index: u64,
    /// The latest step that it has carried out.
    pub applied: u64,
    /// The bytes that its data take on the disk.
    pub size: u64,
    /// The bytes of these that are in use.
    pub size_in_use: u64,
    /// It has no vote.
    pub learner: bool,
    /// What is wrong with it.
    pub errors: Vec<String>,
}

/// Something that a member has given up over until somebody has looked after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Whose alarm it is.
    pub member: MemberId,
    /// What it is about.
    pub kind: AlarmKind,
}

/// What an alarm is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmKind {
    /// The data have outgrown the quota. Nothing can be written.
    NoSpace,
    /// The data of members differ.
    Corrupt,
    /// Something that is not known here.
    Other(i32),
}

impl AlarmKind {
    fn number(self) -> i32 {
        match self {
            AlarmKind::NoSpace => 1,
            AlarmKind::Corrupt => 2,
            AlarmKind::Other(number) => number,
        }
    }

    fn of(number: i32) -> Self {
        match number {
            1 => AlarmKind::NoSpace,
            2 => AlarmKind::Corrupt,
            other => AlarmKind::Other(other),
        }
    }
}

/// Why a change of the cluster was not made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClusterError {
    /// The cluster is not in a state for this, which passes by itself.
    #[error("the cluster is not ready for this: {reason}")]
    NotYet {
        /// What it waits for.
        reason: String,
    },
    /// There is no such member.
    #[error("there is no such member in the cluster")]
    NoMember,
    /// A member with such an address is there already.
    #[error("there is a member with this address already")]
    MemberExists,
    /// The member has a vote already.
    #[error("the member is no learner")]
    NoLearner,
    /// Something else.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Etcd {
    /// The members of the cluster, as the server that is asked knows them.
    pub async fn members(&self) -> Result<Vec<Member>, ClusterError> {
        let answer: wire::Members = self
            .core
            .servers
            .call(LIST, wire::MemberList { linearizable: true })
            .await
            .map_err(Failure::of_read)?;
        Ok(answer.members.into_iter().map(Member::from).collect())
    }

    /// Keys and members, as the server at an address knows them. Both are at least as new as the moment of the call:
    /// the keys, because that is what reading them means, and the members, because the server has learned of all changes
    /// of theirs by the time that it answers for the keys.
    pub async fn look_at(&self, address: &str, span: &Span) -> Result<(Snapshot, Vec<Member>), ClusterError> {
        let (key, end) = self.core.namespace.range(span)?;
        let question = wire::Range { key, end, limit: 0, revision: 0, keys_only: false };
        let servers = &self.core.servers;
        let found: wire::RangeDone =
            servers.call_at(address, RANGE, question).await.map_err(Failure::of_read)?;
        let revision = super::read::revision_of(found.header.as_ref()).map_err(Failure::of_read)?;
        let members: wire::Members = servers
            .call_at(address, LIST, wire::MemberList { linearizable: true })
            .await
            .map_err(Failure::of_read)?;
        let entries = found.entries.into_iter().filter_map(|entry| self.core.namespace.entry(entry));
        let snapshot = Snapshot { revision: revision.unsigned_abs(), entries: entries.collect() };
        Ok((snapshot, members.members.into_iter().map(Member::from).collect()))
    }

    /// Asks these servers as well from now on, and no longer those that were told of earlier.
    pub fn follow(&self, addresses: &[String]) {
        self.core.servers.follow(addresses.iter());
    }

    /// Makes somebody a member that copies everything and has no vote yet. It is to be started after that.
    pub async fn add_learner(&self, peer_urls: Vec<String>) -> Result<Member, ClusterError> {
        self.add(wire::MemberAdd { peer_urls, learner: true }).await
    }

    /// Makes somebody a member with a vote at once. A cluster of one stands still until it has been started.
    pub async fn add_member(&self, peer_urls: Vec<String>) -> Result<Member, ClusterError> {
        self.add(wire::MemberAdd { peer_urls, learner: false }).await
    }

    async fn add(&self, question: wire::MemberAdd) -> Result<Member, ClusterError> {
        let answer: wire::MemberAdded = self.core.servers.call(ADD, question).await.map_err(of_cluster)?;
        let missing = || Failure::Unknown("etcd does not say who was added".to_owned()).of_change();
        Ok(answer.member.map(Member::from).ok_or_else(missing)?)
    }

    /// Gives a learner a vote, as soon as it has copied enough. Some servers say of a member that has one already that it
    /// has not copied enough, so whoever tries again looks at [`Etcd::members`] first.
    pub async fn promote(&self, member: MemberId) -> Result<(), ClusterError> {
        let promoted: Result<wire::Members, Failure> =
            self.core.servers.call(PROMOTE, wire::MemberAsk { id: member.0 }).await;
        promoted.map(|_| ()).map_err(of_cluster)
    }

    /// Takes somebody out of the cluster.
    pub async fn remove_member(&self, member: MemberId) -> Result<(), ClusterError> {
        let removed: Result<wire::Members, Failure> =
            self.core.servers.call(REMOVE, wire::MemberAsk { id: member.0 }).await;
        removed.map(|_| ()).map_err(of_cluster)
    }

    /// How the server at an address is.
    pub async fn status(&self, address: &str) -> Result<ServerStatus, ClusterError> {
        let answer: wire::StatusDone =
            self.core.servers.call_at(address, STATUS, wire::Ask {}).await.map_err(Failure::of_read)?;
        let header = answer.header.unwrap_or_default();
        Ok(ServerStatus {
            member: MemberId(header.member),
            cluster: header.cluster,
            version: plain(&answer.version),
            leader: (answer.leader != 0).then_some(MemberId(answer.leader)),
            term: answer.term,
            revision: header.revision.unsigned_abs(),
            index: answer.index,
            applied: answer.applied,
            size: answer.size.unsigned_abs(),
            size_in_use: answer.size_in_use.unsigned_abs(),
            learner: answer.learner,
            errors: answer.errors.iter().map(|error| plain(error)).collect(),
        })
    }

    /// Makes another member the leader. Only the one that leads can do that, so it is the one to be asked.
    pub async fn move_leader(&self, leader_address: &str, to: MemberId) -> Result<(), ClusterError> {
        let question = wire::MemberAsk { id: to.0 };
        let moved: Result<wire::Done, Failure> =
            self.core.servers.call_at(leader_address, MOVE_LEADER, question).await;
        moved.map(|_| ()).map_err(of_cluster)
    }

    /// All alarms.
    pub async fn alarms(&self) -> Result<Vec<Alarm>, ClusterError> {
        self.alarm(wire::AlarmAsk { action: 0, member: 0, alarm: 0 }).await
    }

    /// Ends an alarm. If its cause is still there, it comes back.
    pub async fn disarm(&self, alarm: Alarm) -> Result<(), ClusterError> {
        let question = wire::AlarmAsk { action: 2, member: alarm.member.0, alarm: alarm.kind.number() };
        self.alarm(question).await.map(|_| ())
    }

    async fn alarm(&self, question: wire::AlarmAsk) -> Result<Vec<Alarm>, ClusterError> {
        let answer: wire::Alarms = self.core.servers.call(ALARM, question).await.map_err(Failure::of_read)?;
        let alarm = |found: wire::AlarmMember| Alarm {
            member: MemberId(found.member),
            kind: AlarmKind::of(found.alarm),
        };
        Ok(answer.alarms.into_iter().map(alarm).collect())
    }

    /// Forgets all history before a revision. That it has been forgotten already is no error.
    pub async fn compact(&self, revision: u64) -> Result<(), ClusterError> {
        let revision = i64::try_from(revision).unwrap_or(i64::MAX);
        let question = wire::Compact { revision, physical: false };
        let compacted: Result<wire::Done, Failure> = self.core.servers.call(COMPACT, question).await;
        match compacted {
            Ok(_) | Err(Failure::Compacted) => Ok(()),
            Err(failure) => Err(of_cluster(failure)),
        }
    }

    /// Gives the room back to the disk that is not in use any more. The server at that address does nothing else
    /// meanwhile, which may take minutes.
    pub async fn defragment(&self, address: &str) -> Result<(), ClusterError> {
        let done: Result<wire::Done, Failure> =
            self.core.servers.call_at(address, DEFRAGMENT, wire::Ask {}).await;
        done.map(|_| ()).map_err(of_cluster)
    }

    /// The addresses that are asked, the first one first.
    pub fn endpoints(&self) -> Vec<String> {
        self.core.servers.addresses()
    }
}

impl From<wire::Member> for Member {
    fn from(member: wire::Member) -> Self {
        Self {
            id: MemberId(member.id),
            name: member.name,
            peer_urls: member.peer_urls,
            client_urls: member.client_urls,
            learner: member.learner,
        }
    }
}

/// What a refused change of the cluster means.
fn of_cluster(failure: Failure) -> ClusterError {
    let text = match &failure {
        Failure::Answer(Answer { text, .. }) | Failure::Unknown(text) => text.as_str(),
        _ => return ClusterError::Store(failure.of_change()),
    };
    let is = |wanted: &str| text.ends_with(wanted);
    if is("unhealthy cluster") || is("re-configuration failed due to not enough started members") {
        return ClusterError::NotYet {
            reason: "some members are not connected, or not for long enough".to_owned(),
        };
    }
    if is("can only promote a learner member which is in sync with leader") {
        return ClusterError::NotYet { reason: "the learner has not copied everything yet".to_owned() };
    }
    if is("too many learner members in cluster") {
        return ClusterError::NotYet {
            reason: "another learner has to be promoted or removed first".to_owned(),
        };
    }
    if is("member not found") {
        return ClusterError::NoMember;
    }
    if is("Peer URLs already exists") || is("member ID already exist") {
        return ClusterError::MemberExists;
    }
    if is("can only promote a learner member") {
        return ClusterError::NoLearner;
    }
    match failure {
        Failure::Answer(Answer { code: Code::FailedPrecondition, text }) => {
            ClusterError::NotYet { reason: text }
        }
        other => ClusterError::Store(other.of_change()),
    }
}
