//! From a manifest to the engine: another graph whenever something that it was compiled from changes.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgmt_engine::PathWatch;
use mgmt_health::OpenValues;
use mgmt_puppet_process::{Compiled, PuppetError};
use mgmt_resource::ResourceGraph;
use mgmt_watch::WatchPath;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use super::compile_retry::{CompileError, CompileRetry};
use super::follow::{Triggers, settle_for, swapped};
use super::{Means, Unswapped};
use crate::failure::Failure;
use crate::manifest::{Attempt, Errors, Facts, Manifest, Sources};
use crate::terminal::Terminal;

/// A manifest that can run, and what it was made from.
#[derive(Clone)]
pub(super) struct Loaded {
    pub(super) manifest: Manifest,
    /// Its graph and the name of that, or why the server has none for now.
    graph: Result<(ResourceGraph, String), String>,
    sources: Sources,
    /// What tells it from other catalogues.
    fingerprint: Option<Fingerprint>,
    /// Facts were not gathered before this.
    since: SystemTime,
}

impl Loaded {
    /// Compiles a manifest, and shows what is wrong with it.
    pub(super) async fn new(manifest: Manifest, terminal: &Terminal) -> Result<Loaded, Failure> {
        Loaded::compile(manifest, terminal, false).await
    }

    /// The same, for a run that goes on: a server that has no catalogue now is asked again later.
    pub(super) async fn new_or_later(manifest: Manifest, terminal: &Terminal) -> Result<Loaded, Failure> {
        Loaded::compile(manifest, terminal, true).await
    }

    /// Its graph, if there is one yet.
    pub(super) fn graph(&self) -> Option<&ResourceGraph> {
        self.graph.as_ref().ok().map(|(graph, _)| graph)
    }

    /// The paths that it was made from, each with whether everything below it counts.
    pub(super) fn paths(&self) -> impl Iterator<Item = (PathBuf, bool)> {
        self.sources.all().map(|(path, below)| (path.to_owned(), below))
    }

    async fn compile(manifest: Manifest, terminal: &Terminal, or_later: bool) -> Result<Loaded, Failure> {
        manifest.refuse_rival().await?;
        let since = SystemTime::now();
        let compiled = manifest.compile().await;
        let fingerprint = fingerprint(&manifest, &compiled).await;
        let no_catalogue = match &compiled {
            Err(error @ PuppetError::Server(_)) if or_later => Some(error.to_string()),
            _ => None,
        };
        let attempt = manifest.finish(compiled, terminal, Errors::Always).await;
        let sources = attempt.sources.clone();
        let graph = match no_catalogue {
            Some(why) => Err(why),
            None => Ok(attempt.into_graph()?),
        };
        Ok(Loaded { manifest, graph, sources, fingerprint, since })
    }
}

/// The paths that are watched.
type Watching = HashMap<(PathBuf, bool), PathWatch>;

/// Brings the graphs of a manifest to the engine.
pub(super) struct Follower {
    pub(super) means: Means,
    pub(super) loaded: Loaded,
}

