//! Format texts.

use std::fmt;
use std::ops::Range;

use mgmt_value::{Type, Value};

use crate::{Failure, quote};

/// What a verb of a format stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// `%t`
    Bool,
    /// `%s`
    Str,
    /// `%q`: text in quotes
    Quoted,
    /// `%d`
    Int,
    /// `%f`
    Float,
    /// `%v`: the text form of any value
    Any,
    /// `%T`: the type of any value
    TypeOf,
}

/// A verb and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbAt {
    /// The verb.
    pub verb: Verb,
    /// Its bytes within the format, the percent sign included.
    pub range: Range<usize>,
}

/// A format that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFormat {
    /// Where the percent sign is.
    pub offset: usize,
    /// The bytes of what is not a verb.
    pub range: Range<usize>,
    /// The character after the percent sign; none at the end of the text.
    pub found: Option<char>,
}

impl Verb {
    /// The type of its value; none when any will do.
    pub fn ty(self) -> Option<Type> {
        match self {
            Verb::Bool => Some(Type::Bool),
            Verb::Str | Verb::Quoted => Some(Type::Str),
            Verb::Int => Some(Type::Int),
            Verb::Float => Some(Type::Float),
            Verb::Any | Verb::TypeOf => None,
        }
    }

    fn of(letter: u8) -> Option<Verb> {
        Some(match letter {
            b't' => Verb::Bool,
            b's' => Verb::Str,
            b'q' => Verb::Quoted,
            b'd' => Verb::Int,
            b'f' => Verb::Float,
            b'v' => Verb::Any,
            b'T' => Verb::TypeOf,
            _ => return None,
        })
    }

    fn print(self, value: &Value, out: &mut Vec<u8>) -> Result<(), Failure> {
        if let Some(expected) = self.ty()
            && value.ty() != expected
        {
            let message = format!("unexpected type: expected {expected}, found {}", value.ty());
            return Err(Failure::fatal(message));
        }
        match (self, value) {
            (Verb::TypeOf, value) => out.extend(value.ty().to_string().into_bytes()),
            (Verb::Quoted, Value::Str(text)) => {
                out.extend(quote::quote(text, quote::Keep::Printable).into_bytes());
            }
            (_, Value::Str(text)) => out.extend_from_slice(text),
            (_, Value::Func(_)) => {
                return Err(Failure::fatal("a function has no text form: %v can't print it"));
            }
            (_, value) => out.extend(value.to_string().into_bytes()),
        }
        Ok(())
    }
}

impl fmt::Display for BadFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid format string at {}: ", self.offset)?;
        match self.found {
            Some(found) => write!(f, "there is no verb `%{}`, ", found.escape_debug())?,
            None => f.write_str("the text ends after `%`, ")?,
        }
        f.write_str("expected one of %t %s %q %d %f %v %T, or %% for a percent sign")
    }
}

impl std::error::Error for BadFormat {}

/// The verbs of a format, in order. There is no width, precision, flag or index.
pub fn printf_verbs(format: &[u8]) -> Result<Vec<VerbAt>, BadFormat> {
    let part = |part: Result<Part<'_>, BadFormat>| match part {
        Ok(Part::Verb(verb)) => Some(Ok(verb)),
        Ok(Part::Literal(_)) => None,
        Err(error) => Some(Err(error)),
    };
    Parts { format, at: 0 }.filter_map(part).collect()
}

/// Formats values.
pub(crate) fn print(format: &[u8], values: &[Value]) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::with_capacity(format.len());
    let mut values = values.iter();
    for part in (Parts { format, at: 0 }) {
        match part.map_err(|error| Failure::fatal(error.to_string()))? {
            Part::Literal(text) => out.extend_from_slice(text),
            Part::Verb(VerbAt { verb, .. }) => match values.next() {
                Some(value) => verb.print(value, &mut out)?,
                None => return Err(Failure::fatal("not enough values: the format has more verbs than that")),
            },
        }
    }
    Ok(out)
}

