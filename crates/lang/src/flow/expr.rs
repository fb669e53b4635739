//! Expressions as nodes.

use std::any::Any;
use std::sync::Arc;

use mgmt_dataflow::{Attach, Catch, NodeId, ScopeId, State};
use mgmt_diagnostics::Span;
use mgmt_funcs::{Body, Function, GraphFunction, Memory};
use mgmt_value::{Str, Type, Value};

use super::live::{LiveCall, failed, values};
use super::{Builder, Datum, Fault, Flow, Frame, Maker, Place, Program, Settled, Spot, lock};
use crate::codes::Code;
use crate::hir::*;
use crate::scope::{Imported, Target};
use crate::types::Ty;

/// A function value: a function of the program and what is around it.
pub(super) struct Closure {
    func: FuncId,
    frame: Arc<Frame>,
    ty: Type,
}

impl mgmt_value::Function for Closure {
    fn ty(&self) -> Type {
        self.ty.clone()
    }

    fn call(&self, _: &[Value]) -> Result<Value, String> {
        Err("a function of a program can only be called by the program".to_owned())
    }
}

/// Only a mistake of ours leads here.
pub(super) fn lost(span: Span) -> Fault {
    let message = "the value has no place here; this is a mistake of mgmt itself, please report it";
    Fault::new(Code::Failed.at(span, message), false)
}

fn done(value: Value) -> Settled {
    State::Value(Datum::Value(value))
}

