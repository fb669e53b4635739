//! Values of a catalogue: JSON with Puppet's rich data in it.

use std::fmt;

use base64ct::{Base64, Encoding as _};
use serde_json::{Map, Value};

/// A value of a parameter.
#[derive(Clone, PartialEq)]
pub enum Data {
    /// Not managed.
    Undef,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes that may be no text.
    Binary(Vec<u8>),
    /// Values in order.
    List(Vec<Data>),
    /// Values by name.
    Map(Vec<(String, Data)>),
    /// What must not be shown.
    Secret(Box<Data>),
    /// Something that only Puppet knows, with the name of its type.
    Foreign(String),
}

/// How deep values may be nested. Puppet itself does not get far beyond.
const DEEPEST: usize = 128;

impl Data {
    /// Reads the JSON form. Anything is read as something.
    pub fn new(value: &Value) -> Data {
        Data::at(value, 0)
    }

    fn at(value: &Value, depth: usize) -> Data {
        if depth > DEEPEST {
            return Data::Foreign("a value that is nested too deeply".to_owned());
        }
        match value {
            Value::Null => Data::Undef,
            Value::Bool(value) => Data::Bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(number) => Data::Integer(number),
                None => Data::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Data::Text(text.clone()),
            Value::Array(list) => Data::List(list.iter().map(|item| Data::at(item, depth + 1)).collect()),
            Value::Object(map) => match map.get("__ptype") {
                Some(kind) => Data::rich(kind.as_str().unwrap_or_default(), map, depth),
                None => Data::Map(
                    map.iter().map(|(name, item)| (name.clone(), Data::at(item, depth + 1))).collect(),
                ),
            },
        }
    }

    fn rich(kind: &str, map: &Map<String, Value>, depth: usize) -> Data {
        let value = map.get("__pvalue").unwrap_or(&Value::Null);
        let foreign = || Data::Foreign(kind.to_owned());
        match kind {
            "Binary" => match value.as_str().map(Base64::decode_vec) {
                Some(Ok(bytes)) => Data::Binary(bytes),
                _ => foreign(),
            },
            "Sensitive" => Data::Secret(Box::new(Data::at(value, depth + 1))),
            // What has a text form that says all there is to say.
            "SemVer" | "SemVerRange" | "Symbol" | "Timespan" | "Timestamp" | "Regexp" | "URI" => {
                value.as_str().map_or_else(foreign, |text| Data::Text(text.to_owned()))
            }
            "Default" => Data::Text("default".to_owned()),
            // Maps whose keys are no text are lists of keys and values.
            "Hash" => foreign(),
            _ => foreign(),
        }
    }

    /// Without the wrapping of a secret, however deep.
    pub fn revealed(&self) -> &Data {
        match self {
            Data::Secret(inner) => inner.revealed(),
            other => other,
        }
    }

    /// Whether it must not be shown.
    pub fn is_secret(&self) -> bool {
        match self {
            Data::Secret(_) => true,
            Data::List(list) => list.iter().any(Data::is_secret),
            Data::Map(map) => map.iter().any(|(_, value)| value.is_secret()),
            _ => false,
        }
    }

    /// The text of a scalar, as Puppet would write it.
    pub fn text(&self) -> Option<String> {
        match self.revealed() {
            Data::Bool(value) => Some(value.to_string()),
            Data::Integer(number) => Some(number.to_string()),
            Data::Float(number) => Some(number.to_string()),
            Data::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    /// The bytes of a text, or bytes.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        match self.revealed() {
            Data::Binary(bytes) => Some(bytes.clone()),
            other => other.text().map(String::into_bytes),
        }
    }

    /// A truth, in all of Puppet's spellings.
    pub fn truth(&self) -> Option<bool> {
        match self.revealed() {
            Data::Bool(value) => Some(*value),
            Data::Text(text) => match text.as_str() {
                "true" | "yes" => Some(true),
                "false" | "no" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// A number, or the text of one.
    pub fn integer(&self) -> Option<i64> {
        match self.revealed() {
            Data::Integer(number) => Some(*number),
            Data::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// The scalars in it, however nested, as texts. A single one is a list of one; what is not managed is none. `None`: there
    /// is something else in it.
    pub fn texts(&self) -> Option<Vec<String>> {
        let mut texts = Vec::new();
        self.gather(&mut texts).then_some(texts)
    }

    fn gather(&self, texts: &mut Vec<String>) -> bool {
        match self.revealed() {
            Data::Undef => true,
            Data::List(list) => list.iter().all(|item| item.gather(texts)),
            other => match other.text() {
                Some(text) => {
                    texts.push(text);
                    true
                }
                None => false,
            },
        }
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// For people. A secret is not shown.
impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Data::Undef => f.write_str("undef"),
            Data::Bool(value) => write!(f, "{value}"),
            Data::Integer(number) => write!(f, "{number}"),
            Data::Float(number) => write!(f, "{number}"),
            Data::Text(text) => write!(f, "{text:?}"),
            Data::Binary(bytes) => write!(f, "{} bytes", bytes.len()),
            Data::List(list) => f.debug_list().entries(list).finish(),
            Data::Map(map) => f.debug_map().entries(map.iter().map(|(name, value)| (name, value))).finish(),
            Data::Secret(_) => f.write_str("(a secret)"),
            Data::Foreign(kind) => write!(f, "({kind})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rich_data_is_read() {
        assert_eq!(
            Data::new(&json!({ "__ptype": "Binary", "__pvalue": "AAH/" })),
            Data::Binary(vec![0, 1, 255])
        );
        let secret = Data::new(&json!([{ "__ptype": "Sensitive", "__pvalue": "hush" }]));
        assert!(secret.is_secret());
        assert!(!format!("{secret:?} {secret}").contains("hush"));
        assert_eq!(secret.texts(), Some(vec!["hush".to_owned()]));
        assert_eq!(
            Data::new(&json!({ "__ptype": "SemVer", "__pvalue": "1.2.3" })).text(),
            Some("1.2.3".into())
        );
        assert_eq!(
            Data::new(&json!({ "__ptype": "Deferred", "name": "x" })),
            Data::Foreign("Deferred".into())
        );
        assert_eq!(
            Data::new(&json!({ "__ptype": "Binary", "__pvalue": "?" })),
            Data::Foreign("Binary".into())
        );
    }

    #[test]
    fn nesting_is_bounded() {
        let mut value = json!(1);
        for _ in 0..10_000 {
            value = Value::Array(vec![value]);
        }
        assert_eq!(Data::new(&value).texts(), None);
        // What is this deep is taken apart by hand.
        while let Value::Array(mut list) = value {
            value = list.pop().unwrap_or_default();
        }
    }

    #[test]
    fn lists_are_flattened_and_nothing_is_nothing() {
        assert_eq!(Data::new(&json!(["a", [1, null, [true]]])).texts().unwrap(), ["a", "1", "true"]);
        assert_eq!(Data::new(&json!("a")).texts().unwrap(), ["a"]);
        assert_eq!(Data::new(&json!({ "a": 1 })).texts(), None);
    }
}