impl Follower {
    /// Runs the first graph, tells how that went, and follows what it was made from until it is aborted.
    pub(super) async fn follow(self, triggers: Triggers, started: oneshot::Sender<Result<(), Failure>>) {
        let Follower { means, loaded } = self;
        let Loaded { manifest, graph, mut sources, fingerprint: mut last, since } = loaded;
        let changed = Arc::new(Notify::new());
        let mut retry = CompileRetry::default();
        let outcome = match graph {
            Ok((graph, name)) => match means.swap(&name, graph).await {
                Ok(report) => {
                    swapped(&name, report, &means.drawings, false);
                    Ok(())
                }
                // The session was told to end meanwhile, and that is not the graph's mistake.
                Err(Unswapped::Stopped) => return,
                Err(Unswapped::Refused(failure)) => Err(failure),
            },
            Err(why) => {
                retry.failed(CompileError::Unavailable(why));
                Ok(())
            }
        };
        if outcome.is_ok() {
            means.report_program(retry.state(), OpenValues::default());
        }
        let goes_on = outcome.is_ok();
        let mut has_graph = retry.delay(false).is_none();
        // The session may be gone already.
        let _ = started.send(outcome);
        if !goes_on {
            return;
        }
        let (mut watching, mut watching_facts) = (Watching::new(), Watching::new());
        let stale = Arc::new(Notify::new());
        // It ends with this.
        let mut facts = JoinSet::new();
        facts.spawn(follow_facts(manifest.clone(), Arc::clone(&stale), Arc::clone(&changed)));
        let mut known = since;
        let mut settings_told = last.as_ref().map_or(0, |last| last.settings);
        loop {
            let facts = sources.facts.iter().map(|path| (path.as_path(), true));
            if means.watch && watch(&means, facts, &mut watching_facts, &stale) {
                // What has changed before it was watched is found by looking again, which is not for nothing.
                if sources.facts.iter().any(|path| has_changed_since(path, known)) {
                    stale.notify_one();
                }
                known = SystemTime::now();
            }
            if means.watch
                && watch(&means, sources.all(), &mut watching, &changed)
                && (sources.are_outdated() || manifest.has_other_settings().await)
            {
                // What has changed between the compile and the watch is found by compiling again.
                changed.notify_one();
            }
            let interval = if manifest.is_elsewhere() { manifest.interval().await } else { None };
            let later = retry.delay(manifest.is_elsewhere());
            if let Some(later) = later {
                tracing::info!("{}: retrying in {}s", manifest.name(), later.as_secs().max(1));
            }
            let interval = interval.into_iter().chain(later).min();
            let cause = tokio::select! {
                () = triggers.asked() => Cause::Asked,
                () = tokio::time::sleep(interval.unwrap_or_default()), if interval.is_some() => Cause::Time,
                () = changed.notified() => { settle_for(&changed, QUIET).await; Cause::Edit }
            };
            if cause != Cause::Time {
                retry.restart();
            }
            let rest = || {
                let changed = Arc::clone(&changed);
                async move { settle_for(&changed, QUIET).await }
            };
            let compile = || {
                let manifest = manifest.clone();
                async move { manifest.compile().await }
            };
            let compiled = newest(&changed, rest, compile).await;
            let fresh = fingerprint(&manifest, &compiled).await;
            // How often facts are looked at may be another matter now.
            if let Some(settings) = fresh.as_ref().map(|fresh| fresh.settings)
                && std::mem::replace(&mut settings_told, settings) != settings
            {
                stale.notify_one();
            }
            if let Ok(compiled) = &compiled
                && cause != Cause::Asked
                && fresh == last
                && !sources.has_other_contents()
            {
                // The same as before; but perhaps made from other files.
                sources = listed(compiled, sources);
                continue;
            }
            let errors = if cause == Cause::Time { Errors::OnceEach } else { Errors::Always };
            let (outcome, from) = bring(&means, &manifest, compiled, errors).await;
            sources = from;
            last = outcome.is_ok().then_some(fresh).flatten();
            match outcome {
                Ok(()) => {
                    has_graph = true;
                    retry.succeeded();
                }
                Err(None) => continue,
                Err(Some(error)) => {
                    if retry.failed(error) || cause != Cause::Time {
                        let what =
                            if has_graph { "still running the previous graph" } else { "nothing runs yet" };
                        tracing::error!("{} could not be compiled; {what}", manifest.name());
                    }
                }
            }
            means.report_program(retry.state(), OpenValues::default());
        }
    }
}

/// Why a manifest is compiled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// A person has asked.
    Asked,
    /// Something that it was made of has changed.
    Edit,
    /// It was time: a server is asked again, or a compile that has failed is tried again.
    Time,
}

