//! Values in the form that settings have, as text.
//!
//! What is read is what a value means: types that are written out, quotes and the base of numbers are forgotten.

use std::fmt;

use mgmt_value::Value;

/// How deep values may be in each other.
const DEEPEST: usize = 64;

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Variant {
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    /// A list; also a dictionary, whose entries are pairs in the order of their keys.
    List(Vec<Variant>),
    Tuple(Vec<Variant>),
    /// An entry of a dictionary.
    Pair(Box<(Variant, Variant)>),
    /// A value of any type.
    Any(Box<Variant>),
    Nothing,
}

impl PartialEq for Variant {
    fn eq(&self, other: &Variant) -> bool {
        match (self, other) {
            (Variant::Bool(a), Variant::Bool(b)) => a == b,
            (Variant::Int(a), Variant::Int(b)) => a == b,
            (Variant::Float(a), Variant::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            // A number that is declared without a point may be one with a point to the schema.
            (Variant::Int(a), Variant::Float(b)) | (Variant::Float(b), Variant::Int(a)) => as_float(*a) == *b,
            (Variant::Text(a), Variant::Text(b)) => a == b,
            (Variant::List(a), Variant::List(b)) | (Variant::Tuple(a), Variant::Tuple(b)) => a == b,
            (Variant::Pair(a), Variant::Pair(b)) => a == b,
            (Variant::Any(a), Variant::Any(b)) => a == b,
            (Variant::Nothing, Variant::Nothing) => true,
            _ => false,
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "two numbers that only differ beyond a float's precision are one to it"
)]
fn as_float(number: i128) -> f64 {
    number as f64
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |f: &mut fmt::Formatter<'_>, items: &[Variant]| {
            items.iter().enumerate().try_for_each(|(position, item)| {
                let between = if position == 0 { "" } else { ", " };
                write!(f, "{between}{item}")
            })
        };
        match self {
            Variant::Bool(truth) => write!(f, "{truth}"),
            Variant::Int(number) => write!(f, "{number}"),
            Variant::Float(number) if number.is_nan() => f.write_str("nan"),
            Variant::Float(number) => write!(f, "{number:?}"),
            Variant::Text(text) => quote(f, text),
            Variant::List(items) if matches!(items.first(), Some(Variant::Pair(_))) => {
                f.write_str("{")?;
                all(f, items)?;
                f.write_str("}")
            }
            Variant::List(items) => {
                f.write_str("[")?;
                all(f, items)?;
                f.write_str("]")
            }
            Variant::Tuple(items) => {
                f.write_str("(")?;
                all(f, items)?;
                f.write_str(if items.len() == 1 { ",)" } else { ")" })
            }
            Variant::Pair(pair) => write!(f, "{}: {}", pair.0, pair.1),
            Variant::Any(value) => write!(f, "<{value}>"),
            Variant::Nothing => f.write_str("nothing"),
        }
    }
}

fn quote(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("'")?;
    for character in text.chars() {
        match character {
            '\'' | '\\' => write!(f, "\\{character}")?,
            control if control.is_control() => write!(f, "\\u{:04x}", u32::from(control))?,
            character => write!(f, "{character}")?,
        }
    }
    f.write_str("'")
}

impl Variant {
    /// A declared value.
    pub(super) fn of(value: &Value) -> Result<Variant, String> {
        Ok(match value {
            Value::Bool(truth) => Variant::Bool(*truth),
            Value::Int(number) => Variant::Int(i128::from(*number)),
            Value::Float(number) => Variant::Float(*number),
            Value::Str(text) => match text.as_str().filter(|text| !text.contains('\0')) {
                Some(text) => Variant::Text(text.to_owned()),
                None => return Err(format!("expected plain text, found {text:?}")),
            },
            Value::List(list) => Variant::List(list.items.iter().map(Variant::of).collect::<Result<_, _>>()?),
            Value::Map(map) => {
                let pair = |(key, value): &(Value, Value)| {
                    Ok(Variant::Pair(Box::new((Variant::of(key)?, Variant::of(value)?))))
                };
                sorted(map.entries().iter().map(pair).collect::<Result<_, String>>()?)
            }
            Value::Struct(_) | Value::Func(_) | Value::Nil => {
                return Err(format!(
                    "{value} cannot be a setting; write it as a text in the form that `gsettings get` shows, with `custom` as `type`"
                ));
            }
        })
    }

    /// Reads a text. Nothing if it is none that we know.
    pub(super) fn read(text: &str) -> Option<Variant> {
        let mut reader = Reader { rest: text };
        let value = reader.value(DEEPEST)?;
        reader.blanks();
        reader.rest.is_empty().then_some(value)
    }
}

