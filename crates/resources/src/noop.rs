//! `noop`: does nothing.

use mgmt_resource::{Checked, Context, Invalid, Kind, Nothing, Resource, Result};
use mgmt_value::Str;

/// Does nothing, and is always right.
///
/// Useful as a point that edges can lead to and from, and to try out a graph. It can be notified, and says so in
/// the log.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "noop", group, refresh)]
pub struct Noop {
    /// A remark for whoever reads the configuration.
    pub comment: Str,
}

impl Kind for Noop {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        Ok(())
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        if cx.refresh {
            cx.info("notified");
        }
        Ok(Checked::Right)
    }

    fn groups_with(&self, other: &dyn Resource) -> bool {
        other.as_any().is::<Noop>()
    }

    fn groups_alike(&self, _: &Noop) -> bool {
        true
    }
}
