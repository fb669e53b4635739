//! The files of a program, for resources.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use mgmt_lang::module::{Disk, FileKind, Files};
use mgmt_lang::{Deploy, Part};
use mgmt_resource::{ProgramFile, ProgramFileKind, ProgramFiles};

/// What belongs to a program, as it is on this disk now.
pub(crate) struct Deployed(pub(crate) Deploy);

impl ProgramFiles for Deployed {
    fn list(&self) -> io::Result<Vec<ProgramFile>> {
        let mut found = BTreeMap::new();
        for part in self.0.parts() {
            match part {
                Part::Text(seen, _) => add(&mut found, seen, ProgramFileKind::File { executable: false }),
                Part::File(place) => self.add_file(&mut found, place)?,
                Part::Directory(place) if Disk.is_directory(place) => self.add_tree(&mut found, place)?,
                Part::Directory(_) => {}
            }
        }
        Ok(found.into_iter().map(|(path, kind)| ProgramFile { path, kind }).collect())
    }

    fn read(&self, path: &Path, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let seen = Path::new("/").join(path);
        for part in self.0.parts() {
            if let Part::Text(at, content) = part
                && *at == seen
            {
                return take(content);
            }
        }
        Disk.for_each_piece(&self.0.place(&seen)?, take)
    }

    fn places(&self) -> Vec<PathBuf> {
        let place = |part: &Part| match part {
            Part::File(place) | Part::Directory(place) => Some(place.clone()),
            Part::Text(..) => None,
        };
        self.0.parts().iter().filter_map(place).collect()
    }
}

type Found = BTreeMap<PathBuf, ProgramFileKind>;

/// Adds a file and the directories above it.
fn add(found: &mut Found, seen: &Path, kind: ProgramFileKind) {
    let inside = seen.strip_prefix("/").unwrap_or(seen);
    for directory in inside.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        found.insert(directory.to_owned(), ProgramFileKind::Directory);
    }
    if !inside.as_os_str().is_empty() {
        found.insert(inside.to_owned(), kind);
    }
}

impl Deployed {
    /// A text may be a link, and is read through it.
    fn add_file(&self, found: &mut Found, place: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let Some(seen) = self.0.seen(place) else { return Ok(()) };
        let metadata = std::fs::metadata(place).map_err(|error| at(place, &error))?;
        add(found, &seen, ProgramFileKind::File { executable: metadata.permissions().mode() & 0o100 != 0 });
        Ok(())
    }

    fn add_tree(&self, found: &mut Found, root: &Path) -> io::Result<()> {
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            let Some(seen) = self.0.seen(&directory) else { continue };
            add(found, &seen, ProgramFileKind::Directory);
            for entry in Disk.entries(&directory).map_err(|error| at(&directory, &error))? {
                let kind = match entry.kind {
                    FileKind::File { executable, .. } => ProgramFileKind::File { executable },
                    FileKind::Link(target) => ProgramFileKind::Link(target),
                    FileKind::Directory => {
                        directories.push(directory.join(&entry.name));
                        continue;
                    }
                    FileKind::Other => {
                        let place = directory.join(&entry.name);
                        let message = format!("{} is no regular file, directory or link", place.display());
                        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
                    }
                };
                add(found, &seen.join(&entry.name), kind);
            }
        }
        Ok(())
    }
}

fn at(place: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", place.display()))
}
