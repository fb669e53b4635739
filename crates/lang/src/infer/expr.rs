//! Types of expressions.

use mgmt_diagnostics::Span;
use mgmt_funcs::{Form, Function, Inference};
use mgmt_syntax::ast::Operator;
use mgmt_value::{Str, Type};
use rustc_hash::FxHashMap;

use super::goal::{Goal, Limited, Question};
use super::mismatch::{Value, Why};
use super::{Checker, What};
use crate::codes::Code;
use crate::hir::*;
use crate::order::Node;
use crate::scope::{Target, arguments};
use crate::types::{Shape, Ty, Types};

impl Checker<'_> {
    /// Finds the type of an expression.
    pub(super) fn expr(&mut self, expr: ExprId) -> Ty {
        let ty = self.find(expr);
        self.exprs[expr.index()] = Some(ty);
        ty
    }

    fn find(&mut self, expr: ExprId) -> Ty {
        let hir = self.hir;
        let span = hir[expr].span;
        match &hir[expr].kind {
            ExprKind::Missing => Types::ERROR,
            ExprKind::Bool(_) => Types::BOOL,
            ExprKind::Int(_) => Types::INT,
            ExprKind::Float(_) => Types::FLOAT,
            ExprKind::Str(_) => Types::STR,
            ExprKind::Interpolation(parts) => {
                for &part in parts {
                    self.check(part, Types::STR, Why::Hole);
                }
                Types::STR
            }
            ExprKind::List(elements) => self.list(span, elements),
            ExprKind::Map(entries) => self.map(span, entries),
            ExprKind::Struct(fields) => {
                let fields = fields.iter().map(|&(name, _, value)| (name, self.expr(value))).collect();
                self.types.add(Shape::Struct(fields))
            }
            ExprKind::Variable(_) => self.variable(expr),
            ExprKind::Call { callee, args } => self.call(expr, *callee, args),
            ExprKind::Lambda(func) => {
                let ty = self.func(*func);
                // A function value knows its type. Once is enough: functions in functions would be looked at often.
                if !self.typed.contains(&self.owner) && self.types.is_open(ty) {
                    self.typed.insert(self.owner);
                }
                ty
            }
            ExprKind::If { condition, then, otherwise } => {
                self.check(*condition, Types::BOOL, Why::Condition);
                let ty = self.expr(*then);
                match self.check(*otherwise, ty, Why::Then(hir[*then].span)) {
                    true => self.known(ty, *otherwise),
                    false => Types::ERROR,
                }
            }
            ExprKind::Except(value, otherwise) => {
                let ty = self.expr(*value);
                match self.check(*otherwise, ty, Why::Left(hir[*value].span)) {
                    true => self.known(ty, *otherwise),
                    false => Types::ERROR,
                }
            }
            ExprKind::Operator(operator, at, left, right) => self.operator(*operator, *at, *left, *right),
            ExprKind::Not(inner) => {
                self.check(*inner, Types::BOOL, Why::Condition);
                Types::BOOL
            }
            ExprKind::Index(base, key) => {
                let ty = self.expr(*base);
                let key_ty = self.expr(*key);
                let result = self.fresh();
                let question = Question::Lookup { key: key_ty, key_span: hir[*key].span, result };
                self.pose(Goal { question, ty, span: hir[*base].span, expr: Some(*base), used_at: None });
                result
            }
            ExprKind::Field(base, field, field_span) => {
                let ty = self.expr(*base);
                let result = self.fresh();
                let question = Question::Field { field: *field, field_span: *field_span, result };
                self.pose(Goal { question, ty, span: hir[*base].span, expr: Some(*base), used_at: None });
                result
            }
            ExprKind::FieldOr(base, field, field_span, default) => {
                let ty = self.expr(*base);
                let result = self.expr(*default);
                let (field, field_span, default) = (*field, *field_span, hir[*default].span);
                let question = Question::FieldOr { field, field_span, default, result };
                self.pose(Goal { question, ty, span: hir[*base].span, expr: Some(*base), used_at: None });
                result
            }
        }
    }

    /// The type of two alternatives: of the one that could be found.
    fn known(&mut self, ty: Ty, other: ExprId) -> Ty {
        match self.types.resolve(ty) {
            Types::ERROR => self.exprs[other.index()].unwrap_or(Types::ERROR),
            ty => ty,
        }
    }

    fn list(&mut self, span: Span, elements: &[ExprId]) -> Ty {
        let Some((&first, rest)) = elements.split_first() else {
            let element = self.fresh();
            let ty = self.types.list(element);
            self.typed.insert(self.owner);
            self.must_be_known(ty, span, What::EmptyList);
            return ty;
        };
        let mut element = self.expr(first);
        let mut at = self.hir[first].span;
        let mut fits = true;
        for &other in rest {
            fits &= self.check(other, element, Why::First(at));
            if self.types.resolve(element) == Types::ERROR {
                (element, at) = (self.known(element, other), self.hir[other].span);
            }
        }
        self.types.list(if fits { element } else { Types::ERROR })
    }

    fn map(&mut self, span: Span, entries: &[(ExprId, ExprId)]) -> Ty {
        let Some((&(first_key, first_value), rest)) = entries.split_first() else {
            let (key, value) = (self.fresh(), self.fresh());
            let ty = self.types.add(Shape::Map(key, value));
            self.typed.insert(self.owner);
            self.must_be_known(ty, span, What::EmptyMap);
            return ty;
        };
        let key = self.expr(first_key);
        let value = self.expr(first_value);
        let mut fits = true;
        for &(other_key, other_value) in rest {
            // Different literal keys have been reported with the map itself.
            let found = self.expr(other_key);
            let literal = |expr: ExprId| {
                matches!(
                    self.hir[expr].kind,
                    ExprKind::Bool(_)
                        | ExprKind::Int(_)
                        | ExprKind::Float(_)
                        | ExprKind::Str(_)
                        | ExprKind::Interpolation(_)
                        | ExprKind::List(_)
                        | ExprKind::Map(_)
                        | ExprKind::Struct(_)
                )
            };
            if !(literal(first_key) && literal(other_key)) {
                let why = Why::First(self.hir[first_key].span);
                self.equate(key, found, self.hir[other_key].span, why, None);
            }
            fits &= self.check(other_value, value, Why::First(self.hir[first_value].span));
        }
        let value = if fits { value } else { Types::ERROR };
        let ty = self.types.resolve(key);
        if !matches!(self.types.shape(ty), Shape::List(_) | Shape::Map(..)) || !self.is_literal(first_key) {
            let span = self.hir[first_key].span;
            let question = Question::Hashable;
            self.pose(Goal { question, ty: key, span, expr: Some(first_key), used_at: None });
        }
        self.types.add(Shape::Map(key, value))
    }

    /// What is wrong with a key that is a literal has been reported with the map.
    fn is_literal(&self, expr: ExprId) -> bool {
        match &self.hir[expr].kind {
            ExprKind::List(elements) => elements.first().is_some_and(|&element| self.is_literal(element)),
            ExprKind::Map(entries) => {
                entries.first().is_some_and(|&(key, value)| self.is_literal(key) && self.is_literal(value))
            }
            ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Str(_) => true,
            _ => false,
        }
    }

    fn variable(&mut self, expr: ExprId) -> Ty {
        let scopes = self.scopes;
        let Some(reference) = scopes.of_expr(expr) else { return Types::ERROR };
        if self.scopes.is_doubtful(reference.target) {
            return Types::ERROR;
        }
        match reference.target {
            Target::Var(var) => {
                let ty = self.var(var);
                let span = self.hir[expr].span;
                let definition = match self.hir[var].origin {
                    VarOrigin::Bind(..) => Some(Node::Var(var)),
                    VarOrigin::ClassParam(class) => Some(Node::Class(class)),
                    // Nobody else sees them.
                    VarOrigin::Param(_) | VarOrigin::LoopKey(_) | VarOrigin::LoopValue(_) => None,
                };
                if definition.is_some_and(|node| !self.pull(node, &reference.via, span)) {
                    return Types::ERROR;
                }
                let ty = self.seen(ty, &reference.via);
                if reference.via.is_empty() {
                    return ty;
                }
                self.bounded(ty, span)
            }
            Target::Constant(constant) => {
                let ty = (constant.value)().ty();
                self.types.of(&mut self.names, &ty, &mut |types, _| types.fresh(1))
            }
            Target::Hostname => Types::STR,
            Target::Func(_) | Target::Library(_) | Target::Class(_) => Types::ERROR,
        }
    }

    fn operator(&mut self, operator: Operator, at: Span, left: ExprId, right: ExprId) -> Ty {
        use Operator::*;
        match operator {
            And | Or => {
                self.check(left, Types::BOOL, Why::Logical(operator, at));
                self.check(right, Types::BOOL, Why::Logical(operator, at));
                Types::BOOL
            }
            In => {
                let needle = self.expr(left);
                let haystack = self.types.list(needle);
                self.check(right, haystack, Why::Haystack(self.hir[left].span));
                Types::BOOL
            }
            Add | Subtract | Multiply | Divide | Equal | NotEqual | Less | Greater | LessEqual
            | GreaterEqual => {
                let ty = self.expr(left);
                let mut fits = self.check(right, ty, Why::Operand(operator, self.hir[left].span));
                if fits {
                    let span = self.hir[left].span.to(self.hir[right].span);
                    let before = self.report.count();
                    self.limit(ty, span, Limited::Operator(operator));
                    fits = self.report.count() == before;
                }
                match operator {
                    Add | Subtract | Multiply if !fits => Types::ERROR,
                    Add | Subtract | Multiply => self.known(ty, right),
                    Divide => Types::FLOAT,
                    _ => Types::BOOL,
                }
            }
        }
    }

    fn call(&mut self, expr: ExprId, callee: Callee, args: &[ExprId]) -> Ty {
        match callee {
            Callee::Function(name, _) => {
                let scopes = self.scopes;
                let reference = scopes.of_expr(expr).filter(|found| !scopes.is_doubtful(found.target));
                match reference.map(|reference| (reference.target, &reference.via)) {
                    Some((Target::Func(func), via)) => self.call_func(expr, name, func, via, args),
                    Some((Target::Library(function), _)) => self.call_library(expr, function, args),
                    _ => {
                        self.untyped_arguments(args);
                        Types::ERROR
                    }
                }
            }
            Callee::Variable(inner) | Callee::Lambda(inner) => self.call_value(expr, inner, args),
        }
    }

    /// Calls a function that is a value.
    fn call_value(&mut self, expr: ExprId, callee: ExprId, args: &[ExprId]) -> Ty {
        let hir = self.hir;
        let ty = self.expr(callee);
        let learned = self.types.learned_at(ty);
        let ty = self.types.resolve(ty);
        match self.types.shape(ty).clone() {
            Shape::Error => {
                self.untyped_arguments(args);
                Types::ERROR
            }
            Shape::Func(params, result) => {
                if params.len() != args.len() {
                    self.untyped_arguments(args);
                    let definition = self.definition(callee);
                    self.argument_count(
                        hir[expr].span,
                        None,
                        &arguments(params.len()),
                        args.len(),
                        definition,
                    );
                    return result;
                }
                let lambda = match &hir[callee].kind {
                    ExprKind::Lambda(func) => Some(*func),
                    _ => self.lambda(callee),
                };
                let definition = Value { definition: self.definition(callee), learned };
                let before = self.report.count();
                for (index, (&arg, &param)) in args.iter().zip(&*params).enumerate() {
                    let why = lambda.and_then(|func| hir[func].params.get(index)).map_or(
                        Why::Positional(definition),
                        |&var| match hir[callee].kind {
                            ExprKind::Lambda(_) => Why::Param(var),
                            _ => Why::LambdaParam(var),
                        },
                    );
                    self.check(arg, param, why);
                }
                // One wrong argument is one mistake: what comes out of it is not held against anything.
                if self.report.count() == before { result } else { Types::ERROR }
            }
            Shape::Var(_) => {
                let params: Box<[Ty]> = args.iter().map(|&arg| self.expr(arg)).collect();
                let result = self.fresh();
                let func = self.types.add(Shape::Func(params, result));
                self.equate(func, ty, hir[callee].span, Why::Callee, None);
                result
            }
            _ => {
                self.untyped_arguments(args);
                let message = format!("`{}` is not a function", self.text(ty));
                let mut diagnostic =
                    Code::NotCallable.at(hir[callee].span, message).here("only functions can be called");
                if let Some(definition) = self.definition(callee) {
                    diagnostic = diagnostic.label(definition, "this is what is called");
                }
                self.report(diagnostic);
                Types::ERROR
            }
        }
    }

    /// Where a function value comes from, if that is plain to see.
    fn definition(&self, callee: ExprId) -> Option<Span> {
        match self.hir[callee].kind {
            ExprKind::Lambda(func) => Some(self.hir[func].span),
            ExprKind::Variable(_) => match self.scopes.of_expr(callee)?.target {
                Target::Var(var) => match self.hir[var].origin {
                    VarOrigin::Bind(_, value) => Some(self.hir[value].span),
                    _ => Some(self.hir[var].span),
                },
                _ => None,
            },
            _ => None,
        }
    }

    fn lambda(&self, callee: ExprId) -> Option<FuncId> {
        let Target::Var(var) = self.scopes.of_expr(callee)?.target else { return None };
        let VarOrigin::Bind(_, value) = self.hir[var].origin else { return None };
        match self.hir[value].kind {
            ExprKind::Lambda(func) => Some(func),
            _ => None,
        }
    }

    /// Calls a function of the program: with a copy of its type.
    fn call_func(&mut self, expr: ExprId, name: Name, func: FuncId, via: &[StmtId], args: &[ExprId]) -> Ty {
        let hir = self.hir;
        let Some(scheme) = self.funcs.get(&func).copied() else {
            // Part of a circle.
            debug_assert!(self.dependencies.is_circular(Node::Func(func)) || self.unused);
            self.untyped_arguments(args);
            return Types::ERROR;
        };
        let (level, span) = (self.level, hir[expr].span);
        if !self.pull(Node::Func(func), via, span) {
            self.untyped_arguments(args);
            return Types::ERROR;
        }
        let mut copies: FxHashMap<Ty, Ty> = FxHashMap::default();
        let mut copy = |this: &mut Checker<'_>, ty: Ty| {
            if !this.types.is_open(ty) {
                return ty;
            }
            for var in this.types.unknowns(ty) {
                if copies.contains_key(&var) {
                    continue;
                }
                let new = match this.types.level(var) > scheme.level {
                    true => this.types.fresh(level),
                    // What is around the function is seen as the function is.
                    false => this.seen(var, via),
                };
                copies.insert(var, new);
            }
            this.types.replace(ty, &mut |_, var| copies.get(&var).copied().unwrap_or(var))
        };
        let ty = copy(self, scheme.ty);
        let goals = self.goals.of(super::goal::Owner::Func(func));
        let goals: Vec<Goal> = goals.iter().map(|goal| goal.copied(self, span, &mut copy)).collect();
        if self.typed.contains(&super::goal::Owner::Func(func)) {
            self.typed.insert(self.owner);
            self.calls.insert(expr, copies);
        }
        let Shape::Func(params, result) = self.types.shape(ty).clone() else { return Types::ERROR };
        let before = self.report.count();
        if params.len() == args.len() {
            for ((&arg, &param), &var) in args.iter().zip(&*params).zip(&hir[func].params) {
                self.check(arg, param, Why::Param(var));
            }
        } else {
            self.untyped_arguments(args);
            let name = self.names.text(name).to_owned();
            let definition = hir[func].name.map(|(_, span)| span);
            self.argument_count(span, Some(&name), &arguments(params.len()), args.len(), definition);
        }
        if self.report.count() != before {
            return Types::ERROR;
        }
        for goal in goals {
            self.pose(goal);
        }
        let result = self.bounded(result, span);
        if self.types.is_open(result) {
            self.must_be_known(result, span, What::Result);
        }
        result
    }

    fn call_library(&mut self, expr: ExprId, function: &'static Function, args: &[ExprId]) -> Ty {
        match function.inference {
            Inference::Printf => return self.printf(expr, function, args),
            Inference::Template if matches!(args.len(), 1 | 2) => {
                self.check(args[0], Types::STR, Why::Library(function));
                if let Some(&vars) = args.get(1) {
                    self.expr(vars);
                }
                return Types::STR;
            }
            Inference::DecodeJson if args.len() == 2 => {
                self.typed.insert(self.owner);
                if let Some(ty) = self.decoded(function, args) {
                    return ty;
                }
            }
            _ => {}
        }
        // All others are told the type of their result.
        if !matches!(function.body, mgmt_funcs::Body::Pure(_)) {
            self.typed.insert(self.owner);
        }
        let span = self.hir[expr].span;
        let fits = |form: &&Form| match form.variadic {
            true => args.len() + 1 >= form.parameters.len(),
            false => args.len() == form.parameters.len(),
        };
        let Some(form) = function.forms().iter().find(fits) else {
            self.untyped_arguments(args);
            let mut counts: Vec<usize> = function.forms().iter().map(|form| form.parameters.len()).collect();
            counts.dedup();
            let wanted = match counts.as_slice() {
                [one] => arguments(*one),
                [most @ .., last] => {
                    let most: Vec<String> = most.iter().map(usize::to_string).collect();
                    format!("{} or {last} arguments", most.join(", "))
                }
                [] => arguments(0),
            };
            let message = format!("`{}` takes {wanted}, and is given {}", function.name, args.len());
            self.report(Code::ArgumentCount.at(span, message).hint(format!(
                "`{}` is `{}`",
                function.name,
                function.signature()
            )));
            return match function.forms().first() {
                Some(form) if form.is_closed() => self.closed(&form.result),
                _ => Types::ERROR,
            };
        };
        let level = self.level;
        let mut vars: FxHashMap<u32, Ty> = FxHashMap::default();
        let mut var =
            |types: &mut Types, number: u32| *vars.entry(number).or_insert_with(|| types.fresh(level));
        let mut params: Vec<Ty> = Vec::with_capacity(args.len());
        for index in 0..args.len() {
            let Some(parameter) = form.parameters.get(index).or(form.parameters.last()) else { break };
            params.push(self.types.of(&mut self.names, &parameter.ty, &mut var));
        }
        let result = self.types.of(&mut self.names, &form.result, &mut var);
        let before = self.report.count();
        for (&arg, &param) in args.iter().zip(&params) {
            self.check(arg, param, Why::Library(function));
        }
        if self.report.count() != before && !form.is_closed() {
            return Types::ERROR;
        }
        for limit in &form.limits {
            let Some(&ty) = vars.get(&limit.variable) else { continue };
            // The limit is about the argument that has the type.
            let at = form
                .parameters
                .iter()
                .zip(args)
                .find(|(parameter, _)| parameter.ty == Type::Var(limit.variable))
                .map_or(span, |(_, &arg)| self.hir[arg].span);
            self.limit(ty, at, Limited::Library(function, limit.shapes.clone().into()));
        }
        if self.types.is_open(result) {
            self.must_be_known(result, span, What::Result);
        }
        result
    }

    fn closed(&mut self, ty: &Type) -> Ty {
        self.types.of(&mut self.names, ty, &mut |types, _| types.fresh(1))
    }

    /// The type that a static text asks for.
    fn decoded(&mut self, function: &'static Function, args: &[ExprId]) -> Option<Ty> {
        let (text, at) = self.known_text(args[1])?;
        self.check(args[0], Types::STR, Why::Library(function));
        self.check(args[1], Types::STR, Why::Library(function));
        let parsed = std::str::from_utf8(&text).ok().and_then(Type::parse);
        Some(match parsed {
            Some(ty) => self.closed(&ty),
            None => {
                let message = format!("`{}` is not a type", text.display());
                self.report(
                    Code::BadTypeText
                        .at(at, message)
                        .hint("write it as in a program, for example \"struct{name str; count int}\""),
                );
                Types::ERROR
            }
        })
    }

    fn printf(&mut self, expr: ExprId, function: &'static Function, args: &[ExprId]) -> Ty {
        let hir = self.hir;
        let span = hir[expr].span;
        let Some((&format, values)) = args.split_first() else {
            self.argument_count(span, Some(function.name), "a format and its values", 0, None);
            return Types::STR;
        };
        self.check(format, Types::STR, Why::Library(function));
        let Some((text, at)) = self.known_text(format) else {
            for &value in values {
                self.expr(value);
            }
            return Types::STR;
        };
        // Inside a literal without escapes a verb has an exact place.
        let exact = hir[format].span == at
            && u32::try_from(text.len()).is_ok_and(|length| length + 2 == at.end - at.start);
        let place = |range: &std::ops::Range<usize>| match exact {
            true => {
                Span { start: at.start + 1 + range.start as u32, end: at.start + 1 + range.end as u32, ..at }
            }
            false => at,
        };
        let verbs = match mgmt_funcs::printf_verbs(&text) {
            Ok(verbs) => verbs,
            Err(bad) => {
                for &value in values {
                    self.expr(value);
                }
                let message = match bad.found {
                    Some(found) => format!("there is no verb `%{found}`"),
                    None => "the format ends with a percent sign".to_owned(),
                };
                let hint = match bad.found {
                    Some('0'..='9' | '.' | '+' | '-' | '#' | ' ') => {
                        "a verb has no width, precision or flags"
                    }
                    _ => "the verbs are %t, %s, %q, %d, %f, %v and %T; a percent sign is %%",
                };
                let at = place(&bad.range);
                let found = Code::BadFormat.at(at, message).hint(hint);
                self.report(if exact { found } else { found.label(span, "used here") });
                return Types::STR;
            }
        };
        if verbs.len() != values.len() {
            for &value in values {
                self.expr(value);
            }
            let message = format!(
                "the format has {}, and {} given",
                match verbs.len() {
                    0 => "no verbs".to_owned(),
                    1 => "one verb".to_owned(),
                    count => format!("{count} verbs"),
                },
                match values.len() {
                    0 => "no value is".to_owned(),
                    1 => "one value is".to_owned(),
                    count => format!("{count} values are"),
                }
            );
            self.report(
                Code::FormatCount
                    .at(span, message)
                    .label(at, "the format")
                    .hint("each verb takes one value; a percent sign by itself is written %%"),
            );
            return Types::STR;
        }
        for (&value, verb) in values.iter().zip(&verbs) {
            let wanted = match verb.verb.ty() {
                Some(Type::Bool) => Types::BOOL,
                Some(Type::Str) => Types::STR,
                Some(Type::Int) => Types::INT,
                Some(Type::Float) => Types::FLOAT,
                _ => {
                    self.expr(value);
                    continue;
                }
            };
            self.check(value, wanted, Why::Verb(place(&verb.range)));
        }
        Types::STR
    }

    /// The text that an expression certainly is, and where it stands.
    fn known_text(&self, expr: ExprId) -> Option<(Str, Span)> {
        self.known_text_in(expr, 64)
    }

    fn known_text_in(&self, expr: ExprId, fuel: u32) -> Option<(Str, Span)> {
        let fuel = fuel.checked_sub(1)?;
        let span = self.hir[expr].span;
        match &self.hir[expr].kind {
            ExprKind::Str(text) => Some((text.clone(), span)),
            ExprKind::Variable(_) => {
                let reference = self.scopes.of_expr(expr)?;
                match reference.target {
                    Target::Var(var) => match self.hir[var].origin {
                        VarOrigin::Bind(_, value) => self.known_text_in(value, fuel),
                        _ => None,
                    },
                    Target::Constant(constant) => match (constant.value)() {
                        mgmt_value::Value::Str(text) => Some((text, span)),
                        _ => None,
                    },
                    _ => None,
                }
            }
            ExprKind::Operator(Operator::Add, _, left, right) => {
                let (left, _) = self.known_text_in(*left, fuel)?;
                let (right, _) = self.known_text_in(*right, fuel)?;
                let mut text = left.to_vec();
                text.extend_from_slice(&right);
                Some((Str::new(text), span))
            }
            _ => None,
        }
    }
}
