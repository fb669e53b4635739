//! From declared resources and edges to a resource graph: what is declared twice, hidden, exported, missing.

use std::any::Any;
use std::sync::Arc;

use mgmt_diagnostics::{Diagnostic, SourceMap, Span};
use mgmt_resource::{
    Edge, Fields as _, Id, Meta as MetaParams, Origin, Receive, Registry, ResourceGraph, Schema, Spec,
    did_you_mean,
};
use mgmt_value::{Mismatch, Str, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::codes::Code;

/// A resource that the program declares.
pub(crate) struct Declaration {
    pub(crate) spec: Spec,
    /// The statement.
    pub(crate) span: Span,
}

/// An edge that the program declares.
#[derive(Clone, PartialEq)]
pub(crate) struct DeclaredEdge {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) notify: bool,
    pub(crate) span: Span,
}

/// An end of an edge.
#[derive(Clone, PartialEq)]
pub(crate) struct End {
    pub(crate) kind: Arc<str>,
    pub(crate) name: Str,
    /// What is sent or received.
    pub(crate) field: Option<Arc<str>>,
}

/// A resource while its parameters are being set.
pub(crate) struct Draft {
    schema: &'static Schema,
    name: Str,
    resource: Box<dyn mgmt_resource::Resource>,
    meta: MetaParams,
    span: Span,
    name_span: Span,
}

impl Draft {
    pub(crate) fn new(schema: &'static Schema, name: Str, span: Span) -> Draft {
        let (resource, meta) = ((schema.make)(), MetaParams::default());
        Draft { schema, name, resource, meta, span, name_span: span }
    }

    /// Starts from a resource that another host has exported.
    pub(crate) fn collected(schema: &'static Schema, spec: &Spec, span: Span) -> Draft {
        let mut meta = (*spec.meta).clone();
        meta.export.clear();
        let (name, resource) = (spec.id.name.clone(), spec.resource.boxed_clone());
        Draft { schema, name, resource, meta, span, name_span: span }
    }

    /// Where its name is.
    pub(crate) fn named_at(self, name_span: Span) -> Draft {
        Draft { name_span, ..self }
    }

    pub(crate) fn set(&mut self, field: &str, value: &Value, at: Span) -> Result<(), Diagnostic> {
        match self.resource.set(field, value) {
            Some(Ok(())) | None => Ok(()),
            Some(Err(mismatch)) => Err(self.refused(field, &mismatch, at)),
        }
    }

    pub(crate) fn set_meta(&mut self, field: &str, value: &Value, at: Span) -> Result<(), Diagnostic> {
        let Some(spec) = MetaParams::field(field) else { return Ok(()) };
        let meta: &mut dyn Any = &mut self.meta;
        (spec.set)(meta, value).map_err(|mismatch| self.refused(field, &mismatch, at))
    }

    fn refused(&self, field: &str, mismatch: &Mismatch, at: Span) -> Diagnostic {
        let message = format!("`{field}` of {}: {mismatch}", Id::new(self.schema.kind, self.name.clone()));
        Code::OutOfRange.at(at, message)
    }

