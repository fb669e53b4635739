//! Files that only their owner may read, or write.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
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

/// Reads a file that nobody else may write to, or says who may.
pub(crate) fn read(path: &Path) -> io::Result<Result<Vec<u8>, String>> {
    let mut file = File::open(path)?;
    // Of the file that was opened, whatever is at that path by now.
    let found = file.metadata()?;
    if let Some(who) = writer(found.uid(), found.mode(), rustix::process::geteuid().as_raw()) {
        return Ok(Err(who));
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(Ok(text))
}

/// Who may write to a file, besides us and root.
fn writer(owner: u32, mode: u32, us: u32) -> Option<String> {
    match mode & 0o022 {
        _ if owner != us && owner != 0 => Some(format!("the user {owner}")),
        0 => None,
        0o020 => Some("its group".to_owned()),
        _ => Some("everybody".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_else_may_write_is_named() {
        for (owner, mode, expected) in [
            (7, 0o100_600, None),
            (0, 0o100_644, None),
            (8, 0o100_600, Some("the user 8")),
            (7, 0o100_620, Some("its group")),
            (7, 0o100_666, Some("everybody")),
            (0, 0o100_602, Some("everybody")),
        ] {
            assert_eq!(writer(owner, mode, 7).as_deref(), expected, "{owner} {mode:o}");
        }
    }
}
