//! What names mean, and in which order definitions can be looked at.
//!
//! Every block is a scope; names are defined in any order. A reference is resolved to a [`Reference`]: what is meant,
//! and through which imports and includes it was reached. On the way the graph of definitions is built: what needs
//! what. A circle in it is an error; without one it gives the order in which types are found, and what is never used.
//!
//! Dots lead through aliases. Behind the alias of an import is the scope of the module; behind that of an include is
//! everything that the class can see where its body ends: what it defines, its parameters, and what is around its
//! definition.

mod unknown;

use mgmt_diagnostics::{Diagnostic, Severity, Span};
use mgmt_funcs::{Constant, Function, Library};
use mgmt_resource::did_you_mean;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::codes::Code;

use crate::diagnostic::Report;
use crate::hir::*;
use crate::order::{Dependencies, Node};

/// What all names of a program mean.
#[derive(Debug, Default)]
pub struct Scopes {
    /// What each block defines.
    pub(crate) blocks: Vec<Scope>,
    references: Vec<Reference>,
    by_expr: Vec<u32>,
    by_stmt: FxHashMap<StmtId, u32>,
    /// What each import leads to.
    pub(crate) imports: FxHashMap<StmtId, Imported>,
    /// What the library adds to modules that have its names.
    pub(crate) natives: FxHashMap<ModuleId, &'static mgmt_funcs::Module>,
    /// What is defined twice: it is not known which one is meant.
    doubtful: FxHashSet<Definition>,
}

/// What a block defines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    names: FxHashMap<(Space, Name), Definition>,
    /// Imports without a prefix; the last wins.
    stars: Vec<StmtId>,
}

/// A name can be a variable, a function, a class and an alias at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Variable,
    Function,
    Class,
    Alias,
}

/// What a name was defined as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Definition {
    Variable(VarId),
    Function(FuncId),
    Class(ClassId),
    /// An import or an include.
    Alias(StmtId),
}

/// What an import leads to.
#[derive(Clone, Copy, Debug)]
pub enum Imported {
    /// Another file.
    Module(ModuleId),
    /// A module of the library.
    Library(&'static mgmt_funcs::Module),
    /// Nothing; that has been reported.
    Failed,
}

/// What is known of imports before names mean something.
pub(crate) struct Imports<'a> {
    /// What each leads to.
    pub(crate) targets: FxHashMap<StmtId, Imported>,
    /// What the library adds to modules that have its names.
    pub(crate) natives: FxHashMap<ModuleId, &'static mgmt_funcs::Module>,
    /// The names under which those are known that have none of their own.
    pub(crate) aliases: &'a FxHashMap<StmtId, Name>,
}

/// What a name stands for, and how it was reached.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The imports and includes behind whose aliases it stands, the outermost first.
    pub via: SmallVec<[StmtId; 1]>,
    /// What is meant.
    pub target: Target,
}

/// What a name stands for.
#[derive(Clone, Copy)]
pub enum Target {
    /// A variable.
    Var(VarId),
    /// A function of the program.
    Func(FuncId),
    /// A function of the library.
    Library(&'static Function),
    /// A constant of the library.
    Constant(&'static Constant),
    /// `$hostname`
    Hostname,
    /// A class.
    Class(ClassId),
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Var(var) => write!(f, "{var:?}"),
            Target::Func(func) => write!(f, "{func:?}"),
            Target::Library(function) => write!(f, "{}", function.full_name()),
            Target::Constant(constant) => write!(f, "${}", constant.name),
            Target::Hostname => f.write_str("$hostname"),
            Target::Class(class) => write!(f, "{class:?}"),
        }
    }
}

impl Scopes {
    /// What a variable or the function of a call means, if it means something.
    pub fn of_expr(&self, expr: ExprId) -> Option<&Reference> {
        self.references.get(*self.by_expr.get(expr.index())? as usize)
    }

    /// It is not known what is meant: there are two definitions of it.
    pub(crate) fn is_doubtful(&self, target: Target) -> bool {
        let definition = match target {
            Target::Var(var) => Definition::Variable(var),
            Target::Func(func) => Definition::Function(func),
            Target::Class(class) => Definition::Class(class),
            Target::Library(_) | Target::Constant(_) | Target::Hostname => return false,
        };
        self.doubtful.contains(&definition)
    }

