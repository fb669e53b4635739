//! A program that is written piece by piece, as somebody types it.
//!
//! A [`Session`] is what has been typed and holds: pieces of text, each of which was right when it came. Together they are one
//! program, which is checked as any other; what is told about it is told about the piece that it is in. What defines
//! a name anew takes the place of what defined it before.
//!
//! A question is an expression after all that. It is asked as a resource that holds its value, so that it is
//! typed, computed and followed by what does that for programs, and there is no second meaning of an expression.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgmt_diagnostics::{Diagnostic, FileId, Severity, SourceMap, Span};
use mgmt_resource::ResourceGraph;
use mgmt_syntax::ast::{self, AstNode as _};
use mgmt_syntax::{SyntaxKind, TextRange};
use mgmt_value::Value;

use crate::hir::{Alias, ClassId, ExprId, FuncId, ModuleId, StmtKind, VarId};
use crate::module::{Entry, FileEntry, Files, ImportName, Mistrusted, ResolveError, Resolver};
use crate::scope::{Imported, Target, UNUSED};
use crate::types::Ty;
use crate::{Checked, Environment, check};

/// The kind, name and parameter that hold the answer to a question.
const ANSWER: (&str, &str, &str) = ("value", "the value that was asked for", "any");
/// What a question is bound to when it is not right, so that its mistakes are told.
const BOUND: &str = "$the_value_that_was_asked_for = ";

/// What has been typed so far.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The program that the rest stands on: how it was named, and its first file.
    ground: Option<(Entry, PathBuf)>,
    pieces: Vec<Piece>,
    /// How many pieces have been tried.
    count: usize,
}

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Space and comments.
    Nothing,
    /// A bracket is still open.
    Unfinished,
    /// Statements, right or not.
    Statements,
    /// An expression, right or not.
    Expression,
}

#[derive(Clone, Debug)]
struct Piece {
    name: Arc<str>,
    text: Arc<str>,
    statements: Vec<Statement>,
}

#[derive(Clone, Debug)]
struct Statement {
    range: Range<usize>,
    defines: Option<Definition>,
    /// It may declare resources.
    declares: bool,
    /// It does, and names nothing.
    is_effect: bool,
    /// Another one has taken its place.
    is_gone: bool,
}

/// What a statement defines, and no other may define.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Definition {
    Variable(String),
    Function(String),
    Class(String),
    Alias(String),
    Star(String),
    /// Kind and name, as they are written.
    Resource(String, String),
}

/// The code of a string without an end.
const UNTERMINATED_STRING: &str = "M0100";

/// What a text is: what has fewer mistakes as one thing is not the other.
#[must_use]
pub fn input_of(text: &str) -> Input {
    let parse = mgmt_syntax::parse(text);
    let mut open = 0i64;
    for token in parse.syntax().tokens() {
        match token.kind() {
            SyntaxKind::LeftParen | SyntaxKind::LeftBracket | SyntaxKind::LeftBrace => open += 1,
            SyntaxKind::RightParen | SyntaxKind::RightBracket | SyntaxKind::RightBrace => open -= 1,
            _ => {}
        }
    }
    let first_mistake = |parse: &mgmt_syntax::Parse, shift: usize| {
        parse.errors().first().map(|error| usize::from(error.range.start()).saturating_sub(shift))
    };
    let bound = mgmt_syntax::parse(&format!("{BOUND}{text}"));
    let is_one = bound.tree().statements().count() == 1;
    match (first_mistake(&parse, 0), first_mistake(&bound, BOUND.len())) {
        _ if open > 0 => Input::Unfinished,
        // A string goes on in the next line.
        _ if bound.errors().iter().any(|error| error.code.id() == UNTERMINATED_STRING) => Input::Unfinished,
        (None, _) if parse.tree().statements().next().is_none() => Input::Nothing,
        (None, _) => Input::Statements,
        (Some(_), None) if is_one => Input::Expression,
        // What can be understood further is what was meant.
        (Some(as_statements), Some(as_expression)) if as_expression > as_statements => Input::Expression,
        _ => Input::Statements,
    }
}

