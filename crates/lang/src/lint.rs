//! What is allowed, and probably not meant.

use mgmt_diagnostics::{FileId, Span};
use mgmt_syntax::ast::Operator;
use mgmt_value::Str;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes::Code;

use crate::diagnostic::Report;
use crate::hir::*;
use crate::scope::{Imported, Scopes, Target, Usage};

/// Whose the files of a program are.
pub(crate) struct Ownership<'a> {
    /// The files that somebody else has written.
    pub(crate) foreign: &'a FxHashSet<FileId>,
    /// The program is a module, which others may import.
    pub(crate) is_module: bool,
}

/// Looks for what is probably not meant.
pub(crate) fn lint(
    hir: &Hir,
    scopes: &Scopes,
    usage: &Usage,
    ownership: &Ownership<'_>,
    report: &mut Report,
) {
    let aliased = hir.stmts.iter().enumerate().filter_map(|(index, stmt)| match stmt.kind {
        StmtKind::Include { alias: Some(_), .. } => match scopes.of_include(StmtId(index as u32))?.target {
            Target::Class(class) => Some(class),
            _ => None,
        },
        _ => None,
    });
    let mut lints = Lints { hir, scopes, usage, ownership, behind_alias: aliased.collect(), report };
    // Whoever has misspelled a name does not want to hear that the right one is not used.
    if !lints.report.is_unsure() {
        lints.unused();
    }
    lints.expressions();
    lints.resources();
    report.tell_lints(ownership.foreign);
}

struct Lints<'a> {
    hir: &'a Hir,
    scopes: &'a Scopes,
    usage: &'a Usage,
    ownership: &'a Ownership<'a>,
    /// Classes that somebody includes under an alias.
    behind_alias: FxHashSet<ClassId>,
    report: &'a mut Report,
}

