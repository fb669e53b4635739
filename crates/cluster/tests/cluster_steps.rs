//! One host of a cluster, step by step.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use mgmt_cluster::keys::{DECIDER, Decider, PLAN, Stored};
use mgmt_cluster::{
    Answer, Change, Config, ConfigError, Disk, Input, Keys, Member, MemberId, Membership, Output, Plan,
    Process, Request, Settings, Start, Status, Trouble, View, Volunteer,
};
use mgmt_store::{Condition, Effect, Lease, LeaseId, Transaction};

fn config(disk: Disk) -> Config {
    Config {
        host: "a".into(),
        instance: "a1".into(),
        fresh_identity: "new".into(),
        peers: vec!["http://a:2380".into()],
        clients: vec!["http://a:2379".into()],
        seeds: true,
        serve: true,
        ideal: 3,
        disk,
        settings: Settings::default(),
    }
}

fn member_one() -> Disk {
    Disk::Member { identity: "x".into(), member: MemberId(1) }
}

/// A host, with what it has asked for last.
struct Host {
    core: Membership,
    now: u64,
    look: u64,
    status: Status,
}

impl Host {
    fn new(config: Config) -> (Host, Vec<Output>) {
        let core = Membership::new(config).unwrap();
        let mut host = Host { core, now: 1_000, look: 0, status: Status::default() };
        let outputs = host.give(Input::Tick);
        (host, outputs)
    }

    fn give(&mut self, input: Input) -> Vec<Output> {
        let outputs = self.core.step(input, self.now);
        for output in &outputs {
            match output {
                Output::Look(look) => self.look = *look,
                Output::Status(status) => self.status = Status::clone(status),
                _ => {}
            }
        }
        outputs
    }

    fn lease(&mut self) {
        let lease = Lease { id: LeaseId(7), time: Duration::from_secs(10) };
        self.give(Input::Granted { call: 1, lease: Some(lease) });
    }

    /// Lets time pass until the host looks again, and shows it this.
    fn see(&mut self, view: &View) -> Vec<Output> {
        self.give(Input::Nudge);
        self.now += 50;
        self.give(Input::Seen { look: self.look, view: view.clone() })
    }

    fn wait(&mut self, time: u64) {
        self.now += time;
        self.give(Input::Tick);
    }
}

fn stored<T>(value: T, lease: Option<i64>) -> Stored<T> {
    Stored { value, created: 5, modified: 6, lease: lease.map(LeaseId) }
}

fn offer(host: &str, instance: &str, member: Option<u64>) -> Volunteer {
    Volunteer {
        instance: instance.into(),
        peers: vec![format!("http://{host}:2380")],
        clients: vec![format!("http://{host}:2379")],
        member: member.map(MemberId),
        well: member.is_some(),
        leaving: false,
    }
}

fn voter(id: u64, name: &str) -> Member {
    Member {
        id: MemberId(id),
        name: name.into(),
        peers: vec![format!("http://{name}:2380")],
        learner: false,
        leader: id == 1,
        healthy: true,
        caught_up: true,
    }
}

fn managed() -> Keys {
    Keys {
        revision: 10,
        identity: Some("x".into()),
        ideal: Some(3),
        plan: Some(stored(Plan::default(), None)),
        ..Keys::default()
    }
}

/// A cluster of `a` alone, which decides, with two others that would like to serve.
fn in_office() -> View {
    let mut keys = managed();
    keys.decider = Some(stored(Decider { host: "a".into(), instance: "a1".into() }, Some(7)));
    keys.volunteers.insert("a".into(), stored(offer("a", "a1", Some(1)), Some(7)));
    keys.volunteers.insert("b".into(), stored(offer("b", "b1", None), Some(8)));
    keys.volunteers.insert("c".into(), stored(offer("c", "c1", None), Some(9)));
    View { keys: Arc::new(keys), members: vec![voter(1, "a")] }
}

