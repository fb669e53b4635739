//! Values that a program does not have: how messages name them, with their places and the resources that depend on them.

use std::time::Duration;

use mgmt_diagnostics::{SourceMap, Span};
use mgmt_lang::FrozenPart;
use mgmt_resource::Id;

use crate::failure::Failure;

/// The length to which the text of an expression is cut in messages.
const MAX_EXPRESSION_LEN: usize = 60;

/// The number of resources, or values, that a message names.
const MAX_NAMED: usize = 5;

/// Why there is no graph: these values are not there in time.
pub(crate) fn not_there(parts: &[FrozenPart], sources: &SourceMap, waited: Duration) -> Failure {
    let named = parts.iter().filter(|part| part.error.is_none()).map(|part| {
        let (position, expression) = (position(sources, part.span), expression(sources, part.span));
        let until = until(part).map(|until| format!(" ({until})")).unwrap_or_default();
        format!("{position}: `{expression}`{until}")
    });
    let waited = waited.as_secs();
    Failure::failed(match listed(&named.collect::<Vec<_>>()).as_str() {
        "" => format!("some values are not there after {waited}s"),
        named => format!("no value after {waited}s: {named}"),
    })
}

/// What a value that is waited for leaves as it was, or out.
pub(crate) fn until(part: &FrozenPart) -> Option<String> {
    match (part.frozen.as_slice(), part.missing.as_slice()) {
        ([], []) => None,
        ([], missing) => Some(format!("not there yet: {}", listed(missing))),
        (frozen, _) => Some(format!("frozen: {}", listed(&names(frozen)))),
    }
}

/// A place, as `FILE:LINE:COLUMN`.
pub(crate) fn position(sources: &SourceMap, span: Span) -> String {
    let (file, line, column) = sources.position(span);
    format!("{file}:{line}:{column}")
}

/// The text of an expression on one line, cut if it is long.
pub(crate) fn expression(sources: &SourceMap, span: Span) -> String {
    let text: Vec<&str> = sources.text(span).split_whitespace().collect();
    let text = text.join(" ");
    match text.char_indices().nth(MAX_EXPRESSION_LEN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Resources in words.
pub(crate) fn names(ids: &[Id]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

/// Some names, and how many more there are.
pub(crate) fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let named = names.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match more {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
