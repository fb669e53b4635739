//! What there is to tell about a manifest.

use mgmt_puppet_process::{Message, PuppetError};
use mgmt_resource::Origin;

use crate::codes;

/// One thing to tell. Puppet knows lines and seldom columns, so a place is a point and no span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub level: Level,
    /// A stable code; [`crate::CODES`] explains it.
    pub code: &'static str,
    /// What it is, in one sentence without a period.
    pub message: String,
    /// Where.
    pub origin: Option<Origin>,
    /// What to do about it.
    pub hints: Vec<String>,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// There is no graph.
    Error,
    /// There is a graph, and it may not be what was meant.
    Warning,
    /// Worth knowing.
    Note,
}

impl Diagnostic {
    pub(crate) fn new(level: Level, code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic { level, code, message: message.into(), origin: None, hints: Vec::new() }
    }

    pub(crate) fn at(self, origin: Option<Origin>) -> Diagnostic {
        Diagnostic { origin, ..self }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hints.push(hint.into());
        self
    }

    /// Whether it says what becomes of a resource: what is written there is not at fault.
    pub fn is_decision(&self) -> bool {
        [codes::THROUGH_PUPPET, codes::LOSS].contains(&self.code)
    }

    /// What Puppet says while it compiles. `inline` is what to call a text that is in no file. Notices are for the log.
    pub fn of_message(message: &Message, inline: &std::sync::Arc<str>) -> Option<Diagnostic> {
        let (level, code) = match message.level.as_str() {
            _ if message.is_error() => (Level::Error, codes::PUPPET_ERROR),
            "warning" if message.source != "Facter" => (Level::Warning, codes::PUPPET_WARNING),
            _ => return None,
        };
        let origin = match (message.line, &message.file) {
            (Some(line), file) => Some(Origin {
                file: file.as_deref().map_or_else(|| inline.clone(), std::sync::Arc::from),
                line,
                column: message.column.unwrap_or(1),
            }),
            (None, Some(file)) => Some(last_line(file)),
            (None, None) => None,
        };
        if let Some(exported) = without_store(&message.message) {
            return Some(exported.at(origin));
        }
        Some(Diagnostic::new(level, code, message.message.clone()).at(origin))
    }

    /// Why there is no catalogue.
    pub fn of_error(error: &PuppetError, inline: &std::sync::Arc<str>) -> Vec<Diagnostic> {
        if let PuppetError::Refused(refused) = error {
            let found: Vec<Diagnostic> =
                refused.errors.iter().filter_map(|message| Diagnostic::of_message(message, inline)).collect();
            if !found.is_empty() {
                return found;
            }
        }
        let diagnostic = Diagnostic::new(Level::Error, codes::PUPPET_ERROR, error.to_string());
        vec![match error.hint() {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        }]
    }
}

/// The end of a file: Puppet names no line for what is missing there.
fn last_line(file: &str) -> Origin {
    let text = std::fs::read(file).unwrap_or_default();
    let lines = text.split_inclusive(|byte| *byte == b'\n').count().max(1);
    Origin { file: std::sync::Arc::from(file), line: u32::try_from(lines).unwrap_or(u32::MAX), column: 1 }
}

/// What Puppet says where it would need a store that hosts share, in words that say what to do.
fn without_store(message: &str) -> Option<Diagnostic> {
    let rest =
        message.strip_prefix("You cannot collect exported resources without storeconfigs being set; ")?;
    let what = match rest.starts_with("the export") {
        true => {
            "an exported resource goes nowhere: this host compiles alone, without a store that other hosts read"
        }
        false => "nothing is collected: this host compiles alone, without a store that other hosts write to",
    };
    Some(
        Diagnostic::new(Level::Warning, codes::EXPORTED, what)
            .hint("a Puppet server has a store: `mgmt run puppet agent` runs what it compiles for this host")
            .hint(
                "or have a program share it, with the metaparameter `export` and `collect`, beside the manifest: `mgmt run \
                 langpuppet --lang PROGRAM --puppet MANIFEST`",
            ),
    )
}
