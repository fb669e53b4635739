//! Byte strings in JSON: as text where they are plain text, so that people can read them, and in base64 otherwise.

use base64ct::{Base64, Encoding as _};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Written<'a> {
    Text(std::borrow::Cow<'a, str>),
    Base64(String),
}

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    match plain(bytes) {
        Some(text) => Written::Text(text.into()),
        None => Written::Base64(Base64::encode_string(bytes)),
    }
    .serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    match Written::deserialize(deserializer)? {
        Written::Text(text) => Ok(text.into_owned().into_bytes()),
        Written::Base64(text) => Base64::decode_vec(&text).map_err(D::Error::custom),
    }
}

/// Text that JSON does not make much longer.
fn plain(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_plain = |byte: u8| byte >= b' ' || matches!(byte, b'\n' | b'\t' | b'\r');
    text.bytes().all(is_plain).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder(#[serde(with = "super")] Vec<u8>);

    #[test]
    fn text_stays_readable_and_all_bytes_come_back() {
        let text = serde_json::to_string(&Holder(b"{\"a\": \"\xc3\xa9\"}\n".to_vec())).unwrap();
        assert!(text.contains("\\\"a\\\""), "{text}");
        for bytes in [b"".to_vec(), b"plain".to_vec(), (0..=255).collect(), b"\0".to_vec()] {
            let text = serde_json::to_string(&Holder(bytes.clone())).unwrap();
            assert_eq!(serde_json::from_str::<Holder>(&text).unwrap(), Holder(bytes));
        }
    }
}
