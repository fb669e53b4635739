//! Hosts that export, collect, schedule and deploy while connections fail and hosts die: minutes of their time in moments of
//! ours, on a clock that is advanced, from a seed. What is recorded is held against what must be true.
//!
//! Replay: `MGMT_SEED=… cargo test -p mgmt-store --test store faults::`; more: `MGMT_FAULTS_RUNS=…`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgmt_store::{Commits, EVERYBODY, File, Offer, Program, SharedState, StoreError, Tree};
use mgmt_test_support::random::Random;
use mgmt_value::Str;
use store::{Center, Line, Reach};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// How long things go wrong.
const TROUBLE: Duration = Duration::from_secs(12 * 60);
/// How long it may take until all is well afterwards.
const PEACE: Duration = Duration::from_secs(120);
const HOSTS: usize = 5;
const JOBS: [&str; 2] = ["job", "other"];

#[test]
fn whatever_fails_nothing_is_lost_and_nobody_is_chosen_twice() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds: Vec<u64> = match number("MGMT_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("MGMT_FAULTS_RUNS").unwrap_or(8)).collect(),
    };
    for seed in seeds {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let run = std::panic::AssertUnwindSafe(|| runtime.block_on(async { Lab::new(seed).run().await }));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}: replay with MGMT_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// A number of hosts, one store, and what they were asked to do.
struct Lab {
    random: Random,
    center: Arc<Center>,
    hosts: Vec<Host>,
    model: Arc<Mutex<Model>>,
    work: JoinSet<()>,
}

/// One host, which may be down.
struct Host {
    name: String,
    line: watch::Sender<Line>,
    alive: Option<Alive>,
    /// What it is to export: it lasts as long as its program does, whichever process runs that.
    exports: BTreeMap<String, String>,
    volunteers: BTreeSet<&'static str>,
}

struct Alive {
    world: Arc<SharedState>,
    /// What runs on the host, and dies with it.
    tasks: JoinSet<()>,
}

/// What must be true is said of this.
#[derive(Default)]
struct Model {
    /// Exports that a host has been told are stored, and those that it has taken back since.
    acknowledged: BTreeMap<(String, String), String>,
    /// Export keys that somebody has wanted gone, ever.
    unwanted: BTreeSet<(String, String)>,
    /// Numbers of deploys that were made for sure.
    deployed: BTreeSet<u64>,
    /// The last deploy that each host has taken, since it started.
    taken: BTreeMap<String, u64>,
    increments: u64,
    attempts: u64,
    chosen: u64,
}

fn text(text: &str) -> Str {
    text.into()
}

impl Lab {
    fn new(seed: u64) -> Lab {
        let host = |number: usize| Host {
            name: format!("h{number}"),
            line: watch::Sender::new(Line::Good),
            alive: None,
            exports: BTreeMap::new(),
            volunteers: BTreeSet::new(),
        };
        Lab {
            random: Random::new(seed),
            center: Center::new(),
            hosts: (0..HOSTS).map(host).collect(),
            model: Arc::default(),
            work: JoinSet::new(),
        }
    }

    async fn run(mut self) {
        for which in 0..HOSTS {
            self.start(which);
        }
        let end = Instant::now() + TROUBLE;
        let mut step = Instant::now();
        while Instant::now() < end {
            // Everything is looked at often, and something happens now and then.
            sleep(Duration::from_millis(50)).await;
            self.look();
            while self.work.try_join_next().is_some_and(|done| done.map(|()| true).unwrap()) {}
            if Instant::now() >= step {
                step = Instant::now() + Duration::from_millis(self.random.between(50, 3000));
                self.something();
            }
        }
        for which in 0..HOSTS {
            self.hosts[which].line.send_replace(Line::Good);
            if self.hosts[which].alive.is_none() {
                self.start(which);
            }
        }
        let calm = Instant::now() + PEACE;
        while Instant::now() < calm {
            sleep(Duration::from_millis(50)).await;
            self.look();
        }
        self.judge().await;
    }

    /// Starts a host, as its program is.
    fn start(&mut self, which: usize) {
        let random = Random::new(self.random.next());
        let host = &mut self.hosts[which];
        let reach = Reach::new(&self.center, host.line.subscribe(), random);
        let world = Arc::new(SharedState::new(reach, &host.name));
        let mut tasks = JoinSet::new();
        let (following, model, name) = (Arc::clone(&world), Arc::clone(&self.model), host.name.clone());
        model.lock().unwrap().taken.remove(&name);
        tasks.spawn(async move {
            let (mut watch, mut last) = (following.watch_deploys(), 0);
            while let Ok(deploy) = following.deploy_after(last, &mut *watch).await {
                last = deploy.id;
                model.lock().unwrap().taken.insert(name.clone(), last);
            }
        });
        host.alive = Some(Alive { world, tasks });
        self.declare(which);
        let volunteers: Vec<&str> = self.hosts[which].volunteers.iter().copied().collect();
        for job in volunteers {
            self.volunteer(which, job);
        }
    }

