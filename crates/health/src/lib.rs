//! The health model: the state of a resource, a program, a deploy, a host and a cluster, as plain data.
//!
//! The central type is [`HostReport`]: everything that one agent knows about its own health. A [`Tracker`] keeps it up to date from
//! the events of the engine and the front-ends. The log, `mgmt status`, the
//! metrics, the exit code, the service manager's status line, the audit log and the JSON output all read this one model, so that
//! they cannot disagree.
//!
//! # Invariants
//!
//! - [`HostState::Converged`] implies that the program is live, that the host runs the newest deploy it knows of, and that every
//!   resource is [`ResourceState::Ok`]. [`HostReport::state`] is the only place that decides this.
//! - A failed resource always carries its error; a retrying resource also carries the time of its next attempt.
//! - A resource has one state, the worst that is known of it, so the counts of all states add up to the number of resources.
//! - Lists are bounded ([`MAX_LISTED`], [`MAX_ERROR_LEN`]); counts are exact even where a list is cut, and say how much is left out.
//!
//! # Deliberately absent
//!
//! No clock, no I/O. Times are seconds since 1970 by the clock of the reporting host, and are passed in.

mod cluster;
mod host;
mod program;
mod resource;
mod tracker;

pub use cluster::{ClusterMember, ClusterState};
pub use host::{Counts, DuplicateHost, HostReport, HostState};
pub use program::{DeployState, FailedValue, Instead, OpenValues, PendingValue, ProgramState, RefusedDeploy};
pub use resource::{ResourceReport, ResourceState};
pub use tracker::Tracker;

/// The number of unhealthy resources that a report lists. Beyond that it only counts them.
pub const MAX_LISTED: usize = 100;

/// The length in bytes to which an error text is cut before it is published.
pub const MAX_ERROR_LEN: usize = 1000;

/// Cuts an error text to [`MAX_ERROR_LEN`] bytes at a character boundary.
pub fn bounded_error(error: &str) -> &str {
    if error.len() <= MAX_ERROR_LEN {
        return error;
    }
    let end = (0..=MAX_ERROR_LEN).rev().find(|end| error.is_char_boundary(*end)).unwrap_or(0);
    &error[..end]
}

/// A count with its noun, such as `1 resource` or `2 resources`.
pub fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_error_cuts_at_a_character_boundary() {
        let text = "ä".repeat(MAX_ERROR_LEN);
        let cut = bounded_error(&text);
        assert!(cut.len() <= MAX_ERROR_LEN && cut.len() > MAX_ERROR_LEN - 4);
        assert_eq!(bounded_error("short"), "short");
    }
}
