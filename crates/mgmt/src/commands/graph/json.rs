//! One JSON document.

use mgmt_resource::Spec;
use serde_json::json;

use super::{Drawing, settle};

pub(super) fn json(drawing: &Drawing<'_>) -> String {
    let graph = drawing.graph;
    let vertex = |spec: &Spec| {
        let children: Vec<_> = spec.children.iter().map(|child| child.id.to_string()).collect();
        let mut vertex = json!({
            "kind": spec.id.kind,
            "name": spec.id.name.to_text(),
            "id": spec.id.to_string(),
            "declared_at": spec.origin.as_ref().map(ToString::to_string),
            "children": children,
        });
        if drawing.fields {
            let members = std::iter::once(spec).chain(&spec.children);
            let fields = members.map(|member| {
                let fields =
                    settle::fields(&*member.resource).map(|(name, value)| (name.to_owned(), json!(value)));
                (member.id.to_string(), fields.collect::<serde_json::Map<_, _>>())
            });
            vertex["fields"] = json!(fields.collect::<std::collections::BTreeMap<_, _>>());
        }
        vertex
    };
    let edges: Vec<_> = graph
        .edges()
        .filter_map(|(from, to, edge)| {
            let automatic = drawing.is_automatic(from, to);
            let (from, to) = (graph.node(from)?, graph.node(to)?);
            Some(json!({
                "from": from.id.to_string(),
                "to": to.id.to_string(),
                "notify": edge.notify,
                "automatic": automatic,
            }))
        })
        .collect();
    let vertices: Vec<_> = graph.nodes().map(|(_, spec)| vertex(spec)).collect();
    mgmt_telemetry::json_line(&json!({
        "format_version": 1,
        "graph": drawing.name,
        "vertices": vertices,
        "edges": edges,
    }))
}
