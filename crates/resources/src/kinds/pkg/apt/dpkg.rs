//! The database of `dpkg`, read as it is on disk.
//!
//! `status` has a paragraph for each package. While `dpkg` works, what it has changed since is in numbered files in
//! `updates`, a later one before an earlier one. What a package has brought is in `info`, one path to a line.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use mgmt_resource::{Error, Result, ResultExt};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::file::OpenedFile;
use mgmt_sys::stat::{Stat, Timestamp};
use mgmt_sys::tree::{Limits, list};
use mgmt_value::Str;

use crate::kinds::pkg::backend::Installed;

/// The largest file of the database that is read.
const LARGEST: u64 = 512 << 20;
/// Two changes within this time may look like one, so what was read so soon after a change is read again.
const SETTLED: Duration = Duration::from_millis(100);

/// The database in one directory, and what was last read of it.
pub(super) struct Dpkg {
    directory: &'static str,
    read: Mutex<Option<(Stamp, Arc<Index>)>>,
    lists: Mutex<Option<HashMap<Str, List>>>,
}

/// What was read of one list, and what the file was then.
type List = (Stat, Arc<[Str]>);

/// Everything that changes when a package does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stamp {
    status: Version,
    updates: Version,
}

/// Enough of a file to see that it was changed.
type Version = Option<(u64, u64, u64, Timestamp, Timestamp)>;

impl Dpkg {
    pub(super) const fn new(directory: &'static str) -> Dpkg {
        Dpkg { directory, read: Mutex::new(None), lists: Mutex::new(None) }
    }

    /// All packages. Read anew only if something has changed.
    pub(super) fn index(&self) -> Result<(Stamp, Arc<Index>)> {
        // Held while reading, so that those who come at the same time wait for one reading instead of doing it all.
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.directory()?;
        let stamp = Stamp::of(&directory)?;
        if let Some((seen, index)) = &*read
            && *seen == stamp
        {
            return Ok((stamp, Arc::clone(index)));
        }
        let index = Arc::new(Index::read(&directory).context("cannot read the package database")?);
        // A file may have changed between the look at it and the reading; then the next look tells.
        *read = stamp.is_settled().then(|| (stamp.clone(), Arc::clone(&index)));
        Ok((stamp, index))
    }

    /// Whether `dpkg` was stopped in the middle of its work, provided that it is not at work now.
    pub(super) fn is_interrupted(&self) -> Result<bool> {
        let directory = self.directory()?;
        Ok(!updates(&directory).context("cannot read the package database")?.is_empty())
    }

    /// What an installed package has brought. Empty if that is not known.
    pub(super) fn files(&self, name: &Str) -> Arc<[Str]> {
        self.list(name).ok().flatten().unwrap_or_default()
    }

    fn list(&self, name: &Str) -> Result<Option<Arc<[Str]>>> {
        let (_, index) = self.index()?;
        let Some(file) = index.find(name).map(Package::list_name) else { return Ok(None) };
        let path = [self.directory.as_bytes(), b"/info/", &file].concat();
        let path = ManagedPath::new(&path).map_err(Error::new)?;
        let file = OpenedFile::open_trusted(&path).map_err(Error::new)?;
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = lists.get_or_insert_default();
        if let Some((seen, paths)) = lists.get(name)
            && seen.same_version(file.stat())
        {
            return Ok(Some(Arc::clone(paths)));
        }
        let text = file.read(LARGEST).map_err(Error::new)?;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"/"));
        let paths: Arc<[Str]> = lines.map(Str::from).collect();
        lists.insert(name.clone(), (*file.stat(), Arc::clone(&paths)));
        Ok(Some(paths))
    }

    fn directory(&self) -> Result<Parent> {
        let path = ManagedPath::new([self.directory.as_bytes(), b"/"].concat()).map_err(Error::new)?;
        Parent::open_itself(&path).context("cannot read the package database")
    }
}

