//! Making two types one, and telling both sides of the story when that fails.

use mgmt_diagnostics::{Diagnostic, Span};
use mgmt_syntax::ast::Operator;

use super::Checker;
use crate::codes::Code;
use crate::hir::*;
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
    /// The parameter of a lambda.
    LambdaParam(VarId),
    /// The parameter of a class.
    ClassParam(VarId),
    /// The parameter of a function value.
    Positional(Value),
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
    /// The substitute of a field of a struct.
    Otherwise(Span),
    /// Lists are indexed by integers.
    Index(Span),
    /// Maps are looked into by their keys.
    Key(Span),
    /// The name of a resource.
    Name,
    /// What is called.
    Callee,
    /// What a definition that is read needs of what is around it.
    Definition(Span),
}

/// Where a function value comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) definition: Option<Span>,
    /// Where its type became known.
    pub(super) learned: Option<Span>,
}

const ONE_TYPE: &str =
    "a function in a variable has one type for all its calls; `func name(...)` works on any type";

impl Checker<'_> {
    /// Finds the type of an expression, and holds it against the one that is expected. Says whether it fits.
    pub(super) fn check(&mut self, expr: ExprId, expected: Ty, why: Why) -> bool {
        let found = self.expr(expr);
        self.hold(expr, found, expected, why)
    }

    /// Holds the type of an expression against the one that is expected. Says whether it fits.
    pub(super) fn hold(&mut self, expr: ExprId, found: Ty, expected: Ty, why: Why) -> bool {
        let unified = self.types.unify(expected, found, self.hir[expr].span);
        if let Err(clash) = unified {
            self.mismatch(expr, expected, found, why, clash);
            self.give_up(expected, found, self.hir[expr].span);
        }
        self.settle();
        unified.is_ok()
    }

    /// One mistake is told once: what depends on it is not held against anything.
    fn give_up(&mut self, expected: Ty, found: Ty, span: Span) {
        self.types.give_up(expected, span);
        self.types.give_up(found, span);
    }

    /// Makes two types one at a place where no expression stands for one of them.
    /// Says whether that was possible.
    pub(super) fn equate(
        &mut self,
        expected: Ty,
        found: Ty,
        span: Span,
        why: Why,
        used_at: Option<Span>,
    ) -> bool {
        let unified = self.types.unify(expected, found, span);
        if let Err(clash) = unified {
            let mut diagnostic = self.clash(span, expected, found, why, clash);
            for ty in [found, expected] {
                if let Some(place) = self.types.learned_at(ty).filter(|place| *place != span) {
                    diagnostic = diagnostic.label(place, format!("this made it `{}`", self.text(ty)));
                }
            }
            self.report_used(diagnostic, used_at);
            self.give_up(expected, found, span);
        }
        self.settle();
        unified.is_ok()
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
        if let Some((place, text)) = self.story(expr) {
            diagnostic = diagnostic.label(place, text);
        }
        // A place that is part of another one says nothing new.
        let touches = |place: Span, label: Span| {
            place.file == label.file && place.start < label.end && label.start < place.end
        };
        let learned = self.types.learned_at(expected);
        let learned =
            learned.filter(|&place| diagnostic.labels.iter().all(|label| !touches(place, label.span)));
        if let Some(place) = learned {
            let text = format!("this made it `{}`", self.text(expected));
            diagnostic = diagnostic.label(place, text);
        }
        if let (Why::LambdaParam(var), Some(_)) = (why, learned)
            && self.hir[var].declared.is_none()
        {
            diagnostic = diagnostic.hint(ONE_TYPE);
        }
        let hint = match why {
            Why::Hole | Why::Haystack(_) | Why::OverList | Why::OverMap => None,
            Why::Operand(operator, _) => {
                self.mixture(operator, expected, found).or_else(|| self.conversion(expr, expected, found))
            }
            _ => self.conversion(expr, expected, found),
        };
        self.report(diagnostic.maybe_hint(hint));
    }

    /// Where a variable got its type.
    pub(super) fn story(&self, expr: ExprId) -> Option<(Span, String)> {
        let ExprKind::Variable(_) = self.hir[expr].kind else {
            return match self.hir[expr].kind {
                ExprKind::Call { callee: Callee::Function(..), .. } => {
                    match self.scopes.of_expr(expr)?.target {
                        crate::scope::Target::Func(func) => {
                            let (_, span) = self.hir[func].name?;
                            Some((span, "the function is defined here".to_owned()))
                        }
                        _ => None,
                    }
                }
                ExprKind::Call { callee: Callee::Variable(inner), .. } => self.story(inner),
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
            return Code::InfiniteType
                .at(span, "this would have a type that contains itself")
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
            Why::OverList => format!("`for` goes over a list, not over `{have}`"),
            Why::OverMap => format!("`forkv` goes over a map, not over `{have}`"),
            Why::Haystack(_) if !matches!(self.types.shape(found), Shape::List(_)) => {
                format!("`in` looks into a list, and this is `{have}`")
            }
            Why::Callee if clash == Clash::Kind => format!("`{have}` is not a function"),
            _ => format!("expected `{want}`, found `{have}`"),
        };
        let mut diagnostic = code.at(span, message).here(format!("this is `{have}`"));
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
            Why::Haystack(at) => diagnostic = self.haystack(diagnostic, at, expected, found),
            Why::Param(var) | Why::LambdaParam(var) | Why::ClassParam(var) => {
                let name = self.names.text(self.hir[var].name).to_owned();
                diagnostic = diagnostic.label(self.hir[var].span, format!("the parameter `${name}`"));
            }
            Why::Library(function) => {
                diagnostic = diagnostic.hint(format!("`{}` is `{}`", function.name, function.signature()));
            }
            Why::Verb(at) => diagnostic = diagnostic.label(at, format!("this takes `{want}`")),
            Why::Hole => {
                diagnostic =
                    diagnostic.hint("`fmt.printf` makes text of other values: `fmt.printf(\"%v\", $x)`");
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
                if let Shape::Map(..) = self.types.shape(found) {
                    diagnostic = diagnostic.hint("use `forkv` for a map");
                }
            }
            Why::OverMap => {
                if let Shape::List(_) = self.types.shape(found) {
                    diagnostic = diagnostic.hint("use `for` for a list");
                }
            }
            Why::Index(at) => diagnostic = diagnostic.label(at, "a list is looked into by position, from 0"),
            Why::Key(at) => diagnostic = diagnostic.label(at, format!("the keys of this map are `{want}`")),
            Why::Otherwise(at) => {
                diagnostic = diagnostic.label(at, format!("the struct has this field, and it is `{want}`"));
            }
            Why::Name => {
                diagnostic = diagnostic.hint("the name of a resource is a text, or a list of texts");
            }
            Why::Positional(Value { definition, learned }) => {
                if let Some(at) = learned {
                    diagnostic = diagnostic.label(at, format!("this call made it `{want}`"));
                }
                if let Some(at) = definition {
                    diagnostic = diagnostic.label(at, "this is what is called");
                }
                diagnostic = diagnostic.hint(ONE_TYPE);
            }
            Why::Definition(at) => {
                diagnostic = diagnostic.label(at, format!("this works only where it is `{want}`"));
            }
            Why::Element | Why::Callee => {}
        }
        if clash == Clash::Fields {
            diagnostic = diagnostic.hint("structs are equal if they have the same fields in the same order");
        }
        diagnostic
    }

    /// What is looked for, and where that could be found.
    fn haystack(&self, diagnostic: Diagnostic, needle: Span, expected: Ty, found: Ty) -> Diagnostic {
        let Shape::List(element) = self.types.shape(expected) else { return diagnostic };
        let element = self.text(*element);
        let diagnostic = diagnostic.label(needle, format!("this is looked for, and is `{element}`"));
        match self.types.shape(found) {
            Shape::Map(..) => diagnostic.hint("`map.keys` makes a list of the keys of a map"),
            Shape::Str => diagnostic.hint("`strings.contains` looks for a text in a text"),
            Shape::List(_) => diagnostic.hint("only values of one type can be equal"),
            _ => diagnostic,
        }
    }

    /// What to do about operands that do not mix: either of them could be the wrong one.
    fn mixture(&self, operator: Operator, a: Ty, b: Ty) -> Option<String> {
        let text = |what: &str| Some(what.to_owned());
        match (self.types.shape(a), self.types.shape(b)) {
            (Shape::Int, Shape::Float) | (Shape::Float, Shape::Int) => {
                text("integers and floats do not mix; `convert.to_float` makes a float of an integer")
            }
            (Shape::Str, Shape::Int | Shape::Float | Shape::Bool)
            | (Shape::Int | Shape::Float | Shape::Bool, Shape::Str)
                if operator == Operator::Add =>
            {
                text("`fmt.printf` puts other values into a text: `fmt.printf(\"%v files\", $x)`")
            }
            // Texts have neither an order nor a product.
            (Shape::Str, Shape::Int) | (Shape::Int, Shape::Str)
                if !matches!(operator, Operator::Equal | Operator::NotEqual) =>
            {
                Some(format!(
                    "`{}` works on numbers; `convert.str_to_int` makes an integer of a text",
                    operator.text()
                ))
            }
            (Shape::Str, Shape::Float) | (Shape::Float, Shape::Str)
                if !matches!(operator, Operator::Equal | Operator::NotEqual) =>
            {
                Some(format!("`{}` works on numbers", operator.text()))
            }
            _ => None,
        }
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
            // Nobody converts a literal.
            (Shape::Int, Shape::Float, ExprKind::Float(number)) if number.fract() == 0.0 => {
                Some(format!("write `{number}`"))
            }
            (Shape::Int, Shape::Float, ExprKind::Float(_)) => None,
            (Shape::Int, Shape::Float, _) => text("`convert.to_int` makes an integer of a float"),
            (Shape::Int, Shape::Str, ExprKind::Str(value)) => {
                let digits = value.strip_prefix(b"-").unwrap_or(value);
                let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
                is_number.then(|| "without quotes it is an int".to_owned())
            }
            (Shape::Int, Shape::Str, ExprKind::Variable(_) | ExprKind::Call { .. } | ExprKind::Index(..)) => {
                text("`convert.str_to_int` makes an integer of a text")
            }
            (
                Shape::Str,
                Shape::Int | Shape::Float | Shape::Bool,
                ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_),
            ) => text("put it between quotes"),
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
        let mut diagnostic = Code::ArgumentCount.at(span, message);
        if let Some(definition) = definition {
            diagnostic = diagnostic.label(definition, "defined here");
        }
        self.report(diagnostic);
    }
}
