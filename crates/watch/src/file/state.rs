//! The hub's tables: subscriptions, the routes to them, and what to do about an event.

mod resolve;
mod target;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::inotify::ReadFlags;

use super::directories::{Directories, Interest, Name, Unwatchable};
use super::scan;
use super::slab::{Numbers, Slab};
use super::{Change, FileHubOptions, FileHubStats, Notice, Token};
use crate::limits;
use crate::path::WatchPath;

/// Everything the hub knows.
///
/// Events are taken one by one ([`State::event`]) and only mark what has to be looked at; then one
/// [`State::settle`] does the looking, so that a burst of events costs one look. What is to be reported is
/// collected until [`State::take_news`].
pub(super) struct State {
    options: FileHubOptions,
    directories: Directories,
    routes: Slab<Route>,
    by_path: FxHashMap<Arc<[u8]>, u32>,
    subscriptions: Slab<Subscription>,
    /// For subscriptions whose target is a directory: the directories they listen to.
    targets: FxHashMap<u32, FxHashSet<u32>>,
    /// Subscriptions without proper watches, and what their target looked like last.
    degraded: FxHashMap<u32, u64>,
    next_generation: u32,
    next_scan: Option<Instant>,
    work: Work,
    news: News,
    events: u64,
    deliveries: u64,
    overflows: u64,
}

/// What one subscriber asked for.
struct Subscription {
    token: Token,
    route: u32,
    generation: u32,
    /// The last component of the path; empty for the root.
    name: Name,
    recursive: bool,
}

/// The way to one directory that subscriptions name, and the subscriptions in it.
struct Route {
    path: Arc<[u8]>,
    leaves: FxHashMap<Name, Numbers>,
    /// Every entry that was looked up on the way, links included. A change of any of them changes the way.
    steps: Vec<(u32, Name)>,
    end: End,
}

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nowhere yet; the last step is what is missing.
    Missing,
    /// To this directory.
    At(u32),
    /// Somewhere we cannot watch.
    Blind,
}

/// What [`State::settle`] has to look at.
#[derive(Default)]
struct Work {
    /// Routes to find again. True: a step really changed, so their subscribers are told in any case.
    routes: FxHashMap<u32, bool>,
    /// Subscriptions whose target may have become, or ceased to be, a directory.
    targets: FxHashSet<u32>,
    /// Directories that appeared (as a name in a directory) below recursive subscriptions.
    grown: Vec<(u32, u32, Name)>,
}

struct News {
    tokens: FxHashMap<Token, Change>,
    notices: Vec<Notice>,
    limit_told: bool,
    /// The limit was reached since this was last cleared.
    limit_reached: bool,
    /// How many degraded subscriptions are worth the next notice.
    scanning_told: usize,
}

impl News {
    /// Two things that happened are more than one creation, whatever they were.
    fn add(&mut self, token: Token, change: Change) {
        self.tokens.entry(token).and_modify(|known| *known = Change::Any).or_insert(change);
    }
}

/// A path to look at.
pub(super) struct ScanTarget {
    pub(super) id: u64,
    pub(super) path: Vec<u8>,
    pub(super) recursive: bool,
}

/// Events by which an entry becomes something else.
const REPLACED: ReadFlags =
    ReadFlags::CREATE.union(ReadFlags::DELETE).union(ReadFlags::MOVED_FROM).union(ReadFlags::MOVED_TO);

/// Events by which an entry comes to be.
const APPEARED: ReadFlags = ReadFlags::CREATE.union(ReadFlags::MOVED_TO);

impl State {
    pub(super) fn new(inotify: Arc<OwnedFd>, options: FileHubOptions) -> State {
        State {
            options,
            directories: Directories::new(inotify),
            routes: Slab::new(),
            by_path: FxHashMap::default(),
            subscriptions: Slab::new(),
            targets: FxHashMap::default(),
            degraded: FxHashMap::default(),
            next_generation: 0,
            next_scan: None,
            work: Work::default(),
            news: News {
                tokens: FxHashMap::default(),
                notices: Vec::new(),
                limit_told: false,
                limit_reached: false,
                scanning_told: 1,
            },
            events: 0,
            deliveries: 0,
            overflows: 0,
        }
    }

    pub(super) fn subscribe(&mut self, token: Token, path: &WatchPath) -> u64 {
        let (directory, name) = path.split();
        let route = self.route(directory);
        let leaves = self.routes.get(route).map(|route| &route.leaves);
        let name = match leaves.and_then(|leaves| leaves.get_key_value(name)) {
            Some((name, _)) => Arc::clone(name),
            None => Name::from(name),
        };
        let generation = self.next_generation;
        self.next_generation = self.next_generation.wrapping_add(1);
        let subscription = self.subscriptions.insert(Subscription {
            token,
            route,
            generation,
            name: Arc::clone(&name),
            recursive: path.recursive(),
        });
        if let Some(route) = self.routes.get_mut(route) {
            route.leaves.entry(name).or_default().insert(subscription);
        }
        self.attach(subscription);
        self.directories.sweep();
        id(subscription, generation)
    }

