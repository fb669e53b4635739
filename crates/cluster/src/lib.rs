//! Cluster membership: which hosts run an etcd server, and the supervision of the servers.
//!
//! The central type is [`Membership`], one host's part in it. It is a state machine: [`Membership::step`] takes one
//! [`Input`] and the time, and returns what has to be done. It holds no socket, file, clock, or thread; a driver looks at
//! the store, starts and stops the server, and sends the requests. That driver is [`Cluster`].
//!
//! ```text
//!   Cluster (driver)        ─▶ Membership: placement · plan · host      pure
//!     ├── observe              keys and members, from one server; the health of each, from itself
//!     ├── server               the program etcd as a child
//!     ├── disk                 what was promised, the data, where the others are
//!     ├── upkeep               history, holes, and what to do when it is full
//!     └── disaster_recovery    restart with the data of one host
//! ```
//!
//! # How a cluster lives
//!
//! The first host has no seeds: it *founds* a cluster of one, under a random identity. All others have seeds and connect
//! as clients. A host that may serve *volunteers*: it keeps a leased key with its addresses. One of the volunteers is the
//! *decider*, by holding another leased key. The decider compares the members with the volunteers and, if something
//! should be different, makes one change after the other:
//!
//! - *join*: add the host as a learner (which has no vote, so that nothing depends on it), wait until it has started its
//!   server and caught up, give it a vote. If that takes too long, the learner is removed and the host has to wait, each
//!   time longer, while others are preferred.
//! - *remove*: of a learner that was late, of a voter that is gone, leaving, or one too many. The leader's office is handed
//!   on before the leader is removed.
//!
//! # What is in the store
//!
//! ```text
//!   /cluster/identity          {"format":1,"identity":"5b1c…"}       for ever; without it the store is not ours to change
//!   /cluster/size              {"format":1,"ideal":5}                may be changed at any time
//!   /cluster/decider           {"format":1,"host":"a","instance":"77…"}                             under a's lease
//!   /cluster/plan              {"format":1,"attempt":12,"change":null}
//!                              … "change":{"join":"b","instance":"90…","peers":["http://b:2380"],"member":"8e9e05c5"}}
//!                              … "change":{"remove":"c","member":"91bc3c39","reason":"gone"}}
//!   /cluster/volunteer/HOST    {"format":1,"instance":"90…","peers":[…],"clients":[…],
//!                               "member":null,"well":false,"leaving":false}
//!                                                                                                under HOST's lease
//!   /cluster/failure/HOST      {"format":1,"count":2}                how often joining has failed in a row
//!   /cluster/dismissed/HOST    {"format":1}                          the host shall not serve, says an operator
//! ```
//!
//! # Why it holds
//!
//! - **One decides.** What a decider writes is conditional on its own key being the one that it created, and on the plan
//!   being the one that it saw. Changes of the membership itself cannot be made conditional; so a decider asks for one
//!   only at once after a look that showed it in office, and looks and requests that take too long are given up. A new
//!   decider first waits for as long as what the last one has seen, and asked for, could still have an effect. That
//!   needs no trust in leases, only clocks of about the same rate. Members are named by numbers that are never given
//!   twice, so that even what comes later than that finds nothing.
//! - **One change at a time**, which is in the plan before it is begun and until it is known to be done. Replies are not
//!   believed, neither good nor bad ones: after each request the decider looks again. So a decider that takes over goes on
//!   exactly where the last one was, whatever became of its requests. A decider that does not reach servers
//!   which find themselves healthy makes way for another. Deadlines are counted by the decider's own clock
//!   from when it first saw the change; a new decider begins to count anew.
//! - **A vote is never given or taken at the cost of the majority.** A voter is removed only if those that are healthy
//!   are a majority of the rest. A vote is given only if those that were healthy before are a majority afterwards, even
//!   without the newcomer (except from one to two, where that is impossible). Nothing is done unless a majority is
//!   healthy. A voter counts as gone only if the decider has not reached it for a while *and* its own host is away or
//!   finds it ill, too: one bad connection removes nobody.
//! - **First remove the dead, then add.** Adding first makes quorum depend on the newcomer at the worst moment: of three
//!   with one dead, the newcomer makes four with three alive, of which three are needed. Removing first makes two of
//!   two, which needs nobody new, and a dead member's address may be the very one that the newcomer has. But a dead voter
//!   is removed only if somebody can take its place or if the rest are better off: of three with one dead, two are needed
//!   with it and without it, and it may come back with all its data.
//! - **The number of voters is odd.** Two survive no failure, like one, and fail twice as often; four survive one, like
//!   three. With four hosts and an ideal of five, three are voters. An even number happens on the way and, if it stays,
//!   is made odd after a while.
//! - **A host is believed only about itself.** Each run of the program has a random instance; the volunteer's key names it, and
//!   so does the plan. A server is started for a member only by the instance that was chosen, and only once: whoever has
//!   lost the data of a member never starts as that member again, but joins as a new one. A second host of
//!   the same name does not get the key, and says why.
//! - **Data is never deleted.** A host that finds that it is no longer a member sets its data aside and volunteers anew.
//!   A host with seeds, or one that ever was a member, never founds a cluster; after a loss of power all start with
//!   what they have.
//!
//! # What the driver owes
//!
//! - Reads for a [`View`] are linearizable and begin after [`Output::Look`]; the health of a member is asked of the member.
//! - A request is not sent after its `until`, and is cancelled [`Settings::request_time`] after that.
//! - Outputs of one step are carried out in their order; [`Output::Remember`] is on disk before the next begins.
//! - It watches [`keys::PREFIX`] and says [`Input::Nudge`] when something changes there. That makes things faster, and
//!   nothing depends on it.
//! - It tells the truth about the disk: where data should be and is not, a member is a [`Disk::Former`].
//! - Servers run with their own checks of reconfigurations switched on, as these can only refuse more.
//! - Time is monotonic, in milliseconds. Clocks of hosts may differ in rate by a tenth.
//!
//! # How a host ends
//!
//! A host that ends hands its place on if another one offers to take it: it says that it leaves, and waits until it has been
//! removed, its leadership first. If nobody could take its place, it stays a member and just stops: it may be back in a
//! moment, with its data, and the others are no better off without it. One that is killed is treated like one that has stopped;
//! its server is killed with it.
//!
//! Deliberately absent: any trust in who is the leader of the servers, wall-clock time, and a way to merge two clusters.

