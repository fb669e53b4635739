//! From what the engine tells to what is kept.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use mgmt_engine::{Cause, Ended, Health, Ran, Undone, Witness};
use mgmt_resource::{Id, Spec};

use crate::line::{Clock, Entry, Kept};
use crate::{Journal, Outcome};

/// More than this many records do not wait: then the disk cannot follow at all.
const MOST_WAITING: usize = 1 << 18;
/// How often the disk is asked to keep what was written.
const SYNC: Duration = Duration::from_secs(1);
/// How long the writer rests after a write. The first of many records is written at once, those that come meanwhile
/// together: a burst costs a few writes, and whoever has something to tell wakes nobody.
const REST: Duration = Duration::from_millis(10);

/// So many transitions of a resource, or of the host, are recorded within [`TRANSITION_WINDOW`].
const MAX_TRANSITIONS: u32 = 20;
const TRANSITION_WINDOW: Duration = Duration::from_secs(600);

/// Keeps what the engine tells.
pub struct Recorder {
    shared: Arc<Shared>,
    /// The deploy that runs; 0 for none.
    deploy: AtomicU64,
    /// The last error of each resource that fails, so that one is not told again with each attempt.
    errors: Mutex<HashMap<Id, Known>>,
    /// How many transitions of each resource were recorded lately.
    transitions: Mutex<HashMap<Id, (Instant, u32)>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The error of a resource that fails.
struct Known {
    error: String,
    /// It failed with the group that it is in, of which the record is.
    is_member: bool,
}

struct Shared {
    // Held while a line is written into memory, or what waits is swapped.
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: Waiting,
    clock: Clock,
    /// How many were not taken.
    lost: u64,
    asleep: bool,
    ended: bool,
}

/// What is to be written. There are two of these, which change places: memory that goes to and fro costs nothing, memory that is
/// given back by another thread than it was taken by costs more than the whole rest.
#[derive(Default)]
struct Waiting {
    /// Most records are written where they are told, which takes less time than to hand them over.
    lines: Vec<u8>,
    /// Those for which texts have to be compared, which may take a while, and before which byte of the lines each belongs.
    later: Vec<(usize, Kept)>,
    /// How many records that is.
    records: usize,
}

impl Waiting {
    fn put(&mut self, entry: &Entry<'_>, clock: &mut Clock) {
        self.records += 1;
        match entry.is_short() {
            true => entry.write(clock, &mut self.lines),
            false => self.later.push((self.lines.len(), entry.keep())),
        }
    }

    /// All of it in its order.
    fn text(&mut self, clock: &mut Clock) -> Cow<'_, [u8]> {
        if self.later.is_empty() {
            return Cow::Borrowed(&self.lines);
        }
        let (mut text, mut from) = (Vec::new(), 0);
        for (at, kept) in self.later.drain(..) {
            text.extend_from_slice(&self.lines[from..at]);
            kept.entry().write(clock, &mut text);
            from = at;
        }
        text.extend_from_slice(&self.lines[from..]);
        Cow::Owned(text)
    }

    fn clear(&mut self) {
        self.lines.clear();
        self.lines.shrink_to(1 << 20);
        self.later.clear();
        self.later.shrink_to(1 << 10);
        self.records = 0;
    }
}

