//! The terminal while a text is being read: every key comes at once, and none of them acts.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use mgmt_telemetry::Output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use super::keys::{self, Byte, Key};
use crate::commands::repl::signals::END;

/// What is pasted comes between marks, and is not taken for keys.
const MARK_PASTE: &str = "\x1b[?2004h";
const UNMARK_PASTE: &str = "\x1b[?2004l";
/// The size of a terminal that does not tell.
const COLUMNS: usize = 80;

/// The keyboard. When it is dropped, the terminal is as it was before.
pub(super) struct Keyboard {
    before: Termios,
    output: Output,
    signals: OwnedFd,
    bytes: Vec<u8>,
    at: usize,
}

impl Keyboard {
    pub(super) fn open(output: Output, signals: OwnedFd) -> io::Result<Keyboard> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let mut raw = before.clone();
        raw.input_modes -= InputModes::BRKINT
            | InputModes::ICRNL
            | InputModes::INPCK
            | InputModes::ISTRIP
            | InputModes::IXON
            | InputModes::INLCR
            | InputModes::IGNCR;
        raw.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::IEXTEN | LocalModes::ISIG;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        // What is typed ahead is kept.
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, &raw)?;
        let keyboard = Keyboard { before, output, signals, bytes: Vec::new(), at: 0 };
        keyboard.output.data(MARK_PASTE);
        Ok(keyboard)
    }

    /// How wide the terminal is.
    pub(super) fn columns(&self) -> usize {
        let size = tcgetwinsize(rustix::stdio::stdout()).map_or(0, |size| usize::from(size.ws_col));
        if size > 0 { size.max(4) } else { COLUMNS }
    }

    /// The next key.
    pub(super) fn next(&mut self) -> io::Result<Key> {
        keys::next(&mut |wait| self.byte(wait))
    }

    fn byte(&mut self, wait: Option<Duration>) -> io::Result<Byte> {
        if let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            return Ok(Byte::One(byte));
        }
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let stdin = rustix::stdio::stdin();
        let mut waiting = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        match poll(&mut waiting, wait.as_ref()) {
            Ok(0) => return Ok(Byte::Nothing),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Byte::Resized),
            Err(error) => return Err(error.into()),
        }
        let (typed, signalled) = (!waiting[0].revents().is_empty(), !waiting[1].revents().is_empty());
        if signalled {
            let mut told = [0; 64];
            let count = rustix::io::read(&self.signals, &mut told)?;
            let is_end = count == 0 || told[..count].contains(&END);
            // An interrupt that came while something was computed has been dealt with there.
            return Ok(if is_end { Byte::End } else { Byte::Resized });
        }
        if typed {
            let mut bytes = [0; 4096];
            let count = match rustix::io::read(stdin, &mut bytes) {
                Ok(count) => count,
                Err(rustix::io::Errno::INTR) => return Ok(Byte::Resized),
                // The terminal is gone.
                Err(rustix::io::Errno::IO) => 0,
                Err(error) => return Err(error.into()),
            };
            if count == 0 {
                return Ok(Byte::End);
            }
            self.bytes.clear();
            self.bytes.extend_from_slice(&bytes[1..count]);
            self.at = 0;
            return Ok(Byte::One(bytes[0]));
        }
        Ok(Byte::Nothing)
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.output.data(UNMARK_PASTE);
        // Nothing can be done about a terminal that does not take it.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, &self.before);
    }
}
