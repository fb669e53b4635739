//! Atomic installation: puts downloaded modules in their place, in one step.
//!
//! A module is fetched into a hidden directory beside the others, looked at, stripped of what git keeps for
//! itself, and then renamed. Whoever is killed in between leaves nothing that looks like a module, and what is left
//! in the hidden directory goes away with the next one who works there.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use mgmt_lang::module::{Disk, FileKind, Files as _, MODULE_RECORD, tree_hash, walk_module};

use crate::git::GitError;

/// The hidden directory.
const STAGING: &str = ".mgmt-get";

/// The right to change a directory of modules. Nobody else has it meanwhile.
pub(super) struct Workshop {
    modules: PathBuf,
    staging: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
    count: usize,
}

/// What is known about a module that was downloaded into its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) url: String,
    pub(super) commit: String,
    pub(super) hash: String,
}

impl Workshop {
    /// Waits until nobody else works there; `waiting` is called if that is so.
    pub(super) fn open(modules: &Path, waiting: &mut dyn FnMut()) -> io::Result<Workshop> {
        fs::create_dir_all(modules)?;
        let found = fs::metadata(modules)?;
        if rustix::process::geteuid().is_root() && found.mode() & 0o002 != 0 {
            let message = "anyone on this host can write to it, and so decide what is done as root";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        let staging = modules.join(STAGING);
        loop {
            match fs::DirBuilder::new().mode(0o700).create(&staging) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result?,
            }
            let file = staging.join("lock");
            let lock = match File::options().create(true).truncate(false).write(true).open(&file) {
                // Whoever worked there has just left, and has taken the directory away.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                result => result?,
            };
            if let Err(fs::TryLockError::WouldBlock) = lock.try_lock() {
                waiting();
                lock.lock()?;
            }
            let is_same = |found: fs::Metadata| lock.metadata().is_ok_and(|ours| ours.ino() == found.ino());
            if fs::symlink_metadata(&file).is_ok_and(is_same) {
                let workshop = Workshop { modules: modules.to_owned(), staging, _lock: lock, count: 0 };
                workshop.sweep()?;
                return Ok(workshop);
            }
        }
    }

    /// Removes what somebody who was killed has left.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.staging)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else if entry.file_name() != "lock" {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// A path for a new module that is not there yet.
    pub(super) fn bench(&mut self) -> PathBuf {
        self.count += 1;
        self.staging.join(self.count.to_string())
    }

    /// Whether a module could be at its place.
    pub(super) fn check_place(&self, key: &Path) -> Result<(), GitError> {
        let place = self.modules.join(key);
        let around = key.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty());
        for outer in around.map(|part| self.modules.join(part)) {
            if outer.join("metadata.yaml").exists() || outer.join(MODULE_RECORD).exists() {
                let message = format!("it would lie inside another module, `{}`", outer.display());
                return Err(GitError::new(message).hint("keep one of them in another directory of modules"));
            }
        }
        let is_in_the_way = place.symlink_metadata().is_ok_and(|found| !found.is_dir())
            || (fs::read_dir(&place).is_ok_and(|mut entries| entries.next().is_some())
                && !place.join("metadata.yaml").exists());
        if is_in_the_way {
            let message = format!("`{}` is in the way, and is not a module", place.display());
            return Err(
                GitError::new(message).hint("remove it, or keep one of them in another directory of modules")
            );
        }
        Ok(())
    }

    /// Puts a module in its place, and takes away the one that is there.
    pub(super) fn install(&self, bench: &Path, key: &Path, record: &Record) -> io::Result<()> {
        let Record { url, commit, hash } = record;
        let text = format!("{:#}\n", json!({ "url": url, "commit": commit, "hash": hash }));
        let file = bench.join(MODULE_RECORD);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::write(file, text)?,
        }
        let place = self.modules.join(key);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        if place.symlink_metadata().is_err() {
            return fs::rename(bench, place);
        }
        match renameat_with(CWD, bench, CWD, &place, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            // A file system that cannot exchange leaves a moment without the module.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                let old = self.staging.join("old");
                fs::rename(&place, &old)?;
                fs::rename(bench, &place)?;
                return fs::remove_dir_all(old);
            }
            Err(error) => return Err(error.into()),
        }
        fs::remove_dir_all(bench)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next one.
        if self.sweep().is_ok() {
            let _ = fs::remove_file(self.staging.join("lock"));
            let _ = fs::remove_dir(&self.staging);
        }
    }
}