    /// The finished resource, if it can be. `places` tells where parameters and metaparameters are set.
    pub(crate) fn finish<'p>(
        self,
        sources: &SourceMap,
        places: impl Iterator<Item = (&'p str, Span)> + Clone,
    ) -> Result<Declaration, Diagnostic> {
        let id = Id::new(self.schema.kind, self.name.clone());
        let invalid = |found: mgmt_resource::Invalid| {
            let place = |name: &str| {
                let mut places = places.clone();
                let is_same = |other: &str| {
                    let field = self.schema.field(other).map_or(other, |field| field.name);
                    field == name
                };
                places.find(|(other, _)| is_same(other)).map(|(_, span)| span)
            };
            // A rule about several parameters names them in its message.
            let named = || found.message.split('`').skip(1).step_by(2).find_map(place);
            let at = found.field.and_then(place).or_else(named).unwrap_or(self.name_span);
            let message = match found.field {
                Some(field) => format!("`{field}` of {id}: {}", found.message),
                None => format!("{id}: {}", found.message),
            };
            let diagnostic = Code::BadResource.at(at, message).maybe_hint(found.hint);
            if sources.line(at) == sources.line(self.span) {
                return diagnostic;
            }
            let kind_len = u32::try_from(self.schema.kind.len()).unwrap_or(0);
            let end = self.span.end.min(self.span.start.saturating_add(kind_len));
            diagnostic.label(Span { end, ..self.span }, "in this resource")
        };
        if self.name.is_empty() {
            return Err(Code::BadName.at(self.name_span, "the name of a resource cannot be empty"));
        }
        if self.name.first() == Some(&b'$') && !self.meta.dollar {
            let message = format!("the name `{}` starts with a dollar sign", self.name.display());
            return Err(Code::BadName
                .at(self.name_span, message)
                .hint("if the name is meant like this, set `Meta:dollar => true`"));
        }
        self.meta.validate().map_err(invalid)?;
        if !self.meta.hidden {
            self.resource.validate(&self.name).map_err(invalid)?;
        }
        let (file, line, column) = sources.position(self.span);
        let origin = Some(Origin { file, line, column });
        let spec = Spec { meta: self.meta.into(), origin, ..Spec::of(self.name, Arc::from(self.resource)) };
        Ok(Declaration { spec, span: self.span })
    }
}

/// The resources that `_collect` has found.
pub(crate) fn collect(
    found: &Value,
    schema: &'static Schema,
    kinds: &Registry,
    span: Span,
) -> Result<Vec<Draft>, Diagnostic> {
    let text = |item: &Value, field: &str| match item {
        Value::Struct(item) => match item.fields.iter().find(|(name, _)| **name == *field) {
            Some((_, Value::Str(text))) => text.clone(),
            _ => Str::EMPTY,
        },
        _ => Str::EMPTY,
    };
    let items = if let Value::List(list) = found { list.items.as_slice() } else { &[] };
    let draft = |item: &Value| {
        let read = serde_json::from_slice(&text(item, "data"))
            .map_err(|error| error.to_string())
            .and_then(|json| mgmt_resource::from_stored(&json, kinds).map_err(|error| error.to_string()))
            .and_then(|spec| match spec.id.kind == schema.kind {
                true => Ok(spec),
                false => Err(format!("it is of the kind `{}`", spec.id.kind)),
            });
        read.map(|spec| Draft::collected(schema, &spec, span)).map_err(|error| {
            let message = format!(
                "what `{}` exports as {}[{}] cannot be read: {error}",
                text(item, "host").display(),
                schema.kind,
                text(item, "name").display()
            );
            Code::Failed.at(span, message)
        })
    };
    items.iter().map(draft).collect()
}

/// Resources and edges, put together.
pub(crate) struct Assembled {
    pub(crate) graph: ResourceGraph,
    /// The resources that were declared more than once.
    pub(crate) repeated: FxHashSet<Id>,
}

/// Why resources and edges cannot be put together.
pub(crate) struct Problem {
    pub(crate) diagnostic: Diagnostic,
    pub(crate) about: About,
}

/// What a problem is about.
pub(crate) enum About {
    /// An edge leads from or to a resource that is not there.
    MissingEnd { edge: usize, is_from: bool },
    /// Declarations and edges of these resources contradict each other.
    Resources(Vec<Id>),
}

/// Puts resources and edges together.
pub(crate) fn assemble(
    declarations: Vec<Declaration>,
    edges: &[DeclaredEdge],
    kinds: &Registry,
) -> Result<Assembled, Vec<Problem>> {
    let mut assembly = Assembly::default();
    assembly.kept.reserve(declarations.len());
    assembly.visible.reserve(declarations.len());
    for declaration in declarations {
        assembly.add(declaration);
    }
    assembly.connect(edges, kinds);
    if !assembly.wrong.is_empty() {
        return Err(assembly.wrong);
    }
    let repeated = std::mem::take(&mut assembly.repeated);
    Ok(Assembled { graph: assembly.graph(edges)?, repeated })
}

