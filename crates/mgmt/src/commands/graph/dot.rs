//! Text for Graphviz.

use mgmt_graph::{DotEdge, DotStyle};

use super::Drawing;

pub(super) fn dot(drawing: &Drawing<'_>) -> String {
    drawing.graph.dot(
        drawing.name,
        |_, spec| {
            let members = spec.children.iter().map(|child| format!("\n{}", child.id));
            std::iter::once(spec.id.to_string()).chain(members).collect()
        },
        |from, to, edge| DotEdge {
            label: if edge.notify { "notify".to_owned() } else { String::new() },
            style: if drawing.is_automatic(from, to) { DotStyle::Dashed } else { DotStyle::Solid },
        },
    )
}
