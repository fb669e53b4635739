//! The canonical form of a text.
//!
//! The layout follows the author: what was broken over lines stays broken, what was not stays on its line, comments
//! stay where they are and one blank line stays one. Everything else has one spelling.
//!
//! * One tab per level. Blocks and resource bodies have one statement or item per line; empty ones are `{}`.
//! * A bracketed list is written over several lines, one element per line and a comma after each, if the author broke
//!   it anywhere between its brackets and elements, or if a comment is inside of it; arguments of a call ignore
//!   comments that are deeper inside. The body of a function or of an `if` expression is if its value starts on another
//!   line than its brace, or if a comment is inside.
//! * A line that the author broke at an operator stays broken there, with the rest one level further in.
//! * A comment on a line of its own stands before the next line at its indent. A comment behind code stays behind it
//!   after one space. A comment in the middle of what would be one line breaks that line.

mod layout;
#[cfg(test)]
mod tests;
mod verify;
mod view;

use crate::{
    Source,
    error::{Code, SyntaxError},
    stack::with_deep_stack,
};
use text_size::TextRange;

/// Writes a text in its canonical form.
///
/// # Errors
///
/// The text has syntax errors; mistakes inside strings do not count. The errors say which.
///
/// A text that is nested deeply also needs memory for a large stack; that there is none is an error as well.
pub fn format(text: &str) -> Result<String, Vec<SyntaxError>> {
    let source = Source::new(text);
    if !is_well_formed(&source) {
        return Err(source.errors.into_iter().filter(|error| !error.code.is_in_string()).collect());
    }
    with_deep_stack(source.depth, || write(&source)).unwrap_or_else(|error| {
        let message = format!("there is no memory for a text that is nested so deeply: {error}");
        Err(vec![SyntaxError::new(Code::TooDeep, TextRange::empty(0.into()), message)])
    })
}

fn write(source: &Source<'_>) -> Result<String, Vec<SyntaxError>> {
    let formatted = layout::write(source);
    match verify::same_meaning(source, &formatted) {
        true => Ok(formatted),
        false => {
            let message = "formatting would change the meaning of this text; nothing was changed";
            Err(vec![
                SyntaxError::new(Code::FormatterBug, TextRange::empty(0.into()), message)
                    .hint("this is a mistake in the formatter; please report it"),
            ])
        }
    }
}

fn is_well_formed(source: &Source<'_>) -> bool {
    source.errors.iter().all(|error| error.code.is_in_string())
}
