//! Real etcd servers for tests, on free ports of this host, with their data in a temporary directory.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use mgmt_store::{Batch, Commit, Condition, Effect, Entry, LeaseId, Span, Store, Transaction, Watch};
use mgmt_store_etcd::{Etcd, EtcdSettings, EtcdTls};
use tempfile::TempDir;

/// The longest that anything here is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of real servers. They end with it.
pub(crate) struct Cluster {
    directory: TempDir,
    tls: bool,
    more: Vec<String>,
    pub(crate) members: Vec<Server>,
}

/// One server, which may be down.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) client_url: String,
    pub(crate) peer_url: String,
    health: u16,
    child: Option<Child>,
}

impl Cluster {
    /// Starts servers and waits until they have a leader.
    pub(crate) fn start(count: usize) -> Cluster {
        Self::start_with(count, false, &[])
    }

    /// Starts one server that speaks to those alone who have a certificate.
    pub(crate) fn start_with_tls() -> Cluster {
        Self::start_with(1, true, &[])
    }

    /// Starts one server with more arguments.
    pub(crate) fn start_one_with(more: &[&str]) -> Cluster {
        Self::start_with(1, false, more)
    }

    fn start_with(count: usize, tls: bool, more: &[&str]) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        if tls {
            make_certificates(directory.path());
        }
        let scheme = if tls { "https" } else { "http" };
        let members = (0..count)
            .map(|number| Server {
                name: format!("m{number}"),
                client_url: format!("{scheme}://127.0.0.1:{}", free_port()),
                peer_url: format!("http://127.0.0.1:{}", free_port()),
                health: free_port(),
                child: None,
            })
            .collect();
        let mut cluster =
            Cluster { directory, tls, more: more.iter().map(|&each| each.to_owned()).collect(), members };
        let initial = cluster.initial();
        for at in 0..count {
            cluster.spawn(at, &initial, "new");
        }
        for at in 0..count {
            cluster.wait_healthy(at);
        }
        cluster
    }

    fn initial(&self) -> String {
        let each = self.members.iter().map(|member| format!("{}={}", member.name, member.peer_url));
        each.collect::<Vec<_>>().join(",")
    }

    fn spawn(&mut self, at: usize, initial: &str, state: &str) {
        let member = &self.members[at];
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.directory.path().join(format!("{}.log", member.name)))
            .unwrap();
        let mut listen = member.client_url.clone();
        if !self.tls {
            // A socket in its working directory as well. It takes no name without a number, and one that is left from
            // before is in its way.
            let _gone = fs::remove_file(self.directory.path().join(format!("{}:0", member.name)));
            listen.push_str(&format!(",unix://{}:0", member.name));
        }
        // Nobody else would end it if the tests were killed.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "etcd"])
            .arg("--name")
            .arg(&member.name)
            .arg("--data-dir")
            .arg(self.directory.path().join(&member.name))
            .args(["--listen-client-urls", &listen, "--advertise-client-urls", &member.client_url])
            .args(["--listen-peer-urls", &member.peer_url, "--initial-advertise-peer-urls", &member.peer_url])
            .args(["--listen-metrics-urls", &format!("http://127.0.0.1:{}", member.health)])
            .args(["--initial-cluster", initial, "--initial-cluster-state", state])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(["--auth-token", "simple", "--logger", "zap"]);
        if self.tls {
            let file = |name: &str| self.directory.path().join(name);
            command
                .arg("--cert-file")
                .arg(file("server.pem"))
                .arg("--key-file")
                .arg(file("server.key"))
                .arg("--trusted-ca-file")
                .arg(file("ca.pem"))
                .arg("--client-cert-auth");
        }
        command.args(&self.more).current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().expect("setpriv is missing: run `cargo xtask setup`");
        self.members[at].child = Some(child);
    }

    fn wait_healthy(&mut self, at: usize) {
        let end = Instant::now() + PATIENCE;
        while !is_healthy(self.members[at].health) {
            if let Some(status) = self.members[at].child.as_mut().unwrap().try_wait().unwrap() {
                panic!(
                    "etcd ended with {status} (if it is missing, run `cargo xtask setup`):\n{}",
                    self.log(at)
                );
            }
            assert!(Instant::now() < end, "etcd is not ready in time:\n{}", self.log(at));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self, at: usize) -> String {
        let path = self.directory.path().join(format!("{}.log", self.members[at].name));
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Makes a server that was added to the cluster before, and starts it.
    pub(crate) fn join(&mut self, peer_url: &str) -> usize {
        let at = self.members.len();
        self.members.push(Server {
            name: format!("m{at}"),
            client_url: format!("http://127.0.0.1:{}", free_port()),
            peer_url: peer_url.to_owned(),
            health: free_port(),
            child: None,
        });
        let initial = self.initial();
        self.spawn(at, &initial, "existing");
        at
    }

    /// Ends a server without a word.
    pub(crate) fn kill(&mut self, at: usize) {
        let mut child = self.members[at].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts a server again that was killed, with its data.
    pub(crate) fn restart(&mut self, at: usize) {
        let initial = self.initial();
        self.spawn(at, &initial, "existing");
    }

    /// Starts a server again, and waits until it has a leader.
    pub(crate) fn restart_and_wait(&mut self, at: usize) {
        self.restart(at);
        self.wait_healthy(at);
    }

    /// Starts a server again that was killed, without its data.
    pub(crate) fn replace(&mut self, at: usize) {
        fs::remove_dir_all(self.directory.path().join(&self.members[at].name)).unwrap();
        let initial = self.initial();
        self.spawn(at, &initial, "new");
        self.wait_healthy(at);
    }

    /// Stops a server in its tracks: its connections stay.
    pub(crate) fn pause(&self, at: usize) {
        self.signal(at, rustix::process::Signal::STOP);
    }

    /// Lets a paused server go on.
    pub(crate) fn resume(&self, at: usize) {
        self.signal(at, rustix::process::Signal::CONT);
    }

    fn signal(&self, at: usize, signal: rustix::process::Signal) {
        let child = self.members[at].child.as_ref().unwrap();
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client_url.clone()).collect()
    }

    /// Settings for this cluster, without patience.
    pub(crate) fn settings(&self) -> EtcdSettings {
        let mut settings = EtcdSettings::new(self.endpoints());
        if self.tls {
            let read = |name: &str| fs::read(self.directory.path().join(name)).unwrap();
            settings.tls = Some(EtcdTls {
                authorities: Some(read("ca.pem")),
                identity: Some((read("client.pem"), read("client.key"))),
                server_name: None,
            });
        }
        settings
    }

    pub(crate) fn connect(&self) -> Etcd {
        Etcd::connect(self.settings()).unwrap()
    }

    /// The address of a server's socket in the file system.
    pub(crate) fn socket(&self, at: usize) -> String {
        format!("unix://{}/{}:0", self.directory.path().display(), self.members[at].name)
    }

    /// Runs the client that comes with etcd.
    pub(crate) fn etcdctl(&self, args: &[&str]) -> String {
        let up = self.members.iter().filter(|member| member.child.is_some());
        let endpoints: Vec<&str> = up.map(|member| member.client_url.as_str()).collect();
        let file = |name: &str| self.directory.path().join(name);
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &endpoints.join(",")]);
        if self.tls {
            command
                .arg("--cacert")
                .arg(file("ca.pem"))
                .arg("--cert")
                .arg(file("client.pem"))
                .arg("--key")
                .arg(file("client.key"));
        }
        let output = command.args(args).output().expect("etcdctl is missing: run `cargo xtask setup`");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "etcdctl {args:?}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        said
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.members.iter_mut().filter_map(|member| member.child.take()) {
            let mut child = child;
            let _gone = child.kill();
            let _status = child.wait();
        }
    }
}

