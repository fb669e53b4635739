//! Reading a program: its files, and those that they import.

use std::path::PathBuf;
use std::sync::Arc;

use mgmt_diagnostics::{Diagnostic, FileId, Label, Severity, Source, SourceMap, Span};
use mgmt_funcs::Library;
use mgmt_resource::did_you_mean;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes::Code;
use crate::diagnostic::Report;
use crate::hir::*;
use crate::host::{Deploy, Part};
use crate::lower;
use crate::module::{
    EMBEDDED, Embedded, Entry, ImportClass, ImportName, Location, ResolveError, Resolver, is_embedded, normal,
};
use crate::scope::Imported;

/// A program with all its files, before its names mean something.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) hir: Hir,
    pub(crate) imports: FxHashMap<StmtId, Imported>,
    /// The names of imports that give none.
    pub(crate) aliases: FxHashMap<StmtId, Name>,
    /// What the library adds to modules that have its names.
    pub(crate) natives: FxHashMap<ModuleId, &'static mgmt_funcs::Module>,
    /// How deep constructs are inside each other.
    pub(crate) depth: u32,
    /// The directory of each file within the deploy.
    pub(crate) bases: FxHashMap<FileId, String>,
    /// Where its files are.
    pub(crate) deploy: Deploy,
    /// The files of modules that come with mgmt or from elsewhere.
    pub(crate) foreign: FxHashSet<FileId>,
    /// The program is a directory with metadata: a module, which others may import.
    pub(crate) is_module: bool,
}

/// Reads a program.
pub(crate) fn load(
    entry: &Entry,
    resolver: &Resolver<'_>,
    library: &'static Library,
    sources: &mut SourceMap,
    report: &mut Report,
) -> Result<Loaded, ResolveError> {
    let (location, content) = resolver.entry(entry)?;
    let mut loader = Loader {
        resolver,
        library,
        sources,
        report,
        loaded: Loaded::default(),
        locations: Vec::new(),
        starts: Vec::new(),
        known: FxHashMap::default(),
    };
    loader.file(location, content);
    let mut next = 0;
    while next < loader.locations.len() {
        loader.imports(ModuleId(next as u32));
        next += 1;
    }
    loader.circles();
    Ok(loader.loaded)
}

struct Loader<'a> {
    resolver: &'a Resolver<'a>,
    library: &'static Library,
    sources: &'a mut SourceMap,
    report: &'a mut Report,
    loaded: Loaded,
    /// Of each module.
    locations: Vec<Location>,
    /// The first statement of each module.
    starts: Vec<usize>,
    /// By file, and by where it looks for others.
    known: FxHashMap<(PathBuf, Vec<PathBuf>), ModuleId>,
}

