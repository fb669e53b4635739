//! From a program to the engine: another graph whenever a value changes, another program whenever its text does.

mod report;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mgmt_diagnostics::Diagnostic;
use mgmt_engine::PathWatch;
use mgmt_lang::module::{Entry, is_embedded};
use mgmt_lang::{Checked, Inheritance, Outcome, Running};
use mgmt_watch::WatchPath;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::follow::{Triggers, settle, swapped};
use super::{Means, Unswapped};
use crate::commands::exit_codes;
use crate::failure::Failure;
use crate::program;
use crate::program::deployed::Deployed;
use crate::program::events::Sources;
use crate::program::surroundings::Surroundings;
use crate::terminal::Terminal;
use report::Report;

/// A program that can run, and where it came from.
#[derive(Clone)]
pub(super) struct Loaded {
    pub(super) entry: Entry,
    pub(super) options: program::Options,
    pub(super) checked: Arc<Checked>,
    /// Where its errors are shown until it has run.
    pub(super) terminal: Terminal,
}

impl Loaded {
    /// Reads and checks a program, and shows what is wrong with it.
    pub(super) fn new(
        entry: Entry,
        options: program::Options,
        terminal: &Terminal,
    ) -> Result<Loaded, Failure> {
        program::memory_to_check(&entry);
        let checked = check(&entry, &options, terminal)?;
        Ok(Loaded { entry, options, checked: Arc::new(checked), terminal: terminal.clone() })
    }

    /// Its text can be read again.
    pub(super) fn is_in_files(&self) -> bool {
        matches!(self.entry, Entry::File(_) | Entry::Directory(_) | Entry::Metadata(_))
    }
}

fn check(entry: &Entry, options: &program::Options, terminal: &Terminal) -> Result<Checked, Failure> {
    let checked = program::check(entry, options).map_err(|error| {
        program::show_missing(&error, terminal);
        Failure::shown_as(exit_codes::USAGE, error.to_string())
    })?;
    terminal.diagnostics(&checked.diagnostics, &checked.sources);
    match checked.is_right() {
        true => Ok(checked),
        false => Err(Failure::shown_as(exit_codes::USAGE, first_error(&checked.diagnostics))),
    }
}

/// The first error, in one line.
fn first_error(diagnostics: &[Diagnostic]) -> &str {
    let first = diagnostics.iter().find(|diagnostic| diagnostic.is_error());
    first.map_or("the program has errors", |first| &first.message)
}

/// What the last program of this run declared, be it another deploy: a resource that has no value yet in the next program stays as
/// it was declared in that one.
#[derive(Clone, Default)]
pub(super) struct Heritage(Arc<Mutex<Inheritance>>);

impl Heritage {
    fn get(&self) -> Inheritance {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, inheritance: Inheritance) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = inheritance;
    }
}

/// A program that runs, and is let go of on a thread of its own: nobody has to wait until all its memory is given back.
struct Large {
    running: Option<Box<Running>>,
    /// The engine runs a graph of it.
    is_accepted: bool,
    heritage: Heritage,
}

impl Large {
    fn new(running: Running, heritage: Heritage) -> Large {
        Large { running: Some(Box::new(running)), is_accepted: false, heritage }
    }
}

impl std::ops::Deref for Large {
    type Target = Running;

    #[allow(clippy::expect_used, reason = "it is there until it is dropped")]
    fn deref(&self) -> &Running {
        self.running.as_deref().expect("it is dropped once")
    }
}

impl std::ops::DerefMut for Large {
    #[allow(clippy::expect_used, reason = "it is there until it is dropped")]
    fn deref_mut(&mut self) -> &mut Running {
        self.running.as_deref_mut().expect("it is dropped once")
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        let mut running = self.running.take();
        // What it holds of the host is gone before the process is.
        if mgmt_sys::memory::is_last_moment() {
            return drop(running);
        }
        if let Some(running) = running.as_mut().filter(|_| self.is_accepted) {
            self.heritage.set(running.leave());
        }
        // Without a thread, it goes here and now.
        let _ = std::thread::Builder::new().name("mgmt-let-go".into()).spawn(move || drop(running));
    }
}

/// The files that are watched.
type Watching = HashMap<PathBuf, PathWatch>;

/// Brings the graphs of a program to the engine.
pub(super) struct Follower {
    pub(super) means: Means,
    pub(super) loaded: Loaded,
}