    /// Tells a host what its program exports now.
    fn declare(&mut self, which: usize) {
        let host = &mut self.hosts[which];
        let Some(alive) = &mut host.alive else { return };
        let (world, name, exports) = (Arc::clone(&alive.world), host.name.clone(), host.exports.clone());
        let kind = text("file");
        let names: Vec<Str> = exports.keys().map(|name| text(name)).collect();
        let everybody = text(EVERYBODY);
        world.exports_are(names.iter().map(|name| (&kind, name, &everybody)));
        for (name, value) in &exports {
            let data = text(&format!("\"{value}\""));
            world.export(&kind, &text(name), &everybody, &data, None).unwrap();
        }
        let model = Arc::clone(&self.model);
        alive.tasks.spawn(async move {
            world.settled().await;
            let now = world.exported(&text("file"));
            let own = now.into_iter().filter(|export| export.host == text(&name));
            let own: BTreeMap<String, String> = own
                .map(|export| (export.name.to_text().into_owned(), export.data.to_text().into_owned()))
                .collect();
            let mut model = model.lock().unwrap();
            for (export, value) in exports {
                // Unless something else was declared meanwhile.
                if own.get(&export) == Some(&format!("\"{value}\"")) {
                    model.acknowledged.insert((name.clone(), export), value);
                }
            }
        });
    }

    fn volunteer(&mut self, which: usize, job: &'static str) {
        let host = &mut self.hosts[which];
        host.volunteers.insert(job);
        let Some(alive) = &mut host.alive else { return };
        let world = Arc::clone(&alive.world);
        let ttl = (job == "other").then_some(3);
        alive.tasks.spawn(async move {
            let offer = Offer { ttl, ..Offer::default() };
            world.volunteer(&text(job), &offer, true).await.unwrap();
        });
    }

    fn withdraw(&mut self, which: usize, job: &'static str) {
        let host = &mut self.hosts[which];
        host.volunteers.remove(job);
        let Some(alive) = &mut host.alive else { return };
        let world = Arc::clone(&alive.world);
        alive.tasks.spawn(async move {
            world.withdraw(&text(job), true).await.unwrap();
        });
    }

    /// Something happens to a host, or its program does something.
    fn something(&mut self) {
        let which = usize::try_from(self.random.below(HOSTS as u64)).unwrap();
        match self.random.below(100) {
            0..8 => {
                // Killed: everything in it ends at once, and nobody is told.
                if let Some(mut alive) = self.hosts[which].alive.take() {
                    alive.tasks.abort_all();
                }
            }
            8..24 => {
                if self.hosts[which].alive.is_none() {
                    self.start(which);
                }
            }
            24..27 => self.leave(which),
            27..38 => {
                let line = *self.random.pick(&[Line::Cut, Line::Deaf]);
                self.hosts[which].line.send_replace(line);
            }
            38..40 => self.all_lines(Line::Cut),
            40..58 => {
                self.hosts[which].line.send_replace(Line::Good);
            }
            58..62 => self.all_lines(Line::Good),
            62..72 => {
                let export = format!("e{}", self.random.below(40));
                let value = format!("v{}", self.random.next());
                self.hosts[which].exports.insert(export, value);
                self.declare(which);
            }
            72..78 => self.take_back(which),
            78..84 => {
                let job = *self.random.pick(&JOBS);
                self.volunteer(which, job);
            }
            84..87 => {
                let job = *self.random.pick(&JOBS);
                self.withdraw(which, job);
            }
            87..93 => self.deploy(which),
            _ => self.count(which),
        }
    }

    fn all_lines(&self, line: Line) {
        for host in &self.hosts {
            host.line.send_replace(line);
        }
    }

    /// A host ends in order.
    fn leave(&mut self, which: usize) {
        let Some(mut alive) = self.hosts[which].alive.take() else { return };
        alive.tasks.abort_all();
        self.work.spawn(async move { alive.world.leave().await });
    }

    fn take_back(&mut self, which: usize) {
        let host = &mut self.hosts[which];
        let names: Vec<String> = host.exports.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let name = self.random.pick(&names).clone();
        host.exports.remove(&name);
        let key = (host.name.clone(), name);
        let mut model = self.model.lock().unwrap();
        model.acknowledged.remove(&key);
        model.unwanted.insert(key);
        drop(model);
        self.declare(which);
    }