fn alter(view: &View, change: impl FnOnce(&mut Keys)) -> View {
    let mut keys = Keys::clone(&view.keys);
    change(&mut keys);
    View { keys: Arc::new(keys), members: view.members.clone() }
}

fn request(outputs: &[Output]) -> Option<&Request> {
    outputs.iter().find_map(|output| match output {
        Output::Call { request, .. } => Some(request),
        _ => None,
    })
}

fn transaction(outputs: &[Output]) -> Option<&Transaction> {
    request(outputs).and_then(|request| match request {
        Request::Commit(transaction) => Some(transaction),
        _ => None,
    })
}

/// What was done to disk and server, in order.
fn deeds(outputs: &[Output]) -> Vec<String> {
    let deeds = outputs.iter().filter_map(|output| match output {
        Output::Remember(disk) => Some(format!("{disk:?}").split(' ').next().unwrap().to_owned()),
        Output::Start(launch) => Some(format!("start {:?}", launch.start)),
        Output::Stop => Some("stop".to_owned()),
        Output::SetAside => Some("set aside".to_owned()),
        Output::Revoke(_) => Some("revoke".to_owned()),
        Output::Left { member } => Some(format!("left {member}")),
        _ => None,
    });
    deeds.collect()
}

#[test]
fn a_host_without_seeds_founds_a_cluster_and_remembers_that_first() {
    let (mut host, outputs) = Host::new(Config { seeds: false, ..config(Disk::Empty) });
    assert_eq!(deeds(&outputs), ["Founder", "start Found"]);
    let outputs = host.give(Input::Server(Process::Running { member: MemberId(1) }));
    assert_eq!(deeds(&outputs), ["Member"]);
    let outputs = host.see(&View { members: vec![voter(1, "a")], ..View::default() });
    let keys: Vec<&str> = transaction(&outputs).unwrap().effects.iter().map(Effect::key).collect();
    assert_eq!(keys, ["/cluster/identity", "/cluster/size", "/cluster/plan"]);
}

#[test]
fn nobody_else_founds_a_cluster() {
    let former = Disk::Former { identity: "x".into() };
    for (seeds, disk) in [(true, Disk::Empty), (true, former.clone()), (false, former)] {
        let (_, outputs) = Host::new(Config { seeds, ..config(disk) });
        assert_eq!(deeds(&outputs), [""; 0]);
    }
}

#[test]
fn a_member_starts_with_its_data_before_it_has_seen_anything() {
    for seeds in [true, false] {
        let (_, outputs) = Host::new(Config { seeds, ..config(member_one()) });
        assert_eq!(deeds(&outputs), ["start Resume"]);
    }
    let (_, outputs) = Host::new(Config { serve: false, ..config(member_one()) });
    assert_eq!(deeds(&outputs), [""; 0]);
}

#[test]
fn a_store_that_nobody_of_us_founded_is_left_alone() {
    let (mut host, _) = Host::new(config(Disk::Empty));
    host.lease();
    let outputs = host.see(&View { members: vec![voter(9, "etcd9")], ..View::default() });
    assert_eq!(request(&outputs), None);
    assert_eq!(host.status.troubles, [Trouble::Unmanaged]);
}

#[test]
fn data_of_another_cluster_is_neither_used_there_nor_set_aside() {
    let disk = Disk::Member { identity: "y".into(), member: MemberId(4) };
    let (mut host, _) = Host::new(config(disk));
    host.lease();
    let outputs = host.see(&in_office());
    assert_eq!(request(&outputs), None);
    assert_eq!(deeds(&outputs), [""; 0]);
    let told = host.status.troubles[0].to_string();
    assert!(told.contains("cluster y") && told.contains("cluster x"), "{told}");
}

#[test]
fn a_member_that_was_removed_stops_and_sets_its_data_aside() {
    let disk = Disk::Member { identity: "x".into(), member: MemberId(4) };
    let (mut host, _) = Host::new(config(disk));
    host.give(Input::Server(Process::Running { member: MemberId(4) }));
    assert_eq!(deeds(&host.see(&in_office())), ["stop"]);
    let outputs = host.give(Input::Server(Process::Ended { removed: false }));
    assert_eq!(deeds(&outputs), ["set aside", "Former"]);
}

