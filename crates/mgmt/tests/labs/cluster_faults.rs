//! Hosts that serve their store themselves, and they and their servers are killed, ended, paused and cut off at random, while
//! programs are deployed, export, collect and schedule. What is seen meanwhile is held against a model.
//!
//! Replay: `MGMT_SEED=…`; longer: `MGMT_FAULTS_SECONDS=…`, or `cargo xtask faults [MINUTES] [SEED]`. The same seed does the
//! same things; when they happen depends on how long a host takes to end.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use crate::history;
use mgmt_test_support::network;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::history::{Event, History};
use mgmt_test_support::network::{Network, address};
use mgmt_test_support::program::{EVENT_TIMEOUT, RunningProgram};
use rustix::process::Signal;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// How many hosts are in trouble at the same time, at most. Two of three servers is more than a store survives, which is
/// as it should be: then it has to come back.
const AT_ONCE: usize = 2;

/// A source of numbers that gives the same ones for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A time between two numbers of milliseconds.
    fn time(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

/// What has been done to a host, and has to be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Killed,
    Ended,
    Paused,
    Cut,
    ServerPaused(u32),
}

struct TestEnv {
    directory: PathBuf,
    network: Arc<Network>,
    hosts: Vec<Option<RunningProgram>>,
    troubles: Vec<(usize, Trouble, Instant)>,
    history: Arc<Mutex<History>>,
    began: Instant,
}

impl TestEnv {
    fn start(&mut self, at: usize) {
        let prefix = network::text(&self.directory.join(NAMES[at]));
        let server = format!("http://{}:2380", address(at));
        let seeds: Vec<String> = (0..NAMES.len()).filter(|other| *other != at).map(client).collect();
        let seeds = seeds.join(",");
        let mut flags = vec!["run", "--hostname", NAMES[at], "--prefix", &prefix, "--server-urls", &server];
        flags.extend(["--ideal-cluster-size", "3"]);
        if at > 0 {
            flags.extend(["--seeds", &seeds]);
        }
        flags.push("empty");
        let mut command = self.network.mgmt(at, &flags);
        command.env("MGMT_CLUSTER_PACE", "quick");
        self.hosts[at] = Some(RunningProgram::start_command(command));
        self.note(at, Event::GoesOn);
    }

    fn note(&self, at: usize, event: Event) {
        self.history.lock().unwrap().note(self.began.elapsed(), NAMES[at], event);
    }

    /// A host that is gone does nothing any more: what it did is undone by whoever takes the machine away.
    fn gone(&mut self, at: usize) {
        self.note(at, Event::Stops);
        let _ = std::fs::remove_file(self.directory.join(format!("holder-{}", NAMES[at])));
    }

    fn tell(&self, text: &str) {
        println!("{:8.3} {text}", self.began.elapsed().as_secs_f32());
    }

    fn make_trouble(&mut self, random: &mut Random) {
        let at = usize::try_from(random.below(NAMES.len() as u64)).unwrap();
        let (kind, time) = (random.below(6), random.time(500, 6_000));
        if self.troubles.len() >= AT_ONCE || self.troubles.iter().any(|(other, ..)| *other == at) {
            return;
        }
        let Some(run) = &self.hosts[at] else { return };
        let trouble = match kind {
            0 => {
                self.hosts[at] = None;
                self.gone(at);
                Trouble::Killed
            }
            1 => {
                let (id, ended) = (run.id(), Arc::new(AtomicBool::new(false)));
                let hurry = Arc::clone(&ended);
                // Without its store, some of what runs may not finish: somebody presses ^C again.
                let presser = std::thread::spawn(move || {
                    for turn in 0..80 {
                        if hurry.load(Ordering::Relaxed) {
                            return;
                        }
                        if turn % 20 == 0 {
                            signal(id, Signal::INT);
                        }
                        std::thread::sleep(Duration::from_millis(200));
                    }
                });
                let (code, lines) = self.hosts[at].take().unwrap().end();
                ended.store(true, Ordering::Relaxed);
                presser.join().unwrap();
                // One that has not even begun ends as any program does.
                assert!(code.is_some() || !lines.contains("working in"), "{code:?}: {lines}");
                self.gone(at);
                Trouble::Ended
            }
            2 => {
                self.note(at, Event::Stops);
                run.signal(Signal::STOP);
                Trouble::Paused
            }
            3 => {
                self.network.cut(at);
                Trouble::Cut
            }
            _ => {
                let Some(server) = server_of(run) else { return };
                if kind == 4 {
                    signal(server, Signal::KILL);
                    self.tell(&format!("the server of {} is killed", NAMES[at]));
                    return;
                }
                signal(server, Signal::STOP);
                Trouble::ServerPaused(server)
            }
        };
        self.tell(&format!("{}: {trouble:?} for {time:?}", NAMES[at]));
        self.troubles.push((at, trouble, Instant::now() + time));
    }

