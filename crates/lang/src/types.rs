//! Types while they are being found, and what makes two of them one.
//!
//! A type is a number in a table. Types without unknown parts are kept once each, so comparing two of them is comparing
//! two numbers, however large they are. A variable knows its level: how many generic definitions (functions, classes,
//! modules) are around the place that made it. When such a definition has been looked at, variables of deeper levels are
//! its own, and whoever uses it gets copies.

use std::fmt::Write as _;

use mgmt_diagnostics::Span;
use mgmt_value::Type;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::hir::{Name, Names};

/// A type, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ty(u32);

/// What a type is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// Something was wrong and has been reported; goes with everything.
    Error,
    Bool,
    Str,
    Int,
    Float,
    /// A value of any type.
    Variant,
    Nil,
    List(Ty),
    Map(Ty, Ty),
    Struct(Box<[(Name, Ty)]>),
    Func(Box<[Ty]>, Ty),
    /// Not known when it was made; the number is that of the variable.
    Var(u32),
}

/// Why two types are not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clash {
    /// They are of different kinds.
    Kind,
    /// Structs with other fields.
    Fields,
    /// Functions with other numbers of parameters.
    Arity,
    /// One would have to contain itself.
    Infinite,
}

/// What a variable belongs to, by number: the program, or a definition that is looked at by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Context(pub(crate) u32);

impl Context {
    pub(crate) const PROGRAM: Context = Context(0);
}

#[derive(Clone, Copy, Debug)]
struct Variable {
    /// What it turned out to be.
    bound: Option<Ty>,
    level: u32,
    context: Context,
    /// Where that became known.
    at: Option<Span>,
    /// How many variables there may be on the longest way to this one.
    way: u8,
}

/// All types of a program.
#[derive(Debug)]
pub(crate) struct Types {
    shapes: Vec<Shape>,
    ground: Vec<bool>,
    /// How many types are inside each other in those that are ground.
    depths: Vec<u32>,
    known: FxHashMap<Shape, Ty>,
    variables: Vec<Variable>,
    /// Variables that were bound since this was last emptied.
    pub(crate) learned: Vec<Ty>,
    /// Variables with smaller numbers stay as they are.
    frozen: u32,
    /// What new variables belong to.
    pub(crate) context: Context,
}

impl Types {
    pub(crate) const ERROR: Ty = Ty(0);
    pub(crate) const BOOL: Ty = Ty(1);
    pub(crate) const STR: Ty = Ty(2);
    pub(crate) const INT: Ty = Ty(3);
    pub(crate) const FLOAT: Ty = Ty(4);
    pub(crate) const VARIANT: Ty = Ty(5);
    pub(crate) const NIL: Ty = Ty(6);

    pub(crate) fn new() -> Types {
        let mut types = Types {
            shapes: Vec::new(),
            ground: Vec::new(),
            depths: Vec::new(),
            known: FxHashMap::default(),
            variables: Vec::new(),
            learned: Vec::new(),
            frozen: 0,
            context: Context::PROGRAM,
        };
        for shape in
            [Shape::Error, Shape::Bool, Shape::Str, Shape::Int, Shape::Float, Shape::Variant, Shape::Nil]
        {
            types.add(shape);
        }
        types
    }

    fn push(&mut self, shape: Shape, ground: bool) -> Ty {
        let ty = Ty(u32::try_from(self.shapes.len()).unwrap_or(u32::MAX));
        self.shapes.push(shape);
        self.ground.push(ground);
        let mut deepest = 0;
        if ground {
            self.parts(ty, |part| deepest = deepest.max(self.depths[part.0 as usize]));
        }
        self.depths.push(deepest + 1);
        ty
    }

    /// A type of this shape.
    pub(crate) fn add(&mut self, shape: Shape) -> Ty {
        let ground = match &shape {
            Shape::List(element) => self.is_ground(*element),
            Shape::Map(key, value) => self.is_ground(*key) && self.is_ground(*value),
            Shape::Struct(fields) => fields.iter().all(|(_, ty)| self.is_ground(*ty)),
            Shape::Func(params, result) => {
                params.iter().all(|ty| self.is_ground(*ty)) && self.is_ground(*result)
            }
            Shape::Var(_) => false,
            _ => true,
        };
        if !ground {
            return self.push(shape, false);
        }
        if let Some(&ty) = self.known.get(&shape) {
            return ty;
        }
        let ty = self.push(shape.clone(), true);
        self.known.insert(shape, ty);
        ty
    }

