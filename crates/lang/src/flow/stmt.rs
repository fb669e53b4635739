//! Statements: what they attach, and what they declare.

use std::sync::Arc;

use mgmt_dataflow::{NodeId, ScopeId, State};
use mgmt_diagnostics::Span;
use mgmt_funcs::Memory;
use mgmt_value::{Str, Value};

use super::expr::{Switch, lost, same_length, same_value};
use super::live::values;
use super::resource::Fixed;
use super::{Builder, Datum, Declared, Fault, Frame, Place, Spot, lock};
use crate::codes::Code;
use crate::hir::*;
use crate::output::{DeclaredEdge, End};
use crate::scope::Target;

/// Blocks of so many statements are worth a second thread.
const MANY: usize = 1_000;

fn same_keys(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Map(old), Value::Map(new)) => {
            old.entries().len() == new.entries().len()
                && old.entries().iter().zip(new.entries()).all(|(old, new)| old.0 == new.0)
        }
        _ => false,
    }
}

impl Builder<'_> {
    pub(super) fn block(&mut self, frame: &Arc<Frame>, block: BlockId) {
        let checked = self.checked();
        let stmts = &checked.hir[block].stmts;
        if stmts.len() < MANY {
            return stmts.iter().for_each(|&stmt| self.stmt(frame, stmt, None));
        }
        // What is fixed is found by two threads; what is then made of it is made here.
        let (here, there) = stmts.split_at(stmts.len() / 2);
        let program = Arc::clone(&self.program);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("mgmt-fixed".into());
            let found = thread.spawn_scoped(scope, || program.all_fixed(there));
            here.iter().for_each(|&stmt| self.stmt(frame, stmt, None));
            // Without a thread, all of it is found here.
            let found = found.ok().and_then(|found| found.join().ok()).unwrap_or_default();
            let mut found = found.into_iter();
            there.iter().for_each(|&stmt| self.stmt(frame, stmt, found.next().flatten()));
        });
    }

    /// Makes the node of a statement that the outside looks at.
    pub(super) fn output(
        &mut self,
        frame: &Arc<Frame>,
        stmt: StmtId,
        inputs: &[NodeId],
        mut body: impl FnMut(&[Value]) -> Result<Declared, Fault> + Send + 'static,
    ) {
        let compute = move |inputs: &[&Datum]| match body(&values(inputs)).and_then(Declared::sound) {
            Ok(found) => State::Value(Datum::Declared(Arc::new(found))),
            Err(fault) => State::Failed(fault),
        };
        let node = self.graph.compute(frame.home, inputs, compute);
        self.graph.mark_output(node);
        lock(&self.program.outputs).add(node, stmt, frame.spot.at(stmt));
    }

    /// Makes the node of a statement that declares nothing, and yet needs values.
    fn needs(&mut self, frame: &Arc<Frame>, stmt: StmtId, inputs: &[NodeId]) -> NodeId {
        let nothing = Arc::new(Declared::default());
        let compute = move |_: &[&Datum]| State::Value(Datum::Declared(nothing.clone()));
        let node = self.graph.compute(frame.home, inputs, compute);
        self.graph.mark_output(node);
        lock(&self.program.outputs).add(node, stmt, frame.spot.at(stmt));
        node
    }

    /// Attaches statements for a value. While the value itself fails, they go on declaring what they declared.
    fn attach(
        &mut self,
        frame: &Arc<Frame>,
        stmt: StmtId,
        control: NodeId,
        same: fn(&Value, &Value) -> bool,
        mut build: impl FnMut(&mut Builder<'_>, ScopeId, Spot, &Value) + Send + 'static,
    ) {
        let owner = self.needs(frame, stmt, &[control]);
        let spot = frame.spot.at(stmt).below(owner);
        let attach = Switch::new(self.program.clone(), same, move |builder, scope, value| {
            build(builder, scope, spot, value);
            None
        });
        self.graph.switch(frame.home, control, attach);
    }

    /// Makes what a statement is. If it declares something fixed, that may be known already.
    fn stmt(&mut self, frame: &Arc<Frame>, stmt: StmtId, known: Option<Fixed>) {
        let checked = self.checked();
        let hir = &checked.hir;
        let (home, span) = (frame.home, hir[stmt].span);
        match &hir[stmt].kind {
            StmtKind::Bind(..) | StmtKind::Func(_) | StmtKind::Class(_) | StmtKind::Import { .. } => {}
            StmtKind::If { condition, then, otherwise } => {
                let condition = self.expr(frame, home, *condition);
                let (outer, then, otherwise) = (frame.clone(), *then, *otherwise);
                self.attach(frame, stmt, condition, same_value, move |builder, scope, spot, value| {
                    let branch = if matches!(value, Value::Bool(true)) { Some(then) } else { otherwise };
                    if let Some(branch) = branch {
                        let (place, spot) = (Place::Branch(branch), spot.at(branch));
                        let inner = Frame::new(place, Some(outer.clone()), scope, None, spot);
                        builder.block(&inner, branch);
                    }
                });
            }
            StmtKind::Loop { over_map, key, value, over, body } => {
                self.repeat(frame, stmt, (*key, *value), *over, *body, *over_map);
            }
            StmtKind::Panic(args) => {
                let inputs = self.exprs(frame, home, args);
                self.output(frame, stmt, &inputs, move |values| panic(values, span));
            }
            StmtKind::Include { args, .. } => {
                let found = checked.scopes.of_include(stmt).map(|found| found.target);
                let (Some(Target::Class(class)), Some(made)) = (found, self.included(frame, stmt)) else {
                    self.output(frame, stmt, &[], move |_| Err(lost(span)));
                    return;
                };
                // Arguments are values, whether or not the class reads them.
                let given = hir[class].params.iter().zip(args);
                let inputs: Vec<NodeId> =
                    given.map(|(&param, &arg)| self.var(&made, home, param, hir[arg].span)).collect();
                if !inputs.is_empty() {
                    self.needs(frame, stmt, &inputs);
                }
                self.block(&made, hir[class].body);
            }
            StmtKind::Edge(halves) => {
                let names: Vec<NodeId> =
                    halves.iter().map(|half| self.expr(frame, home, half.name)).collect();
                let ends: Vec<End> = halves.iter().map(|half| end(hir, half)).collect();
                self.output(frame, stmt, &names, move |values| {
                    let ends: Vec<Vec<End>> = ends
                        .iter()
                        .zip(values)
                        .map(|(end, value)| named(end, value, span))
                        .collect::<Result<_, _>>()?;
                    let mut found = Declared::default();
                    for pair in ends.windows(2) {
                        join(&mut found, &pair[0], &pair[1], false, span);
                    }
                    Ok(found)
                });
            }
            StmtKind::Resource(resource) => self.resource(frame, stmt, resource, known),
        }
    }

    fn repeat(
        &mut self,
        frame: &Arc<Frame>,
        stmt: StmtId,
        (key, value): (VarId, VarId),
        over: ExprId,
        body: BlockId,
        over_map: bool,
    ) {
        let outer = frame.clone();
        let over = self.expr(frame, frame.home, over);
        let same = if over_map { same_keys } else { same_length };
        self.attach(frame, stmt, over, same, move |builder, scope, spot, current| {
            let turns: Vec<(Spot, NodeId, NodeId)> = match current {
                Value::List(list) => (0..list.items.len())
                    .map(|index| {
                        let number = builder.graph.constant(scope, Datum::Value(Value::Int(index as i64)));
                        (spot.at(index), number, builder.element(scope, over, index))
                    })
                    .collect(),
                Value::Map(map) => {
                    let entry = |(key, _): &(Value, Value)| {
                        let (name, value) = builder.entry(scope, over, key);
                        (spot.at(key.to_string()), name, value)
                    };
                    map.entries().iter().map(entry).collect()
                }
                _ => Vec::new(),
            };
            for (spot, first, second) in turns {
                let turn = Frame::new(Place::Loop(stmt), Some(outer.clone()), scope, None, spot);
                lock(&turn.nodes).extend([(key, first), (value, second)]);
                builder.block(&turn, body);
            }
        });
    }

    /// A key of a map and its value.
    fn entry(&mut self, scope: ScopeId, map: NodeId, key: &Value) -> (NodeId, NodeId) {
        let name = self.graph.constant(scope, Datum::Value(key.clone()));
        let key = key.clone();
        let value = self.graph.compute(scope, &[map], move |inputs: &[&Datum]| match inputs {
            [Datum::Value(Value::Map(map))] => match map.get(&key) {
                Some(value) => State::Value(Datum::Value(value.clone())),
                None => State::Undefined,
            },
            _ => State::Undefined,
        });
        (name, value)
    }

    /// A value that counts only while a condition holds; `nil` otherwise.
    pub(super) fn conditional(
        &mut self,
        frame: &Arc<Frame>,
        condition: Option<ExprId>,
        value: ExprId,
    ) -> NodeId {
        let home = frame.home;
        let Some(condition) = condition else { return self.expr(frame, home, value) };
        let condition = self.expr(frame, home, condition);
        let frame = frame.clone();
        let attach = Switch::new(self.program.clone(), same_value, move |builder, scope, holds| {
            Some(match holds {
                Value::Bool(true) => builder.expr(&frame, scope, value),
                _ => builder.graph.constant(scope, Datum::Value(Value::Nil)),
            })
        });
        self.graph.switch(home, condition, attach)
    }

    /// The exported resources of a kind that some names ask for. They are followed.
    pub(super) fn exported(&mut self, scope: ScopeId, kind: &str, names: NodeId, span: Span) -> NodeId {
        let kind = self.graph.constant(scope, Datum::Value(Value::str(kind)));
        match mgmt_funcs::library().function("", "_collect") {
            Some(collect) => self.live(scope, collect, &[kind, names], Memory::default(), span),
            None => names,
        }
    }
}

