//! Program and deploy states.

use serde::{Deserialize, Serialize};

use crate::{MAX_LISTED, bounded_error};

/// The state of the program that an agent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ProgramState {
    /// Not evaluated yet.
    #[default]
    Starting,
    /// Every value is current and the engine runs the graph that follows from them.
    Live,
    /// Some values are not there yet, for longer than a start takes: what depends on them is kept as last declared, or not there.
    Waiting {
        /// Since when, in seconds since 1970.
        since: u64,
    },
    /// Some values have failed, or the engine refused the graph: what depends on them is kept as last evaluated.
    Stale {
        /// Since when, in seconds since 1970.
        since: u64,
        /// The first error.
        error: String,
        /// No part of the program is current: there is no graph, so every resource is kept as last declared.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole: bool,
    },
    /// The newest text has errors, so an earlier version runs, or none.
    Invalid {
        /// Since when, in seconds since 1970.
        since: u64,
        /// The first error.
        error: String,
    },
}

impl ProgramState {
    /// The names of all states.
    pub const NAMES: [&'static str; 5] = ["starting", "live", "waiting", "stale", "invalid"];

    /// The name of the state, as metrics and JSON use it.
    pub fn name(&self) -> &'static str {
        match self {
            ProgramState::Starting => "starting",
            ProgramState::Live => "live",
            ProgramState::Waiting { .. } => "waiting",
            ProgramState::Stale { .. } => "stale",
            ProgramState::Invalid { .. } => "invalid",
        }
    }

    /// Whether what runs is not what the newest program asks for.
    pub fn is_outdated(&self) -> bool {
        match self {
            ProgramState::Starting | ProgramState::Live => false,
            ProgramState::Waiting { .. } | ProgramState::Stale { .. } | ProgramState::Invalid { .. } => true,
        }
    }
}

/// The values of the program that runs that have failed or are waited for. They are reported beside the program's state: a program
/// whose newest text is invalid may have them as well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenValues {
    /// The values that have failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedValue>,
    /// The values that are waited for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingValue>,
    /// The number of further values, resources and declarations that are left out of the lists.
    #[serde(skip_serializing_if = "is_zero")]
    pub truncated: u64,
}

impl OpenValues {
    /// Whether every value is there.
    pub fn is_empty(&self) -> bool {
        self.failed.is_empty() && self.pending.is_empty()
    }

    /// The values of two programs that run as one.
    #[must_use]
    pub fn merged(mut self, other: OpenValues) -> OpenValues {
        self.failed.extend(other.failed);
        self.pending.extend(other.pending);
        self.truncated += other.truncated;
        self
    }

    /// Cuts every list to its bound, and counts what is cut off.
    pub(crate) fn bounded(&self) -> OpenValues {
        let mut truncated = self.truncated;
        let mut cut = |list: &[String]| -> Vec<String> {
            truncated += list.len().saturating_sub(MAX_LISTED) as u64;
            list.iter().take(MAX_LISTED).cloned().collect()
        };
        let failed = self.failed.iter().take(MAX_LISTED).map(|value| FailedValue {
            expression: bounded_error(&value.expression).to_owned(),
            position: value.position.clone(),
            since: value.since,
            error: bounded_error(&value.error).to_owned(),
            frozen: cut(&value.frozen),
            missing: cut(&value.missing),
        });
        let failed: Vec<FailedValue> = failed.collect();
        let pending = self.pending.iter().take(MAX_LISTED).map(|value| PendingValue {
            expression: bounded_error(&value.expression).to_owned(),
            position: value.position.clone(),
            since: value.since,
            frozen: cut(&value.frozen),
            missing: cut(&value.missing),
        });
        let pending: Vec<PendingValue> = pending.collect();
        truncated += (self.failed.len() - failed.len() + self.pending.len() - pending.len()) as u64;
        OpenValues { failed, pending, truncated }
    }
}

pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A value of a program that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingValue {
    /// The expression, as written.
    pub expression: String,
    /// Its place, as `FILE:LINE:COLUMN`.
    pub position: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// The resources that are frozen because of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frozen: Vec<String>,
    /// What is not there because of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A value of a program that has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedValue {
    /// The expression, as written.
    pub expression: String,
    /// Its place, as `FILE:LINE:COLUMN`.
    pub position: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// The error.
    pub error: String,
    /// The resources that are frozen because of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frozen: Vec<String>,
    /// What is not there because of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Which deploy a host runs, and why that is not the newest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeployState {
    /// The deploy that runs; nothing if the program came from the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// The newest deploy, if this host cannot run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedDeploy>,
    /// What runs in the place of a deploy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<Instead>,
    /// The newest deploy that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<u64>,
}

/// What a host runs in the place of a deploy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Instead {
    /// The graph of a plan that was applied. It never is what the host is meant to run in the long term.
    Plan {
        /// Its name.
        name: String,
        /// The newest deploy that the host knew of by then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        newest: Option<u64>,
    },
    /// The program that the agent was started with.
    Program {
        /// The newest deploy at that moment. The program was started after it, and takes its place.
        newest: u64,
    },
    /// Something that a later version knows.
    #[serde(other)]
    Unknown,
}

impl Instead {
    /// Why this is not the deploy of this number, if that one is to be run.
    fn lag(&self, newest: u64) -> Option<String> {
        match self {
            Instead::Plan { name, .. } => Some(format!("runs a plan ({name})")),
            Instead::Program { newest: known } if newest > *known => {
                Some("runs the program given at the start".to_owned())
            }
            Instead::Program { .. } | Instead::Unknown => None,
        }
    }
}

impl DeployState {
    /// Why this is not the newest deploy; nothing if it is, or if the host is not meant to run it.
    pub fn lag(&self) -> Option<String> {
        let newest = self.newest?;
        match (&self.refused, self.running, &self.instead) {
            (Some(refused), ..) if refused.deploy.is_none_or(|deploy| deploy >= newest) => {
                Some(refused.error.clone())
            }
            (_, Some(running), _) if running < newest => Some("not taken yet".to_owned()),
            (_, None, Some(instead)) => instead.lag(newest),
            _ => None,
        }
    }

    /// Whether what runs is not the newest deploy.
    pub fn is_outdated(&self) -> bool {
        let runs_plan = matches!(self.instead, Some(Instead::Plan { newest: Some(_), .. }));
        self.refused.is_some() || runs_plan || self.lag().is_some()
    }
}

/// A deploy that a host cannot run yet, or refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedDeploy {
    /// Its number; nothing if the record of which deploy is the newest cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy: Option<u64>,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// The error of the last attempt.
    pub error: String,
    /// When the next attempt is due, in seconds since 1970; nothing if it is refused for a reason that time does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

impl RefusedDeploy {
    /// The deploy, as messages name it.
    pub fn name(&self) -> String {
        self.deploy.map_or_else(|| "the newest deploy".to_owned(), |deploy| format!("deploy {deploy}"))
    }
}
