//! `_panic`: what the language's `panic` leaves in the graph.

use mgmt_resource::{Checked, Context, Invalid, Kind, Nothing, Resource, Result};
use mgmt_value::Str;

/// Does nothing, and is always right.
///
/// The function `panic` of the language adds one while it has not been triggered. The underscore keeps people from
/// declaring it.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "_panic")]
pub struct Panic;

impl Kind for Panic {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        Ok(())
    }

    async fn check_apply(&self, (): &mut (), _: &mut Context<'_>) -> Result<Checked> {
        Ok(Checked::Right)
    }
}