    pub(crate) fn list(&mut self, element: Ty) -> Ty {
        self.add(Shape::List(element))
    }

    /// A new variable.
    pub(crate) fn fresh(&mut self, level: u32) -> Ty {
        self.fresh_in(level, self.context)
    }

    /// A new variable that belongs to something else.
    pub(crate) fn fresh_in(&mut self, level: u32, context: Context) -> Ty {
        let number = u32::try_from(self.variables.len()).unwrap_or(u32::MAX);
        self.variables.push(Variable { bound: None, level, context, at: None, way: 0 });
        self.push(Shape::Var(number), false)
    }

    /// From now on nothing becomes known of the variables that there are.
    pub(crate) fn freeze(&mut self) {
        self.frozen = u32::try_from(self.variables.len()).unwrap_or(u32::MAX);
    }

    fn is_frozen(&self, var: Ty) -> bool {
        matches!(self.shapes[var.0 as usize], Shape::Var(number) if number < self.frozen)
    }

    /// It has no variables in it, not even known ones.
    fn is_ground(&self, ty: Ty) -> bool {
        self.ground[ty.0 as usize]
    }

    fn variable(&self, ty: Ty) -> Option<&Variable> {
        match self.shapes[ty.0 as usize] {
            Shape::Var(number) => self.variables.get(number as usize),
            _ => None,
        }
    }

    fn variable_mut(&mut self, ty: Ty) -> Option<&mut Variable> {
        match self.shapes[ty.0 as usize] {
            Shape::Var(number) => self.variables.get_mut(number as usize),
            _ => None,
        }
    }

    /// Follows variables to what is known of them.
    pub(crate) fn find(&self, mut ty: Ty) -> Ty {
        while let Some(next) = self.variable(ty).and_then(|variable| variable.bound) {
            ty = next;
        }
        ty
    }

    /// As `find`, and makes the way shorter for the next time.
    pub(crate) fn resolve(&mut self, ty: Ty) -> Ty {
        let end = self.find(ty);
        let mut at = ty;
        while at != end {
            let Some(variable) = self.variable_mut(at) else { break };
            let Some(next) = variable.bound.replace(end) else { break };
            at = next;
        }
        end
    }

    pub(crate) fn shape(&self, ty: Ty) -> &Shape {
        &self.shapes[self.find(ty).0 as usize]
    }

    pub(crate) fn is_var(&self, ty: Ty) -> bool {
        matches!(self.shape(ty), Shape::Var(_))
    }

    /// Where a variable that is now known became so.
    pub(crate) fn learned_at(&self, mut ty: Ty) -> Option<Span> {
        let mut at = None;
        while let Some(variable) = self.variable(ty) {
            let Some(next) = variable.bound else { break };
            at = variable.at.or(at);
            ty = next;
        }
        at
    }

    pub(crate) fn level(&self, ty: Ty) -> u32 {
        self.variable(self.find(ty)).map_or(0, |variable| variable.level)
    }

    /// What a variable belongs to.
    pub(crate) fn context_of(&self, ty: Ty) -> Context {
        self.variable(self.find(ty)).map_or(Context::PROGRAM, |variable| variable.context)
    }

    /// Makes two types one, or says why that cannot be. What was learned until then stays.
    pub(crate) fn unify(&mut self, a: Ty, b: Ty, at: Span) -> Result<(), Clash> {
        let mut seen = Seen::default();
        // Types can be deeper than the stack, so this is a list of what is left to do, the next at its end.
        let mut open: SmallVec<[(Ty, Ty); 8]> = SmallVec::new();
        open.push((a, b));
        while let Some((a, b)) = open.pop() {
            let (a, b) = (self.resolve(a), self.resolve(b));
            if a == b || seen.again((a, b)) {
                continue;
            }
            if a == Self::ERROR || b == Self::ERROR {
                self.give_up(if a == Self::ERROR { b } else { a }, at);
                continue;
            }
            if self.is_ground(a) && self.is_ground(b) && !self.has_error(a) && !self.has_error(b) {
                return Err(self.clash(a, b));
            }
            match (&self.shapes[a.0 as usize], &self.shapes[b.0 as usize]) {
                (Shape::Var(_), Shape::Var(_)) if self.is_longer(a, b) => self.bind(b, a, at)?,
                (Shape::Var(_), _) => self.bind(a, b, at)?,
                (_, Shape::Var(_)) => self.bind(b, a, at)?,
                (&Shape::List(x), &Shape::List(y)) => open.push((x, y)),
                (&Shape::Map(k, v), &Shape::Map(l, w)) => open.extend([(v, w), (k, l)]),
                (Shape::Struct(x), Shape::Struct(y)) => {
                    if x.len() != y.len() || x.iter().zip(y).any(|(x, y)| x.0 != y.0) {
                        return Err(Clash::Fields);
                    }
                    open.extend(x.iter().zip(y).rev().map(|(x, y)| (x.1, y.1)));
                }
                (Shape::Func(x, r), Shape::Func(y, s)) => {
                    if x.len() != y.len() {
                        return Err(Clash::Arity);
                    }
                    open.push((*r, *s));
                    open.extend(x.iter().copied().zip(y.iter().copied()).rev());
                }
                _ => return Err(Clash::Kind),
            }
        }
        Ok(())
    }

