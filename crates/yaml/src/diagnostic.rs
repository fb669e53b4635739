//! What is wrong with a file, as plain data. How it looks on a terminal is decided elsewhere.

use std::collections::HashSet;
use std::ops::Range;

use mgmt_resource::did_you_mean;

use crate::codes;
use crate::tree::Span;

/// One thing to tell about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub level: Level,
    /// A stable code; [`crate::CODES`] explains it.
    pub code: &'static str,
    /// What is wrong, in one sentence without a period.
    pub message: String,
    /// Where. One of them is primary.
    pub labels: Vec<Label>,
    /// What to do about it.
    pub hints: Vec<String>,
}

/// How bad a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// There is no graph.
    Error,
    /// There is a graph, and it may not be what was meant.
    Warning,
}

/// A piece of the source with something to say about it. It never spans lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The bytes.
    pub span: Range<usize>,
    /// What the diagnostic is about, as opposed to what it also concerns.
    pub primary: bool,
    /// A few words; may be empty.
    pub text: String,
}

impl Diagnostic {
    /// The label that the diagnostic is about.
    pub fn primary(&self) -> Option<&Label> {
        self.labels.iter().find(|label| label.primary)
    }
}

/// Collects what is found, and keeps that within bounds.
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

/// How many errors, and how many warnings, are worth reading.
const MOST: usize = 100;

/// How many words may be compared per file to find suggestions.
const COMPARISONS: usize = 20_000;

impl<'s> Report<'s> {
    pub(crate) fn new(source: &'s [u8], strict: bool) -> Report<'s> {
        Report {
            source,
            strict,
            found: Vec::new(),
            errors: 0,
            warnings: 0,
            said: HashSet::new(),
            comparisons: COMPARISONS,
        }
    }

    pub(crate) fn error(&mut self, code: &'static str, at: Span, message: impl Into<String>) -> Note<'_, 's> {
        self.note(Level::Error, code, at, message.into())
    }

    pub(crate) fn warning(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
    ) -> Note<'_, 's> {
        self.note(Level::Warning, code, at, message.into())
    }

    /// About a key that nobody reads: an error if the caller of the crate wants to be strict.
    pub(crate) fn unknown_key(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
    ) -> Note<'_, 's> {
        let level = if self.strict { Level::Error } else { Level::Warning };
        self.note(level, code, at, message.into())
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Whether one more warning would be kept.
    pub(crate) fn wants_warnings(&self) -> bool {
        self.warnings < MOST
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
        self.found.sort_by_key(|diagnostic| diagnostic.primary().map_or(0, |label| label.span.start));
        for (level, count, what) in
            [(Level::Error, self.errors, "errors"), (Level::Warning, self.warnings, "warnings")]
        {
            if count > MOST {
                self.found.push(Diagnostic {
                    level,
                    code: codes::MORE,
                    message: format!("there are {} more {what}", count - MOST),
                    labels: Vec::new(),
                    hints: Vec::new(),
                });
            }
        }
        self.found
    }

    fn note(&mut self, level: Level, code: &'static str, at: Span, message: String) -> Note<'_, 's> {
        let span = self.clip(at);
        let same = |other: &Diagnostic| {
            other.code == code && other.message == message && other.primary().is_some_and(|p| p.span == span)
        };
        // What an alias repeats is said once.
        if self.found.iter().any(same) {
            return Note { report: self, kept: false };
        }
        let count = match level {
            Level::Error => &mut self.errors,
            Level::Warning => &mut self.warnings,
        };
        *count += 1;
        let kept = *count <= MOST;
        if kept {
            let labels = vec![Label { span, primary: true, text: String::new() }];
            self.found.push(Diagnostic { level, code, message, labels, hints: Vec::new() });
        }
        Note { report: self, kept }
    }

    /// Labels stay on one line, inside the source, and do not end inside a character.
    fn clip(&self, at: Span) -> Range<usize> {
        let start = (at.start as usize).min(self.source.len());
        let end = (at.end as usize).clamp(start, self.source.len());
        let bytes = self.source.get(start..end).unwrap_or_default();
        let line = bytes.iter().position(|byte| *byte == b'\n' || *byte == b'\r').unwrap_or(bytes.len());
        start..start + line
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
                label.text = text.into();
            }
        })
    }

    /// Another place that it concerns.
    pub(crate) fn also(self, at: Span, text: impl Into<String>) -> Self {
        let span = self.report.clip(at);
        self.change(|diagnostic| {
            diagnostic.labels.push(Label { span, primary: false, text: text.into() });
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