/// A dictionary means the same in whichever order it is written.
fn sorted(mut pairs: Vec<Variant>) -> Variant {
    pairs.sort_by_cached_key(|pair| match pair {
        Variant::Pair(pair) => pair.0.to_string(),
        other => other.to_string(),
    });
    Variant::List(pairs)
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(|character: char| character.is_ascii_whitespace());
    }

    fn takes(&mut self, sign: char) -> bool {
        self.blanks();
        let after = self.rest.strip_prefix(sign);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn word(&mut self) -> &'a str {
        let is_end = |character: char| !(character.is_ascii_alphanumeric() || "+-.".contains(character));
        let (word, rest) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn value(&mut self, depth: usize) -> Option<Variant> {
        let depth = depth.checked_sub(1)?;
        self.blanks();
        match self.rest.chars().next()? {
            '@' => {
                let is_end = |character: char| character.is_ascii_whitespace();
                self.rest = &self.rest[self.rest.find(is_end)?..];
                self.value(depth)
            }
            '\'' | '"' => self.text().map(Variant::Text),
            '[' => {
                self.takes('[');
                let items = self.items(']', depth)?;
                let is_dictionary = matches!(items.first(), Some(Variant::Pair(_)));
                Some(if is_dictionary { sorted(items) } else { Variant::List(items) })
            }
            '(' => {
                self.takes('(');
                self.tuple(depth)
            }
            '{' => {
                self.takes('{');
                self.dictionary(depth)
            }
            '<' => {
                self.takes('<');
                let inner = self.value(depth)?;
                self.takes('>').then(|| Variant::Any(Box::new(inner)))
            }
            'b' if self.rest[1..].starts_with(['\'', '"']) => {
                self.rest = &self.rest[1..];
                self.bytes()
            }
            _ => self.scalar(depth),
        }
    }

    fn scalar(&mut self, depth: usize) -> Option<Variant> {
        match self.word() {
            "true" => Some(Variant::Bool(true)),
            "false" => Some(Variant::Bool(false)),
            "nothing" => Some(Variant::Nothing),
            "just" | "boolean" | "byte" | "int16" | "uint16" | "int32" | "uint32" | "int64" | "uint64"
            | "handle" | "double" | "string" | "objectpath" | "signature" => self.value(depth),
            word => number(word),
        }
    }

    fn items(&mut self, end: char, depth: usize) -> Option<Vec<Variant>> {
        let mut items = Vec::new();
        if self.takes(end) {
            return Some(items);
        }
        loop {
            items.push(self.value(depth)?);
            if self.takes(end) {
                return Some(items);
            }
            if !self.takes(',') {
                return None;
            }
        }
    }

    fn tuple(&mut self, depth: usize) -> Option<Variant> {
        let mut items = Vec::new();
        while !self.takes(')') {
            if !items.is_empty() && !self.takes(',') {
                return None;
            }
            // A comma stands after the only one.
            if items.len() == 1 && self.takes(')') {
                break;
            }
            items.push(self.value(depth)?);
        }
        Some(Variant::Tuple(items))
    }

    /// `{key: value, …}`, or one entry alone: `{key, value}`.
    fn dictionary(&mut self, depth: usize) -> Option<Variant> {
        let mut pairs = Vec::new();
        if self.takes('}') {
            return Some(Variant::List(pairs));
        }
        loop {
            let key = self.value(depth)?;
            let is_entry = pairs.is_empty() && self.takes(',');
            if !is_entry && !self.takes(':') {
                return None;
            }
            let pair = Variant::Pair(Box::new((key, self.value(depth)?)));
            if is_entry {
                return self.takes('}').then_some(pair);
            }
            pairs.push(pair);
            if self.takes('}') {
                return Some(sorted(pairs));
            }
            if !self.takes(',') {
                return None;
            }
        }
    }

    /// A text in quotes.
    fn text(&mut self) -> Option<String> {
        let mut characters = self.rest.char_indices();
        let (_, end) = characters.next()?;
        let mut text = String::new();
        while let Some((position, character)) = characters.next() {
            match character {
                character if character == end => {
                    self.rest = &self.rest[position + character.len_utf8()..];
                    return Some(text);
                }
                '\\' => match characters.next()?.1 {
                    'a' => text.push('\u{7}'),
                    'b' => text.push('\u{8}'),
                    'f' => text.push('\u{c}'),
                    'n' => text.push('\n'),
                    'r' => text.push('\r'),
                    't' => text.push('\t'),
                    'v' => text.push('\u{b}'),
                    '\n' => {}
                    letter @ ('u' | 'U') => {
                        let digits = if letter == 'u' { 4 } else { 8 };
                        let mut code = 0_u32;
                        for _ in 0..digits {
                            code = code.checked_mul(16)?.checked_add(characters.next()?.1.to_digit(16)?)?;
                        }
                        text.push(char::from_u32(code)?);
                    }
                    other => text.push(other),
                },
                other => text.push(other),
            }
        }
        None
    }

    /// A text of bytes: a list of them, with a zero at the end.
    fn bytes(&mut self) -> Option<Variant> {
        let bytes = self.rest.as_bytes();
        let end = *bytes.first()?;
        let mut items = Vec::new();
        let mut position = 1;
        loop {
            let byte = *bytes.get(position)?;
            position += 1;
            if byte == end {
                self.rest = self.rest.get(position..)?;
                items.push(0);
                return Some(Variant::List(items.into_iter().map(Variant::Int).collect()));
            }
            if byte != b'\\' {
                items.push(i128::from(byte));
                continue;
            }
            let escaped = *bytes.get(position)?;
            position += 1;
            items.push(match escaped {
                b'0'..=b'7' => {
                    let mut code = i128::from(escaped - b'0');
                    for _ in 0..2 {
                        match bytes.get(position) {
                            Some(digit @ b'0'..=b'7') => code = code * 8 + i128::from(digit - b'0'),
                            _ => break,
                        }
                        position += 1;
                    }
                    code & 0xff
                }
                b'a' => 7,
                b'b' => 8,
                b'f' => 12,
                b'n' => 10,
                b'r' => 13,
                b't' => 9,
                b'v' => 11,
                other => i128::from(other),
            });
        }
    }
}

