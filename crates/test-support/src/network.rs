//! Hosts with a network of their own: each is a network namespace, and a bridge in another one connects them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::{CommandOutput, mgmt};

/// A network, which goes with everything in it.
pub struct Network {
    name: String,
    hosts: Vec<String>,
}

impl Network {
    /// A network with so many places for hosts, numbered from 0.
    pub fn new(places: usize) -> Network {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("mg{}n{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut network = Network { name, hosts: Vec::new() };
        let hub = network.name.clone();
        ip(&["netns", "add", &hub]);
        network.hosts.push(hub.clone());
        ip(&["-n", &hub, "link", "add", "hub", "type", "bridge"]);
        ip(&["-n", &hub, "addr", "add", "10.77.0.1/24", "dev", "hub"]);
        ip(&["-n", &hub, "link", "set", "hub", "up"]);
        ip(&["-n", &hub, "link", "set", "lo", "up"]);
        for at in 0..places {
            let host = network.namespace(at);
            ip(&["netns", "add", &host]);
            network.hosts.push(host.clone());
            let port = port(at);
            ip(&[
                "link", "add", "eth0", "netns", &host, "type", "veth", "peer", "name", &port, "netns", &hub,
            ]);
            ip(&["-n", &hub, "link", "set", &port, "master", "hub", "up"]);
            let address = format!("{}/24", address(at));
            ip(&["-n", &host, "addr", "add", &address, "dev", "eth0"]);
            ip(&["-n", &host, "link", "set", "eth0", "up"]);
            ip(&["-n", &host, "link", "set", "lo", "up"]);
        }
        network
    }

    fn namespace(&self, at: usize) -> String {
        format!("{}h{at}", self.name)
    }

    /// The program on a host.
    pub fn mgmt(&self, at: usize, arguments: &[&str]) -> Command {
        inside(&self.namespace(at), arguments)
    }

    /// Does something to the network of a host, as `ip` does.
    pub fn ip(&self, at: usize, arguments: &[&str]) {
        let host = self.namespace(at);
        ip(&[&["-n", &host], arguments].concat());
    }

    /// Moves this thread into the network of a host, for good.
    pub fn enter(&self, at: usize) {
        use std::os::fd::AsFd as _;
        let space = std::fs::File::open(Path::new("/run/netns").join(self.namespace(at))).unwrap();
        let kind = rustix::thread::LinkNameSpaceType::Network;
        rustix::thread::move_into_link_name_space(space.as_fd(), Some(kind)).unwrap();
    }

    /// Any program in the middle of the network.
    pub fn in_the_middle(&self, program: &str) -> Command {
        let mut command = Command::new("/usr/bin/nsenter");
        command.arg(format!("--net=/run/netns/{}", self.name)).arg(program);
        command
    }

    /// Runs the program to its end in the middle of the network.
    pub fn said(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = inside(&self.name, arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap().into()
    }

    /// Cuts a host off: what it sends is lost, and what is sent to it.
    pub fn cut(&self, at: usize) {
        ip(&["-n", &self.name, "link", "set", &port(at), "nomaster"]);
    }

    /// Connects a host again.
    pub fn heal(&self, at: usize) {
        ip(&["-n", &self.name, "link", "set", &port(at), "master", "hub"]);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in self.hosts.drain(..) {
            let _ = Command::new("ip").args(["netns", "del", &host]).status();
        }
    }
}

/// The address of a host.
pub fn address(at: usize) -> String {
    format!("10.77.0.{}", 11 + at)
}

fn port(at: usize) -> String {
    format!("h{at}")
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("ip is missing: run `cargo xtask setup`");
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The program in a namespace. `nsenter` becomes it, so it is the child itself.
fn inside(namespace: &str, arguments: &[&str]) -> Command {
    let plain = mgmt(arguments);
    let mut command = Command::new("/usr/bin/nsenter");
    command.arg(format!("--net=/run/netns/{namespace}")).arg(plain.get_program()).args(plain.get_args());
    command.env_clear().stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
}

/// A directory as text.
pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A program that calls itself etcd and never serves.
pub fn idle_etcd(directory: &Path) -> PathBuf {
    other_etcd(directory, "3.4.0")
}

/// The same, of any version.
pub fn other_etcd(directory: &Path, version: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = directory.join("etcd");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo 'etcd Version: {version}'; exit 0; }}\nexec sleep 1000\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    directory.to_owned()
}

/// An authority, and a certificate for all places of a network: the flags that name them.
pub fn certificates(directory: &Path, places: usize) -> Vec<String> {
    certificates_for(directory, &(0..places).map(address).collect::<Vec<_>>())
}

/// The same, for these addresses.
pub fn certificates_for(directory: &Path, addresses: &[String]) -> Vec<String> {
    let run = |arguments: &[&str]| {
        let output = Command::new("openssl").current_dir(directory).args(arguments).output();
        let output = output.expect("openssl is missing: run `cargo xtask setup`");
        assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
    };
    let names: Vec<String> = addresses.iter().map(|address| format!("IP:{address}")).collect();
    let extensions = format!(
        "subjectAltName={}\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n",
        names.join(",")
    );
    std::fs::write(directory.join("extensions"), extensions).unwrap();
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let authority = ["-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2"];
    run(&[&["req", "-x509"][..], &curve, &authority].concat());
    let asked = ["-keyout", "host.key", "-out", "host.csr", "-subj", "/CN=host"];
    run(&[&["req", "-new"][..], &curve, &asked].concat());
    let given = ["-in", "host.csr", "-out", "host.pem", "-CA", "ca.pem", "-CAkey", "ca.key"];
    let more = ["-CAcreateserial", "-days", "2", "-extfile", "extensions"];
    run(&[&["x509", "-req"][..], &given, &more].concat());
    let file = |name: &str| text(&directory.join(name));
    ["--seeds-ca", &file("ca.pem"), "--seeds-cert", &file("host.pem"), "--seeds-key", &file("host.key")]
        .map(str::to_owned)
        .to_vec()
}
