//! Listening to targets that are directories, and looking at targets that cannot be watched.

use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;
use rustix::io::Errno;

use super::{End, Interest, ScanTarget, State, Unwatchable, id};
use crate::file::scan;

impl State {
    /// Listens to whatever the target of a subscription is now.
    pub(super) fn attach(&mut self, index: u32) {
        let Some(subscription) = self.subscriptions.get(index) else { return };
        let (name, recursive) = (subscription.name.clone(), subscription.recursive);
        let Some(end) = self.routes.get(subscription.route).map(|route| route.end) else { return };
        let Some(path) = self.path_of(index) else { return };
        let before = self.targets.remove(&index).unwrap_or_default();
        let mut now = FxHashSet::default();
        let top = match end {
            End::Missing => Err(Unwatchable::Missing),
            End::Blind => Err(Unwatchable::Denied),
            End::At(directory) if name.is_empty() => Ok(directory),
            End::At(directory) if self.has_only_files(directory, &path) => Err(Unwatchable::NotDirectory),
            End::At(directory) => self.directories.child(directory, &name, &path, Interest::Everything),
        };
        let complete = match top {
            Ok(top) => self.listen(index, top, path, recursive, &mut now),
            Err(Unwatchable::Missing | Unwatchable::NotDirectory) => true,
            Err(why) => {
                self.note(why);
                false
            }
        };
        for &directory in before.difference(&now) {
            self.directories.remove_listener(directory, index);
        }
        if !now.is_empty() {
            self.targets.insert(index, now);
        }
        self.set_degraded(index, !complete);
    }

    /// Whether the directory that holds `path` holds nothing that could be listened to. If one appears, that is an
    /// event, and the target is looked at then.
    fn has_only_files(&mut self, directory: u32, path: &[u8]) -> bool {
        let slash = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        self.directories.has_only_files(directory, &path[..slash.max(1)])
    }

    /// Stops listening to anything.
    pub(super) fn detach(&mut self, index: u32) {
        for directory in self.targets.remove(&index).unwrap_or_default() {
            self.directories.remove_listener(directory, index);
        }
    }

    /// A directory appeared in one that a recursive subscription listens to. It may hold anything already.
    pub(super) fn grow(&mut self, index: u32, parent: u32, name: &[u8]) {
        let Some(mut target) = self.targets.remove(&index) else { return };
        if !target.contains(&parent) {
            self.targets.insert(index, target);
            return;
        }
        let Some(path) = self.directories.path(parent).map(|path| scan::join(&path, name)) else {
            self.targets.insert(index, target);
            self.attach(index);
            return;
        };
        let complete = match self.directories.child(parent, name, &path, Interest::Everything) {
            Ok(directory) => self.listen(index, directory, path, true, &mut target),
            Err(Unwatchable::Missing | Unwatchable::NotDirectory) => true,
            Err(why) => {
                self.note(why);
                false
            }
        };
        self.targets.insert(index, target);
        if !complete {
            self.set_degraded(index, true);
        }
    }

    /// A directory left the place where a recursive subscription listened to it.
    pub(super) fn prune(&mut self, index: u32, top: u32) {
        let Some(mut target) = self.targets.remove(&index) else { return };
        let mut pending = vec![top];
        while let Some(directory) = pending.pop() {
            if target.remove(&directory) {
                self.directories.remove_listener(directory, index);
                pending.extend(self.directories.known_children(directory));
            }
        }
        self.targets.insert(index, target);
    }

    /// Listens to a directory, and to all below it if `recursive`. Says whether that was possible.
    ///
    /// Each directory is watched before it is read: what it holds then is found, what comes later is an event.
    fn listen(
        &mut self,
        index: u32,
        top: u32,
        path: Vec<u8>,
        recursive: bool,
        target: &mut FxHashSet<u32>,
    ) -> bool {
        let mut complete = true;
        let mut pending = vec![(top, path)];
        while let Some((directory, path)) = pending.pop() {
            if !target.insert(directory) {
                continue;
            }
            self.directories.add_listener(directory, index);
            if !recursive {
                continue;
            }
            let names = match scan::subdirectories(&path) {
                Ok(names) => names,
                Err(errno) => {
                    complete &= matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP);
                    continue;
                }
            };
            for name in names {
                let below = scan::join(&path, &name);
                match self.directories.child(directory, &name, &below, Interest::Everything) {
                    Ok(child) => pending.push((child, below)),
                    Err(Unwatchable::Missing | Unwatchable::NotDirectory) => {}
                    Err(Unwatchable::Denied) => complete = false,
                    Err(Unwatchable::Limit) => {
                        self.limit_reached();
                        return false;
                    }
                }
            }
        }
        complete
    }

    /// Begins or ends looking at a target from time to time. Ending is news: something may have happened since
    /// the last look.
    fn set_degraded(&mut self, index: u32, degraded: bool) {
        if !degraded {
            if self.forget_degraded(index) {
                self.tell(index);
            }
            return;
        }
        if self.degraded.contains_key(&index) {
            return;
        }
        let Some(path) = self.path_of(index) else { return };
        let recursive = self.subscriptions.get(index).is_some_and(|subscription| subscription.recursive);
        self.degraded.insert(index, scan::signature(&path, recursive));
        let next = Instant::now() + self.options.scan_interval;
        self.next_scan.get_or_insert(next);
    }

    pub(super) fn forget_degraded(&mut self, index: u32) -> bool {
        let known = self.degraded.remove(&index).is_some();
        if self.degraded.is_empty() {
            self.next_scan = None;
        }
        known
    }

    /// When to look at the paths without watches; never while there are none.
    pub(in crate::file) fn next_scan(&self) -> Option<Instant> {
        self.next_scan
    }

    /// Tries to get real watches again, and says what is left to look at.
    pub(in crate::file) fn begin_scan(&mut self) -> Vec<ScanTarget> {
        self.retry_watches();
        let targets = self.degraded.keys().filter_map(|&index| {
            let subscription = self.subscriptions.get(index)?;
            Some(ScanTarget {
                id: id(index, subscription.generation),
                path: self.path_of(index)?,
                recursive: subscription.recursive,
            })
        });
        targets.collect()
    }

    /// Takes in what was seen. The next look is due after the interval, or later if looking took `long`, so that
    /// it never takes more than a fifth of the time.
    pub(in crate::file) fn end_scan(&mut self, seen: Vec<(u64, u64)>, long: Duration) {
        if !self.degraded.is_empty() {
            self.next_scan = Some(Instant::now() + self.options.scan_interval.max(long * 4));
        }
        for (id, now) in seen {
            let Some(index) = self.index(id) else { continue };
            let Some(before) = self.degraded.get_mut(&index) else { continue };
            if std::mem::replace(before, now) != now {
                self.tell(index);
            }
        }
    }

    /// Goes on until the kernel refuses a watch: then it would refuse the others as well.
    fn retry_watches(&mut self) {
        let degraded: Vec<u32> = self.degraded.keys().copied().collect();
        let mut tried = FxHashSet::default();
        self.news.limit_reached = false;
        for index in degraded {
            if self.news.limit_reached {
                break;
            }
            let Some(route) = self.subscriptions.get(index).map(|subscription| subscription.route) else {
                continue;
            };
            if self.routes.get(route).is_none_or(|route| route.end != End::Blind) {
                self.attach(index);
            } else if tried.insert(route) {
                self.refresh_route(route, false);
            }
        }
        self.settle();
    }
}
