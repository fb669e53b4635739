//! Signals while people type: they wake whoever waits, and end nothing by themselves.

use std::os::fd::OwnedFd;

use rustix::pipe::PipeFlags;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;

/// What a signal writes into the pipe.
pub(super) const END: u8 = b'e';
pub(super) const INTERRUPT: u8 = b'i';
const RESIZE: u8 = b'r';

/// The two ways to hear of signals: a pipe for who waits for keys, and counters for who waits for values.
pub(super) struct Signals {
    pub(super) pipe: OwnedFd,
    /// How many interrupts there have been.
    pub(super) interrupts: watch::Receiver<u64>,
    /// We are told to end.
    pub(super) end: watch::Receiver<bool>,
}

impl Signals {
    /// Listens, in the runtime that this is called in.
    pub(super) fn new() -> Result<Signals, Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("cannot listen to signals: {error}"));
        let (pipe, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|error| failed(error.into()))?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
        let mut resize = signal(SignalKind::window_change()).map_err(failed)?;
        let (interrupted, interrupts) = watch::channel(0);
        let (ended, end) = watch::channel(false);
        tokio::spawn(async move {
            loop {
                let byte = tokio::select! {
                    Some(()) = interrupt.recv() => {
                        interrupted.send_modify(|count| *count += 1);
                        INTERRUPT
                    }
                    Some(()) = terminate.recv() => {
                        ended.send_replace(true);
                        END
                    }
                    Some(()) = hangup.recv() => {
                        ended.send_replace(true);
                        END
                    }
                    Some(()) = resize.recv() => RESIZE,
                    else => break,
                };
                // A pipe that is full has enough in it to wake anybody.
                let _ = rustix::io::write(&writer, &[byte]);
            }
        });
        Ok(Signals { pipe, interrupts, end })
    }
}
