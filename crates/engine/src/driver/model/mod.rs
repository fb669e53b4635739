//! The threads of the engine, in the orders in which they can get anywhere.
//!
//! [`inbox`], [`helm`] and [`pool`] are the very files of the engine. What is beside them here takes the place of what they
//! lean on: locks whose order is chosen ([`sync`]), a kernel that tells of changes, and a driver that decides as little as one
//! can. A scheduler picks who goes next at every step, thousands of times from one seed; a wake-up that gets lost shows as
//! threads that all wait.
//!
//! `MGMT_MODEL_RUNS` says how many orders are tried for each story, `MGMT_SEED` which. One that fails is printed by the scheduler,
//! and `MGMT_MODEL_SCHEDULE` plays it again.
#![allow(dead_code, reason = "the engine uses more of its files than a story does")]

#[path = "../helm.rs"]
#[allow(clippy::duplicate_mod, reason = "the same code with other locks is what this is for")]
mod helm;
#[path = "../inbox.rs"]
#[allow(clippy::duplicate_mod, reason = "the same code with other locks is what this is for")]
mod inbox;
#[path = "../pool.rs"]
#[allow(clippy::duplicate_mod, reason = "the same code with other locks is what this is for")]
mod pool;
mod stories;
mod sync;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mgmt_watch::Change;

use self::helm::Helm;
use self::inbox::{Inbox, Mail, Share};
use self::pool::{Crew, Pool};
use self::run::{Done, Job};
use self::sync::{Condvar, Instant, Mutex, thread};
use crate::core::Vertex;

/// What reaches the driver.
enum Message {
    Finished(Vec<Done>),
    /// Somebody waits for an answer.
    Ask(shuttle::sync::mpsc::Sender<()>),
    /// A vertex is to run when so much time has passed.
    Alarm(usize, Duration),
    Stop,
}

impl Message {
    /// Whoever asks stands for whoever brings a graph: both wait for an answer, of the engine's own thread.
    fn brings_graph(&self) -> bool {
        matches!(self, Message::Ask(_))
    }
}

/// Nothing in a story waits on a runtime.
struct Handle;

impl Handle {
    fn current() -> Handle {
        Handle
    }
}

mod run {
    use super::{Arc, Handle, World};

    /// A run, which has to be done once.
    pub(super) struct Job {
        pub(super) number: u64,
        pub(super) vertex: usize,
        pub(super) world: Arc<World>,
    }

    pub(super) struct Done {
        pub(super) number: u64,
        pub(super) vertex: usize,
    }

    impl Job {
        pub(super) fn run_here(self, _: &Handle) -> Done {
            self.world.run(self.number, self.vertex);
            Done { number: self.number, vertex: self.vertex }
        }
    }
}

/// What is to be kept right, and what was done about it.
struct World {
    state: Mutex<State>,
    seen: Condvar,
}

#[derive(Default)]
struct State {
    /// How often each vertex was changed, and which of these changes a run has seen.
    changed: Vec<u64>,
    seen: Vec<u64>,
    runs: Vec<u64>,
    running: HashSet<usize>,
    /// Runs that were done.
    done: HashSet<u64>,
}

impl World {
    fn new(vertices: usize) -> Arc<World> {
        let nothing = vec![0; vertices];
        let state =
            State { changed: nothing.clone(), seen: nothing.clone(), runs: nothing, ..State::default() };
        Arc::new(World { state: Mutex::new(state), seen: Condvar::new() })
    }

    /// Somebody outside changes what a vertex looks after.
    fn change(&self, vertex: usize) {
        self.state.lock().unwrap().changed[vertex] += 1;
    }

    fn run(&self, number: u64, vertex: usize) {
        let mut state = self.state.lock().unwrap();
        assert!(state.running.insert(vertex), "vertex {vertex} runs already");
        let present = state.changed[vertex];
        drop(state);
        // Others get in between the look and what comes of it.
        thread::yield_now();
        let mut state = self.state.lock().unwrap();
        assert!(state.done.insert(number), "run {number} is done twice");
        assert!(state.running.remove(&vertex));
        state.seen[vertex] = present;
        state.runs[vertex] += 1;
        drop(state);
        self.seen.notify_all();
    }

    /// Waits until something is so: for ever, if nobody does anything about it, which the scheduler notices.
    fn until(&self, is_so: impl Fn(&State) -> bool) {
        let mut state = self.state.lock().unwrap();
        while !is_so(&state) {
            state = self.seen.wait(state).unwrap();
        }
    }

    fn until_all_is_seen(&self) {
        self.until(|state| state.seen == state.changed);
    }
}

/// What the kernel has to tell, and who hears it.
#[derive(Default)]
struct Kernel {
    news: Mutex<News>,
    came: Condvar,
}

#[derive(Default)]
struct News {
    changes: Vec<(Vertex, Change)>,
    closed: bool,
}

impl Kernel {
    fn tell(&self, vertex: usize, change: Change) {
        let mut news = self.news.lock().unwrap();
        news.changes.push((Vertex(u32::try_from(vertex).unwrap()), change));
        drop(news);
        self.came.notify_one();
    }
}

/// The end of the kernel that can be closed.
struct FileHub(Arc<Kernel>);

impl FileHub {
    fn close(&self) {
        self.0.news.lock().unwrap().closed = true;
        self.0.came.notify_one();
    }
}

struct Lookout {
    kernel: Arc<Kernel>,
    inbox: Arc<Inbox>,
}

impl Lookout {
    fn turn(&mut self) -> bool {
        let mut news = self.kernel.news.lock().unwrap();
        while news.changes.is_empty() && !news.closed {
            news = self.kernel.came.wait(news).unwrap();
        }
        if news.closed {
            return false;
        }
        let changes = std::mem::take(&mut news.changes);
        drop(news);
        self.inbox.put_changes(changes);
        true
    }
}

