//! Questions that wait for a type.

use mgmt_diagnostics::{Diagnostic, Span};
use mgmt_syntax::ast::Operator;
use rustc_hash::FxHashMap;

use super::mismatch::Why;
use super::{Checker, What};
use crate::codes::Code;
use crate::hir::{ClassId, ExprId, FuncId, Name};
use crate::types::{Context, Shape, Ty, Types};

/// The generic definition that something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Program,
    Class(ClassId),
    Func(FuncId),
    /// A definition that is looked at by itself.
    Definition(Context),
}

/// A question about a type.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub(super) question: Question,
    /// What it waits for.
    pub(super) ty: Ty,
    /// Where it was asked.
    pub(super) span: Span,
    /// What it was asked about.
    pub(super) expr: Option<ExprId>,
    /// The call or the include that a generic definition asks it for.
    pub(super) used_at: Option<Span>,
}

#[derive(Clone, Debug)]
pub(super) enum Question {
    /// `ty[key]` is `result`.
    Lookup { key: Ty, key_span: Span, result: Ty },
    /// `ty->field` is `result`.
    Field { field: Name, field_span: Span, result: Ty },
    /// `ty->field <|> result`.
    FieldOr { field: Name, field_span: Span, default: Span, result: Ty },
    /// The type is one of a few.
    Limit(Limited),
    /// It names one resource, or a list of them; or what to collect.
    Name { collect: bool },
    /// It is the type of keys.
    Hashable,
    /// It is a struct of metaparameters.
    Meta,
}

/// Why a type is one of a few.
#[derive(Clone, Debug)]
pub(super) enum Limited {
    Operator(Operator),
    Panic,
    Library(&'static mgmt_funcs::Function, Box<[mgmt_funcs::Shape]>),
}

/// All goals.
#[derive(Debug, Default)]
pub(super) struct Goals {
    list: Vec<(Option<Goal>, Owner)>,
    /// Who waits for a variable.
    waiting: FxHashMap<Ty, Vec<u32>>,
    /// What a generic definition leaves to its users.
    left: FxHashMap<Owner, Vec<u32>>,
    /// What was asked in a definition that has not been finished.
    asked: FxHashMap<Owner, Vec<u32>>,
}

impl Goals {
    fn wait(&mut self, goal: Goal, var: Ty, owner: Owner) {
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push((Some(goal), owner));
        self.waiting.entry(var).or_default().push(number);
        self.asked.entry(owner).or_default().push(number);
    }

    /// What a definition leaves to its users.
    pub(super) fn of(&self, owner: Owner) -> Vec<Goal> {
        let Some(left) = self.left.get(&owner) else { return Vec::new() };
        left.iter().filter_map(|&number| self.list.get(number as usize)?.0.clone()).collect()
    }

    /// Goals that wait for a variable of the definition itself are left to its users; others to what is around it.
    pub(super) fn generalize(&mut self, types: &mut Types, own: Owner, outer: Owner, level: u32) {
        let Some(asked) = self.asked.remove(&own) else { return };
        for number in asked {
            let Some((Some(goal), owner)) = self.list.get_mut(number as usize) else { continue };
            if types.level(goal.ty) > level {
                self.left.entry(own).or_default().push(number);
            } else {
                *owner = outer;
                self.asked.entry(outer).or_default().push(number);
            }
        }
    }
}

impl Goal {
    /// The types that become known with the answer.
    pub(super) fn results(&self, mut each: impl FnMut(Ty)) {
        match &self.question {
            Question::Lookup { key, result, .. } => {
                each(*key);
                each(*result);
            }
            Question::Field { result, .. } | Question::FieldOr { result, .. } => each(*result),
            Question::Limit(_) | Question::Name { .. } | Question::Hashable | Question::Meta => {}
        }
    }

