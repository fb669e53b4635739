//! The hosts, the driver of each, the network between them, and what goes wrong.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fmt::Write as _;
use std::time::Duration;

use mgmt_world::cluster::{
    Answer, Change, Config, Disk, Input, Launch, Member, MemberId, Membership, Output, Process, Request,
    Settings, Start, Status, View, keys,
};
use mgmt_world::store::{Effect, Lease, LeaseId, Transaction};

use super::judge::{Judge, Marks};
use super::random::Random;
use super::servers::{Seat, Servers};

pub(crate) struct Story {
    pub(crate) random: Random,
    pub(crate) now: u64,
    pub(crate) hosts: Vec<Host>,
    pub(crate) clusters: Vec<Servers>,
    pub(crate) judge: Judge,
    pub(crate) settings: Settings,
    /// Nothing goes wrong any more.
    pub(crate) calm: bool,
    /// Of a hundred messages, how many are lost, and how many are slow.
    loss: u64,
    slowness: u64,
    /// Pairs of hosts of which the first cannot reach the second.
    blocked: BTreeSet<(usize, usize)>,
    /// Requests that servers have taken on and could not agree about.
    proposed: Vec<(usize, Order)>,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// What the events are. Taken out when they happen.
    bodies: Vec<Option<Event>>,
    free: Vec<usize>,
    sequence: u64,
    next_member: u64,
    trace: Option<String>,
}

pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) core: Option<Membership>,
    /// Counts runs of the program.
    run: u64,
    seeds: bool,
    /// The host that founds the cluster that this one belongs to.
    founder: usize,
    pub(crate) serve: bool,
    pub(crate) disk: Disk,
    /// Counts disks.
    disks: u64,
    /// The member whose data is on the disk.
    pub(crate) data: Option<(usize, MemberId)>,
    pub(crate) server: Option<Running>,
    /// Counts processes of the server.
    processes: u64,
    /// The cluster that it last talked to.
    pub(crate) home: Option<usize>,
    group: u8,
    clock: (u64, u64),
    pause: Pause,
    held: Vec<Held>,
    wake: u64,
    started: bool,
    pub(crate) left: bool,
    pub(crate) leaving: bool,
    /// When it was asked to leave, by its own clock.
    pub(crate) leaves_since: u64,
    /// It has to be let go before it leaves.
    pub(crate) let_go: bool,
    pub(crate) broken: bool,
    start_time: u64,
    catch_up_time: u64,
    pub(crate) status: Option<Status>,
    truth: Option<Truth>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Running {
    pub(crate) cluster: usize,
    pub(crate) member: MemberId,
    pub(crate) up: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Pause {
    No,
    /// The program stands still.
    Program,
    /// The whole machine stands still.
    Machine,
}

/// What waits for a program that stands still.
enum Held {
    In(Input, Option<Truth>),
    Out(Output),
}

/// What was really so when a host looked.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    pub(crate) time: u64,
    pub(crate) up: Vec<MemberId>,
    /// Those that the host found to be well.
    pub(crate) healthy: Vec<MemberId>,
    pub(crate) leader: Option<MemberId>,
    pub(crate) attempt: u64,
    pub(crate) term: u64,
}

/// A request for the servers, and what it is based on.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) host: usize,
    pub(crate) request: Request,
    pub(crate) truth: Option<Truth>,
    /// A leader without a majority has kept it.
    pub(crate) late: bool,
}

enum Event {
    Begin(usize),
    Wake { host: usize, token: u64 },
    Input { host: usize, run: u64, input: Input, truth: Option<Truth> },
    Message { host: usize, run: u64, message: Message },
    Resume(usize),
    ServerUp { host: usize, process: u64 },
    ServerGone { host: usize, process: u64, removed: bool },
    CaughtUp { cluster: usize, member: MemberId },
    Sweep,
}

enum Message {
    Look(u64),
    Call { call: u64, order: Order },
    Grant { call: u64, time: u64 },
    Keep { call: u64, lease: LeaseId },
    Revoke(LeaseId),
}

