//! What to say when a name means nothing.

use super::*;
use crate::module::EMBEDDED;

impl Resolver<'_> {
    /// How many hints anybody reads. Finding one is more work than finding out that there is a mistake.
    const HINTS: usize = 200;
    /// With how many names all misspelt ones are compared.
    const COMPARED: usize = 200_000;

    pub(super) fn unknown(&self, block: BlockId, space: Space, name: Name, span: Span) -> Diagnostic {
        let text = self.hir.text(name);
        let (code, what, dollar) = match space {
            Space::Variable => (Code::UnknownVariable, "variable", "$"),
            Space::Function => (Code::UnknownFunction, "function", ""),
            Space::Class | Space::Alias => (Code::UnknownClass, "class", ""),
        };
        let message = format!("there is no {what} `{dollar}{text}` here");
        let diagnostic = code.at(span, message).here("not found in this scope");
        if self.found.len() > Self::HINTS {
            return diagnostic;
        }
        if let Some((owner, hint)) = self.member(block, space, text) {
            let member = text.rsplit('.').next().unwrap_or(text);
            return code
                .at(span, format!("{owner} has no {what} `{dollar}{member}`"))
                .here("not found there")
                .maybe_hint(hint);
        }
        let hint = self
            .other_space(block, space, name)
            .or_else(|| self.module_hint(block, text))
            .or_else(|| {
                self.similar(block, space, text).map(|near| format!("did you mean `{dollar}{near}`?"))
            })
            .or_else(|| if space == Space::Function { self.in_library(block, text) } else { None })
            .or_else(|| self.elsewhere(space, name))
            .or_else(|| {
                let (first, _) = text.split_once('.')?;
                Some(format!("nothing is imported or included as `{first}`"))
            });
        diagnostic.maybe_hint(hint)
    }

    /// The name is there, but as something else.
    pub(super) fn other_space(&self, block: BlockId, space: Space, name: Name) -> Option<String> {
        let text = self.hir.text(name);
        let variable = |text: &str| {
            let param = self.params.iter().rev().find(|(param, _)| self.hir.text(*param) == text);
            let found = || self.lookup(block, Space::Variable, text).map(|found| found.target);
            param.map(|(_, param)| Target::Var(*param)).or_else(found)
        };
        match space {
            Space::Variable if text.split_once('.').is_some_and(|(first, _)| variable(first).is_some()) => {
                let (first, rest) = text.split_once('.')?;
                let field = format!("`${first}->{}`", rest.replace('.', "->"));
                let value = format!("`${first}[\"{}\"]`", rest.replace('.', "\"][\""));
                let how = match variable(first).and_then(|found| self.is_map(found)) {
                    Some(true) => format!("a value of a map is read as {value}"),
                    Some(false) => format!("a field of a struct is read as {field}"),
                    None => {
                        format!("a field of a struct is read as {field}, and a value of a map as {value}")
                    }
                };
                Some(format!("`${first}` is a variable; {how}"))
            }
            Space::Function if text == "return" => Some(mgmt_syntax::NO_RETURN.to_owned()),
            Space::Function if self.lookup(block, Space::Class, text).is_some() => {
                Some(format!("`{text}` is a class, which is included by a statement: `include {text}(...)`"))
            }
            Space::Variable if !text.contains('.') && self.lookup(block, Space::Function, text).is_some() => {
                Some(format!(
                    "there is a function `{text}`; call it as `{text}(...)`, or pass it on as \
                     `func($x) {{ {text}($x) }}`"
                ))
            }
            Space::Function
                if self.lookup(block, Space::Variable, text).is_some()
                    || self.params.iter().any(|(param, _)| *param == name) =>
            {
                Some(format!("`${text}` is a variable; to call what is in it, write `${text}(...)`"))
            }
            Space::Class if self.lookup(block, Space::Function, text).is_some() => {
                Some(format!("`{text}` is a function, and only classes are included"))
            }
            _ => None,
        }
    }

    /// Whether a variable is a map or a struct, if its definition says so.
    fn is_map(&self, variable: Target) -> Option<bool> {
        use mgmt_value::Type;
        let Target::Var(var) = variable else { return None };
        let var = &self.hir[var];
        match (&var.declared, var.origin) {
            (Some(declared), _) => match declared.ty {
                Type::Map(_) => Some(true),
                Type::Struct(_) => Some(false),
                _ => None,
            },
            (None, VarOrigin::Bind(_, value)) => match self.hir[value].kind {
                ExprKind::Map(_) => Some(true),
                ExprKind::Struct(_) => Some(false),
                _ => None,
            },
            (None, _) => None,
        }
    }

    /// What stands before the last dot is there, and does not have what stands behind it.
    pub(super) fn member(
        &self,
        block: BlockId,
        space: Space,
        text: &str,
    ) -> Option<(String, Option<String>)> {
        let hir = self.hir;
        let (alias, member) = text.rsplit_once('.')?;
        let mut parts = alias.split('.');
        let mut found = self.upward(block, Space::Alias, parts.next()?, &[])?.ok()?;
        for part in parts {
            let Definition::Alias(stmt) = found.definition else { return None };
            let via: SmallVec<[StmtId; 2]> = found.via.iter().copied().chain([stmt]).collect();
            found = self.upward(self.start_behind(stmt)?, Space::Alias, part, &via)?.ok()?;
        }
        let Definition::Alias(stmt) = found.definition else { return None };
        let dollar = if space == Space::Variable { "$" } else { "" };
        let (owner, mut names) = match (&hir[stmt].kind, self.scopes.imports.get(&stmt)) {
            (StmtKind::Import { path, .. }, Some(Imported::Library(module))) => {
                (format!("the module `{}`", hir.text(*path)), names_of(module, space))
            }
            (StmtKind::Import { path, .. }, Some(Imported::Module(module))) => {
                let mut names = self.names_in(hir[*module].block, space);
                let native = self.scopes.natives.get(module);
                names.extend(native.into_iter().flat_map(|native| names_of(native, space)));
                (format!("the module `{}`", hir.text(*path)), names)
            }
            (StmtKind::Include { class, .. }, _) => {
                let Target::Class(body) = self.scopes.of_include(stmt)?.target else { return None };
                let mut names = self.names_in(hir[body].body, space);
                if space == Space::Variable {
                    names.extend(hir[body].params.iter().map(|&var| hir.text(hir[var].name)));
                }
                (format!("the class `{}`", hir.text(*class)), names)
            }
            _ => return None,
        };
        names.sort_unstable();
        let hint = match did_you_mean(member, names.iter().copied()) {
            Some(near) => Some(format!("did you mean `{dollar}{alias}.{near}`?")),
            None if names.is_empty() || names.len() > 20 => None,
            None => Some(format!("it has: {}", names.join(", "))),
        };
        Some((owner, hint))
    }

    /// The block that is seen behind an alias.
    pub(super) fn start_behind(&self, stmt: StmtId) -> Option<BlockId> {
        match (&self.hir[stmt].kind, self.scopes.imports.get(&stmt)) {
            (StmtKind::Import { .. }, Some(Imported::Module(module))) => Some(self.hir[*module].block),
            (StmtKind::Include { .. }, _) => match self.scopes.of_include(stmt)?.target {
                Target::Class(class) => Some(self.hir[class].body),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn names_in(&self, block: BlockId, space: Space) -> Vec<&str> {
        let scope = self.scopes.blocks.get(block.index());
        let names = scope.into_iter().flat_map(|scope| scope.names.keys());
        names.filter(|key| key.0 == space).map(|key| self.hir.text(key.1)).collect()
    }

    /// The name is behind an import or an include that has been reported.
    pub(super) fn leads_nowhere(&self, block: BlockId, name: Name) -> bool {
        let Some((first, _)) = self.hir.text(name).split_once('.') else { return false };
        match self.upward(block, Space::Alias, first, &[]) {
            Some(Ok(Found { definition, .. })) if self.scopes.doubtful.contains(&definition) => true,
            Some(Ok(Found { definition: Definition::Alias(stmt), .. })) => match self.hir[stmt].kind {
                StmtKind::Include { .. } => self.scopes.of_include(stmt).is_none(),
                _ => matches!(self.scopes.imports.get(&stmt), None | Some(Imported::Failed)),
            },
            // The import is misspelled, and that has been reported.
            _ => self.failed.iter().any(|alias| did_you_mean(first, [alias.as_ref()].into_iter()).is_some()),
        }
    }

    /// The name before the dot is not there: perhaps an import is missing.
    pub(super) fn module_hint(&self, block: BlockId, text: &str) -> Option<String> {
        let (first, rest) = text.split_once('.')?;
        let last = |path: &'static str| path.rsplit('/').next().unwrap_or(path);
        let mut paths: Vec<&str> = self
            .library
            .modules()
            .filter(|module| !module.path.is_empty() && last(module.path) == first)
            .map(|module| module.path)
            .chain(EMBEDDED.iter().map(|module| module.name).filter(|name| last(name) == first))
            .collect();
        paths.sort_by_key(|path| (self.library.function(path, rest).is_none(), path.len()));
        match paths.first() {
            Some(path) => Some(format!("add `import \"{path}\"` to the top of the file")),
            None => {
                let near = self.similar(block, Space::Alias, first)?;
                Some(format!("did you mean `{near}.{rest}`?"))
            }
        }
    }

    /// A function of this name is in some module.
    pub(super) fn in_library(&self, block: BlockId, text: &str) -> Option<String> {
        if text.contains('.') {
            return None;
        }
        let module = self
            .library
            .modules()
            .filter(|module| !module.path.is_empty() && !module.path.starts_with("golang/"))
            .find(|module| self.library.function(module.path, text).is_some())?;
        if let Some(alias) = self.alias_of(block, module.path) {
            return Some(format!("it is in the module `{}`: write `{alias}.{text}(...)`", module.path));
        }
        let alias = module.path.rsplit('/').next().unwrap_or(module.path);
        Some(format!("it is in the module `{0}`: `import \"{0}\"`, then `{alias}.{text}(...)`", module.path))
    }

    /// Under which name a module of the library has been imported.
    pub(super) fn alias_of(&self, block: BlockId, path: &str) -> Option<&str> {
        let mut at = block;
        loop {
            let names = &self.scopes.blocks.get(at.index())?.names;
            let found = names.iter().find(|(_, definition)| match definition {
                Definition::Alias(stmt) => match self.scopes.imports.get(stmt) {
                    Some(Imported::Library(found)) => found.path == path,
                    Some(Imported::Module(module)) => {
                        self.scopes.natives.get(module).is_some_and(|found| found.path == path)
                    }
                    Some(Imported::Failed) | None => false,
                },
                _ => false,
            });
            if let Some((&(_, name), _)) = found {
                return Some(self.hir.text(name));
            }
            at = match self.hir[at].parent {
                Parent::Module(_) => return None,
                Parent::Block(outer) | Parent::Class(_, outer) | Parent::Loop(_, outer) => outer,
            };
        }
    }

    /// The name is defined somewhere that cannot be seen from here.
    pub(super) fn elsewhere(&self, space: Space, name: Name) -> Option<String> {
        let hir = self.hir;
        let text = hir.text(name);
        let found =
            self.scopes.blocks.iter().enumerate().find(|(_, scope)| scope.names.contains_key(&(space, name)));
        if let Some((index, _)) = found {
            return Some(match hir.blocks.get(index)?.parent {
                Parent::Class(class, _) => {
                    let class = hir.text(hir[class].name);
                    let dollar = if space == Space::Variable { "$" } else { "" };
                    format!(
                        "it is defined inside the class `{class}`; `include {class} as a` makes it visible as \
                         `{dollar}a.{text}`"
                    )
                }
                Parent::Module(_) => {
                    "it is defined in another file; what a file defines is seen through its import".to_owned()
                }
                Parent::Block(_) | Parent::Loop(..) => {
                    "it is defined in another block; what a block defines is not visible outside of it"
                        .to_owned()
                }
            });
        }
        if space != Space::Variable {
            return None;
        }
        let var = hir.vars.iter().find(|var| var.name == name)?;
        Some(match var.origin {
            VarOrigin::LoopKey(_) | VarOrigin::LoopValue(_) => {
                format!("`${text}` is a variable of a loop, and exists inside of the loop alone")
            }
            VarOrigin::Param(func) => match hir[func].name {
                Some((func, _)) => format!(
                    "`${text}` is a parameter of the function `{}`, and exists inside of it alone",
                    hir.text(func)
                ),
                None => format!("`${text}` is a parameter of a function, and exists inside of it alone"),
            },
            VarOrigin::ClassParam(class) => {
                let class = hir.text(hir[class].name);
                format!("`${text}` is a parameter of the class `{class}`, and exists inside of it alone")
            }
            VarOrigin::Bind(..) => return None,
        })
    }

    pub(super) fn similar(&self, block: BlockId, space: Space, text: &str) -> Option<String> {
        let hir = self.hir;
        let mut names: Vec<&str> = Vec::new();
        let mut at = Some(block);
        while let Some(block) = at {
            let scope = self.scopes.blocks.get(block.index())?;
            names.extend(scope.names.keys().filter(|key| key.0 == space).map(|key| hir.text(key.1)));
            at = match hir[block].parent {
                Parent::Module(_) => None,
                Parent::Block(outer) => Some(outer),
                Parent::Class(class, outer) => {
                    if space == Space::Variable {
                        names.extend(hir[class].params.iter().map(|&var| hir.text(hir[var].name)));
                    }
                    Some(outer)
                }
                Parent::Loop(stmt, outer) => {
                    if let (Space::Variable, StmtKind::Loop { key, value, .. }) = (space, &hir[stmt].kind) {
                        names.extend([*key, *value].map(|var| hir.text(hir[var].name)));
                    }
                    Some(outer)
                }
            };
        }
        match space {
            Space::Variable => {
                names.extend(self.params.iter().map(|(name, _)| hir.text(*name)));
                names.push("hostname");
                if let Some(top) = self.library.module("") {
                    names.extend(top.constants.iter().map(|constant| constant.name));
                }
            }
            Space::Function => {
                if let Some(top) = self.library.module("") {
                    let public = top.functions.iter().map(|function| function.name);
                    names.extend(public.filter(|name| !name.starts_with('_')));
                }
            }
            _ => {}
        }
        if self.found.len().saturating_mul(names.len()) > Self::COMPARED {
            return None;
        }
        // Of equally near names the first in the alphabet, so that the answer is always the same.
        names.sort_unstable();
        did_you_mean(text, names.into_iter()).map(str::to_owned)
    }

    /// A definition hides one of an outer block.
    pub(super) fn shadows(&mut self, block: BlockId, space: Space, name: Name, span: Span) {
        if let Some(place) = self.hides(block, space, name) {
            let dollar = if space == Space::Variable { "$" } else { "" };
            self.report(shadowing(dollar, self.hir.text(name), span, place));
        }
    }

    /// Which definition is hidden by one of a block.
    pub(super) fn hides(&self, block: BlockId, space: Space, name: Name) -> Option<Span> {
        match self.hir[block].parent {
            Parent::Module(_) => None,
            Parent::Block(outer) => self.seen_from(outer, space, name),
            // Its parameters are around the body of a class as well, and so are the variables of a loop.
            Parent::Class(..) | Parent::Loop(..) => {
                let found = self.around(block, space, name, self.hir.text(name))?.ok()?;
                found.via.is_empty().then(|| self.place(found.definition))
            }
        }
    }

    pub(super) fn shadows_around(&mut self, block: BlockId, name: Name, span: Span) {
        if let Some(place) = self.seen_from(block, Space::Variable, name) {
            self.report(shadowing("$", self.hir.text(name), span, place));
        }
    }

    /// The definition that a name has in a block. What comes in with a star gives way, and does not count.
    pub(super) fn seen_from(&self, block: BlockId, space: Space, name: Name) -> Option<Span> {
        let found = self.upward(block, space, self.hir.text(name), &[])?.ok()?;
        found.via.is_empty().then(|| self.place(found.definition))
    }

    /// Looks around a block, but not in it.
    pub(super) fn around(&self, block: BlockId, space: Space, name: Name, text: &str) -> Option<Outcome> {
        let hir = self.hir;
        let own: &[VarId] = match hir[block].parent {
            Parent::Class(class, _) => &hir[class].params,
            Parent::Loop(stmt, _) => match &hir[stmt].kind {
                StmtKind::Loop { key, value, .. } => &[*key, *value],
                _ => &[],
            },
            _ => &[],
        };
        if space == Space::Variable
            && let Some(&var) = own.iter().find(|&&var| hir[var].name == name)
        {
            return Some(Ok(Found { via: SmallVec::new(), definition: Definition::Variable(var) }));
        }
        match hir[block].parent {
            Parent::Module(_) => None,
            Parent::Block(outer) | Parent::Class(_, outer) | Parent::Loop(_, outer) => {
                self.upward(outer, space, text, &[])
            }
        }
    }
}

/// What a module of the library has.
fn names_of(module: &'static mgmt_funcs::Module, space: Space) -> Vec<&'static str> {
    match space {
        Space::Variable => module.constants.iter().map(|constant| constant.name).collect(),
        Space::Function => module.functions.iter().map(|function| function.name).collect(),
        Space::Class | Space::Alias => Vec::new(),
    }
}
