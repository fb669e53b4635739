//! Types of resources and edges.

use mgmt_diagnostics::Span;
use mgmt_resource::{FieldSpec, Fields as _, Schema, Window, did_you_mean};
use mgmt_value::Str;

use super::Checker;
use super::goal::{Goal, Question};
use super::mismatch::Why;
use crate::codes::Code;
use crate::hir::*;
use crate::types::{Shape, Ty, Types};

impl Checker<'_> {
    pub(super) fn resource(&mut self, stmt: StmtId, resource: &Resource) {
        let schema = self.kind(resource.kind, resource.kind_span);
        match schema {
            Some(_) => self.name(resource.name, resource.collect),
            None => self.untyped(resource.name),
        }
        for field in &resource.fields {
            self.condition(field.condition);
            let Some(schema) = schema else {
                self.untyped(field.value);
                continue;
            };
            match schema.field(self.names.text(field.name)) {
                Some(found) => self.field(schema, found, field.value),
                None => {
                    self.untyped(field.value);
                    self.unknown_field(schema, field.name, field.name_span);
                }
            }
        }
        for edge in &resource.edges {
            self.condition(edge.condition);
            self.half(&edge.half);
            if let Some((name, span)) = edge.half.field {
                let message = format!("`.{}` has no meaning here", self.names.text(name));
                self.report(
                    Code::UnknownEdgeWord
                        .at(span, message)
                        .hint("values are sent by an edge of its own: `Kind[\"a\"].out -> Kind[\"b\"].in`"),
                );
            }
        }
        if let Some(schema) = schema {
            self.forwarded(schema, stmt, resource);
        }
        self.meta(stmt, resource);
        self.static_name(resource);
    }

    /// The value of a parameter that does not exist: its type will not become known.
    pub(super) fn untyped(&mut self, value: ExprId) {
        let ty = self.expr(value);
        self.types.give_up(ty, self.hir[value].span);
        self.settle();
    }

    /// The arguments of something that does not exist or does not take them.
    pub(super) fn untyped_arguments(&mut self, arguments: &[ExprId]) {
        for &argument in arguments {
            self.untyped(argument);
        }
    }

    fn condition(&mut self, condition: Option<ExprId>) {
        if let Some(condition) = condition {
            self.check(condition, Types::BOOL, Why::Condition);
        }
    }

    fn kind(&mut self, kind: Name, span: Span) -> Option<&'static Schema> {
        let text = self.names.text(kind).to_owned();
        if let Some(schema) = self.kinds.get(&text) {
            return Some(schema);
        }
        let is_class = self.hir.classes.iter().any(|class| class.name == kind);
        let hint = match self.kinds.suggest(&text) {
            _ if is_class => {
                format!("`{text}` is a class, which is included by a statement: `include {text}(...)`")
            }
            Some(near) => format!("did you mean `{near}`?"),
            None => "`mgmt kinds` lists all kinds".to_owned(),
        };
        self.report(Code::UnknownKind.at(span, format!("there is no kind of resource `{text}`")).hint(hint));
        None
    }

    /// The name of a resource or of the end of an edge.
    fn name(&mut self, expr: ExprId, collect: bool) {
        let ty = self.expr(expr);
        let question = Question::Name { collect };
        self.pose(Goal { question, ty, span: self.hir[expr].span, expr: Some(expr), used_at: None });
    }

    pub(super) fn field_type(&mut self, field: &'static FieldSpec) -> Ty {
        let key: *const FieldSpec = field;
        if let Some(&ty) = self.field_types.get(&key) {
            return ty;
        }
        let ty = self.types.of(&mut self.names, &(field.ty)(), &mut |types, _| types.fresh(1));
        self.field_types.insert(key, ty);
        ty
    }

    fn field(&mut self, schema: &'static Schema, field: &'static FieldSpec, value: ExprId) {
        let wanted = self.field_type(field);
        if wanted == Types::VARIANT {
            self.expr(value);
        } else {
            self.check(value, wanted, Why::Field(schema, field));
        }
    }

    fn unknown_field(&mut self, schema: &'static Schema, name: Name, span: Span) {
        let text = self.names.text(name).to_owned();
        let known = || schema.fields.iter().map(|field| field.name);
        let hint = if let Some(near) = did_you_mean(&text, known()) {
            format!("did you mean `{near}`?")
        } else if let Some(meta) = mgmt_resource::Meta::field(&text) {
            format!("it is a metaparameter: write `Meta:{} => ...`", meta.name)
        } else {
            let names: Vec<&str> = known().collect();
            format!("it has: {}", names.join(", "))
        };
        let message = format!("`{}` has no parameter `{text}`", schema.kind);
        self.report(Code::UnknownField.at(span, message).hint(hint));
    }

    fn meta(&mut self, stmt: StmtId, resource: &Resource) {
        let mut set: Vec<(&'static str, Span, bool)> = Vec::new();
        for meta in &resource.meta {
            self.condition(meta.condition);
            match meta.param {
                Some((name, span)) => match self.meta_field(name, span) {
                    Some(field) => {
                        let wanted = self.field_type(field);
                        self.check(meta.value, wanted, Why::Meta(field));
                        self.set_once(stmt, &mut set, field.name, span, false);
                        self.static_meta(field, meta.value);
                    }
                    None => self.untyped(meta.value),
                },
                None => self.meta_struct(stmt, &mut set, meta.value),
            }
        }
    }

    fn meta_field(&mut self, name: Name, span: Span) -> Option<&'static FieldSpec> {
        let text = self.names.text(name).to_owned();
        let fields = mgmt_resource::Meta::FIELDS;
        if let Some(field) = fields.iter().find(|field| field.name == text) {
            return Some(field);
        }
        let hint = match did_you_mean(&text, fields.iter().map(|field| field.name)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
                format!("they are: {}", names.join(", "))
            }
        };
        let message = format!("there is no metaparameter `{text}`");
        self.report(Code::UnknownMeta.at(span, message).hint(hint));
        None
    }

    /// `Meta => struct{…}`: any of the metaparameters, in any order.
    fn meta_struct(&mut self, stmt: StmtId, set: &mut Vec<(&'static str, Span, bool)>, value: ExprId) {
        let ty = self.expr(value);
        if let ExprKind::Struct(written) = &self.hir[value].kind {
            for &(name, place, value) in written {
                let found = self.exprs[value.index()].unwrap_or(Types::ERROR);
                let Some(field) = self.meta_field(name, place) else {
                    self.types.give_up(found, place);
                    self.settle();
                    continue;
                };
                let wanted = self.field_type(field);
                self.equate(wanted, found, self.hir[value].span, Why::Meta(field), None);
                self.set_once(stmt, set, field.name, place, true);
                self.static_meta(field, value);
            }
            return;
        }
        let span = self.hir[value].span;
        if let Shape::Struct(fields) = self.types.shape(ty).clone() {
            for (name, _) in fields {
                let name = mgmt_resource::Meta::field(self.names.text(name)).map(|field| field.name);
                name.into_iter().for_each(|name| self.set_once(stmt, set, name, span, true));
            }
        }
        self.pose(Goal { question: Question::Meta, ty, span, expr: Some(value), used_at: None });
    }

    /// The type of a struct of metaparameters that does not stand there itself.
    pub(super) fn meta_type(&mut self, goal: &Goal, ty: Ty, shape: &Shape) {
        let Shape::Struct(fields) = shape else {
            let message = format!("expected a struct of metaparameters, found `{}`", self.text(ty));
            let found = Code::MetaType
                .at(goal.span, message)
                .hint("write `Meta => struct{noop => true}`, or `Meta:noop => true` for one");
            self.refuse(goal, ty, found);
            return;
        };
        for &(name, found) in fields {
            let Some(field) = self.meta_field(name, goal.span) else { continue };
            let wanted = self.field_type(field);
            self.equate(wanted, found, goal.span, Why::Meta(field), goal.used_at);
        }
    }

    fn set_once(
        &mut self,
        stmt: StmtId,
        set: &mut Vec<(&'static str, Span, bool)>,
        name: &'static str,
        span: Span,
        in_struct: bool,
    ) {
        match set.iter().find(|(other, _, _)| *other == name) {
            // Twice by itself has been reported before.
            Some((_, _, false)) if !in_struct => {}
            Some((_, first, _)) => {
                let resource = match &self.hir[stmt].kind {
                    StmtKind::Resource(resource) => resource.kind_span,
                    _ => self.hir[stmt].span,
                };
                let diagnostic = Code::DuplicateMetaStruct
                    .at(span, format!("the metaparameter `{name}` is set twice"))
                    .label(*first, "it is set here first")
                    .label(resource, "in this resource");
                self.report(diagnostic);
            }
            None => set.push((name, span, in_struct)),
        }
    }

    /// Words of a window that stand in the text can be looked at, each by itself, and together if all do.
    fn static_meta(&mut self, field: &'static FieldSpec, value: ExprId) {
        let hir = self.hir;
        let ("window", ExprKind::List(elements)) = (field.name, &hir[value].kind) else { return };
        let words: Vec<(&Str, Span)> = elements
            .iter()
            .filter_map(|element| match &hir[*element].kind {
                ExprKind::Str(word) => Some((word, hir[*element].span)),
                _ => None,
            })
            .collect();
        let single = words.iter().filter(|(word, _)| word.as_str() != Some("calendar"));
        let wrong = single.filter_map(|(word, span)| {
            Window::parse(std::slice::from_ref(*word)).err().map(|invalid| (invalid, *span))
        });
        let mut wrong: Vec<_> = wrong.collect();
        if wrong.is_empty() && words.len() == elements.len() {
            let all: Vec<Str> = words.iter().map(|(word, _)| (*word).clone()).collect();
            wrong.extend(Window::parse(&all).err().map(|invalid| (invalid, hir[value].span)));
        }
        for (invalid, span) in wrong {
            let found = Code::BadResource.at(span, invalid.to_string());
            self.report(found.maybe_hint(invalid.hint));
        }
    }

    /// A name that stands in the text can be looked at.
    fn static_name(&mut self, resource: &Resource) {
        let ExprKind::Str(name) = &self.hir[resource.name].kind else { return };
        let allowed = resource
            .meta
            .iter()
            .any(|meta| meta.param.is_none_or(|(param, _)| self.names.text(param) == "dollar"));
        let span = self.hir[resource.name].span;
        if name.is_empty() {
            let message = "the name of a resource cannot be empty";
            self.report(Code::BadName.at(span, message));
        } else if name.first() == Some(&b'$') && !allowed {
            let rest = name.display().to_string();
            let rest = rest.trim_start_matches('$');
            self.report(
                Code::BadName
                    .at(span, "the name starts with a dollar sign")
                    .hint(format!("to read a variable in a string, write `\"${{{rest}}}\"`"))
                    .hint("if the name is meant like this, set `Meta:dollar => true`"),
            );
        }
    }

    fn half(&mut self, half: &EdgeHalf) -> Option<&'static Schema> {
        let schema = self.kind(half.kind, half.kind_span);
        match schema {
            Some(_) => self.name(half.name, false),
            None => self.untyped(half.name),
        }
        schema
    }

    pub(super) fn edge(&mut self, stmt: StmtId, halves: &[EdgeHalf]) {
        let schemas: Vec<Option<&'static Schema>> = halves.iter().map(|half| self.half(half)).collect();
        if let [_] = halves {
            self.report(
                Code::OneHalf
                    .at(self.hir[stmt].span, "an edge needs two ends")
                    .hint("write `A[\"x\"] -> B[\"y\"]`"),
            );
            return;
        }
        let [from, to] = halves else { return };
        let (Some(sender), Some(receiver)) = (schemas[0], schemas[1]) else { return };
        self.send([from, to], sender, receiver);
    }

    fn send(&mut self, halves: [&EdgeHalf; 2], sender: &'static Schema, receiver: &'static Schema) {
        let [Some((sent, sent_span)), Some((received, received_span))] = halves.map(|half| half.field) else {
            return;
        };
        let (sent, received) = (self.names.text(sent).to_owned(), self.names.text(received).to_owned());
        let mut known = true;
        let from = sender.sent(&sent);
        if sender.sends.is_empty() {
            known = false;
            let message = format!("`{}` sends nothing", sender.kind);
            self.report(
                Code::CannotSend
                    .at(sent_span, message)
                    .hint("kinds that send, such as `exec` and `value`, say so in `mgmt kinds`"),
            );
        } else if from.is_none() {
            known = false;
            let names: Vec<&str> = sender.sends.iter().map(|field| field.name).collect();
            let hint = match did_you_mean(&sent, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it sends: {}", names.join(", ")),
            };
            let message = format!("`{}` does not send `{sent}`", sender.kind);
            self.report(Code::UnknownSent.at(sent_span, message).hint(hint));
        }
        if !receiver.traits.receive {
            let message = format!("`{}` cannot receive values", receiver.kind);
            self.report(Code::CannotReceive.at(received_span, message));
            return;
        }
        let Some(to) = receiver.field(&received) else {
            let name = self.names.intern(&received);
            self.unknown_field(receiver, name, received_span);
            return;
        };
        let Some(from) = from.filter(|_| known) else { return };
        self.forward(halves, (sender, from), (receiver, to));
        let (found, wanted) = (self.field_type(from), self.field_type(to));
        if found == Types::VARIANT || wanted == Types::VARIANT {
            return;
        }
        if self.types.unify(wanted, found, received_span).is_err() {
            let diagnostic =
                self.sent_type((sender.kind, &sent, found, sent_span), (receiver, to), received_span);
            self.report(diagnostic);
        }
    }
}
