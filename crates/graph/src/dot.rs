//! The graph as Graphviz text.

use std::fmt::Write as _;

use crate::{Dag, NodeId};

/// How [`Dag::dot`] draws one edge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DotEdge {
    /// Text beside the edge; none when empty.
    pub label: String,
    /// The kind of line.
    pub style: DotStyle,
}

/// A kind of line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DotStyle {
    /// A plain line.
    #[default]
    Solid,
    /// A broken line.
    Dashed,
    /// A line of dots.
    Dotted,
    /// A thick line.
    Bold,
}

impl DotStyle {
    fn name(self) -> &'static str {
        match self {
            Self::Solid => "solid",
            Self::Dashed => "dashed",
            Self::Dotted => "dotted",
            Self::Bold => "bold",
        }
    }
}

impl<S: Into<String>> From<S> for DotEdge {
    fn from(label: S) -> Self {
        Self { label: label.into(), style: DotStyle::Solid }
    }
}

impl<V, E> Dag<V, E> {
    /// The graph as Graphviz text, nodes and then edges in ascending order of id.
    ///
    /// Titles and labels may contain anything and are shown as they are, line breaks included; control characters
    /// are shown by their symbols.
    pub fn dot(
        &self,
        title: &str,
        mut node_label: impl FnMut(NodeId, &V) -> String,
        mut edge: impl FnMut(NodeId, NodeId, &E) -> DotEdge,
    ) -> String {
        let mut text = String::with_capacity(64 * self.node_count() + 32 * self.edge_count());
        text.push_str("digraph ");
        push_quoted(&mut text, title);
        text.push_str(" {\n\tlabel=");
        push_quoted(&mut text, title);
        text.push_str(";\n\tlabelloc=\"t\";\n\tnode [shape=\"box\"];\n");
        for (id, value) in self.nodes() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\tn{id} [label=");
            push_quoted(&mut text, &node_label(id, value));
            text.push_str("];\n");
        }
        for (from, to, value) in self.edges() {
            let DotEdge { label, style } = edge(from, to, value);
            let _ = write!(text, "\tn{from} -> n{to}");
            push_edge_attributes(&mut text, &label, style);
            text.push_str(";\n");
        }
        text.push_str("}\n");
        text
    }
}

fn push_edge_attributes(text: &mut String, label: &str, style: DotStyle) {
    let styled = style != DotStyle::Solid;
    if label.is_empty() && !styled {
        return;
    }
    text.push_str(" [");
    if !label.is_empty() {
        text.push_str("label=");
        push_quoted(text, label);
        if styled {
            text.push_str(", ");
        }
    }
    if styled {
        text.push_str("style=");
        push_quoted(text, style.name());
    }
    text.push(']');
}

/// Graphviz reads backslashes and entities in a label, so both are escaped. It knows no escape for control
/// characters and its XML output would be invalid with them, so those become their visible symbols.
fn push_quoted(text: &mut String, raw: &str) {
    text.push('"');
    for character in raw.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '&' => text.push_str("&amp;"),
            '\n' => text.push_str("\\n"),
            '\u{0}'..='\u{1f}' => {
                text.push(char::from_u32(0x2400 + character as u32).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            '\u{7f}' => text.push('\u{2421}'),
            _ if character.is_control() => text.push(char::REPLACEMENT_CHARACTER),
            _ => text.push(character),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Dag<String, u32> {
        let mut dag = Dag::new();
        for name in names {
            dag.add_node((*name).to_owned());
        }
        dag
    }

    #[test]
    fn nodes_and_edges_come_in_order_of_id() {
        let mut dag = named(&["file[a]", "gone", "svc[b]"]);
        let (a, gone, b) = (NodeId::from_index(0), NodeId::from_index(1), NodeId::from_index(2));
        dag.remove_node(gone);
        dag.set_edge(b, a, 0);
        dag.set_edge(a, b, 1);
        dag.set_edge(a, a, 2);
        let text = dag.dot(
            "web",
            |_, name| name.clone(),
            |_, _, value| match value {
                0 => DotEdge::default(),
                1 => DotEdge { label: "notify".into(), style: DotStyle::Dashed },
                _ => "plain".into(),
            },
        );
        let expected = "digraph \"web\" {\n\
            \tlabel=\"web\";\n\
            \tlabelloc=\"t\";\n\
            \tnode [shape=\"box\"];\n\
            \tn0 [label=\"file[a]\"];\n\
            \tn2 [label=\"svc[b]\"];\n\
            \tn0 -> n0 [label=\"plain\"];\n\
            \tn0 -> n2 [label=\"notify\", style=\"dashed\"];\n\
            \tn2 -> n0;\n\
            }\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_style_alone_is_written_without_a_label() {
        let mut dag = named(&["a"]);
        dag.set_edge(NodeId::from_index(0), NodeId::from_index(0), 0);
        for (style, name) in [(DotStyle::Dotted, "dotted"), (DotStyle::Bold, "bold")] {
            let text = dag.dot("", |_, name| name.clone(), |_, _, _| DotEdge { label: String::new(), style });
            assert!(text.contains(&format!("\tn0 -> n0 [style=\"{name}\"];\n")), "{text}");
        }
    }

    #[test]
    fn no_label_can_end_its_quotes_or_be_read_as_an_escape() {
        let hostile = "\"]; x -> y [label=\"\\\" \\N \\\n\r\t\0\u{1b}\u{7f}\u{85} &lt; ü";
        let dag = named(&[hostile]);
        let text = dag.dot(hostile, |_, name| name.clone(), |_, _, _| DotEdge::default());
        let quoted = "\"\\\"]; x -> y [label=\\\"\\\\\\\" \\\\N \\\\\\n␍␉␀␛␡\u{fffd} &amp;lt; ü\"";
        assert!(text.starts_with(&format!("digraph {quoted} {{\n\tlabel={quoted};\n")), "{text}");
        assert!(text.contains(&format!("\tn0 [label={quoted}];\n")), "{text}");
        assert!(text.chars().all(|character| !character.is_control() || "\n\t".contains(character)));
    }
}