impl Session {
    /// Stands on a program that is in files.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn on(entry: Entry, environment: &Environment<'_>) -> Result<Session, ResolveError> {
        let resolver = Resolver::new(environment.files, environment.module_path.clone());
        let (location, content) = resolver.entry(&entry)?;
        let text = String::from_utf8_lossy(&content);
        let piece = Piece::new(location.display.as_str().into(), &text);
        Ok(Session { ground: Some((entry, location.file)), pieces: vec![piece], count: 0 })
    }

    /// The same with statements after it. What they define anew is gone from before.
    #[must_use]
    pub fn with(&self, text: &str) -> Session {
        let mut session = self.clone();
        let piece = session.next_piece(text);
        let defined: Vec<&Definition> =
            piece.statements.iter().filter_map(|statement| statement.defines.as_ref()).collect();
        for statement in session.pieces.iter_mut().flat_map(|piece| &mut piece.statements) {
            statement.is_gone |= statement.defines.as_ref().is_some_and(|name| defined.contains(&name));
        }
        // What has nothing left is only in the way. The first piece of a program in files is that program.
        let mut is_ground = session.ground.is_some();
        session.pieces.retain(|piece| {
            std::mem::take(&mut is_ground) || piece.statements.iter().any(|statement| !statement.is_gone)
        });
        session.pieces.push(piece);
        session
    }

    /// The last piece may declare resources.
    #[must_use]
    pub fn has_effects(&self) -> bool {
        self.pieces.last().is_some_and(|piece| piece.statements.iter().any(|statement| statement.declares))
    }

    /// A text was tried, and is not kept.
    pub fn skip(&mut self) {
        self.count += 1;
    }

    fn next_piece(&mut self, text: &str) -> Piece {
        self.count += 1;
        Piece::new(format!("<input {}>", self.count).into(), text)
    }

    /// Checks everything.
    ///
    /// # Errors
    ///
    /// The program that it stands on cannot be read any more.
    pub fn check(&self, environment: &Environment<'_>) -> Result<View, ResolveError> {
        let mut text = Composed::default();
        for piece in &self.pieces {
            text.add(piece, |statement| !statement.is_gone);
        }
        self.view(text, false, environment)
    }

    /// Checks an expression, after everything that is defined.
    ///
    /// # Errors
    ///
    /// The program that it stands on cannot be read any more.
    pub fn ask(&self, expression: &str, environment: &Environment<'_>) -> Result<View, ResolveError> {
        let piece = self.clone().next_piece(expression);
        let mut text = Composed::default();
        for piece in &self.pieces {
            text.add(piece, |statement| !statement.is_gone && !statement.is_effect);
        }
        let is_right = mgmt_syntax::parse(&format!("{BOUND}{expression}")).errors().is_empty();
        if !is_right {
            text.text.push_str(BOUND);
            text.add(&piece, |_| true);
            return self.view(text, false, environment);
        }
        let (kind, name, field) = ANSWER;
        text.text.push_str(&format!("{kind} \"{name}\" {{\n\t{field} => "));
        text.add(&piece, |_| true);
        text.text.push_str("}\n");
        self.view(text, true, environment)
    }

    fn view(
        &self,
        text: Composed,
        is_question: bool,
        environment: &Environment<'_>,
    ) -> Result<View, ResolveError> {
        let Composed { text, places } = text;
        let checked = match &self.ground {
            None => check(&Entry::Code(text), environment)?,
            Some((entry, file)) => {
                let files = Overlay { files: environment.files, file, text: text.as_bytes() };
                check(
                    entry,
                    &Environment {
                        files: &files,
                        module_path: environment.module_path.clone(),
                        ..*environment
                    },
                )?
            }
        };
        let mut sources = checked.sources.clone();
        let places = places.into_iter().map(|(range, name, text)| (range, sources.add(name, text))).collect();
        Ok(View { checked: Arc::new(checked), sources, places, is_question })
    }
}

impl Piece {
    fn new(name: Arc<str>, text: &str) -> Piece {
        let parse = mgmt_syntax::parse(text);
        let statements = parse.tree().statements().map(|statement| Statement::new(&statement)).collect();
        Piece { name, text: text.into(), statements }
    }
}

