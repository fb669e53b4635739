//! How far a run has come, for whoever waits for it.
//!
//! On a terminal that is a few lines below the log which are drawn again while something runs (`view`), and are gone when nothing
//! does. Elsewhere it is a line of the log about each resource that takes long, at greater and greater distances.
//!
//! Nothing here wakes up while nothing runs. While something does, the lines are drawn a few times each second at most, and only if
//! they are different.

mod view;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mgmt_engine::Health;
use mgmt_resource::{Id, Spec};
use mgmt_telemetry::{Output, terminal_size};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::terminal::Terminal;
use view::{Counts, Slow, view};

/// Who sees how far a run has come. Takes what is shown away when dropped.
pub(super) struct Progress {
    shared: Arc<Shared>,
    output: Output,
    shown: JoinHandle<()>,
}

/// Between two drawings, at least.
const PAUSE: Duration = Duration::from_millis(150);

/// What is over sooner is not worth a view.
const SHORT: Duration = Duration::from_millis(500);

/// Between two drawings in which only times differ.
const SECOND: Duration = Duration::from_secs(1);

/// When a line is written, without a terminal, about what still runs; the next one after twice that time.
const LONG: Duration = Duration::from_secs(30);

struct Shared {
    state: Mutex<State>,
    /// Something began while the other side was asleep, or changed while it waited.
    changed: Notify,
    /// There is a view: count everything.
    is_live: bool,
}

#[derive(Default)]
struct State {
    resources: usize,
    /// What has been looked at, by the head of its group, and how many resources that is.
    done: HashMap<Id, usize>,
    running: HashMap<Id, Run>,
    /// Failing resources, and whether the next attempt is scheduled.
    ill: HashMap<Id, bool>,
    /// Somebody wants to know of a change.
    is_awaited: bool,
}

struct Run {
    since: Instant,
    resources: usize,
    /// When a line is due.
    due: Instant,
}

impl Progress {
    /// Begins to show, as it suits the terminal.
    pub(super) fn start(terminal: &Terminal, is_wanted: bool) -> Progress {
        let is_live = is_wanted && terminal.is_live();
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Notify::new(), is_live });
        let output = terminal.output().clone();
        let shown = match is_live {
            true => tokio::spawn(Arc::clone(&shared).show(output.clone(), terminal.color())),
            false => tokio::spawn(Arc::clone(&shared).tell()),
        };
        Progress { shared, output, shown }
    }

    /// Another graph runs.
    pub(super) fn graph(&self, resources: &mut dyn Iterator<Item = &Id>) {
        if !self.shared.is_live {
            return;
        }
        self.shared.change(|state| {
            state.resources = 0;
            let (mut done, mut ill) = (HashMap::new(), HashMap::new());
            for id in resources {
                state.resources += 1;
                done.extend(state.done.remove_entry(id));
                ill.extend(state.ill.remove_entry(id));
            }
            (state.done, state.ill) = (done, ill);
        });
    }

    pub(super) fn began(&self, spec: &Spec, waits: bool) {
        if waits || self.shared.is_live {
            let since = Instant::now();
            let run = Run { since, resources: 1 + spec.children.len(), due: since + LONG };
            self.shared.change(|state| {
                state.running.insert(spec.id.clone(), run);
            });
        }
    }

    pub(super) fn over(&self, spec: &Spec, waits: bool, well: bool) {
        if waits && !self.shared.is_live {
            self.shared.state().running.remove(&spec.id);
        } else if self.shared.is_live {
            self.shared.change(|state| {
                let run = state.running.remove(&spec.id);
                match well {
                    true => state.done.insert(spec.id.clone(), run.map_or(1, |run| run.resources)),
                    false => state.done.remove(&spec.id),
                };
            });
        }
    }

    pub(super) fn health(&self, id: &Id, health: Health<'_>) {
        if self.shared.is_live {
            self.shared.change(|state| {
                match health {
                    Health::Ok | Health::Changed | Health::WouldChange | Health::Flapping(_) => {
                        state.ill.remove(id)
                    }
                    Health::Retrying { .. } => state.ill.insert(id.clone(), true),
                    Health::Failed { .. } => state.ill.insert(id.clone(), false),
                };
            });
        }
    }

    /// Nothing more is shown.
    pub(super) fn end(&self) {
        self.shown.abort();
        if self.shared.is_live {
            self.output.footer(&[]);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        if std::mem::take(&mut state.is_awaited) {
            self.changed.notify_one();
        }
    }

    /// Waits until something runs.
    async fn asleep(&self) {
        loop {
            {
                let mut state = self.state();
                if !state.running.is_empty() {
                    return;
                }
                state.is_awaited = true;
            }
            self.changed.notified().await;
        }
    }

    /// Keeps the view up to date.
    async fn show(self: Arc<Shared>, output: Output, color: bool) {
        loop {
            self.asleep().await;
            let began = Instant::now();
            let mut was_quiet = false;
            loop {
                tokio::time::sleep(PAUSE).await;
                let (lines, is_quiet) = {
                    let mut state = self.state();
                    state.is_awaited = true;
                    (state.lines(Instant::now(), color), state.running.is_empty())
                };
                // Between two runs of a chain there may be a moment without any.
                if is_quiet && was_quiet {
                    break;
                }
                was_quiet = is_quiet;
                if began.elapsed() >= SHORT {
                    output.footer(&lines);
                }
                let time = if is_quiet || began.elapsed() < SHORT { PAUSE } else { SECOND };
                // Whichever comes first: there is a pause after either.
                let _ = tokio::time::timeout(time, self.changed.notified()).await;
            }
            output.footer(&[]);
        }
    }

    /// Writes lines about what takes long.
    async fn tell(self: Arc<Shared>) {
        loop {
            self.asleep().await;
            let Some(due) = self.state().running.values().map(|run| run.due).min() else { continue };
            tokio::time::sleep_until(due.into()).await;
            let late = self.state().late(Instant::now());
            for (id, age) in late {
                tracing::info!(target: "mgmt::engine", resource = %id, "still running after {} s", age.as_secs());
            }
        }
    }
}

