//! Host part: what a host does for itself. Its offer, its server, its candidacy as the decider, and its leaving.

use super::keys::{DECIDER, Decider, IDENTITY, PLAN, SIZE, volunteer_key, write_identity, write_size};
use super::placement::voters;
use super::{
    Change, Disk, Held, Launch, MemberId, Membership, Output, Plan, Process, ProcessState, Request, Start,
    Trouble, View, Volunteer, Who,
};
use mgmt_store::{Condition, Effect, Transaction};

impl Membership {
    /// Does what this host has to do by what it sees.
    pub(super) fn attend(&mut self, view: &View, look: u64, now: u64, out: &mut Vec<Output>) {
        if !self.config.serve {
            return;
        }
        let Some(identity) = &view.keys.identity else {
            self.give_identity(view, look, now, out);
            return;
        };
        if let Some((ours, member)) = self.disk.member() {
            if ours != identity {
                let (ours, theirs) = (ours.to_owned(), identity.clone());
                self.troubles.push(Trouble::OtherCluster { ours, theirs });
                return;
            }
            if !view.members.iter().any(|it| it.id == member) {
                self.server.removed = true;
            }
        }
        self.join(view, identity, out);
        self.consider_leaving(view);
        if self.own.is_free(look)
            && let Some(held) = self.lease.held
            && let Some(transaction) = self.own_transaction(view, held, now)
        {
            self.call(Who::Own, Request::Commit(transaction), now, out);
        }
    }

    /// A store without an identity is ours only if our own data says so.
    fn give_identity(&mut self, view: &View, look: u64, now: u64, out: &mut Vec<Output>) {
        let keys = &view.keys;
        let ours = self.disk.member().filter(|(_, id)| view.members.iter().any(|member| member.id == *id));
        let Some((identity, _)) = ours.filter(|_| !keys.unreadable.contains_key(IDENTITY)) else {
            self.troubles.push(Trouble::Unmanaged);
            return;
        };
        let mut transaction = Transaction::default();
        let mut missing = vec![(IDENTITY, write_identity(identity))];
        if keys.ideal.is_none() && !keys.unreadable.contains_key(SIZE) {
            missing.push((SIZE, write_size(self.config.ideal)));
        }
        if keys.plan.is_none() && !keys.unreadable.contains_key(PLAN) {
            missing.push((PLAN, Plan::default().write()));
        }
        for (key, value) in missing {
            transaction.conditions.push(Condition::Missing(key.to_owned()));
            transaction.effects.push(Effect::Put { key: key.to_owned(), value, lease: None });
        }
        if self.own.is_free(look) {
            self.call(Who::Own, Request::Commit(transaction), now, out);
        }
    }

    /// The member that this run of the program has been chosen to become, if it is still waited for.
    pub(super) fn plan_names_us(&self, view: &View) -> Option<MemberId> {
        let plan = view.keys.plan.as_ref()?;
        let Some(Change::Join { host, instance, member: Some(id), .. }) = &plan.value.change else {
            return None;
        };
        let ours = *host == self.config.host && *instance == self.config.instance;
        let waiting = view.members.iter().any(|member| member.id == *id && member.learner);
        (ours && waiting && self.leave.is_none()).then_some(*id)
    }

    /// Starts the server of a new member. It gets its vote only after the offer has named it, too.
    fn join(&mut self, view: &View, identity: &str, out: &mut Vec<Output>) {
        let Some(id) = self.plan_names_us(view) else { return };
        let fresh = matches!(self.disk, Disk::Empty | Disk::Former { .. });
        if !fresh || self.server.process != ProcessState::Stopped {
            return;
        }
        self.disk = Disk::Member { identity: identity.to_owned(), member: id };
        out.push(Output::Remember(self.disk.clone()));
        self.start(Start::Join, view.members.clone(), out);
    }

    fn start(&mut self, start: Start, members: Vec<super::Member>, out: &mut Vec<Output>) {
        let (Disk::Founder { identity } | Disk::Member { identity, .. }) = &self.disk else { return };
        let ours = self.disk.member().map(|(_, id)| id);
        let name = |member: &super::Member| {
            if Some(member.id) == ours { self.config.host.clone() } else { member.name.clone() }
        };
        let cluster = match start {
            Start::Found => vec![(self.config.host.clone(), self.config.peers.clone())],
            Start::Join => members.iter().map(|member| (name(member), member.peers.clone())).collect(),
            Start::Resume => Vec::new(),
        };
        let launch = Launch { start, identity: identity.clone(), cluster };
        self.server.process = ProcessState::Starting;
        out.push(Output::Start(launch));
    }

