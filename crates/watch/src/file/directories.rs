//! The watched directories, as they lie on the disk.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use mgmt_sys::unresponsive::unresponsive_mount;
use rustc_hash::FxHashMap;
use rustix::fs::inotify::{self, WatchFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::slab::{Numbers, Slab};

/// A component of a path.
pub(super) type Name = Arc<[u8]>;

/// Every directory that has a kernel watch, and who needs it.
///
/// Directories know their place (parent and name) as of the last time it was looked up, and parents know their
/// children the same way. These links save look-ups; they are dropped as soon as an event names them, so they
/// are never older than the events still unread.
pub(super) struct Directories {
    inotify: Arc<OwnedFd>,
    table: Slab<Directory>,
    by_watch: FxHashMap<i32, u32>,
    root: Option<u32>,
    /// Candidates for removal. They keep their watch until [`Directories::sweep`], so that a directory which is
    /// let go and taken up again while events are handled stays watched all the time.
    unused: Vec<u32>,
}

#[derive(Default)]
pub(super) struct Directory {
    /// The kernel's number; gone once the kernel dropped the watch.
    watch: Option<i32>,
    /// What the kernel was asked for. It only ever grows.
    interest: Interest,
    /// Where it was found. The root has none, nor has a directory that was moved away.
    place: Option<(u32, Name)>,
    entries: FxHashMap<Name, Entry>,
    /// What is known of the directories in it, as of the last event that was read.
    below: Below,
    /// Routes that end here: their last names are entries of this directory.
    pub(super) ends: Numbers,
    /// Subscriptions that want to hear of every entry of this directory.
    pub(super) contents: Numbers,
    /// How many routes step through, routes end here, and subscriptions listen.
    uses: u32,
}

/// Whether a directory holds others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Below {
    /// Not asked yet.
    #[default]
    Unasked,
    /// When it was watched already there was none, and no event has told of one since.
    NoDirectories,
    /// It may.
    Unknown,
}

#[derive(Default)]
pub(super) struct Entry {
    child: Option<u32>,
    /// Routes for which this entry is a step on the way.
    pub(super) routes: Numbers,
}

impl Directory {
    /// The routes that step through this directory.
    pub(super) fn steps(&self) -> impl Iterator<Item = u32> {
        self.entries.values().flat_map(|entry| entry.routes.as_slice().iter().copied())
    }
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.child.is_none() && self.routes.is_empty()
    }
}

/// Why a path got no watch as a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unwatchable {
    /// Nothing is there.
    Missing,
    /// Something else is there, possibly a link.
    NotDirectory,
    /// The kernel has no more watches to give.
    Limit,
    /// It may be there, but we cannot watch it.
    Denied,
}

/// How much of what happens in a directory matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Interest {
    /// Which entries there are. Enough for a step on the way, and it keeps every line written to every log
    /// in a directory that only lies on the way from waking us up.
    #[default]
    Names,
    /// Also what happens to them.
    Everything,
}

const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW)
    .union(WatchFlags::EXCL_UNLINK)
    .union(WatchFlags::MASK_ADD);

const EVERYTHING: WatchFlags = NAMES.union(WatchFlags::MODIFY).union(WatchFlags::ATTRIB);

impl Directories {
    pub(super) fn new(inotify: Arc<OwnedFd>) -> Directories {
        Directories {
            inotify,
            table: Slab::new(),
            by_watch: FxHashMap::default(),
            root: None,
            unused: Vec::new(),
        }
    }

    pub(super) fn get(&self, directory: u32) -> Option<&Directory> {
        self.table.get(directory)
    }

    pub(super) fn entry(&self, directory: u32, name: &[u8]) -> Option<&Entry> {
        self.table.get(directory)?.entries.get(name)
    }

    pub(super) fn by_watch(&self, watch: i32) -> Option<u32> {
        self.by_watch.get(&watch).copied()
    }

    pub(super) fn watches(&self) -> usize {
        self.by_watch.len()
    }

    /// The root directory, watched.
    pub(super) fn root(&mut self) -> Result<u32, Unwatchable> {
        if let Some(root) = self.root {
            return Ok(root);
        }
        let root = self.watch(b"/", Interest::Names)?;
        self.root = Some(root);
        Ok(root)
    }

    /// The root directory, if it is watched already.
    pub(super) fn known_root(&self) -> Option<u32> {
        self.root
    }

    /// The directory that `name` is in `parent`, watched. `path` leads to it.
    pub(super) fn child(
        &mut self,
        parent: u32,
        name: &[u8],
        path: &[u8],
        interest: Interest,
    ) -> Result<u32, Unwatchable> {
        if let Some(child) = self.known_child(parent, name)
            && self.table.get(child).is_some_and(|child| child.interest >= interest)
        {
            return Ok(child);
        }
        let child = self.watch(path, interest)?;
        self.link(parent, name, child);
        Ok(child)
    }

