//! The downloader: fetches the modules of a program that come from elsewhere, and writes the lock file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgmt_syntax::ast::{AstNode as _, Import};
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::path::ManagedPath;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};

use mgmt_lang::module::{
    Disk, Entry, Files as _, ImportClass, ImportName, Location, Lock, LockedModule, ResolveError, Resolver,
    lock_key, tree_hash, without_password,
};

use crate::git::{Git, GitError};
use crate::install::{Record, Workshop, record, strip};

/// How to download.
#[derive(Clone, Copy, Debug)]
pub struct DownloadOptions {
    /// Take the newest commits, and lock those.
    pub update: bool,
    /// The most bytes that the files of a module may have.
    pub max_size: u64,
}

impl Default for DownloadOptions {
    fn default() -> DownloadOptions {
        DownloadOptions { update: false, max_size: 1 << 30 }
    }
}

/// What became of the modules of a program.
#[derive(Debug, Default)]
pub struct Downloaded {
    /// Each module from elsewhere that the program uses, in the order in which they were found.
    pub modules: Vec<DownloadedModule>,
    /// What went wrong. The rest was done nevertheless.
    pub problems: Vec<DownloadProblem>,
    /// The lock file, if it was written.
    pub wrote_lock: Option<PathBuf>,
}

/// A module that is in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadedModule {
    /// How the lock calls it: its directory below the directory of modules.
    pub key: String,
    /// Where it comes from.
    pub url: String,
    /// The commit, if it is known.
    pub commit: Option<String>,
    /// The hash of its content.
    pub hash: String,
    /// What was done.
    pub outcome: DownloadOutcome,
}

/// What was done about a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownloadOutcome {
    /// It was not there.
    Fetched,
    /// Another commit of it was there.
    Replaced {
        /// That commit.
        from: String,
    },
    /// It was there.
    Unchanged,
    /// It was there, put in place by other means, so that it is not touched.
    Foreign,
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadProblem {
    /// The place in a program.
    pub place: Option<DownloadPlace>,
    /// What is wrong, in one sentence without a final stop.
    pub message: String,
    /// What to do about it, and what else to know.
    pub hints: Vec<String>,
}

/// A place in a file of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadPlace {
    /// The name of the file in messages.
    pub display: String,
    /// Its text.
    pub text: Arc<str>,
    /// The bytes.
    pub span: Range<usize>,
}

/// What to tell while it goes on.
#[derive(Clone, Copy, Debug)]
pub enum DownloadProgress<'a> {
    /// Somebody else changes the same directory of modules.
    Waiting {
        /// That directory.
        modules: &'a Path,
    },
    /// A module is being fetched.
    Fetching {
        /// From where.
        url: &'a str,
    },
    /// A module is fetched in a way that anybody in between can change, and nothing is locked to compare it with.
    Unauthenticated {
        /// From where.
        url: &'a str,
    },
    /// A module is in its place.
    Ready(&'a DownloadedModule),
}

/// Why nothing could be done at all.
#[derive(Debug)]
pub enum DownloadError {
    /// The program cannot be read, or its metadata or its lock file is wrong.
    Program(ResolveError),
    /// The directory of modules cannot be used.
    Modules {
        /// The directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no git.
    Git {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The lock file cannot be written.
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

impl fmt::Display for DownloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DownloadError::Program(error) => error.fmt(f),
            DownloadError::Modules { path, error } => {
                write!(f, "cannot use the directory of modules {}: {error}", path.display())
            }
            DownloadError::Git { message, .. } => f.write_str(message),
            DownloadError::Lock { path, message } => write!(f, "cannot write {}: {message}", path.display()),
        }
    }
}

impl std::error::Error for DownloadError {}

impl DownloadError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            DownloadError::Program(error) => error.hint(),
            DownloadError::Git { hint, .. } => hint.clone(),
            DownloadError::Modules { .. } | DownloadError::Lock { .. } => None,
        }
    }
}

