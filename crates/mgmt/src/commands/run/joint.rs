//! A program and a manifest as one graph: whenever either gives another graph, the two newest are joined.
//!
//! The newest graph of each side is kept behind one lock, which is held from the moment that a graph is put there until the engine
//! has the result. So the engine is given results in the order of what they were made of, and the last of them is made of the
//! newest of both sides: there is no moment at which a graph could be missed. A side that has a mistake gives no graph, and its last one
//! stays; two graphs that cannot be joined stay, too, until another of either side fits.

use std::sync::{Arc, PoisonError};

use mgmt_engine::SwapReport;
use mgmt_health::{OpenValues, ProgramState};
use mgmt_puppet::{Half, Merged, merge};
use mgmt_resource::ResourceGraph;
use tokio::sync::{Mutex, oneshot, watch};

use super::follow::Triggers;
use super::{Means, Unswapped, program, puppet};
use crate::commands::exit_codes;
use crate::failure::Failure;
use crate::manifest::{Errors, Manifest};

/// A program and a manifest that can run.
#[derive(Clone)]
pub(super) struct Loaded {
    pub(super) program: program::Loaded,
    pub(super) manifest: puppet::Loaded,
    pub(super) allow_unmatched: bool,
}

impl Loaded {
    /// The graph of both, with this one of the program. Nothing, if they do not fit or the manifest has none yet.
    pub(super) fn merge(&self, program: &ResourceGraph) -> Option<ResourceGraph> {
        let manifest = self.manifest.graph()?;
        let [program, manifest] =
            [(program, "program"), (manifest, "manifest")].map(|(graph, name)| Half { graph, name });
        merge(program, manifest, self.allow_unmatched).graph
    }
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Program,
    Manifest,
}

/// The newest graph of each side, and where what comes of them goes.
pub(super) struct Joint {
    /// Held while the engine takes a graph, so that a later one cannot overtake it.
    newest: Mutex<Newest>,
    /// How it went when there was a graph of each side for the first time.
    first: watch::Sender<Option<Result<SwapReport, Unswapped>>>,
    /// The state of each side that has reported one. Locked for an assignment only.
    states: std::sync::Mutex<[Option<(ProgramState, OpenValues)>; 2]>,
    manifest: Manifest,
    allow_unmatched: bool,
}

#[derive(Default)]
struct Newest {
    program: Option<Named>,
    manifest: Option<Named>,
}

struct Named {
    graph: ResourceGraph,
    name: String,
}

impl Named {
    fn half(&self) -> Half<'_> {
        Half { graph: &self.graph, name: &self.name }
    }
}

impl Newest {
    /// Keeps a graph, and joins it with the newest of the other side, if there is one.
    fn give(&mut self, side: Side, graph: Named, allow_unmatched: bool) -> Option<Merged> {
        match side {
            Side::Program => self.program = Some(graph),
            Side::Manifest => self.manifest = Some(graph),
        }
        let (program, manifest) = (self.program.as_ref()?, self.manifest.as_ref()?);
        Some(merge(program.half(), manifest.half(), allow_unmatched))
    }
}

