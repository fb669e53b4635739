//! One resource: from a map of the document to a [`Spec`].

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use mgmt_resource::{Fields, Id, Meta, Origin, Receive, Registry, Resource, Schema, Spec};
use mgmt_value::{Str, Type};

use crate::diagnostic::Report;
use crate::past::{self, Instead, Removed};
use crate::position::Positions;
use crate::tree::{Entry, NodeId, Span, Tree, shorten};
use crate::{codes, decode, scalar};

/// What everything that reads the document needs.
pub(crate) struct Reading<'t, 's, 'r> {
    pub(crate) tree: &'t Tree<'s>,
    pub(crate) report: &'r mut Report<'s>,
    pub(crate) positions: &'r Positions<'s>,
    pub(crate) file: Arc<str>,
    pub(crate) registry: &'r Registry,
    pub(crate) kinds: HashMap<&'static str, &'static Schema>,
}

/// A resource as it was declared, with the places to point at.
#[derive(Debug)]
pub(crate) struct Declaration {
    pub(crate) spec: Spec,
    /// Its name.
    pub(crate) place: Span,
    /// The entries of `recv`, in the order of [`Spec::receives`].
    pub(crate) receive_places: Vec<Span>,
    /// The name started with `@@`.
    pub(crate) exported: bool,
}

/// Reads a resource. Nothing if it cannot even be named; then the report says why.
///
/// A resource with mistakes in it is still returned, so that edges to it are not reported as well.
pub(crate) fn read(
    cx: &mut Reading<'_, '_, '_>,
    schema: &'static Schema,
    node: NodeId,
) -> Option<Declaration> {
    let Some(entries) = cx.tree.entries(node, cx.report) else {
        let message =
            format!("expected a resource of kind {}, found {}", schema.kind, cx.tree.describe(node));
        cx.report
            .error(codes::WRONG_SHAPE, cx.tree.span(node), message)
            .hint("a resource is a map with a `name`, such as `- name: one`");
        return None;
    };
    let mut draft = Draft::new(schema);
    for entry in &entries {
        match entry.key {
            "name" => draft.read_name(cx, entry),
            "meta" => draft.read_meta(cx, entry),
            "recv" => draft.read_receives(cx, entry),
            _ => draft.read_parameter(cx, entry),
        }
    }
    draft.take_over_removed(cx);
    draft.finish(cx, node)
}

