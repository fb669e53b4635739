//! The list of managed resources, kept in the working directory for `mgmt plan`: what a new program no longer declares is compared
//! with it.
//!
//! The list is written when the set of names differs from the one that was written last, at most once in [`WRITE_DEBOUNCE`],
//! and at the end of the run.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mgmt_resource::{Id, ResourceGraph, Spec};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The file, in the engine's directory.
const FILE: &str = "managed";
const FORMAT_VERSION: u64 = 1;
/// Graphs may follow each other quickly.
const WRITE_DEBOUNCE: Duration = Duration::from_secs(1);
/// The largest list that is read.
const MAX_FILE_LEN: u64 = 256 << 20;

type Names = Arc<Vec<Id>>;

/// Keeps the list while a run goes on.
pub(crate) struct ManagedList {
    /// Which set of names was seen last.
    fingerprint: Mutex<Option<(usize, u64)>>,
    names: watch::Sender<Option<Names>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    file: Arc<ListFile>,
}

/// The file, written by one thread at a time.
struct ListFile {
    path: PathBuf,
    durable: bool,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    last: Option<Names>,
    /// The run has ended, and nothing older may follow.
    is_final: bool,
}

/// The names of a graph's resources.
pub(crate) struct ManagedNames {
    fingerprint: (usize, u64),
    names: Names,
}

impl ManagedList {
    /// Begins to keep the list below an engine's directory. To be called in a runtime.
    pub(crate) fn start(engine: &Path, durable: bool) -> ManagedList {
        let file = ListFile { path: engine.join(FILE), durable, written: Mutex::default() };
        let file = Arc::new(file);
        let (names, mut changes) = watch::channel(None::<Names>);
        let target = Arc::clone(&file);
        let writer = tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let Some(newest) = changes.borrow_and_update().clone() else { continue };
                let file = Arc::clone(&target);
                // What it gives back has been said.
                let _ = tokio::task::spawn_blocking(move || file.store(newest, false)).await;
                tokio::time::sleep(WRITE_DEBOUNCE).await;
            }
        });
        ManagedList { fingerprint: Mutex::default(), names, writer: Mutex::new(Some(writer)), file }
    }

    /// Looks at a graph that is about to run. Nothing, if its names are those of the last one.
    pub(crate) fn look(&self, graph: &ResourceGraph) -> Option<ManagedNames> {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let (mut count, mut sum) = (0_usize, 0_u64);
        for spec in declared(graph) {
            count += 1;
            sum = sum.wrapping_add(hasher.hash_one((spec.id.kind, spec.id.name.as_bytes())));
        }
        let known = *self.fingerprint.lock().unwrap_or_else(PoisonError::into_inner);
        let names = || Arc::new(declared(graph).map(|spec| spec.id.clone()).collect());
        (known != Some((count, sum))).then(|| ManagedNames { fingerprint: (count, sum), names: names() })
    }

    /// The graph of these names runs.
    pub(crate) fn record(&self, names: ManagedNames) {
        *self.fingerprint.lock().unwrap_or_else(PoisonError::into_inner) = Some(names.fingerprint);
        self.names.send_replace(Some(names.names));
    }

    /// Writes what has not been written, at the end of a run.
    pub(crate) fn finish(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            writer.abort();
        }
        let names = self.names.borrow().clone();
        if let Some(names) = names {
            self.file.store(names, true);
        }
    }
}

/// The resources that a graph has this host manage, those in groups included.
fn declared(graph: &ResourceGraph) -> impl Iterator<Item = &Spec> {
    let all = graph.nodes().flat_map(|(_, spec)| std::iter::once(spec).chain(&spec.children));
    all.filter(|spec| !spec.meta.hidden)
}

impl ListFile {
    /// Writes the list, unless that has been done. One that cannot be written is no reason not to work.
    fn store(&self, names: Names, is_final: bool) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.is_final {
            return;
        }
        written.is_final = is_final;
        if written.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &names)) {
            return;
        }
        if let Err(error) = self.write(&names) {
            tracing::warn!("cannot write the list of managed resources {}: {error}", self.path.display());
        }
        written.last = Some(names);
    }

    fn write(&self, names: &[Id]) -> std::io::Result<()> {
        let names: BTreeSet<String> = names.iter().map(ToString::to_string).collect();
        let list = json!({ "format_version": FORMAT_VERSION, "resources": names });
        let text = mgmt_telemetry::json_line(&list);
        // A run that is started again mostly manages the same.
        if std::fs::read(&self.path).is_ok_and(|known| known == text.as_bytes()) {
            return Ok(());
        }
        let new = self.path.with_extension("new");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        if self.durable {
            file.sync_all()?;
        }
        std::fs::rename(&new, &self.path)
    }
}

/// The resources that the last run managed and a graph does not declare. Empty if nothing is known of a last run.
pub(crate) fn released(engine: &Path, graph: &ResourceGraph) -> Result<Vec<String>, String> {
    let path = engine.join(FILE);
    let failed = |why: String| format!("cannot read the list of managed resources {}: {why}", path.display());
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        // Whoever may not look into the working directory is not told what is in it.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(error.to_string())),
    };
    let mut text = Vec::new();
    file.take(MAX_FILE_LEN).read_to_end(&mut text).map_err(|error| failed(error.to_string()))?;
    let list: serde_json::Value = serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
    if list["format_version"] != FORMAT_VERSION {
        return Err(failed("it is of another version".to_owned()));
    }
    let declared: BTreeSet<String> = declared(graph).map(|spec| spec.id.to_string()).collect();
    let names = list["resources"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
    Ok(names.filter(|name| !declared.contains(*name)).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgmt_resources::noop::Noop;

    fn graph(names: &[&str]) -> ResourceGraph {
        let mut graph = ResourceGraph::new();
        for name in names {
            graph.add_node(Spec::new(*name, Noop::default()));
        }
        graph
    }

    #[tokio::test]
    async fn what_is_no_longer_declared_is_found_after_the_end() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(released(directory.path(), &graph(&["a"])), Ok(Vec::new()));
        let list = ManagedList::start(directory.path(), true);
        list.record(list.look(&graph(&["a", "b\n", "c"])).unwrap());
        list.finish();
        let left = |names: &[&str]| released(directory.path(), &graph(names)).unwrap();
        assert_eq!(left(&["a"]), [Id::new("noop", "b\n").to_string(), "noop[c]".to_owned()]);
        assert_eq!(left(&["a", "b\n", "c", "d"]), Vec::<String>::new());
        std::fs::write(directory.path().join(FILE), "{}").unwrap();
        assert!(released(directory.path(), &graph(&[])).unwrap_err().contains("another version"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_list_is_written_soon_and_again_only_if_the_names_differ() {
        let directory = tempfile::tempdir().unwrap();
        let list = ManagedList::start(directory.path(), false);
        list.record(list.look(&graph(&["a"])).unwrap());
        let file = directory.path().join(FILE);
        while !file.exists() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(list.look(&graph(&["a"])).is_none(), "written again although nothing was different");
        assert!(list.look(&graph(&["b"])).is_some() && list.look(&graph(&["a", "b"])).is_some());
    }
}
