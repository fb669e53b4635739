//! Small programs that are right by construction.
//!
//! A list of numbers decides everything, so that a fuzzer can play with it; when they are used up, the smallest
//! choice is taken. Expressions are generated for a type; then types are left out of the text at random. A definition
//! can be generic: inside of it an opaque type stands for any, and each use chooses one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A program and the file that it imports.
pub(crate) fn program(choices: &[u8]) -> (String, String) {
    let mut generator = Generator { choices, at: 0, names: 0, opaque: 0, size: 0 };
    let mut library = Scope::default();
    let mut text = String::from("import \"fmt\"\nimport \"iter\"\n");
    for _ in 0..generator.pick(4) {
        generator.definition(&mut library, &mut text, 0);
    }
    let mut scope = Scope::default();
    let behind = |name: &str| format!("lib.{name}");
    scope.vars.extend(library.vars.iter().map(|(name, ty)| (behind(name), ty.clone())));
    scope.funcs.extend(library.funcs.iter().map(|func| Func { name: behind(&func.name), ..func.clone() }));
    scope
        .classes
        .extend(library.classes.iter().map(|class| Class { name: behind(&class.name), ..class.clone() }));
    let mut main = String::from("import \"fmt\"\nimport \"iter\"\nimport \"lib.mcl\"\n");
    generator.block(&mut scope, &mut main, 0);
    (main, text)
}

/// What the language calls a type, and what stands for any.
#[derive(Clone, Debug, PartialEq)]
enum Ty {
    Bool,
    Int,
    Float,
    Str,
    List(Box<Ty>),
    /// Keys are strings.
    Map(Box<Ty>),
    Struct(Vec<Ty>),
    Func(Vec<Ty>, Box<Ty>),
    Opaque(u32),
}

#[derive(Clone)]
struct Func {
    name: String,
    /// The opaque types that each call chooses. Others belong to what is around it.
    own: Vec<u32>,
    params: Vec<Ty>,
    result: Ty,
}

#[derive(Clone)]
struct Class {
    name: String,
    /// The opaque types that each include chooses.
    own: Vec<u32>,
    params: Vec<Ty>,
    exports: Vec<(String, Ty)>,
    funcs: Vec<Func>,
    classes: Vec<Class>,
}

#[derive(Clone, Default)]
struct Scope {
    vars: Vec<(String, Ty)>,
    funcs: Vec<Func>,
    classes: Vec<Class>,
}

type Chosen = BTreeMap<u32, Ty>;

impl Ty {
    fn text(&self) -> String {
        match self {
            Ty::Bool => "bool".into(),
            Ty::Int => "int".into(),
            Ty::Float => "float".into(),
            Ty::Str => "str".into(),
            Ty::List(element) => format!("[]{}", element.text()),
            Ty::Map(value) => format!("map{{str: {}}}", value.text()),
            Ty::Struct(fields) => {
                let fields: Vec<String> =
                    fields.iter().enumerate().map(|(index, ty)| format!("f{index} {}", ty.text())).collect();
                format!("struct{{{}}}", fields.join("; "))
            }
            Ty::Func(params, result) => {
                let params: Vec<String> = params.iter().map(Ty::text).collect();
                format!("func({}) {}", params.join(", "), result.text())
            }
            Ty::Opaque(_) => unreachable!("an opaque type has no text"),
        }
    }

    fn any(&self, test: &dyn Fn(&Ty) -> bool) -> bool {
        test(self)
            || match self {
                Ty::List(inner) | Ty::Map(inner) => inner.any(test),
                Ty::Struct(fields) => fields.iter().any(|field| field.any(test)),
                Ty::Func(params, result) => params.iter().any(|param| param.any(test)) || result.any(test),
                _ => false,
            }
    }

    fn is_opaque(&self) -> bool {
        self.any(&|ty| matches!(ty, Ty::Opaque(_)))
    }

    fn has_func(&self) -> bool {
        self.any(&|ty| matches!(ty, Ty::Func(..)))
    }

