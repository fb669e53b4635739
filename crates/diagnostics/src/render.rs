//! The renderers for people, editors and programs.

use std::collections::HashMap;
use std::ops::Range;

use annotate_snippets::renderer::DEFAULT_TERM_WIDTH;
use annotate_snippets::{Group, Level, Renderer as Snippets};
use serde_json::json;

use crate::diagnostic::{Diagnostic, Label, Severity};
use crate::escape::escape;
use crate::json::json_line;
use crate::snippet::elements;
use crate::source::{FileId, Source, SourceMap};

/// Renders diagnostics about the texts of a map.
#[derive(Clone, Copy, Debug)]
pub struct Renderer<'m> {
    sources: &'m SourceMap,
}

impl<'m> Renderer<'m> {
    /// A renderer for diagnostics about these texts.
    pub fn new(sources: &'m SourceMap) -> Renderer<'m> {
        Renderer { sources }
    }

    /// For people: several lines, ending in a line break. `width` is that of the terminal, if it is known.
    pub fn human(&self, diagnostic: &Diagnostic, color: bool, width: Option<usize>) -> String {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let mut title = level.primary_title(escape(&diagnostic.message));
        if let Some(code) = diagnostic.code {
            title = title.id(escape(code));
        }
        let files = self.files(diagnostic);
        let mut group = Group::with_title(title);
        for (source, labels) in &files {
            group = group.elements(elements(source, labels));
        }
        let renderer = if color { Snippets::styled() } else { Snippets::plain() };
        let width = width.unwrap_or(DEFAULT_TERM_WIDTH).max(40);
        let mut text = renderer.term_width(width).render(&[group]);
        text.push('\n');
        if !diagnostic.hints.is_empty() {
            text.push('\n');
        }
        let (bold, plain) = if color { ("\x1b[1;96m", "\x1b[0m") } else { ("", "") };
        for hint in &diagnostic.hints {
            text.push_str(&format!("{bold}hint{plain}: {}\n", escape(hint)));
        }
        text
    }

    /// For editors: one line, `file:line:column: severity[code]: message`.
    pub fn short(&self, diagnostic: &Diagnostic) -> String {
        let mut text = String::new();
        if let Some((label, source)) = diagnostic.primary_label().and_then(|label| self.located(label)) {
            text += &escape(&source.name);
            if !label.span.is_whole() {
                let (line, column) = source.position(clamp(label.span.range(), source).start);
                text += &format!(":{line}:{column}");
            }
            text += ": ";
        }
        text += diagnostic.severity.as_str();
        if let Some(code) = diagnostic.code {
            text += &format!("[{}]", escape(code));
        }
        text + &format!(": {}\n", escape(&diagnostic.message))
    }

    /// For programs: one JSON object on a line of its own.
    pub fn json(&self, diagnostic: &Diagnostic) -> String {
        let files = self.files(diagnostic);
        let labels =
            files.iter().flat_map(|(source, labels)| labels.iter().map(move |label| (label, *source)));
        let spans: Vec<_> = labels
            .filter(|(label, _)| !label.span.is_whole())
            .map(|(label, source)| span_json(label, source))
            .collect();
        json_line(&json!({
            "type": "diagnostic",
            "level": diagnostic.severity.as_str(),
            "code": diagnostic.code,
            "message": diagnostic.message,
            "file": files.first().map(|(source, _)| &*source.name),
            "spans": spans,
            "hints": diagnostic.hints,
        }))
    }

    /// A label with its text. A label of another map has none.
    pub(crate) fn located<'d>(&self, label: &'d Label) -> Option<(&'d Label, &'m Source)> {
        Some((label, self.sources.get(label.span.file)?))
    }

    /// The labels text by text, the text of the primary label first.
    fn files<'d>(&self, diagnostic: &'d Diagnostic) -> Vec<(&'m Source, Vec<&'d Label>)> {
        let mut files: Vec<(&'m Source, Vec<&'d Label>)> = Vec::new();
        let mut known: HashMap<FileId, usize> = HashMap::new();
        if let Some((label, source)) = diagnostic.primary_label().and_then(|label| self.located(label)) {
            known.insert(label.span.file, 0);
            files.push((source, Vec::new()));
        }
        for (label, source) in diagnostic.labels.iter().filter_map(|label| self.located(label)) {
            let at = *known.entry(label.span.file).or_insert(files.len());
            match files.get_mut(at) {
                Some((_, labels)) => labels.push(label),
                None => files.push((source, vec![label])),
            }
        }
        files
    }
}

