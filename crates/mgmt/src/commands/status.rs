//! `mgmt status`: the health of every host that shares a store, and of the store itself.

mod text;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use mgmt_cluster::ClusterView;
use mgmt_health::{ClusterMember, ClusterState, HostReport, HostState};
use mgmt_store::{Agent as StoreAgent, Member, SharedState, Status};
use mgmt_telemetry::{Format, json_line};
use serde_json::json;

use crate::commands::{exit_codes, members};
use crate::connection::{self, Connection, SOCKET};
use crate::control::{self, Agent, Reply, Request};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Show the health of the hosts that share a store
///
/// One line for each host: `converged` (the program is evaluated, every resource is ok, the newest deploy runs), `working`, `degraded`,
/// `stale` (what runs is older than what is asked for) or `lost`. Below it every resource that is failed, retrying, blocked, stale or flapping,
/// with its error, since when, and the next attempt (100 for each host; `--all` names every one on this host); errors of the program; why the host does not run the newest deploy; and the
/// number of changes that `noop` holds back. Then the servers of the store, if there are any.
///
/// A host that was a member and is gone is listed as `lost` until `mgmt forget HOST` removes it, or for 7 days.
///
/// Exit code 0: every host has converged and every server is healthy. 1: something has not, or is not. 3: mgmt is not running.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The working directory of the run on this host, if there are no `--seeds` [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    /// The same as `--message-format`, for this command
    #[arg(long, value_name = "FORMAT")]
    format: Option<Written>,

    /// Name every resource of this host that is not well
    ///
    /// Otherwise the worst 100 of each host are named, and the others counted. Other hosts publish no more than those.
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Written {
    /// Lines for people
    Human,
    /// One JSON object
    Json,
}

/// Everything that is shown.
struct Shown {
    now: u64,
    hosts: BTreeMap<String, (Status, HostReport)>,
    lost: BTreeMap<String, Member>,
    rivals: BTreeMap<String, Vec<StoreAgent>>,
    scheduler: Option<String>,
    newest: Option<u64>,
    cluster: Option<Cluster>,
    /// What could not be read.
    problems: Vec<String>,
    /// Deploys before the newest one that cannot be read. They affect no host.
    warnings: Vec<String>,
}

/// The servers of the store.
struct Cluster {
    state: ClusterState,
    members: Vec<ClusterMember>,
    /// Nothing if no server answers.
    sight: Option<ClusterView>,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let format = match arguments.format {
        Some(Written::Human) => Format::Human,
        Some(Written::Json) => Format::Json,
        None => terminal.format(),
    };
    connection::within(async {
        let prefix = arguments.prefix.as_deref();
        let cluster = cluster(&arguments.connection, prefix).await?;
        if cluster.is_none() && arguments.connection.is_local()? {
            running_here(prefix)?;
        }
        let unreachable = cluster.as_ref().is_some_and(|cluster| cluster.sight.is_none());
        let mut shown = match unreachable {
            true => Shown::unreachable(cluster),
            false => Shown::of(&arguments.connection.world(prefix).await?, cluster).await,
        };
        if arguments.all {
            shown.complete(prefix).await?;
        }
        match format {
            Format::Human => terminal.data(&text::human(&shown)),
            Format::Json => terminal.data(&json_line(&describe(&shown))),
        }
        shown.exit()
    })
}

/// Refuses if no agent runs on this host.
fn running_here(prefix: Option<&Path>) -> Result<(), Failure> {
    let socket = connection::working_directory(prefix)?.join(SOCKET);
    match std::os::unix::net::UnixStream::connect(&socket) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Err(not_running("mgmt is not running on this host"))
        }
        Err(error) => Err(Failure::failed(format!("cannot connect to {}: {error}", socket.display()))
            .hint("only the account that runs mgmt may ask it")),
    }
}

fn not_running(message: &str) -> Failure {
    Failure { code: exit_codes::NOT_RUNNING, ..Failure::failed(message) }.hint(
        "start it with `mgmt run` or `systemctl start mgmt`, name its working directory with `--prefix`, or the servers with `--seeds`",
    )
}

/// The servers of the store, if it has any.
async fn cluster(connection: &Connection, prefix: Option<&Path>) -> Result<Option<Cluster>, Failure> {
    let Some(etcd) = members::servers(connection, prefix)? else { return Ok(None) };
    match members::look(connection, prefix, &etcd).await {
        Ok(sight) => {
            let members = members::health(&sight);
            Ok(Some(Cluster { state: ClusterState::of(&members), members, sight: Some(sight) }))
        }
        Err(failure) => {
            if let Some(refused) = members::refused(connection, prefix, &etcd).await {
                return Err(refused);
            }
            let member = |name: String| ClusterMember { name, error: Some(failure.message.clone()) };
            let members = etcd.endpoints().into_iter().map(member).collect();
            Ok(Some(Cluster { state: ClusterState::Unavailable, members, sight: None }))
        }
    }
}

