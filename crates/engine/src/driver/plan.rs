//! What a graph would change on this host, resource by resource, without changing anything.
//!
//! Each resource is asked to look, in an order in which everything comes after what it needs. What it says it would do is
//! noted, so that those after it can build on it: a notification that would come, a file that would be there. A line is
//! as certain as what it rests on:
//!
//! - **exact**: nothing before it would change, so it is looked at as a run would look at it;
//! - **predicted**: something before it would change, and it was told what of that is known; or something without an order
//!   to it would change the same, or what it reads, and it was told what of that is known if that comes first;
//! - **unknown**: a command would run, or a value would come from one, and only that can tell.
//!
//! Deliberately absent: watching, retries, limits. One look at each, one after the other.

use std::sync::{Arc, PoisonError, RwLock};

use jiff::Zoned;
use mgmt_graph::{Dag, NodeId};
use mgmt_resource::{
    Cancel, Checked, Edge, Effect, Error, Foreseen, GraphView, Host, Id, Origin, Sent, Spec, Window, held,
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
    /// Why that cannot be told.
    pub error: Option<String>,
    /// Why it is not looked at now: its window is not open.
    pub held: Option<String>,
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
        if effect.opaque { Certainty::Unknown } else { self.rests_on }
    }

    /// It would change something.
    pub fn is_change(&self) -> bool {
        !self.effects.is_empty()
    }
}

/// Looks at every resource of a graph, and changes nothing. The host is given over: its view becomes that graph. `last` is when
/// resources ran that may run at some times only.
pub async fn plan(prepared: Prepared, host: &Arc<Host>, last: &LastRuns) -> Plan {
    let graph: Dag<Arc<Spec>, Edge> = prepared.graph.into_map(|_, spec| Arc::new(spec), |_, _, edge| edge);
    // A graph that was prepared has no cycles.
    let order = graph.topological_order().unwrap_or_default();
    let graph = Arc::new(RwLock::new(graph));
    let view: Arc<dyn GraphView> = Arc::new(View(Arc::clone(&graph)));
    *host.view.write().unwrap_or_else(PoisonError::into_inner) = Some(view);
    let mut planner = Planner {
        host: Arc::clone(host),
        foreseen: Arc::default(),
        sent: FxHashMap::default(),
        touched: FxHashMap::default(),
        reach: Vec::new(),
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
        if let Some(why) = held_back(&spec, last) {
            plan.steps.push(planner.pass(node, &spec, &before, why));
            continue;
        }
        plan.steps.push(planner.step(node, spec, &before).await);
    }
    let graph = graph.read().unwrap_or_else(PoisonError::into_inner);
    lower(&mut plan.steps, &planner.reach, &graph, &order);
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
fn lower(steps: &mut [Step], reach: &[(NodeId, Reach)], graph: &Dag<Arc<Spec>, Edge>, order: &[NodeId]) {
    let lucky = depends_on_luck(graph, reach);
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
}

#[derive(Clone, Copy, Default)]
struct Touch {
    /// It would change something itself.
    changes: bool,
    /// It, or something before it, would.
    stirs: bool,
}

impl Planner {
    /// A resource that is left alone. Those after it wait for those before it nevertheless.
    fn pass(&mut self, node: NodeId, spec: &Spec, before: &[(NodeId, bool)], why: String) -> Step {
        let stirs = before.iter().any(|(from, _)| self.touched.get(from).is_some_and(|touch| touch.stirs));
        self.touched.insert(node, Touch { changes: false, stirs });
        self.reach.push((node, Reach::default()));
        let (id, origin, rests_on) = (spec.id.clone(), spec.origin.clone(), Certainty::Exact);
        Step { id, origin, rests_on, effects: Vec::new(), error: None, held: Some(why) }
    }

    async fn step(&mut self, node: NodeId, spec: Arc<Spec>, before: &[(NodeId, bool)]) -> Step {
        let touch = |from: &NodeId| self.touched.get(from).copied().unwrap_or_default();
        let stirred = before.iter().any(|(from, _)| touch(from).stirs);
        let refreshable = specs(&spec).any(|spec| spec.resource.schema().traits.refresh);
        let refresh = refreshable && before.iter().any(|(from, notify)| *notify && touch(from).changes);
        let mut rests_on = if stirred { Certainty::Predicted } else { Certainty::Exact };
        let (members, received) = match self.members(&spec) {
            Ok(found) => found,
            Err(message) => {
                self.touched.insert(node, Touch { changes: false, stirs: true });
                self.reach.push((node, Reach::default()));
                let (id, origin) = (spec.id.clone(), spec.origin.clone());
                let rests_on = Certainty::Unknown;
                return Step { id, origin, rests_on, effects: Vec::new(), error: Some(message), held: None };
            }
        };
        rests_on = rests_on.max(received);
        let mut reach = Reach::default();
        for (spec, member) in specs(&spec).zip(&members) {
            reach.reads(&spec.id.name, &*member.effective);
        }
        let run = Run { vertex: Vertex(0), incarnation: 0, apply: false, refresh, pool: Pool::Waiting };
        let order = Order {
            run,
            spec: Arc::clone(&spec),
            cancel: Cancel::default(),
            host: Arc::clone(&self.host),
            export: None,
            snapshot: false,
            foreseen: Some(Arc::clone(&self.foreseen)),
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
        for member in &effects {
            Arc::make_mut(&mut self.foreseen).note(&member.effects);
        }
        reach.writes(&effects);
        self.reach.push((node, reach));
        let error = done.result.as_ref().err().map(Error::to_string);
        let changes = !effects.is_empty() || matches!(done.result, Ok(Checked::Forwarded));
        self.touched.insert(node, Touch { changes, stirs: changes || stirred || error.is_some() });
        Step { id: spec.id.clone(), origin: spec.origin.clone(), rests_on, effects, error, held: None }
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
