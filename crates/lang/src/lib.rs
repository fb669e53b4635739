//! The mcl compiler, interpreter and incremental runtime: from source files to a typed program, and from there to a resource graph.
//!
//! The central type is [`Checked`], which [`check`] returns: the sources of a program and of everything that it imports, all
//! diagnostics, and the typed program. Three parts take it from there:
//!
//! - [`evaluate`], the reference interpreter, computes the resource graph at one moment from scratch;
//! - [`Running`] is the same program as a dataflow graph (crate `dataflow`): an event costs what it changes, and the result always
//!   equals that of [`evaluate`];
//! - [`Session`] is a program that is written piece by piece and asked questions: the read-eval-print loop.
//!
//! The front half, up to [`Checked`], goes through these steps; each looks at all of it, and what is wrong in one does not stop the next:
//!
//! 1. **Text to tree** (crate `syntax`), with all mistakes of the grammar.
//! 2. **Tree to data** ([`hir`]): sugar and layout go; what needs neither names nor types is checked.
//! 3. **Imports** ([`module`]): files are found and read, until nothing new comes.
//! 4. **Names** ([`scope`]): every name is resolved; circles are found; definitions are put in an order.
//! 5. **Types**: by unification, definition by definition. Functions, classes and modules are generic.
//! 6. **Lints**: what is allowed and probably not meant.
//!
//! Invariants
//! - Checking executes nothing and writes nothing. Its only effect is reading files through [`module::Files`].
//! - Any input gives a [`Checked`]. Depth costs stack, which is made as large as the text is deep.
//! - Time is near-linear in the size of the program: a generic definition is looked at once, however often it is used.
//! - A diagnostic has a code that [`CODES`] (or that of the crate `syntax`) explains, and its places lie within the texts.
//! - What the program does not use gives warnings and never errors, beyond the text itself and its names.
//!
//! - A running program opens no event source; it returns which it needs as data ([`WatchChange`]).
//!
//! Nothing here downloads anything: that is the crate `modules`.
//!
//! Deliberately absent: event sources, rendering of diagnostics, and what becomes of the resource graph.

mod codes;
mod diagnostic;
mod eval;
mod flow;
pub mod hir;
mod host;
mod infer;
mod lint;
mod load;
mod lower;
pub mod module;
mod order;
mod output;
pub mod scope;
mod session;
mod types;

use std::path::PathBuf;

pub use codes::CODES;
pub use eval::{DeclaredPart, StatementValue, evaluate, evaluate_statements};
pub use flow::{Change, FrozenPart, Inheritance, Outcome, Running, WatchChange};
pub use host::{Deploy, Onlooker, Part};
pub use load::syntax_error;
pub use session::{Input, NameKind, Named, Session, View, input_of};

use diagnostic::Report;
use mgmt_diagnostics::{Diagnostic, FileId, SourceMap};
use mgmt_funcs::Library;
use mgmt_resource::Registry;
use module::{Entry, Files, ResolveError, Resolver};
use rustc_hash::FxHashMap;

/// What a program is checked against.
pub struct Environment<'a> {
    /// The kinds of resources.
    pub kinds: &'a Registry,
    /// The functions.
    pub library: &'static Library,
    /// Where files come from.
    pub files: &'a dyn Files,
    /// Where downloaded modules are, if not in the usual place.
    pub module_path: Option<PathBuf>,
    /// Whether to look for what is probably not meant.
    pub lints: bool,
}

/// What came of a program.
#[derive(Debug)]
pub struct Checked {
    /// Its texts.
    pub sources: SourceMap,
    /// What there is to tell, in the order of the texts.
    pub diagnostics: Vec<Diagnostic>,
    /// The program.
    pub hir: hir::Hir,
    /// What its names mean.
    pub scopes: scope::Scopes,
    /// Where the files are that come with it.
    pub deploy: Deploy,
    typed: infer::Typed,
    library: &'static Library,
    bases: FxHashMap<FileId, String>,
    func_blocks: FxHashMap<hir::FuncId, hir::BlockId>,
    /// How much stack a walk over it needs.
    depth: u32,
}

impl Checked {
    /// The program can run.
    pub fn is_right(&self) -> bool {
        self.diagnostics.iter().all(|diagnostic| !diagnostic.is_error())
    }

    /// The directory of a file within the deploy.
    fn base(&self, file: FileId) -> &str {
        self.bases.get(&file).map_or("/", String::as_str)
    }
}

/// Checks a program.
///
/// # Errors
///
/// The program itself cannot be read. What it imports and cannot be read is a diagnostic.
pub fn check(entry: &Entry, environment: &Environment<'_>) -> Result<Checked, ResolveError> {
    let resolver = Resolver::new(environment.files, environment.module_path.clone());
    let mut sources = SourceMap::default();
    let mut report = Report::default();
    let loaded = load::load(entry, &resolver, environment.library, &mut sources, &mut report)?;
    let load::Loaded { mut hir, imports, aliases, natives, depth, bases, deploy, foreign, is_module } =
        loaded;
    let work = || {
        let (scopes, dependencies, usage) = scope::resolve(
            &hir,
            environment.library,
            scope::Imports { targets: imports, natives, aliases: &aliases },
            &mut report,
        );
        let typed = infer::infer(&mut hir, &scopes, &dependencies, environment.kinds, &mut report);
        if environment.lints {
            let ownership = lint::Ownership { foreign: &foreign, is_module };
            lint::lint(&hir, &scopes, &usage, &ownership, &mut report);
        }
        (scopes, typed, dependencies.longest_chain())
    };
    let (scopes, typed, chain) = mgmt_syntax::with_deep_stack(depth, work).map_err(|error| {
        ResolveError::Unreadable { display: "the program, which is nested too deep".to_owned(), error }
    })?;
    let func_blocks = hir
        .stmts
        .iter()
        .filter_map(|stmt| match stmt.kind {
            hir::StmtKind::Func(func) => Some((func, stmt.block)),
            _ => None,
        })
        .collect();
    Ok(Checked {
        sources,
        diagnostics: report.finish(),
        hir,
        scopes,
        deploy,
        typed,
        library: environment.library,
        bases,
        func_blocks,
        depth: depth.saturating_add(chain),
    })
}
