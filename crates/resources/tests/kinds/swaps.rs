//! Ten thousand graphs, one after the other: nothing is left of those that have gone, whatever kind of resource was in them.
//!
//! Ten thousand each for kinds that need nothing but files and sockets, for those that need a host of their own, and for those that
//! need one that was booted.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use mgmt_test_support::booted_host;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::host_common::{engine_common, on_own_host, shell};
use mgmt_engine::{EngineEvent, Level, Preparation};
use mgmt_resource::{Meta, ProgramFile, ProgramFiles, Resource, ResourceGraph, Spec};
use mgmt_resources::KINDS;
use mgmt_resources::augeas::{Augeas, AugeasSet};
use mgmt_resources::cron::Cron;
use mgmt_resources::crontab::Crontab;
use mgmt_resources::debconf::Debconf;
use mgmt_resources::deploy_tar::DeployTar;
use mgmt_resources::exec::Exec;
use mgmt_resources::exit::Exit;
use mgmt_resources::file::File;
use mgmt_resources::firewalld::Firewalld;
use mgmt_resources::group::Group;
use mgmt_resources::gsettings::Gsettings;
use mgmt_resources::gzip::Gzip;
use mgmt_resources::host::Host;
use mgmt_resources::hostname::Hostname;
use mgmt_resources::http::{
    HttpServer, HttpServerFile, HttpServerFlag, HttpServerProxy, HttpServerUi, HttpServerUiInput,
};
use mgmt_resources::ini::Ini;
use mgmt_resources::json_edit::JsonEdit;
use mgmt_resources::kv::Kv;
use mgmt_resources::line::Line;
use mgmt_resources::mount::Mount;
use mgmt_resources::msg::Msg;
use mgmt_resources::net::Net;
use mgmt_resources::noop::Noop;
use mgmt_resources::nspawn::Nspawn;
use mgmt_resources::panic::Panic;
use mgmt_resources::password::Password;
use mgmt_resources::pippet::Pippet;
use mgmt_resources::pkg::Pkg;
use mgmt_resources::print::Print;
use mgmt_resources::remote::Remote;
use mgmt_resources::schedule::Schedule;
use mgmt_resources::ssh_authorized_key::SshAuthorizedKey;
use mgmt_resources::ssh_known_host::SshKnownHost;
use mgmt_resources::svc::Svc;
use mgmt_resources::sysctl::Sysctl;
use mgmt_resources::tar::Tar;
use mgmt_resources::test::Test;
use mgmt_resources::tidy::Tidy;
use mgmt_resources::timer::Timer;
use mgmt_resources::user::User;
use mgmt_resources::value::Value as Kept;
use mgmt_test_support::booted_host::on_booted_host;
use mgmt_value::{Str, Value};
use tokio::sync::{Mutex, MutexGuard};

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

