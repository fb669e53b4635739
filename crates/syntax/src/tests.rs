//! What the tests of all modules share, and the properties of the crate as a whole.

mod dump;
mod generate;
mod limits;
mod properties;
mod reference;

pub(crate) use dump::dump;

use crate::{LineIndex, parse};

/// Errors as `line:column message`, one per line.
pub(crate) fn errors(text: &str) -> String {
    let index = LineIndex::new(text);
    let parsed = parse(text);
    let lines = parsed.errors().iter().map(|error| {
        let place = index.line_column(error.range.start());
        format!("{}:{} {error}", place.line, place.column)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Leniencies as `line:column kind`, one per line.
pub(crate) fn leniencies(text: &str) -> String {
    let index = LineIndex::new(text);
    let parsed = parse(text);
    let lines = parsed.leniencies().iter().map(|leniency| {
        let place = index.line_column(leniency.range.start());
        format!("{}:{} {:?}", place.line, place.column, leniency.kind)
    });
    lines.collect::<Vec<_>>().join("\n")
}
