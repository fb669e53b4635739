//! The control channel of the running agent: a socket in its working directory on which commands of this host ask it for something.
//!
//! The socket of the store is another: other hosts reach that one through tunnels. Whoever may use this one decides what the agent
//! does, so it is for processes of the same user and of root alone, which the kernel tells.
//!
//! One request for each connection: a line of JSON with `version` and `request`, answered by lines with `reply`, the last of which
//! is the result. A line has an upper length, and whoever waits for one has a deadline.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgmt_health::HostReport;
use serde::{Deserialize, Serialize};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::UnixStream;

use crate::commands::exit_codes;
use crate::failure::Failure;

/// The socket, in the working directory.
const SOCKET: &str = "control";
/// The version of requests and replies. Another number is another language.
pub(crate) const VERSION: u32 = 1;
/// The longest line. A plan holds a whole graph.
pub(crate) const MAX_LINE_LEN: u64 = 256 << 20;
/// The agent answers, or says that it is alive, within this time.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the agent says that it is alive while it works on a request.
pub(crate) const ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// What an agent is asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Attempt failed resources now: this one, or all.
    Retry {
        /// The resource, as `kind[name]`.
        resource: Option<String>,
    },
    /// Name the host.
    Identify,
    /// Report the health of the host, with every resource that is not well.
    Report,
    /// Run the graph of a plan, and tell how that goes until it has converged.
    Apply {
        /// What `mgmt plan --out` has written.
        plan: String,
    },
}

/// A request with its version.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) version: u32,
    #[serde(flatten)]
    pub(crate) request: Request,
}

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(crate) enum Reply {
    /// It cannot be done. The last line.
    Refused {
        /// Why.
        message: String,
        /// What to do about it.
        #[serde(default)]
        hints: Vec<String>,
    },
    /// So many resources are attempted now. The last line.
    Retried {
        /// How many.
        count: u64,
        /// How many failed values of the program are evaluated again.
        #[serde(default)]
        values: u64,
    },
    /// The host is known by this name. The last line.
    Identity {
        /// Which.
        hostname: String,
    },
    /// The health of the host. The last line.
    Report {
        /// The name of the host.
        hostname: String,
        /// Nothing is left out of its lists.
        report: Box<HostReport>,
    },
    /// Work goes on.
    Alive,
    /// The graph runs now.
    Running {
        /// How many resources it has.
        resources: u64,
    },
    /// A resource was changed.
    Changed {
        /// Which.
        resource: String,
        /// What was done, a line for each.
        effects: Vec<String>,
    },
    /// A resource has failed.
    Failed {
        /// Which.
        resource: String,
        /// Why.
        message: String,
    },
    /// So many lines were left out: the client was too slow.
    Missed {
        /// How many.
        count: u64,
    },
    /// The graph has converged, or is quiet with failures. The last line.
    Applied {
        /// How many changes were made.
        changed: u64,
        /// How many resources are failing.
        failed: u64,
        /// How many others are not in their declared state: behind a failing one, or held back by a rate of zero.
        #[serde(default)]
        pending: u64,
    },
}

impl Reply {
    /// Why something cannot be done.
    pub(crate) fn refused(failure: &Failure) -> Reply {
        Reply::Refused { message: failure.message.clone(), hints: failure.hints.clone() }
    }
}

/// The socket of the agent that works in this directory.
pub(crate) fn socket(prefix: &Path) -> PathBuf {
    prefix.join(SOCKET)
}

/// Writes a message as one line.
pub(crate) async fn write(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    to.write_all(&line).await?;
    to.flush().await
}

/// Reads one line; nothing at the end.
pub(crate) async fn read<T: for<'a> Deserialize<'a>>(
    from: &mut BufReader<impl AsyncRead + Unpin>,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    from.take(MAX_LINE_LEN).read_until(b'\n', &mut line).await?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => {
            let message = serde_json::from_slice(&line);
            message.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        }
        Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long, or not complete")),
    }
}

