//! What functions see of the world while a program is only looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use mgmt_funcs::{Export, Failure, FileKind, Host, Response};
use mgmt_value::{Str, Value};

use crate::module::{Files, WithEmbedded, is_embedded};

/// A host for looking at a program without running it: the files of the program are there, the world is empty.
pub struct Onlooker<'f> {
    files: WithEmbedded<'f>,
    deploy: Deploy,
    hostname: Str,
    asked: Mutex<BTreeSet<&'static str>>,
}

impl<'f> Onlooker<'f> {
    /// With the files of a deploy.
    pub fn new(files: &'f dyn Files, deploy: impl Into<Deploy>, hostname: Str) -> Onlooker<'f> {
        Onlooker { files: WithEmbedded(files), deploy: deploy.into(), hostname, asked: Mutex::default() }
    }
}

/// Where the files are that come with a program: below its own directory, in modules that are elsewhere, and embedded.
///
/// Functions see one tree: the directory of the program is its root, a module that is elsewhere is at its own path below
/// `/modules`, and embedded files are where [`crate::module::WithEmbedded`] has them.
#[derive(Clone, Debug, Default)]
pub struct Deploy {
    root: PathBuf,
    modules: Vec<PathBuf>,
    parts: Vec<Part>,
}

/// Something that belongs to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A text of it, or what says more about one: a file, by where it really is.
    File(PathBuf),
    /// A directory of a module for files that are no texts, by where it really is. It does not have to be there.
    Directory(PathBuf),
    /// A text that is in no file, with the path where functions would see it.
    Text(PathBuf, Vec<u8>),
}

impl Deploy {
    /// The directory of the program.
    pub(crate) fn new(root: PathBuf) -> Deploy {
        Deploy { root, modules: Vec::new(), parts: Vec::new() }
    }

    /// Adds the directory of a file, and says where functions see it. It ends with a slash.
    pub(crate) fn add(&mut self, directory: &Path) -> String {
        match directory.strip_prefix(&self.root) {
            _ if is_embedded(directory) => format!("{}/", directory.display()),
            Ok(inside) if inside.as_os_str().is_empty() => "/".to_owned(),
            Ok(inside) => format!("/{}/", inside.display()),
            Err(_) => {
                self.modules.push(directory.to_owned());
                format!("/modules{}/", directory.display())
            }
        }
    }

    pub(crate) fn add_part(&mut self, part: Part) {
        if !self.parts.contains(&part) {
            self.parts.push(part);
        }
    }

    /// What belongs to the program. What is embedded does not: it is on every host already.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Where functions see a file, from where it really is; none if they don't.
    #[must_use]
    pub fn seen(&self, place: &Path) -> Option<PathBuf> {
        if let Ok(inside) = place.strip_prefix(&self.root) {
            return Some(Path::new("/").join(inside));
        }
        let inside = self.modules.iter().any(|module| place.starts_with(module)).then_some(place)?;
        Some(Path::new("/modules").join(inside.strip_prefix("/").unwrap_or(inside)))
    }

    /// Where a file really is. Nothing leads out of the deploy.
    ///
    /// # Errors
    ///
    /// The path goes up.
    pub fn place(&self, path: &Path) -> io::Result<PathBuf> {
        if path.components().any(|part| matches!(part, Component::ParentDir | Component::Prefix(_))) {
            let message = format!("{} leads out of the deploy", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let inside: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let absolute = Path::new("/").join(&inside);
        if is_embedded(&absolute) {
            return Ok(absolute);
        }
        if let Ok(elsewhere) = inside.strip_prefix("modules") {
            let elsewhere = Path::new("/").join(elsewhere);
            if self.modules.iter().any(|module| elsewhere.starts_with(module)) {
                return Ok(elsewhere);
            }
        }
        Ok(self.root.join(inside))
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Deploy {
    fn from(root: &P) -> Deploy {
        Deploy::new(root.as_ref().to_owned())
    }
}

impl Host for Onlooker<'_> {
    fn hostname(&self) -> Str {
        self.hostname.clone()
    }

    fn deploy_read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.read(&self.deploy.place(path)?)
    }

    fn deploy_kind(&self, path: &Path) -> io::Result<Option<FileKind>> {
        let place = self.deploy.place(path)?;
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
        let entries = self.files.entries(&self.deploy.place(path)?)?;
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

    fn local(&self) -> Result<&mgmt_state::LocalState, Failure> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_see_one_tree_and_nothing_beside_it() {
        let mut deploy = Deploy::from("/srv/site");
        assert_eq!(deploy.add(Path::new("/srv/site")), "/");
        assert_eq!(deploy.add(Path::new("/srv/site/lib")), "/lib/");
        assert_eq!(deploy.add(Path::new("/srv/other")), "/modules/srv/other/");
        assert_eq!(deploy.add(Path::new("/embeddedfs:/x")), "/embeddedfs:/x/");
        for (seen, place) in [
            ("/files/a", "/srv/site/files/a"),
            ("lib/./a", "/srv/site/lib/a"),
            ("/modules/a", "/srv/site/modules/a"),
            ("/modules/srv/other/files/a", "/srv/other/files/a"),
            ("/modules/srv/others", "/srv/site/modules/srv/others"),
            ("/modules/etc/passwd", "/srv/site/modules/etc/passwd"),
            ("/embeddedfs:/x/a", "/embeddedfs:/x/a"),
            ("embeddedfs:/x/a", "/embeddedfs:/x/a"),
        ] {
            assert_eq!(deploy.place(Path::new(seen)).unwrap(), Path::new(place), "{seen}");
        }
        for (place, seen) in [
            ("/srv/site/files/a", Some("/files/a")),
            ("/srv/other/files/a", Some("/modules/srv/other/files/a")),
            ("/srv/others/a", None),
            ("/etc/passwd", None),
        ] {
            assert_eq!(deploy.seen(Path::new(place)).as_deref(), seen.map(Path::new), "{place}");
        }
        for up in ["/../a", "/modules/srv/other/../a", "/embeddedfs:/../a"] {
            assert!(deploy.place(Path::new(up)).unwrap_err().to_string().contains("leads out"), "{up}");
        }
    }
}
