//! What is written is read back.

use mgmt_diagnostics::Severity;
use mgmt_resource::{Edge, ResourceGraph, Spec};
use mgmt_value::{Str, Value};
use mgmt_yaml::{WriteOptions, parse, write};

use crate::kinds::KINDS;
use crate::{graph, same};

fn written(graph: &ResourceGraph) -> String {
    let options = WriteOptions { name: "a graph", comment: "made: by hand", is_secret: &|_, _, _| false };
    write(graph, &options).unwrap()
}

#[track_caller]
fn comes_back(before: &ResourceGraph) {
    let text = written(before);
    let parsed = parse(text.as_bytes(), "test.yaml", &KINDS);
    assert_eq!(parsed.diagnostics, [], "{text}");
    let read = parsed.graph.unwrap();
    assert_eq!((&*read.name.to_text(), &*read.comment.to_text()), ("a graph", "made: by hand"));
    let after = read.graph;
    assert_eq!(before.node_count(), after.node_count());
    let edges = |graph: &ResourceGraph| {
        let id = |node| graph.node(node).unwrap().id.clone();
        let mut edges: Vec<_> =
            graph.edges().map(|(from, to, edge)| (id(from), id(to), edge.notify)).collect();
        edges.sort();
        edges
    };
    assert_eq!(edges(before), edges(&after), "{text}");
    for (_, spec) in before.nodes() {
        let (_, found) = after.nodes().find(|(_, other)| other.id == spec.id).unwrap();
        assert!(spec.same_as(found), "{spec:?}\n{found:?}\n{text}");
    }
}

#[test]
fn every_type_of_value_comes_back() {
    comes_back(
        &graph(
            r#"
            graph: x
            resources:
              every:
              - name: one
                flag: false
                text: "no"
                number: -3
                small: 255
                float: 300.0
                list: ["a, b", "yes", ": ]", ""]
                lists: [[], [1, 2]]
                map: {k: 1, "x y": -2}
                numbered: {1: "0644"}
                maybe: 0
                maybe_text: ""
                meta: {retry: 3, limit: 0.5, burst: 1, sema: [a, "b:2"], poll: 7}
              exec:
              - {name: say, cmd: "echo 'x' \"y\" \\ # {z}", shell: /bin/sh}
              file:
              - name: /tmp/null
                state: exists
                content: "two\nlines \u2028 and é\n"
                mode: "0644"
            edges:
            - {name: e, from: {kind: exec, name: say}, to: {kind: file, name: /tmp/null}, notify: true}
            "#,
        )
        .graph,
    );
}

#[test]
fn strange_names_and_bytes_come_back() {
    let mut graph = ResourceGraph::new();
    let mut last = None;
    for name in [
        "null",
        "0644",
        "- x",
        "a: b",
        "#",
        "'\"\\",
        " ",
        "ü\u{85}\u{feff}\u{1f600}",
        "Class[Main]",
        "!x",
        "&a",
        "*a",
    ] {
        let mut file = (KINDS.get("file").unwrap().make)();
        assert!(matches!(file.set("content", &Value::Str(Str::from(&b"\xff\x00bytes"[..]))), Some(Ok(()))));
        let node = graph.add_node(Spec::of(name, file.into()));
        if let Some(before) = last.replace(node) {
            graph.set_edge(before, node, Edge::ORDER);
        }
    }
    comes_back(&graph);
}

#[test]
fn what_would_mean_something_else_is_refused() {
    let mut graph = ResourceGraph::new();
    graph.add_node(Spec::of("@@exported", (KINDS.get("noop").unwrap().make)().into()));
    let options = WriteOptions { name: "x", comment: "", is_secret: &|_, _, _| false };
    assert_eq!(write(&graph, &options).unwrap_err()[0].to_string(), "noop[@@exported]");
}

#[test]
fn a_secret_is_left_out_and_the_text_cannot_be_run() {
    let before =
        graph("graph: x\nresources:\n  file:\n  - {name: /a, content: hidden, state: exists}\n").graph;
    let is_secret =
        |_: &Spec, _: &mgmt_resource::FieldSpec, value: &Value| *value == Value::Str(Str::from("hidden"));
    let text = write(&before, &WriteOptions { name: "x", comment: "", is_secret: &is_secret }).unwrap();
    same(
        &text,
        "---\ngraph: x\nresources:\n file:\n - name: /a\n state: exists\n content: !secret left out\n",
    );
    let parsed = parse(text.as_bytes(), "test.yaml", &KINDS);
    assert!(parsed.graph.is_none());
    let found = &parsed.diagnostics[0];
    assert_eq!((found.severity, found.code), (Severity::Error, Some("Y0012")));
}
