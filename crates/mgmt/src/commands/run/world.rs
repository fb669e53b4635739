//! The world that a run is part of.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgmt_cluster::{Cluster, ClusterSettings, Program, Remembered, StartError};
use mgmt_remote::{Far, Handed, Streams};
use mgmt_state::StateError;
use mgmt_store::Store;
use mgmt_store::socket::{Server, serve as serve_store};
use mgmt_store::{Agent, Embedded, SharedState, StoreError};
use mgmt_store_etcd::Etcd;
use mgmt_telemetry::Filter;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::arguments::Launched;
use super::manager::Manager;
use super::prefix::Prefix;
use super::session::Signals;
use super::settings::Settings;
use crate::connection::{self, CLUSTER, SOCKET, STORE};
use crate::failure::Failure;
use crate::ssh;

/// The file in the working directory with the random word that names it.
const AGENT_ID: &str = "agent-id";

/// A store, and the part that this host has in serving it.
pub(super) type Opened = (Arc<dyn Store>, Option<Cluster>);

/// Opens the store: that of the servers, one of which may be on this host, or that of this host alone.
pub(super) async fn open(settings: &Settings, prefix: &Prefix) -> Result<Opened, Failure> {
    if let Some(login) = settings.way.clone() {
        return Ok((ssh::store(login, settings.servers.clone(), None).await?, None));
    }
    if let Some(serving) = &settings.serving {
        let program = Program::find().await.map_err(|error| Failure::failed(&error).hint(error.hint()))?;
        serving.check_addresses().await?;
        let settings = serving.cluster(&settings.hostname, prefix.directory(CLUSTER)?)?;
        return match Cluster::start(settings.clone(), program).await {
            Ok(cluster) => Ok((Arc::new(cluster.store()), Some(cluster))),
            Err(StartError::Disk(error)) => Ok((without_serving(&settings, &error)?, None)),
            Err(error) => Err(Failure::failed(error)),
        };
    }
    if let Some(servers) = settings.servers.clone() {
        return Ok((connection::servers(servers)?, None));
    }
    prefix.directory("world")?;
    Ok((Arc::new(embedded(&prefix.path().join(STORE))?), None))
}

/// A client of the cluster, for a host that cannot tell whose member it is. It is managed all the same, and does not serve.
fn without_serving(settings: &ClusterSettings, error: &StateError) -> Result<Arc<dyn Store>, Failure> {
    tracing::error!(
        "{error}; lost: whose member this host is; it does not serve the store, and is managed as a client of the cluster"
    );
    tracing::warn!(
        "hint: restore the file from a backup; or move it away, after which the next start joins the servers of `--seeds` as a new \
         member, or founds a new cluster if there are none"
    );
    let remembered = Remembered::read(&settings.directory).ok().flatten();
    let remembered = remembered.map(|remembered| remembered.endpoints).unwrap_or_default();
    let mut client = settings.client.clone();
    client.endpoints = [settings.seeds.clone(), remembered, settings.server.clients.clone()].concat();
    connection::servers(client)
}

/// A client of the servers of the store, if it has any that can be reached from here.
pub(super) fn servers(settings: &Settings, cluster: Option<&Cluster>) -> Option<Etcd> {
    if let Some(cluster) = cluster {
        return Some(cluster.store());
    }
    let servers = settings.servers.clone().filter(|_| settings.way.is_none())?;
    Etcd::connect(servers).ok()
}

/// Opens the store of this host. A damaged one is set aside, and the host begins with an empty one: it can do so, because its program
/// and its last deploy are kept elsewhere.
fn embedded(path: &Path) -> Result<Embedded, Failure> {
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        let said = mgmt_sys::aside::set_aside_and_describe(path, "it is no regular file");
        tracing::error!("{said}; lost: what this host kept in its store, if that was there");
    }
    let opened = tokio::task::block_in_place(|| Embedded::open_verified(path));
    let opened = match opened {
        Err(StoreError::Corrupt { reason, .. }) => {
            let said = mgmt_sys::aside::set_aside_and_describe(path, &reason);
            tracing::error!(
                "{said}; lost: the deploys and everything else that this host kept in its store (shared strings, schedules)"
            );
            tracing::warn!("hint: deploy again, or `mgmt world import` an earlier `mgmt world export`");
            Embedded::open(path)
        }
        // A disk that cannot be read does not keep the host from being managed.
        Err(StoreError::Unreachable { reason }) if reason.contains("(os error 5)") => {
            tracing::error!(
                "{reason}; going on without the store of this host: deploys and shared strings are not read, and nothing is kept"
            );
            Embedded::in_memory()
        }
        opened => opened,
    };
    opened.map_err(|error| Failure::failed(format!("cannot open the store of this host: {error}")))
}

