//! Making deploys ready to run: verifying them, putting their files into a directory, reading the program.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mgmt_engine::Preparation;
use mgmt_health::Instead;
use mgmt_lang::module::Entry;
use mgmt_remote::Handed;
use mgmt_resource::ResourceGraph;
use mgmt_signing::{Refused, Signer, TrustStore};
use mgmt_store::{Commits, Deploy, DeployError, InstalledFiles, LastDeploy, Program, SharedState, Tree};
use mgmt_sys::replace::Durability;

use super::super::follow::refused;
use super::super::program::Loaded as LoadedProgram;
use super::super::settings::Settings;
use super::super::{First, Following, Means, joint, puppet, repack};
use super::Arrival;
use crate::commands::deploy::moment;
use crate::configuration::{self, Input};
use crate::failure::Failure;
use crate::manifest::{AGENT, Manifest};
use crate::program::{self, package};
use crate::terminal::{Mistakes, Terminal};

/// Something that can be run, and again if what came after it cannot.
#[derive(Clone)]
pub(super) struct Runnable {
    pub(super) what: First,
    pub(super) how: Preparation,
    /// The deploy that it is.
    pub(super) deploy: Option<Arc<Installed>>,
    /// The directory with its files, if it was put there.
    pub(super) directory: Option<Arc<Directory>>,
    /// Its files may change.
    pub(super) watch: bool,
    /// It has run, so it is a way back.
    pub(super) proven: bool,
    /// What it is instead of a deploy.
    pub(super) instead: Option<Instead>,
    /// What ran before, if this is the graph of a plan: it runs again as soon as the plan is over.
    pub(super) over: Option<Arc<Runnable>>,
}

impl Runnable {
    /// Something that has not run yet.
    pub(super) fn new(what: First, how: Preparation) -> Runnable {
        Runnable {
            what,
            how,
            deploy: None,
            directory: None,
            watch: false,
            proven: false,
            instead: None,
            over: None,
        }
    }

    fn number(&self) -> Option<u64> {
        self.deploy.as_ref().map(|installed| installed.deploy.id)
    }

    /// Whether somebody can ask for its files to be read again. Those of a deploy do not change.
    pub(super) fn can_be_read_again(&self) -> bool {
        self.over.is_some() || self.what.can_be_read_again(self.directory.is_none())
    }
}

/// A deploy whose files are in a directory of this host.
pub(super) struct Installed {
    pub(super) deploy: Deploy,
    /// None for one that was kept by an earlier run.
    files: Option<InstalledFiles>,
}

/// A directory with the files of a deploy. It goes when nobody needs it, unless the next start may.
pub(super) struct Directory {
    path: PathBuf,
    is_kept: AtomicBool,
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.is_kept.load(Ordering::Acquire) {
            // What stays is removed at the next start.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Why a deploy is not ready to run.
pub(super) struct Refusal {
    pub(super) failure: Failure,
    /// Waiting can help.
    pub(super) is_passing: bool,
    /// The disk is full.
    pub(super) needs_space: bool,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal { failure, is_passing: true, needs_space: false }
    }
}

/// Makes deploys ready to run.
pub(super) struct Loader {
    pub(super) means: Means,
    place: Place,
    /// Only what is signed is run.
    trust: Option<TrustStore>,
    /// Which store deploys are of, for what is kept of them.
    store: &'static str,
    durability: Durability,
    /// The directory of the last deploy that ran.
    last: Mutex<Option<Arc<Directory>>>,
}

/// The name of the store whose deploys a run takes, as it stands in what is kept of them.
pub(in super::super) fn store_name(settings: &Settings) -> &'static str {
    if settings.is_shared() { "shared" } else { "host" }
}

impl Loader {
    pub(super) fn new(means: Means, place: PathBuf, settings: &Settings) -> Result<Loader, Failure> {
        let keys = settings.trusted.clone();
        let trust = (!keys.is_empty()).then(|| TrustStore::new(keys, place.clone()));
        let trust = trust.transpose().map_err(Failure::failed)?;
        let (store, durability) = (store_name(settings), settings.durability);
        Ok(Loader { means, place: Place(place), trust, store, durability, last: Mutex::default() })
    }

    /// The last deploy that ran here, if it was kept. What earlier runs have left beside it is removed.
    pub(super) fn last_deploy(&self) -> Option<LastDeploy> {
        let found = tokio::task::block_in_place(|| LastDeploy::read(&self.place.0));
        let last = found.unwrap_or_else(|error| {
            tracing::error!("the last deploy that ran cannot be read: {error}");
            None
        });
        // That of another store is what the next run with that store begins with.
        self.place.sweep(last.as_ref().map(|last| last.directory.as_path()));
        last.filter(|last| last.store == self.store)
    }

