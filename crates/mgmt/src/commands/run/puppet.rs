//! From a manifest to the engine: another graph whenever something that it was compiled from changes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use mgmt_engine::PathWatch;
use mgmt_puppet_process::{Compiled, PuppetError};
use mgmt_resource::ResourceGraph;
use mgmt_watch::WatchPath;
use tokio::sync::{Notify, oneshot};

use super::follow::{Triggers, settle, swapped};
use super::{Means, Unswapped};
use crate::failure::Failure;
use crate::manifest::{Attempt, Manifest, Sources};
use crate::terminal::Terminal;

/// A manifest that can run, and what it was made from.
#[derive(Clone)]
pub(super) struct Loaded {
    pub(super) manifest: Manifest,
    graph: ResourceGraph,
    name: String,
    sources: Sources,
}

impl Loaded {
    /// Compiles a manifest, and shows what is wrong with it.
    pub(super) async fn new(manifest: Manifest, terminal: &Terminal) -> Result<Loaded, Failure> {
        let attempt = manifest.load(terminal).await;
        let sources = attempt.sources.clone();
        let (graph, name) = attempt.into_graph()?;
        Ok(Loaded { manifest, graph, name, sources })
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
        let Loaded { manifest, graph, name, mut sources } = loaded;
        let changed = Arc::new(Notify::new());
        let outcome = match means.swap(&name, graph).await {
            Ok(report) => {
                swapped(&name, report, &means.drawings, false);
                Ok(())
            }
            // The session was told to end meanwhile, and that is not the graph's mistake.
            Err(Unswapped::Stopped) => return,
            Err(Unswapped::Refused(failure)) => Err(failure),
        };
        let goes_on = outcome.is_ok();
        // The session may be gone already.
        let _ = started.send(outcome);
        if !goes_on {
            return;
        }
        let mut watching = Watching::new();
        // Nothing is known of what ran before us, so the first compile of our own counts as another one.
        let mut last = None;
        loop {
            if means.watch && watch(&means, &sources, &mut watching, &changed) {
                // What has changed between the compile and the watch is found by compiling again.
                changed.notify_one();
            }
            let asked = tokio::select! {
                () = triggers.asked() => true,
                () = changed.notified() => { settle(&changed).await; false }
            };
            let compiled = manifest.compile().await;
            let fresh = compiled.as_ref().ok().map(fingerprint);
            if let (Ok(compiled), false) = (&compiled, asked)
                && fresh == last
            {
                // The same as before; but perhaps made from other files.
                sources = listed(compiled, sources);
                continue;
            }
            sources = bring(&means, &manifest, compiled, &mut last, fresh).await;
        }
    }
}

/// Gives the engine the graph of what was compiled, or says why there is none. Gives what it was made from.
async fn bring(
    means: &Means,
    manifest: &Manifest,
    compiled: Result<Compiled, PuppetError>,
    last: &mut Option<u64>,
    fresh: Option<u64>,
) -> Sources {
    tracing::info!("compiling {} again", manifest.name());
    let Attempt { graph, sources, .. } = manifest.finish(compiled, &means.terminal).await;
    let Some((graph, name)) = graph else {
        tracing::error!("{} is not right; the present graph goes on", manifest.name());
        *last = None;
        return sources;
    };
    match means.swap(&name, graph).await {
        Ok(report) => {
            swapped(&name, report, &means.drawings, false);
            *last = fresh;
        }
        Err(Unswapped::Stopped) => {}
        Err(Unswapped::Refused(failure)) => {
            means.terminal.failure(&failure);
            tracing::error!("{} is not right; the present graph goes on", manifest.name());
            *last = None;
        }
    }
    sources
}

/// What was compiled is the same if its resources and their order are.
fn fingerprint(compiled: &Compiled) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    compiled.catalogue["resources"].to_string().hash(&mut hasher);
    compiled.catalogue["edges"].to_string().hash(&mut hasher);
    compiled.relations.iter().for_each(|relation| format!("{relation:?}").hash(&mut hasher));
    hasher.finish()
}

/// What a compile has looked at, besides what is known.
fn listed(compiled: &Compiled, mut sources: Sources) -> Sources {
    sources.files.extend(compiled.files.iter().chain(&compiled.absent).cloned());
    sources.directories.extend(compiled.directories.iter().cloned());
    for list in [&mut sources.files, &mut sources.directories] {
        list.sort();
        list.dedup();
    }
    sources
}

/// Watches all sources, and nothing else. Says whether there is one that was not watched before.
fn watch(means: &Means, sources: &Sources, watching: &mut Watching, changed: &Arc<Notify>) -> bool {
    let files = sources.files.iter().map(|path| (path, false));
    let directories = sources.directories.iter().map(|path| (path, true));
    let mut wanted = Vec::new();
    for (path, whole) in files.chain(directories) {
        for path in [std::path::absolute(path), path.canonicalize()].into_iter().flatten() {
            wanted.push((path, whole));
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
