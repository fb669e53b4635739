//! What in a catalogue nobody should see.

use base64ct::{Base64, Encoding as _};
use mgmt_value::{Str, Value};
use serde_json::Value as Json;

/// Every text of a catalogue that is sensitive: as it is, and as it is written where texts have escapes. Whatever contains one of
/// them is to be hidden, too.
pub fn secrets(catalogue: &Json) -> Vec<String> {
    let mut found = Vec::new();
    let none = Vec::new();
    for resource in catalogue["resources"].as_array().unwrap_or(&none) {
        let named = resource["sensitive_parameters"].as_array().unwrap_or(&none);
        for (name, value) in resource["parameters"].as_object().into_iter().flatten() {
            collect(value, named.iter().any(|it| it == name), &mut found);
        }
    }
    found.retain(|text| !text.is_empty());
    found.sort();
    found.dedup();
    found
}

/// What is read as JSON is not deeper than the reader allows.
fn collect(value: &Json, is_secret: bool, found: &mut Vec<String>) {
    match value {
        Json::String(text) if is_secret => {
            found.push(text.clone());
            found.push(value.to_string().trim_matches('"').to_owned());
            found.push(within(text.as_bytes()));
        }
        Json::Number(number) if is_secret => found.push(number.to_string()),
        Json::Array(items) => items.iter().for_each(|item| collect(item, is_secret, found)),
        Json::Object(entries) => {
            let kind = entries.get("__ptype").and_then(Json::as_str);
            let is_secret = is_secret || kind == Some("Sensitive");
            let bytes = entries.get("__pvalue").and_then(Json::as_str).filter(|_| kind == Some("Binary"));
            if let Some(Ok(bytes)) = bytes.filter(|_| is_secret).map(Base64::decode_vec) {
                found.push(within(&bytes));
            }
            let rest = entries.iter().filter(|(key, _)| *key != "__ptype");
            rest.for_each(|(_, item)| collect(item, is_secret, found));
        }
        _ => {}
    }
}

/// Bytes as they are written inside of a value.
fn within(bytes: &[u8]) -> String {
    let text = Value::Str(Str::from(bytes)).to_string();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_found_in_every_form() {
        let catalogue = json!({ "resources": [{
            "parameters": {
                "content": "two\nlines",
                "mode": "0600",
                "deep": [{ "x": { "__ptype": "Sensitive", "__pvalue": "nested" } }],
                "bytes": { "__ptype": "Binary", "__pvalue": "AP8=" },
            },
            "sensitive_parameters": ["content", "bytes"],
        }] });
        let found = secrets(&catalogue);
        for value in [
            Value::Str("a two\nlines b".into()),
            Value::Str("nested".into()),
            Value::Str(Str::from(&b"\x00\xff"[..])),
        ] {
            let text = value.to_string();
            assert!(found.iter().any(|secret| text.contains(secret)), "{text}: {found:?}");
        }
        assert!(!found.iter().any(|secret| "0600".contains(secret)), "{found:?}");
        assert!(secrets(&json!(null)).is_empty());
    }
}
