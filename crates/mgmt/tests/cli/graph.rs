//! `mgmt graph`: the same graph in every format, whatever its names are.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fmt::Write as _;

use expect_test::expect;
use mgmt_test_support::program::{CommandOutput, mgmt_output, mgmt_output_with_input};

/// A declared edge, one that notifies, and one that is found.
const SMALL: &str = "file \"/tmp/x/\" {\n\tstate => \"exists\",\n}\n\
    file \"/tmp/x/a\" {\n\tstate => \"exists\",\n\n\tNotify => Print[\"told\"],\n}\n\
    print \"told\" {}\n\
    noop \"first\" {\n\tBefore => Print[\"told\"],\n}\n";

/// What would end a string, a tag, a line or a label, or act on a terminal.
const HOSTILE: [&str; 6] = [
    "</text><script>alert(1)</script>",
    "a\"];n0-->n1",
    "x #59; `y` %%",
    "]]>&amp;<!--",
    "大\u{301}\u{202e}",
    "é\u{7}\u{1b}[31m",
];

fn drawn(format: &str, program: &str) -> CommandOutput {
    let said = mgmt_output_with_input(&["--log", "off", "graph", "--format", format, "lang", "-"], program);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{format}");
    said
}

fn hostile() -> String {
    let mut program = String::new();
    for (at, name) in HOSTILE.iter().enumerate() {
        let name = name.replace('"', "\\\"");
        let _ = writeln!(program, "noop \"{name}\" {{}}");
        if at > 0 {
            let _ = writeln!(program, "noop \"after {at}\" {{\n\tDepend => Noop[\"{name}\"],\n}}");
        }
    }
    program
}