    /// The same question about a copy of the definition that asks it.
    pub(super) fn copied(
        &self,
        checker: &mut Checker<'_>,
        used_at: Span,
        copy: &mut dyn FnMut(&mut Checker<'_>, Ty) -> Ty,
    ) -> Goal {
        let ty = copy(checker, self.ty);
        let question = match self.question.clone() {
            Question::Lookup { key, key_span, result } => {
                Question::Lookup { key: copy(checker, key), key_span, result: copy(checker, result) }
            }
            Question::Field { field, field_span, result } => {
                Question::Field { field, field_span, result: copy(checker, result) }
            }
            Question::FieldOr { field, field_span, default, result } => {
                Question::FieldOr { field, field_span, default, result: copy(checker, result) }
            }
            other => other,
        };
        Goal {
            question,
            ty,
            span: self.span,
            expr: self.expr,
            used_at: Some(self.used_at.unwrap_or(used_at)),
        }
    }
}

impl Checker<'_> {
    /// Asks a question now, or when its type is known.
    pub(super) fn pose(&mut self, goal: Goal) {
        let ty = self.types.resolve(goal.ty);
        if self.types.is_var(ty) {
            self.goals.wait(goal, ty, self.owner);
        } else {
            self.answer(&goal);
        }
    }

    pub(super) fn limit(&mut self, ty: Ty, span: Span, limited: Limited) {
        self.pose(Goal { question: Question::Limit(limited), ty, span, expr: None, used_at: None });
    }

    /// Answers what can be answered since types were learned.
    pub(super) fn settle(&mut self) {
        while let Some(var) = self.types.learned.pop() {
            let Some(waiting) = self.goals.waiting.remove(&var) else { continue };
            let ty = self.types.resolve(var);
            if self.types.is_var(ty) {
                self.goals.waiting.entry(ty).or_default().extend(waiting);
                continue;
            }
            for number in waiting {
                let Some(goal) = self.goals.list.get_mut(number as usize).and_then(|(goal, _)| goal.take())
                else {
                    continue;
                };
                self.answer(&goal);
            }
        }
    }

    fn answer(&mut self, goal: &Goal) {
        let ty = self.types.resolve(goal.ty);
        let shape = self.types.shape(ty).clone();
        if let Shape::Error = shape {
            return;
        }
        match &goal.question {
            Question::Lookup { key, key_span, result } => match shape {
                Shape::List(element) => {
                    self.equate(Types::INT, *key, *key_span, Why::Index(goal.span), goal.used_at);
                    self.equate(element, *result, goal.span, Why::Element, goal.used_at);
                }
                Shape::Map(of_key, value) => {
                    self.equate(of_key, *key, *key_span, Why::Key(goal.span), goal.used_at);
                    self.equate(value, *result, goal.span, Why::Element, goal.used_at);
                }
                _ => {
                    let message = format!("`{}` is neither a list nor a map", self.text(ty));
                    let hint = match shape {
                        Shape::Struct(_) => "the fields of a struct are read with an arrow: `$x->field`",
                        Shape::Str => "a string has no elements; see the module `strings` for parts of it",
                        _ => "only lists and maps are looked into with brackets",
                    };
                    let found = Code::NotAContainer.at(goal.span, message).hint(hint);
                    self.refuse(goal, ty, found);
                }
            },
            Question::Field { field, field_span, result } => {
                let Some(found) = self.field_of(goal, &shape, ty, *field, *field_span) else { return };
                self.equate(found, *result, goal.span, Why::Element, goal.used_at);
            }
            Question::FieldOr { field, field_span, default, result } => match &shape {
                Shape::Struct(fields) => {
                    if let Some((_, found)) = fields.iter().find(|(name, _)| name == field) {
                        self.equate(*found, *result, *default, Why::Otherwise(*field_span), goal.used_at);
                    }
                }
                _ => self.not_a_struct(goal, ty),
            },
            Question::Limit(limited) => self.limited(goal, limited, ty, &shape),
            Question::Name { collect } => self.name_type(goal, *collect, ty, &shape),
            Question::Hashable => self.hashable(goal, ty),
            Question::Meta => self.meta_type(goal, ty, &shape),
        }
    }

