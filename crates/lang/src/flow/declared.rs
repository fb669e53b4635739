//! What all statements of a running program declare, and what of it has changed.
//!
//! The whole graph is put together once. From then on only what statements take back and declare anew is looked at, and
//! told as a [`Change`]: a bind that changes a parameter costs what that one resource costs, in a program of any size.
//!
//! What is out of the ordinary is left to [`output::assemble`], which knows all rules and says what is wrong: resources that
//! are declared more than once, hidden or exported, edges that lead nowhere or in a circle. If a change touches any of
//! these, the graph is put together again as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use mgmt_dataflow::NodeId;
use mgmt_diagnostics::{Diagnostic, Span};
use mgmt_resource::{Edge, Id, Receive, Registry, ResourceGraph, Spec};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{Fault, Outcome};
use crate::output::{self, Assembled, Declaration, DeclaredEdge, End, Problem};

/// What a statement declares.
#[derive(Default)]
pub(crate) struct Declared {
    pub(crate) resources: Vec<Declaration>,
    pub(crate) edges: Vec<DeclaredEdge>,
    /// What it says but cannot be. Gone before anybody else sees it: a statement with errors has no value.
    pub(crate) wrong: Vec<Diagnostic>,
}

/// How the resources differ from those that were told before.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Resources that were not there.
    pub added: Vec<Spec>,
    /// Resources that have other parameters, or receive from others.
    pub changed: Vec<Spec>,
    /// Resources that are not there any more. Their edges are gone, too.
    pub removed: Vec<Id>,
    /// Edges that were not there, or notify and did not, or the other way round.
    pub edges_added: Vec<(Id, Id, Edge)>,
    /// Edges that are not there any more.
    pub edges_removed: Vec<(Id, Id)>,
}

impl Change {
    /// Nothing differs but parameters.
    #[must_use]
    pub fn is_of_parameters(&self) -> bool {
        self.added.is_empty()
            && self.removed.is_empty()
            && self.edges_added.is_empty()
            && self.edges_removed.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.is_of_parameters() && self.changed.is_empty()
    }
}

/// What all statements declare.
#[derive(Default)]
pub(super) struct Declarations {
    /// In the order of the nodes, which is nearly the one in which they are put together.
    pub(super) by_node: BTreeMap<NodeId, Arc<Declared>>,
    listener: Listener,
    /// What was declared in the last graph without conflicts, where it is something else now. Nothing before the first graph.
    pub(super) before: Option<Before>,
    /// The conflicts because of which the last graph is not what is declared.
    conflicts: Vec<Diagnostic>,
}

/// What some statements declared before; nothing for those that declared nothing.
pub(super) type Before = FxHashMap<NodeId, Option<Arc<Declared>>>;

/// What is known of the graph that the listener has.
#[derive(Default)]
enum Listener {
    /// Nothing, or nothing from which it could be brought up to date.
    #[default]
    Unknown,
    /// It is what all statements declare now. Who declares what of it is asked when one of them changes: most programs never
    /// do.
    Everything,
    /// The graph that was told last.
    Told(Box<Told>),
    /// A graph in which some statements declare what they declared before, and nothing has changed since.
    Reconciled,
}

/// All that is declared, put together, and in which order it was declared.
type Whole<'a> = (Assembled, Vec<&'a Arc<Declared>>);

impl Declarations {
    /// A statement declares nothing any more.
    pub(super) fn remove(&mut self, node: NodeId, kinds: &Registry) {
        if self.by_node.contains_key(&node) {
            self.look_closer(kinds);
        }
        if let Some(old) = self.by_node.remove(&node) {
            self.count(&old, None, kinds);
            self.remember(node, Some(old));
        }
    }

    /// What a statement declares.
    pub(super) fn get(&self, node: NodeId) -> Option<&Arc<Declared>> {
        self.by_node.get(&node)
    }