    /// Which class an include means.
    pub fn of_include(&self, stmt: StmtId) -> Option<&Reference> {
        self.references.get(*self.by_stmt.get(&stmt)? as usize)
    }
}

/// Where a search has got to.
#[derive(Clone)]
struct Found {
    via: SmallVec<[StmtId; 1]>,
    definition: Definition,
}

/// Resolves all names of a program.
pub(crate) fn resolve(
    hir: &Hir,
    library: &'static Library,
    imports: Imports<'_>,
    report: &mut Report,
) -> (Scopes, Dependencies, Usage) {
    let Imports { targets: imports, natives, aliases } = imports;
    let failed = imports.iter().filter(|(_, imported)| matches!(imported, Imported::Failed));
    let failed = failed.filter_map(|(stmt, _)| Some(hir.names.shared(*aliases.get(stmt)?))).collect();
    let scopes = Scopes { by_expr: vec![u32::MAX; hir.exprs.len()], imports, natives, ..Scopes::default() };
    let mut resolver = Resolver {
        hir,
        library,
        scopes,
        dependencies: Dependencies::default(),
        usage: Usage::default(),
        params: Vec::new(),
        node: Node::Main,
        class: None,
        found: Vec::new(),
        failed,
        hidden: FxHashMap::default(),
    };
    resolver.define(aliases);
    resolver.includes();
    for (index, module) in hir.modules.iter().enumerate() {
        // A module does nothing by itself, so nothing in it belongs to the program as such.
        resolver.node = if index == 0 { Node::Main } else { Node::Module(ModuleId(index as u32)) };
        resolver.block(module.block);
    }
    let Resolver { scopes, mut dependencies, usage, found, hidden, .. } = resolver;
    dependencies.order(hir, &hidden, report);
    for (class, mut diagnostic) in found {
        // Nobody minds the names in a class that is not included; here they are worth a word.
        if diagnostic.is_error() && class.is_some_and(|class| !dependencies.is_used(Node::Class(class))) {
            diagnostic.severity = Severity::Warning;
            diagnostic.hints.push(UNUSED.to_owned());
        }
        report.add(diagnostic);
    }
    for (var, place) in hidden {
        // A variable that is made of itself was meant to be made of the one that it hides: that has been said.
        if !dependencies.is_circular(Node::Var(var)) {
            report.add(shadowing("$", hir.text(hir[var].name), hir[var].span, place));
        }
    }
    (scopes, dependencies, usage)
}

/// What is said about a mistake that does no harm.
pub(crate) const UNUSED: &str = "nothing uses this, so the program runs all the same";

/// What is used by somebody, in the text and not only in what runs.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) vars: FxHashSet<VarId>,
    pub(crate) funcs: FxHashSet<FuncId>,
    pub(crate) classes: FxHashSet<ClassId>,
    pub(crate) aliases: FxHashSet<StmtId>,
}

struct Resolver<'a> {
    hir: &'a Hir,
    library: &'static Library,
    scopes: Scopes,
    dependencies: Dependencies,
    usage: Usage,
    /// The parameters of the functions around the expression.
    params: Vec<(Name, VarId)>,
    /// The definition that is being looked at.
    node: Node,
    /// The class that is being looked at.
    class: Option<ClassId>,
    /// What is wrong, and in which class.
    found: Vec<(Option<ClassId>, Diagnostic)>,
    /// The aliases of imports that lead nowhere.
    failed: Vec<std::sync::Arc<str>>,
    /// Variables that hide others, and where those are.
    hidden: FxHashMap<VarId, Span>,
}

