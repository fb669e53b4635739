//! What servers and the network between them do with what they are asked for.

use std::fmt::Write as _;
use std::time::Duration;

use mgmt_cluster::{Answer, Disk, Input, Launch, Member, MemberId, Process, Request, Start, View};
use mgmt_store::Lease;

use super::servers::{Seat, Servers};
use super::story::{Event, Message, Order, Pause, Running, Story, Truth};

impl Story {
    /// A message arrives at the servers.
    pub(super) fn message(&mut self, at: usize, run: u64, message: Message) {
        let route = self.route(at);
        let input = match message {
            Message::Look(look) => match route {
                Some(cluster) => {
                    let (view, truth) = self.view(at, cluster);
                    return self.reply(at, run, Input::Seen { look, view }, Some(truth));
                }
                None => Input::Unseen { look },
            },
            Message::Call { call, order } => {
                let answer = match route {
                    Some(cluster) => self.execute(cluster, &order),
                    None => {
                        self.propose(at, order);
                        Answer::Unknown
                    }
                };
                tell!(self, "{at}: {call} gives {answer:?}");
                Input::Answer { call, answer }
            }
            Message::Grant { call, time } => {
                let lease = route.map(|cluster| Lease {
                    id: self.clusters[cluster].grant(time, self.now),
                    time: Duration::from_millis(time),
                });
                Input::Granted { call, lease }
            }
            Message::Keep { call, lease } => {
                let kept = route.map(|cluster| self.clusters[cluster].keep(lease, self.now));
                Input::Kept { call, kept }
            }
            Message::Revoke(lease) => {
                if let Some(cluster) = route {
                    self.clusters[cluster].revoke(lease.0);
                }
                return;
            }
        };
        self.reply(at, run, input, None);
    }

    pub(super) fn reply(&mut self, at: usize, run: u64, input: Input, truth: Option<Truth>) {
        if self.is_unlucky(self.loss) {
            return;
        }
        let slow = self.is_unlucky(self.slowness);
        let delay =
            if slow { self.random.below(self.settings.request_time) } else { 1 + self.random.below(40) };
        self.after(delay, Event::Input { host: at, run, input, truth });
    }

    /// Without a majority, a leader may keep a request until there is one again.
    pub(super) fn propose(&mut self, at: usize, order: Order) {
        if matches!(order.request, Request::Commit(_)) || !self.random.percent(60) {
            return;
        }
        if let Some(cluster) = self.hosts[at].home {
            self.proposed.push((cluster, Order { late: true, ..order }));
        }
    }

    /// The cluster that a host reaches, if it works.
    pub(super) fn route(&mut self, at: usize) -> Option<usize> {
        let cluster = self.home(at)?;
        self.hosts[at].home = Some(cluster);
        let group = self.majority(cluster)?;
        let works = self.clusters[cluster].leader.is_some() && self.now >= self.clusters[cluster].ready_at;
        let reached = (0..self.hosts.len()).any(|other| {
            self.serves(other, cluster) && self.reaches(at, other) && self.hosts[other].group == group
        });
        (works && reached && self.hosts[at].group == group).then_some(cluster)
    }

    pub(super) fn home(&self, at: usize) -> Option<usize> {
        let host = &self.hosts[at];
        if let Some(server) = host.server.filter(|server| server.up) {
            return Some(server.cluster);
        }
        if host.home.is_some() {
            return host.home;
        }
        let founder = &self.hosts[host.founder];
        if let Some(server) = founder.server.filter(|server| server.up && self.reaches(at, host.founder)) {
            return Some(server.cluster);
        }
        let first = format!("cluster{}.", host.founder);
        let ours = |cluster: &usize| self.clusters[*cluster].identity.starts_with(&first);
        let mut clusters = (0..self.clusters.len()).filter(ours);
        clusters.find(|cluster| {
            (0..self.hosts.len()).any(|other| self.serves(other, *cluster) && self.reaches(at, other))
        })
    }

    pub(super) fn reaches(&self, from: usize, to: usize) -> bool {
        from == to || (self.hosts[from].group == self.hosts[to].group && !self.blocked.contains(&(from, to)))
    }

    pub(super) fn serves(&self, at: usize, cluster: usize) -> bool {
        let host = &self.hosts[at];
        host.pause != Pause::Machine
            && host.server.is_some_and(|server| {
                server.up && server.cluster == cluster && self.clusters[cluster].seat(server.member).is_some()
            })
    }

    /// Where a member runs, if it is up.
    pub(super) fn server_of(&self, cluster: usize, member: MemberId) -> Option<usize> {
        let (at, _) = self.clusters[cluster].seat(member)?.disk?;
        let host = &self.hosts[at];
        let runs = Some(Running { cluster, member, up: true }) == host.server;
        (runs && host.pause != Pause::Machine).then_some(at)
    }

    /// The part of the network in which a cluster has a majority.
    pub(super) fn majority(&self, cluster: usize) -> Option<u8> {
        (0..2).find(|group| {
            Servers::agree(&self.clusters[cluster].seats, |id| {
                self.server_of(cluster, id).is_some_and(|at| self.hosts[at].group == *group)
            })
        })
    }