    /// Whether nothing in a watched directory is a directory. Asked once, for all its entries together: most of
    /// what is watched are plain files, many of them side by side, and asking for each would take a call each.
    pub(super) fn has_only_files(&mut self, directory: u32, path: &[u8]) -> bool {
        let Some(known) = self.table.get_mut(directory) else { return false };
        if known.below == Below::Unasked {
            known.below = if holds_no_directory(path) { Below::NoDirectories } else { Below::Unknown };
        }
        known.below == Below::NoDirectories
    }

    /// The way to a directory changed, so what was asked may have been asked of another.
    pub(super) fn ask_again(&mut self, directory: u32) {
        if let Some(known) = self.table.get_mut(directory) {
            known.below = Below::Unasked;
        }
    }

    /// A directory appeared in another, or may have.
    pub(super) fn may_hold_directories(&mut self, directory: u32) {
        if let Some(known) = self.table.get_mut(directory) {
            known.below = Below::Unknown;
        }
    }

    /// Makes a directory that is watched already be watched for everything. `path` leads to it.
    ///
    /// Gives another one if another one is there by now.
    pub(super) fn deepen(&mut self, directory: u32, path: &[u8]) -> Result<u32, Unwatchable> {
        match self.table.get(directory) {
            Some(known) if known.interest == Interest::Everything => Ok(directory),
            _ => self.watch(path, Interest::Everything),
        }
    }

    /// The directory that `name` is in `parent`, as far as is known without asking the kernel.
    pub(super) fn known_child(&self, parent: u32, name: &[u8]) -> Option<u32> {
        let child = self.entry(parent, name)?.child?;
        let place = self.table.get(child)?.place.as_ref()?;
        (place.0 == parent && &*place.1 == name).then_some(child)
    }

