//! A drawing that needs nothing but something that shows SVG.

mod layout;

use std::fmt::Write as _;

use mgmt_graph::NodeId;
use mgmt_resource::Spec;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::Drawing;
use layout::{Layout, Point, Size};

const MARGIN: f64 = 24.0;
const TITLE: f64 = 34.0;
/// Of one column of the fixed-width fonts below, in pixels: they all are 0.6 of their size wide, within a hair.
const NAME_COLUMN: f64 = 7.9;
const KIND_COLUMN: f64 = 6.7;
const PADDING: f64 = 12.0;
const LINE: f64 = 17.0;
/// Longer names are shortened in their middle; the whole name is in the tooltip.
const MAX_COLUMNS: usize = 44;
const MAX_MEMBERS: usize = 8;

const STYLE: &str = "\
svg{--paper:#ffffff;--ink:#1f2430;--faint:#5b6475;--box:#f5f7fa;--line:#c3cad6;--arrow:#7a8496;--notify:#b4550d}\n\
@media (prefers-color-scheme:dark){svg{--paper:#15181f;--ink:#e6e9ef;--faint:#98a2b3;--box:#20252f;--line:#3b4454;\
--arrow:#8590a3;--notify:#f0a35e}}\n\
.paper{fill:var(--paper)}\n\
text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:var(--ink)}\n\
.title{font-size:15px;font-weight:600}\n\
.box rect{fill:var(--box);stroke:var(--line);stroke-width:1}\n\
.kind{font-size:11px;fill:var(--faint)}\n\
.name{font-size:13px}\n\
.member{font-size:11px;fill:var(--faint)}\n\
.edge{fill:none;stroke:var(--arrow);stroke-width:1.4}\n\
.automatic{stroke-dasharray:2 4}\n\
.notify{stroke:var(--notify);stroke-dasharray:7 4}\n\
.head{fill:var(--arrow)}\n\
.notify-head{fill:var(--notify)}\n";

/// The graph as a drawing, from left to right.
pub(super) fn svg(drawing: &Drawing<'_>) -> String {
    let graph = drawing.graph;
    let nodes: Vec<(NodeId, Card)> = graph.nodes().map(|(id, spec)| (id, Card::new(spec))).collect();
    let mut positions = vec![usize::MAX; graph.id_bound()];
    for (position, (id, _)) in nodes.iter().enumerate() {
        positions[id.index()] = position;
    }
    let arrows: Vec<(NodeId, NodeId, bool)> =
        graph.edges().map(|(from, to, edge)| (from, to, edge.notify)).collect();
    let edges: Vec<(usize, usize)> =
        arrows.iter().map(|(from, to, _)| (positions[from.index()], positions[to.index()])).collect();
    // What has been prepared has no circles.
    let order = graph.topological_order().unwrap_or_default();
    let order: Vec<usize> = order.iter().map(|id| positions[id.index()]).collect();
    let sizes: Vec<Size> = nodes.iter().map(|(_, card)| card.size()).collect();
    let layout = layout::layout(&sizes, &edges, &order);

    let mut text = head(drawing.name, &layout);
    for ((from, to, notify), points) in arrows.iter().zip(&layout.arrows) {
        arrow(&mut text, points, *notify, drawing.is_automatic(*from, *to));
    }
    for (((_, card), place), size) in nodes.iter().zip(&layout.boxes).zip(&sizes) {
        card.draw(&mut text, *place, *size);
    }
    text.push_str("</g>\n</svg>\n");
    text
}

fn head(name: &str, layout: &Layout) -> String {
    let title = escaped(&shortened(name, 100));
    let width = (layout.width + 2.0 * MARGIN).max(title.width() as f64 * 9.2 + 2.0 * MARGIN);
    let height = layout.height + 2.0 * MARGIN + TITLE;
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <defs>\n"
    );
    for (id, class) in [("head", "head"), ("notify-head", "notify-head")] {
        let _ = writeln!(
            text,
            "<marker id=\"{id}\" class=\"{class}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" \
             markerHeight=\"7\" orient=\"auto\"><path d=\"M0 1 L10 5 L0 9 z\"/></marker>"
        );
    }
    let _ = write!(
        text,
        "</defs>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"{:.1}\">{title}</text>\n\
         <g transform=\"translate({MARGIN} {:.1})\">\n",
        MARGIN + 10.0,
        MARGIN + TITLE,
    );
    text
}

