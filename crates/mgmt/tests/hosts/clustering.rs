//! Hosts that serve the store that they share: real programs, real servers, and a network that can be cut.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use mgmt_test_support::network;
use mgmt_test_support::program;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use mgmt_test_support::network::{Network, address};
use mgmt_test_support::program::{CommandOutput, EVENT_TIMEOUT, RunningProgram, eventually, holds};
use rustix::process::Signal;
use tempfile::TempDir;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Hosts in a network, each of which can be up or not.
struct TestEnv {
    directory: TempDir,
    network: Network,
    hosts: Vec<Option<RunningProgram>>,
    ideal: &'static str,
}

/// What `mgmt members list` says.
#[derive(Debug)]
struct Members {
    voters: BTreeSet<String>,
    ill: BTreeSet<String>,
    learners: usize,
    leader: Option<String>,
}

impl TestEnv {
    fn new(places: usize, ideal: &'static str) -> TestEnv {
        let hosts = (0..places).map(|_| None).collect();
        TestEnv { directory: tempfile::tempdir().unwrap(), network: Network::new(places), hosts, ideal }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn client(at: usize) -> String {
        format!("http://{}:2379", address(at))
    }

    fn command(&self, at: usize, front_end: &[&str]) -> Command {
        let prefix = network::text(&self.at(NAMES[at]));
        let server = format!("http://{}:2380", address(at));
        let seed = TestEnv::client(0);
        let mut flags = vec!["run", "--hostname", NAMES[at], "--prefix", &prefix, "--server-urls", &server];
        flags.extend(["--ideal-cluster-size", self.ideal]);
        if at > 0 {
            flags.extend(["--seeds", &seed]);
        }
        flags.extend(front_end);
        let mut command = self.network.mgmt(at, &flags);
        command.env("MGMT_CLUSTER_PACE", "quick");
        command
    }

    fn start(&mut self, at: usize) {
        self.start_with(at, &["empty"]);
    }

    fn start_with(&mut self, at: usize, front_end: &[&str]) {
        let command = self.command(at, front_end);
        self.hosts[at] = Some(RunningProgram::start_command(command));
    }

    /// Ends a host without a word. Its server goes with it.
    fn kill(&mut self, at: usize) {
        self.hosts[at] = None;
    }

    fn finish(&mut self, at: usize) {
        let run = self.hosts[at].take().unwrap();
        run.signal(Signal::INT);
        let (code, lines) = run.end();
        assert_eq!(code, Some(0), "{lines}");
    }

    fn said(&self, words: &[&str]) -> CommandOutput {
        let seeds: Vec<String> = (0..self.hosts.len()).map(TestEnv::client).collect();
        let seeds = seeds.join(",");
        let mut all = words.to_vec();
        all.extend(["--seeds", &seeds]);
        self.network.said(&all)
    }

    /// What the client of etcd says.
    fn etcd(&self, words: &[&str]) -> CommandOutput {
        let seed = TestEnv::client(0);
        let mut all = vec!["etcd", "--seeds", &seed];
        all.extend(words);
        self.network.said(&all)
    }

    fn members(&self) -> Option<Members> {
        let said = self.said(&["--message-format", "json", "members", "list"]);
        let json: serde_json::Value = serde_json::from_str(said.stdout.lines().next()?).ok()?;
        let list = json["members"].as_array()?;
        let names = |which: &dyn Fn(&serde_json::Value) -> bool| {
            let chosen = list.iter().filter(|member| which(member));
            chosen.map(|member| member["name"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
        };
        Some(Members {
            voters: names(&|member| member["votes"] == true),
            ill: names(&|member| member["healthy"] != true),
            learners: list.iter().filter(|member| member["votes"] != true).count(),
            leader: names(&|member| member["leads"] == true).first().cloned(),
        })
    }

    /// Waits for members that are as they should be, and gives them.
    fn until(&self, what: &str, is_so: impl Fn(&Members) -> bool) -> Members {
        let end = Instant::now() + EVENT_TIMEOUT;
        let mut last = None;
        loop {
            if let Some(members) = self.members() {
                if is_so(&members) {
                    return members;
                }
                last = Some(members);
            }
            if Instant::now() >= end {
                panic!("{what}: not within {EVENT_TIMEOUT:?}; last seen {last:?}\n{}", self.last_words());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// What the hosts and their servers have said last.
    fn last_words(&self) -> String {
        let mut words = String::new();
        for (name, host) in NAMES.iter().zip(&self.hosts) {
            let said = host.as_ref().map(RunningProgram::said).unwrap_or_default();
            let server = std::fs::read_to_string(self.at(name).join("cluster/etcd.log")).unwrap_or_default();
            for (who, text) in [("host", &said), ("server of", &server)] {
                let lines: Vec<&str> = text.lines().collect();
                words.push_str(&format!("---- {who} {name}\n"));
                for line in &lines[lines.len().saturating_sub(40)..] {
                    words.push_str(&format!("{line:.300}\n"));
                }
            }
        }
        let keys = self.etcd(&["get", "--prefix", "/mgmt/cluster/"]);
        format!("{words}---- keys\n{}{}", keys.stdout, keys.stderr)
    }

    fn settled(&self, size: usize) -> Members {
        self.until(&format!("{size} servers"), |members| {
            members.voters.len() == size
                && members.learners == 0
                && members.ill.is_empty()
                && members.leader.is_some()
        })
    }

    /// Waits until all servers say that they have the same data.
    fn agree(&self) {
        let number = |said: &CommandOutput, name: &str| -> Option<u64> {
            let (_, rest) = said.stdout.split_once(&format!("\"{name}\":"))?;
            rest.split(|digit: char| !digit.is_ascii_digit()).next()?.parse().ok()
        };
        let first = self.etcd(&["get", "/", "-w", "json"]);
        let revision = format!("--rev={}", number(&first, "revision").unwrap());
        eventually("all servers have the same data", || {
            let hashes = (0..self.hosts.len()).map(|at| {
                let words =
                    ["etcd", "--seeds", &TestEnv::client(at), "endpoint", "hashkv", &revision, "-w", "json"];
                number(&self.network.said(&words), "hash")
            });
            let hashes: Vec<Option<u64>> = hashes.collect();
            hashes.iter().all(|hash| hash.is_some() && *hash == hashes[0])
        });
    }

    fn deploy(&self, content: &str) {
        let text = format!(
            "$name = $hostname\nfile \"{}/out-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => \"{content}\",\n}}\n",
            self.directory.path().display()
        );
        let path = self.at("program.mcl");
        std::fs::write(&path, text).unwrap();
        let path = network::text(&path);
        let end = Instant::now() + EVENT_TIMEOUT;
        loop {
            let done = self.said(&["deploy", "--no-git", "lang", &path]);
            if done.code == 0 {
                return;
            }
            assert!(Instant::now() < end, "{}", done.stderr);
        }
    }

    fn runs(&self, at: usize, content: &str) {
        holds(&self.at(&format!("out-{}", NAMES[at])), content);
    }
}

fn number(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).unwrap()
}

/// Acceptance scenario 17.
#[test]
fn a_cluster_has_its_size_whatever_becomes_of_its_hosts() {
    let mut env = TestEnv::new(5, "3");
    for at in 0..5 {
        env.start(at);
    }
    let members = env.settled(3);
    assert!(members.voters.contains("a"), "the founder stays: {members:?}");
    env.deploy("first");
    for at in 0..5 {
        env.runs(at, "first");
    }

    // One is killed, and another takes its place.
    let leader = members.leader.clone().unwrap();
    let victim = members.voters.iter().find(|name| **name != leader).unwrap().clone();
    env.kill(number(&victim));
    let members = env.until("the killed one is replaced", |members| {
        members.voters.len() == 3 && !members.voters.contains(&victim) && members.ill.is_empty()
    });

    // The leader is cut off: another takes its place, and it goes on working meanwhile.
    let leader = members.leader.unwrap();
    env.network.cut(number(&leader));
    let out = env.at(&format!("out-{leader}"));
    std::fs::write(&out, "broken").unwrap();
    holds(&out, "first");
    env.until("the one that is cut off is replaced", |members| {
        members.voters.len() == 3 && !members.voters.contains(&leader) && members.ill.is_empty()
    });
    env.deploy("second");
    for at in (0..5).filter(|at| ![number(&victim), number(&leader)].contains(at)) {
        env.runs(at, "second");
    }
    holds(&out, "first");
    env.network.heal(number(&leader));
    holds(&out, "second");

    // All five, when all five shall.
    assert_eq!(env.said(&["members", "size", "5"]).code, 0);
    env.start(number(&victim));
    let members = env.settled(5);
    env.runs(number(&victim), "second");

    // And three again. The leader leaves, and hands its office on before.
    assert_eq!(env.said(&["members", "size", "3"]).code, 0);
    let before = env.settled(3);
    assert!(before.leader == members.leader, "those who lead stay: {members:?} {before:?}");
    let leader = before.leader.unwrap();
    env.finish(number(&leader));
    let after = env.settled(3);
    assert!(!after.voters.contains(&leader), "{after:?}");

    // One that shall not serve does not.
    let other = after.voters.iter().find(|name| after.leader.as_ref() != Some(*name)).unwrap().clone();
    let removed = env.said(&["members", "remove", &other]);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    env.until("the removed one is replaced", |members| {
        members.voters.len() == 3 && !members.voters.contains(&other) && members.ill.is_empty()
    });
    let status = env.said(&["status", "--format", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["servers"]["spares"][&other], "removed", "{status}");
    assert_eq!(status["hosts"][&other]["failed"], 0, "it still runs: {status}");
}

#[test]
fn a_host_that_never_starts_its_server_is_sent_back() {
    let mut env = TestEnv::new(3, "3");
    env.start(0);
    env.settled(1);
    let programs = network::idle_etcd(env.directory.path());
    let mut broken = env.command(1, &["empty"]);
    let path = std::env::var("PATH").unwrap();
    broken.env("PATH", format!("{}:{path}", programs.display()));
    env.hosts[1] = Some(RunningProgram::start_command(broken));
    env.start(2);
    env.until("the one that does not start is tried", |members| members.learners == 1);
    env.until("it is sent back", |members| members.learners == 0);
    // The store has worked all the time, and those that work are there.
    env.deploy("text");
    env.runs(0, "text");
    env.runs(2, "text");
    let failures = env.etcd(&["get", "/mgmt/cluster/failure/b"]);
    assert!(failures.stdout.contains("\"count\":"), "{failures:?}");
    let members = env.members().unwrap();
    assert!(!members.voters.contains("b"), "{members:?}");
}

#[test]
fn a_cluster_comes_back_with_all_it_had() {
    let mut env = TestEnv::new(3, "3");
    for at in 0..3 {
        env.start(at);
    }
    env.settled(3);
    env.deploy("kept");
    for at in 0..3 {
        env.runs(at, "kept");
    }
    // All at once, as when the power fails.
    for at in 0..3 {
        env.kill(at);
    }
    std::fs::remove_file(env.at("out-b")).unwrap();
    for at in 0..3 {
        env.start(at);
    }
    let members = env.settled(3);
    assert_eq!(members.voters.len(), 3);
    env.runs(1, "kept");
    // One that ends while nobody can take its place stays a member.
    env.finish(2);
    let members = env.members().unwrap();
    assert!(members.voters.contains("c") && members.ill.contains("c"), "{members:?}");
    env.start(2);
    env.settled(3);

    // One that has lost its data joins as another member.
    env.kill(1);
    std::fs::remove_dir_all(env.at("b/cluster/data")).unwrap();
    env.start(1);
    env.until("it is a member again", |members| {
        members.voters.contains("b") && members.voters.len() == 3 && members.ill.is_empty()
    });
    env.runs(1, "kept");

    // Two of three are lost for good. The third begins again with what it has.
    for at in 0..3 {
        env.kill(at);
    }
    for name in ["b", "c"] {
        std::fs::remove_dir_all(env.at(name)).unwrap();
        std::fs::remove_file(env.at(&format!("out-{name}"))).unwrap();
    }
    let recover =
        |name: &str| env.network.said(&["members", "recover", "--prefix", &network::text(&env.at(name))]);
    let recovered = recover("a");
    assert_eq!(recovered.code, 0, "{}", recovered.stderr);
    let nothing = recover("b");
    assert!(nothing.code == 1 && nothing.stderr.contains("no data of a server"), "{}", nothing.stderr);
    env.start(0);
    env.settled(1);
    let running = env.network.said(&["members", "recover", "--prefix", &network::text(&env.at("a"))]);
    assert_ne!(running.code, 0, "not while it runs");
    env.start(1);
    env.start(2);
    env.settled(3);
    env.agree();
    env.runs(1, "kept");
    env.runs(2, "kept");
}

/// The server of a run.
fn server_of(run: &RunningProgram) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.id())).ok();
    // It is a child of the thread that looks after it.
    let threads = std::fs::read_dir(format!("/proc/{}/task", run.id())).ok()?.flatten();
    let all = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let pids: Vec<u32> = children.into_iter().chain(all).flat_map(|text| numbers(&text)).collect::<Vec<_>>();
    pids.into_iter().find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "etcd")
    })
}

