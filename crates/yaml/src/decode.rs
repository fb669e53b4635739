//! From a node to a value of the type that a field has.

use std::fmt;

use mgmt_resource::{FieldSpec, Invalid};
use mgmt_value::{Mismatch, Str, Type, Value};

use crate::codes;
use crate::diagnostic::Report;
use crate::scalar::{self, Natural, NotInt};
use crate::tree::{Content, Entry, NodeId, Span, Style, Tag, Tree, shorten};

/// What became of a node.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// A value of the wanted type, or [`Value::Nil`] for an optional field.
    Value(Value),
    /// Nothing was written: the field keeps its default.
    Unset,
    /// It has another type, and the report says so.
    Wrong,
}

/// Decodes the value of a field, stores it with `set`, and says whether that went well.
pub(crate) fn store(
    tree: &Tree<'_>,
    entry: &Entry<'_>,
    field: &FieldSpec,
    report: &mut Report<'_>,
    set: impl FnOnce(&Value) -> Result<(), Mismatch>,
) -> bool {
    let ty = (field.ty)();
    let mut decoder = Decoder { tree, report, field, key: entry.key_span, whole: &ty };
    match decoder.field(entry.value) {
        Decoded::Unset => true,
        Decoded::Wrong => false,
        Decoded::Value(value) => match set(&value) {
            Ok(()) => true,
            Err(mismatch) => {
                let code = match mismatch {
                    Mismatch::Range { .. } => codes::OUT_OF_RANGE,
                    _ => codes::WRONG_TYPE,
                };
                let message = match field.secret {
                    true => format!("`{}`: the value does not fit", field.name),
                    false => format!("`{}`: {mismatch}", field.name),
                };
                decoder.complain(code, entry.value, message, "");
                false
            }
        },
    }
}

/// The text of a scalar that is text by definition: a name, a kind, a comment.
///
/// Null is the empty text. A list or a map is reported as not being `what`.
pub(crate) fn text<'t>(
    tree: &'t Tree<'_>,
    node: NodeId,
    what: impl fmt::Display,
    report: &mut Report<'_>,
) -> Option<&'t str> {
    match tree.scalar(node) {
        Some((Style::Plain, Tag::None, text)) if scalar::is_null(text) => Some(""),
        Some((_, _, text)) => Some(text),
        None => {
            let message = format!("{what} has to be text, found {}", tree.describe(node));
            report.error(codes::WRONG_TYPE, tree.span(node), message);
            None
        }
    }
}

/// A truth value by definition, such as whether an edge notifies. Null is false.
pub(crate) fn flag(tree: &Tree<'_>, node: NodeId, what: &str, report: &mut Report<'_>) -> Option<bool> {
    let plain = tree.scalar(node).filter(|(style, tag, _)| is_plain(*style, *tag));
    let value = plain
        .and_then(|(_, _, text)| if scalar::is_null(text) { Some(false) } else { scalar::boolean(text) });
    if value.is_none() {
        let message = format!("{what} expects bool, found {}", tree.describe(node));
        report
            .error(codes::WRONG_TYPE, tree.span(node), message)
            .hint("write `true` or `false`, without quotes");
    }
    value
}

/// Where to point for a parameter that its kind refuses, and what to say.
pub(crate) fn refuse(
    invalid: &Invalid,
    code: &'static str,
    at: Span,
    who: impl fmt::Display,
    report: &mut Report<'_>,
) {
    report.error(code, at, format!("{who}: {invalid}")).maybe_hint(invalid.hint.as_deref());
}

struct Decoder<'d, 's, 'r> {
    tree: &'d Tree<'s>,
    report: &'d mut Report<'r>,
    field: &'d FieldSpec,
    key: Span,
    /// The type of the whole field, for messages about a part of it.
    whole: &'d Type,
}