impl Joint {
    /// Notes the state of a side. Gives the worse of both, which is that of the whole, and the values of both.
    pub(super) fn state(
        &self,
        side: Side,
        state: ProgramState,
        values: OpenValues,
    ) -> (ProgramState, OpenValues) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states[match side {
            Side::Program => 0,
            Side::Manifest => 1,
        }] = Some((state, values));
        let badness = |state: &&ProgramState| match state {
            ProgramState::Live => 0,
            ProgramState::Starting => 1,
            ProgramState::Waiting { .. } => 2,
            ProgramState::Stale { .. } => 3,
            ProgramState::Invalid { .. } => 4,
        };
        let worst = states.iter().flatten().map(|(state, _)| state).max_by_key(badness);
        let values = states.iter().flatten().map(|(_, values)| values.clone());
        (worst.cloned().unwrap_or_default(), values.fold(OpenValues::default(), OpenValues::merged))
    }

    /// Takes the newest graph of a side. Waits for the other side if it has not given one yet.
    pub(super) async fn give(
        &self,
        side: Side,
        name: &str,
        graph: ResourceGraph,
        means: &Means,
    ) -> Result<SwapReport, Unswapped> {
        let graph = Named { graph, name: name.to_owned() };
        let show = |merged: &Merged| {
            self.manifest.show(&merged.diagnostics, &means.terminal, Errors::Always);
        };
        self.join(side, graph, show, |graph| means.hand(graph)).await
    }

    /// Joins the graph of a side with the newest of the other, and hands on the result before anything else is joined.
    async fn join<H: Future<Output = Result<SwapReport, Unswapped>>>(
        &self,
        side: Side,
        graph: Named,
        show: impl FnOnce(&Merged),
        hand: impl FnOnce(ResourceGraph) -> H,
    ) -> Result<SwapReport, Unswapped> {
        let mut first = self.first.subscribe();
        let mut newest = self.newest.lock().await;
        let Some(merged) = newest.give(side, graph, self.allow_unmatched) else {
            drop(newest);
            // The sender is part of what this is a method of.
            return match first.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(outcome)) => outcome.clone(),
                _ => Err(Unswapped::Stopped),
            };
        };
        show(&merged);
        let outcome = match merged.graph {
            Some(graph) => hand(graph).await,
            None => {
                let first = merged.diagnostics.iter().find(|found| found.is_error());
                let reason = first.map_or("the program and the manifest do not fit", |first| &first.message);
                Err(Unswapped::Refused(Failure::shown_as(exit_codes::USAGE, reason)))
            }
        };
        self.first
            .send_if_modified(|first| first.is_none().then(|| *first = Some(outcome.clone())).is_some());
        outcome
    }
}

/// Brings the graphs of both to the engine.
pub(super) struct Follower {
    pub(super) means: Means,
    pub(super) loaded: Loaded,
}

impl Follower {
    /// Runs both, tells how their first graph went, and goes on until it is aborted.
    pub(super) async fn follow(self, triggers: Triggers, started: oneshot::Sender<Result<(), Failure>>) {
        let Follower { means, loaded: Loaded { program, manifest, allow_unmatched } } = self;
        let joint = Arc::new(Joint {
            newest: Mutex::default(),
            first: watch::Sender::new(None),
            states: std::sync::Mutex::default(),
            manifest: manifest.manifest.clone(),
            allow_unmatched,
        });
        let half = |side| Means { half: Some((side, Arc::clone(&joint))), ..means.clone() };
        let sides = [Triggers::new(program.is_in_files()), Triggers::new(true)];
        let (told, program_started) = oneshot::channel();
        let follower = program::Follower { means: half(Side::Program), loaded: program };
        let following_program = follower.follow(sides[0].clone(), told);
        let (told, manifest_started) = oneshot::channel();
        let follower = puppet::Follower { means: half(Side::Manifest), loaded: manifest };
        let following_manifest = follower.follow(sides[1].clone(), told);
        // One side may be over, if nothing can change there; both end with this.
        let both = async {
            tokio::join!(following_program, following_manifest);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = lead(sides, [program_started, manifest_started], triggers, started) => {}
            () = both => {}
        }
    }
}

type Started = oneshot::Receiver<Result<(), Failure>>;

/// Tells how the first graph of both went, and has both read again whenever that is asked for.
async fn lead(
    sides: [Triggers; 2],
    [program, manifest]: [Started; 2],
    triggers: Triggers,
    started: oneshot::Sender<Result<(), Failure>>,
) {
    // What is wrong with one is known before the other is there.
    let outcome = match tokio::try_join!(outcome(program), outcome(manifest)) {
        Ok(_) => Ok(()),
        Err(Some(failure)) => Err(failure),
        // The engine has ended.
        Err(None) => return,
    };
    let goes_on = outcome.is_ok();
    // The session may be gone already.
    let _ = started.send(outcome);
    if !goes_on {
        return;
    }
    loop {
        triggers.asked().await;
        for side in &sides {
            side.reload();
        }
    }
}