mod disaster_recovery;
mod disk;
mod driver;
mod host;
pub mod keys;
mod observe;
mod operate;
mod placement;
mod plan;
mod port;
mod server;
mod upkeep;

use std::sync::Arc;

pub use disaster_recovery::DisasterRecoveryError;
pub use disk::{RecoverError, Remembered, recover};
pub use driver::{Cluster, ClusterSettings, StartError};
pub use keys::{Change, Keys, MemberId, Plan, Reason, Volunteer};
pub use observe::{ClusterView, observe, refusal};
pub use operate::{OperateError, dismiss, readmit, resize};
pub use placement::Member;
use plan::Rule;
pub use port::{
    Answer, Config, ConfigError, Disk, Input, Launch, Output, Process, Request, Settings, Start, Status,
    Trouble, View,
};
pub use server::{Program, ProgramError, ServerSettings, ServerTls};

use mgmt_store::{Lease, LeaseId};

/// One host's part in the cluster.
#[derive(Debug)]
pub struct Membership {
    config: Config,
    disk: Disk,
    server: Server,
    lease: Leasing,
    looks: Looks,
    /// Requests of the host for itself.
    own: Caller,
    /// Requests of the decider for all.
    ruling: Caller,
    rule: Option<Rule>,
    /// When this host stands for the office again after it has given it up.
    stands_from: u64,
    leave: Option<Leave>,
    /// Somebody else holds our name: in which revision that began, and since when we know.
    duplicate: Option<(u64, u64)>,
    calls: u64,
    view: Option<Arc<View>>,
    troubles: Vec<Trouble>,
    reported: Option<Status>,
    left: bool,
}

