//! A host in a temporary directory, an engine in it, and a kind that does as it is told.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use mgmt_engine::{Engine, EngineEvent, EngineSettings, Export, Level, Preparation, Witness};
use mgmt_graph::NodeId;
use mgmt_resource::{
    Background, Checked, Context, Edge, Error, Fields, Host, Id, Identity, Invalid, Kind, Order, Registry,
    Resource, ResourceGraph, Result, Spec, Want, Watch, schema_of,
};
use mgmt_value::Str;
use tokio::sync::mpsc::UnboundedReceiver;

/// Does as it is told and writes down what happens.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "probe", edges, group, refresh, send, receive, reverse, query, background)]
pub(crate) struct Probe {
    /// Anything, to tell two declarations apart.
    pub text: Str,
    /// The file whose content is compared with `text`, and set to it. Nothing when empty.
    pub path: Str,
    /// Fail this many times before working.
    pub failures: i64,
    /// Milliseconds that a run takes.
    pub sleep: u64,
    /// May be grouped with other probes that say so.
    pub together: bool,
    /// What it sends.
    pub says: Str,
    /// Identity that it provides.
    pub is: Str,
    /// Identity that it wants before it.
    pub needs: Str,
    /// Panic when run.
    pub panics: bool,
    /// Not valid.
    pub invalid: bool,
    /// Ignore being asked to stop.
    pub stubborn: bool,
    /// Send nothing.
    pub silent: bool,
}

/// What a probe sends.
#[derive(Clone, Debug, Default, Fields)]
pub(crate) struct Said {
    /// The text.
    pub text: Str,
}

/// What happened, in order: `name:what`.
pub(crate) static LOG: LazyLock<Mutex<BTreeMap<String, Vec<String>>>> = LazyLock::new(Mutex::default);

impl Kind for Probe {
    type State = i64;
    type Sends = Said;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        match self.invalid {
            true => Err(Invalid::field("invalid", "told so")),
            false => Ok(()),
        }
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        match self.path.is_empty() {
            true => Vec::new(),
            false => vec![Watch::Path { path: self.path.clone(), recursive: false }],
        }
    }

    async fn background(mut work: Background) -> Result<()> {
        let world = work.host.hostname.clone();
        let log = |what: &str| LOG.lock().unwrap().entry(world.clone()).or_default().push(what.to_owned());
        log("worker:begin");
        work.ready();
        work.cancel.cancelled().await;
        log("worker:end");
        Ok(())
    }

    async fn check_apply(&self, failed: &mut i64, cx: &mut Context<'_>) -> Result<Checked> {
        let name = cx.id.name.to_text().into_owned();
        let log = |what: &str| {
            let world = cx.host.hostname.clone();
            LOG.lock().unwrap().entry(world).or_default().push(format!("{name}:{what}"));
        };
        log(if cx.refresh { "refresh" } else { "run" });
        if cx.received.iter().any(|received| received.changed) {
            log("received");
        }
        assert!(!self.panics, "told so");
        if self.sleep > 0 {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(self.sleep)) => {}
                () = cx.cancel.cancelled(), if !self.stubborn => {
                    log("cancelled");
                    return Err(Error::Cancelled);
                }
            }
        }
        if *failed < self.failures {
            *failed += 1;
            return Err(Error::new("told so"));
        }
        let mut checked = Checked::Right;
        if !self.path.is_empty()
            && std::fs::read(self.path.as_path()).unwrap_or_default() != self.text.as_bytes()
        {
            checked = Checked::Changed;
            if cx.apply {
                std::fs::write(self.path.as_path(), &self.text).unwrap();
                log("wrote");
            }
        }
        if !self.silent {
            cx.send(&Said { text: self.says.clone() });
        }
        log("end");
        Ok(checked)
    }

    fn provides(&self, _: &Str) -> Vec<Identity> {
        vec![Identity::Other("probe", self.is.clone())]
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        match self.needs.is_empty() {
            true => Vec::new(),
            false => vec![Want::Each(Order::Before, vec![Identity::Other("probe", self.needs.clone())])],
        }
    }

    fn groups_with(&self, other: &dyn Resource) -> bool {
        let other = other.as_any().downcast_ref::<Probe>();
        self.together && other.is_some_and(|other| other.together && other.says == self.says)
    }

    fn groups_alike(&self, other: &Probe) -> bool {
        self.together == other.together && self.says == other.says
    }

    fn reversed(&self, _: &Str) -> Result<Option<Probe>> {
        let content = std::fs::read(self.path.as_path()).unwrap_or_default();
        Ok(Some(Probe { path: self.path.clone(), text: Str::from(content), ..Probe::default() }))
    }
}

pub(crate) const KINDS: Registry = Registry::new(&[schema_of::<Probe>]);

/// A temporary host.
pub(crate) struct TestEnv {
    pub directory: tempfile::TempDir,
    pub host: Arc<Host>,
    pub preparation: Preparation,
    pub converge_after: Option<Duration>,
    pub export: Option<Arc<dyn Export>>,
    pub witness: Option<Arc<dyn Witness>>,
}

