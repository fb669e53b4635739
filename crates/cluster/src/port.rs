//! Inputs and outputs of the membership core, as plain data.

use std::fmt;
use std::sync::Arc;

use super::keys::{Change, Keys, MemberId};
use super::placement::Member;
use mgmt_store::{Lease, LeaseId, Transaction};

/// What a host knows of itself when it starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name, which no other host of the cluster may have.
    pub host: String,
    /// A random word, another one for each run of the program.
    pub instance: String,
    /// A random word: the identity of the cluster that this host founds, should it found one.
    pub fresh_identity: String,
    /// Where its server is for other servers.
    pub peers: Vec<String>,
    /// Where its server is for clients.
    pub clients: Vec<String>,
    /// It was told of others. Such a host never founds a cluster.
    pub seeds: bool,
    /// It may run a server.
    pub serve: bool,
    /// How many servers there shall be. Counts only in a cluster that knows no number yet.
    pub ideal: u32,
    /// What is on its disk.
    pub disk: Disk,
    /// How long things may take.
    pub settings: Settings,
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let plain = |name: &str| !name.is_empty() && !name.chars().any(|c| c == '/' || c.is_control());
        if !plain(&self.host) {
            return Err(ConfigError::Host { host: self.host.clone() });
        }
        if self.ideal == 0 {
            return Err(ConfigError::Ideal);
        }
        if self.serve && self.peers.is_empty() {
            return Err(ConfigError::Peers);
        }
        if !self.serve && !self.seeds {
            return Err(ConfigError::Nobody);
        }
        Ok(())
    }
}

/// What makes it impossible to begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not a name.
    #[error("{host:?} is not a name for a host: expected some text without slashes and control characters")]
    Host {
        /// What was given.
        host: String,
    },
    /// Nobody would be left.
    #[error("the ideal size of a cluster is at least 1")]
    Ideal,
    /// No address.
    #[error("a host that may run a server needs an address for other servers")]
    Peers,
    /// Neither a server nor others.
    #[error("a host that runs no server needs seeds: tell it where the others are")]
    Nobody,
}

/// What is on a host's disk. The driver finds this out when it starts, and makes each change durable that it is told
/// of. Data that is missing although it should be there makes a `Member` or `Founder` into a `Former`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disk {
    /// Nothing at all.
    Empty,
    /// A cluster is being founded.
    Founder {
        /// Its identity.
        identity: String,
    },
    /// The data of a member.
    Member {
        /// The cluster.
        identity: String,
        /// The member.
        member: MemberId,
    },
    /// There was a member once. Its data has been set aside.
    Former {
        /// The cluster.
        identity: String,
    },
}

impl Disk {
    /// The cluster and the member whose data is there.
    pub(crate) fn member(&self) -> Option<(&str, MemberId)> {
        match self {
            Disk::Member { identity, member } => Some((identity, *member)),
            _ => None,
        }
    }
}

/// How long things may take, in milliseconds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a host may be silent before its keys vanish.
    pub lease_time: u64,
    /// How long a request may be held back before it is sent.
    pub send_within: u64,
    /// How long a request may take. Afterwards it has no effect any more.
    pub request_time: u64,
    /// How long a look may take. One that takes longer is not used.
    pub look_time: u64,
    /// How often a host looks that has nothing to do.
    pub look_every: u64,
    /// How often a host looks that has.
    pub decide_every: u64,
    /// How long a voter may be away, together with its host.
    pub dead_after: u64,
    /// How long a voter may be ill while its host is well.
    pub sick_after: u64,
    /// How long a host may take to start its server when it joins.
    pub start_within: u64,
    /// How long it may then take to get the data.
    pub catch_up_within: u64,
    /// How long any other change may take.
    pub change_within: u64,
    /// How long a host has to wait after it failed to join for the first time. Doubles each time.
    pub back_off: u64,
    /// The longest such wait.
    pub back_off_most: u64,
    /// How long an even number of voters is let be.
    pub uneven_after: u64,
    /// How long a host that leaves waits to be let go.
    pub leave_within: u64,
    /// How long somebody else may hold our name before we call it a duplicate.
    pub duplicate_after: u64,
    /// How long to wait before a server is started again that has ended. Doubles each time, eight times at most.
    pub restart_after: u64,
}

impl Settings {
    /// How long after it has lost its office a decider could still change something, by the slowest clock: it may have
    /// begun to look before.
    pub(crate) fn aftermath(&self) -> u64 {
        let longest = self.look_time.saturating_add(self.send_within).saturating_add(self.request_time);
        longest.saturating_add(longest / 4)
    }
}

impl Settings {
    /// For those who cannot wait, such as tests on one machine: a host that is away for two seconds is gone.
    pub fn quick() -> Settings {
        Settings {
            lease_time: 2_000,
            send_within: 1_000,
            request_time: 1_500,
            look_time: 1_500,
            look_every: 1_000,
            decide_every: 200,
            dead_after: 2_000,
            sick_after: 20_000,
            start_within: 10_000,
            catch_up_within: 30_000,
            change_within: 20_000,
            back_off: 2_000,
            back_off_most: 20_000,
            uneven_after: 5_000,
            leave_within: 30_000,
            duplicate_after: 5_000,
            restart_after: 200,
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            lease_time: 10_000,
            send_within: 2_000,
            request_time: 5_000,
            look_time: 3_000,
            look_every: 5_000,
            decide_every: 1_000,
            dead_after: 10_000,
            sick_after: 120_000,
            start_within: 60_000,
            catch_up_within: 600_000,
            change_within: 30_000,
            back_off: 30_000,
            back_off_most: 1_800_000,
            uneven_after: 120_000,
            leave_within: 30_000,
            duplicate_after: 30_000,
            restart_after: 500,
        }
    }
}