#[test]
fn the_plain_form_is_what_tools_read() {
    let expected = expect![[r#"
        Vertex: file[/tmp/x/]
        Vertex: file[/tmp/x/a]
        Vertex: print[told]
        Vertex: noop[first]
        Edge: file[/tmp/x/] -> file[/tmp/x/a]
        Edge: file[/tmp/x/a] -> print[told] # notify
        Edge: noop[first] -> print[told]
    "#]];
    for arguments in [&["graph", "lang", "-"][..], &["graph", "--format=text", "lang", "-"]] {
        expected.assert_eq(&mgmt_output_with_input(arguments, SMALL).stdout);
    }
}

#[test]
fn a_name_does_not_end_its_line_in_the_plain_form() {
    let program = "noop \"a\\nEdge: noop[x] -> noop[y]\" {}\nnoop \"t\\tb\" {}\n";
    let said = mgmt_output_with_input(&["graph", "--format=text", "lang", "-"], program);
    assert_eq!(said.stdout, "Vertex: noop[a\\nEdge: noop[x] -> noop[y]]\nVertex: noop[t\\tb]\n");
    // The conformance tests of the language compare names as they are.
    let raw =
        mgmt_output_with_input(&["--message-format=json", "graph", "--format=text", "lang", "-"], program);
    assert_eq!(raw.stdout, "Vertex: noop[a\nEdge: noop[x] -> noop[y]]\nVertex: noop[t\tb]\n");
}

#[test]
fn graphviz_text_tells_what_was_found_from_what_was_declared() {
    expect![[r#"
        digraph "standard input" {
        	label="standard input";
        	labelloc="t";
        	node [shape="box"];
        	n0 [label="file[/tmp/x/]"];
        	n1 [label="file[/tmp/x/a]"];
        	n2 [label="print[told]"];
        	n3 [label="noop[first]"];
        	n0 -> n1 [style="dashed"];
        	n1 -> n2 [label="notify"];
        	n3 -> n2;
        }
    "#]]
    .assert_eq(&drawn("dot", SMALL).stdout);
}

#[test]
fn mermaid_text_is_a_flowchart() {
    expect![[r#"
        flowchart LR
            accTitle: standard input
            n0["file[/tmp/x/]"]
            n1["file[/tmp/x/a]"]
            n2["print[told]"]
            n3["noop[first]"]
            n0 -.-> n1
            n1 -->|notify| n2
            n3 --> n2
    "#]]
    .assert_eq(&drawn("mermaid", SMALL).stdout);
}

#[test]
fn json_has_every_vertex_and_edge() {
    let document: serde_json::Value = serde_json::from_str(&drawn("json", SMALL).stdout).unwrap();
    assert_eq!(document["format_version"], 1);
    assert_eq!(document["vertices"].as_array().unwrap().len(), 4);
    assert_eq!(document["vertices"][1]["name"], "/tmp/x/a");
    let edges: Vec<_> = document["edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|edge| (&edge["notify"], &edge["automatic"]))
        .collect();
    let flags = |notify: bool, automatic: bool| (serde_json::json!(notify), serde_json::json!(automatic));
    for (found, expected) in edges.iter().zip([flags(false, true), flags(true, false), flags(false, false)]) {
        assert_eq!((found.0, found.1), (&expected.0, &expected.1));
    }
}

#[test]
fn the_drawing_has_a_box_and_an_arrow_for_each() {
    let text = drawn("svg", SMALL).stdout;
    assert!(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{text}");
    assert_eq!(text.matches("<g class=\"box\"").count(), 4);
    assert_eq!(text.matches("class=\"edge\"").count(), 1);
    assert_eq!(text.matches("class=\"edge notify\"").count(), 1);
    assert_eq!(text.matches("class=\"edge automatic\"").count(), 1);
    assert!(text.contains("prefers-color-scheme:dark"));
    // It needs nothing from elsewhere: the one address is the name of the format.
    assert_eq!(text.matches("http").count(), 1);
    assert_eq!(elements(&text), Ok(()));
}

#[test]
fn the_same_graph_is_drawn_the_same() {
    for format in ["text", "dot", "mermaid", "svg", "json"] {
        assert_eq!(drawn(format, SMALL).stdout, drawn(format, SMALL).stdout, "{format}");
    }
}

#[test]
fn hostile_names_stay_names() {
    let program = hostile();
    let drawing = drawn("svg", &program).stdout;
    assert_eq!(elements(&drawing), Ok(()));
    assert!(!drawing.contains("<script") && !drawing.contains("<!--"), "{drawing}");
    assert!(drawing.contains("&lt;script&gt;"), "{drawing}");

    let mermaid = drawn("mermaid", &program).stdout;
    for line in mermaid.lines().skip(1).filter(|line| line.contains('"')) {
        assert_eq!(line.matches('"').count(), 2, "{line}");
        assert!(line.trim_start().starts_with('n') && line.ends_with("\"]"), "{line}");
        assert!(!line.contains('<') && !line.contains('`') && !line.contains('%'), "{line}");
    }

    let document: serde_json::Value = serde_json::from_str(&drawn("json", &program).stdout).unwrap();
    let names: Vec<_> = document["vertices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|vertex| vertex["name"].as_str().unwrap())
        .collect();
    for name in HOSTILE {
        assert!(names.contains(&name), "{name:?} in {names:?}");
    }
    for text in [&drawing, &mermaid] {
        let acts = |character: char| character.is_control() && character != '\n' && character != '\t';
        assert!(!text.contains(acts) && !text.contains('\u{202e}'), "{text:?}");
    }
}

#[test]
fn a_thousand_vertices_are_drawn() {
    let mut program = String::new();
    for at in 0..1000 {
        let _ = writeln!(program, "noop \"n{at}\" {{");
        for step in [1, 7, 400] {
            if at >= step {
                let _ = writeln!(program, "\tDepend => Noop[\"n{}\"],", at - step);
            }
        }
        program.push_str("}\n");
    }
    for format in ["text", "dot", "mermaid", "svg", "json"] {
        let text = drawn(format, &program).stdout;
        assert!(text.contains("n999"), "{format}");
    }
    let wide: String = (0..1000).map(|at| format!("noop \"n{at}\" {{}}\n")).collect();
    let drawing = drawn("svg", &wide).stdout;
    assert_eq!(drawing.matches("<g class=\"box\"").count(), 1000);
}

#[test]
fn an_empty_graph_is_drawn_too() {
    for format in ["text", "dot", "mermaid", "svg", "json"] {
        assert_eq!(mgmt_output(&["graph", "--format", format, "empty"]).code, 0, "{format}");
    }
    let said = mgmt_output(&["graph", "--format", "png", "empty"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("svg") && said.stderr.contains("mermaid"), "{}", said.stderr);
}

/// That each element of an XML text is closed, and that text and attributes hold only what they may.
fn elements(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        if rest[..at].contains('>') {
            return Err(format!("a stray `>` in {:?}", &rest[..at]));
        }
        let end = rest[at..].find('>').ok_or("a tag without an end")? + at;
        let tag = &rest[at + 1..end];
        if !tag.matches('"').count().is_multiple_of(2) || tag.contains('<') {
            return Err(format!("a torn tag: {tag}"));
        }
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap_or_default();
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => {
                let opened = open.pop();
                if opened != Some(name) {
                    return Err(format!("{name} closes {opened:?}"));
                }
            }
            (false, false) => open.push(name),
            (false, true) => {}
        }
        rest = &rest[end + 1..];
    }
    for (at, _) in text.match_indices('&') {
        if !["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"].iter().any(|entity| text[at..].starts_with(entity)) {
            return Err("a bare &".to_owned());
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("still open: {open:?}")) }
}
