//! From the file to the engine: the first graph, and another one whenever the file changes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgmt_engine::{Engine, PathWatch, SwapError, SwapReport};
use mgmt_telemetry::escape;
use mgmt_watch::WatchPath;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::{Means, Unswapped};
use crate::configuration::{self, Input, Loaded};
use crate::failure::Failure;

/// Editors write a file in several steps. It is read when nothing has happened to it for so long,
const QUIET: Duration = Duration::from_millis(100);
/// or at the latest after this.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the picture of each graph is made, if anywhere.
pub(super) type Drawings = Option<watch::Sender<String>>;

/// Brings the graphs of a file to the engine.
pub(super) struct Follower {
    pub(super) means: Means,
    pub(super) input: Option<Input>,
}

/// Asks for the file to be read again.
#[derive(Clone)]
pub(super) struct Triggers {
    asked: Arc<Notify>,
    /// What runs now can be read again.
    possible: Arc<AtomicBool>,
    /// A person has asked, and it has not been done yet.
    pending: Arc<AtomicBool>,
    /// Somebody has been asked, and is at it.
    reading: Arc<AtomicBool>,
    finished: Arc<Notify>,
    /// A deploy that cannot run is to be tried again.
    retry: Arc<Notify>,
    /// There is one.
    refused: Arc<AtomicBool>,
}

