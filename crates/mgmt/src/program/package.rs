//! The files of a program, to be given to other hosts.

use std::ffi::OsStr;
use std::fs::File as Opened;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use mgmt_lang::Checked;
use mgmt_lang::module::{Entry, is_embedded};
use mgmt_store::{File, Tree};

use crate::failure::Failure;

/// Files, and which of them to begin with.
pub(crate) struct Package {
    pub(crate) files: Tree,
    /// A file or, if it is empty, all of them.
    pub(crate) entry: String,
}

/// Where modules are in a package that were elsewhere.
pub(crate) const MODULES: &str = "modules";

/// Where the program is in a package that has a manifest, too.
pub(crate) const LANG: &str = "lang";

/// Where the manifest is in a package that has a program, too.
pub(crate) const PUPPET: &str = "puppet";

/// Puppet's settings in a package.
pub(crate) const CONF: &str = ".mgmt-puppet.conf";

/// Settings of Puppet by name in a package.
pub(crate) const OPTIONS: &str = ".mgmt-puppet-options.json";

/// Whether what has no counterpart is only warned of.
pub(crate) const ALLOW: &str = ".mgmt-allow-unmatched";

/// What a program is called that had no file.
const MAIN: &str = "main.mcl";

/// The files beside a program that its functions may read.
const FILES: &str = "files";

/// The most that all files together may have.
const LARGEST: u64 = 1 << 30;

/// A file that is all there is.
pub(crate) fn single(name: &str, content: Vec<u8>) -> Result<Package, Failure> {
    let mut files = Tree::default();
    files.insert(name, File { executable: false, content }).map_err(Failure::usage)?;
    Ok(Package { files, entry: name.to_owned() })
}

/// All of a directory, which is where to begin, too.
pub(crate) fn directory(path: &Path) -> Result<Package, Failure> {
    let mut packing = Packing { files: Tree::default(), size: 0 };
    packing.directory(&canonical(path)?, "")?;
    Ok(Package { files: packing.files, entry: String::new() })
}

/// A program and a manifest in one. A manifest that is one file is all that its directory has, and means the same as that.
pub(crate) fn both(lang: Package, puppet: Package, allow_unmatched: bool) -> Result<Package, Failure> {
    let mut files = Tree::default();
    for (place, tree) in [(LANG, &lang.files), (PUPPET, &puppet.files)] {
        for (path, file) in tree.iter() {
            let path =
                if [CONF, OPTIONS].contains(&path) { path.to_owned() } else { format!("{place}/{path}") };
            files.insert(&path, file.clone()).map_err(Failure::usage)?;
        }
    }
    if allow_unmatched {
        let file = File { executable: false, content: Vec::new() };
        files.insert(ALLOW, file).map_err(Failure::usage)?;
    }
    let entry = match lang.entry.as_str() {
        "" => LANG.to_owned(),
        entry => format!("{LANG}/{entry}"),
    };
    Ok(Package { files, entry })
}