    pub(super) fn view(&mut self, at: usize, cluster: usize) -> (View, Truth) {
        let keys = self.clusters[cluster].keys();
        let group = self.majority(cluster);
        let servers = &self.clusters[cluster];
        let mut up = Vec::new();
        let members = servers.seats.iter().map(|seat| {
            let runs = self.server_of(cluster, seat.id);
            let well = runs.filter(|other| Some(self.hosts[*other].group) == group);
            up.extend(well.map(|_| seat.id));
            Member {
                id: seat.id,
                name: seat.name.clone(),
                peers: seat.peers.clone(),
                learner: seat.learner,
                leader: servers.leader == Some(seat.id),
                healthy: well.is_some_and(|other| self.reaches(at, other)),
                caught_up: seat.synced,
            }
        });
        let members: Vec<Member> = members.collect();
        let truth = Truth {
            time: self.now,
            up,
            healthy: members.iter().filter(|member| member.healthy).map(|member| member.id).collect(),
            leader: servers.leader,
            attempt: keys.plan.as_ref().map_or(0, |plan| plan.value.attempt),
            term: keys.decider.as_ref().map_or(0, |decider| decider.created),
        };
        (View { keys, members }, truth)
    }

    /// Does what was asked for, as the servers would.
    pub(super) fn execute(&mut self, cluster: usize, order: &Order) -> Answer {
        let refused = |text: &str| Answer::Refused(text.to_owned());
        if let Request::Commit(transaction) = &order.request {
            let before = self.clusters[cluster].keys();
            if !self.clusters[cluster].commit(transaction) {
                return refused("a condition does not hold");
            }
            let after = self.clusters[cluster].keys();
            let times = (self.now, self.local(order.host));
            self.judge.committed(times, &self.settings, &before, &after, order);
            self.come_back(&after);
            self.nudge_all(cluster);
            return Answer::Done;
        }
        let servers = &self.clusters[cluster];
        let mut seats = servers.seats.clone();
        match &order.request {
            Request::Commit(_) => {}
            Request::AddLearner { peers } => {
                if seats.iter().any(|seat| seat.peers == *peers) {
                    return refused("the peer address exists");
                }
                if seats.iter().any(|seat| seat.learner) {
                    return refused("there are too many learners");
                }
                self.next_member += 1;
                let id = MemberId(self.next_member);
                let peers = peers.clone();
                seats.push(Seat { id, name: String::new(), peers, learner: true, synced: false, disk: None });
            }
            Request::Promote(id) => {
                let Some(seat) = seats.iter_mut().find(|seat| seat.id == *id) else {
                    return refused("there is no such member");
                };
                if !seat.learner || !seat.synced {
                    return refused("it is no learner, or it is behind");
                }
                seat.learner = false;
            }
            Request::Remove(id) => {
                if servers.seat(*id).is_none() {
                    return refused("there is no such member");
                }
                seats.retain(|seat| seat.id != *id);
            }
            Request::MoveLeader(id) => {
                if servers.voters().any(|seat| seat.id == *id) && self.server_of(cluster, *id).is_some() {
                    self.clusters[cluster].leader = Some(*id);
                    self.clusters[cluster].ready_at = self.now + self.random.below(300);
                    return Answer::Done;
                }
                return refused("it cannot lead");
            }
        }
        let keys = self.clusters[cluster].keys();
        self.judge.changed(self.now, &self.settings, &keys, &self.clusters[cluster].seats, &seats, order);
        self.clusters[cluster].seats = seats;
        self.elect();
        self.sweep();
        Answer::Done
    }

    pub(super) fn nudge_all(&mut self, cluster: usize) {
        for at in 0..self.hosts.len() {
            if self.hosts[at].home == Some(cluster)
                && self.hosts[at].core.is_some()
                && self.random.percent(30)
            {
                let run = self.hosts[at].run;
                let delay = 1 + self.random.below(200);
                self.after(delay, Event::Input { host: at, run, input: Input::Nudge, truth: None });
            }
        }
    }