/// Whether a directory, or something in it, was written later than this.
fn has_changed_since(directory: &Path, time: SystemTime) -> bool {
    let later = |path: &Path| path.metadata().and_then(|found| found.modified()).is_ok_and(|at| at >= time);
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    later(directory) || entries.map(|entry| entry.path()).any(|path| later(&path))
}

/// A change is looked at when nothing more has happened for so long. It can be short: what changes while a manifest is compiled has it compiled
/// again.
const QUIET: Duration = Duration::from_millis(20);

/// How often an answer is thrown away because it was old when it came. Whoever changes files without end is served, too.
const MOST: usize = 5;

/// Does something until nothing has changed meanwhile, so that what counts is always what was asked for last.
///
/// Nothing that is told can get lost: who tells leaves a mark that stays until it is taken here or by the next who waits, and it is taken before
/// what it tells of is looked at.
async fn newest<T, R: Future<Output = ()>, C: Future<Output = T>>(
    changed: &Notify,
    mut rest: impl FnMut() -> R,
    mut compile: impl FnMut() -> C,
) -> T {
    for _ in 0..MOST {
        let mut compiling = std::pin::pin!(compile());
        tokio::select! {
            biased;
            compiled = &mut compiling => return compiled,
            () = changed.notified() => {
                // There is one compile at a time, and this one has to end first.
                compiling.await;
                rest().await;
            }
        }
    }
    compile().await
}

/// It takes a second or more to find out what is known of a host, so that is not done more often without a reason.
const LEAST: Duration = Duration::from_secs(60);

/// Looks at what is known of this host once in a while and whenever somebody says so, and has it compiled again if it is different.
async fn follow_facts(manifest: Manifest, stale: Arc<Notify>, changed: Arc<Notify>) {
    let mut last: Option<Facts> = manifest.known_facts().await.ok();
    loop {
        let interval = manifest.interval().await.map(|interval| interval.max(LEAST));
        tokio::select! {
            () = stale.notified() => settle_for(&stale, QUIET).await,
            () = tokio::time::sleep(interval.unwrap_or_default()), if interval.is_some() => {}
        }
        match manifest.facts().await {
            Ok(facts) if last.as_ref().is_some_and(|last| last.same_as(&facts)) => {}
            Ok(facts) => {
                if let Err(error) = manifest.use_facts(&facts).await {
                    tracing::warn!("what is known of this host could not be used: {error}");
                    continue;
                }
                last = Some(facts);
                changed.notify_one();
            }
            Err(error) => tracing::warn!("what is known of this host could not be found out: {error}"),
        }
    }
}

/// Gives the engine the graph of what was compiled, or the error because of which there is none; without one, the session has ended. The
/// second is what it was made from.
async fn bring(
    means: &Means,
    manifest: &Manifest,
    compiled: Result<Compiled, PuppetError>,
    errors: Errors,
) -> (Result<(), Option<CompileError>>, Sources) {
    if errors == Errors::Always || compiled.is_ok() {
        tracing::info!("compiling {} again", manifest.name());
    }
    let attempt = manifest.finish(compiled, &means.terminal, errors).await;
    let Attempt { graph, sources, mistake, is_out_of_reach, .. } = attempt;
    let Some((graph, name)) = graph else {
        let error = mistake.unwrap_or_else(|| format!("{} has errors", manifest.name()));
        let error = match is_out_of_reach {
            true => CompileError::Unavailable(error),
            false => CompileError::Invalid(error),
        };
        return (Err(Some(error)), sources);
    };
    let outcome = match means.swap(&name, graph).await {
        Ok(report) => {
            swapped(&name, report, &means.drawings, false);
            Ok(())
        }
        Err(Unswapped::Stopped) => Err(None),
        Err(Unswapped::Refused(failure)) => {
            means.terminal.failure(&failure);
            let why = if failure.message.is_empty() { "it does not fit" } else { &failure.message };
            Err(Some(CompileError::Refused(format!("{}: {why}", manifest.name()))))
        }
    };
    (outcome, sources)
}

/// What tells a graph from others: what was compiled, and Puppet's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    catalogue: u64,
    settings: u64,
}