    /// Undoes what has lasted long enough, or everything.
    fn mend(&mut self, all: bool) {
        for (at, trouble, until) in std::mem::take(&mut self.troubles) {
            if !all && Instant::now() < until {
                self.troubles.push((at, trouble, until));
                continue;
            }
            match trouble {
                Trouble::Killed | Trouble::Ended => self.start(at),
                Trouble::Paused => {
                    self.hosts[at].as_ref().unwrap().signal(Signal::CONT);
                    self.note(at, Event::GoesOn);
                }
                Trouble::Cut => self.network.heal(at),
                Trouble::ServerPaused(server) => signal(server, Signal::CONT),
            }
            self.tell(&format!("{}: mended", NAMES[at]));
        }
    }
}

fn client(at: usize) -> String {
    format!("http://{}:2379", address(at))
}

/// The server of a run.
fn server_of(run: &RunningProgram) -> Option<u32> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", run.id())).ok()?.flatten();
    let all = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let pids = all.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    pids.filter_map(|pid| pid.parse().ok()).find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "etcd")
    })
}

/// It may have ended by itself in the meantime.
fn signal(pid: u32, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}

/// What each host does: run, export, collect, store a value, and volunteer.
fn program(directory: &Path, deploy: u64) -> String {
    let directory = directory.display();
    format!(
        "import \"fmt\"\nimport \"world\"\nimport \"world/collect\"\n\
         $name = $hostname\n$chosen = world.schedule(\"job\")\n\
         schedule \"job\" {{\n\tttl => 2,\n}}\n\
         noop \"offer-${{name}}\" {{\n\tMeta:export => [\"*\",],\n}}\n\
         kv \"deploy\" {{\n\tmapped => true,\n\tvalue => \"{deploy}\",\n}}\n\
         file \"{directory}/out-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => \"{deploy}\",\n}}\n\
         file \"{directory}/seen-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%v\", collect.res(\"noop\")),\n}}\n\
         file \"{directory}/values-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%v\", world.kvlookup(\"deploy\")),\n}}\n\
         if $name in $chosen {{\n\tfile \"{directory}/holder-${{name}}\" {{\n\t\tstate => \"exists\",\n\t}}\n}} else {{\n\
         \tfile \"{directory}/holder-${{name}}\" {{\n\t\tstate => \"absent\",\n\t}}\n}}\n"
    )
}

/// Deploys, and tells whether that is certain.
fn deploy(network: &Network, directory: &Path, number: u64) -> bool {
    let path = directory.join(format!("program-{number}.mcl"));
    std::fs::write(&path, program(directory, number)).unwrap();
    let seeds: Vec<String> = (0..NAMES.len()).map(client).collect();
    let path = network::text(&path);
    let said = network.said(&["deploy", "--no-git", "--seeds", &seeds.join(","), "lang", &path]);
    said.code == 0
}