/// They count what the whole process holds.
async fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::const_new(());
    ONE.lock().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_ten_thousand_graphs() {
    let _alone = alone().await;
    let directory = tempfile::tempdir().unwrap();
    let work = directory.path().join("work");
    fs::create_dir_all(work.join("tree")).unwrap();
    fs::write(work.join("settings.json"), "{}\n").unwrap();
    let port = mgmt_test_support::address::reserved_port();
    leaves_nothing(10_000, directory.path(), &["value", "password", "server"], || anywhere(&work, port))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_ten_thousand_graphs_of_accounts_networks_mounts_and_packages() {
    let _alone = alone().await;
    let name = "nothing_is_left_of_ten_thousand_graphs_of_accounts_networks_mounts_and_packages";
    if !tokio::task::block_in_place(|| on_own_host(name)) {
        return;
    }
    shell("ip link set lo up; ip link add test0 type veth peer name test1; ip link set test1 up");
    shell("mkdir -p /etc/systemd/network /mnt/memory; : >/etc/fstab");
    let directory = tempfile::tempdir().unwrap();
    leaves_nothing(10_000, directory.path(), &["printer", "test0"], of_a_host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_ten_thousand_graphs_of_services() {
    let _alone = alone().await;
    let name = "nothing_is_left_of_ten_thousand_graphs_of_services";
    if !tokio::task::block_in_place(|| on_booted_host(name)) {
        return;
    }
    let unit = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";
    for name in ["demo", "nightly"] {
        fs::write(format!("/etc/systemd/system/{name}.service"), unit).unwrap();
    }
    shell("systemctl daemon-reload; mkdir -p /mnt/memory; : >/etc/fstab");
    let schema = "<schemalist><schema id='org.example.demo' path='/org/example/demo/'><key name='size' type='i'>\
                  <default>1</default></key></schema></schemalist>";
    fs::write("/usr/share/glib-2.0/schemas/org.example.demo.gschema.xml", schema).unwrap();
    shell("glib-compile-schemas /usr/share/glib-2.0/schemas; systemctl start firewalld");
    let directory = tempfile::tempdir().unwrap();
    leaves_nothing(10_000, directory.path(), &["other"], of_systemd).await;
}

/// Each of them starts a process, and most are taken away while it runs.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_ten_thousand_graphs_of_augeas() {
    let _alone = alone().await;
    let directory = tempfile::tempdir().unwrap();
    let path = Str::from(directory.path().join("hosts").to_str().unwrap());
    leaves_nothing(10_000, directory.path(), &["stays"], || of_augeas(path.clone())).await;
}

fn of_augeas(path: Str) -> Vec<Spec> {
    let set = |path: &str, value: &str| AugeasSet { path: path.into(), value: value.into() };
    let sets = vec![set("1/ipaddr", "::1"), set("1/canonical", "localhost")];
    let augeas = Augeas { lens: "Hosts.lns".into(), sets, ..Augeas::default() };
    vec![spec("stays", Noop::default()), spec(path, augeas)]
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_ten_thousand_graphs_of_puppet() {
    let _alone = alone().await;
    let directory = tempfile::tempdir().unwrap();
    leaves_nothing(10_000, directory.path(), &["stays"], || of_puppet(directory.path())).await;
}

/// The first keeps the process that they share. Puppet has no events, so there is a file to show what is counted.
fn of_puppet(directory: &Path) -> Vec<Spec> {
    let notice = |name: &str| {
        let pippet = Pippet { r#type: "notify".into(), title: name.into(), ..Pippet::default() };
        spec(name, pippet)
    };
    let file = Str::from(directory.join("file").to_str().unwrap());
    vec![notice("stays"), notice("comes"), spec(file, File { state: "exists".into(), ..File::default() })]
}

#[test]
fn every_kind_is_in_one_of_the_graphs() {
    let specs = anywhere(Path::new("/"), 1).into_iter().chain(of_a_host()).chain(of_systemd());
    let specs = specs.chain(of_puppet(Path::new("/"))).chain(of_augeas("/etc/hosts".into()));
    let there: BTreeSet<&str> = specs.map(|spec| spec.id.kind).collect();
    let missing: Vec<_> =
        KINDS.schemas().map(|schema| schema.kind).filter(|kind| !there.contains(kind)).collect();
    assert_eq!(missing, [""; 0], "add them to one of the graphs in this file");
}

fn spec(name: impl Into<Str>, resource: impl Resource) -> Spec {
    Spec::new(name, resource)
}

/// A resource that does nothing but look: what it would start is not ours to start thousands of times.
fn only_looking(mut spec: Spec) -> Spec {
    spec.meta = Meta { noop: true, ..Meta::default() }.into();
    spec
}

/// One of every kind that can run anywhere, so that each of their sources of events is opened.
fn anywhere(directory: &Path, port: u16) -> Vec<Spec> {
    let at = |name: &str| Str::from(directory.join(name).to_str().unwrap());
    let exists = || Str::from("exists");
    let file = || File { state: exists(), ..File::default() };
    let server = HttpServer { address: format!("127.0.0.1:{port}").into(), ..HttpServer::default() };
    vec![
        spec("noop", Noop::default()),
        spec("_panic", Panic),
        spec("print", Print { msg: "text".into(), ..Print::default() }),
        spec("test", Test::default()),
        spec("value", Kept { any: Some(Value::Int(1)) }),
        spec("timer", Timer { interval: 3600 }),
        spec(at("nowhere"), Tidy { age: Some(3600), recurse: true, ..Tidy::default() }),
        spec("kv", Kv { value: Some("text".into()), ..Kv::default() }),
        spec("mapped", Kv { value: Some("text".into()), mapped: true, ..Kv::default() }),
        spec("schedule", Schedule::default()),
        only_looking(spec("127.0.0.1:1", Remote::default())),
        spec("exit", Exit::default()),
        spec("msg", Msg { body: "text".into(), priority: "Info".into(), ..Msg::default() }),
        spec("password", Password { saved: true, ..Password::default() }),
        spec(at("file"), File { content: Some("text".into()), ..file() }),
        spec(at("tree/"), File { recurse: true, ..file() }),
        spec(at("copy.gz"), Gzip { input: Some(at("file")), ..Gzip::default() }),
        spec(at("tree.tar"), Tar { inputs: vec![at("tree")], ..Tar::default() }),
        spec(at("program.tar"), DeployTar::default()),
        spec(at("settings.json"), JsonEdit { edits: vec![".a = 1".into()], ..JsonEdit::default() }),
        spec(
            "ini",
            Ini {
                file: at("a.ini"),
                state: exists(),
                setting: "a".into(),
                value: Some("1".into()),
                ..Ini::default()
            },
        ),
        spec(
            "line",
            Line { file: at("lines"), state: exists(), content: "a line".into(), ..Line::default() },
        ),
        spec("host", Host { state: exists(), ip: "192.0.2.7".into(), file: at("hosts"), ..Host::default() }),
        spec(
            "key",
            SshAuthorizedKey {
                state: exists(),
                content: KEY.into(),
                file: at("keys"),
                ..SshAuthorizedKey::default()
            },
        ),
        spec(
            "exec",
            Exec {
                cmd: "/bin/true".into(),
                ifcmd: "/bin/false".into(),
                watchcmd: "/bin/sleep 3600".into(),
                watchfiles: vec![at("watched")],
                ..Exec::default()
            },
        ),
        spec("server", server),
        spec("/text", HttpServerFile { data: "text".into(), ..HttpServerFile::default() }),
        spec("/file", HttpServerFile { path: at("file"), ..HttpServerFile::default() }),
        spec("/flag", HttpServerFlag::default()),
        spec("/proxy/", HttpServerProxy { cache: at("cache/"), ..HttpServerProxy::default() }),
        spec("/page/", HttpServerUi { server: "server".into(), ..HttpServerUi::default() }),
        spec("world", HttpServerUiInput { store: "world://".into(), ..HttpServerUiInput::default() }),
        spec("local", HttpServerUiInput { store: "local://".into(), ..HttpServerUiInput::default() }),
    ]
}

/// What would change this machine.
fn of_a_host() -> Vec<Spec> {
    let exists = || Str::from("exists");
    let net = Net {
        state: "up".into(),
        addrs: Some(vec!["192.0.2.1/24".into()]),
        gateway: Str::EMPTY,
        ip_forward: Some(true),
    };
    let joe = User {
        state: exists(),
        groups: Some(vec!["crew".into()]),
        homedir: Some("/home/joe/".into()),
        createhome: true,
        ..User::default()
    };
    let memory =
        Mount { state: exists(), device: "memory".into(), r#type: "tmpfs".into(), ..Mount::default() };
    vec![
        spec("crew", Group { state: exists(), ..Group::default() }),
        spec(
            "known",
            SshKnownHost {
                state: exists(),
                r#type: "ssh-ed25519".into(),
                key: "AAAA".into(),
                file: "/mnt/known".into(),
                ..SshKnownHost::default()
            },
        ),
        spec(
            "nightly",
            Crontab {
                state: exists(),
                command: "true".into(),
                file: "/mnt/table".into(),
                ..Crontab::default()
            },
        ),
        spec(
            "mgmt-test/question",
            Debconf {
                state: exists(),
                r#type: "string".into(),
                value: Some("x".into()),
                ..Debconf::default()
            },
        ),
        spec("joe", joe),
        spec(
            "key",
            SshAuthorizedKey {
                state: exists(),
                content: KEY.into(),
                user: "joe".into(),
                ..SshAuthorizedKey::default()
            },
        ),
        spec(
            "/home/file",
            File { owner: "joe".into(), group: "crew".into(), state: exists(), ..File::default() },
        ),
        spec("sea", Hostname::default()),
        spec("printer", Host { state: exists(), ip: "192.0.2.7".into(), ..Host::default() }),
        spec("net.ipv4.ip_default_ttl", Sysctl { value: "65".into(), ..Sysctl::default() }),
        spec("test0", net),
        spec("/mnt/memory", memory),
        spec("bash", Pkg { state: "installed".into(), ..Pkg::default() }),
    ]
}

/// What is done through the message bus.
fn of_systemd() -> Vec<Spec> {
    let cron = Cron {
        state: "exists".into(),
        trigger: "OnCalendar".into(),
        time: "*-*-* 00:00:00".into(),
        ..Cron::default()
    };
    vec![
        spec("demo", Svc { state: "running".into(), startup: "enabled".into(), ..Svc::default() }),
        spec("other", Svc { state: "stopped".into(), ..Svc::default() }),
        spec("nightly", cron),
        spec("web", Firewalld { ports: vec!["8080/tcp".into()], ..Firewalld::default() }),
        spec("org.example.demo size", Gsettings { value: Some(Value::Int(5)), ..Gsettings::default() }),
        spec("no-such-machine", Nspawn { state: "stopped".into() }),
        spec("sea", Hostname::default()),
        spec(
            "said",
            Msg {
                body: "text".into(),
                priority: "Info".into(),
                journal: true,
                syslog: true,
                ..Msg::default()
            },
        ),
    ]
}

/// A program whose files are in none.
struct NoFiles;

impl ProgramFiles for NoFiles {
    fn list(&self) -> std::io::Result<Vec<ProgramFile>> {
        Ok(Vec::new())
    }
    fn read(&self, _: &Path, _: &mut dyn FnMut(&[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
        Ok(())
    }
    fn places(&self) -> Vec<PathBuf> {
        vec!["/no/such/place".into()]
    }
}

/// What a process can run out of.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    inotify_watches: usize,
    threads: usize,
    tasks: usize,
    children: usize,
    /// Of all who use the message bus, if there is one.
    match_rules: usize,
}

impl Held {
    fn now() -> Held {
        let count = |directory: &str| fs::read_dir(directory).unwrap().count();
        let watches = |name: fs::DirEntry| {
            let info =
                fs::read_to_string(Path::new("/proc/self/fdinfo").join(name.file_name())).unwrap_or_default();
            info.lines().filter(|line| line.starts_with("inotify ")).count()
        };
        let children = fs::read_dir("/proc/self/task").unwrap().map(|task| {
            let list = fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
            list.split_whitespace().count()
        });
        Held {
            descriptors: count("/proc/self/fd"),
            inotify_watches: fs::read_dir("/proc/self/fd")
                .unwrap()
                .map(|entry| watches(entry.unwrap()))
                .sum(),
            threads: count("/proc/self/task"),
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
            children: children.sum(),
            match_rules: match_rules(),
        }
    }

    fn is_within(&self, other: &Held) -> bool {
        let all = |held: &Held| {
            let Held { descriptors, inotify_watches, threads, tasks, children, match_rules } = *held;
            [descriptors, inotify_watches, threads, tasks, children, match_rules]
        };
        all(self).iter().zip(all(other)).all(|(own, other)| *own <= other)
    }

    /// What is held when nothing changes any more: what was taken away may need a moment to go.
    async fn at_rest() -> Held {
        let end = Instant::now() + Duration::from_secs(30);
        let mut last = Held::now();
        let mut same = 0;
        while same < 20 && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let now = Held::now();
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
        last
    }
}

/// How many there are on the bus of this host, or none.
fn match_rules() -> usize {
    if !has_bus() {
        return 0;
    }
    let shown = booted_host::run(
        "busctl",
        &[
            "call",
            "org.freedesktop.DBus",
            "/org/freedesktop/DBus",
            "org.freedesktop.DBus.Debug.Stats",
            "GetAllMatchRules",
        ],
    );
    shown.matches("\"type=").count()
}

fn has_bus() -> bool {
    Path::new("/run/dbus/system_bus_socket").exists()
}

/// Declares all of this and then nothing, again and again. Some stay all the time, so that what all of a kind have in common
/// does not end and take along what would have stayed behind.
async fn leaves_nothing(swaps: usize, directory: &Path, stay: &[&str], specs: impl Fn() -> Vec<Spec>) {
    let (host, engine, mut events) = engine_common::start(directory, Preparation::default());
    host.program_files.send_replace(Some(Arc::new(NoFiles)));
    let graph = |all: bool| {
        let mut graph = ResourceGraph::new();
        for spec in specs() {
            if all || stay.contains(&&*spec.id.name.to_text()) {
                graph.add_node(spec);
            }
        }
        assert_eq!(graph.node_count() == stay.len(), !all);
        graph
    };
    let (mut before, mut busy) = (None, None);
    for swap in 0..swaps / 2 {
        engine.swap(graph(true)).await.unwrap();
        // Some run to their end, others are taken away at once.
        if swap % 50 == 0 {
            loop {
                match events.recv().await.unwrap() {
                    EngineEvent::Converged => break,
                    EngineEvent::Failed { id, message } => panic!("{id}: {message}"),
                    _ => {}
                }
            }
            busy = Some(Held::now());
        }
        engine.swap(graph(false)).await.unwrap();
        if swap == 100 {
            before = Some(Held::at_rest().await);
        }
        while events.try_recv().is_ok() {}
    }
    let (before, busy) = (before.unwrap(), busy.unwrap());
    assert!(!busy.is_within(&before), "{busy:?} says nothing about what is let go");
    assert!(busy.match_rules > before.match_rules || !has_bus(), "{busy:?}, and then {before:?}");
    // Threads that have nothing to do go after a while.
    let end = Instant::now() + Duration::from_secs(60);
    while !Held::now().is_within(&before) {
        assert!(Instant::now() < end, "{:?} at the end, {before:?} at the beginning", Held::now());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    engine.stop(Level::Graceful);
    tokio::task::block_in_place(|| engine.wait());
}
