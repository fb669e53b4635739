//! A world of its own for each test of `exec`: a directory, and a program around the resource.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use mgmt_resource::{Cancel, Checked, Context, Host, Id, Meta, Resource, Result, Stage, schema_of};
use mgmt_resources::exec::Exec;
use mgmt_sys::process::Helper;
use mgmt_sys::replace::Durability;
use mgmt_value::{Str, Value};

/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// One resource in a directory of its own.
pub(crate) struct TestEnv {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) host: Host,
    pub(crate) id: Id,
    pub(crate) cancel: Cancel,
    state: Box<dyn std::any::Any + Send>,
}

/// What one run gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) checked: Checked,
    pub(crate) output: Option<String>,
    pub(crate) stdout: Option<String>,
    pub(crate) stderr: Option<String>,
}

/// How to run.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) apply: bool,
    pub(crate) refresh: bool,
}

pub(crate) const APPLY: How = How { apply: true, refresh: false };
pub(crate) const NOTIFIED: How = How { apply: true, refresh: true };
pub(crate) const LOOK: How = How { apply: false, refresh: false };

impl TestEnv {
    pub(crate) fn new() -> TestEnv {
        let directory = tempfile::Builder::new().prefix("mgmt-exec-").tempdir().unwrap();
        let path = std::fs::canonicalize(directory.path()).unwrap();
        let host = Host {
            hostname: "test".into(),
            program: "mgmt".into(),
            version: "0".into(),
            state: path.join("state"),
            local: Arc::new(mgmt_state::LocalState::open(path.join("local")).unwrap()),
            shared: Arc::new(mgmt_store::SharedState::in_memory("test").unwrap()),
            helper: Helper::this_program(),
            durability: Durability::None,
            view: RwLock::new(None),
            exit: tokio::sync::watch::Sender::new(None),
            program_files: tokio::sync::watch::Sender::new(None),
            ends_after: None,
            incomplete: Default::default(),
        };
        TestEnv { directory, host, id: Id::new("exec", "test"), cancel: Cancel::default(), state: fresh() }
    }

    /// A path in the directory, as text for a command.
    pub(crate) fn path(&self, name: &str) -> String {
        self.file(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        std::fs::canonicalize(self.directory.path()).unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> String {
        std::fs::write(self.file(name), content).unwrap();
        self.path(name)
    }

    pub(crate) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.file(name)).ok()
    }

    /// How often something was appended to a file, one character each.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.read(name).map_or(0, |text| text.len())
    }

    /// Forgets what is in memory, as a restart of the program does.
    pub(crate) fn restart(&mut self) {
        self.state = fresh();
        self.cancel = Cancel::default();
    }

    pub(crate) async fn run(&mut self, exec: &Exec, how: How) -> Result<Ran> {
        Resource::validate(exec, &self.id.name).expect("the declaration is valid");
        let meta = Meta::default();
        let mut cx = Context {
            id: &self.id,
            meta: &meta,
            apply: how.apply,
            refresh: how.refresh,
            received: &[],
            cancel: &self.cancel,
            host: &self.host,
            children: &[],
            sent: None,
            rearm: false,
            effects: Default::default(),
            foreseen: None,
        };
        let checked = Resource::check_apply(exec, &mut *self.state, &mut cx).await?;
        let sent = cx.sent.expect("values are sent on every run that does not fail");
        let get = |key: &str| match sent.iter().find(|(name, _)| *name == key) {
            Some((_, Value::Str(text))) => Some(text.to_text().into_owned()),
            Some((_, Value::Nil)) => None,
            other => panic!("{key} was sent as {other:?}"),
        };
        Ok(Ran { checked, output: get("output"), stdout: get("stdout"), stderr: get("stderr") })
    }

    /// The resource's own directory.
    pub(crate) fn state_directory(&self) -> Option<PathBuf> {
        let mut entries = std::fs::read_dir(&self.host.state).ok()?;
        entries.next().map(|entry| entry.unwrap().path())
    }

    /// A file in it.
    pub(crate) fn kept(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.state_directory()?.join(name)).ok()
    }
}

fn fresh() -> Box<dyn std::any::Any + Send> {
    (schema_of::<Exec>().make)().new_state()
}

/// A text for the shell.
pub(crate) fn sh(text: impl Into<Str>) -> Exec {
    Exec { cmd: text.into(), shell: "/bin/sh".into(), env: path_env(), ..Exec::default() }
}

pub(crate) fn path_env() -> mgmt_value::Secret<mgmt_resources::exec::Environment> {
    [("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")].into_iter().collect()
}

/// Waits for something that happens soon.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + LONG;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process runs. One that has died and that nobody has collected yet does not.
pub(crate) fn runs(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat")) else {
        return false;
    };
    let state = stat.rsplit(')').next().unwrap().trim_start().chars().next();
    !matches!(state, Some('Z' | 'X'))
}

/// Raises the cancellation once a file has appeared.
pub(crate) async fn raise_when(cancel: Cancel, stage: Stage, file: PathBuf) {
    until("the command has started", || file.exists()).await;
    cancel.raise(stage);
}