impl Loader<'_> {
    /// Adds a file to the program.
    fn file(&mut self, location: Location, content: Vec<u8>) -> ModuleId {
        self.metadata_warnings(&location);
        if self.locations.is_empty() {
            self.loaded.is_module = location.metadata().is_some();
            self.loaded.deploy = Deploy::new(location.base().to_owned());
        }
        let base = self.loaded.deploy.add(location.base());
        self.belongings(&location, &content);
        let decoded = mgmt_syntax::decode(&content);
        let text: Arc<str> = match &decoded {
            Ok(text) => Arc::from(*text),
            Err(_) => Source::lossy_text(&content).into(),
        };
        let error = decoded.err();
        // Large ones are there twice for as short a time as can be.
        drop(content);
        let file = self.sources.add(location.display.as_str(), Arc::clone(&text));
        self.loaded.bases.insert(file, base);
        if is_foreign(&location) {
            self.loaded.foreign.insert(file);
        }
        let key = (location.identity.clone(), location.search_path());
        self.starts.push(self.loaded.hir.stmts.len());
        let module = match error {
            Some(error) => {
                self.report.add(syntax_error(file, &error));
                self.lower(file, &mgmt_syntax::parse(""))
            }
            None => {
                let parse = mgmt_syntax::parse_shared(&text);
                for error in parse.errors() {
                    match error.code.is_in_string() {
                        true => self.report.add(syntax_error(file, error)),
                        false => self.report.add_syntax(&text, syntax_error(file, error)),
                    }
                }
                self.lower(file, &parse)
            }
        };
        self.locations.push(location);
        self.known.insert(key, module);
        module
    }

    /// Notes what belongs to the program because this file does.
    fn belongings(&mut self, location: &Location, content: &[u8]) {
        let (deploy, base) = (&mut self.loaded.deploy, location.base());
        if is_embedded(&location.file) {
            return;
        }
        let is_first = self.locations.is_empty();
        match location.lock_file() {
            // What the program imports is in files, also if it itself is not.
            None if is_first => deploy.add_part(Part::Text("/main.mcl".into(), content.to_vec())),
            None => deploy.add_part(Part::File(location.file.clone())),
            Some(lock) => {
                deploy.add_part(Part::File(location.file.clone()));
                if is_first && self.resolver.files().is_file(lock) {
                    deploy.add_part(Part::File(lock.to_owned()));
                }
            }
        }
        if location.metadata().is_some() {
            deploy.add_part(Part::File(base.join("metadata.yaml")));
        }
        let files = location.metadata().map_or("files/", |metadata| &metadata.files);
        if !files.is_empty() && (!is_first || location.lock_file().is_some()) {
            deploy.add_part(Part::Directory(normal(&base.join(files))));
        }
    }

    fn lower(&mut self, file: FileId, parse: &mgmt_syntax::Parse) -> ModuleId {
        self.loaded.depth = self.loaded.depth.max(parse.depth());
        let (hir, report) = (&mut self.loaded.hir, &mut *self.report);
        let module = ModuleId(hir.modules.len() as u32);
        let lowered =
            mgmt_syntax::with_deep_stack(parse.depth(), || lower::lower(hir, report, file, &parse.tree()));
        match lowered {
            Ok(module) => module,
            Err(error) => {
                let span = Span { file, start: 0, end: 0 };
                self.report.add(
                    Code::UnreadableFile.at(
                        span,
                        format!("the file is nested too deep for the memory that there is: {error}"),
                    ),
                );
                let block = self.loaded.hir.push_block(Block {
                    stmts: Vec::new(),
                    parent: Parent::Module(module),
                    iterated: false,
                });
                self.loaded.hir.push_module(Module { file, block })
            }
        }
    }

    fn metadata_warnings(&mut self, location: &Location) {
        let (Some(metadata), Some((name, text))) = (location.metadata(), location.metadata_source()) else {
            return;
        };
        // Nobody can mend what somebody else has written.
        if metadata.warnings.is_empty() || is_foreign(location) {
            return;
        }
        let file = self.sources.add(name, text.clone());
        for note in &metadata.warnings {
            let span = Span { file, start: note.span.start as u32, end: note.span.end as u32 };
            let mut diagnostic = Code::BadMetadata.at(span, note.message.clone());
            diagnostic.severity = Severity::Warning;
            self.report.add(diagnostic.maybe_hint(note.hint.clone()));
        }
    }

    /// Follows the imports of a module, in all its blocks.
    fn imports(&mut self, module: ModuleId) {
        let is_main = module.0 == 0;
        if !is_main {
            self.effects(module);
        }
        let stmts = &self.loaded.hir.stmts;
        let start = self.starts[module.index()];
        let end = self.starts.get(module.index() + 1).copied().unwrap_or(stmts.len());
        let imports: Vec<(StmtId, Name, Span)> = (start..end)
            .filter_map(|index| match stmts[index].kind {
                StmtKind::Import { path, path_span, .. } => Some((StmtId(index as u32), path, path_span)),
                _ => None,
            })
            .collect();
        for (stmt, path, span) in imports {
            let path = self.loaded.hir.text(path).to_owned();
            let imported = self.import(module, stmt, &path, span);
            self.loaded.imports.insert(stmt, imported);
        }
    }

    fn import(&mut self, module: ModuleId, stmt: StmtId, path: &str, span: Span) -> Imported {
        let name = match ImportName::parse(path) {
            Ok(name) => name,
            Err(bad) => {
                // What stands behind its name has been reported with it.
                let path = path.trim_end_matches('/');
                let last = path.rsplit('/').next().unwrap_or(path);
                let alias = last.strip_suffix(".mcl").unwrap_or(last).replace('-', "_").to_ascii_lowercase();
                let alias = self.loaded.hir.names.intern(&alias);
                self.loaded.aliases.insert(stmt, alias);
                self.report.add(Code::BadImportName.at(span, bad.message).maybe_hint(bad.hint));
                return Imported::Failed;
            }
        };
        let alias = self.loaded.hir.names.intern(&name.alias);
        self.loaded.aliases.insert(stmt, alias);
        let from = self.locations[module.index()].clone();
        if name.class == ImportClass::System {
            return self.system(&name, &from, path, span);
        }
        match self.resolver.resolve(&name, &from) {
            Ok((location, content)) => Imported::Module(self.module(location, content)),
            Err(error) => {
                self.failed(&error, span);
                Imported::Failed
            }
        }
    }

    /// The module of a file, which may be there already.
    fn module(&mut self, location: Location, content: Vec<u8>) -> ModuleId {
        let key = (location.identity.clone(), location.search_path());
        match self.known.get(&key) {
            Some(&module) => module,
            None => self.file(location, content),
        }
    }

    fn system(&mut self, name: &ImportName, from: &Location, path: &str, span: Span) -> Imported {
        let native = self.library.module(&name.path).filter(|module| !module.path.is_empty());
        match (Embedded::find(&name.path), native) {
            (Some(embedded), native) => return self.embedded(embedded, native, from, span),
            (None, Some(native)) => return Imported::Library(native),
            (None, None) => {}
        }
        let paths = self.library.modules().map(|module| module.path).filter(|path| !path.is_empty());
        let paths = paths.chain(EMBEDDED.iter().map(|module| module.name));
        let hint = match self.resolver.local_namesake(name, from) {
            Some(local) => Some(format!("to import the local one, write `import \"{local}\"`")),
            None => did_you_mean(path, paths).map(|near| format!("did you mean `{near}`?")),
        };
        let hint = hint.unwrap_or_else(|| {
            "a file is imported by its path, such as \"lib/x.mcl\", and a directory with a slash at its end".to_owned()
        });
        self.report.add(Code::UnknownModule.at(span, format!("there is no module `{path}`")).hint(hint));
        Imported::Failed
    }

    fn embedded(
        &mut self,
        embedded: &Embedded,
        native: Option<&'static mgmt_funcs::Module>,
        from: &Location,
        span: Span,
    ) -> Imported {
        match self.resolver.embedded(embedded, from) {
            Ok((location, content)) => {
                let module = self.module(location, content);
                if let Some(native) = native {
                    self.loaded.natives.insert(module, native);
                }
                Imported::Module(module)
            }
            Err(error) => {
                self.failed(&error, span);
                Imported::Failed
            }
        }
    }

    fn failed(&mut self, error: &ResolveError, span: Span) {
        let diagnostic = match error {
            ResolveError::BadMetadata { display, text, note } => {
                let file = self.sources.add(display.as_str(), text.clone());
                let place = Span { file, start: note.span.start as u32, end: note.span.end as u32 };
                Code::BadMetadata.at(place, note.message.clone()).label(span, "imported here")
            }
            ResolveError::NotFound { .. } | ResolveError::NoMetadata { .. } | ResolveError::System { .. } => {
                Code::ImportNotFound.at(span, error.to_string())
            }
            ResolveError::NotDownloaded { .. } => Code::ModuleNotDownloaded.at(span, error.to_string()),
            ResolveError::Unreadable { .. }
            | ResolveError::LeadsOut { .. }
            | ResolveError::Mistrusted { .. } => Code::UnreadableFile.at(span, error.to_string()),
            ResolveError::LockMismatch { .. } | ResolveError::BadLock { .. } => {
                Code::LockMismatch.at(span, error.to_string())
            }
        };
        let mut diagnostic = diagnostic.maybe_hint(error.hint());
        for note in error.notes() {
            diagnostic = diagnostic.hint(note);
        }
        self.report.add(diagnostic);
    }

    /// A module defines things, and does nothing by itself.
    fn effects(&mut self, module: ModuleId) {
        let hir = &self.loaded.hir;
        let found: Vec<(Span, &'static str)> = hir[hir[module].block]
            .stmts
            .iter()
            .filter_map(|&stmt| {
                let what = match hir[stmt].kind {
                    StmtKind::Bind(..) | StmtKind::Func(_) | StmtKind::Class(_) | StmtKind::Import { .. } => {
                        return None;
                    }
                    StmtKind::Resource(_) => "a resource",
                    StmtKind::Edge(_) => "an edge",
                    StmtKind::If { .. } => "an `if`",
                    StmtKind::Loop { .. } => "a loop",
                    StmtKind::Panic(_) => "a `panic`",
                    StmtKind::Include { .. } => "an `include`",
                };
                Some((hir[stmt].span, what))
            })
            .collect();
        let mut found = found.into_iter();
        let Some((span, what)) = found.next() else { return };
        let importer = self
            .loaded
            .imports
            .iter()
            .filter(|(_, imported)| matches!(imported, Imported::Module(other) if *other == module))
            .map(|(stmt, _)| *stmt)
            .min()
            .map(|stmt| hir[stmt].span);
        let mut diagnostic =
            Code::EffectInModule.at(span, format!("{what} stands at the top of an imported file"));
        let more = found.len();
        for (span, what) in found.take(3) {
            diagnostic = diagnostic.label(span, format!("so does {what}"));
        }
        if more > 3 {
            diagnostic = diagnostic.hint(format!("there are {} more", more - 3));
        }
        if let Some(importer) = importer {
            diagnostic = diagnostic.label(importer, "imported here");
        }
        self.report.add(
            diagnostic
                .hint("an imported file defines variables, functions and classes; put this into a class"),
        );
    }

    /// Cuts circles of imports, and reports them.
    fn circles(&mut self) {
        let hir = &self.loaded.hir;
        let count = hir.modules.len();
        let module_of: FxHashMap<FileId, u32> =
            hir.modules.iter().enumerate().map(|(index, module)| (module.file, index as u32)).collect();
        let mut edges: Vec<Vec<(u32, StmtId)>> = vec![Vec::new(); count];
        for (&stmt, imported) in &self.loaded.imports {
            if let (Imported::Module(to), Some(&from)) = (imported, module_of.get(&hir[stmt].span.file)) {
                edges[from as usize].push((to.0, stmt));
            }
        }
        for list in &mut edges {
            list.sort_by_key(|(_, stmt)| *stmt);
        }
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let mut state = vec![State::New; count];
        let mut stack: Vec<(usize, usize)> = vec![(0, 0)];
        let mut cut = Vec::new();
        while let Some(&mut (node, ref mut edge)) = stack.last_mut() {
            state[node] = State::Open;
            match edges[node].get(*edge) {
                None => {
                    state[node] = State::Done;
                    stack.pop();
                }
                Some(&(to, stmt)) => {
                    *edge += 1;
                    match state[to as usize] {
                        State::New => stack.push((to as usize, 0)),
                        State::Open => {
                            let way: Vec<StmtId> = stack
                                .iter()
                                .skip_while(|(node, _)| *node != to as usize)
                                .filter_map(|&(node, edge)| Some(edges[node].get(edge.checked_sub(1)?)?.1))
                                .collect();
                            cut.push((stmt, way));
                        }
                        State::Done => {}
                    }
                }
            }
        }
        for (stmt, way) in cut {
            self.loaded.imports.insert(stmt, Imported::Failed);
            let hir = &self.loaded.hir;
            let StmtKind::Import { path, path_span, .. } = hir[stmt].kind else { continue };
            let way: Vec<StmtId> = way.into_iter().filter(|&other| other != stmt).collect();
            if way.is_empty() {
                self.report.add(
                    Code::RecursiveImport
                        .at(path_span, "the file imports itself")
                        .hint("a file sees what it defines without an import"),
                );
                continue;
            }
            let message = format!("importing `{}` goes in a circle", hir.text(path));
            let mut diagnostic = Code::RecursiveImport.at(path_span, message);
            for other in way.into_iter().take(20) {
                if let StmtKind::Import { path_span, .. } = hir[other].kind {
                    diagnostic = diagnostic.label(path_span, "which is imported here");
                }
            }
            self.report.add(diagnostic.hint("move what both files need into a third one"));
        }
    }
}

/// The diagnostic of a syntax error in a text.
pub fn syntax_error(file: FileId, error: &mgmt_syntax::SyntaxError) -> Diagnostic {
    let mut diagnostic = Diagnostic::error(error.message.as_ref())
        .with_code(error.code.id())
        .with_label(Label::primary(file.span(error.range)));
    if let Some(expected) = error.expected {
        diagnostic = diagnostic.here(format!("expected {expected}"));
    }
    if let Some(label) = &error.label {
        diagnostic = diagnostic.with_label(Label::secondary(file.span(label.range), label.message.as_ref()));
    }
    diagnostic.maybe_hint(error.hint.as_deref())
}

/// A file of a module that comes with mgmt or from elsewhere.
fn is_foreign(location: &Location) -> bool {
    location.is_from_elsewhere() || is_embedded(&location.file)
}