    pub(super) fn trusts_keys(&self) -> bool {
        self.trust.is_some()
    }

    /// From now on, this is what is evaluated. Whether it runs is seen later.
    pub(super) fn begin(&self, runnable: &Runnable) -> Following {
        self.means.engine.set_preparation(runnable.how.clone());
        // A program that has missing values says so once it is evaluated.
        self.means.host.incomplete.store(false, Ordering::Release);
        self.means.told.begin(runnable.number());
        Following::new(runnable.what.clone(), &Means { watch: runnable.watch, ..self.means.clone() })
    }

    /// Whether the graph of something can run, where that can be told before it does.
    pub(super) fn check(&self, runnable: &Runnable) -> Result<(), Refusal> {
        match runnable.what.graph() {
            Some(graph) => Ok(self.prepares(graph, &runnable.how)?),
            None => Ok(()),
        }
    }

    /// Whether the engine would take a graph.
    pub(super) fn prepares(&self, graph: &ResourceGraph, how: &Preparation) -> Result<(), Failure> {
        let prepare =
            || mgmt_engine::prepare_for(graph.clone(), &self.means.host, &mgmt_resources::KINDS, how);
        tokio::task::block_in_place(prepare).map(drop).map_err(|error| refused(&error))
    }

    /// Reports what runs.
    pub(super) fn report(&self, runnable: &Runnable) {
        self.means.told.deploy(runnable.number(), runnable.instead.clone());
    }

    /// Makes what has arrived ready to run. One that is tried again says nothing that was said before.
    pub(super) async fn load(&self, arrival: &Arrival, again: bool) -> Result<Runnable, Refusal> {
        let terminal = self.means.terminal.clone();
        let terminal = if again { terminal.mistakes(Mistakes::Silent) } else { terminal };
        let deploy = match arrival {
            Arrival::Deploy(deploy) => self.accepted(deploy)?,
            Arrival::Handed(number, Handed { program, files }) => {
                return tokio::task::block_in_place(|| {
                    let directory = self.place.put(*number, files)?;
                    let what = self.read(directory.path.clone(), program, &terminal)?;
                    let directory = Some(Arc::new(directory));
                    Ok(Runnable { directory, ..Runnable::new(what, preparation(program)) })
                });
            }
        };
        let files = files_of(&deploy, &self.means.shared).await?;
        tokio::task::block_in_place(|| {
            let directory = Arc::new(self.place.put(deploy.id, &files)?);
            let what = self.read(directory.path.clone(), &deploy.program, &terminal)?;
            Ok(runnable(what, Installed { deploy, files: Some(InstalledFiles::of(&files)) }, directory))
        })
    }

    /// The deploy as it may be run.
    fn accepted(&self, deploy: &Deploy) -> Result<Deploy, Refusal> {
        let Some(trust) = &self.trust else { return Ok(deploy.clone()) };
        tokio::task::block_in_place(|| trust.accept(deploy)).map_err(|refused| untrusted(deploy, &refused))
    }