async fn outcome(started: Started) -> Result<(), Option<Failure>> {
    match started.await {
        Ok(outcome) => outcome.map_err(Some),
        Err(_) => Err(None),
    }
}

#[cfg(test)]
mod tests {
    use mgmt_resource::{Edge, Id, Spec};
    use tokio::task::JoinSet;

    use super::*;

    fn noop(name: &str) -> Spec {
        Spec::of(name, (mgmt_resources::KINDS.get("noop").unwrap().make)().into())
    }

    /// A program that hands over, and says which version it is.
    fn program(version: usize) -> Named {
        let mut graph = ResourceGraph::new();
        let (first, last) = (graph.add_node(noop(&format!("p{version}"))), graph.add_node(noop("puppet_x")));
        graph.set_edge(first, last, Edge::ORDER);
        Named { graph, name: "program".to_owned() }
    }

    fn manifest(version: usize) -> Named {
        let mut graph = ResourceGraph::new();
        let mut add = |name: &str| graph.add_node(noop(name));
        let names = ["admissible_Stage[main]", "admissible_Class[Mgmt_x]", "completed_Class[Mgmt_x]"];
        let [start, begin, end] = names.map(&mut add);
        let last = add(&format!("m{version}"));
        for (from, to) in [(start, begin), (begin, end), (end, last)] {
            graph.set_edge(from, to, Edge::ORDER);
        }
        Named { graph, name: "manifest".to_owned() }
    }

