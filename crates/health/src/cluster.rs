//! Cluster state: the servers of the shared store.

use serde::{Deserialize, Serialize};

/// One server of the shared store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterMember {
    /// Its name.
    pub name: String,
    /// Why it is unhealthy, if it is: it does not answer, or its store is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The state of the shared store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterState {
    /// Every member answers.
    Healthy,
    /// Some member does not answer or is full, and a quorum still does.
    Degraded,
    /// Fewer members than a quorum answer: nothing can be written.
    Unavailable,
}

impl ClusterState {
    /// All states, the best first.
    pub const ALL: [ClusterState; 3] =
        [ClusterState::Healthy, ClusterState::Degraded, ClusterState::Unavailable];

    /// The name of the state, as metrics and JSON use it.
    pub fn name(self) -> &'static str {
        match self {
            ClusterState::Healthy => "healthy",
            ClusterState::Degraded => "degraded",
            ClusterState::Unavailable => "unavailable",
        }
    }

    /// The number of members that have to be healthy for the store to take writes.
    pub fn quorum(members: usize) -> usize {
        members / 2 + 1
    }

    /// The state that follows from the members.
    pub fn of(members: &[ClusterMember]) -> ClusterState {
        let healthy = members.iter().filter(|member| member.error.is_none()).count();
        if healthy < ClusterState::quorum(members.len()) {
            ClusterState::Unavailable
        } else if healthy < members.len() {
            ClusterState::Degraded
        } else {
            ClusterState::Healthy
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_keeps_the_cluster_available() {
        let members = |healthy: usize, all: usize| -> Vec<ClusterMember> {
            let error = |at| (at >= healthy).then(|| "timed out".to_owned());
            (0..all).map(|at| ClusterMember { name: format!("h{at}"), error: error(at) }).collect()
        };
        assert_eq!(ClusterState::of(&members(3, 3)), ClusterState::Healthy);
        assert_eq!(ClusterState::of(&members(2, 3)), ClusterState::Degraded);
        assert_eq!(ClusterState::of(&members(1, 3)), ClusterState::Unavailable);
        assert_eq!(ClusterState::of(&members(1, 2)), ClusterState::Unavailable);
        assert_eq!(ClusterState::of(&[]), ClusterState::Unavailable);
    }
}
