//! From imports to files.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use mgmt_resource::did_you_mean;

use super::embedded::{self, Embedded, WithEmbedded};
use super::entry::Entry;
use super::error::ResolveError;
use super::files::{FileKind, Files};
use super::import_name::{ImportClass, ImportName};
use super::lock::{LOCK_FILE, Lock, lock_key};
use super::metadata::Metadata;
use super::normal;
use super::tree::tree_hash;

/// Finds the files of a program.
pub struct Resolver<'f> {
    files: WithEmbedded<'f>,
    /// Where modules from elsewhere are, if the user has said so.
    module_path: Option<PathBuf>,
    current: PathBuf,
    /// Standard input can be read once.
    standard_input: OnceLock<Vec<u8>>,
    /// The hashes of modules that a lock names, by directory. Behind a lock because files are read on several threads.
    hashes: Mutex<BTreeMap<PathBuf, String>>,
}

/// One file of a program, with what the imports in it need.
#[derive(Clone)]
pub struct Location {
    /// The path, absolute. Of a program without a file, the path that it would have.
    pub file: PathBuf,
    /// Its name in messages: relative if it is below the current directory.
    pub display: String,
    /// The same for two locations that are the same file.
    pub identity: PathBuf,
    pub(super) module: Arc<Module>,
}

/// What a file belongs to.
pub(super) struct Module {
    /// Its directory.
    pub(super) base: PathBuf,
    /// Its metadata. A file that is imported by itself has none.
    pub(super) metadata: Option<MetadataFile>,
    /// The module that imports it.
    pub(super) parent: Option<Arc<Module>>,
    /// The module from elsewhere that it is or is a part of.
    pub(super) origin: Option<Origin>,
    pub(super) program: Arc<Program>,
}

pub(super) struct MetadataFile {
    metadata: Metadata,
    display: String,
    text: Arc<str>,
}

/// A module from elsewhere.
#[derive(Clone)]
pub(super) struct Origin {
    /// Where it is on disk.
    pub(super) root: PathBuf,
    pub(super) url: String,
}

/// What all files of a program have in common.
pub(super) struct Program {
    /// How the user would name it.
    pub(super) display: String,
    /// Its directory.
    base: PathBuf,
    /// Where modules from elsewhere are if no metadata says otherwise.
    pub(super) modules: PathBuf,
    /// Where the lock file is or would be. A program without a file has none.
    pub(super) lock_file: Option<PathBuf>,
    pub(super) lock: Option<Lock>,
}

impl Location {
    /// It is, or is a part of, a module that was downloaded.
    pub(crate) fn is_from_elsewhere(&self) -> bool {
        self.module.origin.is_some()
    }

    /// The directory of the module that the file belongs to. Paths to files of the module start there.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.module.base
    }

    /// What the metadata of the module says, if it has one.
    #[must_use]
    pub fn metadata(&self) -> Option<&Metadata> {
        self.module.metadata.as_ref().map(|file| &file.metadata)
    }

    /// The file with the metadata: its name in messages, and its text.
    #[must_use]
    pub fn metadata_source(&self) -> Option<(&str, &Arc<str>)> {
        self.module.metadata.as_ref().map(|file| (file.display.as_str(), &file.text))
    }

    /// Where the module was downloaded from that the file is a part of, if it was.
    #[must_use]
    pub fn origin_url(&self) -> Option<&str> {
        self.module.origin.as_ref().map(|origin| origin.url.as_str())
    }

    /// The lock of the program, if there is one.
    #[must_use]
    pub fn lock(&self) -> Option<&Lock> {
        self.module.program.lock.as_ref()
    }

    /// Where the lock file of the program is or would be.
    #[must_use]
    pub fn lock_file(&self) -> Option<&Path> {
        self.module.program.lock_file.as_deref()
    }

    /// Where modules are downloaded to.
    #[must_use]
    pub fn module_path(&self) -> &Path {
        &self.module.program.modules
    }

    /// The directories in which modules from elsewhere are looked for, in their order.
    #[must_use]
    pub fn search_path(&self) -> Vec<PathBuf> {
        let mut roots: Vec<PathBuf> = Vec::new();
        let mut next = Some(&self.module);
        // A file that is imported by itself has no metadata and looks in the common directory only.
        while let Some(module) = next
            && let Some(MetadataFile { metadata, .. }) = &module.metadata
        {
            if !metadata.path.is_empty() {
                roots.push(normal(&module.base.join(&metadata.path)));
            }
            next = if metadata.parentpathblock { None } else { module.parent.as_ref() };
        }
        roots.push(self.module.program.modules.clone());
        let mut unique = Vec::with_capacity(roots.len());
        for root in roots {
            if !unique.contains(&root) {
                unique.push(root);
            }
        }
        unique
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Location")
            .field("file", &self.file)
            .field("base", &self.module.base)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Resolver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("module_path", &self.module_path).finish_non_exhaustive()
    }
}

