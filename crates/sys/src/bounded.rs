//! Bounded thread pool for questions to the host that may never be answered.
//!
//! A path on a dead mount blocks whoever opens it, and nothing can interrupt that. So such questions are asked on a few
//! threads of their own. The caller waits a moment for the answer; without one the question stays open, the caller is told
//! so, and is woken when the answer comes or the deadline passes. An open question is asked once, however often it is put.
//!
//! Invariants
//! - At most [`MAX_THREADS`] threads exist, and at most [`MAX_STUCK_PER_MOUNT`] of them wait for the same mount, so that a
//!   dead one does not take the threads from the others.
//! - Quick answers are never kept. A slow answer is kept until something [touches](Pool::touch) its topic, and stands in
//!   for the next one while that is on its way.
//! - Every question that a caller was told to be open wakes the caller at its deadline and at its answer.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most threads that wait for answers.
pub const MAX_THREADS: usize = 16;
/// The most threads that wait for one mount that does not answer.
pub const MAX_STUCK_PER_MOUNT: usize = 2;
/// A thread without work ends after this time.
const THREAD_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// A question, and what has to happen for its answer to become another.
pub trait Question: Clone + Eq + Hash + Send + 'static {
    /// What is touched when the answer may have changed.
    type Topic: Clone + Eq + Hash + Send + 'static;
    /// The answer.
    type Answer: Clone + Send + 'static;

    /// Finds the answer out. May block.
    fn answer(&self) -> Self::Answer;

    /// The path that the question is about, if it is one.
    fn path(&self) -> Option<&[u8]>;
}

/// What is known at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked<A> {
    /// The answer.
    Answer(A),
    /// The answer is on its way; the caller is woken when it is there, or the deadline has passed.
    Pending,
    /// The deadline has passed. The caller is woken when there is an answer all the same.
    TimedOut,
}

/// A pool of threads, and the questions that are open.
pub struct Pool<Q: Question> {
    shared: Arc<Shared<Q>>,
}

/// Tells the asker that a topic has another answer.
type Wake<Q> = Box<dyn Fn(&<Q as Question>::Topic) + Send + Sync>;

struct Shared<Q: Question> {
    state: Mutex<State<Q>>,
    /// There is work.
    work: Condvar,
    /// A question has its answer.
    answered: Condvar,
    /// A deadline was added.
    deadlines: Condvar,
    wake: Wake<Q>,
    deadline: Duration,
}

struct State<Q: Question> {
    open: HashMap<Key<Q>, Open<Q::Answer>>,
    queue: VecDeque<Key<Q>>,
    threads: usize,
    idle: usize,
    monitored: bool,
}

/// A question, and its topic if its caller can be woken.
type Key<Q> = (Option<<Q as Question>::Topic>, Q);

struct Open<A> {
    /// The last answer, if there was one.
    last: Option<A>,
    /// The answer is on its way, and the question was put then.
    asked_at: Option<Instant>,
    /// A thread waits for the answer.
    running: bool,
    /// Somebody waits at this very moment.
    waited_for: bool,
    /// The topic was touched since the answer, or while it was on its way.
    stale: bool,
    /// The deadline has passed, and the caller was woken for that.
    late: bool,
    /// The caller gave up waiting; the mount that the path is on.
    stuck_at: Option<Vec<u8>>,
}

impl<A> Default for Open<A> {
    fn default() -> Open<A> {
        Open {
            last: None,
            asked_at: None,
            running: false,
            waited_for: false,
            stale: false,
            late: false,
            stuck_at: None,
        }
    }
}

impl<Q: Question> Pool<Q> {
    /// A pool without threads. `wake` is called from a thread of the pool.
    pub fn new(deadline: Duration, wake: impl Fn(&Q::Topic) + Send + Sync + 'static) -> Pool<Q> {
        let state =
            State { open: HashMap::new(), queue: VecDeque::new(), threads: 0, idle: 0, monitored: false };
        let shared = Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            answered: Condvar::new(),
            deadlines: Condvar::new(),
            wake: Box::new(wake),
            deadline,
        };
        Pool { shared: Arc::new(shared) }
    }

    /// Asks, and waits for at most `patience` if nothing is known yet. The caller is woken through the topic.
    pub fn ask(&self, topic: Q::Topic, question: Q, patience: Duration) -> Asked<Q::Answer> {
        self.shared.ask((Some(topic), question), patience)
    }

    /// Asks, and waits until the deadline. Nobody is woken, and nothing is kept.
    pub fn ask_now(&self, question: Q) -> Asked<Q::Answer> {
        let patience = self.shared.deadline;
        match self.shared.ask((None, question), patience) {
            Asked::Pending => Asked::TimedOut,
            asked => asked,
        }
    }

    /// What is known about a topic may not be true any more.
    pub fn touch(&self, topic: &Q::Topic) {
        let mut state = self.shared.lock();
        if !state.open.is_empty() {
            for (_, open) in state.open.iter_mut().filter(|((of, _), _)| of.as_ref() == Some(topic)) {
                open.stale = true;
            }
        }
    }

    /// Nobody asks about a topic any more.
    pub fn forget(&self, topic: &Q::Topic) {
        let mut state = self.shared.lock();
        if !state.open.is_empty() {
            state.open.retain(|(of, _), open| of.as_ref() != Some(topic) || open.asked_at.is_some());
        }
    }
}