/// A connection to the running agent.
pub(crate) struct Agent {
    stream: BufReader<UnixStream>,
}

impl Agent {
    /// Connects to the agent that works in a directory. Nothing, if none does.
    pub(crate) async fn connect(prefix: &Path) -> Result<Option<Agent>, Failure> {
        let path = socket(prefix);
        match UnixStream::connect(&path).await {
            Ok(stream) => Ok(Some(Agent { stream: BufReader::new(stream) })),
            // One that was left behind refuses.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(error) => Err(Failure::failed(format!("cannot reach mgmt at {}: {error}", path.display()))),
        }
    }

    /// Asks for something.
    pub(crate) async fn ask(&mut self, request: Request) -> Result<(), Failure> {
        let asked = Asked { version: VERSION, request };
        let written = tokio::time::timeout(REPLY_TIMEOUT, write(&mut self.stream, &asked)).await;
        written.map_err(|_| too_late())?.map_err(lost)
    }

    /// The next line that says something.
    pub(crate) async fn reply(&mut self) -> Result<Reply, Failure> {
        loop {
            let read = self.read_in_time();
            match read.await?.map_err(lost)? {
                Some(Reply::Alive) => {}
                Some(Reply::Refused { message, hints }) => {
                    return Err(hints.into_iter().fold(Failure::failed(message), Failure::hint));
                }
                Some(reply) => return Ok(reply),
                None => return Err(Failure::failed("mgmt has ended before it was done")),
            }
        }
    }
}

impl Agent {
    /// Reads a line, says from time to time that it is waited for, and gives up when the time is over.
    async fn read_in_time(&mut self) -> Result<io::Result<Option<Reply>>, Failure> {
        let read = read::<Reply>(&mut self.stream);
        tokio::pin!(read);
        let mut waited = Duration::ZERO;
        // The agent itself says something more often than that.
        let interval = ALIVE_INTERVAL + ALIVE_INTERVAL / 2;
        while waited < REPLY_TIMEOUT {
            match tokio::time::timeout(interval, &mut read).await {
                Ok(line) => return Ok(line),
                Err(_) => waited += interval,
            }
            tracing::warn!(
                "waiting for mgmt on this host ({}s of {}s)",
                waited.as_secs(),
                REPLY_TIMEOUT.as_secs()
            );
        }
        Err(too_late())
    }
}

/// What is said where no agent runs.
pub(crate) fn not_running(prefix: &Path) -> Failure {
    let failure = Failure::failed(format!("mgmt is not running with the prefix {}", prefix.display()))
        .hint("start it with `mgmt run` or its service, or say where it works with `--prefix`");
    Failure { code: exit_codes::NOT_RUNNING, ..failure }
}

fn too_late() -> Failure {
    Failure::failed(format!("mgmt has not answered for {} s", REPLY_TIMEOUT.as_secs()))
}

fn lost(error: io::Error) -> Failure {
    Failure::failed(format!("the connection to mgmt is lost: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_lines_and_what_is_none_is_refused() {
        let asked = Asked { version: 1, request: Request::Retry { resource: Some("file[/x]".to_owned()) } };
        let mut line = Vec::new();
        write(&mut line, &asked).await.unwrap();
        assert_eq!(line, b"{\"version\":1,\"request\":\"retry\",\"resource\":\"file[/x]\"}\n");
        let back: Asked = read(&mut BufReader::new(&line[..])).await.unwrap().unwrap();
        assert!(matches!(back.request, Request::Retry { resource: Some(name) } if name == "file[/x]"));
        for wrong in [
            &b"{}\n"[..],
            b"{\"version\":1,\"request\":\"retry\"}",
            b"\xff\n",
            b"{\"version\":1,\"request\":\"x\"}\n",
        ] {
            assert!(read::<Asked>(&mut BufReader::new(wrong)).await.is_err(), "{wrong:?}");
        }
        assert!(read::<Asked>(&mut BufReader::new(&b""[..])).await.unwrap().is_none());
    }
}