    /// Gives away everything.
    pub(super) fn take(&mut self) -> BTreeMap<NodeId, Arc<Declared>> {
        std::mem::take(self).by_node
    }

    /// The conflicts because of which the last graph is not what is declared.
    pub(super) fn conflicts(&self) -> &[Diagnostic] {
        &self.conflicts
    }

    fn remember(&mut self, node: NodeId, old: Option<Arc<Declared>>) {
        if let Some(before) = &mut self.before {
            before.entry(node).or_insert(old);
        }
    }

    /// A statement declares something else than before.
    pub(super) fn set(&mut self, node: NodeId, new: &Arc<Declared>, kinds: &Registry) {
        self.look_closer(kinds);
        let old = self.by_node.insert(node, Arc::clone(new));
        let nothing = Arc::default();
        self.count(old.as_ref().unwrap_or(&nothing), Some(new), kinds);
        self.remember(node, old);
    }

    /// Finds out who declares what, before that changes.
    fn look_closer(&mut self, kinds: &Registry) {
        if matches!(self.listener, Listener::Everything) {
            self.listener = match self.put_together(kinds) {
                Ok((assembled, all)) => Listener::Told(Box::new(Told::new(assembled, &all, kinds))),
                Err(_) => Listener::Unknown,
            };
        }
    }

    fn count(&mut self, old: &Arc<Declared>, new: Option<&Arc<Declared>>, kinds: &Registry) {
        if matches!(self.listener, Listener::Reconciled) {
            self.forget();
        }
        let Listener::Told(told) = &mut self.listener else { return };
        if new.is_some_and(|new| new.is_nothing_else_than(old)) {
            return;
        }
        let counted = told.count(old, false, kinds).and_then(|()| match new {
            Some(new) => told.count(new, true, kinds),
            None => Some(()),
        });
        if counted.is_none() {
            self.forget();
        }
    }

    /// Tells what has changed since this was last asked for. If something is frozen, its conflicts with the rest are reconciled.
    pub(super) fn tell(&mut self, kinds: &Registry, is_frozen: bool) -> Outcome {
        let change = match &mut self.listener {
            Listener::Unknown => None,
            Listener::Everything => return Outcome::Unchanged,
            Listener::Reconciled if is_frozen => return Outcome::Unchanged,
            Listener::Reconciled => None,
            Listener::Told(told) => told.bring_up_to_date(),
        };
        let Some(change) = change else { return self.assemble(kinds, is_frozen) };
        self.is_consistent();
        match change.is_empty() {
            true => Outcome::Unchanged,
            false => Outcome::Changed(change),
        }
    }

    /// What is declared now makes a graph without conflicts.
    fn is_consistent(&mut self) {
        match &mut self.before {
            Some(before) => before.clear(),
            None => self.before = Some(Before::default()),
        }
        self.conflicts.clear();
    }

    /// What was told last is not what the listener has.
    pub(super) fn forget(&mut self) {
        self.listener = Listener::Unknown;
    }

    /// Tells everything.
    pub(super) fn whole(&mut self, kinds: &Registry, is_frozen: bool) -> Outcome {
        match &self.listener {
            Listener::Told(told) if told.touched.is_empty() && told.touched_edges.is_empty() => {
                Outcome::Graph(told.graph.clone())
            }
            _ => self.assemble(kinds, is_frozen),
        }
    }

    fn assemble(&mut self, kinds: &Registry, is_frozen: bool) -> Outcome {
        let problems = match self.put_together(kinds) {
            Ok((Assembled { graph, .. }, _)) => {
                self.listener = Listener::Everything;
                self.is_consistent();
                return Outcome::Graph(graph);
            }
            Err(problems) => problems,
        };
        self.forget();
        match is_frozen.then(|| self.reconcile(kinds)).flatten() {
            Some(reconciled) => {
                self.listener = Listener::Reconciled;
                self.before = Some(reconciled.held_back);
                self.conflicts = reconciled.conflicts;
                Outcome::Graph(reconciled.graph)
            }
            None => Outcome::Wrong(problems.into_iter().map(|problem| problem.diagnostic).collect()),
        }
    }

