//! The hub for message buses, on a bus of its own that can be stopped and started again.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use crate::test_env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgmt_watch::{Bus, BusError, BusService, Followed, Service, Signal, Topic};

const EVENT_TIMEOUT: Duration = Duration::from_secs(20);
const NAME: &str = "com.example.Test";
const PATH: &str = "/com/example/Test";

/// A signal with a path is about that path.
const SERVICE: Service = Service {
    name: NAME,
    subscribe: None,
    topic: |signal: &Signal| match signal.header().path() {
        Some(path) if path.as_str() == "/all" => Topic::All,
        Some(path) => Topic::One(path.to_string()),
        None => Topic::None,
    },
};

/// Runs a test of this program with a bus at a path of its own.
fn with_own_bus(test: &str) {
    let directory = tempfile::tempdir().unwrap();
    let address = format!("unix:path={}/bus", directory.path().display());
    test_env::run_inside(&format!("DBUS_SESSION_BUS_ADDRESS={address} $TEST"), test);
}

fn in_runtime(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

fn address() -> String {
    std::env::var("DBUS_SESSION_BUS_ADDRESS").unwrap()
}

/// The bus. It ends with this.
struct Daemon(Child);

impl Daemon {
    fn start() -> Daemon {
        let socket = PathBuf::from(address().strip_prefix("unix:path=").unwrap());
        let _ = std::fs::remove_file(&socket);
        let child = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", "--address"])
            .arg(address())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("this test needs dbus-daemon: {error}"));
        let end = Instant::now() + EVENT_TIMEOUT;
        // The socket is there a moment before somebody listens.
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < end, "the bus does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Daemon(child)
    }

    fn ask(&self, method: &str) -> String {
        let output = Command::new("dbus-send")
            .args([
                "--session",
                "--print-reply",
                "--dest=org.freedesktop.DBus",
                "/org/freedesktop/DBus",
                method,
            ])
            .output()
            .unwrap_or_else(|error| panic!("this test needs dbus-send: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// How many rules name the service.
    fn rules(&self) -> usize {
        self.ask("org.freedesktop.DBus.Debug.Stats.GetAllMatchRules").matches(NAME).count()
    }

    /// How many are connected, but for the one who asks.
    fn clients(&self) -> usize {
        self.ask("org.freedesktop.DBus.ListNames").matches("\":1.").count() - 1
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn connection(name: Option<&str>) -> zbus::Connection {
    let address = address();
    let builder = zbus::connection::Builder::address(address.as_str());
    let builder = match name {
        Some(name) => builder.name(name),
        None => builder,
    };
    builder.build().await.unwrap()
}

async fn emit(from: &zbus::Connection, path: &str) {
    from.emit_signal(None::<&str>, path, "com.example.Test", "Changed", &()).await.unwrap();
}

async fn heard(followed: &mut Followed) {
    tokio::time::timeout(EVENT_TIMEOUT, followed.next()).await.expect("an event").unwrap();
}

async fn is_quiet(followed: &mut Followed) -> bool {
    tokio::time::timeout(Duration::ZERO, followed.next()).await.is_err()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + EVENT_TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn open_sockets() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let is_socket = |path: &Path| {
        std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    entries.filter(|entry| is_socket(&entry.path())).count()
}

#[test]
fn a_thousand_followers_share_one_connection_and_its_rules_and_nothing_is_left() {
    with_own_bus("inside_shared");
}

#[test]
#[ignore = "started by a_thousand_followers_share_one_connection_and_its_rules_and_nothing_is_left"]
fn inside_shared() {
    if !test_env::inside() {
        return;
    }
    let daemon = Daemon::start();
    in_runtime(async {
        let sockets = open_sockets();
        for _ in 0..2 {
            let service = BusService::of(Bus::Session, SERVICE);
            assert!(Arc::ptr_eq(&service, &BusService::of(Bus::Session, SERVICE)));
            service.ready().await.unwrap();
            let (rules, clients) = (daemon.rules(), daemon.clients());
            assert_eq!(clients, 1);
            assert!(rules > 0);
            let followers: Vec<_> = (0..1000).map(|number| service.follow(&format!("/n{number}"))).collect();
            let other = BusService::of(Bus::Session, Service { name: "com.example.Other", ..SERVICE });
            other.ready().await.unwrap();
            assert_eq!((daemon.rules(), daemon.clients()), (rules, 1));
            drop(service);
            assert_eq!(daemon.rules(), rules, "followers keep it");
            drop(followers);
            until("the rules go with the last follower", || daemon.rules() == 0).await;
            assert_eq!(daemon.clients(), 1, "another service is still in use");
            drop(other);
            until("the connection goes with the last service", || daemon.clients() == 0).await;
            until("the socket is closed", || open_sockets() == sockets).await;
        }
    });
}

#[test]
fn only_the_service_is_believed_and_only_those_concerned_hear_of_it() {
    with_own_bus("inside_topics");
}

#[test]
#[ignore = "started by only_the_service_is_believed_and_only_those_concerned_hear_of_it"]
fn inside_topics() {
    if !test_env::inside() {
        return;
    }
    let _daemon = Daemon::start();
    in_runtime(async {
        let (owner, stranger) = (connection(Some(NAME)).await, connection(None).await);
        let service = BusService::of(Bus::Session, SERVICE);
        service.ready().await.unwrap();
        assert!(service.is_running().await.unwrap());
        let (mut one, mut two) = (service.follow("/one"), service.follow("/two"));
        emit(&owner, "/one").await;
        heard(&mut one).await;
        assert!(is_quiet(&mut two).await);
        // What a stranger says comes before the mark and is not heard of.
        emit(&stranger, "/one").await;
        // An answer to the stranger means that the bus has passed it on.
        stranger
            .call_method(
                Some("org.freedesktop.DBus"),
                "/org/freedesktop/DBus",
                Some("org.freedesktop.DBus"),
                "GetId",
                &(),
            )
            .await
            .unwrap();
        emit(&owner, "/two").await;
        heard(&mut two).await;
        assert!(is_quiet(&mut one).await);
        emit(&owner, "/all").await;
        heard(&mut one).await;
        heard(&mut two).await;
    });
}

#[test]
fn when_the_bus_or_the_service_restarts_everybody_hears_of_it_and_events_go_on() {
    with_own_bus("inside_restart");
}

#[test]
#[ignore = "started by when_the_bus_or_the_service_restarts_everybody_hears_of_it_and_events_go_on"]
fn inside_restart() {
    if !test_env::inside() {
        return;
    }
    in_runtime(async {
        // Before there is a bus, the reason is told.
        let service = BusService::of(Bus::Session, SERVICE);
        assert!(matches!(service.ready().await, Err(BusError::Unreachable { bus: Bus::Session, .. })));
        let daemon = Daemon::start();
        tokio::time::timeout(EVENT_TIMEOUT, service.connected()).await.expect("it connects by itself");
        let mut followed = service.follow(PATH);
        for _ in 0..2 {
            service.ready().await.unwrap();
            let mut signals = service.signals();
            let owner = connection(Some(NAME)).await;
            heard(&mut followed).await;
            tokio::time::timeout(EVENT_TIMEOUT, service.connected()).await.unwrap();
            while !is_quiet(&mut followed).await {}
            emit(&owner, PATH).await;
            heard(&mut followed).await;
            let signal = tokio::time::timeout(EVENT_TIMEOUT, signals.next()).await.unwrap();
            assert!(signal.is_ok(), "whoever listened before it started hears all of it");
            drop(owner);
            let gone = tokio::time::timeout(EVENT_TIMEOUT, signals.next()).await.unwrap();
            assert!(matches!(gone, Err(BusError::Gone(_))), "{gone:?}");
            // It has gone: what it did meanwhile has to be looked at.
            heard(&mut followed).await;
        }
        drop(daemon);
        let daemon = Daemon::start();
        heard(&mut followed).await;
        tokio::time::timeout(EVENT_TIMEOUT, service.connected()).await.unwrap();
        assert!(daemon.rules() > 0);
        assert!(!service.is_running().await.unwrap());
        // A bus that stays away is an error, once; then its return is an event.
        while !is_quiet(&mut followed).await {}
        drop(daemon);
        let away = loop {
            match tokio::time::timeout(EVENT_TIMEOUT, followed.next()).await.expect("the error") {
                Ok(()) => {}
                Err(error) => break error,
            }
        };
        assert!(away.is_away(), "{away}");
        assert!(is_quiet(&mut followed).await);
        let _daemon = Daemon::start();
        heard(&mut followed).await;
    });
}

#[test]
fn a_call_that_is_not_answered_ends_with_its_limit() {
    with_own_bus("inside_late");
}

#[test]
#[ignore = "started by a_call_that_is_not_answered_ends_with_its_limit"]
fn inside_late() {
    if !test_env::inside() {
        return;
    }
    let daemon = Daemon::start();
    in_runtime(async {
        let service = BusService::of(Bus::Session, SERVICE);
        let call = |limit| service.call_within::<_, ()>(limit, PATH, NAME, "Method", &());
        let refused = call(EVENT_TIMEOUT).await.unwrap_err();
        assert!(
            matches!(&refused, BusError::Refused { name, .. } if name.contains("ServiceUnknown")),
            "{refused}"
        );
        // It is there, and says nothing to calls.
        let owner = connection(Some(NAME)).await;
        until("it has its name", || daemon.ask("org.freedesktop.DBus.ListNames").contains(NAME)).await;
        service.connected().await;
        let late = call(Duration::from_secs(1)).await;
        drop(owner);
        assert!(matches!(late, Err(BusError::Late { seconds: 1, .. })), "{late:?}");
    });
}
