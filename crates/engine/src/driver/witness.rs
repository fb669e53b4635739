//! Somebody who is told what the engine does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{Because, Effect, Id, Spec};

/// Is told what the engine does, by the thread of the engine itself: whatever it does with that has to be quick.
pub trait Witness: Send + Sync {
    /// Another graph runs, of these resources.
    fn graph(&self, resources: &mut dyn Iterator<Item = &Id>);

    /// A run of a resource, with its group if it has one, has begun. `waits` if it is of a kind that waits for something, and not
    /// one that makes short system calls.
    fn began(&self, spec: &Spec, waits: bool) {
        let _ = (spec, waits);
    }

    /// That run is over. `well` unless it failed or was cancelled.
    fn over(&self, spec: &Spec, waits: bool, well: bool) {
        let _ = (spec, waits, well);
    }

    /// A resource has been looked at, and put right if that was needed and allowed.
    fn ran(&self, run: Ran<'_>);

    /// The state of a resource is another one, or an attempt failed again. A resource that was never reported is
    /// [`Health::Ok`] once it has [run](Witness::ran). Which resources are blocked or pending is not reported as it happens, but can be
    /// [asked](crate::Engine::blocked).
    fn health(&self, id: &Id, health: Health<'_>);

    /// The graph has come to rest, or is at rest no longer. After a swap this is reported before the swap is answered, so what is known
    /// here is never about an earlier graph.
    fn rest(&self, rest: Rest) {
        let _ = rest;
    }
}

/// Whether the graph is at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Something is under way, or has happened too recently.
    Active,
    /// Nothing is under way but retries, and some resource is not in its declared state.
    Quiet,
    /// Nothing is under way, and every resource is in its declared state.
    Converged,
}

/// A run of a resource, with its group if it has one.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'a> {
    /// Which.
    pub id: &'a Id,
    /// As it was declared.
    pub spec: &'a Spec,
    /// It was allowed to change something.
    pub apply: bool,
    /// How it ended.
    pub ended: Ended,
    /// Why it failed, if it did.
    pub error: Option<&'a str>,
    /// How long it ran.
    pub took: Duration,
    /// How long ago the event came that led to it, if one did.
    pub since: Option<Duration>,
    /// Why it ran. Known only if it did not find everything right.
    pub causes: &'a [Cause],
    /// What it changed, or would have. Shared, so that whoever keeps it need not copy it.
    pub effects: &'a Arc<Vec<MemberEffects>>,
}

/// What a member of a vertex changed.
#[derive(Clone, Debug)]
pub struct MemberEffects {
    /// Which.
    pub id: Id,
    /// What. If the kind did not say, that something of it changed.
    pub effects: Vec<Effect>,
}

/// Why a resource was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It was declared, and was not before.
    Declared {
        /// The values that made it so, if the program ran already.
        because: Option<Arc<Because>>,
    },
    /// It is declared differently than before.
    Redeclared {
        /// The parameters that differ.
        fields: Vec<FieldChange>,
        /// The values behind them.
        because: Option<Arc<Because>>,
    },
    /// Something happened to what it watches: one of these.
    Event(Vec<String>),
    /// Resources before it have changed something.
    Notified(Vec<Id>),
    /// Values came from other resources.
    Received(Vec<Handed>),
    /// The last attempt has failed.
    Retried {
        /// How many have.
        attempts: u32,
    },
}

/// In a few words, which tell no values: those are in the history.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Declared { .. } => f.write_str("declared"),
            Cause::Redeclared { fields, .. } => {
                f.write_str("declared differently")?;
                each(f, ": ", fields.iter().map(|change| change.field))
            }
            Cause::Event(sources) => {
                f.write_str("event")?;
                each(f, ": ", sources)
            }
            Cause::Notified(by) => each(f, "notified by ", by),
            Cause::Received(handed) => each(
                f,
                "received ",
                handed.iter().map(|handed| format!("{} from {}", handed.field, handed.from)),
            ),
            Cause::Retried { attempts } => write!(f, "tried again after {attempts}"),
        }
    }
}

fn each(
    f: &mut fmt::Formatter<'_>,
    before: &str,
    what: impl IntoIterator<Item = impl fmt::Display>,
) -> fmt::Result {
    for (number, what) in what.into_iter().enumerate() {
        write!(f, "{}{what}", if number == 0 { before } else { ", " })?;
    }
    Ok(())
}

/// Causes one after the other, for a field of the log.
pub(super) struct Causes<'a>(pub(super) &'a [Cause]);

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, cause) in self.0.iter().enumerate() {
            write!(f, "{}{cause}", if number == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// A value that came from another resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Which parameter it is for.
    pub field: &'static str,
    /// Who sent it.
    pub from: Id,
}

/// A parameter that is declared differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// Which.
    pub field: &'static str,
    /// Whose, if it is not that of the resource itself but of a member of its group.
    pub member: Option<Id>,
    /// What it was, as text. Nothing, if it is a secret.
    pub before: Option<String>,
    /// What it is.
    pub after: Option<String>,
}

/// A resource that something else undoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undone<'a> {
    /// Which.
    pub id: &'a Id,
    /// The resource that undoes it, if it is one of ours.
    pub by: Option<&'a Id>,
    /// How often it was put right lately.
    pub times: u32,
    /// How long it is left alone now.
    pub wait: Duration,
}

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything was right.
    Right,
    /// Something was changed, or would have been.
    Changed,
    /// With an error.
    Failed,
}

/// The state of a resource, as its last run left it. A failure lasts until a run succeeds, over all graphs that declare the
/// resource, whatever they declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health<'a> {
    /// The last run found the declared state.
    Ok,
    /// The last run restored the declared state.
    Changed,
    /// The last run was not allowed to change anything, and would have.
    WouldChange,
    /// The last attempt failed, and the next one is scheduled.
    Retrying {
        /// The number of attempts that have failed in a row.
        attempt: u32,
        /// The time until the next attempt, unless an event leads to one earlier.
        wait: Duration,
        /// The error of the last attempt.
        error: &'a str,
    },
    /// The last attempt failed, and the declared attempts are used up: an event, another graph or [`crate::Engine::retry`] leads to the
    /// next one.
    Failed {
        /// The number of attempts that have failed in a row.
        attempt: u32,
        /// The error of the last attempt.
        error: &'a str,
    },
    /// Something else reverts the resource after each repair, so repairs are backed off.
    Flapping(Undone<'a>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_in_a_few_words_without_values() {
        let change = |field| FieldChange {
            field,
            member: None,
            before: Some("canary".to_owned()),
            after: Some("canary".to_owned()),
        };
        let causes = [
            Cause::Declared { because: None },
            Cause::Redeclared { fields: vec![change("content"), change("mode")], because: None },
            Cause::Event(vec!["/a".to_owned(), "/b".to_owned()]),
            Cause::Event(Vec::new()),
            Cause::Notified(vec![Id::new("file", "/a")]),
            Cause::Received(vec![Handed { field: "content", from: Id::new("exec", "x") }]),
            Cause::Retried { attempts: 2 },
        ];
        let told = Causes(&causes).to_string();
        let expected = "declared; declared differently: content, mode; event: /a, /b; event; notified by file[/a]; \
                        received content from exec[x]; tried again after 2";
        assert_eq!(told, expected);
        assert_eq!(Causes(&[]).to_string(), "");
    }
}
