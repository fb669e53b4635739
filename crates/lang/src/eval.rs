//! The plain meaning of a program: its values and resources at one moment, computed from scratch.
//!
//! This is the reference: everything is computed anew, in the order in which it is needed, with the first value of each
//! function. It is what `mgmt graph` shows, and what anything cleverer is held against.
//!
//! A [`Frame`] is one copy of what a scope defines: a file, a class that is included, one turn of a loop, one call of a
//! function. A value is computed when it is first read, and kept by its frame.

use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use mgmt_diagnostics::{Diagnostic, Span};
use mgmt_funcs::{Body, Failure, Function, GraphFunction, Host, Memory};
use mgmt_resource::{Registry, ResourceGraph};
use mgmt_value::{List, Str, Type, Value};
use rustc_hash::FxHashMap;

use crate::Checked;
use crate::codes::Code;
use crate::hir::*;
use crate::output::{self, Declaration, DeclaredEdge, Draft, End};
use crate::scope::{Imported, Reference, Target};
use crate::types::Ty;

/// The resources of a program at this moment.
///
/// # Errors
///
/// A function fails, or the resources cannot be.
pub fn evaluate(
    checked: &Checked,
    kinds: &Registry,
    host: &(dyn Host + Sync),
) -> Result<ResourceGraph, Vec<Diagnostic>> {
    let work = || {
        let evaluation = Evaluation::new(checked, kinds, host);
        evaluation.main().map_err(|fault| vec![fault.diagnostic()])?;
        let wrong = evaluation.wrong.into_inner();
        if !wrong.is_empty() {
            return Err(wrong);
        }
        output::assemble(evaluation.declarations.into_inner(), &evaluation.edges.into_inner(), kinds)
            .map(|assembled| assembled.graph)
            .map_err(|problems| problems.into_iter().map(|problem| problem.diagnostic).collect())
    };
    mgmt_syntax::with_deep_stack(checked.depth, work).unwrap_or_else(|error| {
        let start = checked.hir.modules.first().map(|module| Span { file: module.file, start: 0, end: 0 });
        let message = format!("the program is nested too deep for the memory that there is: {error}");
        Err(start.map(|span| Code::Failed.at(span, message)).into_iter().collect())
    })
}

/// What one statement of a program declares at this moment.
#[derive(Clone, Debug)]
pub struct StatementValue {
    /// The statements, branches, indexes and keys on the way to it.
    pub path: Vec<String>,
    /// What it declares by itself, or why it declares nothing. A condition, a loop and an include declare nothing by themselves.
    pub declared: Result<DeclaredPart, Diagnostic>,
}

/// The resources and edges of one statement.
#[derive(Clone, Debug, Default)]
pub struct DeclaredPart {
    /// The resources.
    pub resources: Vec<mgmt_resource::Spec>,
    /// The edges: the names of both ends, and whether it notifies.
    pub edges: Vec<(String, String, bool)>,
}

/// What the statements of a program declare at this moment, each by itself: a failure of one does not stop the others.
pub fn evaluate_statements(
    checked: &Checked,
    kinds: &Registry,
    host: &(dyn Host + Sync),
) -> Vec<StatementValue> {
    let work = || {
        let evaluation =
            Evaluation { parts: Some(RefCell::default()), ..Evaluation::new(checked, kinds, host) };
        // Each statement has its own outcome.
        let _ = evaluation.main();
        evaluation.parts.map(|parts| parts.into_inner().done).unwrap_or_default()
    };
    mgmt_syntax::with_deep_stack(checked.depth, work).unwrap_or_default()
}

/// The statements that were evaluated one by one.
#[derive(Default)]
struct Parts {
    path: Vec<String>,
    done: Vec<StatementValue>,
}

/// Why there is no value.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    message: String,
    span: Span,
    /// `<|>` may replace it.
    catchable: bool,
    code: Code,
}

impl Fault {
    fn diagnostic(&self) -> Diagnostic {
        let diagnostic = self.code.at(self.span, self.message.clone());
        match self.catchable {
            true => diagnostic.hint("`<|>` gives another value for when this fails"),
            false => diagnostic,
        }
    }
}

type Outcome<T = Value> = Result<T, Fault>;

