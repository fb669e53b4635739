//! What can be computed once and for all: expressions that are made of literals alone.
//!
//! Such an expression becomes one node that never changes, whatever it is made of. One that fails is left to be computed
//! where it stands, so that `<|>` can replace it and the mistake is told with its place.

use mgmt_funcs::{Body, Effect, Function};
use mgmt_value::{Str, Value};

use super::{Program, lock};
use crate::hir::*;
use crate::scope::Target;

impl Program {
    /// The value of an expression, if it is always the same.
    pub(super) fn constant(&self, expr: ExprId) -> Option<Value> {
        match &self.checked.hir[expr].kind {
            ExprKind::Bool(value) => return Some(Value::Bool(*value)),
            ExprKind::Int(value) => return Some(Value::Int(*value)),
            ExprKind::Float(value) => return Some(Value::Float(*value)),
            ExprKind::Str(value) => return Some(Value::Str(value.clone())),
            _ => {}
        }
        if let Some(known) = lock(&self.constants).get(&expr) {
            return known.clone();
        }
        let found = self.fold(expr);
        lock(&self.constants).insert(expr, found.clone());
        found
    }

    /// The same for one that stands somewhere alone: a variable is one node for all that read it, constant or not.
    pub(super) fn literal(&self, expr: ExprId) -> Option<Value> {
        match self.checked.hir[expr].kind {
            ExprKind::Variable(_) => None,
            _ => self.constant(expr),
        }
    }

    fn all(&self, exprs: &[ExprId]) -> Option<Vec<Value>> {
        exprs.iter().map(|&expr| self.constant(expr)).collect()
    }

    fn fold(&self, expr: ExprId) -> Option<Value> {
        let (hir, library) = (&self.checked.hir, self.checked.library);
        match &hir[expr].kind {
            ExprKind::Interpolation(parts) => {
                let mut text: Vec<u8> = Vec::new();
                for part in self.all(parts)? {
                    let Value::Str(part) = part else { return None };
                    text.extend_from_slice(&part);
                }
                Some(Value::Str(Str::new(text)))
            }
            // What has no elements has a type that depends on who reads it.
            ExprKind::List(elements) if !elements.is_empty() => {
                let items = self.all(elements)?;
                let element = items.first()?.ty();
                Some(Value::list(element, items))
            }
            ExprKind::Map(entries) if !entries.is_empty() => {
                let pairs =
                    entries.iter().map(|&(key, value)| Some((self.constant(key)?, self.constant(value)?)));
                let pairs: Vec<(Value, Value)> = pairs.collect::<Option<_>>()?;
                let (key, value) = pairs.first().map(|(key, value)| (key.ty(), value.ty()))?;
                Some(Value::map(key, value, pairs))
            }
            ExprKind::Struct(fields) => {
                let fields = fields
                    .iter()
                    .map(|&(name, _, value)| Some((hir.names.shared(name), self.constant(value)?)));
                Some(Value::structure(fields.collect::<Option<Vec<_>>>()?))
            }
            ExprKind::Variable(_) => match self.checked.scopes.of_expr(expr)?.target {
                Target::Var(var) => match hir[var].origin {
                    VarOrigin::Bind(_, value) => self.constant(value),
                    _ => None,
                },
                Target::Constant(constant) => Some((constant.value)()),
                _ => None,
            },
            ExprKind::If { condition, then, otherwise } => match self.constant(*condition)? {
                Value::Bool(true) => self.constant(*then),
                _ => self.constant(*otherwise),
            },
            ExprKind::Operator(operator, _, left, right) => {
                let function = library.operator(operator.text()).or_else(|| library.function("", "contains"));
                apply(function?, &self.all(&[*left, *right])?)
            }
            ExprKind::Not(inner) => match self.constant(*inner)? {
                Value::Bool(value) => Some(Value::Bool(!value)),
                _ => None,
            },
            ExprKind::Field(base, field, _) => {
                let Value::Struct(value) = self.constant(*base)? else { return None };
                let field = hir.text(*field);
                value.fields.iter().find(|(name, _)| **name == *field).map(|(_, value)| value.clone())
            }
            ExprKind::Call { callee: Callee::Function(..), args } => {
                match self.checked.scopes.of_expr(expr)?.target {
                    Target::Library(function) => apply(function, &self.all(args)?),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn apply(function: &'static Function, values: &[Value]) -> Option<Value> {
    match (&function.body, function.effect) {
        (Body::Pure(body), Effect::Pure) => body(values).ok(),
        _ => None,
    }
}