    /// Something was wrong and has been reported: what is not known in a type will not become known, and nobody is
    /// asked about it.
    pub(crate) fn give_up(&mut self, ty: Ty, at: Span) {
        for var in self.unknowns(ty) {
            if self.is_frozen(var) {
                continue;
            }
            if let Some(variable) = self.variable_mut(var) {
                (variable.bound, variable.at) = (Some(Self::ERROR), Some(at));
            }
            self.learned.push(var);
        }
    }

    /// Why two different types without variables are different.
    fn clash(&self, a: Ty, b: Ty) -> Clash {
        match (self.shape(a), self.shape(b)) {
            (Shape::Struct(x), Shape::Struct(y))
                if x.len() != y.len() || x.iter().zip(y).any(|(x, y)| x.0 != y.0) =>
            {
                Clash::Fields
            }
            (Shape::Func(x, _), Shape::Func(y, _)) if x.len() != y.len() => Clash::Arity,
            _ => Clash::Kind,
        }
    }

    fn has_error(&self, ty: Ty) -> bool {
        let mut seen = Seen::default();
        let mut open = vec![ty];
        while let Some(ty) = open.pop() {
            let ty = self.find(ty);
            if ty == Self::ERROR {
                return true;
            }
            if !seen.again(ty) {
                self.parts(ty, |part| open.push(part));
            }
        }
        false
    }

    /// The types that a type is made of, without those that these are made of.
    fn parts(&self, ty: Ty, mut each: impl FnMut(Ty)) {
        match self.shape(ty) {
            Shape::List(element) => each(*element),
            Shape::Map(key, value) => {
                each(*key);
                each(*value);
            }
            Shape::Struct(fields) => fields.iter().for_each(|(_, ty)| each(*ty)),
            Shape::Func(params, result) => {
                params.iter().for_each(|ty| each(*ty));
                each(*result);
            }
            _ => {}
        }
    }

    fn bind(&mut self, var: Ty, ty: Ty, at: Span) -> Result<(), Clash> {
        if self.is_frozen(var) {
            return match self.variable(ty) {
                Some(_) if !self.is_frozen(ty) => self.bind(ty, var, at),
                _ => Ok(()),
            };
        }
        let level = self.level(var);
        // What it becomes part of must not be more private than it is, and must not be a part of itself.
        if !self.is_ground(ty) {
            let mut seen = Seen::default();
            let mut open = vec![ty];
            while let Some(part) = open.pop() {
                let part = self.find(part);
                if part == var {
                    return Err(Clash::Infinite);
                }
                if self.is_ground(part) || seen.again(part) {
                    continue;
                }
                match self.variable_mut(part) {
                    Some(variable) => variable.level = variable.level.min(level),
                    None => self.parts(part, |part| open.push(part)),
                }
            }
        }
        let way = self.variable(var).map_or(0, |variable| variable.way.saturating_add(1));
        if let Some(target) = self.variable_mut(ty) {
            target.way = target.way.max(way);
        }
        if let Some(variable) = self.variable_mut(var) {
            (variable.bound, variable.at) = (Some(ty), Some(at));
        }
        self.learned.push(var);
        Ok(())
    }

    /// The way to the first variable is longer than that to the second. Who has the longer one is never the one to be
    /// bound: so no way is longer than the logarithm of the number of variables.
    fn is_longer(&self, a: Ty, b: Ty) -> bool {
        let way = |ty| self.variable(ty).map_or(0, |variable| variable.way);
        way(a) > way(b)
    }

    /// The variables in a type that are not known.
    pub(crate) fn unknowns(&self, ty: Ty) -> Vec<Ty> {
        let mut found = Vec::new();
        let mut seen = FxHashSet::default();
        let mut open = vec![ty];
        while let Some(ty) = open.pop() {
            let ty = self.find(ty);
            if self.is_ground(ty) || !seen.insert(ty) {
                continue;
            }
            match self.shape(ty) {
                Shape::Var(_) => found.push(ty),
                _ => self.parts(ty, |part| open.push(part)),
            }
        }
        found
    }

