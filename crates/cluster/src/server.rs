//! Server supervision: the program `etcd` as a child process, found, started, listened to, and ended.
//!
//! The child ends when this process does, however that ends, so that nobody is left without somebody who looks after it. Its
//! data takes no harm from that: what it has agreed to is on its disk before it says so.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgmt_sys::process::{Command, Helper, LineEvent, Lines, Signal, SpawnError, Status, find_program};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::disk::Directory;
use super::{Input, Launch, MemberId, Process, Start};
use mgmt_store_etcd::Etcd;

/// The oldest version that knows members without a vote.
const OLDEST: (u32, u32) = (3, 4);

/// How long a server has for ending by itself.
const GRACE: Duration = Duration::from_secs(15);

/// How often a server that starts is asked whether it has.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// When what the server says takes more room than this, the older half of it goes.
const LONGEST_LOG: u64 = 4 << 20;

/// A program that can be started as a server.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    version: String,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is not installed.
    #[error("the program `etcd` is not installed, and without it this host cannot serve the cluster")]
    Missing,
    /// It is too old.
    #[error("{path} is etcd {version}, and at least version 3.4 is needed", path = path.display())]
    TooOld {
        /// Where it is.
        path: PathBuf,
        /// Which one it is.
        version: String,
    },
    /// It does not say what it is.
    #[error("cannot find out which version {path} is: {reason}", path = path.display())]
    Unclear {
        /// Where it is.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
}

impl ProgramError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            ProgramError::Missing => {
                "install it (`apt install etcd-server` on Debian and Ubuntu, `dnf install etcd` on Fedora, \
                 `pacman -S etcd` on Arch), or leave serving to other hosts with `--no-server`"
            }
            ProgramError::TooOld { .. } | ProgramError::Unclear { .. } => {
                "install a newer etcd, or leave serving to other hosts with `--no-server`"
            }
        }
    }
}

impl Program {
    /// Looks for it where programs are, and asks which version it is.
    pub async fn find() -> Result<Program, ProgramError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = find_program(OsStr::new("etcd"), &path).ok_or(ProgramError::Missing)?;
        let unclear = |reason: String| ProgramError::Unclear { path: path.clone(), reason };
        let mut command = Command::new([path.as_os_str(), OsStr::new("--version")]);
        command.env = environment();
        let running = command.spawn().map_err(|error| unclear(error.to_string()))?;
        let finished = tokio::time::timeout(Duration::from_secs(10), running.wait()).await;
        let finished = finished
            .map_err(|_| unclear("no answer within 10 s".to_owned()))?
            .map_err(|error| unclear(error.to_string()))?;
        let text = String::from_utf8_lossy(&finished.stdout.bytes).into_owned();
        let version = text.lines().find_map(|line| line.strip_prefix("etcd Version: ")).map(str::trim);
        let Some(version) = version else { return Err(unclear(format!("{}: {text:.200}", finished.status))) };
        match numbers(version) {
            Some(found) if found >= OLDEST => {}
            Some(_) => return Err(ProgramError::TooOld { path, version: version.to_owned() }),
            None => return Err(unclear(format!("{version:?} is no version"))),
        }
        Ok(Program { version: version.to_owned(), path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }
}

fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The certificates of a server, in files.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// Who may vouch for others.
    pub authority: PathBuf,
    /// Who this host is.
    pub certificate: PathBuf,
    /// What proves that.
    pub key: PathBuf,
}

/// How servers of this host are started.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where it listens for clients.
    pub listen_clients: Vec<String>,
    /// Where it listens for other servers.
    pub listen_peers: Vec<String>,
    /// Where clients reach it.
    pub clients: Vec<String>,
    /// Where other servers reach it.
    pub peers: Vec<String>,
    /// Whom it trusts and who it is, where it is asked with `https`.
    pub tls: Option<ServerTls>,
    /// How often the leader tells the others that it is there, in milliseconds. They choose another after ten such times.
    pub heartbeat: u32,
    /// How many bytes its data may take.
    pub quota: u64,
    /// For how long it keeps what has been changed since.
    pub history: Duration,
    /// The program that makes it end when this process does.
    pub helper: Option<Helper>,
}

