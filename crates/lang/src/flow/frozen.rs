//! Freezing: what statements without a value go on declaring.
//!
//! A statement whose values have failed, or are not there yet, keeps what it declared last. A condition, list or map without a
//! value keeps what the statements in its block declared last, although the block itself is gone until the value is back. A
//! statement that never had a value declares nothing.
//!
//! A block that is built anew has new nodes; a [`Spot`] tells which statement of the old block is which of the new one, so that a
//! statement that waits for its first value in the new block goes on declaring what it declared in the old one.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use mgmt_dataflow::{Delta, NodeId, State};
use mgmt_diagnostics::{Diagnostic, Span};
use mgmt_resource::{Id, Registry};
use mgmt_value::{Str, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::declared::{Declarations, Declared};
use super::live::{self, Watches};
use super::{Datum, Flow, Program, lock};
use crate::codes::Code;
use crate::hir::{BlockId, StmtId, StmtKind};
use crate::scope::Target;

/// The number of nodes that are visited to find out where a value comes from.
pub(super) const MAX_VISITED: usize = 1 << 16;

/// Where a statement is while the program runs: below which condition or loop, and on which path.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spot {
    /// The output of the condition or loop around it, which has a value while that has one.
    pub(super) owner: Option<NodeId>,
    /// A hash of the statements, branches, indexes and keys on the way to it.
    pub(super) path: u64,
}

impl Spot {
    /// The spot one step further in.
    pub(super) fn at(self, step: impl Hash) -> Spot {
        let mut hasher = DefaultHasher::new();
        (self.path, step).hash(&mut hasher);
        Spot { path: hasher.finish(), ..self }
    }

    /// The same spot, in a block that an output decides about.
    pub(super) fn below(self, owner: NodeId) -> Spot {
        Spot { owner: Some(owner), ..self }
    }
}

/// The statements behind the outputs.
#[derive(Default)]
pub(crate) struct Outputs(FxHashMap<NodeId, (StmtId, Spot)>);

impl Outputs {
    pub(super) fn add(&mut self, node: NodeId, stmt: StmtId, spot: Spot) {
        self.0.insert(node, (stmt, spot));
    }

    fn spot(&self, node: NodeId) -> Spot {
        self.0.get(&node).map_or_else(Spot::default, |(_, spot)| *spot)
    }

    fn owner(&self, node: NodeId) -> Option<NodeId> {
        self.spot(node).owner
    }

    /// The conditions and loops around an output, from the inside to the outside.
    fn owners(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(self.owner(node), |owner| self.owner(*owner))
    }
}

/// A part of a program that has no current value.
#[derive(Clone, Debug, PartialEq)]
pub struct FrozenPart {
    /// The expression that has failed or has no value yet.
    pub span: Span,
    /// The error; nothing while the value is still to come.
    pub error: Option<Diagnostic>,
    /// The resources that stay as they were last declared. If the value is unwatched, those that depend on it.
    pub frozen: Vec<Id>,
    /// What is not there because it never had a value: resources as `KIND[NAME]` or `KIND at FILE:LINE`, and conditions and loops with
    /// resources in them, as `if at FILE:LINE`.
    pub missing: Vec<String>,
    /// No event can change it: a panic, or a failure of constants.
    pub is_final: bool,
    /// It has a value, but nothing tells when that changes, because its source of events is broken.
    pub is_unwatched: bool,
}

/// What an earlier version of a program declared, for those statements of the next one that have no value yet.
#[derive(Clone, Default)]
pub struct Inheritance(BTreeMap<NodeId, Arc<Declared>>);

impl Inheritance {
    pub(super) fn new(declared: BTreeMap<NodeId, Arc<Declared>>) -> Inheritance {
        Inheritance(declared)
    }
}

/// What a statement declared before its block went.
struct Held {
    /// Its node, which is gone.
    node: NodeId,
    path: u64,
    /// The paths of the conditions and loops around it.
    around: SmallVec<[u64; 2]>,
}