fn panic(values: &[Value], span: Span) -> Result<Declared, Fault> {
    let message = match values {
        [Value::Bool(true)] => "the program panics".to_owned(),
        [Value::Str(text)] if !text.is_empty() => format!("the program panics: {}", text.display()),
        [Value::Bool(true), Value::Str(text)] => format!("the program panics: {}", text.display()),
        _ => return Ok(Declared::default()),
    };
    Err(Fault::new(Code::Panicked.at(span, message), false))
}

pub(super) fn end(hir: &Hir, half: &EdgeHalf) -> End {
    End {
        kind: hir.names.shared(half.kind),
        name: Str::EMPTY,
        field: half.field.map(|(field, _)| hir.names.shared(field)),
    }
}

/// The names of a resource or of an end of an edge: each once.
pub(super) fn names(value: &Value, span: Span) -> Result<Vec<Str>, Fault> {
    match value {
        Value::Str(name) => Ok(vec![name.clone()]),
        Value::List(list) => {
            let mut seen = rustc_hash::FxHashSet::default();
            let mut names = Vec::with_capacity(list.items.len());
            for item in &list.items {
                let Value::Str(name) = item else { return Err(lost(span)) };
                if seen.insert(name.clone()) {
                    names.push(name.clone());
                }
            }
            Ok(names)
        }
        _ => Err(lost(span)),
    }
}

pub(super) fn named(end: &End, value: &Value, span: Span) -> Result<Vec<End>, Fault> {
    Ok(names(value, span)?.into_iter().map(|name| End { name, ..end.clone() }).collect())
}

pub(super) fn join(found: &mut Declared, from: &[End], to: &[End], notify: bool, span: Span) {
    for from in from {
        for to in to {
            found.edges.push(DeclaredEdge { from: from.clone(), to: to.clone(), notify, span });
        }
    }
}
