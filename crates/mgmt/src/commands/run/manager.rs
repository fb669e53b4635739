//! What the service manager is told: that the program is ready, how it is, that it reads its files again, that it ends, and
//! that it is alive.
//!
//! The protocol is a datagram of lines (`sd_notify(3)`) to the socket that `NOTIFY_SOCKET` names. Without one, nobody is told.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mgmt_engine::Engine;
use mgmt_health::HostReport;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::environment;

/// How long we wait for a manager that does not read.
const PATIENCE: Duration = Duration::from_secs(2);

/// For managers that do not say how often they want to hear of us.
const SELDOM: Duration = Duration::from_secs(60);

/// The service manager, if there is one that wants to be told.
pub(super) struct Manager {
    socket: Option<UnixDatagram>,
    /// How long it may hear nothing before it takes us for dead.
    watchdog: Option<Duration>,
    /// The last words about how things are.
    status: Mutex<String>,
}

impl Manager {
    /// The one that has started this program.
    pub(super) fn from_environment() -> Manager {
        let socket = environment::NOTIFY_SOCKET.get().and_then(|name| {
            let address = match name.as_bytes() {
                [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
                _ => SocketAddr::from_pathname(&name),
            };
            let connected = address.and_then(|address| {
                let socket = UnixDatagram::unbound()?;
                socket.connect_addr(&address)?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Ok(socket)
            });
            connected.inspect_err(|error| tracing::warn!("the service manager cannot be told: {error}")).ok()
        });
        let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
        let ours =
            number(environment::WATCHDOG_PID.text()).is_none_or(|id| id == u64::from(std::process::id()));
        let time = number(environment::WATCHDOG_USEC.text()).filter(|time| *time > 0 && ours);
        Manager { socket, watchdog: time.map(Duration::from_micros), status: Mutex::default() }
    }

    /// The first graph runs, or files have been read again.
    pub(super) fn ready(&self) {
        self.tell("READY=1");
    }

    /// There is nothing to do but to wait, which is no reason to start the program again.
    pub(super) fn waiting(&self, why: &str) {
        self.tell(&format!("READY=1\nSTATUS={why}"));
    }

    pub(super) fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// How long we can say nothing.
    pub(super) fn pause(&self) -> Duration {
        self.watchdog.unwrap_or(SELDOM) / 2
    }

    /// Files are read again.
    pub(super) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
    }

    /// The end has begun.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=ending");
    }

    /// Sends the status line if it differs from the last one.
    pub(super) fn status(&self, report: &HostReport) {
        let words = report.summary();
        let mut last = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != words {
            self.tell(&format!("STATUS={words}"));
            *last = words;
        }
    }

    /// Says in time that we are alive, whenever the engine and whoever listens to the given questions have answered.
    pub(super) fn watch(
        self: Arc<Manager>,
        engine: Arc<Engine>,
        questions: mpsc::Sender<oneshot::Sender<()>>,
    ) -> Option<JoinHandle<()>> {
        self.watchdog.filter(|_| self.socket.is_some())?;
        Some(tokio::spawn(self.feed(move || {
            let (engine, questions) = (Arc::clone(&engine), questions.clone());
            async move {
                let (question, answer) = oneshot::channel();
                engine.is_alive().await && questions.send(question).await.is_ok() && answer.await.is_ok()
            }
        })))
    }

    /// Says again and again that we are alive, for as long as there is an answer. Whoever is stuck gives none, and nothing more is
    /// said.
    async fn feed<Answer: Future<Output = bool>>(self: Arc<Manager>, answers: impl Fn() -> Answer) {
        loop {
            self.alive();
            tokio::time::sleep(self.pause()).await;
            if !answers().await {
                return;
            }
        }
    }

    fn tell(&self, words: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(words.as_bytes())
        {
            tracing::debug!("the service manager cannot be told: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// What was said until now.
    fn said(socket: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 256];
        let texts =
            std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec()));
        texts.map(|text| String::from_utf8(text).unwrap()).collect()
    }

    #[tokio::test]
    async fn who_is_stuck_is_not_said_to_be_alive() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let watchdog = Some(Duration::from_millis(20));
        let manager = Arc::new(Manager { socket: Some(ours), watchdog, status: Mutex::default() });
        let asked = Arc::new(AtomicU32::new(0));
        let (feeding, count) = (Arc::clone(&manager), Arc::clone(&asked));
        // It answers twice, and the third time it does not come back.
        let fed = tokio::spawn(feeding.feed(move || {
            let before = count.fetch_add(1, Ordering::Relaxed);
            async move { if before < 2 { true } else { std::future::pending().await } }
        }));
        while asked.load(Ordering::Relaxed) < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Long enough for several more, if somebody said them.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(said(&theirs), ["WATCHDOG=1"; 3]);
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        assert!(!fed.is_finished());
        fed.abort();
        // Nor is one that says that it is not.
        manager.feed(|| std::future::ready(false)).await;
        assert_eq!(said(&theirs), ["WATCHDOG=1"]);
    }
}