enum Part<'a> {
    Literal(&'a [u8]),
    Verb(VerbAt),
}

struct Parts<'a> {
    format: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Result<Part<'a>, BadFormat>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let rest = self.format.get(start..).filter(|rest| !rest.is_empty())?;
        if rest[0] != b'%' {
            let length = memchr::memchr(b'%', rest).unwrap_or(rest.len());
            self.at += length;
            return Some(Ok(Part::Literal(&rest[..length])));
        }
        let Some(&letter) = rest.get(1) else {
            self.at = self.format.len();
            return Some(Err(BadFormat { offset: start, range: start..start + 1, found: None }));
        };
        self.at += 2;
        if letter == b'%' {
            return Some(Ok(Part::Literal(b"%")));
        }
        match Verb::of(letter) {
            Some(verb) => Some(Ok(Part::Verb(VerbAt { verb, range: start..start + 2 }))),
            None => {
                let (_, found, width) = crate::text::runes(&rest[1..]).next().unwrap_or((0, '\u{fffd}', 1));
                self.at = self.format.len();
                let range = start..start + 1 + width;
                Some(Err(BadFormat { offset: start, range, found: Some(found) }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, values: &[Value], expected: &str) {
        let found = print(format.as_bytes(), values).unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), expected);
    }

    #[test]
    fn verbs_are_found_with_their_places() {
        let verbs = printf_verbs("é %s %% %d".as_bytes()).unwrap();
        let verb = |verb, range| VerbAt { verb, range };
        assert_eq!(verbs, [verb(Verb::Str, 3..5), verb(Verb::Int, 9..11)]);
        assert_eq!(printf_verbs(b"100%%"), Ok(vec![]));
        let all = printf_verbs(b"%t%s%q%d%f%v%T").unwrap();
        let types: Vec<_> = all.iter().map(|at| at.verb.ty().map(|ty| ty.to_string())).collect();
        let types: Vec<_> = types.iter().map(|ty| ty.as_deref().unwrap_or("-")).collect();
        assert_eq!(types, ["bool", "str", "str", "int", "float", "-", "-"]);
    }

    #[test]
    fn what_is_no_verb_is_named_with_its_place() {
        for (format, offset, range, found) in [
            ("a%x", 1, 1..3, Some('x')),
            ("%5d", 0, 0..2, Some('5')),
            ("%é", 0, 0..3, Some('é')),
            ("ab%", 2, 2..3, None),
            ("%%%", 2, 2..3, None),
        ] {
            let error = printf_verbs(format.as_bytes()).unwrap_err();
            assert_eq!(error, BadFormat { offset, range, found });
            assert!(error.to_string().starts_with(&format!("invalid format string at {offset}: ")));
        }
    }

    #[test]
    fn values_take_the_places_of_verbs() {
        check("%t|%s|%d|%%", &[Value::Bool(true), Value::str("x"), Value::Int(-3)], "true|x|-3|%");
        check("%q", &[Value::str("a\n\"é")], r#""a\n\"é""#);
        check("%f %f", &[Value::Float(42.0), Value::Float(3.25)], "42 3.25");
        check("%v %v", &[Value::str("raw"), Value::list(Type::Str, vec![Value::str("q")])], "raw [\"q\"]");
        check("%T", &[Value::structure([("a", Value::Int(1))])], "struct{a int}");
        check("naïve %s", &[Value::str("é")], "naïve é");
        check("surplus", &[Value::Int(1)], "surplus");
        check("", &[], "");
    }

    #[test]
    fn what_does_not_fit_is_fatal() {
        for (format, values) in [
            ("%s", vec![]),
            ("%s", vec![Value::Int(1)]),
            ("%d", vec![Value::str("1")]),
            ("%f", vec![Value::Int(1)]),
            ("%z", vec![Value::Int(1)]),
            ("%", vec![]),
        ] {
            assert!(matches!(print(format.as_bytes(), &values), Err(Failure::Fatal(_))), "{format}");
        }
    }
}