    fn field_of(&mut self, goal: &Goal, shape: &Shape, ty: Ty, field: Name, field_span: Span) -> Option<Ty> {
        let Shape::Struct(fields) = shape else {
            self.not_a_struct(goal, ty);
            return None;
        };
        if let Some((_, ty)) = fields.iter().find(|(name, _)| *name == field) {
            return Some(*ty);
        }
        let name = self.names.text(field).to_owned();
        let known: Vec<&str> = fields.iter().map(|(name, _)| self.names.text(*name)).collect();
        let hint = match mgmt_resource::did_you_mean(&name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "the struct has no fields".to_owned(),
            None => format!("it has: {}", known.join(", ")),
        };
        let message = format!("the struct has no field `{name}`");
        let found = Code::UnknownStructField
            .at(field_span, message)
            .here(format!("not in `{}`", self.text(ty)))
            .hint(hint);
        self.refuse(goal, ty, found);
        None
    }

    fn not_a_struct(&mut self, goal: &Goal, ty: Ty) {
        let message = format!("`{}` is not a struct", self.text(ty));
        let hint = match self.types.shape(ty) {
            Shape::Map(..) => "the values of a map are read with brackets: `$x[\"key\"]`",
            Shape::List(_) => "the elements of a list are read with brackets: `$x[0]`",
            _ => "only structs are looked into with an arrow",
        };
        let found = Code::NotAStruct.at(goal.span, message).hint(hint);
        self.refuse(goal, ty, found);
    }

    /// Reports that the answer is no, with what the type was found by. Nobody is asked about the answer any more.
    pub(super) fn refuse(&mut self, goal: &Goal, ty: Ty, mut diagnostic: Diagnostic) {
        if let Some((place, text)) = goal.expr.and_then(|expr| self.story(expr)) {
            diagnostic = diagnostic.label(place, text);
        } else if let Some(place) = self.types.learned_at(goal.ty).filter(|place| *place != goal.span) {
            diagnostic = diagnostic.label(place, format!("this made it `{}`", self.text(ty)));
        }
        self.report_used(diagnostic, goal.used_at);
        if let Question::Lookup { result, .. } | Question::Field { result, .. } = goal.question {
            self.types.give_up(result, goal.span);
        }
    }

    fn limited(&mut self, goal: &Goal, limited: &Limited, ty: Ty, shape: &Shape) {
        use Operator::*;
        let kind = self.types.kind(ty);
        let number = matches!(shape, Shape::Int | Shape::Float);
        let found = match limited {
            Limited::Operator(operator) => {
                let (fits, wanted) = match operator {
                    Add => (number || *shape == Shape::Str, "strings, integers and floats"),
                    Subtract | Multiply | Divide => (number, "integers and floats"),
                    Less | Greater | LessEqual | GreaterEqual => (number, "integers and floats"),
                    Equal | NotEqual => (!matches!(shape, Shape::Func(..)), "everything but functions"),
                    And | Or | In => (true, ""),
                };
                if fits {
                    return;
                }
                let operator = operator.text();
                let hint = match shape {
                    Shape::List(_) if operator == "+" => "lists are joined by `list.concat`".to_owned(),
                    _ => format!("`{operator}` works on {wanted}"),
                };
                Code::OperatorType
                    .at(goal.span, format!("`{operator}` cannot work on `{}`", self.text(ty)))
                    .hint(hint)
            }
            Limited::Panic => {
                if matches!(shape, Shape::Bool | Shape::Str) {
                    return;
                }
                Code::Mismatch
                    .at(goal.span, format!("expected `bool` or `str`, found `{}`", self.text(ty)))
                    .hint("`panic` takes a condition, or a text that is not empty when something is wrong")
            }
            Limited::Library(function, shapes) => {
                if shapes.iter().any(|shape| shape.name() == kind) {
                    return;
                }
                let wanted: Vec<&str> = shapes.iter().map(|shape| shape.name()).collect();
                Code::NotAccepted
                    .at(goal.span, format!("`{}` does not work on `{}`", function.name, self.text(ty)))
                    .hint(format!("it works on {}", wanted.join(", ")))
            }
        };
        self.refuse(goal, ty, found);
    }

