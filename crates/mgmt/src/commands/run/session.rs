//! One life of the engine: everything that may end it, in one loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mgmt_engine::{Engine, EngineEvent, Summary};
use mgmt_resource::Host;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use super::deploys::Deploys;
use super::ladder::{Ladder, Stop};
use super::settings::Settings;
use super::status_file::StatusFile;
use super::told::Told;
use crate::commands::exit_codes::Ending;
use crate::failure::Failure;

/// How long the end waits for what is only said and drawn.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(10);

/// What the loop listens to and acts on.
pub(super) struct Session<'a> {
    pub(super) settings: &'a Settings,
    pub(super) host: &'a Host,
    pub(super) engine: &'a Engine,
    pub(super) status_file: Option<StatusFile>,
    pub(super) status: Arc<Told>,
    pub(super) signals: Signals,
    pub(super) events: mpsc::UnboundedReceiver<EngineEvent>,
}

/// The signals that we answer. From the moment that this is made, none of them ends the program by itself.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Signals, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("cannot listen to signals: {error}")))
        };
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }
}

impl Signals {
    /// Waits until somebody wants the program to end, for the time before there is anything to stop.
    pub(super) async fn end(&mut self) -> Stop {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Stop::Interrupt,
            Some(()) = self.terminate.recv() => Stop::Terminate,
            else => std::future::pending().await,
        }
    }
}

/// How the end is coming along.
#[derive(Default)]
struct End {
    ladder: Ladder,
    /// Why, if it was not a signal.
    cause: Option<Ending>,
}

impl Session<'_> {
    /// Runs the graph, and those that follow, until the end.
    pub(super) async fn run(mut self, following: Deploys) -> Result<(Ending, Summary), Failure> {
        let mut end = End::default();
        let mut exit = self.host.exit.subscribe();
        let over = self.settings.max_runtime.and_then(|time| Instant::now().checked_add(time));
        let (started, mut start) = oneshot::channel();
        let triggers = following.triggers();
        let following = tokio::spawn(following.follow(triggers.clone(), started));
        let mut starting = true;
        let mut refused = None;
        loop {
            let open = end.cause.is_none();
            tokio::select! {
                biased;
                Some(()) = self.signals.interrupt.recv() => self.signal(&mut end, Stop::Interrupt),
                Some(()) = self.signals.terminate.recv() => self.signal(&mut end, Stop::Terminate),
                Some(()) = self.signals.hangup.recv() => triggers.reload(),
                () = until(end.ladder.deadline()) => {
                    if let Some(level) = end.ladder.expire(Instant::now()) {
                        tracing::warn!("still not stopped: {}", super::ladder::describe(level));
                        self.engine.stop(level);
                    }
                }
                () = until(over), if open => {
                    tracing::error!("the maximum time to run is over");
                    self.end(&mut end, Ending::MaxRuntime);
                }
                Ok(()) = exit.changed(), if open => {
                    let code = *exit.borrow_and_update();
                    if let Some(code) = code {
                        self.end(&mut end, Ending::Requested(code));
                    }
                }
                answer = &mut start, if starting => {
                    starting = false;
                    if let Ok(Err(failure)) = answer {
                        refused = Some(failure);
                        self.end(&mut end, Ending::Broken);
                    }
                }
                event = self.events.recv() => match event {
                    Some(event) if event != EngineEvent::Stopped => self.event(&mut end, &event),
                    _ => break,
                },
            }
        }
        // A graph that has converged has been reported; it only remains to hear it.
        if starting && matches!(end.cause, Some(Ending::Converged | Ending::Requested(_))) {
            let _ = tokio::time::timeout(LAST_WORDS, start).await;
        }
        following.abort();
        // The engine's thread is at its end; this only takes its last words.
        let summary = tokio::task::block_in_place(|| self.engine.wait());
        match refused {
            Some(failure) => Err(failure),
            None => {
                let ending = end.ending();
                if ending == Ending::Broken {
                    tracing::error!(
                        "the engine ended although nobody asked it to; this is a mistake in mgmt"
                    );
                }
                Ok((ending, summary))
            }
        }
    }

    fn signal(&self, end: &mut End, stop: Stop) {
        if let Some(level) = end.ladder.signal(stop, Instant::now()) {
            tracing::info!("{}: {}", stop.name(), super::ladder::describe(level));
            self.engine.stop(level);
        }
    }

    /// Ends for a reason of our own. It takes the first rung, so a signal from now on takes the second.
    fn end(&self, end: &mut End, cause: Ending) {
        end.cause = Some(cause);
        if let Some(level) = end.ladder.begin(Instant::now()) {
            self.engine.stop(level);
        }
    }

    fn event(&self, end: &mut End, event: &EngineEvent) {
        match event {
            EngineEvent::Converged => {
                self.status.converged(true);
                let Some(after) = self.settings.converge_after else { return };
                tracing::info!("converged for {} s", after.as_secs());
                if let Some(file) = &self.status_file {
                    file.converged(true);
                }
                if self.settings.converged_exit && end.cause.is_none() {
                    self.end(end, Ending::Converged);
                }
            }
            EngineEvent::Diverged => {
                self.status.converged(false);
                if self.settings.converge_after.is_none() {
                    return;
                }
                tracing::info!("no longer converged");
                if let Some(file) = &self.status_file {
                    file.converged(false);
                }
            }
            // The engine has written a line about it.
            EngineEvent::Failed { id, .. } => self.status.failed(id),
            EngineEvent::Stopped => {}
        }
    }
}

impl End {
    fn ending(&self) -> Ending {
        match (self.cause, self.ladder.ending()) {
            (_, Some(hard @ (Ending::Interrupted | Ending::Terminated))) => hard,
            (Some(cause), _) => cause,
            (None, Some(ending)) => ending,
            (None, None) => Ending::Broken,
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