/// Makes plain files of a checkout: takes away what git keeps, and refuses what would reach out of the module. Gives the
/// hash of what is left.
pub(super) fn strip(top: &Path, most: u64) -> Result<String, GitError> {
    let failed = |error: io::Error| GitError::new(format!("cannot look at what was downloaded: {error}"));
    remove_git(top).map_err(failed)?;
    let mut size = 0;
    let mut wrong = None;
    walk_module(&Disk, top, &mut |path, kind| {
        match kind {
            FileKind::File { length, .. } => size += length,
            FileKind::Link(target) if leads_out(path, target) => {
                wrong.get_or_insert_with(|| {
                    format!("the link `{}` in it points out of it, at `{}`", path.display(), target.display())
                });
            }
            _ => {}
        }
        Ok(())
    })
    .map_err(failed)?;
    if let Some(message) = wrong {
        return Err(GitError::new(message));
    }
    if size > most {
        let message = format!("it is too large: its files have more than {} MiB", most >> 20);
        return Err(GitError::new(message).hint("`--max-size` allows more"));
    }
    if !Disk.is_file(&top.join("metadata.yaml")) {
        return Err(GitError::new("it is not a module: it has no `metadata.yaml` at its top")
            .hint("a module from elsewhere needs the file, though it may be empty"));
    }
    tree_hash(&Disk, top).map_err(failed)
}

/// Also those of submodules, which are files.
fn remove_git(top: &Path) -> io::Result<()> {
    let mut pending = vec![top.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in Disk.entries(&directory)? {
            let path = directory.join(&entry.name);
            match entry.kind {
                FileKind::Directory if entry.name == ".git" => fs::remove_dir_all(path)?,
                _ if entry.name == ".git" => fs::remove_file(path)?,
                FileKind::Directory => pending.push(path),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether a link can reach out of its module, alone or through other links that cannot. Steps up are allowed at the
/// start only, where the directories are real; behind a name, that could be a link, they may mean anything.
fn leads_out(link: &Path, target: &Path) -> bool {
    let mut depth = link.components().count().saturating_sub(1);
    let mut named = false;
    for part in target.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(_) => named = true,
            Component::ParentDir if !named && depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    false
}

/// What is known about a module that was downloaded. Nothing of one that was not.
pub(super) fn record(place: &Path) -> Option<Record> {
    let content = Disk.read(&place.join(MODULE_RECORD)).ok()?;
    let value: Value = serde_json::from_slice(&content).ok()?;
    let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
    Some(Record { url: text("url")?, commit: text("commit")?, hash: text("hash")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_inside() {
        for (link, target, out) in [
            ("a", "b", false),
            ("a", "b/c", false),
            ("a", "./b", false),
            ("a", "..", true),
            ("a", "../b", true),
            ("a", "/etc/passwd", true),
            ("d/a", "../b", false),
            ("d/a", "../../b", true),
            ("d/e/a", "../../b/c", false),
            // `d/x` may be a link to the top, and then this is outside.
            ("y", "d/x/../..", true),
            ("d/y", "x/../z", true),
        ] {
            assert_eq!(leads_out(Path::new(link), Path::new(target)), out, "{link} -> {target}");
        }
    }

    #[test]
    fn what_a_killed_one_has_left_goes_away() {
        let scratch = tempfile::tempdir().unwrap();
        let left = scratch.path().join(STAGING).join("1/.git");
        fs::create_dir_all(&left).unwrap();
        let mut workshop = Workshop::open(scratch.path(), &mut || panic!("nobody is there")).unwrap();
        assert!(!left.exists());
        let bench = workshop.bench();
        fs::create_dir(&bench).unwrap();
        fs::write(bench.join("metadata.yaml"), "").unwrap();
        let record = Record { url: "u".into(), commit: "c".into(), hash: "h".into() };
        workshop.install(&bench, Path::new("h/a"), &record).unwrap();
        assert_eq!(super::record(&scratch.path().join("h/a")), Some(record));
        assert!(workshop.check_place(Path::new("h/a")).is_ok());
        assert!(
            workshop.check_place(Path::new("h/a/b")).unwrap_err().message.contains("inside another module")
        );
        assert!(workshop.check_place(Path::new("h")).unwrap_err().message.contains("in the way"));
        drop(workshop);
        let names: Vec<_> =
            Disk.entries(scratch.path()).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["h"]);
    }

    #[test]
    fn one_works_at_a_time() {
        let scratch = tempfile::tempdir().unwrap();
        let first = Workshop::open(scratch.path(), &mut || {}).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let path = scratch.path();
            scope.spawn(move || {
                let second = Workshop::open(path, &mut || sender.send(()).unwrap()).unwrap();
                assert!(second.staging.join("lock").exists());
            });
            receiver.recv().unwrap();
            drop(first);
        });
    }
}
