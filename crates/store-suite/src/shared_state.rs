//! Behaviour of [`SharedState`], whichever store it is on: [`all`] takes a way to connect one more host to one store.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use mgmt_store::{
    Agent, Commits, DeployError, File, ForgetError, Offer, Program, Scope, SharedState, Status, Strategy,
    Tree,
};
use mgmt_store::{Effect, Span, Store, Transaction};
use mgmt_value::Str;

/// Makes a connection to the one store, for one more host.
pub type Connect<'a> = &'a dyn Fn() -> Arc<dyn Store>;

pub async fn all(connect: Connect<'_>) {
    strings(connect).await;
    strings_of_hosts(connect).await;
    exports(connect).await;
    exports_of_an_earlier_run_go(connect).await;
    what_somebody_else_breaks_is_mended(connect).await;
    scheduling(connect).await;
    a_leader_that_is_gone_is_replaced(connect).await;
    a_damaged_choice_or_leader_is_replaced(connect).await;
    offers_that_persist_stay(connect).await;
    deploys(connect).await;
    deploys_at_the_same_time_get_numbers_of_their_own(connect).await;
    old_deploys_go_and_take_along_what_nobody_needs(connect).await;
    a_record_that_cannot_be_read_concerns_that_record_alone(connect).await;
    damaged_files_are_noticed(connect).await;
    statuses(connect).await;
    members_are_lost_until_they_are_forgotten(connect).await;
    the_younger_of_two_agents_with_one_name_stands_back(connect).await;
    statuses_that_fight_are_written_once_a_second(connect).await;
}

fn host(connect: Connect<'_>, name: &str) -> SharedState {
    SharedState::new(connect(), name)
}

fn text(text: &str) -> Str {
    text.into()
}

/// Waits until something is so. That it never becomes so is the failure.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn strings(connect: Connect<'_>) {
    let (a, b) = (host(connect, "a"), host(connect, "b"));
    let key = text("dir/name with spaces");
    assert_eq!(a.shared(&key).await.unwrap(), None);
    b.ready().await;
    let mut changes = b.watch(&key, Scope::Shared);
    assert!(a.set_shared(&key, Some(&text("1"))).await.unwrap());
    assert_eq!(a.shared(&key).await.unwrap(), Some(text("1")), "whoever writes, reads");
    changes.next().await.unwrap();
    assert_eq!(b.known_shared(&key).unwrap(), Some(text("1")));
    // The same again is neither a change nor an event; the next change is.
    assert!(!b.set_shared(&key, Some(&text("1"))).await.unwrap());
    let bytes = Str::new([0, 255, 10]);
    assert!(b.set_shared(&key, Some(&bytes)).await.unwrap());
    changes.next().await.unwrap();
    assert_eq!(b.known_shared(&key).unwrap(), Some(bytes));
    assert!(a.set_shared(&key, None).await.unwrap());
    assert!(!a.set_shared(&key, None).await.unwrap());
    changes.next().await.unwrap();
    assert_eq!(b.known_shared(&key).unwrap(), None);
}

async fn strings_of_hosts(connect: Connect<'_>) {
    let (a, b) = (host(connect, "a"), host(connect, "b"));
    let key = text("k");
    a.set_of_host(&key, &text("a"), Some(&text("1"))).await.unwrap();
    b.set_of_host(&key, &text("b"), Some(&text("2"))).await.unwrap();
    b.set_of_host(&text("k2"), &text("b"), Some(&text("3"))).await.unwrap();
    let both = [(text("a"), text("1")), (text("b"), text("2"))].into();
    assert_eq!(b.by_host(&key).await.unwrap(), both);
    until("the other host sees both", || a.known_by_host(&key).unwrap() == both).await;
    assert_eq!(a.shared(&key).await.unwrap(), None, "these are two things");
    a.set_of_host(&key, &text("a"), None).await.unwrap();
    assert_eq!(a.by_host(&key).await.unwrap().len(), 1);
}

fn names(world: &SharedState) -> Vec<String> {
    let name = |export: &mgmt_store::Exported| format!("{}@{}", export.name.display(), export.host.display());
    world.exported(&text("noop")).iter().map(name).collect()
}