impl<Q: Question> Shared<Q> {
    fn lock(&self) -> MutexGuard<'_, State<Q>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(self: &Arc<Self>, key: Key<Q>, patience: Duration) -> Asked<Q::Answer> {
        let mut state = self.lock();
        if let Some(open) = state.open.get(&key) {
            match (open.asked_at, &open.last) {
                (Some(at), _) if at.elapsed() >= self.deadline => return Asked::TimedOut,
                (Some(_), Some(last)) => return Asked::Answer(last.clone()),
                (Some(_), None) => return Asked::Pending,
                (None, Some(last)) if !open.stale => return Asked::Answer(last.clone()),
                (None, _) => {}
            }
        }
        let mount = state.mount_of(&key.1);
        let hopeless = mount.as_ref().is_some_and(|mount| state.stuck(mount) >= MAX_STUCK_PER_MOUNT);
        let open = state.open.entry(key.clone()).or_default();
        (open.asked_at, open.stale, open.late) = (Some(Instant::now()), false, false);
        open.waited_for = !hopeless;
        if hopeless {
            open.stuck_at.clone_from(&mount);
        }
        state.queue.push_back(key.clone());
        self.start_thread(&mut state);
        self.work.notify_one();
        if !hopeless {
            state = self.wait(state, &key, patience);
        }
        self.outcome(state, &key, mount)
    }

    /// Waits until the question has its answer, or the patience ends.
    fn wait<'s>(
        &'s self,
        state: MutexGuard<'s, State<Q>>,
        key: &Key<Q>,
        patience: Duration,
    ) -> MutexGuard<'s, State<Q>> {
        let is_open = |state: &mut State<Q>| state.open.get(key).is_some_and(|open| open.asked_at.is_some());
        let waited = self.answered.wait_timeout_while(state, patience, is_open);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// What the caller is told after its wait.
    fn outcome(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State<Q>>,
        key: &Key<Q>,
        mount: Option<Vec<u8>>,
    ) -> Asked<Q::Answer> {
        let Some(open) = state.open.get_mut(key) else { return Asked::Pending };
        open.waited_for = false;
        if open.asked_at.is_none() {
            // It was quick, and is not kept: the next question is put afresh.
            let last = state.open.remove(key).and_then(|open| open.last);
            return last.map_or(Asked::Pending, Asked::Answer);
        }
        if open.stuck_at.is_none() {
            open.stuck_at = mount.or_else(|| key.1.path().map(mount_point));
        }
        let last = open.last.clone();
        if key.0.is_some() {
            self.monitor(&mut state);
        }
        last.map_or(Asked::Pending, Asked::Answer)
    }

    fn start_thread(self: &Arc<Self>, state: &mut State<Q>) {
        if state.idle > 0 || state.threads >= MAX_THREADS {
            return;
        }
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("mgmt-host-read".into());
        // Without a thread the question waits for one that there is, or for its deadline.
        if thread.spawn(move || shared.work()).is_ok() {
            state.threads += 1;
        }
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            let Some(at) = state.next() else {
                state.idle += 1;
                let waited = self.work.wait_timeout(state, THREAD_IDLE_TIMEOUT);
                let (returned, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                state = returned;
                state.idle -= 1;
                if timeout.timed_out() && state.next().is_none() {
                    state.threads -= 1;
                    return;
                }
                continue;
            };
            let Some(key) = state.queue.remove(at) else { continue };
            let Some(open) = state.open.get_mut(&key) else { continue };
            open.running = true;
            drop(state);
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| key.1.answer())).ok();
            state = self.lock();
            let woken = state.settle(&key, answer);
            self.answered.notify_all();
            // Another question about the same mount may have waited for this one.
            self.work.notify_one();
            if let (true, Some(topic)) = (woken, &key.0) {
                drop(state);
                (self.wake)(topic);
                state = self.lock();
            }
        }
    }

    /// Has a thread wake callers whose deadline passes, as long as there are any.
    fn monitor(self: &Arc<Self>, state: &mut State<Q>) {
        self.deadlines.notify_one();
        if state.monitored {
            return;
        }
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("mgmt-deadline".into());
        state.monitored = thread.spawn(move || shared.watch_deadlines()).is_ok();
    }

    fn watch_deadlines(&self) {
        let mut state = self.lock();
        loop {
            let (mut late, mut next) = (Vec::new(), None);
            for ((topic, _), open) in &mut state.open {
                let Some(at) = open.asked_at.filter(|_| !open.late) else { continue };
                match self.deadline.checked_sub(at.elapsed()) {
                    Some(left) if !left.is_zero() => {
                        next = Some(next.map_or(left, |next: Duration| next.min(left)));
                    }
                    _ => {
                        open.late = true;
                        late.extend(topic.clone());
                    }
                }
            }
            if !late.is_empty() {
                drop(state);
                late.iter().for_each(|topic| (self.wake)(topic));
                state = self.lock();
                continue;
            }
            let Some(next) = next else {
                state.monitored = false;
                return;
            };
            let waited = self.deadlines.wait_timeout(state, next);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<Q: Question> State<Q> {
    /// The first question that may be asked now.
    fn next(&self) -> Option<usize> {
        let may = |key: &Key<Q>| match self.open.get(key).and_then(|open| open.stuck_at.as_ref()) {
            Some(mount) => self.stuck(mount) < MAX_STUCK_PER_MOUNT,
            None => true,
        };
        self.queue.iter().position(may)
    }

    /// How many threads wait for a mount that does not answer.
    fn stuck(&self, mount: &[u8]) -> usize {
        self.open.values().filter(|open| open.running && open.stuck_at.as_deref() == Some(mount)).count()
    }

    /// The mount of a question's path, if there is any mount that does not answer.
    fn mount_of(&self, question: &Q) -> Option<Vec<u8>> {
        let any = self.open.values().any(|open| open.running && open.stuck_at.is_some());
        question.path().filter(|_| any).map(mount_point)
    }

    /// Notes an answer, and tells whether somebody has to be woken for it.
    fn settle(&mut self, key: &Key<Q>, answer: Option<Q::Answer>) -> bool {
        let Some(open) = self.open.get_mut(key) else { return false };
        (open.running, open.asked_at, open.stuck_at) = (false, None, None);
        open.last = answer;
        let woken = !open.waited_for;
        // Without a topic, nobody could say that a kept answer is old.
        if woken && (key.0.is_none() || open.last.is_none()) {
            self.open.remove(key);
        }
        woken
    }
}

/// The mount point that a path is below, by its letters alone: following a link might block.
fn mount_point(path: &[u8]) -> Vec<u8> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let points =
        table.split(|&byte| byte == b'\n').filter_map(|line| line.split(|&byte| byte == b' ').nth(4));
    let holds = |point: &Vec<u8>| {
        path.strip_prefix(&**point)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || point.as_slice() == b"/")
    };
    points
        .map(crate::mount_table::unescape)
        .filter(holds)
        .max_by_key(Vec::len)
        .unwrap_or_else(|| b"/".to_vec())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Answers when it is told to, or at once.
    #[derive(Clone)]
    struct Riddle {
        name: &'static str,
        path: Option<&'static str>,
        gate: Option<Arc<(Mutex<Option<u32>>, Condvar)>>,
    }

    impl PartialEq for Riddle {
        fn eq(&self, other: &Riddle) -> bool {
            self.name == other.name
        }
    }
    impl Eq for Riddle {}
    impl Hash for Riddle {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            self.name.hash(state);
        }
    }

    impl Riddle {
        fn quick(name: &'static str) -> Riddle {
            Riddle { name, path: None, gate: None }
        }

        fn slow(name: &'static str, path: &'static str) -> Riddle {
            Riddle { name, path: Some(path), gate: Some(Arc::default()) }
        }

        fn open(&self, answer: Option<u32>) {
            let (gate, changed) = &**self.gate.as_ref().unwrap();
            *gate.lock().unwrap() = answer;
            changed.notify_all();
        }
    }

    impl Question for Riddle {
        type Topic = &'static str;
        type Answer = u32;

        fn answer(&self) -> u32 {
            let Some(gate) = &self.gate else { return 1 };
            let held = gate.0.lock().unwrap();
            gate.1.wait_while(held, |answer| answer.is_none()).unwrap().unwrap()
        }

        fn path(&self) -> Option<&[u8]> {
            self.path.map(str::as_bytes)
        }
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    fn pool(deadline: Duration) -> (Pool<Riddle>, mpsc::Receiver<&'static str>) {
        let (sender, woken) = mpsc::channel();
        (Pool::new(deadline, move |topic: &&'static str| sender.send(*topic).unwrap()), woken)
    }

    #[test]
    fn a_quick_answer_is_given_and_not_kept() {
        let (pool, woken) = pool(LONG);
        for _ in 0..1000 {
            assert_eq!(pool.ask("t", Riddle::quick("q"), LONG), Asked::Answer(1));
            assert_eq!(pool.ask_now(Riddle::quick("q")), Asked::Answer(1));
        }
        assert!(pool.shared.lock().open.is_empty() && woken.try_recv().is_err());
        assert!(pool.shared.lock().threads <= 2);
    }

    #[test]
    fn a_slow_answer_wakes_and_is_kept_until_it_is_touched() {
        let (pool, woken) = pool(LONG);
        let riddle = Riddle::slow("q", "/x");
        assert_eq!(pool.ask("t", riddle.clone(), SHORT), Asked::Pending);
        assert_eq!(pool.ask("t", riddle.clone(), LONG), Asked::Pending, "it is not waited for twice");
        riddle.open(Some(7));
        assert_eq!(woken.recv_timeout(LONG), Ok("t"));
        for _ in 0..2 {
            assert_eq!(pool.ask("t", riddle.clone(), SHORT), Asked::Answer(7));
        }
        riddle.open(None);
        pool.touch(&"t");
        assert_eq!(pool.ask("t", riddle.clone(), SHORT), Asked::Answer(7), "the last one stands in");
        riddle.open(Some(8));
        assert_eq!(woken.recv_timeout(LONG), Ok("t"));
        assert_eq!(pool.ask("t", riddle, SHORT), Asked::Answer(8));
        pool.forget(&"t");
        assert!(pool.shared.lock().open.is_empty());
    }

    #[test]
    fn what_does_not_answer_times_out_and_recovers() {
        let (pool, woken) = pool(Duration::from_millis(200));
        let riddle = Riddle::slow("q", "/x");
        assert_eq!(pool.ask("t", riddle.clone(), SHORT), Asked::Pending);
        assert_eq!(woken.recv_timeout(LONG), Ok("t"));
        assert_eq!(pool.ask("t", riddle.clone(), SHORT), Asked::TimedOut);
        assert_eq!(pool.ask_now(Riddle::quick("other")), Asked::Answer(1));
        riddle.open(Some(3));
        assert_eq!(woken.recv_timeout(LONG), Ok("t"));
        assert_eq!(pool.ask("t", riddle, SHORT), Asked::Answer(3));
        let never = Riddle::slow("never", "/x");
        assert_eq!(pool.ask_now(never.clone()), Asked::TimedOut);
        assert_eq!(pool.ask_now(never.clone()), Asked::TimedOut);
        never.open(Some(0));
    }

    #[test]
    fn a_dead_mount_does_not_take_all_threads() {
        let (pool, _woken) = pool(LONG);
        let dead: Vec<Riddle> = (0..100)
            .map(|n| Riddle::slow(Box::leak(format!("dead{n}").into_boxed_str()), "/proc/dead"))
            .collect();
        for riddle in &dead {
            assert_eq!(pool.ask(riddle.name, riddle.clone(), SHORT), Asked::Pending);
        }
        let state = pool.shared.lock();
        assert!(state.open.values().filter(|open| open.running).count() <= MAX_STUCK_PER_MOUNT);
        drop(state);
        for _ in 0..100 {
            assert_eq!(
                pool.ask("t", Riddle { path: Some("/x"), ..Riddle::quick("alive") }, LONG),
                Asked::Answer(1)
            );
        }
        // All are answered once the mount is back.
        dead.iter().for_each(|riddle| riddle.open(Some(1)));
        let begun = Instant::now();
        while dead.iter().any(|riddle| pool.ask(riddle.name, riddle.clone(), SHORT) != Asked::Answer(1)) {
            assert!(begun.elapsed() < LONG);
            std::thread::sleep(SHORT);
        }
    }

    #[test]
    fn a_mount_point_is_found_by_its_letters() {
        assert_eq!(mount_point(b"/proc/self/status"), b"/proc");
        assert_eq!(mount_point(b"/procession"), b"/");
    }
}