/// A panic that holds until the output that panicked has a value: what made it panic may have failed since, and the values that it
/// forbade are still those of the program.
struct Panicked {
    /// The output, or the condition or loop around it that has no value and took the output along.
    node: NodeId,
    /// The output's path.
    path: u64,
    /// The paths of the conditions and loops around it, from the inside to the outside.
    around: SmallVec<[u64; 2]>,
    faults: Vec<Diagnostic>,
}

/// The outputs that have no value.
#[derive(Default)]
pub(super) struct Frozen {
    blocked: BTreeSet<NodeId>,
    panicked: Vec<Panicked>,
    /// The outputs that fail and that no event can change: panics, and failures of constants.
    fatal: BTreeSet<NodeId>,
    /// Failures of constants are no errors of the whole program any more.
    pub(super) freezes_constants: bool,
    /// By output that fails: the calls that are made again because of that.
    retries: BTreeMap<NodeId, SmallVec<[u64; 1]>>,
    /// The calls that are made again.
    retried: BTreeSet<u64>,
    /// By output of a condition or loop: what was declared in its block.
    held: FxHashMap<NodeId, Vec<Held>>,
    /// Something of this has changed since somebody asked.
    pub(super) changed: bool,
    /// What the version before declared, until the first stabilization.
    pub(super) inheritance: Inheritance,
    /// By output: the schedules under which this host was chosen when it was declared, if it depends on any.
    guarded: BTreeMap<NodeId, Arc<[Str]>>,
}