    fn names(graph: &ResourceGraph) -> Vec<String> {
        let mut names: Vec<String> =
            graph.nodes().map(|(_, spec)| spec.id.name.to_text().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn either_side_may_update_alone_for_ever_and_the_result_is_made_of_the_newest_of_both() {
        let mut newest = Newest::default();
        assert!(newest.give(Side::Program, program(0), false).is_none());
        let mut state = 7_u64;
        let (mut ours, mut theirs) = (0, 0);
        for step in 1..=1000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let merged = if step == 1 || state >> 63 == 0 {
                theirs = step;
                newest.give(Side::Manifest, manifest(step), false)
            } else {
                ours = step;
                newest.give(Side::Program, program(step), false)
            };
            let merged = merged.unwrap();
            assert!(merged.diagnostics.is_empty(), "{:?}", merged.diagnostics);
            let graph = merged.graph.unwrap();
            let mut expected = [format!("p{ours}"), format!("m{theirs}"), START.to_owned(), "x".to_owned()];
            expected.sort();
            assert_eq!(names(&graph), expected);
            assert!(graph.nodes().any(|(_, spec)| spec.id == Id::new("noop", "x")));
        }
        const START: &str = "admissible_Stage[main]";
    }

    #[test]
    fn the_values_of_both_sides_are_reported_with_the_worse_state() {
        let joint = Joint {
            newest: Mutex::default(),
            first: watch::Sender::new(None),
            states: std::sync::Mutex::default(),
            manifest: Manifest::new(std::ffi::OsStr::new("notify { 'x': }"), &Default::default(), false)
                .unwrap(),
            allow_unmatched: false,
        };
        let value = mgmt_health::PendingValue {
            expression: "x".to_owned(),
            position: "main.mcl:1:1".to_owned(),
            since: 7,
            frozen: vec!["file[/x]".to_owned()],
            missing: Vec::new(),
        };
        let values = OpenValues { pending: vec![value], ..OpenValues::default() };
        joint.state(Side::Program, ProgramState::Waiting { since: 7 }, values.clone());
        let invalid = ProgramState::Invalid { since: 9, error: "syntax".to_owned() };
        let whole = joint.state(Side::Manifest, invalid.clone(), OpenValues::default());
        assert_eq!(whole, (invalid, values));
    }

    #[test]
    fn what_does_not_fit_is_kept_until_the_other_side_fits_again() {
        let mut newest = Newest::default();
        newest.give(Side::Program, program(1), false);
        assert!(newest.give(Side::Manifest, manifest(1), false).unwrap().graph.is_some());
        let mut other = program(2);
        let noop_at = other.graph.nodes().find(|(_, spec)| spec.id.name == "puppet_x").unwrap().0;
        other.graph.node_mut(noop_at).unwrap().id = Id::new("noop", "puppet_y");
        assert!(newest.give(Side::Program, other, false).unwrap().graph.is_none());
        // The other side follows with the same name.
        let mut theirs = manifest(2);
        for (_, spec) in theirs.graph.nodes_mut() {
            let name = spec.id.name.to_text().replace("Mgmt_x", "Mgmt_y");
            spec.id = Id::new("noop", name.as_str());
        }
        let merged = newest.give(Side::Manifest, theirs, false).unwrap().graph.unwrap();
        assert!(names(&merged).contains(&"p2".to_owned()) && names(&merged).contains(&"y".to_owned()));
    }
    /// Both sides give what they have whenever they want, at the same time; whoever takes it may be slow.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn two_sides_that_race_lose_no_update_and_none_is_overtaken() {
        const UPDATES: usize = 1000;
        let manifest_of =
            Manifest::new(std::ffi::OsStr::new("notify { 'x': }"), &Default::default(), false).unwrap();
        let joint = Arc::new(Joint {
            newest: Mutex::default(),
            first: watch::Sender::new(None),
            states: std::sync::Mutex::default(),
            manifest: manifest_of,
            allow_unmatched: false,
        });
        // What the engine was given: the version of each side.
        let handed = Arc::new(std::sync::Mutex::new(Vec::<(usize, usize)>::new()));
        let mut sides = JoinSet::new();
        for (side, make) in
            [(Side::Program, program as fn(usize) -> Named), (Side::Manifest, manifest as fn(usize) -> Named)]
        {
            let (joint, handed) = (Arc::clone(&joint), Arc::clone(&handed));
            sides.spawn(async move {
                let mut state = side as u64 + 3;
                let mut random = move || {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    state >> 60
                };
                for version in 1..=UPDATES {
                    for _ in 0..random() {
                        tokio::task::yield_now().await;
                    }
                    let (slow, to) = (random(), Arc::clone(&handed));
                    let hand = |graph: ResourceGraph| async move {
                        let found = names(&graph);
                        let version = |letter: char| -> usize {
                            let own = found.iter().filter_map(|name| name.strip_prefix(letter)?.parse().ok());
                            own.max().unwrap()
                        };
                        for _ in 0..slow {
                            tokio::task::yield_now().await;
                        }
                        to.lock().unwrap().push((version('p'), version('m')));
                        Ok(SwapReport::default())
                    };
                    joint
                        .join(side, make(version), |merged| assert!(merged.diagnostics.is_empty()), hand)
                        .await
                        .unwrap();
                    // Whoever has given something is told when it runs, or something newer.
                    let last = *handed.lock().unwrap().last().unwrap();
                    assert!(if side == Side::Program { last.0 } else { last.1 } >= version);
                }
            });
        }
        while let Some(ended) = sides.join_next().await {
            ended.unwrap();
        }
        let handed = handed.lock().unwrap();
        assert_eq!(handed.last(), Some(&(UPDATES, UPDATES)));
        assert!(
            handed.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1),
            "one went back"
        );
        // Each update runs by itself, but for the one that waited for the first of the other side.
        assert_eq!(handed.len(), 2 * UPDATES - 1);
    }
}
