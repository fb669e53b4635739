//! `encoding`

use base64ct::{Base64, Encoding as _};
use mgmt_funcs_derive::function;
use mgmt_value::{Str, Type, Value};
use serde_json::Value as Json;

use crate::Failure;
use crate::declare::module;
use crate::zero::zero;

module! {
    path: "encoding",
    doc: "Values from and to text that other programs read and write.",
    functions: [base64_encode, base64_decode, decode_json, decode_json_flexible],
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with the standard alphabet and padding.
///
/// ```mcl
/// encoding.base64_encode("hello") == "aGVsbG8="
/// ```
#[function]
fn base64_encode(data: &[u8]) -> Str {
    Str::new(Base64::encode_string(data))
}

/// What base64 text with the standard alphabet and padding stands for, which may be any bytes.
///
/// Ends of lines are ignored, and so are unused bits of the last character. Other text is a fatal error.
///
/// ```mcl
/// encoding.base64_decode("aGVsbG8=") == "hello"
/// ```
#[function]
fn base64_decode(data: &[u8]) -> Result<Str, Failure> {
    // By hand: base64ct refuses unused bits and does not tell where it stopped.
    let malformed = |at: usize| Failure::fatal(format!("this is not base64: unexpected byte at {at}"));
    let mut out = Vec::with_capacity(data.len() / 4 * 3);
    let mut group = [0_u8; 4];
    let (mut filled, mut padding) = (0, 0);
    for (at, byte) in data.iter().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n')) {
        let digit = match ALPHABET.iter().position(|letter| letter == byte) {
            Some(digit) if padding == 0 => digit as u8,
            // Only the last two characters can be padding, and nothing follows it.
            None if *byte == b'=' && filled >= 2 => {
                padding += 1;
                0
            }
            _ => return Err(malformed(at)),
        };
        group[filled] = digit;
        filled += 1;
        if filled == 4 {
            let bits = group.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit));
            out.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
            // After padding the group stays full, so that whatever follows is refused.
            filled = if padding == 0 { 0 } else { 1 };
        }
    }
    match (filled, padding) {
        (0, _) | (1, 1..) => Ok(Str::new(out)),
        _ => Err(Failure::fatal("this is not base64: it ends too early")),
    }
}

/// Reads JSON as a value of the type that is needed, or of the type that the second argument names.
///
/// A number without fraction or exponent is an int, any number can be a float. Objects are maps with text as keys, or
/// structs; a struct needs exactly its fields. `null` fits nothing. Only the first value is read. What does not fit is a
/// fatal error.
///
/// ```mcl
/// encoding.decode_json("{\"a\": 1}", "map{str: int}") == {"a" => 1,}
/// encoding.decode_json("[true]", "[]bool") == [true,]
/// ```
#[function(inference = DecodeJson, signature = "func(data str) ?1 | func(data str, type str) ?1")]
fn decode_json(ty: &Type, arguments: &[Value]) -> Result<Value, Failure> {
    decode(ty, arguments, false)
}

/// Reads JSON like [decode_json](#encodingdecode_json), but fields that are missing get a zero value, and fields that the struct
/// does not have are ignored.
///
/// ```mcl
/// encoding.decode_json_flexible("{\"b\": 1}", "struct{a int}") == struct{a => 0,}
/// ```
#[function(inference = DecodeJson, signature = "func(data str) ?1 | func(data str, type str) ?1")]
fn decode_json_flexible(ty: &Type, arguments: &[Value]) -> Result<Value, Failure> {
    decode(ty, arguments, true)
}

fn decode(ty: &Type, arguments: &[Value], flexible: bool) -> Result<Value, Failure> {
    let data = match arguments {
        [Value::Str(data)] | [Value::Str(data), Value::Str(_)] => data,
        _ => return Err(Failure::fatal("expected JSON text, and perhaps the text of a type")),
    };
    // A stray byte can only stand within a text, where it is replaced.
    let text = String::from_utf8_lossy(data);
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Json>();
    let json = match values.next() {
        Some(Ok(json)) => json,
        Some(Err(error)) => return Err(Failure::fatal(format!("this is not JSON: {error}"))),
        None => return Err(Failure::fatal("this is not JSON: there is no value")),
    };
    convert(&json, ty, flexible)
}

fn convert(json: &Json, ty: &Type, flexible: bool) -> Result<Value, Failure> {
    let wrong = || Failure::fatal(format!("expected {ty} in the JSON, found {}", shorten(json)));
    Ok(match (ty, json) {
        (Type::Bool, Json::Bool(value)) => Value::Bool(*value),
        (Type::Str, Json::String(text)) => Value::str(text),
        (Type::Int, Json::Number(number)) => Value::Int(int(number).ok_or_else(wrong)?),
        (Type::Float, Json::Number(number)) => Value::Float(number.as_f64().ok_or_else(wrong)?),
        (Type::List(element), Json::Array(items)) => {
            let item = |(at, item): (usize, &Json)| {
                convert(item, element, flexible).map_err(|failure| failure.within(format!("item {at}")))
            };
            let items = items.iter().enumerate().map(item).collect::<Result<_, _>>()?;
            Value::list((**element).clone(), items)
        }
        (Type::Map(types), Json::Object(object)) if types.0 == Type::Str => {
            let entry = |(key, value): (&String, &Json)| {
                let value = convert(value, &types.1, flexible);
                Ok((Value::str(key), value.map_err(|failure| failure.within(format!("key {key:?}")))?))
            };
            let entries = object.iter().map(entry).collect::<Result<Vec<_>, Failure>>()?;
            Value::map(types.0.clone(), types.1.clone(), entries)
        }
        (Type::Struct(fields), Json::Object(object)) => {
            if !flexible && object.len() != fields.len() {
                return Err(wrong());
            }
            let field = |(name, ty): &(std::sync::Arc<str>, Type)| {
                let value = match object.get(&**name) {
                    Some(json) => convert(json, ty, flexible),
                    None if flexible => zero(ty).ok_or_else(wrong),
                    None => Err(wrong()),
                };
                Ok((name.clone(), value.map_err(|failure| failure.within(format!("field {name}")))?))
            };
            Value::structure(fields.iter().map(field).collect::<Result<Vec<_>, Failure>>()?)
        }
        _ => return Err(wrong()),
    })
}

