//! What is inside the quotes of a string: text, escapes, and variables.

use crate::error::{Code, Diagnostics, SyntaxError};
use std::borrow::Cow;
use text_size::{TextRange, TextSize};

/// A part of a string as it is written. The ranges of the parts lie end to end between the quotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StringPart<'s> {
    /// Text that stands for itself.
    Text {
        /// Where it is.
        range: TextRange,
        /// The text.
        value: &'s str,
    },
    /// A backslash and the character after it.
    Escape {
        /// Where it is, backslash included.
        range: TextRange,
        /// The character that it stands for.
        value: char,
    },
    /// `${name}`
    Variable {
        /// Where it is, braces included.
        range: TextRange,
        /// Where the name is.
        name_range: TextRange,
        /// The name, dots included.
        name: &'s str,
    },
    /// Something that is none of these; an error says why.
    Invalid {
        /// Where it is.
        range: TextRange,
    },
}

impl StringPart<'_> {
    /// Where it is.
    #[must_use]
    pub fn range(&self) -> TextRange {
        match self {
            StringPart::Text { range, .. }
            | StringPart::Escape { range, .. }
            | StringPart::Variable { range, .. }
            | StringPart::Invalid { range } => *range,
        }
    }
}

/// What a string means, piece by piece: no two runs of text stand next to each other unless a mistake is between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StringPiece<'s> {
    /// Text with its escapes decoded.
    Text {
        /// Where it is.
        range: TextRange,
        /// The text; borrowed if there are no escapes.
        value: Cow<'s, str>,
    },
    /// `${name}`
    Variable {
        /// Where it is, braces included.
        range: TextRange,
        /// Where the name is.
        name_range: TextRange,
        /// The name, dots included.
        name: &'s str,
    },
}

impl StringPiece<'_> {
    /// Where it is.
    #[must_use]
    pub fn range(&self) -> TextRange {
        match self {
            StringPiece::Text { range, .. } | StringPiece::Variable { range, .. } => *range,
        }
    }
}

/// The text of a string without variables and mistakes.
pub(crate) fn plain(inside: &str) -> Option<Cow<'_, str>> {
    if !may_hold_more_than_text(inside) {
        return Some(inside.into());
    }
    match pieces(inside, 0.into()).as_mut_slice() {
        [StringPiece::Text { value, range }] if range.len() == TextSize::of(inside) => {
            Some(std::mem::take(value))
        }
        _ => None,
    }
}

/// The pieces of a string; see [`parts`] for the arguments.
pub(crate) fn pieces(inside: &str, start: TextSize) -> Vec<StringPiece<'_>> {
    let mut pieces: Vec<StringPiece<'_>> = Vec::new();
    scan(inside, start, |scanned| match scanned {
        Ok(StringPart::Text { range, value }) => add_text(&mut pieces, range, value.into()),
        Ok(StringPart::Escape { range, value }) => add_text(&mut pieces, range, value.to_string().into()),
        Ok(StringPart::Variable { range, name_range, name }) => {
            pieces.push(StringPiece::Variable { range, name_range, name });
        }
        Ok(StringPart::Invalid { .. }) | Err(_) => {}
    });
    pieces
}

/// Adds text to the piece before if that is text as well and ends here.
fn add_text<'s>(pieces: &mut Vec<StringPiece<'s>>, at: TextRange, text: Cow<'s, str>) {
    match pieces.last_mut() {
        Some(StringPiece::Text { range, value }) if range.end() == at.start() => {
            *range = range.cover(at);
            value.to_mut().push_str(&text);
        }
        _ => pieces.push(StringPiece::Text { range: at, value: text }),
    }
}

/// The parts of a string. `inside` is what stands between the quotes, `start` where that begins.
pub(crate) fn parts(inside: &str, start: TextSize) -> (Vec<StringPart<'_>>, Vec<SyntaxError>) {
    let mut parts = Vec::new();
    let mut errors = Vec::new();
    scan(inside, start, |scanned| match scanned {
        Ok(part) => parts.push(part),
        Err((range, error)) => {
            parts.push(StringPart::Invalid { range });
            errors.push(error);
        }
    });
    (parts, errors)
}

/// Reports what is wrong inside a string token, quotes included.
pub(crate) fn check(token: &str, start: TextSize, errors: &mut Diagnostics) {
    // Then there is nothing that could be wrong.
    if !may_hold_more_than_text(token) {
        return;
    }
    let inside = token.get(1..token.len() - 1).unwrap_or_default();
    scan(inside, start + TextSize::new(1), |scanned| {
        if let Err((_, error)) = scanned {
            errors.add(|| error);
        }
    });
}

/// Nearly all strings are text alone.
fn may_hold_more_than_text(text: &str) -> bool {
    text.bytes().any(|byte| byte == b'\\' || byte == b'$')
}

type Scanned<'s> = Result<StringPart<'s>, (TextRange, SyntaxError)>;