/// Runs what has changed, and after it whatever follows it.
struct Driver {
    inbox: Arc<Inbox>,
    crew: Arc<Crew>,
    world: Arc<World>,
    mail: Mail,
    jobs: Vec<Job>,
    is_dirty: Vec<bool>,
    is_running: Vec<bool>,
    /// Each vertex but the first runs again after the one before it.
    is_chain: bool,
    alarms: Vec<(Instant, usize)>,
    /// Runs that have been given out.
    given: u64,
    /// Those that have come back.
    back: HashSet<u64>,
    stopping: bool,
    stopped: bool,
}

impl Driver {
    fn new(inbox: Arc<Inbox>, crew: Arc<Crew>, world: Arc<World>, is_chain: bool) -> Driver {
        let vertices = world.state.lock().unwrap().changed.len();
        Driver {
            inbox,
            crew,
            world,
            mail: Mail::default(),
            jobs: Vec::new(),
            is_dirty: vec![false; vertices],
            is_running: vec![false; vertices],
            is_chain,
            alarms: Vec::new(),
            given: 0,
            back: HashSet::new(),
            stopping: false,
            stopped: false,
        }
    }

    /// As the driver of the engine does it: what has come, what is due, what follows, when to look again.
    fn step(&mut self, share: Share, keep: bool) -> Option<Job> {
        let mut mail = std::mem::take(&mut self.mail);
        self.inbox.take(share, &mut mail);
        for vertex in mail.changed.drain(..).chain(mail.created.drain(..)) {
            self.is_dirty[vertex.index()] = true;
        }
        for message in mail.messages.drain(..) {
            self.handle(message);
        }
        self.mail = mail;
        let now = Instant::now();
        for (_, vertex) in self.alarms.extract_if(.., |(at, _)| *at <= now) {
            self.is_dirty[vertex] = true;
        }
        self.begin();
        self.inbox.look_at(self.alarms.iter().map(|(at, _)| *at).min());
        self.stopped |= self.stopping && !self.is_running.contains(&true);
        if self.stopped {
            self.inbox.call();
        }
        if !keep {
            self.crew.submit(&mut self.jobs);
        }
        self.jobs.pop()
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Finished(done) => {
                for Done { number, vertex } in done {
                    assert!(self.back.insert(number), "run {number} has come back twice");
                    assert!(std::mem::take(&mut self.is_running[vertex]), "vertex {vertex} did not run");
                    if self.is_chain && vertex + 1 < self.is_dirty.len() {
                        self.is_dirty[vertex + 1] = true;
                    }
                }
            }
            // Whoever asked may have gone.
            Message::Ask(reply) => drop(reply.send(())),
            Message::Alarm(vertex, time) => self.alarms.push((Instant::now() + time, vertex)),
            Message::Stop => self.stopping = true,
        }
    }

    /// Begins all runs that can begin. One is left for whoever decides.
    fn begin(&mut self) {
        for vertex in 0..self.is_dirty.len() {
            if self.stopping || self.is_running[vertex] || !std::mem::take(&mut self.is_dirty[vertex]) {
                continue;
            }
            self.is_running[vertex] = true;
            self.given += 1;
            self.jobs.push(Job { number: self.given, vertex, world: Arc::clone(&self.world) });
        }
        if self.jobs.len() > 1 {
            self.crew.submit(&mut self.jobs);
        }
    }

    fn abandon(self) {}
}

/// An engine that runs: its own thread, the threads of its pool, and what reaches them.
struct Running {
    world: Arc<World>,
    kernel: Arc<Kernel>,
    inbox: Arc<Inbox>,
    helm: Arc<Helm>,
    /// Whether it has ended in order.
    life: thread::JoinHandle<bool>,
}

impl Running {
    /// As the engine starts.
    fn start(vertices: usize, threads: usize, is_chain: bool) -> Running {
        let (world, kernel) = (World::new(vertices), Arc::new(Kernel::default()));
        let inbox = Arc::new(Inbox::default());
        let helm = Arc::new(Helm::new(Arc::clone(&inbox)));
        let lookout = Lookout { kernel: Arc::clone(&kernel), inbox: Arc::clone(&inbox) };
        let pool = Pool::start(threads, &helm, FileHub(Arc::clone(&kernel)), lookout).unwrap();
        let driver = Driver::new(Arc::clone(&inbox), pool.crew(), Arc::clone(&world), is_chain);
        let own = Arc::clone(&helm);
        let life = thread::spawn(move || {
            own.man(driver);
            let ended = own.keep();
            drop(pool);
            ended.is_some_and(|driver| driver.back.len() as u64 == driver.given)
        });
        Running { world, kernel, inbox, helm, life }
    }

    /// Something happens to a file, and the kernel tells of it.
    fn event(&self, vertex: usize, change: Change) {
        self.world.change(vertex);
        self.kernel.tell(vertex, change);
    }

    /// Something happens that a source of a vertex's own tells of.
    fn signal(&self, vertex: usize) {
        self.world.change(vertex);
        self.inbox.changed(Vertex(u32::try_from(vertex).unwrap()));
    }

    /// Waits for an answer. False if there will be none.
    fn ask(&self) -> bool {
        let (reply, answer) = shuttle::sync::mpsc::channel();
        self.inbox.send(Message::Ask(reply));
        answer.recv().is_ok()
    }

    /// Ends it; everybody comes to an end, and every run that was given out has come back.
    fn stop(self) {
        self.inbox.send(Message::Stop);
        assert!(self.life.join().unwrap(), "it has broken off, or runs are missing");
    }
}