    fn put_together(&self, kinds: &Registry) -> Result<Whole<'_>, Vec<Problem>> {
        let mut all: Vec<&Arc<Declared>> = self.by_node.values().collect();
        all.sort_by_key(|declared| declared.place());
        let resources = all
            .iter()
            .flat_map(|declared| &declared.resources)
            .map(|found| Declaration { spec: found.spec.clone(), span: found.span })
            .collect();
        let edges: Vec<DeclaredEdge> =
            all.iter().flat_map(|declared| declared.edges.iter().cloned()).collect();
        Ok((output::assemble(resources, &edges, kinds)?, all))
    }
}

/// A graph that was told, and who declares what of it.
struct Told {
    graph: ResourceGraph,
    /// The resources that are ordinary.
    resources: FxHashMap<Id, Known>,
    /// Those that are not: a change that touches one of them is left to others.
    special: FxHashSet<Id>,
    edges: FxHashMap<(Id, Id), SmallVec<[Use; 1]>>,
    /// Resources and edges that may not be as they were told.
    touched: FxHashSet<Id>,
    touched_edges: FxHashSet<(Id, Id)>,
}

/// What is known of a resource.
#[derive(Default)]
struct Known {
    /// Where it is in the graph, if it was told.
    node: Option<mgmt_graph::NodeId>,
    /// Where it is declared.
    declared: SmallVec<[(Arc<Declared>, u32); 1]>,
    /// How many ends of declared edges are its.
    ends: u32,
    /// What it receives.
    receives: SmallVec<[Receive; 0]>,
}

/// One declaration of an edge.
#[derive(Clone, PartialEq)]
struct Use {
    notify: bool,
    receive: Option<Receive>,
}

impl Told {
    fn new(assembled: Assembled, all: &[&Arc<Declared>], kinds: &Registry) -> Told {
        let Assembled { graph, repeated } = assembled;
        let mut told = Told {
            special: repeated,
            resources: FxHashMap::default(),
            edges: FxHashMap::default(),
            touched: FxHashSet::default(),
            touched_edges: FxHashSet::default(),
            graph: ResourceGraph::new(),
        };
        let all_specs = all.iter().flat_map(|declared| &declared.resources).map(|found| &found.spec);
        told.special.extend(all_specs.filter(|spec| !is_ordinary(spec)).map(|spec| spec.id.clone()));
        told.resources.reserve(graph.node_count());
        for (node, spec) in graph.nodes().filter(|(_, spec)| !told.special.contains(&spec.id)) {
            told.resources.insert(spec.id.clone(), Known { node: Some(node), ..Known::default() });
        }
        told.graph = graph;
        for declared in all {
            for (index, found) in (0_u32..).zip(&declared.resources) {
                if let Some(known) = told.resources.get_mut(&found.spec.id) {
                    known.declared.push((Arc::clone(declared), index));
                }
            }
            for edge in &declared.edges {
                if told.edge(edge, true, kinds).is_none() {
                    let ends = [&edge.from, &edge.to].into_iter().filter_map(|end| id_of(end, kinds));
                    told.special.extend(ends);
                }
            }
        }
        told.touched.clear();
        told.touched_edges.clear();
        told
    }

    /// Counts in, or out, what a statement declares. `None`: it touches what is special.
    fn count(&mut self, declared: &Arc<Declared>, is_in: bool, kinds: &Registry) -> Option<()> {
        for (index, found) in (0_u32..).zip(&declared.resources) {
            let id = &found.spec.id;
            if !is_ordinary(&found.spec) || self.special.contains(id) {
                return None;
            }
            self.touched.insert(id.clone());
            if is_in {
                self.resources.entry(id.clone()).or_default().declared.push((Arc::clone(declared), index));
            } else {
                let known = self.resources.get_mut(id)?;
                let same = |(by, at): &(Arc<Declared>, u32)| Arc::ptr_eq(by, declared) && *at == index;
                known.declared.remove(known.declared.iter().position(same)?);
            }
        }
        declared.edges.iter().try_for_each(|edge| self.edge(edge, is_in, kinds))
    }

