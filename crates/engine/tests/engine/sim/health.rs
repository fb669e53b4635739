//! The health model, fed as the agent feeds it.

use mgmt_engine::core::{Action, Core, Outcome, Vertex};
use mgmt_health::{HostState, OpenValues, ProgramState, ResourceState, Tracker};

use super::oracle::Oracle;

#[derive(Default)]
pub(crate) struct Health {
    tracker: Tracker<u32>,
}

impl Health {
    /// `ended`: a run of this vertex has, like this.
    pub(crate) fn observe(&mut self, ended: Option<(usize, Outcome)>, actions: &[Action], oracle: &Oracle) {
        let failed = |attempt| ResourceState::Failed { attempt, error: "told so".to_owned() };
        let retrying = |attempt| ResourceState::Retrying { next: 0, attempt, error: "told so".to_owned() };
        let tracker = &mut self.tracker;
        if let Some((id, outcome)) = ended {
            let unwatched = oracle.node(id).is_some_and(|node| node.is_watch_failing());
            match outcome {
                // Without its watch it is failing, whatever the run has found.
                Outcome::Right | Outcome::Changed | Outcome::Forwarded if unwatched => {}
                Outcome::Right | Outcome::Changed | Outcome::Forwarded => {
                    tracker.resource(&(id as u32), ResourceState::Ok, 0);
                }
                Outcome::Held => tracker.resource(&(id as u32), failed(1), 0),
                Outcome::Failed | Outcome::Cancelled => {}
            }
        }
        for action in actions {
            match action {
                Action::Retry(vertex, _, attempt) => tracker.resource(&vertex.0, retrying(*attempt), 0),
                Action::Failed(vertex, attempt) => tracker.resource(&vertex.0, failed(*attempt), 0),
                Action::Converged => tracker.quiet(true, true),
                Action::Quiet { .. } => tracker.quiet(true, false),
                Action::Diverged => tracker.quiet(false, false),
                _ => {}
            }
        }
        // What passes without a run, or is gone, is not reported.
        let reported =
            |id: &u32| oracle.node(*id as usize).is_some_and(|node| node.is_open() && node.has_work());
        let there: Vec<u32> = (0..oracle.nodes.len() as u32).filter(reported).collect();
        tracker.graph(&mut there.iter());
        tracker.program(ProgramState::Live, OpenValues::default());
    }

    /// What is reported is what is true.
    pub(crate) fn compare(&mut self, core: &Core, oracle: &Oracle) {
        if oracle.paused || oracle.stopping.is_some() || oracle.settings.converge_after.is_none() {
            return;
        }
        let standing = core.standing();
        // What passes without a run is not counted, and a resource has one state.
        let counted = |vertex: &Vertex| {
            let node = oracle.node(vertex.0 as usize);
            node.is_some_and(|node| node.is_open() && node.has_work())
                && self.tracker.state_of(&vertex.0).is_none()
        };
        let pending = standing.pending.iter().filter(|vertex| counted(vertex)).count() as u64;
        let blocked = standing.blocked.iter().filter(|(vertex, _)| counted(vertex));
        let blocked: Vec<_> = blocked.map(|(vertex, by)| (vertex.0.to_string(), by.0.to_string())).collect();
        self.tracker.blocked(blocked, 0);
        self.tracker.pending(pending);
        let report = self.tracker.report();
        let converged = report.state() == HostState::Converged;
        // What is on its way out is not reported, and comes to its end before the graph has converged.
        let leaves = oracle.nodes.iter().flatten().any(|node| !node.is_open());
        assert!(converged == core.is_converged() || (converged && leaves), "{report:?}");
        assert!(report.quiet || report.state() != HostState::Converged, "{report:?}");
        assert_eq!(report.counts.by_state().iter().map(|(_, count)| count).sum::<u64>(), report.counts.total);
        for (id, node) in oracle.nodes.iter().enumerate() {
            let Some(node) = node.as_ref().filter(|node| node.is_open() && node.has_work()) else { continue };
            let state = self.tracker.state_of(&(id as u32));
            let reported =
                matches!(state, Some(ResourceState::Retrying { .. } | ResourceState::Failed { .. }));
            // Another declaration is no success, so no swap hides a failure.
            let fails = node.is_failing() || node.owes_success;
            assert!(reported || !fails, "the failure of {id} is not reported: {report:?}");
            // The id may be that of another vertex by now, which has not run yet.
            let open = !node.succeeded || node.dirty || node.running.is_some();
            let fails = node.is_failing() || node.owes_success || open;
            assert!(!reported || fails, "{id} is reported as failing, and is not: {report:?}");
        }
    }
}