/// A number; in base 8 or 16, if it begins so.
fn number(word: &str) -> Option<Variant> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let whole = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None if digits.len() > 1
            && digits.starts_with('0')
            && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            i128::from_str_radix(digits, 8).ok()
        }
        None => digits.parse().ok(),
    };
    if let Some(whole) = whole {
        return Some(Variant::Int(sign * whole));
    }
    let is_float = matches!(digits, "inf" | "nan")
        || digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    word.parse().ok().filter(|_| is_float).map(Variant::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_value_in_two_spellings_is_the_same() {
        for (one, other) in [
            ("5", "uint32 5"),
            ("5", "0x5"),
            ("8", "010"),
            ("-5", "int64 -5"),
            ("5", "5.0"),
            ("1e3", "1000"),
            ("true", " boolean true "),
            ("'a'", "\"a\""),
            ("'it\\'s'", "\"it's\""),
            ("'a\\n\\u00e9'", "'a\\u000aé'"),
            ("[]", "@as []"),
            ("['a', 'b']", "[ \"a\",'b' ]"),
            ("(1, 'a')", "( 1,'a' )"),
            ("(1,)", "(uint16 1,)"),
            ("{'a': <1>, 'b': <'x'>}", "{ 'b' : <'x'> , 'a': <1> }"),
            ("{'a': 1}", "[{'a', 1}]"),
            ("{}", "@a{sv} {}"),
            ("b'ab'", "[byte 0x61, 0x62, 0x00]"),
            ("just 5", "5"),
            ("objectpath '/a'", "'/a'"),
            ("@mi nothing", "nothing"),
        ] {
            let read = |text: &str| Variant::read(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(read(one), read(other), "{one} and {other}");
            assert_eq!(read(&read(one).to_string()), read(one), "{one} comes back");
        }
    }

    #[test]
    fn other_values_are_others() {
        for (one, other) in [
            ("5", "'5'"),
            ("5", "6"),
            ("true", "1"),
            ("['a', 'b']", "['b', 'a']"),
            ("<5>", "5"),
            ("(1,)", "[1]"),
            ("{'a': 1}", "{'a': 2}"),
        ] {
            assert_ne!(Variant::read(one), Variant::read(other), "{one} and {other}");
        }
    }

    #[test]
    fn what_is_no_value_is_none_and_depth_is_bounded() {
        let deep = "[".repeat(100_000);
        for wrong in [
            "",
            "hello",
            "hello world",
            "'a",
            "[1",
            "[1,]",
            "(1",
            "{'a'}",
            "{'a': }",
            "<5",
            "1 2",
            "--5",
            "0xzz",
            "'\\u12'",
            "@as",
            "é",
            "b'",
            &deep,
        ] {
            assert!(Variant::read(wrong).is_none(), "{wrong:.20}");
        }
    }

    #[test]
    fn any_text_comes_back() {
        for text in ["", "a", "it's", "\\", "\"", "a\nb\t\u{1}", "é 🎉", "${HOME} `id`"] {
            let written = Variant::Text(text.to_owned()).to_string();
            assert!(!written.contains('\n'), "{written}");
            assert_eq!(Variant::read(&written), Some(Variant::Text(text.to_owned())), "{written}");
        }
    }

    #[test]
    fn declared_values_are_written_as_settings_are() {
        use std::sync::Arc;

        use mgmt_value::{List, Type};
        let items = vec![Value::Str("a".into()), Value::Str("it's".into())];
        let list = Value::List(Arc::new(List { element: Type::Str, items }));
        assert_eq!(Variant::of(&list).unwrap().to_string(), r"['a', 'it\'s']");
        assert_eq!(Variant::of(&Value::Float(1.0)).unwrap().to_string(), "1.0");
        assert_eq!(Variant::of(&Value::Int(-7)).unwrap().to_string(), "-7");
        assert!(Variant::of(&Value::Str("a\0".into())).is_err());
        assert!(Variant::of(&Value::Nil).is_err());
    }
}