    /// Counts one declaration of an edge.
    fn edge(&mut self, edge: &DeclaredEdge, is_in: bool, kinds: &Registry) -> Option<()> {
        let ends = (id_of(&edge.from, kinds)?, id_of(&edge.to, kinds)?);
        if self.special.contains(&ends.0) || self.special.contains(&ends.1) {
            return None;
        }
        let receive = match (&edge.from.field, &edge.to.field) {
            (Some(sent), Some(received)) => {
                let key = kinds.get(ends.0.kind)?.sent(sent)?.name;
                let field = kinds.get(ends.1.kind)?.field(received)?.name;
                Some(Receive { field, from: ends.0.clone(), key })
            }
            _ => None,
        };
        for end in [&ends.0, &ends.1] {
            let known = self.resources.entry(end.clone()).or_default();
            known.ends = if is_in { known.ends + 1 } else { known.ends.checked_sub(1)? };
            self.touched.insert(end.clone());
        }
        if let Some(receive) = &receive {
            let receives = &mut self.resources.get_mut(&ends.1)?.receives;
            match is_in {
                true => receives.push(receive.clone()),
                false => drop(receives.remove(receives.iter().position(|known| known == receive)?)),
            }
        }
        let declared = Use { notify: edge.notify, receive };
        let uses = self.edges.entry(ends.clone()).or_default();
        match is_in {
            true => uses.push(declared),
            false => drop(uses.remove(uses.iter().position(|known| *known == declared)?)),
        }
        if uses.is_empty() {
            self.edges.remove(&ends);
        }
        self.touched_edges.insert(ends);
        Some(())
    }

    /// Brings the graph up to date and says what has changed. `None`: somebody else has to look at it.
    fn bring_up_to_date(&mut self) -> Option<Change> {
        let mut change = Change::default();
        let mut edges: Vec<(Id, Id)> = std::mem::take(&mut self.touched_edges).into_iter().collect();
        edges.sort_unstable();
        for ends in edges.iter().filter(|ends| !self.edges.contains_key(ends)) {
            let (Some(from), Some(to)) = (self.node(&ends.0), self.node(&ends.1)) else { continue };
            if self.graph.remove_edge(from, to).is_some() {
                change.edges_removed.push(ends.clone());
            }
        }
        let mut touched: Vec<Id> = std::mem::take(&mut self.touched).into_iter().collect();
        touched.sort_unstable();
        for id in touched {
            self.resource(id, &mut change)?;
        }
        for ends in edges {
            let Some(uses) = self.edges.get(&ends) else { continue };
            let notify = uses.iter().any(|found| found.notify);
            let (from, to) = (self.node(&ends.0)?, self.node(&ends.1)?);
            match self.graph.edge(from, to) {
                Some(edge) if edge.notify == notify => {}
                Some(_) => {
                    self.graph.set_edge(from, to, Edge { notify });
                    change.edges_added.push((ends.0, ends.1, Edge { notify }));
                }
                None if self.leads_to(to, from) => return None,
                None => {
                    self.graph.set_edge(from, to, Edge { notify });
                    change.edges_added.push((ends.0, ends.1, Edge { notify }));
                }
            }
        }
        // The edges of what has gone went with it.
        let gone: FxHashSet<&Id> = change.removed.iter().collect();
        change.edges_removed.retain(|(from, to)| !gone.contains(from) && !gone.contains(to));
        Some(change)
    }

