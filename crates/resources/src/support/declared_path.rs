//! Parameters that are the path of a file.

use mgmt_resource::{Invalid, Result};
use mgmt_sys::ManagedPath;
use mgmt_value::Str;

/// Reads the path of the file that a resource writes: the parameter `path`, or else the resource's name.
pub(crate) fn output_path(path: &Str, name: &Str) -> Result<ManagedPath, Invalid> {
    let path = if path.is_empty() { name } else { path };
    file_path("path", path)
}

/// Reads the path of a file that is no directory.
pub(crate) fn file_path(field: &'static str, path: &Str) -> Result<ManagedPath, Invalid> {
    let managed = ManagedPath::new(path).map_err(|error| Invalid::field(field, error.to_string()))?;
    match managed.is_directory() {
        true => Err(Invalid::field(field, format!("{path:?} ends in a slash, which means a directory"))),
        false => Ok(managed),
    }
}
