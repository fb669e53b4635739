//! Directories with what is in them: copying a tree, and purging what nobody accounts for.
//!
//! One walk does both, level by level and by handles. On each level everything from the source is put in place before
//! anything surplus goes.

use std::collections::HashSet;

use mgmt_resource::Checked;
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::error::Escaped;
use mgmt_sys::mode::{Mode, default_directory_mode};
use mgmt_sys::path::MAX_COMPONENTS;
use mgmt_sys::replace::{
    Durability, is_fresh_temporary_of_another_program, is_temporary, is_temporary_of_another_program,
};
use mgmt_sys::stat::{Kind, Stat};
use mgmt_sys::tree::{Entry, Limits, list, remove_tree, same_mount};

use super::attributes::{Wanted, settle};
use super::check::Run;
use super::content::{self, Place};
use super::effects;
use super::link;
use super::memory::Verified;
use super::trouble::{Result, Trouble, unless_gone};
use crate::support::claimed_below::{ClaimedBelow, beginnings, begins_like};
use crate::support::foresee;

/// Brings what is in the directory `here` to what `source` and `purge` say.
pub(super) fn fill(
    run: &Run<'_, '_>,
    here: &Parent,
    source: Option<&ManagedPath>,
    wanted: &Wanted<'_>,
    verified: &mut Verified,
) -> Result<Checked> {
    let source = match source {
        None => None,
        Some(path) => match Parent::open_itself(path) {
            Ok(source) => Some(source),
            Err(error) if error.is_not_found() && !run.cx.apply && run.is_promised(path) => {
                return Ok(Checked::Changed);
            }
            Err(error) => {
                run.source_stays_missing(&error);
                return Err(error.into());
            }
        },
    };
    let before = verified.turn_page();
    let mut walk = Walk::new(run, wanted, here.stat()?, &before, verified);
    walk.enter(source, Here::Borrowed(here), run.wish.path.without_slash().to_vec(), run.wish.file.purge)?;
    walk.go()
}

/// Only looking: says what a copy of `source` would make where nothing is, in a directory that is on the same file system as `above`.
pub(super) fn describe(
    run: &Run<'_, '_>,
    source: &ManagedPath,
    wanted: &Wanted<'_>,
    verified: &mut Verified,
    above: Option<&Parent>,
) -> Result<()> {
    let source = match Parent::open_itself(source) {
        Ok(source) => source,
        // Another resource may be about to make it.
        Err(error) if error.is_not_found() && (run.is_promised(source) || run.may_come(&error)) => {
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let before = HashSet::new();
    let mut walk = Walk::new(run, wanted, source.stat()?, &before, verified);
    walk.describe_copy(source, run.wish.path.without_slash(), above)
}

struct Walk<'a, 'c> {
    run: &'a Run<'a, 'c>,
    /// For files.
    wanted: Wanted<'static>,
    /// For directories.
    directory: Wanted<'static>,
    /// For links, which have no mode.
    link: Wanted<'static>,
    managed: Managed,
    /// The directory that all this is about.
    root: Stat,
    before: &'a HashSet<u128>,
    verified: &'a mut Verified,
    durability: Durability,
    seen: u64,
    levels: Vec<Level<'a>>,
    changed: Checked,
}

impl<'a, 'c> Walk<'a, 'c> {
    fn new(
        run: &'a Run<'a, 'c>,
        wanted: &Wanted<'_>,
        root: Stat,
        before: &'a HashSet<u128>,
        verified: &'a mut Verified,
    ) -> Walk<'a, 'c> {
        let attributes = |mode| match run.wish.file.spread {
            true => wanted.spread(mode),
            false => wanted.below(),
        };
        Walk {
            run,
            wanted: attributes(run.wish.mode),
            directory: attributes(run.wish.mode.map(Mode::with_search)),
            link: wanted.below(),
            managed: Managed::below(run),
            root,
            before,
            verified,
            // Entries reach the disk when their directory is done, all at once.
            durability: match run.cx.host.durability {
                Durability::Full => Durability::Data,
                other => other,
            },
            seen: 0,
            levels: Vec::new(),
            changed: Checked::Right,
        }
    }
}

/// One directory and what is left to do in it.
struct Level<'a> {
    source: Option<Parent>,
    here: Here<'a>,
    path: Vec<u8>,
    purge: bool,
    /// Something here was changed.
    changed: bool,
    tasks: std::vec::IntoIter<Task>,
}

enum Here<'a> {
    Borrowed(&'a Parent),
    Owned(Parent),
}

/// One name in a directory.
enum Task {
    /// The source has it.
    Copy(Entry),
    /// The source does not have it.
    Surplus(Entry),
}

/// What an entry asks the walk to do next.
enum Next {
    Stay(Checked),
    Enter { source: Option<Parent>, here: Parent, purge: bool, changed: Checked },
}

impl Here<'_> {
    fn get(&self) -> &Parent {
        match self {
            Here::Borrowed(parent) => parent,
            Here::Owned(parent) => parent,
        }
    }
}