impl<'f> Resolver<'f> {
    /// Finds files in these. Modules from elsewhere are in `module_path`; if that is not given, in the directory that the
    /// metadata of the program names as `path`, or else in `modules` beside it.
    pub fn new(files: &'f dyn Files, module_path: Option<PathBuf>) -> Resolver<'f> {
        let current = files.current_directory();
        Resolver {
            files: WithEmbedded(files),
            module_path: module_path.map(|path| normal(&current.join(path))),
            current,
            standard_input: OnceLock::new(),
            hashes: Mutex::default(),
        }
    }

    /// The files, without those that are embedded.
    pub fn files(&self) -> &'f dyn Files {
        self.files.0
    }

    /// How the user would recognise a path.
    pub fn display(&self, path: &Path) -> String {
        if let Some(shown) = embedded::shown(path) {
            return shown;
        }
        if self.current == Path::new("/") && self.files.shows_root() {
            return path.display().to_string();
        }
        match path.strip_prefix(&self.current) {
            Ok(rest) if rest.as_os_str().is_empty() => "./".into(),
            Ok(rest) => rest.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }

    /// Finds the file that a program starts with.
    ///
    /// # Errors
    ///
    /// It is not there or cannot be read; the metadata or the lock file is wrong.
    pub fn entry(&self, entry: &Entry) -> Result<(Location, Vec<u8>), ResolveError> {
        let absolute = |path: &Path| normal(&self.current.join(path));
        match entry {
            Entry::File(path) => {
                let file = absolute(path);
                let base = file.parent().unwrap_or(&file).to_owned();
                let program = self.program(self.display(&file), &base, None, true)?;
                self.locate(file, Module { base, metadata: None, parent: None, origin: None, program })
            }
            Entry::Directory(path) => {
                let base = absolute(path);
                match self.metadata(&base)? {
                    Some(metadata) => self.entry_module(base, metadata),
                    None => {
                        let file = base.join("main.mcl");
                        if !self.files.is_file(&file) {
                            return Err(self.no_module(&base));
                        }
                        let program = self.program(self.display_directory(&base), &base, None, true)?;
                        self.locate(
                            file,
                            Module { base, metadata: None, parent: None, origin: None, program },
                        )
                    }
                }
            }
            Entry::Metadata(path) => {
                let file = absolute(path);
                let base = file.parent().unwrap_or(&file).to_owned();
                match self.metadata(&base)? {
                    Some(metadata) => self.entry_module(base, metadata),
                    None => Err(self.not_found(file)),
                }
            }
            Entry::StandardInput => {
                if self.standard_input.get().is_none() {
                    let content = self.files.standard_input().map_err(|error| ResolveError::Unreadable {
                        display: "standard input".into(),
                        error,
                    })?;
                    let _ = self.standard_input.set(content);
                }
                self.entry_text("standard input", self.standard_input.get().cloned().unwrap_or_default())
            }
            Entry::Code(code) => self.entry_text("command line", code.clone().into_bytes()),
        }
    }

    fn entry_module(
        &self,
        base: PathBuf,
        metadata: MetadataFile,
    ) -> Result<(Location, Vec<u8>), ResolveError> {
        let program = self.program(self.display_directory(&base), &base, Some(&metadata.metadata), true)?;
        let file = normal(&base.join(&metadata.metadata.main));
        self.locate(file, Module { base, metadata: Some(metadata), parent: None, origin: None, program })
    }

    fn entry_text(&self, name: &str, content: Vec<u8>) -> Result<(Location, Vec<u8>), ResolveError> {
        let base = self.current.clone();
        let program = self.program("PROGRAM".into(), &base, None, false)?;
        let file = base.join(name);
        let module = Module { base, metadata: None, parent: None, origin: None, program };
        let location =
            Location { identity: file.clone(), file, display: name.into(), module: Arc::new(module) };
        Ok((location, content))
    }

    fn program(
        &self,
        display: String,
        base: &Path,
        metadata: Option<&Metadata>,
        has_file: bool,
    ) -> Result<Arc<Program>, ResolveError> {
        let path = metadata.map(|metadata| metadata.path.as_str()).filter(|path| !path.is_empty());
        let modules =
            self.module_path.clone().unwrap_or_else(|| normal(&base.join(path.unwrap_or("modules"))));
        let lock_file = has_file.then(|| base.join(LOCK_FILE));
        let lock = match &lock_file {
            Some(file) => self.read_lock(file)?,
            None => None,
        };
        Ok(Arc::new(Program { display, base: base.to_owned(), modules, lock_file, lock }))
    }

    pub(super) fn read_lock(&self, file: &Path) -> Result<Option<Lock>, ResolveError> {
        match self.files.read(file) {
            Ok(content) => match Lock::parse(&content) {
                Ok(lock) => Ok(Some(lock)),
                Err(error) => Err(ResolveError::BadLock { display: self.display(file), message: error.0 }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ResolveError::Unreadable { display: self.display(file), error }),
        }
    }

    /// Finds what an import names.
    ///
    /// # Errors
    ///
    /// It is not there or cannot be read; the metadata is wrong; the module is not the one that was locked.
    pub fn resolve(&self, import: &ImportName, from: &Location) -> Result<(Location, Vec<u8>), ResolveError> {
        if let ImportClass::Remote { key, url } = &import.class {
            self.check_lock(key, &self.find_remote(key, url, from)?, &from.module.program)?;
        }
        self.resolve_unlocked(import, from)
    }

    /// The same while the lock is being written.
    pub fn resolve_unlocked(
        &self,
        import: &ImportName,
        from: &Location,
    ) -> Result<(Location, Vec<u8>), ResolveError> {
        let directory = from.file.parent().unwrap_or(&from.file);
        let (parent, program) = (Some(Arc::clone(&from.module)), Arc::clone(&from.module.program));
        let origin = from.module.origin.clone();
        match &import.class {
            ImportClass::System => Err(ResolveError::System { name: import.path.clone() }),
            ImportClass::File => {
                let file = normal(&directory.join(&import.path));
                self.check_inside(&file, origin.as_ref())?;
                let base = file.parent().unwrap_or(&file).to_owned();
                self.locate(file, Module { base, metadata: None, parent, origin, program })
            }
            ImportClass::Directory => {
                let base = normal(&directory.join(&import.path));
                self.check_inside(&base, origin.as_ref())?;
                let metadata = self.metadata(&base)?;
                let main = metadata.as_ref().map_or("main.mcl", |file| &file.metadata.main);
                let file = normal(&base.join(main));
                if metadata.is_none() && !self.files.is_file(&file) {
                    return Err(self.no_module(&base));
                }
                self.locate(file, Module { base, metadata, parent, origin, program })
            }
            ImportClass::Remote { key, url } => {
                let base = self.find_remote(key, url, from)?;
                let Some(metadata) = self.metadata(&base)? else {
                    return Err(ResolveError::NoMetadata { display: self.display_directory(&base) });
                };
                let file = normal(&base.join(&metadata.metadata.main));
                let origin = Some(Origin { root: base.clone(), url: url.clone() });
                self.locate(file, Module { base, metadata: Some(metadata), parent, origin, program })
            }
        }
    }

    /// The file that a module starts with that comes with the program.
    ///
    /// # Errors
    ///
    /// None, as long as the module is as its tests want it.
    pub fn embedded(
        &self,
        embedded: &Embedded,
        from: &Location,
    ) -> Result<(Location, Vec<u8>), ResolveError> {
        let base = embedded.base();
        let Some(metadata) = self.metadata(&base)? else {
            return Err(ResolveError::NoMetadata { display: self.display_directory(&base) });
        };
        let file = normal(&base.join(&metadata.metadata.main));
        let origin = Some(Origin { root: base.clone(), url: self.display_directory(&base) });
        // It is the same for all who import it, so it does not look where they look.
        let program = Arc::clone(&from.module.program);
        self.locate(file, Module { base, metadata: Some(metadata), parent: None, origin, program })
    }

    /// The directory of a module from elsewhere.
    pub fn find_remote(&self, key: &Path, url: &str, from: &Location) -> Result<PathBuf, ResolveError> {
        let tried: Vec<PathBuf> = from.search_path().iter().map(|root| root.join(key)).collect();
        if let Some(found) = tried.iter().find(|path| self.files.is_file(&path.join("metadata.yaml"))) {
            return Ok(found.clone());
        }
        match tried.iter().find(|path| self.files.is_directory(path)) {
            // It may as well hold other modules, whose names are longer.
            Some(found) if self.files.is_file(&found.join("main.mcl")) => {
                Err(ResolveError::NoMetadata { display: self.display_directory(found) })
            }
            _ => {
                let program = from.module.program.display.clone();
                Err(ResolveError::NotDownloaded { url: url.to_owned(), key: key.to_owned(), tried, program })
            }
        }
    }

    /// Something of the same name that a module could be meant by, for a name that no module of the program has.
    #[must_use]
    pub fn local_namesake(&self, import: &ImportName, from: &Location) -> Option<String> {
        let path = from.file.parent()?.join(&import.path);
        if self.files.is_file(&path.with_added_extension("mcl")) {
            return Some(format!("{}.mcl", import.path));
        }
        let is_module = ["metadata.yaml", "main.mcl"].iter().any(|name| self.files.is_file(&path.join(name)));
        is_module.then(|| format!("{}/", import.path))
    }

    fn locate(&self, file: PathBuf, module: Module) -> Result<(Location, Vec<u8>), ResolveError> {
        self.check_owner(&file, &module)?;
        let content = match self.files.read(&file) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(self.not_found(file)),
            Err(error) => return Err(ResolveError::Unreadable { display: self.display(&file), error }),
        };
        let identity = self.files.canonical(&file).unwrap_or_else(|_| file.clone());
        let display = self.display(&file);
        Ok((Location { file, display, identity, module: Arc::new(module) }, content))
    }

    fn metadata(&self, base: &Path) -> Result<Option<MetadataFile>, ResolveError> {
        let file = base.join("metadata.yaml");
        let display = self.display(&file);
        let content = match self.files.read(&file) {
            Ok(content) => content,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(ResolveError::Unreadable { display, error }),
        };
        let text = match String::from_utf8(content) {
            Ok(text) => text,
            Err(error) => {
                let error = io::Error::new(io::ErrorKind::InvalidData, error.utf8_error());
                return Err(ResolveError::Unreadable { display, error });
            }
        };
        let text: Arc<str> = text.into();
        match Metadata::parse(&text) {
            Ok(metadata) => Ok(Some(MetadataFile { metadata, display, text })),
            Err(note) => Err(ResolveError::BadMetadata { display, text, note }),
        }
    }

    /// A downloaded module consists of what its hash covers.
    fn check_inside(&self, path: &Path, origin: Option<&Origin>) -> Result<(), ResolveError> {
        match origin {
            Some(origin) if !path.starts_with(&origin.root) => Err(ResolveError::LeadsOut {
                display: self.display(path),
                module: self.display_directory(&origin.root),
            }),
            _ => Ok(()),
        }
    }

    /// A downloaded module is not what somebody else has put in its place.
    fn check_owner(&self, file: &Path, module: &Module) -> Result<(), ResolveError> {
        if module.origin.is_none() {
            return Ok(());
        }
        match self.files.mistrusted(file, &module.program.base) {
            Some(why) => Err(ResolveError::Mistrusted { display: self.display(file), why }),
            None => Ok(()),
        }
    }

    /// Compares a module with what is locked for it. Those that came with a program or a module are part of that.
    pub(super) fn check_lock(&self, key: &Path, base: &Path, program: &Program) -> Result<(), ResolveError> {
        if base != program.modules.join(key) {
            return Ok(());
        }
        let Some(locked) = program.lock.as_ref().and_then(|lock| lock.get(key)) else { return Ok(()) };
        let found = self.hash(base)?;
        if found == locked.hash {
            return Ok(());
        }
        Err(ResolveError::LockMismatch {
            key: lock_key(key),
            display: self.display_directory(base),
            lock: program
                .lock_file
                .as_deref()
                .map_or_else(|| LOCK_FILE.to_owned(), |file| self.display(file)),
            expected: locked.hash.clone(),
            found,
        })
    }

    fn hash(&self, base: &Path) -> Result<String, ResolveError> {
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hash) = hashes.get(base) {
            return Ok(hash.clone());
        }
        let hash = tree_hash(self.files.0, base)
            .map_err(|error| ResolveError::Unreadable { display: self.display_directory(base), error })?;
        hashes.insert(base.to_owned(), hash.clone());
        Ok(hash)
    }

