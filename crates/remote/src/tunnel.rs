//! Sockets of the other side, as if they were here.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::login::{Login, Process, SshError};

/// Something that listens on the other side, or that can be reached from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distant {
    /// A socket in its file system.
    Socket(PathBuf),
    /// A host, as it is called there, and a port.
    Address(String, u16),
    /// The same, for who has to be given a port here and proves who it is anyway: others on this host can use it, too.
    Guarded(String, u16),
}

/// The near end of a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Near {
    /// A socket, for this user alone.
    Socket(PathBuf),
    /// A port of 127.0.0.1.
    Port(u16),
}

/// A way to sockets of the other side. When the connection is lost, it is made again until this is dropped.
///
/// The near ends are sockets in a directory that only this user can enter, unless something else was asked for.
#[derive(Debug)]
pub struct Tunnel {
    near: Vec<Near>,
    /// Removed last.
    _directory: Directory,
    keeper: JoinHandle<()>,
}

/// Says that it is there, and is as long as its standard input.
const SCRIPT: &str = "printf '%s ready\\n' \"$1\"; exec cat >/dev/null";

/// The time between attempts to get back.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

impl Tunnel {
    /// Opens the way. It is open when this is done.
    pub async fn open(login: Login, distant: &[Distant]) -> Result<Tunnel, SshError> {
        let directory = Directory::new()
            .map_err(|error| SshError::new(format!("cannot make a directory for sockets: {error}")))?;
        let near = |(number, distant): (usize, &Distant)| match distant {
            Distant::Guarded(..) => free_port().map(Near::Port),
            _ => Ok(Near::Socket(directory.0.join(number.to_string()))),
        };
        let near: io::Result<Vec<Near>> = distant.iter().enumerate().map(near).collect();
        let near = near.map_err(|error| SshError::new(format!("there is no port for a tunnel: {error}")))?;
        let options = options(&near, distant);
        let process = connect(&login, &options).await?;
        let keeper = tokio::spawn(keep(process, login, options));
        Ok(Tunnel { near, _directory: directory, keeper })
    }

    /// The near ends, in the order of what was asked for.
    pub fn near(&self) -> &[Near] {
        &self.near
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

fn free_port() -> io::Result<u16> {
    // Somebody else may take it in between; then ssh says so.
    std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?
        .local_addr()
        .map(|address| address.port())
}

fn options(near: &[Near], distant: &[Distant]) -> Vec<OsString> {
    let mut options: Vec<OsString> = Vec::new();
    for fixed in ["ExitOnForwardFailure=yes", "StreamLocalBindUnlink=yes", "StreamLocalBindMask=0177"] {
        options.extend(["-o".into(), fixed.into()]);
    }
    for (near, distant) in near.iter().zip(distant) {
        let mut forward = match near {
            Near::Socket(path) => OsString::from(path),
            Near::Port(port) => format!("127.0.0.1:{port}").into(),
        };
        forward.push(":");
        match distant {
            Distant::Socket(path) => forward.push(path),
            Distant::Address(host, port) | Distant::Guarded(host, port) if host.contains(':') => {
                forward.push(format!("[{host}]:{port}"));
            }
            Distant::Address(host, port) | Distant::Guarded(host, port) => {
                forward.push(format!("{host}:{port}"));
            }
        }
        options.extend(["-L".into(), forward]);
    }
    options
}

async fn connect(login: &Login, options: &[OsString]) -> Result<Process, SshError> {
    let mark = mark();
    let mut process = login.start(options, SCRIPT, std::slice::from_ref(&mark)).await?;
    process.answer(&mark).await?;
    Ok(process)
}

/// Comes back whenever the connection is lost.
async fn keep(mut process: Process, login: Login, options: Vec<OsString>) {
    loop {
        // What it says meanwhile is about single connections that were refused.
        while let Some(line) = process.lines.recv().await {
            tracing::debug!("{}: {}", login.target, crate::clean(&line));
        }
        let _ = process.child.wait().await;
        tracing::warn!("the connection to {} is lost", login.target);
        let mut pause = SHORTEST;
        process = loop {
            match connect(&login, &options).await {
                Ok(process) => break process,
                Err(error) => tracing::debug!("{error}"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
        };
        tracing::info!("the connection to {} is back", login.target);
    }
}

/// Something that nobody prints by accident.
pub(crate) fn mark() -> String {
    format!("mgmt-{:016x}", RandomState::new().hash_one(0))
}

/// A directory that is removed with all that is in it.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    fn new() -> io::Result<Directory> {
        // The path of a socket is short, so the usual place for what runs comes first.
        let runtime =
            std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let places = runtime.into_iter().chain([std::env::temp_dir()]);
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for place in places {
            for attempt in 0..8 {
                let path = place.join(format!("mgmt-ssh-{:016x}", RandomState::new().hash_one(attempt)));
                match DirBuilder::new().mode(0o700).create(&path) {
                    Ok(()) => return Ok(Directory(path)),
                    Err(error) => failure = error,
                }
            }
        }
        Err(failure)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path) {
        tracing::debug!("cannot remove {}: {error}", path.display());
    }
}
