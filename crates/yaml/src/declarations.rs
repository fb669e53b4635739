//! All resources of a document, by name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mgmt_graph::NodeId as Vertex;
use mgmt_resource::{Id, ResourceGraph, Spec};
use mgmt_value::{Str, Value};

use crate::Collect;
use crate::codes;
use crate::diagnostic::Report;
use crate::resources::Declaration;
use crate::tree::Span;

/// The resources so far. Kind and name are unique among those that are not hidden.
#[derive(Debug, Default)]
pub(crate) struct Declarations {
    pub(crate) graph: ResourceGraph,
    /// Where each vertex is named, and where each of its `recv` entries is.
    places: Vec<(Span, Vec<Span>)>,
    names: HashMap<Id, Named>,
    exported: Vec<Declaration>,
    exported_names: HashSet<Id>,
}

/// The vertices of one kind and name.
#[derive(Debug, Default)]
struct Named {
    visible: Option<Vertex>,
    /// In the order of the file. Mostly empty, which costs nothing.
    hidden: Vec<Vertex>,
}

impl Declarations {
    /// Adds a resource, or sets it aside if it is exported.
    pub(crate) fn add(&mut self, declaration: Declaration, report: &mut Report<'_>) {
        if declaration.exported {
            self.exported_names.insert(declaration.spec.id.clone());
            self.exported.push(declaration);
        } else {
            self.insert(declaration, report);
        }
    }

    /// Takes those exported resources in whose kind is collected, and returns all that are exported.
    pub(crate) fn collect(&mut self, collect: &[Collect], report: &mut Report<'_>) -> Vec<Spec> {
        let mut exported = Vec::new();
        for declaration in std::mem::take(&mut self.exported) {
            let spec = declaration.spec.clone();
            if let Some(entry) = collect.iter().find(|entry| entry.kind == spec.id.kind) {
                self.insert(placed(declaration, entry, report), report);
            }
            exported.push(spec);
        }
        exported
    }

    /// All vertices of a kind and name.
    pub(crate) fn find(&self, id: &Id) -> Vec<Vertex> {
        let named = self.names.get(id).into_iter();
        named.flat_map(|named| named.visible.iter().chain(&named.hidden).copied()).collect()
    }

    /// Whether a resource of that name is exported.
    pub(crate) fn is_exported(&self, id: &Id) -> bool {
        self.exported_names.contains(id)
    }

    /// Where the entries of a vertex's `recv` are.
    pub(crate) fn receive_places(&self, vertex: Vertex) -> &[Span] {
        self.places.get(vertex.index()).map_or(&[], |(_, receives)| receives)
    }

    fn insert(&mut self, declaration: Declaration, report: &mut Report<'_>) {
        let Declaration { spec, place, receive_places, .. } = declaration;
        let hidden = spec.meta.hidden;
        let named = self.names.entry(spec.id.clone()).or_default();
        let before = if hidden { named.hidden.last().copied() } else { named.visible };
        let earlier =
            before.and_then(|vertex| Some((self.graph.node(vertex)?, self.places.get(vertex.index())?)));
        match earlier {
            Some((earlier, _)) if hidden && spec.same_as(earlier) => return,
            Some((earlier, (there, _))) if !hidden => {
                report_twice(&spec, earlier, place, *there, report);
                // One that fulfils both takes the place of both.
                let merged = earlier.merged(&spec);
                if let (Some(merged), Some(vertex)) = (merged, before.and_then(|at| self.graph.node_mut(at)))
                {
                    *vertex = merged;
                }
                return;
            }
            _ => {}
        }
        let vertex = self.graph.add_node(spec);
        self.places.push((place, receive_places));
        match hidden {
            true => named.hidden.push(vertex),
            false => named.visible = Some(vertex),
        }
    }
}

fn report_twice(spec: &Spec, earlier: &Spec, here: Span, there: Span, report: &mut Report<'_>) {
    let id = &spec.id;
    if spec.same_as(earlier) {
        report
            .warning(codes::SAME_RESOURCE, here, format!("{id} is declared twice, in the same way"))
            .label("this one is ignored")
            .also(there, "declared here first");
    } else if earlier.merged(spec).is_some() {
        report
            .warning(codes::SAME_RESOURCE, here, format!("{id} is declared twice"))
            .label("both become one resource, which fulfils both")
            .also(there, "declared here first");
    } else {
        report
            .error(codes::CONFLICT, here, format!("{id} is declared twice, and not in the same way"))
            .also(there, "declared here first")
            .hint("give one of them another name, or make them the same");
    }
}

/// A collected resource. A file goes to the directory that the pattern names.
fn placed(mut declaration: Declaration, entry: &Collect, report: &mut Report<'_>) -> Declaration {
    let spec = &mut declaration.spec;
    if entry.pattern.is_empty() || spec.resource.schema().field("dirname").is_none() {
        return declaration;
    }
    let mut resource = spec.resource.boxed_clone();
    let directory = if entry.pattern.ends_with(b"/") {
        entry.pattern.clone()
    } else {
        Str::new([entry.pattern.as_bytes(), b"/"].concat())
    };
    if let Some(Ok(())) = resource.set("dirname", &Value::Str(directory)) {
        if !spec.meta.hidden
            && let Err(invalid) = resource.validate(&spec.id.name)
        {
            crate::decode::refuse(&invalid, codes::INVALID, declaration.place, &spec.id, report);
        }
        spec.resource = Arc::from(resource);
    }
    declaration
}
