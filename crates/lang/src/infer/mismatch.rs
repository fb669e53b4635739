//! Making two types one, and telling both sides of the story when that fails.

use mgmt_syntax::ast::Operator;

use super::Checker;
use crate::codes::Code;
use crate::diagnostic::Diagnostic;
use crate::hir::*;
use crate::source::Span;
use crate::types::{Clash, Shape, Ty};

/// Why a type is expected somewhere.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// It stands in the text.
    Declared(Span),
    /// The function says what it returns.
    Result(Span),
    /// `if` decides by a bool.
    Condition,
    /// `panic` does.
    PanicCondition,
    PanicMessage,
    /// Loops go over lists and maps.
    OverList,
    OverMap,
    /// The first element of a list, or key or value of a map, decides for all.
    First(Span),
    /// Both branches of an `if` have one type.
    Then(Span),
    /// Both sides of `<|>` have one type.
    Left(Span),
    /// Both operands of an operator have one type.
    Operand(Operator, Span),
    /// The operator works on bools alone.
    Logical(Operator, Span),
    /// `in` looks into a list of what stands before it.
    Haystack(Span),
    /// The parameter of a function of the program.
    Param(VarId),
    /// The parameter of a class.
    ClassParam(VarId),
    /// The parameter of a function value, which comes from here.
    Positional(Option<Span>),
    /// The parameter of a function of the library.
    Library(&'static mgmt_funcs::Function),
    /// A verb of a format.
    Verb(Span),
    /// A hole in a string.
    Hole,
    /// The parameter of a resource.
    Field(&'static mgmt_resource::Schema, &'static mgmt_resource::FieldSpec),
    /// A metaparameter.
    Meta(&'static mgmt_resource::FieldSpec),
    /// What comes out of a list, a map or a struct.
    Element,
    /// The field of a struct and its substitute.
    Otherwise,
    /// Lists are indexed by integers.
    Index,
    /// Maps are looked into by their keys.
    Key,
    /// The name of a resource.
    Name,
    /// What is called.
    Callee,
}

impl Checker<'_> {
    /// Finds the type of an expression, and holds it against the one that is expected.
    pub(super) fn check(&mut self, expr: ExprId, expected: Ty, why: Why) {
        let found = self.expr(expr);
        if let Err(clash) = self.types.unify(expected, found, self.hir[expr].span) {
            self.mismatch(expr, expected, found, why, clash);
        }
        self.settle();
    }

    /// Makes two types one at a place where no expression stands for one of them.
    pub(super) fn equate(&mut self, expected: Ty, found: Ty, span: Span, why: Why, used_at: Option<Span>) {
        if let Err(clash) = self.types.unify(expected, found, span) {
            let mut diagnostic = self.clash(span, expected, found, why, clash);
            for ty in [found, expected] {
                if let Some(place) = self.types.learned_at(ty).filter(|place| *place != span) {
                    diagnostic = diagnostic.label(place, format!("this made it `{}`", self.text(ty)));
                }
            }
            self.report_used(diagnostic, used_at);
        }
        self.settle();
    }

    /// Reports something about a generic definition together with the place that uses it in this way.
    pub(super) fn report_used(&mut self, diagnostic: Diagnostic, used_at: Option<Span>) {
        self.report(match used_at {
            Some(span) => diagnostic.label(span, "used in this way here"),
            None => diagnostic,
        });
    }

    fn mismatch(&mut self, expr: ExprId, expected: Ty, found: Ty, why: Why, clash: Clash) {
        let span = self.hir[expr].span;
        let mut diagnostic = self.clash(span, expected, found, why, clash);
        if let Some((place, text)) = self.story(expr, found) {
            diagnostic = diagnostic.label(place, text);
        }
        if let Some(place) = self.types.learned_at(expected).filter(|place| *place != span) {
            let text = format!("this made it `{}`", self.text(expected));
            diagnostic = diagnostic.label(place, text);
        }
        let hint = self.conversion(expr, expected, found);
        self.report(diagnostic.maybe_hint(hint));
    }

    /// Where a variable got its type.
    fn story(&self, expr: ExprId, found: Ty) -> Option<(Span, String)> {
        let ExprKind::Variable(_) = self.hir[expr].kind else {
            return match self.hir[expr].kind {
                ExprKind::Call { callee: Callee::Function(..), .. } => match self.scopes.of_expr(expr)?.target {
                    crate::scope::Target::Func(func) => {
                        let (_, span) = self.hir[func].name?;
                        Some((span, "the function is defined here".to_owned()))
                    }
                    _ => None,
                },
                ExprKind::Call { callee: Callee::Variable(inner), .. } => self.story(inner, found),
                _ => None,
            };
        };
        let crate::scope::Target::Var(var) = self.scopes.of_expr(expr)?.target else { return None };
        let var = &self.hir[var];
        let name = self.names.text(var.name);
        Some(match var.origin {
            VarOrigin::Bind(_, value) => match (&var.declared, &self.hir[value].kind) {
                (Some(declared), _) => (declared.span, format!("`${name}` is declared as this")),
                (None, _) => (self.hir[value].span, format!("`${name}` is this")),
            },
            VarOrigin::Param(_) | VarOrigin::ClassParam(_) => (var.span, format!("the parameter `${name}`")),
            VarOrigin::LoopKey(_) | VarOrigin::LoopValue(_) => {
                (var.span, format!("the loop gives `${name}` its values"))
            }
        })
    }

    fn clash(&mut self, span: Span, expected: Ty, found: Ty, why: Why, clash: Clash) -> Diagnostic {
        let (want, have) = (self.text(expected), self.text(found));
        if clash == Clash::Infinite {
            return Diagnostic::new(Code::InfiniteType, span, "this would have a type that contains itself")
                .here(format!("`{have}` would have to be `{want}`"))
                .hint("a function cannot be given to itself");
        }
        let code = match why {
            Why::Field(..) => Code::FieldType,
            Why::Meta(_) => Code::MetaType,
            Why::Callee if clash == Clash::Arity => Code::ArgumentCount,
            Why::Callee => Code::NotCallable,
            _ => Code::Mismatch,
        };
        let message = match why {
            Why::Field(_, field) => format!("the parameter `{}` takes `{want}`, not `{have}`", field.name),
            Why::Meta(field) => format!("the metaparameter `{}` takes `{want}`, not `{have}`", field.name),
            Why::Hole => format!("only strings can stand in a string, and this is `{have}`"),
            Why::Callee if clash == Clash::Kind => format!("`{have}` is not a function"),
            _ => format!("expected `{want}`, found `{have}`"),
        };
        let mut diagnostic = Diagnostic::new(code, span, message).here(format!("this is `{have}`"));
        match why {
            Why::Declared(at) | Why::Result(at) => {
                diagnostic = diagnostic.label(at, format!("declared as `{want}` here"));
            }
            Why::First(at) => diagnostic = diagnostic.label(at, format!("the first one is `{want}`")),
            Why::Then(at) => diagnostic = diagnostic.label(at, format!("the other branch is `{want}`")),
            Why::Left(at) => diagnostic = diagnostic.label(at, format!("the value before `<|>` is `{want}`")),
            Why::Operand(operator, at) => {
                diagnostic =
                    diagnostic.label(at, format!("the other operand of `{}` is `{want}`", operator.text()));
            }
            Why::Logical(operator, at) => {
                diagnostic = diagnostic.label(at, format!("`{}` works on bools", operator.text()));
            }
            Why::Haystack(at) => diagnostic = diagnostic.label(at, "looked for in a list"),
            Why::Param(var) | Why::ClassParam(var) => {
                let name = self.names.text(self.hir[var].name).to_owned();
                diagnostic = diagnostic.label(self.hir[var].span, format!("the parameter `${name}`"));
            }
            Why::Library(function) => {
                diagnostic = diagnostic.hint(format!("`{}` is `{}`", function.name, function.signature()));
            }
            Why::Verb(at) => diagnostic = diagnostic.label(at, format!("this takes `{want}`")),
            Why::Hole => {
                diagnostic = diagnostic.hint("`fmt.printf` makes text of other values: `fmt.printf(\"%v\", $x)`");
            }
            Why::Field(schema, field) => {
                let doc = field.doc.lines().next().unwrap_or_default().trim();
                diagnostic = diagnostic.hint(format!("`{}` of `{}`: {doc}", field.name, schema.kind));
            }
            Why::Meta(field) => {
                let doc = field.doc.lines().next().unwrap_or_default().trim();
                diagnostic = diagnostic.hint(format!("`Meta:{}`: {doc}", field.name));
            }
            Why::Condition => diagnostic = diagnostic.hint("a condition is true or false"),
            Why::PanicCondition | Why::PanicMessage => {
                diagnostic = diagnostic.hint("write `panic($condition, \"why\")`");
            }
            Why::OverList => {
                let hint = match self.types.shape(found) {
                    Shape::Map(..) => "`for` goes over a list; use `forkv` for a map",
                    _ => "`for` goes over a list",
                };
                diagnostic = diagnostic.hint(hint);
            }
            Why::OverMap => {
                let hint = match self.types.shape(found) {
                    Shape::List(_) => "`forkv` goes over a map; use `for` for a list",
                    _ => "`forkv` goes over a map",
                };
                diagnostic = diagnostic.hint(hint);
            }
            Why::Index => diagnostic = diagnostic.hint("lists are looked into by position, from 0"),
            Why::Key => diagnostic = diagnostic.hint("maps are looked into by their keys"),
            Why::Otherwise => {
                diagnostic = diagnostic
                    .hint("the struct has this field, so the value after `<|>` must be of the same type");
            }
            Why::Name => {
                diagnostic = diagnostic.hint("the name of a resource is a text, or a list of texts");
            }
            Why::Positional(Some(at)) => {
                diagnostic = diagnostic.label(at, "a function in a variable has one type for all its calls");
            }
            Why::Positional(None) | Why::Element | Why::Callee => {}
        }
        if clash == Clash::Fields {
            diagnostic = diagnostic.hint("structs are equal if they have the same fields in the same order");
        }
        diagnostic
    }

    /// What would make the value fit.
    fn conversion(&self, expr: ExprId, expected: Ty, found: Ty) -> Option<String> {
        let text = |what: &str| Some(what.to_owned());
        match (self.types.shape(expected), self.types.shape(found), &self.hir[expr].kind) {
            (Shape::Float, Shape::Int, ExprKind::Int(number)) => Some(format!("write `{number}.0`")),
            (Shape::Float, Shape::Int, _) => text("`convert.to_float` makes a float of an integer"),
            (Shape::Int, Shape::Float, ExprKind::Operator(Operator::Divide, ..)) => {
                text("`/` always gives a float; `convert.to_int` makes an integer of it")
            }
            (Shape::Int, Shape::Float, _) => text("`convert.to_int` makes an integer of a float"),
            (Shape::Int, Shape::Str, _) => text("`convert.str_to_int` makes an integer of a text"),
            (Shape::Str, Shape::Int | Shape::Float | Shape::Bool, ExprKind::Int(_) | ExprKind::Float(_)) => {
                text("put it between quotes")
            }
            (Shape::Str, Shape::Int | Shape::Float | Shape::Bool, _) => {
                text("`fmt.printf(\"%v\", ...)` makes text of other values")
            }
            (Shape::Bool, Shape::Str, ExprKind::Str(value)) if matches!(&value[..], b"true" | b"false") => {
                text("without quotes it is a bool")
            }
            (Shape::List(element), _, _) if self.types.find(*element) == self.types.find(found) => {
                text("put it between brackets to make a list of one")
            }
            (_, Shape::Func(params, result), ExprKind::Variable(_))
                if params.is_empty() && self.types.find(*result) == self.types.find(expected) =>
            {
                text("it is a function; call it with `()`")
            }
            _ => None,
        }
    }

    /// A call that gives too few or too many arguments.
    pub(super) fn argument_count(
        &mut self,
        span: Span,
        name: Option<&str>,
        wanted: &str,
        given: usize,
        definition: Option<Span>,
    ) {
        let what = name.map_or_else(|| "the function".to_owned(), |name| format!("`{name}`"));
        let message = format!("{what} takes {wanted}, and is given {given}");
        let mut diagnostic = Diagnostic::new(Code::ArgumentCount, span, message);
        if let Some(definition) = definition {
            diagnostic = diagnostic.label(definition, "defined here");
        }
        self.report(diagnostic);
    }
}

/// `one argument`, `2 arguments`
pub(super) fn arguments(count: usize) -> String {
    match count {
        0 => "no arguments".to_owned(),
        1 => "one argument".to_owned(),
        count => format!("{count} arguments"),
    }
}
