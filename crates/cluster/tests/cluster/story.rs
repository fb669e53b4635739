//! The hosts and the driver of each.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fmt::Write as _;

use mgmt_cluster::{
    Answer, Config, Disk, Input, MemberId, Membership, Output, Process, Request, Settings, Status, keys,
};
use mgmt_store::{Effect, LeaseId};

use super::judge::{Judge, Marks};
use super::servers::Servers;
use mgmt_test_support::random::Random;

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
    pub(super) loss: u64,
    pub(super) slowness: u64,
    /// Pairs of hosts of which the first cannot reach the second.
    pub(super) blocked: BTreeSet<(usize, usize)>,
    /// Requests that servers have taken on and could not agree about.
    pub(super) proposed: Vec<(usize, Order)>,
    pub(super) events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// What the events are. Taken out when they happen.
    pub(super) bodies: Vec<Option<Event>>,
    pub(super) free: Vec<usize>,
    pub(super) sequence: u64,
    pub(super) happened: u64,
    pub(super) next_member: u64,
    pub(super) trace: Option<String>,
}

pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) core: Option<Membership>,
    /// Counts runs of the program.
    pub(super) run: u64,
    pub(super) seeds: bool,
    /// The host that founds the cluster that this one belongs to.
    pub(super) founder: usize,
    pub(crate) serve: bool,
    pub(crate) disk: Disk,
    /// Counts disks.
    pub(super) disks: u64,
    /// The member whose data is on the disk.
    pub(crate) data: Option<(usize, MemberId)>,
    pub(crate) server: Option<Running>,
    /// Counts processes of the server.
    pub(super) processes: u64,
    /// The cluster that it last talked to.
    pub(crate) home: Option<usize>,
    pub(super) group: u8,
    pub(super) clock: (u64, u64),
    pub(super) pause: Pause,
    pub(super) held: Vec<Held>,
    pub(super) wake: u64,
    pub(super) started: bool,
    pub(crate) left: bool,
    pub(crate) leaving: bool,
    /// Without waiting for anybody.
    pub(crate) ending: bool,
    /// When it was asked to leave, by its own clock.
    pub(crate) leaves_since: u64,
    /// It has to be let go before it leaves.
    pub(crate) let_go: bool,
    pub(crate) broken: bool,
    pub(super) start_time: u64,
    pub(super) catch_up_time: u64,
    pub(crate) status: Option<Status>,
    pub(super) truth: Option<Truth>,
    /// The look under way, and when it was asked for, by its own clock.
    pub(super) asked: (u64, u64),
    /// A decision that has not been answered, and when it is over at the latest, by its own clock.
    pub(super) decision: Option<(u64, u64)>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Running {
    pub(crate) cluster: usize,
    pub(crate) member: MemberId,
    pub(crate) up: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Pause {
    No,
    /// The program stands still.
    Program,
    /// The whole machine stands still.
    Machine,
}

/// What waits for a program that stands still.
pub(super) enum Held {
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

pub(super) enum Event {
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

pub(super) enum Message {
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

impl Story {
    pub(super) fn new(seed: u64, traced: bool) -> Story {
        let mut random = Random::new(seed);
        let hosts = *random.pick(&[1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 9]);
        let two_founders = hosts > 2 && random.percent(8);
        let duplicate = hosts > 2 && random.percent(8);
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
            happened: 0,
            next_member: 0x100,
            trace: traced.then(String::new),
        }
    }

    pub(super) fn play(&mut self) {
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

    pub(super) fn run_until(&mut self, time: u64) {
        while let Some(Reverse((at, _, body))) = self.events.peek().copied()
            && at <= time
        {
            self.events.pop();
            self.free.push(body);
            self.happened += 1;
            assert!(self.happened < 200_000, "something spins");
            self.now = at;
            if let Some(event) = self.bodies[body].take() {
                self.happen(event);
            }
        }
        self.now = time;
    }

    pub(super) fn after(&mut self, delay: u64, event: Event) {
        self.sequence += 1;
        let body = self.free.pop().unwrap_or_else(|| {
            self.bodies.push(None);
            self.bodies.len() - 1
        });
        self.bodies[body] = Some(event);
        self.events.push(Reverse((self.now + delay, self.sequence, body)));
    }

    pub(super) fn local(&self, host: usize) -> u64 {
        let (offset, rate) = self.hosts[host].clock;
        offset + self.now * rate / 1000
    }

    pub(super) fn happen(&mut self, event: Event) {
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
    pub(super) fn begin(&mut self, at: usize) {
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
        host.decision = None;
        self.judge.forget(at);
        host.held.clear();
        host.pause = Pause::No;
        tell!(self, "{at}: begins, run {run}, {:?}", self.hosts[at].disk);
        self.input(at, Input::Tick, None);
    }

    pub(super) fn input(&mut self, at: usize, input: Input, truth: Option<Truth>) {
        let now = self.local(at);
        let host = &mut self.hosts[at];
        if host.pause != Pause::No {
            host.held.push(Held::In(input, truth));
            return;
        }
        let Some(core) = &mut host.core else { return };
        if let Input::Answer { call, .. } = &input {
            host.decision.take_if(|(open, _)| open == call);
        }
        if let (Input::Seen { look, view }, Some(truth)) = (&input, truth) {
            if host.asked.0 == *look && now < host.asked.1 + self.settings.look_time {
                self.judge.seen(at, now, &view.members);
            }
            host.truth = Some(truth);
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

    pub(super) fn output(&mut self, at: usize, output: Output) {
        if self.trace.is_some()
            && !matches!(output, Output::Look(_) | Output::Keep { .. } | Output::Wake(_) | Output::Status(_))
        {
            let text = describe(&output);
            tell!(self, "{at}: > {text}");
        }
        let run = self.hosts[at].run;
        match output {
            Output::Look(look) => {
                self.hosts[at].asked = (look, self.local(at));
                self.send(at, Message::Look(look));
            }
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
                if is_decision(&request) {
                    let over = until + self.settings.request_time;
                    let open = self.hosts[at].decision.replace((call, over));
                    let alone = open.is_none_or(|(_, over)| self.local(at) >= over);
                    self.judge.check(alone, || format!("{at} decides twice at a time"));
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
                host.ending = false;
                let stopped = host.server.is_none();
                self.judge.check(stopped, || format!("{at} left while its server ran"));
            }
        }
    }

    pub(super) fn send(&mut self, at: usize, message: Message) {
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

    pub(super) fn say(&mut self, text: &str) {
        tell!(self, "{text}");
    }
}

/// Requests that only the decider makes.
pub(super) fn is_decision(request: &Request) -> bool {
    match request {
        Request::Commit(transaction) => transaction.effects.iter().any(|it| it.key() == keys::PLAN),
        _ => true,
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
            ending: false,
            leaves_since: 0,
            let_go: false,
            broken: random.percent(4) && founder != at,
            start_time: *random.pick(&[100, 500, 2_000, 10_000]),
            catch_up_time: *random.pick(&[100, 1_000, 5_000, 30_000]),
            status: None,
            truth: None,
            decision: None,
            asked: (0, 0),
        }
    }
}
