//! From what the engine tells to what is kept.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use mgmt_engine::{Cause, Ended, Health, MemberEffects, Ran, Undone, Witness};
use mgmt_resource::{Id, Origin, Spec, Texts};

use crate::record::VERSION;
use crate::{CauseRecord, EffectRecord, Journal, Outcome, Record, unified};

/// More than this many records do not wait: then the disk cannot follow at all.
const MOST_WAITING: usize = 1 << 18;
/// How often the disk is asked to keep what was written.
const SYNC: Duration = Duration::from_secs(1);
/// The longest difference of texts that is kept.
const LONGEST_DIFF: usize = 4096;

/// Keeps what the engine tells.
pub struct Recorder {
    shared: Arc<Shared>,
    /// The deploy that runs; 0 for none.
    deploy: AtomicU64,
    /// The last error of each resource that fails, so that one is not told again with each attempt.
    errors: Mutex<HashMap<Id, String>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    // Held for a push or a swap of two vectors.
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Entry>,
    /// How many were not taken.
    lost: u64,
    asleep: bool,
    ended: bool,
}

/// A record to be, with as little done to it as possible.
struct Entry {
    time: SystemTime,
    id: Id,
    outcome: Outcome,
    message: Option<String>,
    took: Duration,
    since: Option<Duration>,
    deploy: u64,
    origin: Option<Origin>,
    causes: Vec<Cause>,
    effects: Arc<Vec<MemberEffects>>,
    /// Values behind it may be in a parameter that is a secret.
    private: bool,
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
        Ok(Recorder { shared, deploy: AtomicU64::new(0), errors: Mutex::default(), thread: Some(thread) })
    }

    /// The deploy that runs from now on; 0 for none.
    pub fn deploy(&self, number: u64) {
        self.deploy.store(number, Ordering::Relaxed);
    }

    fn push(&self, entry: Entry) {
        let mut queue = self.shared.lock();
        if queue.waiting.len() >= MOST_WAITING {
            queue.lost += 1;
            return;
        }
        queue.waiting.push(entry);
        let wake = std::mem::take(&mut queue.asleep);
        drop(queue);
        if wake {
            self.shared.arrived.notify_one();
        }
    }

    fn errors(&self) -> MutexGuard<'_, HashMap<Id, String>> {
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
        if let Some(error) = run.error
            && self.errors().insert(run.id.clone(), error.to_owned()).is_some_and(|known| known == error)
        {
            return;
        }
        self.push(Entry {
            time: SystemTime::now(),
            id: run.id.clone(),
            outcome,
            message: run.error.map(str::to_owned),
            took: run.took,
            since: run.since,
            deploy: self.deploy.load(Ordering::Relaxed),
            origin: run.spec.origin.clone(),
            causes: run.causes.to_vec(),
            effects: Arc::clone(run.effects),
            private: run.causes.iter().any(|cause| reaches_secret(cause, run.spec)),
        });
    }

    fn health(&self, id: &Id, health: Health) {
        if health == Health::Well {
            self.errors().remove(id);
        }
    }

    fn undone(&self, undone: &Undone<'_>) {
        let who = undone.by.map_or_else(|| "something outside of mgmt".to_owned(), ToString::to_string);
        let Undone { times, wait, .. } = undone;
        self.push(Entry {
            time: SystemTime::now(),
            id: undone.id.clone(),
            outcome: Outcome::Undone,
            message: Some(format!("{who} undoes it: put right {times} times lately, waiting {wait:?} now")),
            took: Duration::ZERO,
            since: None,
            deploy: self.deploy.load(Ordering::Relaxed),
            origin: None,
            causes: Vec::new(),
            effects: Arc::default(),
            private: false,
        });
    }
}

/// Everything that was told is written before this is gone.
impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.arrived.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there has been told by the thread itself.
            let _ = thread.join();
        }
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
        let (mut entries, mut text) = (Vec::new(), Vec::new());
        let mut unsynced = false;
        loop {
            let ended = self.wait(&mut entries, unsynced);
            for entry in entries.drain(..) {
                // Our own types always have a form in JSON.
                if serde_json::to_writer(&mut text, &record(entry)).is_ok() {
                    text.push(b'\n');
                }
            }
            if !text.is_empty() {
                let written = self.journal.append(&text);
                unsynced |= written.is_ok();
                self.told(written);
                text.clear();
                text.shrink_to(1 << 20);
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
    fn wait(&self, entries: &mut Vec<Entry>, unsynced: bool) -> bool {
        let mut queue = self.shared.lock();
        while queue.waiting.is_empty() && !queue.ended {
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
        std::mem::swap(&mut queue.waiting, entries);
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

fn record(entry: Entry) -> Record {
    let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let mut told = entry.effects.iter().flat_map(|member| &member.effects).peekable();
    // Who failed before it said what it would change has not said either that nobody may see that.
    let is_silent = entry.outcome == Outcome::Failed && told.peek().is_none();
    let private = entry.private || is_silent || told.any(|effect| effect.private);
    let mut effects = Vec::new();
    // The engine is done with them long since.
    for member in Arc::unwrap_or_clone(entry.effects) {
        let whose = (member.id != entry.id).then(|| Box::from(member.id.to_string()));
        for mut effect in member.effects {
            let diff = effect.shown_texts().and_then(|texts| difference(&effect.what, texts));
            effect.texts = None;
            effects.push(EffectRecord { resource: whose.clone(), effect, diff });
        }
    }
    Record {
        version: VERSION,
        time: jiff::Timestamp::try_from(entry.time).unwrap_or_default(),
        resource: entry.id.to_string().into(),
        outcome: entry.outcome,
        message: entry.message.map(Box::from),
        took: microseconds(entry.took),
        since: entry.since.map(microseconds),
        deploy: Some(entry.deploy).filter(|deploy| *deploy > 0),
        origin: entry.origin.map(|origin| origin.to_string().into()),
        causes: entry.causes.iter().map(|cause| CauseRecord::new(cause, private)).collect(),
        effects,
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

/// How a text changed, if it was one and is not too long. Of what is new, the declaration tells enough.
fn difference(name: &str, texts: &Texts) -> Option<Box<str>> {
    let before = std::str::from_utf8(texts.before.as_deref()?).ok()?;
    let after = std::str::from_utf8(texts.after.as_deref()?).ok()?;
    let mut diff = unified(name, before, after);
    if diff.len() > LONGEST_DIFF {
        let end = (0..=LONGEST_DIFF).rev().find(|end| diff.is_char_boundary(*end)).unwrap_or(0);
        diff.truncate(end);
        diff.push('…');
    }
    Some(diff.into())
}
