//! Versioned JSON: the encoding of stored values.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::store::{Entry, StoreError};

/// The version that this program writes. It reads all up to it.
const FORMAT: u64 = 1;

#[derive(Serialize)]
struct Out<'a, T> {
    format: u64,
    #[serde(flatten)]
    value: &'a T,
}

#[derive(Deserialize)]
struct In<T> {
    format: u64,
    #[serde(flatten)]
    value: T,
}

/// The stored form of a value, for people to read too.
pub(crate) fn stored<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(&Out { format: FORMAT, value })
        .map_err(|error| StoreError::Refused { reason: format!("a value has no stored form: {error}") })
}

/// The value in an entry.
pub(crate) fn value<T: DeserializeOwned>(entry: &Entry) -> Result<T, StoreError> {
    let corrupt =
        |reason: String| StoreError::Corrupt { what: format!("something under `{}`", entry.key), reason };
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    let Version { format } =
        serde_json::from_slice(&entry.value).map_err(|error| corrupt(error.to_string()))?;
    if format > FORMAT {
        return Err(corrupt(format!("it has format {format}, and this version reads up to {FORMAT}")));
    }
    let found: In<T> = serde_json::from_slice(&entry.value).map_err(|error| corrupt(error.to_string()))?;
    debug_assert_eq!(found.format, format);
    Ok(found.value)
}