impl Decoder<'_, '_, '_> {
    fn field(&mut self, node: NodeId) -> Decoded {
        let whole = self.whole;
        if !self.is_null(node) {
            return self.value(node, whole).map_or(Decoded::Wrong, Decoded::Value);
        }
        match whole {
            _ if self.field.optional => Decoded::Value(Value::Nil),
            Type::Variant => Decoded::Value(Value::Nil),
            Type::Str => Decoded::Value(Value::Str(Str::EMPTY)),
            _ => Decoded::Unset,
        }
    }

    /// Nothing: the node is not of that type, and that has been reported.
    fn value(&mut self, node: NodeId, ty: &Type) -> Option<Value> {
        match ty {
            Type::Bool | Type::Int | Type::Float | Type::Str => self.simple(node, ty),
            Type::List(element) => {
                let Some(items) = self.tree.items(node) else { return self.wrong(node, ty) };
                // All items are looked at, so that all mistakes are found.
                let items: Vec<_> = items.map(|item| self.value(item, element)).collect();
                Some(Value::list((**element).clone(), items.into_iter().collect::<Option<_>>()?))
            }
            Type::Map(types) => {
                let Some(entries) = self.tree.entries(node, self.report) else { return self.wrong(node, ty) };
                let entries: Vec<_> =
                    entries.iter().map(|entry| self.map_entry(entry, &types.0, &types.1)).collect();
                let entries = entries.into_iter().collect::<Option<Vec<_>>>()?;
                Some(Value::map(types.0.clone(), types.1.clone(), entries))
            }
            Type::Struct(fields) => {
                let Some(entries) = self.tree.entries(node, self.report) else { return self.wrong(node, ty) };
                let values: Vec<_> = entries.iter().map(|entry| self.struct_field(entry, fields)).collect();
                let values = values.into_iter().collect::<Option<Vec<_>>>()?;
                Some(Value::structure(values.into_iter().flatten()))
            }
            Type::Variant | Type::Var(_) => self.natural(node),
            Type::Func(_) | Type::Nil => {
                let message = format!(
                    "`{}` can't be set in YAML: a {} has no written form",
                    self.field.name,
                    ty.kind()
                );
                self.complain(codes::WRONG_TYPE, node, message, "");
                None
            }
        }
    }

    fn simple(&mut self, node: NodeId, ty: &Type) -> Option<Value> {
        let tree = self.tree;
        let Some((style, tag, text)) = tree.scalar(node) else { return self.wrong(node, ty) };
        let (value, hint) = match ty {
            Type::Str if tag == Tag::Binary => return self.binary(node, text),
            Type::Str if self.is_null(node) => return Some(Value::Str(Str::EMPTY)),
            Type::Str => return Some(Value::str(text)),
            Type::Bool => (scalar::boolean(text).map(Value::Bool), "write `true` or `false`"),
            Type::Float => (scalar::float(text).map(Value::Float), "write a number such as `1.5`, or `.inf`"),
            _ => match scalar::integer(text) {
                Ok(number) => (Some(Value::Int(number)), ""),
                Err(error) => (None, explain(error)),
            },
        };
        match value {
            Some(value) if is_plain(style, tag) => Some(value),
            Some(_) => self.wrong_with(node, ty, "take the quotes away: a value in quotes is always text"),
            None => self.wrong_with(node, ty, hint),
        }
    }

    fn binary(&mut self, node: NodeId, text: &str) -> Option<Value> {
        let bytes = scalar::base64(text);
        if bytes.is_none() {
            let message = format!("`{}`: the `!!binary` text is not base64", self.field.name);
            self.complain(codes::WRONG_TYPE, node, message, "");
        }
        bytes.map(|bytes| Value::Str(Str::from(bytes)))
    }

    fn map_entry(&mut self, entry: &Entry<'_>, key: &Type, value: &Type) -> Option<(Value, Value)> {
        let found = match key {
            Type::Str => Some(Value::str(entry.key)),
            Type::Bool => scalar::boolean(entry.key).map(Value::Bool),
            Type::Int => scalar::integer(entry.key).ok().map(Value::Int),
            Type::Float => scalar::float(entry.key).map(Value::Float),
            _ => None,
        };
        if found.is_none() {
            let message =
                format!("a key of `{}` has to be {key}, found `{}`", self.field.name, shorten(entry.key));
            self.report.error(codes::WRONG_TYPE, entry.key_span, message);
        }
        let value = self.value(entry.value, value);
        Some((found?, value?))
    }

    /// Nothing inside: the field keeps its default.
    fn struct_field(
        &mut self,
        entry: &Entry<'_>,
        fields: &[(std::sync::Arc<str>, Type)],
    ) -> Option<Option<(std::sync::Arc<str>, Value)>> {
        let Some((name, ty)) = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(entry.key)) else {
            let near = self.report.suggest(entry.key, fields.iter().map(|(name, _)| &**name));
            let message = format!("`{}` has no field `{}`", self.field.name, shorten(entry.key));
            self.report
                .unknown_key(codes::UNKNOWN_PARAMETER, entry.key_span, message)
                .maybe_hint(near.map(|near| format!("did you mean `{near}`?")));
            return Some(None);
        };
        if self.is_null(entry.value) {
            return Some(None);
        }
        self.value(entry.value, ty).map(|value| Some((name.clone(), value)))
    }

    /// The value that a node most naturally stands for.
    fn natural(&mut self, node: NodeId) -> Option<Value> {
        if let Some(items) = self.tree.items(node) {
            let items = items.map(|item| self.natural(item)).collect::<Option<Vec<_>>>()?;
            return Some(Value::list(common_type(items.iter()), items));
        }
        if let Some(entries) = self.tree.entries(node, self.report) {
            let values = entries.iter().map(|entry| Some((entry.key, self.natural(entry.value)?)));
            let values = values.collect::<Option<Vec<_>>>()?;
            return Some(match common_type(values.iter().map(|(_, value)| value)) {
                Type::Variant if !values.is_empty() => Value::structure(values),
                ty => {
                    Value::map(Type::Str, ty, values.into_iter().map(|(key, value)| (Value::str(key), value)))
                }
            });
        }
        let (style, tag, text) = self.tree.scalar(node)?;
        match tag {
            Tag::Null => return Some(Value::Nil),
            Tag::Bool => return self.simple(node, &Type::Bool),
            Tag::Int => return self.simple(node, &Type::Int),
            Tag::Float => return self.simple(node, &Type::Float),
            Tag::Binary => return self.binary(node, text),
            Tag::Str | Tag::None => {}
        }
        Some(match scalar::natural(text) {
            _ if !is_plain(style, tag) => Value::str(text),
            Natural::Null => Value::Nil,
            Natural::Bool(value) => Value::Bool(value),
            Natural::Int(value) => Value::Int(value),
            Natural::Float(value) => Value::Float(value),
            Natural::Text => Value::str(text),
        })
    }

    fn is_null(&self, node: NodeId) -> bool {
        is_null(self.tree, node)
    }

    fn wrong<T>(&mut self, node: NodeId, ty: &Type) -> Option<T> {
        let scalar = matches!(self.tree.node(node).content, Content::Scalar(..));
        let hint = match ty {
            Type::List(_) if scalar => "write a list, such as `[a, b]`, also for one item",
            Type::Map(_) | Type::Struct(_) if scalar => "write a map, such as `{key: value}`",
            Type::Str if !scalar => "put the text in quotes if it starts with a bracket",
            _ => "",
        };
        self.wrong_with(node, ty, hint)
    }

    fn wrong_with<T>(&mut self, node: NodeId, ty: &Type, hint: &str) -> Option<T> {
        let Decoder { field, whole, .. } = self;
        let found = match field.secret {
            true => "something else".to_owned(),
            false => self.tree.describe(node),
        };
        let message = match *whole == ty {
            true => format!("`{}` expects {ty}, found {found}", field.name),
            false => format!("`{}` expects {whole}, found {found} where {ty} is expected", field.name),
        };
        self.complain(codes::WRONG_TYPE, node, message, hint);
        None
    }

    /// A secret is not pointed at, because what is pointed at is shown.
    fn complain(&mut self, code: &'static str, node: NodeId, message: String, hint: &str) {
        let at = if self.field.secret { self.key } else { self.tree.span(node) };
        let about = self.field.doc.lines().next().unwrap_or_default();
        self.report
            .error(code, at, message)
            .maybe_hint((!hint.is_empty()).then_some(hint))
            .hint(format!("`{}`: {about}", self.field.name));
    }
}

