//! Runs a resource without an engine: a host in a temporary directory, and a vertex that remembers its state.
//!
//! ```ignore
//! let bench = TestEnv::new();
//! let mut vertex = bench.vertex("name", Print { msg: "hello".into(), ..Print::default() });
//! assert_eq!(vertex.apply().await.checked(), Checked::Changed);
//! assert_eq!(vertex.look().await.checked(), Checked::Right);
//! assert_eq!(vertex.run(Run { refresh: true, ..Run::APPLY }).await.checked(), Checked::Changed);
//! ```
#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use mgmt_resource::{
    Cancel, Checked, Child, Context, Host, Id, Invalid, Kind, Meta, Received, Resource, Result,
};
use mgmt_state::LocalState;
use mgmt_store::Store;
use mgmt_store::{Embedded, SharedState};
use mgmt_sys::process::Helper;
use mgmt_sys::replace::Durability;
use mgmt_value::{Str, Value};
use tempfile::TempDir;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, span};

/// A host of its own in a temporary directory.
pub(crate) struct TestEnv {
    directory: TempDir,
    /// What hosts share, which outlives each of them.
    store: Arc<dyn Store>,
    /// The host.
    pub(crate) host: Host,
}

impl TestEnv {
    pub(crate) fn new() -> TestEnv {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(Embedded::in_memory().unwrap());
        let host = host_in(directory.path(), Arc::clone(&store));
        TestEnv { directory, store, host }
    }

    /// What a restarted process would find.
    pub(crate) fn restart(&mut self) {
        self.host = host_in(self.directory.path(), Arc::clone(&self.store));
    }

    /// A path for the test's own files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let own = self.directory.path().join("test");
        std::fs::create_dir_all(&own).unwrap();
        own.join(name)
    }

    /// A resource that has not run yet.
    pub(crate) fn vertex<K: Kind>(&self, name: impl Into<Str>, resource: K) -> Vertex<'_, K> {
        Vertex {
            host: &self.host,
            id: Id::new(K::KIND, name),
            resource,
            state: K::State::default(),
            meta: Meta::default(),
            cancel: Cancel::default(),
        }
    }
}

fn host_in(directory: &Path, store: Arc<dyn Store>) -> Host {
    let local = LocalState::open_with(directory.join("local"), Durability::None).unwrap();
    Host {
        hostname: "host.example.com".to_owned(),
        program: "mgmt".to_owned(),
        version: "0".to_owned(),
        state: directory.join("state"),
        local: Arc::new(local),
        shared: Arc::new(SharedState::new(store, "host.example.com")),
        helper: Helper::this_program(),
        durability: Durability::None,
        view: RwLock::default(),
        exit: tokio::sync::watch::Sender::new(None),
        program_files: tokio::sync::watch::Sender::new(None),
        ends_after: None,
        incomplete: Default::default(),
    }
}

/// A resource and what it remembers from one run to the next.
pub(crate) struct Vertex<'a, K: Kind> {
    host: &'a Host,
    pub(crate) id: Id,
    /// The parameters. Change them between two runs to play the sender of a received one.
    pub(crate) resource: K,
    pub(crate) state: K::State,
    pub(crate) meta: Meta,
    pub(crate) cancel: Cancel,
}

/// The circumstances of one run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) apply: bool,
    pub(crate) refresh: bool,
    /// Names of parameters that come from others, and whether they have changed.
    pub(crate) received: &'a [(&'static str, bool)],
    /// Members of the group.
    pub(crate) children: &'a [(Id, &'a dyn Resource)],
}

impl Run<'_> {
    pub(crate) const APPLY: Run<'static> = Run { apply: true, refresh: false, received: &[], children: &[] };
    pub(crate) const LOOK: Run<'static> = Run { apply: false, ..Run::APPLY };
    pub(crate) const REFRESH: Run<'static> = Run { refresh: true, ..Run::APPLY };
}

/// What came of one run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) result: Result<Checked>,
    pub(crate) sent: Option<BTreeMap<&'static str, Value>>,
    pub(crate) rearm: bool,
    /// What it said that it changes.
    pub(crate) effects: Vec<mgmt_resource::Effect>,
}

impl Outcome {
    /// The result of a run that did not fail.
    pub(crate) fn checked(self) -> Checked {
        self.result.unwrap()
    }

    /// The message of a run that failed.
    pub(crate) fn error(self) -> String {
        self.result.unwrap_err().to_string()
    }

    /// One of the values that were sent.
    pub(crate) fn sent(&self, name: &str) -> Value {
        self.sent.as_ref().expect("nothing was sent").get(name).expect("no such value").clone()
    }
}

impl<K: Kind> Vertex<'_, K> {
    pub(crate) async fn apply(&mut self) -> Outcome {
        self.run(Run::APPLY).await
    }

    /// A run that must not change anything.
    pub(crate) async fn look(&mut self) -> Outcome {
        self.run(Run::LOOK).await
    }

    pub(crate) async fn run(&mut self, run: Run<'_>) -> Outcome {
        let received: Vec<_> =
            run.received.iter().map(|(field, changed)| Received { field, changed: *changed }).collect();
        let children: Vec<_> = run
            .children
            .iter()
            .map(|(id, resource)| Child { id, resource: *resource, received: &[] })
            .collect();
        let mut cx = Context {
            id: &self.id,
            meta: &self.meta,
            apply: run.apply,
            refresh: run.refresh,
            received: &received,
            cancel: &self.cancel,
            host: self.host,
            children: &children,
            sent: None,
            rearm: false,
            effects: Default::default(),
            foreseen: None,
        };
        let result = Kind::check_apply(&self.resource, &mut self.state, &mut cx).await;
        let sent = cx.sent.map(|sent| sent.iter().cloned().collect());
        Outcome { result, sent, rearm: cx.rearm, effects: cx.effects.take() }
    }

    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        Kind::validate(&self.resource, &self.id.name)
    }
}

/// Why a resource with these parameters is refused.
pub(crate) fn refused<K: Kind>(resource: &K) -> String {
    Kind::validate(resource, &Str::from("name")).unwrap_err().to_string()
}

/// Everything that this thread logs, while it lives.
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<(Level, String)>>>,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Log {
    pub(crate) fn capture() -> Log {
        // Without somebody who listens everywhere, a place that first speaks in a test that does not listen is taken for one
        // that nobody ever listens to. A second attempt to say so is refused, and is not needed.
        let _ = tracing::subscriber::set_global_default(Nobody);
        let lines = Arc::default();
        let guard = tracing::subscriber::set_default(Capture { lines: Arc::clone(&lines) });
        Log { lines, _guard: guard }
    }

    /// The lines since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        self.take_with_levels().into_iter().map(|(_, line)| line).collect()
    }

    pub(crate) fn take_with_levels(&self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

struct Capture {
    lines: Arc<Mutex<Vec<(Level, String)>>>,
}

impl tracing::Subscriber for Capture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        if event.metadata().target() == "mgmt::resource" {
            let mut message = Message(String::new());
            event.record(&mut message);
            self.lines.lock().unwrap().push((*event.metadata().level(), message.0));
        }
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Hears everything and keeps nothing.
struct Nobody;

impl tracing::Subscriber for Nobody {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