    /// Whether there is a variable in it that is not known.
    pub(crate) fn is_open(&self, ty: Ty) -> bool {
        let mut seen = Seen::default();
        let mut open: SmallVec<[Ty; 8]> = SmallVec::new();
        open.push(ty);
        while let Some(ty) = open.pop() {
            let ty = self.find(ty);
            if self.is_ground(ty) || seen.again(ty) {
                continue;
            }
            if let Shape::Var(_) = self.shape(ty) {
                return true;
            }
            self.parts(ty, |part| open.push(part));
        }
        false
    }

    /// A copy of a type in which each unknown variable has been replaced.
    pub(crate) fn replace(&mut self, ty: Ty, with: &mut dyn FnMut(&mut Types, Ty) -> Ty) -> Ty {
        let mut done: FxHashMap<Ty, Ty> = FxHashMap::default();
        let start = self.resolve(ty);
        // As above: what is left to do, the next at its end. A type comes again when its parts are done.
        let mut open = vec![start];
        while let Some(&ty) = open.last() {
            if self.is_ground(ty) || done.contains_key(&ty) {
                open.pop();
                continue;
            }
            if let Shape::Var(_) = self.shapes[ty.0 as usize] {
                let copy = with(self, ty);
                done.insert(ty, copy);
                open.pop();
                continue;
            }
            let before = open.len();
            self.parts(ty, |part| {
                let part = self.find(part);
                if !self.is_ground(part) && !done.contains_key(&part) {
                    open.push(part);
                }
            });
            if open.len() > before {
                continue;
            }
            let of = |part: Ty| {
                let part = self.find(part);
                done.get(&part).copied().unwrap_or(part)
            };
            let shape = match &self.shapes[ty.0 as usize] {
                Shape::List(element) => Shape::List(of(*element)),
                Shape::Map(key, value) => Shape::Map(of(*key), of(*value)),
                Shape::Struct(fields) => {
                    Shape::Struct(fields.iter().map(|&(name, ty)| (name, of(ty))).collect())
                }
                Shape::Func(params, result) => {
                    Shape::Func(params.iter().map(|&ty| of(ty)).collect(), of(*result))
                }
                shape => shape.clone(),
            };
            let copy = self.add(shape);
            done.insert(ty, copy);
            open.pop();
        }
        done.get(&start).copied().unwrap_or(start)
    }

    /// It is made of more types inside each other, or has more parts that are not known, than some numbers.
    pub(crate) fn is_beyond(&self, ty: Ty, deepest: u32, largest: usize) -> bool {
        let mut depths: FxHashMap<Ty, u32> = FxHashMap::default();
        let start = self.find(ty);
        let mut open = vec![start];
        while let Some(&ty) = open.last() {
            if self.is_ground(ty) {
                open.pop();
                depths.insert(ty, self.depths[ty.0 as usize]);
                continue;
            }
            let (before, mut deep) = (open.len(), 0);
            self.parts(ty, |part| {
                let part = self.find(part);
                match depths.get(&part) {
                    Some(depth) => deep = deep.max(*depth),
                    None if self.is_ground(part) => deep = deep.max(self.depths[part.0 as usize]),
                    None => open.push(part),
                }
            });
            if open.len() == before {
                open.pop();
                depths.insert(ty, deep + 1);
                if deep >= deepest || depths.len() > largest {
                    return true;
                }
            }
        }
        depths.get(&start).is_some_and(|depth| *depth > deepest)
    }

    /// A type that was written down. Its variables are replaced.
    pub(crate) fn of(
        &mut self,
        names: &mut Names,
        ty: &Type,
        var: &mut dyn FnMut(&mut Types, u32) -> Ty,
    ) -> Ty {
        match ty {
            Type::Bool => Self::BOOL,
            Type::Str => Self::STR,
            Type::Int => Self::INT,
            Type::Float => Self::FLOAT,
            Type::Variant => Self::VARIANT,
            Type::Nil => Self::NIL,
            Type::Var(number) => var(self, *number),
            Type::List(element) => {
                let element = self.of(names, element, var);
                self.add(Shape::List(element))
            }
            Type::Map(pair) => {
                let key = self.of(names, &pair.0, var);
                let value = self.of(names, &pair.1, var);
                self.add(Shape::Map(key, value))
            }
            Type::Struct(fields) => {
                let fields =
                    fields.iter().map(|(name, ty)| (names.intern(name), self.of(names, ty, var))).collect();
                self.add(Shape::Struct(fields))
            }
            Type::Func(func) => {
                let params = func.args.iter().map(|(_, ty)| self.of(names, ty, var)).collect();
                let result = self.of(names, &func.result, var);
                self.add(Shape::Func(params, result))
            }
        }
    }