impl Frozen {
    /// Whether something declares what it declared before, or nothing although it should.
    pub(super) fn is_any(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Follows what a stabilization did to the outputs.
    pub(super) fn follow(
        &mut self,
        delta: &Delta,
        graph: &Flow,
        program: &Program,
        declarations: &mut Declarations,
    ) {
        let mut outputs = lock(&program.outputs);
        let kinds = &program.kinds;
        let mut gone: Vec<Held> = Vec::new();
        for &id in &delta.removed {
            self.changed |= self.blocked.remove(&id);
            self.fatal.remove(&id);
            self.retries.remove(&id);
            self.guarded.remove(&id);
            let mut items = self.held.remove(&id).unwrap_or_default();
            if declarations.get(id).is_some() {
                let around = outputs.owners(id).map(|owner| outputs.spot(owner).path).collect();
                items.push(Held { node: id, path: outputs.spot(id).path, around });
            }
            let holder = outputs.owners(id).find(|owner| graph.contains(*owner));
            match holder.filter(|holder| graph.state(*holder).value().is_none()) {
                Some(holder) => self.held.entry(holder).or_default().extend(items),
                None => gone.extend(items),
            }
        }
        for &id in &delta.changed {
            match graph.state(id) {
                State::Value(_) => {
                    self.changed |= self.blocked.remove(&id);
                    self.fatal.remove(&id);
                    self.retries.remove(&id);
                    gone.extend(self.held.remove(&id).unwrap_or_default());
                }
                state => {
                    self.changed = true;
                    self.blocked.insert(id);
                    match matches!(state, State::Failed(_)) && is_fatal(id, graph, program, &outputs) {
                        true => self.fatal.insert(id),
                        false => self.fatal.remove(&id),
                    };
                    match state {
                        State::Failed(_) => {
                            self.retries.insert(id, to_retry(id, graph, &lock(&program.watches)))
                        }
                        _ => self.retries.remove(&id),
                    };
                }
            }
        }
        self.hold_panics(delta, graph, &outputs);
        self.retry(graph, &mut lock(&program.watches));
        // What depends on an unwatched value may be something else now.
        self.changed |= !delta.changed.is_empty() && !lock(&program.watches).broken.is_empty();
        self.adopt(delta, gone, &outputs, declarations, kinds);
        self.guard(delta, graph, program, &outputs, declarations);
        for id in &delta.removed {
            outputs.0.remove(id);
        }
        let inheritance = std::mem::take(&mut self.inheritance);
        if !inheritance.0.is_empty() && self.is_any() {
            self.inherit(&inheritance, &outputs, program, declarations);
        }
    }

    /// Says of what is declared under which schedules this host was chosen for it. What is declared the same as before is declared
    /// without a schedule that has chosen others since; what has no value now stays as it was.
    fn guard(
        &mut self,
        delta: &Delta,
        graph: &Flow,
        program: &Program,
        outputs: &Outputs,
        declarations: &mut Declarations,
    ) {
        let schedules = chosen_schedules(graph, program);
        let is_chosen = |name: &Str| schedules.iter().any(|(chosen, _)| chosen == name);
        let lost = self.guarded.iter().filter(|(_, names)| !names.iter().all(is_chosen)).map(|(id, _)| *id);
        let lost: Vec<NodeId> = lost.filter(|id| !delta.changed.contains(id)).collect();
        for &id in delta.changed.iter().chain(&lost) {
            let State::Value(Datum::Declared(declared)) = graph.state(id) else { continue };
            let names: Arc<[Str]> = choices(id, &schedules, graph, outputs).into();
            if names.is_empty() {
                self.guarded.remove(&id);
                declarations.set(id, declared, &program.kinds);
            } else {
                declarations.set(id, &Arc::new(declared.depending_on(&names)), &program.kinds);
                self.guarded.insert(id, names);
            }
        }
    }

    /// Follows the panics: each holds until its output has a value, or until the statement is gone because a condition says so.
    fn hold_panics(&mut self, delta: &Delta, graph: &Flow, outputs: &Outputs) {
        let has_value = |id: NodeId| graph.contains(id) && graph.state(id).value().is_some();
        let known = std::mem::take(&mut self.panicked);
        for panicked in known {
            let node = panicked.node;
            let next = if !graph.contains(node) {
                outputs.owners(node).find(|owner| graph.contains(*owner)).filter(|owner| !has_value(*owner))
            } else if !has_value(node) {
                Some(node)
            } else if outputs.spot(node).path == panicked.path {
                None
            } else {
                // The block was built anew: the statement is there again, or something around it still has no value.
                let wanted = |path: u64| {
                    let mut changed = delta.changed.iter().copied();
                    changed
                        .find(|id| graph.contains(*id) && outputs.spot(*id).path == path && !has_value(*id))
                };
                std::iter::once(panicked.path).chain(panicked.around.iter().copied()).find_map(wanted)
            };
            self.panicked.extend(next.map(|node| Panicked { node, ..panicked }));
        }
        for &id in delta.changed.iter().filter(|id| graph.contains(**id) && is_panic(**id, graph)) {
            let path = outputs.spot(id).path;
            let around = outputs.owners(id).map(|owner| outputs.spot(owner).path).collect();
            self.panicked.retain(|panicked| panicked.node != id && panicked.path != path);
            let faults = failures(std::iter::once(id), graph);
            self.panicked.push(Panicked { node: id, path, around, faults });
        }
    }

    /// Has the calls behind what fails made again, and no others.
    fn retry(&mut self, graph: &Flow, watches: &mut Watches) {
        for (id, tickets) in &mut self.retries {
            // The same failure may come from a call in a block that was built anew.
            if tickets.iter().any(|ticket| !watches.has(*ticket)) {
                *tickets = to_retry(*id, graph, watches);
            }
        }
        if self.retries.is_empty() && self.retried.is_empty() {
            return;
        }
        let wanted: BTreeSet<u64> = self.retries.values().flatten().copied().collect();
        wanted.difference(&self.retried).for_each(|ticket| watches.retry(*ticket, true));
        self.retried.difference(&wanted).for_each(|ticket| watches.retry(*ticket, false));
        self.retried = wanted;
    }

    /// Lets resources without a value, of names that are known, be as the version before declared them.
    fn inherit(
        &self,
        inheritance: &Inheritance,
        outputs: &Outputs,
        program: &Program,
        declarations: &mut Declarations,
    ) {
        let all = inheritance
            .0
            .values()
            .flat_map(|declared| declared.resources.iter().map(move |found| (&found.spec.id, declared)));
        let known: FxHashMap<&Id, &Arc<Declared>> = all.collect();
        for &id in &self.blocked {
            let Some(name) = outputs.0.get(&id).and_then(|(stmt, _)| literal_id(*stmt, program)) else {
                continue;
            };
            if let Some(declared) = known.get(&name).filter(|_| declarations.get(id).is_none()) {
                declarations.set(id, declared, &program.kinds);
            }
        }
    }

    /// Lets statements of a block that was built anew go on declaring what was declared in their place, and lets go of the rest.
    fn adopt(
        &mut self,
        delta: &Delta,
        gone: Vec<Held>,
        outputs: &Outputs,
        declarations: &mut Declarations,
        kinds: &Registry,
    ) {
        if gone.is_empty() {
            return;
        }
        let mut own: FxHashMap<u64, NodeId> = FxHashMap::default();
        let is_new = |id: &NodeId| self.blocked.contains(id) && declarations.get(*id).is_none();
        for &id in delta.changed.iter().filter(|id| is_new(id)) {
            own.insert(outputs.spot(id).path, id);
        }
        for item in gone {
            let by_itself = own.get(&item.path).copied();
            let around = item.around.iter().find_map(|path| own.get(path)).copied();
            match (by_itself, around) {
                (_, Some(holder)) => {
                    self.held.entry(holder).or_default().push(item);
                    continue;
                }
                (Some(heir), None) => {
                    if let Some(declared) = declarations.get(item.node).cloned() {
                        declarations.set(heir, &declared, kinds);
                    }
                }
                (None, None) => {}
            }
            declarations.remove(item.node, kinds);
        }
    }

    /// The failures that no event can change, and because of which there is no graph.
    pub(super) fn fatal(&self, graph: &Flow) -> Vec<Diagnostic> {
        let all = self.fatal.iter().copied();
        let mut fatal = failures(all.filter(|id| !self.freezes_constants || is_panic(*id, graph)), graph);
        fatal.extend(self.panicked.iter().flat_map(|panicked| panicked.faults.iter().cloned()));
        sorted(fatal)
    }

    /// All failures.
    pub(super) fn failures(&self, graph: &Flow) -> Vec<Diagnostic> {
        failures(self.blocked.iter().copied(), graph)
    }

    /// The parts that have no current value, if that is different from the last time.
    pub(super) fn parts(
        &mut self,
        graph: &Flow,
        program: &Program,
        declarations: &Declarations,
    ) -> Option<Vec<FrozenPart>> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let outputs = lock(&program.outputs);
        let mut parts: BTreeMap<(Span, String), FrozenPart> = BTreeMap::new();
        for &id in &self.blocked {
            let causes: Vec<(Span, Option<Diagnostic>)> = match graph.state(id) {
                State::Failed(fault) => {
                    let all = fault.all().filter_map(|found| Some((found.span()?, Some(found.clone()))));
                    all.collect()
                }
                _ => {
                    let calls = &lock(&program.watches).calls;
                    let roots = graph.undefined_roots(id, MAX_VISITED).into_iter();
                    roots.filter_map(|root| Some((calls.get(&root)?.span, None))).collect()
                }
            };
            let (frozen, missing) = self.declared(id, &outputs, program, declarations);
            // Whatever it comes from, what is missing is never left out.
            let own = outputs.0.get(&id).filter(|_| causes.is_empty());
            let causes =
                causes.into_iter().chain(own.map(|(stmt, _)| (program.checked.hir[*stmt].span, None)));
            for (span, error) in causes {
                let message = error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
                let part = parts.entry((span, message)).or_insert_with(|| FrozenPart {
                    span,
                    error,
                    frozen: Vec::new(),
                    missing: Vec::new(),
                    is_final: true,
                    is_unwatched: false,
                });
                part.is_final &= self.fatal.contains(&id);
                part.frozen.extend(frozen.iter().cloned());
                part.missing.extend(missing.clone());
            }
        }
        let mut parts: Vec<FrozenPart> = parts.into_values().collect();
        parts.extend(unwatched(graph, program, declarations));
        for part in &mut parts {
            part.frozen.sort_unstable();
            part.frozen.dedup();
            part.missing.sort_unstable();
            part.missing.dedup();
        }
        Some(parts)
    }