/// Fetches all modules from elsewhere that a program uses, also through others, and locks them.
///
/// Modules that are in their place are compared with the lock and left alone. One that was downloaded and is
/// another than the locked one is replaced; one that was changed by hand never is.
///
/// # Errors
///
/// The program cannot be read, there is no git, or a directory or the lock file cannot be written. What is wrong with
/// single imports is in [`Downloaded::problems`].
pub fn download(
    entry: &Entry,
    resolver: &Resolver<'_>,
    options: DownloadOptions,
    progress: &mut dyn FnMut(DownloadProgress<'_>),
) -> Result<Downloaded, DownloadError> {
    let (location, content) = resolver.entry(entry).map_err(DownloadError::Program)?;
    let locked = location.lock().cloned();
    let lock_file = location.lock_file().map(Path::to_owned);
    let mut fetcher = Fetcher {
        resolver,
        options,
        progress,
        modules: location.module_path().to_owned(),
        lock_file: lock_file.clone(),
        lock: locked.clone().unwrap_or_default(),
        means: None,
        done: BTreeMap::new(),
        result: Downloaded::default(),
    };
    fetcher.follow(location, content)?;
    resolver.forget();
    let Fetcher { lock, mut result, .. } = fetcher;
    if let Some(file) = &lock_file
        && !result.modules.is_empty()
        && locked.as_ref() != Some(&lock)
    {
        write_lock(file, &lock)
            .map_err(|error| DownloadError::Lock { path: file.clone(), message: error.to_string() })?;
        result.wrote_lock = Some(file.clone());
    }
    Ok(result)
}

struct Fetcher<'a, 'f> {
    resolver: &'a Resolver<'f>,
    options: DownloadOptions,
    progress: &'a mut dyn FnMut(DownloadProgress<'_>),
    modules: PathBuf,
    lock_file: Option<PathBuf>,
    lock: Lock,
    /// What is needed to change anything. A program that has everything needs none of it.
    means: Option<(Git, Workshop)>,
    /// The modules that were looked at, and whether they can be used.
    done: BTreeMap<PathBuf, bool>,
    result: Downloaded,
}

/// Why a module cannot be used.
enum Refusal {
    Module(GitError),
    Fatal(DownloadError),
}

impl From<GitError> for Refusal {
    fn from(error: GitError) -> Refusal {
        Refusal::Module(error)
    }
}

impl From<DownloadError> for Refusal {
    fn from(error: DownloadError) -> Refusal {
        Refusal::Fatal(error)
    }
}

impl Fetcher<'_, '_> {
    /// Goes through the file and everything that it imports.
    fn follow(&mut self, location: Location, content: Vec<u8>) -> Result<(), DownloadError> {
        // The same file may find other modules when somebody else imports it.
        let mut seen: BTreeSet<(PathBuf, Vec<PathBuf>)> = BTreeSet::new();
        let mut pending = VecDeque::from([(location, content)]);
        while let Some((location, content)) = pending.pop_front() {
            if !seen.insert((location.identity.clone(), location.search_path())) {
                continue;
            }
            let text: Arc<str> = match mgmt_syntax::decode(&content) {
                Ok(text) => text.into(),
                Err(error) => {
                    self.problem(None, format!("{}: {}", location.display, error.message), Vec::new());
                    continue;
                }
            };
            let parse = mgmt_syntax::parse(&text);
            let place = |range: mgmt_syntax::TextRange| {
                let display = location.display.clone();
                Some(DownloadPlace { display, text: Arc::clone(&text), span: range.into() })
            };
            if let Some(error) = parse.errors().iter().find(|error| !error.code.is_in_string()) {
                let hint = "imports behind a mistake in the text may not be found".to_owned();
                self.problem(place(error.range), error.message.to_string(), vec![hint]);
            }
            for import in parse.syntax().descendants().filter_map(Import::cast) {
                let Some(token) = import.name_token() else { continue };
                let written = token.text();
                let name = written.get(1..written.len().saturating_sub(1)).unwrap_or_default();
                let name = match ImportName::parse(name) {
                    Ok(name) => name,
                    Err(error) => {
                        let hints = error.hint.into_iter().collect();
                        self.problem(place(token.text_range()), error.message, hints);
                        continue;
                    }
                };
                if name.class == ImportClass::System
                    || !self.obtain(&name, &location, || place(token.text_range()))?
                {
                    continue;
                }
                match self.resolver.resolve_unlocked(&name, &location) {
                    Ok(next) => pending.push_back(next),
                    Err(error) => {
                        let hints = error.hint().into_iter().collect();
                        self.problem(place(token.text_range()), error.to_string(), hints);
                    }
                }
            }
        }
        Ok(())
    }

