//! Text from a template, in the language of Go's `text/template`.
//!
//! A template is read once ([`parser`]) and then run over data ([`executor`]). The data are values of the language in the
//! shape that templates expect ([`data`]): a struct is a map whose keys begin with a capital.
//!
//! Every loop and every call is counted and nesting is bounded, so that no template runs for ever.

mod builtins;
mod compare;
mod data;
mod executor;
mod format;
mod lexer;
mod parser;
mod verb;

use std::cell::Cell;

use mgmt_value::{Str, Value};

use crate::{Failure, Host};

/// Runs a template, and notes whether it looks at the host. Without a value the dot is nothing.
pub(crate) fn run(
    host: &dyn Host,
    has_read: &Cell<bool>,
    template: &Str,
    vars: Option<&Value>,
) -> Result<Str, Failure> {
    let source = template.as_bytes();
    let templates = parser::parse(source).map_err(|error| {
        Failure::fatal(format!(
            "can't parse the template: template: template:{}: {}",
            line(source, error.at),
            error.message
        ))
    })?;
    let dot = match vars {
        Some(value) => data::Datum::from_value(value)?,
        None => data::Datum::Nil,
    };
    let out = executor::execute(host, has_read, source, &templates, dot);
    out.map(Str::new).map_err(|failure| failure.within("can't run the template"))
}

/// The line of an offset, from 1 on.
fn line(source: &[u8], at: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', &source[..at.min(source.len())]).count()
}

#[cfg(test)]
mod tests;