    /// Forgets what is known about the content of modules, because it has changed.
    pub fn forget(&self) {
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn not_found(&self, file: PathBuf) -> ResolveError {
        let near = self.near(&file, "");
        ResolveError::NotFound { display: self.display(&file), tried: vec![file], near }
    }

    fn no_module(&self, base: &Path) -> ResolveError {
        let near = if self.files.is_directory(base) { None } else { self.near(base, "/") };
        let tried = ["metadata.yaml", "main.mcl"].map(|name| base.join(name)).to_vec();
        ResolveError::NotFound { display: self.display_directory(base), tried, near }
    }

    /// The name of something else in the same directory.
    fn near(&self, path: &Path, suffix: &str) -> Option<String> {
        let wanted = format!("{}{suffix}", path.file_name()?.to_str()?);
        let entries = self.files.entries(path.parent()?).ok()?;
        let names: Vec<String> = entries
            .into_iter()
            .filter_map(|entry| {
                let name = entry.name.into_string().ok()?;
                let is_other = name != wanted && !name.starts_with('.');
                is_other.then(|| if entry.kind == FileKind::Directory { format!("{name}/") } else { name })
            })
            .filter(|name| name.ends_with(".mcl") || name.ends_with('/'))
            .take(1000)
            .collect();
        did_you_mean(&wanted, names.iter().map(String::as_str)).map(str::to_owned)
    }

    /// How the user would recognise a directory: with a slash at the end.
    pub fn display_directory(&self, path: &Path) -> String {
        let display = self.display(path);
        if display.ends_with('/') { display } else { format!("{display}/") }
    }
}

#[cfg(test)]
mod tests;