    pub(super) fn unsubscribe(&mut self, id: u64) {
        let Some(index) = self.index(id) else { return };
        self.detach(index);
        self.forget_degraded(index);
        self.work.targets.remove(&index);
        let Some(subscription) = self.subscriptions.remove(index) else { return };
        if let Some(route) = self.routes.get_mut(subscription.route) {
            if let Some(leaf) = route.leaves.get_mut(&subscription.name) {
                leaf.remove(index);
                if leaf.is_empty() {
                    route.leaves.remove(&subscription.name);
                }
            }
            if route.leaves.is_empty() {
                self.drop_route(subscription.route);
            }
        }
        self.directories.sweep();
    }

    /// Takes one kernel event in.
    pub(super) fn event(&mut self, watch: i32, mask: ReadFlags, name: Option<&[u8]>) {
        self.events += 1;
        if mask.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.overflows += 1;
            self.news.notices.push(Notice::Overflow);
            self.verify_all();
            return;
        }
        // Unknown numbers are watches that were given back while events were still on their way.
        let Some(directory) = self.directories.by_watch(watch) else { return };
        match name {
            _ if mask.contains(ReadFlags::IGNORED) => self.directory_lost(directory),
            Some(name) => self.entry_event(directory, name, mask),
            None => self.tell_listeners(directory),
        }
    }

    /// Something was mounted or unmounted there: as if the directory had been replaced.
    pub(super) fn mount_changed(&mut self, mount_point: &[u8]) {
        let Some(slash) = mount_point.iter().rposition(|&byte| byte == b'/') else { return };
        let (directory, name) = (&mount_point[..slash], &mount_point[slash + 1..]);
        if name.is_empty() {
            self.verify_all();
            return;
        }
        let components = directory.split(|&byte| byte == b'/').filter(|component| !component.is_empty());
        let mut parent = self.directories.known_root();
        for component in components {
            parent = parent.and_then(|parent| self.directories.known_child(parent, component));
        }
        if let Some(parent) = parent {
            self.entry_event(parent, name, ReadFlags::MOVED_TO | ReadFlags::ISDIR);
        }
    }

    /// Does what the events asked for.
    pub(super) fn settle(&mut self) {
        for (route, replaced) in std::mem::take(&mut self.work.routes) {
            self.refresh_route(route, replaced);
        }
        for subscription in std::mem::take(&mut self.work.targets) {
            self.attach(subscription);
        }
        for (subscription, directory, name) in std::mem::take(&mut self.work.grown) {
            self.grow(subscription, directory, &name);
        }
        self.directories.sweep();
    }

    /// What has to be reported; forgotten here.
    pub(super) fn take_news(&mut self) -> (Vec<(Token, Change)>, Vec<Notice>) {
        let degraded = self.degraded.len();
        if degraded >= self.news.scanning_told {
            self.news.scanning_told = degraded.saturating_mul(2);
            let example = self.degraded.keys().next().and_then(|&index| self.path_of(index));
            self.news.notices.push(Notice::Scanning {
                subscriptions: degraded,
                example: PathBuf::from(OsString::from_vec(example.unwrap_or_default())),
                interval: self.options.scan_interval,
            });
        } else if degraded == 0 && self.news.scanning_told > 1 {
            self.news.scanning_told = 1;
            self.news.notices.push(Notice::Recovered);
        }
        self.deliveries += self.news.tokens.len() as u64;
        (self.news.tokens.drain().collect(), std::mem::take(&mut self.news.notices))
    }

    /// Whether the thread should come and take the news.
    pub(super) fn has_news(&self) -> bool {
        !self.news.tokens.is_empty()
            || !self.news.notices.is_empty()
            || self.degraded.len() >= self.news.scanning_told
    }

    pub(super) fn stats(&self) -> FileHubStats {
        FileHubStats {
            subscriptions: self.subscriptions.len(),
            watches: self.directories.watches(),
            degraded: self.degraded.len(),
            events: self.events,
            deliveries: self.deliveries,
            overflows: self.overflows,
            wakeups: 0,
        }
    }

    /// An event about one entry of a watched directory.
    fn entry_event(&mut self, directory: u32, name: &[u8], mask: ReadFlags) {
        let replaced = mask.intersects(REPLACED);
        // The kernel merges two equal events in a row, but these have the end of the first entry between them.
        let change = if mask == ReadFlags::CREATE { Change::Created } else { Change::Any };
        self.tell_listeners(directory);
        if mask.contains(ReadFlags::ISDIR) && mask.intersects(APPEARED) {
            self.directories.may_hold_directories(directory);
        }
        let Some(known) = self.directories.get(directory) else { return };
        for &route in known.ends.as_slice() {
            let leaf = self.routes.get(route).and_then(|route| route.leaves.get(name));
            for &index in leaf.map(Numbers::as_slice).unwrap_or_default() {
                if let Some(subscription) = self.subscriptions.get(index) {
                    self.news.add(subscription.token, change);
                }
                let was_directory = self.targets.contains_key(&index) || self.degraded.contains_key(&index);
                if replaced && (mask.contains(ReadFlags::ISDIR) || was_directory) {
                    self.work.targets.insert(index);
                }
            }
        }
        if !replaced {
            return;
        }
        if let Some(entry) = self.directories.entry(directory, name) {
            self.work.routes.extend(entry.routes.as_slice().iter().map(|&route| (route, true)));
        }
        let listeners: Vec<u32> = known.contents.as_slice().to_vec();
        let displaced = self.directories.displace(directory, name);
        for index in listeners {
            if self.subscriptions.get(index).is_some_and(|subscription| subscription.recursive) {
                if let Some(displaced) = displaced {
                    self.prune(index, displaced);
                }
                if mask.contains(ReadFlags::ISDIR) && mask.intersects(APPEARED) {
                    self.work.grown.push((index, directory, Name::from(name)));
                }
            }
        }
    }

    /// The kernel dropped a watch: the directory was removed, or its file system unmounted.
    fn directory_lost(&mut self, directory: u32) {
        self.tell_listeners(directory);
        self.mark_users(directory);
        self.directories.lost(directory);
    }

    /// Marks everybody whose way leads through a directory.
    fn mark_users(&mut self, directory: u32) {
        let Some(known) = self.directories.get(directory) else { return };
        self.work.routes.extend(known.ends.as_slice().iter().map(|&route| (route, true)));
        self.work.routes.extend(known.steps().map(|route| (route, true)));
        self.work.targets.extend(known.contents.as_slice());
    }

    fn tell_listeners(&mut self, directory: u32) {
        let Some(known) = self.directories.get(directory) else { return };
        for &index in known.contents.as_slice() {
            if let Some(subscription) = self.subscriptions.get(index) {
                self.news.add(subscription.token, Change::Any);
            }
        }
    }

    /// One of its events is on the way to the subscriber.
    fn tell(&mut self, index: u32) {
        if let Some(subscription) = self.subscriptions.get(index) {
            self.news.add(subscription.token, Change::Any);
        }
    }

    /// Trusts nothing: tells everybody and looks at everything again.
    fn verify_all(&mut self) {
        let tokens = self.subscriptions.iter().map(|(_, subscription)| (subscription.token, Change::Any));
        self.news.tokens.extend(tokens);
        self.directories.distrust();
        self.work.routes.extend(self.routes.keys().into_iter().map(|route| (route, true)));
    }

    /// The index behind an id that is still valid.
    fn index(&self, id: u64) -> Option<u32> {
        let (index, generation) = (id as u32, (id >> 32) as u32);
        (self.subscriptions.get(index)?.generation == generation).then_some(index)
    }

    fn path_of(&self, index: u32) -> Option<Vec<u8>> {
        let subscription = self.subscriptions.get(index)?;
        let route = self.routes.get(subscription.route)?;
        Some(if subscription.name.is_empty() {
            route.path.to_vec()
        } else {
            scan::join(&route.path, &subscription.name)
        })
    }

    /// Says once that the kernel has no more watches.
    fn limit_reached(&mut self) {
        self.news.limit_reached = true;
        if !std::mem::replace(&mut self.news.limit_told, true) {
            self.news.notices.push(Notice::WatchLimit { limit: limits::current(limits::WATCHES) });
        }
    }

    pub(super) fn check_invariants(&self) {
        self.directories.check_invariants();
        for (id, route) in self.routes.iter() {
            assert!(!route.leaves.is_empty(), "route {id} is kept for nobody");
            assert_eq!(self.by_path.get(&route.path), Some(&id));
            for (directory, name) in &route.steps {
                let entry = self.directories.entry(*directory, name);
                assert!(entry.is_some_and(|entry| entry.routes.contains(id)), "step of route {id}");
            }
            if let End::At(directory) = route.end {
                let directory = self.directories.get(directory);
                assert!(directory.is_some_and(|directory| directory.ends.contains(id)), "end of route {id}");
            }
        }
        assert_eq!(self.by_path.len(), self.routes.len());
        for (index, directories) in &self.targets {
            assert!(self.subscriptions.get(*index).is_some(), "target of nobody");
            for directory in directories {
                let contents =
                    self.directories.get(*directory).map(|directory| directory.contents.as_slice());
                assert!(contents.is_some_and(|contents| contents.contains(index)), "listener {index}");
            }
        }
        assert!(self.degraded.keys().all(|index| self.subscriptions.get(*index).is_some()));
        assert_eq!(self.next_scan.is_some(), !self.degraded.is_empty());
        assert!(self.work.routes.is_empty() && self.work.targets.is_empty() && self.work.grown.is_empty());
    }
}

fn id(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}