    fn with(&self, chosen: &Chosen) -> Ty {
        match self {
            Ty::Opaque(number) => chosen.get(number).unwrap_or(self).clone(),
            Ty::List(inner) => Ty::List(Box::new(inner.with(chosen))),
            Ty::Map(inner) => Ty::Map(Box::new(inner.with(chosen))),
            Ty::Struct(fields) => Ty::Struct(fields.iter().map(|ty| ty.with(chosen)).collect()),
            Ty::Func(params, result) => {
                Ty::Func(params.iter().map(|ty| ty.with(chosen)).collect(), Box::new(result.with(chosen)))
            }
            _ => self.clone(),
        }
    }

    /// What must be chosen for some opaque types for this to be the other type.
    fn matches(&self, other: &Ty, own: &[u32], chosen: &mut Chosen) -> bool {
        match (self, other) {
            (Ty::Opaque(number), _) if own.contains(number) => {
                chosen.entry(*number).or_insert_with(|| other.clone()) == other
            }
            (Ty::List(a), Ty::List(b)) | (Ty::Map(a), Ty::Map(b)) => a.matches(b, own, chosen),
            (Ty::Struct(a), Ty::Struct(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.matches(b, own, chosen))
            }
            (Ty::Func(a, r), Ty::Func(b, s)) => {
                a.len() == b.len()
                    && a.iter().zip(b).all(|(a, b)| a.matches(b, own, chosen))
                    && r.matches(s, own, chosen)
            }
            _ => self == other,
        }
    }
}

struct Generator<'a> {
    choices: &'a [u8],
    at: usize,
    names: u32,
    /// Opaque types so far.
    opaque: u32,
    /// How much has been written. Definitions multiply, so this is bounded.
    size: u32,
}

