//! Resource states.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plural;

/// The state of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ResourceState {
    /// The last check found the declared state.
    Ok,
    /// The last check restored the declared state.
    Changed,
    /// Under `noop`: the last check found a difference that would have been repaired.
    WouldChange,
    /// Declared or notified, and not yet checked since.
    Pending,
    /// The last attempt failed, and the next one is scheduled.
    Retrying {
        /// When the next attempt is due, in seconds since 1970.
        next: u64,
        /// The number of attempts that have failed in a row.
        attempt: u32,
        /// The error of the last attempt.
        error: String,
    },
    /// The last attempt failed and the declared attempts are used up: the next attempt waits for an event, another graph, a reload
    /// or `mgmt retry`.
    Failed {
        /// The number of attempts that have failed in a row.
        attempt: u32,
        /// The error of the last attempt.
        error: String,
    },
    /// A resource before this one is failed, retrying or blocked, so this one may not run.
    Blocked {
        /// The resource that is failed or retrying.
        by: String,
    },
    /// Something else reverts the resource after each repair, so repairs are backed off.
    Flapping {
        /// The process or resource that reverts it, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The number of repairs within the detection window.
        repairs: u32,
        /// How long the next repair is held back, in milliseconds.
        backoff_ms: u64,
    },
    /// A value that the declaration depends on has failed: the resource is kept as last declared.
    Stale {
        /// The error of that value.
        error: String,
    },
    /// Nothing is known, or a later version names a state that this one does not know.
    #[serde(other)]
    Unknown,
}

impl ResourceState {
    /// The name of the state, as metrics and JSON use it.
    pub fn name(&self) -> &'static str {
        match self {
            ResourceState::Ok => "ok",
            ResourceState::Changed => "changed",
            ResourceState::WouldChange => "would_change",
            ResourceState::Pending => "pending",
            ResourceState::Retrying { .. } => "retrying",
            ResourceState::Failed { .. } => "failed",
            ResourceState::Blocked { .. } => "blocked",
            ResourceState::Flapping { .. } => "flapping",
            ResourceState::Stale { .. } => "stale",
            ResourceState::Unknown => "unknown",
        }
    }

    /// The error that the state carries.
    pub fn error(&self) -> Option<&str> {
        match self {
            ResourceState::Retrying { error, .. }
            | ResourceState::Failed { error, .. }
            | ResourceState::Stale { error } => Some(error),
            _ => None,
        }
    }

    /// The order in which unhealthy resources are listed, the worst first.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            ResourceState::Failed { .. } => 0,
            ResourceState::Retrying { .. } => 1,
            ResourceState::Flapping { .. } => 2,
            ResourceState::Stale { .. } => 3,
            ResourceState::Blocked { .. } => 4,
            _ => 5,
        }
    }

    /// Whether the last attempt failed.
    pub fn is_failing(&self) -> bool {
        matches!(self, ResourceState::Retrying { .. } | ResourceState::Failed { .. })
    }

    /// Whether a person should look at the resource.
    pub fn is_unhealthy(&self) -> bool {
        !matches!(
            self,
            ResourceState::Ok | ResourceState::Changed | ResourceState::WouldChange | ResourceState::Pending
        )
    }
}

impl fmt::Display for ResourceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceState::WouldChange => f.write_str("would change"),
            ResourceState::Retrying { error, attempt, .. } => {
                write!(f, "retrying after {}: {error}", plural(u64::from(*attempt), "attempt", "attempts"))
            }
            ResourceState::Failed { error, attempt } => {
                write!(f, "failed after {}: {error}", plural(u64::from(*attempt), "attempt", "attempts"))
            }
            ResourceState::Blocked { by } => write!(f, "blocked by {by}"),
            ResourceState::Flapping { by, repairs, .. } => {
                let by = by.as_deref().unwrap_or("an external process");
                write!(f, "flapping: reverted by {by} {repairs} times")
            }
            ResourceState::Stale { error } => write!(f, "stale: {error}"),
            other => f.write_str(other.name()),
        }
    }
}

/// An unhealthy resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceReport {
    /// The resource, as `kind[name]`.
    pub resource: String,
    /// Since when it is in this state, in seconds since 1970. Attempts in a row do not renew it: failed and retrying count as one.
    pub since: u64,
    /// The state.
    #[serde(flatten)]
    pub state: ResourceState,
}