#[test]
fn only_the_run_that_was_chosen_starts_as_the_new_member() {
    let mut view = in_office();
    view.members = vec![voter(2, "b"), Member { name: String::new(), learner: true, ..voter(3, "a") }];
    for (instance, expected) in [("a1", vec!["Member", "start Join"]), ("a0", vec![])] {
        let view = alter(&view, |keys| {
            let join = Change::Join {
                host: "a".into(),
                instance: instance.into(),
                peers: vec!["http://a:2380".into()],
                member: Some(MemberId(3)),
            };
            keys.plan = Some(stored(Plan { attempt: 1, change: Some(join) }, None));
        });
        let (mut host, _) = Host::new(config(Disk::Empty));
        let outputs = host.see(&view);
        assert_eq!(deeds(&outputs), expected);
        for output in outputs {
            if let Output::Start(launch) = output {
                assert_eq!(launch.start, Start::Join);
                let names: Vec<&str> = launch.cluster.iter().map(|(name, _)| &**name).collect();
                assert_eq!(names, ["b", "a"]);
            }
        }
    }
}

#[test]
fn a_second_host_of_the_same_name_is_told_so_and_waits() {
    let view = alter(&in_office(), |keys| {
        keys.volunteers.insert("a".into(), stored(offer("a", "a0", None), Some(3)));
        keys.decider = None;
    });
    let view = View { members: vec![voter(1, "z")], ..view };
    let (mut host, _) = Host::new(config(Disk::Empty));
    host.lease();
    assert_eq!(request(&host.see(&view)), None);
    assert_eq!(host.status.troubles, [], "it may be our own last run");
    host.wait(Settings::default().duplicate_after);
    assert_eq!(request(&host.see(&view)), None);
    assert_eq!(host.status.troubles, [Trouble::Duplicate { host: "a".into() }]);
    let view = alter(&view, |keys| {
        keys.volunteers.remove("a");
    });
    let outputs = host.see(&view);
    let missing = Condition::Missing("/cluster/volunteer/a".into());
    assert_eq!(transaction(&outputs).unwrap().conditions, [missing]);
    assert_eq!(host.status.troubles, []);
}

#[test]
fn a_host_with_the_name_of_a_member_gives_the_name_back() {
    let view = alter(&in_office(), |keys| {
        keys.volunteers.insert("a".into(), stored(offer("a", "a1", None), Some(7)));
    });
    let (mut host, _) = Host::new(config(Disk::Empty));
    host.lease();
    let outputs = host.see(&view);
    assert_eq!(transaction(&outputs).unwrap().effects, [Effect::Delete("/cluster/volunteer/a".into())]);
    assert_eq!(host.status.troubles, [Trouble::Duplicate { host: "a".into() }]);
}

fn decider() -> Host {
    let (mut host, _) = Host::new(config(member_one()));
    host.lease();
    host.give(Input::Server(Process::Running { member: MemberId(1) }));
    host
}

#[test]
fn a_new_decider_waits_until_the_last_one_can_do_nothing_more() {
    let settings = Settings::default();
    let longest = settings.look_time + settings.send_within + settings.request_time;
    let mut host = decider();
    assert_eq!(request(&host.see(&in_office())), None);
    host.wait(longest);
    assert_eq!(request(&host.see(&in_office())), None, "clocks differ");
    host.wait(longest / 4);
    assert!(request(&host.see(&in_office())).is_some());
}

#[test]
fn every_decision_is_conditional_on_the_office_and_on_the_plan() {
    let mut host = decider();
    host.see(&in_office());
    host.wait(60_000);
    let outputs = host.see(&in_office());
    let made = transaction(&outputs).unwrap();
    let office = Condition::Created(DECIDER.into(), 5);
    assert_eq!(made.conditions, [office, Condition::Modified(PLAN.into(), 6)]);
    assert!(made.effects.iter().any(|effect| effect.key() == PLAN));
}

