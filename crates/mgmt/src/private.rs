//! Files that only their owner may read.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a file that may hold secrets. Nobody else can have it open when it is written: one that is there is replaced. What is no
/// file, such as a pipe, is written to as it is.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let is_other = match path.symlink_metadata() {
        Ok(found) if found.is_file() => {
            std::fs::remove_file(path)?;
            false
        }
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    let mut file = OpenOptions::new().write(true).create_new(!is_other).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
