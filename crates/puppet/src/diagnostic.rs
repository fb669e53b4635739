//! The diagnostics of a manifest, and those that Puppet itself reports.

use std::sync::Arc;

use mgmt_diagnostics::Severity;
use mgmt_puppet_process::{Message, PuppetError};
use mgmt_resource::Origin;

use crate::codes;

/// A diagnostic about a manifest. Puppet knows lines and seldom columns, so its spans are points.
pub type Diagnostic = mgmt_diagnostics::Diagnostic<Origin>;

/// Whether a diagnostic says what becomes of a resource: its declaration is not at fault.
pub fn is_decision(diagnostic: &Diagnostic) -> bool {
    diagnostic.code.is_some_and(|code| [codes::THROUGH_PUPPET, codes::LOSS].contains(&code))
}
/// A message of Puppet's compiler. `inline` is the name of a text that is in no file. Notices are for the log.
pub(crate) fn of_message(message: &Message, inline: &Arc<str>) -> Option<Diagnostic> {
    let (severity, code) = match message.level.as_str() {
        _ if message.is_error() => (Severity::Error, codes::PUPPET_ERROR),
        "warning" if message.source != "Facter" => (Severity::Warning, codes::PUPPET_WARNING),
        _ => return None,
    };
    let origin = match (message.line, &message.file) {
        (Some(line), file) => Some(Origin {
            file: file.as_deref().map_or_else(|| inline.clone(), Arc::from),
            line,
            column: message.column.unwrap_or(1),
        }),
        (None, Some(file)) => Some(last_line(file)),
        (None, None) => None,
    };
    if let Some(exported) = without_store(&message.message) {
        return Some(exported.at(origin));
    }
    Some(Diagnostic::new(severity, message.message.clone()).with_code(code).at(origin))
}

/// The reasons why there is no catalogue.
pub fn of_error(error: &PuppetError, inline: &Arc<str>) -> Vec<Diagnostic> {
    if let PuppetError::Refused(refused) = error {
        let found: Vec<Diagnostic> =
            refused.errors.iter().filter_map(|message| of_message(message, inline)).collect();
        if !found.is_empty() {
            return found;
        }
    }
    let diagnostic = Diagnostic::error(error.to_string()).with_code(codes::PUPPET_ERROR);
    vec![diagnostic.maybe_hint(error.hint())]
}

/// The end of a file: Puppet names no line for what is missing there.
fn last_line(file: &str) -> Origin {
    let text = std::fs::read(file).unwrap_or_default();
    let lines = text.split_inclusive(|byte| *byte == b'\n').count().max(1);
    Origin { file: Arc::from(file), line: u32::try_from(lines).unwrap_or(u32::MAX), column: 1 }
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
        Diagnostic::warning(what).with_code(codes::EXPORTED)
            .hint("a Puppet server has a store: `mgmt run puppet agent` runs what it compiles for this host")
            .hint(
                "or have a program share it, with the metaparameter `export` and `collect`, beside the manifest: `mgmt run \
                 langpuppet --lang PROGRAM --puppet MANIFEST`",
            ),
    )
}