    pub(super) fn start_server(&mut self, at: usize, launch: &Launch) {
        let host = &mut self.hosts[at];
        host.processes += 1;
        let process = host.processes;
        let twice = host.server.is_some();
        self.judge.check(!twice, || format!("{at} started a second server"));
        let fail = Event::ServerGone { host: at, process, removed: false };
        let known = self.clusters.iter().position(|servers| servers.identity == launch.identity);
        if self.hosts[at].data.is_none() {
            match launch.start {
                Start::Found => {
                    let host = &self.hosts[at];
                    let allowed = !host.seeds && known.is_none() && matches!(host.disk, Disk::Founder { .. });
                    self.judge.check(allowed, || format!("{at} founded {} anew", launch.identity));
                    self.next_member += 1;
                    let id = MemberId(self.next_member);
                    let seat = Seat {
                        id,
                        name: host.name.clone(),
                        peers: vec![format!("http://{at}:2380")],
                        learner: false,
                        synced: true,
                        disk: Some((at, host.disks)),
                    };
                    let leases = 1_000_000 * self.clusters.len() as i64;
                    self.clusters.push(Servers::new(&launch.identity, seat, leases));
                    self.hosts[at].data = Some((self.clusters.len() - 1, id));
                }
                Start::Join => {
                    let Some(cluster) = self.route(at).filter(|cluster| known == Some(*cluster)) else {
                        return self.after(500, fail);
                    };
                    if self.hosts[at].broken || launch.cluster.len() != self.clusters[cluster].seats.len() {
                        return self.after(500, fail);
                    }
                    let Disk::Member { member, .. } = self.hosts[at].disk else {
                        return self.judge.check(false, || format!("{at} joins as nobody"));
                    };
                    self.hosts[at].data = Some((cluster, member));
                    let disk = (at, self.hosts[at].disks);
                    let mut seats = self.clusters[cluster].seats.iter_mut();
                    let Some(seat) = seats.find(|seat| seat.id == member) else {
                        return self.after(500, fail);
                    };
                    let first = seat.disk.is_none_or(|other| other == disk);
                    seat.disk = Some(disk);
                    self.judge.check(first, || format!("{at} started {member} again without its data"));
                }
                Start::Resume => return self.after(500, fail),
            }
        }
        if self.hosts[at].broken {
            return self.after(500, fail);
        }
        let Some((cluster, member)) = self.hosts[at].data else { return };
        self.hosts[at].server = Some(Running { cluster, member, up: false });
        let delay = self.hosts[at].start_time;
        self.after(delay, Event::ServerUp { host: at, process });
    }

    pub(super) fn server_up(&mut self, at: usize, process: u64) {
        if self.hosts[at].processes != process {
            return;
        }
        let Some(server) = &mut self.hosts[at].server else { return };
        server.up = true;
        let Running { cluster, member, .. } = *server;
        tell!(self, "{at}: server up as {member}");
        let name = self.hosts[at].name.clone();
        let catch_up_time = self.hosts[at].catch_up_time;
        if let Some(seat) = self.clusters[cluster].seats.iter_mut().find(|seat| seat.id == member) {
            seat.name = name;
            if seat.learner && !seat.synced {
                self.after(catch_up_time, Event::CaughtUp { cluster, member });
            }
        }
        self.elect();
        self.sweep();
        let run = self.hosts[at].run;
        let input = Input::Server(Process::Running { member });
        self.after(1, Event::Input { host: at, run, input, truth: None });
    }

    pub(super) fn caught_up(&mut self, cluster: usize, member: MemberId) {
        let group = self.majority(cluster);
        let runs = self.server_of(cluster, member);
        let connected = runs.is_some_and(|at| Some(self.hosts[at].group) == group);
        let Some(seat) = self.clusters[cluster].seats.iter_mut().find(|seat| seat.id == member) else {
            return;
        };
        if connected {
            seat.synced = true;
        } else if runs.is_some() {
            self.after(2_000, Event::CaughtUp { cluster, member });
        }
    }

    /// What servers do by themselves: elect a leader, end leases, tell removed ones that they are.
    pub(super) fn sweep(&mut self) {
        for cluster in 0..self.clusters.len() {
            let servers = &mut self.clusters[cluster];
            if servers.leader.is_some() && self.now >= servers.ready_at {
                servers.end_leases(self.now);
            }
        }
        for at in 0..self.hosts.len() {
            let Some(server) = self.hosts[at].server.filter(|server| server.up) else { continue };
            let member = self.clusters[server.cluster].seat(server.member).is_some();
            let told = |other: usize| self.serves(other, server.cluster) && self.reaches(at, other);
            if !member && (0..self.hosts.len()).any(told) {
                let process = self.hosts[at].processes;
                let delay = 1 + self.random.below(2_000);
                self.after(delay, Event::ServerGone { host: at, process, removed: true });
            }
        }
        self.elect();
    }

    pub(super) fn elect(&mut self) {
        for cluster in 0..self.clusters.len() {
            let Some(group) = self.majority(cluster) else {
                self.clusters[cluster].leader = None;
                continue;
            };
            let servers = &self.clusters[cluster];
            let able: Vec<MemberId> = servers
                .voters()
                .map(|seat| seat.id)
                .filter(|id| self.server_of(cluster, *id).is_some_and(|at| self.hosts[at].group == group))
                .collect();
            if servers.leader.is_some_and(|leader| able.contains(&leader)) {
                continue;
            }
            let leader = *self.random.pick(&able);
            let delay = self.random.below(1_500);
            let servers = &mut self.clusters[cluster];
            servers.leader = Some(leader);
            servers.ready_at = self.now + delay;
            servers.extend_leases(self.now);
            // What the last leader had taken on may have survived it.
            let (ours, others) =
                std::mem::take(&mut self.proposed).into_iter().partition(|it| it.0 == cluster);
            self.proposed = others;
            let ours: Vec<(usize, Order)> = ours;
            for (_, order) in ours {
                if self.random.percent(50) {
                    tell!(self, "late: {:?}", order.request);
                    self.execute(cluster, &order);
                }
            }
        }
    }
}