    /// Brings one resource up to date.
    fn resource(&mut self, id: Id, change: &mut Change) -> Option<()> {
        let Some(known) = self.resources.get_mut(&id) else { return Some(()) };
        match &known.declared[..] {
            [] => {
                // An edge that leads nowhere, or a name that is free again.
                if known.ends > 0 {
                    return None;
                }
                let node = self.resources.remove(&id).and_then(|known| known.node);
                if node.and_then(|node| self.graph.remove_node(node)).is_some() {
                    change.removed.push(id);
                }
            }
            [(declared, index)] => {
                let mut receives: Vec<Receive> = Vec::new();
                for receive in &known.receives {
                    match receives.iter().find(|other| other.field == receive.field) {
                        Some(other) if other != receive => return None,
                        Some(_) => {}
                        None => receives.push(receive.clone()),
                    }
                }
                receives.sort_by_key(|receive| receive.field);
                let spec = &declared.resources.get(*index as usize)?.spec;
                let spec = Spec { receives, ..spec.clone() };
                match known.node {
                    None => {
                        known.node = Some(self.graph.add_node(spec.clone()));
                        change.added.push(spec);
                    }
                    Some(node) => {
                        let old = self.graph.node_mut(node)?;
                        if !alike(old, &spec) {
                            old.clone_from(&spec);
                            change.changed.push(spec);
                        }
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn node(&self, id: &Id) -> Option<mgmt_graph::NodeId> {
        self.resources.get(id)?.node
    }

    /// Whether one can be reached from the other.
    fn leads_to(&self, from: mgmt_graph::NodeId, to: mgmt_graph::NodeId) -> bool {
        let mut seen = FxHashSet::default();
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            if node == to {
                return true;
            }
            if seen.insert(node) {
                open.extend(self.graph.successors(node).map(|(next, _)| next));
            }
        }
        false
    }
}

/// The name of a resource that an edge leads to.
pub(super) fn id_of(end: &End, kinds: &Registry) -> Option<Id> {
    Some(Id::new(kinds.get(&end.kind)?.kind, end.name.clone()))
}

/// Nothing but its own declaration decides about it.
fn is_ordinary(spec: &Spec) -> bool {
    !spec.meta.hidden && spec.meta.export.is_empty()
}

/// The order in which values are received does not matter.
fn alike(old: &Spec, new: &Spec) -> bool {
    let mut receives = old.receives.clone();
    receives.sort_by_key(|receive| receive.field);
    receives == new.receives && old.same_as(&Spec { receives: old.receives.clone(), ..new.clone() })
}

impl Declared {
    /// Both declare the same edges, and nothing else.
    fn is_nothing_else_than(&self, other: &Declared) -> bool {
        self.resources.is_empty() && other.resources.is_empty() && self.edges == other.edges
    }

    /// The same, as it is while this host is chosen under some schedules.
    pub(super) fn depending_on(&self, choices: &Arc<[mgmt_value::Str]>) -> Declared {
        let resources = self.resources.iter().map(|declaration| Declaration {
            spec: Spec { choices: Arc::clone(choices), ..declaration.spec.clone() },
            span: declaration.span,
        });
        Declared { resources: resources.collect(), edges: self.edges.clone(), wrong: Vec::new() }
    }

    /// Itself, or the errors in it.
    pub(super) fn sound(mut self) -> Result<Declared, Fault> {
        if self.wrong.is_empty() {
            return Ok(self);
        }
        let others = self.wrong.split_off(1).into();
        match self.wrong.pop() {
            Some(first) => Err(Fault { others, ..Fault::new(first, false) }),
            None => Ok(self),
        }
    }

    /// For a stable order: where it is, and what it is called.
    pub(super) fn place(&self) -> (Option<Span>, Option<&Id>) {
        let resource = self.resources.first();
        let span = resource.map(|found| found.span).or(self.edges.first().map(|edge| edge.span));
        (span, resource.map(|found| &found.spec.id))
    }
}