impl Shown {
    fn unreachable(cluster: Option<Cluster>) -> Shown {
        Shown {
            now: now(),
            hosts: BTreeMap::new(),
            lost: BTreeMap::new(),
            rivals: BTreeMap::new(),
            scheduler: None,
            newest: None,
            cluster,
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    async fn of(world: &SharedState, cluster: Option<Cluster>) -> Shown {
        let mut problems: Vec<String> = world.unreadable_records().iter().map(ToString::to_string).collect();
        let newest = match world.newest_deploy().await {
            Ok(newest) => newest.map(|deploy| deploy.id),
            Err(error) => {
                problems.push(format!("the newest deploy cannot be read: {error}"));
                None
            }
        };
        let (deploys, mut warnings) = (world.deploys().await.unwrap_or_default(), Vec::new());
        let is_named =
            |number: u64| problems.iter().any(|problem| problem.contains(&format!(" deploy {number}, ")));
        for unreadable in &deploys.unreadable {
            if let Some(number) = unreadable.id.filter(|number| !is_named(*number)) {
                let reason = &unreadable.reason;
                warnings
                    .push(format!("deploy {number} cannot be read, and cannot be rolled back to: {reason}"));
            }
        }
        let named = |host: mgmt_value::Str| host.to_text().into_owned();
        let hosts = world.statuses().into_iter().map(|(host, mut status)| {
            let mut report = status.report();
            // A host that follows deploys may not have heard of the newest one yet.
            if report.deploy.newest.is_some() {
                report.deploy.newest = report.deploy.newest.max(newest);
            }
            status.converged = report.state() == HostState::Converged;
            (named(host), (status, report))
        });
        Shown {
            now: now(),
            hosts: hosts.collect(),
            lost: world.lost().into_iter().map(|(host, member)| (named(host), member)).collect(),
            rivals: world.rivals().into_iter().map(|(host, agents)| (named(host), agents)).collect(),
            scheduler: world.leader().map(named),
            newest,
            cluster,
            problems,
            warnings,
        }
    }

    /// Takes the report of this host from its agent: that one leaves nothing out.
    async fn complete(&mut self, prefix: Option<&Path>) -> Result<(), Failure> {
        let prefix = connection::working_directory(prefix)?;
        let agent = Agent::connect(&prefix).await?;
        let mut agent = agent.ok_or_else(|| control::not_running(&prefix))?;
        agent.ask(Request::Report).await?;
        let Reply::Report { hostname, report } = agent.reply().await? else {
            return Err(Failure::failed("the running mgmt has not reported the health of this host"));
        };
        if let Some((_, known)) = self.hosts.get_mut(&hostname) {
            *known = *report;
        }
        Ok(())
    }

    fn is_well(&self) -> bool {
        self.hosts.values().all(|(_, report)| report.state() == HostState::Converged)
            && self.lost.is_empty()
            && self.rivals.is_empty()
            && self.problems.is_empty()
            && self.cluster.as_ref().is_none_or(|cluster| cluster.state == ClusterState::Healthy)
    }

    fn exit(&self) -> Result<Exit, Failure> {
        let is_reachable = self.cluster.as_ref().is_none_or(|cluster| cluster.sight.is_some());
        match (self.hosts.is_empty() && is_reachable, self.is_well()) {
            (true, _) => Err(not_running("mgmt is not running on any host that shares this store")),
            (false, true) => Ok(Exit::OK),
            (false, false) => Ok(Exit(exit_codes::FAILED)),
        }
    }
}

fn describe(shown: &Shown) -> serde_json::Value {
    let mut hosts = serde_json::Map::new();
    for (host, (status, report)) in &shown.hosts {
        let mut described = json!(status);
        described["state"] = report.state().name().into();
        described["summary"] = report.summary().into();
        described["report"] = json!(report);
        if let Some(reason) = report.deploy.lag() {
            described["not_newest_because"] = reason.into();
        }
        if let Some(rivals) = shown.rivals.get(host) {
            described["rivals"] = json!(rivals);
        }
        hosts.insert(host.clone(), described);
    }
    for (host, member) in &shown.lost {
        let mut described = json!(member);
        described["state"] = HostState::Lost.name().into();
        described["since"] = member.lost_since().into();
        described["converged"] = false.into();
        hosts.insert(host.clone(), described);
    }
    let cluster = shown.cluster.as_ref();
    json!({
        "type": "status",
        "format_version": 1,
        "hosts": hosts,
        "scheduler": shown.scheduler,
        "newest_deploy": shown.newest,
        "cluster": cluster.map(|cluster| {
            let quorum = ClusterState::quorum(cluster.members.len());
            json!({ "state": cluster.state, "quorum": quorum, "members": cluster.members })
        }),
        "servers": cluster.and_then(|cluster| cluster.sight.as_ref()).map(members::describe),
        "problems": shown.problems,
        "warnings": shown.warnings,
    })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
