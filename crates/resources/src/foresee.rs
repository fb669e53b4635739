//! What a plan finds out beforehand, for several kinds.

use mgmt_resource::{Context, Needed};
use mgmt_sys::dir::Parent;

/// While a plan is made: fails where a run could not put anything into the directory, unless something before may change that.
pub(crate) fn writable(cx: &Context<'_>, parent: &Parent) -> mgmt_sys::Result<()> {
    if cx.apply || cx.foreseen.is_none() {
        return Ok(());
    }
    match parent.check_writable() {
        Err(error) if !cx.may_come(Needed::Other) => Err(error),
        _ => Ok(()),
    }
}
