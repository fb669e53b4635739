//! Output as lines.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use super::{Running, Signal, Status, leader_ended};

/// The longest line [`Lines`] gives unless told otherwise; longer ones are cut there.
pub const LINE_LIMIT: usize = 64 << 10;

/// After both streams have ended, how long to wait for the command to end too.
const EXIT_AFTER_CLOSE: Duration = Duration::from_secs(1);

/// The output of a long-running command, line by line. Dropping it kills the whole group.
#[derive(Debug)]
pub struct Lines {
    running: Running,
    partial: [Partial; 2],
    /// Complete lines of the last read; the pipes are left alone until they are taken, so this stays small.
    ready: VecDeque<Line>,
    ended: Option<Status>,
    limit: usize,
}

/// One thing a [`Lines`] has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineEvent {
    /// A line.
    Line(Line),
    /// The command ended; nothing follows.
    Ended(Status),
    /// Nobody can write any more, but the command did not end. Stop it.
    Closed,
}

/// One line, without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Whether it came from standard error.
    pub stderr: bool,
    /// Its bytes, at most as many as the limit allows.
    pub bytes: Vec<u8>,
    /// Whether it was longer than that.
    pub truncated: bool,
}

#[derive(Debug, Default)]
struct Partial {
    bytes: Vec<u8>,
    truncated: bool,
}

impl Lines {
    pub(super) fn new(running: Running) -> Lines {
        Lines { running, partial: Default::default(), ready: VecDeque::new(), ended: None, limit: LINE_LIMIT }
    }

    /// Lines may be so long.
    #[must_use]
    pub fn limit(self, limit: usize) -> Lines {
        Lines { limit, ..self }
    }

    /// The pid of the leader, which is also the number of the group.
    pub fn id(&self) -> Option<u32> {
        self.running.id()
    }

    /// The next line or the end. A call that is dropped before it completes loses nothing.
    pub async fn next(&mut self) -> io::Result<LineEvent> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Ok(LineEvent::Line(line));
            }
            if let Some(status) = self.ended {
                return Ok(LineEvent::Ended(status));
            }
            let running = &mut self.running;
            let all_closed = running.streams.iter().all(|stream| stream.closed);
            let which = tokio::select! {
                exit = leader_ended(&running.exit) => {
                    exit?;
                    self.end().await?;
                    continue;
                }
                () = running.streams[0].readable() => 0,
                () = running.streams[1].readable() => 1,
                () = tokio::time::sleep(EXIT_AFTER_CLOSE), if all_closed => return Ok(LineEvent::Closed),
            };
            let bytes = running.streams[which].read(&mut running.buffer);
            split_lines(which, bytes, self.limit, &mut self.partial[which], &mut self.ready);
        }
    }

    /// Stops the command: `signal` to the group, then SIGKILL once `grace` has passed.
    ///
    /// Returns the status of a command that had already ended, and [`Status::Cancelled`] otherwise.
    pub async fn stop(self, signal: Signal, grace: Option<Duration>) -> io::Result<Status> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        let finished = Running { capture_limit: 0, ..self.running }
            .wait_with(std::future::ready(()), std::future::pending(), signal, grace)
            .await?;
        Ok(finished.status)
    }

    /// The leader ended: takes what is left in the pipes and reaps.
    async fn end(&mut self) -> io::Result<()> {
        let running = &mut self.running;
        for (which, stream) in running.streams.iter_mut().enumerate() {
            let (partial, ready) = (&mut self.partial[which], &mut self.ready);
            stream.drain(&mut running.buffer, |bytes| split_lines(which, bytes, self.limit, partial, ready));
            if !partial.bytes.is_empty() {
                ready.push_back(partial.take(which));
            }
        }
        self.ended = Some(running.group.reap().await?);
        Ok(())
    }
}

impl Partial {
    fn take(&mut self, which: usize) -> Line {
        let Partial { bytes, truncated } = std::mem::take(self);
        Line { stderr: which == 1, bytes, truncated }
    }

    fn push(&mut self, bytes: &[u8], limit: usize) {
        let room = limit.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..room]);
        self.truncated |= room < bytes.len();
    }
}

fn split_lines(which: usize, bytes: &[u8], limit: usize, partial: &mut Partial, ready: &mut VecDeque<Line>) {
    let mut pieces = bytes.split(|&byte| byte == b'\n');
    let last = pieces.next_back().unwrap_or_default();
    for piece in pieces {
        partial.push(piece, limit);
        ready.push_back(partial.take(which));
    }
    partial.push(last, limit);
}
