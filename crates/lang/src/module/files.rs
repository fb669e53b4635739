//! Where the files of a program come from.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// No program is nearly as long, and what is longer was hardly meant.
pub const MAX_SOURCE: u64 = 64 << 20;

/// Where files come from: the disk, or memory.
pub trait Files: Sync {
    /// The content of a regular file of at most [`MAX_SOURCE`] bytes.
    ///
    /// # Errors
    ///
    /// It is not there, is something else, is too large, or cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.for_each_piece(path, &mut |piece| {
            content.extend_from_slice(piece);
            if content.len() as u64 > MAX_SOURCE { Err(too_large()) } else { Ok(()) }
        })?;
        Ok(content)
    }

    /// The content of a regular file of any size, piece by piece.
    ///
    /// # Errors
    ///
    /// It is not there, is something else, cannot be read, or `take` does not want to go on.
    fn for_each_piece(&self, path: &Path, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>;

    /// Whether there is a regular file.
    fn is_file(&self, path: &Path) -> bool;

    /// Whether there is a directory.
    fn is_directory(&self, path: &Path) -> bool;

    /// The one path of a file that has several.
    ///
    /// # Errors
    ///
    /// There is no such file.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// What is in a directory, by name. Links are not followed.
    ///
    /// # Errors
    ///
    /// There is no such directory, or it cannot be read.
    fn entries(&self, directory: &Path) -> io::Result<Vec<FileEntry>>;

    /// Where relative paths start.
    fn current_directory(&self) -> PathBuf;

    /// Whether the root directory is that of the host, so that a path below it is shown with its leading slash. It is not for
    /// files that exist in memory or in a deploy only.
    fn shows_root(&self) -> bool {
        false
    }

    /// All of standard input.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is larger than [`MAX_SOURCE`].
    fn standard_input(&self) -> io::Result<Vec<u8>>;

    /// Who else may have decided what is in a file that belongs to a program in the directory `program`. Nobody, unless the
    /// files are those of a machine with other users.
    fn mistrusted(&self, file: &Path, program: &Path) -> Option<Mistrusted> {
        let _ = (file, program);
        None
    }
}

/// Why a file is not to be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistrusted {
    /// The file, or the directory above it, that is the reason.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
    /// The command that mends it, for who believes what is there.
    pub remedy: String,
}

/// Something in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: FileKind,
}

/// What can be in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File {
        /// Its owner may execute it.
        executable: bool,
        /// Its length in bytes.
        length: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link with what it points at.
    Link(PathBuf),
    /// A device, a pipe, a socket.
    Other,
}

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Disk {
    /// Opens a regular file and nothing else, without ever waiting for somebody at the other end.
    fn open(path: &Path) -> io::Result<File> {
        let refuse = |found: &std::fs::Metadata| match () {
            () if found.is_file() => Ok(()),
            () if found.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
            () => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        };
        // Opening a device can have effects, so it is looked at before, and again for who exchanged it meanwhile.
        refuse(&std::fs::metadata(path)?)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        refuse(&file.metadata()?)?;
        Ok(file)
    }
}

impl Files for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = Disk::open(path)?;
        let length = file.metadata()?.len().min(MAX_SOURCE);
        bounded(file, length as usize)
    }

    fn for_each_piece(&self, path: &Path, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut file = Disk::open(path)?;
        let mut piece = vec![0; 64 << 10];
        loop {
            match file.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(length) => take(&piece[..length])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }

    fn entries(&self, directory: &Path) -> io::Result<Vec<FileEntry>> {
        use std::os::unix::fs::PermissionsExt;
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let found = entry.metadata()?;
            let kind = match () {
                () if found.is_dir() => FileKind::Directory,
                () if found.is_symlink() => FileKind::Link(std::fs::read_link(entry.path())?),
                () if found.is_file() => FileKind::File {
                    executable: found.permissions().mode() & 0o100 != 0,
                    length: found.len(),
                },
                () => FileKind::Other,
            };
            entries.push(FileEntry { name: entry.file_name(), kind });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn current_directory(&self) -> PathBuf {
        std::env::current_dir().unwrap_or_else(|_| "/".into())
    }

    fn shows_root(&self) -> bool {
        true
    }

    fn standard_input(&self) -> io::Result<Vec<u8>> {
        bounded(io::stdin().lock(), 0)
    }

    /// Only root minds: what it runs is done to the whole machine. Whoever owns the program decides that anyway, and may own
    /// what belongs to it.
    fn mistrusted(&self, file: &Path, program: &Path) -> Option<Mistrusted> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let owner = std::fs::metadata(program).map_or(0, |found| found.uid());
        // Where links lead is what counts, and so is every directory on the way there.
        let real = file.canonicalize().ok()?;
        real.ancestors().find_map(|path| mistrusted(path, &path.metadata().ok()?, owner))
    }
}

fn mistrusted(path: &Path, found: &std::fs::Metadata, owner: u32) -> Option<Mistrusted> {
    let at = path.display();
    // In a sticky directory nobody can exchange what belongs to others.
    let is_open = found.mode() & 0o002 != 0 && !(found.is_dir() && found.mode() & 0o1000 != 0);
    let (reason, remedy) = match () {
        () if found.uid() != 0 && found.uid() != owner => {
            let reason = format!("it belongs to user {}, who so decides what is done as root", found.uid());
            (reason, format!("chown root {at}"))
        }
        () if is_open => {
            let reason = "anyone on this host can write to it, and so decide what is done as root";
            (reason.to_owned(), format!("chmod o-w {at}"))
        }
        () => return None,
    };
    Some(Mistrusted { path: path.to_owned(), reason, remedy })
}