impl Statement {
    fn new(statement: &ast::Statement) -> Statement {
        let (defines, is_effect) = match statement {
            ast::Statement::Bind(bind) => (
                bind.variable().and_then(|name| name.name_token()).map(text_of).map(Definition::Variable),
                false,
            ),
            ast::Statement::Function(function) => {
                (function.name_token().map(text_of).map(Definition::Function), false)
            }
            ast::Statement::Class(class) => {
                (class.name().map(|name| Definition::Class(name.syntax().to_string())), false)
            }
            ast::Statement::Include(include) => {
                let alias = include.alias_token().map(text_of).map(Definition::Alias);
                let is_effect = alias.is_none();
                (alias, is_effect)
            }
            ast::Statement::Import(import) => (imported(import), false),
            ast::Statement::Resource(resource) => {
                let key = |resource: &ast::Resource| {
                    let kind = resource.kind()?.syntax().to_string();
                    Some(Definition::Resource(kind, resource.name()?.syntax().to_string()))
                };
                (key(resource), true)
            }
            _ => (None, true),
        };
        let declares = is_effect || matches!(statement, ast::Statement::Include(_));
        Statement { range: range(statement.range()), defines, declares, is_effect, is_gone: false }
    }
}

fn imported(import: &ast::Import) -> Option<Definition> {
    let token = import.name_token()?;
    let path = token.text().trim_matches('"');
    match import.alias() {
        Some(ast::ImportAlias::Star) => Some(Definition::Star(path.to_owned())),
        Some(ast::ImportAlias::Name(name)) => Some(Definition::Alias(name.to_string())),
        None => ImportName::parse(path).ok().map(|name| Definition::Alias(name.alias)),
    }
}

fn text_of(token: mgmt_syntax::SyntaxToken) -> String {
    token.text().to_owned()
}

fn range(range: TextRange) -> Range<usize> {
    range.start().into()..range.end().into()
}

/// The text of a program that is being put together, and where its pieces are in it.
#[derive(Default)]
struct Composed {
    text: String,
    places: Vec<(Range<u32>, Arc<str>, Arc<str>)>,
}

impl Composed {
    /// Adds the wanted statements of a piece, each at its place. Space stands for the others.
    fn add(&mut self, piece: &Piece, wanted: impl Fn(&Statement) -> bool) {
        let start = self.text.len();
        let mut done = 0;
        for statement in piece.statements.iter().filter(|statement| !wanted(statement)) {
            self.text.push_str(&piece.text[done..statement.range.start]);
            let gone = &piece.text[statement.range.clone()];
            // As many bytes, on as many lines.
            self.text.extend(gone.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            done = statement.range.end;
        }
        self.text.push_str(&piece.text[done..]);
        // A text has fewer than 2³² bytes; what is longer is refused by the parser.
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        self.places.push((place(start)..place(self.text.len()), piece.name.clone(), piece.text.clone()));
        self.text.push('\n');
    }
}

/// The files, but one of them has another text.
struct Overlay<'a> {
    files: &'a dyn Files,
    file: &'a Path,
    text: &'a [u8],
}

impl Files for Overlay<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path == self.file { Ok(self.text.to_vec()) } else { self.files.read(path) }
    }

    fn for_each_piece(&self, path: &Path, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if path == self.file { take(self.text) } else { self.files.for_each_piece(path, take) }
    }

    fn is_file(&self, path: &Path) -> bool {
        self.files.is_file(path)
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.files.is_directory(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.files.canonical(path)
    }

    fn entries(&self, directory: &Path) -> io::Result<Vec<FileEntry>> {
        self.files.entries(directory)
    }

    fn current_directory(&self) -> PathBuf {
        self.files.current_directory()
    }

    fn shows_root(&self) -> bool {
        self.files.shows_root()
    }

    fn standard_input(&self) -> io::Result<Vec<u8>> {
        self.files.standard_input()
    }

    fn mistrusted(&self, file: &Path, program: &Path) -> Option<Mistrusted> {
        if file == self.file { None } else { self.files.mistrusted(file, program) }
    }
}

/// What came of a session, and perhaps of a question.
#[derive(Debug)]
pub struct View {
    /// The program that all pieces make.
    pub checked: Arc<Checked>,
    /// Its texts, and those of the pieces.
    pub sources: SourceMap,
    /// Where the pieces are in the text of the program.
    places: Vec<(Range<u32>, FileId)>,
    is_question: bool,
}

/// A name that can be used, and what to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// As it is written: `$x`, `f`, `fmt.printf`.
    pub text: String,
    /// What it is.
    pub what: NameKind,
    /// The type of a variable, or how a function or a class is declared; may be empty.
    pub about: String,
    /// It is defined in the session itself, and not by what that imports or includes.
    pub is_own: bool,
}