/// Ends the part that this host has in serving the store. A signal makes that short.
pub(super) async fn leave(cluster: Option<Cluster>) {
    let Some(cluster) = cluster else { return };
    let hurry = async {
        match Signals::new() {
            Ok(mut signals) => drop(signals.end().await),
            Err(_) => std::future::pending().await,
        }
    };
    cluster.leave(hurry).await;
}

/// The one who has started this run, and what it hands over.
pub(super) async fn far(
    settings: &Settings,
    streams: Option<Streams>,
) -> Result<(Option<Far>, Option<mpsc::Receiver<Handed>>), Failure> {
    let Some(streams) = streams else { return Ok((None, None)) };
    let (far, programs) = Far::begin(streams)
        .await
        .map_err(|error| Failure::failed(format!("the one who has started this is not reached: {error}")))?;
    Ok((Some(far), (settings.launched == Some(Launched::Program)).then_some(programs)))
}

/// Waits until the one who has started this run wants no more of it.
pub(super) async fn gone(far: &mut Option<Far>) {
    match far {
        Some(far) => drop(far.told.recv().await),
        None => std::future::pending().await,
    }
}

/// Claims the host's name for this agent.
pub(super) fn claim(world: &SharedState, prefix: &Prefix) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot name this agent: {error}"));
    let path = prefix.path().join(AGENT_ID);
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        tracing::error!("{}", mgmt_sys::aside::set_aside_and_describe(&path, "it is no regular file"));
    }
    let directory = match std::fs::read_to_string(&path) {
        Ok(word) if !word.trim().is_empty() => word.trim().to_owned(),
        _ => {
            let word = random_word().map_err(failed)?;
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
            if let Err(error) = file.and_then(|mut file| writeln!(file, "{word}")) {
                // With another word, the next run waits a little longer for the claim of a killed one.
                tracing::warn!("cannot write {}: {error}; going on without it", path.display());
            }
            word
        }
    };
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    world.claim_host(Agent {
        instance: random_word().map_err(failed)?,
        directory,
        boot: boot.trim().to_owned(),
        machine: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
        since: now.as_secs(),
    });
    Ok(())
}

fn random_word() -> io::Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Lets other processes of this host use it.
pub(super) fn serve(world: &SharedState, prefix: &Prefix) -> Result<Server, Failure> {
    prefix.directory("world")?;
    let path = prefix.path().join(SOCKET);
    serve_store(Arc::clone(world.store()), &path)
        .map_err(|error| Failure::failed(format!("cannot listen on {}: {error}", path.display())))
}

/// Waits until it is known what is in the store, and says so if that takes long. A run that can begin without the store does.
pub(super) async fn ready(world: &SharedState, manager: &Manager, can_begin_without: bool) {
    const SOON: Duration = Duration::from_secs(2);
    if tokio::time::timeout(SOON, world.ready()).await.is_err() {
        if can_begin_without {
            tracing::warn!("the store does not answer; going on without it");
            world.begin_without_store();
            return;
        }
        tracing::warn!("waiting for the store");
        manager.waiting("waiting for the store");
        while tokio::time::timeout(manager.pause(), world.ready()).await.is_err() {
            manager.alive();
        }
        tracing::info!("the store has answered");
    }
}

/// Shows other log lines when somebody wants to see them, until this is dropped.
pub(super) fn follow_log_levels(world: Arc<SharedState>) -> JoinSet<()> {
    let mut following = JoinSet::new();
    following.spawn(async move {
        let mut changes = world.watch_log_levels();
        let mut last = None;
        loop {
            match world.known_log_level() {
                Ok(level) if level == last => {}
                Ok(level) => {
                    let wanted = level.as_ref().map(|level| level.to_text().parse::<Filter>()).transpose();
                    match wanted {
                        Ok(filter) => mgmt_telemetry::set_filter(filter),
                        Err(error) => tracing::warn!("which log lines to show: {error}"),
                    }
                    match &level {
                        Some(level) => tracing::info!("showing {} from now on", level.to_text()),
                        None => tracing::info!("showing again what was shown at first"),
                    }
                    last = level;
                }
                Err(error) => tracing::warn!("which log lines to show: {error}"),
            }
            if changes.next().await.is_err() {
                return;
            }
        }
    });
    following
}
