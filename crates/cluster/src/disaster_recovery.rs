//! Disaster recovery: restart with the data of one host, after most of the servers have been lost for good.
//!
//! etcd can be told to forget the other members and go on (`--force-new-cluster`), but what it has already applied and
//! drops from its log on that occasion is then known to itself and to nobody who joins it later: two servers of one cluster
//! with different data. So its data is only read that way, by a server that nobody can reach, and the cluster begins
//! with a copy, in which there is no log.
//!
//! Whenever this is cut off, it is done again from the start: the data is replaced when the copy is complete, and the
//! request is forgotten last.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgmt_sys::process::{Command, LineEvent, Lines, Signal, SpawnError, Status, find_program};
use tokio::time::{Instant, sleep};

use super::Disk;
use super::disk::Directory;
use super::driver::ClusterSettings;
use super::server::{Program, environment, problem, spawn};
use mgmt_state::StateError;

/// Sockets in the directory of the host, which is for its owner alone.
const CLIENTS: &str = "unix://recovery:1";
const PEERS: &str = "unix://recovery:2";

/// What is there for as long as this takes.
const SOCKETS: [&str; 2] = ["recovery:1", "recovery:2"];
const COPY: &str = "recovery.db";

/// How long a server may take to start with data that it has.
const START: Duration = Duration::from_secs(300);

/// How long it has for ending by itself.
const GRACE: Duration = Duration::from_secs(60);

/// How often it is asked whether it is there.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Why a host cannot begin again.
#[derive(Debug, thiserror::Error)]
pub enum DisasterRecoveryError {
    /// The program that copies data is not there.
    #[error(
        "beginning again needs the program `etcdctl`, which is not installed (`apt install etcd-client` on Debian and Ubuntu)"
    )]
    Missing,
    /// The server does not come up with the data.
    #[error("the data of the server cannot be read: {reason}")]
    Server {
        /// What it says.
        reason: String,
    },
    /// The copy fails.
    #[error("the data of the server cannot be copied: {reason}")]
    Copy {
        /// What the program says.
        reason: String,
    },
    /// A program cannot be run.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The disk says no.
    #[error("the data of the server cannot be replaced: {0}")]
    Replace(io::Error),
    /// The disk says no.
    #[error(transparent)]
    Disk(#[from] StateError),
}

/// Makes the data of this host that of a cluster in which it is alone. The word is one that nobody else has.
pub(super) async fn restart_alone(
    program: &Program,
    settings: &ClusterSettings,
    directory: &Directory,
    word: &str,
) -> Result<(), DisasterRecoveryError> {
    let identity = match directory.disk()? {
        Disk::Member { identity, .. } | Disk::Former { identity } | Disk::Founder { identity } => identity,
        Disk::Empty => return Ok(directory.forget_recovery()?),
    };
    tracing::warn!("beginning again with the data of this host alone");
    let copying = Copying { program, settings, directory: directory.path() };
    let new = directory.path().join("data.new");
    // The data has been moved away if a complete copy of it was there.
    if directory.data().exists() {
        copying.tidy(&new).map_err(DisasterRecoveryError::Replace)?;
        copying.save().await?;
        // Another token than before, so that servers of the past cannot take this cluster for theirs.
        copying.restore(&new, &format!("{identity}-{word}")).await?;
        directory.set_aside().map_err(DisasterRecoveryError::Replace)?;
    }
    std::fs::rename(&new, directory.data()).map_err(DisasterRecoveryError::Replace)?;
    copying.tidy(&new).map_err(DisasterRecoveryError::Replace)?;
    // Which member it is will be known when the server runs.
    directory.remember(&Disk::Founder { identity })?;
    Ok(directory.forget_recovery()?)
}

struct Copying<'a> {
    program: &'a Program,
    settings: &'a ClusterSettings,
    directory: &'a Path,
}