    /// The resources that an output goes on declaring, or what does not declare any yet.
    fn declared(
        &self,
        id: NodeId,
        outputs: &Outputs,
        program: &Program,
        declarations: &Declarations,
    ) -> (Vec<Id>, Option<String>) {
        let held = self.held.get(&id).into_iter().flatten().map(|held| held.node);
        let all = held.chain([id]).filter_map(|node| declarations.get(node));
        let ids = |declared: &Arc<Declared>| -> Vec<Id> {
            declared.resources.iter().map(|found| found.spec.id.clone()).collect()
        };
        let frozen: Vec<Id> = all.flat_map(ids).collect();
        if declarations.get(id).is_some() {
            return (frozen, None);
        }
        let hir = &program.checked.hir;
        let missing = outputs.0.get(&id).and_then(|(stmt, _)| {
            let name = match &hir[*stmt].kind {
                StmtKind::Resource(resource) => match literal_id(*stmt, program) {
                    Some(id) => return Some(id.to_string()),
                    None => hir.text(resource.kind),
                },
                StmtKind::If { then, otherwise, .. } => {
                    may_declare([Some(*then), *otherwise].into_iter().flatten(), program).then_some("if")?
                }
                StmtKind::Loop { over_map, body, .. } => {
                    let word = if *over_map { "forkv" } else { "for" };
                    may_declare([*body], program).then_some(word)?
                }
                // What depends on the arguments of a class says so itself. The others declare no resources.
                StmtKind::Include { .. }
                | StmtKind::Bind(..)
                | StmtKind::Edge(_)
                | StmtKind::Panic(_)
                | StmtKind::Func(_)
                | StmtKind::Class(_)
                | StmtKind::Import { .. } => return None,
            };
            let (file, line, _) = program.checked.sources.position(hir[*stmt].span);
            Some(format!("{name} at {file}:{line}"))
        });
        (frozen, missing)
    }
}

