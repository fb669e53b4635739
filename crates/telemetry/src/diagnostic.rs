//! Mistakes in a file, shown where they are.

use std::borrow::Cow;
use std::ops::Range;

use annotate_snippets::renderer::DEFAULT_TERM_WIDTH;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::json;

use crate::escape::acts;
use crate::{escape, json_line};

/// Something that is wrong, as plain data.
#[derive(Clone, Debug, Default)]
pub struct Diagnostic<'a> {
    /// How bad it is.
    pub severity: Severity,
    /// Its name in the index of errors.
    pub code: Option<Cow<'a, str>>,
    /// What is wrong.
    pub message: Cow<'a, str>,
    /// The file that it is about.
    pub source: Option<Source<'a>>,
    /// The places in the file. Places that are not in the file are moved to its end.
    pub labels: Vec<Label<'a>>,
    /// What to do about it.
    pub hints: Vec<Cow<'a, str>>,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Severity {
    /// It cannot go on like this.
    #[default]
    Error,
    /// It goes on, probably not as meant.
    Warning,
    /// Worth knowing.
    Note,
}

/// A file.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name, as the person gave it.
    pub name: &'a str,
    /// What is in it.
    pub text: &'a str,
}

/// A place in a file and what to say about it.
#[derive(Clone, Debug, Default)]
pub struct Label<'a> {
    /// The place, in bytes.
    pub span: Range<usize>,
    /// What to say; may be empty.
    pub message: Cow<'a, str>,
    /// It is the place that the message is about, not one that explains it.
    pub primary: bool,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

impl Diagnostic<'_> {
    /// For people: several lines, ending in a line break. `width` is the terminal's, if it is known.
    pub fn human(&self, color: bool, width: Option<usize>) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let mut title = level.primary_title(escape(&self.message));
        if let Some(code) = &self.code {
            title = title.id(escape(code));
        }
        let mut group = Group::with_title(title);
        if let Some(source) = &self.source {
            let text = tame(source.text);
            let annotations: Vec<_> = self.labels.iter().map(|label| annotation(label, &text)).collect();
            if annotations.is_empty() {
                group = group.element(annotate_snippets::Origin::path(escape(source.name)));
            } else {
                group =
                    group.element(Snippet::source(text).path(escape(source.name)).annotations(annotations));
            }
        }
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let width = width.unwrap_or(DEFAULT_TERM_WIDTH).max(40);
        let mut text = renderer.term_width(width).render(&[group]);
        text.push('\n');
        if !self.hints.is_empty() {
            text.push('\n');
        }
        let (bold, plain) = if color { ("\x1b[1;96m", "\x1b[0m") } else { ("", "") };
        for hint in &self.hints {
            text.push_str(&format!("{bold}hint{plain}: {}\n", escape(hint)));
        }
        text
    }

    /// For programs: one JSON object on a line of its own.
    pub fn json(&self) -> String {
        let spans: Vec<_> = match &self.source {
            None => Vec::new(),
            Some(source) => self.labels.iter().map(|label| span_json(label, source)).collect(),
        };
        json_line(&json!({
            "type": "diagnostic",
            "level": self.severity.word(),
            "code": self.code,
            "message": self.message,
            "file": self.source.map(|source| source.name),
            "spans": spans,
            "hints": self.hints,
        }))
    }
}

fn annotation<'a>(label: &'a Label<'_>, text: &str) -> annotate_snippets::Annotation<'a> {
    let kind = if label.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
    let annotation = kind.span(within(&label.span, text));
    if label.message.is_empty() { annotation } else { annotation.label(escape(&label.message)) }
}

fn span_json(label: &Label<'_>, source: &Source<'_>) -> serde_json::Value {
    let span = within(&label.span, source.text);
    let (line_start, column_start) = position(source.text, span.start);
    let (line_end, column_end) = position(source.text, span.end);
    json!({
        "file": source.name,
        "line_start": line_start,
        "column_start": column_start,
        "line_end": line_end,
        "column_end": column_end,
        "byte_start": span.start,
        "byte_end": span.end,
        "label": label.message,
        "primary": label.primary,
    })
}

