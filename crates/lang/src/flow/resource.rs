//! Resources: what they are made of, and what that declares.

use std::sync::Arc;

use mgmt_dataflow::NodeId;
use mgmt_diagnostics::Span;
use mgmt_resource::Schema;
use mgmt_value::Value;

use super::expr::lost;
use super::stmt::{end, join, named, names};
use super::{Builder, Datum, Declared, Fault, Frame, Program, lock};
use crate::hir::*;
use crate::output::{Draft, End};

/// What a resource declares that is always the same.
pub(super) type Fixed = Result<Declared, Fault>;

/// How to make a resource of the values that it is given.
struct Recipe {
    schema: &'static Schema,
    kind: Arc<str>,
    collect: bool,
    /// Where the name or names are.
    name_span: Span,
    /// What the values behind the name are for, in order.
    plan: Vec<Setting>,
    span: Span,
}

/// What an input of a resource is for.
enum Setting {
    Field(Arc<str>, Span),
    Meta(Arc<str>, Span),
    /// All of a struct, and the whole setting.
    AllMeta(ExprId, Span),
    Edge(EdgeWord, End, Span),
}

/// What a resource is given behind its name: conditions and values, in the order of its plan.
fn inputs(resource: &Resource) -> impl Iterator<Item = (Option<ExprId>, ExprId)> {
    let fields = resource.fields.iter().map(|field| (field.condition, field.value));
    let meta = resource.meta.iter().map(|meta| (meta.condition, meta.value));
    let edges = resource.edges.iter().map(|edge| (edge.condition, edge.half.name));
    fields.chain(meta).chain(edges)
}

impl Recipe {
    /// None for a kind that is not there.
    fn new(program: &Program, stmt: StmtId, resource: &Resource) -> Option<Recipe> {
        let hir = &program.checked.hir;
        let schema = program.kinds.get(hir.text(resource.kind))?;
        let settings = resource.fields.len() + resource.meta.len() + resource.edges.len();
        let mut plan = Vec::with_capacity(settings);
        let fields = resource.fields.iter();
        plan.extend(fields.map(|field| Setting::Field(hir.names.shared(field.name), field.name_span)));
        plan.extend(resource.meta.iter().map(|meta| match meta.param {
            Some((name, at)) => Setting::Meta(hir.names.shared(name), at),
            None => Setting::AllMeta(meta.value, meta.span),
        }));
        let edges = resource.edges.iter();
        plan.extend(edges.map(|edge| Setting::Edge(edge.word, end(hir, &edge.half), edge.half.span)));
        let (kind, span) = (hir.names.shared(resource.kind), hir[stmt].span);
        let name_span = hir[resource.name].span;
        Some(Recipe { schema, kind, collect: resource.collect, name_span, plan, span })
    }

    /// What follows from a name, or several, and the values behind it.
    fn declare(&self, program: &Program, values: &[Value]) -> Fixed {
        let Some((name, settings)) = values.split_first() else { return Err(lost(self.span)) };
        let drafts = match self.collect {
            true => crate::output::collect(name, self.schema, &program.kinds, self.span)
                .map_err(|found| Fault::new(found, false))?,
            false => {
                let names = names(name, self.span)?.into_iter();
                names.map(|name| Draft::new(self.schema, name, self.span)).collect()
            }
        };
        let mut found = Declared::default();
        for draft in drafts {
            let draft = draft.named_at(self.name_span);
            declare(&mut found, draft, &self.plan, settings, &self.kind, &program.checked)?;
        }
        found.sound()
    }
}

impl Program {
    /// What a statement declares, if it is a resource and all that it is made of is always the same: as it is with most of them.
    fn fixed(&self, stmt: StmtId) -> Option<Fixed> {
        let StmtKind::Resource(resource) = &self.checked.hir[stmt].kind else { return None };
        if resource.collect {
            return None;
        }
        let mut given = Vec::with_capacity(1 + resource.fields.len());
        given.push(self.literal(resource.name)?);
        for (condition, value) in inputs(resource) {
            given.push(self.literal(value).filter(|_| condition.is_none())?);
        }
        Some(Recipe::new(self, stmt, resource)?.declare(self, &given))
    }

    /// The same for several, in their order. Nothing if there is no stack that is deep enough.
    pub(super) fn all_fixed(&self, stmts: &[StmtId]) -> Vec<Option<Fixed>> {
        let depth = self.checked.depth;
        let find = || stmts.iter().map(|&stmt| self.fixed(stmt)).collect();
        mgmt_syntax::with_deep_stack(depth, find).unwrap_or_default()
    }
}

