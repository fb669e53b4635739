//! Lines for people and simple tools.

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use mgmt_resource::Spec;
use mgmt_telemetry::escape;

use super::{Drawing, settle};

/// Vertices, members of groups and edges, a line each. A name does not end its line, unless raw names are asked for.
pub(crate) fn text(drawing: &Drawing<'_>) -> String {
    let graph = drawing.graph;
    let plain = |spec: &Spec| plain(spec, drawing.raw_names);
    let mut text = String::new();
    for (_, spec) in graph.nodes() {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "Vertex: {}", plain(spec));
        for child in &spec.children {
            let _ = writeln!(text, "Group: {}: Vertex: {}", plain(spec), plain(child));
        }
        if drawing.fields {
            fields(&mut text, "", &plain(spec), spec);
            let group = format!("Group: {}: ", plain(spec));
            spec.children.iter().for_each(|child| fields(&mut text, &group, &plain(child), child));
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

fn plain(spec: &Spec, raw: bool) -> String {
    let name = match std::io::stdout().is_terminal() {
        true => spec.id.to_string(),
        false => format!("{}[{}]", spec.id.kind, spec.id.name.to_text()),
    };
    if raw { name } else { escape(&name).into_owned() }
}

fn fields(text: &mut String, group: &str, resource: &str, spec: &Spec) {
    for (name, value) in settle::fields(&*spec.resource) {
        let _ = writeln!(text, "{group}Field: {resource}.{name} = {value}");
    }
}