/// A port below those that the kernel gives to whoever asks for any, so that it is still free when a server comes back.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() * 97 % 12_000).unwrap();
    loop {
        let port = 20_000 + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn is_healthy(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let _set = stream.set_read_timeout(Some(Duration::from_secs(2)));
    if stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").is_err() {
        return false;
    }
    let mut answer = String::new();
    let _read = stream.read_to_string(&mut answer);
    answer.contains(r#""health":"true""#)
}

/// An authority, and what it vouches for: a server at 127.0.0.1, and a client.
fn make_certificates(directory: &Path) {
    let run = |args: &[&str]| {
        let output = Command::new("openssl").current_dir(directory).args(args).output();
        let output = output.expect("openssl is missing: run `cargo xtask setup`");
        assert!(output.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let extensions: PathBuf = directory.join("extensions");
    let text =
        "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n";
    fs::write(extensions, text).unwrap();
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let authority = ["-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2"];
    run(&[&["req", "-x509"][..], &curve, &authority].concat());
    for name in ["server", "client"] {
        let (key, request, certificate) =
            (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
        let asked = ["-keyout", &key, "-out", &request, "-subj", &format!("/CN={name}")];
        run(&[&["req", "-new"][..], &curve, &asked].concat());
        let given = ["-in", &request, "-out", &certificate, "-CA", "ca.pem", "-CAkey", "ca.key"];
        let more = ["-CAcreateserial", "-days", "2", "-extfile", "extensions"];
        run(&[&["x509", "-req"][..], &given, &more].concat());
    }
}

pub(crate) fn key(name: &str) -> Span {
    Span::Key(name.to_owned())
}

pub(crate) fn below(prefix: &str) -> Span {
    Span::Prefix(prefix.to_owned())
}

pub(crate) fn put(key: &str, value: &str) -> Effect {
    Effect::Put { key: key.to_owned(), value: value.as_bytes().to_vec(), lease: None }
}

pub(crate) fn put_with(key: &str, value: &str, lease: LeaseId) -> Effect {
    Effect::Put { key: key.to_owned(), value: value.as_bytes().to_vec(), lease: Some(lease) }
}

pub(crate) fn delete(key: &str) -> Effect {
    Effect::Delete(key.to_owned())
}

/// Makes changes, come what may.
pub(crate) async fn change(store: &dyn Store, effects: Vec<Effect>) -> Commit {
    let transaction = Transaction { effects, ..Transaction::default() };
    let commit = store.commit(transaction).await.unwrap();
    assert!(commit.done);
    commit
}

/// Makes changes that may be made twice, however long it takes.
pub(crate) async fn insist(store: &dyn Store, effects: Vec<Effect>) -> Commit {
    let end = Instant::now() + PATIENCE;
    loop {
        let transaction = Transaction { effects: effects.clone(), ..Transaction::default() };
        match store.commit(transaction).await {
            Ok(commit) => return commit,
            Err(error) if error.is_passing() && Instant::now() < end => {}
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) async fn holds(store: &dyn Store, condition: Condition) -> bool {
    let transaction = Transaction { conditions: vec![condition], ..Transaction::default() };
    store.commit(transaction).await.unwrap().done
}

pub(crate) async fn next(watch: &mut dyn Watch) -> Batch {
    tokio::time::timeout(PATIENCE, watch.next()).await.expect("no news in time").unwrap()
}

/// What a reader knows who believes all that it is told.
pub(crate) struct Mirror {
    watch: Box<dyn Watch>,
    pub(crate) entries: BTreeMap<String, Entry>,
    pub(crate) revision: u64,
    /// How often everything was told.
    pub(crate) wholes: usize,
}

impl Mirror {
    pub(crate) fn new(store: &dyn Store, span: Span) -> Mirror {
        Mirror { watch: store.watch(span), entries: BTreeMap::new(), revision: 0, wholes: 0 }
    }

    pub(crate) async fn step(&mut self) {
        let batch = next(self.watch.as_mut()).await;
        let names: Vec<&String> = batch.changes.iter().map(|(name, _)| name).collect();
        assert!(names.is_sorted_by(|one, other| one < other), "sorted, each once");
        if batch.whole {
            self.wholes += 1;
            self.entries.clear();
            assert!(batch.changes.iter().all(|(_, entry)| entry.is_some()));
        } else {
            assert!(batch.revision > self.revision, "changes come in order");
            assert!(!batch.changes.is_empty(), "no news are no news");
        }
        self.revision = batch.revision;
        for (name, entry) in batch.changes {
            match entry {
                Some(entry) => self.entries.insert(name, entry),
                None => self.entries.remove(&name),
            };
        }
    }

    pub(crate) async fn until(&mut self, reached: impl Fn(&Mirror) -> bool) {
        while !reached(self) {
            self.step().await;
        }
    }

    pub(crate) async fn until_value(&mut self, name: &str, value: &str) {
        self.until(|mirror| mirror.value(name) == Some(value.to_owned())).await;
    }

    pub(crate) fn value(&self, name: &str) -> Option<String> {
        self.entries.get(name).map(|entry| String::from_utf8_lossy(&entry.value).into_owned())
    }
}