    fn problem(&mut self, place: Option<DownloadPlace>, message: String, hints: Vec<String>) {
        self.result.problems.push(DownloadProblem { place, message, hints });
    }

    /// Sees to it that what an import names is there. Says whether to go on into it.
    fn obtain(
        &mut self,
        name: &ImportName,
        from: &Location,
        place: impl Fn() -> Option<DownloadPlace>,
    ) -> Result<bool, DownloadError> {
        let ImportClass::Remote { key, url } = &name.class else { return Ok(true) };
        let target = self.modules.join(key);
        // What came with the program, or with a module, is part of that.
        if self.resolver.find_remote(key, url, from).is_ok_and(|found| found != target) {
            return Ok(true);
        }
        if let Some(usable) = self.done.get(key) {
            return Ok(*usable);
        }
        let local = match check_scheme(url, from) {
            Ok(local) => local,
            Err(error) => {
                self.problem(place(), error.message, error.hint.into_iter().collect());
                return Ok(false);
            }
        };
        match self.module(key, url, local) {
            Ok(module) => {
                let DownloadedModule { key: name, url, commit, hash, .. } = module.clone();
                self.lock.modules.insert(name, LockedModule { url, commit, hash });
                (self.progress)(DownloadProgress::Ready(&module));
                self.result.modules.push(module);
                self.done.insert(key.clone(), true);
                Ok(true)
            }
            Err(Refusal::Module(error)) => {
                self.problem(place(), error.message, error.hint.into_iter().collect());
                self.done.insert(key.clone(), false);
                Ok(false)
            }
            Err(Refusal::Fatal(error)) => Err(error),
        }
    }

    /// Sees to it that a module is in its place.
    fn module(&mut self, key: &Path, url: &str, local: bool) -> Result<DownloadedModule, Refusal> {
        let target = self.modules.join(key);
        let locked = self.lock.get(key).cloned();
        if !Disk.is_file(&target.join("metadata.yaml")) {
            return self.fetch(key, url, locked, None, local);
        }
        let found = tree_hash(&Disk, &target)
            .map_err(|error| GitError::new(format!("cannot read {}: {error}", target.display())))?;
        let known = record(&target).filter(|known| known.hash == found);
        let ready = |commit: Option<String>, outcome| {
            let url = without_password(url);
            Ok(DownloadedModule { key: lock_key(key), url, commit, hash: found.clone(), outcome })
        };
        match (&known, &locked) {
            (Some(known), _) if self.options.update => {
                let newest = self.git()?.newest(url, local)?;
                if newest == known.commit {
                    return ready(Some(newest), DownloadOutcome::Unchanged);
                }
                self.fetch(key, url, None, Some(known), local)
            }
            (_, Some(locked)) if locked.hash == found => {
                ready(locked.commit.clone(), DownloadOutcome::Unchanged)
            }
            (Some(known), Some(_)) => self.fetch(key, url, locked, Some(known), local),
            (Some(known), None) => ready(Some(known.commit.clone()), DownloadOutcome::Unchanged),
            (None, Some(locked)) => {
                let lock_file =
                    self.lock_file.as_deref().map(|file| self.resolver.display(file)).unwrap_or_default();
                let message = format!(
                    "the module in `{}` is not the one that `{lock_file}` names, and it was changed by hand",
                    self.resolver.display_directory(&target)
                );
                let hint = format!(
                    "remove that directory to get the locked one; if the change is meant, remove `{}` from the lock \
                     file (locked: {}, found: {found})",
                    lock_key(key),
                    locked.hash
                );
                Err(GitError::new(message).hint(hint).into())
            }
            (None, None) => ready(None, DownloadOutcome::Foreign),
        }
    }