/// A resource that is being read.
struct Draft<'t> {
    schema: &'static Schema,
    name: Name<'t>,
    resource: Box<dyn Resource>,
    meta: Meta,
    /// What was set, with the keys and values that did.
    parameters: Vec<(&'static str, Entry<'t>)>,
    metaparameters: Vec<(&'static str, Span)>,
    removed: Vec<(&'static Removed, NodeId)>,
    receives: Vec<Receive>,
    receive_places: Vec<Span>,
    /// Something is wrong already, so what the kind thinks of the rest would only confuse.
    failed: bool,
}

/// The name, as far as there is one.
enum Name<'t> {
    Missing,
    /// It is no text, and the report says so.
    Wrong,
    Given(&'t str, Span),
}

impl<'t> Draft<'t> {
    fn new(schema: &'static Schema) -> Draft<'t> {
        Draft {
            schema,
            name: Name::Missing,
            resource: (schema.make)(),
            meta: Meta::default(),
            parameters: Vec::new(),
            metaparameters: Vec::new(),
            removed: Vec::new(),
            receives: Vec::new(),
            receive_places: Vec::new(),
            failed: false,
        }
    }

    fn read_name(&mut self, cx: &mut Reading<'t, '_, '_>, entry: &Entry<'t>) {
        self.name = match decode::text(cx.tree, entry.value, "`name`", cx.report) {
            Some(name) => Name::Given(name, cx.tree.span(entry.value)),
            None => Name::Wrong,
        };
    }

    fn read_parameter(&mut self, cx: &mut Reading<'t, '_, '_>, entry: &Entry<'t>) {
        let Some(field) = self.schema.field(entry.key) else { return self.unknown_parameter(cx, entry) };
        if let Some((_, earlier)) = self.parameters.iter().find(|(name, _)| *name == field.name) {
            let message = format!("`{}` and `{}` are the same parameter", earlier.key, shorten(entry.key));
            cx.report
                .warning(codes::SET_TWICE, entry.key_span, message)
                .label("this one counts")
                .also(earlier.key_span, "this one is ignored");
        }
        let resource = &mut self.resource;
        let set = |value: &_| resource.set(field.name, value).unwrap_or(Ok(()));
        self.failed |= !decode::store(cx.tree, entry, field, cx.report, set);
        self.parameters.push((field.name, *entry));
    }

    fn unknown_parameter(&mut self, cx: &mut Reading<'_, '_, '_>, entry: &Entry<'_>) {
        let kind = self.schema.kind;
        if let Some(removed) = past::removed(kind, entry.key) {
            if cx.report.first(codes::REMOVED_PARAMETER, entry.key) {
                let message = format!("{kind} has no parameter `{}` any more", entry.key);
                cx.report.warning(codes::REMOVED_PARAMETER, entry.key_span, message).hint(removed.hint);
            }
            return self.removed.push((removed, entry.value));
        }
        let hint = if Meta::field(entry.key).is_some() {
            Some(format!("`{}` is a metaparameter: write it inside `meta`", shorten(entry.key)))
        } else {
            let names = self.schema.fields.iter().map(|field| field.name).chain(["name", "meta", "recv"]);
            cx.report.suggest(entry.key, names).map(|near| format!("did you mean `{near}`?"))
        };
        let message = format!("{kind} has no parameter `{}`", shorten(entry.key));
        cx.report.unknown_key(codes::UNKNOWN_PARAMETER, entry.key_span, message).maybe_hint(hint);
    }

    fn read_meta(&mut self, cx: &mut Reading<'t, '_, '_>, entry: &Entry<'t>) {
        let Some(entries) = cx.tree.entries(entry.value, cx.report) else {
            if !decode::is_null(cx.tree, entry.value) {
                let message = format!("`meta` expects a map, found {}", cx.tree.describe(entry.value));
                cx.report.error(codes::WRONG_TYPE, cx.tree.span(entry.value), message);
                self.failed = true;
            }
            return;
        };
        for entry in &entries {
            let Some(field) = Meta::field(entry.key) else {
                let near = cx.report.suggest(entry.key, Meta::names());
                let hint = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        format!("the metaparameters are {}", Meta::names().collect::<Vec<_>>().join(", "))
                    }
                };
                let message = format!("there is no metaparameter `{}`", shorten(entry.key));
                cx.report.error(codes::UNKNOWN_META, entry.key_span, message).hint(hint);
                self.failed = true;
                continue;
            };
            let meta: &mut dyn Any = &mut self.meta;
            self.failed |= !decode::store(cx.tree, entry, field, cx.report, |value| (field.set)(meta, value));
            self.metaparameters.push((field.name, cx.tree.span(entry.value)));
        }
    }

    fn read_receives(&mut self, cx: &mut Reading<'t, '_, '_>, entry: &Entry<'t>) {
        let Some(entries) = cx.tree.entries(entry.value, cx.report) else {
            if !decode::is_null(cx.tree, entry.value) {
                let message = format!("`recv` expects a map, found {}", cx.tree.describe(entry.value));
                cx.report
                    .error(codes::BAD_RECEIVE, cx.tree.span(entry.value), message)
                    .hint("write `recv: {parameter: {kind: …, name: …, key: …}}`");
                self.failed = true;
            }
            return;
        };
        for entry in &entries {
            match self.read_receive(cx, entry) {
                Some(receive) if self.receives.iter().any(|other| other.field == receive.field) => {
                    let message = format!("`{}` is received twice", receive.field);
                    cx.report.error(codes::BAD_RECEIVE, entry.key_span, message);
                    self.failed = true;
                }
                Some(receive) => {
                    self.receives.push(receive);
                    self.receive_places.push(cx.tree.span(entry.value));
                }
                None => self.failed = true,
            }
        }
    }

    fn read_receive(&mut self, cx: &mut Reading<'t, '_, '_>, entry: &Entry<'t>) -> Option<Receive> {
        let Some(field) = self.schema.field(entry.key) else {
            let near = cx.report.suggest(entry.key, self.schema.fields.iter().map(|field| field.name));
            let message =
                format!("{} has no parameter `{}` to receive", self.schema.kind, shorten(entry.key));
            cx.report
                .error(codes::UNKNOWN_RECEIVE, entry.key_span, message)
                .maybe_hint(near.map(|near| format!("did you mean `{near}`?")));
            return None;
        };
        let (sender, name, key) = read_sender(cx, entry)?;
        let key_span = cx.tree.span(key);
        let key = decode::text(cx.tree, key, "`key`", cx.report)?;
        let Some(sent) = sender.sent(key) else {
            let names: Vec<_> = sender.sends.iter().map(|sent| sent.name).collect();
            let hint = match names.is_empty() {
                true => format!("{} sends nothing", sender.kind),
                false => format!("{} sends {}", sender.kind, names.join(", ")),
            };
            let message = format!("{} does not send `{}`", sender.kind, shorten(key));
            cx.report.error(codes::NOT_SENT, key_span, message).hint(hint);
            return None;
        };
        let (wanted, offered) = ((field.ty)(), (sent.ty)());
        if wanted != offered && !holds_variant(&wanted) && !holds_variant(&offered) {
            let message = format!("`{}` is {wanted}, and `{}` is sent as {offered}", field.name, sent.name);
            cx.report.error(codes::RECEIVE_TYPE, key_span, message);
            return None;
        }
        Some(Receive { field: field.name, from: Id::new(sender.kind, name), key: sent.name })
    }

    /// Gives the values of parameters that are gone to the metaparameters that took their place.
    fn take_over_removed(&mut self, cx: &mut Reading<'_, '_, '_>) {
        for (removed, node) in std::mem::take(&mut self.removed) {
            let number = cx.tree.scalar(node).and_then(|(_, _, text)| scalar::float(text));
            let number = number.filter(|number| number.is_finite() && *number > 0.0).unwrap_or(0.0);
            let given = |name| self.metaparameters.iter().any(|(given, _)| *given == name);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a cast from float stops at the bounds, and the number is not negative"
            )]
            match removed.instead {
                Instead::Timeout if number > 0.0 && !given("timeout") => {
                    self.meta.timeout = (number * 1000.0).ceil() as u64;
                }
                Instead::Poll if number > 0.0 && !given("poll") => self.meta.poll = number.ceil() as i32,
                _ => {}
            }
        }
    }

    fn finish(self, cx: &mut Reading<'_, '_, '_>, node: NodeId) -> Option<Declaration> {
        let kind = self.schema.kind;
        let (name, place) = match self.name {
            Name::Given(name, place) => (name, place),
            Name::Wrong => return None,
            Name::Missing => {
                let message = format!("a resource of kind {kind} has no `name`");
                cx.report.error(codes::BAD_NAME, cx.tree.span(node), message).hint("add `name: …` to it");
                return None;
            }
        };
        let (exported, name) = match name.strip_prefix("@@") {
            Some(name) => (true, name),
            None => (false, name),
        };
        if name.is_empty() {
            let message = format!("the name of a resource of kind {kind} is empty");
            cx.report.error(codes::BAD_NAME, place, message);
            return None;
        }
        if name.starts_with('$') && !self.meta.dollar {
            let message = format!("the name `{}` starts with a dollar sign", shorten(name));
            cx.report
                .error(codes::BAD_NAME, place, message)
                .hint("if that is meant, add `meta: {dollar: true}`; variables are not expanded in YAML");
        }
        let name = Str::from(name);
        if !self.failed {
            self.validate(cx, &name, place);
        }
        let at = cx.positions.locate(cx.tree.span(node).start as usize);
        let spec = Spec {
            meta: self.meta.into(),
            receives: self.receives,
            origin: Some(Origin { file: cx.file.clone(), line: at.line, column: at.column }),
            ..Spec::of(name, Arc::from(self.resource))
        };
        Some(Declaration { spec, place, receive_places: self.receive_places, exported })
    }

    fn validate(&self, cx: &mut Reading<'_, '_, '_>, name: &Str, place: Span) {
        let who = Id::new(self.schema.kind, name.clone());
        if let Err(invalid) = self.meta.validate() {
            let at =
                invalid.field.and_then(|field| self.metaparameters.iter().find(|(name, _)| *name == field));
            let at = at.or(self.metaparameters.last()).map_or(place, |(_, span)| *span);
            decode::refuse(&invalid, codes::INVALID_META, at, &who, cx.report);
        }
        if self.meta.hidden {
            return;
        }
        if let Err(invalid) = self.resource.validate(name) {
            let given = |field| self.parameters.iter().rfind(|(name, _)| *name == field);
            let at = invalid.field.and_then(given).map_or(place, |(field, entry)| {
                let secret = self.schema.field(field).is_some_and(|field| field.secret);
                if secret { entry.key_span } else { cx.tree.span(entry.value) }
            });
            decode::refuse(&invalid, codes::INVALID, at, &who, cx.report);
        }
    }
}