/// One copy of what a scope defines.
pub(crate) struct Frame {
    scope: ScopeId,
    parent: Option<Arc<Frame>>,
    values: Mutex<FxHashMap<VarId, Outcome>>,
    includes: Mutex<FxHashMap<StmtId, Arc<Frame>>>,
    /// What made it, and where: the call or the include, for what is generic in it.
    made_by: Option<(Maker, Arc<Frame>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ScopeId {
    Module(ModuleId),
    Class(ClassId),
    Loop(StmtId),
    Func(FuncId),
}

#[derive(Clone, Copy)]
enum Maker {
    Call(ExprId),
    Include(StmtId),
}

/// A function value: a function of the program and what is around it.
struct Closure {
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

struct Evaluation<'a> {
    checked: &'a Checked,
    kinds: &'a Registry,
    modules: Vec<RefCell<Option<Arc<Frame>>>>,
    declarations: RefCell<Vec<Declaration>>,
    edges: RefCell<Vec<DeclaredEdge>>,
    wrong: RefCell<Vec<Diagnostic>>,
    host: &'a dyn Host,
    /// Statements are evaluated one by one, whatever becomes of others.
    parts: Option<RefCell<Parts>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Frame {
    fn new(scope: ScopeId, parent: Option<Arc<Frame>>, made_by: Option<(Maker, Arc<Frame>)>) -> Arc<Frame> {
        Arc::new(Frame { scope, parent, values: Mutex::default(), includes: Mutex::default(), made_by })
    }

    fn set(&self, var: VarId, value: Outcome) {
        lock(&self.values).insert(var, value);
    }

    /// The frame of a scope, among this one and those around it.
    fn of(self: &Arc<Frame>, scope: ScopeId) -> Option<&Arc<Frame>> {
        let mut at = self;
        while at.scope != scope {
            at = at.parent.as_ref()?;
        }
        Some(at)
    }
}

impl<'a> Evaluation<'a> {
    fn new(checked: &'a Checked, kinds: &'a Registry, host: &'a dyn Host) -> Evaluation<'a> {
        Evaluation {
            checked,
            kinds,
            modules: checked.hir.modules.iter().map(|_| RefCell::new(None)).collect(),
            declarations: RefCell::default(),
            edges: RefCell::default(),
            wrong: RefCell::default(),
            host,
            parts: None,
        }
    }
}

impl Evaluation<'_> {
    fn hir(&self) -> &Hir {
        &self.checked.hir
    }

    fn fault(&self, expr: ExprId, message: impl Into<String>) -> Fault {
        Fault { message: message.into(), span: self.hir()[expr].span, catchable: false, code: Code::Failed }
    }

    fn failed(&self, span: Span, failure: Failure) -> Fault {
        let catchable = matches!(failure, Failure::Catchable(_));
        Fault { message: failure.to_string(), span, catchable, code: Code::Failed }
    }

    fn module(&self, module: ModuleId) -> Arc<Frame> {
        let mut slot = self.modules[module.index()].borrow_mut();
        slot.get_or_insert_with(|| Frame::new(ScopeId::Module(module), None, None)).clone()
    }

    fn main(&self) -> Outcome<()> {
        let frame = self.module(ModuleId(0));
        self.block(&frame, self.hir()[ModuleId(0)].block)
    }

    /// The scope whose copies hold what a block defines.
    fn scope_of(&self, mut block: BlockId) -> ScopeId {
        loop {
            match self.hir()[block].parent {
                Parent::Module(module) => return ScopeId::Module(module),
                Parent::Class(class, _) => return ScopeId::Class(class),
                Parent::Loop(stmt, _) => return ScopeId::Loop(stmt),
                Parent::Block(outer) => block = outer,
            }
        }
    }

    /// The frame that is reached through imports and includes.
    fn through(&self, frame: &Arc<Frame>, via: &[StmtId], span: Span) -> Outcome<Arc<Frame>> {
        let mut at = frame.clone();
        for &stmt in via {
            at = match (&self.hir()[stmt].kind, self.checked.scopes.imports.get(&stmt)) {
                (StmtKind::Import { .. }, Some(Imported::Module(module))) => self.module(*module),
                (StmtKind::Include { .. }, _) => {
                    let scope = self.scope_of(self.hir()[stmt].block);
                    let owner = at.of(scope).cloned().ok_or_else(|| self.lost(span))?;
                    self.included(&owner, stmt)?
                }
                _ => at,
            };
        }
        Ok(at)
    }

    /// Only a mistake of ours leads here.
    fn lost(&self, span: Span) -> Fault {
        let message =
            "the value has no place here; this is a mistake of mgmt itself, please report it".to_owned();
        Fault { message, span, catchable: false, code: Code::Failed }
    }

    /// The copy of a class that an include makes.
    fn included(&self, frame: &Arc<Frame>, stmt: StmtId) -> Outcome<Arc<Frame>> {
        if let Some(found) = lock(&frame.includes).get(&stmt) {
            return Ok(found.clone());
        }
        let span = self.hir()[stmt].span;
        let reference = self.checked.scopes.of_include(stmt).ok_or_else(|| self.lost(span))?;
        let Target::Class(class) = reference.target else { return Err(self.lost(span)) };
        let outer = self.scope_of(self.hir()[self.hir()[class].stmt].block);
        let start = self.through(frame, &reference.via, span)?;
        let outer = start.of(outer).cloned().ok_or_else(|| self.lost(span))?;
        let made =
            Frame::new(ScopeId::Class(class), Some(outer), Some((Maker::Include(stmt), frame.clone())));
        lock(&frame.includes).insert(stmt, made.clone());
        Ok(made)
    }

    fn var(&self, frame: &Arc<Frame>, var: VarId, span: Span) -> Outcome {
        let hir = self.hir();
        let scope = match hir[var].origin {
            VarOrigin::Bind(stmt, _) => self.scope_of(hir[stmt].block),
            VarOrigin::Param(func) => ScopeId::Func(func),
            VarOrigin::ClassParam(class) => ScopeId::Class(class),
            VarOrigin::LoopKey(stmt) | VarOrigin::LoopValue(stmt) => ScopeId::Loop(stmt),
        };
        let owner = frame.of(scope).ok_or_else(|| self.lost(span))?;
        if let Some(value) = lock(&owner.values).get(&var) {
            return value.clone();
        }
        let value = match hir[var].origin {
            VarOrigin::Bind(_, value) => self.expr(owner, value),
            VarOrigin::ClassParam(class) => match &owner.made_by {
                Some((Maker::Include(stmt), caller)) => {
                    let index = hir[class].params.iter().position(|&param| param == var);
                    match (&hir[*stmt].kind, index) {
                        (StmtKind::Include { args, .. }, Some(index)) if index < args.len() => {
                            self.expr(caller, args[index])
                        }
                        _ => Err(self.lost(span)),
                    }
                }
                _ => Err(self.lost(span)),
            },
            _ => Err(self.lost(span)),
        };
        owner.set(var, value.clone());
        value
    }

    /// The type that was found for an expression, in the copy that is being computed.
    fn ty(&self, frame: &Arc<Frame>, expr: ExprId) -> Type {
        match self.checked.typed.exprs.get(expr.index()).copied().flatten() {
            Some(ty) => self.concrete(frame, ty, 64),
            None => Type::Nil,
        }
    }

    /// A type without what is generic in it.
    fn concrete(&self, frame: &Arc<Frame>, ty: Ty, fuel: u32) -> Type {
        let Some(fuel) = fuel.checked_sub(1) else { return Type::Nil };
        let typed = &self.checked.typed;
        typed.types.to_type(&self.hir().names, ty, &mut |var| {
            let mut at = Some(frame);
            while let Some(frame) = at {
                if let Some((maker, caller)) = &frame.made_by {
                    let copies = match maker {
                        Maker::Call(expr) => typed.calls.get(expr),
                        Maker::Include(stmt) => typed.includes.get(stmt),
                    };
                    if let Some(&copy) = copies.and_then(|copies| copies.get(&var)) {
                        return self.concrete(caller, copy, fuel);
                    }
                }
                at = frame.parent.as_ref();
            }
            Type::Nil
        })
    }

    fn expr(&self, frame: &Arc<Frame>, expr: ExprId) -> Outcome {
        let hir = self.hir();
        let span = hir[expr].span;
        Ok(match &hir[expr].kind {
            ExprKind::Missing => return Err(self.lost(span)),
            ExprKind::Bool(value) => Value::Bool(*value),
            ExprKind::Int(value) => Value::Int(*value),
            ExprKind::Float(value) => Value::Float(*value),
            ExprKind::Str(value) => Value::Str(value.clone()),
            ExprKind::Interpolation(parts) => {
                let mut text: Vec<u8> = Vec::new();
                for &part in parts {
                    match self.expr(frame, part)? {
                        Value::Str(value) => text.extend_from_slice(&value),
                        _ => return Err(self.lost(span)),
                    }
                }
                Value::Str(Str::new(text))
            }
            ExprKind::List(elements) => {
                let items: Vec<Value> =
                    elements.iter().map(|&element| self.expr(frame, element)).collect::<Outcome<_>>()?;
                let element = match items.first() {
                    Some(first) => first.ty(),
                    None => match self.ty(frame, expr) {
                        Type::List(element) => (*element).clone(),
                        _ => Type::Nil,
                    },
                };
                Value::list(element, items)
            }
            ExprKind::Map(entries) => {
                let items: Vec<(Value, Value)> = entries
                    .iter()
                    .map(|&(key, value)| Ok((self.expr(frame, key)?, self.expr(frame, value)?)))
                    .collect::<Outcome<_>>()?;
                let (key, value) = match items.first() {
                    Some((key, value)) => (key.ty(), value.ty()),
                    None => match self.ty(frame, expr) {
                        Type::Map(pair) => (pair.0.clone(), pair.1.clone()),
                        _ => (Type::Nil, Type::Nil),
                    },
                };
                Value::map(key, value, items)
            }
            ExprKind::Struct(fields) => {
                let fields: Vec<(Arc<str>, Value)> = fields
                    .iter()
                    .map(|&(name, _, value)| Ok((hir.names.shared(name), self.expr(frame, value)?)))
                    .collect::<Outcome<_>>()?;
                Value::structure(fields)
            }
            ExprKind::Variable(_) => return self.variable(frame, expr),
            ExprKind::Lambda(func) => {
                let ty = self.ty(frame, expr);
                Value::Func(Arc::new(Closure { func: *func, frame: frame.clone(), ty }))
            }
            ExprKind::If { condition, then, otherwise } => {
                let branch = if self.truth(frame, *condition)? { *then } else { *otherwise };
                return self.expr(frame, branch);
            }
            ExprKind::Except(value, otherwise) => {
                return match self.expr(frame, *value) {
                    Err(fault) if fault.catchable => self.expr(frame, *otherwise),
                    other => other,
                };
            }
            ExprKind::Operator(operator, _, left, right) => {
                let args = [self.expr(frame, *left)?, self.expr(frame, *right)?];
                let found = self.checked.library.operator(operator.text());
                let found = found.or_else(|| self.checked.library.function("", "contains"));
                return self.pure(found, span, &args);
            }
            ExprKind::Not(inner) => Value::Bool(!self.truth(frame, *inner)?),
            ExprKind::Index(base, key) => {
                let args = [self.expr(frame, *base)?, self.expr(frame, *key)?];
                let name = if matches!(args[0], Value::Map(_)) { "map_lookup" } else { "list_lookup" };
                return self.pure(self.checked.library.function("", name), span, &args);
            }
            ExprKind::Field(base, field, _) => {
                let value = self.expr(frame, *base)?;
                return field_of(&value, hir.text(*field)).ok_or_else(|| self.lost(span));
            }
            ExprKind::FieldOr(base, field, _, default) => {
                let value = self.expr(frame, *base)?;
                let default = self.expr(frame, *default)?;
                field_of(&value, hir.text(*field)).unwrap_or(default)
            }
            ExprKind::Call { callee, args } => return self.call(frame, expr, *callee, args),
        })
    }

    fn truth(&self, frame: &Arc<Frame>, expr: ExprId) -> Outcome<bool> {
        match self.expr(frame, expr)? {
            Value::Bool(value) => Ok(value),
            _ => Err(self.lost(self.hir()[expr].span)),
        }
    }

    fn pure(&self, function: Option<&'static Function>, span: Span, args: &[Value]) -> Outcome {
        match function.map(|function| &function.body) {
            Some(Body::Pure(body)) => body(args).map_err(|failure| self.failed(span, failure)),
            _ => Err(self.lost(span)),
        }
    }

    fn variable(&self, frame: &Arc<Frame>, expr: ExprId) -> Outcome {
        let span = self.hir()[expr].span;
        let reference = self.checked.scopes.of_expr(expr).ok_or_else(|| self.lost(span))?;
        match reference.target {
            Target::Var(var) => {
                let frame = self.through(frame, &reference.via, span)?;
                self.var(&frame, var, span)
            }
            Target::Constant(constant) => Ok((constant.value)()),
            Target::Hostname => Ok(Value::Str(self.host.hostname())),
            _ => Err(self.lost(span)),
        }
    }

    fn call(&self, frame: &Arc<Frame>, expr: ExprId, callee: Callee, args: &[ExprId]) -> Outcome {
        let span = self.hir()[expr].span;
        let values =
            |this: &Self| -> Outcome<Vec<Value>> { args.iter().map(|&arg| this.expr(frame, arg)).collect() };
        match callee {
            Callee::Variable(inner) | Callee::Lambda(inner) => {
                let function = self.expr(frame, inner)?;
                let values = values(self)?;
                self.apply(&function, values, span)
            }
            Callee::Function(..) => {
                let reference = self.checked.scopes.of_expr(expr).ok_or_else(|| self.lost(span))?;
                match reference.target {
                    Target::Func(func) => {
                        let values = values(self)?;
                        self.call_func(frame, expr, func, reference, values)
                    }
                    Target::Library(function) => {
                        let values = values(self)?;
                        self.call_library(frame, expr, function, &values)
                    }
                    _ => Err(self.lost(span)),
                }
            }
        }
    }

    fn call_func(
        &self,
        frame: &Arc<Frame>,
        expr: ExprId,
        func: FuncId,
        reference: &Reference,
        values: Vec<Value>,
    ) -> Outcome {
        let span = self.hir()[expr].span;
        let start = self.through(frame, &reference.via, span)?;
        let block = self.checked.func_blocks.get(&func).ok_or_else(|| self.lost(span))?;
        let outer = start.of(self.scope_of(*block)).cloned().ok_or_else(|| self.lost(span))?;
        let made = Frame::new(ScopeId::Func(func), Some(outer), Some((Maker::Call(expr), frame.clone())));
        self.body(&made, func, values)
    }

    fn body(&self, made: &Arc<Frame>, func: FuncId, values: Vec<Value>) -> Outcome {
        for (&param, value) in self.hir()[func].params.iter().zip(values) {
            made.set(param, Ok(value));
        }
        self.expr(made, self.hir()[func].body)
    }

    /// Calls a function value.
    fn apply(&self, function: &Value, values: Vec<Value>, span: Span) -> Outcome {
        let Value::Func(function) = function else { return Err(self.lost(span)) };
        let function: &dyn Any = &**function;
        let Some(closure) = function.downcast_ref::<Closure>() else { return Err(self.lost(span)) };
        let made = Frame::new(ScopeId::Func(closure.func), Some(closure.frame.clone()), None);
        self.body(&made, closure.func, values)
    }

    fn call_library(
        &self,
        frame: &Arc<Frame>,
        expr: ExprId,
        function: &'static Function,
        values: &[Value],
    ) -> Outcome {
        let span = self.hir()[expr].span;
        let failed = |failure| self.failed(span, failure);
        match &function.body {
            Body::Pure(body) => body(values).map_err(failed),
            Body::Typed(body) => body(&self.ty(frame, expr), values).map_err(failed),
            Body::Host(read) | Body::Live { read, .. } => {
                let mut memory = Memory::new(self.ty(frame, expr));
                let host = crate::host::Based { host: self.host, base: self.checked.base(span.file) };
                match read(&mut memory, &host, values).map_err(failed)? {
                    Value::Nil => Err(self.fault(expr, format!("`{}` has no value yet", function.name))),
                    value => Ok(value),
                }
            }
            Body::Graph(which) => self.higher(frame, expr, *which, values),
        }
    }

    /// Functions that call other functions.
    fn higher(&self, frame: &Arc<Frame>, expr: ExprId, which: GraphFunction, values: &[Value]) -> Outcome {
        let span = self.hir()[expr].span;
        let element = || match self.ty(frame, expr) {
            Type::List(element) => (*element).clone(),
            _ => Type::Nil,
        };
        let made = |items: Vec<Value>| {
            let element = items.first().map_or_else(element, Value::ty);
            Value::list(element, items)
        };
        match (which, values) {
            (GraphFunction::Map, [Value::List(list), function]) => {
                let items = list.items.iter().map(|item| self.apply(function, vec![item.clone()], span));
                Ok(made(items.collect::<Outcome<_>>()?))
            }
            (GraphFunction::Filter, [Value::List(list), function]) => {
                let mut items = Vec::new();
                for item in &list.items {
                    if let Value::Bool(true) = self.apply(function, vec![item.clone()], span)? {
                        items.push(item.clone());
                    }
                }
                Ok(Value::list(list.element.clone(), items))
            }
            (GraphFunction::Zip, [Value::List(a), Value::List(b), function]) => {
                let items = a.items.iter().zip(&b.items);
                let items = items.map(|(a, b)| self.apply(function, vec![a.clone(), b.clone()], span));
                Ok(made(items.collect::<Outcome<_>>()?))
            }
            (GraphFunction::Reduce, [Value::List(list), function]) => match list.items.split_first() {
                Some((first, rest)) => self.fold(first.clone(), rest, function, span),
                None => Err(self.fault(expr, "an empty list cannot be reduced without a first value")),
            },
            (GraphFunction::Reduce, [first, Value::List(list), function]) => {
                self.fold(first.clone(), &list.items, function, span)
            }
            _ => Err(self.lost(span)),
        }
    }

    fn fold(&self, first: Value, rest: &[Value], function: &Value, span: Span) -> Outcome {
        rest.iter().try_fold(first, |sum, item| self.apply(function, vec![sum, item.clone()], span))
    }
}

fn field_of(value: &Value, field: &str) -> Option<Value> {
    match value {
        Value::Struct(value) => {
            value.fields.iter().find(|(name, _)| **name == *field).map(|(_, value)| value.clone())
        }
        _ => None,
    }
}

/// What statements declare.
impl Evaluation<'_> {
    fn block(&self, frame: &Arc<Frame>, block: BlockId) -> Outcome<()> {
        for &stmt in &self.hir()[block].stmts {
            match &self.parts {
                None => self.stmt(frame, stmt)?,
                Some(parts) => self.part(frame, stmt, parts),
            }
        }
        Ok(())
    }

    /// Evaluates a statement by itself.
    fn part(&self, frame: &Arc<Frame>, stmt: StmtId, parts: &RefCell<Parts>) {
        let path = {
            let mut parts = parts.borrow_mut();
            parts.path.push(stmt.index().to_string());
            parts.path.clone()
        };
        let outcome = self.stmt(frame, stmt);
        let mut parts = parts.borrow_mut();
        parts.path.pop();
        let resources = self.declarations.borrow_mut().drain(..).map(|found| found.spec).collect();
        let name = |end: &End| format!("{}[{}]", end.kind, end.name.display());
        let edge = |edge: DeclaredEdge| (name(&edge.from), name(&edge.to), edge.notify);
        let edges = self.edges.borrow_mut().drain(..).map(edge).collect();
        let part = DeclaredPart { resources, edges };
        let wrong = self.wrong.borrow_mut().drain(..).next();
        let declared = match (outcome, wrong) {
            (Err(fault), _) => Err(fault.diagnostic()),
            (Ok(()), Some(wrong)) => Err(wrong),
            (Ok(()), None) => Ok(part),
        };
        parts.done.push(StatementValue { path, declared });
    }

    /// Evaluates a block of a statement.
    fn inner(&self, step: impl std::fmt::Display, frame: &Arc<Frame>, block: BlockId) -> Outcome<()> {
        let Some(parts) = &self.parts else { return self.block(frame, block) };
        parts.borrow_mut().path.push(step.to_string());
        let outcome = self.block(frame, block);
        parts.borrow_mut().path.pop();
        outcome
    }

    fn stmt(&self, frame: &Arc<Frame>, stmt: StmtId) -> Outcome<()> {
        let hir = self.hir();
        match &hir[stmt].kind {
            StmtKind::Bind(..) | StmtKind::Func(_) | StmtKind::Class(_) | StmtKind::Import { .. } => Ok(()),
            StmtKind::If { condition, then, otherwise } => match self.truth(frame, *condition)? {
                true => self.inner("then", frame, *then),
                false => otherwise.map_or(Ok(()), |otherwise| self.inner("else", frame, otherwise)),
            },
            StmtKind::Loop { key, value, over, body, .. } => {
                let turns: Vec<(Value, Value)> = match self.expr(frame, *over)? {
                    Value::List(list) => (0..).map(Value::Int).zip(list.items.iter().cloned()).collect(),
                    Value::Map(map) => map.entries().to_vec(),
                    _ => return Err(self.lost(hir[*over].span)),
                };
                for (first, second) in turns {
                    let turn = Frame::new(ScopeId::Loop(stmt), Some(frame.clone()), None);
                    let step = first.to_string();
                    turn.set(*key, Ok(first));
                    turn.set(*value, Ok(second));
                    self.inner(step, &turn, *body)?;
                }
                Ok(())
            }
            StmtKind::Panic(args) => self.panic(frame, stmt, args),
            StmtKind::Include { args, .. } => {
                let made = self.included(frame, stmt)?;
                let Some(Target::Class(class)) =
                    self.checked.scopes.of_include(stmt).map(|found| found.target)
                else {
                    return Err(self.lost(hir[stmt].span));
                };
                // Arguments are values, whether or not the class reads them.
                let mut given = hir[class].params.iter().zip(args);
                let given: Outcome<()> =
                    given.try_for_each(|(&param, &arg)| self.var(&made, param, hir[arg].span).map(drop));
                match self.parts.is_some() {
                    true => self.inner("class", &made, hir[class].body).and(given),
                    false => given.and_then(|()| self.inner("class", &made, hir[class].body)),
                }
            }
            StmtKind::Edge(halves) => self.edge(frame, stmt, halves),
            StmtKind::Resource(resource) => self.resource(frame, stmt, resource),
        }
    }

    fn panic(&self, frame: &Arc<Frame>, stmt: StmtId, args: &[ExprId]) -> Outcome<()> {
        let values: Vec<Value> = args.iter().map(|&arg| self.expr(frame, arg)).collect::<Outcome<_>>()?;
        let message = match values.as_slice() {
            [Value::Bool(true)] => "the program panics".to_owned(),
            [Value::Str(text)] if !text.is_empty() => format!("the program panics: {}", text.display()),
            [Value::Bool(true), Value::Str(text)] => format!("the program panics: {}", text.display()),
            _ => return Ok(()),
        };
        Err(Fault { message, span: self.hir()[stmt].span, catchable: false, code: Code::Panicked })
    }

    /// The names of a resource or of an end of an edge: each once.
    fn names(&self, frame: &Arc<Frame>, expr: ExprId) -> Outcome<Vec<Str>> {
        match self.expr(frame, expr)? {
            Value::Str(name) => Ok(vec![name]),
            Value::List(list) => self.distinct(&list, expr),
            _ => Err(self.lost(self.hir()[expr].span)),
        }
    }

    fn distinct(&self, list: &List, expr: ExprId) -> Outcome<Vec<Str>> {
        let mut names: Vec<Str> = Vec::with_capacity(list.items.len());
        let mut seen = rustc_hash::FxHashSet::default();
        for item in &list.items {
            let Value::Str(name) = item else { return Err(self.lost(self.hir()[expr].span)) };
            if seen.insert(name.clone()) {
                names.push(name.clone());
            }
        }
        Ok(names)
    }

    fn ends(&self, frame: &Arc<Frame>, half: &EdgeHalf) -> Outcome<Vec<End>> {
        let hir = self.hir();
        let names = self.names(frame, half.name)?;
        Ok(names
            .into_iter()
            .map(|name| End {
                kind: hir.names.shared(half.kind),
                name,
                field: half.field.map(|(field, _)| hir.names.shared(field)),
            })
            .collect())
    }

    fn edge(&self, frame: &Arc<Frame>, stmt: StmtId, halves: &[EdgeHalf]) -> Outcome<()> {
        let ends: Vec<Vec<End>> = halves.iter().map(|half| self.ends(frame, half)).collect::<Outcome<_>>()?;
        for pair in ends.windows(2) {
            self.join(&pair[0], &pair[1], false, self.hir()[stmt].span);
        }
        Ok(())
    }

    fn join(&self, from: &[End], to: &[End], notify: bool, span: Span) {
        let mut edges = self.edges.borrow_mut();
        for from in from {
            for to in to {
                edges.push(DeclaredEdge { from: from.clone(), to: to.clone(), notify, span });
            }
        }
    }

    fn holds(&self, frame: &Arc<Frame>, condition: Option<ExprId>) -> Outcome<bool> {
        condition.map_or(Ok(true), |condition| self.truth(frame, condition))
    }

    fn resource(&self, frame: &Arc<Frame>, stmt: StmtId, resource: &Resource) -> Outcome<()> {
        let hir = self.hir();
        let span = hir[stmt].span;
        let Some(schema) = self.kinds.get(hir.text(resource.kind)) else { return Err(self.lost(span)) };
        let mut drafts: Vec<Draft> = match resource.collect {
            true => self.collected(frame, resource, schema, span)?,
            false => self
                .names(frame, resource.name)?
                .into_iter()
                .map(|name| Draft::new(schema, name, span))
                .collect(),
        };
        let mut settings: Vec<(bool, Arc<str>, Value, Span)> = Vec::new();
        for field in &resource.fields {
            if self.holds(frame, field.condition)? {
                let value = self.expr(frame, field.value)?;
                settings.push((false, hir.names.shared(field.name), value, field.name_span));
            }
        }
        for meta in &resource.meta {
            if !self.holds(frame, meta.condition)? {
                continue;
            }
            match (meta.param, self.expr(frame, meta.value)?) {
                (Some((name, at)), value) => settings.push((true, hir.names.shared(name), value, at)),
                (None, Value::Struct(value)) => {
                    for (name, value) in &value.fields {
                        let at = hir.place_in_struct(meta.value, name).unwrap_or(meta.span);
                        settings.push((true, name.clone(), value.clone(), at));
                    }
                }
                (None, _) => return Err(self.lost(meta.span)),
            }
        }
        let mut others: Vec<(EdgeWord, Vec<End>, Span)> = Vec::new();
        for edge in &resource.edges {
            if self.holds(frame, edge.condition)? {
                others.push((edge.word, self.ends(frame, &edge.half)?, edge.half.span));
            }
        }
        for draft in &mut drafts {
            for (is_meta, name, value, at) in &settings {
                let set = if *is_meta { Draft::set_meta } else { Draft::set };
                if let Err(wrong) = set(draft, name, value, *at) {
                    self.wrong.borrow_mut().push(wrong);
                }
            }
        }
        for draft in drafts {
            let places = settings.iter().map(|(_, name, _, at)| (&**name, *at));
            match draft.named_at(hir[resource.name].span).finish(&self.checked.sources, places) {
                Err(wrong) => self.wrong.borrow_mut().push(wrong),
                Ok(declaration) => {
                    let me = [End {
                        kind: hir.names.shared(resource.kind),
                        name: declaration.spec.id.name.clone(),
                        field: None,
                    }];
                    for (word, ends, at) in &others {
                        match word {
                            EdgeWord::Before => self.join(&me, ends, false, *at),
                            EdgeWord::Notify => self.join(&me, ends, true, *at),
                            EdgeWord::Depend => self.join(ends, &me, false, *at),
                            EdgeWord::Listen => self.join(ends, &me, true, *at),
                        }
                    }
                    self.declarations.borrow_mut().push(declaration);
                }
            }
        }
        Ok(())
    }

    /// The resources that others export, by the names that are asked for.
    fn collected(
        &self,
        frame: &Arc<Frame>,
        resource: &Resource,
        schema: &'static mgmt_resource::Schema,
        span: Span,
    ) -> Outcome<Vec<Draft>> {
        let wanted = [Value::str(schema.kind), self.expr(frame, resource.name)?];
        let found = match mgmt_funcs::library().function("", "_collect").map(|collect| &collect.body) {
            Some(Body::Live { read, .. }) => read(&mut Memory::default(), self.host, &wanted),
            _ => return Err(self.lost(span)),
        };
        let found = found.map_err(|failure| self.failed(span, failure))?;
        output::collect(&found, schema, self.kinds, span).map_err(|found| Fault {
            message: found.message,
            span,
            catchable: false,
            code: Code::Failed,
        })
    }
}