    /// Makes the last deploy that ran here ready to run again, from what was kept of it.
    pub(super) fn load_last(&self, last: &LastDeploy) -> Result<Runnable, Refusal> {
        let confirmed = self.trust.as_ref().map(|trust| trust.confirm(&last.deploy));
        let deploy = confirmed.unwrap_or_else(|| Ok(last.deploy.clone()));
        let deploy = deploy.map_err(|refused| untrusted(&last.deploy, &refused))?;
        let read = || self.read(last.directory.clone(), &deploy.program, &self.means.terminal);
        let what = tokio::task::block_in_place(read)?;
        let directory = Arc::new(Directory { path: last.directory.clone(), is_kept: true.into() });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&directory));
        Ok(runnable(what, Installed { deploy, files: None }, directory))
    }

    /// Whether a deploy is the one that was kept, so that nothing of it has to be fetched. It has to be accepted like any other.
    pub(super) fn is_last(&self, deploy: &Deploy, last: &LastDeploy) -> bool {
        self.accepted(deploy).is_ok_and(|accepted| accepted == last.deploy)
    }

    /// A deploy has run: it is what the next start begins with if nothing newer can run.
    pub(super) fn keep(&self, runnable: &Runnable) {
        let (Some(installed), Some(directory)) = (&runnable.deploy, &runnable.directory) else { return };
        let Some(files) = &installed.files else { return };
        let (place, deploy) = (&self.place.0, &installed.deploy);
        let name = directory.path.file_name().unwrap_or_default().to_string_lossy();
        directory.is_kept.store(true, Ordering::Release);
        let kept = tokio::task::block_in_place(|| {
            LastDeploy::write(place, self.store, deploy, &name, files, self.durability)
        });
        if let Err(error) = kept {
            directory.is_kept.store(false, Ordering::Release);
            tracing::warn!("deploy {} is not kept for the next start: {error}", deploy.id);
            return;
        }
        let before = self.last.lock().unwrap_or_else(PoisonError::into_inner).replace(Arc::clone(directory));
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, directory)) {
            before.is_kept.store(false, Ordering::Release);
        }
    }

    /// Reads a program whose files are in a directory.
    fn read(&self, directory: PathBuf, program: &Program, terminal: &Terminal) -> Result<First, Failure> {
        let entry = directory.join(&program.entry);
        match program.frontend.as_str() {
            "empty" => Ok(First::empty()),
            "yaml" => Ok(First::Graph(None, configuration::load(&Input::new(&entry, false), terminal)?)),
            "lang" => {
                let entry = match program.entry.is_empty() {
                    true => Entry::Directory(directory.clone()),
                    false => Entry::File(entry),
                };
                let modules = directory.join(package::MODULES);
                let module_path = modules.is_dir().then_some(modules);
                let options = program::Options { module_path, lints: false };
                Ok(First::Program(LoadedProgram::new(entry, options, terminal)?))
            }
            "puppet" => {
                let is_elsewhere = program.entry == AGENT && !entry.exists();
                let entry = if is_elsewhere { AGENT.into() } else { entry };
                let manifest = Manifest::unpacked(entry.as_os_str(), &directory)?;
                let loaded =
                    tokio::runtime::Handle::current().block_on(puppet::Loaded::new(manifest, terminal))?;
                Ok(First::Manifest(loaded))
            }
            "langpuppet" => {
                let lang = match program.entry == package::LANG {
                    true => Entry::Directory(entry),
                    false => Entry::File(entry),
                };
                let modules = directory.join(package::LANG).join(package::MODULES);
                let options =
                    program::Options { module_path: modules.is_dir().then_some(modules), lints: false };
                let manifest = directory.join(package::PUPPET);
                // Without files of its own, it is what the server has for each host.
                let manifest = if manifest.is_dir() { manifest } else { AGENT.into() };
                let manifest = Manifest::unpacked(manifest.as_os_str(), &directory)?;
                Ok(First::Both(joint::Loaded {
                    program: LoadedProgram::new(lang, options, terminal)?,
                    manifest: tokio::runtime::Handle::current()
                        .block_on(puppet::Loaded::new(manifest, terminal))?,
                    allow_unmatched: directory.join(package::ALLOW).is_file(),
                }))
            }
            other => Err(Failure::failed(format!("this version has no front-end `{other}`"))),
        }
    }
}

impl Installed {
    /// A deploy whose files are not in a directory of deploys: it was made here.
    pub(super) fn own(deploy: Deploy) -> Installed {
        Installed { deploy, files: None }
    }
}

fn runnable(what: First, installed: Installed, directory: Arc<Directory>) -> Runnable {
    let how = preparation(&installed.deploy.program);
    Runnable { deploy: Some(Arc::new(installed)), directory: Some(directory), ..Runnable::new(what, how) }
}

fn untrusted(deploy: &Deploy, refused: &Refused) -> Refusal {
    let why = match refused {
        Refused::Expired { until } => format!("it was to be begun with until {}", moment(*until)),
        Refused::FromTheFuture { begins }
        | Refused::Void { begins }
        | Refused::AcceptedFuture { begins, .. } => {
            format!("{refused} (the series begins at {})", moment(*begins))
        }
        refused => refused.to_string(),
    };
    let forget;
    let hint = match refused {
        Refused::Replayed { .. } => {
            "if the store was restored from a backup, deploy once with `--new-series`; otherwise find out who has put it there"
        }
        Refused::FromTheFuture { .. } => {
            "set the clocks of the host that has signed it and of this host, and deploy again; it is tried again by itself"
        }
        Refused::Void { .. } => "deploy it again",
        Refused::AcceptedFuture { path, .. } => {
            forget = format!(
                "set the clock of this host; if it is right now, remove {path}, after which older deploys of this key are accepted, too"
            );
            &forget
        }
        _ => "sign it with `mgmt deploy --sign-key FILE`, or give this host the right `--deploy-key`",
    };
    let failure = Failure::failed(format!("deploy {} is refused: {why}", deploy.id)).hint(hint);
    Refusal { failure, is_passing: refused.is_passing(), needs_space: false }
}