/// Looks at what hosts do until it is told to stop.
fn observe(directory: &Path, history: &Mutex<History>, began: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for name in NAMES {
            let read = |what: &str| std::fs::read_to_string(directory.join(format!("{what}-{name}"))).ok();
            let mut events = vec![Event::Holds(read("holder").is_some())];
            events.extend(read("out").and_then(|text| text.parse().ok()).map(Event::Runs));
            events.extend(
                read("seen").filter(|text| !text.is_empty()).map(|text| Event::Sees(hosts_in(&text))),
            );
            let mut history = history.lock().unwrap();
            for event in events {
                history.note(began.elapsed(), name, event);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn hosts_in(text: &str) -> BTreeSet<String> {
    let found = NAMES.iter().filter(|name| text.contains(&format!("offer-{name}")));
    found.map(|&name| name.to_owned()).collect()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn nothing_is_lost_and_nobody_is_chosen_twice_whatever_fails() {
    history::check_the_model();
    let seed = number("MGMT_SEED").unwrap_or(1);
    let time = Duration::from_secs(number("MGMT_FAULTS_SECONDS").unwrap_or(30));
    println!("seed {seed}, {time:?}");
    let directory = tempfile::tempdir().unwrap();
    let mut env = TestEnv {
        directory: directory.path().to_owned(),
        network: Arc::new(Network::new(NAMES.len())),
        hosts: NAMES.iter().map(|_| None).collect(),
        troubles: Vec::new(),
        history: Arc::default(),
        began: Instant::now(),
    };
    for at in 0..NAMES.len() {
        env.start(at);
    }
    let deployed = Arc::new(AtomicU64::new(0));
    eventually_deploy(&env, &deployed);
    let stop = Arc::new(AtomicBool::new(false));
    let observer = {
        let (path, history, began) = (env.directory.clone(), Arc::clone(&env.history), env.began);
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || observe(&path, &history, began, &stop))
    };
    all_agree(&env, &deployed);
    let deployer = {
        let (network, path, stop) = (Arc::clone(&env.network), env.directory.clone(), Arc::clone(&stop));
        let deployed = Arc::clone(&deployed);
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                deploy(&network, &path, deployed.fetch_add(1, Ordering::Relaxed) + 1);
                std::thread::sleep(Duration::from_secs(1));
            }
        })
    };

    let mut random = Random(seed);
    let end = Instant::now() + time;
    while Instant::now() < end {
        env.mend(false);
        env.make_trouble(&mut random);
        std::thread::sleep(random.time(200, 1_500));
    }
    env.mend(true);
    env.tell("all is mended");
    stop.store(true, Ordering::Relaxed);
    deployer.join().unwrap();
    observer.join().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let observer = {
        let (path, history, began) = (env.directory.clone(), Arc::clone(&env.history), env.began);
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || observe(&path, &history, began, &stop))
    };
    eventually_deploy(&env, &deployed);
    all_agree(&env, &deployed);
    stop.store(true, Ordering::Relaxed);
    observer.join().unwrap();
    env.tell(&format!("all agree on deploy {}", deployed.load(Ordering::Relaxed)));

    let history = env.history.lock().unwrap();
    assert!(history.len() > 20, "something was seen: {history:?}");
    let faults = history.faults(env.began.elapsed());
    assert!(faults.is_empty(), "seed {seed}:\n{}", faults.join("\n"));
}

/// Deploys until it is certain.
fn eventually_deploy(env: &TestEnv, deployed: &AtomicU64) {
    let end = Instant::now() + EVENT_TIMEOUT;
    while !deploy(&env.network, &env.directory, deployed.fetch_add(1, Ordering::Relaxed) + 1) {
        assert!(Instant::now() < end, "nothing can be deployed");
    }
}

/// Waits until every host runs the newest deploy, sees all exports and all values, and one is chosen.
fn all_agree(env: &TestEnv, deployed: &AtomicU64) {
    let newest = deployed.load(Ordering::Relaxed).to_string();
    let end = Instant::now() + EVENT_TIMEOUT;
    loop {
        let read = |what: &str, name: &str| {
            std::fs::read_to_string(env.directory.join(format!("{what}-{name}"))).unwrap_or_default()
        };
        let agrees = |name: &&str| {
            let values = read("values", name);
            read("out", name) == newest
                && hosts_in(&read("seen", name)).len() == NAMES.len()
                && NAMES.iter().all(|other| values.contains(&format!("\"{other}\": \"{newest}\"")))
        };
        let holders = NAMES.iter().filter(|name| env.directory.join(format!("holder-{name}")).exists());
        let holders = holders.count();
        let waiting: Vec<&str> = NAMES.iter().filter(|name| !agrees(name)).copied().collect();
        if waiting.is_empty() && holders == 1 {
            return;
        }
        assert!(
            Instant::now() < end,
            "{waiting:?} do not agree on deploy {newest}, {holders} are chosen: {:?}",
            NAMES.map(|name| (read("out", name), read("seen", name), read("values", name)))
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}