impl<'a> Walk<'a, '_> {
    fn go(mut self) -> Result<Checked> {
        loop {
            // Taken out so that the level and the rest of the walk can be used side by side.
            let Some(mut level) = self.levels.pop() else { return Ok(self.changed) };
            let Some(task) = level.tasks.next() else {
                if level.changed {
                    self.run.store(level.here.get())?;
                }
                continue;
            };
            self.run.cx.checkpoint()?;
            let (name, next) = match task {
                Task::Copy(entry) => {
                    let next = self.copy(&level, &entry)?;
                    (entry.name, next)
                }
                Task::Surplus(entry) => {
                    let next = self.surplus(&level, &entry)?;
                    (entry.name, next)
                }
            };
            match next {
                Next::Stay(checked) => {
                    self.note(&mut level, checked);
                    self.levels.push(level);
                }
                Next::Enter { source, here, purge, changed } => {
                    self.note(&mut level, changed);
                    let path = join(&level.path, &name);
                    self.levels.push(level);
                    self.enter(source, Here::Owned(here), path, purge)?;
                }
            }
        }
    }

    fn note(&mut self, level: &mut Level<'_>, checked: Checked) {
        self.changed = self.changed.and(checked);
        level.changed |= checked == Checked::Changed && self.run.cx.apply;
    }

    /// Lists a directory on both sides.
    fn enter(&mut self, source: Option<Parent>, here: Here<'a>, path: Vec<u8>, purge: bool) -> Result<()> {
        if self.levels.len() >= MAX_COMPONENTS {
            return Err(Trouble::new(format_args!(
                "{} is more than {MAX_COMPONENTS} directories below {}",
                Escaped(&path),
                self.run.wish.path
            )));
        }
        let wanted = match &source {
            None => Vec::new(),
            Some(source) => {
                if source.stat()?.same_file(&self.root) {
                    return Err(Trouble::new(format_args!(
                        "{} lies in its own source {}",
                        self.run.wish.path,
                        Escaped(source.path_bytes())
                    )));
                }
                self.entries(source)?
            }
        };
        let mut tasks: Vec<Task> = Vec::with_capacity(wanted.len());
        let mut surplus = Vec::new();
        if purge || self.run.wish.file.spread {
            for entry in self.list(here.get())? {
                let is_wanted =
                    |name: &[u8]| wanted.binary_search_by(|wanted| (*wanted.name).cmp(name)).is_ok();
                let is_copied = is_wanted(&entry.name) || self.backed_up(&entry.name).is_some_and(is_wanted);
                if !is_copied
                    && !self.is_our_temporary(here.get(), &entry)?
                    && !self.is_fresh_temporary(here.get(), &entry)?
                {
                    surplus.push(Task::Surplus(entry));
                }
            }
        }
        tasks.extend(wanted.into_iter().map(Task::Copy));
        tasks.extend(surplus);
        self.levels.push(Level { source, here, path, purge, changed: false, tasks: tasks.into_iter() });
        Ok(())
    }

    /// The name of the file that an entry is the old content of.
    fn backed_up<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        let suffix = self.run.wish.file.backup.as_bytes();
        name.strip_suffix(suffix).filter(|name| !suffix.is_empty() && !name.is_empty())
    }

    /// Whether this is a file that a replacement is being written to, or was when it was killed.
    fn is_our_temporary(&self, here: &Parent, entry: &Entry) -> Result<bool> {
        if !is_temporary(&entry.name) || entry.kind != Kind::File {
            return Ok(false);
        }
        if self.run.cx.apply {
            content::sweep(here);
        }
        let us = rustix::process::geteuid().as_raw();
        Ok(here.lstat_entry(&entry.name)?.is_none_or(|stat| stat.uid == us))
    }

    /// Whether another program is just writing this file, to rename it over another one. It is surplus when it is old.
    fn is_fresh_temporary(&self, here: &Parent, entry: &Entry) -> Result<bool> {
        if !is_temporary_of_another_program(&entry.name) {
            return Ok(false);
        }
        let stat = here.lstat_entry(&entry.name)?;
        Ok(is_fresh_temporary_of_another_program(&entry.name, stat.as_ref()))
    }

    /// All entries, sorted by name, counted over the whole walk.
    fn list(&mut self, directory: &Parent) -> Result<Vec<Entry>> {
        let most = Limits::default().entries;
        let limits = Limits { entries: most.saturating_sub(self.seen), ..Limits::default() };
        let entries = list(directory, &limits)?;
        self.seen += entries.len() as u64;
        Ok(entries)
    }

    fn copy(&mut self, level: &Level<'_>, entry: &Entry) -> Result<Next> {
        let Some(source) = &level.source else { return Ok(Next::Stay(Checked::Right)) };
        let path = join(&level.path, &entry.name);
        if self.managed.keeps(&path) {
            return Ok(Next::Stay(Checked::Right));
        }
        let place =
            Place { parent: level.here.get(), name: &entry.name, path: &path, durability: self.durability };
        let managed = self.managed.owns(&path);
        match entry.kind {
            Kind::Directory => self.copy_directory(level, source, &place, managed),
            // Another resource says what is here.
            _ if managed => Ok(Next::Stay(Checked::Right)),
            Kind::File => {
                let file = unless_gone(source.open_regular(&entry.name))?;
                let put = content::put_copy(self.run, &place, file, &self.wanted, self.before, self.verified);
                put.map(Next::Stay)
            }
            Kind::Symlink => {
                let text = unless_gone(source.read_link(&entry.name))?;
                link::put(self.run, &place, &text, &self.link).map(Next::Stay)
            }
            _ => Err(not_copied(source, entry)),
        }
    }

    fn copy_directory(
        &mut self,
        level: &Level<'_>,
        source: &Parent,
        place: &Place<'_>,
        managed: bool,
    ) -> Result<Next> {
        let (parent, name) = (place.parent, place.name);
        let found = parent.lstat_entry(name)?;
        let there = found.is_some_and(|stat| stat.kind == Kind::Directory);
        if let Some(stat) = found
            && !there
            && !self.run.forces()
        {
            return Err(self.run.stays_in_the_way(place.path, stat.kind, Kind::Directory));
        }
        let from = unless_gone(source.open_dir(name))?;
        if !there {
            foresee::replaceable(self.run.cx, parent, name, 0, found.map(|_| 0))?;
            if let Some(stat) = found {
                effects::removed(self.run, place.path, stat.kind);
            }
            effects::made(self.run, place.path, Kind::Directory, &self.wanted, &self.wanted.over(0));
            if !self.run.cx.apply {
                self.describe_copy(from, place.path, Some(parent))?;
                return Ok(Next::Stay(Checked::Changed));
            }
        }
        let (here, changed) = if there {
            let here = unless_gone(parent.open_dir(name))?;
            let settled = match managed {
                true => Checked::Right,
                false => settle(self.run, &here, &here.stat()?, &self.directory)?,
            };
            (here, settled)
        } else {
            if found.is_some() {
                unless_gone(parent.unlink(name))?;
            }
            // Where groups are handed down, they are handed down here too.
            let like = if self.run.wish.file.sourcemode {
                from.stat()?.mode & 0o1777
            } else {
                default_directory_mode()
            };
            let mode = like | (parent.stat()?.mode & 0o2000);
            let mut attributes = self.directory.over(mode);
            attributes.mode = attributes.mode.or(Some(mode));
            let here = parent.make_directory(name, &attributes)?;
            (here, Checked::Changed)
        };
        // Copying into another mount, or into what another resource accounts for, is fine; removing from it is not.
        let purge = level.purge && !managed && same_mount(parent, &here)?;
        Ok(Next::Enter { source: Some(from), here, purge, changed })
    }

    /// Only looking: says what a copy into a directory that is not there would make, in the order in which it would.
    fn describe_copy(&mut self, source: Parent, path: &[u8], above: Option<&Parent>) -> Result<()> {
        let entries = self.entries(&source)?;
        let mut levels = vec![(source, path.to_vec(), entries.into_iter())];
        while let Some((source, path, entries)) = levels.last_mut() {
            self.run.cx.checkpoint()?;
            let Some(entry) = entries.next() else {
                levels.pop();
                continue;
            };
            let path = join(path, &entry.name);
            if self.managed.keeps(&path) {
                continue;
            }
            let managed = self.managed.owns(&path);
            let room = |length| match above {
                Some(above) => foresee::room(self.run.cx, above, &path, length, None),
                None => Ok(()),
            };
            match entry.kind {
                Kind::Directory => {
                    room(0)?;
                    let from = unless_gone(source.open_dir(&entry.name))?;
                    effects::made(self.run, &path, Kind::Directory, &self.directory, &self.directory.over(0));
                    let entries = self.entries(&from)?;
                    if levels.len() < MAX_COMPONENTS {
                        levels.push((from, path, entries.into_iter()));
                    }
                }
                _ if managed => {}
                Kind::File => {
                    let file = unless_gone(source.open_regular(&entry.name))?;
                    room(above.map_or(0, |above| above.length_of_copy(&file)))?;
                    let content = content::Content::of_file(file);
                    let attributes = content::new_attributes(self.run, &content, &self.wanted, None);
                    effects::content(self.run, &path, None, &content, (&self.wanted, &attributes), None);
                }
                Kind::Symlink => {
                    room(0)?;
                    let text = unless_gone(source.read_link(&entry.name))?;
                    effects::linked(self.run, &path, &text, None, &self.link);
                }
                _ => return Err(not_copied(source, &entry)),
            }
        }
        Ok(())
    }

    /// What of a source is copied.
    fn entries(&mut self, source: &Parent) -> Result<Vec<Entry>> {
        let mut entries = self.list(source)?;
        // Replacements that are under way there.
        entries.retain(|entry| !is_temporary(&entry.name));
        Ok(entries)
    }

    fn surplus(&mut self, level: &Level<'_>, entry: &Entry) -> Result<Next> {
        let path = join(&level.path, &entry.name);
        let parent = level.here.get();
        // What a resource of a newer graph has just made is not surplus.
        if level.purge && self.run.cx.claims_version() != self.managed.version {
            self.managed = Managed::below(self.run);
        }
        // A link may be the way to something that is managed, and what is claimed below a file is a part of it.
        if self.managed.owns(&path) || (entry.kind != Kind::Directory && self.managed.is_above(&path)) {
            return Ok(Next::Stay(Checked::Right));
        }
        if !level.purge {
            return self.dress(parent, entry);
        }
        if entry.kind == Kind::Directory && self.run.wish.file.keepdirectories {
            let here = unless_gone(parent.open_dir(&entry.name))?;
            let purge = same_mount(parent, &here)?;
            return Ok(Next::Enter { source: None, here, purge, changed: Checked::Right });
        }
        if entry.kind == Kind::Directory && self.managed.is_above(&path) {
            // Something below is managed: the way there stays, the rest goes.
            let here = unless_gone(parent.open_dir(&entry.name))?;
            if !same_mount(parent, &here)? {
                return Ok(Next::Stay(Checked::Right));
            }
            return Ok(Next::Enter { source: None, here, purge: true, changed: Checked::Right });
        }
        if !self.managed.is_complete {
            return Err(Trouble::new(format_args!(
                "not purging {}: part of the program has no value yet, and may declare it",
                Escaped(&path)
            )));
        }
        foresee::tree_removable(self.run.cx, parent, &entry.name)?;
        effects::removed(self.run, &path, entry.kind);
        if self.run.cx.apply {
            remove_tree(parent, &entry.name, &Limits::default())?;
            self.run.cx.info(format_args!("purged {}", Escaped(&path)));
        }
        Ok(Next::Stay(Checked::Changed))
    }
}

