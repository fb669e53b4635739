//! Types and their text.

use std::fmt;
use std::sync::Arc;

/// A type of the language.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `bool`
    Bool,
    /// `str`, a byte string
    Str,
    /// `int`, 64 bits, signed
    Int,
    /// `float`, 64 bits
    Float,
    /// `[]T`
    List(Arc<Type>),
    /// `map{K: V}`
    Map(Arc<(Type, Type)>),
    /// `struct{a T; b U}`
    Struct(Arc<[(Arc<str>, Type)]>),
    /// `func(a T) R`
    Func(Arc<FuncType>),
    /// `variant`: a value of any type
    Variant,
    /// `nil`: no value
    Nil,
    /// A type not known yet, printed as `?1`
    Var(u32),
}

/// The type of a function: named arguments and a result.
#[derive(Clone, Debug)]
pub struct FuncType {
    /// Argument names and types; a name does not take part in comparison.
    pub args: Vec<(Arc<str>, Type)>,
    /// The result.
    pub result: Type,
}

impl PartialEq for FuncType {
    fn eq(&self, other: &FuncType) -> bool {
        self.result == other.result
            && self.args.len() == other.args.len()
            && self.args.iter().zip(&other.args).all(|(a, b)| a.1 == b.1)
    }
}

impl Eq for FuncType {}

impl std::hash::Hash for FuncType {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.result.hash(state);
        self.args.len().hash(state);
        for (_, ty) in &self.args {
            ty.hash(state);
        }
    }
}

impl Type {
    /// `[]element`
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    /// `map{key: value}`
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    /// `struct{…}` with these fields in this order
    pub fn structure<N: Into<Arc<str>>>(fields: impl IntoIterator<Item = (N, Type)>) -> Type {
        Type::Struct(fields.into_iter().map(|(name, ty)| (name.into(), ty)).collect())
    }

    /// `func(…) result` with these arguments
    pub fn func<N: Into<Arc<str>>>(args: impl IntoIterator<Item = (N, Type)>, result: Type) -> Type {
        let args = args.into_iter().map(|(name, ty)| (name.into(), ty)).collect();
        Type::Func(Arc::new(FuncType { args, result }))
    }

    /// Whether a value of this type may be a map key.
    pub fn is_hashable(&self) -> bool {
        match self {
            Type::Bool | Type::Str | Type::Int | Type::Float => true,
            Type::Struct(fields) => fields.iter().all(|(_, ty)| ty.is_hashable()),
            _ => false,
        }
    }

    /// The kind's name in messages: `list` for `[]int`.
    pub fn kind(&self) -> &'static str {
        match self {
            Type::Bool => "bool",
            Type::Str => "str",
            Type::Int => "int",
            Type::Float => "float",
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Struct(_) => "struct",
            Type::Func(_) => "func",
            Type::Variant => "variant",
            Type::Nil => "nil",
            Type::Var(_) => "unification",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::List(element) => write!(f, "[]{element}"),
            Type::Map(pair) => write!(f, "map{{{}: {}}}", pair.0, pair.1),
            Type::Struct(fields) => {
                f.write_str("struct{")?;
                for (i, (name, ty)) in fields.iter().enumerate() {
                    write!(f, "{}{name} {ty}", if i == 0 { "" } else { "; " })?;
                }
                f.write_str("}")
            }
            Type::Func(func) => {
                f.write_str("func(")?;
                for (i, (name, ty)) in func.args.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    match name.is_empty() {
                        true => write!(f, "{i} {ty}")?,
                        false => write!(f, "{name} {ty}")?,
                    }
                }
                write!(f, ") {}", func.result)
            }
            Type::Var(number) => write!(f, "?{number}"),
            simple => f.write_str(simple.kind()),
        }
    }
}