impl ServerSettings {
    fn arguments(&self, host: &str, data: &Path, launch: &Launch) -> Vec<OsString> {
        let cluster: Vec<String> = launch
            .cluster
            .iter()
            .flat_map(|(name, peers)| peers.iter().map(move |url| format!("{name}={url}")))
            .collect();
        let state = if launch.start == Start::Found { "new" } else { "existing" };
        let (heartbeat, election) = (self.heartbeat.to_string(), (self.heartbeat * 10).to_string());
        let history = format!("{}s", self.history.as_secs().max(1));
        let quota = self.quota.to_string();
        let mut arguments: Vec<OsString> = ["--name", host, "--data-dir"].map(Into::into).to_vec();
        arguments.push(data.into());
        for (flag, value) in [
            ("--listen-client-urls", self.listen_clients.join(",")),
            ("--listen-peer-urls", self.listen_peers.join(",")),
            ("--advertise-client-urls", self.clients.join(",")),
            ("--initial-advertise-peer-urls", self.peers.join(",")),
            ("--initial-cluster-state", state.to_owned()),
            ("--initial-cluster-token", launch.identity.clone()),
            ("--initial-cluster", cluster.join(",")),
            ("--heartbeat-interval", heartbeat),
            ("--election-timeout", election),
            ("--quota-backend-bytes", quota),
            ("--auto-compaction-mode", "periodic".to_owned()),
            ("--auto-compaction-retention", history),
            ("--max-txn-ops", "512".to_owned()),
            ("--logger", "zap".to_owned()),
            ("--log-level", "info".to_owned()),
            ("--log-outputs", "stderr".to_owned()),
        ] {
            if !value.is_empty() {
                arguments.extend([flag.into(), value.into()]);
            }
        }
        // One that was cut off and comes back does not make the others choose a leader again.
        arguments.extend(["--pre-vote=true", "--strict-reconfig-check=true"].map(Into::into));
        if let Some(tls) = &self.tls {
            for peer in ["--", "--peer-"] {
                for (flag, file) in [
                    ("trusted-ca-file", &tls.authority),
                    ("cert-file", &tls.certificate),
                    ("key-file", &tls.key),
                ] {
                    arguments.extend([format!("{peer}{flag}").into(), file.into()]);
                }
                arguments.push(format!("{peer}client-cert-auth").into());
            }
        }
        arguments
    }
}

/// What the program may know. What is meant for others, and could change what it does, is not for it.
pub(super) fn environment() -> BTreeMap<OsString, OsString> {
    let mut environment = BTreeMap::new();
    if let Some(path) = std::env::var_os("PATH") {
        environment.insert("PATH".into(), path);
    }
    // Old versions ask for this on everything but one kind of machine.
    if cfg!(target_arch = "aarch64") {
        environment.insert("ETCD_UNSUPPORTED_ARCH".into(), "arm64".into());
    }
    environment
}

/// A server of this host that has been started.
pub(super) struct Server {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts it. What becomes of it is told as [`Input::Server`].
    pub(super) fn start(
        program: &Program,
        settings: &ServerSettings,
        host: &str,
        directory: &Directory,
        launch: &Launch,
        client: Etcd,
        told: mpsc::UnboundedSender<Input>,
    ) -> Server {
        let mut argv = vec![program.path.clone().into_os_string()];
        argv.extend(settings.arguments(host, &directory.data(), launch));
        let mut command = Command::new(argv);
        command.env = environment();
        command.cwd = Some(directory.path().to_owned());
        if let Some(helper) = &settings.helper {
            command.helper = helper.clone();
            command.with_us = true;
        }
        let missing = launch.start == Start::Resume && !directory.has_data();
        let address = settings.listen_clients.first().map(|url| reachable(url)).unwrap_or_default();
        let log = Log::open(directory.path());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let removed = if missing {
                tracing::warn!("the data of the server is not there, so it is not started");
                false
            } else {
                match spawn(command).await {
                    Ok((lines, keeper)) => {
                        let removed = attend(lines, log, &client, &address, &told, stopped).await;
                        drop(keeper);
                        removed
                    }
                    Err(error) => {
                        tracing::warn!("the server of the cluster: {error}");
                        false
                    }
                }
            };
            let _ = told.send(Input::Server(Process::Ended { removed }));
        });
        Server { stop: Some(stop), task }
    }

    /// Ends it. That it has ended is told when it has.
    pub(super) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Spawns on a thread of its own that lasts as long as the second part of what is given, as the kernel binds the life of
/// the child to that of the thread.
pub(super) async fn spawn(command: Command) -> Result<(Lines, std::sync::mpsc::Sender<()>), SpawnError> {
    let runtime = tokio::runtime::Handle::current();
    let (spawned, outcome) = oneshot::channel();
    let (keeper, kept) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name("etcd".to_owned()).spawn(move || {
        let _entered = runtime.enter();
        let _ = spawned.send(command.spawn());
        // Ends when the keeper is dropped.
        let _ = kept.recv();
    });
    let failed = |source: std::io::Error| SpawnError::Failed { program: "etcd".to_owned(), source };
    thread.map_err(failed)?;
    match outcome.await {
        Ok(running) => Ok((running?.lines(), keeper)),
        Err(_) => Err(failed(std::io::Error::other("the thread has ended"))),
    }
}