/// Whether a scalar is left for the reader to find the type of.
fn is_plain(style: Style, tag: Tag) -> bool {
    match tag {
        Tag::None => style == Style::Plain,
        Tag::Int | Tag::Float | Tag::Bool | Tag::Null => true,
        Tag::Str | Tag::Binary => false,
    }
}

/// Whether a node says that there is no value.
pub(crate) fn is_null(tree: &Tree<'_>, node: NodeId) -> bool {
    match tree.scalar(node) {
        Some((_, Tag::Null, _)) => true,
        Some((Style::Plain, Tag::None, text)) => scalar::is_null(text),
        _ => false,
    }
}

fn explain(error: NotInt) -> &'static str {
    match error {
        NotInt::NotANumber => "write a whole number, such as `42`, `0x2a` or `0o52`",
        NotInt::BadOctal => "a number that starts with 0 is octal and has the digits 0 to 7 only",
        NotInt::Fraction => "write a whole number",
        NotInt::TooLarge => "the number has to fit 64 bits",
    }
}

/// The type of all values, or `variant` if they differ or there are none.
fn common_type<'v>(mut values: impl Iterator<Item = &'v Value>) -> Type {
    let first = values.next().map(Value::ty);
    match first {
        Some(ty) if values.all(|value| value.ty() == ty) => ty,
        _ => Type::Variant,
    }
}
