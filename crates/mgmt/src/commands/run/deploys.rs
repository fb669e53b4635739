//! Programs that were given to all hosts, taken while a run goes on.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mgmt_engine::Preparation;
use mgmt_lang::module::Entry;
use mgmt_remote::Handed;
use mgmt_world::store::Watch;
use mgmt_world::{Commits, Deploy, Program, Refused, Tree, Trust, World};
use tokio::sync::{mpsc, oneshot};

use super::follow::Triggers;
use super::program::Loaded as LoadedProgram;
use super::settings::{Settings, Source};
use super::{First, Following, Means, repack};
use super::{joint, puppet};
use crate::commands::deploy::moment;
use crate::configuration::{self, Input};
use crate::failure::Failure;
use crate::manifest::{AGENT, Manifest};
use crate::program::{self, package};

/// What runs now, and what comes after it.
pub(super) struct Deploys {
    present: Runnable,
    loader: Loader,
    later: Later,
    /// Deploys up to this one are of no interest.
    last: u64,
    watch: Box<dyn Watch>,
    /// What the one who has started this run hands over, which is run instead of deploys.
    handed: Option<mpsc::Receiver<Handed>>,
}

/// Something to be run from now on.
enum Arrival {
    Deploy(Deploy),
    /// It came from the one who has started this run, as the one of this number.
    Handed(u64, Handed),
}

/// Something that can be run, and again if what came after it cannot.
#[derive(Clone)]
struct Runnable {
    what: First,
    how: Preparation,
    /// The number of the deploy that it is.
    deploy: Option<u64>,
    /// Its files may change.
    watch: bool,
}

/// Which of the deploys to come are run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Later {
    All,
    /// The first one that comes.
    One,
    Nothing,
}

/// A deploy that has not shown yet that it can run.
struct Trial {
    arrival: Arrival,
    /// What did.
    before: Runnable,
    start: oneshot::Receiver<Result<(), Failure>>,
}

/// Makes deploys ready to run.
struct Loader {
    means: Means,
    place: Place,
    /// Only what is signed is run.
    trust: Option<Trust>,
}

/// Where the files of deploys are put.
struct Place(PathBuf);

impl Deploys {
    /// Decides what runs first.
    ///
    /// A program that was given to this run is run here. If other hosts share the store, it is given to them, too. Without
    /// one, what is deployed already is run, unless only what comes later is wanted.
    pub(super) async fn begin(
        first: First,
        settings: &Settings,
        means: Means,
        place: PathBuf,
        handed: Option<mpsc::Receiver<Handed>>,
    ) -> Result<Deploys, Failure> {
        let world = Arc::clone(&means.host.world);
        let mut watch = world.watch_deploys();
        // What comes from now on is told.
        watch.next().await.map_err(Failure::failed)?;
        let present =
            Runnable { what: first, how: settings.preparation(), deploy: None, watch: settings.watch };
        let is_given = !settings.idle && !matches!(settings.input, Source::Empty);
        let later = match (settings.deploy_watch, is_given) {
            _ if settings.idle => Later::Nothing,
            (true, _) => Later::All,
            (false, false) => Later::One,
            (false, true) => Later::Nothing,
        };
        let keys = settings.trusted.clone();
        let trust = (!keys.is_empty()).then(|| Trust::new(keys, place.clone()));
        let trust = trust.transpose().map_err(Failure::failed)?;
        let is_shared = settings.is_shared();
        if is_given && is_shared && trust.is_some() && settings.signer.is_none() {
            tracing::warn!(
                "the program is not given to other hosts: there is no `--sign-key` to sign it with"
            );
        }
        let is_published = is_shared && (trust.is_none() || settings.signer.is_some());
        let loader = Loader { means, place: Place(place), trust };
        let mut deploys = Deploys { present, loader, later, last: 0, watch, handed };
        if deploys.handed.is_some() {
            let first = deploys.next().await;
            deploys.present = deploys.loader.load(&first).await?;
            return Ok(deploys);
        }
        if is_given && is_published {
            let deploy = publish(&deploys.present.what, settings, &world).await?;
            tracing::info!("deployed as number {}", deploy.id);
            deploys.last = deploy.id;
            deploys.present.deploy = Some(deploy.id);
        } else if let Some(deploy) = newest(&world).await? {
            deploys.last = deploy.id;
            if !is_given && !settings.wait && !settings.idle {
                deploys.take(deploy).await;
            }
        }
        Ok(deploys)
    }

