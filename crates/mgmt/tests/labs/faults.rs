//! Real hosts on a real etcd of three, which are killed, paused and started again at random, from a seed, while programs are
//! deployed, export, share values and are scheduled.
//!
//! Replay: `MGMT_SEED=…`; longer: `MGMT_FAULTS_SECONDS=…`, or `cargo xtask faults [MINUTES] [SEED]`. The same on a simulated
//! store, for hours of simulated time: `crates/store/tests/store/faults.rs`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use mgmt_test_support::etcd::EtcdCluster;
use mgmt_test_support::program::{RunningProgram, eventually, mgmt_output};
use mgmt_test_support::random::Random;
use rustix::process::Signal;
use tempfile::TempDir;

const HOSTS: usize = 3;

/// After this time, a host that runs has heard what it should have: the longest lease, and the time to stop.
const BOUND: Duration = Duration::from_secs(8);

#[test]
fn hosts_and_servers_may_die_and_everything_ends_well() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("MGMT_SEED").unwrap_or(1);
    let time = Duration::from_secs(number("MGMT_FAULTS_SECONDS").unwrap_or(25));
    eprintln!("MGMT_SEED={seed} MGMT_FAULTS_SECONDS={}", time.as_secs());
    let mut lab = TestEnv::new(seed);
    let end = Instant::now() + time;
    while Instant::now() < end {
        lab.something();
        let pause = lab.random.between(100, 1500);
        lab.watch(Duration::from_millis(pause));
    }
    lab.judge();
}

struct TestEnv {
    random: Random,
    directory: TempDir,
    cluster: EtcdCluster,
    hosts: Vec<Host>,
    /// The server that is down or paused.
    ill: Option<(usize, Illness)>,
    /// The version that was deployed last, and was stored for sure.
    version: u64,
    /// Since when two hosts that run have both taken themselves for chosen.
    both: Option<(Instant, String)>,
    done: Vec<String>,
}

enum Illness {
    Down,
    Paused,
}

struct Host {
    name: String,
    running: Option<RunningProgram>,
    paused: bool,
    /// Since when it runs without a break.
    since: Instant,
}