impl Stamp {
    fn of(directory: &Parent) -> Result<Stamp> {
        let look = |name: &[u8]| match directory.lstat_entry(name) {
            Ok(stat) => Ok(stat.map(|s| (s.device, s.inode, s.size, s.modified, s.changed))),
            Err(error) => Err(Error::new(error).context("cannot look at the package database")),
        };
        Ok(Stamp { status: look(b"status")?, updates: look(b"updates")? })
    }

    /// Whether all changes are so old that a later one will look different.
    fn is_settled(&self) -> bool {
        let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) else { return false };
        [self.status, self.updates].into_iter().flatten().all(|(.., changed)| {
            let seconds = u64::try_from(changed.seconds).unwrap_or(0);
            now.checked_sub(Duration::new(seconds, changed.nanoseconds)).is_some_and(|age| age > SETTLED)
        })
    }
}

/// All packages by name.
#[derive(Debug, Default)]
pub(super) struct Index {
    packages: HashMap<Str, Vec<Package>>,
}

/// One package in one architecture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Package {
    name: Str,
    architecture: Str,
    /// Its list is named with the architecture.
    multi_arch_same: bool,
    /// Whether anything of it is there. Configuration files that were left do not count.
    present: bool,
    /// It is gone, and its configuration is still there.
    leftovers: bool,
    installed: Installed,
}

