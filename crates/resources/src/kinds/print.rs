//! `print`: writes to the log.

use std::collections::BTreeMap;

use mgmt_resource::{Checked, Context, Id, Invalid, Kind, Nothing, Resource, Result};
use mgmt_value::Str;

/// Writes a message to the log of mgmt.
///
/// The message is written once when the resource starts and again whenever it has changed, for example because it
/// is received from another resource. Resources behind a notifying edge hear of it; it is not a change of the host, and
/// is not counted as one. Several of them that stand in no order to each other are served together: when one message has changed, all
/// are written.
///
/// ```mcl
/// print "greeting" {
///     msg => "this is ${hostname}",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "print", group, batch, refresh, receive)]
pub struct Print {
    /// The text to write.
    pub msg: Str,
    /// Write the message when another resource notifies this one, and only then.
    pub refresh_only: bool,
}

/// What was written last, by resource.
#[derive(Debug, Default)]
pub struct Printed(BTreeMap<Id, Str>);

impl Kind for Print {
    type State = Printed;
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        Ok(())
    }

    async fn check_apply(&self, printed: &mut Printed, cx: &mut Context<'_>) -> Result<Checked> {
        let mut texts = BTreeMap::from([(cx.id.clone(), self.msg.clone())]);
        let children = cx.children.iter().filter_map(|child| {
            let print = child.resource.as_any().downcast_ref::<Print>()?;
            Some((child.id.clone(), print.msg.clone()))
        });
        texts.extend(children);

        if cx.received_change("msg") {
            cx.info("received a new message");
        }
        for child in cx.children {
            if child.received.iter().any(|received| received.field == "msg" && received.changed) {
                cx.info(format_args!("{}: received a new message", child.id));
            }
        }
        if cx.refresh {
            cx.info("notified");
        }
        let is_new = |(id, text): (&Id, &Str)| printed.0.get(id) != Some(text);
        let show = if self.refresh_only { cx.refresh } else { texts.iter().any(is_new) };
        if !show {
            return Ok(Checked::Right);
        }
        if cx.apply {
            cx.info(shown(&self.msg));
            for (id, text) in texts.iter().filter(|(id, _)| *id != cx.id) {
                cx.info(format_args!("{id}: {}", shown(text)));
            }
            printed.0 = texts;
        }
        // The host is as it was: only what comes after it hears of the message.
        Ok(Checked::Forwarded)
    }

    fn groups_with(&self, other: &dyn Resource) -> bool {
        let other = other.as_any().downcast_ref::<Print>();
        !self.refresh_only && other.is_some_and(|other| !other.refresh_only)
    }

    fn groups_alike(&self, other: &Print) -> bool {
        self.refresh_only == other.refresh_only
    }
}

/// The text on one line, and a mark where there is none.
fn shown(text: &Str) -> String {
    if text.is_empty() { "(empty)".to_owned() } else { text.display().to_string() }
}