    /// The way to a directory from the root, if its place is known.
    pub(super) fn path(&self, directory: u32) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        let mut at = directory;
        while Some(at) != self.root {
            let (parent, name) = self.table.get(at)?.place.as_ref()?;
            names.push(name);
            at = *parent;
            // Places form a tree as long as the disk does; do not hang if it ever looks otherwise.
            if names.len() > 4096 {
                return None;
            }
        }
        let mut path = Vec::new();
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Some(path)
    }

    /// `name` in `parent` is no longer what it was. Gives the directory that it was.
    pub(super) fn displace(&mut self, parent: u32, name: &[u8]) -> Option<u32> {
        let known = self.known_child(parent, name);
        let entries = &mut self.table.get_mut(parent)?.entries;
        let entry = entries.get_mut(name)?;
        entry.child = None;
        if entry.is_empty() {
            entries.remove(name);
        }
        let child = known?;
        self.table.get_mut(child)?.place = None;
        Some(child)
    }

    /// The kernel dropped the watch.
    pub(super) fn lost(&mut self, directory: u32) {
        let Some(lost) = self.table.get_mut(directory) else { return };
        if let Some(watch) = lost.watch.take() {
            self.by_watch.remove(&watch);
        }
        if self.root == Some(directory) {
            self.root = None;
        }
        self.unlink(directory);
        self.unused.push(directory);
    }

    /// Forgets every place, so that everything is looked up again.
    pub(super) fn distrust(&mut self) {
        for id in self.table.keys() {
            let Some(directory) = self.table.get_mut(id) else { continue };
            directory.place = None;
            directory.below = Below::Unknown;
            directory.entries.retain(|_, entry| {
                entry.child = None;
                !entry.is_empty()
            });
        }
    }

    pub(super) fn add_step(&mut self, directory: u32, name: &Name, route: u32) {
        let Some(directory) = self.table.get_mut(directory) else { return };
        if directory.entries.entry(Arc::clone(name)).or_default().routes.insert(route) {
            directory.uses += 1;
        }
    }

    pub(super) fn remove_step(&mut self, id: u32, name: &[u8], route: u32) {
        let Some(directory) = self.table.get_mut(id) else { return };
        let Some(entry) = directory.entries.get_mut(name) else { return };
        if entry.routes.remove(route) {
            directory.uses -= 1;
            if entry.is_empty() {
                directory.entries.remove(name);
            }
            self.unused.push(id);
        }
    }

    pub(super) fn add_end(&mut self, directory: u32, route: u32) {
        self.change(directory, |directory| i32::from(directory.ends.insert(route)));
    }

    pub(super) fn remove_end(&mut self, directory: u32, route: u32) {
        self.change(directory, |directory| -i32::from(directory.ends.remove(route)));
    }

    pub(super) fn add_listener(&mut self, directory: u32, subscription: u32) {
        self.change(directory, |directory| i32::from(directory.contents.insert(subscription)));
    }

    pub(super) fn remove_listener(&mut self, directory: u32, subscription: u32) {
        self.change(directory, |directory| -i32::from(directory.contents.remove(subscription)));
    }

    fn change(&mut self, id: u32, apply: impl FnOnce(&mut Directory) -> i32) {
        let Some(directory) = self.table.get_mut(id) else { return };
        let difference = apply(directory);
        directory.uses = directory.uses.saturating_add_signed(difference);
        if directory.uses == 0 {
            self.unused.push(id);
        }
    }

    /// The directories directly below, as far as they are known.
    pub(super) fn known_children(&self, directory: u32) -> Vec<u32> {
        let Some(parent) = self.table.get(directory) else { return Vec::new() };
        parent.entries.keys().filter_map(|name| self.known_child(directory, name)).collect()
    }

    /// Gives back the watches that nobody needs.
    pub(super) fn sweep(&mut self) {
        while let Some(id) = self.unused.pop() {
            if self.table.get(id).is_none_or(|directory| directory.uses > 0) {
                continue;
            }
            self.unlink(id);
            if self.root == Some(id) {
                self.root = None;
            }
            let Some(directory) = self.table.remove(id) else { continue };
            if let Some(watch) = directory.watch {
                self.by_watch.remove(&watch);
                // Fails when the directory is gone already, and its watch with it.
                let _ = inotify::remove_watch(&*self.inotify, watch);
            }
            for entry in directory.entries.into_values() {
                let Some(child) = entry.child.and_then(|child| self.table.get_mut(child)) else { continue };
                if child.place.as_ref().is_some_and(|place| place.0 == id) {
                    child.place = None;
                }
            }
        }
    }

    fn watch(&mut self, path: &[u8], interest: Interest) -> Result<u32, Unwatchable> {
        let mask = match interest {
            Interest::Names => NAMES,
            Interest::Everything => EVERYTHING,
        };
        // It would block everybody who waits for the hub. The path is scanned until the server answers.
        if unresponsive_mount(path).is_some() {
            return Err(Unwatchable::Denied);
        }
        let watch = inotify::add_watch(&*self.inotify, path, mask).map_err(|errno| match errno {
            // Nothing can exist under a name that is too long.
            Errno::NOENT | Errno::NAMETOOLONG => Unwatchable::Missing,
            Errno::NOTDIR => Unwatchable::NotDirectory,
            Errno::NOSPC | Errno::NOMEM => Unwatchable::Limit,
            _ => Unwatchable::Denied,
        })?;
        if let Some(&known) = self.by_watch.get(&watch) {
            if let Some(directory) = self.table.get_mut(known) {
                directory.interest = directory.interest.max(interest);
            }
            return Ok(known);
        }
        let id = self.table.insert(Directory { watch: Some(watch), interest, ..Directory::default() });
        self.by_watch.insert(watch, id);
        self.unused.push(id);
        Ok(id)
    }

    /// Remembers that `child` is `name` in `parent`.
    fn link(&mut self, parent: u32, name: &[u8], child: u32) {
        if self.root == Some(child) {
            return;
        }
        self.unlink(child);
        let Some(directory) = self.table.get_mut(parent) else { return };
        let name = match directory.entries.get_key_value(name) {
            Some((name, _)) => Arc::clone(name),
            None => Name::from(name),
        };
        directory.entries.entry(Arc::clone(&name)).or_default().child = Some(child);
        if let Some(directory) = self.table.get_mut(child) {
            directory.place = Some((parent, name));
        }
    }

    /// Forgets the place of a directory.
    fn unlink(&mut self, child: u32) {
        let Some((parent, name)) = self.table.get_mut(child).and_then(|directory| directory.place.take())
        else {
            return;
        };
        let Some(directory) = self.table.get_mut(parent) else { return };
        if let Some(entry) = directory.entries.get_mut(&name)
            && entry.child == Some(child)
        {
            entry.child = None;
            if entry.is_empty() {
                directory.entries.remove(&name);
            }
        }
    }

    pub(super) fn check_invariants(&self) {
        for (&watch, &id) in &self.by_watch {
            assert_eq!(self.table.get(id).and_then(|directory| directory.watch), Some(watch));
        }
        for (id, directory) in self.table.iter() {
            let steps: usize = directory.entries.values().map(|entry| entry.routes.len()).sum();
            let uses = steps + directory.ends.len() + directory.contents.len();
            assert_eq!(directory.uses as usize, uses, "uses of directory {id}");
            assert!(uses > 0, "directory {id} is kept for nobody");
            if !(directory.ends.is_empty() && directory.contents.is_empty()) {
                assert_eq!(directory.interest, Interest::Everything, "interest in directory {id}");
            }
            if let Some((parent, name)) = &directory.place {
                assert_eq!(
                    self.entry(*parent, name).and_then(|entry| entry.child),
                    Some(id),
                    "place of {id}"
                );
            }
        }
    }
}

/// Whether a directory has no directory in it: each would have a link to it by the name `..`. Only asked of file systems
/// that are known to count them.
fn holds_no_directory(path: &[u8]) -> bool {
    const COUNTING: [u64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];
    if unresponsive_mount(path).is_some() {
        return false;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
    let counts = rustix::fs::fstatfs(&directory)
        .is_ok_and(|system| COUNTING.into_iter().any(|kind| u64::try_from(system.f_type) == Ok(kind)));
    counts && rustix::fs::fstat(&directory).is_ok_and(|stat| stat.st_nlink == 2)
}
