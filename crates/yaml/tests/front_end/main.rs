//! Small files in, a few lines of text out: either what is wrong, or what the graph is.

#![allow(clippy::unwrap_used, reason = "a test may fail like that")]

mod collect;
mod document;
mod edges;
mod kinds;
mod meta;
mod past;
mod receive;
mod resources;
mod syntax;
mod values;
mod write;

use mgmt_yaml::{ParseOptions, Parsed, Positions, parse, parse_with};

/// Compares the diagnostics of a file, one line each: `E Y0402 5:9 message | hint @3:5 label`.
#[track_caller]
fn check(source: &str, expected: &str) {
    same(&render(source.as_bytes(), &parse(source.as_bytes(), "test.yaml", &kinds::KINDS)), expected);
}

/// The same when unknown keys are errors.
#[track_caller]
fn check_strict(source: &str, expected: &str) {
    let options = ParseOptions { strict: true, ..ParseOptions::default() };
    same(
        &render(source.as_bytes(), &parse_with(source.as_bytes(), "test.yaml", &kinds::KINDS, &options)),
        expected,
    );
}

/// Compares the graph of a file that has no errors: a line per resource, then a line per edge.
#[track_caller]
fn check_graph(source: &str, expected: &str) {
    let parsed = parse(source.as_bytes(), "test.yaml", &kinds::KINDS);
    let Some(graph) = &parsed.graph else { panic!("no graph:\n{}", render(source.as_bytes(), &parsed)) };
    let graph = &graph.graph;
    let vertices = graph.nodes().map(|(_, spec)| spec.id.to_string());
    let edges = graph.edges().map(|(from, to, edge)| {
        let arrow = if edge.notify { "=>" } else { "->" };
        format!("{} {arrow} {}", graph.node(from).unwrap().id, graph.node(to).unwrap().id)
    });
    same(&vertices.chain(edges).collect::<Vec<_>>().join("\n"), expected);
}

/// The graph of a file that has no diagnostics at all.
#[track_caller]
fn graph(source: &str) -> mgmt_yaml::YamlGraph {
    let parsed = parse(source.as_bytes(), "test.yaml", &kinds::KINDS);
    assert_eq!(render(source.as_bytes(), &parsed), "");
    parsed.graph.unwrap()
}

/// Diagnostics as text.
pub(crate) fn render(source: &[u8], parsed: &Parsed) -> String {
    let errors = parsed.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
    assert_eq!(parsed.graph.is_some(), errors == 0, "there is a graph exactly when there is no error");
    let positions = Positions::new(source);
    let mut lines = Vec::new();
    for diagnostic in &parsed.diagnostics {
        let mut line =
            format!("{} {}", if diagnostic.is_error() { 'E' } else { 'W' }, diagnostic.code.unwrap());
        let mut rest = String::new();
        for label in &diagnostic.labels {
            let at = positions.locate(label.span.start as usize);
            match label.primary {
                true => line += &format!(" {}:{}", at.line, at.column),
                false => rest += &format!(" @{}:{} {}", at.line, at.column, label.message),
            }
        }
        line += &format!(" {}", diagnostic.message);
        for hint in &diagnostic.hints {
            line += &format!(" | {hint}");
        }
        lines.push(line + &rest);
    }
    lines.join("\n")
}

#[track_caller]
fn same(found: &str, expected: &str) {
    let trim = |text: &str| {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    let (found, expected) = (trim(found), trim(expected));
    assert!(found == expected, "found\n{found}\n\nexpected\n{expected}\n");
}