/// The kind and name of who sends, and the node that says which value.
fn read_sender<'t>(
    cx: &mut Reading<'t, '_, '_>,
    entry: &Entry<'t>,
) -> Option<(&'static Schema, &'t str, NodeId)> {
    let entries = cx.tree.entries(entry.value, cx.report).unwrap_or_default();
    let find = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| entry.value);
    let (Some(kind), Some(name), Some(key)) = (find("kind"), find("name"), find("key")) else {
        let missing: Vec<_> = ["kind", "name", "key"].into_iter().filter(|key| find(key).is_none()).collect();
        let message = format!("the sender of `{}` lacks {}", shorten(entry.key), missing.join(", "));
        cx.report
            .error(codes::BAD_RECEIVE, cx.tree.span(entry.value), message)
            .hint("write `parameter: {kind: …, name: …, key: …}`");
        return None;
    };
    for extra in entries.iter().filter(|entry| !["kind", "name", "key"].contains(&entry.key)) {
        let message = format!("a sender has no key `{}`", shorten(extra.key));
        cx.report.unknown_key(codes::UNKNOWN_PARAMETER, extra.key_span, message);
    }
    let at = cx.tree.span(kind);
    let kind = decode::text(cx.tree, kind, "`kind`", cx.report)?;
    let name = decode::text(cx.tree, name, "`name`", cx.report)?;
    Some((cx.schema(kind, at)?, name, key))
}

