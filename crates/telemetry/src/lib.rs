//! Logging and terminal output.
//!
//! The central type is [`Output`]: the one writer behind standard output and standard error. Three things go
//! through it:
//!
//! - **data**, what a command was asked to print, on standard output;
//! - **log lines**, events of [`tracing`], on standard error or, if that is the journal, as entries with fields, once [`start`]
//!   was called; [`set_filter`] changes which of them are shown;
//! - **notices**, such as diagnostics rendered by the crate `diagnostics`, on standard error.
//!
//! Below them, on a terminal, there may be a footer: lines of progress, which are not kept.
//!
//! The last two are written for people or, one JSON object per line, for programs; see [`Format`].
//!
//! ```text
//! 14:03:07 info  file[/etc/motd]: content changed
//! {"type":"log","timestamp":"2026-01-02T14:03:07.000123Z","level":"info","target":"mgmt::resource",
//!  "resource":"file[/etc/motd]","message":"content changed","fields":{}}
//! ```
//!
//! # Invariants
//!
//! - No text from outside can move the cursor, change a colour, begin a line of its own or turn the direction of
//!   writing: control characters and their like are escaped on every way out ([`escape()`]). A log line is one line.
//! - JSON lines carry the text itself, with the same characters escaped as JSON escapes them.
//! - Nothing here panics when a reader goes away. What is written to a closed pipe is dropped, silently; any other
//!   failure on standard output is kept for [`Output::failure`].
//! - A line is handed over in one write, so lines of several threads never mix.
//! - Meaning is never carried by colour alone.
//!
//! # Deliberately absent
//!
//! - Spans. Who speaks is a field of the event (`resource`), so that an event costs no walk through its parents.
//! - Metrics and history.
//! - Rotation, files and sockets for logs: whoever starts the program redirects standard error.

mod clock;
mod color;
mod filter;
mod journal;
mod log;
mod output;

pub use color::{ColorChoice, TerminalHints, colored, terminal_size, terminal_width};
pub use filter::{BadFilter, Filter};
pub use log::{Settings, set_deploy, set_filter, start};
// Log lines are escaped by the rule of diagnostics.
pub use mgmt_diagnostics::{Escaped, escape, json_line};
pub use output::Output;

/// Who reads what the program says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// People.
    #[default]
    Human,
    /// Programs: one JSON object per line.
    Json,
}