impl Builder<'_> {
    fn lost(&mut self, scope: ScopeId, span: Span) -> NodeId {
        self.graph.compute(scope, &[], move |_: &[&Datum]| State::Failed(lost(span)))
    }

    fn value(&mut self, scope: ScopeId, value: Value) -> NodeId {
        self.graph.constant(scope, Datum::Value(value))
    }

    /// A node that is a plain function of others.
    fn pure(
        &mut self,
        scope: ScopeId,
        inputs: &[NodeId],
        mut body: impl FnMut(&[Value]) -> Result<Value, Fault> + Send + 'static,
    ) -> NodeId {
        self.graph.compute(scope, inputs, move |inputs: &[&Datum]| match body(&values(inputs)) {
            Ok(value) => done(value),
            Err(fault) => State::Failed(fault),
        })
    }

    fn apply_library(
        &mut self,
        scope: ScopeId,
        inputs: &[NodeId],
        function: Option<&'static Function>,
        span: Span,
    ) -> NodeId {
        match function.map(|function| &function.body) {
            Some(&Body::Pure(body)) => {
                self.pure(scope, inputs, move |values| body(values).map_err(|failure| failed(span, failure)))
            }
            _ => self.lost(scope, span),
        }
    }

    /// The node of an expression. New nodes live in `scope`; names mean what they mean in the frame.
    pub(super) fn expr(&mut self, frame: &Arc<Frame>, scope: ScopeId, expr: ExprId) -> NodeId {
        let checked = self.checked();
        let hir = &checked.hir;
        let span = hir[expr].span;
        if let Some(value) = self.program.literal(expr) {
            return self.value(scope, value);
        }
        match &hir[expr].kind {
            ExprKind::Missing => self.lost(scope, span),
            ExprKind::Bool(value) => self.value(scope, Value::Bool(*value)),
            ExprKind::Int(value) => self.value(scope, Value::Int(*value)),
            ExprKind::Float(value) => self.value(scope, Value::Float(*value)),
            ExprKind::Str(value) => self.value(scope, Value::Str(value.clone())),
            ExprKind::Interpolation(parts) => {
                let parts = self.exprs(frame, scope, parts);
                self.pure(scope, &parts, move |values| {
                    let mut text: Vec<u8> = Vec::new();
                    for value in values {
                        let Value::Str(value) = value else { return Err(lost(span)) };
                        text.extend_from_slice(value);
                    }
                    Ok(Value::Str(Str::new(text)))
                })
            }
            ExprKind::List(elements) => {
                let elements = self.exprs(frame, scope, elements);
                let empty = element_of(self.ty(frame, expr));
                self.pure(scope, &elements, move |values| Ok(list(values.to_vec(), &empty)))
            }
            ExprKind::Map(entries) => {
                let flat: Vec<ExprId> = entries.iter().flat_map(|&(key, value)| [key, value]).collect();
                let flat = self.exprs(frame, scope, &flat);
                let empty = match self.ty(frame, expr) {
                    Type::Map(pair) => (pair.0.clone(), pair.1.clone()),
                    _ => (Type::Nil, Type::Nil),
                };
                self.pure(scope, &flat, move |values| {
                    let (key, value) = match values {
                        [key, value, ..] => (key.ty(), value.ty()),
                        _ => empty.clone(),
                    };
                    let pairs = values.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                    Ok(Value::map(key, value, pairs))
                })
            }
            ExprKind::Struct(fields) => {
                let names: Vec<Arc<str>> =
                    fields.iter().map(|&(name, _, _)| hir.names.shared(name)).collect();
                let inputs: Vec<ExprId> = fields.iter().map(|&(_, _, value)| value).collect();
                let inputs = self.exprs(frame, scope, &inputs);
                self.pure(scope, &inputs, move |values| {
                    Ok(Value::structure(names.iter().cloned().zip(values.iter().cloned())))
                })
            }
            ExprKind::Variable(_) => self.variable(frame, scope, expr),
            ExprKind::Lambda(func) => {
                let ty = self.ty(frame, expr);
                let closure = Closure { func: *func, frame: frame.clone(), ty };
                self.value(scope, Value::Func(Arc::new(closure)))
            }
            ExprKind::If { condition, then, otherwise } => {
                let condition = self.expr(frame, scope, *condition);
                let branches = [*otherwise, *then];
                let frame = frame.clone();
                let attach = Switch::new(self.program.clone(), same_value, move |builder, scope, value| {
                    let branch = branches[usize::from(matches!(value, Value::Bool(true)))];
                    Some(builder.expr(&frame, scope, branch))
                });
                self.graph.switch(scope, condition, attach)
            }
            ExprKind::Except(value, otherwise) => {
                let value = self.expr(frame, scope, *value);
                let instead =
                    Instead { program: self.program.clone(), frame: frame.clone(), otherwise: *otherwise };
                self.graph.guard(scope, value, instead)
            }
            ExprKind::Operator(operator, _, left, right) => {
                let inputs = [self.expr(frame, scope, *left), self.expr(frame, scope, *right)];
                let library = checked.library;
                let function = library.operator(operator.text()).or_else(|| library.function("", "contains"));
                self.apply_library(scope, &inputs, function, span)
            }
            ExprKind::Not(inner) => {
                let inner = self.expr(frame, scope, *inner);
                self.pure(scope, &[inner], move |values| match values {
                    [Value::Bool(value)] => Ok(Value::Bool(!value)),
                    _ => Err(lost(span)),
                })
            }
            ExprKind::Index(base, key) => {
                let inputs = [self.expr(frame, scope, *base), self.expr(frame, scope, *key)];
                let of = |name| match checked.library.function("", name).map(|function| &function.body) {
                    Some(&Body::Pure(body)) => Some(body),
                    _ => None,
                };
                let (in_map, in_list) = (of("map_lookup"), of("list_lookup"));
                self.pure(scope, &inputs, move |values| {
                    let body = if matches!(values.first(), Some(Value::Map(_))) { in_map } else { in_list };
                    body.ok_or_else(|| lost(span))?(values).map_err(|failure| failed(span, failure))
                })
            }
            ExprKind::Field(base, field, _) => {
                let base = self.expr(frame, scope, *base);
                let field = hir.names.shared(*field);
                self.pure(scope, &[base], move |values| field_of(values, &field).ok_or_else(|| lost(span)))
            }
            ExprKind::FieldOr(base, field, _, default) => {
                let inputs = [self.expr(frame, scope, *base), self.expr(frame, scope, *default)];
                let field = hir.names.shared(*field);
                self.pure(scope, &inputs, move |values| {
                    Ok(field_of(values, &field).or_else(|| values.get(1).cloned()).unwrap_or(Value::Nil))
                })
            }
            ExprKind::Call { callee, args } => self.call(frame, scope, expr, *callee, args),
        }
    }

    pub(super) fn exprs(&mut self, frame: &Arc<Frame>, scope: ScopeId, exprs: &[ExprId]) -> Vec<NodeId> {
        exprs.iter().map(|&expr| self.expr(frame, scope, expr)).collect()
    }

    fn variable(&mut self, frame: &Arc<Frame>, scope: ScopeId, expr: ExprId) -> NodeId {
        let checked = self.checked();
        let span = checked.hir[expr].span;
        let Some(reference) = checked.scopes.of_expr(expr) else { return self.lost(scope, span) };
        match reference.target {
            Target::Var(var) => match self.through(frame, &reference.via) {
                Some(frame) => self.var(&frame, scope, var, span),
                None => self.lost(scope, span),
            },
            Target::Constant(constant) => self.value(scope, (constant.value)()),
            Target::Hostname => {
                let name = self.program.host.hostname();
                self.value(scope, Value::Str(name))
            }
            _ => self.lost(scope, span),
        }
    }

    /// The node of a variable: one for all that read it, where the variable lives.
    pub(super) fn var(&mut self, frame: &Arc<Frame>, scope: ScopeId, var: VarId, span: Span) -> NodeId {
        let checked = self.checked();
        let hir = &checked.hir;
        let place = match hir[var].origin {
            VarOrigin::Bind(stmt, _) => self.place_of(hir[stmt].block),
            VarOrigin::Param(func) => Place::Func(func),
            VarOrigin::ClassParam(class) => Place::Class(class),
            VarOrigin::LoopKey(stmt) | VarOrigin::LoopValue(stmt) => Place::Loop(stmt),
        };
        let Some(owner) = frame.of(place).cloned() else { return self.lost(scope, span) };
        let known = lock(&owner.nodes).get(&var).copied();
        if let Some(node) = known {
            return node;
        }
        let node = match (hir[var].origin, &owner.made_by) {
            (VarOrigin::Bind(_, value), _) => self.expr(&owner, owner.home, value),
            (VarOrigin::ClassParam(class), Some((Maker::Include(stmt), caller))) => {
                let index = hir[class].params.iter().position(|&param| param == var);
                match (&hir[*stmt].kind, index) {
                    (StmtKind::Include { args, .. }, Some(index)) if index < args.len() => {
                        self.expr(caller, owner.home, args[index])
                    }
                    _ => self.lost(scope, span),
                }
            }
            _ => self.lost(scope, span),
        };
        lock(&owner.nodes).insert(var, node);
        node
    }

    /// The frame that is reached through imports and includes.
    pub(super) fn through(&mut self, frame: &Arc<Frame>, via: &[StmtId]) -> Option<Arc<Frame>> {
        let checked = self.checked();
        let mut at = frame.clone();
        for &stmt in via {
            at = match (&checked.hir[stmt].kind, checked.scopes.imports.get(&stmt)) {
                (StmtKind::Import { .. }, Some(Imported::Module(module))) => self.module(*module),
                (StmtKind::Include { .. }, _) => {
                    let place = self.place_of(checked.hir[stmt].block);
                    let owner = at.of(place)?.clone();
                    self.included(&owner, stmt)?
                }
                _ => at,
            };
        }
        Some(at)
    }

    /// The copy of a class that an include makes.
    pub(super) fn included(&mut self, frame: &Arc<Frame>, stmt: StmtId) -> Option<Arc<Frame>> {
        if let Some(found) = lock(&frame.includes).get(&stmt) {
            return Some(found.clone());
        }
        let checked = self.checked();
        let reference = checked.scopes.of_include(stmt)?;
        let Target::Class(class) = reference.target else { return None };
        let place = self.place_of(checked.hir[checked.hir[class].stmt].block);
        let start = self.through(frame, &reference.via)?;
        let outer = start.of(place)?.clone();
        let maker = Some((Maker::Include(stmt), frame.clone()));
        let made = Frame::new(Place::Class(class), Some(outer), frame.home, maker, frame.spot.at(stmt));
        lock(&frame.includes).insert(stmt, made.clone());
        Some(made)
    }

    /// The type that was found for an expression, in the copy that is being built.
    fn ty(&self, frame: &Arc<Frame>, expr: ExprId) -> Type {
        match self.program.checked.typed.exprs.get(expr.index()).copied().flatten() {
            Some(ty) => concrete(&self.program, frame, ty, 64),
            None => Type::Nil,
        }
    }

    fn call(
        &mut self,
        frame: &Arc<Frame>,
        scope: ScopeId,
        expr: ExprId,
        callee: Callee,
        args: &[ExprId],
    ) -> NodeId {
        let checked = self.checked();
        let span = checked.hir[expr].span;
        let inputs = self.exprs(frame, scope, args);
        match callee {
            Callee::Lambda(inner) => match checked.hir[inner].kind {
                ExprKind::Lambda(func) => self.body(frame.clone(), scope, func, &inputs, None),
                _ => self.lost(scope, span),
            },
            Callee::Variable(inner) => {
                let function = self.expr(frame, scope, inner);
                self.apply(scope, function, inputs, span)
            }
            Callee::Function(..) => {
                let Some(reference) = checked.scopes.of_expr(expr) else { return self.lost(scope, span) };
                match reference.target {
                    Target::Func(func) => {
                        let start = self.through(frame, &reference.via);
                        let block = checked.func_blocks.get(&func).copied();
                        let outer = match (start, block) {
                            (Some(start), Some(block)) => start.of(self.place_of(block)).cloned(),
                            _ => None,
                        };
                        let Some(outer) = outer else { return self.lost(scope, span) };
                        let maker = Some((Maker::Call(expr), frame.clone()));
                        self.body(outer, scope, func, &inputs, maker)
                    }
                    Target::Library(function) => self.library(frame, scope, expr, function, &inputs),
                    _ => self.lost(scope, span),
                }
            }
        }
    }

    /// The body of a function, with nodes in the place of its parameters.
    fn body(
        &mut self,
        outer: Arc<Frame>,
        scope: ScopeId,
        func: FuncId,
        inputs: &[NodeId],
        maker: Option<(Maker, Arc<Frame>)>,
    ) -> NodeId {
        let checked = self.checked();
        // No statement is in it.
        let frame = Frame::new(Place::Func(func), Some(outer), scope, maker, Spot::default());
        lock(&frame.nodes).extend(checked.hir[func].params.iter().copied().zip(inputs.iter().copied()));
        self.expr(&frame, scope, checked.hir[func].body)
    }

    /// Calls a function that is a value: its body is attached while it is this value.
    fn apply(&mut self, scope: ScopeId, function: NodeId, inputs: Vec<NodeId>, span: Span) -> NodeId {
        let attach = Switch::new(self.program.clone(), same_value, move |builder, scope, value| {
            Some(builder.body_of(scope, value, &inputs, span))
        });
        self.graph.switch(scope, function, attach)
    }

    fn body_of(&mut self, scope: ScopeId, function: &Value, inputs: &[NodeId], span: Span) -> NodeId {
        let Value::Func(function) = function else { return self.lost(scope, span) };
        let function: &dyn Any = &**function;
        match function.downcast_ref::<Closure>() {
            Some(closure) => self.body(closure.frame.clone(), scope, closure.func, inputs, None),
            None => self.lost(scope, span),
        }
    }

    fn library(
        &mut self,
        frame: &Arc<Frame>,
        scope: ScopeId,
        expr: ExprId,
        function: &'static Function,
        inputs: &[NodeId],
    ) -> NodeId {
        let span = self.program.checked.hir[expr].span;
        match &function.body {
            Body::Pure(_) => self.apply_library(scope, inputs, Some(function), span),
            &Body::Typed(body) => {
                let ty = self.ty(frame, expr);
                self.pure(scope, inputs, move |values| {
                    body(&ty, values).map_err(|failure| failed(span, failure))
                })
            }
            Body::Host(_) | Body::Live { .. } => {
                let memory = Memory::new(self.ty(frame, expr));
                self.live(scope, function, inputs, memory, span)
            }
            Body::Graph(which) => {
                let empty = element_of(self.ty(frame, expr));
                self.higher(scope, *which, inputs, empty, span)
            }
        }
    }

    /// A function that looks at the outside world.
    pub(super) fn live(
        &mut self,
        scope: ScopeId,
        function: &'static Function,
        inputs: &[NodeId],
        memory: Memory,
        span: Span,
    ) -> NodeId {
        let ticket = lock(&self.program.watches).ticket();
        let program = self.program.clone();
        let watching = Vec::new();
        let call =
            LiveCall { program, function, span, memory, ticket, watching, has_read: false, last: None };
        let node = self.graph.compute(scope, inputs, call);
        lock(&self.program.watches).is(ticket, node, span, function);
        node
    }

    /// Functions that call other functions: a copy of the body for each element.
    fn higher(
        &mut self,
        scope: ScopeId,
        which: GraphFunction,
        inputs: &[NodeId],
        empty: Type,
        span: Span,
    ) -> NodeId {
        let Some((&function, lists)) = inputs.split_last() else { return self.lost(scope, span) };
        let (first, lists) = match (which, lists) {
            (GraphFunction::Reduce, &[initial, list]) => (Some(initial), vec![list]),
            (_, lists) => (None, lists.to_vec()),
        };
        let attach = Switch::new(self.program.clone(), same_value, move |builder, scope, function| {
            let each = Each { which, first, function: function.clone(), empty: empty.clone(), span };
            Some(builder.over(scope, &lists, Vec::new(), &Arc::new(each)))
        });
        self.graph.switch(scope, function, attach)
    }

    /// Attaches something for the lengths of some lists, with a node for each element.
    fn over(&mut self, scope: ScopeId, lists: &[NodeId], done: Vec<Vec<NodeId>>, each: &Arc<Each>) -> NodeId {
        let Some((&list, rest)) = lists.split_first() else { return self.each(scope, &done, each) };
        let (rest, each) = (rest.to_vec(), each.clone());
        let attach = Switch::new(self.program.clone(), same_length, move |builder, scope, value| {
            let length = match value {
                Value::List(list) => list.items.len(),
                _ => 0,
            };
            let elements = (0..length).map(|index| builder.element(scope, list, index)).collect();
            let done = done.iter().cloned().chain([elements]).collect();
            Some(builder.over(scope, &rest, done, &each))
        });
        self.graph.switch(scope, list, attach)
    }

    pub(super) fn element(&mut self, scope: ScopeId, list: NodeId, index: usize) -> NodeId {
        self.graph.compute(scope, &[list], move |inputs: &[&Datum]| match inputs {
            [Datum::Value(Value::List(list))] => match list.items.get(index) {
                Some(item) => done(item.clone()),
                None => State::Undefined,
            },
            _ => State::Undefined,
        })
    }

    fn each(&mut self, scope: ScopeId, elements: &[Vec<NodeId>], each: &Each) -> NodeId {
        let Each { which, first, function, empty, span } = each;
        let (span, empty) = (*span, empty.clone());
        match (which, elements) {
            (GraphFunction::Map, [items]) => {
                let results: Vec<NodeId> =
                    items.iter().map(|&item| self.body_of(scope, function, &[item], span)).collect();
                self.pure(scope, &results, move |values| Ok(list(values.to_vec(), &empty)))
            }
            (GraphFunction::Zip, [a, b]) => {
                let pairs = a.iter().zip(b);
                let results: Vec<NodeId> =
                    pairs.map(|(&a, &b)| self.body_of(scope, function, &[a, b], span)).collect();
                self.pure(scope, &results, move |values| Ok(list(values.to_vec(), &empty)))
            }
            (GraphFunction::Filter, [items]) => {
                let mut inputs = items.clone();
                for &item in items {
                    let kept = self.body_of(scope, function, &[item], span);
                    inputs.push(kept);
                }
                self.pure(scope, &inputs, move |values| {
                    let (items, kept) = values.split_at(values.len() / 2);
                    let pairs = items.iter().zip(kept);
                    let kept = pairs.filter(|(_, kept)| matches!(kept, Value::Bool(true)));
                    Ok(list(kept.map(|(item, _)| item.clone()).collect(), &empty))
                })
            }
            (GraphFunction::Reduce, [items]) => {
                let (start, rest) = match (*first, items.split_first()) {
                    (Some(first), _) => (first, items.as_slice()),
                    (None, Some((&first, rest))) => (first, rest),
                    (None, None) => {
                        let message = "an empty list cannot be reduced without a first value";
                        let fault = failed(span, mgmt_funcs::Failure::fatal(message));
                        return self
                            .graph
                            .compute(scope, &[], move |_: &[&Datum]| State::Failed(fault.clone()));
                    }
                };
                rest.iter().fold(start, |sum, &item| self.body_of(scope, function, &[sum, item], span))
            }
            _ => self.lost(scope, span),
        }
    }
}

