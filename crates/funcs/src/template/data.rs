//! What a template sees.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use mgmt_value::{Str, Type, Value};

use crate::{Failure, text};

/// The type that an integer has in Go.
#[derive(Clone, Copy, Debug)]
pub(super) enum IntType {
    /// Written in the template, a length, or a number in a list.
    Int,
    /// From the language.
    Int64,
    /// A byte of a text.
    Uint8,
}

/// A value in the shape that templates expect.
#[derive(Clone, Debug)]
pub(super) enum Datum {
    /// Nothing: no value was given, or a map has none.
    Nil,
    Bool(bool),
    Int(i64, IntType),
    Float(f64),
    Str(Str),
    List(Rc<Vec<Datum>>),
    /// Sorted by key.
    Map(Rc<Vec<(Datum, Datum)>>),
    /// A struct, which only keys of maps can be.
    Record(Rc<Vec<(String, Datum)>>),
}

impl Datum {
    pub(super) fn from_value(value: &Value) -> Result<Datum, Failure> {
        Ok(match value {
            Value::Bool(value) => Datum::Bool(*value),
            Value::Str(text) => Datum::Str(text.clone()),
            Value::Int(number) => Datum::int64(*number),
            Value::Float(number) => Datum::Float(*number),
            Value::List(list) => {
                let items = list.items.iter().map(Datum::from_value).collect::<Result<Vec<_>, _>>()?;
                Datum::List(Rc::new(items))
            }
            Value::Map(map) => {
                let entry = |(key, value): &(Value, Value)| Ok((Datum::key(key)?, Datum::from_value(value)?));
                Datum::map(map.entries().iter().map(entry).collect::<Result<Vec<_>, Failure>>()?)
            }
            Value::Struct(value) => {
                let field = |(name, value): &(Arc<str>, Value)| {
                    Ok((Datum::Str(Str::from(capitalised(name))), Datum::from_value(value)?))
                };
                Datum::map(value.fields.iter().map(field).collect::<Result<Vec<_>, Failure>>()?)
            }
            Value::Func(_) => return Err(Failure::fatal("a template can't use a function value")),
            Value::Nil => Datum::Nil,
        })
    }

    fn key(value: &Value) -> Result<Datum, Failure> {
        let Value::Struct(value) = value else { return Datum::from_value(value) };
        let field = |(name, value): &(Arc<str>, Value)| Ok((capitalised(name), Datum::key(value)?));
        Ok(Datum::Record(Rc::new(value.fields.iter().map(field).collect::<Result<_, Failure>>()?)))
    }

    pub(super) fn map(mut entries: Vec<(Datum, Datum)>) -> Datum {
        entries.sort_by(|a, b| a.0.order(&b.0));
        Datum::Map(Rc::new(entries))
    }

    pub(super) fn int(number: i64) -> Datum {
        Datum::Int(number, IntType::Int)
    }

    pub(super) fn int64(number: i64) -> Datum {
        Datum::Int(number, IntType::Int64)
    }

    pub(super) fn str(text: impl AsRef<[u8]>) -> Datum {
        Datum::Str(Str::new(text))
    }

    /// A value of the language again, for a function that wants this type.
    pub(super) fn to_value(&self, ty: &Type) -> Option<Value> {
        Some(match (self, ty) {
            (Datum::Bool(value), Type::Bool) => Value::Bool(*value),
            (Datum::Str(text), Type::Str) => Value::Str(text.clone()),
            (Datum::Int(number, _), Type::Int) => Value::Int(*number),
            (Datum::Float(number), Type::Float) => Value::Float(*number),
            (Datum::List(items), Type::List(element)) => {
                let items = items.iter().map(|item| item.to_value(element)).collect::<Option<_>>()?;
                Value::list((**element).clone(), items)
            }
            (Datum::Map(entries), Type::Map(types)) => {
                let entry = |(k, v): &(Datum, Datum)| Some((k.to_value(&types.0)?, v.to_value(&types.1)?));
                let entries = entries.iter().map(entry).collect::<Option<Vec<_>>>()?;
                Value::map(types.0.clone(), types.1.clone(), entries)
            }
            _ => return None,
        })
    }

    /// What counts as true: everything but nothing, zero and what is empty.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Datum::Nil => false,
            Datum::Bool(value) => *value,
            Datum::Int(number, _) => *number != 0,
            Datum::Float(number) => *number != 0.0,
            Datum::Str(text) => !text.is_empty(),
            Datum::List(items) => !items.is_empty(),
            Datum::Map(entries) => !entries.is_empty(),
            Datum::Record(_) => true,
        }
    }

    /// Both are integers, both are texts and so on.
    pub(super) fn is_like(&self, other: &Datum) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The name of its type in messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Datum::Nil => "<nil>",
            Datum::Bool(_) => "bool",
            Datum::Int(_, IntType::Int) => "int",
            Datum::Int(_, IntType::Int64) => "int64",
            Datum::Int(_, IntType::Uint8) => "uint8",
            Datum::Float(_) => "float64",
            Datum::Str(_) => "string",
            Datum::List(_) => "[]interface {}",
            Datum::Map(_) => "map[string]interface {}",
            Datum::Record(_) => "struct",
        }
    }

    /// The type that the value has in Go: lists of plain values, and lists of those, have typed elements.
    pub(super) fn go_type(&self) -> String {
        match self {
            Datum::List(items) => {
                let element = items.iter().map(Datum::go_type).find(|ty| !ty.ends_with("interface {}"));
                match element.filter(|ty| !ty.starts_with("map[") && !ty.starts_with("struct")) {
                    Some(element) => format!("[]{element}"),
                    None => "[]interface {}".to_owned(),
                }
            }
            Datum::Map(entries) => {
                let key = entries.first().map_or_else(|| "string".to_owned(), |(key, _)| key.go_type());
                format!("map[{key}]interface {{}}")
            }
            Datum::Record(fields) => {
                let field = |(name, value): &(String, Datum)| format!("{name} {}", value.go_type());
                let fields: Vec<String> = fields.iter().map(field).collect();
                format!("struct {{ {} }}", fields.join("; "))
            }
            other => other.kind().to_owned(),
        }
    }

    pub(super) fn get<'a>(entries: &'a [(Datum, Datum)], key: &Datum) -> Option<&'a Datum> {
        let found = entries.binary_search_by(|(found, _)| found.order(key)).ok()?;
        Some(&entries[found].1)
    }

    /// A total order for keys.
    pub(super) fn order(&self, other: &Datum) -> Ordering {
        match (self, other) {
            (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
            (Datum::Int(a, _), Datum::Int(b, _)) => a.cmp(b),
            (Datum::Float(a), Datum::Float(b)) => a.total_cmp(b),
            (Datum::Str(a), Datum::Str(b)) => a.cmp(b),
            (Datum::Record(a), Datum::Record(b)) => {
                let fields = a.iter().zip(b.iter()).map(|(x, y)| x.1.order(&y.1));
                fields.into_iter().find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
            }
            _ => self.kind().cmp(other.kind()),
        }
    }
}

fn capitalised(name: &str) -> String {
    let mut characters = name.chars();
    characters.next().map(text::title).into_iter().chain(characters).collect()
}
