//! Servers that are none, and connections that break.

use std::time::Duration;

use mgmt_store::{LeaseId, Store, Transaction};
use mgmt_store_etcd::{Etcd, EtcdSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::etcd_common::*;

/// Numbers that look random and are the same each time.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A head that says that everything is well.
fn fine(stream: u32) -> Vec<u8> {
    let mut block = vec![0x88];
    for (name, value) in [("content-type", "application/grpc")] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.as_bytes());
        }
    }
    frame(1, 4, stream, &block)
}

/// Everything that a stranger may answer.
fn answers() -> Vec<Vec<u8>> {
    let settings = frame(4, 0, 0, &[]);
    let message = |bytes: &[u8]| {
        let mut payload = vec![0];
        payload.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
        payload.extend(bytes);
        frame(0, 0, 1, &payload)
    };
    let ok = |bytes: &[u8]| [settings.clone(), fine(1), message(bytes)].concat();
    let mut all = vec![
        Vec::new(),
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        settings.clone(),
        [settings.clone(), frame(7, 0, 0, &[0; 8])].concat(),
        [settings.clone(), frame(3, 0, 1, &[0, 0, 0, 7])].concat(),
        [settings.clone(), fine(1), frame(0, 1, 1, &[])].concat(),
        // An answer of which only the length arrives, and that is four gigabytes.
        [settings.clone(), fine(1), frame(0, 0, 1, &[0, 255, 255, 255, 255, 1])].concat(),
        ok(&[]),
        ok(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        ok(&[0x0a, 0x02, 0x18, 0x05]),
    ];
    for seed in 1..20 {
        all.push(noise(seed).take(usize::try_from(seed).unwrap() * 100).collect());
        all.push(ok(&noise(seed).take(64).collect::<Vec<u8>>()));
        let broken: Vec<u8> = noise(seed).take(40).collect();
        all.push(
            [settings.clone(), frame(broken[0] % 10, broken[1], u32::from(broken[2] % 4), &broken)].concat(),
        );
    }
    all
}

/// Says this to everybody, and then either goes or stays.
async fn stranger(answer: Vec<u8>, stays: bool) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move {
        let mut held = tokio::task::JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            held.spawn(async move {
                let mut heard = [0; 4096];
                let _read = stream.read(&mut heard).await;
                let _read = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut heard)).await;
                let _written = stream.write_all(&answer).await;
                if stays {
                    while stream.read(&mut heard).await.is_ok_and(|count| count > 0) {}
                }
            });
        }
    });
    (address, task)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_answers_anything_gets_an_error_in_time() {
    let mut tests = tokio::task::JoinSet::new();
    for (number, answer) in answers().into_iter().enumerate() {
        for stays in [false, true] {
            let answer = answer.clone();
            tests.spawn(async move {
                let (address, task) = stranger(answer, stays).await;
                let mut settings = EtcdSettings::new([address]);
                settings.deadline = Duration::from_secs(1);
                let store = Etcd::connect(settings).unwrap();
                let all = async {
                    assert!(store.read(vec![below("/")]).await.is_err(), "{number}");
                    let effects = vec![put("/k", "v")];
                    assert!(
                        store.commit(Transaction { effects, ..Transaction::default() }).await.is_err(),
                        "{number}"
                    );
                    assert!(store.grant(Duration::from_secs(9)).await.is_err(), "{number}");
                    let _kept = store.keep(LeaseId(1)).await;
                    let _revoked = store.revoke(LeaseId(1)).await;
                    let _members = store.members().await;
                    let mut watch = store.watch(below("/"));
                    let waited = tokio::time::timeout(Duration::from_millis(500), watch.next()).await;
                    assert!(!matches!(waited, Ok(Ok(_))), "{number}");
                };
                tokio::time::timeout(EVENT_TIMEOUT, all).await.expect("every call ends");
                task.abort();
            });
        }
    }
    while let Some(done) = tests.join_next().await {
        done.unwrap();
    }
}