/// Listens until the end. Gives whether the server has said that its member is one no longer.
async fn attend(
    mut lines: Lines,
    mut log: Log,
    client: &Etcd,
    address: &str,
    told: &mpsc::UnboundedSender<Input>,
    mut stopped: oneshot::Receiver<()>,
) -> bool {
    let mut removed = false;
    let mut running = false;
    let mut last = String::new();
    let mut ask = tokio::time::interval(ASK_EVERY);
    ask.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let status = loop {
        tokio::select! {
            // Whoever has dropped the other end wants it to end as well.
            _ = &mut stopped => break lines.stop(Signal::TERM, Some(GRACE)).await,
            event = lines.next() => match event {
                Ok(LineEvent::Line(line)) => {
                    log.write(&line.bytes);
                    let text = String::from_utf8_lossy(&line.bytes);
                    removed |= text.contains("permanently removed from the cluster");
                    if let Some(problem) = problem(&text) {
                        last = problem;
                    }
                }
                Ok(LineEvent::Ended(status)) => break Ok(status),
                Ok(LineEvent::Closed) => break lines.stop(Signal::TERM, Some(GRACE)).await,
                Err(error) => break Err(error),
            },
            member = is_up(client, address, &mut ask), if !running => {
                running = true;
                let _ = told.send(Input::Server(Process::Running { member }));
            }
        }
    };
    let how = match status {
        Ok(Status::Cancelled) => return removed,
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    if removed {
        tracing::debug!("the server says that its member has been removed");
    } else {
        let last = if last.is_empty() { String::new() } else { format!(": {last}") };
        tracing::warn!("the server of the cluster has ended ({how}){last}; see {}", log.path.display());
    }
    removed
}

/// Completes as soon as the server answers.
async fn is_up(client: &Etcd, address: &str, ask: &mut tokio::time::Interval) -> MemberId {
    loop {
        ask.tick().await;
        if let Ok(status) = client.status(address).await {
            return MemberId(status.member.0);
        }
    }
}

/// An address that is listened on, as one that can be asked.
fn reachable(url: &str) -> String {
    url.replace("://0.0.0.0:", "://127.0.0.1:").replace("://[::]:", "://[::1]:")
}

/// What a line says that explains an end.
pub(super) fn problem(line: &str) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| json.get(name).and_then(serde_json::Value::as_str);
    if !matches!(text("level")?, "error" | "fatal" | "panic") {
        return None;
    }
    let message = text("msg").unwrap_or_default();
    Some(match text("error") {
        Some(error) => format!("{message}: {error}"),
        None => message.to_owned(),
    })
}

/// What the server says, in a file that does not grow for ever.
struct Log {
    path: PathBuf,
    file: Option<(File, u64)>,
}

impl Log {
    fn open(directory: &Path) -> Log {
        let mut log = Log { path: directory.join("etcd.log"), file: None };
        log.reopen();
        log
    }

    fn reopen(&mut self) {
        use std::os::unix::fs::OpenOptionsExt as _;
        let opened = File::options().create(true).append(true).mode(0o600).open(&self.path);
        self.file = opened.ok().map(|file| {
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            (file, length)
        });
    }

    /// What cannot be written is not: nothing depends on it.
    fn write(&mut self, line: &[u8]) {
        if self.file.as_ref().is_some_and(|(_, length)| *length > LONGEST_LOG / 2) {
            let _ = std::fs::rename(&self.path, self.path.with_extension("log.1"));
            self.reopen();
        }
        if let Some((file, length)) = &mut self.file {
            let mut whole = line.to_vec();
            whole.push(b'\n');
            if file.write_all(&whole).is_ok() {
                *length += whole.len() as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(numbers("3.4.23").unwrap() >= OLDEST);
        assert!(numbers("3.10.0-rc.1").unwrap() >= OLDEST);
        assert!(numbers("3.3.27").unwrap() < OLDEST);
        assert!(numbers("2.9.0").unwrap() < OLDEST);
        assert_eq!(numbers("unknown"), None);
    }

    #[test]
    fn the_log_has_an_end() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = Log::open(directory.path());
        for _ in 0..(LONGEST_LOG / 1000) {
            log.write(&[b'x'; 1999]);
        }
        let size = |name: &str| std::fs::metadata(directory.path().join(name)).unwrap().len();
        assert!(size("etcd.log") + size("etcd.log.1") <= LONGEST_LOG + 4000);
    }

    #[test]
    fn what_explains_an_end_is_found() {
        let line = r#"{"level":"fatal","msg":"discovery failed","error":"member count is unequal"}"#;
        assert_eq!(problem(line), Some("discovery failed: member count is unequal".to_owned()));
        assert_eq!(problem(r#"{"level":"info","msg":"x"}"#), None);
        assert_eq!(problem("no json"), None);
    }
}
