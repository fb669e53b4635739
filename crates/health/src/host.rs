//! Host state: the summary of everything one agent reports.

use serde::{Deserialize, Serialize};

use crate::program::is_zero;
use crate::{DeployState, Instead, OpenValues, ProgramState, ResourceReport, plural};

/// The number of resources in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// All resources.
    pub total: u64,
    /// Restored by their last check.
    pub changed: u64,
    /// Declared or notified, and not yet checked since.
    pub pending: u64,
    /// Under `noop`, those that would change.
    pub would_change: u64,
    /// Failed, with another attempt scheduled.
    pub retrying: u64,
    /// Failed, with the declared attempts used up.
    pub failed: u64,
    /// Behind one that is failed or retrying.
    pub blocked: u64,
    /// Reverted by something else after each repair.
    pub flapping: u64,
    /// Kept as last declared because a value has failed.
    pub stale: u64,
    /// In a state that is not known.
    pub unknown: u64,
}

impl Counts {
    /// The number of resources that a person should look at.
    pub fn unhealthy(&self) -> u64 {
        self.failing() + self.blocked + self.flapping + self.stale + self.unknown
    }

    /// The number of resources whose last attempt failed.
    pub fn failing(&self) -> u64 {
        self.retrying + self.failed
    }

    /// The number of resources in each state, by the name of the state. The sum is [`Counts::total`].
    pub fn by_state(&self) -> [(&'static str, u64); 10] {
        let other = self.unhealthy() + self.changed + self.pending + self.would_change;
        [
            ("ok", self.total.saturating_sub(other)),
            ("changed", self.changed),
            ("pending", self.pending),
            ("would_change", self.would_change),
            ("retrying", self.retrying),
            ("failed", self.failed),
            ("blocked", self.blocked),
            ("flapping", self.flapping),
            ("stale", self.stale),
            ("unknown", self.unknown),
        ]
    }
}

/// Everything that one agent knows about its own health.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostReport {
    /// The graph has been quiet for the convergence timeout, apart from scheduled retries.
    pub quiet: bool,
    /// The whole graph runs under `noop`: nothing is changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub noop: bool,
    /// The program.
    pub program: ProgramState,
    /// The values of the program that have failed or are waited for.
    #[serde(skip_serializing_if = "OpenValues::is_empty")]
    pub values: OpenValues,
    /// The deploy.
    pub deploy: DeployState,
    /// The number of resources in each state.
    pub counts: Counts,
    /// The unhealthy resources, worst first, at most [`crate::MAX_LISTED`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unhealthy: Vec<ResourceReport>,
    /// The number of unhealthy resources that the list leaves out.
    #[serde(skip_serializing_if = "is_zero")]
    pub truncated: u64,
    /// Another agent uses the same host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<DuplicateHost>,
}

/// Two agents that use one host name, as one of them reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DuplicateHost {
    /// Since when this agent knows, in seconds since 1970.
    pub since: u64,
    /// The other agent: its machine, process and start.
    pub other: String,
    /// This agent is the younger one: it keeps managing its host and stores nothing in the host's name.
    pub stands_back: bool,
}

/// The state of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostState {
    /// The program is live and every resource is ok.
    Converged,
    /// Work is under way, and nothing is known to be wrong.
    Working,
    /// At least one resource is failed, retrying, blocked or flapping, or would change and may not.
    Degraded,
    /// The program or the deploy is not the newest: what runs is older than what is asked for.
    Stale,
    /// The host was a member and is gone.
    Lost,
}

impl HostState {
    /// The name of the state, as metrics and JSON use it.
    pub fn name(self) -> &'static str {
        match self {
            HostState::Converged => "converged",
            HostState::Working => "working",
            HostState::Degraded => "degraded",
            HostState::Stale => "stale",
            HostState::Lost => "lost",
        }
    }
}

impl HostReport {
    /// The state that follows from the report. The worst one wins: degraded, stale, working, converged.
    ///
    /// A change that `noop` holds back degrades the host as well: it is not in the declared state, and stays so. The same is true of
    /// a resource that is pending while nothing is under way, because its rate allows no check.
    pub fn state(&self) -> HostState {
        let held_back = self.quiet && self.counts.would_change + self.counts.pending > 0;
        if self.has_failures() || self.duplicate.is_some() || held_back {
            HostState::Degraded
        } else if self.is_outdated() {
            HostState::Stale
        } else if self.quiet && self.program == ProgramState::Live {
            HostState::Converged
        } else {
            HostState::Working
        }
    }

    /// Some resource is failed, retrying, blocked, flapping or in an unknown state.
    pub fn has_failures(&self) -> bool {
        self.counts.failing() + self.counts.blocked + self.counts.flapping + self.counts.unknown > 0
    }

    /// What runs is older than what is asked for: the program, the deploy, or some values.
    pub fn is_outdated(&self) -> bool {
        self.counts.stale > 0 || self.program.is_outdated() || self.deploy.is_outdated()
    }

