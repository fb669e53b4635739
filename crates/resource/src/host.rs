//! What a resource may use of the program around it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, RwLock};

use mgmt_state::LocalState;
use mgmt_sys::Helper;

use crate::{Id, Resource, SharedStore};

/// The program's side of a running resource: identity, directories, stores. One per process.
pub struct Host {
    /// This host's name in the cluster.
    pub hostname: String,
    /// The program's name.
    pub program: String,
    /// The program's version.
    pub version: String,
    /// Where each resource may keep state; see [`crate::Context::state_directory`].
    pub state: PathBuf,
    /// Values and counters that outlive a run.
    pub local: Arc<LocalState>,
    /// The state that this host shares with others.
    pub shared: Arc<dyn SharedStore>,
    /// Starts commands as another user.
    pub helper: Helper,
    /// How hard written files are pushed to the disk.
    pub durability: mgmt_sys::replace::Durability,
    /// The running graph, for kinds that ask about their own kind; see [`crate::Context::others`].
    pub view: RwLock<Option<Arc<dyn GraphView>>>,
    /// Set once to end the program with a status.
    pub exit: tokio::sync::watch::Sender<Option<u8>>,
    /// The files of the program that runs, if it is one that has files. Another program brings others.
    pub program_files: tokio::sync::watch::Sender<Option<Arc<dyn ProgramFiles>>>,
    /// After how long without work the program ends, if it does.
    pub ends_after: Option<std::time::Duration>,
    /// Some declarations of the program have never been evaluated, so the graphs that are prepared from now on do not say what is
    /// *not* declared: nothing may be purged or reversed for that reason alone.
    pub incomplete: AtomicBool,
}

/// The files that belong to the program that runs: its texts, and those that its modules bring along. What a deploy consists of.
pub trait ProgramFiles: Send + Sync {
    /// All of them, and the directories that they are in, in the order of their paths. No path is there twice.
    ///
    /// # Errors
    ///
    /// Something cannot be read.
    fn list(&self) -> io::Result<Vec<ProgramFile>>;

    /// The content of one of them, piece by piece.
    ///
    /// # Errors
    ///
    /// It cannot be read, or `take` does not want to go on.
    fn read(&self, path: &Path, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>;

    /// Where on this host they, or more of them, can come and go; none if they never change.
    fn places(&self) -> Vec<PathBuf>;
}

/// One of the files of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFile {
    /// Its path from the root of all files, without a slash in front; it never leads out.
    pub path: PathBuf,
    /// What it is.
    pub kind: ProgramFileKind,
}

/// What one of the files of a program is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramFileKind {
    /// A directory.
    Directory,
    /// A file.
    File {
        /// Its owner may execute it.
        executable: bool,
    },
    /// A symbolic link, with what it points at.
    Link(PathBuf),
}

/// The running graph, as far as resources may look at it.
pub trait GraphView: Send + Sync {
    /// Shows every resource, members of groups included. False if the graph is incomplete: declarations that have never been
    /// evaluated may add others.
    fn each(&self, show: &mut dyn FnMut(&Id, &dyn Resource)) -> bool;

    /// Another number after each change of the graph, and before a resource runs that is new or different.
    fn version(&self) -> u64 {
        0
    }
}

impl Host {
    /// The strings that this host shares with others.
    pub fn strings(&self) -> &dyn SharedStore {
        &*self.shared
    }

    /// Asks the program to end.
    pub fn request_exit(&self, code: u8) {
        self.exit.send_if_modified(|exit| {
            let first = exit.is_none();
            exit.get_or_insert(code);
            first
        });
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("hostname", &self.hostname)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