/// The files of a program: all of the directory of a module, or a file with what it imports and the `files` beside it.
pub(crate) fn package(
    entry: &Entry,
    checked: &Checked,
    module_path: Option<&Path>,
) -> Result<Package, Failure> {
    let mut packing = Packing { files: Tree::default(), size: 0 };
    let (root, begin) = match entry {
        Entry::StandardInput | Entry::Code(_) => {
            let text = checked.sources.iter().next().map(|(_, source)| source.text.clone());
            return single(MAIN, text.as_deref().unwrap_or_default().as_bytes().to_vec());
        }
        Entry::File(path) => {
            let name = path.file_name().unwrap_or(OsStr::new(MAIN));
            (parent(path), name.to_string_lossy().into_owned())
        }
        Entry::Directory(path) => (path.clone(), String::new()),
        Entry::Metadata(path) => (parent(path), String::new()),
    };
    let root = canonical(&root)?;
    match begin.is_empty() {
        true => packing.directory(&root, "")?,
        false => packing.optional(&root.join(FILES), FILES)?,
    }
    let modules = module_path.map(canonical).transpose()?;
    for (_, source) in checked.sources.iter() {
        let path = Path::new(&*source.name);
        if is_embedded(path) {
            continue;
        }
        let path = canonical(path)?;
        let place =
            match (path.strip_prefix(&root), modules.as_ref().map(|modules| path.strip_prefix(modules))) {
                (Ok(inside), _) => text(inside)?,
                (Err(_), Some(Ok(inside))) => format!("{MODULES}/{}", text(inside)?),
                (Err(_), _) => {
                    return Err(Failure::usage(format!(
                        "{} is outside of {}, so it cannot be deployed with it",
                        path.display(),
                        root.display()
                    ))
                    .hint(
                        "deploy the directory that holds both, or say where modules are with `--module-path`",
                    ));
                }
            };
        packing.file(&path, &place)?;
        // What functions of that module may read.
        let (beside, place) =
            (parent(&path), Path::new(&place).parent().map(Path::to_owned).unwrap_or_default());
        for name in [FILES, "metadata.yaml"] {
            packing.optional(&beside.join(name), &text(&place.join(name))?)?;
        }
    }
    Ok(Package { files: packing.files, entry: begin })
}

struct Packing {
    files: Tree,
    size: u64,
}

impl Packing {
    /// A file or directory, if it is there.
    fn optional(&mut self, path: &Path, place: &str) -> Result<(), Failure> {
        match path.metadata() {
            Ok(found) if found.is_dir() => self.directory(path, place),
            Ok(_) => self.file(path, place),
            Err(_) => Ok(()),
        }
    }

    /// A directory with all that is in it, but for the history of its versions.
    fn directory(&mut self, path: &Path, place: &str) -> Result<(), Failure> {
        let failed =
            |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
        let mut entries =
            std::fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries.iter().filter(|entry| entry.file_name() != ".git") {
            let name = entry.file_name();
            let inside = if place.is_empty() { PathBuf::from(name) } else { Path::new(place).join(name) };
            let (path, inside) = (entry.path(), text(&inside)?);
            match entry.file_type().map_err(failed)? {
                kind if kind.is_dir() => self.directory(&path, &inside)?,
                kind if kind.is_symlink() && path.is_dir() => {
                    return Err(Failure::usage(format!("{} is a link to a directory", path.display()))
                        .hint("only files and directories can be deployed"));
                }
                _ => self.file(&path, &inside)?,
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, place: &str) -> Result<(), Failure> {
        if self.files.get(place).is_some() {
            return Ok(());
        }
        let failed =
            |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
        let found = path.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(Failure::usage(format!("{} is neither a file nor a directory", path.display())));
        }
        let mut content = Vec::new();
        let left = LARGEST.saturating_sub(self.size);
        Opened::open(path).map_err(failed)?.take(left + 1).read_to_end(&mut content).map_err(failed)?;
        self.size += content.len() as u64;
        if self.size > LARGEST {
            return Err(Failure::usage("the files are larger than 1 GiB together"));
        }
        let executable = found.mode() & 0o111 != 0;
        self.files.insert(place, File { executable, content }).map_err(Failure::usage)
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn canonical(path: &Path) -> Result<PathBuf, Failure> {
    path.canonicalize().map_err(|error| Failure::usage(format!("cannot find {}: {error}", path.display())))
}

/// A path among the files.
fn text(path: &Path) -> Result<String, Failure> {
    let parts: Option<Vec<&str>> = path
        .components()
        .map(|part| if let Component::Normal(part) = part { part.to_str() } else { None })
        .collect();
    let wrong = || Failure::usage(format!("{} cannot be deployed: its name is not UTF-8", path.display()));
    Ok(parts.ok_or_else(wrong)?.join("/"))
}
