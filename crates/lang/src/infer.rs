//! Types of everything.
//!
//! Definitions are looked at one after the other, dependencies first, so that a chain of them costs no stack. Within a
//! definition types are found by unification. Functions, classes and modules are generic: what remains unknown in them
//! is theirs, and every call, include and import gets a copy. Binds are not: a variable has one type for all that read
//! it.
//!
//! Some questions cannot be answered when they come up: what `$a[$b]` is, before it is known whether `$a` is a list. Such a
//! [goal](goal) waits for a type, and is part of what a generic definition hands to its users.
//!
//! What a class or a module defines only for those who use it by name is looked at in a [context](context) of its own.
//!
//! What the program never uses is looked at last. What is wrong there is worth a warning: it does no harm, and nothing
//! learned there changes what was found before.

mod context;
mod expr;
mod goal;
mod mismatch;
mod resource;
mod sent;

use mgmt_diagnostics::{Diagnostic, Severity, Span};
use mgmt_resource::Registry;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::codes::Code;

use crate::diagnostic::Report;
use crate::hir::*;
use crate::order::{Dependencies, Node};
use crate::scope::{Imported, Scopes};
use crate::types::{Context, Ty, Types};
use context::Contexts;
use goal::{Goals, Owner};
use mismatch::Why;

/// What was found out about the types of a program.
#[derive(Debug)]
pub(crate) struct Typed {
    pub(crate) types: Types,
    /// Of each expression.
    pub(crate) exprs: Vec<Option<Ty>>,
    /// Of each variable, as it is inside of its definition.
    pub(crate) vars: Vec<Option<Ty>>,
    /// What calls have in the place of what is generic in a function whose values depend on types.
    pub(crate) calls: FxHashMap<ExprId, FxHashMap<Ty, Ty>>,
    /// The same for includes.
    pub(crate) includes: FxHashMap<StmtId, FxHashMap<Ty, Ty>>,
}

/// Finds the types of a program.
pub(crate) fn infer(
    hir: &mut Hir,
    scopes: &Scopes,
    dependencies: &Dependencies,
    kinds: &Registry,
    report: &mut Report,
) -> Typed {
    let names = std::mem::take(&mut hir.names);
    let mut checker = Checker {
        hir,
        names,
        scopes,
        dependencies,
        kinds,
        report,
        types: Types::new(),
        exprs: vec![None; hir.exprs.len()],
        vars: vec![None; hir.vars.len()],
        funcs: FxHashMap::default(),
        func_blocks: FxHashMap::default(),
        levels: vec![None; hir.blocks.len()],
        instances: FxHashMap::default(),
        goals: Goals::default(),
        contexts: Contexts::default(),
        calls: FxHashMap::default(),
        typed: FxHashSet::default(),
        open: FxHashMap::default(),
        level: 1,
        owner: Owner::Program,
        unused: false,
        field_types: FxHashMap::default(),
        forwarded: sent::Forwarded::default(),
    };
    checker.program();
    let Checker { names, types, exprs, vars, calls, instances, .. } = checker;
    hir.names = names;
    let includes = instances.into_iter().map(|(stmt, instance)| (stmt, instance.copies)).collect();
    Typed { types, exprs, vars, calls, includes }
}

struct Checker<'a> {
    hir: &'a Hir,
    names: Names,
    scopes: &'a Scopes,
    dependencies: &'a Dependencies,
    kinds: &'a Registry,
    report: &'a mut Report,
    types: Types,
    exprs: Vec<Option<Ty>>,
    vars: Vec<Option<Ty>>,
    /// Functions of the program that have been looked at.
    funcs: FxHashMap<FuncId, Scheme>,
    func_blocks: FxHashMap<FuncId, BlockId>,
    levels: Vec<Option<u32>>,
    /// What imports and includes have copies of.
    instances: FxHashMap<StmtId, Instance>,
    goals: Goals,
    contexts: Contexts,
    calls: FxHashMap<ExprId, FxHashMap<Ty, Ty>>,
    /// Definitions whose values depend on types that are generic in them.
    typed: FxHashSet<Owner>,
    /// Types that must be known in the end, and what they belong to.
    open: FxHashMap<Owner, Vec<Open>>,
    /// How many generic definitions are around what is being looked at.
    level: u32,
    /// The innermost of them.
    owner: Owner,
    /// What is being looked at is not used.
    unused: bool,
    field_types: FxHashMap<*const mgmt_resource::FieldSpec, Ty>,
    forwarded: sent::Forwarded,
}