fn numbers(text: &str) -> Vec<u32> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn signal(pid: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn a_server_that_ends_is_started_again_and_one_that_is_full_is_given_room() {
    let mut env = TestEnv::new(1, "1");
    let mut command = env.command(0, &["empty"]);
    // History alone fills this.
    command.env("MGMT_CLUSTER_QUOTA", "4000000");
    env.hosts[0] = Some(RunningProgram::start_command(command));
    env.settled(1);
    env.deploy("first");
    env.runs(0, "first");
    let pid = server_of(env.hosts[0].as_ref().unwrap()).unwrap();
    signal(pid, Signal::KILL);
    env.hosts[0].as_mut().unwrap().wait_for("the server of the cluster has ended (killed by SIGKILL)");
    env.settled(1);
    let again = server_of(env.hosts[0].as_ref().unwrap()).unwrap();
    assert_ne!(pid, again);

    let large = "x".repeat(100_000);
    let full = (0..200).any(|_| {
        let put = env.etcd(&["put", "/large", &large]);
        put.code != 0 && put.stderr.contains("space exceeded")
    });
    assert!(full, "the quota counts");
    env.hosts[0].as_mut().unwrap().wait_for("making room");
    env.deploy("second");
    env.runs(0, "second");

    // However it ends, nobody is left behind.
    env.kill(0);
    program::eventually("the server ends with its host", || {
        std::fs::read_to_string(format!("/proc/{again}/stat")).map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn what_keeps_a_host_from_serving_is_told() {
    let mut env = TestEnv::new(1, "1");
    let without = |version: Option<&str>| {
        let programs = tempfile::tempdir().unwrap();
        if let Some(version) = version {
            network::other_etcd(programs.path(), version);
        }
        let mut command = env.command(0, &["empty"]);
        let said: CommandOutput = command.env("PATH", programs.path()).output().unwrap().into();
        assert_eq!(said.code, 1, "{}", said.stderr);
        said.stderr
    };
    let missing = without(None);
    assert!(missing.contains("`etcd` is not installed") && missing.contains("etcd-server"), "{missing}");
    let old = without(Some("3.3.27"));
    assert!(old.contains("is etcd 3.3.27") && old.contains("3.4"), "{old}");
    let odd = without(Some("none"));
    assert!(odd.contains("cannot find out which version"), "{odd}");

    // Acceptance scenario 2: the addresses are taken.
    env.start(0);
    env.settled(1);
    let prefix = network::text(&env.at("other"));
    let url = format!("http://{}:2380", address(0));
    let mut second =
        env.network.mgmt(0, &["run", "--hostname", "z", "--prefix", &prefix, "--server-urls", &url, "empty"]);
    let second: CommandOutput = second.output().unwrap().into();
    assert_eq!(second.code, 1, "{}", second.stderr);
    assert!(second.stderr.contains(&format!("listens at {url} already")), "{}", second.stderr);

    // Without any of the flags, nobody listens.
    let quiet = env.network.said(&["run", "--tmp-prefix", "-t", "0", "--ideal-cluster-size", "0", "empty"]);
    assert!(quiet.code == 2 && quiet.stderr.contains("at least 1"), "{}", quiet.stderr);
    let wrong = env.said(&["members", "remove", "nobody"]);
    assert!(wrong.code == 1 && wrong.stderr.contains("there is no host \"nobody\""), "{}", wrong.stderr);
    let last = env.said(&["members", "remove", "a"]);
    assert!(last.code == 1 && last.stderr.contains("the only host"), "{}", last.stderr);
    let size = env.said(&["members", "size", "many"]);
    assert_eq!(size.code, 2, "{}", size.stderr);

    // This host knows by itself where the servers are.
    let prefix = network::text(&env.at("a"));
    let known = env.network.said(&["members", "size", "--prefix", &prefix]);
    assert_eq!(known.stdout, "1\n", "{}", known.stderr);
    let listed = env.network.said(&["etcd", "--prefix", &prefix, "member", "list"]);
    assert!(listed.stdout.contains(", started, a, "), "{listed:?}");
    let status = env.network.said(&["status", "--prefix", &prefix]);
    assert!(status.stdout.ends_with("served by a (leads)\n"), "{status:?}");
    let mut command = env.network.mgmt(0, &["etcd", "--prefix", &prefix, "member", "list"]);
    let said: CommandOutput = command.env("PATH", "/nowhere").output().unwrap().into();
    assert!(said.code == 1 && said.stderr.contains("etcd-client"), "{said:?}");
}

#[test]
fn servers_with_certificates_serve_nobody_without_one() {
    let mut env = TestEnv::new(2, "1");
    let files = network::certificates(env.directory.path(), 2);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let prefixes = [network::text(&env.at("a")), network::text(&env.at("b"))];
    let seed = format!("https://{}:2379", address(0));
    for at in 0..2 {
        let server = format!("https://{}:2380", address(at));
        let mut flags =
            vec!["run", "--hostname", NAMES[at], "--prefix", &prefixes[at], "--server-urls", &server];
        flags.extend(&files);
        if at > 0 {
            flags.extend(["--seeds", &seed]);
        }
        flags.push("empty");
        let mut command = env.network.mgmt(at, &flags);
        command.env("MGMT_CLUSTER_PACE", "quick");
        env.hosts[at] = Some(RunningProgram::start_command(command));
        if at == 0 {
            env.hosts[0].as_mut().unwrap().wait_for("the cluster is served by a");
        }
    }
    // Another one joins. Two would be no better than one, unless the first is to go.
    let mut members = vec!["members", "remove", "a", "--seeds", &seed];
    members.extend(&files);
    program::eventually("b would serve", || {
        let said = env.network.said(&["members", "list", "--prefix", &prefixes[1]]);
        said.stdout.contains("b  would serve")
    });
    let removed = env.network.said(&members);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
    program::eventually("b serves alone", || {
        let said = env.network.said(&["members", "list", "--prefix", &prefixes[1]]);
        said.stdout.starts_with("b  serves, leads") && said.stdout.contains("a  removed")
    });
    let plain = env.network.said(&["members", "list", "--seeds", &format!("http://{}:2379", address(1))]);
    assert_eq!(plain.code, 1, "{}", plain.stdout);
    let seed = format!("https://{}:2379", address(1));
    let mut anonymous = vec!["members", "list", "--seeds", &seed];
    anonymous.extend(&files[..2]);
    let anonymous = env.network.said(&anonymous);
    assert_eq!(anonymous.code, 1, "{}", anonymous.stdout);
    let through = env.network.said(&["etcd", "--prefix", &prefixes[1], "get", "/mgmt/cluster/dismissed/a"]);
    assert!(through.stdout.contains("format"), "{through:?}");
}
