//! What hosts share: how long a string takes to the next host, what durability costs, and a hundred hosts at once.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgmt_store::{EVERYBODY, Embedded, Scope, SharedState};
use mgmt_store::{Effect, Store, Transaction};
use mgmt_store_etcd::{Etcd, EtcdSettings};
use mgmt_value::Str;

use crate::etcd::{Raw, Server};
use crate::report::{Report, percentile};

/// How often something is stored.
const ROUNDS: usize = 1000;
/// Rounds that are not counted.
const WARMING: usize = 50;
const HOSTS: usize = 100;
const EXPORTS: usize = 100;
const KIND: &str = "file";

pub(crate) fn run(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        embedded(report).await;
        latency(report).await;
        crowd(report).await;
    });
}

/// A durable change, beside a line that is appended to a file and synced.
async fn embedded(report: &mut Report) {
    report.section("embedded store: one durable change after the other, beside append and fdatasync");
    let directory = crate::world::disk();
    let store = Embedded::open(&directory.path().join("store")).unwrap();
    let mut log = File::options().create(true).append(true).open(directory.path().join("log")).unwrap();
    let mut pairs = Vec::new();
    for _ in 0..5 {
        let value = vec![b'x'; 100];
        let began = Instant::now();
        for round in 0..ROUNDS / 5 {
            let effects =
                vec![Effect::Put { key: format!("/string/{round}"), value: value.clone(), lease: None }];
            store.commit(Transaction { effects, ..Transaction::default() }).await.unwrap();
        }
        let ours = began.elapsed();
        let began = Instant::now();
        for _ in 0..ROUNDS / 5 {
            log.write_all(&value).unwrap();
            log.sync_data().unwrap();
        }
        pairs.push((ours, began.elapsed()));
    }
    report.ratio_spread("a change of 100 bytes", ROUNDS / 5, &pairs, Some(3.0));
}

fn host(server: &Server, name: &str) -> SharedState {
    let store: Arc<dyn Store> = Arc::new(Etcd::connect(EtcdSettings::new([server.url.clone()])).unwrap());
    SharedState::new(store, name)
}

/// From storing a string on one host to knowing it on another, beside the bare protocol on two connections. In turns.
async fn latency(report: &mut Report) {
    report.section("etcd: a string stored on one host is known on another, beside a bare client");
    let server = Server::start();
    let (mut writer, mut reader) = (server.raw().await, server.raw().await);
    let mut events = reader.watch("/raw/").await;
    let (one, other) = (host(&server, "one"), host(&server, "other"));
    one.ready().await;
    other.ready().await;
    let key: Str = "key".into();
    let mut changes = other.watch(&key, Scope::Shared);
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for round in 0..WARMING + ROUNDS {
        let value: Str = format!("{round:0100}").into();
        let began = Instant::now();
        let stored = one.set_shared(&key, Some(&value));
        let known = async {
            while other.known_shared(&key).unwrap().as_ref() != Some(&value) {
                changes.next().await.unwrap();
            }
            began.elapsed()
        };
        let (stored, time) = tokio::join!(stored, known);
        assert!(stored.unwrap());
        let began = Instant::now();
        let told = async {
            events.next().await;
            began.elapsed()
        };
        let text = format!("{round:0100}");
        let ((), bare) = tokio::join!(writer.put("/raw/key", &text), told);
        if round >= WARMING {
            ours.push(time);
            raw.push(bare);
        }
    }
    for times in [&mut ours, &mut raw] {
        times.sort();
    }
    for (part, target) in [(0.5, Some(1.3)), (0.99, None)] {
        let what = format!("put to known elsewhere, p{}", part * 100.0);
        report.ratio(&what, 1, percentile(&ours, part), percentile(&raw, part), target);
    }
}

/// A hundred hosts export a hundred resources each, and all know all of them.
async fn crowd(report: &mut Report) {
    report.section("etcd: 100 hosts export 100 resources each, until all know all 10 000");
    let server = Server::start();
    let _ = server.raw().await;
    let hosts: Vec<SharedState> = (0..HOSTS).map(|number| host(&server, &format!("h{number}"))).collect();
    for host in &hosts {
        host.ready().await;
    }
    let began = Instant::now();
    let kind: Str = KIND.into();
    for host in &hosts {
        for number in 0..EXPORTS {
            let data: Str = format!("{{\"content\":\"{number:0100}\"}}").into();
            host.export(&kind, &format!("{number}").into(), &EVERYBODY.into(), &data, None).unwrap();
        }
    }
    let converged = hosts.into_iter().map(|host| {
        let kind = kind.clone();
        tokio::spawn(async move {
            let mut changes = host.watch_exports(&kind);
            while host.exported(&kind).len() < HOSTS * EXPORTS {
                changes.next().await.unwrap();
            }
            host
        })
    });
    for host in converged.collect::<Vec<_>>() {
        drop(host.await.unwrap());
    }
    let ours = began.elapsed();
    let raw = bare_crowd(&server).await;
    report.time("all hosts know all exports", ours, None);
    report.ratio(
        "each of 10 000, known 100 times; beside bare puts and watches",
        HOSTS * EXPORTS,
        ours,
        raw,
        None,
    );
}

/// The same with bare connections, each of which stores one key after the other and counts what it is told.
async fn bare_crowd(server: &Server) -> Duration {
    let mut connections = Vec::new();
    for _ in 0..HOSTS {
        let mut raw: Raw = server.raw().await;
        let events = raw.watch("/bare/").await;
        connections.push((raw, events));
    }
    let began = Instant::now();
    let tasks = connections.into_iter().enumerate().map(|(host, (mut raw, mut events))| {
        tokio::spawn(async move {
            let puts = async {
                for number in 0..EXPORTS {
                    let value = format!("{{\"content\":\"{number:0100}\"}}");
                    raw.put(&format!("/bare/{host}/{number}"), &value).await;
                }
            };
            let count = async {
                let mut known = 0;
                while known < HOSTS * EXPORTS {
                    known += events.next().await;
                }
            };
            tokio::join!(puts, count);
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    began.elapsed()
}
