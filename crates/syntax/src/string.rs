//! What is inside the quotes of a string: text, escapes, and variables.

use crate::error::{Code, Diagnostics, SyntaxError};
use rowan::{TextRange, TextSize};

/// A piece of a string. The ranges of the pieces lie end to end between the quotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StringPart {
    /// Text that stands for itself.
    Text {
        /// Where it is.
        range: TextRange,
        /// The text.
        value: String,
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
        name: String,
    },
    /// Something that is none of these; an error says why.
    Invalid {
        /// Where it is.
        range: TextRange,
    },
}

impl StringPart {
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

/// The pieces of a string. `inside` is what stands between the quotes, `start` where that begins.
pub(crate) fn parts(inside: &str, start: TextSize) -> (Vec<StringPart>, Vec<SyntaxError>) {
    let mut parts = Vec::new();
    let mut errors = Vec::new();
    scan(inside, start, |piece| match piece {
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
    // Nearly all strings have neither; then there is nothing that could be wrong.
    if !token.bytes().any(|byte| byte == b'\\' || byte == b'$') {
        return;
    }
    let inside = token.get(1..token.len() - 1).unwrap_or_default();
    scan(inside, start + TextSize::new(1), |piece| {
        if let Err((_, error)) = piece {
            errors.add(|| error);
        }
    });
}

type Piece = Result<StringPart, (TextRange, SyntaxError)>;

fn scan(inside: &str, start: TextSize, mut piece: impl FnMut(Piece)) {
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
                piece(escape(escaped, at(from, to)));
                to
            }
            b'$' if bytes.get(from + 1) == Some(&b'{') => {
                let (to, result) = variable(inside, from, at);
                piece(result);
                to
            }
            _ => {
                // A dollar without a brace is text, and so is all up to the next thing that could be something.
                let to = (from + 1..bytes.len())
                    .find(|&to| bytes[to] == b'\\' || (bytes[to] == b'$' && bytes.get(to + 1) == Some(&b'{')))
                    .unwrap_or(bytes.len());
                piece(Ok(StringPart::Text { range: at(from, to), value: inside[from..to].to_owned() }));
                to
            }
        };
        from = to;
    }
}

fn escape(escaped: Option<char>, range: TextRange) -> Piece {
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
fn variable(inside: &str, from: usize, at: impl Fn(usize, usize) -> TextRange) -> (usize, Piece) {
    let name_from = from + 2;
    let name_to = name_from + name_length(&inside.as_bytes()[name_from..]);
    if name_to > name_from && inside[name_to..].starts_with('}') {
        let name = inside[name_from..name_to].to_owned();
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