/// The schedules under which this host is chosen, as the program has evaluated that, with the calls that ask. A choice that ends counts
/// until the program is evaluated without it, so that nothing is declared meanwhile as if it did not depend on it.
fn chosen_schedules(graph: &Flow, program: &Program) -> Vec<(Str, FxHashSet<NodeId>)> {
    let mut schedules = lock(&program.watches).schedules();
    let host = program.host.hostname();
    let evaluated = |call: &NodeId| match graph.state(*call) {
        State::Value(Datum::Value(Value::List(hosts))) => {
            Some(hosts.items.iter().any(|found| matches!(found, Value::Str(found) if *found == host)))
        }
        _ => None,
    };
    schedules.retain(|(name, calls)| {
        let is_chosen = || program.host.world_schedule(name).is_ok_and(|hosts| hosts.contains(&host));
        let evaluated = calls.iter().filter_map(evaluated).reduce(|one, other| one || other);
        evaluated.unwrap_or_else(is_chosen)
    });
    // In an order that does not change: what is declared is compared with what was.
    schedules.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    schedules
}

/// Those of them without which an output would declare something else.
fn choices(id: NodeId, schedules: &[(Str, FxHashSet<NodeId>)], graph: &Flow, outputs: &Outputs) -> Vec<Str> {
    let depends = |calls: &FxHashSet<NodeId>| {
        let mut nodes = std::iter::once(id).chain(outputs.owners(id));
        nodes.any(|id| graph.depends_on(id, MAX_VISITED, |node| calls.contains(&node)))
    };
    schedules.iter().filter(|(_, calls)| depends(calls)).map(|(name, _)| name.clone()).collect()
}

/// Whether resources are declared somewhere in these blocks, in the classes that they include, too.
fn may_declare(blocks: impl IntoIterator<Item = BlockId>, program: &Program) -> bool {
    let checked = &program.checked;
    let hir = &checked.hir;
    let mut open: Vec<BlockId> = blocks.into_iter().collect();
    let mut seen: BTreeSet<BlockId> = BTreeSet::new();
    while let Some(block) = open.pop() {
        if !seen.insert(block) {
            continue;
        }
        for &stmt in &hir[block].stmts {
            match &hir[stmt].kind {
                StmtKind::Resource(_) => return true,
                StmtKind::If { then, otherwise, .. } => {
                    open.extend([Some(*then), *otherwise].into_iter().flatten());
                }
                StmtKind::Loop { body, .. } => open.push(*body),
                StmtKind::Include { .. } => {
                    let found = checked.scopes.of_include(stmt).map(|found| found.target);
                    if let Some(Target::Class(class)) = found {
                        open.push(hir[class].body);
                    }
                }
                _ => {}
            }
        }
    }
    false
}

