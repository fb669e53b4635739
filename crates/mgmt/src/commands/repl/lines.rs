//! Lines from a file, a pipe, or a terminal that knows nothing better.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};

use super::signals::{END, INTERRUPT};

/// A line that is longer was hardly meant.
const MAX_LINE: usize = 16 << 20;

/// Standard input, line by line, and no more of it than has been asked for lines.
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// How much of it has been searched for a line break.
    searched: usize,
    is_over: bool,
    signals: OwnedFd,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Line(String),
    End,
    Interrupted,
}

impl Lines {
    pub(super) fn new(signals: OwnedFd) -> Lines {
        Lines { bytes: Vec::new(), searched: 0, is_over: false, signals }
    }

    /// The next line is there already.
    pub(super) fn is_ready(&self) -> bool {
        self.is_over || self.bytes.contains(&b'\n')
    }

    pub(super) fn next(&mut self) -> io::Result<Next> {
        loop {
            let found = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n');
            let end = match found {
                Some(at) => self.searched + at,
                None if self.is_over && self.bytes.is_empty() => return Ok(Next::End),
                None if self.is_over => self.bytes.len(),
                None => {
                    self.searched = self.bytes.len();
                    if self.bytes.len() > MAX_LINE {
                        return Err(io::Error::other(format!("a line has more than {MAX_LINE} bytes")));
                    }
                    match self.more()? {
                        Some(next) => return Ok(next),
                        None => continue,
                    }
                }
            };
            let line = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
            self.bytes.drain(..(end + 1).min(self.bytes.len()));
            self.searched = 0;
            return Ok(Next::Line(line));
        }
    }

    /// Reads on, unless a signal says otherwise.
    fn more(&mut self) -> io::Result<Option<Next>> {
        let stdin = rustix::stdio::stdin();
        let mut waiting = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        match poll(&mut waiting, None) {
            Err(rustix::io::Errno::INTR) => return Ok(None),
            result => result?,
        };
        let (is_ready, is_signalled) = (!waiting[0].revents().is_empty(), !waiting[1].revents().is_empty());
        if is_signalled {
            let mut told = [0; 64];
            let count = rustix::io::read(&self.signals, &mut told)?;
            let told = &told[..count];
            if told.contains(&END) {
                return Ok(Some(Next::End));
            }
            if told.contains(&INTERRUPT) {
                return Ok(Some(Next::Interrupted));
            }
        }
        if is_ready {
            let mut bytes = [0; 8192];
            match rustix::io::read(stdin, &mut bytes) {
                Ok(0) => self.is_over = true,
                Ok(count) => self.bytes.extend_from_slice(&bytes[..count]),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}