impl TestEnv {
    pub(crate) fn new() -> TestEnv {
        let directory = tempfile::tempdir().unwrap();
        let host = Host {
            // The name of the world tells the logs of tests apart.
            hostname: directory.path().display().to_string(),
            program: "mgmt".into(),
            version: "test".into(),
            state: directory.path().join("state"),
            local: Arc::new(mgmt_state::LocalState::open(directory.path().join("local")).unwrap()),
            shared: Arc::new(mgmt_store::SharedState::in_memory("host").unwrap()),
            helper: Default::default(),
            durability: mgmt_sys::replace::Durability::None,
            view: Default::default(),
            exit: tokio::sync::watch::Sender::new(None),
            program_files: tokio::sync::watch::Sender::new(None),
            ends_after: None,
            incomplete: Default::default(),
        };
        TestEnv {
            directory,
            host: Arc::new(host),
            preparation: Preparation::default(),
            converge_after: Some(Duration::ZERO),
            export: None,
            witness: None,
        }
    }

    /// A path in the temporary directory.
    pub(crate) fn path(&self, name: &str) -> Str {
        Str::from(self.directory.path().join(name).to_str().unwrap())
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    pub(crate) fn start(&self) -> Running {
        let (engine, events) = Engine::start(EngineSettings {
            host: Arc::clone(&self.host),
            registry: KINDS,
            preparation: self.preparation.clone(),
            converge_after: self.converge_after,
            threads: None,
            export: self.export.clone(),
            witness: self.witness.clone(),
            journal: Some(self.directory.path().join("notifications")),
            dot: false,
            slow_down: false,
        })
        .unwrap();
        Running { engine, events }
    }

    /// What happened so far. Takes it.
    pub(crate) fn log(&self) -> Vec<String> {
        LOG.lock().unwrap().remove(&self.host.hostname).unwrap_or_default()
    }

    /// How often something happened so far.
    pub(crate) fn count(&self, what: &str) -> usize {
        let log = LOG.lock().unwrap();
        log.get(&self.host.hostname).map_or(0, |log| log.iter().filter(|line| *line == what).count())
    }

    pub(crate) async fn wait_for(&self, what: &str, times: usize) {
        wait(|| self.count(what) >= times, what).await;
    }
}

/// Waits until something is true.
pub(crate) async fn wait(done: impl Fn() -> bool, what: &str) {
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(std::time::Instant::now() < until, "waited in vain for: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// An engine in a world.
pub(crate) struct Running {
    pub engine: Engine,
    pub events: UnboundedReceiver<EngineEvent>,
}

impl Running {
    pub(crate) async fn event(&mut self) -> EngineEvent {
        tokio::time::timeout(Duration::from_secs(20), self.events.recv())
            .await
            .expect("no event came")
            .unwrap()
    }

    pub(crate) async fn converged(&mut self) {
        while self.event().await != EngineEvent::Converged {}
    }

    /// Waits until nothing is under way but retries. Returns how many are failing.
    pub(crate) async fn quiet(&mut self) -> usize {
        loop {
            if let EngineEvent::Quiet { failed, .. } = self.event().await {
                return failed;
            }
        }
    }

    pub(crate) async fn failed(&mut self) {
        while !matches!(self.event().await, EngineEvent::Failed { .. }) {}
    }

    pub(crate) async fn swap(&self, graph: ResourceGraph) {
        self.engine.swap(graph).await.unwrap();
    }

    pub(crate) fn stop(self) -> mgmt_engine::Summary {
        self.engine.stop(Level::Graceful);
        tokio::task::block_in_place(|| self.engine.wait())
    }
}

/// Builds a graph.
#[derive(Default)]
pub(crate) struct Graph(pub ResourceGraph);

impl Graph {
    pub(crate) fn add(&mut self, name: &str, probe: Probe) -> NodeId {
        self.0.add_node(Spec::new(name, probe))
    }

    pub(crate) fn meta(&mut self, node: NodeId, change: impl FnOnce(&mut mgmt_resource::Meta)) -> &mut Graph {
        change(&mut self.0.node_mut(node).unwrap().meta);
        self
    }

    pub(crate) fn edge(&mut self, from: NodeId, to: NodeId) -> &mut Graph {
        self.0.set_edge(from, to, Edge::ORDER);
        self
    }

    pub(crate) fn notify(&mut self, from: NodeId, to: NodeId) -> &mut Graph {
        self.0.set_edge(from, to, Edge::NOTIFY);
        self
    }

    pub(crate) fn receive(&mut self, node: NodeId, field: &'static str, from: &str) -> &mut Graph {
        let receive = mgmt_resource::Receive { field, from: Id::new("probe", from), key: "text" };
        self.0.node_mut(node).unwrap().receives.push(receive);
        self
    }
}