/// A curve through the points: level where it leaves, passes and arrives.
fn arrow(text: &mut String, points: &[Point], notify: bool, automatic: bool) {
    let Some((first, rest)) = points.split_first() else { return };
    let class = match (notify, automatic) {
        (true, _) => "edge notify",
        (false, true) => "edge automatic",
        (false, false) => "edge",
    };
    let head = if notify { "notify-head" } else { "head" };
    let _ = write!(
        text,
        "<path class=\"{class}\" marker-end=\"url(#{head})\" d=\"M{:.1} {:.1}",
        first.x, first.y
    );
    let mut last = first;
    for point in rest {
        let middle = (last.x + point.x) / 2.0;
        let _ = write!(
            text,
            " C{middle:.1} {:.1} {middle:.1} {:.1} {:.1} {:.1}",
            last.y, point.y, point.x, point.y
        );
        last = point;
    }
    text.push_str("\"/>\n");
}

/// What is written in a box.
struct Card {
    kind: String,
    name: String,
    members: Vec<String>,
    /// What is not shortened.
    tooltip: String,
}

impl Card {
    fn new(spec: &Spec) -> Card {
        let mut members: Vec<String> = spec
            .children
            .iter()
            .take(MAX_MEMBERS)
            .map(|child| shortened(&child.id.to_string(), MAX_COLUMNS))
            .collect();
        if spec.children.len() > MAX_MEMBERS {
            members.push(format!("and {} more", spec.children.len() - MAX_MEMBERS));
        }
        let mut tooltip = spec.id.to_string();
        if let Some(origin) = &spec.origin {
            let _ = write!(tooltip, " at {origin}");
        }
        Card {
            kind: shortened(spec.id.kind, MAX_COLUMNS),
            name: shortened(&spec.id.name.to_text(), MAX_COLUMNS),
            members,
            tooltip,
        }
    }

    fn size(&self) -> Size {
        let columns = |text: &str, column: f64| text.width() as f64 * column;
        let members = self.members.iter().map(|member| columns(member, KIND_COLUMN));
        let widest =
            members.fold(columns(&self.name, NAME_COLUMN).max(columns(&self.kind, KIND_COLUMN)), f64::max);
        Size {
            width: (widest + 2.0 * PADDING).max(64.0).round(),
            height: 2.0 * LINE + 12.0 + self.members.len() as f64 * LINE,
        }
    }

    fn draw(&self, text: &mut String, place: Point, size: Size) {
        let _ = writeln!(
            text,
            "<g class=\"box\" transform=\"translate({:.1} {:.1})\"><title>{}</title>\
             <rect width=\"{:.0}\" height=\"{:.0}\" rx=\"6\"/>\
             <text class=\"kind\" x=\"{PADDING}\" y=\"17\">{}</text>\
             <text class=\"name\" x=\"{PADDING}\" y=\"35\">{}</text>",
            place.x,
            place.y,
            escaped(&mgmt_telemetry::escape(&self.tooltip)),
            size.width,
            size.height,
            escaped(&self.kind),
            escaped(&self.name),
        );
        for (at, member) in self.members.iter().enumerate() {
            let y = 35.0 + (at + 1) as f64 * LINE;
            let _ =
                writeln!(text, "<text class=\"member\" x=\"{PADDING}\" y=\"{y}\">{}</text>", escaped(member));
        }
        text.push_str("</g>\n");
    }
}

/// At most so many columns, with the ends kept: paths differ there.
fn shortened(raw: &str, columns: usize) -> String {
    let text = mgmt_telemetry::escape(raw);
    if text.width() <= columns {
        return text.into_owned();
    }
    let half = (columns - 1) / 2;
    let fitting = |characters: &mut dyn Iterator<Item = char>| {
        let mut used = 0;
        let fits = characters.take_while(|character| {
            used += character.width().unwrap_or(0);
            used <= half
        });
        fits.collect::<Vec<char>>()
    };
    let start = fitting(&mut text.chars());
    let end = fitting(&mut text.chars().rev());
    start.into_iter().chain(std::iter::once('…')).chain(end.into_iter().rev()).collect()
}

/// Text between tags or in an attribute. Characters that XML does not allow at all become the one that stands for them.
fn escaped(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    for character in raw.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            '\t' | '\n' | '\r' => text.push(' '),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {
                text.push(char::REPLACEMENT_CHARACTER);
            }
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_its_tag() {
        assert_eq!(escaped("</text><script>\"'&"), "&lt;/text&gt;&lt;script&gt;&quot;&#39;&amp;");
        assert_eq!(escaped("a\u{0}b\u{ffff}"), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn a_long_name_keeps_its_ends() {
        let short = shortened(&format!("/start/{}/end", "x".repeat(100)), 21);
        assert!(short.starts_with("/start/") && short.ends_with("/end") && short.contains('…'), "{short}");
        assert!(short.width() <= 21);
        assert!(shortened(&"大".repeat(50), 20).width() <= 20);
        assert_eq!(shortened("short", 20), "short");
    }
}