/// What was compiled is the same if its resources, their order and what is known of their types are.
async fn fingerprint(manifest: &Manifest, compiled: &Result<Compiled, PuppetError>) -> Option<Fingerprint> {
    let compiled = compiled.as_ref().ok()?;
    let mut catalogue = DefaultHasher::new();
    compiled.catalogue["resources"].to_string().hash(&mut catalogue);
    compiled.catalogue["edges"].to_string().hash(&mut catalogue);
    compiled.relations.iter().for_each(|relation| format!("{relation:?}").hash(&mut catalogue));
    format!("{:?}{:?}{:?}", compiled.paths, compiled.generated, compiled.types).hash(&mut catalogue);
    let mut settings = DefaultHasher::new();
    manifest.settings_told().await.hash(&mut settings);
    Some(Fingerprint { catalogue: catalogue.finish(), settings: settings.finish() })
}

/// What a compile has looked at, besides what is known.
fn listed(compiled: &Compiled, mut sources: Sources) -> Sources {
    sources.files.extend(compiled.files.iter().chain(&compiled.absent).cloned());
    sources.directories.extend(compiled.directories.iter().cloned());
    sources.facts.clone_from(&compiled.fact_directories);
    sources.seen.clone_from(&compiled.seen);
    for list in [&mut sources.files, &mut sources.directories] {
        list.sort();
        list.dedup();
    }
    sources
}

/// Watches these paths, and nothing else. Says whether there is one that was not watched before.
fn watch<'a>(
    means: &Means,
    paths: impl Iterator<Item = (&'a Path, bool)>,
    watching: &mut Watching,
    changed: &Arc<Notify>,
) -> bool {
    let mut wanted = HashSet::new();
    for (path, whole) in paths {
        for path in [std::path::absolute(path), path.canonicalize()].into_iter().flatten() {
            wanted.insert((path, whole));
        }
    }
    let mut is_new = false;
    watching.retain(|known, _| wanted.contains(known));
    for key in wanted {
        if watching.contains_key(&key) {
            continue;
        }
        let Ok(place) = WatchPath::new(&key.0, key.1) else { continue };
        let told = Arc::clone(changed);
        watching.insert(key, means.engine.watch_path(&place, move || told.notify_one()));
        is_new = true;
    }
    is_new
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Waits for a while that nobody can foresee.
    async fn a_while(random: &AtomicU64) {
        let step = |state: u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let state = random.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).unwrap_or_default();
        for _ in 0..(state >> 61) {
            tokio::task::yield_now().await;
        }
    }

    /// A source that changes while it is compiled, watched as sources are: the one who writes tells after it has written.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_change_is_lost_between_being_told_and_being_read() {
        for seed in 0..200 {
            let (source, random, changed) =
                (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(seed)), Arc::new(Notify::new()));
            let ran = Arc::new(AtomicU64::new(0));
            let follower = {
                let (source, random, changed, ran) =
                    (Arc::clone(&source), Arc::clone(&random), Arc::clone(&changed), Arc::clone(&ran));
                tokio::spawn(async move {
                    loop {
                        changed.notified().await;
                        let compile = || async {
                            a_while(&random).await;
                            let read = source.load(Ordering::SeqCst);
                            a_while(&random).await;
                            read
                        };
                        let compiled = newest(&changed, || a_while(&random), compile).await;
                        a_while(&random).await;
                        ran.store(compiled, Ordering::SeqCst);
                    }
                })
            };
            let last = 20;
            for value in 1..=last {
                source.store(value, Ordering::SeqCst);
                changed.notify_one();
                a_while(&random).await;
            }
            let patience = tokio::time::Instant::now() + Duration::from_secs(60);
            while ran.load(Ordering::SeqCst) != last {
                assert!(
                    tokio::time::Instant::now() < patience,
                    "seed {seed}: what was written last is not run"
                );
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            follower.abort();
        }
    }
}
