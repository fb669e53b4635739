//! The diagnostic type.

use crate::source::Span;

/// An error, a warning or a note about a text. `S` is the type of its spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic<S = Span> {
    /// How bad it is.
    pub severity: Severity,
    /// The stable code in the error index, if it has one.
    pub code: Option<&'static str>,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Labelled spans. The diagnostic is about the first primary one, or else about the first.
    pub labels: Vec<Label<S>>,
    /// What to do about it.
    pub hints: Vec<String>,
}

/// The severity of a diagnostic, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The text cannot be used.
    Error,
    /// It can be used, but probably does not do what its author meant.
    Warning,
    /// Information.
    Note,
}

/// A span with a remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label<S = Span> {
    /// The place.
    pub span: S,
    /// The remark; may be empty.
    pub message: String,
    /// The diagnostic is about this span; other spans explain it.
    pub primary: bool,
}

impl Severity {
    /// The severity in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

impl<S> Label<S> {
    /// A primary span without a remark.
    pub fn primary(span: S) -> Label<S> {
        Label { span, message: String::new(), primary: true }
    }

    /// A span that explains the primary one.
    pub fn secondary(span: S, message: impl Into<String>) -> Label<S> {
        Label { span, message: message.into(), primary: false }
    }
}

impl<S> Diagnostic<S> {
    /// A diagnostic without code, spans and hints.
    pub fn new(severity: Severity, message: impl Into<String>) -> Diagnostic<S> {
        Diagnostic { severity, code: None, message: message.into(), labels: Vec::new(), hints: Vec::new() }
    }

    /// An error without code, spans and hints.
    pub fn error(message: impl Into<String>) -> Diagnostic<S> {
        Diagnostic::new(Severity::Error, message)
    }

    /// A warning without code, spans and hints.
    pub fn warning(message: impl Into<String>) -> Diagnostic<S> {
        Diagnostic::new(Severity::Warning, message)
    }

    /// A note without code, spans and hints.
    pub fn note(message: impl Into<String>) -> Diagnostic<S> {
        Diagnostic::new(Severity::Note, message)
    }

    /// Adds the primary span, if there is one.
    pub fn at(self, span: Option<S>) -> Diagnostic<S> {
        match span {
            Some(span) => self.with_label(Label::primary(span)),
            None => self,
        }
    }

    /// Sets the code.
    pub fn with_code(self, code: &'static str) -> Diagnostic<S> {
        Diagnostic { code: Some(code), ..self }
    }

    /// Adds a labelled span.
    pub fn with_label(mut self, label: Label<S>) -> Diagnostic<S> {
        self.labels.push(label);
        self
    }

    /// Sets the remark at the first span.
    pub fn here(mut self, message: impl Into<String>) -> Diagnostic<S> {
        if let Some(first) = self.labels.first_mut() {
            first.message = message.into();
        }
        self
    }

    /// Adds a span that explains the first one, unless that span has a label already.
    pub fn label(self, span: S, message: impl Into<String>) -> Diagnostic<S>
    where
        S: PartialEq,
    {
        match self.labels.iter().any(|label| label.span == span) {
            true => self,
            false => self.with_label(Label::secondary(span, message)),
        }
    }

    /// Adds a hint, once.
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic<S> {
        let hint = hint.into();
        if !self.hints.contains(&hint) {
            self.hints.push(hint);
        }
        self
    }

    /// Adds a hint, if there is one.
    pub fn maybe_hint(self, hint: Option<impl Into<String>>) -> Diagnostic<S> {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The label of the span that it is about.
    pub fn primary_label(&self) -> Option<&Label<S>> {
        self.labels.iter().find(|label| label.primary).or(self.labels.first())
    }

    /// The span that it is about.
    pub fn span(&self) -> Option<S>
    where
        S: Copy,
    {
        self.primary_label().map(|label| label.span)
    }

    /// The same diagnostic with spans of another type. Labels without a span in that type are dropped.
    pub fn map_spans<T>(self, mut map: impl FnMut(S) -> Option<T>) -> Diagnostic<T> {
        let Diagnostic { severity, code, message, labels, hints } = self;
        let labels = labels.into_iter().filter_map(|Label { span, message, primary }| {
            Some(Label { span: map(span)?, message, primary })
        });
        Diagnostic { severity, code, message, labels: labels.collect(), hints }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_is_about_its_primary_span_or_else_its_first() {
        let label = |span, primary| Label { span, message: String::new(), primary };
        let diagnostic =
            Diagnostic { labels: vec![label(1, false), label(2, true)], ..Diagnostic::error("x") };
        assert_eq!(diagnostic.span(), Some(2));
        assert_eq!(Diagnostic { labels: vec![label(1, false)], ..Diagnostic::error("x") }.span(), Some(1));
        assert_eq!(Diagnostic::<u8>::warning("x").span(), None);
    }

    #[test]
    fn a_span_has_one_label_and_a_hint_is_given_once() {
        let diagnostic =
            Diagnostic::error("x").with_label(Label::primary(1)).here("this").hint("try").hint("try");
        let diagnostic = diagnostic.label(1, "again").label(2, "that").maybe_hint(None::<&str>);
        let labels: Vec<_> = diagnostic.labels.iter().map(|label| (label.span, &*label.message)).collect();
        assert_eq!((labels, diagnostic.hints), (vec![(1, "this"), (2, "that")], vec!["try".to_owned()]));
    }

    #[test]
    fn labels_whose_span_does_not_exist_are_dropped() {
        let diagnostic =
            Diagnostic::error("x").with_label(Label::primary(1)).with_label(Label::secondary(5, "y"));
        let mapped = diagnostic.map_spans(|span| (span > 3).then_some("five"));
        assert_eq!(mapped.labels, [Label::secondary("five", "y")]);
    }
}
