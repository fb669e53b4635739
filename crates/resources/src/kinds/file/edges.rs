//! What a `file` resource is watched by, what it is, and what comes before it.

use mgmt_resource::{Identity, Order, Want, Watch};
use mgmt_sys::ManagedPath;
use mgmt_value::Str;

use super::declaration::State;
use super::{File, download};
use crate::support::account;

/// The path itself, and everything that its content comes from.
pub(super) fn watches(file: &File, name: &Str) -> Vec<Watch> {
    let Some(path) = file.managed_path(name) else { return Vec::new() };
    let watch = |path: &ManagedPath, recursive| Watch::Path { path: path.as_bytes().into(), recursive };
    let mut watches = vec![watch(&path, file.recurse)];
    watches.extend(source(file).map(|source| watch(&source, source.is_directory())));
    watches.extend(fragments(file).map(|fragment| watch(&fragment, false)));
    watches.extend(download::interval(file).map(Watch::Interval));
    watches
}

/// The path itself, the copy of what was there before, and everything that the content comes from.
pub(super) fn claimed_paths(file: &File, name: &Str) -> Vec<Str> {
    let Some(path) = file.managed_path(name) else { return Vec::new() };
    let bytes = |path: &ManagedPath| Str::from(path.as_bytes());
    let mut paths = vec![bytes(&path)];
    if !file.backup.is_empty() {
        paths.push(Str::from([path.without_slash(), file.backup.as_bytes()].concat()));
    }
    paths.extend(source(file).iter().map(bytes));
    paths.extend(fragments(file).map(|fragment| bytes(&fragment)));
    paths
}

pub(super) fn provides(file: &File, name: &Str) -> Vec<Identity> {
    file.managed_path(name).iter().map(identity).collect()
}

pub(super) fn wants(file: &File, name: &Str) -> Vec<Want> {
    let Some(path) = file.managed_path(name) else { return Vec::new() };
    let mut wants = Vec::new();
    let mut before = Vec::new();
    // Fragments that appear in a directory are an event like any other, so no edge is needed for each of them.
    before.extend(fragments(file).map(|fragment| identity(&fragment)));
    if let Some(source) = source(file) {
        if source.is_directory() {
            wants.push(Want::Below(source.as_bytes().into()));
        }
        before.push(identity(&source));
    }
    if State::read(&file.state) != Some(State::Absent) {
        if !file.owner.is_empty() {
            before.push(account::user_identity(&file.owner));
        }
        if !file.group.is_empty() {
            before.push(account::group_identity(&file.group));
        }
    }
    if !before.is_empty() {
        wants.push(Want::Each(Order::Before, before));
    }
    wants.push(Want::ParentOf(path.as_bytes().into()));
    wants
}

fn identity(path: &ManagedPath) -> Identity {
    Identity::Path(path.as_bytes().into())
}

/// What is copied from. The text of a link is no path of ours.
fn source(file: &File) -> Option<ManagedPath> {
    if file.symlink || file.source.is_empty() { None } else { ManagedPath::new(&file.source).ok() }
}

fn fragments(file: &File) -> impl Iterator<Item = ManagedPath> {
    file.fragments.iter().filter_map(|fragment| ManagedPath::new(fragment).ok())
}
