//! The agent's side of the control channel.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mgmt_engine::{Ended, Engine, Preparation, Ran};
use mgmt_health::FailedValue;
use mgmt_resource::{Id, ResourceGraph};
use tokio::io::BufReader;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, broadcast, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::told::Told;
use crate::commands::plan::Stored;
use crate::control::{self, ALIVE_INTERVAL, Asked, Reply, Request, VERSION};
use crate::failure::Failure;

/// Connections at the same time.
const MAX_CONNECTIONS: usize = 16;
/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may take to read a line.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How many lines wait for a client that reads slowly, before lines are left out.
const FEED_LEN: usize = 1024;

/// What the engine does, for those who have asked for something.
pub(super) struct Feed {
    lines: broadcast::Sender<Reply>,
    rest: watch::Sender<Rest>,
    running: watch::Sender<Running>,
}

/// Which program or plan runs: the count of those that ran, and why the one before it is over.
#[derive(Clone, Debug, Default)]
struct Running {
    generation: u64,
    /// Follows on "the plan".
    ended: String,
}

/// Whether the graph is at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// There is something to do.
    Working,
    /// Nothing has happened for a while, with so many resources failing, and so many not in their declared state.
    Quiet { failed: usize, unwell: usize },
}

impl Default for Feed {
    fn default() -> Feed {
        Feed {
            lines: broadcast::Sender::new(FEED_LEN),
            rest: watch::Sender::new(Rest::Working),
            running: watch::Sender::default(),
        }
    }
}

impl Feed {
    /// A resource has run. It costs nothing unless somebody listens.
    pub(super) fn ran(&self, run: &Ran<'_>) {
        if !run.apply || self.lines.receiver_count() == 0 {
            return;
        }
        let resource = run.id.to_string();
        let line = match run.ended {
            Ended::Changed => {
                let effects = run.effects.iter().flat_map(|member| &member.effects);
                Reply::Changed { resource, effects: effects.map(ToString::to_string).collect() }
            }
            Ended::Failed => Reply::Failed { resource, message: run.error.unwrap_or_default().to_owned() },
            _ => return,
        };
        // Whoever listened may be gone.
        let _ = self.lines.send(line);
    }

    /// Something else runs from now on. `ended` says what became of a plan that ran until now.
    pub(super) fn replaced(&self, ended: String) {
        self.running.send_modify(|running| {
            running.generation = running.generation.wrapping_add(1);
            running.ended = ended;
        });
    }

    /// Which program or plan runs now.
    pub(super) fn generation(&self) -> u64 {
        self.running.borrow().generation
    }

    /// The graph has come to rest, or has something to do again.
    pub(super) fn rests(&self, rest: Rest) {
        self.rest.send_replace(rest);
    }
}

/// A graph to run from now on.
pub(super) struct ApplyOrder {
    pub(super) name: String,
    pub(super) graph: ResourceGraph,
    pub(super) how: Preparation,
    /// Is told whether it runs: its generation, or what is wrong with it.
    pub(super) started: oneshot::Sender<Result<u64, Failure>>,
}

/// What a client can have done.
#[derive(Clone)]
pub(super) struct Control {
    pub(super) engine: Arc<Engine>,
    pub(super) status: Arc<Told>,
    pub(super) feed: Arc<Feed>,
    pub(super) hostname: String,
    /// What holds for every resource of this run, whatever a plan says.
    pub(super) preparation: Preparation,
    pub(super) orders: mpsc::Sender<ApplyOrder>,
    /// Answered by the session when it has heard of all that the engine has said.
    pub(super) questions: mpsc::Sender<oneshot::Sender<()>>,
    pub(super) told: Arc<Told>,
    /// Has failed values of the program evaluated again.
    pub(super) retry_values: Arc<Notify>,
}

