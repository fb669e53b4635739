//! The stored form: JSON that a person can read and that gives back exactly the value that was written.
//!
//! The type is known from the schema when a value is read, so it is not stored, except where the schema says
//! `variant`: there it becomes `{"type": "…", "value": …}`. Bytes that are not UTF-8 become `{"bytes": "hex…"}`, a
//! number that JSON cannot write `{"float": "inf"}`; a map becomes a list of pairs unless its keys are text.

use std::fmt::Write;

use serde_json::{Value as Json, json};

use crate::{Map, Str, Type, Value};

/// Why stored data could not be read as the wanted type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError(String);

impl std::fmt::Display for JsonError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JsonError {}

/// The stored form of a value, to be read back with the value's own type. A function has none and is stored as null.
pub fn to_json(value: &Value) -> Json {
    to_json_as(value, &value.ty())
}

/// The stored form of a value that is to be read back with a type that may say less than the value's own: where the
/// type is `variant`, the real one is written beside the value.
pub fn to_json_as(value: &Value, ty: &Type) -> Json {
    match (value, ty) {
        (Value::Func(_) | Value::Nil, _) => Json::Null,
        (_, Type::Variant) => variant_to_json(value),
        (Value::Bool(value), _) => json!(value),
        (Value::Str(value), _) => bytes_to_json(value),
        (Value::Int(value), _) => json!(value),
        (Value::Float(value), _) if value.is_finite() => json!(value),
        (Value::Float(value), _) => json!({ "float": value.to_string() }),
        (Value::List(list), _) => list.items.iter().map(|item| to_json_as(item, &list.element)).collect(),
        (Value::Map(map), _) => map_to_json(map),
        (Value::Struct(value), Type::Struct(types)) if types.len() == value.fields.len() => {
            let fields = value.fields.iter().zip(types.iter());
            Json::Object(fields.map(|((n, v), (_, ty))| (n.to_string(), to_json_as(v, ty))).collect())
        }
        (Value::Struct(_), _) => to_json(value),
    }
}

fn variant_to_json(value: &Value) -> Json {
    let ty = value.ty();
    let text = ty.to_string();
    // A struct that came from elsewhere may have names that no type text can spell; its natural form must do.
    match Type::parse(&text).as_ref() == Some(&ty) {
        true => json!({ "type": text, "value": to_json_as(value, &ty) }),
        false => to_json(value),
    }
}

fn map_to_json(map: &Map) -> Json {
    let (key_type, value_type) = &map.types;
    let entries = map.entries().iter();
    let object = entries.clone().map(|(key, value)| match key {
        Value::Str(key) => Some((key.as_str()?.to_owned(), to_json_as(value, value_type))),
        _ => None,
    });
    match object.collect::<Option<_>>() {
        Some(object) if *key_type == Type::Str => Json::Object(object),
        _ => entries.map(|(k, v)| json!([to_json_as(k, key_type), to_json_as(v, value_type)])).collect(),
    }
}

/// Reads a stored value of a known type. `null` is always the unset value.
pub fn from_json(json: &Json, ty: &Type) -> Result<Value, JsonError> {
    let wrong = || JsonError(format!("expected {ty}, found {}", shorten(json)));
    Ok(match (ty, json) {
        (_, Json::Null) => Value::Nil,
        (Type::Bool, Json::Bool(value)) => Value::Bool(*value),
        (Type::Str, _) => Value::Str(bytes_from_json(json).ok_or_else(wrong)?),
        (Type::Int, Json::Number(number)) => Value::Int(number.as_i64().ok_or_else(wrong)?),
        (Type::Float, Json::Number(number)) => Value::Float(number.as_f64().ok_or_else(wrong)?),
        (Type::Float, Json::Object(map)) => {
            let text = map.get("float").and_then(Json::as_str).ok_or_else(wrong)?;
            Value::Float(text.parse().map_err(|_| wrong())?)
        }
        (Type::List(element), Json::Array(items)) => {
            let items = items.iter().map(|item| from_json(item, element)).collect::<Result<_, _>>()?;
            Value::list((**element).clone(), items)
        }
        (Type::Map(types), Json::Object(map)) if types.0 == Type::Str => {
            let entry = |(key, value): (&String, &Json)| Ok((Value::str(key), from_json(value, &types.1)?));
            let entries = map.iter().map(entry).collect::<Result<Vec<_>, JsonError>>()?;
            Value::map(types.0.clone(), types.1.clone(), entries)
        }
        (Type::Map(types), Json::Array(pairs)) => {
            let pair = |pair: &Json| match pair.as_array().map(Vec::as_slice) {
                Some([key, value]) => Ok((from_json(key, &types.0)?, from_json(value, &types.1)?)),
                _ => Err(wrong()),
            };
            let entries = pairs.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
            Value::map(types.0.clone(), types.1.clone(), entries)
        }
        (Type::Struct(fields), Json::Object(map)) => {
            let field = |(name, ty): &(std::sync::Arc<str>, Type)| {
                let json = map.get(&**name).ok_or_else(wrong)?;
                Ok((name.clone(), from_json(json, ty)?))
            };
            Value::structure(fields.iter().map(field).collect::<Result<Vec<_>, JsonError>>()?)
        }
        (Type::Variant, json) => guess(json)?,
        _ => return Err(wrong()),
    })
}