impl Index {
    fn read(directory: &Parent) -> mgmt_sys::Result<Index> {
        let mut index = Index::default();
        index.add(&directory.open_regular(b"status")?.read(LARGEST)?);
        let numbered = updates(directory)?;
        if !numbered.is_empty() {
            let updates = directory.open_dir(b"updates")?;
            for name in numbered {
                match updates.open_regular(&name) {
                    Ok(file) => index.add(&file.read(LARGEST)?),
                    // It has become part of `status`, which is news, so we are called again.
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(index)
    }

    /// What is installed of a package, which may be named with its architecture.
    pub(super) fn installed(&self, name: &[u8]) -> Option<Installed> {
        self.find(name).filter(|package| package.present).map(|package| package.installed.clone())
    }

    /// Whether it is gone and has left its configuration.
    pub(super) fn has_leftovers(&self, name: &[u8]) -> bool {
        self.find(name).is_some_and(|package| package.leftovers)
    }

    /// The architecture of the host.
    pub(super) fn native(&self) -> Option<&Str> {
        self.packages.get(&b"dpkg"[..])?.first().map(|dpkg| &dpkg.architecture)
    }

    fn find(&self, name: &[u8]) -> Option<&Package> {
        let colon = name.iter().position(|byte| *byte == b':');
        let (name, wanted) = match colon {
            Some(colon) => (&name[..colon], Some(&name[colon + 1..])),
            None => (name, self.native().map(Str::as_bytes)),
        };
        let fits = |package: &&Package| {
            let architecture = package.architecture.as_bytes();
            architecture == b"all" || wanted.is_none_or(|wanted| architecture == wanted)
        };
        let packages = self.packages.get(name)?;
        packages.iter().filter(fits).max_by_key(|package| package.present)
    }

    /// Takes paragraphs in. A later one is valid instead of an earlier one.
    fn add(&mut self, text: &[u8]) {
        let mut paragraph = Paragraph::default();
        for line in text.split(|byte| *byte == b'\n') {
            if line.is_empty() {
                self.put(std::mem::take(&mut paragraph));
            } else {
                paragraph.add(line);
            }
        }
        self.put(paragraph);
    }

    fn put(&mut self, paragraph: Paragraph<'_>) {
        let Some(package) = paragraph.package() else { return };
        let packages = self.packages.entry(package.name.clone()).or_default();
        match packages.iter_mut().find(|known| known.architecture == package.architecture) {
            Some(known) => *known = package,
            None => packages.push(package),
        }
    }
}

impl Package {
    fn list_name(&self) -> Vec<u8> {
        match self.multi_arch_same {
            true => [self.name.as_bytes(), b":", &self.architecture, b".list"].concat(),
            false => [self.name.as_bytes(), b".list"].concat(),
        }
    }
}

/// The fields of a paragraph that matter here.
#[derive(Default)]
struct Paragraph<'a> {
    name: &'a [u8],
    status: &'a [u8],
    version: &'a [u8],
    architecture: &'a [u8],
    section: &'a [u8],
    multi_arch: &'a [u8],
}

impl<'a> Paragraph<'a> {
    fn add(&mut self, line: &'a [u8]) {
        // The first letter tells most lines apart from those that matter.
        let field = match line.first() {
            Some(b'P') => (&b"Package:"[..], &mut self.name),
            Some(b'S') if line.starts_with(b"St") => (&b"Status:"[..], &mut self.status),
            Some(b'S') => (&b"Section:"[..], &mut self.section),
            Some(b'V') => (&b"Version:"[..], &mut self.version),
            Some(b'A') => (&b"Architecture:"[..], &mut self.architecture),
            Some(b'M') => (&b"Multi-Arch:"[..], &mut self.multi_arch),
            _ => return,
        };
        if let Some(value) = line.strip_prefix(field.0) {
            *field.1 = value.trim_ascii();
        }
    }

    fn package(&self) -> Option<Package> {
        if self.name.is_empty() {
            return None;
        }
        // What was asked for, whether it is broken, and how far it is.
        let mut words = self.status.split(|byte| *byte == b' ');
        let (want, flag, state) = (words.next()?, words.next()?, words.next()?);
        let complete = matches!(state, b"installed" | b"triggers-pending" | b"triggers-awaited");
        Some(Package {
            name: self.name.into(),
            architecture: self.architecture.into(),
            multi_arch_same: self.multi_arch == b"same",
            present: !matches!(state, b"not-installed" | b"config-files"),
            leftovers: state == b"config-files",
            installed: Installed {
                version: self.version.into(),
                complete: complete && flag == b"ok",
                held: want == b"hold",
                section: self.section.into(),
            },
        })
    }
}

/// The numbered files in `updates`, in order.
fn updates(directory: &Parent) -> mgmt_sys::Result<Vec<Box<[u8]>>> {
    let updates = match directory.open_dir(b"updates") {
        Ok(updates) => updates,
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names = list(&updates, &Limits::default())?.into_iter().map(|entry| entry.name);
    let mut names: Vec<Box<[u8]>> =
        names.filter(|name| name.iter().all(u8::is_ascii_digit)).map(|name| name.to_vec().into()).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "\
Package: dpkg
Status: install ok installed
Architecture: amd64
Version: 1.21.22
Section: admin

Package: demo
Status: hold ok installed
Architecture: all
Multi-Arch: foreign
Version: 2:1.0-1
Section: non-free/net
Description: something
 Version: 9
 .
 Package: wrong

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: half
Status: install ok half-configured
Architecture: amd64
Version: 1

Package: lib
Status: install ok installed
Architecture: i386
Multi-Arch: same
Version: 1

Package: lib
Status: install ok installed
Architecture: amd64
Multi-Arch: same
Version: 2
";

    fn database() -> (tempfile::TempDir, Dpkg) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("updates")).unwrap();
        std::fs::create_dir_all(directory.path().join("info")).unwrap();
        std::fs::write(directory.path().join("status"), STATUS).unwrap();
        let path: &'static str = directory.path().to_str().unwrap().to_owned().leak();
        (directory, Dpkg::new(path))
    }

    fn version(dpkg: &Dpkg, name: &str) -> Option<String> {
        let (_, index) = dpkg.index().unwrap();
        index.installed(name.as_bytes()).map(|found| found.version.to_text().into_owned())
    }

    #[test]
    fn packages_are_read_with_what_matters_of_them() {
        let (_directory, dpkg) = database();
        let (_, index) = dpkg.index().unwrap();
        let demo = index.installed(b"demo").unwrap();
        assert_eq!((demo.version, demo.section), ("2:1.0-1".into(), "non-free/net".into()));
        assert!(demo.held && demo.complete);
        assert_eq!(index.installed(b"gone"), None);
        assert_eq!(index.installed(b"wrong"), None);
        assert!(!index.installed(b"half").unwrap().complete);
        assert_eq!(index.native().unwrap(), &Str::from("amd64"));
    }

    #[test]
    fn a_name_without_an_architecture_is_that_of_the_host() {
        let (_directory, dpkg) = database();
        assert_eq!(version(&dpkg, "lib").as_deref(), Some("2"));
        assert_eq!(version(&dpkg, "lib:i386").as_deref(), Some("1"));
        assert_eq!(version(&dpkg, "lib:armhf"), None);
        assert_eq!(version(&dpkg, "demo:amd64").as_deref(), Some("2:1.0-1"));
    }

    #[test]
    fn updates_are_valid_instead_of_what_was_before() {
        let (directory, dpkg) = database();
        assert!(!dpkg.is_interrupted().unwrap());
        let update = |name: &str, version: &str| {
            let text = format!(
                "Package: half\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
            );
            std::fs::write(directory.path().join("updates").join(name), text).unwrap();
        };
        update("0001", "3");
        update("0000", "2");
        update("tmp.i", "7");
        assert_eq!(version(&dpkg, "half").as_deref(), Some("3"));
        assert!(dpkg.is_interrupted().unwrap());
    }

    #[test]
    fn it_is_read_again_when_it_has_changed_and_only_then() {
        let (directory, dpkg) = database();
        let status = directory.path().join("status");
        std::thread::sleep(2 * SETTLED);
        let (first, second) = (dpkg.index().unwrap().1, dpkg.index().unwrap().1);
        assert!(Arc::ptr_eq(&first, &second));
        for number in 0..50 {
            let new = directory.path().join("status-new");
            std::fs::write(&new, STATUS.replace("2:1.0-1", &format!("2:1.0-{}", number % 10))).unwrap();
            std::fs::rename(&new, &status).unwrap();
            assert_eq!(version(&dpkg, "demo"), Some(format!("2:1.0-{}", number % 10)));
        }
    }

    #[test]
    fn lists_of_files_are_found_with_and_without_architecture() {
        let (directory, dpkg) = database();
        let list =
            |name: &str, text: &str| std::fs::write(directory.path().join("info").join(name), text).unwrap();
        list("demo.list", "/.\n/usr\n/usr/bin\n/usr/bin/demo\n");
        list("lib:amd64.list", "/.\n/lib/a\n");
        list("lib:i386.list", "/.\n/lib/b\n");
        let last = |name: &str| dpkg.files(&name.into()).last().map(|path| path.to_text().into_owned());
        assert_eq!(dpkg.files(&"demo".into()).len(), 4);
        assert_eq!(last("demo").as_deref(), Some("/usr/bin/demo"));
        assert_eq!(last("lib").as_deref(), Some("/lib/a"));
        assert_eq!(last("lib:i386").as_deref(), Some("/lib/b"));
        assert_eq!(last("half"), None);
        assert_eq!(last("no-such-package"), None);
        std::fs::write(directory.path().join("new"), "/.\n/other\n").unwrap();
        std::fs::rename(directory.path().join("new"), directory.path().join("info/demo.list")).unwrap();
        assert_eq!(last("demo").as_deref(), Some("/other"));
    }

    #[test]
    fn a_missing_database_is_an_error_and_a_strange_one_is_not() {
        assert!(Dpkg::new("/no/such/database").index().is_err());
        let mut index = Index::default();
        for text in ["", "\n\n\n", "Package:", "Package: a\nStatus: x\n", "Status: a b c", "\0\u{1}:\n:\n"] {
            index.add(text.as_bytes());
        }
        assert!(index.packages.is_empty());
    }
}