/// Files in memory, all below `/`.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    files: BTreeMap<PathBuf, Vec<u8>>,
    standard_input: Vec<u8>,
}

impl Memory {
    /// Adds a file, or replaces it.
    pub fn insert(&mut self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) {
        self.files.insert(below_root(path.as_ref()), content.into());
    }

    /// Sets what standard input gives.
    pub fn set_standard_input(&mut self, content: impl Into<Vec<u8>>) {
        self.standard_input = content.into();
    }

    fn get(&self, path: &Path) -> io::Result<&[u8]> {
        let path = below_root(path);
        match self.files.get(&path) {
            Some(content) => Ok(content),
            None if self.is_directory(&path) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl<P: AsRef<Path>, C: Into<Vec<u8>>, const N: usize> From<[(P, C); N]> for Memory {
    fn from(files: [(P, C); N]) -> Memory {
        let mut memory = Memory::default();
        for (path, content) in files {
            memory.insert(path, content);
        }
        memory
    }
}

impl Files for Memory {
    fn for_each_piece(&self, path: &Path, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        take(self.get(path)?)
    }

    fn is_file(&self, path: &Path) -> bool {
        self.files.contains_key(&below_root(path))
    }

    fn is_directory(&self, path: &Path) -> bool {
        let path = below_root(path);
        let mut behind = self
            .files
            .range::<Path, _>((std::ops::Bound::Excluded(path.as_path()), std::ops::Bound::Unbounded));
        path == Path::new("/") || behind.next().is_some_and(|(file, _)| file.starts_with(&path))
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.get(path)?;
        Ok(below_root(path))
    }

    fn entries(&self, directory: &Path) -> io::Result<Vec<FileEntry>> {
        let directory = below_root(directory);
        if !self.is_directory(&directory) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut entries: BTreeMap<OsString, FileKind> = BTreeMap::new();
        for (file, content) in &self.files {
            let Ok(rest) = file.strip_prefix(&directory) else { continue };
            let mut parts = rest.components();
            let Some(Component::Normal(name)) = parts.next() else { continue };
            let kind = match parts.next() {
                Some(_) => FileKind::Directory,
                None => FileKind::File { executable: false, length: content.len() as u64 },
            };
            entries.insert(name.to_owned(), kind);
        }
        Ok(entries.into_iter().map(|(name, kind)| FileEntry { name, kind }).collect())
    }

    fn current_directory(&self) -> PathBuf {
        "/".into()
    }

    fn standard_input(&self) -> io::Result<Vec<u8>> {
        Ok(self.standard_input.clone())
    }
}

fn below_root(path: &Path) -> PathBuf {
    super::normal(&Path::new("/").join(path))
}

fn bounded(reader: impl Read, likely_length: usize) -> io::Result<Vec<u8>> {
    // One more, to see the end without asking for more memory.
    let mut content = Vec::with_capacity(likely_length + 1);
    reader.take(MAX_SOURCE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_SOURCE { Err(too_large()) } else { Ok(content) }
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {} MiB", MAX_SOURCE >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_reads_regular_files_and_nothing_else() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("a.mcl");
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink("a.mcl", scratch.path().join("link.mcl")).unwrap();
        assert_eq!(Disk.read(&file).unwrap(), b"x");
        assert_eq!(Disk.read(&scratch.path().join("link.mcl")).unwrap(), b"x");
        assert_eq!(Disk.read(&scratch.path().join("b")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(Disk.read(scratch.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        let pipe = scratch.path().join("pipe.mcl");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(Disk.read(&pipe).unwrap_err().to_string(), "it is not a regular file");
        assert_eq!(Disk.read(Path::new("/dev/zero")).unwrap_err().to_string(), "it is not a regular file");
        let huge = scratch.path().join("huge.mcl");
        File::create(&huge).unwrap().set_len(MAX_SOURCE + 1).unwrap();
        assert_eq!(Disk.read(&huge).unwrap_err().to_string(), "it is larger than 64 MiB");
    }

    #[test]
    fn memory_has_directories_where_files_are() {
        let files = Memory::from([("/a/b.mcl", "x"), ("/a/c/d", "yy"), ("/ab", "")]);
        assert_eq!(files.read(Path::new("a/./b.mcl")).unwrap(), b"x");
        assert!(files.is_directory(Path::new("/a/c")) && files.is_directory(Path::new("/")));
        assert!(!files.is_directory(Path::new("/a/b.mcl")) && !files.is_directory(Path::new("/x")));
        assert_eq!(files.canonical(Path::new("/a/c/../b.mcl")).unwrap(), Path::new("/a/b.mcl"));
        let entries = files.entries(Path::new("/a")).unwrap();
        assert_eq!(
            entries,
            [
                FileEntry { name: "b.mcl".into(), kind: FileKind::File { executable: false, length: 1 } },
                FileEntry { name: "c".into(), kind: FileKind::Directory },
            ]
        );
        assert_eq!(files.read(Path::new("/a")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }
}