impl Generator<'_> {
    fn pick(&mut self, count: usize) -> usize {
        let choice = self.choices.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(choice) % count
    }

    fn chance(&mut self, of: usize) -> bool {
        self.pick(of) == of - 1
    }

    fn name(&mut self, letter: char) -> String {
        self.names += 1;
        format!("{letter}{}", self.names)
    }

    fn ty(&mut self, depth: u32) -> Ty {
        match self.pick(if depth == 0 { 4 } else { 8 }) {
            0 => Ty::Int,
            1 => Ty::Str,
            2 => Ty::Bool,
            3 => Ty::Float,
            4 => Ty::List(Box::new(self.ty(depth - 1))),
            5 => Ty::Map(Box::new(self.ty(depth - 1))),
            6 => Ty::Struct((0..=self.pick(2)).map(|_| self.ty(depth - 1)).collect()),
            _ => Ty::Func(
                (0..self.pick(3)).map(|_| self.ty(depth - 1)).collect(),
                Box::new(self.ty(depth - 1)),
            ),
        }
    }

    /// A type that there are values of here.
    fn ty_here(&mut self, scope: &Scope) -> Ty {
        match self.pick(8) {
            0 => self.ty(2),
            1 => self.ty(1),
            2 if !scope.funcs.is_empty() => {
                let func = &scope.funcs[self.pick(scope.funcs.len())];
                let chosen = func.own.iter().map(|number| (*number, Ty::Str)).collect();
                func.result.with(&chosen)
            }
            _ if !scope.vars.is_empty() => {
                // What was defined last is most interesting.
                let back = self.pick(scope.vars.len().min(12));
                scope.vars[scope.vars.len() - 1 - back].1.clone()
            }
            _ => self.ty(1),
        }
    }

    fn annotation(&mut self, ty: &Ty) -> String {
        if ty.is_opaque() || self.chance(2) { String::new() } else { format!(" {}", ty.text()) }
    }

    fn exprs(&mut self, scope: &Scope, types: &[Ty], fuel: u32) -> String {
        let texts: Vec<String> = types.iter().map(|ty| self.expr(scope, ty, fuel)).collect();
        texts.join(", ")
    }

    /// An expression of a type.
    fn expr(&mut self, scope: &Scope, ty: &Ty, fuel: u32) -> String {
        self.size += 1;
        let known: Vec<&String> =
            scope.vars.iter().filter(|(_, other)| other == ty).map(|(name, _)| name).collect();
        let must = matches!(ty, Ty::Opaque(_)) && fuel == 0;
        if !known.is_empty() && (must || !self.chance(3)) {
            let var = self.pick(known.len());
            return format!("${}", known[var]);
        }
        let Some(fuel) = fuel.checked_sub(1).filter(|_| self.size < 2000) else {
            return self.literal(scope, ty, 0);
        };
        match self.pick(14) {
            0..=3 => self.literal(scope, ty, fuel),
            4 => {
                let condition = self.expr(scope, &Ty::Bool, fuel);
                let (then, otherwise) = (self.expr(scope, ty, fuel), self.expr(scope, ty, fuel));
                format!("if {condition} {{ {then} }} else {{ {otherwise} }}")
            }
            5 => {
                let list = self.expr(scope, &Ty::List(Box::new(ty.clone())), fuel);
                let (index, other) = (self.pick(3), self.expr(scope, ty, fuel));
                format!("(({list})[{index}] <|> {other})")
            }
            6 => {
                let map = self.expr(scope, &Ty::Map(Box::new(ty.clone())), fuel);
                let other = self.expr(scope, ty, fuel);
                format!("(({map})[\"k1\"] <|> {other})")
            }
            7 => {
                let other = self.ty_here(scope);
                let fields = if self.chance(2) { vec![ty.clone(), other] } else { vec![other, ty.clone()] };
                let field = fields.iter().position(|field| field == ty).unwrap_or(0);
                let value = self.expr(scope, &Ty::Struct(fields), fuel);
                format!("({value})->f{field}")
            }
            8 => {
                // On the spot, so that the parameters need no types.
                let params: Vec<Ty> = (0..=self.pick(2)).map(|_| self.ty_here(scope)).collect();
                let lambda = self.lambda(scope, &params, ty, fuel, false);
                format!("{lambda}({})", self.exprs(scope, &params, fuel))
            }
            9 | 10 => match self.call_variable(scope, ty, fuel) {
                Some(call) => call,
                None => self.literal(scope, ty, fuel),
            },
            _ => match self.call(scope, ty, fuel) {
                Some(call) => call,
                None => self.literal(scope, ty, fuel),
            },
        }
    }

    fn call(&mut self, scope: &Scope, ty: &Ty, fuel: u32) -> Option<String> {
        let mut fitting: Vec<(&Func, Chosen)> = Vec::new();
        for func in &scope.funcs {
            let mut chosen = Chosen::new();
            if func.result.matches(ty, &func.own, &mut chosen) {
                fitting.push((func, chosen));
            }
        }
        if fitting.is_empty() {
            return None;
        }
        let (func, mut chosen) = fitting.swap_remove(self.pick(fitting.len()));
        let params = self.choose(scope, &func.params, &func.own, &mut chosen);
        Some(format!("{}({})", func.name, self.exprs(scope, &params, fuel)))
    }

    /// Types for what is still open in the parameters of a generic definition.
    fn choose(&mut self, scope: &Scope, params: &[Ty], own: &[u32], chosen: &mut Chosen) -> Vec<Ty> {
        for number in own {
            if !chosen.contains_key(number) {
                let ty = self.ty_here(scope);
                chosen.insert(*number, ty);
            }
        }
        params.iter().map(|param| param.with(chosen)).collect()
    }

    fn call_variable(&mut self, scope: &Scope, ty: &Ty, fuel: u32) -> Option<String> {
        let fitting: Vec<&(String, Ty)> = scope
            .vars
            .iter()
            .filter(|(_, var)| matches!(var, Ty::Func(_, result) if **result == *ty))
            .collect();
        if fitting.is_empty() {
            return None;
        }
        let (name, var) = fitting[self.pick(fitting.len())];
        let Ty::Func(params, _) = var else { return None };
        Some(format!("${name}({})", self.exprs(scope, params, fuel)))
    }

    /// A lambda; one that is not called on the spot says the types of its parameters.
    fn lambda(&mut self, scope: &Scope, params: &[Ty], result: &Ty, fuel: u32, declared: bool) -> String {
        let mut inner = scope.clone();
        let mut text = Vec::new();
        for param in params {
            let name = self.name('p');
            let annotation = match declared && !param.is_opaque() {
                true => format!(" {}", param.text()),
                false => self.annotation(param),
            };
            text.push(format!("${name}{annotation}"));
            inner.vars.push((name, param.clone()));
        }
        let returned = self.annotation(result);
        let body = self.expr(&inner, result, fuel);
        format!("func({}){returned} {{ {body} }}", text.join(", "))
    }

    fn literal(&mut self, scope: &Scope, ty: &Ty, fuel: u32) -> String {
        let rich = fuel > 0 && self.chance(2);
        match ty {
            Ty::Bool if rich => {
                let other = self.ty_here(scope);
                match self.pick(4) {
                    0 if !other.has_func() && !other.is_opaque() => {
                        let (a, b) = (self.expr(scope, &other, fuel - 1), self.expr(scope, &other, fuel - 1));
                        format!("(({a}) == ({b}))")
                    }
                    1 => format!("(not ({}))", self.expr(scope, &Ty::Bool, fuel - 1)),
                    2 => {
                        let list = self.expr(scope, &Ty::List(Box::new(Ty::Int)), fuel - 1);
                        format!("({} in ({list}))", self.pick(3))
                    }
                    _ => {
                        let (a, b) =
                            (self.expr(scope, &Ty::Int, fuel - 1), self.expr(scope, &Ty::Int, fuel - 1));
                        format!("(({a}) < ({b}))")
                    }
                }
            }
            Ty::Bool => if self.chance(2) { "true" } else { "false" }.into(),
            Ty::Int if rich => match self.pick(2) {
                0 => format!("(({}) + 1)", self.expr(scope, &Ty::Int, fuel - 1)),
                _ => {
                    let list = Ty::List(Box::new(self.ty(1)));
                    format!("len({})", self.expr(scope, &list, fuel - 1))
                }
            },
            Ty::Int => self.pick(4).to_string(),
            Ty::Float if rich => {
                let (a, b) = (self.expr(scope, &Ty::Int, fuel - 1), self.expr(scope, &Ty::Int, fuel - 1));
                format!("((({a}) / ({b})) <|> 0.5)")
            }
            Ty::Float => format!("{}.5", self.pick(4)),
            Ty::Str if rich => match self.pick(3) {
                0 => format!("(\"x\" + ({}))", self.expr(scope, &Ty::Str, fuel - 1)),
                1 => format!("fmt.printf(\"%d\", {})", self.expr(scope, &Ty::Int, fuel - 1)),
                _ => {
                    let texts = scope.vars.iter().filter(|(_, ty)| *ty == Ty::Str);
                    let texts: Vec<&String> = texts.map(|(name, _)| name).collect();
                    match texts.is_empty() {
                        true => "\"a b\"".into(),
                        false => format!("\"<${{{}}}>\"", texts[self.pick(texts.len())]),
                    }
                }
            },
            Ty::Str => format!("\"s{}\"", self.pick(4)),
            Ty::List(element) => {
                if rich && self.chance(3) && !element.has_func() {
                    let from = self.ty_here(scope);
                    let list = self.expr(scope, &Ty::List(Box::new(from.clone())), fuel - 1);
                    return format!(
                        "iter.map({list}, {})",
                        self.lambda(scope, &[from], element, fuel - 1, false)
                    );
                }
                if rich && self.chance(3) {
                    // What it is a list of must be learned from the other branch.
                    let (condition, other) = (self.pick(2) == 0, self.expr(scope, ty, fuel - 1));
                    return format!("(if {condition} {{ [] }} else {{ {other} }})");
                }
                let items: Vec<Ty> = (0..=self.pick(2)).map(|_| (**element).clone()).collect();
                format!("[{}]", self.exprs(scope, &items, fuel.saturating_sub(1)))
            }
            Ty::Map(value) => {
                let entries: Vec<String> = (0..=self.pick(2))
                    .map(|index| {
                        format!("\"k{index}\" => {}", self.expr(scope, value, fuel.saturating_sub(1)))
                    })
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            Ty::Struct(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .enumerate()
                    .map(|(index, ty)| {
                        format!("f{index} => {}", self.expr(scope, ty, fuel.saturating_sub(1)))
                    })
                    .collect();
                format!("struct{{{}}}", fields.join(", "))
            }
            Ty::Func(params, result) => self.lambda(scope, params, result, fuel.saturating_sub(1), true),
            Ty::Opaque(_) => {
                // A definition has a variable of each of its opaque types.
                let var = scope.vars.iter().find(|(_, other)| other == ty);
                format!("${}", var.map_or("missing", |(name, _)| name))
            }
        }
    }

    fn indented(text: &mut String, depth: u32, line: &str) {
        let _ = writeln!(text, "{}{line}", "\t".repeat(depth as usize));
    }

    fn block(&mut self, scope: &mut Scope, text: &mut String, depth: u32) {
        for _ in 0..self.pick(if depth == 0 { 16 } else { 5 }) + 1 {
            if self.at < self.choices.len() {
                self.statement(scope, text, depth);
            }
        }
    }

    fn statement(&mut self, scope: &mut Scope, text: &mut String, depth: u32) {
        match self.pick(if depth < 3 { 14 } else { 11 }) {
            0..=2 => self.expectation(scope, text, depth),
            3 => self.resource(scope, text, depth),
            4..=7 => self.definition(scope, text, depth),
            8..=10 => self.include(scope, text, depth),
            11 => {
                let condition = self.expr(scope, &Ty::Bool, 2);
                Self::indented(text, depth, &format!("if {condition} {{"));
                self.block(&mut scope.clone(), text, depth + 1);
                Self::indented(text, depth, "} else {");
                self.block(&mut scope.clone(), text, depth + 1);
                Self::indented(text, depth, "}");
            }
            12 => {
                let (index, value, ty) = (self.name('i'), self.name('v'), self.ty_here(scope));
                let over = self.expr(scope, &Ty::List(Box::new(ty.clone())), 2);
                Self::indented(text, depth, &format!("for ${index}, ${value} in {over} {{"));
                let mut inner = scope.clone();
                inner.vars.extend([(index, Ty::Int), (value, ty)]);
                self.block(&mut inner, text, depth + 1);
                Self::indented(text, depth, "}");
            }
            _ => {
                let (key, value, ty) = (self.name('k'), self.name('v'), self.ty_here(scope));
                let over = self.expr(scope, &Ty::Map(Box::new(ty.clone())), 2);
                Self::indented(text, depth, &format!("forkv ${key}, ${value} in {over} {{"));
                let mut inner = scope.clone();
                inner.vars.extend([(key, Ty::Str), (value, ty)]);
                self.block(&mut inner, text, depth + 1);
                Self::indented(text, depth, "}");
            }
        }
    }

    /// A statement that panics if a value has not the type that it was made for.
    fn expectation(&mut self, scope: &Scope, text: &mut String, depth: u32) {
        let ty = self.ty_here(scope);
        let value = self.expr(scope, &ty, 3);
        if ty.is_opaque() || ty.has_func() {
            return;
        }
        let line = format!("panic(not (fmt.printf(\"%T\", {value}) == \"{}\"), \"another type\")", ty.text());
        Self::indented(text, depth, &line);
    }

    fn resource(&mut self, scope: &Scope, text: &mut String, depth: u32) {
        let name = self.expr(scope, &Ty::Str, 1);
        let ty = self.ty_here(scope);
        let mut fields = format!("int64 => {}, ", self.expr(scope, &Ty::Int, 2));
        if !ty.is_opaque() && !ty.has_func() {
            let _ = write!(fields, "interface => {}, ", self.expr(scope, &ty, 2));
        }
        if self.chance(3) {
            let condition = self.expr(scope, &Ty::Bool, 2);
            let _ = write!(fields, "anotherstr => {condition} ?: {}, ", self.expr(scope, &Ty::Str, 2));
        }
        Self::indented(text, depth, &format!("test [{name}] {{ {fields} }}"));
    }

    fn definition(&mut self, scope: &mut Scope, text: &mut String, depth: u32) {
        match self.pick(3) {
            0 => {
                let (name, ty) = (self.name('x'), self.ty_here(scope));
                if let (Ty::List(_), true) = (&ty, !ty.is_opaque() && self.chance(4)) {
                    Self::indented(text, depth, &format!("${name} {} = []", ty.text()));
                } else {
                    let value = self.expr(scope, &ty, 3);
                    Self::indented(text, depth, &format!("${name}{} = {value}", self.annotation(&ty)));
                }
                scope.vars.push((name, ty));
            }
            1 => {
                let (name, (params, own)) = (self.name('f'), self.params(scope));
                let mut inner = scope.clone();
                inner.vars.extend(params.iter().cloned());
                let result = match self.chance(2) {
                    true if !params.is_empty() => params[self.pick(params.len())].1.clone(),
                    _ => self.ty_here(&inner),
                };
                let written: Vec<String> =
                    params.iter().map(|(name, ty)| format!("${name}{}", self.annotation(ty))).collect();
                let returned = self.annotation(&result);
                let body = self.expr(&inner, &result, 3);
                let line = format!("func {name}({}){returned} {{ {body} }}", written.join(", "));
                Self::indented(text, depth, &line);
                let params = params.into_iter().map(|(_, ty)| ty).collect();
                scope.funcs.push(Func { name, own, params, result });
            }
            _ if depth < 3 => {
                let (name, (params, own)) = (self.name('c'), self.params(scope));
                let written: Vec<String> =
                    params.iter().map(|(name, ty)| format!("${name}{}", self.annotation(ty))).collect();
                Self::indented(text, depth, &format!("class {name}({}) {{", written.join(", ")));
                let mut inner = scope.clone();
                inner.vars.extend(params.iter().cloned());
                let before = (inner.vars.len(), inner.funcs.len(), inner.classes.len());
                self.block(&mut inner, text, depth + 1);
                Self::indented(text, depth, "}");
                let exports = inner.vars.split_off(before.0);
                let exports = params.iter().cloned().chain(exports).collect();
                let (funcs, classes) = (inner.funcs.split_off(before.1), inner.classes.split_off(before.2));
                let params = params.into_iter().map(|(_, ty)| ty).collect();
                scope.classes.push(Class { name, own, params, exports, funcs, classes });
            }
            _ => {}
        }
    }

    /// Parameters: of any type, or of a type that each use chooses.
    fn params(&mut self, scope: &Scope) -> (Vec<(String, Ty)>, Vec<u32>) {
        let (mut params, mut own) = (Vec::new(), Vec::new());
        for _ in 0..self.pick(3) {
            let ty = match self.chance(2) {
                true => {
                    self.opaque += 1;
                    own.push(self.opaque);
                    Ty::Opaque(self.opaque)
                }
                false => self.ty_here(scope),
            };
            params.push((self.name('p'), ty.clone()));
            // What is made of an opaque type.
            if let (Ty::Opaque(_), true) = (&ty, self.chance(3)) {
                params.push((self.name('p'), Ty::List(Box::new(ty))));
            }
        }
        (params, own)
    }

    fn include(&mut self, scope: &mut Scope, text: &mut String, depth: u32) {
        if scope.classes.is_empty() || self.size > 2000 {
            return;
        }
        let back = self.pick(scope.classes.len().min(4));
        let class = scope.classes[scope.classes.len() - 1 - back].clone();
        let mut chosen = Chosen::new();
        let params = self.choose(scope, &class.params, &class.own, &mut chosen);
        let args = self.exprs(scope, &params, 2);
        if self.chance(2) {
            Self::indented(text, depth, &format!("include {}({args})", class.name));
            return;
        }
        let alias = self.name('a');
        Self::indented(text, depth, &format!("include {}({args}) as {alias}", class.name));
        let behind = |name: &str| format!("{alias}.{name}");
        let exports = class.exports.iter().map(|(name, ty)| (behind(name), ty.with(&chosen)));
        scope.vars.extend(exports);
        scope.funcs.extend(class.funcs.iter().map(|func| func.with(&chosen, behind(&func.name))));
        scope.classes.extend(class.classes.iter().map(|class| class.with(&chosen, behind(&class.name))));
    }
}

impl Func {
    fn with(&self, chosen: &Chosen, name: String) -> Func {
        Func {
            name,
            own: self.own.clone(),
            params: self.params.iter().map(|ty| ty.with(chosen)).collect(),
            result: self.result.with(chosen),
        }
    }
}

impl Class {
    fn with(&self, chosen: &Chosen, name: String) -> Class {
        Class {
            name,
            own: self.own.clone(),
            params: self.params.iter().map(|ty| ty.with(chosen)).collect(),
            exports: self.exports.iter().map(|(name, ty)| (name.clone(), ty.with(chosen))).collect(),
            funcs: self.funcs.iter().map(|func| func.with(chosen, func.name.clone())).collect(),
            classes: self.classes.iter().map(|class| class.with(chosen, class.name.clone())).collect(),
        }
    }
}
