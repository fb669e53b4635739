//! Real etcd servers for tests, on free ports of this host, with their data in a temporary directory.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The longest that anything here is waited for.
pub const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster of real servers. They end with it.
pub struct EtcdCluster {
    directory: TempDir,
    tls: bool,
    more: Vec<String>,
    /// The servers, in the order in which they were started first.
    pub members: Vec<Server>,
}

/// One server, which may be down.
pub struct Server {
    /// The member name.
    pub name: String,
    /// The URL for clients.
    pub client_url: String,
    /// The URL for other servers.
    pub peer_url: String,
    health: u16,
    child: Option<Child>,
}

impl EtcdCluster {
    /// Starts servers and waits until they have a leader.
    pub fn start(count: usize) -> EtcdCluster {
        Self::start_with(count, false, &[])
    }

    /// Starts one server that speaks to those alone who have a certificate.
    pub fn start_with_tls() -> EtcdCluster {
        Self::start_with(1, true, &[])
    }

    /// Starts one server with more arguments.
    pub fn start_one_with(more: &[&str]) -> EtcdCluster {
        Self::start_with(1, false, more)
    }

    fn start_with(count: usize, tls: bool, more: &[&str]) -> EtcdCluster {
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
            EtcdCluster { directory, tls, more: more.iter().map(|&each| each.to_owned()).collect(), members };
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
        let end = Instant::now() + START_TIMEOUT;
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
    pub fn join(&mut self, peer_url: &str) -> usize {
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
    pub fn kill(&mut self, at: usize) {
        let mut child = self.members[at].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts a server again that was killed, with its data.
    pub fn restart(&mut self, at: usize) {
        let initial = self.initial();
        self.spawn(at, &initial, "existing");
    }

    /// Starts a server again, and waits until it has a leader.
    pub fn restart_and_wait(&mut self, at: usize) {
        self.restart(at);
        self.wait_healthy(at);
    }

    /// Starts a server again that was killed, without its data.
    pub fn replace(&mut self, at: usize) {
        fs::remove_dir_all(self.directory.path().join(&self.members[at].name)).unwrap();
        let initial = self.initial();
        self.spawn(at, &initial, "new");
        self.wait_healthy(at);
    }

    /// Stops a server in its tracks: its connections stay.
    pub fn pause(&self, at: usize) {
        self.signal(at, rustix::process::Signal::STOP);
    }

    /// Lets a paused server go on.
    pub fn resume(&self, at: usize) {
        self.signal(at, rustix::process::Signal::CONT);
    }

    fn signal(&self, at: usize, signal: rustix::process::Signal) {
        let child = self.members[at].child.as_ref().unwrap();
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// The client URLs of all servers.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client_url.clone()).collect()
    }

    /// Whether the servers speak to clients with a certificate alone.
    pub fn has_tls(&self) -> bool {
        self.tls
    }

    /// The directory with the data of all servers, their sockets and, with TLS, their certificates.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The address of a server's socket in the file system.
    pub fn socket(&self, at: usize) -> String {
        format!("unix://{}/{}:0", self.directory.path().display(), self.members[at].name)
    }

    /// Runs the client that comes with etcd.
    pub fn etcdctl(&self, args: &[&str]) -> String {
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

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for child in self.members.iter_mut().filter_map(|member| member.child.take()) {
            let mut child = child;
            let _gone = child.kill();
            let _status = child.wait();
        }
    }
}

/// A port below those that the kernel gives to whoever asks for any, so that it is still free when a server comes back.
pub fn free_port() -> u16 {
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