    /// The server should run if it does not.
    pub(super) fn may_start(&self) -> bool {
        let data = match self.disk {
            Disk::Founder { .. } | Disk::Member { .. } => true,
            Disk::Empty => !self.config.seeds,
            Disk::Former { .. } => false,
        };
        let leaving = self.leave.as_ref().is_some_and(|leave| leave.now);
        data && self.config.serve && !self.server.removed && !leaving
    }

    pub(super) fn tend_server(&mut self, now: u64, out: &mut Vec<Output>) {
        let process = self.server.process;
        if self.server.removed {
            match process {
                ProcessState::Stopped => self.set_aside(out),
                ProcessState::Starting | ProcessState::Running => self.stop(out),
                ProcessState::Stopping => {}
            }
        }
        if process != ProcessState::Stopped || !self.may_start() || now < self.server.not_before {
            return;
        }
        if self.disk == Disk::Empty {
            self.disk = Disk::Founder { identity: self.config.fresh_identity.clone() };
            out.push(Output::Remember(self.disk.clone()));
        }
        let view = self.view.clone();
        let joining = view.as_ref().filter(|view| {
            self.plan_names_us(view).is_some_and(|id| self.disk.member().is_some_and(|(_, ours)| ours == id))
        });
        match (&self.disk, joining) {
            (Disk::Founder { .. }, _) => self.start(Start::Found, Vec::new(), out),
            (_, Some(view)) => self.start(Start::Join, view.members.clone(), out),
            _ => self.start(Start::Resume, Vec::new(), out),
        }
    }

    fn stop(&mut self, out: &mut Vec<Output>) {
        self.server.process = ProcessState::Stopping;
        out.push(Output::Stop);
    }

    fn set_aside(&mut self, out: &mut Vec<Output>) {
        self.server.removed = false;
        self.server.not_before = 0;
        self.server.ends = 0;
        if let Some((identity, _)) = self.disk.member() {
            self.disk = Disk::Former { identity: identity.to_owned() };
            out.push(Output::SetAside);
            out.push(Output::Remember(self.disk.clone()));
        }
    }

    pub(super) fn server_changed(&mut self, process: Process, now: u64, out: &mut Vec<Output>) {
        match process {
            Process::Running { member } => {
                if self.server.process == ProcessState::Starting {
                    self.server.process = ProcessState::Running;
                    self.server.ends = 0;
                }
                if let Disk::Founder { identity } = &self.disk {
                    self.disk = Disk::Member { identity: identity.clone(), member };
                    out.push(Output::Remember(self.disk.clone()));
                }
                self.nudge(now);
            }
            Process::Ended { removed } => {
                self.server.process = ProcessState::Stopped;
                let doubled = self.config.settings.restart_after << self.server.ends.min(8);
                self.server.not_before = now.saturating_add(doubled);
                self.server.ends = self.server.ends.saturating_add(1);
                self.server.removed |= removed && self.disk.member().is_some();
                self.nudge(now);
            }
        }
    }

    /// What the host has to write for itself, if anything.
    fn own_transaction(&mut self, view: &View, held: Held, now: u64) -> Option<Transaction> {
        self.offer(view, held, now).or_else(|| self.stand(view, held, now))
    }