async fn exports(connect: Connect<'_>) {
    let (a, b, c) = (host(connect, "a"), host(connect, "b"), host(connect, "c"));
    c.ready().await;
    let offer = |world: &SharedState, name: &str, to: &str| {
        world.export(&text("noop"), &text(name), &text(to), &text("{\"x\":1}"), None).unwrap();
    };
    let mut changes = c.watch_exports(&text("noop"));
    offer(&a, "all/of you", "*");
    offer(&a, "only b", "b");
    offer(&b, "for c", "c");
    offer(&b, "both", "c");
    offer(&b, "both", "*");
    changes.next().await.unwrap();
    until("c sees what is for it", || names(&c) == ["all/of you@a", "both@b", "for c@b"]).await;
    until("b sees what is for it", || names(&b) == ["all/of you@a", "both@b", "only b@a"]).await;
    assert_eq!(c.exported(&text("noop"))[0].data, text("{\"x\":1}"));
    assert!(c.exported(&text("file")).is_empty());
    a.exports_are([(&text("noop"), &text("only b"), &text("b"))]);
    until("what is taken back is gone", || names(&c) == ["both@b", "for c@b"]).await;
}

async fn exports_of_an_earlier_run_go(connect: Connect<'_>) {
    let again = host(connect, "b");
    again.export(&text("noop"), &text("for c"), &text("c"), &text("{}"), None).unwrap();
    again.settled().await;
    let c = host(connect, "c");
    c.ready().await;
    assert_eq!(names(&c).len(), 2, "nobody has said that this was all");
    again.exports_are([(&text("noop"), &text("for c"), &text("c"))]);
    until("only what is told now stays", || names(&c) == ["for c@b"]).await;
}

async fn what_somebody_else_breaks_is_mended(connect: Connect<'_>) {
    let (d, store) = (host(connect, "d"), connect());
    d.export(&text("noop"), &text("n"), &text("*"), &text("{\"x\":1}"), Some(Duration::from_secs(5)))
        .unwrap();
    d.settled().await;
    let key = "/host/d/export/*/noop/n".to_owned();
    for effect in [
        Effect::Delete(key.clone()),
        Effect::Put { key: key.clone(), value: b"nonsense".to_vec(), lease: None },
    ] {
        let done =
            store.commit(Transaction { effects: vec![effect], ..Transaction::default() }).await.unwrap();
        let watcher = host(connect, "e");
        watcher.ready().await;
        until("it is as it was", || {
            watcher
                .exported(&text("noop"))
                .iter()
                .any(|export| export.host == "d" && export.data == "{\"x\":1}")
        })
        .await;
        assert!(done.done);
    }
    // With a time, it does not outlast its host for long.
    drop(d);
    let watcher = host(connect, "e");
    watcher.ready().await;
    until("it is gone", || !watcher.exported(&text("noop")).iter().any(|export| export.host == "d")).await;
}

async fn scheduling(connect: Connect<'_>) {
    let hosts: Vec<SharedState> = ["s1", "s2", "s3"].iter().map(|name| host(connect, name)).collect();
    let job = text("job/1");
    // Nobody is gone here, so on a busy machine nobody is to be taken for gone either.
    let offer = Offer { ttl: Some(60), grace: Duration::from_secs(1), ..Offer::default() };
    assert!(hosts[0].volunteer(&job, &offer, false).await.unwrap(), "looking says what would be");
    assert!(hosts[0].scheduled(&job).unwrap().is_empty());
    for host in &hosts {
        assert!(host.volunteer(&job, &offer, true).await.unwrap());
        assert!(!host.volunteer(&job, &offer, true).await.unwrap());
    }
    until("everybody knows who was chosen", || {
        hosts.iter().all(|host| host.scheduled(&job).unwrap() == [text("s1")])
    })
    .await;
    assert!(hosts[0].withdraw(&job, true).await.unwrap());
    assert!(!hosts[0].withdraw(&job, true).await.unwrap());
    until("the next one is chosen", || {
        hosts.iter().all(|host| host.scheduled(&job).unwrap() == [text("s2")])
    })
    .await;
    // Whoever comes back waits for a turn.
    hosts[0].volunteer(&job, &offer, true).await.unwrap();
    let alpha = Offer {
        strategy: Strategy::Alphabetical,
        max: 2,
        ttl: Some(60),
        grace: Duration::from_secs(1),
        ..Offer::default()
    };
    let another = text("another");
    for host in &hosts {
        host.volunteer(&another, &alpha, true).await.unwrap();
    }
    until("two of the alphabet", || {
        hosts.iter().all(|host| host.scheduled(&another).unwrap() == [text("s1"), text("s2")])
    })
    .await;
    assert_eq!(hosts[2].scheduled(&job).unwrap(), [text("s2")]);
    for host in &hosts {
        host.withdraw(&job, true).await.unwrap();
        host.withdraw(&another, true).await.unwrap();
    }
    until("nobody is left", || hosts.iter().all(|host| host.scheduled(&job).unwrap().is_empty())).await;
}

