//! What functions may use of the program around them.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mgmt_state::LocalState;
use mgmt_value::{Str, Type, Value};

use crate::Failure;

/// The program's side of a running function. Everything has a default for programs that do not have it: the answer is
/// then empty, or an error that says so.
///
/// Calls may read a file, but must not wait for a network or another process.
pub trait Host {
    /// This host's name in the cluster.
    fn hostname(&self) -> Str {
        Str::EMPTY
    }

    /// The wall clock.
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    /// A clock that never goes back, for ages.
    fn uptime(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Duration::try_from(now).unwrap_or_default()
    }

    /// The directory, within the deploy, of the file with the call. It begins and ends with a slash.
    fn base(&self) -> &str {
        "/"
    }

    /// Reads a file of the deploy. The path is absolute within the deploy.
    fn deploy_read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Err(no_deploy(path))
    }

    /// What a path of the deploy is; `None` when there is nothing.
    fn deploy_kind(&self, path: &Path) -> io::Result<Option<FileKind>> {
        Err(no_deploy(path))
    }

    /// The names in a directory of the deploy.
    fn deploy_list(&self, path: &Path) -> io::Result<Vec<Str>> {
        Err(no_deploy(path))
    }

    /// Values, numbers and directories of this host that outlive a run.
    fn local(&self) -> Result<&LocalState, Failure> {
        Err(Failure::fatal("this program was started without a state directory"))
    }

    /// The last line that a command has printed: none before the first.
    fn command_line(&self, command: &Str) -> Result<Option<Str>, Failure> {
        Err(Failure::fatal(format!("commands can't run here, so {command:?} has no output")))
    }

    /// The last answer to the request of this name: none before the first.
    fn http_response(&self, uid: &Str) -> Option<Response> {
        let _ = uid;
        None
    }

    /// Whether some device waits for a restart to finish an update of its firmware: none while that is being found out.
    fn firmware_wants_restart(&self) -> Result<Option<bool>, Failure> {
        Ok(Some(false))
    }

    /// One text of the cluster.
    fn world_string(&self, key: &Str) -> Result<Option<Str>, Failure> {
        Err(no_world(key))
    }

    /// The text of every host under one name of the cluster.
    fn world_strings(&self, namespace: &Str) -> Result<BTreeMap<Str, Str>, Failure> {
        Err(no_world(namespace))
    }

    /// The hosts that the cluster has chosen for a name: none before the first choice.
    fn world_schedule(&self, namespace: &Str) -> Result<Vec<Str>, Failure> {
        Err(no_world(namespace))
    }

    /// Resources of a kind that are exported to this host or to everyone, in a stable order.
    fn world_exports(&self, kind: &Str) -> Result<Vec<Export>, Failure> {
        Err(no_world(kind))
    }

    /// An option of the provisioner's command line.
    fn provisioner_option(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }

    /// Whether this is the first question about this name since the program started. For tests.
    fn is_first(&self, name: &'static str) -> bool {
        let _ = name;
        true
    }
}

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file
    File,
    /// A directory
    Directory,
}

/// An answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status of the answer, or -1 when there was none.
    pub status: i64,
    /// The file that holds the body, if there is one.
    pub body: Option<PathBuf>,
}

/// A resource that some host has exported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Export {
    /// Its name.
    pub name: Str,
    /// The host that exports it.
    pub host: Str,
    /// Its stored form.
    pub data: Str,
}

fn no_deploy(path: &Path) -> io::Error {
    let message = format!("no deploy is being run, so it has no file {}", path.display());
    io::Error::new(io::ErrorKind::Unsupported, message)
}

fn no_world(key: &Str) -> Failure {
    Failure::fatal(format!("this program is not part of a cluster, so {key:?} has no value"))
}

/// What one call site keeps between calls, and what is known about it.
#[derive(Debug)]
pub struct Memory {
    result: Type,
    kept: Option<Box<dyn Any + Send>>,
}

impl Memory {
    /// Nothing is kept yet. The type is the one that the checker found for the result of the call.
    pub fn new(result: Type) -> Memory {
        Memory { result, kept: None }
    }

    /// The type of the result.
    pub fn result(&self) -> &Type {
        &self.result
    }

    /// What was kept, or a first value.
    pub fn get<T: Any + Send + Default>(&mut self) -> &mut T {
        if !self.kept.as_ref().is_some_and(|kept| kept.is::<T>()) {
            self.kept = Some(Box::new(T::default()));
        }
        let kept = self.kept.as_mut().and_then(|kept| kept.downcast_mut());
        #[expect(clippy::expect_used, reason = "a value of this type has just been put there")]
        kept.expect("a value of the type")
    }

    /// Forgets what was kept.
    pub fn clear(&mut self) {
        self.kept = None;
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new(Type::Nil)
    }
}
