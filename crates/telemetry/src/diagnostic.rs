//! Mistakes in a file, shown where they are.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use annotate_snippets::renderer::DEFAULT_TERM_WIDTH;
use annotate_snippets::{Group, Level, Renderer};
use serde_json::json;

use crate::lines::{Indexed, Lines};
use crate::snippet::{elements, floor_boundary};
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
    /// Places in other files, which explain it.
    pub elsewhere: Vec<(Source<'a>, Label<'a>)>,
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
    pub(crate) fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

impl<'a> Diagnostic<'a> {
    /// For people: several lines, ending in a line break. `width` is the terminal's, if it is known.
    ///
    /// Whoever shows several diagnostics about one file uses the same `lines` for all of them.
    pub fn human(&self, lines: &mut Lines<'a>, color: bool, width: Option<usize>) -> String {
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
        for (source, labels) in self.files() {
            group = group.elements(elements(&source, lines.of(&source), &labels));
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

    /// For editors: one line, `file:line:column: level[code]: message`.
    pub fn short(&self, lines: &mut Lines<'a>) -> String {
        let mut text = String::new();
        if let Some(source) = &self.source {
            text += &escape(source.name);
            if let Some(label) = self.main_label() {
                let (line, column) = lines.of(source).position(within(&label.span, source.text).start);
                text += &format!(":{line}:{column}");
            }
            text += ": ";
        }
        text += self.severity.word();
        if let Some(code) = &self.code {
            text += &format!("[{}]", escape(code));
        }
        text + &format!(": {}\n", escape(&self.message))
    }

    /// The place in the file that it is about.
    pub(crate) fn main_label(&self) -> Option<&Label<'a>> {
        self.labels.iter().find(|label| label.primary).or(self.labels.first())
    }

    /// For programs: one JSON object on a line of its own.
    pub fn json(&self, lines: &mut Lines<'a>) -> String {
        let here = self.source.iter().flat_map(|source| self.labels.iter().map(move |label| (source, label)));
        let elsewhere = self.elsewhere.iter().map(|(source, label)| (source, label));
        let spans: Vec<_> =
            here.chain(elsewhere).map(|(source, label)| span_json(label, source, lines.of(source))).collect();
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

    /// The places file by file, the main one first.
    fn files(&self) -> Vec<(Source<'a>, Vec<&Label<'a>>)> {
        let mut files: Vec<(Source<'a>, Vec<&Label<'a>>)> = Vec::new();
        let mut known = HashMap::new();
        if let Some(source) = self.source {
            known.insert(source.name, 0);
            files.push((source, self.labels.iter().collect()));
        }
        for (source, label) in &self.elsewhere {
            let at = *known.entry(source.name).or_insert(files.len());
            match files.get_mut(at) {
                // Two texts of one name are two files all the same.
                Some((first, labels)) if std::ptr::eq(first.text, source.text) => labels.push(label),
                _ => files.push((*source, vec![label])),
            }
        }
        files
    }
}

fn span_json(label: &Label<'_>, source: &Source<'_>, lines: &Indexed<'_>) -> serde_json::Value {
    let span = within(&label.span, lines.text);
    let (line_start, column_start) = lines.position(span.start);
    let (line_end, column_end) = lines.position(span.end);
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

/// The span, moved to boundaries of characters that exist.
pub(crate) fn within(span: &Range<usize>, text: &str) -> Range<usize> {
    let start = floor_boundary(text, span.start);
    start..floor_boundary(text, span.end).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::acts;

    const TEXT: &str = "graph: demo\nresources:\n  fiel:\n  - name: ä b\n";

    fn people(diagnostic: &Diagnostic<'_>) -> String {
        diagnostic.human(&mut Lines::default(), false, None)
    }

    fn programs(diagnostic: &Diagnostic<'_>) -> String {
        diagnostic.json(&mut Lines::default())
    }

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
        let text = people(&example());
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
    fn editors_get_one_line() {
        let short = |diagnostic: &Diagnostic<'static>| diagnostic.short(&mut Lines::default());
        assert_eq!(short(&example()), "demo.yaml:3:3: error[yaml-unknown-kind]: there is no kind `fiel`\n");
        let mut swapped = example();
        swapped.labels.reverse();
        assert_eq!(short(&swapped), short(&example()), "the place that it is about");
        let warning =
            Diagnostic { severity: Severity::Warning, message: "two\nlines".into(), ..Diagnostic::default() };
        assert_eq!(short(&warning), "warning: two\\nlines\n");
        assert!(short(&Diagnostic { labels: Vec::new(), ..example() }).starts_with("demo.yaml: error["));
    }

    #[test]
    fn programs_get_lines_and_columns() {
        let line = programs(&example());
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
            assert!(diagnostic.human(&mut Lines::default(), true, Some(1)).contains("there is no kind"));
            assert!(programs(&diagnostic).ends_with("}\n"));
        }
        let empty = Diagnostic {
            source: Some(Source { name: "empty", text: "" }),
            labels: vec![Label { span: 0..1, ..Label::default() }],
            ..Diagnostic::default()
        };
        assert!(people(&empty).contains("empty"));
    }

    #[test]
    fn without_places_the_file_is_still_named() {
        let diagnostic = Diagnostic { labels: Vec::new(), ..example() };
        assert!(people(&diagnostic).contains("--> demo.yaml"));
    }

    #[test]
    fn nothing_in_a_file_reaches_the_terminal_as_a_command() {
        let nasty = "a: \u{1b}[31m \u{9b}1m \u{202e}x\u{7f}\u{e0041}\r \u{7}\n";
        let diagnostic = Diagnostic {
            code: Some(nasty.into()),
            message: nasty.into(),
            source: Some(Source { name: nasty, text: nasty }),
            labels: vec![Label { span: 3..9, message: nasty.into(), primary: true }],
            elsewhere: vec![(Source { name: nasty, text: nasty }, Label { span: 3..9, ..Label::default() })],
            hints: vec![nasty.into()],
            severity: Severity::Warning,
        };
        for text in [people(&diagnostic), programs(&diagnostic), diagnostic.short(&mut Lines::default())] {
            let bad = text.chars().find(|character| *character != '\n' && acts(*character));
            assert_eq!(bad, None, "{text:?}");
        }
    }

    const IMPORTED: &str = "class c($x) {\n\tprint \"a\" {}\n}\n";

    #[test]
    fn a_place_in_another_file_is_shown_and_named_there() {
        let other = Source { name: "lib/c.mcl", text: IMPORTED };
        let at = |part: &str| IMPORTED.find(part).unwrap()..IMPORTED.find(part).unwrap() + part.len();
        let diagnostic = Diagnostic {
            elsewhere: vec![
                (other, Label { span: at("print"), message: "and here".into(), primary: false }),
                (other, Label { span: at("$x"), message: "defined here".into(), primary: false }),
            ],
            hints: Vec::new(),
            ..example()
        };
        let expected = "\
error[yaml-unknown-kind]: there is no kind `fiel`
 --> demo.yaml:3:3
  |
3 |   fiel:
  |   ^^^^ not a kind
4 |   - name: ä b
  |             - used here
  |
 ::: lib/c.mcl:1:9
  |
1 | class c($x) {
  |         -- defined here
2 |     print \"a\" {}
  |     ----- and here
";
        assert_eq!(people(&diagnostic), expected);
        let value: serde_json::Value = serde_json::from_str(&programs(&diagnostic)).unwrap();
        let files: Vec<_> = value["spans"].as_array().unwrap().iter().map(|span| &span["file"]).collect();
        assert_eq!(files, ["demo.yaml", "demo.yaml", "lib/c.mcl", "lib/c.mcl"]);
        assert_eq!(
            (&value["spans"][2]["line_start"], &value["spans"][2]["column_start"]),
            (&json!(2), &json!(2))
        );
    }

    /// A file of numbered lines, and where a line starts in it.
    fn long() -> (String, impl Fn(usize) -> usize) {
        let text: String = (1..=100_000).map(|line| format!("line {line:6}\n")).collect();
        (text, |line| (line - 1) * 12)
    }

    #[test]
    fn places_far_apart_are_shown_in_pieces_with_their_own_line_numbers() {
        let (text, start) = long();
        let label = |line, message: &'static str, primary| {
            let at = start(line);
            Label { span: at + 5..at + 11, message: message.into(), primary }
        };
        let diagnostic = Diagnostic {
            message: "both".into(),
            source: Some(Source { name: "long", text: &text }),
            labels: vec![
                label(99_999, "the second", true),
                label(7, "the first", false),
                label(9, "near", false),
            ],
            ..Diagnostic::default()
        };
        let expected = "\
error: both
     --> long:99999:6
      |
99999 | line  99999
      |      ^^^^^^ the second
      |
     ::: long:7:6
      |
    7 | line      7
      |      ------ the first
    8 | line      8
    9 | line      9
      |      ------ near
";
        assert_eq!(people(&diagnostic), expected);
    }

    #[test]
    fn a_place_as_long_as_the_file_is_shown_by_its_first_line() {
        let (text, start) = long();
        let diagnostic = Diagnostic {
            message: "all".into(),
            source: Some(Source { name: "long", text: &text }),
            labels: vec![Label { span: start(2)..text.len(), message: "this".into(), primary: true }],
            ..Diagnostic::default()
        };
        assert_eq!(
            people(&diagnostic),
            "error: all\n --> long:2:1\n  |\n2 | line      2\n  | ^^^^^^^^^^^ this\n"
        );
        let value: serde_json::Value = serde_json::from_str(&programs(&diagnostic)).unwrap();
        assert_eq!(value["spans"][0]["line_end"], 100_001);
    }

    #[test]
    fn a_line_without_end_is_named_and_not_shown() {
        let text = "x".repeat(1 << 20);
        let diagnostic = Diagnostic {
            message: "here".into(),
            source: Some(Source { name: "wide", text: &text }),
            labels: vec![Label { span: 500_000..500_001, message: "this one".into(), primary: true }],
            ..Diagnostic::default()
        };
        let shown = people(&diagnostic);
        assert!(shown.contains("wide:1:500001") && shown.contains("this one"), "{shown}");
        let near = Label { span: 3..text.len(), ..Label::default() };
        let shown = people(&Diagnostic { labels: vec![near], ..diagnostic });
        assert!(shown.contains("wide:1:4") && shown.len() < 10_000, "{shown}");
    }

    #[test]
    fn what_is_shown_does_not_depend_on_how_much_is_around_it() {
        let (text, start) = long();
        for (first, lines) in [(1, 1), (1, 3), (40, 30), (99_990, 11)] {
            let (from, to) = (start(first), start(first + lines));
            let label = Label { span: to - 12 + 3..to - 1, message: "x".into(), primary: true };
            let other = Label { span: from..from + 2, message: "y".into(), primary: false };
            let whole = Diagnostic {
                source: Some(Source { name: "long", text: &text }),
                labels: vec![label, other],
                ..Diagnostic::default()
            };
            let cut = &text[..to];
            let part = Diagnostic { source: Some(Source { name: "long", text: cut }), ..whole.clone() };
            assert_eq!(people(&whole), people(&part));
        }
    }

    #[test]
    fn the_end_of_the_text_is_shown_behind_its_last_line() {
        let end = TEXT.len();
        let diagnostic = Diagnostic {
            labels: vec![Label { span: end..end, primary: true, ..Label::default() }],
            ..example()
        };
        let shown = people(&diagnostic);
        assert!(shown.contains("4 |   - name: ä b\n  |              ^\n"), "{shown}");
    }
}