async fn a_leader_that_is_gone_is_replaced(connect: Connect<'_>) {
    let job = text("led");
    let offer = Offer { ttl: Some(2), grace: Duration::from_secs(1), ..Offer::default() };
    let mut hosts: Vec<SharedState> = Vec::new();
    for name in ["l1", "l2"] {
        let host = host(connect, name);
        host.volunteer(&job, &offer, true).await.unwrap();
        hosts.push(host);
    }
    until("one is chosen", || hosts[1].scheduled(&job).unwrap() == [text("l1")]).await;
    // The first one leads, is chosen, and is gone without a word.
    drop(hosts.remove(0));
    let late = host(connect, "l3");
    late.volunteer(&job, &offer, true).await.unwrap();
    until("another leads and another is chosen", || late.scheduled(&job).unwrap() == [text("l2")]).await;
    drop(hosts);
    until("the one who is left", || late.scheduled(&job).unwrap() == [text("l3")]).await;
}

async fn a_damaged_choice_or_leader_is_replaced(connect: Connect<'_>) {
    let job = text("damaged");
    let (one, two) = (host(connect, "d1"), host(connect, "d2"));
    for host in [&one, &two] {
        host.volunteer(&job, &Offer::default(), true).await.unwrap();
    }
    until("one is chosen", || !two.scheduled(&job).unwrap().is_empty()).await;
    let chosen = two.scheduled(&job).unwrap();
    let store = connect();
    let put = async |key: &str| {
        let effect = Effect::Put { key: key.to_owned(), value: b"garbage".to_vec(), lease: None };
        store.commit(Transaction { effects: vec![effect], ..Transaction::default() }).await.unwrap();
    };
    put("/schedule/damaged").await;
    until("the choice is made anew", || two.scheduled(&job).unwrap() == chosen).await;
    put("/leader/scheduler").await;
    until("somebody leads again", || one.leader().is_some_and(|leader| leader == "d1" || leader == "d2"))
        .await;
    put("/host/h/string/x").await;
    until("what cannot be read is named", || {
        two.unreadable_records().iter().any(|error| error.to_string().contains("/host/h/string/x"))
    })
    .await;
    let effects = vec![Effect::Delete("/host/h/string/x".to_owned())];
    store.commit(Transaction { effects, ..Transaction::default() }).await.unwrap();
}

async fn offers_that_persist_stay(connect: Connect<'_>) {
    let job = text("kept");
    let offer = Offer { persist: true, ..Offer::default() };
    let gone = host(connect, "p1");
    gone.volunteer(&job, &offer, true).await.unwrap();
    drop(gone);
    let other = host(connect, "p2");
    other.volunteer(&job, &offer, true).await.unwrap();
    other.volunteer(&text("marker"), &Offer::default(), true).await.unwrap();
    until("the leader has decided", || !other.scheduled(&text("marker")).unwrap().is_empty()).await;
    assert_eq!(other.scheduled(&job).unwrap(), [text("p1")]);
    let back = host(connect, "p1");
    assert!(back.withdraw(&job, true).await.unwrap());
    until("the other one", || other.scheduled(&job).unwrap() == [text("p2")]).await;
}

fn tree(files: &[(&str, &[u8])]) -> Tree {
    let mut tree = Tree::default();
    for (path, content) in files {
        tree.insert(path, File { executable: path.ends_with(".sh"), content: content.to_vec() }).unwrap();
    }
    tree
}