    /// A type as plain data. What is not known is asked for.
    pub(crate) fn to_type(&self, names: &Names, ty: Ty, unknown: &mut dyn FnMut(Ty) -> Type) -> Type {
        match self.shape(ty) {
            Shape::Error | Shape::Nil => Type::Nil,
            Shape::Bool => Type::Bool,
            Shape::Str => Type::Str,
            Shape::Int => Type::Int,
            Shape::Float => Type::Float,
            Shape::Variant => Type::Variant,
            Shape::List(element) => Type::list(self.to_type(names, *element, unknown)),
            Shape::Map(key, value) => {
                Type::map(self.to_type(names, *key, unknown), self.to_type(names, *value, unknown))
            }
            Shape::Struct(fields) => Type::structure(
                fields.iter().map(|&(name, ty)| (names.shared(name), self.to_type(names, ty, unknown))),
            ),
            Shape::Func(params, result) => {
                let params: Vec<_> =
                    params.iter().map(|&ty| ("", self.to_type(names, ty, unknown))).collect();
                Type::func(params, self.to_type(names, *result, unknown))
            }
            Shape::Var(_) => unknown(self.find(ty)),
        }
    }

    /// The kind's name in messages.
    pub(crate) fn kind(&self, ty: Ty) -> &'static str {
        match self.shape(ty) {
            Shape::Error | Shape::Var(_) => "unknown",
            Shape::Bool => "bool",
            Shape::Str => "str",
            Shape::Int => "int",
            Shape::Float => "float",
            Shape::Variant => "variant",
            Shape::Nil => "nil",
            Shape::List(_) => "list",
            Shape::Map(..) => "map",
            Shape::Struct(_) => "struct",
            Shape::Func(..) => "func",
        }
    }

    /// A type for people: never longer than fits on a line or two.
    pub(crate) fn text(&self, names: &Names, ty: Ty) -> String {
        let mut text = String::new();
        self.write(names, ty, 0, &mut text);
        text
    }

    fn write(&self, names: &Names, ty: Ty, depth: u32, text: &mut String) {
        const LONGEST: usize = 160;
        if depth > 12 || text.len() > LONGEST {
            text.push('…');
            return;
        }
        // Writing to a string cannot fail.
        let _ = match self.shape(ty) {
            Shape::Error | Shape::Var(_) => write!(text, "_"),
            Shape::List(element) => {
                text.push_str("[]");
                self.write(names, *element, depth + 1, text);
                Ok(())
            }
            Shape::Map(key, value) => {
                text.push_str("map{");
                self.write(names, *key, depth + 1, text);
                text.push_str(": ");
                self.write(names, *value, depth + 1, text);
                write!(text, "}}")
            }
            Shape::Struct(fields) => {
                text.push_str("struct{");
                for (index, (name, ty)) in fields.iter().enumerate() {
                    let _ = write!(text, "{}{} ", if index == 0 { "" } else { "; " }, names.text(*name));
                    self.write(names, *ty, depth + 1, text);
                    if text.len() > LONGEST {
                        break;
                    }
                }
                write!(text, "}}")
            }
            Shape::Func(params, result) => {
                text.push_str("func(");
                for (index, ty) in params.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { ", " });
                    self.write(names, *ty, depth + 1, text);
                    if text.len() > LONGEST {
                        break;
                    }
                }
                text.push_str(") ");
                self.write(names, *result, depth + 1, text);
                Ok(())
            }
            _ => write!(text, "{}", self.kind(ty)),
        };
    }
}

/// What has been looked at. Most walks are over in a few steps and never allocate; the others are over graphs in which
/// parts are shared, and then must not go the same way twice.
struct Seen<T> {
    steps: u32,
    set: FxHashSet<T>,
}

impl<T> Default for Seen<T> {
    fn default() -> Seen<T> {
        Seen { steps: 0, set: FxHashSet::default() }
    }
}

impl<T: std::hash::Hash + Eq> Seen<T> {
    const FEW: u32 = 64;

    fn again(&mut self, item: T) -> bool {
        self.steps += 1;
        self.steps > Self::FEW && !self.set.insert(item)
    }
}
