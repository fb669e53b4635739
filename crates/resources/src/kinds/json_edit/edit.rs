//! What is to be done to a document.

use std::fmt;

use mgmt_value::Str;
use serde::de::IgnoredAny;

/// One edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// Sets what is at a path to a value, which is JSON.
    Set(Path, String),
    Delete(Path),
}

/// Keys, one inside the other. At least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(pub(super) Vec<String>);

impl Edit {
    pub(super) fn read(text: &Str) -> Result<Edit, String> {
        let text = text.as_str().ok_or("it is not UTF-8")?.trim();
        if let Some(inside) =
            text.strip_prefix("del").map(str::trim_start).and_then(|rest| rest.strip_prefix('('))
        {
            let (path, rest) = Path::read(inside)?;
            return match rest.trim() {
                ")" => Ok(Edit::Delete(path)),
                "" => Err("the closing parenthesis is missing".into()),
                other => Err(format!("expected a closing parenthesis and nothing more, found `{other}`")),
            };
        }
        let (path, rest) = Path::read(text)?;
        let value = rest.trim_start().strip_prefix('=').ok_or("expected `=` after the path")?.trim();
        if value.is_empty() {
            return Err("the value is missing".into());
        }
        super::document::check(value).map_err(|why| format!("the value is not JSON: {why}"))?;
        Ok(Edit::Set(path, value.to_owned()))
    }
}

impl Path {
    /// Reads a path at the beginning of a text, and gives the rest.
    fn read(text: &str) -> Result<(Path, &str), String> {
        let mut rest = text.trim_start().strip_prefix('.').ok_or("a path begins with a dot")?.trim_start();
        let mut keys = Vec::new();
        loop {
            let (key, after) = if rest.starts_with('[') { bracketed(rest)? } else { word(rest)? };
            keys.push(key);
            rest = after.trim_start();
            match rest.strip_prefix('.') {
                Some(next) => rest = next.trim_start(),
                None if rest.starts_with('[') => {}
                None => return Ok((Path(keys), rest)),
            }
        }
    }
}

fn word(text: &str) -> Result<(String, &str), String> {
    let is_part = |(place, letter): (usize, char)| {
        letter == '_' || letter.is_ascii_alphabetic() || (place > 0 && letter.is_ascii_digit())
    };
    let length = text.char_indices().take_while(|part| is_part(*part)).count();
    match length {
        0 => {
            Err("expected a key of letters, digits and underscores, or one in brackets such as [\"a-b\"]"
                .into())
        }
        length => Ok((text[..length].to_owned(), &text[length..])),
    }
}

fn bracketed(text: &str) -> Result<(String, &str), String> {
    let inside = text[1..].trim_start();
    let mut reader = serde_json::Deserializer::from_str(inside).into_iter::<String>();
    let key = match reader.next() {
        Some(Ok(key)) => key,
        _ => return Err("expected a string in the brackets, such as [\"a-b\"]".into()),
    };
    if key.is_empty() {
        return Err("a key is empty".into());
    }
    let rest = inside[reader.byte_offset()..].trim_start();
    rest.strip_prefix(']').map(|rest| (key, rest)).ok_or_else(|| "a closing bracket is missing".into())
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, key) in self.0.iter().enumerate() {
            match word(key) {
                Ok((_, "")) => write!(f, ".{key}")?,
                _ if place == 0 => write!(f, ".[{}]", quoted(key))?,
                _ => write!(f, "[{}]", quoted(key))?,
            }
        }
        Ok(())
    }
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Whether a text is exactly one JSON value, of any depth.
pub(super) fn is_json(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<IgnoredAny>(text).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Edit, String> {
        Edit::read(&text.into())
    }

    fn path(keys: &[&str]) -> Path {
        Path(keys.iter().map(|key| (*key).to_owned()).collect())
    }

    #[test]
    fn edits_are_read() {
        let set = |keys: &[&str], value: &str| Ok(Edit::Set(path(keys), value.to_owned()));
        assert_eq!(read(".a = 1"), set(&["a"], "1"));
        assert_eq!(read("  .a._b9=[1, 2]  "), set(&["a", "_b9"], "[1, 2]"));
        assert_eq!(read(r#".["a b"]["c\u00e9"].d = {"x": "="}"#), set(&["a b", "cé", "d"], r#"{"x": "="}"#));
        assert_eq!(read(r#". a . [ "b" ] [ "c" ] = "x""#), set(&["a", "b", "c"], r#""x""#));
        assert_eq!(read("del(.a.b)"), Ok(Edit::Delete(path(&["a", "b"]))));
        assert_eq!(read(r#"del ( .["("] )"#), Ok(Edit::Delete(path(&["("]))));
        assert_eq!(read(".del = 1"), set(&["del"], "1"));
        assert_eq!(read(".a = 1.000e5"), set(&["a"], "1.000e5"));
    }

    #[test]
    fn what_is_no_edit_is_refused_with_a_reason() {
        for (text, why) in [
            ("", "begins with a dot"),
            ("a = 1", "begins with a dot"),
            (". = 1", "expected a key"),
            (".9 = 1", "expected a key"),
            (".a. = 1", "expected a key"),
            (".a-b = 1", "expected `=`"),
            (".a", "expected `=`"),
            (".a =", "the value is missing"),
            (".a = 1 2", "not JSON"),
            (".a = {", "not JSON"),
            (".a = 'x'", "not JSON"),
            (".a[0] = 1", "expected a string in the brackets"),
            (".a[] = 1", "expected a string in the brackets"),
            (r#".a[""] = 1"#, "a key is empty"),
            (r#".a["b" = 1"#, "a closing bracket"),
            ("del(.a", "closing parenthesis"),
            ("del(.a) x", "nothing more"),
            ("del()", "begins with a dot"),
        ] {
            let refused = read(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        assert!(Edit::read(&Str::new(b".a = \"\xff\"")).is_err());
        let deep = format!(".a = {}1{}", "[".repeat(1000), "]".repeat(1000));
        assert!(read(&deep).unwrap_err().contains("not JSON"));
    }

    #[test]
    fn a_path_is_shown_as_it_is_written() {
        assert_eq!(path(&["a", "b c", "d", "\"\n"]).to_string(), r#".a["b c"].d["\"\n"]"#);
        assert_eq!(path(&["1"]).to_string(), r#".["1"]"#);
    }
}