/// The type of a generic function.
#[derive(Clone, Copy, Debug)]
struct Scheme {
    ty: Ty,
    /// Variables of deeper levels are its own.
    level: u32,
}

/// A copy of what a class or a module defines.
#[derive(Debug)]
struct Instance {
    /// Variables of deeper levels are copied.
    threshold: u32,
    /// The level of the copies.
    level: u32,
    /// What the copies belong to.
    context: Context,
    copies: FxHashMap<Ty, Ty>,
    /// How the class was reached: what is around it is a copy too.
    via: SmallVec<[StmtId; 1]>,
    /// The class.
    class: Option<ClassId>,
}

/// A type that must be known in the end.
#[derive(Clone, Copy, Debug)]
struct Open {
    ty: Ty,
    span: Span,
    what: What,
    unused: bool,
}

/// What a type that must be known belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    EmptyList,
    EmptyMap,
    Parameter(VarId),
    Result,
    Lookup,
}

impl Checker<'_> {
    fn program(&mut self) {
        let hir = self.hir;
        for stmt in &hir.stmts {
            if let StmtKind::Func(func) = stmt.kind {
                self.func_blocks.insert(func, stmt.block);
            }
        }
        self.find_cores();
        let dependencies = self.dependencies;
        for unused in [false, true] {
            self.unused = unused;
            if unused {
                // What nobody uses decides nothing about what is used.
                self.types.freeze();
            }
            for &node in dependencies.sorted() {
                if dependencies.is_used(node) != unused && !dependencies.is_circular(node) {
                    self.reach(node);
                }
            }
            self.finish();
        }
        self.check_forwarded();
    }

    fn node(&mut self, node: Node) {
        let hir = self.hir;
        self.types.context = self.context(node);
        match node {
            Node::Main => {
                if let Some(module) = hir.modules.first() {
                    self.enter(module.block, Owner::Program);
                    self.block(module.block);
                }
            }
            Node::Module(_) => {}
            Node::Var(var) => {
                if let VarOrigin::Bind(stmt, value) = hir[var].origin {
                    self.enter_node(node, hir[stmt].block);
                    self.bind(var, value);
                }
            }
            Node::Func(func) => {
                let Some(&block) = self.func_blocks.get(&func) else { return };
                self.enter_node(node, block);
                let (level, owner) = (self.level, self.owner);
                self.level += 1;
                self.owner = Owner::Func(func);
                let ty = self.func(func);
                self.settle();
                self.level = level;
                self.generalize(Owner::Func(func), owner, level, &[ty]);
                self.owner = owner;
                self.funcs.insert(func, Scheme { ty, level });
            }
            Node::Class(class) => {
                let outer = hir[hir[class].stmt].block;
                self.enter_node(node, outer);
                let (level, owner) = (self.level, self.owner);
                self.enter(hir[class].body, Owner::Class(class));
                self.block(hir[class].body);
                self.settle();
                let params: Vec<Ty> = hir[class].params.iter().map(|&var| self.var(var)).collect();
                self.generalize(Owner::Class(class), owner, level, &params);
            }
            Node::Include(stmt) => {
                self.enter_node(node, hir[stmt].block);
                self.include(stmt);
            }
            Node::Loop(stmt) => {
                self.enter_node(node, hir[stmt].block);
                self.repeat(stmt);
            }
        }
        self.settle();
        if let Some(context) = self.root(node) {
            self.close(context);
        }
        self.types.context = Context::PROGRAM;
    }

    fn enter(&mut self, block: BlockId, owner: Owner) {
        self.level = self.block_level(block);
        self.owner = owner;
    }

    /// Looks at a definition in a block.
    fn enter_node(&mut self, node: Node, block: BlockId) {
        let owner = match self.root(node) {
            Some(context) => Owner::Definition(context),
            None => self.class_around(block).map_or(Owner::Program, Owner::Class),
        };
        self.enter(block, owner);
    }

    fn class_around(&self, mut block: BlockId) -> Option<ClassId> {
        loop {
            match self.hir[block].parent {
                Parent::Module(_) => return None,
                Parent::Class(class, _) => return Some(class),
                Parent::Block(outer) | Parent::Loop(_, outer) => block = outer,
            }
        }
    }

    /// How many generic definitions are around the statements of a block.
    fn block_level(&mut self, block: BlockId) -> u32 {
        let mut at = block;
        let mut way: SmallVec<[(BlockId, u32); 8]> = SmallVec::new();
        let mut level = loop {
            if let Some(level) = self.levels[at.index()] {
                break level;
            }
            let (step, outer) = match self.hir[at].parent {
                Parent::Module(_) => {
                    self.levels[at.index()] = Some(1);
                    break 1;
                }
                Parent::Class(_, outer) => (1, outer),
                Parent::Block(outer) | Parent::Loop(_, outer) => (0, outer),
            };
            way.push((at, step));
            at = outer;
        };
        for (block, step) in way.into_iter().rev() {
            level += step;
            self.levels[block.index()] = Some(level);
        }
        level
    }

    fn report(&mut self, mut diagnostic: Diagnostic) {
        if self.unused {
            if diagnostic.is_error() {
                diagnostic.hints.push(crate::scope::UNUSED.to_owned());
            }
            diagnostic.severity = Severity::Warning;
        }
        self.report.add(diagnostic);
    }

    fn fresh(&mut self) -> Ty {
        self.types.fresh(self.level)
    }

    /// A copy of a generic type with others in it can be deeper than any of them, and copies of copies soon deeper than
    /// anything: that gives an error, long before it is a problem.
    fn bounded(&mut self, ty: Ty, span: Span) -> Ty {
        const DEEPEST: u32 = 500;
        const LARGEST: usize = 10_000;
        if !self.types.is_beyond(ty, DEEPEST, LARGEST) {
            return ty;
        }
        let message = "the type of this is too large";
        self.report(Code::TypeTooLarge.at(span, message));
        Types::ERROR
    }

    fn text(&self, ty: Ty) -> String {
        self.types.text(&self.names, ty)
    }

    fn must_be_known(&mut self, ty: Ty, span: Span, what: What) {
        self.open.entry(self.owner).or_default().push(Open { ty, span, what, unused: self.unused });
    }

    /// A type that stands in the text.
    fn declared(&mut self, declared: &Declared) -> Ty {
        let level = self.level;
        self.types.of(&mut self.names, &declared.ty, &mut |types, _| types.fresh(level))
    }

    /// The type of a variable, as it is inside of its definition.
    fn var(&mut self, var: VarId) -> Ty {
        if let Some(ty) = self.vars[var.index()] {
            return ty;
        }
        let hir = self.hir;
        let ty = match (hir[var].origin, &hir[var].declared) {
            (VarOrigin::ClassParam(class), declared) => {
                let (level, context) = (self.block_level(hir[class].body), self.context(Node::Class(class)));
                match declared {
                    Some(declared) => self
                        .types
                        .of(&mut self.names, &declared.ty, &mut |types, _| types.fresh_in(level, context)),
                    None => self.types.fresh_in(level, context),
                }
            }
            (VarOrigin::Param(_), Some(declared)) => self.declared(declared),
            (VarOrigin::Param(_), None) => self.fresh(),
            // It is part of a circle, or what it comes from is missing.
            (VarOrigin::Bind(..) | VarOrigin::LoopKey(_) | VarOrigin::LoopValue(_), _) => Types::ERROR,
        };
        self.vars[var.index()] = Some(ty);
        ty
    }

    fn bind(&mut self, var: VarId, value: ExprId) {
        let hir = self.hir;
        let ty = match &hir[var].declared {
            // Anything goes.
            Some(declared) if declared.ty == mgmt_value::Type::Variant => self.expr(value),
            Some(declared) => {
                let ty = self.declared(declared);
                if self.literal_was_refused(value, declared) {
                    self.expr(value);
                } else {
                    self.check(value, ty, Why::Declared(declared.span));
                }
                ty
            }
            None => self.expr(value),
        };
        self.vars[var.index()] = Some(ty);
    }

    /// A literal of another type than the declared one has been reported.
    fn literal_was_refused(&self, value: ExprId, declared: &Declared) -> bool {
        use mgmt_value::Type;
        match &self.hir[value].kind {
            ExprKind::Bool(_) => declared.ty != Type::Bool,
            ExprKind::Int(_) => declared.ty != Type::Int,
            ExprKind::Float(_) => declared.ty != Type::Float,
            ExprKind::Str(_) | ExprKind::Interpolation(_) => declared.ty != Type::Str,
            ExprKind::Map(_) => !matches!(declared.ty, Type::Map(_)),
            _ => false,
        }
    }

    /// A function with its own parameters: not yet generic.
    fn func(&mut self, func: FuncId) -> Ty {
        let hir = self.hir;
        let mut params = Vec::with_capacity(hir[func].params.len());
        for &param in &hir[func].params {
            let ty = self.var(param);
            if hir[param].declared.is_none() {
                self.must_be_known(ty, hir[param].span, What::Parameter(param));
            }
            params.push(ty);
        }
        let body = hir[func].body;
        let result = match &hir[func].result {
            Some(declared) => {
                let ty = self.declared(declared);
                self.check(body, ty, Why::Result(declared.span));
                ty
            }
            None => self.expr(body),
        };
        self.types.add(crate::types::Shape::Func(params.into(), result))
    }

    /// Splits what waits and what must be known between a generic definition and what is around it.
    fn generalize(&mut self, own: Owner, outer: Owner, level: u32, interface: &[Ty]) {
        self.goals.generalize(&mut self.types, own, outer, level);
        let Some(open) = self.open.remove(&own) else { return };
        let mut reachable: FxHashSet<Ty> = FxHashSet::default();
        for &ty in interface {
            reachable.extend(self.types.unknowns(ty));
        }
        // What a question waits for decides about what comes out of it.
        let mut goals = self.goals.of(own);
        loop {
            let before = goals.len();
            goals.retain(|goal| {
                if !self.types.unknowns(goal.ty).iter().all(|var| reachable.contains(var)) {
                    return true;
                }
                goal.results(|ty| reachable.extend(self.types.unknowns(ty)));
                false
            });
            if goals.len() == before {
                break;
            }
        }
        let (mut lost, mut kept, mut around) = (Vec::new(), Vec::new(), Vec::new());
        for open in open {
            let types = &self.types;
            let unknowns = types.unknowns(open.ty);
            // Whoever uses the definition decides, and is asked about it.
            if unknowns.iter().all(|var| types.level(*var) > level && reachable.contains(var)) {
                continue;
            }
            if unknowns.iter().any(|var| types.level(*var) <= level) {
                around.push(open);
            } else if let Owner::Class(_) = own {
                // What a class defines can be seen behind an alias, and become known there.
                kept.push(open);
            } else {
                lost.push(open);
            }
        }
        if !kept.is_empty() {
            self.open.insert(own, kept);
        }
        if !around.is_empty() {
            self.open.entry(outer).or_default().extend(around);
        }
        for open in lost {
            self.ambiguous(open);
        }
    }

    fn block(&mut self, block: BlockId) {
        let hir = self.hir;
        for &stmt in &hir[block].stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: StmtId) {
        let hir = self.hir;
        match &hir[stmt].kind {
            // Definitions are looked at by themselves.
            StmtKind::Bind(..) | StmtKind::Func(_) | StmtKind::Class(_) | StmtKind::Import { .. } => {}
            StmtKind::Include { alias: Some(_), .. } => {}
            StmtKind::Include { alias: None, .. } => self.include(stmt),
            StmtKind::If { condition, then, otherwise } => {
                self.check(*condition, Types::BOOL, Why::Condition);
                self.block(*then);
                if let Some(otherwise) = otherwise {
                    self.block(*otherwise);
                }
            }
            StmtKind::Loop { body, .. } => self.block(*body),
            StmtKind::Panic(args) => self.panic(stmt, args),
            StmtKind::Edge(halves) => self.edge(stmt, halves),
            StmtKind::Resource(resource) => self.resource(stmt, resource),
        }
    }

    fn repeat(&mut self, stmt: StmtId) {
        let StmtKind::Loop { over_map, key, value, over, .. } = self.hir[stmt].kind else { return };
        if over_map {
            let (first, second) = (self.fresh(), self.fresh());
            let ty = self.types.add(crate::types::Shape::Map(first, second));
            self.check(over, ty, Why::OverMap);
            (self.vars[key.index()], self.vars[value.index()]) = (Some(first), Some(second));
        } else {
            let element = self.fresh();
            let ty = self.types.list(element);
            // Who meant another loop meant another first variable too.
            let key_ty = if self.check(over, ty, Why::OverList) { Types::INT } else { Types::ERROR };
            (self.vars[key.index()], self.vars[value.index()]) = (Some(key_ty), Some(element));
        }
    }

    fn panic(&mut self, stmt: StmtId, args: &[ExprId]) {
        match args {
            [one] => {
                let ty = self.expr(*one);
                self.limit(ty, self.hir[*one].span, goal::Limited::Panic);
            }
            [condition, message] => {
                let (first, second) = (self.expr(*condition), self.expr(*message));
                let swapped = self.types.find(first) == Types::STR && self.types.find(second) == Types::BOOL;
                if swapped {
                    let span = self.hir[*condition].span.to(self.hir[*message].span);
                    self.report(
                        Code::Mismatch
                            .at(span, "`panic` takes the condition first, and then the text")
                            .here("this is `str` and `bool`")
                            .hint("write `panic($condition, \"why\")`"),
                    );
                } else {
                    self.hold(*condition, first, Types::BOOL, Why::PanicCondition);
                    self.hold(*message, second, Types::STR, Why::PanicMessage);
                }
            }
            _ => {
                self.untyped_arguments(args);
                let message = format!("`panic` takes one or two arguments, and is given {}", args.len());
                self.report(
                    Code::ArgumentCount
                        .at(self.hir[stmt].span, message)
                        .hint("write `panic(\"why\")`, `panic($condition)` or `panic($condition, \"why\")`"),
                );
            }
        }
    }

    fn include(&mut self, stmt: StmtId) {
        let hir = self.hir;
        let StmtKind::Include { args, .. } = &hir[stmt].kind else { return };
        let reference = self.scopes.of_include(stmt);
        let class = match reference.map(|reference| reference.target) {
            Some(target @ crate::scope::Target::Class(class))
                if !self.dependencies.is_circular(Node::Class(class)) && !self.scopes.is_doubtful(target) =>
            {
                class
            }
            _ => {
                self.untyped_arguments(args);
                return;
            }
        };
        let outer = hir[hir[class].stmt].block;
        let threshold = self.block_level(outer);
        let via = reference.map(|reference| reference.via.clone()).unwrap_or_default();
        let (level, context) = (self.level, self.types.context);
        let copies = FxHashMap::default();
        self.instances.insert(stmt, Instance { threshold, level, context, copies, via, class: Some(class) });
        let span = hir[stmt].span;
        self.pull(Node::Class(class), &[stmt], span);
        for (&arg, &param) in args.iter().zip(&hir[class].params) {
            let ty = self.var(param);
            let ty = self.seen(ty, &[stmt]);
            self.check(arg, ty, Why::ClassParam(param));
        }
        self.untyped_arguments(args.get(hir[class].params.len()..).unwrap_or_default());
        for goal in self.goals.of(Owner::Class(class)) {
            let goal = goal.copied(self, span, &mut |this, ty| this.seen(ty, &[stmt]));
            self.pose(goal);
        }
    }

    /// The copy that an import or an include has of a type.
    fn copy(&mut self, ty: Ty, stmt: StmtId) -> Ty {
        if !self.types.is_open(ty) {
            return ty;
        }
        if !self.instances.contains_key(&stmt) {
            let block = self.hir[stmt].block;
            let (level, context) = (self.block_level(block), self.context_of_block(block));
            match self.scopes.imports.get(&stmt) {
                Some(Imported::Module(_)) => {
                    let (copies, via) = (FxHashMap::default(), SmallVec::new());
                    let instance = Instance { threshold: 0, level, context, copies, via, class: None };
                    self.instances.insert(stmt, instance);
                }
                _ => return Types::ERROR,
            }
        }
        let unknowns = self.types.unknowns(ty);
        let mut replaced: FxHashMap<Ty, Ty> = FxHashMap::default();
        for var in unknowns {
            let Some(instance) = self.instances.get_mut(&stmt) else { break };
            let (depth, owner) = (self.types.level(var), self.types.context_of(var));
            // What a definition in the class has seen of what is around the class is its own.
            let of_definition = instance.class.is_some_and(|class| self.contexts.is_inside(owner, class));
            if depth > instance.threshold || (of_definition && depth > self.contexts.base(owner)) {
                let level =
                    if depth > instance.threshold { instance.level } else { instance.level.min(depth) };
                let (types, context) = (&mut self.types, instance.context);
                let copy = *instance.copies.entry(var).or_insert_with(|| types.fresh_in(level, context));
                replaced.insert(var, copy);
            } else if !instance.via.is_empty() {
                let via = instance.via.clone();
                let copy = self.through(var, &via);
                replaced.insert(var, copy);
            }
        }
        self.types.replace(ty, &mut |_, var| replaced.get(&var).copied().unwrap_or(var))
    }

    /// A type as it is seen through imports and includes.
    fn through(&mut self, ty: Ty, via: &[StmtId]) -> Ty {
        via.iter().rev().fold(ty, |ty, &stmt| self.copy(ty, stmt))
    }

    /// Decides what is left to decide, and reports what cannot be known.
    fn finish(&mut self) {
        self.owner = Owner::Program;
        self.default_goals();
        let open = std::mem::take(&mut self.open);
        let mut kept: FxHashMap<ClassId, Vec<Open>> = FxHashMap::default();
        for (owner, open) in open {
            match owner {
                Owner::Program => open.into_iter().for_each(|open| self.ambiguous(open)),
                Owner::Class(class) => {
                    kept.insert(class, open);
                }
                // Nobody reads it.
                Owner::Func(_) | Owner::Definition(_) => {}
            }
        }
        if kept.is_empty() {
            return;
        }
        let includes: Vec<(StmtId, ClassId)> =
            self.instances.iter().filter_map(|(&stmt, instance)| Some((stmt, instance.class?))).collect();
        for (stmt, class) in includes {
            for open in kept.get(&class).cloned().unwrap_or_default() {
                let ty = self.copy(open.ty, stmt);
                self.ambiguous(Open { ty, ..open });
            }
        }
    }

    fn ambiguous(&mut self, open: Open) {
        if open.unused || !self.types.is_open(open.ty) {
            return;
        }
        let ty = self.text(open.ty);
        let (message, hint) = match open.what {
            What::EmptyList => (
                "the type of the elements of this list is not known".to_owned(),
                "declare a type where it is bound, for example `$x []str = []`".to_owned(),
            ),
            What::EmptyMap => (
                "the types of the keys and values of this map are not known".to_owned(),
                "declare a type where it is bound, for example `$x map{str: int} = {}`".to_owned(),
            ),
            What::Parameter(var) => {
                let name = self.names.text(self.hir[var].name);
                (
                    format!("the type of the parameter `${name}` is not known"),
                    format!("declare it, for example `${name} str`"),
                )
            }
            What::Result => (
                match ty.as_str() {
                    "_" => "the type of this is not known".to_owned(),
                    ty => format!("the type of this is only known in part: it is `{ty}`"),
                },
                "bind it to a variable with a declared type, for example `$x int = ...`".to_owned(),
            ),
            What::Lookup => (
                "it is not known whether this looks into a list or into a map".to_owned(),
                "declare the type of what stands before the brackets".to_owned(),
            ),
        };
        let unused = std::mem::replace(&mut self.unused, open.unused);
        self.report(Code::Ambiguous.at(open.span, message).hint(hint));
        self.unused = unused;
        // What depends on it is not known for the same reason.
        self.types.give_up(open.ty, open.span);
    }
}
