//! What there is to tell about a program.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes::Code;
use crate::source::{FileId, Span};

/// Something that is wrong with a program, or probably not as meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// How bad it is.
    pub level: Level,
    /// Which rule it is about: the key of [`crate::CODES`].
    pub code: &'static str,
    /// The step that noticed it.
    pub class: Class,
    /// What is wrong, in one sentence without a final stop.
    pub message: String,
    /// The places, the one that it is about first.
    pub labels: Vec<Label>,
    /// What to do about it.
    pub hints: Vec<String>,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The program cannot run.
    Error,
    /// It runs, probably not as meant.
    Warning,
}

/// The step of the compiler that a rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
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

/// A place and what to say about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// What to say; may be empty.
    pub text: String,
    /// It is the place that the message is about, not one that explains it.
    pub primary: bool,
}

impl Diagnostic {
    /// Something wrong at a place.
    pub(crate) fn new(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            level: if code.class() == Class::Lint { Level::Warning } else { Level::Error },
            code: code.id(),
            class: code.class(),
            message: message.into(),
            labels: vec![Label { span, text: String::new(), primary: true }],
            hints: Vec::new(),
        }
    }

    /// Says something at the place that it is about.
    pub(crate) fn here(mut self, text: impl Into<String>) -> Diagnostic {
        if let Some(first) = self.labels.first_mut() {
            first.text = text.into();
        }
        self
    }

    /// Another place that explains it.
    pub(crate) fn label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        // Two notes at one place are one note too many.
        if self.labels.iter().all(|label| label.span != span) {
            self.labels.push(Label { span, text: text.into(), primary: false });
        }
        self
    }

    /// Says what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        let hint = hint.into();
        if !self.hints.contains(&hint) {
            self.hints.push(hint);
        }
        self
    }

    /// Says what to do, if there is something to say.
    pub(crate) fn maybe_hint(self, hint: Option<String>) -> Diagnostic {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// Where it is.
    pub fn span(&self) -> Option<Span> {
        self.labels.first().map(|label| label.span)
    }
}

/// Collects what there is to tell, no more than anybody reads.
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
        if !matches!(diagnostic.class, Class::Parse | Class::Interpolation) && self.is_broken(&diagnostic) {
            return;
        }
        let is_name = diagnostic.class < Class::Type || diagnostic.code == Code::UnknownKind.id();
        self.unsure |= diagnostic.level == Level::Error && is_name;
        let list = match (diagnostic.class, diagnostic.level) {
            (Class::Lint, _) => &mut self.lints,
            (_, Level::Error) => &mut self.errors,
            (_, Level::Warning) => &mut self.warnings,
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
        self.errors.sort_by(|a, b| (a.span(), a.level, a.code).cmp(&(b.span(), b.level, b.code)));
        self.errors.dedup();
        // That a kind does not exist is said where it is first used.
        let mut kinds: FxHashSet<String> = FxHashSet::default();
        let unknown = Code::UnknownKind.id();
        self.errors.retain(|found| found.code != unknown || kinds.insert(found.message.clone()));
        self.errors
    }
}
