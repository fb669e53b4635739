//! `mgmt members`: the hosts that serve the store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgmt_cluster::{ClusterView, OperateError};
use mgmt_health::ClusterMember;
use mgmt_store_etcd::Etcd;
use mgmt_telemetry::{Format, escape, json_line};
use serde_json::{Value as Json, json};

use crate::commands::run::prefix::{Choice, Prefix};
use crate::connection::{self, CLUSTER, Connection};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// How long the servers have for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Show which hosts serve the store, and change that
///
/// `mgmt members list` shows the servers, and the hosts that would serve. `mgmt members size 5` changes how many servers there
/// shall be. `mgmt members remove HOST` lets a host serve no longer: its server is removed as soon as that is safe, and
/// another host takes its place if there is one. `mgmt members add HOST` lets it serve again. `mgmt members recover`, on a host that does
/// not run, has it begin again with its own data alone, after most of the servers have been lost for good.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to do
    #[arg(value_name = "ACTION")]
    action: Action,

    /// The host to add or remove, or how many servers there shall be
    #[arg(value_name = "HOST|COUNT")]
    value: Option<String>,

    /// The working directory of the run on this host, if there are no `--seeds` [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Action {
    /// Show the servers and the hosts that would serve
    List,
    /// Let a host serve again that was removed
    Add,
    /// Let a host serve no longer
    Remove,
    /// Show or change how many servers there shall be
    #[value(alias = "resize")]
    Size,
    /// Have this host begin again with its own data alone
    Recover,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let value = arguments.value.as_deref();
    if arguments.action == Action::Recover {
        return recover(arguments, terminal);
    }
    let host = || {
        value.ok_or_else(|| {
            Failure::usage("there is no host").hint("`mgmt members list` shows those that there are")
        })
    };
    connection::within(async {
        let etcd = servers(&arguments.connection, arguments.prefix.as_deref())?.ok_or_else(|| {
            Failure::failed("the store of this host is served by nobody else").hint(
                "give the servers with `--seeds`, or start hosts with `--ideal-cluster-size` to have some",
            )
        })?;
        let (connection, prefix) = (&arguments.connection, arguments.prefix.as_deref());
        let sight = look(connection, prefix, &etcd).await?;
        match (arguments.action, value) {
            (Action::List, None) => list(&sight, terminal),
            (Action::List, Some(_)) => return Err(Failure::usage("`list` takes no host")),
            (Action::Add, _) => {
                let host = host()?;
                let readmit = async { Ok(mgmt_cluster::readmit(&etcd, host).await) };
                let was = connection.in_time(prefix, readmit).await?.map_err(operated)?;
                let said = if was { "may serve again" } else { "may serve already" };
                terminal.output().notice(&format!("{} {said}\n", escape(host)));
            }
            (Action::Remove, _) => {
                let host = host()?;
                let members: Vec<String> =
                    sight.view.members.iter().map(|member| member.name.clone()).collect();
                let dismiss = async { Ok(mgmt_cluster::dismiss(&etcd, host, &members).await) };
                connection.in_time(prefix, dismiss).await?.map_err(operated)?;
                terminal
                    .output()
                    .notice(&format!("{} serves no longer as soon as that is safe\n", escape(host)));
            }
            (Action::Recover, _) => {}
            (Action::Size, None) => match sight.view.keys.ideal {
                Some(ideal) => terminal.data(&format!("{ideal}\n")),
                None => return Err(operated(OperateError::Unmanaged)),
            },
            (Action::Size, Some(text)) => {
                let ideal = text.parse().map_err(|_| {
                    Failure::usage(format!("`{text}` is not how many servers there shall be, such as 3"))
                })?;
                let resize = async { Ok(mgmt_cluster::resize(&etcd, ideal).await) };
                connection.in_time(prefix, resize).await?.map_err(operated)?;
                terminal.output().notice(&format!("{ideal} hosts shall serve\n"));
            }
        }
        Ok(Exit::OK)
    })
}

fn recover(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    if arguments.value.is_some() {
        return Err(Failure::usage("`recover` is for this host, and takes no other"));
    }
    let prefix = connection::working_directory(arguments.prefix.as_deref())?;
    // Held until the end, so that nobody starts meanwhile.
    let _ours = Prefix::open(&Choice::Path(prefix.clone()), "")?;
    mgmt_cluster::recover(&prefix.join(CLUSTER)).map_err(|error| {
        Failure::failed(error).hint("choose a host that has served, and that has run last if you can")
    })?;
    terminal.output().notice(
        "This host begins again with its own data when it is started the next time. What only other servers knew is lost. \
         Before other hosts are started, move `cluster` in the working directory of each of them away.\n",
    );
    Ok(Exit::OK)
}

/// A client of the servers that are given, or of those of the cluster that this host is part of.
pub(crate) fn servers(connection: &Connection, prefix: Option<&Path>) -> Result<Option<Etcd>, Failure> {
    // What others have at the far end of a connection is not reached from here.
    if connection.ssh.way()?.is_some() {
        return Ok(None);
    }
    let settings = connection.known_servers(prefix)?;
    settings.map(|settings| Etcd::connect(settings).map_err(Failure::usage)).transpose()
}

/// Looks at the servers, for as long as the command may wait.
pub(crate) async fn look(
    connection: &Connection,
    prefix: Option<&Path>,
    etcd: &Etcd,
) -> Result<ClusterView, Failure> {
    let look = async {
        Ok(match mgmt_cluster::observe(etcd, PATIENCE).await {
            Some(sight) => Ok(sight),
            None => {
                let at = etcd.endpoints().join(", ");
                let error = etcd.members().await.err().map(|error| format!(": {error}")).unwrap_or_default();
                Err(Failure::failed(format!("no server answers at {at}{error}")))
            }
        })
    };
    connection.in_time(prefix, look).await?
}