/// The resource that a statement declares, if its name is a literal.
fn literal_id(stmt: StmtId, program: &Program) -> Option<Id> {
    let hir = &program.checked.hir;
    let StmtKind::Resource(resource) = &hir[stmt].kind else { return None };
    let schema = program.kinds.get(hir.text(resource.kind))?;
    match program.literal(resource.name)? {
        mgmt_value::Value::Str(name) => Some(Id::new(schema.kind, name)),
        _ => None,
    }
}

/// The values whose sources of events are broken, with the resources that depend on them. One that fails is named as that.
fn unwatched(graph: &Flow, program: &Program, declarations: &Declarations) -> Vec<FrozenPart> {
    let watches = lock(&program.watches);
    if watches.broken.is_empty() {
        return Vec::new();
    }
    let mut parts: Vec<FrozenPart> = Vec::new();
    for (&node, call) in &watches.calls {
        let Some(error) = call.broken_source(&watches.broken) else { continue };
        if graph.state(node).value().is_none() {
            continue;
        }
        let outputs = graph.dependents(node, MAX_VISITED);
        let declared = outputs.iter().filter_map(|output| declarations.get(*output));
        let resources = declared.flat_map(|declared| &declared.resources);
        parts.push(FrozenPart {
            span: call.span,
            error: Some(Code::Failed.at(call.span, error.to_string())),
            frozen: resources.map(|found| found.spec.id.clone()).collect(),
            missing: Vec::new(),
            is_final: false,
            is_unwatched: true,
        });
    }
    // The copies of a block have calls in one place.
    parts.sort_by_key(|part| part.span);
    parts.dedup_by(|next, part| {
        let is_same = next.span == part.span && next.error == part.error;
        if is_same {
            part.frozen.append(&mut next.frozen);
        }
        is_same
    });
    parts
}

fn is_panic(id: NodeId, graph: &Flow) -> bool {
    matches!(graph.state(id), State::Failed(fault) if fault.diagnostic.code == Some(Code::Panicked.id()))
}

/// A panic, or a failure that does not come from anything that can change.
fn is_fatal(id: NodeId, graph: &Flow, program: &Program, outputs: &Outputs) -> bool {
    if is_panic(id, graph) {
        return true;
    }
    let watches = lock(&program.watches);
    let can_change = |node: NodeId| {
        let has_failed = matches!(graph.state(node), State::Failed(_));
        watches.calls.get(&node).is_some_and(|call| call.is_live() || call.is_read_anew(has_failed))
    };
    !std::iter::once(id).chain(outputs.owners(id)).any(|id| graph.depends_on(id, MAX_VISITED, can_change))
}

/// The calls to make again because an output fails.
fn to_retry(id: NodeId, graph: &Flow, watches: &Watches) -> SmallVec<[u64; 1]> {
    let mut tickets = SmallVec::new();
    for root in graph.failed_roots(id, MAX_VISITED) {
        live::to_retry(root, graph, watches, &mut tickets);
    }
    tickets
}

fn failures(outputs: impl Iterator<Item = NodeId>, graph: &Flow) -> Vec<Diagnostic> {
    let mut wrong: Vec<Diagnostic> = Vec::new();
    for id in outputs {
        if let State::Failed(fault) = graph.state(id) {
            wrong.extend(fault.all().cloned());
        }
    }
    sorted(wrong)
}

fn sorted(mut wrong: Vec<Diagnostic>) -> Vec<Diagnostic> {
    wrong.sort_by(|a, b| (a.span(), &a.message).cmp(&(b.span(), &b.message)));
    wrong.dedup();
    wrong
}
