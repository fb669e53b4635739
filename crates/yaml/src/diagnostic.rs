//! The diagnostics of a file, collected within bounds.

use std::collections::HashSet;

use mgmt_diagnostics::{Diagnostic, FileId, Label, Severity};
use mgmt_resource::did_you_mean;

use crate::codes;
use crate::tree::Span;

/// The diagnostics of a file, bounded in number.
#[derive(Debug)]
pub(crate) struct Report<'s> {
    source: &'s [u8],
    /// Unknown keys are errors.
    strict: bool,
    found: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
    /// What was said once and is not to be said again.
    said: HashSet<(&'static str, String)>,
    /// How many more words may be compared to find suggestions.
    comparisons: usize,
}

/// The number of errors, and of warnings, that are kept.
const MAX_KEPT: usize = 100;

/// The number of words that may be compared per file to find suggestions.
const MAX_COMPARISONS: usize = 20_000;

impl<'s> Report<'s> {
    pub(crate) fn new(source: &'s [u8], strict: bool) -> Report<'s> {
        Report {
            source,
            strict,
            found: Vec::new(),
            errors: 0,
            warnings: 0,
            said: HashSet::new(),
            comparisons: MAX_COMPARISONS,
        }
    }

    pub(crate) fn error(&mut self, code: &'static str, at: Span, message: impl Into<String>) -> Note<'_, 's> {
        self.note(Severity::Error, code, at, message.into())
    }

    pub(crate) fn warning(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
    ) -> Note<'_, 's> {
        self.note(Severity::Warning, code, at, message.into())
    }

    /// About a key that nobody reads: an error if the caller of the crate wants to be strict.
    pub(crate) fn unknown_key(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
    ) -> Note<'_, 's> {
        let severity = if self.strict { Severity::Error } else { Severity::Warning };
        self.note(severity, code, at, message.into())
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Whether one more warning would be kept.
    pub(crate) fn wants_warnings(&self) -> bool {
        self.warnings < MAX_KEPT
    }

    /// Whether this is the first time that something is said.
    pub(crate) fn first(&mut self, code: &'static str, what: &str) -> bool {
        self.said.insert((code, what.to_owned()))
    }

    /// The candidate that was probably meant. Gives up when a file has asked for too much.
    pub(crate) fn suggest<'c>(
        &mut self,
        word: &str,
        candidates: impl Iterator<Item = &'c str>,
    ) -> Option<&'c str> {
        let length = word.len();
        // An edit changes the length by one character, of at most four bytes.
        let near = candidates.filter(|candidate| candidate.len().abs_diff(length) <= 4 * (length / 3 + 1));
        let left = self.comparisons;
        let mut used = 0;
        let best = did_you_mean(word, near.take(left).inspect(|_| used += 1));
        self.comparisons = left - used.min(left);
        best
    }

    /// Everything in the order of the source.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|diagnostic| diagnostic.span().map_or(0, |span| span.start));
        for (severity, count, what) in
            [(Severity::Error, self.errors, "errors"), (Severity::Warning, self.warnings, "warnings")]
        {
            if count > MAX_KEPT {
                let message = format!("there are {} more {what}", count - MAX_KEPT);
                let whole = Label::primary(FileId::FIRST.whole());
                self.found.push(Diagnostic::new(severity, message).with_code(codes::MORE).with_label(whole));
            }
        }
        self.found
    }

    fn note(&mut self, severity: Severity, code: &'static str, at: Span, message: String) -> Note<'_, 's> {
        let span = self.clip(at);
        let same = |other: &Diagnostic| {
            other.code == Some(code) && other.message == message && other.span() == Some(span)
        };
        // What an alias repeats is said once.
        if self.found.iter().any(same) {
            return Note { report: self, kept: false };
        }
        let count = match severity {
            Severity::Error => &mut self.errors,
            _ => &mut self.warnings,
        };
        *count += 1;
        let kept = *count <= MAX_KEPT;
        if kept {
            let found = Diagnostic::new(severity, message).with_code(code).with_label(Label::primary(span));
            self.found.push(found);
        }
        Note { report: self, kept }
    }

    /// Labels stay on one line, inside the source, and do not end inside a character.
    fn clip(&self, at: Span) -> mgmt_diagnostics::Span {
        let start = (at.start as usize).min(self.source.len());
        let end = (at.end as usize).clamp(start, self.source.len());
        let bytes = self.source.get(start..end).unwrap_or_default();
        let line = bytes.iter().position(|byte| *byte == b'\n' || *byte == b'\r').unwrap_or(bytes.len());
        FileId::FIRST.span_of(start..start + line)
    }
}

/// A diagnostic in the making.
pub(crate) struct Note<'r, 's> {
    report: &'r mut Report<'s>,
    kept: bool,
}

impl Note<'_, '_> {
    /// Words beside the primary label.
    pub(crate) fn label(self, text: impl Into<String>) -> Self {
        self.change(|diagnostic| {
            if let Some(label) = diagnostic.labels.first_mut() {
                label.message = text.into();
            }
        })
    }

    /// Another place that it concerns.
    pub(crate) fn also(self, at: Span, text: impl Into<String>) -> Self {
        let span = self.report.clip(at);
        self.change(|diagnostic| {
            diagnostic.labels.push(Label::secondary(span, text));
        })
    }

    /// What to do about it.
    pub(crate) fn hint(self, text: impl Into<String>) -> Self {
        self.change(|diagnostic| diagnostic.hints.push(text.into()))
    }

    /// What to do about it, if there is something.
    pub(crate) fn maybe_hint(self, text: Option<impl Into<String>>) -> Self {
        match text {
            Some(text) => self.hint(text),
            None => self,
        }
    }

    fn change(self, change: impl FnOnce(&mut Diagnostic)) -> Self {
        if self.kept
            && let Some(diagnostic) = self.report.found.last_mut()
        {
            change(diagnostic);
        }
        self
    }
}