impl Walk<'_, '_> {
    /// Gives something that is just there the attributes that are everything's.
    fn dress(&self, parent: &Parent, entry: &Entry) -> Result<Next> {
        let wanted = match entry.kind {
            Kind::Directory => {
                let here = unless_gone(parent.open_dir(&entry.name))?;
                let changed = settle(self.run, &here, &here.stat()?, &self.directory)?;
                if !same_mount(parent, &here)? {
                    return Ok(Next::Stay(changed));
                }
                return Ok(Next::Enter { source: None, here, purge: false, changed });
            }
            Kind::File => &self.wanted,
            _ => &self.link,
        };
        let handle = unless_gone(parent.open_entry(&entry.name))?;
        let stat = *handle.stat();
        match stat.kind == entry.kind {
            true => settle(self.run, &handle, &stat, wanted).map(Next::Stay),
            false => Err(Trouble::Raced),
        }
    }
}

/// Paths below the directory that other resources make, edit or read, and those that are to stay. Sorted, without trailing slashes.
struct Managed {
    paths: Vec<Vec<u8>>,
    /// Those that are to stay as they are, with all below them.
    kept: Vec<Vec<u8>>,
    /// Paths that stand for all that begin like them, without the `*` at their ends.
    beginnings: Vec<Vec<u8>>,
    /// No part of the program may declare others.
    is_complete: bool,
    /// Of the graph that all this is from.
    version: u64,
}