#[derive(Debug, Default)]
struct Server {
    process: ProcessState,
    /// When it may be started again, and how often it has ended in a row.
    not_before: u64,
    ends: u32,
    /// Our member is no longer one: the data has to be set aside.
    removed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ProcessState {
    #[default]
    Stopped,
    Starting,
    Running,
    Stopping,
}

#[derive(Debug, Default)]
struct Leasing {
    held: Option<Held>,
    /// The call that grants or keeps it: its number, when it was asked, and when to ask again.
    asked: Option<(u64, u64)>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    id: LeaseId,
    time: u64,
}

#[derive(Debug, Default)]
struct Looks {
    issued: u64,
    /// The number of the one under way, and when it was asked for.
    under_way: Option<(u64, u64)>,
    due: u64,
    /// Something has happened since it was asked for.
    again: bool,
}

/// Makes one request at a time, and none before what came of the last one has been seen.
#[derive(Debug, Default)]
struct Caller {
    /// The number of the request under way, and when it is over for certain.
    under_way: Option<(u64, u64)>,
    /// Only what was looked at after this shows what came of it.
    floor: u64,
}

#[derive(Debug)]
struct Leave {
    deadline: u64,
    /// Nothing more is waited for.
    now: bool,
}

impl Membership {
    /// A host that has just started.
    pub fn new(config: Config) -> Result<Membership, ConfigError> {
        config.check()?;
        Ok(Membership {
            disk: config.disk.clone(),
            config,
            server: Server::default(),
            lease: Leasing::default(),
            looks: Looks::default(),
            own: Caller::default(),
            ruling: Caller::default(),
            rule: None,
            stands_from: 0,
            leave: None,
            duplicate: None,
            calls: 0,
            view: None,
            troubles: Vec::new(),
            reported: None,
            left: false,
        })
    }

    /// Takes one input, and tells what has to be done. `now` never goes back.
    pub fn step(&mut self, input: Input, now: u64) -> Vec<Output> {
        let mut out = Vec::new();
        if self.left {
            return out;
        }
        self.expire(now);
        let telling = matches!(input, Input::Seen { .. } | Input::Server(_)) || self.reported.is_none();
        self.take(input, now, &mut out);
        self.tend_server(now, &mut out);
        self.tend_leave(now, &mut out);
        if self.left {
            return out;
        }
        self.tend_lease(now, &mut out);
        self.tend_looks(now, &mut out);
        if telling {
            self.report(&mut out);
        }
        out.push(Output::Wake(self.next_wake(now)));
        out
    }

    fn take(&mut self, input: Input, now: u64, out: &mut Vec<Output>) {
        match input {
            Input::Tick => {}
            Input::Nudge => self.nudge(now),
            Input::Seen { look, view } => self.seen(look, view, now, out),
            Input::Unseen { look } => {
                if self.looks.under_way.is_some_and(|(number, _)| number == look) {
                    self.looks.under_way = None;
                    self.looks.due = now.saturating_add(self.config.settings.decide_every);
                }
            }
            Input::Answer { call, .. } => {
                for caller in [&mut self.own, &mut self.ruling] {
                    if caller.under_way.is_some_and(|(number, _)| number == call) {
                        caller.under_way = None;
                        caller.floor = self.looks.issued;
                        self.looks.due = now;
                        self.looks.again = true;
                    }
                }
            }
            Input::Granted { call, lease } => self.granted(call, lease, now),
            Input::Kept { call, kept } => self.kept(call, kept, now),
            Input::Server(process) => self.server_changed(process, now, out),
            Input::Leave => {
                let deadline = now.saturating_add(self.config.settings.leave_within);
                self.leave.get_or_insert(Leave { deadline, now: false });
                self.nudge(now);
            }
            Input::End => self.leave = Some(Leave { deadline: now, now: true }),
        }
    }

    fn seen(&mut self, look: u64, view: View, now: u64, out: &mut Vec<Output>) {
        if self.looks.under_way.take_if(|(number, _)| *number == look).is_none() {
            return;
        }
        let view = Arc::new(view);
        self.view = Some(Arc::clone(&view));
        self.troubles.clear();
        self.attend(&view, look, now, out);
        self.decide(&view, look, now, out);
        let settings = &self.config.settings;
        let busy = self.rule.is_some()
            || self.leave.is_some()
            || self.own.under_way.is_some()
            || self.plan_names_us(&view).is_some();
        let pause = if busy { settings.decide_every } else { settings.look_every };
        self.looks.due = if self.looks.again { now } else { now.saturating_add(pause) };
        self.looks.again = false;
    }

    fn nudge(&mut self, now: u64) {
        self.looks.due = now;
        self.looks.again = true;
    }

    /// Gives up waiting for what cannot come any more.
    fn expire(&mut self, now: u64) {
        let settings = &self.config.settings;
        for caller in [&mut self.own, &mut self.ruling] {
            if caller.under_way.is_some_and(|(_, over)| now >= over) {
                caller.under_way = None;
                caller.floor = self.looks.issued;
                self.looks.due = now;
                self.looks.again = true;
            }
        }
        if self.looks.under_way.is_some_and(|(_, asked)| now >= asked.saturating_add(settings.look_time)) {
            self.looks.under_way = None;
            self.looks.due = now;
        }
        if self.lease.asked.is_some_and(|(_, asked)| now >= asked.saturating_add(settings.request_time)) {
            self.lease.asked = None;
            self.lease.next = now;
        }
    }

