//! Logs and diagnostics: everything that the program says about itself, made fit for a terminal or a machine.
//!
//! The central type is [`Output`]: the one writer behind standard output and standard error. Three things go
//! through it:
//!
//! - **data**, what a command was asked to print, on standard output;
//! - **log lines**, events of [`tracing`], on standard error or, if that is the journal, as entries with fields, once [`start`]
//!   was called; [`set_filter`] changes which of them are shown;
//! - **diagnostics**, mistakes in files with the places underlined ([`Diagnostic`]), on standard error.
//!
//! Below them, on a terminal, there may be a footer: lines about what is going on, which nobody keeps.
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
//! - A diagnostic costs what it shows: of a file, its line breaks are looked for once ([`Lines`]), however many
//!   diagnostics it has, and only the lines around the places are rendered.
//!
//! # Deliberately absent
//!
//! - Spans. Who speaks is a field of the event (`resource`), so that an event costs no walk through its parents.
//! - Metrics and history.
//! - Rotation, files and sockets for logs: whoever starts the program redirects standard error.

mod clock;
mod color;
mod diagnostic;
mod escape;
mod filter;
mod journal;
mod lines;
mod log;
mod output;
mod sarif;
mod snippet;

pub use color::{ColorChoice, TerminalHints, colored, terminal_size, terminal_width};
pub use diagnostic::{Diagnostic, Label, Severity, Source};
pub use escape::{Escaped, escape, json_line};
pub use filter::{BadFilter, Filter};
pub use lines::Lines;
pub use log::{Settings, set_deploy, set_filter, start};
pub use output::Output;
pub use sarif::Sarif;

/// Who reads what the program says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// People.
    #[default]
    Human,
    /// Programs: one JSON object per line.
    Json,
}
