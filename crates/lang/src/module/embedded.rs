//! Modules that come with the program, as texts inside of it.
//!
//! Their names look like those of the library: `import "embedded/systemd"`. Their files are read-only and are below a
//! directory of their own that no disk has; in messages it is `embeddedfs:///`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::files::{FileEntry, Files, Memory, Mistrusted};

/// A module that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct Embedded {
    /// What an import names it.
    pub name: &'static str,
    files: &'static [(&'static str, &'static str)],
}

macro_rules! embedded {
    ($($name:literal: $($file:literal),+;)*) => {
        &[$(Embedded {
            name: $name,
            files: &[$(($file, include_str!(concat!("../../modules/", $name, "/", $file)))),+],
        }),*]
    };
}

/// All modules that come with the program, by name. Those of the library are elsewhere; where both have one of the same
/// name, an import brings what is in either.
pub static EMBEDDED: &[Embedded] = embedded! {
    "embedded/apt": "metadata.yaml", "main.mcl", "files/deb822.tmpl", "files/pin.tmpl";
    "embedded/networkd": "metadata.yaml", "main.mcl", "files/network.tmpl";
    "embedded/service": "metadata.yaml", "main.mcl";
    "embedded/ssh": "metadata.yaml", "main.mcl";
    "embedded/systemd": "metadata.yaml", "main.mcl", "files/timer.tmpl", "files/unit.tmpl";
    "example": "metadata.yaml", "main.mcl";
};

impl Embedded {
    /// The module of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Embedded> {
        EMBEDDED.iter().find(|module| module.name == name)
    }

    /// Its files: the path of each within the module, and its text.
    #[must_use]
    pub fn files(&self) -> &'static [(&'static str, &'static str)] {
        self.files
    }

    /// Where its files seem to be.
    pub(super) fn base(&self) -> PathBuf {
        Path::new(ROOT).join(self.name)
    }
}

/// The directory that embedded files are in. It is no path of a disk that anybody would have, and reads as the start of
/// the address that is shown instead.
const ROOT: &str = "/embeddedfs:";

static FILES: LazyLock<Memory> = LazyLock::new(|| {
    let mut memory = Memory::default();
    for module in EMBEDDED {
        for (path, text) in module.files {
            memory.insert(module.base().join(path), *text);
        }
    }
    memory
});

/// How an embedded file is called in messages.
pub(super) fn shown(path: &Path) -> Option<String> {
    let inside = path.strip_prefix(ROOT).ok()?;
    Some(format!("embeddedfs:///{}", inside.display()))
}

/// Whether a file is inside of the binary: by its path, or by its name in messages. Such a file never changes.
#[must_use]
pub fn is_embedded(path: &Path) -> bool {
    path.starts_with(ROOT) || path.starts_with("embeddedfs:")
}

/// Files of a program together with the embedded ones.
#[derive(Clone, Copy)]
pub struct WithEmbedded<'f>(pub &'f dyn Files);

impl WithEmbedded<'_> {
    fn of(&self, path: &Path) -> &dyn Files {
        if path.starts_with(ROOT) { &*FILES } else { self.0 }
    }
}

impl Files for WithEmbedded<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.of(path).read(path)
    }

    fn for_each_piece(&self, path: &Path, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.of(path).for_each_piece(path, take)
    }

    fn is_file(&self, path: &Path) -> bool {
        self.of(path).is_file(path)
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.of(path).is_directory(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.of(path).canonical(path)
    }

    fn entries(&self, directory: &Path) -> io::Result<Vec<FileEntry>> {
        self.of(directory).entries(directory)
    }

    fn current_directory(&self) -> PathBuf {
        self.0.current_directory()
    }

    fn shows_root(&self) -> bool {
        self.0.shows_root()
    }

    fn standard_input(&self) -> io::Result<Vec<u8>> {
        self.0.standard_input()
    }

    fn mistrusted(&self, file: &Path, program: &Path) -> Option<Mistrusted> {
        self.of(file).mistrusted(file, program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::{Disk, Metadata};

    /// All files below a directory, by their paths in it.
    fn below(directory: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![directory.to_owned()];
        while let Some(next) = open.pop() {
            for entry in std::fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => open.push(path),
                    false => found.push(path.strip_prefix(directory).unwrap().to_owned()),
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let listed = EMBEDDED.iter().flat_map(|module| {
            module.files.iter().map(|(path, _)| Path::new(module.name).join(path)).collect::<Vec<_>>()
        });
        let mut listed: Vec<_> = listed.collect();
        listed.sort();
        assert_eq!(listed, below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("modules")));
    }

    #[test]
    fn every_module_has_metadata_that_says_nothing_wrong() {
        for module in EMBEDDED {
            let (_, text) = module.files.iter().find(|(path, _)| *path == "metadata.yaml").unwrap();
            let metadata = Metadata::parse(text).unwrap();
            assert!(metadata.warnings.is_empty(), "{}", module.name);
            assert!(module.files.iter().any(|(path, _)| *path == metadata.main), "{}", module.name);
        }
    }

    #[test]
    fn every_text_is_in_canonical_form() {
        for module in EMBEDDED {
            for (path, text) in module.files.iter().filter(|(path, _)| path.ends_with(".mcl")) {
                let formatted = mgmt_syntax::format(text);
                assert_eq!(formatted.as_deref().ok(), Some(*text), "{}/{path}", module.name);
            }
        }
    }

    #[test]
    fn embedded_files_stand_beside_those_of_the_disk() {
        let files = WithEmbedded(&Disk);
        let base = Path::new("/embeddedfs:/embedded/apt");
        assert!(files.is_directory(base) && files.is_file(&base.join("main.mcl")));
        assert!(files.is_directory(Path::new("/")) && !files.is_file(&base.join("no.mcl")));
        assert!(files.read(&base.join("files/pin.tmpl")).unwrap().starts_with(b"{{"));
        let names: Vec<_> = files.entries(base).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["files", "main.mcl", "metadata.yaml"]);
        assert!(is_embedded(base) && is_embedded(Path::new("embeddedfs:///embedded/apt/main.mcl")));
        assert!(!is_embedded(Path::new("/etc/embeddedfs:")));
    }
}