#[test]
fn after_a_request_nothing_is_decided_until_its_outcome_has_been_looked_at() {
    let mut host = decider();
    host.see(&in_office());
    host.wait(60_000);
    let outputs = host.see(&in_office());
    let call = outputs.iter().find_map(|output| match output {
        Output::Call { call, .. } => Some(*call),
        _ => None,
    });
    // This look begins before the answer, and may show what was before the request.
    host.give(Input::Nudge);
    let early = host.look;
    host.give(Input::Answer { call: call.unwrap(), answer: Answer::Done });
    let outputs = host.give(Input::Seen { look: early, view: in_office() });
    assert_eq!(request(&outputs), None);
    assert!(request(&host.see(&in_office())).is_some());
}

#[test]
fn a_look_that_takes_too_long_is_not_used() {
    let mut host = decider();
    host.see(&in_office());
    host.wait(60_000);
    host.give(Input::Nudge);
    let look = host.look;
    host.now += Settings::default().look_time;
    let outputs = host.give(Input::Seen { look, view: in_office() });
    assert_eq!(request(&outputs), None);
}

#[test]
fn nothing_is_decided_while_the_plan_is_not_understood() {
    let mut host = decider();
    host.see(&in_office());
    host.wait(60_000);
    let view = alter(&in_office(), |keys| {
        keys.plan = None;
        keys.unreadable.insert(PLAN.into(), "it has format 2".into());
    });
    assert_eq!(request(&host.see(&view)), None);
    assert!(host.status.troubles[0].to_string().contains("format 2"));
}

#[test]
fn a_decider_that_does_not_reach_a_server_that_is_well_makes_way_for_another() {
    let mut host = decider();
    let mut view = alter(&in_office(), |keys| {
        keys.volunteers.insert("b".into(), stored(offer("b", "b1", Some(2)), Some(8)));
        keys.volunteers.insert("d".into(), stored(offer("d", "d1", Some(4)), Some(8)));
    });
    view.members = vec![voter(1, "a"), voter(2, "b"), Member { healthy: false, ..voter(4, "d") }];
    host.see(&view);
    host.wait(Settings::default().sick_after);
    let outputs = host.see(&view);
    let made = transaction(&outputs).unwrap();
    assert_eq!(made.effects, [Effect::Delete(DECIDER.into())]);
    assert_eq!(host.status.troubles, [Trouble::BadlyConnected]);

    let vacant = alter(&view, |keys| keys.decider = None);
    let stands = |host: &mut Host| {
        let outputs = host.see(&vacant);
        transaction(&outputs).is_some_and(|made| made.effects.iter().any(|effect| effect.key() == DECIDER))
    };
    host.wait(Settings::default().request_time + Settings::default().send_within);
    assert!(!stands(&mut host));
    host.wait(Settings::default().back_off);
    assert!(stands(&mut host), "if nobody else does");
}

#[test]
fn a_host_that_has_the_address_of_a_member_is_named() {
    let mut host = decider();
    host.see(&in_office());
    host.wait(60_000);
    let view = alter(&in_office(), |keys| {
        let offer = &mut keys.volunteers.get_mut("b").unwrap().value;
        offer.peers = vec!["http://a:2380".into()];
    });
    host.see(&view);
    assert_eq!(host.status.troubles, [Trouble::Occupied { host: "b".into(), member: "a".into() }]);
}

#[test]
fn the_last_member_leaves_at_once_and_keeps_its_data() {
    let mut host = decider();
    let alone = alter(&in_office(), |keys| keys.volunteers.retain(|name, _| name == "a"));
    host.see(&alone);
    host.give(Input::Leave);
    assert_eq!(deeds(&host.see(&alone)), ["stop"]);
    let outputs = host.give(Input::Server(Process::Ended { removed: false }));
    assert_eq!(deeds(&outputs), ["revoke", "left true"]);
}

