//! What there is to tell about a program.

use crate::codes::Code;
use crate::source::Span;

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
        self.hints.push(hint.into());
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
    list: Vec<Diagnostic>,
    errors: usize,
    /// How many were not kept.
    pub(crate) dropped: usize,
}

impl Report {
    const LIMIT: usize = 1000;

    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        self.errors += usize::from(diagnostic.level == Level::Error);
        if self.list.len() < Self::LIMIT {
            self.list.push(diagnostic);
        } else {
            self.dropped += 1;
        }
    }

    /// How many errors there are so far.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// In the order of the texts, without repetitions.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.list.sort_by(|a, b| (a.span(), a.level, a.code).cmp(&(b.span(), b.level, b.code)));
        self.list.dedup();
        self.list
    }
}
