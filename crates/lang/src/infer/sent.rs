//! Types of values that are sent on.
//!
//! What a kind such as `value` sends is of any type: that of the parameter with the same name. For a sender that the
//! program declares this type is known, once everything has been looked at; for one in a generic class, once for each
//! include.

use mgmt_diagnostics::{Diagnostic, Span};
use mgmt_resource::{FieldSpec, Schema};
use mgmt_value::Str;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Checker;
use crate::codes::Code;
use crate::hir::*;
use crate::types::{Ty, Types};

/// A parameter of a resource whose name stands in the text.
type Parameter = (&'static str, Str, &'static str);

/// How many types a parameter of a generic class is looked at with, before it counts as not known.
const MAX_INCLUDES: usize = 64;

/// Parameters that are sent on as they are, and edges that send them.
#[derive(Debug, Default)]
pub(super) struct Forwarded {
    /// Of each declaration. None: not known.
    declared: FxHashMap<Parameter, Vec<Option<Declared>>>,
    edges: Vec<ForwardingEdge>,
    /// Parameters that take their values from other resources.
    received: FxHashSet<Parameter>,
}

/// A declared parameter.
#[derive(Clone, Copy, Debug)]
struct Declared {
    ty: Ty,
    /// Where it is set.
    set: Span,
    /// The class that it is declared in.
    class: Option<ClassId>,
}

#[derive(Debug)]
struct ForwardingEdge {
    from: Parameter,
    sent: Span,
    to: (&'static Schema, &'static FieldSpec),
    wanted: Ty,
    received: Span,
    unused: bool,
}

impl Checker<'_> {
    /// Notes a declared parameter that may be sent on.
    pub(super) fn forwarded(&mut self, schema: &'static Schema, stmt: StmtId, resource: &Resource) {
        let class = self.class_around(self.hir[stmt].block);
        for sent in schema.sends {
            if self.field_type(sent) != Types::VARIANT {
                continue;
            }
            let set = resource.fields.iter().find(|field| self.names.text(field.name) == sent.name);
            let declared = set.and_then(|set| {
                Some(Declared { ty: self.exprs[set.value.index()]?, set: set.name_span, class })
            });
            if set.is_none() && !resource.collect {
                // Nothing is sent.
                continue;
            }
            let declared = declared.filter(|_| !resource.collect);
            for name in self.static_names(resource.name) {
                self.forwarded.declared.entry((schema.kind, name, sent.name)).or_default().push(declared);
            }
        }
    }

    /// Notes that a parameter is sent or received by resources whose names stand in the text.
    pub(super) fn forward(
        &mut self,
        halves: [&EdgeHalf; 2],
        (sender, sent): (&'static Schema, &'static FieldSpec),
        to: (&'static Schema, &'static FieldSpec),
    ) {
        let [from_names, to_names] = halves.map(|half| self.static_names(half.name));
        for name in to_names {
            self.forwarded.received.insert((to.0.kind, name, to.1.name));
        }
        let (found, wanted) = (self.field_type(sent), self.field_type(to.1));
        let [Some((_, sent_span)), Some((_, received))] = halves.map(|half| half.field) else { return };
        if found != Types::VARIANT || wanted == Types::VARIANT {
            return;
        }
        for name in from_names {
            let from = (sender.kind, name, sent.name);
            let edge = ForwardingEdge { from, sent: sent_span, to, wanted, received, unused: self.unused };
            self.forwarded.edges.push(edge);
        }
    }

    /// Holds the types of what is sent on against those that are expected.
    pub(super) fn check_forwarded(&mut self) {
        let Forwarded { declared, edges, received } = std::mem::take(&mut self.forwarded);
        for edge in edges {
            let Some(senders) = declared.get(&edge.from).filter(|_| !received.contains(&edge.from)) else {
                continue;
            };
            let known = senders.iter().map(|sender| self.as_included((*sender)?));
            let Some(senders) = known.collect::<Option<Vec<_>>>() else { continue };
            let senders = senders.concat();
            // A resource can be declared in several branches: one that fits is enough.
            let mut fits =
                |ty: Ty| ty == Types::VARIANT || self.types.unify(edge.wanted, ty, edge.sent).is_ok();
            let Some(&(found, set)) = senders.first() else { continue };
            if senders.iter().any(|(ty, _)| fits(*ty)) {
                continue;
            }
            self.unused = edge.unused;
            let diagnostic =
                self.sent_type((edge.from.0, edge.from.2, found, edge.sent), edge.to, edge.received);
            self.report(diagnostic.label(set, "it is set here"));
        }
    }

    /// The types of a parameter: that of its declaration or, in a generic class, one for each include of that. None: not all are
    /// known.
    fn as_included(&mut self, declared: Declared) -> Option<Vec<(Ty, Span)>> {
        let Declared { set, .. } = declared;
        let mut known = Vec::new();
        let mut open = vec![(declared.ty, declared.class)];
        while let Some((ty, class)) = open.pop() {
            if !self.types.is_open(ty) {
                known.push((ty, set));
                continue;
            }
            let includes = self.instances.iter();
            let includes =
                includes.filter(|(_, instance)| instance.class.is_some() && instance.class == class);
            let mut includes: Vec<StmtId> = includes.map(|(&stmt, _)| stmt).collect();
            includes.sort_unstable();
            if includes.is_empty() || known.len() + open.len() + includes.len() > MAX_INCLUDES {
                return None;
            }
            for stmt in includes {
                let outer = self.class_around(self.hir[stmt].block);
                open.push((self.copy(ty, stmt), outer));
            }
        }
        Some(known)
    }

    /// The names of a resource that stand in the text.
    fn static_names(&self, name: ExprId) -> Vec<Str> {
        let text = |expr: ExprId| match &self.hir[expr].kind {
            ExprKind::Str(text) => Some(text.clone()),
            _ => None,
        };
        match &self.hir[name].kind {
            ExprKind::List(names) => names.iter().filter_map(|name| text(*name)).collect(),
            _ => text(name).into_iter().collect(),
        }
    }

    /// What is sent is of another type than what is received.
    pub(super) fn sent_type(
        &mut self,
        (sender, sent, found, sent_span): (&str, &str, Ty, Span),
        (receiver, received): (&'static Schema, &'static FieldSpec),
        received_span: Span,
    ) -> Diagnostic {
        let wanted = self.field_type(received);
        let (found, wanted) = (self.text(found), self.text(wanted));
        let message = format!(
            "`{sender}` sends `{sent}` as `{found}`, and `{}` of `{}` is `{wanted}`",
            received.name, receiver.kind
        );
        Code::SentType
            .at(sent_span, message)
            .here(format!("this is `{found}`"))
            .label(received_span, format!("this is `{wanted}`"))
    }
}