#[test]
fn a_member_that_leaves_says_so_and_waits_for_the_others() {
    let mut host = decider();
    host.see(&in_office());
    host.give(Input::Leave);
    let outputs = host.see(&in_office());
    assert_eq!(deeds(&outputs), [""; 0]);
    let Some(Effect::Put { value, .. }) = transaction(&outputs).unwrap().effects.first() else { panic!() };
    assert!(String::from_utf8_lossy(value).contains("\"leaving\":true"));
    host.now += Settings::default().leave_within;
    assert_eq!(deeds(&host.give(Input::Tick)), ["stop"], "but not for ever");
}

#[test]
fn a_host_that_is_no_member_leaves_at_once() {
    let (mut host, _) = Host::new(config(Disk::Empty));
    host.lease();
    assert_eq!(deeds(&host.give(Input::Leave)), ["revoke", "left false"]);
    assert_eq!(host.give(Input::Tick), []);
}

#[test]
fn impossible_configurations_are_refused_with_a_reason() {
    let refused = |config: Config| Membership::new(config).unwrap_err();
    let empty = || config(Disk::Empty);
    assert_eq!(refused(Config { host: "a/b".into(), ..empty() }), ConfigError::Host { host: "a/b".into() });
    assert_eq!(refused(Config { ideal: 0, ..empty() }), ConfigError::Ideal);
    assert_eq!(refused(Config { peers: Vec::new(), ..empty() }), ConfigError::Peers);
    assert_eq!(refused(Config { serve: false, seeds: false, ..empty() }), ConfigError::Nobody);
}

#[test]
fn a_host_that_ends_stays_a_member_and_waits_for_nobody() {
    let mut host = decider();
    host.see(&in_office());
    assert_eq!(deeds(&host.give(Input::End)), ["stop"]);
    let outputs = host.give(Input::Server(Process::Ended { removed: false }));
    assert_eq!(deeds(&outputs), ["revoke", "left true"]);
    // One that was leaving does not wait any longer either.
    let mut host = decider();
    host.see(&in_office());
    assert_eq!(deeds(&host.give(Input::Leave)), [""; 0]);
    assert_eq!(deeds(&host.give(Input::End)), ["stop"]);
}

/// The change that a decider begins.
fn begun(view: &View) -> Option<String> {
    let mut host = decider();
    host.see(view);
    host.wait(60_000);
    let outputs = host.see(view);
    let effects = transaction(&outputs).map(|made| made.effects.clone()).unwrap_or_default();
    effects.into_iter().find_map(|effect| match effect {
        Effect::Put { key, value, .. } if key == PLAN => Some(String::from_utf8(value).unwrap()),
        _ => None,
    })
}

#[test]
fn a_host_that_was_dismissed_is_not_asked_and_does_not_stay() {
    assert!(begun(&in_office()).unwrap().contains("\"join\":\"b\""));
    // Neither b, nor c for a pair of two, which would be no better than one.
    let without = alter(&in_office(), |keys| keys.dismissed.extend(["b".to_owned()]));
    assert_eq!(begun(&without), None);
    let mut three = alter(&in_office(), |keys| {
        keys.volunteers.insert("b".into(), stored(offer("b", "b1", Some(2)), Some(8)));
        keys.volunteers.insert("c".into(), stored(offer("c", "c1", Some(3)), Some(9)));
    });
    three.members.extend([voter(2, "b"), voter(3, "c")]);
    assert_eq!(begun(&three), None);
    let without = alter(&three, |keys| keys.dismissed.extend(["c".to_owned()]));
    assert!(begun(&without).unwrap().contains("\"remove\":\"c\""), "{:?}", begun(&without));
    // The last one serves whatever is said.
    let last = alter(&in_office(), |keys| keys.dismissed.extend(NAMES.map(str::to_owned)));
    assert_eq!(begun(&last), None);
}

const NAMES: [&str; 3] = ["a", "b", "c"];