fn scan<'s>(inside: &'s str, start: TextSize, mut take: impl FnMut(Scanned<'s>)) {
    let at = |from: usize, to: usize| {
        TextRange::new(start + TextSize::new(from as u32), start + TextSize::new(to as u32))
    };
    let bytes = inside.as_bytes();
    let mut from = 0;
    while from < bytes.len() {
        let to = match bytes[from] {
            b'\\' => {
                let escaped = inside[from + 1..].chars().next();
                let to = from + 1 + escaped.map_or(0, char::len_utf8);
                take(escape(escaped, at(from, to)));
                to
            }
            b'$' if bytes.get(from + 1) == Some(&b'{') => {
                let (to, result) = variable(inside, from, at);
                take(result);
                to
            }
            _ => {
                // A dollar without a brace is text, and so is all up to the next thing that could be something.
                let to = (from + 1..bytes.len())
                    .find(|&to| bytes[to] == b'\\' || (bytes[to] == b'$' && bytes.get(to + 1) == Some(&b'{')))
                    .unwrap_or(bytes.len());
                take(Ok(StringPart::Text { range: at(from, to), value: &inside[from..to] }));
                to
            }
        };
        from = to;
    }
}

fn escape<'s>(escaped: Option<char>, range: TextRange) -> Scanned<'s> {
    let value = match escaped {
        Some('a') => '\x07',
        Some('b') => '\x08',
        Some('t') => '\t',
        Some('n') => '\n',
        Some('v') => '\x0b',
        Some('f') => '\x0c',
        Some('r') => '\r',
        Some(same @ ('\\' | '"' | '$')) => same,
        Some(other) => {
            let message = format!("unknown escape sequence `\\{}`", other.escape_debug());
            let error = SyntaxError::new(Code::BadEscape, range, message);
            let hint = match other {
                '0' | 'x' | 'u' | 'U' => "write the character itself; there are no numeric escapes",
                '\n' => "a string may go on over the end of a line without a backslash",
                _ => {
                    "a backslash is written `\\\\`; the escapes are \\a \\b \\f \\n \\r \\t \\v \\\\ \\\" \\$"
                }
            };
            return Err((range, error.hint(hint)));
        }
        None => {
            let error = SyntaxError::new(Code::BadEscape, range, "a backslash alone at the end of a string");
            return Err((range, error.hint("a backslash is written `\\\\`")));
        }
    };
    Ok(StringPart::Escape { range, value })
}

/// Reads `${name}` and returns where it ends.
fn variable(inside: &str, from: usize, at: impl Fn(usize, usize) -> TextRange) -> (usize, Scanned<'_>) {
    let name_from = from + 2;
    let name_to = name_from + name_length(&inside.as_bytes()[name_from..]);
    if name_to > name_from && inside[name_to..].starts_with('}') {
        let name = &inside[name_from..name_to];
        let part =
            StringPart::Variable { range: at(from, name_to + 1), name_range: at(name_from, name_to), name };
        return (name_to + 1, Ok(part));
    }
    // The end of the mistake: its closing brace if that is near, otherwise only what opened it.
    let rest = &inside[name_from..];
    let close = rest.find(['}', '$', '\\', '\n']).filter(|&close| rest.as_bytes()[close] == b'}');
    let to = close.map_or(name_from, |close| name_from + close + 1);
    let content = close.map_or("", |close| &rest[..close]);
    let literal = "for the text itself write `\\${`";
    let error = if close.is_none() {
        let (place, message) = match inside[name_to..].chars().next() {
            None => (at(from, name_to), "`${` without its `}`"),
            Some(next) => {
                (at(name_to, name_to + next.len_utf8()), "expected a variable name and `}` after `${`")
            }
        };
        SyntaxError::new(Code::BadInterpolation, place, message).hint(literal)
    } else if content.is_empty() {
        SyntaxError::new(Code::BadInterpolation, at(from, to), "`${}` names no variable").hint(literal)
    } else {
        let next = inside[name_to..].chars().next().map_or(1, char::len_utf8);
        let message = "only the name of a variable can stand in `${…}`";
        let hint = if content.starts_with('$') {
            "inside the braces the name has no `$`"
        } else {
            "bind the value to a variable first and name that"
        };
        SyntaxError::new(Code::BadInterpolation, at(name_to, name_to + next), message).hint(hint)
    };
    (to, Err((at(from, to), error)))
}

/// How long the variable name at the start is: a lower case letter, then letters, digits, underscores, and dots that
/// are followed by one of these.
fn name_length(bytes: &[u8]) -> usize {
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
    if !bytes.first().is_some_and(u8::is_ascii_lowercase) {
        return 0;
    }
    let mut length = 1;
    loop {
        match bytes.get(length) {
            Some(byte) if inner(byte) => length += 1,
            Some(b'.') if bytes.get(length + 1).is_some_and(inner) => length += 2,
            _ => return length,
        }
    }
}

#[cfg(test)]
mod tests;