    /// Somebody deploys through the connection of a host.
    fn deploy(&mut self, which: usize) {
        let Some(alive) = &mut self.hosts[which].alive else { return };
        let (world, model) = (Arc::clone(&alive.world), Arc::clone(&self.model));
        let content = self.random.next().to_string().into_bytes();
        alive.tasks.spawn(async move {
            let program = Program {
                frontend: "lang".into(),
                entry: "main.mcl".into(),
                noop: false,
                sema: -1,
                no_autoedges: false,
                no_autogroup: false,
            };
            let mut files = Tree::default();
            for (path, content) in [("main.mcl", content.clone()), ("same", b"same".to_vec())] {
                files.insert(path, File { executable: false, content }).unwrap();
            }
            if let Ok(deploy) = world.add_deploy(&program, &files, &Commits::default(), None).await {
                assert!(model.lock().unwrap().deployed.insert(deploy.id), "{} was given twice", deploy.id);
                match world.deployed_files(&deploy).await {
                    Ok(found) => assert_eq!(found.get("main.mcl").unwrap().content, content),
                    // So many came after it that it is gone, or the connection is.
                    Err(StoreError::Unreachable { .. }) => {}
                    Err(error) => {
                        let gone = world.deploy(deploy.id).await.is_ok_and(|found| found.is_none());
                        assert!(gone, "deploy {}: {error}", deploy.id);
                    }
                }
            }
        });
    }

    /// A host adds one to a number that all share.
    fn count(&mut self, which: usize) {
        let Some(alive) = &mut self.hosts[which].alive else { return };
        let (world, model) = (Arc::clone(&alive.world), Arc::clone(&self.model));
        alive.tasks.spawn(async move {
            let key = text("number");
            let Ok(Ok(now)) = timeout(Duration::from_secs(5), world.shared(&key)).await else { return };
            let next = now.as_ref().map_or(0, |now| now.to_text().parse::<u64>().unwrap()) + 1;
            model.lock().unwrap().attempts += 1;
            if let Ok(true) = world.replace_shared(&key, now.as_ref(), &text(&next.to_string())).await {
                model.lock().unwrap().increments += 1;
            }
        });
    }

    /// At no moment do two hosts take themselves for chosen.
    fn look(&self) {
        for job in JOBS {
            let is_chosen = |host: &&Host| {
                let Some(alive) = &host.alive else { return false };
                alive.world.scheduled(&text(job)).unwrap().contains(&text(&host.name))
            };
            let chosen: Vec<&str> =
                self.hosts.iter().filter(is_chosen).map(|host| host.name.as_str()).collect();
            assert!(chosen.len() <= 1, "chosen for {job} at once: {chosen:?}");
            self.model.lock().unwrap().chosen += chosen.len() as u64;
        }
    }

    /// In the end, all hosts agree on what the model says.
    async fn judge(mut self) {
        while let Some(done) = self.work.join_next().await {
            done.unwrap();
        }
        for host in &mut self.hosts {
            let alive = host.alive.as_mut().unwrap();
            while let Some(done) = alive.tasks.try_join_next() {
                done.unwrap();
            }
        }
        let model = self.model.lock().unwrap();
        let everything: BTreeSet<(String, String, String)> = self
            .hosts
            .iter()
            .flat_map(|host| {
                host.exports
                    .iter()
                    .map(|(name, value)| (host.name.clone(), name.clone(), format!("\"{value}\"")))
            })
            .collect();
        let newest = *model.deployed.last().expect("something was deployed");
        let number = self.hosts[0].alive.as_ref().unwrap().world.known_shared(&text("number")).unwrap();
        let number: u64 = number.map_or(0, |number| number.to_text().parse().unwrap());
        assert!((model.increments..=model.attempts).contains(&number), "{number}");
        for host in &self.hosts {
            let world = &host.alive.as_ref().unwrap().world;
            let seen = world.exported(&text("file"));
            let seen: BTreeSet<(String, String, String)> = seen
                .into_iter()
                .map(|export| {
                    let part = |part: &Str| part.to_text().into_owned();
                    (part(&export.host), part(&export.name), part(&export.data))
                })
                .collect();
            assert_eq!(seen, everything, "{} sees other exports", host.name);
            let taken = model.taken.get(&host.name).copied().unwrap_or(0);
            assert!(taken >= newest, "{} runs deploy {taken}, and {newest} was made", host.name);
            for job in JOBS {
                let chosen = world.scheduled(&text(job)).unwrap();
                let volunteers = self.hosts.iter().filter(|host| host.volunteers.contains(job)).count();
                assert_eq!(chosen.len(), volunteers.min(1), "{}: {job} {chosen:?}", host.name);
            }
        }
        // Nothing that was acknowledged has ever gone, unless its own host wanted that.
        for change in self.center.log().iter().filter(|change| change.entry.is_none()) {
            let parts: Vec<&str> = change.key.split('/').collect();
            if let ["", "host", host, "export", .., name] = parts.as_slice() {
                let key = ((*host).to_owned(), (*name).to_owned());
                assert!(model.unwanted.contains(&key), "{} went at {:?}", change.key, change.at);
            }
        }
        for ((host, name), value) in &model.acknowledged {
            assert_eq!(
                everything.iter().filter(|(by, which, _)| (by, which) == (host, name)).count(),
                1,
                "{value}"
            );
        }
        assert!(model.chosen > 100 && model.increments > 0 && newest > 3, "hardly anything was done");
    }
}