/// What a name can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameKind {
    /// A variable or a constant.
    Variable,
    /// A function.
    Function,
    /// A class.
    Class,
    /// An import or an include, behind whose name others stand.
    Alias,
}

impl View {
    /// What is to be told, about the pieces, and whether the last one can be kept.
    ///
    /// Mistakes in what nothing uses do no harm to a program; somebody who is typing wants to hear of them at once. Warnings
    /// about former pieces have been heard.
    #[must_use]
    pub fn verdict(&self) -> (Vec<Diagnostic>, bool) {
        let last = self.places.last().map(|(_, file)| *file);
        let mut told = Vec::new();
        for diagnostic in &self.checked.diagnostics {
            let mut diagnostic = self.located(diagnostic);
            if !self.is_question && diagnostic.hints.iter().any(|hint| hint == UNUSED) {
                diagnostic.hints.retain(|hint| hint != UNUSED);
                diagnostic.severity = Severity::Error;
            }
            let is_news = diagnostic.span().map(|span| span.file) == last;
            if diagnostic.is_error() || is_news {
                told.push(diagnostic);
            }
        }
        let is_right = told.iter().all(|diagnostic| !diagnostic.is_error());
        (told, is_right)
    }

    /// Something about the program, told about the piece that it is in.
    #[must_use]
    pub fn located(&self, diagnostic: &Diagnostic) -> Diagnostic {
        let mut diagnostic = diagnostic.clone();
        for label in &mut diagnostic.labels {
            label.span = self.place(label.span);
        }
        diagnostic
    }

    /// A place in the program, as that in the piece that it is in.
    #[must_use]
    pub fn place(&self, span: Span) -> Span {
        let main = self.checked.hir.modules.first().map(|module| module.file);
        if Some(span.file) != main {
            return span;
        }
        // What lies between pieces is told about the end of the one before it.
        let before = self.places.iter().rev().find(|(range, _)| range.start <= span.start);
        let Some((range, file)) = before.or(self.places.first()) else { return span };
        let within = |at: u32| at.clamp(range.start, range.end) - range.start;
        Span { file: *file, start: within(span.start), end: within(span.end) }
    }

    fn question(&self) -> Option<ExprId> {
        let hir = &self.checked.hir;
        let &last = hir[hir.modules.first()?.block].stmts.last()?;
        match &hir[last].kind {
            StmtKind::Resource(resource) if self.is_question => Some(resource.fields.first()?.value),
            _ => None,
        }
    }

    /// The type of the expression that was asked about.
    #[must_use]
    pub fn answer_type(&self) -> Option<String> {
        self.type_of(self.question()?)
    }

    /// The value of the expression that was asked about, in the graph of the program.
    #[must_use]
    pub fn answer(&self, graph: &ResourceGraph) -> Option<Value> {
        let (kind, name, field) = ANSWER;
        let found =
            graph.nodes().find(|(_, spec)| spec.id.kind == kind && spec.id.name.as_str() == Some(name));
        found?.1.resource.get(field)
    }

    fn type_of(&self, expr: ExprId) -> Option<String> {
        let typed = &self.checked.typed;
        let ty = (*typed.exprs.get(expr.index())?)?;
        Some(typed.types.text(&self.checked.hir.names, ty))
    }

    /// The names that can be used at the end of the program, in the order of their definitions.
    #[must_use]
    pub fn names(&self) -> Vec<Named> {
        let mut names = Vec::new();
        if !self.checked.hir.modules.is_empty() {
            self.names_of_module(ModuleId(0), "", &mut names);
        }
        names
    }