/// Lets everybody through to a server, for so many bytes.
async fn thin_ice(server: String) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move {
        let mut held = tokio::task::JoinSet::new();
        let mut random = noise(7);
        while let Ok((mut near, _)) = listener.accept().await {
            let server = server.clone();
            let short = !random.next().unwrap().is_multiple_of(4);
            let bytes = if short { 40 + usize::from(random.next().unwrap()) * 12 } else { 100_000 };
            held.spawn(async move {
                let Ok(mut far) = TcpStream::connect(server).await else { return };
                let (mut near_read, mut near_write) = near.split();
                let (mut far_read, mut far_write) = far.split();
                let back = async {
                    let mut some = [0; 64];
                    let mut passed = 0;
                    while passed < bytes {
                        match far_read.read(&mut some).await {
                            Ok(count) if count > 0 => {
                                passed += count;
                                if near_write.write_all(&some[..count]).await.is_err() {
                                    break;
                                }
                            }
                            _ => break,
                        }
                    }
                };
                tokio::select! {
                    _ = tokio::io::copy(&mut near_read, &mut far_write) => {}
                    () = back => {}
                }
            });
        }
    });
    (address, task)
}

#[tokio::test]
async fn connections_that_break_at_any_place_lose_nothing_in_the_end() {
    let cluster = EtcdCluster::start(1);
    let server = cluster.members[0].client_url.trim_start_matches("http://").to_owned();
    let (address, task) = thin_ice(server).await;
    let mut settings = EtcdSettings::new([address]);
    settings.follow_members = false;
    let store = Etcd::connect(settings).unwrap();
    let writer = cluster.connect();
    let mut mirror = Mirror::new(&store, below("/n/"));
    for turn in 0..30 {
        let turn = turn.to_string();
        change(&writer, vec![put("/n/same", &turn), put(&format!("/n/{turn}"), &"x".repeat(200))]).await;
        // Whatever happens to the call, it either says so or was done.
        let effects = vec![put("/n/own", &turn)];
        match store.commit(Transaction { effects, ..Transaction::default() }).await {
            Ok(commit) => assert!(commit.done),
            Err(error) => assert!(error.is_passing(), "{error}"),
        }
        if turn.ends_with('5') {
            mirror.until_value("/n/same", &turn).await;
        }
    }
    change(&writer, vec![put("/n/own", "end"), put("/n/same", "end")]).await;
    mirror.until_value("/n/same", "end").await;
    let real = writer.read(vec![below("/n/")]).await.unwrap();
    let known: Vec<_> = mirror.entries.into_values().collect();
    assert_eq!(known, real.entries);
    task.abort();
}

/// An address where nobody opens, as if its host were switched off.
fn closed_door() -> (String, Vec<std::os::fd::OwnedFd>) {
    use rustix::net::{AddressFamily, SocketAddrV4, SocketFlags, SocketType};
    use std::net::Ipv4Addr;
    let socket = || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
    };
    let door = socket();
    rustix::net::bind(&door, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    rustix::net::listen(&door, 0).unwrap();
    let address = rustix::net::getsockname(&door).unwrap();
    let address = SocketAddrV4::try_from(address).unwrap();
    let mut held = vec![door];
    // The first ones stand in the doorway, so that nobody else gets through.
    for _ in 0..4 {
        let one = socket();
        let _pending = rustix::net::connect(&one, &address);
        held.push(one);
    }
    (address.to_string(), held)
}

#[tokio::test]
async fn a_server_that_does_not_open_leaves_time_for_another() {
    let cluster = EtcdCluster::start(1);
    let (address, _held) = closed_door();
    let mut settings = cluster.settings();
    settings.endpoints.insert(0, address.clone());
    let store = Etcd::connect(settings.clone()).unwrap();
    assert!(store.endpoints()[0].contains(&address));
    // A change is never sent twice, so this shows that it was not sent there.
    change(&store, vec![put("/k", "1")]).await;
    assert!(!store.endpoints()[0].contains(&address), "it is not asked first any more");

    settings.endpoints.truncate(1);
    settings.deadline = Duration::from_secs(2);
    let effects = vec![put("/k", "2")];
    let store = Etcd::connect(settings).unwrap();
    let error = store.commit(Transaction { effects, ..Transaction::default() }).await.unwrap_err();
    assert!(error.is_passing() && !error.to_string().contains("not known"), "{error}");
}
