//! What a graph would change on this host, resource by resource, without changing anything.
//!
//! Each resource is asked to look, in an order in which everything comes after what it needs. What it says it would do is
//! noted, so that those after it can build on it: a notification that would come, a file that would be there. A line is
//! as certain as what it rests on:
//!
//! - **exact**: nothing before it would change, so it is looked at as a run would look at it;
//! - **predicted**: something before it would change, and it was told what of that is known; or something without an order
//!   to it would change the same, or what it reads, or needs room that both together do not have, and it was told what of that is
//!   known if that comes first; or it is asked of the kernel, a daemon or a tool, which may refuse;
//! - **unknown**: a command would run, or a value would come from one, and only that can tell.
//!
//! A resource that needs something which is missing, and which nothing before it would bring, will fail; everything after it is
//! blocked, as in a run.
//!
//! Deliberately absent: watching, retries, limits. One look at each, one after the other.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Zoned;
use mgmt_graph::{Dag, NodeId};
use mgmt_resource::{
    Before, Cancel, Checked, Edge, Effect, Foreseen, GraphView, Host, Id, Origin, Sent, Spec, Window, held,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::node::{Live, specs};
use super::overlap::{Reach, depends_on_luck};
use super::run::{Job, Member, Order};
use super::swap::View;
use super::witness::MemberEffects;
use crate::core::{Pool, Run, Vertex};
use crate::journal::LastRuns;
use crate::prepare::Prepared;

/// What a graph would change.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// One for each resource that runs, in the order of dependencies.
    pub steps: Vec<Step>,
}

/// What a resource, with its group, would change.
#[derive(Clone, Debug)]
pub struct Step {
    /// Which.
    pub id: Id,
    /// Where it is declared.
    pub origin: Option<Origin>,
    /// What it rests on.
    pub rests_on: Certainty,
    /// What it would change; nothing if all is right.
    pub effects: Vec<MemberEffects>,
    /// Why it will fail, or why that cannot be told.
    pub error: Option<StepError>,
    /// The resource before it that will fail, because of which it will not run.
    pub blocked_by: Option<Id>,
    /// Why it is not looked at now: its window is not open.
    pub held: Option<String>,
    /// It only looks, in a run, too.
    pub noop: bool,
    /// It is no longer declared, and is undone.
    pub is_reversal: bool,
}

/// An error while a resource was looked at.
#[derive(Clone, Debug)]
pub struct StepError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// A run would fail with it. If not, something before it may mend it.
    pub is_certain: bool,
}

/// How certain a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// That is what a run would do.
    Exact,
    /// That is what a run would do, if what comes before it goes as foreseen, and what may come before it comes in this order.
    Predicted,
    /// Nobody can tell beforehand.
    Unknown,
}

impl Certainty {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Certainty::Exact => "exact",
            Certainty::Predicted => "predicted",
            Certainty::Unknown => "unknown",
        }
    }
}

impl Step {
    /// How certain one of its effects is.
    pub fn certainty(&self, effect: &Effect) -> Certainty {
        match effect {
            Effect { opaque: true, .. } => Certainty::Unknown,
            Effect { presumed: true, .. } => self.rests_on.max(Certainty::Predicted),
            _ => self.rests_on,
        }
    }

    /// It would change something.
    pub fn is_change(&self) -> bool {
        !self.effects.is_empty() && !self.noop
    }

    fn new(spec: &Spec) -> Step {
        Step {
            id: spec.id.clone(),
            origin: spec.origin.clone(),
            rests_on: Certainty::Exact,
            effects: Vec::new(),
            error: None,
            blocked_by: None,
            held: None,
            noop: spec.meta.noop,
            is_reversal: spec.is_reversal,
        }
    }
}

