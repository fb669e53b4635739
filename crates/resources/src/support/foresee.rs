//! Preflight checks of a plan, shared by several kinds.
//!
//! Each fails while a plan is made where the kernel would refuse what a run would do, unless something before may change that.

use mgmt_resource::{Context, Needed};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Node;
use mgmt_sys::preflight::{Claim, check_attributes_changeable};
use mgmt_sys::tree::{Limits, check_tree_removable};

/// The directory takes changes of its entries.
pub(crate) fn writable(cx: &Context<'_>, parent: &Parent) -> mgmt_sys::Result<()> {
    ask(cx, || parent.check_writable())
}

/// A directory takes changes of its entries; nothing if it is not there.
pub(crate) fn writable_path(cx: &Context<'_>, directory: &str) -> mgmt_sys::Result<()> {
    let opened = ManagedPath::new(directory).ok().and_then(|path| Parent::open_itself(&path).ok());
    opened.map_or(Ok(()), |parent| writable(cx, &parent))
}

/// The entry, if there is one, can be replaced by another of so many bytes. `old`: the length of what is there.
pub(crate) fn replaceable(
    cx: &Context<'_>,
    parent: &Parent,
    name: &[u8],
    length: u64,
    old: Option<u64>,
) -> mgmt_sys::Result<()> {
    ask(cx, || {
        parent.check_writable()?;
        parent.check_replaceable(name)
    })?;
    room(cx, parent, &parent.path_of(name), length, old)
}

/// The entry can be replaced, or be written to.
pub(crate) fn rewritable(cx: &Context<'_>, parent: &Parent, name: &[u8]) -> mgmt_sys::Result<()> {
    ask(cx, || parent.check_rewritable(name))
}

/// The entry, if there is one, can be removed.
pub(crate) fn removable(cx: &Context<'_>, parent: &Parent, name: &[u8]) -> mgmt_sys::Result<()> {
    ask(cx, || {
        parent.check_writable()?;
        parent.check_removable(name)
    })
}

/// The entry, if there is one, can be removed with everything in it.
pub(crate) fn tree_removable(cx: &Context<'_>, parent: &Parent, name: &[u8]) -> mgmt_sys::Result<()> {
    ask(cx, || check_tree_removable(parent, name, &Limits::default()))
}

/// The file system of a directory has room for so many bytes at a path in it or below, besides what the plan writes to it before.
/// `old`: the length of the file that they replace.
pub(crate) fn room(
    cx: &Context<'_>,
    parent: &Parent,
    path: &[u8],
    length: u64,
    old: Option<u64>,
) -> mgmt_sys::Result<()> {
    let Some(foreseen) = cx.foreseen.filter(|_| !cx.apply) else { return Ok(()) };
    let Some(file_system) = parent.file_system() else { return Ok(()) };
    if let Err(error) = parent.check_room(path, length, foreseen.claimed(file_system, path))
        && foreseen.overbook(file_system)
        && !cx.may_come(Needed::Other)
    {
        return Err(error);
    }
    let signed = |length: u64| i64::try_from(length).unwrap_or(i64::MAX);
    let bytes = signed(length).saturating_sub(signed(old.unwrap_or(0)));
    foreseen.claim(file_system, path, Claim { bytes, files: i64::from(old.is_none()) });
    Ok(())
}

/// Owner and mode can be changed.
pub(crate) fn changeable(cx: &Context<'_>, node: &impl Node) -> mgmt_sys::Result<()> {
    ask(cx, || check_attributes_changeable(node))
}

/// Asks, while a plan is made.
pub(crate) fn ask(cx: &Context<'_>, check: impl FnOnce() -> mgmt_sys::Result<()>) -> mgmt_sys::Result<()> {
    if cx.apply || cx.foreseen.is_none() {
        return Ok(());
    }
    match check() {
        Err(error) if !cx.may_come(Needed::Other) => Err(error),
        _ => Ok(()),
    }
}