    fn name_type(&mut self, goal: &Goal, collect: bool, ty: Ty, shape: &Shape) {
        match shape {
            Shape::Str => return,
            Shape::List(element) if collect => {
                let element = self.types.resolve(*element);
                if let Shape::Struct(_) = self.types.shape(element) {
                    let wanted = self.collected();
                    self.equate(wanted, ty, goal.span, Why::Name, goal.used_at);
                    return;
                }
                if self.types.is_var(element) {
                    let wanted = self.collected();
                    self.equate(wanted, ty, goal.span, Why::Name, goal.used_at);
                    return;
                }
            }
            _ => {}
        }
        if let Shape::List(_) = shape {
            let wanted = self.types.list(Types::STR);
            self.equate(wanted, ty, goal.span, Why::Name, goal.used_at);
            return;
        }
        let message = format!("expected `str` or `[]str`, found `{}`", self.text(ty));
        let hint = match shape {
            Shape::Int | Shape::Float | Shape::Bool => {
                "a name is a text; `fmt.printf` makes one of other values"
            }
            _ => "the name of a resource is a text, or a list of texts for several resources",
        };
        let found =
            Code::Mismatch.at(goal.span, message).here(format!("this is `{}`", self.text(ty))).hint(hint);
        self.refuse(goal, ty, found);
    }

    /// What a collection goes by: `[]struct{name str; host str}`.
    fn collected(&mut self) -> Ty {
        let (name, host) = (self.names.intern("name"), self.names.intern("host"));
        let element = self.types.add(Shape::Struct([(name, Types::STR), (host, Types::STR)].into()));
        self.types.list(element)
    }

    fn hashable(&mut self, goal: &Goal, ty: Ty) {
        let mut open = vec![ty];
        while let Some(part) = open.pop() {
            let part = self.types.resolve(part);
            match self.types.shape(part).clone() {
                Shape::Bool | Shape::Str | Shape::Int | Shape::Float | Shape::Error => {}
                Shape::Struct(fields) => open.extend(fields.iter().map(|(_, ty)| *ty)),
                Shape::Var(_) => self.pose(Goal { ty: part, ..goal.clone() }),
                _ => {
                    let message = format!("`{}` cannot be the key of a map", self.text(ty));
                    let found = Code::UnhashableType
                        .at(goal.span, message)
                        .hint("a key is a bool, a str, an int, a float, or a struct of these");
                    self.refuse(goal, ty, found);
                    return;
                }
            }
        }
    }

    /// Goals that nothing will answer any more: some have a usual answer.
    pub(super) fn default_goals(&mut self) {
        let Some(asked) = self.goals.asked.remove(&Owner::Program) else { return };
        let mut open = asked;
        loop {
            let mut changed = false;
            let mut rest = Vec::new();
            for number in open {
                let Some((Some(goal), _)) = self.goals.list.get(number as usize) else { continue };
                let goal = goal.clone();
                let guess = match &goal.question {
                    Question::Name { collect: false } => {
                        let ty = self.types.list(Types::STR);
                        Some(ty)
                    }
                    Question::Name { collect: true } => Some(self.collected()),
                    Question::Lookup { key, .. } => {
                        let key = self.types.resolve(*key);
                        let known = !self.types.is_var(key) && key != Types::INT;
                        known.then(|| {
                            let value = self.types.fresh(1);
                            self.types.add(Shape::Map(key, value))
                        })
                    }
                    _ => None,
                };
                match guess {
                    Some(ty) => {
                        changed = true;
                        // The goal is answered as soon as its type is known.
                        let _ = self.types.unify(goal.ty, ty, goal.span);
                        self.settle();
                    }
                    None => rest.push(number),
                }
            }
            open = rest;
            if !changed {
                break;
            }
        }
        for number in open {
            let Some((Some(goal), _)) = self.goals.list.get(number as usize) else { continue };
            let goal = goal.clone();
            if let Question::Lookup { .. } = goal.question {
                self.must_be_known(goal.ty, goal.span, What::Lookup);
            } else if let Question::Limit(_)
            | Question::Field { .. }
            | Question::FieldOr { .. }
            | Question::Meta = goal.question
            {
                self.must_be_known(goal.ty, goal.span, What::Result);
            }
        }
    }
}
