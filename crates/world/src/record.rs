//! One file of the store: versioned JSON under a name made from its key.

use std::fmt::Write;

use mgmt_sys::dir::Parent;
use mgmt_sys::error::Escaped;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement, sweep_temporaries};
use mgmt_value::{Str, Type, Value, from_json, to_json};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::LocalError;
use crate::error::Result;

/// The version that this program writes. It reads all up to it.
pub(crate) const FORMAT: u64 = 1;

/// The largest file that is read or written.
pub(crate) const MAX_SIZE: u64 = 64 << 20;

const SUFFIX: &str = ".json";

/// The name for a key: a digest, so that every key has one and no two share it.
pub(crate) fn digest(key: &Str) -> String {
    Sha256::digest(key.as_bytes()).iter().fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    })
}

/// The file name for a key.
pub(crate) fn file_name(key: &Str) -> String {
    digest(key) + SUFFIX
}

/// Whether a name is one that [`file_name`] makes.
pub(crate) fn is_file_name(name: &[u8]) -> bool {
    name.strip_suffix(SUFFIX.as_bytes())
        .is_some_and(|digits| digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit))
}

/// A file that was read, and its path for messages.
pub(crate) struct Record {
    path: String,
    json: Json,
}

impl Record {
    /// Reads a file, or finds that there is none.
    pub(crate) fn read(folder: &Parent, name: &str) -> Result<Option<Record>> {
        let file = match folder.open_regular(name.as_bytes()) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let path = path_of(folder, name);
        let json = match serde_json::from_slice(&file.read(MAX_SIZE)?) {
            Ok(json) => json,
            Err(error) => return Err(LocalError::Corrupt { path, reason: error.to_string() }),
        };
        let record = Record { path, json };
        match record.json.get("format").and_then(Json::as_u64) {
            Some(1..=FORMAT) => Ok(Some(record)),
            Some(format) if format > FORMAT => {
                Err(LocalError::Newer { path: record.path, format, known: FORMAT })
            }
            _ => Err(record.corrupt("there is no format number")),
        }
    }

    /// A member of any type that JSON has.
    pub(crate) fn get(&self, member: &str) -> Result<&Json> {
        self.json.get(member).ok_or_else(|| self.corrupt(format!("`{member}` is missing")))
    }

    /// A member that is a string of the language.
    pub(crate) fn string(&self, member: &str) -> Result<Str> {
        match from_json(self.get(member)?, &Type::Str) {
            Ok(Value::Str(text)) => Ok(text),
            _ => Err(self.corrupt(format!("`{member}` is not a string"))),
        }
    }

    /// What is wrong with the file.
    pub(crate) fn corrupt(&self, reason: impl Into<String>) -> LocalError {
        LocalError::Corrupt { path: self.path.clone(), reason: reason.into() }
    }

    /// The path, for messages.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// The text of a file, one member to a line, for whoever reads it.
pub(crate) fn text(json: &Json) -> String {
    // `{:#}` is JSON with indentation.
    format!("{json:#}\n")
}

/// A key as it stands in a file.
pub(crate) fn string_to_json(text: &Str) -> Json {
    to_json(&Value::Str(text.clone()))
}

/// Writes a file in one step.
pub(crate) fn write(folder: &Parent, name: &str, text: &str, durability: Durability) -> Result<()> {
    let mut file = Replacement::begin(folder, name.as_bytes(), InPlace::Refuse)?;
    file.write_all(text.as_bytes())?;
    let private = Attributes { mode: Some(0o600), ..Attributes::default() };
    file.commit(&private, Expect::Anything, durability)?;
    Ok(())
}

/// Removes a file, if there is one.
pub(crate) fn remove(folder: &Parent, name: &str, durability: Durability) -> Result<()> {
    match folder.unlink(name.as_bytes()) {
        Ok(()) if durability == Durability::Full => Ok(folder.sync()?),
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Removes what a killed process has left behind. It is in nobody's way, so failing to is no failure.
pub(crate) fn sweep(folder: &Parent) {
    if let Err(error) = sweep_temporaries(folder) {
        tracing::warn!(target: "mgmt::local", "{error}");
    }
}

fn path_of(folder: &Parent, name: &str) -> String {
    let directory = folder.path_bytes();
    format!("{}/{name}", Escaped(directory.strip_suffix(b"/").unwrap_or(directory)))
}