    /// Has a deploy run first.
    async fn take(&mut self, deploy: Deploy) {
        let arrival = Arrival::Deploy(deploy);
        match self.loader.load(&arrival).await {
            Ok(runnable) => {
                self.present = runnable;
                self.taken();
            }
            Err(failure) => self.loader.refuse(&arrival, &failure),
        }
    }

    fn taken(&mut self) {
        if self.later == Later::One {
            self.later = Later::Nothing;
        }
    }

    pub(super) fn triggers(&self) -> Triggers {
        self.loader.following(&self.present).triggers()
    }

    /// Runs what there is first, and then every newer deploy, until it is aborted. Where a deploy cannot run, what ran
    /// before it goes on.
    pub(super) async fn follow(mut self, triggers: Triggers, started: oneshot::Sender<Result<(), Failure>>) {
        // What runs is continued here and nowhere else, and ends with this.
        let mut running = Some(Box::pin(self.loader.begin(&self.present).follow(triggers.clone(), started)));
        let mut trial: Option<Trial> = None;
        loop {
            tokio::select! {
                biased;
                answer = answer(&mut trial) => {
                    let (Some(Trial { arrival, before, .. }), Some(failure)) = (trial.take(), answer) else { continue };
                    self.loader.refuse(&arrival, &failure);
                    drop(running.take());
                    self.present = before;
                    let (nobody, _) = oneshot::channel();
                    running = Some(Box::pin(self.loader.begin(&self.present).follow(triggers.clone(), nobody)));
                }
                arrival = self.next(), if self.later != Later::Nothing => {
                    match &arrival {
                        Arrival::Deploy(deploy) => tracing::info!("taking deploy {}, made by {}", deploy.id, deploy.by),
                        Arrival::Handed(..) => tracing::info!("taking another program"),
                    }
                    let runnable = match self.loader.load(&arrival).await {
                        Ok(runnable) => runnable,
                        Err(failure) => {
                            self.loader.refuse(&arrival, &failure);
                            continue;
                        }
                    };
                    self.taken();
                    drop(running.take());
                    let replaced = std::mem::replace(&mut self.present, runnable);
                    // One that never got so far is no way back.
                    let before = trial.take().map_or(replaced, |trial| trial.before);
                    let (started, start) = oneshot::channel();
                    running = Some(Box::pin(self.loader.begin(&self.present).follow(triggers.clone(), started)));
                    trial = Some(Trial { arrival, before, start });
                }
                () = going_on(&mut running) => running = None,
            }
        }
    }