/// Looks at every resource of a graph, and changes nothing. The host is given over: its view becomes that graph. `last` is when
/// resources ran that may run at some times only.
pub async fn plan(prepared: Prepared, host: &Arc<Host>, last: &LastRuns) -> Plan {
    let is_complete = Arc::new(AtomicBool::new(!prepared.incomplete));
    let graph: Dag<Arc<Spec>, Edge> = prepared.graph.into_map(|_, spec| Arc::new(spec), |_, _, edge| edge);
    // A graph that was prepared has no cycles.
    let order = graph.topological_order().unwrap_or_default();
    let graph = Arc::new(RwLock::new(graph));
    let view: Arc<dyn GraphView> =
        Arc::new(View { graph: Arc::clone(&graph), is_complete, version: Arc::default() });
    *host.view.write().unwrap_or_else(PoisonError::into_inner) = Some(view);
    let mut planner = Planner {
        host: Arc::clone(host),
        foreseen: Arc::default(),
        sent: FxHashMap::default(),
        touched: FxHashMap::default(),
        reach: Vec::new(),
        failed: FxHashMap::default(),
    };
    let mut plan = Plan::default();
    for &node in &order {
        let found = {
            let graph = graph.read().unwrap_or_else(PoisonError::into_inner);
            graph.node(node).filter(|spec| !spec.meta.hidden).map(|spec| {
                let before =
                    graph.predecessors(node).map(|(from, edge)| (from, edge.notify)).collect::<Vec<_>>();
                (Arc::clone(spec), before)
            })
        };
        let Some((spec, before)) = found else { continue };
        if let Some(by) = before.iter().find_map(|(from, _)| planner.failed.get(from)).cloned() {
            plan.steps.push(planner.blocked(node, &spec, by));
            continue;
        }
        if let Some(why) = held_back(&spec, last) {
            plan.steps.push(planner.pass(node, &spec, &before, why));
            continue;
        }
        plan.steps.push(planner.step(node, spec, &before).await);
    }
    let graph = graph.read().unwrap_or_else(PoisonError::into_inner);
    lower(&mut plan.steps, &planner.reach, &graph, &order, &planner.foreseen);
    plan
}

/// Why a resource is not looked at now, if it is not.
fn held_back(spec: &Spec, last: &LastRuns) -> Option<String> {
    let window = Window::parse(&spec.meta.window).ok()??;
    let now = Zoned::now();
    let opens = window.opens(last.of(&spec.id), &now);
    let is_open = opens.is_some_and(|opens| opens <= now.timestamp());
    (!is_open).then(|| held(&spec.meta.window, opens, &now))
}

/// What may go differently, because something else may go first, is predicted at best, and so is all that comes after it.
fn lower(
    steps: &mut [Step],
    reach: &[(NodeId, Reach)],
    graph: &Dag<Arc<Spec>, Edge>,
    order: &[NodeId],
    foreseen: &Foreseen,
) {
    let mut lucky = depends_on_luck(graph, reach);
    for (lucky, step) in lucky.iter_mut().zip(steps.iter()) {
        let mut effects = step.effects.iter().flat_map(|member| &member.effects);
        *lucky |= effects.any(|effect| foreseen.may_not_fit(effect.what.as_bytes()));
    }
    let step_of: FxHashMap<NodeId, usize> =
        reach.iter().enumerate().map(|(step, (node, _))| (*node, step)).collect();
    let mut unsure = FxHashSet::default();
    for node in order {
        let step = step_of.get(node);
        if step.is_some_and(|step| lucky[*step])
            || graph.predecessors(*node).any(|(from, _)| unsure.contains(&from))
        {
            unsure.insert(*node);
            if let Some(step) = step.and_then(|step| steps.get_mut(*step)) {
                step.rests_on = step.rests_on.max(Certainty::Predicted);
            }
        }
    }
}

struct Planner {
    host: Arc<Host>,
    foreseen: Arc<Foreseen>,
    /// What resources would send, and whether that is what they have sent before a change of theirs.
    sent: FxHashMap<Id, (Sent, Certainty)>,
    /// What each resource would do to those after it.
    touched: FxHashMap<NodeId, Touch>,
    /// What each has to do with, one for each step.
    reach: Vec<(NodeId, Reach)>,
    /// Those that will fail, and those that are blocked: by which resource.
    failed: FxHashMap<NodeId, Id>,
}

#[derive(Clone, Copy, Default)]
struct Touch {
    /// It would change something itself.
    changes: bool,
    /// It, or something before it, would.
    stirs: bool,
    /// It, or something before it, would run a command or install a package, which may bring anything.
    brings_anything: bool,
}

/// Kinds whose changes bring more than they describe: files, accounts, units. A new user may have a home.
const BRINGS_ANYTHING: [&str; 5] = ["pkg", "pippet", "remote", "nspawn", "user"];

impl Planner {
    /// A resource that is left alone. Those after it wait for those before it nevertheless.
    fn pass(&mut self, node: NodeId, spec: &Spec, before: &[(NodeId, bool)], why: String) -> Step {
        let before = self.before(before);
        self.touch(
            node,
            Touch { changes: false, stirs: before.changes, brings_anything: before.brings_anything },
        );
        Step { held: Some(why), ..Step::new(spec) }
    }

    /// A resource that does not run, because one before it fails.
    fn blocked(&mut self, node: NodeId, spec: &Spec, by: Id) -> Step {
        self.touch(node, Touch::default());
        self.failed.insert(node, by.clone());
        Step { blocked_by: Some(by), ..Step::new(spec) }
    }