impl Managed {
    fn below(run: &Run<'_, '_>) -> Managed {
        // Asked first, so that no change in between gets lost.
        let version = run.cx.claims_version();
        let mut paths = Vec::new();
        let mut below = ClaimedBelow::new(&run.wish.path);
        for path in &run.wish.file.keep {
            below.places(path, |place| paths.push(place));
        }
        let mut kept = paths.clone();
        kept.sort_unstable();
        let is_complete = run.cx.claimed_paths(|path| below.places(path, |place| paths.push(place)));
        paths.sort_unstable();
        paths.dedup();
        let beginnings = beginnings(&paths);
        Managed { paths, kept, beginnings, is_complete, version }
    }

    /// Whether a path is to stay as it is.
    fn keeps(&self, path: &[u8]) -> bool {
        self.kept.binary_search_by(|kept| kept.as_slice().cmp(path)).is_ok()
    }

    fn owns(&self, path: &[u8]) -> bool {
        self.paths.binary_search_by(|managed| managed.as_slice().cmp(path)).is_ok()
            || begins_like(path, &self.beginnings)
    }

    /// Whether a managed path lies below this one.
    fn is_above(&self, path: &[u8]) -> bool {
        let inside = join(path, b"");
        let first = self.paths.partition_point(|managed| managed.as_slice() < inside.as_slice());
        self.paths.get(first).is_some_and(|managed| managed.starts_with(&inside))
    }
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    [directory, b"/", name].concat()
}

