//! What functions see of the world while a program is only looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use mgmt_funcs::{Export, Failure, FileKind, Host, Response};
use mgmt_value::{Str, Value};

use crate::module::{Files, WithEmbedded, embedded_place};

/// A host for looking at a program without running it: the files of the program are there, the world is empty.
pub struct Onlooker<'f> {
    files: WithEmbedded<'f>,
    root: PathBuf,
    hostname: Str,
    asked: Mutex<BTreeSet<&'static str>>,
}

impl<'f> Onlooker<'f> {
    /// The deploy is what is below a directory.
    pub fn new(files: &'f dyn Files, root: impl Into<PathBuf>, hostname: Str) -> Onlooker<'f> {
        Onlooker { files: WithEmbedded(files), root: root.into(), hostname, asked: Mutex::default() }
    }

    fn place(&self, path: &Path) -> io::Result<PathBuf> {
        within_deploy(&self.root, path)
    }
}

/// Where a file of the deploy that is below `root` really is: there, or among the embedded files. Nothing leads out.
///
/// # Errors
///
/// The path goes up.
pub fn within_deploy(root: &Path, path: &Path) -> io::Result<PathBuf> {
    if let Some(place) = embedded_place(path)? {
        return Ok(place);
    }
    let mut place = root.to_owned();
    for part in path.components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                let message = format!("{} leads out of the deploy", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        }
    }
    Ok(place)
}

impl Host for Onlooker<'_> {
    fn hostname(&self) -> Str {
        self.hostname.clone()
    }

    fn deploy_read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.read(&self.place(path)?)
    }

    fn deploy_kind(&self, path: &Path) -> io::Result<Option<FileKind>> {
        let place = self.place(path)?;
        Ok(if self.files.is_file(&place) {
            Some(FileKind::File)
        } else if self.files.is_directory(&place) {
            Some(FileKind::Directory)
        } else {
            None
        })
    }

    fn deploy_list(&self, path: &Path) -> io::Result<Vec<Str>> {
        use std::os::unix::ffi::OsStrExt as _;
        let entries = self.files.entries(&self.place(path)?)?;
        Ok(entries.iter().map(|entry| Str::new(entry.name.as_bytes())).collect())
    }

    fn world_string(&self, _: &Str) -> Result<Option<Str>, Failure> {
        Ok(None)
    }

    fn world_strings(&self, _: &Str) -> Result<BTreeMap<Str, Str>, Failure> {
        Ok(BTreeMap::new())
    }

    fn world_schedule(&self, _: &Str) -> Result<Vec<Str>, Failure> {
        Ok(Vec::new())
    }

    fn world_exports(&self, _: &Str) -> Result<Vec<Export>, Failure> {
        Ok(Vec::new())
    }

    fn is_first(&self, name: &'static str) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(name)
    }
}

/// A host as it is seen from one file of the deploy.
pub(crate) struct Based<'h> {
    pub(crate) host: &'h dyn Host,
    pub(crate) base: &'h str,
}

impl Host for Based<'_> {
    fn base(&self) -> &str {
        self.base
    }

    fn hostname(&self) -> Str {
        self.host.hostname()
    }

    fn now(&self) -> SystemTime {
        self.host.now()
    }

    fn uptime(&self) -> Duration {
        self.host.uptime()
    }

    fn deploy_read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.host.deploy_read(path)
    }

    fn deploy_kind(&self, path: &Path) -> io::Result<Option<FileKind>> {
        self.host.deploy_kind(path)
    }

    fn deploy_list(&self, path: &Path) -> io::Result<Vec<Str>> {
        self.host.deploy_list(path)
    }

    fn local(&self) -> Result<&mgmt_world::Local, Failure> {
        self.host.local()
    }

    fn command_line(&self, command: &Str) -> Result<Option<Str>, Failure> {
        self.host.command_line(command)
    }

    fn http_response(&self, uid: &Str) -> Option<Response> {
        self.host.http_response(uid)
    }

    fn firmware_wants_restart(&self) -> Result<Option<bool>, Failure> {
        self.host.firmware_wants_restart()
    }

    fn world_string(&self, key: &Str) -> Result<Option<Str>, Failure> {
        self.host.world_string(key)
    }

    fn world_strings(&self, namespace: &Str) -> Result<BTreeMap<Str, Str>, Failure> {
        self.host.world_strings(namespace)
    }

    fn world_schedule(&self, namespace: &Str) -> Result<Vec<Str>, Failure> {
        self.host.world_schedule(namespace)
    }

    fn world_exports(&self, kind: &Str) -> Result<Vec<Export>, Failure> {
        self.host.world_exports(kind)
    }

    fn provisioner_option(&self, name: &str) -> Option<Value> {
        self.host.provisioner_option(name)
    }

    fn is_first(&self, name: &'static str) -> bool {
        self.host.is_first(name)
    }
}