/// Why the servers refuse to be read, if they answer and do.
pub(crate) async fn refused(connection: &Connection, prefix: Option<&Path>, etcd: &Etcd) -> Option<Failure> {
    let refusal = async { Ok(mgmt_cluster::refusal(etcd, PATIENCE).await) };
    connection.in_time(prefix, refusal).await.ok().flatten().map(Failure::failed)
}

fn operated(error: OperateError) -> Failure {
    match &error {
        OperateError::Unmanaged => {
            Failure::failed(&error).hint("`mgmt etcd member` changes the members of such a store")
        }
        OperateError::NoSize => Failure::usage(error),
        OperateError::NoHost { .. } => Failure::failed(error).hint("`mgmt members list` shows the hosts"),
        OperateError::Last { .. } | OperateError::Store(_) => Failure::failed(error),
    }
}

fn list(sight: &ClusterView, terminal: &Terminal) {
    match terminal.format() {
        Format::Human => terminal.data(&text(sight)),
        Format::Json => {
            let mut whole = describe(sight);
            whole["type"] = "members".into();
            whole["format_version"] = 1.into();
            terminal.data(&json_line(&whole));
        }
    }
}

/// One line for each host.
fn text(sight: &ClusterView) -> String {
    let mut lines = String::new();
    let mut serve = 0;
    for member in &sight.view.members {
        let name = if member.name.is_empty() { member.id.to_string() } else { member.name.clone() };
        let mut said = vec![if member.learner { "joins".to_owned() } else { "serves".to_owned() }];
        serve += usize::from(!member.learner);
        if member.leader {
            said.push("leads".to_owned());
        }
        if !member.healthy {
            said.push("does not answer".to_owned());
        }
        if sight.view.keys.dismissed.contains(&member.name) {
            said.push("is being removed".to_owned());
        }
        if let Some(status) = sight.statuses.get(&member.id) {
            said.push(format!("etcd {}, {} KiB", status.version, status.size / 1024));
        }
        said.extend(sight.address(member.id).map(str::to_owned));
        lines += &format!("{}  {}\n", escape(&name), escape(&said.join(", ")));
    }
    for (host, state) in spares(sight) {
        lines += &format!("{}  {state}\n", escape(&host));
    }
    lines += &match sight.view.keys.ideal {
        Some(ideal) => format!("{serve} serve, {ideal} shall\n"),
        None => format!("{serve} serve; they are not run by this program\n"),
    };
    lines
}

/// The hosts that do not serve and would, or would and shall not.
fn spares(sight: &ClusterView) -> BTreeMap<String, &'static str> {
    let keys = &sight.view.keys;
    let serves = |host: &String| sight.view.members.iter().any(|member| member.name == *host);
    let mut found = BTreeMap::new();
    for host in keys.volunteers.keys().filter(|host| !serves(host)) {
        found.insert(host.clone(), "would serve");
    }
    for host in keys.dismissed.iter().filter(|host| !serves(host)) {
        found.insert(host.clone(), "removed");
    }
    found
}

/// All of it, for programs.
pub(crate) fn describe(sight: &ClusterView) -> Json {
    let members: Vec<Json> = sight
        .view
        .members
        .iter()
        .map(|member| {
            let status = sight.statuses.get(&member.id);
            json!({
                "name": member.name,
                "id": member.id.to_string(),
                "votes": !member.learner,
                "leads": member.leader,
                "healthy": member.healthy,
                "peer_urls": member.peers,
                "client_urls": sight.addresses.get(&member.id),
                "version": status.map(|status| &status.version),
                "bytes": status.map(|status| status.size),
            })
        })
        .collect();
    let keys = &sight.view.keys;
    json!({
        "members": members,
        "spares": spares(sight),
        "ideal": keys.ideal,
        "managed": keys.identity.is_some(),
        "change": keys.plan.as_ref().and_then(|plan| plan.value.change.as_ref()).map(ToString::to_string),
    })
}

/// Why each server with a vote is unhealthy, if it is.
pub(crate) fn health(sight: &ClusterView) -> Vec<ClusterMember> {
    let voters = sight.view.members.iter().filter(|member| !member.learner);
    let health = |member: &mgmt_cluster::Member| {
        let name = if member.name.is_empty() { member.id.to_string() } else { member.name.clone() };
        let error = match sight.statuses.get(&member.id) {
            None => Some(format!("does not answer at {}", sight.address(member.id).unwrap_or("any address"))),
            Some(status) if status.leader.is_none() => Some("knows no leader".to_owned()),
            Some(status) => alarms(&status.errors),
        };
        ClusterMember { name, error }
    };
    voters.map(health).collect()
}

/// The alarms of a server in words.
fn alarms(errors: &[String]) -> Option<String> {
    let words = |error: &String| match error.contains("NOSPACE") {
        true => format!("store is full, nothing can be written ({error})"),
        false => error.clone(),
    };
    let all: Vec<String> = errors.iter().map(words).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The servers in one line.
pub(crate) fn summary(sight: &ClusterView) -> String {
    let names: Vec<String> = sight
        .view
        .members
        .iter()
        .map(|member| {
            let name = if member.name.is_empty() { "a new host" } else { member.name.as_str() };
            let how = match (member.healthy, member.leader, member.learner) {
                (false, _, _) => " (does not answer)",
                (_, true, _) => " (leads)",
                (_, _, true) => " (joins)",
                _ => "",
            };
            format!("{}{how}", escape(name))
        })
        .collect();
    format!("served by {}", names.join(", "))
}
