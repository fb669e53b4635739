//! What the world does, whichever store it is on. A file of tests calls [`all`] with hosts that share a store.

#![allow(dead_code, reason = "not every file of tests uses all of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use mgmt_value::Str;
use mgmt_world::store::{Effect, Store, Transaction};
use mgmt_world::{Commits, DeployError, File, Offer, Program, Scope, Status, Strategy, Tree, World};

/// Makes a connection to the one store, for one more host.
pub(crate) type Connect<'a> = &'a dyn Fn() -> Arc<dyn Store>;

pub(crate) async fn all(connect: Connect<'_>) {
    strings(connect).await;
    strings_of_hosts(connect).await;
    exports(connect).await;
    exports_of_an_earlier_run_go(connect).await;
    what_somebody_else_breaks_is_mended(connect).await;
    scheduling(connect).await;
    a_leader_that_is_gone_is_replaced(connect).await;
    offers_that_persist_stay(connect).await;
    deploys(connect).await;
    deploys_at_the_same_time_get_numbers_of_their_own(connect).await;
    old_deploys_go_and_take_along_what_nobody_needs(connect).await;
    damaged_files_are_noticed(connect).await;
    statuses(connect).await;
}

fn host(connect: Connect<'_>, name: &str) -> World {
    World::new(connect(), name)
}

fn text(text: &str) -> Str {
    text.into()
}

/// Waits until something is so. That it never becomes so is the failure.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
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

fn names(world: &World) -> Vec<String> {
    let name = |export: &mgmt_world::Exported| format!("{}@{}", export.name.display(), export.host.display());
    world.exported(&text("noop")).iter().map(name).collect()
}

async fn exports(connect: Connect<'_>) {
    let (a, b, c) = (host(connect, "a"), host(connect, "b"), host(connect, "c"));
    c.ready().await;
    let offer = |world: &World, name: &str, to: &str| {
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
    let hosts: Vec<World> = ["s1", "s2", "s3"].iter().map(|name| host(connect, name)).collect();
    let job = text("job/1");
    // Nobody is gone here, so on a busy machine nobody is to be taken for gone either.
    let offer = Offer { ttl: Some(60), ..Offer::default() };
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
    let alpha = Offer { strategy: Strategy::Alphabetical, max: 2, ttl: Some(60), ..Offer::default() };
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
    let offer = Offer { ttl: Some(2), ..Offer::default() };
    let mut hosts: Vec<World> = Vec::new();
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
    Commits { hash: some(hash), previous: some(previous), forced: false }
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
    assert!(matches!(skipped, DeployError::NotPrevious { .. }), "{skipped}");
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
    let all = a.deploys().await.unwrap();
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
    let kept = a.deploys().await.unwrap();
    assert_eq!(kept.len(), 16);
    assert_eq!((kept[0].id, kept[15].id), (last - 15, last));
    for deploy in &kept {
        assert_eq!(a.deployed_files(deploy).await.unwrap().get("common").unwrap().content, common);
    }
    // A list of files and a file of its own for each that is kept, and the common one.
    let chunks = a.store().read(vec![mgmt_world::store::Span::Prefix("/chunk/".to_owned())]).await.unwrap();
    assert_eq!(chunks.entries.len(), 16 * 2 + 1);
}

async fn damaged_files_are_noticed(connect: Connect<'_>) {
    let a = host(connect, "a");
    let deploy =
        a.add_deploy(&program(), &tree(&[("x", b"content")]), &Commits::default(), None).await.unwrap();
    let chunks = a.store().read(vec![mgmt_world::store::Span::Prefix("/chunk/".to_owned())]).await.unwrap();
    let chunk = chunks.entries.iter().find(|entry| entry.value == b"content").unwrap();
    let key = chunk.key.clone();
    for effect in
        [Effect::Put { key: key.clone(), value: b"CONTENT".to_vec(), lease: None }, Effect::Delete(key)]
    {
        a.store().commit(Transaction { effects: vec![effect], ..Transaction::default() }).await.unwrap();
        let error = a.deployed_files(&deploy).await.unwrap_err();
        assert!(matches!(error, mgmt_world::StoreError::Corrupt { .. }), "{error}");
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

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    for path in ["", "/", "/etc/passwd", "..", "a/../b", "a//b", "./a", "a/", "a\0b", &"x".repeat(300)] {
        assert!(Tree::default().insert(path, File::default()).is_err(), "{path:?}");
    }
}