/// Line and column of a place, both from 1, the column in characters.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The span, moved to boundaries of characters that exist.
fn within(span: &Range<usize>, text: &str) -> Range<usize> {
    let start = floor_boundary(text, span.start);
    start..floor_boundary(text, span.end).max(start)
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The text with dangerous characters replaced by harmless ones that take as many bytes, so that spans still fit.
/// The renderer shows the first 32 controls as pictures; those stay.
fn tame(text: &str) -> Cow<'_, str> {
    let dangerous = |character: char| character as u32 >= 0x7f && acts(character);
    if !text.chars().any(dangerous) {
        return Cow::Borrowed(text);
    }
    let tamed = text.chars().map(|character| match character.len_utf8() {
        _ if !dangerous(character) => character,
        1 => '?',
        2 => '\u{a4}',
        3 => char::REPLACEMENT_CHARACTER,
        _ => '\u{1fbc5}',
    });
    Cow::Owned(tamed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "graph: demo\nresources:\n  fiel:\n  - name: ä b\n";

    fn example() -> Diagnostic<'static> {
        let at = TEXT.find("fiel").unwrap();
        let name = TEXT.find("b\n").unwrap();
        Diagnostic {
            code: Some("yaml-unknown-kind".into()),
            message: "there is no kind `fiel`".into(),
            source: Some(Source { name: "demo.yaml", text: TEXT }),
            labels: vec![
                Label { span: at..at + 4, message: "not a kind".into(), primary: true },
                Label { span: name..name + 1, message: "used here".into(), primary: false },
            ],
            hints: vec!["did you mean `file`?".into()],
            ..Diagnostic::default()
        }
    }

    #[test]
    fn people_see_the_place_underlined() {
        let text = example().human(false, None);
        let expected = "\
error[yaml-unknown-kind]: there is no kind `fiel`
 --> demo.yaml:3:3
  |
3 |   fiel:
  |   ^^^^ not a kind
4 |   - name: ä b
  |             - used here

hint: did you mean `file`?
";
        assert_eq!(text, expected);
    }

    #[test]
    fn programs_get_lines_and_columns() {
        let line = example().json();
        let value: serde_json::Value = serde_json::from_str(line.strip_suffix('\n').unwrap()).unwrap();
        assert_eq!(value["level"], "error");
        assert_eq!(value["code"], "yaml-unknown-kind");
        assert_eq!(value["hints"], json!(["did you mean `file`?"]));
        let span = &value["spans"][0];
        assert_eq!(span["file"], "demo.yaml");
        assert_eq!((&span["line_start"], &span["column_start"]), (&json!(3), &json!(3)));
        assert_eq!((&span["line_end"], &span["column_end"]), (&json!(3), &json!(7)));
        assert_eq!(span["label"], "not a kind");
        assert_eq!(value["spans"][1]["column_start"], 13);
    }

    #[test]
    fn impossible_spans_do_no_harm() {
        for span in [
            0..usize::MAX,
            TEXT.len()..TEXT.len() + 1,
            Range { start: 40, end: 3 },
            TEXT.find('ä').unwrap() + 1..usize::MAX,
        ] {
            let label = Label { span, ..Label::default() };
            let diagnostic = Diagnostic { labels: vec![label], ..example() };
            assert!(diagnostic.human(true, Some(1)).contains("there is no kind"));
            assert!(diagnostic.json().ends_with("}\n"));
        }
        let empty = Diagnostic {
            source: Some(Source { name: "empty", text: "" }),
            labels: vec![Label { span: 0..1, ..Label::default() }],
            ..Diagnostic::default()
        };
        assert!(empty.human(false, None).contains("empty"));
    }

    #[test]
    fn without_places_the_file_is_still_named() {
        let diagnostic = Diagnostic { labels: Vec::new(), ..example() };
        assert!(diagnostic.human(false, None).contains("--> demo.yaml"));
    }

    #[test]
    fn nothing_in_a_file_reaches_the_terminal_as_a_command() {
        let nasty = "a: \u{1b}[31m \u{9b}1m \u{202e}x\u{7f}\u{e0041}\r \u{7}\n";
        let diagnostic = Diagnostic {
            code: Some(nasty.into()),
            message: nasty.into(),
            source: Some(Source { name: nasty, text: nasty }),
            labels: vec![Label { span: 3..9, message: nasty.into(), primary: true }],
            hints: vec![nasty.into()],
            severity: Severity::Warning,
        };
        for text in [diagnostic.human(false, None), diagnostic.json()] {
            let bad = text.chars().find(|character| *character != '\n' && acts(*character));
            assert_eq!(bad, None, "{text:?}");
        }
    }
}
