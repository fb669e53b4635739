//! What goes wrong, and how it ends.

use std::fmt::Write as _;

use mgmt_cluster::{Change, Disk, Input, Keys, Reason};

use super::story::{Event, Held, Message, Pause, Story, is_decision};

impl Story {
    /// One thing more, in all calm: what comes of it can be told exactly.
    pub(super) fn epilogue(&mut self) {
        let at = self.random.below(self.hosts.len() as u64) as usize;
        let serving = self.hosts[at].server.filter(|server| server.up).map(|server| server.cluster);
        match (self.random.below(6), serving) {
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
                let dismissed = self.clusters[cluster].keys().dismissed.clone();
                let others = self.able(cluster, &dismissed).into_iter().filter(|other| *other != at).count();
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
            (5, Some(cluster)) => {
                let keys = self.clusters[cluster].keys();
                let decider = keys.decider.as_ref().map(|decider| decider.value.host.clone());
                let Some(blind) = self.hosts.iter().position(|host| Some(&host.name) == decider.as_ref())
                else {
                    return;
                };
                tell!(self, "{blind} reaches nobody any more");
                for other in 0..self.hosts.len() {
                    self.blocked.insert((blind, other));
                }
                // Without a server of its own it cannot do anything, and nobody waits for it.
                self.hosts[blind].broken |= self.hosts[blind].server.is_none();
                let ideal = 1 + self.random.below(7) as u32;
                self.clusters[cluster].set_ideal(ideal);
                self.judge.mark("decider blinded");
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
                let dismissed = self.clusters[cluster].keys().dismissed.clone();
                let able = self.able(cluster, &dismissed);
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

    /// Somebody gives a host that is not running the seeds of another cluster.
    fn mislead(&mut self, at: usize) {
        let founder = 1 - self.hosts[at].founder.min(1);
        let possible = self.hosts.get(founder).is_some_and(|host| !host.seeds) && founder != at;
        if possible && self.hosts[at].core.is_none() && self.hosts[at].seeds && self.random.percent(30) {
            tell!(self, "{at}: is told of {founder}");
            self.judge.mark("misled");
            self.hosts[at].founder = founder;
            self.hosts[at].home = None;
        }
    }

    /// Whoever is about to be removed for being away may come back at the last moment.
    pub(super) fn come_back(&mut self, keys: &Keys) {
        let change = keys.plan.as_ref().and_then(|plan| plan.value.change.as_ref());
        let Some(Change::Remove { host, reason: Reason::Gone, .. }) = change else { return };
        let Some(at) = self.hosts.iter().position(|other| other.name == *host) else { return };
        if !self.calm && self.random.percent(40) {
            self.hosts[at].start_time = 1;
            self.hosts[at].broken = false;
            self.begin(at);
        }
    }

    /// While a decider's request is on its way, the decider loses its office, and the reason for the request goes away.
    pub(super) fn intrigue(&mut self, at: usize, message: &Message) -> bool {
        let Message::Call { order, .. } = message else { return false };
        let Some(cluster) = self.hosts[at].home else { return false };
        if !is_decision(&order.request) || self.majority(cluster).is_none() {
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

    pub(super) fn is_unlucky(&mut self, percent: u64) -> bool {
        !self.calm && percent > 0 && self.random.percent(percent)
    }

    pub(super) fn leave(&mut self, at: usize, let_go: bool) {
        if self.hosts[at].core.is_none() || self.hosts[at].leaving {
            return;
        }
        self.hosts[at].leaves_since = self.local(at);
        self.hosts[at].leaving = true;
        self.hosts[at].let_go = let_go;
        self.input(at, Input::Leave, None);
    }

    /// A host ends, and does not wait for anybody.
    pub(super) fn end(&mut self, at: usize) {
        if self.hosts[at].core.is_none() {
            return;
        }
        self.hosts[at].leaves_since = self.local(at);
        self.hosts[at].leaving = true;
        self.hosts[at].ending = true;
        self.hosts[at].let_go = false;
        self.judge.mark("ended");
        self.input(at, Input::End, None);
    }

    pub(super) fn crash(&mut self, at: usize, lose_disk: bool) {
        tell!(self, "{at}: crashes, loses its disk: {lose_disk}");
        let host = &mut self.hosts[at];
        host.core = None;
        host.run += 1;
        host.server = None;
        host.processes += 1;
        host.pause = Pause::No;
        host.held.clear();
        host.leaving = false;
        host.ending = false;
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

    pub(super) fn pause(&mut self, at: usize, kind: Pause) {
        if self.hosts[at].core.is_none() || self.hosts[at].pause != Pause::No {
            return;
        }
        let time = 500 + self.random.below(*self.random.clone().pick(&[2_000, 20_000, 40_000]));
        tell!(self, "{at}: stands still for {time}, the machine too: {}", kind == Pause::Machine);
        self.hosts[at].pause = kind;
        self.after(time, Event::Resume(at));
        self.elect();
    }

    pub(super) fn resume(&mut self, at: usize) {
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

    pub(super) fn something_happens(&mut self) {
        let at = self.random.below(self.hosts.len() as u64) as usize;
        match self.random.below(100) {
            0..=17 => self.crash(at, false),
            18..=21 => self.crash(at, true),
            22..=44 => {
                for host in 0..self.hosts.len() {
                    if self.hosts[host].started && self.random.percent(60) {
                        self.mislead(host);
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
            76..=77 => {
                let name = self.hosts[at].name.clone();
                if let Some(cluster) = self.route(at) {
                    tell!(self, "{name} is dismissed");
                    self.clusters[cluster].dismiss(&name);
                    self.judge.mark("dismissed");
                }
            }
            78 => {
                let name = self.hosts[at].name.clone();
                if let Some(cluster) = self.route(at) {
                    tell!(self, "{name} may serve again");
                    self.clusters[cluster].readmit(&name);
                }
            }
            79..=82 => {
                let ideal = 1 + self.random.below(7) as u32;
                if let Some(cluster) = self.route(at) {
                    tell!(self, "ideal {ideal}");
                    self.clusters[cluster].set_ideal(ideal);
                }
            }
            83..=86 => self.leave(at, false),
            87 => self.end(at),
            88..=91 => {
                self.hosts[at].left = false;
                self.mislead(at);
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

    pub(super) fn heal(&mut self) {
        tell!(self, "the network heals");
        for host in &mut self.hosts {
            host.group = 0;
        }
        self.blocked.clear();
        self.elect();
    }

    pub(super) fn calm_down(&mut self) {
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
}
