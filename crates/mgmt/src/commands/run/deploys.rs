//! Programs that were given to all hosts, taken while a run goes on.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgmt_engine::Preparation;
use mgmt_lang::module::Entry;
use mgmt_world::store::Watch;
use mgmt_world::{Commits, Deploy, Program, Tree, World};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::follow::Triggers;
use super::program::Loaded as LoadedProgram;
use super::settings::{Settings, Source};
use super::{First, Following, Means};
use crate::configuration::{self, Input};
use crate::failure::Failure;
use crate::program::{self, package};

/// What runs now, and what comes after it.
pub(super) struct Deploys {
    following: Following,
    loader: Loader,
    /// Later ones are run too.
    goes_on: bool,
    /// Deploys up to this one are of no interest.
    last: u64,
    watch: Box<dyn Watch>,
}

/// Makes deploys ready to run.
struct Loader {
    means: Means,
    place: Place,
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
        means: &Means,
        place: PathBuf,
    ) -> Result<Deploys, Failure> {
        let world = Arc::clone(&means.host.world);
        let mut watch = world.watch_deploys();
        // What comes from now on is told.
        watch.next().await.map_err(Failure::failed)?;
        let mut deploys = Deploys {
            following: Following::new(First::empty(), means),
            loader: Loader { means: means.clone(), place: Place(place) },
            goes_on: settings.deploy_watch,
            last: 0,
            watch,
        };
        let is_given = !matches!(settings.input, Source::Empty);
        if is_given && settings.servers.is_some() {
            let deploy = publish(&first, settings, &world).await?;
            tracing::info!("deployed as number {}", deploy.id);
            deploys.last = deploy.id;
            means.told.deploy(deploy.id);
            deploys.following = Following::new(first, means);
        } else if is_given || settings.wait {
            deploys.last = newest(&world).await?.map_or(0, |deploy| deploy.id);
            deploys.following = Following::new(first, means);
        } else if let Some(deploy) = newest(&world).await? {
            deploys.last = deploy.id;
            match deploys.loader.load(&deploy).await {
                Ok(following) => deploys.following = following,
                Err(failure) => deploys.loader.refuse(&deploy, &failure),
            }
        }
        Ok(deploys)
    }

    pub(super) fn triggers(&self) -> Triggers {
        self.following.triggers()
    }

    /// Runs what there is first, and then every newer deploy, until it is aborted.
    pub(super) async fn follow(mut self, triggers: Triggers, started: oneshot::Sender<Result<(), Failure>>) {
        // What runs ends with this.
        let mut running = JoinSet::new();
        let first =
            std::mem::replace(&mut self.following, Following::new(First::empty(), &self.loader.means));
        running.spawn(first.follow(triggers.clone(), started));
        while self.goes_on {
            let deploy = self.next().await;
            tracing::info!("taking deploy {}, made by {}", deploy.id, deploy.by);
            let following = match self.loader.load(&deploy).await {
                Ok(following) => following,
                Err(failure) => {
                    self.loader.refuse(&deploy, &failure);
                    continue;
                }
            };
            running.shutdown().await;
            let (started, start) = oneshot::channel();
            running.spawn(following.follow(triggers.clone(), started));
            if let Ok(Err(failure)) = start.await {
                self.loader.refuse(&deploy, &failure);
            }
        }
        while running.join_next().await.is_some() {}
        std::future::pending::<()>().await;
    }

    /// Waits for a deploy that is newer than the last.
    async fn next(&mut self) -> Deploy {
        let world = Arc::clone(&self.loader.means.host.world);
        loop {
            if let Ok(Some(deploy)) = newest(&world).await
                && deploy.id > self.last
            {
                self.last = deploy.id;
                return deploy;
            }
            if self.watch.next().await.is_err() {
                // The store is being closed.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Loader {
    fn refuse(&self, deploy: &Deploy, failure: &Failure) {
        if !failure.message.is_empty() {
            self.means.terminal.failure(failure);
        }
        tracing::error!("deploy {} cannot be run; what ran before goes on", deploy.id);
    }

    /// Makes a deploy ready to run.
    async fn load(&self, deploy: &Deploy) -> Result<Following, Failure> {
        let files = self.means.host.world.deployed_files(deploy).await.map_err(Failure::failed)?;
        let terminal = &self.means.terminal;
        let first = tokio::task::block_in_place(|| {
            let directory = self.place.put(deploy.id, &files)?;
            let entry = directory.join(&deploy.program.entry);
            match deploy.program.frontend.as_str() {
                "empty" => Ok(First::empty()),
                "yaml" => Ok(First::Graph(None, configuration::load(&Input::new(&entry, false), terminal)?)),
                "lang" => {
                    let entry = match deploy.program.entry.is_empty() {
                        true => Entry::Directory(directory.clone()),
                        false => Entry::File(entry),
                    };
                    let modules = directory.join(package::MODULES);
                    let module_path = modules.is_dir().then_some(modules);
                    let options = program::Options { module_path, lints: false };
                    Ok(First::Program(LoadedProgram::new(entry, options, terminal)?))
                }
                other => Err(Failure::failed(format!("this version has no front-end `{other}`"))),
            }
        })?;
        let Program { noop, sema, no_autoedges, no_autogroup, .. } = deploy.program;
        self.means.engine.set_preparation(Preparation {
            noop,
            sema: u32::try_from(sema).ok().filter(|sema| *sema > 0),
            autoedges: !no_autoedges,
            autogroup: !no_autogroup,
        });
        self.means.told.deploy(deploy.id);
        // The files of a deploy do not change.
        Ok(Following::new(first, &Means { watch: false, ..self.means.clone() }))
    }
}

async fn newest(world: &World) -> Result<Option<Deploy>, Failure> {
    world.newest_deploy().await.map_err(Failure::failed)
}

/// Gives what runs here to all hosts.
async fn publish(first: &First, settings: &Settings, world: &World) -> Result<Deploy, Failure> {
    let (frontend, package) = match (first, &settings.input) {
        (First::Program(loaded), Source::Lang(entry, options)) => {
            ("lang", package::package(entry, &loaded.checked, options.module_path.as_deref())?)
        }
        (First::Graph(_, loaded), _) => ("yaml", package::single("start.yaml", loaded.content.clone())?),
        (First::Program(_), _) => return Err(Failure::failed("a program has no text")),
    };
    let program = Program {
        frontend: frontend.to_owned(),
        entry: package.entry,
        noop: settings.noop,
        sema: settings.sema.map_or(-1, i64::from),
        no_autoedges: !settings.autoedges,
        no_autogroup: !settings.autogroup,
    };
    world.add_deploy(&program, &package.files, &Commits::default()).await.map_err(Failure::failed)
}

impl Place {
    /// Writes the files of a deploy, and removes those of others but the last.
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
        // The one before may still be read from.
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let old = entry.file_name().to_string_lossy().parse::<u64>();
            if old.is_ok_and(|old| old + 1 < number) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        Ok(directory)
    }
}
