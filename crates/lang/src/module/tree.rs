//! The content of a directory in one number.
//!
//! The hash covers the path, the kind and the content of every file: kinds are plain file, executable file and
//! symbolic link, as git tells them apart. Times, owners and the other permission bits do not count, and neither do
//! empty directories, `.git`, and the record that `mgmt get` leaves in a module.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::files::{FileKind, Files};

/// What `mgmt get` leaves at the top of a module: where it came from.
pub const MODULE_RECORD: &str = ".mgmt-module.json";

/// No module has as many files, and no walk goes on for ever.
const MAX_ENTRIES: usize = 500_000;

/// The hash of a directory: `sha256:` and 64 digits.
pub fn tree_hash(files: &dyn Files, top: &Path) -> io::Result<String> {
    let mut leaves: Vec<(Vec<u8>, &'static [u8], [u8; 32])> = Vec::new();
    walk_module(files, top, &mut |relative, kind| {
        let mut digest = Sha256::new();
        let tag: &'static [u8] = match kind {
            FileKind::Directory => return Ok(()),
            FileKind::File { executable, .. } => {
                files.for_each_piece(&top.join(relative), &mut |piece| {
                    digest.update(piece);
                    Ok(())
                })?;
                if *executable { b"executable" } else { b"file" }
            }
            FileKind::Link(target) => {
                digest.update(target.as_os_str().as_encoded_bytes());
                b"link"
            }
            FileKind::Other => {
                let message = format!("{} is neither a file nor a directory nor a link", relative.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        };
        leaves.push((relative.as_os_str().as_encoded_bytes().to_vec(), tag, digest.finalize().into()));
        Ok(())
    })?;
    leaves.sort_unstable();
    let mut whole = Sha256::new();
    whole.update(b"mgmt module tree 1\n");
    for (path, tag, content) in &leaves {
        // With their lengths, no two lists of files give the same bytes.
        for part in [tag, path.as_slice(), content.as_slice()] {
            whole.update((part.len() as u64).to_le_bytes());
            whole.update(part);
        }
    }
    Ok(whole.finalize().iter().fold("sha256:".to_owned(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Goes through everything that counts as content, links not followed, parents before children.
pub fn walk_module(
    files: &dyn Files,
    top: &Path,
    take: &mut dyn FnMut(&Path, &FileKind) -> io::Result<()>,
) -> io::Result<()> {
    let mut pending = vec![PathBuf::new()];
    let mut count = 0;
    while let Some(directory) = pending.pop() {
        for entry in files.entries(&top.join(&directory))? {
            count += 1;
            if count > MAX_ENTRIES {
                let message = format!("there are more than {MAX_ENTRIES} files");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            if entry.name == ".git" || (directory.as_os_str().is_empty() && entry.name == MODULE_RECORD) {
                continue;
            }
            let relative = directory.join(&entry.name);
            take(&relative, &entry.kind)?;
            if entry.kind == FileKind::Directory {
                pending.push(relative);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::files::{Disk, Memory};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_hash_is_the_same_wherever_the_files_are() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("files/empty")).unwrap();
        std::fs::create_dir_all(scratch.path().join(".git")).unwrap();
        std::fs::write(scratch.path().join(".git/HEAD"), "x").unwrap();
        std::fs::write(scratch.path().join(MODULE_RECORD), "x").unwrap();
        std::fs::write(scratch.path().join("main.mcl"), "a").unwrap();
        std::fs::write(scratch.path().join("files/x"), "b").unwrap();
        let memory = Memory::from([("/m/main.mcl", "a"), ("/m/files/x", "b")]);
        let hash = tree_hash(&memory, Path::new("/m")).unwrap();
        assert_eq!(tree_hash(&Disk, scratch.path()).unwrap(), hash);
        // This value is in lock files, so it can never change.
        assert_eq!(hash, "sha256:4c5fd75247012862e92ffbd1e2f864276012e65b0557bd18826f13a35cb2ba5b");
    }

    #[test]
    fn every_change_of_content_changes_the_hash() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let mut seen = Vec::new();
        let mut look = |what: &str| {
            let hash = tree_hash(&Disk, scratch.path()).unwrap();
            assert!(!seen.contains(&hash), "{what}");
            seen.push(hash);
        };
        look("nothing");
        std::fs::write(at("a"), "bc").unwrap();
        look("a file");
        std::fs::write(at("a"), "bd").unwrap();
        look("its content");
        std::fs::rename(at("a"), at("ab")).unwrap();
        look("its name");
        std::fs::set_permissions(at("ab"), PermissionsExt::from_mode(0o755)).unwrap();
        look("its mode");
        symlink("ab", at("link")).unwrap();
        look("a link");
        std::fs::remove_file(at("link")).unwrap();
        symlink("a", at("link")).unwrap();
        look("what it points at");
        std::fs::remove_file(at("link")).unwrap();
        std::fs::write(at("link"), "a").unwrap();
        look("a file instead of a link");
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert!(tree_hash(&Disk, scratch.path()).unwrap_err().to_string().contains("socket is neither"));
    }
}