/// A value whose type is written beside it, or else what a piece of JSON most naturally stands for.
fn guess(json: &Json) -> Result<Value, JsonError> {
    if let (Some(ty), Some(value), Some(2)) =
        (json.get("type"), json.get("value"), json.as_object().map(serde_json::Map::len))
        && let Some(ty) = ty.as_str().and_then(Type::parse)
    {
        return from_json(value, &ty);
    }
    let ty = natural_type(json).ok_or_else(|| JsonError(format!("no type fits {}", shorten(json))))?;
    from_json(json, &ty)
}

fn natural_type(json: &Json) -> Option<Type> {
    Some(match json {
        Json::Null => Type::Nil,
        Json::Bool(_) => Type::Bool,
        Json::String(_) => Type::Str,
        Json::Number(number) if number.is_i64() => Type::Int,
        Json::Number(_) => Type::Float,
        Json::Array(items) => Type::list(items.first().map_or(Some(Type::Str), natural_type)?),
        Json::Object(map) if map.len() == 1 && map.contains_key("bytes") => Type::Str,
        Json::Object(map) if map.len() == 1 && map.contains_key("float") => Type::Float,
        Json::Object(map) => {
            let fields = map.iter().map(|(name, json)| Some((name.as_str(), natural_type(json)?)));
            Type::structure(fields.collect::<Option<Vec<_>>>()?)
        }
    })
}

fn bytes_to_json(bytes: &Str) -> Json {
    match bytes.as_str() {
        Some(text) => json!(text),
        None => {
            let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            json!({ "bytes": hex })
        }
    }
}