impl Builder<'_> {
    pub(super) fn resource(
        &mut self,
        frame: &Arc<Frame>,
        stmt: StmtId,
        resource: &Resource,
        known: Option<Fixed>,
    ) {
        let home = frame.home;
        match known.or_else(|| self.program.fixed(stmt)) {
            Some(Ok(found)) => {
                let node = self.graph.constant(home, Datum::Declared(Arc::new(found)));
                self.graph.mark_output(node);
                // What is always there is never frozen.
                if frame.spot.owner.is_some() {
                    lock(&self.program.outputs).add(node, stmt, frame.spot.at(stmt));
                }
                return;
            }
            Some(Err(fault)) => return self.output(frame, stmt, &[], move |_| Err(fault.clone())),
            None => {}
        }
        let Some(recipe) = Recipe::new(&self.program, stmt, resource) else {
            let span = self.program.checked.hir[stmt].span;
            return self.output(frame, stmt, &[], move |_| Err(lost(span)));
        };
        // In order; nothing for those that come from nodes.
        let mut given: Vec<Option<Value>> = Vec::with_capacity(1 + recipe.plan.len());
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut push = |input: Input| match input {
            Input::Value(value) => given.push(Some(value)),
            Input::Node(node) => {
                given.push(None);
                nodes.push(node);
            }
        };
        match resource.collect {
            false => push(self.input(frame, None, resource.name)),
            true => {
                let names = self.expr(frame, home, resource.name);
                push(Input::Node(self.exported(home, recipe.schema.kind, names, recipe.span)));
            }
        }
        inputs(resource).for_each(|(condition, value)| push(self.input(frame, condition, value)));
        let program = self.program.clone();
        self.output(frame, stmt, &nodes, move |values: &[Value]| {
            let mut values = values.iter().cloned();
            let values: Vec<Value> =
                given.iter().filter_map(|given| given.clone().or_else(|| values.next())).collect();
            recipe.declare(&program, &values)
        });
    }

    /// What a resource is given, as a value if it is always the same.
    fn input(&mut self, frame: &Arc<Frame>, condition: Option<ExprId>, value: ExprId) -> Input {
        match self.program.literal(value).filter(|_| condition.is_none()) {
            Some(value) => Input::Value(value),
            None => Input::Node(self.conditional(frame, condition, value)),
        }
    }
}

/// One thing that a resource is made of.
enum Input {
    Value(Value),
    Node(NodeId),
}

fn declare(
    found: &mut Declared,
    mut draft: Draft,
    plan: &[Setting],
    settings: &[Value],
    kind: &Arc<str>,
    checked: &crate::Checked,
) -> Result<(), Fault> {
    let mut others: Vec<(EdgeWord, Vec<End>, Span)> = Vec::new();
    for (setting, value) in plan.iter().zip(settings) {
        if matches!(value, Value::Nil) {
            continue;
        }
        let wrong = match setting {
            Setting::Field(name, at) => draft.set(name, value, *at),
            Setting::Meta(name, at) => draft.set_meta(name, value, *at),
            Setting::AllMeta(written, at) => match value {
                Value::Struct(value) => value.fields.iter().try_for_each(|(name, value)| {
                    draft.set_meta(name, value, checked.hir.place_in_struct(*written, name).unwrap_or(*at))
                }),
                _ => Ok(()),
            },
            Setting::Edge(word, end, at) => {
                others.push((*word, named(end, value, *at)?, *at));
                Ok(())
            }
        };
        found.wrong.extend(wrong.err());
    }
    let places = plan.iter().zip(settings).flat_map(|(setting, value)| {
        let (one, all) = match (setting, value) {
            (Setting::Field(name, at) | Setting::Meta(name, at), _) => (Some((&**name, *at)), None),
            (Setting::AllMeta(written, at), Value::Struct(value)) => (None, Some((*written, *at, value))),
            (Setting::AllMeta(..) | Setting::Edge(..), _) => (None, None),
        };
        let all = all.into_iter().flat_map(|(written, at, value)| {
            let place = move |name: &str| checked.hir.place_in_struct(written, name).unwrap_or(at);
            value.fields.iter().map(move |(name, _)| (&**name, place(name)))
        });
        one.into_iter().chain(all)
    });
    match draft.finish(&checked.sources, places) {
        Err(wrong) => found.wrong.push(wrong),
        Ok(declaration) => {
            let me = [End { kind: kind.clone(), name: declaration.spec.id.name.clone(), field: None }];
            for (word, ends, at) in &others {
                match word {
                    EdgeWord::Before => join(found, &me, ends, false, *at),
                    EdgeWord::Notify => join(found, &me, ends, true, *at),
                    EdgeWord::Depend => join(found, ends, &me, false, *at),
                    EdgeWord::Listen => join(found, ends, &me, true, *at),
                }
            }
            found.resources.push(declaration);
        }
    }
    Ok(())
}
