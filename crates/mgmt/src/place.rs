//! Files that commands put onto the host: whole or not at all, and only where nobody else could have prepared the place.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mgmt_sys::dir::Parent;
use mgmt_sys::error::Error;
use mgmt_sys::handle::Attributes;
use mgmt_sys::path::ManagedPath;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};
use mgmt_sys::stat::Kind;

use crate::failure::Failure;

/// Puts a file in place. False if it was there already.
pub(crate) fn place(path: &Path, content: &[u8], mode: u32) -> Result<bool, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::failed(format!("{}: {why}", path.display()));
    let managed = ManagedPath::new(path.as_os_str().as_bytes()).map_err(|error| wrong(&error))?;
    let name = managed.file_name().ok_or_else(|| wrong(&"not the name of a file"))?;
    let parent = Parent::open(&managed).map_err(|error| failed(&error))?;
    let attributes = Attributes { mode: Some(mode), ..Attributes::default() };
    match parent.lstat_entry(name).map_err(|error| failed(&error))?.map(|found| found.kind) {
        None => {}
        Some(Kind::File) => {
            let present = parent.open_regular(name).map_err(|error| failed(&error))?;
            if present.equals(content).map_err(|error| failed(&error))? {
                return present.set_attributes(&attributes).map_err(|error| failed(&error));
            }
        }
        // It may mean something, such as a unit that is masked.
        Some(_) => return Err(wrong(&"something other than a file is there, and stays")),
    }
    let mut new = Replacement::begin(&parent, name, InPlace::Refuse).map_err(|error| failed(&error))?;
    new.write_all(content)
        .and_then(|()| new.commit(&attributes, Expect::Anything, Durability::Full))
        .map_err(|error| failed(&error))?;
    Ok(true)
}

fn failed(error: &Error) -> Failure {
    Failure::failed(error)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_is_placed_once_and_a_link_is_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        assert!(place(&file, b"one", 0o644).unwrap());
        assert!(!place(&file, b"one", 0o644).unwrap());
        let before = fs::metadata(&file).unwrap().ino();
        assert!(place(&file, b"two", 0o600).unwrap());
        let after = fs::metadata(&file).unwrap();
        assert_eq!((fs::read(&file).unwrap(), after.mode() & 0o777), (b"two".to_vec(), 0o600));
        assert_ne!(before, after.ino(), "it was written into");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert!(place(&link, b"three", 0o644).is_err());
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("/dev/null"));
    }
}
