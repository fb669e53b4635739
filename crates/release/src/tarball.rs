//! Tar archives of a tree: as a release by itself, and as the inside of a package.

use flate2::Compression;
use tar::{Builder, EntryType, Header};

use crate::{Release, ReleaseError, Result, Tree, gzip};

/// A compressed archive. All paths are below the directory `below`, to be left out with `tar --strip-components=1`.
pub fn write(tree: &Tree, release: &Release, below: &str, level: Compression) -> Result<Vec<u8>> {
    let mut archive = Archive::new(release);
    archive.directory(&format!("{below}/"))?;
    for directory in tree.directories() {
        archive.directory(&format!("{below}/{directory}/"))?;
    }
    for (path, file) in tree.files() {
        archive.file(&format!("{below}/{path}"), &file.content, file.executable)?;
    }
    gzip(&archive.finish()?, level)
}

/// An archive under way.
pub(crate) struct Archive {
    builder: Builder<Vec<u8>>,
    epoch: u64,
}

impl Archive {
    pub(crate) fn new(release: &Release) -> Archive {
        Archive { builder: Builder::new(Vec::new()), epoch: release.epoch }
    }

    /// A directory; its path ends with a slash.
    pub(crate) fn directory(&mut self, path: &str) -> Result<()> {
        self.append(path, EntryType::Directory, 0o755, &[])
    }

    pub(crate) fn file(&mut self, path: &str, content: &[u8], executable: bool) -> Result<()> {
        self.append(path, EntryType::Regular, if executable { 0o755 } else { 0o644 }, content)
    }

    fn append(&mut self, path: &str, kind: EntryType, mode: u32, content: &[u8]) -> Result<()> {
        let mut header = Header::new_gnu();
        // As bytes, because `./` in front is wanted in packages.
        let place = header.as_old_mut().name.get_mut(..path.len());
        place
            .ok_or_else(|| ReleaseError::new(format!("{path}: too long for an archive")))?
            .copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        header.set_mtime(self.epoch);
        header.set_uid(0);
        header.set_gid(0);
        header.set_username("root").and_then(|()| header.set_groupname("root")).map_err(ReleaseError::new)?;
        header.set_cksum();
        self.builder.append(&header, content).map_err(ReleaseError::new)
    }

    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        self.builder.into_inner().map_err(ReleaseError::new)
    }
}