    fn tend_looks(&mut self, now: u64, out: &mut Vec<Output>) {
        if self.looks.under_way.is_some() || now < self.looks.due {
            return;
        }
        self.looks.issued += 1;
        self.looks.under_way = Some((self.looks.issued, now));
        self.looks.again = false;
        out.push(Output::Look(self.looks.issued));
    }

    /// Keeps a lease for as long as the host is there, if the host needs one.
    fn tend_lease(&mut self, now: u64, out: &mut Vec<Output>) {
        if !self.config.serve || self.lease.asked.is_some() || now < self.lease.next {
            return;
        }
        self.calls += 1;
        let call = self.calls;
        self.lease.asked = Some((call, now));
        match self.lease.held {
            Some(held) => out.push(Output::Keep { call, lease: held.id }),
            None => out.push(Output::Grant { call, time: self.config.settings.lease_time }),
        }
    }

    fn granted(&mut self, call: u64, lease: Option<Lease>, now: u64) {
        if self.lease.asked.take_if(|(number, _)| *number == call).is_none() {
            return;
        }
        self.lease.held = lease.map(|lease| Held {
            id: lease.id,
            time: u64::try_from(lease.time.as_millis()).unwrap_or(u64::MAX),
        });
        self.lease_next(now);
    }

    fn kept(&mut self, call: u64, kept: Option<bool>, now: u64) {
        if self.lease.asked.take_if(|(number, _)| *number == call).is_none() {
            return;
        }
        if kept == Some(false) {
            self.lease.held = None;
            self.lease.next = now;
        } else {
            self.lease_next(now);
        }
    }

    fn lease_next(&mut self, now: u64) {
        let pause = match self.lease.held {
            Some(held) => held.time / 3,
            None => self.config.settings.decide_every,
        };
        self.lease.next = now.saturating_add(pause);
    }

    fn call(&mut self, who: Who, request: Request, now: u64, out: &mut Vec<Output>) {
        let settings = &self.config.settings;
        let until = now.saturating_add(settings.send_within);
        self.calls += 1;
        let caller = match who {
            Who::Own => &mut self.own,
            Who::Ruling => &mut self.ruling,
        };
        caller.under_way = Some((self.calls, until.saturating_add(settings.request_time)));
        out.push(Output::Call { call: self.calls, until, request });
    }

    fn next_wake(&self, now: u64) -> u64 {
        let settings = &self.config.settings;
        let look = match self.looks.under_way {
            Some((_, asked)) => asked.saturating_add(settings.look_time),
            None => self.looks.due,
        };
        let lease = match self.lease.asked {
            _ if !self.config.serve => None,
            Some((_, asked)) => Some(asked.saturating_add(settings.request_time)),
            None => Some(self.lease.next),
        };
        let own = self.own.under_way.map(|(_, over)| over);
        let ruling = self.ruling.under_way.map(|(_, over)| over);
        let leave = self.leave.as_ref().filter(|leave| !leave.now).map(|leave| leave.deadline);
        let start = self.server.process == ProcessState::Stopped && self.may_start();
        let start = start.then_some(self.server.not_before);
        let others = [lease, own, ruling, leave, start];
        others.into_iter().flatten().fold(look, u64::min).max(now.saturating_add(1))
    }

    fn report(&mut self, out: &mut Vec<Output>) {
        let status = self.status();
        if self.reported.as_ref() != Some(&status) {
            out.push(Output::Status(Box::new(status.clone())));
            self.reported = Some(status);
        }
    }

    fn status(&self) -> Status {
        let view = self.view.as_deref();
        let keys = view.map(|view| &view.keys);
        Status {
            identity: keys.and_then(|keys| keys.identity.clone()),
            voters: view.map_or_else(Vec::new, |view| {
                placement::voters(&view.members).map(|voter| voter.name.clone()).collect()
            }),
            ideal: keys.and_then(|keys| keys.ideal),
            decider: keys.and_then(|keys| keys.decider.as_ref()).map(|decider| decider.value.host.clone()),
            change: keys.and_then(|keys| keys.plan.as_ref()).and_then(|plan| plan.value.change.clone()),
            serving: self.server.process == ProcessState::Running,
            troubles: self.troubles.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Own,
    Ruling,
}

impl Caller {
    /// A request may be made by what this look has shown.
    fn is_free(&self, look: u64) -> bool {
        self.under_way.is_none() && look > self.floor
    }
}
