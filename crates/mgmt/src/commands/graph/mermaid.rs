//! Text for Mermaid, which many places that show Markdown draw by themselves.

use std::fmt::Write as _;

use mgmt_telemetry::escape;

use super::Drawing;

/// A flowchart. Automatic edges are broken lines.
pub(super) fn mermaid(drawing: &Drawing<'_>) -> String {
    let graph = drawing.graph;
    let mut text = String::from("flowchart LR\n");
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "    accTitle: {}", label(drawing.name));
    for (id, spec) in graph.nodes() {
        let members = spec.children.iter().map(|child| format!("<br/>{}", label(&child.id.to_string())));
        let members: String = members.collect();
        let _ = writeln!(text, "    n{id}[\"{}{members}\"]", label(&spec.id.to_string()));
    }
    for (from, to, edge) in graph.edges() {
        let arrow = match (drawing.is_automatic(from, to), edge.notify) {
            (false, false) => "-->",
            (false, true) => "-->|notify|",
            (true, false) => "-.->",
            (true, true) => "-.->|notify|",
        };
        let _ = writeln!(text, "    n{from} {arrow} n{to}");
    }
    text
}

/// A text in which nothing means anything: neither to Mermaid, nor to the HTML and the Markdown that it makes of labels.
fn label(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    for character in escape(raw).chars() {
        match character {
            ' ' | '/' | '[' | ']' | '.' | ',' | ':' | '-' | '=' | '@' | '+' | '_' | '(' | ')' => {
                text.push(character);
            }
            _ if character.is_alphanumeric() || !character.is_ascii() => text.push(character),
            // By its number, so that no list of dangerous characters can be too short.
            _ => {
                let _ = write!(text, "#{};", u32::from(character));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_to_mermaid_is_written_by_number() {
        assert_eq!(label("file[/a b]"), "file[/a b]");
        assert_eq!(label("a\"b#c;<i>`x`"), "a#34;b#35;c#59;#60;i#62;#96;x#96;");
        assert_eq!(label("two\nlines"), "two#92;nlines");
        assert_eq!(label("größe 大"), "größe 大");
    }
}