impl Reading<'_, '_, '_> {
    /// Looks a kind up, in lower case; reports it if there is none.
    pub(crate) fn schema(&mut self, kind: &str, at: Span) -> Option<&'static Schema> {
        if let Some(schema) = self.kinds.get(kind).or_else(|| self.kinds.get(&*kind.to_lowercase())) {
            return Some(schema);
        }
        self.unknown_kind(kind, at);
        None
    }

    pub(crate) fn unknown_kind(&mut self, kind: &str, at: Span) {
        if past::exists_elsewhere(kind) {
            let message = format!("the kind `{kind}` is not built yet");
            self.report
                .error(codes::NOT_BUILT, at, message)
                .hint("this version of the program does not have it");
            return;
        }
        let near = self.registry.suggest(kind).map(|near| format!("did you mean `{near}`?"));
        let message = format!("there is no kind `{}`", shorten(kind));
        self.report.error(codes::UNKNOWN_KIND, at, message).maybe_hint(near);
    }
}

/// Whether a value of any type may be in it.
fn holds_variant(ty: &Type) -> bool {
    match ty {
        Type::Variant | Type::Var(_) => true,
        Type::List(element) => holds_variant(element),
        Type::Map(types) => holds_variant(&types.0) || holds_variant(&types.1),
        Type::Struct(fields) => fields.iter().any(|(_, ty)| holds_variant(ty)),
        _ => false,
    }
}
