//! The document: its sections, in the order in which they depend on each other.

use std::collections::HashSet;
use std::sync::Arc;

use mgmt_resource::Registry;
use mgmt_value::Str;

use crate::declarations::Declarations;
use crate::diagnostic::Report;
use crate::position::Positions;
use crate::resources::{self, Reading};
use crate::tree::{Entry, NodeId, Tree, shorten};
use crate::wiring::Wiring;
use crate::{Collect, YamlGraph, codes, decode};

/// The keys at the top level.
const SECTIONS: [&str; 6] = ["graph", "comment", "resources", "edges", "collect", "remote"];

/// Reads a document into a graph. What the report says decides whether the graph may be used.
pub(crate) fn read<'s>(
    tree: &Tree<'s>,
    positions: &Positions<'s>,
    file: Arc<str>,
    registry: &Registry,
    report: &mut Report<'s>,
) -> Option<YamlGraph> {
    let kinds = registry.schemas().map(|schema| (schema.kind, schema)).collect();
    let mut cx = Reading { tree, report, positions, file, registry, kinds };
    let mut sections = Sections::sort(&mut cx)?;
    let name = sections.name(&mut cx);
    let mut text = |node: Option<NodeId>, what| {
        node.and_then(|node| decode::text(tree, node, what, cx.report)).map(Str::from)
    };
    let comment = text(sections.comment, "`comment`").unwrap_or_default();
    let remote = text(sections.remote, "`remote`").filter(|remote| !remote.is_empty());

    let mut declared = Declarations::default();
    let mut unknown_kinds = HashSet::new();
    for section in std::mem::take(&mut sections.resources) {
        read_resources(&mut cx, &section, &mut declared, &mut unknown_kinds);
    }
    let collect = sections.collect.map_or_else(Vec::new, |node| read_collect(&mut cx, node));
    let exported = declared.collect(&collect, cx.report);
    let mut wiring = Wiring::new(&mut declared, unknown_kinds);
    if let Some(edges) = sections.edges {
        for edge in list(&mut cx, edges, "`edges`") {
            wiring.edge(&mut cx, edge);
        }
    }
    wiring.receives(&mut cx);
    wiring.check(cx.report);
    Some(YamlGraph { name, comment, graph: declared.graph, exported, collect, remote })
}

/// Where each section is.
#[derive(Default)]
struct Sections<'t> {
    graph: Option<NodeId>,
    comment: Option<NodeId>,
    remote: Option<NodeId>,
    collect: Option<NodeId>,
    edges: Option<NodeId>,
    /// `resources`, and `types` as it was once called.
    resources: Vec<Entry<'t>>,
}

