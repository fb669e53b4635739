//! Local state: values, numbers and directories of one host.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::Durability;
use mgmt_value::{Str, Value};
use tokio::sync::watch;

use crate::StateError;
use crate::error::Result;
use crate::number_pool::Pools;
use crate::record;
use crate::values::Values;

/// Values, numbers and directories of one host. They outlive the process.
pub struct LocalState {
    directory: StateDirectory,
    values: Values,
    pools: Pools,
}

impl LocalState {
    /// Opens the local state in this directory, and makes the directory if it is missing.
    pub fn open(root: PathBuf) -> Result<LocalState> {
        LocalState::open_with(root, Durability::Full)
    }

    /// Opens the local state, and says how hard changes are pushed to the disk. Against a killed process all ways are safe.
    pub fn open_with(root: PathBuf, durability: Durability) -> Result<LocalState> {
        let directory = StateDirectory::new(root, durability)?;
        record::sweep(&directory.open(&["value"])?);
        Ok(LocalState { directory, values: Values::new("value"), pools: Pools::default() })
    }

    /// The value under a key, or none.
    pub fn value_get(&self, key: &Str) -> Result<Option<Value>> {
        self.values.get(&self.directory, key)
    }

    /// Stores a value under a key, or removes it, and tells whether that was a change.
    pub fn value_set(&self, key: &Str, value: Option<&Value>) -> Result<bool> {
        self.values.set(&self.directory, key, value)
    }

    /// Whether [`value_set`](LocalState::value_set) would be a change.
    pub fn value_would_change(&self, key: &Str, value: Option<&Value>) -> Result<bool> {
        self.values.would_change(&self.directory, key, value)
    }

    /// Follows a key. There is one notification at once and one after each change; changes that nobody has looked at
    /// meanwhile are told together. The number counts changes and means nothing else.
    pub fn value_watch(&self, key: &Str) -> watch::Receiver<u64> {
        self.values.watch(key)
    }

    /// The number of a name within a namespace: positive, and the same for ever. A name that is new gets one more than
    /// the largest that was ever given out.
    pub fn pool(&self, namespace: &Str, uid: &Str) -> Result<u64> {
        self.pools.number(&self.directory, namespace, uid)
    }

    /// A directory for others to use, made if it is missing. The path is absolute and ends in a slash.
    pub fn directory(&self, relative: impl AsRef<Path>) -> Result<PathBuf> {
        self.directory.vardir(relative.as_ref())
    }
}

impl fmt::Debug for LocalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalState").field(&self.directory.root).finish()
    }
}

/// A directory that holds records, opened anew for each use, so that one that was removed comes back.
pub struct StateDirectory {
    root: ManagedPath,
    pub(crate) durability: Durability,
}

impl StateDirectory {
    /// The directory at this path. It is made when it is first opened.
    pub fn new(root: PathBuf, durability: Durability) -> Result<StateDirectory> {
        let absolute = std::path::absolute(&root).map_err(|error| error.to_string());
        let path = absolute.and_then(|path| {
            ManagedPath::new(path.as_os_str().as_encoded_bytes()).map_err(|error| error.to_string())
        });
        match path {
            Ok(path) if !path.is_root() => Ok(StateDirectory { root: path.to_directory(), durability }),
            Ok(_) => {
                Err(StateError::Root { path: root, reason: "expected a directory of its own".to_owned() })
            }
            Err(reason) => Err(StateError::Root { path: root, reason }),
        }
    }

    /// Opens a directory below the root. Those that are missing are made, for the owner alone.
    pub fn open<N: AsRef<[u8]>>(&self, names: &[N]) -> Result<Parent> {
        descend(self.open_root()?, names, 0o700)
    }

    fn open_root(&self) -> Result<Parent> {
        match Parent::open_itself(&self.root) {
            Err(error) if error.is_not_found() => {
                let name = self.root.file_name().unwrap_or_default();
                step(&Parent::open_or_create(&self.root)?, name, 0o700)
            }
            opened => Ok(opened?),
        }
    }

    fn vardir(&self, relative: &Path) -> Result<PathBuf> {
        let name = |component: Component<'_>| match component {
            Component::Normal(name) => Some(Some(name.as_encoded_bytes().to_vec())),
            Component::CurDir => Some(None),
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => None,
        };
        let names: Option<Vec<_>> = relative.components().map(name).collect();
        let names: Vec<_> = names.into_iter().flatten().flatten().collect();
        if names.is_empty() {
            return Err(StateError::Directory { path: relative.to_owned() });
        }
        let vardir = self.open(&["vardir"])?;
        descend(vardir, &names, 0o750)?;
        let mut path = PathBuf::from(self.root.as_os_str());
        path.push("vardir");
        for name in &names {
            path.push(Str::new(name).as_path());
        }
        path.push("");
        Ok(path)
    }
}

fn descend<N: AsRef<[u8]>>(from: Parent, names: &[N], mode: u32) -> Result<Parent> {
    names.iter().try_fold(from, |parent, name| step(&parent, name.as_ref(), mode))
}

/// Opens a directory, and makes it if it is missing.
fn step(parent: &Parent, name: &[u8], mode: u32) -> Result<Parent> {
    match parent.open_dir(name) {
        Err(error) if error.is_not_found() => {
            let attributes = Attributes { mode: Some(mode), ..Attributes::default() };
            match parent.make_directory(name, &attributes) {
                // Somebody else has just made it.
                Err(error) if error.is_exists() => Ok(parent.open_dir(name)?),
                made => Ok(made?),
            }
        }
        opened => Ok(opened?),
    }
}