/// Clients are served until this is dropped.
pub(super) struct Server(JoinHandle<()>);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves clients on the socket of a working directory. One that was left behind in its place is removed: the directory is ours.
pub(super) fn serve(prefix: &Path, control: Control) -> Result<Server, Failure> {
    let path = control::socket(prefix);
    let failed = |error: io::Error| Failure::failed(format!("cannot listen on {}: {error}", path.display()));
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).map_err(failed)?;
    Ok(Server(tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, _)) if !is_welcome(&stream) => {
                    tracing::warn!("a process of another user was refused at the control socket");
                }
                Ok((_, _)) if connections.len() >= MAX_CONNECTIONS => {
                    tracing::warn!("more than {MAX_CONNECTIONS} commands at once; one was refused");
                }
                Ok((stream, _)) => {
                    connections.spawn(control.clone().attend(stream));
                }
                Err(error) => {
                    tracing::warn!("the control socket: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    })))
}

fn is_welcome(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own)
}

/// A client, as it is written to.
struct Client(BufReader<UnixStream>);

impl Client {
    /// Says something. False if the client is gone, or does not read.
    async fn say(&mut self, reply: &Reply) -> bool {
        matches!(tokio::time::timeout(WRITE_TIMEOUT, control::write(&mut self.0, reply)).await, Ok(Ok(())))
    }
}

impl Control {
    async fn attend(self, stream: UnixStream) {
        let mut client = Client(BufReader::new(stream));
        let asked = match tokio::time::timeout(REQUEST_TIMEOUT, control::read::<Asked>(&mut client.0)).await {
            Ok(Ok(Some(asked))) => asked,
            Ok(Ok(None)) | Err(_) => return,
            Ok(Err(error)) => {
                let refused = Failure::failed(format!("the request cannot be read: {error}"));
                client.say(&Reply::refused(&refused)).await;
                return;
            }
        };
        if asked.version != VERSION {
            let refused = Failure::failed(format!(
                "the running mgmt is version {} and does not understand requests of version {}",
                super::VERSION,
                asked.version
            ))
            .hint("restart the service after an upgrade");
            client.say(&Reply::refused(&refused)).await;
            return;
        }
        let last = match asked.request {
            Request::Retry { resource } => self.retry(resource).await,
            Request::Identify => Ok(Reply::Identity { hostname: self.hostname.clone() }),
            Request::Report => Ok(Reply::Report {
                hostname: self.hostname.clone(),
                report: Box::new(self.status.full_report().await),
            }),
            Request::Apply { plan } => self.apply(&plan, &mut client).await,
        };
        let last = last.unwrap_or_else(|failure| Reply::refused(&failure));
        client.say(&last).await;
    }

    async fn retry(&self, resource: Option<String>) -> Result<Reply, Failure> {
        let id = match &resource {
            Some(name) => Some(self.find(name).await?),
            None => None,
        };
        let count = self.engine.retry(id).await.map_err(Failure::failed)?;
        let values = self.failed_values(resource.as_deref()).await;
        if values > 0 {
            self.retry_values.notify_one();
        }
        tracing::info!(
            "attempting {} again: asked for",
            resource.as_deref().unwrap_or("everything that is failing")
        );
        Ok(Reply::Retried { count: count as u64, values })
    }

    /// The number of values that have failed, or because of which this resource is stale.
    async fn failed_values(&self, resource: Option<&str>) -> u64 {
        let values = self.told.full_report().await.values.failed;
        let is_meant = |value: &&FailedValue| {
            resource.is_none_or(|resource| value.frozen.iter().any(|frozen| frozen == resource))
        };
        values.iter().filter(is_meant).count() as u64
    }

    /// The resource of a name.
    async fn find(&self, name: &str) -> Result<Id, Failure> {
        let all = self.engine.inspect().await.map_err(Failure::failed)?;
        let found = all.into_keys().find(|id| id.to_string() == name);
        found.ok_or_else(|| {
            Failure::failed(format!("there is no resource {name} in the running graph"))
                .hint("write it as `kind[name]`; `mgmt status` names what is failing")
        })
    }