    /// Fetches a module and puts it in its place. If something is locked it must be that.
    fn fetch(
        &mut self,
        key: &Path,
        url: &str,
        locked: Option<LockedModule>,
        replaces: Option<&Record>,
        local: bool,
    ) -> Result<DownloadedModule, Refusal> {
        let locked = locked.filter(|_| !self.options.update);
        let most = self.options.max_size;
        self.git()?;
        let shown = without_password(url);
        if locked.is_none() && (url.starts_with("git://") || url.starts_with("http://")) {
            (self.progress)(DownloadProgress::Unauthenticated { url: &shown });
        }
        (self.progress)(DownloadProgress::Fetching { url: &shown });
        let Some((git, workshop)) = &mut self.means else {
            return Err(GitError::new("nothing to download with").into());
        };
        workshop.check_place(key)?;
        let bench = workshop.bench();
        let in_module = |error: GitError| GitError {
            message: format!("the module `{shown}` cannot be used: {}", error.message),
            hint: error.hint,
        };
        let commit = locked.as_ref().and_then(|locked| locked.commit.as_deref());
        let commit = git.fetch(url, commit, &bench, local)?;
        let hash = strip(&bench, most).map_err(in_module)?;
        if let Some(locked) = &locked
            && locked.hash != hash
        {
            let message =
                format!("its content is not what is locked (locked: {}, found: {hash})", locked.hash);
            let hint =
                "somebody has changed the repository or the lock file; `--update` locks what is there now";
            return Err(in_module(GitError::new(message).hint(hint)).into());
        }
        let made = Record { url: shown.clone(), commit: commit.clone(), hash: hash.clone() };
        workshop
            .install(&bench, key, &made)
            .map_err(|error| DownloadError::Modules { path: self.modules.join(key), error })?;
        let outcome = match replaces {
            Some(old) => DownloadOutcome::Replaced { from: old.commit.clone() },
            None => DownloadOutcome::Fetched,
        };
        Ok(DownloadedModule { key: lock_key(key), url: shown, commit: Some(commit), hash, outcome })
    }

    fn git(&mut self) -> Result<&Git, DownloadError> {
        if self.means.is_none() {
            // The history and the files are both on disk for a while.
            let most = self.options.max_size.saturating_mul(2).saturating_add(16 << 20);
            let git = Git::find(most)
                .map_err(|error| DownloadError::Git { message: error.message, hint: error.hint })?;
            let modules = &self.modules;
            let progress = &mut self.progress;
            let workshop = Workshop::open(modules, &mut || progress(DownloadProgress::Waiting { modules }))
                .map_err(|error| DownloadError::Modules { path: modules.clone(), error })?;
            self.means = Some((git, workshop));
        }
        match &self.means {
            Some((git, _)) => Ok(git),
            None => Err(DownloadError::Git { message: "there is no git".into(), hint: None }),
        }
    }
}

/// Whether the module may come from this machine, or why it cannot come at all.
fn check_scheme(url: &str, from: &Location) -> Result<bool, GitError> {
    let shown = without_password(url);
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    match scheme {
        "https" | "ssh" | "git" | "http" => Ok(false),
        "file" => match from.origin_url() {
            Some(origin) if !origin.starts_with("file://") => {
                let message =
                    format!("a module that was downloaded cannot import `{shown}` from this machine");
                Err(GitError::new(message))
            }
            _ => Ok(true),
        },
        _ => Err(GitError::new(format!(
            "`{shown}` cannot be downloaded: `{scheme}` is not a way to get a module"
        ))
        .hint("modules come by `https`, `ssh`, `git`, `http` or `file`")),
    }
}

fn write_lock(file: &Path, lock: &Lock) -> Result<(), Box<dyn std::error::Error>> {
    let path = ManagedPath::new(file.as_os_str().as_encoded_bytes())?;
    let parent = Parent::open(&path)?;
    let name = path.file_name().unwrap_or_default();
    let is_new = parent.lstat_entry(name)?.is_none();
    let mode = is_new.then(mgmt_sys::mode::default_file_mode);
    let mut replacement = Replacement::begin(&parent, name, InPlace::Allow)?;
    replacement.write_all(lock.to_text().as_bytes())?;
    replacement.commit(&Attributes { mode, ..Attributes::default() }, Expect::Anything, Durability::Data)?;
    Ok(())
}