impl Follower {
    /// Runs the program, tells how its first graph went, and goes on until it is aborted.
    pub(super) async fn follow(mut self, triggers: Triggers, started: oneshot::Sender<Result<(), Failure>>) {
        let changed = Arc::new(Notify::new());
        let mut started = Some(started);
        let mut report = Report::new(self.means.clone(), self.loaded.terminal.clone());
        program::memory_to_run(&self.loaded.checked);
        loop {
            // The first graph of a program is news; those that follow from its values are its life.
            let mut fresh = Some(Instant::now());
            let mut watching = self.watch_texts(&changed);
            let checked = Arc::clone(&self.loaded.checked);
            let Means { host, shared, .. } = &self.means;
            let surroundings = Arc::new(Surroundings::of(host, shared, checked.deploy.clone()));
            let mut sources = Sources::new(Some(Arc::clone(&self.means.engine)), Arc::clone(&surroundings));
            let deploy = Arc::clone(&surroundings);
            self.means.host.program_files.send_replace(Some(Arc::new(Deployed(checked.deploy.clone()))));
            let heritage = self.means.heritage.clone();
            let running = tokio::task::block_in_place(|| {
                let mut running = Running::new(checked, mgmt_resources::KINDS, surroundings);
                running.inherit(heritage.get());
                running
            });
            let mut running = Large::new(running, heritage);
            let happenings = Arc::clone(&sources.happenings);
            let next = 'values: loop {
                deploy.look_at_the_clock();
                self.bring(&mut running, &mut started, &mut fresh, &mut report).await;
                if fresh.is_none() && !std::mem::replace(&mut running.is_accepted, true) {
                    // It has taken over what it needs.
                    self.means.heritage.set(Inheritance::default());
                }
                report.tell(&self.loaded.checked.sources);
                sources.apply(running.watch_changes());
                self.watch_deploy(&deploy, &mut watching, &changed);
                loop {
                    let asked = tokio::select! {
                        happened = happenings.next() => {
                            happened.tell(&mut running);
                            continue 'values;
                        }
                        () = due(report.next_notice(fresh)) => {
                            report.say_pending(&self.loaded.checked.sources);
                            report.tell(&self.loaded.checked.sources);
                            if fresh.is_some_and(|since| !report.waits(since)) {
                                continue 'values;
                            }
                            continue;
                        }
                        () = self.means.retry_values.notified() => {
                            sources.retry();
                            continue;
                        }
                        () = triggers.asked() => true,
                        () = changed.notified() => { settle(&changed).await; false }
                    };
                    let read = self.look_again(asked, &deploy, &mut report);
                    report.tell(&self.loaded.checked.sources);
                    if let Some(next) = read {
                        // An edit is one of a program that has begun, whatever becomes of it.
                        let is_edited = !asked || texts(&next) != texts(&self.loaded.checked);
                        if is_edited && let Some(started) = started.take() {
                            // The session may be gone already.
                            let _ = started.send(Ok(()));
                        }
                        break 'values next;
                    }
                    if asked {
                        sources.retry();
                    }
                }
            };
            drop(watching);
            drop(running);
            report.begin();
            self.loaded.checked = Arc::new(next);
        }
    }

    /// Brings the program up to date and gives the engine what has changed, or says why there is nothing to give.
    async fn bring(
        &self,
        running: &mut Running,
        started: &mut Option<oneshot::Sender<Result<(), Failure>>>,
        fresh: &mut Option<Instant>,
        report: &mut Report,
    ) {
        let sources = &self.loaded.checked.sources;
        if report.has_graph() {
            running.freeze_constants();
        }
        let mut outcome = tokio::task::block_in_place(|| running.stabilize());
        report.stabilized(running, sources);
        let is_wrong = matches!(outcome, Outcome::Wrong(_));
        if fresh.is_some_and(|since| report.waits(since)) && !is_wrong {
            running.was_refused();
            return;
        }
        if report.needs_graph() && matches!(outcome, Outcome::Unchanged | Outcome::Changed(_)) {
            outcome = tokio::task::block_in_place(|| running.whole());
        }
        let answer = loop {
            break match outcome {
                Outcome::Unchanged => Ok(()),
                // Values that are not there yet do not keep the others from running.
                Outcome::Waiting => return,
                Outcome::Changed(change) if !change.is_of_parameters() => {
                    outcome = tokio::task::block_in_place(|| running.whole());
                    continue;
                }
                Outcome::Changed(change) => match self.means.adjust(change.changed).await {
                    Ok(Some(report)) => {
                        tracing::debug!("{} resources adjusted in {:.1?}", report.changed, report.took);
                        Ok(())
                    }
                    Ok(None) => {
                        outcome = tokio::task::block_in_place(|| running.whole());
                        continue;
                    }
                    Err(Unswapped::Stopped) => return,
                    Err(Unswapped::Refused(failure)) => Err(failure),
                },
                Outcome::Graph(graph) => {
                    let (_, source) = sources.iter().next().unzip();
                    let name = source.map_or("program", |source| &source.name);
                    report.hands_over();
                    match self.means.swap(name, graph).await {
                        Ok(report) => {
                            swapped(name, report, &self.means.drawings, fresh.take().is_none());
                            Ok(())
                        }
                        Err(Unswapped::Stopped) => return,
                        Err(Unswapped::Refused(failure)) => Err(failure),
                    }
                }
                Outcome::Wrong(wrong) => Err(report.wrong(&wrong, sources)),
            };
        };
        match &answer {
            Ok(()) => report.taken(sources),
            Err(failure) => {
                running.was_refused();
                if !is_wrong {
                    report.refused(failure);
                }
            }
        }
        if let Some(started) = started.take() {
            // The session may be gone already, if it was told to end meanwhile.
            let _ = started.send(answer);
        }
    }

    /// Reads the program again. Whatever is wrong with it is shown, and the present one goes on.
    fn look_again(&self, asked: bool, deploy: &Surroundings, report: &mut Report) -> Option<Checked> {
        let old = &self.loaded.checked;
        let read = tokio::task::block_in_place(|| program::check(&self.loaded.entry, &self.loaded.options));
        if let Ok(new) = &read
            && !asked
            && texts(new) == texts(old)
            && !deploy.deploy_has_changed()
        {
            report.valid();
            return None;
        }
        tracing::info!("reading the program again");
        let error = match read {
            Ok(new) => {
                self.means.terminal.diagnostics(&new.diagnostics, &new.sources);
                if new.is_right() {
                    return Some(new);
                }
                let first = new.diagnostics.iter().find(|found| found.is_error());
                first.map(|first| report::described(first, &new.sources)).unwrap_or_default()
            }
            Err(error) => {
                program::show_missing(&error, &self.means.terminal);
                error.to_string()
            }
        };
        report.invalid(error);
        None
    }

    /// Watches all texts of the program that can change.
    fn watch_texts(&self, changed: &Arc<Notify>) -> Watching {
        let mut watching = Watching::default();
        if !self.means.watch || !self.loaded.is_in_files() {
            return watching;
        }
        let names = self.loaded.checked.sources.iter().map(|(_, source)| Path::new(&*source.name));
        for name in names.filter(|name| !is_embedded(name)) {
            self.watch_file(name, &mut watching, changed);
        }
        watching
    }

    /// Watches what functions have looked at in the deploy.
    fn watch_deploy(&self, deploy: &Surroundings, watching: &mut Watching, changed: &Arc<Notify>) {
        if !self.means.watch || !self.loaded.is_in_files() {
            return;
        }
        let known = watching.len();
        for path in deploy.deployed() {
            self.watch_file(&path, watching, changed);
        }
        if watching.len() > known {
            // What happened between the look and now is looked at again.
            changed.notify_one();
        }
    }

    /// Watches a file by its name, and where that leads.
    fn watch_file(&self, path: &Path, watching: &mut Watching, changed: &Arc<Notify>) {
        for path in [std::path::absolute(path), path.canonicalize()].into_iter().flatten() {
            if watching.contains_key(&path) {
                continue;
            }
            let Ok(place) = WatchPath::new(&path, false) else { continue };
            let changed = Arc::clone(changed);
            watching.insert(path, self.means.engine.watch_path(&place, move || changed.notify_one()));
        }
    }
}

/// The files of a program, with their texts.
fn texts(checked: &Checked) -> Vec<(&str, &str)> {
    checked.sources.iter().map(|(_, source)| (&*source.name, &*source.text)).collect()
}

/// Waits until a time, or for ever.
async fn due(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
