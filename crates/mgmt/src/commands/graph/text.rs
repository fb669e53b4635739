//! Lines for people and simple tools.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use mgmt_resource::Spec;
use mgmt_telemetry::escape;

use super::{Drawing, settle};

/// Vertices, members of groups and edges, a line each. A name never ends its line: what would is escaped.
pub(crate) fn text(drawing: &Drawing<'_>) -> String {
    let graph = drawing.graph;
    let mut text = String::new();
    for (_, spec) in graph.nodes() {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "Vertex: {}", plain(spec));
        for child in &spec.children {
            let _ = writeln!(text, "Group: {}: Vertex: {}", plain(spec), plain(child));
        }
        if drawing.fields {
            fields(&mut text, "", spec);
            let group = format!("Group: {}: ", plain(spec));
            spec.children.iter().for_each(|child| fields(&mut text, &group, child));
        }
    }
    for (from, to, edge) in graph.edges() {
        if let (Some(from), Some(to)) = (graph.node(from), graph.node(to)) {
            let notify = if edge.notify { " # notify" } else { "" };
            let _ = writeln!(text, "Edge: {} -> {}{notify}", plain(from), plain(to));
        }
    }
    text
}

fn plain(spec: &Spec) -> String {
    match std::io::stdout().is_terminal() {
        true => escape(&spec.id.to_string()).into_owned(),
        false => escape(&format!("{}[{}]", spec.id.kind, spec.id.name.to_text())).into_owned(),
    }
}

fn fields(text: &mut String, group: &str, spec: &Spec) {
    for (name, value) in settle::fields(&*spec.resource) {
        let _ = writeln!(text, "{group}Field: {}.{name} = {value}", plain(spec));
    }
}