/// A range moved to boundaries of characters that exist.
pub(crate) fn clamp(range: Range<usize>, source: &Source) -> Range<usize> {
    let start = source.text.floor_char_boundary(range.start);
    start..source.text.floor_char_boundary(range.end).max(start)
}

fn span_json(label: &Label, source: &Source) -> serde_json::Value {
    let span = clamp(label.span.range(), source);
    let (line_start, column_start) = source.position(span.start);
    let (line_end, column_end) = source.position(span.end);
    json!({
        "file": &*source.name,
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::escape::acts;

    const TEXT: &str = "graph: demo\nresources:\n  fiel:\n  - name: ä b\n";

    fn demo() -> SourceMap {
        SourceMap::of("demo.yaml", TEXT)
    }

    fn people(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
        Renderer::new(sources).human(diagnostic, false, None)
    }

    fn programs(diagnostic: &Diagnostic, sources: &SourceMap) -> serde_json::Value {
        let line = Renderer::new(sources).json(diagnostic);
        serde_json::from_str(line.strip_suffix('\n').unwrap()).unwrap()
    }

    fn label(span: Range<usize>, message: &str, primary: bool) -> Label {
        Label { span: FileId::FIRST.span_of(span), message: message.into(), primary }
    }

    fn example() -> Diagnostic {
        let at = TEXT.find("fiel").unwrap();
        let name = TEXT.find("b\n").unwrap();
        Diagnostic::error("there is no kind `fiel`")
            .with_code("yaml-unknown-kind")
            .with_label(label(at..at + 4, "not a kind", true))
            .with_label(label(name..name + 1, "used here", false))
            .hint("did you mean `file`?")
    }

    #[test]
    fn people_see_the_place_underlined() {
        let text = people(&example(), &demo());
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
        let sources = demo();
        let short = |diagnostic: &Diagnostic| Renderer::new(&sources).short(diagnostic);
        assert_eq!(short(&example()), "demo.yaml:3:3: error[yaml-unknown-kind]: there is no kind `fiel`\n");
        let mut swapped = example();
        swapped.labels.reverse();
        assert_eq!(short(&swapped), short(&example()), "the place that it is about");
        assert_eq!(short(&Diagnostic::warning("two\nlines")), "warning: two\\nlines\n");
        let whole = vec![Label::primary(FileId::FIRST.whole())];
        assert!(short(&Diagnostic { labels: whole, ..example() }).starts_with("demo.yaml: error["));
    }

    #[test]
    fn programs_get_lines_and_columns() {
        let value = programs(&example(), &demo());
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
            let diagnostic = Diagnostic { labels: vec![label(span, "", false)], ..example() };
            let sources = demo();
            let shown = Renderer::new(&sources).human(&diagnostic, true, Some(1));
            assert!(shown.contains("there is no kind"));
            assert_eq!(programs(&diagnostic, &sources)["spans"].as_array().unwrap().len(), 1);
        }
        let empty = Diagnostic::error("x").with_label(label(0..1, "", true));
        assert!(people(&empty, &SourceMap::of("empty", "")).contains("empty"));
        let elsewhere = Label::primary(SourceMap::default().add("lost", "x").span(0..1));
        assert_eq!(
            people(&Diagnostic::error("x").with_label(elsewhere), &SourceMap::default()),
            "error: x\n"
        );
    }

    #[test]
    fn a_label_on_a_whole_text_names_the_file_and_shows_nothing_of_it() {
        let diagnostic = Diagnostic { labels: vec![Label::primary(FileId::FIRST.whole())], ..example() };
        let shown = people(&diagnostic, &demo());
        assert!(shown.contains("--> demo.yaml\n") && !shown.contains("graph: demo"), "{shown}");
        let value = programs(&diagnostic, &demo());
        assert_eq!((&value["file"], &value["spans"]), (&json!("demo.yaml"), &json!([])));
    }

    #[test]
    fn nothing_in_a_file_reaches_the_terminal_as_a_command() {
        let nasty = "a: \u{1b}[31m \u{9b}1m \u{202e}x\u{7f}\u{e0041}\r \u{7}\n";
        let mut sources = SourceMap::of(nasty, nasty);
        let other = sources.add(nasty, nasty);
        let diagnostic = Diagnostic::warning(nasty)
            .with_code(nasty)
            .with_label(label(3..9, nasty, true))
            .with_label(Label::secondary(other.span(3..9), nasty))
            .hint(nasty);
        let renderer = Renderer::new(&sources);
        let forms = [
            renderer.human(&diagnostic, false, None),
            renderer.json(&diagnostic),
            renderer.short(&diagnostic),
        ];
        for text in forms {
            let bad = text.chars().find(|character| *character != '\n' && acts(*character));
            assert_eq!(bad, None, "{text:?}");
        }
    }

    const IMPORTED: &str = "class c($x) {\n\tprint \"a\" {}\n}\n";

    #[test]
    fn a_place_in_another_file_is_shown_and_named_there() {
        let mut sources = demo();
        let other = sources.add("lib/c.mcl", IMPORTED);
        let at = |part: &str| {
            let start = IMPORTED.find(part).unwrap();
            other.span_of(start..start + part.len())
        };
        let diagnostic = Diagnostic { hints: Vec::new(), ..example() }
            .with_label(Label::secondary(at("print"), "and here"))
            .with_label(Label::secondary(at("$x"), "defined here"));
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
        assert_eq!(people(&diagnostic, &sources), expected);
        let value = programs(&diagnostic, &sources);
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
        let label = |line, message, primary| label(start(line) + 5..start(line) + 11, message, primary);
        let labels =
            vec![label(99_999, "the second", true), label(7, "the first", false), label(9, "near", false)];
        let diagnostic = Diagnostic { labels, ..Diagnostic::error("both") };
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
        assert_eq!(people(&diagnostic, &SourceMap::of("long", text)), expected);
    }

    #[test]
    fn a_place_as_long_as_the_file_is_shown_by_its_first_line() {
        let (text, start) = long();
        let diagnostic = Diagnostic::error("all").with_label(label(start(2)..text.len(), "this", true));
        let sources = SourceMap::of("long", text);
        assert_eq!(
            people(&diagnostic, &sources),
            "error: all\n --> long:2:1\n  |\n2 | line      2\n  | ^^^^^^^^^^^ this\n"
        );
        let value = programs(&diagnostic, &sources);
        assert_eq!(value["spans"][0]["line_end"], 100_001);
    }

    #[test]
    fn a_line_without_end_is_named_and_not_shown() {
        let text = "x".repeat(1 << 20);
        let near = label(3..text.len(), "", true);
        let sources = SourceMap::of("wide", text);
        let diagnostic = Diagnostic::error("here").with_label(label(500_000..500_001, "this one", true));
        let shown = people(&diagnostic, &sources);
        assert!(shown.contains("wide:1:500001") && shown.contains("this one"), "{shown}");
        let shown = people(&Diagnostic { labels: vec![near], ..diagnostic }, &sources);
        assert!(shown.contains("wide:1:4") && shown.len() < 10_000, "{shown}");
    }

    #[test]
    fn what_is_shown_does_not_depend_on_how_much_is_around_it() {
        let (text, start) = long();
        for (first, lines) in [(1, 1), (1, 3), (40, 30), (99_990, 11)] {
            let (from, to) = (start(first), start(first + lines));
            let diagnostic = Diagnostic::error("z")
                .with_label(label(to - 12 + 3..to - 1, "x", true))
                .with_label(label(from..from + 2, "y", false));
            let (whole, part) = (SourceMap::of("long", &*text), SourceMap::of("long", &text[..to]));
            assert_eq!(people(&diagnostic, &whole), people(&diagnostic, &part));
        }
    }

    #[test]
    fn the_end_of_the_text_is_shown_behind_its_last_line() {
        let end = TEXT.len();
        let diagnostic = Diagnostic { labels: vec![label(end..end, "", true)], ..example() };
        let shown = people(&diagnostic, &demo());
        assert!(shown.contains("4 |   - name: ä b\n  |              ^\n"), "{shown}");
    }
}
