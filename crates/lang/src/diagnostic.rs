//! The diagnostics of a program: how they are made and collected.

use std::ops::Range;

use mgmt_diagnostics::{Diagnostic, FileId, Label, Severity, Span};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes::Code;

/// The step of the compiler that a rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// The text is not of the language.
    Parse,
    /// A construct is not well formed in itself.
    Structure,
    /// Something inside a string.
    Interpolation,
    /// A name, an import, an order of definitions.
    Scope,
    /// A type.
    Type,
    /// A resource that cannot be.
    Resource,
    /// A value that cannot be computed.
    Value,
    /// Nothing is wrong; something is probably not meant.
    Lint,
}

impl Code {
    /// A diagnostic of this code about a span: an error, or a warning if the code is that of a lint.
    pub(crate) fn at(self, span: Span, message: impl Into<String>) -> Diagnostic {
        let severity = if self.class() == Class::Lint { Severity::Warning } else { Severity::Error };
        Diagnostic::new(severity, message).with_code(self.id()).with_label(Label::primary(span))
    }
}

/// The diagnostics of a program, bounded in number.
#[derive(Debug, Default)]
pub(crate) struct Report {
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    /// What is probably not meant, until somebody wants to know.
    lints: Vec<Diagnostic>,
    /// The lines on which the text is wrong: what they seem to mean says nothing.
    broken: FxHashMap<FileId, Vec<Range<u32>>>,
    count: usize,
    /// There are errors before types are looked at, or names of kinds that do not exist.
    unsure: bool,
    /// How many were not kept.
    pub(crate) dropped: usize,
}

impl Report {
    /// Of errors, of warnings and of lints, so that there is always an error if there was one.
    const LIMIT: usize = 1000;

    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        self.count += 1;
        let code = diagnostic.code.and_then(Code::from_id);
        // A code of another crate is one of the grammar.
        let class = code.map_or(Class::Parse, Code::class);
        if !matches!(class, Class::Parse | Class::Interpolation) && self.is_broken(&diagnostic) {
            return;
        }
        let is_name = class < Class::Type || code == Some(Code::UnknownKind);
        self.unsure |= diagnostic.is_error() && is_name;
        let list = match class {
            Class::Lint => &mut self.lints,
            _ if diagnostic.is_error() => &mut self.errors,
            _ => &mut self.warnings,
        };
        if list.len() < Self::LIMIT {
            list.push(diagnostic);
        } else {
            self.dropped += 1;
        }
    }

    /// Adds what is wrong with a text itself. From then on its lines are not held against the program.
    pub(crate) fn add_syntax(&mut self, text: &str, diagnostic: Diagnostic) {
        for label in &diagnostic.labels {
            let (start, end) = (label.span.start as usize, label.span.end as usize);
            let before = text.get(..start).unwrap_or_default();
            let after = text.get(end..).unwrap_or_default();
            let start = before.rfind('\n').map_or(0, |newline| newline + 1);
            let end = end + after.find('\n').unwrap_or(after.len());
            self.broken.entry(label.span.file).or_default().push(start as u32..end as u32);
        }
        self.add(diagnostic);
    }

    fn is_broken(&self, diagnostic: &Diagnostic) -> bool {
        let Some(span) = diagnostic.span() else { return false };
        let lines = self.broken.get(&span.file).map(Vec::as_slice).unwrap_or_default();
        lines.iter().any(|line| span.start <= line.end && line.start <= span.end)
    }

    /// How much has been said so far, to find out whether something is said.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Names and their uses cannot be trusted.
    pub(crate) fn is_unsure(&self) -> bool {
        self.unsure
    }

    /// Tells what is probably not meant too, except of modules that somebody else has written.
    pub(crate) fn tell_lints(&mut self, foreign: &FxHashSet<FileId>) {
        self.lints.retain(|found| found.span().is_none_or(|span| !foreign.contains(&span.file)));
        self.warnings.append(&mut self.lints);
    }

    /// In the order of the texts, without repetitions.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.errors.append(&mut self.warnings);
        let key = |found: &Diagnostic| (found.span(), found.severity, found.code);
        self.errors.sort_by_key(key);
        self.errors.dedup();
        // That a kind does not exist is said where it is first used.
        let mut kinds: FxHashSet<String> = FxHashSet::default();
        let unknown = Some(Code::UnknownKind.id());
        self.errors.retain(|found| found.code != unknown || kinds.insert(found.message.clone()));
        self.errors
    }
}