/// A call of a function that calls another one for elements.
struct Each {
    which: GraphFunction,
    /// What a reduction starts with.
    first: Option<NodeId>,
    function: Value,
    /// The type of the elements of an empty result.
    empty: Type,
    span: Span,
}

/// A type without what is generic in it.
fn concrete(program: &Program, frame: &Arc<Frame>, ty: Ty, fuel: u32) -> Type {
    let Some(fuel) = fuel.checked_sub(1) else { return Type::Nil };
    let typed = &program.checked.typed;
    typed.types.to_type(&program.checked.hir.names, ty, &mut |var| {
        let mut at = Some(frame);
        while let Some(frame) = at {
            if let Some((maker, caller)) = &frame.made_by {
                let copies = match maker {
                    Maker::Call(expr) => typed.calls.get(expr),
                    Maker::Include(stmt) => typed.includes.get(stmt),
                };
                if let Some(&copy) = copies.and_then(|copies| copies.get(&var)) {
                    return concrete(program, caller, copy, fuel);
                }
            }
            at = frame.parent.as_ref();
        }
        Type::Nil
    })
}

fn element_of(ty: Type) -> Type {
    match ty {
        Type::List(element) => (*element).clone(),
        _ => Type::Nil,
    }
}

fn list(items: Vec<Value>, empty: &Type) -> Value {
    let element = items.first().map_or_else(|| empty.clone(), Value::ty);
    Value::list(element, items)
}

