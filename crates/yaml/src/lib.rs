//! The YAML graph front-end: a file in, a resource graph or everything that is wrong with the file out.
//!
//! The entry is [`parse`]; [`write()`] is the way back. It never fails and never panics: it returns a [`Parsed`], whose graph is there
//! exactly when no diagnostic is an error.
//!
//! ```yaml
//! graph: demo                   # required: a name
//! comment: anything
//! resources:                    # kind → list; `types` in the files of 2016
//!   exec:
//!   - name: date
//!     cmd: /bin/date
//!     meta:                     # any of the metaparameters
//!       retry: 3
//!   file:
//!   - name: /tmp/mgmt/date
//!     state: exists
//!     recv:                     # parameters that come from another resource; implies an edge
//!       content: {kind: exec, name: date, key: stdout}
//! edges:
//! - name: e1
//!   from: {kind: exec, name: date}
//!   to: {kind: file, name: /tmp/mgmt/date}
//!   notify: true                # a change of the first is told to the second
//! collect:                      # take resources in whose name starts with `@@`
//! - kind: file
//!   pattern: /tmp/mgmt/collected/
//! ```
//!
//! A file goes through four steps, each of which knows nothing of the next: bytes to YAML events (a library),
//! events to a flat tree with byte spans, tree to values by the types in a kind's schema, values to
//! resources and edges.
//!
//! Invariants
//! - Values are read by the type of the field they go to, never guessed first: `0644` and `yes` stay text for a
//!   parameter that is text.
//! - Everything is bounded: the size of the source, the depth of nesting, the expansion of aliases, the number of
//!   edges and the number of diagnostics. What recurses, recurses on the bounded depth.
//! - One run finds all mistakes that do not follow from another one. Only a file that is not YAML stops at the first.
//! - Every label of a diagnostic lies within the source and on one line.
//! - A secret is neither named in a message nor pointed at.
//!
//! Deliberately absent: reading files, watching them, colours and snippets, and any list of kinds or parameters other
//! than the [`Registry`] — except for names that older graphs carry, which live in one place.

mod codes;
mod declarations;
mod decode;
mod diagnostic;
mod document;
mod events;
mod input;
mod past;
mod position;
mod resources;
mod scalar;
mod tree;
mod wiring;
mod write;

use std::sync::Arc;

use mgmt_resource::{Registry, ResourceGraph, Spec};
use mgmt_value::Str;

pub use codes::CODES;
pub use position::{Position, Positions};
pub use write::{WriteOptions, write};

use diagnostic::Report;
use mgmt_diagnostics::Diagnostic;
use tree::Span;

/// What came of a file.
#[derive(Debug)]
pub struct Parsed {
    /// The graph, if nothing is wrong. Warnings may stand beside it.
    pub graph: Option<YamlGraph>,
    /// The diagnostics, in the order of the source, which is [`FileId::FIRST`](mgmt_diagnostics::FileId::FIRST) in their spans.
    pub diagnostics: Vec<Diagnostic>,
}

/// What a file declares.
#[derive(Debug)]
pub struct YamlGraph {
    /// The graph's name.
    pub name: Str,
    /// The comment; empty if there is none.
    pub comment: Str,
    /// Resources and edges. Validated, and without cycles.
    pub graph: ResourceGraph,
    /// Resources whose name started with `@@`, without that prefix. Those that are collected are vertices as well.
    pub exported: Vec<Spec>,
    /// What is collected.
    pub collect: Vec<Collect>,
    /// Where the graph was meant to run. Not supported.
    pub remote: Option<Str>,
}

/// A kind of which exported resources are taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collect {
    /// The kind.
    pub kind: &'static str,
    /// For files: the directory that they are put into.
    pub pattern: Str,
}

/// How to read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOptions {
    /// Keys that nobody reads are errors and not warnings.
    pub strict: bool,
    /// The longest source, in bytes. More than 1 GiB is never read.
    pub max_size: usize,
    /// How deep lists and maps may be nested, with aliases followed.
    pub max_depth: usize,
}

impl Default for ParseOptions {
    fn default() -> ParseOptions {
        ParseOptions { strict: false, max_size: MAX_SIZE, max_depth: MAX_DEPTH }
    }
}

/// The longest source that is read unless [`ParseOptions`] say otherwise.
pub const MAX_SIZE: usize = 64 << 20;

/// The deepest nesting that is read unless [`ParseOptions`] say otherwise.
pub const MAX_DEPTH: usize = 64;

/// Spans are 32 bits wide, and recursion has a stack to fit.
const LARGEST_MAX_SIZE: usize = 1 << 30;
const LARGEST_MAX_DEPTH: usize = 128;

/// Reads a graph. The name of the file is only used to say where things were declared.
pub fn parse(source: &[u8], file_name: &str, registry: &Registry) -> Parsed {
    parse_with(source, file_name, registry, &ParseOptions::default())
}

/// Reads a graph, not in the usual way.
pub fn parse_with(source: &[u8], file_name: &str, registry: &Registry, options: &ParseOptions) -> Parsed {
    let mut report = Report::new(source, options.strict);
    let graph = read(source, file_name, registry, options, &mut report);
    Parsed { graph: graph.filter(|_| !report.has_errors()), diagnostics: report.finish() }
}

fn read<'s>(
    source: &'s [u8],
    file_name: &str,
    registry: &Registry,
    options: &ParseOptions,
    report: &mut Report<'s>,
) -> Option<YamlGraph> {
    let text = readable(source, options, report)?;
    let positions = Positions::new(source);
    let depth = options.max_depth.min(LARGEST_MAX_DEPTH);
    let Some(tree) = events::read(text, &positions, depth, report) else {
        if !report.has_errors() {
            report
                .error(codes::NOT_A_MAP, Span::default(), "the file is empty")
                .hint("the smallest graph is `graph: some_name`");
        }
        return None;
    };
    document::read(&tree, &positions, Arc::from(file_name), registry, report)
}

/// The source as text, if it is short enough and is text.
fn readable<'s>(source: &'s [u8], options: &ParseOptions, report: &mut Report<'_>) -> Option<&'s str> {
    let longest = options.max_size.min(LARGEST_MAX_SIZE);
    if source.len() > longest {
        let message = format!("the file is {} bytes long, and the limit is {longest}", source.len());
        report.error(codes::TOO_LARGE, Span::default(), message);
        return None;
    }
    if source.starts_with(b"\xff\xfe") || source.starts_with(b"\xfe\xff") {
        let at = Span { start: 0, end: 2 };
        report.error(codes::NOT_TEXT, at, "the file is UTF-16").hint("save it as UTF-8");
        return None;
    }
    let span = |start: usize, length: usize| Span { start: narrow(start), end: narrow(start + length) };
    if let Some(at) = source.iter().position(|byte| *byte == 0) {
        let message = "the file holds a NUL byte, so it is not text";
        report.error(codes::NOT_TEXT, span(at, 1), message).hint("a graph file is UTF-8 text");
        return None;
    }
    match std::str::from_utf8(source) {
        Ok(text) => Some(text),
        Err(error) => {
            let at = error.valid_up_to();
            let length = error.error_len().unwrap_or(source.len() - at);
            let message = format!("byte {at} is not UTF-8");
            report.error(codes::NOT_TEXT, span(at, length), message).hint("save the file as UTF-8");
            None
        }
    }
}

/// Sources are shorter than 4 GiB.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
