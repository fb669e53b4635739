//! `exit`: ends the program.

use mgmt_resource::{Checked, Context, Invalid, Kind, Nothing, Resource, Result};
use mgmt_value::Str;

/// The largest status that a shell does not use for something else.
const MAX: u8 = 125;

/// Ends mgmt.
///
/// When its turn comes, after everything that it depends on, mgmt is asked to stop in good order and to exit with
/// the given status. If several ask, the first one decides.
///
/// ```mcl
/// file "/etc/motd" {
///     state => "exists",
///     content => "this host is ready\n",
/// }
/// exit "that is all" {
///     Depend => File["/etc/motd"],
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "exit")]
pub struct Exit {
    /// The exit status, from 0 to 125.
    pub code: u8,
}

impl Kind for Exit {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        if self.code > MAX {
            let message = format!("expected a status from 0 to {MAX}, found {}", self.code);
            return Err(Invalid::field("code", message)
                .with_hint("shells use the larger ones to say that a command was not found or killed"));
        }
        Ok(())
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        if cx.apply {
            cx.info(format_args!("asking mgmt to exit with status {}", self.code));
            cx.host.request_exit(self.code);
        }
        Ok(Checked::Changed)
    }
}
