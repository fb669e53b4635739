//! `value`: keeps a value.

use mgmt_resource::{Checked, Context, Fields, Invalid, Kind, Resource, Result, ResultExt, Watch};
use mgmt_value::{Str, Value as AnyValue};

use crate::support::follow;

/// Keeps a value of any type under the name of the resource, and sends it on.
///
/// The value is stored on this host and survives a restart, so that a function that reads it by name sees it at
/// once. It can be received from another resource and sent to a third one. Whenever something else, like an
/// `http:server:ui:input`, stores another value under this name, this one is set again.
///
/// ```mcl
/// import "value"
///
/// value "colour" {
///     any => "green",
/// }
///
/// $colour = value.get_str("colour")
///
/// print "colour" {
///     msg => if $colour->ready { $colour->value } else { "not known yet" },
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "value", send, receive, blocking)]
pub struct Value {
    /// The value. Unset, the stored value is removed.
    pub any: Option<AnyValue>,
}

/// What a `value` sends.
#[derive(Clone, Debug, Default, Fields)]
pub struct ValueSends {
    /// The value, as it is now.
    pub any: Option<AnyValue>,
}

impl Kind for Value {
    type State = ();
    type Sends = ValueSends;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        Ok(())
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        vec![follow::stored_value(name)]
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let (key, wanted) = (&cx.id.name, self.any.as_ref());
        let local = &cx.host.local;
        let changed = if cx.apply {
            local.value_set(key, wanted).context("cannot keep the value")?
        } else {
            local.value_would_change(key, wanted).context("cannot look at the value that is kept")?
        };
        cx.send(&ValueSends { any: self.any.clone() });
        // What was received is news for those that are notified by us, also when a former run had it already.
        Ok(if changed || cx.received_change("any") { Checked::Changed } else { Checked::Right })
    }
}