impl Copying<'_> {
    /// Removes what an earlier try may have left.
    fn tidy(&self, new: &Path) -> io::Result<()> {
        let missing_is_fine = |done: io::Result<()>| match done {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        for name in SOCKETS.into_iter().chain([COPY]) {
            missing_is_fine(std::fs::remove_file(self.directory.join(name)))?;
        }
        missing_is_fine(std::fs::remove_file(self.directory.join(COPY).with_extension("db.part")))?;
        missing_is_fine(std::fs::remove_dir_all(new))
    }

    /// Writes everything that the data says to one file.
    async fn save(&self) -> Result<(), DisasterRecoveryError> {
        let server = &self.settings.server;
        let mut argv = vec![self.program.path().as_os_str().to_owned()];
        argv.extend(["--name", &self.settings.host, "--data-dir"].map(OsString::from));
        argv.push(self.directory.join("data").into());
        for (flag, value) in [
            ("--listen-client-urls", CLIENTS),
            ("--advertise-client-urls", CLIENTS),
            ("--listen-peer-urls", PEERS),
            ("--quota-backend-bytes", &server.quota.to_string()),
            ("--logger", "zap"),
            ("--log-outputs", "stderr"),
        ] {
            argv.extend([flag, value].map(OsString::from));
        }
        argv.push("--force-new-cluster".into());
        let mut command = Command::new(argv);
        command.env = environment();
        command.cwd = Some(self.directory.to_owned());
        if let Some(helper) = &server.helper {
            command.helper = helper.clone();
            command.with_us = true;
        }
        let (mut lines, _keeper) = spawn(command).await?;
        let saved = tokio::select! {
            saved = self.save_from_server() => saved,
            reason = last_words(&mut lines) => Err(DisasterRecoveryError::Server { reason }),
        };
        let ended = lines.stop(Signal::TERM, Some(GRACE)).await;
        saved?;
        ended.map(drop).map_err(|error| DisasterRecoveryError::Server { reason: error.to_string() })
    }

    async fn save_from_server(&self) -> Result<(), DisasterRecoveryError> {
        let end = Instant::now() + START;
        while let Err(error) = self.client(&["get", "--limit=1", "--command-timeout=5s", "/"]).await {
            if Instant::now() >= end || !matches!(error, DisasterRecoveryError::Copy { .. }) {
                return Err(error);
            }
            sleep(ASK_EVERY).await;
        }
        self.client(&["snapshot", "save", COPY]).await
    }

    /// Makes data of the file that a server can begin with.
    async fn restore(&self, new: &Path, token: &str) -> Result<(), DisasterRecoveryError> {
        let host = &self.settings.host;
        let peers = &self.settings.server.peers;
        let cluster: Vec<String> = peers.iter().map(|url| format!("{host}={url}")).collect();
        let (cluster, peers, new) = (cluster.join(","), peers.join(","), new.to_string_lossy().into_owned());
        let mut words = vec!["snapshot", "restore", COPY];
        for (flag, value) in [
            ("--name", host.as_str()),
            ("--data-dir", new.as_str()),
            ("--initial-cluster", cluster.as_str()),
            ("--initial-cluster-token", token),
            ("--initial-advertise-peer-urls", peers.as_str()),
        ] {
            words.extend([flag, value]);
        }
        self.client(&words).await
    }

    /// Runs the program that comes with the server. The newest versions have another one for what is done without a server.
    async fn client(&self, words: &[&str]) -> Result<(), DisasterRecoveryError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let find = |name: &str| find_program(OsStr::new(name), &path);
        let offline = words.starts_with(&["snapshot", "restore"]);
        let program: Option<PathBuf> = if offline { find("etcdutl") } else { None };
        let program = program.or_else(|| find("etcdctl")).ok_or(DisasterRecoveryError::Missing)?;
        let mut argv = vec![program.into_os_string()];
        argv.extend(words.iter().map(OsString::from));
        let mut command = Command::new(argv);
        command.env = environment();
        command.env.insert("ETCDCTL_API".into(), "3".into());
        if !offline {
            command.env.insert("ETCDCTL_ENDPOINTS".into(), CLIENTS.into());
            if let Some(login) = &self.settings.client.login {
                // Not as an argument, which everybody on this host could read.
                let user = format!("{}:{}", login.user, login.password);
                command.env.insert("ETCDCTL_USER".into(), user.into());
            }
        }
        command.cwd = Some(self.directory.to_owned());
        let failed = |reason: String| DisasterRecoveryError::Copy { reason };
        let finished = command.spawn()?.wait().await.map_err(|error| failed(error.to_string()))?;
        if finished.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&finished.stderr.bytes);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Err(failed(format!("{}: {}", finished.status, problem(last).unwrap_or_else(|| last.to_owned()))))
    }
}

/// Listens until the server ends, which it should not, and gives the reason.
async fn last_words(lines: &mut Lines) -> String {
    let mut last = String::new();
    loop {
        let status: String = match lines.next().await {
            Ok(LineEvent::Line(line)) => {
                last = problem(&String::from_utf8_lossy(&line.bytes)).unwrap_or(last);
                continue;
            }
            Ok(LineEvent::Closed) => "it says nothing more".to_owned(),
            Ok(LineEvent::Ended(status)) => Status::to_string(&status),
            Err(error) => error.to_string(),
        };
        return if last.is_empty() { status } else { format!("{status}: {last}") };
    }
}