    async fn apply(&self, plan: &str, client: &mut Client) -> Result<Reply, Failure> {
        let stored = Stored::parse(Path::new("the plan"), plan.as_bytes())?;
        if stored.hostname != self.hostname {
            return Err(Failure::failed(format!(
                "the plan is for the host {}, and the running mgmt is {}: nothing was applied",
                mgmt_telemetry::escape(&stored.hostname),
                mgmt_telemetry::escape(&self.hostname)
            )));
        }
        if self.preparation.noop {
            return Err(Failure::failed("the running mgmt only looks (`--noop`): nothing was applied"));
        }
        // From here on nothing that is done is missed.
        let mut lines = self.feed.lines.subscribe();
        let mut rest = self.feed.rest.subscribe();
        let mut running = self.feed.running.subscribe();
        let (autoedges, autogroup) = (stored.how.autoedges, stored.how.autogroup);
        let how = Preparation { autoedges, autogroup, ..self.preparation.clone() };
        let resources = stored.graph.nodes().count() as u64;
        let (started, start) = oneshot::channel();
        let order = ApplyOrder { name: stored.name, graph: stored.graph, how, started };
        let ending = || Failure::failed("mgmt is about to end: nothing was applied");
        self.orders.send(order).await.map_err(|_| ending())?;
        let own = until_started(start, client).await?.map_err(|_| ending())??;
        self.heard().await;
        client.say(&Reply::Running { resources }).await;
        let mut changed = 0;
        loop {
            let line = tokio::select! {
                biased;
                line = lines.recv() => match line {
                    Ok(line) => line,
                    Err(broadcast::error::RecvError::Lagged(count)) => Reply::Missed { count },
                    Err(broadcast::error::RecvError::Closed) => return Err(ending()),
                },
                ended = replaced(&mut running, own) => {
                    return Err(Failure::failed(format!("the plan {ended} before it was done"))
                        .hint("`mgmt plan` shows what remains to be done"));
                }
                (failed, unwell) = quiet(&mut rest) => {
                    let pending = unwell.saturating_sub(failed) as u64;
                    return Ok(Reply::Applied { changed, failed: failed as u64, pending });
                }
                () = tokio::time::sleep(ALIVE_INTERVAL) => Reply::Alive,
            };
            changed += u64::from(matches!(line, Reply::Changed { .. }));
            if !client.say(&line).await {
                // The graph runs on without somebody who looks on.
                return Err(Failure::failed("nobody listens"));
            }
        }
    }

    /// Waits until the session has heard of all that the engine has done so far.
    async fn heard(&self) {
        self.engine.is_alive().await;
        let (answer, answered) = oneshot::channel();
        if self.questions.send(answer).await.is_ok() {
            let _ = answered.await;
        }
    }
}

/// Waits until it is known whether the graph runs: a deploy that is on trial comes first.
async fn until_started<T>(
    mut start: oneshot::Receiver<T>,
    client: &mut Client,
) -> Result<Result<T, oneshot::error::RecvError>, Failure> {
    loop {
        tokio::select! {
            started = &mut start => return Ok(started),
            () = tokio::time::sleep(ALIVE_INTERVAL) => {
                if !client.say(&Reply::Alive).await {
                    return Err(Failure::failed("nobody listens"));
                }
            }
        }
    }
}

/// Waits until something else runs than what has this generation, and gives what became of that.
async fn replaced(running: &mut watch::Receiver<Running>, own: u64) -> String {
    match running.wait_for(|running| running.generation != own).await.map(|running| running.ended.clone()) {
        Ok(ended) => ended,
        Err(_) => std::future::pending().await,
    }
}

/// Waits until the graph is at rest, and gives how many resources are failing, and how many not in their declared state.
async fn quiet(rest: &mut watch::Receiver<Rest>) -> (usize, usize) {
    match rest.wait_for(|rest| *rest != Rest::Working).await.map(|rest| *rest) {
        Ok(Rest::Quiet { failed, unwell }) => (failed, unwell),
        // The session has ended, and the lines with it.
        Ok(Rest::Working) | Err(_) => std::future::pending().await,
    }
}