impl TestEnv {
    fn new(seed: u64) -> TestEnv {
        let host = |number: usize| Host {
            name: format!("h{number}"),
            running: None,
            paused: false,
            since: Instant::now(),
        };
        let mut lab = TestEnv {
            random: Random::new(seed),
            directory: tempfile::tempdir().unwrap(),
            cluster: EtcdCluster::start(3),
            hosts: (0..HOSTS).map(host).collect(),
            ill: None,
            version: 0,
            both: None,
            done: Vec::new(),
        };
        for which in 0..HOSTS {
            lab.start(which);
        }
        lab.deploy();
        lab
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    fn seeds(&self) -> String {
        self.cluster.endpoints().join(",")
    }

    fn start(&mut self, which: usize) {
        let name = self.hosts[which].name.clone();
        let (seeds, prefix) = (self.seeds(), self.at(&format!("prefix-{name}")));
        // What a host that was killed has written last says nothing about the one that starts.
        let _ = std::fs::remove_file(self.at(&format!("chosen-{name}")));
        let prefix = prefix.to_str().unwrap();
        let flags = ["run", "--seeds", &seeds, "--hostname", &name, "--prefix", prefix, "empty"];
        let host = &mut self.hosts[which];
        host.running = Some(RunningProgram::start(&flags));
        host.paused = false;
        host.since = Instant::now();
    }

    /// Gives all hosts a program of the next version.
    fn deploy(&mut self) {
        let version = self.version + 1;
        let directory = self.directory.path().display();
        let text = format!(
            "import \"fmt\"\nimport \"world\"\n$name = $hostname\n\
             file \"{directory}/version-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => \"{version}\",\n}}\n\
             noop \"offer-${{name}}\" {{\n\tMeta:export => [\"*\",],\n}}\n\
             schedule \"job\" {{\n\tttl => 3,\n}}\n\
             file \"{directory}/chosen-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%v\", world.schedule(\"job\")),\n}}\n\
             kv \"names\" {{\n\tmapped => true,\n\tvalue => \"{version}\",\n}}\n\
             file \"{directory}/names-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%v\", world.kvlookup(\"names\")),\n}}\n"
        );
        let path = self.at(&format!("{version}.mcl"));
        std::fs::write(&path, text).unwrap();
        let seeds = self.seeds();
        let said = mgmt_output(&["deploy", "--no-git", "--seeds", &seeds, "lang", path.to_str().unwrap()]);
        // With a server that has just gone, it may fail, and may have been stored all the same: the next one is newer.
        self.done.push(format!("deploy {version}: {}", said.code));
        assert!(said.code == 0 || said.code == 1, "{}", said.stderr);
        self.version = version;
    }

    fn something(&mut self) {
        let which = usize::try_from(self.random.below(HOSTS as u64)).unwrap();
        let server = usize::try_from(self.random.below(3)).unwrap();
        let name = self.hosts[which].name.clone();
        let what = match (self.random.below(10), self.hosts[which].running.is_some()) {
            (0 | 1, true) => {
                // Dropping one kills it.
                self.hosts[which].running = None;
                format!("kill {name}")
            }
            (0..=2, false) => {
                self.start(which);
                format!("start {name}")
            }
            (2 | 3, true) => {
                let host = &mut self.hosts[which];
                host.paused = !host.paused;
                host.since = Instant::now();
                let signal = if host.paused { Signal::STOP } else { Signal::CONT };
                host.running.as_ref().unwrap().signal(signal);
                format!("{} {name}", if host.paused { "pause" } else { "resume" })
            }
            (4 | 5, _) if self.ill.is_none() => {
                let illness = match self.random.percent(50) {
                    true => {
                        self.cluster.kill(server);
                        Illness::Down
                    }
                    false => {
                        self.cluster.pause(server);
                        Illness::Paused
                    }
                };
                self.ill = Some((server, illness));
                format!("server {server} ill")
            }
            (4..=7, _) => {
                self.cure();
                "servers well".to_owned()
            }
            (8, _) => {
                self.deploy();
                return;
            }
            _ => return,
        };
        self.done.push(what);
    }

    fn cure(&mut self) {
        match self.ill.take() {
            Some((server, Illness::Down)) => self.cluster.restart_and_wait(server),
            Some((server, Illness::Paused)) => self.cluster.resume(server),
            None => {}
        }
    }

    /// Looks for a while who takes itself for chosen.
    fn watch(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let is_chosen = |host: &&Host| {
                host.running.is_some()
                    && !host.paused
                    && host.since.elapsed() > BOUND
                    && self.read(&format!("chosen-{}", host.name)).contains(&format!("{:?}", host.name))
            };
            let chosen: Vec<&str> =
                self.hosts.iter().filter(is_chosen).map(|host| host.name.as_str()).collect();
            let text = chosen.join(" and ");
            match (&self.both, chosen.len() > 1) {
                (Some((since, who)), true) if *who == text => {
                    assert!(
                        since.elapsed() < BOUND,
                        "{text} are chosen at once after:\n{}",
                        self.done.join("\n")
                    );
                }
                (_, true) => self.both = Some((Instant::now(), text)),
                (_, false) => self.both = None,
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// All is repaired; in the end all hosts run the newest, and know each other.
    fn judge(mut self) {
        self.cure();
        for which in 0..HOSTS {
            match (&self.hosts[which].running, self.hosts[which].paused) {
                (None, _) => self.start(which),
                (Some(running), true) => running.signal(Signal::CONT),
                (Some(_), false) => {}
            }
            self.hosts[which].paused = false;
        }
        // One that is surely stored.
        self.deploy();
        assert!(self.done.last().unwrap().ends_with(": 0"), "{}", self.done.join("\n"));
        let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let version = self.version.to_string();
        let known = names.iter().map(|name| format!("{name:?}: {version:?}")).collect::<Vec<_>>().join(", ");
        let history = self.done.join("\n");
        for name in &names {
            let reads = |file: &str, text: &str| {
                let file = format!("{file}-{name}");
                eventually(&format!("{file} is {text}, after:\n{history}"), || self.read(&file) == text);
            };
            reads("version", &version);
            reads("names", &format!("{{{known}}}"));
        }
        eventually(&format!("all agree on who is chosen, after:\n{history}"), || {
            let first = self.read("chosen-h0");
            let is_one = names.iter().any(|name| first == format!("[{name:?}]"));
            is_one && names.iter().all(|name| self.read(&format!("chosen-{name}")) == first)
        });
        let exports = self.cluster.etcdctl(&["get", "--prefix", "--keys-only", "/mgmt/host/"]);
        for name in &names {
            assert!(exports.contains(&format!("/mgmt/host/{name}/export/")), "{name}: {exports}\n{history}");
        }
        for host in &mut self.hosts {
            let running = host.running.take().unwrap();
            running.signal(Signal::INT);
            let (code, lines) = running.end();
            assert_eq!(code, Some(0), "{lines}\n{history}");
        }
    }
}