impl Resolver<'_> {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.found.push((self.class, diagnostic));
    }

    /// Notes what every block defines.
    fn define(&mut self, aliases: &FxHashMap<StmtId, Name>) {
        let hir = self.hir;
        self.scopes.blocks = vec![Scope::default(); hir.blocks.len()];
        for (index, block) in hir.blocks.iter().enumerate() {
            let mut scope = Scope::default();
            for &stmt in &block.stmts {
                let (space, name, span, definition) = match &hir[stmt].kind {
                    StmtKind::Bind(var, _) => {
                        (Space::Variable, hir[*var].name, hir[*var].span, Definition::Variable(*var))
                    }
                    StmtKind::Func(func) => match hir[*func].name {
                        Some((name, span)) => (Space::Function, name, span, Definition::Function(*func)),
                        None => continue,
                    },
                    StmtKind::Class(class) => {
                        (Space::Class, hir[*class].name, hir[*class].name_span, Definition::Class(*class))
                    }
                    StmtKind::Include { alias: Some((name, span)), .. } => {
                        (Space::Alias, *name, *span, Definition::Alias(stmt))
                    }
                    StmtKind::Import { path, path_span, alias } => {
                        self.same_import(&block.stmts, stmt, *path, *path_span);
                        match alias {
                            Alias::Star => {
                                scope.stars.push(stmt);
                                continue;
                            }
                            Alias::Name(name, span) => (Space::Alias, *name, *span, Definition::Alias(stmt)),
                            Alias::Default => match aliases.get(&stmt) {
                                Some(name) => (Space::Alias, *name, *path_span, Definition::Alias(stmt)),
                                None => continue,
                            },
                        }
                    }
                    _ => continue,
                };
                match scope.names.entry((space, name)) {
                    std::collections::hash_map::Entry::Vacant(entry) => {
                        entry.insert(definition);
                    }
                    std::collections::hash_map::Entry::Occupied(first) => {
                        let first = *first.get();
                        // An import that leads nowhere has been reported, and perhaps it has another name.
                        let failed = |definition: Definition| match definition {
                            Definition::Alias(stmt) => {
                                matches!(self.scopes.imports.get(&stmt), Some(Imported::Failed))
                            }
                            _ => false,
                        };
                        if failed(first) || failed(definition) || self.duplicate(space, name, span, first) {
                            self.scopes.doubtful.insert(first);
                        }
                    }
                }
            }
            self.scopes.blocks[index] = scope;
        }
    }

    fn same_import(&mut self, stmts: &[StmtId], this: StmtId, path: Name, span: Span) {
        // Imports are few, and stand at the top.
        for &other in stmts {
            if other == this {
                return;
            }
            if let StmtKind::Import { path: first, path_span, .. } = &self.hir[other].kind
                && *first == path
            {
                let text = self.hir.text(path);
                let diagnostic = Code::DuplicateImport
                    .at(span, format!("`{text}` is imported twice"))
                    .label(*path_span, "it is imported here first")
                    .hint("keep one of the imports");
                self.report(diagnostic);
                return;
            }
        }
    }

    fn duplicate(&mut self, space: Space, name: Name, span: Span, first: Definition) -> bool {
        let text = self.hir.text(name);
        let (code, message) = match space {
            Space::Variable => {
                (Code::DuplicateDefinition, format!("the variable `${text}` is defined twice in this block"))
            }
            Space::Function => {
                (Code::DuplicateDefinition, format!("the function `{text}` is defined twice in this block"))
            }
            Space::Class => {
                (Code::DuplicateClass, format!("the class `{text}` is defined twice in this block"))
            }
            Space::Alias => (Code::DuplicateAlias, format!("the alias `{text}` is used twice in this block")),
        };
        let hint = match space {
            Space::Variable => "a variable has one value; give the second one another name",
            Space::Alias => "give one of them another name with `as`",
            _ => "give one of them another name",
        };
        // The same module twice has been said already.
        if let (Space::Alias, Definition::Alias(other)) = (space, first)
            && let StmtKind::Import { path: first, .. } = self.hir[other].kind
        {
            let again = self.hir[self.hir[other].block].stmts.iter().any(|&stmt| {
                stmt != other
                    && matches!(self.hir[stmt].kind, StmtKind::Import { path, path_span, .. }
                            if path == first && path_span == span)
            });
            if again {
                return false;
            }
        }
        let place = self.place(first);
        let diagnostic = code.at(span, message).label(place, "the first definition is here").hint(hint);
        self.report(diagnostic);
        true
    }

    fn place(&self, definition: Definition) -> Span {
        match definition {
            Definition::Variable(var) => self.hir[var].span,
            Definition::Function(func) => self.hir[func].name.map_or(self.hir[func].span, |(_, span)| span),
            Definition::Class(class) => self.hir[class].name_span,
            Definition::Alias(stmt) => match self.hir[stmt].kind {
                StmtKind::Include { alias: Some((_, span)), .. } => span,
                StmtKind::Import { alias: Alias::Name(_, span), .. } => span,
                StmtKind::Import { path_span, .. } => path_span,
                _ => self.hir[stmt].span,
            },
        }
    }

    fn block(&mut self, block: BlockId) {
        let hir = self.hir;
        for &stmt in &hir[block].stmts {
            self.stmt(block, stmt);
        }
    }

    /// Looks at something as part of a definition.
    fn within(&mut self, node: Node, look: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.node, node);
        self.dependencies.contain(outer, node);
        look(self);
        self.node = outer;
    }

    fn stmt(&mut self, block: BlockId, stmt: StmtId) {
        let hir = self.hir;
        match &hir[stmt].kind {
            StmtKind::Bind(var, value) => {
                if let Some(place) = self.hides(block, Space::Variable, hir[*var].name) {
                    self.hidden.insert(*var, place);
                }
                self.within(Node::Var(*var), |this| this.expr(block, *value));
            }
            StmtKind::Func(func) => {
                if let Some((name, span)) = hir[*func].name {
                    self.shadows(block, Space::Function, name, span);
                }
                self.within(Node::Func(*func), |this| this.func(block, *func));
            }
            StmtKind::Class(class) => {
                self.shadows(block, Space::Class, hir[*class].name, hir[*class].name_span);
                for &param in &hir[*class].params {
                    self.shadows_around(block, hir[param].name, hir[param].span);
                }
                self.within(Node::Class(*class), |this| {
                    let outer = this.class.replace(*class);
                    this.block(hir[*class].body);
                    this.class = outer;
                });
            }
            StmtKind::Include { class, class_span, args, alias } => {
                let look = |this: &mut Self| {
                    for &arg in args {
                        this.expr(block, arg);
                    }
                    this.include(block, stmt, *class, *class_span, args.len());
                };
                match alias {
                    Some(_) => {
                        self.dependencies.need(self.node, Node::Include(stmt), hir[stmt].span);
                        self.within(Node::Include(stmt), look);
                    }
                    None => look(self),
                }
            }
            StmtKind::Loop { key, value, over, body, .. } => {
                for var in [*key, *value] {
                    self.shadows_around(block, hir[var].name, hir[var].span);
                }
                if hir[*key].name == hir[*value].name {
                    let diagnostic = Code::SameLoopVariables
                        .at(hir[*value].span, "both variables of the loop have the same name")
                        .label(hir[*key].span, "this one cannot be read");
                    self.report(diagnostic);
                }
                self.dependencies.need(self.node, Node::Loop(stmt), hir[stmt].span);
                self.within(Node::Loop(stmt), |this| this.expr(block, *over));
                self.block(*body);
            }
            StmtKind::If { condition, then, otherwise } => {
                self.expr(block, *condition);
                self.block(*then);
                if let Some(otherwise) = otherwise {
                    self.block(*otherwise);
                }
            }
            StmtKind::Panic(args) => {
                for &arg in args {
                    self.expr(block, arg);
                }
            }
            StmtKind::Edge(halves) => {
                for half in halves {
                    self.expr(block, half.name);
                }
            }
            StmtKind::Resource(resource) => {
                self.expr(block, resource.name);
                for field in &resource.fields {
                    self.maybe(block, field.condition);
                    self.expr(block, field.value);
                }
                for edge in &resource.edges {
                    self.maybe(block, edge.condition);
                    self.expr(block, edge.half.name);
                }
                for meta in &resource.meta {
                    self.maybe(block, meta.condition);
                    self.expr(block, meta.value);
                }
            }
            StmtKind::Import { .. } => {}
        }
    }

    fn maybe(&mut self, block: BlockId, expr: Option<ExprId>) {
        if let Some(expr) = expr {
            self.expr(block, expr);
        }
    }

    fn func(&mut self, block: BlockId, func: FuncId) {
        let hir = self.hir;
        let outer = self.params.len();
        for &param in &hir[func].params {
            self.params.push((hir[param].name, param));
        }
        self.expr(block, hir[func].body);
        self.params.truncate(outer);
    }

    fn expr(&mut self, block: BlockId, expr: ExprId) {
        let hir = self.hir;
        match &hir[expr].kind {
            ExprKind::Missing
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Str(_) => {}
            ExprKind::Interpolation(parts) | ExprKind::List(parts) => {
                for &part in parts {
                    self.expr(block, part);
                }
            }
            ExprKind::Map(entries) => {
                for &(key, value) in entries {
                    self.expr(block, key);
                    self.expr(block, value);
                }
            }
            ExprKind::Struct(fields) => {
                for &(_, _, value) in fields {
                    self.expr(block, value);
                }
            }
            ExprKind::Variable(name) => self.variable(block, expr, *name),
            ExprKind::Call { callee, args } => {
                match callee {
                    Callee::Function(name, span) => self.function(block, expr, *name, *span),
                    Callee::Variable(inner) | Callee::Lambda(inner) => self.expr(block, *inner),
                }
                for &arg in args {
                    self.expr(block, arg);
                }
            }
            ExprKind::Lambda(func) => self.func(block, *func),
            ExprKind::If { condition, then, otherwise } => {
                self.expr(block, *condition);
                self.expr(block, *then);
                self.expr(block, *otherwise);
            }
            ExprKind::Except(a, b) | ExprKind::Operator(_, _, a, b) | ExprKind::Index(a, b) => {
                self.expr(block, *a);
                self.expr(block, *b);
            }
            ExprKind::Not(inner) | ExprKind::Field(inner, _, _) => self.expr(block, *inner),
            ExprKind::FieldOr(inner, _, _, default) => {
                self.expr(block, *inner);
                self.expr(block, *default);
            }
        }
    }

    fn refer(&mut self, expr: ExprId, span: Span, reference: Reference) {
        self.depend(span, &reference);
        let index = u32::try_from(self.scopes.references.len()).unwrap_or(u32::MAX);
        self.scopes.references.push(reference);
        self.scopes.by_expr[expr.index()] = index;
    }

    /// Notes that what is being looked at needs what was found.
    fn depend(&mut self, span: Span, reference: &Reference) {
        let hir = self.hir;
        for &stmt in &reference.via {
            self.usage.aliases.insert(stmt);
            if matches!(hir[stmt].kind, StmtKind::Include { .. }) {
                self.dependencies.need(self.node, Node::Include(stmt), span);
            }
        }
        let node = match reference.target {
            Target::Var(var) => {
                self.usage.vars.insert(var);
                match hir[var].origin {
                    VarOrigin::Bind(..) => Node::Var(var),
                    VarOrigin::LoopKey(stmt) | VarOrigin::LoopValue(stmt) => Node::Loop(stmt),
                    VarOrigin::Param(_) | VarOrigin::ClassParam(_) => return,
                }
            }
            Target::Func(func) => {
                self.usage.funcs.insert(func);
                Node::Func(func)
            }
            Target::Class(class) => {
                self.usage.classes.insert(class);
                Node::Class(class)
            }
            Target::Library(_) | Target::Constant(_) | Target::Hostname => return,
        };
        self.dependencies.need(self.node, node, span);
    }

    fn variable(&mut self, block: BlockId, expr: ExprId, name: Name) {
        let span = self.hir[expr].span;
        if let Some(&(_, var)) = self.params.iter().rev().find(|(param, _)| *param == name) {
            self.refer(expr, span, Reference { via: SmallVec::new(), target: Target::Var(var) });
            return;
        }
        match self.lookup(block, Space::Variable, self.hir.text(name)) {
            Some(reference) => self.refer(expr, span, reference),
            None if self.leads_nowhere(block, name) => {}
            None => {
                let diagnostic = self.unknown(block, Space::Variable, name, span);
                self.report(diagnostic);
            }
        }
    }

    fn function(&mut self, block: BlockId, expr: ExprId, name: Name, span: Span) {
        match self.lookup(block, Space::Function, self.hir.text(name)) {
            Some(reference) => self.refer(expr, span, reference),
            None if self.leads_nowhere(block, name) => {}
            None => {
                let diagnostic = self.unknown(block, Space::Function, name, span);
                self.report(diagnostic);
            }
        }
    }

    /// Finds the classes of all includes. One may lead behind the alias of another, so this goes on until nothing new
    /// is found; in turns forward and backward, because chains of them are written in one order or the other.
    fn includes(&mut self) {
        let hir = self.hir;
        let mut open: Vec<(StmtId, Name)> = hir
            .stmts
            .iter()
            .enumerate()
            .filter_map(|(index, stmt)| match stmt.kind {
                StmtKind::Include { class, .. } => Some((StmtId(index as u32), class)),
                _ => None,
            })
            .collect();
        loop {
            let before = open.len();
            open.retain(|&(stmt, class)| {
                let Some(reference) = self.lookup(hir[stmt].block, Space::Class, hir.text(class)) else {
                    return true;
                };
                let index = u32::try_from(self.scopes.references.len()).unwrap_or(u32::MAX);
                self.scopes.references.push(reference);
                self.scopes.by_stmt.insert(stmt, index);
                false
            });
            if open.is_empty() || open.len() == before {
                return;
            }
            open.reverse();
        }
    }

    fn include(&mut self, block: BlockId, stmt: StmtId, name: Name, span: Span, count: usize) {
        let hir = self.hir;
        let Some(reference) = self.scopes.of_include(stmt).cloned() else {
            if !self.leads_nowhere(block, name) {
                let diagnostic = self.unknown(block, Space::Class, name, span);
                self.report(diagnostic);
            }
            return;
        };
        self.depend(span, &reference);
        if let Target::Class(class) = reference.target {
            let wanted = hir[class].params.len();
            if wanted != count && !self.scopes.is_doubtful(reference.target) {
                let wanted = arguments(wanted);
                let message = format!("the class `{}` takes {wanted}, and is given {count}", hir.text(name));
                let diagnostic = Code::ClassArguments
                    .at(hir[stmt].span, message)
                    .label(hir[class].name_span, "defined here");
                self.report(diagnostic);
            }
        }
    }

    /// Looks a name up, as it is seen from a block.
    fn lookup(&self, block: BlockId, space: Space, text: &str) -> Option<Reference> {
        let found = match text.split_once('.') {
            None => self.upward(block, space, text, &[]),
            Some((first, rest)) => match self.upward(block, Space::Alias, first, &[]) {
                Some(Ok(found)) => self.behind(&found, space, rest),
                _ => None,
            },
        };
        match found {
            Some(Ok(found)) => Some(reference(found)),
            Some(Err(reference)) => Some(reference),
            None => self.global(space, text),
        }
    }

    /// What is there without being defined.
    fn global(&self, space: Space, text: &str) -> Option<Reference> {
        let target = match space {
            Space::Variable if text == "hostname" => Target::Hostname,
            Space::Variable => Target::Constant(
                self.library.module("")?.constants.iter().find(|constant| constant.name == text)?,
            ),
            Space::Function if !text.contains('.') && text != "panic" => {
                Target::Library(self.library.function("", text)?)
            }
            _ => return None,
        };
        Some(Reference { via: SmallVec::new(), target })
    }

    /// Looks in a block and in all around it. `via` is how the block was reached.
    fn upward(&self, block: BlockId, space: Space, text: &str, via: &[StmtId]) -> Option<Outcome> {
        let hir = self.hir;
        let name = hir.names.find(text);
        let mut at = block;
        let mut via: SmallVec<[StmtId; 1]> = via.into();
        loop {
            if let Some(found) = self.inside(at, space, name, text, &via) {
                return Some(found);
            }
            let variable = |var: VarId| name == Some(hir[var].name);
            match hir[at].parent {
                Parent::Module(_) => return None,
                Parent::Block(outer) => at = outer,
                Parent::Class(class, outer) => {
                    if space == Space::Variable
                        && let Some(&var) = hir[class].params.iter().find(|&&var| variable(var))
                    {
                        return Some(Ok(Found { via, definition: Definition::Variable(var) }));
                    }
                    // What is around the class is reached as the class was.
                    if let Some(include) = via.pop()
                        && let Some(reference) = self.scopes.of_include(include)
                    {
                        via.extend(reference.via.iter().copied());
                    }
                    at = outer;
                }
                Parent::Loop(stmt, outer) => {
                    if let (Space::Variable, StmtKind::Loop { key, value, .. }) = (space, &hir[stmt].kind)
                        && let Some(&var) = [value, key].into_iter().find(|&&var| variable(var))
                    {
                        return Some(Ok(Found { via, definition: Definition::Variable(var) }));
                    }
                    at = outer;
                }
            }
        }
    }

    /// Looks in a block alone, and in what it imports without a prefix.
    fn inside(
        &self,
        block: BlockId,
        space: Space,
        name: Option<Name>,
        text: &str,
        via: &[StmtId],
    ) -> Option<Outcome> {
        let scope = self.scopes.blocks.get(block.index())?;
        if let Some(&definition) = name.and_then(|name| scope.names.get(&(space, name))) {
            return Some(Ok(Found { via: via.into(), definition }));
        }
        scope.stars.iter().rev().find_map(|&stmt| {
            let found = Found { via: via.into(), definition: Definition::Alias(stmt) };
            if space == Space::Alias {
                return match self.scopes.imports.get(&stmt)? {
                    Imported::Module(module) => {
                        let via: SmallVec<[StmtId; 2]> = via.iter().copied().chain([stmt]).collect();
                        self.inside(self.hir[*module].block, space, name, text, &via)
                    }
                    _ => None,
                };
            }
            self.behind(&found, space, text)
        })
    }

    /// Looks behind an alias.
    fn behind(&self, alias: &Found, space: Space, text: &str) -> Option<Outcome> {
        let Definition::Alias(stmt) = alias.definition else { return None };
        let mut via = alias.via.clone();
        via.push(stmt);
        let start = match &self.hir[stmt].kind {
            StmtKind::Import { .. } => match self.scopes.imports.get(&stmt)? {
                Imported::Module(module) => self.hir[*module].block,
                Imported::Library(module) => {
                    let target = self.native(module, space, text)?;
                    return Some(Err(Reference { via, target }));
                }
                Imported::Failed => return None,
            },
            StmtKind::Include { .. } => match self.scopes.of_include(stmt)?.target {
                Target::Class(class) => self.hir[class].body,
                _ => return None,
            },
            _ => return None,
        };
        let found = match text.split_once('.') {
            None => self.upward(start, space, text, &via),
            Some((first, rest)) => match self.upward(start, Space::Alias, first, &via) {
                Some(Ok(found)) => self.behind(&found, space, rest),
                _ => None,
            },
        };
        let native = || {
            let Some(Imported::Module(module)) = self.scopes.imports.get(&stmt) else { return None };
            let target = self.native(self.scopes.natives.get(module)?, space, text)?;
            Some(Err(Reference { via: via.clone(), target }))
        };
        found.or_else(native).or_else(|| self.global(space, text).map(Err))
    }

    /// What a module of the library has under a name.
    fn native(&self, module: &'static mgmt_funcs::Module, space: Space, text: &str) -> Option<Target> {
        match space {
            Space::Function => Some(Target::Library(self.library.function(module.path, text)?)),
            Space::Variable => {
                let constant = module.constants.iter().find(|constant| constant.name == text)?;
                Some(Target::Constant(constant))
            }
            Space::Class | Space::Alias => None,
        }
    }
}

fn shadowing(dollar: &str, text: &str, span: Span, place: Span) -> Diagnostic {
    Code::Shadowing
        .at(span, format!("`{dollar}{text}` hides another `{dollar}{text}`"))
        .label(place, "this one cannot be seen there")
        .hint("give one of them another name")
}

/// `no arguments`, `one argument`, `2 arguments`
pub(crate) fn arguments(count: usize) -> String {
    match count {
        0 => "no arguments".to_owned(),
        1 => "one argument".to_owned(),
        count => format!("{count} arguments"),
    }
}

/// A definition of the program, or something of the library.
type Outcome = Result<Found, Reference>;

fn reference(found: Found) -> Reference {
    let target = match found.definition {
        Definition::Variable(var) => Target::Var(var),
        Definition::Function(func) => Target::Func(func),
        Definition::Class(class) => Target::Class(class),
        // Not reached: an alias is never what is looked for.
        Definition::Alias(_) => Target::Hostname,
    };
    Reference { via: found.via, target }
}