/// Plays one story. Panics where something is wrong; what happened until then is in `trace`.
pub(crate) fn play(seed: u64, traced: bool, trace: &mut String, marks: &mut Marks) {
    let mut story = Story::new(seed, traced);
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| story.play()));
    if let Some(text) = story.trace.take() {
        *trace = text;
    }
    marks.merge(&story.judge.marks);
    if let Err(cause) = told {
        let said = cause.downcast_ref::<String>().cloned().unwrap_or_default();
        let _ = writeln!(trace, "{:>9} FAILED: {said}", story.now);
        std::panic::resume_unwind(cause);
    }
}

pub(crate) fn settings() -> Settings {
    Settings {
        lease_time: 8_000,
        send_within: 500,
        request_time: 2_000,
        look_time: 2_000,
        look_every: 6_000,
        decide_every: 2_000,
        dead_after: 8_000,
        sick_after: 25_000,
        start_within: 12_000,
        catch_up_within: 20_000,
        change_within: 12_000,
        back_off: 10_000,
        back_off_most: 80_000,
        uneven_after: 15_000,
        leave_within: 40_000,
        duplicate_after: 25_000,
        restart_after: 500,
    }
}

macro_rules! tell {
    ($story:expr, $($text:tt)*) => {
        if let Some(trace) = &mut $story.trace {
            let _ = write!(trace, "{:>9} ", $story.now);
            let _ = writeln!(trace, $($text)*);
        }
    };
}

impl Story {
    fn new(seed: u64, traced: bool) -> Story {
        let mut random = Random::new(seed);
        let hosts = *random.pick(&[1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 9]);
        let two_founders = hosts > 2 && random.percent(8);
        let duplicate = hosts > 3 && random.percent(6);
        let hosts = (0..hosts)
            .map(|at| Host::new(at, &mut random, two_founders, duplicate && at + 1 == hosts))
            .collect();
        Story {
            loss: *random.pick(&[0, 0, 3, 10]),
            slowness: *random.pick(&[0, 5, 20]),
            random,
            now: 0,
            hosts,
            clusters: Vec::new(),
            judge: Judge::default(),
            settings: settings(),
            calm: false,
            blocked: BTreeSet::new(),
            proposed: Vec::new(),
            events: BinaryHeap::new(),
            bodies: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            next_member: 0x100,
            trace: traced.then(String::new),
        }
    }

    fn play(&mut self) {
        for host in 0..self.hosts.len() {
            let first = self.hosts[host].founder == host;
            let delay = if first { 0 } else { self.random.below(20_000) };
            self.after(delay, Event::Begin(host));
        }
        self.after(500, Event::Sweep);
        let trouble_until = *self.random.pick(&[0, 40_000, 80_000, 120_000]);
        let restless = *self.random.pick(&[2_000, 6_000, 12_000]);
        let mut next_fault = 3_000 + self.random.below(20_000);
        while self.now < trouble_until {
            self.run_until(next_fault.min(trouble_until));
            if self.now >= next_fault {
                self.something_happens();
                next_fault = self.now + 1 + self.random.below(restless);
            }
        }
        self.calm_down();
        self.judge_the_end(None);
        self.epilogue();
    }

    /// One thing more, in all calm: what comes of it can be told exactly.
    fn epilogue(&mut self) {
        let at = self.random.below(self.hosts.len() as u64) as usize;
        let serving = self.hosts[at].server.filter(|server| server.up).map(|server| server.cluster);
        match (self.random.below(5), serving) {
            (0, _) => {
                tell!(self, "the power fails");
                for host in 0..self.hosts.len() {
                    self.crash(host, false);
                }
                for host in 0..self.hosts.len() {
                    let delay = self.random.below(4_000);
                    self.after(delay, Event::Begin(host));
                }
                self.run_until(self.now + 5_000);
                self.judge.calm();
                // All come back with what they had. A host whose place was kept may find it taken.
                let most = if self.hosts.iter().any(|host| host.broken) { None } else { Some(0) };
                self.judge.mark("power failed");
                self.judge_the_end(most);
            }
            (1, Some(cluster)) => {
                let ideal = 1 + self.random.below(7) as u32;
                tell!(self, "ideal {ideal}");
                self.clusters[cluster].set_ideal(ideal);
                self.judge.calm();
                self.judge_the_end(None);
            }
            (2, Some(cluster)) => {
                let others = self.able(cluster).into_iter().filter(|other| *other != at).count();
                let well = !self.hosts.iter().any(|host| host.broken) && self.majority(cluster).is_some();
                self.leave(at, others > 0 && well);
                self.judge.mark("left in calm");
                self.judge.calm();
                self.judge_the_end(None);
            }
            (3, Some(_)) => {
                self.crash(at, true);
                self.hosts[at].seeds = true;
                self.judge.calm();
                self.judge_the_end(None);
            }
            (4, Some(cluster)) => {
                // For good: the host counts as one that has left.
                self.crash(at, false);
                self.hosts[at].left = true;
                self.judge.mark("died in calm");
                self.judge.calm();
                // Of two that are left of three, nobody takes the place of the third.
                let able = self.able(cluster);
                let member = |host: &usize| self.serves(*host, cluster);
                let alike = able.len().is_multiple_of(2) && able.iter().all(member);
                let nobody = alike && able.len() < self.clusters[cluster].voters().count();
                let spare = self
                    .hosts
                    .iter()
                    .any(|host| host.broken || host.name == self.hosts[at].name && !host.left);
                let most = if nobody && !spare && !able.is_empty() { Some(0) } else { None };
                if most.is_some() {
                    self.judge.mark("place kept");
                }
                self.judge_the_end(most);
            }
            _ => {}
        }
    }