impl Triggers {
    /// If there is something to read again, somebody may ask for it.
    pub(super) fn new(possible: bool) -> Triggers {
        Triggers {
            asked: Arc::default(),
            possible: Arc::new(possible.into()),
            pending: Arc::default(),
            reading: Arc::default(),
            finished: Arc::default(),
            retry: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Waits until somebody wants a deploy to be tried again that could not run.
    pub(super) async fn retry_asked(&self) {
        self.retry.notified().await;
    }

    /// Says whether there is a deploy that could not run.
    pub(super) fn set_refused(&self, refused: bool) {
        self.refused.store(refused, Ordering::Release);
    }

    /// Something else runs from now on, which can be read again or not. Where it cannot, nothing remains to be done for whoever has
    /// asked.
    pub(super) fn set_possible(&self, possible: bool) {
        self.possible.store(possible, Ordering::SeqCst);
        if !possible {
            self.done();
        }
    }

    /// Has what runs read again, without anybody who waits for it.
    pub(super) fn ask(&self) {
        self.asked.notify_one();
    }

    /// Waits until somebody asks. Whoever waits again has done what was asked before.
    pub(super) async fn asked(&self) {
        if self.reading.swap(false, Ordering::AcqRel) {
            self.done();
        }
        self.asked.notified().await;
        self.reading.store(true, Ordering::Release);
    }

    fn done(&self) {
        if self.pending.swap(false, Ordering::SeqCst) {
            self.finished.notify_one();
        }
    }

    /// Waits until what was asked for has been done.
    pub(super) async fn finished(&self) {
        loop {
            self.finished.notified().await;
            // Otherwise it was the answer to somebody before.
            if !self.pending.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// A person asked. False if there is nothing to read.
    pub(super) fn reload(&self) -> bool {
        let refused = self.refused.load(Ordering::Acquire);
        if refused {
            self.retry.notify_one();
        }
        // Before the look at what is possible: whoever changes that after the look answers.
        self.pending.store(true, Ordering::SeqCst);
        let possible = self.possible.load(Ordering::SeqCst);
        if possible {
            self.asked.notify_one();
        } else {
            self.pending.store(false, Ordering::SeqCst);
            if !refused {
                tracing::info!("SIGHUP: there is no file to read again");
            }
        }
        possible
    }
}

impl Follower {
    /// Runs the first graph, tells how that went, and follows the file from then on.
    pub(super) async fn follow(
        self,
        first: Loaded,
        triggers: Triggers,
        started: oneshot::Sender<Result<(), Failure>>,
    ) {
        let Loaded { graph, name, mut content, .. } = first;
        let changed = Arc::new(Notify::new());
        // Watching begins before the file is looked at again, so that no change is missed in between.
        let mut watching = match &self.input {
            Some(input) if self.means.watch && input.can_be_read_again() => {
                Some(Watching::new(&self.means.engine, input.path(), &changed))
            }
            _ => None,
        };
        let result = self.means.swap(&name, graph).await;
        let outcome = match result {
            Ok(report) => {
                swapped(&name, report, &self.means.drawings, false);
                self.means.told.mistake(None);
                Ok(())
            }
            // The session was told to end meanwhile, and that is not the graph's mistake.
            Err(Unswapped::Stopped) => return,
            Err(Unswapped::Refused(failure)) => {
                let error = format!("{}: {}", escape(&name), failure.reason());
                self.means.told.mistake(Some(error));
                Err(failure)
            }
        };
        // Where nobody decides what happens then, the file is followed until it can run.
        if let Err(Err(failure)) = started.send(outcome) {
            self.means.terminal.failure(&failure);
        }
        let Some(input) = self.input.clone().filter(Input::can_be_read_again) else {
            return;
        };
        let mut look = watching.is_some();
        loop {
            let asked = if look {
                false
            } else {
                tokio::select! {
                    () = triggers.asked() => true,
                    () = changed.notified() => { settle(&changed).await; false }
                }
            };
            look = false;
            if let Some(watching) = &mut watching {
                watching.renew(input.path());
            }
            self.look_again(&input, &mut content, asked).await;
        }
    }

    /// Reads the file. Whatever is wrong with it is shown, and the present graph goes on.
    async fn look_again(&self, input: &Input, content: &mut Vec<u8>, asked: bool) {
        // On this thread, like all that comes of it: another one would keep room for a text, too.
        let new = match input.read() {
            Ok(new) => new,
            Err(failure) => {
                tracing::warn!("{}; still running the previous version", failure.message);
                self.means.told.mistake(Some(failure.message));
                // No graph has this text: the file is parsed again as soon as it can be read.
                *content = vec![0];
                return;
            }
        };
        if new == *content && !asked {
            return;
        }
        tracing::info!("reading {} again", input.name());
        content.clone_from(&new);
        let parsed = tokio::task::block_in_place(|| configuration::parse(input, new, &self.means.terminal));
        let Loaded { graph, name, .. } = match parsed {
            Ok(loaded) => loaded,
            Err(failure) => {
                tracing::error!("{} has errors; still running the previous version", input.name());
                self.means.told.mistake(Some(format!("{}: {}", input.name(), failure.reason())));
                return;
            }
        };
        match self.means.swap(&name, graph).await {
            Ok(report) => {
                swapped(&name, report, &self.means.drawings, false);
                self.means.told.mistake(None);
            }
            Err(Unswapped::Stopped) => {}
            Err(Unswapped::Refused(failure)) => {
                self.means.terminal.failure(&failure);
                tracing::error!("{} has errors; still running the previous version", input.name());
                self.means.told.mistake(Some(format!("{}: {}", input.name(), failure.reason())));
            }
        }
    }
}

/// Tells of a graph that the engine runs now. One of many is told in a low voice.
pub(super) fn swapped(name: &str, report: SwapReport, drawings: &Drawings, one_of_many: bool) {
    let SwapReport { vertices, edges, added, changed, removed, automatic_edges, grouped, took, .. } = report;
    let words = format!(
        "graph {name}: {vertices} vertices ({added} new, {changed} changed, {removed} gone), {edges} edges \
         ({automatic_edges} automatic), {grouped} grouped, ready in {took:.1?}"
    );
    match one_of_many {
        true => tracing::debug!("{words}"),
        false => tracing::info!("{words}"),
    }
    for warning in &report.warnings {
        tracing::warn!("{warning}");
    }
    if let Some(drawings) = drawings {
        drawings.send_replace(report.dot);
    }
}

/// A graph that the engine would not run.
pub(super) fn refused(error: &SwapError) -> Failure {
    let failure = Failure::usage(format!("the graph cannot run: {error}"));
    match error {
        SwapError::Invalid { hint: Some(hint), .. } => failure.hint(hint),
        _ => failure,
    }
}

/// Waits until nothing has happened for a while.
pub(super) async fn settle(changed: &Notify) {
    settle_for(changed, QUIET).await;
}

/// Waits until nothing has happened for so long.
pub(super) async fn settle_for(changed: &Notify, quiet: Duration) {
    let latest = Instant::now() + PATIENCE;
    while Instant::now() < latest && timeout(quiet, changed.notified()).await.is_ok() {}
}

/// A watch on the file, and on what it links to, by the hub that serves the engine.
struct Watching {
    engine: Arc<Engine>,
    changed: Arc<Notify>,
    watches: Vec<(WatchPath, PathWatch)>,
}

impl Watching {
    fn new(engine: &Arc<Engine>, path: &Path, changed: &Arc<Notify>) -> Watching {
        let mut watching =
            Watching { engine: Arc::clone(engine), changed: Arc::clone(changed), watches: Vec::new() };
        watching.renew(path);
        watching
    }

    /// The hub does not follow the file itself if it is a link; so where it leads is watched, too.
    fn renew(&mut self, path: &Path) {
        let targets = [std::path::absolute(path), path.canonicalize()];
        let mut wanted: Vec<WatchPath> =
            targets.into_iter().flatten().filter_map(|path| WatchPath::new(path, false).ok()).collect();
        wanted.dedup();
        for path in &wanted {
            if !self.watches.iter().any(|(known, _)| known == path) {
                let changed = Arc::clone(&self.changed);
                let watch = self.engine.watch_path(path, move || changed.notify_one());
                self.watches.push((path.clone(), watch));
            }
        }
        self.watches.retain(|(known, _)| wanted.contains(known));
    }
}