#[derive(Default)]
struct Assembly {
    kept: Vec<Declaration>,
    /// By name; hidden ones may be several.
    visible: FxHashMap<Id, usize>,
    hidden: FxHashMap<Id, Vec<usize>>,
    exported: FxHashMap<(Id, Str), usize>,
    repeated: FxHashSet<Id>,
    edges: Vec<(usize, usize, bool)>,
    wrong: Vec<Problem>,
}

impl Assembly {
    fn contradicts(&mut self, diagnostic: Diagnostic, ids: Vec<Id>) {
        self.wrong.push(Problem { diagnostic, about: About::Resources(ids) });
    }

    fn add(&mut self, declaration: Declaration) {
        let id = declaration.spec.id.clone();
        for host in &declaration.spec.meta.export {
            let key = (id.clone(), host.clone());
            match self.exported.get(&key).and_then(|&first| self.kept.get(first)) {
                Some(first) if !same(&first.spec, &declaration.spec) => {
                    let message =
                        format!("{id} is exported to `{}` twice, and not in the same way", host.display());
                    let diagnostic = Code::ConflictingResource
                        .at(declaration.span, message)
                        .label(first.span, "it is exported here first");
                    self.contradicts(diagnostic, vec![id]);
                    return;
                }
                Some(_) => {}
                None => {
                    self.exported.insert(key, self.kept.len());
                }
            }
        }
        if declaration.spec.meta.hidden {
            let list = self.hidden.entry(id).or_default();
            let repeated = list.last().and_then(|&last| self.kept.get(last));
            if repeated.is_some_and(|last| same(&last.spec, &declaration.spec)) {
                return;
            }
            list.push(self.kept.len());
            self.kept.push(declaration);
            return;
        }
        let Some(&first) = self.visible.get(&id) else {
            self.visible.insert(id, self.kept.len());
            self.kept.push(declaration);
            return;
        };
        self.repeated.insert(id.clone());
        let first = &mut self.kept[first];
        if same(&first.spec, &declaration.spec) {
            return;
        }
        if let Some(merged) = merged(&first.spec, &declaration.spec) {
            first.spec = merged;
            return;
        }
        let message = format!("{id} is declared twice, and not in the same way");
        let differences = differences(&first.spec, &declaration.spec);
        let mut diagnostic = Code::ConflictingResource
            .at(declaration.span, message)
            .label(first.span, "it is declared here first");
        if !differences.is_empty() {
            diagnostic = diagnostic.hint(format!("they differ in: {}", differences.join(", ")));
        }
        self.contradicts(diagnostic, vec![id]);
    }

    /// The resources of a name, hidden ones too.
    fn find(&self, end: &End, kinds: &Registry) -> Vec<usize> {
        let Some(schema) = kinds.get(&end.kind) else { return Vec::new() };
        let id = Id::new(schema.kind, end.name.clone());
        let hidden = self.hidden.get(&id).into_iter().flatten().copied();
        self.visible.get(&id).copied().into_iter().chain(hidden).collect()
    }

    fn connect(&mut self, edges: &[DeclaredEdge], kinds: &Registry) {
        for (index, edge) in edges.iter().enumerate() {
            let (from, to) = (self.find(&edge.from, kinds), self.find(&edge.to, kinds));
            for (end, found, is_from) in [(&edge.from, &from, true), (&edge.to, &to, false)] {
                if found.is_empty() {
                    let name = end.name.display().to_string();
                    let message = format!("there is no resource {}[{name}]", end.kind);
                    let of_kind = self.visible.keys().filter(|id| id.kind == &*end.kind);
                    let names: Vec<String> = of_kind.map(|id| id.name.display().to_string()).collect();
                    let near = did_you_mean(&name, names.iter().map(String::as_str));
                    let hint = near.map(|near| format!("did you mean {}[{near}]?", end.kind));
                    let diagnostic = Code::MissingResource.at(edge.span, message).maybe_hint(hint);
                    let about = About::MissingEnd { edge: index, is_from };
                    self.wrong.push(Problem { diagnostic, about });
                }
            }
            for &from in &from {
                for &to in &to {
                    self.edges.push((from, to, edge.notify));
                    if let (Some(sent), Some(received)) = (&edge.from.field, &edge.to.field) {
                        self.send(edge.span, from, sent, to, received);
                    }
                }
            }
        }
    }