fn int(number: &serde_json::Number) -> Option<i64> {
    // Minus zero is an int, but arrives as the float that has it.
    let zero = || number.as_f64().filter(|float| *float == 0.0 && number.to_string() == "-0.0").map(|_| 0);
    number.as_i64().or_else(zero)
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
    use crate::Memory;
    use crate::modules::tests::{Nothing, call_on, shown};

    #[test]
    fn base64_goes_there_and_back() {
        for (data, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("\u{fb}\u{ff}", "w7vDvw=="),
        ] {
            assert_eq!(base64_encode(data.as_bytes()), text);
            assert_eq!(base64_decode(text.as_bytes()).unwrap(), data);
        }
        assert_eq!(base64_encode(b"\xfb\xff\xfe"), "+//+");
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(base64_decode(&base64_encode(&all)).unwrap().as_bytes(), all);
    }

    #[test]
    fn base64_ignores_line_ends_and_spare_bits_and_nothing_else() {
        for (text, data) in [("Zm\r\n9v\n", "foo"), ("Zg=\n=", "f"), ("Zh==", "f"), ("\n", "")] {
            assert_eq!(base64_decode(text.as_bytes()).unwrap(), data, "{text}");
        }
        for text in ["Z", "Zg", "Zg=", "Zg===", "Zg==Zg==", "Z===", "====", "Zm 9v", "Zm9v=", "Zm-v", "Zg=a"]
        {
            assert!(
                shown("encoding.base64_decode", &[Value::str(text)]).starts_with("F: this is not base64"),
                "{text}"
            );
        }
    }

    fn json(name: &str, text: &str, ty: &str) -> String {
        let mut memory = Memory::new(Type::parse(ty).unwrap());
        match call_on(&mut memory, &Nothing, &format!("encoding.{name}"), &[Value::str(text)]) {
            Ok(value) => format!("{value}"),
            Err(Failure::Fatal(message)) => format!("F: {message}"),
            Err(Failure::Catchable(message)) => format!("C: {message}"),
        }
    }

    #[test]
    fn json_fits_types() {
        for (text, ty, expected) in [
            ("true", "bool", "true"),
            (r#""\u00e9\n""#, "str", r#""é\n""#),
            ("-7", "int", "-7"),
            ("-0", "int", "0"),
            ("7", "float", "7"),
            ("1e3", "float", "1000"),
            ("[1, 2] trailing", "[]int", "[1, 2]"),
            ("1 2", "int", "1"),
            ("[]", "[]str", "[]"),
            (r#"{"a": [1.5]}"#, "map{str: []float}", r#"{"a": [1.5]}"#),
            (r#"{"b": "x", "a": 1}"#, "struct{a int; b str}", r#"struct{a: 1; b: "x"}"#),
            (r#"{"a": 1, "a": 2}"#, "struct{a int}", "struct{a: 2}"),
        ] {
            assert_eq!(json("decode_json", text, ty), expected, "{text}");
            assert_eq!(json("decode_json_flexible", text, ty), expected, "{text}");
        }
    }

    #[test]
    fn json_that_does_not_fit_is_fatal() {
        for (text, ty) in [
            ("null", "str"),
            ("1.0", "int"),
            ("1e3", "int"),
            ("9223372036854775808", "int"),
            ("\"1\"", "int"),
            ("{}", "map{int: str}"),
            ("[1, \"a\"]", "[]int"),
            ("", "int"),
            ("{", "map{str: str}"),
            ("nope", "bool"),
        ] {
            for name in ["decode_json", "decode_json_flexible"] {
                assert!(json(name, text, ty).starts_with("F: "), "{name} {text}");
            }
        }
        assert_eq!(
            json("decode_json", "[1, \"a\"]", "[]int"),
            "F: item 1: expected int in the JSON, found \"a\""
        );
        assert!(json("decode_json", &"[".repeat(100_000), "[]int").starts_with("F: this is not JSON"));
        assert!(json("decode_json", &format!("\"{}\"", "x".repeat(10_000)), "int").len() < 200);
    }

    #[test]
    fn only_the_flexible_form_tolerates_other_fields() {
        let (text, ty) = (r#"{"a": 1, "c": 2}"#, "struct{a int; b struct{l []str; f float}}");
        assert!(json("decode_json", text, ty).starts_with("F: "));
        assert!(json("decode_json", r#"{"a": 1, "c": 2}"#, "struct{a int}").starts_with("F: "));
        assert!(json("decode_json", r#"{"a": 1}"#, "struct{a int; b int}").starts_with("F: "));
        assert_eq!(json("decode_json_flexible", text, ty), "struct{a: 1; b: struct{l: []; f: 0}}");
    }
}