    fn names_of_module(&self, module: ModuleId, prefix: &str, names: &mut Vec<Named>) {
        let hir = &self.checked.hir;
        let is_main = module == ModuleId(0);
        for &stmt in &hir[hir[module].block].stmts {
            let mut add = |sigil: &str, name: &str, what, about: Cow<'_, str>| {
                let text = format!("{sigil}{prefix}{name}");
                let is_own = is_main && prefix.is_empty();
                names.push(Named { text, what, about: about.into_owned(), is_own });
            };
            match &hir[stmt].kind {
                StmtKind::Bind(var, value) => {
                    let ty = self.type_of(*value).unwrap_or_default();
                    add("$", hir.text(hir[*var].name), NameKind::Variable, ty.into());
                }
                StmtKind::Func(func) => {
                    if let Some((name, _)) = hir[*func].name {
                        add("", hir.text(name), NameKind::Function, self.signature(*func).into());
                    }
                }
                StmtKind::Class(class) => {
                    add(
                        "",
                        hir.text(hir[*class].name),
                        NameKind::Class,
                        self.declaration(hir[stmt].span).into(),
                    );
                }
                // What an imported file imports is its own.
                StmtKind::Import { path, alias, .. } if is_main => {
                    let alias = match alias {
                        Alias::Name(name, _) => Some(hir.text(*name).to_owned()),
                        Alias::Default => ImportName::parse(hir.text(*path)).ok().map(|name| name.alias),
                        Alias::Star => None,
                    };
                    if let Some(alias) = &alias {
                        add("", alias, NameKind::Alias, self.declaration(hir[stmt].span).into());
                    }
                    let prefix = alias.map(|alias| format!("{alias}.")).unwrap_or_default();
                    match self.checked.scopes.imports.get(&stmt) {
                        Some(Imported::Module(module)) => {
                            self.names_of_module(*module, &prefix, names);
                            if let Some(native) = self.checked.scopes.natives.get(module) {
                                of_library(native, &prefix, names);
                            }
                        }
                        Some(Imported::Library(module)) => of_library(module, &prefix, names),
                        Some(Imported::Failed) | None => {}
                    }
                }
                StmtKind::Include { alias: Some((alias, _)), .. } => {
                    let alias = hir.text(*alias);
                    add("", alias, NameKind::Alias, self.declaration(hir[stmt].span).into());
                    if let Some(Target::Class(class)) =
                        self.checked.scopes.of_include(stmt).map(|found| found.target)
                    {
                        let prefix = format!("{prefix}{alias}.");
                        self.names_of_class(class, &prefix, names);
                    }
                }
                _ => {}
            }
        }
    }

    fn names_of_class(&self, class: ClassId, prefix: &str, names: &mut Vec<Named>) {
        let hir = &self.checked.hir;
        for &stmt in &hir[hir[class].body].stmts {
            let (text, what, about) = match &hir[stmt].kind {
                StmtKind::Bind(var, value) => {
                    let text = format!("${prefix}{}", hir.text(hir[*var].name));
                    (text, NameKind::Variable, self.type_of(*value).unwrap_or_default())
                }
                StmtKind::Func(func) => {
                    let Some((name, _)) = hir[*func].name else { continue };
                    (format!("{prefix}{}", hir.text(name)), NameKind::Function, self.signature(*func))
                }
                _ => continue,
            };
            names.push(Named { text, what, about, is_own: false });
        }
    }

    /// A function with the types that were found for it; `_` is any type.
    fn signature(&self, func: FuncId) -> String {
        let (hir, typed) = (&self.checked.hir, &self.checked.typed);
        let func = &hir[func];
        let text = |ty: Option<Ty>| ty.map_or_else(|| "_".to_owned(), |ty| typed.types.text(&hir.names, ty));
        let param = |param: &VarId| {
            let ty = typed.vars.get(param.index()).copied().flatten();
            format!("${} {}", hir.text(hir[*param].name), text(ty))
        };
        let params: Vec<String> = func.params.iter().map(param).collect();
        let name = func.name.map(|(name, _)| hir.text(name)).unwrap_or_default();
        let result = typed.exprs.get(func.body.index()).copied().flatten();
        format!("func {name}({}) {}", params.join(", "), text(result))
    }

    /// A statement up to its body.
    fn declaration(&self, span: Span) -> String {
        let text = self.checked.sources.text(span);
        let head = text.split('{').next().unwrap_or_default();
        head.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn of_library(module: &'static mgmt_funcs::Module, prefix: &str, names: &mut Vec<Named>) {
    let public = module.functions.iter().filter(|function| !function.name.starts_with('_'));
    names.extend(public.map(|function| Named {
        text: format!("{prefix}{}", function.name),
        what: NameKind::Function,
        about: function.signature(),
        is_own: false,
    }));
    names.extend(module.constants.iter().map(|constant| Named {
        text: format!("${prefix}{}", constant.name),
        what: NameKind::Variable,
        about: (constant.value)().ty().to_string(),
        is_own: false,
    }));
}