    /// Notes a step that has to do with nothing.
    fn touch(&mut self, node: NodeId, touch: Touch) {
        self.touched.insert(node, touch);
        self.reach.push((node, Reach::default()));
    }

    fn before(&self, before: &[(NodeId, bool)]) -> Before {
        let mut all = Before::default();
        for touch in before.iter().filter_map(|(from, _)| self.touched.get(from)) {
            all.changes |= touch.stirs;
            all.brings_anything |= touch.brings_anything;
        }
        all
    }

    async fn step(&mut self, node: NodeId, spec: Arc<Spec>, edges: &[(NodeId, bool)]) -> Step {
        let before = self.before(edges);
        let refreshable = specs(&spec).any(|spec| spec.resource.schema().traits.refresh);
        let notified =
            edges.iter().any(|(from, notify)| *notify && self.touched.get(from).is_some_and(|t| t.changes));
        let mut rests_on = if before.changes { Certainty::Predicted } else { Certainty::Exact };
        let (members, received) = match self.members(&spec) {
            Ok(found) => found,
            Err(message) => {
                self.touch(node, Touch { changes: false, stirs: true, brings_anything: true });
                let error = Some(StepError { message, hint: None, is_certain: false });
                return Step { rests_on: Certainty::Unknown, error, ..Step::new(&spec) };
            }
        };
        rests_on = rests_on.max(received);
        let mut reach = Reach::default();
        for (spec, member) in specs(&spec).zip(&members) {
            reach.reads(&spec.id.name, &*member.effective);
        }
        Arc::make_mut(&mut self.foreseen).begin(before);
        let run = Run {
            vertex: Vertex(0),
            incarnation: 0,
            apply: false,
            refresh: refreshable && notified,
            pool: Pool::Waiting,
            polled: false,
        };
        let order = Order {
            run,
            spec: Arc::clone(&spec),
            cancel: Cancel::default(),
            host: Arc::clone(&self.host),
            export: None,
            snapshot: false,
            // What only looks in a run looks here as it does there.
            foreseen: (!spec.meta.noop).then(|| Arc::clone(&self.foreseen)),
        };
        let done = Job { order, members }.run().await;
        let effects = match &done.result {
            Ok(Checked::Changed) => super::finish::members(&spec, done.effects),
            _ => Vec::new(),
        };
        let opaque = effects.iter().flat_map(|member| &member.effects).any(|effect| effect.opaque);
        for (spec, sent) in specs(&spec).zip(done.sent) {
            if let Some(sent) = sent {
                let certainty = if opaque { Certainty::Unknown } else { rests_on };
                self.sent.insert(spec.id.clone(), (sent, certainty));
            }
        }
        let error = done.result.as_ref().err().map(|error| StepError {
            message: error.to_string(),
            hint: error.hint().map(ToOwned::to_owned),
            // What is received from a command may be another value by then.
            is_certain: received != Certainty::Unknown && (!before.changes || self.foreseen.has_denied()),
        });
        if error.as_ref().is_some_and(|error| error.is_certain) {
            self.failed.insert(node, spec.id.clone());
        }
        let changes = !effects.is_empty() || matches!(done.result, Ok(Checked::Forwarded));
        // What only looks changes nothing for those after it.
        let changes = changes && !spec.meta.noop;
        if changes {
            effects.iter().for_each(|member| Arc::make_mut(&mut self.foreseen).note(&member.effects));
            reach.writes(&effects);
        }
        self.reach.push((node, reach));
        let brings = changes && (opaque || BRINGS_ANYTHING.contains(&spec.id.kind));
        let open = error.as_ref().is_some_and(|error| !error.is_certain);
        let touch = Touch {
            changes,
            stirs: changes || before.changes || open,
            brings_anything: brings || before.brings_anything || open,
        };
        self.touched.insert(node, touch);
        Step { rests_on, effects, error, ..Step::new(&spec) }
    }

    /// A resource and its group with what they would receive, and how certain that is.
    fn members(&self, spec: &Spec) -> Result<(Vec<Member>, Certainty), String> {
        let mut certainty = Certainty::Exact;
        let mut members = Vec::new();
        for spec in specs(spec) {
            let mut live = Live::new(spec);
            for (index, receive) in spec.receives.iter().enumerate() {
                let known = self.sent.get(&receive.from);
                let value = known.and_then(|(sent, _)| sent.iter().find(|(name, _)| *name == receive.key));
                let (Some((_, value)), Some((_, sure))) = (value, known) else {
                    return Err(format!(
                        "`{}` comes from {}, which has sent nothing yet",
                        receive.field, receive.from
                    ));
                };
                certainty = certainty.max(*sure);
                live.receive(spec, index, value)?;
            }
            members.push(live.into_member(spec));
        }
        Ok((members, certainty))
    }
}