    /// Waits for something that is newer than the last.
    async fn next(&mut self) -> Arrival {
        if let Some(handed) = &mut self.handed {
            let Some(handed) = handed.recv().await else {
                // The one who has started this run is gone, and the run ends for that.
                return std::future::pending().await;
            };
            self.last += 1;
            return Arrival::Handed(self.last, handed);
        }
        let world = Arc::clone(&self.loader.means.host.world);
        match world.deploy_after(self.last, &mut *self.watch).await {
            Ok(deploy) => {
                self.last = deploy.id;
                Arrival::Deploy(deploy)
            }
            // The store is being closed.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Goes on with what runs, until it is over. One that is over, as a graph from a pipe is at once, leaves its graph behind.
async fn going_on(running: &mut Option<Pin<Box<impl Future<Output = ()>>>>) {
    match running {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
}

/// Waits until it is known whether the deploy on trial runs, and gives what is wrong with it.
async fn answer(trial: &mut Option<Trial>) -> Option<Failure> {
    match trial {
        Some(trial) => (&mut trial.start).await.ok().and_then(Result::err),
        None => std::future::pending().await,
    }
}

impl Loader {
    fn refuse(&self, arrival: &Arrival, failure: &Failure) {
        if !failure.message.is_empty() {
            self.means.terminal.failure(failure);
        }
        match arrival {
            Arrival::Deploy(deploy) => {
                tracing::error!("deploy {} cannot be run; what ran before goes on", deploy.id);
            }
            Arrival::Handed(..) => tracing::error!("the program cannot be run; what ran before goes on"),
        }
    }

    fn following(&self, runnable: &Runnable) -> Following {
        Following::new(runnable.what.clone(), &Means { watch: runnable.watch, ..self.means.clone() })
    }

    /// From now on, this is what runs.
    fn begin(&self, runnable: &Runnable) -> Following {
        self.means.engine.set_preparation(runnable.how.clone());
        self.means.told.deploy(runnable.deploy);
        self.following(runnable)
    }

    /// Makes what has arrived ready to run.
    async fn load(&self, arrival: &Arrival) -> Result<Runnable, Failure> {
        let deploy = match arrival {
            Arrival::Deploy(deploy) => deploy,
            Arrival::Handed(number, Handed { program, files }) => {
                let what = tokio::task::block_in_place(|| self.read(*number, program, files))?;
                return Ok(Runnable { what, how: preparation(program), deploy: None, watch: false });
            }
        };
        let accepted = self.trust.as_ref().map(|trust| tokio::task::block_in_place(|| trust.accept(deploy)));
        let deploy = &accepted.unwrap_or_else(|| Ok(deploy.clone())).map_err(|refused| {
            let why = match refused {
                Refused::Expired { until } => format!("it was to be begun with until {}", moment(until)),
                refused => refused.to_string(),
            };
            Failure::failed(format!("deploy {} is refused: {why}", deploy.id)).hint(
                "sign it with `mgmt deploy --sign-key FILE`, or give this host the right `--deploy-key`",
            )
        })?;
        let files = files_of(deploy, &self.means.host.world).await?;
        let what = tokio::task::block_in_place(|| self.read(deploy.id, &deploy.program, &files))?;
        let how = preparation(&deploy.program);
        // The files of a deploy do not change.
        Ok(Runnable { what, how, deploy: Some(deploy.id), watch: false })
    }

    fn read(&self, number: u64, program: &Program, files: &Tree) -> Result<First, Failure> {
        let terminal = &self.means.terminal;
        let directory = self.place.put(number, files)?;
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

fn preparation(program: &Program) -> Preparation {
    Preparation {
        noop: program.noop,
        sema: u32::try_from(program.sema).ok().filter(|sema| *sema > 0),
        autoedges: !program.no_autoedges,
        autogroup: !program.no_autogroup,
    }
}

/// How long to wait before a store that did not answer is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// The newest deploy, as soon as the store can tell. To go on without it would be to run nothing, and to take back what this
/// host has exported.
async fn newest(world: &World) -> Result<Option<Deploy>, Failure> {
    loop {
        match world.newest_deploy().await {
            Err(error) if error.is_passing() => tokio::time::sleep(AGAIN).await,
            known => return known.map_err(Failure::failed),
        }
    }
}

/// The files of a deploy, as soon as the store can give them. What runs goes on meanwhile.
async fn files_of(deploy: &Deploy, world: &World) -> Result<Tree, Failure> {
    loop {
        match world.deployed_files(deploy).await {
            Err(error) if error.is_passing() => {
                tracing::warn!("waiting for the files of deploy {}: {error}", deploy.id);
                tokio::time::sleep(AGAIN).await;
            }
            files => return files.map_err(Failure::failed),
        }
    }
}

/// What was given to this run, for other hosts to run.
pub(super) fn packed(first: &First, how: &Program) -> Result<Handed, Failure> {
    match first {
        First::Program(loaded) => repack::program(loaded, how),
        First::Graph(_, loaded) => repack::graph(loaded.content.clone(), how),
        First::Manifest(loaded) => repack::manifest(&loaded.manifest, how),
        First::Both(loaded) => repack::both(loaded, how),
    }
}

/// Gives what runs here to all hosts.
async fn publish(first: &First, settings: &Settings, world: &World) -> Result<Deploy, Failure> {
    let Handed { program, files } = packed(first, &settings.program())?;
    let signer = settings.signer.as_ref();
    world.add_deploy(&program, &files, &Commits::default(), signer).await.map_err(Failure::failed)
}

/// How many deploys before the newest keep their files.
const KEPT: u64 = 4;

impl Place {
    /// Writes the files of a deploy, and removes those of old ones.
    fn put(&self, number: u64, files: &Tree) -> Result<PathBuf, Failure> {
        let failed = |what: &Path, error: std::io::Error| {
            Failure::failed(format!("cannot write {}: {error}", what.display()))
        };
        let directory = self.0.join(number.to_string());
        let _ = std::fs::remove_dir_all(&directory);
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&directory).map_err(|error| failed(&directory, error))?;
        for (path, file) in files.iter() {
            let path = directory.join(path);
            if let Some(parent) = path.parent() {
                builder.create(parent).map_err(|error| failed(parent, error))?;
            }
            let mode = if file.executable { 0o700 } else { 0o600 };
            let mut options = std::fs::OpenOptions::new();
            let written = options.write(true).create_new(true).mode(mode).open(&path);
            written
                .and_then(|mut written| written.write_all(&file.content))
                .map_err(|error| failed(&path, error))?;
        }
        // What runs, and what would be gone back to, may still be read from.
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let old = entry.file_name().to_string_lossy().parse::<u64>();
            if old.is_ok_and(|old| old + KEPT < number) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        Ok(directory)
    }
}
