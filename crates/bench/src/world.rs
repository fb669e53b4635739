//! A host in a temporary directory, with an engine.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgmt_engine::{Engine, EngineEvent, EngineSettings, Level, Preparation, Witness};
use mgmt_resource::{Host, ResourceGraph};
use mgmt_sys::replace::Durability;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;

/// An engine that runs.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    engine: Option<Engine>,
    events: UnboundedReceiver<EngineEvent>,
}

impl World {
    pub(crate) fn start(prefix: &Path, durability: Durability) -> World {
        World::start_with(prefix, durability, None)
    }

    /// The same, and somebody is told what is done.
    pub(crate) fn start_with(
        prefix: &Path,
        durability: Durability,
        witness: Option<Arc<dyn Witness>>,
    ) -> World {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let host = Host {
            hostname: "bench".into(),
            program: "mgmt".into(),
            version: "bench".into(),
            state: prefix.join("state"),
            local: Arc::new(mgmt_state::LocalState::open(prefix.join("local")).unwrap()),
            shared: Arc::new(mgmt_store::SharedState::in_memory("bench").unwrap()),
            helper: Default::default(),
            durability,
            view: Default::default(),
            exit: tokio::sync::watch::Sender::new(None),
            program_files: tokio::sync::watch::Sender::new(None),
            ends_after: None,
            incomplete: Default::default(),
        };
        let settings = EngineSettings {
            host: Arc::new(host),
            registry: mgmt_resources::KINDS,
            preparation: Preparation::default(),
            converge_after: Some(Duration::ZERO),
            threads: None,
            export: None,
            witness,
            journal: Some(prefix.join("notifications")),
            dot: false,
            slow_down: false,
        };
        let (engine, events) = runtime.block_on(async { Engine::start(settings).unwrap() });
        World { runtime, engine: Some(engine), events }
    }

    /// Lets a graph run until it has converged, and tells how long that took.
    pub(crate) fn converge(&mut self, graph: ResourceGraph) -> Duration {
        let began = Instant::now();
        let engine = self.engine.as_ref().unwrap();
        self.runtime.block_on(async {
            tokio::spawn(async {}).await.unwrap();
            engine.swap(graph).await.unwrap();
            while let Some(event) = self.events.recv().await {
                match event {
                    EngineEvent::Converged => break,
                    EngineEvent::Failed { id, message } => panic!("{id}: {message}"),
                    EngineEvent::Quiet { .. }
                    | EngineEvent::Diverged
                    | EngineEvent::Recovered { .. }
                    | EngineEvent::Stopped => {}
                }
            }
        });
        began.elapsed()
    }

    /// Gives resources other parameters, which must be possible without another graph.
    pub(crate) fn adjust(&mut self, specs: Vec<mgmt_resource::Spec>) {
        let engine = self.engine.as_ref().unwrap();
        let report = self.runtime.block_on(engine.adjust(specs)).unwrap();
        assert!(report.is_some(), "the engine wants the whole graph");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            engine.stop(Level::Graceful);
            engine.wait();
        }
    }
}

/// A directory to work in, where others seldom do: what they do in `/tmp` would wake us.
pub(crate) fn scratch(parent: &Path) -> tempfile::TempDir {
    tempfile::Builder::new().prefix("mgmt-bench-").tempdir_in(parent).unwrap()
}

/// The same, on a disk.
pub(crate) fn disk() -> tempfile::TempDir {
    scratch(Path::new("/var/tmp"))
}