    /// Quiet, evaluated, nothing failed and nothing outdated. The difference to [`HostState::Converged`] is `noop`: a change that
    /// it holds back is not a failure.
    pub fn is_settled(&self) -> bool {
        let evaluated = self.program == ProgramState::Live;
        self.quiet && evaluated && self.counts.pending == 0 && !self.has_failures() && !self.is_outdated()
    }

    /// The report in one line, such as `degraded: 2 of 30 resources retrying, 1 blocked; deploy 4`.
    pub fn summary(&self) -> String {
        let Counts { total, pending, would_change, .. } = self.counts;
        let unhealthy = ["failed", "retrying", "blocked", "flapping", "stale", "unknown"];
        let mut parts: Vec<String> = Vec::new();
        for (name, count) in self.counts.by_state().iter().filter(|(name, _)| unhealthy.contains(name)) {
            match (*count, parts.is_empty()) {
                (0, _) => {}
                (count, true) => {
                    parts.push(format!("{count} of {} {name}", plural(total, "resource", "resources")));
                }
                (count, false) => parts.push(format!("{count} {name}")),
            }
        }
        if parts.is_empty() {
            parts.push(plural(total, "resource", "resources"));
            if pending > 0 {
                parts.push(format!("{pending} pending"));
            }
        }
        let mut words = format!("{}: {}", self.state().name(), parts.join(", "));
        if self.noop || would_change > 0 {
            words += &format!("; noop, {}", plural(would_change, "change pending", "changes pending"));
        }
        if self.program.is_outdated() {
            words += &format!("; program {}", self.program.name());
        }
        if let Some(deploy) = self.deploy.running {
            words += &format!("; deploy {deploy}");
        }
        if let Some(Instead::Plan { name, .. }) = &self.deploy.instead {
            words += &format!("; plan {name}");
        }
        if let Some(refused) = &self.deploy.refused {
            words += &format!("; {} refused", refused.name());
        } else if let (Some(newest), true) = (self.deploy.newest, self.deploy.lag().is_some()) {
            words += &format!("; newest deploy {newest}");
        }
        if let Some(duplicate) = &self.duplicate {
            words += match duplicate.stands_back {
                true => "; another agent uses this host name, standing back",
                false => "; another agent uses this host name",
            };
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RefusedDeploy;

    fn converged() -> HostReport {
        HostReport { quiet: true, program: ProgramState::Live, ..HostReport::default() }
    }

    #[test]
    fn converged_means_live_quiet_and_all_ok() {
        assert_eq!(converged().state(), HostState::Converged);
        assert_eq!(HostReport::default().state(), HostState::Working);
        assert_eq!(HostReport { quiet: false, ..converged() }.state(), HostState::Working);
        let pending = Counts { pending: 1, ..Counts::default() };
        assert_eq!(HostReport { counts: pending, ..converged() }.state(), HostState::Degraded);
        let working = HostReport { counts: pending, quiet: false, ..converged() };
        assert_eq!(working.state(), HostState::Working);
    }

    #[test]
    fn every_unhealthy_resource_degrades_the_host() {
        for counts in [
            Counts { retrying: 1, ..Counts::default() },
            Counts { failed: 1, ..Counts::default() },
            Counts { blocked: 1, ..Counts::default() },
            Counts { flapping: 1, ..Counts::default() },
        ] {
            assert_eq!(HostReport { counts, ..converged() }.state(), HostState::Degraded);
            assert_eq!(counts.unhealthy(), 1);
        }
    }

    #[test]
    fn an_outdated_program_or_deploy_is_stale() {
        let error = "no such file".to_owned();
        let stale = ProgramState::Stale { since: 1, error: error.clone(), whole: false };
        let invalid = ProgramState::Invalid { since: 1, error: error.clone() };
        for program in [stale, invalid] {
            assert_eq!(HostReport { program, ..converged() }.state(), HostState::Stale);
        }
        let refused = Some(RefusedDeploy { deploy: Some(2), since: 1, error, next: None });
        let deploy = DeployState { running: Some(1), refused, ..DeployState::default() };
        assert_eq!(HostReport { deploy, ..converged() }.state(), HostState::Stale);
        let counts = Counts { stale: 1, ..Counts::default() };
        assert_eq!(HostReport { counts, ..converged() }.state(), HostState::Stale);
    }

    #[test]
    fn changes_that_noop_holds_back_degrade_the_host_and_are_no_failure() {
        let counts = Counts { total: 3, would_change: 2, ..Counts::default() };
        let report = HostReport { counts, noop: true, ..converged() };
        assert_eq!(report.state(), HostState::Degraded);
        assert!(report.is_settled() && !report.has_failures());
        assert_eq!(report.summary(), "degraded: 3 resources; noop, 2 changes pending");
    }

    fn with_newest(mut report: HostReport, newest: u64) -> HostReport {
        report.deploy.newest = Some(newest);
        report
    }

    #[test]
    fn a_host_on_an_older_deploy_is_stale_and_says_why() {
        let deploy = DeployState { running: Some(3), ..DeployState::default() };
        let report = HostReport { deploy, ..converged() };
        assert_eq!(with_newest(report.clone(), 3).state(), HostState::Converged);
        let behind = with_newest(report, 4);
        assert_eq!((behind.state(), behind.is_settled()), (HostState::Stale, false));
        assert_eq!(behind.deploy.lag().unwrap(), "not taken yet");
        assert_eq!(behind.summary(), "stale: 0 resources; deploy 3; newest deploy 4");
        let refused =
            RefusedDeploy { deploy: Some(4), since: 1, error: "disk full".to_owned(), next: Some(9) };
        let deploy = DeployState { running: Some(3), refused: Some(refused), ..DeployState::default() };
        let report = with_newest(HostReport { deploy, ..converged() }, 4);
        assert_eq!(report.deploy.lag().unwrap(), "disk full");
        assert_eq!(with_newest(converged(), 4).state(), HostState::Converged, "a host that takes none");
        let refused = RefusedDeploy { deploy: None, since: 1, error: "not a number".to_owned(), next: None };
        let deploy = DeployState { running: Some(3), refused: Some(refused), ..DeployState::default() };
        let report = with_newest(HostReport { deploy, ..converged() }, 3);
        assert_eq!(report.deploy.lag().unwrap(), "not a number");
        assert_eq!(report.summary(), "stale: 0 resources; deploy 3; the newest deploy refused");
    }

    #[test]
    fn a_host_that_runs_something_else_than_the_newest_deploy_is_stale_and_says_what() {
        let with = |instead| {
            let deploy = DeployState { instead: Some(instead), ..DeployState::default() };
            HostReport { deploy, ..converged() }
        };
        let plan = |newest| with(Instead::Plan { name: "main.mcl".to_owned(), newest });
        assert_eq!(plan(None).state(), HostState::Converged, "nothing was deployed");
        assert_eq!(with_newest(plan(None), 1).state(), HostState::Stale);
        // The agent knows it itself, so its metrics say it.
        assert_eq!(plan(Some(1)).state(), HostState::Stale);
        assert_eq!(with_newest(plan(Some(1)), 1).deploy.lag().unwrap(), "runs a plan (main.mcl)");
        assert_eq!(plan(Some(1)).summary(), "stale: 0 resources; plan main.mcl");
        // A program that is given at the start takes the place of what was deployed before.
        let program = with(Instead::Program { newest: 3 });
        assert_eq!(with_newest(program.clone(), 3).state(), HostState::Converged);
        let behind = with_newest(program.clone(), 4);
        assert_eq!(behind.state(), HostState::Stale);
        assert_eq!(behind.deploy.lag().unwrap(), "runs the program given at the start");
        assert_eq!(behind.summary(), "stale: 0 resources; newest deploy 4");
        let text = serde_json::to_string(&program).unwrap();
        assert_eq!(serde_json::from_str::<HostReport>(&text).unwrap(), program);
        let later = r#"{"deploy":{"instead":{"what":"later","because":"so"}}}"#;
        let later = serde_json::from_str::<HostReport>(later).unwrap();
        assert_eq!(later.deploy.instead, Some(Instead::Unknown));
    }

    #[test]
    fn the_summary_names_every_unhealthy_state() {
        let counts = Counts { total: 30, retrying: 2, blocked: 1, ..Counts::default() };
        let deploy = DeployState { running: Some(4), ..DeployState::default() };
        let report = HostReport { counts, deploy, ..converged() };
        assert_eq!(report.summary(), "degraded: 2 of 30 resources retrying, 1 blocked; deploy 4");
        assert_eq!(counts.by_state().iter().map(|(_, count)| count).sum::<u64>(), 30);
        let counts = Counts { total: 1, ..Counts::default() };
        assert_eq!(HostReport { counts, ..converged() }.summary(), "converged: 1 resource");
        let duplicate = Some(DuplicateHost { stands_back: true, ..DuplicateHost::default() });
        let report = HostReport { counts, duplicate, ..converged() };
        assert_eq!(
            report.summary(),
            "degraded: 1 resource; another agent uses this host name, standing back"
        );
    }

    #[test]
    fn reports_survive_the_store_and_older_ones_are_read() {
        let report = HostReport {
            unhealthy: vec![ResourceReport {
                resource: "file[/srv/x]".to_owned(),
                since: 7,
                state: crate::ResourceState::Retrying { next: 9, attempt: 2, error: "no parent".to_owned() },
            }],
            ..converged()
        };
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<HostReport>(&text).unwrap(), report);
        assert_eq!(serde_json::from_str::<HostReport>("{}").unwrap(), HostReport::default());
        // A state that a later version adds is one that this one does not know.
        let later = r#"{"unhealthy":[{"resource":"x[y]","since":1,"state":"later","because":"so"}]}"#;
        let later = serde_json::from_str::<HostReport>(later).unwrap();
        assert_eq!(later.unhealthy[0].state, crate::ResourceState::Unknown);
    }
}