impl State {
    /// What a line is due about, and for how long it has run. The next line about it comes after twice that time.
    fn late(&mut self, now: Instant) -> Vec<(Id, Duration)> {
        let mut late = Vec::new();
        for (id, run) in self.running.iter_mut().filter(|(_, run)| run.due <= now) {
            let age = now.saturating_duration_since(run.since);
            run.due = now + age;
            late.push((id.clone(), age));
        }
        late
    }

    fn lines(&self, now: Instant, color: bool) -> Vec<String> {
        let size = terminal_size().unwrap_or((80, 24));
        let ill = |scheduled| self.ill.values().filter(|is| **is == scheduled).count();
        let counts = Counts {
            resources: self.resources,
            done: self.done.values().sum(),
            running: self.running.values().map(|run| run.resources).sum(),
            failed: ill(false),
            retrying: ill(true),
        };
        let age = |run: &Run| now.saturating_duration_since(run.since);
        let mut slow: Vec<Slow<'_>> = self
            .running
            .iter()
            .map(|(id, run)| Slow { id, age: age(run) })
            .filter(|slow| slow.age >= SECOND)
            .collect();
        slow.sort_by(|a, b| b.age.cmp(&a.age).then_with(|| a.id.cmp(b.id)));
        view(&counts, &slow, size, color)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

    use super::*;

    fn spec(name: &str) -> Spec {
        Spec::new(name, mgmt_resources::noop::Noop::default())
    }

    #[tokio::test]
    async fn what_takes_long_is_told_after_half_a_minute_and_then_after_twice_that_each_time() {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Notify::new(), is_live: false });
        let output = Output::to(Box::new(std::io::sink()), Box::new(std::io::sink()));
        let progress = Progress { shared: Arc::clone(&shared), output, shown: tokio::spawn(async {}) };
        let (waits, quick) = (spec("waits"), spec("quick"));
        progress.began(&waits, true);
        progress.began(&quick, false);
        let since = shared.state().running[&waits.id].since;
        let mut told = Vec::new();
        for second in 0..=500 {
            let late = shared.state().late(since + Duration::from_secs(second));
            told.extend(late.into_iter().map(|(id, age)| (id, age.as_secs())));
        }
        let id = || waits.id.clone();
        assert_eq!(told, [(id(), 30), (id(), 60), (id(), 120), (id(), 240), (id(), 480)]);
        progress.over(&waits, true, true);
        assert!(shared.state().late(since + Duration::from_secs(10_000)).is_empty(), "it is over");
    }

    #[tokio::test]
    async fn what_began_is_running_what_is_over_is_done_and_what_is_ill_is_not() {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Notify::new(), is_live: true });
        let output = Output::to(Box::new(std::io::sink()), Box::new(std::io::sink()));
        let progress = Progress { shared: Arc::clone(&shared), output, shown: tokio::spawn(async {}) };
        let specs = ["a", "b", "c"].map(spec);
        progress.graph(&mut specs.iter().map(|spec| &spec.id));
        let first = || shared.state().lines(Instant::now(), false).first().cloned().unwrap();
        assert_eq!(first(), "0 of 3 done, 0 running, 3 waiting");
        progress.began(&specs[0], false);
        progress.began(&specs[1], true);
        assert_eq!(first(), "0 of 3 done, 2 running, 1 waiting");
        progress.over(&specs[0], false, true);
        progress.over(&specs[1], true, false);
        let retrying = Health::Retrying { attempt: 1, wait: Duration::ZERO, error: "no" };
        progress.health(&specs[1].id, retrying);
        assert_eq!(first(), "1 of 3 done, 0 running, 1 retrying, 1 waiting");
        progress.health(&specs[1].id, Health::Failed { attempt: 2, error: "no" });
        assert_eq!(first(), "1 of 3 done, 0 running, 1 failed, 1 waiting");
        // With a resource goes what is known of it.
        progress.graph(&mut specs[..1].iter().map(|spec| &spec.id));
        assert_eq!(first(), "1 of 1 done, 0 running");
    }
}