fn program() -> Program {
    Program {
        frontend: "lang".to_owned(),
        entry: "main.mcl".to_owned(),
        noop: false,
        sema: -1,
        no_autoedges: false,
        no_autogroup: true,
    }
}

fn commits(hash: &str, previous: &str) -> Commits {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Commits { hash: some(hash), follows: some(previous), forced: false }
}

async fn deploys(connect: Connect<'_>) {
    let (a, b) = (host(connect, "a"), host(connect, "b"));
    assert_eq!(a.newest_deploy().await.unwrap(), None);
    let mut watch = b.watch_deploys();
    watch.next().await.unwrap();
    let large: Vec<u8> = (0_u32..).flat_map(u32::to_be_bytes).take(3 << 20).collect();
    let files = tree(&[
        ("main.mcl", b"noop \"a\" {}"),
        ("files/large", &large),
        ("files/run.sh", b""),
        ("é b", b"\0"),
    ]);
    let first = a.add_deploy(&program(), &files, &commits("c1", ""), None).await.unwrap();
    assert_eq!((first.id, first.by.as_str()), (1, "a"));
    watch.next().await.unwrap();
    let found = b.newest_deploy().await.unwrap().unwrap();
    assert_eq!(found, first);
    assert_eq!(b.deployed_files(&found).await.unwrap(), files);
    assert_eq!(found.program, program());

    // The chain of commits.
    let other = tree(&[("main.mcl", b"noop \"b\" {}")]);
    let same = b.add_deploy(&program(), &other, &commits("c1", "c0"), None).await.unwrap_err();
    assert!(matches!(same, DeployError::Same { id: 1, .. }), "{same}");
    let same = b.add_deploy(&program(), &other, &commits("c1", ""), None).await.unwrap_err();
    assert!(matches!(same, DeployError::Same { id: 1, .. }), "the first commit has none before it: {same}");
    let skipped = b.add_deploy(&program(), &other, &commits("c3", "c2"), None).await.unwrap_err();
    assert!(matches!(skipped, DeployError::OtherCommit { .. }), "{skipped}");
    assert_eq!(b.add_deploy(&program(), &other, &commits("c2", "c1"), None).await.unwrap().id, 2);
    assert_eq!(
        b.add_deploy(&program(), &other, &Commits { forced: true, ..commits("c9", "c8") }, None)
            .await
            .unwrap()
            .id,
        3
    );
    // One without a commit does not break the chain.
    assert_eq!(b.add_deploy(&program(), &other, &Commits::default(), None).await.unwrap().id, 4);
    assert_eq!(b.add_deploy(&program(), &other, &commits("c10", "c9"), None).await.unwrap().id, 5);
    let back = a.repeat_deploy(1, None).await.unwrap();
    assert_eq!((back.id, back.repeats, back.hash.as_deref()), (6, Some(1), Some("c1")));
    assert_eq!(b.deployed_files(&back).await.unwrap(), files);
    assert!(matches!(a.repeat_deploy(77, None).await, Err(DeployError::Missing { id: 77 })));
    let all = a.deploys().await.unwrap().deploys;
    assert_eq!(all.iter().map(|deploy| deploy.id).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

async fn deploys_at_the_same_time_get_numbers_of_their_own(connect: Connect<'_>) {
    let before = host(connect, "a").newest_deploy().await.unwrap().map_or(0, |deploy| deploy.id);
    let mut deploying = tokio::task::JoinSet::new();
    for which in 0..6_u8 {
        let world = host(connect, &format!("h{which}"));
        deploying.spawn(async move {
            let files = tree(&[("main.mcl", &[which])]);
            world.add_deploy(&program(), &files, &Commits::default(), None).await.unwrap().id
        });
    }
    let mut numbers = deploying.join_all().await;
    numbers.sort_unstable();
    assert_eq!(numbers, (before + 1..=before + 6).collect::<Vec<_>>());
}

async fn old_deploys_go_and_take_along_what_nobody_needs(connect: Connect<'_>) {
    let a = host(connect, "a");
    let common: &[u8] = b"in all of them";
    let mut last = 0;
    for round in 0..20_u8 {
        let files = tree(&[("common", common), ("own", &[round, 1, 2])]);
        last = a.add_deploy(&program(), &files, &Commits::default(), None).await.unwrap().id;
    }
    let kept = a.deploys().await.unwrap().deploys;
    assert_eq!(kept.len(), 16);
    assert_eq!((kept[0].id, kept[15].id), (last - 15, last));
    for deploy in &kept {
        assert_eq!(a.deployed_files(deploy).await.unwrap().get("common").unwrap().content, common);
    }
    // A list of files and a file of its own for each that is kept, and the common one.
    let chunks = a.store().read(vec![mgmt_store::Span::Prefix("/chunk/".to_owned())]).await.unwrap();
    assert_eq!(chunks.entries.len(), 16 * 2 + 1);
}

async fn a_record_that_cannot_be_read_concerns_that_record_alone(connect: Connect<'_>) {
    let a = host(connect, "a");
    let deploy = async |text: &[u8]| {
        a.add_deploy(&program(), &tree(&[("main.mcl", text)]), &Commits::default(), None).await.unwrap().id
    };
    let set = async |key: String, value: Option<&str>| {
        let effect = match value {
            Some(value) => Effect::Put { key, value: value.as_bytes().to_vec(), lease: None },
            None => Effect::Delete(key),
        };
        a.store().commit(Transaction { effects: vec![effect], ..Transaction::default() }).await.unwrap();
    };
    let record = |id: u64| format!("/deploy/id/{id:020}");
    let first = deploy(b"one").await;
    let (second, third) = (deploy(b"two").await, deploy(b"three").await);
    // One in the middle, of a later version; it is listed apart, and the others are as they were.
    set(record(second), Some(r#"{"format":9,"id":"somewhere else"}"#)).await;
    let list = a.deploys().await.unwrap();
    let ids: Vec<u64> = list.deploys.iter().map(|deploy| deploy.id).filter(|id| *id >= first).collect();
    assert_eq!(ids, [first, third]);
    let unreadable: Vec<_> = list.unreadable.iter().filter(|found| found.id == Some(second)).collect();
    assert!(unreadable.len() == 1 && unreadable[0].reason.contains("format 9"), "{unreadable:?}");
    // The newest one: garbage, the record of another, nothing at all, and a pointer that is garbage itself.
    let damages = [Some("{"), Some(r#"{"format":1,"id":1}"#), None];
    for damage in damages {
        let last = deploy(b"four").await;
        set(record(last), damage).await;
        let error = a.newest_deploy().await.unwrap_err();
        assert!(matches!(error, mgmt_store::StoreError::Corrupt { .. }), "{error}");
        let list = a.deploys().await.unwrap();
        assert!(list.unreadable.iter().any(|found| found.id == Some(last)), "{:?}", list.unreadable);
        let next = deploy(b"five").await;
        assert_eq!(next, last + 1, "its number is not given again");
        assert_eq!(a.newest_deploy().await.unwrap().unwrap().id, next);
        set(record(last), None).await;
    }
    // A record of the last number that there is uses up no number.
    let last_number = record(u64::MAX);
    set(last_number.clone(), Some("garbage")).await;
    let before = a.newest_deploy().await.unwrap().unwrap().id;
    assert_eq!(deploy(b"five and a half").await, before + 1);
    set(last_number, None).await;
    let last = deploy(b"six").await;
    for damage in ["", "not json", r#"{"format":2,"id":1}"#, r#"{"format":1}"#] {
        set("/deploy/newest".to_owned(), Some(damage)).await;
        assert!(a.newest_deploy().await.is_err());
        set("/deploy/sweep".to_owned(), Some(damage)).await;
        assert!(deploy(b"seven").await > last);
        assert!(a.newest_deploy().await.unwrap().is_some());
    }
    // A pointer that leads nowhere, far ahead, makes no deploy old: one can still go back to those before it.
    let all = async || {
        let list = a.deploys().await.unwrap().deploys;
        list.iter().map(|deploy| deploy.id).collect::<Vec<_>>()
    };
    let known = all().await;
    let far = known.last().unwrap() + 1000;
    set("/deploy/newest".to_owned(), Some(&format!(r#"{{"format":1,"id":{far}}}"#))).await;
    assert_eq!(deploy(b"eight").await, far + 1);
    assert!(all().await.ends_with(&[&known[1..], &[far + 1]].concat()), "{known:?}");
    // As long as the files of one that is kept are not known, none are removed.
    let chunks = async || {
        let all = vec![mgmt_store::Span::Prefix("/chunk/".to_owned())];
        a.store().read(all).await.unwrap().entries.len()
    };
    let damaged = deploy(b"eight").await;
    set(record(damaged), Some("{")).await;
    for round in 0..15_u8 {
        let before = chunks().await;
        deploy(&[round, round]).await;
        assert!(chunks().await >= before, "round {round}");
    }
    let before = chunks().await;
    deploy(b"nine").await;
    deploy(b"ten").await;
    assert!(chunks().await < before, "the damaged one is not among the last sixteen any more");
    let list = a.deploys().await.unwrap();
    assert!(list.unreadable.is_empty() && list.deploys.len() == 16, "{list:?}");
}

async fn damaged_files_are_noticed(connect: Connect<'_>) {
    let a = host(connect, "a");
    let deploy =
        a.add_deploy(&program(), &tree(&[("x", b"content")]), &Commits::default(), None).await.unwrap();
    let chunks = a.store().read(vec![mgmt_store::Span::Prefix("/chunk/".to_owned())]).await.unwrap();
    let chunk = chunks.entries.iter().find(|entry| entry.value == b"content").unwrap();
    let key = chunk.key.clone();
    for effect in
        [Effect::Put { key: key.clone(), value: b"CONTENT".to_vec(), lease: None }, Effect::Delete(key)]
    {
        a.store().commit(Transaction { effects: vec![effect], ..Transaction::default() }).await.unwrap();
        let error = a.deployed_files(&deploy).await.unwrap_err();
        assert!(matches!(error, mgmt_store::StoreError::Corrupt { .. }), "{error}");
        // A later deploy that shares the chunk stores it again, which mends the former, too.
        let files = tree(&[("x", b"content")]);
        let later = a.add_deploy(&program(), &files, &Commits::default(), None).await.unwrap();
        assert_eq!(a.deployed_files(&later).await.unwrap(), files);
        assert_eq!(a.deployed_files(&deploy).await.unwrap(), files);
    }
}

async fn statuses(connect: Connect<'_>) {
    let (a, b) = (host(connect, "a"), host(connect, "b"));
    let status = Status { version: "1".to_owned(), converged: true, resources: 7, ..Status::default() };
    a.tell_status(&status).unwrap();
    b.ready().await;
    until("it is seen", || b.statuses().get(&text("a")) == Some(&status)).await;
    a.leave().await;
    until("it is gone with the host", || b.statuses().is_empty()).await;
}

fn agent(instance: &str) -> Agent {
    let (instance, machine) = (instance.to_owned(), format!("machine-{instance}"));
    Agent { instance, machine, pid: 7, ..Agent::default() }
}

async fn members_are_lost_until_they_are_forgotten(connect: Connect<'_>) {
    let (a, watcher) = (host(connect, "member"), host(connect, "watcher"));
    let name = text("member");
    watcher.ready().await;
    a.ready().await;
    a.claim_host(agent("member"));
    a.be_member("1");
    a.tell_status(&Status::default()).unwrap();
    until("it is a member", || watcher.members().contains_key(&name)).await;
    until("it runs", || watcher.statuses().contains_key(&name)).await;
    assert!(watcher.lost().is_empty());
    assert!(matches!(watcher.forget(&name).await, Err(ForgetError::Running { .. })));
    a.export(&text("noop"), &text("left behind"), &text("*"), &text("{}"), None).unwrap();
    a.leave_as(true).await;
    until("it is lost", || watcher.lost().get(&name).is_some_and(|member| member.stopped.is_some())).await;
    // The next run takes the record over.
    let a = host(connect, "member");
    a.ready().await;
    a.claim_host(agent("member again"));
    a.be_member("2");
    a.tell_status(&Status::default()).unwrap();
    until("it is back", || watcher.lost().is_empty()).await;
    until("of another version", || watcher.members()[&name].version == "2").await;
    a.leave_as(true).await;
    until("it is lost again", || watcher.lost().contains_key(&name)).await;
    watcher.forget(&name).await.unwrap();
    until("nothing is left of it", || watcher.lost().is_empty()).await;
    let all = watcher.store().read(vec![Span::Prefix("/host/member/".to_owned())]).await.unwrap();
    assert_eq!(all.entries, []);
    assert!(matches!(watcher.forget(&name).await, Err(ForgetError::Unknown { .. })));
    // A run that was never meant to stay leaves no record.
    let a = host(connect, "once");
    a.ready().await;
    a.be_member("1");
    until("it is a member", || watcher.members().contains_key(&text("once"))).await;
    a.leave_as(false).await;
    until("it is none", || !watcher.members().contains_key(&text("once"))).await;
}

async fn the_younger_of_two_agents_with_one_name_stands_back(connect: Connect<'_>) {
    let (elder, younger, watcher) = (host(connect, "twin"), host(connect, "twin"), host(connect, "watcher"));
    let name = text("twin");
    for world in [&elder, &younger, &watcher] {
        world.ready().await;
    }
    let status = |version: &str| Status { version: version.to_owned(), ..Status::default() };
    elder.claim_host(agent("elder"));
    elder.tell_status(&status("elder")).unwrap();
    until("the elder writes", || watcher.statuses().contains_key(&name)).await;
    younger.claim_host(agent("younger"));
    younger.tell_status(&status("younger")).unwrap();
    let is = |world: &SharedState, other: &str, stands_back: bool| {
        let duplicate = world.watch_duplicate().unwrap();
        let duplicate = duplicate.borrow();
        duplicate
            .as_ref()
            .is_some_and(|duplicate| duplicate.other.contains(other) && duplicate.stands_back == stands_back)
    };
    until("the younger one knows", || is(&younger, "machine-elder", true)).await;
    until("the elder knows", || is(&elder, "machine-younger", false)).await;
    assert_eq!(watcher.rivals()[&name], [agent("younger")]);
    assert_eq!(watcher.statuses()[&name].version, "elder");
    // It does not keep what it runs waiting.
    let refused = younger.volunteer(&text("job of twins"), &Offer::default(), true).await;
    assert!(refused.unwrap_err().to_string().contains("stands back"));
    let (key, value) = (text("where"), text("here"));
    assert!(elder.set_of_host(&key, &name, Some(&value)).await.unwrap());
    let refused = younger.set_of_host(&key, &name, Some(&text("there"))).await;
    assert!(refused.unwrap_err().to_string().contains("stands back"));
    assert_eq!(elder.by_host(&key).await.unwrap()[&name], value);
    elder.leave().await;
    until("the younger one takes over", || {
        watcher.statuses().get(&name).is_some_and(|status| status.version == "younger")
    })
    .await;
    assert!(younger.set_of_host(&key, &name, Some(&text("there"))).await.unwrap());
    until("nobody stands back", || watcher.rivals().is_empty()).await;
    until("and it is said", || younger.watch_duplicate().unwrap().borrow().is_none()).await;
    younger.leave().await;
}

/// Agents of earlier versions claim no name.
async fn statuses_that_fight_are_written_once_a_second(connect: Connect<'_>) {
    let (a, b) = (host(connect, "fight"), host(connect, "fight"));
    for (world, version) in [(&a, "a"), (&b, "b")] {
        world.ready().await;
        world.tell_status(&Status { version: version.to_owned(), ..Status::default() }).unwrap();
    }
    let began = std::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let seconds = began.elapsed().as_secs() + 2;
    for world in [&a, &b] {
        assert!(world.writes() <= seconds, "{} writes in {seconds} s", world.writes());
    }
    // However many statuses there are, the last one arrives.
    b.leave().await;
    for number in 0..500 {
        a.tell_status(&Status { resources: number, ..Status::default() }).unwrap();
    }
    let arrived = || a.statuses().get(&text("fight")).is_some_and(|status| status.resources == 499);
    until("the last one arrives", arrived).await;
    a.leave().await;
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    for path in ["", "/", "/etc/passwd", "..", "a/../b", "a//b", "./a", "a/", "a\0b", &"x".repeat(300)] {
        assert!(Tree::default().insert(path, File::default()).is_err(), "{path:?}");
    }
}