/// What can happen to a host.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time has passed. Also the first input of all.
    Tick,
    /// A key of the cluster has changed, so it is worth looking.
    Nudge,
    /// What a look has shown.
    Seen {
        /// Which look.
        look: u64,
        /// What there was.
        view: View,
    },
    /// A look has failed.
    Unseen {
        /// Which look.
        look: u64,
    },
    /// A request has been answered, or will not be.
    Answer {
        /// Which request.
        call: u64,
        /// What was answered. Good for logs only: what became of a request is looked at.
        answer: Answer,
    },
    /// A lease has been granted, or could not be.
    Granted {
        /// Which request.
        call: u64,
        /// The lease.
        lease: Option<Lease>,
    },
    /// A lease has been kept, has ended, or nobody knows.
    Kept {
        /// Which request.
        call: u64,
        /// Whether it is still there.
        kept: Option<bool>,
    },
    /// Something has become of the server's process.
    Server(Process),
    /// The host shall leave the cluster.
    Leave,
    /// The host shall end, and stay a member if it is one.
    End,
}

/// What became of a server's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Process {
    /// It works, as this member.
    Running {
        /// Its number, from the server itself.
        member: MemberId,
    },
    /// It has ended, or could not be started.
    Ended {
        /// It said that its member has been removed for good.
        removed: bool,
    },
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// It was refused: a condition did not hold, or the servers said no.
    Refused(String),
    /// Nobody knows.
    Unknown,
}

/// The cluster as a host sees it.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The keys of the cluster, all of one moment.
    pub keys: Arc<Keys>,
    /// The members.
    pub members: Vec<Member>,
}

/// What has to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Read the keys, list the members, and ask each for its health. Answer with `Seen` or `Unseen`.
    Look(u64),
    /// Send a request. Answer with `Answer`.
    Call {
        /// Its number.
        call: u64,
        /// Not after this time.
        until: u64,
        /// What to ask for.
        request: Request,
    },
    /// Ask for a lease. Answer with `Granted`.
    Grant {
        /// The number of the request.
        call: u64,
        /// How long it shall last.
        time: u64,
    },
    /// Keep a lease. Answer with `Kept`.
    Keep {
        /// The number of the request.
        call: u64,
        /// Which one.
        lease: LeaseId,
    },
    /// End a lease.
    Revoke(LeaseId),
    /// Write this to disk, durably, before anything else is done.
    Remember(Disk),
    /// Start the server.
    Start(Launch),
    /// Stop the server. Tell when it has ended.
    Stop,
    /// Move the data of the server out of the way. Never delete it.
    SetAside,
    /// Come back at this time, if nothing happens earlier. Replaces what was said before.
    Wake(u64),
    /// How things are.
    Status(Box<Status>),
    /// The host has left. Nothing follows.
    Left {
        /// It is still a member, and its data is on its disk.
        member: bool,
    },
}

/// What the store or its servers are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Change keys.
    Commit(Transaction),
    /// Add a member without a vote.
    AddLearner {
        /// Where it will be.
        peers: Vec<String>,
    },
    /// Give a learner a vote.
    Promote(MemberId),
    /// Remove a member.
    Remove(MemberId),
    /// Make another the leader.
    MoveLeader(MemberId),
}

/// How to start a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// What kind of start.
    pub start: Start,
    /// The cluster, as the server's initial token.
    pub identity: String,
    /// All members, by name and peer addresses, if they matter.
    pub cluster: Vec<(String, Vec<String>)>,
}

/// What kind of start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The first server of a new cluster. If there is data already, it is used.
    Found,
    /// A new member of a cluster that exists.
    Join,
    /// A member that has its data. Without data, do not start.
    Resume,
}

/// How things are, for people.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// The cluster.
    pub identity: Option<String>,
    /// Who has a vote.
    pub voters: Vec<String>,
    /// How many should have.
    pub ideal: Option<u32>,
    /// Who decides.
    pub decider: Option<String>,
    /// What is being changed.
    pub change: Option<Change>,
    /// This host's server runs.
    pub serving: bool,
    /// What should be looked after.
    pub troubles: Vec<Trouble>,
}

/// Something that does not go away by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Another host of the cluster has our name.
    Duplicate {
        /// The name.
        host: String,
    },
    /// The data on disk is of another cluster than the one we talk to.
    OtherCluster {
        /// The cluster of the data.
        ours: String,
        /// The other one.
        theirs: String,
    },
    /// The store has no cluster of ours.
    Unmanaged,
    /// A key cannot be understood, so nothing is decided.
    Unreadable {
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// This host should decide, but does not reach servers that work.
    BadlyConnected,
    /// A host cannot join because it has the name or an address of a member.
    Occupied {
        /// The host.
        host: String,
        /// The member.
        member: String,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Duplicate { host } => write!(
                f,
                "another host of the cluster is called {host:?}: this one does not take part in serving; \
                 give each host a name of its own"
            ),
            Trouble::OtherCluster { ours, theirs } => write!(
                f,
                "this host has the data of the cluster {ours}, and the seeds belong to the cluster {theirs}: \
                 correct the seeds, or move the data away to join the other cluster"
            ),
            Trouble::Unmanaged => {
                write!(f, "the store is not run by this program: its servers are left as they are")
            }
            Trouble::Unreadable { key, reason } => {
                write!(f, "the key {key} cannot be understood ({reason}): no servers are added or removed")
            }
            Trouble::BadlyConnected => write!(
                f,
                "this host does not reach servers that work: look at the network between this host and the others"
            ),
            Trouble::Occupied { host, member } => write!(
                f,
                "{host:?} cannot become a server: it has the name or an address of the server {member:?}"
            ),
        }
    }
}