/// The error for an entry of a source that is not of a kind that is copied.
fn not_copied(source: &Parent, entry: &Entry) -> Trouble {
    Trouble::new(format_args!(
        "cannot copy {}: it is {}, and only files, directories and links are copied",
        Escaped(&join(source.path_bytes(), &entry.name)),
        entry.kind
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_managed_path_is_found_by_itself_and_by_the_directories_above_it() {
        let paths = vec![b"/d/a".to_vec(), b"/d/sub-x".to_vec(), b"/d/sub/deep/b".to_vec()];
        let managed = Managed {
            paths,
            kept: vec![b"/d/a".to_vec()],
            beginnings: vec![b"/d/key".to_vec()],
            is_complete: true,
            version: 0,
        };
        assert!(managed.keeps(b"/d/a") && !managed.keeps(b"/d/sub/deep/b"));
        assert!(managed.owns(b"/d/key.crt") && managed.owns(b"/d/key"));
        assert!(!managed.owns(b"/d/ke") && !managed.owns(b"/d/keys/x"));
        assert!(managed.owns(b"/d/a") && !managed.owns(b"/d/su") && !managed.owns(b"/d/sub"));
        for (path, above) in [
            ("/d", true),
            ("/d/sub", true),
            ("/d/sub/deep", true),
            ("/d/sub/deep/b", false),
            ("/d/su", false),
            ("/d/sub-x", false),
            ("/d/z", false),
        ] {
            assert_eq!(managed.is_above(path.as_bytes()), above, "{path}");
        }
    }
}
