//! Edges: those of the section `edges`, and those that `recv` implies.

use std::collections::HashSet;

use mgmt_graph::NodeId as Vertex;
use mgmt_resource::{Edge, Id};

use crate::declarations::Declarations;
use crate::diagnostic::Report;
use crate::resources::Reading;
use crate::tree::{Entry, NodeId, Span, shorten};
use crate::{codes, decode};

/// Adds edges to the declared resources.
#[derive(Debug)]
pub(crate) struct Wiring<'d> {
    declared: &'d mut Declarations,
    /// Kinds that the resources use and that do not exist. That has been reported.
    unknown_kinds: HashSet<&'d str>,
    /// Every edge with where it was declared, to be able to show a cycle.
    edges: Vec<(Vertex, Vertex, Span)>,
}

/// How many edges a file may stand for. Only hidden resources that share a name can get there.
const MOST_EDGES: usize = 1_000_000;

/// How many separate cycles are looked for, and how many edges of each are shown.
const MOST_CYCLES: usize = 10;

impl<'d> Wiring<'d> {
    pub(crate) fn new(declared: &'d mut Declarations, unknown_kinds: HashSet<&'d str>) -> Wiring<'d> {
        Wiring { declared, unknown_kinds, edges: Vec::new() }
    }

    /// Reads one entry of `edges`.
    pub(crate) fn edge(&mut self, cx: &mut Reading<'_, '_, '_>, node: NodeId) {
        let at = cx.tree.span(node);
        let Some(entries) = cx.tree.entries(node, cx.report) else {
            let message = format!("expected an edge, found {}", cx.tree.describe(node));
            cx.report.error(codes::WRONG_SHAPE, at, message).hint(EDGE_HINT);
            return;
        };
        let (mut from, mut to, mut notify) = (None, None, Some(false));
        for entry in &entries {
            match entry.key {
                "name" => drop(decode::text(cx.tree, entry.value, "the name of an edge", cx.report)),
                "from" => from = Some(*entry),
                "to" => to = Some(*entry),
                "notify" => notify = decode::flag(cx.tree, entry.value, "`notify`", cx.report),
                key => {
                    let near = cx.report.suggest(key, ["name", "from", "to", "notify"].into_iter());
                    let message = format!("an edge has no key `{}`", shorten(key));
                    cx.report
                        .unknown_key(codes::UNKNOWN_PARAMETER, entry.key_span, message)
                        .maybe_hint(near.map(|near| format!("did you mean `{near}`?")));
                }
            }
        }
        for (end, key) in [(&from, "from"), (&to, "to")] {
            if end.is_none() {
                cx.report.error(codes::BAD_END, at, format!("the edge has no `{key}`")).hint(EDGE_HINT);
            }
        }
        // Both ends are looked at before giving up.
        let from = from.and_then(|entry| self.end(cx, &entry));
        let to = to.and_then(|entry| self.end(cx, &entry));
        if let (Some(from), Some(to), Some(notify)) = (from, to, notify) {
            self.connect(cx.report, &from, &to, Edge { notify }, at);
        }
    }

    /// Adds the edges that follow from `recv`.
    pub(crate) fn receives(&mut self, cx: &mut Reading<'_, '_, '_>) {
        let mut found = Vec::new();
        for (vertex, spec) in self.declared.graph.nodes() {
            let places = self.declared.receive_places(vertex).iter();
            found.extend(
                spec.receives.iter().zip(places).map(|(receive, at)| (vertex, receive.from.clone(), *at)),
            );
        }
        for (vertex, sender, at) in found {
            let Some(vertices) = self.resolve(cx.report, &sender, at) else { continue };
            let runs =
                |sender: &&Vertex| self.declared.graph.node(**sender).is_some_and(|spec| !spec.meta.hidden);
            match vertices.iter().find(runs) {
                Some(sender_vertex) if *sender_vertex == vertex => self.self_edge(cx.report, &sender, at),
                Some(sender_vertex) => self.add(cx.report, *sender_vertex, vertex, Edge::ORDER, at),
                None => {
                    let message = format!("{sender} is hidden and sends nothing");
                    cx.report.error(codes::HIDDEN_SENDER, at, message);
                }
            }
        }
    }

    /// Reports cycles. Edges of a reported cycle do not count for the next.
    pub(crate) fn check(self, report: &mut Report<'_>) {
        for _ in 0..MOST_CYCLES {
            let Err(cycle) = self.declared.graph.check_acyclic() else { return };
            let name = |vertex| {
                self.declared.graph.node(vertex).map_or_else(String::new, |spec| spec.id.to_string())
            };
            let pairs: Vec<_> = cycle.nodes.windows(2).map(|pair| (pair[0], pair[1])).collect();
            let wanted: HashSet<_> = pairs.iter().copied().collect();
            let mut seen = HashSet::new();
            let shown: Vec<_> = self
                .edges
                .iter()
                .filter(|(from, to, _)| wanted.contains(&(*from, *to)) && seen.insert((*from, *to)))
                .take(MOST_CYCLES)
                .collect();
            let first = shown.first().map_or(Span::default(), |(_, _, at)| *at);
            let mut note = report.error(
                codes::CYCLE,
                first,
                format!("the edges go in a circle: {}", circle(&cycle, name)),
            );
            for (position, (from, to, at)) in shown.into_iter().enumerate() {
                let text = format!("{} before {}", name(*from), name(*to));
                note = if position == 0 { note.label(text) } else { note.also(*at, text) };
            }
            let _ = note.hint("take one of these edges out");
            for (from, to) in pairs {
                self.declared.graph.remove_edge(from, to);
            }
        }
    }

    /// The resource that an end of an edge names.
    fn end(&mut self, cx: &mut Reading<'_, '_, '_>, entry: &Entry<'_>) -> Option<(Id, Vec<Vertex>)> {
        let at = cx.tree.span(entry.value);
        let Some(entries) = cx.tree.entries(entry.value, cx.report) else {
            let found = cx.tree.describe(entry.value);
            let message = format!("`{}` expects a map with `kind` and `name`, found {found}", entry.key);
            cx.report.error(codes::BAD_END, at, message).hint(EDGE_HINT);
            return None;
        };
        let find = |key: &str| entries.iter().find(|entry| entry.key == key);
        let kind = find("kind").or_else(|| find("type"));
        let (Some(kind), Some(name)) = (kind, find("name")) else {
            let missing = if kind.is_none() { "kind" } else { "name" };
            cx.report
                .error(codes::BAD_END, at, format!("`{}` has no `{missing}`", entry.key))
                .hint(EDGE_HINT);
            return None;
        };
        if kind.key == "type" && cx.report.first(codes::OLD_SPELLING, "type") {
            cx.report
                .warning(codes::OLD_SPELLING, kind.key_span, "`type` is the old spelling of `kind`")
                .hint("write `kind` instead; this is said once per file");
        }
        for extra in entries.iter().filter(|entry| entry.key != kind.key && entry.key != "name") {
            let message = format!("the end of an edge has no key `{}`", shorten(extra.key));
            cx.report.unknown_key(codes::UNKNOWN_PARAMETER, extra.key_span, message);
        }
        let name_at = cx.tree.span(name.value);
        let kind_at = cx.tree.span(kind.value);
        let kind = decode::text(cx.tree, kind.value, "`kind`", cx.report)?;
        let name = decode::text(cx.tree, name.value, "`name`", cx.report)?;
        if self.unknown_kinds.contains(kind) {
            return None;
        }
        let id = Id::new(cx.schema(kind, kind_at)?.kind, name);
        let vertices = self.resolve(cx.report, &id, name_at)?;
        Some((id, vertices))
    }

    /// The vertices of a name; reports it if there are none.
    fn resolve(&self, report: &mut Report<'_>, id: &Id, at: Span) -> Option<Vec<Vertex>> {
        let vertices = self.declared.find(id);
        if !vertices.is_empty() {
            return Some(vertices);
        }
        let hint = self.suggest(report, id);
        report.error(codes::UNKNOWN_END, at, format!("there is no resource {id}")).maybe_hint(hint);
        None
    }

    fn suggest(&self, report: &mut Report<'_>, id: &Id) -> Option<String> {
        let name = id.name.to_text();
        if self.declared.is_exported(id) || name.starts_with("@@") {
            return Some(
                "exported resources are not part of this graph unless `collect` has their kind".into(),
            );
        }
        let same_kind = self.declared.graph.nodes().filter(|(_, spec)| spec.id.kind == id.kind);
        let names = same_kind.filter_map(|(_, spec)| spec.id.name.as_str());
        if let Some(near) = report.suggest(&name, names) {
            return Some(format!("did you mean {}[{}]?", id.kind, shorten(near)));
        }
        let mut others = self.declared.graph.nodes().filter(|(_, spec)| spec.id.name == id.name);
        others.next().map(|(_, spec)| format!("did you mean {}?", spec.id))
    }

    fn connect(
        &mut self,
        report: &mut Report<'_>,
        (from_id, from): &(Id, Vec<Vertex>),
        (to_id, to): &(Id, Vec<Vertex>),
        edge: Edge,
        at: Span,
    ) {
        if from_id == to_id {
            return self.self_edge(report, from_id, at);
        }
        if let ([from, ..], [to, ..]) = (&**from, &**to)
            && self.declared.graph.contains_edge(*from, *to)
        {
            // The search is long, and nobody reads the thousandth warning.
            let mut edges = self.edges.iter().take(if report.wants_warnings() { usize::MAX } else { 0 });
            let before = edges.find(|(f, t, _)| f == from && t == to).map(|(_, _, at)| *at);
            let message = format!("the edge from {from_id} to {to_id} is given twice");
            report
                .warning(codes::REPEATED_EDGE, at, message)
                .also(before.unwrap_or(at), "given here first")
                .hint("it notifies if either of them does");
        }
        for from in from {
            for to in to {
                self.add(report, *from, *to, edge.clone(), at);
            }
        }
    }

    fn add(&mut self, report: &mut Report<'_>, from: Vertex, to: Vertex, edge: Edge, at: Span) {
        if self.edges.len() >= MOST_EDGES {
            if report.first(codes::TOO_MANY_EDGES, "") {
                let message = format!("the file stands for more than {MOST_EDGES} edges");
                report.error(codes::TOO_MANY_EDGES, at, message);
            }
            return;
        }
        if self.declared.graph.merge_edge(from, to, edge, Edge::merge) {
            self.edges.push((from, to, at));
        }
    }

    fn self_edge(&self, report: &mut Report<'_>, id: &Id, at: Span) {
        report.error(codes::SELF_EDGE, at, format!("{id} can't come before itself"));
    }
}

const EDGE_HINT: &str = "write `- {name: …, from: {kind: …, name: …}, to: {kind: …, name: …}}`";

/// The cycle in words; of a long one only the beginning and the end.
fn circle(cycle: &mgmt_graph::Cycle, name: impl Fn(Vertex) -> String) -> String {
    const LONGEST: usize = 20;
    if cycle.nodes.len() <= LONGEST {
        return cycle.describe(name);
    }
    let mut names: Vec<_> = cycle.nodes.iter().take(LONGEST / 2).map(|vertex| name(*vertex)).collect();
    names.push(format!("… {} more …", cycle.nodes.len() - LONGEST));
    names.extend(cycle.nodes.iter().skip(cycle.nodes.len() - LONGEST / 2).map(|vertex| name(*vertex)));
    names.join(" -> ")
}