fn field_of(values: &[Value], field: &str) -> Option<Value> {
    match values.first() {
        Some(Value::Struct(value)) => {
            value.fields.iter().find(|(name, _)| **name == *field).map(|(_, value)| value.clone())
        }
        _ => None,
    }
}

pub(super) fn same_value(old: &Value, new: &Value) -> bool {
    old == new
}

pub(super) fn same_length(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::List(old), Value::List(new)) => old.items.len() == new.items.len(),
        _ => false,
    }
}

/// Attaches what a closure builds.
pub(super) struct Switch<F> {
    program: Arc<Program>,
    same: fn(&Value, &Value) -> bool,
    build: F,
}

impl<F> Switch<F>
where
    F: FnMut(&mut Builder<'_>, ScopeId, &Value) -> Option<NodeId> + Send,
{
    pub(super) fn new(program: Arc<Program>, same: fn(&Value, &Value) -> bool, build: F) -> Switch<F> {
        Switch { program, same, build }
    }
}

impl<F> Attach<Datum, Fault> for Switch<F>
where
    F: FnMut(&mut Builder<'_>, ScopeId, &Value) -> Option<NodeId> + Send,
{
    fn same(&self, old: &Datum, new: &Datum) -> bool {
        match (old, new) {
            (Datum::Value(old), Datum::Value(new)) => (self.same)(old, new),
            _ => false,
        }
    }

    fn attach(&mut self, graph: &mut Flow, scope: ScopeId, value: &Datum) -> Option<NodeId> {
        let Datum::Value(value) = value else { return None };
        let mut builder = Builder { program: self.program.clone(), graph };
        (self.build)(&mut builder, scope, value)
    }
}

/// Attaches the right side of `<|>`.
struct Instead {
    program: Arc<Program>,
    frame: Arc<Frame>,
    otherwise: ExprId,
}

impl Catch<Datum, Fault> for Instead {
    fn catches(&self, fault: &Fault) -> bool {
        fault.catchable
    }

    fn attach(&mut self, graph: &mut Flow, scope: ScopeId) -> NodeId {
        Builder { program: self.program.clone(), graph }.expr(&self.frame, scope, self.otherwise)
    }
}
