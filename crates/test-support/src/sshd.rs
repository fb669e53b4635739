//! Hosts that can be logged in to: an sshd each, in namespaces of their own, with a key for whoever tests.
//!
//! A host has its own name, its own processes, which all end with it, its own accounts, and its own `/var/lib`, in which there also is
//! its directory for temporary files. Everything else is that of the machine. Besides root, who has a password, there is a user
//! `plain`, who is nobody special. Only such a host knows where `etcd1` is: on this machine.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::address::reserved_port;

/// The password of root.
pub const PASSWORD: &str = "open sesame";

/// Hosts, and what a client needs to log in to them.
pub struct Hosts {
    directory: TempDir,
    hosts: Vec<Sshd>,
}

/// One of them.
pub struct Sshd {
    /// The host name.
    pub name: String,
    /// The TCP port of its sshd.
    pub port: u16,
    /// Its `/var/lib`.
    pub state: PathBuf,
    /// Its public key.
    pub key: String,
    process: Child,
}

impl Hosts {
    /// Starts hosts with these names.
    pub fn start(names: &[&str]) -> Hosts {
        let directory = tempfile::Builder::new().prefix("mgmt-hosts-").tempdir().unwrap();
        // Users other than root have to find their key.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        keygen(&directory.path().join("id"));
        let mut hosts = Hosts { directory, hosts: Vec::new() };
        for name in names {
            let host = Sshd::start(name, hosts.directory.path());
            hosts.hosts.push(host);
        }
        let mut config = String::new();
        let mut known = String::new();
        for host in &hosts.hosts {
            config.push_str(&format!("Host {}\n  HostName 127.0.0.1\n  Port {}\n", host.name, host.port));
            known.push_str(&format!("[127.0.0.1]:{} {}\n", host.port, host.key));
        }
        config.push_str(&format!(
            "Host *\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n",
            hosts.identity().display(),
            hosts.directory.path().join("known_hosts").display()
        ));
        std::fs::write(hosts.config(), config).unwrap();
        std::fs::write(hosts.directory.path().join("known_hosts"), known).unwrap();
        hosts
    }

    /// The configuration of ssh in which they are known by their names.
    pub fn config(&self) -> PathBuf {
        self.directory.path().join("config")
    }

    /// The private key that they let in.
    pub fn identity(&self) -> PathBuf {
        self.directory.path().join("id")
    }

    /// The host of this name.
    pub fn host(&self, name: &str) -> &Sshd {
        self.hosts.iter().find(|host| host.name == name).unwrap()
    }

    /// A host is gone, with everything that runs there.
    pub fn kill(&mut self, name: &str) {
        let host = self.hosts.iter_mut().find(|host| host.name == name).unwrap();
        host.process.kill().unwrap();
        host.process.wait().unwrap();
    }

    /// It comes back.
    pub fn restart(&mut self, name: &str) {
        let host = self.hosts.iter_mut().find(|host| host.name == name).unwrap();
        host.process = spawn(&host.name, self.directory.path(), host.port);
    }

    /// Everybody's key is another from now on.
    pub fn forget_keys(&self) {
        std::fs::write(self.directory.path().join("known_hosts"), "").unwrap();
    }

    /// Runs a command there, to its end.
    pub fn run(&self, name: &str, command: &str) -> Output {
        let config = self.config();
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(config).args(["-o", "BatchMode=yes", "-l", "root", name, command]);
        ssh.stdin(Stdio::null()).output().unwrap()
    }

    /// What a command prints there.
    pub fn said(&self, name: &str, command: &str) -> String {
        String::from_utf8(self.run(name, command).stdout).unwrap()
    }

    /// What is left there of this program: processes, and files other than the cached program.
    pub fn residue(&self, name: &str) -> String {
        self.said(
            name,
            "ps -eo pid,args | grep -v grep | grep -e /mgmt-[0-9a-f] -e mgmt[.]; ls -A \"$TMPDIR\"; \
             find /var/lib/mgmt -name 'part.*' 2>/dev/null; true",
        )
    }
}

impl Sshd {
    fn start(name: &str, directory: &Path) -> Sshd {
        let own = directory.join(name);
        let state = own.join("lib");
        std::fs::create_dir_all(state.join("tmp")).unwrap();
        std::fs::set_permissions(state.join("tmp"), PermissionsExt::from_mode(0o1777)).unwrap();
        std::fs::create_dir_all(state.join("plain")).unwrap();
        chown(state.join("plain"), Some(4242), Some(4242)).unwrap();
        accounts(&own);
        keygen(&own.join("key"));
        let key = std::fs::read_to_string(own.join("key.pub")).unwrap();
        let key = key.split(' ').take(2).collect::<Vec<_>>().join(" ").trim().to_owned();
        let port = reserved_port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {own}/key\nPidFile none\nAuthorizedKeysFile {directory}/id.pub\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication yes\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nLogLevel ERROR\n\
             SetEnv TMPDIR=/var/lib/tmp\nMaxStartups 100\n",
            own = own.display(),
            directory = directory.display(),
        );
        std::fs::write(own.join("config"), config).unwrap();
        let process = spawn(name, directory, port);
        Sshd { name: name.to_owned(), port, state, key, process }
    }

    /// Where programs are kept.
    pub fn cache(&self) -> PathBuf {
        self.state.join("mgmt/remote")
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(name: &str, directory: &Path, port: u16) -> Child {
    let own = directory.join(name);
    let script = "mount --bind \"$1/lib\" /var/lib && mount --bind \"$1/passwd\" /etc/passwd && \
                  mount --bind \"$1/shadow\" /etc/shadow && mount --bind \"$1/hosts\" /etc/hosts && hostname \"$2\" && mkdir -p /run/sshd && \
                  exec \"$(command -v sshd)\" -D -e -f \"$1/config\"";
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--uts",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--",
        "sh",
        "-c",
        script,
        "sh",
    ]);
    command.arg(&own).arg(name).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    let mut child = command.spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let lines = std::thread::spawn(move || {
        BufReader::new(stderr).lines().map_while(Result::ok).collect::<Vec<_>>().join("\n")
    });
    let until = Instant::now() + Duration::from_secs(20);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if child.try_wait().unwrap().is_some() || Instant::now() > until {
            let _ = child.kill();
            panic!("sshd does not start: {}", lines.join().unwrap());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// Writes the files of accounts.
fn accounts(own: &Path) {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let perl = format!("print crypt(q({PASSWORD}), q($6$saltsalt$))");
    let hash = Command::new("perl").args(["-e", &perl]).output().unwrap();
    let hash = String::from_utf8(hash.stdout).unwrap();
    let others: Vec<_> =
        read("/etc/shadow").lines().filter(|line| !line.starts_with("root:")).map(str::to_owned).collect();
    let shadow =
        format!("root:{hash}:19000:0:99999:7:::\nplain:*:19000:0:99999:7:::\n{}\n", others.join("\n"));
    std::fs::write(own.join("shadow"), shadow).unwrap();
    std::fs::set_permissions(own.join("shadow"), PermissionsExt::from_mode(0o600)).unwrap();
    let passwd = format!("{}plain:x:4242:4242::/var/lib/plain:/bin/sh\n", read("/etc/passwd"));
    std::fs::write(own.join("passwd"), passwd).unwrap();
    let hosts = format!("{}\n127.0.0.1 etcd1\n", read("/etc/hosts"));
    std::fs::write(own.join("hosts"), hosts).unwrap();
}

fn keygen(path: &Path) {
    let made =
        Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status().unwrap();
    assert!(made.success());
}