impl Lints<'_> {
    fn unused(&mut self) {
        let hir = self.hir;
        let Some(main) = hir.modules.first() else { return };
        // A file that only defines things is there to be imported.
        let is_module = self.ownership.is_module || self.only_defines(main.block);
        for (index, stmt) in hir.stmts.iter().enumerate() {
            let id = StmtId(index as u32);
            // Whoever imports a module decides what of it is used.
            let of_module = is_module && !self.brings_others(id);
            let exported = (stmt.span.file != main.file || of_module) && self.is_exported(stmt.block);
            // What a class defines can be seen behind an alias.
            let visible = exported || self.behind_alias(stmt.block);
            match &stmt.kind {
                StmtKind::Bind(var, _) if !visible && !self.usage.vars.contains(var) => {
                    let name = hir.text(hir[*var].name);
                    self.say(
                        Code::UnusedBind,
                        hir[*var].span,
                        format!("the variable `${name}` is never read"),
                    );
                }
                StmtKind::Func(func) if !visible && !self.usage.funcs.contains(func) => {
                    let Some((name, span)) = hir[*func].name else { continue };
                    let name = hir.text(name);
                    self.say(Code::UnusedFunction, span, format!("the function `{name}` is never called"));
                }
                StmtKind::Class(class) if hir.text(hir[*class].name).contains(':') => self.orphan(*class),
                StmtKind::Class(class) => {
                    if !visible && !self.usage.classes.contains(class) {
                        let name = hir.text(hir[*class].name);
                        let span = hir[*class].name_span;
                        self.say(Code::UnusedClass, span, format!("the class `{name}` is never included"));
                    }
                    self.params(&hir[*class].params);
                }
                StmtKind::Import { path, path_span, alias } if *alias != Alias::Star => {
                    let failed = !matches!(
                        self.scopes.imports.get(&id),
                        Some(Imported::Module(_) | Imported::Library(_))
                    );
                    if !visible && !failed && !self.usage.aliases.contains(&id) {
                        let path = hir.text(*path);
                        let message = format!("nothing of the module `{path}` is used");
                        self.say(Code::UnusedImport, *path_span, message);
                    }
                }
                _ => {}
            }
            if let StmtKind::Func(func) = &stmt.kind {
                self.params(&hir[*func].params);
            }
        }
    }

    /// A block that defines things, and does nothing but check them.
    fn only_defines(&self, block: BlockId) -> bool {
        self.hir[block].stmts.iter().all(|stmt| match &self.hir[*stmt].kind {
            StmtKind::Bind(..)
            | StmtKind::Func(_)
            | StmtKind::Class(_)
            | StmtKind::Import { .. }
            | StmtKind::Panic(_) => true,
            StmtKind::If { then, otherwise, .. } => {
                self.only_defines(*then) && otherwise.is_none_or(|block| self.only_defines(block))
            }
            _ => false,
        })
    }

    /// An import of something else than a file of this module: what it brings is not exported.
    fn brings_others(&self, stmt: StmtId) -> bool {
        if !matches!(self.hir[stmt].kind, StmtKind::Import { .. }) {
            return false;
        }
        match self.scopes.imports.get(&stmt) {
            Some(Imported::Module(module)) => self.ownership.foreign.contains(&self.hir[*module].file),
            _ => true,
        }
    }

    /// The block is that of a file, or of a class in one that can be included under an alias.
    fn is_exported(&self, block: BlockId) -> bool {
        match self.hir[block].parent {
            Parent::Module(_) => true,
            Parent::Class(_, outer) => self.is_exported(outer),
            _ => false,
        }
    }

    /// The block is in a class that somebody includes under an alias.
    fn behind_alias(&self, block: BlockId) -> bool {
        match self.hir[block].parent {
            Parent::Class(class, _) => self.behind_alias.contains(&class),
            _ => false,
        }
    }

    /// A class that is written with a colon, and is part of no other.
    fn orphan(&mut self, class: ClassId) {
        let class = &self.hir[class];
        let Some((outer, _)) = self.hir.text(class.name).rsplit_once(':') else { return };
        self.report.add(
            Code::OrphanClass
                .at(
                    class.name_span,
                    format!("there is no class `{outer}` in this block, so nothing can include this one"),
                )
                .hint(format!("`class {}` goes into the body of `class {outer}`", self.hir.text(class.name))),
        );
    }

    fn params(&mut self, params: &[VarId]) {
        let hir = self.hir;
        for &param in params {
            if !self.usage.vars.contains(&param) {
                let name = hir.text(hir[param].name);
                self.say(
                    Code::UnusedParameter,
                    hir[param].span,
                    format!("the parameter `${name}` is never read"),
                );
            }
        }
    }

    fn say(&mut self, code: Code, span: Span, message: String) {
        self.report.add(code.at(span, message));
    }

    fn expressions(&mut self) {
        let hir = self.hir;
        for expr in &hir.exprs {
            match &expr.kind {
                ExprKind::Operator(operator, _, left, right) => {
                    self.comparison(expr.span, *operator, *left, *right);
                }
                ExprKind::If { condition, then, otherwise } => {
                    if let Some(value) = self.truth(*condition) {
                        let dead = if value { *otherwise } else { *then };
                        self.dead(hir[*condition].span, value, hir[dead].span);
                    }
                }
                _ => {}
            }
        }
        for stmt in &hir.stmts {
            if let StmtKind::If { condition, then, otherwise } = &stmt.kind {
                let Some(value) = self.truth(*condition) else { continue };
                let dead = if value { *otherwise } else { Some(*then) };
                let stmts = dead.map(|block| hir[block].stmts.as_slice()).unwrap_or_default();
                if let (Some(&first), Some(&last)) = (stmts.first(), stmts.last()) {
                    self.dead(hir[*condition].span, value, hir[first].span.to(hir[last].span));
                }
            }
        }
    }

    fn dead(&mut self, condition: Span, value: bool, dead: Span) {
        // `if true` is how one tries things out: it is said once, at the branch that is dead.
        self.report.add(
            Code::UnreachableBranch
                .at(dead, "this is never reached")
                .label(condition, format!("this is always {value}")),
        );
    }

    /// The value of a condition that is the same in every run.
    fn truth(&self, expr: ExprId) -> Option<bool> {
        match &self.hir[expr].kind {
            ExprKind::Bool(value) => Some(*value),
            ExprKind::Not(inner) => Some(!self.truth(*inner)?),
            ExprKind::Operator(Operator::And, _, a, b) => match (self.truth(*a), self.truth(*b)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            ExprKind::Operator(Operator::Or, _, a, b) => match (self.truth(*a), self.truth(*b)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    fn comparison(&mut self, span: Span, operator: Operator, left: ExprId, right: ExprId) {
        use Operator::*;
        let result = match operator {
            Equal | LessEqual | GreaterEqual => true,
            NotEqual | Less | Greater => false,
            _ => return,
        };
        if self.same(left, right, 32) {
            let message = format!("a value is compared with itself, which is always {result}");
            self.say(Code::SelfComparison, span, message);
        }
    }

    /// Two expressions that certainly have the same value.
    fn same(&self, left: ExprId, right: ExprId, fuel: u32) -> bool {
        let Some(fuel) = fuel.checked_sub(1) else { return false };
        match (&self.hir[left].kind, &self.hir[right].kind) {
            (ExprKind::Bool(a), ExprKind::Bool(b)) => a == b,
            (ExprKind::Int(a), ExprKind::Int(b)) => a == b,
            (ExprKind::Str(a), ExprKind::Str(b)) => a == b,
            (ExprKind::Variable(a), ExprKind::Variable(b)) => a == b,
            (ExprKind::Interpolation(a), ExprKind::Interpolation(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| self.same(a, b, fuel))
            }
            (ExprKind::Field(a, f, _), ExprKind::Field(b, g, _)) => f == g && self.same(*a, *b, fuel),
            (ExprKind::Index(a, k), ExprKind::Index(b, l)) => {
                self.same(*a, *b, fuel) && self.same(*k, *l, fuel)
            }
            _ => false,
        }
    }

    /// Resources with the same literal name in the same block are the same resource.
    fn resources(&mut self) {
        let hir = self.hir;
        for block in &hir.blocks {
            let mut seen: FxHashMap<(Name, &Str), StmtId> = FxHashMap::default();
            for &stmt in &block.stmts {
                let StmtKind::Resource(resource) = &hir[stmt].kind else { continue };
                let ExprKind::Str(name) = &hir[resource.name].kind else { continue };
                if resource.collect || self.is_hidden(resource) {
                    continue;
                }
                let Some(&first) = seen.get(&(resource.kind, name)) else {
                    seen.insert((resource.kind, name), stmt);
                    continue;
                };
                let StmtKind::Resource(other) = &hir[first].kind else { continue };
                self.twice(stmt, resource, other);
            }
        }
    }

    fn is_hidden(&self, resource: &Resource) -> bool {
        resource.meta.iter().any(|meta| meta.param.is_none_or(|(name, _)| self.hir.text(name) == "hidden"))
    }

    fn twice(&mut self, stmt: StmtId, second: &Resource, first: &Resource) {
        let hir = self.hir;
        let ExprKind::Str(name) = &hir[second.name].kind else { return };
        let what = format!("{}[{}]", hir.text(second.kind), name.display());
        let span = second.kind_span.to(hir[second.name].span);
        let at = first.kind_span.to(hir[first.name].span);
        let _ = stmt;
        if self.equal(second, first) {
            self.report.add(
                Code::DuplicateResource
                    .at(span, format!("the resource `{what}` is declared twice"))
                    .label(at, "it is declared here first")
                    .hint("the second declaration says the same and changes nothing; remove it"),
            );
        } else if let Some((mine, other)) = self.conflict(second, first) {
            self.report.add(
                Code::ConflictingResource
                    .at(span, format!("the resource `{what}` is declared twice, and not in the same way"))
                    .label(mine, "this differs")
                    .label(other, "from this")
                    .label(at, "it is declared here first"),
            );
        }
    }

    fn equal(&self, a: &Resource, b: &Resource) -> bool {
        let fields = a.fields.len() == b.fields.len()
            && a.fields.iter().all(|field| {
                field.condition.is_none()
                    && b.fields.iter().any(|other| {
                        other.name == field.name
                            && other.condition.is_none()
                            && self.same(field.value, other.value, 32)
                    })
            });
        fields && a.meta.is_empty() && b.meta.is_empty() && a.edges.is_empty() && b.edges.is_empty()
    }

    /// Literals for the same parameter that differ.
    fn conflict(&self, a: &Resource, b: &Resource) -> Option<(Span, Span)> {
        let literal = |expr: ExprId| {
            matches!(self.hir[expr].kind, ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Str(_))
        };
        // Kinds that merge two declarations into one.
        if matches!(self.hir.text(a.kind), "pkg") {
            return None;
        }
        a.fields.iter().find_map(|field| {
            let other = b.fields.iter().find(|other| other.name == field.name)?;
            let plain = field.condition.is_none()
                && other.condition.is_none()
                && literal(field.value)
                && literal(other.value);
            (plain && !self.same(field.value, other.value, 32)).then_some((field.name_span, other.name_span))
        })
    }
}
