//! `noop`: does nothing.

use mgmt_resource::{Checked, Context, Invalid, Kind, Nothing, Resource, Result};
use mgmt_value::Str;

/// Does nothing, and is always right.
///
/// Useful as a point that edges can lead to and from, and to try out a graph. It can be notified, and says so in
/// the log.
///
/// ```mcl
/// noop "the settings are there" {}
/// file ["/etc/shop.conf", "/etc/shop.rules"] {
///     state => "exists",
///
///     Before => Noop["the settings are there"],
/// }
/// exec "start the shop" {
///     cmd => "/usr/bin/touch /run/shop-has-started",
///     creates => "/run/shop-has-started",
///
///     Depend => Noop["the settings are there"],
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "noop", group, refresh)]
pub struct Noop {
    /// A remark for whoever reads the configuration.
    pub comment: Str,
    /// Tell a notification on to what comes after. Otherwise it ends here. Only this implementation has it.
    pub forward: bool,
    /// Absolute paths that directories that are purged or tidied leave alone, with all below them. A `*` at the end stands for any ending. Only
    /// this implementation has it.
    pub paths: Vec<Str>,
}

impl Kind for Noop {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        match self.paths.iter().find(|path| !path.starts_with(b"/")) {
            Some(path) => Err(Invalid::field("paths", format!("expected absolute paths, found {path:?}"))),
            None => Ok(()),
        }
    }

    fn claimed_paths(&self, _: &Str) -> Vec<Str> {
        self.paths.clone()
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        if cx.refresh && self.forward {
            // Nothing is told on while only looking: nothing has changed. A plan is about what will have.
            let is_told = cx.apply || cx.foreseen.is_some();
            return Ok(if is_told { Checked::Forwarded } else { Checked::Right });
        }
        if cx.refresh {
            cx.info("notified");
        }
        Ok(Checked::Right)
    }

    fn groups_with(&self, other: &dyn Resource) -> bool {
        // A group is notified as a whole.
        !self.forward && other.as_any().downcast_ref::<Noop>().is_some_and(|other| !other.forward)
    }

    fn groups_alike(&self, other: &Noop) -> bool {
        self.forward == other.forward
    }
}
