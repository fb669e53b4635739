//! Record files: versioned JSON with a checksum, under a name made from a key, and replaced atomically.

use std::fmt::Write;

use mgmt_sys::dir::Parent;
use mgmt_sys::error::Escaped;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement, sweep_temporaries};
use mgmt_value::{Str, Type, Value, from_json, to_json};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::StateError;
use crate::error::Result;

/// The version that this program writes. It reads all up to it.
pub const FORMAT: u64 = 1;

/// The largest file that is read or written.
pub(crate) const MAX_SIZE: u64 = 64 << 20;

const SUFFIX: &str = ".json";

/// The name for a key: a digest, so that every key has one and no two share it.
pub(crate) fn digest(key: &Str) -> String {
    sha256(key.as_bytes())
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
pub struct Record {
    path: String,
    json: Json,
    /// It has a checksum, and that matches.
    is_verified: bool,
}

impl Record {
    /// Reads a file, or finds that there is none.
    pub fn read(folder: &Parent, name: &str) -> Result<Option<Record>> {
        let file = match folder.open_regular(name.as_bytes()) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let path = path_of(folder, name);
        let bytes = file.read(MAX_SIZE)?;
        let intact = intact(&bytes);
        if intact == Some(false) {
            return Err(StateError::Corrupt { path, reason: "its checksum does not match".to_owned() });
        }
        let json = match serde_json::from_slice(&bytes) {
            Ok(json) => json,
            Err(error) => return Err(StateError::Corrupt { path, reason: error.to_string() }),
        };
        let record = Record { path, json, is_verified: intact.is_some() };
        match record.json.get("format").and_then(Json::as_u64) {
            Some(1..=FORMAT) => Ok(Some(record)),
            Some(format) if format > FORMAT => {
                Err(StateError::Newer { path: record.path, format, known: FORMAT })
            }
            _ => Err(record.corrupt("there is no format number")),
        }
    }

    /// A member of any type that JSON has.
    pub fn get(&self, member: &str) -> Result<&Json> {
        self.json.get(member).ok_or_else(|| self.corrupt(format!("`{member}` is missing")))
    }

    /// A member that is a string of the language.
    pub fn string(&self, member: &str) -> Result<Str> {
        match from_json(self.get(member)?, &Type::Str) {
            Ok(Value::Str(text)) => Ok(text),
            _ => Err(self.corrupt(format!("`{member}` is not a string"))),
        }
    }

    /// Refuses a file without a checksum, where no earlier version has written any.
    pub fn verified(self) -> Result<Record> {
        match self.is_verified {
            true => Ok(self),
            false => Err(self.corrupt("it has no checksum")),
        }
    }

    /// What is wrong with the file.
    pub fn corrupt(&self, reason: impl Into<String>) -> StateError {
        StateError::Corrupt { path: self.path.clone(), reason: reason.into() }
    }

    /// The path, for messages.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// The text of a file, one member to a line, for whoever reads it. The last member is a checksum of all before it.
pub fn text(json: &Json) -> String {
    // `{:#}` is JSON with indentation.
    let text = format!("{json:#}");
    match text.strip_suffix(END).filter(|_| json.is_object()) {
        Some(members) => format!("{members}{CHECKSUM}{}{CHECKSUM_END}", sha256(members.as_bytes())),
        None => text + "\n",
    }
}

const END: &str = "\n}";
const CHECKSUM: &str = ",\n  \"checksum\": \"";
const CHECKSUM_END: &str = "\"\n}\n";

/// Whether the checksum at the end of a file is that of what is before it. Files of earlier versions have none.
fn intact(bytes: &[u8]) -> Option<bool> {
    let body = bytes.strip_suffix(CHECKSUM_END.as_bytes())?;
    let (members, sum) = body.split_at_checked(body.len().checked_sub(64)?)?;
    let members = members.strip_suffix(CHECKSUM.as_bytes())?;
    Some(sha256(members).as_bytes() == sum)
}

/// The SHA-256 of bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Sets a file aside that cannot be used, and says so together with what is lost by it. Every other error is passed on.
pub fn set_aside<T>(error: StateError, lost: &str, instead: T) -> Result<T> {
    let (path, reason) = match &error {
        StateError::Corrupt { path, reason } => (path, reason.clone()),
        StateError::Newer { path, format, known } => {
            (path, format!("it has format {format}, and this version reads up to {known}"))
        }
        _ => return Err(error),
    };
    let said = mgmt_sys::aside::set_aside_and_describe(std::path::Path::new(path), &reason);
    tracing::error!(target: "mgmt::local", "{said}; lost: {lost}");
    Ok(instead)
}

/// A key as it stands in a file.
pub(crate) fn string_to_json(text: &Str) -> Json {
    to_json(&Value::Str(text.clone()))
}

/// Writes a file in one step.
pub fn write(folder: &Parent, name: &str, text: &str, durability: Durability) -> Result<()> {
    let mut file = Replacement::begin(folder, name.as_bytes(), InPlace::Refuse)?;
    file.write_all(text.as_bytes())?;
    let private = Attributes { mode: Some(0o600), ..Attributes::default() };
    file.commit(&private, Expect::Anything, durability)?;
    Ok(())
}

/// Removes a file, if there is one.
pub fn remove(folder: &Parent, name: &str, durability: Durability) -> Result<()> {
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