    pub(crate) fn run_until(&mut self, time: u64) {
        while let Some(Reverse((at, _, body))) = self.events.peek().copied()
            && at <= time
        {
            self.events.pop();
            self.free.push(body);
            self.now = at;
            if let Some(event) = self.bodies[body].take() {
                self.happen(event);
            }
        }
        self.now = time;
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.sequence += 1;
        let body = self.free.pop().unwrap_or_else(|| {
            self.bodies.push(None);
            self.bodies.len() - 1
        });
        self.bodies[body] = Some(event);
        self.events.push(Reverse((self.now + delay, self.sequence, body)));
    }

    pub(crate) fn local(&self, host: usize) -> u64 {
        let (offset, rate) = self.hosts[host].clock;
        offset + self.now * rate / 1000
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Begin(host) => self.begin(host),
            Event::Wake { host, token } => {
                if self.hosts[host].wake == token {
                    self.input(host, Input::Tick, None);
                }
            }
            Event::Input { host, run, input, truth } => {
                if self.hosts[host].run == run {
                    self.input(host, input, truth);
                }
            }
            Event::Message { host, run, message } => self.message(host, run, message),
            Event::Resume(host) => self.resume(host),
            Event::ServerUp { host, process } => self.server_up(host, process),
            Event::ServerGone { host, process, removed } => {
                if self.hosts[host].processes == process {
                    tell!(self, "{host}: server ends, removed: {removed}");
                    self.hosts[host].server = None;
                    self.elect();
                    let run = self.hosts[host].run;
                    self.after(
                        1,
                        Event::Input {
                            host,
                            run,
                            input: Input::Server(Process::Ended { removed }),
                            truth: None,
                        },
                    );
                }
            }
            Event::CaughtUp { cluster, member } => self.caught_up(cluster, member),
            Event::Sweep => {
                self.sweep();
                self.after(1_000, Event::Sweep);
            }
        }
    }

    /// Starts the program of a host, with what is on its disk.
    pub(crate) fn begin(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        if host.core.is_some() || host.left {
            return;
        }
        host.started = true;
        if let Disk::Member { identity, .. } = &host.disk
            && host.data.is_none()
        {
            host.disk = Disk::Former { identity: identity.clone() };
        }
        host.run += 1;
        let run = host.run;
        let config = Config {
            host: host.name.clone(),
            instance: format!("{at}.{run}"),
            fresh_identity: format!("cluster{at}.{run}"),
            peers: vec![format!("http://{at}:2380")],
            clients: vec![format!("http://{at}:2379")],
            seeds: host.seeds,
            serve: host.serve,
            ideal: *self.random.pick(&[1, 2, 3, 3, 3, 4, 5, 5, 5, 7]),
            disk: host.disk.clone(),
            settings: self.settings.clone(),
        };
        host.core = Some(Membership::new(config).expect("the story's settings are right"));
        host.status = None;
        host.truth = None;
        host.held.clear();
        host.pause = Pause::No;
        tell!(self, "{at}: begins, run {run}, {:?}", self.hosts[at].disk);
        self.input(at, Input::Tick, None);
    }

    pub(crate) fn input(&mut self, at: usize, input: Input, truth: Option<Truth>) {
        let now = self.local(at);
        let host = &mut self.hosts[at];
        if host.pause != Pause::No {
            host.held.push(Held::In(input, truth));
            return;
        }
        let Some(core) = &mut host.core else { return };
        if truth.is_some() {
            host.truth = truth;
        }
        if let Some(trace) = &mut self.trace
            && !matches!(input, Input::Tick | Input::Kept { .. } | Input::Seen { .. })
        {
            let _ = writeln!(trace, "{:>9} {at}: < {input:?}", self.now);
        }
        let outputs = core.step(input, now);
        // A program may be killed, or stand still, after any of the things that it has to do.
        let unlucky = !self.calm && outputs.len() > 2 && self.random.below(400) == 0;
        let cut = if unlucky { self.random.below(outputs.len() as u64) as usize } else { outputs.len() };
        let killed = unlucky && self.random.percent(40);
        for (index, output) in outputs.into_iter().enumerate() {
            let change =
                matches!(&output, Output::Call { request, .. } if !matches!(request, Request::Commit(_)));
            if change && !self.calm && self.random.percent(4) {
                self.pause(at, Pause::Program);
            }
            if index == cut && killed {
                self.crash(at, false);
                return;
            }
            if index == cut {
                self.pause(at, Pause::Program);
            }
            if self.hosts[at].pause == Pause::No {
                self.output(at, output);
            } else {
                self.hosts[at].held.push(Held::Out(output));
            }
        }
    }

    fn output(&mut self, at: usize, output: Output) {
        if self.trace.is_some()
            && !matches!(output, Output::Look(_) | Output::Keep { .. } | Output::Wake(_) | Output::Status(_))
        {
            let text = describe(&output);
            tell!(self, "{at}: > {text}");
        }
        let run = self.hosts[at].run;
        match output {
            Output::Look(look) => self.send(at, Message::Look(look)),
            Output::Grant { call, time } => self.send(at, Message::Grant { call, time }),
            Output::Keep { call, lease } => self.send(at, Message::Keep { call, lease }),
            Output::Revoke(lease) => self.send(at, Message::Revoke(lease)),
            Output::Call { call, until, request } => {
                if self.local(at) > until {
                    tell!(self, "{at}: too late for {call}");
                    let input = Input::Answer { call, answer: Answer::Unknown };
                    self.after(1, Event::Input { host: at, run, input, truth: None });
                    return;
                }
                let truth = self.hosts[at].truth.clone();
                let order = Order { host: at, request, truth, late: false };
                self.send(at, Message::Call { call, order });
            }
            Output::Remember(disk) => self.hosts[at].disk = disk,
            Output::Start(launch) => self.start_server(at, &launch),
            Output::Stop => {
                let process = self.hosts[at].processes;
                let delay = 1 + self.random.below(1_500);
                self.after(delay, Event::ServerGone { host: at, process, removed: false });
            }
            Output::SetAside => {
                let data = self.hosts[at].data.take();
                if let Some((cluster, member)) = data {
                    let there = self.clusters[cluster].seat(member).is_some();
                    self.judge.check(!there, || format!("{at} set aside the data of the member {member}"));
                }
            }
            Output::Wake(time) => {
                let (offset, rate) = self.hosts[at].clock;
                let real = (time.saturating_sub(offset) * 1000).div_ceil(rate);
                self.sequence += 1;
                let token = self.sequence;
                self.hosts[at].wake = token;
                self.after(real.saturating_sub(self.now).max(1), Event::Wake { host: at, token });
            }
            Output::Status(status) => self.hosts[at].status = Some(*status),
            Output::Left { member } => {
                tell!(self, "{at}: has left, member: {member}");
                self.judge_leaving(at, member);
                let host = &mut self.hosts[at];
                host.core = None;
                host.left = true;
                host.leaving = false;
                let stopped = host.server.is_none();
                self.judge.check(stopped, || format!("{at} left while its server ran"));
            }
        }
    }

    fn send(&mut self, at: usize, message: Message) {
        if self.is_unlucky(self.loss) {
            return;
        }
        let intrigue = !self.calm && self.random.percent(4) && self.intrigue(at, &message);
        // Whatever takes longer than a request may take is cancelled by the driver.
        let slow = self.is_unlucky(self.slowness);
        let delay = if intrigue {
            self.settings.request_time * 9 / 10
        } else if slow {
            self.random.below(self.settings.request_time * 9 / 10)
        } else {
            1 + self.random.below(40)
        };
        let run = self.hosts[at].run;
        self.after(delay, Event::Message { host: at, run, message });
    }

    /// While a decider's request is on its way, the decider loses its office, and the reason for the request goes away.
    fn intrigue(&mut self, at: usize, message: &Message) -> bool {
        let Message::Call { order, .. } = message else { return false };
        let Some(cluster) = self.hosts[at].home else { return false };
        let rules = |transaction: &Transaction| transaction.effects.iter().any(|it| it.key() == keys::PLAN);
        if matches!(&order.request, Request::Commit(it) if !rules(it)) || self.majority(cluster).is_none() {
            return false;
        }
        tell!(self, "{at}: intrigue against {:?}", order.request);
        let leases: Vec<i64> = self.clusters[cluster].leases.keys().copied().collect();
        for lease in leases {
            self.clusters[cluster].revoke(lease);
        }
        let keys = self.clusters[cluster].keys();
        let change = keys.plan.as_ref().and_then(|plan| plan.value.change.clone());
        let (Some(Change::Join { host, .. }) | Some(Change::Remove { host, .. })) = change else {
            return true;
        };
        if let Some(subject) = self.hosts.iter().position(|other| other.name == host) {
            self.crash(subject, false);
            self.hosts[subject].left = false;
            self.begin(subject);
        }
        if self.random.percent(50) {
            let ideal = 1 + self.random.below(7) as u32;
            self.clusters[cluster].set_ideal(ideal);
        }
        for _ in 0..5 {
            self.nudge_all(cluster);
        }
        self.judge.mark("intrigue");
        true
    }

    fn is_unlucky(&mut self, percent: u64) -> bool {
        !self.calm && percent > 0 && self.random.percent(percent)
    }

    /// A message arrives at the servers.
    fn message(&mut self, at: usize, run: u64, message: Message) {
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

    fn reply(&mut self, at: usize, run: u64, input: Input, truth: Option<Truth>) {
        if self.is_unlucky(self.loss) {
            return;
        }
        let slow = self.is_unlucky(self.slowness);
        let delay =
            if slow { self.random.below(self.settings.request_time) } else { 1 + self.random.below(40) };
        self.after(delay, Event::Input { host: at, run, input, truth });
    }

    /// Without a majority, a leader may keep a request until there is one again.
    fn propose(&mut self, at: usize, order: Order) {
        if matches!(order.request, Request::Commit(_)) || !self.random.percent(60) {
            return;
        }
        if let Some(cluster) = self.hosts[at].home {
            self.proposed.push((cluster, Order { late: true, ..order }));
        }
    }

    /// The cluster that a host reaches, if it works.
    fn route(&mut self, at: usize) -> Option<usize> {
        let cluster = self.home(at)?;
        self.hosts[at].home = Some(cluster);
        let group = self.majority(cluster)?;
        let works = self.clusters[cluster].leader.is_some() && self.now >= self.clusters[cluster].ready_at;
        let reached = (0..self.hosts.len()).any(|other| {
            self.serves(other, cluster) && self.reaches(at, other) && self.hosts[other].group == group
        });
        (works && reached && self.hosts[at].group == group).then_some(cluster)
    }

    fn home(&self, at: usize) -> Option<usize> {
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

    fn reaches(&self, from: usize, to: usize) -> bool {
        from == to || (self.hosts[from].group == self.hosts[to].group && !self.blocked.contains(&(from, to)))
    }

    pub(crate) fn serves(&self, at: usize, cluster: usize) -> bool {
        let host = &self.hosts[at];
        host.pause != Pause::Machine
            && host.server.is_some_and(|server| {
                server.up && server.cluster == cluster && self.clusters[cluster].seat(server.member).is_some()
            })
    }

    /// Where a member runs, if it is up.
    fn server_of(&self, cluster: usize, member: MemberId) -> Option<usize> {
        let (at, _) = self.clusters[cluster].seat(member)?.disk?;
        let host = &self.hosts[at];
        let runs = Some(Running { cluster, member, up: true }) == host.server;
        (runs && host.pause != Pause::Machine).then_some(at)
    }

    /// The part of the network in which a cluster has a majority.
    pub(crate) fn majority(&self, cluster: usize) -> Option<u8> {
        (0..2).find(|group| {
            Servers::agree(&self.clusters[cluster].seats, |id| {
                self.server_of(cluster, id).is_some_and(|at| self.hosts[at].group == *group)
            })
        })
    }

    fn view(&mut self, at: usize, cluster: usize) -> (View, Truth) {
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
    fn execute(&mut self, cluster: usize, order: &Order) -> Answer {
        let refused = |text: &str| Answer::Refused(text.to_owned());
        if let Request::Commit(transaction) = &order.request {
            let before = self.clusters[cluster].keys();
            if !self.clusters[cluster].commit(transaction) {
                return refused("a condition does not hold");
            }
            let after = self.clusters[cluster].keys();
            self.judge.committed(self.now, &before, &after, order);
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

    fn nudge_all(&mut self, cluster: usize) {
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

    fn start_server(&mut self, at: usize, launch: &Launch) {
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

    fn server_up(&mut self, at: usize, process: u64) {
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

    fn caught_up(&mut self, cluster: usize, member: MemberId) {
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
    fn sweep(&mut self) {
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

    fn elect(&mut self) {
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

    pub(crate) fn leave(&mut self, at: usize, let_go: bool) {
        if self.hosts[at].core.is_none() || self.hosts[at].leaving {
            return;
        }
        self.hosts[at].leaves_since = self.local(at);
        self.hosts[at].leaving = true;
        self.hosts[at].let_go = let_go;
        self.input(at, Input::Leave, None);
    }

    pub(crate) fn crash(&mut self, at: usize, lose_disk: bool) {
        tell!(self, "{at}: crashes, loses its disk: {lose_disk}");
        let host = &mut self.hosts[at];
        host.core = None;
        host.run += 1;
        host.server = None;
        host.processes += 1;
        host.pause = Pause::No;
        host.held.clear();
        host.leaving = false;
        host.let_go = false;
        if lose_disk {
            host.disk = Disk::Empty;
            host.data = None;
            host.disks += 1;
            host.home = None;
            // Whoever sets up the first host anew usually knows that there are others.
            host.seeds |= self.random.percent(80);
        }
        self.elect();
    }

    fn pause(&mut self, at: usize, kind: Pause) {
        if self.hosts[at].core.is_none() || self.hosts[at].pause != Pause::No {
            return;
        }
        let time = 500 + self.random.below(*self.random.clone().pick(&[2_000, 20_000, 40_000]));
        tell!(self, "{at}: stands still for {time}, the machine too: {}", kind == Pause::Machine);
        self.hosts[at].pause = kind;
        self.after(time, Event::Resume(at));
        self.elect();
    }

    fn resume(&mut self, at: usize) {
        if self.hosts[at].pause == Pause::No {
            return;
        }
        tell!(self, "{at}: goes on");
        self.hosts[at].pause = Pause::No;
        self.elect();
        let held = std::mem::take(&mut self.hosts[at].held);
        let run = self.hosts[at].run;
        for each in held {
            if self.hosts[at].run != run {
                return;
            }
            if self.hosts[at].pause != Pause::No {
                self.hosts[at].held.push(each);
                continue;
            }
            match each {
                Held::In(input, truth) => self.input(at, input, truth),
                Held::Out(output) => self.output(at, output),
            }
        }
    }

    fn something_happens(&mut self) {
        let at = self.random.below(self.hosts.len() as u64) as usize;
        match self.random.below(100) {
            0..=17 => self.crash(at, false),
            18..=21 => self.crash(at, true),
            22..=44 => {
                for host in 0..self.hosts.len() {
                    if self.hosts[host].started && self.random.percent(60) {
                        self.begin(host);
                    }
                }
            }
            45..=54 => {
                let kind = if self.random.percent(50) { Pause::Program } else { Pause::Machine };
                self.pause(at, kind);
            }
            55..=61 => {
                for host in 0..self.hosts.len() {
                    self.hosts[host].group = u8::from(self.random.percent(30));
                }
                tell!(self, "groups {:?}", self.hosts.iter().map(|host| host.group).collect::<Vec<_>>());
                self.elect();
            }
            62..=69 => self.heal(),
            70..=75 => {
                let other = self.random.below(self.hosts.len() as u64) as usize;
                tell!(self, "{at} cannot reach {other}");
                self.blocked.insert((at, other));
            }
            76..=82 => {
                let ideal = 1 + self.random.below(7) as u32;
                if let Some(cluster) = self.route(at) {
                    tell!(self, "ideal {ideal}");
                    self.clusters[cluster].set_ideal(ideal);
                }
            }
            83..=87 => self.leave(at, false),
            88..=91 => {
                self.hosts[at].left = false;
                // Somebody gives it the wrong seeds.
                if self.hosts[at].core.is_none() && self.hosts[at].seeds && self.random.percent(50) {
                    let founder = self.random.below(2).min(self.hosts.len() as u64 - 1) as usize;
                    if !self.hosts[founder].seeds && self.hosts[at].founder != founder {
                        tell!(self, "{at}: is told of {founder}");
                        self.hosts[at].founder = founder;
                        self.hosts[at].home = None;
                    }
                }
                if self.hosts[at].started {
                    self.begin(at);
                }
            }
            92..=95 => {
                let process = self.hosts[at].processes;
                self.hosts[at].broken = self.random.percent(50);
                if self.hosts[at].server.is_some() {
                    self.after(1, Event::ServerGone { host: at, process, removed: false });
                }
            }
            96..=97 => self.hosts[at].broken = false,
            _ => {
                if let Some(cluster) = self.route(at) {
                    let leases: Vec<i64> = self.clusters[cluster].leases.keys().copied().collect();
                    if !leases.is_empty() {
                        let lease = *self.random.pick(&leases);
                        tell!(self, "lease {lease} ends");
                        self.clusters[cluster].revoke(lease);
                    }
                }
            }
        }
    }

    fn heal(&mut self) {
        tell!(self, "the network heals");
        for host in &mut self.hosts {
            host.group = 0;
        }
        self.blocked.clear();
        self.elect();
    }

    fn calm_down(&mut self) {
        tell!(self, "all is calm");
        self.calm = true;
        self.heal();
        let keep_one_broken = self.random.percent(20);
        for at in 0..self.hosts.len() {
            if self.hosts[at].pause != Pause::No {
                self.resume(at);
            }
            self.hosts[at].broken &= keep_one_broken;
            if !self.hosts[at].broken {
                self.hosts[at].catch_up_time = self.hosts[at].catch_up_time.min(3_000);
                self.hosts[at].start_time = self.hosts[at].start_time.min(3_000);
            }
        }
        for at in 0..self.hosts.len() {
            self.begin(at);
        }
        self.judge.calm();
    }

    pub(crate) fn say(&mut self, text: &str) {
        tell!(self, "{text}");
    }
}

/// An output for people: stored values as the text that they are.
fn describe(output: &Output) -> String {
    let Output::Call { call, request: Request::Commit(transaction), .. } = output else {
        return format!("{output:?}");
    };
    let effects = transaction.effects.iter().map(|effect| match effect {
        Effect::Put { key, value, .. } => format!("{key} = {}", String::from_utf8_lossy(value)),
        Effect::Delete(key) => format!("{key} deleted"),
    });
    let effects: Vec<String> = effects.collect();
    format!("{call}: {} if {:?}", effects.join(", "), transaction.conditions)
}

impl Host {
    fn new(at: usize, random: &mut Random, two_founders: bool, duplicate: bool) -> Host {
        let founder = match at {
            0 => 0,
            1 if two_founders => 1,
            _ => usize::from(two_founders && random.percent(50)),
        };
        let name = if duplicate { at - 1 } else { at };
        Host {
            name: format!("host{name}"),
            core: None,
            run: 0,
            seeds: founder != at,
            founder,
            serve: founder == at || !random.percent(10),
            disk: Disk::Empty,
            disks: 0,
            data: None,
            server: None,
            processes: 0,
            home: None,
            group: 0,
            clock: (random.below(1_000_000), random.between(960, 1040)),
            pause: Pause::No,
            held: Vec::new(),
            wake: 0,
            started: false,
            left: false,
            leaving: false,
            leaves_since: 0,
            let_go: false,
            broken: random.percent(4) && founder != at,
            start_time: *random.pick(&[100, 500, 2_000, 10_000]),
            catch_up_time: *random.pick(&[100, 1_000, 5_000, 30_000]),
            status: None,
            truth: None,
        }
    }
}