impl Recorder {
    /// Begins to keep what it is told.
    ///
    /// # Errors
    ///
    /// No thread can be started.
    pub fn start(journal: Journal) -> io::Result<Recorder> {
        let shared = Arc::new(Shared { queue: Mutex::default(), arrived: Condvar::new() });
        let writer = Writer { journal, shared: Arc::clone(&shared), synced: Instant::now(), troubled: false };
        let thread = std::thread::Builder::new().name("mgmt-history".into()).spawn(|| writer.run())?;
        Ok(Recorder {
            shared,
            deploy: AtomicU64::new(0),
            errors: Mutex::default(),
            transitions: Mutex::default(),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// The deploy that runs from now on; 0 for none.
    pub fn deploy(&self, number: u64) {
        self.deploy.store(number, Ordering::Relaxed);
    }

    /// Waits until everything is written that it was told. From then on it keeps nothing.
    pub fn finish(&self) {
        self.shared.lock().ended = true;
        self.shared.arrived.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic there has been told by the thread itself.
            let _ = thread.join();
        }
    }

    fn push(&self, entry: &Entry<'_>) {
        let mut queue = self.shared.lock();
        let Queue { waiting, clock, lost, .. } = &mut *queue;
        if waiting.records >= MOST_WAITING {
            *lost += 1;
            return;
        }
        waiting.put(entry, clock);
        let wake = std::mem::take(&mut queue.asleep);
        drop(queue);
        if wake {
            self.shared.arrived.notify_one();
        }
    }

    fn errors(&self) -> MutexGuard<'_, HashMap<Id, Known>> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing in here can be left half changed by a panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Witness for Recorder {
    fn graph(&self, resources: &mut dyn Iterator<Item = &Id>) {
        let mut errors = self.errors();
        if !errors.is_empty() {
            let mut still = HashMap::new();
            still.extend(resources.filter_map(|id| errors.remove_entry(id)));
            *errors = still;
        }
    }

    fn ran(&self, run: Ran<'_>) {
        let outcome = match run.ended {
            Ended::Right => return,
            Ended::Changed if run.apply => Outcome::Changed,
            Ended::Changed => return,
            Ended::Failed => Outcome::Failed,
        };
        if let Some(error) = run.error {
            let known = |is_member| Known { error: error.to_owned(), is_member };
            let mut errors = self.errors();
            for child in &run.spec.children {
                errors.insert(child.id.clone(), known(true));
            }
            if errors.insert(run.id.clone(), known(false)).is_some_and(|known| known.error == error) {
                return;
            }
        }
        self.push(&Entry {
            time: SystemTime::now(),
            id: run.id,
            outcome,
            message: run.error,
            took: run.took,
            since: run.since,
            deploy: self.deploy.load(Ordering::Relaxed),
            origin: run.spec.origin.as_ref(),
            causes: run.causes,
            effects: run.effects,
            private: run.causes.iter().any(|cause| reaches_secret(cause, run.spec)),
        });
    }

    fn health(&self, id: &Id, health: Health<'_>) {
        match health {
            // What a run has changed is recorded as that.
            Health::Changed => drop(self.errors().remove(id)),
            Health::Ok | Health::WouldChange => {
                let recovered = self.errors().remove(id).is_some_and(|known| !known.is_member);
                if recovered && self.may_record(id) {
                    self.transition(id, Outcome::Recovered, None);
                }
            }
            Health::Retrying { error, .. } | Health::Failed { error, .. } => {
                // The error of a run is known by now. This one is of a watch, or of values that could not be received.
                let mut errors = self.errors();
                if errors.get(id).is_some_and(|known| error.starts_with(&known.error)) {
                    return;
                }
                errors.insert(id.clone(), Known { error: error.to_owned(), is_member: false });
                drop(errors);
                if self.may_record(id) {
                    self.transition(id, Outcome::Failed, Some(error));
                }
            }
            Health::Flapping(undone) => {
                let who = undone.by.map_or_else(|| "an external process".to_owned(), ToString::to_string);
                let Undone { times, wait, .. } = undone;
                let message = format!("flapping: reverted by {who} {times} times; backing off {wait:?}");
                self.transition(undone.id, Outcome::Undone, Some(&message));
            }
        }
    }
}

impl Recorder {
    /// The state of this host is another: the line that `status` and the log have.
    pub fn host(&self, name: &str, summary: &str) {
        let id = Id::new("host", name);
        if self.may_record(&id) {
            self.transition(&id, Outcome::State, Some(summary));
        }
    }

    /// Whether a transition of this resource is still recorded: one that fails and recovers all the time is not each time.
    fn may_record(&self, id: &Id) -> bool {
        let mut transitions = self.transitions.lock().unwrap_or_else(PoisonError::into_inner);
        transitions.retain(|_, (since, _)| since.elapsed() < TRANSITION_WINDOW);
        let (_, count) = transitions.entry(id.clone()).or_insert_with(|| (Instant::now(), 0));
        *count += 1;
        *count <= MAX_TRANSITIONS
    }

    /// Records that a resource is in another state, without a run.
    fn transition(&self, id: &Id, outcome: Outcome, message: Option<&str>) {
        self.push(&Entry {
            time: SystemTime::now(),
            id,
            outcome,
            message,
            took: Duration::ZERO,
            since: None,
            deploy: self.deploy.load(Ordering::Relaxed),
            origin: None,
            causes: &[],
            effects: &Arc::default(),
            private: false,
        });
    }
}

/// Everything that was told is written before this is gone.
impl Drop for Recorder {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The other side of the queue.
struct Writer {
    journal: Journal,
    shared: Arc<Shared>,
    synced: Instant,
    /// The last attempt to write has failed, and that was told.
    troubled: bool,
}

impl Writer {
    fn run(mut self) {
        let (mut waiting, mut clock) = (Waiting::default(), Clock::default());
        let (mut unsynced, mut wrote) = (false, false);
        loop {
            let ended = self.wait(&mut waiting, unsynced, wrote);
            wrote = waiting.records > 0;
            if wrote {
                let written = self.journal.append(&waiting.text(&mut clock));
                unsynced |= written.is_ok();
                self.told(written);
                waiting.clear();
            }
            if unsynced && (ended || self.synced.elapsed() >= SYNC) {
                let synced = self.journal.sync();
                self.told(synced);
                (self.synced, unsynced) = (Instant::now(), false);
            }
            if ended {
                return;
            }
        }
    }

    /// Waits until there is something to do. True: there will be nothing more.
    fn wait(&self, waiting: &mut Waiting, unsynced: bool, wrote: bool) -> bool {
        let mut queue = self.shared.lock();
        if wrote {
            let rest = self.shared.arrived.wait_timeout_while(queue, REST, |queue| !queue.ended);
            queue = rest.unwrap_or_else(PoisonError::into_inner).0;
        }
        while queue.waiting.records == 0 && !queue.ended {
            queue.asleep = true;
            let wait = &self.shared.arrived;
            if unsynced {
                let left = SYNC.saturating_sub(self.synced.elapsed());
                let (woken, timeout) = wait.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner);
                queue = woken;
                if timeout.timed_out() {
                    break;
                }
            } else {
                queue = wait.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
        queue.asleep = false;
        std::mem::swap(&mut queue.waiting, waiting);
        let (lost, ended) = (std::mem::take(&mut queue.lost), queue.ended);
        drop(queue);
        if lost > 0 {
            tracing::warn!(target: "mgmt::history", "{lost} changes are not in the history: too many at once");
        }
        ended
    }

    /// A disk that cannot is a warning, once, and never more than that.
    fn told(&mut self, result: io::Result<()>) {
        match result {
            Err(error) if !self.troubled => {
                let place = self.journal.directory().display();
                tracing::warn!(
                    target: "mgmt::history",
                    "cannot write the history in {place}: {error}; changes are made, but not recorded"
                );
                self.troubled = true;
            }
            Err(_) => {}
            Ok(()) if std::mem::take(&mut self.troubled) => {
                tracing::info!(target: "mgmt::history", "changes are recorded again");
            }
            Ok(()) => {}
        }
    }
}

/// Whether values of the program that led to a run may be in a secret parameter of the resource or of its group.
fn reaches_secret(cause: &Cause, spec: &Spec) -> bool {
    match cause {
        // Of a secret, it is not even told what it was and is.
        Cause::Redeclared { fields, .. } => {
            fields.iter().any(|field| field.before.is_none() && field.after.is_none())
        }
        Cause::Declared { because: Some(because) } if !because.values.is_empty() => {
            std::iter::once(spec).chain(&spec.children).any(|spec| {
                let mut secret = spec.resource.schema().fields.iter().filter(|field| field.secret);
                let is_given = |text: &str| !matches!(text, "\"\"" | "[]" | "{}");
                secret.any(|field| {
                    spec.resource.get(field.name).is_some_and(|value| is_given(&value.to_string()))
                })
            })
        }
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
mod tests {
    use mgmt_engine::MemberEffects;
    use mgmt_resource::Effect;

    use super::*;
    use crate::Record;

    #[test]
    fn failures_without_a_run_recoveries_and_states_of_the_host_are_recorded_and_do_not_flood() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path().to_owned(), crate::Limits::default()).unwrap();
        let recorder = Recorder::start(journal).unwrap();
        let id = Id::new("exec", "x");
        let retrying = |error| Health::Retrying { attempt: 1, wait: Duration::ZERO, error };
        // The same error is recorded once, and what is only said besides it is the same.
        for error in ["cannot watch: no bus", "cannot watch: no bus", "cannot watch: no bus; closed"] {
            recorder.health(&id, retrying(error));
        }
        recorder.health(&id, Health::Ok);
        recorder.health(&id, Health::Ok);
        recorder.host("h1", "degraded: 1 of 2 resources retrying");
        for _ in 0..1000 {
            recorder.health(&id, retrying("flaps"));
            recorder.health(&id, Health::Ok);
        }
        recorder.finish();
        let mut records = Vec::new();
        assert_eq!(crate::read(directory.path(), |record| records.push(record)).unwrap(), 0);
        let told = |record: &Record| {
            format!("{} {} {}", record.resource, record.outcome, record.message.as_deref().unwrap_or(""))
        };
        let first: Vec<String> = records.iter().take(3).map(told).collect();
        assert_eq!(
            first,
            [
                "exec[x] failed cannot watch: no bus",
                "exec[x] recovered ",
                "host[h1] state degraded: 1 of 2 resources retrying",
            ]
        );
        assert_eq!(records.len(), MAX_TRANSITIONS as usize + 1);
    }

    #[test]
    fn what_is_written_at_once_and_what_is_written_later_are_in_the_order_they_were_told_in() {
        let effects = |id: &Id, long: bool| {
            let effect = Effect::change("/f").aspect("content");
            let effect = if long { effect.texts(Some(b"one\n"), Some(b"two\n")) } else { effect };
            Arc::new(vec![MemberEffects { id: id.clone(), effects: vec![effect] }])
        };
        for pattern in 0..32_u32 {
            let (mut waiting, mut clock) = (Waiting::default(), Clock::default());
            // Twice, because what was cleared is used again.
            for _ in 0..2 {
                for number in 0..5 {
                    let id = Id::new("file", format!("/{number}"));
                    let entry = Entry {
                        time: SystemTime::UNIX_EPOCH,
                        id: &id,
                        outcome: Outcome::Changed,
                        message: None,
                        took: Duration::ZERO,
                        since: None,
                        deploy: 0,
                        origin: None,
                        causes: &[],
                        effects: &effects(&id, pattern >> number & 1 == 1),
                        private: false,
                    };
                    waiting.put(&entry, &mut clock);
                }
                let text = waiting.text(&mut clock).into_owned();
                let lines = std::str::from_utf8(&text).unwrap().lines();
                let records: Vec<Record> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
                for (number, record) in records.iter().enumerate() {
                    assert_eq!(*record.resource, *format!("file[/{number}]"), "{pattern:b}");
                    assert_eq!(record.effects[0].diff.is_some(), pattern >> number & 1 == 1, "{pattern:b}");
                }
                assert_eq!((records.len(), waiting.records), (5, 5));
                waiting.clear();
            }
        }
    }
}
