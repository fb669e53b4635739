//! Values of a program that is only looked at: they are computed and followed, and no resource ever runs.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use mgmt_diagnostics::Diagnostic;
use mgmt_engine::{Engine, EngineSettings, Preparation};
use mgmt_lang::{Checked, FrozenPart, Outcome, Running};
use mgmt_resource::{Host, ResourceGraph};
use mgmt_state::LocalState;
use mgmt_store::SharedState;
use mgmt_sys::replace::Durability;
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::{oneshot, watch};

use super::signals::Signals;
use crate::commands::run::prefix::{Choice, Prefix};
use crate::commands::run::{PROGRAM, VERSION};
use crate::failure::Failure;
use crate::program::events::Sources;
use crate::program::surroundings::Surroundings;

/// Where programs are looked at.
pub(super) struct Workshop {
    runtime: tokio::runtime::Runtime,
    hostname: String,
    local: Arc<LocalState>,
    world: Arc<SharedState>,
    /// For what it watches alone: it has no graph.
    engine: Option<Arc<Engine>>,
    interrupts: watch::Receiver<u64>,
    end: watch::Receiver<bool>,
    /// Dropped last: everything above may have files in it.
    prefix: Prefix,
}

/// Until when values are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Until one has been seen, or so much time has passed.
    Seen(Duration),
    /// Until there is something to read.
    Typed,
}

/// Why values are not followed any more.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    Seen,
    Typed,
    Interrupted,
    /// These parts of the program have no value.
    TooLong(Vec<FrozenPart>),
    Ended,
}

impl Workshop {
    /// Sets it up, in a directory that is gone afterwards.
    pub(super) fn new(hostname: String) -> Result<(Workshop, Signals), Failure> {
        let runtime = crate::runtime::start(Some(2))?;
        let signals = {
            let _inside = runtime.enter();
            Signals::new()?
        };
        let prefix = Prefix::open(&Choice::Temporary, &hostname)?;
        let local = LocalState::open(prefix.directory("local")?)
            .map_err(|error| Failure::failed(format!("cannot open the local store: {error}")))?;
        let (interrupts, end) = (signals.interrupts.clone(), signals.end.clone());
        let local = Arc::new(local);
        let world = SharedState::in_memory(&hostname).map_err(|error| Failure::failed(error.to_string()))?;
        let world = Arc::new(world);
        Ok((Workshop { runtime, hostname, local, world, engine: None, interrupts, end, prefix }, signals))
    }

    /// Follows the resources of a program.
    pub(super) fn follow(
        &mut self,
        checked: &Arc<Checked>,
        until: Until,
        see: &mut dyn FnMut(Result<ResourceGraph, Vec<Diagnostic>>) -> ControlFlow<()>,
    ) -> Result<End, Failure> {
        let mut typing = None;
        if until == Until::Typed {
            let failed = |error| Failure::failed(format!("cannot wait for standard input: {error}"));
            typing = Some(Typing::begin().map_err(failed)?);
            if self.engine.is_none() {
                self.engine = Some(self.start_engine()?);
            }
        }
        self.interrupts.borrow_and_update();
        let (mut interrupts, mut end) = (self.interrupts.clone(), self.end.clone());
        let (local, world) = (Arc::clone(&self.local), Arc::clone(&self.world));
        let surroundings = Arc::new(Surroundings::new(&self.hostname, checked.deploy.clone(), local, world));
        let engine = self.engine.clone();
        self.runtime.block_on(async {
            self.world.ready().await;
            let mut sources = Sources::new(engine, Arc::clone(&surroundings));
            let mut running = tokio::task::block_in_place(|| {
                Running::new(Arc::clone(checked), mgmt_resources::KINDS, surroundings)
            });
            let deadline = match until {
                Until::Seen(wait) => tokio::time::Instant::now().checked_add(wait),
                Until::Typed => None,
            };
            let mut has_seen = false;
            loop {
                // What changed is looked for in the whole, which is small.
                let settled = tokio::task::block_in_place(|| match running.settle() {
                    Outcome::Changed(_) => running.whole(),
                    other => other,
                });
                let news = match settled {
                    Outcome::Graph(graph) => Some(Ok(graph)),
                    // A program without resources has nothing that could have changed.
                    Outcome::Unchanged if !has_seen => Some(Ok(ResourceGraph::new())),
                    Outcome::Wrong(wrong) => Some(Err(wrong)),
                    Outcome::Changed(_) | Outcome::Unchanged | Outcome::Waiting => None,
                };
                if let Some(news) = news {
                    has_seen = true;
                    if see(news).is_break() {
                        return Ok(End::Seen);
                    }
                }
                sources.apply(running.watch_changes());
                tokio::select! {
                    biased;
                    _ = interrupts.changed() => return Ok(End::Interrupted),
                    _ = end.wait_for(|end| *end) => return Ok(End::Ended),
                    () = until_time(deadline) => {
                        return Ok(End::TooLong(running.frozen_parts().unwrap_or_default()));
                    }
                    () = until_typed(&mut typing) => return Ok(End::Typed),
                    happened = sources.happenings.next() => {
                        happened.tell(&mut running);
                    }
                }
            }
        })
    }

    /// An engine that has no graph and never gets one: it is there for its watches on files.
    fn start_engine(&self) -> Result<Arc<Engine>, Failure> {
        let host = Host {
            hostname: self.hostname.clone(),
            program: PROGRAM.to_owned(),
            version: VERSION.to_owned(),
            state: self.prefix.directory("engine/state")?,
            local: Arc::clone(&self.local),
            shared: Arc::clone(&self.world) as _,
            helper: mgmt_sys::process::Helper::this_program(),
            durability: Durability::None,
            view: std::sync::RwLock::default(),
            exit: watch::Sender::new(None),
            program_files: watch::Sender::new(None),
            ends_after: None,
            incomplete: Default::default(),
        };
        let _inside = self.runtime.enter();
        let started = Engine::start(EngineSettings {
            host: Arc::new(host),
            registry: mgmt_resources::KINDS,
            preparation: Preparation::default(),
            converge_after: None,
            threads: Some(1),
            export: None,
            witness: None,
            journal: None,
            dot: false,
            slow_down: false,
        });
        let (engine, _) = started.map_err(|error| Failure::failed(format!("cannot watch files: {error}")))?;
        Ok(Arc::new(engine))
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        if let Some(engine) = &self.engine {
            engine.stop(mgmt_engine::Level::Interrupt);
            engine.wait();
        }
    }
}

/// Waits on a thread of its own until there is something to read, and reads nothing. Dropped, it waits no more.
struct Typing {
    typed: oneshot::Receiver<()>,
    /// Closed to end the thread.
    stop: Option<OwnedFd>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Typing {
    fn begin() -> std::io::Result<Typing> {
        let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (told, typed) = oneshot::channel();
        let wait = move || {
            let stdin = rustix::stdio::stdin();
            let mut waiting = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&stopped, PollFlags::IN)];
            while poll(&mut waiting, None) == Err(rustix::io::Errno::INTR) {}
            // Nobody may be waiting any more.
            let _ = told.send(());
        };
        let thread = std::thread::Builder::new().name("mgmt-typing".into()).spawn(wait)?;
        Ok(Typing { typed, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It panics nowhere.
            let _ = thread.join();
        }
    }
}

/// Waits until there is something to read, if that is waited for.
async fn until_typed(typing: &mut Option<Typing>) {
    match typing {
        // Its end is as good as its word.
        Some(typing) => drop((&mut typing.typed).await),
        None => std::future::pending().await,
    }
}

async fn until_time(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