    fn send(&mut self, span: Span, from: usize, sent: &str, to: usize, received: &str) {
        let sender = &self.kept[from].spec;
        let id = sender.id.clone();
        if sender.meta.hidden {
            let message = format!("{id} is hidden and never runs, so it sends nothing");
            let ids = vec![id, self.kept[to].spec.id.clone()];
            self.contradicts(Code::HiddenSender.at(span, message), ids);
            return;
        }
        let Some(key) = sender.resource.schema().sent(sent) else { return };
        let receiver = &mut self.kept[to].spec;
        let Some(field) = receiver.resource.schema().field(received) else { return };
        let receive = Receive { field: field.name, from: id.clone(), key: key.name };
        match receiver.receives.iter().find(|other| other.field == receive.field) {
            Some(other) if *other == receive => {}
            Some(other) => {
                let message = format!(
                    "`{}` of {} is received from {} and from {id}",
                    receive.field, receiver.id, other.from
                );
                let ids = vec![id, other.from.clone(), receiver.id.clone()];
                let diagnostic = Code::DuplicateReceive
                    .at(span, message)
                    .hint("a parameter takes its value from one resource");
                self.contradicts(diagnostic, ids);
            }
            None => receiver.receives.push(receive),
        }
    }

    fn graph(self, edges: &[DeclaredEdge]) -> Result<ResourceGraph, Vec<Problem>> {
        let mut graph = ResourceGraph::with_capacity(self.kept.len(), self.edges.len());
        let nodes: Vec<_> =
            self.kept.into_iter().map(|declaration| graph.add_node(declaration.spec)).collect();
        for (from, to, notify) in self.edges {
            graph.merge_edge(nodes[from], nodes[to], Edge { notify }, |edge, other| edge.merge(other));
        }
        match graph.check_acyclic() {
            Ok(_) => Ok(graph),
            Err(cycle) => {
                let name = |id| graph.node(id).map(|spec: &Spec| spec.id.to_string()).unwrap_or_default();
                let message = format!("the edges go in a circle: {}", cycle.describe(name));
                let span = edges
                    .iter()
                    .find(|edge| {
                        cycle.nodes.iter().any(|&node| {
                            graph.node(node).is_some_and(|spec| {
                                spec.id.kind == &*edge.from.kind && spec.id.name == edge.from.name
                            })
                        })
                    })
                    .map(|edge| edge.span);
                let mut diagnostic = match span {
                    Some(span) => Code::Circle.at(span, message),
                    None => return Err(Vec::new()),
                };
                diagnostic.hints.push("one of the edges must go".to_owned());
                let ids = cycle.nodes.iter().filter_map(|&node| graph.node(node)).map(|spec| spec.id.clone());
                Err(vec![Problem { diagnostic, about: About::Resources(ids.collect()) }])
            }
        }
    }
}

fn same(a: &Spec, b: &Spec) -> bool {
    a.resource.same_as(&a.id.name, &*b.resource) && a.meta.same_as(&b.meta)
}

/// Two declarations that can be one.
fn merged(a: &Spec, b: &Spec) -> Option<Spec> {
    let resource = a.resource.merged(&a.id.name, &*b.resource)?;
    a.meta.same_as(&b.meta).then(|| Spec { resource: resource.into(), ..a.clone() })
}

/// The parameters that are not the same.
fn differences(a: &Spec, b: &Spec) -> Vec<String> {
    let fields = a
        .resource
        .schema()
        .fields
        .iter()
        .filter(|field| a.resource.get(field.name) != b.resource.get(field.name));
    let mut names: Vec<String> = fields.map(|field| field.name.to_owned()).collect();
    for field in MetaParams::FIELDS {
        let (x, y): (&dyn Any, &dyn Any) = (&*a.meta, &*b.meta);
        if (field.get)(x) != (field.get)(y) {
            names.push(format!("Meta:{}", field.name));
        }
    }
    names
}