impl<'t> Sections<'t> {
    fn sort(cx: &mut Reading<'t, '_, '_>) -> Option<Sections<'t>> {
        let Some(entries) = cx.tree.entries(Tree::ROOT, cx.report) else {
            let found = cx.tree.describe(Tree::ROOT);
            cx.report
                .error(codes::NOT_A_MAP, cx.tree.span(Tree::ROOT), format!("expected a graph, found {found}"))
                .hint("the top level is a map with the keys `graph`, `resources` and `edges`");
            return None;
        };
        let mut sections = Sections::default();
        for entry in entries {
            match entry.key {
                "graph" => sections.graph = Some(entry.value),
                "comment" => sections.comment = Some(entry.value),
                "collect" => sections.collect = Some(entry.value),
                "edges" => sections.edges = Some(entry.value),
                "resources" => sections.resources.push(entry),
                "types" => {
                    cx.report
                        .warning(
                            codes::OLD_SPELLING,
                            entry.key_span,
                            "`types` is the old spelling of `resources`",
                        )
                        .hint("write `resources` instead");
                    sections.resources.push(entry);
                }
                "remote" => {
                    // The address may hold a password, so the key is what is shown.
                    cx.report
                        .warning(
                            codes::REMOTE,
                            entry.key_span,
                            "`remote` only counts for `mgmt run --remote FILE`",
                        )
                        .hint("leave it out, or run the file with `--remote`");
                    sections.remote = Some(entry.value);
                }
                key => {
                    let near = cx.report.suggest(key, SECTIONS.into_iter());
                    let message = format!("`{}` means nothing at the top level", shorten(key));
                    cx.report
                        .unknown_key(codes::UNKNOWN_SECTION, entry.key_span, message)
                        .maybe_hint(near.map(|near| format!("did you mean `{near}`?")));
                }
            }
        }
        Some(sections)
    }

    fn name(&self, cx: &mut Reading<'_, '_, '_>) -> Str {
        let hint = "add `graph: some_name` to the top level";
        let Some(node) = self.graph else {
            let at = cx.tree.span(Tree::ROOT).before();
            cx.report.error(codes::NO_GRAPH_NAME, at, "the graph has no name").hint(hint);
            return Str::EMPTY;
        };
        let name = decode::text(cx.tree, node, "the name of the graph", cx.report);
        if name.is_some_and(str::is_empty) {
            let at = cx.tree.span(node);
            cx.report.error(codes::NO_GRAPH_NAME, at, "the name of the graph is empty").hint(hint);
        }
        name.map(Str::from).unwrap_or_default()
    }
}

fn read_resources<'t>(
    cx: &mut Reading<'t, '_, '_>,
    section: &Entry<'t>,
    declared: &mut Declarations,
    unknown_kinds: &mut HashSet<&'t str>,
) {
    let Some(kinds) = cx.tree.entries(section.value, cx.report) else {
        if !decode::is_null(cx.tree, section.value) {
            let found = cx.tree.describe(section.value);
            let message = format!("`{}` expects a map from kinds to lists, found {found}", section.key);
            cx.report
                .error(codes::WRONG_SHAPE, cx.tree.span(section.value), message)
                .hint("write the kind as a key, and its resources as a list below it");
        }
        return;
    };
    for entry in kinds {
        let Some(schema) = cx.kinds.get(entry.key).copied() else {
            unknown_kinds.insert(entry.key);
            cx.unknown_kind(entry.key, entry.key_span);
            continue;
        };
        for item in list(cx, entry.value, &format!("`{}`", schema.kind)) {
            if let Some(declaration) = resources::read(cx, schema, item) {
                declared.add(declaration, cx.report);
            }
        }
    }
}

fn read_collect(cx: &mut Reading<'_, '_, '_>, node: NodeId) -> Vec<Collect> {
    let mut collect = Vec::new();
    for item in list(cx, node, "`collect`") {
        let Some(entries) = cx.tree.entries(item, cx.report) else {
            let message =
                format!("expected a map with `kind` and `pattern`, found {}", cx.tree.describe(item));
            cx.report.error(codes::WRONG_SHAPE, cx.tree.span(item), message);
            continue;
        };
        let (mut kind, mut pattern) = (None, Some(""));
        for entry in &entries {
            match entry.key {
                "kind" => {
                    let name = decode::text(cx.tree, entry.value, "`kind`", cx.report);
                    kind = Some(name.and_then(|name| cx.schema(name, cx.tree.span(entry.value))));
                }
                "pattern" => pattern = decode::text(cx.tree, entry.value, "`pattern`", cx.report),
                key => {
                    let message = format!("a collect entry has no key `{}`", shorten(key));
                    cx.report.unknown_key(codes::UNKNOWN_PARAMETER, entry.key_span, message);
                }
            }
        }
        match (kind, pattern) {
            (Some(Some(schema)), Some(pattern)) => {
                collect.push(Collect { kind: schema.kind, pattern: Str::from(pattern) });
            }
            (None, _) => {
                cx.report.error(codes::WRONG_SHAPE, cx.tree.span(item), "the collect entry has no `kind`");
            }
            _ => {}
        }
    }
    collect
}

/// The items of a section that is a list. Nothing at all is an empty list.
fn list(cx: &mut Reading<'_, '_, '_>, node: NodeId, what: &str) -> Vec<NodeId> {
    if let Some(items) = cx.tree.items(node) {
        return items.collect();
    }
    if !decode::is_null(cx.tree, node) {
        let message = format!("{what} expects a list, found {}", cx.tree.describe(node));
        cx.report
            .error(codes::WRONG_SHAPE, cx.tree.span(node), message)
            .hint("start each item with `- `, or write `[]` for none");
    }
    Vec::new()
}