fn bytes_from_json(json: &Json) -> Option<Str> {
    if let Some(text) = json.as_str() {
        return Some(Str::from(text));
    }
    let hex = json.get("bytes")?.as_str()?.as_bytes();
    let digit = |byte: u8| (byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    hex.chunks(2).map(byte).collect::<Option<Vec<u8>>>().map(Str::from)
}

fn shorten(json: &Json) -> String {
    let text = json.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Through text, as a file would have it.
    fn round_trip(value: &Value, ty: &Type) -> Value {
        let text = to_json_as(value, ty).to_string();
        let json: Json = serde_json::from_str(&text).unwrap();
        from_json(&json, ty).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn check(value: Value, expected: &str) {
        assert_eq!(to_json(&value).to_string(), expected);
        assert_eq!(round_trip(&value, &value.ty()), value);
        assert_eq!(round_trip(&value, &Type::Variant), value, "as a variant");
    }

    #[test]
    fn every_type_has_a_form_that_a_person_can_read() {
        check(Value::Bool(true), "true");
        check(Value::Int(i64::MIN), "-9223372036854775808");
        check(Value::Int(i64::MAX), "9223372036854775807");
        check(Value::Float(3.0), "3.0");
        check(Value::Float(f64::INFINITY), r#"{"float":"inf"}"#);
        check(Value::Float(f64::NEG_INFINITY), r#"{"float":"-inf"}"#);
        check(Value::str("é\n"), r#""é\n""#);
        check(Value::str(b"\xff\x00a"), r#"{"bytes":"ff0061"}"#);
        check(Value::str(""), r#""""#);
        check(Value::list(Type::Int, vec![]), "[]");
        check(Value::list(Type::list(Type::Str), vec![Value::list(Type::Str, vec![])]), "[[]]");
        check(Value::map(Type::Str, Type::Int, []), "{}");
        check(Value::map(Type::Int, Type::Int, []), "[]");
        check(Value::map(Type::Str, Type::Int, [(Value::str("a b"), Value::Int(1))]), r#"{"a b":1}"#);
        check(
            Value::map(Type::Str, Type::Int, [(Value::str(b"\xff"), Value::Int(1))]),
            r#"[[{"bytes":"ff"},1]]"#,
        );
        check(Value::map(Type::Bool, Type::Str, [(Value::Bool(true), Value::str("x"))]), r#"[[true,"x"]]"#);
        check(Value::structure::<&str>([]), "{}");
        check(Value::structure([("b", Value::Int(1)), ("a", Value::str("x"))]), r#"{"b":1,"a":"x"}"#);
        check(Value::structure([("bytes", Value::str("zz"))]), r#"{"bytes":"zz"}"#);
        check(Value::structure([("float", Value::Int(3))]), r#"{"float":3}"#);
        check(Value::Nil, "null");
    }

    #[test]
    fn odd_floats_come_back_bit_for_bit() {
        for number in [f64::NAN, -0.0, f64::MIN_POSITIVE, 5e-324, f64::MAX, 0.1 + 0.2, 9007199254740993.0] {
            let Value::Float(back) = round_trip(&Value::Float(number), &Type::Float) else { panic!() };
            assert!(back.to_bits() == number.to_bits() || back.is_nan() && number.is_nan(), "{number}");
        }
    }

    #[test]
    fn a_variant_carries_its_type() {
        let value = Value::map(Type::Int, Type::list(Type::Float), []);
        assert_eq!(
            to_json_as(&value, &Type::Variant).to_string(),
            r#"{"type":"map{int: []float}","value":[]}"#
        );
        let ty = Type::structure([("any", Type::Variant), ("n", Type::Int)]);
        let holder = Value::structure([("any", value), ("n", Value::Int(1))]);
        assert_eq!(round_trip(&holder, &ty), holder);
        let list = Value::list(Type::Variant, vec![Value::Int(1), Value::str("a"), Value::Nil]);
        assert_eq!(round_trip(&list, &list.ty()), list);
        let unspeakable = Value::structure([("two words", Value::Int(1))]);
        assert_eq!(round_trip(&unspeakable, &Type::Variant), unspeakable);
    }

    #[test]
    fn a_variant_written_by_hand_gets_the_natural_type() {
        for (json, value) in [
            (json!(1), Value::Int(1)),
            (json!(1.5), Value::Float(1.5)),
            (json!(["a"]), Value::list(Type::Str, vec![Value::str("a")])),
            (json!({"a": 1}), Value::structure([("a", Value::Int(1))])),
            (json!({"bytes": "ff"}), Value::str(b"\xff")),
            (json!({"float": "-inf"}), Value::Float(f64::NEG_INFINITY)),
            (json!({"type": "[]int", "value": []}), Value::list(Type::Int, vec![])),
            (
                json!({"type": "no such", "value": 1}),
                Value::structure([("type", Value::str("no such")), ("value", Value::Int(1))]),
            ),
        ] {
            assert_eq!(from_json(&json, &Type::Variant), Ok(value));
        }
        assert!(from_json(&json!([1, "a"]), &Type::Variant).is_err());
    }

    #[test]
    fn what_does_not_fit_is_an_error_that_says_so() {
        let long = "x".repeat(1000);
        for (json, ty, message) in [
            (json!("a"), "int", r#"expected int, found "a""#),
            (json!(1.5), "int", "expected int, found 1.5"),
            (json!(u64::MAX), "int", "expected int, found 18446744073709551615"),
            (json!({"bytes": "f"}), "str", r#"expected str, found {"bytes":"f"}"#),
            (json!({"bytes": "+f"}), "str", r#"expected str, found {"bytes":"+f"}"#),
            (json!({"float": "x"}), "float", r#"expected float, found {"float":"x"}"#),
            (json!({"a": 1}), "map{int: int}", r#"expected map{int: int}, found {"a":1}"#),
            (json!([[1]]), "map{int: int}", "expected map{int: int}, found [[1]]"),
            (json!({"a": 1}), "struct{b int}", r#"expected struct{b int}, found {"a":1}"#),
            (json!([1, true]), "[]int", "expected int, found true"),
        ] {
            assert_eq!(from_json(&json, &Type::parse(ty).unwrap()).unwrap_err().to_string(), message);
        }
        assert!(from_json(&json!(long), &Type::Int).unwrap_err().to_string().len() < 100);
    }
}
