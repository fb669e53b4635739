//! Preflight checks of a plan, shared by several kinds.
//!
//! Each fails while a plan is made where the kernel would refuse what a run would do, unless something before may change that.

use mgmt_resource::{Context, Needed};
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Node;
use mgmt_sys::preflight::check_attributes_changeable;

/// The directory takes changes of its entries.
pub(crate) fn writable(cx: &Context<'_>, parent: &Parent) -> mgmt_sys::Result<()> {
    ask(cx, || parent.check_writable())
}

/// The entry, if there is one, can be replaced by another of so many bytes.
pub(crate) fn replaceable(
    cx: &Context<'_>,
    parent: &Parent,
    name: &[u8],
    length: u64,
) -> mgmt_sys::Result<()> {
    removable(cx, parent, name)?;
    ask(cx, || parent.check_room(name, length))
}

/// The entry, if there is one, can be removed.
pub(crate) fn removable(cx: &Context<'_>, parent: &Parent, name: &[u8]) -> mgmt_sys::Result<()> {
    ask(cx, || {
        parent.check_writable()?;
        parent.check_not_immutable(name)
    })
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
