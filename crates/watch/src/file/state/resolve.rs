//! Finding the way to a directory as the kernel would, and watching every step of it.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Change, End, Interest, Name, Route, State, Unwatchable};
use crate::file::scan::join;

/// How many links one way may lead through; the kernel's own limit.
const LINKS: usize = 40;

/// How many components one way may have, links opened up.
const STEPS: usize = 4096;

impl State {
    /// The route to a directory, found if it is new.
    pub(super) fn route(&mut self, path: &[u8]) -> u32 {
        if let Some(&route) = self.by_path.get(path) {
            return route;
        }
        let path: Arc<[u8]> = path.into();
        let leaves = FxHashMap::default();
        let route = self.routes.insert(Route {
            path: Arc::clone(&path),
            leaves,
            steps: Vec::new(),
            end: End::Missing,
        });
        let (steps, end) = self.resolve(&path);
        self.lead(route, steps, end);
        self.by_path.insert(path, route);
        route
    }

    /// Finds a route again. Its subscribers are told when it leads elsewhere now, or when a step of it was
    /// `replaced` and it leads somewhere, before or after.
    pub(super) fn refresh_route(&mut self, id: u32, replaced: bool) {
        let Some(route) = self.routes.get(id) else { return };
        let (path, before) = (Arc::clone(&route.path), route.end);
        let (steps, end) = self.resolve(&path);
        self.lead(id, steps, end);
        if let End::At(directory) = end {
            self.directories.ask_again(directory);
        }
        if before == end && (!replaced || end == End::Missing) {
            return;
        }
        let Some(route) = self.routes.get(id) else { return };
        for &index in route.leaves.values().flat_map(|leaf| leaf.as_slice()) {
            if let Some(subscription) = self.subscriptions.get(index) {
                self.news.add(subscription.token, Change::Any);
            }
            self.work.targets.insert(index);
        }
    }

    pub(super) fn drop_route(&mut self, id: u32) {
        self.lead(id, Vec::new(), End::Missing);
        if let Some(route) = self.routes.remove(id) {
            self.by_path.remove(&route.path);
        }
        self.work.routes.remove(&id);
    }

    /// Goes from the root component by component. Each directory is watched before the next component is
    /// looked up in it, so whatever changes behind our back is in the queue.
    fn resolve(&mut self, path: &[u8]) -> (Vec<(u32, Name)>, End) {
        let mut steps: Vec<(u32, Name)> = Vec::new();
        let Ok(root) = self.directories.root().inspect_err(|&why| self.note(why)) else {
            return (steps, End::Blind);
        };
        let mut way: Vec<u32> = vec![root];
        let mut at = root;
        let mut physical: Vec<u8> = b"/".to_vec();
        let mut links = 0;
        let mut rest: Vec<Name> = components(path);
        while let Some(name) = rest.pop() {
            if &*name == b".." {
                if way.len() > 1 {
                    way.pop();
                    let slash = physical.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                    physical.truncate(slash.max(1));
                }
                at = way.last().copied().unwrap_or(root);
                continue;
            }
            let next = join(&physical, &name);
            let interest = if rest.is_empty() { Interest::Everything } else { Interest::Names };
            let found = self.directories.child(at, &name, &next, interest);
            steps.push((at, Arc::clone(&name)));
            match found {
                Ok(directory) => {
                    way.push(directory);
                    at = directory;
                    physical = next;
                }
                Err(Unwatchable::Missing) => return (steps, End::Missing),
                Err(Unwatchable::NotDirectory) => {
                    let Ok(link) = rustix::fs::readlink(&next, Vec::new()) else {
                        return (steps, End::Missing);
                    };
                    links += 1;
                    if links > LINKS || steps.len() + rest.len() > STEPS {
                        return (steps, End::Missing);
                    }
                    if link.as_bytes().starts_with(b"/") {
                        way.truncate(1);
                        at = root;
                        physical = b"/".to_vec();
                    }
                    rest.extend(components(link.as_bytes()));
                }
                Err(why) => {
                    self.note(why);
                    return (steps, End::Blind);
                }
            }
        }
        // A way may end with `..`, at a directory that was only a step so far.
        match self.directories.deepen(at, &physical) {
            Ok(directory) => (steps, End::At(directory)),
            Err(Unwatchable::Missing | Unwatchable::NotDirectory) => (steps, End::Missing),
            Err(why) => {
                self.note(why);
                (steps, End::Blind)
            }
        }
    }

    /// Makes a route consist of these steps, leaving alone what it shares with the way it had.
    fn lead(&mut self, id: u32, steps: Vec<(u32, Name)>, end: End) {
        let Some(route) = self.routes.get_mut(id) else { return };
        let old_end = std::mem::replace(&mut route.end, end);
        let old = std::mem::replace(&mut route.steps, steps.clone());
        for (directory, name) in &steps {
            self.directories.add_step(*directory, name, id);
        }
        for (directory, name) in old.iter().filter(|step| !steps.contains(step)) {
            self.directories.remove_step(*directory, name, id);
        }
        if old_end != end {
            if let End::At(directory) = old_end {
                self.directories.remove_end(directory, id);
            }
            if let End::At(directory) = end {
                self.directories.add_end(directory, id);
            }
        }
    }

    pub(super) fn note(&mut self, why: Unwatchable) {
        if why == Unwatchable::Limit {
            self.limit_reached();
        }
    }
}

/// The components of a path, last first.
fn components(path: &[u8]) -> Vec<Name> {
    path.split(|&byte| byte == b'/')
        .rev()
        .filter(|component| !component.is_empty() && *component != b".")
        .map(Name::from)
        .collect()
}
