//! What is kept of a change.

use std::fmt;

use mgmt_engine::Cause;
use mgmt_resource::Effect;
use serde::{Deserialize, Serialize};

/// The newest version that this program writes. It reads all up to it.
pub(crate) const VERSION: u32 = 2;

/// The version of a record: what earlier programs read stays what they read, and they pass over the rest.
pub(crate) fn version(outcome: Outcome) -> u32 {
    match outcome {
        Outcome::Changed | Outcome::Failed | Outcome::Undone => 1,
        Outcome::Recovered | Outcome::State => VERSION,
    }
}

/// One run that changed something, or failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The version of this form.
    #[serde(rename = "v")]
    pub version: u32,
    /// When it ended.
    #[serde(with = "time")]
    pub time: jiff::Timestamp,
    /// Which resource, as `kind[name]`.
    pub resource: Box<str>,
    /// What came of it.
    pub outcome: Outcome,
    /// Why it failed, if it did; who undoes it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<str>>,
    /// How long it took, in microseconds.
    pub took: u64,
    /// How long after the event it was done, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// The deploy that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy: Option<u64>,
    /// Where the resource is declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<str>>,
    /// Why it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<CauseRecord>,
    /// What it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectRecord>,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Something was changed.
    Changed,
    /// It failed.
    Failed,
    /// Something else undoes it, again and again.
    Undone,
    /// It was failing, and was found in its declared state.
    Recovered,
    /// The state of the host is another. The resource is `host[NAME]`, the message the summary.
    State,
}

/// A change, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRecord {
    /// The member of the group, if it is not the resource itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Box<str>>,
    /// What changed.
    #[serde(flatten)]
    pub effect: Effect,
    /// How a text changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Box<str>>,
}

/// Why a resource was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum CauseRecord {
    /// It was declared, and was not before.
    Declared {
        /// The values of the program that made it so.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        values: Vec<ValueRecord>,
    },
    /// It is declared differently than before.
    Redeclared {
        /// The values of the program that have changed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        values: Vec<ValueRecord>,
        /// The parameters that differ.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fields: Vec<FieldRecord>,
    },
    /// Something happened to one of these.
    Event {
        /// What is watched.
        sources: Vec<String>,
    },
    /// Resources before it have changed something.
    Notified {
        /// Which.
        by: Vec<String>,
    },
    /// Values came from other resources.
    Received {
        /// For which parameters, from whom.
        fields: Vec<HandedRecord>,
    },
    /// The last attempts have failed.
    Retried {
        /// How many.
        attempts: u32,
    },
}

/// A value of the program that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueRecord {
    /// The function.
    pub function: String,
    /// Where it is called: file, line, column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// What woke it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
}

/// A parameter that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldRecord {
    /// Which.
    pub field: String,
    /// Of which member of a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// What it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A value from another resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedRecord {
    /// The parameter that it is for.
    pub field: String,
    /// Who sent it.
    pub from: String,
}

impl CauseRecord {
    /// In words for the record. `private`: what values were and are is left out.
    pub(crate) fn new(cause: &Cause, private: bool) -> CauseRecord {
        let values = |because: &Option<std::sync::Arc<mgmt_resource::Because>>| {
            because
                .iter()
                .flat_map(|because| &because.values)
                .map(|value| ValueRecord::new(value, private))
                .collect()
        };
        match cause {
            Cause::Declared { because } => CauseRecord::Declared { values: values(because) },
            Cause::Redeclared { fields, because } => CauseRecord::Redeclared {
                values: values(because),
                fields: fields
                    .iter()
                    .map(|field| FieldRecord {
                        field: field.field.to_owned(),
                        resource: field.member.as_ref().map(ToString::to_string),
                        before: field.before.clone().filter(|_| !private),
                        after: field.after.clone().filter(|_| !private),
                    })
                    .collect(),
            },
            Cause::Event(sources) => CauseRecord::Event { sources: sources.clone() },
            Cause::Notified(by) => CauseRecord::Notified { by: by.iter().map(ToString::to_string).collect() },
            Cause::Received(fields) => CauseRecord::Received {
                fields: fields
                    .iter()
                    .map(|handed| HandedRecord {
                        field: handed.field.to_owned(),
                        from: handed.from.to_string(),
                    })
                    .collect(),
            },
            Cause::Retried { attempts } => CauseRecord::Retried { attempts: *attempts },
        }
    }
}

impl ValueRecord {
    fn new(value: &mgmt_resource::ChangedValue, private: bool) -> ValueRecord {
        ValueRecord {
            function: value.function.to_string(),
            at: value.origin.as_ref().map(ToString::to_string),
            before: value.before.as_ref().filter(|_| !private).map(ToString::to_string),
            after: value.after.as_ref().filter(|_| !private).map(ToString::to_string),
            event: value.event.as_ref().map(ToString::to_string),
        }
    }
}

impl Record {
    /// Whether it is about a resource, given as `kind[name]`, by its name alone, or by a path or another thing that it
    /// changed.
    pub fn is_about(&self, what: &str) -> bool {
        let names = |id: &str| {
            id == what || id.split_once('[').and_then(|(_, name)| name.strip_suffix(']')) == Some(what)
        };
        names(&self.resource)
            || self
                .effects
                .iter()
                .any(|effect| &*effect.effect.what == what || effect.resource.as_deref().is_some_and(names))
    }
}

/// A moment as text, to the microsecond, in UTC.
mod time {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{time:.6}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        <std::borrow::Cow<'de, str>>::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Changed => "changed",
            Outcome::Failed => "failed",
            Outcome::Undone => "undone",
            Outcome::Recovered => "recovered",
            Outcome::State => "state",
        })
    }
}