    /// Keeps the offer to serve as it should be.
    fn offer(&mut self, view: &View, held: Held, now: u64) -> Option<Transaction> {
        let key = volunteer_key(&self.config.host);
        let member = self.disk.member().map(|(_, id)| id);
        let wanted = Volunteer {
            instance: self.config.instance.clone(),
            peers: self.config.peers.clone(),
            clients: self.config.clients.clone(),
            member,
            well: view.members.iter().any(|it| Some(it.id) == member && it.healthy),
            leaving: self.leave.is_some(),
        };
        let there = view.keys.volunteers.get(&self.config.host);
        let ours = there.filter(|stored| stored.value.instance == self.config.instance);
        let mut members = view.members.iter();
        if members.any(|it| it.name == self.config.host && it.healthy && Some(it.id) != member) {
            // Whoever serves under this name was here first.
            self.troubles.push(Trouble::Duplicate { host: self.config.host.clone() });
            return ours.map(|stored| Transaction {
                conditions: vec![Condition::Modified(key.clone(), stored.modified)],
                effects: vec![Effect::Delete(key)],
                ..Transaction::default()
            });
        }
        let condition = match there {
            Some(stored) if stored.value.instance == self.config.instance => {
                self.duplicate = None;
                if stored.value == wanted && stored.lease == Some(held.id) {
                    return None;
                }
                Condition::Modified(key.clone(), stored.modified)
            }
            None if !view.keys.unclear.contains(&self.config.host) => {
                self.duplicate = None;
                Condition::Missing(key.clone())
            }
            // Most likely our own last run, whose lease has not ended yet.
            other => {
                let created = other.map_or(0, |stored| stored.created);
                let since =
                    self.duplicate.filter(|(seen, _)| *seen == created).map_or(now, |(_, since)| since);
                self.duplicate = Some((created, since));
                if now.saturating_sub(since) >= self.config.settings.duplicate_after {
                    self.troubles.push(Trouble::Duplicate { host: self.config.host.clone() });
                }
                return None;
            }
        };
        let effect = Effect::Put { key, value: wanted.write(), lease: Some(held.id) };
        Some(Transaction { conditions: vec![condition], effects: vec![effect], ..Transaction::default() })
    }

    /// Stands for the office of decider when it is free, and gives it up before leaving.
    fn stand(&mut self, view: &View, held: Held, now: u64) -> Option<Transaction> {
        let offer = view.keys.volunteers.get(&self.config.host)?;
        if offer.value.instance != self.config.instance {
            return None;
        }
        let decider = view.keys.decider.as_ref();
        let ours = decider.filter(|it| it.value.instance == self.config.instance);
        if self.leave.is_some() {
            let ours = ours.filter(|_| self.ruling.under_way.is_none())?;
            return Some(Transaction {
                conditions: vec![Condition::Created(DECIDER.to_owned(), ours.created)],
                effects: vec![Effect::Delete(DECIDER.to_owned())],
                ..Transaction::default()
            });
        }
        if decider.is_some() || now < self.stands_from || view.keys.unreadable.contains_key(DECIDER) {
            return None;
        }
        let office = Decider { host: self.config.host.clone(), instance: self.config.instance.clone() };
        Some(Transaction {
            conditions: vec![
                Condition::Missing(DECIDER.to_owned()),
                Condition::Created(volunteer_key(&self.config.host), offer.created),
            ],
            effects: vec![Effect::Put {
                key: DECIDER.to_owned(),
                value: office.write(),
                lease: Some(held.id),
            }],
            ..Transaction::default()
        })
    }

    /// The last voter need not wait for anybody, as nobody could take its place.
    fn consider_leaving(&mut self, view: &View) {
        let Some(leave) = &mut self.leave else { return };
        let Some((_, member)) = self.disk.member() else { return };
        let alone = voters(&view.members).all(|voter| voter.id == member);
        let mut offers = view.keys.volunteers.iter();
        let others = offers.any(|(host, offer)| *host != self.config.host && !offer.value.leaving);
        leave.now |= alone && !others && view.members.iter().any(|it| it.id == member);
    }

    /// Leaves as soon as nothing holds the host any more.
    pub(super) fn tend_leave(&mut self, now: u64, out: &mut Vec<Output>) {
        let Some(leave) = &mut self.leave else { return };
        leave.now |= now >= leave.deadline;
        let hurry = leave.now;
        let member = matches!(self.disk, Disk::Member { .. } | Disk::Founder { .. }) && self.config.serve;
        if member && !hurry {
            return;
        }
        match self.server.process {
            ProcessState::Stopped => {
                out.extend(self.lease.held.take().map(|held| Output::Revoke(held.id)));
                out.push(Output::Left { member });
                self.left = true;
            }
            ProcessState::Starting | ProcessState::Running => self.stop(out),
            ProcessState::Stopping => {}
        }
    }
}