fn preparation(program: &Program) -> Preparation {
    Preparation {
        noop: program.noop,
        sema: u32::try_from(program.sema).ok().filter(|sema| *sema > 0),
        autoedges: !program.no_autoedges,
        autogroup: !program.no_autogroup,
    }
}

/// How long to wait before a store that did not answer is asked again.
const STORE_RETRY_DELAY: Duration = Duration::from_millis(500);

/// The files of a deploy, as soon as the store can give them. What runs goes on meanwhile.
async fn files_of(deploy: &Deploy, world: &SharedState) -> Result<Tree, Failure> {
    let mut reported = false;
    loop {
        match world.deployed_files(deploy).await {
            Err(error) if error.is_passing() => {
                if !std::mem::replace(&mut reported, true) {
                    tracing::warn!("waiting for the files of deploy {}: {error}", deploy.id);
                }
                tokio::time::sleep(STORE_RETRY_DELAY).await;
            }
            files => return files.map_err(Failure::failed),
        }
    }
}

/// What was given to this run, for other hosts to run.
pub(in super::super) fn packed(first: &First, how: &Program) -> Result<Handed, Failure> {
    match first {
        First::Program(loaded) => repack::program(loaded, how),
        First::Graph(_, loaded) => repack::graph(loaded.content.clone(), how),
        First::Manifest(loaded) => repack::manifest(&loaded.manifest, how),
        First::Both(loaded) => repack::both(loaded, how),
    }
}

/// What runs here, for all hosts.
pub(super) struct Offer {
    handed: Handed,
    signer: Option<Arc<Signer>>,
    world: Arc<SharedState>,
}

impl Offer {
    pub(super) fn new(
        first: &First,
        settings: &Settings,
        world: &Arc<SharedState>,
    ) -> Result<Offer, Failure> {
        let handed = packed(first, &settings.program())?;
        Ok(Offer { handed, signer: settings.signer.clone(), world: Arc::clone(world) })
    }

    /// Gives it to all hosts.
    pub(super) async fn publish(&self) -> Result<Deploy, DeployError> {
        let Handed { program, files } = &self.handed;
        let signer = self.signer.as_deref().map(|signer| signer as _);
        self.world.add_deploy(program, files, &Commits::default(), signer).await
    }
}

/// Where the files of deploys are put.
struct Place(PathBuf);

impl Place {
    /// Writes the files of a deploy into a new directory. One that is there is left alone: it may be what runs, or what was kept.
    fn put(&self, number: u64, files: &Tree) -> Result<Directory, Refusal> {
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700);
        let mut directory = self.0.join(number.to_string());
        let mut attempt = 0;
        while let Err(error) = builder.create(&directory) {
            attempt += 1;
            if error.kind() != ErrorKind::AlreadyExists || attempt == 10_000 {
                return Err(unwritable(&directory, &error));
            }
            directory = self.0.join(format!("{number}-{attempt}"));
        }
        // Half a deploy is of no use, and takes room that somebody needs: it goes with this.
        let directory = Directory { path: directory, is_kept: false.into() };
        fill(&directory.path, files)?;
        Ok(directory)
    }

    /// Removes the directories that earlier runs have left, apart from one.
    fn sweep(&self, kept: Option<&Path>) {
        let is_number = |name: &str| name.split('-').all(|number| number.parse::<u64>().is_ok());
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_number) && kept != Some(&entry.path()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

fn fill(directory: &Path, files: &Tree) -> Result<(), Refusal> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    for (path, file) in files.iter() {
        let path = directory.join(path);
        if let Some(parent) = path.parent() {
            builder.create(parent).map_err(|error| unwritable(parent, &error))?;
        }
        let mode = if file.executable { 0o700 } else { 0o600 };
        let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        opened
            .and_then(|mut opened| opened.write_all(&file.content))
            .map_err(|error| unwritable(&path, &error))?;
    }
    Ok(())
}

fn unwritable(path: &Path, error: &std::io::Error) -> Refusal {
    let needs_space = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    let failure = Failure::failed(format!("cannot write {}: {error}", path.display()));
    let failure =
        if needs_space { failure.hint("make room there; it is tried again by itself") } else { failure };
    Refusal { failure, is_passing: true, needs_space }
}
